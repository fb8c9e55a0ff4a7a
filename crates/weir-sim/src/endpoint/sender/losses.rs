//! When a sender takes packets for lost, and when it probes; the table in [`sender`](super) says by which rules.

use weir_cc::{Ack, LossSample, Rtt, Timeout};
use weir_core::{Duration, Time};

use super::{Recovery, Sender, Ticks};
use crate::endpoint::sent::{Fate, SentPacket};

/// Packets that must have overtaken one before it is lost (`kPacketThreshold`, TCP's three duplicate ACKs).
const OVERTAKEN: u64 = 3;
const SHORTEST_RTO: Duration = Duration::from_millis(200);
/// Before the first sample (RFC 6298 section 2.1).
const FIRST_RTO: Duration = Duration::from_secs(1);
const LONGEST_RTO: Duration = Duration::from_secs(120);

/// What a probe is armed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arming {
    from: Time,
    /// With a tail loss probe.
    tail: bool,
}

impl Sender {
    /// When [`timeout`](Self::timeout) is due.
    pub(crate) fn timer(&mut self) -> Time {
        self.reckon_probe();
        self.loss_due.min(self.probe_due).min(self.controller.timer().unwrap_or(Time::MAX))
    }

    /// The same if that is before `limit`.
    #[inline]
    pub(crate) fn timer_before(&mut self, limit: Time) -> Option<Time> {
        // An acknowledgement puts the probe off, which nearly always was far off already: then it need not be known
        // when it is.
        let is_far = self.arming.as_ref().is_some_and(|arming| arming.from + self.least_patience() >= limit);
        let due = if is_far {
            self.loss_due.min(self.controller.timer().unwrap_or(Time::MAX))
        } else {
            self.timer()
        };
        (due < limit).then_some(due)
    }

    /// Computes when the probe that was armed last is due.
    fn reckon_probe(&mut self) {
        if let Some(arming) = self.arming.take() {
            let patience = self.patience(arming.tail);
            debug_assert!(patience >= self.least_patience());
            self.probe_due = match self.config.ticks {
                Some(ticks) => ticks.fires(arming.from, patience),
                None => arming.from + patience,
            };
            self.tail_due = arming.tail;
        }
    }

    /// Declares lost what the newest acknowledged packet has overtaken by too much.
    #[inline]
    pub(super) fn find_losses(&mut self, now: Time, ack: &mut Ack) {
        self.loss_due = Time::MAX;
        let Some(newest) = self.unheard.checked_sub(1) else { return };
        let from = self.doubted.max(self.sent.first());
        match (from..newest).find(|number| self.sent.is_flying(*number)) {
            Some(oldest) => self.doubt(oldest, newest, now, ack),
            None => self.doubted = newest,
        }
    }

    /// The same if `oldest` is the first that is still missing.
    #[inline(never)]
    fn doubt(&mut self, oldest: u64, newest: u64, now: Time, ack: &mut Ack) {
        let window = match self.config.recovery {
            Recovery::Quic => {
                let rtt = self.rtt.smoothed.max(self.rtt.latest).as_nanos();
                Duration::from_nanos((rtt / 8 * 9).max(1_000_000))
            }
            Recovery::Tcp => Duration::from_nanos(
                self.rtt.latest.as_nanos()
                    + (self.rtt.shortest.as_nanos() / 4).min(self.rtt.smoothed.as_nanos()),
            ),
        };
        let recovers = self.config.recovery == Recovery::Tcp && self.missing.recovers(self.una);
        let patient = !recovers || self.reordered;
        // By what is in flight now.
        self.reckon_probe();
        let mut waits = None;
        for number in oldest..newest {
            let Some(packet) = self.sent.get_mut(number) else { continue };
            if packet.fate != Fate::Flying {
                continue;
            }
            let due = packet.stamp.sent + window;
            if patient && newest - number < OVERTAKEN && due > now {
                self.loss_due = self.loss_due.min(due);
                waits.get_or_insert(number);
                continue;
            }
            packet.fate = Fate::Lost;
            let packet = *packet;
            // Numbers go up with the time of sending: the last one found is the last one sent.
            ack.lost_sent = packet.stamp.sent;
            ack.loss = Some(self.lose(&packet));
            ack.lost.add(packet.bytes);
        }
        self.doubted = waits.unwrap_or(newest);
        if let (Some(ticks), Some(_)) = (self.config.ticks, waits) {
            self.loss_due = ticks.fires(now, self.loss_due.since(now) + ticks.last(Ticks::LEAST));
        }
    }

    fn lose(&mut self, packet: &SentPacket) -> LossSample {
        self.in_flight -= u64::from(packet.bytes);
        let sequence = packet.sequence;
        if sequence >= self.una {
            // The oldest first. A packet that was lost again is older than what was lost behind it.
            let place = if self.again.back().is_none_or(|last| *last < sequence) {
                self.again.len()
            } else {
                self.again.partition_point(|waiting| *waiting < sequence)
            };
            self.again.insert(place, sequence);
            self.missing.lose(sequence, self.una, self.next);
        }
        self.delivery.lose(&packet.stamp)
    }

