//! Whole runs on the kernel's own queues, with only what every kernel has: HTB and FIFOs.
//!
//! Needs root. Without it, or where the kernel lacks something, each test prints why it does nothing. Times on a shared
//! machine vary, so bounds that depend on them have room; counts are exact.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;

use weir_core::Duration;
use weir_netdev::iproute::Discipline;
use weir_report::result::{FlowResult, RunResult};
use weir_scenario::Scenario;
use weir_testbed::host::{Namespace, Topology, TopologySpec};
use weir_testbed::interfaces;
use weir_testbed::traffic::{Amount, Control, FlowSpec, Traffic, Transfer, UdpSpec};
use weir_testkit::skip;
use weir_world::{self as run, RunOptions, World};

/// One run at a time: they measure time.
fn root_and_turn() -> Option<MutexGuard<'static, ()>> {
    skip::root_and_turn().filter(|_| skip::has_btf())
}

fn scenario(bottleneck: &str, flows: &[&str]) -> Scenario {
    let flows: Vec<String> = flows.iter().map(|flow| format!("{{ {flow} }}")).collect();
    let text = format!(
        "flow = [{}]\nbottleneck = {{ {bottleneck} }}\n[measure]\ntimeout = \"20s\"\n",
        flows.join(", ")
    );
    Scenario::parse(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn measure(world: &'static dyn World, scenario: &Scenario) -> RunResult {
    let stop = AtomicBool::new(false);
    run::run(scenario, &RunOptions { world, ..RunOptions::new(&stop) }).unwrap()
}

fn flow<'a>(result: &'a RunResult, name: &str) -> &'a FlowResult {
    result.flows.iter().find(|flow| flow.name == name).unwrap_or_else(|| panic!("no flow '{name}'"))
}

/// What holds of every run: packets in are packets out, dropped and left over, by our books and by the kernel's; flows,
/// queues and bins add up; the link is never faster than it is said to be.
fn assert_sound(result: &RunResult) {
    let health = &result.health;
    assert_eq!(health.arrived, health.departed + health.dropped + health.still_queued, "{health:?}");
    assert_eq!((health.unaccounted, health.overtaken, health.ring_overflows), (0, 0, 0), "{health:?}");
    let root = result.meta.qdiscs.iter().find(|qdisc| qdisc["root"] == true).expect("a root qdisc");
    let kernel = |name: &str| root[name].as_u64().unwrap_or(u64::MAX);
    let departed_bytes = result.queues.iter().map(|queue| queue.departed_bytes).sum::<u64>();
    assert_eq!((root["kind"].as_str(), kernel("qlen")), (Some("htb"), health.still_queued));
    // Exact, but for steps that the kernel of a virtual machine does not announce.
    let off = kernel("packets").abs_diff(health.departed) + kernel("drops").abs_diff(health.dropped);
    assert!(off <= health.unheard && health.unheard <= health.arrived / 20, "{health:?}");
    assert!(kernel("bytes").abs_diff(departed_bytes) <= 2000 * off, "{health:?}");
    let sum = |of: fn(&weir_report::result::QueueResult) -> u64| result.queues.iter().map(of).sum::<u64>();
    assert_eq!(sum(|queue| queue.departed), health.departed);
    assert_eq!(sum(|queue| queue.dropped + queue.overflowed), health.dropped);
    let by_flow = |of: fn(&FlowResult) -> u64| result.flows.iter().map(of).sum::<u64>();
    // A socket that has closed answers late packets with ICMP (RFC 1122 section 4.1.3.1), which belongs to no flow.
    assert!(health.arrived - by_flow(|flow| flow.packets) <= 10, "strays");
    assert!(health.dropped - by_flow(|flow| flow.dropped) <= 10, "strays");
    let rate = result.meta.scenario.bottleneck.rate.bits_per_sec() as f64;
    let carried = departed_bytes as f64 * 8.0;
    let burst = health.allowed_burst_bytes as f64 * 8.0;
    assert!(carried <= rate * result.meta.wall_s + burst, "{carried} bit in {} s", result.meta.wall_s);
    for (queue, bins) in result.queues.iter().zip(&result.series.queues) {
        let departed: u64 = bins.iter().map(|bin| u64::from(bin.departed)).sum();
        assert_eq!(departed, queue.departed, "bins of {}", queue.name);
    }
}

