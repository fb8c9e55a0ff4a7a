//! The controllers by the names that scenarios use: those of this crate, and those that other crates [`register`].

use std::sync::{PoisonError, RwLock};

use thiserror::Error;
use weir_core::{Duration, Seed, words};

use crate::{
    Allegro, Bbr1, Bbr3, Bbr3Params, ConstantRate, Controller, Copa, Cubic, Cubic9438, CubicRegain, Dctcp,
    Dctcp8257, DctcpVersion, Delay, Dip, DipParams, EcnUse, Evader, EvaderParams, FixedWindow, Linux,
    PccPublished, Prague, PragueParams, PragueVersion, Reno, Rfc9002, SawTooth, Setup, Share, Vivace,
    WindowRule,
};

/// Around what kind of transport a controller works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// The kernel's TCP.
    Tcp,
    /// QUIC (RFC 9002).
    Quic,
}

/// How a scenario chooses a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The transport.
    pub family: Family,
    /// Whether the flow asks for ECN. Controllers that need it use it anyway.
    pub ecn: bool,
}

/// One controller: its name, what it is, and how it is made.
pub struct Entry {
    /// As in `controller = "cubic"`.
    pub name: &'static str,
    /// Other names that mean the same.
    pub also: &'static [&'static str],
    /// In a few words.
    pub what: &'static str,
    make: fn(&Choice, &Setup) -> Box<dyn Controller>,
    /// The same with parameters, if it has any: as words behind its name.
    with: Option<MakeWith>,
    /// Those that were given.
    words: &'static str,
}

/// Makes a controller with the parameters in a text; the error is what is wrong with them.
type MakeWith = fn(&str, &Choice, &Setup) -> Result<Box<dyn Controller>, String>;

impl Entry {
    /// A controller called `name`, which its [`Controller::name`] must be too; `what` it is in a few words, and how one
    /// is made for a connection that begins.
    pub const fn new(
        name: &'static str,
        what: &'static str,
        make: fn(&Choice, &Setup) -> Box<dyn Controller>,
    ) -> Self {
        Self { name, also: &[], what, make, with: None, words: "" }
    }

    /// With other names that mean the same.
    #[must_use]
    pub const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.also.contains(&name)
    }

    /// Makes one for a connection that begins.
    pub fn make(&self, choice: &Choice, setup: &Setup) -> Box<dyn Controller> {
        let with = self.with.filter(|_| !self.words.is_empty());
        let made = with.and_then(|with| with(self.words, choice, setup).ok());
        made.unwrap_or_else(|| (self.make)(choice, setup))
    }

    /// Whether it uses ECN though the flow does not ask for it.
    pub fn needs_ecn(&self) -> bool {
        self.example(false).ecn() != EcnUse::Off
    }

    /// The longest round trip on which it answers marks, if it has such a limit; `ecn` is whether the flow asks for
    /// ECN.
    pub fn ignores_marks_beyond(&self, ecn: bool) -> Option<Duration> {
        self.example(ecn).ignores_marks_beyond()
    }

    fn example(&self, ecn: bool) -> Box<dyn Controller> {
        self.make(&Choice { family: Family::Tcp, ecn }, &Self::example_setup())
    }

    fn example_setup() -> Setup {
        Setup { mss: 1448, initial_window: 10, random: Seed::default().stream(""), rate: None }
    }
}

/// A rule under the transport of the family: what [`Entry::new`] makes of a [`WindowRule`].
pub fn under<R: WindowRule + 'static>(rule: R, choice: &Choice, setup: &Setup) -> Box<dyn Controller> {
    match choice.family {
        Family::Tcp => Box::new(Linux::new(rule, setup)),
        Family::Quic => Box::new(Rfc9002::new(rule, setup)),
    }
}

/// ECN as RFC 3168 has it, for controllers that can do without.
fn classic(choice: &Choice) -> EcnUse {
    if choice.ecn { EcnUse::Classic } else { EcnUse::Off }
}

