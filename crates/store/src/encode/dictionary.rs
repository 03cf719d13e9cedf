//! The dictionary of a chunk: its values by time of entry.
//!
//! Each chunk collects its own values, in parallel with the others. They are merged later (`merge`).
//! A chunk gives up early if most of its values are new ([`CHUNK_MIN_REPEATS`]).
//!
//! Columns that arrive as Arrow dictionaries (as Parquet's dictionary pages do) are not hashed by row: each
//! used dictionary value is entered once, and the keys are mapped.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use arrow::array::{ArrayRef, ArrowNativeTypeOp, DictionaryArray};
use arrow::datatypes::{ArrowDictionaryKeyType, ArrowNativeType};
use hashbrown::{DefaultHashBuilder, HashTable};

use super::codes::Codes;
use super::string::{Arena, LocalString, StringBuilder, Strings};
use crate::dictionary::dictionary_code;

/// Rows per distinct value below which a chunk gives up, after [`CHUNK_PATIENCE`] values.
pub(crate) const CHUNK_MIN_REPEATS: usize = 2;
/// Distinct values that a chunk collects before it may give up.
pub(crate) const CHUNK_PATIENCE: usize = 1 << 14;

/// The hash function of all chunks. It is the same for all, so that merging need not hash again.
pub(super) fn hash(value: &[u8]) -> u64 {
    static STATE: OnceLock<DefaultHashBuilder> = OnceLock::new();
    STATE.get_or_init(DefaultHashBuilder::default).hash_one(value)
}

/// The dictionary of one chunk, by time of entry.
#[derive(Debug)]
pub(crate) struct LocalDictionary {
    /// 0 for null rows, else 1 + index into the values.
    pub(crate) codes: Codes,
    pub(crate) values: Arena,
    pub(crate) hashes: Vec<u64>,
    /// Bytes of the strings of all valid rows.
    pub(crate) string_bytes: u64,
}

/// Collects the dictionary of a chunk.
#[derive(Debug)]
pub(crate) struct DictionaryBuilder {
    required: bool,
    codes: Vec<u32>,
    table: HashTable<u32>,
    values: Arena,
    hashes: Vec<u64>,
    string_bytes: u64,
    valid_rows: usize,
    last: Option<u32>,
}

/// The error of a chunk with too many distinct values for a dictionary to pay.
#[derive(Debug)]
pub(crate) struct GaveUp;

impl DictionaryBuilder {
    pub(crate) fn new(rows: usize, required: bool) -> Self {
        Self {
            required,
            codes: Vec::with_capacity(rows),
            table: HashTable::new(),
            values: Arena::with_capacity(0, 0),
            hashes: Vec::new(),
            string_bytes: 0,
            valid_rows: 0,
            last: None,
        }
    }

    /// Returns 1 + the index of a value. A new value is entered.
    #[inline(always)]
    fn enter(&mut self, value: &[u8]) -> Result<u32, GaveUp> {
        if let Some(last) = self.last
            && self.values.get(last as usize) == value
        {
            return Ok(last + 1);
        }
        let hash = hash(value);
        let Self {
            table,
            values,
            hashes,
            ..
        } = self;
        let found = table
            .find(hash, |index| {
                hashes[*index as usize] == hash && values.get(*index as usize) == value
            })
            .copied();
        let index = match found {
            Some(index) => index,
            None => {
                let index = hashes.len() as u32;
                values.push(value);
                hashes.push(hash);
                table.insert_unique(hash, index, |index| hashes[*index as usize]);
                if !self.required
                    && hashes.len() > CHUNK_PATIENCE
                    && hashes.len() > self.valid_rows / CHUNK_MIN_REPEATS
                {
                    return Err(GaveUp);
                }
                index
            }
        };
        self.last = Some(index);
        Ok(index + 1)
    }

