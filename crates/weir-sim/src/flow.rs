//! Flows: what they are, and what they have done.

use std::collections::VecDeque;

use thiserror::Error;
use weir_cc::{Choice, Controller, EcnUse, Family, Setup};
use weir_core::{Duration, Ecn, Packet, Random, Rate, Time};

pub use weir_core::FlowId;

use crate::endpoint::{
    AckFrame, Bunching, EndOptions, Feedback, LARGEST_GSO, Receiver, ReceiverConfig, Recovery, Sender,
    SenderConfig, Ticks,
};
use crate::hop::HopId;
use crate::pace::Pace;
use crate::route::Routed;
use crate::treatment::Treatment;
use crate::twins::Twin;
use crate::workload::Task;

/// How much a flow sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// As long as the network runs.
    #[default]
    Endless,
    /// So many bytes of payload.
    Bytes(u64),
    /// For this long.
    Time(Duration),
}

/// What kind of traffic a flow is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// TCP with the controller of this name.
    Tcp(String),
    /// QUIC with the controller of this name.
    Quic(String),
    /// Datagrams at a constant rate of wire bytes.
    Datagrams(Rate),
}

/// Bytes of Ethernet, IPv4 and TCP headers with timestamps.
const TCP_HEADER: u32 = 14 + 20 + 32;
/// Bytes of Ethernet, IPv4 and UDP headers, and of QUIC's short header with its tag: 1 + 8 + 2 + 16.
const QUIC_HEADER: u32 = 14 + 20 + 8 + 27;
/// Payload of a QUIC datagram of 1452 bytes, the largest that this project's QUIC endpoints send.
const QUIC_MSS: u32 = 1452 - 27;
const TCP_MSS: u32 = 1448;
const UDP_HEADER: u32 = 14 + 20 + 8;
/// Bytes of an acknowledgement alone: TCP's headers, without SACK blocks.
const TCP_ACK: u32 = TCP_HEADER;
/// QUIC's headers and a frame with one range: type, largest number, delay, count and range of 1 + 4 + 2 + 1 + 4 bytes.
const QUIC_ACK: u32 = QUIC_HEADER + 12;
pub(crate) const DATAGRAM: u32 = weir_core::FULL_PACKET;
/// The fastest datagrams: each has a nanosecond of its own.
pub const FASTEST_DATAGRAMS: Rate = Rate::from_bits_per_sec(12_000_000_000_000);

/// A flow that is to be made.
pub struct FlowSpec {
    pub(crate) kind: Kind,
    pub(crate) ecn: bool,
    pub(crate) path: Vec<HopId>,
    pub(crate) rtt: Duration,
    pub(crate) position: f64,
    pub(crate) start: Duration,
    pub(crate) amount: Amount,
    pub(crate) loss: f64,
    pub(crate) mark: f64,
    pub(crate) remark: Option<Ecn>,
    pub(crate) up: bool,
    pub(crate) two_way: bool,
    pub(crate) window: u64,
    pub(crate) bursts: Option<(Duration, Rate)>,
    pub(crate) receiver: Option<ReceiverConfig>,
    pub(crate) ends: EndOptions,
    pub(crate) controller: Option<Box<dyn Controller>>,
    pub(crate) hosts: [u16; 2],
}

/// A flow that cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SpecError {
    /// No such controller.
    #[error("controller: {0}")]
    Controller(#[from] weir_cc::UnknownController),
    /// The queue of a link cannot be built.
    #[error("qdisc: {0}")]
    Qdisc(#[from] weir_qdisc::ConfigError),
    /// A flow over no link.
    #[error("path: a flow needs at least one link")]
    NoPath,
    /// A path over a link that is not there, or twice over one.
    #[error("path: link {hop} is not there or on the path twice; name each link once")]
    Path {
        /// Its place among the network's links.
        hop: usize,
    },
    /// A delay that would have to be below zero.
    #[error(
        "jitter: {jitter} on link {hop} is more than the {delay} that a packet needs from there; lower it or raise the delay"
    )]
    Jitter {
        /// The link's place among the network's.
        hop: usize,
        /// What was asked for.
        jitter: Duration,
        /// The delay that it varies.
        delay: Duration,
    },
    /// A two-way flow that is not TCP.
    #[error("two-way: only TCP flows can be")]
    TwoWay,
    /// So many requests that time stands still.
    #[error("arrivals: {rate} requests per second are not from above 0 to {most}, one in each nanosecond")]
    Arrivals {
        /// What was asked for.
        rate: f64,
        /// The most.
        most: f64,
    },
    /// Datagrams so fast that time stands still.
    #[error("rate: datagrams at {0} are less than a nanosecond apart; give at most 12tbit")]
    TooFast(Rate),
    /// Datagrams at rate zero.
    #[error("rate: datagrams need a rate above 0, such as 10mbit")]
    NoRate,
}

