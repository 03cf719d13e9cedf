//! The result of an expression's statements.

use arrow::datatypes::DataType;

use super::interval::Interval;
use super::kind::Kind;

/// The result of an expression for one row.
#[derive(Debug, Clone)]
pub struct Value {
    /// Name of the C++ variable with the value. Undefined if `null` is true, but still within `range`, and
    /// false for booleans.
    pub code: String,
    /// Name of a `bool` variable that is true if the value is NULL; `None` if it never is.
    pub null: Option<String>,
    /// C++ representation.
    pub kind: Kind,
    /// Logical type.
    pub data_type: DataType,
    /// For integers, the interval of `code`, including NULL rows.
    pub range: Option<(i128, i128)>,
}

impl Value {
    /// The interval of an integer value; a boolean is 0 or 1.
    pub fn interval(&self) -> Interval {
        match (self.range, &self.kind) {
            (Some((low, high)), _) => Interval { low, high },
            (None, Kind::I32) => Interval::of::<i32>(),
            (None, Kind::I64) => Interval::of::<i64>(),
            (None, Kind::Bool) => Interval { low: 0, high: 1 },
            (None, _) => Interval {
                low: i128::MIN,
                high: i128::MAX,
            },
        }
    }
}
