//! `up` and `down` on an interface of a test's namespace.
#![allow(dead_code)] // Each test file uses some of it.

use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::process::Command;

use weir_kernel::{self as kernel, Setup, Step, UpError};
use weir_testkit::world::Namespace;

/// Datagrams of one question.
pub(crate) const DATAGRAMS: usize = 20;

pub(crate) fn setup(words: &str) -> Setup {
    let words: Vec<&str> = words.split_whitespace().collect();
    Setup::from_keys(kernel::parse_words(&words).unwrap()).unwrap()
}

pub(crate) fn go_on(_: &Step) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub(crate) fn up(words: &str) -> Result<kernel::Up, UpError> {
    kernel::up(&setup(words), &mut go_on)
}

pub(crate) fn down(device: &str) -> kernel::Down {
    kernel::down(device, &mut go_on).unwrap()
}

/// What a command says in this namespace.
pub(crate) fn said(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// Runs a command in this namespace, which must have nothing to say.
pub(crate) fn quietly(line: &str) {
    assert_eq!(said(line), "", "{line}");
}

pub(crate) fn index(device: &str) -> u32 {
    let name = std::ffi::CString::new(device).unwrap();
    // SAFETY: the name is terminated.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// Packets that the tree of a device has sent.
pub(crate) fn sent_by(device: &str) -> u64 {
    let said = said(&format!("tc -s qdisc show dev {device} root"));
    let words: Vec<&str> = said.split_whitespace().collect();
    let at =
        words.iter().position(|word| word.starts_with("pkt")).unwrap_or_else(|| panic!("{device}: {said}"));
    words[at - 1].parse().unwrap()
}

/// How many of [`DATAGRAMS`] from one namespace arrive at `to`, an address of another.
pub(crate) fn carried(from: &Namespace, at: &Namespace, to: &'static str) -> usize {
    let socket = at.enter(move || UdpSocket::bind((to, 0)).unwrap());
    let address = socket.local_addr().unwrap();
    from.enter(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..DATAGRAMS {
            socket.send_to(&[0; 100], address).unwrap();
        }
    });
    socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let mut bytes = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut bytes).ok()).count()
}
