//! A build side that a pipeline made: arrays by key that stay in device memory until the pipelines that look
//! them up have run.

use super::error::RunError;
use super::working::memory;
use crate::expression::{BuiltColumn, Dimension};
use crate::pipeline::build_plan::{BuildPlan, GroupBuildPlan};
use crate::reason::Reason;
use crate::runtime::DeviceRuntime;
use galatea_device::{Access, DeviceBuffer, In, InOut, Stream};
use galatea_kernels::{CountBits, MAX_OUTPUTS, PipelineArguments};
use galatea_memory::regions::{Use, WorkingRegion};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The rows of a build side.
#[derive(Debug)]
pub(super) enum SideRows {
    /// Rows that CPU operators made, arranged on the host.
    Collected(Arc<Dimension>),
    /// Rows that a pipeline left on the device.
    Built(Box<Mutex<BuiltTable>>),
}

impl SideRows {
    /// Its shape, and for collected rows their content.
    pub(super) fn dimension(&self) -> Arc<Dimension> {
        match self {
            Self::Collected(dimension) => Arc::clone(dimension),
            Self::Built(table) => Arc::clone(&table.lock().dimension),
        }
    }

    /// Its rows.
    pub(super) fn rows(&self) -> u64 {
        match self {
            Self::Collected(dimension) => dimension.rows(),
            Self::Built(table) => table.lock().rows,
        }
    }
}

/// The build sides on the device that a run looks up, by number; parked when it goes.
#[derive(Debug)]
pub(super) struct BuiltSides<'a>(Vec<(usize, MutexGuard<'a, BuiltTable>)>);

impl<'a> BuiltSides<'a> {
    /// Those of a run, parked as yet.
    pub(super) fn of(sides: &'a [SideRows]) -> Self {
        let built = |(number, side): (usize, &'a SideRows)| match side {
            SideRows::Collected(_) => None,
            SideRows::Built(table) => Some((number, table.lock())),
        };
        Self(sides.iter().enumerate().filter_map(built).collect())
    }

    /// What a launch does to their regions.
    pub(super) fn uses(&mut self) -> Vec<Use<'_>> {
        let sides = self.0.iter_mut();
        sides.flat_map(|(_, side)| side.uses(Access::Read)).collect()
    }

    /// Makes `stream` wait for whatever brings them back.
    pub(super) fn used_by(&self, stream: &Stream) -> Result<(), RunError> {
        self.0.iter().try_for_each(|(_, side)| side.used_by(stream))
    }

    /// Address of a part of side number `dimension`.
    pub(super) fn address(&self, dimension: usize, part: usize) -> u64 {
        let side = self.0.iter().find(|(number, _)| *number == dimension);
        side.map_or(0, |(_, side)| side.address(part))
    }

    /// Lets others move them.
    pub(super) fn park(&mut self) {
        self.0.iter_mut().for_each(|(_, side)| side.park());
    }
}

impl Drop for BuiltSides<'_> {
    fn drop(&mut self) {
        self.park();
    }
}

/// The arrays of a build side.
#[derive(Debug)]
pub(super) struct BuiltTable {
    /// Their shape.
    pub dimension: Arc<Dimension>,
    /// Rows that are in them.
    pub rows: u64,
    unique: bool,
    /// Slots of its table of keys, if it has one.
    slots: Option<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Rows {
        presence: WorkingRegion<u32>,
        columns: Vec<Column>,
    },
    /// The words of all possible groups, from the number on.
    Groups(WorkingRegion<u64>, usize),
}

#[derive(Debug)]
struct Column {
    values: WorkingRegion<u8>,
    nulls: Option<WorkingRegion<u32>>,
}

