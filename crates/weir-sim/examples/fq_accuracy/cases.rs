//! Conditions under which a detector is tried.

use std::fmt;

use weir_core::{Duration, Random, Rate, Seed};
use weir_sim::Impairment;

use crate::links::Link;

/// What else uses the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cross {
    None,
    /// So many flows with this controller.
    Tcp(u32, &'static str),
    /// So many sources that send datagrams by turns, together at most at this share of the rate.
    OnOff(u32, f64),
}

impl Cross {
    /// The row of the tables.
    pub(crate) fn word(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Tcp(flows, controller) => format!("{flows} {controller}"),
            Self::OnOff(flows, _) => format!("{flows} on-off"),
        }
    }
}

/// One condition.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The row of the tables.
    pub(crate) group: String,
    pub(crate) qdisc: String,
    /// Whether it serves the sub-flows by turns.
    pub(crate) fair: bool,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    pub(crate) buffer: u64,
    pub(crate) cross: Cross,
    /// By how much the cross traffic begins earlier.
    pub(crate) lead: Duration,
    /// Behind the bottleneck.
    pub(crate) impairment: Impairment,
    /// A flow the other way, whose queue acknowledgements meet.
    pub(crate) reverse: bool,
    pub(crate) link: Link,
    /// Whether it is drawn, not a cell of the grid.
    pub(crate) drawn: bool,
    pub(crate) seed: Seed,
}

impl Case {
    /// The rows of the tables that it belongs to: of what, and which.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let Impairment { jitter, jitter_reorders, loss, reorder, .. } = self.impairment;
        let mut rows = vec![("all", "all".to_owned()), ("queue", self.group.clone())];
        if !self.drawn {
            rows.push(("buffer", format!("{} {}p", self.group, self.buffer)));
            return rows;
        }
        rows.extend([("link", self.link.word().to_owned()), ("cross", self.cross.word())]);
        let scatters = jitter > Duration::ZERO;
        for (is, name) in [
            (self.impairment.is_none() && !self.reverse, "none"),
            (loss > 0.0, "loss"),
            (scatters && !jitter_reorders, "jitter"),
            (scatters && jitter_reorders, "jitter any order"),
            (reorder > 0.0, "reordering"),
            (self.reverse, "loaded reverse"),
        ] {
            if is {
                rows.push(("impairment", name.to_owned()));
            }
        }
        rows
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { qdisc, rate, rtt, buffer, cross, impairment, reverse, link, seed, .. } = self;
        write!(f, "{qdisc}, {link}, {rate}, {rtt}, {buffer} packets, {cross:?}")?;
        let Impairment { jitter, jitter_reorders, loss, reorder, reorder_delay } = impairment;
        if !impairment.is_none() {
            write!(f, ", jitter {jitter}{}", if *jitter_reorders { " any order" } else { "" })?;
            write!(f, ", loss {loss:.4}, reorder {reorder:.4} by {reorder_delay}")?;
        }
        write!(f, "{}, run {}", if *reverse { ", reverse" } else { "" }, seed.run)
    }
}

/// The paper's grid as its program runs it (`src/test.py` of CN-TU/PCC-Uspace): netem has whole milliseconds in each
/// direction.
const RATES: [u64; 5] = [5, 16, 28, 39, 50];
const DELAYS: [u64; 5] = [10, 32, 56, 78, 100];
const BUFFERS: [u64; 5] = [1, 26, 50, 75, 100];

/// The grid, each cell so many times: `fq` as it was when the paper was written, and with the fast path that it has
/// now.
pub(crate) fn grid(runs: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, words) in
        [("pfifo", "pfifo limit"), ("fq", "fq nofast_path flow_limit"), ("fq fast", "fq flow_limit")]
    {
        for cross in [Cross::None, Cross::Tcp(1, "cubic")] {
            for run in 0..runs {
                for (rate, rtt, buffer) in cells() {
                    cases.push(Case {
                        group: format!("{kind} {}", if cross == Cross::None { "alone" } else { "cubic" }),
                        qdisc: format!("{words} {buffer}p"),
                        fair: kind != "pfifo",
                        rate,
                        rtt,
                        buffer,
                        cross,
                        lead: Duration::from_secs(5),
                        impairment: Impairment::default(),
                        reverse: false,
                        link: Link::Wire,
                        drawn: false,
                        seed: Seed { seed: 1, run },
                    });
                }
            }
        }
    }
    cases
}

fn cells() -> impl Iterator<Item = (Rate, Duration, u64)> {
    RATES.into_iter().flat_map(|rate| {
        DELAYS.into_iter().flat_map(move |delay| {
            BUFFERS.into_iter().map(move |buffer| {
                (Rate::from_bits_per_sec(rate * 1_000_000), Duration::from_millis(delay), buffer)
            })
        })
    })
}

