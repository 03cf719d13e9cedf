//! DataFusion's expressions and constants as SQL.

use arrow::datatypes::{Decimal128Type, DecimalType};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use std::fmt;
use std::sync::Arc;

/// The expression with its constants in SQL notation, for display.
pub(crate) fn with_sql_constants(expression: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    let written = Arc::clone(expression).transform(|part| {
        Ok(match part.downcast_ref::<Literal>().map(Literal::value) {
            Some(value) if !value.is_null() => {
                let text = Quoted(value).to_string();
                Transformed::yes(Arc::new(Literal::new(text.into())) as Arc<dyn PhysicalExpr>)
            }
            _ => Transformed::no(part),
        })
    });
    written.map_or_else(|_| Arc::clone(expression), |written| written.data)
}

/// A DataFusion expression as SQL. DataFusion omits the parentheses of `a / (b * c)`.
pub(crate) struct Sql<'a>(pub(crate) &'a Arc<dyn PhysicalExpr>);

impl fmt::Display for Sql<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cast) = self.0.downcast_ref::<CastExpr>() {
            return write!(f, "CAST({} AS {})", Sql(cast.expr()), cast.cast_type());
        }
        let Some(binary) = self.0.downcast_ref::<BinaryExpr>() else {
            return write!(f, "{}", fmt_sql(self.0.as_ref()));
        };
        let operand = |operand: &Arc<dyn PhysicalExpr>, looser: u8| {
            let inner = operand.downcast_ref::<BinaryExpr>();
            match inner.is_some_and(|inner| inner.op().precedence() < looser) {
                true => format!("({})", Sql(operand)),
                false => Sql(operand).to_string(),
            }
        };
        let precedence = binary.op().precedence();
        let (left, right) = (
            operand(binary.left(), precedence),
            operand(binary.right(), precedence + 1),
        );
        write!(f, "{left} {} {right}", binary.op())
    }
}

/// A literal in SQL notation: strings in quotes, decimals with their point.
pub(crate) struct Quoted<'a>(pub(crate) &'a ScalarValue);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ScalarValue::Decimal128(Some(value), precision, scale) => {
                f.write_str(&Decimal128Type::format_decimal(*value, *precision, *scale))
            }
            value => match value.try_as_str().flatten() {
                Some(text) => write!(f, "'{}'", text.replace('\'', "''")),
                None => write!(f, "{value}"),
            },
        }
    }
}
