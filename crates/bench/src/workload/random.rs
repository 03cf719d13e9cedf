//! Random numbers by position, independent of the order of generation.
//!
//! A value is a function of (seed, table, row, column): any chunk of a table can be generated separately, on
//! any thread, with the same result. The function is the finaliser of splitmix64, applied to each of the four
//! in turn. Its values are sufficiently random between neighbouring rows and columns for a workload.

/// The random numbers of one row of one table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRandom(u64);

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl RowRandom {
    pub(crate) fn new(seed: u64, table: u64, row: u64) -> Self {
        Self(mix(mix(mix(seed) ^ table) ^ row))
    }

    /// 64 random bits for `column`.
    pub(crate) fn bits(self, column: u64) -> u64 {
        mix(self.0 ^ column)
    }

    /// Uniform from `low` to `high`, both included.
    pub(crate) fn range(self, column: u64, low: i64, high: i64) -> i64 {
        let span = (high - low) as u64 + 1;
        // The high half of a 128-bit product: uniform to within span / 2^64.
        low + ((u128::from(self.bits(column)) * u128::from(span)) >> 64) as i64
    }

    /// One of `choices`.
    pub(crate) fn choose<T: Copy>(self, column: u64, choices: &[T]) -> T {
        choices[self.range(column, 0, choices.len() as i64 - 1) as usize]
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(self, column: u64) -> f64 {
        (self.bits(column) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
