//! A bottleneck on the real clock: one thread that reads both interfaces, lets the pipeline do what is due, and sends.
//!
//! Arrivals are stamped by the kernel and everything between two looks at the rings happens in virtual time, so the
//! thread need not wake up for each packet: it sleeps until the next departure, and at busy times for a small step in
//! which departures gather and leave together. The step costs lateness, which is measured, and saves system calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use weir_core::Duration;
use weir_law::Law;
use weir_qdisc::Qdisc;

use crate::frame::{DEFAULT_FRAMES, FramePool};
use crate::io::{BATCH, IoError, IoKind, IoStatistics, PacketIo, Received, open};
use crate::observer::Observer;
use crate::pipeline::{Departure, Pipeline, PipelineConfig};
use crate::report::PipelineReport;
use crate::schedule::{Priority, cpu_used, sleep_until};
use weir_netdev::clock::Clock;

/// Departures that leave together unless chosen otherwise.
pub const DEFAULT_STEP: Duration = Duration::from_micros(50);

/// A real-time thread that never sleeps is put to rest by the kernel for 50 ms in each second
/// (Documentation/scheduler/sched-rt-group.rst, `sched_rt_runtime_us`). One that rests a step after so long a time of
/// work is not.
const STINT: Duration = Duration::from_millis(1);

/// Thousandths of a processor that a bottleneck asks for by default: enough for 2 Gbit/s, and room for one
/// beside it on two processors.
pub const DEFAULT_SHARE: u32 = 800;

/// How often the stop flag is looked at when nothing happens.
const IDLE: Duration = Duration::from_millis(10);

/// How often the interfaces are looked for.
const CHECK: Duration = Duration::from_millis(100);

/// Where a bottleneck is.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The interface on the server's side, in the network namespace of the calling thread.
    pub server: String,
    /// The interface on the client's side, likewise.
    pub client: String,
    /// How packets are moved.
    pub io: IoKind,
    /// Frames of the pool: packets that queue, delay lines and rings hold together.
    pub frames: u32,
    /// Time zero, shared with whatever else measures in this run.
    pub start: Instant,
    /// How long departures gather at busy times. Adds at most so much lateness; zero looks at the rings all the time
    /// and takes a whole CPU.
    pub step: Duration,
    /// How many thousandths of a processor the thread asks to be promised; `None` to be scheduled as any other. What it
    /// is promised is also what it gets at most while others want the rest: too little makes packets late.
    pub share: Option<u32>,
}

impl LinkConfig {
    /// Between two interfaces, with defaults for the rest and time zero now.
    #[allow(clippy::disallowed_methods)] // A world reads the clock, and here is where this one does.
    pub fn between(server: &str, client: &str) -> Self {
        Self {
            server: server.to_owned(),
            client: client.to_owned(),
            io: IoKind::Auto,
            frames: DEFAULT_FRAMES,
            start: Instant::now(),
            step: DEFAULT_STEP,
            share: Some(DEFAULT_SHARE),
        }
    }
}

/// What a run says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// How packets were moved.
    pub path: String,
    /// What the bottleneck did.
    #[serde(flatten)]
    pub pipeline: PipelineReport,
    /// What the rings lost.
    pub io: IoStatistics,
    /// How long it ran.
    pub wall: Duration,
    /// CPU time in user mode.
    pub cpu_user: Duration,
    /// CPU time in the kernel, including what it does for the receiving host within the sending call.
    pub cpu_system: Duration,
    /// Times that the thread went round.
    pub rounds: u64,
    /// How the thread was scheduled: `fifo`, `nice` or `normal`.
    pub scheduling: String,
}

impl RunReport {
    /// Whether all checks hold and no ring lost a packet.
    pub fn holds(&self) -> bool {
        self.pipeline.holds() && self.io.lossless()
    }
}

/// A finished run.
pub struct RunResult {
    /// What it says of itself.
    pub report: RunReport,
    /// The observer, to be asked for what it saw.
    pub observer: Box<dyn Observer>,
    /// The law, to be asked for its verdicts.
    pub law: Option<Law>,
}

/// A bottleneck whose interfaces are open: packets wait in the rings from here on.
pub struct Link {
    io: Box<dyn PacketIo>,
    pool: FramePool,
    clock: Clock,
    config: LinkConfig,
}

