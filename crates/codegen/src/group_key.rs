//! Group keys: maps the values of key expressions to one number, and back.
//!
//! A key part with a bounded interval has finitely many values, plus one for NULL. If the product over all
//! parts is small, the mixed-radix number of a row *is* its group (dense). If it fits 64 bits, it is the key
//! of a hash slot (packed). Otherwise the slot stores a word of null bits followed by the words of each part.

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;
use galatea_expression::code::{Code, line};
use galatea_expression::{Kind, Value};

/// One key expression.
#[derive(Debug, Clone)]
pub struct KeyPart {
    /// Type of the output column.
    pub data_type: DataType,
    /// How values are represented on the device.
    pub form: KeyForm,
    /// Whether the part can be NULL.
    pub nullable: bool,
}

/// Device representation of a key part.
#[derive(Debug, Clone)]
pub enum KeyForm {
    /// `value - low`, in `[0, size)`.
    Integer {
        /// Least value.
        low: i128,
        /// Number of values; `None` if it is 2^64 or more.
        size: Option<u64>,
        /// Number of words if stored unchanged: 1, or 2 for 128-bit values.
        words: usize,
    },
    /// Rank in a sorted dictionary.
    Code {
        /// The dictionary.
        values: ArrayRef,
    },
    /// The bits of a double (floats are widened), with -0 normalised to 0.
    Float64,
    /// The place of an interned string.
    Text,
}

impl KeyPart {
    /// The key part of a key expression's value.
    pub fn new(value: &Value) -> Result<Self, Reason> {
        let form = match &value.kind {
            Kind::Bool => KeyForm::Integer {
                low: 0,
                size: Some(2),
                words: 1,
            },
            Kind::I32 | Kind::I64 | Kind::I128 => {
                let words = if matches!(value.kind, Kind::I128) { 2 } else { 1 };
                let (low, high) = value.range.unwrap_or(match value.kind {
                    Kind::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
                    Kind::I64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
                    _ => (i128::MIN, i128::MAX),
                });
                let size = high
                    .checked_sub(low)
                    .and_then(|d| u64::try_from(d).ok())
                    .and_then(|d| d.checked_add(1));
                KeyForm::Integer { low, size, words }
            }
            Kind::Code { values } => KeyForm::Code {
                values: values.clone(),
            },
            Kind::F32 | Kind::F64 => KeyForm::Float64,
            Kind::Place => KeyForm::Text,
            Kind::Text | Kind::ComputedString => {
                return Err(Reason::Expression {
                    expression: "group key".into(),
                    detail: "a string without a dictionary".into(),
                });
            }
        };
        Ok(Self {
            data_type: value.data_type.clone(),
            form,
            nullable: value.null.is_some(),
        })
    }

    /// Number of distinct values of the part, NULL included; `None` if it is unknown or 2^64 or more.
    pub(super) fn radix(&self) -> Option<u64> {
        let size = match &self.form {
            KeyForm::Integer { size, .. } => (*size)?,
            KeyForm::Code { values } => values.len().max(1) as u64,
            KeyForm::Float64 | KeyForm::Text => return None,
        };
        size.checked_add(u64::from(self.nullable))
    }

    /// Words of the part in a [`KeyLayout::Words`] key.
    fn words(&self) -> usize {
        match self.form {
            KeyForm::Integer { words, .. } => words,
            _ => 1,
        }
    }
}

/// How the parts of a key identify a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLayout {
    /// The mixed-radix number is the number of the group.
    Dense {
        /// Number of groups.
        groups: u64,
    },
    /// The mixed-radix number plus one is a 64-bit hash key; it is never zero.
    Packed,
    /// The word of null bits, followed by the words of each part.
    Words(usize),
}

/// The key of a grouped pipeline.
#[derive(Debug, Clone)]
pub struct GroupKey {
    /// Parts in output order.
    pub parts: Vec<KeyPart>,
    /// How the parts are combined.
    pub layout: KeyLayout,
}

impl GroupKey {
    /// Dense up to `dense_limit` groups, otherwise packed if it fits 64 bits, otherwise words.
    pub fn new(parts: Vec<KeyPart>, dense_limit: u64) -> Result<Self, Reason> {
        let product = product(&parts);
        let layout = match product {
            Some(groups) if groups <= dense_limit => KeyLayout::Dense { groups },
            Some(product) if product < u64::MAX => KeyLayout::Packed,
            _ if parts.len() > 64 => {
                return Err(Reason::Limit {
                    expression: "GROUP BY".into(),
                    asked: parts.len() as u64,
                    limit: 64,
                    unit: "keys",
                });
            }
            _ => KeyLayout::Words(1 + parts.iter().map(KeyPart::words).sum::<usize>()),
        };
        Ok(Self { parts, layout })
    }

