//! A scenario: a bottleneck, flows and what to measure, as TOML with units.
//!
//! The same file runs in every world. Unknown keys are errors that name the nearest known one; everything that can be
//! wrong is found before anything runs.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod bottleneck;
mod bounds;
mod flow;
mod hosts;
mod impairment;
mod key;
mod path;
mod refusal;
pub mod toml_file;
pub mod toml_place;
mod workload;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_core::{Duration, Seed, words};
use weir_law::{MainSignal, Params};
use weir_qdisc::QdiscConfig;

use weir_testbed::host::MAX_ADDRESSES;

pub use hosts::Hosts;
pub use key::Key;
use key::{Table, Worlds, keys};
pub use refusal::Refusal;
use toml_file::FileError;
pub use workload::{Kind as WorkloadKind, Sizes, Times, Workload};

pub use bottleneck::{Bottleneck, RateStep};
pub use flow::{Direction, Flow, Pattern, Remark};
pub use impairment::{Jitter, ReadTrace, Reorder, Share, TraceFile, read_trace};
pub use path::{Link, Reverse};

/// Bytes on the wire of a full packet of a scenario's hosts, whose MTU is Ethernet's.
pub const FULL_PACKET: u64 = weir_core::FULL_PACKET as u64;

/// A complete scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What reports call it.
    #[serde(default)]
    pub name: String,
    /// With the run number, what all random draws come from. Stored with the results. On real packets these are the
    /// draws of detectors and controllers; figures draw their mixes of flows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// The responsiveness law that watches it: `preset`, and any parameter that differs from the preset's. Unless
    /// `main_signal` is given, it is both with a queue for flows that answer to marks, else ECN if every queue marks and
    /// loss otherwise (CRQ section III-B.1).
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub law: toml::Table,
    /// Links besides the bottleneck, for flows that name them in their path.
    #[serde(rename = "link", default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The flows, in order.
    #[serde(rename = "flow", default)]
    pub flows: Vec<Flow>,
    /// The workloads, in order. World `sim` only.
    #[serde(rename = "workload", default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<Workload>,
    /// What to measure.
    #[serde(default)]
    pub measure: Measure,
}

keys! {
    /// What to measure and for how long.
    #[serde(default)]
    pub struct Measure;
    /// All defaults.
    pub fn new();

    /// Width of a bin in `queue_series.csv` and `flow_series.csv`.
    interval: Duration = Duration::from_millis(50)
        => Key::of("time").least_time(Duration::from_millis(1)).usual("`50ms`");

    /// The run ends here at the latest, whatever is unfinished.
    timeout: Duration = Duration::from_secs(300) => Key::of("time").above(0)
        .because("; give the longest that the run may take").usual("`300s`");

    /// Totals, rates and quantiles count what happens from this time on; series over time stay whole
    /// ([measuring window](results.md#measuring-window)).
    #[serde(skip_serializing_if = "is_zero")]
    from: Duration = Duration::ZERO => Key::of("time").usual("`0`");

    /// They count what happens before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Duration> = None => Key::of("time above `from`").usual("the end of the run");

    /// Write every packet's headers, as it left the bottleneck, to `packets.pcapng`; `--pcap` does the same.
    pcap: bool = false => Key::of("true or false").usual("false");

    /// Write a line of text for each thing that happens to a packet to `packets.tr`; `--trace` does the same.
    #[serde(skip_serializing_if = "is_off")]
    trace: bool = false => Key::of("true or false").usual("false").sim();
}

impl Default for Measure {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_off(flag: &bool) -> bool {
    !flag
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(time: &Duration) -> bool {
    *time == Duration::ZERO
}

impl Measure {
    /// Whether totals count less than the whole run.
    pub fn has_window(&self) -> bool {
        self.from > Duration::ZERO || self.to.is_some()
    }

