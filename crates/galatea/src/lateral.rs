//! LATERAL subqueries that compute values of the columns before them: `FROM t, LATERAL (SELECT a * 2 AS b)`,
//! and those that unnest them: `FROM t, UNNEST(t.l) AS x(v)`.
//!
//! DataFusion decorrelates LATERAL subqueries that filter and join tables. One without tables remains, and
//! has no physical plan. It has one row for each row of the left side, so it becomes a projection, above a
//! filter if it has a condition. If it unnests lists ([`unnest`]), its operators are put above the left side.
//! This rule runs before DataFusion's own.

mod unnest;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, Join, LogicalPlan, Projection, Subquery, SubqueryAlias,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Rewrites LATERAL subqueries without tables as projections.
#[derive(Debug)]
pub(crate) struct ComputeLateral;

/// The values of a subquery without tables.
struct Computed {
    /// The columns, with their names in the enclosing query.
    columns: Vec<Expr>,
    conditions: Vec<Expr>,
}

impl OptimizerRule for ComputeLateral {
    fn name(&self) -> &'static str {
        "galatea_compute_lateral"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        if let Some(unnested) = unnest::joined(join)? {
            return Ok(Transformed::yes(unnested));
        }
        if join.join_type != JoinType::Inner || !join.on.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let Some(computed) = computed(&join.right) else {
            return Ok(Transformed::no(plan));
        };
        Ok(Transformed::yes(projected(join, computed)?))
    }
}

/// The rows of the left side, with the columns that the right side computes from them.
fn projected(join: &Join, computed: Computed) -> Result<LogicalPlan> {
    let mut input = Arc::clone(&join.left);
    for condition in computed.conditions {
        input = Arc::new(LogicalPlan::Filter(Filter::try_new(condition, input)?));
    }
    let left = join.left.schema().columns().into_iter().map(Expr::Column);
    let columns = left.chain(computed.columns).collect();
    let mut plan = LogicalPlan::Projection(Projection::try_new(columns, input)?);
    if let Some(condition) = &join.filter {
        plan = LogicalPlan::Filter(Filter::try_new(condition.clone(), Arc::new(plan))?);
    }
    Ok(plan)
}

/// The values that the right side of a join computes, if it is a subquery of one row without tables.
fn computed(plan: &LogicalPlan) -> Option<Computed> {
    match plan {
        LogicalPlan::SubqueryAlias(SubqueryAlias {
            input, alias, schema, ..
        }) => {
            let mut computed = computed(input)?;
            for (column, (_, field)) in computed.columns.iter_mut().zip(schema.iter()) {
                let expression = column.clone().unalias();
                *column = expression.alias_qualified(Some(alias.clone()), field.name());
            }
            Some(computed)
        }
        LogicalPlan::Subquery(Subquery { subquery, .. }) => of_one_row(subquery),
        _ => None,
    }
}

/// The values that a plan computes only from outer columns.
fn of_one_row(plan: &LogicalPlan) -> Option<Computed> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut below = of_one_row(&projection.input)?;
            let schema = projection.input.schema();
            let names: Vec<Column> = schema.columns();
            let columns = projection.expr.iter().zip(projection.schema.iter());
            let columns = columns.map(|(expression, (relation, field))| {
                let expression = over(expression.clone().unalias(), &names, &below.columns)?;
                Some(expression.alias_qualified(relation.cloned(), field.name()))
            });
            below.columns = columns.collect::<Option<_>>()?;
            Some(below)
        }
        LogicalPlan::Filter(filter) => {
            let mut below = of_one_row(&filter.input)?;
            let names: Vec<Column> = filter.input.schema().columns();
            let condition = over(filter.predicate.clone(), &names, &below.columns)?;
            below.conditions.push(condition);
            Some(below)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let mut below = of_one_row(&alias.input)?;
            for (column, (_, field)) in below.columns.iter_mut().zip(alias.schema.iter()) {
                let expression = column.clone().unalias();
                *column = expression.alias_qualified(Some(alias.alias.clone()), field.name());
            }
            Some(below)
        }
        LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: true,
            ..
        }) => Some(Computed {
            columns: Vec::new(),
            conditions: Vec::new(),
        }),
        _ => None,
    }
}

/// Replaces the outer columns of an expression by columns, and the columns of the plan below by their
/// expressions. `None` if the expression contains more than these: subqueries, or volatile functions.
fn over(expression: Expr, names: &[Column], below: &[Expr]) -> Option<Expr> {
    if expression.is_volatile() {
        return None;
    }
    let mut foreign = false;
    let rewritten = expression.transform_down(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => {
                Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump)
            }
            Expr::Column(column) => match names.iter().position(|name| *name == column) {
                Some(at) => {
                    let expression = below[at].clone().unalias();
                    Transformed::new(expression, true, TreeNodeRecursion::Jump)
                }
                None => {
                    foreign = true;
                    Transformed::no(Expr::Column(column))
                }
            },
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
                foreign = true;
                Transformed::no(part)
            }
            part => Transformed::no(part),
        })
    });
    rewritten
        .ok()
        .map(|rewritten| rewritten.data)
        .filter(|_| !foreign)
}
