//! Response functions, end to end: the mean window that a flow holds in the simulator where packets are lost or marked
//! with probability p, beside what theory has (`theory/laws.rs` derives each). Receivers acknowledge every packet,
//! unless a row says otherwise. docs/validation/theory.md says what the tables show.

#[path = "theory/laws.rs"]
mod laws;
mod notation;
#[path = "theory/paths.rs"]
mod paths;

use std::fmt::Write;

use notation::ms;
use paths::{EveryRound, Measured, SawTooth, Signals, Trial, UNLIMITED, setup};
use weir_cc::{Controller, Cubic9438, Dctcp, EcnUse, Linux, PragueParams, Rfc9002};
use weir_core::{Duration, Rate};

const ENDLESS: &str = "pfifo limit 1000000p";

fn seconds(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9) as u64)
}

/// Whether theory is within a tenth.
fn assert_close(what: &str, measured: f64, theory: f64) {
    let ratio = measured / theory;
    assert!((0.9..1.1).contains(&ratio), "{what}: {measured:.4}, by theory {theory:.4}: {ratio:.3}");
}

/// A trial that lasts `epochs` losses, where a window of `expected` packets loses a share `p` at random. Cubic in whole
/// milliseconds needs its packets apart, so it gets a link of four times its rate.
fn with_losses(controller: &str, rtt: Duration, p: f64, expected: f64, epochs: f64, run: u64) -> Trial<'_> {
    let rate = 4.0 * expected * 1514.0 * 8.0 / rtt.as_secs_f64();
    let length = seconds(epochs / p / expected * rtt.as_secs_f64());
    Trial {
        controller,
        own: None,
        rate: if controller == "reno" { UNLIMITED } else { Rate::from_bits_per_sec(rate as u64) },
        qdisc: ENDLESS,
        rtt,
        signals: Signals::Lost(p),
        every: 1,
        run,
        warm_up: length / 10,
        length,
    }
}

/// Marks at even distances, of the share `p`.
fn even(p: f64) -> Signals {
    Signals::EveryMarked((1.0 / p).round() as u64)
}

#[test]
fn reno_holds_a_window_of_1_22_over_the_root_of_p() {
    let law = laws::random_aimd(1.0, 0.5);
    let paper = laws::even_aimd(1.0, 0.5);
    let mut table =
        String::from("acks   rtt_ms       p        W  1.22/sqrt(p)  ratio  1.31/sqrt(p)  ratio\n");
    let mut run = 0;
    for (every, p, epochs) in [(1, 1e-4_f64, 200.0), (1, 1e-3, 600.0), (1, 1e-2, 3000.0), (2, 1e-3, 600.0)] {
        for rtt in [5, 20, 100] {
            run += 1;
            let (even, random) = (paper / p.sqrt(), law / p.sqrt());
            let trial = with_losses("reno", ms(rtt), p, random, epochs, run);
            let window = Trial { every, ..trial }.measure().window;
            writeln!(
                table,
                "{every:4}  {rtt:7}  {p:6}  {window:7.1}  {even:12.1}  {:5.3}  {random:12.1}  {:5.3}",
                window / even,
                window / random,
            )
            .unwrap();
            assert_close(&format!("reno {rtt} ms {p}"), window, random);
        }
    }
    insta::assert_snapshot!(table);
}

