//! Equalities beside joins by IS NOT DISTINCT FROM, in which NULL equals NULL.
//!
//! A join has one meaning of NULL for all of its keys. Two rules of DataFusion disregard it:
//!
//! ```text
//! extract_equijoin_predicate  adds a.d = b.d of such a join's filter to its keys, so NULLs match.
//!                             Here: the join also requires that the new key is not NULL.
//! eliminate_cross_join        merges inner joins and the equalities above them. All of the merged joins get
//!                             the meaning of the upper one. Here: joins in which NULL equals NULL are hidden
//!                             from it, so that their filters remain above them.
//! ```

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, Join, LogicalPlan, UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::fmt;
use std::sync::Arc;

/// DataFusion's rule that turns equalities into keys.
#[derive(Debug)]
pub(super) struct EqualKeys {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

/// DataFusion's rule that merges inner joins.
#[derive(Debug)]
pub(super) struct MergeJoins {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl EqualKeys {
    pub(super) fn around(
        inner: &Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner })
    }
}

impl MergeJoins {
    pub(super) fn around(
        inner: &Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner })
    }
}

impl OptimizerRule for EqualKeys {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let keys = match &plan {
            LogicalPlan::Join(join) if matches_nulls(join) => join.on.len(),
            _ => return self.inner.rewrite(plan, config),
        };
        let changed = self.inner.rewrite(plan, config)?;
        changed.map_data(|plan| match plan {
            LogicalPlan::Join(join) => Ok(LogicalPlan::Join(without_nulls(join, keys)?)),
            plan => Ok(plan),
        })
    }
}

impl OptimizerRule for MergeJoins {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_merged(&plan)? {
            return self.inner.rewrite(plan, config);
        }
        let hidden = plan.transform_up_with_subqueries(|node| {
            Ok(match node {
                LogicalPlan::Join(join) if merges(&join) => Transformed::yes(hide(join)),
                node => Transformed::no(node),
            })
        })?;
        self.inner.rewrite(hidden.data, config)?.map_data(|plan| {
            let shown = plan.transform_up_with_subqueries(|node| Ok(show(node)))?;
            Ok(shown.data)
        })
    }
}

/// Whether NULL keys of a join match.
fn matches_nulls(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Whether DataFusion would merge the join with others.
fn merges(join: &Join) -> bool {
    matches_nulls(join) && join.join_type == JoinType::Inner
}

/// Whether a plan has such a join.
fn has_merged(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = matches!(node, LogicalPlan::Join(join) if merges(join));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The join, with the condition that its keys after the first `keys` are not NULL. The condition is one of
/// the side without preserved rows, so that it moves below the join.
fn without_nulls(mut join: Join, keys: usize) -> Result<Join> {
    for (left, right) in &join.on[keys.min(join.on.len())..] {
        let nullable = left.nullable(join.left.schema())? && right.nullable(join.right.schema())?;
        if !nullable {
            continue;
        }
        let key = match join.join_type {
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => left,
            _ => right,
        };
        let present = key.clone().is_not_null();
        join.filter = Some(match join.filter.take() {
            Some(filter) => filter.and(present),
            None => present,
        });
    }
    Ok(join)
}

fn hide(join: Join) -> LogicalPlan {
    LogicalPlan::Extension(Extension {
        node: Arc::new(HiddenJoin(join)),
    })
}

fn show(node: LogicalPlan) -> Transformed<LogicalPlan> {
    match &node {
        LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<HiddenJoin>() {
            Some(HiddenJoin(join)) => Transformed::yes(LogicalPlan::Join(join.clone())),
            None => Transformed::no(node),
        },
        _ => Transformed::no(node),
    }
}

/// A join that the rule does not recognise. It exists while the rule runs.
#[derive(PartialEq, Eq, Hash, PartialOrd)]
struct HiddenJoin(Join);

impl fmt::Debug for HiddenJoin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl UserDefinedLogicalNodeCore for HiddenJoin {
    fn name(&self) -> &str {
        "HiddenJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.0.left, &self.0.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.0.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("HiddenJoin")
    }

    fn with_exprs_and_inputs(&self, _expressions: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([left, right]) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return plan_err!("internal error: a join without two inputs (please report)");
        };
        let (left, right) = (Arc::new(left), Arc::new(right));
        Ok(Self(Join {
            left,
            right,
            ..self.0.clone()
        }))
    }
}