#[test]
fn one_queue_carries_what_the_emulators_does() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '30mbit', rtt = '10ms', qdisc = 'bfifo limit 1bdp'",
        &[
            "name = 'cubic', stack = 'tcp', controller = 'cubic', bytes = '4mb'",
            "name = 'udp', stack = 'udp', rate = '6mbit', start = '300ms'",
        ],
    );
    let kernel = measure(weir_world::KERNEL, &scenario);
    assert_sound(&kernel);
    assert_eq!((kernel.meta.world.as_str(), kernel.meta.cut_short.as_deref()), ("kernel", None));
    assert_eq!(kernel.queues.len(), 1);
    let cubic = flow(&kernel, "cubic");
    assert_eq!((cubic.error.as_deref(), cubic.received_bytes), (None, 4 << 20));
    assert!(cubic.dropped > 0 && cubic.rtt_p50_ms.is_some_and(|rtt| rtt >= 10.0), "{cubic:?}");
    let udp = flow(&kernel, "udp");
    assert!(udp.goodput_bps > 3e6 && udp.goodput_bps < 6e6, "{udp:?}");
    assert_eq!((udp.cycles, udp.class_loss.as_str()), (0, "unclassified"));

    let emu = measure(weir_world::EMU, &scenario);
    let ratio = cubic.fct_s.unwrap() / flow(&emu, "cubic").fct_s.unwrap();
    assert!((0.4..2.5).contains(&ratio), "completion times differ by a factor of {ratio}");
    let median = |result: &RunResult| result.queues[0].sojourn_ns.quantile(0.5).unwrap() as f64 / 1e6;
    let (of_kernel, of_emu) = (median(&kernel), median(&emu));
    // Neither is near empty. That of the kernel empties as late as the machine lets it.
    assert!((0.4..2.5).contains(&(of_kernel / of_emu)), "{of_kernel} ms and {of_emu} ms");
}

/// CRQ with what every kernel has: the classifier judges both TCP flows by the drops of their queue and moves them to
/// the responsive one; UDP stays where it is.
#[test]
fn responsive_flows_get_their_queue_and_udp_does_not() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(
        weir_world::KERNEL,
        &scenario(
            "rate = '30mbit', rtt = '10ms', qdisc = 'crq standard bfifo responsive bfifo'",
            &[
                "name = 'one-way', stack = 'tcp', controller = 'cubic', bytes = '3mb'",
                "name = 'two-way', stack = 'tcp', controller = 'cubic', pattern = 'two-way', bytes = '2mb'",
                "name = 'udp', stack = 'udp', rate = '10mbit'",
            ],
        ),
    );
    assert_sound(&result);
    let names: Vec<_> = result.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["standard", "responsive"]);
    for (name, bytes) in [("one-way", 3 << 20), ("two-way", 2 << 20)] {
        let flow = flow(&result, name);
        assert_eq!((flow.error.as_deref(), flow.received_bytes), (None, bytes));
        assert_eq!((flow.class_loss.as_str(), flow.class_ecn.as_str()), ("responsive", "unclassified"));
        assert!(flow.responsive_packets > 0.3 && flow.responsive_time > 0.3, "{flow:?}");
        // One cycle per round trip, of 10 ms at least; as long as those that the sender saw, or two of them.
        let cycle_ms = flow.fct_s.unwrap_or_default() * 1e3 / flow.cycles as f64;
        let trips = cycle_ms / flow.rtt_p50_ms.unwrap_or_default();
        println!("{name}: {cycle_ms} ms per cycle, {trips} round trips");
        assert!(cycle_ms >= 9.0 && (0.4..4.0).contains(&trips), "{trips} round trips per cycle: {flow:?}");
        assert!(result.choices.iter().any(|choice| choice.flow == name && choice.queue == "responsive"));
        assert!(result.assessments.iter().any(|row| row.flow == name && row.responsive && row.signals > 0));
    }
    let udp = flow(&result, "udp");
    assert!(udp.responsive_packets < 0.02 && udp.received_bytes > 0, "{udp:?}");
    assert_eq!((udp.cycles, udp.class_loss.as_str()), (0, "unclassified"));
    // Each queue keeps to its half.
    for queue in &result.queues {
        assert!(queue.departed > 100, "{queue:?}");
        assert!(queue.departed_bytes as f64 * 8.0 <= 15e6 * result.meta.wall_s + 1e5, "{queue:?}");
    }
    let counted =
        |name: &str| result.law_counters.iter().find(|(counter, _)| counter == name).map(|(_, n)| *n);
    assert!(counted("loss_packets").is_some_and(|lost| lost > 0), "{:?}", result.law_counters);
}

