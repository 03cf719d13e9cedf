//! Dimensions: tables that the rows of a pipeline look up by a key (Sitaridi & Ross, §2).
//!
//! A foreign key whose values lie close together needs no hash table: the dimension is a set of arrays, one
//! per column, and the row of key `k` is at index `k - low`.
//!
//! ```text
//! d_datekey  d_year                low = 19940101         index   0     1     2   ...   30    31  ...  99  100
//! 19940101   1994                  presence (bits)                1     1     1   ...    1     0  ...   0    1
//! 19940102   1994         ──>      d_year  (i16)               1994  1994  1994   ... 1994     0  ...   0 1994
//! ...
//! ```
//!
//! Strings are keys by their rank among the dimension's own; the codes of the column that is looked up are
//! translated once, on the host. Entries of absent keys hold some value of the column, so any index below the
//! number of entries may be read; whether a row has a partner is the presence bit's to say.
//!
//! These arrays are read through the cache; small dimensions are packed for shared memory (`packed.rs`)
//! instead.
//!
//! Keys occur once: a row has one partner at most, so a join neither repeats rows nor counts them. What
//! breaks that, or would need arrays out of proportion to the rows, is refused with a [`Reason`]; then
//! the side is made by a pipeline, in lists where keys repeat (`built.rs`).

mod host;

pub(super) use host::integers;
use host::{Bits, Indexed};

use std::collections::BTreeMap;
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
use super::text::is_text;
use super::value::Value;
use super::windows::WindowShape;
use galatea_base::reason::Reason;

/// Most indices of a dimension, from its least to its greatest key.
pub const MAX_INDICES: u64 = 16 << 20;

/// Most columns of a dimension that one pipeline reads.
pub const MAX_PAYLOAD: usize = 8;

/// Whether values of the type can be keys.
pub fn is_key(data_type: &DataType) -> bool {
    domain(data_type).is_some() || is_text(data_type)
}

/// The rows of a dimension, as arrays indexed by key.
#[derive(Debug, PartialEq)]
pub struct Dimension {
    rows: u64,
    /// Whether rows have NULL for a key; not known of those on the device.
    null_keys: bool,
    pub(super) keys: Keys,
    pub(super) presence: Presence,
    columns: BTreeMap<usize, Payload>,
    pub(super) form: Form,
}

/// What the rows are, and which memory they are in.
#[derive(Debug, PartialEq)]
pub(super) enum Form {
    /// Rows on the host, one of each key.
    Host,
    /// Rows that a pipeline left on the device, one of each key.
    Arrays,
    /// Groups that a pipeline left there, instead of presence and columns.
    Groups(GroupWords),
    /// Rows that a pipeline left there, any number of each key: what is looked up is the list of a key.
    Lists,
    /// The pairs of a join, by their number.
    Pairs(PairShape),
    /// Rows in the order of a window, by their place.
    Windows(WindowShape),
    /// Rows by position, which are the part with that number of the rows of a pipeline.
    Stored(u32),
    /// Rows in partitions, by their position.
    Partitions,
}

/// How it is told whether a row has an index.
#[derive(Debug, PartialEq)]
pub(super) enum Presence {
    /// Every index has one.
    Every,
    /// By a bit for each index.
    Bits(Table),
    /// By the entry of the column with that number, which is this where there is no row: what a row needs of
    /// its partner tells it that there is one.
    Entry(usize, Spare),
}

/// What index a key has.
#[derive(Debug, PartialEq)]
pub(super) enum Keys {
    /// There are none.
    Nothing,
    /// `key - low`.
    Integers(Interval),
    /// The rank among these, which are sorted and distinct.
    Strings(CodedStrings),
    /// The number of the key, or its slot in a table of keys on the device.
    Space(KeySpace),
    /// Nothing but the number of the row of the pipeline: the entries, pairs or places are its rows.
    Rows,
}

/// A table by index.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Table {
    /// In host memory, to be uploaded.
    Host(Arc<[u8]>),
    /// Part of a dimension that is built on the device.
    Built(Part),
}

