//! The Arrow types that have an encoding, and their families.

use arrow::datatypes::DataType;

/// The family of encodings of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every row is null.
    Null,
    Boolean,
    Integer,
    /// Float16 and Float32.
    Float32,
    Float64,
    /// Integer if the values fit, else 16 bytes.
    Decimal,
    /// Dictionary or string.
    Text {
        utf8: bool,
    },
}

impl Kind {
    /// The family of a type, or the reason why it has none.
    pub(super) fn of(data_type: &DataType) -> Result<Self, &'static str> {
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean,
            data_type if data_type.is_integer() => Self::Integer,
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_)
            | DataType::Decimal32(_, _)
            | DataType::Decimal64(_, _) => Self::Integer,
            DataType::Decimal128(_, _) => Self::Decimal,
            DataType::Float16 | DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text { utf8: true },
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Text { utf8: false },
            DataType::Dictionary(_, values) => match (values.as_ref(), Self::of(values)?) {
                (DataType::Dictionary(_, _), _) => {
                    return Err("dictionaries of dictionaries have no encoding");
                }
                // Decoding creates Arrow dictionaries by casts, which do not support these types.
                (DataType::Duration(_), _) | (_, Self::Null | Self::Boolean) => {
                    return Err("dictionaries of NULLs, booleans and durations have no encoding");
                }
                (_, kind) => kind,
            },
            DataType::Decimal256(_, _) => return Err("decimals of more than 38 digits have no encoding"),
            DataType::Interval(_) => return Err("intervals have no encoding"),
            DataType::FixedSizeBinary(_) => return Err("binaries of fixed size have no encoding"),
            DataType::RunEndEncoded(_, _) => return Err("run-end encoded arrays have no encoding"),
            _ => return Err("nested types have no encoding"),
        })
    }
}

/// Whether the store can hold columns of a type.
///
/// # Errors
/// The reason why it cannot.
pub fn supports_type(data_type: &DataType) -> Result<(), &'static str> {
    Kind::of(data_type).map(|_| ())
}
