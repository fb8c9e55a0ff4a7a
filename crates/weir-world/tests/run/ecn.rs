//! ECN from end to end: who asked for it is marked, who did not is dropped, in the same queue.

use crate::{assert_completed, assert_sound, flow, measure, scenario};
use weir_testkit::skip::root_and_turn;

#[test]
fn codel_marks_who_can_be_marked_and_drops_the_others() {
    let Some(_turn) = root_and_turn() else { return };
    let result = measure(&scenario(
        // A limit that is never reached: what is lost is CoDel's doing.
        "rate = '30mbit', rtt = '10ms', qdisc = 'codel ecn target 2ms interval 20ms limit 10000p'",
        &[
            "name = 'tcp ecn', stack = 'tcp', controller = 'cubic', ecn = true, bytes = '3mb'",
            "name = 'quic ecn', stack = 'quic', controller = 'cubic', ecn = true, bytes = '3mb'",
            "name = 'tcp', stack = 'tcp', controller = 'cubic', bytes = '3mb'",
            "name = 'quic', stack = 'quic', controller = 'cubic', bytes = '3mb'",
        ],
    ));
    assert_sound(&result);
    assert_eq!(result.queues[0].overflowed, 0);
    for name in ["tcp ecn", "quic ecn"] {
        let flow = flow(&result, name);
        assert_completed(flow, 3 << 20);
        assert!(flow.ecn && flow.marked > 0, "{flow:?}");
        // SYNs, pure acknowledgements and the last retransmissions carry no ECT (RFC 3168 section 6.1), data does.
        assert!(flow.dropped * 10 <= flow.marked.max(10), "{flow:?}");
        assert_eq!(flow.class_ecn, "responsive", "{flow:?}");
        assert!(result.assessments.iter().any(|row| row.flow == name && row.signal == "ecn"));
    }
    for name in ["tcp", "quic"] {
        let flow = flow(&result, name);
        assert_completed(flow, 3 << 20);
        assert!(!flow.ecn && flow.marked == 0 && flow.dropped > 0, "{flow:?}");
        assert_eq!(flow.class_ecn, "unclassified", "{flow:?}");
        assert_eq!(flow.class_loss, "responsive", "{flow:?}");
    }
    // With marks everywhere, marks are what the queue is chosen by (CRQ section III-B.1).
    assert_eq!(result.meta.scenario.main_signal(), weir_law::MainSignal::Ecn);
    assert!(flow(&result, "tcp ecn").responsive_time > 0.0);
}

#[test]
fn crq_with_marks_chooses_by_ecn() {
    let Some(_turn) = root_and_turn() else { return };
    let codel = "codel ecn target 2ms interval 20ms limit 2000p";
    let result = measure(&scenario(
        &format!(
            "rate = '30mbit', rtt = '10ms', qdisc = {{ kind = 'crq', standard = '{codel}', responsive = '{codel}' }}"
        ),
        &[
            "name = 'ecn', stack = 'tcp', controller = 'cubic', ecn = true, bytes = '3mb'",
            "name = 'udp', stack = 'udp', rate = '20mbit'",
        ],
    ));
    assert_sound(&result);
    assert_completed(flow(&result, "ecn"), 3 << 20);
    assert_eq!(flow(&result, "ecn").class_ecn, "responsive");
    assert!(flow(&result, "ecn").responsive_packets > 0.5, "{:?}", flow(&result, "ecn"));
    assert!(result.queues[1].marked > 0, "{:?}", result.queues[1].marked);
    assert_eq!(flow(&result, "udp").responsive_packets, 0.0);
}
