use weir_cc::{ConstantRate, Controller, EcnUse, FixedWindow};
use weir_core::{Duration, Rate, Time};

use super::{AckFrame, Bunching, Feedback, Recovery, Sender, SenderConfig, Ticks};
use crate::endpoint::frame::RANGES;

const MSS: u32 = 1000;

fn sender(recovery: Recovery, controller: impl Controller + 'static) -> Sender {
    let config = SenderConfig {
        mss: MSS,
        header: 66,
        recovery,
        feedback: Feedback::Classic,
        burst: Duration::from_millis(1),
        min_burst: 2,
        bunching: Bunching::AtOnce,
        autosize: false,
        max_rate: Rate::MAX,
        ack_delay: Duration::ZERO,
        window: u64::MAX,
        ticks: None,
    };
    let mut sender = Sender::new(config, Box::new(controller));
    sender.writes.write(None);
    sender
}

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}

/// How many packets go now.
fn send(sender: &mut Sender, now: Time) -> usize {
    std::iter::from_fn(|| sender.poll(now)).take(1_000).count()
}

/// A packet per millisecond.
fn paced(recovery: Recovery) -> Sender {
    sender(recovery, ConstantRate::new("8mbit".parse().unwrap(), EcnUse::Off))
}

#[test]
fn a_burst_that_begins_late_is_shorter_by_as_much_and_at_most_by_half() {
    let mut tcp = paced(Recovery::Tcp);
    // Nine go unpaced, and a burst of two.
    assert_eq!(send(&mut tcp, at(0)), 11);
    assert_eq!(tcp.paced_until(at(0)), Some(at(2_000)));
    assert_eq!(send(&mut tcp, at(1_999)), 0);
    assert_eq!(send(&mut tcp, at(2_300)), 2);
    assert_eq!(tcp.paced_until(at(2_300)), Some(at(4_000)), "300 us are made up for");
    assert_eq!(send(&mut tcp, at(9_000)), 2);
    assert_eq!(tcp.paced_until(at(9_000)), Some(at(10_000)), "of 5 ms, 1 ms");
    assert_eq!(send(&mut tcp, at(10_000)), 2);
    assert_eq!(tcp.paced_until(at(10_000)), Some(at(12_000)), "and nothing of the rest");
    let mut quic = paced(Recovery::Quic);
    assert_eq!(send(&mut quic, at(0)), 2);
    assert_eq!(send(&mut quic, at(5_000)), 2);
    assert_eq!(quic.paced_until(at(5_000)), Some(at(7_000)));
}

/// 5/4 of a window per round trip: 2 ms of it at once, at least ten packets, unless these take longer than 10 ms.
#[test]
fn a_window_that_is_spread_goes_in_bursts() {
    for (packets, rtt, together, again) in
        [(50, 100, 6, 9_600), (50, 50, 10, 8_000), (500, 10, 125, 2_000), (4_000, 10, 256, 512)]
    {
        let mut quic = sender(Recovery::Quic, FixedWindow::new(packets * u64::from(MSS), EcnUse::Off));
        quic.config.bunching = Bunching::Spread;
        quic.shake_hands(Duration::from_millis(rtt));
        for round in 0..2 {
            let now = at(round * again);
            assert_eq!(send(&mut quic, now), together, "{packets} in {rtt} ms");
            assert_eq!(quic.paced_until(now), Some(at((round + 1) * again)), "{packets} in {rtt} ms");
        }
    }
}

/// Two windows a round trip, and 6/5 of one once something was lost or marked.
#[test]
fn the_fq_of_a_host_spreads_the_window_of_a_controller_that_does_not_pace() {
    let mut tcp = sender(Recovery::Tcp, FixedWindow::new(50 * u64::from(MSS), EcnUse::Off));
    tcp.config.bunching = Bunching::Fq;
    tcp.unpaced = 0;
    tcp.shake_hands(Duration::from_millis(100));
    assert_eq!(send(&mut tcp, at(0)), 2);
    assert_eq!(tcp.paced_until(at(0)), Some(at(2_000)));
    tcp.delivery.lose_unknown();
    assert_eq!(send(&mut tcp, at(2_000)), 2);
    // 1000 bytes at 4.8 Mbit/s, in whole nanoseconds, twice.
    assert_eq!(tcp.paced_until(at(2_000)), Some(Time::from_nanos(2_000_000 + 2 * 1_666_666)));
    let mut own = paced(Recovery::Tcp);
    (own.unpaced, own.config.bunching) = (0, Bunching::Fq);
    assert_eq!(send(&mut own, at(0)), 2);
    assert_eq!(own.paced_until(at(0)), Some(at(2_000)), "at its own rate");
}

