//! Means over the runs of each combination, and the table of them for a terminal.

use serde::Serialize;

use super::Sweep;
use super::means::{self, Mean, Number};
use super::record::{Link, Measured};
use weir_report::result::FlowResult;
use weir_report::spread::{Spread, mean};
use weir_report::summary::{render, table as plain_table};

/// Rows that a terminal gets; more are for a file.
const ROWS: usize = 60;
/// Flows that have a column each; of more only the sum is shown.
pub(super) const FLOWS: usize = 4;

/// One `[[flow]]` of a combination.
#[derive(Clone, Debug, Serialize)]
pub struct FlowSummary {
    /// What it is called; of several alike, their common name.
    pub flow: String,
    /// Payload rate in bit/s; of several alike, their mean.
    pub goodput_bps: Option<Spread>,
    /// Median of the sender's smoothed round-trip time.
    pub rtt_p50_ms: Option<Spread>,
    /// Flow completion time; only of runs in which all such flows completed.
    pub fct_s: Option<Spread>,
}

/// One combination of values.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The value of each key, in the order of the table.
    pub values: Vec<String>,
    /// The places of the values on their axes.
    #[serde(skip)]
    pub(super) places: Vec<usize>,
    /// One for each `[[flow]]`.
    pub flows: Vec<FlowSummary>,
    /// Payload rate of all flows together.
    pub goodput_bps: Option<Spread>,
    /// Mean sojourn time in the bottleneck.
    pub queue_delay_mean_ms: Option<Spread>,
    /// 99th percentile of the same.
    pub queue_delay_p99_ms: Option<Spread>,
    /// Share of the link's capacity that was used while anything was sent.
    pub link_utilisation: Option<Spread>,
    /// Jain's index of the flows' goodput.
    pub jain_index: Option<Spread>,
    /// All that `means.csv` has of it.
    #[serde(skip)]
    pub(super) means: Vec<Mean>,
    /// Cells that failed.
    pub failed_cells: usize,
    /// Whether there were several runs and all measured the same: nothing in the combination is random.
    pub identical_runs: bool,
}

/// Adds up the cells of one combination after the other.
pub(super) struct Books<'a> {
    sweep: &'a Sweep,
    pub(super) done: Vec<Summary>,
    runs: Vec<Run>,
    /// The first run of the combination, and how many others measured the same.
    first: Option<Measured>,
    alike: usize,
    failed: usize,
}

/// What is kept of a cell until its combination is complete.
struct Run {
    numbers: Vec<Number>,
    flows: Vec<Flow>,
    link: Link,
    goodput_bps: f64,
}

/// A `[[flow]]` in one run.
struct Flow {
    name: String,
    /// None of a `[[flow]]` of no flow.
    goodput_bps: Option<f64>,
    rtt_p50_ms: Option<f64>,
    fct_s: Option<f64>,
}

impl Run {
    fn of(measured: &Measured) -> Self {
        let flow = |group: usize| {
            let alike: Vec<&FlowResult> = measured.flows_of(group).collect();
            let all = |value: fn(&FlowResult) -> Option<f64>| {
                alike.iter().filter_map(|flow| value(flow)).collect::<Vec<_>>()
            };
            let times = all(|flow| flow.fct_s);
            Flow {
                name: measured.groups[group].name.clone(),
                goodput_bps: mean(&all(|flow| Some(flow.goodput_bps))),
                rtt_p50_ms: mean(&all(|flow| flow.rtt_p50_ms)),
                fct_s: mean(&times).filter(|_| times.len() == alike.len()),
            }
        };
        Self {
            numbers: means::numbers(measured),
            flows: (0..measured.groups.len()).map(flow).collect(),
            link: measured.link,
            goodput_bps: measured.flows.iter().map(|flow| flow.goodput_bps).sum(),
        }
    }
}

impl<'a> Books<'a> {
    pub(super) fn new(sweep: &'a Sweep) -> Self {
        let done = Vec::with_capacity(sweep.combinations());
        Self { sweep, done, runs: Vec::new(), first: None, alike: 0, failed: 0 }
    }

    pub(super) fn measured(&mut self, measured: &Measured) {
        match &self.first {
            Some(first) => self.alike += usize::from(first == measured),
            None => self.first = Some(measured.clone()),
        }
        self.runs.push(Run::of(measured));
    }

    pub(super) fn failed(&mut self) {
        self.failed += 1;
    }

    /// All cells of the combination have been reported.
    pub(super) fn close(&mut self, combination: usize) {
        let runs = std::mem::take(&mut self.runs);
        let spread = |value: &dyn Fn(&Run) -> Option<f64>| {
            Spread::of(&runs.iter().filter_map(value).collect::<Vec<_>>())
        };
        let numbers: Vec<Vec<Number>> = runs.iter().map(|run| run.numbers.clone()).collect();
        let flow = |index: usize| {
            let of = |value: fn(&Flow) -> Option<f64>| spread(&|run| run.flows.get(index).and_then(value));
            FlowSummary {
                flow: runs[0].flows[index].name.clone(),
                goodput_bps: of(|flow| flow.goodput_bps),
                rtt_p50_ms: of(|flow| flow.rtt_p50_ms),
                fct_s: of(|flow| flow.fct_s),
            }
        };
        self.done.push(Summary {
            values: self.sweep.chosen(combination).map(|(_, value)| value.label.clone()).collect(),
            places: self.sweep.places(combination),
            flows: (0..runs.first().map_or(0, |run| run.flows.len())).map(flow).collect(),
            goodput_bps: spread(&|run| Some(run.goodput_bps)),
            queue_delay_mean_ms: spread(&|run| run.link.delay_mean_ms),
            queue_delay_p99_ms: spread(&|run| run.link.delay_p99_ms),
            link_utilisation: spread(&|run| run.link.utilisation),
            jain_index: spread(&|run| run.link.jain),
            means: means::over(&numbers),
            failed_cells: std::mem::take(&mut self.failed),
            identical_runs: runs.len() > 1 && self.alike + 1 == runs.len(),
        });
        (self.first, self.alike) = (None, 0);
    }
}

