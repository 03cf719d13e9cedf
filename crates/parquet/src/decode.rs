//! Decoding the pages of column chunks: the launches.

use galatea_device::Device;
use galatea_kernels::{
    ParquetDecode, ParquetDecompress, ParquetDelta, ParquetDivisor, ParquetFailure, ParquetFixed,
    ParquetForm, ParquetHybrid, ParquetLevels, ParquetPack, ParquetPageState, ParquetRows, ParquetSlots,
    ParquetStep, ParquetStrings,
};

use crate::batch::{Batch, Stored};
use crate::error::{Problem, Result};
use crate::input::Input;
use crate::lane::Lane;
use crate::shape::{ColumnShape, ValueKind};
use crate::strings::StringCopier;
use crate::tasks::{Kernel, Tasks};

/// The pages of column chunks, decoded to slots. [`Decoder::rows`] distributes them to rows.
#[derive(Debug)]
pub struct DecodedPages<'c> {
    pub(crate) shape: &'c ColumnShape,
    pub(crate) batch: Batch<'c>,
    pub(crate) slots: ParquetSlots,
    /// NULL rows of each data page.
    pub(crate) nulls: Vec<u32>,
}

/// The kernels, loaded.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) device: Device,
    decompress: ParquetDecompress,
    levels: ParquetLevels,
    hybrid: ParquetHybrid,
    fixed: ParquetFixed,
    delta: ParquetDelta,
    strings: ParquetStrings,
    pub(crate) rows: ParquetRows,
    pub(crate) divisor: ParquetDivisor,
    pub(crate) pack: ParquetPack,
    pub(crate) copier: StringCopier,
}

impl Decoder {
    /// Compiles or finds the kernels.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            decompress: ParquetDecompress::new(device)?,
            levels: ParquetLevels::new(device)?,
            hybrid: ParquetHybrid::new(device)?,
            fixed: ParquetFixed::new(device)?,
            delta: ParquetDelta::new(device)?,
            strings: ParquetStrings::new(device)?,
            rows: ParquetRows::new(device)?,
            divisor: ParquetDivisor::new(device)?,
            pack: ParquetPack::new(device)?,
            copier: StringCopier::new(device)?,
        })
    }

    /// Decodes the pages of column chunks of one column. A page is decompressed by a warp, so that thousands
    /// of pages occupy the device.
    ///
    /// # Errors
    /// [`crate::ParquetError::Damaged`] for bytes that violate the format;
    /// [`crate::ParquetError::Unsupported`] for pages that the device does not decode; the device's, among
    /// them too little memory.
    pub fn decode_pages<'c>(&self, lane: &mut Lane, input: Input<'c>) -> Result<DecodedPages<'c>> {
        let Input {
            shape,
            chunks,
            routes,
            read,
        } = input;
        let (batch, bodies) = read.unzip();
        let stored = Stored::upload(lane, chunks, &routes, &bodies.unwrap_or_default())?;
        let mut batch = match batch {
            Some(batch) => batch,
            // The copies are running meanwhile.
            None => Batch::new(chunks, shape)?,
        };
        let mut slots = batch.place(lane, shape, stored)?;
        let nulls = self.fill(lane, shape, &mut batch, &mut slots)?;
        Ok(DecodedPages {
            shape,
            batch,
            slots,
            nulls,
        })
    }

    /// Decodes all pages to slots. Returns the number of NULL rows of each data page.
    fn fill(
        &self,
        lane: &mut Lane,
        shape: &ColumnShape,
        batch: &mut Batch<'_>,
        slots: &mut ParquetSlots,
    ) -> Result<Vec<u32>> {
        let tasks = Tasks::new(batch, shape);
        let on_device = lane.upload(&tasks.all)?;
        let stream = lane.stream().clone();
        let stream = &stream;
        let step = ParquetStep {
            form: match shape.kind {
                ValueKind::Fixed { form, .. } => form,
                ValueKind::Strings { .. } => ParquetForm::Signed32,
            },
            value_bytes: shape.value_bytes,
            unit: shape.unit,
            phase: 0,
        };
        let launch = |kernel: &dyn ParquetDecode, of: Kernel, phase, slots: &mut ParquetSlots| {
            let tasks = on_device.slice(tasks.range(of))?;
            kernel.launch(stream, slots, tasks, &ParquetStep { phase, ..step })
        };
        launch(&self.decompress, Kernel::Decompress, 0, slots)?;
        launch(&self.levels, Kernel::Levels, 0, slots)?;
        launch(&self.fixed, Kernel::Fixed, 0, slots)?;
        launch(&self.delta, Kernel::Delta, 0, slots)?;
        launch(&self.hybrid, Kernel::Hybrid, 0, slots)?;
        launch(&self.strings, Kernel::Strings, 0, slots)?;
        let states = stream.read(&slots.states, ..)?;
        check_states(batch, &states)?;
        let joined = tasks.range(Kernel::Joined);
        if !joined.is_empty() {
            let mut bytes = 0;
            for task in &tasks.all[joined] {
                let page = (task >> 32) as usize;
                batch.table[page].heap = bytes;
                bytes += states[page].heap_bytes;
            }
            let padded = bytes as usize + galatea_kernels::PARQUET_PADDING;
            slots.heap = self.device.alloc(stream, padded)?.assume_written();
            slots.pages = lane.upload(&batch.table)?;
            launch(&self.strings, Kernel::Joined, 1, slots)?;
        }
        if !tasks.range(Kernel::Converted).is_empty() {
            launch(&self.fixed, Kernel::Converted, 1, slots)?;
            check_states(batch, &stream.read(&slots.states, ..)?)?;
        }
        let data_pages = batch.pages[..batch.data_pages].iter().zip(&states).enumerate();
        data_pages
            .map(|(number, ((_, page), state))| {
                let nulls = page.rows - state.values;
                match page.nulls {
                    Some(expected) if expected != nulls => {
                        let problem = Problem::Differs {
                            name: "NULLs of a page",
                            number: nulls.into(),
                            expected: expected.into(),
                        };
                        Err(batch.damaged(number, 0, problem))
                    }
                    _ => Ok(nulls),
                }
            })
            .collect()
    }
}

/// The error of the first page that is not intact.
fn check_states(batch: &Batch<'_>, states: &[ParquetPageState]) -> Result<()> {
    for (number, state) in states.iter().enumerate() {
        if let Some(failure) = ParquetFailure::of(state.failure) {
            let problem = Problem::Value {
                failure,
                number: state.number,
                limit: state.limit,
            };
            return Err(batch.damaged(number, state.at.into(), problem));
        }
    }
    Ok(())
}
