//! Tests that cannot run here. Rust's harness counts a test that returns early as passed, so a skip is a line on
//! standard error that names the test, past the harness's capture: `SKIPPED name: needs root: network namespaces`.
//! `.ci/run` counts these lines. [`MUST_RUN`] lists what is known to be there: a skip for want of that is a failure.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The variable that lists needs, apart by spaces, for which no test may be skipped: `root btf clang`. `all` stands for
/// every one.
pub const MUST_RUN: &str = "WEIR_MUST_RUN";

/// Says that the calling test, whose name is that of its thread, or a part of it, does not run for want of `need`: one
/// word, such as `root`, `btf`, `vm`, `clang`, `nft`, `tcx`. `why` is what it is needed for.
///
/// # Panics
/// If [`MUST_RUN`] lists it.
pub fn skip(need: &str, why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let listed = std::env::var(MUST_RUN).unwrap_or_default();
    assert!(
        !listed.split_whitespace().any(|known| known == need || known == "all"),
        "{name} would be skipped: it needs {need}: {why}; {MUST_RUN} says that this is there"
    );
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: needs {need}: {why}");
}

/// Whether this process is root; if not, the calling test is skipped.
pub fn is_root() -> bool {
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skip("root", "network namespaces, raw sockets, eBPF");
    }
    root
}

/// Whether the kernel describes its types, which tracing programs need; if not, the calling test is skipped.
pub fn has_btf() -> bool {
    let there = Path::new("/sys/kernel/btf/vmlinux").exists();
    if !there {
        skip("btf", "tracing programs");
    }
    there
}

/// The right to be the only run of this process, for tests that send packets on the real clock; none without root, and
/// the calling test is skipped.
pub fn root_and_turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    is_root().then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}
