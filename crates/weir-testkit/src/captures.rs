//! Makes captures for tests: frames of virtual senders whose congestion control is known, and files in all formats.

/// A captured frame: nanoseconds, captured bytes (an Ethernet frame), length on the wire.
#[derive(Clone, Debug)]
pub struct Frame {
    pub time: u64,
    pub bytes: Vec<u8>,
    pub wire: u32,
}

pub const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);
pub const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 7], 50_000);
pub const MSS: u32 = 1_448;
pub const MS: u64 = 1_000_000;
/// 2026-01-01, so that time stamps have their usual size.
pub const EPOCH: u64 = 1_767_225_600 * 1_000_000_000;

fn ip(from: [u8; 4], to: [u8; 4], protocol: u8, ecn: u8, length: usize, transport: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    out.extend([0x45, ecn]);
    out.extend((length as u16 + 20).to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    out.extend(from);
    out.extend(to);
    out.extend(transport);
    out
}

/// A TCP segment; fields that tests do not care about are default.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub payload: u32,
    pub stamp: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
    pub mss: Option<u16>,
    pub ecn: u8,
}

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;

impl Tcp {
    /// Headers only, as with a short snap length; the wire length counts the payload.
    pub fn frame(&self, time: u64, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Frame {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
        }
        if let Some((value, echo)) = self.stamp {
            options.extend([1, 1, 8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if !self.sack.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * self.sack.len() as u8]);
            for (left, right) in &self.sack {
                options.extend(left.to_be_bytes());
                options.extend(right.to_be_bytes());
            }
        }
        let header = 20 + options.len();
        let mut segment = Vec::new();
        segment.extend(from.1.to_be_bytes());
        segment.extend(to.1.to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        segment.extend([(header as u8 / 4) << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(&options);
        let length = header + self.payload as usize;
        let bytes = ip(from.0, to.0, 6, self.ecn, length, &segment);
        Frame { time, wire: (34 + length) as u32, bytes }
    }
}

/// A QUIC datagram of `payload` bytes, short header with this spin bit, or an Initial.
pub fn quic(time: u64, down: bool, payload: u32, spin: Option<bool>, ecn: u8) -> Frame {
    let (from, to) = if down { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
    let mut datagram = Vec::new();
    datagram.extend(from.1.to_be_bytes());
    datagram.extend(to.1.to_be_bytes());
    datagram.extend((payload as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    match spin {
        Some(spin) => datagram.extend([0x40 | u8::from(spin) << 5, 1, 2, 3, 4, 5, 6, 7, 8]),
        // Long header, Initial, version 1, empty connection IDs and token; its length fills the datagram.
        None => {
            let rest = payload as u16 - 10;
            datagram.extend([0xc0, 0, 0, 0, 1, 0, 0, 0]);
            datagram.extend((0x4000 | rest).to_be_bytes());
        }
    }
    let bytes = ip(from.0, to.0, 17, ecn, payload as usize + 8, &datagram);
    Frame { time, wire: 42 + payload, bytes }
}

/// Where the capture is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    BeforeBottleneck,
    AfterBottleneck,
}

/// What a signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    Loss,
    Mark,
}

/// A window-limited sender, a window of segments per round trip, that grows by one and gets a signal every
/// `period` rounds, on its sixth segment. A responsive one halves its window in the next round.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub responsive: bool,
    pub point: Point,
    pub congestion: Congestion,
    pub rounds: u32,
    pub period: u32,
    pub window: u32,
    pub stamps: bool,
    pub isn: u32,
    pub start: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            responsive: true,
            point: Point::BeforeBottleneck,
            congestion: Congestion::Loss,
            rounds: 100,
            period: 10,
            window: 20,
            stamps: true,
            isn: 4_294_960_000,
            start: EPOCH,
        }
    }
}

pub const RTT: u64 = 40 * MS;
const GAP: u64 = 200_000;

impl Sender {
    /// How many signals there are: rounds 5, 5 + period and so on.
    pub fn signals(&self) -> u32 {
        (0..self.rounds).filter(|round| self.hit(*round)).count() as u32
    }

    fn hit(&self, round: u32) -> bool {
        round >= 5 && (round - 5).is_multiple_of(self.period) && round + 3 < self.rounds
    }

