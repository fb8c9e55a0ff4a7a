//! `up`: checks everything that can be checked, then goes from what is there to what is wanted; what fails is undone.

mod error;

use std::ops::ControlFlow;

use super::attach::Hook;
use super::buckets;
use super::check;
use super::journal::Lock;
use super::mounts;
use super::plan::Seen;
use super::qdisc::{self, LinkState};
use super::setup::{Direction, Directions, Setup};
use super::step::{Runner, Step};
use super::superpackets;
use super::sweep::{self, first, sweep};

pub use error::UpError;

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Up {
    /// The steps, in order; none if all was as wanted.
    pub steps: Vec<Step>,
    /// What may surprise.
    pub warnings: Vec<String>,
}

/// The steps that [`up`] would do, without privileges and without doing any.
///
/// # Errors
/// What can be seen to be wrong without privileges.
pub fn plan(setup: &Setup) -> Result<Up, UpError> {
    mounts::check("up")?;
    let seen = Seen::of_own(&setup.device)?;
    let setup = &seen.fitted(setup)?;
    let steps = first(leftovers(&seen)?).chain(examine(&seen, setup)?).collect();
    let mut warnings = warnings(&seen, setup);
    warnings.extend(seen.unread_pins());
    Ok(Up { steps, warnings })
}

/// Puts CRQ on an interface of the calling thread's network namespace, or changes what is there. `on_step` gets
/// each step before it is done; if it answers `Break`, what was done is undone.
///
/// # Errors
/// Says what is wrong and what would mend it. Then all is as it was before, unless the error is [`UpError::Stuck`].
pub fn up(setup: &Setup, on_step: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<Up, UpError> {
    // Asked first, so that a user without privileges hears that, and not of a lock that cannot be taken.
    check::privileges(false)?;
    mounts::check("up")?;
    let _lock = Lock::take()?;
    let seen = Seen::of_own(&setup.device)?;
    let setup = &seen.fitted(setup)?;
    sweep(seen.namespace)?;
    let steps = examine(&seen, setup)?;
    let steps = first(leftovers(&seen)?).chain(steps).collect();
    check::privileges(!seen.bpffs)?;
    check::types()?;
    let sends = setup.direction.each().contains(&Direction::Egress);
    let former = seen.qdiscs.root().filter(|root| sends && !root.is_default() && !seen.root_is_ours());
    check::rehearse(setup, former)?;
    let done = Up { steps, warnings: warnings(&seen, setup) };
    let mut runner = Runner::new(on_step);
    runner.prepare(&done.steps)?;
    match runner.run(&done.steps) {
        Ok(()) => Ok(done),
        Err(cause) => Err(match undo(&seen) {
            Ok(()) => UpError::Undone(cause),
            Err(undoing) => {
                UpError::Stuck { device: setup.device.clone(), cause, undoing: Box::new(undoing) }
            }
        }),
    }
}

/// What is up on an interface, if it is complete, for one who is to change it.
///
/// # Errors
/// When there is no such interface, its journal cannot be read, or these mounts end with the command.
pub fn standing(device: &str) -> Result<Option<Setup>, UpError> {
    mounts::check("reload")?;
    Ok(Seen::of_own(device)?.standing().cloned())
}

/// What is left of interfaces that are gone.
fn leftovers(seen: &Seen) -> Result<Vec<(String, Vec<Step>)>, UpError> {
    let links = qdisc::links().map_err(|source| UpError::Unread { source })?;
    sweep::leftovers(seen.namespace, &links)
}

/// The steps, after all checks that need no privileges.
fn examine(seen: &Seen, setup: &Setup) -> Result<Vec<Step>, UpError> {
    let link = seen.link.as_ref();
    let receives = setup.direction.each().contains(&Direction::Ingress);
    if receives && link.is_some_and(|link| !link.ethernet && !link.ip) {
        return Err(UpError::NoHeader { device: setup.device.clone() });
    }
    // What others set up later is reported, but does not keep what is up from being changed.
    let stands = seen.standing().is_some_and(|setup| setup.direction.each().contains(&Direction::Ingress));
    if receives && !stands {
        seen.others().and_then(|others| others.refusal()).map_or(Ok(()), Err)?;
    }
    let shared = seen.qdiscs.ingress().and_then(|qdisc| Some((qdisc.kind.clone(), qdisc.shared_block?)));
    if let Some((kind, block)) = shared.filter(|_| receives || Hook::of_this_kernel() == Hook::Clsact) {
        return Err(UpError::SharedBlock { device: setup.device.clone(), kind, block });
    }
    // It would take programs for either side, and have them all see what is received.
    if Hook::of_this_kernel() == Hook::Clsact
        && seen.qdiscs.ingress().is_some_and(|qdisc| qdisc.kind == "ingress")
    {
        return Err(UpError::OneSided { device: setup.device.clone() });
    }
    seen.steps_to(setup)
}

fn warnings(seen: &Seen, setup: &Setup) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(mounts::warning());
    let speed = seen.link.as_ref().and_then(|link| check::speed(&link.name));
    if let Some(speed) = speed {
        for direction in setup.direction.each() {
            let rate = setup.rate_of(*direction);
            if rate >= speed {
                warnings.push(format!(
                    "{} is a link of {speed}: at {rate} packets wait in the device, not in Weir's queues; give a rate \
                     a few per cent below",
                    setup.device
                ));
                break;
            }
        }
    }
    if let Some(link) = &seen.link {
        for direction in setup.direction.each() {
            let most = if *direction == Direction::Egress { link.gso_max } else { link.gro_max };
            let largest = superpackets::largest(&link.name, most, *direction);
            warnings.extend(
                largest.into_iter().flat_map(|bytes| superpackets::warnings(setup, *direction, bytes)),
            );
        }
    }
    if setup.direction != Directions::Egress && seen.link.as_ref().is_some_and(|link| link.kind == "ifb") {
        let device = &setup.device;
        warnings.push(format!(
            "{device} is an IFB device, which receives nothing: what others redirect to it is sent through it, and \
             'direction {}' shapes none of that on the way in; use 'direction egress'",
            setup.direction
        ));
    }
    if setup.direction.each().contains(&Direction::Ingress)
        && let Some(others) = seen.others()
    {
        warnings.extend(others.fault());
        warnings.extend(others.warnings());
    }
    warnings.extend(buckets::warnings(setup));
    warnings.extend(seen.ahead(setup.direction.each()));
    warnings.extend(seen.link.as_ref().and_then(bridged));
    if let Some(standing) = seen.standing().filter(|standing| standing.capacity() != setup.capacity()) {
        warnings.push(format!(
            "a table of {} flows takes the place of one of {}: what is known of flows is lost",
            setup.flows, standing.flows
        ));
    }
    warnings
}

