//! A candidate: what its genes have become, and what was taken away from the scenario since.

use weir_core::Duration;
use weir_scenario::{Refusal, Scenario};
use weir_world::{SIM, check};

use crate::Hunt;
use crate::gene::Allele;
use weir_study::sweep::SweepError;
use weir_study::sweep::grammar::{Fault, Key, Value, scenario_with};

/// A candidate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Draft {
    /// By gene.
    pub(crate) alleles: Vec<Vec<Allele>>,
    /// Genes that are left out: their keys are as the scenario has them.
    pub(crate) dropped: Vec<bool>,
    /// Flows of the scenario that are left out.
    pub(crate) without: Vec<usize>,
    /// When all flows end at the latest.
    pub(crate) end: Option<Duration>,
}

impl Draft {
    pub(crate) fn new(alleles: Vec<Vec<Allele>>) -> Self {
        Self { dropped: vec![false; alleles.len()], without: Vec::new(), end: None, alleles }
    }

    /// The scenario as the hunt's file has it.
    pub(crate) fn neutral(&self) -> Self {
        Self { dropped: vec![true; self.alleles.len()], without: Vec::new(), end: None, ..self.clone() }
    }
}

impl Hunt {
    /// The values of a candidate's genes that are not left out.
    pub(crate) fn values(&self, draft: &Draft) -> Vec<(&Key, Value)> {
        let genes = self.genes.iter().zip(&draft.alleles).zip(&draft.dropped);
        genes
            .filter(|(_, dropped)| !**dropped)
            .map(|((gene, alleles), _)| (&gene.key, gene.value(alleles)))
            .collect()
    }

    /// The scenario of a candidate, checked.
    pub(crate) fn scenario(&self, draft: &Draft) -> Result<Scenario, SweepError> {
        let values = self.values(draft);
        let chosen: Vec<(&Key, &Value)> = values.iter().map(|(key, value)| (*key, value)).collect();
        let mut scenario = scenario_with(&self.texts, &chosen, SIM, self.large)?;
        if draft.without.is_empty() && draft.end.is_none() {
            return Ok(scenario);
        }
        let mut place = 0;
        scenario.flows.retain(|_| {
            place += 1;
            !draft.without.contains(&(place - 1))
        });
        let wrong = |Refusal { key, message }| self.texts.own(Fault::new(0, format!("{key}: {message}")));
        if let Some(end) = draft.end {
            cut(&mut scenario, end).map_err(wrong)?;
        }
        scenario.check().and_then(|()| check(&scenario, SIM, self.large)).map_err(wrong)?;
        Ok(scenario)
    }
}

/// When the last flow or workload ends that ends at a time.
pub(crate) fn end(scenario: &Scenario) -> Option<Duration> {
    let flows = scenario.flows.iter().filter_map(|flow| Some(flow.start + flow.duration?));
    let workloads = scenario.workloads.iter().filter_map(|one| Some(one.start + one.duration?));
    flows.chain(workloads).max()
}

/// Ends everything at `end`.
fn cut(scenario: &mut Scenario, end: Duration) -> Result<(), Refusal> {
    let late = |key: &str| Err(Refusal::new(key, format!("it has not begun at {end}")));
    for flow in &mut scenario.flows {
        if flow.start >= end {
            return late("flow.start");
        }
        flow.duration = flow.duration.map(|duration| duration.min(end - flow.start));
    }
    for workload in &mut scenario.workloads {
        if workload.start >= end {
            return late("workload.start");
        }
        workload.duration = workload.duration.map(|duration| duration.min(end - workload.start));
    }
    let measure = &mut scenario.measure;
    if measure.from >= end.scale(0.5) {
        return late("measure.from");
    }
    measure.to = measure.to.filter(|to| *to < end);
    Ok(())
}
