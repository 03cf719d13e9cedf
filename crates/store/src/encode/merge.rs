//! The dictionary of a column, which preserves the order of its values.
//!
//! A dictionary maps strings to small integers that compare as the strings do, so filters, groupings and
//! joins on them never read bytes. The dictionaries of the chunks are merged (in parallel, by partitions of
//! the hash space) and sorted once, and the chunks' codes are mapped to ranks.
//!
//! A dictionary costs hashing every value and sorting the distinct ones. It therefore pays only while it is
//! small relative to the rows and saves bytes. A column is stored as strings if any chunk gave up or the
//! merged dictionary does not pay ([`MIN_REPEATS`], [`MAX_VALUES`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, GenericByteArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use hashbrown::HashTable;
use rayon::prelude::*;

use super::dictionary::LocalDictionary;
use super::fixed::integer_zone;
use super::string::prefix;
use crate::column::{Width, Zone};
use crate::error::{Result, StoreError};

/// Maximum number of distinct values with codes of one byte; a dictionary of them always pays.
pub(crate) const ALWAYS_VALUES: usize = 256;
/// Rows per distinct value that a column needs for a dictionary, beyond [`ALWAYS_VALUES`].
pub(crate) const MIN_REPEATS: u64 = 4;
/// Maximum number of distinct values of a dictionary, unless a dictionary is required.
pub(crate) const MAX_VALUES: usize = 1 << 22;
/// Number of distinct values of all chunks from which they are merged in parallel.
const PARALLEL_MERGE: usize = 1 << 16;
/// Partitions of the hash space when merging in parallel; a power of two.
const PARTS: usize = 64;

/// The dictionary of a column.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) values: ArrayRef,
    pub(crate) width: Width,
    /// Per chunk, the rank of each local code; the rank of null rows is 0.
    pub(crate) ranks: Vec<Vec<u32>>,
}

