//! The response functions: which window a controller holds on average when a share p of its packets is lost or marked.

use weir_core::Duration;

use crate::testing::{Fate, MSS, Path, random, setup};
use crate::{
    Controller, Cubic, Cubic9438, Dctcp, Dctcp8257, EcnUse, Linux, Prague, PragueParams, Reno, Rfc9002,
};

/// The mean window with every `period`th packet lost, on a path that spreads a window of `expected` packets over
/// half a round trip. (The kernel's Cubic measures time in jiffies, so bursts would grow faster.)
fn with_periodic_losses(controller: &mut dyn Controller, rtt_ms: u64, period: u64, expected: f64) -> f64 {
    let mut path = Path::bottleneck(rtt_ms, 2 * expected as u64 * 1000 / rtt_ms, u64::MAX);
    let mut count = 0;
    // Slow start overshoots a hundredfold, and Cubic forgets three tenths of it in a period.
    path.mean_window(controller, 25 * period, 40 * period, &mut || {
        count += 1;
        if count % period == 0 { Fate::Lost } else { Fate::Arrives }
    })
}

/// The mean window over `packets` with marks drawn at random.
fn with_random_marks(controller: &mut dyn Controller, p: f64, packets: u64) -> f64 {
    let mut path = Path::new(20);
    let mut random = random("marks");
    path.mean_window(controller, packets / 2, packets, &mut || {
        if random.unit() < p { Fate::Marked } else { Fate::Arrives }
    })
}

fn close(what: &str, measured: f64, theory: f64) {
    let ratio = measured / theory;
    println!("{what}: {measured:.1}, by theory {theory:.1}: {ratio:.3}");
    assert!((0.9..1.1).contains(&ratio), "{what}: {measured:.1}, by theory {theory:.1}");
}

#[test]
fn reno_follows_the_square_root_law() {
    for period in [1_000, 5_000, 25_000] {
        let theory = 1.2247 * (period as f64).sqrt();
        let mut reno = Linux::new(Reno::new(EcnUse::Off), &setup());
        close("reno", with_periodic_losses(&mut reno, 20, period, theory), theory);
        let mut reno = Rfc9002::new(Reno::new(EcnUse::Off), &setup());
        close("newreno of QUIC", with_periodic_losses(&mut reno, 20, period, theory), theory);
    }
}

#[test]
fn cubic_is_as_fast_as_reno_on_short_paths() {
    for period in [1_000u32, 5_000] {
        let theory = 1.2247 * f64::from(period).sqrt();
        let period = u64::from(period);
        let mut kernel = Linux::new(Cubic::new(EcnUse::Off, MSS), &setup());
        close("cubic", with_periodic_losses(&mut kernel, 10, period, theory), theory);
        let mut rfc = Rfc9002::new(Cubic9438::new(EcnUse::Off), &setup());
        close("cubic-rfc9438", with_periodic_losses(&mut rfc, 10, period, theory), theory);
    }
}

/// Losses at a fixed period make Cubic alternate between high and low maxima, which the model does not know. Here a
/// packet is lost whenever the window reaches `top`, as in front of a full buffer. Returns the share lost and the mean
/// window.
fn with_losses_at(controller: &mut dyn Controller, rtt_ms: u64, top: u64) -> (f64, f64) {
    let mut path = Path::bottleneck(rtt_ms, 2 * top * 1000 / rtt_ms, u64::MAX);
    let (mut armed, mut losses) = (true, 0);
    let mut turn = |path: &mut Path, controller: &mut dyn Controller| {
        let packets = controller.window() / u64::from(MSS);
        let lose = armed && packets >= top;
        armed = packets < top;
        path.step(controller, &mut || if lose { Fate::Lost } else { Fate::Arrives });
        losses += u64::from(lose);
        losses
    };
    while turn(&mut path, controller) < 5 {}
    let (before, began) = (path.delivered(), path.now());
    while turn(&mut path, controller) < 10 {}
    let packets = (path.delivered() - before) as f64;
    let seconds = path.now().since(began).as_secs_f64();
    (5.0 / packets, packets / seconds * rtt_ms as f64 / 1e3)
}

