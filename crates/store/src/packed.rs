//! Packed codes of a chunk: each block of codes has as few bits per code as it needs.
//!
//! Codes of whole bytes waste much of the link's bandwidth: three return flags take 8 bits although 2
//! suffice, and one large order number widens a million small ones. The codes of a chunk are therefore stored
//! in host memory in blocks of [`BLOCK_CODES`]. Each block stores its least code and the distances of the
//! others from it, each with the number of bits that the greatest distance needs. They are transferred to the
//! device in this form, and unpacked there while later copies run. Kernels read plain codes of the column's
//! [`Width`].
//!
//! ```text
//! ┌───────────────────────────┬────────────────────────────┬──────────┐
//! │ PackedBlock per block     │ distances, block by block, │ 16 bytes │
//! │ {least, place, bits}      │ each begins at 16 bytes    │ of 0     │
//! └───────────────────────────┴────────────────────────────┴──────────┘
//! ```
//!
//! A block has at most 32 bits a code, so two neighbouring 32-bit words hold any code. The zeros at the end
//! serve as the second word of the last code.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use galatea_device::HostView;

use crate::bits::{GROUP, MOST_BITS, PackedCode};
use crate::column::Width;
use crate::extremes::extremes_with;

/// Codes of a block.
pub const BLOCK_CODES: usize = 512;

/// Unit of a block's place, in bytes: the size of a vector load.
const UNIT: usize = 16;

/// Minimum plain bytes of a chunk to be packed. For smaller chunks, packing saves no noticeable transfer
/// time.
const LEAST_BYTES: usize = 64 << 10;

/// The codes that are packed in host memory. Strings and values that are not codes are never packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Packing {
    /// None.
    Off,
    /// Codes of chunks with at least 64 KiB of codes, if packing saves at least one eighth.
    #[default]
    Auto,
    /// All codes that are close enough to each other.
    On,
}

impl Packing {
    /// Whether codes that have `plain` bytes unpacked may be packed.
    pub(crate) fn is_worth(self, plain: usize) -> bool {
        match self {
            Self::Off => false,
            Self::Auto => plain >= LEAST_BYTES,
            Self::On => plain > 0,
        }
    }
}

/// The place and the format of a block.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
struct PackedBlock {
    /// The least code of the block.
    least: u64,
    /// Start of its distances, in units of 16 bytes from the beginning of the stored bytes.
    place: u32,
    /// Bits of a distance.
    bits: u32,
}

impl PackedBlock {
    /// The block of these codes, at most [`BLOCK_CODES`], at a place; none if they are too far apart.
    fn of<C: PackedCode>(codes: &[C], place: usize) -> Option<Self> {
        let extremes = codes.first().map(|first| extremes_with((*first, *first), codes));
        let (least, greatest) =
            extremes.map_or((0, 0), |(least, greatest)| (least.widen(), greatest.widen()));
        let bits = u64::BITS - (greatest - least).leading_zeros();
        Some(Self {
            least,
            place: u32::try_from(place).ok()?,
            bits: (bits <= MOST_BITS).then_some(bits)?,
        })
    }

    /// Units of the distances of `codes` codes.
    fn units(self, codes: usize) -> usize {
        (codes * self.bits as usize).div_ceil(8 * UNIT)
    }

    fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Calls `visit` with each of these codes of the block, whose distances begin at `words`.
    #[inline(always)]
    fn for_each(self, words: &[u32], codes: Range<usize>, mut visit: impl FnMut(usize, u64)) {
        let mask = self.mask();
        for code in codes {
            let bit = code * self.bits as usize;
            let pair = u64::from(words[bit / 32]) | u64::from(words[bit / 32 + 1]) << 32;
            visit(code, self.least + (pair >> (bit % 32) & mask));
        }
    }
}

/// Words of the zeros after the last block.
const ZEROS: usize = UNIT / 4;

/// Directory of the codes of a chunk. It is built block by block, before memory for the codes is allocated.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    blocks: Vec<PackedBlock>,
    /// Units of the directory and of the blocks so far.
    end: usize,
}

impl Directory {
    /// The directory of `codes` codes, before any block is added.
    pub(crate) fn new(codes: usize) -> Self {
        let blocks = codes.div_ceil(BLOCK_CODES);
        Self {
            blocks: Vec::with_capacity(blocks),
            end: blocks * (size_of::<PackedBlock>() / UNIT),
        }
    }

    /// Adds the next block. Returns false if its codes are too far apart.
    #[must_use]
    pub(crate) fn add<C: PackedCode>(&mut self, codes: &[C]) -> bool {
        let Some(block) = PackedBlock::of(codes, self.end) else {
            return false;
        };
        self.end += block.units(codes.len());
        self.blocks.push(block);
        true
    }

