//! The programs of one direction: where each is attached, in which order, and where all of them are pinned.
//!
//! Coming: what looks on first (losses and marks, the other direction), then `forward`, which moves flows between the
//! queues, and `redirect` last of all, with which received packets begin to go through the IFB device. Going: the
//! reverse. So packets always have a way that is whole.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::Link;
use libbpf_rs::query::LinkTypeInfo;

use super::attach::{self, Hook, Place, Side};
use super::config::{self, LinkLayer, ProgramConfig};
use super::error::KernelError;
use super::journal::pins;
use super::program::{self, Programs, Role};
use super::qdisc::{self, LinkState};
use super::setup::{Direction, Setup};
use super::talk;

/// The pin of the program that hears of losses.
const LOST: &str = "lost-link";

/// One direction of one interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hooks {
    pub(super) direction: Direction,
    /// The interface.
    pub(super) device: String,
    pub(super) index: u32,
    /// The device with the queues.
    pub(super) queue_device: String,
    /// Its index; `None` until it is made, or when it is gone.
    pub(super) queue_index: Option<u32>,
    /// Whether packets begin with an Ethernet header.
    pub(super) ethernet: bool,
    /// The inode of the network namespace.
    pub(super) namespace: u64,
}

/// A program, or the two that listen to the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Signals,
    Traffic(Role),
}

impl Part {
    pub(super) fn describe(self, hooks: &Hooks, marks: bool) -> String {
        match self {
            Self::Signals if marks => format!("lost (drops) and left (marks) of {}", hooks.queue_device),
            Self::Signals => format!("lost (drops) of {}", hooks.queue_device),
            Self::Traffic(role) => {
                let (on_queue, side) = hooks.side(role);
                let device = if on_queue { &hooks.queue_device } else { &hooks.device };
                format!("{} at the {} of {device}", role.name(), side.name())
            }
        }
    }
}

/// Whether all programs of a direction are where they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// There is nothing, not even a pin.
    None,
    /// Some of it.
    Part,
    /// All of it.
    Whole,
}

impl Hooks {
    /// Where everything is pinned.
    pub(super) fn pins(&self) -> PathBuf {
        pins(self.namespace, self.index, self.direction)
    }

    /// The parts in the order in which they come.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Signals, Part::Traffic(Role::Reverse), Part::Traffic(Role::Forward)];
        if self.direction == Direction::Ingress {
            parts.push(Part::Traffic(Role::Redirect));
        }
        parts
    }

    /// Whether a program sits on the device with the queues, and on which side.
    fn side(&self, role: Role) -> (bool, Side) {
        match (self.direction, role) {
            (_, Role::Forward) => (true, Side::Egress),
            (Direction::Egress, _) | (Direction::Ingress, Role::Redirect) => (false, Side::Ingress),
            (Direction::Ingress, Role::Reverse) => (false, Side::Egress),
        }
    }

    /// The side of the interface on which a program sits; `None` if it sits on another device.
    pub(super) fn side_here(&self, role: Role) -> Option<Side> {
        let (on_queue, side) = self.side(role);
        (!on_queue || self.direction == Direction::Egress).then_some(side)
    }

    /// The programs that are attached by TCX, with the numbers of their links.
    pub(super) fn links(&self) -> impl Iterator<Item = (Role, u32)> + use<> {
        let pins = self.pins();
        [Role::Reverse, Role::Forward].into_iter().filter_map(move |role| {
            let path = attach::link_pin(&pins, role);
            let info =
                path.exists().then(|| talk::listen(|| Link::open(path).and_then(|link| link.info())).0)?;
            Some((role, info.ok()?.id))
        })
    }

    /// `None` while the device is not there.
    fn place(&self, role: Role) -> Option<Place> {
        let (on_queue, side) = self.side(role);
        let ifindex = if on_queue { self.queue_index? } else { self.index };
        Some(Place { role, ifindex, side })
    }

    /// What is there of it.
    pub(super) fn presence(&self) -> Presence {
        let attached = self.attached();
        let count = attached.iter().filter(|(_, hook)| hook.is_some()).count();
        match (self.pins().exists(), count) {
            (true, count) if count == attached.len() => Presence::Whole,
            (false, 0) => Presence::None,
            _ => Presence::Part,
        }
    }

    /// What is attached of it, by name, with where and how.
    pub(super) fn attached(&self) -> Vec<(Part, Option<Hook>)> {
        let pins = self.pins();
        let state = |part| match part {
            // The pin of a tracing program is its attachment.
            Part::Signals => pins.join(LOST).exists().then_some(Hook::Tcx),
            Part::Traffic(role) => self
                .place(role)
                .and_then(|place| attach::find(&pins, &place))
                .filter(|_| !is_off(&attach::link_pin(&pins, role))),
        };
        self.parts().into_iter().map(|part| (part, state(part))).collect()
    }

    /// Whether a program of it is a filter of `clsact`.
    pub(super) fn uses_clsact(&self) -> bool {
        self.attached().iter().any(|(_, hook)| *hook == Some(Hook::Clsact))
    }

    /// Flows that the pinned table has room for, if this version of Weir can read it.
    pub(super) fn capacity(&self) -> Option<u32> {
        let settings = program::read_settings(&self.pins()).ok()?;
        config::from_bytes(&settings).map(|(table, _)| table.capacity())
    }

    /// What the programs are loaded with.
    pub(super) fn config(&self, setup: &Setup) -> ProgramConfig {
        // Until the IFB device is there its place is held by the interface's own index: the verifier does not mind.
        let queue = self.queue_index.unwrap_or(self.index);
        ProgramConfig {
            link_layer: if self.ethernet { LinkLayer::Ethernet } else { LinkLayer::Ip },
            redirect_to: if self.direction == Direction::Ingress { queue } else { 0 },
            can_mark: setup.can_mark(),
            drops_on_dequeue: setup.queues.named().iter().any(|(_, leaf)| leaf.kind().drops_on_dequeue()),
            ..ProgramConfig::new(setup.law, setup.flows, queue, self.namespace as u32)
        }
    }

    /// The same with the device that may have been made meanwhile.
    fn now(&self) -> io::Result<Self> {
        let links = qdisc::links()?;
        let queue: Option<&LinkState> = links.iter().find(|link| link.name == self.queue_device);
        Ok(Self { queue_index: queue.map(|link| link.index), ..self.clone() })
    }
}

