//! The programs at a queue of a test's own.

use std::path::Path;

use weir_kernel::attach::{self, Place, Side};
use weir_kernel::{Programs, Role};

/// What identifies an interface of the calling thread's namespace: its index and the namespace's inode.
pub(crate) fn identity(name: &str) -> (u32, u32) {
    weir_kernel::identify(name).unwrap()
}

/// Pins programs and puts them in their places, or in those of the ones that are there.
pub(crate) fn attach_to(programs: Programs, pins: &Path) -> Programs {
    let ifindex = programs.config().ifindex;
    programs.pin(pins).unwrap();
    for (role, side) in [(Role::Forward, Side::Egress), (Role::Reverse, Side::Ingress)] {
        attach::attach(&programs, pins, &Place { role, ifindex, side }, None).unwrap();
    }
    attach::signals(&programs, pins).unwrap();
    programs
}
