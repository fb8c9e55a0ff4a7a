//! Paths: what a bottleneck does besides queueing, further links, and which of them a flow goes over. Only world `sim`
//! has them.

use std::path::Path;

use weir_core::{Duration, Rate};
use weir_qdisc::QdiscConfig;
use weir_sim::{HopSpec, Impairment, RateSteps};

use crate::Refusal;
use crate::key::{keys, plain};

use super::impairment::{Jitter, ReadTrace, Reorder, Share, TraceFile, impairment};
use super::{Flow, Scenario, Workload};

/// What a path calls the bottleneck.
pub(crate) const BOTTLENECK: &str = "bottleneck";

keys! {
    /// The other direction of a link: with a rate it has a queue of its own.
    #[derive(Default)]
    pub struct Reverse;
    /// Neither rate nor queue, and nothing that happens to packets.
    pub fn new();

    /// Rate of this direction, in wire bits. Without `rate` and `trace` it has no queue, but may have jitter, loss and
    /// reordering.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate> = None => Key::of("rate from `1kbit`").sim();

    /// When it may send, in place of a rate, as of `[bottleneck]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceFile> = None => Key::of("path").sim();

    /// Its queue, `reverse` in `queues.csv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    qdisc: Option<QdiscConfig> = None
        => Key::of("words or table, no `crq`").usual("required with `rate` or `trace`").sim();

    /// By how much the delay behind it varies, as of `[bottleneck]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Jitter> = None => Key::of("time, up to the delay behind it").sim().delay();

    /// Packets that are lost behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Share> = None => Key::of("share").sim();

    /// Packets that come later, as of `[bottleneck]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reorder: Option<Reorder> = None => Key::of("share and time").sim().delay();
}

keys! {
    /// A link besides the bottleneck.
    pub struct Link;
    /// A link whose rate is still to be given, with defaults but for these.
    pub fn new(name: String, qdisc: QdiscConfig);

    /// What `path` calls it, and its queue in `queues.csv`.
    name: String = name => Key::of("text, not `bottleneck`").required().sim();

    /// The rate, in wire bits.
    #[serde(default)]
    rate: Rate = Rate::default() => Key::of("rate from `1kbit`").usual("required without `trace`").sim();

    /// When it may send, in place of a rate, as of `[bottleneck]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceFile> = None => Key::of("path").sim();

    /// From one end of the link to the other, in each direction, **on top of** the flow's `rtt`.
    #[serde(default)]
    delay: Duration = Duration::ZERO => Key::of("time").usual("`0`").sim().delay();

    /// Its queue. One `bdp` is this link's rate times `bottleneck.rtt`.
    qdisc: QdiscConfig = qdisc => Key::of("words or table, no `crq`").required().sim();

    /// By how much the delay varies, as of `[bottleneck]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Jitter> = None => Key::of("time, up to the delay behind the link").sim().delay();

    /// Packets that are lost on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Share> = None => Key::of("share").sim();

    /// Packets that come later, as of `[bottleneck]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reorder: Option<Reorder> = None => Key::of("share and time").sim().delay();

    /// The other direction; its queue is called `NAME reverse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reverse: Option<Reverse> = None => Key::of("table").sim();
}

plain!(Reverse);

/// One direction of a link as checks and the simulator look at it.
struct Side<'a> {
    /// The key that names it in errors.
    key: String,
    /// What results call it, if it is not the bottleneck.
    name: String,
    rate: Rate,
    trace: Option<&'a TraceFile>,
    steps: Option<RateSteps>,
    replay_window: Option<u32>,
    qdisc: Option<&'a QdiscConfig>,
    overhead: u32,
    delay: Duration,
    impairment: Impairment,
}

/// A link as the simulator has it.
pub struct BuiltLink {
    pub forward: HopSpec,
    /// The queue of the other direction, if there is one.
    pub reverse: Option<HopSpec>,
    /// What happens in the other direction where there is none.
    pub impairment: Impairment,
}

fn refuse<T>(key: impl Into<String>, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(key, message))
}

