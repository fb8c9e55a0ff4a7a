//! `weir probe`.

use std::process::ExitCode;

use weir_fq::{Finding, Findings, SubFlow};
use weir_transport::{Error, ProbeJob, Probed, probe};

use super::found::{Found, percent};
use super::{peer, rate};
use crate::cli::ProbeArgs;
use crate::talk;

/// The exit code where nothing was found out.
const UNKNOWN: u8 = 3;

/// Looks at a path, once or again and again.
pub(super) fn run(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let entry = match weir_fq::catalog::find(&args.peer.detector) {
        Ok(entry) => entry,
        Err(error) => return Ok(talk::wrong(&error)),
    };
    let peer = peer::peer(&args.peer)?;
    let stop = talk::stop_flag()?;
    let mut printed = Ok(());
    let mut last = Finding::Unknown;
    let ended = probe(ProbeJob {
        peer: &peer,
        detector: entry.make(&peer.setup(), peer.spacing),
        again: args.watch.then_some(args.every),
        patience: args.patience.to_std(),
        stop: &stop,
        watch: &mut |probed| {
            last = probed.findings.verdict.finding;
            printed = print(args, probed);
            printed.is_ok()
        },
    });
    printed?;
    match ended {
        Err(Error::Stopped) => Ok(ExitCode::from(talk::INTERRUPTED)),
        Err(error) => Err(error.into()),
        Ok(()) if last == Finding::Unknown => Ok(ExitCode::from(UNKNOWN)),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

fn print(args: &ProbeArgs, probed: &Probed) -> anyhow::Result<()> {
    match (args.json, args.watch) {
        (true, false) => talk::print_json(&found(probed)),
        (true, true) => talk::print_encoded(&serde_json::to_string(&found(probed))?),
        (false, true) => talk::print(&line(&probed.findings)),
        (false, false) => talk::print(&block(probed)),
    }
}

fn found(probed: &Probed) -> Found {
    Found::new(&probed.findings, probed.detector, probed.ports, probed.lateness, &probed.departed)
}

fn confidence(findings: &Findings) -> String {
    let verdict = &findings.verdict;
    match verdict.why {
        "" => "not enough to say".to_owned(),
        why => format!("{} sure, by {why}", percent(verdict.confidence)),
    }
}

fn share(findings: &Findings) -> String {
    findings.rate.map_or_else(|| "-".to_owned(), |found| rate(found.bits_per_sec() as f64))
}

fn round_trip(findings: &Findings) -> String {
    findings.min_rtt.map_or_else(|| "-".to_owned(), |rtt| format!("{:.2} ms", rtt.as_millis_f64()))
}

/// One look of many, in a line.
fn line(findings: &Findings) -> String {
    let word = findings.verdict.finding.word();
    format!("{word:<12} {:<28} {:>12} {:>10}", confidence(findings), share(findings), round_trip(findings))
}

/// One look, in some lines.
fn block(probed: &Probed) -> String {
    let findings = &probed.findings;
    let [heavy, light] = [SubFlow::Heavy, SubFlow::Light].map(|sub_flow| findings.sent[sub_flow.index()]);
    format!(
        "{:<12} {}\nrate         {}\nround trip   {} without queues\ntook         {:.2} s, {} packets, {} of them lost",
        findings.verdict.finding.word(),
        confidence(findings),
        share(findings),
        round_trip(findings),
        probed.took.as_secs_f64(),
        heavy + light,
        findings.lost
    )
}
