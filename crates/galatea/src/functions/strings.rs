//! `strip_accents(string)` and `regexp_split_to_array(string, pattern[, options])`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use regex::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::wrong_arguments;

/// The strings of an argument.
pub(super) fn strings(argument: &ColumnarValue, rows: usize) -> Result<StringArray> {
    let array = argument.cast_to(&DataType::Utf8, None)?.to_array(rows)?;
    Ok(array.as_string::<i32>().clone())
}

fn is_text(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_null()
}

/// `strip_accents(string)`: letters without their accents. `é` is `e`, and `ø` remains.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StripAccents(Signature);

impl StripAccents {
    pub(super) fn new() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

fn without_accents(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    text.nfd()
        .filter(|letter| !is_combining_mark(*letter))
        .nfc()
        .collect()
}

impl ScalarUDFImpl for StripAccents {
    fn name(&self) -> &'static str {
        "strip_accents"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [text] if is_text(text) => Ok(vec![DataType::Utf8]),
            types => wrong_arguments(self.name(), "a string", types, "strip_accents('é')"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text] = args.args.as_slice() else {
            return exec_err!("{} takes one argument, got {}", self.name(), args.args.len());
        };
        let texts = strings(text, args.number_rows)?;
        let stripped: StringArray = texts.iter().map(|text| text.map(without_accents)).collect();
        Ok(ColumnarValue::Array(Arc::new(stripped) as ArrayRef))
    }
}

/// `regexp_split_to_array(string, pattern[, options])`: the parts of a string between the matches.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Split {
    signature: Signature,
    aliases: Vec<String>,
}

impl Split {
    pub(super) fn new() -> Self {
        let aliases = ["string_split_regex", "str_split_regex"];
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: aliases.map(str::to_owned).to_vec(),
        }
    }
}

/// The pattern with options as DuckDB has them: `i` and `c` for case, `s` and `m` for line ends, `l` for a
/// string without special characters; `g` has no effect.
fn pattern(text: &str, options: &str) -> Result<Regex> {
    let is_literal = options.contains('l');
    let escaped = is_literal.then(|| regex::escape(text));
    let mut builder = RegexBuilder::new(escaped.as_deref().unwrap_or(text));
    for option in options.chars() {
        match option {
            'i' => _ = builder.case_insensitive(true),
            's' => _ = builder.dot_matches_new_line(true),
            'm' | 'n' | 'p' => _ = builder.dot_matches_new_line(false),
            'c' | 'l' | 'g' => {}
            other => {
                return exec_err!(
                    "regexp_split_to_array has no option {other}\nhint: options are c, g, i, l, m, s"
                );
            }
        }
    }
    builder.build().map_err(|error| {
        exec_datafusion_err!("regexp_split_to_array cannot read the pattern {text}: {error}")
    })
}

/// The parts between the matches. A match of no characters ends a part behind the next character.
fn parts<'t>(text: &'t str, pattern: &Regex) -> Vec<&'t str> {
    let (mut found, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let Some(split) = pattern.find_at(text, from) else {
            break;
        };
        if split.is_empty() {
            let first = text[from..].chars().next().map_or(1, char::len_utf8);
            let end = split.start().max(from + first);
            found.push(&text[from..end]);
            from = end;
            if from == text.len() {
                return found;
            }
        } else {
            found.push(&text[from..split.start()]);
            from = split.end();
        }
    }
    found.push(&text[from..]);
    found
}

impl ScalarUDFImpl for Split {
    fn name(&self) -> &'static str {
        "regexp_split_to_array"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types.len() {
            2 | 3 if types.iter().all(is_text) => Ok(vec![DataType::Utf8; types.len()]),
            _ => {
                let takes = "a string, a pattern and options, all strings";
                wrong_arguments(self.name(), takes, types, "regexp_split_to_array('a1b', '[0-9]')")
            }
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        let item = Field::new_list_field(DataType::Utf8, true);
        Ok(DataType::List(Arc::new(item)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arguments = args.args.iter().map(|argument| strings(argument, rows));
        let arguments: Vec<StringArray> = arguments.collect::<Result<_>>()?;
        let [texts, patterns, options @ ..] = arguments.as_slice() else {
            return exec_err!("{} takes two arguments, got {}", self.name(), arguments.len());
        };
        let mut known: Option<(String, String, Regex)> = None;
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in 0..rows {
            let value = |array: &StringArray| array.is_valid(row).then(|| array.value(row).to_owned());
            let option = options.first().map_or(Some(String::new()), value);
            let (Some(text), Some(source), Some(option)) = (value(texts), value(patterns), option) else {
                lists.append_null();
                continue;
            };
            let is_known = |known: &&(String, String, Regex)| known.0 == source && known.1 == option;
            let compiled = match known.as_ref().filter(is_known) {
                Some((_, _, compiled)) => compiled.clone(),
                None => pattern(&source, &option)?,
            };
            for part in parts(&text, &compiled) {
                lists.values().append_value(part);
            }
            lists.append(true);
            known = Some((source, option, compiled));
        }
        Ok::<_, DataFusionError>(ColumnarValue::Array(Arc::new(lists.finish()) as ArrayRef))
    }
}
