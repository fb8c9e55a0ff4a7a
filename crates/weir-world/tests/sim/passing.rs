//! Captures and traces of runs over several links, in both directions, with losses and packets out of order: what is in
//! them must be what was sent, queued, dropped and lost.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_assess::capture::CaptureReader;
use weir_law::Kind;
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::{RunOptions, run};

use crate::capture::{assessed, run_in, word};

/// A path over three links, of which the bottleneck is the second, with all that can happen to a packet.
const LINKS: &str = "[measure]
timeout = '60s'
[bottleneck]
rate = '10mbit'
rtt = '20ms'
qdisc = 'fq_codel ecn'
overhead = 18
loss = '0.3%'
reorder = '2% 3ms'
[bottleneck.reverse]
rate = '3mbit'
qdisc = 'pfifo limit 20p'
[[link]]
name = 'access'
rate = '12mbit'
delay = '2ms'
qdisc = 'bfifo limit 1bdp'
loss = '0.2%'
[[link]]
name = 'core'
rate = '20mbit'
delay = '3ms'
qdisc = 'bfifo limit 1bdp'
jitter = '1ms reorder'
[link.reverse]
reorder = '10% 15ms'
loss = '1%'
[[flow]]
name = 'long'
stack = 'tcp'
controller = 'cubic'
path = ['access', 'bottleneck', 'core']
bytes = '3mb'
[[flow]]
name = 'elsewhere'
stack = 'tcp'
controller = 'reno'
path = ['core']
bytes = '2mb'
[[flow]]
name = 'up'
stack = 'tcp'
controller = 'cubic'
direction = 'up'
path = ['access', 'bottleneck', 'core']
ecn = true
start = '500ms'
bytes = '1mb'
[[flow]]
name = 'both ways'
stack = 'tcp'
controller = 'prague'
ecn = true
pattern = 'two-way'
bytes = '1mb'
[[flow]]
name = 'quic up'
stack = 'quic'
controller = 'cubic'
direction = 'up'
bytes = '500kb'
[[flow]]
name = 'call up'
stack = 'udp'
rate = '200kbit'
direction = 'up'
duration = '4s'
[[workload]]
name = 'web'
kind = 'requests'
stack = 'tcp'
controller = 'cubic'
users = 3
requests = 20
size = '20kb'
think = '100ms'
";

/// A line of a trace: its words with an equals sign are `words`.
struct Line<'a> {
    sign: &'a str,
    time: f64,
    link: &'a str,
    ends: &'a str,
    words: HashMap<&'a str, &'a str>,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().map(|line| {
        let all: Vec<&str> = line.split(' ').collect();
        let [sign, time, link, ends, _stack, ref rest @ ..] = all[..] else { panic!("{line}") };
        let words = rest.iter().filter_map(|word| word.split_once('=')).collect();
        Line { sign, time: time.parse().unwrap(), link, ends, words }
    })
}

/// What a trace reports of a link.
#[derive(Debug, Default)]
struct Link<'a> {
    newest: f64,
    queued: HashSet<&'a str>,
    sending: HashSet<&'a str>,
    counts: HashMap<&'a str, u64>,
    /// By ends: came, and left without being lost.
    flows: HashMap<&'a str, [i64; 2]>,
}

