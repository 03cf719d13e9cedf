//! The load of a stream: random frames, and the CPU's results of an operator.

use std::sync::Arc;

use crate::flow::random::Random;
use crate::flow::workload::shapes::{
    CoulombPotential, FourierSamples, Histogram, MatrixProduct, SparseProduct, Stencil,
};
use crate::flow::workload::{Aes128, Fma, Mode, Raid6};
use galatea_flow::paging::PagedScan;
use galatea_flow::{GpuOperator, Map, PAGE};

/// The CPU's work on each frame, in addition to publishing and reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// The source copies the whole frame from other memory, and the sink reads the whole result.
    All,
    /// The data is in the frames already: the source writes the frame's number, and the sink reads its
    /// length. Measures only the link and the protocol.
    Number,
}

type Reference = Arc<dyn Fn(u64, &[u8], &mut Vec<u8>) + Send + Sync>;

/// An operator and its frames.
#[derive(Clone)]
pub struct Load {
    /// The operator.
    pub operator: Arc<dyn GpuOperator>,
    /// Bytes of a frame.
    pub(super) frame_bytes: usize,
    /// Bytes of a batch per block, if the operator prescribes them.
    unit: Option<usize>,
    pool: Arc<Vec<u8>>,
    reference: Reference,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on frames of {}", self.operator.name(), self.frame_bytes)
    }
}

/// Random bytes from which frames are copied.
const POOL: usize = 64 << 20;

