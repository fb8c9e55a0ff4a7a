//! The bottleneck of a scenario.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use weir_core::{Bytes, Duration, Rate, Time};
use weir_qdisc::QdiscConfig;
use weir_sim::{OPPORTUNITY_BYTES, RateSteps};

use crate::Refusal;
use crate::key::{Table, keys, plain};

use super::impairment::{Jitter, Reorder, Share, TraceFile, as_text, time};
use super::path::too_slow;
use super::{FULL_PACKET, Reverse, half, is_off};

keys! {
    /// The link, its delay and its queue.
    pub struct Bottleneck;
    /// A link with defaults but for these.
    pub fn new(rate: Rate, rtt: Duration, qdisc: QdiscConfig);

    /// Rate of the link towards the client, in wire bits (Ethernet header included). With a trace or with rates by
    /// turns, what the queue discipline counts with.
    #[serde(default)]
    rate: Rate = rate => Key::of("rate from `1kbit`").usual("required without `trace` or `rates`");

    /// Round-trip time without queues, of flows that have none of their own; also the one in `bdp`.
    rtt: Duration = rtt => Key::of("time").required().delay();

    /// The queue, see below.
    qdisc: QdiscConfig = qdisc => Key::of("words or table").required();

    /// Share of the round-trip time that lies behind the bottleneck, from it to the client and back. 0.5 as in the CRQ
    /// paper's testbed (section IV-A), near 0 for an access router close to the client.
    #[serde(default = "half")]
    position: f64 = half()
        => Key::of("").within(0, 1).because(": 0 is at the client, 1 at the server").usual("`0.5`");

    /// What a late emulator may send back to back to catch up; more is lost capacity, and counted as such.
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<Bytes> = None => Key::of("size").least(FULL_PACKET).because(" bytes, one full packet")
        .usual("4 ms at the rate, at least `3028b`");

    /// Bytes per packet that the real link adds to the Ethernet frame; they count against `rate` and in a queue's
    /// bytes.
    #[serde(default)]
    overhead: u32 = 0
        => Key::of("bytes, a bare integer").up_to(MOST_OVERHEAD).because(", the longest packet").usual("`0`");

    /// Hosts hand over super-packets, as most do: TCP of up to 64 kB, UDP of up to eight datagrams. A queue takes, marks
    /// and drops each as one, unless it cuts them up, as `tbf` does if its `burst` is smaller. Packets are not followed
    /// then: a run has completion times, goodput, verdicts and what `tc` counts of the queues, and neither delays nor a
    /// flow's packets, drops and marks. It takes far less of the processor.
    #[serde(default, skip_serializing_if = "is_off")]
    super_packets: bool = false => Key::of("true or false").usual("false").kernel();

    /// The link sends when this file lets it, which is one of mahimahi's: a line is a millisecond at which 1500 bytes
    /// of IP packets may go, and after the last line it begins anew. `rate` is then only what `bdp` and disciplines
    /// count with; by default the mean of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<TraceFile> = None => Key::of("path, from the folder of the scenario").sim();

    /// The link's rate by turns: `["50mbit for 20s", "5mbit for 10s", "25mbit"]`. The last one stays if it has no time,
    /// else all begin anew. A packet goes at the rate at which it began. `rate` is then only what `bdp`, `load` and
    /// disciplines count with; by default the mean until the last flow has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "not_empty")]
    rates: Vec<RateStep> = Vec::new() => Key::of("rates with times").sim();

    /// All packets go through one tunnel, whose end refuses those that come out so many packets behind the newest or
    /// more (RFC 4303 section 3.4.3); 32 and 64 are usual. Refused packets are lost behind the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replay_window: Option<u32> = None
        => Key::of("packets").least(1).because(" packet; leave it out for no tunnel").sim();

    /// Each packet's delay is drawn evenly from up to so much less to up to so much more, as netem's `delay TIME
    /// JITTER` does. Packets of a flow keep their order: one that would overtake waits for those before it. `"2ms
    /// reorder"` lets them overtake, as netem does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jitter: Option<Jitter> = None => Key::of("time, up to the delay behind the link").sim().delay();

    /// Packets that are lost behind the link, each for itself, as netem's `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss: Option<Share> = None => Key::of("share").sim();

    /// This share of packets comes so much later, so that those behind overtake: `"1% 5ms"`. netem's
    /// `delay 5ms reorder 99%` is the same with other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reorder: Option<Reorder> = None => Key::of("share and time").sim().delay();

    /// The direction to the server, see [paths.md](paths.md). Without it, it has neither queue nor rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reverse: Option<Reverse> = None => Key::of("table").sim();
}

plain!(QdiscConfig);

/// Rates by turns, of which a file that has the key gives at least one.
fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RateStep>, D::Error> {
    let rates = Vec::deserialize(deserializer)?;
    if rates.is_empty() {
        return Err(D::Error::custom("rates: there is none; give at least one, or leave the key out"));
    }
    Ok(rates)
}

/// The longest IP packet.
const MOST_OVERHEAD: u64 = 65_535;

