//! A conversation over QUIC's streams: one stream in both directions for messages, and bulk data from the sender in
//! streams of a block each, read in the order in which they were opened. Blocks are short enough that no pattern of
//! losses makes more gaps in one than noq allows (1024).

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use noq_proto::{Connection, Dir, ReadError, ReadableError, StreamId, VarInt, WriteError};

use crate::Error;
use crate::pipe::{Chunk, Pipe, Waker};

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 1 << 20;
/// Blocks that may be under way.
pub(crate) const BLOCKS: u32 = 32;
/// The codes with which a connection is closed: the words say why; or this end was stopped.
pub(crate) const DONE: VarInt = VarInt::from_u32(0);
pub(crate) const STOPPED: VarInt = VarInt::from_u32(1);
/// Bytes of a message pipe.
const MESSAGES: usize = 64 << 10;
/// Bytes of a pipe of bulk data.
const BULK: usize = 4 << 20;
/// How often who waits for the other end looks at the stop switch.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// What the threads of an application hold of a connection.
#[derive(Clone)]
pub(crate) struct Conversation {
    /// Messages to the other end.
    pub(crate) say: Pipe,
    /// Messages from there.
    pub(crate) hear: Pipe,
    /// Bulk data, from the sender to the receiver.
    pub(crate) bulk: Pipe,
    /// Of the receiving end: bytes of frames that arrived on the first path, and on others.
    pub(crate) arrived: Arc<[AtomicU64; 2]>,
    state: Arc<(Mutex<State>, Condvar)>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    connected: bool,
    /// What the application ends it with.
    closing: Option<(VarInt, Bytes)>,
    over: Option<Error>,
}

