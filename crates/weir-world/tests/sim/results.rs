//! What a run in virtual time says of itself: the law's settings, nothing of the machine, whole series, and warnings.

use std::collections::BTreeMap;
use std::path::Path;

use weir_report::result::RunResult;
use weir_report::{output, page, summary};

use super::{judged, simulate};

/// Cubic with losses that leave holes, and a crowd beside it.
const HOLES: &str = r#"
    [bottleneck]
    rate = "20mbit"
    rtt = "40ms"
    qdisc = "bfifo limit 1bdp"
    loss = "2%"
    [[flow]]
    stack = "tcp"
    controller = "cubic"
    duration = "20s"
    [[flow]]
    name = "both ways"
    stack = "tcp"
    controller = "cubic"
    pattern = "two-way"
    duration = "20s"
    [[workload]]
    kind = "requests"
    stack = "tcp"
    controller = "cubic"
    users = 2
    size = "500kb"
    think = "100ms"
    duration = "20s"
"#;

#[test]
fn a_sack_block_completes_half_a_cycle_where_the_law_is_told_so() {
    let with = |law: &str| simulate(&format!("{law}{HOLES}"), 0);
    let plain = with("");
    let sack = with("[law]\nsack_completes_half = true\n");
    // The law only watches: what is sent, dropped and received is the same.
    let seen = |run: &RunResult| -> Vec<_> {
        run.flows.iter().map(|flow| (flow.packets, flow.dropped, flow.received_bytes)).collect()
    };
    assert_eq!(seen(&plain), seen(&sack));
    for (before, after) in plain.flows.iter().zip(&sack.flows) {
        println!("{}: {} cycles, {} with SACK", before.name, before.cycles, after.cycles);
        // A hole lasts a round trip at least, and there are many.
        assert!(after.cycles > before.cycles + before.cycles / 50, "{}: {before:?} {after:?}", before.name);
    }
    let reverse = HOLES.replace(
        "[[flow]]\n    stack",
        "[bottleneck.reverse]\n    rate = '20mbit'\n    qdisc = 'pfifo'\n    [[flow]]\n    stack",
    );
    assert_ne!(reverse, HOLES);
    let cycles = |law: &str| simulate(&format!("{law}{reverse}"), 0).flows[0].cycles;
    let (plain, sack) = (cycles(""), cycles("[law]\nsack_completes_half = true\n"));
    assert!(sack > plain + plain / 50, "behind a queue for acknowledgements: {plain}, {sack}");
}

/// A flow of 10 kB, which the initial window holds, over 100 Mbit/s and 100 ms.
const BRIEF: &str = r#"
    [bottleneck]
    rate = "100mbit"
    rtt = "100ms"
    position = POSITION
    qdisc = "pfifo"
    [[flow]]
    name = "brief"
    stack = "STACK"
    controller = "cubic"
    bytes = 10000
"#;

