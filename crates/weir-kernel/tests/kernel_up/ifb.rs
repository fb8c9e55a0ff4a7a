//! What is received, which an IFB device is put in the way of.

use weir_kernel as kernel;

use super::live::{down, go_on, said, setup, up};
use super::place::{assert_as, crosses, everything, files, pause, refusal, world};

/// The name of the IFB device of an interface of this namespace.
fn ifb_of(device: &str) -> String {
    let shown = said(&format!("ip -o link show {device}"));
    kernel::ifb_name(shown.split(':').next().unwrap().trim().parse().unwrap())
}

#[test]
fn an_ifb_device_that_is_down_is_a_fault_that_a_reload_mends() {
    let Some(world) = world() else { return };
    let words = "to-s rate 100mbit queues bfifo/bfifo direction both";
    world.bottleneck.enter(move || {
        up(words).unwrap();
        said(&format!("ip link set {} down", ifb_of("to-s")));
        let instances = kernel::instances().unwrap();
        let faults: Vec<_> = instances.iter().map(|instance| instance.faults.clone()).collect();
        assert_eq!(faults[0], [], "what is sent does not go there");
        assert!(faults[1][0].what.contains(&format!("{} is down", ifb_of("to-s"))), "{faults:?}");
        assert_eq!(faults[1][0].remedy, "weir reload dev to-s");
    });
    assert!(!crosses(&world), "what is received is lost");
    world.bottleneck.enter(move || {
        assert!(!up(words).unwrap().steps.is_empty());
        assert!(kernel::instances().unwrap().iter().all(|instance| instance.faults.is_empty()));
        assert_eq!(up(words).unwrap().steps, []);
    });
    assert!(crosses(&world));
    world.bottleneck.enter(|| down("to-s"));
}

#[test]
fn the_ifb_device_is_no_interface_to_go_up_or_down_by_itself() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        let ifb = ifb_of("to-s");
        let standing = everything("to-s");
        let part = format!("{ifb} is part of what is up on to-s; use `weir down dev to-s`");
        let wanted = setup(&format!("{ifb} rate 10mbit queues bfifo/bfifo"));
        for error in [
            kernel::up(&wanted, &mut go_on).unwrap_err(),
            kernel::plan(&wanted).unwrap_err(),
            kernel::standing(&ifb).unwrap_err(),
            kernel::down(&ifb, &mut go_on).unwrap_err(),
            kernel::plan_down(Some(&ifb)).unwrap_err(),
        ] {
            assert!(error.to_string().starts_with(&part), "{error}");
        }
        assert_as(&standing, "to-s", "refused");
        assert_eq!(kernel::plan_down(None).unwrap().devices, ["to-s"]);
        // Without the journal its name says whose it is.
        for file in files("/run/weir") {
            std::fs::remove_file(format!("/run/weir/{file}")).unwrap();
        }
        let error = kernel::down(&ifb, &mut go_on).unwrap_err().to_string();
        assert!(error.starts_with(&part), "{error}");
        assert_eq!(kernel::down_all(&mut go_on).unwrap().devices, ["to-s"]);
        assert!(!said("ip link show").contains(&ifb));
    });
}

#[test]
fn an_ifb_device_of_the_operator_stays_whatever_its_name() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        let ifb = ifb_of("to-s");
        said(&format!("ip link add {ifb} type ifb; ip link set {ifb} up"));
        let before = everything("to-s");
        assert_eq!(down("to-s").steps, []);
        up("to-s rate 10mbit queues bfifo/bfifo").unwrap();
        let error = refusal("to-s rate 10mbit queues bfifo/bfifo direction both");
        assert!(error.contains("rename it"), "{error}");
        up(&format!("{ifb} rate 10mbit queues bfifo/bfifo")).unwrap();
        assert_eq!(down(&ifb).devices, std::slice::from_ref(&ifb));
        down("to-s");
        assert_as(&before, "to-s", "");
    });
}

#[test]
fn what_is_received_and_freed_here_is_no_loss_of_a_queue() {
    let Some(world) = world() else { return };
    let here = "fd00::9";
    for (host, name, address) in [(&world.bottleneck, "to-s", here), (&world.server, "s", "fd00::1")] {
        host.sh(&format!(
            "echo 0 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6; ip addr add {address}/64 dev {name} nodad"
        ));
    }
    world.bottleneck.enter(|| {
        up("to-s rate 100mbit standard bfifo limit 256kb responsive bfifo limit 256kb direction both")
            .unwrap();
    });
    let listener = world.bottleneck.enter(move || std::net::TcpListener::bind((here, 0)).unwrap());
    let to = listener.local_addr().unwrap();
    // This host ends each connection first: the end of the other side is for no socket any more, and TCP frees it.
    let other = world.server.spawn(move || {
        for _ in 0..8 {
            let mut stream = std::net::TcpStream::connect(to).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
            pause(50);
        }
    });
    for _ in 0..8 {
        drop(listener.accept().unwrap());
    }
    other.join().unwrap();
    pause(100);
    world.bottleneck.enter(|| {
        for bottleneck in kernel::model::Model::of("to-s").unwrap().bottlenecks {
            let told = serde_json::to_value(&bottleneck).unwrap();
            let queues = told["queues"].as_array().unwrap();
            let drops: u64 = queues.iter().map(|queue| queue["drops"].as_u64().unwrap()).sum();
            assert_eq!(told["counters"]["loss_packets"].as_u64(), Some(drops), "{told:#}");
        }
        down("to-s");
    });
}

#[test]
fn an_ifb_device_has_no_address_and_receives_nothing() {
    let Some(world) = world() else { return };
    world.bottleneck.enter(|| {
        said("echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        up("to-s rate 10mbit queues bfifo/bfifo direction both").unwrap();
        let ifb = ifb_of("to-s");
        pause(100);
        assert_eq!(said(&format!("ip -o addr show {ifb}")), "");
        down("to-s");
        said("ip link add ifb7 type ifb; ip link set ifb7 up");
        let told = |words: &str| kernel::plan(&setup(words)).unwrap().warnings.join(" ");
        assert!(told("ifb7 rate 10mbit direction both").contains("ifb7 is an IFB device"));
        assert!(told("ifb7 rate 10mbit direction ingress").contains("use 'direction egress'"));
        assert!(!told("ifb7 rate 10mbit").contains("IFB"));
        assert!(!told("to-s rate 10mbit direction both").contains("IFB"));
    });
}
