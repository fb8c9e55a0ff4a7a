//! Two looks at the bottlenecks make rates: of queues from the kernel's counters, of flows from their payload.

use std::collections::HashMap;

use serde::Serialize;

use crate::show::QUEUES;
use weir_core::QueueChoice;
use weir_kernel::Direction;
use weir_kernel::model::{Bottleneck, Flow};
use weir_netdev::iproute::Discipline;

/// What one look saw.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// When, in seconds of a clock that only goes forward.
    pub(crate) at_s: f64,
    /// Every bottleneck that was asked for.
    pub(crate) bottlenecks: Vec<Bottleneck>,
}

impl Sample {
    /// The bottleneck of that interface and direction.
    pub(crate) fn find(&self, device: &str, direction: Direction) -> Option<&Bottleneck> {
        self.bottlenecks.iter().find(|shown| shown.device == device && shown.direction == direction)
    }
}

/// A queue between two looks. Rates are `None` where its counters do not go back to the look before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QueueRates {
    pub(crate) queue: QueueChoice,
    pub(crate) bits_per_second: Option<f64>,
    pub(crate) packets_per_second: Option<f64>,
    pub(crate) drops_per_second: Option<f64>,
    pub(crate) marks_per_second: Option<f64>,
    /// Bytes that wait now.
    pub(crate) backlog: u64,
    /// Packets that wait now.
    pub(crate) qlen: u64,
}

/// A flow between two looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) flow: Flow,
    /// Payload per second since the look before.
    pub(crate) bits_per_second: Option<f64>,
    /// Lost segments per second over the last two whole cycles and the time that it has been idle.
    pub(crate) losses_per_second: Option<f64>,
    /// Marked segments per second, likewise.
    pub(crate) marks_per_second: Option<f64>,
}

/// The two queues' rates, responsive first.
pub(crate) fn queue_rates(now: &Bottleneck, before: Option<&Bottleneck>, elapsed_s: f64) -> Vec<QueueRates> {
    QUEUES.into_iter().map(|name| rates_of(name, now, before, elapsed_s)).collect()
}

fn rates_of(name: QueueChoice, now: &Bottleneck, before: Option<&Bottleneck>, elapsed_s: f64) -> QueueRates {
    let queue = now.queue(name);
    let discipline = queue.and_then(|queue| queue.discipline.as_ref());
    let earlier = before.and_then(|before| before.queue(name));
    let per_second = |read: fn(&Discipline) -> Option<u64>| {
        let (now, before) = (read(discipline?)?, read(earlier?.discipline.as_ref()?)?);
        // A counter that has gone back is another queue's.
        (elapsed_s > 0.0).then_some(now.checked_sub(before)? as f64 / elapsed_s)
    };
    let number = |field| discipline.map_or(0, |discipline| discipline.number(field));
    QueueRates {
        queue: name,
        bits_per_second: per_second(|queue| Some(queue.number("bytes"))).map(|bytes| bytes * 8.0),
        packets_per_second: per_second(|queue| Some(queue.number("packets"))),
        drops_per_second: per_second(|queue| Some(queue.number("drops"))),
        marks_per_second: per_second(Discipline::marks),
        backlog: number("backlog"),
        qlen: number("qlen"),
    }
}

/// A row per flow, in the table's order.
pub(crate) fn rows(now: &Bottleneck, before: Option<&Bottleneck>, elapsed_s: f64) -> Vec<Row> {
    fn key(flow: &Flow) -> (&str, &str, &str) {
        (&flow.source, &flow.destination, flow.protocol)
    }
    let earlier: HashMap<_, u64> =
        before.iter().flat_map(|before| before.flows.iter().map(|flow| (key(flow), flow.bytes))).collect();
    let rate = |flow: &Flow| {
        before?;
        // A flow that was not there has sent all of its bytes since.
        let bytes = flow.bytes.checked_sub(earlier.get(&key(flow)).copied().unwrap_or(0))?;
        (elapsed_s > 0.0).then(|| bytes as f64 * 8.0 / elapsed_s)
    };
    now.flows
        .iter()
        .map(|flow| Row {
            flow: flow.clone(),
            bits_per_second: rate(flow),
            losses_per_second: signal_rate(flow, flow.loss_segments),
            marks_per_second: signal_rate(flow, flow.mark_segments),
        })
        .collect()
}

fn signal_rate(flow: &Flow, segments: [u32; 3]) -> Option<f64> {
    let seconds = 2.0 * flow.rtt_ms? / 1e3 + flow.idle_s;
    (seconds > 0.0).then(|| f64::from(segments[1] + segments[2]) / seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{queue_rates, rows};
    use crate::show::testing::bottleneck;
    use weir_core::QueueChoice;

    #[test]
    fn rates_are_what_came_between_two_looks() {
        let before = bottleneck();
        let mut now = bottleneck();
        let queue = &mut now.queues[0].discipline.as_mut().unwrap().0;
        queue.insert("bytes".to_owned(), json!(23_625_000 + 2_500_000));
        queue.insert("drops".to_owned(), json!(12 + 3));
        now.queues[1].discipline.as_mut().unwrap().0.insert("ecn_mark".to_owned(), json!(17 + 8));
        now.flows[0].bytes += 1_250_000;
        let queues = queue_rates(&now, Some(&before), 2.0);
        assert_eq!(queues[0].queue, QueueChoice::Responsive);
        assert_eq!((queues[0].bits_per_second, queues[0].drops_per_second), (Some(10e6), Some(1.5)));
        assert_eq!((queues[0].backlog, queues[0].qlen, queues[0].marks_per_second), (30_280, 20, None));
        assert_eq!((queues[1].bits_per_second, queues[1].marks_per_second), (Some(0.0), Some(4.0)));
        let rows = rows(&now, Some(&before), 2.0);
        assert_eq!((rows[0].bits_per_second, rows[1].bits_per_second), (Some(5e6), Some(0.0)));
        // Two losses in two cycles of 21.4 ms, one millisecond ago.
        let losses = rows[0].losses_per_second.unwrap();
        assert!((losses - 2.0 / 0.0438).abs() < 1e-9, "{losses}");
        assert_eq!((rows[0].marks_per_second, rows[2].losses_per_second), (Some(0.0), None));
    }

    #[test]
    fn without_an_earlier_look_there_is_no_rate() {
        let now = bottleneck();
        assert!(queue_rates(&now, None, 0.0).iter().all(|queue| queue.bits_per_second.is_none()));
        assert!(rows(&now, None, 0.0).iter().all(|row| row.bits_per_second.is_none()));
    }

    #[test]
    fn counters_that_start_again_give_no_rate() {
        let mut before = bottleneck();
        let now = bottleneck();
        before.queues[0].discipline.as_mut().unwrap().0.insert("bytes".to_owned(), json!(99_000_000_000u64));
        before.flows[0].bytes += 1;
        before.flows.pop();
        let queues = queue_rates(&now, Some(&before), 1.0);
        assert_eq!((queues[0].bits_per_second, queues[0].drops_per_second), (None, Some(0.0)));
        let rows = rows(&now, Some(&before), 1.0);
        assert_eq!(rows[0].bits_per_second, None);
        // New since the look before.
        assert_eq!(rows[2].bits_per_second, Some(72_000.0));
    }
}
