//! The layout and the writing of a frame.

use galatea_kernels::flow::mix64;

use crate::topology::PAGE;

/// Rows of a group: a page of 32-bit values.
pub const ROWS_OF_GROUP: usize = PAGE / 4;
/// 32-bit words of a page's Bloom filter: 8 bits a value.
const FILTER_WORDS: usize = ROWS_OF_GROUP * 8 / 32;
/// Words of a block of a filter. Each value sets a bit in each word of one block.
const BLOCK_WORDS: usize = 8;
const HEADER_WORDS: usize = 16;
/// Word of the header with the number of rows. Those before it are the publisher's.
const ROWS_WORD: usize = 2;
/// Factors that select a bit of each word: those of Parquet's filters.
const SALT: [u32; BLOCK_WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The order of the values of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paging {
    /// Row after row.
    Rows,
    /// Pages of one column each.
    Columns,
}

/// Numbers of columns and row groups of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageShape {
    /// Columns of 32-bit values.
    pub columns: usize,
    /// Groups of [`ROWS_OF_GROUP`] rows.
    pub groups: usize,
}

impl PageShape {
    /// Maximum number of rows of a frame.
    #[must_use]
    pub fn rows(self) -> usize {
        self.groups * ROWS_OF_GROUP
    }

    fn pages(self) -> usize {
        self.groups * self.columns
    }

    /// Words before the filters: the header, and the minimum and maximum of each page.
    pub(super) fn filters_at(self) -> usize {
        (HEADER_WORDS + 2 * self.pages()).next_multiple_of(BLOCK_WORDS)
    }

    /// Words before the pages.
    pub(super) fn pages_at(self) -> usize {
        (self.filters_at() + self.pages() * FILTER_WORDS).next_multiple_of(PAGE / 4)
    }

    /// Bytes of a frame.
    #[must_use]
    pub fn frame_bytes(self) -> usize {
        (self.pages_at() + self.pages() * ROWS_OF_GROUP) * 4
    }

    /// Writes rows into a frame, from one slice per column.
    ///
    /// # Panics
    /// On more rows than a frame has, slices of different lengths, or a frame that is too small.
    pub fn write(self, paging: Paging, columns: &[&[u32]], frame: &mut [u32]) {
        let rows = columns.first().map_or(0, |column| column.len());
        assert!(
            rows <= self.rows() && columns.len() == self.columns,
            "{rows} rows"
        );
        frame[ROWS_WORD] = rows as u32;
        for (number, column) in columns.iter().enumerate() {
            assert_eq!(column.len(), rows, "values of column {number}");
            for (group, values) in column.chunks(ROWS_OF_GROUP).enumerate() {
                let page = group * self.columns + number;
                let least = values.iter().min().copied().unwrap_or(u32::MAX);
                let greatest = values.iter().max().copied().unwrap_or(0);
                frame[HEADER_WORDS + 2 * page..][..2].copy_from_slice(&[least, greatest]);
                let filter = &mut frame[self.filters_at() + page * FILTER_WORDS..][..FILTER_WORDS];
                filter.fill(0);
                for value in values {
                    let (block, bits) = filter_bits(*value);
                    for (word, bit) in filter[block * BLOCK_WORDS..].iter_mut().zip(bits) {
                        *word |= bit;
                    }
                }
                match paging {
                    Paging::Columns => {
                        frame[self.pages_at() + page * ROWS_OF_GROUP..][..values.len()]
                            .copy_from_slice(values);
                    }
                    Paging::Rows => {
                        let first = self.pages_at() + group * ROWS_OF_GROUP * self.columns + number;
                        for (row, value) in values.iter().enumerate() {
                            frame[first + row * self.columns] = *value;
                        }
                    }
                }
            }
        }
    }

    /// The layout's constants, for device code.
    pub(super) fn constants(self) -> String {
        let salt: Vec<String> = SALT.iter().map(|salt| format!("{salt:#x}u")).collect();
        format!(
            "struct Shape {{\n    \
                 static constexpr u32 COLUMNS = {}, FILTERS = {}, PAGES = {};\n    \
                 GALATEA_INLINE static u32 salt(u32 word) {{\n        \
                     constexpr u32 SALT[8] = {{{}}};\n        \
                     return SALT[word];\n    \
                 }}\n\
             }};\n",
            self.columns,
            self.filters_at(),
            self.pages_at(),
            salt.join(", ")
        )
    }
}

/// The block of a value in a filter, and its bit in each of the block's words.
fn filter_bits(value: u32) -> (usize, [u32; BLOCK_WORDS]) {
    let hash = mix64(value.into());
    let blocks = (FILTER_WORDS / BLOCK_WORDS) as u64;
    let block = (((hash >> 32) * blocks) >> 32) as usize;
    (
        block,
        SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter contains every value of its page, and few others.
    #[test]
    fn filters_have_no_false_negatives() {
        let shape = PageShape {
            columns: 1,
            groups: 2,
        };
        let values: Vec<u32> = (0..1500_u32)
            .map(|value| value.wrapping_mul(0x9e37_79b9))
            .collect();
        let mut frame = vec![0_u32; shape.frame_bytes() / 4];
        shape.write(Paging::Columns, &[&values], &mut frame);
        let found = |value: u32, page: usize| {
            let (block, bits) = filter_bits(value);
            let at = shape.filters_at() + page * FILTER_WORDS + block * BLOCK_WORDS;
            frame[at..].iter().zip(bits).all(|(word, bit)| word & bit != 0)
        };
        for (row, value) in values.iter().enumerate() {
            assert!(found(*value, row / ROWS_OF_GROUP), "row {row}");
        }
        let others = 1500..21_500_u32;
        let wrong = others
            .filter(|value| found(value.wrapping_mul(0x9e37_79b9), 0))
            .count();
        assert!(wrong < 20_000 / 20, "{wrong} of 20000 values that are not there");
    }
}