    /// The time that totals count of a run that ends at `end_s`, in seconds: from, to. Empty if the run ended before it
    /// began.
    pub fn window_s(&self, end_s: f64) -> (f64, f64) {
        let from = self.from.as_secs_f64();
        (from, self.to.map_or(end_s, |to| to.as_secs_f64().min(end_s)).max(from))
    }

    /// The same for people, `from 5s to the end`; none if totals count the whole run.
    pub fn window_words(&self) -> Option<String> {
        let to = self.to.map_or("the end".to_owned(), |to| to.to_string());
        self.has_window().then(|| format!("from {} to {to}", self.from))
    }

    fn check(&self) -> Result<(), Refusal> {
        self.check_ranges()?;
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        if self.from >= self.timeout {
            return fail("from", format!("{} is when the run has ended; raise measure.timeout", self.from));
        }
        match self.to {
            Some(to) if to <= self.from => {
                fail("to", format!("must be later than from, which is {}", self.from))
            }
            Some(to) if to > self.timeout => {
                fail("to", format!("{to} is after the end of the run; raise measure.timeout"))
            }
            _ => Ok(()),
        }
    }
}

fn half() -> f64 {
    0.5
}

fn one() -> u64 {
    1
}

/// The flows of a `[[flow]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What tables call it: no two have the same name.
    pub name: String,
    /// Their places among [`Scenario::expanded_flows`], and those of light sub-flows.
    pub rows: Range<usize>,
    /// 2 if each has its light sub-flow behind it, else 1.
    pub step: usize,
}

impl Group {
    /// The places of the flows alone, without light sub-flows.
    pub fn flows(&self) -> impl Iterator<Item = usize> + use<> {
        self.rows.clone().step_by(self.step)
    }
}

/// A name, with the first number behind it that makes it none of those taken.
fn distinct(taken: &mut BTreeSet<String>, name: String) -> String {
    let numbered = (2..).map(|number| format!("{name} #{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or(name);
    taken.insert(free.clone());
    free
}

/// A scenario that cannot run; the message names the place and the remedy.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file cannot be read, or is not the TOML of a scenario.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value makes no sense.
    #[error("{path}: line {line}: {key}: {message}")]
    Value {
        /// The file.
        path: String,
        /// The line of the value, or of what lacks it, counted from 1.
        line: usize,
        /// The key that holds the value.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

impl Scenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// If the file cannot be read, is not a scenario, or asks for something that cannot be.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        Ok(Self::parse(&toml_file::read(path)?, &name)?.or_called(path))
    }

    /// Reads a scenario file, changes it as the command line says, and has `check` look at it, such as whether a world
    /// has what it asks for.
    ///
    /// # Errors
    /// As [`load`](Self::load), and what `check` refuses, with its line.
    pub fn load_with(
        path: &Path,
        change: impl FnOnce(&mut Self),
        check: impl FnOnce(&Self) -> Result<(), Refusal>,
    ) -> Result<Self, ScenarioError> {
        Self::parse_with(&toml_file::read(path)?, path, change, check)
    }

    /// The same of a text; `path` is what errors call it and the scenario is called after, and traces are looked for
    /// from there.
    ///
    /// # Errors
    /// As [`load_with`](Self::load_with).
    pub fn parse_with(
        text: &str,
        path: &Path,
        change: impl FnOnce(&mut Self),
        check: impl FnOnce(&Self) -> Result<(), Refusal>,
    ) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let mut scenario = Self::parse(text, &name)?.or_called(path);
        change(&mut scenario);
        check(&scenario).map_err(|wrong| scenario.wrong(text, &name, wrong))?;
        Ok(scenario)
    }

    /// Reads what its traces say, from `folder`, and fills in rates that follow from others.
    ///
    /// # Errors
    /// The key of a trace that cannot be read.
    pub fn complete(&mut self, folder: &Path) -> Result<(), Refusal> {
        self.complete_by(folder, &read_trace)
    }

    /// As [`complete`](Self::complete), with the texts of traces that `read` gives.
    ///
    /// # Errors
    /// The key of a trace that cannot be read.
    pub fn complete_by(&mut self, folder: &Path, read: ReadTrace<'_>) -> Result<(), Refusal> {
        self.read_traces(folder, read)?;
        let end = self.end();
        self.bottleneck.take_mean_rate(end);
        Ok(())
    }

    /// Itself, called as its file unless it has a name.
    fn or_called(mut self, path: &Path) -> Self {
        if self.name.is_empty() {
            self.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        self
    }

    /// The error about a key, with the line of `text` where it is; `path` is what it calls the file.
    pub fn wrong(&self, text: &str, path: &str, Refusal { key, message }: Refusal) -> ScenarioError {
        let line = toml_place::line_of(text, &key);
        ScenarioError::Value { path: path.to_owned(), line, key: self.said(&key), message }
    }

    /// Reads and checks a scenario; `path` is what errors call it, and traces are looked for from there.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: &str, path: &str) -> Result<Self, ScenarioError> {
        let mut scenario: Self = toml_file::parse(text, path)?;
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        scenario
            .complete(folder)
            .and_then(|()| scenario.check())
            .map_err(|wrong| scenario.wrong(text, path, wrong))?;
        Ok(scenario)
    }

    /// How errors of a file name a key of [`check`](Self::check): `flow.0.rate` as `flow 1 ('UDP'): rate`.
    pub fn said(&self, key: &str) -> String {
        match self.named(key) {
            Some((kind, index, label, inside)) => format!("{kind} {} ('{label}'){inside}", index + 1),
            None => key.to_owned(),
        }
    }

    /// How errors of a run name it: `flow 'UDP': rate`.
    pub fn said_of_run(&self, key: &str) -> String {
        match self.named(key) {
            Some((kind, _, label, inside)) => format!("{kind} '{label}'{inside}"),
            None => key.to_owned(),
        }
    }

    /// What a key of a flow, link or workload is of, and what follows.
    fn named<'k>(&self, key: &'k str) -> Option<(&'k str, usize, String, String)> {
        let mut steps = key.splitn(3, '.');
        let (kind, index) = (steps.next()?, steps.next()?.parse::<usize>().ok()?);
        let label = match kind {
            "flow" => self.flows.get(index)?.label(),
            "link" => self.links.get(index)?.name.clone(),
            _ => self.workloads.get(index)?.label().to_owned(),
        };
        Some((kind, index, label, steps.next().map_or_else(String::new, |key| format!(": {key}"))))
    }

