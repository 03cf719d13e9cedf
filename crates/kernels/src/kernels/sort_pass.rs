//! One pass of a radix sort.

use galatea_device::{
    Device, DeviceBuffer, DeviceError, DevicePointer, Geometry, In, InOut, Out, Result, Stream,
    kernel_arguments,
};

use super::same_length;
use crate::kernel::{KernelFunction, kernel};
use crate::sort::{DIGIT_BITS, DIGIT_VALUES, KeyWidth};

/// Maximum number of keys for 32-bit prefixes, which also contain two flag bits.
const NARROW_ROWS: u64 = 1 << 30;

/// Words before the prefixes of tiles: the next tile's number, and 15 that keep the rest aligned.
const HEAD_WORDS: usize = 16;

kernel_arguments! {
    /// Arguments of `sort_pass`; the header describes each field.
    pub struct SortPassArguments in "galatea/args/sort_pass.h" {
        /// Keys, or null.
        pub keys: DevicePointer<u8>,
        /// Their ids, or null.
        pub ids: DevicePointer<u32>,
        /// Keys and ids in pairs, or null.
        pub pairs: DevicePointer<u64>,
        /// Receives pairs or keys, or null.
        pub sorted_items: DevicePointer<u8>,
        /// Receives ids, or null.
        pub sorted_ids: DevicePointer<u32>,
        /// Number of smaller keys, by value of the digit.
        pub offsets: DevicePointer<u32>,
        /// Counts of tiles.
        pub prefixes: DevicePointer<u8>,
        /// Counter that numbers tiles.
        pub tiles: DevicePointer<u32>,
        /// Number of keys.
        pub rows: u64,
        /// Lowest bit of the digit.
        pub shift: u64,
    }
}

kernel!(SortPass, "sort_pass", SortPassArguments);

/// Sorts keys stably by one digit.
#[derive(Debug, Clone)]
pub struct SortPass {
    function: KernelFunction<Self>,
    width: KeyWidth,
    wide: bool,
}

/// Input and output of a pass: the result must not overlap the input.
#[derive(Debug)]
pub struct SortStep<'a> {
    /// The digit to sort by, 0 being the least significant.
    pub digit: usize,
    /// The keys.
    pub input: SortInput<'a>,
    /// By value of the digit, the number of keys with a smaller one: 256 words.
    pub offsets: In<'a, u32>,
    /// Receives the keys in order.
    pub output: SortOutput<'a>,
    /// [`SortPass::scratch_words`] words, of any content.
    pub scratch: &'a mut DeviceBuffer<u32>,
}

/// Keys with ids.
#[derive(Debug)]
pub enum SortInput<'a> {
    /// Keys, and their ids; without them ids are the keys' positions.
    Keys(In<'a, u8>, Option<In<'a, u32>>),
    /// 32-bit keys, each above its id, as another pass wrote them.
    Pairs(In<'a, u64>),
}

