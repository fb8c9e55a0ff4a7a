//! How far runs are, and how they ended.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_study::{CELLS, Progress as Runs};
use weir_world::vm::{PROGRESS_LINES, progress_line};

use crate::talk::{self, Bar};

/// The exit code of a result that is doubtful.
pub(super) const DOUBTFUL: u8 = 3;

/// A name as a folder's. It stays where it is put: no separator, and no dot in front.
pub(super) fn folder_name(name: &str) -> String {
    let named: String = name.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' }).collect();
    if named.starts_with('.') { format!("-{named}") } else { named }
}

/// A progress bar, and lines that a program can read where one asks for them, as a micro-VM's host does.
pub(super) struct Progress {
    bar: Bar,
    lines: bool,
}

impl Progress {
    /// A bar for work called `name`.
    pub(super) fn new(name: &str) -> Self {
        Self { bar: Bar::new(name), lines: std::env::var_os(PROGRESS_LINES).is_some() }
    }

    /// Shows how far the work is, 0 to 1, and how long it will still take.
    pub(super) fn show(&self, done: f64, left: Option<Duration>, note: &str) {
        if self.bar.show(done, left, note) && self.lines {
            talk::speak(&progress_line(done, left));
        }
    }
}

impl Progress {
    /// Shows how far a batch of runs is.
    pub(super) fn show_runs(&self, now: &Runs) {
        let note = format!("{}/{} runs; {}", now.done, now.total, now.last);
        self.show(now.done as f64 / now.total as f64, now.left, &note);
    }
}

/// Says what a reader must know of a batch whose files are in `out`, and how it ended. The runs are counted that an
/// earlier command had made, that were damaged since, and that are missing.
pub(crate) fn batch_end(
    out: &Path,
    [continued, damaged, missing]: [usize; 3],
    warnings: &[String],
    stop: &AtomicBool,
) -> ExitCode {
    if continued > 0 {
        talk::say!("weir: {continued} runs were made by an earlier command");
    }
    for warning in warnings {
        talk::say!("weir: warning: {warning}");
    }
    if damaged > 0 {
        talk::say!("weir: {damaged} runs had files that are not as they were written; they ran again");
    }
    if missing > 0 {
        let what = "runs are missing; the same command makes those, or all again without";
        talk::say!("weir: {missing} {what} {}", out.join(CELLS).display());
    }
    match (talk::is_stopped(stop), warnings.is_empty()) {
        (true, _) => ExitCode::from(talk::INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(DOUBTFUL),
    }
}
