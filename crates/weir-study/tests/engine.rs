//! What suites and figures make of runs that fail, panic or are interrupted, and what they take from an earlier
//! command. Sweeps stand on the same engine; what they make of it is tested beside their code.

#[path = "../src/testing.rs"]
mod testing;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_study::figure::{self, About, Cell, FigureResult, Findings, OfRuns, Place, Plan, Statement};
use weir_study::suite::{self, SuiteResult};
use weir_study::{CELLS, Job, Options, Progress, StudyError};
use weir_world::{RunError, RunOptions, SIM};

use testing::Faulty;

/// World `sim`, in which the runs behind two queues come to nothing.
fn faulty() -> &'static Faulty {
    Faulty::new(SIM, |scenario| match scenario.bottleneck.qdisc.kind() {
        "fq" => panic!("no bucket is {}", "left"),
        "dualpi2" => Err(RunError::Scenario("no namespace".to_owned())),
        _ => Ok(()),
    })
}

/// Goodput over rate, round-trip time and controller.
struct ThreeAxes {
    about: About,
    qdisc: &'static str,
}

const RATES: [&str; 2] = ["2mbit", "5mbit"];
const RTTS: [&str; 2] = ["10ms", "20ms"];
const CONTROLLERS: [&str; 2] = ["reno", "cubic"];

fn figure(qdisc: &'static str, plot: &str) -> ThreeAxes {
    let text = format!(
        "id = 'test/3'\ntitle = 'Goodput'\npaper = 'none'\nworlds = ['sim']\nstate = 'complete'\n\
         axes = ['controller', 'rate', 'delay']\nplot = {plot}\n\
         value = {{ name = 'goodput', unit = 'Mbit/s', decimals = 3 }}\n\
         [[variant]]\nname = 'paper'\nsays = ''\nlaw = 'paper'\n"
    );
    ThreeAxes { about: toml::from_str(&text).unwrap(), qdisc }
}

const HEAT: &str = "{ kind = 'heat', tolerance = 0.1 }";
const POINTS: &str = "{ kind = 'points', y = 'Mbit/s', from = 0, to = 5 }";

impl ThreeAxes {
    fn places(&self) -> Vec<[&'static str; 3]> {
        let of = |rate, rtt| CONTROLLERS.map(|controller| [controller, rate, rtt]);
        RATES.iter().flat_map(|rate| RTTS.iter().flat_map(move |rtt| of(*rate, *rtt))).collect()
    }
}

impl OfRuns for ThreeAxes {
    fn about(&self) -> &About {
        &self.about
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let job = |[controller, rate, rtt]: [&str; 3]| {
            // One cell is behind the queue that the test asks for.
            let special = [controller, rate, rtt] == ["cubic", "5mbit", "10ms"];
            let qdisc = if special { self.qdisc } else { "pfifo limit 20p" };
            let text = format!(
                "bottleneck = {{ rate = '{rate}', rtt = '{rtt}', qdisc = '{qdisc}' }}\n\
                 flow = [{{ stack = 'tcp', controller = '{controller}', duration = '2s' }}]\n"
            );
            let scenario = Scenario { seed: plan.seed, ..Scenario::parse(&text, "test").unwrap() };
            Job { name: format!("{controller}, {rate}, {rtt}"), scenario, run: 0 }
        };
        self.places().into_iter().map(job).collect()
    }

    fn reduce(&self, _: &Plan, _: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let cell = |(labels, result): ([&str; 3], &Result<RunResult, String>)| {
            let mut cell = Cell { paper: Some(1.5), ..Cell::at(Place::new(&self.about, labels)) };
            match result {
                Ok(result) => cell.runs.push(result.flows[0].goodput_bps / 1e6),
                Err(error) => cell.notes.push(error.clone()),
            }
            cell.averaged()
        };
        let cells: Vec<Cell> = self.places().into_iter().zip(results).map(cell).collect();
        let holds = cells.iter().all(|cell| cell.measured.is_some_and(|value| value < 5.0));
        let [text, paper, measured] = ["no flow is faster than its link", "", ""].map(str::to_owned);
        Findings {
            cells,
            statements: vec![Statement {
                text,
                paper,
                measured,
                verdict: holds.into(),
                ..Statement::default()
            }],
            ..Findings::default()
        }
    }
}

fn make_figure(figure: &ThreeAxes, world: &'static Faulty, options: &Options) -> FigureResult {
    let plan = Plan { world, variant: "paper".to_owned(), quick: false, runs: None, seed: 1, only: None };
    figure::run(figure, &plan, options).unwrap()
}

