//! The kernel's statistics of queue disciplines, by `tc -s -j qdisc show`, and what its fields mean here.

use std::process::Command;

use anyhow::{Context, anyhow};
use serde_json::Value;
use weir_netdev::remedy;

use super::model::Discipline;

/// The disciplines of a device, in the calling thread's network namespace. `None` if there is no such device.
pub(crate) fn disciplines(device: &str) -> anyhow::Result<Option<Vec<Discipline>>> {
    let output = Command::new("tc")
        .args(["-s", "-j", "qdisc", "show", "dev", device])
        .output()
        .map_err(|error| anyhow!("cannot run tc: {error}{}", remedy::to_start(&error)))?;
    if output.status.success() {
        return parse(&output.stdout).with_context(|| format!("tc -s -j qdisc show dev {device}")).map(Some);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Cannot find device") {
        return Ok(None);
    }
    anyhow::bail!("tc -s -j qdisc show dev {device}: {}", said.trim())
}

/// What it printed.
pub(crate) fn parse(json: &[u8]) -> anyhow::Result<Vec<Discipline>> {
    // With nothing to show some versions print nothing, and not an empty array.
    if json.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let parsed: Vec<serde_json::Map<String, Value>> = serde_json::from_slice(json)?;
    // `[{}]` is how some print a device without a discipline.
    Ok(parsed.into_iter().filter(|object| !object.is_empty()).map(Discipline).collect())
}

impl Discipline {
    /// A field that is a text, or nothing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }

    /// A field that is a number, or 0.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Whether it stands at the device's root.
    pub(crate) fn is_root(&self) -> bool {
        self.0.get("root").and_then(Value::as_bool).unwrap_or(false)
    }

    /// CE marks, where this kind counts them: CoDel, PIE and their like say `ecn_mark`, RED `marked`, CAKE `ecn_mark`
    /// per tin.
    pub(crate) fn marks(&self) -> Option<u64> {
        let own = ["ecn_mark", "marked"].iter().find_map(|name| self.0.get(*name)?.as_u64());
        let tins = || {
            let tins = self.0.get("tins")?.as_array()?;
            Some(tins.iter().filter_map(|tin| tin.get("ecn_mark")?.as_u64()).sum())
        };
        own.or_else(tins)
    }

    /// Its options as `tc` words: `limit 30720b`, `target 5ms ecn`.
    pub(crate) fn options(&self) -> String {
        let Some(options) = self.0.get("options").and_then(Value::as_object) else { return String::new() };
        let in_bytes = matches!(self.text("kind"), "bfifo" | "red" | "tbf");
        // As people write them: sizes, times, the rest, and switches last.
        let mut options: Vec<_> = options.iter().collect();
        options.sort_by_key(|(name, value)| match name.as_str() {
            "limit" => 0,
            "target" => 1,
            "interval" => 2,
            _ if !value.is_boolean() => 3,
            _ => 4,
        });
        let words = options.into_iter().filter_map(|(name, value)| match (name.as_str(), value) {
            (_, Value::Bool(false) | Value::Null) => None,
            (_, Value::Bool(true)) => Some(name.clone()),
            ("limit", limit) => Some(format!("limit {limit}{}", if in_bytes { "b" } else { "p" })),
            ("target" | "interval" | "tupdate" | "ce_threshold", Value::Number(micros)) => {
                Some(format!("{name} {}", milliseconds(micros.as_f64().unwrap_or(0.0))))
            }
            (_, Value::String(text)) => Some(format!("{name} {text}")),
            (_, other) => Some(format!("{name} {other}")),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// JSON has microseconds; what was set as 5 ms comes back as 4999 us, as the kernel counts in 1024 ns.
fn milliseconds(micros: f64) -> String {
    let hundredths = (micros / 10.0).round();
    format!("{}ms", hundredths / 100.0)
}

#[cfg(test)]
mod tests {
    use super::parse;

    const SHOWN: &[u8] = br#"[
        {"kind":"htb","handle":"57e1:","root":true,"refcnt":3,"options":{"r2q":10,"default":"0x2"},
         "bytes":90,"packets":1,"drops":4,"overlimits":7,"requeues":0,"backlog":0,"qlen":0},
        {"kind":"codel","handle":"57e2:","parent":"57e1:1","options":{"limit":1000,"target":4999,"ecn":true},
         "bytes":5,"packets":1,"drops":0,"overlimits":0,"requeues":0,"backlog":3028,"qlen":2,
         "count":0,"lastcount":0,"ldelay":0,"dropping":false,"maxpacket":1514,"ecn_mark":17,"drop_overlimit":0},
        {"kind":"cake","handle":"57e3:","parent":"57e1:2","options":{},"bytes":1,"packets":1,"drops":0,
         "tins":[{"ecn_mark":2},{"ecn_mark":3}]},
        {"kind":"red","handle":"1:","options":{},"marked":5,"early":1}]"#;

    #[test]
    fn statistics_are_read_as_tc_prints_them() {
        let [htb, codel, cake, red] = <[_; 4]>::try_from(parse(SHOWN).unwrap()).unwrap();
        assert!(htb.is_root() && !codel.is_root());
        assert_eq!((htb.text("handle"), htb.number("overlimits"), htb.marks()), ("57e1:", 7, None));
        assert_eq!((codel.marks(), cake.marks(), red.marks()), (Some(17), Some(5), Some(5)));
        assert_eq!(codel.options(), "limit 1000p target 5ms ecn");
        assert_eq!((codel.number("none"), codel.text("none")), (0, ""));
    }

    #[test]
    fn nothing_is_an_empty_list() {
        assert!(parse(b"").unwrap().is_empty());
        assert!(parse(b"[{}]\n").unwrap().is_empty());
        assert!(parse(b"no JSON").is_err());
    }
}
