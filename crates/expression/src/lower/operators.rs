//! Translation of DataFusion's operators.

use datafusion::logical_expr::Operator;

use crate::operator::{Bitwise, Comparison};

/// The comparison, if `operator` is one.
pub(super) fn comparison(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        Operator::IsDistinctFrom => Comparison::Distinct,
        Operator::IsNotDistinctFrom => Comparison::NotDistinct,
        _ => return None,
    })
}

/// The bitwise operator, if `operator` is one.
pub(super) fn bitwise(operator: Operator) -> Option<Bitwise> {
    Some(match operator {
        Operator::BitwiseAnd => Bitwise::And,
        Operator::BitwiseOr => Bitwise::Or,
        Operator::BitwiseXor => Bitwise::Xor,
        Operator::BitwiseShiftLeft => Bitwise::ShiftLeft,
        Operator::BitwiseShiftRight => Bitwise::ShiftRight,
        _ => return None,
    })
}
