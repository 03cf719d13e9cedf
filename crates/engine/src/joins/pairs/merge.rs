//! Preserved rows of a join whose other side is joined in slices. Their matches are merged over the slices: a
//! bitmap has a bit for each row of the table, by the row's number, and is kept from slice to slice.
//!
//! ```text
//! join              a row of the preserved side is returned once
//! semi, mark        in the first slice with a match
//! outer, anti       in the last slice, if no slice had a match
//! mark              also that
//! ```
//!
//! Positions of rows differ in each run, so a stored row has its number as a column
//! ([`ROW_COLUMNS`](crate::graph::ROW_COLUMNS)).

use super::{Marks, PairSizes, Pairs, collect};
use crate::device::{DeviceRuntime, RunError};
use crate::graph::ROW_COLUMNS;
use crate::rows::columns::{Allocator, DeviceColumn, Region};
use galatea_codegen::Marking;
use galatea_codegen::build_plan::MarkPlan;
use galatea_device::{Access, DeviceError, In, InOut, Out, Stream};
use galatea_expression::BuiltColumn;
use galatea_kernels::{ChosenRows, MergeMarks, SliceMatches};
use galatea_memory::regions::{Use, WorkingRegion};

/// The bytes of a row number.
const NUMBER_BYTES: usize = size_of::<i64>();

/// The preserved rows with a match in the slices so far, of the probe side and of the build side.
#[derive(Debug)]
pub(crate) struct SeenRows {
    /// Numbers of rows of the tables whose rows are preserved.
    rows: [Option<u64>; 2],
    /// A bit by number of the row, once a slice has been merged.
    bits: [Option<WorkingRegion<u32>>; 2],
}

impl SeenRows {
    /// No rows yet, of tables with that number of rows; `None` for a side whose matches are not merged.
    pub(crate) fn new(rows: [Option<u64>; 2]) -> Self {
        Self {
            rows,
            bits: [None, None],
        }
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.bits = [None, None];
    }

    /// The accesses of the next merge.
    pub(crate) fn uses(&mut self) -> impl Iterator<Item = Use<'_>> {
        let bits = self.bits.iter_mut().flatten();
        bits.map(|bits| bits.used(Access::ReadWrite))
    }

    /// Makes `stream` wait until they have been transferred back.
    pub(crate) fn used_by(&self, stream: &Stream) -> Result<(), DeviceError> {
        let mut bits = self.bits.iter().flatten();
        bits.try_for_each(|bits| Region::used_by(bits, stream))
    }

    /// Lets others evict them.
    pub(crate) fn park(&mut self) {
        self.bits.iter_mut().flatten().for_each(WorkingRegion::park);
    }

    /// The bits of a side, if its matches are merged.
    fn bits(
        &mut self,
        side: usize,
        allocator: &Allocator<'_>,
    ) -> Result<Option<&mut WorkingRegion<u32>>, RunError> {
        let (Some(rows), bits) = (self.rows[side], &mut self.bits[side]) else {
            return Ok(None);
        };
        if bits.is_none() {
            *bits = Some(allocator.bitmap(rows)?);
        }
        Ok(bits.as_mut())
    }
}

/// The rows of one side.
struct SideOfSlice<'a> {
    columns: &'a [BuiltColumn],
    values: &'a [DeviceColumn],
    number: usize,
    matches: SliceMatches<'a>,
    rows: u64,
}

impl SideOfSlice<'_> {
    /// The positions of the rows that are returned in this slice, and their number.
    fn chosen(
        self,
        allocator: &Allocator<'_>,
        seen: &mut WorkingRegion<u32>,
        choice: ChosenRows,
    ) -> Result<(WorkingRegion<u32>, u64), RunError> {
        let mut chosen = allocator.bitmap(self.rows)?;
        let is_number = |column: &BuiltColumn| column.column == self.number && column.width == NUMBER_BYTES;
        let Some(at) = self.columns.iter().position(is_number) else {
            return Err(RunError::Defect("rows of a slice have no numbers".into()));
        };
        if self.rows > 0 {
            let numbers = self.values[at].entries(self.rows as usize * NUMBER_BYTES)?;
            let words = chosen.slice_mut(..self.rows.div_ceil(32) as usize)?;
            MergeMarks::new(allocator.runtime.device())?.launch(
                allocator.stream,
                (In(numbers), self.matches),
                InOut(&mut **seen),
                Out(words),
                choice,
            )?;
        }
        collect(allocator, &chosen, self.rows, true)
    }
}