/// Strict priority: what the responsive queue wants comes first, and nothing is left unused.
#[test]
fn shared_and_strict_queues_use_the_whole_link() {
    let Some(_turn) = root_and_turn() else { return };
    for sharing in ["split shared", "split shared sharing strict", "split shared sharing 30:70"] {
        let result = measure(
            weir_world::KERNEL,
            &scenario(
                &format!(
                    "rate = '20mbit', rtt = '0', qdisc = 'crq standard bfifo limit 20kb responsive bfifo limit 20kb {sharing}'"
                ),
                &["name = 'udp', stack = 'udp', rate = '30mbit', duration = '800ms'"],
            ),
        );
        assert_sound(&result);
        // 20 Mbit/s are 1651 packets in a second; all of them are standard traffic, and half of the link would be 660
        // of them.
        let [standard, responsive] = &result.queues[..] else { panic!("two queues") };
        let most = 1651.0 * result.meta.wall_s + 80.0;
        assert!((800.0..=most).contains(&(standard.departed as f64)), "{sharing}: {}", standard.departed);
        assert!(responsive.departed <= 10, "{sharing}: {}", responsive.departed);
    }
}

/// A count: so many datagrams leave a link of such a rate in such a time, with the overhead of each, and the rest is
/// dropped by a queue that is full all the time.
#[test]
fn overhead_counts_against_rate_and_limit() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(
        weir_world::KERNEL,
        &scenario(
            "rate = '40mbit', rtt = '0', overhead = 486, qdisc = 'bfifo limit 40000b'",
            &["name = 'udp', stack = 'udp', rate = '60mbit', duration = '1s'"],
        ),
    );
    assert_sound(&result);
    let queue = &result.queues[0];
    assert_eq!(queue.departed_bytes, queue.departed * 2000);
    // A link of 40 Mbit/s carries 2500 packets of 2000 bytes in a second, and 20 were left in the queue.
    // Without the overhead it would be 3302.
    let (departed, wall) = (queue.departed as f64, result.meta.wall_s);
    assert!((1250.0..=2500.0 * wall + 40.0).contains(&departed), "{departed} in {wall} s");
    // 20 packets of 2000 bytes at 5 MB/s, or longer where the link was slower than it was to be.
    let full = queue.sojourn_ns.quantile(0.5).unwrap() as f64 / 1e6;
    assert!(full >= 7.0 && full * departed / 2500.0 < 12.0, "{full} ms, {departed} packets");
    assert!(queue.overflowed > 1500, "{}", queue.overflowed);
}

/// What `weir up` installs on an interface: takes it off again, also where a test fails.
struct Installed<'a>(&'a Namespace, &'a str);

impl<'a> Installed<'a> {
    fn new(namespace: &'a Namespace, device: &'a str, words: &str) -> Self {
        let line = format!("{device} {words}");
        let keys = weir_kernel::parse_words(&line.split(' ').collect::<Vec<_>>()).unwrap();
        let setup = weir_kernel::Setup::from_keys(keys).unwrap();
        let up = || weir_kernel::up(&setup, &mut |_| ControlFlow::Continue(())).map(drop);
        namespace.enter(up).unwrap().unwrap();
        Self(namespace, device)
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        let down = || weir_kernel::down(self.1, &mut |_| ControlFlow::Continue(())).map(drop);
        if let Err(error) = self.0.enter(down).unwrap() {
            eprintln!("weir down: {error}");
        }
    }
}

