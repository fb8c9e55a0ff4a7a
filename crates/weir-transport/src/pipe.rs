//! Bounded queues of bytes between the thread that does an endpoint's I/O, which never waits for them, and threads that
//! read and write files, which do.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use crate::Error;
use crate::clock::now;

/// Wakes the thread of an endpoint: an eventfd(2) that it polls beside its sockets.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Self(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Wakes the thread, or keeps it from sleeping next.
    pub(crate) fn wake(&self) {
        // SAFETY: the pointer is to a whole integer. It can fail only because the thread is being woken already.
        unsafe { libc::eventfd_write(self.0.as_raw_fd(), 1) };
    }

    /// The thread is awake.
    pub(crate) fn clear(&self) {
        let mut count = 0;
        // SAFETY: the pointer is to a whole integer. It fails if nobody has woken the thread, which is as well.
        unsafe { libc::eventfd_read(self.0.as_raw_fd(), &mut count) };
    }

    pub(crate) fn fd(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }
}

/// One direction of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    inner: Arc<Inner>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    finished: bool,
    /// It was full when the thread of the endpoint looked, which waits to be woken.
    full: bool,
    broken: Option<Error>,
}

/// What a pipe has for its reader now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    Bytes(Bytes),
    /// Nothing yet.
    Later,
    /// Nothing any more.
    End,
}

impl Pipe {
    /// A pipe that holds `most` bytes and perhaps one chunk over it.
    pub(crate) fn new(most: usize, waker: &Waker) -> Self {
        let inner = Inner { state: Mutex::default(), changed: Condvar::new(), most };
        Self { inner: Arc::new(inner), waker: waker.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until<'a>(&self, state: MutexGuard<'a, State>, until: Instant) -> MutexGuard<'a, State> {
        let left = until.saturating_duration_since(now());
        self.inner.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes, and waits for room before.
    pub(crate) fn write(&self, chunk: Bytes) -> Result<(), Error> {
        let mut state = self.state();
        while state.bytes >= self.inner.most && state.broken.is_none() {
            state = self.wait(state);
        }
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        state.bytes += chunk.len();
        state.chunks.push_back(chunk);
        drop(state);
        self.inner.changed.notify_all();
        self.waker.wake();
        Ok(())
    }

    /// Says that nothing more is written.
    pub(crate) fn finish(&self) {
        self.state().finished = true;
        self.inner.changed.notify_all();
        self.waker.wake();
    }

    /// Reads all that is there, and waits for something to read until then: none if nothing came, none inside at the
    /// end.
    pub(crate) fn read_until(&self, until: Instant) -> Result<Option<Option<VecDeque<Bytes>>>, Error> {
        let mut state = self.state();
        loop {
            if !state.chunks.is_empty() {
                let chunks = std::mem::take(&mut state.chunks);
                state.bytes = 0;
                let wakes = std::mem::take(&mut state.full);
                drop(state);
                self.inner.changed.notify_all();
                if wakes {
                    self.waker.wake();
                }
                return Ok(Some(Some(chunks)));
            }
            match &state.broken {
                _ if state.finished => return Ok(Some(None)),
                Some(error) => return Err(error.clone()),
                None => {}
            }
            if now() >= until {
                return Ok(None);
            }
            state = self.wait_until(state, until);
        }
    }

    /// Takes the next chunk, without waiting.
    pub(crate) fn take(&self) -> Chunk {
        let mut state = self.state();
        match state.chunks.pop_front() {
            Some(chunk) => {
                state.bytes -= chunk.len();
                drop(state);
                self.inner.changed.notify_all();
                Chunk::Bytes(chunk)
            }
            None if state.finished => Chunk::End,
            None => Chunk::Later,
        }
    }

    /// Puts chunks in, without waiting; the writer asks [`room`](Self::room) before. The reader is woken once for all of
    /// them: there are as many as packets.
    pub(crate) fn put_all(&self, chunks: impl Iterator<Item = Bytes>) {
        let mut state = self.state();
        let before = state.chunks.len();
        for chunk in chunks {
            state.bytes += chunk.len();
            state.chunks.push_back(chunk);
        }
        let some = state.chunks.len() > before;
        drop(state);
        if some {
            self.inner.changed.notify_all();
        }
    }

    /// Bytes that it can still hold. If none, the thread of the endpoint is woken when there is room again.
    pub(crate) fn room(&self) -> usize {
        let mut state = self.state();
        let room = self.inner.most.saturating_sub(state.bytes);
        state.full |= room == 0;
        room
    }

    /// Ends it for both sides; what is in it can still be read.
    pub(crate) fn tear(&self, error: &Error) {
        self.state().broken.get_or_insert_with(|| error.clone());
        self.inner.changed.notify_all();
    }
}

#[cfg(test)]
impl Pipe {
    /// Reads, however long it takes.
    pub(crate) fn read(&self) -> Result<Option<Bytes>, Error> {
        const LONG: std::time::Duration = std::time::Duration::from_secs(60);
        let read = self.read_until(now() + LONG)?.expect("something in a minute");
        Ok(read.map(|chunks| chunks.into_iter().flatten().collect()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Chunk, Pipe, Waker};
    use crate::Error;

    #[test]
    fn a_full_pipe_holds_its_writer() {
        let pipe = Pipe::new(10, &Waker::new().unwrap());
        let writer = pipe.clone();
        let thread = std::thread::spawn(move || {
            for _ in 0..100 {
                writer.write(Bytes::from_static(b"12345678")).unwrap();
            }
            writer.finish();
        });
        let mut read = 0;
        while let Some(chunk) = pipe.read().unwrap() {
            read += chunk.len();
            assert!(chunk.len() <= 17 && pipe.state().bytes <= 17);
        }
        thread.join().unwrap();
        assert_eq!((read, pipe.take(), pipe.room()), (800, Chunk::End, 10));
    }

    #[test]
    fn a_torn_pipe_gives_what_it_had() {
        let pipe = Pipe::new(10, &Waker::new().unwrap());
        pipe.put_all([Bytes::from_static(b"ab")].into_iter());
        pipe.tear(&Error::Closed("gone".into()));
        assert_eq!(pipe.read().unwrap().as_deref(), Some(&b"ab"[..]));
        assert_eq!(pipe.read().unwrap_err().to_string(), Error::Closed("gone".into()).to_string());
        assert!(pipe.write(Bytes::new()).is_err());
    }
}
