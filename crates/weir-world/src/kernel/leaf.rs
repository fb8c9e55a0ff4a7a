//! A queue of a scenario as a leaf of the kernel's tree: its kind and options as `tc` takes them, and what one must know
//! of it to follow packets through it. What the kernel's discipline cannot do is refused by name.

use weir_core::{Bytes, Duration};
use weir_qdisc::config::{
    BuildContext, CakeKeys, CodelKeys, ConfigError, FqCodelKeys, FqKeys, FqPieKeys, PieKeys, PieVariant,
    QdiscConfig, RedKeys,
};
use weir_qdisc::{KernelVariant, Limit, QueueLimit};

use super::KernelWorldError;
use super::tree::cannot;

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The kernel's name.
    pub(super) kind: &'static str,
    /// Its options.
    pub(super) words: String,
    /// It can set CE.
    pub(super) marks: bool,
    /// Packets leave it in the order in which they came, whatever their flows.
    pub(super) in_order: bool,
    /// Its AQM refuses packets on arrival, so that a refusal need not mean that it is full.
    pub(super) early: bool,
}

/// Writes options down.
struct Options<'a> {
    key: &'a str,
    context: &'a BuildContext,
    words: Vec<String>,
}

impl Leaf {
    /// The leaf for a scenario's queue whose key is `key`.
    pub(super) fn of(
        qdisc: &QdiscConfig,
        context: &BuildContext,
        key: &str,
    ) -> Result<Self, KernelWorldError> {
        let mut options = Options { key, context, words: Vec::new() };
        let (kind, marks, in_order, early) = match qdisc {
            QdiscConfig::Pfifo(keys) => {
                options.put("limit", options.checked(keys.resolve(context))?);
                ("pfifo", false, true, false)
            }
            QdiscConfig::Bfifo(keys) => {
                options.put("limit", options.checked(keys.resolve(context))?);
                ("bfifo", false, true, false)
            }
            QdiscConfig::Codel(keys) => {
                options.codel(keys)?;
                ("codel", keys.ecn || keys.ce_threshold.is_some(), true, false)
            }
            QdiscConfig::Red(keys) => {
                options.red(keys)?;
                ("red", keys.ecn, true, true)
            }
            QdiscConfig::Pie(keys) => {
                options.pie(keys)?;
                ("pie", keys.ecn, true, true)
            }
            QdiscConfig::Fq(keys) => {
                options.fq(keys)?;
                ("fq", keys.ce_threshold.is_some(), false, false)
            }
            QdiscConfig::FqCodel(keys) => {
                options.fq_codel(keys)?;
                ("fq_codel", keys.ecn || keys.ce_threshold.is_some(), false, false)
            }
            QdiscConfig::FqPie(keys) => {
                options.fq_pie(keys)?;
                ("fq_pie", keys.ecn, false, true)
            }
            QdiscConfig::Cake(keys) => {
                options.cake(keys)?;
                ("cake", true, false, false)
            }
            QdiscConfig::Crq(_) => return Err(cannot(key, "a crq cannot stand inside another")),
            other => {
                let message = format!("{} is not set up in the kernel's world; use --on emu", other.kind());
                return Err(cannot(key, &message));
            }
        };
        Ok(Self { kind, words: options.words.join(" "), marks, in_order, early })
    }
}

