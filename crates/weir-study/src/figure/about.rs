//! What a figure says of itself: the table `about` of its `figure.toml`.

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Rate};
use weir_law::Preset;
use weir_qdisc::Sharing;
use weir_qdisc::config::SplitKind;

/// A figure in a list, and how its cells are shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// `crq/5`: the paper, and the figure's number in it.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where it is from.
    pub paper: String,
    /// The worlds in which it can be made.
    pub worlds: Vec<String>,
    /// `complete`: every cell is measured.
    pub state: String,
    /// The settings it can be made in; the first is the paper's.
    #[serde(rename(deserialize = "variant"))]
    pub variants: Vec<Variant>,
    /// What `--quick` makes less of.
    #[serde(default = "tenth", skip_serializing)]
    pub quick: String,
    /// What cells differ in, one or more. Each label of the first is a row, each combination of the others a column.
    /// In JSON these are keys of a cell, so none may have the name of another key.
    #[serde(default, skip_serializing)]
    pub axes: Vec<String>,
    /// What a cell holds.
    #[serde(default, skip_serializing)]
    pub value: Value,
    /// How the page shows it.
    #[serde(default, skip_serializing)]
    pub plot: Plot,
}

/// What the cells of a figure hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// What it is, in a word: `score`.
    pub name: String,
    /// Its unit or range, for people.
    pub unit: String,
    /// Digits behind the point in the table.
    pub decimals: usize,
}

/// What the page of a figure shows above its statements.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Plot {
    /// A point for each run: a panel for each label of the second axis.
    Points {
        /// What the y axis is called.
        y: String,
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
    },
    /// The paper's table and ours, coloured by how well they agree.
    Heat {
        /// The difference that counts as agreement, in the unit of the values.
        tolerance: f64,
    },
    /// Throughput and round trip over time: a chart for each cell that has [`Cell::over_time`](super::Cell::over_time).
    Time,
    /// What it draws itself: [`Findings::html`](super::Findings::html). It has no table for the terminal.
    #[default]
    Own,
}

/// A setting that a figure can be made in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name on the command line.
    pub name: String,
    /// What it is.
    pub says: String,
    /// The worlds in which it can be made; those of the figure if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worlds: Vec<String>,
    /// The law's parameter set.
    #[serde(default)]
    pub law: Preset,
    /// CoDel's parameters, in words as on the command line; the kernel's defaults if empty.
    #[serde(default)]
    pub codel: String,
    /// Whether unresponsive load is the same in both arms of a comparison.
    #[serde(default)]
    pub equal_load: bool,
    /// How a CRQ divides the link between its queues.
    #[serde(default)]
    pub sharing: Sharing,
    /// Whether a CRQ lends what one of its queues leaves.
    #[serde(default)]
    pub split: SplitKind,
    /// A CRQ that stands in place of those of all columns, in words as on the command line; none if empty.
    #[serde(default)]
    pub crq: String,
    /// The queue that the paper calls drop-tail, in words as on the command line; an honest one if empty.
    #[serde(default)]
    pub drop_tail: String,
    /// How late that queue's wake-ups come, if it is `tbf` and not the kernel's.
    #[serde(default)]
    pub late: Option<Duration>,
    /// By how much the wake-ups of the kernel's come later than the machine makes them.
    #[serde(default)]
    pub late_in_kernel: Option<Duration>,
    /// What gets through where CoDel is the one queue of the link, if that is less than the link's rate.
    #[serde(default)]
    pub codel_link: Option<Rate>,
    /// The window of TCP's receivers.
    #[serde(default)]
    pub receive_window: Option<Bytes>,
    /// Hosts hand over super-packets where the kernel does the queueing; packets are not followed there.
    #[serde(default)]
    pub super_packets: bool,
    /// UDP comes in bursts of such intervals.
    #[serde(default)]
    pub bursts: Option<Duration>,
    /// Whether its times and sizes belong to its rate: `--quick` makes less of the bytes alone.
    #[serde(default)]
    pub keeps_rate: bool,
}

fn tenth() -> String {
    "a tenth of the rate and of the bytes".to_owned()
}

impl About {
    /// The variant of that name, or the paper's.
    ///
    /// # Panics
    /// If the figure has none.
    pub fn variant(&self, name: &str) -> &Variant {
        self.variants.iter().find(|variant| variant.name == name).unwrap_or(&self.variants[0])
    }

    /// What `--quick` made of a variant, in words after a comma; nothing of one at full scale.
    pub fn scale(&self, quick: bool, variant: &str) -> String {
        match quick {
            true if self.variant(variant).keeps_rate => ", a tenth of the bytes".to_owned(),
            true => format!(", {}", self.quick),
            false => String::new(),
        }
    }

    /// The worlds in which a variant can be made.
    pub fn worlds_of<'a>(&'a self, variant: &'a Variant) -> &'a [String] {
        if variant.worlds.is_empty() { &self.worlds } else { &variant.worlds }
    }

    /// The first variant that can be made in that world, or the paper's.
    ///
    /// # Panics
    /// If the figure has none.
    pub fn variant_in(&self, world: &str) -> &Variant {
        let can = |variant: &&Variant| self.worlds_of(variant).iter().any(|known| known == world);
        self.variants.iter().find(can).unwrap_or(&self.variants[0])
    }
}
