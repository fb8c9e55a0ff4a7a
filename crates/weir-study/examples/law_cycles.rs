//! Every cycle of every flow of the mixes of figure `law/accuracy`, for those who look for a better law: what each flow
//! is, what the law made of it, and by what it could have been told.
//!
//! `cargo run --release -p weirnet-study --example law_cycles -- FROM TO OUT_DIR [--preset robust] [--set key=value]...
//! [--lone|--real] [--alone] [--paced] [--jobs N]` runs the mixes FROM to TO - 1 in virtual time; with --lone those of few
//! flows, with --real those that real packets can be sent of, with --alone the first flow only of each, with --paced QUIC
//! that spreads its windows.
//!
//! - `flows.csv`: a flow each, with its mix and its place in it.
//! - `cycles.csv`: a cycle each: mix, flow, start and duration in nanoseconds, payload bytes and packets that arrived in
//!   it, which of these were dropped and marked (as segments), whether its beginning was not seen. Losses and marks
//!   include those of packets that waited for up to two further cycles.
//!
//! It prints the tables of that figure over these mixes; with --set key=false they show what an ingredient of the law
//! is worth.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_law::{MainSignal, Preset, Verdict};
use weir_report::result::RunResult;
use weir_truth::lone::lone;
use weir_truth::mix::{Mix, mix};
use weir_truth::policy::Policy;
use weir_truth::real::real;
use weir_truth::seen::{Flow, mixed, of_run, word};
use weir_truth::tables::{all, text};
use weir_world::{RunOptions, SIM, run};

const USAGE: &str = "law_cycles FROM TO OUT_DIR [--preset paper|comsys|robust] [--set key=value]... [--lone|--real] \
                     [--alone] [--paced] [--jobs N]";

const FLOWS: &str = "mix,flow,class,right,controller,stack,pattern,ecn,capable,remark,queue,main_signal,rate_bps,rtt_ns,\
position,flows,jitter,loss,reorder,requests,own_rtt_ns,start_s,life_s,max_rate_bps,ack_every,gso,packets,segments,\
dropped,marked,goodput_bps,share,offered_share,rtt_p50_ms,verdict,class_loss,class_ecn,first_loss_s,first_mark_s,\
first_responsive_s,first_unresponsive_s,responsive_s,unresponsive_s,cycles,assessments";
const CYCLES: &str = "mix,flow,start_ns,duration_ns,window_bytes,packets,losses,marks,first";

struct Asked {
    from: u64,
    to: u64,
    out: PathBuf,
    preset: Preset,
    set: toml::Table,
    draw: fn(u64, Preset) -> Mix,
    alone: bool,
    paced: bool,
    jobs: usize,
}

impl Asked {
    fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            from: 0,
            to: 0,
            out: PathBuf::new(),
            preset: Preset::Robust,
            set: toml::Table::new(),
            draw: mix,
            alone: false,
            paced: false,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut places = Vec::new();
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value; {USAGE}"));
            match arg.as_str() {
                "--preset" => {
                    let word = toml::Value::String(value()?);
                    asked.preset = word.try_into().map_err(|error| format!("--preset: {error}"))?;
                }
                "--set" => {
                    let given = value()?;
                    let (key, value) =
                        given.split_once('=').ok_or_else(|| format!("--set {given}: no '='"))?;
                    let table = format!("it = {value}").parse::<toml::Table>();
                    let table = table.or_else(|_| format!("it = \"{value}\"").parse());
                    let mut table = table.map_err(|error| format!("--set {given}: {error}"))?;
                    asked.set.extend(table.remove("it").map(|value| (key.to_owned(), value)));
                }
                "--lone" => asked.draw = lone,
                "--real" => asked.draw = real,
                "--alone" => asked.alone = true,
                "--paced" => asked.paced = true,
                "--jobs" => asked.jobs = value()?.parse().map_err(|error| format!("--jobs: {error}"))?,
                _ => places.push(arg),
            }
        }
        let [from, to, out] = places.try_into().map_err(|_| USAGE.to_owned())?;
        asked.from = from.parse().map_err(|error| format!("FROM: {error}"))?;
        asked.to = to.parse().map_err(|error| format!("TO: {error}"))?;
        asked.out = out.into();
        Ok(asked)
    }

    /// Lines of both files, and the flows that count in the figure.
    fn mix(&self, number: u64) -> Result<([String; 2], Vec<Flow>), String> {
        let mut mix = (self.draw)(number, self.preset);
        if self.alone {
            mix = mix.alone();
        }
        if self.paced {
            mix = mix.paced();
        }
        mix.scenario.law.extend(self.set.clone());
        let stop = AtomicBool::new(false);
        let options = RunOptions { world: SIM, cycles: true, ..RunOptions::new(&stop) };
        let result = run(&mix.scenario, &options).map_err(|error| format!("mix {number}: {error}"))?;
        let policy = Policy::load();
        let lines = [flows(&mix, &result, &policy), cycles(&mix, &result)];
        let case = mixed(mix, self.preset);
        let seen = of_run(&case, &result, &policy).into_iter();
        let of = |seen| Flow { preset: case.preset, queue: case.queue.clone(), run: number as usize, seen };
        Ok((lines, seen.map(of).collect()))
    }
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn flows(mix: &Mix, result: &RunResult, policy: &Policy) -> String {
    let bottleneck = &mix.scenario.bottleneck;
    let main = match result.meta.law.main_signal {
        MainSignal::Loss => "loss",
        MainSignal::Ecn => "ecn",
        MainSignal::Both => "both",
    };
    let mut lines = String::new();
    let all = mix.scenario.flows.iter().zip(&mix.truths).zip(result.flows.iter().zip(&result.standings));
    for (index, ((flow, truth), (row, standing))) in all.enumerate() {
        let life = flow.duration.unwrap_or_default().as_secs_f64();
        let seconds = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let by_marks = result.meta.law.main_signal == MainSignal::Ecn && standing.ecn_capable;
        let by_policy = policy.right(&flow.controller, if by_marks { "ecn" } else { "loss" });
        let right = truth.right().or(by_policy);
        let columns = [
            mix.number.to_string(),
            index.to_string(),
            truth.name().to_owned(),
            right.map_or("", Verdict::name).to_owned(),
            flow.controller.clone(),
            row.stack.clone(),
            row.pattern.clone(),
            u8::from(row.ecn).to_string(),
            u8::from(standing.ecn_capable).to_string(),
            flow.remark.map_or(String::new(), |remark| format!("{:?}", remark.codepoint()).to_lowercase()),
            mix.queue.to_owned(),
            main.to_owned(),
            bottleneck.rate.bits_per_sec().to_string(),
            bottleneck.rtt.as_nanos().to_string(),
            bottleneck.position.to_string(),
            mix.truths.len().to_string(),
            or_none(bottleneck.jitter),
            or_none(bottleneck.loss),
            or_none(bottleneck.reorder),
            mix.scenario.workloads.len().to_string(),
            flow.rtt.unwrap_or(bottleneck.rtt).as_nanos().to_string(),
            format!("{:.4}", row.start_s),
            format!("{life:.4}"),
            or_none(flow.max_rate.map(|rate| rate.bits_per_sec())),
            or_none(flow.ack_every),
            or_none(flow.gso),
            row.packets.to_string(),
            standing.segments.to_string(),
            row.dropped.to_string(),
            row.marked.to_string(),
            format!("{:.0}", row.goodput_bps),
            format!("{:.4}", row.throughput_bps / mix.fair_share()),
            format!("{:.4}", mix.offered_share(index, result)),
            seconds(row.rtt_p50_ms),
            standing.verdict.clone(),
            row.class_loss.clone(),
            row.class_ecn.clone(),
            seconds(standing.first_loss_s),
            seconds(standing.first_mark_s),
            seconds(standing.first_responsive_s),
            seconds(standing.first_unresponsive_s),
            format!("{:.4}", standing.responsive_s),
            format!("{:.4}", standing.unresponsive_s),
            row.cycles.to_string(),
            row.assessments.to_string(),
        ];
        lines += &columns.join(",");
        lines.push('\n');
    }
    lines
}

