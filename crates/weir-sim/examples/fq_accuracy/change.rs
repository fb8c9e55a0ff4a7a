//! A bottleneck that moves: from a fair queue to a shared one with a Cubic in it, and back.
//!
//! Two links in a row: a shared one and behind it a fair one. The shared one is four times as fast at first, then as
//! fast as the fair one or slower, then as at first. So only one of them has a queue at a time.

use std::fmt::{self, Write};

use weir_cc::Setup;
use weir_core::{Duration, Rate, Seed, Time};
use weir_fq::{Finding, Shared};
use weir_sim::{Amount, EndOptions, FlowId, FlowSpec, HopSpec, Network, RateSteps};

use crate::cases::logarithmic;
use crate::run::{HEADERS, MSS, connection};

/// A bottleneck that moves.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    fair: String,
    rate: Rate,
    /// Of the shared link while it is the bottleneck.
    narrow: Rate,
    rtt: Duration,
    buffer: u64,
    /// Whether the Cubic is there all the time, over both links, or only while the shared one is narrow.
    stays: bool,
    /// Until when the fair queue is the bottleneck, and until when the shared one.
    changes: [Duration; 2],
    seed: Seed,
}

/// How long it goes on after it is back.
const AFTER: Duration = Duration::from_secs(15);
/// Packets that hold a train also where the shared link is wide.
const LEAST_BUFFER: f64 = 40.0;
/// A look at what was delivered.
const STEP: Duration = Duration::from_millis(100);
/// A rate is taken over so many of them.
const WINDOW: usize = 10;

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fair, rate, narrow, rtt, buffer, stays, changes, seed } = self;
        let cubic = if *stays { "Cubic stays" } else { "Cubic comes" };
        write!(
            f,
            "{fair} {rate}, then pfifo {buffer} packets {narrow}, {rtt}, {cubic}, at {} and {}, run {}",
            changes[0], changes[1], seed.run
        )
    }
}

/// So many, with parameters and times drawn at random.
pub(crate) fn moves(count: u64, seed: u64) -> Vec<Move> {
    (0..count).map(|run| draw(Seed { seed, run })).collect()
}

fn draw(seed: Seed) -> Move {
    let mut random = seed.stream("move");
    let random = &mut random;
    let rate = Rate::from_bits_per_sec(logarithmic(random, 5e6, 50e6) as u64);
    let rtt = Duration::from_nanos(logarithmic(random, 10e6, 100e6) as u64);
    let narrow = rate.scale(0.5 + random.unit() / 2.0);
    let product = narrow.bytes_in(rtt).0 as f64 / 1514.0;
    let buffer = (product * logarithmic(random, 0.5, 2.0)).max(LEAST_BUFFER) as u64;
    let fair = ["fq nofast_path flow_limit", "fq flow_limit", "drr limit", "fq_codel", "cake"];
    let fair = fair[random.below(5) as usize];
    let limit = 50 + random.below(200);
    let fair = if fair.ends_with("limit") { format!("{fair} {limit}p") } else { fair.to_owned() };
    let ms = |random: &mut weir_core::Random| Duration::from_millis(15_000 + random.below(5000));
    let first = ms(random);
    let changes = [first, first + ms(random)];
    Move { fair, rate, narrow, rtt, buffer, stays: random.below(2) == 1, changes, seed }
}

/// What a connection came to.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    /// What it had found when the bottleneck moved, and when it moved back.
    pub(crate) found: [Finding; 2],
    /// From the change until it went by the controller for what it then was; none if it did not.
    pub(crate) switched: [Option<Duration>; 2],
    /// What arrived while each was the bottleneck, of what would have been fair.
    pub(crate) shares: [f64; 3],
    /// The longest time in the shared queue with less than half of what is fair.
    pub(crate) starved: Duration,
    /// The Cubic's part of what is fair meanwhile.
    pub(crate) cubic: f64,
}

