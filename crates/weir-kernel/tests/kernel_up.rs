//! `up`, `reload` and `down` on real interfaces, in namespaces with traffic across: what comes, what stays while it
//! changes, what is undone when it fails, and that nothing is left.

use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_kernel::attach::Hook;
use weir_kernel::{self as kernel, Phase, Setup, Step, UpError};
use weir_testkit::bpf::{self, At};
use weir_testkit::world::{SERVER, World};

/// The bottleneck's address on the way to the server.
const HERE: &str = "10.99.0.9";

/// The bottleneck with an address on `to-s`, the interface that is shaped; packets to and from the server cross it.
fn world() -> Option<World> {
    let world = World::new()?;
    world.bottleneck.sh(&format!("ip addr add {HERE}/24 dev to-s"));
    Some(world)
}

fn setup(words: &str) -> Setup {
    let words: Vec<&str> = words.split_whitespace().collect();
    Setup::from_keys(kernel::parse_words(&words).unwrap()).unwrap()
}

fn go_on(_: &Step) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn up(words: &str) -> Result<kernel::Up, UpError> {
    kernel::up(&setup(words), &mut go_on)
}

fn refusal(words: &str) -> String {
    up(words).unwrap_err().to_string()
}

fn down(device: &str) -> kernel::Down {
    kernel::down(device, &mut go_on).unwrap()
}

/// What a command says in this namespace.
fn said(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[allow(clippy::disallowed_methods)]
fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}

/// Files of this namespace in a folder.
fn files(folder: &str) -> Vec<String> {
    let inode = std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains(&inode.to_string())).collect();
    names.sort();
    names
}

/// Everything that `up` could change, as the kernel and the file system report it.
fn everything(device: &str) -> String {
    let index = |name: &str| {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: the name is terminated.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    };
    let mut all = said("ip -d -o link show; tc qdisc show; ip -o addr show");
    all += &said(&format!(
        "tc class show dev {device}; tc filter show dev {device} ingress; tc filter show dev {device} egress"
    ));
    for egress in [false, true] {
        let programs = bpf::programs(index(device), At::Tcx { egress, first: true });
        all += &format!("tcx, egress {egress}: {programs}\n");
    }
    all += &format!("{:?} {:?}", files("/run/weir"), files("/sys/fs/bpf/weir"));
    // How many packets passed is no setting; an IFB device that is made again has another index and address.
    let lines = all.lines().map(|line| {
        let line = line.split(" direct_packets_stat").next().unwrap();
        match line.find("weir") {
            Some(at) if line.contains("ifb") => line[at..].split("link/ether").next().unwrap().to_owned(),
            _ => without_program_number(line),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A filter of clsact, `... forward:[265] direct-action not_in_hw id 265 name forward tag d3bd9f44df375591 jited`,
/// without the number of its program, which is another when the same program is loaded again.
fn without_program_number(line: &str) -> String {
    let Some((filter, program)) = line.split_once(" id ") else { return line.to_owned() };
    let Some((number, rest)) = program.split_once(' ') else { return line.to_owned() };
    format!("{}{rest}", filter.replace(&format!("[{number}]"), ""))
}

/// All is as it was. What was just unpinned is taken off when the kernel has time for it.
fn assert_as(before: &str, device: &str, when: &str) {
    for _ in 0..200 {
        if everything(device) == before {
            return;
        }
        pause(10);
    }
    assert_eq!(everything(device), before, "{when}");
}

/// Datagrams to the server and back, one after the other, until it is told to stop.
struct Traffic {
    stop: Arc<AtomicBool>,
    echo: JoinHandle<()>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Traffic {
    fn start(world: &World) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        // Ports that are free: a socket that was closed lives on in a child of another test until the child's exec.
        let far = world.server.enter(|| UdpSocket::bind((SERVER, 0)).unwrap());
        let near = world.bottleneck.enter(|| UdpSocket::bind((HERE, 0)).unwrap());
        for socket in [&far, &near] {
            socket.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        }
        near.connect(far.local_addr().unwrap()).unwrap();
        let (sends, stopped) = (near.try_clone().unwrap(), stop.clone());
        let echo_stopped = stop.clone();
        // Both receivers go on until nothing has come for half a second after the last was sent.
        let echo = std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            loop {
                match far.recv_from(&mut bytes) {
                    Ok((length, from)) => assert_eq!(far.send_to(&bytes[..length], from).unwrap(), length),
                    Err(_) if echo_stopped.load(Ordering::Relaxed) => return,
                    Err(_) => {}
                }
            }
        });
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                sends.send(&[0; 200]).unwrap();
                sent += 1;
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            sent
        });
        let stopped = stop.clone();
        let receiver = std::thread::spawn(move || {
            let mut received = 0;
            let mut bytes = [0; 2048];
            loop {
                match near.recv(&mut bytes) {
                    Ok(_) => received += 1,
                    Err(_) if stopped.load(Ordering::Relaxed) => return received,
                    Err(_) => {}
                }
            }
        });
        let traffic = Self { stop, echo, sender, receiver };
        pause(20);
        traffic
    }

    /// How many were sent and how many came back.
    fn stop(self) -> (u64, u64) {
        pause(20);
        self.stop.store(true, Ordering::Relaxed);
        self.echo.join().unwrap();
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }
}

