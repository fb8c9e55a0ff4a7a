//! Workloads of a scenario: who asks for data again and again, when, and for how much.

use crate::Refusal;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Rate};
use weir_sim::{Pattern, Size, Span};

use super::{Flow, Scenario};
use weir_testbed::traffic::{self, Stack};

/// Connections of all workloads together: each has a port.
const MOST_CONNECTIONS: u32 = 20_000;
/// Connections of a crowd unless told.
const CONNECTIONS: u32 = 1_000;

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What reports call it; by default its kind.
    #[serde(default)]
    pub name: String,
    /// Who asks, and when.
    pub kind: Kind,
    /// Who carries the responses.
    pub stack: Stack,
    /// Congestion control of its connections; not for UDP.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller: String,
    /// Whether its connections use ECN.
    #[serde(default)]
    pub ecn: bool,
    /// The window that each connection begins with, in packets; 10 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Round-trip time without queues, if it is not the bottleneck's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
    /// When it begins.
    #[serde(default)]
    pub start: Duration,
    /// Nothing is asked for after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// How many requests in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// A crowd's requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<f64>,
    /// The same as the payload asked for, in parts of the bottleneck's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// A crowd's connections at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Users, players or sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Payload of a response in the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// How sizes are distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// The exponent of a Pareto distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<f64>,
    /// The largest response of a Pareto distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Bytes>,
    /// Between a response and the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Duration>,
    /// How long a source sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Duration>,
    /// How long it is silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off: Option<Duration>,
    /// How `think`, `on` and `off` are distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// How much film a player asks for at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<Duration>,
    /// Bits of a second of film.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitrate: Option<Rate>,
    /// How much film a player holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Duration>,
    /// The rate of UDP sources while they are on, in wire bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A crowd, whose requests come at random and do not wait for each other.
    Poisson,
    /// Users who think between a response and the next request.
    Requests,
    /// Players of a film.
    Video,
    /// Sources that send and are silent by turns.
    OnOff,
}

/// How sizes are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizes {
    /// All the same.
    #[default]
    Fixed,
    /// Exponentially.
    Exponential,
    /// Heavy-tailed.
    Pareto,
}

/// How times are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Times {
    /// All the same.
    Fixed,
    /// Exponentially.
    #[default]
    Exponential,
}

impl Kind {
    /// The word in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Requests => "requests",
            Self::Video => "video",
            Self::OnOff => "on-off",
        }
    }

    /// Its own keys, those that it needs first.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Poisson => (&["size"], &["arrivals", "load", "connections", "sizes", "shape", "cap"]),
            Self::Requests => (&["think", "size"], &["users", "sizes", "shape", "cap", "times"]),
            Self::Video => (&["segment", "bitrate", "buffer"], &["users"]),
            Self::OnOff => (&["on", "off"], &["users", "times", "rate"]),
        }
    }
}

