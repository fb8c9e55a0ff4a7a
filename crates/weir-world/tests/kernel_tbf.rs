//! The kernel's `tbf` and ours: the same arrivals, the same departures.
//!
//! Datagrams cross a namespace that routes, with the kernel's `tbf` on its way out. Two packet sockets hear each packet
//! as it comes in and as it leaves, with the kernel's own time stamps. Our queue then gets the same packets at the same
//! moments, before a device that always has room, and must let the same ones leave, no later than the kernel did.
//!
//! Needs root and a kernel with `tbf`. The kernel's wake-ups are as late as the machine is, so bounds are wide on the
//! real clock and narrow where time is counted: in a guest of `weir vm run --clock counted`, as `tools/test-vm.sh` has
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;

use weir_core::{Duration, FlowId, Packet, Rate, Time};
use weir_netdev::iproute::Discipline;
use weir_qdisc::{Qdisc, Tbf, TbfConfig};
use weir_testbed::host::{Topology, TopologySpec};
use weir_testbed::interfaces;
use weir_testkit::skip::{root_and_turn, skip};

#[path = "kernel_tbf/stamps.rs"]
mod stamps;

use stamps::{Direction, Stamps};

/// The variable that says that the clock counts instructions.
const COUNTED: &str = "WEIR_COUNTED";
/// Where the datagrams go.
const PORT: u16 = 30_000;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;

/// A datagram: how long after the one before it is sent, in microseconds, and its bytes on the wire.
type Step = (u64, usize);

/// What came in, and what left: nanoseconds since the first arrival and wire bytes, by the datagram's number.
struct Passed {
    arrived: BTreeMap<u32, (u64, usize)>,
    left: BTreeMap<u32, u64>,
    /// What the kernel's own counters say: packets sent and dropped.
    counted: [u64; 2],
}

fn is_counted() -> bool {
    std::env::var_os(COUNTED).is_some()
}

/// Sends the datagrams through the kernel's `tbf`; none if it has none.
fn through_kernel(config: TbfConfig, steps: &[Step]) -> Option<Passed> {
    let topology = Topology::build_forwarding(&TopologySpec::default(), &[]).unwrap();
    let _offloads = interfaces::prepare(&topology).unwrap();
    let device = &topology.bottleneck_client_iface;
    let TbfConfig { rate, burst, limit, .. } = config;
    let rate = rate.bits_per_sec();
    let line = format!("qdisc add dev {device} root tbf rate {rate}bit burst {burst} limit {limit}");
    if let Err(error) = topology.bottleneck.tc(&[line]) {
        skip("tbf", &error.to_string());
        return None;
    }
    let listen = |device: &str, direction| {
        topology.bottleneck.enter(|| Stamps::start(device, direction, PORT)).unwrap()
    };
    let came = listen(&topology.bottleneck_server_iface, Direction::In);
    let went = listen(device, Direction::Out);
    let client = topology.client.enter(|| UdpSocket::bind((topology.client_addr(0), PORT)).unwrap()).unwrap();
    let server = topology.server.enter(|| UdpSocket::bind((topology.server_addr(0), PORT)).unwrap()).unwrap();
    server.connect(client.local_addr().unwrap()).unwrap();
    send(&server, steps);
    let held = config.limit as f64 * 8.0 / rate as f64;
    wait(std::time::Duration::from_secs_f64(held + 0.3));
    let disciplines = topology.bottleneck.disciplines(device).unwrap();
    let root = Discipline::root(&disciplines).unwrap();
    let counted = ["packets", "drops"].map(|name| root.number(name));
    let (came, went) = (came.finish(), went.finish());
    let first = came.iter().map(|stamp| stamp.nanos).min().expect("datagrams have arrived");
    let since = |nanos: u64| nanos.saturating_sub(first);
    Some(Passed {
        arrived: came.iter().map(|stamp| (stamp.number, (since(stamp.nanos), stamp.bytes))).collect(),
        left: went.iter().map(|stamp| (stamp.number, since(stamp.nanos))).collect(),
        counted,
    })
}

#[allow(clippy::disallowed_methods, reason = "real packets take real time")]
fn wait(how_long: std::time::Duration) {
    std::thread::sleep(how_long);
}