/// Datagrams cross, and none is lost.
fn crosses(world: &World) -> bool {
    let traffic = Traffic::start(world);
    let (sent, received) = traffic.stop();
    sent > 0 && received == sent
}

#[test]
fn it_comes_changes_in_place_and_goes() {
    let Some(world) = world() else { return };
    let before = world.bottleneck.enter(|| everything("to-s"));
    let coming = Traffic::start(&world);
    let done = world
        .bottleneck
        .enter(|| up("to-s rate 200mbit queues bfifo/bfifo direction both ingress_rate 100mbit").unwrap());
    let (sent, received) = coming.stop();
    println!("up: {} of {sent} lost", sent - received);
    assert!(received * 100 >= sent * 95, "{received} of {sent} crossed while it came");
    assert!(!done.steps.is_empty());

    world.bottleneck.enter(|| {
        let instances = kernel::instances().unwrap();
        assert_eq!(instances.len(), 2);
        for instance in &instances {
            assert_eq!((instance.phase, &instance.faults), (Phase::Up, &vec![]), "{instance:#?}");
        }
        assert_eq!(
            up("to-s rate 200mbit queues bfifo/bfifo direction both ingress_rate 100mbit").unwrap().steps,
            []
        );
    });

    // What can be changed without making a queue anew loses no packet.
    let changing = Traffic::start(&world);
    world.bottleneck.enter(|| {
        for words in [
            "to-s rate 150mbit queues bfifo/bfifo direction both ingress_rate 100mbit",
            "to-s rate 150mbit queues bfifo/bfifo direction both ingress_rate 300mbit split hard sharing 30:70",
            "to-s rate 150mbit queues bfifo/bfifo direction both ingress_rate 300mbit set mss=1000",
            "to-s rate 900mbit standard bfifo limit 64kb responsive bfifo limit 64kb direction both preset comsys",
            "to-s rate 50mbit queues bfifo/bfifo",
            "to-s rate 50mbit queues bfifo/bfifo direction both",
        ] {
            assert!(!up(words).unwrap().steps.is_empty(), "{words}");
            let standing = kernel::standing("to-s").unwrap().unwrap();
            assert_eq!(standing, setup(words));
            for instance in kernel::instances().unwrap() {
                assert_eq!(instance.faults, [], "{words}");
            }
        }
    });
    let (sent, received) = changing.stop();
    assert!(sent > 100);
    println!("changes: {} of {sent} lost", sent - received);
    assert!(received * 1000 >= sent * 999, "{received} of {sent} crossed while it changed");

    let going = Traffic::start(&world);
    world.bottleneck.enter(|| assert_eq!(down("to-s").devices, ["to-s"]));
    let (sent, received) = going.stop();
    println!("down: {} of {sent} lost", sent - received);
    assert!(received * 100 >= sent * 95, "{received} of {sent} crossed while it went");
    world.bottleneck.enter(move || {
        assert_as(&before, "to-s", "");
        assert_eq!(down("to-s").steps, []);
        assert_eq!(kernel::instances().unwrap(), []);
    });
}