impl FlowSpec {
    /// An endless flow of `kind` over `path`, with a round-trip time of `rtt` without queues.
    ///
    /// # Errors
    ///
    /// If the controller is not known, the path is empty, or datagrams have no rate or one above 12 Tbit/s.
    pub fn new(kind: Kind, path: &[HopId], rtt: Duration) -> Result<Self, SpecError> {
        match &kind {
            Kind::Tcp(name) | Kind::Quic(name) => {
                weir_cc::find(name)?;
            }
            Kind::Datagrams(rate) if rate.bits_per_sec() == 0 => return Err(SpecError::NoRate),
            Kind::Datagrams(rate) if *rate > FASTEST_DATAGRAMS => return Err(SpecError::TooFast(*rate)),
            Kind::Datagrams(_) => {}
        }
        if path.is_empty() {
            return Err(SpecError::NoPath);
        }
        Ok(Self {
            kind,
            ecn: false,
            path: path.to_vec(),
            rtt,
            position: 0.5,
            start: Duration::ZERO,
            amount: Amount::Endless,
            loss: 0.0,
            mark: 0.0,
            remark: None,
            up: false,
            two_way: false,
            window: u64::MAX,
            bursts: None,
            receiver: None,
            ends: EndOptions::default(),
            controller: None,
            hosts: [0; 2],
        })
    }

    /// TCP with the controller called `name` over one link.
    ///
    /// # Errors
    ///
    /// As [`FlowSpec::new`].
    pub fn tcp(name: &str, hop: HopId, rtt: Duration) -> Result<Self, SpecError> {
        Self::new(Kind::Tcp(name.to_owned()), &[hop], rtt)
    }

    /// QUIC with the controller called `name` over one link.
    ///
    /// # Errors
    ///
    /// As [`FlowSpec::new`].
    pub fn quic(name: &str, hop: HopId, rtt: Duration) -> Result<Self, SpecError> {
        Self::new(Kind::Quic(name.to_owned()), &[hop], rtt)
    }

    /// Goes from the first of these hosts to the second, for disciplines that share by host. By default both are 0, not
    /// distinguished.
    #[must_use]
    pub fn hosts(self, hosts: [u16; 2]) -> Self {
        Self { hosts, ..self }
    }

    /// Uses ECN.
    #[must_use]
    pub fn ecn(self, ecn: bool) -> Self {
        Self { ecn, ..self }
    }

    /// Begins this long after the start.
    #[must_use]
    pub fn start(self, start: Duration) -> Self {
        Self { start, ..self }
    }

    /// Sends so much.
    #[must_use]
    pub fn amount(self, amount: Amount) -> Self {
        Self { amount, ..self }
    }

    /// The share of the round-trip time that lies behind the last link, to the far end and back. The delays of the
    /// links come on top.
    #[must_use]
    pub fn position(self, position: f64) -> Self {
        Self { position: position.clamp(0.0, 1.0), ..self }
    }

    /// Packets are lost, each with this probability, before they come to the first link.
    #[must_use]
    pub fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    /// Packets that can be are marked CE, each with this probability, before they come to the first link.
    #[must_use]
    pub fn mark(self, mark: f64) -> Self {
        Self { mark, ..self }
    }

    /// A box on the path gives all packets this codepoint before they come to the first link, whatever the ends make of
    /// it.
    #[must_use]
    pub fn remark(self, codepoint: Ecn) -> Self {
        Self { remark: Some(codepoint), ..self }
    }

    /// Data goes against the direction of the links; acknowledgements go with it.
    #[must_use]
    pub fn up(self, up: bool) -> Self {
        Self { up, ..self }
    }

    /// The receiver sends back half of what it reads, with a controller of the same name, in full packets and at the
    /// end what remains. Only of TCP.
    #[must_use]
    pub fn two_way(self, two_way: bool) -> Self {
        Self { two_way, ..self }
    }

    /// So many bytes may be in flight at most: the receiver's window. Without limit by default.
    #[must_use]
    pub fn window(self, window: u64) -> Self {
        Self { window, ..self }
    }

