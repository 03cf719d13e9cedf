//! Build sides: tables that the rows of a pipeline look up by a key (Sitaridi & Ross, §2).
//!
//! A foreign key with densely distributed values needs no hash table: the build side is a set of arrays, one
//! per column, and the row with key `k` is at index `k - low`.
//!
//! ```text
//! d_datekey  d_year                low = 19940101         index   0     1     2   ...   30    31  ...  99  100
//! 19940101   1994                  presence (bits)                1     1     1   ...    1     0  ...   0    1
//! 19940102   1994         ──>      d_year  (i16)               1994  1994  1994   ... 1994  1994  ... 1994 1994
//! ...
//! ```
//!
//! The index of a string key is its rank among the keys of the build side. The codes of the looked-up column
//! are mapped to these ranks once, on the host. Absent keys have an entry, too: the least value of the
//! column, or 0 for floats and Booleans. So any index below the number of entries may be read, and the
//! presence bit determines whether a row has a match.
//!
//! These arrays are read through the cache; small build sides are packed for shared memory instead
//! (`packed.rs`).
//!
//! Keys on the host are unique, unless only their existence matters. So a row has at most one match, and a
//! join neither repeats rows nor counts them. Rows with repeated keys, or with arrays out of proportion to
//! the rows, are refused with a [`Reason`]. A pipeline then builds the build side on the device, as a
//! multimap if keys repeat (`built.rs`).

mod host;

pub(super) use host::integers;
use host::{Bits, Indexed};

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::built::{BuiltColumn, PairShape, Part, PayloadKind, Spare};
use super::dictionary::{Bytes, CodedStrings};
use super::group_words::GroupWords;
use super::interval::{Interval, domain};
use super::key_space::{KeySpace, indices_for};
use super::kind::Kind;
use super::parameters::LookupTable;
use super::string::is_string;
use super::value::Value;
use super::windows::WindowShape;
use galatea_base::reason::Reason;

/// Maximum number of indices of a build side, from its least to its greatest key.
pub const MAX_INDICES: u64 = 16 << 20;

/// Maximum number of columns of a build side that one pipeline reads.
pub const MAX_PAYLOAD: usize = 16;

/// Whether values of this type can be keys.
pub fn is_key(data_type: &DataType) -> bool {
    domain(data_type).is_some() || is_string(data_type)
}

/// The rows of a build side, as arrays indexed by key.
#[derive(Debug, PartialEq)]
pub struct LookupSide {
    rows: u64,
    /// Whether any row has a NULL key; false for rows on the device.
    null_keys: bool,
    pub(super) keys: Keys,
    pub(super) presence: Presence,
    columns: BTreeMap<usize, Payload>,
    pub(super) form: Form,
}

/// Kind and location of the rows.
#[derive(Debug, PartialEq)]
pub(super) enum Form {
    /// Rows on the host with unique keys.
    Host,
    /// Rows that a pipeline left on the device, with unique keys.
    Arrays,
    /// Groups that a pipeline left on the device, instead of presence and columns.
    Groups(GroupWords),
    /// Rows that a pipeline left on the device, with any number of rows per key: a lookup returns the rows of
    /// the key.
    Multimap,
    /// The pairs of a join, by number.
    Pairs(PairShape),
    /// Rows in the order of a window, by position.
    Windows(WindowShape),
    /// Rows by position: the input of a union with this number.
    Stored(u32),
    /// Partitioned rows, by position.
    Partitions,
}

/// How the presence of a row at an index is determined.
#[derive(Debug, PartialEq)]
pub(super) enum Presence {
    /// Every index has a row.
    Every,
    /// A bit for each index.
    Bits(Table),
    /// A sentinel in the entries of the column with this number. A row that needs the column anyway thereby
    /// also learns whether it has a match.
    Entry(usize, Spare),
}

/// The mapping from keys to indices.
#[derive(Debug, PartialEq)]
pub(super) enum Keys {
    /// No keys exist.
    Nothing,
    /// `key - low`.
    Integers(Interval),
    /// The rank among these strings, which are sorted and distinct.
    Strings(CodedStrings),
    /// The key number, or its slot in a table of keys on the device.
    Space(KeySpace),
    /// The row number of the pipeline, whose rows are the entries, pairs or positions.
    Rows,
}

/// An array by index: the entries of a column, or bits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Table {
    /// In host memory, to be uploaded.
    Host(Arc<[u8]>),
    /// Part of a build side that is built on the device.
    Built(Part),
}

