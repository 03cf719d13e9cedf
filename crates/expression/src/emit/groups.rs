//! Columns of groups that stay on the device: words by index, digits of keys, and finished aggregates.

use super::Emitter;
use crate::built::Part;
use crate::error::Fault;
use crate::group_words::{DigitValue, GroupForm, GroupNull, GroupWords, Product, StringForm};
use crate::interval::Interval;
use crate::kernel_error::Place;
use crate::kind::Kind;
use crate::parameters::LookupTable;
use crate::value::Value;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;

impl GroupWords {
    /// C++ expression of a word, by the index in table number `table`.
    fn word(&self, table: usize, index: &str, word: usize) -> String {
        format!(
            "table_entry<u64>(args.tables[{table}], u64({index}) * {}u + {word}u)",
            self.stride
        )
    }

    /// C++ condition that the index has a group.
    pub(super) fn member(&self, table: usize, index: &str) -> String {
        match self.occupied {
            Some(word) => format!("{} != 0", self.word(table, index, word)),
            None => "true".to_owned(),
        }
    }

    /// The column of the group at the index.
    ///
    /// # Errors
    /// [`Reason::Encoding`] of a missing column.
    pub(super) fn column(
        &self,
        emitter: &mut Emitter<'_>,
        (build_side, table, index): (usize, usize, &str),
        column: usize,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        let found = self.columns.get(&column).ok_or(Reason::Encoding {
            column,
            needed: "an aggregate that was made",
        })?;
        let mut entry = Entry {
            words: self,
            emitter,
            build_side,
            table,
            index,
        };
        let digit = entry.digit(&found.form);
        let null = match found.null {
            GroupNull::Never => None,
            GroupNull::Counted(word) => Some(format!("{} == 0", entry.word(word))),
            GroupNull::Bit { word, bit } => Some(format!("({} >> {bit} & 1) != 0", entry.word(word))),
            GroupNull::LastDigit => match (&digit, &found.form) {
                (Some(digit), GroupForm::Digit { radix, .. }) => {
                    let last = entry.emitter.parameter(radix - 1);
                    Some(format!("{digit} == args.literals[{last}]"))
                }
                _ => None,
            },
        };
        let null = null.map(|null| entry.emitter.define_as("bool", &null));
        let (kind, code, range) = entry.value(&found.form, digit.as_deref(), data_type);
        let code = match (&null, &kind) {
            // The code of a NULL must still be valid in the dictionary, and that of a boolean false.
            (Some(null), Kind::Code { .. }) => format!("{null} ? 0 : {code}"),
            (Some(null), Kind::Bool) => format!("!{null} && {code}"),
            _ => code,
        };
        let code = entry
            .emitter
            .define_as(kind.c_type(), &format!("{}({code})", kind.c_type()));
        let value = Value {
            code,
            null,
            kind,
            data_type: data_type.clone(),
            range: range.map(|Interval { low, high }| (low, high)),
        };
        let (GroupForm::Checked { limit, name, .. } | GroupForm::PartitionPasses { limit, name, .. }) =
            &found.form
        else {
            return Ok(value);
        };
        let fault = Fault::of_arithmetic(data_type);
        let place = Place::Named(name.clone());
        Ok(entry.emitter.checked_range_at(value, *limit, fault, place))
    }
}

/// The entry that a row reads.
struct Entry<'e, 'a> {
    words: &'e GroupWords,
    emitter: &'e mut Emitter<'a>,
    build_side: usize,
    table: usize,
    index: &'e str,
}

impl Entry<'_, '_> {
    /// Defines the word.
    fn word(&mut self, word: usize) -> String {
        self.emitter
            .define_as("u64", &self.words.word(self.table, self.index, word))
    }

    /// Defines the digit, if the form is one.
    fn digit(&mut self, form: &GroupForm) -> Option<String> {
        let GroupForm::Digit {
            number,
            divisor,
            radix,
            ..
        } = form
        else {
            return None;
        };
        let number = match number {
            Some(word) => format!("({} - 1)", self.word(*word)),
            None => format!("u64({})", self.index),
        };
        let number = match divisor {
            1 => number,
            divisor => {
                let divisor = self.emitter.parameter(*divisor);
                format!("{number} / args.literals[{divisor}]")
            }
        };
        let radix = self.emitter.parameter(*radix);
        Some(
            self.emitter
                .define_as("u64", &format!("{number} % args.literals[{radix}]")),
        )
    }

