//! Correlated conditions move above the operators of their subquery.
//!
//! DataFusion makes a join of a correlated subquery: it removes the conditions that read columns of the outer
//! query from the filters inside, and makes them the condition of the join. So the operators above such a
//! filter see the rows of all outer rows at once. DataFusion adapts only aggregates to this. Here, before its
//! rules, each operator is adapted or the query is refused, and the conditions are put above all of them. If
//! a condition is an equality with a column or expression k of the subquery's rows, the rows of one outer row
//! have the same k:
//!
//! ```text
//! window                     PARTITION BY ..., k
//! GROUP BY, grouping sets    each with k
//! DISTINCT, DISTINCT ON      of the columns and k
//! LIMIT n OFFSET m           row_number() OVER (PARTITION BY k ORDER BY ...) between m + 1 and m + n
//! UNION ALL                  the same k in each input
//! outer, semi, anti join     conditions of the side that it keeps, or the same k on both sides
//! aggregate without GROUP BY has a row for no rows: on top `one_row`, `laterals`; else `groups`
//! ```
//!
//! Other conditions are moved above an operator only if they have the same value for all rows that it reads
//! together. If they have not, they are evaluated inside the subquery over the values of the outer rows
//! ([`domain`]). Columns that conditions need get names of their own on the way.

mod condition;
mod domain;
mod groups;
mod joins;
mod lifted;
mod limits;
mod nodes;
mod settle;
mod unions;

use condition::Condition;
pub(super) use condition::outside;
pub(super) use groups::Groups;
pub(super) use lifted::{Lifted, Lifting};
pub(super) use settle::sets_of;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An expression over rows of `outer`, with the conditions of its correlated subqueries on top.
pub(super) fn with_lifted(
    expr: Expr,
    aliases: &AliasGenerator,
    outer: Option<&LogicalPlan>,
) -> Result<Transformed<Expr>> {
    let lifted = |subquery: &Subquery| -> Result<Option<Subquery>> {
        if subquery.outer_ref_columns.is_empty() {
            return Ok(None);
        }
        let plan = lifted(&subquery.subquery, aliases, outer)?;
        Ok(plan.map(|plan| replaced(subquery, plan)))
    };
    expr.transform_down(|part| {
        Ok(match part {
            Expr::Exists(exists) => match lifted(&exists.subquery)? {
                Some(subquery) => Transformed::yes(Expr::Exists(Exists { subquery, ..exists })),
                None => Transformed::no(Expr::Exists(exists)),
            },
            Expr::InSubquery(found) => {
                let subquery = match lifted(&found.subquery)? {
                    Some(subquery) => Some(with_own_name(subquery, aliases)?),
                    None => None,
                };
                match subquery {
                    Some(subquery) => Transformed::yes(Expr::InSubquery(InSubquery { subquery, ..found })),
                    None => Transformed::no(Expr::InSubquery(found)),
                }
            }
            Expr::ScalarSubquery(found) => {
                let total = match found.outer_ref_columns.is_empty() {
                    true => None,
                    false => below_total(&found.subquery, aliases, outer)?.flatten(),
                };
                match total {
                    Some(plan) => Transformed::yes(Expr::ScalarSubquery(replaced(&found, plan))),
                    None => Transformed::no(Expr::ScalarSubquery(found)),
                }
            }
            part => Transformed::no(part),
        })
    })
}

/// Refuses a subquery that reads columns of another query than the one around it, which has this schema.
/// `kind` names the subquery.
pub(super) fn refuse_far_columns(kind: &str, subquery: &LogicalPlan, schema: &DFSchema) -> Result<()> {
    match outer_columns_of(subquery)?
        .iter()
        .find(|column| !schema.has_column(column))
    {
        None => Ok(()),
        Some(column) => not_impl_err!(
            "a {kind} that reads {column} of a query two levels around it\nhint: join its tables in the subquery \
             around it instead"
        ),
    }
}

/// The columns that a subquery reads of the query around it. Those of LATERAL subqueries inside are of the
/// subquery itself.
pub(super) fn outer_columns_of(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expr| {
            columns.extend(domain::outer_columns(expr)?);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(columns)
}

/// A plan as a subquery in the place of another one.
pub(super) fn replaced(before: &Subquery, plan: LogicalPlan) -> Subquery {
    Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: before.spans.clone(),
    }
}

