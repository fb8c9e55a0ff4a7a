//! A `tbf` with a bucket of one frame is named when it stands where Weir goes, as the kernel tells of it.

#[path = "world/live.rs"]
mod live;

use live::{down, up};
use weir_testkit::world::World;

const WORDS: &str = "to-s rate 100mbit queues bfifo/bfifo direction egress flows 64";

#[test]
fn a_short_bucket_on_the_interface_is_named() {
    let Some(world) = World::new() else { return };
    for (burst, named) in [(1514, 1), (3028, 0), (15_140, 0)] {
        world
            .bottleneck
            .sh(&format!("tc qdisc replace dev to-s root tbf rate 1gbit burst {burst} limit 625000"));
        let warnings = world.bottleneck.enter(|| up(WORDS).unwrap().warnings);
        let found = warnings.iter().filter(|warning| warning.contains("tbf")).count();
        assert_eq!(found, named, "burst {burst}: {warnings:?}");
        // Weir's own queues are there then.
        let again = world.bottleneck.enter(|| up(WORDS).unwrap().warnings);
        assert!(again.iter().all(|warning| !warning.contains("tbf")), "{again:?}");
        world.bottleneck.enter(|| drop(down("to-s")));
    }
}
