//! `weir assess`: how a network with the responsiveness law would judge the flows of a capture.
//!
//! Reads the file, hands it to `weir-law`, and prints a table or JSON. `docs/reference/assess.md` explains
//! what it reads and prints.

mod input;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use weir_assess::capture::link_name;
use weir_assess::{CaptureCounters, DirectionReport, FlowReport, KindReport, Options, Report, assess};
use weir_core::words::hint;
use weir_law::{Params, Verdict};

use crate::cli::AssessArgs;
use crate::talk;

/// Assesses the capture and prints the result. The exit code is 0 for a whole capture, 1 for one that could be read
/// only in part (its flows so far are printed) and 2 for a wrong `--preset` or `--set`.
pub(crate) fn run(args: &AssessArgs) -> anyhow::Result<ExitCode> {
    let params = match parameters(&args.preset, &args.set) {
        Ok(params) => params,
        Err(message) => return Ok(talk::wrong(&message)),
    };
    let path = args.capture.display();
    let input = input::open(&args.capture).with_context(|| format!("cannot open the capture {path}"))?;
    let report = assess(input, &Options::new(params, args.flows as usize));
    let nothing = report.error.is_some() && report.counters.packets == 0 && !args.json;
    if !nothing {
        talk::print_with(|out| print(&report, args.json, out))?;
    }
    match &report.error {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => {
            talk::say!("weir: {path}: {error}");
            if report.counters.packets > 0 {
                talk::say!("the {} packets before that were assessed", report.counters.packets);
            }
            Ok(ExitCode::from(1))
        }
    }
}

/// Prints flow by flow, for there may be many.
fn print(report: &Report, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        serde_json::to_writer_pretty(&mut *out, report)?;
        writeln!(out)
    } else {
        table(report, out)
    }
}

/// The preset with each `NAME=VALUE` over it. Values are TOML scalars; a bare word is a string.
fn parameters(preset: &str, set: &[String]) -> Result<Params, String> {
    let mut pairs = Vec::new();
    for assignment in set {
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(format!(
                "--set {assignment}: write NAME=VALUE, for example --set min_window_segments=2"
            ));
        };
        let (name, value) = (name.trim(), value.trim());
        if !Params::FIELDS.contains(&name) {
            return Err(format!(
                "--set {assignment}: there is no parameter '{name}'{}",
                hint(name, Params::FIELDS)
            ));
        }
        pairs.push((name, scalar(value)));
    }
    let without = |left_out: Option<usize>| -> Result<Params, toml::de::Error> {
        let kept = pairs.iter().enumerate().filter(|(at, _)| Some(*at) != left_out);
        let mut table = toml::Table::new();
        table.insert("preset".to_owned(), preset.into());
        table.extend(kept.map(|(_, (name, value))| ((*name).to_owned(), value.clone())));
        table.try_into()
    };
    toml::Table::from_iter([("preset".to_owned(), preset.into())])
        .try_into::<Params>()
        .map_err(|_| format!("unknown preset '{preset}': use paper, comsys or robust"))?;
    // All are set before any is judged: whether two go together depends on no order.
    without(None).map_err(|error| {
        let blamed: Vec<&str> =
            (0..set.len()).filter(|at| without(Some(*at)).is_ok()).map(|at| set[at].as_str()).collect();
        let blamed = if blamed.is_empty() { set.join(" --set ") } else { blamed.join(" --set ") };
        format!("--set {blamed}: {}", error.message().trim_end_matches('\n'))
    })
}

/// A TOML scalar, or the text itself.
fn scalar(text: &str) -> toml::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    match parsed.ok().and_then(|mut table| if table.len() == 1 { table.remove("value") } else { None }) {
        Some(value) => value,
        None => toml::Value::String(text.to_owned()),
    }
}

/// Wider flows get a line of their own.
const FLOW_WIDTH: usize = 32;

fn table(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let widths = report.flows.iter().map(|flow| ends(&flow.data).len());
    let width = widths.filter(|len| *len <= FLOW_WIDTH).max().unwrap_or(4).max(4);
    writeln!(out, "{}", summary(&report.counters, report.flows.len()))?;
    if report.flows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:<width$} {:<5} {:>5} {:>5} {:>6} {:>9} {:>14} {:>4} {:>4} {:>5} VERDICT",
        "FLOW", "STACK", "BYTES", "RATE", "CYCLES", "RTT ms", "WINDOW kB", "LOST", "CE", "SCORE",
    )?;
    for flow in &report.flows {
        out.write_all(rows(flow, width).as_bytes())?;
    }
    write!(
        out,
        "\nThe direction with more payload, as judged at the capture point. RATE bit/s of payload; RTT ms of the \
         cycles,\nmedian/99th percentile; WINDOW kB per cycle, least/median/most; LOST segments; CE marks; SCORE \
         share of cycles\nat which it was responsive; VERDICT with the votes for:against.\n"
    )
}