impl Conversation {
    pub(crate) fn new(waker: &Waker) -> Self {
        Self {
            say: Pipe::new(MESSAGES, waker),
            hear: Pipe::new(MESSAGES, waker),
            bulk: Pipe::new(BULK, waker),
            arrived: Arc::default(),
            state: Arc::default(),
            waker: waker.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the handshake is over, or `stop` says that nobody waits for it.
    pub(crate) fn wait_connected(&self, stop: &dyn Fn() -> bool) -> Result<(), Error> {
        let mut state = self.state();
        loop {
            match &state.over {
                Some(error) => return Err(error.clone()),
                None if state.connected => return Ok(()),
                None if stop() => return Err(Error::Stopped),
                None => {
                    let waited = self.state.1.wait_timeout(state, TICK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    pub(crate) fn set_connected(&self) {
        self.state().connected = true;
        self.state.1.notify_all();
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state().connected
    }

    /// Ends the conversation with a few words for the other end. What was written before may be lost.
    pub(crate) fn close(&self, words: &str) {
        self.close_with(DONE, words);
    }

    /// Ends it because this end is stopped, perhaps to be started again.
    pub(crate) fn stop(&self) {
        self.close_with(STOPPED, "stopped");
    }

    fn close_with(&self, code: VarInt, words: &str) {
        self.state().closing.get_or_insert_with(|| (code, Bytes::copy_from_slice(words.as_bytes())));
        self.waker.wake();
    }

    /// What the application closes it with, once.
    pub(crate) fn closing(&self) -> Option<(VarInt, Bytes)> {
        self.state().closing.take()
    }

    /// It is over; all who wait are told.
    pub(crate) fn end(&self, error: &Error) {
        self.state().over.get_or_insert_with(|| error.clone());
        self.state.1.notify_all();
        for pipe in [&self.say, &self.hear, &self.bulk] {
            pipe.tear(error);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over.is_some()
    }

    /// Why it is over, if it is.
    pub(crate) fn error(&self) -> Option<Error> {
        self.state().over.clone()
    }
}

/// The streams of a connection.
pub(crate) struct Streams {
    messages: Option<StreamId>,
    said: Outgoing,
    bulk: Bulk,
    /// Whether bulk data was written yet.
    has_bulk: bool,
}

enum Bulk {
    Out(Outgoing, Option<(StreamId, u64)>),
    In(VecDeque<StreamId>),
}

/// What was taken from a pipe and not written yet.
#[derive(Default)]
struct Outgoing {
    rest: Bytes,
    is_finished: bool,
}

impl Streams {
    /// Of the end that sends bulk data, which is the one that has connected, or of the other.
    pub(crate) fn new(sends: bool) -> Self {
        let bulk = if sends { Bulk::Out(Outgoing::default(), None) } else { Bulk::In(VecDeque::new()) };
        Self { messages: None, said: Outgoing::default(), bulk, has_bulk: false }
    }

    /// Whether bulk data was written yet.
    pub(crate) const fn has_bulk(&self) -> bool {
        self.has_bulk
    }

    /// The connection is up, or there is a new stream.
    pub(crate) fn open(&mut self, connection: &mut Connection) {
        match &mut self.bulk {
            Bulk::Out(..) => {
                if self.messages.is_none() {
                    self.messages = connection.streams().open(Dir::Bi);
                    if let Some(messages) = self.messages {
                        let _ = connection.send_stream(messages).set_priority(1);
                    }
                }
            }
            Bulk::In(blocks) => {
                if self.messages.is_none() {
                    self.messages = connection.streams().accept(Dir::Bi);
                }
                while let Some(block) = connection.streams().accept(Dir::Uni) {
                    blocks.push_back(block);
                }
            }
        }
    }

    /// Moves what can be moved between the streams and the conversation.
    pub(crate) fn pump(
        &mut self,
        connection: &mut Connection,
        conversation: &Conversation,
    ) -> Result<(), Error> {
        if let Some(messages) = self.messages {
            read(connection, messages, &conversation.hear)?;
            self.said.write(connection, messages, &conversation.say, u64::MAX)?;
        }
        match &mut self.bulk {
            Bulk::Out(outgoing, block) => {
                self.has_bulk |= write_blocks(outgoing, block, connection, &conversation.bulk)?;
            }
            Bulk::In(blocks) => {
                while let Some(block) = blocks.front().copied() {
                    if !read(connection, block, &conversation.bulk)? {
                        break;
                    }
                    blocks.pop_front();
                }
            }
        }
        Ok(())
    }
}

impl Outgoing {
    /// Writes at most `most` bytes; how many it wrote.
    fn write(
        &mut self,
        connection: &mut Connection,
        stream: StreamId,
        pipe: &Pipe,
        most: u64,
    ) -> Result<u64, Error> {
        let mut written = 0;
        while written < most && self.fill(pipe) {
            let count = usize::try_from(most - written).unwrap_or(usize::MAX).min(self.rest.len());
            let mut chunks = [self.rest.slice(..count)];
            match connection.send_stream(stream).write_chunks(&mut &mut chunks[..]) {
                Ok(count) => {
                    self.rest = self.rest.slice(count..);
                    written += count as u64;
                }
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Err(Error::Closed("it reads no more".to_owned()));
                }
            }
        }
        Ok(written)
    }

    /// Whether there is something to write.
    fn fill(&mut self, pipe: &Pipe) -> bool {
        if self.rest.is_empty() && !self.is_finished {
            match pipe.take() {
                Chunk::Bytes(bytes) => self.rest = bytes,
                Chunk::Later => {}
                Chunk::End => self.is_finished = true,
            }
        }
        !self.rest.is_empty()
    }
}

/// Writes bulk data in blocks; whether it wrote some.
fn write_blocks(
    outgoing: &mut Outgoing,
    block: &mut Option<(StreamId, u64)>,
    connection: &mut Connection,
    pipe: &Pipe,
) -> Result<bool, Error> {
    let mut some = false;
    while outgoing.fill(pipe) {
        if block.is_none() {
            let Some(stream) = connection.streams().open(Dir::Uni) else { break };
            // What is lost of an early block goes before all of later ones: the receiver waits for it. noq would put it
            // behind whatever the later ones have, which can be all of `send_window`.
            let place = i32::try_from(stream.index()).unwrap_or(i32::MAX);
            let _ = connection.send_stream(stream).set_priority(-place);
            *block = Some((stream, BLOCK));
        }
        let Some((stream, left)) = block.as_mut() else { break };
        let written = outgoing.write(connection, *stream, pipe, *left)?;
        *left -= written;
        some |= written > 0;
        match (*left, written) {
            (0, _) => finish(connection, block),
            (_, 0) => break,
            _ => {}
        }
    }
    if outgoing.is_finished {
        finish(connection, block);
    }
    Ok(some)
}

fn finish(connection: &mut Connection, block: &mut Option<(StreamId, u64)>) {
    if let Some((stream, _)) = block.take() {
        // The other end may have stopped it, which is told by the next write or by the conversation.
        let _ = connection.send_stream(stream).finish();
    }
}

/// Reads what a pipe has room for; whether the stream is at its end.
fn read(connection: &mut Connection, stream: StreamId, pipe: &Pipe) -> Result<bool, Error> {
    let mut receiving = connection.recv_stream(stream);
    let mut chunks = match receiving.read(true) {
        Ok(chunks) => chunks,
        Err(ReadableError::ClosedStream) => return Ok(true),
        Err(error @ ReadableError::IllegalOrderedRead) => return Err(Error::Lost(error.to_string())),
    };
    let mut result = None;
    while result.is_none() {
        // Asked again when it is used up: only so will the reader wake this thread.
        let mut room = pipe.room();
        if room == 0 {
            break;
        }
        pipe.put_all(std::iter::from_fn(|| {
            if room == 0 {
                return None;
            }
            match chunks.next(room) {
                Ok(Some(chunk)) => {
                    room -= chunk.bytes.len();
                    return Some(chunk.bytes);
                }
                Ok(None) => result = Some(Ok(true)),
                Err(ReadError::Blocked) => result = Some(Ok(false)),
                Err(ReadError::Reset(code)) => {
                    result = Some(Err(Error::Closed(format!("it broke off a stream ({code})"))));
                }
            }
            None
        }));
    }
    // Credit for the other end goes with the next packet.
    let _ = chunks.finalize().should_transmit();
    result.unwrap_or(Ok(false))
}
