//! `hash(values...)`: a number of 64 bits for one or several values of any type.
//!
//! Equal values of one type have equal hashes, in every run of this version. The numbers differ from those of
//! DuckDB.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::wrong_arguments;

/// The seeds of the hashes.
const SEEDS: u64 = 0x6761_6c61_7465_6121;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Hash(Signature);

impl Hash {
    pub(super) fn new() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.is_empty() {
            return wrong_arguments(self.name(), "one value or more", types, "hash(a, b)");
        }
        // Strings have one hash in each of their types.
        let plain = |data_type: &DataType| match data_type.is_string() {
            true => DataType::Utf8,
            false => data_type.clone(),
        };
        Ok(types.iter().map(plain).collect())
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().map_or(args.number_rows, |array| array.len());
        let mut hashes = vec![0; rows];
        create_hashes(&arrays, &RandomState::with_seed(SEEDS), &mut hashes)?;
        let hashes: ArrayRef = Arc::new(UInt64Array::from(hashes));
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        match args.args.iter().all(is_scalar) {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&hashes, 0)?)),
            false => Ok(ColumnarValue::Array(hashes)),
        }
    }
}