#[test]
fn a_completion_time_is_a_round_trip_and_a_transmission_wherever_the_bottleneck_is() {
    // Who asks over a connection that is open waits as long.
    let asks = r#"
        [[workload]]
        name = "page"
        kind = "requests"
        stack = "STACK"
        controller = "cubic"
        users = 1
        size = "10000b"
        think = "1s"
        requests = 2
    "#;
    let idle = "[bottleneck.reverse]\n rate = '100gbit'\n qdisc = 'pfifo'\n";
    for (stack, payload, frame) in [("tcp", 1448, 1514), ("quic", 1425, 1494)] {
        let header = frame - payload;
        let wire = 10_000 + 10_000_u32.div_ceil(payload) * header;
        let transmission = f64::from(wire) * 8.0 / 100e6;
        for position in ["0", "0.5", "1"] {
            for reverse in ["", idle] {
                let text = format!("{BRIEF}{reverse}").replace("POSITION", position).replace("STACK", stack);
                let result = simulate(&text, 0);
                let flow = &result.flows[0];
                let (took, place) = (flow.fct_s.unwrap(), format!("{stack}, {position}, {reverse}"));
                // Acknowledgements take time of their own where there is a queue for them; the data does not wait.
                assert!((took - 0.1 - transmission).abs() < 2e-6, "{took} {place}");
                // The handshake comes before. A sender that stands at its link begins by the way there sooner.
                let way =
                    if reverse.is_empty() { 0.05 * (1.0 - position.parse::<f64>().unwrap()) } else { 0.0 };
                let completed = flow.completed_s.unwrap();
                assert!((completed + way - 0.1 - took).abs() < 2e-6, "{completed} {place}");
                assert!(
                    (flow.goodput_bps * took / 80_000.0 - 1.0).abs() < 1e-6,
                    "{} {place}",
                    flow.goodput_bps
                );
            }
            let text = format!("{BRIEF}{asks}").replace("POSITION", position).replace("STACK", stack);
            let alone = text.replace("bytes = 10000", "bytes = 10000\n start = '20s'");
            let result = simulate(&alone, 0);
            let asked = result.workloads[0].list[1].fct_s.unwrap();
            let took = result.flows[0].fct_s.unwrap();
            assert!((asked - took).abs() < 2e-6, "{stack} {position}: {asked} {took}");
        }
    }
}

#[test]
fn with_a_handshake_of_its_own_a_request_leaves_when_the_syn_ack_has_come() {
    for reverse in ["", "[bottleneck.reverse]\n rate = '100gbit'\n qdisc = 'pfifo'\n"] {
        for position in ["0", "0.5", "1"] {
            let text = format!("{BRIEF} syn_fin = true\n{reverse}")
                .replace("POSITION", position)
                .replace("STACK", "tcp");
            let result = simulate(&text, 0);
            let took = result.flows[0].fct_s.unwrap();
            // Seven packets and the FIN.
            let transmission = (10_000.0 + 8.0 * 66.0) * 8.0 / 100e6;
            assert!((took - 0.1 - transmission).abs() < 10e-6, "{took} {position} {reverse}");
        }
    }
}

#[test]
fn rates_of_a_flow_for_a_time_are_over_that_time_and_nobody_waits_for_datagrams() {
    let tcp =
        BRIEF.replace("POSITION", "0.2").replace("STACK", "tcp").replace("bytes = 10000", "duration = '5s'");
    let result = simulate(&tcp, 0);
    let flow = &result.flows[0];
    assert!((flow.goodput_bps * 5.0 / 8.0 / flow.received_bytes as f64 - 1.0).abs() < 1e-9, "{flow:?}");
    let udp = BRIEF
        .replace("POSITION", "0.2")
        .replace("STACK", "udp")
        .replace("controller = \"cubic\"", "rate = '1mbit'");
    let result = simulate(&udp, 0);
    let flow = &result.flows[0];
    assert!(flow.received_bytes >= 10_000 && flow.fct_s.is_none() && flow.completed_s.is_none(), "{flow:?}");
    assert!(result.health.warnings.is_empty(), "{:?}", result.health.warnings);
}

#[test]
fn timestamps_show_the_half_between_sender_and_bottleneck() {
    // Little of the round trip lies behind the bottleneck, and nothing comes back there but acknowledgements.
    for reverse in ["", "[bottleneck.reverse]\n rate = '20mbit'\n qdisc = 'pfifo'\n"] {
        let with = |law: &str| {
            let text = format!(
                "[law]\n preset = 'robust'\n {law}\n [bottleneck]\n rate = '20mbit'\n rtt = '60ms'\n position = 0.1\n \
                 qdisc = 'fq_codel'\n {reverse} [[flow]]\n stack = 'tcp'\n controller = 'cubic'\n duration = '20s'\n"
            );
            simulate(&text, 0)
        };
        let (whole, halves) = (with(""), with("timestamp_cycles = false"));
        let seen = |run: &RunResult| {
            let flow = &run.flows[0];
            (flow.packets, flow.dropped, flow.received_bytes)
        };
        assert_eq!(seen(&whole), seen(&halves), "the law only watches");
        let (cycles, halves) = (whole.flows[0].cycles, halves.flows[0].cycles);
        println!("{cycles} whole round trips, {halves} halves");
        // Of the path 60 ms, and in the queue up to ten more.
        assert!((285..=333).contains(&cycles) && halves > cycles * 2, "{cycles} {halves}");
    }
}

