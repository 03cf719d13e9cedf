//! Rows that are indices into dictionaries, encoded without their values.
//!
//! Parquet's dictionary pages have few values and many indices. The extremes and the common divisor of a
//! chunk are those of its dictionaries, so the code of each value is computed once, and each row looks it up:
//! usually one pass over the rows instead of three. A dictionary may have values without a row. The pass
//! therefore marks the values that rows have. If there are other values, and the codes of integers depend on
//! them, a second pass leaves them out. Chunks of integers equal those of [`ColumnEncoder::encode`] for the
//! values of the rows. Chunks of strings have the same rows and values, in another order.

use super::chunk::{LocalChunk, LocalValues};
use super::codes::{Code, Codes, Divisor};
use super::dictionary::DictionaryBuilder;
use super::encoder::ColumnEncoder;
use super::integer::{BlockPacker, CodeSpace, LocalIntegers, greatest_common_divisor};
use super::kind::Kind;
use super::string::Arena;
use super::validity::Validity;
use crate::column::Width;
use crate::packed::Packing;

/// The values of a dictionary.
#[derive(Debug)]
pub(crate) enum IndexedValues {
    Integers(Vec<i64>),
    Strings(Arena),
}

impl IndexedValues {
    /// Number of values. NULL rows have this index.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Strings(values) => values.rows(),
        }
    }
}

/// Rows of a column as indices into a dictionary.
pub(crate) trait Indexed {
    /// The dictionary.
    fn values(&self) -> &IndexedValues;
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Number of NULL rows.
    fn null_count(&self) -> usize;
    /// Adds the validity of the rows.
    fn add_validity(&self, validity: &mut Validity);
    /// Calls `visit` with the indices of the rows, in consecutive pieces, until it returns false. NULL rows
    /// have the number of values as their index. Returns false if rows of these pieces are damaged.
    fn for_each_piece(&self, visit: &mut dyn FnMut(&[u32]) -> bool) -> bool;
}

/// For each dictionary, marks of the values that rows have.
type Met = Vec<Vec<bool>>;

impl ColumnEncoder {
    /// Encodes the rows of a chunk, which has at least one row; none if they are damaged, or if the
    /// dictionaries have values of another kind than the column.
    pub(crate) fn encode_indexed<I: Indexed>(&self, groups: &[I]) -> Option<LocalChunk> {
        let rows = groups.iter().map(I::rows).sum();
        let null_count: usize = groups.iter().map(I::null_count).sum();
        let values = match self.kind {
            Kind::Integer | Kind::Decimal => LocalValues::Integer(integers(groups, rows, self.packing)?),
            Kind::Text { .. } => self.strings(groups, rows)?,
            Kind::Null | Kind::Boolean | Kind::Float32 | Kind::Float64 => return None,
        };
        let validity = (null_count > 0).then(|| {
            let mut validity = Validity::default();
            groups.iter().for_each(|group| group.add_validity(&mut validity));
            validity.into_bytes()
        });
        Some(LocalChunk {
            rows: u32::try_from(rows).ok()?,
            null_count: u32::try_from(null_count).ok()?,
            validity,
            values,
        })
    }

    fn strings<I: Indexed>(&self, groups: &[I], rows: usize) -> Option<LocalValues> {
        let dictionaries = groups.iter().map(|group| match group.values() {
            IndexedValues::Strings(values) => Some(values),
            IndexedValues::Integers(_) => None,
        });
        let dictionaries = dictionaries.collect::<Option<Vec<&Arena>>>()?;
        let lengths: Vec<Vec<u64>> = (dictionaries.iter())
            .map(|values| {
                let lengths = (0..values.rows()).map(|index| values.get(index).len() as u64);
                lengths.chain([0]).collect()
            })
            .collect();
        let mut met: Met = (dictionaries.iter())
            .map(|values| vec![true; values.rows()])
            .collect();
        loop {
            let mut builder = DictionaryBuilder::new(0, self.dictionary);
            let mut tables = Vec::new();
            for (values, met) in dictionaries.iter().zip(&met) {
                let code = |index: usize| match met[index] {
                    true => builder.enter_repeated(values.get(index)).ok(),
                    false => Some(0),
                };
                let codes = (0..values.rows()).map(code).chain([Some(0)]);
                tables.push(codes.collect::<Option<Vec<u32>>>()?);
            }
            let mut lookup = Lookup::new(tables);
            let mut bytes = 0;
            let codes = lookup.plain_codes(
                groups,
                rows,
                Width::for_maximum(builder.count() as u64),
                |number, indices| {
                    let of_rows = indices.iter().map(|index| lengths[number][*index as usize]);
                    bytes += of_rows.sum::<u64>();
                },
            )?;
            // The marks of a lookup end with that of NULL.
            let has_others = (met.iter().zip(&lookup.met))
                .any(|(before, now)| before.iter().zip(now).any(|(before, now)| before != now));
            met = lookup.met;
            if !has_others {
                return Some(LocalValues::Dictionary(builder.finish_with(codes, bytes)));
            }
        }
    }
}

