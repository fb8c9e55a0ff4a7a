//! The settings of the law. Every point where the paper and its public prototype differ is one field, so that a figure
//! can show what each does. The values of the presets come from `bpf/law.h`, where the kernel has them from too.

use std::fmt;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ffi;

/// Named settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// What the CRQ paper says, read as `docs/model/law.md` explains where it is silent.
    #[default]
    Paper,
    /// What the paper's public prototype (COMSYS/congestion-responsive-queuing, 2025-05-07) does, slips included.
    Comsys,
    /// The paper's rule where flows have reason to cheat or others to forge: what no reverse traffic bears out does not
    /// count, verdicts lapse and votes fade.
    Robust,
}

/// The kind of signal that chooses the queue: that of the AQM in all queues (paper section III-B.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MainSignal {
    /// The queues drop.
    #[default]
    Loss,
    /// The queues mark.
    Ecn,
    /// Some mark, some drop, and flows that answer to marks have a queue of their own (paper section V). A flow that
    /// answers to both goes there. Not on live links, which have two queues.
    Both,
}

/// What equal numbers of votes mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tie {
    /// The verdict stays what it was.
    Keep,
    /// Responsive.
    #[default]
    Responsive,
    /// Unresponsive.
    Unresponsive,
}

/// Settings that make no law.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParamsError {
    /// A field is out of its range.
    #[error("{field} = {value} is out of range: use {range}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i128,
        /// What it may be.
        range: &'static str,
    },
    /// A field is to be a whole number and is none.
    #[error("{field} = {value} is no whole number: use {range}")]
    NotWhole {
        /// The field.
        field: &'static str,
        /// What was written.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// The judge reads counters of signals that are not there.
    #[error(
        "byte_counters = true does not go with whole_conduct = true, whose judge reads whole counters: \
         set one of them to false"
    )]
    ByteCountersJudged,
}

macro_rules! params {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty,)*) => {
        /// Settings of the law. Reads from a table with an optional `preset` (`"paper"` by default) and any of these
        /// fields over it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "Overrides")]
        pub struct Params {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Overrides {
            #[serde(default)]
            preset: Preset,
            $($field: Option<<$type as Field>::Written>,)*
        }

        impl TryFrom<Overrides> for Params {
            type Error = ParamsError;
            fn try_from(overrides: Overrides) -> Result<Self, ParamsError> {
                let mut params = Self::preset(overrides.preset);
                $(if let Some(value) = overrides.$field {
                    params.$field = <$type as Field>::read(stringify!($field), value)?;
                })*
                params.check()?;
                Ok(params)
            }
        }

        impl Params {
            /// The names of all fields, for messages and documentation.
            pub const FIELDS: &[&str] = &[$(stringify!($field)),*];

            fn from_raw(raw: &ffi::Params) -> Self {
                Self { $($field: <$type as Raw<_>>::from_raw(raw.$field),)* }
            }

            #[allow(clippy::needless_update, reason = "the C side has octets in reserve, or none at present")]
            pub(crate) fn to_raw(self) -> ffi::Params {
                ffi::Params { $($field: self.$field.into_raw(),)* ..ffi::Params::default() }
            }
        }
    };
}

