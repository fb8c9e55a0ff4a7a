//! The trace of a run: a line of text for each thing that happens to a packet, in the manner of ns-3's ASCII traces.
//!
//! | | |
//! |---|---|
//! | `+` | taken into a link's queue |
//! | `-` | out of the queue and onto the link |
//! | `r` | off the link, or past it where nothing queues |
//! | `l` | lost behind the link, after its `r` |
//! | `d` | dropped; the line ends with the reason |
//! | `m` | marked CE; the line ends with the reason |

use std::fmt;
use std::io::{self, Write};

use weir_core::{DropReason, Ecn, Event, EventKind, MarkReason, Packet, Time};
use weir_sim::headers::{Transport, Wire};
use weir_sim::{Carried, Way};

use weir_report::output::Part;

/// Writes a trace.
pub(super) struct Trace {
    out: Part,
}

fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Overflow => "overflow",
        DropReason::Evicted => "evicted",
        DropReason::Aqm => "aqm",
        DropReason::Early => "early",
        DropReason::Challenge => "challenge",
    }
}

/// A mark's reason, as traces and captures name it.
pub(super) fn mark_reason(reason: MarkReason) -> &'static str {
    match reason {
        MarkReason::Aqm => "aqm",
        MarkReason::CeThreshold => "ce_threshold",
        MarkReason::Challenge => "challenge",
    }
}

fn codepoint(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "not-ect",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::Ce => "ce",
    }
}

/// Seconds with all nine decimals.
struct Seconds(Time);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// A link by its number, and which way over it.
struct Place(usize, Way);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(link, Way::Forward) => write!(f, "{link}"),
            Self(0, Way::Back) => f.write_str("back"),
            Self(link, Way::Back) => write!(f, "back{link}"),
        }
    }
}

/// Who sends to whom by what.
struct Ends<'a>(&'a Wire, bool);

impl fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(wire, down) = self;
        let [from, to] = wire.ends(*down);
        let transport = match wire.transport() {
            Transport::Tcp => "tcp",
            Transport::Quic => "quic",
            Transport::Udp => "udp",
        };
        write!(f, "{from}>{to} {transport}")
    }
}

impl Trace {
    /// A trace that is written to `out`.
    pub(super) fn new(out: Part) -> Self {
        Self { out }
    }

    /// Something happened in the queue of `link`.
    pub(super) fn event(
        &mut self,
        link: usize,
        event: &Event,
        wire: &Wire,
        carried: &Carried,
    ) -> io::Result<()> {
        let (sign, reason) = match event.kind {
            EventKind::Enqueue => ('+', None),
            EventKind::Dequeue => ('-', None),
            EventKind::Drop(reason) => ('d', Some(drop_reason(reason))),
            EventKind::Mark(reason) => ('m', Some(mark_reason(reason))),
        };
        self.packet(sign, event.time, link, Some(&event.packet), wire, carried)?;
        write!(self.out, " queue={}", event.queue.0)?;
        match reason {
            Some(reason) => writeln!(self.out, " reason={reason}"),
            None => writeln!(self.out),
        }
    }

    /// A packet has left `link`, or passed it where nothing queues: then there is no `packet`. Or, once it has, it is
    /// `lost` behind it.
    pub(super) fn departed(
        &mut self,
        lost: bool,
        link: usize,
        packet: Option<&Packet>,
        now: Time,
        wire: &Wire,
        carried: &Carried,
    ) -> io::Result<()> {
        self.packet(if lost { 'l' } else { 'r' }, now, link, packet, wire, carried)?;
        writeln!(self.out)
    }

    fn packet(
        &mut self,
        sign: char,
        time: Time,
        link: usize,
        packet: Option<&Packet>,
        wire: &Wire,
        carried: &Carried,
    ) -> io::Result<()> {
        let (place, ends) = (Place(link, carried.way), Ends(wire, carried.way == Way::Forward));
        write!(self.out, "{sign} {} {place} {ends}", Seconds(time))?;
        if let Some(packet) = packet {
            write!(self.out, " id={}", packet.id)?;
        }
        let has_data = carried.payload > 0;
        if has_data {
            write!(self.out, " seq={} len={}", carried.offset, carried.payload)?;
        }
        if has_data || packet.is_some() {
            let (bytes, segments, ecn) = packet
                .map_or((carried.wire_bytes, carried.segments, carried.ecn), |packet| {
                    (packet.wire_bytes, packet.segments, packet.ecn)
                });
            let reduced = if carried.reduced { " cwr" } else { "" };
            let ecn = codepoint(ecn);
            write!(self.out, " bytes={bytes} segments={segments} ecn={ecn}{reduced}")?;
        }
        // Data of a one-way flow acknowledges nothing.
        if !has_data || carried.acknowledged > 0 {
            let echo = if carried.echo { " ece" } else { "" };
            write!(self.out, " ack={} marks={}{echo}", carried.acknowledged, carried.marks)?;
            for (from, to) in carried.blocks.iter().filter(|(from, to)| from < to) {
                write!(self.out, " sack={from}-{to}")?;
            }
        }
        Ok(())
    }

    /// The file, to be completed.
    pub(super) fn into_part(self) -> Part {
        self.out
    }
}
