//! Two hosts and a wire between them, and `weir` on the near one, for the tests of `weir up` and what follows it.
#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::disallowed_methods, reason = "traffic runs on the real clock")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::Output;
use std::time::Duration;

use weir_testbed::host::Namespace;
use weir_testkit::bpf::{self, At};

pub(crate) const NEAR: &str = "10.77.0.1";
pub(crate) const FAR: &str = "10.77.0.2";
const DATAGRAMS: u8 = 20;

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Two hosts and a wire: `w0` here is what Weir is put on.
pub(crate) struct Wire {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
}

impl Wire {
    pub(crate) fn new() -> Option<Self> {
        if !weir_testkit::skip::is_root() {
            return None;
        }
        let wire = Self { near: Namespace::create("near").unwrap(), far: Namespace::create("far").unwrap() };
        wire.near.sysctl("net.ipv6.conf.all.disable_ipv6", "1").unwrap();
        wire.near.sysctl("net.ipv6.conf.default.disable_ipv6", "1").unwrap();
        let lines = [
            format!("link add w0 type veth peer name w1 netns {}", wire.far.path()),
            format!("addr add {NEAR}/24 dev w0"),
            "link set w0 up".to_owned(),
        ];
        wire.near.ip(&lines).unwrap();
        wire.far.ip(&[format!("addr add {FAR}/24 dev w1"), "link set w1 up".to_owned()]).unwrap();
        assert!(wire.crosses(), "there is a wire");
        Some(wire)
    }

    pub(crate) fn weir(&self, line: &str, kill_at: Option<u64>) -> Output {
        let mut command = self.near.command(env!("CARGO_BIN_EXE_weir")).unwrap();
        if let Some(point) = kill_at {
            command.env("WEIR_KILL_AT", point.to_string());
        }
        command.args(words(line)).output().unwrap()
    }

    pub(crate) fn must(&self, line: &str) -> Output {
        let output = self.weir(line, None);
        assert!(output.status.success(), "weir {line}: {}", stderr(&output));
        output
    }

    pub(crate) fn said(&self, line: &str) -> String {
        let output = self.near.command("sh").unwrap().args(["-c", line]).output().unwrap();
        stdout(&output) + &stderr(&output)
    }

    /// Datagrams to the far host and back, one after the other. Every one must return.
    pub(crate) fn crosses(&self) -> bool {
        let near = self.near.enter(|| UdpSocket::bind((NEAR, 0)).unwrap()).unwrap();
        let far = self.far.enter(|| UdpSocket::bind((FAR, 0)).unwrap()).unwrap();
        let to = far.local_addr().unwrap();
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        }
        let mut bytes = [0; 64];
        (0..DATAGRAMS).all(|number| {
            near.send_to(&[number; 40], to).unwrap();
            let Ok((length, from)) = far.recv_from(&mut bytes) else { return false };
            far.send_to(&bytes[..length], from).unwrap();
            near.recv(&mut bytes).is_ok_and(|length| bytes[..length] == [number; 40])
        })
    }

    /// Sends so many bytes by TCP, to the far host or from it.
    pub(crate) fn transfer(&self, bytes: usize, to_far: bool) {
        let (from, to, address) =
            if to_far { (&self.near, &self.far, FAR) } else { (&self.far, &self.near, NEAR) };
        let listener = to.enter(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
        let target = listener.local_addr().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = 0;
            let mut buffer = vec![0; 1 << 16];
            let (mut stream, _) = listener.accept().unwrap();
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                received += read;
            }
            received
        });
        let mut stream = from.enter(|| TcpStream::connect(target).unwrap()).unwrap();
        stream.write_all(&vec![0; bytes]).unwrap();
        drop(stream);
        assert_eq!(reader.join().unwrap(), bytes);
    }

    /// Files of the near namespace in a folder.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let inode = std::fs::metadata(self.near.path()).unwrap().ino().to_string();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.contains(&inode)).collect();
        names.sort();
        names
    }

    /// Everything that Weir could change.
    pub(crate) fn everything(&self) -> String {
        let mut all = self.said(
            "ip -d -o link show; ip -o addr show; tc qdisc show; tc class show dev w0; \
             tc filter show dev w0 ingress; tc filter show dev w0 egress",
        );
        for egress in [false, true] {
            all += &format!("tcx, egress {egress}: {}\n", self.tcx_programs("w0", egress));
        }
        all += &format!("{:?} {:?}", self.files("/run/weir"), self.files("/sys/fs/bpf/weir"));
        all
    }

    /// How many programs sit at a side of an interface by TCX.
    pub(crate) fn tcx_programs(&self, device: &str, egress: bool) -> u32 {
        self.near.enter(|| bpf::programs(index(device), At::Tcx { egress, first: true })).unwrap()
    }

    /// All is as it was. What was just unpinned is taken off when the kernel has time for it.
    pub(crate) fn assert_as(&self, before: &str, when: &str) {
        for _ in 0..200 {
            if self.everything() == before {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.everything(), before, "{when}");
    }
}

/// The index of an interface in the network namespace of the calling thread.
pub(crate) fn index(device: &str) -> u32 {
    let name = std::ffi::CString::new(device).unwrap();
    // SAFETY: the name is terminated.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// Gives the calling thread, and what it starts, mounts of its own: a /run, and with it a lock and journals, and a
/// bpffs if one is wanted. So tests that run many commands do not wait for each other.
pub(crate) fn apart(bpffs: bool) {
    let mount = |what: &std::ffi::CStr, path: &std::ffi::CStr, flags| {
        // SAFETY: both strings are terminated; there is no data.
        let result =
            unsafe { libc::mount(what.as_ptr(), path.as_ptr(), what.as_ptr(), flags, std::ptr::null()) };
        assert_eq!(result, 0, "mount {path:?}: {}", std::io::Error::last_os_error());
    };
    // SAFETY: takes no pointers; only this thread changes.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE);
    mount(c"tmpfs", c"/run", 0);
    // SAFETY: the string is terminated.
    while unsafe { libc::umount2(c"/sys/fs/bpf".as_ptr(), libc::MNT_DETACH) } == 0 {}
    if bpffs {
        mount(c"bpf", c"/sys/fs/bpf", 0);
    }
}
