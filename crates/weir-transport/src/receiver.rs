//! A receiver: takes files, and lets senders look at the path to it.

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::{now, sleep};
use crate::connect::listen;
use crate::digest::{Hash, hex};
use crate::identity::Identity;
use crate::messages::{Digest, Message, Talk, unexpected};
use crate::partial::{Partial, Unopened, check_name};
use crate::run::Running;
use crate::streams::Conversation;
use crate::{DATAGRAM, Error};

/// How a receiver works.
pub struct ReceiverOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who it is.
    pub identity: Identity,
    /// Where files go; none: it takes none.
    pub folder: Option<PathBuf>,
    /// The largest file that it takes.
    pub largest: u64,
}

/// What a receiver has to tell. All of it is by a sender's words, which are of one line and for a terminal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A file begins to arrive, or goes on.
    Begins {
        /// From whom.
        from: SocketAddr,
        /// Its name.
        name: String,
        /// Its bytes.
        size: u64,
        /// Of these, those that were there already.
        had: u64,
    },
    /// More of it has arrived.
    Written {
        /// Its name.
        name: String,
        /// Its bytes.
        size: u64,
        /// Those that are there.
        bytes: u64,
    },
    /// It is whole.
    Arrived {
        /// From whom.
        from: SocketAddr,
        /// Where it is.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Of these, those that were there already.
        had: u64,
        /// Its SHA-256 in hexadecimal digits.
        digest: String,
        /// How long it took.
        took: Duration,
    },
    /// Somebody has looked at the path.
    Probed {
        /// Who.
        from: SocketAddr,
        /// With so many bytes.
        bytes: u64,
    },
    /// It did not work.
    Failed {
        /// With whom.
        from: SocketAddr,
        /// Why.
        why: Error,
    },
}

/// Who listens to a receiver, from several threads.
pub type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

/// A receiver, until it is dropped.
pub struct Receiver {
    _running: Running,
    address: SocketAddr,
}