/// The same words and the same packets: the queue that a scenario measures is that of a live interface.
#[test]
fn the_queue_that_is_measured_is_that_of_weir_up() {
    let Some(_turn) = root_and_turn() else { return };
    let words = "standard bfifo limit 20kb responsive bfifo limit 20kb split hard sharing 30:70".to_owned();
    let sent = Duration::from_secs(1);
    let result = measure(
        weir_world::KERNEL,
        &scenario(
            &format!("rate = '20mbit', rtt = '0', qdisc = 'crq {words}'"),
            &[&format!("name = 'udp', stack = 'udp', rate = '12mbit', duration = '{sent}'")],
        ),
    );
    assert_sound(&result);
    let measured = &result.queues[0];
    let measured = [measured.departed, measured.dropped + measured.overflowed];

    let topology = Topology::build_forwarding(&TopologySpec::default(), &[]).unwrap();
    let _offloads = interfaces::prepare(&topology).unwrap();
    let device = &topology.bottleneck_client_iface;
    let installed = Installed::new(&topology.bottleneck, device, &format!("rate 20mbit {words}"));
    let spec = FlowSpec {
        name: "udp".to_owned(),
        server: SocketAddr::new(topology.server_addr(0), 40_000),
        client: SocketAddr::new(topology.client_addr(0), 40_001),
        start: Duration::ZERO,
        amount: Amount::Time(sent),
        ecn: false,
        traffic: Traffic::Udp(UdpSpec::new("12mbit".parse().unwrap())),
    };
    let control = Control::held();
    let flow = Transfer::launch(&spec, &topology.server, &topology.client, &control).unwrap();
    #[allow(clippy::disallowed_methods, reason = "real packets take real time")]
    control.begin_at(std::time::Instant::now());
    let received = flow.join();
    assert_eq!(received.error, None);
    let disciplines = topology.bottleneck.disciplines(device).unwrap();
    let standard = Discipline::with_handle(&disciplines, "57e3:").unwrap();
    let live = ["packets", "drops"].map(|name| standard.number(name));
    drop(installed);

    println!("departed and dropped: {measured:?} measured, {live:?} of weir up");
    // 6 of 12 Mbit/s: half is dropped, but for what the queue and the burst hold. Sixteen in a hundred is what the
    // other queue's share, or a rate of its own in either tree, would at least make.
    let share = |[departed, dropped]: [u64; 2]| dropped as f64 / (departed + dropped) as f64;
    for counts in [measured, live] {
        assert!((0.35..0.6).contains(&share(counts)), "{counts:?}");
    }
    let ratios = [live[0] as f64 / measured[0] as f64, share(live) / share(measured)];
    assert!(ratios.iter().all(|ratio| (0.84..1.19).contains(ratio)), "{ratios:?}");
}

