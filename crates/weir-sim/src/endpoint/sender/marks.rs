//! What a sender learns of marks, and how it says that it has answered; the table in [`sender`](super) says by which
//! rules.

use weir_cc::{Ack, Count, EcnUse};

use super::Sender;
use crate::endpoint::frame::AckFrame;
use crate::endpoint::receiver::Feedback;

impl Sender {
    #[inline]
    pub(super) fn read_marks(&mut self, frame: &AckFrame, ack: &mut Ack) {
        // Who has not negotiated ECN knows nothing of marks, even if a box on the path has made its packets
        // ECN-capable.
        if self.ecn == EcnUse::Off {
            return;
        }
        match self.config.feedback {
            Feedback::Counted | Feedback::AccEcn => {
                let new = frame.ce.saturating_sub(self.ce_seen);
                self.ce_seen = self.ce_seen.max(frame.ce);
                let packets = (new as u32).min(ack.delivered.packets);
                ack.ce = Count {
                    packets,
                    bytes: (u64::from(packets) * u64::from(self.config.mss)).min(ack.delivered.bytes),
                };
                ack.echo = new > 0;
            }
            Feedback::Classic | Feedback::Dctcp => {
                ack.echo = frame.echo;
                if frame.echo {
                    ack.ce = ack.delivered;
                    // A second CWR in the same window would end the echo of a mark that came after the first.
                    if self.una >= self.answered {
                        (self.reduced, self.answered) = (true, self.next + 1);
                    }
                }
            }
        }
        self.echoes += u64::from(ack.ce.packets);
    }
}

#[cfg(test)]
mod tests {
    use weir_cc::{EcnUse, Linux, Reno, Setup};
    use weir_core::{Duration, Rate, Seed, Time};

    use super::{Feedback, Sender};
    use crate::endpoint::frame::{Arriving, Data};
    use crate::endpoint::receiver::{Receiver, ReceiverConfig};
    use crate::endpoint::sender::{Bunching, Recovery, SenderConfig};

    /// The packets of each round trip with CWR, where those `marked` arrive with CE.
    fn answers(rounds: u64, marked: impl Fn(u64) -> bool) -> Vec<Vec<u64>> {
        let setup = Setup {
            mss: 1000,
            initial_window: 10,
            random: Seed { seed: 1, run: 0 }.stream("marks"),
            rate: None,
        };
        let config = SenderConfig {
            mss: 1000,
            header: 66,
            recovery: Recovery::Tcp,
            feedback: Feedback::Classic,
            burst: Duration::from_millis(1),
            min_burst: 2,
            bunching: Bunching::AtOnce,
            autosize: false,
            max_rate: Rate::MAX,
            ack_delay: Duration::from_millis(40),
            window: u64::MAX,
            ticks: None,
        };
        let mut sender = Sender::new(config, Box::new(Linux::new(Reno::new(EcnUse::Classic), &setup)));
        sender.writes.write(None);
        let mut receiver = Receiver::new(ReceiverConfig { every: 1, ..ReceiverConfig::default() });
        let mut flying: Vec<Data> = Vec::new();
        let mut answers = Vec::new();
        for round in 0..rounds {
            let now = Time::ZERO + Duration::from_millis(10) * round;
            let mut sent = Vec::new();
            sent.extend(std::iter::from_fn(|| sender.poll(now)));
            for data in std::mem::take(&mut flying) {
                let marked = marked(data.sequence);
                let handle = data.pack();
                let packet = Arriving { handle, segments: 1, payload: 1000, size: 1000, marked, sent: now };
                assert!(receiver.receive(now, packet));
                sender.acknowledge(now, &receiver.acknowledge(now));
                sent.extend(std::iter::from_fn(|| sender.poll(now)));
            }
            flying.extend(sent.iter().map(|packet| packet.data));
            answers.push(flying.iter().filter(|data| data.reduced).map(|data| data.sequence).collect());
        }
        answers
    }

    #[test]
    fn a_window_of_echoes_is_answered_once() {
        // All ten acknowledgements of the first window echo its one mark.
        assert_eq!(answers(4, |sequence| sequence == 0), [vec![], vec![10], vec![], vec![]]);
    }

    #[test]
    fn a_mark_after_the_answer_is_echoed_and_answered_in_its_turn() {
        let late = answers(4, |sequence| sequence == 0 || sequence == 12);
        assert_eq!(late.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 1, 0], "{late:?}");
    }
}
