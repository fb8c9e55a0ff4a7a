//! What the AQMs other than CoDel do under fixed arrival patterns, as a table: a change of any decision or draw shows.

mod support;

use std::fmt::Write;

use support::{Tally, drive, patterns};
use weir_core::{Duration, Ecn, Seed};
use weir_qdisc::{BuildContext, QdiscConfig};

const HEADER: &str = "pattern            ecn     qdisc                                         sent drops over marks  p50_us  p99_us  max_us\n";

#[test]
fn drops_marks_and_sojourn_times() {
    let mut table = String::from(HEADER);
    for (ecn, config) in [
        (Ecn::Ect1, "step threshold 20p"),
        (Ecn::NotEct, "step threshold 5ms drop"),
        (Ecn::NotEct, "red min 20kb max 60kb limit 200kb"),
        (Ecn::Ect0, "red min 20kb max 60kb limit 200kb ecn adaptive"),
        (Ecn::NotEct, "pie"),
        (Ecn::Ect0, "pie ecn variant rfc8033"),
        (Ecn::NotEct, "pi2"),
        (Ecn::Ect1, "pi2"),
        (Ecn::NotEct, "curvy_red"),
        (Ecn::NotEct, "dualq_curvy"),
        (Ecn::Ect1, "dualq_curvy variant rfc9332"),
        (Ecn::NotEct, "dualpi2"),
        (Ecn::Ect1, "dualpi2"),
        (Ecn::Ect1, "dualpi2 variant rfc9332"),
    ] {
        for (name, rate, arrivals) in patterns(ecn) {
            let link = BuildContext {
                rate,
                rtt: Duration::from_millis(100),
                mtu: 1514,
                seed: Seed { seed: 1, run: 0 },
            };
            let mut queue = config.parse::<QdiscConfig>().unwrap().build(&link).unwrap();
            let (events, _) = drive(&mut *queue, rate, &arrivals, true);
            let tally = Tally::of(&events);
            assert_eq!(tally.sent + tally.aqm_drops + tally.overflows, arrivals.len() as u64);
            let us = |quantile| tally.sojourn.quantile(quantile).unwrap() / 1000;
            let (sent, drops, over, marks) = (tally.sent, tally.aqm_drops, tally.overflows, tally.marks);
            let (p50, p99, max) = (us(0.5), us(0.99), us(1.0));
            let ecn = format!("{ecn:?}");
            writeln!(
                table,
                "{name:18} {ecn:7} {config:45} {sent:5} {drops:5} {over:4} {marks:5} {p50:7} {p99:7} {max:7}"
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
