//! Numbers for tables: three digits, and the units of iproute2.

/// Three significant digits, without decimals from 100 on.
pub(crate) fn three(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Three digits and a decimal prefix: `48.1M`.
pub(crate) fn short(value: f64) -> String {
    let (scaled, prefix) = scaled(value, 1e3, &["", "k", "M", "G", "T", "P"]);
    if prefix.is_empty() { format!("{scaled:.0}") } else { format!("{}{prefix}", three(scaled)) }
}

const RATES: [&str; 5] = ["bit", "kbit", "mbit", "gbit", "tbit"];

/// A rate that was set, in `tc`'s words: `20mbit`.
pub(crate) fn rate(bits_per_second: f64) -> String {
    let (scaled, unit) = scaled(bits_per_second, 1e3, &RATES);
    if scaled.fract() == 0.0 { format!("{scaled}{unit}") } else { format!("{}{unit}", three(scaled)) }
}

/// A rate that was measured, always with three digits: `19.0mbit`.
pub(crate) fn throughput(bits_per_second: f64) -> String {
    let (scaled, unit) = scaled(bits_per_second, 1e3, &RATES);
    if unit == "bit" { format!("{scaled:.0}{unit}") } else { format!("{}{unit}", three(scaled)) }
}

/// A number of bytes in `tc`'s words and binary prefixes: `30kb`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (scaled, unit) = scaled(bytes as f64, 1024.0, &["b", "kb", "mb", "gb", "tb"]);
    if scaled.fract() == 0.0 { format!("{scaled}{unit}") } else { format!("{}{unit}", three(scaled)) }
}

/// Events per second: whole from ten on.
pub(crate) fn per_second(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value < 9.95 {
        format!("{value:.1}")
    } else {
        short(value)
    }
}

/// A span in its two largest units: `3h12m`, `12.0s`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole / 3600 % 24),
    }
}

fn scaled<'units>(value: f64, step: f64, units: &[&'units str]) -> (f64, &'units str) {
    let mut scaled = value;
    let mut at = 0;
    // What three digits would round up to the next unit is written in it.
    while scaled >= step - 0.5 && at + 1 < units.len() {
        scaled /= step;
        at += 1;
    }
    (scaled, units[at])
}

#[cfg(test)]
mod tests {
    use super::{bytes, per_second, rate, short, span, throughput};

    #[test]
    fn numbers_have_three_digits_and_units() {
        assert_eq!([0.0, 999.0, 999_600.0, 48_120_000.0].map(short), ["0", "999", "1.00M", "48.1M"]);
        assert_eq!([20e6, 18_912_345.0, 0.0].map(rate), ["20mbit", "18.9mbit", "0bit"]);
        assert_eq!([19e6, 0.4].map(throughput), ["19.0mbit", "0bit"]);
        assert_eq!([30_720, 1500, 0].map(bytes), ["30kb", "1.46kb", "0b"]);
        assert_eq!([0.0, 0.5, 12.4, 1234.0].map(per_second), ["0", "0.5", "12", "1.23k"]);
        assert_eq!(
            [0.04, 12.0, 125.0, 11_520.0, 200_000.0].map(span),
            ["0.0s", "12.0s", "2m05s", "3h12m", "2d07h"]
        );
    }
}
