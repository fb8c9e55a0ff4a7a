//! Runs the cells that have no result yet, several at a time, and keeps each as soon as it has ended.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::record::{Measured, Outcome};
use super::store::{Kept, Store};
use super::{Sweep, SweepError, SweepOptions, SweepProgress, SweepResult, tables};
use weir_report::output;
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::{RunOptions, World};

/// Runs one cell.
type Runner<'a> = dyn Fn(&Scenario, &RunOptions) -> Result<RunResult, String> + Sync + 'a;

/// Makes a sweep: runs the cells that have no result in the folder yet, then writes tables and page there. A cell that
/// fails, also by a panic, is no error: its rows say so. When stopped, what has ended is kept and written, and the same
/// sweep in the same folder goes on from there.
///
/// # Errors
/// If more jobs than one are asked for on real packets, or results cannot be written.
pub fn run(sweep: &Sweep, options: &SweepOptions) -> Result<SweepResult, SweepError> {
    run_by(sweep, options, &|scenario, run| weir_world::run(scenario, run).map_err(|error| error.to_string()))
}

fn run_by(sweep: &Sweep, options: &SweepOptions, runner: &Runner) -> Result<SweepResult, SweepError> {
    let jobs = jobs(sweep.world(), options.jobs)?;
    output::check_writable(&options.out)?;
    let store = Store::new(&options.out);
    let mut damaged = 0;
    let todo: Vec<usize> = (0..sweep.cells())
        .filter(|cell| match store.read(sweep.address(*cell)) {
            Kept::Nothing => true,
            Kept::Damaged => {
                damaged += 1;
                true
            }
            Kept::Whole(Outcome::Failed(_)) => options.retry_failed,
            Kept::Whole(Outcome::Measured(_)) => false,
        })
        .collect();
    let reused = sweep.cells() - todo.len();
    let work =
        Work { sweep, options, runner, store: &store, todo: &todo, failed: Mutex::new(None), start: now() };
    work.all(jobs);
    if let Some(error) = work.failed.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
        return Err(error);
    }
    tables::write(sweep, &store, options, reused, damaged)
}

/// How many cells run at the same time.
fn jobs(world: &dyn World, wanted: Option<usize>) -> Result<usize, SweepError> {
    match (world, wanted) {
        (_, Some(0)) => Err(SweepError::Options("--jobs 0: at least one cell must run at a time".to_owned())),
        (world, wanted) if world.is_virtual() => {
            Ok(wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)))
        }
        (_, None | Some(1)) => Ok(1),
        (world, Some(jobs)) => Err(SweepError::Options(format!(
            "--jobs {jobs}: cells of world {} disturb each other's packets; they run one at a time",
            world.name()
        ))),
    }
}

#[allow(clippy::disallowed_methods, reason = "progress is told in wall-clock time")]
fn now() -> Instant {
    Instant::now()
}

struct Work<'a> {
    sweep: &'a Sweep,
    options: &'a SweepOptions<'a>,
    runner: &'a Runner<'a>,
    store: &'a Store,
    /// Cells that have no result.
    todo: &'a [usize],
    /// What keeps results from being written.
    failed: Mutex<Option<SweepError>>,
    start: Instant,
}