    /// Returns 1 + the index of a value of a source's dictionary. A source chooses a dictionary for repeated
    /// values, so the value counts as repeated.
    pub(super) fn enter_repeated(&mut self, value: &[u8]) -> Result<u32, GaveUp> {
        self.valid_rows += CHUNK_MIN_REPEATS;
        self.enter(value)
    }

    /// Number of values so far.
    pub(super) fn count(&self) -> usize {
        self.hashes.len()
    }

    #[inline(always)]
    fn push(&mut self, value: &[u8]) -> Result<(), GaveUp> {
        self.valid_rows += 1;
        self.string_bytes += value.len() as u64;
        let code = self.enter(value)?;
        self.codes.push(code);
        Ok(())
    }

    /// Appends all rows of an array.
    pub(crate) fn push_all<S: Strings + ?Sized>(&mut self, strings: &S) -> Result<(), GaveUp> {
        match strings.validity() {
            None => (0..strings.rows()).try_for_each(|row| self.push(strings.bytes(row))),
            Some(nulls) => (0..strings.rows()).try_for_each(|row| {
                if nulls.is_valid(row) {
                    self.push(strings.bytes(row))
                } else {
                    self.codes.push(0);
                    Ok(())
                }
            }),
        }
    }

    /// Appends all rows of an Arrow dictionary with the values `strings`.
    pub(crate) fn push_keys<K: ArrowDictionaryKeyType, S: Strings + ?Sized>(
        &mut self,
        array: &DictionaryArray<K>,
        strings: &S,
    ) -> Result<(), GaveUp>
    where
        K::Native: ArrowNativeTypeOp,
    {
        const UNSEEN: u32 = u32::MAX;
        // The code and the length of each value of the array's dictionary, once a row with it was read.
        let mut met = vec![(UNSEEN, 0u64); strings.rows()];
        let value_nulls = strings.validity();
        let keys = array.keys();
        let key_nulls = arrow::array::Array::nulls(keys).filter(|nulls| nulls.null_count() > 0);
        for (row, key) in keys.values().iter().enumerate() {
            if key_nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.codes.push(0);
                continue;
            }
            let key = key.as_usize();
            if met[key].0 == UNSEEN {
                met[key] = if value_nulls.is_some_and(|nulls| nulls.is_null(key)) {
                    (0, 0)
                } else {
                    let value = strings.bytes(key);
                    (self.enter_repeated(value)?, value.len() as u64)
                };
            }
            let (code, length) = met[key];
            self.string_bytes += length;
            self.codes.push(code);
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> LocalDictionary {
        let codes = Codes::narrow(std::mem::take(&mut self.codes), self.hashes.len() as u32);
        let string_bytes = self.string_bytes;
        self.finish_with(codes, string_bytes)
    }

    /// The dictionary of rows with these codes. `string_bytes`: bytes of the strings of all rows.
    pub(super) fn finish_with(self, codes: Codes, string_bytes: u64) -> LocalDictionary {
        LocalDictionary {
            codes,
            values: self.values,
            hashes: self.hashes,
            string_bytes,
        }
    }
}

impl LocalDictionary {
    /// Heap memory in bytes.
    pub(crate) fn size(&self) -> usize {
        self.codes.bytes() + self.values.size() + self.hashes.len() * 8
    }

    /// The same rows as strings.
    pub(crate) fn to_string(&self, rows: usize) -> LocalString {
        let mut builder = StringBuilder::new(rows, self.string_bytes as usize);
        self.codes.for_each(|code| match (code as usize).checked_sub(1) {
            None => builder.push_null(),
            Some(index) => builder.push(self.values.get(index)),
        });
        builder.finish()
    }
}

impl LocalDictionary {
    /// The rank of each local code in an existing dictionary, if it has all values.
    pub(crate) fn ranks_in(&self, dictionary: &ArrayRef) -> Option<Vec<u32>> {
        let values = (0..self.hashes.len()).map(|index| self.values.get(index));
        let ranks = values.map(|value| dictionary_code(dictionary, value).map(|code| code as u32));
        std::iter::once(Some(0)).chain(ranks).collect()
    }
}