#[test]
fn interrupted_at_any_step_all_is_as_before() {
    let Some(world) = world() else { return };
    let first = "to-s rate 200mbit queues bfifo/bfifo direction both";
    // Another rate, another kind of queue, another law and table, one direction less.
    let second =
        "to-s rate 80mbit standard pfifo responsive bfifo limit 50kb split hard set mss=1000 flows 128";
    world.bottleneck.enter(|| {
        let clean = everything("to-s");
        let mut steps = 0;
        let break_at = |words: &str, at: usize| {
            let mut count = 0;
            kernel::up(&setup(words), &mut |_| {
                count += 1;
                if count > at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        };
        while let Err(error) = break_at(first, steps) {
            assert!(error.is_interruption() && error.to_string().contains("as it was before"), "{error}");
            assert_as(&clean, "to-s", &format!("step {steps}"));
            steps += 1;
        }
        assert!(steps > 10, "{steps}");
        let standing = everything("to-s");
        steps = 0;
        while let Err(error) = break_at(second, steps) {
            assert!(error.is_interruption(), "{error}");
            assert_as(&standing, "to-s", &format!("step {steps}"));
            assert_eq!(kernel::standing("to-s").unwrap(), Some(setup(first)));
            steps += 1;
        }
        assert!(steps > 5, "{steps}");
        assert_eq!(kernel::standing("to-s").unwrap(), Some(setup(second)));
        down("to-s");
        assert_as(&clean, "to-s", "");
    });
}

#[test]
fn a_qdisc_of_somebody_else_comes_back_as_it_was() {
    let Some(world) = world() else { return };
    let put = |world: &World, line: &str| world.bottleneck.sh(line);
    for line in [
        "tc qdisc replace dev to-s root handle 12: bfifo limit 77777",
        "tc qdisc replace dev to-s root handle 8fff: pfifo limit 17",
        "tc qdisc replace dev to-s root handle 1: pfifo_head_drop limit 5",
    ] {
        put(&world, line);
        world.bottleneck.enter(move || {
            let before = everything("to-s");
            let error = refusal("to-s rate 10mbit queues bfifo/bfifo");
            assert!(error.contains("'replace'") && error.contains("tc qdisc del dev to-s root"), "{error}");
            assert_as(&before, "to-s", "");
            up("to-s rate 10mbit queues bfifo/bfifo replace").unwrap();
            // Once put aside it needs no word any more, and stays in mind through changes.
            up("to-s rate 20mbit queues bfifo/pfifo direction both").unwrap();
            up("to-s rate 20mbit queues bfifo/pfifo direction ingress").unwrap();
            assert!(said("tc qdisc show dev to-s").contains("fifo"), "it comes back with its direction");
            let error = refusal("to-s rate 20mbit queues bfifo/pfifo direction both");
            assert!(error.contains("'replace'"), "{error}");
            down("to-s");
            assert_as(&before, "to-s", "");
        });
        assert!(crosses(&world));
    }
    for (line, kind) in [
        ("tc qdisc replace dev to-s root handle 5: tbf rate 1gbit burst 100k limit 100k", "tbf 5:"),
        ("tc qdisc del dev to-s root; tc qdisc add dev to-s root handle 6: htb default 1", "htb 6:"),
    ] {
        put(&world, line);
        world.bottleneck.enter(move || {
            let before = everything("to-s");
            let error = refusal("to-s rate 10mbit queues bfifo/bfifo replace");
            assert!(error.contains(kind) && error.contains("tc qdisc del dev to-s root"), "{error}");
            assert_as(&before, "to-s", "");
            // What is sent is not touched when only what is received is shaped.
            up("to-s rate 10mbit queues bfifo/bfifo direction ingress").unwrap();
            assert!(said("tc qdisc show dev to-s").contains(kind));
            down("to-s");
            assert_as(&before, "to-s", "");
        });
    }
}

#[test]
fn a_root_that_somebody_put_over_ours_stays() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        said("tc qdisc replace dev to-s root handle 9: pfifo limit 9");
        let faults = kernel::instances().unwrap().remove(0).faults;
        assert!(faults[0].what.contains("pfifo") && faults[0].remedy == "weir down dev to-s", "{faults:?}");
        down("to-s");
        assert!(said("tc qdisc show dev to-s").contains("pfifo 9:"));
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn a_vanished_interface_leaves_nothing() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let links = || said("ip -o link show").lines().count();
        let before = links();
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        said("ip link del to-s");
        let instances = kernel::instances().unwrap();
        assert!(
            instances.iter().all(|instance| instance.faults[0].what.contains("is gone")),
            "{instances:#?}"
        );
        let done = down("to-s");
        assert_eq!(done.devices, ["to-s"]);
        assert_eq!(links(), before - 1);
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
        let error = kernel::down("to-s", &mut go_on).unwrap_err().to_string();
        assert!(error.contains("no interface 'to-s'"), "{error}");
        // Nothing to do for all is no error.
        assert_eq!(kernel::down_all(&mut go_on).unwrap().steps, []);
    });
}

