//! The files of all figures over sweeps, and one that is made.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use weir_report::page::MOST_LINES;
use weir_world::{EMU, RunOptions, SIM};

use super::beside::beside;
use super::claim::Table;
use super::extract::Extract;
use super::file::{Bounds, Chart, Claim, Fold, Labels, Where};
use super::{Extracts, Swept, by_cell, cells, load};
use crate::engine::Options;
use crate::figure::{Figure, Plan, Verdict, run};

/// Each axis and grid that a chart or a claim names exists, and each label that it names is one of its grids'.
#[test]
fn files_name_axes_and_labels_that_there_are() {
    for figure in load() {
        let id = &figure.about.id;
        let axis = |name: &String| {
            assert!(figure.file.axis.iter().any(|axis| axis.name == *name), "{id}: no axis '{name}'");
        };
        for variant in &figure.about.variants {
            let all = cells::all(&figure.file, &variant.name, false);
            let is_there = |name: &String, label: &String| {
                let place = figure.file.axis.iter().position(|axis| axis.name == *name).unwrap();
                all.iter().any(|one| one.labels[place] == *label)
            };
            let labels = |cells: &Where| {
                for (name, wanted) in cells {
                    axis(name);
                    let each = match wanted {
                        Labels::One(one) => std::slice::from_ref(one),
                        Labels::Several(several) => several,
                    };
                    for label in each {
                        assert!(is_there(name, label), "{id}, {}: no '{label}' on '{name}'", variant.name);
                    }
                }
            };
            for (name, only) in &figure.file.quick.only {
                axis(name);
                assert!(
                    only.iter().any(|label| is_there(name, label)),
                    "{id}: --quick leaves nothing of {name}"
                );
            }
            let is_first = variant.name == figure.about.variants[0].name;
            let is_said = |claim: &&Claim| match claim.variants.as_slice() {
                [] => is_first,
                named => named.contains(&variant.name),
            };
            for claim in figure.file.claim.iter().filter(is_said) {
                labels(&claim.cells);
                claim.each.iter().for_each(|name| {
                    axis(name);
                });
                let grids = &figure.file.grids[&variant.name];
                let over = claim.over.iter().filter_map(|over| over.grid.as_ref());
                let cause = claim.cause.iter().filter_map(|cause| cause.grid.as_ref());
                for grid in claim.grid.iter().chain(over).chain(cause) {
                    assert!(grids.contains(grid), "{id}, {}: no grid '{grid}'", variant.name);
                }
                claim.over.iter().flat_map(|over| &over.labels).for_each(|(name, label)| {
                    axis(name);
                    assert!(is_there(name, label), "{id}: no '{label}' on '{name}'");
                });
                assert!(claim.least.is_some() || claim.most.is_some(), "{id}: '{}' has no bound", claim.text);
                claim.cause.iter().for_each(|cause| labels(&cause.cells));
            }
        }
        for chart in &figure.file.chart {
            let (named, cells): (Vec<&String>, &Where) = match chart {
                Chart::Lines { across, lines, panels, cells, of, .. } => {
                    let drawn = of.len() * labels_on(&figure, lines);
                    assert!(drawn <= MOST_LINES, "{id}: {drawn} lines, of which {MOST_LINES} would be drawn");
                    (std::iter::once(across).chain(lines).chain(panels).collect(), cells)
                }
                Chart::Matrix { rows, columns, panels, cells, .. } => {
                    ([rows, columns].into_iter().chain(panels).collect(), cells)
                }
                Chart::Delay { lines, panels, cells, .. } => (lines.iter().chain(panels).collect(), cells),
                Chart::Completion { panels, cells, .. } => (panels.iter().collect(), cells),
            };
            named.into_iter().chain(cells.keys()).for_each(axis);
        }
    }
}

/// How many combinations of labels on these axes the figure has, all variants together.
fn labels_on(figure: &Swept, names: &[String]) -> usize {
    let places = |name: &String| figure.file.axis.iter().position(|axis| axis.name == *name).unwrap();
    let places: Vec<usize> = names.iter().map(places).collect();
    let all = figure.about.variants.iter().flat_map(|one| cells::all(&figure.file, &one.name, false));
    let labels = all.map(|one| places.iter().map(|place| one.labels[*place].clone()).collect::<Vec<_>>());
    labels.collect::<BTreeSet<_>>().len()
}

