//! Hosts as network namespaces that no file system entry holds.
//!
//! A [`Namespace`] is made by a thread that unshares its network and is kept alive by a file descriptor of
//! `/proc/thread-self/ns/net` alone (namespaces(7), setns(2)). Unlike `ip netns add`, which bind-mounts the namespace
//! under `/run/netns`, nothing outlives the process: when it ends, even by `kill -9`, the kernel removes the namespace,
//! its interfaces, routes and qdiscs. [`Topology`] puts three of them in a row: server, bottleneck, client.

mod topology;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use thiserror::Error;
use weir_netdev::iproute::{self, BatchError, Discipline, StatisticsError};

pub use topology::{MAX_ADDRESSES, Topology, TopologySpec};

/// A namespace or topology that could not be set up.
#[derive(Debug, Error)]
pub enum HostError {
    /// The kernel refused the namespace.
    #[error(
        "cannot create or enter network namespace '{name}': {source}{}",
        to_enter(.source)
    )]
    Namespace {
        /// The namespace's readable name.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// `ip` or `tc` cannot be started.
    #[error("cannot run '{program}': {source}{}", weir_netdev::remedy::to_start(.source))]
    Program {
        /// Which.
        program: String,
        /// Why it did not start.
        source: io::Error,
    },
    /// `ip` or `tc` refused a line.
    #[error("in namespace '{namespace}', '{program} {line}' failed: {message}")]
    Line {
        /// The namespace in which the line ran.
        namespace: String,
        /// `ip` or `tc`.
        program: String,
        /// The line that failed, as given to the program's `-batch`.
        line: String,
        /// What the program printed.
        message: String,
    },
    /// `tc` does not say what its queue disciplines counted.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// A kernel setting could not be written.
    #[error("in namespace '{namespace}', sysctl {key}={value} failed: {source}")]
    Sysctl {
        /// The namespace in which it was written.
        namespace: String,
        /// The setting, with dots.
        key: String,
        /// The value.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The specification asks for what cannot be built.
    #[error("{0}")]
    Spec(String),
}

/// A network namespace held by a file descriptor and by nothing else.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: OwnedFd,
}

impl Namespace {
    /// Makes an empty namespace with its loopback interface up. `name` is for messages and thread names only: the
    /// kernel does not know it, and two namespaces may share it.
    ///
    /// # Errors
    /// [`HostError::Namespace`] without CAP_SYS_ADMIN, or if the kernel has no network namespaces.
    pub fn create(name: &str) -> Result<Self, HostError> {
        let refused = |source| HostError::Namespace { name: name.to_owned(), source };
        let made = thread::scope(|scope| {
            let maker = || -> io::Result<OwnedFd> {
                // SAFETY: unshare takes no pointers. It changes only this thread, which ends right after.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(File::open("/proc/thread-self/ns/net")?.into())
            };
            let thread = thread::Builder::new().name(format!("new {name}")).spawn_scoped(scope, maker)?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        let namespace = Self { name: name.to_owned(), file: made.map_err(refused)? };
        namespace.ip(&["link set lo up".to_owned()])?;
        Ok(namespace)
    }

    /// The name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path under which other programs of this user can open the namespace while this process lives, such as
    /// `/proc/123/fd/7`: what `ip link ... netns PATH` and `nsenter --net=PATH` take.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `f` inside the namespace, in a thread of its own, and waits for it. Sockets that `f` opens stay in the
    /// namespace for ever, and threads and processes that it starts begin there.
    ///
    /// # Errors
    /// [`HostError::Namespace`] if the kernel refuses; `f` has not run then. A panic of `f` is passed on.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, HostError> {
        let fd = self.file.as_raw_fd();
        thread::scope(|scope| {
            let inside = || enter_thread(fd).map(|()| f());
            let thread = thread::Builder::new().name(self.name.clone()).spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
        .map_err(|source| HostError::Namespace { name: self.name.clone(), source })
    }

    /// Starts a thread inside the namespace. The thread keeps the namespace alive until it ends.
    ///
    /// # Errors
    /// [`HostError::Namespace`] if no thread can be started or the kernel refuses to enter; `f` does not run then.
    pub fn spawn<T: Send + 'static>(
        &self,
        thread_name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, HostError> {
        // Spawned from a thread that is inside already: a new thread starts in its creator's namespace.
        self.enter(|| thread::Builder::new().name(thread_name.to_owned()).spawn(f))?
            .map_err(|source| HostError::Namespace { name: self.name.clone(), source })
    }

    /// A command that will run inside the namespace.
    ///
    /// # Errors
    /// [`HostError::Namespace`] if no file descriptor is left for the command to enter by.
    pub fn command(&self, program: &str) -> Result<Command, HostError> {
        let file = self
            .file
            .try_clone()
            .map_err(|source| HostError::Namespace { name: self.name.clone(), source })?;
        let mut command = Command::new(program);
        // SAFETY: between fork and exec the closure only calls setns, which is async-signal-safe and allocates nothing.
        unsafe { command.pre_exec(move || enter_thread(file.as_raw_fd())) };
        Ok(command)
    }

    /// Writes a kernel setting of this namespace, `key` with dots as in sysctl(8): `net.ipv4.tcp_ecn`.
    ///
    /// # Errors
    /// [`HostError::Sysctl`] if the kernel has no such setting or refuses the value.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), HostError> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.enter(|| std::fs::write(path, value))?.map_err(|source| HostError::Sysctl {
            namespace: self.name.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
            source,
        })
    }

