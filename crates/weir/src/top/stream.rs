//! `weir top --json`: one line per bottleneck and interval, for scripts.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::sample::{QueueRates, Row, Sample, queue_rates, rows};
use super::{Eye, Pace, now};
use crate::show::now_unix_s;
use crate::talk;
use weir_kernel::Direction;
use weir_kernel::model::{Bottleneck, FlowTable, State};

/// The longest that a signal waits to be seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// One bottleneck between two looks.
#[derive(Serialize)]
struct Interval<'a> {
    time_unix_s: f64,
    interval_s: f64,
    device: &'a str,
    direction: Direction,
    state: State,
    rate_bits_per_second: u64,
    queues: Vec<QueueRates>,
    flow_table: Option<FlowTable>,
    flows: Vec<Row>,
}

pub(super) fn run(mut eye: Eye, first: Sample, pace: &Pace) -> anyhow::Result<ExitCode> {
    let mut before = first;
    let mut next = now();
    let mut lines = 0;
    while pace.count.is_none_or(|count| lines < count) {
        next += pace.interval;
        loop {
            if talk::is_stopped(&pace.stop) {
                return Ok(ExitCode::from(talk::INTERRUPTED));
            }
            let left = next.saturating_duration_since(now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left.min(PATIENCE));
        }
        let current = eye.look()?;
        tell_of_the_gone(&before, &current);
        for shown in &current.bottlenecks {
            talk::print_encoded(&line(&current, shown, &before, now_unix_s())?)?;
        }
        before = current;
        lines += 1;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_of_the_gone(before: &Sample, current: &Sample) {
    for gone in &before.bottlenecks {
        if current.find(&gone.device, gone.direction).is_none() {
            talk::say!("weir: the {} bottleneck on {} is gone", gone.direction.name(), gone.device);
        }
    }
}

fn line(current: &Sample, shown: &Bottleneck, before: &Sample, now_unix_s: f64) -> anyhow::Result<String> {
    let earlier = before.find(&shown.device, shown.direction);
    let interval_s = current.at_s - before.at_s;
    Ok(serde_json::to_string(&Interval {
        time_unix_s: (now_unix_s * 1e3).round() / 1e3,
        interval_s: (interval_s * 1e6).round() / 1e6,
        device: &shown.device,
        direction: shown.direction,
        state: shown.state,
        rate_bits_per_second: shown.rate_bits_per_second,
        queues: queue_rates(shown, earlier, interval_s),
        flow_table: shown.flow_table,
        flows: rows(shown, earlier, interval_s),
    })?)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::line;
    use crate::show::testing::bottleneck;
    use crate::top::sample::Sample;

    #[test]
    fn a_line_is_an_object_with_rates() {
        let before = Sample { at_s: 1.0, bottlenecks: vec![bottleneck()] };
        let mut after = Sample { at_s: 3.0, bottlenecks: vec![bottleneck()] };
        after.bottlenecks[0].flows[0].bytes += 1_000_000;
        let text = line(&after, &after.bottlenecks[0], &before, 1.5e9).unwrap();
        assert!(!text.contains('\n'));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["interval_s"], &value["device"]), (&2.0.into(), &"eth0".into()));
        assert_eq!(value["flows"][0]["bits_per_second"], 4e6);
        assert_eq!(value["flows"][0]["loss_votes"]["responsive"], 9);
        assert_eq!(value["queues"][0]["queue"], "responsive");
        assert_eq!(value["queues"][0]["marks_per_second"], Value::Null);
        assert_eq!(value["flow_table"]["capacity"], 65_536);
    }
}