    /// Maximum number of groups of `rows` rows.
    pub fn groups_among(&self, rows: u64) -> u64 {
        product(&self.parts).map_or(rows, |groups| groups.min(rows))
    }

    /// Number of words of a hash slot before its accumulators: the key, and the state word of a multi-word
    /// key.
    pub fn slot_key_words(&self) -> usize {
        match self.layout {
            KeyLayout::Dense { .. } => 0,
            KeyLayout::Packed => 1,
            KeyLayout::Words(words) => 1 + words,
        }
    }

    /// Number of key words (without the state word).
    pub fn key_words(&self) -> usize {
        match self.layout {
            KeyLayout::Dense { .. } => 0,
            KeyLayout::Packed => 1,
            KeyLayout::Words(words) => words,
        }
    }

    /// The group of a value of a single-part key, given its encoded value. `code` is the dictionary code, or
    /// encodes the integer `base + factor * code`.
    pub fn group_of_code(&self, code: u32, base: i64, factor: u64) -> u32 {
        match self.parts.first().map(|part| &part.form) {
            Some(KeyForm::Integer { low, .. }) => {
                (i128::from(base) + i128::from(factor) * i128::from(code) - low) as u32
            }
            _ => code,
        }
    }

    /// The last group of a dense key, which is the group of NULL if the key has a single nullable part.
    pub fn last_group(&self) -> u32 {
        match self.layout {
            KeyLayout::Dense { groups } => (groups - 1) as u32,
            _ => u32::MAX,
        }
    }

    /// Statements that compute the row's group: `u32 group`, or `u64 key[n]`.
    pub fn emit(&self, values: &[Value], code: &mut Code) {
        match self.layout {
            KeyLayout::Dense { .. } => self.emit_number("u32", "group", values, code),
            KeyLayout::Packed => {
                self.emit_number("u64", "packed", values, code);
                // Zero marks an empty slot.
                code.lines("const u64 key[1] = {packed + 1ull};");
            }
            KeyLayout::Words(words) => self.emit_words(words, values, code),
        }
    }

    fn emit_number(&self, ctype: &str, name: &str, values: &[Value], code: &mut Code) {
        let mut number = String::from("0");
        for (part, value) in self.parts.iter().zip(values) {
            let radix = part.radix().unwrap_or(1);
            let offset = match &part.form {
                KeyForm::Integer { low, .. } if matches!(value.kind, Kind::I32) && *low == 0 => {
                    format!("{ctype}({})", value.code)
                }
                KeyForm::Integer { low, .. } => match value.kind {
                    Kind::Bool => format!("{ctype}({})", value.code),
                    Kind::I128 => format!("{ctype}({} - {})", value.code, i128_literal(*low)),
                    _ => format!("{ctype}(u64(i64({})) - {}ull)", value.code, *low as i64 as u64),
                },
                _ => format!("{ctype}({})", value.code),
            };
            let offset = match &value.null {
                Some(null) => format!("({null} ? {ctype}({}ull) : {offset})", radix - 1),
                None => offset,
            };
            number = if number == "0" {
                offset
            } else {
                format!("({number}) * {ctype}({radix}ull) + {offset}")
            };
        }
        line!(code, "const {ctype} {name} = {number};");
    }

    fn emit_words(&self, words: usize, values: &[Value], code: &mut Code) {
        let mut nulls = vec!["0ull".to_owned()];
        let mut parts = Vec::new();
        for (bit, (part, value)) in self.parts.iter().zip(values).enumerate() {
            let guard = |text: String| match &value.null {
                Some(null) => format!("({null} ? 0ull : {text})"),
                None => text,
            };
            if let Some(null) = &value.null {
                nulls.push(format!("({null} ? {}ull : 0ull)", 1u64 << bit));
            }
            match (&part.form, &value.kind) {
                (KeyForm::Float64, _) => parts.push(guard(format!("float_group(double({}))", value.code))),
                (_, Kind::I128) => {
                    parts.push(guard(format!("u64({})", value.code)));
                    parts.push(guard(format!("u64(u128({}) >> 64)", value.code)));
                }
                (_, Kind::I32 | Kind::I64) => parts.push(guard(format!("u64(i64({}))", value.code))),
                _ => parts.push(guard(format!("u64({})", value.code))),
            }
        }
        line!(
            code,
            "const u64 key[{words}] = {{{}, {}}};",
            nulls.join(" | "),
            parts.join(", ")
        );
    }

