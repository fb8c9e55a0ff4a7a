//! A day of flows that come and go, in virtual time: the table neither fills up nor wears off.

use weir_core::{Duration, QueueChoice, Random, Seed, Time};
use weir_law::live::{Count, LiveConfig, LiveTable, open_seed};
use weir_law::{Direction, Params, Signal};

use weir_testkit::traffic::{ACK, Carrier, FIN, Peer, SEGMENT, SYN, end, send, tcp};

const HOURS: u64 = 24;
const HOUR: u64 = 3600;
const FLOWS_PER_SECOND: u64 = 2;
/// The table's clock wraps at 2^52 ns, half way through the day.
const START: Time = Time::from_nanos((1 << 52) - HOURS / 2 * HOUR * 1_000_000_000);

/// A sender with a window: one more segment per round trip, half as many after a signal if it is responsive.
struct Sender {
    peer: Peer,
    responsive: bool,
    window: u32,
    rounds: u64,
    /// FIN at the end, or silence.
    says_goodbye: bool,
}

impl Sender {
    fn kind(&self) -> usize {
        usize::from(self.peer.carrier == Carrier::Quic) * 2 + usize::from(self.responsive)
    }

    fn draw(random: &mut Random) -> Self {
        let v6 = random.below(2) == 0;
        // Few enough ends that the day uses most pairs again.
        let from = end(v6, random.below(100) as u32, 443);
        let to = end(v6, 1000 + random.below(100) as u32, 50_000 + random.below(10) as u16);
        let carrier = if random.below(2) == 0 { Carrier::Tcp } else { Carrier::Quic };
        let mut peer = Peer::new(carrier, from, to);
        (peer.seq, peer.ack) = (random.next_u64() as u32, random.next_u64() as u32);
        Self {
            peer,
            responsive: random.below(2) == 0,
            window: 20 + random.below(30) as u32,
            rounds: 4 + random.below(12),
            says_goodbye: random.below(2) == 0,
        }
    }
}

#[derive(Default)]
struct Given {
    forward: u64,
    reverse: u64,
    losses: u64,
    marks: u64,
}

/// One round trip, in a few super-packets. A signal comes with a probability of 0.3.
fn round_trip(
    sender: &mut Sender,
    table: &mut LiveTable,
    random: &mut Random,
    now: Time,
    given: &mut Given,
) -> QueueChoice {
    sender.peer.spin = !sender.peer.spin;
    let signal = (sender.window >= 8 && random.below(10) < 3)
        .then(|| if random.below(4) == 0 { Signal::Mark } else { Signal::Loss });
    let mut left = sender.window;
    let mut choice = QueueChoice::Standard;
    let mut first = true;
    while left > 0 {
        let segments = left.min(20);
        left -= segments;
        let packet = sender.peer.data(segments * SEGMENT);
        let found = send(table, &packet, Direction::Forward, now);
        given.forward += 1;
        choice = found.choice;
        if let (true, Some(signal)) = (first, signal) {
            table.signal(&packet, found.cycle, signal, 1);
            *(if signal == Signal::Loss { &mut given.losses } else { &mut given.marks }) += 1;
        }
        first = false;
    }
    send(table, &sender.peer.answer(), Direction::Reverse, now + Duration::from_millis(100));
    given.reverse += 1;
    sender.window = if signal.is_some() && sender.responsive {
        sender.window / 2
    } else {
        sender.window + u32::from(sender.responsive)
    };
    choice
}

/// Flows of each kind that ended in an hour, and how many of them were responsive at their end.
type Hour = [(u32, u32); 4];

