//! Encodes strings of group keys as numbers, with a dictionary per column that grows with the stream.

use super::error::StreamError;
use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type};
use arrow::error::ArrowError;
use datafusion::error::Result;
use galatea_expression::is_string;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of distinct strings of a column.
const MOST: usize = 1 << 22;

/// The dictionaries of a stream: the source encodes strings, the sink decodes them.
#[derive(Debug, Default)]
pub(super) struct StreamStrings(Mutex<HashMap<usize, Dictionary>>);

#[derive(Debug, Default)]
struct Dictionary {
    codes: HashMap<Arc<[u8]>, u32>,
    texts: Vec<Arc<[u8]>>,
}

impl Dictionary {
    fn code(&mut self, text: &[u8]) -> Result<u32, StreamError> {
        if let Some(code) = self.codes.get(text) {
            return Ok(*code);
        }
        if self.texts.len() == MOST {
            return Err(StreamError::StreamStrings { limit: MOST as u64 });
        }
        let (code, text) = (self.texts.len() as u32, Arc::<[u8]>::from(text));
        self.texts.push(Arc::clone(&text));
        self.codes.insert(text, code);
        Ok(code)
    }
}

impl StreamStrings {
    /// The codes of the strings of a column; 0 for NULL.
    pub(super) fn codes(&self, source: usize, array: &ArrayRef) -> Result<Vec<u32>> {
        let bytes = bytes_of(array)?;
        let bytes = bytes.as_binary::<i64>();
        let mut all = self.0.lock();
        let dictionary = all.entry(source).or_default();
        let codes = bytes
            .iter()
            .map(|text| text.map_or(Ok(0), |text| dictionary.code(text)));
        Ok(codes.collect::<Result<_, StreamError>>()?)
    }

    /// The strings of codes, as an array of that type.
    pub(super) fn texts(&self, source: usize, codes: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
        let codes: &UInt32Array = codes.as_primitive::<UInt32Type>();
        let all = self.0.lock();
        let texts = all.get(&source).map_or(&[][..], |dictionary| &dictionary.texts);
        let values: LargeBinaryArray = codes
            .iter()
            .map(|code| code.and_then(|code| texts.get(code as usize)))
            .collect();
        Ok(of_bytes(Arc::new(values), data_type)?)
    }
}

/// Strings of any type as bytes.
fn bytes_of(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let plain = match array.data_type() {
        DataType::Dictionary(_, values) => &cast(array, values)?,
        _ => array,
    };
    let whole = match plain.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => &cast(plain, &DataType::LargeUtf8)?,
        _ => plain,
    };
    cast(whole, &DataType::LargeBinary)
}

fn of_bytes(bytes: ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    debug_assert!(is_string(data_type), "{data_type} is not a string type");
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => cast(&bytes, data_type),
        _ => cast(&cast(&bytes, &DataType::LargeUtf8)?, data_type),
    }
}
