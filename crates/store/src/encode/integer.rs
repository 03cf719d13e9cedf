//! Integers with a frame of reference: `value = base + factor * code`.
//!
//! Each chunk is encoded in two passes over blocks that stay in the first-level cache. The first pass finds
//! the extremes and the greatest common divisor of the differences. The divisor is large for money in cents
//! that is always whole, or for timestamps in microseconds that are whole seconds. The pass tests the divisor
//! found so far on every value (a multiplication and a comparison), and stops testing once it is 1, which
//! happens after a few values in most columns. The second pass writes `(value - minimum) / factor` in the
//! narrowest width for this chunk. After all chunks, the column's width and factor are chosen, and
//! chunks with others are widened.
//!
//! Differences are taken modulo 2^64 and read as unsigned, so no extreme of `i64` or `u64` overflows.

use arrow::buffer::NullBuffer;

use super::codes::{Code, Codes, Divisor};
use crate::column::Width;
use crate::extremes::extremes_with;
use crate::packed::{BLOCK_CODES, LocalPacked, Packing};

/// Values per block: small enough to stay in the first-level cache between the loops over it.
const BLOCK: usize = 1024;

/// A native integer that represents a logical one.
pub(crate) trait Integer: Copy + Ord + Send + Sync + 'static {
    /// Two's complement, cut to 64 bits.
    fn bits(self) -> u64;
    /// The integer.
    fn wide(self) -> i128;
}

macro_rules! integer {
    ($($native:ty),*) => {$(
        impl Integer for $native {
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn wide(self) -> i128 {
                self as i128
            }
        }
    )*};
}
integer!(i8, i16, i32, i64, u8, u16, u32, u64, i128);

/// The consecutive values of a chunk in one Arrow array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) nulls: Option<&'a NullBuffer>,
}

impl<T: Copy> Piece<'_, T> {
    /// Calls `visit` with consecutive blocks of the values. Null rows are replaced by `fill`.
    #[inline(always)]
    pub(crate) fn for_each_block(&self, fill: T, mut visit: impl FnMut(&[T])) {
        let Some(nulls) = self.nulls else {
            self.values.chunks(BLOCK).for_each(visit);
            return;
        };
        let mut scratch = [fill; BLOCK];
        let bits = nulls.inner().bit_chunks();
        let mut words = bits.iter_padded();
        for block in self.values.chunks(BLOCK) {
            for (target, source) in scratch.chunks_mut(64).zip(block.chunks(64)) {
                let word = words.next().unwrap_or(0);
                for (row, (target, value)) in target.iter_mut().zip(source).enumerate() {
                    *target = if word >> row & 1 == 1 { *value } else { fill };
                }
            }
            visit(&scratch[..block.len()]);
        }
    }

    /// The first value that is not null.
    fn first_valid(&self) -> Option<T> {
        match self.nulls {
            None => self.values.first().copied(),
            Some(nulls) => nulls.valid_indices().next().map(|row| self.values[row]),
        }
    }
}

/// Integers of one chunk, in the narrowest width for this chunk.
#[derive(Debug)]
pub(crate) struct LocalIntegers {
    /// Extremes of the valid values.
    pub(crate) range: Option<(i128, i128)>,
    /// A divisor of all differences of valid values; 0 if there is at most one value.
    pub(crate) divisor: u64,
    /// The divisor if dividing narrows the codes, else 1.
    pub(crate) factor: u64,
    /// `(value - minimum) / factor`; 0 for null rows.
    pub(crate) codes: Codes,
}

impl LocalIntegers {
    /// The integers of a chunk with only NULL rows.
    pub(crate) fn zeros(rows: usize) -> Self {
        Self {
            range: None,
            divisor: 0,
            factor: 1,
            codes: Codes::Zero(rows),
        }
    }

    /// The value of code 0.
    fn minimum(&self) -> i128 {
        self.range.map_or(0, |(minimum, _)| minimum)
    }

    /// The value of a code.
    pub(crate) fn value(&self, code: u64) -> i128 {
        self.minimum() + i128::from(self.factor) * i128::from(code)
    }
}