fn json(result: &RunResult) -> serde_json::Value {
    serde_json::to_value(result).unwrap()
}

const SHORT: &str = r#"
    [bottleneck]
    rate = "10mbit"
    rtt = "20ms"
    qdisc = "QDISC"
    [[flow]]
    stack = "tcp"
    controller = "cubic"
    ecn = true
    duration = "2s"
"#;

#[test]
fn run_json_holds_the_settings_that_the_law_had() {
    let law = |scenario: &str| json(&simulate(scenario, 0))["meta"]["law"].clone();
    let of = |qdisc: &str| law(&SHORT.replace("QDISC", qdisc));
    for (qdisc, main_signal, reset) in [
        ("bfifo", "loss", false),
        ("codel ecn", "ecn", false),
        ("crq", "loss", true),
        ("crq standard codel ecn responsive codel ecn", "ecn", true),
        ("crq standard codel ecn responsive codel ecn_responsive step", "both", true),
    ] {
        let law = of(qdisc);
        assert_eq!(
            (&law["main_signal"], &law["reset_on_switch"]),
            (&main_signal.into(), &reset.into()),
            "{qdisc}"
        );
        assert_eq!(law.as_object().unwrap().len(), weir_law::Params::FIELDS.len(), "all of them: {law}");
    }
    let given = law(&format!(
        "[law]\npreset = 'comsys'\nmain_signal = 'loss'\n{}",
        SHORT.replace("QDISC", "codel ecn")
    ));
    assert_eq!((&given["main_signal"], &given["full_cycles"]), (&"loss".into(), &false.into()));
}

#[test]
fn a_run_in_virtual_time_tells_nothing_of_the_machine() {
    let result = simulate(&SHORT.replace("QDISC", "codel ecn"), 0);
    let meta = &json(&result)["meta"];
    assert!(meta["machine"].is_null() && meta["started_unix_s"].is_null(), "{meta}");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(!json(&result).to_string().contains(kernel.trim()), "the kernel is in it");

    let page = page::html(&[("run", &result)]);
    for nothing in ["1970-01-01", "<dt>started", "<dt>machine"] {
        assert!(!page.contains(nothing), "{nothing}: of a machine only");
    }
    for nothing in
        ["packets left late by", "link capacity lost", "ring full", "CPU of the emulator", "burst above"]
    {
        assert!(!page.contains(nothing), "{nothing}: of a real clock only");
    }
    assert!(page.contains("packets conserved") && page.contains("overtaken within a flow"));
    assert!(page.contains("virtual") && !page.contains("What the emulator says about its own error"));
    let text = summary::text(&[("run", &result)]);
    assert!(!text.contains("left late") && !text.contains("CPU"), "{text}");
    assert!(text.contains(" in = ") && text.contains("virtual time"), "{text}");
}

/// The rows of a table by the column that names what they are of, from its second column on.
fn rows(folder: &Path, table: &str) -> BTreeMap<String, Vec<csv::StringRecord>> {
    let mut reader = csv::Reader::from_path(folder.join(table)).unwrap();
    let mut of = BTreeMap::<_, Vec<_>>::new();
    for row in reader.records().map(Result::unwrap) {
        of.entry(row[1].to_owned()).or_default().push(row);
    }
    of
}

