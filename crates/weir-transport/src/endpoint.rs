//! An endpoint without I/O: datagrams and times are passed in, datagrams and the next time come out.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use noq_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, FourTuple, Incoming,
    ServerConfig, Transmit, TransportConfig, crypto,
};
use weir_core::Ecn;

use crate::Error;
use crate::arrivals::Arrivals;
use crate::clock::Clock;
use crate::link::{Link, Role};
use crate::overheard::Overheard;
use crate::pipe::Waker;
use crate::receives::Receives;
use crate::streams::Conversation;

/// Connections of one receiver, and of them from one address, or one network of IPv6.
const MOST: usize = 32;
const MOST_OF_ONE: usize = 4;
/// First packets that wait for a decision; each is decided at once, so these are few.
const MOST_INCOMING: usize = 64;

/// An endpoint, which either connects once or is connected to.
pub(crate) struct Endpoint {
    inner: noq_proto::Endpoint,
    links: HashMap<ConnectionHandle, Link>,
    waker: Waker,
    clock: Clock,
    server: Option<Server>,
}

/// What is done for those who connect.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(crate) crypto: Arc<dyn crypto::ServerConfig>,
    /// Somebody has connected.
    pub(crate) accept: Accept,
}

/// Is told who has connected.
pub(crate) type Accept = Box<dyn FnMut(SocketAddr, Conversation) + Send>;

impl Server {
    pub(crate) fn new(
        crypto: Arc<dyn crypto::ServerConfig>,
        transport: TransportConfig,
        accept: Accept,
    ) -> Self {
        let mut config = ServerConfig::with_crypto(Arc::clone(&crypto));
        config.transport_config(Arc::new(transport)).max_incoming(MOST_INCOMING);
        Self { config, crypto, accept }
    }
}

/// What to do with a datagram that came from outside any connection.
pub(crate) enum Answer {
    /// Nothing is to be sent.
    None,
    /// This is to be sent.
    Send(Transmit),
}

impl Endpoint {
    pub(crate) fn new(own: EndpointConfig, server: Option<Server>, waker: Waker, clock: Clock) -> Self {
        let config = server.as_ref().map(|server| Arc::new(server.config.clone()));
        let inner = noq_proto::Endpoint::new(Arc::new(own), config, false);
        Self { inner, links: HashMap::new(), waker, clock, server }
    }

