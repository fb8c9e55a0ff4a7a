//! What the files of the CRQ paper share: flows, and queues by the names that the CRQ paper gives them.

use serde::Deserialize;
use weir_core::{Bytes, Duration, Rate};
use weir_qdisc::QdiscConfig;

use super::Variant;
use weir_scenario::{Bottleneck, Flow, Measure, Pattern, Scenario};
use weir_testbed::traffic::Stack;

/// A kind of flow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowKind {
    pub(super) name: String,
    pub(super) stack: Stack,
    pub(super) controller: String,
    #[serde(default)]
    pub(super) pattern: Pattern,
}

impl FlowKind {
    /// A flow of this kind that transfers `bytes`.
    pub(super) fn flow(&self, bytes: u64, ecn: bool) -> Flow {
        Flow {
            server: String::new(),
            client: String::new(),
            name: self.name.clone(),
            controller: self.controller.clone(),
            pattern: self.pattern,
            bytes: Some(Bytes(bytes)),
            ecn,
            ..Flow::of(self.stack)
        }
    }
}

impl Variant {
    /// The queue that the paper calls `name`, in this world, with a buffer of one bandwidth-delay product (CRQ section
    /// IV-A).
    ///
    /// # Panics
    /// If a figure's file names a queue that there is not, or gives a queue words that it does not know; the tests read
    /// every file.
    pub(super) fn queue(&self, name: &str, world: &str) -> QdiscConfig {
        let text = match name {
            "drop-tail" if self.drop_tail.is_empty() => "bfifo limit 1bdp".to_owned(),
            "drop-tail" => self.drop_tail.clone(),
            "CoDel drop" => format!("codel limit 1bdp {}", self.codel),
            "CoDel ECN" => format!("codel ecn limit 1bdp {}", self.codel),
            _ => panic!("figures know no queue called '{name}'"),
        };
        let mut queue = text.trim().parse().expect("the words of a figure's queue are known");
        let late = if matches!(world, "sim" | "emu") { self.late } else { self.late_in_kernel };
        if let (QdiscConfig::Tbf(keys), Some(late)) = (&mut queue, late) {
            keys.late = late;
        }
        queue
    }

    /// The CRQ that stands in place of the columns', if there is one.
    ///
    /// # Panics
    /// As [`queue`](Self::queue) does.
    pub(super) fn crq(&self) -> Option<QdiscConfig> {
        (!self.crq.is_empty()).then(|| self.crq.parse().expect("the words of a figure's CRQ are known"))
    }

    /// A tenth of the rate and of the bytes, if the plan is to be quick; of the bytes alone, if the rate is to be kept.
    pub(super) fn scaled(&self, quick: bool, rate: Rate, bytes: u64) -> (Rate, u64) {
        let (less, bytes) = scaled(quick, rate, bytes);
        (if self.keeps_rate { rate } else { less }, bytes)
    }
}

/// Whether flows at the queue called `name` use ECN.
pub(super) fn uses_ecn(name: &str) -> bool {
    name == "CoDel ECN"
}

/// A scenario of a figure: defaults but for what is given.
pub(super) fn scenario(
    name: &str,
    plan: (&Variant, u64),
    link: (Rate, Duration, QdiscConfig),
    flows: Vec<Flow>,
    timeout: Duration,
) -> Scenario {
    let ((variant, seed), (rate, rtt, qdisc)) = (plan, link);
    Scenario {
        name: name.to_owned(),
        seed,
        bottleneck: Bottleneck::new(rate, rtt, qdisc),
        law: toml::Table::from_iter([(
            "preset".to_owned(),
            toml::Value::try_from(variant.law).expect("a preset is a word"),
        )]),
        links: Vec::new(),
        flows,
        workloads: Vec::new(),
        measure: Measure { interval: Duration::from_millis(100), timeout, ..Measure::default() },
    }
}

/// A tenth of the rate and of the bytes, if the plan is to be quick.
pub(super) fn scaled(quick: bool, rate: Rate, bytes: u64) -> (Rate, u64) {
    if quick { (rate.scale(0.1), bytes / 10) } else { (rate, bytes) }
}
