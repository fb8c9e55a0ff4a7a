//! A bottleneck without I/O: delay line, law, queue discipline and rate limiter in one direction, delay line and law in
//! the other. Frames and the time are passed in; frames to send are handed back.
//!
//! Everything happens at its virtual time and in the order of virtual time, whenever the thread gets to it: a packet
//! that left the delay line at t was queued at t, and a packet that the link took at t was dequeued at t. So an AQM
//! here decides as it would on an exact link, and the same packets at the same times give the same decisions in the
//! simulator. What the real clock adds is measured: how late each packet left, and how large the largest burst was.

use weir_core::{Audit, Bytes, Ecn, FlowId, Histogram, Packet, Rate, RateMeter, Time};
use weir_law::{Direction, Law, ParsedPacket, Start, Watch, parse, write_ce};
use weir_qdisc::Qdisc;

use crate::delay::DelayLines;
use crate::flows::{DelayChoice, Flows};
use crate::frame::{FrameIndex, FramePool};
use crate::limiter::{Limiter, default_burst};
use crate::observer::{Fan, Leftovers, Observer};
use crate::report::{DirectionCount, FlowReport, PipelineReport};

/// What a bottleneck is made of.
pub struct PipelineConfig {
    /// The rate of the link, in wire bits: frames and `overhead`.
    pub rate: Rate,
    /// How much of a late wake-up the link makes up for; [`default_burst`] if `None`.
    pub burst: Option<Bytes>,
    /// Layer-2 overhead in bytes that each frame has on the wire beyond its Ethernet header: 24 for preamble, checksum
    /// and gap of Ethernet, 0 to count as the kernel does.
    pub overhead: u32,
    /// The law that judges flows; without one every packet belongs to the standard queue.
    pub law: Option<Law>,
    /// The delays of each flow.
    pub delays: DelayChoice,
    /// Frames of the pool whose frames will be passed in.
    pub frames: u32,
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet, as it is after the queue.
    pub packet: Packet,
    /// Forward: out at the client's side. Reverse: out at the server's side.
    pub direction: Direction,
    /// When it leaves in virtual time: the end of its transmission, or of its delay.
    pub due: Time,
}

impl Departure {
    /// Where its bytes are.
    pub fn frame(&self) -> FrameIndex {
        FrameIndex(self.packet.handle as u32)
    }
}

/// What is left when a run has ended.
pub struct Finished {
    /// What the bottleneck did.
    pub report: PipelineReport,
    /// The observer, to be asked for what it saw.
    pub observer: Box<dyn Observer>,
    /// The law, to be asked for its verdicts.
    pub law: Option<Law>,
}

#[derive(Clone, Copy)]
struct Slot {
    parsed: ParsedPacket,
    flow: FlowId,
    length: u32,
}

/// What the link does.
#[derive(Clone, Copy)]
enum Transmitter {
    Idle,
    /// Sends this packet until the time.
    Busy(Packet, Time),
    /// The discipline holds packets back until the time.
    Held(Time),
}

impl Transmitter {
    fn due(&self) -> Time {
        match self {
            Self::Idle => Time::MAX,
            Self::Busy(_, until) | Self::Held(until) => *until,
        }
    }
}

const FORWARD: usize = 0;
const REVERSE: usize = 1;

/// A bottleneck.
pub struct Pipeline {
    overhead: u32,
    limiter: Limiter,
    burst: Bytes,
    rate: Rate,
    watch: Option<Watch>,
    qdisc: Box<dyn Qdisc>,
    observer: Box<dyn Observer>,
    flows: Flows,
    delays: [DelayLines; 2],
    slots: Vec<Option<Slot>>,
    transmitter: Transmitter,
    /// The virtual time of the last thing that happened.
    clock: Time,
    next_id: u64,
    audit: Audit,
    counts: [DirectionCount; 2],
    /// Departures handed out and not yet confirmed.
    unconfirmed: [u64; 2],
    lateness: [Histogram; 2],
    meter: RateMeter,
    largest: u32,
    unwritable_marks: u64,
}

impl Pipeline {
    /// A bottleneck that queues with `qdisc`, watched by `observer`.
    pub fn new(config: PipelineConfig, qdisc: Box<dyn Qdisc>, observer: Box<dyn Observer>) -> Self {
        let burst = config.burst.unwrap_or_else(|| default_burst(config.rate));
        let mut delays = [DelayLines::new(config.frames), DelayLines::new(config.frames)];
        Self {
            overhead: config.overhead,
            limiter: Limiter::new(config.rate, burst),
            burst,
            rate: config.rate,
            watch: config.law.map(Watch::new),
            qdisc,
            observer,
            flows: Flows::new(config.delays, &mut delays),
            delays,
            slots: vec![None; config.frames as usize],
            transmitter: Transmitter::Idle,
            clock: Time::ZERO,
            next_id: 0,
            audit: Audit::with_capacity(1024),
            counts: [DirectionCount::default(); 2],
            unconfirmed: [0; 2],
            lateness: [Histogram::new(), Histogram::new()],
            meter: RateMeter::new(config.rate),
            largest: 0,
            unwritable_marks: 0,
        }
    }

