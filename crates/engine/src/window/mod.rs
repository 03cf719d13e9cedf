//! Rows in the order of a window, on the device.
//!
//! ```text
//! a pipeline      columns and key words by position
//! radix sort      the positions in order; columns are not moved
//! bounds          places with a word that differs from the previous place ── sums ── partitions, peers, their first places
//! values          columns that aggregates need, in order ── sums before each place, or a tree
//! ```
//!
//! A pipeline over the places evaluates window functions from these data on use (`windows.cuh`), and reads a
//! column by the position of the row at a place: rows that a filter drops read nothing.

use crate::device::{DeviceRuntime, RunError};
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use crate::string::interned::InternedStrings;
use crate::string::order::rank_strings;
use galatea_codegen::build_plan::WindowsPlan;
use galatea_device::{DeviceBuffer, DeviceError, DeviceSliceMut, In, InOut, Out, Stream};
use galatea_expression::{BuiltColumn, Derived, DerivedForm, WindowWord};
use galatea_kernels::{
    Entry, Fold, MAX_OUTPUTS, PipelineArguments, PrefixSum, WindowBounds, WindowColumn, WindowKeys,
    WindowStarts, WindowTree, WindowValue, WindowValues,
};
use galatea_memory::regions::WorkingRegion;
use galatea_memory::{KeyWord, RadixSort};

/// Rows by position, and their order once all are written.
#[derive(Debug)]
pub(crate) struct WindowRows {
    plan: WindowsPlan,
    values: Vec<DeviceColumn>,
    /// Key words by position, until the rows are in order.
    words: Vec<WorkingRegion<u8>>,
    /// Maximum number of rows.
    capacity: u64,
    order: Option<Order>,
    /// Addresses of all regions, at the last launch.
    directory: Option<DeviceBuffer<u64>>,
}

/// The order of the rows, and data derived from it.
#[derive(Debug)]
struct Order {
    rows: u64,
    /// By place, the position of the row; `None` if rows are already in order.
    ids: Option<WorkingRegion<u32>>,
    partitions: Runs,
    peers: Runs,
    /// Sums and trees, in the order of the plan.
    derived: Vec<Made>,
}

/// Runs of consecutive places that belong together.
#[derive(Debug)]
struct Runs {
    /// By place, the number of runs that begin before it; the last element is the total.
    before: WorkingRegion<u32>,
    /// The first place of each run, and the number of places.
    starts: WorkingRegion<u32>,
}

impl WindowRows {
    /// Space for `rows` rows, not written yet.
    pub(crate) fn new(allocator: &Allocator<'_>, plan: &WindowsPlan, rows: u64) -> Result<Self, RunError> {
        check_rows(rows)?;
        let words = plan.words.iter();
        let words = words.map(|width| allocator.bytes(rows.max(1) * width.bytes() as u64));
        Ok(Self {
            plan: plan.clone(),
            values: allocator.columns(&plan.columns, rows)?,
            words: words.collect::<Result<_, _>>()?,
            capacity: rows,
            order: None,
            directory: None,
        })
    }

