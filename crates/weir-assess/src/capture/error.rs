//! Why a capture could not be read, with the byte where the trouble begins and what to do about it.

use std::io;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Why a capture could not be read on. Offsets count bytes from the start of the capture, unpacked, and name the
/// beginning of the record or block that is at fault.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file is packed in a way that is not read, or twice.
    #[error("this is {format} inside, which is not read: {command} FILE | weir assess -")]
    Compressed {
        /// The packing.
        format: &'static str,
        /// The command that undoes it.
        command: &'static str,
    },
    /// What the capture is packed in is damaged or cut short.
    #[error(
        "byte {offset} of the unpacked capture: the {format} file is damaged or cut short from here on ({source})"
    )]
    Packed {
        /// How far unpacking came.
        offset: u64,
        /// The packing.
        format: &'static str,
        /// What is wrong with it.
        source: io::Error,
    },
    /// A second reading has not found what the first one did.
    #[error("byte {offset}: the file has changed while it was read")]
    Changed {
        /// How far the second reading came.
        offset: u64,
    },
    /// The file begins like no capture.
    #[error("this is not a capture: it begins with {magic}, and neither pcap nor pcapng does")]
    NotACapture {
        /// The first four bytes in hexadecimal.
        magic: String,
    },
    /// The file has no bytes.
    #[error("the file is empty: there is no capture in it")]
    Empty,
    /// The file ends within a record.
    #[error("byte {offset}: the file ends within a {what}, {missing} bytes before its end")]
    Truncated {
        /// Where the record begins.
        offset: u64,
        /// What was cut.
        what: &'static str,
        /// How many bytes are missing at least.
        missing: u64,
    },
    /// A length beyond what is read.
    #[error(
        "byte {offset}: a {what} claims {length} bytes, more than the {limit} that are read: the file is damaged here"
    )]
    TooLong {
        /// Where the record begins.
        offset: u64,
        /// What it is.
        what: &'static str,
        /// The length that it claims.
        length: u64,
        /// The longest that is read.
        limit: u64,
    },
    /// Fields that contradict each other.
    #[error("byte {offset}: {what}: the file is damaged here")]
    Malformed {
        /// Where the record begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The input cannot be read a second time (a pipe).
    #[error(
        "the capture has to be read twice, which this input does not allow ({source}): save it to a file first"
    )]
    NotSeekable {
        /// The system's reason.
        source: io::Error,
    },
    /// The operating system could not read on.
    #[error("byte {offset}: cannot read on: {source}")]
    Read {
        /// How far reading came.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
}

impl CaptureError {
    /// The byte at which the trouble begins.
    pub const fn offset(&self) -> u64 {
        match self {
            Self::Compressed { .. } | Self::NotACapture { .. } | Self::Empty | Self::NotSeekable { .. } => 0,
            Self::Packed { offset, .. }
            | Self::Changed { offset }
            | Self::Truncated { offset, .. }
            | Self::TooLong { offset, .. }
            | Self::Malformed { offset, .. }
            | Self::Read { offset, .. } => *offset,
        }
    }
}

impl Serialize for CaptureError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("CaptureError", 2)?;
        out.serialize_field("offset", &self.offset())?;
        out.serialize_field("message", &self.to_string())?;
        out.end()
    }
}
