//! Joins with repeated keys, on the device.
//!
//! ```text
//! build side    rows by position ── counted by key ── lists: the rows of each key, next to each other
//!                                                        │
//! probe side    rows by position, each with its list ────┴── offsets: the matches before each row ── matches
//!                                                                                                     │
//! condition     of outer joins, semijoins and antijoins: a pipeline over the matches marks those ─────┤
//!                                                                                                     ▼
//!                                                          a pipeline over the matches, by number
//! ```
//!
//! Matches are not materialised: a row of the pipeline above finds its match by its number (`pairs.cuh`), and
//! columns by the numbers of the two rows.

mod merge;

pub(crate) use merge::SeenRows;

use crate::device::{DeviceRuntime, RunError};
use crate::rows::check_rows;
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use galatea_codegen::Marking;
use galatea_codegen::build_plan::{MarkPlan, MultimapPlan, ProbePlan, pairs_side};
use galatea_codegen::sink::mark;
use galatea_codegen::sink::multimap::{COUNTS, RANKS, SLOTS};
use galatea_codegen::sink::probe::{FIRSTS, PARTNERS};
use galatea_device::{DeviceBuffer, In, InOut, Out, Stream};
use galatea_expression::{BuiltColumn, LookupSide, PairWord, Part};
use galatea_kernels::{CollectBits, ListRows, PipelineArguments, PrefixSum};
use galatea_memory::regions::WorkingRegion;

/// Numbers of rows and matches of a join.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PairSizes {
    pub(crate) pairs: u64,
    pub(crate) probe: u64,
    pub(crate) build: u64,
}

/// Memory for the totals of [`PrefixSum`].
fn totals(allocator: &Allocator<'_>, sums: &PrefixSum) -> Result<WorkingRegion<u64>, RunError> {
    allocator.zeroed(sums.totals() as u64)
}

/// The build side: rows by position, and a multimap of them by key.
#[derive(Debug)]
pub(crate) struct Multimap {
    lookup_bytes: u64,
    columns: Vec<BuiltColumn>,
    values: Vec<DeviceColumn>,
    /// The hash table of keys, if they are not dense.
    keys: Option<WorkingRegion<u64>>,
    /// By index, the number of rows of the key; once all rows have been added, the start of its list.
    starts: WorkingRegion<u32>,
    /// By position, the index and the rank, until the lists are built.
    places: Option<[WorkingRegion<u32>; 2]>,
    /// The rows of each key, next to each other.
    lists: Option<WorkingRegion<u32>>,
    rows: u64,
}

impl Multimap {
    /// An empty multimap with memory for `rows` rows.
    pub(crate) fn new(allocator: &Allocator<'_>, plan: &MultimapPlan, rows: u64) -> Result<Self, RunError> {
        check_rows(rows)?;
        let slots = plan.keys.slots;
        Ok(Self {
            lookup_bytes: plan.lookup_bytes(),
            columns: plan.columns.clone(),
            values: allocator.columns(&plan.columns, rows)?,
            keys: slots.map(|slots| allocator.zeroed(slots)).transpose()?,
            starts: allocator.zeroed(plan.keys.indices() + 1)?,
            places: Some([allocator.zeroed(rows)?, allocator.zeroed(rows)?]),
            lists: None,
            rows: 0,
        })
    }

    /// Sets its addresses in the arguments of the kernel that fills it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        DeviceColumn::bind(&self.values, args);
        args.capacity = self.keys.as_ref().map_or(0, |keys| keys.len() as u64);
        args.outputs[COUNTS] = self.starts.address();
        if let Some([slots, ranks]) = &self.places {
            args.outputs[SLOTS] = slots.address();
            args.outputs[RANKS] = ranks.address();
        }
    }

    /// Builds the lists after `rows` rows have been added.
    pub(crate) fn complete(&mut self, allocator: &Allocator<'_>, rows: u64) -> Result<(), RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        let sums = PrefixSum::new(runtime.device())?;
        let mut totals = totals(allocator, &sums)?;
        sums.replace(stream, InOut(&mut *self.starts), Out(&mut *totals))?;
        let mut lists = allocator.zeroed::<u32>(rows)?;
        if let (Some([slots, ranks]), 1..) = (self.places.take(), rows) {
            let rows = rows as usize;
            ListRows::new(runtime.device())?.launch(
                stream,
                In(slots.slice(..rows)?),
                In(ranks.slice(..rows)?),
                In(&*self.starts),
                Out(lists.slice_mut(..rows)?),
            )?;
        }
        self.lists = Some(lists);
        self.rows = rows;
        Ok(())
    }

    /// Address of a part.
    pub(crate) fn address(&self, part: Part) -> u64 {
        match part {
            Part::Presence => self.keys.as_ref().map_or(0, |keys| keys.address()),
            Part::Starts => self.starts.address(),
            _ => 0,
        }
    }

    fn regions(&self) -> Vec<&dyn Region> {
        let mut all: Vec<&dyn Region> = self.values.iter().flat_map(DeviceColumn::regions).collect();
        all.push(&self.starts);
        all.extend(self.keys.as_ref().map(|keys| keys as &dyn Region));
        all.extend(self.places.iter().flatten().map(|place| place as &dyn Region));
        all.extend(self.lists.as_ref().map(|lists| lists as &dyn Region));
        all
    }

    fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let mut all: Vec<&mut dyn Region> = (self.values.iter_mut())
            .flat_map(DeviceColumn::regions_mut)
            .collect();
        all.push(&mut self.starts);
        all.extend(self.keys.as_mut().map(|keys| keys as &mut dyn Region));
        all.extend(
            self.places
                .iter_mut()
                .flatten()
                .map(|place| place as &mut dyn Region),
        );
        all.extend(self.lists.as_mut().map(|lists| lists as &mut dyn Region));
        all
    }
}