/// RFC 9438 section 5.1: W = (C (3 + beta) / (4 (1 - beta)))^(1/4) (T / p)^(3/4); the first factor is 1.054 for beta
/// 0.7 (and 1.17 for the older 0.8, as the coupled AQM's paper has it). In whole packets the plateau is
/// reached when the curve is within one packet of it, 1.4 s early, so the windows must be large.
#[test]
fn cubic_follows_its_own_law_on_long_paths() {
    for (rtt_ms, top) in [(100, 3_000), (200, 5_000)] {
        let mut kernel = Linux::new(Cubic::new(EcnUse::Off, MSS), &setup());
        let mut rfc = Rfc9002::new(Cubic9438::new(EcnUse::Off), &setup());
        let both: [&mut dyn Controller; 2] = [&mut kernel, &mut rfc];
        for controller in both {
            let (p, measured) = with_losses_at(controller, rtt_ms, top);
            let theory = 1.054 * libm::pow(rtt_ms as f64 / 1e3 / p, 0.75);
            close(&format!("{} {rtt_ms} ms {top}", controller.name()), measured, theory);
        }
    }
}

/// With independent marks neither form has the W = 2/p of the fluid model. Per packet, a reduction by W alpha / 2
/// (alpha = p) comes once per window of data and first mark, W + 1/p packets apart. RFC 8257 grows by (1 - p) / W all
/// the while: x / 2 = (1 - p)(1 + 1 / x) for x = p W.
#[test]
fn dctcp_of_rfc_8257_and_prague_are_inverse_to_the_marking_probability() {
    for (p, packets) in [(0.01, 1_000_000), (0.02, 500_000), (0.05, 300_000), (0.1, 300_000)] {
        let mut dctcp = Dctcp8257::new(&setup());
        let clean: f64 = 1.0 - p;
        let theory = (clean + (clean * clean + 2.0 * clean).sqrt()) / p;
        close(&format!("dctcp-rfc8257 {p}"), with_random_marks(&mut dctcp, p, packets), theory);
        // Prague is the same law in finer integers.
        let mut prague = {
            let params = PragueParams { target: Duration::ZERO, transition: 0, ..PragueParams::default() };
            Prague::new(params, &setup())
        };
        close(&format!("prague {p}"), with_random_marks(&mut prague, p, packets), theory);
    }
}

/// The kernel's form grows only from the end of a reduction to the next mark, 1/p packets: x / 2 = 1 / x, so x =
/// sqrt(2), were it not for its integers, which lose shares below 1/64 and cuts below one packet. A plain count of
/// acknowledgements with the same integers must give the same window.
#[test]
fn dctcp_of_the_kernel_holds_what_its_integers_give() {
    for p in [0.02, 0.05, 0.1] {
        let mut dctcp = Linux::new(Dctcp::new(), &setup());
        let measured = with_random_marks(&mut dctcp, p, 2_000_000);
        let counted = dctcp_counted(p, 4_000_000);
        println!("p W of the kernel's dctcp at {p}: {:.2}", measured * p);
        close(&format!("dctcp {p}"), measured, counted);
        assert!(p * measured > 2f64.sqrt());
    }
}

/// DCTCP's window by counting packets: no path, no states but "reducing until packet n".
fn dctcp_counted(p: f64, packets: u64) -> f64 {
    let mut random = random("counted");
    let (mut window, mut credit, mut alpha) = (50u64, 0u64, 1024u64);
    let (mut round_end, mut round, mut marked, mut reducing_until) = (0, 0, 0, 0);
    let mut rounds = 0.0;
    for packet in 0..packets {
        let mark = random.unit() < p;
        round += 1;
        marked += u64::from(mark);
        if packet >= round_end {
            alpha -= if alpha >> 4 == 0 { alpha } else { alpha >> 4 };
            alpha = (alpha + (marked << 6) / round).min(1024);
            (round, marked, round_end) = (0, 0, packet + window);
        }
        if packet > reducing_until {
            if mark {
                (credit, reducing_until) = (0, packet + window);
                window = (window - ((window * alpha) >> 11)).max(2);
            } else {
                credit += 1;
                if credit >= window {
                    (credit, window) = (0, window + 1);
                }
            }
        }
        if packet >= packets / 4 {
            rounds += 1.0 / window as f64;
        }
    }
    0.75 * packets as f64 / rounds
}
