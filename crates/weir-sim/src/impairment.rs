//! What a link does to packets behind its queue, beside the constant delay: it varies the delay, loses packets, or lets
//! some overtake others. Words are those of `tc netem`.
//!
//! | netem | here |
//! |---|---|
//! | `delay TIME JITTER`: uniform between TIME - JITTER and TIME + JITTER; packets overtake each other | [`Impairment::jitter`]; the packets of a flow keep their order unless [`Impairment::jitter_reorders`] |
//! | `loss PERCENT`, of each packet for itself | [`Impairment::loss`], of packets that the link has sent (ns-3's receive error model) |
//! | `delay TIME reorder PERCENT`: PERCENT go at once, the others after TIME | [`Impairment::reorder`] and [`Impairment::reorder_delay`]: that share comes later, the others as they are |
//!
//! Each flow has draws of its own on each link, and each kind of impairment has its own, so a further flow or
//! impairment leaves them as they are.

use weir_core::{Duration, Random, Seed, Time};

/// Impairments of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// The delay is drawn evenly from up to so much less to up to so much more. At most the delay itself.
    pub jitter: Duration,
    /// Whether packets of a flow may overtake each other by jitter; otherwise one that would has to wait for those
    /// before it.
    pub jitter_reorders: bool,
    /// The probability of loss, 0 to 1.
    pub loss: f64,
    /// The share of packets that come later, 0 to 1.
    pub reorder: f64,
    /// By how much these are later. Packets behind them overtake them.
    pub reorder_delay: Duration,
}

impl Impairment {
    /// Whether it does nothing.
    pub fn is_none(&self) -> bool {
        self.jitter == Duration::ZERO
            && self.loss == 0.0
            && (self.reorder == 0.0 || self.reorder_delay == Duration::ZERO)
    }
}

/// An impairment, and what has been drawn for one flow.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    impairment: Impairment,
    jitter: Random,
    loss: Random,
    reorder: Random,
    /// No packet in order comes before this.
    earliest: Time,
}

impl Dice {
    /// Draws of the name `name`.
    pub(crate) fn new(impairment: Impairment, seed: Seed, name: &str) -> Self {
        let stream = |kind| seed.stream(&format!("{name} {kind}"));
        Self {
            impairment,
            jitter: stream("jitter"),
            loss: stream("loss"),
            reorder: stream("reorder"),
            earliest: Time::ZERO,
        }
    }

    /// When a packet arrives that leaves now and would need `delay`; `None` if it never does.
    pub(crate) fn roll(&mut self, now: Time, delay: Duration) -> Option<Time> {
        let Impairment { jitter, jitter_reorders, loss, reorder, reorder_delay } = self.impairment;
        if loss > 0.0 && self.loss.unit() < loss {
            return None;
        }
        let mut at = now + delay;
        if jitter > Duration::ZERO {
            at = at - jitter + Duration::from_nanos(self.jitter.below(2 * jitter.as_nanos() + 1));
        }
        if reorder > 0.0 && self.reorder.unit() < reorder {
            return Some(at + reorder_delay);
        }
        if !jitter_reorders {
            at = at.max(self.earliest);
            self.earliest = at;
        }
        Some(at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::{Dice, Impairment};
    use weir_core::{Duration, Seed, Time};

    const DELAY: Duration = Duration::from_millis(10);

    /// Arrivals of packets that leave a millisecond apart.
    fn arrivals(impairment: Impairment) -> Vec<Option<Time>> {
        let mut dice = Dice::new(impairment, Seed::default(), "test");
        (0..20_000).map(|number| dice.roll(Time::ZERO + Duration::from_millis(number), DELAY)).collect()
    }

    fn delays(arrivals: &[Option<Time>]) -> Vec<f64> {
        let times = arrivals.iter().enumerate();
        times.filter_map(|(ms, at)| at.map(|at| at.as_secs_f64() * 1e3 - ms as f64)).collect()
    }

    #[test]
    fn jitter_is_even_around_the_delay_and_keeps_order_unless_told() {
        let jitter = Impairment { jitter: Duration::from_millis(4), ..Impairment::default() };
        let free = arrivals(Impairment { jitter_reorders: true, ..jitter });
        assert!(!free.is_sorted());
        let drawn = delays(&free);
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        // Uniform: variance is the width squared over 12.
        assert!((mean - 10.0).abs() < 0.1 && (variance - 64.0 / 12.0).abs() < 0.2, "{mean} {variance}");
        assert!(drawn.iter().all(|delay| (6.0..=14.0).contains(delay)));
        let kept = arrivals(jitter);
        assert!(kept.is_sorted());
        // Waiting for the one before never takes longer than the longest delay.
        assert!(delays(&kept).iter().zip(&drawn).all(|(kept, drawn)| kept >= drawn && *kept <= 14.0 + 1e-6));
    }

    #[test]
    fn shares_are_lost_and_late() {
        let lossy = arrivals(Impairment { loss: 0.02, ..Impairment::default() });
        let lost = lossy.iter().filter(|at| at.is_none()).count();
        assert!((300..500).contains(&lost), "{lost} of 400");
        let late = Duration::from_millis(3);
        let late = arrivals(Impairment { reorder: 0.1, reorder_delay: late, ..Impairment::default() });
        let delays = delays(&late);
        let behind = delays.iter().filter(|delay| (**delay - 13.0).abs() < 1e-6).count();
        assert!((1800..2200).contains(&behind), "{behind} of 2000");
        assert!(delays.iter().all(|delay| (delay - 13.0).abs() < 1e-6 || (delay - 10.0).abs() < 1e-6));
    }
}