/// Runs a connection with `detector` and `controller` in the shared queue, or a plain Cubic without a detector if that is
/// "cubic".
pub(crate) fn run(case: &Move, detector: &str, controller: &str) -> Moved {
    let Move { rate, narrow, rtt, buffer, stays, changes, seed, .. } = case.clone();
    let mut network = Network::new(seed, ());
    let wide = rate.scale(4.0);
    let steps =
        RateSteps::new(&[(wide, Some(changes[0])), (narrow, Some(changes[1] - changes[0])), (wide, None)]);
    let queue = format!("pfifo limit {buffer}p").parse().expect("a queue");
    let shared_link = HopSpec::new(narrow, queue, rtt).expect("a link").steps(steps.expect("rates"));
    let shared_link = network.add_hop(shared_link);
    let queue = case.fair.parse().unwrap_or_else(|error| panic!("{}: {error}", case.fair));
    let fair_link = network.add_hop(HopSpec::new(rate, queue, rtt).expect("a link"));
    let path = [shared_link, fair_link];
    let spec = |kind, path: &[_]| FlowSpec::new(kind, path, rtt).expect("a flow");
    let tcp = weir_sim::Kind::Tcp("cubic".to_owned());
    let cubic = if stays {
        spec(tcp, &path).start(Duration::from_millis(seed.run % 10 * 100))
    } else {
        spec(tcp, &path[..1]).start(changes[0]).amount(Amount::Time(changes[1] - changes[0]))
    };
    let cubic = network.add_flow(cubic.hosts([2, 2])).expect("a flow");
    let start = Duration::from_secs(1);
    let ends = EndOptions { min_burst: 1, ..EndOptions::default() };
    let quic = |name: &str| {
        let quic = weir_sim::Kind::Quic(name.to_owned());
        spec(quic, &path).hosts([1, 2]).start(start).ends(ends)
    };
    let setup = Setup { mss: MSS, initial_window: 10, random: seed.stream("detector"), rate: None };
    let (shared, flows) = if detector == "cubic" {
        (None, vec![network.add_flow(quic("cubic")).expect("a flow")])
    } else {
        let shared = Shared::new(connection(detector, controller, None, &setup));
        let flows = network.add_twins(quic("reno"), quic("reno"), &shared).expect("sub-flows");
        (Some(shared), flows.to_vec())
    };
    let end = changes[1] + AFTER;
    let got = |network: &Network<()>, flows: &[FlowId]| {
        flows.iter().map(|flow| network.flow(*flow).bytes).sum::<u64>()
    };
    let (mut bytes, mut theirs, mut found) = (vec![0], vec![0], [Finding::Unknown; 2]);
    let mut now = Duration::ZERO;
    while now < end {
        now = now + STEP;
        for (change, found) in changes.iter().zip(&mut found) {
            if *change >= now - STEP && *change < now {
                network.run_until(Time::ZERO + *change);
                *found = shared
                    .as_ref()
                    .map_or(Finding::Unknown, |shared| shared.lock().findings().verdict.finding);
            }
        }
        network.run_until(Time::ZERO + now);
        bytes.push(got(&network, &flows));
        theirs.push(got(&network, &[cubic]));
    }
    let place = |at: Duration| (at.as_nanos() / STEP.as_nanos()) as usize;
    // Payload at a rate of wire bits, beside the Cubic or alone.
    let payload = |rate: Rate, beside: bool, time: Duration| {
        rate.bytes_in(time).0 as f64 * f64::from(MSS)
            / f64::from(MSS + HEADERS + 14)
            / if beside { 2.0 } else { 1.0 }
    };
    let ends = [start, changes[0], changes[1], end];
    let share = |phase: usize, bytes: &[u64]| {
        let [from, to] = [ends[phase], ends[phase + 1]];
        let rate = if phase == 1 { narrow } else { rate };
        (bytes[place(to)] - bytes[place(from)]) as f64 / payload(rate, stays || phase == 1, to - from)
    };
    let half = payload(narrow, true, STEP * WINDOW as u64) / 2.0;
    // The first second of a change is nobody's share.
    let meanwhile = place(changes[0]) + 1..place(changes[1]) - WINDOW;
    let (mut starved, mut longest) = (0, 0);
    for at in meanwhile {
        starved = if ((bytes[at + WINDOW] - bytes[at]) as f64) < half { starved + 1 } else { 0 };
        longest = longest.max(starved);
    }
    let changed = shared.as_ref().map_or(Vec::new(), |shared| shared.lock().findings().changes.clone());
    let switched = [0, 1].map(|which| {
        let (at, fair) = (Time::ZERO + changes[which], which == 1);
        let is = |finding: Finding| (finding == Finding::FairQueued) == fair;
        if is(found[which]) {
            return Some(Duration::ZERO);
        }
        let after = changed.iter().find(|(when, finding)| *when >= at && is(*finding));
        after.map(|(when, _)| when.since(at)).filter(|took| at + *took < Time::ZERO + ends[which + 2])
    });
    let starved = if longest == 0 { Duration::ZERO } else { STEP * (longest + WINDOW as u64 - 1) };
    Moved {
        found,
        switched,
        shares: [0, 1, 2].map(|phase| share(phase, &bytes)),
        starved,
        cubic: share(1, &theirs),
    }
}