#[test]
fn bursts_and_super_packets_are_as_long_as_linux_autosizes_them() {
    // Bits per second: what goes in 1/1024 s, from two packets to 64 kB.
    for (rate, segments) in [("8mbit", 2), ("81920kbit", 10), ("163840kbit", 20), ("10gbit", 45)] {
        let mut tcp = sender(Recovery::Tcp, ConstantRate::new(rate.parse().unwrap(), EcnUse::Off));
        tcp.config.autosize = true;
        (tcp.unpaced, tcp.config.min_burst) = (0, 1);
        assert_eq!(tcp.autosized(), segments, "{rate}");
        assert_eq!(send(&mut tcp, at(0)), segments as usize, "{rate}: one by one");
        let at = tcp.paced_until(at(0)).unwrap();
        let burst = tcp.gather(at, &mut None, 45).unwrap();
        assert_eq!(u32::from(burst.segments()), segments, "{rate}: as one");
        let at = tcp.paced_until(at).unwrap();
        assert_eq!(
            tcp.gather(at, &mut None, 4).unwrap().segments(),
            segments.min(4) as u16,
            "{rate}: up to gso"
        );
    }
    // Without pacing by 1.2 windows a round trip: 240 packets in 20 ms are 11.7 in 1/1024 s.
    let mut tcp = sender(Recovery::Tcp, FixedWindow::new(200 * u64::from(MSS), EcnUse::Off));
    (tcp.config.autosize, tcp.config.bunching) = (true, Bunching::Defer);
    tcp.shake_hands(Duration::from_millis(20));
    assert_eq!(tcp.gather(at(0), &mut None, 45).unwrap().segments(), 11);
}

#[test]
fn a_syn_ack_goes_again_after_one_second_and_then_twice_as_long_and_data_waits_for_it() {
    let mut tcp = sender(Recovery::Tcp, FixedWindow::new(5 * u64::from(MSS), EcnUse::Off));
    tcp.writes.stop(0);
    tcp.open(Some(2_500), true);
    assert_eq!(send(&mut tcp, at(0)), 1, "the SYN-ACK alone");
    let mut now = 0;
    for seconds in [1, 2, 4, 8] {
        let due = tcp.timer();
        assert_eq!(due, at((now + seconds) * 1_000_000), "{seconds}");
        now += seconds;
        tcp.timeout(due);
        assert_eq!(send(&mut tcp, due), 1, "the SYN-ACK once more");
    }
    assert_eq!(tcp.in_flight, 5);
    // The client answers the last copy, 20 ms later.
    let answer = at(now * 1_000_000 + 20_000);
    tcp.acknowledge(answer, &ack(0, 4, 5, 1));
    assert_eq!((tcp.in_flight, tcp.delivery.lost()), (0, 0));
    assert_eq!(tcp.rtt.smoothed, Duration::from_millis(20));
    let lengths: Vec<u32> =
        std::iter::from_fn(|| tcp.poll(answer)).map(|packet| packet.wire_bytes - 66).collect();
    assert_eq!(lengths, [1000, 1000, 500, 1], "data and a FIN");
}

#[test]
fn a_fin_that_is_lost_goes_again_after_a_probe_timeout() {
    let mut tcp = sender(Recovery::Tcp, FixedWindow::new(5 * u64::from(MSS), EcnUse::Classic));
    tcp.writes.stop(0);
    tcp.open(Some(1_000), true);
    let codepoints = |tcp: &mut Sender, now| -> Vec<weir_core::Ecn> {
        std::iter::from_fn(|| tcp.poll(now)).map(|packet| packet.ecn).collect()
    };
    use weir_core::Ecn::{Ect0, NotEct};
    assert_eq!(codepoints(&mut tcp, at(0)), [NotEct]);
    tcp.acknowledge(at(10_000), &ack(0, 0, 1, 1));
    assert_eq!(codepoints(&mut tcp, at(10_000)), [Ect0, NotEct]);
    tcp.acknowledge(at(20_000), &ack(1, 1, 2, 2));
    // Two round trips, and 200 ms as it is alone; or the RTO, if that is less.
    let due = tcp.timer();
    assert!((at(200_000)..at(260_000)).contains(&due), "{due:?}");
    tcp.timeout(due);
    assert_eq!(codepoints(&mut tcp, due), [NotEct]);
    assert!(!tcp.is_done());
    tcp.acknowledge(due + Duration::from_millis(10), &ack(2, 3, 4, 3));
    assert!(tcp.is_done());
}

#[test]
fn a_connection_that_follows_another_counts_anew() {
    let mut tcp = sender(Recovery::Tcp, FixedWindow::new(20 * u64::from(MSS), EcnUse::Off));
    tcp.writes.stop(0);
    tcp.writes.write(Some(20 * u64::from(MSS)));
    assert_eq!(send(&mut tcp, at(0)), 20);
    tcp.acknowledge(at(20_000), &ack(0, 1, 20, 0));
    assert_eq!(send(&mut tcp, at(20_000)), 1);
    tcp.acknowledge(at(40_000), &ack(1, 20, 21, 20));
    assert!(tcp.is_done());
    assert_eq!((tcp.delivery.delivered(), tcp.delivery.lost()), (20, 1));
    tcp.reopen(Box::new(FixedWindow::new(20 * u64::from(MSS), EcnUse::Off)));
    assert_eq!((tcp.delivery.delivered(), tcp.delivery.lost()), (0, 0));
}

