//! What distinguishes BBRv2 from BBRv3 (`google/bbr`, branches `v2alpha` and `v3`). Fractions are in 1/256.

use weir_core::Duration;

/// Parameters of BBR from version 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bbr3Params {
    /// In scenarios.
    pub name: &'static str,
    /// Pacing gain of STARTUP: 739 (2.89), from version 3 on 710 (4 ln 2).
    pub startup_pacing_gain: u32,
    /// Window gain of STARTUP and DRAIN: 739, from version 3 on 512.
    pub startup_window_gain: u32,
    /// Pacing gain of PROBE_DOWN: 192 (0.75), from version 3 on 232 (0.91).
    pub down_gain: u32,
    /// Added to the window gain in PROBE_UP: from version 3 on 64.
    pub up_window_gain: u32,
    /// Whether the present bandwidth sample, rather than the maximum, shows that the pipe is full; and whether that
    /// ends PROBE_UP. If not, PROBE_UP ends with 1.25 bandwidth-delay products in flight.
    pub full_by_sample: bool,
    /// Whether STARTUP, ended by losses or marks, leaves an upper bound of at least what its last round delivered (from
    /// version 3 on), or of one bandwidth-delay product.
    pub startup_latest: bool,
    /// Whether a round trip as short as the shortest puts PROBE_RTT off (version 2).
    pub min_rtt_inclusive: bool,
    /// Whether PROBE_UP forgets what was acknowledged towards the next step of the upper bound when the window is not
    /// used up, or is below that bound (version 2).
    pub up_counts_anew: bool,
    /// Loss events in a round that end STARTUP if the loss rate is too high: 8, from version 3 on 6.
    pub full_losses: u32,
    /// Whether a mark rate of exactly the threshold is too high (version 2).
    pub ecn_inclusive: bool,
    /// After marks without losses, the first step of the next probe as a share of the upper bound: from version 3 on
    /// 128; zero for none.
    pub ecn_reprobe_gain: u32,
    /// Whether it answers to marks. Off by default in version 2, by route (`ecn_low`) in version 3.
    pub ecn: bool,
    /// Marks count only on paths whose shortest round trip is no longer (5 ms); zero for all paths.
    pub ecn_max_rtt: Duration,
}

impl Bbr3Params {
    /// `tcp_bbr2.c`.
    pub const V2: Self = Self {
        name: "bbr2",
        startup_pacing_gain: 739,
        startup_window_gain: 739,
        down_gain: 192,
        up_window_gain: 0,
        full_by_sample: false,
        startup_latest: false,
        min_rtt_inclusive: true,
        up_counts_anew: true,
        full_losses: 8,
        ecn_inclusive: true,
        ecn_reprobe_gain: 0,
        ecn: false,
        ecn_max_rtt: Duration::from_millis(5),
    };

    /// `tcp_bbr.c` of the branch `v3`.
    pub const V3: Self = Self {
        name: "bbr3",
        startup_pacing_gain: 710,
        startup_window_gain: 512,
        down_gain: 232,
        up_window_gain: 64,
        full_by_sample: true,
        startup_latest: true,
        min_rtt_inclusive: false,
        up_counts_anew: false,
        full_losses: 6,
        ecn_inclusive: false,
        ecn_reprobe_gain: 128,
        ecn: false,
        ecn_max_rtt: Duration::from_millis(5),
    };
}
