//! Groups as a build side: the accumulator words of each group at its key's index, from which aggregates are finished where they are looked up.
//!
//! ```text
//! word of group g:  words[g * stride + word]        one of them counts its rows: 0 says that there is no such group
//! ```

use super::emit::Emitter;
use super::interval::{Interval, domain};
use super::value::{Kind, Value};
use crate::reason::Reason;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::collections::BTreeMap;

/// The words of the groups of a build side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupWords {
    /// Words of a group.
    pub(crate) stride: usize,
    /// The word that counts its rows.
    pub(crate) rows: usize,
    /// Aggregates, by column of the build side.
    pub(crate) columns: BTreeMap<usize, GroupColumn>,
}

/// An aggregate of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupColumn {
    /// How it is made from the words.
    pub(crate) form: GroupForm,
    /// The word that counts its values; NULL where that is 0. `None`: never NULL.
    pub(crate) valid: Option<usize>,
}

/// See [`GroupColumn`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum GroupForm {
    /// A count, or a sum of 64 bits, within the interval.
    Integer { word: usize, interval: Interval },
    /// A sum of 128 bits.
    Wide { word: usize },
    /// A sum of doubles.
    Float { word: usize },
    /// The rank of an integer within the interval, complemented for MIN.
    Rank {
        word: usize,
        complement: bool,
        interval: Interval,
    },
    /// The rank of a code, complemented for MIN.
    Code {
        word: usize,
        complement: bool,
        values: ArrayRef,
    },
    /// A decimal average of sums of 64 bits: the sum times the factor, divided by the count towards zero.
    Average {
        sum: usize,
        count: usize,
        factor: i64,
        /// Whether sum times factor may leave 64 bits.
        wide: bool,
        interval: Interval,
    },
    /// An average of doubles.
    AverageFloat { sum: usize, count: usize },
}

impl GroupWords {
    /// The words as C++, by the index in table number `table`.
    fn word(&self, table: usize, index: &str, word: usize) -> String {
        format!(
            "((const u64*)args.tables[{table}])[u64({index}) * {}u + {word}u]",
            self.stride
        )
    }

    /// C++ that says whether there is a group at the index.
    pub(super) fn member(&self, table: usize, index: &str) -> String {
        format!("{} != 0", self.word(table, index, self.rows))
    }

    /// The aggregate of the group at the index.
    ///
    /// # Errors
    /// [`Reason::Encoding`] of a column that is not there.
    pub(super) fn column(
        &self,
        emitter: &mut Emitter<'_>,
        (table, index): (usize, &str),
        column: usize,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        let found = self.columns.get(&column).ok_or(Reason::Encoding {
            column,
            needed: "an aggregate that was made",
        })?;
        let mut word = |word: usize| emitter.define_as("u64", &self.word(table, index, word));
        let flip = |word: String, complement: bool| if complement { format!("~{word}") } else { word };
        let (kind, code, range) = match &found.form {
            GroupForm::Integer { word: at, interval } => {
                (interval.kind(), format!("i64({})", word(*at)), Some(*interval))
            }
            GroupForm::Wide { word: at } => {
                let (low, high) = (word(*at), word(*at + 1));
                (Kind::I128, format!("make_i128({low}, {high})"), domain(data_type))
            }
            GroupForm::Float { word: at } => (
                Kind::F64,
                format!("__longlong_as_double(i64({}))", word(*at)),
                None,
            ),
            GroupForm::Rank {
                word: at,
                complement,
                interval,
            } => {
                let rank = flip(word(*at), *complement);
                (
                    interval.kind(),
                    format!("i64({rank} ^ (1ull << 63))"),
                    Some(*interval),
                )
            }
            GroupForm::Code {
                word: at,
                complement,
                values,
            } => {
                let values = ArrayRef::clone(values);
                (Kind::Code { values }, flip(word(*at), *complement), None)
            }
            GroupForm::Average {
                sum,
                count,
                factor,
                wide,
                interval,
            } => {
                let (sum, count) = (word(*sum), word(*count));
                let average = match wide {
                    true => format!(
                        "{count} == 0 ? i128(0) : i128(i64({sum})) * i128({factor}ll) / i128(i64({count}))"
                    ),
                    false => format!("{count} == 0 ? i64(0) : i64({sum}) * {factor}ll / i64({count})"),
                };
                (interval.kind(), format!("({average})"), Some(*interval))
            }
            GroupForm::AverageFloat { sum, count } => {
                let (sum, count) = (word(*sum), word(*count));
                (
                    Kind::F64,
                    format!("__longlong_as_double(i64({sum})) / double({count})"),
                    None,
                )
            }
        };
        let null = found.valid.map(&mut word);
        let code = emitter.define_as(kind.c_type(), &format!("{}({code})", kind.c_type()));
        let null = null.map(|count| emitter.define_as("bool", &format!("{count} == 0")));
        Ok(Value {
            code,
            null,
            kind,
            data_type: data_type.clone(),
            range: range.map(|Interval { low, high }| (low, high)),
        })
    }
}
