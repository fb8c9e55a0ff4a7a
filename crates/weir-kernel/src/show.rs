//! What is up in this network namespace, and whether all of it is still there. Reads only and needs no privileges where
//! the files of /run/weir may be read.

use std::fmt;
use std::path::PathBuf;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::attach::Hook;
use super::hooks::{Hooks, Part};
use super::journal::{self, Journal, NamespaceId, Phase, pins};
use super::mounts;
use super::plan::{Seen, ifb_name};
use super::qdisc::{self, LinkState, Qdiscs};
use super::setup::{Direction, Directions, Setup};
use super::step::BPFFS;
use super::tree::{self, RESPONSIVE_HANDLE, STANDARD_HANDLE};
use super::up::UpError;

/// One shaped direction of one interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The interface, by the name it has now, or had last if it is gone.
    pub device: String,
    /// Its index.
    pub index: u32,
    /// The inode of its network namespace.
    pub namespace: u64,
    /// Which way.
    pub direction: Direction,
    /// The device whose qdiscs are the queues: the interface itself, or the IFB device for what it receives.
    pub queue_device: String,
    /// Its index; `None` if it is gone.
    pub queue_index: Option<u32>,
    /// Whether `up` and `down` came to their ends.
    pub phase: Phase,
    /// When `up` came to its end, in seconds since 1970, whatever was changed in place since; where a command did not
    /// come to its end, when that began.
    pub since: u64,
    /// What was set up; where `up` did not come to its end, what it was on the way to.
    pub setup: Setup,
    /// Where its programs and maps are pinned.
    pub pins: PathBuf,
    /// Its programs. Whether they are there takes the right to read bpffs.
    pub programs: Vec<AttachedProgram>,
    /// What is not as it was set up.
    pub faults: Vec<Fault>,
    /// Who may keep packets from the programs; not known where there are faults.
    pub warnings: Vec<String>,
}

/// A program of an instance, or the two that listen to its queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachedProgram {
    /// What it is and where it belongs: `forward at the egress of eth0`.
    pub what: String,
    /// By what it is attached: `tcx`, `clsact` or `tracepoint`; `None` if it is not.
    pub hook: Option<&'static str>,
}

/// Something that is not as it was set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What it is.
    pub what: String,
    /// The command that mends it.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; to mend it: {}", self.what, self.remedy)
    }
}

/// All instances of the calling thread's network namespace, by interface and direction.
///
/// # Errors
/// When the kernel or the journals cannot be read.
pub fn instances() -> Result<Vec<Instance>, UpError> {
    let unread = |source| UpError::Unread { source };
    let namespace = NamespaceId::current().map_err(unread)?;
    let links = qdisc::links().map_err(unread)?;
    let mut instances = Vec::new();
    for journal in Journal::all()?.into_iter().filter(|journal| journal.namespace == namespace) {
        let seen = Seen::of_index(journal.index, &links)?;
        let Some(setup) = journal.target.as_ref().or(journal.setup.as_ref()) else { continue };
        for direction in setup.direction.each() {
            instances.push(instance(&seen, &journal, setup, *direction));
        }
    }
    spare_successors(&mut instances, &links);
    Ok(instances)
}

/// A shaped direction of an interface that no journal mentions: what looks like Weir's by its handle and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The interface, or the IFB device where the interface that it belonged to is gone.
    pub device: String,
    /// Its index.
    pub index: u32,
    /// Which way.
    pub direction: Direction,
    /// The device whose qdiscs are the queues.
    pub queue_device: String,
    /// What is wrong, and what mends it.
    pub fault: Fault,
}

impl Lost {
    /// What is said of it in place of a bottleneck's state.
    pub const STATE: &'static str = "lost";
}

impl Serialize for Lost {
    /// With the names that a bottleneck has, so that a list may hold both.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lost = serializer.serialize_struct("Lost", 6)?;
        lost.serialize_field("device", &self.device)?;
        lost.serialize_field("ifindex", &self.index)?;
        lost.serialize_field("direction", &self.direction)?;
        lost.serialize_field("queue_device", &self.queue_device)?;
        lost.serialize_field("state", Self::STATE)?;
        lost.serialize_field("faults", &[&self.fault])?;
        lost.end()
    }
}

