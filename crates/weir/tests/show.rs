//! `weir show` and `weir top` as their users meet them: without a bottleneck, and with one that `weir up` has made in a
//! network namespace of the test's own, with a TCP connection through it.
//!
//! What needs root prints why it does nothing without it.

#![allow(clippy::disallowed_methods, reason = "traffic runs on the real clock")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

const DEVICE: &str = "wshow0";

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Two network namespaces with a link between; they go when this does.
struct Net {
    near: String,
    far: String,
}

impl Net {
    fn new(name: &str) -> Option<Self> {
        if !weir_testkit::skip::is_root() {
            return None;
        }
        let id = std::process::id();
        let net = Self { near: format!("weir-{name}-a-{id}"), far: format!("weir-{name}-b-{id}") };
        for line in [
            format!("netns add {}", net.near),
            format!("netns add {}", net.far),
            format!("link add {DEVICE} netns {} type veth peer name peer netns {}", net.near, net.far),
            format!("-n {} addr add 10.99.0.1/24 dev {DEVICE}", net.near),
            format!("-n {} addr add 10.99.0.2/24 dev peer", net.far),
            // Segments one by one, as kernels without segmentation offload queue them.
            format!("-n {} link set {DEVICE} gso_max_segs 1 up", net.near),
            format!("-n {} link set peer up", net.far),
        ] {
            let output = Command::new("ip").args(line.split(' ')).output().unwrap();
            assert!(output.status.success(), "ip {line}: {output:?}");
        }
        Some(net)
    }

    /// Runs the command in the namespace with the bottleneck. (`ip netns exec` would give it a /sys of its own, and
    /// with that other pins.)
    fn weir(&self, words: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(words.split_whitespace());
        let near = self.near.clone();
        said(&within(&near, move || command.output().unwrap()))
    }

    fn tc(&self, words: &str) {
        let output = Command::new("tc").args(["-n", &self.near]).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "tc {words}: {output:?}");
    }

    /// Sends `bytes` through the bottleneck by TCP and holds the connection open until the answer is dropped.
    fn send(&self, bytes: usize) -> TcpStream {
        let listener = within(&self.far, || TcpListener::bind("10.99.0.2:0").unwrap());
        let to: SocketAddr = listener.local_addr().unwrap();
        let reader = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut left = bytes;
            let mut buffer = vec![0; 1 << 16];
            while left > 0 {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    more => left -= more,
                }
            }
            left
        });
        let mut stream = within(&self.near, move || TcpStream::connect(to).unwrap());
        stream.write_all(&vec![0; bytes]).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
        stream
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.weir(&format!("down dev {DEVICE}"));
        for name in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Does `work` in a named network namespace. Sockets stay in the one that they were made in.
fn within<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let namespace = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
    let thread = thread::spawn(move || {
        // SAFETY: changes only this thread, which ends below.
        assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
        work()
    });
    thread.join().unwrap()
}

#[test]
fn wrong_words_are_told() {
    let weir = |words: &[&str]| said(&Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().unwrap());
    for (words, told) in [
        (&["show", "eth0", "eth1"][..], "'eth0' and 'eth1'"),
        (&["show", "dev"], "dev needs"),
        (&["top", "flows"], "weir top shows flows"),
        (&["top", "--interval", "5ms"], "100ms"),
        (&["top", "--interval", "soon"], "soon"),
    ] {
        let (code, out, err) = weir(words);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words:?}: {err}");
        assert!(err.contains(told), "{words:?}: {err}");
    }
}

#[test]
fn nothing_to_show_is_no_failure() {
    let Some(net) = Net::new("none") else { return };
    for (words, told) in [("show", "weir up dev DEVICE"), ("show dev wshow0", "weir up dev wshow0")] {
        let (code, out, err) = net.weir(words);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(err.contains(told), "{err}");
    }
    for words in ["show --json", "show flows --json", "show -s -j dev wshow0"] {
        let (code, out, _) = net.weir(words);
        assert_eq!((code, out.as_str()), (Some(0), "[]\n"), "{words}");
    }
    let (code, out, err) = net.weir("top --json --count 1");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("weir up"), "{err}");
    let (code, _, err) = net.weir("top");
    assert!(code == Some(1) && err.contains("--json"), "{err}");
}

