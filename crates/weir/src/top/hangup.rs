//! A terminal that is closed under `weir top`. The library that reads the keys does not see it: it reads the end of
//! file again and again, and its call does not return.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process;
use std::thread;

use anyhow::Context;

use crate::talk;

/// The terminal that keys come from: standard input, or else the process's own.
pub(super) struct Terminal(OwnedFd);

impl Terminal {
    pub(super) fn open() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let opened = match stdin.is_terminal() {
            true => stdin.as_fd().try_clone_to_owned(),
            false => File::open("/dev/tty").map(OwnedFd::from),
        };
        opened.map(Self).context("cannot open the terminal")
    }

    /// Ends the process when the terminal is closed. There is nothing left to be put back.
    pub(super) fn end_with_it(&self) -> anyhow::Result<()> {
        let terminal = Self(self.0.try_clone().context("cannot watch the terminal")?);
        let watch = move || {
            while !terminal.is_closed_within(FOREVER) {}
            process::exit(talk::INTERRUPTED.into());
        };
        thread::Builder::new().name("hangup".to_owned()).spawn(watch).context("cannot watch the terminal")?;
        Ok(())
    }

    /// Whether it is closed now.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed_within(0)
    }

    fn is_closed_within(&self, milliseconds: libc::c_int) -> bool {
        // Without events that are asked for, poll(2) reports only a hangup and errors.
        let mut state = libc::pollfd { fd: self.0.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one descriptor, which is open and writable as a pollfd.
        let told = unsafe { libc::poll(&raw mut state, 1, milliseconds) };
        told > 0 && state.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// As poll(2) has it.
const FOREVER: libc::c_int = -1;
