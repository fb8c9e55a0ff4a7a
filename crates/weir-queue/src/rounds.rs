//! Deficit round robin with a head start for new flows (DRR++, RFC 8290 sections 4.1 and 4.2; the flow lists of
//! `net/sched/sch_fq_codel.c` and `sch_fq_pie.c`): whose turn it is, without the queues.
//!
//! A flow that had nothing queued joins the end of the list of new flows with a deficit of one quantum. New flows go
//! before old ones. A flow whose deficit is used up gets another quantum and goes to the end of the old flows, so a
//! flow that sends less than a quantum in a round never waits behind the backlog of others.

use crate::links::{Links, List};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    None,
    New,
    Old,
}

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Wire bytes that the flow may still send in this round. Ends a turn at most a packet below zero.
    deficit: i64,
    place: Place,
}

/// Flows that take turns.
#[derive(Clone, Debug)]
pub struct Rounds {
    turns: Vec<Turn>,
    links: Links,
    new: List,
    old: List,
    quantum: i64,
}

impl Rounds {
    /// Of flows `0..flows`, each with `quantum` wire bytes a round, at least one.
    pub fn new(flows: usize, quantum: u32) -> Self {
        Self {
            turns: vec![Turn::default(); flows],
            links: Links::new(flows),
            new: List::default(),
            old: List::default(),
            quantum: i64::from(quantum.max(1)),
        }
    }

    /// A packet of `flow` was queued. Says whether the flow is new.
    pub fn arrived(&mut self, flow: usize) -> bool {
        let turn = &mut self.turns[flow];
        let new = turn.place == Place::None;
        if new {
            *turn = Turn { deficit: self.quantum, place: Place::New };
            self.links.append(&mut self.new, flow);
        }
        new
    }

    /// The flow that sends next, if it has a packet.
    // Not an iterator: a flow stays next until it is said what became of its turn.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<usize> {
        loop {
            let flow = self.new.first().or(self.old.first())?;
            if self.turns[flow].deficit > 0 {
                return Some(flow);
            }
            self.turns[flow].deficit += self.quantum;
            self.move_to_old(flow);
        }
    }

    /// [`next`](Self::next)'s flow sent `bytes`.
    pub fn sent(&mut self, flow: usize, bytes: u32) {
        self.turns[flow].deficit -= i64::from(bytes);
    }

    /// [`next`](Self::next)'s flow had nothing to send. A new flow passes through the old flows once before it can be
    /// new again, so that a stream of short flows does not starve the old.
    pub fn found_empty(&mut self, flow: usize) {
        if self.turns[flow].place == Place::New && !self.old.is_empty() {
            self.move_to_old(flow);
        } else {
            self.unlink(flow);
        }
    }

    fn unlink(&mut self, flow: usize) {
        match std::mem::take(&mut self.turns[flow].place) {
            Place::New => self.links.remove(&mut self.new, flow),
            Place::Old => self.links.remove(&mut self.old, flow),
            Place::None => {}
        }
    }

    fn move_to_old(&mut self, flow: usize) {
        self.unlink(flow);
        self.links.append(&mut self.old, flow);
        self.turns[flow].place = Place::Old;
    }
}

#[cfg(test)]
mod tests {
    use super::Rounds;

    #[test]
    fn a_turn_ends_when_the_deficit_is_used_up_and_the_debt_stays() {
        let mut rounds = Rounds::new(2, 300);
        assert!(rounds.arrived(0) && rounds.arrived(1) && !rounds.arrived(0));
        // 300 allows 100 + 250 for flow 0, which is 50 in debt; flow 1 sends 300 and is at zero.
        let sizes = [100u32, 250, 300, 240, 20, 300, 290];
        let order: Vec<_> = sizes
            .into_iter()
            .map(|bytes| {
                let flow = rounds.next().unwrap();
                rounds.sent(flow, bytes);
                flow
            })
            .collect();
        // Second round: flow 0 has 250, of which 240 leave it 10 for another packet.
        assert_eq!(order, [0, 0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn new_flows_go_first_but_pass_through_the_old_before_they_are_new_again() {
        let mut rounds = Rounds::new(3, 100);
        rounds.arrived(0);
        let bulk = rounds.next().unwrap();
        rounds.sent(bulk, 100);
        // The bulk flow is old by now; a sparse flow goes first.
        rounds.arrived(1);
        assert_eq!(rounds.next(), Some(1));
        rounds.sent(1, 50);
        assert_eq!(rounds.next(), Some(1));
        rounds.found_empty(1);
        // It arrives again while it is among the old flows: no head start this time.
        assert!(!rounds.arrived(1));
        assert_eq!(rounds.next(), Some(0));
        rounds.sent(0, 100);
        assert_eq!(rounds.next(), Some(1));
        rounds.found_empty(1);
        assert_eq!(rounds.next(), Some(0));
        rounds.found_empty(0);
        assert_eq!(rounds.next(), None);
        assert!(rounds.arrived(1));
    }
}
