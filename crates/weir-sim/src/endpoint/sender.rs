//! The sending end: what may be sent when, what is lost, and what the controller gets to know.
//!
//! | source | here |
//! |---|---|
//! | QUIC's loss detection: 3 packets or 9/8 of a round trip (RFC 9002 section 6.1) | [`Recovery::Quic`] |
//! | TCP's: RACK with a reordering window of a quarter of the shortest round trip, none once three packets have overtaken (RFC 8985; the kernel's `tcp_recovery.c`) | [`Recovery::Tcp`] |
//! | a probe after two round trips (TLP), then RTO = SRTT + max(4 RTTVAR, 200 ms), doubling | the same for TCP |
//! | timers count in ticks of 1/`CONFIG_HZ` s | with [`SenderConfig::ticks`], in [`Ticks`]; else they fire exactly |
//! | probe timeouts SRTT + max(4 RTTVAR, 1 ms) + max_ack_delay, doubling; persistent congestion after three (RFC 9002 sections 6.2, 7.6) | the same for QUIC |
//! | retransmissions before new data, the oldest first (`tcp_verify_retransmit_hint`) | the same |
//! | CWR on the first new packet after the window was reduced, once for each window of data (RFC 3168 section 6.1.2; `tcp_init_cwnd_reduction`) | the same after echoes, none after losses |
//! | no waiting for reordering while recovering, unless some was seen (`tcp_rack_reo_wnd`) | the same |
//! | round-trip time of the newest packet acknowledged, less the receiver's delay (QUIC) | the same for both; the kernel's SRTT uses the oldest, here only in `defer` |
//! | pacing in bursts of a millisecond, at least two packets and at most 64 kB (`tcp_tso_autosize`) | [`SenderConfig::burst`], [`SenderConfig::min_burst`]; Prague says 0.24 ms |
//! | a burst that began late, because the window was full, is made up for by up to half its length; the first ten packets are not paced (`tcp_update_skb_after_send`) | the same for TCP |
//! | SYN-ACK: again after 1 s, then 2 s, 4 s... (RFC 6298 section 2, `TCP_TIMEOUT_INIT`); what the handshake took is the first round trip; a FIN of its own where all data had been sent before the connection was closed | for who [opens](Sender::open); each is a byte of the stream, as in its sequence space |
//! | bursts and super-packets of 1/1024 s at the pacing rate, 2 segments to 64 kB (`tcp_tso_autosize` before Linux 5.19) | if [`SenderConfig::autosize`] |
//! | the host's `fq` paces who does not: 1.2 windows a round trip, two in slow start below half of the threshold (`tcp_update_pacing_rate`) | with [`Bunching::Fq`], two until something was lost or marked: the sender does not know the threshold |
//! | without pacing, packets that wait for others to go with (`tcp_tso_should_defer`) | if [`SenderConfig::defer`] |

mod defer;
mod losses;
mod marks;
mod missing;
mod news;
mod pacing;
mod ticks;

use std::collections::VecDeque;

use weir_cc::{Ack, Controller, Count, Delivery, EcnUse, Rtt, Sent};
use weir_core::{Duration, Ecn, FlowId, Packet, Rate, Time};

use super::burst::Burst;
use super::frame::{AckFrame, Data};
use super::receiver::Feedback;
use super::sent::{Fate, SentPacket, SentPackets};
use super::writes::Writes;
use losses::Arming;
use missing::Missing;
use news::News;
use pacing::UNPACED;
pub use ticks::Ticks;

/// How losses are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// As the kernel's TCP.
    #[default]
    Tcp,
    /// As RFC 9002.
    Quic,
}

/// What a sender does with its window whose controller has no pacing rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bunching {
    /// Each packet goes as soon as the window has room for it.
    #[default]
    AtOnce,
    /// Packets wait for others to go with (`tcp_tso_should_defer`).
    Defer,
    /// The window is spread over the round trip (RFC 9002 section 7.7).
    Spread,
    /// The host's `fq` paces: two windows a round trip up to the first loss or mark, 6/5 from then on
    /// (`tcp_update_pacing_rate`, which goes by slow start's threshold).
    Fq,
}

