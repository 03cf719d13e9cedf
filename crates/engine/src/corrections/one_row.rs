//! Correlated subqueries over an aggregate that returns a row for an empty input, and without FROM.
//!
//! An aggregate without GROUP BY, or with an empty grouping set, returns one row more than its input has
//! groups: the total, even over no rows. A join with an aggregate that is grouped by the correlated columns
//! lacks it for outer rows without a match. Here scalar subqueries compute that row, one for each aggregate
//! call. DataFusion computes their results over no rows:
//!
//! ```text
//! SELECT e(count(*), sum(y)) FROM ... HAVING h(count(*))
//!     condition of the row   h((SELECT count(*) FROM ...))
//!     value of the row       e((SELECT count(*) FROM ...), (SELECT sum(y) FROM ...))
//! ```
//!
//! The other grouping sets, which return rows only for existing groups, are the rest: a subquery of their
//! own.

use super::lifting::{replaced, sets_of};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, GroupingSet};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, Subquery, lit,
    when,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

/// The row of an aggregate over all rows, in terms of the outer query.
pub(super) struct OneRow {
    /// Its columns; `None` for a column that cannot be expressed in these terms.
    columns: Vec<Option<Expr>>,
    /// The condition under which the subquery returns it; `None`: always.
    pub(super) holds: Option<Expr>,
    /// The subquery's other rows.
    pub(super) rest: Option<LogicalPlan>,
    /// Whether DataFusion cannot join the row: it is below HAVING, LIMIT, OFFSET or an alias, has constants
    /// or outer columns beside the aggregates, or has no table.
    is_filtered: bool,
}

impl OneRow {
    /// The value of its first column.
    pub(super) fn value(&self) -> Result<Expr> {
        match self.columns.first() {
            Some(Some(value)) => Ok(value.clone()),
            _ => not_impl_err!("a correlated subquery that returns grouping() of its total row"),
        }
    }
}

/// The row that a correlated subquery always returns, if it does.
pub(super) fn of(subquery: &Subquery) -> Result<Option<OneRow>> {
    match subquery.outer_ref_columns.is_empty() {
        true => Ok(None),
        false => row(&subquery.subquery),
    }
}

/// A scalar subquery; it becomes a CASE if HAVING, LIMIT or OFFSET may remove its row, and an expression
/// without tables.
pub(super) fn scalar(found: Subquery) -> Result<Transformed<Expr>> {
    match of(&found)? {
        Some(row) if row.is_filtered && row.rest.is_none() => {
            let value = row.value()?;
            Ok(Transformed::yes(match row.holds {
                None => value,
                Some(holds) => when(holds, value).end()?,
            }))
        }
        _ => Ok(Transformed::no(Expr::ScalarSubquery(found))),
    }
}

/// The name of the only column of a subquery.
pub(super) const OWN_NAME: &str = "__member";

/// The subquery with its only column under a name of its own. DataFusion decorrelates a comparison of the
/// column with outer columns by their names, and would confuse columns of one name on both sides.
pub(super) fn with_own_name(subquery: &Subquery) -> Result<Subquery> {
    let plan = subquery.subquery.as_ref();
    let named = match plan {
        // A cast has the name of its column, which a correlated condition may add to the same projection.
        LogicalPlan::Projection(projection) if projection.expr.len() == 1 => {
            let column = projection.expr[0].clone().unalias().alias(OWN_NAME);
            LogicalPlan::Projection(Projection::try_new(vec![column], Arc::clone(&projection.input))?)
        }
        plan => {
            let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
            LogicalPlanBuilder::from(plan.clone())
                .project([column.alias(OWN_NAME)])?
                .build()?
        }
    };
    Ok(replaced(subquery, named))
}

/// The number of rows of a plan, as a scalar subquery.
pub(super) fn count(plan: LogicalPlan, before: &Subquery) -> Result<Expr> {
    let arguments = vec![lit(1_i64)];
    let call = AggregateFunction::new_udf(count_udaf(), arguments, false, None, Vec::new(), None);
    let plan = LogicalPlanBuilder::from(plan)
        .aggregate(Vec::<Expr>::new(), [Expr::AggregateFunction(call)])?
        .build()?;
    let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let plan = LogicalPlanBuilder::from(plan).project([column])?.build()?;
    Ok(Expr::ScalarSubquery(replaced(before, plan)))
}

fn row(plan: &LogicalPlan) -> Result<Option<OneRow>> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate_row(aggregate)?,
        // SELECT without FROM.
        LogicalPlan::EmptyRelation(none) if none.produce_one_row && none.schema.fields().is_empty() => {
            Some(OneRow {
                columns: Vec::new(),
                holds: None,
                rest: None,
                is_filtered: true,
            })
        }
        LogicalPlan::Projection(projection) => {
            let Some(below) = row(&projection.input)? else {
                return Ok(None);
            };
            let schema = projection.input.schema();
            let columns = projection.expr.iter();
            let columns = columns.map(|expr| outside(expr, &below.columns, schema));
            Some(OneRow {
                columns: columns.collect::<Result<_>>()?,
                rest: rest_of(plan, below.rest)?,
                is_filtered: below.is_filtered || is_constant_or_outer(projection),
                ..below
            })
        }
        LogicalPlan::Filter(filter) => {
            let Some(below) = row(&filter.input)? else {
                return Ok(None);
            };
            let condition = outside(&filter.predicate, &below.columns, filter.input.schema())?;
            let Some(condition) = condition else {
                return not_impl_err!("HAVING with grouping() or a subquery inside a correlated subquery");
            };
            Some(OneRow {
                holds: Some(match below.holds {
                    Some(holds) => holds.and(condition),
                    None => condition,
                }),
                rest: rest_of(plan, below.rest)?,
                is_filtered: true,
                columns: below.columns,
            })
        }
        LogicalPlan::Limit(limit) => row(&limit.input)?
            .map(|below| limited(limit, below))
            .transpose()?,
        // DataFusion does not add the columns of conditions to an alias.
        LogicalPlan::SubqueryAlias(alias) => with_rest(plan, row(&alias.input)?)?.map(|below| OneRow {
            is_filtered: true,
            ..below
        }),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => with_rest(plan, row(&sort.input)?)?,
        LogicalPlan::Distinct(distinct) => with_rest(plan, row(distinct.input())?)?,
        _ => None,
    })
}