/// An acknowledgement of packets `from..to`; all before `next` have arrived.
fn ack(index: u32, from: u64, to: u64, next: u64) -> AckFrame {
    let mut ranges = [(0, 0); RANGES];
    ranges[0] = (from, to);
    AckFrame {
        at: at(0),
        index,
        ranges,
        fresh: from,
        next,
        ce: 0,
        echo: false,
        spin: false,
        delay: Duration::ZERO,
    }
}

#[test]
fn a_recovering_sender_waits_for_no_reordering_until_it_has_seen_some() {
    for (reorders, lost) in [(false, 2), (true, 1)] {
        let mut tcp = sender(Recovery::Tcp, FixedWindow::new(20 * u64::from(MSS), EcnUse::Off));
        assert_eq!(send(&mut tcp, at(0)), 20);
        tcp.acknowledge(at(20_000), &ack(0, 1, 2, 0));
        assert_eq!(tcp.delivery.lost(), 0, "one packet may have overtaken it");
        if reorders {
            tcp.acknowledge(at(20_001), &ack(1, 3, 4, 0));
            tcp.acknowledge(at(20_002), &ack(2, 2, 3, 0));
        } else {
            tcp.acknowledge(at(20_002), &ack(2, 2, 4, 0));
        }
        tcp.acknowledge(at(20_003), &ack(3, 4, 5, 0));
        assert_eq!(tcp.delivery.lost(), 1, "three have");
        tcp.acknowledge(at(20_004), &ack(4, 6, 7, 0));
        assert_eq!(tcp.delivery.lost(), lost);
    }
}

#[test]
fn probes_timeouts_and_waits_for_reordered_packets_come_at_ticks_of_the_host() {
    for (hz, probe, timeout, reordered) in [(0, 60_000, 220_000, 26_000), (250, 72_000, 224_000, 40_000)] {
        let mut tcp = sender(Recovery::Tcp, FixedWindow::new(4 * u64::from(MSS), EcnUse::Off));
        tcp.config.ticks = Ticks::per_second(hz);
        assert_eq!(send(&mut tcp, at(0)), 4);
        tcp.acknowledge(at(20_000), &ack(0, 0, 1, 1));
        assert_eq!(tcp.timer(), at(probe), "two round trips, with {hz} Hz");
        tcp.acknowledge(at(21_000), &ack(1, 2, 3, 1));
        // 21 ms from when it was sent, and a quarter of 20.
        assert_eq!(tcp.timer(), at(reordered), "with {hz} Hz");
        let mut tcp = sender(Recovery::Tcp, FixedWindow::new(4 * u64::from(MSS), EcnUse::Off));
        tcp.config.ticks = Ticks::per_second(hz);
        assert_eq!(send(&mut tcp, at(0)), 4);
        tcp.acknowledge(at(20_000), &ack(0, 0, 1, 1));
        let due = tcp.timer();
        tcp.timeout(due);
        assert_eq!(tcp.timer(), at(timeout), "from when the oldest was sent, with {hz} Hz");
    }
}

#[test]
fn a_packet_waits_for_others_only_while_the_next_acknowledgement_is_near() {
    let window = FixedWindow::new(200 * u64::from(MSS), EcnUse::Off);
    let mut tcp = sender(Recovery::Tcp, window);
    tcp.config.bunching = Bunching::Defer;
    tcp.shake_hands(Duration::from_millis(20));
    assert_eq!(send(&mut tcp, at(0)), 200);
    tcp.acknowledge(at(20_000), &ack(0, 0, 2, 2));
    assert_eq!(send(&mut tcp, at(20_000)), 2, "the last write was 20 ms ago");
    for (index, from) in [(1, 2), (2, 4), (3, 6), (4, 8), (5, 10)] {
        tcp.acknowledge(at(20_100), &ack(index, from, from + 2, from + 2));
        assert_eq!(send(&mut tcp, at(20_100)), 0, "the next one is due");
    }
    tcp.acknowledge(at(20_100), &ack(6, 12, 14, 14));
    assert_eq!(send(&mut tcp, at(20_100)), 11, "1.2 times 200 packets in 20 ms are 11.7 in 1/1024 s");
    tcp.acknowledge(at(20_200), &ack(7, 14, 200, 200));
    let rest = send(&mut tcp, at(20_200));
    assert!((187 - 10..=187).contains(&rest), "{rest}");
    tcp.acknowledge(at(20_300), &ack(8, 200, 202, 202));
    let all = 187 - rest + 2;
    assert_eq!(send(&mut tcp, at(20_300)), all, "what is in flight was sent 0.2 ms ago");
}
