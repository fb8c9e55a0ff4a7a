//! Ended cycles as the programs tell them: one record for each, with the judgement that came of it.
//!
//! Only programs that were loaded with `events` tell anything. There is one ring for each queue and one reader takes what
//! is in it; records that find the ring full are lost and not counted, the flows' state does not depend on them.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use serde::Serialize;
use weir_core::QueueChoice;
use weir_law::{Class, FlowKey, Judgement, SignalPair, Votes};

use super::bytes::Reader;
use super::error::KernelError;
use super::program::Programs;
use super::snapshot::read_key;

/// A cycle that ended (`struct weir_event` of `bpf/crq_maps.h`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When: nanoseconds of CLOCK_MONOTONIC.
    pub time: u64,
    /// The flow.
    pub key: FlowKey,
    /// The end whose packets go through the queue.
    pub source: SocketAddr,
    /// The end that they go to.
    pub destination: SocketAddr,
    /// The cycle's number.
    pub cycle: u32,
    /// Its length.
    pub duration: Duration,
    /// Payload bytes in it.
    pub window: u32,
    /// Packets in it.
    pub packets: u32,
    /// Signals booked to it so far, in segments.
    pub signals: SignalPair<u32>,
    /// Whether it was a connection's first, whose beginning was not seen.
    pub first: bool,
    /// What came of its end.
    pub judgement: Judgement,
    /// The window two cycles before, which this one is compared with.
    pub window_signalled: u32,
    /// Signals booked to that one.
    pub signals_signalled: SignalPair<u32>,
    /// All votes, this one included.
    pub votes: SignalPair<Votes>,
    /// The flow's class before.
    pub class_before: Class,
    /// And now.
    pub class_after: Class,
    /// The queue that it had earned before.
    pub choice_before: QueueChoice,
    /// And now.
    pub choice_after: QueueChoice,
}

/// `sizeof(struct weir_event)`.
const EVENT: usize = 152;

impl Event {
    fn read(bytes: &[u8]) -> Option<Self> {
        let event = Reader(bytes.get(..EVENT)?);
        let key = read_key(event.part(8, 40));
        let ascending = event.u32(48) != 0;
        let end = event.part(56, 40);
        let assessed = event.part(96, 48);
        let pair = |of: Reader<'_>, at: usize| SignalPair { loss: of.u32(at), mark: of.u32(at + 4) };
        let votes = |at: usize| Votes { responsive: assessed.u32(at), unresponsive: assessed.u32(at + 4) };
        let class = |at: usize| Class::from_index(assessed.u8(at)).unwrap_or_default();
        let choice = |at: usize| match assessed.u8(at) {
            1 => QueueChoice::Responsive,
            _ => QueueChoice::Standard,
        };
        Some(Self {
            time: event.u64(0),
            source: if ascending { key.low } else { key.high },
            destination: if ascending { key.high } else { key.low },
            key,
            cycle: end.u32(16),
            duration: Duration::from_nanos(end.u64(8).saturating_sub(end.u64(0))),
            window: end.u32(20),
            packets: end.u32(24),
            signals: pair(end, 28),
            first: end.u32(36) != 0,
            judgement: match assessed.u8(46) {
                1 => Judgement::Voted,
                2 => Judgement::SmallWindow,
                3 => Judgement::PartialCycle,
                _ => Judgement::NoSignal,
            },
            window_signalled: assessed.u32(12),
            signals_signalled: pair(assessed, 16),
            votes: SignalPair { loss: votes(24), mark: votes(32) },
            class_before: class(42),
            class_after: class(43),
            choice_before: choice(44),
            choice_after: choice(45),
        })
    }
}

/// A listener.
#[derive(Debug)]
pub struct Events {
    ring: RingBuffer<'static>,
    heard: Rc<RefCell<Vec<Event>>>,
}

impl Events {
    /// Listens to the queue that is pinned in `directory`.
    ///
    /// # Errors
    /// [`KernelError::NotPinned`] where nothing is there.
    pub fn open(directory: &Path) -> Result<Self, KernelError> {
        let path = directory.join("events");
        let map = MapHandle::from_pinned_path(&path).map_err(|_| KernelError::NotPinned(path))?;
        Self::over(&map)
    }

    /// The same for programs that are not pinned.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn of(programs: &Programs) -> Result<Self, KernelError> {
        Self::over(&programs.map("events")?)
    }

    fn over(map: &MapHandle) -> Result<Self, KernelError> {
        let failed = |error| KernelError::from_libbpf("listening to events", &error);
        let heard = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let into = Rc::clone(&heard);
        builder
            .add(map, move |bytes| {
                into.borrow_mut().extend(Event::read(bytes));
                0
            })
            .map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        Ok(Self { ring, heard })
    }

    /// What has been told since the last call; waits up to `timeout` for the first.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn poll(&mut self, timeout: Duration) -> Result<Vec<Event>, KernelError> {
        self.ring.poll(timeout).map_err(|error| KernelError::from_libbpf("listening to events", &error))?;
        Ok(self.heard.take())
    }
}
