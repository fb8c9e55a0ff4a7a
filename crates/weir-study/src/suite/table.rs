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
                format!("{:.1}", row.utilisation * 100.0),
                join(row, |queue| queue.mean_ms),
                join(row, |queue| queue.p99_ms),
                row.jain.map_or_else(|| "-".to_owned(), |jain| format!("{jain:.3}")),
                format!("{:.2}", row.dropped * 100.0),
                format!("{:.2}", row.marked * 100.0),
            ]),
        };
    }
    table.to_string()
}

/// A number for each queue that something went through.
pub(super) fn join(row: &Row, part: fn(&super::QueueRow) -> f64) -> String {
    let used = row.queues.iter().filter(|queue| queue.p99_ms > 0.0);
    let parts: Vec<String> = used.map(|queue| format!("{:.2}", part(queue))).collect();
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
        let (used, lost, marked) = (Some(row.utilisation), Some(row.dropped), Some(row.marked));
        record("link", "", [None, Some(row.delay_mean_ms), None, used, row.jain, lost, marked]);
        for flow in &row.flows {
            record("flow", &flow.name, [Some(flow.rate_bps), None, None, None, None, None, None]);
        }
        for queue in &row.queues {
            record(
                "queue",
                &queue.name,
                [None, Some(queue.mean_ms), Some(queue.p99_ms), None, None, None, None],
            );
        }
    }
    let bytes = out.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
