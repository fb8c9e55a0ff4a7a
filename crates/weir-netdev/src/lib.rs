//! Network interfaces of Linux and the clock that the kernel stamps packets by: what the bottleneck in user space and
//! the one in the kernel both need; `ip` and `tc`, run and read; rtnetlink.
//!
//! Interfaces are those of the calling thread's network namespace.

pub mod clock;
pub mod device;
mod features;
pub mod iproute;
pub mod netlink;
pub mod offload;
pub mod remedy;
pub mod timed;

pub use clock::Clock;
