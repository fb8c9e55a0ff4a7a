use proptest::prelude::*;
use weir_core::{Duration, Random, Rate, Seed, Time};

use super::link::{Kind, Link, Path};
use super::{Trains, TrainsParams};
use crate::{Detector, Finding, Packet, SubFlow};

/// 20 Mbit/s, 30 ms.
const PLAIN: Path = Path {
    kind: Kind::Fifo,
    limit: 50,
    packet: Duration::from_micros(598),
    rtt: Duration::from_millis(30),
    jitter: Duration::ZERO,
    offset: Duration::ZERO,
    cross: 0,
    load: 0,
    lost: 0,
    bucket: 0,
};
const FAIR: [Kind; 3] = [Kind::Turns, Kind::Credit, Kind::HeadDrop];

fn random(run: u64) -> Random {
    Seed { seed: 2010, run }.stream("trains")
}

fn detect(path: Path, run: u64) -> (Finding, Trains, Link) {
    let mut trains = Trains::default();
    let mut link = Link::new(path, random(run));
    let outcome = link.detect(&mut trains);
    (outcome.verdict.finding, trains, link)
}

#[test]
fn plain_paths_are_told_in_two_trains_or_three() {
    for kind in FAIR {
        let (found, trains, link) = detect(Path { kind, ..PLAIN }, 0);
        // The credit of a new flow lets most of the first train pass.
        let needed = if kind == Kind::Credit { 3 } else { 2 };
        assert_eq!((found, trains.trains()), (Finding::FairQueued, needed), "{kind:?}");
        assert!(link.dropped[1] <= 2, "{kind:?}: {:?}", link.dropped);
        let verdict = trains.outcome().unwrap().verdict;
        assert!(verdict.why == "order" && verdict.confidence > 0.999, "{verdict:?}");
    }
    let (found, trains, link) = detect(PLAIN, 0);
    assert_eq!((found, trains.trains()), (Finding::Shared, 3));
    assert_eq!((link.dropped, trains.outcome().unwrap().verdict.why), ([0; 2], "order"));
}

/// What a busy host hands out late looks lost to the last packet; that is no loss that a queue has made.
#[test]
fn a_far_end_that_stalls_makes_no_wrong_finding() {
    let wrong = |kind| if kind == Kind::Fifo { Finding::FairQueued } else { Finding::Shared };
    let stalled = |kind, stalls: &[(u64, u64)]| {
        let mut trains = Trains::default();
        let mut link = Link::new(Path { kind, ..PLAIN }, random(0));
        for (after, time) in stalls {
            link.stall(Duration::from_millis(*after), Duration::from_millis(*time));
        }
        let found = link.detect(&mut trains).verdict.finding;
        assert_ne!(found, wrong(kind), "{kind:?}, {stalls:?}");
        found != Finding::Unknown
    };
    for kind in [Kind::Fifo].into_iter().chain(FAIR) {
        let once =
            (0..400).step_by(5).flat_map(|after| (20..1000).step_by(20).map(move |time| (after, time)));
        let told = once.map(|stall| usize::from(stalled(kind, &[stall]))).sum::<usize>();
        assert!(told > 3000, "{kind:?}: {told} of 3920");
        for run in 0..500 {
            let mut random = random(3000 + run);
            let often: Vec<_> = (0..40).map(|_| (random.below(200), random.below(400))).collect();
            stalled(kind, &often);
        }
    }
}

