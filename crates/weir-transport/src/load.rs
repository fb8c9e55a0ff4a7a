//! A load for measuring networks: bytes that mean nothing, over both sub-flows, from an end that goes on until it is
//! told to stop to one that only counts.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_fq::{Connection, Shared, SubFlow};

use crate::Error;
use crate::clock::{now, sleep};
use crate::connect::{Peer, Sending, begin, listen};
use crate::identity::Identity;
use crate::pipe::Pipe;
use crate::run::Running;
use crate::streams::Conversation;

/// What is sent.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
/// How often somebody looks whether the paths are there.
const TICK: Duration = Duration::from_millis(1);

/// What the sending end knows of a sub-flow's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Look {
    /// The smoothed round-trip time (RFC 9002 section 5.3).
    pub rtt: Duration,
    /// Bytes of packets that ask to be acknowledged.
    pub sent_bytes: u64,
    /// Of these, in packets that were declared lost.
    pub lost_bytes: u64,
    /// Packets that were declared lost.
    pub lost_packets: u64,
    /// Reductions for loss or marks, as noq counts them.
    pub congestion_events: u64,
}

/// Looks at both paths, which the thread of an endpoint keeps up to date.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    paths: [Option<Look>; 2],
    settled: bool,
}

impl Looks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest look at a path.
    pub(crate) fn set(&self, sub_flow: SubFlow, look: Look) {
        self.state().paths[sub_flow.index()] = Some(look);
    }

    /// The second path can carry data, or there will be none.
    pub(crate) fn settle(&self) {
        self.state().settled = true;
    }
}

/// The sending end, until it is dropped.
pub struct Source {
    sending: Sending,
    writer: Option<JoinHandle<()>>,
    epoch: Instant,
}

impl Source {
    /// Begins to connect to a [`Sink`], the heavy sub-flow from the first address and the light one from the second.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub fn connect(peer: &Peer, local: [SocketAddr; 2], connection: Connection) -> Result<Self, Error> {
        let epoch = now();
        let (sending, _) = begin(peer, local, connection)?;
        Ok(Self { sending, writer: None, epoch })
    }

    /// When the times in [`weir_fq::Findings`] are zero, to a fraction of a millisecond.
    pub const fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Waits until both sub-flows can carry data, or the second has failed; false if `stop` says so before.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn wait_ready(&self, stop: &dyn Fn() -> bool) -> Result<bool, Error> {
        let Sending { conversation, looks, .. } = &self.sending;
        while !stop() {
            if let Some(error) = conversation.error() {
                return Err(error);
            }
            if looks.state().settled {
                return Ok(true);
            }
            sleep(TICK);
        }
        Ok(false)
    }

    /// Sends so many bytes, or as many as there is time for. The detection begins with the first.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn send(&mut self, bytes: Option<u64>) -> Result<(), Error> {
        let bulk = self.sending.conversation.bulk.clone();
        let thread = thread::Builder::new().name("weir-source".to_owned());
        let writer = thread
            .spawn(move || write(&bulk, bytes))
            .map_err(|error| Error::Local(format!("cannot start a thread: {error}")))?;
        self.writer = Some(writer);
        Ok(())
    }

    /// The connection's detection.
    pub const fn shared(&self) -> &Shared {
        &self.sending.shared
    }

    /// What is known of the path of a sub-flow; none before it can carry data.
    pub fn look(&self, sub_flow: SubFlow) -> Option<Look> {
        self.sending.looks.state().paths[sub_flow.index()]
    }

    /// Why the connection has ended, if it has.
    pub fn ended(&self) -> Option<Error> {
        self.sending.conversation.error()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.sending.conversation.close("done");
        self.sending.conversation.end(&Error::Stopped);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write(bulk: &Pipe, bytes: Option<u64>) {
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(ZEROS.len()).min(ZEROS.len());
        if bulk.write(Bytes::from_static(&ZEROS[..count])).is_err() {
            return;
        }
        left -= count as u64;
    }
    bulk.finish();
}

/// The receiving end, until it is dropped.
pub struct Sink {
    address: SocketAddr,
    accepted: mpsc::Receiver<Conversation>,
    _running: Running,
}

impl Sink {
    /// Listens, with full packets of so many bytes of UDP payload.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn listen(local: SocketAddr, identity: &Identity, datagram: u16) -> Result<Self, Error> {
        let (accept, accepted) = mpsc::channel();
        let accept = Box::new(move |_, conversation: Conversation| {
            // Nobody takes it only if this end is being dropped.
            let _ = accept.send(conversation);
        });
        let (running, address) = listen(local, identity, datagram, accept)?;
        Ok(Self { address, accepted, _running: running })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, if one begins in so much time.
    pub fn accept(&self, time: Duration) -> Option<Inflow> {
        self.accepted.recv_timeout(time).ok().map(Inflow)
    }
}

/// What comes in over one connection.
pub struct Inflow(Conversation);