    /// Bytes of the packed codes.
    pub(crate) fn bytes(&self) -> usize {
        (self.end + 1) * UNIT
    }

    /// Whether to pack codes that have `plain` bytes unpacked.
    pub(crate) fn pays(&self, packing: Packing, plain: usize) -> bool {
        packing.is_worth(plain) && (packing == Packing::On || self.bytes() <= plain - plain / 8)
    }

    /// Writes the directory and the zeros after the codes. The packer writes the rest of `target`, which has
    /// [`Self::bytes`].
    pub(crate) fn packer<'t>(&'t self, target: &'t mut [u8]) -> Packer<'t> {
        let directory = self.blocks.len() * size_of::<PackedBlock>();
        target[..directory].copy_from_slice(bytemuck::cast_slice(&self.blocks));
        Packer {
            blocks: self.blocks.iter(),
            rest: bytemuck::cast_slice_mut(&mut target[directory..]),
        }
    }
}

/// Writes the codes of a chunk to their place, block by block.
#[derive(Debug)]
pub(crate) struct Packer<'t> {
    blocks: std::slice::Iter<'t, PackedBlock>,
    /// Words behind the blocks written so far.
    rest: &'t mut [u32],
}

impl Packer<'_> {
    /// Writes the next block. The directory was built from the same codes.
    pub(crate) fn write(&mut self, codes: &[u64]) {
        let Some(block) = self.blocks.next() else { return };
        let (words, rest) = std::mem::take(&mut self.rest).split_at_mut(block.units(codes.len()) * UNIT / 4);
        self.rest = rest;
        u64::PACKERS[block.bits as usize](codes, block.least, words);
    }

    /// Zeroes the words behind the last block.
    pub(crate) fn finish(self) {
        self.rest.fill(0);
    }
}

/// Codes of a chunk that are packed while the chunk is encoded, before its place is known.
#[derive(Debug)]
pub(crate) struct LocalPacked {
    directory: Directory,
    /// The distances of the blocks so far, and the zeros after them.
    words: Vec<u32>,
    codes: usize,
}

impl LocalPacked {
    /// No codes yet, of `codes` codes up to `greatest`; none if the codes may be too far apart.
    pub(crate) fn new(codes: usize, greatest: u64) -> Option<Self> {
        let bits = u64::BITS - greatest.leading_zeros();
        let most = codes.div_ceil(BLOCK_CODES) * BLOCK_CODES / GROUP * bits as usize;
        if bits > MOST_BITS {
            return None;
        }
        let mut words = Vec::with_capacity(most + ZEROS);
        words.resize(ZEROS, 0);
        Some(Self {
            directory: Directory::new(codes),
            words,
            codes,
        })
    }

    /// Adds the next block: [`BLOCK_CODES`] codes, or the last ones. Returns false if there are too many or
    /// if they are too far apart.
    #[must_use]
    pub(crate) fn add(&mut self, codes: &[u32]) -> bool {
        if !self.directory.add(codes) {
            return false;
        }
        let Some(block) = self.directory.blocks.last() else {
            return false;
        };
        let start = self.words.len() - ZEROS;
        let end = start + block.units(codes.len()) * UNIT / 4;
        self.words.resize(end + ZEROS, 0);
        u32::PACKERS[block.bits as usize](codes, block.least, &mut self.words[start..end]);
        true
    }

    /// Whether the blocks so far pay, if their codes have this width unpacked.
    pub(crate) fn pays_so_far(&self, packing: Packing, width: Width) -> bool {
        let plain = self.directory.blocks.len() * BLOCK_CODES * width.bytes();
        packing == Packing::On || self.bytes() <= plain - plain / 8
    }

    /// The directory of all codes.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.directory.blocks.len() * size_of::<PackedBlock>() + self.words.len() * 4
    }

    /// Writes the codes to their place, which has [`Directory::bytes`].
    pub(crate) fn write(&self, target: &mut [u8]) {
        let packer = self.directory.packer(target);
        packer.rest.copy_from_slice(&self.words);
    }

    /// Calls `visit` with the codes of each block, until it returns false. Returns whether it always returned
    /// true.
    pub(crate) fn for_each_block(&self, mut visit: impl FnMut(&mut [u64]) -> bool) -> bool {
        let mut codes = [0; BLOCK_CODES];
        let (mut left, mut start) = (self.codes, 0);
        self.directory.blocks.iter().all(|block| {
            let number = left.min(BLOCK_CODES);
            left -= number;
            block.for_each(&self.words[start..], 0..number, |code, value| codes[code] = value);
            start += block.units(number) * UNIT / 4;
            visit(&mut codes[..number])
        })
    }
}

