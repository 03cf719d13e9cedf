//! Display of expressions for EXPLAIN: columns by name if a schema is given, otherwise as `#index`; columns
//! of build sides as `d<number>.<name>`.

use std::fmt;

use arrow::datatypes::Schema;

use super::function::Function;
use super::ir::{Expr, ExprKind};
use super::sql::Quoted;

/// An expression over named columns.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    expr: &'a Expr,
    columns: Option<&'a Schema>,
}

impl Expr {
    /// Displays the expression with the names of its columns.
    #[must_use]
    pub fn named<'a>(&'a self, columns: &'a Schema) -> Named<'a> {
        Named {
            expr: self,
            columns: Some(columns),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nameless = Named {
            expr: self,
            columns: None,
        };
        nameless.fmt(f)
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |expr| Named {
            expr,
            columns: self.columns,
        };
        match self.expr.kind() {
            ExprKind::Column(index) => match self.columns.and_then(|columns| columns.fields().get(*index)) {
                Some(field) => f.write_str(field.name()),
                None => write!(f, "#{index}"),
            },
            ExprKind::Literal(value) => write!(f, "{}", Quoted(value)),
            ExprKind::Arithmetic {
                operator,
                left,
                right,
                ..
            } => write!(f, "({} {operator} {})", named(left), named(right)),
            ExprKind::Bitwise {
                operator,
                left,
                right,
            } => write!(f, "({} {operator} {})", named(left), named(right)),
            ExprKind::Compare {
                operator,
                left,
                right,
                ..
            } => write!(f, "({} {operator} {})", named(left), named(right)),
            ExprKind::And(left, right) => write!(f, "({} AND {})", named(left), named(right)),
            ExprKind::Or(left, right) => write!(f, "({} OR {})", named(left), named(right)),
            ExprKind::Not(input) => write!(f, "NOT {}", named(input)),
            ExprKind::IsNull(input) => write!(f, "{} IS NULL", named(input)),
            ExprKind::Negate(input) => write!(f, "-{}", named(input)),
            ExprKind::LateMaterialised(text) => write!(f, "{} by row", named(text)),
            ExprKind::Case { branches, otherwise } => {
                if let Some(name) = self.expr.name_of_parts() {
                    return f.write_str(name);
                }
                write!(f, "CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {} THEN {}", named(when), named(then))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", named(otherwise))?;
                }
                write!(f, " END")
            }
            ExprKind::InList {
                value, list, negated, ..
            } => {
                write!(
                    f,
                    "{} {}IN ({} values)",
                    named(value),
                    if *negated { "NOT " } else { "" },
                    list.len()
                )
            }
            ExprKind::Cast { input, safe } => {
                write!(
                    f,
                    "{}CAST({} AS {})",
                    if *safe { "TRY_" } else { "" },
                    named(input),
                    self.expr.data_type()
                )
            }
            ExprKind::Call {
                function: Function::SortKey(orders) | Function::SortWord { orders, .. },
                arguments,
            } => {
                for (index, (argument, order)) in arguments.iter().zip(orders).enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}{order}", named(argument))?;
                }
                Ok(())
            }
            ExprKind::Call { function, arguments } => {
                write!(f, "{function}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, named(argument))?;
                }
                write!(f, ")")
            }
            // A function of one column contains its name.
            ExprKind::Dictionary {
                function, argument, ..
            } if argument.as_column().is_some() => write!(f, "{function}"),
            ExprKind::Dictionary {
                function, argument, ..
            } => write!(f, "[{function}]({})", named(argument)),
            ExprKind::Hosted { native, .. } => write!(f, "{}", named(native)),
            ExprKind::Pending(_) => write!(f, "(subquery)"),
            ExprKind::RowNumber => write!(f, "entry"),
            ExprKind::TableRow => write!(f, "row"),
            ExprKind::Tuple(parts) => {
                write!(f, "(")?;
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { ", " }, named(part))?;
                }
                write!(f, ")")
            }
            ExprKind::Member { build_side, key } => write!(f, "{} IN d{build_side}", named(key)),
            ExprKind::Absent { build_side, key } => write!(f, "{} NOT IN d{build_side}", named(key)),
            ExprKind::Lookup { build_side, name, .. } => write!(f, "d{build_side}.{name}"),
        }
    }
}
