//! The pages of the column chunks that are decoded together: their place on the device.

use std::ops::Range;

use galatea_device::DeviceBuffer;
use galatea_kernels::{PARQUET_PADDING, ParquetCodec, ParquetEncoding, ParquetPage, ParquetSlots};
use rayon::prelude::*;

use crate::chunk::ColumnChunk;
use crate::decompress::{HostCodec, Route};
use crate::error::{ParquetError, Problem, Result, Unsupported};
use crate::lane::Lane;
use crate::pages::{Page, pages};
use crate::shape::{ColumnShape, ValueKind};

/// Alignment of pages on the device, in bytes.
const ALIGNMENT: usize = 16;

/// Some column chunks of a batch.
pub(crate) struct Part {
    pub(crate) chunks: Range<usize>,
    /// Their data pages.
    pub(crate) pages: Range<usize>,
    /// Their rows among those of the batch: the slots of their values.
    pub(crate) rows: Range<usize>,
    /// The slots of the values of their dictionaries.
    pub(crate) dictionary: Range<usize>,
}

/// The pages of column chunks, in the order of the page table: data pages, then dictionary pages.
#[derive(Debug)]
pub(crate) struct Batch<'c> {
    pub(crate) chunks: &'c [ColumnChunk<'c>],
    /// Each page with the number of its chunk.
    pub(crate) pages: Vec<(usize, Page)>,
    /// The page table, without addresses before [`Self::upload`].
    pub(crate) table: Vec<ParquetPage>,
    pub(crate) data_pages: usize,
    /// Rows of all chunks.
    pub(crate) rows: usize,
    /// Values of all dictionaries.
    pub(crate) dictionary_values: usize,
    /// Words of validity.
    words: usize,
    routes: Vec<Route>,
}

