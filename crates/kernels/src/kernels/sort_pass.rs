//! One pass of a radix sort.

use galatea_device::{
    Device, DeviceBuffer, DeviceError, DevicePointer, Geometry, In, InOut, Out, Result, Stream,
    kernel_arguments,
};

use super::same_length;
use crate::kernel::{KernelFunction, kernel};
use crate::sort::{DIGIT_BITS, DIGIT_VALUES, KeyWidth};

/// Threads of a block: one a value of a digit.
const THREADS: u32 = DIGIT_VALUES as u32;

/// Keys whose prefixes fit 32 bits beside what is known of them.
const NARROW_ROWS: u64 = 1 << 30;

/// Words before the prefixes of tiles: the next tile's number, and 15 that keep the rest aligned.
const HEAD_WORDS: usize = 16;

kernel_arguments! {
    /// Arguments of `sort_pass`; see the header for the meaning of each field.
    pub struct SortPassArguments in "galatea/args/sort_pass.h" {
        /// Keys.
        pub keys: DevicePointer<u8>,
        /// Their ids, or null.
        pub ids: DevicePointer<u32>,
        /// Receives keys, or null.
        pub sorted_keys: DevicePointer<u8>,
        /// Receives ids.
        pub sorted_ids: DevicePointer<u32>,
        /// Smaller keys, by value of the digit.
        pub offsets: DevicePointer<u32>,
        /// Counts of tiles.
        pub prefixes: DevicePointer<u8>,
        /// Numbers tiles.
        pub tiles: DevicePointer<u32>,
        /// Number of keys.
        pub rows: u64,
        /// Lowest bit of the digit.
        pub shift: u64,
    }
}

kernel!(SortPass, "sort_pass", SortPassArguments);

/// Sorts keys by one digit, stably.
#[derive(Debug, Clone)]
pub struct SortPass {
    function: KernelFunction<Self>,
    width: KeyWidth,
    wide: bool,
}

/// What a pass reads and writes. Keys and ids of the result are other memory than those read.
#[derive(Debug)]
pub struct SortStep<'a> {
    /// The digit to sort by, 0 being the least significant.
    pub digit: usize,
    /// Whole keys.
    pub keys: In<'a, u8>,
    /// Their ids; without them ids are the keys' positions.
    pub ids: Option<In<'a, u32>>,
    /// By value of the digit, how many keys have a smaller one: 256 words.
    pub offsets: In<'a, u32>,
    /// Receives the keys, if anyone needs them.
    pub sorted_keys: Option<Out<'a, u8>>,
    /// Receives the ids.
    pub sorted_ids: Out<'a, u32>,
    /// [`SortPass::scratch_words`] words, of any content.
    pub scratch: &'a mut DeviceBuffer<u32>,
}

impl SortPass {
    /// Loads the kernel for at most `rows` keys of that width.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, width: KeyWidth, rows: u64) -> Result<Self> {
        let wide = rows > NARROW_ROWS;
        Self::load(device, width, wide)
    }

    /// As [`Self::new`] for so many keys that prefixes take 64 bits.
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

    /// Definitions that compile the kernel for keys of that width, and for prefixes of 64 bits where `wide`.
    #[must_use]
    pub fn options(width: KeyWidth, wide: bool) -> Vec<String> {
        let mut options = vec![width.option(), format!("-DGALATEA_SORT_ITEMS={}", width.items())];
        if wide {
            options.push("-DGALATEA_SORT_WIDE".to_owned());
        }
        options
    }

    /// Keys of a block.
    #[must_use]
    pub fn tile_rows(width: KeyWidth) -> u64 {
        u64::from(width.items() * THREADS)
    }

    /// Words of 32 bits that a pass over `rows` keys of that width needs.
    #[must_use]
    pub fn scratch_words(width: KeyWidth, rows: u64) -> usize {
        Self::scratch_words_of(width, rows, rows > NARROW_ROWS)
    }

    fn scratch_words_of(width: KeyWidth, rows: u64, wide: bool) -> usize {
        let tiles = rows.div_ceil(Self::tile_rows(width)) as usize;
        HEAD_WORDS + tiles * DIGIT_VALUES * if wide { 2 } else { 1 }
    }

    /// Words of 32 bits that this kernel needs for `rows` keys.
    #[must_use]
    pub fn scratch_words_for(&self, rows: u64) -> usize {
        Self::scratch_words_of(self.width, rows, self.wide)
    }

    /// Sorts by one digit: keys of equal digits stay in their order.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for lengths that do not agree, for more than 2^32 - 1 keys, and for a digit
    /// that keys do not have; the device's.
    pub fn launch(&self, stream: &Stream, step: SortStep<'_>) -> Result<()> {
        let rows = self.width.rows(step.keys.len())?;
        let most = if self.wide { u32::MAX.into() } else { NARROW_ROWS };
        for (what, asked, limit) in [
            ("keys of a sort", rows, most),
            (
                "digits of a sort",
                step.digit as u64,
                self.width.digits() as u64 - 1,
            ),
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
        same_length("sorted ids", rows as usize, step.sorted_ids.len())?;
        if let Some(ids) = &step.ids {
            same_length("ids of a sort", rows as usize, ids.len())?;
        }
        if let Some(keys) = &step.sorted_keys {
            same_length("sorted keys", step.keys.len(), keys.len())?;
        }
        if rows == 0 {
            return Ok(());
        }
        stream.fill(step.scratch.slice_mut(..words)?, 0)?;
        let scratch = InOut(step.scratch);
        let head = scratch.pointer();
        let arguments = SortPassArguments {
            keys: step.keys.pointer(),
            ids: step.ids.as_ref().map_or(DevicePointer::NULL, In::pointer),
            sorted_keys: step
                .sorted_keys
                .as_ref()
                .map_or(DevicePointer::NULL, Out::pointer),
            sorted_ids: step.sorted_ids.pointer(),
            offsets: step.offsets.pointer(),
            prefixes: DevicePointer::new(head.address() + 4 * HEAD_WORDS as u64),
            tiles: head,
            rows,
            shift: u64::from(DIGIT_BITS) * step.digit as u64,
        };
        let mut references = vec![
            step.keys.reference(),
            step.sorted_ids.reference(),
            step.offsets.reference(),
            scratch.reference(),
        ];
        references.extend(step.ids.as_ref().map(In::reference));
        references.extend(step.sorted_keys.as_ref().map(Out::reference));
        let geometry = Geometry::covering(rows, Self::tile_rows(self.width), THREADS);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