impl Table {
    /// Bytes of the table; empty for a table on the device.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Host(bytes) => bytes,
            Self::Built(_) => &[],
        }
    }

    /// The table as an argument of a pipeline that looks up build side number `build_side`.
    pub(super) fn of(&self, build_side: usize) -> LookupTable {
        match self {
            Self::Host(bytes) => LookupTable::Host(Arc::clone(bytes)),
            Self::Built(part) => LookupTable::Built {
                build_side,
                part: *part,
            },
        }
    }
}

/// One column by index.
#[derive(Debug, PartialEq)]
pub(super) struct Payload {
    pub(super) values: PayloadKind,
    /// C++ type of an entry.
    pub(super) c_type: &'static str,
    /// The entries.
    pub(super) table: Table,
    /// A bit per index: whether the value is NULL; `None` if none is.
    pub(super) nulls: Option<Table>,
}

impl LookupSide {
    /// A build side on the host with these keys and columns; each column has its number. `name` is the name
    /// of the key in reasons. Rows with NULL keys are left out. If `unique`, repeated keys are refused.
    ///
    /// # Errors
    /// [`Reason::Limit`] if the key range is too large, [`Reason::RepeatedKey`] for repeated keys,
    /// [`Reason::Type`] for types without a device representation.
    pub fn new(
        name: &str,
        keys: &ArrayRef,
        columns: &[(usize, ArrayRef)],
        unique: bool,
    ) -> Result<Self, Reason> {
        let limit = |asked: u64, limit: u64, unit| Reason::Limit {
            expression: format!("the join on {name}"),
            asked,
            limit,
            unit,
        };
        let rows = keys.len() as u64;
        let indexed = Indexed::new(name, keys)?;
        let allowed = indices_for(rows).min(MAX_INDICES);
        if indexed.size > allowed {
            return Err(limit(
                indexed.size,
                allowed,
                "indices, from the least key to the greatest",
            ));
        }
        let mut presence = Bits::new(indexed.size);
        for index in indexed.of_rows.iter().flatten() {
            if presence.set(*index) && unique {
                return Err(Reason::RepeatedKey {
                    expression: format!("the join on {name}"),
                    rows: 2,
                });
            }
        }
        let columns = (columns.iter())
            .map(|(column, values)| Ok((*column, Payload::new(values, &indexed)?)))
            .collect::<Result<_, Reason>>()?;
        Ok(Self {
            rows,
            null_keys: keys.null_count() > 0,
            presence: if presence.ones < indexed.size {
                Presence::Bits(Table::Host(presence.words()))
            } else {
                Presence::Every
            },
            keys: indexed.keys,
            columns,
            form: Form::Host,
        })
    }

    /// The shape of a build side that a pipeline builds on the device, independent of its rows. `marker` is
    /// the position of the column that marks indices without a row, and its sentinel.
    pub fn built(space: &KeySpace, columns: &[BuiltColumn], marker: Option<(usize, Spare)>) -> Self {
        Self {
            presence: match (space.slots, marker) {
                // A key in the table of keys has a row.
                (Some(_), _) => Presence::Every,
                (None, Some((position, spare))) => Presence::Entry(columns[position].column, spare),
                (None, None) => Presence::Bits(Table::Built(Part::Presence)),
            },
            columns: payloads(columns),
            ..Self::on_device(Keys::of(space), Form::Arrays)
        }
    }

    /// Groups that a pipeline leaves on the device, looked up like [`Self::built`].
    pub fn grouped(space: &KeySpace, groups: GroupWords) -> Self {
        Self::on_device(Keys::of(space), Form::Groups(groups))
    }

    /// Entries of a group table that a pipeline leaves on the device, as the rows of another pipeline.
    pub fn entries(groups: GroupWords) -> Self {
        Self::on_device(Keys::Rows, Form::Groups(groups))
    }

    /// Rows that a pipeline leaves on the device as a multimap by key.
    pub fn lists(space: &KeySpace) -> Self {
        Self::on_device(Keys::of(space), Form::Multimap)
    }

    /// Pairs of a join that pipelines leave on the device, as the rows of another pipeline: the columns of
    /// the probe side, then those of the build side.
    pub fn pairs(probe: &[BuiltColumn], build: &[BuiltColumn], shape: PairShape) -> Self {
        Self {
            columns: payloads(&[probe, build].concat()),
            ..Self::on_device(Keys::Rows, Form::Pairs(shape))
        }
    }

