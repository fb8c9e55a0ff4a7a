//! The targets under libFuzzer, whose options it takes; `WEIR_FUZZ_TARGET` names the target. One program for all, since
//! linking is what takes longest.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("WEIR_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    *found.unwrap_or_else(|| {
        let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("WEIR_FUZZ_TARGET={name} is no target; there are {}", known.join(", "))
    })
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