#[test]
fn buffers_of_one_packet_are_told_by_loss() {
    for (kind, finding) in [
        (Kind::Turns, Finding::FairQueued),
        (Kind::Credit, Finding::FairQueued),
        (Kind::Fifo, Finding::Shared),
    ] {
        for cross in [0, 1, 4] {
            for run in 0..20 {
                let path = Path { kind, limit: 1, cross, load: 90, ..PLAIN };
                let (found, trains, link) = detect(path, run);
                assert_eq!(found, finding, "{kind:?}, {cross} flows, run {run}");
                assert!(link.dropped.iter().sum::<u64>() < 80, "{:?}", link.dropped);
                if cross == 0 {
                    assert_eq!(trains.outcome().unwrap().verdict.why, "loss", "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn the_rate_of_a_train_is_the_share() {
    let link = 1425.0 * 8.0 / 598e-6;
    for kind in FAIR {
        let (_, trains, _) = detect(Path { kind, ..PLAIN }, 0);
        let rate = trains.outcome().unwrap().rate.unwrap().bits_per_sec() as f64;
        assert!((0.8 * link..1.05 * link).contains(&rate), "{kind:?}: {rate}");
        // Beside one that would take all, about half.
        let (_, trains, _) = detect(Path { kind, cross: 1, load: 150, ..PLAIN }, 0);
        let rate = trains.outcome().unwrap().rate.unwrap().bits_per_sec() as f64;
        assert!((0.4 * link..0.66 * link).contains(&rate), "{kind:?} beside one: {rate}");
    }
    // In a shared queue no more than slow start would have reached.
    let (_, trains, _) = detect(PLAIN, 0);
    let rate = trains.outcome().unwrap().rate.unwrap();
    assert!(rate < Rate::from_bits_per_sec(26 * 1425 * 8 * 1000 / 30), "{rate}");
}

/// A path drawn at random.
fn draw(random: &mut Random, kind: Kind) -> Path {
    let log = |random: &mut Random, from: f64, to: f64| from * libm::pow(to / from, random.unit());
    let packet = Duration::from_nanos(log(random, 12e3, 5e6) as u64);
    let rtt = Duration::from_nanos(log(random, 2e6, 200e6) as u64);
    let cross = [0, 1, 4, 16][random.below(4) as usize];
    let jitter = if random.below(2) == 0 { 0.0 } else { log(random, 1e4, 1e6) };
    Path {
        kind,
        limit: log(random, 1.0, 300.0) as usize,
        packet,
        rtt,
        jitter: Duration::from_nanos(jitter as u64),
        offset: Duration::ZERO,
        cross,
        load: 20 + random.below(130),
        lost: random.below(10),
        bucket: 0,
    }
}

#[test]
fn a_shared_queue_is_never_called_fair() {
    let mut shared = 0;
    for run in 0..600 {
        let path = draw(&mut random(1000 + run), Kind::Fifo);
        let (found, ..) = detect(path, run);
        assert_ne!(found, Finding::FairQueued, "run {run}: {path:?}");
        shared += u64::from(found == Finding::Shared);
    }
    assert!(shared >= 580, "{shared} of 600");
}

#[test]
fn fair_queues_are_found_so() {
    for kind in FAIR {
        let mut fair = 0;
        let mut wrong = 0;
        for run in 0..300 {
            let path = draw(&mut random(2000 + run), kind);
            let (found, ..) = detect(path, run);
            fair += u64::from(found == Finding::FairQueued);
            wrong += u64::from(found == Finding::Shared);
        }
        assert!(fair >= 285 && wrong <= 3, "{kind:?}: {fair} fair, {wrong} shared of 300");
    }
}

#[test]
fn sub_flows_on_paths_apart_leave_it_unknown() {
    for kind in [Kind::Fifo, Kind::Turns] {
        for ms in [3, 8, 20] {
            let (found, trains, link) = detect(
                Path { kind, offset: Duration::from_millis(ms), rtt: Duration::from_millis(50), ..PLAIN },
                ms,
            );
            assert_eq!((found, trains.trains()), (Finding::Unknown, 0), "{kind:?}, {ms} ms");
            assert_eq!(link.dropped, [0; 2]);
        }
    }
    // One that is within bounds is reckoned with.
    for (kind, finding) in [(Kind::Fifo, Finding::Shared), (Kind::Credit, Finding::FairQueued)] {
        let (found, ..) = detect(Path { kind, offset: Duration::from_micros(900), ..PLAIN }, 0);
        assert_eq!(found, finding);
    }
}

#[test]
fn spaced_packets_do_as_well_where_the_bottleneck_is_slower() {
    let params = TrainsParams { spacing: Duration::from_micros(100), ..TrainsParams::default() };
    for (kind, finding) in [
        (Kind::Fifo, Finding::Shared),
        (Kind::Turns, Finding::FairQueued),
        (Kind::Credit, Finding::FairQueued),
    ] {
        for (limit, run) in [(1, 0), (1, 1), (8, 0), (50, 0), (50, 1)] {
            let mut trains = Trains::new(params);
            let mut link = Link::new(Path { kind, limit, ..PLAIN }, random(run));
            assert_eq!(link.detect(&mut trains).verdict.finding, finding, "{kind:?}, {limit}, run {run}");
        }
    }
}

/// Giving up early costs no verdict: a bottleneck that is slower by a twentieth than the packets come is still found out.
#[test]
fn spaced_trains_end_soon_where_nothing_ever_waits() {
    let params = TrainsParams { spacing: Duration::from_micros(100), ..TrainsParams::default() };
    for (kind, finding) in [
        (Kind::Fifo, Finding::Shared),
        (Kind::Turns, Finding::FairQueued),
        (Kind::Credit, Finding::FairQueued),
    ] {
        for (micros, run) in
            [50, 80, 90, 95, 100, 105, 110, 120].into_iter().flat_map(|us| [(us, 0), (us, 1)])
        {
            let mut trains = Trains::new(params);
            let packet = Duration::from_micros(micros);
            let mut link = Link::new(Path { kind, packet, ..PLAIN }, random(run));
            let found = link.detect(&mut trains).verdict.finding;
            if packet > params.spacing {
                assert_eq!(found, finding, "{kind:?}, {packet}, run {run}");
            } else {
                assert_eq!((found, trains.trains()), (Finding::Unknown, 3), "{kind:?}, {packet}, run {run}");
            }
        }
    }
}

#[test]
fn a_later_detection_takes_a_train_or_two() {
    for (kind, finding) in [(Kind::Turns, Finding::FairQueued), (Kind::Fifo, Finding::Shared)] {
        let (found, mut trains, mut link) = detect(Path { kind, ..PLAIN }, 0);
        assert_eq!(found, finding);
        for _ in 0..5 {
            link.rest(Duration::from_secs(5));
            let before = link.sent;
            assert_eq!(link.detect(&mut trains).verdict.finding, finding);
            assert!(trains.trains() <= 2 && link.sent[0] - before[0] <= 2, "{kind:?}");
        }
    }
}

/// Both packets of a pair come through a token bucket at once, and say nothing of how long a packet takes.
#[test]
fn later_trains_behind_a_token_bucket_are_short() {
    for kind in FAIR {
        for bucket in [1, 2, 8] {
            let (_, mut trains, mut link) = detect(Path { kind, bucket, ..PLAIN }, 0);
            let before = link.sent[SubFlow::Heavy.index()];
            link.rest(Duration::from_secs(5));
            assert_eq!(link.detect(&mut trains).verdict.finding, Finding::FairQueued, "{kind:?}, {bucket}");
            let sent = link.sent[SubFlow::Heavy.index()] - before;
            assert!(sent < 50, "{kind:?}, {bucket}: {sent} heavy packets");
        }
    }
}

#[test]
fn a_bottleneck_that_changes_is_found_out() {
    let (found, mut trains, mut link) = detect(Path { kind: Kind::Turns, ..PLAIN }, 0);
    assert_eq!(found, Finding::FairQueued);
    let mut next = |kind| {
        link.rest(Duration::from_secs(5));
        link.change(kind);
        link.detect(&mut trains).verdict.finding
    };
    // Away from fair queuing at once; to it not by a single detection of two trains, but by the next.
    assert_eq!(next(Kind::Fifo), Finding::Shared);
    assert_eq!(next(Kind::Fifo), Finding::Shared);
    let found = [next(Kind::Turns), next(Kind::Turns)];
    assert_eq!(found[1], Finding::FairQueued, "{found:?}");
    assert_ne!(next(Kind::Fifo), Finding::FairQueued);
}

#[test]
fn pairs_are_near_each_other_only_where_a_round_trip_is_known_to_be_short() {
    // Of a round trip, the time from the first pair to the second; in microseconds.
    for (rtt, between) in [(0, 5_000), (200, 800), (2_000, 5_000), (160_000, 10_000), (1_000_000, 20_000)] {
        let mut trains = Trains::default();
        trains.begin(Time::ZERO, Duration::from_micros(rtt));
        for number in 0..2 {
            let asked = trains.next().unwrap();
            assert_eq!(asked.at, Time::ZERO);
            let sent =
                Packet { sub_flow: asked.sub_flow, number: 0, order: number, sent: asked.at, bytes: 1200 };
            trains.on_sent(&sent);
        }
        let second = trains.next().unwrap().at;
        assert_eq!(second, Time::ZERO + Duration::from_micros(between), "with {rtt} us");
    }
}

#[test]
fn nothing_heard_is_nothing_known() {
    let mut trains = Trains::default();
    let mut now = Time::ZERO;
    trains.begin(now, Duration::from_millis(50));
    let mut numbers = [0; 2];
    while trains.outcome().is_none() {
        if let Some(next) = trains.next() {
            now = now.max(next.at);
            let index = next.sub_flow.index();
            numbers[index] += 1;
            let number = numbers[index];
            trains.on_sent(&Packet { sub_flow: next.sub_flow, number, order: 0, sent: now, bytes: 1425 });
        } else {
            now = now.max(trains.timer().unwrap());
            trains.on_timer(now);
        }
    }
    assert_eq!(trains.outcome().unwrap().verdict.finding, Finding::Unknown);
    assert!(now <= Time::ZERO + TrainsParams::default().deadline);
    assert!(numbers.iter().sum::<u64>() < 400, "{numbers:?}");
}

proptest! {
    /// Whatever arrives, when and in whichever order: it ends by its deadline, within its trains, and then rests.
    #[test]
    fn it_ends(choices in prop::collection::vec((0u8..8, 0u64..40_000_000), 1..400), rtt in 0u64..400) {
        let mut trains = Trains::default();
        let mut now = Time::from_nanos(1);
        trains.begin(now, Duration::from_millis(rtt));
        let mut flying: Vec<Packet> = Vec::new();
        let mut numbers = [0; 2];
        let mut choices = choices.iter().cycle();
        while trains.outcome().is_none() {
            let (choice, nanos) = choices.next().copied().unwrap_or_default();
            match (choice, trains.next()) {
                (0..4, Some(next)) => {
                    now = now.max(next.at);
                    // At times the host sends something else.
                    let sub_flow = if nanos % 97 == 0 { SubFlow::Heavy } else { next.sub_flow };
                    let index = sub_flow.index();
                    numbers[index] += 1;
                    let packet = Packet { sub_flow, number: numbers[index], order: 0, sent: now, bytes: 1425 };
                    trains.on_sent(&packet);
                    flying.push(packet);
                }
                (4..7, _) if !flying.is_empty() => {
                    now += Duration::from_nanos(nanos / 100);
                    let packet = flying.swap_remove(nanos as usize % flying.len());
                    trains.on_arrival(now, &packet, now + Duration::from_nanos(nanos));
                }
                _ => now += Duration::from_nanos(nanos),
            }
            // A host may come late to a timer, but serves one that is due before it sends or hears anything else.
            if trains.timer().is_some_and(|due| due <= now) {
                trains.on_timer(now);
            }
            let deadline = Time::from_nanos(1) + TrainsParams::default().deadline;
            prop_assert!(now <= deadline + Duration::from_millis(40));
            prop_assert!(trains.trains() <= 13);
        }
        prop_assert!(trains.next().is_none() && trains.timer().is_none());
        prop_assert!(trains.log_odds().is_finite());
    }
}
