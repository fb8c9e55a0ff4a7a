//! What CoDel does under fixed arrival patterns, as a table: a change of any drop, mark or sojourn time shows.

mod support;

use std::fmt::Write;

use support::{Tally, drive, patterns};
use weir_core::{Duration, Ecn, Seed};
use weir_qdisc::{BuildContext, QdiscConfig};

const HEADER: &str = "pattern            qdisc                                         sent drops over marks  p50_us  p99_us  max_us\n";

#[test]
fn drops_marks_and_sojourn_times() {
    let mut table = String::from(HEADER);
    for (ecn, config) in [
        (Ecn::NotEct, "codel"),
        (Ecn::NotEct, "codel limit 50p"),
        (Ecn::NotEct, "codel target 500us interval 20ms"),
        (Ecn::NotEct, "codel target 100us interval 10us"),
        (Ecn::NotEct, "codel target 100us interval 10us kernel 6.12"),
        (Ecn::Ect0, "codel ecn"),
        (Ecn::Ect1, "codel ce_threshold 1ms ce_threshold_ect1"),
    ] {
        for (name, rate, arrivals) in patterns(ecn) {
            let link =
                BuildContext { rate, rtt: Duration::from_millis(100), mtu: 1514, seed: Seed::default() };
            let mut queue = config.parse::<QdiscConfig>().unwrap().build(&link).unwrap();
            let (events, _) = drive(&mut *queue, rate, &arrivals, true);
            let tally = Tally::of(&events);
            assert_eq!(tally.sent + tally.aqm_drops + tally.overflows, arrivals.len() as u64);
            let config = config.strip_prefix("codel").unwrap().trim();
            let us = |quantile| tally.sojourn.quantile(quantile).unwrap() / 1000;
            let (sent, drops, over, marks) = (tally.sent, tally.aqm_drops, tally.overflows, tally.marks);
            let (p50, p99, max) = (us(0.5), us(0.99), us(1.0));
            writeln!(
                table,
                "{name:18} {config:45} {sent:5} {drops:5} {over:4} {marks:5} {p50:7} {p99:7} {max:7}"
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