impl<'c> Batch<'c> {
    /// Reads the page headers of column chunks.
    pub(crate) fn new(chunks: &'c [ColumnChunk<'c>], shape: &ColumnShape) -> Result<Self> {
        let (mut data, mut dictionaries, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rows, mut dictionary_values) = (0usize, 0usize);
        for (index, chunk) in chunks.iter().enumerate() {
            let route = Route::of(chunk.codec).ok_or_else(|| chunk.unsupported(Unsupported::Codec))?;
            routes.push(route);
            for page in pages(chunk, shape, route)? {
                let (pages, count) = match page.is_dictionary {
                    true => (&mut dictionaries, &mut dictionary_values),
                    false => (&mut data, &mut rows),
                };
                *count += page.rows as usize;
                pages.push((index, page));
            }
            // Slots, words and pages are counted in 32 bits.
            if rows + dictionary_values > u32::MAX as usize / 2 {
                return Err(chunk.unsupported(Unsupported::Rows));
            }
        }
        let data_pages = data.len();
        data.append(&mut dictionaries);
        let mut batch = Self {
            chunks,
            pages: data,
            table: Vec::new(),
            data_pages,
            rows,
            dictionary_values,
            words: 0,
            routes,
        };
        batch.assign_slots();
        Ok(batch)
    }

    /// Fills the page table, except for addresses.
    fn assign_slots(&mut self) {
        // Slots and values of each chunk's dictionary.
        let mut dictionaries = vec![(0, 0); self.chunks.len()];
        let mut slot = self.rows as u64;
        for (chunk, page) in &self.pages[self.data_pages..] {
            dictionaries[*chunk] = (slot, page.rows);
            slot += u64::from(page.rows);
        }
        let (mut row, mut words) = (0, 0);
        for (chunk, page) in &self.pages {
            let (dictionary, dictionary_values) = dictionaries[*chunk];
            let codec = match self.routes[*chunk] {
                Route::Device(codec) if page.compressed => codec,
                _ => ParquetCodec::Uncompressed,
            };
            self.table.push(ParquetPage {
                stored: 0,
                body: 0,
                slot: if page.is_dictionary { dictionary } else { row },
                dictionary,
                heap: 0,
                stored_bytes: page.stored,
                body_bytes: page.plain,
                rows: page.rows,
                levels: page.levels as u32,
                level_bytes: page.level_bytes,
                words,
                dictionary_values,
                encoding: page.encoding as u32,
                codec: codec as u32,
                reserved: 0,
            });
            if !page.is_dictionary {
                row += u64::from(page.rows);
                words += page.rows.div_ceil(32);
            }
        }
        self.words = words as usize;
    }

    /// Whether a data page has this encoding.
    pub(crate) fn has(&self, encoding: ParquetEncoding) -> bool {
        self.pages[..self.data_pages]
            .iter()
            .any(|(_, page)| page.encoding == encoding)
    }

    /// The pages, rows and dictionaries of some column chunks.
    pub(crate) fn part(&self, chunks: Range<usize>) -> Part {
        let (data, dictionaries) = self.pages.split_at(self.data_pages);
        let of = |pages: &[(usize, Page)], base: usize, slot: usize| {
            let first = pages.partition_point(|(chunk, _)| *chunk < chunks.start);
            let end = pages.partition_point(|(chunk, _)| *chunk < chunks.end);
            let before: usize = pages[..first].iter().map(|(_, page)| page.rows as usize).sum();
            let values: usize = pages[first..end].iter().map(|(_, page)| page.rows as usize).sum();
            let start = slot + before;
            (base + first..base + end, start..start + values)
        };
        let (pages, rows) = of(data, 0, 0);
        let (_, dictionary) = of(dictionaries, self.data_pages, self.rows);
        Part {
            chunks,
            pages,
            rows,
            dictionary,
        }
    }

    /// Whether all of these data pages have dictionary indices.
    pub(crate) fn only_indices(&self, pages: &Range<usize>) -> bool {
        self.pages[pages.clone()]
            .iter()
            .all(|(_, page)| page.encoding == ParquetEncoding::Dictionary)
    }

    /// The error of a page.
    pub(crate) fn damaged(&self, page: usize, byte: u64, problem: Problem) -> ParquetError {
        let (chunk, page) = &self.pages[page];
        self.chunks[*chunk].damaged(Some(page.number), byte, problem)
    }

    /// Decompresses the pages of the host's codecs, on all cores.
    pub(crate) fn decompressed(&self) -> Result<Vec<Option<Vec<u8>>>> {
        let numbered = self.pages.par_iter().enumerate();
        numbered
            .map(|(number, (chunk, page))| match self.routes[*chunk] {
                Route::Host(codec) => self.body(number, page, &self.chunks[*chunk], codec).map(Some),
                Route::Device(_) => Ok(None),
            })
            .collect()
    }

    fn body(&self, number: usize, page: &Page, chunk: &ColumnChunk<'_>, codec: HostCodec) -> Result<Vec<u8>> {
        let stored = page.bytes(chunk);
        if !page.compressed {
            return Ok(stored.to_vec());
        }
        let byte = chunk.start + page.start as u64;
        let (levels, compressed) = stored.split_at(page.level_bytes as usize);
        let expected = page.plain - page.level_bytes;
        let mut body = levels.to_vec();
        // A page without values may have no compressed bytes at all.
        if expected > 0 {
            codec
                .decompress(compressed, expected, &mut body)
                .map_err(|reason| {
                    let codec = codec.name();
                    self.damaged(number, byte, Problem::Compressed { codec, reason })
                })?;
            let plain = body.len() - levels.len();
            if plain != expected as usize {
                let problem = Problem::Differs {
                    name: "decompressed size",
                    number: plain as i64,
                    expected: expected.into(),
                };
                return Err(self.damaged(number, byte, problem));
            }
        }
        Ok(body)
    }

    /// Enters the addresses of pages into the page table, and allocates memory for their values. `stored` has
    /// the bytes of the pages; see [`Stored::start_of`].
    pub(crate) fn place(
        &mut self,
        lane: &mut Lane,
        shape: &ColumnShape,
        stored: Stored,
    ) -> Result<ParquetSlots> {
        let starts: Vec<usize> = (self.pages.iter().enumerate())
            .map(|(number, (chunk, page))| stored.start_of(number, *chunk, page))
            .collect();
        let is_compressed = |page: &ParquetPage| page.codec != ParquetCodec::Uncompressed as u32;
        let mut body_bytes = 0;
        let mut bodies = Vec::with_capacity(self.table.len());
        for page in &self.table {
            bodies.push(body_bytes);
            if is_compressed(page) {
                body_bytes += (page.body_bytes as usize).next_multiple_of(ALIGNMENT);
            }
        }
        let decoded = lane
            .device()
            .alloc::<u8>(lane.stream(), body_bytes + PARQUET_PADDING)?
            .assume_written();
        for ((page, start), body) in self.table.iter_mut().zip(starts).zip(bodies) {
            page.stored = stored.bytes.address() + start as u64;
            page.body = match is_compressed(page) {
                true => decoded.address() + body as u64,
                false => page.stored,
            };
            // The host has decompressed the page.
            if !is_compressed(page) {
                page.stored_bytes = page.body_bytes;
            }
        }
        self.allocate(lane, shape, (stored.bytes, decoded))
    }

    fn allocate(
        &self,
        lane: &mut Lane,
        shape: &ColumnShape,
        (stored, bodies): (DeviceBuffer<u8>, DeviceBuffer<u8>),
    ) -> Result<ParquetSlots> {
        let slots = self.rows + self.dictionary_values;
        let located = match shape.kind {
            ValueKind::Strings { .. } => slots,
            ValueKind::Fixed { .. }
                if shape.value_bytes == 0 || self.has(ParquetEncoding::DeltaByteArray) =>
            {
                slots
            }
            ValueKind::Fixed { .. } => 0,
        };
        let indexed = match self.has(ParquetEncoding::Dictionary) || self.has(ParquetEncoding::DeltaByteArray)
        {
            true => self.rows,
            false => 0,
        };
        let width = match shape.kind {
            ValueKind::Fixed { form, .. } => form.width(),
            ValueKind::Strings { .. } => 0,
        };
        let pages = lane.upload(&self.table)?;
        let (device, stream) = (lane.device(), lane.stream());
        Ok(ParquetSlots {
            stored,
            bodies,
            pages,
            states: device.zeroed(stream, self.table.len())?,
            validity: device.alloc(stream, self.words)?.assume_written(),
            before: device.alloc(stream, self.words)?.assume_written(),
            values: device.alloc(stream, slots * width)?.assume_written(),
            indices: device.alloc(stream, indexed)?.assume_written(),
            starts: device.alloc(stream, located)?.assume_written(),
            lengths: device.alloc(stream, located)?.assume_written(),
            heap: device.alloc(stream, 0)?.assume_written(),
        })
    }
}

