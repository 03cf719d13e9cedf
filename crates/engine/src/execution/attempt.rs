//! Failed runs that are repeated in another way: the loop of attempts, and the index of all transitions.
//!
//! [`repeat`] and [`repeat_async`] run attempts until one succeeds or none is left. An attempt is a state. A
//! transition maps a failed attempt and its typed failure to the next attempt, or returns the failure. The
//! levels in the table are nested: each level has a state of its own, and all attempts of the levels below
//! use it. The last column names the function with the transitions of a level.
//!
//! ```text
//! level        failure                             next attempt                                  attempts          function
//! subtree      a build side is refused             the subtree is replanned                      16                place_again (task.rs)
//!              the sort lacks memory or is refused the rows in any order; the CPU sorts          1                 LastStep::after
//!              any other device failure            the subtree runs on the CPU                   1                 LastStep::after
//! graph        a join with keys lacks memory       the join runs in partitions, with a quarter   3                 in_parts_after (join_run.rs)
//!                                                  of memory, then with a quarter of that
//!              predicted partitions fail           all rows at once                              1                 in_parts_after
//!              partitioning the sides once lacks   the sides are read once per partition         1                 by_triton (triton.rs)
//!              memory or is refused
//!              strings lack memory, in partitions  all partitions, with eight times the memory   until memory ends  in_parts_after
//! build sides  radix partitions are refused, or    rows in scan order                            1                 direct_after (partition_run.rs)
//!              lack memory
//! sort         the sort lacks memory               key ranges of half of free memory, then of a  4                 ranges_after (sort_ranges.rs)
//!                                                  quarter of that
//! admission    strings lack memory                 eight times the memory for strings            until memory ends  RunAttempt::after
//!              the run lacks memory                without optional memory (fully sized hash     1                 RunAttempt::after
//!                                                  tables, replicas of groups, resident columns)
//!              the same, while other queries run   the first attempt, when another has ended     while others run  RunAttempt::after
//! ```
//!
//! Every attempt begins with an empty result. After rows of the result were read, a failure is final.

use super::error::Failure;
use crate::device::RunError;
use crate::string::interned::InternedWords;
use futures::future::BoxFuture;

/// Runs attempts until one succeeds or `next` returns the failure.
pub(super) fn repeat<A, T, E>(
    mut attempt: A,
    mut run: impl FnMut(&mut A) -> Result<T, E>,
    mut next: impl FnMut(A, E) -> Result<A, E>,
) -> Result<T, E> {
    loop {
        match run(&mut attempt) {
            Ok(done) => return Ok(done),
            Err(failure) => attempt = next(attempt, failure)?,
        }
    }
}

/// Like [`repeat`], for asynchronous runs. `run` returns the failed attempt with its failure.
pub(crate) async fn repeat_async<'r, A, T, E>(
    mut attempt: A,
    mut run: impl FnMut(A) -> BoxFuture<'r, Result<T, (A, E)>>,
    mut next: impl FnMut(A, E) -> Result<A, (A, E)>,
) -> Result<T, (A, E)> {
    loop {
        match run(attempt).await {
            Ok(done) => return Ok(done),
            Err((failed, failure)) => attempt = next(failed, failure)?,
        }
    }
}

/// An attempt to run an admitted pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunAttempt {
    /// Whether it must do without optional memory.
    pub(super) tight: bool,
    /// Whether the columns that it reads stay in device memory.
    pub(super) keeps: bool,
    /// Whether it used optional memory, which the next attempt can do without.
    pub(super) optional: bool,
    /// The memory for strings of keys without a dictionary, set once the pipeline turns out to need it.
    pub(super) strings: Option<InternedWords>,
}

impl RunAttempt {
    /// The first attempt. `keeps`: columns stay in device memory.
    pub(super) fn first(keeps: bool) -> Self {
        Self {
            tight: false,
            keeps,
            optional: keeps,
            strings: None,
        }
    }

    /// The attempt after a failed one. `restart` empties the result; it returns false if rows were read
    /// before. `first` waits for the end of another query that uses the device and returns the first attempt,
    /// or `None` if no other query uses it.
    pub(super) fn after(
        self,
        failure: RunError,
        restart: impl Fn() -> bool,
        first: impl FnOnce() -> Option<Self>,
    ) -> Result<Self, RunError> {
        match failure {
            RunError::StringsFull if restart() => Ok(Self {
                strings: self.strings.map(InternedWords::grown),
                ..self
            }),
            RunError::Memory { .. } if !self.tight && self.optional && restart() => Ok(Self {
                tight: true,
                keeps: false,
                ..self
            }),
            failure @ RunError::Memory { .. } if restart() => first().ok_or(failure),
            failure => Err(failure),
        }
    }
}

