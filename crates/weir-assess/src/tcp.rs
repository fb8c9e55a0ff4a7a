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

/// Times the three-way handshake at any point of the path: the first half from the last SYN to its answer, the second
/// from the last answer to its acknowledgement. What was sent again says nothing by when it was sent first (Karn).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handshake {
    syn: Option<Syn>,
    answer: Option<Answer>,
    halves: Option<Halves>,
}

/// The last SYN; directions are `true` for number 1.
#[derive(Clone, Copy, Debug)]
struct Syn {
    from: bool,
    time: Time,
    seq: u32,
}

/// The last answer to it.
#[derive(Clone, Copy, Debug)]
struct Answer {
    client: bool,
    /// There was a SYN since.
    asked_again: bool,
    to: u32,
    seq: u32,
    time: Time,
    first_half: Duration,
}

/// The parts of the round trip on both sides of the capture point.
#[derive(Clone, Copy, Debug)]
struct Halves {
    client: bool,
    first: Duration,
    second: Duration,
}

impl Handshake {
    /// Takes a packet of direction `from`. A SYN that is not answered changes nothing: anyone can send one.
    pub(super) fn packet(&mut self, from: usize, time: Time, tcp: &Tcp) {
        let from = from == 1;
        if tcp.syn() && !tcp.has_ack() {
            self.syn = Some(Syn { from, time, seq: tcp.seq });
            if let Some(answer) = &mut self.answer {
                answer.asked_again = true;
            }
        } else if tcp.syn() {
            self.answered(from, time, tcp);
        } else if let Some(answer) = self.answer
            && self.halves.is_none()
            && from == answer.client
            && tcp.has_ack()
            && tcp.ack == answer.seq.wrapping_add(1)
        {
            let second = time.since(answer.time);
            self.halves = Some(Halves { client: from, first: answer.first_half, second });
        }
    }

    fn answered(&mut self, from: bool, time: Time, tcp: &Tcp) {
        let Some(syn) = self.syn.filter(|syn| syn.from != from && tcp.ack == syn.seq.wrapping_add(1)) else {
            return;
        };
        let timed = self.halves.and(self.answer).is_some_and(|answer| answer.to == syn.seq);
        if timed && self.answer.is_some_and(|answer| answer.seq != tcp.seq) {
            // The handshake is over, and this one belongs to none.
            return;
        }
        let before = self.answer.filter(|answer| (answer.to, answer.seq) == (syn.seq, tcp.seq));
        if before.is_none() {
            self.halves = None;
        }
        let first_half = match before {
            Some(answer) if !answer.asked_again => answer.first_half,
            _ => time.since(syn.time),
        };
        let (client, to, seq) = (syn.from, syn.seq, tcp.seq);
        self.answer = Some(Answer { client, asked_again: false, to, seq, time, first_half });
    }

    /// The round trip that the handshake took.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.halves.map(|halves| halves.first + halves.second)
    }

    /// The shortest round trip that is known. `acks` are the shortest answers to the data of each direction, which show
    /// one half each: what ended the handshake may have waited for long.
    pub(super) fn shortest(&self, acks: [Option<Duration>; 2]) -> Option<Duration> {
        let Some(Halves { client, first, second }) = self.halves else { return Some(acks[0]? + acks[1]?) };
        let shorter = |half: Duration, ack: Option<Duration>| ack.map_or(half, |ack| ack.min(half));
        let (client, server) = (usize::from(client), usize::from(!client));
        Some(shorter(first, acks[client]) + shorter(second, acks[server]))
    }
}