/// The codes of a chunk, packed.
#[derive(Debug, Clone)]
pub struct PackedCodes {
    stored: HostView,
    rows: u32,
    width: Width,
}

impl PackedCodes {
    /// Codes of a chunk that a [`Packer`] has written to `stored`.
    pub(crate) fn new(stored: HostView, rows: u32, width: Width) -> Self {
        Self { stored, rows, width }
    }

    /// Packed codes that were read from a file. `None` if their directory is invalid.
    pub(crate) fn checked(stored: HostView, rows: u32, width: Width) -> Option<Self> {
        let codes = rows as usize;
        let directory = codes.div_ceil(BLOCK_CODES) * size_of::<PackedBlock>();
        let bytes = stored.len();
        if !bytes.is_multiple_of(UNIT) || bytes < directory + UNIT {
            return None;
        }
        let packed = Self::new(stored, rows, width);
        let mut left = codes;
        let is_valid = packed.blocks().iter().all(|block| {
            let codes = left.min(BLOCK_CODES);
            left -= codes;
            let start = block.place as usize;
            block.bits <= MOST_BITS
                && start >= directory / UNIT
                && start + block.units(codes) < bytes / UNIT
                && block.least.checked_add(block.mask()).is_some()
        });
        is_valid.then_some(packed)
    }

    /// The bytes in host memory: directory, distances, zeros.
    #[must_use]
    pub fn stored(&self) -> &HostView {
        &self.stored
    }

    /// Number of codes.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Width of a plain code.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// Bytes of the plain codes.
    #[must_use]
    pub fn plain_bytes(&self) -> usize {
        self.rows as usize * self.width.bytes()
    }

    /// The directory.
    fn blocks(&self) -> &[PackedBlock] {
        let blocks = (self.rows as usize).div_ceil(BLOCK_CODES);
        bytemuck::cast_slice(&self.stored.as_slice()[..blocks * size_of::<PackedBlock>()])
    }

    /// Calls `visit` with each row in the range and its code.
    #[inline(always)]
    pub(crate) fn for_each(&self, rows: Range<usize>, mut visit: impl FnMut(usize, u64)) {
        let words: &[u32] = bytemuck::cast_slice(self.stored.as_slice());
        let blocks = self.blocks();
        let mut row = rows.start;
        while row < rows.end {
            let index = row / BLOCK_CODES;
            let block = blocks[index];
            let first = index * BLOCK_CODES;
            let end = rows.end.min(first + BLOCK_CODES);
            let words = &words[block.place as usize * UNIT / 4..];
            block.for_each(words, row - first..end - first, |code, value| {
                visit(first + code - rows.start, value);
            });
            row = end;
        }
    }

