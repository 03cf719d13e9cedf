//! Parts of joins in a statement.

use super::asof;
use datafusion::sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

/// The constraint of a join that has one.
pub(super) fn constraint(join: &mut Join) -> Option<&mut JoinConstraint> {
    match &mut join.join_operator {
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
