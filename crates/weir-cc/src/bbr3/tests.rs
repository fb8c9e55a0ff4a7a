use super::signals::in_flight_before_excess;
use super::{
    BW_UNIT, Bbr3, Bbr3Params, DRAIN_GAIN, ECN_FACTOR, HEADROOM, LOSS_CUT, LOSS_THRESHOLD, Mode, Phase,
};
use crate::Controller;
use crate::testing::{Fate, Path, random, setup};
use weir_core::Duration;

const BOTH: [Bbr3Params; 2] = [Bbr3Params::V2, Bbr3Params::V3];

#[test]
fn fractions_are_the_kernels() {
    assert_eq!((LOSS_CUT, LOSS_THRESHOLD, ECN_FACTOR, HEADROOM, DRAIN_GAIN), (180, 5, 85, 38, 88));
    let mut bbr = Bbr3::new(Bbr3Params::V3, &setup());
    bbr.in_flight_hi = 100;
    assert_eq!(bbr.with_headroom(), 86);
    bbr.in_flight_hi = 4;
    assert_eq!(bbr.with_headroom(), 4);
}

#[test]
fn the_excess_is_found_to_the_packet() {
    // 99 in flight before: a budget of ceil(99 * 5 / 256) = 2 losses.
    assert_eq!(in_flight_before_excess(100, 1), 99 + 2 * 256 / 251);
    assert_eq!(in_flight_before_excess(100, 2), 99 + 256 / 251);
    assert_eq!(in_flight_before_excess(100, 3), 99);
    assert_eq!(in_flight_before_excess(1000, 5), 999 + 16 * 256 / 251);
}

#[test]
fn marks_cut_a_third_of_alpha_and_losses_three_tenths() {
    let mut bbr = Bbr3::new(Bbr3Params { ecn: true, ..Bbr3Params::V3 }, &setup());
    bbr.mode = Mode::ProbeBw(Phase::Cruise);
    bbr.window = 100;
    bbr.ecn_alpha = 128;
    bbr.ecn_in_round = true;
    bbr.adapt_lower_bounds();
    // 256 - (128 * 85 >> 8) = 214.
    assert_eq!((bbr.in_flight_lo, bbr.bw_lo), (83, u64::MAX));
    bbr.ecn_in_round = false;
    bbr.loss_in_round = true;
    bbr.bw_max = [1000, 0];
    bbr.adapt_lower_bounds();
    assert_eq!((bbr.in_flight_lo, bbr.bw_lo), (58, 703));
    // Never below what is being delivered.
    bbr.in_flight_latest = 57;
    bbr.bw_latest = 700;
    bbr.adapt_lower_bounds();
    assert_eq!((bbr.in_flight_lo, bbr.bw_lo), (57, 700));
}

/// `bbr2_handle_queue_too_high_in_startup` and that of version 3.
#[test]
fn startup_leaves_a_product_or_what_its_last_round_delivered() {
    let bounds = BOTH.map(|params| {
        let mut bbr = Bbr3::new(params, &setup());
        // A packet in 100 us over 10 ms: a product of 100.
        (bbr.bw_max, bbr.min_rtt_us) = ([BW_UNIT / 100, 0], Some(10_000));
        bbr.in_flight_latest = 250;
        bbr.startup_too_high();
        bbr.in_flight_hi
    });
    assert_eq!(bounds, [100, 250]);
}

/// `bbr_update_min_rtt`: version 2 waits for 5 s without a round trip as short as the shortest, version 3 without a
/// shorter one.
#[test]
fn a_round_trip_as_short_puts_probe_rtt_off_in_version_2_alone() {
    let probes = BOTH.map(|params| {
        let mut bbr = Bbr3::new(params, &setup());
        // So wide that nothing ever queues.
        let mut path = Path::bottleneck(40, 1_000_000, 2_000);
        (bbr.full, bbr.in_flight_hi) = (true, 40);
        bbr.start_down(0, 0);
        (0..120).any(|_| {
            path.rate_over(&mut bbr, Duration::from_millis(100));
            bbr.mode == Mode::ProbeRtt
        })
    });
    assert_eq!(probes, [false, true]);
}