    /// Takes a frame that came in at `now`. The frame stays with the pipeline until it comes out of
    /// [`advance`](Self::advance) or is dropped and freed there.
    pub fn receive(&mut self, frame: FrameIndex, bytes: &[u8], direction: Direction, now: Time) {
        let side = direction as usize & 1;
        let parsed = parse(bytes, Start::Ethernet);
        let identity = self.flows.identify(&parsed, side, &mut self.delays);
        if let Some(key) = &identity.new {
            self.observer.new_flow(identity.flow, key, now);
        }
        self.observer.received(bytes, direction, now);
        self.counts[side].received += 1;
        self.slots[frame.0 as usize] = Some(Slot { parsed, flow: identity.flow, length: bytes.len() as u32 });
        self.delays[side].push(identity.line, frame.0, now);
    }

    /// Does all that is due at `now`, in virtual order, and appends the frames that leave to `out` until its capacity
    /// is reached. Returns whether more is due.
    ///
    /// The caller sends them and says so with [`departed`](Self::departed) before the next call.
    pub fn advance(&mut self, now: Time, pool: &mut FramePool, out: &mut Vec<Departure>) -> bool {
        loop {
            let link = self.transmitter.due();
            let (forward, reverse) = (self.delays[FORWARD].due(), self.delays[REVERSE].due());
            let next = link.min(forward).min(reverse);
            if next > now || next == Time::MAX {
                return false;
            }
            if out.len() == out.capacity() {
                return true;
            }
            // A frame that was read late and has no delay is handled as if it came right after what is done already.
            let at = next.max(self.clock);
            if next == link {
                // On equal times the link goes first: a departure makes room for an arrival.
                self.transmitter_due(at, now, pool, out);
            } else if next == reverse {
                self.clock = at;
                self.reverse(at, out);
            } else {
                self.clock = at;
                self.forward(at, pool);
            }
        }
    }

    /// When [`advance`](Self::advance) has something to do next; `None` while nothing waits.
    pub fn next_wake(&self) -> Option<Time> {
        let next = self.transmitter.due().min(self.delays[FORWARD].due()).min(self.delays[REVERSE].due());
        (next != Time::MAX).then_some(next)
    }

    /// Takes note that frames have left at the real time `real`.
    pub fn departed(&mut self, departures: &[Departure], real: Time, pool: &FramePool) {
        for departure in departures {
            let side = departure.direction as usize & 1;
            let bytes = departure.packet.wire_bytes;
            self.counts[side].sent += 1;
            self.counts[side].sent_bytes += u64::from(bytes);
            self.unconfirmed[side] -= 1;
            self.lateness[side].record(real.since(departure.due).as_nanos());
            if side == FORWARD {
                self.limiter.departed(bytes, real);
                self.meter.sent(real, u64::from(bytes));
                self.largest = self.largest.max(bytes);
            }
            self.observer.departed(departure, pool.bytes(departure.frame()), real);
        }
    }

    /// Ends the run: empties the queue and the delay lines, frees their frames and reports.
    pub fn finish(mut self, pool: &mut FramePool) -> Finished {
        let mut left = Leftovers::default();
        let mut now = self.clock;
        while self.qdisc.backlog().packets > 0 {
            // The packet comes back as the return value and as an event; events also report drops.
            if self.qdisc.dequeue(now, &mut left).is_none() {
                now =
                    self.qdisc.next_ready(now).unwrap_or(now).max(now + weir_core::Duration::from_micros(1));
            }
        }
        let mut transmitting = 0;
        if let Transmitter::Busy(packet, _) = self.transmitter {
            transmitting = 1;
            pool.free(FrameIndex(packet.handle as u32));
        }
        let delayed = [self.delays[FORWARD].waiting(), self.delays[REVERSE].waiting()];
        for lines in &mut self.delays {
            while let Some(frame) = lines.pop() {
                pool.free(FrameIndex(frame));
            }
        }
        left.0.iter().for_each(|(_, frame)| pool.free(*frame));
        let audit = self.audit.report(left.0.iter().map(|(flow, _)| *flow));
        self.counts[FORWARD].dropped = audit.total.dropped;
        self.counts[FORWARD].unsent =
            delayed[FORWARD] + left.0.len() as u64 + transmitting + self.unconfirmed[FORWARD];
        self.counts[REVERSE].unsent = delayed[REVERSE] + self.unconfirmed[REVERSE];
        let flows = (0..self.flows.len()).map(FlowId).chain([FlowId::NONE]);
        let report = PipelineReport {
            rate: self.rate,
            forward: self.counts[FORWARD],
            reverse: self.counts[REVERSE],
            flows: flows
                .map(|flow| FlowReport {
                    flow,
                    key: self.flows.key(flow).map(|key| key.to_string()).unwrap_or_default(),
                    count: self.audit.flow(flow),
                    queued: left.0.iter().filter(|(of, _)| *of == flow).count() as u64,
                })
                .filter(|report| report.count.arrived > 0)
                .collect(),
            audit,
            delayed,
            transmitting,
            lateness: (&self.lateness[FORWARD]).into(),
            reverse_lateness: (&self.lateness[REVERSE]).into(),
            burst_allowed: self.burst.0,
            burst_highest: self.meter.highest(),
            largest_packet: u64::from(self.largest),
            late_loss: self.limiter.late_loss(),
            unwritable_marks: self.unwritable_marks,
            pool_exhausted: pool.exhausted(),
            pool_misfreed: pool.misfreed(),
        };
        Finished { report, observer: self.observer, law: self.watch.map(Watch::into_law) }
    }

