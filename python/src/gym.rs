//! Links for learned congestion control: each a bottleneck in virtual time whose first flow does what it is told, step
//! by step. `weirnet.gym` makes gymnasium's environments of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use weir_cc::{Ack, Choice, Controller, EcnUse, Family, Setup, Timeout};
use weir_core::{Duration, Event, EventKind, Rate, Seed, Time};
use weir_qdisc::QdiscConfig;
use weir_sim::{FlowSpec, HopId, HopSpec, Network, Observer};

use crate::ack::seconds;
use crate::errors::Fault;

/// Payload of a full packet of TCP's.
const MSS: u32 = 1448;
/// The window to begin with, by RFC 6928.
const INITIAL: f64 = 10.0;
/// The smallest window: one packet alone would wait for the receiver's delayed acknowledgement.
const LEAST: f64 = 2.0;
/// The largest; it keeps a policy that has gone astray from filling the memory.
const MOST: f64 = 20_000.0;
/// By how much more than the window in a round trip the pacing lets pass, so that the window is what bounds.
const PACING: f64 = 1.2;
/// Numbers of each link that a step gives.
const NUMBERS: usize = 10;

/// What the flow is told, and what it has seen since the last step.
#[derive(Debug, Default)]
struct Told {
    cwnd: f64,
    /// Smoothed round-trip time in seconds; 0 before the first.
    srtt: f64,
    min_rtt: f64,
    delivered: u64,
    delivered_bytes: u64,
    lost: u64,
    marked: u64,
    sent_bytes: u64,
    rtt_sum: f64,
    rtts: u64,
    first_rtt: f64,
    last_rtt: f64,
}

impl Told {
    /// Begins the next step.
    fn forget(&mut self) {
        let Self { cwnd, srtt, min_rtt, last_rtt, .. } = *self;
        *self = Self { cwnd, srtt, min_rtt, last_rtt, ..Self::default() };
    }
}

type Shared = Arc<Mutex<Told>>;

fn locked(shared: &Shared) -> MutexGuard<'_, Told> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flow's controller: the step's window, or that of another controller which is only watched.
struct Agent {
    told: Shared,
    inner: Option<Box<dyn Controller>>,
}

impl Controller for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn on_handshake(&mut self, rtt: Duration) {
        if let Some(inner) = &mut self.inner {
            inner.on_handshake(rtt);
        }
        let mut told = locked(&self.told);
        (told.srtt, told.min_rtt) = (seconds(rtt), seconds(rtt));
    }

    fn on_sent(&mut self, sent: &weir_cc::Sent) {
        if let Some(inner) = &mut self.inner {
            inner.on_sent(sent);
        }
        locked(&self.told).sent_bytes += u64::from(sent.bytes);
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(inner) = &mut self.inner {
            inner.on_ack(ack);
        }
        let mut told = locked(&self.told);
        told.delivered += u64::from(ack.delivered.packets);
        told.delivered_bytes += ack.delivered.bytes;
        told.lost += u64::from(ack.lost.packets);
        told.marked += u64::from(ack.ce.packets);
        told.srtt = seconds(ack.smoothed_rtt);
        if ack.min_rtt != Duration::MAX {
            told.min_rtt = seconds(ack.min_rtt);
        }
        if let Some(rtt) = ack.rtt.map(seconds) {
            if told.rtts == 0 {
                told.first_rtt = rtt;
            }
            told.last_rtt = rtt;
            told.rtt_sum += rtt;
            told.rtts += 1;
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        match &mut self.inner {
            Some(inner) => inner.on_timeout(timeout),
            None => locked(&self.told).cwnd = LEAST,
        }
    }

    fn window(&self) -> u64 {
        match &self.inner {
            Some(inner) => inner.window(),
            None => (locked(&self.told).cwnd * f64::from(MSS)) as u64,
        }
    }

    fn pacing(&self) -> Option<Rate> {
        match &self.inner {
            Some(inner) => inner.pacing(),
            None => {
                let told = locked(&self.told);
                let rate = PACING * told.cwnd * f64::from(MSS) * 8.0 / told.srtt;
                (told.srtt > 0.0).then(|| Rate::from_bits_per_sec(rate as u64))
            }
        }
    }

    fn burst(&self) -> Option<Duration> {
        self.inner.as_ref().and_then(|inner| inner.burst())
    }

    fn made_up(&self) -> Option<Duration> {
        self.inner.as_ref().and_then(|inner| inner.made_up())
    }

    fn ecn(&self) -> EcnUse {
        self.inner.as_ref().map_or(EcnUse::Off, |inner| inner.ecn())
    }

    fn timer(&self) -> Option<Time> {
        self.inner.as_ref().and_then(|inner| inner.timer())
    }

    fn on_timer(&mut self, now: Time) {
        if let Some(inner) = &mut self.inner {
            inner.on_timer(now);
        }
    }
}

