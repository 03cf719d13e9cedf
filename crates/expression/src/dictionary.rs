//! The sorted distinct strings of dictionaries, and merging of dictionaries.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::{BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use galatea_store::strings_array;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::string::is_utf8;
use galatea_base::reason::Reason;
use galatea_device::in_parallel;

/// Number of inputs that one thread ranks at a time.
const PIECE: usize = 1 << 14;

/// The sorted distinct strings of a dictionary. Repeated queries compare millions of strings. They are then
/// the same array, or two arrays that were found to be equal before.
#[derive(Debug, Clone)]
pub struct CodedStrings(pub ArrayRef);

impl PartialEq for CodedStrings {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        if self.len() != other.len() {
            return false;
        }
        if self.len() < EqualArrays::WORTH_KNOWING {
            return *self.0 == *other.0;
        }
        EQUAL_ARRAYS.lock().has(&self.0, &other.0) || {
            let equal = *self.0 == *other.0;
            if equal {
                EQUAL_ARRAYS.lock().add(&self.0, &other.0);
            }
            equal
        }
    }
}

/// Recently found pairs of equal arrays.
static EQUAL_ARRAYS: Mutex<EqualArrays> = Mutex::new(EqualArrays(VecDeque::new()));

/// Pairs of equal arrays. A pair is valid as long as both arrays exist: a weak reference prevents the reuse
/// of an array's address.
#[derive(Debug)]
struct EqualArrays(VecDeque<[Weak<dyn Array>; 2]>);

impl EqualArrays {
    /// Minimum number of strings for a comparison to take longer than a search of the pairs.
    const WORTH_KNOWING: usize = 1 << 12;
    /// Maximum number of pairs.
    const PAIRS: usize = 64;

    fn has(&self, one: &ArrayRef, other: &ArrayRef) -> bool {
        let is =
            |known: &Weak<dyn Array>, array: &ArrayRef| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(array));
        let same = |[first, second]: &[Weak<dyn Array>; 2]| {
            is(first, one) && is(second, other) || is(first, other) && is(second, one)
        };
        self.0.iter().any(same)
    }

    fn add(&mut self, one: &ArrayRef, other: &ArrayRef) {
        self.0
            .retain(|pair| pair.iter().all(|array| array.strong_count() > 0));
        self.0.truncate(Self::PAIRS - 1);
        self.0.push_front([Arc::downgrade(one), Arc::downgrade(other)]);
    }
}

impl Deref for CodedStrings {
    type Target = ArrayRef;

    fn deref(&self) -> &ArrayRef {
        &self.0
    }
}

/// Offsets of the strings in the bytes.
enum Offsets {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

/// Strings or binary values as bytes, in the array's own buffers.
pub(crate) struct Bytes {
    array: ArrayRef,
    offsets: Offsets,
    bytes: Buffer,
}

impl Bytes {
    pub(crate) fn of(values: &ArrayRef) -> Result<Self, Reason> {
        let array = match values.data_type() {
            DataType::Dictionary(_, inner) => cast(values, inner).map_err(refuse)?,
            _ => Arc::clone(values),
        };
        let array = match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => array,
            DataType::Utf8View => cast(&array, &DataType::LargeUtf8).map_err(refuse)?,
            _ => cast(&array, &DataType::LargeBinary).map_err(refuse)?,
        };
        let (offsets, bytes) = match array.data_type() {
            DataType::Utf8 => parts::<Utf8Type>(&array, Offsets::Small),
            DataType::LargeUtf8 => parts::<LargeUtf8Type>(&array, Offsets::Large),
            DataType::Binary => parts::<BinaryType>(&array, Offsets::Small),
            _ => parts::<LargeBinaryType>(&array, Offsets::Large),
        };
        Ok(Self {
            array,
            offsets,
            bytes,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.array.len()
    }

    /// The bytes of value `index`; undefined if it is NULL.
    fn value(&self, index: usize) -> &[u8] {
        match &self.offsets {
            Offsets::Small(offsets) => &self.bytes[offsets[index] as usize..offsets[index + 1] as usize],
            Offsets::Large(offsets) => &self.bytes[offsets[index] as usize..offsets[index + 1] as usize],
        }
    }

    /// Value `index`; `None` if it is NULL.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.array.is_valid(index).then(|| self.value(index))
    }

