//! The flow table of a live link under a sequence of packets, signals, pauses and changes of the law that the input
//! spells out ([`input`]). Each packet is read and run both ways, the fast and the whole; after each step everything
//! holds that must.

mod check;
mod input;
mod packets;

use weir_core::{CycleId, Duration, QueueChoice, Time};
use weir_law::live::{LiveConfig, LiveTable};
use weir_law::{Direction, Signal, Start, UNBOOKED};

use crate::frame;
use check::Checks;
use input::{Header, Step};
use packets::Peers;

pub(crate) fn run(input: &[u8]) {
    let Some((header, steps)) = Header::read(input) else { return };
    let mut link = Link::new(&header);
    for step in steps {
        link.step(&step);
    }
    link.checks.end(&link.table);
}

/// A table and those who send through it.
struct Link {
    table: LiveTable,
    peers: Peers,
    checks: Checks,
    now: Time,
}

impl Link {
    fn new(header: &Header) -> Self {
        let params = header.params;
        let times = [header.idle_tcp, header.idle_udp, header.linger, header.candidate, header.answered];
        let [idle_tcp, idle_udp, linger, candidate_idle, candidate_reverse_idle] = times;
        let config = LiveConfig {
            admit_reverse: header.admit_reverse,
            admit_bytes: header.admit_bytes,
            idle_tcp,
            idle_udp,
            linger,
            candidate_idle,
            candidate_reverse_idle,
            ..LiveConfig::new(&params, header.flows)
        };
        let table = LiveTable::new(params, &config);
        let checks = Checks::new(&table);
        Self { table, peers: Peers::default(), checks, now: header.start }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Tcp(tcp) => {
                let (frame, wire) = self.peers.tcp(&tcp);
                self.packet(tcp.flow, &frame, wire, tcp.direction);
            }
            Step::Udp(udp) => {
                let (frame, wire) = self.peers.udp(&udp);
                self.packet(udp.flow, &frame, wire, udp.direction);
            }
            Step::Spoil { flow, direction, at, with } => {
                let (mut frame, wire) = self.peers.last(flow);
                if let Some(octet) = frame.get_mut(usize::from(at)) {
                    *octet = with;
                }
                self.packet(flow, &frame, wire, direction);
            }
            Step::Signal { flow, signal, back, segments } => self.signal(flow, signal, back, segments),
            Step::Wait(time) => self.now += time,
            // Processors read their clock before they take a bucket.
            Step::Back(time) => {
                self.now = Time::from_nanos(self.now.as_nanos().saturating_sub(time.as_nanos()))
            }
            Step::Law(params) => {
                let config_fits = params.key_has_protocol == self.table.params().key_has_protocol;
                // Keys of another kind would be other flows; `weir reload` makes a new table for them.
                if config_fits {
                    self.table.change_law(params);
                    self.checks.forget_cycles();
                }
            }
            Step::Crowd { count, from } => {
                for number in 0..u32::from(count) {
                    for (frame, wire, direction) in packets::newcomer(u32::from(from) + number) {
                        self.run(&frame, wire, direction);
                    }
                }
                self.checks.stepped(&self.table);
            }
        }
    }

    fn packet(&mut self, flow: u8, frame: &[u8], wire: u32, direction: Direction) {
        self.peers.remember(flow, frame, wire);
        let cycle = self.run(frame, wire, direction);
        if direction == Direction::Forward {
            self.peers.stamp(flow, cycle);
        }
        self.checks.stepped(&self.table);
    }

    /// Runs a packet; the cycle that it is stamped with.
    fn run(&mut self, frame: &[u8], wire: u32, direction: Direction) -> CycleId {
        let packet = frame::check(frame, wire, Start::Ip);
        self.checks.arrives(wire, direction);
        let (found, _) = match self.table.arrival_both_ways(&packet, wire, direction, self.now) {
            Ok(found) => found,
            Err(broken) => panic!("{broken}: {packet:?}"),
        };
        if direction == Direction::Forward {
            assert!(
                found.known || found.choice == QueueChoice::Standard,
                "a flow without an entry is standard"
            );
            assert!(found.known || found.cycle == CycleId(0), "a stamp without an entry");
        }
        if found.known {
            let flow = self.table.flow_of(&packet).expect("a flow that is known can be found");
            let unbooked = flow.cycle.0.wrapping_sub(UNBOOKED);
            assert!(
                direction == Direction::Reverse || flow.cycle == found.cycle || unbooked == found.cycle.0,
                "the stamp is the flow's cycle, or says that nothing bears the packet out"
            );
            self.checks.flow(&flow);
        }
        found.cycle
    }

    fn signal(&mut self, flow: u8, signal: Signal, back: u32, segments: u16) {
        let (frame, wire) = self.peers.last(flow);
        let packet = frame::check(&frame, wire, Start::Ip);
        let cycle = CycleId(self.peers.stamped(flow).0.wrapping_sub(back));
        self.checks.signals(signal, segments);
        self.table.signal(&packet, cycle, signal, segments);
        self.checks.stepped(&self.table);
    }
}

/// Table time is in steps of about a millisecond.
const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
