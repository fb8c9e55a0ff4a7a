//! Runs scenarios in micro-VMs: a guest gets a batch of them, runs Weir's own command on each, and sends the files back
//! that a run writes anywhere.
//!
//! A guest runs one scenario at a time and sends each run's files when it ends, so that a guest that dies or is
//! interrupted takes with it only the run that it is at. Batches are short, since a guest that died takes the rest of
//! its batch down.

use std::fmt::Write;
use std::fs;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::real::{check_followed, without_simulator};
use crate::run::{Progress, RunError, RunOptions};
use crate::world::{Clock, World};
use weir_report::output::Target;
use weir_report::read;
use weir_report::result::RunResult;
use weir_scenario::{Refusal, Scenario};
use weir_vm::guest::{TCG, folder_prefix, quoted, unpack};
use weir_vm::{Cache, Guest, Kernel, Stream, VmError};

/// Set for a command whose progress another program reads: it writes lines as [`progress_line`] makes them.
pub const PROGRESS_LINES: &str = "WEIR_PROGRESS_LINES";
/// What such a line begins with.
const PROGRESS: &str = "weir-progress";
/// What the job says before each of its runs.
const BEGIN: &str = "weir-begin";
/// What it says when it has sent a run's files; the run and the bytes of their archive follow.
const END: &str = "weir-end";
/// Where a guest finds its scenarios.
const SCENARIOS: &str = "/weir/scenarios";
/// For booting, sending results, and what a run takes before and after its flows.
const BOOT_ALLOWANCE: Duration = Duration::from_secs(120);
const RUN_ALLOWANCE: Duration = Duration::from_secs(60);
/// How much longer than its own time a guest may take.
const SLOWEST: u32 = 20;
/// The archive comes by another port than the words about it; so long and so often is waited for its end.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 500;
/// Lines of a failed run that its error quotes.
const SAID_LINES: usize = 5;

/// One run.
#[derive(Clone, Debug)]
pub struct VmRun<'a> {
    /// What runs.
    pub scenario: &'a Scenario,
    /// Its number under the scenario's seed.
    pub run: u64,
    /// Where the packets' headers go, if they are captured.
    pub pcap: Option<Target>,
}

/// How scenarios run in micro-VMs.
pub struct VmOptions<'a> {
    /// The world inside: `kernel` or `emu`.
    pub world: &'a str,
    /// The weir executable that the guests are given.
    pub weir: PathBuf,
    /// Guests at the same time.
    pub guests: usize,
    /// Runs that a guest does before it ends.
    pub batch: usize,
    /// Memory of a guest in MiB.
    pub memory: u32,
    /// Called now and then, from any thread.
    pub progress: &'a (dyn Fn(VmProgress) + Sync),
    /// Ends all guests early.
    pub stop: &'a AtomicBool,
}

/// How far one run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VmProgress {
    /// The run's place among all.
    pub index: usize,
    /// The part that is done, 0 to 1.
    pub done: f64,
    /// The time that is left, if that is known.
    pub left: Option<Duration>,
}

/// The command, where this process is another program.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the command `weir` that guests are given, for a program that is not it, such as an interpreter. Only the first
/// call counts.
pub fn set_program(weir: PathBuf) {
    let _ = PROGRAM.set(weir);
}

impl<'a> VmOptions<'a> {
    /// One guest with 2 GiB for eight runs at a time, in the world `kernel`, with this executable or the one that
    /// [`set_program`] has named.
    ///
    /// # Errors
    /// If the path of this executable is not known.
    pub fn new(stop: &'a AtomicBool) -> Result<Self, VmError> {
        let weir = match PROGRAM.get() {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(VmError::file(Path::new("/proc/self/exe")))?,
        };
        Ok(Self { world: "kernel", weir, guests: 1, batch: 8, memory: 2048, progress: &|_| {}, stop })
    }
}

/// What a run came to.
pub type Outcome = Result<RunResult, VmError>;

