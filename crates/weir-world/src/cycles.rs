//! Keeps every cycle of every flow with the signals that its packets got, for those who look for a law. A packet can
//! wait in the queue for longer than its cycle, so a cycle is held back until two more have ended, as the law itself
//! does.

use std::collections::VecDeque;

use weir_core::{Ecn, Event, EventKind, FlowId};
use weir_law::CycleEnd;
use weir_report::result::CycleRow;

/// How many cycles behind the current one still take signals.
const HELD: u32 = 2;

/// All cycles so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cycles {
    flows: Vec<Held>,
    rows: Vec<CycleRow>,
}

/// A flow's cycles that are not final.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Losses and marks by cycle, the oldest first. The last are of cycles that have not ended.
    signals: VecDeque<(u32, [u32; 2])>,
    ended: VecDeque<(u32, CycleRow)>,
}

impl Held {
    fn at(&mut self, cycle: u32) -> &mut [u32; 2] {
        let place = self.signals.partition_point(|(known, _)| *known < cycle);
        if self.signals.get(place).is_none_or(|(known, _)| *known != cycle) {
            self.signals.insert(place, (cycle, [0; 2]));
        }
        &mut self.signals[place].1
    }

    /// Hands out those that are final once `cycle` has ended.
    fn let_go(&mut self, cycle: u32, rows: &mut Vec<CycleRow>) {
        while let Some((oldest, row)) = self.ended.front()
            && cycle.saturating_sub(*oldest) >= HELD
        {
            let [losses, marks] =
                *self.signals.iter().find(|(known, _)| known == oldest).map_or(&[0; 2], |(_, s)| s);
            rows.push(CycleRow { losses, marks, ..row.clone() });
            let oldest = *oldest;
            self.ended.pop_front();
            while self.signals.front().is_some_and(|(known, _)| *known <= oldest) {
                self.signals.pop_front();
            }
        }
    }
}

impl Cycles {
    fn held(&mut self, flow: FlowId) -> &mut Held {
        let index = flow.0 as usize;
        if index >= self.flows.len() {
            self.flows.resize(index + 1, Held::default());
        }
        &mut self.flows[index]
    }

    /// A signal, if the event is one.
    pub(crate) fn event(&mut self, event: &Event) {
        let packet = &event.packet;
        let place = match event.kind {
            EventKind::Drop(_) => 0,
            EventKind::Mark(_) if packet.ecn_in != Ecn::Ce => 1,
            EventKind::Mark(_) | EventKind::Enqueue | EventKind::Dequeue => return,
        };
        let held = self.held(packet.flow);
        let oldest = held.ended.front().map_or(packet.cycle.0, |(oldest, _)| *oldest);
        if packet.cycle.0 >= oldest {
            held.at(packet.cycle.0)[place] += u32::from(packet.segments);
        }
    }

    /// A cycle of the scenario's flow at `index` has ended.
    pub(crate) fn cycle(&mut self, end: &CycleEnd, index: usize) {
        let row = CycleRow {
            flow: index as u32,
            cycle: end.cycle.0,
            start_ns: end.time.as_nanos().saturating_sub(end.duration.as_nanos()),
            duration_ns: end.duration.as_nanos(),
            window_bytes: end.window.0,
            packets: end.packets,
            losses: 0,
            marks: 0,
            first: end.first,
        };
        let held = self.held(end.flow);
        held.ended.push_back((end.cycle.0, row));
        let mut final_rows = Vec::new();
        held.let_go(end.cycle.0, &mut final_rows);
        self.rows.append(&mut final_rows);
    }

    /// All of them; those that no two have followed as they stand.
    pub(crate) fn into_rows(mut self) -> Vec<CycleRow> {
        for held in &mut self.flows {
            held.let_go(u32::MAX, &mut self.rows);
        }
        self.rows.sort_by_key(|row| (row.flow, row.start_ns));
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{
        Backlog, Bytes, CycleId, DropReason, Duration, Event, EventKind, FlowId, MarkReason, Packet, QueueId,
        Time,
    };
    use weir_law::{CycleEnd, Judgement, SignalPair};

    use super::Cycles;

    #[test]
    fn signals_go_to_the_cycle_of_their_packet_up_to_two_later() {
        let mut cycles = Cycles::default();
        let signal = |cycles: &mut Cycles, cycle: u32, kind| {
            cycles.event(&Event {
                time: Time::ZERO,
                kind,
                packet: Packet { cycle: CycleId(cycle), ..Packet::new(1, FlowId(4), 1_000, Time::ZERO) },
                queue: QueueId(0),
                sojourn: Duration::ZERO,
                backlog: Backlog::default(),
            });
        };
        let end = |cycle: u32| CycleEnd {
            flow: FlowId(4),
            time: Time::from_nanos(u64::from(cycle + 1) * 1_000),
            cycle: CycleId(cycle),
            duration: Duration::from_nanos(900),
            window: Bytes(5_000),
            packets: 5,
            signals: SignalPair::default(),
            first: cycle == 0,
            judgement: Judgement::NoSignal,
        };
        let (drop, mark) = (EventKind::Drop(DropReason::Aqm), EventKind::Mark(MarkReason::Aqm));
        signal(&mut cycles, 0, drop);
        cycles.cycle(&end(0), 7);
        signal(&mut cycles, 0, drop);
        signal(&mut cycles, 1, mark);
        cycles.cycle(&end(1), 7);
        signal(&mut cycles, 0, mark);
        cycles.cycle(&end(2), 7);
        // Cycle 0 is final.
        signal(&mut cycles, 0, drop);
        signal(&mut cycles, 3, drop);
        cycles.cycle(&end(3), 7);
        signal(&mut cycles, 3, drop);
        let rows = cycles.into_rows();
        let seen: Vec<_> = rows.iter().map(|row| (row.cycle, row.losses, row.marks)).collect();
        assert_eq!(seen, [(0, 2, 1), (1, 0, 1), (2, 0, 0), (3, 2, 0)]);
        assert_eq!((rows[1].flow, rows[1].start_ns, rows[0].first), (7, 1_100, true));
    }
}
