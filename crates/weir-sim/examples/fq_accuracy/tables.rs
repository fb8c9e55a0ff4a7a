//! What came out, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_core::Duration;
use weir_fq::Finding;

use crate::cases::Case;
use crate::run::{Found, Held, Kept};

fn is_right(case: &Case, found: &Found) -> bool {
    found.finding == if case.fair { Finding::FairQueued } else { Finding::Shared }
}

/// The interval that contains a share in 19 of 20 cases (E. B. Wilson, 1927).
fn wilson(right: usize, all: usize) -> (f64, f64) {
    const Z: f64 = 1.96;
    let (all, share) = (all.max(1) as f64, right as f64 / all.max(1) as f64);
    let middle = share + Z * Z / (2.0 * all);
    let half = Z * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
    let scale = 1.0 + Z * Z / all;
    ((middle - half) / scale, (middle + half) / scale)
}

/// A line for each case that was not answered rightly.
pub(crate) fn errors(cases: &[Case], found: &[Found]) -> String {
    let mut text = String::new();
    for (case, found) in cases.iter().zip(found).filter(|(case, found)| !is_right(case, found)) {
        let Found { finding, confidence, why, sent, lost, took } = found;
        let took = took.map_or("never".to_owned(), |took| format!("{:.2} s", took.as_secs_f64()));
        let _ = writeln!(
            text,
            "{}: {case}: {confidence:.4} {why} after {took}, {sent} sent, {lost} lost",
            finding.word()
        );
    }
    text
}

/// A row for each group and one for all.
pub(crate) fn summary(cases: &[Case], found: &[Found]) -> String {
    let mut groups: BTreeMap<(bool, &str), Vec<(&Case, &Found)>> = BTreeMap::new();
    for (case, found) in cases.iter().zip(found) {
        groups.entry((case.fair, &case.group)).or_default().push((case, found));
    }
    let mut text = format!(
        "{:<16} {:>5} {:>6} {:>6} {:>7} {:>8} {:<16} {:>7} {:>7} {:>6} {:>7} {:>7}\n",
        "queue",
        "cases",
        "fair",
        "shared",
        "unknown",
        "right %",
        "95 %",
        "median",
        "95th",
        "sent",
        "lost",
        "most"
    );
    for ((_, name), rows) in &groups {
        row(&mut text, name, rows);
    }
    let all: Vec<_> = cases.iter().zip(found).collect();
    for (name, fair) in [("all fair", true), ("all shared", false)] {
        let some: Vec<_> = all.iter().copied().filter(|(case, _)| case.fair == fair).collect();
        row(&mut text, name, &some);
    }
    row(&mut text, "all", &all);
    text
}

fn row(text: &mut String, name: &str, rows: &[(&Case, &Found)]) {
    let count = |finding| rows.iter().filter(|(_, found)| found.finding == finding).count();
    let right = rows.iter().filter(|(case, found)| is_right(case, found)).count();
    let (low, high) = wilson(right, rows.len());
    let mut times: Vec<_> = rows.iter().map(|(_, found)| found.took.unwrap_or(Duration::MAX)).collect();
    times.sort_unstable();
    let time = |share: f64| {
        let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times.get(place).map_or(0.0, |time| time.as_secs_f64())
    };
    let mean = |number: fn(&Found) -> u64| {
        rows.iter().map(|(_, found)| number(found)).sum::<u64>() as f64 / rows.len().max(1) as f64
    };
    let _ = writeln!(
        text,
        "{name:<16} {:>5} {:>6} {:>6} {:>7} {:>8.2} {:<16} {:>7.3} {:>7.3} {:>6.0} {:>7.1} {:>7}",
        rows.len(),
        count(Finding::FairQueued),
        count(Finding::Shared),
        count(Finding::Unknown),
        100.0 * right as f64 / rows.len().max(1) as f64,
        format!("{:.2} to {:.2}", 100.0 * low, 100.0 * high),
        time(0.5),
        time(0.95),
        mean(|found| found.sent),
        mean(|found| found.lost),
        rows.iter().map(|(_, found)| found.lost).max().unwrap_or(0)
    );
}

/// A row for each buffer and one for all.
pub(crate) fn control(cases: &[Case], held: &[Held]) -> String {
    let mut groups: BTreeMap<u64, Vec<&Held>> = BTreeMap::new();
    for (case, held) in cases.iter().zip(held) {
        groups.entry(case.buffer).or_default().push(held);
    }
    let mut text = format!("{:<10} {:>8} {:>8} {:>8}\n", "buffer", "Mbit/s", "RTT ms", "lost %");
    let mut row = |name: &str, some: &[&Held]| {
        let mean = |number: fn(&Held) -> f64| {
            some.iter().map(|held| number(held)).sum::<f64>() / some.len().max(1) as f64
        };
        let [mbit, rtt, lost] =
            [mean(|held| held.mbit), mean(|held| held.rtt), 100.0 * mean(|held| held.lost)];
        let _ = writeln!(text, "{name:<10} {mbit:>8.2} {rtt:>8.1} {lost:>8.2}");
    };
    for (buffer, some) in &groups {
        row(&buffer.to_string(), some);
    }
    row("all", &held.iter().collect::<Vec<_>>());
    text
}

/// A line for each connection whose finding changed or is not right, and a row for each group.
pub(crate) fn again(cases: &[Case], kept: &[Kept]) -> String {
    let mut text = String::new();
    let mut groups: BTreeMap<&str, Vec<(&Case, &Kept)>> = BTreeMap::new();
    for (case, kept) in cases.iter().zip(kept) {
        groups.entry(&case.group).or_default().push((case, kept));
        let right = if case.fair { Finding::FairQueued } else { Finding::Shared };
        if kept.changes > 0 || kept.last != right {
            let _ = writeln!(text, "{}: {case}, {} changes", kept.last.word(), kept.changes);
        }
    }
    let _ = writeln!(
        text,
        "{:<16} {:>6} {:>10} {:>8} {:>8}",
        "queue", "cases", "detections", "changes", "Mbit/s"
    );
    for (name, rows) in &groups {
        let detections: u64 = rows.iter().map(|(_, kept)| kept.detections).sum();
        let changes: usize = rows.iter().map(|(_, kept)| kept.changes).sum();
        let mbit = rows.iter().map(|(_, kept)| kept.mbit).sum::<f64>() / rows.len() as f64;
        let _ = writeln!(text, "{name:<16} {:>6} {detections:>10} {changes:>8} {mbit:>8.2}", rows.len());
    }
    text
}
