//! A build side that a pipeline built: arrays by key that stay in device memory until the pipelines that look
//! them up have run.

use crate::device::{DeviceRuntime, RunError};
use crate::joins::pairs::{JoinPart, PairSizes, Pairs, SeenRows};
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use crate::rows::partitions::PartitionedRows;
use crate::rows::stored::StoredRows;
use crate::string::interned::InternedStrings;
use crate::string::late_materialised::StringsOfSide;
use crate::window::WindowRows;
use galatea_base::reason::Reason;
use galatea_codegen::build_plan::{BuildPlan, GroupBuildPlan};
use galatea_device::{Access, DeviceBuffer, In, InOut, Stream};
use galatea_expression::{LookupSide, Part, Spare};
use galatea_kernels::{CountBits, CountWritten, PipelineArguments};
use galatea_memory::regions::{Use, WorkingRegion};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The rows of a build side.
#[derive(Debug)]
pub(crate) enum SideRows {
    /// Rows of CPU operators, arranged by key on the host.
    Collected(Arc<LookupSide>),
    /// Rows that a pipeline left on the device.
    Built(Arc<Mutex<BuiltTable>>),
}

impl SideRows {
    /// Its shape, and for collected rows their content.
    pub(crate) fn build_side(&self) -> Arc<LookupSide> {
        match self {
            Self::Collected(build_side) => Arc::clone(build_side),
            Self::Built(table) => Arc::clone(&table.lock().build_side),
        }
    }

    /// The least and the greatest key of collected rows with integer keys.
    pub(crate) fn key_range(&self) -> Option<RangeInclusive<i128>> {
        match self {
            Self::Collected(rows) => rows.key_range(),
            Self::Built(_) => None,
        }
    }

    /// The numbers of rows and matches of a join.
    pub(crate) fn pair_sizes(&self) -> Option<PairSizes> {
        match self {
            Self::Collected(_) => None,
            Self::Built(table) => table.lock().pair_sizes(),
        }
    }

    /// The place of a build side that does not exist yet, or not any more: no row looks it up.
    pub(crate) fn not_built() -> Self {
        Self::Collected(Arc::new(LookupSide::unfinished()))
    }

    /// A table that a pipeline left on the device.
    pub(crate) fn built(table: BuiltTable) -> Self {
        Self::Built(Arc::new(Mutex::new(table)))
    }

    /// The same rows for another reader.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Collected(rows) => Self::Collected(Arc::clone(rows)),
            Self::Built(table) => Self::Built(Arc::clone(table)),
        }
    }

    /// Takes the table that a pipeline left on the device for one reader.
    fn take_built(&mut self) -> Option<BuiltTable> {
        match std::mem::replace(self, Self::not_built()) {
            Self::Collected(_) => None,
            Self::Built(table) => Arc::into_inner(table).map(Mutex::into_inner),
        }
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Collected(build_side) => build_side.rows(),
            Self::Built(table) => table.lock().rows,
        }
    }
}

/// The build sides on the device that a run looks up, by number; parked when it is dropped. One table may
/// have several numbers.
#[derive(Debug)]
pub(crate) struct BuiltSides<'a>(Vec<(Vec<usize>, MutexGuard<'a, BuiltTable>)>);

impl<'a> BuiltSides<'a> {
    /// The build sides of a run, still parked.
    pub(crate) fn of(sides: &'a [SideRows]) -> Self {
        let mut tables: Vec<(Vec<usize>, &'a Arc<Mutex<BuiltTable>>)> = Vec::new();
        for (number, side) in sides.iter().enumerate() {
            let SideRows::Built(table) = side else { continue };
            match tables.iter_mut().find(|(_, known)| Arc::ptr_eq(known, table)) {
                Some((numbers, _)) => numbers.push(number),
                None => tables.push((vec![number], table)),
            }
        }
        let tables = tables.into_iter();
        Self(tables.map(|(numbers, table)| (numbers, table.lock())).collect())
    }

    /// The accesses of a launch to their regions.
    pub(crate) fn uses(&mut self) -> Vec<Use<'_>> {
        let sides = self.0.iter_mut();
        sides.flat_map(|(_, side)| side.uses(Access::Read)).collect()
    }