/// The probe side: rows by position, each with the list of its matches.
#[derive(Debug)]
pub(crate) struct ProbeRows {
    plan: ProbePlan,
    values: Vec<DeviceColumn>,
    /// By position, the start of the list.
    firsts: WorkingRegion<u32>,
    /// By position, the number of matches, until they are added up.
    partners: Option<WorkingRegion<u32>>,
    /// By position, the number of matches before it, and at the end the total.
    offsets: Option<WorkingRegion<u64>>,
    rows: u64,
    pairs: u64,
    /// Number of the query.
    owner: u64,
}

impl ProbeRows {
    /// Empty, with memory for `rows` rows.
    pub(crate) fn new(allocator: &Allocator<'_>, plan: &ProbePlan, rows: u64) -> Result<Self, RunError> {
        check_rows(rows)?;
        Ok(Self {
            plan: plan.clone(),
            values: allocator.columns(&plan.columns, rows)?,
            firsts: allocator.zeroed(rows)?,
            partners: Some(allocator.zeroed(rows)?),
            offsets: None,
            rows: 0,
            pairs: 0,
            owner: allocator.owner,
        })
    }

    /// The number of the build side with the multimap.
    pub(crate) fn build_side(&self) -> usize {
        self.plan.build_side
    }

    /// Sets its addresses in the arguments of the kernel that fills it.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        DeviceColumn::bind(&self.values, args);
        args.outputs[FIRSTS] = self.firsts.address();
        args.outputs[PARTNERS] = self.partners.as_ref().map_or(0, |partners| partners.address());
    }

    /// Adds up the matches after `rows` rows have been added.
    pub(crate) fn complete(&mut self, allocator: &Allocator<'_>, rows: u64) -> Result<(), RunError> {
        let Allocator { runtime, stream, .. } = *allocator;
        let sums = PrefixSum::new(runtime.device())?;
        let mut totals = totals(allocator, &sums)?;
        let mut offsets = allocator.zeroed::<u64>(rows + 1)?;
        if let Some(partners) = self.partners.take() {
            let partners = partners.slice(..rows as usize)?;
            sums.sum(stream, In(partners), Out(&mut *offsets), Out(&mut *totals))?;
            self.pairs = stream.read(&offsets, rows as usize..)?[0];
        }
        self.offsets = Some(offsets);
        self.rows = rows;
        Ok(())
    }

    fn regions(&self) -> Vec<&dyn Region> {
        let mut all: Vec<&dyn Region> = self.values.iter().flat_map(DeviceColumn::regions).collect();
        all.push(&self.firsts);
        all.extend(self.partners.as_ref().map(|partners| partners as &dyn Region));
        all.extend(self.offsets.as_ref().map(|offsets| offsets as &dyn Region));
        all
    }

    fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let mut all: Vec<&mut dyn Region> = (self.values.iter_mut())
            .flat_map(DeviceColumn::regions_mut)
            .collect();
        all.push(&mut self.firsts);
        all.extend(self.partners.as_mut().map(|partners| partners as &mut dyn Region));
        all.extend(self.offsets.as_mut().map(|offsets| offsets as &mut dyn Region));
        all
    }
}

