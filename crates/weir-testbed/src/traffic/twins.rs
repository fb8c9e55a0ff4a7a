//! QUIC flows that look for fair queuing, over weir-transport: one connection of two sub-flows, which differ in the
//! sender's port. The sender connects, other than in [`super::quic`], as it is the one that opens the second path.
//!
//! Payload that has arrived is divided between the sub-flows by the bytes of frames that came on the path of each:
//! which packet brought a byte of the stream is not known to whoever reads it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weir_core::{Bytes, Duration, Seed, Time};
use weir_fq::catalog::Names;
use weir_fq::{Findings, SubFlow};
use weir_transport::{Identity, Inflow, Peer, Sink, Source, Trust};

use super::report::{ClientReport, LightReport, ServerReport};
use super::samples::{RttSample, Sampler};
use super::{Amount, Control, Ends, FlowResult, MAX_DATAGRAM, Threads, TrafficError, sleep};

/// How a flow that looks for fair queuing behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinsSpec {
    /// The detector, the controllers that it chooses from, and when it looks again.
    pub names: Names,
    /// The light sub-flow's name.
    pub light: String,
    /// The light sub-flow's port at the sender; the heavy one has that of [`super::FlowSpec::server`].
    pub port: u16,
    /// Where the detector and the controllers get their draws from, by the flow's name.
    pub seed: Seed,
}

/// What a flow that looks for fair queuing has found out, and its other sub-flow. Times are on the run's clock.
#[derive(Clone, Debug)]
pub struct Detection {
    /// The detector.
    pub detector: &'static str,
    /// The controller with which it ended; none before the first detection has ended.
    pub controller: Option<&'static str>,
    /// What it found out.
    pub findings: Findings,
    /// The light sub-flow.
    pub light: FlowResult,
}

/// How often the ends look at the stop switch.
const TICK: Duration = Duration::from_millis(10);

pub(super) fn start(ends: &Ends<'_>, spec: &TwinsSpec) -> Result<Threads, TrafficError> {
    let flow = ends.spec;
    let wrong = |error: &dyn std::fmt::Display| ends.spec_error(error.to_string());
    // Looked up before anything runs.
    weir_fq::catalog::find(&spec.names.detector).map_err(|error| wrong(&error))?;
    let identity = Identity::make().map_err(|error| wrong(&error))?;
    let listen = || Sink::listen(flow.client, &identity, MAX_DATAGRAM).map_err(std::io::Error::other);
    let sink = ends.open(ends.client, || format!("listen at {}", flow.client), listen)?;
    let trust = Trust::Fingerprint(identity.fingerprint());
    let peer = Peer { datagram: MAX_DATAGRAM, ..Peer::new(sink.address(), trust) };
    let begun = Arc::new(OnceLock::new());
    let server = Server {
        control: ends.control.clone(),
        peer,
        local: [flow.server, SocketAddr::new(flow.server.ip(), spec.port)],
        names: spec.names.clone(),
        seed: spec.seed,
        name: flow.name.clone(),
        light: spec.light.clone(),
        start: Time::ZERO + flow.start,
        bytes: match flow.amount {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Time(_) => None,
        },
        begun: Arc::clone(&begun),
    };
    let client = Client {
        control: ends.control.clone(),
        amount: flow.amount,
        begun,
        received: Arc::clone(ends.received),
    };
    ends.spawn(move || server.run(), move || client.run(&sink))
}

/// The sending end.
struct Server {
    control: Control,
    peer: Peer,
    local: [SocketAddr; 2],
    names: Names,
    seed: Seed,
    name: String,
    light: String,
    start: Time,
    bytes: Option<Bytes>,
    /// When the first byte could be sent.
    begun: Arc<OnceLock<Time>>,
}

impl Server {
    fn run(self) -> ServerReport {
        if !self.control.sleep_until(self.start) {
            return ServerReport::default();
        }
        let mut report = ServerReport { ecn: Some(false), ..ServerReport::default() };
        if let Err(error) = self.serve(&mut report) {
            report.error = Some(error).filter(|_| !self.control.is_stopped());
        }
        report
    }

    fn serve(&self, report: &mut ServerReport) -> Result<(), String> {
        let mut setup = self.peer.setup();
        setup.random = self.seed.stream(&self.name);
        let connection =
            self.names.connection(&setup, self.peer.spacing).map_err(|error| error.to_string())?;
        let mut source = Source::connect(&self.peer, self.local, connection)
            .map_err(|error| format!("cannot connect to {}: {error}", self.peer.address))?;
        let result = self.push(&mut source, report);
        let shared = source.shared().lock();
        let epoch = self.control.at(source.epoch());
        let mut light = report.light.take().unwrap_or_default();
        light.name.clone_from(&self.light);
        light.detector = shared.detector();
        light.controller = shared.controller();
        light.findings = since(shared.findings().clone(), epoch);
        report.light = Some(light);
        drop(shared);
        result
    }

