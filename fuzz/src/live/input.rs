//! What the bytes say: a header, then steps of eight bytes each. Of fixed length, so that the fuzzer can cut out,
//! move and double steps.

use weir_core::{Duration, Time};
use weir_law::{Direction, MainSignal, Params, Preset, Signal};

use super::millis;

/// Bytes of the header, and of a step.
const HEADER: usize = 16;
/// See [`HEADER`].
const STEP: usize = 8;
/// Steps that are run at most, so that an input takes milliseconds.
const MOST_STEPS: usize = 1_000;

/// Settings of table and law.
#[derive(Clone, Debug)]
pub(super) struct Header {
    /// The law.
    pub(super) params: Params,
    /// Room in the table.
    pub(super) flows: u32,
    /// Payload before a flow gets an entry.
    pub(super) admit_bytes: u32,
    /// Whether it needs an answer as well.
    pub(super) admit_reverse: bool,
    /// After how long a TCP entry may go.
    pub(super) idle_tcp: Duration,
    /// The same for UDP.
    pub(super) idle_udp: Duration,
    /// The same after FIN or RST.
    pub(super) linger: Duration,
    /// How long a candidate waits.
    pub(super) candidate: Duration,
    /// How long one waits that was answered.
    pub(super) answered: Duration,
    /// The first moment: table time wraps after 52 days.
    pub(super) start: Time,
}

impl Header {
    /// The header, and the steps behind it; `None` where the input is too short or spells no law.
    pub(super) fn read(input: &[u8]) -> Option<(Self, Steps<'_>)> {
        let (header, rest) = input.split_at_checked(HEADER)?;
        let time = |at: usize, default: u64| match header[at] {
            0 => Duration::from_secs(default),
            short => millis(u64::from(short) * 10),
        };
        let start = match header[15] {
            0 => 1_000_000_000,
            // Shortly before a tick of 2^32, or any other.
            1 => ((1u64 << 32) - 2_000) << 20,
            other => u64::from(other) << 40,
        };
        let params = law(header[0], &header[1..4])?;
        let this = Self {
            params,
            flows: 8 << (header[4] % 3),
            admit_bytes: match header[5] {
                0 => params.mss.saturating_mul(params.min_window_segments),
                bytes => u32::from(bytes) * 100,
            },
            admit_reverse: header[6] & 1 == 0,
            idle_tcp: time(7, 300),
            idle_udp: time(8, 60),
            linger: time(9, 10),
            candidate: time(10, 5),
            answered: time(11, 30),
            start: Time::from_nanos(start),
        };
        Some((this, Steps { rest, left: MOST_STEPS }))
    }
}

/// A preset with some of its settings turned round: each of `flips` names a byte of the law's structure behind the
/// numbers, 0 none.
fn law(choice: u8, flips: &[u8]) -> Option<Params> {
    const NUMBERS: usize = 20;
    let preset = match choice & 17 {
        0 => Preset::Paper,
        16 => Preset::Robust,
        _ => Preset::Comsys,
    };
    let mut bytes = Params::preset(preset).to_c_bytes();
    let settings = bytes.len() - NUMBERS;
    for flip in flips.iter().filter(|flip| **flip != 0) {
        bytes[NUMBERS + usize::from(*flip) % settings] ^= 1;
    }
    let mut params = Params::from_c_bytes(&bytes)?;
    if choice & 2 != 0 {
        params.mss = 300;
    }
    if choice & 4 != 0 {
        params.main_signal = MainSignal::Ecn;
    }
    if choice & 8 != 0 {
        params.spin_debounce = 3;
    }
    // The kernel's programs know two queues.
    (params.main_signal != MainSignal::Both && params.check().is_ok()).then_some(params)
}

/// How a number is made from what its sender has sent, or its peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// The next in order.
    Next,
    /// So much before it.
    Before(u32),
    /// So much beyond it.
    Beyond(u32),
    /// Anything.
    Raw(u32),
}

