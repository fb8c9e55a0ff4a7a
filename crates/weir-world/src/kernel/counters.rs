//! The kernel's own counters of its queues, as `tc` prints them: the check on what was measured, and part of the
//! result.

use weir_netdev::iproute::Discipline;

use super::KernelWorldError;
use super::tree::Tree;
use crate::record::QueueRecord;
use weir_testbed::host::{HostError, Namespace};

/// What the root qdisc counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RootCounters {
    /// Packets that left.
    pub(crate) packets: u64,
    /// Their bytes, overhead included.
    pub(crate) bytes: u64,
    /// Packets dropped by it or the queues under it.
    pub(crate) drops: u64,
    /// Packets that the driver gave back.
    pub(crate) requeues: u64,
    /// Packets still in the queues.
    pub(crate) queued: u64,
}

/// The root's among `disciplines`, if `tc` printed all of them.
pub(crate) fn root(disciplines: &[Discipline]) -> Option<RootCounters> {
    let root = Discipline::root(disciplines)?;
    Some(RootCounters {
        packets: root.count("packets")?,
        bytes: root.count("bytes")?,
        drops: root.count("drops")?,
        requeues: root.count("requeues")?,
        queued: root.count("qlen")?,
    })
}

/// Writes into `queues` what `tc` counted of each, where packets were not followed. Of CoDel and its like it says how
/// many drops were for want of room; of what drops at random on arrival all are taken for the AQM's.
pub(super) fn fill(queues: &mut [QueueRecord], tree: &Tree, disciplines: &[Discipline]) {
    for (index, queue) in queues.iter_mut().enumerate() {
        let Some(found) = Discipline::with_handle(disciplines, &tree.handles[index]) else { continue };
        let drops = found.number("drops");
        queue.departed = found.number("packets");
        queue.departed_bytes = found.number("bytes");
        let by_room = if tree.early[index] { 0 } else { drops };
        queue.overflowed = found.count("drop_overlimit").map_or(by_room, |overflowed| overflowed.min(drops));
        queue.dropped = drops - queue.overflowed;
        queue.marked = found.marks().unwrap_or(0);
    }
}

/// Which of `kinds`, each with words that it takes, this kernel has not, found by trying.
pub(super) fn missing(kinds: &[(&'static str, String)]) -> Result<Vec<&'static str>, KernelWorldError> {
    let namespace = Namespace::create("probe")?;
    let mut missing = Vec::new();
    for (kind, words) in kinds {
        let lines = [format!("qdisc add dev lo root {words}"), "qdisc del dev lo root".to_owned()];
        match namespace.tc(&lines) {
            Ok(()) => {}
            // What the kernel says of a kind that it does not know, or tc of one that it cannot spell.
            Err(HostError::Line { message, .. })
                if message.contains("kind is unknown") || message.contains("Unknown qdisc") =>
            {
                missing.push(*kind);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::{Discipline, QueueRecord, RootCounters, fill, root};
    use crate::kernel::tree::Tree;
    use weir_scenario::Scenario;

    #[test]
    fn the_root_is_found_among_its_children() {
        let text = r#"[{"kind":"htb","handle":"57e1:","root":true,"refcnt":3,"options":{"r2q":10},"bytes":1514,
            "packets":1,"drops":2,"overlimits":0,"requeues":3,"backlog":0,"qlen":4},
            {"kind":"bfifo","handle":"57e3:","parent":"57e1:2","bytes":9,"packets":9,"drops":9,"requeues":9,"qlen":9}]"#;
        let qdiscs = Discipline::parse(text.as_bytes()).unwrap();
        let expected = RootCounters { packets: 1, bytes: 1514, drops: 2, requeues: 3, queued: 4 };
        assert_eq!(root(&qdiscs), Some(expected));
        assert_eq!(root(&qdiscs[1..]), None);
    }

    #[test]
    fn queues_are_filled_from_their_own_disciplines() {
        let text = "flow = [{stack = 'udp', rate = '1mbit', duration = '1s'}]\nbottleneck = {rate = '9mbit', \
                    rtt = '9ms', qdisc = 'crq standard pie responsive codel ecn'}";
        let tree = Tree::of(&Scenario::parse(text, "x").unwrap()).unwrap();
        let json = r#"[{"kind":"codel","handle":"57e2:","bytes":9,"packets":8,"drops":7,"drop_overlimit":3,"ecn_mark":2},
            {"kind":"pie","handle":"57e3:","bytes":6,"packets":5,"drops":4},{"kind":"htb","handle":"57e1:","drops":11}]"#;
        let qdiscs = Discipline::parse(json.as_bytes()).unwrap();
        let mut queues = vec![QueueRecord::default(), QueueRecord::default()];
        fill(&mut queues, &tree, &qdiscs);
        let seen = |queue: &QueueRecord| {
            [queue.departed_bytes, queue.departed, queue.overflowed, queue.dropped, queue.marked]
        };
        assert_eq!([seen(&queues[0]), seen(&queues[1])], [[6, 5, 0, 4, 0], [9, 8, 3, 4, 2]]);
    }
}
