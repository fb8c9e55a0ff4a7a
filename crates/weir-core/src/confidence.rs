//! How well a share is known.

/// The normal distribution's quantile that leaves 2.5 % above it.
const Z: f64 = 1.959_964;

/// The interval that contains, in 19 of 20 cases, the share of which `hits` of `all` trials are a sample: 0 to 1 (E. B.
/// Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927). It is all from 0 to 1 without
/// trials.
pub fn wilson(hits: u64, all: u64) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (share, all) = (hits as f64 / all as f64, all as f64);
    let middle = share + Z * Z / (2.0 * all);
    let half = Z * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
    let scale = 1.0 + Z * Z / all;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::wilson;

    #[test]
    fn intervals_are_wilsons() {
        for ((hits, all), (low, high)) in [
            ((98, 100), (0.930, 0.994)),
            ((0, 10), (0.0, 0.278)),
            ((10, 10), (0.722, 1.0)),
            ((0, 0), (0.0, 1.0)),
        ] {
            let seen = wilson(hits, all);
            assert!((seen.0 - low).abs() < 1e-3 && (seen.1 - high).abs() < 1e-3, "{hits} of {all}: {seen:?}");
        }
    }
}
