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

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Float32Type, Float64Type};

use super::built::{BuiltColumn, PairShape, Part, PayloadKind};
use super::dictionary::{Bytes, CodedStrings, ranked};
use super::group_words::GroupWords;
use super::interval::{Interval, domain};
use super::key_space::{KeySpace, indices_for};
use super::kind::Kind;
use super::parameters::LookupTable;
use super::text::is_text;
use super::value::Value;
use super::windows::WindowShape;
use crate::reason::Reason;

/// Most indices of a dimension, from its least to its greatest key.
pub const MAX_INDICES: u64 = 16 << 20;

/// Most columns of a dimension that one pipeline reads.
pub const MAX_PAYLOAD: usize = 8;

/// Whether values of the type can be keys.
pub(crate) fn is_key(data_type: &DataType) -> bool {
    domain(data_type).is_some() || is_text(data_type)
}

/// The rows of a dimension, as arrays indexed by key.
#[derive(Debug, PartialEq)]
pub struct Dimension {
    rows: u64,
    /// Whether rows have NULL for a key; not known of those on the device.
    null_keys: bool,
    pub(super) keys: Keys,
    /// A bit per index: whether a row has it; `None` when every index has one.
    pub(super) presence: Option<Table>,
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
    /// Rows in partitions, by their position.
    Partitions,
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
                return Err(Reason::repeated_key(format!("the join on {name}"), 2));
            }
        }
        let columns = (columns.iter())
            .map(|(column, values)| Ok((*column, Payload::new(values, &indexed)?)))
            .collect::<Result<_, Reason>>()?;
        Ok(Self {
            rows,
            null_keys: keys.null_count() > 0,
            presence: (presence.ones < indexed.size).then(|| Table::Host(presence.words())),
            keys: indexed.keys,
            columns,
            form: Form::Host,
        })
    }

    /// The dimension that a pipeline builds on the device: its shape, whatever its rows are.
    pub(crate) fn built(space: &KeySpace, columns: &[BuiltColumn]) -> Self {
        Self {
            // A key that is in the table of keys has a row.
            presence: (space.slots.is_none()).then_some(Table::Built(Part::Presence)),
            columns: payloads(columns),
            ..Self::on_device(Keys::of(space), Form::Arrays)
        }
    }

    /// The groups that a pipeline leaves on the device, as [`Self::built`].
    pub(crate) fn grouped(keys: Interval, groups: GroupWords) -> Self {
        Self::on_device(Keys::Integers(keys), Form::Groups(groups))
    }

    /// The entries of a group table that a pipeline leaves on the device, as the rows of another one.
    pub(crate) fn entries(groups: GroupWords) -> Self {
        Self::on_device(Keys::Rows, Form::Groups(groups))
    }

    /// The rows that a pipeline leaves on the device in lists by key.
    pub(crate) fn lists(space: &KeySpace) -> Self {
        Self::on_device(Keys::of(space), Form::Lists)
    }

    /// The pairs of a join that pipelines leave on the device, as the rows of another one: the columns of
    /// the probe side, then those of the build side.
    pub(crate) fn pairs(probe: &[BuiltColumn], build: &[BuiltColumn], shape: PairShape) -> Self {
        Self {
            columns: payloads(&[probe, build].concat()),
            ..Self::on_device(Keys::Rows, Form::Pairs(shape))
        }
    }

    /// The rows that a pipeline leaves on the device in the order of a window, as the rows of another one.
    pub(crate) fn windows(columns: &[BuiltColumn], shape: WindowShape) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Windows(shape))
        }
    }

    /// The rows that a pipeline leaves on the device in partitions, as the rows of another one.
    pub(crate) fn partitions(columns: &[BuiltColumn]) -> Self {
        Self {
            columns: payloads(columns),
            ..Self::on_device(Keys::Rows, Form::Partitions)
        }
    }

    /// A part of a join that nothing looks up as it is.
    pub(crate) fn unfinished() -> Self {
        Self::on_device(Keys::Nothing, Form::Lists)
    }

    fn on_device(keys: Keys, form: Form) -> Self {
        Self {
            rows: 0,
            null_keys: false,
            keys,
            presence: None,
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

    /// The keys of rows that a pipeline left on the device, if they are looked up by key.
    pub(crate) fn key_space(&self) -> Option<KeySpace> {
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
        columns
            .chain([self.presence.as_ref()])
            .flatten()
            .map(|t| t.bytes().len())
            .sum()
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

/// The index of every row.
struct Indexed {
    keys: Keys,
    /// Number of indices.
    size: u64,
    of_rows: Vec<Option<u32>>,
}

impl Indexed {
    fn new(name: &str, keys: &ArrayRef) -> Result<Self, Reason> {
        if is_text(keys.data_type()) {
            let bytes = Bytes::of(keys)?;
            let (values, ranks) = ranked(&[&bytes], keys.data_type())?;
            let of_rows = (ranks[0].iter().enumerate())
                .map(|(row, rank)| bytes.get(row).map(|_| *rank))
                .collect();
            return Ok(Self {
                size: values.len() as u64,
                keys: if values.is_empty() {
                    Keys::Nothing
                } else {
                    Keys::Strings(CodedStrings(values))
                },
                of_rows,
            });
        }
        let numbers = integers(keys, name)?;
        let Some(interval) = hull(&numbers) else {
            return Ok(Self {
                keys: Keys::Nothing,
                size: 0,
                of_rows: vec![None; numbers.len()],
            });
        };
        let size = interval.high.wrapping_sub(interval.low) as u128 + 1;
        // Where the size is refused, indices are not used.
        let index = |number: i128| number.wrapping_sub(interval.low) as u32;
        Ok(Self {
            keys: Keys::Integers(interval),
            size: u64::try_from(size).unwrap_or(u64::MAX),
            of_rows: numbers.into_iter().map(|number| number.map(index)).collect(),
        })
    }

    /// The values by index; `filler` where there is none.
    fn arranged<T: Clone>(&self, filler: T, value: impl Fn(usize) -> Option<T>) -> Vec<T> {
        // An index of nothing is 0, so there is always an entry to read.
        let mut entries = vec![filler; self.size.max(1) as usize];
        for (row, index) in self.of_rows.iter().enumerate() {
            if let (Some(index), Some(value)) = (index, value(row)) {
                entries[*index as usize] = value;
            }
        }
        entries
    }
}

impl Payload {
    fn new(array: &ArrayRef, indexed: &Indexed) -> Result<Self, Reason> {
        let data_type = array.data_type();
        let valid = |row: usize| array.is_valid(row);
        let (values, (c_type, table)) = if is_text(data_type) {
            let bytes = Bytes::of(array)?;
            let (values, mut ranks) = ranked(&[&bytes], data_type)?;
            let ranks = ranks.swap_remove(0);
            let high = values.len().saturating_sub(1) as i128;
            let numbers = indexed.arranged(0, |row| Some(i128::from(ranks[row])));
            (
                PayloadKind::Code(CodedStrings(values)),
                narrowest(&numbers, Interval { low: 0, high }),
            )
        } else {
            match data_type {
                DataType::Boolean => {
                    let array = array.as_boolean();
                    let bytes = indexed.arranged(0, |row| (valid(row) && array.value(row)).then_some(1));
                    (PayloadKind::Boolean, ("u8", Arc::from(bytes)))
                }
                DataType::Float32 => {
                    let array = array.as_primitive::<Float32Type>();
                    let values = indexed.arranged(0.0, |row| valid(row).then(|| array.value(row)));
                    (
                        PayloadKind::Float32,
                        ("float", Arc::from(bytemuck::cast_slice(&values))),
                    )
                }
                DataType::Float64 => {
                    let array = array.as_primitive::<Float64Type>();
                    let values = indexed.arranged(0.0, |row| valid(row).then(|| array.value(row)));
                    (
                        PayloadKind::Float64,
                        ("double", Arc::from(bytemuck::cast_slice(&values))),
                    )
                }
                _ => {
                    let numbers = integers(array, "a column of a dimension")?;
                    let interval = hull(&numbers).unwrap_or(Interval::point(0));
                    let numbers = indexed.arranged(interval.low, |row| numbers[row]);
                    (PayloadKind::Integer(interval), narrowest(&numbers, interval))
                }
            }
        };
        let mut nulls = Bits::new(indexed.size);
        for (row, index) in indexed.of_rows.iter().enumerate() {
            if let (Some(index), true) = (index, array.is_null(row)) {
                nulls.set(*index);
            }
        }
        Ok(Self {
            values,
            c_type,
            table: Table::Host(table),
            nulls: (nulls.ones > 0).then(|| Table::Host(nulls.words())),
        })
    }

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

/// Bits by index, in little-endian words of 32.
struct Bits {
    bytes: Vec<u8>,
    ones: u64,
}

impl Bits {
    fn new(size: u64) -> Self {
        Self {
            bytes: vec![0; (size.max(1).div_ceil(32) * 4) as usize],
            ones: 0,
        }
    }

    /// Sets a bit; returns whether it was set.
    fn set(&mut self, index: u32) -> bool {
        let (byte, bit) = (&mut self.bytes[index as usize / 8], 1 << (index % 8));
        let known = *byte & bit != 0;
        *byte |= bit;
        self.ones += u64::from(!known);
        known
    }

    fn words(self) -> Arc<[u8]> {
        self.bytes.into()
    }
}

/// The least interval of the numbers.
fn hull(numbers: &[Option<i128>]) -> Option<Interval> {
    let known = || numbers.iter().flatten().copied();
    Some(Interval {
        low: known().min()?,
        high: known().max()?,
    })
}

/// Numbers as a table of the narrowest C++ type that holds the interval.
fn narrowest(numbers: &[i128], interval: Interval) -> (&'static str, Arc<[u8]>) {
    let (c_type, width) = interval.table_type();
    let mut bytes = Vec::with_capacity(numbers.len() * width);
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    (c_type, bytes.into())
}

/// The integers that Arrow stores for values of an integer-like type.
fn integers(array: &ArrayRef, place: &str) -> Result<Vec<Option<i128>>, Reason> {
    fn typed<T: ArrowNativeType + Into<i128>>(array: &ArrayRef) -> Vec<Option<i128>> {
        let data = array.to_data();
        let values = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
        let number = |row: usize| array.is_valid(row).then(|| values[row].into());
        (0..array.len()).map(number).collect()
    }
    let refuse = || Reason::Type {
        data_type: array.data_type().clone(),
        place: place.to_owned(),
    };
    let domain = domain(array.data_type()).ok_or_else(refuse)?;
    Ok(match (array.data_type().primitive_width(), domain.low < 0) {
        (Some(1), true) => typed::<i8>(array),
        (Some(2), true) => typed::<i16>(array),
        (Some(4), true) => typed::<i32>(array),
        (Some(8), true) => typed::<i64>(array),
        (Some(16), true) => typed::<i128>(array),
        (Some(1), false) => typed::<u8>(array),
        (Some(2), false) => typed::<u16>(array),
        (Some(4), false) => typed::<u32>(array),
        (Some(8), false) => typed::<u64>(array),
        _ => return Err(refuse()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array, StringArray};

    fn limit(outcome: Result<Dimension, Reason>) -> (u64, u64) {
        match outcome {
            Err(Reason::Limit { asked, limit, .. }) => (asked, limit),
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
            dimension.presence.as_ref().map(Table::bytes),
            Some(&[0b1101, 0, 0, 0][..]),
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