/// Output of the keys in order.
#[derive(Debug)]
pub enum SortOutput<'a> {
    /// Their ids.
    Ids(Out<'a, u32>),
    /// 64-bit keys, and their ids.
    Keys(Out<'a, u8>, Out<'a, u32>),
    /// 32-bit keys, each above its id.
    Pairs(Out<'a, u64>),
}

impl SortPass {
    /// Loads the kernel for at most `rows` keys of a width.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, width: KeyWidth, rows: u64) -> Result<Self> {
        let wide = rows > NARROW_ROWS;
        Self::load(device, width, wide)
    }

    /// The same as [`Self::new`] for a number of keys that needs 64-bit prefixes.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn wide(device: &Device, width: KeyWidth) -> Result<Self> {
        Self::load(device, width, true)
    }

    fn load(device: &Device, width: KeyWidth, wide: bool) -> Result<Self> {
        Ok(Self {
            function: KernelFunction::load_with(device, Self::options(width, wide))?,
            width,
            wide,
        })
    }

    /// Definitions that compile the kernel for keys of a width, with 64-bit prefixes if `wide`.
    #[must_use]
    pub fn options(width: KeyWidth, wide: bool) -> Vec<String> {
        let (threads, items) = width.block();
        let mut options = vec![
            width.option(),
            format!("-DGALATEA_SORT_THREADS={threads}"),
            format!("-DGALATEA_SORT_ITEMS={items}"),
        ];
        if wide {
            options.push("-DGALATEA_SORT_WIDE".to_owned());
        }
        options
    }

    /// Keys of a block.
    #[must_use]
    pub fn tile_rows(width: KeyWidth) -> u64 {
        let (threads, items) = width.block();
        u64::from(threads * items)
    }

    /// 32-bit words of scratch memory that a pass over `rows` keys of a width needs.
    #[must_use]
    pub fn scratch_words(width: KeyWidth, rows: u64) -> usize {
        Self::scratch_words_of(width, rows, rows > NARROW_ROWS)
    }

    fn scratch_words_of(width: KeyWidth, rows: u64, wide: bool) -> usize {
        let tiles = rows.div_ceil(Self::tile_rows(width)) as usize;
        HEAD_WORDS + tiles * DIGIT_VALUES * if wide { 2 } else { 1 }
    }

    /// 32-bit words of scratch memory that this kernel needs for `rows` keys.
    #[must_use]
    pub fn scratch_words_for(&self, rows: u64) -> usize {
        Self::scratch_words_of(self.width, rows, self.wide)
    }

    /// Sorts by one digit: the order of keys with equal digits is kept.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for inconsistent lengths, for more than 2^32 - 1 keys, for a digit that keys do
    /// not have, and for pairs of 64-bit keys; the device's.
    pub fn launch(&self, stream: &Stream, step: SortStep<'_>) -> Result<()> {
        let rows = match &step.input {
            SortInput::Keys(keys, _) => self.width.rows(keys.len())?,
            SortInput::Pairs(pairs) => pairs.len() as u64,
        };
        let most = if self.wide { u32::MAX.into() } else { NARROW_ROWS };
        let digits = self.width.digits() as u64 - 1;
        // 64-bit keys do not fit beside an id.
        let paired = u64::from(matches!(step.input, SortInput::Pairs(_)))
            + u64::from(matches!(step.output, SortOutput::Pairs(_)));
        let pairs = if self.width == KeyWidth::Four { 2 } else { 0 };
        for (what, asked, limit) in [
            ("keys of a sort", rows, most),
            ("digits of a sort", step.digit as u64, digits),
            ("pairs of a sort", paired, pairs),
        ] {
            if asked > limit {
                return Err(DeviceError::Range {
                    what,
                    start: 0,
                    end: asked,
                    len: limit,
                });
            }
        }
        let words = self.scratch_words_for(rows);
        if step.scratch.len() < words {
            same_length("scratch words of a sort", words, step.scratch.len())?;
        }
        same_length("offsets of a digit", DIGIT_VALUES, step.offsets.len())?;
        let mut arguments = SortPassArguments {
            keys: DevicePointer::NULL,
            ids: DevicePointer::NULL,
            pairs: DevicePointer::NULL,
            sorted_items: DevicePointer::NULL,
            sorted_ids: DevicePointer::NULL,
            offsets: step.offsets.pointer(),
            prefixes: DevicePointer::NULL,
            tiles: DevicePointer::NULL,
            rows,
            shift: u64::from(DIGIT_BITS) * step.digit as u64,
        };
        if self.width == KeyWidth::Four {
            arguments.shift += u64::from(u32::BITS);
        }
        let mut references = vec![step.offsets.reference()];
        match &step.input {
            SortInput::Keys(keys, ids) => {
                arguments.keys = keys.pointer();
                references.push(keys.reference());
                if let Some(ids) = ids {
                    same_length("ids of a sort", rows as usize, ids.len())?;
                    arguments.ids = ids.pointer();
                    references.push(ids.reference());
                }
            }
            SortInput::Pairs(pairs) => {
                arguments.pairs = pairs.pointer();
                references.push(pairs.reference());
            }
        }
        match &step.output {
            SortOutput::Ids(ids) => {
                same_length("sorted ids", rows as usize, ids.len())?;
                arguments.sorted_ids = ids.pointer();
                references.push(ids.reference());
            }
            SortOutput::Keys(keys, ids) => {
                same_length("sorted keys", 8 * rows as usize, keys.len())?;
                same_length("sorted ids", rows as usize, ids.len())?;
                arguments.sorted_items = keys.pointer();
                arguments.sorted_ids = ids.pointer();
                references.extend([keys.reference(), ids.reference()]);
            }
            SortOutput::Pairs(pairs) => {
                same_length("sorted pairs", rows as usize, pairs.len())?;
                arguments.sorted_items = DevicePointer::new(pairs.pointer().address());
                references.push(pairs.reference());
            }
        }
        if rows == 0 {
            return Ok(());
        }
        stream.fill(step.scratch.slice_mut(..words)?, 0)?;
        let scratch = InOut(step.scratch);
        arguments.tiles = scratch.pointer();
        arguments.prefixes = DevicePointer::new(scratch.pointer().address() + 4 * HEAD_WORDS as u64);
        references.push(scratch.reference());
        let (threads, _) = self.width.block();
        let tile = Self::tile_rows(self.width);
        let geometry =
            Geometry::covering(rows, tile, threads).with_shared(tile * u64::from(self.width.moved_bytes()));
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