impl Inflow {
    /// The bytes, in order, that come next, in so much time; who waits for an end knows of how many.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn count(&self, time: Duration) -> Result<u64, Error> {
        let read = self.0.bulk.read_until(now() + time)?;
        Ok(read.flatten().map_or(0, |chunks| chunks.iter().map(|bytes| bytes.len() as u64).sum()))
    }

    /// Bytes of frames that have arrived on the paths of both sub-flows, those that came twice included.
    pub fn arrived(&self) -> [u64; 2] {
        let on = |path: usize| self.0.arrived[path].load(Ordering::Relaxed);
        SubFlow::BOTH.map(|sub_flow| on(usize::from(sub_flow == SubFlow::Light)))
    }

    /// Ends the connection.
    pub fn close(&self) {
        self.0.close("done");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_cc::{Ack, Controller, EcnUse, Timeout};
    use weir_core::Rate;
    use weir_fq::{Connection, Options, SubFlow};

    use super::{Sink, Source};
    use crate::Error;
    use crate::clock::{now, sleep};
    use crate::connect::{DATAGRAM, Peer};
    use crate::identity::{Identity, Trust};
    use crate::loopback_tests::{Turns, options};

    const LONG: Duration = Duration::from_secs(30);

    /// Goes by a rate alone, as `delay` and `pcc-published` do.
    struct Paced;

    impl Paced {
        const RATE: Rate = Rate::from_bits_per_sec(8_000_000);
    }

    impl Controller for Paced {
        fn name(&self) -> &'static str {
            "paced"
        }

        fn on_ack(&mut self, _: &Ack) {}

        fn on_timeout(&mut self, _: &Timeout) {}

        fn window(&self) -> u64 {
            u64::MAX
        }

        fn pacing(&self) -> Option<Rate> {
            Some(Self::RATE)
        }

        fn ecn(&self) -> EcnUse {
            EcnUse::Off
        }
    }

    #[test]
    fn a_rate_without_a_window_is_kept() {
        let identity = Identity::make().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let sink = Sink::listen(any, &identity, DATAGRAM).unwrap();
        let peer = Peer::new(sink.address(), Trust::Fingerprint(identity.fingerprint()));
        let (detector, _told) = Turns::new(10);
        let options =
            Options { choose: Box::new(|_| Box::new(Paced)), ..options(Box::new(detector), "cubic") };
        let mut source = Source::connect(&peer, [any; 2], Connection::new(options)).unwrap();
        assert!(source.wait_ready(&|| false).unwrap());
        let inflow = sink.accept(LONG).unwrap();
        source.send(None).unwrap();
        while source.shared().lock().findings().detections == 0 {
            inflow.count(Duration::from_millis(10)).unwrap();
        }
        let (began, mut bytes) = (now(), 0);
        while bytes < 400_000 {
            bytes += inflow.count(LONG).unwrap();
        }
        let elapsed = now().duration_since(began).as_secs_f64();
        // What had been sent when the count began, and what a late host makes up for.
        let most = elapsed * Paced::RATE.bits_per_sec() as f64 / 8.0 + 60_000.0;
        assert!(bytes as f64 <= most, "{bytes} bytes in {elapsed} s");
    }

    #[test]
    fn what_is_sent_is_counted_and_looked_at() {
        const BYTES: u64 = 3_000_000;
        let identity = Identity::make().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let sink = Sink::listen(any, &identity, DATAGRAM).unwrap();
        let peer = Peer::new(sink.address(), Trust::Fingerprint(identity.fingerprint()));
        let (detector, _told) = Turns::new(20);
        let connection = Connection::new(options(Box::new(detector), "cubic"));
        let mut source = Source::connect(&peer, [any; 2], connection).unwrap();
        assert!(!source.wait_ready(&|| true).unwrap(), "it was told to stop");
        assert!(source.wait_ready(&|| false).unwrap());
        let inflow = sink.accept(LONG).unwrap();
        source.send(Some(BYTES)).unwrap();
        let (mut bytes, until) = (0, now() + LONG);
        while bytes < BYTES && now() < until {
            bytes += inflow.count(Duration::from_millis(100)).unwrap();
        }
        assert_eq!(bytes, BYTES);
        let [light, heavy] = inflow.arrived();
        assert!(heavy > light && light > 0 && heavy + light >= BYTES, "{light} and {heavy}");
        for sub_flow in SubFlow::BOTH {
            let look = source.look(sub_flow).unwrap();
            assert!(look.rtt > Duration::ZERO && look.sent_bytes > 0, "{look:?}");
        }
        assert!(source.epoch() < now() && source.shared().lock().findings().detections > 0);
        inflow.close();
        while source.ended().is_none() && now() < until {
            sleep(Duration::from_millis(1));
        }
        assert!(matches!(source.ended(), Some(Error::Closed(_))), "{:?}", source.ended());
    }
}
