//! The rows of a suite as a table for the terminal, and as CSV.

use super::Row;
use weir_report::summary;

/// One line per scenario and discipline.
pub(super) fn text(rows: &[Row]) -> String {
    let mut table = summary::table(&["qdisc", "used %", "delay ms", "p99 ms", "Jain", "drop %", "mark %"]);
    let mut section = "";
    for row in rows {
        if row.section != section {
            table.add_row([format!("{} {}", row.section, row.title)]);
            section = &row.section;
        }
        match &row.failed {
            // Why may be long; it is said below.
            Some(_) => table.add_row([format!("  {}", row.qdisc), "failed".to_owned()]),
            None => table.add_row([
                format!("  {}", row.qdisc),
                percent(row.utilisation, 1),
                join(row, |queue| queue.mean_ms),
                join(row, |queue| queue.p99_ms),
                row.jain.map_or_else(|| "-".to_owned(), |jain| format!("{jain:.3}")),
                percent(row.dropped, 2),
                percent(row.marked, 2),
            ]),
        };
    }
    table.to_string()
}

/// A share in percent, with so many digits behind the point.
pub(super) fn percent(share: Option<f64>, digits: usize) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.digits$}", share * 100.0))
}

/// A number for each queue that something went through.
pub(super) fn join(row: &Row, part: fn(&super::QueueRow) -> Option<f64>) -> String {
    let used = row.queues.iter().filter(|queue| queue.p99_ms.is_some());
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let parts: Vec<String> = used.map(|queue| number(part(queue))).collect();
    parts.join(" / ")
}

/// One record per flow and one per queue of each row, distinguished by `of`.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    let header = [
        "section",
        "title",
        "qdisc",
        "of",
        "name",
        "throughput_bps",
        "sojourn_mean_ms",
        "sojourn_p99_ms",
        "utilisation",
        "jain",
        "dropped_share",
        "marked_share",
    ];
    // Writing to memory cannot fail.
    let _ = out.write_record(header);
    for row in rows.iter().filter(|row| row.failed.is_none()) {
        let mut record = |of: &str, name: &str, numbers: [Option<f64>; 7]| {
            let head = [&row.section, &row.title, &row.qdisc, of, name].map(str::to_owned);
            let numbers = numbers.map(|number| number.map_or_else(String::new, |number| number.to_string()));
            let _ = out.write_record(head.into_iter().chain(numbers));
        };
        let (used, lost, marked) = (row.utilisation, row.dropped, row.marked);
        record("link", "", [None, row.delay_mean_ms, None, used, row.jain, lost, marked]);
        for flow in &row.flows {
            record("flow", &flow.name, [flow.rate_bps, None, None, None, None, None, None]);
        }
        for queue in &row.queues {
            record("queue", &queue.name, [None, queue.mean_ms, queue.p99_ms, None, None, None, None]);
        }
    }
    let bytes = out.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