params! {
    /// Bytes of a full segment for the minimum window. Default 1500 as in the prototype.
    mss: u32,
    /// Windows of fewer segments are not judged (paper III-A.1: four, after RFC 3390).
    min_window_segments: u32,
    /// With the denominator the largest W\[n\] / W\[n-2\] that counts as a response; 9/10 (paper III-A.1).
    response_numerator: u32,
    /// See `response_numerator`.
    response_denominator: u32,
    /// The signal kind whose verdict chooses the queue (paper III-B.1).
    main_signal: MainSignal,
    /// Verdict on equal votes. The paper does not say; the prototype says responsive.
    tie: Tie,
    /// T: an edge is the T-th packet in a row with the new spin value, 1 to 16. The paper's runs use 1.
    spin_debounce: u8,
    /// An edge must change the accepted spin value. Otherwise the last T bits decide alone, and a short glitch
    /// back makes an edge of its own (no difference at T = 1).
    spin_from_accepted: bool,
    /// The first packet's spin bit is the start value. Otherwise that is 0, and a flow with constant spin 1 has
    /// one false edge.
    first_spin_counts: bool,
    /// Edges count also where the short header stands behind long ones in a datagram.
    coalesced_spin: bool,
    /// Long-header packets count in full and go by the flow's verdict. Otherwise only the bytes of a short
    /// header behind them count, and they go to the standard queue.
    long_header_counts: bool,
    /// No edges on a flow whose Initial was not seen: keeps look-alikes out, and flows older than the
    /// bottleneck.
    quic_needs_initial: bool,
    /// TCP cycles wait for the second half (paper Fig. 2). Otherwise they end with the first, as the
    /// prototype's `A || W && C && D` does.
    full_cycles: bool,
    /// Sequence numbers compare modulo 2^32. Otherwise as plain integers with the prototype's wrap rule.
    modular_sequence: bool,
    /// Only a segment with payload beyond the right edge ends a TCP cycle and marks the next. Otherwise pure
    /// ACKs and retransmissions do too.
    marker_needs_data: bool,
    /// The second half starts from the ACK that completes the first (paper III-A.2). Otherwise from the cycle's
    /// first reverse packet.
    second_marker_on_match: bool,
    /// A SACK block beyond the marker completes the first half, so that a hole does not stretch the cycle. Otherwise only
    /// the cumulative acknowledgement does.
    sack_completes_half: bool,
    /// The bytes of a TCP flow's first packets count. Otherwise not those that found no state yet.
    first_bytes_count: bool,
    /// A flow's first cycle, whose beginning was not seen, is never judged by.
    skip_first_cycle: bool,
    /// The minimum applies to W\[n-2\], the window that got the signal: a flow that backs off below it is still
    /// credited. Otherwise to W\[n\].
    min_window_on_signalled: bool,
    /// A window of exactly the minimum is judged (the paper says "larger than").
    min_window_inclusive: bool,
    /// Products have 64 bits and windows saturate. Otherwise both wrap at 32 bits, above 429 MB in a cycle.
    wide_arithmetic: bool,
    /// A signal is booked to the cycle in which its packet arrived. Otherwise to the flow's current cycle when
    /// the signal is given, a queue delay later.
    book_by_packet: bool,
    /// Signal counters of 8 bits packed in one word: losses beyond 255 carry into the cycle before, marks
    /// saturate.
    byte_counters: bool,
    /// A signal on a super-packet weighs as many as it has segments. Otherwise one.
    count_segments: bool,
    /// CE that a packet arrives with counts as a mark of this bottleneck.
    count_arriving_ce: bool,
    /// UDP window bytes are the frame's less 42. Otherwise the payload. Differs where IP options or tags are
    /// read.
    udp_bytes_from_frame: bool,
    /// Signals are forgotten when the chosen queue changes (paper III-B.3: no verdict for two cycles).
    reset_on_switch: bool,
    /// A SYN with a new sequence number or a new QUIC Initial starts the entry afresh.
    reset_on_open: bool,
    /// All of VLAN, PPPoE, IPv6 and options are read. Otherwise what the prototype's fixed offsets can read:
    /// untagged IPv4 without options, TCP frames of more than 54 bytes, UDP with QUIC's fixed bit and more than
    /// 2 bytes.
    full_parser: bool,
    /// TCP and UDP between the same addresses and ports are two flows. Otherwise one.
    key_has_protocol: bool,
    /// A TCP acknowledgement of data that was not seen going forward says nothing. Otherwise it is believed, and a
    /// receiver can shorten its cycles.
    ignore_optimistic_acks: bool,
    /// TCP segments and acknowledgements count only within 64 kB of what is known to be in flight, which an
    /// acknowledgement has borne out. A segment outside is neither counted nor favoured, and no signal on it is the
    /// flow's. Otherwise any sequence number is believed, and one blind segment stops a flow's cycles.
    plausible_sequence: bool,
    /// After so many round trips of activity without the end of a cycle the flow's cycles begin anew, as those of a
    /// flow first seen mid-connection; 0 never. A pause counts as one.
    lapse_round_trips: u8,
    /// ...and with them its verdicts and votes: whoever shows no cycles has no verdict.
    verdict_lapses: bool,
    /// The two counts of votes are halved when their sum exceeds this, so that no more good votes can be saved up; 0
    /// keeps all (the paper's majority).
    votes_kept: u8,
    /// An edge of the spin bit counts only if the other direction's bit has changed since the last one that counted.
    /// Otherwise each change is believed, and forged packets make cycles.
    spin_needs_reverse: bool,
    /// Where marks choose the queue, a flow that sent nothing but Not-ECT goes by its verdict on losses. Otherwise it
    /// stays in the standard queue.
    loss_without_ecn: bool,
    /// Where both directions of a TCP flow have timestamps (RFC 7323), an echo of the newest one that went back when the
    /// first half was complete completes the second, and elsewhere the acknowledgement of the newest data that had.
    /// Otherwise it is that of the data in the packet that completed the first half.
    timestamp_cycles: bool,
    /// An edge counts only once half of what the flow's short cycles take has passed, so that nobody makes them far too
    /// short at once. Otherwise a cycle may have one packet.
    cycle_guard: bool,
    /// A vote is what the judge makes of all of the flow's cycles so far (`bpf/judge.h`). Otherwise it compares the window
    /// of the cycle that was signalled with the one two later, and `min_window_*`, `response_*` and `tie` apply.
    whole_conduct: bool,
}

