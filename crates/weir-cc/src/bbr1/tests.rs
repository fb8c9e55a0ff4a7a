use super::{Bbr1, CYCLE, DRAIN_GAIN, HIGH_GAIN, Mode};
use crate::episode::State;
use crate::testing::{Fate, Path, random, setup};
use crate::{Controller, EcnUse};
use weir_core::Duration;

#[test]
fn gains_are_the_kernels() {
    assert_eq!((HIGH_GAIN, DRAIN_GAIN), (739, 88));
    assert_eq!(CYCLE, [320, 192, 256, 256, 256, 256, 256, 256]);
}

#[test]
fn it_fills_the_pipe_with_little_queue_and_finds_the_shortest_round_trip() {
    // 50 Mbit/s of full packets, 40 ms: a BDP of 173 packets.
    let mut bbr = Bbr1::new(EcnUse::Off, &setup());
    let mut path = Path::bottleneck(40, 4_317, 2_000);
    path.rate_over(&mut bbr, Duration::from_secs(2));
    assert_eq!(bbr.mode, Mode::ProbeBw);
    (path.rtt_sum, path.rtt_count) = (0, 0);
    let rate = path.rate_over(&mut bbr, Duration::from_secs(7));
    assert!(rate > 0.97 * 4_317.0, "{rate}");
    assert!(path.mean_rtt() < 48.0, "{}", path.mean_rtt());
    assert_eq!(bbr.min_rtt_us.map(|us| us / 1000), Some(40));
    assert_eq!(path.lost(), 0);
    // Within the next ten seconds it has gone to four packets once.
    let mut seen = false;
    for _ in 0..200 {
        path.run(&mut bbr, Duration::from_millis(50), &mut || Fate::Arrives);
        seen |= bbr.mode == Mode::ProbeRtt && bbr.window == 4;
    }
    assert!(seen);
}

#[test]
fn random_losses_and_marks_do_not_slow_it() {
    let mut bbr = Bbr1::new(EcnUse::Classic, &setup());
    let mut path = Path::bottleneck(40, 4_317, 2_000);
    let mut random = random("losses");
    path.run(&mut bbr, Duration::from_secs(3), &mut || Fate::Arrives);
    let before = path.delivered();
    path.run(&mut bbr, Duration::from_secs(10), &mut || match random.below(100) {
        0 => Fate::Lost,
        1..20 => Fate::Marked,
        _ => Fate::Arrives,
    });
    let rate = (path.delivered() - before) as f64 / 10.0;
    assert!(rate > 0.93 * 4_317.0, "{rate}");
}

#[test]
fn it_follows_a_change_of_the_rate_both_ways() {
    let mut bbr = Bbr1::new(EcnUse::Off, &setup());
    let mut path = Path::bottleneck(20, 4_000, 500);
    path.rate_over(&mut bbr, Duration::from_secs(2));
    path.set_rate(2_000);
    path.rate_over(&mut bbr, Duration::from_secs(2));
    let lower = path.rate_over(&mut bbr, Duration::from_secs(2));
    assert!((1_900.0..2_010.0).contains(&lower), "{lower}");
    path.set_rate(6_000);
    path.rate_over(&mut bbr, Duration::from_secs(3));
    let higher = path.rate_over(&mut bbr, Duration::from_secs(2));
    assert!((5_700.0..6_010.0).contains(&higher), "{higher}");
}

#[test]
fn a_policer_is_found_by_its_losses() {
    // Every fourth packet is lost, more than 50/256 of them, for dozens of rounds.
    let mut bbr = Bbr1::new(EcnUse::Off, &setup());
    let mut path = Path::bottleneck(20, 4_000, 500);
    path.rate_over(&mut bbr, Duration::from_secs(2));
    let mut count = 0;
    path.run(&mut bbr, Duration::from_secs(1), &mut || {
        count += 1;
        if count % 4 == 0 { Fate::Lost } else { Fate::Arrives }
    });
    assert!(bbr.long_term.in_use, "{:?}", bbr.long_term);
}

#[test]
fn the_handshake_is_the_first_of_the_shortest_round_trips() {
    let mut bbr = Bbr1::new(EcnUse::Off, &setup());
    bbr.on_handshake(Duration::from_millis(20));
    assert_eq!(bbr.min_rtt_us, Some(20_000));
    // The initial window per round trip, times the gain, less 1 %.
    let mbit = bbr.pacing().unwrap().bits_per_sec() as f64 / 1e6;
    assert!((mbit - 10.0 * 1448.0 * 8.0 / 0.02 / 1e6 * 739.0 / 256.0 * 0.99).abs() < 0.01, "{mbit}");
    // Packets that have waited do not lengthen it.
    let mut path = Path::bottleneck(30, 4_317, 2_000);
    path.rate_over(&mut bbr, Duration::from_secs(2));
    assert_eq!(bbr.min_rtt_us, Some(20_000));
}

#[test]
fn a_recovery_right_after_another_does_not_conserve_packets_again() {
    let mut bbr = Bbr1::new(EcnUse::Off, &setup());
    let mut path = Path::bottleneck(40, 4_317, 2_000);
    path.rate_over(&mut bbr, Duration::from_secs(3));
    let window = bbr.window;
    // Losses so frequent that some are always missing: more than one of a round trip's 173 packets.
    let mut count = 0;
    let (mut recovers, mut conserves) = (0, 0);
    for _ in 0..200 {
        path.run(&mut bbr, Duration::from_millis(5), &mut || {
            count += 1;
            if count % 40 == 0 { Fate::Lost } else { Fate::Arrives }
        });
        recovers += u32::from(bbr.episode.state() == State::Recovery);
        conserves += u32::from(bbr.conserving);
    }
    assert!(recovers > 190, "{recovers}");
    assert!(conserves < 20, "{conserves}");
    assert!(bbr.window * 10 > window * 9, "{} of {window}", bbr.window);
}