impl BuiltTable {
    /// Arrays without rows.
    pub(super) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        plan: &BuildPlan,
        owner: u64,
    ) -> Result<Self, RunError> {
        const WHAT: &str = "a build side";
        let bits = plan.indices().div_ceil(32).max(1);
        let bitmap = || -> Result<WorkingRegion<u32>, RunError> {
            let words = usize::try_from(bits).unwrap_or(usize::MAX);
            let zeroed = runtime.zeroed::<u32>(stream, words, WHAT)?;
            Ok(runtime.memory().working(owner, WHAT, zeroed))
        };
        // A table of keys has two words of 32 bits a slot.
        let presence = match plan.slots() {
            None => bitmap()?,
            Some(slots) => {
                let words = usize::try_from(2 * slots).unwrap_or(usize::MAX);
                let zeroed = runtime.zeroed::<u32>(stream, words, WHAT)?;
                runtime.memory().working(owner, WHAT, zeroed)
            }
        };
        let column = |column: &BuiltColumn| -> Result<Column, RunError> {
            let bytes = plan.indices().saturating_mul(column.width as u64);
            let Some(mut values) = runtime.allocate(stream, bytes)? else {
                return Err(memory(runtime, WHAT, bytes));
            };
            // What no row has written may be read, though not used: a code of a dictionary must be one.
            stream.fill(&mut values, 0)?;
            Ok(Column {
                values: runtime.memory().working(owner, WHAT, values),
                nulls: column.nullable.then(bitmap).transpose()?,
            })
        };
        Ok(Self {
            dimension: Arc::new(plan.dimension()),
            rows: 0,
            unique: plan.unique,
            slots: plan.slots(),
            content: Content::Rows {
                presence,
                columns: plan.columns.iter().map(column).collect::<Result<_, _>>()?,
            },
        })
    }

    /// Groups without rows.
    pub(super) fn of_groups(
        runtime: &DeviceRuntime,
        stream: &Stream,
        plan: &GroupBuildPlan,
        owner: u64,
    ) -> Result<Self, RunError> {
        const WHAT: &str = "groups of a build side";
        let words = usize::try_from(plan.words()).unwrap_or(usize::MAX);
        let zeroed = runtime.zeroed::<u64>(stream, words, WHAT)?;
        Ok(Self {
            dimension: Arc::new(plan.dimension()),
            rows: 0,
            unique: false,
            slots: None,
            content: Content::Groups(runtime.memory().working(owner, WHAT, zeroed), 0),
        })
    }

    /// A group table whose entries are the rows of another pipeline; its words begin at number `first`.
    pub(super) fn of_table(
        dimension: Dimension,
        words: WorkingRegion<u64>,
        first: usize,
        entries: u64,
    ) -> Self {
        Self {
            dimension: Arc::new(dimension),
            rows: entries,
            unique: false,
            slots: None,
            content: Content::Groups(words, first),
        }
    }

    /// Points the kernel that fills them at the arrays.
    pub(super) fn bind(&self, args: &mut PipelineArguments) {
        args.groups = self.address(BuiltColumn::PRESENCE);
        args.capacity = self.slots.unwrap_or(0);
        let Content::Rows { columns, .. } = &self.content else {
            return;
        };
        for (k, column) in columns.iter().enumerate() {
            args.outputs[k] = column.values.address();
            args.outputs[MAX_OUTPUTS / 2 + k] = column.nulls.as_ref().map_or(0, |nulls| nulls.address());
        }
    }

    /// Address of a part, see [`BuiltColumn`]; groups have one, number 0.
    pub(super) fn address(&self, part: usize) -> u64 {
        let (presence, columns) = match &self.content {
            Content::Groups(words, first) => return words.address() + 8 * *first as u64,
            Content::Rows { presence, columns } => (presence, columns),
        };
        if part == BuiltColumn::PRESENCE {
            return presence.address();
        }
        let column = &columns[(part - 1) / 2];
        match &column.nulls {
            Some(nulls) if part.is_multiple_of(2) => nulls.address(),
            _ => column.values.address(),
        }
    }

    /// Makes the arrays wait for whatever brings them back, before `stream` reads them.
    pub(super) fn used_by(&self, stream: &Stream) -> Result<(), RunError> {
        match &self.content {
            Content::Groups(words, _) => words.used_by(stream)?,
            Content::Rows { presence, columns } => {
                presence.used_by(stream)?;
                for column in columns {
                    column.values.used_by(stream)?;
                    if let Some(nulls) = &column.nulls {
                        nulls.used_by(stream)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the keys, in word 1 of the control words, where they must be unique.
    pub(super) fn count(
        &self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        control: &mut DeviceBuffer<u64>,
    ) -> Result<(), RunError> {
        // The kernel has counted the keys of a table of keys.
        let counts = self.unique && self.slots.is_none();
        if let (true, Content::Rows { presence, .. }) = (counts, &self.content) {
            let ones = InOut(control.slice_mut(1..2)?);
            CountBits::new(runtime.device())?.launch(stream, In(&**presence), ones)?;
        }
        Ok(())
    }

    /// After `rows` rows with `keys` different keys: refuses keys that are not unique although they must be.
    pub(super) fn check(&mut self, rows: u64, keys: u64) -> Result<(), RunError> {
        self.rows = rows;
        if !self.unique || keys == rows {
            return Ok(());
        }
        Err(RunError::Unsupported(Reason::Limit {
            expression: "a join".into(),
            asked: rows - keys + 1,
            limit: 1,
            unit: "rows of one key",
        }))
    }

    /// Lets others move it.
    pub(super) fn park(&mut self) {
        match &mut self.content {
            Content::Groups(words, _) => words.park(),
            Content::Rows { presence, columns } => {
                presence.park();
                for column in columns {
                    column.values.park();
                    if let Some(nulls) = &mut column.nulls {
                        nulls.park();
                    }
                }
            }
        }
    }

    /// What a launch does to its regions.
    pub(super) fn uses(&mut self, access: Access) -> Vec<Use<'_>> {
        let (presence, columns) = match &mut self.content {
            Content::Groups(words, _) => return vec![words.used(access)],
            Content::Rows { presence, columns } => (presence, columns),
        };
        let mut uses = vec![presence.used(access)];
        for column in columns {
            uses.push(column.values.used(access));
            uses.extend(column.nulls.as_mut().map(|nulls| nulls.used(access)));
        }
        uses
    }
}
