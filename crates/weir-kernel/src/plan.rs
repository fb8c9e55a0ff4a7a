//! From what is there to what is wanted: the ordered steps. Nothing is changed here.
//!
//! Plans start from what is found on the machine, not from where a command thinks it was: the same code sets up,
//! changes, mends what a killed command left, and takes down. The order keeps traffic flowing: a tree is complete
//! before packets are classified into it, packets are redirected last and released first, and a root is replaced in one
//! step.

use std::io;
use std::path::Path;

use weir_core::ETHERNET_MTU;

use super::ahead;
use super::attach::Hook;
use super::hooks::{Hooks, Part, Presence};
use super::ingress::Others;
use super::journal::{Before, Journal, NamespaceId, Phase};
use super::qdisc::{self, LinkState, Qdisc, Qdiscs};
use super::setup::{Direction, Setup, SetupError};
use super::step::{Action, BPFFS, Step, bpffs_is_mounted};
use super::tree;
use super::up::UpError;

/// There while the kernel has IPv6.
const IPV6: &str = "/proc/sys/net/ipv6/conf";

/// What is there.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) namespace: NamespaceId,
    pub(super) index: u32,
    /// The interface; `None` if it is gone.
    pub(super) link: Option<LinkState>,
    pub(super) qdiscs: Qdiscs,
    /// The interface that what is received is sent through.
    pub(super) ifb: Option<LinkState>,
    pub(super) ifb_qdiscs: Qdiscs,
    pub(super) journal: Option<Journal>,
    pub(super) bpffs: bool,
}

/// The name of the interface that Weir makes to shape what interface `index` receives.
pub fn ifb_name(index: u32) -> String {
    format!("weir{index}")
}

fn unread(source: io::Error) -> UpError {
    UpError::Unread { source }
}

/// The interface whose received packets go through the IFB device `link` of Weir's. The name of such a device says for
/// which index it is; one that an operator has given that name is told by its journal or its root.
pub(super) fn served(link: &LinkState, links: &[LinkState]) -> Result<Option<String>, UpError> {
    let is_for = |index| index != link.index && ifb_name(index) == link.name;
    let owner = links.iter().find(|owner| is_for(owner.index)).map(|owner| owner.name.clone());
    if link.kind != "ifb" || !link.name.starts_with("weir") {
        return Ok(None);
    }
    let namespace = NamespaceId::current().map_err(unread)?;
    let mut journals = Journal::all()?;
    journals.retain(|journal| journal.namespace == namespace);
    if journals.iter().any(|journal| journal.index == link.index) {
        return Ok(None);
    }
    let journal = journals.into_iter().find(|journal| is_for(journal.index));
    if !journal.as_ref().is_some_and(Journal::receives) {
        let qdiscs = Qdiscs::read(link.index).map_err(unread)?;
        if !tree::is_ours(qdiscs.root()) {
            return Ok(None);
        }
    }
    Ok(owner.or(journal.map(|journal| journal.device)))
}

impl Seen {
    /// Looks at an interface of the calling thread's namespace.
    pub(super) fn of_device(device: &str) -> Result<Self, UpError> {
        let links = qdisc::links().map_err(unread)?;
        let Some(link) = links.iter().find(|link| link.name == device) else {
            let names: Vec<String> = links.into_iter().map(|link| link.name).collect();
            return Err(UpError::NoDevice { device: device.to_owned(), known: names.join(", ") });
        };
        Self::of_index(link.index, &links)
    }

    /// The same of one that may have a bottleneck of its own.
    pub(super) fn of_own(device: &str) -> Result<Self, UpError> {
        let seen = Self::of_device(device)?;
        let links = qdisc::links().map_err(unread)?;
        let of = seen.link.as_ref().map_or(Ok(None), |link| served(link, &links))?;
        of.map_or(Ok(seen), |of| Err(UpError::PartOf { device: device.to_owned(), of }))
    }

    /// Looks at what belongs to an interface that may be gone.
    pub(super) fn of_index(index: u32, links: &[LinkState]) -> Result<Self, UpError> {
        let namespace = NamespaceId::current().map_err(unread)?;
        let link = links.iter().find(|link| link.index == index).cloned();
        let ifb = links.iter().find(|link| link.name == ifb_name(index)).cloned();
        let qdiscs = |link: &Option<LinkState>| match link {
            Some(link) => Qdiscs::read(link.index).map_err(unread),
            None => Ok(Qdiscs::default()),
        };
        Ok(Self {
            namespace,
            index,
            qdiscs: qdiscs(&link)?,
            ifb_qdiscs: qdiscs(&ifb)?,
            link,
            ifb,
            journal: Journal::read(namespace, index)?,
            bpffs: bpffs_is_mounted(),
        })
    }