/// The slowest and hungriest runs, and what all came to. A connection that detects nothing switches nothing.
pub(crate) fn table(cases: &[Move], moved: &[Moved], detects: bool) -> String {
    const SOON: Duration = Duration::from_secs(3);
    let mut text = String::new();
    const NEVER: Duration = Duration::MAX;
    let seconds = |took: Duration| {
        if took == NEVER { "never".to_owned() } else { format!("{:.2} s", took.as_secs_f64()) }
    };
    for (case, Moved { found, switched, shares, starved, cubic }) in cases.iter().zip(moved) {
        let late = detects && switched.iter().any(|took| took.is_none_or(|took| took > SOON));
        if late || *starved > Duration::from_secs(5) {
            let [one, other, last] = shares;
            let _ = writeln!(
                text,
                "{case}: had {} and {}, switched after {} and {}, shares {one:.2} {other:.2} {last:.2}, \
                 Cubic {cubic:.2}, starved {:.1} s",
                found[0].word(),
                found[1].word(),
                seconds(switched[0].unwrap_or(NEVER)),
                seconds(switched[1].unwrap_or(NEVER)),
                starved.as_secs_f64()
            );
        }
    }
    let switches = if detects { &["to shared", "to fair"][..] } else { &[] };
    for (which, name) in switches.iter().enumerate() {
        let mut times: Vec<_> = moved.iter().map(|moved| moved.switched[which].unwrap_or(NEVER)).collect();
        times.sort_unstable();
        let soon = times.iter().filter(|took| **took <= SOON).count();
        let place = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)];
        let found =
            moved.iter().filter(|moved| (moved.found[which] == Finding::FairQueued) == (which == 0)).count();
        let _ = writeln!(
            text,
            "{name:<10} right until then {found} of {}, within 3 s {soon}, median {}, 95th {}",
            moved.len(),
            seconds(place(0.5)),
            seconds(place(0.95))
        );
    }
    let mean =
        |number: &dyn Fn(&Moved) -> f64| moved.iter().map(number).sum::<f64>() / moved.len().max(1) as f64;
    for (phase, name) in ["fair", "shared", "fair again"].into_iter().enumerate() {
        let worst = moved.iter().map(|moved| moved.shares[phase]).fold(f64::MAX, f64::min);
        let _ = writeln!(
            text,
            "{name:<10} {:.3} of the fair share in the mean, {worst:.3} at worst",
            mean(&|moved| moved.shares[phase])
        );
    }
    let starved = moved.iter().map(|moved| moved.starved).max().unwrap_or(Duration::ZERO);
    let often = moved.iter().filter(|moved| moved.starved > Duration::from_secs(5)).count();
    let _ =
        writeln!(text, "Cubic      {:.3} of the fair share in the shared queue", mean(&|moved| moved.cubic));
    let _ = writeln!(text, "starved    {:.1} s at worst, more than 5 s in {often}", starved.as_secs_f64());
    text
}
