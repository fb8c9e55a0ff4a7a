//! The detectors by the names that scenarios use.

use thiserror::Error;
use weir_cc::{Choice, Controller, EcnUse, Family, Setup};
use weir_core::{Duration, words};

use crate::{
    Chosen, Connection, Detector, Doubling, DoublingParams, Finding, Isolation, Options, Trains, TrainsParams,
};

/// One detector: its name, what it is, and how it is made.
pub struct Entry {
    /// As in `detector = "trains"`.
    pub name: &'static str,
    /// In a few words.
    pub what: &'static str,
    /// The controller behind a fair queue, unless another is named.
    pub fair: &'static str,
    /// How long after a detection it begins the next; none: one is all.
    pub again: Option<Duration>,
    /// Whether a queue that it has found to be the connection's own is watched ([`Isolation`]).
    pub watches: bool,
    make: fn(&Setup, Duration) -> Box<dyn Detector>,
}

impl Entry {
    /// Makes one for a connection that begins. The host lets packets of a train go no nearer than `spacing`
    /// ([`TrainsParams::spacing`]); zero in the simulator.
    pub fn make(&self, setup: &Setup, spacing: Duration) -> Box<dyn Detector> {
        (self.make)(setup, spacing)
    }
}

/// All detectors.
pub const DETECTORS: &[Entry] = &[
    Entry {
        name: "published",
        what: "the paper's program: rates double until both sub-flows lose, and the shares that got through decide",
        fair: "delay",
        again: None,
        watches: false,
        make: |setup, _| doubling(DoublingParams::PUBLISHED, setup),
    },
    Entry {
        name: "paper",
        what: "the same as the paper's text has it: each round trip, and by receiving rates",
        fair: "delay",
        again: None,
        watches: false,
        make: |setup, _| doubling(DoublingParams::PAPER, setup),
    },
    Entry {
        name: "trains",
        what: "order, loss and delay of a light packet behind a short train of heavy ones",
        fair: "share",
        again: Some(Duration::from_secs(5)),
        watches: true,
        make: |_, spacing| Box::new(Trains::new(TrainsParams { spacing, ..TrainsParams::default() })),
    },
];

fn doubling(params: DoublingParams, setup: &Setup) -> Box<dyn Detector> {
    Box::new(Doubling::new(params, setup.mss, setup.random.clone()))
}

/// There is no detector or controller of that name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownName {
    /// No such detector.
    #[error("there is no detector '{name}'; {proposal}there are {known}")]
    Detector {
        /// What was asked for.
        name: String,
        /// The nearest, as a question; empty if none is near.
        proposal: String,
        /// All of them.
        known: String,
    },
    /// No such controller.
    #[error(transparent)]
    Controller(#[from] weir_cc::UnknownController),
}

/// The detector called `name`.
///
/// # Errors
/// If there is none; the error names the nearest.
pub fn find(name: &str) -> Result<&'static Entry, UnknownName> {
    DETECTORS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names = || DETECTORS.iter().map(|entry| entry.name.to_owned());
        UnknownName::Detector {
            name: name.to_owned(),
            proposal: words::nearest(name, names())
                .map_or_else(String::new, |near| format!("did you mean '{near}'? ")),
            known: names().collect::<Vec<_>>().join(", "),
        }
    })
}

/// What a connection is made of, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The detector.
    pub detector: String,
    /// The controller in a shared queue, and as long as nothing is found.
    pub shared: String,
    /// The one behind a fair queue; none: the detector's.
    pub fair: Option<String>,
    /// The time between detections; none: the detector's.
    pub again: Option<Duration>,
}

impl Names {
    /// A connection that begins. Its controllers are QUIC's and do not use ECN. `spacing` is as in [`Entry::make`].
    ///
    /// # Errors
    /// If one of the names is not known.
    pub fn connection(&self, setup: &Setup, spacing: Duration) -> Result<Connection, UnknownName> {
        let entry = find(&self.detector)?;
        let shared = weir_cc::find(&self.shared)?;
        let fair = weir_cc::find(self.fair.as_deref().unwrap_or(entry.fair))?;
        let setup = setup.clone();
        Ok(Connection::new(Options {
            detector: entry.make(&setup, spacing),
            choose: Box::new(move |chosen| {
                let found = chosen.outcome.verdict.finding;
                let controller = if found == Finding::FairQueued { fair } else { shared };
                begin(controller, chosen, &setup)
            }),
            again: self.again.or(entry.again),
            isolation: entry.watches.then(Isolation::default),
            ecn: EcnUse::Off,
        }))
    }
}

/// A controller that begins where the detection has ended: with its rate, or what that is over the round trip.
fn begin(controller: &weir_cc::Entry, chosen: &Chosen, setup: &Setup) -> Box<dyn Controller> {
    let least = u64::from(setup.initial_window);
    let rate = chosen.outcome.rate;
    let window = rate.map_or(0, |rate| rate.bytes_in(chosen.rtt).0 / u64::from(setup.mss));
    let initial_window = u32::try_from(window.max(least)).unwrap_or(u32::MAX);
    controller
        .make(&Choice { family: Family::Quic, ecn: false }, &Setup { initial_window, rate, ..setup.clone() })
}
