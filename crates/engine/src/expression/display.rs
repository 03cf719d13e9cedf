//! Expressions as EXPLAIN prints them: columns are `#index`, those of dimensions `d<number>.<name>`.

use std::fmt;

use super::ir::{Expr, ExprKind};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ExprKind::Column(index) => write!(f, "#{index}"),
            ExprKind::Literal(value) => write!(f, "{value}"),
            ExprKind::Arithmetic {
                operator,
                left,
                right,
                ..
            } => write!(f, "({left} {operator} {right})"),
            ExprKind::Bitwise {
                operator,
                left,
                right,
            } => write!(f, "({left} {operator} {right})"),
            ExprKind::Compare {
                operator,
                left,
                right,
                ..
            } => write!(f, "({left} {operator} {right})"),
            ExprKind::And(left, right) => write!(f, "({left} AND {right})"),
            ExprKind::Or(left, right) => write!(f, "({left} OR {right})"),
            ExprKind::Not(input) => write!(f, "NOT {input}"),
            ExprKind::IsNull(input) => write!(f, "{input} IS NULL"),
            ExprKind::Negate(input) => write!(f, "-{input}"),
            ExprKind::Case { branches, otherwise } => {
                write!(f, "CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                write!(f, " END")
            }
            ExprKind::InList {
                value, list, negated, ..
            } => {
                write!(
                    f,
                    "{value} {}IN ({} values)",
                    if *negated { "NOT " } else { "" },
                    list.len()
                )
            }
            ExprKind::Cast { input, safe } => {
                write!(
                    f,
                    "{}CAST({input} AS {})",
                    if *safe { "TRY_" } else { "" },
                    self.data_type()
                )
            }
            ExprKind::Call { function, arguments } => {
                write!(f, "{function}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if index == 0 { "" } else { ", " })?;
                }
                write!(f, ")")
            }
            ExprKind::Dictionary {
                function, argument, ..
            } => write!(f, "[{function}]({argument})"),
            ExprKind::Member { dimension, key } => write!(f, "{key} IN d{dimension}"),
            ExprKind::Lookup { dimension, name, .. } => write!(f, "d{dimension}.{name}"),
        }
    }
}
