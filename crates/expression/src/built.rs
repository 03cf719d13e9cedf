//! Build sides that pipelines leave on the device: their columns, and the parts that kernels access by
//! address.

use super::dictionary::CodedStrings;
use super::interval::Interval;
use super::kind::Kind;
use super::value::Value;
use galatea_base::reason::Reason;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A part of a build side on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A presence bitmap by index, the table of keys, or the words of groups.
    Presence,
    /// The entries of the column at this position.
    Values(usize),
    /// A bit per index: whether the value of the column at this position is NULL.
    Nulls(usize),
    /// By index, the start of the key's list, followed by the end of the last list.
    Starts,
    /// The words of a join's directory, see `PairWord`.
    Directory,
    /// The interned strings of keys without a dictionary.
    Texts,
}

/// Meaning of the entries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PayloadKind {
    /// Integers within the interval.
    Integer(Interval),
    Boolean,
    Float32,
    Float64,
    /// Ranks in the dictionary.
    Code(CodedStrings),
}

/// A column of a build side that a pipeline builds on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltColumn {
    /// Number of the column in the build side.
    pub column: usize,
    /// Meaning of the entries.
    pub(crate) values: PayloadKind,
    /// C++ type of an entry.
    pub c_type: &'static str,
    /// Bytes of an entry.
    pub width: usize,
    /// Whether values can be NULL.
    pub nullable: bool,
}

impl BuiltColumn {
    /// The column for values like `value`.
    ///
    /// # Errors
    /// [`Reason::Encoding`] of strings without a dictionary.
    pub fn new(column: usize, value: &Value) -> Result<Self, Reason> {
        let (values, (c_type, width)) = match &value.kind {
            Kind::I32 | Kind::I64 | Kind::I128 => {
                let interval = value.interval();
                (PayloadKind::Integer(interval), interval.table_type())
            }
            Kind::Bool => (PayloadKind::Boolean, ("u8", 1)),
            Kind::F32 => (PayloadKind::Float32, ("float", 4)),
            Kind::F64 => (PayloadKind::Float64, ("double", 8)),
            Kind::Code { values } => {
                let high = values.len().saturating_sub(1) as i128;
                let codes = Interval { low: 0, high };
                (
                    PayloadKind::Code(CodedStrings(Arc::clone(values))),
                    codes.table_type(),
                )
            }
            Kind::Text | Kind::ComputedString | Kind::Place => {
                return Err(Reason::Encoding {
                    column,
                    needed: "dictionary encoded",
                });
            }
        };
        Ok(Self {
            column,
            values,
            c_type,
            width,
            nullable: value.null.is_some(),
        })
    }

    /// A sentinel for entries without a row; `None` if every entry is a possible value.
    pub fn spare(&self) -> Option<Spare> {
        let values = match &self.values {
            PayloadKind::Integer(interval) => *interval,
            PayloadKind::Code(values) => Interval {
                low: 0,
                high: values.len().saturating_sub(1) as i128,
            },
            // Any nonzero entry is read as true.
            PayloadKind::Boolean | PayloadKind::Float32 | PayloadKind::Float64 => return None,
        };
        if self.nullable || self.width > size_of::<i64>() {
            return None;
        }
        let unused = 8 * (size_of::<i64>() - self.width);
        let spares = Spare::BYTES.map(|byte| {
            let entry = u64::from_ne_bytes([byte; 8]);
            let signed = self.c_type.starts_with('i');
            Spare {
                byte,
                value: if signed {
                    (entry << unused) as i64 >> unused
                } else {
                    (entry >> unused) as i64
                },
            }
        });
        spares
            .into_iter()
            .find(|spare| !values.contains(spare.value.into()))
    }
}

/// A sentinel, which no row has as a value. All its bytes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// The byte that is repeated.
    pub byte: u8,
    /// The value that a kernel reads.
    pub value: i64,
}

impl Spare {
    /// -1 or the greatest value; about the least and the greatest; 0.
    const BYTES: [u8; 4] = [0xff, 0x80, 0x7f, 0];
}

/// A side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PairSide {
    /// The rows that looked up others.
    Probe,
    /// The rows that were looked up.
    Build,
}

/// Shape of a join's pairs, independent of its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct PairShape {
    /// The side of each column, by column number.
    pub sides: BTreeMap<usize, PairSide>,
    /// Sides that can be missing in a pair.
    pub absent: Vec<PairSide>,
    /// The column that contains whether a probe row has a match, if any.
    pub mark: Option<usize>,
}

/// The words of a join's directory: the number of pairs, and the addresses of the arrays that define them.
/// Device twins: `PAIR_PROBE_ROWS` and so on in `galatea/pairs.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum PairWord {
    /// Number of probe rows.
    ProbeRows,
    /// Number of pairs.
    Count,
    /// Number of unmatched probe rows, which follow the pairs.
    ProbeAlone,
    /// Number of pairs before each probe row, and in total.
    Offsets,
    /// By probe row, the start of its list of matches.
    Firsts,
    /// Build rows, grouped by key.
    Multimap,
    /// A bit for each pair that fulfils the condition; 0: all pairs do.
    Kept,
    /// The unmatched probe rows; 0: the first ones.
    ProbeNumbers,
    /// The unmatched build rows.
    BuildNumbers,
    /// A bit for each probe row with a match.
    Marks,
    /// First of the column words: for each column its entries and its NULL bits.
    Columns,
}

impl PairWord {
    /// The word of the entries of the column at this position; the word of its NULL bits follows.
    pub fn column(position: usize) -> usize {
        Self::Columns as usize + 2 * position
    }
}
