//! What `tc -s -j qdisc show` printed, as `weir show` and world `kernel` read it.

use weir_world::foreign::tc_root;

/// The readers of the program `weir`, which is no library.
#[path = "../../crates/weir/src/show"]
mod show {
    #[allow(dead_code, reason = "only the reading side is used")]
    pub(crate) mod model;
    #[allow(dead_code, reason = "only the reading side is used")]
    pub(crate) mod tc;
}

pub(crate) fn run(input: &[u8]) {
    let root = tc_root(input);
    let Ok(disciplines) = show::tc::parse(input) else { return };
    for discipline in &disciplines {
        let _ = (discipline.marks(), discipline.is_root(), discipline.options());
        for name in ["kind", "handle", "parent", "bytes", "backlog"] {
            let _ = (discipline.text(name), discipline.number(name));
        }
    }
    // Both readers see one root.
    if let Ok(Some([packets, ..])) = root {
        let seen = disciplines.iter().find(|discipline| discipline.is_root());
        assert_eq!(seen.map(|discipline| discipline.number("packets")), Some(packets));
    }
}