#[test]
fn a_bottleneck_is_shown_with_its_flows() {
    let Some(net) = Net::new("up") else { return };
    let (code, _, err) =
        net.weir(&format!("up dev {DEVICE} rate 50mbit standard bfifo limit 8kb responsive bfifo limit 8kb"));
    assert_eq!(code, Some(0), "{err}");
    let open = net.send(4_000_000);
    let source = open.local_addr().unwrap().to_string();

    let (code, out, err) = net.weir("show --json");
    assert_eq!(code, Some(0), "{err}");
    let shown = json(&out);
    assert_eq!(shown.as_array().map(Vec::len), Some(1), "{out}");
    let one = &shown[0];
    assert_eq!(
        (&one["device"], &one["direction"], &one["state"]),
        (&DEVICE.into(), &"egress".into(), &"up".into())
    );
    assert_eq!(one["rate_bits_per_second"], 50_000_000);
    assert_eq!(one["faults"], Value::Array(Vec::new()), "{out}");
    for program in one["programs"].as_array().unwrap() {
        assert!(program["hook"].is_string(), "{program}");
    }
    let sum = |field: &str| -> u64 {
        one["queues"].as_array().unwrap().iter().map(|queue| queue[field].as_u64().unwrap()).sum()
    };
    assert!(sum("bytes") > 4_000_000, "{out}");
    assert_eq!(one["queues"][0]["queue"], "responsive");
    assert_eq!((&one["queues"][0]["handle"], &one["queues"][0]["kind"]), (&"57e2:".into(), &"bfifo".into()));
    assert_eq!(one["flow_table"]["flows"], 1, "{out}");
    // A host lets few bytes of one connection wait in its own queues, but more than these hold.
    assert!(sum("drops") > 0 && one["counters"]["loss_segments"].as_u64() > Some(0), "{out}");

    let flows = json(&net.weir(&format!("show flows dev {DEVICE} --json")).1);
    assert_eq!(flows.as_array().map(Vec::len), Some(1), "{flows}");
    assert_eq!((&flows[0]["source"], &flows[0]["protocol"]), (&source.clone().into(), &"tcp".into()));
    assert!(flows[0]["bytes"].as_u64() >= Some(4_000_000), "{flows}");
    assert!(flows[0]["cycles"].as_u64() > Some(1) && flows[0]["rtt_ms"].as_f64() > Some(0.0), "{flows}");

    let (_, words, _) = net.weir("show -s");
    assert!(words.starts_with(&format!("{DEVICE} egress: up for ")), "{words}");
    for part in [
        "rate 50mbit",
        "57e1:1",
        "forward at the egress of wshow0: ",
        "dropped ",
        "flows 1 of ",
        "loss_segments ",
    ] {
        assert!(words.contains(part), "no '{part}' in {words}");
    }
    assert!(net.weir("show flows").1.contains(&source));

    let (code, lines, err) = net.weir("top --json --count 2 --interval 100ms");
    assert_eq!((code, lines.lines().count()), (Some(0), 2), "{err}");
    for line in lines.lines().map(json) {
        assert_eq!(line["device"], DEVICE);
        assert_eq!(line["flows"][0]["source"], source);
        // Everything was sent before.
        assert_eq!(line["flows"][0]["bits_per_second"], 0.0, "{line}");
        assert_eq!(line["queues"][0]["drops_per_second"], 0.0, "{line}");
    }
}

#[test]
fn a_bottleneck_that_others_have_replaced_is_shown_so() {
    let Some(net) = Net::new("foreign") else { return };
    let (code, _, err) = net.weir(&format!("up dev {DEVICE} rate 50mbit queues bfifo/bfifo"));
    assert_eq!(code, Some(0), "{err}");
    net.tc(&format!("qdisc replace dev {DEVICE} root pfifo"));
    let (code, out, err) = net.weir("show --json");
    assert_eq!(code, Some(1), "{err}");
    let shown = json(&out);
    assert_eq!(shown[0]["state"], "damaged", "{out}");
    let fault = &shown[0]["faults"][0];
    assert!(fault["what"].as_str().unwrap().contains("pfifo"), "{fault}");
    assert!(fault["remedy"].as_str().unwrap().starts_with("weir "), "{fault}");
    assert!(err.contains("to mend it: weir "), "{err}");
}

