//! A file over a path on which everything happens: losses, reordering, other addresses, another route, and a receiver
//! that is killed.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weir_testkit::relay::{Relay, Rough};
use weir_testkit::skip::root_and_turn;
use weir_testkit::world::World;

use super::bottleneck::Bottleneck;
use super::{Place, Receiver, json, send_to};

/// Megabytes of the file; what is usual is enough for each event.
const MEGABYTES: &str = "WEIR_SEND_MEGABYTES";

#[test]
fn a_file_survives_a_rough_path() {
    let Some(_turn) = root_and_turn() else { return };
    let Some(world) = World::new() else { return };
    let megabytes: usize = std::env::var(MEGABYTES).map_or(20, |text| text.parse().unwrap());
    let bottleneck = Bottleneck::start(&world, "fq_codel", "100mbit", "5ms");
    let place = Place::new();
    let file = place.file(megabytes * 1_000_000);
    let command = place.command("recv", "127.0.0.1:0");
    let receiver = world.client.enter(move || Receiver::start(command));
    let (inner, at) = (receiver.address.clone(), receiver.address.parse().unwrap());
    let rough = Rough { lose: Some(100), hold: Some((200, Duration::from_millis(1))) };
    let relay =
        world.client.enter(move || Relay::start(weir_testkit::world::CLIENT.parse().unwrap(), at, rough));

    // A loss in a hundred that is no congestion is for controllers that heed delivery, in either kind of queue.
    let mut command = send_to(&file, &relay.address.to_string(), &receiver);
    command.args(["--controller", "bbr3", "--fair-controller", "bbr3"]);
    let sender = world.server.enter(move || command.spawn().unwrap());
    let began = Instant::now();
    let mut log = Vec::new();
    let mut reach = |percent: u64, what: &str| {
        place.wait_for_part((megabytes as u64 * 10_000) * percent);
        log.push(format!("{percent} % after {:.2} s: {what}", began.elapsed().as_secs_f64()));
    };
    reach(15, "the sender's ports change");
    relay.move_senders(Ipv4Addr::LOCALHOST.into());
    reach(30, "its address changes");
    relay.move_senders(Ipv4Addr::new(127, 0, 0, 2).into());
    reach(45, "10 ms longer in each direction");
    relay.lengthen(Duration::from_millis(10));
    reach(60, "as short as before");
    relay.lengthen(Duration::ZERO);
    reach(75, "the receiver is killed");
    drop(receiver);
    let had = place.part();
    let command = place.command("recv", &inner);
    let mut receiver = world.client.enter(move || Receiver::start(command));
    let sent = json(&sender.wait_with_output().unwrap());
    let (lost, held) = relay.lost_and_held();
    eprintln!("{}\n{lost} datagrams lost, {held} held; {sent}", log.join("\n"));
    place.assert_same();
    let (begins, arrived) = (receiver.event(), receiver.event());
    assert!(begins["event"] == "begins" && begins["had_bytes"].as_u64().unwrap() >= had, "{begins}");
    assert!(arrived["event"] == "arrived" && arrived["sha256"] == sent["sha256"], "{arrived}");
    // One connection until the kill, and one afterwards: what happened before is a path's everyday life.
    assert_eq!(sent["connections"], 2);
    // Of all datagrams of both directions one in a hundred, give or take four standard deviations.
    let [passed, lost, held] = [megabytes as u64 * 1_000_000 / 1350, lost, held];
    assert!(lost * 100 > passed * 8 / 10 && held * 200 > passed * 8 / 10, "{lost} {held} of {passed}");
    drop(relay);
    bottleneck.finish();
}
