//! Packets as they are decrypted. noq tells neither their numbers nor what their ACK frames count, so the keys of an
//! end are wrapped: whoever listens gets each packet of the application just before noq reads it.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig,
    Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError};

/// Who listens to the packets of a connection.
pub trait Hear: Send + Sync + 'static {
    /// A connection begins.
    fn begin(&self) {}

    /// A packet with a short header has been decrypted: its path, its number there, and its frames. A packet that
    /// arrived twice comes twice.
    fn packet(&self, path: PathId, number: u64, frames: &[u8]);
}

/// The cryptography of one end, with somebody who listens. Of one connection at a time.
pub struct Overheard<C: ?Sized> {
    /// The cryptography itself.
    pub inner: Arc<C>,
    /// Who listens.
    pub ear: Arc<dyn Hear>,
}

impl<C: ServerConfig + ?Sized> ServerConfig for Overheard<C> {
    fn initial_keys(&self, version: u32, destination: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, destination)
    }

    fn retry_tag(&self, version: u32, destination: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, destination, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        self.ear.begin();
        let inner = self.inner.start_session(version, params);
        Box::new(OverheardSession { inner, ear: Arc::clone(&self.ear) })
    }
}

impl<C: ClientConfig + ?Sized> ClientConfig for Overheard<C> {
    fn start_session(
        &self,
        version: u32,
        server: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        self.ear.begin();
        let inner = self.inner.start_session(version, server, params)?;
        Ok(Box::new(OverheardSession { inner, ear: Arc::clone(&self.ear) }))
    }
}

struct OverheardSession {
    inner: Box<dyn Session>,
    ear: Arc<dyn Hear>,
}

impl OverheardSession {
    fn listen(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(OverheardKey { key, ear: Arc::clone(&self.ear) })
    }
}

impl Session for OverheardSession {
    fn initial_keys(&self, destination: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(destination, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, data: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(data)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, data: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.inner.write_handshake(data)?;
        keys.packet.remote = self.listen(keys.packet.remote);
        #[cfg(any(test, feature = "rehearsal"))]
        {
            keys.packet.local = self.listen(keys.packet.local);
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let mut keys = self.inner.next_1rtt_keys()?;
        keys.remote = self.listen(keys.remote);
        Some(keys)
    }

    fn is_valid_retry(&self, destination: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(destination, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

struct OverheardKey {
    key: Box<dyn PacketKey>,
    ear: Arc<dyn Hear>,
}

impl PacketKey for OverheardKey {
    fn encrypt(&self, path: PathId, packet: u64, buffer: &mut [u8], header_len: usize) {
        #[cfg(any(test, feature = "rehearsal"))]
        {
            let end = buffer.len() - self.key.tag_len();
            crate::rehearsal::tamper(&mut buffer[header_len..end]);
        }
        self.key.encrypt(path, packet, buffer, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.key.decrypt(path, packet, header, payload)?;
        // Each packet number space has counts of its own; data travels behind short headers.
        if header.first().is_some_and(|first| first & 0x80 == 0) {
            self.ear.packet(path, packet, payload);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
