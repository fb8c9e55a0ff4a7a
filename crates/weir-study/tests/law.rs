//! Figure `law/accuracy` over twenty mixes: how many verdicts are right, by class and preset, as a table that says what a
//! change of the law changes. `WEIR_WRITE_PAGES=1 cargo test -p weirnet-study --test law` writes it.
//!
//! And what the figure makes of verdicts on real packets: virtual ones under another name stand for these.

#[path = "../src/testing.rs"]
mod testing;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_study::figure::{self, Plan, Verdict};
use weir_study::{CELLS, Options, Progress};
use weir_world::{EMU, RunOptions, SIM};

use testing::Faulty;

const MIXES: u32 = 20;
const HEADER: &str = "preset    class          flows  right  unclassified";

#[test]
fn twenty_mixes_are_judged_as_they_were() {
    let out = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let figure = figure::find("law/accuracy").unwrap();
    let plan =
        Plan { world: SIM, variant: "fit".to_owned(), quick: false, runs: Some(MIXES), seed: 1, only: None };
    let result = figure::run(&*figure, &plan, &Options::new(out.path(), RunOptions::new(&stop))).unwrap();
    assert_eq!(result.missing, 0, "{:?}", result.warnings);
    let mut table = format!("{HEADER}\n");
    for cell in result.rows.iter().filter(|cell| cell.place.on("signal") == "both") {
        let [flows, right, unclassified] = ["flows", "right", "unclassified"].map(|key| cell.more[key]);
        let (preset, class) = (cell.place.on("preset"), cell.place.on("class"));
        let _ = writeln!(table, "{preset:8}  {class:12}  {flows:6}  {right:5}  {unclassified:12}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/law.txt");
    if std::env::var_os("WEIR_WRITE_PAGES").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap();
    assert_eq!(
        known, table,
        "the law judges otherwise; if that is meant, write tests/law.txt (see this file's head)"
    );
}

#[test]
fn verdicts_stand_beside_those_of_world_sim_and_an_interrupt_there_loses_no_real_run() {
    let out = tempfile::tempdir().unwrap();
    let figure = figure::find("law/accuracy").unwrap();
    let world = Faulty::new(EMU, |_| Ok(()));
    let plan = Plan { world, variant: "real".to_owned(), quick: true, runs: Some(2), seed: 1, only: None };
    let make = |progress: &(dyn Fn(Progress) + Sync), stop: &AtomicBool| {
        let options = Options { jobs: Some(1), progress, ..Options::new(out.path(), RunOptions::new(stop)) };
        figure::run(&*figure, &plan, &options).unwrap()
    };
    let stop = AtomicBool::new(false);
    let stop_in_sim = |now: Progress| stop.store(now.last.ends_with("in sim"), Ordering::Relaxed);
    let cut = make(&stop_in_sim, &stop);
    assert_eq!((cut.missing, cut.continued, world.runs()), (1, 0, 2), "{:?}", cut.warnings);

    let whole = make(&|_| {}, &AtomicBool::new(false));
    assert_eq!((whole.missing, whole.continued, world.runs()), (0, 3, 2), "{:?}", whole.warnings);
    let beside = whole.statements.iter().find(|one| one.text.contains("in world sim")).unwrap();
    assert!(beside.measured.starts_with("100.0 %"), "the same packets: {}", beside.measured);
    assert_eq!(beside.verdict, Verdict::CannotTell, "two mixes are too few: {:?}", beside.interval);
    assert_eq!(fs::read_dir(out.path().join("runs")).unwrap().count(), 4, "two runs in each world");
    assert!(!out.path().join(CELLS).exists(), "what is made next is made anew");
}

#[test]
fn few_flows_tell_little_and_none_tell_nothing() {
    let figure = figure::find("law/accuracy").unwrap();
    let stop = AtomicBool::new(false);
    for (only, is_left) in [(", robust", true), (", paper", false)] {
        let out = tempfile::tempdir().unwrap();
        let (variant, only) = ("check".to_owned(), Some(only.to_owned()));
        let plan = Plan { world: SIM, variant, quick: false, runs: Some(3), seed: 1, only };
        let result = figure::run(&*figure, &plan, &Options::new(out.path(), RunOptions::new(&stop))).unwrap();
        for said in result.statements.iter().filter(|said| !is_left || said.text.ends_with(": right")) {
            assert_eq!(said.verdict, Verdict::CannotTell, "{said:?}");
        }
        assert_eq!(result.statements.len(), 9);
    }
}
