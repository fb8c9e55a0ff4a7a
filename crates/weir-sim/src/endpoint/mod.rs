//! The two ends of a connection, without I/O: what TCP with SACK and QUIC have in common, with their differences as
//! parameters.

mod frame;
mod receiver;
mod sender;
mod sent;
mod stream;

pub(crate) use frame::AckFrame;
pub(crate) use receiver::Receiver;
pub use receiver::{Feedback, ReceiverConfig};
pub(crate) use sender::Sender;
pub use sender::{Recovery, SenderConfig};
