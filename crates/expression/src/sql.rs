//! DataFusion's expressions and constants as SQL.

use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
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

/// An interval in SQL notation.
#[must_use]
pub fn interval_text(months: i32, days: i32, nanoseconds: i64) -> String {
    let mut parts = Vec::new();
    if months != 0 {
        parts.push(format!("{months} months"));
    }
    if days != 0 {
        parts.push(format!("{days} days"));
    }
    if nanoseconds != 0 || parts.is_empty() {
        parts.push(duration_text(nanoseconds.into()));
    }
    format!("INTERVAL '{}'", parts.join(" "))
}

/// Nanoseconds, in the largest unit of time that divides them.
pub(crate) fn duration_text(nanoseconds: i128) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.into_iter().find(|(_, unit)| nanoseconds % unit == 0);
    let (name, unit) = unit.unwrap_or(("ns", 1));
    format!("{} {name}", nanoseconds / unit)
}

/// A literal in SQL notation: strings and times in quotes, decimals with their point.
pub(crate) struct Quoted<'a>(pub(crate) &'a ScalarValue);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ScalarValue::Decimal128(Some(value), precision, scale) => {
                f.write_str(&Decimal128Type::format_decimal(*value, *precision, *scale))
            }
            ScalarValue::IntervalMonthDayNano(Some(value)) => {
                f.write_str(&interval_text(value.months, value.days, value.nanoseconds))
            }
            value @ (ScalarValue::TimestampSecond(Some(_), _)
            | ScalarValue::TimestampMillisecond(Some(_), _)
            | ScalarValue::TimestampMicrosecond(Some(_), _)
            | ScalarValue::TimestampNanosecond(Some(_), _)) => match value.cast_to(&DataType::Utf8) {
                Ok(text) => Quoted(&text).fmt(f),
                Err(_) => write!(f, "{value}"),
            },
            value => match value.try_as_str().flatten() {
                Some(text) => write!(f, "'{}'", text.replace('\'', "''")),
                None => write!(f, "{value}"),
            },
        }
    }
}
