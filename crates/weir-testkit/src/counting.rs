//! An allocator that counts what the calling thread allocates. A test binary installs it:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: weir_testkit::counting::Counting = weir_testkit::counting::Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with its calls counted.
pub struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn note(bytes: i64) {
    CALLS.with(|calls| calls.set(calls.get() + u64::from(bytes > 0)));
    HELD.with(|held| {
        held.set(held.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(held.get())));
    });
}

/// Allocations that this thread has made.
pub fn allocations() -> u64 {
    CALLS.with(Cell::get)
}

/// Bytes that this thread has allocated and not freed; below zero if it frees what others allocated.
pub fn held() -> i64 {
    HELD.with(Cell::get)
}

/// What `f` returns, and by how many bytes [`held`] rose at most meanwhile.
pub fn peak_of<T>(f: impl FnOnce() -> T) -> (T, i64) {
    let before = held();
    PEAK.with(|peak| peak.set(before));
    let value = f();
    (value, PEAK.with(Cell::get) - before)
}

// SAFETY: every call is handed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the caller keeps the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}