#[test]
fn each_bin_has_its_row_and_the_last_counts_by_its_length() {
    // A link that is never idle; flows that end with the run, sooner, begin late, or never get to send.
    let scenario = |end: &str, interval: &str| {
        format!(
            "[bottleneck]\nrate = '10mbit'\nrtt = '20ms'\nqdisc = 'bfifo'\n\
             [[flow]]\nname = 'all'\nstack = 'udp'\nrate = '20mbit'\n\
             [[flow]]\nname = 'end'\nstack = 'udp'\nrate = '1mbit'\nduration = '{end}'\n\
             [[flow]]\nname = 'soon'\nstack = 'udp'\nrate = '1mbit'\nduration = '300ms'\n\
             [[flow]]\nname = 'late'\nstack = 'udp'\nrate = '1mbit'\nstart = '600ms'\n\
             [[flow]]\nname = 'never'\nstack = 'udp'\nrate = '1mbit'\nstart = '50s'\n\
             [measure]\ninterval = '{interval}'\n"
        )
    };
    // A packet more than the rate may begin in any bin.
    let packet_bps = |seconds: f64| 1514.0 * 8.0 / seconds;
    for end in ["900ms", "930ms", "970ms", "1001ms", "1049ms"] {
        let result = simulate(&scenario(end, "50ms"), 0);
        let folder = tempfile::tempdir().unwrap();
        output::write(folder.path(), &result).unwrap();
        let flows = rows(folder.path(), "flow_series.csv");
        let whole = flows["all"].len();
        let lasted = result.meta.wall_s;
        assert!((lasted / 0.05 - whole as f64).abs() <= 0.5, "{lasted} s in {whole} bins");
        for (name, rows) in &flows {
            let times: Vec<f64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
            let bins: Vec<f64> = (0..whole).map(|bin| (bin * 5) as f64 / 100.0).collect();
            assert_eq!(times, bins, "{name} until {end}");
        }
        assert_eq!(flows.len(), 5, "{:?}", flows.keys());
        let rate = |name: &str, bin: usize| flows[name][bin][2].parse::<f64>().unwrap();
        assert_eq!((rate("soon", whole - 2), rate("never", 3), rate("late", 0)), (0.0, 0.0, 0.0));
        // At least half a bin: a shorter rest counts with the bin before.
        let length = lasted - 0.05 * (whole - 1) as f64;
        let last: f64 = flows.keys().map(|name| rate(name, whole - 1)).sum();
        assert!((last - 10e6).abs() <= packet_bps(length) + 1.0, "{last} bit/s in the last {length} s");
        // Nothing is lost: the bins hold all that left.
        let sent: f64 = flows
            .values()
            .flat_map(|rows| rows.iter().enumerate())
            .map(|(bin, row)| {
                let seconds = if bin + 1 == whole { length } else { 0.05 };
                row[2].parse::<f64>().unwrap() / 8.0 * seconds
            })
            .sum();
        assert!((sent - result.queues[0].departed_bytes as f64).abs() < 1.0, "{sent}");
        let queues = rows(folder.path(), "queue_series.csv");
        assert_eq!(queues["queue"].len(), whole);
        let used = result.queues[0].departed_bytes as f64 * 8.0 / 10e6 / lasted;
        let page = page::html(&[("run", &result)]);
        assert!(used > 0.97 && page.contains("<dt>link used</dt><dd>100 %</dd>"), "{used}");
        // And read back they are the same.
        let (read, again) = (weir_report::read::read(folder.path()).unwrap(), tempfile::tempdir().unwrap());
        output::write(again.path(), &read).unwrap();
        for table in ["flow_series.csv", "queue_series.csv"] {
            let text = |folder: &Path| std::fs::read_to_string(folder.join(table)).unwrap();
            assert!(text(folder.path()) == text(again.path()), "{table} until {end}");
        }
    }
}