    /// A timer of [`timer`](Self::timer) has come.
    pub(crate) fn timeout(&mut self, now: Time) {
        if self.controller.timer().is_some_and(|due| due <= now) {
            self.controller.on_timer(now);
        }
        if self.loss_due <= now {
            let mut ack = self.blank(now);
            self.find_losses(now, &mut ack);
            if ack.lost.packets > 0 {
                self.report(&mut ack);
            }
        }
        if self.probe_due <= now {
            self.probe(now);
        }
    }

    /// Nothing was heard for so long that something must be done.
    fn probe(&mut self, now: Time) {
        if self.tail_due && self.opening().is_none() {
            // The timeout after it is reckoned from when the oldest packet was sent (`tcp_rto_delta_us`).
            let mut numbers = self.sent.first()..self.sent.end();
            let oldest = numbers.find(|number| self.sent.is_flying(*number));
            let from = oldest.and_then(|oldest| self.sent_at(oldest)).unwrap_or(now);
            (self.tail_probed, self.must_probe) = (true, 1);
            self.arming = Some(Arming { from, tail: false });
            return;
        }
        self.probes += 1;
        let give_up = match self.config.recovery {
            _ if self.opening().is_some() => false,
            Recovery::Tcp => true,
            Recovery::Quic => self.probes > 3,
        };
        if give_up {
            self.lose_everything(now);
        } else {
            self.must_probe = 1;
        }
        self.arm_probe(now);
    }

    fn lose_everything(&mut self, now: Time) {
        for number in self.sent.first()..self.sent.end() {
            let Some(packet) = self.sent.get_mut(number) else { continue };
            if packet.fate == Fate::Flying {
                packet.fate = Fate::Lost;
                let packet = *packet;
                self.lose(&packet);
            }
        }
        self.flying_from = self.sent.end();
        self.loss_due = Time::MAX;
        self.missing.time_out(self.next);
        self.controller.on_timeout(&Timeout { now, in_flight: self.in_flight, next: self.next });
    }

    /// A probe is due if nothing is heard from now on.
    fn arm_probe(&mut self, now: Time) {
        self.arming = Some(Arming { from: now, tail: self.may_tail_probe() });
    }

    /// Whether silence is answered by a probe before the timeout: not while losses are being repaired, and once
    /// (`tcp_schedule_loss_probe`).
    fn may_tail_probe(&self) -> bool {
        let is_open = self.again.is_empty() && !self.missing.recovers(self.una);
        self.config.recovery == Recovery::Tcp && is_open && self.probes == 0 && !self.tail_probed
    }

    /// A packet of the stream is sent. While TCP repairs, only the oldest one that is missing puts the timeout off.
    #[inline]
    pub(super) fn arm_by_sending(&mut self, now: Time, sequence: u64) {
        let is_head = sequence == self.una;
        if is_head {
            self.head_sent = now;
        }
        let is_armed = self.arming.is_some() || self.probe_due < Time::MAX;
        let puts_off = is_head && !self.tail_probed;
        if self.config.recovery == Recovery::Quic || puts_off || !is_armed || self.may_tail_probe() {
            self.arm_probe(now);
        }
    }

    /// Something is heard: that the stream has `advanced`, or up to which packet that was sent others have arrived. These
    /// put TCP's timeout off only while they are older than the last copy of what is missing (`tcp_clean_rtx_queue`).
    #[inline]
    pub(super) fn arm_by_news(&mut self, now: Time, advanced: bool, newest: u64) {
        if advanced {
            self.head_sent = Time::ZERO;
        }
        let is_older = || self.sent_at(newest).is_some_and(|newest| newest < self.head_sent);
        if advanced || self.config.recovery == Recovery::Quic || is_older() {
            self.arm_probe(now);
        }
    }

    /// No less than this is its patience.
    #[inline]
    fn least_patience(&self) -> Duration {
        let Rtt { smoothed, .. } = self.rtt;
        let more = if self.config.recovery == Recovery::Tcp { SHORTEST_RTO } else { Duration::ZERO };
        (smoothed + smoothed.min(more)).min(LONGEST_RTO)
    }

    /// How long it waits for an acknowledgement before it probes.
    fn patience(&self, tail: bool) -> Duration {
        let Rtt { smoothed, variation, .. } = self.rtt;
        let wait = if smoothed == Duration::ZERO {
            FIRST_RTO
        } else {
            match self.config.recovery {
                Recovery::Tcp if tail => {
                    // TLP: two round trips; a packet alone also waits for a delayed acknowledgement (RFC 8985 section
                    // 7).
                    let alone = self.in_flight <= u64::from(self.config.mss);
                    let least = self.config.ticks.map_or(Duration::ZERO, |ticks| ticks.last(Ticks::LEAST));
                    let extra = if alone { SHORTEST_RTO } else { least };
                    (smoothed * 2 + extra).min(smoothed + SHORTEST_RTO.max(variation * 4))
                }
                Recovery::Tcp => smoothed + SHORTEST_RTO.max(variation * 4),
                Recovery::Quic => {
                    smoothed + Duration::from_millis(1).max(variation * 4) + self.config.ack_delay
                }
            }
        };
        (wait * (1 << self.probes.min(12))).min(LONGEST_RTO)
    }
}
