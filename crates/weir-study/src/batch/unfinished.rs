//! The runs that an unfinished batch already has, so that the same command goes on where it was stopped.
//!
//! A list in the batch's folder: who measures, then a line for each run whose files are complete. It is there until every
//! run has a result. Another build of Weir, another world or another kernel begins anew.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use super::{BatchError, Job};
use weir_report::output::Part;
use weir_report::read;
use weir_report::result::RunResult;
use weir_vm::Kernel;
use weir_world::World;

/// The list's name.
pub const UNFINISHED: &str = "unfinished.txt";

/// The list of a batch.
pub(super) struct Unfinished {
    out: PathBuf,
    listed: BTreeSet<String>,
    file: Mutex<File>,
}

impl Unfinished {
    /// Opens the list in `out`, or begins one.
    pub(super) fn open(out: &Path, world: &dyn World, kernel: Option<&Kernel>) -> Result<Self, BatchError> {
        let path = out.join(UNFINISHED);
        Self::try_open(out, &path, &measurer(world, kernel))
            .map_err(|source| BatchError::Write { path, source })
    }

    fn try_open(out: &Path, path: &Path, measurer: &str) -> io::Result<Self> {
        fs::create_dir_all(out)?;
        let text = fs::read_to_string(path).unwrap_or_default();
        // What has no end of line was cut off while it was written.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let listed: BTreeSet<String> = match lines.next() {
            Some(first) if first == measurer => lines.map(str::to_owned).collect(),
            _ => BTreeSet::new(),
        };
        let mut part = Part::create(path)?;
        writeln!(part, "{measurer}")?;
        for name in &listed {
            writeln!(part, "{name}")?;
        }
        part.finish()?;
        let file = OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        Ok(Self { out: out.to_owned(), listed, file: Mutex::new(file) })
    }

    /// The result of a run that is listed and whose files are those of this job.
    pub(super) fn result(&self, job: &Job) -> Option<RunResult> {
        let result = read::read(&folder(&self.out, job)).ok().filter(|_| self.listed.contains(&job.name))?;
        // As they are written: a scenario is rounded when it is.
        let same =
            serde_json::to_value(&result.meta.scenario).ok()? == serde_json::to_value(&job.scenario).ok()?;
        (same && result.meta.seed.run == job.run).then_some(result)
    }

    /// Lists a run whose files are written.
    pub(super) fn add(&self, job: &Job) -> Result<(), BatchError> {
        let mut file = self.file.lock().unwrap_or_else(|poison| poison.into_inner());
        file.write_all(format!("{}\n", job.name).as_bytes()).map_err(|source| self.failed(source))
    }

    /// Every run has a result: the next batch here begins anew.
    pub(super) fn finish(&self) -> Result<(), BatchError> {
        fs::remove_file(self.out.join(UNFINISHED)).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> BatchError {
        BatchError::Write { path: self.out.join(UNFINISHED), source }
    }
}

/// Where a run's files are.
pub(crate) fn folder(out: &Path, job: &Job) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    out.join("runs").join(job.name.chars().map(plain).collect::<String>())
}

/// Weir's version and its file's time, the world, the kernel.
fn measurer(world: &dyn World, kernel: Option<&Kernel>) -> String {
    let built = std::env::current_exe()
        .and_then(fs::metadata)
        .and_then(|file| file.modified())
        .map_or(0, |time| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos());
    let kernel = kernel.map_or("", |kernel| kernel.about.release.as_str());
    format!("weir {} built {built}, world {} {kernel}", env!("CARGO_PKG_VERSION"), world.name())
}
