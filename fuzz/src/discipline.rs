//! What `tc -s -j qdisc show` printed, as `weir show` and world `kernel` read it.

use weir_netdev::iproute::Discipline;
use weir_world::foreign::tc_root;

pub(crate) fn run(input: &[u8]) {
    let root = tc_root(input);
    let Ok(disciplines) = Discipline::parse(input) else { return };
    for discipline in &disciplines {
        let _ = (discipline.marks(), discipline.is_root(), discipline.options());
        for name in ["kind", "handle", "parent", "bytes", "backlog"] {
            let _ = (discipline.text(name), discipline.number(name));
        }
    }
    // World `kernel` counts by the root.
    if let Ok(Some([packets, ..])) = root {
        let seen = disciplines.iter().find(|discipline| discipline.is_root());
        assert_eq!(seen.map(|discipline| discipline.number("packets")), Some(packets));
    }
}
