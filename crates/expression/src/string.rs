//! String types.

use arrow::datatypes::DataType;

/// Whether values of this type are strings or binary on the device.
pub fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => is_string(values),
        _ => false,
    }
}

/// Whether values of this type are UTF-8 strings.
pub(crate) fn is_utf8(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_utf8(values),
        _ => false,
    }
}
