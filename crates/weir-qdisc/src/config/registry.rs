//! The list of this crate's disciplines, from which reading, writing, describing and building follow. A new one is one
//! line here; other crates [`register`](super::register) theirs.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    BfifoConfig, BuildContext, CakeKeys, CodelKeys, ConfigError, CrqKeys, CsaqmKeys, CurvyRedKeys, DrrKeys,
    DualPi2Keys, DualqCurvyKeys, FqCodelKeys, FqKeys, FqPieKeys, Keys, PfifoConfig, Pi2Keys, PieKeys,
    RedKeys, Registered, StepKeys, TbfKeys, Word, registered, words,
};
use weir_core::Duration;

use crate::Qdisc;

macro_rules! disciplines {
    ($($(#[$doc:meta])* $kind:literal => $variant:ident($keys:ty),)*) => {
        /// A queue discipline, not yet built.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", remote = "Self")]
        pub enum QdiscConfig {
            $($(#[$doc])* #[serde(rename = $kind)] $variant($keys),)*
            /// A discipline of another crate.
            #[serde(skip)]
            Registered(Registered),
        }

        impl QdiscConfig {
            /// The names of the kinds of this crate; [`kinds`](Self::kinds) has all.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The words of all kinds, one list for each of [`KINDS`](Self::KINDS).
            pub(super) const WORDS: &'static [&'static [Word]] = &[$(<$keys as Keys>::WORDS),*];

            /// Its kind, as tables and words name it.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    Self::Registered(config) => config.kind(),
                }
            }

            /// Whether every queue of it answers congestion with marks where it can.
            pub fn marks(&self) -> bool {
                match self {
                    $(Self::$variant(keys) => <$keys as Keys>::marks(keys),)*
                    Self::Registered(config) => config.keys.marks(),
                }
            }

            /// Whether packets of a flow may overtake others of it inside one of its queues, which is a fault elsewhere.
            pub fn may_reorder(&self) -> bool {
                match self {
                    $(Self::$variant(keys) => <$keys as Keys>::may_reorder(keys),)*
                    Self::Registered(config) => config.keys.may_reorder(),
                }
            }

            /// The queueing delay that it aims at on a path with this round-trip time: its `target`, or a `threshold` for
            /// marks that is a time or a part of the bandwidth-delay product. None if it has none of these.
            pub fn target(&self, rtt: Duration) -> Option<Duration> {
                match self {
                    $(Self::$variant(keys) => <$keys as Keys>::target(keys, rtt),)*
                    Self::Registered(config) => config.keys.target(rtt),
                }
            }

            /// The queues that its events are about, in the order of their [`QueueId`](weir_core::QueueId): `queue`
            /// alone, or for instance `standard` and `responsive`.
            pub fn queue_names(&self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant(keys) => <$keys as Keys>::queue_names(keys),)*
                    Self::Registered(config) => config.keys.queue_names(),
                }
            }

            fn build_kind(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
                match self {
                    $(Self::$variant(keys) => <$keys as Keys>::build(keys, context),)*
                    Self::Registered(config) => config.keys.build(context),
                }
            }

            /// From the words after its kind.
            pub(super) fn from_words(kind: &str, rest: &[&str]) -> Result<Self, ConfigError> {
                match kind {
                    $($kind => Ok(Self::$variant(words::read(kind, rest)?)),)*
                    _ => match registered::from_words(kind, rest) {
                        Some(config) => config.map(Self::Registered),
                        None => Err(words::unknown(kind, "queue discipline", &Self::kinds())),
                    },
                }
            }
        }

        impl fmt::Display for QdiscConfig {
            /// In one line, for people: what was chosen, and of the rest only what is not the default. In the manner
            /// of `tc qdisc show`, which prints every parameter.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(keys) => fmt::Display::fmt(keys, f),)*
                    Self::Registered(config) => fmt::Display::fmt(config, f),
                }
            }
        }
    };
}

disciplines! {
    /// Drop-tail, limited in packets.
    "pfifo" => Pfifo(PfifoConfig),
    /// Drop-tail, limited in bytes.
    "bfifo" => Bfifo(BfifoConfig),
    /// A token bucket before a byte FIFO.
    "tbf" => Tbf(TbfKeys),
    /// CoDel.
    "codel" => Codel(CodelKeys),
    /// STEP.
    "step" => Step(StepKeys),
    /// RED.
    "red" => Red(RedKeys),
    /// PIE.
    "pie" => Pie(PieKeys),
    /// PI2 in a single queue.
    "pi2" => Pi2(Pi2Keys),
    /// Curvy RED in a single queue.
    "curvy_red" => CurvyRed(CurvyRedKeys),
    /// The coupled dual queue with Curvy RED.
    "dualq_curvy" => DualqCurvy(DualqCurvyKeys),
    /// DualPI2.
    "dualpi2" => DualPi2(Box<DualPi2Keys>),
    /// Deficit round robin.
    "drr" => Drr(DrrKeys),
    /// Fair queuing with credits.
    "fq" => Fq(FqKeys),
    /// A CoDel queue for each flow.
    "fq_codel" => FqCodel(Box<FqCodelKeys>),
    /// A PIE queue for each flow.
    "fq_pie" => FqPie(Box<FqPieKeys>),
    /// CAKE's queue.
    "cake" => Cake(CakeKeys),
    /// A core-stateless AQM.
    "csaqm" => Csaqm(CsaqmKeys),
    /// The dual queue of CRQ.
    "crq" => Crq(Box<CrqKeys>),
}

impl QdiscConfig {
    /// The names of all kinds: those of this crate, then those that were registered.
    pub fn kinds() -> Vec<&'static str> {
        Self::KINDS.iter().copied().chain(registered::kinds().map(|(kind, _)| kind)).collect()
    }

    /// The words of a kind, if there is such a one.
    pub(super) fn words_of(kind: &str) -> Option<&'static [Word]> {
        let own = Self::KINDS.iter().copied().zip(Self::WORDS.iter().copied());
        own.chain(registered::kinds()).find(|(known, _)| *known == kind).map(|(_, words)| words)
    }

    /// Whether it asks the law which queue a flow belongs in, as a `crq` does.
    pub const fn asks_law(&self) -> bool {
        matches!(self, Self::Crq(_))
    }

    /// Builds the discipline, empty.
    ///
    /// # Errors
    ///
    /// A rate of zero, a limit below one packet or in a unit that the discipline cannot count, a time or probability
    /// outside the range of the discipline's page in `docs/reference/qdisc`, and what [`CrqKeys::build`] names.
    pub fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        if context.rate.bits_per_sec() == 0 {
            return Err(ConfigError::ZeroRate);
        }
        self.build_kind(context)
    }
}
