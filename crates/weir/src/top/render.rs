//! Draws a view. Lines are cut at the terminal's edge, never wrapped.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::{bar, block};
use ratatui::text::{Line, Span};

use super::columns::{Column, clipped, fit};
use super::keys::{FOOTER, KEYS};
use super::palette::Palette;
use super::sample::{QueueRates, Row};
use super::view::{HISTORY, View};
use crate::show::numbers::{bytes, per_second, rate, span, throughput};
use weir_kernel::model::{Bottleneck, State};

/// Draws the whole screen. `now_unix_s` is for how long the bottleneck has been up.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View, palette: Palette, now_unix_s: f64) {
    let area = frame.area();
    let lines = if view.help { help(palette) } else { screen(view, palette, now_unix_s, area) };
    let footer = footer(view, palette);
    for (line, y) in lines.iter().zip(area.y..area.bottom().saturating_sub(1)) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
    if let Some(last) = area.bottom().checked_sub(1).filter(|last| *last >= area.y) {
        frame.render_widget(&footer, Rect { y: last, height: 1, ..area });
    }
}

fn screen(view: &View, palette: Palette, now_unix_s: f64, area: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = vec![title(view, palette, now_unix_s)];
    match view.shown() {
        Some(shown) => {
            lines.extend(queues(shown, view, palette, width));
            let rows = view.rows();
            let columns = fit(width, &rows, view.skipped_columns);
            lines.push(flow_count(shown, view, &columns, palette));
            lines.extend(table(view, &rows, &columns, palette, (width, height)));
        }
        None => lines.push(Line::styled(gone(view), palette.alarm())),
    }
    if let Some(trouble) = trouble(view) {
        lines.insert(1, Line::styled(trouble, palette.alarm()));
    }
    lines
}

fn title(view: &View, palette: Palette, now_unix_s: f64) -> Line<'static> {
    let Some((device, direction)) = view.selected() else {
        return Line::styled("weir top", palette.title());
    };
    let mut spans = vec![Span::styled(format!("{device} {}", direction.name()), palette.title())];
    // Also where there is one other in place of one that is gone.
    let (place, count) = view.place();
    if count > place.min(1) {
        spans.push(Span::styled(format!(" {place}/{count} (Tab)"), palette.faint()));
    }
    if view.paused {
        spans.push(Span::styled(" PAUSED", palette.alarm()));
    }
    if let Some(shown) = view.shown() {
        let since = shown.since_unix_s.map(|since| now_unix_s - since as f64);
        let since = since.map(|since| format!(" for {}", span(since.max(0.0)))).unwrap_or_default();
        let law = |name| shown.law.get(name).and_then(serde_json::Value::as_str).unwrap_or("?");
        let by = if view.is_by_mark() { "marks" } else { "loss" };
        spans.push(Span::raw(format!(
            "  {}{since}  rate {}  sharing {} {}  law {} by {by}",
            shown.state.name(),
            rate(shown.rate_bits_per_second as f64),
            shown.sharing,
            shown.split,
            law("preset"),
        )));
    }
    Line::from(spans)
}

fn gone(view: &View) -> String {
    match view.selected() {
        Some((device, direction)) => {
            let direction = direction.name();
            format!("The {direction} bottleneck on {device} is gone (weir down?). Waiting for it; q quits.")
        }
        None => "No bottleneck. Waiting for one; q quits.".to_owned(),
    }
}

/// What is wrong, in a line: with the look, or with the bottleneck.
fn trouble(view: &View) -> Option<String> {
    let fault = || {
        let shown = view.shown().filter(|shown| shown.state != State::Up)?;
        let fault = shown.faults.first()?;
        Some(format!("{}: {}; to mend it: {}", shown.state.name(), fault.what, fault.remedy))
    };
    view.trouble.clone().or_else(fault)
}

/// Width of what stands beside the charts.
const BESIDE: usize = 55;

fn queues(shown: &Bottleneck, view: &View, palette: Palette, width: usize) -> Vec<Line<'static>> {
    let room = width.saturating_sub(BESIDE);
    // The bar says how full the link is now, the small columns how full it was.
    let spark = (room * 2 / 5).min(HISTORY);
    let bar = (room - spark).min(60);
    let full = shown.rate_bits_per_second as f64;
    let head = format!(
        "{:<10} {:>8} {:<bar$} {:<spark$} {:>7} {:>5} {:>6} {:>6}",
        "QUEUE", "RATE", "", "", "BACKLOG", "PKTS", "DROP/s", "CE/s"
    );
    let mut lines = vec![Line::styled(head, palette.faint())];
    for queue in view.queues() {
        lines.push(queue_line(&queue, view.history(queue.queue), full, (bar, spark), palette));
    }
    lines
}

fn queue_line(
    queue: &QueueRates,
    history: &[f64],
    full: f64,
    (bar, spark): (usize, usize),
    palette: Palette,
) -> Line<'static> {
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), per_second);
    let colour = palette.queue(queue.queue);
    let now = queue.bits_per_second.unwrap_or(0.0);
    let speed = queue.bits_per_second.map_or_else(|| "-".to_owned(), throughput);
    let full_part = horizontal(now / full, bar);
    let drops = queue.drops_per_second;
    Line::from(vec![
        Span::styled(format!("{:<10}", queue.queue.name()), colour),
        Span::raw(format!(" {speed:>8} ")),
        Span::styled(full_part.clone(), colour),
        // How far it could go.
        Span::styled("·".repeat(bar - full_part.chars().count()), palette.faint()),
        Span::raw(" "),
        Span::styled(columns(history, full, spark), colour),
        Span::raw(format!(" {:>7} {:>5} ", bytes(queue.backlog), queue.qlen)),
        Span::styled(
            format!("{:>6}", or_none(drops)),
            if drops.unwrap_or(0.0) > 0.0 { palette.alarm() } else { Style::new() },
        ),
        Span::raw(format!(" {:>6}", or_none(queue.marks_per_second))),
    ])
}