impl Params {
    /// The settings of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self::from_raw(&match preset {
            Preset::Paper => ffi::paper(),
            Preset::Comsys => ffi::comsys(),
            Preset::Robust => ffi::robust(),
        })
    }

    /// The same settings with another main signal.
    #[must_use]
    pub fn with_main_signal(self, main_signal: MainSignal) -> Self {
        Self { main_signal, ..self }
    }

    /// Bytes of `struct weir_law_params`.
    pub const C_BYTES: usize = size_of::<ffi::Params>();

    /// The bytes of `struct weir_law_params` (`bpf/law_state.h`), for programs that read them from a map.
    pub fn to_c_bytes(&self) -> Vec<u8> {
        ffi::to_bytes(&self.to_raw())
    }

    /// Whether the programs' fast path knows these settings (`bpf/fast_path.h`): those of `paper` or `robust` in all
    /// that is asked for each packet. Other settings take the whole way always, and judge no differently for it.
    pub fn has_fast_path(&self) -> bool {
        ffi::fast_applies(&self.to_raw())
    }

    /// From the same bytes; `None` if there are not [`C_BYTES`](Self::C_BYTES) of them.
    pub fn from_c_bytes(bytes: &[u8]) -> Option<Self> {
        ffi::from_bytes(bytes).map(|raw| Self::from_raw(&raw))
    }

    /// Whether all fields are in range and go together.
    ///
    /// # Errors
    /// Names the field that is not, and what it may be, or the two that do not.
    pub fn check(&self) -> Result<(), ParamsError> {
        let numbers: [(&'static str, u32); 7] = [
            ("mss", self.mss),
            ("min_window_segments", self.min_window_segments),
            ("response_numerator", self.response_numerator),
            ("response_denominator", self.response_denominator),
            ("spin_debounce", self.spin_debounce.into()),
            ("lapse_round_trips", self.lapse_round_trips.into()),
            ("votes_kept", self.votes_kept.into()),
        ];
        for (field, value) in numbers {
            in_range(field, value.into())?;
        }
        if self.byte_counters && self.whole_conduct {
            return Err(ParamsError::ByteCountersJudged);
        }
        Ok(())
    }
}