impl Options<'_> {
    fn put(&mut self, option: &str, value: impl ToString) {
        self.words.push(format!("{option} {}", value.to_string()));
    }

    fn time(&mut self, option: &str, time: Duration) {
        self.put(option, format!("{}us", time.as_nanos() as f64 / 1e3));
    }

    /// Whether it marks is always said.
    fn ecn(&mut self, ecn: bool) {
        self.words.push(if ecn { "ecn" } else { "noecn" }.to_owned());
    }

    fn checked<T>(&self, resolved: Result<T, ConfigError>) -> Result<T, KernelWorldError> {
        resolved.map_err(|error| cannot(self.key, &error.to_string()))
    }

    /// Refuses a key that is not as it must be.
    fn must(&self, holds: bool, key: &str, message: &str) -> Result<(), KernelWorldError> {
        if holds { Ok(()) } else { Err(cannot(&format!("{}.{key}", self.key), message)) }
    }

    /// A limit in packets.
    fn packets(&mut self, limit: Limit) -> Result<(), KernelWorldError> {
        let packets = limit.packets(self.context.rate, self.context.rtt);
        let message = "the kernel's discipline counts packets; give the limit as packets (1000p) or in bdp, or use --on emu";
        self.must(packets.is_some(), "limit", message)?;
        self.put("limit", packets.unwrap_or_default());
        Ok(())
    }

    fn codel(&mut self, keys: &CodelKeys) -> Result<(), KernelWorldError> {
        let resolved = self.checked(keys.resolve(self.context))?;
        let QueueLimit::Packets(limit) = resolved.limit else { return self.packets(keys.limit) };
        self.put("limit", limit);
        self.codel_law(resolved.target, resolved.interval, keys.kernel)?;
        self.ecn(resolved.ecn);
        self.ce_threshold(keys.ce_threshold, keys.ce_threshold_ect1)
    }

    fn codel_law(
        &mut self,
        target: Duration,
        interval: Duration,
        kernel: KernelVariant,
    ) -> Result<(), KernelWorldError> {
        let message = "the running kernel decides; leave the key out, or use --on emu";
        self.must(kernel == KernelVariant::default(), "kernel", message)?;
        self.time("target", target);
        self.time("interval", interval);
        Ok(())
    }

    fn ce_threshold(&mut self, above: Option<Duration>, ect1: bool) -> Result<(), KernelWorldError> {
        let message =
            "the kernel's CoDel marks whatever takes part in ECN; leave the key out, or use --on emu";
        self.must(!ect1, "ce_threshold_ect1", message)?;
        if let Some(above) = above {
            self.time("ce_threshold", above);
        }
        Ok(())
    }

    fn fq_codel(&mut self, keys: &FqCodelKeys) -> Result<(), KernelWorldError> {
        let resolved = self.checked(keys.resolve(self.context))?;
        self.put("limit", resolved.limit);
        self.put("flows", resolved.flows);
        self.put("quantum", resolved.quantum);
        self.codel_law(resolved.target, resolved.interval, keys.kernel)?;
        self.ecn(resolved.ecn);
        self.put("memory_limit", resolved.memory_limit);
        self.put("drop_batch", resolved.drop_batch);
        self.ce_threshold(keys.ce_threshold, keys.ce_threshold_ect1)
    }

    fn fq(&mut self, keys: &FqKeys) -> Result<(), KernelWorldError> {
        let resolved = self.checked(keys.resolve(self.context))?;
        self.put("limit", resolved.limit);
        self.put("flow_limit", resolved.flow_limit);
        self.put("quantum", resolved.quantum);
        self.put("initial_quantum", resolved.initial_quantum);
        self.put("buckets", resolved.flows);
        self.time("refill_delay", resolved.refill_delay);
        if let Some(above) = resolved.ce_threshold {
            self.time("ce_threshold", above);
        }
        Ok(())
    }

    fn pie(&mut self, keys: &PieKeys) -> Result<(), KernelWorldError> {
        let message = "the kernel has its own PIE only; leave the key out, or use --on emu";
        self.must(keys.variant == PieVariant::Kernel, "variant", message)?;
        self.packets(keys.limit)?;
        self.pie_law(keys)
    }

    fn fq_pie(&mut self, keys: &FqPieKeys) -> Result<(), KernelWorldError> {
        self.packets(keys.limit)?;
        self.put("flows", keys.flows);
        if let Some(quantum) = keys.quantum {
            self.put("quantum", quantum.0);
        }
        self.pie_law(&keys.pie())
    }

    fn pie_law(&mut self, keys: &PieKeys) -> Result<(), KernelWorldError> {
        let message = "the kernel's is fixed at 150ms; leave the key out, or use --on emu";
        self.must(keys.burst == PieKeys::default().burst, "burst", message)?;
        self.time("target", keys.target);
        self.time("tupdate", keys.tupdate);
        // tc-pie(8): in sixteenths of a hertz.
        for (option, gain) in [("alpha", keys.alpha), ("beta", keys.beta)] {
            let sixteenths = gain * 16.0;
            let message = "the kernel counts it in sixteenths: give a multiple of 0.0625, or use --on emu";
            self.must(sixteenths.fract() == 0.0, option, message)?;
            self.put(option, sixteenths);
        }
        self.ecn(keys.ecn);
        self.words.push(if keys.bytemode { "bytemode" } else { "nobytemode" }.to_owned());
        Ok(())
    }

    fn red(&mut self, keys: &RedKeys) -> Result<(), KernelWorldError> {
        let bytes = |limit: Limit| limit.bytes(self.context.rate, self.context.rtt).unwrap_or_default();
        let given = [("limit", Some(keys.limit)), ("min", keys.min), ("max", keys.max)];
        for (option, limit) in given.map(|(option, limit)| (option, limit.map(bytes))) {
            if let Some(limit) = limit {
                self.put(option, limit);
            }
        }
        self.put("avpkt", keys.avpkt);
        if let Some(burst) = keys.burst {
            self.put("burst", burst);
        }
        self.put("probability", keys.probability);
        self.put("bandwidth", format!("{}bit", self.context.rate.bits_per_sec()));
        let flags = [
            ("ecn", keys.ecn),
            ("harddrop", keys.harddrop),
            ("nodrop", keys.nodrop),
            ("adaptive", keys.adaptive),
        ];
        self.words.extend(flags.into_iter().filter(|(_, set)| *set).map(|(word, _)| word.to_owned()));
        Ok(())
    }

    fn cake(&mut self, keys: &CakeKeys) -> Result<(), KernelWorldError> {
        let message = "HTB shapes here, so the kernel's CAKE does not know the rate; add the word unlimited, or use --on emu";
        self.must(keys.unlimited, "unlimited", message)?;
        let resolved = self.checked(keys.resolve(self.context))?;
        self.words.extend(["unlimited", "besteffort"].map(str::to_owned));
        self.words.push(resolved.isolation.to_string());
        self.time("rtt", resolved.rtt);
        if let Some(Bytes(memory)) = keys.memory_limit {
            self.put("memlimit", memory);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Leaf;
    use weir_scenario::Scenario;

    fn leaf(qdisc: &str) -> Result<Leaf, String> {
        let text = format!(
            "flow = [{{stack = 'udp', rate = '1mbit', duration = '1s'}}]\n\
             bottleneck = {{rate = '12mbit', rtt = '20ms', qdisc = '{qdisc}'}}"
        );
        let scenario = Scenario::parse(&text, "x").unwrap();
        Leaf::of(&scenario.bottleneck.qdisc, &scenario.build_context(0), "q")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_tc() {
        for (qdisc, words) in [
            ("pfifo limit 7p", "limit 7"),
            (
                "codel ecn limit 1bdp ce_threshold 1ms",
                "limit 20 target 5000us interval 100000us ecn ce_threshold 1000us",
            ),
            (
                "fq_codel noecn flows 1",
                "limit 10240 flows 1 quantum 1514 target 5000us interval 100000us noecn memory_limit 33554432 drop_batch 64",
            ),
            (
                "fq",
                "limit 10000 flow_limit 100 quantum 3028 initial_quantum 15140 buckets 1024 refill_delay 40000us",
            ),
            (
                "pie ecn target 20ms",
                "limit 1000 target 20000us tupdate 15000us alpha 2 beta 20 ecn nobytemode",
            ),
            (
                "fq_pie",
                "limit 10240 flows 1024 target 15000us tupdate 15000us alpha 2 beta 20 noecn nobytemode",
            ),
            (
                "red min 10kb max 30kb limit 100kb burst 20 ecn",
                "limit 102400 min 10240 max 30720 avpkt 1000 burst 20 probability 0.02 bandwidth 12000000bit ecn",
            ),
            ("cake unlimited isolation flows", "unlimited besteffort flows rtt 100000us"),
        ] {
            assert_eq!(leaf(qdisc).unwrap().words, words, "{qdisc}");
        }
        assert!(!leaf("fq_codel").unwrap().in_order && leaf("red").unwrap().early);
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_by_name() {
        for (qdisc, key) in [
            ("codel limit 64kb", "q.limit: "),
            ("codel kernel 6.12", "q.kernel: "),
            ("codel ce_threshold 1ms ce_threshold_ect1", "q.ce_threshold_ect1: "),
            ("pie alpha 0.1", "q.alpha: "),
            ("pie burst 10ms", "q.burst: "),
            ("pie variant rfc8033", "q.variant: "),
            ("cake", "q.unlimited: "),
            ("step", "q: "),
        ] {
            let error = leaf(qdisc).unwrap_err();
            assert!(error.starts_with(key) && error.contains("--on emu"), "{qdisc}: {error}");
        }
    }
}
