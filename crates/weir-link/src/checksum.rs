//! Completes the TCP or UDP checksum of a frame that a sender left to its network card (RFC 1071, 793, 768, 8200).
//!
//! A packet socket says which frames these are. On AF_XDP nothing does, which is why offloads are switched off there.

/// Finds the transport header: where it begins, where the packet ends, the protocol, and the sum of the pseudo-header.
fn transport(frame: &[u8]) -> Option<(usize, usize, u8, u32)> {
    let mut at = 12;
    let mut ethertype = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
    while matches!(ethertype, 0x8100 | 0x88a8) {
        at += 4;
        ethertype = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
    }
    let ip = at + 2;
    let header = frame.get(ip..)?;
    let (start, end, protocol, addresses) = match ethertype {
        0x0800 if header.len() >= 20 => {
            let length = usize::from(header[0] & 0xf) * 4;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            // A fragment's checksum covers bytes that are not here.
            if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            (ip + length, ip + total, header[9], &header[12..20])
        }
        0x86dd if header.len() >= 40 => {
            let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
            (ip + 40, ip + 40 + payload, header[6], &header[8..40])
        }
        _ => return None,
    };
    if end > frame.len() || start > end {
        return None;
    }
    let pseudo = sum(addresses, 0) + u32::from(protocol) + (end - start) as u32;
    Some((start, end, protocol, pseudo))
}

fn sum(bytes: &[u8], start: u32) -> u32 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    // At most 2^16 words of 16 bits: no overflow before folding.
    words.fold(start, |sum, word| sum + word)
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Writes the checksum of a TCP or UDP frame. Returns false, changing nothing, for anything else.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    let Some((start, end, protocol, pseudo)) = transport(frame) else { return false };
    let field = match protocol {
        6 if end - start >= 20 => start + 16,
        17 if end - start >= 8 => start + 6,
        _ => return false,
    };
    frame[field..field + 2].fill(0);
    let checksum = !fold(sum(&frame[start..end], pseudo));
    // In UDP zero says that there is no checksum, so the sum that is zero is sent as its other form.
    let checksum = if checksum == 0 && protocol == 17 { 0xffff } else { checksum };
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::{complete, fold, sum, transport};

    fn udp(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((28 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 7, 0, 9]);
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0xde, 0xad]);
        frame.extend(payload);
        frame
    }

    #[test]
    fn a_completed_checksum_sums_to_all_ones() {
        for payload in [&b"odd"[..], b"even", b""] {
            let mut frame = udp(payload);
            assert!(complete(&mut frame));
            let (start, end, _, pseudo) = transport(&frame).unwrap();
            assert_eq!(fold(sum(&frame[start..end], pseudo)), 0xffff);
        }
    }

    #[test]
    fn a_known_datagram_has_its_known_checksum() {
        // 10.0.0.1:7 -> 10.0.0.2:9, "even": computed by hand. Pseudo-header 0x0a00+0x0001+0x0a00+0x0002+0x0011+0x000c,
        // header 0x0007+0x0009+0x000c, data 0x6576+0x656e = 0xdf20, complement 0x20df.
        let mut frame = udp(b"even");
        complete(&mut frame);
        assert_eq!(frame[40..42], [0x20, 0xdf]);
    }

    #[test]
    fn what_is_no_transport_is_left_alone() {
        let mut fragment = udp(b"part");
        fragment[20] = 0x20;
        for mut frame in [vec![], vec![0; 60], fragment, udp(b"cut")[..40].to_vec()] {
            let before = frame.clone();
            assert!(!complete(&mut frame));
            assert_eq!(frame, before);
        }
    }
}