/// All such trees of the calling thread's network namespace, by interface and direction.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn lost() -> Result<Vec<Lost>, UpError> {
    let unread = |source| UpError::Unread { source };
    let namespace = NamespaceId::current().map_err(unread)?;
    let links = qdisc::links().map_err(unread)?;
    let roots = Qdiscs::roots().map_err(unread)?;
    let journals = Journal::all()?;
    let mut lost = Vec::new();
    for link in &links {
        if !roots.iter().any(|(index, root)| *index == link.index && tree::is_ours(Some(root))) {
            continue;
        }
        // The name of an IFB device says for which interface it is, be that gone or not.
        let is_for = |index| link.kind == "ifb" && ifb_name(index) == link.name;
        let told = |journal: &Journal| journal.namespace == namespace && is_for(journal.index);
        if journals.iter().any(told) {
            continue;
        }
        let owner = links.iter().find(|owner| is_for(owner.index));
        let index = owner.unwrap_or(link).index;
        let why = match Journal::read(namespace, index) {
            Ok(Some(_)) => continue,
            Ok(None) => None,
            Err(unreadable) => Some(unreadable),
        };
        let direction = if link.kind == "ifb" { Direction::Ingress } else { Direction::Egress };
        let device = &owner.unwrap_or(link).name;
        let down = match owner {
            None if link.kind == "ifb" => format!("ip link del {device}"),
            _ => format!("weir down dev {device}"),
        };
        let looks = format!("the HTB of {} looks like Weir's", link.name);
        let fault = match why {
            None => Fault { what: format!("{looks}, but its journal in /run/weir is gone"), remedy: down },
            Some(why) => Fault {
                what: format!("{looks}, but {why}"),
                remedy: format!("rm {} && {down}", journal::path(namespace, index).display()),
            },
        };
        lost.push(Lost { device: device.clone(), index, direction, queue_device: link.name.clone(), fault });
    }
    lost.sort_by_key(|one| (one.index, one.direction));
    Ok(lost)
}

/// Makes sure that the calling thread's network namespace has an interface of this name.
///
/// # Errors
/// [`UpError::NoDevice`] with the names of all there are.
pub fn find(device: &str) -> Result<(), UpError> {
    Seen::of_device(device).map(drop)
}

/// `weir down` on the name of an interface that is gone takes the bottleneck of another one off that has the name
/// now. A reload of that one removes what is left and touches nothing else.
fn spare_successors(instances: &mut [Instance], links: &[LinkState]) {
    let is_there = |instance: &Instance| links.iter().any(|link| link.index == instance.index);
    let up = instances.iter().filter(|instance| is_there(instance) && instance.phase == Phase::Up);
    let there: Vec<String> = up.map(|instance| instance.device.clone()).collect();
    for gone in instances.iter_mut().filter(|instance| !is_there(instance)) {
        if there.contains(&gone.device) {
            gone.faults = vec![Fault {
                what: format!("the former interface {} is gone, and has left its part behind", gone.device),
                remedy: format!("weir reload dev {}", gone.device),
            }];
        }
    }
}

fn instance(seen: &Seen, journal: &Journal, setup: &Setup, direction: Direction) -> Instance {
    let device = seen.link.as_ref().map_or(&journal.device, |link| &link.name).clone();
    let (queue_device, queue, qdiscs) = match direction {
        Direction::Egress => (device.clone(), &seen.link, &seen.qdiscs),
        Direction::Ingress => (ifb_name(journal.index), &seen.ifb, &seen.ifb_qdiscs),
    };
    let mut instance = Instance {
        index: journal.index,
        namespace: journal.namespace.inode,
        direction,
        queue_index: queue.as_ref().map(|link| link.index),
        phase: journal.phase,
        since: match journal.phase {
            Phase::Up => journal.up_since.unwrap_or(journal.since),
            Phase::Changing | Phase::Leaving => journal.since,
        },
        setup: setup.clone(),
        pins: pins(journal.namespace.inode, journal.index, direction),
        programs: programs(&seen.hooks(direction), setup),
        faults: Vec::new(),
        warnings: Vec::new(),
        queue_device,
        device,
    };
    instance.faults = faults(&instance, seen, qdiscs);
    // A program of Weir's that cannot be seen would be taken for somebody else's.
    if instance.faults.is_empty() && instance.programs.iter().all(|program| program.hook.is_some()) {
        instance.warnings = seen.ahead(&[direction]);
    }
    instance
}

