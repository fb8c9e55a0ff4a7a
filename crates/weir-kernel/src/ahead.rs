//! Who keeps packets, or what is written on them, from Weir's `forward` and `reverse`.
//!
//! A program at TCX in front of them may have the last word on a packet with `TCX_PASS`, and those behind it then see
//! nothing of it (`tcx_run` in net/core/dev.c). The filters of `clsact` come behind all of TCX, and the kernel sets
//! `skb->tc_index` anew where one of them accepts a packet for good (`tc_run`): what `forward` wrote there is gone.
//! Where Weir's programs are filters themselves, those of smaller priorities have the last word before them.

use super::attach::{Hook, Side};
use super::filters::Filter;
use super::hooks::Hooks;
use super::ingress::list;
use super::program::Role;
use super::qdisc::LinkState;
use super::setup::Direction;
use super::sys;

/// What may surprise at an interface, where Weir shapes the directions `wanted`; `hooks` are what it may have there,
/// and `clsact` says whether it has that qdisc. Of what the caller may not ask for, nothing is said, nor of who is at
/// the ingress where Weir shapes what is received: see `ingress`.
pub(super) fn warnings(link: &LinkState, hooks: &[Hooks], wanted: &[Direction], clsact: bool) -> Vec<String> {
    let ours: Vec<u32> = hooks.iter().flat_map(Hooks::links).map(|(_, number)| number).collect();
    let mut warnings = Vec::new();
    for hooks in hooks.iter().filter(|hooks| wanted.contains(&hooks.direction)) {
        for role in [Role::Reverse, Role::Forward] {
            let Some(side) = hooks.side_here(role) else { continue };
            if side == Side::Ingress && wanted.contains(&Direction::Ingress) {
                continue;
            }
            let all = sys::tcx_programs(link.index, side).unwrap_or_default();
            let own = hooks.links().find(|(of, _)| *of == role).map(|(_, number)| number);
            let ahead = match all.iter().position(|(_, number)| Some(*number) == own) {
                Some(at) => &all[..at],
                // It comes behind them all, `reverse` in front of them.
                None if role == Role::Forward => &all[..],
                None => &[],
            };
            let others = ahead.iter().filter(|(_, number)| !ours.contains(number));
            let others: Vec<String> = others.map(|(program, _)| program.to_string()).collect();
            if !others.is_empty() {
                warnings.push(describe(link, role, side, &others.join(", ")));
            }
            if clsact {
                warnings.extend(filters(link, role, side));
            }
        }
    }
    warnings
}

fn filters(link: &LinkState, role: Role, side: Side) -> Option<String> {
    let after_ours = |filter: &Filter| u32::from(filter.priority) > role.filter_priority();
    let spares = |filter: &Filter| Hook::of_this_kernel() == Hook::Tcx || after_ours(filter);
    let mut others = Filter::at(link.index, side).unwrap_or_default();
    others.retain(|filter| !filter.is_ours() && filter.hides() && (role == Role::Forward || !spares(filter)));
    let then = match role {
        Role::Reverse => {
            "is not seen by Weir's program 'reverse': flows whose answers it does not see get no verdict"
        }
        _ => {
            "has no stamp of Weir's program 'forward': its loss or mark counts as late or for a wrong round trip, so that \
             verdicts may be wrong"
        }
    };
    let (side, device) = (side.name(), &link.name);
    (!others.is_empty()).then(|| {
        format!(
            "there are filters at the {side} of {device} ({}): what they end with ok, pass or a classid {then}; end them \
             with continue",
            list(&others)
        )
    })
}

fn describe(link: &LinkState, role: Role, side: Side, others: &str) -> String {
    let side = side.name();
    let then = match role {
        Role::Reverse => "flows whose answers it does not see get no verdict",
        _ => "what it does not see goes to the standard queue",
    };
    format!(
        "programs at the {side} of {} see packets before Weir's program '{}' (TCX, program {others}), which does not \
         see what they accept for good, with TCX_PASS in place of TCX_NEXT: {then}",
        link.name,
        role.name()
    )
}
