use std::time::Instant;

use weir_core::Duration;
use weir_law::Params;
use weir_netdev::Clock;

use super::super::packets::testing::record;
use super::super::tree::Tree;
use super::{Books, Oddities, Watcher};
use crate::record::Recorder;
use weir_scenario::Scenario;

const ENQUEUED: u8 = 1;
const LEFT: u8 = 2;
const REFUSED: u8 = 3;
const DROPPED: u8 = 4;

fn watcher(qdisc: &str, queues: usize) -> Watcher {
    let text = format!(
        "flow = [{{stack = 'udp', rate = '1mbit', duration = '1s'}}]\n\
         bottleneck = {{rate = '8mbit', rtt = '20ms', qdisc = '{qdisc}'}}"
    );
    let scenario = Scenario::parse(&text, "x").unwrap();
    let tree = Tree::of(&scenario).unwrap();
    let recorder = Recorder::new(vec![20_000], queues, Duration::from_millis(10), &Params::default(), None);
    Watcher::new(&scenario, &tree, Box::new(recorder), Clock::starting(Instant::now()))
}

/// The beginning of a UDP packet to a port, with a codepoint.
fn headers(to: u16, ecn: u8) -> Vec<u8> {
    let mut bytes = vec![0; 42];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..16].copy_from_slice(&[0x45, ecn]);
    bytes[16..18].copy_from_slice(&986u16.to_be_bytes());
    bytes[23] = 17;
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[34..36].copy_from_slice(&20_000u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&to.to_be_bytes());
    bytes[38..40].copy_from_slice(&966u16.to_be_bytes());
    bytes
}

fn tell(watcher: &mut Watcher, micros: u64, id: u64, kind: u8, minor: u16, ecn: u8) {
    tell_of(watcher, 30_000, micros, id, kind, minor, ecn);
}

/// As [`tell`], of the flow to a port.
fn tell_of(watcher: &mut Watcher, to: u16, micros: u64, id: u64, kind: u8, minor: u16, ecn: u8) {
    let origin = watcher.origin.as_nanos();
    watcher.record(&record(origin + micros * 1000, id, kind, minor, ecn, 1000, &headers(to, ecn)));
}

#[test]
fn packets_are_followed_through_their_queue() {
    let mut watcher = watcher("crq responsive codel ecn", 2);
    tell(&mut watcher, 0, 0xa, ENQUEUED, 1, 2);
    tell(&mut watcher, 10, 0xb, ENQUEUED, 2, 0);
    tell(&mut watcher, 20, 0xc, REFUSED, 2, 0);
    tell(&mut watcher, 1000, 0xa, LEFT, 1, 3);
    tell(&mut watcher, 1500, 0xb, DROPPED, 2, 0);
    // The same buffer, used again.
    tell(&mut watcher, 2000, 0xa, ENQUEUED, 2, 0);
    watcher.work_off(u64::MAX);
    assert_eq!(watcher.inside(), 1);
    let Books { recorder, audit, oddities, .. } = watcher.finish(None);
    assert!(audit.holds(), "{audit:?}");
    assert_eq!((audit.total.arrived, audit.total.departed, audit.total.dropped), (4, 1, 2));
    assert_eq!((audit.still_queued, audit.total.marked, oddities.inexplicable), (1, 1, 0));
    let [standard, responsive] = &recorder.queues[..] else { panic!("two queues") };
    assert_eq!((responsive.departed, responsive.marked, responsive.sojourn.max()), (1, 1, Some(1_000_000)));
    assert_eq!((standard.overflowed, standard.dropped), (1, 1));
    let flow = &recorder.flows[0];
    assert_eq!((flow.packets, flow.responsive_packets, flow.dropped, flow.marked), (4, 1, 2, 1));
}

#[test]
fn records_that_make_no_sense_are_counted() {
    let mut watcher = watcher("bfifo", 1);
    watcher.record(&[1, 2, 3]);
    assert_eq!(watcher.finish(None).oddities, Oddities { inexplicable: 1, ..Oddities::default() });
}

#[test]
fn who_leaves_without_having_come_came_with_the_one_before() {
    let mut watcher = watcher("bfifo", 1);
    tell(&mut watcher, 100, 0xa, ENQUEUED, 2, 0);
    tell(&mut watcher, 200, 0xc, ENQUEUED, 2, 0);
    tell(&mut watcher, 1100, 0xa, LEFT, 2, 0);
    tell(&mut watcher, 2100, 0xb, LEFT, 2, 0);
    tell(&mut watcher, 3100, 0xc, LEFT, 2, 0);
    let Books { recorder, audit, oddities, .. } = watcher.finish(Some(0));
    assert!(audit.holds(), "{audit:?}");
    assert_eq!((audit.total.arrived, audit.total.departed, oddities.unheard), (3, 3, 1));
    assert_eq!(recorder.queues[0].sojourn.max(), Some(2_900_000));
    assert_eq!(recorder.queues[0].sojourn.count(), 3);
}

