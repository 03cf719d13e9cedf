//! Sorting rows by normalised keys: a stable radix sort from the least significant digit on.
//!
//! ```text
//!   key words ── histograms of all digits ── the host skips digits that all keys share
//!     last word: passes, row numbers carried ── next word: gathered by the row numbers so far, passes ── ... ── first word
//! ```
//!
//! Of many random keys of 64 bits the upper ones tell nearly all apart. Then passes by the lower digits are
//! left out, and one read of the keys sorts the short runs that the upper digits leave equal. By how many
//! digits to sort is estimated from the counts and from a sample; where the estimate is wrong, a run is too
//! long, which is seen, and all passes follow.
//!
//! A row's key is one or more words, compared as unsigned integers, the first being the most significant. A
//! pass reads and writes every key and row number once; the first makes the row numbers, and the last of a
//! word leaves its keys out. Between passes, keys of 32 bits are in pairs with their row numbers. The counts
//! of digits do not depend on the order of rows, so they are read back once for all words. Row numbers have
//! 32 bits.

use galatea_device::{Device, DeviceBuffer, DeviceError, DeviceSlice, In, InOut, Out, Stream};
use galatea_kernels::{
    DIGIT_BITS, DIGIT_VALUES, KeyWidth, RowsInOrder, RunParts, SortGather, SortHistogram, SortInput,
    SortOutput, SortPass, SortRuns, SortStep,
};

use crate::regions::MemoryManager;

/// Rows from which on lower digits may be left out: fewer are sorted before a sample has been read.
const ROWS_TO_LEAVE_OUT: usize = 1 << 22;

/// Keys of a sample: few enough that it is unlikely to have two with the digits that [`MOST_EQUAL`] allows.
const SAMPLE_KEYS: usize = 1024;

/// Keys, by key, with the same sorted digits: the most that may be left to [`SortRuns`].
const MOST_EQUAL: f64 = 0.125;

/// Why rows were not sorted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The buffers of the sort do not fit, whatever the memory manager evicts.
    #[error(
        "{what} of a sort need {needed} bytes of device memory: {available} of {limit} are available\nhint: raise galatea.gpu_memory_limit"
    )]
    Memory {
        /// Which buffers.
        what: &'static str,
        /// Their bytes.
        needed: u64,
        /// Bytes that are available.
        available: u64,
        /// The limit on device memory.
        limit: u64,
    },
    /// More rows than row numbers.
    #[error("{rows} rows cannot be sorted at once: row numbers have 32 bits, so {limit} can")]
    Rows {
        /// Rows asked for.
        rows: u64,
        /// Most rows.
        limit: u64,
    },
}

/// One word of the keys of all rows, in the order of rows. The sort overwrites it.
#[derive(Debug)]
pub struct KeyWord<'a> {
    /// How wide it is.
    pub width: KeyWidth,
    /// At least as many keys as there are rows.
    pub values: &'a mut DeviceBuffer<u8>,
}

/// The order of rows.
#[derive(Debug)]
pub struct SortedRows {
    /// The numbers of the rows in order; `None` where rows are in order as they are.
    pub ids: Option<DeviceBuffer<u32>>,
    /// Passes over the keys that it took.
    pub passes: u32,
}

impl SortedRows {
    /// Rows that are in order.
    pub const AS_THEY_ARE: Self = Self { ids: None, passes: 0 };
}

/// A pass that is needed, by one digit of a word.
#[derive(Debug)]
struct Pass {
    digit: usize,
    /// By value of the digit, the keys with a smaller one.
    offsets: Vec<u32>,
    /// The chance that two keys have the same digit.
    same: f64,
}

/// Sorts rows in device memory that a manager makes room for.
#[derive(Debug)]
pub struct RadixSort<'a> {
    device: &'a Device,
    memory: &'a MemoryManager,
    rows_to_leave_out: usize,
}

impl<'a> RadixSort<'a> {
    /// A sort in that manager's memory.
    #[must_use]
    pub fn new(memory: &'a MemoryManager) -> Self {
        Self {
            device: memory.device(),
            memory,
            rows_to_leave_out: ROWS_TO_LEAVE_OUT,
        }
    }

    /// The same sort, which may leave out lower digits from so many rows on.
    #[must_use]
    pub fn leaving_out_from(self, rows: usize) -> Self {
        Self {
            rows_to_leave_out: rows,
            ..self
        }
    }

