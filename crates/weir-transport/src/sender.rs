//! Sends a file, and goes on where it was when the connection breaks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_fq::{Connection, Findings};

use crate::Error;
use crate::clock::{now, sleep};
use crate::connect::{Lateness, Peer, Sending, connect};
use crate::departures::Departed;
use crate::digest::{CHUNK, Hash, hex};
use crate::messages::{Message, Talk, unexpected};
use crate::pipe::Pipe;

/// How a file is sent.
pub struct SendJob<'a> {
    /// The file.
    pub path: &'a Path,
    /// What it is to be called there; a name alone.
    pub name: &'a str,
    /// To whom.
    pub peer: &'a Peer,
    /// Makes a connection that begins, for each attempt.
    pub connection: &'a mut dyn FnMut() -> Connection,
    /// How long it goes on trying when a connection has broken and nothing arrives.
    pub patience: Duration,
    /// Set by whoever wants it to end early.
    pub stop: &'a AtomicBool,
    /// Is told how far it is, some times a second.
    pub watch: &'a mut dyn FnMut(&SendProgress),
}

/// How far a file is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SendProgress {
    /// Bytes of the file.
    pub size: u64,
    /// Of these, those that the receiver has written.
    pub written: u64,
    /// What the newest connection has found out.
    pub findings: Findings,
    /// It waits to connect again, because of this.
    pub waits: Option<Error>,
}

/// A file that has arrived.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// Bytes of the file.
    pub size: u64,
    /// Of these, those that the receiver had when the first connection began.
    pub had: u64,
    /// Its SHA-256 in hexadecimal digits.
    pub digest: String,
    /// From the first connection to the end.
    pub took: Duration,
    /// Connections that it took.
    pub connections: u32,
    /// The sender's ports in the last one: of the heavy sub-flow, and of the light one.
    pub ports: [u16; 2],
    /// What the last one has found out.
    pub findings: Findings,
    /// How late the packets of its detections left; none if there were none, or the kernel let them go.
    pub lateness: Option<Lateness>,
    /// Who let them go at their times.
    pub departed: Departed,
    /// Its detector, and the controller that it has ended with if it found out anything.
    pub names: (&'static str, Option<&'static str>),
}

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// How often somebody looks at the stop switch, and is told how far it is.
const TICK: Duration = Duration::from_millis(100);

/// What one sending of a file is about, whatever connections it takes.
struct Progress {
    told: SendProgress,
    had: Option<u64>,
    connections: u32,
    /// When the receiver last wrote something.
    news: Instant,
}

