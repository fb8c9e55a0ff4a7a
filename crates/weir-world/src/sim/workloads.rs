//! A scenario's workloads in the simulated network, and what they came to.

use weir_core::Time;
use weir_sim::{HopId, Network, Observer, SpecError, WorkloadId, WorkloadReport, WorkloadSpec};

use weir_report::result::{RequestRow, WorkloadResult};
use weir_scenario::{Measure, Scenario, Workload};
use weir_testbed::traffic::Stack;

/// Adds all workloads.
pub(super) fn add<O: Observer>(
    network: &mut Network<O>,
    scenario: &Scenario,
    hop: HopId,
) -> Result<Vec<WorkloadId>, SpecError> {
    let mut added = Vec::new();
    for workload in &scenario.workloads {
        let connection = super::spec(scenario, &workload.connection(), [0; 2], &[hop])?;
        let pattern = workload.pattern(scenario.bottleneck.rate);
        let mut spec = WorkloadSpec::new(connection, pattern).start(workload.start);
        if let Some(duration) = workload.duration {
            spec = spec.length(duration);
        }
        if let Some(requests) = workload.requests {
            spec = spec.requests(requests);
        }
        added.push(network.add_workload(spec)?);
    }
    Ok(added)
}

/// What a workload came to until `end`, but for its rates.
pub(super) fn result(
    workload: &Workload,
    measure: &Measure,
    report: &WorkloadReport<'_>,
    end: Time,
) -> WorkloadResult {
    let row = |request: &weir_sim::Request| RequestRow {
        start_s: request.start.as_secs_f64(),
        bytes: request.bytes,
        fct_s: request.finished.map(|finished| finished.since(request.start).as_secs_f64()),
    };
    let list: Vec<RequestRow> = report.requests.iter().map(row).collect();
    // What was asked for in the measuring window, however late the answer came.
    let (from_s, to_s) = measure.window_s(end.since(Time::ZERO).as_secs_f64());
    let counts = |request: &&RequestRow| {
        !measure.has_window() || (from_s <= request.start_s && request.start_s < to_s)
    };
    let counted = || list.iter().filter(counts);
    let mut times: Vec<f64> = counted().filter_map(|request| request.fct_s).collect();
    times.sort_unstable_by(f64::total_cmp);
    // The smallest time that so large a share of requests did not exceed.
    let quantile = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        times.get(rank.max(1) - 1).copied()
    };
    WorkloadResult {
        name: workload.label().to_owned(),
        kind: workload.kind.name().to_owned(),
        stack: match workload.stack {
            Stack::Tcp => "tcp",
            Stack::Quic => "quic",
            Stack::Udp => "udp",
        }
        .to_owned(),
        controller: workload.controller.clone(),
        requests: counted().count() as u64,
        completed: times.len() as u64,
        asked_bytes: counted().map(|request| request.bytes).sum(),
        received_bytes: report.received,
        fct_mean_s: (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64),
        fct_p50_s: quantile(0.5),
        fct_p90_s: quantile(0.9),
        fct_p99_s: quantile(0.99),
        fct_max_s: times.last().copied(),
        connections: report.connections,
        waited: report.waited,
        stalls: report.stalls,
        stalled_s: report.stalled.as_secs_f64(),
        list,
        ..WorkloadResult::default()
    }
}