impl Table {
    /// Its bytes; none of one on the device.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Host(bytes) => bytes,
            Self::Built(_) => &[],
        }
    }

    /// As a kernel of the pipeline that looks up dimension number `dimension` gets it.
    pub(super) fn of(&self, dimension: usize) -> LookupTable {
        match self {
            Self::Host(bytes) => LookupTable::Host(Arc::clone(bytes)),
            Self::Built(part) => LookupTable::Built {
                dimension,
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
    /// A bit per index: whether the value is NULL; `None` when none is.
    pub(super) nulls: Option<Table>,
}

impl Dimension {
    /// The dimension whose rows have these keys and these values of `columns`, by column number; `name` is
    /// the key's, for reasons. Rows with NULL keys have no index. `unique`: two rows of one key are refused.
    ///
    /// # Errors
    /// [`Reason::Limit`] if keys spread too far or occur twice, [`Reason::Type`] of types without a device
    /// representation.
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

    /// The dimension that a pipeline builds on the device: its shape, whatever its rows are. The entries of
    /// the column at the position that `marker` names say where there is no row.
    pub fn built(space: &KeySpace, columns: &[BuiltColumn], marker: Option<(usize, Spare)>) -> Self {
        Self {
            presence: match (space.slots, marker) {
                // A key that is in the table of keys has a row.
                (Some(_), _) => Presence::Every,
                (None, Some((position, spare))) => Presence::Entry(columns[position].column, spare),
                (None, None) => Presence::Bits(Table::Built(Part::Presence)),
            },
            columns: payloads(columns),
            ..Self::on_device(Keys::of(space), Form::Arrays)
        }
    }

    /// The groups that a pipeline leaves on the device, as [`Self::built`].
    pub fn grouped(space: &KeySpace, groups: GroupWords) -> Self {
        Self::on_device(Keys::of(space), Form::Groups(groups))
    }

    /// The entries of a group table that a pipeline leaves on the device, as the rows of another one.
    pub fn entries(groups: GroupWords) -> Self {
        Self::on_device(Keys::Rows, Form::Groups(groups))
    }

    /// The rows that a pipeline leaves on the device in lists by key.
    pub fn lists(space: &KeySpace) -> Self {
        Self::on_device(Keys::of(space), Form::Lists)
    }

    /// The pairs of a join that pipelines leave on the device, as the rows of another one: the columns of
    /// the probe side, then those of the build side.
    pub fn pairs(probe: &[BuiltColumn], build: &[BuiltColumn], shape: PairShape) -> Self {
        Self {
            columns: payloads(&[probe, build].concat()),
            ..Self::on_device(Keys::Rows, Form::Pairs(shape))
        }
    }

    /// The rows that a pipeline leaves on the device in the order of a window, as the rows of another one.
    pub fn windows(columns: &[BuiltColumn], shape: WindowShape) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Windows(shape))
        }
    }

    /// The rows that a pipeline leaves on the device by position, as a part of the rows of another one.
    pub fn stored(columns: &[BuiltColumn], part: u32) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Stored(part))
        }
    }

    /// The rows that a pipeline leaves on the device in partitions, as the rows of another one.
    pub fn partitions(columns: &[BuiltColumn]) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Partitions)
        }
    }

    /// A part of a join that nothing looks up as it is.
    pub fn unfinished() -> Self {
        Self::on_device(Keys::Nothing, Form::Lists)
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

    /// Whether a row that was collected has NULL for a key.
    #[must_use]
    pub fn has_null_keys(&self) -> bool {
        self.null_keys
    }

    /// Whether it is built on the device.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.form != Form::Host
    }

    /// Whether it is the pairs of a join.
    #[must_use]
    pub fn is_pairs(&self) -> bool {
        matches!(self.form, Form::Pairs(_))
    }

    /// Whether it is rows in the order of a window.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        matches!(self.form, Form::Windows(_))
    }

    /// Whether it is rows in partitions.
    #[must_use]
    pub fn is_partitions(&self) -> bool {
        self.form == Form::Partitions
    }

    /// Whether a pipeline that has it has its entries for rows: groups, or rows in partitions.
    #[must_use]
    pub fn is_entries(&self) -> bool {
        self.keys == Keys::Rows && matches!(self.form, Form::Groups(_) | Form::Partitions)
    }

    /// Whether a pipeline that has it goes through its rows, and not through those of a table.
    #[must_use]
    pub fn gives_rows(&self) -> bool {
        self.is_pairs() || self.is_windows() || self.is_partitions() || self.is_entries()
    }

    /// The keys of rows that a pipeline left on the device, if they are looked up by key.
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

    /// Rows of the dimension; 0 of one that is built on the device.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of all arrays.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let columns = (self.columns.values()).flat_map(|c| [Some(&c.table), c.nulls.as_ref()]);
        let presence = match &self.presence {
            Presence::Bits(table) => Some(table),
            Presence::Every | Presence::Entry(..) => None,
        };
        columns.chain([presence]).flatten().map(|t| t.bytes().len()).sum()
    }

    /// Indices, from the least key to the greatest.
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

    /// The index of an integer key, whether or not a row has it.
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

    /// A column that was asked for.
    pub(super) fn column(&self, column: usize) -> Option<&Payload> {
        self.columns.get(&column)
    }
}

