//! Congestion controllers without I/O: the transport passes in what it learnt from an acknowledgement, and gets back a
//! window and a pacing rate. Time and randomness are passed in. One trait fits a TCP-like sender (SACK, RACK,
//! proportional rate reduction) and a QUIC-like one (RFC 9002), so the same controller runs in the simulator and over a
//! real stack.
//!
//! Rules that only say by how much a window grows and shrinks ([`WindowRule`]: Reno, Cubic, DCTCP...) do not care who
//! carries them; [`Linux`] and [`Rfc9002`] add what the two kinds of transport do around a reduction. Controllers with
//! a model of the path (BBR, Copa, PCC) implement [`Controller`] themselves.
//!
//! What a transport needs to keep for its controller besides is here too: [`Delivery`] and [`Rtt`].
//!
//! To add a controller: one file, and one line in [`catalog`]; from another crate, [`catalog::register`].

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod catalog;

mod ack;
mod adversary;
mod bbr;
mod bbr1;
mod bbr3;
mod bbr3_params;
mod copa;
mod cubic;
mod cubic_regain;
mod cubic_rfc9438;
mod dctcp;
mod delay;
mod delivery;
mod episode;
mod evader;
mod filter;
mod fixed;
mod linux;
mod monitor;
mod pcc;
mod pcc_allegro;
mod pcc_published;
mod pcc_vivace;
mod prague;
mod reno;
mod rfc9002;
mod rtt;
mod share;
mod window;

#[cfg(test)]
mod responses;
#[cfg(test)]
mod testing;

pub use ack::{Ack, Count, LossSample, RateSample, Sent, Timeout};
pub use adversary::{Dip, DipParams, SawTooth};
pub use bbr1::Bbr1;
pub use bbr3::Bbr3;
pub use bbr3_params::Bbr3Params;
pub use catalog::{Choice, Entry, Family, UnknownController, find};
pub use copa::Copa;
pub use cubic::{Cubic, HyStartLimits};
pub use cubic_regain::CubicRegain;
pub use cubic_rfc9438::Cubic9438;
pub use dctcp::{Dctcp, Dctcp8257, DctcpVersion};
pub use delay::Delay;
pub use delivery::{Delivery, Stamp};
pub use evader::{Evader, EvaderParams};
pub use fixed::{ConstantRate, FixedWindow};
pub use linux::Linux;
pub use pcc_allegro::Allegro;
pub use pcc_published::PccPublished;
pub use pcc_vivace::Vivace;
pub use prague::{Prague, PragueParams, PragueVersion};
pub use reno::Reno;
pub use rfc9002::Rfc9002;
pub use rtt::Rtt;
pub use share::Share;
pub use window::{Signal, Window, WindowRule};

use weir_core::{Duration, Ecn, Random, Rate, Time};

/// What a controller gets when it is made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Payload bytes of a full packet (TCP's MSS, QUIC's datagram less its own overhead). At least 1.
    pub mss: u32,
    /// The window to begin with, in packets; 10 by RFC 6928.
    pub initial_window: u32,
    /// For controllers that make draws (BBR's phase of probing). Of the flow alone.
    pub random: Random,
    /// The rate of payload that the path has been found to carry, where something has measured it before (fair-queuing
    /// detection). Controllers that go by a rate begin with it; others begin with `initial_window`.
    pub rate: Option<Rate>,
}

/// How a sender takes part in ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnUse {
    /// Its packets are Not-ECT.
    #[default]
    Off,
    /// ECT(0) and one reaction per round trip to an echo that is latched until it is answered (RFC 3168), or to a rise
    /// of QUIC's CE count.
    Classic,
    /// ECT(0), and the receiver reports every mark (DCTCP's CE state machine, accurate ECN, QUIC's counts).
    Accurate,
    /// The same with ECT(1) (RFC 9331).
    Scalable,
}

impl EcnUse {
    /// The codepoint of its packets.
    pub const fn codepoint(self) -> Ecn {
        match self {
            Self::Off => Ecn::NotEct,
            Self::Classic | Self::Accurate => Ecn::Ect0,
            Self::Scalable => Ecn::Ect1,
        }
    }
}

/// A congestion controller.
///
/// The transport calls it with times that never go back. It may send while the bytes in flight and one more packet are
/// within [`window`](Controller::window), no faster than [`pacing`](Controller::pacing).
pub trait Controller: Send + Sync {
    /// What it is called in scenarios.
    fn name(&self) -> &'static str;

    /// The handshake took `rtt`: the first that is known of the round trip, before anything is sent. Not called if the
    /// handshake met a queue.
    fn on_handshake(&mut self, _rtt: Duration) {}

    /// The transport will not pace faster than `rate` of payload (`SO_MAX_PACING_RATE`), whatever the controller asks
    /// for. Before anything is sent; not called where there is no such limit.
    fn on_max_rate(&mut self, _rate: Rate) {}

    /// A packet was sent (or sent again).
    fn on_sent(&mut self, _sent: &Sent) {}

    /// An acknowledgement was processed, or a timer declared packets lost (then nothing was delivered).
    fn on_ack(&mut self, ack: &Ack);

    /// The retransmission timer fired with nothing heard since (TCP's RTO, QUIC's persistent congestion): what was sent is
    /// held lost.
    fn on_timeout(&mut self, timeout: &Timeout);

    /// Payload bytes that may be in flight.
    fn window(&self) -> u64;

    /// The rate of payload bytes; `None` to send as the window allows.
    fn pacing(&self) -> Option<Rate> {
        None
    }

    /// How long a burst of paced packets may last at the rate, if the transport's least number of packets is not
    /// longer; `None` leaves it to the transport.
    fn burst(&self) -> Option<Duration> {
        None
    }

    /// What a host that was late with paced packets may make up for at once, beside what its timers cost; `None` leaves
    /// it to the transport.
    fn made_up(&self) -> Option<Duration> {
        None
    }

    /// How its packets take part in ECN, the same for its whole life.
    fn ecn(&self) -> EcnUse {
        EcnUse::Off
    }

    /// If it has ignored all marks until now although its packets are ECN-capable, because the path is too long: the
    /// longest round trip on which it would answer them.
    fn ignores_marks_beyond(&self) -> Option<Duration> {
        None
    }

    /// When it wants [`on_timer`](Controller::on_timer) at the latest, whatever arrives; most need none.
    fn timer(&self) -> Option<Time> {
        None
    }

    /// The time of [`timer`](Controller::timer) has come.
    fn on_timer(&mut self, _now: Time) {}
}
