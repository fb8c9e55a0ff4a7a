//! Workloads of a scenario: what is refused, what a run says of them, and their files.

use std::sync::atomic::AtomicBool;

use weir_assess::{Options, assess};
use weir_report::result::RunResult;
use weir_scenario::toml_file::FileError;
use weir_scenario::{Scenario, ScenarioError};
use weir_world::{RunOptions, run};

const EXAMPLE: &str = include_str!("../../../../examples/web-and-video.toml");

fn simulate(scenario: &Scenario, options: RunOptions<'_>) -> RunResult {
    run(scenario, &RunOptions { world: weir_world::SIM, ..options }).unwrap()
}

#[test]
fn an_evening_on_a_home_link() {
    let scenario = Scenario::parse(EXAMPLE, "test.toml").unwrap();
    let stop = AtomicBool::new(false);
    let result = simulate(&scenario, RunOptions::new(&stop));
    assert!(result.health.warnings.is_empty(), "{:?}", result.health.warnings);
    let [web, films, calls] = result.workloads.as_slice() else { panic!("{:?}", result.workloads) };
    // Cutting the tail takes 6400 bytes off the mean of 30720: 1.875 MB/s are 77 requests a second, 4626 +- 68 in a
    // minute.
    assert!((4354..4898).contains(&web.requests), "{}", web.requests);
    assert_eq!(web.completed, web.requests);
    assert_eq!(web.received_bytes, web.asked_bytes);
    let quantiles = [web.fct_p50_s, web.fct_p90_s, web.fct_p99_s, web.fct_max_s].map(Option::unwrap);
    assert!(quantiles.is_sorted() && quantiles[0] > 0.06 && quantiles[0] < 1.0, "{quantiles:?}");
    // A segment each four seconds, and five to fill the buffer at first.
    assert_eq!((films.requests, films.completed, films.stalls), (76, 76, 0));
    assert!(calls.completed == 0 && calls.requests > 100 && calls.fct_p50_s.is_none());
    assert_eq!(calls.received_bytes, calls.asked_bytes);
    // All that the queue saw belongs to somebody.
    let flows: u64 = result.flows.iter().map(|flow| flow.packets).sum();
    let works: u64 = result.workloads.iter().map(|workload| workload.packets).sum();
    assert_eq!(flows + works, result.health.arrived);
    assert!(result.assessments.iter().all(|row| row.flow != "other"));
    assert_eq!(
        serde_json::to_string(&result).unwrap(),
        serde_json::to_string(&simulate(&scenario, RunOptions::new(&stop))).unwrap()
    );

    let folder = tempfile::tempdir().unwrap();
    weir_report::output::write(folder.path(), &result).unwrap();
    let table = std::fs::read_to_string(folder.path().join("requests.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["workload", "id", "start_s", "bytes", "fct_s"]);
    assert_eq!(rows.len() as u64 - 1, web.requests + films.requests + calls.requests);
    assert!(rows.iter().any(|row| row[0] == "films" && row[1] == "75" && row[3] == "2000000"));
    assert!(rows.iter().filter(|row| row[0] == "calls").all(|row| row[4].is_empty()));
    let series = std::fs::read_to_string(folder.path().join("flow_series.csv")).unwrap();
    assert!(series.contains(",films,") && series.contains(",download,"));
}

#[test]
fn rates_of_a_workload_are_over_its_life_however_long_others_live() {
    let text = |keys: &str, other: u32| {
        format!(
            "[bottleneck]\n rate = '100mbit'\n rtt = '20ms'\n qdisc = 'fq_codel'\n [[workload]]\n name = 'web'\n \
             stack = 'tcp'\n controller = 'cubic'\n start = '2s'\n {keys}\n [[flow]]\n stack = 'udp'\n \
             rate = '1mbit'\n duration = '{other}s'\n"
        )
    };
    let crowd = "kind = 'poisson'\n arrivals = 100\n size = '20kb'\n";
    let timed = format!("{crowd} duration = '10s'");
    let counted = format!("{crowd} requests = 500");
    let both = format!("{crowd} requests = 500\n duration = '60s'");
    let source = "kind = 'on-off'\n on = '1s'\n off = '1s'\n duration = '10s'";
    let window = format!("{timed}\n[measure]\nfrom = '7s'\n");
    for keys in [timed.as_str(), &counted, &both, source, &window] {
        let stop = AtomicBool::new(false);
        // In the shortest run the workload is what ends it.
        let [shortest, one, other] = [1, 20, 40].map(|other| {
            let scenario = Scenario::parse(&text(keys, other), "test.toml").unwrap();
            let result = simulate(&scenario, RunOptions::new(&stop));
            assert!(result.meta.wall_s > f64::from(other) - 0.1, "{keys}: {}", result.meta.wall_s);
            result.workloads[0].clone()
        });
        assert_eq!(one, other, "{keys}");
        // A source takes what the others leave it.
        if keys != window && keys != source {
            assert_eq!(shortest.goodput_bps, one.goodput_bps, "{keys}");
        }
        let last = one.list.iter().filter_map(|row| Some(row.start_s + row.fct_s?)).fold(0.0, f64::max);
        let life = match keys {
            _ if keys == timed => last.max(12.0) - 2.0,
            _ if keys == counted || keys == both => last - 2.0,
            _ if keys == window => last.max(12.0) - 7.0,
            // It is over when what it sent last has arrived.
            _ => continue,
        };
        let bytes = one.received_bytes as f64;
        assert!((one.goodput_bps * life / (bytes * 8.0) - 1.0).abs() < 1e-9, "{keys}: {}", one.goodput_bps);
        assert!(one.throughput_bps > one.goodput_bps, "{keys}");
    }
}

/// Connections that are used again are others to whoever reads the capture.
#[test]
fn each_request_is_a_connection_of_its_own_in_a_capture() {
    let scenario = Scenario::parse(
        "[bottleneck]\nrate = '20mbit'\nrtt = '20ms'\nqdisc = 'fq_codel'\n\
         [[workload]]\nkind = 'poisson'\nstack = 'tcp'\ncontroller = 'cubic'\narrivals = 20\nsize = '40kb'\n\
         requests = 60\n",
        "test.toml",
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcapng");
    let stop = AtomicBool::new(false);
    let result =
        simulate(&scenario, RunOptions { pcap: Some(path.as_path().into()), ..RunOptions::new(&stop) });
    let report = assess(std::fs::File::open(path).unwrap(), &Options::default());
    // There is no flow beside the workload, and all files are there.
    weir_report::output::write(folder.path(), &result).unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("<h2>Workloads</h2>") && page.contains("poisson, tcp cubic"));
    assert!(result.workloads[0].connections < 30);
    assert_eq!(report.counters.backwards, 0);
    assert_eq!(report.flows.len(), 60, "a connection for each request");
    let handshakes: Vec<f64> = report.flows.iter().filter_map(|flow| flow.handshake_rtt_ms).collect();
    assert!(
        handshakes.len() == 60 && handshakes.iter().all(|rtt| (rtt - 20.0).abs() < 0.01),
        "{handshakes:?}"
    );
    assert!(report.flows.iter().all(|flow| flow.data.payload_bytes >= 40 << 10));
}

#[test]
fn errors_name_the_workload_the_key_and_the_remedy() {
    for (from, to, says) in [
        ("load = 0.3", "", "workload 1 ('web'): arrivals: is missing"),
        ("load = 0.3", "load = 0.3\narrivals = 3", "load: is given beside 'arrivals'"),
        ("load = 0.3", "load = -1", "load: must be above 0"),
        ("shape = 1.2", "shape = 1", "shape: must be above 1, or there is no mean"),
        ("shape = 1.2", "", "shape: is missing"),
        ("size = \"30kb\"", "size = \"30kb\"\nleast = \"1kb\"", "least: is given beside 'size'"),
        (
            "size = \"30kb\"\nshape = 1.2\ncap = \"5mb\"",
            "least = \"1kb\"\nshape = 0.9",
            "cap: is missing; sizes from 'least' on need one",
        ),
        ("size = \"30kb\"", "least = \"5mb\"", "cap: must be above 'least', 5mb"),
        ("sizes = \"pareto\"", "", "shape: needs sizes = \"pareto\""),
        ("size = \"30kb\"", "", "size: is missing; a workload of kind \"poisson\" needs it"),
        (
            "size = \"30kb\"",
            "size = \"30kb\"\nthink = \"1s\"",
            "think: a workload of kind \"poisson\" has none",
        ),
        (
            "buffer = \"20s\"",
            "buffer = \"3s\"",
            "workload 2 ('films'): buffer: must hold at least one segment",
        ),
        ("users = 4", "users = 0", "users: must be at least 1"),
        ("users = 4", "users = 20000", "all workloads together can have 20000"),
        ("controller = \"bbr3\"", "controller = \"bbr33\"", "did you mean 'bbr3'"),
        ("rate = \"96kbit\"", "", "a UDP flow needs a rate"),
        ("kind = \"on-off\"", "kind = \"onoff\"", "did you mean `on-off`?"),
        ("name = \"films\"", "name = \"web\"", "another workload is called so"),
    ] {
        let text = EXAMPLE.replacen(from, to, 1);
        assert_ne!(text, EXAMPLE, "{from}");
        match Scenario::parse(&text, "x.toml") {
            Err(error @ (ScenarioError::File(FileError::Syntax { .. }) | ScenarioError::Value { .. })) => {
                assert!(error.to_string().contains(says), "{from} -> {to}: {error}");
            }
            other => panic!("{from} -> {to}: {other:?}"),
        }
    }
    let least = EXAMPLE.replacen("size = \"30kb\"\nshape = 1.2", "least = \"1kb\"\nshape = 0.9", 1);
    let (_, mean) =
        Scenario::parse(&least, "x.toml").unwrap().workloads[0].offered("10mbit".parse().unwrap());
    // 1024 bytes and a cap of 5120 times as much: 1024 (1 + (5120^0.1 - 1) / 0.1).
    assert!((mean - 14_840.2).abs() < 0.1, "{mean}");
    let scenario = Scenario::parse(EXAMPLE, "x.toml").unwrap();
    let again = Scenario::parse(&toml::to_string(&scenario).unwrap(), "y.toml").unwrap();
    assert_eq!(scenario, again);
}

#[test]
fn examples_of_this_world_run() {
    for example in [
        include_str!("../../../../examples/offloads.toml"),
        include_str!("../../../../examples/capture.toml"),
    ] {
        let scenario = Scenario::parse(example, "example.toml").unwrap();
        let stop = AtomicBool::new(false);
        let result = simulate(&scenario, RunOptions::new(&stop));
        assert!(result.health.warnings.is_empty(), "{:?}", result.health.warnings);
        assert!(result.flows.iter().all(|flow| flow.goodput_bps > 1e6), "{:?}", result.flows);
    }
}