/// What a number may be, and in words. Of votes, one is no majority that could be kept.
fn range(field: &str) -> (fn(i128) -> bool, &'static str) {
    match field {
        "mss" => (|value| (1..=65_535).contains(&value), "1 to 65535"),
        "min_window_segments" => (|value| (0..=65_536).contains(&value), "0 to 65536"),
        "response_numerator" | "response_denominator" => {
            (|value| (1..=1_000_000).contains(&value), "1 to 1000000")
        }
        "spin_debounce" => (|value| (1..=16).contains(&value), "1 to 16"),
        "votes_kept" => (|value| value == 0 || (2..=255).contains(&value), "0, or 2 to 255"),
        _ => (|value| (0..=255).contains(&value), "0 to 255"),
    }
}

fn in_range(field: &'static str, value: i128) -> Result<(), ParamsError> {
    let (is_in, range) = range(field);
    if is_in(value) { Ok(()) } else { Err(ParamsError::OutOfRange { field, value, range }) }
}

impl Default for Params {
    fn default() -> Self {
        Self::preset(Preset::Paper)
    }
}

impl From<Preset> for Params {
    fn from(preset: Preset) -> Self {
        Self::preset(preset)
    }
}

/// A setting as it is written.
trait Field: Sized {
    /// What is read before it is known whether it can be a value of the field: a number that its type has no room for
    /// is to be told the field's range, not the type.
    type Written: for<'de> Deserialize<'de>;
    fn read(field: &'static str, written: Self::Written) -> Result<Self, ParamsError>;
}

macro_rules! words {
    ($($type:ty),*) => {$(
        impl Field for $type {
            type Written = Self;
            fn read(_: &'static str, written: Self) -> Result<Self, ParamsError> {
                Ok(written)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            type Written = Written;
            fn read(field: &'static str, written: Written) -> Result<Self, ParamsError> {
                let range = range(field).1;
                let value = match written {
                    Written::Whole(value) => value,
                    Written::Other(value) => return Err(ParamsError::NotWhole { field, value, range }),
                };
                in_range(field, value)?;
                Self::try_from(value).map_err(|_| ParamsError::OutOfRange { field, value, range })
            }
        }
    )*};
}

words!(bool, MainSignal, Tie);
numbers!(u8, u32);

/// What stands where a number should.
enum Written {
    Whole(i128),
    Other(String),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor)
    }
}

struct WrittenVisitor;

impl Visitor<'_> for WrittenVisitor {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }
    fn visit_i64<E>(self, value: i64) -> Result<Written, E> {
        Ok(Written::Whole(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Written, E> {
        Ok(Written::Whole(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Written, E> {
        Ok(Written::Other(format!("{value:?}")))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Written, E> {
        Ok(Written::Other(value.to_string()))
    }
    fn visit_str<E>(self, value: &str) -> Result<Written, E> {
        Ok(Written::Other(format!("\"{value}\"")))
    }
}

/// A setting as the C side keeps it.
trait Raw<R> {
    fn from_raw(raw: R) -> Self;
    fn into_raw(self) -> R;
}

impl Raw<u32> for u32 {
    fn from_raw(raw: u32) -> Self {
        raw
    }
    fn into_raw(self) -> u32 {
        self
    }
}

impl Raw<u8> for u8 {
    fn from_raw(raw: u8) -> Self {
        raw
    }
    fn into_raw(self) -> u8 {
        self
    }
}

impl Raw<u8> for bool {
    fn from_raw(raw: u8) -> Self {
        raw != 0
    }
    fn into_raw(self) -> u8 {
        self.into()
    }
}

impl Raw<u8> for MainSignal {
    fn from_raw(raw: u8) -> Self {
        match raw {
            1 => Self::Ecn,
            2 => Self::Both,
            _ => Self::Loss,
        }
    }
    fn into_raw(self) -> u8 {
        self as u8
    }
}

impl Raw<u8> for Tie {
    fn from_raw(raw: u8) -> Self {
        match raw {
            1 => Self::Responsive,
            2 => Self::Unresponsive,
            _ => Self::Keep,
        }
    }
    fn into_raw(self) -> u8 {
        self as u8
    }
}
