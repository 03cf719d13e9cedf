//! Semi-join reduction below an aggregate: groups that no row of a join needs are not computed.
//!
//! A correlated subquery becomes an aggregate over a whole table, and a join keeps only the groups of its
//! other rows. If one of the other relations is a table with a selective filter, and its key is equal to one
//! that the aggregate groups by, rows with other keys need no group:
//!
//! ```text
//! join on p_partkey = l_partkey                     join on p_partkey = l_partkey
//!   part, filtered                                    part, filtered
//!   lineitem                                          lineitem
//!   groups by l_partkey                               groups by l_partkey
//!     lineitem                                          semi join on l_partkey = p_partkey
//!                                                         lineitem
//!                                                         part, filtered
//! ```
//!
//! (Bernstein and Chiu, Using semi-joins to solve relational queries, JACM 1981; magic sets for the simplest
//! of rules.) A group has all of its rows, or none, so its aggregates are the same.

use super::JoinOrderPolicy;
use super::estimate::{filtered_rows, passed_rows, table_rows};
use super::region::{Key, Region};
use crate::graph::renewed_host;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use galatea_store::StoreScanExec;
use std::sync::Arc;

/// A filtered table, and its key.
struct Reducer<'r> {
    plan: &'r Arc<dyn ExecutionPlan>,
    key: usize,
    /// Rows of the table before its filter.
    table_rows: f64,
}

/// Inserts semi joins below aggregates among the relations; returns whether it inserted any.
pub(super) fn reduce(region: &mut Region) -> Result<bool> {
    let context = StatisticsContext::new();
    let mut reduced = Vec::new();
    for (number, relation) in region.relations.iter().enumerate() {
        for key in keys_of(region, number) {
            let Some(column) = key.expression.downcast_ref::<Column>() else {
                continue;
            };
            if !is_group_key(&relation.plan, column.index()) {
                continue;
            }
            let reducer = equals(region, key)
                .filter(|other| other.relation != number)
                .find_map(|other| Reducer::of(region, other, &context));
            if let Some(reducer) = reducer
                && let Some(plan) = reducer.below(&relation.plan, column.index(), &context)?
            {
                reduced.push((number, plan));
                break;
            }
        }
    }
    let any = !reduced.is_empty();
    for (number, plan) in reduced {
        region.relations[number].plan = plan;
    }
    Ok(any)
}

/// The same below the right side of a semi join that is in no region, because it also tests a condition.
pub(super) fn reduce_semi_join(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let join = plan.downcast_ref::<HashJoinExec>();
    let region = join.and_then(|join| Some((join, Region::of_conditional_semi_join(join)?)));
    let Some((join, mut region)) = region else {
        return Ok(plan);
    };
    if !reduce(&mut region)? {
        return Ok(plan);
    }
    let right = region.relations.pop().map(|relation| relation.plan);
    let children = [Some(Arc::clone(join.left())), right];
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(&plan).replace_children(children.into_iter().flatten().collect(), changed)
}

/// The keys of a relation.
fn keys_of(region: &Region, relation: usize) -> impl Iterator<Item = &Key> {
    let keys = region.classes.iter().flatten();
    keys.filter(move |key| key.relation == relation)
}

/// Keys that are equal to `key` in every joined row: those of its classes, and of classes that share a key
/// with them.
fn equals<'r>(region: &'r Region, key: &'r Key) -> impl Iterator<Item = &'r Key> {
    let near = region.classes.iter().filter(|class| class.contains(key));
    near.flatten().flat_map(|equal| {
        let classes = region.classes.iter().filter(move |class| class.contains(equal));
        classes.flatten()
    })
}

impl<'r> Reducer<'r> {
    /// The relation of a key, if it is a table with a selective filter.
    fn of(region: &'r Region, key: &Key, context: &StatisticsContext) -> Option<Self> {
        let plan = &region.relations[key.relation].plan;
        let key = key.expression.downcast_ref::<Column>()?.index();
        if !is_filtered_table(plan, false) {
            return None;
        }
        let (rows, table_rows) = (filtered_rows(plan, context)?, table_rows(plan, context)?);
        (rows <= JoinOrderPolicy::DEFAULT.reduced * table_rows).then_some(Self {
            plan,
            key,
            table_rows,
        })
    }