    /// Runs lines of `ip` (without the leading `ip`) inside the namespace in one go; stops at the first that fails.
    ///
    /// # Errors
    /// [`HostError::Line`] with the failing line and what `ip` said.
    pub fn ip(&self, lines: &[String]) -> Result<(), HostError> {
        self.batch("ip", &[], lines)
    }

    /// As [`Namespace::ip`] with `ip -6`, for objects whose IP version no address shows, such as `rule`.
    ///
    /// # Errors
    /// As [`Namespace::ip`].
    pub fn ip6(&self, lines: &[String]) -> Result<(), HostError> {
        self.batch("ip", &["-6"], lines)
    }

    /// Runs lines of `tc` (without the leading `tc`) inside the namespace in one go; stops at the first that fails.
    ///
    /// # Errors
    /// [`HostError::Line`] with the failing line and what `tc` said.
    pub fn tc(&self, lines: &[String]) -> Result<(), HostError> {
        self.batch("tc", &[], lines)
    }

    fn batch(&self, program: &str, options: &[&str], lines: &[String]) -> Result<(), HostError> {
        let mut command = self.command(program)?;
        command.args(options);
        iproute::batch(command, lines).map_err(|error| match error {
            BatchError::Program { program, source } => HostError::Program { program, source },
            BatchError::Line { program, line, message } => {
                HostError::Line { namespace: self.name.clone(), program, line, message }
            }
        })
    }

    /// The queue disciplines of an interface in the namespace, with what they counted; none if there is no such
    /// interface.
    ///
    /// # Errors
    /// [`HostError::Statistics`] if `tc` does not say.
    pub fn disciplines(&self, device: &str) -> Result<Vec<Discipline>, HostError> {
        Ok(iproute::disciplines(self.command("tc")?, device)?.unwrap_or_default())
    }
}

/// What mends a namespace that cannot be entered: rights, unless the kernel said something else.
fn to_enter(error: &io::Error) -> &'static str {
    match weir_netdev::remedy::to_start(error) {
        "" => "; run as root (it takes CAP_SYS_ADMIN)",
        remedy if error.kind() != io::ErrorKind::NotFound => remedy,
        _ => "",
    }
}

/// Moves the calling thread into the namespace behind `fd`.
fn enter_thread(fd: RawFd) -> io::Result<()> {
    // SAFETY: setns takes no pointers; a descriptor that is no network namespace is an error, not undefined.
    if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
