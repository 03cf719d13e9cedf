//! Deep recursion without stack overflows.
//!
//! Users choose the depth of plans and expressions, and a thread that overflows its stack ends the whole
//! process. So each pass of ours with large frames calls [`growing`] at each level, which continues on a new
//! stack when little is left of the current one. DataFusion's passes, many of which recurse without that,
//! run on a stack sized by the levels of their statement ([`for_levels`]), and a statement has at most
//! `plans::MAX_LEVELS` of the engine.

use std::future::{Future, poll_fn};
use std::pin::pin;

/// Free stack in bytes below which [`growing`] allocates a new one: a level takes less in every build.
const LEAST: usize = 256 << 10;

/// Size of a new stack of [`growing`], in bytes.
const NEW: usize = 4 << 20;

/// The most stack that passes over a statement take per level, with those that they call, in bytes. It is
/// address space until it is used.
const LEVEL: usize = if cfg!(debug_assertions) {
    256 << 10
} else {
    32 << 10
};

/// Stack that most passes take per level, in bytes.
const USUAL: usize = if cfg!(debug_assertions) { 16 << 10 } else { 4 << 10 };

/// Runs one level of a recursive pass, on a new stack where little is left of the current one.
pub fn growing<R>(level: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(LEAST, NEW, level)
}

/// Runs `work` on a stack with at least `bytes` free.
pub fn with_at_least<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes, work)
}

/// Runs `work`, which passes over a statement or an expression of `levels`.
pub fn for_levels<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    with_at_least(LEAST + levels * LEVEL, work)
}

/// Polls `work` as [`for_levels`] runs its own.
pub async fn poll_for_levels<F: Future>(levels: usize, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| for_levels(levels, || work.as_mut().poll(context))).await
}

/// Levels that the rest of this thread's stack is large enough for, in the usual case.
pub fn levels_left() -> usize {
    stacker::remaining_stack().map_or(usize::MAX, |left| left / USUAL)
}
