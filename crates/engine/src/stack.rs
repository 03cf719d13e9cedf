//! Deep recursion without stack overflows.
//!
//! Users choose the depth of plans and expressions, and a thread that overflows its stack ends the whole
//! process. So each pass with large frames calls [`growing`] at each level, which continues on a new stack
//! when little is left of the current one. Passes with small frames rely on limits of the depth instead:
//! [`MAX_DEPTH`](crate::expression::MAX_DEPTH) for expressions on the device,
//! [`MAX_LEVELS`](crate::plans::MAX_LEVELS) for statements.

/// Free stack below which a new one is allocated: a level takes less in every build.
const LEAST: usize = 256 << 10;

/// Size of a new stack.
const NEW: usize = 4 << 20;

/// Runs one level of a recursive pass, on a new stack where little is left of the current one.
pub(crate) fn growing<R>(level: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(LEAST, NEW, level)
}

/// Runs `work` on a stack with at least `bytes` free.
pub(crate) fn with_at_least<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes, work)
}
