//! Looks for the sender that gains most by cheating the law: random and then evolutionary search over the parameters of
//! `evader`. The gain is what it gets beside four honest flows, over what one `fq_codel` for the link leaves to the
//! same sender, or to an honest flow there if that is more: a sender that asks for little has not gained by getting it.
//!
//! ```sh
//! cargo run --release -p weirnet-study --example law_search -- --minutes 30 --qdisc "crq split shared"
//! ```
//!
//! A line of JSON for each sender that was tried: gain, what it and the honest flows got, the words for its
//! `controller`, and the seeds, by which a scenario makes it again. Two seeds flatter the best of thousands, so when
//! the time is over the forty best are tried again under twenty others: lines of kind `again`. So are the twelve that
//! left honest flows least: lines of kind `again for honest flows`.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use weir_core::{Random, Seed};
use weir_scenario::Scenario;
use weir_world::{RunOptions, SIM};

/// Name, least and largest value of each parameter of the search, and the largest change by one step.
const GENES: [(&str, u64, u64, u64); 11] = [
    ("depth", 0, 60, 10),
    ("lag", 0, 6, 1),
    ("hold", 1, 12, 2),
    ("growth", 0, 40, 6),
    ("ceiling", 0, 1000, 100),
    ("floor", 2, 400, 60),
    ("every", 0, 12, 2),
    ("noise", 0, 40, 8),
    ("swing", 0, 60, 10),
    ("period", 4, 200, 30),
    ("pace", 0, 200, 40),
];

type Genes = [u64; GENES.len()];

struct Options {
    minutes: f64,
    seed: u64,
    qdisc: String,
    stack: String,
    rate: String,
    rtt: String,
    preset: String,
    jobs: usize,
}

