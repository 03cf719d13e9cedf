//! IN, NOT IN, EXISTS and scalar subqueries in the forms that DataFusion decorrelates correctly.
//!
//! DataFusion rewrites subqueries to semi, anti and mark joins. Its mark joins have two truth values, its
//! null-aware anti join has one key and no filter, and its rewrite of an aggregate without groups returns no
//! row where the aggregate returns one. So this rule, which runs first, keeps IN and NOT IN if a semi or anti
//! join is correct, and rewrites the others to EXISTS. With y the column of subquery Q:
//!
//! ```text
//! x IN (Q)    true      EXISTS (Q where y = x)
//!             unknown   EXISTS (Q where y IS NULL), or x IS NULL and EXISTS (Q)
//!             false     otherwise
//! ```
//!
//! In WHERE, unknown is equivalent to false, so most uses need one or two of the three. Correlated subqueries
//! that always return a row are rewritten by [`one_row`](super::one_row), conditions move above the operators
//! of their subquery by [`lifting`](super::lifting), and EXISTS as a value, outside WHERE, becomes a mark
//! join by [`marks`](super::marks).

use super::correlated_names;
use super::lifting;
use super::marks;
use super::one_row::{self, OneRow};
use super::outer_conditions;
use super::scalars;
use crate::checks::names_kept;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, merge_schema};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, FetchType, Filter, LogicalPlan, LogicalPlanBuilder, Operator, SkipType,
    Subquery, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule that rewrites subqueries.
#[derive(Debug, Default)]
pub(super) struct RewriteSubqueries;

impl OptimizerRule for RewriteSubqueries {
    fn name(&self) -> &'static str {
        "galatea_rewrite_subqueries"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut has_subqueries = false;
        plan.apply_expressions(|expr| {
            has_subqueries |= expr.exists(|part| Ok(is_subquery(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !has_subqueries {
            return Ok(Transformed::no(plan));
        }
        let prepared = names_kept(plan, |expr| expr.transform_up(|part| of_subquery(part, prepared)))?;
        prepared.transform_data(|plan| without_subqueries(plan, config.alias_generator()))
    }
}

/// The node with its subqueries in forms that DataFusion decorrelates correctly.
fn without_subqueries(plan: LogicalPlan, aliases: &Arc<AliasGenerator>) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    match plan {
        LogicalPlan::Filter(filter) => {
            refuse_far_columns(&filter.predicate, &schema)?;
            let place = Place::condition();
            let predicate = rewritten(filter.predicate, place, &schema)?;
            let predicate =
                predicate.transform_data(|expr| lifting::with_lifted(expr, aliases, Some(&filter.input)))?;
            let plan = predicate
                .map_data(|predicate| Ok(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))?;
            plan.transform_data(|plan| scalars::joined(plan, aliases))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let outer = plan.inputs().first().map(|input| (*input).clone());
            let plan = names_kept(plan, |expr| {
                refuse_far_columns(&expr, &schema)?;
                let expr = rewritten(expr, Place::value(), &schema)?;
                expr.transform_data(|expr| lifting::with_lifted(expr, aliases, outer.as_ref()))
            })?;
            let plan = plan.transform_data(|plan| scalars::joined(plan, aliases))?;
            plan.transform_data(|plan| marks::joined(plan, aliases))
        }
        plan => Ok(Transformed::no(plan)),
    }
}

/// A subquery in a form in which its correlated conditions can be pulled up.
pub(super) fn prepared(subquery: Subquery) -> Result<Transformed<Subquery>> {
    outer_conditions::above_joins(subquery)?.transform_data(correlated_names::separated)
}

/// An expression with its subquery rewritten, if it is one.
pub(super) fn of_subquery(
    expr: Expr,
    rewrite: impl FnOnce(Subquery) -> Result<Transformed<Subquery>>,
) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarSubquery(subquery) => rewrite(subquery)?.update_data(Expr::ScalarSubquery),
        Expr::Exists(Exists { subquery, negated }) => {
            rewrite(subquery)?.update_data(|subquery| Expr::Exists(Exists { subquery, negated }))
        }
        Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        }) => rewrite(subquery)?.update_data(|subquery| {
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            })
        }),
        expr => Transformed::no(expr),
    })
}

