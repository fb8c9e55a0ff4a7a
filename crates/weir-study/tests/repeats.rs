//! What a sweep says of repeated runs that are identical.

use std::sync::atomic::AtomicBool;

use weir_study::Options;
use weir_study::sweep::Sweep;
use weir_world::RunOptions;

#[test]
fn a_sweep_says_where_repeated_runs_are_identical() {
    let table_and_page = |qdiscs: &str, repeat: u32| {
        let text = format!(
            "name = 'repeats'\nrepeat = {repeat}\n[sweep]\n'bottleneck.qdisc' = {qdiscs}\n\
             [scenario.bottleneck]\nrate = '10mbit'\nrtt = '10ms'\nqdisc = 'bfifo'\n\
             [[scenario.flow]]\nstack = 'tcp'\ncontroller = 'cubic'\nduration = '2s'\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, text).unwrap();
        let sweep = Sweep::load(&path, weir_study::sweep::MOST_CELLS, false).unwrap();
        let stop = AtomicBool::new(false);
        let options = Options::new(folder.path().join("out"), RunOptions::new(&stop));
        let result = weir_study::sweep::run(&sweep, &options, "").unwrap();
        let page = std::fs::read_to_string(folder.path().join("out/sweep.html")).unwrap();
        (result.table, page)
    };
    // Nothing rolls dice here.
    let (table, page) = table_and_page("['bfifo', 'codel']", 3);
    for text in [&table, &page] {
        assert!(text.contains("The runs of each combination are identical"), "{text}");
        assert!(!text.contains('\u{b1}') && !text.contains("standard deviation"), "{text}");
    }
    assert!(!table.contains("Means over"), "{table}");
    // PIE does.
    let (table, page) = table_and_page("['pie']", 3);
    assert!(
        table.contains("Means over 3 runs") && table.contains('\u{b1}') && !table.contains("identical"),
        "{table}"
    );
    assert!(page.contains("standard deviation") && !page.contains("identical"));
    let (table, page) = table_and_page("['bfifo', 'pie']", 3);
    assert!(table.contains("Means over 3 runs") && table.contains("Where no deviation is given"), "{table}");
    assert!(page.contains("standard deviation") && page.contains("Where no deviation is given"));
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("Mbit/s")).collect();
    assert!(!rows[0].contains('\u{b1}') && rows[1].contains('\u{b1}'), "{rows:?}");
    let (table, page) = table_and_page("['bfifo']", 1);
    assert!(!table.contains("identical") && !page.contains("identical"), "{table}");
}