/// Holds each link's queue to its books.
fn read_trace(text: &str) -> BTreeMap<&str, Link<'_>> {
    let mut links: BTreeMap<&str, Link<'_>> = BTreeMap::new();
    for Line { sign, time, link: name, ends, words } in lines(text) {
        let link = links.entry(name).or_default();
        assert!(time >= link.newest, "{name}: {time} after {}", link.newest);
        link.newest = time;
        *link.counts.entry(sign).or_default() += 1;
        let [came, left] = link.flows.entry(ends).or_default();
        let id = words.get("id").copied();
        let is_known = match (sign, id) {
            ("+", Some(id)) => {
                *came += 1;
                link.queued.insert(id)
            }
            ("-", Some(id)) => link.sending.insert(id) && link.queued.remove(id),
            ("d", Some(id)) => {
                let at_the_door =
                    matches!(words["reason"], "overflow" | "early") && !link.queued.contains(id);
                *came += i64::from(at_the_door);
                *link.counts.entry("refused").or_default() += u64::from(at_the_door);
                at_the_door || link.queued.remove(id)
            }
            ("m", Some(id)) => link.queued.contains(id) || link.sending.contains(id),
            ("r", Some(id)) => {
                *left += 1;
                link.sending.remove(id)
            }
            // Where nothing queues.
            ("r", None) => {
                (*came, *left) = (*came + 1, *left + 1);
                true
            }
            ("l", _) => {
                *left -= 1;
                true
            }
            _ => false,
        };
        assert!(is_known, "{name}: {sign} {time} {id:?}");
    }
    links
}

fn run_links(folder: &Path) -> (Scenario, RunResult, String) {
    let scenario = Scenario::parse(LINKS, "test.toml").unwrap();
    let result = run_in(folder, &scenario);
    assert!(result.health.warnings.is_empty(), "{:?}", result.health.warnings);
    assert_eq!(result.meta.cut_short, None);
    let text = std::fs::read_to_string(folder.join("packets.tr")).unwrap();
    (scenario, result, text)
}

#[test]
fn a_trace_keeps_the_books_of_every_link() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, result, text) = run_links(folder.path());
    let stop = AtomicBool::new(false);
    let without = run(&scenario, &RunOptions { world: weir_world::SIM, ..RunOptions::new(&stop) }).unwrap();
    assert!(serde_json::to_string(&result).unwrap() == serde_json::to_string(&without).unwrap());
    let links = read_trace(&text);
    let names: Vec<&str> = links.keys().copied().collect();
    assert_eq!(names, ["0", "1", "2", "back", "back1", "back2"]);
    for (link, queue) in [("0", "queue"), ("back", "reverse"), ("1", "access"), ("2", "core")] {
        let counts = &links[link].counts;
        let queue = result.queues.iter().find(|row| row.name == queue).unwrap();
        assert_eq!(counts["-"], queue.departed, "{link}");
        assert!(links[link].sending.len() <= 1, "{link}: a link sends one packet at a time");
    }
    let sum = |sign| links.values().filter_map(|link| link.counts.get(sign)).sum::<u64>();
    assert_eq!(sum("+") + sum("refused"), result.health.arrived);
    assert_eq!(sum("d"), result.health.dropped);
    let queued: usize = links.values().map(|link| link.queued.len()).sum();
    assert_eq!(queued as u64, result.health.still_queued, "all others are out of their queues or dropped");
    for link in ["0", "1", "back2"] {
        assert!(links[link].counts["l"] > 3, "{link}: {:?}", links[link].counts);
    }
    assert!(links["back1"].counts.keys().eq(&["r"]), "nothing queues or is lost there");
    // What a link does not lose comes to the next, but for what is on its way at the end.
    for (ends, route) in [
        ("10.0.0.1:20000>10.0.1.1:40000", ["1", "0", "2"]),
        ("10.0.1.1:40000>10.0.0.1:20000", ["back2", "back", "back1"]),
        ("10.0.1.1:20002>10.0.0.1:40002", ["back2", "back", "back1"]),
        ("10.0.0.1:40002>10.0.1.1:20002", ["1", "0", "2"]),
    ] {
        for pair in route.windows(2) {
            let [[_, left], [came, _]] = [pair[0], pair[1]].map(|link| links[link].flows[ends]);
            assert!(came > 100 && (0..20).contains(&(left - came)), "{ends} {pair:?}: {left}, {came}");
        }
    }
}

/// What a capture shows of one direction.
#[derive(Debug, Default)]
struct Seen {
    interfaces: HashSet<u32>,
    packets: u64,
    with_data: u64,
    syns: u64,
    /// Sequence numbers of the data, from the first to behind the last.
    data: Vec<(u32, u32)>,
    acks: Vec<u32>,
}

