//! Figure `law/accuracy` over twenty mixes: how many verdicts are right, by class and preset, as a table that says what a
//! change of the law changes. `WEIR_WRITE_PAGES=1 cargo test -p weirnet-study --test law` writes it.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_study::Options;
use weir_study::figure::{self, Plan};
use weir_world::{RunOptions, SIM};

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
