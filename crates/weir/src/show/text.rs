//! `weir show` in words, laid out like iproute2: a block per bottleneck, or a row per flow.

use std::fmt::Write as _;

use super::numbers::{bytes, rate, short, span, three};
use weir_core::QueueChoice;
use weir_kernel::model::{Bottleneck, Flow, Queue, State};
use weir_kernel::{Fault, Lost};
use weir_law::Votes;

/// A block per bottleneck; with `statistics` what the kernel and the programs have counted.
pub(crate) fn bottlenecks(shown: &[Bottleneck], lost: &[Lost], statistics: bool, now_unix_s: f64) -> String {
    let known = shown.iter().map(|bottleneck| block(bottleneck, statistics, now_unix_s));
    let blocks: Vec<String> = known.chain(lost.iter().map(lost_block)).collect();
    blocks.join("\n").trim_end().to_owned()
}

fn lost_block(lost: &Lost) -> String {
    let mut out = format!("{} {}: {}\n", lost.device, lost.direction, Lost::STATE);
    fault(&mut out, &lost.fault);
    out
}

fn fault(out: &mut String, fault: &Fault) {
    let _ = writeln!(out, "    FAULT {}\n          mend: {}", fault.what, fault.remedy);
}

fn block(shown: &Bottleneck, statistics: bool, now_unix_s: f64) -> String {
    let mut out = String::new();
    let _ = write!(out, "{} {}: {}", shown.device, shown.direction.name(), shown.state.name());
    if let Some(since) = shown.since_unix_s {
        let _ = write!(out, " for {}", span((now_unix_s - since as f64).max(0.0)));
    }
    let _ = write!(out, " rate {}", rate(shown.rate_bits_per_second as f64));
    let _ = writeln!(out, " sharing {} split {} law {}", shown.sharing, shown.split, law(shown));
    shown.faults.iter().for_each(|fault| self::fault(&mut out, fault));
    for warning in &shown.warnings {
        let _ = writeln!(out, "    WARNING {warning}");
    }
    if shown.queue_device != shown.device {
        let _ = writeln!(out, "    queued on {}", shown.queue_device);
    }
    let programs: Vec<String> = shown
        .programs
        .iter()
        .map(|program| format!("{}: {}", program.what, program.hook.unwrap_or("NOT ATTACHED")))
        .collect();
    list(&mut out, "programs", &programs);
    for queue in &shown.queues {
        self::queue(&mut out, queue, statistics);
    }
    if let Some(table) = &shown.flow_table {
        let _ = writeln!(
            out,
            "    flows {} of {}: responsive {}, unresponsive {}, unclassified {}",
            table.flows, table.capacity, table.responsive, table.unresponsive, table.unclassified,
        );
    }
    if statistics {
        if let Some(shaper) = &shown.shaper {
            let _ = writeln!(
                out,
                "    shaper {} {} sent {} bytes {} pkt, held back {} times",
                shaper.text("kind"),
                shaper.text("handle"),
                shaper.number("bytes"),
                shaper.number("packets"),
                shaper.number("overlimits"),
            );
        }
        let counted: Vec<String> = shown
            .counters
            .0
            .iter()
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        list(&mut out, "counters", &counted);
    }
    out
}

/// The law by the name of its preset, and the signal that chooses the queue.
fn law(shown: &Bottleneck) -> String {
    let word = |name: &str| shown.law.get(name).and_then(|value| value.as_str()).unwrap_or("?").to_owned();
    let by = match word("main_signal").as_str() {
        "ecn" => "marks",
        _ => "loss",
    };
    let set = shown.law.get("set").and_then(|set| set.as_object()).into_iter().flatten();
    let set: String = set.map(|(name, value)| format!(" set {name}={}", unquoted(value))).collect();
    format!("{} by {by}{set}", word("preset"))
}