/// A suite of two scenarios over four queues.
fn make_suite(folder: &Path, qdiscs: &[&str], world: &'static Faulty, options: &Options) -> SuiteResult {
    let of = folder.join("suite");
    fs::create_dir_all(&of).unwrap();
    let entry = |section: u32| {
        format!("[[scenario]]\nfile = '{section}.toml'\nsection = '{section}'\ntitle = 't'\nlook = ''\n")
    };
    let about = "title = 'A suite'\nsource = 'a test'\nabout = ''\nqdiscs = ['pfifo']\n";
    fs::write(of.join("suite.toml"), format!("{about}{}{}", entry(1), entry(2))).unwrap();
    for section in [1, 2] {
        let text = format!(
            "bottleneck = {{ rate = '{section}mbit', rtt = '10ms', qdisc = 'pfifo' }}\n\
             flow = [{{ stack = 'tcp', controller = 'cubic', duration = '2s' }}]\n"
        );
        fs::write(of.join(format!("{section}.toml")), text).unwrap();
    }
    let suite = suite::find(of.to_str().unwrap()).unwrap();
    let qdiscs = qdiscs.iter().map(|words| (*words).to_owned()).collect();
    suite::run(&suite, &suite::Plan { qdiscs, ..suite::Plan::new(world) }, options).unwrap()
}

const PANIC: &str = "panicked: no bucket is left; this is a fault of weir";

#[test]
fn a_panic_in_one_run_of_a_figure_is_reported_and_the_others_end() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path(), RunOptions::new(&stop));
    let world = faulty();
    let result = make_figure(&figure("fq", HEAT), world, &options);
    let failed: Vec<&Cell> = result.rows.iter().filter(|cell| cell.measured.is_none()).collect();
    assert_eq!((result.rows.len(), failed.len(), result.missing), (8, 1, 1));
    assert_eq!(failed[0].notes, [PANIC]);
    assert_eq!(failed[0].place.labels().collect::<Vec<_>>(), ["cubic", "5mbit", "10ms"]);
    assert_eq!(result.warnings, [format!("cubic, 5mbit, 10ms: {PANIC}")]);

    // What failed is made again, and only that.
    assert_eq!(world.runs(), 8);
    let again = make_figure(&figure("fq", HEAT), world, &options);
    assert_eq!((again.continued, world.runs()), (7, 9));
    let mended = make_figure(&figure("codel", HEAT), world, &options);
    assert_eq!((mended.continued, mended.missing, world.runs()), (7, 0, 10));
}

#[test]
fn a_panic_and_an_error_in_a_suite_are_reported_and_the_others_end() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path().join("out"), RunOptions::new(&stop));
    let qdiscs = ["pfifo", "fq", "codel", "dualpi2"];
    let result = make_suite(folder.path(), &qdiscs, faulty(), &options);
    let failed: Vec<_> = result.rows.iter().map(|row| row.failed.as_deref()).collect();
    let of_each = [None, Some(PANIC), None, Some("no namespace")];
    assert_eq!(failed, [of_each, of_each].concat());
    assert_eq!(result.missing, 4);
    assert!(result.warnings.contains(&format!("1, fq: {PANIC}")), "{:?}", result.warnings);
    let page = fs::read_to_string(folder.path().join("out/suite.html")).unwrap();
    assert!(page.contains("no bucket is left"));
}

#[test]
fn three_axes_make_rows_and_columns_of_two_labels() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path(), RunOptions::new(&stop));
    let result = make_figure(&figure("codel", HEAT), faulty(), &options);
    let lines: Vec<&str> = result.table.lines().collect();
    assert!(lines[0].starts_with("test/3 (Mbit/s), variant paper; above the paper"), "{}", result.table);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[1]), ["2mbit", "2mbit", "5mbit", "5mbit"]);
    assert_eq!(words(lines[2]), ["10ms", "20ms", "10ms", "20ms"]);
    assert_eq!(words(lines[3]), ["reno", "1.500", "1.500", "1.500", "1.500"]);
    assert_eq!(words(lines[4])[0], "ours");
    let value: f64 = words(lines[4])[1].parse().unwrap();
    assert!(value > 1.0 && words(lines[4])[1].len() == 5, "{}", result.table);
    assert!(result.html.contains("5mbit, 20ms") && result.html.contains("\u{2713} holds"));
    let points = make_figure(&figure("codel", POINTS), faulty(), &options);
    assert!(points.html.contains("<figcaption>5mbit</figcaption>"));

    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("figure.json")).unwrap()).unwrap();
    let row = &json["rows"][1];
    assert_eq!(
        (&row["controller"], &row["rate"], &row["delay"]),
        (&"cubic".into(), &"2mbit".into(), &"10ms".into())
    );
    assert!(row["measured"].as_f64().unwrap() > 1.0 && row["paper"] == 1.5, "{row}");
    assert_eq!(json["rows"].as_array().unwrap().len(), 8);
    assert_eq!(json["statements"][0]["holds"], true);
}