    /// The key values of groups, one column per part. `words` contains the columns of the key words, or the
    /// group numbers of a dense key.
    pub fn decode(&self, words: Vec<Vec<u64>>) -> Vec<KeyColumn> {
        if let KeyLayout::Words(_) = self.layout {
            return self.decode_words(words);
        }
        let mut rest = words.into_iter().next().unwrap_or_default();
        if matches!(self.layout, KeyLayout::Packed) {
            rest.iter_mut().for_each(|number| *number -= 1);
        }
        let mut columns: Vec<KeyColumn> = (self.parts.iter().rev())
            .map(|part| part.decode_digits(&mut rest))
            .collect();
        columns.reverse();
        columns
    }

    fn decode_words(&self, words: Vec<Vec<u64>>) -> Vec<KeyColumn> {
        let mut words = words.into_iter();
        let null_bits = words.next().unwrap_or_default();
        let mut take = || words.next().unwrap_or_default();
        let mut columns = Vec::with_capacity(self.parts.len());
        for (bit, part) in self.parts.iter().enumerate() {
            let low = take();
            let values = match &part.form {
                KeyForm::Integer { words: 2, .. } => {
                    let pairs = low.into_iter().zip(take());
                    let wide = pairs.map(|(low, high)| ((u128::from(high) << 64) | u128::from(low)) as i128);
                    KeyValues::Wide(wide.collect())
                }
                KeyForm::Integer { .. } => {
                    KeyValues::Narrow(low.into_iter().map(|word| word as i64).collect())
                }
                KeyForm::Code { .. } => KeyValues::Codes(low.into_iter().map(|word| word as u32).collect()),
                KeyForm::Float64 => KeyValues::Floats(low.into_iter().map(f64::from_bits).collect()),
                KeyForm::Text => KeyValues::Places(low),
            };
            let valid = |i: usize| null_bits[i] >> bit & 1 == 0;
            let nulls =
                (part.nullable).then(|| NullBuffer::new(BooleanBuffer::collect_bool(null_bits.len(), valid)));
            columns.push(KeyColumn { values, nulls });
        }
        columns
    }
}

impl KeyPart {
    /// Splits the part's digits off mixed-radix numbers.
    fn decode_digits(&self, numbers: &mut [u64]) -> KeyColumn {
        let radix = self.radix().unwrap_or(1);
        let digits: Vec<u64> = numbers
            .iter_mut()
            .map(|number| {
                let digit = *number % radix;
                *number /= radix;
                digit
            })
            .collect();
        let nulls = self.nullable.then(|| {
            let valid = |i: usize| digits[i] != radix - 1;
            NullBuffer::new(BooleanBuffer::collect_bool(digits.len(), valid))
        });
        let values = match &self.form {
            KeyForm::Integer { low, words: 2, .. } => {
                KeyValues::Wide(digits.iter().map(|digit| low + i128::from(*digit)).collect())
            }
            // In 64 bits, sums wrap to the correct value, also for unsigned integers.
            KeyForm::Integer { low, .. } => {
                let low = *low as i64;
                KeyValues::Narrow(
                    digits
                        .iter()
                        .map(|digit| low.wrapping_add(*digit as i64))
                        .collect(),
                )
            }
            _ => KeyValues::Codes(digits.iter().map(|digit| *digit as u32).collect()),
        };
        KeyColumn { values, nulls }
    }
}

/// The values of one key part for many groups.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyColumn {
    /// The values; undefined for NULL.
    pub values: KeyValues,
    /// The validity of the values; `None` if none is NULL.
    pub nulls: Option<NullBuffer>,
}

/// Values of a key part.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValues {
    /// Integers, dates, timestamps, decimals (unscaled) and booleans (0 and 1) in 64 bits; unsigned integers
    /// by their bits.
    Narrow(Vec<i64>),
    /// The same in 128 bits.
    Wide(Vec<i128>),
    /// Indices into the part's dictionary.
    Codes(Vec<u32>),
    /// Floats.
    Floats(Vec<f64>),
    /// Places of interned strings.
    Places(Vec<u64>),
}

/// The product of the parts' numbers of values.
fn product(parts: &[KeyPart]) -> Option<u64> {
    parts
        .iter()
        .try_fold(1u64, |product, part| product.checked_mul(part.radix()?))
}

/// A 128-bit constant in C++, which has no 128-bit literals.
pub fn i128_literal(value: i128) -> String {
    let bits = value as u128;
    format!(
        "i128((u128({}ull) << 64) | {}ull)",
        (bits >> 64) as u64,
        bits as u64
    )
}
