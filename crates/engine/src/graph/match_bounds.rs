//! The bounds of a pipeline's columns that the keys of its build sides imply.

use super::{BuildSide, KeyBounds, Pipeline};
use datafusion::physical_expr::PhysicalExpr;
use galatea_codegen::PipelinePlan;
use galatea_expression::{Expr, ExprKind};
use std::ops::RangeInclusive;
use std::sync::Arc;

impl Pipeline {
    /// The bounds of columns that the pipeline looks up in build sides, if it drops rows without a match.
    /// `keys` returns the range of the keys of the build side with a number, or `None`.
    pub(crate) fn match_bounds(
        &self,
        plan: &PipelinePlan,
        keys: impl Fn(usize) -> Option<RangeInclusive<i128>>,
    ) -> Vec<KeyBounds> {
        let matched = self.matched_columns(plan).into_iter();
        matched
            .filter_map(|(number, column)| Some(KeyBounds::new(column, keys(number)?, None)))
            .collect()
    }

    /// The predicates that choose the row groups and pages to load, for rows within these bounds.
    pub(crate) fn pruning_by(&self, matches: &[KeyBounds]) -> Vec<Arc<dyn PhysicalExpr>> {
        let bounds = matches.iter().flat_map(|bounds| bounds.predicates(&self.schema));
        self.pruning.iter().cloned().chain(bounds).collect()
    }

    /// Build sides without which rows are dropped, by number, each with the column of the source
    /// that is looked up in it.
    pub(crate) fn matched_columns(&self, plan: &PipelinePlan) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for filter in &plan.filters {
            matched(filter, &mut found);
        }
        found.retain(|(number, column)| {
            let is_same = |side: &BuildSide| {
                let key = side.key.data_type(&side.plan.plan().schema());
                let is_known = side.build.is_none() || side.key_scan.is_some();
                is_known && key.is_ok_and(|key| key == *self.schema.field(*column).data_type())
            };
            self.build_sides.get(*number).is_some_and(is_same)
        });
        found
    }
}

/// The lookups of plain columns that a filter requires to have a match.
fn matched(filter: &Expr, found: &mut Vec<(usize, usize)>) {
    match filter.kind() {
        ExprKind::And(left, right) => {
            matched(left, found);
            matched(right, found);
        }
        ExprKind::Member { build_side, key } => {
            if let ExprKind::Column(column) = key.kind() {
                found.push((*build_side, *column));
            }
        }
        _ => {}
    }
}
