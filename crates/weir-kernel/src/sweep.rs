//! Removes what interfaces left behind that are gone.
//!
//! One that went alone left an IFB device, pins and a journal in this namespace. If it comes back, as dial-up links and
//! USB devices do, it is another interface under the same name: it has another index.
//!
//! Where they went together with their network namespace, nobody can go there any more to run `weir down`.
//! Whether a namespace is gone cannot be asked, since any open descriptor may hold it. But the pinned link of a program
//! says by itself when its interface has gone, and an inode number that belongs to another namespace now says that the
//! one before is dead. Filters of `clsact` have no such links: before Linux 6.6 only the number counts.
//! A link may also have been taken off while its interface stays: a journal that a later `down` needs goes by the number
//! alone.

use std::fs;
use std::path::Path;

use super::attach;
use super::hooks;
use super::journal::{self, Journal, JournalError, NamespaceId, Phase};
use super::plan::Seen;
use super::qdisc::LinkState;
use super::setup::Direction;
use super::step::{Action, BPFFS, Step};
use super::up::UpError;

/// The interfaces of this namespace that are gone and left something, by their last names, and the steps that remove
/// it.
pub(super) fn leftovers(here: NamespaceId, links: &[LinkState]) -> Result<Vec<(String, Vec<Step>)>, UpError> {
    let gone = |journal: &Journal| {
        journal.namespace == here && !links.iter().any(|link| link.index == journal.index)
    };
    let journals = Journal::all()?.into_iter().filter(gone);
    journals.map(|journal| Ok((journal.device, Seen::of_index(journal.index, links)?.steps_back()))).collect()
}

/// The same as the first steps of another command, which may need the mount of bpffs that they would take away.
pub(super) fn first(leftovers: Vec<(String, Vec<Step>)>) -> impl Iterator<Item = Step> {
    let steps = leftovers.into_iter().flat_map(|(_, steps)| steps);
    steps.filter(|step| !matches!(step.action, Action::Unmount))
}

/// Whether somebody could still need it: links can also be off because a command did not come to its end or somebody
/// took them off, and then nothing else knows what was before.
fn is_needed(journal: &Journal) -> bool {
    journal.phase != Phase::Up || journal.before.root.is_some()
}

/// Removes pins and journals of interfaces of other namespaces that are gone.
pub(super) fn sweep(here: NamespaceId) -> Result<(), JournalError> {
    let journals: Vec<Journal> =
        Journal::all()?.into_iter().filter(|journal| journal.namespace != here).collect();
    for journal in &journals {
        let pins = [Direction::Egress, Direction::Ingress]
            .map(|direction| journal::pins(journal.namespace.inode, journal.index, direction));
        let reused = journal.namespace.inode == here.inode;
        // While the IFB device is there, somebody can still go to its namespace.
        let links = pins.each_ref().map(|pins| pins.join("forward-link"));
        let left: Vec<_> = links.iter().filter(|link| link.exists()).collect();
        let dead = !left.is_empty() && left.iter().all(|link| hooks::is_off(link));
        if reused || dead {
            // What cannot be removed now will be tried again.
            let removed = pins.iter().all(|pins| attach::unpin(pins).is_ok());
            if removed && (reused || !is_needed(journal)) {
                journal::forget(&journal.path())?;
            }
        }
    }
    // Without journal: what was pinned by a process that died between the two, before the machine forgot /run.
    let of_journals = |name: &str| {
        journals
            .iter()
            .any(|journal| name.starts_with(&format!("{}-{}-", journal.namespace.inode, journal.index)))
    };
    let folder = Path::new(BPFFS).join("weir");
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of_here = name.starts_with(&format!("{}-", here.inode));
        if !of_here && !of_journals(&name) && hooks::is_off(&entry.path().join("forward-link")) {
            let _ = attach::unpin(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
    Ok(())
}