    /// Unpacks all codes into `target`, which has [`Self::plain_bytes`].
    pub fn unpack(&self, target: &mut [u8]) {
        let rows = 0..self.rows as usize;
        match self.width {
            Width::Zero => {}
            Width::One => self.for_each(rows, |row, code| target[row] = code as u8),
            Width::Two => {
                let target: &mut [u16] = bytemuck::cast_slice_mut(target);
                self.for_each(rows, |row, code| target[row] = code as u16);
            }
            Width::Four => {
                let target: &mut [u32] = bytemuck::cast_slice_mut(target);
                self.for_each(rows, |row, code| target[row] = code as u32);
            }
            Width::Eight => {
                let target: &mut [u64] = bytemuck::cast_slice_mut(target);
                self.for_each(rows, |row, code| target[row] = code);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use galatea_device::HostMemory;

    use super::*;

    /// Packs codes; none if they cannot be packed.
    fn packed(codes: &[u64], width: Width) -> Option<PackedCodes> {
        let mut directory = Directory::new(codes.len());
        for block in codes.chunks(BLOCK_CODES) {
            if !directory.add(block) {
                return None;
            }
        }
        let bytes = directory.bytes();
        let mut memory = HostMemory::new(bytes).expect("little memory");
        memory.as_mut_slice().fill(0xa5);
        let mut packer = directory.packer(&mut memory.as_mut_slice()[..bytes]);
        codes.chunks(BLOCK_CODES).for_each(|block| packer.write(block));
        packer.finish();
        let view = HostView::new(Arc::new(memory), 0, bytes).expect("inside");
        Some(PackedCodes::new(view, codes.len() as u32, width))
    }

    /// Numbers of up to `bits` bits.
    fn random(rows: usize, bits: u32, seed: u64) -> Vec<u64> {
        let mut state = seed | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.checked_shr(64 - bits).unwrap_or(0)
        };
        std::iter::repeat_with(next).take(rows).collect()
    }

    #[test]
    fn unpacked_codes_equal_the_original() {
        let rows = [0, 1, 2, 31, 32, 33, 511, 512, 513, 1024, 5000];
        for (seed, rows) in rows.into_iter().enumerate() {
            for bits in 0..=32 {
                let least = [0, 7, u64::MAX >> 1][seed % 3];
                let codes: Vec<u64> = random(rows, bits, seed as u64 + 1)
                    .into_iter()
                    .map(|code| least + code)
                    .collect();
                let packed = packed(&codes, Width::Eight).expect("32 bits at most");
                let mut plain = vec![u64::MAX; rows];
                packed.unpack(bytemuck::cast_slice_mut(&mut plain));
                assert_eq!(plain, codes, "{rows} rows, {bits} bits");
                let range = rows / 3..rows - rows / 5;
                let mut part = vec![0; range.len()];
                packed.for_each(range.clone(), |row, code| part[row] = code);
                assert_eq!(part, codes[range], "{rows} rows, {bits} bits");
            }
        }
    }

    /// Codes that are packed while they are encoded have the bytes of a packer.
    #[test]
    fn local_codes_equal_packed_ones() {
        for rows in [1, 31, 32, 33, 511, 512, 513, 1030, 5000] {
            for bits in 0..=32 {
                let codes = random(rows, bits, u64::from(bits) + 9);
                let mut local = LocalPacked::new(rows, (1 << bits) - 1).expect("32 bits at most");
                let narrow: Vec<u32> = codes.iter().map(|code| *code as u32).collect();
                assert!(narrow.chunks(BLOCK_CODES).all(|block| local.add(block)));
                let mut bytes = vec![0xa5; local.directory().bytes().div_ceil(8) * 8];
                let mut aligned = vec![0_u64; bytes.len() / 8];
                local.write(&mut bytemuck::cast_slice_mut(&mut aligned)[..local.directory().bytes()]);
                bytes.copy_from_slice(bytemuck::cast_slice(&aligned));
                let packed = packed(&codes, Width::Eight).expect("32 bits at most");
                let stored = packed.stored().as_slice();
                assert_eq!(&bytes[..stored.len()], stored, "{rows} rows, {bits} bits");
                let mut unpacked = Vec::new();
                assert!(local.for_each_block(|block| {
                    unpacked.extend_from_slice(block);
                    true
                }));
                assert_eq!(unpacked, codes, "{rows} rows, {bits} bits");
            }
        }
        assert!(LocalPacked::new(1, 1 << 32).is_none());
    }

    #[test]
    fn each_width_is_unpacked() {
        for (width, bits) in [
            (Width::One, 3),
            (Width::Two, 11),
            (Width::Four, 20),
            (Width::Zero, 0),
        ] {
            let codes = random(1300, bits, 5);
            let packed = packed(&codes, width).expect("few bits");
            let mut words = vec![u64::MAX; codes.len()];
            let plain: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
            packed.unpack(&mut plain[..codes.len() * width.bytes()]);
            for (row, plain) in plain.chunks(width.bytes().max(1)).take(codes.len()).enumerate() {
                let mut wide = [0; 8];
                wide[..width.bytes()].copy_from_slice(&plain[..width.bytes()]);
                assert_eq!(u64::from_le_bytes(wide), codes[row], "{width:?}, row {row}");
            }
        }
    }

    #[test]
    fn an_outlier_widens_only_its_block() {
        let mut codes = vec![5; 4 * BLOCK_CODES];
        codes[BLOCK_CODES + 3] = 5 + (1 << 30);
        let packed = packed(&codes, Width::Four).expect("31 bits");
        let bits: Vec<u32> = packed.blocks().iter().map(|block| block.bits).collect();
        assert_eq!(bits, [0, 31, 0, 0]);
    }

    #[test]
    fn codes_that_are_far_apart_are_not_packed() {
        assert!(packed(&[0, 1 << 32], Width::Eight).is_none());
        assert!(packed(&[1, 1 << 32], Width::Eight).is_some());
    }

    #[test]
    fn codes_are_packed_if_an_eighth_is_saved() {
        let rows = LEAST_BYTES;
        let directory = |bits: u32| {
            let mut directory = Directory::new(rows);
            for block in random(rows, bits, 3).chunks(BLOCK_CODES) {
                assert!(directory.add(block));
            }
            directory
        };
        let auto = Packing::Auto;
        assert!(directory(6).pays(auto, rows));
        assert!(!directory(8).pays(auto, rows));
        assert!(!directory(1).pays(auto, rows / 2), "too few bytes");
        assert!(directory(8).pays(Packing::On, rows));
        assert!(!directory(1).pays(Packing::Off, rows));
    }
}
