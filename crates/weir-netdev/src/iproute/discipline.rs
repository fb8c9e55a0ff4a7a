//! A queue discipline as `tc -s -j qdisc show` prints it (tc-qdisc, `print_qdisc` of iproute2), and what its fields
//! mean.

use serde::Serialize;
use serde_json::{Map, Value};

/// A queue discipline with its statistics, whole: every field that `tc` printed, by its name there.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Discipline(pub Map<String, Value>);

impl Discipline {
    /// What `tc -s -j qdisc show` printed.
    ///
    /// # Errors
    /// When it is no array of objects in JSON.
    pub fn parse(json: &[u8]) -> serde_json::Result<Vec<Self>> {
        // With nothing to show some versions print nothing, and not an empty array.
        if json.trim_ascii().is_empty() {
            return Ok(Vec::new());
        }
        let parsed: Vec<Map<String, Value>> = serde_json::from_slice(json)?;
        // `[{}]` is how some print a device without a discipline.
        Ok(parsed.into_iter().filter(|object| !object.is_empty()).map(Self).collect())
    }

    /// The one at the root of the interface.
    #[must_use]
    pub fn root(all: &[Self]) -> Option<&Self> {
        all.iter().find(|one| one.is_root())
    }

    /// The one whose handle `tc` writes as `handle`, such as `57e1:`.
    #[must_use]
    pub fn with_handle<'a>(all: &'a [Self], handle: &str) -> Option<&'a Self> {
        all.iter().find(|one| one.text("handle") == handle)
    }

    /// A field that is a whole number, if it is there.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// A field that is a text, or nothing.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }

    /// A field that is a number, or 0.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.count(name).unwrap_or(0)
    }

    /// Whether it stands at the device's root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.get("root").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Packets marked CE, where this kind counts them: CoDel, PIE and their like say `ecn_mark`, RED `marked`, CAKE
    /// `ecn_mark` per tin; `ce_mark` counts those above `ce_threshold`, if there are any. CoDel counts a packet that
    /// both rules mark in both numbers: every marked packet is above a threshold of at most the target, so that the
    /// larger number has them all. Above the target the sum may have some twice.
    #[must_use]
    pub fn marks(&self) -> Option<u64> {
        let own = ["ecn_mark", "marked"].iter().find_map(|name| self.count(name));
        let tins = || {
            let tins = self.0.get("tins")?.as_array()?;
            Some(tins.iter().filter_map(|tin| tin.get("ecn_mark")?.as_u64()).sum())
        };
        let threshold = self.option("ce_threshold");
        match (own, self.count("ce_mark").or(threshold.map(|_| 0))) {
            (Some(own), Some(above)) if threshold <= self.option("target") => Some(own.max(above)),
            (Some(own), Some(above)) => Some(own + above),
            (own, above) => own.or(above).or_else(tins),
        }
    }

    fn option(&self, name: &str) -> Option<u64> {
        self.0.get("options")?.get(name)?.as_u64()
    }

    /// The bucket of a `tbf` in bytes, if it holds less than two frames of `frame` bytes. The kernel wakes such a one up
    /// for each frame, and what comes in while the wake-up is late does not fit, so that it is slower than its rate.
    #[must_use]
    pub fn short_bucket(&self, frame: u64) -> Option<u64> {
        if self.text("kind") != "tbf" {
            return None;
        }
        let burst = self.option("burst")?;
        // `tc` shows what passes in whole microseconds (`tc_calc_xmitsize`), rounded down.
        let unit = self.option("rate").unwrap_or(0).div_ceil(1_000_000);
        (burst + unit < 2 * frame).then_some(burst)
    }

    /// Its options as `tc` words: `limit 30720b`, `target 5ms ecn`.
    #[must_use]
    pub fn options(&self) -> String {
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
    use super::Discipline;

    #[test]
    fn buckets_of_less_than_two_frames_are_found() {
        let of = |kind: &str, rate: u64, burst: u64| {
            let options = format!(r#""options":{{"rate":{rate},"burst":{burst},"lat":5000}}"#);
            let json = format!(r#"[{{"kind":"{kind}","handle":"1:","root":true,{options}}}]"#);
            Discipline::parse(json.as_bytes()).unwrap()[0].short_bucket(1514)
        };
        assert_eq!(of("tbf", 125_000_000, 1512), Some(1512));
        assert_eq!(of("tbf", 125_000_000, 2875), Some(2875));
        // What 3028 bytes are in whole microseconds, at 1 and at 10 Gbit/s.
        assert_eq!(of("tbf", 125_000_000, 3000), None);
        assert_eq!(of("tbf", 1_250_000_000, 2500), None);
        assert_eq!(of("htb", 125_000_000, 1512), None);
    }

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
        let [htb, codel, cake, red] = <[_; 4]>::try_from(Discipline::parse(SHOWN).unwrap()).unwrap();
        assert!(htb.is_root() && !codel.is_root());
        assert_eq!((htb.text("handle"), htb.number("overlimits"), htb.marks()), ("57e1:", 7, None));
        assert_eq!((codel.marks(), cake.marks(), red.marks()), (Some(17), Some(5), Some(5)));
        assert_eq!(codel.options(), "limit 1000p target 5ms ecn");
        assert_eq!((codel.number("none"), codel.text("none")), (0, ""));
    }

    #[test]
    fn packets_above_a_threshold_are_marked_too() {
        let of = |options: &str, counts: &str| {
            let json = format!(r#"[{{"kind":"codel","options":{{{options}}},"drops":0{counts}}}]"#);
            Discipline::parse(json.as_bytes()).unwrap()[0].marks()
        };
        let below = r#""target":4999,"ce_threshold":999"#;
        assert_eq!(of(below, r#","ecn_mark":3,"ce_mark":40"#), Some(40));
        assert_eq!(of(below, r#","ecn_mark":0"#), Some(0));
        assert_eq!(of(r#""target":4999,"ce_threshold":19999"#, r#","ecn_mark":3,"ce_mark":40"#), Some(43));
        // `fq` has the threshold alone, and `tc` says nothing of marks before the first.
        assert_eq!(of(r#""ce_threshold":999"#, r#","ce_mark":7"#), Some(7));
        assert_eq!((of(r#""ce_threshold":999"#, ""), of("", "")), (Some(0), None));
    }

    #[test]
    fn nothing_is_an_empty_list() {
        assert!(Discipline::parse(b"").unwrap().is_empty());
        assert!(Discipline::parse(b"[{}]\n").unwrap().is_empty());
        assert!(Discipline::parse(b"no JSON").is_err());
    }
}
