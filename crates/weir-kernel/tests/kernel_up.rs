//! `up`, `reload` and `down` on real interfaces, in namespaces with traffic across: what comes, what stays while it
//! changes, what is undone when it fails, and that nothing is left.

#[path = "kernel_up/ifb.rs"]
mod ifb;
#[path = "world/live.rs"]
mod live;
#[path = "kernel_up/place.rs"]
mod place;

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;

use live::{down, go_on, said, setup, up};
use place::{Traffic, assert_as, crosses, everything, files, refusal, world};
use weir_kernel::attach::Hook;
use weir_kernel::{self as kernel, Phase, Setup};
use weir_testkit::world::World;

#[test]
fn it_comes_changes_in_place_and_goes() {
    let Some(world) = world() else { return };
    let before = world.bottleneck.enter(|| everything("to-s"));
    let coming = Traffic::start(&world);
    let done = world
        .bottleneck
        .enter(|| up("to-s rate 200mbit queues bfifo/bfifo direction both ingress_rate 100mbit").unwrap());
    let (sent, received) = coming.stop();
    println!("up: {} of {sent} lost", sent - received);
    assert!(received * 100 >= sent * 95, "{received} of {sent} crossed while it came");
    assert!(!done.steps.is_empty());

    world.bottleneck.enter(|| {
        let instances = kernel::instances().unwrap();
        assert_eq!(instances.len(), 2);
        for instance in &instances {
            assert_eq!((instance.phase, &instance.faults), (Phase::Up, &vec![]), "{instance:#?}");
        }
        assert_eq!(
            up("to-s rate 200mbit queues bfifo/bfifo direction both ingress_rate 100mbit").unwrap().steps,
            []
        );
    });

    // What can be changed without making a queue anew loses no packet.
    let changing = Traffic::start(&world);
    world.bottleneck.enter(|| {
        for words in [
            "to-s rate 150mbit queues bfifo/bfifo direction both ingress_rate 100mbit",
            "to-s rate 150mbit queues bfifo/bfifo direction both ingress_rate 300mbit split hard sharing 30:70",
            "to-s rate 150mbit queues bfifo/bfifo direction both ingress_rate 300mbit set mss=1000",
            "to-s rate 900mbit standard bfifo limit 64kb responsive bfifo limit 64kb direction both preset comsys",
            "to-s rate 50mbit queues bfifo/bfifo",
            "to-s rate 50mbit queues bfifo/bfifo direction both",
        ] {
            assert!(!up(words).unwrap().steps.is_empty(), "{words}");
            let standing = kernel::standing("to-s").unwrap().unwrap();
            assert_eq!(standing, setup(words));
            for instance in kernel::instances().unwrap() {
                assert_eq!(instance.faults, [], "{words}");
            }
        }
    });
    let (sent, received) = changing.stop();
    assert!(sent > 100);
    println!("changes: {} of {sent} lost", sent - received);
    assert!(received * 1000 >= sent * 999, "{received} of {sent} crossed while it changed");

    let going = Traffic::start(&world);
    world.bottleneck.enter(|| assert_eq!(down("to-s").devices, ["to-s"]));
    let (sent, received) = going.stop();
    println!("down: {} of {sent} lost", sent - received);
    assert!(received * 100 >= sent * 95, "{received} of {sent} crossed while it went");
    world.bottleneck.enter(move || {
        assert_as(&before, "to-s", "");
        assert_eq!(down("to-s").steps, []);
        assert_eq!(kernel::instances().unwrap(), []);
    });
}

