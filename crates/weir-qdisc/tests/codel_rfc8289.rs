//! CoDel as RFC 8289 has it beside CoDel as the kernel has it. The reference here is written from the RFC's rules
//! (section 4 and the pseudocode of section 5) with four switches, each of which turns one rule into the kernel's. With
//! all four it must decide exactly as `Codel` does; with none it is the RFC; one at a time shows what each costs.

mod support;

use std::collections::VecDeque;
use std::fmt::Write;

use support::{Arrival, drive, patterns};
use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, EventSink, Packet, QueueId, Rate, Time,
};
use weir_qdisc::{Codel, CodelConfig, Qdisc};

/// Which rules are the kernel's rather than the RFC's.
#[derive(Clone, Copy, Default)]
struct Rules {
    /// Times in units of 1024 ns, truncated.
    ticks: bool,
    /// Drops begin strictly after the first interval above target.
    strict: bool,
    /// The backlog that is always allowed is the MTU, not the largest packet seen.
    mtu: bool,
    /// The root is found by one Newton step a drop, in 16 bits.
    newton: bool,
}

const RFC: Rules = Rules { ticks: false, strict: false, mtu: false, newton: false };
const KERNEL: Rules = Rules { ticks: true, strict: true, mtu: true, newton: true };

struct Reference {
    rules: Rules,
    queue: VecDeque<Packet>,
    bytes: u64,
    largest: u64,
    count: u64,
    last_count: u64,
    first_above: Option<f64>,
    drop_next: f64,
    dropping: bool,
    root: f64,
}

impl Reference {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            queue: VecDeque::new(),
            bytes: 0,
            largest: 0,
            count: 0,
            last_count: 0,
            first_above: None,
            drop_next: 0.0,
            dropping: false,
            root: 0.0,
        }
    }

    fn clock(&self, nanos: u64) -> f64 {
        if self.rules.ticks { (nanos / 1024) as f64 } else { nanos as f64 }
    }

    fn interval(&self) -> f64 {
        self.clock(100_000_000)
    }

    fn next_root(&mut self) {
        // r/2 (3 - n r^2) with the intermediate results cut as 32-bit fractions are.
        const ONE: f64 = 4_294_967_296.0;
        let square = (self.root * self.root * ONE).floor() / ONE;
        let quarter = ((3.0 - self.count as f64 * square) * ONE / 4.0).floor();
        self.root = (quarter * self.root * 2.0 / 65536.0).floor() / 65536.0;
    }

    fn control_law(&self, from: f64) -> f64 {
        let step = match self.rules.newton {
            true => self.interval() * self.root,
            false => self.interval() / (self.count as f64).sqrt(),
        };
        from + if self.rules.ticks { step.floor() } else { step }
    }

    /// The next packet, and whether it may be dropped.
    fn take(&mut self, now: f64) -> (Option<Packet>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        self.bytes -= u64::from(packet.wire_bytes);
        let sojourn = now - self.clock(packet.arrived.as_nanos());
        let allowed = if self.rules.mtu { 1514 } else { self.largest };
        if sojourn < self.clock(5_000_000) || self.bytes <= allowed {
            self.first_above = None;
            return (Some(packet), false);
        }
        let since = *self.first_above.get_or_insert(now + self.interval());
        (Some(packet), if self.rules.strict { now > since } else { now >= since })
    }

    fn report(&self, kind: EventKind, packet: Packet, time: Time, events: &mut dyn EventSink) {
        let sojourn = time.since(packet.arrived);
        events.event(&Event { time, kind, packet, queue: QueueId(0), sojourn, backlog: self.backlog() });
    }
}

