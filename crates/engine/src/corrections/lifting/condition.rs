//! A condition of a correlated subquery that reads columns of the query around it.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use std::collections::{HashMap, HashSet};

/// The condition.
#[derive(Debug, Clone)]
pub(in super::super) struct Condition {
    pub(super) kind: Kind,
    /// The condition in the query, for errors.
    pub(super) written: Expr,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A value of the subquery's rows equals one of the outer row. The rows of one outer row have the same
    /// value.
    Equal {
        inner: Expr,
        op: Operator,
        outer: Expr,
    },
    Other(Expr),
}

impl Condition {
    /// The conditions of a filter, and its other parts.
    pub(super) fn split(predicate: &Expr) -> (Vec<Self>, Vec<Expr>) {
        let (outer, own): (Vec<&Expr>, Vec<&Expr>) = split_conjunction(predicate)
            .into_iter()
            .partition(|part| part.contains_outer());
        let conditions = outer.into_iter().map(|part| Self::of(part.clone()));
        (conditions.collect(), own.into_iter().cloned().collect())
    }

    pub(super) fn of(written: Expr) -> Self {
        let kind = Kind::of(&written);
        Self { kind, written }
    }

    pub(in super::super) fn expr(self) -> Expr {
        match self.kind {
            Kind::Equal { inner, op, outer } => {
                Expr::BinaryExpr(BinaryExpr::new(Box::new(inner), op, Box::new(outer)))
            }
            Kind::Other(expr) => expr,
        }
    }

    /// Whether it contains a subquery that is correlated itself.
    pub(super) fn has_subquery(&self) -> bool {
        let found = self.written.exists(|part| {
            let subquery = match part {
                Expr::Exists(found) => &found.subquery,
                Expr::InSubquery(found) => &found.subquery,
                Expr::ScalarSubquery(found) => found,
                _ => return Ok(false),
            };
            Ok(!subquery.outer_ref_columns.is_empty())
        });
        found.unwrap_or(true)
    }

    /// Whether DataFusion can group by it below an aggregate: an equality, or a disjunction in which all
    /// operands share an equality and read no other outer column.
    pub(super) fn is_equality(&self) -> bool {
        match &self.kind {
            Kind::Equal { .. } => true,
            Kind::Other(expr) => has_common_equality(expr),
        }
    }

    /// Whether it is an equality that holds for two NULLs.
    pub(super) fn is_null_safe(&self) -> bool {
        matches!(
            self.kind,
            Kind::Equal {
                op: Operator::IsNotDistinctFrom,
                ..
            }
        )
    }

    /// The columns of the subquery that it reads.
    pub(super) fn columns(&self) -> HashSet<&Column> {
        match &self.kind {
            Kind::Equal { inner, .. } => inner.column_refs(),
            Kind::Other(expr) => expr.column_refs(),
        }
    }

    /// The condition with another expression for the value of the subquery's rows.
    pub(super) fn with_inner(self, other: impl FnOnce(Expr) -> Expr) -> Self {
        let kind = match self.kind {
            Kind::Equal { inner, op, outer } => {
                let inner = other(inner);
                Kind::Equal { inner, op, outer }
            }
            kind => kind,
        };
        Self { kind, ..self }
    }

    /// The condition over other columns of the subquery.
    pub(super) fn over(self, columns: &HashMap<Column, Column>) -> Result<Self> {
        let over = |expr: Expr| {
            let changed = expr.transform_up(|part| {
                Ok(match &part {
                    Expr::Column(column) => match columns.get(column) {
                        Some(other) => Transformed::yes(Expr::Column(other.clone())),
                        None => Transformed::no(part),
                    },
                    _ => Transformed::no(part),
                })
            });
            changed.map(|changed| changed.data)
        };
        let kind = match self.kind {
            Kind::Equal { inner, op, outer } => {
                let inner = over(inner)?;
                Kind::Equal { inner, op, outer }
            }
            Kind::Other(expr) => Kind::Other(over(expr)?),
        };
        Ok(Self { kind, ..self })
    }
}

impl Kind {
    fn of(expr: &Expr) -> Self {
        let other = || Self::Other(expr.clone());
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Eq | Operator::IsNotDistinctFrom),
            right,
        }) = expr
        else {
            return other();
        };
        let is_inner = |side: &Expr| !side.contains_outer() && side.any_column_refs() && !side.is_volatile();
        let is_outer = |side: &Expr| side.contains_outer() && !side.any_column_refs();
        let (inner, outer) = if is_inner(left) && is_outer(right) {
            (left, right)
        } else if is_inner(right) && is_outer(left) {
            (right, left)
        } else {
            return other();
        };
        Self::Equal {
            inner: inner.as_ref().clone(),
            op: *op,
            outer: outer.as_ref().clone(),
        }
    }
}

/// Whether the operands of a disjunction have an equality with an outer value in common, and no other outer
/// columns.
fn has_common_equality(expr: &Expr) -> bool {
    let operands: Vec<Vec<&Expr>> = split_binary(expr, Operator::Or)
        .into_iter()
        .map(split_conjunction)
        .collect();
    let [first, _, ..] = operands.as_slice() else {
        return false;
    };
    let common: Vec<&Expr> = first
        .iter()
        .copied()
        .filter(|part| matches!(Kind::of(part), Kind::Equal { .. }))
        .filter(|part| operands.iter().all(|operand| operand.contains(part)))
        .collect();
    let mut others = operands.iter().flatten().filter(|part| !common.contains(part));
    !common.is_empty() && !others.any(|part| part.contains_outer())
}

/// The expression in the query around the subquery: columns instead of references to them.
pub(in super::super) fn outside(expr: Expr) -> Result<Expr> {
    let outside = expr.transform_up(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            part => Transformed::no(part),
        })
    })?;
    Ok(outside.data)
}