fn cycles(mix: &Mix, result: &RunResult) -> String {
    let mut lines = String::with_capacity(result.cycles.len() * 48);
    for row in &result.cycles {
        // Those of workloads have places behind the flows.
        if row.flow as usize >= mix.truths.len() {
            continue;
        }
        let first = u8::from(row.first);
        lines += &format!(
            "{},{},{},{},{},{},{},{},{first}\n",
            mix.number,
            row.flow,
            row.start_ns,
            row.duration_ns,
            row.window_bytes,
            row.packets,
            row.losses,
            row.marks
        );
    }
    lines
}

/// Lines in the order of their mixes, whatever the order in which they come.
struct Ordered {
    next: u64,
    waiting: BTreeMap<u64, [String; 2]>,
    files: [BufWriter<File>; 2],
}

impl Ordered {
    fn create(out: &Path, from: u64) -> io::Result<Self> {
        fs::create_dir_all(out)?;
        let file = |name: &str, header: &str| {
            let mut file = BufWriter::new(File::create(out.join(name))?);
            writeln!(file, "{header}").map(|()| file)
        };
        let files = [file("flows.csv", FLOWS)?, file("cycles.csv", CYCLES)?];
        Ok(Self { next: from, waiting: BTreeMap::new(), files })
    }

    fn take(&mut self, number: u64, lines: [String; 2]) -> io::Result<()> {
        self.waiting.insert(number, lines);
        while let Some(lines) = self.waiting.remove(&self.next) {
            self.next += 1;
            for (file, text) in self.files.iter_mut().zip(&lines) {
                file.write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let ordered = Mutex::new(Ordered::create(&asked.out, asked.from)?);
    let counted = Mutex::new(Vec::new());
    let next = AtomicU64::new(asked.from);
    let failed: Mutex<Option<String>> = Mutex::new(None);
    let lock = |error: String| *failed.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(error);
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= asked.to {
                        return;
                    }
                    let written = asked.mix(number).and_then(|(lines, flows)| {
                        counted.lock().unwrap_or_else(|poison| poison.into_inner()).extend(flows);
                        let mut ordered = ordered.lock().unwrap_or_else(|poison| poison.into_inner());
                        ordered.take(number, lines).map_err(|error| error.to_string())
                    });
                    if let Err(error) = written {
                        lock(error);
                        return;
                    }
                }
            });
        }
    });
    for file in &mut ordered.lock().unwrap_or_else(|poison| poison.into_inner()).files {
        file.flush()?;
    }
    if let Some(error) = failed.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
        return Err(error.into());
    }
    let counted = counted.into_inner().unwrap_or_else(|poison| poison.into_inner());
    print!("{}", text(&all(&[word(asked.preset)], &counted)));
    Ok(())
}
