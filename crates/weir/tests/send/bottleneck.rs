//! A bottleneck in user space between the two hosts of a [`World`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_core::{Duration, Rate, Seed};
use weir_link::{IoError, Link, LinkConfig, PipelineConfig, RunResult, Unobserved};
use weir_netdev::offload::{self, Role, prepare};
use weir_qdisc::config::{BuildContext, QdiscConfig};
use weir_testkit::world::World;

pub(crate) struct Bottleneck {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<RunResult, IoError>>>,
    _guards: Vec<offload::OffloadGuard>,
}

impl Bottleneck {
    /// A queue discipline at a rate, from the world's server to its client, and a delay in each direction.
    pub(crate) fn start(world: &World, qdisc: &str, rate: &str, delay: &str) -> Self {
        let guards = vec![
            world.server.enter(|| prepare("s", Role::Host).unwrap()),
            world.client.enter(|| prepare("c", Role::Host).unwrap()),
            world.bottleneck.enter(|| prepare("to-s", Role::Bottleneck).unwrap()),
            world.bottleneck.enter(|| prepare("to-c", Role::Bottleneck).unwrap()),
        ];
        let (rate, delay): (Rate, Duration) = (rate.parse().unwrap(), delay.parse().unwrap());
        let config: QdiscConfig = qdisc.parse().unwrap();
        let context = BuildContext { rate, rtt: delay * 2, mtu: 1514, seed: Seed::default() };
        let qdisc = config.build(&context).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, opened) = std::sync::mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = world.bottleneck.spawn(move || {
            let link = Link::open(LinkConfig::between("to-s", "to-c"))?;
            ready.send(()).unwrap();
            let pipeline = PipelineConfig {
                rate,
                burst: None,
                overhead: 0,
                law: None,
                delays: Box::new(move |_, _| (delay, delay)),
                frames: 0,
            };
            link.run(pipeline, qdisc, Box::new(Unobserved), &stopped)
        });
        assert!(opened.recv().is_ok(), "the bottleneck does not open");
        Self { stop, thread: Some(thread), _guards: guards }
    }

    /// Ends it; it must have lost nothing but in its queue.
    pub(crate) fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let report = self.thread.take().unwrap().join().unwrap().unwrap().report;
        assert!(report.holds(), "{report:#?}");
    }
}

impl Drop for Bottleneck {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
