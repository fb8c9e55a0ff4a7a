//! What a run says of each of its flows: the truth, the verdict, and how long it took.

use weir_law::{MainSignal, Preset, Verdict};
use weir_report::result::RunResult;
use weir_scenario::{Pattern, Scenario};
use weir_testbed::traffic::{Stack, catalogue_name};

use crate::mix::Mix;
use crate::policy::Policy;
use crate::truth::Class;

/// Packets that a flow must have sent to count.
const LEAST_PACKETS: u64 = 200;
/// Of an equal share of the link: who does not answer and offers less harms nobody.
const LEAST_SHARE: f64 = 0.7;

/// What was run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Names the run.
    pub name: String,
    /// What runs.
    pub scenario: Scenario,
    /// What each flow is.
    pub truths: Vec<Class>,
    /// The queue in words.
    pub queue: String,
    /// The law's preset.
    pub preset: &'static str,
    /// Only so many flows, from the first on, are looked at; the others are there to share the link.
    pub looked_at: usize,
}

/// A flow of a run, as it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its place among the flows of the scenario.
    pub index: usize,
    /// The class in tables: as the truth, and `meek` of those that do not answer and ask for less than a share.
    pub class: &'static str,
    /// The verdict that is right.
    pub right: Verdict,
    /// By which signal it is judged: `loss` or `ecn`.
    pub signal: &'static str,
    /// By its plain name.
    pub controller: String,
    /// `QUIC`, `TCP one-way` or `TCP two-way`.
    pub transport: &'static str,
    /// At the end.
    pub verdict: Verdict,
    /// Whether it ever had one.
    pub is_ever_judged: bool,
    /// From the first signal to the first right verdict, in median round trips of the flow.
    pub round_trips: Option<f64>,
    /// Share of the time with a verdict in which it was right.
    pub right_time: Option<f64>,
}

impl Seen {
    /// Whether the verdict at the end is right.
    pub fn is_right(&self) -> bool {
        self.verdict == self.right
    }
}

fn verdict(word: &str) -> Verdict {
    [Verdict::Responsive, Verdict::Unresponsive]
        .into_iter()
        .find(|known| known.name() == word)
        .unwrap_or_default()
}

/// The flows of a run that count: 200 packets or more, and at least one signal of the kind by which the flow is judged.
pub fn of_run(case: &Case, result: &RunResult, policy: &Policy) -> Vec<Seen> {
    let bottleneck = &case.scenario.bottleneck;
    let fair = bottleneck.rate.bits_per_sec() as f64 / case.truths.len().max(1) as f64;
    let rows = result.flows.iter().zip(&result.standings);
    let flows = case.scenario.flows.iter().zip(&case.truths).take(case.looked_at);
    flows
        .zip(rows)
        .enumerate()
        .filter_map(|(index, ((flow, truth), (row, standing)))| {
            let by_marks = result.meta.law.main_signal == MainSignal::Ecn && standing.ecn_capable;
            let (signals, first) = match by_marks {
                true => (row.marked, standing.first_mark_s),
                false => (row.dropped, standing.first_loss_s),
            };
            let signal = if by_marks { "ecn" } else { "loss" };
            // Without the parameters that may stand behind it.
            let named = catalogue_name(&flow.controller);
            let controller = named.split_whitespace().next().unwrap_or(named).to_owned();
            let right = truth.right().or_else(|| policy.right(&controller, signal))?;
            if standing.segments < LEAST_PACKETS || signals == 0 {
                return None;
            }
            let life = flow.duration.unwrap_or_default().as_secs_f64().max(1e-3);
            let offered = standing.arrived_bytes as f64 * 8.0 / life / fair;
            let never_answers = matches!(truth, Class::Unresponsive | Class::Adversary);
            let is_meek = never_answers && offered < LEAST_SHARE;
            let (first_right, times) = match right {
                Verdict::Responsive => {
                    (standing.first_responsive_s, [standing.responsive_s, standing.unresponsive_s])
                }
                _ => (standing.first_unresponsive_s, [standing.unresponsive_s, standing.responsive_s]),
            };
            let round_trip = row.rtt_p50_ms.map(|millis| millis / 1e3).filter(|seconds| *seconds > 0.0);
            let took = first_right.zip(first).map(|(right, first)| (right - first).max(0.0));
            let judged = times[0] + times[1];
            Some(Seen {
                index,
                class: if is_meek { "meek" } else { truth.name() },
                right,
                signal,
                controller,
                transport: match (flow.stack, flow.pattern) {
                    (Stack::Quic, _) => "QUIC",
                    (Stack::Tcp, Pattern::OneWay) => "TCP one-way",
                    (Stack::Tcp, Pattern::TwoWay) => "TCP two-way",
                    (Stack::Udp, _) => "UDP",
                },
                verdict: verdict(&standing.verdict),
                is_ever_judged: standing.first_responsive_s.or(standing.first_unresponsive_s).is_some(),
                round_trips: took.zip(round_trip).map(|(took, round_trip)| took / round_trip),
                right_time: (judged > 0.0).then(|| times[0] / judged),
            })
        })
        .collect()
}

/// A flow with its place in tables.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The law's preset.
    pub preset: &'static str,
    /// The queue in words.
    pub queue: String,
    /// Which run it was in.
    pub run: usize,
    /// What became of it.
    pub seen: Seen,
}

/// The word of a preset in tables.
pub fn word(preset: Preset) -> &'static str {
    match preset {
        Preset::Paper => "paper",
        Preset::Comsys => "comsys",
        Preset::Robust => "robust",
    }
}

/// A mix under a preset as a case.
pub fn mixed(mix: Mix, preset: Preset) -> Case {
    Case {
        name: format!("{}, {}", mix.scenario.name, word(preset)),
        looked_at: mix.truths.len(),
        truths: mix.truths,
        queue: mix.queue.to_owned(),
        preset: word(preset),
        scenario: mix.scenario,
    }
}
