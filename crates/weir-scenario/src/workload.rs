//! Workloads of a scenario: who asks for data again and again, when, and for how much.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Rate};
use weir_sim::{Pattern, Size, Span};

use crate::Refusal;
use crate::key::{Table, keys, plain};

use super::{Flow, Scenario};
use weir_testbed::traffic::{self, Stack};

/// Connections of all workloads together: each has a port.
const MOST_CONNECTIONS: u32 = 20_000;
/// Connections of a crowd by default.
const CONNECTIONS: u32 = 1_000;

keys! {
    /// One workload.
    pub struct Workload;
    /// A workload without a controller and with all defaults.
    pub fn new(kind: Kind, stack: Stack);

    /// What tables call it; each workload needs one of its own, which no flow has either.
    #[serde(default)]
    name: String = String::new() => Key::of("text").usual("the kind").sim();

    /// Who asks, and when.
    kind: Kind = kind => Key::of("as above").required().sim();

    /// What carries all its connections.
    stack: Stack = stack => Key::of("`tcp`, `quic`; `on-off` also `udp`").required().sim();

    /// Congestion control of all its connections, as of a flow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    controller: String = String::new() => Key::of("name").usual("required; not for UDP").sim();

    /// Whether all its connections use ECN, as of a flow.
    #[serde(default)]
    ecn: bool = false => Key::of("true or false").usual("false").sim();

    /// The congestion window that all its connections begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    initial_window: Option<u32> = None
        => Key::of("packets").within(1, 1_000_000).usual("`10`").sim().tcp_and_quic();

    /// SYN-ACK and FIN of its connections pass the queue, as of a flow; a request is then answered when the FIN is
    /// there, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    syn_fin: Option<bool> = None
        => Key::of("true or false").usual("false").kinds(OPENING).sim().tcp();

    /// Round-trip time of all its connections without queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<Duration> = None => Key::of("time").usual("`bottleneck.rtt`").sim().delay();

    /// When it begins.
    #[serde(default)]
    start: Duration = Duration::ZERO => Key::of("time").usual("`0`").sim();

    /// Nothing is asked for after this time from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<Duration> = None => Key::of("time").above(0).sim();

    /// So many in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64> = None => Key::of("integer").least(1).sim();

    /// Requests per second in the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrivals: Option<f64> = None => Key::of("").above(0).usual("this or `load`").kinds(POISSON).sim();

    /// The same as payload asked for, in parts of `bottleneck.rate`. Headers come on top: 4.6 % with full packets of
    /// TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<f64> = None => Key::of("").above(0).usual("this or `arrivals`").kinds(POISSON).sim();

    /// Connections at the same time; requests beyond wait for one, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<u32> = None => Key::of("").least(1).usual("`1000`").kinds(POISSON).sim();

    /// How many users, players or sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<u32> = None => Key::of("").least(1).usual("`1`").kinds(OF_USERS).sim();

    /// Payload of a response: its mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Bytes> = None
        => Key::of("size").least(1).because(" byte").usual("required without `least`").kinds(SIZED).sim();

    /// With `pareto`, in place of `size`: the smallest. Needs a `cap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<Bytes> = None => Key::of("size").least(1).because(" byte").kinds(SIZED).sim();

    /// How the size is distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Sizes> = None
        => Key::of("`fixed`, `exponential`, `pareto`").usual("`fixed`").kinds(SIZED).sim();

    /// The exponent; below 2 the tail is heavy. Above 1 with `size`, as there is no mean otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<f64> = None
        => Key::of("").above(0).usual("required with `pareto`")
        .kinds(SIZED).sim();

    /// With `pareto`: what is larger is cut to this. `size` is the mean before it is cut, `load` counts what remains.
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<Bytes> = None => Key::of("size").least(1).because(" byte").kinds(SIZED).sim();

    /// From a response to the next request, and before the first: its mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Duration> = None => Key::of("time").required().kinds(&[Kind::Requests]).sim();

    /// How long it sends: its mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    on: Option<Duration> = None => Key::of("time").above(0).required().kinds(&[Kind::OnOff]).sim();

    /// How long it is silent: its mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    off: Option<Duration> = None => Key::of("time").required().kinds(&[Kind::OnOff]).sim();

    /// How `think`, `on` and `off` are distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<Times> = None => Key::of("`fixed`, `exponential`").usual("`exponential`").kinds(TIMED).sim();

    /// How much film is asked for at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<Duration> = None => Key::of("time").above(0).required().kinds(&[Kind::Video]).sim();

    /// Of the film.
    #[serde(skip_serializing_if = "Option::is_none")]
    bitrate: Option<Rate> = None => Key::of("rate").above(0).required().kinds(&[Kind::Video]).sim();

    /// How much film a player holds at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer: Option<Duration> = None
        => Key::of("time, at least one `segment`").required().kinds(&[Kind::Video]).sim();

    /// The rate of UDP sources while they are on, as of a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate> = None
        => Key::of("rate above 0").usual("required for UDP, not for others").kinds(&[Kind::OnOff]).sim();
}

