//! The most that quantities of a scenario may be, in any world. No network needs more, and below them sums and products stay
//! within 64 bits wherever they are made.

use crate::Refusal;
use weir_core::{Bytes, Duration, Rate};

use super::{Jitter, Reorder, Reverse, Scenario};

/// Sixty times the fastest Ethernet.
const FASTEST: Rate = Rate::from_bits_per_sec(100_000_000_000_000);
/// Three years.
const LONGEST: Duration = Duration::from_secs(100_000_000);
/// More than a day: light needs 19 hours to the farthest probe.
const LONGEST_DELAY: Duration = Duration::from_secs(100_000);
/// Three hours at the fastest rate.
const MOST_BYTES: Bytes = Bytes(1 << 60);
/// The longest IP packet.
const MOST_OVERHEAD: u32 = 65_535;
const MOST_LINKS: usize = 1_000;
/// As many as there are connections, of which each has at least one.
const MOST_WORKLOADS: usize = 20_000;

/// A quantity of a scenario.
enum Bounded {
    Rate(Rate),
    Time(Duration),
    Delay(Duration),
    Bytes(Bytes),
}

impl Bounded {
    /// What is wrong with it.
    fn excess(&self) -> Option<String> {
        let (is_more, said, most) = match self {
            Self::Rate(rate) => (*rate > FASTEST, rate.to_string(), FASTEST.to_string()),
            Self::Time(time) => (*time > LONGEST, time.to_string(), LONGEST.to_string()),
            Self::Delay(delay) => (*delay > LONGEST_DELAY, delay.to_string(), LONGEST_DELAY.to_string()),
            Self::Bytes(bytes) => (*bytes > MOST_BYTES, bytes.to_string(), MOST_BYTES.to_string()),
        };
        is_more.then(|| format!("{said} is more than {most}, the most that a scenario may have; give less"))
    }
}

/// Quantities with their keys.
struct All(Vec<(String, Bounded)>);

impl All {
    fn add<Q>(&mut self, key: String, quantity: Option<Q>, kind: fn(Q) -> Bounded) {
        self.0.extend(quantity.map(|quantity| (key, kind(quantity))));
    }

    fn impairment(&mut self, key: &str, jitter: Option<Jitter>, reorder: Option<Reorder>) {
        self.add(format!("{key}.jitter"), jitter.map(|jitter| jitter.spread), Bounded::Delay);
        self.add(format!("{key}.reorder"), reorder.map(|reorder| reorder.delay), Bounded::Delay);
    }

    fn reverse(&mut self, key: &str, reverse: Option<&Reverse>) {
        let Some(reverse) = reverse else { return };
        let key = format!("{key}.reverse");
        self.add(format!("{key}.rate"), reverse.rate, Bounded::Rate);
        self.impairment(&key, reverse.jitter, reverse.reorder);
    }
}

impl Scenario {
    /// Refuses quantities that are beyond all measure.
    pub(super) fn check_bounds(&self) -> Result<(), Refusal> {
        let bottleneck = &self.bottleneck;
        for (key, count, most) in
            [("link", self.links.len(), MOST_LINKS), ("workload", self.workloads.len(), MOST_WORKLOADS)]
        {
            if count > most {
                let message = format!("there are {count} of them; a scenario may have {most}");
                return Err(Refusal::new(format!("{key}.{most}"), message));
            }
        }
        if bottleneck.overhead > MOST_OVERHEAD {
            let message =
                format!("{} bytes are more than the longest packet of {MOST_OVERHEAD}", bottleneck.overhead);
            return Err(Refusal::new("bottleneck.overhead", message));
        }
        let excess =
            |(key, bounded): (String, Bounded)| bounded.excess().map(|message| Refusal::new(key, message));
        self.quantities().0.into_iter().find_map(excess).map_or(Ok(()), Err)
    }

    fn quantities(&self) -> All {
        let Self { bottleneck, measure, .. } = self;
        let mut all = All(Vec::new());
        let of = |key: &str| format!("bottleneck.{key}");
        all.add(of("rate"), Some(bottleneck.rate), Bounded::Rate);
        for (index, step) in bottleneck.rates.iter().enumerate() {
            all.add(of(&format!("rates.{index}")), Some(step.rate), Bounded::Rate);
            all.add(of(&format!("rates.{index}")), step.lasts, Bounded::Time);
        }
        all.add(of("rtt"), Some(bottleneck.rtt), Bounded::Delay);
        all.add(of("burst"), bottleneck.burst, Bounded::Bytes);
        all.impairment("bottleneck", bottleneck.jitter, bottleneck.reorder);
        all.reverse("bottleneck", bottleneck.reverse.as_ref());
        for (index, link) in self.links.iter().enumerate() {
            let key = format!("link.{index}");
            all.add(format!("{key}.rate"), Some(link.rate), Bounded::Rate);
            all.add(format!("{key}.delay"), Some(link.delay), Bounded::Delay);
            all.impairment(&key, link.jitter, link.reorder);
            all.reverse(&key, link.reverse.as_ref());
        }
        for (index, flow) in self.flows.iter().enumerate() {
            let of = |key: &str| format!("flow.{index}.{key}");
            all.add(of("rate"), flow.rate, Bounded::Rate);
            all.add(of("max_rate"), flow.max_rate, Bounded::Rate);
            all.add(of("rtt"), flow.rtt, Bounded::Delay);
            all.add(of("start"), Some(flow.start), Bounded::Time);
            all.add(of("duration"), flow.duration, Bounded::Time);
            all.add(of("bytes"), flow.bytes, Bounded::Bytes);
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            let of = |key: &str| format!("workload.{index}.{key}");
            all.add(of("rate"), workload.rate, Bounded::Rate);
            all.add(of("bitrate"), workload.bitrate, Bounded::Rate);
            all.add(of("rtt"), workload.rtt, Bounded::Delay);
            all.add(of("size"), workload.size, Bounded::Bytes);
            all.add(of("cap"), workload.cap, Bounded::Bytes);
            for (key, time) in [
                ("start", Some(workload.start)),
                ("duration", workload.duration),
                ("think", workload.think),
                ("on", workload.on),
                ("off", workload.off),
                ("segment", workload.segment),
                ("buffer", workload.buffer),
            ] {
                all.add(of(key), time, Bounded::Time);
            }
        }
        all.add("measure.interval".to_owned(), Some(measure.interval), Bounded::Time);
        all.add("measure.timeout".to_owned(), Some(measure.timeout), Bounded::Time);
        all
    }
}