#[test]
fn who_came_before_one_that_left_has_left_as_well() {
    // A millisecond per packet.
    let mut watcher = watcher("bfifo", 1);
    (0..4).for_each(|id| tell(&mut watcher, id, id, ENQUEUED, 2, 0));
    tell(&mut watcher, 5, 0, LEFT, 2, 0);
    // 1 and 2 go unheard; then 3's buffer is used again, so it must have left too; 9 stays to the end.
    tell(&mut watcher, 1005, 9, ENQUEUED, 2, 0);
    tell(&mut watcher, 4000, 3, ENQUEUED, 2, 0);
    watcher.work_off(u64::MAX);
    assert_eq!(watcher.inside(), 2);
    let Books { recorder, audit, oddities, burst, .. } = watcher.finish(Some(0));
    assert!(audit.holds(), "{audit:?}");
    assert_eq!((audit.total.arrived, audit.total.departed, audit.still_queued), (6, 6, 0));
    assert_eq!((oddities.unheard, oddities.inexplicable), (5, 0));
    let sojourn = &recorder.queues[0].sojourn;
    assert!(sojourn.max().is_some_and(|max| max < 3_010_000), "{sojourn:?}");
    assert!(burst <= 2000, "{burst}");
}

#[test]
fn a_drop_may_be_told_after_the_next_departure() {
    let mut watcher = watcher("codel", 1);
    (0..3).for_each(|id| tell(&mut watcher, id, id, ENQUEUED, 2, 0));
    tell(&mut watcher, 1000, 1, LEFT, 2, 0);
    tell(&mut watcher, 1002, 0, DROPPED, 2, 0);
    // Its buffer is used again at once.
    tell(&mut watcher, 1003, 0, ENQUEUED, 2, 0);
    tell(&mut watcher, 2000, 2, LEFT, 2, 0);
    tell(&mut watcher, 3000, 0, LEFT, 2, 0);
    let Books { recorder, audit, oddities, .. } = watcher.finish(Some(0));
    assert!(audit.holds(), "{audit:?}");
    assert_eq!((audit.total.arrived, audit.total.departed, audit.total.dropped), (4, 3, 1));
    assert_eq!((recorder.queues[0].dropped, oddities), (1, Oddities::default()));
}

#[test]
fn flow_queues_are_left_in_any_order() {
    let mut watcher = watcher("fq_codel", 1);
    (0..3).for_each(|id| tell_of(&mut watcher, 30_000 + id as u16, id, id, ENQUEUED, 2, 2));
    tell_of(&mut watcher, 30_002, 1000, 2, LEFT, 2, 3);
    tell_of(&mut watcher, 30_000, 2000, 0, LEFT, 2, 2);
    // 1 goes unheard, then its buffer is used again.
    tell_of(&mut watcher, 30_001, 3000, 1, ENQUEUED, 2, 2);
    watcher.work_off(u64::MAX);
    assert_eq!(watcher.inside(), 1);
    let Books { recorder, audit, oddities, .. } = watcher.finish(None);
    assert!(audit.holds(), "{audit:?}");
    assert_eq!((audit.total.arrived, audit.total.departed, audit.still_queued), (4, 3, 1));
    assert_eq!((recorder.queues[0].marked, oddities.unheard, oddities.inexplicable), (1, 1, 0));
}

#[test]
fn flow_queues_keep_the_order_of_each_flow() {
    let mut watcher = watcher("fq_codel", 1);
    (0..4).for_each(|id| tell(&mut watcher, id, id, ENQUEUED, 2, 2));
    tell_of(&mut watcher, 30_001, 10, 7, ENQUEUED, 2, 2);
    // 0 was dropped, which is reported later; 1 went unheard; the other flow's packet and 3 are still there.
    tell(&mut watcher, 2000, 2, LEFT, 2, 2);
    tell(&mut watcher, 2001, 0, DROPPED, 2, 2);
    watcher.work_off(u64::MAX);
    assert_eq!(watcher.inside(), 2);
    // 1's buffer is used again, which is no news.
    tell(&mut watcher, 3000, 1, ENQUEUED, 2, 2);
    tell(&mut watcher, 4000, 3, LEFT, 2, 2);
    tell(&mut watcher, 5000, 1, LEFT, 2, 2);
    watcher.work_off(u64::MAX);
    let Books { audit, oddities, .. } = watcher.finish(None);
    assert!(audit.holds(), "{audit:?}");
    assert_eq!((audit.total.arrived, audit.total.departed, audit.total.dropped), (6, 4, 1));
    assert_eq!((audit.still_queued, oddities.unheard, oddities.inexplicable), (1, 1, 0));
}

#[test]
fn an_aqm_that_refuses_is_not_a_full_queue() {
    let mut watcher = watcher("pie", 1);
    tell(&mut watcher, 0, 0, REFUSED, 2, 0);
    let Books { recorder, audit, .. } = watcher.finish(None);
    assert_eq!((audit.total.dropped, recorder.queues[0].overflowed, recorder.queues[0].dropped), (1, 0, 1));
}

#[test]
fn a_link_that_is_too_fast_is_noticed() {
    let mut watcher = watcher("bfifo", 1);
    (0..6).for_each(|id| tell(&mut watcher, id, id, ENQUEUED, 2, 0));
    (0..6).for_each(|id| tell(&mut watcher, 100, id, LEFT, 2, 0));
    let books = watcher.finish(None);
    assert!(books.burst > 5000 && books.largest == 1000, "{}", books.burst);
}
