//! What `tc` is given for a queue: every option that has a value, so that neither a default of another kernel nor an
//! option from before a change stays. What the kernel's discipline cannot do is refused by name.

use weir_core::{Bytes, Duration};
use weir_qdisc::config::{
    BfifoConfig, BuildContext, CakeKeys, CodelKeys, ConfigError, FqCodelKeys, FqKeys, FqPieKeys, PieKeys,
    PieVariant, QdiscConfig, RedKeys, TbfKeys,
};
use weir_qdisc::{KernelVariant, Limit};

use super::{LeafError, Queue};

/// Flow queues of `fq_codel` and `fq_pie` by default. The kernel takes the number when the queue is made and refuses a
/// change that names it, so that it is left out where it is the usual one.
pub(super) const FLOWS: u32 = 1024;

const DECIDES: &str = "the running kernel decides; leave the key out";

impl From<ConfigError> for LeafError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Refused { key, reason } => Self { key, message: reason },
            // The others name their key themselves.
            other => Self { key: "", message: other.to_string() },
        }
    }
}

/// Writes options down.
struct Options<'a> {
    context: &'a BuildContext,
    words: String,
}

impl Queue<'_> {
    /// The words that `tc` takes after `handle H:`, the kind first. The rate of `context` is the queue's share.
    ///
    /// # Errors
    /// Names the key that makes no sense on this link, or that the kernel's discipline has not.
    pub fn words(self, context: &BuildContext) -> Result<String, LeafError> {
        let mut options = Options { context, words: self.kind.name().to_owned() };
        match self.config {
            QdiscConfig::Pfifo(keys) => options.put("limit", keys.resolve(context)?),
            QdiscConfig::Bfifo(_) => options.put("limit", self.bytes(context)?.unwrap_or_default()),
            QdiscConfig::Tbf(keys) => options.tbf(keys, self.bytes(context)?.unwrap_or_default())?,
            QdiscConfig::Codel(keys) => options.codel(keys)?,
            QdiscConfig::Red(keys) => options.red(keys, self.bytes(context)?.unwrap_or_default())?,
            QdiscConfig::Pie(keys) => options.pie(keys)?,
            QdiscConfig::Fq(keys) => options.fq(keys)?,
            QdiscConfig::FqCodel(keys) => options.fq_codel(keys)?,
            QdiscConfig::FqPie(keys) => options.fq_pie(keys)?,
            QdiscConfig::Cake(keys) => options.cake(keys)?,
            other => return Err(cannot("", &format!("the kernel has no {}", other.kind()))),
        }
        Ok(options.words)
    }

    /// The wire bytes that it may hold, if it counts bytes.
    ///
    /// # Errors
    /// When it holds no full packet, or more than the kernel can count.
    pub fn bytes(self, context: &BuildContext) -> Result<Option<u64>, LeafError> {
        let (limit, context) = match self.config {
            QdiscConfig::Bfifo(keys) => (keys.limit, context),
            QdiscConfig::Red(keys) => (keys.limit, context),
            QdiscConfig::Tbf(keys) => (keys.limit, &keys.link(context)),
            _ => return Ok(None),
        };
        let bytes = match limit {
            Limit::Bdp(_) if !self.limited => {
                let bytes = limit.bytes(context.rate, context.rtt).unwrap_or_default();
                bytes.max(2 * u64::from(context.mtu))
            }
            // RED and TBF have the rules and the messages of a byte FIFO.
            _ => BfifoConfig { limit }.resolve(context)?,
        };
        if bytes > u64::from(u32::MAX) {
            let message = format!("{limit} is {bytes} bytes here; the kernel counts up to {}", u32::MAX);
            return Err(cannot("limit", &message));
        }
        Ok(Some(bytes))
    }
}

fn cannot(key: &'static str, message: &str) -> LeafError {
    LeafError { key, message: message.to_owned() }
}

/// Refuses a key that is not as it must be.
fn must(holds: bool, key: &'static str, message: &str) -> Result<(), LeafError> {
    if holds { Ok(()) } else { Err(cannot(key, message)) }
}

