//! Three network namespaces in a row, for tests on real interfaces: server - bottleneck - client. Held by descriptors
//! of this process only, so that nothing outlives it.
#![allow(dead_code)] // Each test file uses some of it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;

/// The server's address.
pub const SERVER: &str = "10.99.0.1";
/// The client's address.
pub const CLIENT: &str = "10.99.0.2";

/// One namespace.
pub struct Namespace(File);

impl Namespace {
    fn new() -> Self {
        let made = std::thread::spawn(|| {
            // SAFETY: only this thread changes its namespace, and it ends here.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        Self(made.join().unwrap())
    }

    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs `f` in a thread inside.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let file = self.0.try_clone().unwrap();
        std::thread::spawn(move || {
            // SAFETY: only this thread changes its namespace.
            assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            f()
        })
    }

    /// Runs `f` inside and waits for it.
    pub fn enter<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(f).join().unwrap()
    }

    /// Runs a command line inside and demands that it succeeds.
    pub fn sh(&self, line: &str) {
        let line = line.to_owned();
        self.enter(move || {
            let output = Command::new("sh").args(["-ec", &line]).output().unwrap();
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        });
    }
}

/// The row. Interfaces: `s` and `c` at the hosts, `to-s` and `to-c` at the bottleneck.
pub struct World {
    pub server: Namespace,
    pub bottleneck: Namespace,
    pub client: Namespace,
}

impl World {
    /// None, and the calling test is skipped, where namespaces are not allowed.
    pub fn new() -> Option<Self> {
        if !crate::skip::is_root() {
            return None;
        }
        let world = Self { server: Namespace::new(), bottleneck: Namespace::new(), client: Namespace::new() };
        for (host, name, address) in [(&world.server, "s", SERVER), (&world.client, "c", CLIENT)] {
            world.bottleneck.sh(&format!(
                "ip link add to-{name} type veth peer name {name} netns {}; ip link set to-{name} up",
                host.path()
            ));
            host.sh(&format!(
                "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $f; done; \
                 ip addr add {address}/24 dev {name}; ip link set {name} up; ip link set lo up"
            ));
        }
        world.bottleneck.sh("for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $f; done");
        Some(world)
    }
}