/// Whether a column of a projection reads outer columns, or is the same for all rows once it is simplified.
fn is_constant_or_outer(projection: &Projection) -> bool {
    let context = SimplifyContext::builder().with_schema(Arc::clone(projection.input.schema()));
    let simplifier = ExprSimplifier::new(context.build());
    for expr in &projection.expr {
        if expr.contains_outer() {
            return true;
        }
        let simple = simplifier.simplify(expr.clone());
        if simple.is_ok_and(|expr| !expr.any_column_refs()) {
            return true;
        }
    }
    false
}

/// The same row, if a node above changes no columns.
fn with_rest(node: &LogicalPlan, below: Option<OneRow>) -> Result<Option<OneRow>> {
    below
        .map(|below| {
            Ok(OneRow {
                rest: rest_of(node, below.rest)?,
                ..below
            })
        })
        .transpose()
}

/// A node above the rest of its input's rows.
fn rest_of(node: &LogicalPlan, rest: Option<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    rest.map(|rest| node.with_new_exprs(node.expressions(), vec![rest]))
        .transpose()
}

/// The row of an aggregate with an empty grouping set.
fn aggregate_row(aggregate: &Aggregate) -> Result<Option<OneRow>> {
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut rest = None;
    match aggregate.group_expr.as_slice() {
        [] => {}
        [Expr::GroupingSet(sets)] => {
            let sets = sets_of(sets);
            let filled: Vec<Vec<Expr>> = sets.iter().filter(|set| !set.is_empty()).cloned().collect();
            if filled.len() == sets.len() {
                return Ok(None);
            }
            if !filled.is_empty() {
                let sets = Expr::GroupingSet(GroupingSet::GroupingSets(filled));
                let calls = aggregate.aggr_expr.clone();
                let input = Arc::clone(&aggregate.input);
                rest = Some(LogicalPlan::Aggregate(Aggregate::try_new(
                    input,
                    vec![sets],
                    calls,
                )?));
            }
        }
        _ => return Ok(None),
    }
    let mut columns = Vec::new();
    for field in aggregate.schema.fields().iter().take(keys) {
        let is_grouping = field.name() == Aggregate::INTERNAL_GROUPING_ID;
        columns.push(match is_grouping {
            true => None,
            false => Some(Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None)),
        });
    }
    for call in &aggregate.aggr_expr {
        let plan = LogicalPlanBuilder::from(aggregate.input.as_ref().clone())
            .aggregate(Vec::<Expr>::new(), [call.clone()])?
            .build()?;
        let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
        let plan = LogicalPlanBuilder::from(plan).project([column])?.build()?;
        columns.push(Some(Expr::ScalarSubquery(Subquery {
            outer_ref_columns: plan.all_out_ref_exprs(),
            subquery: Arc::new(plan),
            spans: Default::default(),
        })));
    }
    Ok(Some(OneRow {
        columns,
        holds: None,
        rest,
        is_filtered: false,
    }))
}

/// A LIMIT above the row.
fn limited(limit: &Limit, below: OneRow) -> Result<OneRow> {
    let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
        (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return not_impl_err!("LIMIT and OFFSET of a correlated subquery must be constants");
    };
    let keeps_all = skip == 0 && fetch.is_none();
    if below.rest.is_some() && !keeps_all && fetch != Some(0) {
        return not_impl_err!("LIMIT or OFFSET of a correlated subquery with grouping sets");
    }
    if skip == 0 && fetch != Some(0) {
        return Ok(OneRow {
            is_filtered: true,
            ..below
        });
    }
    Ok(OneRow {
        holds: Some(lit(false)),
        rest: None,
        is_filtered: true,
        columns: below.columns,
    })
}

/// An expression over the aggregate's row in terms of the outer query; `None` if that is impossible.
pub(super) fn outside(expr: &Expr, columns: &[Option<Expr>], schema: &DFSchema) -> Result<Option<Expr>> {
    let has_subqueries = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        ) || matches!(part, Expr::ScalarSubquery(part) if !part.outer_ref_columns.is_empty()))
    })?;
    if has_subqueries {
        return Ok(None);
    }
    let mut is_complete = true;
    let outside = expr.clone().unalias_nested().data.transform_down(|part| {
        Ok(match part {
            Expr::Column(column) => match columns.get(schema.index_of_column(&column)?) {
                // The value contains no columns of this schema, so it is not visited again.
                Some(Some(value)) => Transformed::new(value.clone(), true, TreeNodeRecursion::Jump),
                _ => {
                    is_complete = false;
                    Transformed::no(Expr::Column(column))
                }
            },
            Expr::OuterReferenceColumn(_, column) => {
                Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump)
            }
            part => Transformed::no(part),
        })
    })?;
    Ok(is_complete.then_some(outside.data))
}
