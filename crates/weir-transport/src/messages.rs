//! What two ends say to each other beside the data: a byte for the kind, two for the length, and the fields, integers
//! with their most significant byte first.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::Error;
use crate::clock::now;
use crate::error::readable;
use crate::streams::{Conversation, TICK};

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// The longest message, its head apart.
const LONGEST: usize = 1024;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The sender has a file.
    File { name: String, size: u64 },
    /// The receiver has the front of it already; with its digest, so that the sender can tell whether that is so.
    Have { bytes: u64, digest: Digest },
    /// The sender sends what follows these bytes: all that the receiver has, or none.
    From { bytes: u64 },
    /// So much has arrived and been written.
    Written { bytes: u64 },
    /// The digest of the whole file.
    Whole { digest: Digest },
    /// The file has arrived.
    Done,
    /// The sender only looks at the path; what it sends is to be thrown away.
    Probe,
    /// It may.
    Go,
    /// No, and why.
    No { why: String },
}

impl Message {
    fn encode(&self) -> Bytes {
        let (kind, fields) = match self {
            Self::File { name, size } => (1, [&size.to_be_bytes()[..], name.as_bytes()].concat()),
            Self::Have { bytes, digest } => (2, [&bytes.to_be_bytes()[..], digest].concat()),
            Self::From { bytes } => (3, bytes.to_be_bytes().to_vec()),
            Self::Written { bytes } => (4, bytes.to_be_bytes().to_vec()),
            Self::Whole { digest } => (5, digest.to_vec()),
            Self::Done => (6, Vec::new()),
            Self::Probe => (7, Vec::new()),
            Self::Go => (8, Vec::new()),
            Self::No { why } => (9, why.bytes().take(LONGEST).collect()),
        };
        let mut bytes = BytesMut::with_capacity(3 + fields.len());
        bytes.put_u8(kind);
        bytes.put_u16(fields.len() as u16);
        bytes.put_slice(&fields);
        bytes.freeze()
    }

    pub(crate) fn decode(kind: u8, mut fields: &[u8]) -> Option<Self> {
        let digest = |fields: &[u8]| Digest::try_from(fields).ok();
        let number = |fields: &mut &[u8]| fields.try_get_u64().ok();
        let message = match kind {
            1 => {
                let size = number(&mut fields)?;
                Self::File { size, name: std::str::from_utf8(std::mem::take(&mut fields)).ok()?.to_owned() }
            }
            2 => {
                let bytes = number(&mut fields)?;
                Self::Have { bytes, digest: digest(std::mem::take(&mut fields))? }
            }
            3 => Self::From { bytes: number(&mut fields)? },
            4 => Self::Written { bytes: number(&mut fields)? },
            5 => Self::Whole { digest: digest(std::mem::take(&mut fields))? },
            6 => Self::Done,
            7 => Self::Probe,
            8 => Self::Go,
            9 => Self::No { why: readable(&String::from_utf8_lossy(std::mem::take(&mut fields))) },
            _ => return None,
        };
        fields.is_empty().then_some(message)
    }
}

/// One end's side of the messages.
pub(crate) struct Talk {
    pub(crate) conversation: Conversation,
    heard: BytesMut,
}

impl Talk {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Self { conversation, heard: BytesMut::new() }
    }

    pub(crate) fn say(&self, message: &Message) -> Result<(), Error> {
        self.conversation.say.write(message.encode())
    }

    /// The next message, if one comes in so much time.
    pub(crate) fn hear_for(&mut self, time: Duration) -> Result<Option<Message>, Error> {
        let until = now() + time;
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            match self.conversation.hear.read_until(until)? {
                Some(Some(chunks)) => chunks.iter().for_each(|bytes| self.heard.extend_from_slice(bytes)),
                Some(None) => return Err(Error::Closed("it says no more".to_owned())),
                None => return Ok(None),
            }
        }
    }

    /// The next message of an end that is to answer soon.
    pub(crate) fn hear(&mut self) -> Result<Message, Error> {
        self.hear_unless(&|| false)
    }

    /// The same, unless `stop` says that nobody waits for it.
    pub(crate) fn hear_unless(&mut self, stop: &dyn Fn() -> bool) -> Result<Message, Error> {
        /// Digests of large files take their time.
        const PATIENCE: Duration = Duration::from_secs(600);
        let until = now() + PATIENCE;
        loop {
            match self.hear_for(TICK)? {
                Some(Message::No { why }) => return Err(Error::Refused(why)),
                Some(message) => return Ok(message),
                None if stop() => return Err(Error::Stopped),
                None if now() >= until => return Err(Error::Message("it says nothing".to_owned())),
                None => {}
            }
        }
    }

    fn next(&mut self) -> Result<Option<Message>, Error> {
        let Some(head) = self.heard.first_chunk::<3>() else { return Ok(None) };
        let (kind, length) = (head[0], usize::from(u16::from_be_bytes([head[1], head[2]])));
        if length > LONGEST {
            return Err(Error::Message(format!("a message of {length} bytes")));
        }
        if self.heard.len() < 3 + length {
            return Ok(None);
        }
        let message = self.heard.split_to(3 + length);
        match Message::decode(kind, &message[3..]) {
            Some(message) => Ok(Some(message)),
            None => Err(Error::Message(format!("a message of kind {kind} that cannot be read"))),
        }
    }
}

/// What to answer to a message that does not belong there.
pub(crate) fn unexpected(message: &Message) -> Error {
    Error::Message(format!("it said {message:?} at the wrong time"))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Message, Talk};
    use crate::Error;
    use crate::pipe::Waker;
    use crate::streams::Conversation;

    #[test]
    fn nobody_waits_for_an_answer_who_is_stopped() {
        let conversation = Conversation::new(&Waker::new().unwrap());
        assert_eq!(conversation.wait_connected(&|| true), Err(Error::Stopped));
        assert_eq!(Talk::new(conversation).hear_unless(&|| true), Err(Error::Stopped));
    }

    #[test]
    fn messages_come_back() {
        for message in [
            Message::File { name: "a file".into(), size: u64::MAX },
            Message::Have { bytes: 7, digest: [3; 32] },
            Message::From { bytes: 1 << 40 },
            Message::Written { bytes: 9 },
            Message::Whole { digest: [5; 32] },
            Message::Done,
            Message::Probe,
            Message::Go,
            Message::No { why: "no room".into() },
        ] {
            let bytes = message.encode();
            assert_eq!(Message::decode(bytes[0], &bytes[3..]), Some(message.clone()));
            assert_eq!(usize::from(bytes[2]), bytes.len() - 3);
            // Cut off, or with something behind, it is another message at best.
            let longer = [&bytes[3..], b"x"].concat();
            assert_ne!(Message::decode(bytes[0], &longer), Some(message.clone()));
            if bytes.len() > 3 {
                assert_ne!(Message::decode(bytes[0], &bytes[3..bytes.len() - 1]), Some(message));
            }
        }
        assert_eq!(Message::decode(0, &[]), None);
        let long = Message::No { why: "é".repeat(LONGEST) }.encode();
        assert!(long.len() == 3 + LONGEST && Message::decode(9, &long[3..]).is_some());
        assert_eq!(Message::decode(9, b"\x1b[2Jno"), Some(Message::No { why: "[2Jno".into() }));
    }
}
