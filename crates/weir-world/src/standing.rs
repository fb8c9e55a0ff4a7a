//! How a flow stands with the law over time: what the queue is chosen by, since when, and when it got its first
//! signals.

use weir_core::{Duration, Event, EventKind, QueueChoice, Time};
use weir_law::{Class, FlowView, MainSignal, Params, Verdict};
use weir_report::result::Standing;

/// What a verdict is made of that chooses the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule {
    main: MainSignal,
    loss_without_ecn: bool,
}

impl Rule {
    pub(crate) fn new(params: &Params) -> Self {
        Self { main: params.main_signal, loss_without_ecn: params.loss_without_ecn }
    }

    /// By the main signal alone.
    pub(crate) fn by_main(self, class: Class) -> Verdict {
        match self.main {
            MainSignal::Loss => class.loss,
            MainSignal::Ecn => class.ecn,
            // An answer to either earns a better queue.
            MainSignal::Both => [Verdict::Responsive, Verdict::Unresponsive]
                .into_iter()
                .find(|verdict| [class.loss, class.ecn].contains(verdict))
                .unwrap_or(Verdict::Unclassified),
        }
    }

    /// As the queue is chosen, of a flow that has sent ECN-capable packets or not.
    fn of(self, class: Class, is_capable: bool) -> Verdict {
        let by_loss = self.main == MainSignal::Ecn
            && self.loss_without_ecn
            && class.ecn == Verdict::Unclassified
            && !is_capable;
        if by_loss { class.loss } else { self.by_main(class) }
    }
}

/// A flow's standing so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stands {
    verdict: Verdict,
    since: Time,
    /// How long it has stood as responsive and as unresponsive.
    times: [Duration; 2],
    first: [Option<Time>; 2],
    /// Its first loss and its first mark.
    signals: [Option<Time>; 2],
    is_capable: bool,
    segments: u64,
    bytes: u64,
    last: Time,
}

/// Of those that mean something.
const fn place(verdict: Verdict) -> Option<usize> {
    match verdict {
        Verdict::Unclassified => None,
        Verdict::Responsive => Some(0),
        Verdict::Unresponsive => Some(1),
    }
}

impl Stands {
    /// An event of one of its packets at the queue that judges it.
    pub(crate) fn event(&mut self, event: &Event) {
        let packet = &event.packet;
        match event.kind {
            EventKind::Enqueue => {}
            EventKind::Drop(reason) => {
                self.signals[0].get_or_insert(event.time);
                if !reason.on_arrival() {
                    return;
                }
            }
            EventKind::Mark(_) => {
                self.signals[1].get_or_insert(event.time);
                return;
            }
            EventKind::Dequeue => return,
        }
        self.is_capable |= packet.ecn_in.is_capable();
        self.segments += u64::from(packet.segments);
        self.bytes += u64::from(packet.wire_bytes);
        self.last = event.time;
    }

    /// The law finds it to be of this class from now on.
    pub(crate) fn is_found(&mut self, rule: Rule, class: Class, now: Time) {
        self.stands(rule.of(class, self.is_capable), now);
    }

    /// The law is looked at: a verdict that ends without a vote is seen by that alone.
    pub(crate) fn is_seen(&mut self, rule: Rule, view: &FlowView, now: Time) {
        match view.choice {
            QueueChoice::Standard => self.is_found(rule, view.class, now),
            QueueChoice::Responsive | QueueChoice::EcnResponsive => self.stands(Verdict::Responsive, now),
        }
    }

    fn stands(&mut self, verdict: Verdict, now: Time) {
        if verdict == self.verdict {
            return;
        }
        if let Some(place) = place(self.verdict) {
            self.times[place] = self.times[place] + now.since(self.since);
        }
        if let Some(place) = place(verdict) {
            self.first[place].get_or_insert(now);
        }
        (self.verdict, self.since) = (verdict, now);
    }

    /// At the end.
    pub(crate) fn result(&self) -> Standing {
        let mut times = self.times;
        if let Some(place) = place(self.verdict) {
            times[place] = times[place] + self.last.since(self.since);
        }
        let seconds = |time: Option<Time>| time.map(Time::as_secs_f64);
        Standing {
            verdict: self.verdict.name().to_owned(),
            ecn_capable: self.is_capable,
            segments: self.segments,
            arrived_bytes: self.bytes,
            first_loss_s: seconds(self.signals[0]),
            first_mark_s: seconds(self.signals[1]),
            first_responsive_s: seconds(self.first[0]),
            first_unresponsive_s: seconds(self.first[1]),
            responsive_s: times[0].as_secs_f64(),
            unresponsive_s: times[1].as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Time};
    use weir_law::{Class, MainSignal, Verdict};

    use super::{Rule, Stands};

    #[test]
    fn times_of_each_verdict_add_up_and_firsts_stay() {
        let rule = Rule { main: MainSignal::Ecn, loss_without_ecn: true };
        let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
        let class = |loss, ecn| Class { loss, ecn };
        let mut stands = Stands::default();
        stands.is_found(rule, class(Verdict::Responsive, Verdict::Unclassified), at(100));
        stands.is_found(rule, class(Verdict::Responsive, Verdict::Unresponsive), at(150));
        stands.is_found(rule, class(Verdict::Unresponsive, Verdict::Responsive), at(250));
        stands.last = at(1_000);
        let result = stands.result();
        assert_eq!((result.verdict.as_str(), result.first_responsive_s), ("responsive", Some(0.1)));
        assert_eq!((result.first_unresponsive_s, result.unresponsive_s), (Some(0.15), 0.1));
        assert!((result.responsive_s - 0.8).abs() < 1e-9, "{result:?}");
    }

    #[test]
    fn losses_choose_for_who_is_not_capable_and_for_nobody_else() {
        let class = Class { loss: Verdict::Responsive, ecn: Verdict::Unclassified };
        for (loss_without_ecn, is_capable, verdict) in [
            (true, false, Verdict::Responsive),
            (true, true, Verdict::Unclassified),
            (false, false, Verdict::Unclassified),
        ] {
            let rule = Rule { main: MainSignal::Ecn, loss_without_ecn };
            assert_eq!(rule.of(class, is_capable), verdict);
        }
    }
}