#[test]
fn what_is_no_completion_is_not_called_one() {
    let page = |scenario: &str| page::html(&[("run", &simulate(scenario, 0))]);
    // A flow that is to last a time has nothing to complete.
    let timed = page(&SHORT.replace("QDISC", "bfifo"));
    assert!(
        !timed.contains("flow completed") && !timed.contains("flows completed"),
        "nothing was to complete"
    );
    let sized = page(&SHORT.replace("QDISC", "bfifo").replace("duration = \"2s\"", "bytes = \"100kb\""));
    assert!(sized.contains("One flow completed"));
    let cut = "bytes = \"100mb\"\n[measure]\ntimeout = \"1s\"";
    let cut = page(&SHORT.replace("QDISC", "bfifo").replace("duration = \"2s\"", cut));
    assert!(cut.contains("No flow completed"));
    let crowd = "[[workload]]\nkind = 'requests'\nstack = 'tcp'\ncontroller = 'cubic'\nusers = 3\nsize = '20kb'\nthink = \
                 '100ms'\nduration = '2s'\n";
    let (timed, alone) =
        (SHORT.replace("QDISC", "bfifo"), SHORT.split("[[flow]]").next().unwrap().replace("QDISC", "bfifo"));
    for scenario in [format!("{timed}{crowd}"), format!("{alone}{crowd}")] {
        let result = simulate(&scenario, 0);
        let count = result.workloads[0].completed;
        let page = page::html(&[("run", &result)]);
        assert!(
            count > 20 && page.contains(&format!("{count} of {count} requests were answered")),
            "{count}"
        );
        assert!(!page.contains("No flow completed"), "{count} requests were answered");
    }
}

#[test]
fn a_flow_that_ignores_its_marks_is_told_of() {
    let run = |controller: &str, rtt: &str, ecn: bool, stack: &str| {
        let scenario = format!(
            "[bottleneck]\nrate = '20mbit'\nrtt = '{rtt}'\nqdisc = 'step threshold 1ms'\n[[flow]]\nname = 'mine'\n\
             stack = '{stack}'\ncontroller = '{controller}'\necn = {ecn}\nduration = '3s'\n"
        );
        simulate(&scenario, 0)
    };
    for stack in ["tcp", "quic"] {
        for controller in ["bbr2", "bbr3"] {
            for rtt in ["6ms", "20ms"] {
                let result = run(controller, rtt, true, stack);
                assert!(result.flows[0].marked > 0, "{controller} {rtt}");
                let [warning] = result.health.warnings.as_slice() else {
                    panic!("{stack} {controller} {rtt}: {:?}", result.health.warnings)
                };
                assert!(warning.starts_with("flow 'mine'") && warning.contains("5ms"), "{warning}");
                assert!(warning.contains(&format!("{controller}-ecn")), "the remedy: {warning}");
            }
            for (controller, rtt, ecn) in [
                (controller.to_owned(), "5ms", true),
                (controller.to_owned(), "20ms", false),
                (format!("{controller}-ecn"), "20ms", true),
            ] {
                let result = run(&controller, rtt, ecn, stack);
                assert!(
                    result.health.warnings.is_empty(),
                    "{controller} {rtt}: {:?}",
                    result.health.warnings
                );
            }
        }
    }
}

#[test]
fn a_workload_that_ignores_its_marks_is_told_of() {
    let run = |rtt: &str, controller: &str| {
        let scenario = format!(
            "[bottleneck]\nrate = '20mbit'\nrtt = '{rtt}'\nqdisc = 'step threshold 1ms'\n[[workload]]\nname = 'mine'\n\
             kind = 'requests'\nstack = 'quic'\ncontroller = '{controller}'\necn = true\nsize = '1mb'\nthink = '10ms'\n\
             duration = '3s'\n"
        );
        let result = simulate(&scenario, 0);
        assert!(result.workloads[0].marked > 0, "{controller} {rtt}");
        result.health.warnings
    };
    for controller in ["bbr3", "weir-bbr2"] {
        let warnings = run("6ms", controller);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("workload 'mine' ignored its ECN marks"),
            "{warnings:?}"
        );
        assert_eq!(run("4ms", controller), [""; 0]);
    }
    assert_eq!(run("6ms", "bbr2-ecn"), [""; 0]);
}

