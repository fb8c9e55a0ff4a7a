//! The programs at their hooks on a real interface: both mechanisms, pins that another opener finds, swaps that lose
//! nothing, and removal that leaves nothing.

#[path = "world/pins.rs"]
mod pins;

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use pins::Pins;
use weir_kernel::attach::{self, Hook, Place, Side};
use weir_kernel::{KernelError, ProgramConfig, Programs, Role, Snapshot, identify};
use weir_law::Params;
use weir_testkit::world::{CLIENT, World};

/// Nobody answers for the client's address here.
const NEIGHBOUR: &str = "ip neigh replace 10.99.0.2 lladdr 02:00:00:00:00:02 dev s";

fn send(count: u32) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..count {
        socket.send_to(&[0x40; 100], (CLIENT, 9)).unwrap();
    }
}

/// The words of `tc filter show` and `bpftool net` that could be Weir's.
fn filters(device: &str) -> String {
    let mut all = String::new();
    for side in ["ingress", "egress"] {
        let output = Command::new("tc").args(["filter", "show", "dev", device, side]).output().unwrap();
        all += &String::from_utf8(output.stdout).unwrap();
    }
    all
}

/// The mechanisms of this kernel: TCX came with 6.6.
fn hooks() -> Vec<Hook> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(6), Some(6)) {
        return vec![Hook::Tcx, Hook::Clsact];
    }
    weir_testkit::skip::skip("tcx", &format!("Linux {} lacks it", release.trim()));
    vec![Hook::Clsact]
}

fn through(directory: &Path) -> u64 {
    let counters = Snapshot::open(directory).unwrap().counters().unwrap();
    counters.quic.packets
}

#[test]
fn programs_come_swap_and_go() {
    let Some(world) = World::new() else { return };
    world.server.sh(NEIGHBOUR);
    for hook in hooks() {
        world.server.enter(move || {
            let pins = Pins::new(&format!("{hook:?}"));
            let directory = pins.0.as_path();
            let (ifindex, netns) = identify("s").unwrap();
            let config = ProgramConfig::new(Params::default(), 64, ifindex, netns);
            let programs = match Programs::load(&config) {
                Ok(programs) => programs,
                Err(error) => panic!("{error}"),
            };
            programs.pin(directory).unwrap();
            let places = [
                Place { role: Role::Forward, ifindex, side: Side::Egress },
                Place { role: Role::Reverse, ifindex, side: Side::Ingress },
            ];
            for place in &places {
                assert_eq!(attach::find(directory, place), None);
                assert_eq!(attach::attach(&programs, directory, place, Some(hook)).unwrap(), hook);
                assert_eq!(attach::find(directory, place), Some(hook));
            }
            attach::signals(&programs, directory).unwrap();
            drop(programs);
            send(10);
            assert_eq!(through(directory), 10, "{hook:?}");

            // Another opener finds all of it, changes a setting, and what was counted stays.
            let other = ProgramConfig { can_mark: true, flows: 8, ..config };
            let programs = Programs::reuse(directory, &other).unwrap();
            assert_eq!(programs.capacity(), 64);
            programs.pin(directory).unwrap();
            for place in &places {
                assert_eq!(attach::attach(&programs, directory, place, None).unwrap(), hook);
            }
            attach::signals(&programs, directory).unwrap();
            assert!(directory.join("left-link").exists());
            send(10);
            assert_eq!(through(directory), 20, "{hook:?}");

            for place in &places {
                attach::detach(directory, place).unwrap();
                assert_eq!(attach::find(directory, place), None);
                attach::detach(directory, place).unwrap();
            }
            send(10);
            assert_eq!(through(directory), 20, "{hook:?}");
            attach::unpin(directory).unwrap();
            attach::unpin(directory).unwrap();
            assert!(!directory.exists());
            assert_eq!(filters("s"), "");
        });
    }
}

/// A swap never leaves a packet to no program or to two.
#[test]
fn a_swap_loses_no_packet() {
    let Some(world) = World::new() else { return };
    world.server.sh(NEIGHBOUR);
    for hook in hooks() {
        world.server.enter(move || {
            let pins = Pins::new(&format!("swap-{hook:?}"));
            let directory = pins.0.as_path();
            let (ifindex, netns) = identify("s").unwrap();
            let config = ProgramConfig::new(Params::default(), 64, ifindex, netns);
            let place = Place { role: Role::Forward, ifindex, side: Side::Egress };
            let programs = Programs::load(&config).unwrap();
            programs.pin(directory).unwrap();
            attach::attach(&programs, directory, &place, Some(hook)).unwrap();
            let sender = std::thread::spawn(|| send(20_000));
            while !sender.is_finished() {
                let programs = Programs::reuse(directory, &config).unwrap();
                attach::attach(&programs, directory, &place, Some(hook)).unwrap();
            }
            sender.join().unwrap();
            assert_eq!(through(directory), 20_000, "{hook:?}");
            attach::detach(directory, &place).unwrap();
        });
    }
}

/// Received packets cannot be handed to a device that is not there, nor where the kernel lacks the filter or its
/// action.
#[test]
fn a_redirection_that_the_kernel_refuses_says_what_to_do() {
    let Some(world) = World::new() else { return };
    world.server.enter(|| {
        let pins = Pins::new("nowhere");
        let (ifindex, netns) = identify("s").unwrap();
        let nowhere = ProgramConfig {
            redirect_to: 0x7fff_0000,
            ..ProgramConfig::new(Params::default(), 64, ifindex, netns)
        };
        let programs = Programs::load(&nowhere).unwrap();
        let place = Place { role: Role::Redirect, ifindex, side: Side::Ingress };
        let refused = attach::attach(&programs, &pins.0, &place, Some(Hook::Clsact)).unwrap_err();
        assert!(matches!(refused, KernelError::NoRedirect { .. }), "{refused:?}");
        let said = refused.to_string();
        for remedy in ["modprobe cls_u32", "modprobe act_mirred", "'direction egress'"] {
            assert!(said.contains(remedy), "{said}");
        }
        assert_eq!(attach::find(&pins.0, &place), None);
        assert_eq!(filters("s"), "", "nothing is left");
    });
}