#[test]
fn a_renamed_interface_is_still_the_same() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        said("ip link set to-s down; ip link set to-s name wan; ip link set wan up");
        assert_eq!(kernel::instances().unwrap()[0].device, "wan");
        up("wan rate 20mbit queues bfifo/bfifo direction both").unwrap();
        assert_eq!(kernel::down_all(&mut go_on).unwrap().devices, ["wan"]);
        assert!(!said("tc qdisc show").contains("htb"));
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn what_the_kernel_changes_by_itself_is_put_back() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        // HTB makes the kernel raise a length of zero.
        said("ip link set to-s txqueuelen 0");
        said("tc qdisc add dev to-s clsact; tc filter add dev to-s ingress prio 3 protocol ip u32 match u32 0 0");
        let before = everything("to-s");
        assert!(before.contains("clsact") && before.contains("u32"), "{before}");
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        down("to-s");
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn without_its_journal_only_down_goes_on() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let before = everything("to-s");
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        for file in files("/run/weir") {
            std::fs::remove_file(format!("/run/weir/{file}")).unwrap();
        }
        let error = refusal("to-s rate 20mbit queues bfifo/bfifo");
        assert!(error.contains("weir down dev to-s"), "{error}");
        down("to-s");
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn what_cannot_be_is_refused_before_anything_changes() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let before = everything("to-s");
        let mut cases = vec![
            ("to-x rate 10mbit", "there is no interface 'to-x' here; there are lo, "),
            ("to-s rate 10mbit standard bfifo limit 4gb responsive bfifo", "limit: 4gb is"),
        ];
        // Only where this kernel has them not.
        for kind in ["codel", "fq_codel", "cake", "pie"] {
            if !said(&format!("tc qdisc add dev lo root {kind}; tc qdisc del dev lo root"))
                .contains("unknown")
            {
                continue;
            }
            cases.push(match kind {
                "codel" => ("to-s rate 10mbit", "has no codel; load it with `modprobe sch_codel`"),
                "fq_codel" => {
                    ("to-s rate 10mbit queues bfifo/fq_codel", "such as 'standard bfifo responsive bfifo'")
                }
                "cake" => (
                    "to-s rate 10mbit standard cake unlimited responsive pfifo",
                    "such as 'standard bfifo responsive pfifo'",
                ),
                _ => ("to-s rate 10mbit queues pie/pie ecn", "has no pie"),
            });
        }
        for (words, says) in cases {
            let error =
                match Setup::from_keys(kernel::parse_words(&words.split(' ').collect::<Vec<_>>()).unwrap()) {
                    Ok(setup) => kernel::up(&setup, &mut go_on).unwrap_err().to_string(),
                    Err(error) => error.to_string(),
                };
            assert!(error.contains(says), "{words}: {error}");
        }
        let index = said("cat /sys/class/net/to-s/ifindex 2>/dev/null; ip -o link show to-s");
        let number: u32 = index.split(':').next().unwrap().trim().parse().unwrap();
        said(&format!("ip link add {} type veth", kernel::ifb_name(number)));
        let error = refusal("to-s rate 10mbit queues bfifo/bfifo direction both");
        assert!(error.contains(&kernel::ifb_name(number)) && error.contains("rename it"), "{error}");
        said(&format!("ip link del {}", kernel::ifb_name(number)));
        assert_as(&before, "to-s", "");
    });
}

/// The name of the IFB device of an interface of this namespace.
fn ifb_of(device: &str) -> String {
    let shown = said(&format!("ip -o link show {device}"));
    kernel::ifb_name(shown.split(':').next().unwrap().trim().parse().unwrap())
}

#[test]
fn an_ifb_device_that_is_down_is_a_fault_that_a_reload_mends() {
    let Some(world) = world() else { return };
    let words = "to-s rate 100mbit queues bfifo/bfifo direction both";
    world.bottleneck.enter(move || {
        up(words).unwrap();
        said(&format!("ip link set {} down", ifb_of("to-s")));
        let instances = kernel::instances().unwrap();
        let faults: Vec<_> = instances.iter().map(|instance| instance.faults.clone()).collect();
        assert_eq!(faults[0], [], "what is sent does not go there");
        assert!(faults[1][0].what.contains(&format!("{} is down", ifb_of("to-s"))), "{faults:?}");
        assert_eq!(faults[1][0].remedy, "weir reload dev to-s");
    });
    assert!(!crosses(&world), "what is received is lost");
    world.bottleneck.enter(move || {
        assert!(!up(words).unwrap().steps.is_empty());
        assert!(kernel::instances().unwrap().iter().all(|instance| instance.faults.is_empty()));
        assert_eq!(up(words).unwrap().steps, []);
    });
    assert!(crosses(&world));
    world.bottleneck.enter(|| down("to-s"));
}