    /// Datagrams do not come evenly: those of each interval of length `every`, above 0, go together when it begins, back
    /// to back at `line`.
    #[must_use]
    pub fn bursts(self, every: Duration, line: Rate) -> Self {
        Self { bursts: Some((every, line)), ..self }
    }

    /// The half of a two-way flow that goes back.
    pub(crate) fn answers(&self) -> Result<Option<Self>, SpecError> {
        match &self.kind {
            _ if !self.two_way => Ok(None),
            Kind::Tcp(_) => {
                let half = Self { two_way: false, amount: Amount::Endless, ..self.again() };
                Ok(Some(Self { loss: 0.0, mark: 0.0, remark: None, ..half }))
            }
            Kind::Quic(_) | Kind::Datagrams(_) => Err(SpecError::TwoWay),
        }
    }

    /// How the receiver acknowledges, if not as its kind and controller ask for.
    #[must_use]
    pub fn receiver(self, receiver: ReceiverConfig) -> Self {
        Self { receiver: Some(receiver), ..self }
    }

    /// What else differs at its two ends. Datagrams have neither acknowledgements nor super-packets.
    #[must_use]
    pub fn ends(self, ends: EndOptions) -> Self {
        Self { ends, ..self }
    }

    /// How many packets of its own a connection opens and closes with that carries `bytes`: SYN-ACK, and FIN. A FIN goes
    /// with the last data unless that has been sent when the application closes, which it is where the initial window
    /// holds it.
    pub(crate) fn control(&self, bytes: Option<u64>) -> [bool; 2] {
        let opens = self.ends.syn_fin && matches!(self.kind, Kind::Tcp(_));
        let window = u64::from(self.ends.initial_window) * u64::from(TCP_MSS);
        [opens, opens && bytes.is_some_and(|bytes| bytes <= window)]
    }

    /// The same flow once more, with the controller of its kind.
    pub(crate) fn again(&self) -> Self {
        Self { kind: self.kind.clone(), path: self.path.clone(), controller: None, ..*self }
    }

    /// A controller of its kind for a connection that begins, with draws from a stream like `random`.
    pub(crate) fn make_controller(&self, random: &Random) -> Result<Box<dyn Controller>, SpecError> {
        let (family, name, mss) = match &self.kind {
            Kind::Tcp(name) => (Family::Tcp, name.as_str(), TCP_MSS),
            Kind::Quic(name) => (Family::Quic, name.as_str(), QUIC_MSS),
            Kind::Datagrams(_) => (Family::Quic, "", QUIC_MSS),
        };
        let choice = Choice { family, ecn: self.ecn };
        let setup =
            Setup { mss, initial_window: self.ends.initial_window, random: random.clone(), rate: None };
        Ok(weir_cc::find(name)?.make(&choice, &setup))
    }

    /// A controller of one's own in place of the named one.
    #[must_use]
    pub fn controller(self, controller: Box<dyn Controller>) -> Self {
        Self { controller: Some(controller), ..self }
    }
}

/// A look at a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: Time,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Payload bytes that may be in flight.
    pub window: u64,
    /// Payload bytes acknowledged.
    pub delivered: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets acknowledged with a mark.
    pub marked: u64,
}

/// What a flow has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Payload bytes received, each counted once.
    pub bytes: u64,
    /// Packets received, retransmissions for nothing too.
    pub packets: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the sender has declared lost.
    pub lost: u64,
    /// Packets whose marks the sender has learnt of.
    pub marked: u64,
    /// Payload bytes of a two-way flow that its receiver has sent back and that arrived.
    pub answered: u64,
    /// When the first packet was sent. A sender without a route stands at its link, and so does its clock.
    pub started: Option<Time>,
    /// When the last byte of a limited flow arrived.
    pub finished: Option<Time>,
    /// Looks at the sender, ten milliseconds apart or more.
    pub samples: Vec<Sample>,
}

/// Where a flow's packets come from.
pub(crate) enum Source {
    Connection(Box<Sender>),
    Datagrams {
        pace: Pace,
        ecn: Ecn,
        number: u64,
        until: Time,
        /// The next datagram is on the agenda.
        ticks: bool,
    },
}

impl Source {
    /// A connection's sender takes an acknowledgement.
    #[inline]
    pub(crate) fn hear(&mut self, now: Time, frame: &AckFrame) {
        if let Self::Connection(sender) = self {
            sender.acknowledge(now, frame);
        }
    }
}

