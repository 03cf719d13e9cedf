//! LATERAL subqueries that unnest lists of the row before them.
//!
//! ```text
//! t, LATERAL (SELECT unnest(t.l) AS v)      Projection: t.*, v
//!                                       =>    Unnest: v
//!                                               Projection: t.*, t.l AS v
//!                                                 t
//! ```
//!
//! Columns of `t` have hidden names until the end: a column of the subquery may have the name of one of them.
//!
//! A left join keeps rows of `t` with an empty list or NULL, if the subquery has the elements of one list
//! alone: a computed column would not be NULL for them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullHandling, Result, UnnestOptions};
use datafusion::logical_expr::{
    EmptyRelation, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, Unnest, lit,
};

/// Prefix of the names of columns of the left side, before their numbers.
const HIDDEN: &str = "__lateral_left_";

/// The join without its LATERAL subquery; `None` if its right side is another one.
pub(super) fn joined(join: &Join) -> Result<Option<LogicalPlan>> {
    if !join.on.is_empty() || !is_lateral(&join.right) || !unnests(&join.right) {
        return Ok(None);
    }
    let mut rows = Rows {
        left: hidden(&join.left)?,
        names: join.left.schema().columns(),
        is_outer: join.join_type == JoinType::Left,
        unnested: 0,
        filters: false,
        computes: false,
    };
    let Some(plan) = rows.above(&join.right)? else {
        return Ok(None);
    };
    let condition = join.filter.clone().filter(|condition| *condition != lit(true));
    let is_kept = rows.unnested == 1 && !rows.filters && !rows.computes && condition.is_none();
    if join.join_type != JoinType::Inner && !(rows.is_outer && is_kept) {
        return Ok(None);
    }
    let shown = rows.left.schema().columns().into_iter().zip(&rows.names);
    let shown = shown
        .map(|(hidden, column)| Expr::Column(hidden).alias_qualified(column.relation.clone(), column.name()));
    let right = join.right.schema().columns().into_iter().map(Expr::Column);
    let mut plan = LogicalPlanBuilder::from(plan).project(shown.chain(right))?;
    if let Some(condition) = condition {
        plan = plan.filter(condition)?;
    }
    plan.build().map(Some)
}

/// The rows of a plan, with hidden names of its columns.
fn hidden(plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().enumerate();
    let columns = columns.map(|(number, column)| Expr::Column(column).alias(format!("{HIDDEN}{number}")));
    Projection::try_new(columns.collect(), Arc::clone(plan)).map(LogicalPlan::Projection)
}

/// Whether the right side of a join may read the columns of its left side.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        plan => matches!(plan, LogicalPlan::Subquery(_)),
    }
}

/// Whether a plan without tables unnests lists.
fn unnests(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Unnest(_) => true,
        LogicalPlan::Projection(projection) => unnests(&projection.input),
        LogicalPlan::Filter(filter) => unnests(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => unnests(&alias.input),
        LogicalPlan::Subquery(subquery) => unnests(&subquery.subquery),
        _ => false,
    }
}

/// The rows of the left side, with columns of the subquery.
struct Rows {
    /// The left side, with hidden names.
    left: LogicalPlan,
    /// Its columns before, in the same order.
    names: Vec<Column>,
    is_outer: bool,
    /// Number of operators that unnest so far.
    unnested: usize,
    /// Whether a filter removes rows.
    filters: bool,
    /// Whether a column above the operator is no element of the list.
    computes: bool,
}

impl Rows {
    /// The operators of the subquery above the left side; `None` if it has others.
    fn above(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        Ok(match plan {
            LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: true,
                ..
            }) => Some(self.left.clone()),
            LogicalPlan::Subquery(subquery) => self.above(&subquery.subquery)?,
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = self.above(&alias.input)? else {
                    return Ok(None);
                };
                let inner = alias.input.schema().columns().into_iter();
                let columns = inner.zip(alias.schema.iter()).map(|(inner, (table, field))| {
                    Expr::Column(inner).alias_qualified(table.cloned(), field.name())
                });
                Some(self.projected(input, columns.collect())?)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.above(&projection.input)? else {
                    return Ok(None);
                };
                let is_element = |column: &Expr| matches!(column.clone().unalias(), Expr::Column(_));
                let is_one = projection.expr.len() == 1 && projection.expr.iter().all(is_element);
                self.computes |= self.unnested > 0 && !is_one;
                let mut columns = Vec::new();
                for column in &projection.expr {
                    let Some(column) = self.over_left(column)? else {
                        return Ok(None);
                    };
                    columns.push(column);
                }
                Some(self.projected(input, columns)?)
            }
            LogicalPlan::Filter(filter) => {
                self.filters = true;
                match (self.above(&filter.input)?, self.over_left(&filter.predicate)?) {
                    (Some(input), Some(condition)) => {
                        Some(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?))
                    }
                    _ => None,
                }
            }
            LogicalPlan::Unnest(unnest) => match self.above(&unnest.input)? {
                Some(input) => Some(self.unnested(input, unnest)?),
                None => None,
            },
            _ => None,
        })
    }

    fn unnested(&mut self, input: LogicalPlan, unnest: &Unnest) -> Result<LogicalPlan> {
        self.unnested += 1;
        let null_handling = match self.is_outer {
            true => NullHandling::PreserveAndExpandEmpty,
            false => NullHandling::Drop,
        };
        let options = UnnestOptions {
            null_handling,
            ..unnest.options.clone()
        };
        LogicalPlanBuilder::from(input)
            .unnest_columns_with_options(unnest.exec_columns.clone(), options)?
            .build()
    }

    /// The columns of the left side and others.
    fn projected(&self, input: LogicalPlan, others: Vec<Expr>) -> Result<LogicalPlan> {
        let left = self.left.schema().columns().into_iter().map(Expr::Column);
        let columns = left.chain(others).collect();
        Projection::try_new(columns, Arc::new(input)).map(LogicalPlan::Projection)
    }

    /// An expression over columns of the left side in the place of outer columns, with its name; `None` if it
    /// contains a subquery or reads columns of a query further out.
    fn over_left(&self, expression: &Expr) -> Result<Option<Expr>> {
        let has_subquery = expression.exists(|part| {
            Ok(matches!(
                part,
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
            ))
        })?;
        if has_subquery {
            return Ok(None);
        }
        let mut is_far = false;
        let changed = expression.clone().transform_up(|part| {
            Ok(match &part {
                Expr::OuterReferenceColumn(_, column) => {
                    match self.names.iter().position(|name| name == column) {
                        Some(number) => {
                            Transformed::yes(Expr::Column(Column::from_name(format!("{HIDDEN}{number}"))))
                        }
                        None => {
                            is_far = true;
                            Transformed::no(part)
                        }
                    }
                }
                _ => Transformed::no(part),
            })
        })?;
        if is_far {
            return Ok(None);
        }
        let name = expression.schema_name().to_string();
        let has_name = changed.data.schema_name().to_string() == name;
        Ok(Some(if has_name {
            changed.data
        } else {
            changed.data.alias(name)
        }))
    }
}