impl Workload {
    /// What reports call it.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { self.kind.name() } else { &self.name }
    }

    /// Whether it comes to an end by itself.
    pub fn has_end(&self) -> bool {
        self.duration.is_some() || self.requests.is_some()
    }

    /// Connections that it has at most.
    pub fn most_connections(&self) -> u32 {
        match self.kind {
            Kind::Poisson => self.connections.unwrap_or(CONNECTIONS),
            Kind::Requests | Kind::Video | Kind::OnOff => self.users.unwrap_or(1),
        }
    }

    /// The keys that only some kinds have, and whether they are given.
    fn given(&self) -> [(&'static str, bool); 16] {
        [
            ("arrivals", self.arrivals.is_some()),
            ("load", self.load.is_some()),
            ("connections", self.connections.is_some()),
            ("users", self.users.is_some()),
            ("size", self.size.is_some()),
            ("sizes", self.sizes.is_some()),
            ("shape", self.shape.is_some()),
            ("cap", self.cap.is_some()),
            ("think", self.think.is_some()),
            ("on", self.on.is_some()),
            ("off", self.off.is_some()),
            ("times", self.times.is_some()),
            ("segment", self.segment.is_some()),
            ("bitrate", self.bitrate.is_some()),
            ("buffer", self.buffer.is_some()),
            ("rate", self.rate.is_some()),
        ]
    }

    fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let kind = self.kind.name();
        let (needed, others) = self.kind.keys();
        for (key, given) in self.given() {
            if given && !needed.contains(&key) && !others.contains(&key) {
                return fail(key, format!("a workload of kind \"{kind}\" has none; remove the key"));
            }
            if !given && needed.contains(&key) {
                return fail(key, format!("is missing; a workload of kind \"{kind}\" needs it"));
            }
        }
        if self.duration == Some(Duration::ZERO) || self.requests == Some(0) {
            let key = if self.requests == Some(0) { "requests" } else { "duration" };
            return fail(key, "must be above 0".to_owned());
        }
        if self.size.is_some_and(|size| size.0 == 0) {
            return fail("size", "must be more than 0".to_owned());
        }
        if self.most_connections() == 0 {
            let key = if self.kind == Kind::Poisson { "connections" } else { "users" };
            return fail(key, "must be at least 1".to_owned());
        }
        self.check_arrivals()?;
        self.check_sizes()?;
        self.check_film()?;
        if self.stack == Stack::Udp && self.kind != Kind::OnOff {
            return fail(
                "stack",
                format!("a workload of kind \"{kind}\" is TCP or QUIC; or use kind = \"on-off\""),
            );
        }
        if self.on == Some(Duration::ZERO) {
            return fail("on", "must be above 0".to_owned());
        }
        // World sim alone has workloads, so it is its controllers that count.
        let name = match self.stack {
            Stack::Quic => traffic::catalogue_name(&self.controller),
            Stack::Tcp | Stack::Udp => &self.controller,
        };
        if self.stack != Stack::Udp
            && !name.is_empty()
            && let Err(error) = weir_cc::find(name)
        {
            return Err(Refusal::new("controller", error.to_string()));
        }
        // What remains is as with a flow.
        self.connection().check()
    }

    fn check_arrivals(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: &str| Err(Refusal::new(key, message));
        let positive = |value: Option<f64>| value.is_none_or(|value| value > 0.0 && value.is_finite());
        match (self.arrivals, self.load) {
            (None, None) if self.kind == Kind::Poisson => fail(
                "arrivals",
                "is missing; give requests per second, or 'load' as a part of the rate such as 0.5",
            ),
            (Some(_), Some(_)) => fail("load", "is given beside 'arrivals'; remove one of them"),
            _ if !positive(self.arrivals) => fail("arrivals", "must be above 0"),
            _ if !positive(self.load) => fail("load", "must be above 0"),
            _ => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let pareto = self.sizes == Some(Sizes::Pareto);
        match (self.shape, self.cap) {
            (None, _) if pareto => {
                fail("shape", "is missing; Pareto sizes need one above 1, such as 1.2".to_owned())
            }
            (Some(_), _) if !pareto => fail("shape", "needs sizes = \"pareto\"".to_owned()),
            (_, Some(_)) if !pareto => fail("cap", "needs sizes = \"pareto\"".to_owned()),
            (Some(shape), _) if !(shape > 1.0 && shape.is_finite()) => {
                fail("shape", format!("{shape} gives no mean; it must be above 1"))
            }
            (_, Some(Bytes(0))) => fail("cap", "must be more than 0".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_film(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let (Some(segment), Some(bitrate), Some(buffer)) = (self.segment, self.bitrate, self.buffer) else {
            return Ok(());
        };
        if segment == Duration::ZERO {
            return fail("segment", "must be above 0".to_owned());
        }
        if bitrate.bits_per_sec() == 0 {
            return fail("bitrate", "must be above 0".to_owned());
        }
        if buffer < segment {
            return fail("buffer", format!("must hold at least one segment of {segment}"));
        }
        Ok(())
    }

    /// A flow like its connections.
    pub fn connection(&self) -> Flow {
        Flow {
            name: self.label().to_owned(),
            controller: self.controller.clone(),
            ecn: self.ecn,
            rtt: self.rtt,
            rate: self.rate,
            initial_window: self.initial_window,
            ..Flow::of(self.stack)
        }
    }

    /// What the simulator makes of it, beside a link of `rate`.
    pub fn pattern(&self, rate: Rate) -> Pattern {
        let users = self.most_connections();
        let span = |mean: Option<Duration>| match self.times.unwrap_or_default() {
            Times::Fixed => Span::Fixed(mean.unwrap_or_default()),
            Times::Exponential => Span::Exponential(mean.unwrap_or_default()),
        };
        match self.kind {
            Kind::Poisson => {
                let size = self.sized();
                let of_load = |load: f64| load * rate.bits_per_sec() as f64 / 8.0 / size.mean();
                let rate = self.arrivals.or(self.load.map(of_load)).unwrap_or_default();
                Pattern::Poisson { rate, size, connections: users }
            }
            Kind::Requests => Pattern::Requests { users, think: span(self.think), size: self.sized() },
            Kind::Video => Pattern::Video {
                users,
                segment: self.segment.unwrap_or_default(),
                bitrate: self.bitrate.unwrap_or_default(),
                buffer: self.buffer.unwrap_or_default(),
            },
            Kind::OnOff => Pattern::OnOff { users, on: span(self.on), off: span(self.off) },
        }
    }

    /// Of a crowd beside a link of `rate`: requests in a second, and bytes of a response in the mean.
    pub fn offered(&self, rate: Rate) -> (f64, f64) {
        match self.pattern(rate) {
            Pattern::Poisson { rate, size, .. } => (rate, size.mean()),
            Pattern::Requests { .. } | Pattern::Video { .. } | Pattern::OnOff { .. } => (0.0, 0.0),
        }
    }

    fn sized(&self) -> Size {
        let bytes = self.size.unwrap_or_default().0;
        let mean = bytes as f64;
        match self.sizes.unwrap_or_default() {
            Sizes::Fixed => Size::Fixed(bytes),
            Sizes::Exponential => Size::Exponential(mean),
            Sizes::Pareto => {
                Size::Pareto { mean, shape: self.shape.unwrap_or(2.0), cap: self.cap.map(|cap| cap.0 as f64) }
            }
        }
    }
}

impl Scenario {
    pub(super) fn check_workloads(&self) -> Result<(), Refusal> {
        let mut labels = BTreeSet::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            let place = |key: &str| format!("workload.{index}.{key}");
            workload.check().map_err(|refusal| refusal.inside(&format!("workload.{index}")))?;
            if workload.start >= self.measure.timeout {
                let message = format!("{} is when the run has ended; raise measure.timeout", workload.start);
                return Err(Refusal::new(place("start"), message));
            }
            if !labels.insert(workload.label()) {
                return Err(Refusal::new(
                    place("name"),
                    "another workload is called so; give it another name".to_owned(),
                ));
            }
        }
        let connections: u64 =
            self.workloads.iter().map(|workload| u64::from(workload.most_connections())).sum();
        if connections > u64::from(MOST_CONNECTIONS) {
            return Err(Refusal::new(
                "workload".to_owned(),
                format!(
                    "up to {connections} connections; all workloads together can have {MOST_CONNECTIONS}: lower 'connections' or 'users'"
                ),
            ));
        }
        Ok(())
    }
}