/// Sends a file, and waits until the receiver has it whole.
///
/// # Errors
/// If it cannot be read, the receiver cannot be reached or is not the one that is trusted, or it does not take the
/// file.
pub fn send(job: &mut SendJob<'_>) -> Result<Sent, Error> {
    let named = |error: io::Error| Error::File(format!("cannot read {}: {error}", job.path.display()));
    let mut file = File::open(job.path).map_err(named)?;
    let metadata = file.metadata().map_err(named)?;
    if !metadata.is_file() {
        return Err(Error::File(format!("{} is no regular file", job.path.display())));
    }
    let began = now();
    let told = SendProgress { size: metadata.len(), ..SendProgress::default() };
    let mut progress = Progress { told, had: None, connections: 0, news: began };
    loop {
        match attempt(job, &mut file, &mut progress) {
            Ok(sent) => return Ok(Sent { took: now().duration_since(began), ..sent }),
            Err(error) if job.stop.load(Ordering::Relaxed) => return Err(stopped(error)),
            Err(error @ (Error::Lost(_) | Error::Nobody(_) | Error::Silent(_)))
                if progress.connections > 0 && now().duration_since(progress.news) < job.patience =>
            {
                progress.told.waits = Some(error);
                (job.watch)(&progress.told);
                sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// An error that followed from stopping.
fn stopped(error: Error) -> Error {
    match error {
        Error::Lost(_) | Error::Nobody(_) | Error::Silent(_) | Error::Closed(_) => Error::Stopped,
        other => other,
    }
}

/// Sends over one connection.
fn attempt(job: &mut SendJob<'_>, file: &mut File, progress: &mut Progress) -> Result<Sent, Error> {
    let stop = job.stop;
    let mut sending = connect(job.peer, (job.connection)(), &|| stop.load(Ordering::Relaxed))?;
    progress.connections += 1;
    progress.told.waits = None;
    progress.news = now();
    let mut talk = Talk::new(sending.conversation.clone());
    let digest = converse(job, file, progress, &mut talk, &sending);
    sending.conversation.close(if digest.is_ok() { "done" } else { "it ended early" });
    // The receiver is told; what the connection has found out is final.
    sending.running.join();
    let shared = sending.shared.lock();
    Ok(Sent {
        size: progress.told.size,
        had: progress.had.unwrap_or(0),
        digest: digest?,
        took: Duration::ZERO,
        connections: progress.connections,
        ports: sending.ports,
        findings: shared.findings().clone(),
        lateness: sending.lateness(),
        departed: sending.departed(),
        names: (shared.detector(), shared.controller()),
    })
}

/// Agrees with the receiver on where to begin, and sends what follows; the digest of the whole.
fn converse(
    job: &mut SendJob<'_>,
    file: &mut File,
    progress: &mut Progress,
    talk: &mut Talk,
    sending: &Sending,
) -> Result<String, Error> {
    let named = |error: io::Error| Error::File(format!("cannot read {}: {error}", job.path.display()));
    let size = progress.told.size;
    talk.say(&Message::File { name: job.name.to_owned(), size })?;
    let stop = job.stop;
    let (have, theirs) = match talk.hear_unless(&|| stop.load(Ordering::Relaxed))? {
        Message::Have { bytes, digest } if bytes <= size => (bytes, digest),
        other => return Err(unexpected(&other)),
    };
    let mut hash = Hash::of_front(file, have, || !stop.load(Ordering::Relaxed)).map_err(named)?;
    let mut from = have;
    if hash.digest() != theirs {
        (hash, from) = (Hash::new(), 0);
        file.seek(SeekFrom::Start(0)).map_err(named)?;
    }
    talk.say(&Message::From { bytes: from })?;
    progress.had.get_or_insert(from);
    progress.told.written = from;
    let bulk = sending.conversation.bulk.clone();
    thread::scope(|scope| {
        let pour = scope.spawn(move || pour(file, hash, size - from, &bulk));
        let result = follow(job, progress, talk, sending, pour);
        if result.is_err() {
            // Ends the other thread, too, which may wait for room.
            sending.conversation.close("it ended early");
        }
        result
    })
}

/// Reads the rest of a file and passes it on; the digest of the whole.
fn pour(file: &mut File, mut hash: Hash, rest: u64, bulk: &Pipe) -> Result<Hash, Error> {
    let mut left = rest;
    while left > 0 {
        let mut chunk = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
        match file.read(&mut chunk) {
            Ok(0) => return Err(Error::File("the file became shorter while it was sent".to_owned())),
            Ok(count) => chunk.truncate(count),
            Err(error) => return Err(Error::File(format!("cannot read the file: {error}"))),
        }
        hash.update(&chunk);
        left -= chunk.len() as u64;
        bulk.write(Bytes::from(chunk))?;
    }
    bulk.finish();
    Ok(hash)
}

/// Hears how far it is until the receiver has the whole; its digest.
fn follow(
    job: &mut SendJob<'_>,
    progress: &mut Progress,
    talk: &mut Talk,
    sending: &Sending,
    pour: ScopedJoinHandle<'_, Result<Hash, Error>>,
) -> Result<String, Error> {
    let (mut pour, mut whole) = (Some(pour), None);
    loop {
        if job.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if let Some(poured) = pour.take_if(|pour| pour.is_finished()) {
            let hash = poured.join().map_err(|_| Error::Local("a thread has failed".to_owned()))??;
            talk.say(&Message::Whole { digest: hash.digest() })?;
            whole = Some(hex(&hash.digest()));
        }
        match talk.hear_for(TICK)? {
            Some(Message::Written { bytes }) if bytes <= progress.told.size => {
                progress.told.written = bytes;
                progress.news = now();
            }
            Some(Message::Done) if whole.is_some() => {
                progress.told.written = progress.told.size;
                (job.watch)(&progress.told);
                return whole.ok_or_else(|| unexpected(&Message::Done));
            }
            Some(Message::No { why }) => return Err(Error::Refused(why)),
            Some(other) => return Err(unexpected(&other)),
            None => {}
        }
        progress.told.findings = sending.shared.lock().findings().clone();
        (job.watch)(&progress.told);
    }
}