    /// Begins a connection.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        config: ClientConfig,
        remote: SocketAddr,
        name: &str,
        role: Role,
    ) -> Result<Conversation, Error> {
        let (handle, connection) = self
            .inner
            .connect(now, config, remote, name)
            .map_err(|error| Error::Local(format!("cannot connect to {remote}: {error}")))?;
        let conversation = Conversation::new(&self.waker);
        self.links.insert(handle, Link::new(connection, role, conversation.clone(), remote));
        Ok(conversation)
    }

    /// A datagram has come in. What answers it at once is in the buffer.
    pub(crate) fn on_datagram(
        &mut self,
        now: Instant,
        at: Instant,
        path: FourTuple,
        ecn: Option<EcnCodepoint>,
        bytes: BytesMut,
        buffer: &mut Vec<u8>,
    ) -> Answer {
        let length = bytes.len();
        // noq knows ECT(0) alone and gives ECN up when the receiver counts others.
        let ecn = ecn.map(|ecn| if ecn == EcnCodepoint::Ect1 { EcnCodepoint::Ect0 } else { ecn });
        match self.inner.handle(now, path, ecn, bytes, buffer) {
            None => Answer::None,
            // Nobody's address is known here: an answer is never longer than what it answers, so that nobody can have
            // many bytes sent to another for few.
            Some(DatagramEvent::Response(transmit)) if transmit.size > length => Answer::None,
            Some(DatagramEvent::Response(transmit)) => Answer::Send(transmit),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = self.links.get_mut(&handle) {
                    link.on_datagram(at);
                    link.connection.handle_event(event);
                }
                Answer::None
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.on_incoming(now, incoming, buffer),
        }
    }

    fn on_incoming(&mut self, now: Instant, incoming: Incoming, buffer: &mut Vec<u8>) -> Answer {
        // Whoever connects shows first that it is at its address (RFC 9000 section 8.1.2); only then does it cost
        // anything.
        if !incoming.remote_address_validated() {
            return match self.inner.retry(incoming, buffer) {
                Ok(transmit) => Answer::Send(transmit),
                Err(error) => {
                    self.inner.ignore(error.into_incoming());
                    Answer::None
                }
            };
        }
        let remote = incoming.remote_address();
        let home = home(remote.ip());
        let of_one = self.links.values().filter(|link| self::home(link.remote.ip()) == home).count();
        let Some(server) = self.server.as_mut().filter(|_| self.links.len() < MOST && of_one < MOST_OF_ONE)
        else {
            return Answer::Send(self.inner.refuse(incoming, buffer));
        };
        let conversation = Conversation::new(&self.waker);
        let arrivals = Arrivals::new(Arc::clone(&conversation.arrived));
        let mut config = server.config.clone();
        config.crypto =
            Arc::new(Overheard { inner: Arc::clone(&server.crypto), ear: Arc::new(arrivals.clone()) });
        match self.inner.accept(incoming, now, buffer, Some(Arc::new(config))) {
            Ok((handle, connection)) => {
                let role = Role::Receives(Box::new(Receives::new(arrivals, self.clock)));
                self.links.insert(handle, Link::new(connection, role, conversation.clone(), remote));
                (server.accept)(remote, conversation);
                Answer::None
            }
            Err(error) => error.response.map_or(Answer::None, Answer::Send),
        }
    }

    /// Does what is due and what anything that happened calls for.
    pub(crate) fn drive(&mut self, now: Instant) {
        let Self { inner, links, .. } = self;
        links.retain(|handle, link| {
            if link.connection.poll_timeout().is_some_and(|due| due <= now) {
                link.connection.handle_timeout(now);
            }
            link.drive(now);
            while let Some(event) = link.connection.poll_endpoint_events() {
                if let Some(event) = inner.handle_event(*handle, event) {
                    link.connection.handle_event(event);
                }
            }
            let is_drained = link.connection.is_drained();
            if is_drained {
                link.drive(now);
                link.conversation.end(&Error::Lost("it is over".to_owned()));
            }
            !is_drained
        });
    }

    /// The next datagram of any connection: whose it is, and the codepoint that it is to have.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<(ConnectionHandle, Transmit)> {
        self.links.iter_mut().find_map(|(handle, link)| {
            let mut transmit = link.transmit(now, buffer)?;
            // noq sends ECT(0) and cannot be told otherwise.
            transmit.ecn = transmit.ecn.and(match link.ecn() {
                Ecn::NotEct | Ecn::Ce => None,
                Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            });
            Some((*handle, transmit))
        })
    }

    /// The datagram is handed to the network now; its time, if that matters: it must go alone.
    pub(crate) fn departing(&mut self, handle: ConnectionHandle, now: Instant) -> Option<Instant> {
        self.links.get_mut(&handle).and_then(|link| link.departing(now))
    }

    /// When [`drive`](Self::drive) must be called at the latest, and whether to the microsecond.
    pub(crate) fn timer(&self) -> Option<(Instant, bool)> {
        self.links.values().filter_map(Link::timer).min()
    }

    /// How many connections there are.
    #[cfg(any(test, feature = "rehearsal"))]
    pub(crate) fn connections(&self) -> usize {
        self.links.len()
    }

    /// Whether no connection is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Nobody can be reached: every connection that is not up yet ends with this.
    pub(crate) fn fail_unconnected_with(&mut self, error: impl Fn(SocketAddr) -> Error) {
        self.links.retain(|_, link| {
            let is_up = link.conversation.is_connected();
            if !is_up {
                link.conversation.end(&error(link.remote));
            }
            is_up
        });
    }

    /// Nobody is there any more: every connection ends.
    pub(crate) fn lose(&mut self, why: &str) {
        for (_, link) in self.links.drain() {
            link.conversation.end(&Error::Lost(why.to_owned()));
        }
    }

    /// Closes all connections because this end is stopped.
    pub(crate) fn stop(&mut self) {
        self.links.values().for_each(|link| link.conversation.stop());
    }

    /// Of this host, on the path that it is not of by itself.
    pub(crate) fn label(remote: SocketAddr) -> IpAddr {
        // Addresses for documentation (RFC 5737, RFC 3849): no host has them, and they are never sent.
        if remote.is_ipv4() {
            IpAddr::from([192, 0, 2, 2])
        } else {
            IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2])
        }
    }
}

/// What somebody has one of: an address of IPv4, but a /64 of IPv6 (RFC 6177).
fn home(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => IpAddr::from((u128::from(v6) >> 64 << 64).to_be_bytes()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::home;

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        let same = |one: &str, other: &str| home(one.parse().unwrap()) == home(other.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9") && same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1") && !same("192.0.2.1", "192.0.2.2"));
    }
}