    /// Makes `stream` wait until they have been transferred back.
    pub(crate) fn used_by(&mut self, runtime: &DeviceRuntime, stream: &Stream) -> Result<(), RunError> {
        let mut sides = self.0.iter_mut();
        sides.try_for_each(|(_, side)| side.used_by(runtime, stream))
    }

    /// Address of a part of build side number `build_side`.
    pub(crate) fn address(&self, build_side: usize, part: Part) -> u64 {
        let side = self.0.iter().find(|(numbers, _)| numbers.contains(&build_side));
        side.map_or(0, |(_, side)| side.address(part))
    }

    /// Late-materialised strings, by number of the build side.
    pub(crate) fn string_rows(&self) -> BTreeMap<usize, StringsOfSide> {
        let strings = |(numbers, side): &(Vec<usize>, MutexGuard<'_, BuiltTable>)| {
            let numbers = numbers.clone().into_iter();
            let strings = side.string_rows.clone();
            numbers.map(move |number| (number, strings.clone()))
        };
        self.0.iter().flat_map(strings).collect()
    }

    /// Lets others evict them.
    pub(crate) fn park(&mut self) {
        self.0.iter_mut().for_each(|(_, side)| side.park());
    }
}

impl Drop for BuiltSides<'_> {
    fn drop(&mut self) {
        self.park();
    }
}

/// A table that a pipeline left on the device for others.
#[derive(Debug)]
pub(crate) struct BuiltTable {
    /// Its shape.
    pub build_side: Arc<LookupSide>,
    /// Rows that are in it.
    pub rows: u64,
    unique: bool,
    /// Slots of its hash table, if it has one.
    slots: Option<u64>,
    /// Bytes that lookups by key access.
    pub lookup_bytes: u64,
    /// Strings of its keys that have no dictionary.
    texts: Option<InternedStrings>,
    /// Its late-materialised strings.
    string_rows: StringsOfSide,
    content: Content,
}

/// Marks the indices that have a row.
#[derive(Debug)]
enum Presence {
    /// A bitmap by index, or the hash table.
    Words(WorkingRegion<u32>),
    /// The entries of the column at a position, `width` bytes each; a sentinel marks empty ones.
    Entries {
        position: usize,
        width: usize,
        spare: Spare,
    },
}

impl Presence {
    fn words(&self) -> Option<&WorkingRegion<u32>> {
        match self {
            Self::Words(words) => Some(words),
            Self::Entries { .. } => None,
        }
    }

    fn words_mut(&mut self) -> Option<&mut WorkingRegion<u32>> {
        match self {
            Self::Words(words) => Some(words),
            Self::Entries { .. } => None,
        }
    }
}

#[derive(Debug)]
enum Content {
    /// Arrays by key.
    Rows {
        presence: Presence,
        columns: Vec<DeviceColumn>,
    },
    /// The words of all possible groups, from that number on.
    Groups(WorkingRegion<u64>, usize),
    /// A table of a multimap join.
    Join(JoinPart),
    /// Rows in the order of a window.
    Windows(Box<WindowRows>),
    /// Rows by position.
    Stored(StoredRows),
    /// Rows in partitions.
    Partitions(Box<PartitionedRows>),
}

impl BuiltTable {
    /// Arrays without rows.
    pub(crate) fn new(allocator: &Allocator<'_>, plan: &BuildPlan) -> Result<Self, RunError> {
        // A hash table has two words of 32 bits for each slot.
        let presence = match (plan.slots(), plan.marker) {
            (Some(slots), _) => Presence::Words(allocator.zeroed(2 * slots)?),
            (None, Some((position, spare))) => Presence::Entries {
                position,
                width: plan.columns[position].width,
                spare,
            },
            (None, None) => Presence::Words(allocator.bitmap(plan.indices())?),
        };
        let columns = plan.columns.iter().enumerate().map(|(position, column)| {
            let marks = plan.marker.filter(|(marker, _)| *marker == position);
            // 0 is a code of every dictionary.
            let byte = marks.map_or(0, |(_, spare)| spare.byte);
            allocator.column(column, plan.indices(), byte)
        });
        Ok(Self {
            unique: plan.unique,
            slots: plan.slots(),
            lookup_bytes: plan.bytes(),
            ..Self::of(
                plan.build_side(),
                Content::Rows {
                    presence,
                    columns: columns.collect::<Result<_, _>>()?,
                },
            )
        })
    }