/// A reload changes what is up; it has been up all the time.
#[test]
fn a_bottleneck_is_up_since_weir_up() {
    let Some(net) = Net::new("since") else { return };
    let (code, _, err) = net.weir(&format!("up dev {DEVICE} rate 50mbit queues bfifo/bfifo flows 64"));
    assert_eq!(code, Some(0), "{err}");
    let since = || {
        let shown = json(&net.weir("show --json").1);
        assert_eq!(shown[0]["state"], "up", "{shown}");
        shown[0]["since_unix_s"].as_u64().unwrap()
    };
    let first = since();
    // Another second must have begun, or the two times would be the same.
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    while now() <= first + 1 {
        thread::sleep(std::time::Duration::from_millis(50));
    }
    for words in ["reload dev wshow0 rate 40mbit", "up dev wshow0 rate 30mbit queues bfifo/bfifo flows 64"] {
        let (code, _, err) = net.weir(words);
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(since(), first, "{words}");
    }
    // Taken down and set up again it is another one.
    net.weir(&format!("down dev {DEVICE}"));
    net.weir(&format!("up dev {DEVICE} rate 50mbit queues bfifo/bfifo flows 64"));
    assert!(since() > first);
}

#[test]
fn what_has_lost_its_journal_is_shown_with_what_mends_it() {
    let Some(net) = Net::new("lost") else { return };
    let up = format!("up dev {DEVICE} rate 50mbit queues bfifo/bfifo flows 64 direction both");
    assert_eq!(net.weir(&up).0, Some(0));
    let inode = within(&net.near, || std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
    let journals = std::fs::read_dir("/run/weir").unwrap().map(|entry| entry.unwrap().path());
    let own = format!("crq-{inode}-");
    let own = journals.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&own));
    let own: Vec<_> = own.collect();
    assert_eq!(own.len(), 1, "{own:?}");
    std::fs::remove_file(&own[0]).unwrap();

    let (code, out, err) = net.weir("show --json");
    assert_eq!(code, Some(1), "{err}");
    let shown = json(&out);
    let sides: Vec<_> =
        shown.as_array().unwrap().iter().map(|one| (&one["device"], &one["direction"])).collect();
    let device = Value::from(DEVICE);
    assert_eq!(sides, [(&device, &"egress".into()), (&device, &"ingress".into())], "{out}");
    for one in shown.as_array().unwrap() {
        assert_eq!(one["state"], "lost", "{out}");
        assert!(one["faults"][0]["what"].as_str().unwrap().contains("journal"), "{out}");
        assert_eq!(one["faults"][0]["remedy"], format!("weir down dev {DEVICE}"), "{out}");
    }
    assert!(err.contains("journal") && err.contains(&format!("to mend it: weir down dev {DEVICE}")), "{err}");
    for words in ["show".to_owned(), format!("show dev {DEVICE}")] {
        let (code, out, err) = net.weir(&words);
        assert_eq!(code, Some(1), "{err}");
        assert!(out.contains(&format!("{DEVICE} egress: lost")), "{out}");
        assert!(out.contains("journal") && out.contains(&format!("mend: weir down dev {DEVICE}")), "{out}");
        assert!(!err.contains("no bottleneck"), "{err}");
    }
    let (code, _, err) = net.weir(&format!("top --json --count 1 dev {DEVICE}"));
    assert!(code == Some(1) && err.contains("journal"), "{err}");
    // The remedy helps, and what is somebody else's is not taken for Weir's.
    assert_eq!(net.weir(&format!("down dev {DEVICE}")).0, Some(0));
    let (code, out, err) = net.weir("show --json");
    assert_eq!((code, out.as_str()), (Some(0), "[]\n"), "{err}");
    net.tc(&format!("qdisc replace dev {DEVICE} root handle 1: htb default 2"));
    assert_eq!(net.weir("show --json").1, "[]\n");
}