impl Options {
    fn read() -> Result<Self, String> {
        let mut options = Self {
            minutes: 30.0,
            seed: 1,
            qdisc: "crq split shared".to_owned(),
            stack: "tcp".to_owned(),
            rate: "100mbit".to_owned(),
            rtt: "20ms".to_owned(),
            preset: "robust".to_owned(),
            jobs: 1,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let wrong = |_| format!("{word} does not take '{value}'");
            match word.as_str() {
                "--minutes" => {
                    options.minutes =
                        value.parse().map_err(|error: std::num::ParseFloatError| wrong(error.to_string()))?
                }
                "--seed" => {
                    options.seed =
                        value.parse().map_err(|error: std::num::ParseIntError| wrong(error.to_string()))?
                }
                "--jobs" => {
                    options.jobs =
                        value.parse().map_err(|error: std::num::ParseIntError| wrong(error.to_string()))?
                }
                "--qdisc" => options.qdisc = value,
                "--stack" => options.stack = value,
                "--rate" => options.rate = value,
                "--rtt" => options.rtt = value,
                "--preset" => options.preset = value,
                _ => {
                    return Err(format!(
                        "'{word}' is none of --minutes --seed --jobs --qdisc --stack --rate --rtt --preset"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// What attacker and honest flows get, in Mbit/s.
    fn run(&self, qdisc: &str, controller: &str, seed: u64) -> Result<[f64; 2], String> {
        let honest = ["cubic", "reno"].map(|name| {
            format!(
                "[[flow]]\nname = \"{name}\"\nstack = \"tcp\"\ncontroller = \"{name}\"\ncount = 2\n\
                 duration = \"20s\"\nstart_spread = \"1s\"\n"
            )
        });
        let text = format!(
            "seed = {seed}\n[bottleneck]\nrate = \"{}\"\nrtt = \"{}\"\nqdisc = \"{qdisc}\"\n[law]\npreset = \"{}\"\n{}\
             [[flow]]\nname = \"attacker\"\nstack = \"{}\"\ncontroller = \"{controller}\"\nduration = \"20s\"\n\
             start_spread = \"1s\"\n[measure]\nfrom = \"5s\"\nto = \"20s\"\n",
            self.rate,
            self.rtt,
            self.preset,
            honest.concat(),
            self.stack,
        );
        let scenario = Scenario::parse(&text, "law search").map_err(|error| error.to_string())?;
        let stop = AtomicBool::new(false);
        let options = RunOptions { world: SIM, ..RunOptions::new(&stop) };
        let result = SIM.run(&scenario, &options).map_err(|error| error.to_string())?;
        let of = |is_attacker: bool| {
            let flows: Vec<f64> = result
                .flows
                .iter()
                .filter(|flow| (flow.name == "attacker") == is_attacker)
                .map(|flow| flow.goodput_bps / 1e6)
                .collect();
            flows.iter().sum::<f64>() / flows.len().max(1) as f64
        };
        Ok([of(true), of(false)])
    }

    /// The means over runs with these seeds, which are not none.
    fn judge(&self, genes: &Genes, seeds: RangeInclusive<u64>) -> Result<Tried, String> {
        let controller = words(genes);
        let mut tried = Tried {
            genes: *genes,
            seeds: seeds.clone().collect(),
            gain: 0.0,
            attacker: 0.0,
            honest: 0.0,
            honest_gain: 0.0,
        };
        let runs = tried.seeds.len() as f64;
        for seed in seeds {
            let [attacker, honest] = self.run(&self.qdisc, &controller, seed)?;
            let [fair_attacker, fair_honest] = self.run("fq_codel noecn", &controller, seed)?;
            tried.gain += attacker / fair_attacker.max(fair_honest).max(0.01) / runs;
            tried.honest_gain += honest / fair_honest.max(0.01) / runs;
            tried.attacker += attacker / runs;
            tried.honest += honest / runs;
        }
        Ok(tried)
    }
}

fn words(genes: &Genes) -> String {
    let pairs = GENES.iter().zip(genes).map(|((name, ..), value)| format!(" {name} {value}"));
    format!("evader{}", pairs.collect::<String>())
}

fn random(draw: &mut Random) -> Genes {
    GENES.map(|(_, least, most, _)| {
        // Half of the genes are off, so that simple senders are tried, too.
        if draw.below(2) == 0 { least } else { least + draw.below(most - least + 1) }
    })
}

fn child(parents: &[&Tried], draw: &mut Random) -> Genes {
    let one = draw.choose(parents).map_or([0; GENES.len()], |tried| tried.genes);
    let other = draw.choose(parents).map_or(one, |tried| tried.genes);
    let mut genes = one;
    for (index, (_, least, most, step)) in GENES.into_iter().enumerate() {
        if draw.below(4) == 0 {
            genes[index] = other[index];
        }
        if draw.below(4) == 0 {
            let moved = (genes[index] + draw.below(2 * step + 1)).saturating_sub(step);
            genes[index] = moved.clamp(least, most);
        }
    }
    genes
}

struct Tried {
    genes: Genes,
    seeds: Vec<u64>,
    gain: f64,
    honest_gain: f64,
    attacker: f64,
    honest: f64,
}

impl Tried {
    fn say(&self, kind: &str) {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let line = json!({
            "kind": kind,
            "gain": round(self.gain),
            "honest_gain": round(self.honest_gain),
            "attacker_mbit": round(self.attacker),
            "honest_mbit": round(self.honest),
            "controller": words(&self.genes),
            "seeds": self.seeds,
        });
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }
}

/// The best so far are parents of half of what is tried once there are this many.
const ELITE: usize = 12;

/// How many of the best are tried again.
const AGAIN: usize = 40;

/// How many of those that leave honest flows least are tried again.
const HARMFUL: usize = 12;

/// The seeds of the search, and those under which some are tried again.
const SEEDS: [RangeInclusive<u64>; 2] = [1..=2, 11..=30];

/// Which are tried again, and as what.
fn once_more(tried: &mut Vec<Tried>) -> Vec<(&'static str, Genes)> {
    let genes =
        |tried: &[Tried], most: usize| tried.iter().take(most).map(|one| one.genes).collect::<Vec<_>>();
    // A sender that was tried twice has the same numbers both times.
    tried.sort_by(|one, other| other.gain.total_cmp(&one.gain).then(one.genes.cmp(&other.genes)));
    tried.dedup_by_key(|one| one.genes);
    let best = genes(tried, AGAIN);
    tried.sort_by(|one, other| one.honest_gain.total_cmp(&other.honest_gain));
    let harmful = genes(tried, HARMFUL);
    let again = best.into_iter().map(|genes| ("again", genes));
    again.chain(harmful.into_iter().map(|genes| ("again for honest flows", genes))).collect()
}

#[allow(clippy::disallowed_methods, reason = "a search has a budget of real time, and a thread per run")]
fn main() -> Result<(), String> {
    let options = Options::read()?;
    let began = std::time::Instant::now();
    let budget = std::time::Duration::from_secs_f64(options.minutes * 60.0);
    let tried: Mutex<Vec<Tried>> = Mutex::default();
    let failed: Mutex<Option<String>> = Mutex::default();
    let stop = AtomicBool::new(false);
    let work = &|number: usize| {
        let mut draw = Seed { seed: options.seed, run: number as u64 }.stream("law search");
        while began.elapsed() < budget && !stop.load(Ordering::Relaxed) {
            let genes = {
                let tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                let parents: Vec<_> = tried.iter().take(ELITE).collect();
                if parents.len() < ELITE || draw.below(4) == 0 {
                    random(&mut draw)
                } else {
                    child(&parents, &mut draw)
                }
            };
            match options.judge(&genes, SEEDS[0].clone()) {
                Ok(one) => {
                    one.say("tried");
                    let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
                    tried.push(one);
                    tried.sort_by(|one, other| other.gain.total_cmp(&one.gain));
                }
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..options.jobs.max(1) {
            scope.spawn(move || work(number));
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut tried = tried.into_inner().unwrap_or_else(PoisonError::into_inner);
    if tried.is_empty() {
        return Err("no time for a single sender; give more --minutes".to_owned());
    }
    let (options, once_more) = (&options, &once_more(&mut tried));
    let jobs = options.jobs.max(1);
    std::thread::scope(|scope| {
        let again = |number: usize| -> Result<(), String> {
            for (kind, genes) in once_more.iter().skip(number).step_by(jobs) {
                options.judge(genes, SEEDS[1].clone())?.say(kind);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..jobs).map(|number| scope.spawn(move || again(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a run panicked".to_owned())?)
    })
}
