//! The test bed of experiments on a device: columns in device memory, queries checked against the CPU, timed
//! runs.

use std::cell::OnceCell;

use galatea_device::{Device, DeviceBuffer, Function, Geometry, Module, Program, Stream};
use galatea_kernels::headers;
use galatea_layout::SlotMap;

use super::Extent;
use super::data::{self, Column};
use crate::harness::{Clock, arguments};
use crate::result::Summary;
use crate::{BenchError, Result};

const SOURCE: &str = include_str!("kernels.cu");
const ENTRIES: [&str; 15] = [
    "join_sum",
    "group_count",
    "group_sum",
    "sum_naive",
    "sum_replicated",
    "sum_per_thread",
    "sum_warp_aggregated",
    "sum_registers_1",
    "sum_registers_2",
    "sum_registers_4",
    "sum_registers_8",
    "sum_global",
    "merge_replicas",
    "read_codes",
    "read_both",
];
/// Bytes of a row of both columns.
pub(super) const ROW_BYTES: u64 = 12;
/// Number of rows that a thread loads before it uses the first.
pub(super) const STEPS: u64 = 4;
/// The contents of results before a kernel writes them.
const POISON: u8 = 0xa5;

/// The paper's queries (§4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    /// Q1: `SELECT SUM(D.B) FROM F, D WHERE F.A = D.A`.
    Join,
    /// Q2: `SELECT A, COUNT(*) FROM F GROUP BY A`.
    Count,
    /// Q2 with `SUM` of a 64-bit measure, so that increments differ.
    Sum,
}

impl Query {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Join => "Q1",
            Self::Count => "Q2",
            Self::Sum => "Q2 sum",
        }
    }

    fn kernel(self) -> &'static str {
        match self {
            Self::Join => "join_sum",
            Self::Count => "group_count",
            Self::Sum => "group_sum",
        }
    }

    /// Bytes of shared memory per slot.
    pub(super) fn slot_bytes(self) -> u32 {
        match self {
            Self::Join | Self::Count => 4,
            Self::Sum => 8,
        }
    }
}

/// A kernel's arguments except the columns: see `Arguments` in `kernels.cu`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Operands {
    pub(super) table: u64,
    pub(super) scratch: u64,
    pub(super) slots: u64,
    pub(super) copies: u64,
    pub(super) stride: u64,
}

/// The threads of a block, its rows, and its shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) threads: u64,
    pub(super) morsel_rows: u64,
    pub(super) shared_bytes: u64,
}

/// A measured launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launched {
    pub(super) summary: Option<Summary>,
    pub(super) block_threads: u64,
    pub(super) shared_bytes: u64,
    /// Number of concurrent threads of a multiprocessor.
    pub(super) resident_threads: u64,
}

/// A device, the compiled kernels, and the column of measures, which all experiments share.
pub(super) struct Bed {
    pub(super) device: Device,
    pub(super) stream: Stream,
    pub(super) clock: Clock,
    pub(super) extent: Extent,
    module: std::sync::Arc<Module>,
    measures: OnceCell<DeviceBuffer<u64>>,
}

impl Bed {
    pub(super) fn new(device: &Device, extent: &Extent) -> Result<Self> {
        let mut program = Program::new("conflict_experiments", SOURCE).headers(headers());
        program.entries = ENTRIES.map(String::from).to_vec();
        program.options.push(format!("-DSTEPS={STEPS}"));
        let stream = device.stream()?;
        Ok(Self {
            device: device.clone(),
            clock: Clock::new(&stream, extent.runs),
            stream,
            extent: extent.clone(),
            module: device.compile(&program)?.module,
            measures: OnceCell::new(),
        })
    }

    /// A kernel of `kernels.cu`.
    pub(super) fn kernel(&self, name: &str) -> Result<Function> {
        Ok(self.module.function(name)?)
    }

    /// Number of multiprocessors of the device.
    pub(super) fn multiprocessors(&self) -> u64 {
        u64::from(self.device.info().multiprocessors)
    }

    /// The measures of the extent's rows.
    pub(super) fn measures(&self) -> Result<&DeviceBuffer<u64>> {
        if let Some(measures) = self.measures.get() {
            return Ok(measures);
        }
        let measures = data::measures(&self.extent, self.extent.rows);
        let measures = self.device.upload(&self.stream, &measures)?;
        Ok(self.measures.get_or_init(|| measures))
    }

    /// The extent's launch with this shared memory per block.
    pub(super) fn shape(&self, shared_bytes: u64) -> Shape {
        Shape {
            threads: self.extent.threads,
            morsel_rows: self.extent.morsel_rows as u64,
            shared_bytes,
        }
    }

