//! A user-space bottleneck or delay line, in a thread of its own inside a network namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_core::Duration;
use weir_link::{DEFAULT_STEP, IoError, Link, LinkConfig, Observer, PipelineConfig};
use weir_qdisc::Qdisc;

use crate::real::longest_rtt;
use crate::run::RunError;
use weir_scenario::{FULL_PACKET, Scenario};
use weir_testbed::host::Namespace;

/// Departures gather no longer than this, whatever the round-trip time.
const LONGEST_STEP: Duration = Duration::from_micros(200);

/// The thread.
pub(crate) struct RunningLink {
    stop: Arc<AtomicBool>,
    begin: Option<SyncSender<Instant>>,
    thread: Option<JoinHandle<Result<weir_link::RunResult, IoError>>>,
}

impl RunningLink {
    /// Opens the interfaces that `config` names in `namespace`. Packets move from [`RunningLink::begin_at`] on.
    pub(crate) fn prepare(
        namespace: &Namespace,
        config: LinkConfig,
        pipeline: PipelineConfig,
        qdisc: Box<dyn Qdisc>,
        observer: Box<dyn Observer>,
    ) -> Result<Self, RunError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_open, opened) = sync_channel(1);
        let (begin, begun) = sync_channel(1);
        let flag = Arc::clone(&stop);
        let thread = namespace.spawn("bottleneck", move || {
            let mut link = Link::open(config)?;
            // Nobody waits any more only if the run was given up; `flag` is set then.
            let _ = is_open.send(());
            if let Ok(start) = begun.recv() {
                link.begin_at(start);
            }
            link.run(pipeline, qdisc, observer, &flag)
        })?;
        let mut running = Self { stop, begin: Some(begin), thread: Some(thread) };
        if opened.recv().is_err() {
            // The thread has ended without opening: its result says why.
            running.join()?;
            return Err(RunError::Panic("bottleneck"));
        }
        Ok(running)
    }

    /// Lets packets through; `start` is time zero.
    pub(crate) fn begin_at(&mut self, start: Instant) {
        if let Some(begin) = self.begin.take() {
            // A thread that has ended says why when it is joined.
            let _ = begin.send(start);
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread and hands over what it measured.
    pub(crate) fn stop(mut self) -> Result<weir_link::RunResult, RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> Result<weir_link::RunResult, RunError> {
        let thread = self.thread.take().ok_or(RunError::Panic("bottleneck"))?;
        Ok(thread.join().map_err(|_| RunError::Panic("bottleneck"))??)
    }
}

impl Drop for RunningLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            // Its result is of no use: the run failed elsewhere.
            let _ = thread.join();
        }
    }
}

/// How long departures gather: a fiftieth of the shortest round-trip time, which no flow notices and saves wake-ups.
pub(crate) fn step(scenario: &Scenario) -> Duration {
    let shortest = scenario.flows.iter().filter_map(|flow| flow.rtt).chain([scenario.bottleneck.rtt]).min();
    (shortest.unwrap_or_default() / 50).clamp(DEFAULT_STEP, LONGEST_STEP)
}

/// Frames for what the delay lines, the queue and the rings hold, in packets of full size, six times over: overload and
/// acknowledgements need frames too.
pub(crate) fn frames(scenario: &Scenario) -> u32 {
    let bdp = scenario.bottleneck.rate.bytes_in(longest_rtt(scenario)).0 / FULL_PACKET;
    (6 * bdp + 16_384).clamp(16_384, 262_144) as u32
}
