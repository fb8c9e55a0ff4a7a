//! A suite as one page: for each scenario a plot of rate against delay and a table over the disciplines.

use std::fmt::Write;

use super::{Row, Second, Suite, SuiteResult, table};
use crate::batch;
use crate::engine::Job;
use weir_report::page::{self, Cloud, escape};

pub(super) fn html(suite: &Suite, result: &SuiteResult, planned: &[(usize, String, Job)]) -> String {
    let about = &suite.about;
    let mut body = format!(
        "<header><h1>{}</h1><p class=\"subtitle\">{}. World {}, weir {}.</p></header>\n<p>{}</p>\n<p class=\"note\">Plots: a dot \
         is the mean of a discipline's seconds, the line around it one standard deviation of delay and throughput together. \
         Up and to the left is good; the axis of delay is logarithmic. Delays of several queues stand side by side, in the order of the discipline's page.</p>\n",
        escape(&about.title),
        escape(&about.source),
        escape(&result.world),
        escape(&result.version),
        escape(&about.about),
    );
    for (index, entry) in about.entries.iter().enumerate() {
        let rows: Vec<(&Row, &Job)> = planned
            .iter()
            .zip(&result.rows)
            .filter(|((of, _, _), _)| *of == index)
            .map(|((_, _, job), row)| (row, job))
            .collect();
        let Some((_, first)) = rows.first() else { continue };
        let link = &first.scenario.bottleneck;
        let _ = write!(
            body,
            "<section><h2>{} {}</h2><p>{}</p><p class=\"note\">{}, {} round trip; {}; from second {} on; {}</p>",
            escape(&entry.section),
            escape(&entry.title),
            escape(&entry.look),
            link.rate_words(),
            link.rtt,
            escape(&flows(&first.scenario)),
            entry.from_s,
            escape(&entry.file),
        );
        let clouds: Vec<Cloud> = rows.iter().map(|(row, _)| cloud(row)).collect();
        body.push_str(&page::clouds(&entry.title, "queue delay, ms", "throughput, Mbit/s", &clouds));
        body.push_str(&table_of(&rows));
        if !entry.published.is_empty() {
            body.push_str("<p class=\"note\">What others measured:</p><ul>");
            for other in &entry.published {
                let _ = write!(
                    body,
                    "<li>{}: {} <small>({})</small></li>",
                    escape(&other.qdisc),
                    escape(&other.says),
                    escape(&other.source)
                );
            }
            body.push_str("</ul>");
        }
        body.push_str("</section>\n");
    }
    if !result.warnings.is_empty() {
        body.push_str("<section class=\"warning\"><h2>What to know of single runs</h2><ul>");
        for warning in &result.warnings {
            let _ = write!(body, "<li>{}</li>", escape(warning));
        }
        body.push_str("</ul></section>");
    }
    page::page(&about.title, &body)
}

/// What runs, with how many of each kind.
fn flows(scenario: &weir_scenario::Scenario) -> String {
    let kinds = scenario.flows.iter().map(|flow| format!("{} x {}", flow.count, flow.label()));
    kinds.collect::<Vec<_>>().join(", ")
}

fn cloud(row: &Row) -> Cloud {
    let point = |second: &Second| Some((second.delay_ms?, second.rate_bps / 1e6));
    let points = row.seconds.iter().filter_map(point).collect();
    Cloud { name: row.qdisc.clone(), points }
}

fn table_of(rows: &[(&Row, &Job)]) -> String {
    let mut out = "<div class=\"scroll\"><table><thead><tr><th>qdisc</th><th>used %</th><th>delay, ms</th><th>p99, ms</th>\
                   <th>Jain</th><th>dropped %</th><th>marked %</th><th>Mbit/s per flow</th></tr></thead><tbody>"
        .to_owned();
    for (row, job) in rows {
        // Beside the page.
        let folder = batch::folder(std::path::Path::new(""), job);
        let name = format!(
            "<td class=\"name\"><a href=\"{}/report.html\">{}</a></td>",
            escape(&folder.display().to_string()),
            escape(&row.qdisc)
        );
        let _ = match &row.failed {
            Some(why) => write!(out, "<tr>{name}<td colspan=\"7\" class=\"bad\">{}</td></tr>", escape(why)),
            None => write!(
                out,
                "<tr>{name}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                table::percent(row.utilisation, 1),
                table::join(row, |queue| queue.mean_ms),
                table::join(row, |queue| queue.p99_ms),
                row.jain.map_or_else(|| "\u{2013}".to_owned(), |jain| format!("{jain:.3}")),
                table::percent(row.dropped, 2),
                table::percent(row.marked, 2),
                rates(row),
            ),
        };
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Each flow's rate where there are few, else the least, the middle and the most.
fn rates(row: &Row) -> String {
    let mbit = |bps: f64| format!("{:.2}", bps / 1e6);
    let mut rates: Vec<f64> = row.flows.iter().filter_map(|flow| flow.rate_bps).collect();
    if rates.len() <= 6 {
        return rates.into_iter().map(mbit).collect::<Vec<_>>().join(" / ");
    }
    rates.sort_by(f64::total_cmp);
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    format!("{} \u{2026} {} \u{2026} {}", mbit(least), mbit(rates[rates.len() / 2]), mbit(most))
}