    /// Rows that a pipeline leaves on the device in the order of a window, as the rows of another pipeline.
    pub fn windows(columns: &[BuiltColumn], shape: WindowShape) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Windows(shape))
        }
    }

    /// Rows that a pipeline leaves on the device by position, as an input of a union.
    pub fn stored(columns: &[BuiltColumn], part: u32) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Stored(part))
        }
    }

    /// Partitioned rows that a pipeline leaves on the device, as the rows of another pipeline.
    pub fn partitions(columns: &[BuiltColumn]) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Partitions)
        }
    }

    /// An intermediate build side of a join, which is never looked up itself.
    pub fn unfinished() -> Self {
        Self::on_device(Keys::Nothing, Form::Multimap)
    }

    fn on_device(keys: Keys, form: Form) -> Self {
        Self {
            rows: 0,
            null_keys: false,
            keys,
            presence: Presence::Every,
            columns: BTreeMap::new(),
            form,
        }
    }

    /// Whether a row on the host has a NULL key.
    #[must_use]
    pub fn has_null_keys(&self) -> bool {
        self.null_keys
    }

    /// The least and the greatest key of rows on the host with integer keys; `None` without rows, and for
    /// other keys.
    #[must_use]
    pub fn key_range(&self) -> Option<RangeInclusive<i128>> {
        match (&self.form, &self.keys) {
            (Form::Host, Keys::Integers(interval)) => Some(interval.low..=interval.high),
            _ => None,
        }
    }

    /// Whether it is built on the device.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.form != Form::Host
    }

    /// Whether it consists of the pairs of a join.
    #[must_use]
    pub fn is_pairs(&self) -> bool {
        matches!(self.form, Form::Pairs(_))
    }

    /// Whether it consists of rows in the order of a window.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        matches!(self.form, Form::Windows(_))
    }

    /// Whether it consists of partitioned rows.
    #[must_use]
    pub fn is_partitions(&self) -> bool {
        self.form == Form::Partitions
    }

    /// Whether its entries (groups or partitioned rows) are the rows of the pipeline that reads it.
    #[must_use]
    pub fn is_entries(&self) -> bool {
        self.keys == Keys::Rows && matches!(self.form, Form::Groups(_) | Form::Partitions)
    }

    /// Whether it provides the rows of the pipeline that reads it, instead of a table or the inputs of a
    /// union (`Form::Stored`), which are in scan order.
    #[must_use]
    pub fn gives_rows(&self) -> bool {
        self.is_pairs() || self.is_windows() || self.is_partitions() || self.is_entries()
    }

    /// The key space of rows that a pipeline left on the device, if they are looked up by key.
    pub fn key_space(&self) -> Option<KeySpace> {
        match &self.keys {
            Keys::Integers(interval) if self.is_built() => Some(KeySpace::of_integers(*interval)),
            Keys::Space(space) => Some(space.clone()),
            _ => None,
        }
    }

    /// Whether indices are slots of a table of keys on the device.
    #[must_use]
    pub fn has_key_table(&self) -> bool {
        matches!(&self.keys, Keys::Space(space) if space.slots.is_some())
    }

    /// Number of rows; 0 if it is built on the device.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Total bytes of all arrays.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let columns = (self.columns.values()).flat_map(|c| [Some(&c.table), c.nulls.as_ref()]);
        let presence = match &self.presence {
            Presence::Bits(table) => Some(table),
            Presence::Every | Presence::Entry(..) => None,
        };
        columns.chain([presence]).flatten().map(|t| t.bytes().len()).sum()
    }

    /// Number of indices, from the least key to the greatest.
    #[must_use]
    pub fn indices(&self) -> u32 {
        match &self.keys {
            Keys::Nothing => 0,
            Keys::Integers(keys) => (keys.high - keys.low + 1) as u32,
            Keys::Strings(keys) => keys.len() as u32,
            Keys::Space(space) => space.indices() as u32,
            Keys::Rows => u32::MAX,
        }
    }

    /// The index of an integer key, whether or not a row has this key.
    #[must_use]
    pub fn index_of(&self, key: i128) -> Option<u32> {
        match &self.keys {
            Keys::Integers(keys) if keys.contains(key) => Some((key - keys.low) as u32),
            _ => None,
        }
    }

    /// The index of each of the strings.
    ///
    /// # Errors
    /// [`Reason::Expression`] of arrays that are not strings.
    pub fn indices_of(&self, strings: &ArrayRef) -> Result<Vec<Option<u32>>, Reason> {
        let Keys::Strings(keys) = &self.keys else {
            return Ok(vec![None; strings.len()]);
        };
        let (keys, strings) = (Bytes::of(keys)?, Bytes::of(strings)?);
        let index = |string: usize| Some(keys.rank(strings.get(string)?).ok()? as u32);
        Ok((0..strings.len()).map(index).collect())
    }

    /// A column that was requested.
    pub(super) fn column(&self, column: usize) -> Option<&Payload> {
        self.columns.get(&column)
    }
}

