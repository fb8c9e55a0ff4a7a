//! Programs and filters of others at the egress of an interface whose sent packets Weir classifies. `forward` comes
//! behind the programs at TCX that are there, and before all filters.

#[path = "world/live.rs"]
mod live;

use live::{DATAGRAMS, carried, down, index, quietly, up};
use weir_kernel::attach::Hook;
use weir_kernel::{self as kernel, Snapshot};
use weir_testkit::bpf::{At, TCX_DROP, TCX_NEXT, TCX_PASS, Theirs};
use weir_testkit::world::{SERVER, World};

/// The bottleneck's address on the way to the server.
const HERE: &str = "10.99.0.9";
const EGRESS: &str = "to-s rate 100mbit queues bfifo/bfifo direction egress flows 64";
const BOTH: &str = "to-s rate 100mbit queues bfifo/bfifo direction both flows 64";
const FIRST: At = At::Tcx { egress: true, first: true };
const LAST: At = At::Tcx { egress: true, first: false };

fn world() -> Option<World> {
    if Hook::of_this_kernel() != Hook::Tcx {
        weir_testkit::skip::skip("tcx", "somebody's program at the egress");
        return None;
    }
    let world = World::new()?;
    world.bottleneck.sh(&format!("ip addr add {HERE}/24 dev to-s"));
    assert_eq!(sent(&world), DATAGRAMS, "there is a wire");
    Some(world)
}

/// How many datagrams of the bottleneck the server receives.
fn sent(world: &World) -> usize {
    carried(&world.bottleneck, &world.server, SERVER)
}

/// Packets that `forward` has seen.
fn classified() -> u64 {
    let instance = kernel::instances().unwrap().remove(0);
    Snapshot::open(&instance.pins).unwrap().counters().unwrap().to_standard.packets
}

fn put(at: At, answer: i32) -> Theirs {
    Theirs::put(index("to-s"), at, answer).unwrap()
}

#[test]
fn what_others_drop_stays_dropped() {
    let Some(world) = world() else { return };
    for (at, before) in [(FIRST, true), (FIRST, false), (LAST, false)] {
        let theirs = world.bottleneck.enter(move || {
            let first = before.then(|| put(at, TCX_DROP));
            up(EGRESS).unwrap();
            first.unwrap_or_else(|| put(at, TCX_DROP))
        });
        assert_eq!(sent(&world), 0, "{at:?}");
        world.bottleneck.enter(|| down("to-s"));
        assert!(theirs.is_there(), "{at:?}");
        assert_eq!(sent(&world), 0, "{at:?}");
        drop(theirs);
        assert_eq!(sent(&world), DATAGRAMS, "{at:?}");
    }
}

#[test]
fn who_may_keep_packets_from_the_law_is_named() {
    let Some(world) = world() else { return };
    for words in [EGRESS, BOTH] {
        // Who: where, what it answers, whether it was there first. What it accepts for good `forward` does not see.
        for (at, answer, before, hidden) in [
            (FIRST, TCX_NEXT, true, false),
            (FIRST, TCX_PASS, true, true),
            (FIRST, TCX_PASS, false, true),
            (LAST, TCX_PASS, false, false),
        ] {
            let theirs = world.bottleneck.enter(move || {
                let first = before.then(|| put(at, answer));
                let mut warnings = up(words).unwrap().warnings;
                let theirs = first.unwrap_or_else(|| put(at, answer));
                if !before {
                    assert_eq!(warnings, Vec::<String>::new(), "Weir's own programs are not others");
                    warnings = up(words).unwrap().warnings;
                }
                let named = |role: &str| {
                    let parts = ["egress of to-s", "TCX_NEXT", role];
                    warnings.iter().filter(|warning| parts.iter().all(|part| warning.contains(part))).count()
                };
                assert_eq!(named("'forward'"), usize::from(at == FIRST), "{at:?} {answer}: {warnings:?}");
                // With both directions `reverse` is there too, in front of those that were there first.
                let reverse = at == FIRST && !before && words == BOTH;
                assert_eq!(named("'reverse'"), usize::from(reverse), "{at:?} {answer}: {warnings:?}");
                assert_eq!(warnings.len(), named(""), "{warnings:?}");
                theirs
            });
            let before = world.bottleneck.enter(classified);
            assert_eq!(sent(&world), DATAGRAMS, "{at:?} {answer}");
            let seen = world.bottleneck.enter(classified) - before;
            assert_eq!(seen < DATAGRAMS as u64, hidden, "{at:?} {answer}: {seen}");
            world.bottleneck.enter(|| down("to-s"));
            drop(theirs);
        }
    }
}

#[test]
fn filters_that_take_the_stamp_off_are_named() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        quietly("ip link add ifb7 type ifb; ip link set ifb7 up; tc qdisc add dev to-s clsact");
        let shown = || kernel::instances().unwrap().remove(0).warnings;
        for words in [EGRESS, BOTH] {
            assert_eq!(up(words).unwrap().warnings, Vec::<String>::new(), "{words}");
            for (end, named) in
                [("action mirred egress mirror dev ifb7 continue", false), ("flowid 1:1", true)]
            {
                quietly(&format!(
                    "tc filter add dev to-s egress prio 7 protocol all u32 match u32 0 0 {end}"
                ));
                let warnings = up(words).unwrap().warnings;
                assert_eq!(shown(), warnings, "{words} {end}");
                assert_eq!(warnings.len(), usize::from(named), "{words} {end}: {warnings:?}");
                for part in ["egress of to-s", "(u32 prio 7)", "'forward'", "continue"] {
                    assert!(!named || warnings[0].contains(part), "no {part} in {warnings:?}");
                }
                quietly("tc filter del dev to-s egress prio 7");
            }
            assert_eq!(shown(), Vec::<String>::new(), "{words}");
        }
        down("to-s");
    });
}