    /// Representation, C++ expression and interval of a value.
    fn value(
        &mut self,
        form: &GroupForm,
        digit: Option<&str>,
        data_type: &DataType,
    ) -> (Kind, String, Option<Interval>) {
        let flip = |word: String, complement: bool| if complement { format!("~{word}") } else { word };
        let float = match data_type {
            DataType::Float32 => Kind::F32,
            _ => Kind::F64,
        };
        match form {
            GroupForm::Digit { value, .. } => {
                let digit = digit.unwrap_or("0ull");
                match value {
                    DigitValue::Integer(interval) => {
                        let low = self.emitter.wide_parameter(interval.low);
                        let code = match interval.kind() {
                            Kind::I128 => format!(
                                "make_i128(args.literals[{low}], args.literals[{}]) + i128({digit})",
                                low + 1
                            ),
                            _ => format!("i64(args.literals[{low}] + {digit})"),
                        };
                        (interval.kind(), code, Some(*interval))
                    }
                    DigitValue::Boolean => (Kind::Bool, format!("{digit} == 1"), None),
                    DigitValue::Code(values) => {
                        let values = ArrayRef::clone(values);
                        (Kind::Code { values }, format!("u32({digit})"), None)
                    }
                }
            }
            GroupForm::Integer { word, interval } => (
                interval.kind(),
                format!("i64({})", self.word(*word)),
                Some(*interval),
            ),
            GroupForm::SumPlus { sum, count, each } => {
                let (sum, count) = (self.word(*sum), self.word(*count));
                let each = self.emitter.parameter(*each as u64);
                let code = format!("i64({sum} + {count} * args.literals[{each}])");
                (Kind::I64, code, Some(Interval::of::<i64>()))
            }
            GroupForm::Wide { word, interval } | GroupForm::Checked { word, interval, .. } => {
                let (low, high) = (self.word(*word), self.word(*word + 1));
                (Kind::I128, format!("make_i128({low}, {high})"), Some(*interval))
            }
            GroupForm::PartitionPasses { high, low, .. } => {
                let mut wide = |word: usize| {
                    let (low, high) = (self.word(word), self.word(word + 1));
                    format!("make_i128({low}, {high})")
                };
                let (high, low) = (wide(*high), wide(*low));
                let code = format!("sum_of_halves({high}, {low})");
                (Kind::I128, code, Some(Interval::of::<i128>()))
            }
            GroupForm::Float { word } => {
                let bits = self.word(*word);
                (float, format!("__longlong_as_double(i64({bits}))"), None)
            }
            GroupForm::Rank {
                word,
                complement,
                interval,
            } => {
                let rank = flip(self.word(*word), *complement);
                (
                    interval.kind(),
                    format!("i64({rank} ^ (1ull << 63))"),
                    Some(*interval),
                )
            }
            GroupForm::RankUnsigned { word, complement } => {
                let rank = flip(self.word(*word), *complement);
                let interval = Interval {
                    low: 0,
                    high: u64::MAX.into(),
                };
                (
                    interval.kind(),
                    format!("make_i128({rank}, 0ull)"),
                    Some(interval),
                )
            }
            GroupForm::Bits {
                word,
                complement,
                interval,
            } => {
                let bits = flip(self.word(*word), *complement);
                (interval.kind(), format!("i64({bits})"), Some(*interval))
            }
            GroupForm::RankBoolean { word, complement } => {
                let rank = flip(self.word(*word), *complement);
                (Kind::Bool, format!("({rank} & 1) != 0"), None)
            }
            GroupForm::RankFloat { word, complement } => {
                let rank = flip(self.word(*word), *complement);
                let rank = self.emitter.define_as("u64", &rank);
                let bits = format!("({rank} >> 63) != 0 ? {rank} ^ (1ull << 63) : ~{rank}");
                (float, format!("__longlong_as_double(i64({bits}))"), None)
            }
            GroupForm::Code {
                word,
                complement,
                values,
            } => {
                let values = ArrayRef::clone(values);
                let code = flip(self.word(*word), *complement);
                (Kind::Code { values }, format!("u32({code})"), None)
            }
            GroupForm::Text { word, form } => {
                let place = self.word(*word);
                let build_side = self.build_side;
                let part = Part::Texts;
                let parameters = &mut self.emitter.parameters;
                parameters.finds_strings = true;
                let texts = parameters.lookup_table(LookupTable::Built { build_side, part });
                let (kind, function) = match form {
                    StringForm::Text => (Kind::Text, "interned_string"),
                    StringForm::Integer => (Kind::I128, "interned_integer"),
                };
                (kind, format!("{function}(args.tables[{texts}], {place})"), None)
            }
            GroupForm::Average {
                sum,
                count,
                factor,
                product,
                interval,
            } => {
                let (low, count) = (self.word(*sum), self.word(*count));
                let wide = |sum: &str| {
                    format!("{count} == 0 ? i128(0) : {sum} * i128({factor}ll) / i128(i64({count}))")
                };
                let average = match product {
                    Product::Narrow => {
                        format!("{count} == 0 ? i64(0) : i64({low}) * {factor}ll / i64({count})")
                    }
                    Product::Widened => wide(&format!("i128(i64({low}))")),
                    Product::Wide => {
                        let high = self.word(*sum + 1);
                        wide(&format!("make_i128({low}, {high})"))
                    }
                };
                (interval.kind(), format!("({average})"), Some(*interval))
            }
            GroupForm::AverageFloat { sum, count } => {
                let (sum, count) = (self.word(*sum), self.word(*count));
                (
                    Kind::F64,
                    format!("__longlong_as_double(i64({sum})) / double({count})"),
                    None,
                )
            }
        }
    }
}