impl Summary {
    /// All that `means.csv` has of it: each number's owner, its name, and its mean and spread over the runs.
    pub fn means(&self) -> impl Iterator<Item = (&str, &'static str, Spread)> {
        self.means.iter().map(|mean| {
            // Identical runs are one.
            let spread = self.spread(Some(mean.spread)).unwrap_or(mean.spread);
            (mean.of.as_str(), mean.measure, spread)
        })
    }

    /// A spread of its runs; of identical ones as of one, for there is none.
    pub(super) fn spread(&self, spread: Option<Spread>) -> Option<Spread> {
        spread.map(|spread| if self.identical_runs { Spread { runs: 1, ..spread } } else { spread })
    }
}

/// What there is to say of the runs of each combination, beside how many they are; nothing where each gave other
/// numbers.
pub(super) fn identical(summaries: &[Summary]) -> Option<&'static str> {
    let identical = summaries.iter().filter(|summary| summary.identical_runs).count();
    match identical {
        0 => None,
        all if all == summaries.len() => Some(
            "The runs of each combination are identical: nothing in them is random, and repeat = 1 would do.",
        ),
        _ => Some("Where no deviation is given all runs are identical: nothing in them is random."),
    }
}

/// What each `[[flow]]` is called in all of `summaries`: its name where it has the same in all, else its number.
pub(super) fn flow_names(summaries: &[Summary]) -> Vec<String> {
    let most = summaries.iter().map(|summary| summary.flows.len()).max().unwrap_or(0);
    let name = |index: usize| {
        let flows = summaries.iter().filter_map(|summary| summary.flows.get(index));
        let mut names = flows.map(|flow| flow.flow.as_str());
        let first = names.next().unwrap_or_default();
        if names.all(|name| name == first) { first.to_owned() } else { format!("flow {index}") }
    };
    (0..most).map(name).collect()
}

/// A mean, and half its confidence interval where there were several runs.
pub(super) fn written(spread: Option<Spread>, scale: f64, unit: &str) -> String {
    match spread {
        None => "-".to_owned(),
        Some(Spread { runs: 1, mean, .. }) => format!("{:.2} {unit}", mean * scale),
        Some(Spread { mean, ci95, .. }) => {
            format!("{:.2} \u{b1} {:.2} {unit}", mean * scale, ci95 * scale)
        }
    }
}

/// A row per combination: means, and how much the runs spread.
pub(super) fn table(sweep: &Sweep, summaries: &[Summary]) -> String {
    let names = flow_names(summaries);
    let each = names.len() <= FLOWS;
    let mut header: Vec<String> = sweep.keys().into_iter().map(|key| key.key).collect();
    match each {
        true => header.extend(names.iter().map(|name| format!("goodput {name}"))),
        false => header.extend(["goodput of all".to_owned(), "Jain".to_owned()]),
    }
    header.extend(["queue delay", "delay p99", "link used"].map(str::to_owned));
    let failures = summaries.iter().any(|summary| summary.failed_cells > 0);
    if failures {
        header.push("failed".to_owned());
    }
    let mut out = plain_table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for summary in summaries.iter().take(ROWS) {
        let mut row = summary.values.clone();
        let show = |spread, scale, unit| written(summary.spread(spread), scale, unit);
        if each {
            let flow = |index: usize| summary.flows.get(index).and_then(|flow| flow.goodput_bps);
            row.extend((0..names.len()).map(|index| show(flow(index), 1e-6, "Mbit/s")));
        } else {
            row.push(show(summary.goodput_bps, 1e-6, "Mbit/s"));
            row.push(show(summary.jain_index, 1.0, "").trim_end().to_owned());
        }
        row.push(show(summary.queue_delay_mean_ms, 1.0, "ms"));
        row.push(show(summary.queue_delay_p99_ms, 1.0, "ms"));
        row.push(
            summary
                .link_utilisation
                .map_or_else(|| "-".to_owned(), |used| format!("{:.1} %", used.mean * 100.0)),
        );
        if failures {
            row.push(summary.failed_cells.to_string());
        }
        out.add_row(row);
    }
    let mut text = render(&out);
    if summaries.len() > ROWS {
        text += &format!("\n... and {} more in the table", summaries.len() - ROWS);
    }
    if sweep.repeat() > 1 {
        if !summaries.iter().all(|summary| summary.identical_runs) {
            text +=
                &format!("\nMeans over {} runs, \u{b1} half the 95 % confidence interval.", sweep.repeat());
        }
        if let Some(identical) = identical(summaries) {
            text += &format!("\n{identical}");
        }
    }
    text
}
