//! A plan with at least all values of some columns of an outer query.
//!
//! The domain is computed apart from the outer query, so both must have the same values. Operators that only
//! remove rows, such as filters and LIMIT, may be omitted, since more values do no harm. Values that may
//! differ from one execution to the next, such as sums of floats or `row_number()`, have no such plan.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias, Union,
};
use std::sync::Arc;

/// A plan with at least these columns and, in its rows, all combinations of their values that rows of `plan`
/// have. `None` if there is none.
pub(super) fn of(plan: &LogicalPlan, wanted: &[Column]) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) => Some(plan.clone()),
        LogicalPlan::Values(values) => {
            let is_fixed = values.values.iter().flatten().all(is_fixed);
            is_fixed.then(|| plan.clone())
        }
        LogicalPlan::Sort(sort) => of(&sort.input, wanted)?,
        LogicalPlan::Limit(limit) => of(&limit.input, wanted)?,
        LogicalPlan::Distinct(Distinct::All(input)) => of(input, wanted)?,
        LogicalPlan::Filter(filter) => of_filter(filter, wanted)?,
        LogicalPlan::Projection(projection) => of_projection(projection, wanted)?,
        LogicalPlan::SubqueryAlias(alias) => of_alias(alias, wanted)?,
        LogicalPlan::Join(join) => of_join(join, wanted)?,
        LogicalPlan::Union(union) => of_union(union, wanted)?,
        LogicalPlan::Aggregate(aggregate) => {
            let keys = aggregate.group_expr.iter().zip(aggregate.schema.iter());
            let keys = keys.filter_map(|(key, (relation, field))| {
                let column = Column::new(relation.cloned(), field.name());
                let named = key.clone().alias_qualified(relation.cloned(), field.name());
                let named = if *key == Expr::Column(column.clone()) {
                    key.clone()
                } else {
                    named
                };
                wanted.contains(&column).then_some(named)
            });
            let keys: Vec<Expr> = keys.collect();
            let has_sets = matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
            match keys.len() == wanted.len() && !has_sets {
                true => projected(&aggregate.input, keys)?,
                false => None,
            }
        }
        LogicalPlan::Window(window) => match wanted.iter().all(|column| has(window.input.schema(), column)) {
            true => of(&window.input, wanted)?,
            false => None,
        },
        _ => None,
    })
}

fn has(schema: &DFSchema, column: &Column) -> bool {
    schema.has_column(column)
}

/// Whether an expression has the same value in every execution, and reads columns of its input alone.
fn is_fixed(expr: &Expr) -> bool {
    let other = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::Unnest(_)
        ))
    });
    !expr.is_volatile() && !other.unwrap_or(true)
}

fn of_filter(filter: &Filter, wanted: &[Column]) -> Result<Option<LogicalPlan>> {
    let kept = split_conjunction(&filter.predicate);
    let kept: Vec<&Expr> = kept.into_iter().filter(|part| is_fixed(part)).collect();
    let Some(input) = of(&filter.input, &with_columns_of(wanted, &kept))? else {
        return Ok(None);
    };
    Ok(Some(match conjunction(kept.into_iter().cloned()) {
        Some(kept) => LogicalPlan::Filter(Filter::try_new(kept, Arc::new(input))?),
        None => input,
    }))
}

/// Columns and those of expressions.
fn with_columns_of(wanted: &[Column], exprs: &[&Expr]) -> Vec<Column> {
    let mut all = wanted.to_vec();
    for column in exprs.iter().flat_map(|expr| expr.column_refs()) {
        if !all.contains(column) {
            all.push(column.clone());
        }
    }
    all
}

/// The values of expressions over an input.
fn projected(input: &LogicalPlan, exprs: Vec<Expr>) -> Result<Option<LogicalPlan>> {
    if !exprs.iter().all(is_fixed) {
        return Ok(None);
    }
    let needed = with_columns_of(&[], &exprs.iter().collect::<Vec<_>>());
    let Some(input) = of(input, &needed)? else {
        return Ok(None);
    };
    LogicalPlanBuilder::from(input).project(exprs)?.build().map(Some)
}