#[test]
fn interrupted_at_any_step_all_is_as_before() {
    let Some(world) = world() else { return };
    let first = "to-s rate 200mbit queues bfifo/bfifo direction both";
    // Another rate, another kind of queue, another law and table, one direction less.
    let second =
        "to-s rate 80mbit standard pfifo responsive bfifo limit 50kb split hard set mss=1000 flows 128";
    world.bottleneck.enter(|| {
        let clean = everything("to-s");
        let mut steps = 0;
        let break_at = |words: &str, at: usize| {
            let mut count = 0;
            kernel::up(&setup(words), &mut |_| {
                count += 1;
                if count > at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        };
        while let Err(error) = break_at(first, steps) {
            assert!(error.is_interruption() && error.to_string().contains("as it was before"), "{error}");
            assert_as(&clean, "to-s", &format!("step {steps}"));
            steps += 1;
        }
        assert!(steps > 10, "{steps}");
        let standing = everything("to-s");
        steps = 0;
        while let Err(error) = break_at(second, steps) {
            assert!(error.is_interruption(), "{error}");
            assert_as(&standing, "to-s", &format!("step {steps}"));
            assert_eq!(kernel::standing("to-s").unwrap(), Some(setup(first)));
            steps += 1;
        }
        assert!(steps > 5, "{steps}");
        assert_eq!(kernel::standing("to-s").unwrap(), Some(setup(second)));
        down("to-s");
        assert_as(&clean, "to-s", "");
    });
}

#[test]
fn a_qdisc_of_somebody_else_comes_back_as_it_was() {
    let Some(world) = world() else { return };
    let put = |world: &World, line: &str| world.bottleneck.sh(line);
    for line in [
        "tc qdisc replace dev to-s root handle 12: bfifo limit 77777",
        "tc qdisc replace dev to-s root handle 8fff: pfifo limit 17",
        "tc qdisc replace dev to-s root handle 1: pfifo_head_drop limit 5",
    ] {
        put(&world, line);
        world.bottleneck.enter(move || {
            let before = everything("to-s");
            let error = refusal("to-s rate 10mbit queues bfifo/bfifo");
            assert!(error.contains("'replace'") && error.contains("tc qdisc del dev to-s root"), "{error}");
            assert_as(&before, "to-s", "");
            up("to-s rate 10mbit queues bfifo/bfifo replace").unwrap();
            // Once put aside it needs no word any more, and stays in mind through changes.
            up("to-s rate 20mbit queues bfifo/pfifo direction both").unwrap();
            up("to-s rate 20mbit queues bfifo/pfifo direction ingress").unwrap();
            assert!(said("tc qdisc show dev to-s").contains("fifo"), "it comes back with its direction");
            let error = refusal("to-s rate 20mbit queues bfifo/pfifo direction both");
            assert!(error.contains("'replace'"), "{error}");
            down("to-s");
            assert_as(&before, "to-s", "");
        });
        assert!(crosses(&world));
    }
    for (line, kind) in [
        ("tc qdisc replace dev to-s root handle 5: tbf rate 1gbit burst 100k limit 100k", "tbf 5:"),
        ("tc qdisc del dev to-s root; tc qdisc add dev to-s root handle 6: htb default 1", "htb 6:"),
    ] {
        put(&world, line);
        world.bottleneck.enter(move || {
            let before = everything("to-s");
            let error = refusal("to-s rate 10mbit queues bfifo/bfifo replace");
            assert!(error.contains(kind) && error.contains("tc qdisc del dev to-s root"), "{error}");
            assert_as(&before, "to-s", "");
            // What is sent is not touched when only what is received is shaped.
            up("to-s rate 10mbit queues bfifo/bfifo direction ingress").unwrap();
            assert!(said("tc qdisc show dev to-s").contains(kind));
            down("to-s");
            assert_as(&before, "to-s", "");
        });
    }
}

#[test]
fn a_root_that_somebody_put_over_ours_stays() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        said("tc qdisc replace dev to-s root handle 9: pfifo limit 9");
        let faults = kernel::instances().unwrap().remove(0).faults;
        assert!(faults[0].what.contains("pfifo") && faults[0].remedy == "weir down dev to-s", "{faults:?}");
        down("to-s");
        assert!(said("tc qdisc show dev to-s").contains("pfifo 9:"));
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn a_vanished_interface_leaves_nothing() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let links = || said("ip -o link show").lines().count();
        let before = links();
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        said("ip link del to-s");
        let instances = kernel::instances().unwrap();
        assert!(
            instances.iter().all(|instance| instance.faults[0].what.contains("is gone")),
            "{instances:#?}"
        );
        let done = down("to-s");
        assert_eq!(done.devices, ["to-s"]);
        assert_eq!(links(), before - 1);
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
        let error = kernel::down("to-s", &mut go_on).unwrap_err().to_string();
        assert!(error.contains("no interface 'to-s'"), "{error}");
        // Nothing to do for all is no error.
        assert_eq!(kernel::down_all(&mut go_on).unwrap().steps, []);
    });
}