/// Merges the chunks' dictionaries; `None` if a dictionary does not pay and is not required.
pub(crate) fn merge(
    chunks: &[&LocalDictionary],
    utf8: bool,
    rows: u64,
    required: bool,
) -> Result<Option<Merged>> {
    let start = Instant::now();
    let entries: usize = chunks.iter().map(|chunk| chunk.hashes.len()).sum();
    let parts = if entries > PARALLEL_MERGE { PARTS } else { 1 };
    let part_of = |hash: u64| (hash >> 58) as usize % parts;
    // The entry of each chunk's value in its partition. The partition that owns the value's hash writes it.
    let merged: Vec<Vec<AtomicU32>> = chunks
        .par_iter()
        .map(|chunk| chunk.hashes.iter().map(|_| AtomicU32::new(0)).collect())
        .collect();
    let buckets: Vec<Vec<Vec<u32>>> = chunks
        .par_iter()
        .map(|chunk| {
            let mut buckets = vec![Vec::new(); parts];
            for (index, hash) in chunk.hashes.iter().enumerate() {
                buckets[part_of(*hash)].push(index as u32);
            }
            buckets
        })
        .collect();
    let distinct: Vec<Vec<&[u8]>> = (0..parts)
        .into_par_iter()
        .map(|part| {
            let mut values: Vec<&[u8]> = Vec::new();
            let mut hashes: Vec<u64> = Vec::new();
            let mut table: HashTable<u32> = HashTable::new();
            for ((chunk, buckets), merged) in chunks.iter().zip(&buckets).zip(&merged) {
                for index in &buckets[part] {
                    let index = *index as usize;
                    let (value, hash) = (chunk.values.get(index), chunk.hashes[index]);
                    let same =
                        |entry: &u32| hashes[*entry as usize] == hash && values[*entry as usize] == value;
                    let entry = match table.find(hash, same).copied() {
                        Some(entry) => entry,
                        None => {
                            let entry = values.len() as u32;
                            values.push(value);
                            hashes.push(hash);
                            table.insert_unique(hash, entry, |entry| hashes[*entry as usize]);
                            entry
                        }
                    };
                    merged[index].store(entry, Ordering::Relaxed);
                }
            }
            values
        })
        .collect();
    let distinct_after = start.elapsed();
    let count: usize = distinct.iter().map(Vec::len).sum();
    let bytes: u64 = distinct.iter().flatten().map(|value| value.len() as u64).sum();
    let string_bytes: u64 = chunks.iter().map(|chunk| chunk.string_bytes).sum();
    let width = Width::for_maximum(count.saturating_sub(1) as u64);
    let codes = count <= u32::MAX as usize;
    if !(required || codes && pays(count, bytes, width, rows, string_bytes)) {
        tracing::debug!(entries, count, distinct = ?distinct_after, "a dictionary does not pay");
        return Ok(None);
    }
    if !codes {
        return Err(StoreError::UnsupportedSource {
            table: "a dictionary".to_owned(),
            reason: format!("it has {count} values, the most are {}", u32::MAX),
        });
    }
    let mut sorted: Vec<Entry> = (distinct.par_iter().enumerate())
        .flat_map_iter(|(part, values)| {
            let entries = values.iter().enumerate();
            entries.map(move |(index, value)| Entry {
                word: prefix(value),
                part: part as u32,
                index: index as u32,
            })
        })
        .collect();
    let value = |entry: &Entry| distinct[entry.part as usize][entry.index as usize];
    sort(&mut sorted, 0, &value);
    let rank_of: Vec<Vec<AtomicU32>> = (distinct.par_iter())
        .map(|values| values.iter().map(|_| AtomicU32::new(0)).collect())
        .collect();
    sorted.par_iter().enumerate().for_each(|(rank, entry)| {
        rank_of[entry.part as usize][entry.index as usize].store(rank as u32, Ordering::Relaxed);
    });
    let ranks = chunks
        .par_iter()
        .zip(&merged)
        .map(|(chunk, merged)| {
            let ranks = chunk.hashes.iter().zip(merged).map(|(hash, entry)| {
                rank_of[part_of(*hash)][entry.load(Ordering::Relaxed) as usize].load(Ordering::Relaxed)
            });
            std::iter::once(0).chain(ranks).collect()
        })
        .collect();
    // Null rows hold code 0, so code 0 must have a value.
    let values: Vec<&[u8]> = match count {
        0 => vec![&[]],
        _ => sorted.par_iter().map(value).collect(),
    };
    let values = strings_array(&values, utf8)?;
    tracing::debug!(
        entries,
        count,
        bytes,
        distinct = ?distinct_after,
        all = ?start.elapsed(),
        "merged dictionaries"
    );
    Ok(Some(Merged { values, width, ranks }))
}

/// A distinct value, in a partition of the hash space.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Eight of its bytes, as a number in the order of the bytes.
    word: u64,
    part: u32,
    index: u32,
}

/// Number of equal first bytes after which strings are compared instead of sorted by their next word. Each
/// word is a level of recursion.
const DEEP: usize = 256;

/// Maximum number of entries with one word that are sorted by comparing the rest of their strings.
const FEW_ENTRIES: usize = 32;

/// Sorts distinct values by their words, and values with the same word by the next word. The first `from`
/// bytes of all values are the same, and their words are the next eight bytes. Comparing numbers that are
/// adjacent in memory is much faster than comparing strings, most of which have the same beginning.
fn sort<'a>(entries: &mut [Entry], from: usize, value: &(impl Fn(&Entry) -> &'a [u8] + Sync)) {
    entries.par_sort_unstable_by_key(|entry| entry.word);
    let alike = entries.chunk_by_mut(|left, right| left.word == right.word);
    let alike: Vec<&mut [Entry]> = alike.filter(|entries| entries.len() > 1).collect();
    let next = from + size_of::<u64>();
    alike.into_par_iter().for_each(|entries| {
        // A value that ends within this word has the same word as one that continues with zeros.
        let is_compared = entries.len() <= FEW_ENTRIES || next > DEEP;
        if is_compared || entries.par_iter().any(|entry| value(entry).len() < next) {
            let rest = |entry: &Entry| value(entry).get(from..).unwrap_or_default();
            entries.par_sort_unstable_by(|left, right| rest(left).cmp(rest(right)));
            return;
        }
        (entries.par_iter_mut()).for_each(|entry| entry.word = prefix(&value(entry)[next..]));
        sort(entries, next, value);
    });
}