/// What a variant is said to be made of on real packets real packets can do; and each world has its first variant.
#[test]
fn variants_can_be_made_in_their_worlds() {
    let mut real = 0;
    for figure in load() {
        let about = &figure.about;
        for variant in
            about.variants.iter().filter(|one| about.worlds_of(one).iter().any(|it| it == EMU.name()))
        {
            for one in cells::all(&figure.file, &variant.name, false) {
                let checked = EMU.check(&one.scenario).map_err(|refusal| refusal.message);
                assert_eq!(checked, Ok(()), "{}, {}: {}", about.id, variant.name, one.name());
                real += 1;
            }
            assert!(!figure.file.beside_sim.is_empty(), "{}: nothing is compared with sim", about.id);
        }
    }
    assert!(real > 60, "{real}");

    let figure = load().find(|figure| figure.about.id == "dualq/7").unwrap();
    assert_eq!(["sim", "emu"].map(|world| figure.about.variant_in(world).name.as_str()), ["paper", "real"]);
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let plan = Plan { world: EMU, variant: "paper".to_owned(), quick: true, runs: None, seed: 1, only: None };
    let refused = run(&figure, &plan, &Options::new(folder.path(), RunOptions::new(&stop))).err().unwrap();
    assert_eq!(
        refused.to_string(),
        "variant paper of figure dualq/7 cannot be made in world emu; use --on with one of: sim"
    );
}

/// A grid with `repeat` has so many runs of each cell, the others the figure's own number.
#[test]
fn each_cell_has_the_runs_of_its_grid() {
    let figure = load().find(|figure| figure.about.id == "scc/6").unwrap();
    let plan =
        |runs| Plan { world: SIM, variant: "paper".to_owned(), quick: false, runs, seed: 1, only: None };
    let combinations = figure.combinations(&plan(None));
    let extract = |run: u64| Extract {
        numbers: vec![("link".to_owned(), "run".to_owned(), run as f64)],
        ..Extract::default()
    };
    let extracts: Extracts = figure.jobs(&plan(None)).iter().map(|job| Ok(extract(job.run))).collect();
    let runs = combinations.iter().map(|one| figure.runs(&plan(None), one));
    for (one, cell) in combinations.iter().zip(by_cell(&extracts, runs)) {
        let numbers: Vec<f64> = cell.iter().flatten().filter_map(|run| run.number("link", "run")).collect();
        let expected = if one.grid == "scc/mono-bbr2-50-ends" { 64 } else { 6 };
        assert_eq!(numbers.len(), expected, "{}", one.name());
        // Cells that draw by themselves have runs of numbers of their own.
        let own = numbers[0];
        let is_alike = one.grid == "scc/mono-dctcp-50" || own == 0.0;
        let in_order = numbers.iter().zip(0..).all(|(number, run)| *number == own + f64::from(run));
        assert!(is_alike && in_order, "{}: {numbers:?}", one.name());
    }
    assert_eq!(figure.jobs(&plan(Some(2))).len(), 2 * combinations.len());
}

/// A run with a warning does not count beside others without; where all have one, the cell says so.
#[test]
fn runs_with_warnings_are_not_compared() {
    let text = format!(
        "beside_sim = [{{ name = 'use', of = 'link', measure = 'use', over = {{ of = 'link', measure = 'all' }} }}]\n{FIGURE}"
    );
    let figure = Swept::of(toml::from_str(&text).unwrap());
    let combinations = cells::all(&figure.file, "paper", true);
    let extract = |value: f64, warnings: &[&str]| Extract {
        numbers: [("use", value), ("all", 2.0)]
            .map(|(measure, value)| ("link".to_owned(), measure.to_owned(), value))
            .to_vec(),
        warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
        ..Extract::default()
    };
    let [good, late, sim] = [extract(3.0, &[]), extract(100.0, &["late"]), extract(4.0, &[])];
    let table = Table {
        axes: &figure.file.axis,
        combinations: &combinations,
        runs: vec![vec![Some(&good), Some(&late), None], vec![Some(&late)]],
    };
    let sim = [vec![Some(&sim), Some(&sim)], vec![None]];
    let made = beside("emu", &figure.file.beside_sim, &table, &sim);
    let rows: Vec<Vec<&str>> =
        made.text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["FIFO,", "RTT", "10ms", "1.50,", "2.00"], "{}", made.text);
    assert_eq!(rows[1], ["step,", "RTT", "10ms*", "50.00,", "-"], "{}", made.text);
    assert!(
        made.html.contains("<td>FIFO, RTT 10ms</td><td>1.50</td><td>2.00 (2.00 to 2.00)</td><td>0.75</td>")
    );
}