    /// The signal whose verdict chooses the queue.
    pub fn main_signal(&self) -> MainSignal {
        self.law_params().map(|params| params.main_signal).unwrap_or_default()
    }

    /// The parameters of the law.
    ///
    /// # Errors
    /// If `law` names a parameter that does not exist or gives it a value that it cannot have.
    pub fn law_params(&self) -> Result<Params, String> {
        let given = |key| self.law.contains_key(key);
        let table = self.law.clone();
        let mut params: Params =
            table.try_into().map_err(|error: toml::de::Error| with_nearest_key(error.message()))?;
        let qdisc = &self.bottleneck.qdisc;
        if !given("main_signal") {
            params.main_signal = match qdisc {
                QdiscConfig::Crq(keys) if keys.ecn_responsive.is_some() => MainSignal::Both,
                _ if qdisc.marks() => MainSignal::Ecn,
                _ => params.main_signal,
            };
        }
        if !given("reset_on_switch") && !matches!(qdisc, QdiscConfig::Crq(_)) {
            // With one queue there is no other to switch to, so nothing is forgotten.
            params.reset_on_switch = false;
        }
        Ok(params)
    }

    /// The flows of each `[[flow]]`, in order.
    pub fn groups(&self) -> Vec<Group> {
        let (mut groups, mut taken, mut next) = (Vec::new(), BTreeSet::new(), 0);
        for flow in &self.flows {
            let step = if flow.detector.is_empty() { 1 } else { 2 };
            let rows = next..next + step * flow.count as usize;
            next = rows.end;
            groups.push(Group { name: distinct(&mut taken, flow.label()), rows, step });
        }
        groups
    }