/// The subquery with another name for its column. DataFusion's mark joins have a column twice if its name has
/// no table.
fn with_own_name(subquery: Subquery, aliases: &AliasGenerator) -> Result<Subquery> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let name = aliases.next("__galatea_key");
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).project([column.alias(name)])?;
    Ok(replaced(&subquery, plan.build()?))
}

/// The plan of EXISTS or IN with its conditions on top; `None` if DataFusion joins it correctly as it is.
fn lifted(
    plan: &LogicalPlan,
    aliases: &AliasGenerator,
    outer: Option<&LogicalPlan>,
) -> Result<Option<LogicalPlan>> {
    if let Some(plan) = below_total(plan, aliases, outer)? {
        return Ok(plan);
    }
    let mut lifting = Lifting::new(aliases, outer);
    let lifted = lifting.lift(plan.clone(), false)?;
    if !lifting.is_needed() {
        return Ok(None);
    }
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let plan = LogicalPlanBuilder::from(filtered(lifted)?).project(columns)?;
    plan.build().map(Some)
}

fn filtered(lifted: Lifted) -> Result<LogicalPlan> {
    let Lifted { plan, conditions } = lifted;
    let condition = conjunction(conditions.into_iter().map(Condition::expr));
    Ok(match condition {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?),
        None => plan,
    })
}

/// Whether a plan returns a row for no rows.
pub(super) fn returns_total(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => is_total(aggregate),
        plan => above_total(plan).is_some_and(returns_total),
    }
}

/// The same for a plan that returns one row for no rows; its conditions remain below the aggregate. `None` if
/// the plan is another one.
fn below_total(
    plan: &LogicalPlan,
    aliases: &AliasGenerator,
    outer: Option<&LogicalPlan>,
) -> Result<Option<Option<LogicalPlan>>> {
    if let LogicalPlan::Aggregate(aggregate) = plan
        && is_total(aggregate)
    {
        let mut lifting = Lifting::new(aliases, outer);
        let mut lifted = lifting.lift(aggregate.input.as_ref().clone(), true)?;
        if lifting.is_impossible() {
            return Ok(Some(None));
        }
        let mut expressions = plan.expressions();
        let mut read = BTreeSet::new();
        for expression in &expressions {
            read.extend(domain::outer_columns(expression)?);
        }
        // DataFusion groups by the columns of equalities.
        if !read.is_empty() || lifted.inequality().is_some() {
            lifted = match lifting.over_domain(lifted, read)? {
                Ok((lifted, inside)) => {
                    expressions = domain::all_inside(expressions, &inside)?;
                    lifted
                }
                Err(lifted) => match lifted.inequality() {
                    Some(inequality) => return Err(settle::refused("an aggregate", inequality)),
                    None => lifted,
                },
            };
        }
        if !lifting.is_needed() && !lifted.has_computed_keys() && !lifted.has_null_safe_keys() {
            return Ok(Some(None));
        }
        let input = filtered(lifting.with_key_columns(lifted)?)?;
        return Ok(Some(Some(plan.with_new_exprs(expressions, vec![input])?)));
    }
    let Some(input) = above_total(plan) else {
        return Ok(None);
    };
    let Some(below) = below_total(input, aliases, outer)? else {
        return Ok(None);
    };
    let plan = below.map(|below| plan.with_new_exprs(plan.expressions(), vec![below]));
    Ok(Some(plan.transpose()?))
}

/// The input of an operator that may be above an aggregate of one row.
pub(super) fn above_total(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    Some(match plan {
        LogicalPlan::Projection(projection) => &projection.input,
        LogicalPlan::Filter(filter) => &filter.input,
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
        LogicalPlan::Distinct(distinct) => distinct.input(),
        LogicalPlan::Limit(limit) => &limit.input,
        _ => return None,
    })
}

/// Whether an aggregate has a row for no rows.
fn is_total(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(sets)] => sets_of(sets).iter().any(Vec::is_empty),
        _ => false,
    }
}
