//! The validity of rows: a bit each, in Arrow's order, set for rows that are not NULL.

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// The validity of consecutive rows. Rows are added at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validity {
    /// The bits. Those behind the last row are 0.
    words: Vec<u64>,
    rows: usize,
    valid: usize,
}

impl Validity {
    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of rows that are not NULL.
    pub(crate) fn valid(&self) -> usize {
        self.valid
    }

    /// Adds up to 64 rows: the low bits of a word.
    #[inline]
    pub(crate) fn push(&mut self, bits: u64, rows: usize) {
        let bits = bits & low_bits(rows);
        let shift = self.rows % WORD;
        match self.words.last_mut() {
            Some(last) if shift > 0 => {
                *last |= bits << shift;
                if shift + rows > WORD {
                    self.words.push(bits >> (WORD - shift));
                }
            }
            _ if rows > 0 => self.words.push(bits),
            _ => {}
        }
        self.rows += rows;
        self.valid += bits.count_ones() as usize;
    }

    /// Adds rows that are all valid or all NULL.
    pub(crate) fn push_run(&mut self, is_valid: bool, rows: usize) {
        let bits = if is_valid { u64::MAX } else { 0 };
        let mut left = rows;
        while left > 0 {
            let now = left.min(WORD);
            self.push(bits, now);
            left -= now;
        }
    }

    /// Adds the first `rows` bits of `packed`, which has as many.
    pub(crate) fn push_packed(&mut self, packed: &[u8], rows: usize) {
        let mut left = rows;
        for bytes in packed[..rows.div_ceil(8)].chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let now = left.min(WORD);
            self.push(u64::from_le_bytes(word), now);
            left -= now;
        }
    }

    /// Adds the rows of another.
    pub(crate) fn append(&mut self, other: &Self) {
        self.words.reserve(other.words.len());
        other.for_each_word(|bits, rows| self.push(bits, rows));
    }

    /// Calls `visit` with the bits of each 64 rows, and of the last, fewer ones, and with their number.
    #[inline]
    pub(crate) fn for_each_word(&self, mut visit: impl FnMut(u64, usize)) {
        let mut left = self.rows;
        for word in &self.words {
            let now = left.min(WORD);
            visit(*word, now);
            left -= now;
        }
    }

    /// The bits as bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        bytemuck::cast_slice(&self.words)[..self.rows.div_ceil(8)].to_vec()
    }
}

/// A word whose lowest `count` bits are set, 64 at most.
fn low_bits(count: usize) -> u64 {
    match count {
        0 => 0,
        _ => u64::MAX >> (WORD - count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of the rows, one by one.
    fn flags(validity: &Validity) -> Vec<bool> {
        let mut flags = Vec::new();
        validity.for_each_word(|bits, rows| flags.extend((0..rows).map(|row| bits >> row & 1 == 1)));
        flags
    }

    /// Bits that look random.
    fn bits(seed: usize) -> u64 {
        (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn rows_are_added_at_every_bit() {
        let (mut validity, mut expected) = (Validity::default(), Vec::new());
        for rows in (0..=64).chain([64, 64, 1, 63, 0, 7]) {
            validity.push(bits(rows), rows);
            expected.extend((0..rows).map(|row| bits(rows) >> row & 1 == 1));
        }
        assert_eq!(flags(&validity), expected);
        assert_eq!(validity.rows(), expected.len());
        assert_eq!(validity.valid(), expected.iter().filter(|bit| **bit).count());
        let bytes = validity.into_bytes();
        assert_eq!(bytes.len(), expected.len().div_ceil(8));
        for (row, flag) in expected.iter().enumerate() {
            assert_eq!(bytes[row / 8] >> (row % 8) & 1 == 1, *flag, "row {row}");
        }
        let behind = expected.len() % 8;
        assert!(behind == 0 || bytes[expected.len() / 8] >> behind == 0);
    }

    #[test]
    fn runs_and_packed_bits_are_added() {
        let packed: Vec<u8> = (0..40).map(|byte| bits(byte) as u8).collect();
        let (mut validity, mut expected) = (Validity::default(), Vec::new());
        for rows in [1, 8, 9, 63, 64, 65, 128, 200, 319, 320] {
            validity.push_run(rows % 2 == 0, rows);
            expected.resize(expected.len() + rows, rows % 2 == 0);
            validity.push_packed(&packed, rows);
            expected.extend((0..rows).map(|row| packed[row / 8] >> (row % 8) & 1 == 1));
        }
        assert_eq!(flags(&validity), expected);
        let mut twice = validity.clone();
        twice.append(&validity);
        assert_eq!(flags(&twice), [expected.clone(), expected].concat());
        assert_eq!(twice.valid(), 2 * validity.valid());
    }
}
