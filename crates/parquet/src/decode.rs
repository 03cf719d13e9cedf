//! Decoding column chunks: the launches, and what they return.

use galatea_device::{Device, DeviceBuffer, Stream};
use galatea_kernels::{
    ParquetBounds, ParquetDecode, ParquetDecompress, ParquetDelta, ParquetDivisor, ParquetFailure,
    ParquetFixed, ParquetForm, ParquetHybrid, ParquetLevels, ParquetOrder, ParquetPack, ParquetPageState,
    ParquetRowKind, ParquetRows, ParquetRowsOutput, ParquetSlots, ParquetStep, ParquetStrings,
};

use crate::batch::{Batch, Stored};
use crate::error::{Problem, Result};
use crate::input::Input;
use crate::lane::Lane;
use crate::shape::{ColumnShape, ValueKind};
use crate::strings::{DecodedStrings, StringCopier};
use crate::tasks::{Kernel, Tasks};

/// Bounds of the values of a column that are neither NULL nor NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// The least and the greatest integer; 0 and 1 for booleans.
    Integers(i128, i128),
    /// The least and the greatest float in total order.
    Floats(f64, f64),
}

/// The values of a column by row.
#[derive(Debug)]
pub enum DecodedValues {
    /// Values of a fixed size; 0 for NULL rows.
    Fixed {
        /// Type of the values.
        form: ParquetForm,
        /// The values, [`ParquetForm::width`] bytes each.
        values: DeviceBuffer<u8>,
        /// Their bounds; none if there are none.
        bounds: Option<Bounds>,
        /// Number of NaN.
        nans: u64,
    },
    /// Indices of a dictionary; 0 for NULL rows.
    Indices {
        /// The indices, 4 bytes each.
        indices: DeviceBuffer<u8>,
        /// The dictionaries of all column chunks, one after the other. A string may be in several of them.
        dictionary: DecodedStrings,
        /// Number of strings in the dictionary.
        dictionary_values: usize,
    },
    /// Strings.
    Strings(DecodedStrings),
}

/// A column of the rows of some row groups, on the device.
#[derive(Debug)]
pub struct DecodedColumn {
    /// Number of rows.
    pub rows: usize,
    /// Number of NULL rows.
    pub null_count: u64,
    /// One bit per row in words of 32, 1: not NULL; none if no row is NULL.
    pub validity: Option<DeviceBuffer<u32>>,
    /// The values.
    pub values: DecodedValues,
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
    rows: ParquetRows,
    pub(crate) divisor: ParquetDivisor,
    pub(crate) pack: ParquetPack,
    copier: StringCopier,
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

    /// Decodes the column chunks of one column, in the order of their rows. The lane may still be working
    /// when the function returns. Does not wait for the thread pool of the caller.
    ///
    /// # Errors
    /// [`crate::ParquetError::Damaged`] for bytes that violate the format;
    /// [`crate::ParquetError::Unsupported`] for pages that the device does not decode; the device's, among
    /// them too little memory.
    pub fn decode(&self, lane: &mut Lane, input: Input<'_>) -> Result<DecodedColumn> {
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
        let nulls = self.decode_pages(lane, shape, &mut batch, &mut slots)?;
        let column = self.distribute(lane.stream(), shape, &batch, &slots, nulls)?;
        check_limits(shape, &batch, &column)?;
        Ok(column)
    }

    /// Decodes all pages to slots. Returns the number of NULL rows.
    fn decode_pages(
        &self,
        lane: &mut Lane,
        shape: &ColumnShape,
        batch: &mut Batch<'_>,
        slots: &mut ParquetSlots,
    ) -> Result<u64> {
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
        let mut nulls = 0;
        for (number, ((_, page), state)) in batch.pages[..batch.data_pages].iter().zip(&states).enumerate() {
            let of_page = page.rows - state.values;
            if let Some(expected) = page.nulls.filter(|expected| *expected != of_page) {
                let problem = Problem::Differs {
                    name: "NULLs of a page",
                    number: of_page.into(),
                    expected: expected.into(),
                };
                return Err(batch.damaged(number, 0, problem));
            }
            nulls += u64::from(of_page);
        }
        Ok(nulls)
    }