impl Load {
    fn new(
        operator: impl GpuOperator + 'static,
        frame_bytes: usize,
        seed: u64,
        reference: impl Fn(u64, &[u8], &mut Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        let mut random = Random::new(seed);
        let bytes = POOL.max(frame_bytes).min((frame_bytes * 64).max(1 << 20));
        let words: Vec<u64> = (0..bytes / 8).map(|_| random.next()).collect();
        Self {
            operator: Arc::new(operator),
            frame_bytes,
            unit: None,
            pool: Arc::new(bytemuck::cast_slice(&words).to_vec()),
            reference: Arc::new(reference),
        }
    }

    /// Doubles 32-bit integers.
    pub(super) fn double(frame_bytes: usize, seed: u64) -> Self {
        let double = Map::new("double", "u32", "u32", "value * 2u");
        Self::new(double, frame_bytes, seed, |_, input, output| {
            let words = bytemuck::cast_slice::<u8, u32>(input).iter();
            output.extend(words.flat_map(|word| word.wrapping_mul(2).to_le_bytes()));
        })
    }

    /// Fused multiply-adds.
    pub(super) fn fma(count: u32, frame_bytes: usize, seed: u64) -> Self {
        let fma = Fma { count };
        Self::of_floats(fma, frame_bytes, seed, move |_, input, output| {
            let values = bytemuck::cast_slice::<u8, f32>(input).iter();
            output.extend(values.flat_map(|value| fma.compute(*value).to_le_bytes()));
        })
    }

    /// The six kernel shapes.
    #[must_use]
    pub fn shapes(frame_bytes: usize, seed: u64) -> Vec<Self> {
        let floats = |values: Vec<f32>, output: &mut Vec<u8>| {
            output.extend(values.into_iter().flat_map(f32::to_le_bytes));
        };
        let items = |input: &[u8]| -> Vec<[f32; 4]> {
            input.chunks_exact(16).map(bytemuck::pod_read_unaligned).collect()
        };
        let potential = CoulombPotential::new(256, seed);
        let samples = FourierSamples::new(256, seed);
        let (product, sparse) = (MatrixProduct::new(seed), SparseProduct::new(1 << 16, seed));
        vec![
            Self::of_floats(potential.clone(), frame_bytes, seed, move |_, input, output| {
                floats(
                    items(input)
                        .into_iter()
                        .map(|point| potential.compute(point))
                        .collect(),
                    output,
                );
            }),
            Self::of_floats(samples.clone(), frame_bytes, seed, move |_, input, output| {
                floats(
                    items(input)
                        .into_iter()
                        .flat_map(|voxel| samples.compute(voxel))
                        .collect(),
                    output,
                );
            }),
            Self::of_floats(product.clone(), frame_bytes, seed, move |_, input, output| {
                let input: &[f32] = bytemuck::cast_slice(input);
                for row in input.chunks_exact(16) {
                    floats(
                        (0..16).map(|column| product.compute(row, column)).collect(),
                        output,
                    );
                }
            }),
            // A histogram of each warp: their sum is not compared here, but in the tests.
            Self::new(Histogram, frame_bytes, seed, |_, _, _| {}),
            Self::new(sparse.clone(), frame_bytes, seed, move |_, input, output| {
                let rows = bytemuck::cast_slice::<u8, u32>(input).chunks_exact(SparseProduct::ROW);
                floats(rows.map(|row| sparse.compute(row)).collect(), output);
            }),
            Self::of_floats(Stencil, frame_bytes, seed, move |_, input, output| {
                floats(Stencil::compute(bytemuck::cast_slice(input)), output);
            }),
        ]
    }

    /// A query over the given frames of columns. A batch has some of them. Results are not compared.
    pub(super) fn paged(scan: PagedScan, frames: Vec<u8>, frames_of_batch: usize) -> Self {
        let unit = scan.shape.frame_bytes();
        Self {
            operator: Arc::new(scan),
            frame_bytes: unit * frames_of_batch,
            unit: Some(unit),
            pool: Arc::new(frames),
            reference: Arc::new(|_, _, _| {}),
        }
    }

    /// Like [`Load::new`], with frames of floats from 1 to 2.
    fn of_floats(
        operator: impl GpuOperator + 'static,
        frame_bytes: usize,
        seed: u64,
        reference: impl Fn(u64, &[u8], &mut Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        let mut load = Self::new(operator, frame_bytes, seed, reference);
        let words: &mut Vec<u8> = Arc::make_mut(&mut load.pool);
        for word in words.chunks_exact_mut(4) {
            let bits = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            word.copy_from_slice(&(bits >> 9 | 0x3f80_0000).to_le_bytes());
        }
        load
    }

    /// RAID-6 parities.
    pub(super) fn raid6(disks: u32, frame_bytes: usize, seed: u64) -> Self {
        let raid = Raid6 { disks };
        Self::new(raid, frame_bytes, seed, move |_, input, output| {
            output.resize(2 * raid.chunk(input.len()), 0);
            raid.encode(input, output);
        })
    }

    /// AES-128.
    pub(super) fn aes(mode: Mode, frame_bytes: usize, seed: u64) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&seed.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        let cipher = Aes128::new(key, mode, frame_bytes);
        Self::new(cipher.clone(), frame_bytes, seed, move |frame, input, output| {
            output.resize(input.len(), 0);
            cipher.encrypt(frame, input, output);
        })
    }

    /// The operator, for a link.
    pub(super) fn shared(&self) -> SharedOperator {
        SharedOperator(Arc::clone(&self.operator))
    }

    /// Bytes of a batch that a block computes independently, with `blocks` blocks.
    pub(super) fn unit(&self, blocks: usize) -> usize {
        let share = self.frame_bytes.div_ceil(blocks);
        let share = share.next_multiple_of(PAGE).min(64 << 10);
        self.unit.unwrap_or(share)
    }

    /// The content of frame `number` after its number.
    fn content(&self, number: u64, touch: Touch) -> &[u8] {
        let frames = (self.pool.len() / self.frame_bytes) as u64;
        let at = match touch {
            Touch::All => (number % frames) as usize * self.frame_bytes,
            Touch::Number => 0,
        };
        &self.pool[at..at + self.frame_bytes]
    }

    /// Random bytes, at least a frame.
    pub(super) fn pool_bytes(&self) -> &[u8] {
        &self.pool[..self.frame_bytes]
    }

    /// Writes frame `number`.
    pub(super) fn fill(&self, number: u64, touch: Touch, frame: &mut [u8]) {
        let content = self.content(number, touch);
        let end = self.frame_bytes - 8;
        let filled =
            touch == Touch::Number && frame[8..16] == content[8..16] && frame[end..] == content[end..];
        if !filled {
            frame.copy_from_slice(content);
        }
        frame[..8].copy_from_slice(&number.to_le_bytes());
    }

    /// Whether an output is correct for frame `number`: the operator's result as the CPU computes it, for
    /// each unit of the frame separately.
    pub(super) fn is_right(&self, number: u64, touch: Touch, unit: usize, output: &[u8]) -> bool {
        let mut input = self.content(number, touch).to_vec();
        input[..8].copy_from_slice(&number.to_le_bytes());
        let units = input.len().div_ceil(unit) as u64;
        let mut expected = Vec::new();
        let stride = if units > 1 {
            output.len() / units as usize
        } else {
            output.len()
        };
        input.chunks(unit).enumerate().all(|(at, input)| {
            expected.clear();
            (self.reference)(number * units + at as u64, input, &mut expected);
            let start = at * stride;
            output
                .get(start..start + expected.len())
                .is_some_and(|output| output == expected)
        })
    }

    /// Computes frame `number` on the CPU.
    pub(super) fn on_cpu(&self, number: u64, input: &[u8], output: &mut Vec<u8>) {
        output.clear();
        (self.reference)(number, input, output);
    }
}

/// Reads the whole result.
pub(super) fn read_all(bytes: &[u8]) -> u64 {
    let words: &[u64] = bytemuck::cast_slice(&bytes[..bytes.len() / 8 * 8]);
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// An operator that several links share.
#[derive(Clone)]
pub(super) struct SharedOperator(Arc<dyn GpuOperator>);

impl GpuOperator for SharedOperator {
    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.0.name()
    }
    fn source(&self) -> std::borrow::Cow<'_, str> {
        self.0.source()
    }
    fn parameters(&self) -> Vec<u64> {
        self.0.parameters()
    }
}
