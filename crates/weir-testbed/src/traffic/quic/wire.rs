//! A UDP socket for noq that sends the codepoint of the flow, be it none, and that watches the spin bit of what it
//! sends. noq knows ECT(0) alone and gives ECN up when the receiver counts others; so ECT(1) is what ECT(0) becomes on
//! its way out, and becomes ECT(0) again on its way in.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

use crate::traffic::SpinCount;

/// The bits of a packet's first byte (RFC 9000 sections 17.2 and 17.3.1).
const LONG_HEADER: u8 = 0x80;
const SPIN: u8 = 0x20;

/// What one endpoint's outgoing packets looked like. All of them pass through one thread.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    packets: AtomicU64,
    edges: AtomicU64,
    last: AtomicU64,
    ect: AtomicBool,
}

impl Outgoing {
    fn see(&self, datagram: &[u8], ect: bool) {
        let Some(first) = datagram.first().filter(|first| *first & LONG_HEADER == 0) else { return };
        self.ect.store(ect, Ordering::Relaxed);
        let bit = u64::from(first & SPIN != 0);
        let before = self.last.swap(bit, Ordering::Relaxed);
        if self.packets.fetch_add(1, Ordering::Relaxed) > 0 && before != bit {
            self.edges.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last packet with a short header was ECN-capable.
    pub(super) fn ect(&self) -> bool {
        self.ect.load(Ordering::Relaxed)
    }

    pub(super) fn spin(&self) -> SpinCount {
        SpinCount { packets: self.packets.load(Ordering::Relaxed), edges: self.edges.load(Ordering::Relaxed) }
    }
}

/// noq's own socket with another codepoint.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) inner: Box<dyn AsyncUdpSocket>,
    /// What is sent for ECT(0); `None` to send Not-ECT.
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) outgoing: Arc<Outgoing>,
}

impl AsyncUdpSocket for Wire {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(WireSender {
            inner: self.inner.create_sender(),
            ecn: self.ecn,
            outgoing: Arc::clone(&self.outgoing),
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let result = self.inner.poll_recv(cx, bufs, meta);
        if let Poll::Ready(Ok(count)) = result {
            for datagrams in &mut meta[..count] {
                if datagrams.ecn == Some(EcnCodepoint::Ect1) {
                    datagrams.ecn = Some(EcnCodepoint::Ect0);
                }
            }
        }
        result
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[derive(Debug)]
struct WireSender {
    inner: Pin<Box<dyn UdpSender>>,
    ecn: Option<EcnCodepoint>,
    outgoing: Arc<Outgoing>,
}

impl UdpSender for WireSender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let outgoing = Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and(self.ecn),
            contents: transmit.contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let ect = outgoing.ecn.is_some();
        let result = self.inner.as_mut().poll_send(&outgoing, cx);
        if let Poll::Ready(Ok(())) = result {
            let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
            transmit.contents.chunks(segment).for_each(|datagram| self.outgoing.see(datagram, ect));
        }
        result
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.inner.max_transmit_segments()
    }
}

#[cfg(test)]
mod tests {
    use super::{Outgoing, SpinCount};

    #[test]
    fn only_short_headers_count() {
        let counter = Outgoing::default();
        for first in [0xc0, 0x40, 0x40, 0x60, 0xe0, 0x60, 0x40] {
            counter.see(&[first, 1, 2], false);
        }
        counter.see(&[], true);
        assert_eq!((counter.spin(), counter.ect()), (SpinCount { packets: 5, edges: 2 }, false));
        counter.see(&[0x40], true);
        assert!(counter.ect());
    }
}
