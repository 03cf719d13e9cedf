//! A build side that a pipeline made: arrays by key that stay in device memory until the pipelines that look
//! them up have run.

use crate::device::{DeviceRuntime, RunError};
use crate::joins::pairs::PairSizes;
use crate::joins::pairs::{JoinPart, Pairs};
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use crate::rows::partitions::PartitionedRows;
use crate::rows::stored::StoredRows;
use crate::string::by_row::TextsOfSide;
use crate::string::interned::InternedTexts;
use crate::window::WindowRows;
use galatea_base::reason::Reason;
use galatea_codegen::build_plan::{BuildPlan, GroupBuildPlan};
use galatea_device::{Access, DeviceBuffer, In, InOut, Stream};
use galatea_expression::{Dimension, Part, Spare};
use galatea_kernels::{CountBits, CountWritten, PipelineArguments};
use galatea_memory::regions::{Use, WorkingRegion};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of a build side.
#[derive(Debug)]
pub(crate) enum SideRows {
    /// Rows that CPU operators made, arranged on the host.
    Collected(Arc<Dimension>),
    /// Rows that a pipeline left on the device.
    Built(Box<Mutex<BuiltTable>>),
}

impl SideRows {
    /// Its shape, and for collected rows their content.
    pub(crate) fn dimension(&self) -> Arc<Dimension> {
        match self {
            Self::Collected(dimension) => Arc::clone(dimension),
            Self::Built(table) => Arc::clone(&table.lock().dimension),
        }
    }

    /// How many rows and pairs there are, of the pairs of a join.
    pub(crate) fn pair_sizes(&self) -> Option<PairSizes> {
        match self {
            Self::Collected(_) => None,
            Self::Built(table) => table.lock().pair_sizes(),
        }
    }

    /// What a pipeline left on the device.
    fn into_built(self) -> Option<BuiltTable> {
        match self {
            Self::Collected(_) => None,
            Self::Built(table) => Some(table.into_inner()),
        }
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Collected(dimension) => dimension.rows(),
            Self::Built(table) => table.lock().rows,
        }
    }
}

/// The build sides on the device that a run looks up, by number; parked when it goes.
#[derive(Debug)]
pub(crate) struct BuiltSides<'a>(Vec<(usize, MutexGuard<'a, BuiltTable>)>);

impl<'a> BuiltSides<'a> {
    /// Those of a run, parked as yet.
    pub(crate) fn of(sides: &'a [SideRows]) -> Self {
        let built = |(number, side): (usize, &'a SideRows)| match side {
            SideRows::Collected(_) => None,
            SideRows::Built(table) => Some((number, table.lock())),
        };
        Self(sides.iter().enumerate().filter_map(built).collect())
    }

    /// What a launch does to their regions.
    pub(crate) fn uses(&mut self) -> Vec<Use<'_>> {
        let sides = self.0.iter_mut();
        sides.flat_map(|(_, side)| side.uses(Access::Read)).collect()
    }

    /// Makes `stream` wait for whatever brings them back.
    pub(crate) fn used_by(&mut self, runtime: &DeviceRuntime, stream: &Stream) -> Result<(), RunError> {
        let mut sides = self.0.iter_mut();
        sides.try_for_each(|(_, side)| side.used_by(runtime, stream))
    }

    /// Address of a part of side number `dimension`.
    pub(crate) fn address(&self, dimension: usize, part: Part) -> u64 {
        let side = self.0.iter().find(|(number, _)| *number == dimension);
        side.map_or(0, |(_, side)| side.address(part))
    }

    /// The texts that they have by the numbers of their rows, by number of the side.
    pub(crate) fn text_rows(&self) -> BTreeMap<usize, TextsOfSide> {
        let sides = self.0.iter();
        sides
            .map(|(number, side)| (*number, side.text_rows.clone()))
            .collect()
    }

    /// Lets others move them.
    pub(crate) fn park(&mut self) {
        self.0.iter_mut().for_each(|(_, side)| side.park());
    }
}

impl Drop for BuiltSides<'_> {
    fn drop(&mut self) {
        self.park();
    }
}