pub(crate) struct Flow {
    pub(crate) hosts: [u16; 2],
    pub(crate) path: Vec<HopId>,
    /// From the last link to the receiver.
    pub(crate) tail: Duration,
    /// From the receiver back to the bottleneck.
    pub(crate) back: Duration,
    /// From there to the sender, and from the sender to the first link.
    pub(crate) around: Duration,
    pub(crate) amount: Amount,
    /// Whether it begins with a SYN-ACK and ends with a FIN of its own.
    pub(crate) control: [bool; 2],
    pub(crate) start: Time,
    pub(crate) treatment: Option<Box<Treatment>>,
    pub(crate) header: u32,
    /// Segments that it hands over as one packet at most.
    pub(crate) gso: u16,
    /// When the newest acknowledgement that the sender has was sent.
    pub(crate) heard: Time,
    /// Wire bytes of an acknowledgement alone.
    pub(crate) ack_bytes: u32,
    pub(crate) routed: Option<Box<Routed>>,
    pub(crate) source: Source,
    pub(crate) receiver: Receiver,
    /// Acknowledgements on their way from the bottleneck to the sender.
    pub(crate) acks: VecDeque<AckFrame>,
    /// Acknowledgements on their way to the bottleneck, if somebody watches them there.
    pub(crate) returning: VecDeque<AckFrame>,
    /// The earliest entries of the agenda that are for the sender's timer, for pacing and for the receiver's timer.
    pub(crate) timer: Time,
    pub(crate) pacing: Time,
    pub(crate) receiver_timer: Time,
    pub(crate) sample_due: Time,
    /// When its SYN-ACK had come to the receiver; [`Time::MAX`] while or where there is none.
    pub(crate) opened: Time,
    pub(crate) report: FlowReport,
    /// What it does for a workload.
    pub(crate) task: Option<Box<Task>>,
    /// What it is of a connection of two sub-flows.
    pub(crate) twin: Option<Box<Twin>>,
}

/// Between looks at a sender.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

impl Flow {
    pub(crate) fn new(mut spec: FlowSpec, random: Random, routed: Option<Routed>) -> Result<Self, SpecError> {
        // Where each way is simulated, no delay is dealt with beforehand.
        let length = routed.as_ref().map_or(Duration::ZERO, |routed| routed.rounds[0] + routed.rounds[1]);
        let rtt = if routed.is_some() { Duration::ZERO } else { spec.rtt };
        let behind = rtt.scale(spec.position);
        let before = rtt - behind;
        let mut own = spec.controller.take();
        let mut connection = |family, mss, header, recovery| -> Result<_, SpecError> {
            let mut controller = own.take().map_or_else(|| spec.make_controller(&random), Ok)?;
            if let Some(rate) = spec.ends.max_rate {
                controller.on_max_rate(rate);
            }
            let feedback = match (family, controller.ecn()) {
                (Family::Quic, _) => Feedback::Counted,
                (Family::Tcp, EcnUse::Scalable) => Feedback::AccEcn,
                (Family::Tcp, EcnUse::Accurate) => Feedback::Dctcp,
                (Family::Tcp, EcnUse::Off | EcnUse::Classic) => Feedback::Classic,
            };
            let receiver = spec.receiver.unwrap_or(match family {
                Family::Tcp => ReceiverConfig::tcp(feedback, spec.rtt.max(length)),
                Family::Quic => ReceiverConfig::quic(feedback),
            });
            let receiver = spec.ends.receiver(receiver);
            let config = SenderConfig {
                mss,
                header,
                recovery,
                feedback: receiver.feedback,
                burst: Duration::from_millis(1),
                min_burst: u16::try_from(spec.ends.min_burst.max(1)).unwrap_or(u16::MAX),
                bunching: match recovery {
                    Recovery::Tcp if spec.ends.host_fq => Bunching::Fq,
                    Recovery::Tcp if spec.ends.defer => Bunching::Defer,
                    Recovery::Quic if spec.ends.paced => Bunching::Spread,
                    _ => Bunching::AtOnce,
                },
                autosize: spec.ends.tso_autosize,
                max_rate: spec.ends.max_rate.unwrap_or(Rate::MAX),
                ack_delay: receiver.delay,
                window: spec.window,
                ticks: Ticks::per_second(spec.ends.host_hz).filter(|_| recovery == Recovery::Tcp),
            };
            let source = Source::Connection(Box::new(Sender::new(config, controller)));
            Ok((source, Receiver::new(receiver), header))
        };
        let (source, receiver, header) = match &spec.kind {
            Kind::Tcp(_) => connection(Family::Tcp, TCP_MSS, TCP_HEADER, Recovery::Tcp)?,
            Kind::Quic(_) => connection(Family::Quic, QUIC_MSS, QUIC_HEADER, Recovery::Quic)?,
            Kind::Datagrams(rate) => {
                let ecn = if spec.ecn { Ecn::Ect0 } else { Ecn::NotEct };
                let source = Source::Datagrams {
                    pace: Pace::new(*rate, spec.bursts),
                    ecn,
                    number: 0,
                    until: Time::MAX,
                    ticks: false,
                };
                (source, Receiver::new(ReceiverConfig::default()), UDP_HEADER)
            }
        };
        let control = spec.control(match spec.amount {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Endless | Amount::Time(_) => None,
        });
        Ok(Self {
            control,
            treatment: Treatment::of(&spec, random),
            hosts: spec.hosts,
            path: spec.path,
            tail: behind / 2,
            back: behind - behind / 2,
            around: before,
            amount: spec.amount,
            start: Time::ZERO + spec.start,
            header,
            gso: spec.ends.gso.clamp(1, LARGEST_GSO),
            heard: Time::ZERO,
            ack_bytes: if matches!(spec.kind, Kind::Quic(_)) { QUIC_ACK } else { TCP_ACK },
            routed: routed.map(Box::new),
            source,
            receiver,
            acks: VecDeque::new(),
            returning: VecDeque::new(),
            timer: Time::MAX,
            pacing: Time::MAX,
            receiver_timer: Time::MAX,
            sample_due: Time::ZERO,
            opened: Time::MAX,
            report: FlowReport::default(),
            task: None,
            twin: None,
        })
    }

