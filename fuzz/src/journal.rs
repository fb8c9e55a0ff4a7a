//! The journal of `weir up`, and what the kernel's maps hold: another version of Weir, a full disk or a torn write
//! may have left anything there.

use weir_kernel::rewritten_journal;
use weir_law::Params;
use weir_law::live::{LiveConfig, LiveEvent, flows_of, version_of};

pub(crate) fn run(input: &[u8]) {
    if let Ok(once) = rewritten_journal(input) {
        let twice = rewritten_journal(&once).expect("what was written can be read");
        assert_eq!(once, twice, "a journal that changes when it is read");
    }
    maps(input);
}

fn maps(input: &[u8]) {
    let params = Params::default();
    let _ = version_of(input);
    for flow in flows_of(input, &params, input.first().copied().unwrap_or_default()) {
        serde_json::to_vec(&flow).expect("a flow is JSON");
    }
    let _ = LiveEvent::from_bytes(input);
    if let Some(config) = LiveConfig::from_c_bytes(input) {
        let _ = (config.buckets(), config.capacity(), config.bytes());
    }
}