/// Bytes that an attempt may use, a fraction of the bytes of the attempt before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shrinking {
    /// Bytes of this attempt.
    pub(super) bytes: u64,
    /// The divisor for the next attempt.
    less: u64,
    /// Number of attempts after this one.
    left: u32,
}

impl Shrinking {
    /// The first of `tries` attempts.
    pub(super) fn new(bytes: u64, less: u64, tries: u32) -> Option<Self> {
        let left = tries.checked_sub(1)?;
        Some(Self { bytes, less, left })
    }

    /// Number of attempts from this one on.
    pub(super) fn tries(self) -> u32 {
        self.left + 1
    }

    /// The next attempt; `None` if this was the last one.
    pub(super) fn next(self) -> Option<Self> {
        Self::new(self.bytes / self.less, self.less, self.left)
    }
}

/// The step after the last attempt on the device has failed, before a row was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastStep {
    /// The query fails with the error.
    Fail,
    /// The device returns the rows in any order, and the CPU sorts them.
    SortOnHost,
    /// The CPU runs the subtree.
    RunOnHost,
}

/// Properties of a subtree that [`LastStep`] depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastResort {
    /// Whether the device sorts all rows of the subtree and also filters or joins them (`sorts() &&
    /// !is_whole()`). If the subtree only sorts a table, and the sort fails, the CPU runs all of it.
    pub(crate) sorts: bool,
    /// Whether the CPU might not raise the error that a row raised on the device: it may skip the row, or its
    /// version of the function may have a result.
    pub(crate) is_doubted: bool,
    /// Whether `galatea.fallback` allows the CPU.
    pub(crate) may_fall_back: bool,
}

