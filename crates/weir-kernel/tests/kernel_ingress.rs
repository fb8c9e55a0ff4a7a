//! Others at the ingress of an interface whose received packets Weir shapes: filters of `tc`, TCX, nftables, XDP.

#[path = "world/live.rs"]
mod live;

use std::os::fd::AsFd;

use libbpf_rs::{TC_INGRESS, TcHook};
use live::{DATAGRAMS, carried, down, index, quietly, said, sent_by, up};
use weir_kernel::attach::Hook;
use weir_kernel::{self as kernel, ifb_name};
use weir_testkit::bpf::{self, At, TCX_DROP, TCX_NEXT, TCX_PASS, Theirs, XDP_PASS};
use weir_testkit::world::World;

/// The bottleneck's address on the way to the server.
const HERE: &str = "10.99.0.9";
const INGRESS: &str = "to-s rate 100mbit queues bfifo/bfifo direction ingress flows 64";
const BOTH: &str = "to-s rate 100mbit queues bfifo/bfifo direction both flows 64";

fn world() -> Option<World> {
    let world = World::new()?;
    world.bottleneck.sh(&format!("ip addr add {HERE}/24 dev to-s"));
    assert_eq!(received(&world), DATAGRAMS, "there is a wire");
    Some(world)
}

/// How many datagrams of the server the bottleneck receives.
fn received(world: &World) -> usize {
    carried(&world.server, &world.bottleneck, HERE)
}

fn has_tcx() -> bool {
    let has = Hook::of_this_kernel() == Hook::Tcx;
    if !has {
        weir_testkit::skip::skip("tcx", "somebody's program at the ingress");
    }
    has
}

fn has_nft() -> bool {
    let has = !said("command -v nft").is_empty() && said("nft list ruleset").is_empty();
    if !has {
        weir_testkit::skip::skip("nft", "rules of others at the ingress");
    }
    has
}

/// Somebody's program at the ingress of `to-s`; of one that is a filter nothing is held.
type Put = fn(i32) -> Option<Theirs>;

fn tcx(answer: i32) -> Option<Theirs> {
    Some(Theirs::put(index("to-s"), At::Tcx { egress: false, first: false }, answer).unwrap())
}

fn filter(answer: i32) -> Option<Theirs> {
    let program = bpf::filter(answer).unwrap();
    let mut hook = TcHook::new(program.as_fd());
    hook.ifindex(index("to-s") as i32).attach_point(TC_INGRESS).handle(1).priority(40_000);
    hook.create().unwrap().attach().unwrap();
    None
}

fn remove(theirs: Option<Theirs>) {
    if theirs.is_none() {
        quietly("tc filter del dev to-s ingress prio 40000");
    }
}

/// Who drops packets goes on dropping them, whether he was there first or comes later.
#[test]
fn what_others_drop_stays_dropped() {
    let Some(world) = world() else { return };
    let kinds: [(&str, Put); 2] = [("filter", filter), ("TCX", tcx)];
    let known = if has_tcx() { 2 } else { 1 };
    for (name, put) in kinds.into_iter().take(known) {
        for first in [true, false] {
            let at = format!("{name}, there {}", if first { "first" } else { "later" });
            let theirs = world.bottleneck.enter(move || {
                let before = first.then(|| put(TCX_DROP));
                up(INGRESS).unwrap();
                before.unwrap_or_else(|| put(TCX_DROP))
            });
            assert_eq!(received(&world), 0, "{at}");
            world.bottleneck.enter(move || remove(theirs));
            let ifb = world.bottleneck.enter(|| ifb_name(index("to-s")));
            let queue = ifb.clone();
            let before = world.bottleneck.enter(move || sent_by(&queue));
            assert_eq!(received(&world), DATAGRAMS, "{at}");
            let shaped = world.bottleneck.enter(move || sent_by(&ifb)) - before;
            assert!(shaped >= DATAGRAMS as u64, "{at}: {shaped} shaped");
            world.bottleneck.enter(|| {
                down("to-s");
                quietly("tc qdisc del dev to-s clsact 2>/dev/null; tc filter show dev to-s ingress");
            });
        }
    }
}

/// Chains at the ingress would see nothing any more, so `up` refuses; one that comes later is reported, with what
/// makes it work.
#[test]
fn chains_of_nftables_are_not_bypassed() {
    let Some(world) = world() else { return };
    if !world.bottleneck.enter(has_nft) {
        return;
    }
    let dropping = |family: &str, device: &str| {
        format!(
            "nft 'table {family} guard {{ chain door {{ type filter hook ingress device {device} priority 0; policy accept; \
             meta l4proto udp counter drop; }}; }}'"
        )
    };
    for family in ["netdev", "inet"] {
        let line = dropping(family, "to-s");
        world.bottleneck.enter(move || {
            quietly(&line);
            for words in [INGRESS, BOTH] {
                let refused = up(words).unwrap_err().to_string();
                for part in [&format!("{family} guard door"), "to-s", "prerouting", "'direction egress'"] {
                    assert!(refused.contains(part), "no '{part}' in: {refused}");
                }
            }
            assert_eq!(kernel::instances().unwrap(), []);
            up("to-s rate 100mbit queues bfifo/bfifo flows 64").unwrap();
        });
        assert_eq!(received(&world), 0, "{family}");
        world.bottleneck.enter(move || {
            down("to-s");
            quietly(&format!("nft delete table {family} guard"));
        });
    }
    // Those of another device and of what is sent lose nothing.
    let (of_others, later) = (dropping("netdev", "to-c"), dropping("netdev", "to-s"));
    world.bottleneck.enter(move || {
        quietly(&of_others);
        quietly("nft 'table netdev out { chain door { type filter hook egress device to-s priority 0; }; }'");
        up(BOTH).unwrap();
        for instance in kernel::instances().unwrap() {
            assert_eq!(instance.faults, []);
        }
        quietly(&later);
        let faults: Vec<_> =
            kernel::instances().unwrap().into_iter().flat_map(|instance| instance.faults).collect();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].what.contains("netdev guard door"), "{faults:?}");
        assert_eq!(faults[0].remedy, "weir reload dev to-s direction egress");
        // It does not prevent a change of what is up, but the change warns of it.
        let changed = up(&BOTH.replace("100mbit", "50mbit")).unwrap();
        assert!(changed.warnings.iter().any(|warning| warning.contains("netdev guard door")), "{changed:?}");
        up("to-s rate 100mbit queues bfifo/bfifo flows 64 direction egress").unwrap();
    });
    assert_eq!(received(&world), 0, "the remedy helps");
    world.bottleneck.enter(|| down("to-s"));
}