impl Qdisc for Reference {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        if self.queue.len() == 1000 {
            return self.report(EventKind::Drop(DropReason::Overflow), packet, now, events);
        }
        self.largest = self.largest.max(packet.wire_bytes.into());
        self.bytes += u64::from(packet.wire_bytes);
        self.queue.push_back(packet);
        self.report(EventKind::Enqueue, packet, now, events);
    }

    fn dequeue(&mut self, time: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let now = self.clock(time.as_nanos());
        let dropped = EventKind::Drop(DropReason::Aqm);
        let (mut head, mut ok_to_drop) = self.take(now);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.report(dropped, head?, time, events);
                self.count += 1;
                if self.rules.newton {
                    self.next_root();
                }
                (head, self.dropping) = self.take(now);
                if self.dropping {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if ok_to_drop {
            self.report(dropped, head?, time, events);
            (head, ok_to_drop) = self.take(now);
            let _ = ok_to_drop;
            self.dropping = true;
            let delta = self.count - self.last_count;
            if delta > 1 && now - self.drop_next < 16.0 * self.interval() {
                self.count = delta;
                self.next_root();
            } else {
                self.count = 1;
                self.root = 65535.0 / 65536.0;
            }
            self.last_count = self.count;
            self.drop_next = self.control_law(now);
        }
        let packet = head?;
        self.report(EventKind::Dequeue, packet, time, events);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u32, bytes: self.bytes }
    }
}

struct Outcome {
    /// Packet and time of every drop by the control law.
    drops: Vec<(u64, Time)>,
    mean_sojourn: Duration,
}

fn outcome(queue: &mut dyn Qdisc, rate: Rate, arrivals: &[Arrival]) -> Outcome {
    let (events, _) = drive(queue, rate, arrivals, true);
    let tally = support::Tally::of(&events);
    let drops = events.iter().filter(|event| event.kind == EventKind::Drop(DropReason::Aqm));
    Outcome {
        drops: drops.map(|event| (event.packet.id, event.time)).collect(),
        mean_sojourn: Duration::from_nanos(tally.sojourn.mean().unwrap() as u64),
    }
}

#[test]
fn with_all_rules_of_the_kernel_the_reference_is_the_kernel() {
    for (name, rate, arrivals) in patterns(Ecn::NotEct) {
        let kernel = outcome(&mut Codel::new(CodelConfig::default()), rate, &arrivals);
        let reference = outcome(&mut Reference::new(KERNEL), rate, &arrivals);
        // Only in the last pattern, whose backlog stays below an MTU, is there nothing to compare.
        assert_eq!(kernel.drops.len() > 100, name != "standing 1 mbit", "{name}");
        assert_eq!(kernel.drops, reference.drops, "{name}");
        assert_eq!(kernel.mean_sojourn, reference.mean_sojourn, "{name}");
    }
}

#[test]
fn what_each_difference_costs() {
    let mut table =
        String::from("pattern            rules                   drops mean_sojourn_us first_other_drop\n");
    for (name, rate, arrivals) in patterns(Ecn::NotEct) {
        let rfc = outcome(&mut Reference::new(RFC), rate, &arrivals);
        for (rules, changed) in [
            ("RFC 8289", RFC),
            ("+ 1024 ns ticks", Rules { ticks: true, ..RFC }),
            ("+ strictly after", Rules { strict: true, ..RFC }),
            ("+ backlog of an MTU", Rules { mtu: true, ..RFC }),
            ("+ Newton step", Rules { newton: true, ..RFC }),
            ("kernel: all four", KERNEL),
        ] {
            let ours = outcome(&mut Reference::new(changed), rate, &arrivals);
            let differs = ours.drops.iter().zip(&rfc.drops).position(|(ours, theirs)| ours.0 != theirs.0);
            let first = match differs {
                Some(index) => {
                    let at = ours.drops[index].1.min(rfc.drops[index].1);
                    format!("no. {} at {:.3} s", index + 1, at.as_secs_f64())
                }
                None if ours.drops.len() == rfc.drops.len() => "none".to_owned(),
                None => format!("no. {}", ours.drops.len().min(rfc.drops.len()) + 1),
            };
            let (drops, mean) = (ours.drops.len(), ours.mean_sojourn.as_nanos() / 1000);
            writeln!(table, "{name:18} {rules:22} {drops:6} {mean:15} {first}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
