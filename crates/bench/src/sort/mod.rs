//! Sorting on the device: keys with row numbers, and the first 100 of the same number of rows, compared with
//! one read of the keys; and `ORDER BY` compared with DataFusion's CPU operators.
//!
//! Keys are uniform over all bits, and generated again on the device before each run, because a sort
//! overwrites them. Every shape is first checked at its full size: rows must ascend by key and then by row
//! number. Only a stable sort of all rows has this order. Before that run, the memory of the result is filled
//! with ones. Times of keys are device times, by events, including the copy of digit counts to the host.
//! Times of queries are from the SQL text to the last row.

mod queries;
mod report;

pub use report::{Row, SortReport};

use galatea_device::{Device, DeviceBuffer, In, Out, Stream};
use galatea_kernels::{FillPattern, KeyWidth, ReadBandwidth, pattern};
use galatea_memory::regions::MemoryManager;
use galatea_memory::{KeyWord, RadixSort, SortedRows};
use rayon::prelude::*;

use crate::harness::{Clock, WARMUPS};
use crate::machine::Machine;
use crate::result::Summary;
use crate::{BenchError, Result};

/// Maximum number of bytes for measuring the read rate, which is the ceiling.
const READ_BYTES: u64 = 4 << 30;

/// Number of row numbers that are checked at a time.
const CHECKED: usize = 16 << 20;

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of keys to sort.
    pub rows: Vec<u64>,
    /// Numbers of rows of the tables that queries sort.
    pub table_rows: Vec<u64>,
    /// Number of measured runs.
    pub runs: usize,
    /// Settings of the sessions that use the device, by full name.
    pub settings: Vec<(String, String)>,
    /// The machine to record.
    pub machine: Machine,
}

/// Runs a plan. `done` is called after each shape.
///
/// # Errors
/// [`BenchError::WrongResult`] and [`BenchError::Differs`] for a wrong order; the device's, in particular out
/// of memory; DataFusion's.
pub async fn run(device: &Device, plan: &Plan, mut done: impl FnMut(&str)) -> Result<SortReport> {
    let mut report = SortReport::new(plan.machine.clone());
    for rows in &plan.rows {
        let mut ceiling = None;
        for width in KeyWidth::ALL {
            let row = Keys::new(device, width, *rows)?.measure(plan)?;
            done(&row.what);
            ceiling = row.ceiling;
            report.rows.push(row);
        }
        let first = queries::first(plan, *rows, ceiling, &mut done).await?;
        report.rows.extend(first);
    }
    for rows in &plan.table_rows {
        report
            .rows
            .extend(queries::measure(plan, *rows, &mut done).await?);
    }
    Ok(report)
}

/// The keys of one shape.
struct Keys<'a> {
    device: &'a Device,
    stream: Stream,
    manager: MemoryManager,
    fill: FillPattern,
    width: KeyWidth,
    rows: usize,
}

/// Key `row` of a seed: a part of word `row` of the pattern, or of half of it.
fn key(width: KeyWidth, seed: u64, row: u64) -> u64 {
    match width {
        KeyWidth::Four => pattern(seed, row / 2) >> (32 * (row % 2)) & u64::from(u32::MAX),
        KeyWidth::Eight => pattern(seed, row),
    }
}

impl<'a> Keys<'a> {
    fn new(device: &'a Device, width: KeyWidth, rows: u64) -> Result<Self> {
        Ok(Self {
            device,
            stream: device.stream()?,
            manager: MemoryManager::new(device)?,
            fill: FillPattern::new(device)?,
            width,
            rows: rows as usize,
        })
    }

