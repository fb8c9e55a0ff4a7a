//! Reads fields of the programs' structures by their offsets. What lies beyond the end reads as zero: maps of another size
//! are refused before.

/// Bytes of a structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    pub(super) fn u8(self, at: usize) -> u8 {
        self.bytes::<1>(at)[0]
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(at))
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }

    pub(super) fn part(self, at: usize, length: usize) -> Reader<'a> {
        Reader(self.0.get(at..at + length).unwrap_or_default())
    }

    pub(super) fn is_zero(self, at: usize, length: usize) -> bool {
        self.part(at, length).0.iter().all(|byte| *byte == 0)
    }
}
