//! Deep recursion without stack overflows.
//!
//! Users choose the depth of plans and expressions, and a stack overflow in a thread ends the whole process.
//! So each pass of ours with large frames calls [`growing`] at each level, which continues on a new stack if
//! little of the current one is left. Many of DataFusion's passes recurse without such a check. They run on a
//! stack that is sized by the levels of their statement ([`for_levels`]), and a statement has at most
//! `plans::MAX_LEVELS` levels (a constant of the engine).

use std::future::{Future, poll_fn};
use std::pin::pin;

/// Free stack in bytes below which [`growing`] allocates a new stack. One level takes less in every build.
const LEAST: usize = 256 << 10;

/// Size of a new stack of [`growing`], in bytes.
const NEW: usize = 4 << 20;

/// The most stack that passes over a statement, and the passes that they call, take per level, in bytes. The
/// stack is only address space until it is used.
const LEVEL: usize = if cfg!(debug_assertions) {
    256 << 10
} else {
    32 << 10
};

/// Stack that most passes take per level, in bytes.
const USUAL: usize = if cfg!(debug_assertions) { 16 << 10 } else { 4 << 10 };

/// Runs one level of a recursive pass, on a new stack if little of the current one is left.
pub fn growing<R>(level: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(LEAST, NEW, level)
}

/// Runs `work` on a stack with at least `bytes` free.
pub fn with_at_least<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes, work)
}

/// Runs `work`, a pass over a statement or an expression with that number of levels.
pub fn for_levels<R>(levels: usize, work: impl FnOnce() -> R) -> R {
    with_at_least(LEAST + levels * LEVEL, work)
}

/// Polls `work` on a stack of the size that [`for_levels`] uses.
pub async fn poll_for_levels<F: Future>(levels: usize, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| for_levels(levels, || work.as_mut().poll(context))).await
}

/// The number of levels that fit on the rest of this thread's stack in the usual case.
pub fn levels_left() -> usize {
    stacker::remaining_stack().map_or(usize::MAX, |left| left / USUAL)
}
