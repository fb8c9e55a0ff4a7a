//! `weir top` on a terminal: look, draw, wait for keys. However it ends, the terminal is as it was before.

use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use signal_hook::consts::SIGTSTP;

use super::hangup::Terminal;
use super::palette::Palette;
use super::sample::Sample;
use super::view::{Action, View};
use super::{Eye, Pace, keys, now, render};
use crate::show::now_unix_s;
use crate::talk;

/// The longest that a signal waits to be seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// The terminal in raw mode on its other screen. A panic gives it back, too: `try_init` sets a hook. The library's own
/// destructor would print to a terminal that is closed, and panic; so it never runs.
struct Screen(ManuallyDrop<DefaultTerminal>);

impl Screen {
    fn take() -> anyhow::Result<Self> {
        ratatui::try_init().map(ManuallyDrop::new).map(Self).context("cannot take the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The hook has done it already, and what it has printed since would be written over.
        if !std::thread::panicking() {
            // A terminal that is closed takes nothing, and nobody is there to read why.
            let _ = self.0.show_cursor().and_then(|()| ratatui::try_restore());
        }
    }
}

/// Watches until the user or a signal ends it; the exit code says which.
pub(super) fn run(eye: Eye, first: Sample, pace: &Pace) -> anyhow::Result<ExitCode> {
    let terminal = Terminal::open()?;
    terminal.end_with_it()?;
    match watch(eye, first, pace) {
        // What failed then is drawing or reading keys.
        Err(_) if terminal.is_closed() => Ok(ExitCode::from(talk::INTERRUPTED)),
        Ok(()) if talk::is_stopped(&pace.stop) => Ok(ExitCode::from(talk::INTERRUPTED)),
        ended => ended.map(|()| ExitCode::SUCCESS),
    }
}

fn watch(mut eye: Eye, first: Sample, pace: &Pace) -> anyhow::Result<()> {
    let palette = Palette::of_environment();
    let mut view = View::new();
    view.look(first);
    let mut screen = Screen::take()?;
    let mut looks = 0;
    let mut next = now() + pace.interval;
    loop {
        screen.0.draw(|frame| render::draw(frame, &view, palette, now_unix_s())).context("cannot draw")?;
        if pace.count.is_some_and(|count| looks >= count) {
            break;
        }
        match wait(&view, next, pace)? {
            Some(Action::Quit) => break,
            Some(Action::Suspend) => {
                drop(screen);
                signal_hook::low_level::emulate_default_handler(SIGTSTP).context("cannot suspend")?;
                screen = Screen::take()?;
            }
            Some(Action::Redraw) => screen.0.clear().context("cannot draw")?,
            Some(action) => view.act(action),
            None => {}
        }
        if now() >= next {
            if !view.paused {
                match eye.look() {
                    Ok(sample) => view.look(sample),
                    Err(error) => view.fail(format!("{error:#}")),
                }
                looks += 1;
            }
            next = (next + pace.interval).max(now());
        }
    }
    Ok(())
}

/// What the user asks for before the next look; nothing if it is time for that.
fn wait(view: &View, next: Instant, pace: &Pace) -> anyhow::Result<Option<Action>> {
    loop {
        if talk::is_stopped(&pace.stop) {
            return Ok(Some(Action::Quit));
        }
        let left = next.saturating_duration_since(now());
        if event::poll(left.min(PATIENCE)).context("cannot read keys")? {
            let event = event::read().context("cannot read keys")?;
            let asked = keys::action(&event, view.editing.is_some());
            if asked.is_some() {
                return Ok(asked);
            }
        }
        if now() >= next {
            return Ok(None);
        }
    }
}