impl Number {
    fn read(mode: u8, value: u32) -> Self {
        match mode & 7 {
            0..=3 => Self::Next,
            4 => Self::Before(value & 0xffff),
            5 => Self::Beyond(value & 0xffff),
            // Around half of the number space, where "before" turns into "beyond".
            6 => Self::Beyond(0x8000_0000u32.wrapping_add(value & 0xffff).wrapping_sub(0x8000)),
            _ => Self::Raw(value.wrapping_mul(0x9e37_79b9)),
        }
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpStep {
    /// Whose.
    pub(super) flow: u8,
    /// Which way.
    pub(super) direction: Direction,
    /// Its flags.
    pub(super) flags: u8,
    /// Codepoint.
    pub(super) ecn: u8,
    /// Its sequence number.
    pub(super) seq: Number,
    /// What it acknowledges.
    pub(super) ack: Number,
    /// Its payload.
    pub(super) payload: u16,
}

/// A datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct UdpStep {
    /// Whose.
    pub(super) flow: u8,
    /// Which way.
    pub(super) direction: Direction,
    /// Whether it has a long header, and which: 0 none, 1 Initial, 2 Handshake, 3 Initial with a short packet behind
    /// it.
    pub(super) long: u8,
    /// The first octet of a short header: fixed bit and spin bit are in it.
    pub(super) first: u8,
    /// Codepoint.
    pub(super) ecn: u8,
    /// Its payload.
    pub(super) payload: u16,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A segment.
    Tcp(TcpStep),
    /// A datagram.
    Udp(UdpStep),
    /// The flow's last packet again, with another octet.
    Spoil {
        /// Whose.
        flow: u8,
        /// Which way.
        direction: Direction,
        /// Which octet.
        at: u8,
        /// What it becomes.
        with: u8,
    },
    /// A loss or mark of the flow's last packet.
    Signal {
        /// Whose.
        flow: u8,
        /// Which.
        signal: Signal,
        /// Cycles before the stamp of the last packet.
        back: u32,
        /// Its weight.
        segments: u16,
    },
    /// Time goes on.
    Wait(Duration),
    /// Another processor's clock.
    Back(Duration),
    /// `weir reload`.
    Law(Params),
    /// New flows, each answered.
    Crowd {
        /// How many.
        count: u8,
        /// The first one's number.
        from: u16,
    },
}

/// Steps in the order of the bytes.
pub(super) struct Steps<'a> {
    rest: &'a [u8],
    left: usize,
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        self.left = self.left.checked_sub(1)?;
        let (bytes, rest) = self.rest.split_first_chunk::<STEP>()?;
        self.rest = rest;
        Some(step(*bytes))
    }
}

fn step([kind, who, a, b, c, d, e, f]: [u8; STEP]) -> Step {
    const FLAGS: [u8; 8] = [0x10, 0x10, 0x10, 0x18, 0x02, 0x12, 0x11, 0x04];
    let flow = who & 7;
    let direction = if who & 0x80 == 0 { Direction::Forward } else { Direction::Reverse };
    let ecn = who >> 5 & 3;
    let (low, high) = (u16::from_le_bytes([c, d]), u16::from_le_bytes([e, f]));
    let word = u32::from(high) << 16 | u32::from(low);
    match kind % 16 {
        0..=5 => Step::Tcp(TcpStep {
            flow,
            direction,
            flags: if a & 0x80 == 0 { FLAGS[usize::from(a & 7)] } else { a },
            ecn,
            seq: Number::read(b, high.into()),
            ack: Number::read(b >> 3, high.into()),
            payload: low,
        }),
        6..=9 => Step::Udp(UdpStep { flow, direction, long: a & 3, first: b, ecn, payload: low }),
        10 => Step::Spoil { flow, direction, at: a, with: b },
        11 => Step::Signal {
            flow,
            signal: if a & 1 == 0 { Signal::Loss } else { Signal::Mark },
            back: if b < 8 { b.into() } else { word },
            segments: if b < 8 { low } else { 1 },
        },
        12 => Step::Wait(Duration::from_nanos(u64::from(word) << (a % 24))),
        13 => Step::Back(Duration::from_micros(u64::from(low) % 10_000)),
        14 => law(a, &[b, c, d]).map_or(Step::Wait(Duration::ZERO), Step::Law),
        _ => Step::Crowd { count: a % 32, from: low },
    }
}
