//! The tables: computed by row number, on any number of threads, with sums that are known without a join.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rayon::prelude::*;

use crate::workload::generate::{ROWS_PER_CHUNK, TableGenerator};
use crate::workload::random::RowRandom;

const SEED: u64 = 12;

/// Rows of a batch while generating.
const BATCH: u64 = 64 * 1024;

/// The type of keys and payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyType {
    /// 4 bytes.
    Int,
    /// 8 bytes.
    Long,
}

impl KeyType {
    fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
        }
    }

    /// The values of rows: numbers of 31 bits.
    fn column(self, rows: &Range<u64>, value: impl Fn(u64) -> u64) -> ArrayRef {
        match self {
            Self::Int => Arc::new(Int32Array::from_iter_values(
                rows.clone().map(|row| value(row) as i32),
            )),
            Self::Long => Arc::new(Int64Array::from_iter_values(
                rows.clone().map(|row| value(row) as i64),
            )),
        }
    }
}

/// The two sides of a join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JoinTables {
    /// Number of rows of `r`. Its keys are 0 to one less.
    pub(super) build_rows: u64,
    /// Rows of `s`.
    pub(super) probe_rows: u64,
    pub(super) key: KeyType,
}

impl JoinTables {
    /// The query.
    pub(super) const SQL: &'static str =
        "SELECT count(*), sum(r.payload), sum(s.payload) FROM r JOIN s ON r.key = s.key";

    /// `r` and `s`.
    pub(super) fn tables(self) -> [Arc<dyn TableGenerator>; 2] {
        [Arc::new(Side::Build(self)), Arc::new(Side::Probe(self))]
    }

    /// The key of a row of `s`.
    fn probe_key(self, row: u64) -> u64 {
        let random = RowRandom::new(SEED, 1, row);
        random.range(0, 0, self.build_rows as i64 - 1) as u64
    }

    /// The expected row of the result.
    pub(super) fn expected(self) -> Vec<i64> {
        let sums = (0..self.probe_rows).into_par_iter();
        let sums = sums.map(|row| (build_payload(self.probe_key(row)), probe_payload(row)));
        let (r, s) = sums.reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        vec![self.probe_rows as i64, r as i64, s as i64]
    }
}

fn build_payload(key: u64) -> u64 {
    RowRandom::new(SEED, 0, key).bits(1) >> 33
}

fn probe_payload(row: u64) -> u64 {
    RowRandom::new(SEED, 1, row).bits(1) >> 33
}

/// The numbers below `len` in a shuffled order: a bijection of `bits` bits, which is applied again if its
/// result is not below `len`.
struct Shuffled {
    len: u64,
    bits: u32,
}

impl Shuffled {
    fn of(len: u64) -> Self {
        Self {
            len,
            bits: u64::BITS - len.saturating_sub(1).leading_zeros(),
        }
    }

    fn at(&self, number: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let mut x = number;
        loop {
            // Multiplications by odd factors and xors with right shifts are bijections of `bits` bits.
            for factor in [
                0x9e37_79b9_7f4a_7c15_u64,
                0xbf58_476d_1ce4_e5b9,
                0x94d0_49bb_1331_11eb,
            ] {
                x = x.wrapping_mul(factor) & mask;
                x ^= x >> (self.bits / 2 + 1);
            }
            if x < self.len {
                return x;
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Build(JoinTables),
    Probe(JoinTables),
}

impl Side {
    fn rows(self) -> u64 {
        match self {
            Self::Build(tables) => tables.build_rows,
            Self::Probe(tables) => tables.probe_rows,
        }
    }

    fn batch(self, rows: &Range<u64>) -> RecordBatch {
        let (key, payload) = match self {
            Self::Build(tables) => {
                let shuffled = Shuffled::of(tables.build_rows);
                let key = |row: u64| shuffled.at(row);
                (
                    tables.key.column(rows, key),
                    tables.key.column(rows, |row| build_payload(key(row))),
                )
            }
            Self::Probe(tables) => (
                tables.key.column(rows, |row| tables.probe_key(row)),
                tables.key.column(rows, probe_payload),
            ),
        };
        RecordBatch::try_new(self.schema(), vec![key, payload]).expect("columns of one length")
    }
}

impl TableGenerator for Side {
    fn name(&self) -> &'static str {
        match self {
            Self::Build(_) => "r",
            Self::Probe(_) => "s",
        }
    }

    fn schema(&self) -> SchemaRef {
        let (Self::Build(tables) | Self::Probe(tables)) = self;
        let field = |name| Field::new(name, tables.key.data_type(), false);
        Arc::new(Schema::new(vec![field("key"), field("payload")]))
    }

    fn expected_rows(&self) -> u64 {
        self.rows()
    }

    fn natural_chunks(&self) -> usize {
        self.rows().div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let side = *self;
        Box::new(batches(self.rows(), index, chunks).map(move |rows| side.batch(&rows)))
    }
}

/// A table to group by a column with this number of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupedTable {
    pub(super) rows: u64,
    pub(super) groups: u64,
}

impl GroupedTable {
    /// The query; the outer aggregate keeps the result small.
    pub(super) const SQL: &'static str = "SELECT sum(n), sum(v) FROM \
         (SELECT key, count(*) AS n, sum(payload) AS v FROM t GROUP BY key) AS groups";

    /// The expected row of the result.
    pub(super) fn expected(self) -> Vec<i64> {
        let sum: u64 = (0..self.rows).into_par_iter().map(probe_payload).sum();
        vec![self.rows as i64, sum as i64]
    }

    fn batch(self, rows: &Range<u64>) -> RecordBatch {
        let key = |row: u64| RowRandom::new(SEED, 1, row).range(0, 0, self.groups as i64 - 1) as u64;
        let columns = vec![
            KeyType::Long.column(rows, key),
            KeyType::Long.column(rows, probe_payload),
        ];
        RecordBatch::try_new(self.schema(), columns).expect("columns of one length")
    }
}

impl TableGenerator for GroupedTable {
    fn name(&self) -> &'static str {
        "t"
    }

    fn schema(&self) -> SchemaRef {
        let field = |name| Field::new(name, DataType::Int64, false);
        Arc::new(Schema::new(vec![field("key"), field("payload")]))
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn natural_chunks(&self) -> usize {
        self.rows.div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let table = *self;
        Box::new(batches(self.rows, index, chunks).map(move |rows| table.batch(&rows)))
    }
}

/// The rows of the batches of a chunk.
fn batches(rows: u64, index: usize, chunks: usize) -> impl Iterator<Item = Range<u64>> + Send {
    let at = |i: usize| (u128::from(rows) * i as u128 / chunks as u128) as u64;
    let (start, end) = (at(index), at(index + 1));
    (start..end)
        .step_by(BATCH as usize)
        .map(move |row| row..end.min(row + BATCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn shuffle_is_a_random_permutation() {
        for len in [1, 2, 3, 7, 8, 1000, 4097] {
            let shuffled = Shuffled::of(len);
            let numbers: Vec<u64> = (0..len).map(|number| shuffled.at(number)).collect();
            let different: HashSet<u64> = numbers.iter().copied().collect();
            assert_eq!(different.len() as u64, len);
            assert!(numbers.iter().all(|number| *number < len));
            if len >= 1000 {
                // In a random sequence, every second number is greater than its predecessor.
                let ascending = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
                assert!(
                    (len * 2 / 5..len * 3 / 5).contains(&ascending),
                    "{ascending} of {len}"
                );
            }
        }
    }
}
