//! `down`: from whatever is there back to what was there before.

use std::ops::ControlFlow;

use super::check;
use super::journal::{Journal, Lock, NamespaceId};
use super::plan::Seen;
use super::qdisc;
use super::step::{Runner, Step};
use super::sweep::sweep;
use super::up::UpError;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Down {
    /// The interfaces that had something of ours.
    pub devices: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Takes Weir off an interface of the calling thread's network namespace, or cleans up behind one that is gone. With
/// nothing to do it does nothing.
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
        Some(Lock::take()?)
    } else {
        None
    };
    let unread = |source| UpError::Unread { source };
    let links = qdisc::links().map_err(unread)?;
    let namespace = NamespaceId::current().map_err(unread)?;
    if act {
        sweep(namespace)?;
    }
    let journals = Journal::all()?;
    let here = |journal: &&Journal| journal.namespace == namespace;
    let mut found: Vec<(u32, String)> = Vec::new();
    for link in links.iter().filter(|link| device.is_none_or(|device| link.name == device)) {
        found.push((link.index, link.name.clone()));
    }
    for journal in journals.iter().filter(here) {
        let is_gone = !links.iter().any(|link| link.index == journal.index);
        if is_gone && device.is_none_or(|device| journal.device == device) {
            found.push((journal.index, journal.device.clone()));
        }
    }
    if let (Some(device), true) = (device, found.is_empty()) {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        return Err(UpError::NoDevice { device: device.to_owned(), known: known.join(", ") });
    }
    let mut runner = Runner::new(on_step);
    let mut done = Down::default();
    for (index, name) in found {
        let steps = Seen::of_index(index, &links)?.steps_back();
        if act {
            runner.run(&steps)?;
        }
        if !steps.is_empty() {
            done.devices.push(name);
            done.steps.extend(steps);
        }
    }
    Ok(done)
}
