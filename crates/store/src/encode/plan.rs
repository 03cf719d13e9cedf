//! The encoding decision for a whole column, and its layout in host memory.

use std::sync::Arc;

use arrow::array::ArrayRef;
use galatea_device::{HostMemory, HostView};
use rayon::prelude::*;

use super::chunk::{LocalChunk, LocalValues};
use super::codes::Codes;
use super::dictionary::LocalDictionary;
use super::encoder::ColumnEncoder;
use super::fixed::{float_zone, integer_zone};
use super::integer::{Frame, LocalIntegers};
use super::kind::Kind;
use super::merge::{Merged, merge, rank_zone};
use super::slabs::{Cutter, Layout, Place, Sizes, Targets};
use super::slots::SlotChunks;
use super::string::{Offsets, string_zone};
use crate::column::{Chunk, ChunkData, Column, Encoding, Width, Zone};
use crate::error::{Result, StoreError};
use crate::layout::SlotLayout;
use crate::ledger::Ledger;
use crate::packed::{Directory, LocalPacked, PackedCodes, Packing};
use crate::pool::Cancellation;

/// The encoding decision for a column.
#[derive(Debug)]
enum Decision {
    Boolean,
    Integer(Frame),
    Float32,
    Float64,
    Decimal,
    Dictionary(Merged),
    Slots(SlotChunks),
    Text { utf8: bool, offset_width: Width },
}

/// A column with a chosen encoding and a computed size, not yet written.
#[derive(Debug)]
pub(crate) struct Plan {
    encoder: ColumnEncoder,
    decision: Decision,
    chunks: Vec<LocalChunk>,
    /// The packing of each chunk's codes; none for chunks that are not packed.
    packed: Vec<Option<Directory>>,
    layout: Layout,
}

impl ColumnEncoder {
    /// Decides the encoding of a column of these chunks.
    pub(crate) fn plan(&self, mut chunks: Vec<LocalChunk>) -> Result<Plan> {
        let decision = match self.kind {
            Kind::Boolean => Decision::Boolean,
            Kind::Float32 => Decision::Float32,
            Kind::Float64 => Decision::Float64,
            Kind::Decimal
                if chunks
                    .iter()
                    .any(|chunk| matches!(chunk.values, LocalValues::Decimal(_))) =>
            {
                Decision::Decimal
            }
            Kind::Null | Kind::Integer | Kind::Decimal => {
                let integers = chunks.iter().filter_map(|chunk| match &chunk.values {
                    LocalValues::Integer(integers) => Some(integers),
                    _ => None,
                });
                Decision::Integer(Frame::for_chunks(integers))
            }
            Kind::Text { utf8 } => match self.merge(&chunks, utf8)? {
                Some(merged) => Decision::Dictionary(merged),
                None => {
                    chunks.par_iter_mut().for_each(LocalChunk::compute_string);
                    let wide = chunks.iter().any(LocalChunk::needs_wide_offsets);
                    let offset_width = if wide { Width::Eight } else { Width::Four };
                    Decision::Text { utf8, offset_width }
                }
            },
        };
        Ok(self.planned(decision, chunks))
    }

    /// The plan that stores these chunks by this decision.
    fn planned(&self, decision: Decision, chunks: Vec<LocalChunk>) -> Plan {
        let packed: Vec<_> = chunks
            .par_iter()
            .enumerate()
            .map(|(index, chunk)| decision.directory(index, chunk, self.packing))
            .collect();
        let sizes = chunks.iter().zip(&packed);
        let layout = Layout::new(sizes.map(|(chunk, packed)| decision.sizes(chunk, packed.as_ref())));
        Plan {
            encoder: self.clone(),
            decision,
            chunks,
            packed,
            layout,
        }
    }

    /// Plans to store a column as the slots of its rows.
    pub(crate) fn plan_slots(&self, column: &Column, layout: SlotLayout, slots: Vec<u32>) -> Plan {
        let chunks = LocalChunk::of_slots(column, slots);
        self.planned(Decision::Slots(SlotChunks::new(layout)), chunks)
    }

