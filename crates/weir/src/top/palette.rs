//! The colours of `weir top`, all of them: those of the terminal's own sixteen, so that its theme applies, and none
//! where `NO_COLOR` (no-color.org) is set. Nothing is shown by colour alone.

use ratatui::style::{Color, Modifier, Style};

use weir_core::QueueChoice;
use weir_law::Verdict;

/// Which colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    colours: bool,
}

impl Palette {
    /// For `NO_COLOR`.
    pub(crate) const PLAIN: Self = Self { colours: false };
    pub(crate) const COLOURED: Self = Self { colours: true };

    /// The palette for this process's environment.
    pub(crate) fn of_environment() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Self::PLAIN,
            _ => Self::COLOURED,
        }
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn queue(self, queue: QueueChoice) -> Style {
        self.colour(match queue {
            QueueChoice::Responsive | QueueChoice::EcnResponsive => Color::Cyan,
            QueueChoice::Standard => Color::Yellow,
        })
    }

    /// The verdict that chooses the queue.
    pub(crate) fn verdict(self, verdict: Verdict) -> Style {
        match verdict {
            Verdict::Responsive => self.colour(Color::Cyan),
            Verdict::Unresponsive => self.colour(Color::Magenta),
            Verdict::Unclassified => Style::new(),
        }
    }

    /// Losses, faults.
    pub(crate) fn alarm(self) -> Style {
        self.colour(Color::Red)
    }

    /// What matters less.
    pub(crate) fn faint(self) -> Style {
        self.colour(Color::DarkGray)
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The table's head.
    pub(crate) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The head of the column that the table is sorted by.
    pub(crate) fn sorted_head(self) -> Style {
        self.head().add_modifier(Modifier::BOLD)
    }
}