    /// The plan with a semi join below its lowest aggregate, if the column is one of its grouping keys;
    /// `None` if it has no such aggregate, or the aggregate has too few rows.
    fn below(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        column: usize,
        context: &StatisticsContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let children = plan.children();
        let [input] = children.as_slice() else {
            return Ok(None);
        };
        let Some(column) = column_below(plan, column) else {
            return Ok(None);
        };
        let lowest = plan
            .downcast_ref::<AggregateExec>()
            .is_some_and(|aggregate| is_first(*aggregate.mode()));
        let new = match lowest {
            true => self.semi_join(input, column, context)?,
            false => self.below(input, column, context)?,
        };
        let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        new.map(|new| Arc::clone(plan).replace_children(vec![new], changed))
            .transpose()
    }

    /// The rows of a plan with a column value among the keys.
    fn semi_join(
        &self,
        rows: &Arc<dyn ExecutionPlan>,
        column: usize,
        context: &StatisticsContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let enough = passed_rows(rows, context).is_some_and(|rows| rows >= self.table_rows);
        let (schema, own) = (rows.schema(), self.plan.schema());
        let (field, key) = (schema.field(column), own.field(self.key));
        // Rows of one group must be equal for a join, too: zeros of both signs are not in every case.
        let kind = field.data_type();
        let exact = !kind.is_floating() && !kind.is_nested();
        if !enough || !exact || kind != key.data_type() {
            return Ok(None);
        }
        let only = ProjectionExpr {
            expr: Arc::new(Column::new(key.name(), self.key)),
            alias: key.name().clone(),
        };
        let keys = ProjectionExec::try_new(vec![only], renewed_host(self.plan)?)?;
        let on: (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>) = (
            Arc::new(Column::new(field.name(), column)),
            Arc::new(Column::new(key.name(), 0)),
        );
        let join = HashJoinExecBuilder::new(Arc::clone(rows), Arc::new(keys), vec![on], JoinType::LeftSemi)
            .with_partition_mode(PartitionMode::Auto)
            .with_null_equality(NullEquality::NullEqualsNothing);
        Ok(Some(join.build_exec()?))
    }
}

/// Whether a plan is a filtered table that returns the same rows when it is read again; `filtered`: a filter
/// is above it.
fn is_filtered_table(plan: &Arc<dyn ExecutionPlan>, filtered: bool) -> bool {
    if plan.fetch().is_some() || plan.boundedness().is_unbounded() {
        return false;
    }
    if plan.is::<DataSourceExec>() || plan.is::<StoreScanExec>() {
        return filtered;
    }
    let filter = plan.downcast_ref::<FilterExec>();
    let passes = match filter {
        Some(filter) => !is_volatile(filter.predicate()),
        None => (plan.downcast_ref::<ProjectionExec>())
            .is_some_and(|projection| !projection.expr().iter().any(|column| is_volatile(&column.expr))),
    };
    let filtered = filtered || filter.is_some();
    passes && (plan.children().into_iter()).all(|child| is_filtered_table(child, filtered))
}

/// The input column that a node's column is equal to, if it passes it unchanged, and if a row of the input
/// affects no output row with another value in that column.
fn column_below(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<usize> {
    let index = |expression: &Arc<dyn PhysicalExpr>| Some(expression.downcast_ref::<Column>()?.index());
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return index(&projection.expr().get(column)?.expr);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return match filter.projection() {
            Some(kept) => kept.get(column).copied(),
            None => Some(column),
        };
    }
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let groups = aggregate.group_expr();
    let plain = groups.is_single() && aggregate.limit_options().is_none();
    index(&groups.expr().get(column).filter(|_| plain)?.0)
}

/// Whether a column is a grouping key of an aggregate below, so that [`Reducer::below`] can reduce it.
fn is_group_key(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    let children = plan.children();
    let ([input], Some(below)) = (children.as_slice(), column_below(plan, column)) else {
        return false;
    };
    let lowest = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| is_first(*aggregate.mode()));
    lowest || is_group_key(input, below)
}

/// Whether an aggregate reads rows rather than partial states.
fn is_first(mode: AggregateMode) -> bool {
    matches!(
        mode,
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    )
}