/// What a bridge keeps from its qdisc.
fn bridged(link: &LinkState) -> Option<String> {
    if link.kind != "bridge" {
        return None;
    }
    let ports = qdisc::links().unwrap_or_default();
    let ports: Vec<String> =
        ports.into_iter().filter(|port| port.master == link.index).map(|port| port.name).collect();
    let device = &link.name;
    let (between, remedy) = match ports.first() {
        Some(first) => {
            (format!("its ports ({})", ports.join(", ")), format!("such as `weir up dev {first}`"))
        }
        None => ("its ports (there are none yet)".to_owned(), "as one would any interface".to_owned()),
    };
    Some(format!(
        "{device} is a bridge: only what this host itself sends, receives or routes through {device} is shaped, not what is \
         bridged between {between}; for that shape a port, {remedy}"
    ))
}

/// Back to what was there: the setup that stood, or nothing of ours.
fn undo(before: &Seen) -> Result<(), UpError> {
    let mut silent = |_: &Step| ControlFlow::Continue(());
    let links = qdisc::links().map_err(|source| UpError::Unread { source })?;
    let now = Seen::of_index(before.index, &links)?;
    let steps = match (before.standing(), &now.link) {
        (Some(standing), Some(_)) => {
            let mut steps = now.steps_to(standing)?;
            steps.extend(now.hooks_off().filter(|_| before.qdiscs.ingress().is_none()));
            steps
        }
        _ => now.steps_back(),
    };
    Ok(Runner::new(&mut silent).run(&steps)?)
}