#[test]
fn a_controller_that_no_world_has_is_told_of_without_this_kernel() {
    let said = |stack: &str, controller: &str| {
        let scenario = SHORT.replace("QDISC", "bfifo").replace("\"tcp\"", &format!("\"{stack}\""));
        let scenario = scenario.replace("\"cubic\"", &format!("\"{controller}\""));
        weir_scenario::Scenario::parse(&scenario, "x.toml").unwrap_err().to_string()
    };
    for (stack, controller, meant) in
        [("tcp", "copaa", "copa"), ("tcp", "cubik", "cubic"), ("quic", "pragu", "prague")]
    {
        let error = said(stack, controller);
        assert!(error.contains(&format!("did you mean '{meant}'")), "{error}");
        let of_sim =
            if stack == "tcp" { "in world sim reno, cubic, cubic-rfc9438" } else { "weir-reno, weir-cubic" };
        assert!(error.contains(of_sim), "{error}");
        assert!(!error.contains("this kernel"), "no world is chosen yet: {error}");
    }
}

/// Two flows beside each other, the second from 5 s on, and a crowd.
const WINDOWED: &str = r#"
    [bottleneck]
    rate = "20mbit"
    rtt = "20ms"
    qdisc = "pie"
    [[flow]]
    name = "first"
    stack = "tcp"
    controller = "cubic"
    duration = "12s"
    [[flow]]
    name = "second"
    stack = "udp"
    rate = "4mbit"
    start = "5s"
    duration = "3s"
    [[workload]]
    name = "web"
    kind = "poisson"
    stack = "tcp"
    controller = "cubic"
    arrivals = 20
    size = "10kb"
    duration = "12s"
    [measure]
    interval = "100ms"
"#;

#[test]
fn totals_are_of_the_measuring_window_and_series_of_the_whole_run() {
    let whole = simulate(WINDOWED, 0);
    let part = simulate(&format!("{WINDOWED}    from = '6s'\n    to = '10s'\n"), 0);
    // What happens is the same.
    assert_eq!(whole.series.flows, part.series.flows);
    assert_eq!(whole.series.queues, part.series.queues);
    assert_eq!(whole.workloads[0].list, part.workloads[0].list);
    assert!(part.health.warnings.is_empty(), "{:?}", part.health.warnings);
    // Totals are those of the bins from 60 to 99.
    let bins = |flow: usize| &whole.series.flows[flow][60..whole.series.flows[flow].len().min(100)];
    for (index, seconds) in [(0, 4.0), (1, 2.0), (2, 4.0)] {
        let bytes: u64 = bins(index).iter().map(|bin| bin.departed_bytes).sum();
        let (name, rate, marked, dropped) = match part.flows.get(index) {
            Some(flow) => (&flow.name, flow.throughput_bps, flow.marked, flow.dropped),
            None => {
                let web = &part.workloads[0];
                (&web.name, web.throughput_bps, web.marked, web.dropped)
            }
        };
        assert!((rate / (bytes as f64 * 8.0 / seconds) - 1.0).abs() < 0.01, "{name}: {rate}");
        assert_eq!(dropped, bins(index).iter().map(|bin| u64::from(bin.dropped)).sum::<u64>(), "{name}");
        assert_eq!(marked, 0, "{name}");
    }
    let queue: u64 = whole.series.queues[0][60..100].iter().map(|bin| u64::from(bin.departed)).sum();
    assert_eq!((part.queues[0].departed, part.queues[0].sojourn_ns.count()), (queue, queue));
    let waited: u64 = part.flow_sojourn_ns.iter().map(weir_core::Histogram::count).sum();
    assert_eq!(waited, queue, "each packet is somebody's");
    // Payload is 1472 of 1514 bytes of a datagram.
    let second = &part.flows[1];
    assert!((second.goodput_bps / (4e6 * 1472.0 / 1514.0) - 1.0).abs() < 0.01, "{}", second.goodput_bps);
    let asked = part.workloads[0].list.iter().filter(|request| (6.0..10.0).contains(&request.start_s));
    assert_eq!(part.workloads[0].requests, asked.count() as u64);
    assert!((0.9..=1.0).contains(&page::utilisation(&part).unwrap()));
    for text in [summary::text(&[("run", &part)]), page::html(&[("run", &part)])] {
        assert!(text.contains("from 6s to 10s"), "{text}");
    }
    // From files the same is read as was written, but for what classes of sojourn times lose.
    let folder = tempfile::tempdir().unwrap();
    output::write(folder.path(), &part).unwrap();
    let again = weir_report::read::read(folder.path()).unwrap();
    let written = |result: &RunResult| -> Vec<_> {
        let flows = result.flows.iter().map(|flow| (flow.packets, flow.throughput_bps, flow.sojourn_p99_ms));
        flows
            .chain(result.workloads.iter().map(|web| (web.packets, web.throughput_bps, web.sojourn_p99_ms)))
            .collect()
    };
    assert_eq!(written(&again), written(&part));
    let counts = |result: &RunResult| -> Vec<Vec<(u64, u64)>> {
        result.flow_sojourn_ns.iter().map(|sojourn| sojourn.buckets().collect()).collect()
    };
    assert_eq!(counts(&again), counts(&part));
}