fn read_capture(folder: &Path) -> HashMap<String, Seen> {
    let mut reader = CaptureReader::new(File::open(folder.join("deep/packets.pcapng")).unwrap()).unwrap();
    let mut all: HashMap<String, Seen> = HashMap::new();
    let mut before = 0;
    while let Some(captured) = reader.next().unwrap() {
        let ms = (captured.time.as_nanos() / 1_000_000) as u32;
        assert!(captured.time.as_nanos() >= before, "the capture goes back in time");
        before = captured.time.as_nanos();
        let packet = captured.headers().unwrap();
        let (source, target) = (packet.source().unwrap(), packet.destination().unwrap());
        let seen = all.entry(format!("{source}>{target}")).or_default();
        let bytes = packet.payload_bytes().0 as u32;
        seen.interfaces.insert(captured.interface);
        seen.packets += 1;
        let is_initial = packet.quic().is_some_and(|quic| quic.initial);
        // QUIC's acknowledgements are payload of UDP.
        let has_data = bytes > 100 && !is_initial;
        seen.with_data += u64::from(has_data);
        let Some(tcp) = packet.tcp() else {
            seen.syns += u64::from(is_initial);
            assert!(matches!(packet.kind(), Kind::Quic | Kind::Udp));
            continue;
        };
        let (stamp, echoed) = tcp.timestamps.unwrap();
        assert!(stamp <= ms && ms - stamp < 500, "a time stamp of {stamp} ms at {ms} ms");
        assert!(echoed <= stamp, "{echoed} comes after {stamp}");
        seen.syns += u64::from(tcp.syn());
        if tcp.syn() {
            continue;
        }
        assert!(echoed > 0, "{source} echoes nothing at {ms} ms");
        seen.acks.push(tcp.ack);
        if has_data {
            seen.data.push((tcp.seq, tcp.seq + bytes));
        }
    }
    all
}

/// The bytes that lie in a row behind the number `first`.
fn contiguous(seen: &Seen, first: u32) -> u32 {
    let mut data = seen.data.clone();
    data.sort_unstable();
    let end = data.iter().fold(first, |end, (from, to)| if *from <= end { end.max(*to) } else { end });
    assert_eq!(data.iter().map(|(_, to)| *to).max(), Some(end), "there is a hole at {end}");
    end - first
}