impl Link {
    /// Opens the interfaces in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When an interface does not exist or cannot be opened in the way asked for.
    pub fn open(config: LinkConfig) -> Result<Self, IoError> {
        let mut pool = FramePool::new(config.frames)?;
        let clock = Clock::starting(config.start);
        let io = open(config.io, &config.server, &config.client, &mut pool, clock)?;
        Ok(Self { io, pool, clock, config })
    }

    /// Makes `start` time zero instead of [`LinkConfig::start`]: for runs that begin when everything else is ready.
    /// Packets that wait in the rings by now came before.
    pub fn begin_at(&mut self, start: Instant) {
        self.config.start = start;
        self.clock = Clock::starting(start);
        self.io.set_clock(self.clock);
    }

    /// How packets are moved.
    pub fn describe(&self) -> String {
        self.io.describe()
    }

    /// Runs until `stop` is set. `pipeline.frames` is set to the pool's size.
    ///
    /// # Errors
    /// When an interface goes away.
    pub fn run(
        mut self,
        pipeline: PipelineConfig,
        qdisc: Box<dyn Qdisc>,
        observer: Box<dyn Observer>,
        stop: &AtomicBool,
    ) -> Result<RunResult, IoError> {
        let frames = self.pool.capacity();
        let mut pipeline = Pipeline::new(PipelineConfig { frames, ..pipeline }, qdisc, observer);
        let priority = self.config.share.map(Priority::raise);
        let began = self.clock.now();
        let cpu = cpu_used();
        let rounds = self.go_round(&mut pipeline, stop)?;
        let wall = self.clock.now().since(began);
        let cpu_after = cpu_used();
        let io = self.io.statistics();
        let finished = pipeline.finish(&mut self.pool);
        let report = RunReport {
            path: self.io.describe(),
            pipeline: finished.report,
            io,
            wall,
            cpu_user: cpu_after.0 - cpu.0,
            cpu_system: cpu_after.1 - cpu.1,
            rounds,
            scheduling: priority.as_ref().map_or("normal", Priority::name).to_owned(),
        };
        Ok(RunResult { report, observer: finished.observer, law: finished.law })
    }

    fn go_round(&mut self, pipeline: &mut Pipeline, stop: &AtomicBool) -> Result<u64, IoError> {
        let mut received: Vec<Received> = Vec::with_capacity(BATCH * 16);
        let mut departures: Vec<Departure> = Vec::with_capacity(BATCH);
        // How many of the departures the kernel has taken.
        let mut sent = 0;
        let mut rounds = 0;
        let mut rested = self.clock.now();
        let mut checked = rested;
        while !stop.load(Ordering::Relaxed) {
            rounds += 1;
            received.clear();
            self.io.receive(&mut self.pool, &mut received)?;
            for packet in &received {
                pipeline.receive(packet.frame, self.pool.bytes(packet.frame), packet.direction, packet.at);
            }
            let mut more = !received.is_empty() && received.len() >= BATCH;
            let now = self.clock.now();
            if now.since(checked) > CHECK {
                self.io.check()?;
                checked = now;
            }
            if departures.is_empty() {
                more |= pipeline.advance(now, &mut self.pool, &mut departures);
            }
            if !departures.is_empty() {
                let taken = self.io.send(&mut self.pool, &departures[sent..])?;
                let real = self.clock.now();
                pipeline.departed(&departures[sent..sent + taken], real, &self.pool);
                sent += taken;
                if sent < departures.len() {
                    // The kernel has no room; time is what makes some.
                    sleep_until(&self.clock, real + Duration::from_micros(20));
                    continue;
                }
                departures.clear();
                sent = 0;
            }
            if !more {
                self.rest(pipeline)?;
                rested = self.clock.now();
            } else if self.config.share.is_some() && now.since(rested) > STINT {
                sleep_until(&self.clock, now + DEFAULT_STEP);
                rested = self.clock.now();
            }
        }
        Ok(rounds)
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self, pipeline: &Pipeline) -> Result<(), IoError> {
        let step = self.config.step;
        if step == Duration::ZERO {
            return Ok(());
        }
        let now = self.clock.now();
        let next = pipeline.next_wake();
        let until = next.map_or(Duration::MAX, |next| next.since(now)).min(IDLE);
        if next.is_some() && until <= step {
            // Busy: a fixed step, in which nobody needs to be notified of arrivals.
            sleep_until(&self.clock, now + step);
            return Ok(());
        }
        self.io.wait(until)
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link {{ {:?}, {} }}", self.config, self.describe())
    }
}