impl Pairs {
    /// Merges the matches of preserved rows in a slice of the other side with those of earlier slices, and
    /// chooses the rows that are returned once in this slice. `last`: no later slice of the other side
    /// follows, for rows of the probe side and of the build side. Its regions and those of `seen` are held.
    pub(crate) fn merge(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        seen: &mut SeenRows,
        last: [bool; 2],
    ) -> Result<(), RunError> {
        let allocator = Allocator {
            runtime,
            stream,
            owner: self.probe.owner,
            what: "the matches of a slice",
        };
        if let Some(seen) = seen.bits(0, &allocator)? {
            self.merge_probe(&allocator, seen, last[0])?;
        }
        if let Some(seen) = seen.bits(1, &allocator)? {
            self.merge_build(&allocator, seen, last[1])?;
        }
        Ok(())
    }

    /// The same for rows of the probe side.
    fn merge_probe(
        &mut self,
        allocator: &Allocator<'_>,
        seen: &mut WorkingRegion<u32>,
        last: bool,
    ) -> Result<(), RunError> {
        let sizes = self.sizes();
        let marks = match &mut self.marks {
            Some(marks) => marks,
            none => none.insert(Marks::of_lists(sizes)),
        };
        if let Marking::Outer { probe, .. } = &mut marks.plan.marking {
            *probe = true;
        }
        let rows = sizes.probe as usize;
        let side = SideOfSlice {
            columns: &self.probe.plan.columns,
            values: &self.probe.values,
            number: ROW_COLUMNS[0],
            matches: match &marks.probe {
                Some(bits) => SliceMatches::Bits(In(bits.slice(..rows.div_ceil(32))?)),
                // Without a condition, every row of the list is a match.
                None => SliceMatches::Lists(In(self.probe.firsts.slice(..rows)?)),
            },
            rows: sizes.probe,
        };
        let (matched, unmatched) = match marks.plan.marking {
            Marking::Outer { .. } | Marking::Anti => (false, last),
            Marking::Semi => (true, false),
            Marking::Mark { .. } => (true, last),
        };
        let (numbers, found) = side.chosen(allocator, seen, ChosenRows { matched, unmatched })?;
        (marks.probe_alone, marks.alone[0]) = (Some(numbers), found);
        Ok(())
    }

    /// The same for rows of the build side, which are returned without a match.
    fn merge_build(
        &mut self,
        allocator: &Allocator<'_>,
        seen: &mut WorkingRegion<u32>,
        last: bool,
    ) -> Result<(), RunError> {
        let rows = self.lists.rows;
        let Some(marks) = &mut self.marks else {
            return Ok(());
        };
        let Some(bits) = &marks.build else {
            return Ok(());
        };
        let side = SideOfSlice {
            columns: &self.lists.columns,
            values: &self.lists.values,
            number: ROW_COLUMNS[1],
            matches: SliceMatches::Bits(In(bits.slice(..rows.div_ceil(32) as usize)?)),
            rows,
        };
        let choice = ChosenRows {
            matched: false,
            unmatched: last,
        };
        let (numbers, found) = side.chosen(allocator, seen, choice)?;
        (marks.build_alone, marks.alone[1]) = (Some(numbers), found);
        Ok(())
    }
}

impl Marks {
    /// Marks of an outer join without conditions: a probe row has a match if its list is not empty.
    fn of_lists(sizes: PairSizes) -> Self {
        let marking = Marking::Outer {
            conditional: false,
            probe: true,
            build: false,
        };
        Self {
            plan: MarkPlan {
                build_side: 0,
                marking,
            },
            sizes,
            kept: None,
            probe: None,
            build: None,
            probe_alone: None,
            build_alone: None,
            alone: [0; 2],
        }
    }
}
