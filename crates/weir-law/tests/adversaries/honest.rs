//! A flow that answers to congestion, and tables under the laws that it meets.

use std::collections::VecDeque;

use weir_core::{Duration, QueueChoice, Time};
use weir_law::live::{LiveConfig, LiveTable, open_seed};
use weir_law::{Params, ParsedPacket, Preset, Signal};

use weir_testkit::traffic::attacks::{FORWARD, REVERSE};
use weir_testkit::traffic::{Carrier, Peer, SEGMENT, send};

/// Of all flows here.
pub(crate) const RTT: Duration = Duration::from_millis(50);

/// A table under the law that `weir up` has.
pub(crate) fn live(flows: u32) -> LiveTable {
    live_under(Params::preset(Preset::Robust), flows)
}

pub(crate) fn live_under(params: Params, flows: u32) -> LiveTable {
    LiveTable::new(params, &LiveConfig { seed: open_seed(7), ..LiveConfig::new(&params, flows) })
}

/// The published rule without any defence, and both presets that have some.
pub(crate) fn laws() -> [(&'static str, Params); 3] {
    let paper = Params::preset(Preset::Paper);
    let published = Params { plausible_sequence: false, lapse_round_trips: 0, ..paper };
    [
        ("published rule", published),
        ("preset paper", paper),
        ("preset robust", Params::preset(Preset::Robust)),
    ]
}

/// What happened to an honest flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) cycles: usize,
    pub(crate) packets: usize,
    pub(crate) responsive: usize,
}

impl Told {
    pub(crate) fn share(&self) -> f64 {
        self.responsive as f64 / self.packets as f64
    }
}

/// An honest flow: a saw-tooth that loses a packet every sixth round trip and halves then. Packets are spread over
/// the round trip, every second is acknowledged: TCP's acknowledgements come by 9/10 of a round trip after their
/// data, QUIC's spin bits half of one. `attack` comes before each packet.
pub(crate) fn honest(
    live: &mut LiveTable,
    one: &mut Peer,
    mut now: Time,
    rounds: u32,
    attack: &mut dyn FnMut(&mut LiveTable, &Peer, u32, Time),
) -> (Told, Time) {
    let mut told = Told::default();
    let behind = RTT.as_nanos() * if one.carrier == Carrier::Tcp { 9 } else { 5 } / 10;
    let mut answers: VecDeque<(Time, ParsedPacket)> = VecDeque::new();
    for round in 0..rounds {
        one.spin = !one.spin;
        let step = round % 6;
        let window = 12 + 2 * step;
        for packet in 0..window {
            while answers.front().is_some_and(|(due, _)| *due <= now) {
                let (_, answer) = answers.pop_front().unwrap();
                send(live, &answer, REVERSE, now);
            }
            attack(live, one, round, now);
            let data = one.data(SEGMENT);
            let found = send(live, &data, FORWARD, now);
            if step == 5 && packet == 3 {
                live.signal(&data, found.cycle, Signal::Loss, 1);
            }
            told.packets += 1;
            told.responsive += usize::from(found.choice == QueueChoice::Responsive);
            told.cycles += usize::from(found.ended.is_some());
            if packet % 2 == 0 {
                answers.push_back((now + Duration::from_nanos(behind), one.answer()));
            }
            now += Duration::from_nanos(RTT.as_nanos() / u64::from(window));
        }
    }
    for (_, answer) in answers {
        send(live, &answer, REVERSE, now);
    }
    send(live, &one.answer(), REVERSE, now);
    (told, now)
}

pub(crate) fn nobody(_: &mut LiveTable, _: &Peer, _: u32, _: Time) {}