    fn push(&self, source: &mut Source, report: &mut ServerReport) -> Result<(), String> {
        let failed = |error: weir_transport::Error| error.to_string();
        if !source.wait_ready(&|| self.control.is_stopped()).map_err(failed)? {
            return Ok(());
        }
        // A message to the other end, and from no one else.
        let _ = self.begun.set(self.control.now());
        source.send(self.bytes.map(|bytes| bytes.0)).map_err(failed)?;
        let [mut heavy, mut light] = [Sampler::new(), Sampler::new()];
        let result = loop {
            match source.ended() {
                // The client closes when it has enough.
                Some(weir_transport::Error::Closed(_)) => break Ok(()),
                Some(error) => break Err(error.to_string()),
                None => {}
            }
            if self.control.is_stopped() {
                break Ok(());
            }
            let now = self.control.now();
            for (sub_flow, sampler) in [(SubFlow::Heavy, &mut heavy), (SubFlow::Light, &mut light)] {
                if sampler.wait(now) == Duration::ZERO {
                    sampler.push(sample(source, sub_flow, now));
                }
            }
            sleep(heavy.wait(self.control.now()).min(TICK));
        };
        report.samples = heavy.finish();
        report.light = Some(Box::new(LightReport { samples: light.finish(), ..LightReport::default() }));
        result
    }
}

/// A look at a sub-flow; zeros while it has no path.
fn sample(source: &Source, sub_flow: SubFlow, time: Time) -> RttSample {
    let look = source.look(sub_flow).unwrap_or_default();
    RttSample {
        time,
        rtt_us: u64::try_from(look.rtt.as_micros()).unwrap_or(u64::MAX),
        cwnd_bytes: source.shared().lock().window(sub_flow),
        delivered_bytes: look.sent_bytes.saturating_sub(look.lost_bytes),
        lost_packets: look.lost_packets,
        congestion_events: look.congestion_events,
    }
}

/// Findings with the times of another clock, which shows `epoch` when theirs shows zero.
fn since(findings: Findings, epoch: Time) -> Findings {
    let shift = |time: Time| epoch + time.since(Time::ZERO);
    Findings {
        began: findings.began.map(shift),
        decided: findings.decided.map(shift),
        changes: findings.changes.iter().map(|(time, finding)| (shift(*time), *finding)).collect(),
        ..findings
    }
}

/// The receiving end.
struct Client {
    control: Control,
    amount: Amount,
    begun: Arc<OnceLock<Time>>,
    received: Arc<AtomicU64>,
}

impl Client {
    fn run(self, sink: &Sink) -> ClientReport {
        let mut report = ClientReport::default();
        let inflow = loop {
            if self.control.is_stopped() {
                return report;
            }
            if let Some(inflow) = sink.accept(TICK.to_std()) {
                break inflow;
            }
        };
        let result = self.read(&inflow, &mut report);
        let [light, heavy] = inflow.arrived();
        inflow.close();
        report.started = self.begun.get().copied();
        let finished = *report.finished.get_or_insert(self.control.now());
        if let (true, Amount::Bytes(_), Some(started)) = (report.complete, self.amount, report.started) {
            report.fct = Some(finished.since(started));
        }
        report.light_bytes = divided(report.bytes, light, heavy);
        report.bytes -= report.light_bytes;
        report.error = result.err().filter(|_| !self.control.is_stopped());
        report
    }

    fn read(&self, inflow: &Inflow, report: &mut ClientReport) -> Result<(), String> {
        loop {
            let now = self.control.now();
            let end = match (self.amount, self.begun.get()) {
                (Amount::Time(duration), Some(begun)) => *begun + duration,
                _ => Time::MAX,
            };
            if now >= end {
                report.complete = true;
                return Ok(());
            }
            if self.control.is_stopped() {
                return Ok(());
            }
            let wait = end.since(now).min(TICK).to_std();
            let bytes = inflow.count(wait).map_err(|error| error.to_string())?;
            report.bytes += bytes;
            self.received.fetch_add(bytes, Ordering::Relaxed);
            if self.amount == Amount::Bytes(Bytes(report.bytes)) {
                report.complete = true;
                return Ok(());
            }
        }
    }
}

/// The light one's part of what has arrived.
fn divided(bytes: u64, light: u64, heavy: u64) -> u64 {
    let whole = u128::from(light) + u128::from(heavy);
    let part = u128::from(bytes) * u128::from(light) / whole.max(1);
    u64::try_from(part).unwrap_or(bytes).min(bytes)
}

#[cfg(test)]
mod tests {
    use super::divided;

    #[test]
    fn payload_is_divided_by_what_came_on_each_path() {
        for ((bytes, light, heavy), part) in
            [((1000, 1, 3), 250), ((0, 1, 3), 0), ((10, 0, 0), 0), ((u64::MAX, u64::MAX, 0), u64::MAX)]
        {
            assert_eq!(divided(bytes, light, heavy), part);
        }
    }
}
