//! A small part of what the example `fq_accuracy` measures, with seeds of its own: how often `trains` are right, what
//! they cost beside the published detector, and how soon a change is noticed.
#![allow(dead_code, reason = "the example uses the rest")]

#[path = "../examples/fq_accuracy/cases.rs"]
mod cases;
#[path = "../examples/fq_accuracy/change.rs"]
mod change;
#[path = "../examples/fq_accuracy/hosts.rs"]
mod hosts;
#[path = "../examples/fq_accuracy/links.rs"]
mod links;
#[path = "../examples/fq_accuracy/run.rs"]
mod run;

use weir_core::Duration;
use weir_fq::Finding;

const fn truth(fair: bool) -> Finding {
    if fair { Finding::FairQueued } else { Finding::Shared }
}

#[test]
fn drawn_conditions_are_told_but_for_a_few() {
    hosts::register();
    let (mut unknown, mut wrong) = (0, Vec::new());
    for case in cases::drawn(150, 31, 0) {
        match run::run(&case, "trains").finding {
            Finding::Unknown => unknown += 1,
            finding if finding != truth(case.fair) => wrong.push(case.to_string()),
            _ => {}
        }
    }
    assert!(unknown <= 6 && wrong.len() <= 2, "{unknown} unknown, wrong: {wrong:#?}");
}

#[test]
fn the_grid_is_told_sooner_and_at_less_cost_than_by_losses() {
    let (mut times, mut lost) = ([Vec::new(), Vec::new()], [0, 0]);
    // Each fourth cell meets each rate, delay and buffer.
    for case in cases::grid(1).into_iter().filter(|case| !case.group.contains("fast")).step_by(4) {
        for (place, detector) in ["trains", "published"].into_iter().enumerate() {
            let found = run::run(&case, detector);
            assert!(place == 1 || found.finding == truth(case.fair), "{case}: {}", found.finding.word());
            times[place].push(found.took.expect("a verdict"));
            lost[place] += found.lost;
        }
    }
    let [trains, published] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    assert!(trains * 2 < published, "{trains} and {published}");
    assert!(lost[0] * 20 < lost[1], "{lost:?}");
}

#[test]
fn a_bottleneck_that_moves_is_noticed_within_seconds() {
    let (mut late, mut starved) = (0, 0);
    let cases = change::moves(12, 31);
    for case in &cases {
        let moved = change::run(case, "trains", "cubic-regain");
        let soon = |took: Option<Duration>| took.is_some_and(|took| took <= Duration::from_secs(3));
        assert_eq!(moved.found[0], Finding::FairQueued, "{case}");
        late += moved.switched.iter().filter(|took| !soon(**took)).count();
        starved += usize::from(moved.starved > Duration::from_secs(5));
        assert!(moved.shares.iter().all(|share| *share > 0.4), "{case}: {:?}", moved.shares);
    }
    assert!(late <= 2 && starved == 0, "{late} of {} late, {starved} starved", 2 * cases.len());
}

#[test]
fn aggregates_carry_what_they_should() {
    use weir_core::{Seed, Time};
    use weir_sim::{Aggregates, FlowSpec, HopSpec, Kind, Network};
    let ms = Duration::from_millis;
    let mut network = Network::new(Seed { seed: 3, run: 0 }, ());
    let rate: weir_core::Rate = "100mbit".parse().unwrap();
    let how = Aggregates { packets: 16, longest: ms(5), gap: ms(2) };
    let spec = HopSpec::new(rate, "pfifo limit 1000p".parse().unwrap(), ms(20)).unwrap();
    let hop = network.add_hop(spec.aggregates(how));
    network.add_flow(FlowSpec::new(Kind::Datagrams(rate), &[hop], ms(20)).unwrap()).unwrap();
    network.run_until(Time::ZERO + Duration::from_secs(20));
    let report = network.hop(hop);
    // Sixteen packets take 1.94 ms after 2 ms in the mean.
    let expected = 20.0 / (2e-3 + 16.0 * 1514.0 * 8.0 / 100e6) * 16.0;
    let share = report.packets as f64 / expected;
    assert!((0.95..1.05).contains(&share), "{share}");
    assert!(report.busy.as_secs_f64() / 20.0 < 0.52, "{}", report.busy);
}
