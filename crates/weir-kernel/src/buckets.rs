//! Token buckets of less than two frames: `tbf` wakes up for each frame then, and loses what comes in while the wake-up
//! is late (`toks = min(now - checked, buffer)` of `net/sched/sch_tbf.c`). The link is slower than its rate, by as much
//! as the machine is late.

use weir_core::Bytes;
use weir_qdisc::QdiscConfig;

use super::setup::Setup;

const ETHERNET: u64 = 14;

/// What to say of the queues that are wanted. Where somebody's `tbf` stands at the root, `weir up` refuses.
pub(super) fn warnings(setup: &Setup) -> Vec<String> {
    let frame = u64::from(setup.mtu) + ETHERNET;
    let named = setup.queues.named().into_iter();
    named.filter_map(|(title, leaf)| wanted(title, leaf.config(), frame)).collect()
}

/// What to say of a queue of Weir's.
fn wanted(title: &str, queue: &QdiscConfig, frame: u64) -> Option<String> {
    let QdiscConfig::Tbf(keys) = queue else { return None };
    let burst = keys.burst.map_or(frame, |burst| burst.0);
    (burst < 2 * frame).then(|| {
        format!(
            "the {title} queue is a tbf with a burst of {burst} bytes, {}; {}",
            slower(frame),
            remedy(frame)
        )
    })
}

fn slower(frame: u64) -> String {
    format!("less than two frames of {frame}, and loses all of a late wake-up: it is slower than its rate")
}

fn remedy(frame: u64) -> String {
    format!("give it burst {} or more", Bytes(2 * frame))
}

#[cfg(test)]
mod tests {
    use super::warnings;
    use crate::setup::Setup;
    use crate::words;

    #[test]
    fn a_bucket_of_two_frames_is_enough() {
        let said = |queue: &str| {
            let line = format!("eth0 rate 1gbit standard {queue} responsive codel");
            let words: Vec<&str> = line.split(' ').collect();
            let setup = Setup::from_keys(words::parse(&words).unwrap()).unwrap();
            warnings(&setup)
        };
        assert_eq!(said("tbf burst 3028b"), Vec::<String>::new());
        assert_eq!(said("bfifo"), Vec::<String>::new());
        for short in ["tbf", "tbf burst 1514b", "tbf burst 3027b"] {
            let said = said(short);
            assert_eq!(said.len(), 1, "{short}: {said:?}");
            assert!(said[0].contains("standard") && said[0].contains("burst 3028b"), "{said:?}");
        }
    }
}
