//! The two ends of a connection, without I/O: what TCP with SACK and QUIC have in common, with their differences as
//! parameters.

mod burst;
mod frame;
mod notes;
mod options;
mod receiver;
mod sender;
mod sent;
mod stream;
mod writes;

pub use burst::LARGEST_GSO;
pub(crate) use frame::{AckFrame, Arriving};
pub(crate) use notes::Note;
pub use options::EndOptions;
pub(crate) use receiver::Receiver;
pub use receiver::{Feedback, ReceiverConfig};
pub(crate) use sender::Sender;
pub use sender::{Bunching, Recovery, SenderConfig, Ticks};