/// Loaded programs, from the check to the last step.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Not pinned yet.
    ready: BTreeMap<Direction, Made>,
    pinned: BTreeMap<Direction, Programs>,
}

/// Programs, and whether their tables are those that were there.
#[derive(Debug)]
struct Made {
    programs: Programs,
    kept: bool,
}

impl Made {
    fn new(hooks: &Hooks, setup: &Setup, keep: bool) -> Result<Self, KernelError> {
        let config = hooks.config(setup);
        if keep {
            match Programs::reuse(&hooks.pins(), &config) {
                Ok(programs) => return Ok(Self { programs, kept: true }),
                // Half pinned, or of another version: made anew.
                Err(KernelError::NotPinned(_) | KernelError::OtherLayout(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { programs: Programs::load(&config)?, kept: false })
    }
}

impl Loaded {
    /// Loads before anything is changed, which finds out whether this kernel takes the programs.
    pub(super) fn prepare(&mut self, hooks: &Hooks, setup: &Setup, keep: bool) -> Result<(), KernelError> {
        // For a device that is yet to be made they have to be loaded again; the same ones have been checked once.
        if hooks.queue_index.is_some() || self.ready.is_empty() {
            self.ready.insert(hooks.direction, Made::new(hooks, setup, keep)?);
        }
        Ok(())
    }

    /// Pins what was loaded, or loads it now.
    pub(super) fn load(&mut self, hooks: &Hooks, setup: &Setup, keep: bool) -> Result<(), KernelError> {
        let hooks = hooks.now().map_err(|error| failed("reading the interfaces", error))?;
        let config = hooks.config(setup);
        let ready = self.ready.remove(&hooks.direction).filter(|made| *made.programs.config() == config);
        let made = match ready {
            Some(made) => made,
            None => Made::new(&hooks, setup, keep)?,
        };
        if !made.kept {
            detach_all(&hooks)?;
            unpin(&hooks)?;
        }
        made.programs.pin(&hooks.pins())?;
        self.pinned.insert(hooks.direction, made.programs);
        Ok(())
    }

    /// Attaches one part, or swaps it for the one that is there.
    pub(super) fn attach(&self, hooks: &Hooks, part: Part) -> Result<(), KernelError> {
        let hooks = hooks.now().map_err(|error| failed("reading the interfaces", error))?;
        let pins = hooks.pins();
        let missing = || failed("attaching programs", io::ErrorKind::NotFound.into());
        let programs = self.pinned.get(&hooks.direction).ok_or_else(missing)?;
        match part {
            Part::Signals => attach::signals(programs, &pins),
            Part::Traffic(role) => {
                let place = hooks.place(role).ok_or_else(missing)?;
                attach::attach(programs, &pins, &place, None).map(drop)
            }
        }
    }
}

fn failed(doing: &str, source: io::Error) -> KernelError {
    KernelError::Failed { doing: doing.to_owned(), source }
}

/// Takes one part off, if it is there.
pub(super) fn detach(hooks: &Hooks, part: Part) -> Result<(), KernelError> {
    let pins = hooks.pins();
    match part {
        Part::Signals => attach::detach_signals(&pins),
        Part::Traffic(role) => match hooks.place(role) {
            Some(place) => attach::detach(&pins, &place),
            None => attach::detach_link(&pins, role),
        },
    }
}

/// Whether the program whose link is pinned there has lost its interface. `false` where nothing is pinned, or no TCX
/// link.
pub(super) fn is_off(link: &Path) -> bool {
    if !link.exists() {
        return false;
    }
    let (info, _) = talk::listen(|| Link::open(link).and_then(|link| link.info()));
    matches!(info.map(|info| info.info), Ok(LinkTypeInfo::Tcx(tcx)) if tcx.ifindex == 0)
}

fn detach_all(hooks: &Hooks) -> Result<(), KernelError> {
    hooks.parts().into_iter().rev().try_for_each(|part| detach(hooks, part))
}

/// Removes all pins, and Weir's folder if these were the last.
pub(super) fn unpin(hooks: &Hooks) -> Result<(), KernelError> {
    let pins = hooks.pins();
    attach::unpin(&pins)?;
    if let Some(folder) = pins.parent() {
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}
