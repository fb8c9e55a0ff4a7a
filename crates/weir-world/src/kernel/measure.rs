//! The thread that listens to the kernel's queues: loads `bpf/measure.bpf.c`, empties its ring and keeps the books.
//!
//! The programs are held by file descriptors of this thread alone, so they go with it and with the process.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapHandle, RingBufferBuilder};
use weir_netdev::Clock;

use super::KernelWorldError;
use super::tree::Tree;
use super::watcher::{Books, Watcher};
use crate::record::Recorder;
use weir_scenario::Scenario;

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/measure.skel.rs"));
}

/// How often the ring is emptied. It holds what comes in far longer.
const ROUND: std::time::Duration = std::time::Duration::from_millis(5);
/// Bytes of ring that a packet takes: its arrival and its departure; an acknowledgement that is captured comes on top.
const RING_PER_PACKET: u64 = 512;
/// Seconds that the ring holds at the link's rate in full packets.
const RING_SECONDS: u64 = 2;

/// Nobody has asked the kernel how many packets it holds.
const UNKNOWN: u64 = u64::MAX;

/// What is to be listened to.
pub(super) struct Device {
    /// The interface with the queues.
    pub(super) index: u32,
    /// The one towards the server, if its packets are to be captured.
    pub(super) captured: Option<u32>,
    /// The inode of their network namespace.
    pub(super) namespace: u32,
    /// Whether its packets are followed; else only cycles are heard of.
    pub(super) is_followed: bool,
}

/// What a run's listening brought.
pub(super) struct Heard {
    pub(super) books: Books,
    /// Records that found the ring full.
    pub(super) lost: u64,
    /// Packets that could not be followed.
    pub(super) untracked: u64,
    /// Packets that the driver gave back.
    pub(super) requeued: u64,
    /// CPU time of the thread.
    pub(super) cpu_s: f64,
}

/// What the thread and its owner tell each other.
struct Shared {
    stop: AtomicBool,
    /// Packets in the queues.
    inside: AtomicU64,
    /// The same by the kernel's count at the end.
    kernel_holds: AtomicU64,
}

/// The thread.
pub(super) struct Listener {
    shared: Arc<Shared>,
    begin: Option<SyncSender<Instant>>,
    thread: Option<JoinHandle<Result<Heard, KernelWorldError>>>,
}

impl Listener {
    /// Begins to listen; `cycles` is the classifier's ring of ended cycles. `recorder` hears of it from
    /// [`Listener::begin_at`] on; what was before came at time zero.
    pub(super) fn start(
        scenario: &Scenario,
        tree: &Tree,
        device: Device,
        cycles: MapHandle,
        recorder: Recorder,
    ) -> Result<Self, KernelWorldError> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            inside: AtomicU64::new(0),
            kernel_holds: AtomicU64::new(UNKNOWN),
        });
        let (begin, begun) = sync_channel::<Instant>(1);
        let (ready, listening) = sync_channel(1);
        let told = Arc::clone(&shared);
        let (scenario, tree) = (scenario.clone(), tree.clone());
        let thread = std::thread::Builder::new().name("listener".to_owned());
        let thread = thread.spawn(move || {
            let start = move || {
                // Nobody waits any more only if the run was given up; `stop` is set then.
                let _ = ready.send(());
                begun.recv().ok()
            };
            let watcher = |clock| Watcher::new(&scenario, &tree, Box::new(recorder), clock);
            listen(&device, &cycles, ring_bytes(&scenario), start, watcher, &told)
        });
        let thread = thread.map_err(|source| KernelWorldError::Thread { source })?;
        let mut listener = Self { shared, begin: Some(begin), thread: Some(thread) };
        if listening.recv().is_err() {
            listener.join()?;
            return Err(KernelWorldError::Panic);
        }
        Ok(listener)
    }

    /// `start` is time zero.
    pub(super) fn begin_at(&mut self, start: Instant) {
        if let Some(begin) = self.begin.take() {
            // A thread that has ended says why when it is joined.
            let _ = begin.send(start);
        }
    }

    /// Packets in the queues, a moment ago.
    pub(super) fn inside(&self) -> u64 {
        self.shared.inside.load(Ordering::Relaxed)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the listening and hands over what was heard. `kernel_holds` is how many packets are in the queues, if that
    /// is known.
    pub(super) fn stop(mut self, kernel_holds: Option<u64>) -> Result<Heard, KernelWorldError> {
        self.shared.kernel_holds.store(kernel_holds.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Release);
        self.join()
    }

    fn join(&mut self) -> Result<Heard, KernelWorldError> {
        let thread = self.thread.take().ok_or(KernelWorldError::Panic)?;
        thread.join().map_err(|_| KernelWorldError::Panic)?
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            // What it heard is of no use: the run failed elsewhere.
            let _ = thread.join();
        }
    }
}