/// Runs scenarios under `kernel`. `ended` is called once for each, from any thread, with its place and with what it
/// came to, as soon as that is known. Those that an interrupt kept from running have [`VmError::Interrupted`].
pub fn run_scenarios(
    kernel: &Kernel,
    runs: &[VmRun<'_>],
    options: &VmOptions<'_>,
    ended: &(dyn Fn(usize, Outcome) + Sync),
) {
    let size = options.batch.max(1);
    let batches: Vec<&[VmRun<'_>]> = runs.chunks(size).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.guests.clamp(1, batches.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(batch) = batches.get(index) else { return };
                    run_batch(kernel, batch, index * size, options, ended);
                }
            });
        }
    });
}

/// The world: `kernel` in a guest of its own.
pub(crate) struct Vm;

impl World for Vm {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn clock(&self) -> Clock {
        Clock::Guest
    }

    /// The guest's kernel has to have the rest.
    fn check(&self, scenario: &Scenario) -> Result<(), Refusal> {
        without_simulator(scenario)?;
        check_followed(scenario)
    }

    fn run(&self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
        run_scenario(scenario, options).map_err(RunError::of_world)
    }
}

/// Runs one scenario in a guest of its own.
///
/// # Errors
/// If the kernel is not in the cache, or the guest or the run in it fails.
pub fn run_scenario(scenario: &Scenario, options: &RunOptions<'_>) -> Result<RunResult, VmError> {
    let kernel = Cache::of_user()?.wanted(options.kernel.as_deref())?;
    let progress = |now: VmProgress| (options.progress)(Progress { done: now.done, left: now.left });
    let vm = VmOptions { progress: &progress, ..VmOptions::new(options.stop)? };
    let run = VmRun { scenario, run: options.run, pcap: options.pcap.clone() };
    let (told, outcome) = std::sync::mpsc::channel();
    // The receiver lives until all is reported.
    run_scenarios(&kernel, &[run], &vm, &|_, outcome| drop(told.send(outcome)));
    outcome.try_recv().unwrap_or(Err(VmError::Interrupted))
}