    /// The flow as TCP from server to client.
    pub fn tcp(&self) -> Vec<Frame> {
        let mut out = Vec::new();
        let ecn = self.congestion == Congestion::Mark;
        let (client_isn, mut seq) = (self.isn ^ 0x5555_5555, self.isn.wrapping_add(1));
        let stamp = |time: u64| self.stamps.then_some(((time / MS) as u32, 1));
        let asks = if ecn { ECE | CWR } else { 0 };
        let at = self.start;
        let syn =
            Tcp { seq: client_isn, flags: SYN | asks, mss: Some(1_460), stamp: stamp(at), ..Tcp::default() };
        out.push(syn.frame(at, CLIENT, SERVER));
        let flags = SYN | ACK | if ecn { ECE } else { 0 };
        let mss = Some(1_460);
        let answer = Tcp {
            seq: self.isn,
            ack: client_isn.wrapping_add(1),
            flags,
            mss,
            stamp: stamp(at),
            ..Tcp::default()
        };
        out.push(answer.frame(at + MS, SERVER, CLIENT));
        let last =
            Tcp { seq: client_isn.wrapping_add(1), ack: seq, flags: ACK, stamp: stamp(at), ..Tcp::default() };
        out.push(last.frame(at + RTT, CLIENT, SERVER));

        let mut window = self.window;
        let mut lost: Option<u32> = None;
        for round in 0..self.rounds {
            let began = at + RTT * u64::from(round + 1) + MS;
            let hit = self.hit(round);
            let mut offset = 0;
            let mut cumulative = seq;
            let data = |time, seq, ecn_bits, flags| {
                let segment = Tcp {
                    seq,
                    ack: client_isn.wrapping_add(1),
                    flags: ACK | flags,
                    payload: MSS,
                    stamp: stamp(time),
                    ecn: ecn_bits,
                    ..Tcp::default()
                };
                segment.frame(time, SERVER, CLIENT)
            };
            if let Some(hole) = lost.take() {
                out.push(data(began, hole, 0, 0));
                offset += 1;
                let filled = Tcp {
                    seq: client_isn.wrapping_add(1),
                    ack: seq,
                    flags: ACK,
                    stamp: stamp(began),
                    ..Tcp::default()
                };
                out.push(filled.frame(began + RTT - 3 * MS, CLIENT, SERVER));
            }
            let cwr = if ecn && round > 0 && self.hit(round - 1) { CWR } else { 0 };
            let mut hole = None;
            for index in 0..window {
                let time = began + GAP * u64::from(index + offset);
                let this = seq.wrapping_add(index * MSS);
                let end = this.wrapping_add(MSS);
                let signalled = hit && index == 5;
                let dropped = signalled && !ecn;
                let seen = match self.point {
                    Point::BeforeBottleneck => true,
                    Point::AfterBottleneck => !dropped,
                };
                let bits = match (ecn, self.point) {
                    (false, _) => 0,
                    (true, Point::AfterBottleneck) if signalled => 3,
                    (true, _) => 2,
                };
                if seen {
                    out.push(data(time, this, bits, if index == 0 { cwr } else { 0 }));
                }
                if dropped {
                    hole = Some((this, end));
                    continue;
                }
                let mut answer =
                    Tcp { seq: client_isn.wrapping_add(1), flags: ACK, stamp: stamp(time), ..Tcp::default() };
                match hole {
                    Some((_, beyond)) => answer.sack.push((beyond, end)),
                    None => cumulative = end,
                }
                answer.ack = cumulative;
                if ecn && hit && index >= 5 {
                    answer.flags |= ECE;
                }
                out.push(answer.frame(time + RTT - 3 * MS, CLIENT, SERVER));
            }
            lost = hole.map(|(hole, _)| hole);
            seq = seq.wrapping_add(window * MSS);
            window = if hit && self.responsive {
                window / 2
            } else if self.responsive {
                window + 1
            } else {
                window
            };
        }
        out.sort_by_key(|frame| frame.time);
        out
    }

