//! Bindings of a scan's columns to the generated code of one row.
//!
//! Before the statements of an expression, the pipeline declares `c{k}` for each column `k` in
//! [`Expr::columns`](super::Expr::columns), and `bool c{k}_null` if the binding is nullable. The binding
//! describes `c{k}`.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::interval::{Interval, domain};
use super::kind::Kind;

/// One input column in the kernel.
#[derive(Debug, Clone)]
pub struct ColumnBinding {
    /// Logical (Arrow) type of the column.
    pub data_type: DataType,
    /// Type and meaning of `c{k}`.
    pub kind: ColumnKind,
    /// Whether `c{k}_null` exists.
    pub nullable: bool,
}

/// Type and meaning of the C++ variable of a column.
#[derive(Debug, Clone)]
pub enum ColumnKind {
    /// A mathematical integer (integers, dates, times, timestamps, durations, unscaled decimals) between
    /// `min` and `max`, also in rows that are NULL. Its C++ type is [`kind_for`]`(min, max)`.
    Integer {
        /// Least value.
        min: i128,
        /// Greatest value.
        max: i128,
    },
    /// `bool`; false in rows that are NULL.
    Boolean,
    /// `float`.
    Float32,
    /// `double`.
    Float64,
    /// `u32`: the rank of the string in `values`, which is sorted by bytes, distinct and without NULL. 0 in
    /// rows that are NULL.
    Dictionary {
        /// The dictionary.
        values: ArrayRef,
    },
    /// `galatea::Text`: pointer to the bytes, and their number (0 in rows that are NULL).
    Text,
}

/// The narrowest of i32, i64 and i128 that holds all values from `min` to `max`.
#[must_use]
pub fn kind_for(min: i128, max: i128) -> Kind {
    Interval { low: min, high: max }.kind()
}

impl ColumnBinding {
    /// The binding of a column, derived only from its type; strings are [`ColumnKind::Text`].
    #[must_use]
    pub fn of_type(data_type: &DataType, nullable: bool) -> Option<Self> {
        let kind = match data_type {
            DataType::Boolean => ColumnKind::Boolean,
            DataType::Float32 => ColumnKind::Float32,
            DataType::Float64 => ColumnKind::Float64,
            data_type if super::string::is_string(data_type) => ColumnKind::Text,
            data_type => {
                let Interval { low, high } = domain(data_type)?;
                ColumnKind::Integer { min: low, max: high }
            }
        };
        Some(Self {
            data_type: data_type.clone(),
            kind,
            nullable,
        })
    }
}
