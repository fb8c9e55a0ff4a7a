//! The most that quantities of a scenario may be, in any world. No network needs more, and below them sums and
//! products stay within 64 bits wherever they are made.

use weir_core::{Bytes, Duration, Rate};

use crate::key::{Quantity, Table};
use crate::{Refusal, Reverse, Scenario};

/// Sixty times the fastest Ethernet.
const FASTEST: Rate = Rate::from_bits_per_sec(100_000_000_000_000);
/// Three years.
const LONGEST: Duration = Duration::from_secs(100_000_000);
/// More than a day: light needs 19 hours to the farthest probe.
const LONGEST_DELAY: Duration = Duration::from_secs(100_000);
/// Three hours at the fastest rate.
const MOST_BYTES: Bytes = Bytes(1 << 60);
const MOST_LINKS: usize = 1_000;
/// As many as there are connections, of which each has at least one.
const MOST_WORKLOADS: usize = 20_000;

/// What is wrong with a quantity.
fn excess(quantity: Quantity, is_delay: bool) -> Option<String> {
    let longest = if is_delay { LONGEST_DELAY } else { LONGEST };
    let (is_more, said, most) = match quantity {
        Quantity::Rate(rate) => (rate > FASTEST, rate.to_string(), FASTEST.to_string()),
        Quantity::Time(time) => (time > longest, time.to_string(), longest.to_string()),
        Quantity::Bytes(bytes) => (bytes > MOST_BYTES, bytes.to_string(), MOST_BYTES.to_string()),
    };
    is_more.then(|| format!("{said} is more than {most}, the most that a scenario may have; give less"))
}

/// Refuses the first quantity of the table called `name` that is beyond all measure.
fn check(table: &impl Table, name: &str) -> Result<(), Refusal> {
    let fault = |(key, quantity, is_delay): (&str, Quantity, bool)| {
        Some(Refusal::new(format!("{name}.{key}"), excess(quantity, is_delay)?))
    };
    table.quantities().find_map(fault).map_or(Ok(()), Err)
}

impl Scenario {
    /// Refuses quantities that are beyond all measure.
    pub(super) fn check_bounds(&self) -> Result<(), Refusal> {
        for (key, count, most) in
            [("link", self.links.len(), MOST_LINKS), ("workload", self.workloads.len(), MOST_WORKLOADS)]
        {
            if count > most {
                let message = format!("there are {count} of them; a scenario may have {most}");
                return Err(Refusal::new(format!("{key}.{most}"), message));
            }
        }
        let reverse = |reverse: &Option<Reverse>, name: &str| {
            reverse.as_ref().map_or(Ok(()), |reverse| check(reverse, &format!("{name}.reverse")))
        };
        check(&self.bottleneck, "bottleneck")?;
        for (index, step) in self.bottleneck.rates.iter().enumerate() {
            let quantities = [Some(Quantity::Rate(step.rate)), step.lasts.map(Quantity::Time)];
            if let Some(message) = quantities.into_iter().flatten().find_map(|of| excess(of, false)) {
                return Err(Refusal::new(format!("bottleneck.rates.{index}"), message));
            }
        }
        reverse(&self.bottleneck.reverse, "bottleneck")?;
        for (index, link) in self.links.iter().enumerate() {
            let name = format!("link.{index}");
            check(link, &name)?;
            reverse(&link.reverse, &name)?;
        }
        for (index, flow) in self.flows.iter().enumerate() {
            check(flow, &format!("flow.{index}"))?;
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            check(workload, &format!("workload.{index}"))?;
        }
        check(&self.measure, "measure")
    }
}
