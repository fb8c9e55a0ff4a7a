//! Where these tests act: a bottleneck with traffic across, and what `up` could change there.

use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_testkit::bpf::{self, At};
use weir_testkit::world::{SERVER, World};

use crate::live::{said, up};

/// The bottleneck's address on the way to the server.
const HERE: &str = "10.99.0.9";

/// The bottleneck with an address on `to-s`, the interface that is shaped; packets to and from the server cross it.
pub(crate) fn world() -> Option<World> {
    let world = World::new()?;
    world.bottleneck.sh(&format!("ip addr add {HERE}/24 dev to-s"));
    Some(world)
}

pub(crate) fn refusal(words: &str) -> String {
    up(words).unwrap_err().to_string()
}

#[allow(clippy::disallowed_methods)]
pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}

/// Files of this namespace in a folder.
pub(crate) fn files(folder: &str) -> Vec<String> {
    let inode = std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains(&inode.to_string())).collect();
    names.sort();
    names
}

/// Everything that `up` could change, as the kernel and the file system report it.
pub(crate) fn everything(device: &str) -> String {
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
pub(crate) fn assert_as(before: &str, device: &str, when: &str) {
    for _ in 0..200 {
        if everything(device) == before {
            return;
        }
        pause(10);
    }
    assert_eq!(everything(device), before, "{when}");
}

/// Datagrams to the server and back, one after the other, until it is told to stop.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    echo: JoinHandle<()>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Traffic {
    pub(crate) fn start(world: &World) -> Self {
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
    pub(crate) fn stop(self) -> (u64, u64) {
        pause(20);
        self.stop.store(true, Ordering::Relaxed);
        self.echo.join().unwrap();
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }
}

/// Datagrams cross, and none is lost.
pub(crate) fn crosses(world: &World) -> bool {
    let traffic = Traffic::start(world);
    let (sent, received) = traffic.stop();
    sent > 0 && received == sent
}
