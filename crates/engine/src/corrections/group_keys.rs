//! The columns of an aggregate depend on all of its group keys.
//!
//! DataFusion derives from a key `k` of an aggregate's input, such as that of `SELECT DISTINCT k`, that `k`
//! determines all columns of the aggregate, although it groups by other columns too. Rules then drop these
//! columns from GROUP BY, DISTINCT and joins. Around such rules, an aggregate has the dependency on all of
//! its keys alone.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rules that read dependencies.
pub(super) const READERS: [&str; 3] = [
    "eliminate_join",
    "replace_distinct_aggregate",
    "optimize_projections",
];

/// A rule over plans with correct dependencies.
#[derive(Debug)]
pub(super) struct AllKeys(Arc<dyn OptimizerRule + Send + Sync>);

impl AllKeys {
    pub(super) fn around(
        inner: &Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        Arc::new(Self(Arc::clone(inner)))
    }
}

impl OptimizerRule for AllKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = match corrected(&plan)? {
            Some(corrected) => corrected,
            None => plan,
        };
        self.0.rewrite(plan, config)
    }
}

/// The plan with correct dependencies; `None` if it has them.
fn corrected(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let inputs = plan.inputs();
    let changed = inputs
        .iter()
        .map(|input| corrected(input))
        .collect::<Result<Vec<_>>>()?;
    let rebuilt = match changed.iter().any(Option::is_some) {
        true => {
            let inputs = changed.into_iter().zip(inputs);
            let inputs = inputs.map(|(changed, input)| changed.unwrap_or_else(|| input.clone()));
            Some(plan.with_new_exprs(plan.expressions(), inputs.collect())?)
        }
        false => None,
    };
    let LogicalPlan::Aggregate(aggregate) = rebuilt.as_ref().unwrap_or(plan) else {
        return Ok(rebuilt);
    };
    let keys = aggregate.group_expr_len()?;
    let deps = aggregate.schema.functional_dependencies();
    let is_correct = deps
        .iter()
        .all(|dependency| dependency.source_indices.len() >= keys);
    if is_correct {
        return Ok(rebuilt);
    }
    let columns = aggregate.schema.fields().len();
    let all = FunctionalDependence::new((0..keys).collect(), (0..columns).collect(), false);
    let all = FunctionalDependencies::new(vec![all.with_mode(Dependency::Single)]);
    let schema = aggregate
        .schema
        .as_ref()
        .clone()
        .with_functional_dependencies(all)?;
    // The constructors derive the dependencies again.
    let mut aggregate = aggregate.clone();
    aggregate.schema = Arc::new(schema);
    Ok(Some(LogicalPlan::Aggregate(aggregate)))
}