#[test]
fn a_day_of_flows_leaves_the_table_as_it_was() {
    let params = Params::default();
    let config = LiveConfig { seed: open_seed(5), ..LiveConfig::new(&params, 512) };
    let mut table = LiveTable::new(params, &config);
    let memory = table.bytes();
    let mut random = Seed { seed: 24, run: 0 }.stream("churn");
    let mut senders: Vec<Sender> = Vec::new();
    let mut given = Given::default();
    let mut hours = vec![Hour::default(); HOURS as usize];
    let mut most = 0;
    for second in 0..HOURS * HOUR {
        let begin = START + Duration::from_secs(second);
        for _ in 0..FLOWS_PER_SECOND {
            let mut sender = Sender::draw(&mut random);
            if sender.peer.carrier == Carrier::Tcp {
                let (isn, back) = (sender.peer.seq.wrapping_sub(1), sender.peer.ack.wrapping_sub(1));
                send(
                    &mut table,
                    &tcp(sender.peer.to, sender.peer.from, (back, 0), SYN, 0),
                    Direction::Reverse,
                    begin,
                );
                let answer = tcp(sender.peer.from, sender.peer.to, (isn, sender.peer.ack), SYN | ACK, 0);
                send(&mut table, &answer, Direction::Forward, begin);
                given.forward += 1;
                given.reverse += 1;
            }
            sender.rounds += 1;
            senders.push(sender);
        }
        let hour = &mut hours[(second / HOUR) as usize];
        let mut index = 0;
        while index < senders.len() {
            let sender = &mut senders[index];
            let now = begin + Duration::from_millis(random.below(800));
            let choice = round_trip(sender, &mut table, &mut random, now, &mut given);
            sender.rounds -= 1;
            if sender.rounds > 0 {
                index += 1;
                continue;
            }
            let sender = senders.swap_remove(index);
            let (ended, responsive) = &mut hour[sender.kind()];
            *ended += 1;
            *responsive += u32::from(choice == QueueChoice::Responsive);
            if sender.says_goodbye && sender.peer.carrier == Carrier::Tcp {
                let numbers = (sender.peer.seq, sender.peer.ack);
                let fin = tcp(sender.peer.from, sender.peer.to, numbers, FIN | ACK, 0);
                send(&mut table, &fin, Direction::Forward, now + Duration::from_millis(150));
                given.forward += 1;
            }
        }
        if second % 60 == 0 {
            most = most.max(table.len());
            assert!(table.filter_is_exact(), "after {second} s");
        }
    }

    let counters = table.counters();
    println!("{} packets, at most {most} entries, {counters:?}", given.forward + given.reverse);
    println!("first hour {:?}\nlast hour  {:?}", hours[0], hours[23]);
    assert!(most <= table.capacity() && table.bytes() == memory);
    assert!(most > table.capacity() / 2, "the day was too easy: {most}");

    // What was counted is what happened.
    assert_eq!(counters.admitted - counters.evicted, table.len() as u64);
    assert_eq!(counters.tcp.packets + counters.quic.packets, given.forward + given.reverse);
    assert_eq!(counters.to_standard.packets + counters.to_responsive.packets, given.forward);
    assert_eq!((counters.loss_packets, counters.mark_packets), (given.losses, given.marks));
    assert_eq!((counters.loss_segments, counters.mark_segments), (given.losses, given.marks));
    assert!(counters.evicted > 10_000 && counters.switched > 10_000);
    assert!(counters.reopened > 50 && counters.expired > 50, "four-tuples came again: {counters:?}");
    let strange = [
        counters.truncated,
        counters.malformed,
        counters.other,
        counters.udp,
        counters.not_ip,
        counters.fragment,
    ];
    assert_eq!((strange, counters.contended), ([Count::default(); 6], 0));

    // The last hour is as the first. Each has some 1800 flows of a kind: at a share of a half the difference of two
    // such hours has a standard deviation of 1.7 percentage points.
    let share = |(ended, responsive): (u32, u32)| f64::from(responsive) / f64::from(ended);
    for (first, last) in hours[0].into_iter().zip(hours[23]) {
        assert!(first.0 > 1500 && last.0 > 1500);
        assert!((share(first) - share(last)).abs() < 0.06, "{first:?} {last:?}");
    }
    // And it distinguishes the kinds: a verdict is there for most that are responsive, and wrong for none that are not.
    for hour in &hours {
        for (kind, told) in hour.iter().enumerate() {
            let responsive = kind % 2 == 1;
            assert!(if responsive { share(*told) > 0.55 } else { share(*told) < 0.02 }, "{kind} {told:?}");
        }
    }

    // Nothing stays.
    let end = START + Duration::from_secs(HOURS * HOUR + 302);
    assert_eq!(table.reclaimable(end), table.len());
}