/// A power of two, as rings must be, from 1 MB to 256 MB.
fn ring_bytes(scenario: &Scenario) -> u32 {
    let packets = scenario.bottleneck.rate.bits_per_sec() / 8 / weir_scenario::FULL_PACKET + 1;
    let wanted = packets.saturating_mul(RING_PER_PACKET * RING_SECONDS);
    (wanted.clamp(1 << 20, 1 << 28) as u32).next_power_of_two()
}

#[allow(clippy::disallowed_methods, reason = "a listener on the real clock")]
fn listen(
    device: &Device,
    cycles: &MapHandle,
    ring: u32,
    start: impl FnOnce() -> Option<Instant>,
    watcher: impl FnOnce(Clock) -> Watcher,
    shared: &Shared,
) -> Result<Heard, KernelWorldError> {
    let failed = |what: &'static str| {
        move |error: libbpf_rs::Error| KernelWorldError::Measure { what, message: format!("{error:#}") }
    };
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::MeasureSkelBuilder::default().open(&mut storage).map_err(failed("be opened"))?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.device = device.index;
        constants.captured_device = device.captured.unwrap_or(0);
        constants.net_inode = device.namespace;
    }
    open.maps.records.set_max_entries(ring).map_err(failed("get its ring"))?;
    let mut skeleton = open.load().map_err(failed("be loaded"))?;
    if device.is_followed {
        skeleton.attach().map_err(failed("be attached"))?;
    }
    // Without a start the run was given up.
    let Some(start) = start() else { return Err(KernelWorldError::Panic) };
    let watcher = std::cell::RefCell::new(watcher(Clock::starting(start)));
    {
        let mut builder = RingBufferBuilder::new();
        let take = |record: &[u8]| {
            watcher.borrow_mut().record(record);
            0
        };
        builder.add(&skeleton.maps.records, take).map_err(failed("be listened to"))?;
        let judge = |record: &[u8]| {
            watcher.borrow_mut().cycle(record);
            0
        };
        builder.add(cycles, judge).map_err(failed("be listened to"))?;
        let ring = builder.build().map_err(failed("be listened to"))?;
        while !shared.stop.load(Ordering::Acquire) {
            ring.consume().map_err(failed("be listened to"))?;
            watcher.borrow_mut().catch_up();
            shared.inside.store(watcher.borrow().inside(), Ordering::Relaxed);
            std::thread::sleep(ROUND);
        }
        skeleton.links = Default::default();
        ring.consume().map_err(failed("be listened to"))?;
    }
    let kernel_holds = Some(shared.kernel_holds.load(Ordering::Relaxed)).filter(|held| *held != UNKNOWN);
    let counters = skeleton.maps.bss_data.as_deref();
    Ok(Heard {
        books: watcher.into_inner().finish(kernel_holds),
        lost: counters.map_or(0, |counters| counters.lost),
        untracked: counters.map_or(0, |counters| counters.untracked),
        requeued: counters.map_or(0, |counters| counters.requeued),
        cpu_s: cpu_used(),
    })
}

/// CPU seconds of the calling thread.
fn cpu_used() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes, and each thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