    /// Maximum number of rows.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Points the arguments of the kernel that fills it to it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        DeviceColumn::bind(&self.values, args);
        let outputs = args.outputs[..MAX_OUTPUTS / 2].iter_mut().skip(self.values.len());
        for (output, words) in outputs.zip(&self.words) {
            *output = words.address();
        }
    }

    /// Sorts the rows after all `rows` rows are written; `texts`: the strings with places in the words.
    pub(crate) fn complete(
        &mut self,
        allocator: &Allocator<'_>,
        rows: u64,
        texts: Option<&InternedStrings>,
    ) -> Result<(), RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        let count = rows as usize;
        let mut words: Vec<KeyWord> = (self.words.iter_mut().zip(&self.plan.words))
            .map(|(values, width)| KeyWord {
                width: *width,
                values,
            })
            .collect();
        if let Some(texts) = texts {
            rank_strings(allocator, texts, &mut words, &self.plan.texts, count)?;
        }
        // The sort overwrites the words that distinguish partitions and peers.
        let mut compared = Vec::new();
        for word in &words[..self.plan.keys.iter().sum()] {
            let mut copy = allocator.bytes((count * word.width.bytes()).max(1) as u64)?;
            if count > 0 {
                let bytes = ..count * word.width.bytes();
                stream.copy(copy.slice_mut(bytes)?, word.values.slice(bytes)?)?;
            }
            compared.push(copy);
        }
        let sorted = RadixSort::new(runtime.memory()).sort(stream, &mut words, count)?;
        self.words.clear();
        let ids = sorted
            .ids
            .map(|ids| runtime.memory().working(allocator.owner, allocator.what, ids));

        let mut partitions = allocator.zeroed::<u32>(rows + 1)?;
        let mut peers = allocator.zeroed::<u32>(rows + 1)?;
        if count > 0 {
            let compared = self.plan.words.iter().zip(&compared);
            let compared = compared.map(|(width, words)| Ok((*width, words.slice(..count * width.bytes())?)));
            let keys = WindowKeys {
                words: compared.collect::<Result<_, RunError>>()?,
                partition_words: self.plan.keys[0],
            };
            WindowBounds::new(runtime.device())?.launch(
                stream,
                &keys,
                ids.as_deref().map(In),
                Out(partitions.slice_mut(..count)?),
                Out(peers.slice_mut(..count)?),
            )?;
        }
        drop(compared);
        let mut order = Order {
            rows,
            ids,
            partitions: Runs::new(allocator, partitions)?,
            peers: Runs::new(allocator, peers)?,
            derived: Vec::new(),
        };
        for derived in &self.plan.shape.derived {
            let made = self.derived(allocator, &order, derived)?;
            order.derived.push(made);
        }
        self.order = Some(order);
        Ok(())
    }

    /// Sums of a column, or a tree over it.
    fn derived(&self, allocator: &Allocator<'_>, order: &Order, derived: &Derived) -> Result<Made, RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        let rows = order.rows;
        let value = match derived.form {
            DerivedForm::Counts => WindowValue::Valid,
            DerivedForm::Sums => WindowValue::Integer,
            DerivedForm::WideSums => WindowValue::WideInteger,
            DerivedForm::Tree(_, value) => value,
        };
        let count = rows as usize;
        let mut made = Made::new(allocator, derived.form, rows)?;
        if count > 0 {
            let column = &self.values[derived.column];
            let entry = entry(&self.plan.columns[derived.column]);
            let source = WindowColumn {
                entry,
                entries: In(column.entries(count * entry.bytes())?),
                nulls: column.null_words(count.div_ceil(32))?.map(In),
            };
            WindowValues::new(runtime.device())?.launch(
                stream,
                &source,
                order.ids.as_deref().map(In),
                value,
                Out(made.values(count * value.bytes())?),
            )?;
        }
        made.complete(allocator, rows)?;
        Ok(made)
    }

    /// Writes the directory, before a launch that reads it.
    pub(crate) fn locate(&mut self, runtime: &DeviceRuntime, stream: &Stream) -> Result<(), RunError> {
        let Some(order) = &self.order else {
            return Ok(());
        };
        let mut words = vec![0u64; WindowWord::column(self.values.len())];
        let mut set = |word: WindowWord, value: u64| words[word as usize] = value;
        set(WindowWord::Rows, order.rows);
        set(WindowWord::Ids, order.ids.as_ref().map_or(0, |ids| ids.address()));
        set(WindowWord::Partitions, order.partitions.before.address());
        set(WindowWord::PartitionStarts, order.partitions.starts.address());
        set(WindowWord::Peers, order.peers.before.address());
        set(WindowWord::PeerStarts, order.peers.starts.address());
        for (position, column) in self.values.iter().enumerate() {
            words[WindowWord::column(position)] = column.values();
            words[WindowWord::column(position) + 1] = column.nulls();
        }
        words.extend(order.derived.iter().map(Made::address));
        self.directory = Some(runtime.upload(stream, &words, "the directory of a window")?);
        Ok(())
    }

    /// Address of the directory.
    pub(crate) fn address(&self) -> u64 {
        self.directory.as_ref().map_or(0, DeviceBuffer::address)
    }

    pub(crate) fn regions(&self) -> Vec<&dyn Region> {
        let mut all: Vec<&dyn Region> = self.values.iter().flat_map(DeviceColumn::regions).collect();
        all.extend(self.words.iter().map(|words| words as &dyn Region));
        if let Some(order) = &self.order {
            all.extend(order.ids.as_ref().map(|ids| ids as &dyn Region));
            for runs in [&order.partitions, &order.peers] {
                all.push(&runs.before);
                all.push(&runs.starts);
            }
            all.extend(order.derived.iter().map(Made::region));
        }
        all
    }

    pub(crate) fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let mut all: Vec<&mut dyn Region> = (self.values.iter_mut())
            .flat_map(DeviceColumn::regions_mut)
            .collect();
        all.extend(self.words.iter_mut().map(|words| words as &mut dyn Region));
        if let Some(order) = &mut self.order {
            all.extend(order.ids.as_mut().map(|ids| ids as &mut dyn Region));
            for runs in [&mut order.partitions, &mut order.peers] {
                all.push(&mut runs.before);
                all.push(&mut runs.starts);
            }
            all.extend(order.derived.iter_mut().map(Made::region_mut));
        }
        all
    }
}