    fn device(&self) -> &str {
        self.link.as_ref().map_or("", |link| &link.name)
    }

    /// What is to be said of a plan where something is up whose programs and tables this process may not look at.
    pub(super) fn unread_pins(&self) -> Option<String> {
        let is_denied =
            std::fs::read_dir(BPFFS).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        let is_ours = self.journal.is_some() || self.root_is_ours() || tree::is_ours(self.ifb_qdiscs.root());
        (is_denied && is_ours).then(|| {
            format!(
                "what is pinned in {BPFFS} cannot be read without privileges: the lines are those for programs and tables \
                 that are gone; run it as root to see those for what is there"
            )
        })
    }

    /// Whether the root is the one that `up` made.
    pub(super) fn root_is_ours(&self) -> bool {
        tree::is_ours(self.qdiscs.root())
    }

    /// Whether the device with the name of Weir's IFB device is that one, and not an operator's.
    fn ifb_is_ours(&self) -> bool {
        let told = self.journal.as_ref().is_some_and(Journal::receives);
        self.ifb.as_ref().is_some_and(|ifb| ifb.kind == "ifb")
            && (told || tree::is_ours(self.ifb_qdiscs.root()))
    }

    /// What is wanted, computed for the interface's MTU.
    pub(super) fn fitted(&self, setup: &Setup) -> Result<Setup, SetupError> {
        let mtu = self.link.as_ref().map_or(setup.mtu, |link| link.mtu);
        setup.clone().with_mtu(mtu)
    }

    /// The setup that is complete now.
    pub(super) fn standing(&self) -> Option<&Setup> {
        self.journal.as_ref().filter(|journal| journal.phase == Phase::Up)?.setup.as_ref()
    }

    /// The steps to `setup`.
    pub(super) fn steps_to(&self, setup: &Setup) -> Result<Vec<Step>, UpError> {
        let wanted = setup.direction.each();
        let before = self.before(setup)?;
        let mut journal = match &self.journal {
            Some(journal) => Journal { before, ..journal.clone() },
            None => Journal::new(self.device(), self.index, self.namespace, before),
        };
        let standing = self.standing();
        let mut steps = Vec::new();
        if !self.bpffs {
            steps.push(Step::new("for pinned programs", Action::Mount));
        }
        let by_filter =
            |direction| direction == &Direction::Ingress || Hook::of_this_kernel() == Hook::Clsact;
        if self.qdiscs.ingress().is_none() && wanted.iter().any(by_filter) {
            journal.before.clsact = false;
            let line = format!("qdisc add dev {} clsact", self.device());
            steps.push(Step::new("the hooks", Action::Tc(vec![line])));
        }
        for direction in wanted {
            let before = standing.filter(|before| before.direction.each().contains(direction));
            steps.extend(match direction {
                Direction::Egress => self.egress(setup, before)?,
                Direction::Ingress => self.ingress(setup, before)?,
            });
            steps.extend(self.programs(setup, before, *direction));
        }
        // Last, so that what is known of its flows is not lost when something before fails.
        for direction in [Direction::Ingress, Direction::Egress] {
            if !wanted.contains(&direction) {
                steps.extend(self.steps_from(direction, &journal.before));
            }
        }
        if steps.is_empty() && standing == Some(setup) {
            return Ok(steps);
        }
        journal.device = self.device().to_owned();
        journal.phase = Phase::Changing;
        journal.target = Some(setup.clone());
        let begin = Step::new("what is there now", Action::Record(Box::new(journal.clone())));
        journal.phase = Phase::Up;
        journal.target = None;
        journal.setup = Some(setup.clone());
        let end = Step::new("all is up", Action::Record(Box::new(journal)));
        Ok([begin].into_iter().chain(steps).chain([end]).collect())
    }

    /// What was there before the first `up`; refuses what could not be put back.
    fn before(&self, setup: &Setup) -> Result<Before, UpError> {
        let shapes_egress = setup.direction.each().contains(&Direction::Egress);
        let known = self.journal.as_ref().map(|journal| journal.before.clone());
        if self.root_is_ours() {
            return known.ok_or_else(|| UpError::LostJournal { device: self.device().to_owned() });
        }
        // What was mounted for another interface is to go with the last of them.
        let of_others = Journal::all()?.iter().any(|journal| !journal.before.bpffs);
        let mut before = known.unwrap_or_else(|| Before {
            root: None,
            txqueuelen: self.link.as_ref().map_or(0, |link| link.txqueuelen),
            // Until Weir makes one.
            clsact: true,
            bpffs: self.bpffs && !of_others,
        });
        if shapes_egress {
            before.root = self.foreign_root(setup.replace)?.cloned();
        }
        Ok(before)
    }