/// Refuses subqueries of an expression that read columns of a query further out than the one that uses them.
fn refuse_far_columns(expr: &Expr, schema: &DFSchema) -> Result<()> {
    expr.apply(|part| {
        if let Some(subquery) = subquery_of(part) {
            lifting::refuse_far_columns("subquery", &subquery.subquery, schema)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn is_subquery(expr: &Expr) -> bool {
    subquery_of(expr).is_some()
}

/// The subquery of an expression, if it is one.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::InSubquery(found) => Some(&found.subquery),
        Expr::Exists(found) => Some(&found.subquery),
        Expr::ScalarSubquery(found) => Some(found),
        _ => None,
    }
}

/// The context of a truth value in an expression.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The truth value that is equivalent to unknown there, if either is.
    unknown: Option<bool>,
    /// Whether a filter removes all rows unless it is true.
    is_conjunct: bool,
}

impl Place {
    fn condition() -> Self {
        Self {
            unknown: Some(false),
            is_conjunct: true,
        }
    }

    fn value() -> Self {
        Self {
            unknown: None,
            is_conjunct: false,
        }
    }

    fn inside(self) -> Self {
        Self {
            is_conjunct: false,
            ..self
        }
    }

    fn negated(self) -> Self {
        Self {
            unknown: self.unknown.map(|unknown| !unknown),
            is_conjunct: false,
        }
    }
}

/// The expression with its subqueries rewritten, over columns of that schema.
fn rewritten(expr: Expr, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::And | Operator::Or),
            right,
        }) => {
            let place = if op == Operator::And {
                place
            } else {
                place.inside()
            };
            let left = rewritten(*left, place, schema)?;
            let right = rewritten(*right, place, schema)?;
            let changed = left.transformed || right.transformed;
            let both = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            Ok(Transformed::new_transformed(Expr::BinaryExpr(both), changed))
        }
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(found) => {
                let negated = !found.negated;
                rewritten(Expr::InSubquery(InSubquery { negated, ..found }), place, schema)
            }
            inner => Ok(rewritten(inner, place.negated(), schema)?.update_data(|e| !e)),
        },
        Expr::InSubquery(found) => in_subquery(found, place, schema),
        Expr::Exists(found) => exists(found),
        Expr::ScalarSubquery(subquery) => one_row::scalar(subquery),
        expr => expr.map_children(|child| rewritten(child, Place::value(), schema)),
    }
}

/// `x IN (Q)` or `x NOT IN (Q)`.
fn in_subquery(found: InSubquery, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InSubquery {
        expr,
        subquery,
        negated,
    } = found;
    let x = rewritten(*expr, Place::value(), schema)?;
    let as_it_is = |x: Transformed<Expr>, subquery| {
        x.update_data(|x| {
            Expr::InSubquery(InSubquery {
                expr: Box::new(x),
                subquery,
                negated,
            })
        })
    };
    // If x is repeated, it must have the same value each time.
    let correlated_parts = x.data.exists(|part| {
        Ok(match part {
            Expr::ScalarSubquery(part) => !part.outer_ref_columns.is_empty(),
            part => is_subquery(part),
        })
    })?;
    if x.data.is_volatile() || correlated_parts {
        return Ok(as_it_is(x, subquery));
    }
    if let Some(row) = one_row::of(&subquery)? {
        let among = late_materialised(x.data, &subquery, row, place, negated, schema)?;
        return Ok(Transformed::yes(if negated { !among } else { among }));
    }
    let is_correlated = !subquery.outer_ref_columns.is_empty();
    let kept = match (place.unknown, negated) {
        (Some(false), false) => true,
        // The null-aware anti join has one key.
        (Some(false), true) => place.is_conjunct && !is_correlated && x.data.any_column_refs(),
        _ => false,
    };
    match kept {
        true if needs_own_name(&subquery) => {
            let subquery = one_row::with_own_name(&subquery)?;
            Ok(Transformed::yes(as_it_is(x, subquery).data))
        }
        true => Ok(as_it_is(x, subquery)),
        false => {
            let found = Membership::new(x.data, &subquery, schema)?;
            Ok(Transformed::yes(found.value(place.unknown, negated)?))
        }
    }
}

/// Whether DataFusion's joins may have the column of a subquery twice: if it has no table, or if it is beside
/// columns of correlated conditions, from which a cast distinguishes it.
fn needs_own_name(subquery: &Subquery) -> bool {
    let (table, field) = subquery.subquery.schema().qualified_field(0);
    field.name() != one_row::OWN_NAME && (table.is_none() || !subquery.outer_ref_columns.is_empty())
}

/// Membership in a subquery that always returns one row, and maybe others; not negated.
fn late_materialised(
    x: Expr,
    subquery: &Subquery,
    row: OneRow,
    place: Place,
    negated: bool,
    schema: &DFSchema,
) -> Result<Expr> {
    let equal = x.clone().eq(row.value()?);
    let among = match row.holds {
        None => equal,
        Some(holds) => when(holds, equal).otherwise(lit(false))?,
    };
    let Some(rest) = row.rest else {
        return Ok(among);
    };
    let place = if negated { place.negated() } else { place.inside() };
    let rest = InSubquery {
        expr: Box::new(x),
        subquery: lifting::replaced(subquery, rest),
        negated: false,
    };
    Ok(among.or(in_subquery(rest, place, schema)?.data))
}

/// The truth value of `x IN (Q)`, in terms of EXISTS.
struct Membership {
    is_found: Expr,
    /// Conditions; if any holds, the result is unknown unless it is true.
    unknown: Vec<Expr>,
}