/// `bbr2_probe_inflight_hi_upward`: six packets, one without a full window, four more; a step is ten.
#[test]
fn up_counts_anew_below_the_bound_in_version_2_alone() {
    let bounds = BOTH.map(|params| {
        let mut bbr = Bbr3::new(params, &setup());
        (bbr.window, bbr.in_flight_hi, bbr.up_per) = (100, 100, 10);
        bbr.push_upward(true, 6);
        bbr.push_upward(false, 1);
        bbr.push_upward(true, 4);
        bbr.in_flight_hi
    });
    assert_eq!(bounds, [100, 101]);
}

#[test]
fn both_fill_the_pipe_and_keep_the_queue_short() {
    for params in BOTH {
        // 50 Mbit/s of full packets, 40 ms: a BDP of 173 packets.
        let mut bbr = Bbr3::new(params, &setup());
        let mut path = Path::bottleneck(40, 4_317, 2_000);
        path.rate_over(&mut bbr, Duration::from_secs(2));
        assert!(matches!(bbr.mode, Mode::ProbeBw(_)), "{}: {:?}", params.name, bbr.mode);
        (path.rtt_sum, path.rtt_count) = (0, 0);
        let rate = path.rate_over(&mut bbr, Duration::from_secs(20));
        assert!(rate > 0.95 * 4_317.0, "{}: {rate}", params.name);
        assert!(path.mean_rtt() < 46.0, "{}: {}", params.name, path.mean_rtt());
        assert_eq!(path.lost(), 0);
    }
}

#[test]
fn a_shallow_buffer_bounds_what_is_in_flight() {
    for params in BOTH {
        let mut bbr = Bbr3::new(params, &setup());
        // A BDP of 200 packets and 20 of buffer.
        let mut path = Path::bottleneck(20, 10_000, 20);
        path.run(&mut bbr, Duration::from_secs(3), &mut || Fate::Arrives);
        let (lost, delivered) = (path.lost(), path.delivered());
        let rate = path.rate_over(&mut bbr, Duration::from_secs(20));
        let share = (path.lost() - lost) as f64 / (path.delivered() - delivered) as f64;
        assert!(bbr.in_flight_hi < 300, "{}: {}", params.name, bbr.in_flight_hi);
        assert!(share < 0.01, "{}: {share}", params.name);
        assert!(rate > 8_500.0, "{}: {rate}", params.name);
    }
}

#[test]
fn more_than_two_percent_of_losses_slow_it_and_one_percent_do_not() {
    for params in BOTH {
        let rates = [0.005, 0.10].map(|p| {
            let mut bbr = Bbr3::new(params, &setup());
            let mut path = Path::bottleneck(40, 4_317, 2_000);
            let mut random = random("losses");
            let mut fate = || if random.unit() < p { Fate::Lost } else { Fate::Arrives };
            path.run(&mut bbr, Duration::from_secs(20), &mut fate);
            path.delivered() as f64 / 20.0
        });
        assert!(rates[0] > 0.8 * 4_317.0, "{}: {rates:?}", params.name);
        assert!(rates[1] < 0.5 * rates[0], "{}: {rates:?}", params.name);
    }
}

#[test]
fn marks_count_on_short_paths_or_where_the_limit_is_lifted() {
    let paths = [(4, Duration::from_millis(5)), (20, Duration::from_millis(5)), (20, Duration::ZERO)];
    let counted = paths.map(|(rtt_ms, limit)| {
        let params = Bbr3Params { ecn: true, ecn_max_rtt: limit, ..Bbr3Params::V3 };
        let mut bbr = Bbr3::new(params, &setup());
        assert_eq!(bbr.ecn().codepoint(), weir_core::Ecn::Ect0);
        let mut path = Path::bottleneck(rtt_ms, 20_000, 2_000).marking_from(10);
        path.rate_over(&mut bbr, Duration::from_secs(3));
        path.rate_over(&mut bbr, Duration::from_secs(3));
        bbr.ecn_alpha < 256 && bbr.ecn_eligible
    });
    assert_eq!(counted, [true, false, true]);
}
