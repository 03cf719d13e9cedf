//! Points in host memory, column by column, in chunks that are transferred to the device as pages of a
//! region.
//!
//! A chunk stores its points as `data[feature * stride + point]`. The stride is a multiple of
//! [`STRIDE_POINTS`] points, so that threads load aligned vectors and warps load whole runs. Chunks are the
//! unit of transfer. All have the same number of points, except the last.
//!
//! Values are 32-bit floats, as in the thesis. Values of 64-bit input may be much closer to each other than
//! to zero (times, coordinates of a city). The values of such a feature are stored as distances from an
//! offset, so that the differences between points survive.

use std::sync::{Arc, OnceLock};

use galatea_device::{DeviceBuffer, DeviceError, HostMemory, HostView, Stream};
use galatea_kernels::kmeans::STRIDE_POINTS;
use galatea_memory::Identity;
use galatea_memory::regions::Source;

use crate::{KMeansError, Result};

/// Default bytes of a chunk.
pub const CHUNK_BYTES: usize = 16 << 20;

/// Maximum number of features of a point.
const MOST_FEATURES: usize = 1 << 16;

/// Immutable points.
#[derive(Debug)]
pub struct Points {
    identity: Arc<Identity>,
    name: String,
    features: usize,
    len: u64,
    chunks: Vec<Chunk>,
    /// By feature: the offset that was subtracted from its values.
    offsets: Vec<f64>,
    /// By feature: the minimum and the maximum of the stored values.
    extents: Vec<(f32, f32)>,
    pub(crate) variance: OnceLock<f64>,
}

/// Consecutive points.
#[derive(Debug)]
pub(crate) struct Chunk {
    identity: Arc<Identity>,
    view: HostView,
    /// Number of points.
    pub(crate) len: usize,
    /// Distance between features, in points.
    pub(crate) stride: usize,
}

impl Chunk {
    /// All values of a feature.
    pub(crate) fn feature(&self, feature: usize) -> &[f32] {
        let values: &[f32] = bytemuck::cast_slice(self.view.as_slice());
        &values[feature * self.stride..][..self.len]
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.view.len() as u64
    }

    pub(crate) fn copy(&self, stream: &Stream, target: &mut DeviceBuffer<u8>) -> Result<u64, DeviceError> {
        stream.copy_to_device(target.slice_mut(..self.view.len())?, &self.view)?;
        Ok(self.bytes())
    }

    pub(crate) fn memory(&self) -> &Arc<HostMemory> {
        self.view.memory()
    }
}

impl Points {
    /// Points from columns of equal length.
    ///
    /// # Errors
    /// [`KMeansError::Features`] without columns, [`KMeansError::Shape`] for columns of different lengths,
    /// [`KMeansError::NotFinite`], or an error of allocating host memory.
    pub fn from_columns<C: AsRef<[f32]>>(columns: &[C]) -> Result<Self> {
        let names = (0..columns.len()).map(|feature| feature.to_string()).collect();
        let mut builder = PointsBuilder::new(names)?;
        builder.append(columns)?;
        builder.finish()
    }

    /// Number of features, d.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of points, n.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.len * self.features as u64 * 4
    }

    /// Values of consecutive points, point after point.
    ///
    /// # Panics
    /// If the range exceeds the points.
    #[must_use]
    pub fn rows(&self, range: std::ops::Range<u64>) -> Vec<f64> {
        let mut rows = Vec::with_capacity((range.end - range.start) as usize * self.features);
        range.for_each(|point| self.gather(point, &mut rows));
        self.add_offsets(&mut rows);
        rows
    }

    /// Adds the offsets to rows of stored values, which restores the input values.
    pub(crate) fn add_offsets(&self, rows: &mut [f64]) {
        for row in rows.chunks_exact_mut(self.features) {
            row.iter_mut()
                .zip(&self.offsets)
                .for_each(|(value, offset)| *value += offset);
        }
    }

    /// Subtracts the offsets, the inverse of [`Self::add_offsets`].
    pub(crate) fn without_offsets(&self, rows: &[f64]) -> Vec<f64> {
        let pairs = rows.iter().zip(self.offsets.iter().cycle());
        pairs.map(|(value, offset)| value - offset).collect()
    }

    /// By feature, the minimum and the maximum of the stored values.
    pub(crate) fn extents(&self) -> &[(f32, f32)] {
        &self.extents
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Maximum number of points of a chunk.
    pub(crate) fn most(&self) -> u32 {
        self.chunks.iter().map(|chunk| chunk.len).max().unwrap_or(0) as u32
    }

    /// Appends the stored values of a point.
    pub(crate) fn gather(&self, point: u64, values: &mut Vec<f64>) {
        let full = self.chunks.first().map_or(1, |chunk| chunk.len as u64);
        let (chunk, at) = (&self.chunks[(point / full) as usize], (point % full) as usize);
        values.extend((0..self.features).map(|feature| f64::from(chunk.feature(feature)[at])));
    }
}