#[test]
fn an_interrupt_loses_nothing_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let run = |jobs: usize, last: usize, seen: &AtomicUsize, make: &dyn Fn(&Options)| {
        let stop = AtomicBool::new(false);
        let progress = |now: Progress| {
            seen.store(now.done, Ordering::Relaxed);
            if now.done >= last {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let options = Options {
            jobs: Some(jobs),
            progress: &progress,
            ..Options::new(folder.path().join("out"), RunOptions::new(&stop))
        };
        make(&options);
    };
    let (world, seen) = (faulty(), AtomicUsize::new(0));
    run(1, 3, &seen, &|options| {
        let result = make_suite(folder.path(), &["pfifo", "codel", "pie"], world, options);
        assert_eq!((result.continued, result.missing), (0, 3));
        assert_eq!(result.rows.iter().filter(|row| row.failed.is_some()).count(), 3);
        assert!(result.warnings.iter().all(|warning| warning.contains("interrupted")));
    });
    assert!(folder.path().join("out").join(CELLS).exists());
    // A file of a run that has ended is changed, and a run's folder is gone.
    fs::write(folder.path().join("out/runs/1--codel/flows.csv"), "flow\n").unwrap();
    fs::remove_dir_all(folder.path().join("out/runs/1--pfifo")).unwrap();
    run(2, 7, &seen, &|options| {
        let result = make_suite(folder.path(), &["pfifo", "codel", "pie"], world, options);
        assert_eq!((result.continued, result.damaged, result.missing), (1, 2, 0));
    });
    assert_eq!((seen.load(Ordering::Relaxed), world.runs()), (6, 8));
    // All have a result: what is made next is made anew.
    assert!(!folder.path().join("out").join(CELLS).exists());
    run(2, 7, &seen, &|options| {
        let whole = make_suite(folder.path(), &["pfifo", "codel", "pie"], world, options);
        assert_eq!(whole.continued, 0);
    });
}

#[test]
fn a_batch_leaves_the_results_of_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path().join("out"), RunOptions::new(&stop));
    let other = folder.path().join("out").join(CELLS).join("00/other.json");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, "{}").unwrap();
    let result = make_suite(folder.path(), &["pfifo"], faulty(), &options);
    assert_eq!((result.missing, fs::read_to_string(&other).unwrap().as_str()), (0, "{}"));
}

#[test]
fn the_same_queue_in_other_words_runs_once_and_has_both_folders() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path().join("out"), RunOptions::new(&stop));
    let world = faulty();
    let result = make_suite(folder.path(), &["codel", "codel target 5ms"], world, &options);
    assert_eq!((result.rows.len(), result.missing, world.runs()), (4, 0, 2));
    for name in ["1--codel", "1--codel-target-5ms"] {
        assert!(folder.path().join("out/runs").join(name).join("run.json").exists(), "{name}");
    }
}

#[test]
fn two_runs_with_one_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path(), RunOptions::new(&stop));
    struct Clash(ThreeAxes);
    impl OfRuns for Clash {
        fn about(&self) -> &About {
            &self.0.about
        }
        fn jobs(&self, plan: &Plan) -> Vec<Job> {
            let mut jobs = self.0.jobs(plan);
            (jobs[0].name, jobs[1].name) = ("a b".to_owned(), "a-b".to_owned());
            jobs
        }
        fn reduce(&self, _: &Plan, _: &[Job], _: &[Result<RunResult, String>]) -> Findings {
            panic!("nothing may run")
        }
    }
    let plan =
        Plan { world: faulty(), variant: "paper".to_owned(), quick: false, runs: None, seed: 1, only: None };
    let made = figure::run(&Clash(figure("codel", HEAT)), &plan, &options);
    let Err(figure::FigureError::Study(StudyError::Names(..))) = made else { panic!("{made:?}") };
}