/// CReno, Cubic in the mode in which the paper on the coupled AQM has it growing by a packet a round trip with a factor
/// of 0.7, and Reno beside it where marks come evenly, as both formulas assume.
#[test]
fn creno_and_reno_hold_the_windows_of_their_saw_teeth() {
    let mut table = String::from("controller  signals  rtt_ms       p        W  by theory  ratio\n");
    let mut run = 50;
    for (name, signals, constant) in [
        ("creno", "even", laws::even_aimd(1.0, 0.7)),
        ("creno", "random", laws::random_aimd(1.0, 0.7)),
        ("reno", "even", laws::even_aimd(1.0, 0.5)),
    ] {
        let random = signals == "random";
        for (p, epochs) in [(1e-4_f64, 200.0), (1e-3, 600.0), (1e-2, 3000.0)] {
            for rtt in [5, 20, 100] {
                run += 1;
                let law = constant / p.sqrt();
                let ecn = if random { EcnUse::Off } else { EcnUse::Classic };
                let trial = Trial {
                    own: (name == "creno")
                        .then(|| -> Box<dyn Controller> { Box::new(SawTooth::new(0.7, ecn)) }),
                    signals: if random { Signals::Lost(p) } else { even(p) },
                    ..with_losses("reno", ms(rtt), p, law, epochs, run)
                };
                let window = trial.measure().window;
                let ratio = window / law;
                writeln!(
                    table,
                    "{name:10}  {signals:7}  {rtt:6}  {p:6}  {window:7.1}  {law:9.1}  {ratio:5.3}"
                )
                .unwrap();
                assert_close(&format!("{name} {signals} {rtt} ms {p}"), window, law);
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn cubic_is_renos_peer_on_short_paths_and_follows_its_curve_on_long_ones() {
    let mut table = String::from(
        "controller     rtt_ms        p        W  1.68/sqrt(p)  1.23/sqrt(p)  1.17(T/p)^.75  1.05(T/p)^.75  random  ratio\n",
    );
    let mut run = 100;
    for controller in ["cubic-rfc9438", "cubic"] {
        for (rtt, p, epochs) in [
            (5, 1e-2_f64, 3000.0),
            (5, 1e-3, 600.0),
            (20, 1e-2, 3000.0),
            (20, 1e-3, 600.0),
            (100, 1e-2, 3000.0),
            (100, 1e-3, 600.0),
            (100, 1e-4, 150.0),
            (200, 1e-3, 600.0),
            (200, 1e-4, 150.0),
        ] {
            run += 1;
            let t = rtt as f64 / 1e3;
            let curve = |b| laws::even_cubic(b) * libm::pow(t / p, 0.75);
            let root = |a| laws::even_aimd(a, 0.7) / p.sqrt();
            let law = laws::random_cubic(p, t);
            let window = with_losses(controller, ms(rtt), p, law, epochs, run).measure().window;
            let ratio = window / law;
            writeln!(
                table,
                "{controller:13}  {rtt:6}  {p:7}  {window:7.1}  {:12.1}  {:12.1}  {:13.1}  {:13.1}  {law:6.1}  {ratio:.3}",
                root(1.0),
                root(8.0 / 15.0),
                curve(0.8),
                curve(0.7),
            )
            .unwrap();
            // The kernel's window is whole packets, and its estimate stands still for up to 31 ms while the window does
            // (HZ / 32), in which it would have grown by 8/15 packets a round trip.
            let lag = if controller == "cubic" { 2.0 + 31.0 / rtt as f64 * 8.0 / 15.0 } else { 0.0 };
            assert!(
                (0.9 * law - lag..1.1 * law).contains(&window),
                "{controller} {rtt} ms {p}: {window:.1}, by theory {law:.1} less {lag:.1}"
            );
        }
    }
    insta::assert_snapshot!(table);
}

/// Where the curve is far above the Reno-friendly estimate, and marks come evenly, as its formula has them.
#[test]
fn cubic_follows_its_curve_under_even_marks() {
    let mut table = String::from(
        "controller     rtt_ms        p        W  1.05(T/p)^.75  ratio  converging  ratio   whole\n",
    );
    let mut run = 150;
    for controller in ["cubic-rfc9438", "cubic"] {
        // Long enough to have come down from slow start for a third of it.
        for (p, epochs) in [(1e-4_f64, 120.0), (3e-5, 60.0), (1e-5, 40.0)] {
            for rtt in [100, 200, 400] {
                run += 1;
                let t = rtt as f64 / 1e3;
                let curve = laws::even_cubic(0.7) * libm::pow(t / p, 0.75);
                let law = laws::even_cubic_converging(p, t);
                let whole = laws::even_cubic_whole(0.7, p, t);
                let trial = with_losses(controller, ms(rtt), p, curve, epochs, run);
                let warm_up = trial.length / 3;
                let window = Trial { signals: even(p), warm_up, ..trial }.measure().window;
                writeln!(
                    table,
                    "{controller:13}  {rtt:6}  {p:7}  {window:7.1}  {curve:13.1}  {:5.3}  {law:10.1}  {:5.3}  {whole:6.1}",
                    window / curve,
                    window / law,
                )
                .unwrap();
                let what = format!("{controller} {rtt} ms {p}");
                if controller == "cubic" {
                    assert!(
                        (0.9 * curve..whole).contains(&window),
                        "{what}: {window:.1}, {curve:.1} to {whole:.1}"
                    );
                    if p < 2e-5 {
                        assert_close(&what, window, curve);
                    }
                } else {
                    assert_close(&what, window, law);
                }
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// The formula itself has no fast convergence: its teeth are all alike. Near its window a tooth of whole packets is a
/// packet lower than the one before, so that such a sender takes some 200 of them to come down from slow start.
#[test]
fn cubic_without_fast_convergence_follows_its_curve_as_it_is_written() {
    let mut table = String::from("rtt_ms        p        W  1.05(T/p)^.75  ratio\n");
    for (p, run) in [(1e-4_f64, 180), (3e-5, 190)] {
        for rtt in [100, 200, 400] {
            let curve = laws::even_cubic(0.7) * libm::pow(rtt as f64 / 1e3 / p, 0.75);
            let rule = Cubic9438::new(EcnUse::Classic).without_fast_convergence();
            let trial = with_losses("cubic-rfc9438", ms(rtt), p, curve, 60.0, run);
            let warm_up = trial.length * 4;
            let own: Box<dyn Controller> = Box::new(Linux::new(rule, &setup()));
            let window = Trial { own: Some(own), signals: even(p), warm_up, ..trial }.measure().window;
            let ratio = window / curve;
            writeln!(table, "{rtt:6}  {p:7}  {window:7.1}  {curve:13.1}  {ratio:5.3}").unwrap();
            assert_close(&format!("{rtt} ms {p}"), window, curve);
        }
    }
    insta::assert_snapshot!(table);
}

/// The round trip that a sender computes with: Prague takes none for shorter than its target, once it has had 500.
fn reckoned(controller: &str, rtt: Duration) -> Duration {
    if controller == "prague" { rtt.max(PragueParams::default().target) } else { rtt }
}

/// Long enough to forget the beginning ten times over: the window moves towards its mean within 2/p round trips. (At 5
/// ms Prague has its 500 within the warm-up.)
fn with_marks(
    controller: &str,
    fluid: bool,
    rtt: Duration,
    p: f64,
    marks_are_even: bool,
    run: u64,
) -> Measured {
    let length = seconds((20.0 / p + 1000.0) * reckoned(controller, rtt).as_secs_f64());
    let trial = Trial {
        controller,
        own: fluid.then(|| -> Box<dyn Controller> { Box::new(EveryRound::new()) }),
        rate: UNLIMITED,
        qdisc: ENDLESS,
        rtt,
        signals: if marks_are_even { even(p) } else { Signals::Marked(p) },
        every: 1,
        run,
        warm_up: length / 3,
        length,
    };
    trial.measure()
}

#[test]
fn dctcp_holds_2_over_p_under_even_marks_and_more_under_random_ones() {
    let mut table =
        String::from("controller        marks   rtt_ms        p    marked      W    p*W  theory  ratio\n");
    let mut run = 200;
    for (controller, fluid, rtts) in [
        ("dctcp", true, &[5, 30, 100][..]),
        ("dctcp-rfc8257", false, &[5, 30, 100]),
        ("prague", false, &[5, 10, 30, 100]),
        ("dctcp", false, &[30]),
    ] {
        for (even, rtt, p) in [false, true].into_iter().flat_map(|even| {
            rtts.iter().flat_map(move |rtt| [0.01, 0.02, 0.05, 0.1].map(|p| (even, ms(*rtt), p)))
        }) {
            run += 1;
            let Measured { window, marked } = with_marks(controller, fluid, rtt, p, even, run);
            let name = if fluid { "every round trip" } else { controller };
            let share = rtt.as_secs_f64() / reckoned(controller, rtt).as_secs_f64();
            let law = match (name, even) {
                ("every round trip", _) => Some(2.0),
                // No cut is left of an alpha so small, but a packet is won only if no mark comes for two windows.
                ("dctcp", true) => Some(0.5 + p),
                // A cut is of one packet or of none; W alpha = 2 is where it becomes one.
                ("dctcp", false) if p >= 0.05 => Some(2.0),
                // Shares below 1/64 are lost, and with them alpha.
                ("dctcp", false) => None,
                ("prague", true) if share < 1.0 => Some(laws::even_prague(p, share)),
                ("prague", false) => Some(laws::random_prague(p, share)),
                (_, true) => Some(2.0 * (1.0 - p)),
                (_, false) => Some(laws::random_dctcp(1.0 - p)),
            };
            match law {
                Some(law) => assert_close(&format!("{name} {rtt} {p} even {even}"), p * window, law),
                None => assert!(p * window > laws::random_dctcp(1.0 - p), "{name} {p}: {window}"),
            }
            let marks = if even { "even" } else { "random" };
            let (theory, ratio) = law.map_or(("-".to_owned(), "-".to_owned()), |law| {
                (format!("{law:.2}"), format!("{:.3}", p * window / law))
            });
            writeln!(
                table,
                "{name:16}  {marks:6}  {:6}  {p:7}  {marked:8.4}  {window:5.1}  {:5.2}  {theory:>6}  {ratio:>5}",
                rtt.as_millis_f64(),
                p * window
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn dctcp_marks_of_a_step_follow_its_cycle() {
    let mut table = String::from(
        "controller     rate_mbit  rtt_ms   step      W   marked  sqrt(2/W)  ratio   cycle  ratio\n",
    );
    let mut run = 300;
    for (controller, at_once) in [("dctcp-rfc8257", false), ("dctcp", true), ("dctcp", false)] {
        for (mbit, rtt, step) in [
            (40, 7, "8p"),
            (80, 5, "8p"),
            (20, 20, "8p"),
            (4, 100, "8p"),
            (100, 5, "10p"),
            (200, 5, "20p"),
            (50, 20, "20p"),
            (10, 100, "20p"),
            (400, 5, "40p"),
            (100, 20, "40p"),
            (20, 100, "40p"),
            (400, 20, "150p"),
        ] {
            run += 1;
            let trial = Trial {
                controller,
                own: at_once
                    .then(|| -> Box<dyn Controller> { Box::new(Rfc9002::new(Dctcp::new(), &setup())) }),
                rate: Rate::from_bits_per_sec(mbit * 1_000_000),
                qdisc: &format!("step threshold {step}"),
                rtt: ms(rtt),
                signals: Signals::None,
                every: 1,
                run,
                warm_up: ms(rtt) * 750,
                length: ms(rtt) * 1500,
            };
            let Measured { window, marked } = trial.measure();
            let (paper, law) = ((2.0 / window).sqrt(), laws::step_dctcp(window));
            let name = if at_once { "dctcp, at once" } else { controller };
            if name == "dctcp" {
                // Proportional rate reduction takes a round trip, in which packets are still marked for the queue that
                // it has not taken away yet; they begin a second reduction. What falls in two steps is marked less
                // often.
                assert!((0.6..0.9).contains(&(marked / law)), "{mbit} {rtt}: {marked}, by theory {law}");
            } else {
                assert_close(&format!("{name} {mbit} {rtt}"), marked, law);
            }
            writeln!(
                table,
                "{name:14} {mbit:9}  {rtt:6}  {step:>5}  {window:5.1}  {marked:7.4}  {paper:9.4}  {:5.3}  {law:6.4}  {:5.3}",
                marked / paper,
                marked / law,
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
