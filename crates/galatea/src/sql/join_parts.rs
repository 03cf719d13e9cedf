//! Parts of joins in a statement.

use super::asof;
use datafusion::sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};
use std::iter;

/// The constraint in an operator that has one.
macro_rules! constraint_of {
    ($operator:expr) => {
        match $operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::CrossJoin(constraint)
            | JoinOperator::Semi(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::RightSemi(constraint)
            | JoinOperator::Anti(constraint)
            | JoinOperator::LeftAnti(constraint)
            | JoinOperator::RightAnti(constraint)
            | JoinOperator::StraightJoin(constraint) => Some(constraint),
            _ => None,
        }
    };
}

/// The constraint of a join that has one.
pub(super) fn constraint(join: &Join) -> Option<&JoinConstraint> {
    constraint_of!(&join.join_operator)
}

/// The same to change it.
pub(super) fn constraint_mut(join: &mut Join) -> Option<&mut JoinConstraint> {
    constraint_of!(&mut join.join_operator)
}

/// The tables that a FROM item joins.
pub(super) fn operands(table: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    let joined = table.joins.iter().map(|join| &join.relation);
    iter::once(&table.relation).chain(joined)
}

/// The tables in parentheses without a name of their own.
pub(super) fn inner(factor: &TableFactor) -> Option<&TableWithJoins> {
    match factor {
        TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } if !table_with_joins.joins.iter().any(asof::is_asof) => Some(table_with_joins),
        _ => None,
    }
}
