//! What the kernel reported of a packet: the records of `bpf/measure.bpf.c`.

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Taken into the queue.
    Enqueued,
    /// Left for the link.
    Left,
    /// Never got in.
    Refused,
    /// Was in the queue and is gone.
    Dropped,
    /// Leaves towards the server: for captures only.
    Other,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured<'a> {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub(super) time: u64,
    /// The same from the queue's entry to its exit, then used again.
    pub(super) id: u64,
    /// Bytes of the frame.
    pub(super) length: u32,
    /// Of a super-packet; 0 or 1 for a single frame.
    pub(super) segments: u16,
    /// Of the class that the packet was given, 0 if none.
    pub(super) minor: u16,
    pub(super) what: What,
    /// The codepoint's two bits, as they are now.
    pub(super) ecn: u8,
    /// The beginning of the frame.
    pub(super) headers: &'a [u8],
}

/// What comes before the headers in `struct weir_measured`.
const FIXED: usize = 32;

impl<'a> Measured<'a> {
    /// Reads a record; none if it is not one.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let fixed = bytes.get(..FIXED)?;
        let u64_at = |at: usize| u64::from_ne_bytes(fixed[at..at + 8].try_into().unwrap_or_default());
        let u16_at = |at: usize| u16::from_ne_bytes([fixed[at], fixed[at + 1]]);
        let what = match fixed[26] {
            1 => What::Enqueued,
            2 => What::Left,
            3 => What::Refused,
            4 => What::Dropped,
            5 => What::Other,
            _ => return None,
        };
        let kept = usize::from(u16_at(20));
        Some(Self {
            time: u64_at(0),
            id: u64_at(8),
            length: u32::from_ne_bytes([fixed[16], fixed[17], fixed[18], fixed[19]]),
            segments: u16_at(22),
            minor: u16_at(24),
            what,
            ecn: fixed[27],
            headers: bytes.get(FIXED..FIXED + kept).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
pub(super) mod testing {
    /// The bytes of a record.
    pub(in super::super) fn record(
        time: u64,
        id: u64,
        kind: u8,
        minor: u16,
        ecn: u8,
        length: u32,
        headers: &[u8],
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(time.to_ne_bytes());
        bytes.extend(id.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend((headers.len() as u16).to_ne_bytes());
        bytes.extend(1u16.to_ne_bytes());
        bytes.extend(minor.to_ne_bytes());
        bytes.extend([kind, ecn, 0, 0, 0, 0]);
        bytes.extend(headers);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Measured, What, testing::record};

    #[test]
    fn records_are_read_as_the_kernel_writes_them() {
        let bytes = record(7, 9, 4, 2, 3, 1514, &[1, 2, 3]);
        let read = Measured::read(&bytes).unwrap();
        assert_eq!((read.time, read.id, read.length, read.minor, read.ecn), (7, 9, 1514, 2, 3));
        assert_eq!((read.what, read.headers), (What::Dropped, [1, 2, 3].as_slice()));
        assert_eq!(Measured::read(&bytes[..31]), None);
        assert_eq!(Measured::read(&record(7, 9, 6, 2, 3, 1514, &[])), None);
        // A record that claims more headers than there are has none.
        assert_eq!(Measured::read(&bytes[..33]).unwrap().headers, &[] as &[u8]);
    }
}