impl Side<'_> {
    fn has_queue(&self) -> bool {
        self.rate.bits_per_sec() > 0 || self.trace.is_some()
    }

    fn hop(&self, rtt: Duration) -> Result<Option<HopSpec>, Refusal> {
        let Some(qdisc) = self.qdisc.filter(|_| self.has_queue()) else { return Ok(None) };
        let built = HopSpec::new(self.rate, qdisc.clone(), rtt)
            .map_err(|error| Refusal::new(format!("{}.qdisc", self.key), error.to_string()))?;
        let built = built.overhead(self.overhead).delay(self.delay).impairment(self.impairment);
        let built = match (self.trace.and_then(TraceFile::trace), &self.steps) {
            (Some(trace), _) => built.trace(trace.clone()),
            (None, Some(steps)) => built.steps(steps.clone()),
            (None, None) => built,
        };
        Ok(Some(match self.replay_window {
            Some(packets) => built.replay_window(packets),
            None => built,
        }))
    }

    fn check(&self, rtt: Duration, asks_law: bool) -> Result<(), Refusal> {
        let key = |key: &str| format!("{}.{key}", self.key);
        if self.has_queue() && self.rate.bits_per_sec() < 1_000 {
            return refuse(key("rate"), format!("{} is below 1kbit; give a rate such as 10mbit", self.rate));
        }
        match self.qdisc {
            None if self.has_queue() => {
                return refuse(key("qdisc"), "is missing; give one such as \"pfifo limit 100p\"");
            }
            Some(_) if !self.has_queue() => {
                return refuse(key("rate"), "a queue needs a rate of at least 1kbit; give one, or a trace");
            }
            Some(qdisc) if qdisc.asks_law() && !asks_law => {
                let message = "crq asks the law, which watches packets towards the client at the bottleneck; use \
                               another discipline here";
                return refuse(key("qdisc"), message);
            }
            _ => {}
        }
        self.hop(rtt).map(|_| ())
    }
}

impl Reverse {
    fn side(&self, key: String, name: String, overhead: u32, delay: Duration) -> Side<'_> {
        let mean = self.trace.as_ref().and_then(TraceFile::trace).map(|trace| trace.rate());
        Side {
            key: format!("{key}.reverse"),
            name,
            rate: self.rate.or(mean).unwrap_or_default(),
            trace: self.trace.as_ref(),
            steps: None,
            replay_window: None,
            qdisc: self.qdisc.as_ref(),
            overhead,
            delay,
            impairment: impairment(self.jitter, self.loss, self.reorder),
        }
    }
}

/// What is wrong with a rate below 1 kbit/s.
pub(super) fn too_slow(rate: Rate) -> String {
    let what = if rate.bits_per_sec() == 0 {
        "is missing or 0".to_owned()
    } else {
        format!("{rate} is below 1kbit")
    };
    format!("{what}; give a rate such as 10mbit, or a trace")
}

/// How errors name the link at `place` among `links`.
fn link_key(place: usize) -> String {
    format!("link.{place}")
}

impl Scenario {
    /// Reads traces by `read`, from `folder`. A rate that is not given is the mean of the trace.
    pub(super) fn read_traces(&mut self, folder: &Path, by: ReadTrace<'_>) -> Result<(), Refusal> {
        let read = |file: &mut Option<TraceFile>, rate: Option<&mut Rate>, key: &str| {
            let Some(file) = file else { return Ok::<(), Refusal>(()) };
            let trace =
                file.read(folder, by).map_err(|message| Refusal::new(format!("{key}.trace"), message))?;
            match rate {
                Some(rate) if rate.bits_per_sec() == 0 => *rate = trace.rate(),
                _ => {}
            }
            Ok(())
        };
        let bottleneck = &mut self.bottleneck;
        read(&mut bottleneck.trace, Some(&mut bottleneck.rate), BOTTLENECK)?;
        if let Some(reverse) = &mut bottleneck.reverse {
            read(&mut reverse.trace, None, &format!("{BOTTLENECK}.reverse"))?;
        }
        for (place, link) in self.links.iter_mut().enumerate() {
            let key = link_key(place);
            read(&mut link.trace, Some(&mut link.rate), &key)?;
            if let Some(reverse) = &mut link.reverse {
                read(&mut reverse.trace, None, &format!("{key}.reverse"))?;
            }
        }
        Ok(())
    }

