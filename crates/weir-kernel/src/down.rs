//! `down`: from whatever is there back to what was there before.

use std::ops::ControlFlow;

use super::check;
use super::journal::{Lock, NamespaceId};
use super::mounts;
use super::plan::Seen;
use super::qdisc;
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
}

/// Takes Weir off an interface of the calling thread's network namespace, and cleans up behind those of the namespace
/// that are gone, whatever they were called. With nothing to do it does nothing.
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
    let here: Vec<_> = links.iter().filter(|link| meant(&link.name)).collect();
    if let (Some(device), true) = (device, here.is_empty() && !left.iter().any(|(name, _)| meant(name))) {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        return Err(UpError::NoDevice { device: device.to_owned(), known: known.join(", ") });
    }
    let mut runner = Runner::new(on_step);
    let mut done = Down::default();
    let here = here.into_iter().map(|link| {
        // Read when its turn has come: another interface's steps may have taken something away.
        let steps = Seen::of_index(link.index, &links).map(|seen| seen.steps_back());
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
    Ok(done)
}
