//! Congestion-responsive queuing in the kernel: eBPF programs classify the packets of a live interface, HTB and the
//! kernel's own queue disciplines queue them.
//!
//! The programs of `bpf/crq.bpf.c` run the responsiveness law of weir-law on every packet before it is queued and
//! choose one of two HTB classes for it; tracing programs book the packets that the queue disciplines drop or mark.

mod ahead;
pub mod attach;
mod buckets;
mod check;
mod config;
mod down;
mod error;
mod filters;
mod hold;
mod hooks;
mod ingress;
mod journal;
mod keys;
mod leaf;
mod mirred;
pub mod model;
mod mounts;
mod nft;
mod plan;
mod program;
mod qdisc;
mod queues;
pub mod reasons;
mod reload;
mod setup;
mod show;
mod snapshot;
mod step;
mod superpackets;
mod sweep;
mod sys;
pub mod talk;
mod testrun;
mod tree;
mod up;
mod words;

pub use config::{LinkLayer, ProgramConfig};
pub use down::{Down, down, down_all, plan_down};
pub use error::KernelError;
pub use hold::Held;
pub use journal::{JournalError, Phase, rewritten_journal};
pub use keys::{DEFAULT_PRESET, Keys, LawKeys};
pub use leaf::{Leaf, LeafError, LeafKind, Queue};
pub use plan::ifb_name;
pub use program::{ProgramCost, Programs, Role};
pub use qdisc::Qdisc;
pub use queues::{QueueKeys, Queues};
pub use setup::{DEFAULT_FLOWS, DEFAULT_RTT, DEFAULT_SPLIT, Direction, Directions, Setup, SetupError};
pub use show::{AttachedProgram, Fault, Instance, Lost, find, instances, lost};
pub use snapshot::Snapshot;
pub use step::{BPFFS, Step, StepError};
pub use sys::identify;
pub use testrun::{TestPacket, TestResult};
pub use tree::{
    Branch, Branches, Class, HTB_HANDLE, RESPONSIVE_HANDLE, STANDARD_HANDLE, Shape, Tree, TreeError,
};
pub use up::{Up, UpError, plan, standing, up};
pub use words::parse as parse_words;