/// The numbers of the bits of a bitmap that are `wanted`, among the first `rows`, and their number.
fn collect(
    allocator: &Allocator<'_>,
    bits: &WorkingRegion<u32>,
    rows: u64,
    wanted: bool,
) -> Result<(WorkingRegion<u32>, u64), RunError> {
    let mut numbers = allocator.zeroed::<u32>(rows)?;
    let mut found = allocator.zeroed::<u64>(1)?;
    let kernel = CollectBits::new(allocator.runtime.device())?;
    let words = bits.slice(..rows.div_ceil(32) as usize)?;
    let to = numbers.slice_mut(..rows as usize)?;
    kernel.launch(allocator.stream, In(words), wanted, Out(to), InOut(&mut *found))?;
    let found = allocator.stream.read(&found, ..)?[0];
    Ok((numbers, found))
}

/// The matches and rows of a join that satisfy its condition.
#[derive(Debug)]
pub(crate) struct Marks {
    plan: MarkPlan,
    sizes: PairSizes,
    kept: Option<WorkingRegion<u32>>,
    /// A bit for each row.
    probe: Option<WorkingRegion<u32>>,
    build: Option<WorkingRegion<u32>>,
    /// The rows that are returned without a match, if not all are.
    probe_alone: Option<WorkingRegion<u32>>,
    build_alone: Option<WorkingRegion<u32>>,
    /// The numbers of rows returned without a match.
    alone: [u64; 2],
}

impl Marks {
    /// Marks that are all unset.
    pub(crate) fn new(
        allocator: &Allocator<'_>,
        plan: &MarkPlan,
        sizes: PairSizes,
    ) -> Result<Self, RunError> {
        let (kept, probe, build) = match plan.marking {
            Marking::Outer {
                conditional,
                probe,
                build,
            } => (conditional, probe, build),
            Marking::Semi | Marking::Anti | Marking::Mark { .. } => (false, true, false),
        };
        let bits = |wanted: bool, bits: u64| wanted.then(|| allocator.bitmap(bits)).transpose();
        Ok(Self {
            plan: *plan,
            sizes,
            kept: bits(kept, sizes.pairs)?,
            probe: bits(probe, sizes.probe)?,
            build: bits(build, sizes.build)?,
            probe_alone: None,
            build_alone: None,
            alone: [0; 2],
        })
    }

    /// The build side with the matches that are marked.
    pub(crate) fn build_side(&self) -> usize {
        self.plan.build_side
    }

    /// Sets their addresses in the arguments of the kernel that marks.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.outputs[mark::KEPT] = address(self.kept.as_ref());
        args.outputs[mark::PROBE] = address(self.probe.as_ref());
        args.outputs[mark::BUILD] = address(self.build.as_ref());
    }

    /// Collects the rows without a match, after all matches have been marked.
    pub(crate) fn complete(&mut self, allocator: &Allocator<'_>) -> Result<(), RunError> {
        if let Marking::Mark { .. } = self.plan.marking {
            self.alone[0] = self.sizes.probe;
        } else if let Some(bits) = &self.probe {
            let wanted = self.plan.marking == Marking::Semi;
            let (numbers, found) = collect(allocator, bits, self.sizes.probe, wanted)?;
            (self.probe_alone, self.alone[0]) = (Some(numbers), found);
        }
        if let Some(bits) = &self.build {
            let (numbers, found) = collect(allocator, bits, self.sizes.build, false)?;
            (self.build_alone, self.alone[1]) = (Some(numbers), found);
        }
        Ok(())
    }

    /// Whether the matches themselves are rows of the join.
    fn keeps_pairs(&self) -> bool {
        matches!(self.plan.marking, Marking::Outer { .. })
    }

    fn all(&self) -> [&Option<WorkingRegion<u32>>; 5] {
        [
            &self.kept,
            &self.probe,
            &self.build,
            &self.probe_alone,
            &self.build_alone,
        ]
    }

    fn regions(&self) -> Vec<&dyn Region> {
        let all = self.all().into_iter().flatten();
        all.map(|region| region as &dyn Region).collect()
    }

    fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        let all = [
            &mut self.kept,
            &mut self.probe,
            &mut self.build,
            &mut self.probe_alone,
            &mut self.build_alone,
        ];
        all.into_iter()
            .flatten()
            .map(|region| region as &mut dyn Region)
            .collect()
    }
}

fn address(region: Option<&WorkingRegion<u32>>) -> u64 {
    region.map_or(0, |region| region.address())
}

/// The matches of a join.
#[derive(Debug)]
pub(crate) struct Pairs {
    probe: ProbeRows,
    lists: Multimap,
    marks: Option<Marks>,
    /// The addresses of its regions at the last launch.
    directory: Option<DeviceBuffer<u64>>,
}

impl Pairs {
    /// The matches of two sides.
    pub(crate) fn of(probe: ProbeRows, lists: Multimap) -> Self {
        Self {
            probe,
            lists,
            marks: None,
            directory: None,
        }
    }

