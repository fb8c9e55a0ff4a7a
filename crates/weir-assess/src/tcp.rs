//! What the inference needs of TCP beside the law's parser: the SACK blocks one by one, the MSS option, and the time
//! that the three-way handshake took.

use weir_core::{Duration, Time};

use weir_law::Tcp;

/// SACK blocks and the MSS option of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TcpOptions {
    pub(super) mss: Option<u16>,
    pub(super) sack: [(u32, u32); 4],
    pub(super) sack_blocks: usize,
}

impl TcpOptions {
    /// Reads the options of the TCP header at the start of `segment`, as far as they were captured.
    pub(super) fn read(segment: &[u8]) -> Self {
        let mut out = Self::default();
        let header = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        let end = header.min(segment.len());
        let mut rest = segment.get(20..end).unwrap_or(&[]);
        while let [kind, after @ ..] = rest {
            if *kind == 0 {
                break;
            }
            if *kind == 1 {
                rest = after;
                continue;
            }
            let Some(length) = after.first().map(|length| usize::from(*length)) else { break };
            let (Some(value), Some(next)) = (rest.get(2..length), rest.get(length..)) else { break };
            match (*kind, value) {
                (2, &[high, low]) => out.mss = Some(u16::from_be_bytes([high, low])),
                (5, blocks) => {
                    for block in blocks.chunks_exact(8) {
                        let edge =
                            |at| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
                        if let Some(slot) = out.sack.get_mut(out.sack_blocks) {
                            *slot = (edge(0), edge(4));
                            out.sack_blocks += 1;
                        }
                    }
                }
                _ => {}
            }
            rest = next;
        }
        out
    }
}

/// Times the three-way handshake: from the last SYN to the acknowledgement of its answer is one round trip at any point
/// of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handshake {
    syn: Option<(usize, Time, u32)>,
    answered: Option<(Time, u32)>,
    pub(super) rtt: Option<Duration>,
}

impl Handshake {
    /// Takes a packet of direction `from`.
    pub(super) fn packet(&mut self, from: usize, time: Time, tcp: &Tcp) {
        if tcp.syn() && !tcp.has_ack() {
            *self = Self { syn: Some((from, time, tcp.seq)), answered: None, rtt: None };
        } else if let Some((client, began, isn)) = self.syn {
            if tcp.syn() && from != client && tcp.ack == isn.wrapping_add(1) {
                self.answered.get_or_insert((time, tcp.seq));
            } else if let Some((_, answer)) = self.answered
                && from == client
                && self.rtt.is_none()
                && tcp.has_ack()
                && tcp.ack == answer.wrapping_add(1)
            {
                self.rtt = Some(time.since(began));
            }
        }
    }
}
