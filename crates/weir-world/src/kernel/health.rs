//! What a run on the kernel's queues says of itself. The kernel's own counters are the witness: what they have beyond
//! what was heard of packets went unheard.

use weir_link::RunReport;

use super::counters::RootCounters;
use super::measure::Heard;
use super::tree::Tree;
use crate::gather;
use weir_report::result::Health;
use weir_scenario::{FULL_PACKET, Scenario};

/// A tracepoint takes the time a little after HTB did: so much jitter, in seconds, is not a link that is too fast.
const JITTER_S: f64 = 20e-6;
/// Steps that may go unannounced, beside the packets that came, before the result is doubtful.
const UNHEARD_SHARE: f64 = 0.01;
/// Packets that a delay line may let go late, at the 99th percentile, beside the shortest round-trip time...
const LATE_SHARE: f64 = 0.1;
/// ... and in nanoseconds.
const LATE_NS: u64 = 200_000;

/// The health of a run. `root` is none where `tc` shows no root qdisc any more.
pub(super) fn of(
    scenario: &Scenario,
    tree: &Tree,
    heard: &Heard,
    delayed: Option<&RunReport>,
    root: Option<RootCounters>,
) -> Health {
    let books = &heard.books;
    let total = &books.audit.total;
    let root = root.unwrap_or_default();
    let jitter = scenario.bottleneck.rate.bits_per_sec() as f64 / 8.0 * JITTER_S;
    let unheard = books.oddities.unheard
        + root.packets.abs_diff(total.departed)
        + root.drops.abs_diff(total.dropped)
        + root.queued.abs_diff(books.audit.still_queued);
    let mut health = Health {
        lateness_ns: books.recorder.lateness.clone(),
        capacity_lost_bytes: books.lost_bytes,
        ring_overflows: heard.lost,
        frames_exhausted: 0,
        requeued: heard.requeued,
        unheard,
        cpu_s: cpu_s(heard, delayed),
        largest_burst_bytes: books.burst,
        allowed_burst_bytes: tree.burst + books.largest.max(FULL_PACKET) + jitter as u64 + 1,
        arrived: total.arrived,
        departed: total.departed,
        dropped: total.dropped,
        still_queued: books.audit.still_queued,
        unaccounted: books.audit.unbalanced.iter().map(|(_, missing)| missing.abs()).sum(),
        overtaken: books.audit.overtaken,
        warnings: Vec::new(),
    };
    gather::warn_of_lateness(scenario, &mut health);
    let mut warnings = Vec::new();
    let mut warn = |doubtful: bool, text: String| {
        if doubtful {
            warnings.push(text);
        }
    };
    let carried = total.departed_bytes.max(FULL_PACKET);
    warn(
        gather::is_much(books.lost_bytes, carried),
        format!(
            "HTB lost {} bytes of the link's capacity ({:.2} %); give the bottleneck a larger 'burst'",
            books.lost_bytes,
            100.0 * books.lost_bytes as f64 / carried as f64
        ),
    );
    warn(heard.lost > 0, format!("the measuring ring was full {} times; lower the rate", heard.lost));
    warn(heard.untracked > 0, format!("{} packets could not be followed", heard.untracked));
    warn(
        unheard as f64 > UNHEARD_SHARE * total.arrived as f64,
        format!(
            "the kernel did not announce {unheard} of {} steps; it counted {} packets out, {} dropped and {} left over, \
             where {}, {} and {} were made out",
            total.arrived + total.departed,
            root.packets,
            root.drops,
            root.queued,
            total.departed,
            total.dropped,
            books.audit.still_queued,
        ),
    );
    warn(
        books.oddities.inexplicable > 0,
        format!("{} records of packets do not fit the others", books.oddities.inexplicable),
    );
    warn(
        books.oddities.super_packets > 0,
        format!(
            "{} super-packets came to the queue, which should see single frames",
            books.oddities.super_packets
        ),
    );
    warn(
        // When an unheard packet left is not known well enough for this.
        health.largest_burst_bytes > health.allowed_burst_bytes && unheard == 0,
        format!(
            "{} bytes left in one burst; {} were allowed",
            health.largest_burst_bytes, health.allowed_burst_bytes
        ),
    );
    for fault in gather::audit_faults(&books.audit, scenario.bottleneck.qdisc.may_reorder()) {
        warn(true, fault);
    }
    warn(
        root.bytes != total.departed_bytes && unheard == 0,
        format!("the kernel counted {} bytes out; heard of were {}", root.bytes, total.departed_bytes),
    );
    if let Some(link) = delayed {
        delay_warnings(scenario, link, &mut warn);
    }
    health.warnings.extend(warnings);
    health
}

/// The health of a run whose packets were not followed: what the root counted.
pub(super) fn counted(
    scenario: &Scenario,
    heard: &Heard,
    delayed: Option<&RunReport>,
    root: Option<RootCounters>,
) -> Health {
    let root = root.unwrap_or_default();
    let mut health = Health {
        ring_overflows: heard.lost,
        requeued: root.requeues,
        cpu_s: cpu_s(heard, delayed),
        arrived: root.packets + root.drops + root.queued,
        departed: root.packets,
        dropped: root.drops,
        still_queued: root.queued,
        ..Health::default()
    };
    if let Some(link) = delayed {
        delay_warnings(scenario, link, &mut |doubtful, text| {
            if doubtful {
                health.warnings.push(text);
            }
        });
    }
    health
}

/// CPU time of what measures and delays.
fn cpu_s(heard: &Heard, delayed: Option<&RunReport>) -> f64 {
    heard.cpu_s + delayed.map_or(0.0, |link| (link.cpu_user + link.cpu_system).as_secs_f64())
}

/// The delay lines in user space are the path of this world: what they lose or hold up is not the queue's doing.
fn delay_warnings(scenario: &Scenario, link: &RunReport, warn: &mut impl FnMut(bool, String)) {
    let shortest = scenario
        .flows
        .iter()
        .filter_map(|flow| flow.rtt)
        .chain([scenario.bottleneck.rtt])
        .min()
        .unwrap_or_default();
    let limit = shortest.scale(LATE_SHARE).as_nanos().max(LATE_NS);
    let late = link.pipeline.lateness.p99_ns.max(link.pipeline.reverse_lateness.p99_ns);
    warn(
        late > limit,
        format!(
            "the delay line let 1 in 100 packets go more than {:.2} ms late; free the processors",
            late as f64 / 1e6
        ),
    );
    let lost =
        link.io.receive_overflows + link.io.interface_drops + link.io.out_of_frames + link.io.send_failures;
    warn(
        lost + link.pipeline.pool_exhausted > 0,
        format!("the delay line lost {} packets; lower the rate", lost + link.pipeline.pool_exhausted),
    );
}