    /// Groups without rows.
    pub(crate) fn of_groups(allocator: &Allocator<'_>, plan: &GroupBuildPlan) -> Result<Self, RunError> {
        let words = allocator.zeroed(plan.words())?;
        Ok(Self {
            lookup_bytes: 8 * plan.words(),
            ..Self::of(plan.build_side(), Content::Groups(words, 0))
        })
    }

    /// A group table with entries that are the rows of another pipeline; its words begin at number `first`.
    pub(crate) fn of_table(
        build_side: LookupSide,
        words: WorkingRegion<u64>,
        first: usize,
        entries: u64,
        texts: Option<InternedStrings>,
    ) -> Self {
        Self {
            rows: entries,
            texts,
            ..Self::of(build_side, Content::Groups(words, first))
        }
    }

    /// A table of a multimap join, which a pipeline fills.
    pub(crate) fn of_join(build_side: LookupSide, part: JoinPart) -> Self {
        Self {
            lookup_bytes: part.lookup_bytes(),
            ..Self::of(build_side, Content::Join(part))
        }
    }

    /// Rows that are put in the order of a window once a pipeline has filled them in.
    pub(crate) fn of_windows(build_side: LookupSide, rows: WindowRows) -> Self {
        Self::of(build_side, Content::Windows(Box::new(rows)))
    }

    /// Rows by position, which are filled in by a pipeline.
    pub(crate) fn of_stored(build_side: LookupSide, rows: StoredRows) -> Self {
        Self::of(build_side, Content::Stored(rows))
    }

    /// Rows in partitions, which are filled in by a pipeline.
    pub(crate) fn of_partitions(build_side: LookupSide, rows: PartitionedRows) -> Self {
        Self::of(build_side, Content::Partitions(Box::new(rows)))
    }

    /// Adds the strings of its keys that have no dictionary.
    pub(crate) fn add_strings(&mut self, texts: Option<InternedStrings>) {
        self.texts = texts;
    }

    /// Whether the strings of its keys are searched once it is complete: not those of an order.
    pub(crate) fn finds_strings(&self) -> bool {
        !matches!(self.content, Content::Windows(_))
    }

    /// Adds late-materialised strings.
    pub(crate) fn add_string_rows(&mut self, string_rows: StringsOfSide) {
        self.string_rows = string_rows;
    }

    /// Rows of each partition.
    pub(crate) fn counted(&self) -> &[u64] {
        match &self.content {
            Content::Partitions(rows) => rows.counted(),
            _ => &[],
        }
    }

    /// Its rows in partitions, if it has such rows.
    pub(crate) fn partitions(&self) -> Option<&PartitionedRows> {
        match &self.content {
            Content::Partitions(rows) => Some(rows),
            _ => None,
        }
    }

    /// The matches of a join.
    fn of_pairs(pairs: Pairs) -> Self {
        Self {
            rows: pairs.rows(),
            ..Self::of(
                pairs.build_side(),
                Content::Join(JoinPart::Pairs(Box::new(pairs))),
            )
        }
    }

    fn of(build_side: LookupSide, content: Content) -> Self {
        Self {
            build_side: Arc::new(build_side),
            rows: 0,
            unique: false,
            slots: None,
            lookup_bytes: 0,
            texts: None,
            string_rows: StringsOfSide::new(),
            content,
        }
    }

    /// The matches of a join from this table, which a pipeline that looked up `sides` has completed, and the
    /// table of `sides` that it refers to, which is taken. Other tables are returned unchanged.
    pub(crate) fn joined(self, sides: &mut [SideRows]) -> Self {
        let number = match &self.content {
            Content::Join(JoinPart::Probe(probe)) => probe.build_side(),
            Content::Join(JoinPart::Marks(marks)) => marks.build_side(),
            _ => return self,
        };
        let side = sides.get_mut(number).and_then(SideRows::take_built);
        let mut string_rows = self.string_rows;
        let side = side.map(|side| {
            string_rows.extend(side.string_rows);
            side.content
        });
        let pairs = match (self.content, side) {
            (Content::Join(JoinPart::Probe(probe)), Some(Content::Join(JoinPart::Multimap(lists)))) => {
                Self::of_pairs(Pairs::of(*probe, *lists))
            }
            (Content::Join(JoinPart::Marks(marks)), Some(Content::Join(JoinPart::Pairs(pairs)))) => {
                Self::of_pairs(pairs.marked(*marks))
            }
            _ => unreachable!("a join's pipelines look up its own parts"),
        };
        Self { string_rows, ..pairs }
    }