impl Runs {
    /// The runs that begin at places marked 1; the last element is ignored.
    fn new(allocator: &Allocator<'_>, mut marks: WorkingRegion<u32>) -> Result<Self, RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        let sums = PrefixSum::new(runtime.device())?;
        let mut totals = allocator.zeroed::<u64>(sums.totals() as u64)?;
        sums.replace(stream, InOut(&mut *marks), Out(&mut *totals))?;
        let mut starts = allocator.zeroed::<u32>(marks.len() as u64)?;
        WindowStarts::new(runtime.device())?.launch(stream, In(&*marks), Out(&mut *starts))?;
        Ok(Self {
            before: marks,
            starts,
        })
    }
}

/// Data derived from a column in order.
#[derive(Debug)]
enum Made {
    Counts(WorkingRegion<u32>),
    /// 64-bit words, with the number of words per sum.
    Sums(WorkingRegion<u64>, usize),
    Tree(WorkingRegion<u8>, Fold),
}

impl Made {
    /// Memory for it, uninitialised.
    fn new(allocator: &Allocator<'_>, form: DerivedForm, rows: u64) -> Result<Self, RunError> {
        Ok(match form {
            DerivedForm::Counts => Self::Counts(allocator.zeroed(rows + 1)?),
            DerivedForm::Sums => Self::Sums(allocator.zeroed(rows + 1)?, 1),
            DerivedForm::WideSums => Self::Sums(allocator.zeroed(2 * (rows + 1))?, 2),
            DerivedForm::Tree(fold, _) => {
                let bytes = WindowTree::nodes(rows) * fold.bytes() as u64;
                Self::Tree(allocator.bytes(bytes.max(1))?, fold)
            }
        })
    }

    /// The first bytes, which receive the values.
    fn values(&mut self, bytes: usize) -> Result<DeviceSliceMut<'_, u8>, DeviceError> {
        Ok(match self {
            Self::Counts(counts) => counts.slice_mut(..bytes / 4)?.into_bytes(),
            Self::Sums(sums, _) => sums.slice_mut(..bytes / 8)?.into_bytes(),
            Self::Tree(tree, _) => tree.slice_mut(..bytes)?,
        })
    }

    /// Computes it from the values of `rows` places.
    fn complete(&mut self, allocator: &Allocator<'_>, rows: u64) -> Result<(), RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        let sums = PrefixSum::new(runtime.device())?;
        let totals = |words: usize| allocator.zeroed::<u64>((words * sums.totals()) as u64);
        match self {
            Self::Counts(counts) => {
                sums.replace(stream, InOut(&mut **counts), Out(&mut *totals(1)?))?;
            }
            Self::Sums(values, words) => {
                sums.replace_wide(stream, InOut(&mut **values), *words, Out(&mut *totals(*words)?))?;
            }
            Self::Tree(tree, fold) => {
                let bytes = WindowTree::nodes(rows) as usize * fold.bytes();
                let tree = InOut(tree.slice_mut(..bytes)?);
                WindowTree::new(runtime.device())?.launch(stream, tree, rows, *fold)?;
            }
        }
        Ok(())
    }

    fn address(&self) -> u64 {
        match self {
            Self::Counts(counts) => counts.address(),
            Self::Sums(sums, _) => sums.address(),
            Self::Tree(tree, _) => tree.address(),
        }
    }

    fn region(&self) -> &dyn Region {
        match self {
            Self::Counts(counts) => counts,
            Self::Sums(sums, _) => sums,
            Self::Tree(tree, _) => tree,
        }
    }

    fn region_mut(&mut self) -> &mut dyn Region {
        match self {
            Self::Counts(counts) => counts,
            Self::Sums(sums, _) => sums,
            Self::Tree(tree, _) => tree,
        }
    }
}

/// The device type of a column's entries.
fn entry(column: &BuiltColumn) -> Entry {
    match column.c_type {
        "u8" => Entry::U8,
        "i16" => Entry::I16,
        "i32" => Entry::I32,
        "i64" => Entry::I64,
        "float" => Entry::F32,
        "double" => Entry::F64,
        _ => Entry::I128,
    }
}
