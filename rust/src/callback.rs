//! What every call from the library into this crate has around it.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a callback. A panic in it, which can only come from code of the program that ends with
/// an input, stays here: it must not unwind into C.
pub(crate) fn enter(f: impl FnOnce()) {
    let before = INSIDE.with(|inside| inside.replace(true));
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        std::mem::forget(panic); // its end might panic too
    }
    INSIDE.with(|inside| inside.set(before));
}

/// Whether this thread is in a callback, where nothing may wait for the server.
pub(crate) fn inside() -> bool {
    INSIDE.with(Cell::get)
}
