//! What a detector is told, and what it answers.

use weir_core::{Duration, Rate, Time};

/// One of a connection's two sub-flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubFlow {
    /// The one that sends less, "flow 1" of the paper.
    Light,
    /// The one that sends more, "flow 2" of the paper, and that goes on after the detection.
    Heavy,
}

impl SubFlow {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Light, Self::Heavy];

    /// The place of its entry in an array of two.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// On which sub-flow.
    pub sub_flow: SubFlow,
    /// Counts the packets of the sub-flow, from 0. A retransmission has a number of its own.
    pub number: u64,
    /// Counts the packets of both sub-flows in the order of their departure, from 0.
    pub order: u64,
    /// When it was handed to the network, by the sender's clock.
    pub sent: Time,
    /// Its payload bytes.
    pub bytes: u32,
}

/// A packet that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// On which sub-flow.
    pub sub_flow: SubFlow,
    /// Not before.
    pub at: Time,
}

/// What is known of the bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Finding {
    /// Not enough to say; to be taken as [`Shared`](Self::Shared), which is the safe side.
    #[default]
    Unknown,
    /// It serves the two sub-flows by turns.
    FairQueued,
    /// They stand in one queue.
    Shared,
}

impl Finding {
    /// As results have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::FairQueued => "fair-queued",
            Self::Shared => "shared",
        }
    }
}

/// A finding, and how sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What was found.
    pub finding: Finding,
    /// The probability that the finding is right, from 0 to 1, by the detector's own model; 0 of an unknown one.
    pub confidence: f64,
    /// The signal that weighed most, in a word (`order`, `loss`, `delay`, `share`); empty of an unknown one.
    pub why: &'static str,
}

/// How a detection ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What was found.
    pub verdict: Verdict,
    /// The rate of payload at which the connection can go on; none if nothing is known of it.
    pub rate: Option<Rate>,
}

/// What one train of packets said, for whoever wants to know why a detection ended as it did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Testimony {
    /// Packets of the heavy sub-flow that it had, and of these, those of which it is known that they arrived.
    pub packets: u32,
    /// See `packets`.
    pub arrived: u32,
    /// Whether its packet of the light sub-flow is known to have arrived.
    pub light_arrived: bool,
    /// What the order of arrivals, losses and delays add to the log-odds of fair queuing, in nats.
    pub order: f64,
    /// See `order`.
    pub loss: f64,
    /// See `order`.
    pub delay: f64,
}

/// A way to find out whether a bottleneck is fair-queued. Times that it is told never go back.
pub trait Detector: Send + Sync {
    /// What it is called in scenarios.
    fn name(&self) -> &'static str;

    /// That nothing is heard for a while is no sign of a loss. A host says so before the first detection that is told of
    /// arrivals in reports, and whose threads wait for their turn; in a simulator news are there at their time.
    fn distrust_silence(&mut self) {}

    /// The handshake took `rtt`, and data may flow. It is told again when a detection is to begin anew; the outcome of
    /// the last one is then forgotten, and what was learnt of the path besides may be kept.
    fn begin(&mut self, now: Time, rtt: Duration);

    /// What was found has become doubtful: the next detection is not to count on it.
    fn forget(&mut self) {}

    /// The packet that goes next; none while it waits for news or for [`timer`](Self::timer). Asking changes nothing.
    fn next(&self) -> Option<Departure>;

    /// A packet was sent: the one asked for, or one that the host sent of its own accord (a probe for a lost tail).
    fn on_sent(&mut self, packet: &Packet);

    /// The sender learns at `now` that a packet has arrived, at `at` by the receiver's clock, which runs apart from the
    /// sender's by an unknown offset. Each packet that arrives is told once, those of a sub-flow in no certain order.
    fn on_arrival(&mut self, now: Time, packet: &Packet, at: Time);

    /// When it wants [`on_timer`](Self::on_timer) at the latest.
    fn timer(&self) -> Option<Time>;

    /// The time of [`timer`](Self::timer) has come.
    fn on_timer(&mut self, now: Time);

    /// How it ended, once it has. It then asks for no packets and no timer.
    fn outcome(&self) -> Option<Outcome>;

    /// What each train of the newest detection has said, oldest first; nothing of a detector that has no trains.
    fn testimony(&self) -> Vec<Testimony> {
        Vec::new()
    }
}