/// Parameters of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Payload bytes of a full packet.
    pub mss: u32,
    /// Bytes of all headers on the wire, Ethernet's included.
    pub header: u32,
    /// How losses are found.
    pub recovery: Recovery,
    /// How the receiver reports marks.
    pub feedback: Feedback,
    /// With pacing, unless the controller says how long: a burst lasts this long at the rate, up to 64 kB.
    pub burst: Duration,
    /// Packets that a burst has at least.
    pub min_burst: u16,
    /// What it does where the controller has no pacing rate.
    pub bunching: Bunching,
    /// Whether bursts and super-packets have the length of `tcp_tso_autosize`.
    pub autosize: bool,
    /// The sender paces at no more than this; [`Rate::MAX`] if nothing holds it back.
    pub max_rate: Rate,
    /// The receiver's longest delay of acknowledgements, which probes wait for (QUIC).
    pub ack_delay: Duration,
    /// Payload bytes that the receiver has room for.
    pub window: u64,
    /// The ticks in which TCP's timers are counted; none if they fire exactly.
    pub ticks: Option<Ticks>,
}

/// A packet on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) data: Data,
    pub(crate) wire_bytes: u32,
    pub(crate) ecn: Ecn,
}

impl Outgoing {
    #[inline]
    pub(crate) fn packet(&self, id: u64, flow: FlowId, now: Time) -> Packet {
        Packet { handle: self.data.pack(), ..Packet::new(id, flow, self.wire_bytes, now).with_ecn(self.ecn) }
    }
}

/// The sending end of a connection.
pub(crate) struct Sender {
    config: SenderConfig,
    pub(crate) controller: Box<dyn Controller>,
    ecn: EcnUse,
    codepoint: Ecn,
    pub(crate) writes: Writes,
    next: u64,
    una: u64,
    again: VecDeque<u64>,
    missing: Missing,
    /// A packet has come behind a newer one (`reord_seen`).
    reordered: bool,
    sent: SentPackets,
    /// Of packets from this number on nothing has been acknowledged.
    unheard: u64,
    /// Of packets from this number on nothing was heard, and none is held lost.
    flying_from: u64,
    /// None before this number is in flight.
    doubted: u64,
    in_flight: u64,
    pub(crate) rtt: Rtt,
    /// Smoothed, of the oldest packet that each acknowledgement reports, with what the receiver held back
    /// (`tcp_clean_rtx_queue`). For [`SenderConfig::defer`].
    oldest_rtt: Duration,
    pub(crate) delivery: Delivery,
    pub(crate) echoes: u64,
    /// The window bounds what is sent until this number is acknowledged.
    limited_until: u64,
    ack_index: Option<u32>,
    ce_seen: u64,
    /// The next new packet carries CWR.
    reduced: bool,
    /// Echoes before the stream has arrived up to here are of marks that have been answered.
    answered: u64,
    spin: bool,
    next_send: Time,
    /// How late the burst began that is being sent, as far as it has not been made up for.
    late: Duration,
    /// Packets that go before pacing begins.
    unpaced: u32,
    /// Bytes that may go before pacing waits again.
    burst_left: u64,
    /// Packets that go with the last one that was sent.
    together: u32,
    /// When the oldest packet in doubt is lost if nothing comes.
    loss_due: Time,
    probe_due: Time,
    /// What [`probe_due`](Self::probe_due) is to be computed from: once for all packets of a burst.
    arming: Option<Arming>,
    /// What is due then is a tail loss probe.
    tail_due: bool,
    /// A tail loss probe has gone since anything was heard.
    tail_probed: bool,
    /// When the oldest packet of the stream that is missing was sent last; zero if it was sent before it was the oldest.
    head_sent: Time,
    probes: u32,
    must_probe: u32,
    /// Of a connection whose SYN-ACK and FIN are simulated. Most are not, and pay a pointer.
    handshake: Option<Box<Handshake>>,
}

/// The packets that are SYN-ACK and FIN.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    syn: u64,
    fin: Option<u64>,
    /// The SYN-ACK has not been acknowledged.
    opens: bool,
}