impl Membership {
    fn new(x: Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Self> {
        let subquery = one_row::with_own_name(subquery)?;
        let of_subquery = subquery.subquery.schema();
        let y = Expr::Column(Column::from(of_subquery.qualified_field(0)));
        let outer = marks::as_outer_reference(x.clone(), schema)?;
        let is_found = exists_where(&subquery, Some(y.clone().eq(outer)))?;
        let mut unknown = Vec::new();
        if x.nullable(schema)? {
            unknown.push(x.is_null().and(exists_where(&subquery, None)?));
        }
        if of_subquery.field(0).is_nullable() {
            unknown.push(exists_where(&subquery, Some(y.is_null()))?);
        }
        Ok(Self { is_found, unknown })
    }

    fn value(self, unknown: Option<bool>, negated: bool) -> Result<Expr> {
        let is_unknown = self.unknown.into_iter().reduce(Expr::or);
        let is_found = self.is_found;
        Ok(match (unknown, is_unknown, negated) {
            // Unknown is false for IN, and true for the IN that NOT IN negates.
            (Some(false), _, false) | (Some(true) | None, None, false) => is_found,
            (Some(true), _, true) | (Some(false) | None, None, true) => !is_found,
            (Some(true), Some(is_unknown), false) => is_found.or(is_unknown),
            (Some(false), Some(is_unknown), true) => {
                let no = [!is_found]
                    .into_iter()
                    .chain(parts_of(is_unknown).into_iter().map(|part| !part));
                conjunction(no).unwrap_or_else(|| lit(true))
            }
            (None, Some(is_unknown), negated) => when(is_found, lit(!negated))
                .when(is_unknown, Expr::Literal(ScalarValue::Boolean(None), None))
                .otherwise(lit(negated))?,
        })
    }
}

/// The operands of a disjunction.
fn parts_of(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => [parts_of(*left), parts_of(*right)].concat(),
        expr => vec![expr],
    }
}

/// EXISTS over the rows of a subquery that satisfy a condition.
fn exists_where(subquery: &Subquery, condition: Option<Expr>) -> Result<Expr> {
    let mut plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    if let Some(condition) = condition {
        plan = plan.filter(condition)?;
    }
    let found = Exists {
        subquery: lifting::replaced(subquery, plan.build()?),
        negated: false,
    };
    Ok(exists(found)?.data)
}

/// EXISTS or NOT EXISTS.
fn exists(found: Exists) -> Result<Transformed<Expr>> {
    let Exists { subquery, negated } = found;
    let not = |expr: Expr| if negated { !expr } else { expr };
    let as_it_is = |subquery| Expr::Exists(Exists { subquery, negated });
    if subquery.outer_ref_columns.is_empty() {
        // One row is enough: the join with all rows would test each pair.
        if subquery.subquery.max_rows().is_some_and(|most| most <= 1) {
            return Ok(Transformed::no(as_it_is(subquery)));
        }
        let first = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).limit(0, Some(1))?;
        return Ok(Transformed::yes(as_it_is(lifting::replaced(
            &subquery,
            first.build()?,
        ))));
    }
    if let Some(row) = one_row::of(&subquery)? {
        let Some(holds) = row.holds else {
            return Ok(Transformed::yes(lit(!negated)));
        };
        let holds = holds.is_true();
        let any = match row.rest {
            None => holds,
            Some(rest) => {
                let subquery = lifting::replaced(&subquery, rest);
                let negated = false;
                holds.or(Expr::Exists(Exists { subquery, negated }))
            }
        };
        return Ok(Transformed::yes(not(any)));
    }
    if let Some((rows, skipped, fetched)) = limited(&subquery.subquery)? {
        let any = match (fetched, skipped) {
            (Some(0), _) => lit(false),
            (_, 0) => Expr::Exists(Exists {
                subquery: lifting::replaced(&subquery, rows),
                negated: false,
            }),
            _ => one_row::count(rows, &subquery)?.gt(lit(skipped)),
        };
        return Ok(Transformed::yes(not(any)));
    }
    Ok(Transformed::no(as_it_is(subquery)))
}

/// The rows below a LIMIT that is only below projections and sorts, and its numbers of rows to skip and to
/// fetch.
fn limited(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, i64, Option<i64>)>> {
    let limit = match plan {
        LogicalPlan::Projection(projection) => return limited(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => return limited(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => return limited(&sort.input),
        LogicalPlan::Limit(limit) => limit,
        _ => return Ok(None),
    };
    let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
        (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return not_impl_err!(
            "EXISTS over rows whose number is an expression: LIMIT and OFFSET must be constants"
        );
    };
    let number = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
    Ok(Some((
        limit.input.as_ref().clone(),
        number(skip),
        fetch.map(number),
    )))
}
