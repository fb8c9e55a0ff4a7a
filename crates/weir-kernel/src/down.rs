//! `down`: from whatever is there back to what was there before.

use std::ops::ControlFlow;

use super::check;
use super::journal::{Journal, Lock, NamespaceId};
use super::mounts;
use super::plan::{Seen, served};
use super::qdisc::{self, LinkState};
use super::step::{Runner, Step};
use super::sweep::{leftovers, sweep};
use super::up::UpError;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Down {
    /// The interfaces that had something of ours.
    pub devices: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What may surprise.
    pub warnings: Vec<String>,
}

/// Takes Weir off an interface of the calling thread's network namespace, by the name that it has or had at `up`, and
/// cleans up behind those of the namespace that are gone, whatever they were called. With nothing to do it does nothing.
///
/// # Errors
/// When there is neither such an interface nor anything left of one, or a step fails. Running it again goes on.
pub fn down(device: &str, on_step: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<Down, UpError> {
    run(Some(device), true, on_step)
}

/// As [`down`], for all interfaces of this namespace.
///
/// # Errors
/// As [`down`].
pub fn down_all(on_step: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<Down, UpError> {
    run(None, true, on_step)
}

/// The steps that [`down`] would do, or [`down_all`] if no device is named, without privileges and without doing any.
///
/// # Errors
/// As [`down`].
pub fn plan_down(device: Option<&str>) -> Result<Down, UpError> {
    run(device, false, &mut |_| ControlFlow::Continue(()))
}

fn run(
    device: Option<&str>,
    act: bool,
    on_step: &mut dyn FnMut(&Step) -> ControlFlow<()>,
) -> Result<Down, UpError> {
    let _lock = if act {
        check::privileges(false)?;
        mounts::check("down")?;
        Some(Lock::take()?)
    } else {
        mounts::check("down")?;
        None
    };
    let unread = |source| UpError::Unread { source };
    let links = qdisc::links().map_err(unread)?;
    let namespace = NamespaceId::current().map_err(unread)?;
    if act {
        sweep(namespace)?;
    }
    let left = leftovers(namespace, &links)?;
    let meant = |name: &str| device.is_none_or(|device| name == device);
    let here = here(device, namespace, &links)?;
    if let (Some(device), true) = (device, here.is_empty() && !left.iter().any(|(name, _)| meant(name))) {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        return Err(UpError::NoDevice { device: device.to_owned(), known: known.join(", ") });
    }
    let mut runner = Runner::new(on_step);
    let mut done = Down::default();
    let mut unread_pins = None;
    let here = here.iter().map(|link| {
        // Read when its turn has come: another interface's steps may have taken something away.
        let steps = Seen::of_index(link.index, &links).map(|seen| {
            unread_pins = unread_pins.take().or_else(|| seen.unread_pins());
            seen.steps_back()
        });
        (link.name.clone(), steps)
    });
    for (name, steps) in here.chain(left.into_iter().map(|(name, steps)| (name, Ok(steps)))) {
        let steps = steps?;
        if act {
            runner.run(&steps)?;
        }
        if !steps.is_empty() {
            done.devices.push(name);
            done.steps.extend(steps);
        }
    }
    done.warnings.extend(unread_pins.filter(|_| !act));
    Ok(done)
}

/// The interfaces that are meant. One that has another name by now is found by the name that its journal knows, unless
/// another one has that name. IFB devices of Weir's go with the interface that they are for.
fn here<'a>(
    device: Option<&str>,
    namespace: NamespaceId,
    links: &'a [LinkState],
) -> Result<Vec<&'a LinkState>, UpError> {
    let Some(device) = device else {
        let mut own = Vec::new();
        for link in links {
            if served(link, links)?.is_none() {
                own.push(link);
            }
        }
        return Ok(own);
    };
    if let Some(link) = links.iter().find(|link| link.name == device) {
        return match served(link, links)? {
            Some(of) => Err(UpError::PartOf { device: device.to_owned(), of }),
            None => Ok(vec![link]),
        };
    }
    let mut journals = Journal::all()?;
    journals.retain(|journal| journal.namespace == namespace && journal.device == device);
    let told = |link: &&LinkState| journals.iter().any(|journal| journal.index == link.index);
    Ok(links.iter().filter(told).collect())
}
