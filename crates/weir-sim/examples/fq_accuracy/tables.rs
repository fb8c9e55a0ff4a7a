//! What came out, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_core::{Duration, wilson};
use weir_fq::Finding;

use crate::cases::Case;
use crate::run::{Found, Held, Kept};

fn is_right(case: &Case, found: &Found) -> bool {
    found.finding == if case.fair { Finding::FairQueued } else { Finding::Shared }
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

/// What is counted of the cases of a row.
struct Row<'a> {
    /// What the cases have in common: of what, and which.
    of: &'static str,
    name: String,
    /// Whether their queues are fair; none: some are.
    fair: Option<bool>,
    cases: Vec<(&'a Case, &'a Found)>,
}

impl Row<'_> {
    fn count(&self, finding: Finding) -> usize {
        self.cases.iter().filter(|(_, found)| found.finding == finding).count()
    }

    fn right(&self) -> usize {
        self.cases.iter().filter(|(case, found)| is_right(case, found)).count()
    }

    /// Seconds until the verdict in this share of the cases.
    fn time(&self, share: f64) -> f64 {
        let times = self.cases.iter().map(|(_, found)| found.took.unwrap_or(Duration::MAX));
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times.get(place).map_or(0.0, |time| time.as_secs_f64())
    }

    fn mean(&self, number: fn(&Found) -> u64) -> f64 {
        let sum: u64 = self.cases.iter().map(|(_, found)| number(found)).sum();
        sum as f64 / self.cases.len().max(1) as f64
    }

    const fn truth(&self) -> &'static str {
        match self.fair {
            Some(true) => "fair",
            Some(false) => "shared",
            None => "both",
        }
    }
}

/// The rows of the tables: by queue, buffer, link, cross traffic, impairment, and of all.
fn rows<'a>(cases: &'a [Case], found: &'a [Found]) -> Vec<Row<'a>> {
    const ORDER: [&str; 6] = ["queue", "buffer", "link", "cross", "impairment", "all"];
    let mut rows: BTreeMap<_, Vec<(&Case, &Found)>> = BTreeMap::new();
    for (case, found) in cases.iter().zip(found) {
        for (of, name) in case.rows() {
            let order = ORDER.iter().position(|other| *other == of);
            for fair in [Some(case.fair)].into_iter().chain((of == "all").then_some(None)) {
                // Fair ones first, and those of both last.
                let place = (order, fair.map_or(2, |fair| u8::from(!fair)));
                rows.entry((place, of, name.clone(), fair)).or_default().push((case, found));
            }
        }
    }
    rows.into_iter().map(|((_, of, name, fair), cases)| Row { of, name, fair, cases }).collect()
}

/// The confusion matrix with its intervals, times and costs.
pub(crate) fn summary(cases: &[Case], found: &[Found]) -> String {
    let mut text = String::new();
    let mut last = "";
    for row in rows(cases, found) {
        if row.of != last {
            let _ = writeln!(
                text,
                "{:<18} {:<6} {:>5} {:>6} {:>6} {:>7} {:>7} {:<15} {:>7} {:>7} {:>6} {:>7} {:>6}",
                row.of,
                "is",
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
            last = row.of;
        }
        let (low, high) = wilson(row.right() as u64, row.cases.len() as u64);
        let _ = writeln!(
            text,
            "{:<18} {:<6} {:>5} {:>6} {:>6} {:>7} {:>7.2} {:<15} {:>7.3} {:>7.3} {:>6.0} {:>7.1} {:>6}",
            row.name,
            row.truth(),
            row.cases.len(),
            row.count(Finding::FairQueued),
            row.count(Finding::Shared),
            row.count(Finding::Unknown),
            100.0 * row.right() as f64 / row.cases.len() as f64,
            format!("{:.2} to {:.2}", 100.0 * low, 100.0 * high),
            row.time(0.5),
            row.time(0.95),
            row.mean(|found| found.sent),
            row.mean(|found| found.lost),
            row.cases.iter().map(|(_, found)| found.lost).max().unwrap_or(0)
        );
    }
    text
}

/// The same for machines. Shares are from 0 to 1, times in seconds.
pub(crate) fn csv(cases: &[Case], found: &[Found]) -> String {
    let mut text =
        "of,name,truth,cases,fair_queued,shared,unknown,right,low,high,median,p95,sent,lost\n".to_owned();
    for row in rows(cases, found) {
        let share = row.right() as f64 / row.cases.len() as f64;
        let (low, high) = wilson(row.right() as u64, row.cases.len() as u64);
        let _ = write!(text, "{},{},{},{}", row.of, row.name, row.truth(), row.cases.len());
        for finding in [Finding::FairQueued, Finding::Shared, Finding::Unknown] {
            let _ = write!(text, ",{}", row.count(finding));
        }
        let (median, late) = (row.time(0.5), row.time(0.95));
        let _ = write!(text, ",{share:.5},{low:.5},{high:.5},{median:.4},{late:.4}");
        let _ = writeln!(text, ",{:.1},{:.1}", row.mean(|found| found.sent), row.mean(|found| found.lost));
    }
    text
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
