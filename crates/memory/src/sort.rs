//! Sorts rows by normalised keys: a stable radix sort from the least significant digit on.
//!
//! ```text
//!   key words ── histograms of all digits ── the host skips digits that all keys share
//!     last word: passes with row numbers ── next word: gathered by row numbers, passes ── ... ── first word
//! ```
//!
//! The upper digits of many random 64-bit keys distinguish nearly all of them. Then passes by the lower
//! digits are omitted, and one read of the keys sorts the short runs with equal upper digits. The number of
//! sorted digits is estimated from the counts and from a sample. If the estimate is wrong, a run is too long,
//! which is detected, and all passes follow.
//!
//! A row's key is one or more words, compared as unsigned integers, with the most significant first. A pass
//! reads and writes every key and row number once. The first pass creates the row numbers, and the last pass
//! of a word does not write its keys. Between passes, keys of 32 bits are stored in pairs with their row
//! numbers. The counts of digits do not depend on the order of rows, so they are read back once for all
//! words. Row numbers have 32 bits.

use galatea_device::{Device, DeviceBuffer, DeviceError, DeviceSlice, In, InOut, Out, Stream};
use galatea_kernels::{
    DIGIT_BITS, DIGIT_VALUES, KeyWidth, RowsInOrder, RunParts, SortGather, SortHistogram, SortInput,
    SortOutput, SortPass, SortRuns, SortStep,
};

use crate::regions::MemoryManager;

/// Least number of rows for omitting lower digits: fewer rows are sorted faster than a sample is read.
const ROWS_TO_LEAVE_OUT: usize = 1 << 22;

/// Number of keys of a sample: so few that two keys with the digits that [`MOST_EQUAL`] allows are unlikely.
const SAMPLE_KEYS: usize = 1024;

/// The most keys with equal sorted digits, per key, that may be left to [`SortRuns`].
const MOST_EQUAL: f64 = 0.125;

/// The reason why rows were not sorted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// The device's.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The buffers of the sort do not fit, whatever the memory manager evicts.
    #[error(
        "{what} of a sort need {needed} bytes of device memory: {available} of {limit} are available\nhint: raise galatea.memory.gpu_limit"
    )]
    Memory {
        /// The buffers.
        what: &'static str,
        /// Their size in bytes.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// The limit on device memory.
        limit: u64,
    },
    /// The rows exceed the range of row numbers.
    #[error("{rows} rows cannot be sorted at once: row numbers have 32 bits, so {limit} can")]
    Rows {
        /// The number of rows.
        rows: u64,
        /// The most rows.
        limit: u64,
    },
}

/// One word of the keys of all rows, in the order of rows. The sort overwrites it.
#[derive(Debug)]
pub struct KeyWord<'a> {
    /// The width of the word.
    pub width: KeyWidth,
    /// The keys, at least one per row.
    pub values: &'a mut DeviceBuffer<u8>,
}

/// The order of rows.
#[derive(Debug)]
pub struct SortedRows {
    /// The row numbers in order; `None` if rows are already in order.
    pub ids: Option<DeviceBuffer<u32>>,
    /// Number of passes over the keys.
    pub passes: u32,
}

impl SortedRows {
    /// The result for rows that are already in order.
    pub const AS_THEY_ARE: Self = Self { ids: None, passes: 0 };
}

/// A necessary pass, by one digit of a word.
#[derive(Debug)]
struct Pass {
    digit: usize,
    /// Per value of the digit, the number of keys with a smaller one.
    offsets: Vec<u32>,
    /// The probability that two keys have the same digit.
    same: f64,
}

/// Sorts rows in device memory. A manager evicts for it.
#[derive(Debug)]
pub struct RadixSort<'a> {
    device: &'a Device,
    memory: &'a MemoryManager,
    rows_to_leave_out: usize,
}

impl<'a> RadixSort<'a> {
    /// Creates a sort in that manager's memory.
    #[must_use]
    pub fn new(memory: &'a MemoryManager) -> Self {
        Self {
            device: memory.device(),
            memory,
            rows_to_leave_out: ROWS_TO_LEAVE_OUT,
        }
    }

    /// The same sort, which may omit lower digits of at least that number of rows.
    #[must_use]
    pub fn leaving_out_from(self, rows: usize) -> Self {
        Self {
            rows_to_leave_out: rows,
            ..self
        }
    }

    /// The most bytes that a sort of `rows` rows by words of these widths allocates, besides the keys.
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

    /// Returns the order of the first `rows` rows by their key words, the most significant first. Equal rows
    /// keep their order.
    ///
    /// # Errors
    /// [`SortError::Memory`] if its buffers do not fit, [`SortError::Rows`] for more than 2^32 - 1 rows,
    /// [`DeviceError::Range`] for a word with fewer keys than rows; the errors of the device.
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
        // The offsets of a word's passes begin there.
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

    /// Whether the first `rows` rows are in the order of their key words, the most significant first. Reads
    /// the keys once.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for a word with fewer keys than rows; the errors of the device.
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

    /// Gathers the values with these ids, of `width` bytes each.
    ///
    /// # Errors
    /// [`SortError::Memory`] if they do not fit, [`DeviceError::Range`] for an unsupported width; the errors
    /// of the device.
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

    /// By word, the digits that are not equal in all keys.
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

    /// The number of digits of a word, from the least significant on, that need no pass because the others
    /// distinguish nearly all keys.
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
        // Assumes that digits are independent of each other. A sample checks the assumption.
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

    /// Allocates by `attempt`, for that number of bytes, after evicting if necessary.
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

/// A sort in progress: the order by the words that are done, and memory that its passes reuse.
struct Sorted<'a> {
    sort: &'a RadixSort<'a>,
    stream: &'a Stream,
    rows: usize,
    /// Memory of keys that were gathered, or sorted.
    spare: Option<DeviceBuffer<u8>>,
    pairs: [Option<DeviceBuffer<u64>>; 2],
    scratch: DeviceBuffer<u32>,
    /// Row numbers in order; `None` for the original order, before the first word is done.
    ids: Option<DeviceBuffer<u32>>,
    /// Number of passes so far.
    passes: u32,
}

impl Sorted<'_> {
    /// Sorts by a word of 64 bits, digit by digit, each with its offsets. The first `left_out` digits are
    /// sorted only if the others leave long runs of equal keys.
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
            // Equal keys keep their order, so all passes may follow once the keys are at the positions of
            // their ids.
            self.move_with_runs(keys.slice(..bytes)?, shift, sorted_keys)?;
            std::mem::swap(&mut keys, &mut sorted_keys);
            first = 0;
        }
        self.spare = Some(spare);
        Ok(())
    }

    /// Given keys that are sorted by their bits from `shift` on, sorts their row numbers by whole keys.
    /// Returns `false` if some need passes.
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

    /// Moves keys in the same way as [`Self::sort_runs`] has moved their row numbers.
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

    /// Sorts by a word of 32 bits, like [`Self::by_keys`].
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

    /// Gathers the keys of a word in the order so far into the spare buffer. Skipped if there is no order
    /// yet.
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

    /// Allocates memory for one number per row.
    fn row_numbers(&self) -> Result<DeviceBuffer<u32>, SortError> {
        self.sort.allocate(self.stream, "row numbers", self.rows)
    }
}

impl Pass {
    /// The pass by a digit with these counts; `None` if all keys have the same value.
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