    /// The files of traces.
    pub fn traces(&self) -> impl Iterator<Item = &TraceFile> {
        fn of<'a>(
            trace: Option<&'a TraceFile>,
            reverse: Option<&'a Reverse>,
        ) -> impl Iterator<Item = &'a TraceFile> {
            trace.into_iter().chain(reverse.and_then(|reverse| reverse.trace.as_ref()))
        }
        let links = self.links.iter().flat_map(|link| of(link.trace.as_ref(), link.reverse.as_ref()));
        of(self.bottleneck.trace.as_ref(), self.bottleneck.reverse.as_ref()).chain(links)
    }

    /// Both directions of the bottleneck, then of all other links.
    fn sides(&self) -> Vec<(Side<'_>, Option<Side<'_>>)> {
        let bottleneck = &self.bottleneck;
        let first = Side {
            key: BOTTLENECK.to_owned(),
            name: BOTTLENECK.to_owned(),
            rate: bottleneck.rate,
            trace: bottleneck.trace.as_ref(),
            steps: bottleneck.rate_steps().ok().flatten(),
            replay_window: bottleneck.replay_window,
            qdisc: Some(&bottleneck.qdisc),
            overhead: bottleneck.overhead,
            delay: Duration::ZERO,
            impairment: impairment(bottleneck.jitter, bottleneck.loss, bottleneck.reorder),
        };
        let back = bottleneck.reverse.as_ref().map(|reverse| {
            reverse.side(BOTTLENECK.to_owned(), "reverse".to_owned(), bottleneck.overhead, Duration::ZERO)
        });
        let others = self.links.iter().enumerate().map(|(place, link)| {
            let side = Side {
                key: link_key(place),
                name: link.name.clone(),
                rate: link.rate,
                trace: link.trace.as_ref(),
                steps: None,
                replay_window: None,
                qdisc: Some(&link.qdisc),
                overhead: 0,
                delay: link.delay,
                impairment: impairment(link.jitter, link.loss, link.reorder),
            };
            let back = link.reverse.as_ref().map(|reverse| {
                reverse.side(link_key(place), format!("{} reverse", link.name), 0, link.delay)
            });
            (side, back)
        });
        std::iter::once((first, back)).chain(others).collect()
    }

    /// Checks links and paths.
    pub(super) fn check_paths(&self) -> Result<(), Refusal> {
        let rtt = self.bottleneck.rtt;
        for (place, link) in self.links.iter().enumerate() {
            if link.name.trim().is_empty() {
                return refuse(
                    format!("{}.name", link_key(place)),
                    "must not be empty; give a name that paths can use",
                );
            }
            let earlier = self.links[..place].iter().any(|earlier| earlier.name == link.name);
            if earlier || link.name == BOTTLENECK {
                return refuse(link_key(place), "there is another link of this name; give each its own");
            }
            if link.rate.bits_per_sec() < 1_000 {
                return refuse(format!("{}.rate", link_key(place)), too_slow(link.rate));
            }
        }
        let sides = self.sides();
        for (place, (side, back)) in sides.iter().enumerate() {
            side.check(rtt, place == 0)?;
            if let Some(back) = back {
                back.check(rtt, false)?;
            }
        }
        let mut used = vec![false; sides.len()];
        let connections: Vec<Flow> = self.workloads.iter().map(Workload::connection).collect();
        let flows = self.flows.iter().enumerate().map(|(index, flow)| (format!("flow.{index}.path"), flow));
        let connections = connections.iter().enumerate();
        let connections = connections.map(|(index, flow)| (format!("workload.{index}"), flow));
        for (key, flow) in flows.chain(connections) {
            let path = self.path(flow).map_err(|message| Refusal::new(&key, message))?;
            for (place, link) in path.iter().enumerate() {
                if path[..place].contains(link) {
                    return refuse(key, format!("'{}' is named twice", sides[*link].0.name));
                }
                used[*link] = true;
                let is_last = place + 1 == path.len();
                self.check_jitter(flow, &sides[*link], (place == 0, is_last))?;
            }
        }
        match used.iter().position(|used| !used) {
            Some(0) => refuse(
                "flow.path",
                "no flow goes over the bottleneck; name \"bottleneck\" in a path or leave path out",
            ),
            Some(place) => refuse(
                &sides[place].0.key,
                "is on the path of no flow; name it in a flow's path or remove it",
            ),
            None => Ok(()),
        }
    }

    /// Jitter cannot make a delay negative. Which delays lie behind a link depends on where on the flow's path it is.
    fn check_jitter(
        &self,
        flow: &Flow,
        (side, back): &(Side<'_>, Option<Side<'_>>),
        (is_first, is_last): (bool, bool),
    ) -> Result<(), Refusal> {
        let rtt = flow.rtt.unwrap_or(self.bottleneck.rtt);
        let behind = rtt.scale(self.bottleneck.position);
        let before = rtt - behind;
        let rest = |counts: bool, delay: Duration| if counts { delay } else { Duration::ZERO };
        let forward = side.delay + rest(is_last, behind / 2);
        let backward = side.delay + rest(is_first, before - before / 2);
        for (side, delay) in [(Some(side), forward), (back.as_ref(), backward)] {
            let Some(side) = side.filter(|side| side.impairment.jitter > delay) else { continue };
            let message = format!(
                "{} is more than the {delay} that packets of flow '{}' need behind it; lower it, or raise rtt, delay or \
                 position",
                side.impairment.jitter,
                flow.label()
            );
            return refuse(format!("{}.jitter", side.key), message);
        }
        Ok(())
    }

    /// The links that a flow goes over: 0 for the bottleneck, then the others in their order.
    pub fn path(&self, flow: &Flow) -> Result<Vec<usize>, String> {
        let Some(path) = &flow.path else { return Ok(vec![0]) };
        if path.is_empty() {
            return Err("is empty; name at least one link or leave it out".to_owned());
        }
        let names: Vec<&str> =
            [BOTTLENECK].into_iter().chain(self.links.iter().map(|link| link.name.as_str())).collect();
        path.iter()
            .map(|name| {
                names
                    .iter()
                    .position(|known| known == name)
                    .ok_or_else(|| format!("there is no link '{name}'; there are {}", names.join(", ")))
            })
            .collect()
    }

    /// Whether a flow goes over the bottleneck. A path that cannot be goes over no link.
    pub fn passes_bottleneck(&self, flow: &Flow) -> bool {
        self.path(flow).is_ok_and(|path| path.contains(&0))
    }

    /// Whether data upwards meets a rate on a flow's path.
    pub fn is_bounded_up(&self, flow: &Flow) -> bool {
        let sides = self.sides();
        let has_queue = |place: &usize| sides[*place].1.as_ref().is_some_and(Side::has_queue);
        self.path(flow).unwrap_or_default().iter().any(has_queue)
    }

    /// The delays of the links on a flow's path, one way.
    pub fn link_delay(&self, flow: &Flow) -> Duration {
        let on_path = |link: &&Link| flow.path.as_ref().is_some_and(|path| path.contains(&link.name));
        self.links.iter().filter(on_path).fold(Duration::ZERO, |sum, link| sum + link.delay)
    }

    /// The bottleneck and the other links, for the simulator.
    pub fn build_links(&self) -> Result<Vec<BuiltLink>, String> {
        let rtt = self.bottleneck.rtt;
        let text = |refusal: Refusal| refusal.to_string();
        self.sides()
            .iter()
            .map(|(side, back)| {
                let forward = side.hop(rtt).map_err(text)?;
                let reverse = back.as_ref().map(|back| back.hop(rtt)).transpose().map_err(text)?.flatten();
                let impairment = back.as_ref().map(|back| back.impairment).unwrap_or_default();
                let forward = forward.ok_or_else(|| format!("{}.rate: is missing", side.key))?;
                Ok(BuiltLink { forward, reverse, impairment })
            })
            .collect()
    }

    /// The rates of each link until `end` in bits per second: towards the client, and the other way if that has a
    /// queue.
    pub fn link_rates(&self, end: f64) -> Vec<[Option<f64>; 2]> {
        let bps = |side: &Side<'_>| match side.trace.and_then(TraceFile::trace) {
            Some(trace) => trace.rate().bits_per_sec() as f64,
            None if side.steps.is_some() => self.bottleneck.mean_bps(0.0, end),
            None => side.rate.bits_per_sec() as f64,
        };
        let rate = |side: &Side<'_>| side.has_queue().then(|| bps(side));
        self.sides().iter().map(|(side, back)| [rate(side), back.as_ref().and_then(rate)]).collect()
    }

    /// All queue disciplines, with the rates of their links.
    pub fn qdiscs(&self) -> Vec<(QdiscConfig, Rate)> {
        let of = |side: &Side<'_>| side.qdisc.cloned().map(|qdisc| (qdisc, side.rate));
        let both = |(side, back): &(Side<'_>, Option<Side<'_>>)| [of(side), back.as_ref().and_then(of)];
        self.sides().iter().flat_map(both).flatten().collect()
    }

    /// What results call the queues: those of the bottleneck, of its other direction, and of the other links. Each
    /// entry is one link's direction.
    pub fn queue_names(&self) -> Vec<Vec<String>> {
        let mut names = Vec::new();
        for (place, (side, back)) in self.sides().into_iter().enumerate() {
            for (is_back, side) in [(false, Some(side)), (true, back)] {
                let Some(side) = side.filter(Side::has_queue) else { continue };
                let queues = side.qdisc.map_or(&[] as &[&str], QdiscConfig::queue_names);
                let name = |queue: &&str| match (place, is_back, queues.len()) {
                    (0, false, _) => (*queue).to_owned(),
                    (_, _, 1) => side.name.clone(),
                    _ => format!("{} {queue}", side.name),
                };
                names.push(queues.iter().map(name).collect());
            }
        }
        names
    }
}
