//! The kernel's own counters of its queues, as `tc` prints them: the check on what was measured, and part of the result.

use serde_json::Value;

use super::KernelWorldError;
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

/// Every qdisc of `device` with its counters.
pub(super) fn read(namespace: &Namespace, device: &str) -> Result<Vec<Value>, KernelWorldError> {
    let output = namespace
        .command("tc")?
        .args(["-s", "-j", "qdisc", "show", "dev", device])
        .output()
        .map_err(|source| HostError::Program { program: "tc".to_owned(), source })?;
    parse(&output.stdout).map_err(|error| KernelWorldError::Counters {
        message: format!("{error}; {}", String::from_utf8_lossy(&output.stderr).trim()),
    })
}

/// What `tc -s -j qdisc` printed.
pub(crate) fn parse(json: &[u8]) -> serde_json::Result<Vec<Value>> {
    serde_json::from_slice(json)
}

/// The root's among `qdiscs`.
pub(crate) fn root(qdiscs: &[Value]) -> Option<RootCounters> {
    let root = qdiscs.iter().find(|qdisc| qdisc.get("root").and_then(Value::as_bool) == Some(true))?;
    let count = |name: &str| root.get(name)?.as_u64();
    Some(RootCounters {
        packets: count("packets")?,
        bytes: count("bytes")?,
        drops: count("drops")?,
        requeues: count("requeues")?,
        queued: count("qlen")?,
    })
}

/// Which of `kinds` this kernel has not, found by trying.
pub(super) fn missing(kinds: &[(&'static str, String)]) -> Result<Vec<&'static str>, KernelWorldError> {
    let namespace = Namespace::create("probe")?;
    let mut missing = Vec::new();
    for (kind, words) in kinds {
        let lines = [format!("qdisc add dev lo root {kind} {words}"), "qdisc del dev lo root".to_owned()];
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
    use super::{RootCounters, root};

    #[test]
    fn the_root_is_found_among_its_children() {
        let text = r#"[{"kind":"htb","handle":"57e1:","root":true,"refcnt":3,"options":{"r2q":10},"bytes":1514,
            "packets":1,"drops":2,"overlimits":0,"requeues":3,"backlog":0,"qlen":4},
            {"kind":"bfifo","handle":"57e3:","parent":"57e1:2","bytes":9,"packets":9,"drops":9,"requeues":9,"qlen":9}]"#;
        let qdiscs: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        let expected = RootCounters { packets: 1, bytes: 1514, drops: 2, requeues: 3, queued: 4 };
        assert_eq!(root(&qdiscs), Some(expected));
        assert_eq!(root(&qdiscs[1..]), None);
    }
}