#[test]
fn the_ifb_device_is_no_interface_to_go_up_or_down_by_itself() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        let ifb = ifb_of("to-s");
        let standing = everything("to-s");
        let part = format!("{ifb} is part of what is up on to-s; use `weir down dev to-s`");
        let wanted = setup(&format!("{ifb} rate 10mbit queues bfifo/bfifo"));
        for error in [
            kernel::up(&wanted, &mut go_on).unwrap_err(),
            kernel::plan(&wanted).unwrap_err(),
            kernel::standing(&ifb).unwrap_err(),
            kernel::down(&ifb, &mut go_on).unwrap_err(),
            kernel::plan_down(Some(&ifb)).unwrap_err(),
        ] {
            assert!(error.to_string().starts_with(&part), "{error}");
        }
        assert_as(&standing, "to-s", "refused");
        assert_eq!(kernel::plan_down(None).unwrap().devices, ["to-s"]);
        // Without the journal its name says whose it is.
        for file in files("/run/weir") {
            std::fs::remove_file(format!("/run/weir/{file}")).unwrap();
        }
        let error = kernel::down(&ifb, &mut go_on).unwrap_err().to_string();
        assert!(error.starts_with(&part), "{error}");
        assert_eq!(kernel::down_all(&mut go_on).unwrap().devices, ["to-s"]);
        assert!(!said("ip link show").contains(&ifb));
    });
}

#[test]
fn an_ifb_device_of_the_operator_stays_whatever_its_name() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let ifb = ifb_of("to-s");
        said(&format!("ip link add {ifb} type ifb; ip link set {ifb} up"));
        let before = everything("to-s");
        assert_eq!(down("to-s").steps, []);
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        let error = refusal("to-s rate 10mbit queues bfifo/bfifo direction both");
        assert!(error.contains("rename it"), "{error}");
        up(&format!("{ifb} rate 10mbit queues bfifo/bfifo")).unwrap();
        assert_eq!(down(&ifb).devices, std::slice::from_ref(&ifb));
        down("to-s");
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn a_renamed_interface_goes_down_by_either_name() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let rename = |from: &str, to: &str| {
            said(&format!("ip link set {from} down; ip link set {from} name {to}; ip link set {to} up"));
        };
        for name in ["to-s", "wan"] {
            up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
            rename("to-s", "wan");
            assert_eq!(down(name).devices, ["wan"]);
            assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
            rename("wan", "to-s");
        }
        // Who has the name now is meant, not who had it.
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        rename("to-s", "wan");
        said("ip link add to-s type veth peer name other");
        assert_eq!(down("to-s").steps, []);
        assert_eq!(down("wan").devices, ["wan"]);
    });
}