    /// Plans to store more chunks after the first `kept` of a column, in its existing encoding. If that
    /// encoding cannot hold them, they are returned. If the column has more chunks than `kept`, their rows
    /// are the first rows of the first new chunk.
    pub(crate) fn plan_like(
        &self,
        column: &Column,
        kept: usize,
        mut chunks: Vec<LocalChunk>,
    ) -> Result<Plan, Vec<LocalChunk>> {
        let integers = |chunk: &LocalChunk, accepts: &dyn Fn(&LocalIntegers) -> bool| match &chunk.values {
            LocalValues::Integer(integers) => accepts(integers),
            _ => false,
        };
        let decision = match &column.encoding {
            Encoding::Boolean => Some(Decision::Boolean),
            Encoding::Float32 => Some(Decision::Float32),
            Encoding::Float64 => Some(Decision::Float64),
            Encoding::Decimal128 => Some(Decision::Decimal),
            Encoding::Integer { width, factor } => {
                let frame = Frame {
                    width: *width,
                    factor: *factor,
                };
                let fits = chunks
                    .iter()
                    .all(|chunk| integers(chunk, &|integers| frame.accepts(integers)));
                fits.then_some(Decision::Integer(frame))
            }
            Encoding::Dictionary { width, values } => {
                let ranks = chunks.iter().map(|chunk| match &chunk.values {
                    LocalValues::Dictionary(dictionary) => dictionary.ranks_in(values),
                    _ => None,
                });
                let ranks = ranks.collect::<Option<Vec<_>>>();
                let values = ArrayRef::clone(values);
                ranks.map(|ranks| {
                    Decision::Dictionary(Merged {
                        values,
                        width: *width,
                        ranks,
                    })
                })
            }
            Encoding::Slots { layout, .. } => {
                SlotChunks::after(layout, &column.chunks[kept..], &chunks).map(Decision::Slots)
            }
            Encoding::Text { offset_width } => {
                chunks.par_iter_mut().for_each(LocalChunk::compute_string);
                let fits =
                    *offset_width == Width::Eight || !chunks.iter().any(LocalChunk::needs_wide_offsets);
                let utf8 = self.kind == Kind::Text { utf8: true };
                fits.then_some(Decision::Text {
                    utf8,
                    offset_width: *offset_width,
                })
            }
        };
        match decision {
            Some(decision) => Ok(self.planned(decision, chunks)),
            None => Err(chunks),
        }
    }

    fn merge(&self, chunks: &[LocalChunk], utf8: bool) -> Result<Option<Merged>> {
        let dictionaries = chunks.iter().map(|chunk| match &chunk.values {
            LocalValues::Dictionary(dictionary) => Some(dictionary),
            _ => None,
        });
        let Some(dictionaries) = dictionaries.collect::<Option<Vec<&LocalDictionary>>>() else {
            return Ok(None);
        };
        let rows = chunks
            .iter()
            .map(|chunk| u64::from(chunk.rows - chunk.null_count))
            .sum();
        merge(&dictionaries, utf8, rows, self.dictionary)
    }
}

impl Plan {
    /// Bytes of host memory that writing will allocate.
    pub(crate) fn bytes(&self) -> u64 {
        self.layout.slabs.iter().map(|bytes| *bytes as u64).sum()
    }