/// Somebody redirects what is received to a device of his own, as shapers do.
#[test]
fn another_shaper_keeps_its_packets() {
    let Some(world) = world() else { return };
    world.bottleneck.sh("ip link add ifb7 type ifb; ip link set ifb7 up");
    let shaper = "tc qdisc add dev to-s handle ffff: ingress; tc filter add dev to-s parent ffff: protocol all prio 10 u32 \
                  match u32 0 0 action mirred egress redirect dev ifb7";
    world.bottleneck.enter(move || {
        quietly(shaper);
        let refused = up(BOTH).unwrap_err().to_string();
        let remedy = "tc filter del dev to-s ingress prio 10";
        for part in ["ifb7", remedy, "'direction egress'"] {
            assert!(refused.contains(part), "no '{part}' in: {refused}");
        }
        quietly(remedy);
        // Where programs are filters, they need a side that this qdisc has not.
        match Hook::of_this_kernel() {
            Hook::Tcx => drop(up(BOTH).unwrap()),
            Hook::Clsact => assert!(up(BOTH).unwrap_err().to_string().contains("tc qdisc add dev to-s clsact")),
        }
        down("to-s");
        quietly("tc qdisc del dev to-s ingress");

        up(INGRESS).unwrap();
        assert_eq!(kernel::instances().unwrap()[0].faults, []);
        quietly(
            "tc filter add dev to-s ingress protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb7",
        );
        let faults = kernel::instances().unwrap().remove(0).faults;
        assert!(faults[0].what.contains("ifb7") && faults[0].remedy == "weir down dev to-s", "{faults:?}");
        down("to-s");
        assert!(said("tc filter show dev to-s ingress").contains("ifb7"), "theirs stays");
    });
    assert_eq!(received(&world), DATAGRAMS);
}

/// Weir's own filter comes and goes among those of others.
#[test]
fn the_filters_of_others_stay_where_they_are() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        quietly("ip link add ifb7 type ifb; ip link set ifb7 up; tc qdisc add dev to-s clsact");
        for priority in [1, 49_152, 65_535] {
            // The last of all priorities may have filters of others too.
            quietly(&format!(
                "tc filter add dev to-s ingress prio {priority} protocol all u32 match u32 0 0 action mirred egress mirror \
                 dev ifb7 continue"
            ));
        }
    });
    let all = "tc filter show dev to-s ingress";
    let before = world.bottleneck.enter(move || said(all));
    for _ in 0..2 {
        world.bottleneck.enter(move || {
            assert_eq!(up(INGRESS).unwrap().warnings, Vec::<String>::new());
            assert!(said(all).contains(&ifb_name(index("to-s"))));
        });
        let counts = || {
            let said = world.bottleneck.enter(|| said("tc -s filter show dev to-s ingress"));
            let words: Vec<&str> = said.split_whitespace().collect();
            let sent = words.windows(2).filter(|pair| pair[1] == "pkt");
            sent.map(|pair| pair[0].parse().unwrap()).collect::<Vec<usize>>()
        };
        let counted = counts();
        assert_eq!(received(&world), DATAGRAMS);
        // Theirs, and then Weir's.
        let seen: Vec<usize> =
            counts().into_iter().zip(counted).map(|(after, before)| after - before).collect();
        assert!(seen.len() == 4 && seen.iter().all(|seen| *seen >= DATAGRAMS), "{seen:?}");
    }
    world.bottleneck.enter(move || {
        down("to-s");
        assert_eq!(said(all), before);
    });
}

#[test]
fn who_may_keep_packets_from_the_queues_is_named() {
    let Some(world) = world() else { return };
    let warned = |theirs: fn() -> Option<Theirs>, says: &'static [&'static str]| {
        world.bottleneck.enter(move || {
            let theirs = theirs();
            let warnings = up(INGRESS).unwrap().warnings;
            assert_eq!(warnings.len(), usize::from(!says.is_empty()), "{says:?}: {warnings:?}");
            for part in says {
                assert!(warnings[0].contains(part), "no '{part}' in {warnings:?}");
            }
            // Weir's own programs are not others.
            assert_eq!(up(INGRESS).unwrap().warnings, warnings);
            down("to-s");
            drop(theirs);
            quietly("tc qdisc del dev to-s clsact 2>/dev/null");
        });
    };
    warned(|| None, &[]);
    warned(|| filter(TCX_PASS), &["bpf prio 40000", "continue"]);
    if has_tcx() {
        warned(|| tcx(TCX_PASS), &["TCX", "TCX_NEXT"]);
        warned(|| tcx(TCX_NEXT), &["TCX"]);
    }
    warned(|| xdp(true), &["XDP", "twice", "xdpdrv"]);
    warned(|| xdp(false), &[]);
}

fn xdp(generic: bool) -> Option<Theirs> {
    Some(Theirs::put(index("to-s"), At::Xdp { generic }, XDP_PASS).unwrap())
}