#[allow(clippy::disallowed_methods, reason = "real packets take real time")]
fn send(socket: &UdpSocket, steps: &[Step]) {
    let start = std::time::Instant::now();
    let mut at = std::time::Duration::ZERO;
    for (number, (gap, bytes)) in (0u32..).zip(steps) {
        at += std::time::Duration::from_micros(*gap);
        let left = at.saturating_sub(start.elapsed());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
        let mut payload = vec![0; bytes - HEADERS];
        payload[..4].copy_from_slice(&number.to_be_bytes());
        socket.send(&payload).unwrap();
    }
}

/// The same arrivals through ours, before a device that always has room: when each datagram that leaves does so.
fn through_ours(config: TbfConfig, arrived: &BTreeMap<u32, (u64, usize)>) -> BTreeMap<u32, u64> {
    let mut queue = Tbf::new(config);
    let mut left = BTreeMap::new();
    let mut drain = |queue: &mut Tbf, from: Time, until: Option<Time>| {
        let mut now = from;
        while let Some(ready) = queue.next_ready(now).filter(|ready| until.is_none_or(|until| *ready < until))
        {
            now = ready;
            let packet = queue.dequeue(now, &mut ()).expect("it said that it was ready");
            left.insert(packet.id as u32, now.as_nanos());
        }
    };
    let mut before = Time::ZERO;
    let mut order: Vec<_> = arrived.iter().collect();
    order.sort_by_key(|(_, (nanos, _))| *nanos);
    for (number, (nanos, bytes)) in order {
        let now = Time::from_nanos(*nanos);
        drain(&mut queue, before, Some(now));
        queue.enqueue(Packet::new(u64::from(*number), FlowId(0), *bytes as u32, now), now, &mut ());
        before = now;
    }
    drain(&mut queue, before, None);
    left
}

/// Datagrams that only one of the two let pass, and by how many nanoseconds the kernel was later with the others, in
/// order of size.
fn apart(passed: &Passed, ours: &BTreeMap<u32, u64>) -> (usize, Vec<i64>) {
    let (theirs, mine): (BTreeSet<u32>, BTreeSet<u32>) =
        (passed.left.keys().copied().collect(), ours.keys().copied().collect());
    let later = |number: &u32| passed.left[number] as i64 - ours[number] as i64;
    let mut later: Vec<i64> = theirs.intersection(&mine).map(later).collect();
    later.sort_unstable();
    (theirs.symmetric_difference(&mine).count(), later)
}

/// How many datagrams only one of the two let pass without a reason. One that arrives after ours has woken up, and before
/// the kernel has, finds room in ours alone; the kernel may take a later one in its place.
fn unexplained(passed: &Passed, ours: &BTreeMap<u32, u64>) -> usize {
    let woken = |at: u64| ours.values().any(|left| (at.saturating_sub(20_000)..=at).contains(left));
    let (mut in_place, mut unexplained) = (0, 0);
    for (number, (at, _)) in &passed.arrived {
        match (passed.left.contains_key(number), ours.contains_key(number)) {
            (false, true) if woken(*at) => in_place += 1,
            (true, false) if in_place > 0 => in_place -= 1,
            (theirs, mine) => unexplained += usize::from(theirs != mine),
        }
    }
    unexplained
}

fn config(rate: Rate, burst: u32, limit: u64) -> TbfConfig {
    TbfConfig { rate, burst, limit, late: Duration::ZERO }
}

const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

/// Bursts of some size every so often, and between them single datagrams, of lengths that vary.
fn bursts() -> Vec<Step> {
    let mut random = 7u32;
    let mut next = move |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % below
    };
    let mut steps = Vec::new();
    for burst in 0..12 {
        let together = 10 + 10 * (burst % 6);
        for place in 0..together {
            let bytes = if burst % 3 == 2 { 60 + next(1400) as usize } else { 1500 };
            steps.push((if place == 0 { 50_000 } else { 0 }, bytes));
        }
        for _ in 0..6 {
            steps.push((u64::from(500 + next(3000)), 100 + next(1300) as usize));
        }
    }
    steps
}