impl Sender {
    pub(crate) fn new(config: SenderConfig, controller: Box<dyn Controller>) -> Self {
        Self {
            config,
            ecn: controller.ecn(),
            codepoint: controller.ecn().codepoint(),
            controller,
            writes: Writes::new(config.mss),
            next: 0,
            una: 0,
            again: VecDeque::new(),
            missing: Missing::default(),
            reordered: false,
            sent: SentPackets::default(),
            unheard: 0,
            flying_from: 0,
            doubted: 0,
            in_flight: 0,
            rtt: Rtt::default(),
            oldest_rtt: Duration::ZERO,
            delivery: Delivery::default(),
            echoes: 0,
            limited_until: 0,
            ack_index: None,
            ce_seen: 0,
            reduced: false,
            answered: 0,
            spin: false,
            next_send: Time::ZERO,
            late: Duration::ZERO,
            unpaced: if config.recovery == Recovery::Tcp { UNPACED } else { 0 },
            burst_left: 0,
            together: 0,
            loss_due: Time::MAX,
            probe_due: Time::MAX,
            arming: None,
            tail_due: false,
            tail_probed: false,
            head_sent: Time::ZERO,
            probes: 0,
            must_probe: 0,
            handshake: None,
        }
    }

    /// Opens the connection with a SYN-ACK, behind which `bytes` wait, or an endless stream, and a FIN of its own if it
    /// `closes` so.
    pub(crate) fn open(&mut self, bytes: Option<u64>, closes: bool) {
        let syn = self.writes.end();
        self.writes.write(Some(1));
        self.writes.write(bytes);
        if closes {
            self.writes.write(Some(1));
        }
        let fin = closes.then(|| self.writes.end() - 1);
        self.handshake = Some(Box::new(Handshake { syn, fin, opens: true }));
    }

    /// The SYN-ACK, until it is acknowledged.
    #[inline]
    fn opening(&self) -> Option<u64> {
        self.handshake.as_ref().filter(|handshake| handshake.opens).map(|handshake| handshake.syn)
    }

    /// The client has answered the SYN-ACK: only now there is a connection for the controller.
    #[cold]
    fn opened(&mut self) {
        if let Some(handshake) = &mut self.handshake {
            handshake.opens = false;
        }
        for number in self.sent.first()..self.sent.end() {
            if let Some(packet) = self.sent.get_mut(number)
                && packet.fate == Fate::Flying
            {
                // Another copy of it.
                packet.fate = Fate::Lost;
                self.in_flight -= u64::from(packet.bytes);
            }
        }
        self.doubted = self.sent.end();
        self.flying_from = self.sent.end();
        self.controller.on_handshake(self.rtt.smoothed);
        (self.probe_due, self.arming, self.must_probe) = (Time::MAX, None, 0);
    }

    /// A new connection on the same ports, once the old one is [done](Self::is_done): numbers count on, all else begins
    /// anew.
    pub(crate) fn reopen(&mut self, controller: Box<dyn Controller>) {
        let end = self.sent.end();
        let old = std::mem::replace(self, Self::new(self.config, controller));
        self.writes = old.writes;
        self.sent = SentPackets::from(end);
        (self.next, self.una) = (old.next, old.next);
        self.limited_until = end;
        (self.echoes, self.ce_seen, self.ack_index) = (old.echoes, old.ce_seen, old.ack_index);
    }

    /// The handshake took `rtt`.
    pub(crate) fn shake_hands(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
        self.oldest_rtt = rtt;
        self.controller.on_handshake(rtt);
    }

