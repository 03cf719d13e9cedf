//! The values of a sorted dictionary by their codes, and the codes by their values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

/// The bytes of a dictionary value.
pub(crate) fn dictionary_bytes(dictionary: &ArrayRef, code: usize) -> Option<&[u8]> {
    (code < dictionary.len()).then(|| match dictionary.data_type() {
        DataType::Utf8 => Some(dictionary.as_string::<i32>().value(code).as_bytes()),
        DataType::LargeUtf8 => Some(dictionary.as_string::<i64>().value(code).as_bytes()),
        DataType::Binary => Some(dictionary.as_binary::<i32>().value(code)),
        DataType::LargeBinary => Some(dictionary.as_binary::<i64>().value(code)),
        _ => None,
    })?
}

/// The code of a value in a sorted dictionary, if it contains the value.
pub fn dictionary_code(dictionary: &ArrayRef, value: &[u8]) -> Option<usize> {
    let code = dictionary_lower_bound(dictionary, value);
    (dictionary_bytes(dictionary, code) == Some(value)).then_some(code)
}

/// The smallest code with a value that is at least `value`; the dictionary's length if all are smaller.
pub fn dictionary_lower_bound(dictionary: &ArrayRef, value: &[u8]) -> usize {
    let mut range = 0..dictionary.len();
    while !range.is_empty() {
        let middle = range.start + range.len() / 2;
        match dictionary_bytes(dictionary, middle) {
            Some(found) if found < value => range.start = middle + 1,
            _ => range.end = middle,
        }
    }
    range.start
}