/// The extremes and the common divisor of the integers that rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    minimum: i64,
    maximum: i64,
    divisor: u64,
}

impl Range {
    /// The range of the values that rows have; none if there are none.
    fn of(dictionaries: &[&[i64]], met: &Met) -> Option<Self> {
        let mut values = dictionaries.iter().zip(met).flat_map(|(values, met)| {
            let values = values.iter().zip(met).filter(|(_, met)| **met);
            values.map(|(value, _)| *value)
        });
        let first = values.next()?;
        let range = Self {
            minimum: first,
            maximum: first,
            divisor: 0,
        };
        Some(values.fold(range, |range, value| Self {
            minimum: range.minimum.min(value),
            maximum: range.maximum.max(value),
            divisor: greatest_common_divisor(range.divisor, value.abs_diff(first)),
        }))
    }
}

fn integers<I: Indexed>(groups: &[I], rows: usize, packing: Packing) -> Option<LocalIntegers> {
    let dictionaries = groups.iter().map(|group| match group.values() {
        IndexedValues::Integers(values) => Some(values.as_slice()),
        IndexedValues::Strings(_) => None,
    });
    let dictionaries = dictionaries.collect::<Option<Vec<&[i64]>>>()?;
    let all = dictionaries.iter().map(|values| vec![true; values.len()]);
    let mut range = Range::of(&dictionaries, &all.collect());
    loop {
        let Some(found) = range else {
            let intact = groups.iter().all(|group| group.for_each_piece(&mut |_| true));
            return intact.then(|| LocalIntegers::zeros(rows));
        };
        let space = CodeSpace::new(found.maximum.abs_diff(found.minimum), found.divisor);
        let divisor = Divisor::new(space.factor);
        // Values that no row has may be outside of the range. Their codes are not used.
        let code = |value: &i64| divisor.divide(value.wrapping_sub(found.minimum) as u64);
        let (codes, met) = match u32::try_from(space.greatest) {
            Ok(_) => Lookup::<u32>::of(&dictionaries, code).codes(groups, rows, space, packing)?,
            Err(_) => Lookup::<u64>::of(&dictionaries, code).codes(groups, rows, space, packing)?,
        };
        let now = Range::of(&dictionaries, &met);
        if now == range {
            return Some(LocalIntegers {
                range: Some((found.minimum.into(), found.maximum.into())),
                divisor: found.divisor,
                factor: space.factor,
                codes,
            });
        }
        range = now;
    }
}

/// The code of each value, and of NULL, by dictionary. The narrower the codes, the more of them are in the
/// processor's cache.
struct Lookup<E> {
    tables: Vec<Vec<E>>,
    met: Met,
}

impl<E: Code> Lookup<E> {
    fn new(tables: Vec<Vec<E>>) -> Self {
        Self {
            met: tables.iter().map(|codes| vec![false; codes.len()]).collect(),
            tables,
        }
    }

    /// The codes of integers. NULL has code 0.
    fn of(dictionaries: &[&[i64]], code: impl Fn(&i64) -> u64) -> Self {
        let tables = dictionaries.iter().map(|values| {
            let codes = values.iter().map(&code).chain([0]);
            codes.map(E::truncate).collect()
        });
        Self::new(tables.collect())
    }

    /// The codes of all rows, packed if that pays, and the values that they have.
    fn codes<I: Indexed>(
        mut self,
        groups: &[I],
        rows: usize,
        space: CodeSpace,
        packing: Packing,
    ) -> Option<(Codes, Met)> {
        if let Some(mut packer) = BlockPacker::new(rows, space, packing) {
            let intact = self.for_each_piece(groups, |_, indices, table, met| {
                packer.add(indices, |index| {
                    met[index as usize] = true;
                    table[index as usize].widen()
                })
            });
            if !intact {
                return None;
            }
            if let Some(packed) = packer.finish() {
                return Some((Codes::Packed(packed), self.met));
            }
        }
        let codes = self.plain_codes(groups, rows, space.width, |_, _| {})?;
        Some((codes, self.met))
    }

