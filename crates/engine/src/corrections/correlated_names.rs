//! Columns of correlated conditions have names of their own if others share their names.
//!
//! To decorrelate a subquery, DataFusion adds the inner columns of its correlated conditions to its output,
//! and gives all columns of the output one qualifier. Of the columns `t.n` and `v.n` of a join, one is lost;
//! an inner column `t.n` beside an outer column `t.n` is taken for it. Such columns are copied:
//!
//! ```text
//! Filter: v.n = outer_ref(u.g)          Projection: t.n, v.n
//!   Join                          =>      Filter: __correlated_1 = outer_ref(u.g)
//!                                           Projection: t.n, v.n, v.n AS __correlated_1
//!                                             Join
//! ```

use super::lifting;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery};
use std::collections::HashMap;
use std::sync::Arc;

/// Renames the columns of correlated conditions in a subquery, if other columns have their names.
pub(super) fn separated(subquery: Subquery) -> Result<Transformed<Subquery>> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(subquery));
    }
    let mut names = Names::default();
    names.collect(&subquery.subquery, 0);
    names.outer = subquery
        .subquery
        .all_out_ref_exprs()
        .into_iter()
        .filter_map(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        })
        .collect();
    let plan = subquery.subquery.as_ref().clone();
    let plan = plan.transform_up(|node| names.separate(node))?;
    Ok(match plan.transformed {
        true => Transformed::yes(lifting::replaced(&subquery, plan.data)),
        false => Transformed::no(subquery),
    })
}

/// The columns at which the names of a subquery's columns may clash.
#[derive(Default)]
struct Names {
    /// The qualifiers of each name in the nodes from the root to the correlated filters. An alias of a
    /// subquery gives the columns below it other qualifiers, so the nodes above and below it are apart.
    inner: HashMap<(usize, String), Vec<Option<TableReference>>>,
    /// Number of aliases so far.
    aliases: usize,
    /// The outer columns.
    outer: Vec<Column>,
    /// Number of copied columns.
    copies: usize,
}

impl Names {
    /// Collects the columns of nodes above a correlated filter, and of the filter. Returns whether there is
    /// one. `alias`: the number of the alias around the node.
    fn collect(&mut self, plan: &LogicalPlan, alias: usize) -> bool {
        let mut correlated = matches!(plan, LogicalPlan::Filter(filter) if filter.predicate.contains_outer());
        let mut below = alias;
        if matches!(plan, LogicalPlan::SubqueryAlias(_)) {
            self.aliases += 1;
            below = self.aliases;
        }
        for input in plan.inputs() {
            correlated |= self.collect(input, below);
        }
        if correlated {
            for (qualifier, field) in plan.schema().iter() {
                let known = self.inner.entry((alias, field.name().clone())).or_default();
                if !known.iter().any(|known| known.as_ref() == qualifier) {
                    known.push(qualifier.cloned());
                }
            }
        }
        correlated
    }

    fn clashes(&self, column: &Column) -> bool {
        let mut inner = self.inner.iter();
        self.outer.contains(column)
            || inner.any(|((_, name), qualifiers)| *name == column.name && qualifiers.len() > 1)
    }

    fn separate(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = node else {
            return Ok(Transformed::no(node));
        };
        let mut copied: Vec<(Column, Expr)> = Vec::new();
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let conditions = conditions
            .into_iter()
            .map(|condition| match condition.contains_outer() {
                false => Ok(condition),
                true => {
                    let renamed = condition.transform_up(|part| {
                        Ok(match &part {
                            Expr::Column(column) if self.clashes(column) => {
                                Transformed::yes(self.copy(column, &mut copied))
                            }
                            _ => Transformed::no(part),
                        })
                    });
                    renamed.map(|renamed| renamed.data)
                }
            });
        let conditions = conditions.collect::<Result<Vec<Expr>>>()?;
        let (Some(predicate), false) = (conjunction(conditions), copied.is_empty()) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let columns: Vec<Expr> = filter
            .input
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .collect();
        let copies = copied
            .into_iter()
            .map(|(column, copy)| Expr::Column(column).alias(copy.schema_name().to_string()));
        let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(filter.input))
            .project(columns.iter().cloned().chain(copies))?
            .build()?;
        let filtered = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?);
        let plan = LogicalPlanBuilder::from(filtered).project(columns)?.build()?;
        Ok(Transformed::yes(plan))
    }

    /// The copy of a column.
    fn copy(&mut self, column: &Column, copied: &mut Vec<(Column, Expr)>) -> Expr {
        if let Some((_, copy)) = copied.iter().find(|(known, _)| known == column) {
            return copy.clone();
        }
        self.copies += 1;
        let copy = Expr::Column(Column::from_name(format!("__correlated_{}", self.copies)));
        copied.push((column.clone(), copy.clone()));
        copy
    }
}