    /// A packet of a datagram flow.
    pub(crate) fn datagram(id: u64, flow: FlowId, ecn: Ecn, number: u64, now: Time) -> Packet {
        Packet { handle: number, ..Packet::new(id, flow, DATAGRAM, now).with_ecn(ecn) }
    }

    /// Bytes of the stream so far that are SYN-ACKs and FINs.
    pub(crate) fn control_bytes(&self) -> u64 {
        let own = || self.control.map(u64::from).iter().sum();
        self.task.as_ref().map_or_else(own, |task| task.control_bytes)
    }

    /// Payload bytes that it has received.
    pub(crate) fn received(&self) -> u64 {
        self.receiver.bytes.saturating_sub(self.control_bytes())
    }

    /// Gives back what room it can: for a flow that is done. Its end takes more than one acknowledgement at times.
    pub(crate) fn fit(&mut self) {
        if let Source::Connection(sender) = &mut self.source {
            sender.fit();
        }
        self.acks.shrink_to_fit();
        self.returning.shrink_to_fit();
        self.report.samples.shrink_to_fit();
    }

    /// From the first link to the sender and back, and from the last link to the receiver and back; the delays of links
    /// on the way are in the second.
    pub(crate) fn rounds(&self) -> [Duration; 2] {
        self.routed.as_ref().map_or([self.around, self.tail + self.back], |routed| routed.rounds)
    }

    /// The round trip without queues.
    pub(crate) fn round_trip(&self) -> Duration {
        let [around, behind] = self.rounds();
        around + behind
    }

    /// How long a request of the receiver travels to the sender, where none is queued. Where no way of its own is
    /// simulated, the sender stands at its link.
    pub(crate) fn request(&self) -> Duration {
        match &self.routed {
            Some(routed) => (routed.rounds[0] + routed.rounds[1]) / 2,
            None => self.back + self.around,
        }
    }

    /// See [`Network::asked`](crate::Network::asked).
    pub(crate) fn asked(&self) -> Option<Time> {
        let before = match (&self.source, &self.twin) {
            (Source::Datagrams { .. }, _) => Duration::ZERO,
            (Source::Connection(_), None) if self.control[0] => {
                return Some(self.opened).filter(|opened| *opened < Time::MAX);
            }
            (Source::Connection(_), None) => self.request(),
            (Source::Connection(_), Some(_)) if self.routed.is_some() => Duration::ZERO,
            (Source::Connection(_), Some(_)) => self.around / 2,
        };
        self.report.started.map(|started| started - before)
    }

    /// Whether a limited flow has done what it was to do.
    pub(crate) fn is_done(&self) -> bool {
        match self.amount {
            Amount::Endless => true,
            Amount::Bytes(_) | Amount::Time(_) => self.report.finished.is_some(),
        }
    }
}
