//! Strings without a dictionary that are keys of groups, of build sides or of an order, or the minimum or
//! maximum of a group. Device memory has each distinct string once, and its place there is the word of the
//! key or of the accumulator (`galatea/interned.cuh`).
//!
//! The number and length of the strings are unknown. A run that has no memory for a string ends and restarts
//! with [`InternedPolicy::growth`] times the memory, up to the memory that can be allocated. None of its
//! result has been read by then, since groups, build sides and rows in order are read after the last row.

use crate::device::{DeviceRuntime, RunError};
use galatea_base::policy::policy;
use galatea_device::{Access, DeviceSlice, Stream};
use galatea_expression::PLACES;
use galatea_kernels::PipelineArguments;
use galatea_memory::regions::{Use, WorkingRegion};

policy! {
    /// The memory for strings that are keys or accumulators.
    pub(crate) struct InternedPolicy {
        /// Initial number of 64-bit words per scanned row.
        row_words: u64 = 4,
        /// Minimum initial number of words.
        least_words: u64 = 1 << 16,
        /// Maximum initial number of words.
        most_words: u64 = 1 << 25,
        /// Bytes of free memory per initial word. Words have slots, too, so about a third of free memory is
        /// used.
        room_share: u64 = 64,
        /// Factor by which the memory grows for a run that had too little.
        growth: u64 = 8,
    }
}

const POLICY: InternedPolicy = InternedPolicy::DEFAULT;

/// Words before the slots. The device constants are `INTERNED_USED` and so on.
const HEAD: usize = 8;
const USED: usize = 0;
const WORDS: usize = 1;
const SLOTS: usize = 2;
const HELD: usize = 3;
const LIMIT: usize = 4;
const COLLIDE: usize = 5;

/// Purpose of the memory, for errors and lists.
const WHAT: &str = "strings of groups and keys";

/// Size of the memory for the strings of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InternedWords(u64);

impl InternedWords {
    /// The size for a run over `rows` rows; `small`: the minimum.
    pub(crate) fn of_rows(rows: u64, small: bool) -> Self {
        let words = rows.saturating_mul(POLICY.row_words);
        Self(match small {
            true => HEAD as u64,
            false => words.clamp(POLICY.least_words, POLICY.most_words),
        })
    }

    /// The same, limited so that the slots use no more than a share of `bytes`: strings are often few, and a
    /// run without enough memory merely restarts.
    pub(crate) fn within(self, bytes: u64) -> Self {
        Self(self.0.min((bytes / POLICY.room_share).max(HEAD as u64)))
    }

    /// The size after a run that had too little memory.
    pub(crate) fn grown(self) -> Self {
        Self(self.0.saturating_mul(POLICY.growth))
    }
}

/// The strings of a run, in device memory.
#[derive(Debug)]
pub(crate) struct InternedStrings {
    region: WorkingRegion<u64>,
    slots: usize,
}

impl InternedStrings {
    /// Memory for strings of the query number `owner`, which `threads` threads look up concurrently.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        owner: u64,
        InternedWords(words): InternedWords,
        threads: u64,
        collide: bool,
    ) -> Result<Self, RunError> {
        // A string has at least two words, except for the empty one. Each thread may add one above the limit.
        let limit = (words / 2).max(1);
        let slots = (2 * limit + threads).next_power_of_two();
        let all = HEAD as u64 + slots + words;
        if 8 * all > runtime.room() || i128::from(words) > PLACES.high {
            return Err(RunError::full(runtime.device().budget(), WHAT, 8 * all));
        }
        let mut region = runtime.zeroed::<u64>(stream, all as usize, WHAT)?;
        let mut head = [0; HEAD];
        head[USED] = 1;
        head[WORDS] = words;
        head[SLOTS] = slots;
        head[LIMIT] = limit;
        head[COLLIDE] = u64::from(collide);
        stream.copy_from_slice(region.slice_mut(..HEAD)?, &head)?;
        Ok(Self {
            region: runtime.memory().working(owner, WHAT, region),
            slots: slots as usize,
        })
    }

    /// Points argument `table` of a kernel to it.
    pub(crate) fn bind(&self, table: usize, args: &mut PipelineArguments) {
        args.tables[table] = self.region.address();
    }

    /// The region of the strings.
    pub(crate) fn region(&self) -> &WorkingRegion<u64> {
        &self.region
    }

    /// See [`Self::region`].
    pub(crate) fn region_mut(&mut self) -> &mut WorkingRegion<u64> {
        &mut self.region
    }

    /// Lets other queries move it.
    pub(crate) fn park(&mut self) {
        self.region.park();
    }

    /// Parks the region and returns `self`.
    pub(crate) fn parked(mut self) -> Self {
        self.park();
        self
    }

    /// The access of a launch to it.
    pub(crate) fn used(&mut self) -> Use<'_> {
        self.region.used(Access::ReadWrite)
    }

    /// The number of strings, and the words that they use.
    pub(crate) fn size(&self, stream: &Stream) -> Result<InternedSize, RunError> {
        let head = stream.read(&self.region, ..HEAD)?;
        Ok(InternedSize {
            texts: head[HELD],
            words: head[USED].min(head[WORDS]),
        })
    }

    /// The slots of the table: 0, or the place of a string and some bits of its hash above.
    pub(crate) fn slots(&self) -> Result<DeviceSlice<'_, u64>, RunError> {
        Ok(self.region.slice(HEAD..HEAD + self.slots)?)
    }

    /// Reads the strings back.
    pub(crate) fn read(&self, stream: &Stream) -> Result<StringsAtPlaces, RunError> {
        let used = self.size(stream)?.words as usize;
        let first = HEAD + self.slots;
        Ok(StringsAtPlaces(stream.read(&self.region, first..first + used)?))
    }
}

/// Contents of the memory of strings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InternedSize {
    /// Number of distinct strings.
    pub texts: u64,
    /// Number of words; all places are smaller. The first word is unused.
    pub words: u64,
}

/// Strings by their places.
#[derive(Debug, Default)]
pub(crate) struct StringsAtPlaces(Vec<u64>);

impl StringsAtPlaces {
    /// Number of bytes read.
    pub(crate) fn bytes(&self) -> u64 {
        8 * self.0.len() as u64
    }

    /// The string at a place; empty at place 0.
    pub(crate) fn get(&self, place: u64) -> &[u8] {
        let place = place as usize;
        let Some(length) = self.0.get(place).filter(|_| place > 0) else {
            return &[];
        };
        let bytes: &[u8] = bytemuck::cast_slice(&self.0[place + 1..]);
        &bytes[..*length as usize]
    }

    /// The integer encoded in the string at a place; 0 if there is none.
    pub(crate) fn integer(&self, place: u64) -> i128 {
        let rank = self.get(place).try_into().map(u128::from_be_bytes);
        rank.map_or(0, |rank| (rank ^ (1 << 127)) as i128)
    }
}