    /// Merges the matches of a join's rows in a slice of the other side with those of earlier slices; see
    /// [`Pairs::merge`]. Other tables are unchanged.
    pub(crate) fn merge_marks(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        seen: &mut SeenRows,
        last: [bool; 2],
    ) -> Result<(), RunError> {
        let mut uses = self.uses(Access::ReadWrite);
        uses.extend(seen.uses());
        if !runtime.memory().grant(&mut uses)? {
            let needed = uses.iter().map(Use::bytes).sum();
            return Err(RunError::full(
                runtime.device().budget(),
                "the matches of a slice",
                needed,
            ));
        }
        drop(uses);
        self.used_by(runtime, stream)?;
        seen.used_by(stream)?;
        if let Content::Join(JoinPart::Pairs(pairs)) = &mut self.content {
            let merged = pairs.merge(runtime, stream, seen, last);
            // No buffer of a failed merge is freed while a kernel runs.
            stream.synchronize()?;
            merged?;
            self.rows = pairs.rows();
            self.build_side = Arc::new(pairs.build_side());
        }
        self.park();
        seen.park();
        Ok(())
    }

    /// Number of rows to allocate until they are sorted; 0 for other tables.
    pub(crate) fn capacity(&self) -> u64 {
        match &self.content {
            Content::Windows(rows) => rows.capacity(),
            _ => 0,
        }
    }

    /// The numbers of rows and matches of a join.
    fn pair_sizes(&self) -> Option<PairSizes> {
        match &self.content {
            Content::Join(JoinPart::Pairs(pairs)) => Some(pairs.sizes()),
            _ => None,
        }
    }

