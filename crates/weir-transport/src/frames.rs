//! What must be known of a packet's frames (RFC 9000 section 19), and QUIC's variable-length integers (section 16).

use bytes::{BufMut, BytesMut};

/// The largest variable-length integer.
pub(crate) const LARGEST: u64 = (1 << 62) - 1;

/// Writes a variable-length integer; one that is too large as [`LARGEST`].
pub(crate) fn put(buffer: &mut BytesMut, value: u64) {
    match value {
        0..0x40 => buffer.put_u8(value as u8),
        0x40..0x4000 => buffer.put_u16(0x4000 | value as u16),
        0x4000..0x4000_0000 => buffer.put_u32(0x8000_0000 | value as u32),
        _ => buffer.put_u64(0xc000_0000_0000_0000 | value.min(LARGEST)),
    }
}

/// Takes a variable-length integer from the front.
pub(crate) fn get(bytes: &mut &[u8]) -> Option<u64> {
    // The top two bits tell the length.
    let length = 1 << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let first = u64::from(number[0] & 0x3f);
    Some(number[1..].iter().fold(first, |value, byte| value << 8 | u64::from(*byte)))
}

/// What an ACK or PATH_ACK frame tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Of packets of this path.
    pub(crate) path: u64,
    /// Packets that arrived marked CE so far, if it counts them.
    pub(crate) marked: Option<u64>,
}

/// Looks at the acknowledgements at the front of a packet, where noq has them, behind frames of one byte at most. The
/// answer is whether the packet asks to be acknowledged itself (RFC 9002 section 2); of what cannot be read, that it
/// does.
pub(crate) fn look(mut frames: &[u8], mut each: impl FnMut(Acknowledged)) -> bool {
    const PADDING: u64 = 0x00;
    /// PING, HANDSHAKE_DONE, and IMMEDIATE_ACK (draft-ietf-quic-ack-frequency).
    const SINGLE: [u64; 3] = [0x01, 0x1e, 0x1f];
    /// ACK, and PATH_ACK (draft-ietf-quic-multipath): without counts of marks, and with.
    const ACKS: [[u64; 2]; 2] = [[0x02, 0x03], [0x3e, 0x3f]];
    const CLOSE: [u64; 2] = [0x1c, 0x1d];
    let mut asks = false;
    while let Some(kind) = get(&mut frames) {
        if ACKS.iter().flatten().any(|ack| *ack == kind) {
            let has_path = ACKS[1].contains(&kind);
            let has_counts = kind == ACKS[0][1] || kind == ACKS[1][1];
            match acknowledged(&mut frames, has_path, has_counts) {
                Some(acknowledged) => each(acknowledged),
                None => return true,
            }
        } else if SINGLE.contains(&kind) {
            asks = true;
        } else if kind != PADDING {
            return asks || !CLOSE.contains(&kind);
        }
    }
    asks
}

fn acknowledged(frames: &mut &[u8], has_path: bool, has_counts: bool) -> Option<Acknowledged> {
    let path = if has_path { get(frames)? } else { 0 };
    let [_largest, _delay, ranges, _first] = [get(frames)?, get(frames)?, get(frames)?, get(frames)?];
    for _ in 0..ranges {
        let [_gap, _length] = [get(frames)?, get(frames)?];
    }
    let mut marked = None;
    if has_counts {
        let [_ect0, _ect1] = [get(frames)?, get(frames)?];
        marked = Some(get(frames)?);
    }
    Some(Acknowledged { path, marked })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{Acknowledged, get, look, put};

    fn all(frames: &[u8]) -> (Vec<Acknowledged>, bool) {
        let mut found = Vec::new();
        let asks = look(frames, |acknowledged| found.push(acknowledged));
        (found, asks)
    }

    #[test]
    fn integers_come_back() {
        for value in [0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
            let mut buffer = BytesMut::new();
            put(&mut buffer, value);
            let mut rest = &buffer[..];
            assert_eq!((get(&mut rest), rest.len()), (Some(value), 0));
        }
    }

    #[test]
    fn acknowledgements_are_found_behind_ranges_and_single_bytes() {
        let ack = [0x03, 0x40, 0xff, 0x05, 0x01, 0x02, 0x00, 0x03, 0x09, 0x00, 0x7a, 0xbc];
        let of_path = |path, marked| Acknowledged { path, marked };
        assert_eq!(all(&ack), (vec![of_path(0, Some(0x3abc))], false));
        let behind: Vec<u8> = [0x01, 0x1f, 0x00].into_iter().chain(ack).chain([0x10, 0x05]).collect();
        assert_eq!(all(&behind), (vec![of_path(0, Some(0x3abc))], true));
        let paths =
            [0x3e, 0x02, 0x05, 0x00, 0x00, 0x05, 0x3f, 0x01, 0x05, 0x00, 0x00, 0x05, 0x01, 0x02, 0x07];
        assert_eq!(all(&paths), (vec![of_path(2, None), of_path(1, Some(7))], false));
    }

    #[test]
    fn what_asks_for_nothing_is_told_apart() {
        for (frames, asks) in [
            (&[0x02, 0x05, 0x00, 0x00, 0x05][..], false),
            (&[0x00, 0x00, 0x00], false),
            (&[0x02, 0x05, 0x00, 0x00, 0x05, 0x1c, 0x00], false),
            (&[0x02, 0x05, 0x00, 0x00, 0x05, 0x08, 0x00], true),
            (&[0x31, 0x00], true),
            (&[], false),
        ] {
            assert_eq!(all(frames).1, asks, "{frames:?}");
        }
    }

    #[test]
    fn other_and_broken_frames_have_none() {
        // Another frame first; cut off; more ranges than there are bytes.
        for frames in [
            &[0x10, 0x05, 0x03, 0x05, 0x00, 0x00, 0x05, 0x06, 0x00, 0x02][..],
            &[0x03, 0x05, 0x00, 0x00, 0x05, 0x06, 0x00],
            &[0x03, 0x05, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00],
        ] {
            assert_eq!(all(frames), (vec![], true), "{frames:?}");
        }
    }
}
