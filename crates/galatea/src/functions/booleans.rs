//! Comparisons of a Boolean with a constant string, `flag = 'true'`, as in PostgreSQL and DuckDB.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::scalar::ScalarValue;

/// Plans such comparisons.
#[derive(Debug)]
pub(crate) struct Booleans;

impl ExprPlanner for Booleans {
    fn plan_binary_op(
        &self,
        mut binary: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_flag = |value: &Expr| value.get_type(schema).is_ok_and(|own| own == DataType::Boolean);
        let sides = match (truth(&binary.left), truth(&binary.right)) {
            (None, Some(value)) => Some((&binary.left, value, false)),
            (Some(value), None) => Some((&binary.right, value, true)),
            _ => None,
        };
        if let Some((flag, value, is_left)) = sides
            && is_flag(flag)
        {
            let value = Expr::Literal(ScalarValue::Boolean(Some(value)), None);
            match is_left {
                true => binary.left = value,
                false => binary.right = value,
            }
        }
        Ok(PlannerResult::Original(binary))
    }
}

/// The Boolean of a constant string, if it is the name of one.
fn truth(value: &Expr) -> Option<bool> {
    let Expr::Literal(value @ (ScalarValue::Utf8(_) | ScalarValue::Utf8View(_)), _) = value else {
        return None;
    };
    match value.cast_to(&DataType::Boolean) {
        Ok(ScalarValue::Boolean(value)) => value,
        _ => None,
    }
}