    /// Sets the addresses of the arrays in the arguments of the kernel that fills them.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.groups = self.address(Part::Presence);
        args.capacity = self.slots.unwrap_or(0);
        match &self.content {
            Content::Rows { columns, .. } => DeviceColumn::bind(columns, args),
            Content::Join(JoinPart::Multimap(lists)) => lists.bind(args),
            Content::Join(JoinPart::Probe(probe)) => probe.bind(args),
            Content::Join(JoinPart::Marks(marks)) => marks.bind(args),
            Content::Windows(rows) => rows.bind(args),
            Content::Stored(rows) => rows.bind(args),
            Content::Partitions(rows) => rows.bind(args),
            Content::Groups(..) | Content::Join(JoinPart::Pairs(_)) => {}
        }
    }

    /// Address of a part; groups have one part.
    pub(crate) fn address(&self, part: Part) -> u64 {
        match (&self.content, part) {
            (_, Part::Texts) => self.texts.as_ref().map_or(0, |texts| texts.region().address()),
            (Content::Groups(words, first), _) => words.address() + 8 * *first as u64,
            (Content::Rows { presence, .. }, Part::Presence) => {
                presence.words().map_or(0, |words| words.address())
            }
            (Content::Rows { columns, .. }, Part::Values(position)) => columns[position].values(),
            (Content::Rows { columns, .. }, Part::Nulls(position)) => columns[position].nulls(),
            (Content::Join(JoinPart::Multimap(lists)), part) => lists.address(part),
            (Content::Join(JoinPart::Pairs(pairs)), Part::Directory) => pairs.address(),
            (Content::Windows(rows), Part::Directory) => rows.address(),
            (Content::Stored(rows), Part::Directory) => rows.address(),
            (Content::Partitions(rows), Part::Values(position)) => rows.column(position).values(),
            (Content::Partitions(rows), Part::Nulls(position)) => rows.column(position).nulls(),
            _ => 0,
        }
    }

    /// Makes `stream` wait until it has been transferred back, before the stream reads it.
    pub(crate) fn used_by(&mut self, runtime: &DeviceRuntime, stream: &Stream) -> Result<(), RunError> {
        for region in self.regions() {
            region.used_by(stream)?;
        }
        match &mut self.content {
            Content::Join(JoinPart::Pairs(pairs)) => pairs.locate(runtime, stream),
            Content::Windows(rows) => rows.locate(runtime, stream),
            Content::Stored(rows) => rows.locate(runtime, stream),
            _ => Ok(()),
        }
    }

    /// Completes the table after the last launch. Counts the keys if they must be unique, and completes
    /// tables of multimap joins and windows, with the first counter of the control words; `texts`: the
    /// strings to which positions in keys refer.
    pub(crate) fn complete(
        &mut self,
        allocator: &Allocator<'_>,
        control: &mut DeviceBuffer<u64>,
        texts: Option<&InternedStrings>,
    ) -> Result<(), RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        match &mut self.content {
            // For a hash table the kernel has counted the keys.
            Content::Rows { presence, columns } if self.unique && self.slots.is_none() => {
                let count = InOut(control.slice_mut(1..2)?);
                match presence {
                    Presence::Words(bits) => {
                        CountBits::new(runtime.device())?.launch(stream, In(&**bits), count)?;
                    }
                    Presence::Entries {
                        position,
                        width,
                        spare,
                    } => {
                        let bytes = *width * self.build_side.indices() as usize;
                        let entries = In(columns[*position].entries(bytes)?);
                        let kernel = CountWritten::new(runtime.device())?;
                        kernel.launch(stream, entries, *width, spare.byte, count)?;
                    }
                }
            }
            Content::Join(JoinPart::Multimap(lists)) => {
                lists.complete(allocator, stream.read(control, 1..2)?[0])?;
            }
            Content::Join(JoinPart::Probe(probe)) => {
                probe.complete(allocator, stream.read(control, 1..2)?[0])?;
            }
            Content::Join(JoinPart::Marks(marks)) => marks.complete(allocator)?,
            Content::Windows(rows) => {
                rows.complete(allocator, stream.read(control, 1..2)?[0], texts)?;
            }
            Content::Partitions(rows) => rows.complete(allocator)?,
            Content::Rows { .. }
            | Content::Groups(..)
            | Content::Stored(_)
            | Content::Join(JoinPart::Pairs(_)) => {}
        }
        Ok(())
    }

    /// Records `rows` rows with `keys` distinct keys, and refuses repeated keys if they must be unique, and a
    /// table of keys without a free slot: searches for absent keys would not end.
    pub(crate) fn check(&mut self, rows: u64, keys: u64) -> Result<(), RunError> {
        self.rows = rows;
        if self.slots.is_some_and(|slots| keys >= slots) {
            return Err(RunError::KeysFull);
        }
        if !self.unique || keys == rows {
            return Ok(());
        }
        Err(RunError::Unsupported(Reason::RepeatedKey {
            expression: "a join".into(),
            rows: rows - keys + 1,
        }))
    }

    fn regions(&self) -> Vec<&dyn Region> {
        let mut regions: Vec<&dyn Region> = match &self.content {
            Content::Groups(words, _) => vec![words],
            Content::Rows { presence, columns } => {
                let words = presence.words().map(|words| -> &dyn Region { words });
                let columns = columns.iter().flat_map(DeviceColumn::regions);
                words.into_iter().chain(columns).collect()
            }
            Content::Join(part) => part.regions(),
            Content::Windows(rows) => rows.regions(),
            Content::Stored(rows) => rows.regions(),
            Content::Partitions(rows) => rows.regions(),
        };
        regions.extend(self.texts.iter().map(|texts| -> &dyn Region { texts.region() }));
        regions
    }

    fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let mut regions: Vec<&mut dyn Region> = match &mut self.content {
            Content::Groups(words, _) => vec![words],
            Content::Rows { presence, columns } => {
                let words = presence.words_mut().map(|words| -> &mut dyn Region { words });
                let columns = columns.iter_mut().flat_map(DeviceColumn::regions_mut);
                words.into_iter().chain(columns).collect()
            }
            Content::Join(part) => part.regions_mut(),
            Content::Windows(rows) => rows.regions_mut(),
            Content::Stored(rows) => rows.regions_mut(),
            Content::Partitions(rows) => rows.regions_mut(),
        };
        let texts = self.texts.iter_mut();
        regions.extend(texts.map(|texts| -> &mut dyn Region { texts.region_mut() }));
        regions
    }

    /// Lets others evict it.
    pub(crate) fn park(&mut self) {
        self.regions_mut().into_iter().for_each(Region::park);
    }

    /// The accesses of a launch to its regions.
    pub(crate) fn uses(&mut self, access: Access) -> Vec<Use<'_>> {
        let regions = self.regions_mut().into_iter();
        regions.map(|region| region.used(access)).collect()
    }
}
