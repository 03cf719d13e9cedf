//! Arithmetic that fails on overflow.
//!
//! `BinaryExpr` has a flag for it, which nothing in DataFusion sets. On decimals the flag has no effect of
//! its own; here it marks decimals with counted digits.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, NegativeExpr};

use super::decimal::CountedDigits;
use galatea_expression::{StringCast, is_capped, is_checked};

/// The expression with its arithmetic checked; `None` if it has none.
pub(crate) fn checked(expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
    let is_exact = |part: &PhysicalExprRef| {
        let data_type = part.data_type(schema);
        data_type.is_ok_and(|data_type| data_type.is_integer() || data_type.is_decimal())
    };
    let checked = Arc::clone(expression).transform_up(|part| {
        if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
            let own = match binary.op() {
                Operator::Plus | Operator::Minus | Operator::Multiply => is_exact(&part),
                Operator::Divide => part.data_type(schema).is_ok_and(|own| own.is_decimal()),
                _ => false,
            };
            let marked = binary.clone().with_fail_on_overflow(true);
            if own && is_exact(binary.left()) && marked != *binary {
                return Ok(Transformed::yes(Arc::new(marked) as PhysicalExprRef));
            }
        } else if let Some(negative) = part.downcast_ref::<NegativeExpr>() {
            let data_type = negative.arg().data_type(schema)?;
            if data_type.is_signed_integer() {
                let zero = Arc::new(Literal::new(ScalarValue::new_zero(&data_type)?));
                let negated = BinaryExpr::new(zero, Operator::Minus, Arc::clone(negative.arg()));
                let negated = negated.with_fail_on_overflow(true);
                return Ok(Transformed::yes(Arc::new(negated) as PhysicalExprRef));
            }
        }
        Ok(Transformed::no(part))
    })?;
    Ok(checked.transformed.then_some(checked.data))
}

/// The expression with casts of strings that parse common notations; `None` if it has none.
pub(super) fn casts_of_strings(
    expression: &PhysicalExprRef,
    schema: &Schema,
) -> Result<Option<PhysicalExprRef>> {
    let read = Arc::clone(expression).transform_up(|part| {
        Ok(match StringCast::of(&part, schema) {
            Some(cast) => Transformed::yes(Arc::new(cast) as PhysicalExprRef),
            None => Transformed::no(part),
        })
    })?;
    Ok(read.transformed.then_some(read.data))
}

/// The node with its digits counted, if its type can be exceeded.
pub(super) fn counted(expression: &PhysicalExprRef, schema: &Schema) -> Option<PhysicalExprRef> {
    let binary = expression.downcast_ref::<BinaryExpr>()?;
    let data_type: DataType = expression.data_type(schema).ok()?;
    let counts = is_capped(&data_type) && is_checked(binary);
    counts.then(|| Arc::new(CountedDigits::new(Arc::clone(expression))) as PhysicalExprRef)
}