#[test]
fn a_renamed_interface_is_still_the_same() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        said("ip link set to-s down; ip link set to-s name wan; ip link set wan up");
        assert_eq!(kernel::instances().unwrap()[0].device, "wan");
        up("wan rate 20mbit queues bfifo/bfifo direction both").unwrap();
        assert_eq!(kernel::down_all(&mut go_on).unwrap().devices, ["wan"]);
        assert!(!said("tc qdisc show").contains("htb"));
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn what_the_kernel_changes_by_itself_is_put_back() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        // HTB makes the kernel raise a length of zero.
        said("ip link set to-s txqueuelen 0");
        said("tc qdisc add dev to-s clsact; tc filter add dev to-s ingress prio 3 protocol ip u32 match u32 0 0");
        let before = everything("to-s");
        assert!(before.contains("clsact") && before.contains("u32"), "{before}");
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        down("to-s");
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn without_its_journal_only_down_goes_on() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let before = everything("to-s");
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        for file in files("/run/weir") {
            std::fs::remove_file(format!("/run/weir/{file}")).unwrap();
        }
        let error = refusal("to-s rate 20mbit queues bfifo/bfifo");
        assert!(error.contains("weir down dev to-s"), "{error}");
        down("to-s");
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn what_cannot_be_is_refused_before_anything_changes() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let before = everything("to-s");
        let mut cases = vec![
            ("to-x rate 10mbit", "there is no interface 'to-x' here; there are lo, "),
            ("to-s rate 10mbit standard bfifo limit 4gb responsive bfifo", "limit: 4gb is"),
        ];
        // Only where this kernel has them not.
        for kind in ["codel", "fq_codel", "cake", "pie"] {
            if !said(&format!("tc qdisc add dev lo root {kind}; tc qdisc del dev lo root"))
                .contains("unknown")
            {
                continue;
            }
            cases.push(match kind {
                "codel" => ("to-s rate 10mbit", "has no codel; load it with `modprobe sch_codel`"),
                "fq_codel" => {
                    ("to-s rate 10mbit queues bfifo/fq_codel", "such as 'standard bfifo responsive bfifo'")
                }
                "cake" => (
                    "to-s rate 10mbit standard cake unlimited responsive pfifo",
                    "such as 'standard bfifo responsive pfifo'",
                ),
                _ => ("to-s rate 10mbit queues pie/pie ecn", "has no pie"),
            });
        }
        for (words, says) in cases {
            let error =
                match Setup::from_keys(kernel::parse_words(&words.split(' ').collect::<Vec<_>>()).unwrap()) {
                    Ok(setup) => kernel::up(&setup, &mut go_on).unwrap_err().to_string(),
                    Err(error) => error.to_string(),
                };
            assert!(error.contains(says), "{words}: {error}");
        }
        let index = said("cat /sys/class/net/to-s/ifindex 2>/dev/null; ip -o link show to-s");
        let number: u32 = index.split(':').next().unwrap().trim().parse().unwrap();
        said(&format!("ip link add {} type veth", kernel::ifb_name(number)));
        let error = refusal("to-s rate 10mbit queues bfifo/bfifo direction both");
        assert!(error.contains(&kernel::ifb_name(number)) && error.contains("rename it"), "{error}");
        said(&format!("ip link del {}", kernel::ifb_name(number)));
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn a_renamed_interface_goes_down_by_either_name() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let rename = |from: &str, to: &str| {
            said(&format!("ip link set {from} down; ip link set {from} name {to}; ip link set {to} up"));
        };
        for name in ["to-s", "wan"] {
            up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
            rename("to-s", "wan");
            assert_eq!(down(name).devices, ["wan"]);
            assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
            rename("wan", "to-s");
        }
        // Who has the name now is meant, not who had it.
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        rename("to-s", "wan");
        said("ip link add to-s type veth peer name other");
        assert_eq!(down("to-s").steps, []);
        assert_eq!(down("wan").devices, ["wan"]);
    });
}

