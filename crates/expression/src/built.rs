//! Build sides that pipelines leave on the device: their columns, and the parts that kernels get by address.

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
    /// A bit for every index that has a row, the table of keys, or the words of groups.
    Presence,
    /// The entries of the column at a position.
    Values(usize),
    /// A bit for every index whose value of the column at a position is NULL.
    Nulls(usize),
    /// By index, where the list of the key starts, and after the last one where it ends.
    Starts,
    /// The words of a join's directory, see `PairWord`.
    Directory,
    /// The texts of keys that have no dictionary.
    Texts,
}

/// What entries mean.
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

/// A column of a dimension that a pipeline builds on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltColumn {
    /// Number of the column in the dimension.
    pub column: usize,
    /// What entries mean.
    pub(crate) values: PayloadKind,
    /// C++ type of an entry.
    pub c_type: &'static str,
    /// Its bytes.
    pub width: usize,
    /// Whether a value may be NULL.
    pub nullable: bool,
}

impl BuiltColumn {
    /// The column of such values.
    ///
    /// # Errors
    /// [`Reason::Encoding`] of text without a dictionary.
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
            Kind::Text | Kind::MadeText | Kind::Place => {
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

    /// What entries without a row can hold, if there is anything that no row has.
    pub fn spare(&self) -> Option<Spare> {
        let values = match &self.values {
            PayloadKind::Integer(interval) => *interval,
            PayloadKind::Code(values) => Interval {
                low: 0,
                high: values.len().saturating_sub(1) as i128,
            },
            // All that is not 0 is read as true.
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

/// A value that no row has, whose bytes are all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// Its bytes.
    pub byte: u8,
    /// What a kernel reads.
    pub value: i64,
}

impl Spare {
    /// -1 or the greatest; about the least and the greatest; 0.
    const BYTES: [u8; 4] = [0xff, 0x80, 0x7f, 0];
}

/// A side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PairSide {
    /// The rows that looked others up.
    Probe,
    /// The rows that were looked up.
    Build,
}

/// What is known of the pairs of a join, whatever its rows are.
#[derive(Debug, Clone, PartialEq)]
pub struct PairShape {
    /// Of each column, by number, which side it is of.
    pub sides: BTreeMap<usize, PairSide>,
    /// Sides that rows of the other one may be without.
    pub absent: Vec<PairSide>,
    /// The column that says of a probe row whether it has a partner, if there is one.
    pub mark: Option<usize>,
}

/// The words of the directory of a join: how many pairs there are, and the addresses of what they are made
/// of. Device twins: `PAIR_PROBE_ROWS` and so on in `galatea/pairs.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum PairWord {
    /// Number of probe rows.
    ProbeRows,
    /// Number of pairs.
    Count,
    /// Number of probe rows that stand alone behind the pairs.
    ProbeAlone,
    /// Pairs before each probe row, and all.
    Offsets,
    /// By probe row, where the list of its partners starts.
    Firsts,
    /// Build rows, those of one key next to each other.
    Lists,
    /// A bit for each pair that fulfils the condition; 0: all do.
    Kept,
    /// The probe rows that stand alone; 0: the first ones.
    ProbeNumbers,
    /// The build rows that stand alone.
    BuildNumbers,
    /// A bit for each probe row that has a partner.
    Marks,
    /// From here on of each column its entries, and its NULLs.
    Columns,
}

impl PairWord {
    /// The word of the entries of the column at a position; that of its NULLs follows.
    pub fn column(position: usize) -> usize {
        Self::Columns as usize + 2 * position
    }
}