    /// Searches sorted values for `bytes`. Returns the number of lesser values, as `Ok` if `bytes` is found.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.value(middle).cmp(bytes) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Whether the values are strictly ascending and not NULL, as in a dictionary.
    fn ascend(&self) -> bool {
        let pairs = (1..self.len()).into_par_iter().with_min_len(PIECE);
        self.array.null_count() == 0 && pairs.all(|index| self.value(index - 1) < self.value(index))
    }
}

fn parts<T: ByteArrayType>(
    array: &ArrayRef,
    offsets: impl FnOnce(OffsetBuffer<T::Offset>) -> Offsets,
) -> (Offsets, Buffer) {
    let strings = array.as_bytes::<T>();
    (offsets(strings.offsets().clone()), strings.values().clone())
}

fn refuse(error: impl std::fmt::Display) -> Reason {
    Reason::Expression {
        expression: "dictionary".to_owned(),
        detail: error.to_string(),
    }
}

/// Sorted distinct values, and for each input the ranks of its values.
type Ranked = (ArrayRef, Vec<Vec<u32>>);

/// The sorted distinct values of `inputs`, as an array of the plain type of `like`, and the rank of every
/// input value (0 for NULL).
pub(crate) fn ranked(inputs: &[&Bytes], like: &DataType) -> Result<Ranked, Reason> {
    in_parallel(|| ranked_in_parallel(inputs, like))
}

fn ranked_in_parallel(inputs: &[&Bytes], like: &DataType) -> Result<Ranked, Reason> {
    let plain = match like {
        DataType::Dictionary(_, inner) => inner.as_ref(),
        other => other,
    };
    if let Some(ranked) = added_to_sorted(inputs, plain)? {
        return Ok(ranked);
    }
    // Values are deduplicated by hashing first, because most columns repeat a few values; only distinct
    // values are sorted.
    let pieces: Vec<(&Bytes, usize)> = (inputs.iter())
        .flat_map(|bytes| (0..bytes.len()).step_by(PIECE).map(|start| (*bytes, start)))
        .collect();
    let mut distinct: Vec<&[u8]> = (pieces.into_par_iter())
        .flat_map_iter(|(bytes, start)| {
            let end = (start + PIECE).min(bytes.len());
            let values = (start..end).filter_map(|index| bytes.get(index));
            values.collect::<HashSet<&[u8]>>()
        })
        .collect();
    distinct.par_sort_unstable();
    distinct.dedup();
    let numbers = distinct.iter().enumerate();
    let numbers: HashMap<&[u8], u32> = numbers.map(|(rank, value)| (*value, rank as u32)).collect();
    let rank = |value: &[u8]| numbers.get(value).copied().unwrap_or(0);
    let ranks = (inputs.iter())
        .map(|bytes| {
            let indices = (0..bytes.len()).into_par_iter();
            indices.map(|index| bytes.get(index).map_or(0, rank)).collect()
        })
        .collect();
    Ok((array_of(plain, &distinct)?, ranks))
}

/// Extends an input that is already sorted and distinct, such as a dictionary, by the few values that the
/// other inputs add. `None` if no input is sorted, or if many values are added.
fn added_to_sorted(inputs: &[&Bytes], plain: &DataType) -> Result<Option<Ranked>, Reason> {
    let Some((sorted_at, sorted)) = inputs.iter().enumerate().max_by_key(|(_, bytes)| bytes.len()) else {
        return Ok(None);
    };
    let others = || inputs.iter().enumerate().filter(|(at, _)| *at != sorted_at);
    let more: usize = others().map(|(_, bytes)| bytes.len()).sum();
    if more > sorted.len() / 16
        || *sorted.array.data_type() != type_of(plain, sorted.bytes.len())
        || !sorted.ascend()
    {
        return Ok(None);
    }
    // Each added value, with the position before which it is inserted.
    let mut added: Vec<(usize, &[u8])> = others()
        .flat_map(|(_, bytes)| (0..bytes.len()).filter_map(|index| bytes.get(index)))
        .filter_map(|value| Some((sorted.rank(value).err()?, value)))
        .collect();
    added.sort_unstable();
    added.dedup();
    let bytes = sorted.bytes.len() + added.iter().map(|(_, value)| value.len()).sum::<usize>();
    if type_of(plain, bytes) != *sorted.array.data_type() {
        return Ok(None);
    }
    let before = |place: usize| added.partition_point(|(at, _)| *at <= place) as u32;
    let rank = |value: &[u8]| match sorted.rank(value) {
        Ok(place) => place as u32 + before(place),
        Err(place) => {
            place as u32 + added.partition_point(|(at, other)| (*at, *other) < (place, value)) as u32
        }
    };
    let ranks = (inputs.iter().enumerate())
        .map(|(at, bytes)| {
            let indices = (0..bytes.len()).into_par_iter();
            match at == sorted_at {
                true => indices.map(|place| place as u32 + before(place)).collect(),
                false => indices.map(|index| bytes.get(index).map_or(0, rank)).collect(),
            }
        })
        .collect();
    if added.is_empty() {
        return Ok(Some((Arc::clone(&sorted.array), ranks)));
    }
    let (mut parts, mut end) = (Vec::new(), 0);
    for (place, value) in &added {
        parts.push(sorted.array.slice(end, place - end));
        parts.push(
            array_of(plain, &[*value])
                .and_then(|value| cast(&value, sorted.array.data_type()).map_err(refuse))?,
        );
        end = *place;
    }
    parts.push(sorted.array.slice(end, sorted.len() - end));
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(Some((concat(&parts).map_err(refuse)?, ranks)))
}

/// The array type for values with a total of `bytes` bytes.
fn type_of(plain: &DataType, bytes: usize) -> DataType {
    let small = i32::try_from(bytes).is_ok();
    match (is_utf8(plain), small) {
        (true, true) => DataType::Utf8,
        (true, false) => DataType::LargeUtf8,
        (false, true) => DataType::Binary,
        (false, false) => DataType::LargeBinary,
    }
}

/// The values as an array of the type that fits their bytes.
fn array_of(plain: &DataType, values: &[&[u8]]) -> Result<ArrayRef, Reason> {
    strings_array(values, is_utf8(plain)).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    /// Checks the ranks against those among all values.
    fn check(inputs: &[&ArrayRef], like: &DataType) {
        let bytes: Vec<Bytes> = inputs
            .iter()
            .map(|input| Bytes::of(input).expect("strings"))
            .collect();
        let (values, ranks) = ranked(&bytes.iter().collect::<Vec<_>>(), like).expect("strings");
        let values = Bytes::of(&values).expect("strings");
        assert!(values.ascend(), "{inputs:?}");
        let mut used = HashSet::new();
        for (bytes, ranks) in bytes.iter().zip(&ranks) {
            assert_eq!(bytes.len(), ranks.len());
            for (index, rank) in ranks.iter().enumerate() {
                if let Some(value) = bytes.get(index) {
                    assert_eq!(value, values.value(*rank as usize), "{inputs:?}");
                    used.insert(*rank);
                }
            }
        }
        assert_eq!(used.len(), values.len(), "{inputs:?}");
    }

    #[test]
    fn few_new_values_are_merged_into_a_sorted_dictionary() {
        let array = |values: Vec<Option<&str>>| Arc::new(StringArray::from(values)) as ArrayRef;
        let sorted: Vec<String> = (0..2000).map(|number| format!("{:05}", 3 * number)).collect();
        let sorted = array(sorted.iter().map(|value| Some(value.as_str())).collect());
        let views = cast(&sorted, &DataType::Utf8View).expect("views");
        let binary = cast(&sorted, &DataType::LargeBinary).expect("bytes");
        let unsorted = array(vec![Some("b"), None, Some("a"), Some("b")]);
        let few = array(vec![
            Some("00004"),
            Some(""),
            Some("00005"),
            None,
            Some("00004"),
            Some("z"),
            Some("00003"),
        ]);
        let there = array(vec![Some("00003"), Some("05997"), None]);
        let nothing = array(Vec::new());
        for others in [
            vec![],
            vec![&few],
            vec![&there, &few],
            vec![&nothing],
            vec![&few, &unsorted],
        ] {
            for all in [&sorted, &views, &binary, &unsorted, &nothing] {
                let mut inputs = others.clone();
                inputs.push(all);
                check(&inputs, &DataType::Utf8);
                inputs.rotate_right(1);
                check(&inputs, &DataType::Utf8View);
            }
        }
        // Nothing is copied if nothing is added.
        let inputs = [&sorted, &there].map(|input| Bytes::of(input).expect("strings"));
        let (values, _) = ranked(&inputs.each_ref(), &DataType::Utf8).expect("strings");
        assert!(Arc::ptr_eq(&values, &sorted));
    }

    #[test]
    fn equality_of_large_dictionaries_is_cached() {
        let strings = |last: &str| -> CodedStrings {
            let numbers = (0..5000).map(|number| format!("{number:05}"));
            let strings = numbers.chain([last.to_owned()]);
            CodedStrings(Arc::new(StringArray::from_iter_values(strings)))
        };
        let known = |one: &CodedStrings, other: &CodedStrings| EQUAL_ARRAYS.lock().has(one, other);
        let (one, other, third) = (strings("x"), strings("x"), strings("y"));
        assert!(!known(&one, &other));
        assert_eq!(one, other);
        assert_ne!(one, third);
        assert!(known(&one, &other) && known(&other, &one) && !known(&one, &third));
        let fourth = strings("x");
        assert!(!known(&one, &fourth) && one == fourth, "not the same arrays");
    }
}