#[test]
fn a_run_that_ends_before_it_was_to_be_measured_is_told_of() {
    let late = simulate(&format!("{WINDOWED}    from = '20s'\n"), 0);
    let warnings = &late.health.warnings;
    assert!(warnings.len() == 1 && warnings[0].starts_with("the run ended before 20s"), "{warnings:?}");
    assert_eq!((late.flows[0].packets, late.flows[0].goodput_bps, late.queues[0].departed), (0, 0.0, 0));
    assert_eq!(page::utilisation(&late), None);
}

#[test]
fn flows_set_out_when_they_have_drawn_to() {
    let text = "[bottleneck]\nrate = '10mbit'\nrtt = '10ms'\nqdisc = 'pfifo'\n[[flow]]\nstack = 'udp'\n\
                rate = '1mbit'\nstart = '1s'\nstart_spread = '2s'\nduration = '1s'\ncount = 4\n\
                [[flow]]\nname = 'none'\nstack = 'udp'\nrate = '1mbit'\ncount = 0\n";
    let result = simulate(text, 3);
    assert_eq!(result.flows.len(), 4);
    for (flow, bins) in result.flows.iter().zip(&result.series.flows) {
        let first = bins.iter().position(|bin| bin.departed_bytes > 0).unwrap();
        assert!((1.0..3.0).contains(&flow.start_s), "{}", flow.start_s);
        // Bins of 50 ms; a datagram needs 5 ms to the client, and leaves the queue before.
        assert_eq!(first, (flow.start_s / 0.05) as usize, "{}", flow.start_s);
    }
    let starts =
        |run| simulate(text, run).flows.iter().map(|flow| flow.start_s.to_bits()).collect::<Vec<_>>();
    assert_eq!(starts(3), starts(3));
    assert_ne!(starts(3), starts(4));
}

/// More flows than cake has queues for, nine and more to a set of eight, which come and go.
#[test]
fn what_cake_lets_overtake_is_no_fault_of_the_program() {
    let text = "[bottleneck]\n rate = '1gbit'\n rtt = '20ms'\n qdisc = 'cake'\n [[flow]]\n stack = 'tcp'\n \
                controller = 'cubic'\n count = 1000\n start_spread = '1s'\n bytes = '100kb'\n [[flow]]\n \
                stack = 'quic'\n controller = 'reno'\n count = 1000\n rtt = '100ms'\n duration = '1s'\n";
    let result = judged(text, 0, false);
    println!("{} overtook", result.health.overtaken);
    assert!(result.health.overtaken > 0, "the test needs some that do");
    assert!(result.health.warnings.is_empty(), "{:?}", result.health.warnings);
    let page = page::html(&[("run", &result)]);
    assert!(!page.contains("<dd class=\"bad\">"));
}
