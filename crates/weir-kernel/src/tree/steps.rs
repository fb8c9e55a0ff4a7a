//! The steps that make a tree, or turn one into another.

use super::{HTB_HANDLE, Tree};
use crate::qdisc::{Qdisc, Qdiscs};
use crate::setup::{Direction, Setup, SetupError};
use crate::step::{Action, Step};

/// Whether a root is ours.
pub(crate) fn is_ours(root: Option<&Qdisc>) -> bool {
    root.is_some_and(|root| root.handle == HTB_HANDLE && root.kind == "htb")
}

/// The steps that make the tree on `device`, where there is none of ours yet. `replacing` a qdisc of somebody else
/// takes another verb, so that one that appeared meanwhile is not thrown away.
pub(crate) fn build(
    device: &str,
    setup: &Setup,
    direction: Direction,
    replacing: bool,
) -> Result<Vec<Step>, SetupError> {
    let tree = setup.tree(direction)?;
    let root = tree.root_line(device, if replacing { "replace" } else { "add" });
    let mut steps = vec![Step::new(format!("HTB as the root of {device}"), Action::Tc(vec![root]))];
    if let Some(link) = &tree.link {
        steps.push(Step::new("the link", Action::Tc(vec![format!("class add dev {device} {link}")])));
    }
    for branch in &tree.branches {
        let class = format!("class add dev {device} {}", branch.class);
        let queue = format!("qdisc add {}", branch.queue_line(device));
        // In one go: what meets a class without its queue would be queued in another, and lost with that.
        steps.push(Step::new(format!("the {} queue", branch.choice.name()), Action::Tc(vec![class, queue])));
    }
    Ok(steps)
}

/// The steps that turn a tree of ours into that of `setup`. `before` is what it was made from, if that is known for
/// certain; otherwise every line is said again, and queues are made anew.
pub(crate) fn change(
    device: &str,
    setup: &Setup,
    before: Option<&Setup>,
    direction: Direction,
    seen: &Qdiscs,
) -> Result<Vec<Step>, SetupError> {
    let tree = setup.tree(direction)?;
    // One that cannot be had any more is as good as unknown.
    let old: Option<Tree<'_>> = before.and_then(|before| before.tree(direction).ok());
    let mut raise = Vec::new();
    let mut lower = Vec::new();
    if let Some(link) = tree.link.as_ref().filter(|link| old.as_ref().and_then(Tree::link) != Some(*link)) {
        let line = format!("class replace dev {device} {link}");
        let step = Step::new("the link", Action::Tc(vec![line]));
        // The link is the widest while its branches change.
        let wider = old.as_ref().and_then(Tree::link).is_none_or(|before| before.rate < link.rate);
        if wider { raise.push(step) } else { lower.push(step) }
    }
    for (at, branch) in tree.branches.iter().enumerate() {
        let old_branch = old.as_ref().map(|old| &old.branches[at]);
        let mut lines = Vec::new();
        if old_branch.is_none_or(|old| old.class != branch.class) {
            lines.push(format!("class replace dev {device} {}", branch.class));
        }
        let line = branch.queue_line(device);
        let (parent, handle) = (branch.class.id, branch.handle_text());
        let same_mtu =
            !branch.queue.kind().keeps_mtu() || old.as_ref().is_some_and(|old| old.mtu == tree.mtu);
        match (seen.with_handle(branch.handle), old_branch) {
            (None, _) => lines.push(format!("qdisc add {line}")),
            (Some(queue), Some(old))
                if queue.kind == branch.queue.kind().name()
                    && same_mtu
                    && (old.words == branch.words || old.queue.changes_to(branch.queue)) =>
            {
                if old.words != branch.words {
                    lines.push(format!("qdisc change {line}"));
                }
            }
            (Some(_), _) => {
                // The kernel does not take another kind under the same handle, leaves options as they were that a
                // change does not name, and has some kinds keep the first MTU.
                lines.push(format!("qdisc del dev {device} parent {parent} handle {handle}"));
                lines.push(format!("qdisc add {line}"));
            }
        }
        if !lines.is_empty() {
            raise.push(Step::new(format!("the {} queue", branch.choice.name()), Action::Tc(lines)));
        }
    }
    raise.append(&mut lower);
    Ok(raise)
}