const FIGURE: &str = r#"
runs = 2
about.id = "x/1"
about.title = "A test"
about.paper = "none"
about.worlds = ["sim"]
about.state = "complete"
axis = [{ name = "queue", key = "bottleneck.qdisc", labels = ["FIFO", "step"] }, { name = "RTT", key = "bottleneck.rtt" }]
quick = { shorter = 0.5, only = { RTT = ["10ms"] } }
[[about.variant]]
name = "paper"
says = "as it is"
[grids]
paper = ["test"]
[[chart]]
kind = "lines"
title = "Delay"
across = "RTT"
lines = ["queue"]
of = [{ of = "link", measure = "queue_delay_mean_ms" }]
y = "ms"
[[chart]]
kind = "matrix"
title = "Use"
rows = "queue"
columns = "RTT"
of = { of = "link", measure = "link_utilisation", scale = 100 }
from = 0
to = 100
[[chart]]
kind = "delay"
title = "Delays"
panels = ["RTT"]
lines = ["queue"]
of = ["flow"]
[[chart]]
kind = "lines"
title = "Use over RTT"
across = "RTT"
lines = ["queue"]
of = [{ of = "link", measure = "link_utilisation", scale = 100 }]
y = "%"
[[claim]]
text = "the step keeps the delay low"
paper = "low"
of = "link"
measure = "queue_delay_mean_ms"
where = { queue = "step" }
most = 5
unit = "ms"
[[claim]]
text = "the queue without marks is ten times as long"
paper = "long"
of = "link"
measure = "queue_delay_mean_ms"
where = { queue = "FIFO" }
over = { at = { queue = "step" } }
fold = "least"
least = 10
[[claim]]
text = "no delay is above a millisecond in nine of ten cells"
paper = "short"
of = "link"
measure = "queue_delay_mean_ms"
within = { most = 1 }
least = 90
cause = { text = "the queue without marks", where = { queue = "step" } }
"#;

#[test]
fn a_sentence_is_a_bound_of_a_number_over_cells() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let figure = Swept::of(toml::from_str(FIGURE).unwrap());
    let plan =
        |quick| Plan { world: SIM, variant: "paper".to_owned(), quick, runs: None, seed: 1, only: None };
    let make = |name: &str, quick| {
        let options = Options::new(folder.path().join(name), RunOptions::new(&stop));
        run(&figure, &plan(quick), &options).unwrap()
    };
    let first = make("first", false);
    let verdicts: Vec<Verdict> = first.statements.iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::Holds, Verdict::DoesNot], "{:?}", first.statements);
    let cause = first.statements[2].cause.as_ref().unwrap();
    assert_eq!(
        (cause.verdict, cause.measured.as_str()),
        (Verdict::Holds, "100.00 \u{b1} 0.00 % of cells over 2 runs")
    );
    assert_eq!(first.rows.len(), 4);
    assert!(first.rows[0].more["link: link_utilisation"] > 0.5, "{:?}", first.rows[0]);
    for index in 1..=5 {
        assert!(folder.path().join(format!("first/figure-{index}.svg")).exists());
    }
    assert!(first.html.contains("Delays: RTT 10ms") && first.html.contains("<rect"), "{}", first.html);
    let share = std::fs::read_to_string(folder.path().join("first/figure-5.svg")).unwrap();
    assert!(share.contains("\n100\n") && !share.contains("\n120\n"), "no share is above 100 %: {share}");
    assert_eq!(first.continued, 0);

    // The same in a folder beside it has nothing to run.
    let second = make("second", false);
    assert_eq!((second.continued, second.missing), (8, 0));
    assert_eq!(second.statements[0].measured, first.statements[0].measured);

    let quick = make("quick", true);
    assert_eq!((quick.rows.len(), quick.continued), (2, 0));
    assert_eq!(quick.statements[0].verdict, Verdict::CannotTell, "one run tells nothing of the next");
}

#[test]
fn a_claim_of_cells_that_were_not_asked_for_cannot_be_told() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let figure = Swept::of(toml::from_str(FIGURE).unwrap());
    let only = Some("10ms".to_owned());
    let plan = Plan { world: SIM, variant: "paper".to_owned(), quick: false, runs: None, seed: 1, only };
    let made = run(&figure, &plan, &Options::new(folder.path(), RunOptions::new(&stop))).unwrap();
    assert_eq!((made.rows.len(), made.missing), (2, 0));
    let said: Vec<_> = made.statements.iter().map(|one| (one.verdict, one.measured.as_str())).collect();
    assert_eq!(said, [(Verdict::CannotTell, "not measured"); 3]);
}

/// A run with this mean delay.
fn delayed(ms: f64) -> Extract {
    Extract { numbers: vec![("link".to_owned(), "queue_delay_mean_ms".to_owned(), ms)], ..Extract::default() }
}