    /// The flow as QUIC from server to client; `spin` gives the bit of a packet from its round and number.
    pub fn quic(&self, spin: impl Fn(u32, u32) -> bool) -> Vec<Frame> {
        let mut out =
            vec![quic(self.start, false, 1_200, None, 0), quic(self.start + MS, true, 1_200, None, 0)];
        let mut window = self.window;
        let mut number = 0;
        for round in 0..self.rounds {
            let began = self.start + RTT * u64::from(round + 1);
            for index in 0..window {
                let time = began + GAP * u64::from(index);
                let mark = self.hit(round) && index == 5;
                out.push(quic(time, true, 1_200, Some(spin(round, number)), if mark { 3 } else { 2 }));
                number += 1;
                if index % 2 == 1 {
                    out.push(quic(time + RTT - 3 * MS, false, 40, Some(round % 2 == 1), 2));
                }
            }
            window = if self.hit(round) && self.responsive {
                window / 2
            } else if self.responsive {
                window + 1
            } else {
                window
            };
        }
        out.sort_by_key(|frame| frame.time);
        out
    }
}

/// How frames are put before IP.
pub fn relink(frame: &Frame, link: u16) -> (Vec<u8>, u32) {
    let (prefix, network): (Vec<u8>, &[u8]) = match link {
        1 => return (frame.bytes.clone(), frame.wire),
        0 => (vec![2, 0, 0, 0], &frame.bytes[14..]),
        108 => (vec![0, 0, 0, 2], &frame.bytes[14..]),
        113 => {
            let mut header = vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
            header.extend(&frame.bytes[12..14]);
            (header, &frame.bytes[14..])
        }
        276 => {
            let mut header = frame.bytes[12..14].to_vec();
            header.extend([0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]);
            (header, &frame.bytes[14..])
        }
        _ => (Vec::new(), &frame.bytes[14..]),
    };
    let wire = frame.wire - 14 + prefix.len() as u32;
    let mut bytes = prefix;
    bytes.extend(network);
    (bytes, wire)
}

fn put16(out: &mut Vec<u8>, value: u16, big: bool) {
    out.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
}

fn put32(out: &mut Vec<u8>, value: u32, big: bool) {
    out.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
}

/// A classic pcap file.
pub fn pcap(frames: &[Frame], big: bool, nanos: bool, link: u16) -> Vec<u8> {
    let mut out = Vec::new();
    put32(&mut out, if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }, big);
    put16(&mut out, 2, big);
    put16(&mut out, 4, big);
    for word in [0, 0, 0, u32::from(link)] {
        put32(&mut out, word, big);
    }
    for frame in frames {
        let (bytes, wire) = relink(frame, link);
        let part = frame.time % 1_000_000_000;
        put32(&mut out, (frame.time / 1_000_000_000) as u32, big);
        put32(&mut out, if nanos { part } else { part / 1_000 } as u32, big);
        put32(&mut out, bytes.len() as u32, big);
        put32(&mut out, wire, big);
        out.extend(bytes);
    }
    out
}

/// A pcapng block around `body`, which has whole words.
pub fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let mut out = Vec::new();
    put32(&mut out, kind, big);
    put32(&mut out, body.len() as u32 + 12, big);
    out.extend(body);
    put32(&mut out, body.len() as u32 + 12, big);
    out
}

pub fn section(big: bool) -> Vec<u8> {
    let mut body = Vec::new();
    put32(&mut body, 0x1a2b_3c4d, big);
    put16(&mut body, 1, big);
    put16(&mut body, 0, big);
    body.extend([0xff; 8]);
    block(0x0a0d_0d0a, &body, big)
}

/// An interface with time stamp resolution and offset in seconds.
pub fn interface(link: u16, resolution: Option<u8>, offset: i64, big: bool) -> Vec<u8> {
    let mut body = Vec::new();
    put16(&mut body, link, big);
    put16(&mut body, 0, big);
    put32(&mut body, 0, big);
    if let Some(resolution) = resolution {
        put16(&mut body, 9, big);
        put16(&mut body, 1, big);
        body.extend([resolution, 0, 0, 0]);
    }
    if offset != 0 {
        put16(&mut body, 14, big);
        put16(&mut body, 8, big);
        body.extend(if big { offset.to_be_bytes() } else { offset.to_le_bytes() });
    }
    body.extend([0; 4]);
    block(1, &body, big)
}

/// An enhanced packet block whose time is in units already.
pub fn enhanced(frame: &Frame, on: u32, units: u64, link: u16, big: bool) -> Vec<u8> {
    let (bytes, wire) = relink(frame, link);
    let mut body = Vec::new();
    for word in [on, (units >> 32) as u32, units as u32, bytes.len() as u32, wire] {
        put32(&mut body, word, big);
    }
    body.extend(&bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    block(6, &body, big)
}

/// The obsolete packet block.
pub fn obsolete(frame: &Frame, on: u16, units: u64, big: bool) -> Vec<u8> {
    let mut body = Vec::new();
    put16(&mut body, on, big);
    put16(&mut body, 0xffff, big);
    for word in [(units >> 32) as u32, units as u32, frame.bytes.len() as u32, frame.wire] {
        put32(&mut body, word, big);
    }
    body.extend(&frame.bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    block(2, &body, big)
}

/// The simple packet block.
pub fn simple(frame: &Frame, big: bool) -> Vec<u8> {
    let mut body = Vec::new();
    put32(&mut body, frame.wire, big);
    body.extend(&frame.bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    block(3, &body, big)
}

/// A pcapng file with one interface in nanoseconds.
pub fn pcapng(frames: &[Frame], big: bool, link: u16) -> Vec<u8> {
    let mut out = section(big);
    out.extend(interface(link, Some(9), 0, big));
    for frame in frames {
        out.extend(enhanced(frame, 0, frame.time, link, big));
    }
    out
}
