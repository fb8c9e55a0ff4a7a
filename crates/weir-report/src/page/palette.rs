//! Colours that colour-blind readers can tell apart, in a light and a dark form, and which flow has which.
//!
//! Flows take Paul Tol's "muted" set and queues the blue, vermillion and green of Okabe and Ito, so a flow is never
//! mistaken for a queue. Charts are drawn in the light colours; in a dark page a style rule per colour swaps each for
//! its dark form, and a chart cut out of the page keeps the light ones.

use std::collections::BTreeMap;
use std::fmt::Write;

use plotters::style::RGBColor;

use crate::result::RunResult;

/// How many flows get a colour of their own in a report; the others are grey.
pub(super) const NAMED_FLOWS: usize = 8;

/// A colour with its form on a dark ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour {
    light: u32,
    dark: u32,
}

const fn colour(light: u32, dark: u32) -> Colour {
    Colour { light, dark }
}

pub(super) const INK: Colour = colour(0x1F_2933, 0xE6_E9EE);
pub(super) const MUTED: Colour = colour(0x5B_6470, 0xA3_ADBA);
pub(super) const GRID: Colour = colour(0xE3_E6EA, 0x33_3B46);
/// The standard queue, unresponsive flows and a queue that stands alone.
pub(super) const STANDARD: Colour = colour(0xD5_5E00, 0xFF_8A3D);
/// The responsive queue and responsive flows.
pub(super) const RESPONSIVE: Colour = colour(0x00_72B2, 0x4D_B2F0);
/// The queue of flows that answer to marks: Okabe and Ito's bluish green.
const ECN_RESPONSIVE: Colour = colour(0x00_9E73, 0x3F_D1A5);
/// Flows without a verdict.
pub(super) const UNJUDGED: Colour = colour(0xC3_C9D1, 0x4F_5966);
/// Flows without a colour of their own.
pub(super) const REST: Colour = colour(0x9A_A2AD, 0x6F_7A88);
const FLOWS: [Colour; NAMED_FLOWS] = [
    colour(0x33_2288, 0xA5_9BF5),
    colour(0xCC_6677, 0xF0_8A9B),
    colour(0x44_AA99, 0x5F_D3BF),
    colour(0x88_2255, 0xD8_6AA3),
    colour(0xC2_A83E, 0xE6_D06B),
    colour(0x5B_B5E0, 0x8F_D3F5),
    colour(0x11_7733, 0x58_C07E),
    colour(0xAA_4499, 0xE0_85D2),
];

impl Colour {
    /// As HTML writes it, in the form that charts are drawn in.
    pub(super) fn hex(self) -> String {
        format!("#{:06X}", self.light)
    }

    /// As plotters takes it.
    pub(super) fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

/// The colour of line `index` in a chart of other things than flows; there are [`NAMED_FLOWS`].
pub(super) fn line(index: usize) -> Colour {
    FLOWS[index % NAMED_FLOWS]
}

/// The colour of queue `name`.
pub(super) fn queue(name: &str) -> Colour {
    match name {
        "responsive" => RESPONSIVE,
        "ecn-responsive" => ECN_RESPONSIVE,
        _ => STANDARD,
    }
}

/// The rules that give charts their dark colours.
pub(super) fn dark_rules() -> String {
    let fixed = [INK, MUTED, GRID, STANDARD, RESPONSIVE, ECN_RESPONSIVE, UNJUDGED, REST];
    fixed.into_iter().chain(FLOWS).fold(String::new(), |mut css, Colour { light, dark }| {
        // Writing to a string cannot fail.
        let _ = write!(css, ".chart [fill=\"#{light:06X}\"]{{fill:#{dark:06X}}}");
        let _ = write!(css, ".chart [stroke=\"#{light:06X}\"]{{stroke:#{dark:06X}}}");
        css
    })
}

/// Which flow has which colour, the same in every chart and every run of a report.
pub(super) struct FlowColours(BTreeMap<String, Colour>);

impl FlowColours {
    /// The flows with the most bytes in any run get colours; they take them in the order in which the runs list them,
    /// so that neighbours in a table differ.
    pub(super) fn new(results: &[(&str, &RunResult)]) -> Self {
        let mut names: Vec<(&str, u64)> = Vec::new();
        for flow in results.iter().flat_map(|(_, result)| &result.flows) {
            match names.iter_mut().find(|(name, _)| *name == flow.name) {
                Some((_, bytes)) => *bytes = (*bytes).max(flow.received_bytes),
                None => names.push((&flow.name, flow.received_bytes)),
            }
        }
        let mut sizes: Vec<u64> = names.iter().map(|(_, bytes)| *bytes).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let least = sizes.get(NAMED_FLOWS - 1).copied().unwrap_or(0);
        let large = names.iter().filter(|(_, bytes)| *bytes >= least);
        Self(large.zip(FLOWS).map(|((name, _), colour)| ((*name).to_owned(), colour)).collect())
    }

    /// The flow's colour, if it has one of its own.
    pub(super) fn named(&self, flow: &str) -> Option<Colour> {
        self.0.get(flow).copied()
    }

    /// The flow's colour, grey if it has none of its own.
    pub(super) fn of(&self, flow: &str) -> Colour {
        self.named(flow).unwrap_or(REST)
    }
}