/// Runs a batch in one guest; `first` is the place of its first run among all.
fn run_batch(
    kernel: &Kernel,
    batch: &[VmRun<'_>],
    first: usize,
    options: &VmOptions<'_>,
    ended: &(dyn Fn(usize, Outcome) + Sync),
) {
    let mut missing: Vec<usize> = (0..batch.len()).collect();
    let booted = if options.stop.load(Ordering::Relaxed) {
        Err(VmError::Interrupted)
    } else {
        boot(kernel, batch, first, options, &mut |index, outcome| {
            missing.retain(|other| *other != index);
            ended(first + index, outcome);
        })
    };
    let why = booted.err().unwrap_or_else(|| VmError::Inside {
        release: kernel.about.release.clone(),
        detail: "the run's files were not sent".to_owned(),
    });
    let why = std::sync::Arc::new(why);
    for index in missing {
        let error = match &*why {
            VmError::Interrupted => VmError::Interrupted,
            _ => VmError::Lost(std::sync::Arc::clone(&why)),
        };
        ended(first + index, Err(error));
    }
}

/// Boots a guest for a batch. `ended` is called for each run whose files came.
fn boot(
    kernel: &Kernel,
    batch: &[VmRun<'_>],
    first: usize,
    options: &VmOptions<'_>,
    ended: &mut dyn FnMut(usize, Outcome),
) -> Result<(), VmError> {
    let folder = tempfile::Builder::new().prefix(&folder_prefix()).tempdir();
    let folder = folder.map_err(VmError::file(&std::env::temp_dir()))?;
    let scenarios = folder.path().join("scenarios");
    fs::create_dir(&scenarios).map_err(VmError::file(&scenarios))?;
    for (index, run) in batch.iter().enumerate() {
        let mut scenario = run.scenario.clone();
        scenario.measure.pcap = run.pcap.is_some();
        let text = toml::to_string(&scenario).map_err(|error| {
            VmError::Request(format!("scenario '{}' cannot be written as TOML: {error}", scenario.name))
        })?;
        let path = scenarios.join(format!("{index}.toml"));
        fs::write(&path, text).map_err(VmError::file(&path))?;
    }
    let allowed = |run: &VmRun<'_>| run.scenario.measure.timeout.to_std() + RUN_ALLOWANCE;
    let sent = folder.path().join("sent.tar");
    let guest = Guest {
        memory: options.memory,
        timeout: BOOT_ALLOWANCE + batch.iter().map(allowed).sum::<Duration>() * SLOWEST,
        // A guest that comes late for its packets measures its host.
        virtual_time: true,
        files: vec![
            (options.weir.clone(), PathBuf::from("/usr/bin/weir")),
            (scenarios, PathBuf::from(SCENARIOS)),
        ],
        sent: Some(sent.clone()),
        ..Guest::new(kernel.clone())
    };
    let mut said = Vec::new();
    let (mut current, mut bytes) = (0, 0);
    let mut listen = |stream: Stream, line: &str| {
        if stream == Stream::Out {
            return;
        }
        if let Some(index) = line.strip_prefix(BEGIN).and_then(|rest| rest.trim().parse().ok()) {
            (current, said) = (index, Vec::new());
            (options.progress)(VmProgress { index: first + current, done: 0.0, left: None });
        } else if let Some((index, size)) = parse_end(line) {
            let part = bytes..bytes + size;
            bytes = part.end;
            if let Some(run) = batch.get(index) {
                let outcome = receive(&sent, part, folder.path())
                    .and_then(|results| collect(kernel, &results.join(index.to_string()), run, &said));
                ended(index, outcome);
            }
        } else if let Some((done, left)) = parse_progress(line) {
            (options.progress)(VmProgress { index: first + current, done, left });
        } else {
            said.push(line.to_owned());
        }
    };
    guest.run(&script(batch, options.world), &mut listen, options.stop).map(drop)
}

#[allow(clippy::disallowed_methods, reason = "the guest runs on the real clock")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Unpacks the archive of one run and returns the folder of the runs. The archive is the bytes `part` of what was sent; half
/// of the next may be behind it, as the guest goes on.
fn receive(sent: &Path, part: Range<u64>, into: &Path) -> Result<PathBuf, VmError> {
    for _ in 0..LOOKS {
        if sent.metadata().is_ok_and(|found| found.len() >= part.end) {
            break;
        }
        pause(LOOK);
    }
    let archive = into.join("run.tar");
    let copy = || {
        let mut from = fs::File::open(sent)?;
        from.seek(io::SeekFrom::Start(part.start))?;
        io::copy(&mut from.take(part.end - part.start), &mut fs::File::create(&archive)?)
    };
    copy().map_err(VmError::file(&archive))?;
    // A run that has ended is kept, though an interrupt may come just now.
    unpack(&archive, into, &AtomicBool::new(false))?;
    Ok(into.join("results"))
}

/// Runs one scenario after the other and notes how each ended.
fn script(batch: &[VmRun<'_>], world: &str) -> String {
    let mut script = format!("export {PROGRESS_LINES}=1\n");
    for (index, run) in batch.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(
            script,
            "mkdir /results/{index}\necho {BEGIN} {index} >&2\n\
             weir run {SCENARIOS}/{index}.toml --on {} --run {} --out /results/{index} >/dev/null\n\
             echo $? >/results/{index}/status\n\
             echo {END} {index} $(tar -c -f - -C / results/{index} | tee /dev/vport0p3 | wc -c) >&2\n\
             rm -rf /results/{index}\n",
            quoted(world),
            run.run
        );
    }
    script
}

/// What a run left, or why it left nothing.
fn collect(kernel: &Kernel, folder: &Path, run: &VmRun<'_>, said: &[String]) -> Outcome {
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    // A doubtful result is one; it says itself why it is in doubt.
    if !matches!(status.trim(), "0" | "3") {
        let said = said[said.len().saturating_sub(SAID_LINES)..].join("; ");
        let name = &run.scenario.name;
        return Err(VmError::Inside {
            release: kernel.about.release.clone(),
            detail: format!("scenario '{name}' ended with exit code {}: {said}", status.trim()),
        });
    }
    if let Some(pcap) = &run.pcap {
        let copy = || {
            let mut part = pcap.create()?;
            io::copy(&mut fs::File::open(folder.join("packets.pcapng"))?, &mut part)?;
            pcap.finish(part)
        };
        copy().map_err(VmError::file(pcap.path()))?;
    }
    let mut result = read::read(folder).map_err(|error| VmError::Request(error.to_string()))?;
    result.meta.world = "vm".to_owned();
    result.meta.machine =
        Some(format!("{}, {} in QEMU", result.meta.machine.as_deref().unwrap_or("unknown"), TCG));
    Ok(result)
}

/// The line that tells another program how far a run is: parts per thousand, and the seconds left or `-`.
pub fn progress_line(done: f64, left: Option<Duration>) -> String {
    let permille = (done.clamp(0.0, 1.0) * 1000.0) as u64;
    let left = left.map_or_else(|| "-".to_owned(), |left| left.as_secs().to_string());
    format!("{PROGRESS} {permille} {left}")
}

/// A run that has ended, and the bytes that were sent of it.
fn parse_end(line: &str) -> Option<(usize, u64)> {
    let (index, bytes) = line.strip_prefix(END)?.trim().split_once(' ')?;
    Some((index.parse().ok()?, bytes.trim().parse().ok()?))
}

fn parse_progress(line: &str) -> Option<(f64, Option<Duration>)> {
    let mut words = line.strip_prefix(PROGRESS)?.split_whitespace();
    let permille: u32 = words.next()?.parse().ok()?;
    let left = words.next()?.parse().ok().map(Duration::from_secs);
    Some((f64::from(permille.min(1000)) / 1000.0, left))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{VmRun, parse_progress, progress_line, receive, script};
    use weir_scenario::Scenario;

    #[test]
    fn progress_lines_round_trip() {
        let told = [(0.0, None), (0.25, Some(Duration::from_secs(90))), (1.0, Some(Duration::ZERO))];
        for (done, left) in told {
            assert_eq!(parse_progress(&progress_line(done, left)), Some((done, left)));
        }
        for line in ["weir: warning: late", "weir-progress", "weir-progress x 1", ""] {
            assert_eq!(parse_progress(line), None, "{line}");
        }
    }

    #[test]
    fn a_run_is_received_though_the_next_archive_is_half_there() {
        let dir = tempfile::tempdir().unwrap();
        let archive = |run: &str| {
            let folder = dir.path().join("guest/results").join(run);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("status"), run).unwrap();
            let tar = std::process::Command::new("tar")
                .args(["-c", "-C"])
                .arg(dir.path().join("guest"))
                .arg(format!("results/{run}"))
                .output()
                .unwrap();
            assert!(tar.status.success(), "{tar:?}");
            tar.stdout
        };
        let (first, second, last) = (archive("0"), archive("1"), archive("2"));
        let sent = dir.path().join("sent.tar");
        // The headers of the folder and of its file, and a part of the file's block.
        let half = &last[..2 * 512 + 70];
        std::fs::write(&sent, [&first[..], &second, half].concat()).unwrap();
        let (end, into) = (first.len() as u64, dir.path().join("host"));
        std::fs::create_dir(&into).unwrap();
        for (run, part) in [("0", 0..end), ("1", end..end + second.len() as u64)] {
            let results = receive(&sent, part, &into).unwrap();
            assert_eq!(std::fs::read_to_string(results.join(run).join("status")).unwrap(), run);
        }
        let cut = end + second.len() as u64;
        receive(&sent, cut..cut + half.len() as u64, &into).unwrap_err();
    }

    #[test]
    fn scenarios_survive_the_way_into_the_guest() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let files = ["demo", "examples"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
        let files: Vec<_> = files.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        // Traces are looked for beside the scenario.
        for trace in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "trace")) {
            std::fs::copy(trace, dir.path().join(trace.file_name().unwrap())).unwrap();
        }
        let mut scenarios = 0;
        for path in files {
            if path.extension().is_some_and(|extension| extension == "toml") {
                let scenario = Scenario::load(&path).unwrap();
                let again = dir.path().join("0.toml");
                std::fs::write(&again, toml::to_string(&scenario).unwrap()).unwrap();
                assert_eq!(Scenario::load(&again).unwrap(), scenario, "{}", path.display());
                scenarios += 1;
            }
        }
        assert!(scenarios > 2);
    }

    #[test]
    fn every_run_has_its_number_and_folder() {
        let scenario = Scenario::load(std::path::Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../demo/with-crq.toml"
        )));
        let scenario = scenario.unwrap();
        let run = |run| VmRun { scenario: &scenario, run, pcap: None };
        let text = script(&[run(0), run(7)], "kernel");
        assert!(
            text.contains("weir run /weir/scenarios/1.toml --on 'kernel' --run 7 --out /results/1 "),
            "{text}"
        );
    }
}