#[test]
fn a_command_elsewhere_forgets_nothing_that_down_still_needs() {
    let Some(world) = world() else { return };
    world.bottleneck.sh("tc qdisc replace dev to-s root handle 12: pfifo limit 77");
    let inode = world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo replace").unwrap();
        // A down that comes no further than the first program.
        let mut steps = 0;
        let stop = kernel::down("to-s", &mut |_| {
            steps += 1;
            if steps > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(stop.is_err_and(|error| error.is_interruption()));
        std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    });
    // The program is off by another hand, and its pin is there.
    let pins = format!("/sys/fs/bpf/weir/{inode}-");
    let mut folder = std::fs::read_dir("/sys/fs/bpf/weir").unwrap().flatten().map(|entry| entry.path());
    let pin = folder.find(|path| path.to_str().unwrap().starts_with(&pins)).unwrap();
    let link = libbpf_rs::Link::open(pin.join("forward-link"));
    if let Ok(link) = link {
        link.detach().unwrap();
    }
    world.client.enter(|| kernel::down_all(&mut go_on).unwrap());
    world.bottleneck.enter(|| {
        assert_eq!(down("to-s").devices, ["to-s"]);
        let root = said("tc qdisc show dev to-s");
        assert!(root.contains("pfifo 12: root") && root.contains("limit 77p"), "{root}");
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn a_program_whose_pin_stays_stays_attached() {
    let Some(world) = world() else { return };
    let pins = world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        kernel::instances().unwrap().remove(0).pins
    });
    // In mounts of its own, in which bpffs is not to be written.
    let failed = world.bottleneck.enter(move || {
        // SAFETY: takes no pointers; only this thread changes, which ends here.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        said("mount --make-rprivate /; mount -o remount,ro,bind /sys/fs/bpf");
        kernel::down("to-s", &mut go_on).unwrap_err().to_string()
    });
    assert!(failed.contains("Read-only"), "{failed}");
    assert!(pins.join("forward-link").exists());
    world.bottleneck.enter(|| {
        let instance = kernel::instances().unwrap().remove(0);
        let forward = instance.programs.iter().find(|program| program.what.starts_with("forward")).unwrap();
        assert!(forward.hook.is_some(), "{forward:?}");
        down("to-s");
        assert_eq!((files("/run/weir"), files("/sys/fs/bpf/weir")), (vec![], vec![]));
    });
}

#[test]
fn a_block_of_filters_that_others_share_is_refused() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        said("tc qdisc add dev to-s ingress_block 22 clsact");
        let before = everything("to-s");
        let error = refusal("to-s rate 10mbit queues bfifo/bfifo direction both");
        assert!(
            error.contains("ingress_block 22") && error.contains("tc qdisc del dev to-s clsact"),
            "{error}"
        );
        assert_as(&before, "to-s", "refused");
        if Hook::of_this_kernel() == Hook::Tcx {
            up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
            down("to-s");
            assert_as(&before, "to-s", "what is sent needs no filter");
        }
    });
}

#[test]
fn what_is_shown_of_a_class_is_what_it_has() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        for words in [
            "to-s rate 10mbit queues bfifo/bfifo sharing strict",
            "to-s rate 10mbit queues bfifo/bfifo sharing 1:4",
        ] {
            up(words).unwrap();
            let model = kernel::model::Model::of("to-s").unwrap();
            for queue in &model.bottlenecks[0].queues {
                let classes = said("tc class show dev to-s");
                let class =
                    classes.lines().find(|line| line.contains(&format!("htb {} ", queue.classid))).unwrap();
                let rate = format!("rate {}Kbit ", queue.assured_bits_per_second / 1000);
                let rate = rate.replace("000Kbit", "Mbit");
                assert!(class.contains(&rate), "{words}: {rate} is not in {class}");
            }
        }
        down("to-s");
    });
}
