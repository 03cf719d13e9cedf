//! `to_json(value)`, `json_object(name, value, ...)`, `json_array(value, ...)` and `json_valid(string)`.
//!
//! JSON is text here. Values are written as arrow's writer of JSON files writes them, with NULL as `null`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use serde::de::IgnoredAny;

use super::strings::strings;
use super::wrong_arguments;

/// The only field of a struct that holds JSON instead of a value.
pub(crate) const JSON_FIELD: &str = "galatea json";

/// Writes structs with [`JSON_FIELD`] as the JSON that they hold, also within lists and structs.
#[derive(Debug)]
struct HeldJson;

impl EncoderFactory for HeldJson {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let Some(holder) = array.as_struct_opt() else {
            return Ok(None);
        };
        let json = match holder.column_by_name(JSON_FIELD) {
            Some(json) if holder.num_columns() == 1 => cast(json, &DataType::Utf8)?,
            _ => return Ok(None),
        };
        let nulls = NullBuffer::union(holder.nulls(), json.nulls());
        let json = json.as_string::<i32>().clone();
        Ok(Some(NullableEncoder::new(Box::new(AsIs(json)), nulls)))
    }
}

/// Writes strings as they are.
struct AsIs(StringArray);

impl Encoder for AsIs {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.value(row).as_bytes());
    }
}

/// `json_valid(string)`: whether a string is JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Valid(Signature);

impl Valid {
    pub(super) fn new() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Valid {
    fn name(&self) -> &'static str {
        "json_valid"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [text] if text.is_string() || text.is_null() => Ok(vec![DataType::Utf8]),
            types => wrong_arguments(self.name(), "a string", types, "json_valid('[1, 2]')"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text] = args.args.as_slice() else {
            return exec_err!("{} takes one argument, got {}", self.name(), args.args.len());
        };
        let texts = strings(text, args.number_rows)?;
        let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        let valid: BooleanArray = texts.iter().map(|text| text.map(is_json)).collect();
        Ok(ColumnarValue::Array(Arc::new(valid)))
    }
}

/// The JSON that a function writes for its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// The value of the only argument.
    Value,
    /// `[a, b]`
    Array,
    /// `{"name": a}`, of names and values in turn.
    Object,
}

/// A function that writes JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Writer {
    name: &'static str,
    aliases: Vec<String>,
    form: Form,
    signature: Signature,
}

impl Writer {
    fn new(name: &'static str, aliases: &[&str], form: Form) -> Self {
        Self {
            name,
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
            form,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    /// `to_json(value)`.
    pub(super) fn of_values() -> Self {
        Self::new(
            "to_json",
            &["row_to_json", "array_to_json", "json_quote"],
            Form::Value,
        )
    }

    /// `json_array(value, ...)`.
    pub(super) fn of_arrays() -> Self {
        Self::new("json_array", &["json_build_array"], Form::Array)
    }

    /// `json_object(name, value, ...)`.
    pub(super) fn of_objects() -> Self {
        Self::new("json_object", &["json_build_object"], Form::Object)
    }
}

impl ScalarUDFImpl for Writer {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match self.form {
            Form::Value if types.len() != 1 => {
                wrong_arguments(self.name, "a value", types, "to_json([1, 2])")
            }
            Form::Object => {
                let names = types.iter().step_by(2);
                if types.len() % 2 == 1 || !names.clone().all(DataType::is_string) {
                    let takes = "names and values in turn";
                    return wrong_arguments(self.name, takes, types, "json_object('name', 1)");
                }
                let coerced = types.iter().enumerate().map(|(at, data_type)| match at % 2 {
                    0 => DataType::Utf8,
                    _ => data_type.clone(),
                });
                Ok(coerced.collect())
            }
            _ => Ok(types.to_vec()),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays: Vec<ArrayRef> = args
            .args
            .iter()
            .map(|argument| argument.to_array(rows))
            .collect::<Result<_>>()?;
        let options = options();
        // The encoder of an array of NULLs without a value in it writes nothing.
        let fields: Vec<FieldRef> = arrays
            .iter()
            .map(|array| Arc::new(Field::new("", array.data_type().clone(), true)))
            .collect();
        let mut encoders = Vec::with_capacity(arrays.len());
        for (field, array) in fields.iter().zip(&arrays) {
            let encoder = make_encoder(field, array.as_ref(), &options);
            encoders.push(encoder.map_err(|error| {
                exec_datafusion_err!(
                    "{} cannot write {} as JSON: {error}",
                    self.name,
                    array.data_type()
                )
            })?);
        }
        let mut text = Vec::new();
        let mut written = Vec::with_capacity(rows);
        for row in 0..rows {
            text.clear();
            if self.form == Form::Value && encoders[0].is_null(row) {
                written.push(None);
                continue;
            }
            let mut value = |at: usize, text: &mut Vec<u8>| match encoders[at].is_null(row) {
                true => text.extend_from_slice(b"null"),
                false => encoders[at].encode(row, text),
            };
            match self.form {
                Form::Value => value(0, &mut text),
                Form::Array => {
                    text.push(b'[');
                    for at in 0..arrays.len() {
                        if at > 0 {
                            text.push(b',');
                        }
                        value(at, &mut text);
                    }
                    text.push(b']');
                }
                Form::Object => {
                    text.push(b'{');
                    for (at, array) in arrays.iter().enumerate() {
                        match at % 2 {
                            0 if array.is_null(row) => {
                                return exec_err!("{}: a name is NULL", self.name);
                            }
                            0 if at > 0 => text.push(b','),
                            0 => {}
                            _ => text.push(b':'),
                        }
                        value(at, &mut text);
                    }
                    text.push(b'}');
                }
            }
            let json = std::str::from_utf8(&text)
                .map_err(|error| exec_datafusion_err!("{}: JSON is not UTF-8: {error}", self.name))?;
            written.push(Some(json.to_owned()));
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(written))))
    }
}

/// Times are written as SQL prints them.
fn options() -> EncoderOptions {
    EncoderOptions::default()
        .with_encoder_factory(Arc::new(HeldJson))
        .with_explicit_nulls(true)
        .with_timestamp_format("%Y-%m-%d %H:%M:%S%.f".to_owned())
        .with_timestamp_tz_format("%Y-%m-%d %H:%M:%S%.f%:z".to_owned())
        .with_datetime_format("%Y-%m-%d %H:%M:%S%.f".to_owned())
}