fn programs(hooks: &Hooks, setup: &Setup) -> Vec<AttachedProgram> {
    let told = |(part, hook): (Part, Option<Hook>)| AttachedProgram {
        what: part.describe(hooks, setup.can_mark()),
        hook: hook.map(|hook| match (part, hook) {
            (Part::Signals, _) => "tracepoint",
            (_, Hook::Tcx) => "tcx",
            (_, Hook::Clsact) => "clsact",
        }),
    };
    hooks.attached().into_iter().map(told).collect()
}

fn faults(instance: &Instance, seen: &Seen, qdiscs: &Qdiscs) -> Vec<Fault> {
    let device = &instance.device;
    let down = format!("weir down dev {device}");
    // What was set up is in the journal, so that a reload without words mends.
    let mend = format!("weir reload dev {device}");
    let fault = |what: String, remedy: &str| vec![Fault { what, remedy: remedy.to_owned() }];
    if seen.link.is_none() {
        return fault(format!("the interface {device} is gone"), &down);
    }
    match instance.phase {
        Phase::Up => {}
        Phase::Changing => return fault(format!("weir up on {device} did not come to its end"), &down),
        Phase::Leaving => return fault(format!("weir down on {device} did not come to its end"), &down),
    }
    let queue_device = &instance.queue_device;
    if instance.queue_index.is_none() {
        return fault(format!("the device {queue_device} is gone"), &mend);
    }
    if !tree::is_ours(qdiscs.root()) {
        let root = qdiscs.root().map_or("nothing", |root| root.kind.as_str());
        return fault(format!("{queue_device} has {root} as its root qdisc, no longer Weir's HTB"), &down);
    }
    let queues = &instance.setup.queues;
    let mut faults = Vec::new();
    // An IFB device that is down drops all that is sent to it.
    if let Some(ifb) = seen.ifb.as_ref().filter(|ifb| instance.direction == Direction::Ingress && !ifb.is_up)
    {
        faults
            .extend(fault(format!("the device {} is down, and {device} receives nothing", ifb.name), &mend));
    }
    if let Some(link) = seen.link.as_ref().filter(|link| !instance.setup.is_for_mtu(link.mtu)) {
        let what = format!(
            "the MTU of {device} is {}, and the limits, bursts and turns of {queue_device} are for one of {}",
            link.mtu, instance.setup.mtu
        );
        faults.extend(fault(what, &mend));
    }
    for (name, handle, leaf) in [
        ("responsive", RESPONSIVE_HANDLE, &queues.responsive),
        ("standard", STANDARD_HANDLE, &queues.standard),
    ] {
        let kind = qdiscs.with_handle(handle).map(|qdisc| qdisc.kind.as_str());
        let wanted = leaf.kind();
        if kind != Some(wanted.name()) {
            let what = match kind {
                Some(kind) => {
                    format!("the {name} queue of {queue_device} is a {kind}, no longer a {wanted}")
                }
                None => format!("the {name} queue of {queue_device}, a {wanted}, is gone"),
            };
            faults.extend(fault(what, &mend));
        }
    }
    if instance.direction == Direction::Ingress
        && let Some(what) = seen.others().and_then(|others| others.fault())
    {
        // What others have there is theirs: Weir can only make room.
        let makes_room = match instance.setup.direction {
            Directions::Both => format!("{mend} direction egress"),
            _ => down.clone(),
        };
        faults.extend(fault(what, &makes_room));
    }
    // Whoever may not look into bpffs, or has another one, cannot know.
    if let Some(name) = mounts::hide_pins() {
        let what = "the programs cannot be seen through the mounts that `ip netns exec` makes".to_owned();
        faults.extend(fault(what, &format!("nsenter --net=/run/netns/{name} weir show")));
    } else if std::fs::read_dir(BPFFS).is_ok() {
        for program in instance.programs.iter().filter(|program| program.hook.is_none()) {
            faults.extend(fault(format!("the program {} is not attached", program.what), &mend));
        }
    }
    faults
}