impl Keys {
    /// Those of a build side on the device.
    fn of(space: &KeySpace) -> Self {
        match (space.parts.as_slice(), space.slots) {
            ([part], None) if part.values.is_none() && !part.nulls => Self::Integers(part.interval),
            _ => Self::Space(space.clone()),
        }
    }
}

/// The columns of a dimension on the device, by number.
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

    /// The value of SQL type `data_type` that this C++ is.
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

    fn limit(outcome: Result<Dimension, Reason>) -> (u64, u64) {
        match outcome {
            Err(Reason::Limit { asked, limit, .. }) => (asked, limit),
            Err(Reason::RepeatedKey { rows, .. }) => (rows, 1),
            other => panic!("expected a limit, got {other:?}"),
        }
    }

    #[test]
    fn rows_lie_at_the_index_of_their_key() {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![Some(-2), None, Some(1), Some(0)]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("z"), None, Some("a")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![300, 5, -7, 12]));
        let dimension = Dimension::new("k", &keys, &[(1, names), (2, numbers)], true).expect("dense keys");
        assert_eq!(dimension.keys, Keys::Integers(Interval { low: -2, high: 1 }));
        assert_eq!(
            dimension.presence,
            Presence::Bits(Table::Host(Arc::from([0b1101, 0, 0, 0]))),
            "-1 is absent"
        );
        let names = dimension.column(1).expect("asked for");
        assert_eq!((names.c_type, names.table.bytes()), ("u8", &[1, 0, 0, 0][..]));
        assert_eq!(
            names.nulls.as_ref().map(Table::bytes),
            Some(&[0b1000, 0, 0, 0][..])
        );
        let numbers = dimension.column(2).expect("asked for");
        assert_eq!(numbers.c_type, "i16");
        let entries = numbers
            .table
            .bytes()
            .chunks(2)
            .map(|entry| i16::from_le_bytes([entry[0], entry[1]]));
        assert_eq!(entries.collect::<Vec<_>>(), [300, -7, 12, -7]);
    }

    #[test]
    fn repeated_and_scattered_keys_are_refused_with_numbers() {
        let keys = |keys: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(keys)) };
        assert_eq!(
            limit(Dimension::new("k", &keys(vec![4, 9, 4]), &[], true)),
            (2, 1)
        );
        assert!(
            Dimension::new("k", &keys(vec![4, 9, 4]), &[], false).is_ok(),
            "existence alone"
        );
        let scattered = keys(vec![0, 10_000_000]);
        assert_eq!(
            limit(Dimension::new("k", &scattered, &[], true)),
            (10_000_001, 2 * 64 + (4 << 20))
        );
        let ends = keys(vec![i64::MIN, i64::MAX]);
        assert_eq!(limit(Dimension::new("k", &ends, &[], true)).0, u64::MAX);
    }
}