impl Work<'_> {
    fn all(&self, jobs: usize) {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        self.tell(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(self.todo.len()) {
                scope.spawn(|| {
                    while let Some(cell) = self.todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if self.is_stopped() {
                            return;
                        }
                        match self.one(*cell) {
                            Ok(true) => self.tell(done.fetch_add(1, Ordering::Relaxed) + 1),
                            Ok(false) => return,
                            Err(error) => {
                                let mut failed =
                                    self.failed.lock().unwrap_or_else(|poison| poison.into_inner());
                                failed.get_or_insert(error);
                                return;
                            }
                        }
                    }
                });
            }
        });
    }

    /// Whether nothing more is to be run: interrupted, or there is no room for results.
    fn is_stopped(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(|poison| poison.into_inner());
        self.options.stop.load(Ordering::Relaxed) || failed.is_some()
    }

    /// Runs a cell and keeps what comes of it. False if it was interrupted.
    fn one(&self, cell: usize) -> Result<bool, SweepError> {
        let place = self.sweep.cell(cell);
        let scenario = self.sweep.scenario(place.combination)?;
        let options = RunOptions {
            world: self.sweep.world(),
            run: place.run,
            large: self.sweep.is_large(),
            ..RunOptions::new(self.options.stop)
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| (self.runner)(&scenario, &options))) {
            Ok(Ok(result)) if result.meta.cut_short.as_deref() == Some("interrupted") => return Ok(false),
            Ok(Ok(result)) => Outcome::Measured(Box::new(Measured::of(&scenario, &result))),
            // What an interrupt breaks is not the cell's fault.
            Ok(Err(_)) if self.options.stop.load(Ordering::Relaxed) => return Ok(false),
            Ok(Err(error)) => Outcome::Failed(error),
            Err(panic) => Outcome::Failed(format!("{}; this is a fault of weir", said(panic.as_ref()))),
        };
        let what = (self.sweep.world(), &scenario, Sweep::seed(&scenario, place));
        self.store.write(self.sweep.address(cell), what, &outcome)?;
        Ok(true)
    }

    fn tell(&self, done: usize) {
        let left = (done > 0).then(|| {
            let spent: Duration = now().saturating_duration_since(self.start);
            spent.mul_f64((self.todo.len() - done) as f64 / done as f64)
        });
        let total = self.sweep.cells();
        (self.options.progress)(SweepProgress { done: total - self.todo.len() + done, total, left });
    }
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::super::{MOST_CELLS, Sweep, SweepOptions, SweepResult};
    use super::{Runner, run, run_by};
    use weir_world::run as lab;

    const SWEEP: &str = r#"