impl Source for Points {
    fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn pages(&self) -> usize {
        self.chunks.len()
    }

    fn page(&self, index: usize) -> &Arc<Identity> {
        &self.chunks[index].identity
    }

    fn page_bytes(&self, index: usize) -> u64 {
        self.chunks[index].bytes()
    }
}

/// Collects points batch by batch.
#[derive(Debug)]
pub struct PointsBuilder {
    names: Vec<String>,
    /// Number of points of a full chunk.
    capacity: usize,
    chunks: Vec<Chunk>,
    /// The chunk that is being filled, and its number of points.
    filling: Option<(HostMemory, usize)>,
    len: u64,
    /// By feature: number of values that are not finite.
    not_finite: Vec<u64>,
    /// By feature: the minimum and the maximum so far.
    extents: Vec<(f32, f32)>,
    /// Offsets by feature; none before the first points.
    offsets: Option<Vec<f64>>,
}

impl PointsBuilder {
    /// A builder of points with features of these names, in chunks of [`CHUNK_BYTES`].
    ///
    /// # Errors
    /// [`KMeansError::Features`].
    pub fn new(names: Vec<String>) -> Result<Self> {
        Self::with_chunk_bytes(names, CHUNK_BYTES)
    }

    /// Like [`Self::new`], in chunks of about `chunk_bytes` bytes.
    ///
    /// # Errors
    /// [`KMeansError::Features`].
    pub fn with_chunk_bytes(names: Vec<String>, chunk_bytes: usize) -> Result<Self> {
        let features = names.len();
        if !(1..=MOST_FEATURES).contains(&features) {
            return Err(KMeansError::Features {
                features,
                limit: MOST_FEATURES,
            });
        }
        let capacity = chunk_bytes / (4 * features) / STRIDE_POINTS * STRIDE_POINTS;
        Ok(Self {
            not_finite: vec![0; features],
            extents: vec![(f32::INFINITY, f32::NEG_INFINITY); features],
            names,
            capacity: capacity.clamp(STRIDE_POINTS, 1 << 30),
            chunks: Vec::new(),
            filling: None,
            len: 0,
            offsets: None,
        })
    }

    /// Appends points. Each column is a feature.
    ///
    /// # Errors
    /// [`KMeansError::Shape`] for another number of columns, or columns of different lengths; or an error of
    /// allocating host memory.
    pub fn append<C: AsRef<[f32]>>(&mut self, columns: &[C]) -> Result<()> {
        let offsets = self.offsets.get_or_insert_with(|| vec![0.0; self.names.len()]);
        if offsets.iter().all(|offset| *offset == 0.0) {
            return self.append_kept(columns);
        }
        let widen = |column: &C| column.as_ref().iter().map(|value| f64::from(*value)).collect();
        let wide: Vec<Vec<f64>> = columns.iter().map(widen).collect();
        self.append_wide(&wide)
    }

    /// Like [`Self::append`], for 64-bit floats. They are rounded to 32-bit floats, as distances from an
    /// offset if the first points are 16 times closer to each other than to zero. Values beyond the range of
    /// 32-bit floats count as infinite.
    ///
    /// # Errors
    /// The errors of [`Self::append`].
    pub fn append_wide<C: AsRef<[f64]>>(&mut self, columns: &[C]) -> Result<()> {
        if columns.iter().any(|column| column.as_ref().is_empty()) && self.offsets.is_none() {
            return Ok(());
        }
        let offsets = self
            .offsets
            .get_or_insert_with(|| columns.iter().map(|column| offset_of(column.as_ref())).collect());
        let kept: Vec<Vec<f32>> = columns
            .iter()
            .zip(offsets.iter().chain(std::iter::repeat(&0.0)))
            .map(|(column, offset)| {
                column
                    .as_ref()
                    .iter()
                    .map(|value| (value - offset) as f32)
                    .collect()
            })
            .collect();
        self.append_kept(&kept)
    }

