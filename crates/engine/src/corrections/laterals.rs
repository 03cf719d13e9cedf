//! LATERAL subqueries that DataFusion does not join correctly.
//!
//! An aggregate without GROUP BY has a row for each outer row, also if no rows match it. It becomes a left
//! join with groups by the correlated columns; the expressions of the subquery are computed above the join
//! from the results of its calls, or from those over no rows. HAVING is a condition of the rows of the join:
//!
//! ```text
//! t, LATERAL (SELECT e(count(*)) FROM u WHERE u.k = t.k HAVING h(count(*)))
//!     Projection: t.*, e(CASE WHEN found IS NULL THEN 0 ELSE count(*) END)
//!       Filter: h(CASE WHEN found IS NULL THEN 0 ELSE count(*) END)
//!         Left Join: t.k = u.k
//!           t
//!           SELECT k, count(*), true AS found FROM u GROUP BY k
//! ```
//!
//! The conditions of other subqueries move above their operators by [`lifting`](super::lifting).

use super::lifting::{self, Groups, Lifting, outside};
use super::one_row;
use super::subqueries;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, Result, TableReference, not_impl_err};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, SkipType,
    SubqueryAlias, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashMap;
use std::sync::Arc;

/// The rule that joins them.
#[derive(Debug, Default)]
pub(super) struct JoinLaterals;

impl OptimizerRule for JoinLaterals {
    fn name(&self) -> &'static str {
        "galatea_join_laterals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let (alias, right) = match join.right.as_ref() {
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => (Some(alias), input.as_ref()),
            right => (None, right),
        };
        let LogicalPlan::Subquery(subquery) = right else {
            return Ok(Transformed::no(plan));
        };
        if subquery.outer_ref_columns.is_empty()
            || !matches!(join.join_type, JoinType::Inner | JoinType::Left)
        {
            return Ok(Transformed::no(plan));
        }
        lifting::refuse_far_columns("LATERAL subquery", &subquery.subquery, join.left.schema())?;
        let separated = subqueries::prepared(subquery.clone())?;
        let lateral = Lateral {
            join,
            alias,
            subquery: &separated.data.subquery,
            aliases: config.alias_generator(),
        };
        let joined = match lateral.total()? {
            Some(total) => lateral.with_total(total)?,
            None => lateral.with_rows()?,
        };
        Ok(match joined {
            Some(joined) => Transformed::yes(joined),
            None if separated.transformed => {
                let right = LogicalPlan::Subquery(separated.data);
                let right = match alias {
                    Some(alias) => {
                        LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(right), alias.clone())?)
                    }
                    None => right,
                };
                let inputs = vec![join.left.as_ref().clone(), right];
                Transformed::yes(plan.with_new_exprs(plan.expressions(), inputs)?)
            }
            None => Transformed::no(plan),
        })
    }
}

struct Lateral<'a> {
    join: &'a Join,
    alias: Option<&'a TableReference>,
    subquery: &'a LogicalPlan,
    aliases: &'a AliasGenerator,
}