/// Encodes one chunk. The distance between the values' extremes is at most `u64::MAX` (see [`extremes`] for
/// `i128`).
pub(crate) fn encode<T: Integer>(pieces: &[Piece<'_, T>], packing: Packing) -> LocalIntegers {
    let rows = pieces.iter().map(|piece| piece.values.len()).sum();
    let Some(anchor) = pieces.iter().find_map(Piece::first_valid) else {
        return LocalIntegers::zeros(rows);
    };
    let (mut minimum, mut maximum) = (anchor, anchor);
    let mut common = CommonDivisor::default();
    for piece in pieces {
        piece.for_each_block(anchor, |block| {
            (minimum, maximum) = extremes_with((minimum, maximum), block);
            common.absorb(block, anchor);
        });
    }
    let span = maximum.bits().wrapping_sub(minimum.bits());
    let divisor = common.value;
    let space = CodeSpace::new(span, divisor);
    let factor = space.factor;
    let local = || pack(pieces, rows, (minimum, space), packing);
    let codes = match space.width {
        Width::Zero => Codes::Zero(rows),
        _ if let Some(packed) = local() => Codes::Packed(packed),
        Width::One => Codes::One(write(pieces, rows, minimum, factor)),
        Width::Two => Codes::Two(write(pieces, rows, minimum, factor)),
        Width::Four => Codes::Four(write(pieces, rows, minimum, factor)),
        Width::Eight => Codes::Eight(write(pieces, rows, minimum, factor)),
    };
    LocalIntegers {
        range: Some((minimum.wide(), maximum.wide())),
        divisor,
        factor,
        codes,
    }
}

/// The codes `(value - minimum) / factor` of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeSpace {
    /// The narrowest width of the greatest code.
    pub(super) width: Width,
    /// The common divisor if dividing narrows the codes, else 1.
    pub(super) factor: u64,
    /// The greatest code.
    pub(super) greatest: u64,
}

impl CodeSpace {
    /// The codes of values with this difference between their extremes, and with this common divisor of
    /// their differences: 0 if there is one value only.
    pub(super) fn new(span: u64, divisor: u64) -> Self {
        let narrowed = span.checked_div(divisor).unwrap_or(0);
        let (width, plain) = (Width::for_maximum(narrowed), Width::for_maximum(span));
        match width < plain && divisor > 1 {
            true => Self {
                width,
                factor: divisor,
                greatest: narrowed,
            },
            false => Self {
                width: plain,
                factor: 1,
                greatest: span,
            },
        }
    }
}