    /// The flows one by one: `count` alike become `name 1`, `name 2`... A controller that needs ECN has it.
    pub fn expanded_flows(&self) -> Vec<Flow> {
        let (mut flows, mut taken) = (Vec::new(), BTreeSet::new());
        for (flow, Group { name: base, .. }) in self.flows.iter().zip(self.groups()) {
            for index in 1..=flow.count {
                let name = if flow.count == 1 { base.clone() } else { format!("{base} {index}") };
                let name = distinct(&mut taken, name);
                let ecn = flow.ecn || flow.needs_ecn();
                let light = format!("{name} light");
                flows.push(Flow { name, count: 1, ecn, ..flow.clone() });
                if !flow.detector.is_empty() {
                    let (detector, fair) = (String::new(), String::new());
                    let (bytes, duration, again) = (None, None, None);
                    let light = Flow {
                        name: distinct(&mut taken, light),
                        count: 1,
                        detector,
                        fair,
                        again,
                        bytes,
                        duration,
                        ..flow.clone()
                    };
                    flows.push(light);
                }
            }
        }
        flows
    }

    /// The flows one by one as they set out in a run of this seed: where starts are drawn, each flow draws its own from
    /// a stream of its name, so that another flow changes none of them.
    pub fn flows_of_run(&self, seed: Seed) -> Vec<Flow> {
        let mut flows = self.expanded_flows();
        let mut of_detector = None;
        for flow in &mut flows {
            if let Some(start) = of_detector.take() {
                // A light sub-flow goes with its heavy one.
                flow.start = start;
            } else if let Some(spread) = flow.start_spread {
                let mut stream = seed.stream(&format!("start of {}", flow.name));
                flow.start = flow.start + Duration::from_nanos(stream.below(spread.as_nanos()));
            }
            of_detector = (!flow.detector.is_empty()).then_some(flow.start);
        }
        flows
    }

