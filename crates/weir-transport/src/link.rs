//! One connection of an endpoint, with what its application reads and writes.

use std::net::SocketAddr;
use std::time::Instant;

use noq_proto::{Connection, Event, StreamEvent, Transmit};
use weir_core::Ecn;

use crate::Error;
use crate::receives::Receives;
use crate::sends::Sends;
use crate::streams::{Conversation, DONE, Streams};

/// Which end this is.
pub(crate) enum Role {
    Sends(Box<Sends>),
    Receives(Box<Receives>),
}

/// One connection.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) conversation: Conversation,
    pub(crate) remote: SocketAddr,
    role: Role,
    streams: Streams,
}

impl Link {
    pub(crate) fn new(
        connection: Connection,
        role: Role,
        conversation: Conversation,
        remote: SocketAddr,
    ) -> Self {
        let streams = Streams::new(matches!(role, Role::Sends(_)));
        Self { connection, conversation, remote, role, streams }
    }

    /// noq is about to read a datagram that arrived then.
    pub(crate) fn on_datagram(&self, at: Instant) {
        if let Role::Receives(receives) = &self.role {
            receives.on_datagram(at);
        }
    }

    /// Does what is due, after anything that may have changed something.
    pub(crate) fn drive(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll() {
            self.on_event(event, now);
        }
        if let Some((code, words)) = self.conversation.closing() {
            self.connection.close(now, code, words);
            self.conversation.end(&Error::Stopped);
        }
        if self.conversation.is_connected()
            && !self.conversation.is_over()
            && let Err(error) = self.streams.pump(&mut self.connection, &self.conversation)
        {
            self.connection.close(now, DONE, error.to_string().into_bytes().into());
            self.conversation.end(&error);
        }
        match &mut self.role {
            Role::Sends(sends) => sends.drive(&mut self.connection, self.streams.has_bulk(), now),
            Role::Receives(receives) => receives.drive(&mut self.connection, now),
        }
    }

    fn on_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Connected => {
                self.conversation.set_connected();
                if let Role::Sends(sends) = &mut self.role {
                    sends.on_connected(now);
                    self.streams.open(&mut self.connection);
                }
            }
            Event::ConnectionLost { reason } => {
                let was_up = self.conversation.is_connected();
                self.conversation.end(&Error::of_connection(&reason, self.remote, was_up));
            }
            Event::Stream(StreamEvent::Opened { .. }) => self.streams.open(&mut self.connection),
            Event::DatagramReceived => {
                while let Some(report) = self.connection.datagrams().recv() {
                    if let Role::Sends(sends) = &mut self.role {
                        sends.on_report(now, &report);
                    }
                }
            }
            Event::Path(event) => {
                if let Role::Sends(sends) = &mut self.role {
                    sends.on_path(&event, now);
                }
            }
            _ => {}
        }
    }

    /// The next datagram.
    pub(crate) fn transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if let Role::Sends(sends) = &mut self.role {
            sends.prepare(&self.connection, now);
        }
        self.connection.poll_transmit(now, std::num::NonZeroUsize::MIN, buffer)
    }

    /// The datagram that [`transmit`](Self::transmit) has made is handed to the network now; its time, if that
    /// matters: it must go alone.
    pub(crate) fn departing(&mut self, now: Instant) -> Option<Instant> {
        match &mut self.role {
            Role::Sends(sends) => sends.departing(now),
            Role::Receives(_) => None,
        }
    }

    /// The codepoint of its packets.
    pub(crate) fn ecn(&self) -> Ecn {
        match &self.role {
            Role::Sends(sends) => sends.ecn(),
            Role::Receives(_) => Ecn::NotEct,
        }
    }

    /// When [`drive`](Self::drive) must be called at the latest, and whether to the microsecond.
    pub(crate) fn timer(&self) -> Option<(Instant, bool)> {
        let own = match &self.role {
            Role::Sends(sends) => sends.timer(),
            Role::Receives(receives) => receives.timer().map(|due| (due, false)),
        };
        let noq = self.connection.poll_timeout().map(|due| (due, false));
        [own, noq].into_iter().flatten().min()
    }
}