    /// Whether all that was written has been acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.una >= self.writes.end()
    }

    /// Payload bytes of a full packet.
    pub(crate) fn mss(&self) -> u32 {
        self.config.mss
    }

    /// When a packet was sent, if it is not forgotten.
    #[inline]
    pub(crate) fn sent_at(&self, number: u64) -> Option<Time> {
        self.sent.get(number).map(|packet| packet.stamp.sent)
    }

    /// Bytes of the stream that were sent.
    pub(crate) fn offset(&self) -> u64 {
        self.writes.offset(self.next)
    }

    /// The application has no more to write: what was not sent yet is not sent.
    pub(crate) fn stop(&mut self) {
        self.writes.stop(self.next);
    }

    /// The next packet to send now, if there is one and it may go.
    #[inline(always)]
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        while self.again.front().is_some_and(|sequence| *sequence < self.una) {
            self.again.pop_front();
        }
        if self.opening().is_some_and(|syn| self.next > syn) {
            return self.probe_old(now);
        }
        let (sequence, again) = match self.again.front() {
            Some(sequence) => (*sequence, true),
            None if self.next < self.writes.end() => (self.next, false),
            None => {
                // Nothing to send: rates measured from now on are the application's.
                if self.in_flight + u64::from(self.config.mss) <= self.controller.window() {
                    self.delivery.limit_by_application(self.in_flight.div_ceil(u64::from(self.config.mss)));
                }
                return self.probe_old(now);
            }
        };
        let bytes = self.writes.length(sequence);
        if self.must_probe == 0 {
            let window = self.controller.window();
            if self.in_flight + u64::from(bytes) > window {
                self.limited_until = self.sent.end();
                return None;
            }
            if self.in_flight + u64::from(bytes) > self.config.window {
                return None;
            }
            if let Some(rate) = self.pacing() {
                if !self.pace(now, bytes, rate) {
                    return None;
                }
            } else if self.config.bunching == Bunching::Defer && !again && self.waits_for_more(now, window) {
                self.limited_until = self.sent.end();
                return None;
            }
        }
        if again {
            self.again.pop_front();
        } else {
            self.next += 1;
        }
        Some(self.transmit(now, sequence, bytes, again))
    }

    /// [`poll`](Self::poll), not in line.
    #[inline(never)]
    fn poll_apart(&mut self, now: Time) -> Option<Outgoing> {
        self.poll(now)
    }

    /// The next packet of up to `most` segments, of what is held back and of what may go now and continues it; what
    /// does not continue it is held back.
    pub(crate) fn gather(&mut self, now: Time, held: &mut Option<Outgoing>, most: u16) -> Option<Burst> {
        let most = if self.config.autosize { most.min(self.autosized() as u16) } else { most };
        let mut burst = Burst::new(held.take().or_else(|| self.poll_apart(now))?);
        while burst.segments() < most && held.is_none() {
            let Some(next) = self.poll_apart(now) else { break };
            if !burst.take(&next) {
                *held = Some(next);
            }
        }
        Some(burst)
    }

    /// A probe with nothing new to send: the newest packet in flight once more.
    #[cold]
    fn probe_old(&mut self, now: Time) -> Option<Outgoing> {
        if self.must_probe == 0 {
            return None;
        }
        let flying = (self.sent.first()..self.sent.end())
            .rev()
            .filter_map(|number| self.sent.get(number))
            .find(|packet| packet.fate == Fate::Flying && packet.sequence >= self.una)
            .map(|packet| (packet.sequence, packet.bytes));
        let Some((sequence, bytes)) = flying else {
            self.must_probe = 0;
            return None;
        };
        Some(self.transmit(now, sequence, bytes, true))
    }

    #[inline(always)]
    fn transmit(&mut self, now: Time, sequence: u64, bytes: u32, again: bool) -> Outgoing {
        let restarts = self.in_flight == 0;
        self.in_flight += u64::from(bytes);
        let (number, packet) = self.sent.push();
        (packet.sequence, packet.bytes, packet.fate) = (sequence, bytes, Fate::Flying);
        self.delivery.stamp(&mut packet.stamp, now, self.in_flight, restarts);
        self.must_probe = self.must_probe.saturating_sub(1);
        self.controller.on_sent(&Sent { now, bytes, in_flight: self.in_flight, restarts });
        self.arm_by_sending(now, sequence);
        let reduced = !again && std::mem::take(&mut self.reduced);
        // RFC 3168 section 6.1.5: retransmissions are Not-ECT. The kernel obeys only for classic ECN.
        let is_bare = |handshake: &Handshake| handshake.syn == sequence || handshake.fin == Some(sequence);
        let bare = again || self.handshake.as_deref().is_some_and(is_bare);
        let plain = bare && self.config.recovery == Recovery::Tcp && self.ecn == EcnUse::Classic;
        let ecn = if plain { Ecn::NotEct } else { self.codepoint };
        Outgoing {
            data: Data { number, sequence, reduced, spin: self.spin },
            wire_bytes: bytes + self.config.header,
            ecn,
        }
    }

    /// Takes an acknowledgement.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: Time, frame: &AckFrame) {
        // If the acknowledgement before was lost, all its ranges may be news.
        let in_order = self.ack_index.is_none_or(|last| frame.index == last.wrapping_add(1));
        if self.ack_index.is_some_and(|last| (frame.index.wrapping_sub(last) as i32) <= 0) {
            // Overtaken by a later one, which reported the same and more.
            return;
        }
        self.ack_index = Some(frame.index);
        let mut ack = self.blank(now);
        let fresh = if in_order { frame.fresh } else { 0 }.max(self.sent.first());
        let News { delivered, landed, oldest, newest, reordered } = self.read_news(frame, fresh);
        ack.delivered = delivered;
        self.reordered |= reordered;
        self.in_flight -= landed;
        let before = self.una;
        self.una = self.una.max(frame.next);
        self.missing.advance(self.una, self.next);
        self.writes.acknowledged(self.una);
        self.spin = frame.spin;
        self.read_marks(frame, &mut ack);
        self.delivery.deliver(ack.delivered, ack.ce.packets);
        if let Some(number) = newest
            && let Some(SentPacket { stamp, .. }) = self.sent.get(number)
        {
            if number >= self.unheard {
                self.unheard = number + 1;
                self.flying_from = self.flying_from.max(number + 1);
                let delay = match self.config.recovery {
                    Recovery::Quic => frame.delay,
                    Recovery::Tcp => Duration::ZERO,
                };
                let rtt = now.since(stamp.sent) - delay;
                self.rtt.sample(rtt);
                if self.config.bunching == Bunching::Defer || self.config.autosize {
                    let oldest = oldest.and_then(|oldest| self.sent_at(oldest));
                    let oldest = oldest.map_or(rtt, |sent| now.since(sent));
                    self.oldest_rtt = Rtt::smooth(self.oldest_rtt, oldest);
                }
                ack.rtt = Some(rtt);
            }
            ack.delivered_sent = stamp.sent;
            (self.probes, self.tail_probed) = (0, false);
            ack.rate = self.delivery.sample(now, stamp, self.rtt.shortest);
            ack.window_limited = number < self.limited_until;
        }
        if self.opening().is_some_and(|syn| self.una > syn) {
            return self.opened();
        }
        // What was declared lost long ago will not come any more.
        let keep = 3 * self.rtt.smoothed.as_nanos();
        self.sent.trim(|packet| now.since(packet.stamp.sent).as_nanos() < keep);
        self.find_losses(now, &mut ack);
        self.report(&mut ack);
        if self.in_flight == 0 {
            (self.probe_due, self.arming) = (Time::MAX, None);
        } else if let Some(newest) = newest {
            self.arm_by_news(now, self.una > before, newest);
        }
    }

    fn blank(&self, now: Time) -> Ack {
        Ack {
            now,
            delivered: Count::default(),
            ce: Count::default(),
            echo: false,
            lost: Count::default(),
            missing: 0,
            lost_sent: Time::ZERO,
            loss: None,
            delivered_sent: Time::ZERO,
            rtt: None,
            smoothed_rtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            in_flight: 0,
            prior_in_flight: self.in_flight,
            window_limited: false,
            una: 0,
            next: 0,
            total_delivered: 0,
            total_lost: 0,
            rate: None,
            app_limited: false,
        }
    }

    #[inline]
    fn report(&mut self, ack: &mut Ack) {
        ack.smoothed_rtt = self.rtt.smoothed;
        ack.min_rtt = self.rtt.shortest;
        ack.in_flight = self.in_flight;
        ack.una = self.una;
        ack.next = self.next;
        ack.total_delivered = self.delivery.delivered();
        ack.total_lost = self.delivery.lost();
        ack.missing = match self.config.recovery {
            Recovery::Tcp => self.missing.count(),
            Recovery::Quic => ack.lost.packets,
        };
        ack.app_limited = self.next >= self.writes.end() && self.again.is_empty();
        self.controller.on_ack(ack);
    }

    /// Gives back what room it can: for a flow that has sent all it will.
    pub(crate) fn fit(&mut self) {
        self.sent.fit();
        self.again.shrink_to_fit();
        self.missing.fit();
    }
}

#[cfg(test)]
mod tests;
