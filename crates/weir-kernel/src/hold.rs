//! Programs at their hooks for as long as a process holds them: nothing is pinned, so that nothing is left behind by a
//! process that is killed. For runs that end by themselves; `attach` is for queues that outlive the command.

use std::os::fd::OwnedFd;
use std::path::Path;

use libbpf_rs::MapHandle;

use super::attach::{self, Hook, Place};
use super::error::KernelError;
use super::program::{Programs, Role};
use super::sys;

/// Programs at their hooks. They go when this goes; filters of clsact, which a kernel before 6.6 gets instead of links,
/// go with their interfaces.
#[derive(Debug)]
#[must_use = "the programs are gone as soon as this is dropped"]
pub struct Held {
    _links: Vec<OwnedFd>,
    /// How the traffic programs are attached.
    pub hook: Hook,
}

impl Programs {
    /// Attaches the traffic programs at `places`, in the network namespace of the calling thread, and the tracing
    /// programs that the settings ask for.
    ///
    /// # Errors
    /// [`KernelError::NoHook`] where an interface takes neither; otherwise what the kernel said.
    pub fn hold(&self, places: &[Place]) -> Result<Held, KernelError> {
        let mut links = Vec::new();
        let mut hook = Hook::Tcx;
        for place in places {
            let program = self.descriptor(place.role)?;
            match sys::tcx(program, place.ifindex, place.side, place.role == Role::Reverse) {
                Ok(link) => links.push(link),
                // Kernels before 6.6 do not know the attach type.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                    hook = attach::attach(self, Path::new(""), place, Some(Hook::Clsact))?;
                }
                Err(error) => {
                    let doing = format!("attaching {} to interface {}", place.role.name(), place.ifindex);
                    return Err(KernelError::from_io(doing, error));
                }
            }
        }
        for (name, wanted) in [("lost", true), ("left", self.config().can_mark)] {
            if wanted {
                let link = sys::tracepoint(self.signal_descriptor(name)?).map_err(|error| {
                    KernelError::from_io(format!("attaching {name} to its tracepoint"), error)
                })?;
                links.push(link);
            }
        }
        Ok(Held { _links: links, hook })
    }

    /// The ring to which ended cycles are written, for a listener of one's own; records are read by
    /// [`weir_law::live::LiveEvent`].
    ///
    /// # Errors
    /// What the kernel said.
    pub fn events_ring(&self) -> Result<MapHandle, KernelError> {
        self.map("events")
    }
}
