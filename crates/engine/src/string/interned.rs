//! Texts without a dictionary that are keys of groups, of build sides or of an order, or the least or
//! greatest of a group: device memory has each key once, and the place there is the key's or the
//! accumulator's word (`galatea/interned.cuh`).
//!
//! How many texts there will be, and how long, is not known. A run that finds no room for one ends and begins
//! again with [`InternedPolicy::growth`] times as much, up to what can be allocated: nothing of it has been
//! read by then, since groups, build sides and rows in order are read after the last row.

use crate::device::{DeviceRuntime, RunError};
use galatea_base::policy::policy;
use galatea_device::{Access, DeviceSlice, Stream};
use galatea_expression::PLACES;
use galatea_kernels::PipelineArguments;
use galatea_memory::regions::{Use, WorkingRegion};

policy! {
    /// The memory for texts that are keys or accumulators.
    pub(crate) struct InternedPolicy {
        /// Words of 64 bits for each row that is scanned, at first.
        row_words: u64 = 4,
        /// Words at first, at least.
        least_words: u64 = 1 << 16,
        /// Words at first, at most.
        most_words: u64 = 1 << 25,
        /// Bytes of free memory for each word at first, which has slots, too: about a third of it is taken.
        room_share: u64 = 64,
        /// How many times as much a run gets that had too little.
        growth: u64 = 8,
    }
}

const POLICY: InternedPolicy = InternedPolicy::DEFAULT;

/// Words before the slots. Device twins: `INTERNED_USED` and so on.
const HEAD: usize = 8;
const USED: usize = 0;
const WORDS: usize = 1;
const SLOTS: usize = 2;
const HELD: usize = 3;
const LIMIT: usize = 4;
const COLLIDE: usize = 5;

/// What the memory is for, in errors and lists.
const WHAT: &str = "texts of groups and keys";

/// How much memory there is to be for the texts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InternedWords(u64);

impl InternedWords {
    /// Of a run over so many rows; `small`: as little as possible.
    pub(crate) fn of_rows(rows: u64, small: bool) -> Self {
        let words = rows.saturating_mul(POLICY.row_words);
        Self(match small {
            true => HEAD as u64,
            false => words.clamp(POLICY.least_words, POLICY.most_words),
        })
    }

    /// The same, with slots no more than a share of so many bytes: texts are often few, and a run that finds
    /// no room is only begun again.
    pub(crate) fn within(self, bytes: u64) -> Self {
        Self(self.0.min((bytes / POLICY.room_share).max(HEAD as u64)))
    }

    /// After a run that had too little.
    pub(crate) fn grown(self) -> Self {
        Self(self.0.saturating_mul(POLICY.growth))
    }
}

/// The texts of a run, in device memory.
#[derive(Debug)]
pub(crate) struct InternedTexts {
    region: WorkingRegion<u64>,
    slots: usize,
}

impl InternedTexts {
    /// Room for texts of the query number `owner`, which `threads` threads at once look for.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        owner: u64,
        InternedWords(words): InternedWords,
        threads: u64,
        collide: bool,
    ) -> Result<Self, RunError> {
        // A text has two words at least, but for the empty one. Each thread may add one above the limit.
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

    /// Points argument `table` of a kernel at it.
    pub(crate) fn bind(&self, table: usize, args: &mut PipelineArguments) {
        args.tables[table] = self.region.address();
    }

    /// The region that it is.
    pub(crate) fn region(&self) -> &WorkingRegion<u64> {
        &self.region
    }

    /// As [`Self::region`].
    pub(crate) fn region_mut(&mut self) -> &mut WorkingRegion<u64> {
        &mut self.region
    }

    /// Lets others move it.
    pub(crate) fn park(&mut self) {
        self.region.park();
    }

    /// The same after [`Self::park`].
    pub(crate) fn parked(mut self) -> Self {
        self.park();
        self
    }

    /// What a launch does to it.
    pub(crate) fn used(&mut self) -> Use<'_> {
        self.region.used(Access::ReadWrite)
    }

    /// How many there are, and the words that they take.
    pub(crate) fn size(&self, stream: &Stream) -> Result<InternedSize, RunError> {
        let head = stream.read(&self.region, ..HEAD)?;
        Ok(InternedSize {
            texts: head[HELD],
            words: head[USED].min(head[WORDS]),
        })
    }

    /// The slots of the table: 0, or the place of a text and some bits of its hash above.
    pub(crate) fn slots(&self) -> Result<DeviceSlice<'_, u64>, RunError> {
        Ok(self.region.slice(HEAD..HEAD + self.slots)?)
    }

    /// Reads the texts back.
    pub(crate) fn read(&self, stream: &Stream) -> Result<TextsAtPlaces, RunError> {
        let used = self.size(stream)?.words as usize;
        let first = HEAD + self.slots;
        Ok(TextsAtPlaces(stream.read(&self.region, first..first + used)?))
    }
}

/// What is in the memory of texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InternedSize {
    /// Distinct texts.
    pub texts: u64,
    /// Words, the first of which is none: places are less.
    pub words: u64,
}

/// Texts by their places.
#[derive(Debug, Default)]
pub(crate) struct TextsAtPlaces(Vec<u64>);

impl TextsAtPlaces {
    /// Bytes that were read.
    pub(crate) fn bytes(&self) -> u64 {
        8 * self.0.len() as u64
    }

    /// The text at a place; none at place 0.
    pub(crate) fn get(&self, place: u64) -> &[u8] {
        let place = place as usize;
        let Some(length) = self.0.get(place).filter(|_| place > 0) else {
            return &[];
        };
        let bytes: &[u8] = bytemuck::cast_slice(&self.0[place + 1..]);
        &bytes[..*length as usize]
    }

    /// The integer whose text is at a place; 0 where there is none.
    pub(crate) fn integer(&self, place: u64) -> i128 {
        let rank = self.get(place).try_into().map(u128::from_be_bytes);
        rank.map_or(0, |rank| (rank ^ (1 << 127)) as i128)
    }
}