    /// Whether it can run in some world; otherwise the key, as [`said`](Self::said) takes it, and what is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        let bottleneck = &self.bottleneck;
        self.check_bounds()?;
        bottleneck.check().map_err(|refusal| refusal.inside("bottleneck"))?;
        if let Err(error) = bottleneck.qdisc.build(&self.build_context(0)) {
            return fail("bottleneck.qdisc", error.to_string());
        }
        if let Err(message) = self.law_params() {
            return fail("law", message);
        }
        self.measure.check().map_err(|refusal| refusal.inside("measure"))?;
        if self.flows.iter().all(|flow| flow.count == 0) && self.workloads.is_empty() {
            return fail("flow", "a scenario needs at least one [[flow]] or [[workload]]".to_owned());
        }
        let flows: u64 = self.flows.iter().map(|flow| u64::from(flow.count)).sum();
        if flows > 2_000 {
            return fail("flow.count", format!("{flows} flows; at most 2000 can run on one host"));
        }
        for (key, count) in ["flow.server", "flow.client"].into_iter().zip(Hosts::of(&self.flows).counts()) {
            if count > MAX_ADDRESSES {
                return fail(key, format!("{count} hosts; at most {MAX_ADDRESSES} can be distinguished"));
            }
        }
        if let Some(flow) = self.flows.iter().find(|flow| flow.latest_start() >= self.measure.timeout) {
            let at = flow.latest_start();
            let message = format!("flow '{}' starts at {at}, when the run has ended", flow.label());
            return fail("measure.timeout", message);
        }
        for (index, flow) in self.flows.iter().enumerate() {
            flow.check().map_err(|refusal| refusal.inside(&format!("flow.{index}")))?;
        }
        self.check_workloads()?;
        self.check_paths()?;
        if !self.has_end() {
            let message = if self.workloads.is_empty() {
                "no flow has 'bytes' or 'duration', so the run would only end at its timeout"
            } else {
                "no flow has 'bytes' or 'duration' and no workload 'duration' or 'requests', so the run would only end at \
                 its timeout"
            };
            return fail("flow", message.to_owned());
        }
        Ok(())
    }

    /// Whether anything in it comes to an end by itself.
    pub fn has_end(&self) -> bool {
        self.flows.iter().any(|flow| flow.count > 0 && (flow.bytes.is_some() || flow.duration.is_some()))
            || self.workloads.iter().any(Workload::has_end)
    }

    /// When it is over at the latest, if all goes as its times say: what has no duration may need all of the timeout.
    pub fn end(&self) -> Duration {
        let timeout = self.measure.timeout;
        let some = self.flows.iter().filter(|flow| flow.count > 0);
        let flows = some.filter_map(|flow| match (flow.bytes, flow.duration) {
            (Some(_), _) => Some(timeout),
            (None, duration) => duration.map(|duration| flow.latest_start() + duration),
        });
        let workloads = self.workloads.iter().filter(|workload| workload.has_end());
        let workloads =
            workloads.map(|workload| workload.duration.map_or(timeout, |duration| workload.start + duration));
        flows.chain(workloads).max().map_or(timeout, |end| end.min(timeout))
    }

    /// What only world `sim` can do of what is asked for: the key, as [`said`](Self::said) takes it.
    pub fn needs_simulator(&self) -> Option<String> {
        let of = |table: &str, key: Option<&str>| key.map(|key| format!("{table}.{key}"));
        let first = |table: &str, some: bool| some.then(|| format!("{table}.0"));
        let mut flows = self.flows.iter().enumerate();
        of("bottleneck", self.bottleneck.given_of(Worlds::Sim))
            .or_else(|| first("link", !self.links.is_empty()))
            .or_else(|| {
                flows.find_map(|(index, flow)| of(&format!("flow.{index}"), flow.given_of(Worlds::Sim)))
            })
            .or_else(|| first("workload", !self.workloads.is_empty()))
            .or_else(|| of("measure", self.measure.given_of(Worlds::Sim)))
    }

    /// What only the kernel's queues can do of what is asked for, likewise.
    pub fn needs_kernel(&self) -> Option<String> {
        self.bottleneck.given_of(Worlds::Kernel).map(|key| format!("bottleneck.{key}"))
    }

    /// What a queue discipline must know to be built for the run of that number.
    pub fn build_context(&self, run: u64) -> weir_qdisc::config::BuildContext {
        weir_qdisc::config::BuildContext {
            rate: self.bottleneck.rate,
            rtt: self.bottleneck.rtt,
            mtu: weir_core::FULL_PACKET,
            seed: weir_core::Seed { seed: self.seed, run },
        }
    }
}

/// The keys of each table of a scenario, as the reference page lists them: the table's name, and the page's table in
/// Markdown.
pub fn reference() -> Vec<(&'static str, String)> {
    vec![
        ("bottleneck", key::page(Bottleneck::KEYS)),
        ("reverse", key::page(Reverse::KEYS)),
        ("link", key::page(Link::KEYS)),
        ("flow", key::page(Flow::KEYS)),
        ("workload", key::page(Workload::KEYS)),
        ("measure", key::page(Measure::KEYS)),
    ]
}

/// Adds "did you mean" to serde's "unknown field `x`, expected one of `a`, `b`", if one of them is near.
pub fn with_nearest_key(message: &str) -> String {
    let message = message.trim_end();
    let near = words::unknown(message).and_then(|(word, known)| words::nearest(word, known));
    match near {
        Some(near) => format!("{message}\ndid you mean `{near}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
