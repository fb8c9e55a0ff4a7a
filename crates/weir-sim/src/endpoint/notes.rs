//! What an acknowledgement says on the wire and a simulated sender does not ask for: SACK blocks in numbers of the
//! stream (RFC 2018), duplicates among them (RFC 2883), and the time stamp that it echoes (RFC 7323). Kept only where
//! somebody writes packets down.

use std::collections::VecDeque;

use weir_core::Time;

use super::stream::Arrived;

/// SACK blocks that fit beside time stamps.
pub(crate) const BLOCKS: usize = 3;
/// Of packets of the stream, from the first to before the second; empty ones at the end.
pub(crate) type Blocks = [(u64, u64); BLOCKS];

/// What one acknowledgement says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Note {
    index: u32,
    /// When the packet was sent whose time stamp is echoed.
    pub(crate) echoed: Time,
    pub(crate) blocks: Blocks,
}

/// The notes of acknowledgements that are on their way, and what the next will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    line: VecDeque<Note>,
    newest: u64,
    duplicate: Option<u64>,
    echo: Option<Time>,
    last_echo: Time,
}

impl Notes {
    /// A packet of the stream has come that was sent at `sent`; `known` if it had come before.
    pub(crate) fn heard(&mut self, sequence: u64, known: bool, sent: Time, in_order: bool) {
        self.newest = sequence;
        if known {
            self.duplicate = Some(sequence);
        }
        // The time stamp of what moved the left edge of the window, and of the first such one while an acknowledgement
        // waits (RFC 7323 section 4.3).
        if in_order {
            self.echo.get_or_insert(sent);
        }
    }

    /// An acknowledgement goes out.
    pub(crate) fn write(&mut self, index: u32, stream: &Arrived) {
        self.last_echo = self.echo.take().unwrap_or(self.last_echo);
        let mut blocks = stream.blocks(self.newest);
        if let Some(duplicate) = self.duplicate.take() {
            blocks.copy_within(0..BLOCKS - 1, 1);
            blocks[0] = (duplicate, duplicate + 1);
        }
        self.line.push_back(Note { index, echoed: self.last_echo, blocks });
    }

    /// The note of an acknowledgement; older ones are forgotten, since acknowledgements do not overtake each other.
    pub(crate) fn read(&mut self, index: u32) -> Note {
        while let Some(note) = self.line.pop_front() {
            if note.index == index {
                return note;
            }
        }
        Note::default()
    }
}