/// Conditions drawn at random.
///
/// | what | from |
/// |---|---|
/// | rate | 1 Mbit/s to 1 Gbit/s, evenly by its logarithm, as all below; with Wi-Fi from 20 Mbit/s |
/// | round-trip time | 2 to 300 ms |
/// | link | three of four a wire, else Wi-Fi or a cellular trace of 1 to 50 Mbit/s |
/// | buffer | 1 packet to 4 BDP: of each flow in `fq` (with and without its fast path) and `drr`, of all in the shared ones; `fq_codel` at least 64 packets, `fq_pie` and `cake` by their defaults, since these end fairness or are bytes |
/// | cross traffic | 0, 1, 4 or 16 of Reno, Cubic, BBR or datagrams on and off, 1 to 5 s earlier |
/// | random loss | half the cases: 0.01 to 1 % |
/// | jitter | half: 10 us to 3 ms or a quarter of the round trip, half of these in any order |
/// | reordering | a quarter: 0.1 to 2 % late by 0.2 to 5 ms or half a round trip |
/// | reverse path | a quarter: a Cubic in a queue of a BDP |
pub(crate) fn drawn(count: u64, seed: u64, first: u64) -> Vec<Case> {
    (first..first + count).map(|run| draw(Seed { seed, run })).collect()
}

fn draw(seed: Seed) -> Case {
    let mut random = seed.stream("case");
    let random = &mut random;
    let link = match random.below(8) {
        0 => Link::wifi(random),
        1 => Link::Cellular,
        _ => Link::Wire,
    };
    let [slowest, fastest] = match link {
        Link::Wire => [1e6, 1e9],
        Link::WiFi(_) => [2e7, 1e9],
        Link::Cellular => [1e6, 5e7],
    };
    let rate = Rate::from_bits_per_sec(logarithmic(random, slowest, fastest) as u64);
    let rtt = Duration::from_nanos(logarithmic(random, 2e6, 300e6) as u64);
    let product = rate.bytes_in(rtt).0 as f64 / 1500.0;
    let buffer = logarithmic(random, 1.0, (4.0 * product).max(1.0)).round().max(1.0) as u64;
    let fair = random.below(2) == 1;
    let (kind, qdisc) = if fair {
        let kind = random.below(6);
        match kind {
            0 => {
                let path = if seed.run.is_multiple_of(2) { "fast_path" } else { "nofast_path" };
                ("fq", format!("fq {path} flow_limit {buffer}p limit {}p", (20 * buffer).max(10_000)))
            }
            1 => ("fq_codel", format!("fq_codel limit {}p", buffer.max(64))),
            2 => ("fq_pie", "fq_pie".to_owned()),
            3 => ("drr", format!("drr limit {buffer}p")),
            4 => ("cake", "cake".to_owned()),
            _ => ("cake by hosts", "cake isolation dual-srchost".to_owned()),
        }
    } else {
        match random.below(6) {
            0 => ("pfifo", format!("pfifo limit {buffer}p")),
            1 => ("codel", format!("codel limit {buffer}p")),
            2 => ("pie", format!("pie limit {buffer}p")),
            3 => ("red", format!("red limit {}b", buffer.max(16) * 1514)),
            4 => ("by host", format!("byhost limit {buffer}")),
            _ => ("dualpi2", format!("dualpi2 limit {buffer}p")),
        }
    };
    let flows = [0, 1, 4, 16][random.below(4) as usize];
    let cross = match (flows, random.below(4)) {
        (0, _) => Cross::None,
        (_, 0) => Cross::Tcp(flows, "reno"),
        (_, 1) => Cross::Tcp(flows, "cubic"),
        (_, 2) => Cross::Tcp(flows, "bbr3"),
        _ => Cross::OnOff(flows, 0.2 + random.unit()),
    };
    let lead = Duration::from_secs(1).scale(1.0 + 4.0 * random.unit());
    let quarter = rtt.as_nanos() as f64 / 4.0;
    let mut impairment = Impairment::default();
    if random.below(2) == 1 {
        impairment.loss = logarithmic(random, 1e-4, 1e-2);
    }
    if random.below(2) == 1 {
        impairment.jitter = Duration::from_nanos(logarithmic(random, 1e4, quarter.min(3e6)) as u64);
        impairment.jitter_reorders = random.below(2) == 1;
    }
    if random.below(4) == 1 {
        impairment.reorder = logarithmic(random, 1e-3, 2e-2);
        impairment.reorder_delay =
            Duration::from_nanos(logarithmic(random, 2e5, (2.0 * quarter).min(5e6)) as u64);
    }
    let reverse = random.below(4) == 1;
    let drawn = true;
    let group = kind.to_owned();
    Case { group, qdisc, fair, rate, rtt, buffer, cross, lead, impairment, reverse, link, drawn, seed }
}

/// Evenly by the logarithm.
pub(crate) fn logarithmic(random: &mut Random, from: f64, to: f64) -> f64 {
    from * libm::pow(to / from, random.unit())
}