    fn measure(&self, plan: &Plan) -> Result<Row> {
        let words = (self.rows * self.width.bytes()).div_ceil(8);
        let mut pattern = self.device.alloc::<u64>(&self.stream, words)?.assume_written();
        let mut keys = self.device.alloc::<u8>(&self.stream, 8 * words)?.assume_written();
        let clock = Clock::new(&self.stream, plan.runs);
        let ceiling = self.read_rate(&clock)?;
        let (mut seconds, mut passes) = (Vec::new(), 0);
        for run in 0..WARMUPS + plan.runs {
            let seed = 0x5eed + run as u64;
            self.fill.launch(&self.stream, Out(&mut pattern), seed)?;
            self.stream.copy(&mut keys, pattern.as_slice().into_bytes())?;
            if run == 0 {
                self.poison()?;
            }
            let mut sorted = None;
            let time = clock.time(|| {
                sorted = Some(self.sort(&mut keys)?);
                Ok(())
            })?;
            if run >= WARMUPS {
                seconds.push(time);
            }
            if let (0, Some(sorted)) = (run, &sorted) {
                passes = sorted.passes;
                self.check(sorted, seed)?;
            }
        }
        let mut row = Row::new(
            format!("keys of {} bits", 8 * self.width.bytes()),
            self.rows as u64,
            plan,
        );
        row.engine = "galatea".to_string();
        row.passes = passes;
        row.bytes = self.bytes(passes.into());
        row.set(Summary::of(seconds), ceiling);
        Ok(row)
    }

    /// The bytes that a sort with `passes` passes reads and writes: every key for the histograms, and in each
    /// pass every key and row number, read and written. The first pass reads no row numbers, and the last
    /// writes no keys.
    fn bytes(&self, passes: u64) -> u64 {
        let (rows, width) = (self.rows as u64, self.width.bytes() as u64);
        match passes {
            0 => rows * width,
            passes => rows * (width + passes * 2 * (width + 4) - 4 - width),
        }
    }

    fn sort(&self, keys: &mut DeviceBuffer<u8>) -> Result<SortedRows> {
        let words = &mut [KeyWord {
            width: self.width,
            values: keys,
        }];
        Ok(RadixSort::new(&self.manager).sort(&self.stream, words, self.rows)?)
    }

    /// Fills memory of the size of the result with ones and frees it, so that entries which the sort does not
    /// write are detected.
    fn poison(&self) -> Result<()> {
        let mut ids = self
            .device
            .alloc::<u32>(&self.stream, self.rows)?
            .assume_written();
        Ok(self.stream.fill(&mut ids, 0xff)?)
    }

    /// Bytes per second of reading device memory.
    fn read_rate(&self, clock: &Clock) -> Result<Option<f64>> {
        let bytes = (self.rows * self.width.bytes()) as u64;
        let read = ReadBandwidth::new(self.device)?;
        let values = self
            .device
            .zeroed::<u64>(&self.stream, (bytes.min(READ_BYTES) / 16 * 2) as usize)?;
        let mut sums = self.device.zeroed::<u64>(&self.stream, read.blocks())?;
        let time = clock.sustained(|| Ok(read.launch(&self.stream, In(&values), Out(&mut sums))?))?;
        Ok(time.map(|time| values.bytes() as f64 / time.median))
    }

    /// Whether rows ascend by key and then by number.
    fn check(&self, sorted: &SortedRows, seed: u64) -> Result<()> {
        let Some(ids) = &sorted.ids else {
            return Ok(());
        };
        let place = |id: &u32| (key(self.width, seed, (*id).into()), *id);
        let mut last = None;
        for start in (0..self.rows).step_by(CHECKED) {
            let part = self.stream.read(ids, start..(start + CHECKED).min(self.rows))?;
            let before = |at: usize| match at {
                0 => last,
                at => Some(place(&part[at - 1])),
            };
            let wrong = (0..part.len()).into_par_iter().find_first(|at| {
                part[*at] as usize >= self.rows
                    || before(*at).is_some_and(|before| before >= place(&part[*at]))
            });
            if let Some(at) = wrong {
                return Err(BenchError::WrongResult {
                    what: format!(
                        "row that follows row {:?} in the order of {} rows",
                        before(at),
                        self.rows
                    ),
                    value: start + at,
                    expected: self.rows as u64,
                    found: part[at].into(),
                });
            }
            last = part.last().map(place);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