    /// By feature: the number of values so far that are NaN or infinite.
    #[must_use]
    pub fn not_finite(&self) -> &[u64] {
        &self.not_finite
    }

    fn append_kept<C: AsRef<[f32]>>(&mut self, columns: &[C]) -> Result<()> {
        let shape = |what: String, found, expected| {
            Err(KMeansError::Shape {
                what,
                found,
                expected,
            })
        };
        if columns.len() != self.names.len() {
            return shape(
                "a batch of points, by columns,".to_owned(),
                columns.len(),
                self.names.len(),
            );
        }
        let len = columns[0].as_ref().len();
        for (name, column) in self.names.iter().zip(columns) {
            if column.as_ref().len() != len {
                return shape(format!("column {name}"), column.as_ref().len(), len);
            }
        }
        for (count, column) in self.not_finite.iter_mut().zip(columns) {
            *count += column.as_ref().iter().filter(|value| !value.is_finite()).count() as u64;
        }
        for (extent, column) in self.extents.iter_mut().zip(columns) {
            for value in column.as_ref() {
                *extent = (extent.0.min(*value), extent.1.max(*value));
            }
        }
        let mut done = 0;
        while done < len {
            let (mut memory, filled) = match self.filling.take() {
                Some(filling) => filling,
                None => (HostMemory::new(4 * self.capacity * self.names.len())?, 0),
            };
            let some = (len - done).min(self.capacity - filled);
            let values: &mut [f32] = bytemuck::cast_slice_mut(memory.as_mut_slice());
            for (feature, column) in columns.iter().enumerate() {
                values[feature * self.capacity + filled..][..some]
                    .copy_from_slice(&column.as_ref()[done..done + some]);
            }
            done += some;
            self.filling = Some((memory, filled + some));
            if filled + some == self.capacity {
                self.close();
            }
        }
        self.len += len as u64;
        Ok(())
    }

    /// Finishes the chunk that is being filled.
    fn close(&mut self) {
        if let Some((memory, len)) = self.filling.take() {
            self.chunks.push(Chunk {
                identity: Arc::default(),
                view: memory.into_view(),
                len,
                stride: self.capacity,
            });
        }
    }

    /// Returns the points.
    ///
    /// # Errors
    /// [`KMeansError::NotFinite`] for the first column with values that are not finite, or an error of
    /// allocating host memory.
    pub fn finish(mut self) -> Result<Points> {
        if let Some((feature, rows)) = self.not_finite.iter().enumerate().find(|(_, rows)| **rows > 0) {
            return Err(KMeansError::NotFinite {
                column: self.names[feature].clone(),
                rows: *rows,
            });
        }
        // The last chunk uses the memory that it needs, not that of a full one.
        if let Some((memory, len)) = self.filling.take() {
            let stride = len.next_multiple_of(STRIDE_POINTS);
            let mut small = HostMemory::new(4 * stride * self.names.len())?;
            let from: &[f32] = bytemuck::cast_slice(memory.as_slice());
            let to: &mut [f32] = bytemuck::cast_slice_mut(small.as_mut_slice());
            for (to, from) in to.chunks_exact_mut(stride).zip(from.chunks_exact(self.capacity)) {
                to[..len].copy_from_slice(&from[..len]);
            }
            self.chunks.push(Chunk {
                identity: Arc::default(),
                view: small.into_view(),
                len,
                stride,
            });
        }
        Ok(Points {
            identity: Arc::default(),
            name: format!("points ({})", self.names.join(", ")),
            features: self.names.len(),
            len: self.len,
            chunks: self.chunks,
            offsets: self.offsets.unwrap_or_else(|| vec![0.0; self.names.len()]),
            extents: self.extents,
            variance: OnceLock::new(),
        })
    }
}

/// The offset to subtract from values: 0, unless they are 16 times closer to each other than to zero. It has
/// few significant bits, so that differences from it are exact.
fn offset_of(values: &[f64]) -> f64 {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (least, most) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    let (middle, spread) = (least / 2.0 + most / 2.0, most - least);
    if !middle.is_finite() || middle.abs() < 16.0 * spread {
        return 0.0;
    }
    let unit = spread.log2().floor().exp2();
    if unit > 0.0 {
        (middle / unit).round() * unit
    } else {
        middle
    }
}