    /// The root of somebody else that is to be put aside.
    fn foreign_root(&self, replace: bool) -> Result<Option<&Qdisc>, UpError> {
        let Some(root) = self.qdiscs.root().filter(|root| !root.is_default()) else { return Ok(None) };
        let (device, kind, handle) = (self.device().to_owned(), root.kind.clone(), root.handle_text());
        if self.qdiscs.has_children(root.handle) || !root.is_restorable() {
            Err(UpError::Classful { device, kind, handle })
        } else if !replace {
            Err(UpError::Foreign { device, kind, handle })
        } else {
            Ok(Some(root))
        }
    }

    fn egress(&self, setup: &Setup, before: Option<&Setup>) -> Result<Vec<Step>, UpError> {
        let device = self.device();
        Ok(if self.root_is_ours() {
            tree::change(device, setup, before, Direction::Egress, &self.qdiscs)?
        } else {
            let replacing = self.qdiscs.root().is_some_and(|root| !root.is_default());
            tree::build(device, setup, Direction::Egress, replacing)?
        })
    }

    fn ingress(&self, setup: &Setup, before: Option<&Setup>) -> Result<Vec<Step>, UpError> {
        let name = ifb_name(self.index);
        let mtu = self.link.as_ref().map_or(ETHERNET_MTU, |link| link.mtu);
        let purpose = format!("what {} receives is sent through {name}", self.device());
        let mut steps = Vec::new();
        match &self.ifb {
            Some(_) if !self.ifb_is_ours() || self.journal.is_none() => {
                return Err(UpError::NameTaken { name, device: self.device().to_owned() });
            }
            Some(ifb) => {
                if ifb.mtu != mtu {
                    let line = format!("link set {name} mtu {mtu}");
                    steps.push(Step::new(format!("the MTU of {}", self.device()), Action::Ip(vec![line])));
                }
                if !ifb.is_up {
                    steps.push(Step::new(purpose, Action::Ip(vec![format!("link set {name} up")])));
                }
            }
            None => {
                let mut lines = vec![format!("link add {name} type ifb")];
                // Else it sends packets of its own through the queues. A kernel without IPv6 does not know the word.
                if Path::new(IPV6).exists() {
                    lines.push(format!("link set {name} addrgenmode none"));
                }
                lines.push(format!("link set {name} mtu {mtu} txqueuelen 1000 up"));
                steps.push(Step::new(purpose, Action::Ip(lines)));
            }
        }
        steps.extend(if tree::is_ours(self.ifb_qdiscs.root()) {
            tree::change(&name, setup, before, Direction::Ingress, &self.ifb_qdiscs)?
        } else {
            tree::build(&name, setup, Direction::Ingress, false)?
        });
        Ok(steps)
    }

    /// Who else is at the ingress of the interface; `None` if that is gone.
    pub(super) fn others(&self) -> Option<Others> {
        let hooks = [Direction::Egress, Direction::Ingress].map(|direction| self.hooks(direction));
        self.link.as_ref().map(|link| Others::at(link, &hooks))
    }

    /// What to know of who may keep packets from Weir's programs, where it shapes the directions `wanted`.
    pub(super) fn ahead(&self, wanted: &[Direction]) -> Vec<String> {
        let hooks = [Direction::Egress, Direction::Ingress].map(|direction| self.hooks(direction));
        let warnings = |link| ahead::warnings(link, &hooks, wanted, self.has_clsact());
        self.link.as_ref().map(warnings).unwrap_or_default()
    }

    fn has_clsact(&self) -> bool {
        self.qdiscs.ingress().is_some_and(|qdisc| qdisc.kind == "clsact")
    }

    /// The programs of one direction.
    pub(super) fn hooks(&self, direction: Direction) -> Hooks {
        let link = self.link.as_ref();
        let device = match (link, &self.journal) {
            (Some(link), _) => link.name.clone(),
            (None, Some(journal)) => journal.device.clone(),
            (None, None) => String::new(),
        };
        let (queue_device, queue_index) = match direction {
            Direction::Egress => (device.clone(), link.map(|link| link.index)),
            Direction::Ingress => (ifb_name(self.index), self.ifb.as_ref().map(|ifb| ifb.index)),
        };
        Hooks {
            direction,
            device,
            index: self.index,
            queue_device,
            queue_index,
            ethernet: link.is_none_or(|link| link.ethernet),
            namespace: self.namespace.inode,
        }
    }

