//! Representations of values in device code.

use arrow::array::ArrayRef;

/// Representation of a value in device code.
#[derive(Debug, Clone)]
pub enum Kind {
    /// `bool`. False if the value is NULL, so that a filter may test the code alone.
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
    /// `u64`, the place of an interned string (`interned.cuh`).
    Place,
    /// A computed string that is not stored in memory, with a C++ type of its own (`computed_string.cuh`).
    ComputedString,
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
            Self::Place => "u64",
            Self::ComputedString => "auto",
        }
    }

    /// Whether the value is a string represented by its bytes.
    #[must_use]
    pub fn is_bytes(&self) -> bool {
        matches!(self, Self::Text | Self::ComputedString)
    }

    /// Whether the value is a mathematical integer.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self, Self::I32 | Self::I64 | Self::I128)
    }
}
