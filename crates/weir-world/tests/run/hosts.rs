//! Hosts of a scenario on real packets: each has an address, and CAKE distinguishes them by it.

use crate::{assert_sound, measure, scenario};
use weir_testkit::skip::root_and_turn;

#[test]
fn cake_gives_one_flow_as_much_as_eight_of_another_host() {
    let Some(_turn) = root_and_turn() else { return };
    let flow = "stack = 'tcp', controller = 'cubic', duration = '5s'";
    let share = |isolation: &str| {
        let result = measure(&scenario(
            &format!("rate = '20mbit', rtt = '10ms', qdisc = 'cake isolation {isolation}'"),
            &[
                &format!("name = 'one', server = 'a', client = 'a', {flow}"),
                &format!("name = 'eight', server = 'b', client = 'b', count = 8, {flow}"),
            ],
        ));
        assert_sound(&result);
        for flow in &result.flows {
            assert_eq!(flow.error, None, "{}", flow.name);
        }
        let bytes: Vec<u64> = result.flows.iter().map(|flow| flow.received_bytes).collect();
        let share = bytes[0] as f64 / bytes.iter().sum::<u64>() as f64;
        println!("{isolation}: {share:.2} for one beside eight");
        share
    };
    for isolation in ["dual-dsthost", "triple-isolate"] {
        let share = share(isolation);
        assert!((0.35..0.65).contains(&share), "{isolation}: {share}");
    }
    // Flow by flow it would be a ninth.
    let share = share("flows");
    assert!((0.05..0.25).contains(&share), "{share}");
}