impl Keys {
    /// The keys of a build side on the device.
    fn of(space: &KeySpace) -> Self {
        match (space.parts.as_slice(), space.slots) {
            ([part], None) if part.values.is_none() && !part.nulls => Self::Integers(part.interval),
            _ => Self::Space(space.clone()),
        }
    }
}

/// The columns of a build side on the device, by number.
fn payloads(columns: &[BuiltColumn]) -> BTreeMap<usize, Payload> {
    let payload = |(position, column): (usize, &BuiltColumn)| {
        let payload = Payload {
            values: column.values.clone(),
            c_type: column.c_type,
            table: Table::Built(Part::Values(position)),
            nulls: (column.nullable).then_some(Table::Built(Part::Nulls(position))),
        };
        (column.column, payload)
    };
    columns.iter().enumerate().map(payload).collect()
}

impl Payload {
    /// Representation of a value.
    pub(super) fn kind(&self) -> Kind {
        match &self.values {
            PayloadKind::Integer(interval) => interval.kind(),
            PayloadKind::Boolean => Kind::Bool,
            PayloadKind::Float32 => Kind::F32,
            PayloadKind::Float64 => Kind::F64,
            PayloadKind::Code(values) => Kind::Code {
                values: ArrayRef::clone(values),
            },
        }
    }

    /// A value of SQL type `data_type` with this C++ expression.
    pub(super) fn value(&self, code: String, null: Option<String>, data_type: &DataType) -> Value {
        Value {
            code,
            null,
            kind: self.kind(),
            data_type: data_type.clone(),
            range: match self.values {
                PayloadKind::Integer(Interval { low, high }) => Some((low, high)),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array, StringArray};

    fn limit(outcome: Result<LookupSide, Reason>) -> (u64, u64) {
        match outcome {
            Err(Reason::Limit { asked, limit, .. }) => (asked, limit),
            Err(Reason::RepeatedKey { rows, .. }) => (rows, 1),
            other => panic!("expected a limit, got {other:?}"),
        }
    }

    #[test]
    fn rows_are_stored_at_the_index_of_their_key() {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![Some(-2), None, Some(1), Some(0)]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("z"), None, Some("a")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![300, 5, -7, 12]));
        let build_side = LookupSide::new("k", &keys, &[(1, names), (2, numbers)], true).expect("dense keys");
        assert_eq!(build_side.keys, Keys::Integers(Interval { low: -2, high: 1 }));
        assert_eq!(
            build_side.presence,
            Presence::Bits(Table::Host(Arc::from([0b1101, 0, 0, 0]))),
            "-1 is absent"
        );
        let names = build_side.column(1).expect("asked for");
        assert_eq!((names.c_type, names.table.bytes()), ("u8", &[1, 0, 0, 0][..]));
        assert_eq!(
            names.nulls.as_ref().map(Table::bytes),
            Some(&[0b1000, 0, 0, 0][..])
        );
        let numbers = build_side.column(2).expect("asked for");
        assert_eq!(numbers.c_type, "i16");
        let entries = numbers
            .table
            .bytes()
            .chunks(2)
            .map(|entry| i16::from_le_bytes([entry[0], entry[1]]));
        assert_eq!(entries.collect::<Vec<_>>(), [300, -7, 12, -7]);
    }

    #[test]
    fn duplicate_and_sparse_keys_are_refused() {
        let keys = |keys: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(keys)) };
        assert_eq!(
            limit(LookupSide::new("k", &keys(vec![4, 9, 4]), &[], true)),
            (2, 1)
        );
        assert!(
            LookupSide::new("k", &keys(vec![4, 9, 4]), &[], false).is_ok(),
            "existence alone"
        );
        let scattered = keys(vec![0, 10_000_000]);
        assert_eq!(
            limit(LookupSide::new("k", &scattered, &[], true)),
            (10_000_001, 2 * 64 + (4 << 20))
        );
        let ends = keys(vec![i64::MIN, i64::MAX]);
        assert_eq!(limit(LookupSide::new("k", &ends, &[], true)).0, u64::MAX);
    }
}
