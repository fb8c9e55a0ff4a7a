//! `weir vm` and the world of scenarios that runs in micro-VMs.
//!
//! Guests need a kernel in this user's cache; without one these tests say so and skip.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use weir_scenario::Scenario;
use weir_vm::{Cache, Kernel, VmError};
use weir_world::vm::{Outcome, VmOptions, VmProgress, VmRun, run_scenarios};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn weir(arguments: &[&str]) -> Output {
    Command::new(WEIR).arg("vm").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn kernel() -> Option<Kernel> {
    let kernel = Cache::of_user().ok().and_then(|cache| cache.kernels().into_iter().next());
    if kernel.is_none() {
        weir_testkit::skip::skip("vm", "no kernel is in the cache; run weir vm fetch 6.1");
        return None;
    }
    for (program, package) in [("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")] {
        if !weir_vm::initramfs::host_has(program) {
            weir_testkit::skip::skip("vm", &format!("'{program}' is in the Debian package '{package}'"));
            return None;
        }
    }
    kernel
}

#[test]
fn an_empty_cache_is_listed_and_says_what_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().to_str().unwrap();
    let list = weir(&["list", "--json", "--cache", cache]);
    assert_eq!((list.status.code(), text(&list.stdout).trim()), (Some(0), "[]"));
    let run = weir(&["run", "6.1", "--cache", cache, "--", "true"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("run 'weir vm fetch 6.1'"), "{}", text(&run.stderr));
    let remove = weir(&["remove", "6.1", "--cache", cache]);
    assert!(text(&remove.stderr).contains("6.1 was not there"), "{}", text(&remove.stderr));
    let fetch = weir(&["fetch", "six", "--cache", cache]);
    assert_eq!(fetch.status.code(), Some(1));
    assert!(text(&fetch.stderr).contains("'six' is no kernel series"), "{}", text(&fetch.stderr));
}

#[test]
fn a_command_runs_as_if_it_were_here() {
    let Some(kernel) = kernel() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let arguments = ["run", &kernel.about.series, "--out", out.to_str().unwrap(), "--", "sh", "-c"];
    let job = "uname -r; weir --version >&2; echo 'left over' >/results/file; exit 9";
    let run = weir(&[&arguments[..], &[job]].concat());
    assert_eq!(run.status.code(), Some(9), "{}", text(&run.stderr));
    assert_eq!(text(&run.stdout).trim(), kernel.about.release);
    assert!(text(&run.stderr).starts_with("weir "), "{}", text(&run.stderr));
    assert_eq!(std::fs::read_to_string(out.join("file")).unwrap(), "left over\n");
}

#[test]
fn scenarios_run_in_guests_and_their_results_come_back() {
    let Some(kernel) = kernel() else { return };
    let scenario = |name: &str| {
        let text = format!(
            "name = \"{name}\"\n[bottleneck]\nrate = \"2mbit\"\nrtt = \"20ms\"\nqdisc = \"bfifo limit 1bdp\"\n\
             [[flow]]\nstack = \"tcp\"\ncontroller = \"cubic\"\nbytes = \"100kb\"\n[measure]\ntimeout = \"60s\"\n"
        );
        Scenario::parse(&text, "test.toml").unwrap()
    };
    let (first, mut broken) = (scenario("first"), scenario("broken"));
    broken.flows[0].controller = "nobody's".to_owned();
    let dir = tempfile::tempdir().unwrap();
    let pcap = dir.path().join("deep/packets.pcapng");
    let runs = [
        VmRun { scenario: &first, run: 3, pcap: Some(pcap.as_path().into()) },
        VmRun { scenario: &broken, run: 0, pcap: None },
        VmRun { scenario: &first, run: 4, pcap: None },
    ];
    let told: Mutex<Vec<VmProgress>> = Mutex::default();
    let stop = AtomicBool::new(false);
    let options = VmOptions {
        world: "emu",
        weir: PathBuf::from(WEIR),
        batch: 2,
        progress: &|progress| told.lock().unwrap().push(progress),
        ..VmOptions::new(&stop).unwrap()
    };
    let results = ended(&kernel, &runs, &options);
    for (index, run) in [(0, 3), (2, 4)] {
        let result = results[index].as_ref().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((result.meta.world.as_str(), result.meta.seed.run), ("vm", run));
        let machine = result.meta.machine.as_deref().unwrap_or_default();
        assert!(machine.contains(&kernel.about.release), "{machine}");
        assert_eq!(Some(result.flows[0].received_bytes), result.flows[0].wanted_bytes);
        assert_eq!(result.queues[0].departed, result.queues[0].sojourn_ns.count());
        let bins: u64 = result.series.queues[0].iter().map(|bin| u64::from(bin.departed)).sum();
        assert_eq!(bins, result.queues[0].departed);
        assert_eq!(result.meta.scenario.measure.pcap, index == 0);
    }
    assert!(packets(&pcap) > 1000, "{}", packets(&pcap));
    let error = results[1].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("scenario 'broken' ended with exit code 1") && error.contains("nobody's"),
        "{error}"
    );
    let told = told.lock().unwrap().clone();
    for index in 0..3 {
        assert!(told.iter().any(|progress| progress.index == index), "{told:?}");
    }
    assert!(told.iter().any(|progress| progress.done > 0.0), "{told:?}");

    // An interrupt takes the run that is at work, not the one that the same guest has done.
    let options = VmOptions { progress: &|_| {}, ..options };
    let runs = [4, 5].map(|run| VmRun { scenario: &first, run, pcap: None });
    let kept = Mutex::new(Vec::new());
    run_scenarios(&kernel, &runs, &options, &|index, outcome| {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        kept.lock().unwrap().push((index, outcome.map(|result| result.flows[0].received_bytes)));
    });
    let kept = kept.into_inner().unwrap();
    assert!(matches!(kept[..], [(0, Ok(102_400)), (1, Err(VmError::Interrupted))]), "{kept:?}");

    let results = ended(&kernel, &runs, &options);
    assert!(results.iter().all(|result| matches!(result, Err(VmError::Interrupted))));
}

/// What each run came to; reported once for each.
fn ended(kernel: &Kernel, runs: &[VmRun<'_>], options: &VmOptions<'_>) -> Vec<Outcome> {
    let outcomes: Vec<Mutex<Option<Outcome>>> = runs.iter().map(|_| Mutex::default()).collect();
    run_scenarios(kernel, runs, options, &|index, outcome| {
        assert!(outcomes[index].lock().unwrap().replace(outcome).is_none(), "reported twice");
    });
    outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap().expect("reported")).collect()
}

/// Bytes of a capture, 0 if there is none.
fn packets(capture: &Path) -> u64 {
    capture.metadata().map_or(0, |found| found.len())
}
