//! What a sweep says of repeated runs: their means, and whether they are identical.

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

#[test]
fn means_have_their_confidence_and_groups_may_be_empty() {
    let text = "name = 'groups'\nrepeat = 3\n[sweep]\n'flow.b.count' = [0, 2]\n\
                [scenario.bottleneck]\nrate = '10mbit'\nrtt = '10ms'\nqdisc = 'dualpi2 scalable any'\n\
                [scenario.measure]\nfrom = '1s'\n\
                [[scenario.flow]]\nname = 'a'\nstack = 'tcp'\ncontroller = 'dctcp'\nduration = '4s'\n\
                start_spread = '100ms'\n\
                [[scenario.flow]]\nname = 'b'\nstack = 'tcp'\ncontroller = 'cubic'\nduration = '4s'\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, text).unwrap();
    let sweep = Sweep::load(&path, weir_study::sweep::MOST_CELLS, false).unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::new(folder.path().join("out"), RunOptions::new(&stop));
    let result = weir_study::sweep::run(&sweep, &options, "").unwrap();
    assert!(result.table.contains("goodput a") && result.table.contains("goodput b"), "{}", result.table);
    let read = |name: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let rows = read("means.csv");
    assert_eq!(rows[0][..4], ["flow.b.count", "of", "measure", "runs"]);
    let find = |count: &str, of: &str, measure: &str| {
        let wanted = [count, of, measure];
        rows.iter().find(|row| row[..3] == wanted).map(|row| {
            let number = |place: usize| row[place].parse::<f64>().unwrap();
            (row[3].clone(), number(4), number(5), number(6))
        })
    };
    assert_eq!(find("0", "b", "throughput_bps"), None);
    let (runs, mean, deviation, ci95) = find("2", "b", "throughput_bps").unwrap();
    assert!(mean > 1e5 && runs == "3" && deviation > 0.0, "{mean} {deviation}");
    // With two degrees of freedom the quantile of p is (2p - 1) sqrt(2 / (4p (1 - p))), 4.303 at 0.975.
    let quantile = 0.95 * (2.0 / (4.0 * 0.975 * 0.025f64)).sqrt();
    assert!((ci95 / deviation - quantile / 3f64.sqrt()).abs() < 1e-9, "{ci95} {deviation}");
    assert_eq!(find("0", "a", "class_ratio").unwrap().1, 1.0);
    let relative = find("0", "a", "relative_throughput").unwrap().1;
    let alone = find("0", "a", "throughput_bps").unwrap().1;
    assert!((relative - alone / 10e6).abs() < 1e-9, "alone its share is the link: {relative} {alone}");
    // Cubic's delay is in the classic queue.
    let delay = |queue: &str| find("2", queue, "queue_delay_mean_ms").unwrap().1;
    assert!(delay("queue classic") > 2.0 * delay("queue l4s"));
    assert!(
        find("2", "b", "sojourn_mean_ms").unwrap().1 > 2.0 * find("2", "a", "sojourn_mean_ms").unwrap().1
    );
    let table = read("sweep.csv");
    let column = |name: &str| table[0].iter().position(|known| known == name).unwrap();
    let flows = |count: &str| table.iter().filter(|row| row[1] == count).count();
    assert_eq!((flows("0"), flows("2")), (3, 9));
    let last = table.last().unwrap();
    assert_eq!([&last[column("queue_0_name")], &last[column("queue_1_name")]], ["classic", "l4s"]);
    assert_eq!(last[column("queue_2_name")], "");
    let ratio: f64 = last[column("class_ratio")].parse().unwrap();
    assert!((0.05..1.5).contains(&ratio), "{ratio}");
    // Of two classes, whatever the flows of one have of each other.
    assert_eq!(find("0", "link", "class_jain_index"), None);
    let ratios: Vec<f64> = table
        .iter()
        .filter(|row| row[1] == "2" && row[column("flow")] != "a")
        .map(|row| row[column("class_ratio")].parse().unwrap())
        .collect();
    let jain: f64 = ratios.iter().map(|ratio| (1.0 + ratio).powi(2) / (2.0 * (1.0 + ratio * ratio))).sum();
    let index = find("2", "link", "class_jain_index").unwrap().1;
    assert!((index - jain / ratios.len() as f64).abs() < 1e-9 && index < 0.99, "{index} {ratios:?}");
}
