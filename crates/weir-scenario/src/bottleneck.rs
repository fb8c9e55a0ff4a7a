//! The bottleneck of a scenario.

use crate::Refusal;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Rate, Time};
use weir_qdisc::QdiscConfig;
use weir_sim::RateSteps;

use super::impairment::{Jitter, Reorder, Share, TraceFile, as_text, time};
use super::path::too_slow;
use super::{FULL_PACKET, Reverse, half};

/// The link, its delay and its queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// The rate of the link towards the clients, counted in wire bytes (Ethernet header included). With a trace or
    /// with rates by turns, what the queue discipline reckons with: their mean, if not given.
    #[serde(default)]
    pub rate: Rate,
    /// The round-trip time without queues of flows that name none.
    pub rtt: Duration,
    /// The queue discipline: `"bfifo limit 1bdp"`, or a table.
    pub qdisc: QdiscConfig,
    /// The share of the round-trip time that lies behind the bottleneck, from it to the client and back: 0.5 as in the
    /// CRQ paper's testbed, near 0 for an access router. Range 0 to 1.
    #[serde(default = "half")]
    pub position: f64,
    /// Bytes that a late emulator may send back to back to catch up; the default is 4 ms at the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// Bytes per packet that the real link would add to what is counted here.
    #[serde(default)]
    pub overhead: u32,
    /// When the link may send, in place of its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceFile>,
    /// Its rates by turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateStep>,
    /// All packets go through one tunnel, whose end refuses those that come out so many packets behind the newest or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// By how much the delay from the link to the client varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Packets that are lost behind the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// Packets that come later than others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// The direction to the server: without it, it has neither queue nor rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Reverse>,
}

impl Bottleneck {
    /// A link with defaults but for these.
    pub fn new(rate: Rate, rtt: Duration, qdisc: QdiscConfig) -> Self {
        Self {
            rate,
            rtt,
            qdisc,
            position: half(),
            burst: None,
            overhead: 0,
            trace: None,
            rates: Vec::new(),
            replay_window: None,
            jitter: None,
            loss: None,
            reorder: None,
            reverse: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        if self.rate.bits_per_sec() < 1_000 {
            return fail("rate", too_slow(self.rate));
        }
        if !(0.0..=1.0).contains(&self.position) {
            return fail("position", "must lie between 0 (at the client) and 1 (at the server)".to_owned());
        }
        if self.burst.is_some_and(|burst| burst.0 < FULL_PACKET) {
            return fail("burst", format!("must hold at least one packet of {FULL_PACKET} bytes"));
        }
        if self.trace.is_some() && !self.rates.is_empty() {
            return fail("rates", "a link has a trace or rates by turns, not both; remove one".to_owned());
        }
        if let Some(step) = self.rates.iter().find(|step| step.rate.bits_per_sec() < 1_000) {
            return fail("rates", too_slow(step.rate));
        }
        if self.replay_window == Some(0) {
            return fail("replay_window", "must be at least 1 packet; leave it out for no tunnel".to_owned());
        }
        self.rate_steps().map(|_| ()).map_err(|message| Refusal::new("rates", message))
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

    /// The link's mean rate between two times in seconds from the start, in bits per second.
    pub fn mean_bps(&self, from_s: f64, to_s: f64) -> f64 {
        let at = |seconds: f64| Time::from_nanos((seconds * 1e9) as u64);
        let rate = match self.rate_steps() {
            Ok(Some(steps)) if at(from_s) < at(to_s) => steps.mean(at(from_s), at(to_s)),
            _ => self.rate,
        };
        rate.bits_per_sec() as f64
    }

    /// What the link's rate is from when to when until `end_s`, in seconds and bits per second; only the mean where it changes
    /// more often than a plot can show.
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
