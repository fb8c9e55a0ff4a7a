//! What each key does. The help and the footer are made from the same list.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::Action;

/// Keys as they are written, and what they do.
pub(crate) const KEYS: [(&str, &str); 10] = [
    ("q", "quit"),
    ("s S", "sort by the next, previous column"),
    ("r", "reverse the order"),
    ("/", "filter: text, class:responsive, queue:standard, proto:quic"),
    ("Esc", "out of the help; no filter"),
    ("p", "pause"),
    ("← →", "move the columns"),
    ("↑ ↓", "move the rows; PgUp, PgDn, Home, End too"),
    ("Tab", "the next bottleneck"),
    ("h", "help"),
];

/// The same in a line.
pub(crate) const FOOTER: &str = "q quit  s sort  r reverse  / filter  p pause  ←→ columns  ↑↓ rows  h help";

/// How many rows a page moves; the terminal has more.
const PAGE: isize = 10;

/// What an event asks for, given whether a filter is being typed.
pub(crate) fn action(event: &Event, editing: bool) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => pressed(*key, editing),
        Event::Resize(..) => Some(Action::Redraw),
        _ => None,
    }
}

fn pressed(key: KeyEvent, editing: bool) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('z') => Some(Action::Suspend),
            KeyCode::Char('l') => Some(Action::Redraw),
            _ => None,
        };
    }
    if editing {
        return match key.code {
            KeyCode::Char(letter) => Some(Action::Type(letter)),
            KeyCode::Backspace => Some(Action::Erase),
            KeyCode::Enter => Some(Action::Accept),
            KeyCode::Esc => Some(Action::Cancel),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('s') => Action::Sort(true),
        KeyCode::Char('S') => Action::Sort(false),
        KeyCode::Char('r') => Action::Reverse,
        KeyCode::Char('/') => Action::EditFilter,
        KeyCode::Esc => Action::Back,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('h' | '?') => Action::Help,
        KeyCode::Tab => Action::Next,
        KeyCode::Up => Action::Rows(-1),
        KeyCode::Down => Action::Rows(1),
        KeyCode::PageUp => Action::Rows(-PAGE),
        KeyCode::PageDown => Action::Rows(PAGE),
        KeyCode::Home => Action::Rows(isize::MIN),
        KeyCode::End => Action::Rows(isize::MAX),
        KeyCode::Left => Action::Columns(-1),
        KeyCode::Right => Action::Columns(1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

    use super::action;
    use crate::top::view::Action;

    fn key(code: KeyCode, modifiers: KeyModifiers, editing: bool) -> Option<Action> {
        action(&Event::Key(KeyEvent::new(code, modifiers)), editing)
    }

    #[test]
    fn letters_are_text_while_a_filter_is_typed() {
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), none, false), Some(Action::Quit));
        assert_eq!(key(KeyCode::Char('q'), none, true), Some(Action::Type('q')));
        assert_eq!(key(KeyCode::Esc, none, true), Some(Action::Cancel));
        assert_eq!(key(KeyCode::Esc, none, false), Some(Action::Back));
        assert_eq!(key(KeyCode::F(1), none, false), None);
    }

    #[test]
    fn control_c_always_ends() {
        for editing in [false, true] {
            assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL, editing), Some(Action::Quit));
        }
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::CONTROL, false), None);
    }
}
