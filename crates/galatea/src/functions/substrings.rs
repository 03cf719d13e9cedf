//! Positions in strings: `s[1]` is a character, and `s[2:3]` a part, as in DuckDB.
//!
//! DataFusion reads both as elements of a list. Here they become `substr`, which runs on the device.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::greatest;
use datafusion::functions::expr_fn::{character_length, substring};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, lit, when};
use datafusion::scalar::ScalarValue;

/// Plans positions in strings.
#[derive(Debug)]
pub(crate) struct Substrings;

impl ExprPlanner for Substrings {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if !access.expr.get_type(schema).is_ok_and(|own| own.is_string()) {
            return Ok(PlannerResult::Original(access));
        }
        let text = &access.expr;
        let (start, length) = match &access.field_access {
            GetFieldAccess::ListIndex { key } => (position(text, key)?, lit(1_i64)),
            GetFieldAccess::ListRange { start, stop, stride } if is_one(stride) => {
                let (start, stop) = (position(text, start)?, position(text, stop)?);
                let length = greatest(vec![stop - start.clone() + lit(1_i64), lit(0_i64)]);
                (start, length)
            }
            _ => return Ok(PlannerResult::Original(access)),
        };
        Ok(PlannerResult::Planned(substring(access.expr, start, length)))
    }
}

fn is_one(stride: &Expr) -> bool {
    matches!(stride, Expr::Literal(ScalarValue::Int64(Some(1)), _))
}

/// A position from the start: those below zero count from the end.
fn position(text: &Expr, position: &Expr) -> Result<Expr> {
    let from_end = || character_length(text.clone()) + position.clone() + lit(1_i64);
    match position {
        Expr::Literal(ScalarValue::Int64(Some(0..)), _) => Ok(position.clone()),
        Expr::Literal(ScalarValue::Int64(_), _) => Ok(from_end()),
        _ => when(position.clone().lt(lit(0_i64)), from_end()).otherwise(position.clone()),
    }
}
