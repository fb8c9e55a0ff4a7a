//! What theory says about a mean window W in packets where each packet is lost or marked with probability p.
//!
//! Notation: a is the growth in packets per round trip, b the factor of a reduction, T the round trip in seconds.
//! "Even" losses hit every 1/p-th packet, as in the textbook's formulas; "random" ones are drawn for each packet alone.

use weir_core::Seed;

/// W sqrt(p) with even losses, the mean of a saw-tooth: 1.22 for Reno (a = 1, b = 1/2), 1.68 for a = 1, b = 0.7, and
/// 1.23 for Cubic's Reno-friendly estimate (a = 8/15, b = 0.7).
pub(crate) fn even_aimd(a: f64, b: f64) -> f64 {
    (a * (1.0 + b) / (2.0 * (1.0 - b))).sqrt()
}

/// W sqrt(p) with random losses (T. Ott, J. Kemperman and M. Mathis, "The stationary behavior of ideal TCP congestion
/// avoidance", 1996): 1.31 for Reno.
///
/// Y = W^2 / 2a grows by one for each packet and falls to b^2 Y at a loss. Gaps between losses are exponential, so p Y
/// at any packet is the sum of b^2k E_k over independent E_k of mean 1. A mean over time weighs a packet by 1/W, so
/// W = 1 / mean(1/W); the moment of order -1/2 of that sum is Gamma(1/2) times the product over k = 1, 2, ... of
/// (1 - b^(2k-1)) / (1 - b^2k).
pub(crate) fn random_aimd(a: f64, b: f64) -> f64 {
    let product: f64 = (1..200).map(|k| (1.0 - b.powi(2 * k - 1)) / (1.0 - b.powi(2 * k))).product();
    (2.0 * a).sqrt() / (std::f64::consts::PI.sqrt() * product)
}

/// W (p / T)^(3/4) of Cubic with even losses (RFC 9438 section 5.1): 1.17 for b = 0.8, 1.054 for b = 0.7.
pub(crate) fn even_cubic(b: f64) -> f64 {
    libm::pow(0.4 * (3.0 + b) / (4.0 * (1.0 - b)), 0.25)
}

/// The largest W that the kernel's Cubic may hold with even losses.
///
/// It computes in whole packets, so it is back at the old maximum cbrt(1 / C) = 1.36 s before K and stays there until
/// as long after it. A tooth that ends within that time is followed by one like it, whatever its length, where in real
/// numbers only one of K is; this is for the shortest.
pub(crate) fn even_cubic_whole(b: f64, p: f64, rtt: f64) -> f64 {
    const C: f64 = 0.4;
    let mean = (3.0 + b) / 4.0;
    let (mut low, mut high) = (1.0, 10.0 * even_cubic(b) * libm::pow(rtt / p, 0.75));
    for _ in 0..100 {
        let window = f64::midpoint(low, high);
        let k = libm::cbrt(window / mean * (1.0 - b) / C);
        // The tooth is shorter the larger the window.
        if rtt / (p * window) > k - libm::cbrt(1.0 / C) {
            low = window;
        } else {
            high = window;
        }
    }
    low
}

/// W of Cubic with random losses, in real numbers: epochs of exponential length. Even epochs would not do: their mean
/// differs.
pub(crate) fn random_cubic(p: f64, rtt: f64) -> f64 {
    let mut random = Seed::default().stream("epochs");
    cubic_epochs(rtt, 1000, 20_000, false, || -libm::log(1.0 - random.unit()) / p)
}

/// The same with even marks, where a reduction takes a round trip and leaves whole packets.
///
/// [`even_cubic`] has teeth that are all alike. Here those that end a packet lower than the one before are
/// taken for a sign of another flow (fast convergence), which takes 15 % off the next maximum; it takes many teeth to
/// get back.
pub(crate) fn even_cubic_converging(p: f64, rtt: f64) -> f64 {
    cubic_epochs(rtt, 100, 500, true, || 1.0 / p)
}