    /// Launches a kernel over the first rows of the columns.
    pub(super) fn launch(
        &self,
        kernel: &Function,
        shape: Shape,
        codes: &DeviceBuffer<u32>,
        result: &DeviceBuffer<u64>,
        operands: Operands,
    ) -> Result<()> {
        let rows = codes.len() as u64;
        let geometry =
            Geometry::covering(rows, shape.morsel_rows, shape.threads).with_shared(shape.shared_bytes);
        let words = [
            codes.address(),
            self.measures()?.address(),
            operands.table,
            operands.scratch,
            result.address(),
            rows,
            shape.morsel_rows,
            operands.slots,
            operands.copies,
            operands.stride,
        ];
        Ok(kernel.launch(&self.stream, geometry, &arguments(&words))?)
    }

    /// Adds up the copies in device memory.
    pub(super) fn launch_merge(
        &self,
        kernel: &Function,
        result: &DeviceBuffer<u64>,
        operands: Operands,
    ) -> Result<()> {
        let geometry = Geometry::covering(operands.slots, 128, 128_u64);
        let Operands {
            table,
            scratch,
            slots,
            copies,
            stride,
        } = operands;
        let words = [
            0,
            0,
            table,
            scratch,
            result.address(),
            0,
            0,
            slots,
            copies,
            stride,
        ];
        Ok(kernel.launch(&self.stream, geometry, &arguments(&words))?)
    }

    /// Runs `work` on a poisoned result, compares the result, and measures the work.
    pub(super) fn checked(
        &self,
        what: &str,
        result: &mut DeviceBuffer<u64>,
        expected: &[u64],
        mut work: impl FnMut(&mut DeviceBuffer<u64>) -> Result<()>,
    ) -> Result<Option<Summary>> {
        self.stream.fill(&mut *result, POISON)?;
        work(result)?;
        let found = self.stream.read(result, ..)?;
        for (value, (expected, found)) in expected.iter().zip(found).enumerate() {
            agrees(what, value, *expected, found)?;
        }
        self.clock.sustained(|| work(result))
    }

    /// Measures a query over a column, original or laid out (`slots` in `codes`, and their map). A block gets
    /// `shared_bytes` of shared memory, or its requirement if that is more.
    pub(super) fn query(
        &self,
        query: Query,
        column: &Column<'_>,
        codes: &DeviceBuffer<u32>,
        map: Option<&SlotMap>,
        shared: u64,
    ) -> Result<Launched> {
        let identity: Vec<u32> = (0..column.values as u32).collect();
        let of_slot = map.map_or(identity.as_slice(), SlotMap::as_slice);
        let (table, expected) = match query {
            Query::Join => {
                let payloads = column.payloads();
                let payloads = match map {
                    Some(map) => map.replicate(&payloads, 0)?,
                    None => payloads,
                };
                (payloads, vec![column.joined()])
            }
            Query::Count => (of_slot.to_vec(), column.counts.clone()),
            Query::Sum => (of_slot.to_vec(), column.sums.clone()),
        };
        let slots = table.len() as u64;
        let shape = self.shape(shared.max(slots * u64::from(query.slot_bytes())));
        let table = self.device.upload(&self.stream, &table)?;
        let operands = Operands {
            table: table.address(),
            slots,
            ..Operands::default()
        };
        let kernel = self.kernel(query.kernel())?;
        let mut result = self.device.zeroed::<u64>(&self.stream, expected.len())?;
        let summary = self.checked(query.name(), &mut result, &expected, |result| {
            self.stream.fill(&mut *result, 0)?;
            self.launch(&kernel, shape, codes, result, operands)
        })?;
        self.launched(&kernel, shape, summary)
    }

    /// The ceiling of a query over a column: a kernel that only reads the same columns.
    pub(super) fn reads(
        &self,
        query: Query,
        column: &Column<'_>,
        codes: &DeviceBuffer<u32>,
    ) -> Result<Launched> {
        let by_code = (0_u64..).zip(&column.counts).map(|(code, count)| code * count);
        let mut expected: u64 = by_code.sum();
        let name = match query {
            Query::Join | Query::Count => "read_codes",
            Query::Sum => {
                expected += column.sums.iter().sum::<u64>();
                "read_both"
            }
        };
        let (kernel, shape) = (self.kernel(name)?, self.shape(0));
        let mut result = self.device.zeroed::<u64>(&self.stream, 1)?;
        let summary = self.checked(name, &mut result, &[expected], |result| {
            self.stream.fill(&mut *result, 0)?;
            self.launch(&kernel, shape, codes, result, Operands::default())
        })?;
        self.launched(&kernel, shape, summary)
    }

    /// The geometry and time of a launch.
    pub(super) fn launched(
        &self,
        kernel: &Function,
        shape: Shape,
        summary: Option<Summary>,
    ) -> Result<Launched> {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let blocks = kernel.occupancy(number(shape.threads), number(shape.shared_bytes))?;
        Ok(Launched {
            summary,
            block_threads: shape.threads,
            shared_bytes: shape.shared_bytes,
            resident_threads: u64::from(blocks) * shape.threads,
        })
    }
}

/// Compares a kernel's result with the CPU's.
pub(super) fn agrees(what: &str, value: usize, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(BenchError::WrongResult {
        what: what.to_string(),
        value,
        expected,
        found,
    })
}
