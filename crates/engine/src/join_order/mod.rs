//! The order of inner and semi joins.
//!
//! DataFusion joins tables in the order in which a query names them, and only swaps the two sides of a join.
//! [`OrderJoins`] searches for a better order, before placement:
//!
//! ```text
//! region.rs       a tree of inner and semi joins as relations, classes of equal keys, and other conditions
//! selectivity.rs  the share of rows that a filter keeps, from the statistics of its columns
//! estimate.rs     rows of every set of joined relations
//! search.rs       the tree with the fewest rows between its joins
//! build.rs        that tree as a plan
//! reduce.rs       semi joins below aggregates with few groups that the region needs
//! ```
//!
//! EXPLAIN ANALYZE shows the same estimates beside the actual rows.
//!
//! The written order is kept if no other order is expected to be considerably cheaper, or if the number of
//! rows of a relation is unknown.

mod build;
mod estimate;
mod reduce;
mod region;
mod search;
mod selectivity;

pub(crate) use selectivity::distinct_values;

use crate::config::{GalateaConfig, JoinOrder};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::StatisticsContext;
use estimate::Estimates;
use galatea_base::policy::{Policy, policy};
use galatea_base::stack::growing;
use region::Region;
use std::sync::Arc;

policy! {
    /// Conditions for a change of the join order.
    struct JoinOrderPolicy {
        /// Maximum cost of another order as a share of the written order's cost.
        gain: f64 = 0.7,
        /// Relations up to which all trees are compared; beyond, the two sets with the smallest join are
        /// joined first, repeatedly.
        all_trees: usize = 12,
        /// Share of rows that a condition with unknown selectivity is assumed to keep.
        unknown: f64 = 0.2,
        /// The same for an equality.
        unknown_equality: f64 = 0.02,
        /// Maximum share of a table's rows that its filter keeps, for its keys to reduce groups.
        reduced: f64 = 0.2,
    }
}

/// The tuning policies of the module.
pub(crate) fn policies() -> Vec<Policy> {
    vec![JoinOrderPolicy::listed()]
}

/// The rule that orders inner and semi joins (`galatea.join.order`), and limits aggregates to the rows of
/// groups that joins need (`galatea.join.semijoin_reduction`).
#[derive(Debug)]
pub struct OrderJoins;

impl PhysicalOptimizerRule for OrderJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = GalateaConfig::of(options);
        let changes = Changes {
            order: config.join_order == JoinOrder::Auto,
            reduce: config.semijoin_reduction.0,
        };
        match changes.order || changes.reduce {
            true => changes.of(plan),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "galatea_order_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Expected rows that pass the filters and joins of a plan, below its aggregates and sorts; `None` if those
/// of a table are not known.
pub(crate) fn expected_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    estimate::passed_rows(plan, &StatisticsContext::new()).map(|rows| rows.round() as u64)
}

/// The changes to apply to the regions of a plan.
#[derive(Debug, Clone, Copy)]
struct Changes {
    order: bool,
    reduce: bool,
}

impl Changes {
    /// The plan with a better join order in each of its regions, if one exists, and groups below them
    /// reduced.
    fn of(self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        growing(|| self.of_level(plan))
    }

    fn of_level(self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(mut region) = Region::of(&plan) else {
            let plan = match self.reduce {
                true => reduce::reduce_semi_join(plan)?,
                false => plan,
            };
            let changed = plan.map_children(|child| {
                let within = self.of(Arc::clone(&child))?;
                let same = Arc::ptr_eq(&within, &child);
                Ok(Transformed::new_transformed(within, !same))
            })?;
            return Ok(changed.data);
        };
        // Two relations have only one order.
        let tree = match self.order && region.relations.len() > 2 {
            true => Estimates::of(&region).and_then(|known| search::better_tree(&region, &known)),
            false => None,
        };
        let mut same = !(self.reduce && reduce::reduce(&mut region)?);
        for relation in &mut region.relations {
            let within = self.of(Arc::clone(&relation.plan))?;
            same = same && Arc::ptr_eq(&within, &relation.plan);
            relation.plan = within;
        }
        match tree {
            None if same => Ok(plan),
            None => build::plan(&region, &region.written, &plan),
            Some(tree) => build::plan(&region, &tree, &plan),
        }
    }
}
