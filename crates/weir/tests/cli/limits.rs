//! Scenarios that ask for more than any machine has are refused before they begin, with the line and what to change;
//! and what is no scenario is not read without end.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::{SHORT, stderr, text, weir, write_scenario};

/// Memory and seconds of processor that a refusal may take: no more than a small run does.
const MEMORY: u64 = 2 << 30;
const SECONDS: u64 = 30;

/// The command with little memory and time.
fn bounded(arguments: &[&str]) -> Command {
    let mut command = weir();
    command.args(arguments);
    let limit = |resource, most| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the pointer is to a limit that lives until the call ends.
        unsafe { libc::setrlimit(resource, &raw const limit) };
    };
    // SAFETY: only calls that may be made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            limit(libc::RLIMIT_AS, MEMORY);
            limit(libc::RLIMIT_CPU, SECONDS);
            Ok(())
        });
    }
    command
}

fn on_sim(path: &Path, out: &Path, more: &[&str]) -> Output {
    let arguments = ["run", text(path), "--on", "sim", "--out", text(out)];
    bounded(&[&arguments, more].concat()).output().unwrap()
}

/// Runs what must not begin: exit code 1, nothing on standard output, nothing on disk.
fn refused(scenario: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "much.toml", scenario);
    let out = folder.path().join("out");
    let ran = on_sim(&path, &out, &[]);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(1), b"".as_slice()), "{scenario}\n{ran:?}");
    assert!(!out.exists(), "a run that never began has made {}", out.display());
    let said = stderr(&ran);
    assert!(said.starts_with("weir: ") && !said.contains("panicked"), "{said}");
    said
}

/// SHORT with a crowd in the place of its flows.
fn crowd(keys: &str) -> String {
    let (link, _) = SHORT.split_once("[[flow]]").unwrap();
    let workload = "[[workload]]\nstack = \"tcp\"\ncontroller = \"cubic\"\nduration = \"1s\"\n";
    format!("{link}{workload}{keys}\n")
}

#[test]
fn what_no_machine_can_run_is_refused_with_line_and_remedy() {
    let change = |from: &str, to: &str| {
        let changed = SHORT.replacen(from, to, 1);
        assert_ne!(changed, SHORT, "{from}");
        changed
    };
    let udp = "rate = \"2mbit\"";
    let ended = "bytes = \"500kb\"";
    let measured = |keys: &str, life: &str| {
        change(ended, life).replacen("[bottleneck]", &format!("[measure]\n{keys}\n[bottleneck]"), 1)
    };
    let cases: Vec<(String, &[&str])> = vec![
        (change(udp, "rate = \"100tbit\""), &["line 12: flow 2 ('UDP'): rate: ", "12tbit", "lower"]),
        (
            change(udp, "rate = \"10tbit\""),
            &["line 12: flow 2 ('UDP'): rate: ", "billion packets", "--large"],
        ),
        (change("20mbit", "18446744073709551615bit"), &["line 3: bottleneck.rate: ", "more than 100tbit"]),
        (change(udp, "rate = \"18446744073709551615bit\""), &["line 12: flow 2", "more than 100tbit"]),
        (change(udp, "rate = \"2mbit\"\nduration = \"99999999999s\""), &["too large"]),
        (
            change(udp, "rate = \"2mbit\"\nstart = \"18446744073s\""),
            &["line 13: flow 2", "start: ", "100000000s"],
        ),
        (change("\"5ms\"", "\"10000000000s\""), &["line 4: bottleneck.rtt: ", "more than 100000s"]),
        (change("[[flow]]", "overhead = 4294967295\n[[flow]]"), &["line 6: bottleneck.overhead: ", "65535"]),
        (change(ended, "bytes = \"17179869183gb\""), &["line 9: flow 1 ('TCP cubic'): bytes: ", "give less"]),
        (
            change(udp, "rate = \"2mbit\"\ncount = 1000000000"),
            &["flow.count", "1000000001 flows; at most 2000"],
        ),
        (
            format!(
                "{SHORT}{}",
                "[[flow]]\nstack = \"udp\"\nrate = \"1mbit\"\ncount = 4000000000\n".repeat(2)
            ),
            &["flow.count", "at most 2000"],
        ),
        (
            measured("interval = \"1ms\"\ntimeout = \"100001s\"", "duration = \"100000s\""),
            &["line 3: measure.interval: ", "million rows", "wider bins", "--large"],
        ),
        (
            measured("timeout = \"1000010s\"", "bytes = 1000\nstart = \"1000000s\""),
            &["line 12: flow 1 ('TCP cubic'): start: ", "million rows", "--large"],
        ),
        (
            measured("timeout = \"100000s\"\ntrace = true", "duration = \"99999s\"")
                .replacen("20mbit", "50mbit", 1)
                .replacen("\"5ms\"", "\"50ms\"", 1)
                .replacen("[measure]", "[measure]\ninterval = \"1s\"", 1),
            &["line 5: measure.trace: ", "GB of capture and trace", "--large"],
        ),
        (
            crowd("kind = \"poisson\"\nsize = \"30kb\"\nload = 1e6"),
            &["line 12: workload 1", "load: ", "lower it"],
        ),
        (
            crowd("kind = \"poisson\"\nsize = \"30kb\"\narrivals = 1e18"),
            &["line 12: workload 1", "arrivals: ", "lower it"],
        ),
        (
            crowd("kind = \"on-off\"\non = \"1ns\"\noff = \"0s\""),
            &["line 11: workload 1", "on: ", "longer times"],
        ),
        (
            crowd("kind = \"video\"\nsegment = \"1ns\"\nbitrate = \"1mbit\"\nbuffer = \"1000s\"")
                .replacen("20mbit", "100gbit", 1),
            &["line 11: workload 1", "segment: ", "longer segments"],
        ),
        (
            change("rtt =", "trace = \"/dev/urandom\"\nrtt ="),
            &["line 4: bottleneck.trace: ", "no regular file"],
        ),
        (change("rtt =", "trace = \"/proc/self/environ\"\nrtt ="), &["line 4: bottleneck.trace: "]),
    ];
    for (scenario, says) in cases {
        let said = refused(&scenario);
        for words in says {
            assert!(said.contains(words), "no {words:?} in {said}\n{scenario}");
        }
    }
}