/// What a pipeline left on the device for others.
#[derive(Debug)]
pub(crate) struct BuiltTable {
    /// Its shape.
    pub dimension: Arc<Dimension>,
    /// Rows that are in it.
    pub rows: u64,
    unique: bool,
    /// Slots of its table of keys, if it has one.
    slots: Option<u64>,
    /// Bytes of what is touched by key.
    pub lookup_bytes: u64,
    /// Texts of its keys that have no dictionary.
    texts: Option<InternedTexts>,
    /// Texts that it has by the numbers of their rows.
    text_rows: TextsOfSide,
    content: Content,
}

/// What says which indices have a row.
#[derive(Debug)]
enum Presence {
    /// Bits by index, or the table of keys.
    Words(WorkingRegion<u32>),
    /// The entries of the column at a position, of so many bytes each.
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
    /// The words of all possible groups, from the number on.
    Groups(WorkingRegion<u64>, usize),
    /// A part of a join whose keys repeat.
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
        // A table of keys has two words of 32 bits a slot.
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
                plan.dimension(),
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
            ..Self::of(plan.dimension(), Content::Groups(words, 0))
        })
    }

    /// A group table whose entries are the rows of another pipeline; its words begin at number `first`.
    pub(crate) fn of_table(
        dimension: Dimension,
        words: WorkingRegion<u64>,
        first: usize,
        entries: u64,
        texts: Option<InternedTexts>,
    ) -> Self {
        Self {
            rows: entries,
            texts,
            ..Self::of(dimension, Content::Groups(words, first))
        }
    }

    /// A part of a join, which is filled by a pipeline.
    pub(crate) fn of_join(dimension: Dimension, part: JoinPart) -> Self {
        Self {
            lookup_bytes: part.lookup_bytes(),
            ..Self::of(dimension, Content::Join(part))
        }
    }

    /// Rows that are put in the order of a window when a pipeline has filled them in.
    pub(crate) fn of_windows(dimension: Dimension, rows: WindowRows) -> Self {
        Self::of(dimension, Content::Windows(Box::new(rows)))
    }

    /// Rows by position, which are filled in by a pipeline.
    pub(crate) fn of_stored(dimension: Dimension, rows: StoredRows) -> Self {
        Self::of(dimension, Content::Stored(rows))
    }

    /// Rows in partitions, which are filled in by a pipeline.
    pub(crate) fn of_partitions(dimension: Dimension, rows: PartitionedRows) -> Self {
        Self::of(dimension, Content::Partitions(Box::new(rows)))
    }

    /// With the texts of its keys that have no dictionary.
    pub(crate) fn add_texts(&mut self, texts: Option<InternedTexts>) {
        self.texts = texts;
    }

    /// Whether the texts of its keys are looked for once it is complete: not those of an order.
    pub(crate) fn finds_texts(&self) -> bool {
        !matches!(self.content, Content::Windows(_))
    }

    /// With texts that it has by the numbers of their rows.
    pub(crate) fn add_text_rows(&mut self, text_rows: TextsOfSide) {
        self.text_rows = text_rows;
    }

    /// Rows of each partition.
    pub(crate) fn counted(&self) -> &[u64] {
        match &self.content {
            Content::Partitions(rows) => rows.counted(),
            _ => &[],
        }
    }

    /// The pairs of a join.
    fn of_pairs(pairs: Pairs) -> Self {
        Self {
            rows: pairs.rows(),
            ..Self::of(pairs.dimension(), Content::Join(JoinPart::Pairs(Box::new(pairs))))
        }
    }

    fn of(dimension: Dimension, content: Content) -> Self {
        Self {
            dimension: Arc::new(dimension),
            rows: 0,
            unique: false,
            slots: None,
            lookup_bytes: 0,
            texts: None,
            text_rows: TextsOfSide::new(),
            content,
        }
    }

    /// The part of a join that the pipeline which looked up `sides` has completed, with what it needs of
    /// them: they are pairs then.
    pub(crate) fn joined(self, sides: Vec<SideRows>) -> Self {
        let number = match &self.content {
            Content::Join(JoinPart::Probe(probe)) => probe.dimension(),
            Content::Join(JoinPart::Marks(marks)) => marks.dimension(),
            _ => return self,
        };
        let side = sides.into_iter().nth(number).and_then(SideRows::into_built);
        let mut text_rows = self.text_rows;
        let side = side.map(|side| {
            text_rows.extend(side.text_rows);
            side.content
        });
        let pairs = match (self.content, side) {
            (Content::Join(JoinPart::Probe(probe)), Some(Content::Join(JoinPart::Lists(lists)))) => {
                Self::of_pairs(Pairs::of(*probe, *lists))
            }
            (Content::Join(JoinPart::Marks(marks)), Some(Content::Join(JoinPart::Pairs(pairs)))) => {
                Self::of_pairs(pairs.marked(*marks))
            }
            _ => unreachable!("a join's pipelines look up its own parts"),
        };
        Self { text_rows, ..pairs }
    }

    /// Rows that there is room for until they are sorted; 0 of what is not.
    pub(crate) fn capacity(&self) -> u64 {
        match &self.content {
            Content::Windows(rows) => rows.capacity(),
            _ => 0,
        }
    }

    /// How many rows and pairs there are, of a join.
    fn pair_sizes(&self) -> Option<PairSizes> {
        match &self.content {
            Content::Join(JoinPart::Pairs(pairs)) => Some(pairs.sizes()),
            _ => None,
        }
    }

    /// Points the kernel that fills them at the arrays.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.groups = self.address(Part::Presence);
        args.capacity = self.slots.unwrap_or(0);
        match &self.content {
            Content::Rows { columns, .. } => DeviceColumn::bind(columns, args),
            Content::Join(JoinPart::Lists(lists)) => lists.bind(args),
            Content::Join(JoinPart::Probe(probe)) => probe.bind(args),
            Content::Join(JoinPart::Marks(marks)) => marks.bind(args),
            Content::Windows(rows) => rows.bind(args),
            Content::Stored(rows) => rows.bind(args),
            Content::Partitions(rows) => rows.bind(args),
            Content::Groups(..) | Content::Join(JoinPart::Pairs(_)) => {}
        }
    }

    /// Address of a part; groups have one.
    pub(crate) fn address(&self, part: Part) -> u64 {
        match (&self.content, part) {
            (_, Part::Texts) => self.texts.as_ref().map_or(0, |texts| texts.region().address()),
            (Content::Groups(words, first), _) => words.address() + 8 * *first as u64,
            (Content::Rows { presence, .. }, Part::Presence) => {
                presence.words().map_or(0, |words| words.address())
            }
            (Content::Rows { columns, .. }, Part::Values(position)) => columns[position].values(),
            (Content::Rows { columns, .. }, Part::Nulls(position)) => columns[position].nulls(),
            (Content::Join(JoinPart::Lists(lists)), part) => lists.address(part),
            (Content::Join(JoinPart::Pairs(pairs)), Part::Directory) => pairs.address(),
            (Content::Windows(rows), Part::Directory) => rows.address(),
            (Content::Stored(rows), Part::Directory) => rows.address(),
            (Content::Partitions(rows), Part::Values(position)) => rows.column(position).values(),
            (Content::Partitions(rows), Part::Nulls(position)) => rows.column(position).nulls(),
            _ => 0,
        }
    }

    /// Makes `stream` wait for whatever brings it back, before the stream reads it.
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

    /// After the last launch, with the first counter of the control words: counts the keys there, where they
    /// must be unique, and completes parts of joins and windows; `texts`: those whose places are in keys.
    pub(crate) fn complete(
        &mut self,
        allocator: &Allocator<'_>,
        control: &mut DeviceBuffer<u64>,
        texts: Option<&InternedTexts>,
    ) -> Result<(), RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        match &mut self.content {
            // The kernel has counted the keys of a table of keys.
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
                        let bytes = *width * self.dimension.indices() as usize;
                        let entries = In(columns[*position].entries(bytes)?);
                        let kernel = CountWritten::new(runtime.device())?;
                        kernel.launch(stream, entries, *width, spare.byte, count)?;
                    }
                }
            }
            Content::Join(JoinPart::Lists(lists)) => {
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

    /// After `rows` rows with `keys` different keys: refuses keys that are not unique although they must be.
    pub(crate) fn check(&mut self, rows: u64, keys: u64) -> Result<(), RunError> {
        self.rows = rows;
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

    /// Lets others move it.
    pub(crate) fn park(&mut self) {
        self.regions_mut().into_iter().for_each(Region::park);
    }

    /// What a launch does to its regions.
    pub(crate) fn uses(&mut self, access: Access) -> Vec<Use<'_>> {
        let regions = self.regions_mut().into_iter();
        regions.map(|region| region.used(access)).collect()
    }
}
