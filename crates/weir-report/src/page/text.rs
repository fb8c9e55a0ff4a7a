//! Numbers and names as a reader sees them: escaped for HTML, with units, and no more digits than mean something.

use std::fmt::Write;

/// Escapes text for HTML and SVG, inside elements and inside quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in XML at all.
            control if control.is_control() && control != '\n' && control != '\t' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// At most `limit` characters, the last an ellipsis if something was cut.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

/// Three significant digits, without an exponent: `0.0123`, `1.23`, `12.3`, `123`, `12345`.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let magnitude = value.abs();
    if magnitude < 1e-9 {
        return "0".to_owned();
    }
    // What rounding to three digits would make of 9.996 decides how many decimals it gets.
    let digits = (magnitude.log10() + 1e-12).floor() as i32;
    let digits = if (magnitude / 10f64.powi(digits) * 100.0).round() >= 1000.0 { digits + 1 } else { digits };
    format!("{value:.*}", (2 - digits).clamp(0, 9) as usize)
}

/// Milliseconds, as a number with its unit.
pub(super) fn ms(value: Option<f64>) -> String {
    value.map_or_else(dash, |value| format!("{} ms", number(value)))
}

/// Nanoseconds of a histogram, shown as milliseconds.
pub(super) fn ns_as_ms(value: Option<u64>) -> String {
    ms(value.map(|ns| ns as f64 / 1e6))
}

/// Nanoseconds in the unit that suits them.
pub(super) fn nanoseconds(value: Option<u64>) -> String {
    let Some(ns) = value else { return dash() };
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} \u{b5}s", number(ns as f64 / 1e3)),
        _ => ns_as_ms(value),
    }
}

/// Seconds, as a number with its unit.
pub(super) fn seconds(value: Option<f64>) -> String {
    value.map_or_else(dash, |value| format!("{} s", number(value)))
}

/// Bits per second with a decimal prefix.
pub(super) fn bps(value: f64) -> String {
    let (scaled, prefix) = prefixed(value);
    format!("{} {prefix}bit/s", number(scaled))
}

/// Bytes with a decimal prefix.
pub(super) fn bytes(value: u64) -> String {
    let (scaled, prefix) = prefixed(value as f64);
    format!("{} {prefix}B", number(scaled))
}

fn prefixed(value: f64) -> (f64, &'static str) {
    match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

/// A share of one as a percentage; one decimal below ten per cent.
pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        _ if !share.is_finite() => dash(),
        0.0 => "0 %".to_owned(),
        small if small < 0.01 => "<0.01 %".to_owned(),
        small if small < 1.0 => format!("{value:.2} %"),
        medium if medium < 10.0 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// A count with spaces between thousands.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space that does not break.
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// What stands where there is no value.
pub(super) fn dash() -> String {
    "\u{2013}".to_owned()
}

/// Seconds since 1970 as `2026-03-01 12:34:56 UTC`.
pub(super) fn date(unix_s: u64) -> String {
    // Days to year, month and day in the proleptic Gregorian calendar, counted in 400-year eras from 1 March 0000.
    let days = (unix_s / 86_400) as i64 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let second = unix_s % 86_400;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "{year}-{month:02}-{day:02} ");
    let _ = write!(out, "{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60);
    out
}

#[cfg(test)]
mod tests {
    use super::{bps, count, date, escape, number, percent, shorten};

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (0.999_6, "1.00"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (12.34, "12.3"),
        ];
        for (value, text) in
            cases.into_iter().chain([(999.6, "1000"), (123_456.0, "123456"), (-1.5, "-1.50")])
        {
            assert_eq!(number(value), text);
        }
        assert_eq!((number(f64::NAN), bps(1.25e7)), ("\u{2013}".to_owned(), "12.5 Mbit/s".to_owned()));
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(
            [0.0, 0.000_01, 0.005, 0.05, 0.96].map(percent),
            ["0 %", "<0.01 %", "0.50 %", "5.0 %", "96 %"]
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_772_368_496), "2026-03-01 12:34:56 UTC");
        assert_eq!(date(4_102_444_799), "2099-12-31 23:59:59 UTC");
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("<b a='\"'>&\u{1}"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
        assert_eq!((shorten("abc", 3), shorten("ab\u{e9}d", 3)), ("abc".to_owned(), "ab\u{2026}".to_owned()));
    }
}