/// Whether a dictionary of `count` values with `bytes` bytes pays for `rows` rows that hold `string_bytes` as
/// strings.
fn pays(count: usize, bytes: u64, width: Width, rows: u64, string_bytes: u64) -> bool {
    if count <= ALWAYS_VALUES {
        return true;
    }
    let offset = Width::Four.bytes() as u64;
    let encoded = bytes + count as u64 * offset + rows * width.bytes() as u64;
    count <= MAX_VALUES && count as u64 * MIN_REPEATS <= rows && encoded < string_bytes + rows * offset
}

/// Number of values that one thread copies and validates.
const COPIED: usize = 1 << 14;

/// An array of strings, or of binary values if not `utf8`. All threads copy and validate parts of it. Its
/// offsets have 32 bits if these suffice for its bytes, else 64.
///
/// # Errors
/// [`StoreError::Arrow`] if the strings are not UTF-8.
pub fn strings_array(values: &[&[u8]], utf8: bool) -> Result<ArrayRef> {
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    match (i32::try_from(bytes).is_ok(), utf8) {
        (true, true) => array_of::<Utf8Type>(values),
        (true, false) => array_of::<BinaryType>(values),
        (false, true) => array_of::<LargeUtf8Type>(values),
        (false, false) => array_of::<LargeBinaryType>(values),
    }
}

/// An array of this type. Its offsets have sufficient bits for the bytes of the values.
fn array_of<T: ByteArrayType>(values: &[&[u8]]) -> Result<ArrayRef> {
    let part = |values: &[&[u8]]| {
        let offsets = OffsetBuffer::from_lengths(values.iter().map(|value| value.len()));
        GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(values.concat()), None)
    };
    if values.len() <= COPIED {
        return Ok(Arc::new(part(values)?));
    }
    // The array is not validated again when its parts are joined.
    let parts: Vec<_> = values
        .par_chunks(COPIED)
        .map(part)
        .collect::<std::result::Result<_, _>>()?;
    let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
    Ok(concat(&parts)?)
}

/// The zone of a chunk with these ranks. The first is the rank of null rows.
pub(super) fn rank_zone(ranks: &[u32], null_count: u32) -> Zone {
    let used = ranks.get(1..).unwrap_or_default();
    let range = used.iter().min().zip(used.iter().max());
    let range = range.map(|(minimum, maximum)| (i128::from(*minimum), i128::from(*maximum)));
    integer_zone(range, null_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::dictionary::hash;

    /// The values share beginnings: whole words, many of them, all of a value, and a value followed by zeros.
    #[test]
    fn dictionary_values_are_sorted_by_bytes() {
        let mut values: Vec<Vec<u8>> = Vec::new();
        for number in 0..3000u64 {
            let digits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string();
            let cut = &digits.as_bytes()[..digits.len().min(1 + number as usize % 18)];
            values.push([b"http://example.org/", cut].concat());
            values.push([b"http://example.org/", cut, &[0; 3]].concat());
            values.push(cut.to_vec());
            values.push([cut, &vec![0; number as usize % 40]].concat());
            values.push(vec![0; number as usize % 100]);
            if number < 60 {
                values.push([vec![b'y'; 1 << 16].as_slice(), cut].concat());
            }
            values.push([0xff; 16].into_iter().chain(number.to_be_bytes()).collect());
        }
        values.sort_unstable_by_key(|value| hash(value));
        values.dedup();
        let of = |entry: &Entry| values[entry.index as usize].as_slice();
        let mut entries: Vec<Entry> = (0..values.len())
            .map(|index| Entry {
                word: prefix(&values[index]),
                part: 0,
                index: index as u32,
            })
            .collect();
        sort(&mut entries, 0, &of);
        assert!(entries.is_sorted_by(|left, right| of(left) < of(right)));
    }

    #[test]
    fn values_are_copied_in_pieces() {
        for count in [0, 1, COPIED - 1, COPIED, COPIED + 1, 2 * COPIED + 5] {
            let texts: Vec<String> = (0..count)
                .map(|number| "x".repeat(number % 5) + &number.to_string())
                .collect();
            let values: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let array = strings_array(&values, true).expect("texts");
            let expected: arrow::array::StringArray = texts.iter().map(Some).collect();
            assert_eq!(array.as_ref(), &expected as &dyn Array);
        }
    }
}