    /// Writes the column into memory from `allocate`, with all of rayon's threads. `cancellation` stops it.
    pub(crate) fn write(
        self,
        ledger: &Ledger,
        cancellation: &Cancellation,
        allocate: impl Fn(usize) -> Result<HostMemory>,
    ) -> Result<Column> {
        let Self {
            encoder,
            decision,
            chunks,
            packed,
            layout,
        } = self;
        let mut slabs = layout
            .slabs
            .iter()
            .map(|bytes| allocate(*bytes))
            .collect::<Result<Vec<_>>>()?;
        let mut cutter = Cutter::new(&mut slabs);
        let targets: Vec<Targets<'_>> = layout
            .places
            .iter()
            .map(|places| cutter.targets(places))
            .collect();
        let written = chunks
            .into_par_iter()
            .zip(targets)
            .zip(&packed)
            .enumerate()
            .map(|(index, ((chunk, targets), packed))| {
                cancellation.check()?;
                decision.write(index, chunk, packed.as_ref(), targets)
            })
            .collect::<Result<Vec<_>>>()?;
        let slabs: Vec<Arc<HostMemory>> = slabs.into_iter().map(Arc::new).collect();
        for (slab, bytes) in slabs.iter().zip(&layout.slabs) {
            ledger.track_slab(slab, *bytes as u64);
        }
        let view = |(slab, range): &Place| {
            HostView::new(Arc::clone(&slabs[*slab]), range.start, range.len())
                .map_err(|error| StoreError::Internal(error.to_string()))
        };
        let width = decision.code_width();
        let chunks = written
            .into_iter()
            .zip(&layout.places)
            .zip(&packed)
            .map(|((written, places), packed)| {
                let data = view(&places.data)?;
                Ok(Chunk {
                    identity: Arc::default(),
                    rows: written.rows,
                    base: written.base,
                    data: match packed {
                        Some(_) => ChunkData::Packed(PackedCodes::new(data, written.rows, width)),
                        None => ChunkData::Plain(data),
                    },
                    offsets: places.offsets.as_ref().map(view).transpose()?,
                    validity: places.validity.as_ref().map(view).transpose()?,
                    zone: written.zone,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let encoding = decision.encoding();
        let lineage = Arc::default();
        let column = Column::of_chunks(encoder.name, encoder.data_type, encoding, lineage, chunks);
        if let Some(values) = column.dictionary() {
            ledger.track_dictionary(values);
        }
        if let Some(layout) = column.layout() {
            ledger.track_layout(layout);
        }
        Ok(column)
    }
}

/// Properties of a chunk that are computed while it is written.
struct Written {
    rows: u32,
    base: i64,
    zone: Zone,
}

impl Decision {
    fn encoding(self) -> Encoding {
        match self {
            Self::Boolean => Encoding::Boolean,
            Self::Integer(frame) => Encoding::Integer {
                width: frame.width,
                factor: frame.factor,
            },
            Self::Float32 => Encoding::Float32,
            Self::Float64 => Encoding::Float64,
            Self::Decimal => Encoding::Decimal128,
            Self::Dictionary(merged) => Encoding::Dictionary {
                width: merged.width,
                values: merged.values,
            },
            Self::Slots(slots) => slots.encoding(),
            Self::Text { offset_width, .. } => Encoding::Text { offset_width },
        }
    }

    /// Width of codes that may be packed; zero for other values.
    fn code_width(&self) -> Width {
        match self {
            Self::Integer(frame) => frame.width,
            Self::Dictionary(merged) => merged.width,
            _ => Width::Zero,
        }
    }

    /// Calls `visit` with the codes of a chunk in blocks, until it returns false. Returns whether it always
    /// returned true; false for values without codes that may be packed.
    fn for_each_block(&self, index: usize, values: &LocalValues, visit: impl FnMut(&[u64]) -> bool) -> bool {
        match (self, values) {
            (Self::Integer(frame), LocalValues::Integer(integers)) => {
                frame.map(integers).for_each_block(&integers.codes, visit)
            }
            (Self::Dictionary(merged), LocalValues::Dictionary(dictionary)) => {
                let Some(ranks) = merged.ranks.get(index) else {
                    return false;
                };
                let rank = |code| u64::from(ranks[code as usize]);
                dictionary.codes.for_each_block(rank, visit)
            }
            _ => false,
        }
    }

    /// The codes of a chunk that are already packed as the column stores them.
    fn packed<'v>(&self, values: &'v LocalValues) -> Option<&'v LocalPacked> {
        match (self, values) {
            (Self::Integer(frame), LocalValues::Integer(integers)) => match &integers.codes {
                Codes::Packed(codes) => frame.map(integers).is_same().then_some(codes),
                _ => None,
            },
            _ => None,
        }
    }

    /// The packing of the codes of a chunk; none if they are not packed.
    fn directory(&self, index: usize, chunk: &LocalChunk, packing: Packing) -> Option<Directory> {
        let rows = chunk.rows as usize;
        let plain = rows * self.code_width().bytes();
        if plain == 0 || packing == Packing::Off {
            return None;
        }
        if let Some(codes) = self.packed(&chunk.values) {
            let directory = codes.directory();
            return directory.pays(packing, plain).then(|| directory.clone());
        }
        let mut directory = Directory::new(rows);
        let near = self.for_each_block(index, &chunk.values, |codes| directory.add(codes));
        (near && directory.pays(packing, plain)).then_some(directory)
    }

    /// Writes the codes of a chunk: packed, or in the column's width by `plain`.
    fn write_codes(
        &self,
        index: usize,
        values: &LocalValues,
        packed: Option<&Directory>,
        target: &mut [u8],
        plain: impl FnOnce(&mut [u8]),
    ) {
        let Some(directory) = packed else {
            plain(target);
            return;
        };
        if let Some(codes) = self.packed(values) {
            codes.write(target);
            return;
        }
        let mut packer = directory.packer(target);
        self.for_each_block(index, values, |codes| {
            packer.write(codes);
            true
        });
        packer.finish();
    }

    fn sizes(&self, chunk: &LocalChunk, packed: Option<&Directory>) -> Sizes {
        let rows = chunk.rows as usize;
        let (data, offsets) = match self {
            Self::Boolean => (rows, None),
            Self::Integer(frame) => (rows * frame.width.bytes(), None),
            Self::Float32 => (rows * 4, None),
            Self::Float64 => (rows * 8, None),
            Self::Decimal => (rows * 16, None),
            Self::Dictionary(merged) => (rows * merged.width.bytes(), None),
            Self::Slots(slots) => (rows * slots.width().bytes(), None),
            Self::Text { offset_width, .. } => {
                let bytes = match &chunk.values {
                    LocalValues::Text(text) => text.values.bytes.len(),
                    _ => 0,
                };
                (bytes, Some((rows + 1) * offset_width.bytes()))
            }
        };
        Sizes {
            data: packed.map_or(data, Directory::bytes),
            offsets,
            validity: chunk.validity.as_ref().map(Vec::len),
        }
    }

    fn write(
        &self,
        index: usize,
        chunk: LocalChunk,
        packed: Option<&Directory>,
        targets: Targets<'_>,
    ) -> Result<Written> {
        let LocalChunk {
            rows,
            null_count,
            validity,
            values,
        } = chunk;
        if let (Some(target), Some(validity)) = (targets.validity, &validity) {
            target.copy_from_slice(validity);
        }
        let data = targets.data;
        let mut base = 0;
        let zone = match (self, &values) {
            (Self::Boolean, LocalValues::Boolean(booleans)) => {
                data.copy_from_slice(&booleans.values);
                let range = (booleans.any_false || booleans.any_true)
                    .then(|| (i128::from(!booleans.any_false), i128::from(booleans.any_true)));
                integer_zone(range, null_count)
            }
            (Self::Integer(frame), LocalValues::Integer(integers)) => {
                base = frame.base(integers);
                self.write_codes(index, &values, packed, data, |data| {
                    frame.map(integers).write(&integers.codes, frame.width, data);
                });
                integer_zone(integers.range, null_count)
            }
            (Self::Float32, LocalValues::Float32(floats)) => {
                data.copy_from_slice(bytemuck::cast_slice(&floats.values));
                float_zone(floats.range, floats.has_nan, null_count)
            }
            (Self::Float64, LocalValues::Float64(floats)) => {
                data.copy_from_slice(bytemuck::cast_slice(&floats.values));
                float_zone(floats.range, floats.has_nan, null_count)
            }
            (Self::Decimal, LocalValues::Decimal(decimals)) => {
                data.copy_from_slice(bytemuck::cast_slice(&decimals.values));
                integer_zone(decimals.range, null_count)
            }
            (Self::Decimal, LocalValues::Integer(integers)) => {
                write_wide(integers, bytemuck::cast_slice_mut(data));
                integer_zone(integers.range, null_count)
            }
            (Self::Dictionary(merged), LocalValues::Dictionary(dictionary)) => {
                let ranks = merged.ranks.get(index).ok_or_else(mismatch)?;
                self.write_codes(index, &values, packed, data, |data| {
                    let rank = |code| u64::from(ranks[code as usize]);
                    dictionary.codes.write_mapped(merged.width, data, rank);
                });
                rank_zone(ranks, null_count)
            }
            (Self::Slots(slots), values) => {
                base = slots.base();
                let validity = validity.as_deref();
                slots
                    .write(index, values, validity, null_count, data)
                    .ok_or_else(mismatch)?
            }
            (Self::Text { utf8, offset_width }, LocalValues::Text(text)) => {
                data.copy_from_slice(&text.values.bytes);
                let offsets = targets.offsets.ok_or_else(mismatch)?;
                match (offset_width, &text.values.offsets) {
                    (Width::Four, Offsets::Four(values)) => {
                        offsets.copy_from_slice(bytemuck::cast_slice(values));
                    }
                    (_, Offsets::Eight(values)) => offsets.copy_from_slice(bytemuck::cast_slice(values)),
                    (_, Offsets::Four(values)) => {
                        let offsets: &mut [u64] = bytemuck::cast_slice_mut(offsets);
                        for (target, value) in offsets.iter_mut().zip(values) {
                            *target = u64::from(*value);
                        }
                    }
                }
                string_zone(text.bounds.as_ref(), *utf8, null_count)
            }
            _ => return Err(mismatch()),
        };
        Ok(Written { rows, base, zone })
    }
}

fn mismatch() -> StoreError {
    StoreError::Internal("a chunk does not have its column's encoding".to_owned())
}

fn write_wide(integers: &LocalIntegers, target: &mut [i128]) {
    let mut target = target.iter_mut();
    integers.codes.for_each(|code| {
        if let Some(target) = target.next() {
            *target = integers.value(code);
        }
    });
}