#[test]
fn a_run_beyond_the_estimate_goes_ahead_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    // It may take 100,000 s, but does not.
    let measure = "[measure]\ninterval = \"1ms\"\ntimeout = \"100000s\"\n[bottleneck]";
    let path = write_scenario(folder.path(), "much.toml", &SHORT.replacen("[bottleneck]", measure, 1));
    let out = folder.path().join("out");
    let ran = on_sim(&path, &out, &[]);
    assert!(ran.status.code() == Some(1) && stderr(&ran).contains("--large"), "{ran:?}");
    let ran = on_sim(&path, &out, &["--large"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let sweep = format!("scenario = \"{}\"\n[sweep]\nseed = [1]\n", text(&path));
    let sweep = write_scenario(folder.path(), "sweep.toml", &sweep);
    let arguments = ["sweep", text(&sweep), "--out", text(&out)];
    let ran = bounded(&arguments).output().unwrap();
    let said = stderr(&ran);
    assert!(
        ran.status.code() == Some(1) && said.contains("much.toml: line 3: measure.interval: "),
        "{ran:?}"
    );
    let ran = bounded(&arguments).arg("--large").output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn what_is_no_scenario_is_not_read_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let long = folder.path().join("long.toml");
    let make_long = |path: &Path| std::fs::File::create(path).unwrap().set_len(2 << 30).unwrap();
    make_long(&long);
    let binary = Path::new(env!("CARGO_BIN_EXE_weir"));
    let noise = folder.path().join("noise.toml");
    std::fs::write(&noise, [0xff, 0xfe, 0x00]).unwrap();
    for (path, says) in [
        (Path::new("/dev/zero"), "longer than"),
        (Path::new("/dev/urandom"), "longer than"),
        (&long, "longer than"),
        (binary, "longer than"),
        (&noise, "not text"),
        (folder.path(), "directory"),
        (Path::new("/proc/self/cmdline"), "TOML"),
    ] {
        let ran = on_sim(path, &out, &[]);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{}: {ran:?}", path.display());
        assert!(stderr(&ran).contains(says) && stderr(&ran).contains(text(path)), "no {says:?} in {ran:?}");
        let ran = bounded(&["sweep", text(path), "--out", text(&out)]).output().unwrap();
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{}: {ran:?}", path.display());
    }
    let suite = folder.path().join("suite");
    std::fs::create_dir(&suite).unwrap();
    make_long(&suite.join("suite.toml"));
    let ran = bounded(&["suite", "run", text(&suite), "--out", text(&out)]).output().unwrap();
    assert!(ran.status.code() == Some(1) && stderr(&ran).contains("longer than"), "{ran:?}");
    assert!(!out.exists());
}

#[test]
fn a_scenario_may_come_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path(), "short.toml", SHORT);
    let out = folder.path().join("out");
    let mut writer = Command::new("cat").arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let ran = bounded(&["run", "/dev/stdin", "--on", "sim", "--out", text(&out)])
        .stdin(writer.stdout.take().unwrap())
        .output()
        .unwrap();
    writer.wait().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn a_name_that_no_file_can_have_is_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path =
        write_scenario(folder.path(), "long.toml", &format!("name = \"{}\"\n{SHORT}", "x".repeat(300)));
    let ran = bounded(&["run", text(&path), "--on", "sim"]).current_dir(folder.path()).output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{ran:?}");
    assert!(stderr(&ran).contains("File name too long"), "{ran:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