#[test]
fn a_command_elsewhere_forgets_nothing_that_down_still_needs() {
    let Some(world) = world() else { return };
    world.bottleneck.sh("tc qdisc replace dev to-s root handle 12: pfifo limit 77");
    let inode = world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo replace").unwrap();
        // A down that comes no further than the first program.
        let mut steps = 0;
        let stop = kernel::down("to-s", &mut |_| {
            steps += 1;
            if steps > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(stop.is_err_and(|error| error.is_interruption()));
        std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    });
    // The program is off by another hand, and its pin is there.
    let pins = format!("/sys/fs/bpf/weir/{inode}-");
    let mut folder = std::fs::read_dir("/sys/fs/bpf/weir").unwrap().flatten().map(|entry| entry.path());
    let pin = folder.find(|path| path.to_str().unwrap().starts_with(&pins)).unwrap();
    let link = libbpf_rs::Link::open(pin.join("forward-link"));
    if let Ok(link) = link {
        link.detach().unwrap();
    }
    world.client.enter(|| kernel::down_all(&mut go_on).unwrap());
    world.bottleneck.enter(|| {
        assert_eq!(down("to-s").devices, ["to-s"]);
        let root = said("tc qdisc show dev to-s");
        assert!(root.contains("pfifo 12: root") && root.contains("limit 77p"), "{root}");
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn a_program_whose_pin_stays_stays_attached() {
    let Some(world) = world() else { return };
    let pins = world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        kernel::instances().unwrap().remove(0).pins
    });
    // In mounts of its own, in which bpffs is not to be written.
    let failed = world.bottleneck.enter(move || {
        // SAFETY: takes no pointers; only this thread changes, which ends here.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        said("mount --make-rprivate /; mount -o remount,ro,bind /sys/fs/bpf");
        kernel::down("to-s", &mut go_on).unwrap_err().to_string()
    });
    assert!(failed.contains("Read-only"), "{failed}");
    assert!(pins.join("forward-link").exists());
    world.bottleneck.enter(|| {
        let instance = kernel::instances().unwrap().remove(0);
        let forward = instance.programs.iter().find(|program| program.what.starts_with("forward")).unwrap();
        assert!(forward.hook.is_some(), "{forward:?}");
        down("to-s");
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn what_is_received_and_freed_here_is_no_loss_of_a_queue() {
    let Some(world) = world() else { return };
    let here = "fd00::9";
    for (host, name, address) in [(&world.bottleneck, "to-s", here), (&world.server, "s", "fd00::1")] {
        host.sh(&format!(
            "echo 0 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6; ip addr add {address}/64 dev {name} nodad"
        ));
    }
    world.bottleneck.enter(|| {
        up("to-s rate 100mbit standard bfifo limit 256kb responsive bfifo limit 256kb direction both")
            .unwrap();
    });
    let listener = world.bottleneck.enter(move || std::net::TcpListener::bind((here, 0)).unwrap());
    let to = listener.local_addr().unwrap();
    // This host ends each connection first: the end of the other side is for no socket any more, and TCP frees it.
    let other = world.server.spawn(move || {
        for _ in 0..8 {
            let mut stream = std::net::TcpStream::connect(to).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
            pause(50);
        }
    });
    for _ in 0..8 {
        drop(listener.accept().unwrap());
    }
    other.join().unwrap();
    pause(100);
    world.bottleneck.enter(|| {
        for bottleneck in kernel::model::Model::of("to-s").unwrap().bottlenecks {
            let told = serde_json::to_value(&bottleneck).unwrap();
            let queues = told["queues"].as_array().unwrap();
            let drops: u64 = queues.iter().map(|queue| queue["drops"].as_u64().unwrap()).sum();
            assert_eq!(told["counters"]["loss_packets"].as_u64(), Some(drops), "{told:#}");
        }
        down("to-s");
    });
}

#[test]
fn a_block_of_filters_that_others_share_is_refused() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        said("tc qdisc add dev to-s ingress_block 22 clsact");
        let before = everything("to-s");
        let error = refusal("to-s rate 10mbit queues bfifo/bfifo direction both");
        assert!(
            error.contains("ingress_block 22") && error.contains("tc qdisc del dev to-s clsact"),
            "{error}"
        );
        assert_as(&before, "to-s", "refused");
        if Hook::of_this_kernel() == Hook::Tcx {
            up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
            down("to-s");
            assert_as(&before, "to-s", "what is sent needs no filter");
        }
    });
}

#[test]
fn an_ifb_device_has_no_address_and_receives_nothing() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        said("echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        let ifb = ifb_of("to-s");
        pause(100);
        assert_eq!(said(&format!("ip -o addr show {ifb}")), "");
        down("to-s");
        said("ip link add ifb7 type ifb; ip link set ifb7 up");
        let told = |words: &str| kernel::plan(&setup(words)).unwrap().warnings.join(" ");
        assert!(told("ifb7 rate 10mbit direction both").contains("ifb7 is an IFB device"));
        assert!(told("ifb7 rate 10mbit direction ingress").contains("use 'direction egress'"));
        assert!(!told("ifb7 rate 10mbit").contains("IFB"));
        assert!(!told("to-s rate 10mbit direction both").contains("IFB"));
    });
}

#[test]
fn what_is_shown_of_a_class_is_what_it_has() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        for words in [
            "to-s rate 10mbit queues bfifo/bfifo sharing strict",
            "to-s rate 10mbit queues bfifo/bfifo sharing 1:4",
        ] {
            up(words).unwrap();
            let model = kernel::model::Model::of("to-s").unwrap();
            for queue in &model.bottlenecks[0].queues {
                let classes = said("tc class show dev to-s");
                let class =
                    classes.lines().find(|line| line.contains(&format!("htb {} ", queue.classid))).unwrap();
                let rate = format!("rate {}Kbit ", queue.assured_bits_per_second / 1000);
                let rate = rate.replace("000Kbit", "Mbit");
                assert!(class.contains(&rate), "{words}: {rate} is not in {class}");
            }
        }
        down("to-s");
    });
}