    /// Distributes values from slots to rows.
    fn distribute(
        &self,
        stream: &Stream,
        shape: &ColumnShape,
        batch: &Batch<'_>,
        slots: &ParquetSlots,
        null_count: u64,
    ) -> Result<DecodedColumn> {
        let rows = batch.rows;
        let alloc = |bytes: usize| self.device.alloc::<u8>(stream, bytes);
        let (kind, order, width) = match shape.kind {
            ValueKind::Fixed { form, order } => {
                (ParquetRowKind::Values(form.width() as u32), order, form.width())
            }
            ValueKind::Strings { .. } if batch.only_indices() && rows > 0 => {
                (ParquetRowKind::Indices, ParquetOrder::Unordered, size_of::<u32>())
            }
            ValueKind::Strings { .. } => (ParquetRowKind::Strings, ParquetOrder::Unordered, 0),
        };
        let located = if kind == ParquetRowKind::Strings { rows } else { 0 };
        let mut values = alloc(rows * width)?.assume_written();
        let mut starts = self.device.alloc::<u64>(stream, located)?.assume_written();
        let mut lengths = self.device.alloc::<u32>(stream, located)?.assume_written();
        let mut validity = match null_count {
            0 => None,
            _ => Some(
                self.device
                    .alloc::<u32>(stream, rows.div_ceil(32))?
                    .assume_written(),
            ),
        };
        let mut found = Vec::new();
        if rows > 0 {
            let mut bounds = self
                .device
                .alloc::<ParquetBounds>(stream, self.rows.bounds(rows))?
                .assume_written();
            let output = ParquetRowsOutput {
                values: &mut values,
                starts: &mut starts,
                lengths: &mut lengths,
                validity: validity.as_mut(),
                bounds: &mut bounds,
            };
            self.rows
                .launch(stream, slots, (batch.data_pages, rows), (kind, order), output)?;
            if order != ParquetOrder::Unordered {
                found = stream.read(&bounds, ..)?;
            }
        }
        let copied = |starts, lengths| {
            let utf8 = shape.kind == ValueKind::Strings { utf8: true };
            let (strings, invalid) =
                self.copier
                    .copy(&self.device, stream, slots, (starts, lengths), utf8)?;
            match invalid {
                None => Ok(strings),
                Some(string) => Err(batch.chunks[0].damaged(None, 0, Problem::NotUtf8 { string })),
            }
        };
        let values = match (kind, shape.kind) {
            (ParquetRowKind::Indices, _) => DecodedValues::Indices {
                indices: values,
                dictionary: copied(slots.starts.slice(rows..)?, slots.lengths.slice(rows..)?)?,
                dictionary_values: batch.dictionary_values,
            },
            (_, ValueKind::Fixed { form, order }) => DecodedValues::Fixed {
                form,
                values,
                bounds: merged(&found, order),
                nans: found.iter().map(|bounds| bounds.nans).sum(),
            },
            _ => DecodedValues::Strings(copied(starts.as_slice(), lengths.as_slice())?),
        };
        Ok(DecodedColumn {
            rows,
            null_count,
            validity,
            values,
        })
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

/// The bounds of all blocks.
fn merged(found: &[ParquetBounds], order: ParquetOrder) -> Option<Bounds> {
    let key = |words: [u64; 2]| u128::from(words[0]) | u128::from(words[1]) << 64;
    let number = |key: u128| (key ^ 1 << 127) as i128;
    let least = found.iter().map(|bounds| key(bounds.least)).min()?;
    let greatest = found.iter().map(|bounds| key(bounds.greatest)).max()?;
    if least > greatest {
        return None;
    }
    let (least, greatest) = (number(least), number(greatest));
    let float = |number: i128| {
        let number = number as i32;
        f64::from(f32::from_bits(
            (if number < 0 { number ^ i32::MAX } else { number }) as u32,
        ))
    };
    let double = |number: i128| {
        let number = number as i64;
        f64::from_bits((if number < 0 { number ^ i64::MAX } else { number }) as u64)
    };
    Some(match order {
        ParquetOrder::Float32 => Bounds::Floats(float(least), float(greatest)),
        ParquetOrder::Float64 => Bounds::Floats(double(least), double(greatest)),
        _ => Bounds::Integers(least, greatest),
    })
}

/// Checks that integers of a narrow type are within its limits.
fn check_limits(shape: &ColumnShape, batch: &Batch<'_>, column: &DecodedColumn) -> Result<()> {
    let (Some((least, greatest)), DecodedValues::Fixed { bounds, .. }) = (shape.limits, &column.values)
    else {
        return Ok(());
    };
    let Some(Bounds::Integers(low, high)) = *bounds else {
        return Ok(());
    };
    let out = [low, high]
        .into_iter()
        .find(|number| *number < least.into() || *number > greatest.into());
    out.map_or(Ok(()), |number| {
        let problem = Problem::OutOfRange {
            name: "integer",
            number: number as i64,
            least,
            greatest,
        };
        Err(batch.chunks[0].damaged(None, 0, problem))
    })
}
