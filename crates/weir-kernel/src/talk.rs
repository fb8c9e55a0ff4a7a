//! What libbpf says while it works, kept for error messages instead of printed.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the words of calls under [`listen`] on this thread; all others go to standard error, as libbpf itself does it.
fn hear(level: PrintLevel, words: String) {
    HEARD.with_borrow_mut(|heard| match heard {
        Some(heard) => heard.push_str(&words),
        None if level == PrintLevel::Debug => {}
        // Nobody need hear it.
        None => drop(std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes())),
    });
}

/// Runs `call` and returns what libbpf said meanwhile on this thread.
pub fn listen<T>(call: impl FnOnce() -> T) -> (T, String) {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let _ = set_print(Some((PrintLevel::Debug, hear)));
    });
    HEARD.set(Some(String::new()));
    let result = call();
    (result, HEARD.take().unwrap_or_default())
}
