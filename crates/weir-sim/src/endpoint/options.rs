//! What a user may set at the two ends of a flow.

use weir_core::{Duration, Rate};

use super::receiver::ReceiverConfig;

/// Options of a flow's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOptions {
    /// Segments that the sender hands over as one packet at most, 1 to [`LARGEST_GSO`](crate::LARGEST_GSO).
    pub gso: u16,
    /// Super-packets, and bursts of packets one by one, are as long as Linux makes them of the pacing rate
    /// (`tcp_tso_autosize` of Linux 5.4): no.
    pub tso_autosize: bool,
    /// SYN-ACK and FIN pass the queue as packets of their own, without ECN unless all packets of the controller have it,
    /// and are sent again when they are lost: no.
    pub syn_fin: bool,
    /// The window to begin with, in packets; 10 by RFC 6928.
    pub initial_window: u32,
    /// Packets that a paced burst has at least (`net.ipv4.tcp_min_tso_segs`): 2.
    pub min_burst: u32,
    /// Whether TCP packets that are not paced wait for others to go with, as in Linux (`tcp_tso_should_defer`): yes.
    pub defer: bool,
    /// Whether the sender's host has `fq`, which paces TCP whose controller has no pacing rate: no.
    pub host_fq: bool,
    /// Ticks a second in which the sender's host counts TCP's timers (`CONFIG_HZ`); 0 if they fire exactly: 0.
    pub host_hz: u16,
    /// Whether a sender whose controller has no pacing rate spreads its window over the round trip, as noq does: no.
    pub paced: bool,
    /// The sender paces its payload at no more than this, whatever its controller asks for (`SO_MAX_PACING_RATE`).
    pub max_rate: Option<Rate>,
    /// An acknowledgement for this many packets, if not for two.
    pub ack_every: Option<u32>,
    /// The longest that a packet waits for an acknowledgement, if not as long as usual: 40 ms with TCP, 25 ms with
    /// QUIC.
    pub ack_delay: Option<Duration>,
    /// What comes within this time after a packet is taken and acknowledged with it (generic receive offload).
    pub gro: Duration,
}

impl Default for EndOptions {
    fn default() -> Self {
        Self {
            gso: 1,
            tso_autosize: false,
            syn_fin: false,
            initial_window: 10,
            min_burst: 2,
            defer: true,
            host_fq: false,
            host_hz: 0,
            paced: false,
            max_rate: None,
            ack_every: None,
            ack_delay: None,
            gro: Duration::ZERO,
        }
    }
}

impl EndOptions {
    /// The receiver with what is set here.
    pub(crate) fn receiver(&self, usual: ReceiverConfig) -> ReceiverConfig {
        ReceiverConfig {
            every: self.ack_every.unwrap_or(usual.every),
            delay: self.ack_delay.unwrap_or(usual.delay),
            gro: self.gro.max(usual.gro),
            ..usual
        }
    }
}