fn rows(flow: &FlowReport, width: usize) -> String {
    let mut out = String::new();
    row(&mut out, &ends(&flow.data), width, flow.stack.name(), &flow.data);
    if classified(&flow.other.loss) || classified(&flow.other.mark) {
        row(&mut out, &ends(&flow.other), width, "", &flow.other);
    }
    out
}

fn ends(direction: &DirectionReport) -> String {
    format!("{} > {}", direction.source, direction.destination)
}

fn classified(kind: &KindReport) -> bool {
    kind.verdict != Verdict::Unclassified
}

fn summary(counters: &CaptureCounters, flows: usize) -> String {
    let one = |count: u64| if count == 1 { "" } else { "s" };
    let mut out =
        format!("{} packet{}, {flows} flow{}", counters.packets, one(counters.packets), one(flows as u64));
    let link = match counters.other_link {
        Some(link) => match link_name(link) {
            Some(name) => format!("of link type {link} ({name}), which is not read"),
            None => format!("of link type {link}, which is not read"),
        },
        None => String::new(),
    };
    let parts: [(u64, &str); 17] = [
        (counters.tunnelled, "out of tunnels"),
        (counters.not_ip, "not IP"),
        (counters.truncated, "with cut headers"),
        (counters.malformed, "malformed"),
        (counters.fragments, "fragments"),
        (counters.other_protocols, "neither TCP nor UDP"),
        (counters.wifi_encrypted, "of encrypted 802.11, not read"),
        (counters.wifi_other, "of 802.11 without a packet, not read"),
        (counters.mpls, "of MPLS without IP, not read"),
        (counters.gre, "of GRE without IP, not read"),
        (counters.ppp, "of PPP without IP, not read"),
        (counters.too_deep, "in too many layers, not read"),
        (counters.other_links, &link),
        (counters.without_time, "without a time"),
        (counters.backwards, "earlier than the one before"),
        (counters.left_out, "of more flows than are kept (--flows N keeps more)"),
        (counters.connections_left_out, "connections more than are kept (--flows N keeps more)"),
    ];
    for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(out, ", {count} {what}");
    }
    out
}

fn row(out: &mut String, ends: &str, width: usize, stack: &str, direction: &DirectionReport) {
    let mut name = ends;
    if ends.len() > width {
        let _ = writeln!(out, "{ends}");
        name = "";
    }
    let rate = direction.mean_rate_bits_per_second.map_or_else(|| "-".to_owned(), short);
    let rtt = direction
        .cycle_ms
        .map_or_else(|| "-".to_owned(), |ms| format!("{}/{}", three(ms.p50), three(ms.p99)));
    let window = direction.window_bytes.map_or_else(
        || "-".to_owned(),
        |bytes| format!("{}/{}/{}", three(bytes.min / 1e3), three(bytes.p50 / 1e3), three(bytes.max / 1e3)),
    );
    let decided = if classified(&direction.loss) || !classified(&direction.mark) {
        &direction.loss
    } else {
        &direction.mark
    };
    let score = decided.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"));
    let bytes = short(direction.payload_bytes as f64);
    let _ = writeln!(
        out,
        "{name:<width$} {stack:<5} {bytes:>5} {rate:>5} {:>6} {rtt:>9} {window:>14} {:>4} {:>4} {score:>5} {}",
        direction.cycles,
        direction.loss.signals,
        direction.mark.signals,
        verdict(direction),
    );
    for remark in &direction.not_judged {
        let _ = writeln!(out, "  not judged: {}", remark.text);
    }
    for line in evidence(direction) {
        let _ = writeln!(out, "  {line}");
    }
    for remark in &direction.doubts {
        let _ = writeln!(out, "  doubtful: {}", remark.text);
    }
}

fn verdict(direction: &DirectionReport) -> String {
    let votes = |kind: &KindReport| format!("{}:{}", kind.votes.responsive, kind.votes.unresponsive);
    let (loss, mark) = (&direction.loss, &direction.mark);
    match (classified(loss), classified(mark)) {
        (false, false) => Verdict::Unclassified.name().to_owned(),
        (true, false) => format!("{} (loss {})", loss.verdict.name(), votes(loss)),
        (false, true) => format!("{} (CE {})", mark.verdict.name(), votes(mark)),
        (true, true) if loss.verdict == mark.verdict => {
            format!("{} (loss {}, CE {})", loss.verdict.name(), votes(loss), votes(mark))
        }
        (true, true) => {
            format!(
                "{} (loss {}), {} (CE {})",
                loss.verdict.name(),
                votes(loss),
                mark.verdict.name(),
                votes(mark)
            )
        }
    }
}

