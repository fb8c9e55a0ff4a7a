//! Delay lines: propagation delay in one direction, a FIFO per distinct delay.
//!
//! Like netem without jitter, loss or reordering, and without its limit: a packet waits in the frame it came in, linked
//! to the next by its frame number, so the lines allocate nothing and hold as many packets as there are frames. Packets
//! of one delay keep their order; packets of different delays may overtake each other, as on paths of different length.

use weir_core::{Duration, Time};

/// No frame.
const NONE: u32 = u32::MAX;

/// Where a frame stands in its delay line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    release: Time,
    next: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self { release: Time::ZERO, next: NONE }
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    delay: Duration,
    head: u32,
    tail: u32,
    /// Release of the head, `Time::MAX` when the line is empty.
    due: Time,
}

/// The lines of one direction.
#[derive(Debug)]
pub(crate) struct DelayLines {
    lines: Vec<Line>,
    links: Vec<Place>,
    /// The line whose head is released first, if any holds a packet.
    earliest: usize,
    waiting: u64,
}

impl DelayLines {
    /// Lines for frames numbered below `frames`.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            lines: Vec::with_capacity(16),
            links: vec![Place::default(); frames as usize],
            earliest: 0,
            waiting: 0,
        }
    }

    /// The line of `delay`, made at its first use. Asked once per flow, not per packet.
    pub(crate) fn line(&mut self, delay: Duration) -> u16 {
        let found = self.lines.iter().position(|line| line.delay == delay);
        let index = found.unwrap_or_else(|| {
            self.lines.push(Line { delay, head: NONE, tail: NONE, due: Time::MAX });
            self.lines.len() - 1
        });
        index.min(u16::MAX as usize) as u16
    }

    /// Puts `frame`, which came at `now`, at the end of `line`.
    pub(crate) fn push(&mut self, line: u16, frame: u32, now: Time) {
        let index = line as usize;
        let tail = self.lines[index].tail;
        let mut release = now + self.lines[index].delay;
        if tail != NONE {
            // A clock read a little earlier than the one before must not let a packet overtake in its own line.
            release = release.max(self.links[tail as usize].release);
            self.links[tail as usize].next = frame;
        }
        self.links[frame as usize] = Place { release, next: NONE };
        let line = &mut self.lines[index];
        line.tail = frame;
        if line.head == NONE {
            line.head = frame;
            line.due = release;
            if release < self.lines[self.earliest].due || self.waiting == 0 {
                self.earliest = index;
            }
        }
        self.waiting += 1;
    }

    /// When the next packet is released; `Time::MAX` if none waits.
    pub(crate) fn due(&self) -> Time {
        if self.waiting == 0 { Time::MAX } else { self.lines[self.earliest].due }
    }

    /// Takes the packet that is released first.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let line = &mut self.lines[self.earliest];
        let frame = line.head;
        line.head = self.links[frame as usize].next;
        if line.head == NONE {
            line.tail = NONE;
            line.due = Time::MAX;
        } else {
            line.due = self.links[line.head as usize].release;
        }
        self.waiting -= 1;
        // Few distinct delays: looking at each head costs less than keeping a heap.
        if self.lines.len() > 1 {
            let due = |(_, line): &(usize, &Line)| line.due;
            self.earliest = self.lines.iter().enumerate().min_by_key(due).map_or(0, |(index, _)| index);
        }
        Some(frame)
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::DelayLines;
    use weir_core::{Duration, Time};

    #[test]
    fn packets_leave_in_order_of_release() {
        let mut lines = DelayLines::new(8);
        let (long, short) = (lines.line(Duration::from_nanos(100)), lines.line(Duration::from_nanos(10)));
        assert_eq!(lines.line(Duration::from_nanos(100)), long);
        assert_eq!(lines.due(), Time::MAX);
        lines.push(long, 0, Time::from_nanos(0));
        lines.push(short, 1, Time::from_nanos(50));
        lines.push(long, 2, Time::from_nanos(5));
        lines.push(short, 3, Time::from_nanos(92));
        let mut order = vec![];
        while lines.waiting() > 0 {
            let due = lines.due().as_nanos();
            order.push((due, lines.pop().unwrap()));
        }
        assert_eq!(order, [(60, 1), (100, 0), (102, 3), (105, 2)]);
        assert_eq!(lines.pop(), None);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_reorder_a_line() {
        let mut lines = DelayLines::new(4);
        let line = lines.line(Duration::from_nanos(10));
        lines.push(line, 0, Time::from_nanos(20));
        lines.push(line, 1, Time::from_nanos(15));
        assert_eq!((lines.pop(), lines.due()), (Some(0), Time::from_nanos(30)));
    }
}
