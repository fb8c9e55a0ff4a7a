//! What a transport reports to its controller. The model is the kernel's `struct rate_sample` with what `tcp_ack()`
//! knows (`include/net/tcp.h`, `net/ipv4/tcp_rate.c`), which is also what a QUIC stack knows (RFC 9002 Appendix A).

use weir_core::{Duration, Time};

/// Packets and their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u32,
    /// Payload bytes.
    pub bytes: u64,
}

impl Count {
    /// One more packet.
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// How fast packets were delivered between the sending of a packet and its acknowledgement (delivery rate estimation,
/// `draft-cheng-iccrg-delivery-rate-estimation`). Of the packet that was sent last among those an acknowledgement
/// brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Delivered in `interval`.
    pub delivered: Count,
    /// The longer of sending time and acknowledging time. Zero: of no use.
    pub interval: Duration,
    /// Packets that the connection had delivered when the packet was sent; a round trip has passed when it reaches the
    /// total of then.
    pub prior_delivered: u64,
    /// Of `delivered`, marked CE.
    pub delivered_ce: u32,
    /// Packets declared lost since the packet was sent.
    pub lost: u32,
    /// Payload bytes in flight when it was sent, itself included.
    pub in_flight_at_send: u64,
    /// The application, not the window, held the sender back then.
    pub app_limited: bool,
}

/// The circumstances in which a packet was sent that is now declared lost (the kernel's `skb_marked_lost` gives BBR the
/// same): how full the path was that lost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSample {
    /// Payload bytes in flight when it was sent, itself included.
    pub in_flight_at_send: u64,
    /// Packets declared lost since it was sent, itself included.
    pub lost: u32,
    /// The application, not the window, held the sender back then.
    pub app_limited: bool,
}

/// One acknowledgement, after the transport has taken note of it.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When.
    pub now: Time,
    /// Newly delivered, in order or not.
    pub delivered: Count,
    /// Of these, marked CE on the way, as far as the feedback shows.
    pub ce: Count,
    /// Classic feedback: congestion experienced is being echoed (ECE). Also set with accurate feedback when `ce` is not
    /// zero.
    pub echo: bool,
    /// Newly declared lost.
    pub lost: Count,
    /// Packets of the stream that were declared lost and have not arrived since (the kernel's `lost_out`). Of a
    /// transport that forgets a packet when it has sent its data again (QUIC): those newly declared lost.
    pub missing: u32,
    /// When the last sent of the packets declared lost was sent.
    pub lost_sent: Time,
    /// Of the packet that was sent last among those declared lost; `None` if none was, or if it is not known (BBR then
    /// answers with the next delivery rate sample instead).
    pub loss: Option<LossSample>,
    /// When the last sent of the packets delivered was sent.
    pub delivered_sent: Time,
    /// The round-trip time of that packet; `None` if nothing was delivered or only packets sent more than once.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298); zero before the first sample.
    pub smoothed_rtt: Duration,
    /// Shortest round-trip time of the connection; [`Duration::MAX`] before the first sample.
    pub min_rtt: Duration,
    /// Payload bytes in flight after this acknowledgement.
    pub in_flight: u64,
    /// Payload bytes in flight before it.
    pub prior_in_flight: u64,
    /// Whether the window, and not the application or pacing, has bounded what was sent in the last round trip.
    pub window_limited: bool,
    /// Every packet of the stream before this one has arrived (TCP's `snd_una`, counted in packets).
    pub una: u64,
    /// The first packet of the stream that was never sent (`snd_nxt`, counted in packets).
    pub next: u64,
    /// Packets delivered in the connection so far.
    pub total_delivered: u64,
    /// Packets lost in the connection so far.
    pub total_lost: u64,
    /// The delivery rate, if it could be measured.
    pub rate: Option<RateSample>,
    /// Less waits to be sent than the window allows: the application, not the window, limits the sender now.
    pub app_limited: bool,
}

/// The retransmission timer fired.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// When.
    pub now: Time,
    /// Payload bytes that are held to be in flight all the same.
    pub in_flight: u64,
    /// The first packet of the stream that was never sent, as in [`Ack::next`].
    pub next: u64,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Its payload bytes.
    pub bytes: u32,
    /// Payload bytes in flight with it.
    pub in_flight: u64,
    /// It is the first after a pause in which nothing was in flight.
    pub restarts: bool,
}
