//! Writes packets down as they pass: a capture and a trace. Time is virtual, so nothing is lost to a slow disk.

use std::collections::HashMap;
use std::io;

use weir_core::{Duration, Ecn, Event, EventKind, MarkReason, Packet, Time};
use weir_sim::headers::{Frames, Headers, LONGEST, Wire};
use weir_sim::{Carried, Opening, Way};

use super::trace::{self, Trace};
use crate::capture::INTERFACES;
use crate::run::{RunError, RunOptions};
use weir_report::output::{Part, Target};
use weir_report::pcapng::{LINK_ETHERNET, PcapngError, PcapngWriter};

/// The link that is captured.
const BOTTLENECK: usize = 0;
/// The interface towards the client, and the one towards the server.
const DOWN: u32 = 0;
const UP: u32 = 1;

fn interface(down: bool) -> u32 {
    if down { DOWN } else { UP }
}

/// Where packets are written down.
pub(super) struct Wiretap {
    pcap: Option<(Target, PcapngWriter<Part>)>,
    trace: Option<(Target, Trace)>,
    frames: Frames,
    /// What is in the packets that are queued, and why they were marked. A packet has another number in each queue.
    inside: HashMap<u64, (Carried, Option<MarkReason>)>,
    /// What has left a link, or passed one, last.
    departed: Option<(usize, Option<Packet>, Carried)>,
    /// The first failure; nothing is written after it.
    failed: Option<RunError>,
}

impl Wiretap {
    /// A tap that writes what `options` ask for; none if that is nothing.
    pub(super) fn create(options: &RunOptions) -> Result<Option<Self>, RunError> {
        let pcap = options.pcap.as_ref().map(capture).transpose()?;
        let trace = options.trace.as_ref().map(tracing).transpose()?;
        Ok((pcap.is_some() || trace.is_some()).then(|| Self {
            pcap,
            trace,
            frames: Frames::default(),
            inside: HashMap::new(),
            departed: None,
            failed: None,
        }))
    }

    /// A connection over the bottleneck opens. Its handshake is not queued, but stands in the capture at the times that
    /// it would have. Links on its path delay it by so much before the bottleneck and behind it.
    pub(super) fn opens(&mut self, opening: &Opening, delays: [Duration; 2], wire: &Wire) {
        self.frames.opens(opening, delays, wire);
    }

    pub(super) fn arriving(&mut self, packet: &Packet, carried: &Carried) {
        self.inside.insert(packet.id, (self.frames.arriving(carried), None));
    }

    /// Something happened in a queue.
    pub(super) fn event(&mut self, link: usize, event: &Event, wire: &Wire) {
        let Some((carried, why)) = self.inside.get_mut(&event.packet.id) else { return };
        let carried = *carried;
        match event.kind {
            EventKind::Mark(reason) => *why = Some(reason),
            EventKind::Drop(_) => drop(self.inside.remove(&event.packet.id)),
            EventKind::Enqueue | EventKind::Dequeue => {}
        }
        self.tell(|trace| trace.event(link, event, wire, &carried));
    }

    /// A packet has left the link.
    pub(super) fn departed(&mut self, link: usize, packet: &Packet, now: Time, wire: &Wire) {
        let Some((carried, why)) = self.inside.remove(&packet.id) else { return };
        self.departed = Some((link, Some(*packet), carried));
        self.tell(|trace| trace.departed(false, link, Some(packet), now, wire, &carried));
        self.capture(link, packet.ecn, &carried, now, wire, why);
    }

    /// A packet passes a link where nothing queues.
    pub(super) fn returning(&mut self, link: usize, carried: &Carried, now: Time, wire: &Wire) {
        self.departed = Some((link, None, *carried));
        self.tell(|trace| trace.departed(false, link, None, now, wire, carried));
        self.capture(link, carried.ecn, carried, now, wire, None);
    }

    /// What has departed last will not arrive.
    pub(super) fn lost(&mut self, now: Time, wire: &Wire) {
        if let Some((link, packet, carried)) = self.departed.take() {
            self.tell(|trace| trace.departed(true, link, packet.as_ref(), now, wire, &carried));
        }
    }

    /// Writes a packet down that leaves the bottleneck on either way.
    fn capture(
        &mut self,
        link: usize,
        codepoint: Ecn,
        carried: &Carried,
        now: Time,
        wire: &Wire,
        why: Option<MarkReason>,
    ) {
        if self.pcap.is_none() || link != BOTTLENECK {
            return;
        }
        let headers = self.frames.packet(carried, codepoint, wire);
        while let Some((time, down, packet)) = self.frames.handshake(now) {
            self.put(interface(down), time, &packet, None);
        }
        self.put(interface(carried.way == Way::Forward), now, &headers, why.map(trace::mark_reason));
    }

    /// Completes the files.
    pub(super) fn finish(mut self) -> Result<(), RunError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        if let Some((target, writer)) = self.pcap {
            let written = writer.finish().and_then(|part| Ok(target.finish(part)?));
            written.map_err(|source| failure(&target, source))?;
        }
        if let Some((target, trace)) = self.trace {
            target.finish(trace.into_part()).map_err(|error| failure(&target, error.into()))?;
        }
        Ok(())
    }

    /// Whether a file could not be written, so that what follows is in vain.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn tell(&mut self, write: impl FnOnce(&mut Trace) -> io::Result<()>) {
        if let Some((target, trace)) = &mut self.trace
            && self.failed.is_none()
            && let Err(error) = write(trace)
        {
            self.failed = Some(failure(target, error.into()));
        }
    }

    fn put(&mut self, interface: u32, time: Time, headers: &Headers, comment: Option<&str>) {
        if let Some((target, writer)) = &mut self.pcap
            && self.failed.is_none()
            && let Err(source) =
                writer.packet(interface, time.as_nanos(), headers.length(), headers.bytes(), comment)
        {
            self.failed = Some(failure(target, source));
        }
    }
}

fn failure(target: &Target, source: PcapngError) -> RunError {
    RunError::Capture { path: target.path().to_owned(), source }
}

fn capture(target: &Target) -> Result<(Target, PcapngWriter<Part>), RunError> {
    let part = target.create().map_err(|error| failure(target, error.into()))?;
    let writer = PcapngWriter::new(part, &INTERFACES, LINK_ETHERNET, LONGEST as u32);
    Ok((target.clone(), writer.map_err(|source| failure(target, source))?))
}

fn tracing(target: &Target) -> Result<(Target, Trace), RunError> {
    let part = target.create().map_err(|error| failure(target, error.into()))?;
    Ok((target.clone(), Trace::new(part)))
}