#[test]
fn a_capture_has_what_left_the_bottleneck_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, result, text) = run_links(folder.path());
    let seen = read_capture(folder.path());
    let links = read_trace(&text);
    let mut left: HashMap<&str, [u64; 2]> = HashMap::new();
    for line in lines(&text).filter(|line| line.sign == "r" && matches!(line.link, "0" | "back")) {
        let [packets, with_data] = left.entry(line.ends).or_default();
        *packets += 1;
        *with_data += u64::from(line.words.contains_key("len"));
    }
    assert_eq!(seen.len(), left.len());
    for (ends, seen) in &seen {
        let from_server = ends.starts_with("10.0.0.1:");
        assert_eq!(seen.interfaces, HashSet::from([u32::from(!from_server)]), "{ends}");
        let [packets, with_data] = left[ends.as_str()];
        assert_eq!(seen.with_data, with_data, "{ends}: data");
        // A workload's connection opens once here; the end that asks sends two packets for it.
        let is_datagrams = ends.contains(":20005");
        let opens = if is_datagrams {
            0
        } else if ends.find(":4").unwrap() < ends.find('>').unwrap() {
            2
        } else {
            1
        };
        assert_eq!(seen.packets, packets + opens, "{ends}");
    }
    assert!(seen.keys().all(|ends| !ends.contains(":20001")), "it does not go by the bottleneck");
    assert!(links["2"].flows.contains_key("10.0.0.1:20001>10.0.1.1:40001"));
    let of = |ends: &str| &seen[ends];
    let long = of("10.0.0.1:20000>10.0.1.1:40000");
    let up = of("10.0.1.1:20002>10.0.0.1:40002");
    let two_way = of("10.0.0.1:20003>10.0.1.1:40003");
    let back = of("10.0.1.1:40003>10.0.0.1:20003");
    // The end that asks has 1 for its SYN, the other one 0.
    for (seen, first, bytes) in
        [(long, 1, 3 << 20), (up, 1, 1 << 20), (two_way, 1, 1 << 20), (back, 2, 1 << 19)]
    {
        assert_eq!(contiguous(seen, first), bytes);
    }
    // Acknowledgements, those too that others have overtaken on the link before, are of what was sent.
    for (acks, first, bytes) in [
        ("10.0.1.1:40000>10.0.0.1:20000", 1, 3 << 20),
        ("10.0.0.1:40002>10.0.1.1:20002", 1, 1 << 20),
        ("10.0.1.1:40003>10.0.0.1:20003", 1, 1 << 20),
        ("10.0.0.1:20003>10.0.1.1:40003", 2, 1 << 19),
    ] {
        let acks = &of(acks).acks;
        assert!(acks.iter().all(|ack| (first..=first + bytes).contains(ack)), "{first} {bytes}");
        assert!(acks.windows(2).all(|pair| pair[1] + 200_000 > pair[0]), "an old one comes very late");
    }
    let overtaken = of("10.0.1.1:40000>10.0.0.1:20000").acks.windows(2).filter(|pair| pair[1] < pair[0]);
    assert!(overtaken.count() > 20, "the link reorders");
    let flow = |name: &str| result.flows.iter().find(|flow| flow.name == name).unwrap();
    assert_eq!(long.with_data, flow("long").packets - flow("long").dropped);
    // What the bottleneck marked has a mark.
    let report = assessed(folder.path(), &scenario);
    assert!(report.error.is_none(), "{:?}", report.error);
    let counters = report.counters;
    assert_eq!((counters.malformed, counters.truncated, counters.not_ip, counters.backwards), (0, 0, 0, 0));
    let judged = report.flows.iter().find(|flow| flow.data.source.port() == 20_003).unwrap();
    assert_eq!(judged.data.ecn.ce, flow("both ways").marked);
}

#[test]
fn an_upload_is_judged_by_its_capture() {
    // A short queue: behind a long one cycles are shorter.
    let text = "[bottleneck]
rate = '30mbit'
rtt = '20ms'
qdisc = 'bfifo limit 0.1bdp'
[bottleneck.reverse]
rate = '30mbit'
qdisc = 'bfifo limit 0.1bdp'
[[flow]]
name = 'up'
stack = 'tcp'
controller = 'cubic'
direction = 'up'
duration = '12s'
[[flow]]
name = 'down'
stack = 'tcp'
controller = 'cubic'
start = '13s'
duration = '12s'
";
    let scenario = Scenario::parse(text, "test.toml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let result = run_in(folder.path(), &scenario);
    let report = assessed(folder.path(), &scenario);
    assert!(report.error.is_none() && report.flows.len() == 2, "{:?}", report.error);
    let [up, down] = [20_000, 20_001]
        .map(|port| &report.flows.iter().find(|flow| flow.data.source.port() == port).unwrap().data);
    assert_eq!(up.source.to_string(), "10.0.1.1:20000");
    assert_eq!(down.source.to_string(), "10.0.0.1:20001");
    for (flow, name) in [(up, "reverse"), (down, "queue")] {
        let queue = result.queues.iter().find(|row| row.name == name).unwrap();
        assert!(queue.overflowed > 10, "{name}: {}", queue.overflowed);
        assert!(flow.loss.signals.abs_diff(queue.overflowed) <= 2, "{name}: {} inferred", flow.loss.signals);
    }
    // The law of the run has no signals of the queue towards the server; who reads the capture sees its losses.
    assert_eq!([0, 1].map(|flow| result.flows[flow].class_loss.as_str()), ["unclassified", "responsive"]);
    assert_eq!([up, down].map(|flow| word(flow.loss.verdict)), ["responsive", "responsive"]);
}
