//! What comes of cells that run, fail or are there already.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::AtomicBool;

use weir_world::{RunError, RunOptions, SIM};

use super::super::{MOST_CELLS, Sweep, SweepResult};
use super::run;
use crate::testing::Faulty;
use crate::{Foreign, Options};

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

fn faulty() -> &'static Faulty {
    Faulty::new(SIM, |scenario| {
        let controller = scenario.flows[0].controller.as_str();
        match (controller, scenario.bottleneck.rate.bits_per_sec()) {
            ("cubic", 5_000_000) => panic!("the window is {}", "gone"),
            ("reno", 5_000_000) => std::panic::panic_any(Foreign("a rule of one's own failed".to_owned())),
            ("bbr", 2_000_000) => Err(RunError::Scenario("no namespace".to_owned())),
            _ => Ok(()),
        }
    })
}

fn sound() -> &'static Faulty {
    Faulty::new(SIM, |_| Ok(()))
}

fn make(folder: &std::path::Path, text: &str, retry: bool, world: Option<&'static Faulty>) -> SweepResult {
    let path = folder.join("s.toml");
    fs::write(&path, text).unwrap();
    let sweep = Sweep::load(&path, MOST_CELLS, false).unwrap();
    let sweep = match world {
        Some(world) => sweep.in_world(world),
        None => sweep,
    };
    let stop = AtomicBool::new(false);
    let options = Options {
        jobs: Some(2),
        retry_failed: retry,
        ..Options::new(folder.join("out"), RunOptions::new(&stop))
    };
    run(&sweep, &options, "test").unwrap()
}

/// The rows of a table, by column.
fn table(folder: &std::path::Path, name: &str) -> Vec<HashMap<String, String>> {
    let mut rows = csv::Reader::from_path(folder.join("out").join(name)).unwrap();
    rows.deserialize().map(Result::unwrap).collect()
}

#[test]
fn a_light_sub_flow_has_a_row_and_no_numbers_of_its_block() {
    let folder = tempfile::tempdir().unwrap();
    let probe = "[[scenario.flow]]\nname = \"probe\"\nstack = \"quic\"\ncontroller = \"cubic\"\n\
        detector = \"trains\"\nduration = \"300ms\"\n[[scenario.flow]]\nname = \"bulk\"\n";
    let text = SWEEP.replace("flow.0", "flow.bulk").replace("[[scenario.flow]]\n", probe);
    make(folder.path(), &text, false, None);
    let rows = table(folder.path(), "sweep.csv");
    let of = |row: usize| (rows[row]["flow"].as_str(), rows[row]["flow_index"].as_str());
    assert_eq!(
        [of(0), of(1), of(2), of(3)],
        [("probe", "0"), ("probe light", "0"), ("bulk", "1"), ("probe", "0")]
    );
    let number = |name: &str| rows[2][name].parse::<f64>().unwrap();
    let of_half_the_link = number("throughput_bps") / (number("bottleneck.rate_bps") / 2.0);
    assert!((number("relative_throughput") - of_half_the_link).abs() < 1e-4, "{of_half_the_link}");
    let means = table(folder.path(), "means.csv");
    for (place, name) in [(0, "probe"), (2, "bulk")] {
        let mean = means.iter().find(|row| row["of"] == name && row["measure"] == "goodput_bps").unwrap();
        assert_eq!(mean["mean"], rows[place]["goodput_bps"], "{name}");
    }
    assert!(means.iter().all(|row| row["of"] != "probe light"));
}

#[test]
fn the_link_is_the_bottleneck_towards_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let more = "reverse = { rate = \"2mbit\", qdisc = \"pfifo limit 20p\" }\n[[scenario.link]]\nname = \"core\"\n\
        rate = \"9mbit\"\nqdisc = \"pfifo\"\n[[scenario.flow]]\npath = [\"bottleneck\", \"core\"]\n";
    make(folder.path(), &SWEEP.replace("[[scenario.flow]]\n", more), false, None);
    for row in table(folder.path(), "sweep.csv") {
        assert_eq!(row["link_departed_packets"], row["queue_0_departed_packets"]);
        assert_eq!(row["queue_delay_p99_ms"], row["queue_0_delay_p99_ms"]);
        let used: f64 = row["link_utilisation"].parse().unwrap();
        assert!(used <= 1.01, "{used}");
    }
}

#[test]
fn a_workload_has_a_row_behind_the_flows() {
    let folder = tempfile::tempdir().unwrap();
    let workload = "[[scenario.workload]]\nname = \"web\"\nkind = \"requests\"\nstack = \"tcp\"\n\
        controller = \"cubic\"\nsize = \"20kb\"\nthink = \"10ms\"\nrequests = 5\n";
    make(folder.path(), &format!("{SWEEP}{workload}"), false, None);
    let table = table(folder.path(), "sweep.csv");
    let of = |row: usize, name: &str| table[row][name].clone();
    assert_eq!(table.len(), 12, "six cells of a flow and a workload each");
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
    let result = make(folder.path(), SWEEP, false, Some(faulty()));
    let failed: Vec<(usize, &str)> =
        result.meta.failed_cells.iter().map(|cell| (cell.cell, cell.error.as_str())).collect();
    assert_eq!(
        failed,
        [
            (2, "no namespace"),
            (3, "a rule of one's own failed"),
            (4, "panicked: the window is gone; this is a fault of weir")
        ]
    );
    assert_eq!(result.meta.failed_cells[2].what, "bottleneck.rate = 5mbit, flow.0.controller = cubic, run 0");
    assert_eq!((result.meta.cells, result.meta.missing_cells, result.reused), (6, 0, 0));
    let table = fs::read_to_string(folder.path().join("out/sweep.csv")).unwrap();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 6);
    assert!(rows[2].starts_with("2,2000000,bbr,0,,,") && rows[2].ends_with(",no namespace"), "{}", rows[2]);

    // What failed is not run again, unless that is asked for.
    let world = sound();
    let again = make(folder.path(), SWEEP, false, Some(world));
    assert_eq!((again.meta.failed_cells.len(), again.reused, world.runs()), (3, 6, 0));
    let again = make(folder.path(), SWEEP, true, Some(world));
    assert_eq!((again.meta.failed_cells.len(), again.reused, world.runs()), (0, 3, 3));
}

#[test]
fn values_that_mean_the_same_run_once_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let axis = "bottleneck.qdisc = [\"pfifo limit 20p\", \"bfifo limit 20p\"]\n";
    let world = sound();
    let same = SWEEP.replacen("[sweep]\n", &format!("[sweep]\n{axis}"), 1).replace("bfifo", "pfifo  ");
    let result = make(folder.path(), &same, false, Some(world));
    assert_eq!((result.meta.cells, result.meta.missing_cells), (12, 0));
    assert_eq!(world.runs(), 6);
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