impl LastStep {
    /// The step after `failure`.
    pub(crate) fn after(failure: &Failure, subtree: LastResort) -> Self {
        let on_host = match subtree.may_fall_back {
            true => Self::RunOnHost,
            false => Self::Fail,
        };
        match failure {
            // Regardless of `galatea.fallback`: the CPU decides whether the row raises an error.
            Failure::Run(RunError::Raised(_)) if subtree.is_doubted => Self::RunOnHost,
            Failure::Input(_) | Failure::Run(RunError::Cancelled | RunError::Raised(_)) => Self::Fail,
            Failure::Store(error) if !error.is_refusal() => Self::Fail,
            Failure::Run(error)
                if subtree.sorts && (error.wants_memory() || matches!(error, RunError::Unsupported(_))) =>
            {
                Self::SortOnHost
            }
            Failure::Store(_) | Failure::Run(_) | Failure::BuildSide(..) | Failure::Pool(_) => on_host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::error::DataFusionError;
    use galatea_base::reason::Reason;
    use galatea_expression::{Fault, Raised, RowError};
    use galatea_store::StoreError;

    fn full() -> RunError {
        RunError::Memory {
            what: "a table",
            needed: 2,
            available: 1,
            limit: 1,
            query: Box::default(),
            lower: None,
        }
    }

    fn alone() -> Option<RunAttempt> {
        None
    }

    #[test]
    fn attempts_repeat_until_success_or_exhaustion() {
        let to = |last: u32| {
            let next = move |attempt, failure| {
                if attempt < last {
                    Ok(attempt + 1)
                } else {
                    Err(failure)
                }
            };
            repeat(
                0,
                |attempt| if *attempt == 3 { Ok("done") } else { Err(*attempt) },
                next,
            )
        };
        assert_eq!((to(3), to(2)), (Ok("done"), Err(2)));
    }

    #[test]
    fn retry_after_out_of_memory_drops_optional_memory() {
        let first = RunAttempt::first(true);
        let tight = first.after(full(), || true, alone).expect("another attempt");
        assert!(tight.tight && !tight.keeps);
        assert!(
            tight.after(full(), || true, alone).is_err(),
            "no other query runs"
        );
        let again = tight.after(full(), || true, || Some(first));
        assert!(again.is_ok_and(|again| !again.tight), "another query has ended");
        let needed = RunAttempt::first(false);
        assert!(
            needed.after(full(), || true, alone).is_err(),
            "all memory is needed"
        );
    }

    #[test]
    fn retry_after_full_string_memory_enlarges_it() {
        let mut first = RunAttempt::first(false);
        first.strings = Some(InternedWords::of_rows(1 << 20, false));
        let next = first.after(RunError::StringsFull, || true, alone);
        let next = next.expect("another attempt");
        assert_eq!(next.strings, first.strings.map(InternedWords::grown));
        assert_eq!(next.tight, first.tight);
    }

    #[test]
    fn no_retry_after_rows_were_read_or_cancellation() {
        let read = || false;
        let first = RunAttempt::first(true);
        assert!(first.after(full(), read, || Some(first)).is_err());
        assert!(first.after(RunError::StringsFull, read, || Some(first)).is_err());
        assert!(first.after(RunError::Cancelled, || true, || Some(first)).is_err());
    }

    #[test]
    fn last_step_depends_on_failure_and_subtree() {
        let subtree = LastResort {
            sorts: false,
            is_doubted: false,
            may_fall_back: true,
        };
        let sorting = LastResort {
            sorts: true,
            ..subtree
        };
        let forced = LastResort {
            may_fall_back: false,
            ..subtree
        };
        let forced_sort = LastResort {
            sorts: true,
            ..forced
        };
        let doubted = LastResort {
            is_doubted: true,
            ..forced
        };
        let unsupported = || {
            RunError::Unsupported(Reason::Setting {
                setting: "galatea.stream.enabled",
                value: "false".into(),
            })
        };
        let raised = || {
            RunError::Raised(Box::new(Raised::Named(RowError {
                fault: Fault::DivisionByZero,
                expression: "a / b".into(),
            })))
        };
        let lost = || RunError::Defect("a defect".into());
        for (failure, subtree, step) in [
            (full(), subtree, LastStep::RunOnHost),
            (RunError::KeysFull, subtree, LastStep::RunOnHost),
            (RunError::KeysFull, sorting, LastStep::SortOnHost),
            (RunError::KeysFull, forced, LastStep::Fail),
            (full(), forced, LastStep::Fail),
            (full(), sorting, LastStep::SortOnHost),
            (full(), forced_sort, LastStep::SortOnHost),
            (unsupported(), sorting, LastStep::SortOnHost),
            (lost(), sorting, LastStep::RunOnHost),
            (raised(), subtree, LastStep::Fail),
            (raised(), sorting, LastStep::Fail),
            (raised(), doubted, LastStep::RunOnHost),
            (RunError::Cancelled, subtree, LastStep::Fail),
        ] {
            let shown = format!("{failure}, {subtree:?}");
            assert_eq!(LastStep::after(&Failure::Run(failure), subtree), step, "{shown}");
        }
        let input = Failure::Input(DataFusionError::Internal("a child".into()));
        assert_eq!(LastStep::after(&input, subtree), LastStep::Fail);
        let internal = || DataFusionError::Internal("full".into());
        let repeated = || Reason::RepeatedKey {
            expression: "a join".into(),
            rows: 2,
        };
        let full_store = || StoreError::StoreLimit {
            table: "t".into(),
            needed: 2,
            used: 0,
            limit: 1,
            knob: "galatea.memory.store_limit",
        };
        for failure in [
            Failure::Pool(internal()),
            Failure::BuildSide(None, repeated()),
            Failure::Store(full_store()),
        ] {
            assert_eq!(
                LastStep::after(&failure, sorting),
                LastStep::RunOnHost,
                "{failure}"
            );
            assert_eq!(
                LastStep::after(&failure, forced_sort),
                LastStep::Fail,
                "{failure}"
            );
        }
        let defect = Failure::Store(StoreError::Internal("a defect".into()));
        assert_eq!(LastStep::after(&defect, subtree), LastStep::Fail);
    }

    #[test]
    fn attempt_memory_shrinks_for_a_limited_number_of_tries() {
        let first = Shrinking::new(1 << 10, 4, 3).expect("a try");
        let all: Vec<u64> = std::iter::successors(Some(first), |attempt| attempt.next())
            .map(|attempt| attempt.bytes)
            .collect();
        assert_eq!(all, [1 << 10, 1 << 8, 1 << 6]);
        assert_eq!(Shrinking::new(1, 4, 0), None);
    }
}
