//! The sorted distinct strings of dictionaries, and dictionaries that are made of others.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::reason::Reason;

/// Inputs that one thread ranks at once.
const PIECE: usize = 1 << 14;

/// The sorted distinct strings that codes number. Millions of them are compared whenever a query comes again:
/// they are the same then, or two arrays whose strings were found to be equal before.
#[derive(Debug, Clone)]
pub(crate) struct CodedStrings(pub(crate) ArrayRef);

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

/// Pairs of arrays that are equal, the last ones found.
static EQUAL_ARRAYS: Mutex<EqualArrays> = Mutex::new(EqualArrays(VecDeque::new()));

/// Pairs of arrays that are equal, as long as both exist: while one is remembered, no other is at its
/// address.
#[derive(Debug)]
struct EqualArrays(VecDeque<[Weak<dyn Array>; 2]>);

impl EqualArrays {
    /// Strings from which on comparing takes longer than looking for the pair.
    const WORTH_KNOWING: usize = 1 << 12;
    /// Pairs that are remembered.
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

/// The values of a dictionary, and NULL after them.
pub(crate) fn with_null(values: &ArrayRef) -> Result<ArrayRef, Reason> {
    let null = new_null_array(values.data_type(), 1);
    concat(&[values.as_ref(), null.as_ref()]).map_err(|error| Reason::Expression {
        expression: "dictionary".to_owned(),
        detail: error.to_string(),
    })
}

/// Strings and binary values as bytes.
pub(crate) struct Bytes(LargeBinaryArray);

impl Bytes {
    pub(crate) fn of(values: &ArrayRef) -> Result<Self, Reason> {
        let refuse = |error: ArrowError| Reason::Expression {
            expression: "dictionary".to_owned(),
            detail: error.to_string(),
        };
        let plain = match values.data_type() {
            DataType::Dictionary(_, inner) => cast(values, inner).map_err(refuse)?,
            _ => Arc::clone(values),
        };
        let large = match plain.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                cast(&plain, &DataType::LargeUtf8).map_err(refuse)?
            }
            _ => plain,
        };
        let large = cast(&large, &DataType::LargeBinary).map_err(refuse)?;
        Ok(Self(large.as_binary::<i64>().clone()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Value `index`; `None` if it is NULL.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.0.is_valid(index).then(|| self.0.value(index))
    }

    /// Whether `bytes` is among sorted values, and the number of values that are less.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.0.value(middle).cmp(bytes) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }
}

/// The sorted distinct values among `inputs`, as an array of the plain type like `like`, and the rank of
/// every input (0 for NULL).
///
/// Values are told apart by hashing first, because most columns repeat a few; only distinct ones are sorted.
pub(crate) fn ranked(inputs: &[&Bytes], like: &DataType) -> Result<(ArrayRef, Vec<Vec<u32>>), Reason> {
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
    let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(&distinct));
    let plain = match like {
        DataType::Dictionary(_, inner) => inner.as_ref(),
        other => other,
    };
    let small = distinct.iter().map(|value| value.len()).sum::<usize>() < i32::MAX as usize;
    let target = match (crate::expression::text::is_utf8(plain), small) {
        (true, true) => DataType::Utf8,
        (true, false) => DataType::LargeUtf8,
        (false, true) => DataType::Binary,
        (false, false) => DataType::LargeBinary,
    };
    let refuse = |error: ArrowError| Reason::Expression {
        expression: "dictionary".to_owned(),
        detail: error.to_string(),
    };
    let values = match target {
        DataType::Utf8 => cast(
            &cast(&values, &DataType::LargeUtf8).map_err(refuse)?,
            &DataType::Utf8,
        ),
        other => cast(&values, &other),
    };
    Ok((values.map_err(refuse)?, ranks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    #[test]
    fn equal_strings_are_compared_once() {
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