    /// The same with marks.
    pub(crate) fn marked(self, marks: Marks) -> Self {
        Self {
            marks: Some(marks),
            ..self
        }
    }

    pub(crate) fn sizes(&self) -> PairSizes {
        PairSizes {
            pairs: self.probe.pairs,
            probe: self.probe.rows,
            build: self.lists.rows,
        }
    }

    /// The numbers of matches that are returned, and of rows returned without a match after them: of the
    /// probe side, then of the build side.
    fn counts(&self) -> [u64; 3] {
        match &self.marks {
            None => [self.probe.pairs, 0, 0],
            Some(marks) => {
                let pairs = if marks.keeps_pairs() { self.probe.pairs } else { 0 };
                [pairs, marks.alone[0], marks.alone[1]]
            }
        }
    }

    /// Rows of a pipeline over them.
    pub(crate) fn rows(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The build side for pipelines that look it up.
    pub(crate) fn build_side(&self) -> LookupSide {
        let marking = self.marks.as_ref().map(|marks| marks.plan.marking);
        pairs_side(&self.probe.plan, &self.lists.columns, marking)
    }

    /// Writes the directory, before a launch that reads it.
    pub(crate) fn locate(&mut self, runtime: &DeviceRuntime, stream: &Stream) -> Result<(), RunError> {
        let columns: Vec<&DeviceColumn> = self.probe.values.iter().chain(&self.lists.values).collect();
        let mut words = vec![0u64; PairWord::column(columns.len())];
        let [pairs, probe_alone, _] = self.counts();
        let mut set = |word: PairWord, value: u64| words[word as usize] = value;
        set(PairWord::ProbeRows, self.probe.rows);
        set(PairWord::Count, pairs);
        set(PairWord::ProbeAlone, probe_alone);
        let offsets = self.probe.offsets.as_ref();
        set(PairWord::Offsets, offsets.map_or(0, |offsets| offsets.address()));
        set(PairWord::Firsts, self.probe.firsts.address());
        set(PairWord::Multimap, address(self.lists.lists.as_ref()));
        if let Some(marks) = &self.marks {
            set(PairWord::Kept, address(marks.kept.as_ref()));
            set(PairWord::ProbeNumbers, address(marks.probe_alone.as_ref()));
            set(PairWord::BuildNumbers, address(marks.build_alone.as_ref()));
            set(PairWord::Marks, address(marks.probe.as_ref()));
        }
        for (position, column) in columns.into_iter().enumerate() {
            words[PairWord::column(position)] = column.values();
            words[PairWord::column(position) + 1] = column.nulls();
        }
        self.directory = Some(runtime.upload(stream, &words, "the directory of a join")?);
        Ok(())
    }

    /// Address of the directory.
    pub(crate) fn address(&self) -> u64 {
        self.directory.as_ref().map_or(0, DeviceBuffer::address)
    }
}

/// The tables that the pipelines of a join leave on the device.
#[derive(Debug)]
pub(crate) enum JoinPart {
    Multimap(Box<Multimap>),
    Probe(Box<ProbeRows>),
    Marks(Box<Marks>),
    Pairs(Box<Pairs>),
}

impl JoinPart {
    /// Bytes that lookups by key access; those of a multimap until its lists are built.
    pub(crate) fn lookup_bytes(&self) -> u64 {
        match self {
            Self::Multimap(lists) => lists.lookup_bytes,
            Self::Probe(_) | Self::Marks(_) | Self::Pairs(_) => 0,
        }
    }

    /// Its regions.
    pub(crate) fn regions(&self) -> Vec<&dyn Region> {
        match self {
            Self::Multimap(lists) => lists.regions(),
            Self::Probe(probe) => probe.regions(),
            Self::Marks(marks) => marks.regions(),
            Self::Pairs(pairs) => {
                let marks = pairs.marks.as_ref().map(Marks::regions).unwrap_or_default();
                let sides = pairs.probe.regions().into_iter().chain(pairs.lists.regions());
                sides.chain(marks).collect()
            }
        }
    }

    /// Its regions, mutable.
    pub(crate) fn regions_mut(&mut self) -> Vec<&mut dyn Region> {
        match self {
            Self::Multimap(lists) => lists.regions_mut(),
            Self::Probe(probe) => probe.regions_mut(),
            Self::Marks(marks) => marks.regions_mut(),
            Self::Pairs(pairs) => {
                let marks = pairs.marks.as_mut().map(Marks::regions_mut).unwrap_or_default();
                let sides = pairs
                    .probe
                    .regions_mut()
                    .into_iter()
                    .chain(pairs.lists.regions_mut());
                sides.chain(marks).collect()
            }
        }
    }
}
