//! Looks at the path to a receiver: is its bottleneck fair-queued, and what does it carry? What is sent for it is
//! thrown away there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weir_cc::{EcnUse, FixedWindow};
use weir_core::{Random, Time};
use weir_fq::{Chosen, Connection, Detector, Findings, Options};

use crate::Error;
use crate::clock::now;
use crate::connect::{Lateness, Peer, connect};
use crate::departures::Departed;
use crate::messages::{Message, Talk, unexpected};
use crate::pipe::Pipe;

/// A look at a path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Probed {
    /// What was found out.
    pub findings: Findings,
    /// From the beginning of the detection to its end.
    pub took: Duration,
    /// The sender's ports: of the heavy sub-flow, and of the light one.
    pub ports: [u16; 2],
    /// How late the packets left; none if there were none, or the kernel let them go.
    pub lateness: Option<Lateness>,
    /// Who let them go at their times.
    pub departed: Departed,
    /// The detector.
    pub detector: &'static str,
}

/// How a path is looked at.
pub struct ProbeJob<'a> {
    /// To whom.
    pub peer: &'a Peer,
    /// By which.
    pub detector: Box<dyn Detector>,
    /// It looks again so long after each look; none: once.
    pub again: Option<weir_core::Duration>,
    /// How long a look may take.
    pub patience: Duration,
    /// Set by whoever wants it to end early.
    pub stop: &'a AtomicBool,
    /// Is told what each look found out; the answer is whether to go on.
    pub watch: &'a mut dyn FnMut(&Probed) -> bool,
}

/// How often it is looked whether a detection has ended.
const TICK: Duration = Duration::from_millis(20);

/// Looks at a path.
///
/// # Errors
/// If the receiver cannot be reached, is not the one that is trusted, or does not let itself be probed.
pub fn probe(job: ProbeJob<'_>) -> Result<(), Error> {
    // Between two looks nothing is sent.
    let rest = |_: &Chosen| -> Box<dyn weir_cc::Controller> { Box::new(FixedWindow::new(0, EcnUse::Off)) };
    let ProbeJob { peer, detector, again, patience, stop, watch } = job;
    let options = Options { detector, choose: Box::new(rest), again, isolation: None, ecn: EcnUse::Off };
    let (began, is_stopped) = (now(), || stop.load(Ordering::Relaxed));
    let ends = || is_stopped() || now().duration_since(began) > patience;
    let mut sending = connect(peer, Connection::new(options), &ends).map_err(|error| match error {
        Error::Stopped if !is_stopped() => Error::Silent(peer.address),
        other => other,
    })?;
    let mut talk = Talk::new(sending.conversation.clone());
    talk.say(&Message::Probe)?;
    match talk.hear_unless(&is_stopped)? {
        Message::Go => {}
        other => return Err(unexpected(&other)),
    }
    let (bulk, random) = (sending.conversation.bulk.clone(), peer.setup().random);
    // Ends when the conversation does.
    let noise = thread::spawn(move || noise(&bulk, random));
    let (mut seen, mut asked) = (0, now());
    let result = loop {
        if is_stopped() {
            break Err(Error::Stopped);
        }
        match talk.hear_for(TICK) {
            Ok(None) => {}
            Ok(Some(Message::No { why })) => break Err(Error::Refused(why)),
            Ok(Some(other)) => break Err(unexpected(&other)),
            Err(error) => break Err(error),
        }
        let (findings, detector) = {
            let shared = sending.shared.lock();
            (shared.findings().clone(), shared.detector())
        };
        if findings.detections > seen {
            (seen, asked) = (findings.detections, now());
            let took = took(&findings);
            if !watch(&Probed {
                findings,
                took,
                ports: sending.ports,
                lateness: sending.lateness(),
                departed: sending.departed(),
                detector,
            }) || again.is_none()
            {
                break Ok(());
            }
        } else if now().duration_since(asked)
            > patience + again.map_or(Duration::ZERO, weir_core::Duration::to_std)
        {
            break Err(Error::Slow(patience));
        }
    };
    sending.conversation.close(if result.is_ok() { "done" } else { "it ended early" });
    let _ = noise.join();
    sending.running.join();
    result
}

/// How long the first detection took; of later ones that is not known.
fn took(findings: &Findings) -> Duration {
    let ends = |time: Option<Time>| time.unwrap_or(Time::ZERO);
    ends(findings.decided).since(ends(findings.began)).to_std()
}

/// Bytes that no link can make fewer of.
fn noise(bulk: &Pipe, mut random: Random) {
    const CHUNK: usize = 64 << 10;
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        (0..CHUNK / 8).for_each(|_| chunk.extend_from_slice(&random.next_u64().to_ne_bytes()));
        if bulk.write(Bytes::from(chunk)).is_err() {
            return;
        }
    }
}