/// The bytes of pages on the device.
pub(crate) struct Stored {
    pub(crate) bytes: DeviceBuffer<u8>,
    /// First byte of each column chunk that travels as it is.
    chunks: Vec<usize>,
    /// First byte of each page that the host has decompressed.
    bodies: Vec<Option<usize>>,
}

impl Stored {
    /// Copies column chunks to the device as they are in the file, or the `bodies` of pages that the host has
    /// decompressed. The copies may still be running when the function returns.
    pub(crate) fn upload(
        lane: &mut Lane,
        chunks: &[ColumnChunk<'_>],
        routes: &[Route],
        bodies: &[Option<Vec<u8>>],
    ) -> Result<Self> {
        let mut end = 0;
        let mut place = |bytes: usize| {
            let start = end;
            end += bytes.next_multiple_of(ALIGNMENT);
            start
        };
        let whole = |(chunk, route): (&ColumnChunk<'_>, &Route)| match route {
            Route::Device(_) => place(chunk.bytes.len()),
            Route::Host(_) => place(0),
        };
        let starts: Vec<usize> = chunks.iter().zip(routes).map(whole).collect();
        let of_bodies: Vec<Option<usize>> = (bodies.iter())
            .map(|body| body.as_ref().map(|body| place(body.len())))
            .collect();
        let mut bytes = lane
            .device()
            .alloc::<u8>(lane.stream(), end + PARQUET_PADDING)?
            .assume_written();
        for ((chunk, route), start) in chunks.iter().zip(routes).zip(&starts) {
            if matches!(route, Route::Device(_)) {
                lane.write(&mut bytes, *start, chunk.bytes)?;
            }
        }
        for (body, start) in bodies.iter().zip(&of_bodies) {
            if let (Some(body), Some(start)) = (body, start) {
                lane.write(&mut bytes, *start, body)?;
            }
        }
        Ok(Self {
            bytes,
            chunks: starts,
            bodies: of_bodies,
        })
    }

    /// The first byte of a page, by its number in the page table and the number of its chunk.
    fn start_of(&self, number: usize, chunk: usize, page: &Page) -> usize {
        match self.bodies.get(number) {
            Some(Some(start)) => *start,
            _ => self.chunks[chunk] + page.start,
        }
    }
}
