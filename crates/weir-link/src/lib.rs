//! Real bottlenecks in user space: packets from one interface to another and back, through a rate limiter, a queue
//! discipline and a delay line per direction.
//!
//! [`Pipeline`] is the bottleneck without I/O; [`PacketIo`] moves frames by AF_XDP or by packet sockets; [`Link`] puts
//! both together on a real clock; [`weir_netdev::offload`] keeps super-packets and missing checksums out.
//! `docs/model/link.md` says how to set it up.

mod checksum;
mod delay;
mod flows;
mod frame;
mod io;
mod limiter;
mod observer;
mod packet_socket;
mod pipeline;
mod report;
mod run;
mod schedule;
mod xdp;
mod xsk;

pub use flows::DelayChoice;
pub use frame::{DEFAULT_FRAMES, FRAME_SIZE, FrameIndex, FramePool, HEADROOM, PoolError};
pub use io::{BATCH, IoError, IoKind, IoStatistics, PacketIo, Received, open};
pub use limiter::default_burst;
pub use observer::{Observer, Unobserved};
pub use packet_socket::PacketSockets;
pub use pipeline::{Departure, Finished, Pipeline, PipelineConfig};
pub use report::{DirectionCount, FlowReport, Lateness, PipelineReport};
pub use run::{DEFAULT_SHARE, DEFAULT_STEP, Link, LinkConfig, RunReport, RunResult};
pub use xdp::XdpSockets;