/// BBR's version that answers marks if the flow asks for ECN.
fn marks(version: Bbr3Params, choice: &Choice) -> Bbr3Params {
    Bbr3Params { ecn: choice.ecn, ..version }
}

/// The same without a limit of the round trip.
fn all_marks(version: Bbr3Params, name: &'static str) -> Bbr3Params {
    Bbr3Params { name, ecn: true, ecn_max_rtt: Duration::ZERO, ..version }
}

fn late_dip(lag: u32, choice: &Choice, setup: &Setup) -> Dip {
    Dip::new(DipParams { lag, ..DipParams::default() }, classic(choice), setup)
}

/// The controllers of this crate; [`all`] has the registered ones too.
pub const ALL: &[Entry] = &[
    Entry {
        name: "reno",
        also: &["newreno"],
        what: "one packet more per round trip, half the window after congestion (RFC 5681)",
        make: |choice, setup| under(Reno::new(classic(choice)), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "cubic",
        also: &[],
        what: "a cubic function of the time since the last congestion, with HyStart (Linux)",
        make: |choice, setup| under(Cubic::new(classic(choice), setup.mss), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "cubic-rfc9438",
        also: &[],
        what: "CUBIC by the letter of RFC 9438, without HyStart++",
        make: |choice, setup| under(Cubic9438::new(classic(choice)), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "cubic-regain",
        also: &[],
        what: "cubic that comes back sooner to a share it has lost; where fair queuing turned out not to be",
        make: |choice, setup| under(CubicRegain::new(Cubic::new(classic(choice), setup.mss)), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "dctcp",
        also: &[],
        what: "shrinks by half the share of marked packets (Linux); marks ECT(0)",
        make: |choice, setup| under(Dctcp::new(), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "dctcp-linux318",
        also: &[],
        what: "DCTCP of Linux 3.18: answers a loss as it answers marks",
        make: |choice, setup| under(Dctcp::version(DctcpVersion::Linux318), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "dctcp-ignores-loss",
        also: &[],
        what: "DCTCP that answers marks alone",
        make: |choice, setup| under(Dctcp::version(DctcpVersion::IgnoresLoss), choice, setup),
        ..PLAIN
    },
    Entry {
        name: "dctcp-rfc8257",
        also: &[],
        what: "DCTCP by RFC 8257: grows on while it reduces",
        make: |_, setup| Box::new(Dctcp8257::new(setup)),
        ..PLAIN
    },
    Entry {
        name: "bbr1",
        also: &["bbr", "bbrv1"],
        what: "a model of bandwidth and round trip; mainline Linux",
        make: |choice, setup| Box::new(Bbr1::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "bbr2",
        also: &["bbrv2"],
        what: "BBR with bounds from losses and, if asked for on round trips up to 5 ms, marks",
        make: |choice, setup| Box::new(Bbr3::new(marks(Bbr3Params::V2, choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "bbr2-ecn",
        also: &[],
        what: "bbr2 that answers marks on all paths",
        make: |_, setup| Box::new(Bbr3::new(all_marks(Bbr3Params::V2, "bbr2-ecn"), setup)),
        ..PLAIN
    },
    Entry {
        name: "bbr3",
        also: &["bbrv3"],
        what: "the third version of BBR; marks as with bbr2",
        make: |choice, setup| Box::new(Bbr3::new(marks(Bbr3Params::V3, choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "bbr3-ecn",
        also: &[],
        what: "bbr3 that answers marks on all paths",
        make: |_, setup| Box::new(Bbr3::new(all_marks(Bbr3Params::V3, "bbr3-ecn"), setup)),
        ..PLAIN
    },
    Entry {
        name: "prague",
        also: &["tcp-prague"],
        what: "DCTCP for L4S: fractional window, pacing, independent of short round trips; marks ECT(1)",
        make: |_, setup| Box::new(Prague::new(PragueParams::default(), setup)),
        ..PLAIN
    },
    Entry {
        name: "prague-2022",
        also: &[],
        what: "prague as it was in 2022: a window of whole packets, which follows its fraction late",
        make: |_, setup| {
            let params = PragueParams { version: PragueVersion::Whole, ..PragueParams::default() };
            Box::new(Prague::new(params, setup))
        },
        ..PLAIN
    },
    Entry {
        name: "copa",
        also: &[],
        what: "rate by the reciprocal of queueing delay (NSDI 2018)",
        make: |choice, setup| Box::new(Copa::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "delay",
        also: &[],
        what: "+1 % within 5 ms of the shortest round trip, else -5 %; for use behind fair queuing",
        make: |choice, setup| Box::new(Delay::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "share",
        also: &[],
        what: "the rate at which packets are delivered, for a queue of one or two; for use behind fair queuing",
        make: |choice, setup| Box::new(Share::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "pcc-allegro",
        also: &["pcc"],
        what: "tries rates, and goes where throughput less loss is larger (NSDI 2015)",
        make: |choice, setup| Box::new(Allegro::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "pcc-vivace",
        also: &["vivace"],
        what: "gradient ascent on a utility of rate, delay and loss (NSDI 2018)",
        make: |choice, setup| Box::new(Vivace::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "pcc-published",
        also: &[],
        what: "pcc-vivace without delay in the utility: the fallback of the fair-queuing paper's program",
        make: |choice, setup| Box::new(PccPublished::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "saw-tooth",
        also: &["no-reaction"],
        what: "an attack: Reno's saw-tooth in its own time, whatever happens",
        make: |choice, setup| Box::new(SawTooth::new(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "dip",
        also: &[],
        what: "an attack: a fixed window that dips for a round trip, two after a signal",
        make: |choice, setup| Box::new(Dip::new(DipParams::default(), classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "evader",
        what: "an attack by numbers: gives way as deep, as late, as long and as often as it is told",
        make: |choice, setup| Box::new(Evader::new(EvaderParams::default(), classic(choice), setup)),
        with: Some(|words, choice, setup| {
            Ok(Box::new(Evader::new(EvaderParams::parse(words)?, classic(choice), setup)))
        }),
        ..PLAIN
    },
    Entry {
        name: "dip-3",
        also: &[],
        what: "an attack: dip, three round trips after a signal",
        make: |choice, setup| Box::new(late_dip(3, choice, setup)),
        ..PLAIN
    },
    Entry {
        name: "dip-4",
        also: &[],
        what: "an attack: dip, four round trips after a signal",
        make: |choice, setup| Box::new(late_dip(4, choice, setup)),
        ..PLAIN
    },
    Entry {
        name: "fixed-window",
        also: &[],
        what: "no control: half the window at which slow start met congestion, for ever",
        make: |choice, setup| Box::new(FixedWindow::seeking(classic(choice), setup)),
        ..PLAIN
    },
    Entry {
        name: "constant-rate",
        also: &[],
        what: "no control: a constant rate, max_rate or what slow start found",
        make: |choice, setup| Box::new(ConstantRate::seeking(classic(choice), setup)),
        ..PLAIN
    },
];

/// What most entries have in common.
const PLAIN: Entry = Entry {
    name: "",
    also: &[],
    what: "",
    make: |choice, setup| under(Reno::new(classic(choice)), choice, setup),
    with: None,
    words: "",
};

static REGISTERED: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// A controller that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// There is one of this name.
    #[error("there is a congestion control '{0}' already; register each once, by a name of its own")]
    Taken(&'static str),
    /// No scenario could name it.
    #[error("'{0}' cannot name a congestion control; use lower-case letters, digits, '_' and '-'")]
    Name(&'static str),
}

/// Makes a controller of another crate known by its names, for the rest of the program's life.
///
/// # Errors
///
/// If one of its names is another controller's, or cannot be one.
pub fn register(entry: Entry) -> Result<(), RegisterError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    for name in [entry.name].into_iter().chain(entry.also.iter().copied()) {
        if name.is_empty() || !name.bytes().all(letter) {
            return Err(RegisterError::Name(name));
        }
        if ALL.iter().chain(registered.iter().copied()).any(|known| known.is_called(name)) {
            return Err(RegisterError::Taken(name));
        }
    }
    registered.push(Box::leak(Box::new(entry)));
    Ok(())
}

/// All controllers: those of this crate, then those that were registered, in that order.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone();
    ALL.iter().chain(registered)
}

/// No controller has that name, or not those parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UnknownController(String);

/// Entries with parameters that were asked for; each is kept for the rest of the program's life.
static WITH_WORDS: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// Finds a controller by name, behind which those that have parameters take them as words: `evader depth 20 hold 2`.
///
/// # Errors
///
/// If there is none of that name (the message names the nearest), or if it has no such parameters.
pub fn find(name: &str) -> Result<&'static Entry, UnknownController> {
    let (plain, words) = name.trim().split_once(char::is_whitespace).unwrap_or((name.trim(), ""));
    let given = plain.to_ascii_lowercase();
    let Some(entry) = all().find(|entry| entry.is_called(&given)) else {
        let hint = words::hint(plain, all().map(|entry| entry.name));
        return Err(UnknownController(format!("no congestion control is called '{plain}'{hint}")));
    };
    if words.is_empty() { Ok(entry) } else { with_words(entry, words) }
}

fn with_words(entry: &'static Entry, words: &str) -> Result<&'static Entry, UnknownController> {
    let refused = |problem: String| UnknownController(format!("{}: {problem}", entry.name));
    let with = entry.with.ok_or_else(|| refused(format!("it has no parameters; leave '{words}' out")))?;
    let mut known = WITH_WORDS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = known.iter().find(|known| known.name == entry.name && known.words == words) {
        return Ok(same);
    }
    with(words, &Choice { family: Family::Tcp, ecn: false }, &Entry::example_setup()).map_err(refused)?;
    let words: &'static str = String::leak(words.to_owned());
    let made: &'static Entry = Box::leak(Box::new(Entry { words, ..*entry }));
    known.push(made);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::{ALL, Choice, Entry, Family, RegisterError, all, find, register};
    use crate::testing::{Fate, Path, setup};
    use weir_core::Duration;

    #[test]
    fn every_controller_can_be_made_and_carries_data() {
        for entry in ALL {
            for family in [Family::Tcp, Family::Quic] {
                for ecn in [false, true] {
                    let mut controller = entry.make(&Choice { family, ecn }, &setup());
                    let mut path = Path::bottleneck(10, 2_000, 50);
                    path.run(&mut *controller, Duration::from_secs(1), &mut || Fate::Arrives);
                    let sent = path.delivered();
                    assert!(sent > 150, "{} {family:?}: {sent}", entry.name);
                    assert_eq!(controller.name(), entry.name);
                    controller.on_timeout(&path.timeout());
                    path.run(&mut *controller, Duration::from_secs(1), &mut || Fate::Arrives);
                    assert!(path.delivered() > sent, "{} {family:?}", entry.name);
                }
            }
        }
    }

    #[test]
    fn those_that_answer_marks_need_ecn() {
        let needing: Vec<_> = ALL.iter().filter(|entry| entry.needs_ecn()).map(|entry| entry.name).collect();
        assert_eq!(
            needing,
            [
                "dctcp",
                "dctcp-linux318",
                "dctcp-ignores-loss",
                "dctcp-rfc8257",
                "bbr2-ecn",
                "bbr3-ecn",
                "prague",
                "prague-2022"
            ]
        );
    }

    #[test]
    fn those_with_a_limit_say_whether_they_ignore_marks() {
        let limited: Vec<_> =
            ALL.iter().filter_map(|entry| Some((entry.name, entry.ignores_marks_beyond(true)?))).collect();
        let limit = Duration::from_millis(5);
        assert_eq!(limited, [("bbr2", limit), ("bbr3", limit)]);
        for (entry, _) in limited.iter().map(|(name, limit)| (find(name).unwrap(), limit)) {
            assert_eq!(
                (entry.ignores_marks_beyond(false), find(&format!("{}-ecn", entry.name)).is_ok()),
                (None, true)
            );
            for (rtt_ms, ignores) in [(4, false), (20, true)] {
                let mut controller = entry.make(&Choice { family: Family::Tcp, ecn: true }, &setup());
                let mut path = Path::bottleneck(rtt_ms, 2_000, 50);
                path.run(&mut *controller, Duration::from_secs(1), &mut || Fate::Arrives);
                assert_eq!(
                    controller.ignores_marks_beyond().is_some(),
                    ignores,
                    "{} at {rtt_ms} ms",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn the_time_of_day_does_not_matter() {
        for entry in ALL {
            let delivered = [0, 1_000].map(|second| {
                let choice = Choice { family: Family::Tcp, ecn: true };
                let mut controller = entry.make(&choice, &setup());
                let mut path = Path::bottleneck(10, 2_000, 50).marking_from(30).beginning_at(second);
                path.run(&mut *controller, Duration::from_secs(8), &mut || Fate::Arrives);
                path.delivered()
            });
            assert_eq!(delivered[0], delivered[1], "{}", entry.name);
        }
    }

    #[test]
    fn what_is_registered_has_names_of_its_own() {
        let entry = |name| Entry::new(name, "as reno", ALL[0].make);
        for (entry, wrong) in [
            (entry("reno"), RegisterError::Taken("reno")),
            (entry("mine").also(&["bbrv3"]), RegisterError::Taken("bbrv3")),
            (entry("My Own"), RegisterError::Name("My Own")),
            (entry(""), RegisterError::Name("")),
        ] {
            assert_eq!(register(entry), Err(wrong));
        }
        assert!(find("registered-here").is_err());
        assert_eq!(register(entry("registered-here").also(&["here"])), Ok(()));
        assert_eq!(register(entry("registered-here")), Err(RegisterError::Taken("registered-here")));
        assert_eq!(register(entry("here")), Err(RegisterError::Taken("here")));
        assert_eq!(find("Here").unwrap().name, "registered-here");
        assert_eq!(all().last().unwrap().name, "registered-here");
        assert!(find("registred-here").err().unwrap().to_string().contains("did you mean 'registered-here'"));
    }

    #[test]
    fn a_slip_is_answered_with_what_was_meant() {
        assert_eq!(find("Reno").unwrap().name, "reno");
        assert!(find("remo").err().unwrap().to_string().contains("did you mean 'reno'?"));
    }

    #[test]
    fn parameters_are_words_behind_the_name() {
        let plain = find("evader").unwrap();
        let deep = find("evader depth 90 hold 3").unwrap();
        assert_eq!((deep.name, plain.name), ("evader", "evader"));
        assert!(std::ptr::eq(deep, find("evader depth 90 hold 3").unwrap()));
        let windows = [plain, deep].map(|entry| {
            let mut controller = entry.make(&Choice { family: Family::Tcp, ecn: true }, &setup());
            let mut path = Path::bottleneck(10, 2_000, 50).marking_from(10);
            path.run(&mut *controller, Duration::from_secs(2), &mut || Fate::Arrives);
            path.delivered()
        });
        assert!(windows[0] > windows[1], "{windows:?}");
        for (name, wrong) in [
            ("evader depht 3", "did you mean 'depth'"),
            ("reno depth 3", "reno: it has no parameters"),
            ("evadre depth 3", "did you mean 'evader'"),
        ] {
            let error = find(name).err().unwrap().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
