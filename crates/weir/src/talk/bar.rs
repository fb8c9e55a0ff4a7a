//! A progress bar.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::plain;

/// A progress bar with the time left; nothing where standard error is not a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar for work called `name`.
    pub(crate) fn new(name: &str) -> Self {
        let bar = if io::stderr().is_terminal() { ProgressBar::new(1000) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}%  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(plain(name).into_owned());
        Self(bar)
    }

    /// Shows how far the work is, 0 to 1, and how long it will still take; whether it is farther than before.
    pub(crate) fn show(&self, done: f64, left: Option<Duration>, note: &str) -> bool {
        let permille = (done.clamp(0.0, 1.0) * 1000.0) as u64;
        let is_news = permille != self.0.position();
        self.0.set_position(permille);
        let left = left.map(|left| format!("{} s left", left.as_secs())).unwrap_or_default();
        self.0.set_message(if note.is_empty() { left } else { format!("{left}  {}", plain(note)) });
        is_news
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
