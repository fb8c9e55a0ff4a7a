//! The machinery of figures on real packets, with a figure small enough for a test: two cells, two runs at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_study::figure::{self, About, Cell, FigureError, Findings, OfRuns, Place, Plan};
use weir_study::{CELLS, Job, Options, Progress};
use weir_testkit::skip::root_and_turn;
use weir_world::RunOptions;

/// A scenario from the lines of its bottleneck and its flows, each flow a line of an inline table.
fn scenario(bottleneck: &str, flows: &[&str]) -> Scenario {
    let flows: Vec<String> = flows.iter().map(|flow| format!("{{ {flow} }}")).collect();
    let text = format!(
        "flow = [{}]\nbottleneck = {{ {bottleneck} }}\n[measure]\ntimeout = \"20s\"\n",
        flows.join(", ")
    );
    Scenario::parse(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Completion times of 500 kB behind two queues.
struct Small(About);

const ABOUT: &str = r#"
id = "test/1"
title = "Completion times"
paper = "none"
worlds = ["emu"]
state = "complete"
axes = ["queue"]
value = { name = "time", unit = "s", decimals = 2 }
plot = { kind = "points", y = "s", from = 0, to = 1 }
[[variant]]
name = "paper"
says = ""
law = "paper"
"#;

const QUEUES: [&str; 2] = ["bfifo limit 1bdp", "codel limit 1bdp"];

fn small() -> Small {
    Small(toml::from_str(ABOUT).unwrap())
}

impl OfRuns for Small {
    fn about(&self) -> &About {
        &self.0
    }

    fn jobs(&self, plan: &Plan) -> Vec<Job> {
        let job = |queue: &str| Job {
            name: name_of(queue),
            scenario: Scenario {
                seed: plan.seed,
                ..scenario(
                    &format!("rate = '20mbit', rtt = '5ms', qdisc = '{queue}'"),
                    &["stack = 'tcp', controller = 'cubic', bytes = '500kb'"],
                )
            },
            run: 0,
        };
        let all = QUEUES.map(job).into_iter();
        all.filter(|job| plan.only.as_ref().is_none_or(|only| job.name.contains(only.as_str()))).collect()
    }

    fn reduce(&self, _: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> Findings {
        let cells = jobs.iter().zip(results).map(|(job, result)| {
            let measured = result.as_ref().ok().inspect(|result| assert_small(result));
            let measured = measured.and_then(|result| result.flows[0].fct_s);
            Cell {
                runs: measured.into_iter().collect(),
                notes: result.as_ref().err().cloned().into_iter().collect(),
                ..Cell::at(Place::new(&self.0, [job.name.as_str()]))
            }
            .averaged()
        });
        Findings { cells: cells.collect(), ..Findings::default() }
    }
}

/// What a figure gets of a run: all but the samples over time, which are on disk.
fn assert_small(result: &RunResult) {
    assert!(result.series.queues.is_empty() && result.assessments.is_empty());
    assert_eq!((result.health.unaccounted, result.health.overtaken), (0, 0));
}

fn plan(only: Option<&str>) -> Plan {
    Plan {
        world: weir_world::EMU,
        variant: "paper".to_owned(),
        quick: true,
        runs: None,
        seed: 5,
        only: only.map(str::to_owned),
    }
}

#[test]
fn a_figure_runs_its_cells_side_by_side_and_keeps_their_data() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let told = Mutex::new(Vec::new());
    let progress = |now: Progress| told.lock().unwrap().push((now.done, now.total));
    let options = |out: &str| Options {
        out: folder.path().join(out),
        jobs: Some(2),
        retry_failed: false,
        run: RunOptions::new(&stop),
        progress: &progress,
    };
    let result = figure::run(&small(), &plan(None), &options("whole")).unwrap();
    assert_eq!(result.rows.len(), 2);
    for cell in &result.rows {
        // 500 kB at 20 Mbit/s take 0.22 s.
        assert!(cell.measured.is_some_and(|fct| (0.2..10.0).contains(&fct)), "{cell:?}");
    }
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    assert_eq!(told, [(1, 2), (2, 2)]);
    for file in ["figure.json", "figure.txt", "figure.html", "runs/bfifo-limit-1bdp--run-0/run.json"] {
        assert!(folder.path().join("whole").join(file).exists(), "{file}");
    }
    let series = folder.path().join("whole/runs/codel-limit-1bdp--run-0/flow_series.csv");
    assert!(std::fs::read_to_string(series).unwrap().lines().count() > 2, "samples are on disk");
}

#[test]
fn a_figure_that_is_stopped_says_which_cells_are_missing() {
    let Some(_turn) = root_and_turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    // Stops after the first of two runs.
    let progress = |_: Progress| stop.store(true, Ordering::Relaxed);
    let options = Options {
        out: folder.path().to_owned(),
        jobs: Some(1),
        retry_failed: false,
        run: RunOptions::new(&stop),
        progress: &progress,
    };
    let result = figure::run(&small(), &plan(None), &options).unwrap();
    assert!(result.rows[0].measured.is_some() && result.rows[0].notes.is_empty(), "{:?}", result.rows);
    assert_eq!(result.rows[1].measured, None);
    assert!(result.rows[1].notes[0].contains("interrupted"), "{:?}", result.rows);
    assert!(folder.path().join("figure.json").exists());

    // The same command again makes what is missing, and a third all.
    let again = |seed| {
        let stop = AtomicBool::new(false);
        let told = Mutex::new(Vec::new());
        let progress = |now: Progress| told.lock().unwrap().push((now.done, now.last));
        let options = Options {
            out: folder.path().to_owned(),
            jobs: Some(1),
            retry_failed: false,
            run: RunOptions::new(&stop),
            progress: &progress,
        };
        let result = figure::run(&small(), &Plan { seed, ..plan(None) }, &options).unwrap();
        (result, told.into_inner().unwrap())
    };
    let cells = folder.path().join(CELLS);
    assert!(cells.exists() && result.missing == 1);
    let (second, told) = again(5);
    assert_eq!((second.continued, second.rows[0].measured), (1, result.rows[0].measured));
    assert!(second.rows.iter().all(|cell| cell.measured.is_some()), "{:?}", second.rows);
    assert_eq!(told, [(1, String::new()), (2, name_of(QUEUES[1]))]);
    assert!(!cells.exists() && second.missing == 0);
    let (third, told) = again(5);
    assert_eq!((third.continued, told.len()), (0, 2));
}

#[test]
fn a_figure_over_time_draws_each_of_its_flows() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let make = |id: &str, quick| {
        let plan = Plan { world: weir_world::SIM, quick, seed: 1, ..plan(None) };
        let options = Options::new(folder.path().join(id), RunOptions::new(&stop));
        figure::run(figure::find(id).unwrap().as_ref(), &plan, &options).unwrap()
    };
    // Two flows of one run, at 5 Mbit/s.
    let shared = make("fq/5", true);
    let flows: Vec<_> = shared.rows.iter().map(|cell| cell.place.on("flow")).collect();
    assert_eq!(flows, ["delay-based", "Cubic"]);
    let sum: f64 = shared.rows.iter().filter_map(|cell| cell.measured).sum();
    assert!((4.7..5.01).contains(&sum), "{sum}");
    assert_eq!(shared.html.matches("role=\"img\"").count(), 2);
    for flow in flows {
        assert!(shared.html.contains(&format!("<figcaption>{flow}</figcaption>")), "{flow}");
        assert!(shared.html.contains(&format!("\n{flow}: mean ")), "{flow}");
    }
    // The samples are drawn, and not in the JSON.
    let json = std::fs::read_to_string(folder.path().join("fq/5/figure.json")).unwrap();
    assert!(json.contains("rtt_max_ms") && json.len() < 5000, "{json}");
    assert!(shared.statements.is_empty());

    // The paper's figure 2: a full queue is 100 packets of 1.21 ms, and one is being sent.
    let alone = make("fq/2", false);
    assert!(
        (130.0..10.0 + 102.0 * 1.2112).contains(&alone.rows[0].more["rtt_max_ms"]),
        "{:?}",
        alone.rows[0].more
    );
    assert_eq!(alone.statements.len(), 2);
    assert!(alone.statements.iter().all(|statement| statement.holds()), "{:?}", alone.statements);
}

fn name_of(queue: &str) -> String {
    format!("{queue}, run 0")
}

#[test]
fn a_figure_that_cannot_be_made_says_so_before_it_runs() {
    let stop = AtomicBool::new(false);
    let options = |out: &str| Options {
        out: out.into(),
        jobs: None,
        retry_failed: false,
        run: RunOptions::new(&stop),
        progress: &|_| panic!("nothing may run"),
    };
    let wrong = Plan { variant: "papre".to_owned(), ..plan(None) };
    assert!(matches!(figure::run(&small(), &wrong, &options("/nowhere")), Err(FigureError::Variant { .. })));
    let nothing = figure::run(&small(), &plan(Some("no such cell")), &options("/nowhere"));
    let Err(error) = nothing else { panic!("nothing may run") };
    let FigureError::Nothing { like, .. } = &error else { panic!("{error}") };
    assert!(small().jobs(&plan(None)).iter().any(|job| job.name == *like), "{error}");
}