impl Bottleneck {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        // The rate may be what follows from these.
        self.check_steps()?;
        if self.rate.bits_per_sec() < 1_000 {
            return fail("rate", too_slow(self.rate));
        }
        self.check_ranges()
    }

    /// What is wrong with the rates by turns.
    fn check_steps(&self) -> Result<(), Refusal> {
        let refusal = |message| Refusal::new("rates", message);
        if self.trace.is_some() && !self.rates.is_empty() {
            return Err(refusal("a link has a trace or rates by turns, not both; remove one".to_owned()));
        }
        self.rate_steps().map_err(refusal)?;
        match self.rates.iter().position(|step| step.rate.bits_per_sec() < 1_000) {
            Some(slow) => Err(refusal(format!(
                "{} is below 1kbit, which is rate {}; give a rate such as 10mbit",
                self.rates[slow].rate,
                slow + 1
            ))),
            None => Ok(()),
        }
    }

    /// The rates by turns, for the simulator.
    pub(super) fn rate_steps(&self) -> Result<Option<RateSteps>, String> {
        if self.rates.is_empty() {
            return Ok(None);
        }
        let steps: Vec<_> = self.rates.iter().map(|step| (step.rate, step.lasts)).collect();
        RateSteps::new(&steps).map(Some).map_err(|error| error.to_string())
    }

    /// If no rate is given, it is the mean of the rates until `end`.
    pub(super) fn take_mean_rate(&mut self, end: Duration) {
        if self.rate.bits_per_sec() == 0
            && end > Duration::ZERO
            && let Ok(Some(steps)) = self.rate_steps()
        {
            self.rate = steps.mean(Time::ZERO, Time::ZERO + end);
        }
    }

    /// The rate in words: `50mbit for 30s, 25mbit` where it changes.
    pub fn rate_words(&self) -> String {
        match self.rates.as_slice() {
            [] => self.rate.to_string(),
            rates => rates.iter().map(RateStep::to_string).collect::<Vec<_>>().join(", "),
        }
    }

    /// The link's mean rate between two times in seconds from the start, in bits per second on the wire; of a trace, which
    /// counts IP packets, that of full ones.
    pub fn mean_bps(&self, from_s: f64, to_s: f64) -> f64 {
        let at = |seconds: f64| Time::from_nanos((seconds * 1e9) as u64);
        let (from, to) = (at(from_s), at(to_s));
        let bps = |rate: Rate| rate.bits_per_sec() as f64;
        match (self.trace.as_ref().and_then(TraceFile::trace), self.rate_steps()) {
            (Some(trace), _) if from < to => {
                bps(trace.mean(from, to)) * FULL_PACKET as f64 / f64::from(OPPORTUNITY_BYTES)
            }
            (None, Ok(Some(steps))) if from < to => bps(steps.mean(from, to)),
            _ => bps(self.rate),
        }
    }

    /// What the link's rate is from when to when until `end_s`, in seconds and bits per second; only the mean where it
    /// changes more often than a plot can show.
    pub fn rate_spans(&self, end_s: f64) -> Vec<(f64, f64, f64)> {
        const SHOWN: usize = 100;
        let spans = match self.rate_steps() {
            Ok(Some(steps)) => steps.spans(Time::from_nanos((end_s * 1e9) as u64), SHOWN),
            _ => None,
        };
        let Some(spans) = spans.filter(|spans| !spans.is_empty()) else {
            return vec![(0.0, end_s, self.mean_bps(0.0, end_s))];
        };
        let seconds = |(from, to, rate): &(Time, Time, Rate)| {
            (from.as_secs_f64(), to.as_secs_f64(), rate.bits_per_sec() as f64)
        };
        spans.iter().map(seconds).collect()
    }
}

/// A rate and how long it holds: `50mbit for 20s`, or `50mbit` for one that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RateStep {
    /// In wire bits.
    pub rate: Rate,
    /// From the end of the one before.
    pub lasts: Option<Duration>,
}

impl FromStr for RateStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "50mbit for 20s";
        let mut words = text.split_whitespace();
        let rate = words.next().unwrap_or_default();
        let rate = rate
            .parse()
            .map_err(|error| format!("'{text}' is not a rate and a time: {error}; give {example}"))?;
        let lasts = match words.next() {
            None => None,
            Some("for") => Some(time(words.next(), text, "rate and a time", example)?),
            Some(_) => return Err(format!("'{text}' is not a rate and a time; give {example}")),
        };
        match words.next() {
            None => Ok(Self { rate, lasts }),
            Some(_) => Err(format!("'{text}' says more than a rate and a time; give {example}")),
        }
    }
}

impl fmt::Display for RateStep {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.lasts {
            Some(time) => write!(f, "{} for {time}", self.rate),
            None => write!(f, "{}", self.rate),
        }
    }
}
as_text!(RateStep);

#[cfg(test)]
mod tests {
    use super::RateStep;

    #[test]
    fn a_rate_and_a_time_read_and_write_and_say_what_is_wrong() {
        for text in ["50mbit for 20s", "10mbit for 100ms", "5mbit"] {
            assert_eq!(text.parse::<RateStep>().unwrap().to_string(), text);
        }
        for text in ["", "fast for 2s", "5mbit 2s", "5mbit for", "5mbit for ever", "5mbit for 2s and more"] {
            let message = text.parse::<RateStep>().unwrap_err();
            assert!(message.contains("give 50mbit for 20s"), "{text}: {message}");
        }
    }
}
