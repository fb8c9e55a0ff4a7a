//! How many packets the receiver says were marked: noq tells its controllers only that there were some, but scalable
//! controllers answer to how many. The count is in the receiver's ACK frames (RFC 9000 section 19.3.2), so the sender's
//! keys are wrapped and each packet's frames are looked at once it is decrypted, just before noq reads them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use noq::crypto::{
    CryptoError, ExportKeyingMaterialError, KeyPair, Keys, PacketKey, ServerConfig, Session,
    UnsupportedVersion,
};
use noq::{ConnectionId, PathId, Side};
use noq_proto::TransportError;
use noq_proto::transport_parameters::TransportParameters;

/// The count of a connection so far. Written and read in one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Arc<AtomicU64>);

impl Marks {
    /// Packets that arrived marked CE, by the newest ACK frame.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn watch(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(Watched { key, marks: self.clone() })
    }
}

/// A server's cryptography, with the marks of its present connection counted.
pub(super) struct Counted {
    pub(super) inner: Arc<dyn ServerConfig>,
    pub(super) marks: Marks,
}

impl ServerConfig for Counted {
    fn initial_keys(&self, version: u32, destination: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, destination)
    }

    fn retry_tag(&self, version: u32, destination: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, destination, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        // A client that comes back after a handshake that timed out begins anew.
        self.marks.0.store(0, Ordering::Relaxed);
        Box::new(CountedSession {
            inner: self.inner.start_session(version, params),
            marks: self.marks.clone(),
        })
    }
}

struct CountedSession {
    inner: Box<dyn Session>,
    marks: Marks,
}

impl Session for CountedSession {
    fn initial_keys(&self, destination: ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(destination, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn noq::crypto::HeaderKey>, Box<dyn PacketKey>)> {
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
        keys.packet.remote = self.marks.watch(keys.packet.remote);
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let mut keys = self.inner.next_1rtt_keys()?;
        keys.remote = self.marks.watch(keys.remote);
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

/// A key whose packets are looked at.
struct Watched {
    key: Box<dyn PacketKey>,
    marks: Marks,
}

impl PacketKey for Watched {
    fn encrypt(&self, path: PathId, packet: u64, buffer: &mut [u8], header_len: usize) {
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
        let is_short = header.first().is_some_and(|first| first & 0x80 == 0);
        if let Some(marks) = marks_in(payload).filter(|_| is_short) {
            self.marks.0.fetch_max(marks, Ordering::Relaxed);
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

/// The CE count of a packet's ACK frame, if it has one with counts. noq puts before it only frames of a single byte.
fn marks_in(mut frames: &[u8]) -> Option<u64> {
    /// PADDING, PING, HANDSHAKE_DONE (RFC 9000 section 19), IMMEDIATE_ACK (draft-ietf-quic-ack-frequency).
    const SINGLE: [u64; 4] = [0x00, 0x01, 0x1e, 0x1f];
    const ACK_WITH_COUNTS: u64 = 0x03;
    let mut next = || -> Option<u64> {
        // RFC 9000 section 16: the top two bits give the length.
        let length = 1 << (frames.first()? >> 6);
        let (number, rest) = frames.split_at_checked(length)?;
        frames = rest;
        let first = u64::from(number[0] & 0x3f);
        Some(number[1..].iter().fold(first, |value, byte| value << 8 | u64::from(*byte)))
    };
    let mut kind = next()?;
    while SINGLE.contains(&kind) {
        kind = next()?;
    }
    if kind != ACK_WITH_COUNTS {
        return None;
    }
    let [_largest, _delay, ranges, _first] = [next()?, next()?, next()?, next()?];
    for _ in 0..ranges {
        let [_gap, _length] = [next()?, next()?];
    }
    let [_ect0, _ect1] = [next()?, next()?];
    next()
}

#[cfg(test)]
mod tests {
    use super::marks_in;

    #[test]
    fn the_count_is_found_behind_ranges_and_single_bytes() {
        let ack = [0x03, 0x40, 0xff, 0x05, 0x01, 0x02, 0x00, 0x03, 0x09, 0x00, 0x7a, 0xbc];
        assert_eq!(marks_in(&ack), Some(0x3abc));
        let behind: Vec<u8> = [0x01, 0x1f, 0x00].into_iter().chain(ack).chain([0x10, 0x05]).collect();
        assert_eq!(marks_in(&behind), Some(0x3abc));
    }

    #[test]
    fn other_and_broken_frames_have_none() {
        // Without counts; another frame first; cut off; more ranges than there are bytes; nothing.
        for frames in [
            &[0x02, 0x05, 0x00, 0x00, 0x05][..],
            &[0x10, 0x05, 0x03, 0x05, 0x00, 0x00, 0x05, 0x06, 0x00, 0x02],
            &[0x03, 0x05, 0x00, 0x00, 0x05, 0x06, 0x00],
            &[0x03, 0x05, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00],
            &[],
        ] {
            assert_eq!(marks_in(frames), None, "{frames:?}");
        }
    }
}