fn unquoted(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn queue(out: &mut String, queue: &Queue, statistics: bool) {
    let _ = write!(
        out,
        "    {:<10} {} assured {} ",
        queue.queue.name(),
        queue.classid,
        rate(queue.assured_bits_per_second as f64)
    );
    let Some(discipline) = &queue.discipline else {
        let _ = writeln!(out, "{} (GONE)", queue.setup);
        return;
    };
    let number = |name| discipline.number(name);
    let words = format!("{} {} {}", discipline.text("kind"), discipline.text("handle"), discipline.options());
    let _ = writeln!(out, "{}", words.trim_end());
    if statistics {
        let _ = write!(
            out,
            "      sent {} bytes {} pkt (dropped {}, overlimits {}, requeues {})",
            number("bytes"),
            number("packets"),
            number("drops"),
            number("overlimits"),
            number("requeues"),
        );
        let _ = match queue.marks {
            Some(marks) => writeln!(out, " marked {marks}"),
            None => writeln!(out),
        };
        let _ = writeln!(out, "      backlog {} {}p", bytes(number("backlog")), number("qlen"));
    }
}

/// Words under a head, in as many lines as they need.
fn list(out: &mut String, head: &str, words: &[String]) {
    for (index, line) in wrapped(words, 92).into_iter().enumerate() {
        let head = if index == 0 { head } else { "" };
        let _ = writeln!(out, "    {head:<8} {line}");
    }
}

/// Words joined by `, ` into lines of at most `width` characters, where a word has room.
fn wrapped(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + word.len() <= width => {
                line.push_str(", ");
                line.push_str(word);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

const COLUMNS: [(&str, bool); 14] = [
    ("SOURCE", true),
    ("DESTINATION", true),
    ("PROTO", true),
    ("QUEUE", true),
    ("BY LOSS", true),
    ("VOTES", false),
    ("BY MARK", true),
    ("VOTES", false),
    ("CYCLES", false),
    ("RTT ms", false),
    ("WINDOW kB", false),
    ("LOST", false),
    ("CE", false),
    ("IDLE", true),
];

/// A row per flow, and what the columns mean; with `statistics` also what has not counted.
pub(crate) fn flows(shown: &[Bottleneck], statistics: bool) -> String {
    let mut out = String::new();
    for bottleneck in shown {
        if shown.len() > 1 {
            let _ = writeln!(out, "{} {}", bottleneck.device, bottleneck.direction.name());
        }
        let rows: Vec<[String; 14]> = bottleneck.flows.iter().map(row).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([COLUMNS[column].0.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        let heads = COLUMNS.map(|(name, _)| name.to_owned());
        for (index, row) in std::iter::once(&heads).chain(&rows).enumerate() {
            let cells = row.iter().zip(COLUMNS).zip(&widths).map(|((cell, (_, left)), width)| {
                if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join(" ").trim_end());
            if statistics && index > 0 {
                let flow = &bottleneck.flows[index - 1];
                let _ = writeln!(
                    out,
                    "  {} bytes {} pkt, late signals {}, judgements withheld {}",
                    flow.bytes, flow.packets, flow.late_signals, flow.withheld
                );
            }
        }
        out.push('\n');
    }
    out += "BY LOSS, BY MARK verdict with its votes for:against; WINDOW kB, LOST segments and CE marks of the cycle\n\
            that goes on and the two before it; IDLE since its last packet.";
    out
}

fn row(flow: &Flow) -> [String; 14] {
    let three_of = |values: [u32; 3]| values.map(|value| value.to_string()).join("/");
    let votes = |votes: Votes| format!("{}:{}", votes.responsive, votes.unresponsive);
    let windows = flow.window_bytes.map(short_kb).join("/");
    [
        flow.source.clone(),
        flow.destination.clone(),
        flow.protocol.to_owned(),
        flow.queue.name().to_owned(),
        flow.loss_verdict.name().to_owned(),
        votes(flow.loss_votes),
        flow.ecn_verdict.name().to_owned(),
        votes(flow.ecn_votes),
        flow.cycles.to_string(),
        flow.rtt_ms.map_or_else(|| "-".to_owned(), three),
        windows,
        three_of(flow.loss_segments),
        three_of(flow.mark_segments),
        format!("{}{}", span(flow.idle_s), if flow.closing { " closing" } else { "" }),
    ]
}

fn short_kb(window: u64) -> String {
    match window as f64 / 1e3 {
        0.0 => "0".to_owned(),
        kb if kb >= 999.5 => short(kb),
        kb => three(kb),
    }
}

/// What is said on standard error when there is nothing to show.
pub(crate) fn nothing(device: Option<&str>) -> String {
    match device {
        Some(device) => format!("weir: no bottleneck on {device}; weir up dev {device} rate RATE makes one"),
        None => "weir: no bottleneck here; weir up dev DEVICE rate RATE makes one".to_owned(),
    }
}

/// Whether any of them does not work as it should.
pub(crate) fn any_fault(shown: &[Bottleneck]) -> bool {
    shown.iter().any(|bottleneck| bottleneck.state != State::Up)
}

/// The two queues in the order of tables.
pub(crate) const QUEUES: [QueueChoice; 2] = [QueueChoice::Responsive, QueueChoice::Standard];

#[cfg(test)]
mod tests {
    use super::{any_fault, bottlenecks, flows};
    use crate::show::testing::{NOW, bottleneck};
    use weir_kernel::Fault;
    use weir_kernel::model::State;

    #[test]
    fn a_block_has_settings_and_flows() {
        assert_eq!(
            bottlenecks(&[bottleneck()], &[], false, NOW),
            "\
eth0 egress: up for 3h12m rate 20mbit sharing equal split hard law paper by loss
    programs forward at the egress of eth0: tcx, reverse at the ingress of eth0: tcx
             lost (drops) of eth0: tracepoint
    responsive 57e1:1 assured 10mbit bfifo 57e2: limit 30720b
    standard   57e1:2 assured 10mbit codel 57e3: limit 1000p ecn
    flows 3 of 65536: responsive 1, unresponsive 1, unclassified 1"
        );
    }

    #[test]
    fn statistics_are_the_kernels_and_the_programs() {
        let shown = bottlenecks(&[bottleneck()], &[], true, NOW);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[4], "      sent 23625000 bytes 15750 pkt (dropped 12, overlimits 0, requeues 0)");
        assert_eq!(lines[5], "      backlog 29.6kb 20p");
        assert_eq!(
            lines[7],
            "      sent 1500000 bytes 1000 pkt (dropped 3, overlimits 0, requeues 0) marked 17"
        );
        assert_eq!(lines[10], "    shaper htb 57e1: sent 25125000 bytes 16750 pkt, held back 900 times");
        assert_eq!(lines[11], "    counters tcp_packets 16000, admitted 3, loss_segments 15");
        assert_eq!(lines.len(), 12);
    }

    #[test]
    fn what_is_wrong_comes_with_what_mends_it() {
        let mut broken = bottleneck();
        assert!(!any_fault(&[broken.clone()]));
        broken.state = State::Damaged;
        broken.faults = vec![Fault {
            what: "the pins are gone".to_owned(),
            remedy: "weir down eth0 && weir up eth0 ...".to_owned(),
        }];
        broken.queues[1].discipline = None;
        broken.programs[0].hook = None;
        let shown = bottlenecks(&[broken.clone()], &[], true, NOW);
        assert!(shown.starts_with("eth0 egress: damaged for 3h12m rate"), "{shown}");
        assert!(shown.contains("FAULT the pins are gone\n          mend: weir down eth0 &&"), "{shown}");
        assert!(shown.contains("forward at the egress of eth0: NOT ATTACHED,"), "{shown}");
        assert!(shown.contains("assured 10mbit codel (GONE)"), "{shown}");
        assert!(any_fault(&[broken]));
    }

    #[test]
    fn a_warning_is_no_fault() {
        let mut warned = bottleneck();
        warned.warnings = vec!["there are filters".to_owned()];
        let shown = bottlenecks(&[warned.clone()], &[], false, NOW);
        assert!(
            shown.starts_with("eth0 egress: up for") && shown.contains("    WARNING there are filters\n")
        );
        assert!(!any_fault(&[warned]));
    }

    #[test]
    fn flows_are_rows_under_heads() {
        let shown = flows(&[bottleneck()], false);
        let rows = "\
SOURCE         DESTINATION        PROTO QUEUE      BY LOSS      VOTES BY MARK      VOTES CYCLES RTT ms      WINDOW kB  LOST    CE IDLE
10.0.0.1:40000 10.0.1.1:443       tcp   responsive responsive     9:1 unclassified   0:0    120   21.4 12.0/52.5/50.9 0/2/0 0/0/0 0.0s
10.0.0.2:40000 10.0.1.1:443       tcp   standard   unresponsive   0:7 unclassified   0:0     88   20.1     0/104/99.1 4/6/0 0/0/0 0.1s closing
[fd00::1]:4433 [fd00::2:10]:50000 quic  standard   unclassified   0:0 responsive     1:0      4      -          0/0/0 0/0/0 0/1/0 9.0s
";
        assert!(shown.starts_with(rows), "{shown}");
        let more = flows(&[bottleneck(), bottleneck()], true);
        assert!(
            more.contains("  23000000 bytes 15333 pkt, late signals 1, judgements withheld 2\n"),
            "{more}"
        );
        assert_eq!(more.matches("eth0 egress\n").count(), 2, "{more}");
    }
}
