//! How often a detector of fair queuing is right, how long it takes and what it costs:
//!
//! ```text
//! cargo run --release -p weirnet-sim --example fq_accuracy -- grid trains 10
//! cargo run --release -p weirnet-sim --example fq_accuracy -- drawn trains 1000 7 table.csv
//! cargo run --release -p weirnet-sim --example fq_accuracy -- control trains share
//! cargo run --release -p weirnet-sim --example fq_accuracy -- change trains 100 1
//! ```
//!
//! A last word that ends with `.csv` names a file for the table of `grid` or `drawn`.
//!
//! | mode | what it does |
//! |---|---|
//! | `grid DETECTOR RUNS` | the paper's 125 cells behind `pfifo` and two versions of `fq`, alone and with a Cubic that began 5 s earlier |
//! | `drawn DETECTOR CASES SEED [FIRST]` | conditions drawn at random, from run `FIRST` on |
//! | `control DETECTOR [CONTROLLER]` | what comes behind fair queuing: 30 s in each cell of the grid, detection included |
//! | `again DETECTOR RUNS` | detections for a minute in the grid; counts those that change what was found |
//! | `change (DETECTOR or cubic) RUNS SEED [CONTROLLER]` | the bottleneck moves from a fair queue to a shared one and back; `cubic` detects nothing |
//!
//! Of `grid` and `drawn` a line for each error comes before the tables.

mod cases;
mod change;
mod hosts;
mod links;
mod run;
mod tables;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::Case;

/// Threads that run cases.
const THREADS: usize = 2;

// A run of a case draws from its own streams alone, so threads change nothing but the time that all take.
#[allow(clippy::disallowed_methods)]
fn run_all<C: Sync, T: Clone + Send>(cases: &[C], run: impl Fn(&C) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![None; cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((index, case)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(index).map(|case| (index, case))
                } {
                    let result = run(case);
                    found.lock().expect("no run panics")[index] = Some(result);
                }
            });
        }
    });
    found.into_inner().expect("no run panics").into_iter().flatten().collect()
}

#[allow(clippy::disallowed_methods)]
fn main() {
    hosts::register();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number =
        |place: usize, usual: u64| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let detector = words.get(1).copied().unwrap_or("trains");
    let cases = match words.first().copied() {
        Some("grid") => cases::grid(number(2, 1)),
        Some("drawn") => cases::drawn(number(2, 100), number(3, 1), number(4, 0)),
        Some("control") => {
            let cases: Vec<Case> =
                cases::grid(1).into_iter().filter(|case| case.group == "fq alone").collect();
            let held = run_all(&cases, |case| run::control(case, detector, words.get(2).copied()));
            print!("{}", tables::control(&cases, &held));
            return;
        }
        Some("change") => {
            let cases = change::moves(number(2, 100), number(3, 1));
            let controller = words.get(4).copied().unwrap_or("cubic-regain");
            let moved = run_all(&cases, |case| change::run(case, detector, controller));
            print!("{}", change::table(&cases, &moved, detector != "cubic"));
            return;
        }
        Some("again") => {
            let cases = cases::grid(number(2, 1));
            let kept = run_all(&cases, |case| run::again(case, detector));
            print!("{}", tables::again(&cases, &kept));
            return;
        }
        _ => {
            let words = "(grid | again) DETECTOR RUNS | drawn DETECTOR CASES SEED [FIRST] | control DETECTOR CONTROLLER | \
                change (DETECTOR | cubic) RUNS SEED [CONTROLLER]";
            eprintln!("fq_accuracy {words}");
            return;
        }
    };
    let found = run_all(&cases, |case| run::run(case, detector));
    print!("{}", tables::errors(&cases, &found));
    print!("{}", tables::summary(&cases, &found));
    if let Some(file) = words.last().filter(|word| word.ends_with(".csv")) {
        std::fs::write(file, tables::csv(&cases, &found)).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}