/// What the signals were seen by.
fn evidence(direction: &DirectionReport) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(seen) = &direction.inferred {
        let parts = [
            (seen.before_capture_point, "lost before the capture point (holes that were filled)"),
            (seen.after_capture_point, "lost behind the capture point (bytes seen twice)"),
            (seen.reordered, "reordered"),
            (seen.needless, "sent again needlessly"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if !parts.is_empty() {
            out.push(parts.join(", "));
        }
        if seen.marks_by_echo > 0 {
            out.push(format!(
                "{} marks behind the capture point, by the receiver's first ECE",
                seen.marks_by_echo
            ));
        }
    }
    // Only TCP answers in the clear.
    if direction.ece_packets + direction.cwr_packets > 0 {
        out.push(format!(
            "CE on {} packets, ECE on {} answers, CWR on {} packets",
            direction.ecn.ce, direction.ece_packets, direction.cwr_packets
        ));
    } else if direction.ecn.ce > 0 {
        out.push(format!("CE on {} packets", direction.ecn.ce));
    }
    out
}

/// A number with three or four digits and a decimal prefix.
fn short(value: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P"];
    let mut scaled = value;
    let mut at = 0;
    while scaled >= 999.5 && at + 1 < prefixes.len() {
        scaled /= 1e3;
        at += 1;
    }
    if at == 0 { format!("{scaled:.0}") } else { format!("{}{}", three(scaled), prefixes[at]) }
}

/// Three significant digits, without decimals from 100 on.
fn three(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use weir_law::{MainSignal, Params, Preset};

    use super::{parameters, short, three};

    fn set(assignments: &[&str]) -> Result<Params, String> {
        let set: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
        parameters("paper", &set)
    }

    #[test]
    fn parameters_are_toml_scalars_over_the_preset() {
        assert_eq!(set(&[]), Ok(Params::preset(Preset::Paper)));
        assert_eq!(parameters("comsys", &[]), Ok(Params::preset(Preset::Comsys)));
        let changed =
            set(&["min_window_segments=2", "full_cycles = false", "main_signal=ecn", "tie=\"keep\""])
                .unwrap();
        assert_eq!((changed.min_window_segments, changed.full_cycles), (2, false));
        assert_eq!(changed.main_signal, MainSignal::Ecn);
    }

    #[test]
    fn what_goes_together_may_be_set_in_any_order() {
        let robust = |assignments: [&str; 2]| parameters("robust", &assignments.map(str::to_owned));
        let expected = Params { byte_counters: true, whole_conduct: false, ..Params::preset(Preset::Robust) };
        let pair = ["byte_counters=true", "whole_conduct=false"];
        assert_eq!(robust(pair), Ok(expected));
        assert_eq!(robust([pair[1], pair[0]]), Ok(expected));
        let both = parameters("paper", &["byte_counters=true", "whole_conduct=true"].map(str::to_owned));
        assert!(both.unwrap_err().starts_with("--set byte_counters=true --set whole_conduct=true: "));
        // What is wrong by itself is named by itself.
        assert!(set(&["mss=1000", "tie=maybe"]).unwrap_err().starts_with("--set tie=maybe: "));
    }

    #[test]
    fn wrong_parameters_say_what_is_right() {
        let message = |assignment| set(&[assignment]).unwrap_err();
        assert!(message("min_windw_segments=2").contains("did you mean 'min_window_segments'?"));
        assert!(message("zzz=2").contains("; known are mss, "));
        assert!(message("mss").contains("NAME=VALUE"));
        assert!(message("mss=big").contains("--set mss=big: "), "{}", message("mss=big"));
        assert!(message("spin_debounce=99").contains("1 to 16"), "{}", message("spin_debounce=99"));
        assert!(message("tie=maybe").contains("keep"), "{}", message("tie=maybe"));
        // Text cannot smuggle in a second key.
        assert!(message("mss=1\nfull_cycles=false").contains("--set"));
        assert!(parameters("papers", &[]).unwrap_err().contains("paper, comsys or robust"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let shorts =
            [(0.0, "0"), (999.0, "999"), (1_000.0, "1.00k"), (999_600.0, "1.00M"), (48_120_000.0, "48.1M")];
        for (value, text) in shorts {
            assert_eq!(short(value), text);
        }
        assert_eq!([three(0.5), three(10.0), three(99.96), three(1234.4)], ["0.50", "10.0", "100", "1234"]);
    }

    #[test]
    fn a_missing_file_is_an_error_with_its_name() {
        let args = crate::cli::AssessArgs {
            capture: PathBuf::from("/nonexistent/capture.pcap"),
            preset: "paper".to_owned(),
            set: Vec::new(),
            flows: 65_536,
            json: false,
        };
        let error = super::run(&args).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/capture.pcap"));
    }
}
