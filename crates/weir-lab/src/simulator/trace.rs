//! The trace of a run: a line of text for each thing that happens to a packet, in the manner of ns-3's ASCII traces.
//!
//! | | |
//! |---|---|
//! | `+` | taken into a link's queue |
//! | `-` | out of the queue and onto the link |
//! | `r` | off the link, or an acknowledgement that passes the bottleneck on its way back |
//! | `d` | dropped; the line ends with the reason |
//! | `m` | marked CE; the line ends with the reason |

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weir_core::{DropReason, Ecn, Event, EventKind, MarkReason, Packet, Time};
use weir_sim::Carried;

use super::wire::{CLIENT, SERVER, Wire};
use crate::traffic::Stack;

/// Writes a trace.
pub(super) struct Trace {
    out: BufWriter<File>,
}

fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Overflow => "overflow",
        DropReason::Evicted => "evicted",
        DropReason::Aqm => "aqm",
        DropReason::Early => "early",
    }
}

/// A mark's reason, as traces and captures tell it.
pub(super) fn mark_reason(reason: MarkReason) -> &'static str {
    match reason {
        MarkReason::Aqm => "aqm",
        MarkReason::CeThreshold => "ce_threshold",
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

/// Who sends to whom by what.
struct Ends<'a>(&'a Wire, bool);

impl fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(wire, down) = self;
        let [from, to] =
            if *down { [SERVER, CLIENT] } else { [CLIENT, SERVER] }.map(std::net::Ipv4Addr::from);
        let [source, target] = wire.ports(*down);
        let stack = match wire.stack() {
            Stack::Tcp => "tcp",
            Stack::Quic => "quic",
            Stack::Udp => "udp",
        };
        write!(f, "{from}:{source}>{to}:{target} {stack}")
    }
}

impl Trace {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { out: BufWriter::with_capacity(1 << 18, File::create(path)?) })
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
        self.packet(sign, event.time, link, &event.packet, wire, carried)?;
        write!(self.out, " queue={}", event.queue.0)?;
        match reason {
            Some(reason) => writeln!(self.out, " reason={reason}"),
            None => writeln!(self.out),
        }
    }

    /// A packet has left `link`.
    pub(super) fn departed(
        &mut self,
        link: usize,
        packet: &Packet,
        now: Time,
        wire: &Wire,
        carried: &Carried,
    ) -> io::Result<()> {
        self.packet('r', now, link, packet, wire, carried)?;
        writeln!(self.out)
    }

    /// An acknowledgement is at the bottleneck.
    pub(super) fn returning(&mut self, now: Time, wire: &Wire, carried: &Carried) -> io::Result<()> {
        let echo = if carried.echo { " ece" } else { "" };
        let ends = Ends(wire, false);
        write!(
            self.out,
            "r {} back {ends} ack={} marks={}{echo}",
            Seconds(now),
            carried.acknowledged,
            carried.marks
        )?;
        for (from, to) in carried.blocks.iter().filter(|(from, to)| from < to) {
            write!(self.out, " sack={from}-{to}")?;
        }
        writeln!(self.out)
    }

    fn packet(
        &mut self,
        sign: char,
        time: Time,
        link: usize,
        packet: &Packet,
        wire: &Wire,
        carried: &Carried,
    ) -> io::Result<()> {
        let reduced = if carried.reduced { " cwr" } else { "" };
        write!(
            self.out,
            "{sign} {} {link} {} id={} seq={} len={} bytes={} segments={} ecn={}{reduced}",
            Seconds(time),
            Ends(wire, true),
            packet.id,
            carried.offset,
            carried.payload,
            packet.wire_bytes,
            packet.segments,
            codepoint(packet.ecn),
        )
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