/// What the bottleneck did since the last step.
#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    sojourn_ns: u64,
}

impl Observer for Seen {
    fn event(&mut self, _: HopId, event: &Event) {
        if event.kind == EventKind::Dequeue {
            self.packets += 1;
            self.sojourn_ns += event.sojourn.as_nanos();
        }
    }
}

/// One link with its flows.
struct Link {
    network: Network<Seen>,
    told: Shared,
    rate: f64,
    interval: Duration,
}

/// What a link is made of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Spec {
    rate_bps: f64,
    rtt_s: f64,
    qdisc: String,
    loss: f64,
    interval_s: f64,
    seed: u64,
    rivals: Vec<String>,
    controller: Option<String>,
}

impl Link {
    fn new(spec: &Spec) -> Result<Self, String> {
        let said = |error: &dyn ToString| error.to_string();
        if !(1e4..=1e11).contains(&spec.rate_bps) {
            return Err(format!("rate_bps: {} is not from 10 kbit/s to 100 Gbit/s", spec.rate_bps));
        }
        if !(1e-5..=10.0).contains(&spec.rtt_s) || !(1e-4..=10.0).contains(&spec.interval_s) {
            return Err("rtt_s and interval_s: give seconds, at most 10".to_owned());
        }
        if !(0.0..1.0).contains(&spec.loss) {
            return Err(format!("loss: {} is not from 0 to below 1", spec.loss));
        }
        let time = |seconds: f64| Duration::from_nanos((seconds * 1e9) as u64);
        let (rate, rtt) = (Rate::from_bits_per_sec(spec.rate_bps as u64), time(spec.rtt_s));
        let qdisc: QdiscConfig = spec.qdisc.parse().map_err(|error| said(&error))?;
        let mut network = Network::new(Seed { seed: spec.seed, run: 0 }, Seen::default());
        let hop = network.add_hop(HopSpec::new(rate, qdisc, rtt).map_err(|error| said(&error))?);
        let told = Shared::default();
        locked(&told).cwnd = INITIAL;
        let inner = match &spec.controller {
            None => None,
            Some(name) => {
                let random = Seed { seed: spec.seed, run: 0 }.stream("controller");
                let setup = Setup { mss: MSS, initial_window: INITIAL as u32, random, rate: None };
                let entry = weir_cc::find(name).map_err(|error| format!("controller: {error}"))?;
                Some(entry.make(&Choice { family: Family::Tcp, ecn: false }, &setup))
            }
        };
        let agent = Agent { told: Arc::clone(&told), inner };
        let flow = FlowSpec::tcp("reno", hop, rtt).map_err(|error| said(&error))?;
        network.add_flow(flow.loss(spec.loss).controller(Box::new(agent))).map_err(|error| said(&error))?;
        for rival in &spec.rivals {
            let flow = FlowSpec::tcp(rival, hop, rtt).map_err(|error| said(&error))?;
            network.add_flow(flow.loss(spec.loss)).map_err(|error| said(&error))?;
        }
        Ok(Self { network, told, rate: spec.rate_bps, interval: time(spec.interval_s) })
    }