/// Smallest and largest valid value.
pub(crate) fn extremes<T: Integer>(pieces: &[Piece<'_, T>]) -> Option<(T, T)> {
    let anchor = pieces.iter().find_map(Piece::first_valid)?;
    let (mut minimum, mut maximum) = (anchor, anchor);
    for piece in pieces {
        piece.for_each_block(anchor, |block| {
            (minimum, maximum) = extremes_with((minimum, maximum), block);
        });
    }
    Some((minimum, maximum))
}

/// Blocks after which the packing of a chunk is judged.
const JUDGED: usize = 16;

/// Packs the codes of a chunk, block by block. It gives up if the first [`JUDGED`] blocks save too little.
#[derive(Debug)]
pub(super) struct BlockPacker {
    packed: LocalPacked,
    packing: Packing,
    width: Width,
    /// Codes of the next block.
    block: [u32; BLOCK_CODES],
    held: usize,
    blocks: usize,
    pays: bool,
}

impl BlockPacker {
    /// A packer of `rows` codes, without codes yet. None if packing is off, if the chunk is small, or if
    /// codes have more than 32 bits.
    pub(super) fn new(rows: usize, space: CodeSpace, packing: Packing) -> Option<Self> {
        if !packing.is_worth(rows * space.width.bytes()) {
            return None;
        }
        Some(Self {
            packed: LocalPacked::new(rows, space.greatest)?,
            packing,
            width: space.width,
            block: [0; BLOCK_CODES],
            held: 0,
            blocks: 0,
            pays: true,
        })
    }

    /// Adds the codes of values, unless the packer has given up. Returns whether it takes more.
    #[inline(always)]
    pub(super) fn add<T: Copy>(&mut self, mut values: &[T], mut code: impl FnMut(T) -> u64) -> bool {
        while self.pays && !values.is_empty() {
            let (now, rest) = values.split_at(values.len().min(BLOCK_CODES - self.held));
            for (target, value) in self.block[self.held..].iter_mut().zip(now) {
                // Codes up to the greatest have 32 bits, otherwise there is no packer.
                *target = code(*value) as u32;
            }
            self.held += now.len();
            values = rest;
            if self.held == BLOCK_CODES {
                self.held = 0;
                self.blocks += 1;
                self.pays = self.packed.add(&self.block)
                    && (self.blocks != JUDGED || self.packed.pays_so_far(self.packing, self.width));
            }
        }
        self.pays
    }

    /// The packed codes, unless the packer has given up.
    pub(super) fn finish(mut self) -> Option<LocalPacked> {
        let pays = self.pays && (self.held == 0 || self.packed.add(&self.block[..self.held]));
        pays.then_some(self.packed)
    }
}

/// The codes of a chunk, packed; none if that is off or does not save enough.
fn pack<T: Integer>(
    pieces: &[Piece<'_, T>],
    rows: usize,
    (minimum, space): (T, CodeSpace),
    packing: Packing,
) -> Option<LocalPacked> {
    let mut packer = BlockPacker::new(rows, space, packing)?;
    let (base, divisor) = (minimum.bits(), Divisor::new(space.factor));
    for piece in pieces {
        piece.for_each_block(minimum, |values| {
            match space.factor {
                1 => packer.add(values, |value| value.bits().wrapping_sub(base)),
                _ => packer.add(values, |value| divisor.divide(value.bits().wrapping_sub(base))),
            };
        });
    }
    packer.finish()
}

fn write<T: Integer, C: Code>(pieces: &[Piece<'_, T>], rows: usize, minimum: T, factor: u64) -> Vec<C> {
    let mut codes = Vec::with_capacity(rows);
    let base = minimum.bits();
    let divisor = Divisor::new(factor);
    for piece in pieces {
        if factor == 1 {
            piece.for_each_block(minimum, |block| {
                codes.extend(
                    block
                        .iter()
                        .map(|value| C::truncate(value.bits().wrapping_sub(base))),
                );
            });
        } else {
            piece.for_each_block(minimum, |block| {
                codes.extend(
                    block
                        .iter()
                        .map(|value| C::truncate(divisor.divide(value.bits().wrapping_sub(base)))),
                );
            });
        }
    }
    codes
}

/// The greatest common divisor of all differences to an anchor so far; 0 if all were 0.
#[derive(Debug, Default)]
struct CommonDivisor {
    value: u64,
    test: Option<Divisor>,
}

impl CommonDivisor {
    #[inline(always)]
    fn absorb<T: Integer>(&mut self, block: &[T], anchor: T) {
        if self.value == 1 {
            return;
        }
        let difference = |value: &T| {
            let difference = value.bits().wrapping_sub(anchor.bits());
            if *value < anchor {
                difference.wrapping_neg()
            } else {
                difference
            }
        };
        if let Some(test) = self.test
            && block
                .iter()
                .map(difference)
                .fold(true, |all, number| all & test.divides(number))
        {
            return;
        }
        for number in block.iter().map(difference) {
            self.value = greatest_common_divisor(self.value, number);
            if self.value == 1 {
                break;
            }
        }
        self.test = (self.value != 0).then(|| Divisor::new(self.value));
    }
}

pub(crate) fn greatest_common_divisor(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// The encoding of all chunks of an integer column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) width: Width,
    pub(crate) factor: u64,
}

impl Frame {
    /// The narrowest frame for these chunks.
    pub(crate) fn for_chunks<'a>(chunks: impl Iterator<Item = &'a LocalIntegers> + Clone) -> Self {
        let divisor = chunks.clone().fold(0, |divisor, chunk| {
            greatest_common_divisor(divisor, chunk.divisor)
        });
        let divisor = divisor.max(1);
        let width = |factor: u64| {
            let codes = chunks.clone().filter_map(|chunk| {
                let (minimum, maximum) = chunk.range?;
                let (_, offset) = base_and_offset(minimum, factor);
                Some((maximum - minimum) as u64 / factor + offset)
            });
            Width::for_maximum(codes.max().unwrap_or(0))
        };
        let (plain, divided) = (width(1), width(divisor));
        if divided < plain {
            Self {
                width: divided,
                factor: divisor,
            }
        } else {
            Self {
                width: plain,
                factor: 1,
            }
        }
    }

    /// Whether this frame can hold a chunk.
    pub(crate) fn accepts(self, chunk: &LocalIntegers) -> bool {
        let Some((minimum, maximum)) = chunk.range else {
            return true;
        };
        let (_, offset) = base_and_offset(minimum, self.factor);
        let largest = (maximum - minimum) as u64 / self.factor + offset;
        chunk.divisor.is_multiple_of(self.factor) && Width::for_maximum(largest) <= self.width
    }

    /// The base of a chunk.
    pub(crate) fn base(self, chunk: &LocalIntegers) -> i64 {
        base_and_offset(chunk.minimum(), self.factor).0
    }

    /// The mapping from the codes of a chunk to those of this frame.
    pub(crate) fn map(self, chunk: &LocalIntegers) -> CodeMap {
        let (_, offset) = base_and_offset(chunk.minimum(), self.factor);
        if chunk.factor >= self.factor {
            match chunk.factor / self.factor {
                1 if offset == 0 => CodeMap::Same,
                multiplier => CodeMap::Multiplied { multiplier, offset },
            }
        } else {
            // The chunk kept its codes undivided because dividing did not narrow it. They are multiples
            // nevertheless.
            let divisor = Divisor::new(self.factor);
            CodeMap::Divided { divisor, offset }
        }
    }
}

/// A mapping from the codes of one chunk to those of its column. It preserves the order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CodeMap {
    Same,
    Multiplied { multiplier: u64, offset: u64 },
    Divided { divisor: Divisor, offset: u64 },
}

impl CodeMap {
    /// Whether the codes of the chunk are those of its column.
    pub(crate) fn is_same(self) -> bool {
        matches!(self, Self::Same)
    }

    /// Writes the codes. `width` must hold them.
    pub(crate) fn write(self, codes: &Codes, width: Width, target: &mut [u8]) {
        match self {
            Self::Same => codes.write_mapped(width, target, |code| code),
            Self::Multiplied { multiplier, offset } => {
                codes.write_mapped(width, target, |code| code * multiplier + offset);
            }
            Self::Divided { divisor, offset } => {
                codes.write_mapped(width, target, |code| divisor.divide(code) + offset);
            }
        }
    }

    /// Calls `visit` with blocks of the codes, like [`Codes::for_each_block`].
    pub(crate) fn for_each_block(self, codes: &Codes, visit: impl FnMut(&[u64]) -> bool) -> bool {
        match self {
            Self::Same => codes.for_each_block(|code| code, visit),
            Self::Multiplied { multiplier, offset } => {
                codes.for_each_block(|code| code * multiplier + offset, visit)
            }
            Self::Divided { divisor, offset } => {
                codes.for_each_block(|code| divisor.divide(code) + offset, visit)
            }
        }
    }
}

/// The base for a chunk's minimum, and the code of the minimum. The code is 0, except for a `u64` that is too
/// far above every `i64` base.
fn base_and_offset(minimum: i128, factor: u64) -> (i64, u64) {
    match i64::try_from(minimum) {
        Ok(base) => (base, 0),
        Err(_) => {
            let excess = minimum - i128::from(i64::MAX);
            let factor = i128::from(factor);
            let offset = (excess + factor - 1) / factor;
            // The excess is below 2^63 and the base at most a factor below i64::MAX, so both fit.
            ((minimum - offset * factor) as i64, offset as u64)
        }
    }
}
