//! Captures packed with gzip (RFC 1952) or zstd (RFC 8878), known by their first bytes and unpacked as they are read:
//! what is kept is a window, of 32 kB or of at most 128 MB, however much comes out.

use std::fmt;
use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

use super::CaptureError;

/// The largest zstd window that is unpacked, as a power of two: what `zstd --long` takes, and zstd's own limit.
const MAX_WINDOW_LOG: u32 = 27;

/// An input after its first bytes were looked at.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// An input without its packing.
pub(super) enum Unpacked<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Whole<R>>>>),
    Zstd(Box<Decoder<'static, BufReader<Whole<R>>>>),
}

impl<R: Read> Unpacked<R> {
    pub(super) fn new(mut input: R) -> Result<Self, CaptureError> {
        let mut first = Vec::new();
        let unreadable = |source| CaptureError::Read { offset: 0, source };
        input.by_ref().take(4).read_to_end(&mut first).map_err(unreadable)?;
        let gzip = matches!(first[..], [0x1f, 0x8b, ..]);
        // Packers that divide the work begin with a frame to be skipped.
        let zstd = matches!(first[..], [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
        let whole = Cursor::new(first).chain(input);
        Ok(match (gzip, zstd) {
            (true, _) => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(whole)))),
            (_, true) => {
                let mut decoder = Decoder::with_buffer(BufReader::new(whole)).map_err(unreadable)?;
                decoder.window_log_max(MAX_WINDOW_LOG).map_err(unreadable)?;
                Self::Zstd(Box::new(decoder))
            }
            _ => Self::Plain(whole),
        })
    }

    /// The name of the packing.
    pub(super) const fn format(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            Self::Gzip(_) => Some("gzip"),
            Self::Zstd(_) => Some("zstd"),
        }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Gzip(input) => input.read(buffer),
            Self::Zstd(input) => input.read(buffer),
        }
    }
}

impl<R: Read> fmt::Debug for Unpacked<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unpacked").field(&self.format()).finish()
    }
}
