//! Display of expressions for EXPLAIN: columns by name if a schema is given, otherwise as `#index`; columns
//! of build sides as `d<number>.<name>`.

use std::fmt;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::ScalarValue;

use super::function::{Function, Rounding};
use super::ir::{Expr, ExprKind};
use super::sql::{Quoted, duration_text, interval_text};

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
                let written: Vec<String> = arguments.iter().map(|one| named(one).to_string()).collect();
                match (function, written.as_slice()) {
                    (Function::Like, [value, pattern]) => write!(f, "({value} LIKE {pattern})"),
                    (Function::AddInterval { .. }, [value]) => {
                        write!(f, "({value} + {})", interval(function))
                    }
                    _ => {
                        let (before, after) = constants(function, arguments, self.expr.data_type());
                        let all = [before, written, after].concat();
                        write!(f, "{function}({})", all.join(", "))
                    }
                }
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

/// The constants of a function that returns `data_type`, as SQL writes them before and after its arguments.
fn constants(function: &Function, arguments: &[Expr], data_type: &DataType) -> (Vec<String>, Vec<String>) {
    let places = |places: i32| match places {
        0 => Vec::new(),
        places => vec![places.to_string()],
    };
    match function {
        Function::DatePart(part) => (vec![format!("'{part}'")], Vec::new()),
        Function::DateTrunc(unit) => (vec![format!("'{unit}'")], Vec::new()),
        Function::DateBin { stride, origin } => {
            (vec![duration(*stride, data_type)], start(*origin, data_type))
        }
        Function::DateBinMonths { months, origin } => {
            (vec![format!("{months} months")], start(*origin, data_type))
        }
        Function::Round { places: digits } | Function::TruncateTo { places: digits } => {
            (Vec::new(), places(*digits))
        }
        Function::Multiple {
            rounding: Rounding::ToZero | Rounding::HalfAway,
            divisor,
            ..
        } => {
            let scale = match arguments.first().map(Expr::data_type) {
                Some(DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale)) => i32::from(*scale),
                _ => 0,
            };
            let digits = divisor.checked_ilog10().map_or(0, |digits| digits as i32);
            (Vec::new(), places(scale - digits))
        }
        Function::Substring { start, length } => {
            let all = [Some(*start), *length].into_iter().flatten();
            (Vec::new(), all.map(|number| number.to_string()).collect())
        }
        Function::Piece(number) => (Vec::new(), vec![number.to_string()]),
        Function::Matches(automaton) | Function::CountMatches(automaton) => {
            let pattern = Quoted(&ScalarValue::from(automaton.pattern())).to_string();
            (Vec::new(), vec![pattern])
        }
        _ => (Vec::new(), Vec::new()),
    }
}

/// A number of units of a timestamp type, in the largest unit of time that divides it.
fn duration(length: i64, data_type: &DataType) -> String {
    duration_text(i128::from(length) * nanoseconds(data_type))
}

/// The origin of bins, unless it is that of SQL.
fn start(origin: i64, data_type: &DataType) -> Vec<String> {
    if origin == 0 {
        return Vec::new();
    }
    let nanoseconds = i128::from(origin) * nanoseconds(data_type);
    let time = i64::try_from(nanoseconds).map(|time| ScalarValue::TimestampNanosecond(Some(time), None));
    vec![time.map_or_else(|_| duration_text(nanoseconds), |time| Quoted(&time).to_string())]
}

/// Nanoseconds of a unit of a timestamp type.
fn nanoseconds(data_type: &DataType) -> i128 {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    }
}

/// The interval that [`Function::AddInterval`] adds.
fn interval(function: &Function) -> String {
    match function {
        Function::AddInterval {
            months,
            days,
            nanoseconds,
        } => interval_text(*months, *days, *nanoseconds),
        other => other.to_string(),
    }
}