    /// Bytes that a sort of `rows` rows by words of these widths allocates at most, beside the keys.
    #[must_use]
    pub fn scratch_bytes(widths: &[KeyWidth], rows: u64) -> u64 {
        let of = |width: &KeyWidth| {
            let prefixes = 4 * SortPass::scratch_words(*width, rows) as u64;
            // Gathered keys, and pairs or sorted keys.
            let moved = match width {
                KeyWidth::Four => 4 + 2 * 8,
                KeyWidth::Eight => 8,
            };
            (rows.saturating_mul(moved)).saturating_add(prefixes)
        };
        // Two buffers of row numbers.
        (widths.iter().map(of).max().unwrap_or(0)).saturating_add(8 * rows)
    }

    /// The order of the first `rows` rows by their key words, the most significant first; equal rows stay in
    /// their order.
    ///
    /// # Errors
    /// [`SortError::Memory`] when its buffers do not fit, [`SortError::Rows`] for more than 2^32 - 1 rows,
    /// [`DeviceError::Range`] for a word with fewer keys than rows; the device's.
    pub fn sort(
        &self,
        stream: &Stream,
        words: &mut [KeyWord<'_>],
        rows: usize,
    ) -> Result<SortedRows, SortError> {
        if rows as u64 > u64::from(u32::MAX) {
            return Err(SortError::Rows {
                rows: rows as u64,
                limit: u32::MAX.into(),
            });
        }
        let passes = self.passes(stream, words, rows)?;
        if passes.iter().all(Vec::is_empty) {
            return Ok(SortedRows::AS_THEY_ARE);
        }
        let widths: Vec<KeyWidth> = (words.iter().zip(&passes))
            .filter(|(_, passes)| !passes.is_empty())
            .map(|(word, _)| word.width)
            .collect();
        let of_all: Vec<u32> = passes
            .iter()
            .flatten()
            .flat_map(|pass| pass.offsets.iter().copied())
            .collect();
        let offsets = self.room("offsets", 4 * of_all.len(), || {
            self.device.upload(stream, &of_all)
        })?;
        let mut sorted = Sorted {
            sort: self,
            stream,
            rows,
            spare: None,
            pairs: [None, None],
            scratch: {
                let words = |width: &KeyWidth| SortPass::scratch_words(*width, rows as u64);
                self.allocate(stream, "prefixes", widths.iter().map(words).max().unwrap_or(0))?
            },
            ids: None,
            passes: 0,
        };
        // Offsets of the passes of a word begin there.
        let mut first = of_all.len();
        for (word, passes) in words.iter_mut().zip(&passes).rev() {
            first -= passes.len() * DIGIT_VALUES;
            if passes.is_empty() {
                continue;
            }
            let starts = (first..).step_by(DIGIT_VALUES);
            let steps = passes.iter().zip(starts).map(|(pass, at)| {
                let offsets = offsets.slice(at..at + DIGIT_VALUES)?;
                Ok((pass.digit, offsets))
            });
            let steps = steps.collect::<Result<Vec<_>, DeviceError>>()?;
            let kernel = SortPass::new(self.device, word.width, rows as u64)?;
            match word.width {
                KeyWidth::Four => sorted.by_pairs(&kernel, word, &steps)?,
                KeyWidth::Eight => {
                    let left_out = self.digits_to_leave_out(stream, word, passes, rows)?;
                    sorted.by_keys(&kernel, word, &steps, left_out)?;
                }
            }
        }
        Ok(SortedRows {
            ids: sorted.ids,
            passes: sorted.passes,
        })
    }

    /// Whether the first `rows` rows are in the order of their key words, the most significant first: one
    /// read of the keys.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for a word with fewer keys than rows; the device's.
    pub fn are_in_order(
        &self,
        stream: &Stream,
        words: &[KeyWord<'_>],
        rows: usize,
    ) -> Result<bool, SortError> {
        let keys = words.iter().map(|word| Ok((word.width, word.values.slice(..)?)));
        let keys = keys.collect::<Result<Vec<_>, DeviceError>>()?;
        let mut out_of_order = self.room("a flag", size_of::<u32>(), || {
            self.device.zeroed::<u32>(stream, 1)
        })?;
        RowsInOrder::new(self.device)?.launch(stream, &keys, rows, InOut(&mut out_of_order))?;
        Ok(stream.read(&out_of_order, ..)? == [0])
    }

    /// The values with these ids, of `width` bytes each.
    ///
    /// # Errors
    /// [`SortError::Memory`] when they do not fit, [`DeviceError::Range`] for a width that values do not
    /// have; the device's.
    pub fn gather(
        &self,
        stream: &Stream,
        values: &DeviceBuffer<u8>,
        ids: DeviceSlice<'_, u32>,
        width: usize,
    ) -> Result<DeviceBuffer<u8>, SortError> {
        let mut gathered = self.allocate::<u8>(stream, "columns in order", width * ids.len())?;
        SortGather::new(self.device)?.launch(stream, In(values), In(ids), width, Out(&mut gathered))?;
        Ok(gathered)
    }

    /// By word, the digits in which keys differ.
    fn passes(
        &self,
        stream: &Stream,
        words: &[KeyWord<'_>],
        rows: usize,
    ) -> Result<Vec<Vec<Pass>>, SortError> {
        let len: usize = words.iter().map(|word| word.width.digits() * DIGIT_VALUES).sum();
        if rows < 2 || len == 0 {
            return Ok(words.iter().map(|_| Vec::new()).collect());
        }
        let mut counts = self.room("counts of digits", 4 * len, || {
            self.device.zeroed::<u32>(stream, len)
        })?;
        let mut first = 0;
        for word in words {
            let keys = word.values.slice(..word.width.bytes() * rows)?;
            let end = first + word.width.digits() * DIGIT_VALUES;
            let kernel = SortHistogram::new(self.device, word.width)?;
            kernel.launch(stream, In(keys), InOut(counts.slice_mut(first..end)?))?;
            first = end;
        }
        let counts = stream.read(&counts, ..)?;
        let mut digits = counts.chunks(DIGIT_VALUES);
        let of_word = |word: &KeyWord<'_>| {
            let digits = digits.by_ref().take(word.width.digits()).enumerate();
            digits
                .filter_map(|(digit, counts)| Pass::of(digit, counts, rows as u32))
                .collect()
        };
        Ok(words.iter().map(of_word).collect())
    }

    /// How many of a word's digits need no pass, from the least significant on, since the others tell nearly
    /// all keys apart.
    fn digits_to_leave_out(
        &self,
        stream: &Stream,
        word: &KeyWord<'_>,
        passes: &[Pass],
        rows: usize,
    ) -> Result<usize, SortError> {
        if rows < self.rows_to_leave_out.max(2) {
            return Ok(0);
        }
        // If digits were independent of each other; a sample says whether they are.
        let mut equal = rows as f64;
        let Some(sorted) = passes.iter().rev().position(|pass| {
            equal *= pass.same;
            equal <= MOST_EQUAL
        }) else {
            return Ok(0);
        };
        let mut left_out = passes.len() - 1 - sorted;
        if left_out < 2 {
            return Ok(0); // the read that finishes the sort costs about a pass
        }
        let keys = SAMPLE_KEYS.min(rows);
        let places: Vec<u32> = (0..keys).map(|at| (at * rows / keys) as u32).collect();
        let places = self.room("a sample", 4 * keys, || self.device.upload(stream, &places))?;
        let sample = self.gather(stream, word.values, places.slice(..)?, size_of::<u64>())?;
        let sample = stream.read(&sample, ..)?;
        let keys = sample
            .chunks_exact(size_of::<u64>())
            .map(bytemuck::pod_read_unaligned);
        let mut sample: Vec<u64> = keys.collect();
        sample.sort_unstable();
        while left_out > 0 {
            let shift = DIGIT_BITS * passes[left_out].digit as u32;
            let differ_below = |pair: &[u64]| pair[0] != pair[1] && pair[0] >> shift == pair[1] >> shift;
            if !sample.windows(2).any(differ_below) {
                break;
            }
            left_out -= 1;
        }
        Ok(if left_out < 2 { 0 } else { left_out })
    }

    fn allocate<T: bytemuck::Pod>(
        &self,
        stream: &Stream,
        what: &'static str,
        len: usize,
    ) -> Result<DeviceBuffer<T>, SortError> {
        self.room(what, len * size_of::<T>(), || {
            Ok(self.device.alloc::<T>(stream, len)?.assume_written())
        })
    }

    /// What `attempt` allocates, of so many bytes, once there is room.
    fn room<T>(
        &self,
        what: &'static str,
        bytes: usize,
        attempt: impl FnMut() -> Result<T, DeviceError>,
    ) -> Result<T, SortError> {
        let made = self.memory.making_room(attempt, DeviceError::is_out_of_memory)?;
        made.ok_or_else(|| SortError::Memory {
            what,
            needed: bytes as u64,
            available: self.device.budget().available(),
            limit: self.device.budget().limit(),
        })
    }
}

/// A sort under way: the order by the words that are done, and memory that its passes take turns with.
struct Sorted<'a> {
    sort: &'a RadixSort<'a>,
    stream: &'a Stream,
    rows: usize,
    /// Keys that were gathered, or sorted.
    spare: Option<DeviceBuffer<u8>>,
    pairs: [Option<DeviceBuffer<u64>>; 2],
    scratch: DeviceBuffer<u32>,
    /// Row numbers in order; as they are where no word is done.
    ids: Option<DeviceBuffer<u32>>,
    /// Passes so far.
    passes: u32,
}

impl Sorted<'_> {
    /// Sorts by a word of 64 bits, digit by digit, each with its offsets; the first `left_out` of them only
    /// where the others leave long runs of equal keys.
    fn by_keys(
        &mut self,
        kernel: &SortPass,
        word: &mut KeyWord<'_>,
        digits: &[(usize, DeviceSlice<'_, u32>)],
        left_out: usize,
    ) -> Result<(), SortError> {
        let bytes = word.width.bytes() * self.rows;
        let gathered = self.gather(word)?;
        let mut spare = match self.spare.take() {
            Some(spare) => spare,
            None => self.sort.allocate(self.stream, "keys", bytes)?,
        };
        let (mut keys, mut sorted_keys) = (&mut *word.values, &mut spare);
        if gathered {
            std::mem::swap(&mut keys, &mut sorted_keys);
        }
        let mut other_ids = None;
        let mut first = left_out;
        loop {
            for (number, (digit, offsets)) in digits.iter().enumerate().skip(first) {
                let mut ids = match other_ids.take() {
                    Some(ids) => ids,
                    None => self.row_numbers()?,
                };
                let step = SortStep {
                    digit: *digit,
                    input: SortInput::Keys(In(keys.slice(..bytes)?), self.ids.as_ref().map(In)),
                    offsets: In(*offsets),
                    output: if number + 1 == digits.len() && first == 0 {
                        SortOutput::Ids(Out(&mut ids))
                    } else {
                        SortOutput::Keys(Out(sorted_keys.slice_mut(..bytes)?), Out(&mut ids))
                    },
                    scratch: &mut self.scratch,
                };
                kernel.launch(self.stream, step)?;
                self.passes += 1;
                other_ids = self.ids.replace(ids);
                std::mem::swap(&mut keys, &mut sorted_keys);
            }
            let shift = DIGIT_BITS * digits[first].0 as u32;
            if first == 0 || self.sort_runs(keys.slice(..bytes)?, shift)? {
                break;
            }
            // Equal keys are in their order, so all passes may follow, once keys are where their ids are.
            self.move_with_runs(keys.slice(..bytes)?, shift, sorted_keys)?;
            std::mem::swap(&mut keys, &mut sorted_keys);
            first = 0;
        }
        self.spare = Some(spare);
        Ok(())
    }

    /// Brings the row numbers of keys that are in order by their bits from `shift` on into the order of whole
    /// keys; `false` where some need passes.
    fn sort_runs(&mut self, keys: DeviceSlice<'_, u8>, shift: u32) -> Result<bool, SortError> {
        let mut unsorted = self.flag()?;
        if let Some(ids) = &mut self.ids {
            let parts = RunParts::Ids(InOut(ids));
            SortRuns::new(self.sort.device)?.launch(
                self.stream,
                In(keys),
                shift,
                parts,
                InOut(&mut unsorted),
            )?;
        }
        Ok(self.stream.read(&unsorted, ..)? == [0])
    }

    /// Copies keys to where [`Self::sort_runs`] has moved their row numbers.
    fn move_with_runs(
        &self,
        keys: DeviceSlice<'_, u8>,
        shift: u32,
        moved: &mut DeviceBuffer<u8>,
    ) -> Result<(), SortError> {
        let mut unsorted = self.flag()?;
        self.stream.copy(moved.slice_mut(..keys.len())?, keys)?;
        let parts = RunParts::Keys(InOut(moved.slice_mut(..keys.len())?));
        SortRuns::new(self.sort.device)?.launch(self.stream, In(keys), shift, parts, InOut(&mut unsorted))?;
        Ok(())
    }

    /// A word of zero.
    fn flag(&self) -> Result<DeviceBuffer<u32>, SortError> {
        let Self { sort, stream, .. } = self;
        sort.room("a flag", 4, || sort.device.zeroed::<u32>(stream, 1))
    }

    /// Sorts by a word of 32 bits, as [`Self::by_keys`].
    fn by_pairs(
        &mut self,
        kernel: &SortPass,
        word: &mut KeyWord<'_>,
        digits: &[(usize, DeviceSlice<'_, u32>)],
    ) -> Result<(), SortError> {
        let bytes = word.width.bytes() * self.rows;
        let gathered = self.gather(word)?;
        let [mut pairs, mut sorted_pairs] = std::mem::take(&mut self.pairs);
        for (number, (digit, offsets)) in digits.iter().enumerate() {
            let last = number + 1 == digits.len();
            let mut sorted_ids = last.then(|| self.row_numbers()).transpose()?;
            if !last && sorted_pairs.is_none() {
                sorted_pairs = Some(self.sort.allocate(self.stream, "keys", self.rows)?);
            }
            let keys = match &self.spare {
                Some(spare) if gathered => spare,
                _ => &*word.values,
            };
            let input = match &pairs {
                Some(pairs) if number > 0 => SortInput::Pairs(In(pairs)),
                _ => SortInput::Keys(In(keys.slice(..bytes)?), self.ids.as_ref().map(In)),
            };
            let output = match (&mut sorted_ids, &mut sorted_pairs) {
                (Some(ids), _) => SortOutput::Ids(Out(ids)),
                (None, Some(pairs)) => SortOutput::Pairs(Out(pairs)),
                (None, None) => unreachable!("allocated above"),
            };
            let step = SortStep {
                digit: *digit,
                input,
                offsets: In(*offsets),
                output,
                scratch: &mut self.scratch,
            };
            kernel.launch(self.stream, step)?;
            self.passes += 1;
            std::mem::swap(&mut pairs, &mut sorted_pairs);
            if sorted_ids.is_some() {
                self.ids = sorted_ids;
            }
        }
        self.pairs = [pairs, sorted_pairs];
        Ok(())
    }

    /// Brings the keys of a word into the order so far, beside where they are; not where there is none.
    fn gather(&mut self, word: &KeyWord<'_>) -> Result<bool, SortError> {
        let Some(ids) = &self.ids else {
            return Ok(false);
        };
        let (width, bytes) = (word.width.bytes(), word.width.bytes() * self.rows);
        let spare = match self.spare.take() {
            Some(spare) if spare.len() >= bytes => spare,
            _ => self.sort.allocate(self.stream, "keys", bytes)?,
        };
        let spare = self.spare.insert(spare);
        let keys = In(word.values.slice(..bytes)?);
        let gathered = Out(spare.slice_mut(..bytes)?);
        SortGather::new(self.sort.device)?.launch(self.stream, keys, In(ids), width, gathered)?;
        Ok(true)
    }

    /// Room for the number of each row.
    fn row_numbers(&self) -> Result<DeviceBuffer<u32>, SortError> {
        self.sort.allocate(self.stream, "row numbers", self.rows)
    }
}

impl Pass {
    /// The pass by a digit whose values are counted; `None` where all keys have the same.
    fn of(digit: usize, counts: &[u32], rows: u32) -> Option<Self> {
        if counts.contains(&rows) {
            return None;
        }
        let mut before = 0;
        let offsets = counts.iter().map(|count| {
            let offset = before;
            before += count;
            offset
        });
        let share = |count: &u32| f64::from(*count) / f64::from(rows);
        Some(Self {
            digit,
            offsets: offsets.collect(),
            same: counts.iter().map(|count| share(count).powi(2)).sum(),
        })
    }
}
