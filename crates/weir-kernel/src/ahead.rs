//! Programs of others that see a packet by TCX before Weir's `forward` or `reverse`. Each may have the last word on
//! it with `TCX_PASS`, and those behind it then see nothing of it (`tcx_run` in net/core/dev.c).

use super::attach::Side;
use super::hooks::Hooks;
use super::program::Role;
use super::qdisc::LinkState;
use super::setup::Direction;
use super::sys;

/// What may surprise at an interface, where Weir shapes the directions `wanted`; `hooks` are what it may have there.
/// Of what the caller may not ask for, nothing is said, nor of who is at the ingress where Weir shapes what is
/// received: see `ingress`.
pub(super) fn warnings(link: &LinkState, hooks: &[Hooks], wanted: &[Direction]) -> Vec<String> {
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
        }
    }
    warnings
}

fn describe(link: &LinkState, role: Role, side: Side, others: &str) -> String {
    let side = if side == Side::Ingress { "ingress" } else { "egress" };
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
