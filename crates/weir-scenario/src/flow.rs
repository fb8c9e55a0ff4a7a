//! Flows of a scenario.

use crate::Refusal;
use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Ecn, Rate};

use weir_testbed::traffic::{self, Stack};

/// One flow, or `count` alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// What reports call it; by default made of stack and controller.
    #[serde(default)]
    pub name: String,
    /// Who carries it.
    pub stack: Stack,
    /// Its congestion control; not for UDP.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller: String,
    /// The server host at which it is; flows that name none share one. For disciplines that share by host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// The client host at which it is; flows that name none share one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The links that it goes over, in the direction to the client; the bottleneck alone if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// Which way its data goes.
    #[serde(default)]
    pub direction: Direction,
    /// One-way, or the CRQ paper's two-way pattern in which the receiver sends half of the data back.
    #[serde(default)]
    pub pattern: Pattern,
    /// How much it transfers. Without it (and without `duration`) the flow lasts until the others have completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// How long it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// When it starts, from the start of the run.
    #[serde(default)]
    pub start: Duration,
    /// Whether it uses ECN.
    #[serde(default)]
    pub ecn: bool,
    /// The codepoint that a box on the path gives its packets before the first link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<Remark>,
    /// Its round-trip time without queues, if it is not the bottleneck's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// The constant rate of a UDP flow, in wire bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Segments that the sender hands over as one packet at most; 1 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gso: Option<u32>,
    /// The window to begin with, in packets; 10 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Packets that a paced sender lets go together at least; 2 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_burst: Option<u32>,
    /// Whether packets that are not paced wait for others to go with; not, if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer: Option<bool>,
    /// What its sender paces payload at, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<Rate>,
    /// An acknowledgement for this many packets; 2 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
    /// The longest that a packet waits for an acknowledgement; 40 ms with TCP and 25 ms with QUIC if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_delay: Option<Duration>,
    /// What comes within this time is acknowledged together; nothing if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gro: Option<Duration>,
    /// How many such flows.
    #[serde(default = "one_flow")]
    pub count: u32,
}

/// A codepoint that packets are given on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// ECN is bleached.
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1), which L4S queues take for a scalable sender's.
    Ect1,
}

impl Remark {
    /// The codepoint.
    pub fn codepoint(self) -> Ecn {
        match self {
            Self::NotEct => Ecn::NotEct,
            Self::Ect0 => Ecn::Ect0,
            Self::Ect1 => Ecn::Ect1,
        }
    }
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From server to client, through the bottleneck's queue.
    #[default]
    Down,
    /// From client to server; its acknowledgements share the queue.
    Up,
}

/// A traffic pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Data one way, acknowledgements the other: "(u)" in the CRQ paper.
    #[default]
    OneWay,
    /// The receiver mirrors half of what it gets: "(b)" in the CRQ paper.
    TwoWay,
}

fn one_flow() -> u32 {
    1
}

impl Flow {
    /// An endless flow without a controller and with all defaults.
    pub fn of(stack: Stack) -> Self {
        Self {
            server: String::new(),
            client: String::new(),
            name: String::new(),
            stack,
            controller: String::new(),
            path: None,
            direction: Direction::default(),
            pattern: Pattern::default(),
            bytes: None,
            duration: None,
            start: Duration::ZERO,
            ecn: false,
            remark: None,
            rtt: None,
            rate: None,
            gso: None,
            initial_window: None,
            min_burst: None,
            defer: None,
            max_rate: None,
            ack_every: None,
            ack_delay: None,
            gro: None,
            count: 1,
        }
    }

    pub(super) fn default_name(&self) -> String {
        match self.stack {
            Stack::Udp => "UDP".to_owned(),
            Stack::Tcp => format!("TCP {}", self.controller),
            Stack::Quic => format!("QUIC {}", self.controller),
        }
    }

    /// What errors call it.
    pub fn label(&self) -> String {
        if self.name.is_empty() { self.default_name() } else { self.name.clone() }
    }

    /// Whether its controller uses ECN though `ecn` does not say so: the kernel's then asks for it by itself.
    pub(super) fn needs_ecn(&self) -> bool {
        self.stack != Stack::Udp && weir_cc::find(&self.controller).is_ok_and(weir_cc::Entry::needs_ecn)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        if self.count == 0 {
            return fail("count", "must be at least 1".to_owned());
        }
        if self.bytes.is_some_and(|bytes| bytes.0 == 0) {
            return fail("bytes", "must be more than 0".to_owned());
        }
        if self.duration == Some(Duration::ZERO) {
            return fail("duration", "must be above 0".to_owned());
        }
        self.check_ends()?;
        if self.stack == Stack::Udp {
            if self.rate.is_none_or(|rate| rate.bits_per_sec() == 0) {
                return fail("rate", "a UDP flow needs a rate above 0, such as 50mbit".to_owned());
            }
            if !self.controller.is_empty() {
                return fail("controller", "UDP has none; remove the key or use stack = \"quic\"".to_owned());
            }
            if self.pattern == Pattern::TwoWay {
                return fail("pattern", "only TCP flows can be two-way".to_owned());
            }
            return Ok(());
        }
        if self.rate.is_some() {
            return fail(
                "rate",
                "only UDP flows have a rate; TCP and QUIC are governed by their controller".to_owned(),
            );
        }
        if self.stack == Stack::Quic && self.pattern == Pattern::TwoWay {
            return fail("pattern", "only TCP flows can be two-way".to_owned());
        }
        if self.controller.is_empty() {
            return fail("controller", "is missing; give one such as \"cubic\"".to_owned());
        }
        // World sim has more of them; the others refuse those before anything runs.
        if self.real_controller().is_err() && weir_cc::find(&self.controller).is_err() {
            let error = traffic::UnknownController::in_any_world(self.stack, &self.controller);
            return fail("controller", error.to_string());
        }
        Ok(())
    }

    /// Whether this host's stacks have the controller; the error names the nearest that they have.
    pub fn real_controller(&self) -> Result<(), String> {
        if self.stack == Stack::Udp
            || (self.stack == Stack::Tcp && traffic::kernel_has_controller(&self.controller))
        {
            return Ok(());
        }
        traffic::find_controller(self.stack, &self.controller).map(|_| ()).map_err(|error| error.to_string())
    }
}