[sweep]
bottleneck.rate = ["2mbit", "5mbit"]
flow.0.controller = ["reno", "cubic", "bbr"]
[scenario.bottleneck]
rate = "1mbit"
rtt = "10ms"
qdisc = "pfifo limit 20p"
[[scenario.flow]]
stack = "tcp"
controller = "reno"
duration = "300ms"
"#;

    fn make(folder: &std::path::Path, text: &str, retry: bool, runner: Option<&Runner>) -> SweepResult {
        let path = folder.join("s.toml");
        fs::write(&path, text).unwrap();
        let sweep = Sweep::load(&path, MOST_CELLS, false).unwrap();
        let stop = AtomicBool::new(false);
        let options = SweepOptions {
            out: folder.join("out"),
            jobs: Some(2),
            retry_failed: retry,
            command: "test".to_owned(),
            stop: &stop,
            progress: &|_| {},
        };
        match runner {
            Some(runner) => run_by(&sweep, &options, runner).unwrap(),
            None => run(&sweep, &options).unwrap(),
        }
    }

    #[test]
    fn a_workload_has_a_row_behind_the_flows() {
        let folder = tempfile::tempdir().unwrap();
        let workload = "[[scenario.workload]]\nname = \"web\"\nkind = \"requests\"\nstack = \"tcp\"\n\
            controller = \"cubic\"\nsize = \"20kb\"\nthink = \"10ms\"\nrequests = 5\n";
        make(folder.path(), &format!("{SWEEP}{workload}"), false, None);
        let table = fs::read_to_string(folder.path().join("out/sweep.csv")).unwrap();
        let mut rows = csv::Reader::from_reader(table.as_bytes());
        let names = rows.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        let of = |row: usize, name: &str| {
            let place = names.iter().position(|known| known == name).unwrap();
            rows[row].get(place).unwrap().to_owned()
        };
        assert_eq!(rows.len(), 12, "six cells of a flow and a workload each");
        assert_eq!([of(0, "workload"), of(0, "requests"), of(1, "fct_s")], ["", "", ""]);
        assert_eq!(
            ["flow", "workload", "flow_index", "requests", "completed_requests", "received_bytes"]
                .map(|name| of(1, name)),
            ["web", "requests", "0", "5", "5", "102400"]
        );
        let median: f64 = of(1, "response_p50_s").parse().unwrap();
        assert!(median > 0.01, "a round trip of 10 ms at least: {median}");
        assert_eq!(of(0, "link_departed_packets"), of(1, "link_departed_packets"));
    }

    #[test]
    fn a_failed_cell_is_recorded_and_the_rest_finished() {
        let folder = tempfile::tempdir().unwrap();
        let bad = |scenario: &weir_scenario::Scenario, options: &lab::RunOptions| {
            let controller = scenario.flows[0].controller.as_str();
            match (controller, scenario.bottleneck.rate.bits_per_sec()) {
                ("cubic", 5_000_000) => panic!("the window is {}", "gone"),
                ("bbr", 2_000_000) => Err("no namespace".to_owned()),
                _ => lab::run(scenario, options).map_err(|error| error.to_string()),
            }
        };
        let result = make(folder.path(), SWEEP, false, Some(&bad));
        let failed: Vec<(usize, &str)> =
            result.meta.failed_cells.iter().map(|cell| (cell.cell, cell.error.as_str())).collect();
        assert_eq!(
            failed,
            [(2, "no namespace"), (4, "panicked: the window is gone; this is a fault of weir")]
        );
        assert_eq!(
            result.meta.failed_cells[1].what,
            "bottleneck.rate = 5mbit, flow.0.controller = cubic, run 0"
        );
        assert_eq!((result.meta.cells, result.meta.missing_cells, result.reused), (6, 0, 0));
        let table = fs::read_to_string(folder.path().join("out/sweep.csv")).unwrap();
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert_eq!(rows.len(), 6);
        assert!(
            rows[2].starts_with("2,2000000,bbr,0,,,") && rows[2].ends_with(",no namespace"),
            "{}",
            rows[2]
        );

        // What failed is not run again, unless that is asked for.
        let calls = AtomicUsize::new(0);
        let count = |scenario: &weir_scenario::Scenario, options: &lab::RunOptions| {
            calls.fetch_add(1, Ordering::Relaxed);
            lab::run(scenario, options).map_err(|error| error.to_string())
        };
        let again = make(folder.path(), SWEEP, false, Some(&count));
        assert_eq!((again.meta.failed_cells.len(), again.reused, calls.load(Ordering::Relaxed)), (2, 6, 0));
        let again = make(folder.path(), SWEEP, true, Some(&count));
        assert_eq!((again.meta.failed_cells.len(), again.reused, calls.load(Ordering::Relaxed)), (0, 4, 2));
    }

    #[test]
    fn a_changed_range_keeps_the_cells_that_it_shares() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(make(folder.path(), SWEEP, false, None).reused, 0);
        let wider = SWEEP.replace("[\"2mbit\"", "[\"3mbit\", \"2mbit\"");
        let result = make(folder.path(), &wider, false, None);
        assert_eq!((result.meta.cells, result.reused), (9, 6));
        // The same value in another unit is the same cell.
        let other = SWEEP.replace("\"2mbit\", \"5mbit\"", "\"2000kbit\"");
        assert_eq!(make(folder.path(), &other, false, None).reused, 3);
        let seed = SWEEP.replace("[scenario.bottleneck]", "[scenario]\nseed = 2\n[scenario.bottleneck]");
        assert_eq!(make(folder.path(), &seed, false, None).reused, 0);
    }

    #[test]
    fn a_cell_that_was_cut_off_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), SWEEP, false, None);
        let table = |name: &str| fs::read(folder.path().join("out").join(name)).unwrap();
        let before = (table("sweep.csv"), table("sweep.parquet"));
        let cells = folder.path().join("out/cells");
        let file = fs::read_dir(&cells).unwrap().flat_map(|dir| fs::read_dir(dir.unwrap().path()).unwrap());
        let file = file.map(|file| file.unwrap().path()).min().unwrap();
        let text = fs::read(&file).unwrap();
        fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert_eq!(make(folder.path(), SWEEP, false, None).reused, 5);
        assert!((table("sweep.csv"), table("sweep.parquet")) == before, "the tables differ");
    }
}