    /// Lets an interval pass with the window changed by `action`: 1 makes it one and a half as large, -1 two thirds.
    fn step(&mut self, action: f64) -> [f64; NUMBERS] {
        {
            let mut told = locked(&self.told);
            let action = if action.is_finite() { action.clamp(-1.0, 1.0) } else { 0.0 };
            let factor = if action >= 0.0 { 1.0 + 0.5 * action } else { 1.0 / (1.0 - 0.5 * action) };
            told.cwnd = (told.cwnd * factor).clamp(LEAST, MOST);
            told.forget();
        }
        *self.network.observer_mut() = Seen::default();
        let end = self.network.now() + self.interval;
        self.network.run_until(end);
        self.numbers()
    }

    fn numbers(&self) -> [f64; NUMBERS] {
        let (told, seen) = (locked(&self.told), self.network.observer());
        let per = seconds(self.interval);
        let heard = (told.delivered + told.lost).max(1) as f64;
        let rtt = if told.rtts > 0 { told.rtt_sum / told.rtts as f64 } else { told.srtt };
        [
            told.delivered_bytes as f64 * 8.0 / per,
            told.sent_bytes as f64 * 8.0 / per,
            rtt,
            told.min_rtt,
            if told.rtts > 1 { (told.last_rtt - told.first_rtt) / per } else { 0.0 },
            told.lost as f64 / heard,
            told.marked as f64 / heard,
            told.cwnd,
            self.rate,
            if seen.packets > 0 { seen.sojourn_ns as f64 / seen.packets as f64 / 1e9 } else { 0.0 },
        ]
    }
}

/// Links side by side.
#[pyclass(frozen, module = "weirnet", name = "Links")]
pub(crate) struct Links {
    count: usize,
    /// Taken only without the interpreter's lock, which others may hold meanwhile.
    links: Mutex<Vec<Option<Link>>>,
}

impl Links {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut [Option<Link>]) -> Result<T, &'static str> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| work(&mut self.links.lock().unwrap_or_else(PoisonError::into_inner)));
        done.map_err(PyValueError::new_err)
    }
}

/// What a link says that is not made.
const NOT_MADE: &str = "reset each link before its first step";

#[pymethods]
impl Links {
    /// As many links as `count`, none of which is made yet.
    #[new]
    fn new(count: usize) -> Self {
        Self { count, links: Mutex::new((0..count).map(|_| None).collect()) }
    }

    /// How many numbers a step gives of each link.
    #[classattr]
    const NUMBERS: usize = NUMBERS;

    fn __len__(&self) -> usize {
        self.count
    }

    /// Makes a link anew.
    fn reset(&self, py: Python<'_>, index: usize, spec: Spec) -> PyResult<()> {
        let count = self.count;
        if index >= count {
            return Err(PyIndexError::new_err(format!("there are {count} links, not a link {index}")));
        }
        let link = py.detach(|| Link::new(&spec));
        let link = link.map_err(|words| Fault::new("ScenarioError", &words).raise(py))?;
        self.with(py, move |links| {
            links[index] = Some(link);
            Ok(())
        })
    }

    /// Lets an interval pass on all links, each with its action, and returns the numbers of one after the other.
    fn step(&self, py: Python<'_>, actions: Vec<f64>) -> PyResult<Vec<f64>> {
        if actions.len() != self.count {
            let words = format!("{} actions for {} links", actions.len(), self.count);
            return Err(PyValueError::new_err(words));
        }
        self.with(py, move |links| {
            let mut numbers = Vec::with_capacity(links.len() * NUMBERS);
            for (link, action) in links.iter_mut().zip(actions) {
                numbers.extend(link.as_mut().ok_or(NOT_MADE)?.step(action));
            }
            Ok(numbers)
        })
    }

    /// Lets an interval pass on one link.
    fn step_one(&self, py: Python<'_>, index: usize, action: f64) -> PyResult<[f64; NUMBERS]> {
        self.with(py, move |links| {
            Ok(links.get_mut(index).and_then(Option::as_mut).ok_or(NOT_MADE)?.step(action))
        })
    }
}