/// A bar for a share of 0 to 1 of `width` characters, in eighths of a character.
fn horizontal(share: f64, width: usize) -> String {
    let parts =
        ["", block::ONE_EIGHTH, block::ONE_QUARTER, block::THREE_EIGHTHS, block::HALF, block::FIVE_EIGHTHS];
    let parts = [&parts[..], &[block::THREE_QUARTERS, block::SEVEN_EIGHTHS]].concat();
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    format!("{}{}", block::FULL.repeat(eighths / 8), parts[eighths % 8])
}

/// The last `width` values as columns of eighths; what is not nothing can be seen.
fn columns(values: &[f64], full: f64, width: usize) -> String {
    let heights = [bar::ONE_EIGHTH, bar::ONE_QUARTER, bar::THREE_EIGHTHS, bar::HALF, bar::FIVE_EIGHTHS];
    let heights = [&heights[..], &[bar::THREE_QUARTERS, bar::SEVEN_EIGHTHS, bar::FULL]].concat();
    let shown = &values[values.len().saturating_sub(width)..];
    let columns: String = shown
        .iter()
        .map(|value| match (value / full * 8.0).ceil() as usize {
            0 => " ",
            height => heights[height.min(8) - 1],
        })
        .collect();
    format!("{columns:>width$}")
}

fn flow_count(
    shown: &Bottleneck,
    view: &View,
    columns: &[(Column, usize)],
    palette: Palette,
) -> Line<'static> {
    let mut spans = Vec::new();
    if let Some(table) = &shown.flow_table {
        spans.push(Span::raw(format!(
            "flows {} of {}: {} responsive, {} unresponsive, {} unclassified",
            table.flows, table.capacity, table.responsive, table.unresponsive, table.unclassified
        )));
        let turned_away = shown.counters.get("full");
        if turned_away > 0 {
            spans.push(Span::styled(format!("  {turned_away} found no room"), palette.alarm()));
        }
    }
    if !view.filter.is_empty() {
        spans.push(Span::raw(format!("  filter \"{}\"", view.filter.0)));
    }
    if columns.iter().all(|(column, _)| *column != view.sort) {
        spans.push(Span::raw(format!("  by {}", heading(view.sort, view))));
    }
    Line::from(spans)
}

fn table(
    view: &View,
    rows: &[Row],
    columns: &[(Column, usize)],
    palette: Palette,
    (width, height): (usize, usize),
) -> Vec<Line<'static>> {
    let by_mark = view.is_by_mark();
    let mut head = Vec::new();
    for (index, (column, width)) in columns.iter().enumerate() {
        if index > 0 {
            head.push(Span::styled(" ", palette.head()));
        }
        let sorted = *column == view.sort;
        let style = if sorted { palette.sorted_head() } else { palette.head() };
        head.push(Span::styled(aligned(&heading(*column, view), *width, column.is_text()), style));
    }
    let used: usize = columns.iter().map(|(_, width)| width + 1).sum::<usize>().saturating_sub(1);
    head.push(Span::styled(" ".repeat(width.saturating_sub(used)), palette.head()));
    let mut lines = vec![Line::from(head)];
    let first = view.first_row.min(rows.len().saturating_sub(1));
    lines.extend(
        rows.iter().skip(first).take(height).map(|row| Line::from(cells(row, columns, by_mark, palette))),
    );
    if rows.is_empty() {
        let what = if view.filter.is_empty() { "No flows yet." } else { "No flow passes the filter." };
        lines.push(Line::styled(what, palette.faint()));
    }
    lines
}

/// The head of a column; that of the sorted one has an arrow if there is room.
fn heading(column: Column, view: &View) -> String {
    let arrow = if view.reversed { '▲' } else { '▼' };
    if column != view.sort {
        return column.title().to_owned();
    }
    let title = column.title();
    if title.len() < column.width() {
        format!("{title}{arrow}")
    } else {
        format!("{}{arrow}", &title[..title.len() - 1])
    }
}

fn cells(row: &Row, columns: &[(Column, usize)], by_mark: bool, palette: Palette) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for (index, (column, width)) in columns.iter().enumerate() {
        if index > 0 {
            spans.push(Span::raw(" "));
        }
        let flow = &row.flow;
        let style = match column {
            Column::Class => palette.verdict(if by_mark { flow.ecn_verdict } else { flow.loss_verdict }),
            Column::Queue => palette.queue(flow.queue),
            Column::Loss if flow.loss_segments.iter().any(|count| *count > 0) => palette.alarm(),
            _ if flow.idle_s > 5.0 || flow.closing => palette.faint(),
            _ => Style::new(),
        };
        spans.push(Span::styled(aligned(&column.cell(row, by_mark), *width, column.is_text()), style));
    }
    spans
}

fn aligned(text: &str, width: usize, left: bool) -> String {
    let text = clipped(text, width);
    if left { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

fn help(palette: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("Keys", palette.title())];
    lines.extend(KEYS.iter().map(|(key, what)| Line::raw(format!("  {key:<5} {what}"))));
    lines.push(Line::styled("Columns", palette.title()));
    // The two ends explain themselves.
    lines.extend(
        Column::ALL[3..]
            .iter()
            .map(|column| Line::raw(format!("  {:<6} {}", column.title(), column.meaning()))),
    );
    lines
}

fn footer(view: &View, palette: Palette) -> Line<'static> {
    match &view.editing {
        Some(text) => Line::raw(format!("/{text}█  Enter filters, Esc does not")),
        None => Line::styled(FOOTER, palette.faint()),
    }
}