    /// The codes of all rows, of this width. `also` is called with each piece of indices, and the
    /// number of their dictionary.
    fn plain_codes<I: Indexed>(
        &mut self,
        groups: &[I],
        rows: usize,
        width: Width,
        also: impl FnMut(usize, &[u32]),
    ) -> Option<Codes> {
        Some(match width {
            Width::Zero => {
                self.plain::<I, u8>(groups, rows, also)?;
                Codes::Zero(rows)
            }
            Width::One => Codes::One(self.plain(groups, rows, also)?),
            Width::Two => Codes::Two(self.plain(groups, rows, also)?),
            Width::Four => Codes::Four(self.plain(groups, rows, also)?),
            Width::Eight => Codes::Eight(self.plain(groups, rows, also)?),
        })
    }

    fn plain<I: Indexed, C: Code>(
        &mut self,
        groups: &[I],
        rows: usize,
        mut also: impl FnMut(usize, &[u32]),
    ) -> Option<Vec<C>> {
        let mut codes = Vec::with_capacity(rows);
        let intact = self.for_each_piece(groups, |number, indices, table, met| {
            codes.extend(indices.iter().map(|index| {
                met[*index as usize] = true;
                C::truncate(table[*index as usize].widen())
            }));
            also(number, indices);
            true
        });
        intact.then_some(codes)
    }

