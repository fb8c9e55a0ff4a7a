//! The receiving end of a connection: it reports what has arrived, and when.

use std::time::Instant;

use noq_proto::Connection;

use crate::arrivals::Arrivals;
use crate::clock::Clock;
use crate::report::Reporter;

/// The receiving end.
pub(crate) struct Receives {
    arrivals: Arrivals,
    reporter: Reporter,
    clock: Clock,
}

impl Receives {
    pub(crate) fn new(arrivals: Arrivals, clock: Clock) -> Self {
        Self { arrivals, reporter: Reporter::default(), clock }
    }

    /// noq is about to read a datagram that arrived then.
    pub(crate) fn on_datagram(&self, at: Instant) {
        self.arrivals.set_time(self.clock.time(at));
    }

    /// Reports what is due.
    pub(crate) fn drive(&mut self, connection: &mut Connection, now: Instant) {
        self.arrivals.take(|arrival| self.reporter.push(arrival));
        let now = self.clock.time(now);
        if self.reporter.due().is_none_or(|due| due > now) {
            return;
        }
        let room = connection.datagrams().max_size().unwrap_or(0);
        if let Some(report) = self.reporter.report(now, room) {
            // Where the sender takes no reports, it does without; of more than the buffer holds, the newest count.
            let _ = connection.datagrams().send(report, true);
        }
    }

    /// When [`drive`](Self::drive) must be called at the latest.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.reporter.due().map(|due| self.clock.instant(due))
    }
}