/// W over `count` epochs, after `before`, each of the length in packets that is next: the curve C (t - K)^3 + origin,
/// with fast convergence, and beside it the Reno-friendly estimate.
fn cubic_epochs(rtt: f64, before: u32, count: u32, whole: bool, mut length: impl FnMut() -> f64) -> f64 {
    const C: f64 = 0.4;
    const B: f64 = 717.0 / 1024.0;
    const FRIENDLY: f64 = 8.0 / 15.0;
    let (mut window, mut last_max): (f64, f64) = (100.0, 100.0);
    let (mut packets, mut rounds) = (0.0, 0.0);
    for epoch in 0..before + count {
        if whole {
            window = window.floor();
        }
        last_max = if window < last_max { window * (1.0 + B) / 2.0 } else { window };
        let reducing = window * (1.0 + B) / 2.0;
        window *= B;
        let k = libm::cbrt((last_max - window).max(0.0) / C);
        let origin = last_max.max(window);
        let length = length();
        let mut estimate = window;
        let (mut sent, mut passed, began) = if whole { (reducing, 1.0, 1.0) } else { (0.0, 0.0, 0.0) };
        while sent < length {
            // A step is a round trip, or what is left of the epoch.
            let step = ((length - sent) / window).min(1.0);
            sent += window * step;
            passed += step;
            estimate += FRIENDLY * step;
            let curve = C * ((passed - began) * rtt - k).powi(3) + origin;
            // No faster than half as much again per round trip.
            window = curve.max(estimate).clamp(window, window * (1.0 + step / 2.0));
        }
        if epoch >= before {
            packets += sent;
            rounds += passed;
        }
    }
    packets / rounds
}

/// p W of a sender that grows by `clean` / W for each packet and multiplies its window by 1 - p/2 for each window of
/// data with marks, beginning with the first of them, under random marks; `clean` is 1 - p where marked packets win
/// nothing.
///
/// From one reduction to the next there are the window of data that the first mark begins, W packets, and the wait for
/// the next mark, 1/p. So x / 2 = clean (1 + 1/x) for x = p W: 1 + sqrt(3) = 2.73 for small p. (Even marks do not make
/// it wait: x / 2 = 1.)
pub(crate) fn random_dctcp(clean: f64) -> f64 {
    clean + (clean * clean + 2.0 * clean).sqrt()
}

/// What of 1 / W a packet wins for Prague in the mean: it sends at the rate of its window with the fraction, and
/// divides by the window rounded up, which is half a packet more.
fn clean_prague(p: f64, window: f64) -> f64 {
    (1.0 - p) * window / (window + 0.5)
}

/// p W of Prague under random marks, where the round trip is this `share` of the one that it computes with (at most 1).
///
/// Within n = 1 / share round trips it grows by n share^2 packets and reduces once, as [`random_dctcp`] does within
/// one. So n p W takes the place of p W, and it has the rate of the longer round trip.
pub(crate) fn random_prague(p: f64, share: f64) -> f64 {
    let window = |clean| random_dctcp(clean) * share / p;
    p * (0..50).fold(window(1.0 - p), |last, _| window(clean_prague(p, last)))
}

/// The same with even marks, and n > 1.
///
/// It reduces at a mark, so k marks after the last reduction, and x / 2 = clean k / x for x = n p W. For p W up to 1
/// every mark begins an episode; above, those within a window of data of the last begin none. k is the first to begin
/// one after x marks, the n round trips. More than one k may hold itself up; as the window comes down from that of n =
/// 1, it is the greatest.
pub(crate) fn even_prague(p: f64, share: f64) -> f64 {
    let marks = |x: f64| {
        let mut episode = 0.0;
        while episode < x {
            episode = (episode + x * share).ceil();
        }
        episode
    };
    let mut x = 2.0 / share;
    for _ in 0..50 {
        x = (2.0 * marks(x) * clean_prague(p, x * share / p)).sqrt();
    }
    x * share
}

/// Share of marks behind a step of a sender that holds a window of W: sqrt(2 / W) would it be if alpha stood still at
/// the share and the window grew in every round trip (M. Alizadeh et al., "Data Center TCP", 2010, equation 6).
///
/// One of n round trips has its packets marked. It shrinks the window by W alpha / 2 and does not grow it, and the
/// others win that back, so n = 1 + W alpha / 2. alpha is what is left of that round trip's share when the next one
/// begins: the marks fall into two observations, half each in the mean, and each update forgets a sixteenth.
pub(crate) fn step_dctcp(window: f64) -> f64 {
    const G: f64 = 1.0 / 16.0;
    let kept: f64 = 1.0 - G;
    // n - 1 - W alpha(n) / 2 rises with n.
    let (mut low, mut high) = (1.0, 1.0 + window / 2.0);
    for _ in 0..100 {
        let n = f64::midpoint(low, high);
        let alpha = G * (1.0 + kept) / 2.0 * libm::pow(kept, n - 2.0) / (1.0 - libm::pow(kept, n));
        if n - 1.0 < window * alpha.min(1.0) / 2.0 {
            low = n;
        } else {
            high = n;
        }
    }
    1.0 / low
}
