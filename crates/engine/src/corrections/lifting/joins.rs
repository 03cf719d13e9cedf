//! Joins inside a correlated subquery.

use super::condition::{Condition, Kind};
use super::domain::{are_columns, columns_of};
use super::lifted::{Lifted, Lifting};
use super::settle::refused;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Operator, binary_expr};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Lifting<'_> {
    /// The join of its lifted inputs.
    ///
    /// The conditions of a side whose rows all remain, at most once each, may be checked afterwards. On the
    /// other side of an outer, semi or anti join, an equality is an equality of both sides, if the first side
    /// has one with the same value.
    pub(super) fn joined(&mut self, join: &Join, mut left: Lifted, mut right: Lifted) -> Result<Lifted> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let mut conditions = Vec::new();
        let mut filters: Vec<Expr> = Vec::new();
        for filter in join.filter.iter().flat_map(|filter| split_conjunction(filter)) {
            match filter.contains_outer() {
                true if join.join_type == Inner => {
                    conditions.push(Condition::of(filter.clone()));
                    self.is_changed = true;
                }
                // The callers leave the query to DataFusion, which refuses it.
                true => self.is_impossible = true,
                false => filters.push(filter.clone()),
            }
        }
        self.has_conditions |= !conditions.is_empty();
        match join.join_type {
            Inner => {
                if self.has_domain {
                    filters.extend(same_keys(&left.conditions, &mut right.conditions));
                }
                conditions.extend(left.conditions);
                conditions.extend(right.conditions);
            }
            Left | LeftSemi | LeftAnti | LeftMark => {
                (left, right) = self.with_same_keys(left, right)?;
                filters.extend(between(&left.conditions, right.conditions)?);
                conditions.extend(left.conditions);
            }
            Right | RightSemi | RightAnti | RightMark => {
                (right, left) = self.with_same_keys(right, left)?;
                filters.extend(between(&right.conditions, left.conditions)?);
                conditions.extend(right.conditions);
            }
            Full => {
                if let Some(condition) = left.conditions.iter().chain(&right.conditions).next() {
                    return Err(refused("FULL JOIN", condition));
                }
            }
        }
        let plan = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            join.on.clone(),
            conjunction(filters),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Lifted {
            plan: LogicalPlan::Join(plan),
            conditions,
        })
    }
}

impl Lifting<'_> {
    /// The sides of an outer, semi or anti join with the same keys: where the conditions of the other side
    /// are none of the kept side, both have the values of the outer rows.
    fn with_same_keys(&mut self, kept: Lifted, other: Lifted) -> Result<(Lifted, Lifted)> {
        let is_known = |condition: &Condition| key_of(&kept.conditions, condition).is_some();
        if other.conditions.iter().all(is_known) {
            return Ok((kept, other));
        }
        let other = match are_columns(&other.conditions) {
            true => other,
            false => match self.over_domain(other, BTreeSet::new())? {
                Ok((other, _)) => other,
                Err(other) => return Ok((kept, other)),
            },
        };
        let columns = columns_of(&other.conditions)?;
        Ok((self.over_domain_if_any(kept, columns)?, other))
    }
}

/// The inner side of the equality with the same outer value.
fn key_of<'c>(kept: &'c [Condition], condition: &Condition) -> Option<&'c Expr> {
    let Kind::Equal { op, outer, .. } = &condition.kind else {
        return None;
    };
    kept.iter().find_map(|kept| match &kept.kind {
        // NULL on the kept side equals no value of the other one by `=`.
        Kind::Equal {
            inner,
            op: same,
            outer: value,
        } if (same == op || *same == Operator::IsNotDistinctFrom) && value == outer => Some(inner),
        _ => None,
    })
}

/// Equalities of the keys with one outer value on both sides of an inner join; those of the right side are
/// removed.
fn same_keys(left: &[Condition], right: &mut Vec<Condition>) -> Vec<Expr> {
    let mut equal = Vec::new();
    right.retain(|condition| match (&condition.kind, key_of(left, condition)) {
        (Kind::Equal { inner, op, .. }, Some(key)) => {
            equal.push(binary_expr(key.clone(), *op, inner.clone()));
            false
        }
        _ => true,
    });
    equal
}

/// The joins in an error.
const OTHER_SIDE: &str = "an outer, semi or anti join, EXCEPT or INTERSECT";

/// A join with the conditions of a filter above it that read only the side whose rows all remain, and the
/// filter's other conditions.
pub(super) fn with_conditions_below(join: &Join, predicate: &Expr) -> Result<(Join, Vec<Expr>)> {
    use JoinType::{Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let mut join = join.clone();
    let side = match join.join_type {
        Left | LeftSemi | LeftAnti | LeftMark => &mut join.left,
        Right | RightSemi | RightAnti | RightMark => &mut join.right,
        _ => return Ok((join, split_conjunction(predicate).into_iter().cloned().collect())),
    };
    let (below, above): (Vec<&Expr>, Vec<&Expr>) =
        split_conjunction(predicate).into_iter().partition(|part| {
            let columns = part.column_refs();
            part.contains_outer() && columns.into_iter().all(|column| side.schema().has_column(column))
        });
    if let Some(below) = conjunction(below.into_iter().cloned()) {
        *side = Arc::new(LogicalPlan::Filter(Filter::try_new(below, Arc::clone(side))?));
    }
    Ok((join, above.into_iter().cloned().collect()))
}

/// Equalities of the keys of both sides.
fn between(kept: &[Condition], other: Vec<Condition>) -> Result<Vec<Expr>> {
    let equal = other.into_iter().map(|condition| {
        let Kind::Equal { inner, op, .. } = &condition.kind else {
            return Err(refused(OTHER_SIDE, &condition));
        };
        match key_of(kept, &condition) {
            Some(key) => Ok(binary_expr(key.clone(), *op, inner.clone())),
            None => Err(refused(OTHER_SIDE, &condition)),
        }
    });
    equal.collect()
}