    fn programs(&self, setup: &Setup, before: Option<&Setup>, direction: Direction) -> Vec<Step> {
        let hooks = self.hooks(direction);
        let presence = hooks.presence();
        let same = before.is_some_and(|before| hooks.config(before) == hooks.config(setup));
        if same && presence == Presence::Whole {
            return Vec::new();
        }
        // Without a journal the tables are those of an interface of before that had the same numbers. How large they
        // are a journal does not say where a change was killed.
        let keep = self.journal.is_some() && hooks.capacity() == Some(setup.capacity());
        let marks = setup.can_mark();
        let load = Action::Load { hooks: hooks.clone(), setup: Box::new(setup.clone()), keep };
        let hook = Hook::of_this_kernel();
        let attach =
            |part: Part| Step::new("programs", Action::Attach { hooks: hooks.clone(), part, hook, marks });
        [Step::new("programs and tables", load)]
            .into_iter()
            .chain(hooks.parts().into_iter().map(attach))
            .collect()
    }

    /// The steps that take the programs of one direction off, as far as they are there.
    fn programs_off(&self, direction: Direction) -> Vec<Step> {
        let hooks = self.hooks(direction);
        let mut steps = Vec::new();
        for (part, hook) in hooks.attached().into_iter().rev() {
            if let Some(hook) = hook.filter(|_| part != Part::Signals) {
                steps.push(Step::new("programs", Action::Detach { hooks: hooks.clone(), part, hook }));
            }
        }
        if hooks.pins().exists() {
            steps.push(Step::new("programs and tables", Action::Unpin { hooks: hooks.clone() }));
        }
        steps
    }

    /// The step that removes the `clsact` that Weir made. It comes last of all and never with a change: the kernel
    /// stops the device for a moment wherever one comes or goes (`qdisc_graft`, net/sched/sch_api.c), and what is
    /// sent then is lost.
    pub(super) fn hooks_off(&self) -> Option<Step> {
        let action = Action::DropClsact { device: self.device().to_owned(), index: self.index };
        self.has_clsact().then(|| Step::new("the hooks", action))
    }

    /// The steps that take one direction down, as far as it is there.
    fn steps_from(&self, direction: Direction, before: &Before) -> Vec<Step> {
        let mut steps = self.programs_off(direction);
        match direction {
            Direction::Egress => {
                if self.root_is_ours() {
                    steps.push(self.root_back(before.root.as_ref()));
                }
                let link = self.link.as_ref().filter(|link| link.txqueuelen != before.txqueuelen);
                // Only the kernel's own correction is taken back, not what an operator set meanwhile. A command that
                // was killed may have come no further than the root.
                let is_due = self.root_is_ours() || self.standing().is_none();
                if let Some(link) = link.filter(|_| before.txqueuelen == 0 && is_due) {
                    let line = format!("link set {} txqueuelen 0", link.name);
                    steps.push(Step::new("the queue length that was", Action::Ip(vec![line])));
                }
            }
            Direction::Ingress => {
                if let Some(ifb) = self.ifb.as_ref().filter(|_| self.ifb_is_ours()) {
                    let line = format!("link del {}", ifb.name);
                    steps.push(Step::new("packets go straight again", Action::Ip(vec![line])));
                }
            }
        }
        steps
    }

    fn root_back(&self, former: Option<&Qdisc>) -> Step {
        let device = self.device().to_owned();
        match former {
            Some(qdisc) => {
                let action = Action::Restore { device, index: self.index, qdisc: qdisc.clone() };
                Step::new("the qdisc that was there", action)
            }
            None => {
                let line = format!("qdisc del dev {device} root");
                Step::new("the kernel's own qdisc", Action::Tc(vec![line]))
            }
        }
    }

    /// The steps to what was there before; none if nothing of ours is there.
    pub(super) fn steps_back(&self) -> Vec<Step> {
        let before = self.journal.as_ref().map(|journal| journal.before.clone());
        // Without a journal what was there is not known: the kernel's own then. A clsact that has our filters has been
        // made for them.
        let ours =
            [Direction::Ingress, Direction::Egress].map(|direction| self.hooks(direction).uses_clsact());
        let known = before.unwrap_or(Before {
            txqueuelen: self.link.as_ref().map_or(0, |link| link.txqueuelen),
            clsact: !ours.contains(&true),
            bpffs: true,
            root: None,
        });
        let mut steps: Vec<Step> = [Direction::Ingress, Direction::Egress]
            .into_iter()
            .flat_map(|direction| self.steps_from(direction, &known))
            .collect();
        steps.extend(self.hooks_off().filter(|_| !known.clsact));
        if !known.bpffs && self.bpffs {
            steps.push(Step::new("unless others use it", Action::Unmount));
        }
        if let Some(journal) = &self.journal {
            let mut leaving = journal.clone();
            leaving.phase = Phase::Leaving;
            steps.insert(0, Step::new("going down", Action::Record(Box::new(leaving))));
            steps.push(Step::new("nothing is left", Action::Forget(journal.path())));
        }
        steps
    }
}