impl<'a> Lateral<'a> {
    /// The aggregate of one row that the subquery computes its columns from.
    fn total(&self) -> Result<Option<&'a Aggregate>> {
        let mut node = self.subquery;
        loop {
            if let LogicalPlan::Aggregate(aggregate) = node {
                return Ok(aggregate.group_expr.is_empty().then_some(aggregate));
            }
            match lifting::above_total(node) {
                Some(input) => node = input,
                None => return Ok(None),
            }
        }
    }

    /// The condition of the join.
    fn condition(&self) -> Option<Expr> {
        let columns = self.join.on.iter().cloned().map(|(left, right)| left.eq(right));
        conjunction(columns.chain(self.join.filter.clone()))
    }

    /// A join with the groups of an aggregate.
    fn with_total(&self, aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
        let mut lifting = Lifting::new(self.aliases, Some(&self.join.left));
        let lifted = lifting.lift(aggregate.input.as_ref().clone(), true)?;
        if lifting.is_impossible() || aggregate.aggr_expr.iter().any(Expr::contains_outer) {
            return Ok(None);
        }
        let groups = Groups::new(&mut lifting, lifted, aggregate)?;
        let conditions = groups.conditions.into_iter();
        let conditions = conditions.map(|condition| outside(condition.expr()));
        let left = LogicalPlanBuilder::from(Arc::clone(&self.join.left));
        let joined = left
            .join_on(
                groups.plan,
                JoinType::Left,
                conditions.collect::<Result<Vec<_>>>()?,
            )?
            .build()?;
        let mut row = Row {
            columns: groups.values.into_iter().map(Some).collect(),
            conditions: Vec::new(),
        };
        row.above(self.subquery)?;
        self.projected(joined, row).map(Some)
    }

    /// The columns of the join, from those of the row.
    fn projected(&self, joined: LogicalPlan, row: Row) -> Result<LogicalPlan> {
        let right: HashMap<Column, Expr> = {
            let names = self.join.right.schema().columns();
            let values = row.columns.into_iter().map(|value| match value {
                Some(value) => Ok(value),
                None => unsupported(),
            });
            names
                .into_iter()
                .zip(values.collect::<Result<Vec<_>>>()?)
                .collect()
        };
        let mut conditions = row.conditions;
        if let Some(filter) = self.condition() {
            let filter = filter.transform_up(|part| {
                Ok(match part {
                    Expr::Column(column) => match right.get(&column) {
                        Some(value) => Transformed::yes(value.clone()),
                        None => Transformed::no(Expr::Column(column)),
                    },
                    part => Transformed::no(part),
                })
            })?;
            conditions.push(filter.data);
        }
        let condition = conjunction(conditions);
        let is_outer = self.join.join_type == JoinType::Left;
        let left = self.join.left.schema().columns().into_iter().map(Expr::Column);
        let mut columns: Vec<Expr> = left.collect();
        for column in self.join.right.schema().columns() {
            let value = right[&column].clone();
            let value = match &condition {
                Some(condition) if is_outer => when(condition.clone(), value).end()?,
                _ => value,
            };
            columns.push(value.alias_qualified(column.relation, column.name));
        }
        let input = match condition {
            Some(condition) if !is_outer => {
                LogicalPlan::Filter(Filter::try_new(condition, Arc::new(joined))?)
            }
            _ => joined,
        };
        Ok(LogicalPlan::Projection(Projection::try_new(
            columns,
            Arc::new(input),
        )?))
    }

    /// A join with the rows of a subquery, if DataFusion does not join them correctly.
    fn with_rows(&self) -> Result<Option<LogicalPlan>> {
        let mut lifting = Lifting::new(self.aliases, Some(&self.join.left));
        let lifted = lifting.lift(self.subquery.clone(), true)?;
        // DataFusion ignores the columns of USING.
        let has_columns = !self.join.on.is_empty() && !lifting.is_impossible();
        if !lifting.is_needed() && !has_columns {
            return Ok(None);
        }
        let own = self.subquery.schema().columns().into_iter().map(Expr::Column);
        let (right, conditions) = lifting.outside(lifted, own.collect(), self.alias)?;
        let conditions = conditions.into_iter().chain(self.condition());
        let joined = LogicalPlanBuilder::from(Arc::clone(&self.join.left))
            .join_on(right, self.join.join_type, conditions)?
            .project(self.join.schema.columns().into_iter().map(Expr::Column))?
            .build()?;
        Ok(Some(joined))
    }
}

/// The row of a subquery, over the columns of the join.
struct Row {
    columns: Vec<Option<Expr>>,
    /// The conditions under which the subquery returns it.
    conditions: Vec<Expr>,
}

impl Row {
    /// The row above the operators of a plan that are above its aggregate.
    fn above(&mut self, plan: &LogicalPlan) -> Result<()> {
        if matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(());
        }
        let Some(input) = lifting::above_total(plan) else {
            return unsupported();
        };
        self.above(input)?;
        let schema = input.schema();
        match plan {
            LogicalPlan::Projection(projection) => {
                if projection.expr.iter().any(Expr::is_volatile) {
                    return unsupported();
                }
                let columns = projection.expr.iter();
                let columns = columns.map(|expr| one_row::outside(expr, &self.columns, schema));
                self.columns = columns.collect::<Result<_>>()?;
            }
            LogicalPlan::Filter(filter) => {
                match one_row::outside(&filter.predicate, &self.columns, schema)? {
                    Some(condition) => self.conditions.push(condition),
                    None => return unsupported(),
                }
            }
            LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (SkipType::Literal(0), FetchType::Literal(fetch)) if fetch != Some(0) => {}
                (SkipType::Literal(_), FetchType::Literal(_)) => self.conditions.push(lit(false)),
                _ => return not_impl_err!("LIMIT and OFFSET of a correlated subquery must be constants"),
            },
            LogicalPlan::Distinct(datafusion::logical_expr::Distinct::On(_)) => return unsupported(),
            _ => {}
        }
        Ok(())
    }
}

fn unsupported<T>() -> Result<T> {
    not_impl_err!(
        "a LATERAL subquery with an aggregate without GROUP BY and, above it, a correlated subquery, DISTINCT ON or a \
         function with another value for each call\nhint: compute it in the query around the subquery"
    )
}