/// Those whose connections come and go.
const POISSON: &[Kind] = &[Kind::Poisson];
/// Those whose connections open for a request.
const OPENING: &[Kind] = &[Kind::Poisson, Kind::Requests, Kind::Video];
/// Those with users, players or sources.
const OF_USERS: &[Kind] = &[Kind::Requests, Kind::Video, Kind::OnOff];
/// Those whose responses have a size.
const SIZED: &[Kind] = &[Kind::Poisson, Kind::Requests];
/// Those with times of their own.
const TIMED: &[Kind] = &[Kind::Requests, Kind::OnOff];

plain!(Kind, Sizes, Times);

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

    fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let kind = self.kind.name();
        for (key, value) in self.entries() {
            if let Some(message) = key.refused_of(self.kind, value.is_given()) {
                return fail(key.name(), message);
            }
        }
        self.check_ranges()?;
        self.check_arrivals()?;
        self.check_sizes()?;
        self.check_film()?;
        if self.stack == Stack::Udp && self.kind != Kind::OnOff {
            return fail(
                "stack",
                format!("a workload of kind \"{kind}\" is TCP or QUIC; or use kind = \"on-off\""),
            );
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
        match (self.arrivals, self.load) {
            (None, None) if self.kind == Kind::Poisson => fail(
                "arrivals",
                "is missing; give requests per second, or 'load' as a part of the rate such as 0.5",
            ),
            (Some(_), Some(_)) => fail("load", "is given beside 'arrivals'; remove one of them"),
            _ => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let pareto = self.sizes == Some(Sizes::Pareto);
        if !pareto {
            let given = [
                ("shape", self.shape.is_some()),
                ("cap", self.cap.is_some()),
                ("least", self.least.is_some()),
            ];
            if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
                return fail(key, "needs sizes = \"pareto\"".to_owned());
            }
        }
        match (self.size, self.least, self.shape) {
            (None, None, _) if SIZED.contains(&self.kind) => {
                let kind = self.kind.name();
                fail("size", format!("is missing; a workload of kind \"{kind}\" needs it"))
            }
            (Some(_), Some(_), _) => fail("least", "is given beside 'size'; remove one of them".to_owned()),
            (_, _, None) if pareto => {
                fail("shape", "is missing; Pareto sizes need one above 1, such as 1.2".to_owned())
            }
            (Some(_), _, Some(shape)) if shape <= 1.0 => fail(
                "shape",
                "must be above 1, or there is no mean; or give 'least' and 'cap' in place of 'size'"
                    .to_owned(),
            ),
            (_, Some(_), _) if self.cap.is_none() => {
                fail("cap", "is missing; sizes from 'least' on need one, such as 1mb".to_owned())
            }
            (_, Some(least), _) if self.cap.is_some_and(|cap| cap <= least) => {
                fail("cap", format!("must be above 'least', {least}, or no size differs from another"))
            }
            _ => Ok(()),
        }
    }

    fn check_film(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let (Some(segment), Some(buffer)) = (self.segment, self.buffer) else {
            return Ok(());
        };
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
            syn_fin: self.syn_fin,
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
                let (shape, cap) = (self.shape.unwrap_or(2.0), self.cap.map(|cap| cap.0 as f64));
                match (self.least, cap) {
                    (Some(least), Some(cap)) => Size::ParetoFrom { least: least.0 as f64, shape, cap },
                    _ => Size::Pareto { mean, shape, cap },
                }
            }
        }
    }
}

impl Scenario {
    pub(super) fn check_workloads(&self) -> Result<(), Refusal> {
        let mut labels = BTreeSet::new();
        let mut flows: BTreeSet<String> = self.groups().into_iter().map(|group| group.name).collect();
        flows.extend(self.expanded_flows().into_iter().map(|flow| flow.name));
        for (index, workload) in self.workloads.iter().enumerate() {
            let place = |key: &str| format!("workload.{index}.{key}");
            workload.check().map_err(|refusal| refusal.inside(&format!("workload.{index}")))?;
            if workload.start >= self.measure.timeout {
                let message = format!("{} is when the run has ended; raise measure.timeout", workload.start);
                return Err(Refusal::new(place("start"), message));
            }
            let other = match workload.label() {
                label if flows.contains(label) => "a flow",
                label if !labels.insert(label) => "another workload",
                _ => continue,
            };
            let message = format!("{other} is called so; give it another name");
            return Err(Refusal::new(place("name"), message));
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
