//! Runs a pipeline by the algorithms of its joins, and by another one after a failure.
//!
//! ```text
//! first_attempt     chooses: out of core if a build side is predicted to exceed device memory, else whole
//! run               runs the choice
//! in_parts_after    chooses again after a failure
//! ```
//!
//! `run_whole` (`executor.rs`) covers every algorithm that builds its sides before rows probe them.
//! `in_parts` (`parts.rs`) covers joins out of core.

use super::attempt::{Shrinking, repeat_async};
use super::error::Failure;
use super::executor::Executor;
use super::parts::{POLICY, Parts};
use super::pipeline_run::Output;
use crate::config::JoinAlgorithm;
use crate::device::RunError;
use crate::graph::{PipelineGraph, PipelineRef};
use crate::joins::costs::OUT_OF_CORE;
use crate::joins::out_of_core::PartitionedState;
use crate::report::RunReport;
use futures::FutureExt;
use futures::future::BoxFuture;

/// An attempt to run a pipeline.
#[derive(Debug, Clone, Copy)]
enum JoinAttempt {
    /// All rows at once. After a failed predicted attempt, it contains the memory of the next partitioned
    /// attempt.
    Whole(Option<Shrinking>),
    /// With its build sides or groups in partitions.
    InParts(Parts),
}

impl Executor<'_> {
    /// Runs a pipeline after the pipelines of its build sides. `keep`: its groups stay on the device. If
    /// memory is too small, its build sides or groups are computed one partition at a time.
    pub(super) fn run<'s>(
        &'s self,
        pipeline: PipelineRef<'s>,
        keep: bool,
    ) -> BoxFuture<'s, Result<(Output, RunReport), Failure>> {
        let run = move |attempt| {
            let outcome = async move {
                let outcome = match attempt {
                    JoinAttempt::Whole(_) => self.run_whole(pipeline, keep).await,
                    JoinAttempt::InParts(parts) => self.in_parts(pipeline, keep, parts).await,
                };
                let last = &pipeline.out_of_core;
                match (&outcome, attempt) {
                    (Ok(_), JoinAttempt::Whole(_)) => last.ran_whole(),
                    (Ok(_), JoinAttempt::InParts(parts)) => {
                        last.ran_in_parts(parts.memory.bytes, self.memory_limit());
                    }
                    (Err(_), _) => {}
                }
                outcome.map_err(|failure| (attempt, failure))
            };
            outcome.boxed()
        };
        let next = move |attempt, failure| self.in_parts_after(pipeline, attempt, failure);
        let outcome = repeat_async(self.first_attempt(pipeline), run, next);
        outcome
            .map(|outcome| outcome.map_err(|(_, failure)| failure))
            .boxed()
    }

    /// The first attempt, partitioned if a build side is predicted to exceed device memory, if the last run
    /// of the plan was partitioned, or by the setting; over all rows while pipelines have several readers.
    fn first_attempt(&self, pipeline: PipelineRef<'_>) -> JoinAttempt {
        let last = || {
            let bytes = pipeline.out_of_core.bytes(|| self.memory_limit())?;
            Shrinking::new(bytes, POLICY.less, POLICY.tries)
        };
        if !self.shared.is_empty() {
            return JoinAttempt::Whole(None);
        }
        let forced = match self.config.join_algorithm {
            JoinAlgorithm::Multipass | JoinAlgorithm::Triton => !PartitionedState::of(pipeline).is_empty(),
            JoinAlgorithm::Auto | JoinAlgorithm::Hash | JoinAlgorithm::Radix => false,
        };
        let memory = match forced || PartitionedState::are_predicted(pipeline) {
            true => self.first_parts(),
            false => last(),
        };
        memory.map_or(JoinAttempt::Whole(None), |memory| {
            JoinAttempt::InParts(Parts {
                memory,
                begun_again: 0,
                predicted: true,
            })
        })
    }

    /// Whether a pipeline of the graph would begin in partitions.
    pub(super) fn begins_in_parts(&self, graph: &PipelineGraph) -> bool {
        let is_parted = |pipeline| matches!(self.first_attempt(pipeline), JoinAttempt::InParts(_));
        graph.pipelines().any(is_parted)
    }

    /// The memory of the first partitioned attempt.
    fn first_parts(&self) -> Option<Shrinking> {
        Shrinking::new(
            self.memory_limit() / OUT_OF_CORE.memory,
            POLICY.less,
            POLICY.tries,
        )
    }

    /// The limit of device memory in bytes.
    pub(super) fn memory_limit(&self) -> u64 {
        let device = self.session.engine().device(self.config);
        device.map_or(0, |device| device.device().budget().limit())
    }

    /// The attempt after one that failed for lack of memory: in partitions, smaller than before. It fails if
    /// neither a join nor groups have keys, or once rows were read.
    fn in_parts_after(
        &self,
        pipeline: PipelineRef<'_>,
        attempt: JoinAttempt,
        failure: Failure,
    ) -> Result<JoinAttempt, (JoinAttempt, Failure)> {
        if !self.shared.is_empty() {
            // A partition restricts the pipelines below, which others read.
            return Err((attempt, failure));
        }
        let restart = || pipeline.id() != self.returns || self.result.restart_all();
        let next = match (attempt, &failure) {
            (JoinAttempt::Whole(memory), failure)
                if failure.wants_memory() && PartitionedState::is_in(pipeline) =>
            {
                let memory = memory.or_else(|| self.first_parts());
                memory.map(|memory| {
                    JoinAttempt::InParts(Parts {
                        memory,
                        begun_again: 0,
                        predicted: false,
                    })
                })
            }
            // The sink of all partitions holds the strings.
            (JoinAttempt::InParts(parts), Failure::Run(RunError::StringsFull)) => {
                let begun_again = parts.begun_again + 1;
                Some(JoinAttempt::InParts(Parts { begun_again, ..parts }))
            }
            // The prediction may be wrong, and a refusal may apply only to partitions.
            (JoinAttempt::InParts(parts), failure)
                if parts.predicted
                    && (failure.wants_memory()
                        || matches!(failure, Failure::Run(RunError::Unsupported(_)))) =>
            {
                Some(JoinAttempt::Whole(parts.memory.next()))
            }
            (JoinAttempt::InParts(parts), failure) if failure.wants_memory() => {
                let memory = parts.memory.next();
                // Smaller partitions of groups have fewer strings.
                memory.map(|memory| {
                    JoinAttempt::InParts(Parts {
                        memory,
                        begun_again: 0,
                        ..parts
                    })
                })
            }
            _ => None,
        };
        next.filter(|_| restart()).ok_or((attempt, failure))
    }
}
