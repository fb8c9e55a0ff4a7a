//! Queues too small for super-packets: with GSO a local sender hands over up to 64 kB as one packet, and so does GRO
//! with what is forwarded or was received. A queue that counts bytes takes such a packet whole or drops it whole. Where
//! not two fit, a TCP flow loses all that it has under way again and again.

use super::leaf::Leaf;
use super::setup::{Direction, Setup};
use weir_netdev::device;

// Get requests of linux/ethtool.h; each answers whether the feature is on.
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GGRO: u32 = 0x2b;

/// Bytes of the largest packet that `name` may bring to a queue of this direction, if it brings more than frames:
/// `largest` unless the features that make super-packets are off.
pub(super) fn largest(name: &str, largest: u32, direction: Direction) -> Option<u32> {
    let features: &[u32] = match direction {
        Direction::Egress => &[ETHTOOL_GGSO, ETHTOOL_GTSO],
        Direction::Ingress => &[ETHTOOL_GGRO],
    };
    let socket = device::control_socket().ok()?;
    let is_on = |request: &u32| {
        let mut command = [*request, 0];
        // SAFETY: two words are what the commands read and write.
        unsafe { device::ethtool(&socket, name, &mut command) }.is_ok() && command[1] != 0
    };
    features.iter().any(is_on).then_some(largest)
}

/// What to say of the queues of a direction in which packets may be `largest` bytes long.
pub(super) fn warnings(setup: &Setup, direction: Direction, largest: u32) -> Vec<String> {
    let needed = 2 * u64::from(largest);
    let remedy = match direction {
        Direction::Egress => format!("`ethtool -K {} gso off tso off`", setup.device),
        Direction::Ingress => format!("`ethtool -K {} gro off`", setup.device),
    };
    let warn = |((title, leaf), bytes): ((&str, &Leaf), Option<u64>)| {
        let bytes = bytes.filter(|bytes| *bytes < needed)?;
        Some(format!(
            "the {title} queue ({direction}) is a {} of {bytes} bytes, which holds less than two of the super-packets of up \
             to {largest} bytes that {} makes: TCP would starve there; give it a larger limit ({}) or switch them off with {remedy}",
            leaf.kind(),
            setup.device,
            leaf.with_limit(needed)
        ))
    };
    let limits = setup.shape(direction).limits_in_bytes();
    setup.queues.named().into_iter().zip(limits).filter_map(warn).collect()
}

#[cfg(test)]
mod tests {
    use super::{largest, warnings};
    use crate::setup::{Direction, Setup};
    use crate::words;

    fn warned(line: &str, largest: u32) -> Vec<String> {
        let setup = Setup::from_keys(words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()).unwrap();
        warnings(&setup, Direction::Egress, largest)
    }

    #[test]
    fn two_super_packets_have_to_fit() {
        let small = warned("eth0 rate 100mbit standard bfifo limit 64kb", 65_536);
        assert_eq!(small.len(), 1);
        for word in ["standard", "65536 bytes", "(bfifo limit 128kb)", "ethtool -K eth0 gso off tso off"] {
            assert!(small[0].contains(word), "{word}: {}", small[0]);
        }
        assert!(warned("eth0 rate 100mbit standard bfifo limit 131072b", 65_536).is_empty());
        assert_eq!(warned("eth0 rate 100mbit standard bfifo limit 131071b", 65_536).len(), 1);
        // What fits depends on the device.
        assert!(warned("eth0 rate 100mbit standard bfifo limit 64kb", 16_384).is_empty());
    }

    #[test]
    fn only_queues_that_count_bytes_are_meant() {
        assert!(
            warned("eth0 rate 100mbit standard pfifo limit 10p responsive cake unlimited", 65_536).is_empty()
        );
        // One BDP of half of 1 Mbit/s.
        assert_eq!(warned("eth0 rate 1mbit queues bfifo/red", 65_536).len(), 2);
        assert!(warned("eth0 rate 1gbit queues bfifo/bfifo", 65_536).is_empty());
    }

    #[test]
    fn the_remedy_is_given_as_it_can_be_written() {
        let said = &warned("eth0 rate 1mbit queues bfifo/codel", 65_536)[0];
        let leaf = said.split_once('(').and_then(|_| said.split("limit (").nth(1)).unwrap();
        let leaf = leaf.split(')').next().unwrap();
        assert!(warned(&format!("eth0 rate 1mbit standard {leaf}"), 65_536).is_empty(), "{leaf}");
    }

    #[test]
    fn loopback_makes_super_packets_and_nothing_makes_none() {
        assert_eq!(largest("lo", 65_536, Direction::Egress), Some(65_536));
        assert_eq!(largest("weir-none", 65_536, Direction::Egress), None);
    }
}