#[test]
fn each_flow_has_its_own_round_trip_time_and_captures_hold_what_left() {
    let Some(_turn) = root_and_turn() else { return };
    // Some two thousand packets, so that the steps that the kernel leaves unannounced when the machine stumbles once,
    // some twenty, are a small share of them.
    let scenario = scenario(
        "rate = '50mbit', rtt = '8ms', position = 0.2, qdisc = 'pfifo limit 200p'",
        &[
            "name = 'near', stack = 'tcp', controller = 'cubic', bytes = '1mb'",
            "name = 'far', stack = 'tcp', controller = 'cubic', rtt = '50ms', start = '500ms', bytes = '1mb'",
            "name = 'up', stack = 'tcp', controller = 'cubic', direction = 'up', start = '1s', bytes = '1mb'",
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcapng");
    let stop = AtomicBool::new(false);
    let options =
        RunOptions { world: weir_world::KERNEL, pcap: Some(path.as_path().into()), ..RunOptions::new(&stop) };
    let result = run::run(&scenario, &options).unwrap();
    assert_sound(&result);
    let least =
        |index: usize| result.series.rtt[index].iter().map(|(_, rtt)| *rtt).fold(f64::INFINITY, f64::min);
    for (index, (name, rtt)) in [("near", 8.0), ("far", 50.0), ("up", 8.0)].into_iter().enumerate() {
        assert_eq!(flow(&result, name).received_bytes, 1 << 20, "{name}");
        assert!(least(index) >= rtt, "{name}: {} ms", least(index));
    }
    // What the machine adds makes neither of the others the far one.
    assert!(least(1) > least(0) && least(1) > least(2), "{}, {} and {} ms", least(0), least(1), least(2));
    let captured = std::fs::metadata(&path).unwrap().len();
    // Up to 160 bytes of each packet's headers and the block around them, of each that was heard of.
    let heard = result.health.departed.saturating_sub(result.health.unheard);
    assert!(captured > heard * 80, "{captured} bytes of {heard} packets and their answers");
}

/// A CRQ whose standard queue cuts super-packets up: what `tc` counts stands where packets would have been followed, and
/// the classifier hears of the segments that are dropped.
#[test]
fn super_packets_are_counted_and_not_followed() {
    let Some(_turn) = root_and_turn() else { return };
    let scenario = scenario(
        "rate = '60mbit', rtt = '0', super_packets = true, qdisc = 'crq standard tbf limit 60kb rate 60mbit burst 1514b \
         responsive bfifo limit 60kb'",
        &[
            "name = 'cubic', stack = 'tcp', controller = 'cubic', bytes = '6mb'",
            "name = 'udp', stack = 'udp', rate = '10mbit'",
        ],
    );
    let result = measure(weir_world::KERNEL, &scenario);
    let health = &result.health;
    println!("{health:?}\n{:?}", result.queues);
    assert_eq!(health.arrived, health.departed + health.dropped + health.still_queued);
    let [cubic, udp] = ["cubic", "udp"].map(|name| flow(&result, name));
    assert_eq!((cubic.error.as_deref(), cubic.received_bytes), (None, 6 << 20));
    assert_eq!((cubic.class_loss.as_str(), udp.class_loss.as_str()), ("responsive", "unclassified"));
    assert_eq!((cubic.packets, cubic.sojourn_mean_ms, health.lateness_ns.count()), (0, None, 0));
    // Bytes of both, with a header for each segment where they are cut up; UDP's in time, and half of the link at most.
    let of = |name: &str| result.queues.iter().find(|queue| queue.name == name).unwrap();
    let (standard, responsive) = (of("standard"), of("responsive"));
    assert!(standard.overflowed > 0 && standard.departed > udp.received_bytes / 1472, "{standard:?}");
    assert!(responsive.departed_bytes > 1 << 20, "{responsive:?}");
    let carried = (standard.departed_bytes + responsive.departed_bytes) as f64;
    let received = (cubic.received_bytes + udp.received_bytes) as f64;
    assert!(carried > received && carried < 1.3 * received, "{carried} bytes left, {received} were received");
    assert!(udp.goodput_bps > 5e6 && udp.goodput_bps < 10e6, "{udp:?}");
    assert!(weir_report::summary::text(&[("x", &result)]).contains(" - "), "no count of a flow's packets");
}

/// A bucket of one packet loses what each wake-up is late: 202 us of a packet and 100 us more leave 40 of 60 Mbit/s, and
/// less where the machine is late too.
#[test]
fn a_late_tbf_is_slower_than_its_rate() {
    let Some(_turn) = root_and_turn() else { return };
    let carried = |late: &str| {
        let result = measure(
            weir_world::KERNEL,
            &scenario(
                &format!(
                    "rate = '60mbit', rtt = '0', super_packets = true, \
                     qdisc = 'tbf limit 60kb rate 60mbit burst 1514b late {late}'"
                ),
                &["name = 'udp', stack = 'udp', rate = '58mbit', duration = '1s'"],
            ),
        );
        flow(&result, "udp").goodput_bps
    };
    let (late, prompt) = (carried("100us"), carried("0"));
    println!("{late} and {prompt} bit/s");
    assert!(late > 1e6 && late < 40.2e6, "{late} bit/s");
    assert!(prompt > late, "{prompt} bit/s, {late} with late wake-ups");
}

#[test]
fn what_the_kernel_cannot_do_is_refused_before_anything_runs() {
    let Some(_turn) = root_and_turn() else { return };
    let stop = AtomicBool::new(false);
    let options = RunOptions { world: weir_world::KERNEL, ..RunOptions::new(&stop) };
    let refused = |qdisc: &str| {
        let scenario = scenario(
            &format!("rate = '40mbit', rtt = '10ms', qdisc = '{qdisc}'"),
            &["stack = 'udp', rate = '1mbit', duration = '100ms'"],
        );
        run::run(&scenario, &options).map(|result| result.meta.world).map_err(|error| error.to_string())
    };
    let drain = refused("crq responsive bfifo switching drain").unwrap_err();
    assert!(drain.starts_with("bottleneck.qdisc.switching: ") && drain.contains("--on emu"), "{drain}");
    let bytes = refused("codel limit 64kb").unwrap_err();
    assert!(bytes.starts_with("bottleneck.qdisc.limit: "), "{bytes}");
    let late = refused("tbf burst 1514b late 200us").unwrap_err();
    assert!(late.starts_with("bottleneck.qdisc.late: ") && late.contains("100us"), "{late}");
    let text = "flow = [{ stack = 'udp', rate = '1mbit', duration = '100ms' }]\nmeasure.from = '10ms'\n\
                bottleneck = { rate = '40mbit', rtt = '10ms', qdisc = 'bfifo', super_packets = true }";
    let windowed = run::run(&Scenario::parse(text, "x").unwrap(), &options).unwrap_err().to_string();
    assert!(windowed.starts_with("measure.from: packets are not followed"), "{windowed}");
    match refused("codel ecn") {
        Ok(world) => assert_eq!(world, "kernel"),
        Err(error) => {
            assert!(error.starts_with("bottleneck.qdisc: this kernel has no codel"), "{error}");
            assert!(error.contains("--on vm"), "{error}");
        }
    }
}
