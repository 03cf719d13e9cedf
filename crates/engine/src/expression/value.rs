//! What the statements of an expression leave behind.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::interval::Interval;

/// Representation of a value in device code.
#[derive(Debug, Clone)]
pub enum Kind {
    /// `bool`. False whenever the value is NULL, so that a filter may test the code alone.
    Bool,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `i128`.
    I128,
    /// `float`.
    F32,
    /// `double`.
    F64,
    /// `u32`, the rank of a string in a sorted dictionary without duplicates.
    Code {
        /// The dictionary.
        values: ArrayRef,
    },
    /// `galatea::Text`.
    Text,
}

impl Kind {
    /// The C++ type.
    #[must_use]
    pub fn c_type(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Code { .. } => "u32",
            Self::Text => "Text",
        }
    }

    /// Whether the value is a mathematical integer.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::I32 | Self::I64 | Self::I128)
    }
}

/// The result of an expression for one row.
#[derive(Debug, Clone)]
pub struct Value {
    /// Name of the C++ variable that holds it; meaningless where `null` is true (but inside `range`, and
    /// false for booleans).
    pub code: String,
    /// Name of a `bool` variable that is true where the value is NULL; `None` when it never is.
    pub null: Option<String>,
    /// C++ representation.
    pub kind: Kind,
    /// Logical type.
    pub data_type: DataType,
    /// For integers: the interval that holds `code`, NULL rows included.
    pub range: Option<(i128, i128)>,
}

impl Value {
    /// The interval of an integer value.
    pub(crate) fn interval(&self) -> Interval {
        match (self.range, &self.kind) {
            (Some((low, high)), _) => Interval { low, high },
            (None, Kind::I32) => Interval::of::<i32>(),
            (None, Kind::I64) => Interval::of::<i64>(),
            (None, _) => Interval {
                low: i128::MIN,
                high: i128::MAX,
            },
        }
    }
}