impl Options<'_> {
    fn word(&mut self, word: &str) {
        self.words.push(' ');
        self.words.push_str(word);
    }

    fn put(&mut self, option: &str, value: impl ToString) {
        self.word(option);
        self.word(&value.to_string());
    }

    /// In microseconds, the finest that every option of `tc` reads; never down to nothing.
    fn time(&mut self, option: &str, time: Duration) {
        self.put(option, format!("{}us", time.as_nanos().div_ceil(1000)));
    }

    /// Whether it marks is always said.
    fn ecn(&mut self, ecn: bool) {
        self.word(if ecn { "ecn" } else { "noecn" });
    }

    fn packets(&mut self, limit: Limit, kind: &'static str) -> Result<(), LeafError> {
        self.put("limit", self.context.packets("limit", limit, kind)?);
        Ok(())
    }

    fn tbf(&mut self, keys: &TbfKeys, limit: u64) -> Result<(), LeafError> {
        must(
            keys.late == Duration::ZERO,
            "late",
            "the kernel's wake-ups are as late as they are; leave the key out",
        )?;
        let keys = TbfKeys { limit: Limit::Bytes(Bytes(limit)), ..keys.clone() };
        let resolved = keys.resolve(self.context)?;
        self.put("rate", format!("{}bit", resolved.rate.bits_per_sec()));
        self.put("burst", resolved.burst);
        self.put("limit", resolved.limit);
        Ok(())
    }

    fn codel(&mut self, keys: &CodelKeys) -> Result<(), LeafError> {
        let resolved = keys.resolve(self.context)?;
        self.packets(keys.limit, "codel")?;
        self.codel_law(resolved.target, resolved.interval, keys.kernel)?;
        self.ecn(resolved.ecn);
        self.ce_threshold(keys.ce_threshold, keys.ce_threshold_ect1)
    }

    fn codel_law(
        &mut self,
        target: Duration,
        interval: Duration,
        kernel: KernelVariant,
    ) -> Result<(), LeafError> {
        must(kernel == KernelVariant::default(), "kernel", DECIDES)?;
        self.time("target", target);
        self.time("interval", interval);
        Ok(())
    }

    fn ce_threshold(&mut self, above: Option<Duration>, ect1: bool) -> Result<(), LeafError> {
        let message = "the kernel's CoDel marks whatever takes part in ECN; leave the key out";
        must(!ect1, "ce_threshold_ect1", message)?;
        if let Some(above) = above {
            self.time("ce_threshold", above);
        }
        Ok(())
    }

    fn flows(&mut self, flows: u32) {
        if flows != FLOWS {
            self.put("flows", flows);
        }
    }

    fn fq_codel(&mut self, keys: &FqCodelKeys) -> Result<(), LeafError> {
        let resolved = keys.resolve(self.context)?;
        self.put("limit", resolved.limit);
        self.flows(resolved.flows);
        self.put("quantum", resolved.quantum);
        self.codel_law(resolved.target, resolved.interval, keys.kernel)?;
        self.ecn(resolved.ecn);
        self.put("memory_limit", resolved.memory_limit);
        self.put("drop_batch", resolved.drop_batch);
        self.ce_threshold(keys.ce_threshold, keys.ce_threshold_ect1)
    }

    fn fq(&mut self, keys: &FqKeys) -> Result<(), LeafError> {
        must(
            keys.fast_path,
            "fast_path",
            "the kernel has it since Linux 6.7, and none before; leave the key out",
        )?;
        let resolved = keys.resolve(self.context)?;
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

    fn pie(&mut self, keys: &PieKeys) -> Result<(), LeafError> {
        must(
            keys.variant == PieVariant::Kernel,
            "variant",
            "the kernel has its own PIE only; leave the key out",
        )?;
        self.packets(keys.limit, "pie")?;
        self.pie_law(keys)?;
        self.word(if keys.dq_rate_estimator { "dq_rate_estimator" } else { "no_dq_rate_estimator" });
        Ok(())
    }

    fn fq_pie(&mut self, keys: &FqPieKeys) -> Result<(), LeafError> {
        self.packets(keys.limit, "fq_pie")?;
        self.flows(keys.flows);
        self.put("quantum", self.context.quantum("quantum", keys.quantum, self.context.mtu, 1)?);
        self.pie_law(&keys.pie())
    }

    fn pie_law(&mut self, keys: &PieKeys) -> Result<(), LeafError> {
        let usual = PieKeys::default();
        keys.check()?;
        must(keys.burst == usual.burst, "burst", "the kernel's is fixed at 150ms; leave the key out")?;
        self.time("target", keys.target);
        self.time("tupdate", keys.tupdate);
        // tc-pie(8): in sixteenths of a hertz.
        for (option, gain) in [("alpha", keys.alpha), ("beta", keys.beta)] {
            let sixteenths = gain * 16.0;
            must(
                sixteenths.fract() == 0.0,
                option,
                "the kernel counts it in sixteenths: give a multiple of 0.0625",
            )?;
            // For nothing `tc` sends nothing, and the kernel keeps what it has; more it refuses (q_pie.c).
            must(
                (1.0..=32.0).contains(&sixteenths),
                option,
                &format!("{gain} is not from 0.0625 to 2, which is what tc gives to the kernel's PIE"),
            )?;
            self.put(option, sixteenths);
        }
        self.ecn(keys.ecn);
        self.word(if keys.bytemode { "bytemode" } else { "nobytemode" });
        Ok(())
    }

    /// RED's clock and mean need a packet size and the rate; thresholds that are not given `tc` derives from the limit.
    fn red(&mut self, keys: &RedKeys, limit: u64) -> Result<(), LeafError> {
        keys.check()?;
        self.put("limit", limit);
        for (option, threshold) in [("min", keys.min), ("max", keys.max)] {
            let Some(threshold) = threshold else { continue };
            let bytes = threshold.bytes(self.context.rate, self.context.rtt);
            let Some(bytes) = bytes else {
                return Err(cannot(option, &format!("red counts bytes, not {threshold}; give 30kb or bdp")));
            };
            self.put(option, bytes);
        }
        self.put("avpkt", keys.avpkt);
        if let Some(burst) = keys.burst {
            self.put("burst", burst);
        }
        self.put("probability", keys.probability);
        self.put("bandwidth", format!("{}bit", self.context.rate.bits_per_sec()));
        for (word, set) in [
            ("ecn", keys.ecn),
            ("harddrop", keys.harddrop),
            ("nodrop", keys.nodrop),
            ("adaptive", keys.adaptive),
        ] {
            if set {
                self.word(word);
            }
        }
        Ok(())
    }

    fn cake(&mut self, keys: &CakeKeys) -> Result<(), LeafError> {
        let message = "HTB shapes here, so the kernel's CAKE does not know the rate; add the word unlimited";
        must(keys.unlimited, "unlimited", message)?;
        let resolved = keys.resolve(self.context)?;
        self.word("unlimited");
        self.word("besteffort");
        self.word(&resolved.isolation.to_string());
        self.time("rtt", resolved.rtt);
        if let Some(Bytes(memory)) = keys.memory_limit {
            self.put("memlimit", memory);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Duration, Rate, Seed};
    use weir_qdisc::BuildContext;

    use crate::leaf::{Leaf, Queue};

    const LINK: BuildContext = BuildContext {
        rate: Rate::from_bits_per_sec(12_000_000),
        rtt: Duration::from_millis(20),
        mtu: 1514,
        seed: Seed { seed: 1, run: 0 },
    };

    fn words(qdisc: &str) -> Result<String, String> {
        Queue::of(&qdisc.parse().unwrap()).unwrap().words(&LINK).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_tc() {
        for (qdisc, expected) in [
            ("pfifo limit 7p", "pfifo limit 7"),
            (
                "codel ecn limit 1bdp ce_threshold 1ms",
                "codel limit 20 target 5000us interval 100000us ecn ce_threshold 1000us",
            ),
            (
                "fq_codel noecn flows 1",
                "fq_codel limit 10240 flows 1 quantum 1514 target 5000us interval 100000us noecn memory_limit 33554432 \
                 drop_batch 64",
            ),
            (
                "fq",
                "fq limit 10000 flow_limit 100 quantum 3028 initial_quantum 15140 buckets 1024 refill_delay 40000us",
            ),
            (
                "pie ecn target 20ms",
                "pie limit 1000 target 20000us tupdate 15000us alpha 2 beta 20 ecn nobytemode \
                 no_dq_rate_estimator",
            ),
            (
                "pie dq_rate_estimator",
                "pie limit 1000 target 15000us tupdate 15000us alpha 2 beta 20 noecn nobytemode dq_rate_estimator",
            ),
            (
                "fq_pie",
                "fq_pie limit 10240 quantum 1514 target 15000us tupdate 15000us alpha 2 beta 20 noecn nobytemode",
            ),
            (
                "red min 10kb max 30kb limit 100kb burst 20 ecn",
                "red limit 102400 min 10240 max 30720 avpkt 1000 burst 20 probability 0.02 bandwidth 12000000bit ecn",
            ),
            ("tbf rate 6mbit limit 20ms", "tbf rate 6000000bit burst 1514 limit 15000"),
            ("cake unlimited isolation flows", "cake unlimited besteffort flows rtt 100000us"),
        ] {
            assert_eq!(words(qdisc).unwrap(), expected, "{qdisc}");
        }
    }

    #[test]
    fn a_limit_that_was_not_chosen_holds_two_packets() {
        for (leaf, expected) in
            [("bfifo", "bfifo limit 30000"), ("tbf rate 100kbit", "tbf rate 100000bit burst 1514 limit 3028")]
        {
            assert_eq!(leaf.parse::<Leaf>().unwrap().queue().words(&LINK).unwrap(), expected);
        }
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_by_name() {
        for (qdisc, key) in [
            ("codel limit 64kb", "limit: "),
            ("codel kernel 6.12", "kernel: "),
            ("codel ce_threshold 1ms ce_threshold_ect1", "ce_threshold_ect1: "),
            ("pie limit 64kb", "limit: "),
            ("pie alpha 0.1", "alpha: "),
            ("pie alpha 0", "alpha: 0 is not from 0.0625 to 2"),
            ("pie beta 2.0625", "beta: 2.0625 is not from 0.0625 to 2"),
            ("pie target 0s", "target: "),
            ("fq_pie beta 0", "beta: 0 is not"),
            ("red nodrop", "nodrop: without ecn"),
            ("fq_pie quantum 0b", "quantum: "),
            ("pie burst 10ms", "burst: "),
            ("pie variant rfc8033", "variant: "),
            ("fq nofast_path", "fast_path: "),
            ("red limit 10p", "limit: "),
            ("red min 10p", "min: "),
            ("bfifo limit 4gb", "limit: "),
            ("cake", "unlimited: "),
        ] {
            let error = words(qdisc).unwrap_err();
            assert!(error.starts_with(key), "{qdisc}: {error}");
        }
    }
}