/// A run in which a cell, or the cell that it is held against, came to nothing says nothing of all cells.
#[test]
fn a_run_without_one_of_its_cells_does_not_count() {
    let figure = Swept::of(toml::from_str(FIGURE).unwrap());
    let combinations = cells::all(&figure.file, "paper", false);
    let [fifo, step] = [delayed(20.0), delayed(1.0)];
    let measured = |lost: &str| {
        let runs = combinations.iter().map(|one| match one.labels[0].as_str() {
            "FIFO" => vec![Some(&fifo); 3],
            _ if one.name() == lost => vec![Some(&step), None, Some(&step)],
            _ => vec![Some(&step); 3],
        });
        let table = Table { axes: &figure.file.axis, combinations: &combinations, runs: runs.collect() };
        table.statement(&figure.file.claim[1]).measured
    };
    assert!(measured("").ends_with("over 3 runs"), "{}", measured(""));
    let last = combinations.last().unwrap().name();
    assert!(measured(&last).ends_with("over 2 runs"), "{last}: {}", measured(&last));
}

/// What is said of each label of an axis does not hold if it does not of one, whatever the mean.
#[test]
fn what_is_said_of_each_must_hold_of_each() {
    let mut figure = Swept::of(toml::from_str(FIGURE).unwrap());
    let claim = &mut figure.file.claim[0];
    claim.cells.clear();
    claim.most = Some(10.0);
    let combinations = cells::all(&figure.file, "paper", false);
    let extracts = [1.0, 15.0].map(delayed);
    let runs = combinations.iter().map(|one| vec![Some(&extracts[usize::from(one.labels[0] == "FIFO")]); 2]);
    let table = Table { axes: &figure.file.axis, combinations: &combinations, runs: runs.collect() };
    let mut claim = figure.file.claim[0].clone();
    assert_eq!(table.statement(&claim).verdict, Verdict::Holds, "8 ms in the mean");
    claim.each = Some("queue".to_owned());
    let statement = table.statement(&claim);
    assert_eq!(statement.verdict, Verdict::DoesNot);
    let words = "FIFO 15.00 \u{b1} 0.00 ms, step 1.00 \u{b1} 0.00 ms over 2 runs".to_owned();
    assert_eq!((statement.measured, statement.interval), (words, None));
}

/// A cell in which the other class starves is one in which classes are not even.
#[test]
fn something_over_nothing_is_outside_of_all_bounds() {
    let figure = Swept::of(toml::from_str(FIGURE).unwrap());
    let combinations = cells::all(&figure.file, "paper", false);
    let extracts = [delayed(0.0), delayed(1.0)];
    let judged = |starves: &str, change: fn(&mut Claim)| {
        let is_nothing = |one: &cells::Combination| one.labels[0] == "step" && one.labels[1] == starves;
        let runs = combinations.iter().map(|one| vec![Some(&extracts[usize::from(!is_nothing(one))]); 2]);
        let table = Table { axes: &figure.file.axis, combinations: &combinations, runs: runs.collect() };
        let mut claim = figure.file.claim[1].clone();
        (claim.fold, claim.least) = (Fold::Mean, Some(0.5));
        change(&mut claim);
        let statement = table.statement(&claim);
        (statement.verdict, statement.measured)
    };
    let within = |claim: &mut Claim| {
        claim.within = Some(Bounds { least: Some(0.5), most: Some(2.0) });
        claim.least = Some(90.0);
    };
    assert_eq!(judged("none", within).0, Verdict::Holds);
    let half = (Verdict::DoesNot, "50.00 \u{b1} 0.00 % of cells over 2 runs".to_owned());
    assert_eq!(judged("10ms", within), half);
    let words = "without bound in 2, over 2 runs".to_owned();
    assert_eq!(judged("10ms", |_| ()), (Verdict::CannotTell, words.clone()));
    assert_eq!(judged("10ms", |claim| claim.most = Some(2.0)), (Verdict::DoesNot, words));
}

/// BBRv2 as released has a warning where it ignores marks, and a figure of what it does then is not doubtful for that.
#[test]
fn what_an_experiment_is_about_is_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let variant = "released".to_owned();
    let only = Some("STEP, 0.17, 2".to_owned());
    let plan = Plan { world: SIM, variant, quick: true, runs: Some(1), seed: 1, only };
    let warnings = |name: &str, figure: &Swept| {
        let options = Options::new(folder.path().join(name), RunOptions::new(&stop));
        run(figure, &plan, &options).unwrap().warnings
    };
    let mut figure = load().find(|figure| figure.about.id == "scc/8").unwrap();
    assert_eq!(warnings("expected", &figure), [""; 0]);
    figure.file.expects.clear();
    let told = warnings("told", &figure);
    assert!(told.len() == 1 && told[0].contains("'bbr2' ignored its ECN marks"), "{told:?}");
}