    /// Takes a released frame out of its slot and makes a packet of it, judged by the law.
    fn arrive(&mut self, frame: u32, direction: Direction, at: Time) -> Packet {
        let slot = self.slots[frame as usize].as_ref().expect("a frame in a delay line has a slot");
        let mut packet = Packet {
            handle: u64::from(frame),
            hosts: self.flows.hosts(slot.flow),
            ..Packet::new(self.next_id, slot.flow, slot.length + self.overhead, at)
                .with_ecn(slot.parsed.ecn())
        };
        self.next_id += 1;
        if let Some(watch) = &mut self.watch {
            match direction {
                Direction::Forward => watch.arriving(&mut packet, &slot.parsed, &mut *self.observer),
                Direction::Reverse => {
                    watch.passing(slot.flow, &slot.parsed, direction, at, &mut *self.observer);
                }
            }
        }
        packet
    }

    fn reverse(&mut self, at: Time, out: &mut Vec<Departure>) {
        let Some(frame) = self.delays[REVERSE].pop() else { return };
        let packet = self.arrive(frame, Direction::Reverse, at);
        self.unconfirmed[REVERSE] += 1;
        out.push(Departure { packet, direction: Direction::Reverse, due: at });
    }

    fn forward(&mut self, at: Time, pool: &mut FramePool) {
        let Some(frame) = self.delays[FORWARD].pop() else { return };
        let packet = self.arrive(frame, Direction::Forward, at);
        let mut fan =
            Fan { watch: self.watch.as_mut(), audit: &mut self.audit, pool, observer: &mut *self.observer };
        self.qdisc.enqueue(packet, at, &mut fan);
        // A link that is held may be wanted earlier by the new packet.
        if !matches!(self.transmitter, Transmitter::Busy(..)) {
            self.begin(at, pool);
        }
    }

    fn transmitter_due(&mut self, at: Time, now: Time, pool: &mut FramePool, out: &mut Vec<Departure>) {
        if let Transmitter::Busy(packet, due) = self.transmitter {
            if let Err(later) = self.limiter.gate(due, now) {
                self.transmitter = Transmitter::Busy(packet, later);
                return;
            }
            self.limiter.decided(packet.wire_bytes, now);
            self.unconfirmed[FORWARD] += 1;
            out.push(Departure { packet, direction: Direction::Forward, due });
        }
        self.clock = at;
        self.begin(at, pool);
    }

    /// Starts the next transmission, if the discipline has a packet for it.
    fn begin(&mut self, at: Time, pool: &mut FramePool) {
        let mut fan =
            Fan { watch: self.watch.as_mut(), audit: &mut self.audit, pool, observer: &mut *self.observer };
        match self.qdisc.dequeue(at, &mut fan) {
            Some(packet) => {
                if packet.ecn == Ecn::Ce && packet.ecn_in != Ecn::Ce {
                    self.mark(&packet, pool);
                }
                let until = at + self.limiter.serialize(packet.wire_bytes);
                self.transmitter = Transmitter::Busy(packet, until);
            }
            None => {
                self.transmitter = match self.qdisc.next_ready(at) {
                    // A discipline that is ready now and yet gives nothing must not hang the thread.
                    Some(ready) => Transmitter::Held(ready.max(at + weir_core::Duration::from_nanos(1))),
                    None => Transmitter::Idle,
                };
            }
        }
    }

    fn mark(&mut self, packet: &Packet, pool: &mut FramePool) {
        let frame = FrameIndex(packet.handle as u32);
        let parsed = self.slots[frame.0 as usize].as_ref().map(|slot| slot.parsed);
        if !parsed.is_some_and(|parsed| write_ce(pool.bytes_mut(frame), &parsed)) {
            self.unwritable_marks += 1;
        }
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline {{ {} at {} ns, {:?} }}", self.rate, self.clock.as_nanos(), self.qdisc.backlog())
    }
}