fn of_projection(projection: &Projection, wanted: &[Column]) -> Result<Option<LogicalPlan>> {
    let columns = projection.schema.columns().into_iter().zip(&projection.expr);
    let exprs = columns.filter(|(column, _)| wanted.contains(column));
    let exprs: Vec<Expr> = exprs.map(|(_, expr)| expr.clone()).collect();
    let all = projected(&projection.input, projection.expr.clone())?;
    match all {
        Some(LogicalPlan::Projection(all)) if all == *projection => Ok(Some(LogicalPlan::Projection(all))),
        _ => projected(&projection.input, exprs),
    }
}

fn of_alias(alias: &SubqueryAlias, wanted: &[Column]) -> Result<Option<LogicalPlan>> {
    let inner = alias.input.schema().columns();
    let pairs = alias.schema.columns().into_iter().zip(&inner);
    let below = pairs.filter(|(own, _)| wanted.contains(own));
    let (own, below): (Vec<Column>, Vec<Column>) = below.map(|(own, below)| (own, below.clone())).unzip();
    let Some(input) = of(&alias.input, &below)? else {
        return Ok(None);
    };
    if input == *alias.input {
        return Ok(Some(LogicalPlan::SubqueryAlias(alias.clone())));
    }
    let columns = below.into_iter().zip(own);
    let columns = columns.map(|(below, own)| Expr::Column(below).alias_qualified(own.relation, own.name));
    LogicalPlanBuilder::from(input)
        .project(columns.collect::<Vec<_>>())?
        .build()
        .map(Some)
}

/// The side that has all of the columns, if the join only removes and repeats its rows; else the join.
fn of_join(join: &Join, wanted: &[Column]) -> Result<Option<LogicalPlan>> {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let all_in = |side: &LogicalPlan| wanted.iter().all(|column| has(side.schema(), column));
    let keeps_left = matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark);
    let keeps_right = matches!(join.join_type, Inner | Right | RightSemi | RightAnti | RightMark);
    if keeps_left && all_in(&join.left) {
        return of(&join.left, wanted);
    }
    if keeps_right && all_in(&join.right) {
        return of(&join.right, wanted);
    }
    let mut exprs: Vec<&Expr> = join.on.iter().flat_map(|(left, right)| [left, right]).collect();
    exprs.extend(&join.filter);
    if !exprs.iter().all(|expr| is_fixed(expr)) {
        return Ok(None);
    }
    let needed = with_columns_of(wanted, &exprs);
    let (left, right): (Vec<Column>, Vec<Column>) = needed
        .into_iter()
        .partition(|column| has(join.left.schema(), column));
    let (Some(left), Some(right)) = (of(&join.left, &left)?, of(&join.right, &right)?) else {
        return Ok(None);
    };
    // Each row of an outer join without a match has NULLs, so more rows on the other side would lose some.
    if join.join_type != Inner && (left != *join.left || right != *join.right) {
        return Ok(None);
    }
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on.clone(),
        join.filter.clone(),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(Some(LogicalPlan::Join(join)))
}

fn of_union(union: &Union, wanted: &[Column]) -> Result<Option<LogicalPlan>> {
    let columns = union.schema.columns();
    let mut inputs = Vec::new();
    for input in &union.inputs {
        let pairs = columns.iter().zip(input.schema().columns());
        let pairs = pairs.filter(|(own, _)| wanted.contains(own));
        let (own, below): (Vec<Column>, Vec<Column>) = pairs.map(|(own, below)| (own.clone(), below)).unzip();
        let Some(input) = of(input, &below)? else {
            return Ok(None);
        };
        let named = below.into_iter().zip(own);
        let named = named.map(|(below, own)| Expr::Column(below).alias_qualified(own.relation, own.name));
        let input = LogicalPlanBuilder::from(input).project(named.collect::<Vec<_>>())?;
        inputs.push(Arc::new(input.build()?));
    }
    Union::try_new(inputs).map(|union| Some(LogicalPlan::Union(union)))
}