impl Receiver {
    /// Begins to listen.
    ///
    /// # Errors
    /// If it cannot listen there, or not with that certificate.
    pub fn start(options: ReceiverOptions, listener: Listener) -> Result<Self, Error> {
        let ReceiverOptions { listen: local, identity, folder, largest } = options;
        let rules = Arc::new(Rules { folder, largest, listener });
        let accept = Box::new(move |from, conversation: Conversation| {
            // A thread may outlive its connection a little, so that these are more than connections can be.
            if Arc::strong_count(&rules) > MOST_THREADS {
                return conversation.close("it has as many senders as it takes");
            }
            let (rules, own) = (Arc::clone(&rules), conversation.clone());
            let thread = std::thread::Builder::new().name("weir-receiver".to_owned());
            if thread.spawn(move || rules.serve(from, own)).is_err() {
                conversation.close("there is no thread for this");
            }
        });
        let (running, address) = listen(local, &identity, DATAGRAM, accept)?;
        Ok(Self { _running: running, address })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// By what one sender is served.
struct Rules {
    folder: Option<PathBuf>,
    largest: u64,
    listener: Listener,
}

/// Senders that are served at once.
const MOST_THREADS: usize = 64;
/// Who connects says within this what it wants.
const SOON: Duration = Duration::from_secs(10);
/// Who has said that it sends a file sends some of it in this.
const SILENCE: Duration = Duration::from_secs(60);
/// A sender is told this often how much is written.
const APART: Duration = Duration::from_millis(200);
/// A file that another sender sends is waited for so long: longer than a quiet connection lasts.
const WAIT: Duration = Duration::from_secs(20);
/// A sender that has all that it wants closes the connection by itself in this.
const GOODBYE: Duration = Duration::from_secs(5);

impl Rules {
    fn serve(&self, from: SocketAddr, conversation: Conversation) {
        if conversation.wait_connected(&|| false).is_err() {
            return;
        }
        let mut talk = Talk::new(conversation.clone());
        let result = match talk.hear_for(SOON) {
            Ok(Some(Message::File { name, size })) => self.receive(&mut talk, from, &name, size),
            Ok(Some(Message::Probe)) => self.be_probed(&mut talk, from),
            Ok(Some(other)) => Err(unexpected(&other)),
            Ok(None) => Err(Error::Message("it says nothing".to_owned())),
            Err(error) => Err(error),
        };
        if let Err(why) = result {
            let words = match &why {
                Error::Refused(words) => words.clone(),
                other => other.to_string(),
            };
            if talk.say(&Message::No { why: words.clone() }).is_ok() {
                // It closes when it has heard that.
                let _ = talk.hear_for(GOODBYE);
            }
            conversation.close(&words);
            (self.listener)(Notice::Failed { from, why });
        }
        conversation.close("done");
    }

    fn receive(&self, talk: &mut Talk, from: SocketAddr, name: &str, size: u64) -> Result<(), Error> {
        let no = |why: String| Error::Refused(why);
        let folder =
            self.folder.as_deref().ok_or_else(|| no("it takes no files, but answers probes".to_owned()))?;
        check_name(name).map_err(|why| no(why.to_owned()))?;
        if size > self.largest {
            return Err(no(format!(
                "'{name}' has {size} bytes, more than the {} that it takes",
                self.largest
            )));
        }
        let began = now();
        let go_on = || !talk.conversation.is_over();
        let mut part = self.wait_for(folder, name, size, &go_on)?;
        let whole = folder.join(name);
        let there =
            there(&whole, size, go_on).map_err(|error| no(format!("cannot read '{name}': {error}")))?;
        if let Some(digest) = there {
            // Nothing of it is there in part.
            let _ = part.remove();
            return self.compare(talk, from, whole, size, digest);
        }
        talk.say(&Message::Have { bytes: part.len(), digest: part.hash().digest() })?;
        let had = match talk.hear()? {
            Message::From { bytes } if bytes == part.len() => bytes,
            Message::From { bytes: 0 } => {
                part.clear().map_err(|error| no(format!("cannot write '{name}': {error}")))?;
                0
            }
            other => return Err(unexpected(&other)),
        };
        (self.listener)(Notice::Begins { from, name: name.to_owned(), size, had });
        let arrived = self.fill(talk, &mut part, name, size);
        // What has arrived need not come again.
        let flushed = part.flush().map_err(|error| no(format!("cannot write '{name}': {error}")));
        arrived.and(flushed)?;
        let digest = match talk.hear()? {
            Message::Whole { digest } => digest,
            other => return Err(unexpected(&other)),
        };
        if digest != part.hash().digest() {
            let _ = part.remove();
            return Err(no(format!(
                "'{name}' is not what was sent; what arrived is thrown away: send it again"
            )));
        }
        let path = part.finish().map_err(|error| no(format!("cannot give '{name}' its name: {error}")))?;
        talk.say(&Message::Done)?;
        let (digest, took) = (hex(&digest), now().duration_since(began));
        // A receiver of one file ends with this notice: the sender has its answer by then.
        let _ = talk.hear_for(GOODBYE);
        (self.listener)(Notice::Arrived { from, path, size, had, digest, took });
        Ok(())
    }

    /// Opens the part of a file, once no other sender has it: one that was killed seems to be there for a while.
    fn wait_for(
        &self,
        folder: &Path,
        name: &str,
        size: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Partial, Error> {
        let until = now() + WAIT;
        loop {
            match Partial::open(folder, name, size, go_on) {
                Ok(part) => return Ok(part),
                Err(Unopened::No(why)) => return Err(Error::Refused(why)),
                Err(Unopened::Busy) if now() < until && go_on() => sleep(APART),
                Err(Unopened::Busy) => {
                    return Err(Error::Refused(format!("'{name}' is arriving from another sender")));
                }
            }
        }
    }

    /// Takes what arrives until the part has the size of the file.
    fn fill(&self, talk: &Talk, part: &mut Partial, name: &str, size: u64) -> Result<(), Error> {
        let (mut told, mut news) = (Told::new(), Told::new());
        while part.len() < size {
            let Some(chunks) = talk.conversation.bulk.read_until(news.last + SILENCE)? else {
                return Err(Error::Message("it sends nothing of its file".to_owned()));
            };
            let Some(chunks) = chunks else {
                return Err(Error::Closed("before the end of the file".to_owned()));
            };
            for bytes in chunks {
                if bytes.len() as u64 > size - part.len() {
                    return Err(Error::Message("it sends more than its file has".to_owned()));
                }
                part.push(&bytes)
                    .map_err(|error| Error::Refused(format!("cannot write '{name}': {error}")))?;
            }
            news.is_due(Duration::ZERO);
            if told.is_due(APART) {
                let bytes = part.len();
                talk.say(&Message::Written { bytes })?;
                (self.listener)(Notice::Written { name: name.to_owned(), size, bytes });
            }
        }
        Ok(())
    }

    /// The file is there already: whether it is the sender's.
    fn compare(
        &self,
        talk: &mut Talk,
        from: SocketAddr,
        path: PathBuf,
        size: u64,
        digest: Digest,
    ) -> Result<(), Error> {
        talk.say(&Message::Have { bytes: size, digest })?;
        match talk.hear()? {
            Message::From { bytes } if bytes == size => {}
            Message::From { .. } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                return Err(Error::Refused(format!(
                    "there is another file '{name}' already; remove or rename it"
                )));
            }
            other => return Err(unexpected(&other)),
        }
        match talk.hear()? {
            Message::Whole { digest: sent } if sent == digest => {}
            other => return Err(unexpected(&other)),
        }
        talk.say(&Message::Done)?;
        let digest = hex(&digest);
        let _ = talk.hear_for(GOODBYE);
        (self.listener)(Notice::Arrived { from, path, size, had: size, digest, took: Duration::ZERO });
        Ok(())
    }

    fn be_probed(&self, talk: &mut Talk, from: SocketAddr) -> Result<(), Error> {
        talk.say(&Message::Go)?;
        let mut bytes = 0;
        loop {
            let until = now() + SILENCE;
            match talk.conversation.bulk.read_until(until) {
                Ok(Some(Some(chunks))) => bytes += chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>(),
                Ok(None) => {}
                Ok(Some(None)) | Err(_) => break,
            }
        }
        (self.listener)(Notice::Probed { from, bytes });
        Ok(())
    }
}

/// When something was done last.
struct Told {
    last: Instant,
}

impl Told {
    fn new() -> Self {
        Self { last: now() }
    }

    /// Whether it is to be done again, which is then taken as done.
    fn is_due(&mut self, apart: Duration) -> bool {
        let now = now();
        let is_due = now.duration_since(self.last) >= apart;
        if is_due {
            self.last = now;
        }
        is_due
    }
}

/// The digest of a file that is there already, or what is no file's digest if it has another size or is no file, but a
/// link to one; none if it is not there. Nothing if `go_on` says no meanwhile.
fn there(path: &Path, size: u64, go_on: impl Fn() -> bool) -> io::Result<Option<Digest>> {
    let there = match std::fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !there.is_file() || there.len() != size {
        return Ok(Some(Digest::default()));
    }
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let hash = Hash::of_front(&mut file, size, go_on)?;
    Ok(Some(hash.digest()))
}

#[cfg(test)]
mod tests {
    use super::there;
    use crate::digest::Hash;
    use crate::messages::Digest;

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("secret"), "hush").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("link")).unwrap();
        let mut hash = Hash::new();
        hash.update(b"hush");
        assert_eq!(there(&at("secret"), 4, || true).unwrap(), Some(hash.digest()));
        assert_eq!(there(&at("link"), 4, || true).unwrap(), Some(Digest::default()));
        assert_eq!(there(&at("none"), 4, || true).unwrap(), None);
        assert!(there(&at("secret"), 4, || false).is_err());
    }
}