/// The same packets leave, and at the same time but for the lateness of the kernel's wake-ups, which a bucket of several
/// packets makes up for.
#[test]
fn the_same_packets_leave_at_the_same_time() {
    let Some(_turn) = root_and_turn() else { return };
    for (name, config) in [
        ("ten packets", config(mbit(10), 15_140, 22_000)),
        ("two packets", config(mbit(20), 3028, 30_000)),
        ("an odd rate", config(Rate::from_bits_per_sec(3_456_789), 4000, 9000)),
    ] {
        let steps = bursts();
        let Some(passed) = through_kernel(config, &steps) else { return };
        let ours = through_ours(config, &passed.arrived);
        let (arrived, left) = (passed.arrived.len(), passed.left.len());
        let (one_alone, later) = apart(&passed, &ours);
        let quantile = |share: f64| later[((later.len() - 1) as f64 * share) as usize] as f64 / 1e3;
        println!(
            "{name}: {arrived} in, {left} out of the kernel's, {} of ours, {one_alone} of one alone; the kernel's \
             later by {:.1} us at least, {:.1} (50 %), {:.1} (99 %), {:.1} at most",
            ours.len(),
            quantile(0.0),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0)
        );
        assert_eq!(arrived, steps.len(), "{name}: a datagram was lost on its way");
        assert_eq!(passed.counted, [left as u64, (arrived - left) as u64], "{name}: what tc says");
        assert!(left < arrived - 20 && left > arrived / 4, "{name}: {left} of {arrived}");
        // Time stamps are taken before the one queue and behind the other's tokens: ours may not be the later one. Where
        // one of them has dropped a packet more, those behind it are a packet's time apart.
        if is_counted() {
            assert_eq!(unexplained(&passed, &ours), 0, "{name}");
            // Of those that came between our wake-up and the kernel's few are left if ours is as late as the kernel's are.
            let late = Duration::from_nanos(later[later.len() / 2].max(0) as u64);
            let (one_alone, _) = apart(&passed, &through_ours(TbfConfig { late, ..config }, &passed.arrived));
            println!("{name}: {one_alone} of one alone with ours {late} late");
            assert!(one_alone <= 4, "{name}: {one_alone}");
            assert!(quantile(0.1) > -20.0 && quantile(0.9) < 100.0, "{name}");
        } else {
            assert!(one_alone <= left / 10, "{name}: {one_alone} of {left}");
            assert!(quantile(0.5) > -1000.0 && quantile(0.5) < 2000.0, "{name}");
        }
    }
}

/// A bucket that is smaller than a packet never lets it pass; shorter ones pass.
#[test]
fn packets_longer_than_the_bucket_never_pass() {
    let Some(_turn) = root_and_turn() else { return };
    let config = config(mbit(50), 1000, 100_000);
    // Around the bucket's size to the byte.
    let steps: Vec<Step> = (0..40).map(|number| (2000, [999, 1000, 1001, 1500][number % 4])).collect();
    let Some(passed) = through_kernel(config, &steps) else { return };
    let ours: Vec<u32> = through_ours(config, &passed.arrived).into_keys().collect();
    let kernels: Vec<u32> = passed.left.keys().copied().collect();
    assert_eq!(kernels, ours);
    assert_eq!(passed.counted, [20, 20]);
}

/// A bucket of one packet loses the time of each late wake-up: with the lateness that the kernel had in the mean, ours
/// lets as many packets pass.
#[test]
fn a_bucket_of_one_packet_loses_the_time_of_late_wake_ups() {
    let Some(_turn) = root_and_turn() else { return };
    let prompt = config(mbit(20), 1500, 60_000);
    // 33 Mbit/s for 300 ms: the queue never runs empty.
    let steps = vec![(360, 1500); 833];
    let Some(passed) = through_kernel(prompt, &steps) else { return };
    let ours = through_ours(prompt, &passed.arrived);
    // Where the queue has packets the time between two departures is what the tokens take and the lateness.
    let left: Vec<u64> = passed.left.values().copied().collect();
    let busy = &left[50..left.len() - 50];
    let between = (busy[busy.len() - 1] - busy[0]) as f64 / (busy.len() - 1) as f64;
    let late = between - 1500.0 * 8.0 / 20e6 * 1e9;
    let delayed = TbfConfig { late: Duration::from_nanos(late.max(0.0) as u64), ..prompt };
    let slowed = through_ours(delayed, &passed.arrived);
    println!(
        "{} in, {} out of the kernel's, {} of ours, {} of ours with wake-ups {:.1} us late",
        passed.arrived.len(),
        left.len(),
        ours.len(),
        slowed.len(),
        late / 1e3
    );
    // None of the kernel's comes before its tokens.
    assert!(late > -1000.0, "{late} ns");
    assert!(ours.len() + 2 >= left.len(), "{} and {}", ours.len(), left.len());
    let off = slowed.len().abs_diff(left.len());
    assert!(off <= if is_counted() { 2 } else { left.len() / 10 }, "{} and {}", slowed.len(), left.len());
}
