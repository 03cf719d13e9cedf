//! The shapes of the results of pipelines: all that the kernels of their readers depend on.

use crate::graph::PipelineId;
use crate::joins::build_table::SideRows;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::build_plan::{ProbePlan, pairs_side};
use galatea_codegen::kept_groups;
use galatea_codegen::sink::hash::slots_for;
use galatea_codegen::strategy::Strategy;
use galatea_expression::{BuiltColumn, LookupSide};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that a pipeline is expected to leave on the device if there is no estimate.
const EXPECTED: u64 = 1 << 16;

/// Pipelines are bound to this multiple of an estimate of their rows.
const MARGIN: u64 = 4;

/// The shape of a build side: kernels that look it up depend on nothing else of it.
#[derive(Clone)]
pub(super) struct Shape {
    pub(super) side: Arc<LookupSide>,
    /// The columns of a multimap join, if it is a part of one.
    join: Option<JoinShape>,
    /// The rows of pipelines that scan it.
    pub(super) rows: Entries,
}

/// The number of rows of a pipeline's result, from its bound pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    /// At most this number, which is usually reached: possible groups, or slots for all of them.
    Reached(u64),
    /// Slots of a hash table that grows with its groups.
    Growing {
        /// Slots at the beginning.
        least: u64,
        /// Sufficient slots for the groups of all rows.
        most: u64,
    },
    /// Some of this number of rows.
    Among(u64),
    /// Matches of this number of rows.
    Matches(u64),
}

impl Entries {
    /// The entries of a bound pipeline's result. `least_slots`: slots of a growing hash table at the
    /// beginning.
    fn of(bound: &BoundPipeline, least_slots: u64) -> Self {
        match (&bound.strategy, &bound.result) {
            (Strategy::Scalar, _) => Self::Reached(1),
            (Strategy::Shared(layout), _) => Self::Reached(layout.groups),
            (Strategy::Dense(layout), _) => Self::Reached(layout.groups),
            (Strategy::Hash { overflows, .. }, ResultPlan::Aggregate { key: Some(key), .. }) => {
                let most = slots_for(key.groups_among(bound.rows));
                match overflows {
                    true => Self::Growing {
                        least: least_slots,
                        most,
                    },
                    false => Self::Reached(most),
                }
            }
            (_, ResultPlan::Probe(_) | ResultPlan::Mark(_)) => Self::Matches(bound.rows),
            _ => Self::Among(bound.rows),
        }
    }

    /// The expected number, given an estimate of the rows without free slots.
    pub(super) fn expected(self, estimate: Option<u64>) -> u64 {
        let estimate = estimate.unwrap_or(EXPECTED).saturating_mul(MARGIN);
        match self {
            Self::Reached(rows) => rows,
            Self::Growing { least, most } => slots_for(estimate).max(least).min(most),
            Self::Among(rows) => estimate.min(rows),
            Self::Matches(rows) => estimate.max(rows),
        }
    }
}

/// The columns of a part of a multimap join.
#[derive(Clone)]
enum JoinShape {
    /// A multimap that provides these columns.
    Multimap(Vec<BuiltColumn>),
    /// Matches of the probe side with a multimap that provides these columns.
    Pairs(ProbePlan, Vec<BuiltColumn>),
}

impl From<Arc<LookupSide>> for Shape {
    fn from(side: Arc<LookupSide>) -> Self {
        Self {
            rows: Entries::Among(side.rows()),
            side,
            join: None,
        }
    }
}

impl Shape {
    /// The shape of a pipeline's result, if binding alone determines it. `sides` are the shapes of its build
    /// sides.
    pub(super) fn of(bound: &BoundPipeline, sides: &[Self], least_slots: u64) -> Option<Self> {
        let (side, join) = match &bound.result {
            ResultPlan::Build(plan) => (plan.build_side(), None),
            ResultPlan::BuildGroups(plan) => (plan.build_side(), None),
            ResultPlan::Aggregate { .. } => (kept_groups::entries(bound).ok()?, None),
            ResultPlan::Windows(plan) => (plan.build_side(), None),
            ResultPlan::Store(plan) => (plan.build_side(), None),
            ResultPlan::Multimap(plan) => {
                (plan.build_side(), Some(JoinShape::Multimap(plan.columns.clone())))
            }
            ResultPlan::Probe(probe) => match &sides.get(probe.build_side)?.join {
                Some(JoinShape::Multimap(columns)) => {
                    let pairs = JoinShape::Pairs(probe.clone(), columns.clone());
                    (pairs_side(probe, columns, None), Some(pairs))
                }
                _ => return None,
            },
            ResultPlan::Mark(mark) => match &sides.get(mark.build_side)?.join {
                Some(JoinShape::Pairs(probe, columns)) => {
                    (pairs_side(probe, columns, Some(mark.marking)), None)
                }
                _ => return None,
            },
            ResultPlan::Rows(_) | ResultPlan::Partition(_) => return None,
        };
        Some(Self {
            side: Arc::new(side),
            join,
            rows: Entries::of(bound, least_slots),
        })
    }
}

/// The kernels of a graph during a run.
#[derive(Default)]
pub(crate) struct GraphKernels(Mutex<KernelState>);

#[derive(Default)]
struct KernelState {
    /// Whether the kernels of the graph have been compiled ahead in this run.
    ahead: bool,
    /// Whether the kernel of a pipeline was not in memory.
    missed: bool,
    /// The shapes of the pipelines that have run.
    shapes: BTreeMap<PipelineId, Shape>,
}

impl GraphKernels {
    /// Called when the kernels of the graph are compiled ahead.
    pub(super) fn are_ahead(&self) {
        self.0.lock().ahead = true;
    }

    /// Records that a pipeline has left a build side. `compiled`: whether its kernel was not in memory.
    pub(super) fn ran(&self, pipeline: PipelineId, rows: &SideRows, compiled: bool) {
        let mut state = self.0.lock();
        if state.ahead {
            return;
        }
        state.missed |= compiled;
        // Other pipelines depend on more than the columns of matches.
        if !rows.is_joined() {
            let shape = Shape {
                side: rows.build_side(),
                join: None,
                rows: Entries::Reached(rows.rows()),
            };
            state.shapes.insert(pipeline, shape);
        }
    }

    /// Whether kernels are missing that have not been compiled ahead. Returns true once.
    pub(super) fn are_missing(&self) -> bool {
        let mut state = self.0.lock();
        let missing = state.missed && !state.ahead;
        state.ahead |= missing;
        missing
    }

    /// The shape of a pipeline that has run.
    pub(super) fn shape(&self, pipeline: PipelineId) -> Option<Shape> {
        self.0.lock().shapes.get(&pipeline).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_have_a_margin_within_bounds() {
        let (few, many) = (Some(100), Some(u64::MAX));
        assert_eq!(Entries::Reached(7).expected(many), 7);
        let growing = Entries::Growing {
            least: 1024,
            most: 1 << 20,
        };
        assert_eq!(growing.expected(few), 1024);
        assert_eq!(growing.expected(Some(1000)), 8192);
        assert_eq!(growing.expected(many), 1 << 20);
        assert_eq!(growing.expected(None), 1 << 19);
        assert_eq!(Entries::Among(1000).expected(few), 400);
        assert_eq!(Entries::Among(1000).expected(many), 1000);
        assert_eq!(Entries::Matches(1000).expected(few), 1000);
        assert_eq!(Entries::Matches(1000).expected(Some(5000)), 20_000);
    }
}