    /// Calls `visit` with the number of each dictionary, the indices of its rows, and the codes and marks of
    /// its values, until it returns false. Returns false if rows are damaged.
    fn for_each_piece<I: Indexed>(
        &mut self,
        groups: &[I],
        mut visit: impl FnMut(usize, &[u32], &[E], &mut [bool]) -> bool,
    ) -> bool {
        let of_groups = groups.iter().zip(&self.tables).zip(&mut self.met);
        for (number, ((group, table), met)) in of_groups.enumerate() {
            let mut goes_on = true;
            let intact = group.for_each_piece(&mut |indices| {
                goes_on = visit(number, indices, table, met);
                goes_on
            });
            if !intact || !goes_on {
                return intact;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::encode::dictionary::LocalDictionary;

    /// Rows in pieces, as indices into a dictionary; NULL rows have none.
    struct Rows {
        values: IndexedValues,
        pieces: Vec<Vec<Option<u32>>>,
    }

    impl Indexed for Rows {
        fn values(&self) -> &IndexedValues {
            &self.values
        }

        fn rows(&self) -> usize {
            self.pieces.iter().map(Vec::len).sum()
        }

        fn null_count(&self) -> usize {
            self.pieces
                .iter()
                .flatten()
                .filter(|index| index.is_none())
                .count()
        }

        fn add_validity(&self, validity: &mut Validity) {
            for index in self.pieces.iter().flatten() {
                validity.push_run(index.is_some(), 1);
            }
        }

        fn for_each_piece(&self, visit: &mut dyn FnMut(&[u32]) -> bool) -> bool {
            let null = self.values.count() as u32;
            self.pieces.iter().all(|piece| {
                let indices: Vec<u32> = piece.iter().map(|index| index.unwrap_or(null)).collect();
                visit(&indices)
            });
            true
        }
    }

    impl Rows {
        /// Rows of these pieces, with random indices below `used`. `nulls`: one row of this number is NULL;
        /// 0: none is.
        fn new(values: IndexedValues, used: u32, lengths: &[usize], nulls: u64, seed: u64) -> Self {
            let mut state = seed | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let mut row = || {
                let is_null = used == 0 || nulls > 0 && next().is_multiple_of(nulls);
                (!is_null).then(|| (next() % u64::from(used)) as u32)
            };
            Self {
                values,
                pieces: lengths
                    .iter()
                    .map(|length| (0..*length).map(|_| row()).collect())
                    .collect(),
            }
        }

        fn array(&self) -> ArrayRef {
            let indices = self.pieces.iter().flatten();
            match &self.values {
                IndexedValues::Integers(values) => {
                    let values = indices.map(|index| index.map(|index| values[index as usize]));
                    Arc::new(values.collect::<Int64Array>())
                }
                IndexedValues::Strings(values) => {
                    let text = |index: u32| std::str::from_utf8(values.get(index as usize)).expect("UTF-8");
                    Arc::new(indices.map(|index| index.map(text)).collect::<StringArray>())
                }
            }
        }
    }

    fn encoder(data_type: DataType, packing: Packing) -> ColumnEncoder {
        ColumnEncoder::new(&Field::new("v", data_type, true), false, packing).expect("a supported type")
    }

    /// The lengths of the pieces of two row groups.
    const LENGTHS: [[&[usize]; 2]; 4] = [
        [&[1], &[]],
        [&[7, 512, 1], &[505]],
        [&[20_000, 3000], &[40_000, 5]],
        [&[0], &[33, 31]],
    ];

    #[test]
    fn integers_are_encoded_like_their_values() {
        let dictionaries: [&[i64]; 9] = [
            &[5],
            &[3, -7, 1 << 40],
            &[100, 300, 200, 1100],
            &[0, 100_000, 1_000_000, 3_300_000],
            &[i64::MIN, i64::MAX, 0],
            &[i64::MAX, i64::MAX - 1],
            &[0, 1 << 20, 1 << 21],
            &[-4, 4, -4],
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17],
        ];
        for (seed, dictionary) in (1..).zip(dictionaries) {
            for lengths in LENGTHS {
                for (packing, nulls) in [
                    (Packing::Off, 0),
                    (Packing::Auto, 3),
                    (Packing::On, 0),
                    (Packing::On, 1),
                ] {
                    let encoder = encoder(DataType::Int64, packing);
                    for used in [1, dictionary.len() as u32] {
                        let other = [dictionary, &[777]].concat();
                        let groups = [
                            Rows::new(
                                IndexedValues::Integers(dictionary.to_vec()),
                                used,
                                lengths[0],
                                nulls,
                                seed,
                            ),
                            Rows::new(IndexedValues::Integers(other), used, lengths[1], nulls, seed + 9),
                        ];
                        let arrays = [groups[0].array(), groups[1].array()];
                        if groups.iter().all(|group| group.rows() == 0) {
                            continue;
                        }
                        let indexed = encoder.encode_indexed(&groups).expect("intact");
                        let expected = encoder.encode(&arrays).expect("encoded");
                        assert_eq!(
                            format!("{indexed:?}"),
                            format!("{expected:?}"),
                            "{dictionary:?}, {lengths:?}, {packing:?}, {nulls}, {used} values"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn strings_are_encoded_like_their_values() {
        let words = [
            "",
            "one",
            "two",
            "two",
            "three",
            "a longer string than the others",
        ];
        for count in [0, 1, 2, words.len()] {
            for lengths in LENGTHS {
                for nulls in [0, 4, 1] {
                    let dictionary = || {
                        let mut values = Arena::with_capacity(0, 0);
                        words.iter().for_each(|word| values.push(word.as_bytes()));
                        IndexedValues::Strings(values)
                    };
                    let groups = [
                        Rows::new(dictionary(), count as u32, lengths[0], nulls, 5),
                        Rows::new(dictionary(), 1, lengths[1], nulls, 6),
                    ];
                    let encoder = encoder(DataType::Utf8, Packing::Auto);
                    let indexed = encoder.encode_indexed(&groups).expect("intact");
                    let expected = encoder
                        .encode(&[groups[0].array(), groups[1].array()])
                        .expect("encoded");
                    let context = format!("{count} values, {lengths:?}, {nulls}");
                    assert_eq!(indexed.null_count, expected.null_count, "{context}");
                    assert_eq!(indexed.validity, expected.validity, "{context}");
                    let (LocalValues::Dictionary(indexed), LocalValues::Dictionary(expected)) =
                        (&indexed.values, &expected.values)
                    else {
                        panic!("no dictionary: {context}");
                    };
                    let rows = groups.iter().map(Indexed::rows).sum();
                    let texts = |dictionary: &LocalDictionary| format!("{:?}", dictionary.to_string(rows));
                    assert_eq!(texts(indexed), texts(expected), "{context}");
                    assert_eq!(indexed.string_bytes, expected.string_bytes, "{context}");
                    assert_eq!(indexed.hashes.len(), expected.hashes.len(), "{context}");
                }
            }
        }
    }

    #[test]
    fn dictionaries_of_another_kind_are_refused() {
        let groups = [Rows::new(IndexedValues::Integers(vec![1]), 1, &[3], 0, 1)];
        assert!(
            encoder(DataType::Utf8, Packing::Auto)
                .encode_indexed(&groups)
                .is_none()
        );
        assert!(
            encoder(DataType::Float64, Packing::Auto)
                .encode_indexed(&groups)
                .is_none()
        );
    }
}
