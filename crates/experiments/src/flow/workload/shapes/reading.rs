//! Shapes that read much for their computation.

use std::borrow::Cow;

use galatea_flow::GpuOperator;

use super::{random_floats, words_of};

/// Counts the low bytes of 32-bit values. Each warp counts separately, in shared memory. An output contains
/// the counts of each warp, which its reader must add.
#[derive(Debug, Clone, Copy)]
pub struct Histogram;

impl Histogram {
    /// Number of counts of a histogram.
    pub const BINS: usize = 256;

    /// The same on the CPU.
    #[must_use]
    pub fn compute(values: &[u32]) -> Vec<u32> {
        let mut bins = vec![0; Self::BINS];
        for value in values {
            bins[*value as usize % Self::BINS] += 1;
        }
        bins
    }

    /// The sum of an output's histograms.
    #[must_use]
    pub fn merge(output: &[u32]) -> Vec<u32> {
        let mut bins = vec![0; Self::BINS];
        for (at, count) in output.iter().enumerate() {
            bins[at % Self::BINS] += count;
        }
        bins
    }
}

impl GpuOperator for Histogram {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("histogram")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Borrowed(
            "struct Operator {
    GALATEA_INLINE static void begin() {}
    GALATEA_INLINE static void compute(Work& work) {
        constexpr u32 BINS = 256;
        __shared__ u32 bins[32][BINS];
        // As many warps as the output holds histograms.
        const u32 fits = work.capacity / (4 * BINS);
        const u32 warps = work.warps < fits ? work.warps : fits;
        if (warps == 0) { work.set_output_bytes(work.capacity + 1); return; }
        const u32 warp = work.thread() / 32;
        if (warp >= warps) return;
        u32* own = bins[threadIdx.x / 32];
        for (u32 bin = threadIdx.x % 32; bin < BINS; bin += 32) own[bin] = 0;
        __syncwarp();
        const u32* values = work.input<u32>();
        for (u32 item = work.thread(); item < work.items<u32>(); item += warps * 32) atomicAdd(own + values[item] % BINS, 1u);
        __syncwarp();
        u32* out = work.output<u32>() + warp * BINS;
        for (u32 bin = threadIdx.x % 32; bin < BINS; bin += 32) out[bin] = own[bin];
        work.set_output_bytes(warps * BINS * 4);
    }
};
",
        )
    }
}

/// The product of a sparse matrix with a vector. An item is a row of 8 pairs of column and value. An output
/// is a float.
#[derive(Debug, Clone)]
pub struct SparseProduct {
    vector: Vec<f32>,
}

impl SparseProduct {
    /// Number of words of a row.
    pub const ROW: usize = 16;

    /// A random vector. Its number of values is a power of two; columns are taken modulo that.
    #[must_use]
    pub fn new(columns: usize, seed: u64) -> Self {
        assert!(columns.is_power_of_two(), "{columns} columns");
        Self {
            vector: random_floats(seed, columns),
        }
    }

    /// The same on the CPU, for one row. Its values are the bits of floats below 2.
    #[must_use]
    pub fn compute(&self, row: &[u32]) -> f32 {
        row.chunks_exact(2).fold(0.0_f32, |sum, pair| {
            let value = f32::from_bits(pair[1] >> 9 | 0x3f80_0000);
            value.mul_add(self.vector[pair[0] as usize % self.vector.len()], sum)
        })
    }
}

impl GpuOperator for SparseProduct {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("sparse product")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Owned(format!(
            "struct alignas(16) Pairs {{ u32 word[4]; }};
struct Operator {{
    GALATEA_INLINE static void begin() {{}}
    GALATEA_INLINE static void compute(Work& work) {{
        const float* vector = work.parameters<float>();
        const u32 rows = work.bytes_in / 64;
        if (rows > work.capacity / 4) {{ work.set_output_bytes(work.capacity + 1); return; }}
        for (u32 row = work.thread(); row < rows; row += work.threads()) {{
            Pairs pairs[4];
            for (u32 i = 0; i < 4; ++i) pairs[i] = work.input<Pairs>()[row * 4 + i];
            float sum = 0.0f;
            for (u32 i = 0; i < 4; ++i) {{
                for (u32 k = 0; k < 4; k += 2) {{
                    // Any bits are a value from 1 to 2.
                    const float value = __uint_as_float(pairs[i].word[k + 1] >> 9 | 0x3f800000u);
                    sum = fmaf(value, vector[pairs[i].word[k] & {}u], sum);
                }}
            }}
            work.output<float>()[row] = sum;
        }}
        work.set_output_bytes(rows * 4);
    }}
}};
",
            self.vector.len() - 1
        ))
    }

    fn parameters(&self) -> Vec<u64> {
        words_of(&self.vector)
    }
}

/// A step of a five-point stencil on a grid of 64 columns. Cells at the edges keep their values.
#[derive(Debug, Clone, Copy)]
pub struct Stencil;

impl Stencil {
    const WIDTH: usize = 64;

    /// The same on the CPU.
    #[must_use]
    pub fn compute(cells: &[f32]) -> Vec<f32> {
        let height = cells.len() / Self::WIDTH;
        let next = |at: usize| {
            let (row, column) = (at / Self::WIDTH, at % Self::WIDTH);
            if row == 0 || row + 1 >= height || column == 0 || column + 1 == Self::WIDTH {
                return cells[at];
            }
            let around =
                (cells[at - Self::WIDTH] + cells[at + Self::WIDTH]) + (cells[at - 1] + cells[at + 1]);
            around.mul_add(0.125, cells[at] * 0.5)
        };
        (0..height * Self::WIDTH).map(next).collect()
    }
}

impl GpuOperator for Stencil {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("stencil")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Borrowed(
            "struct Operator {
    GALATEA_INLINE static void begin() {}
    GALATEA_INLINE static void compute(Work& work) {
        constexpr u32 WIDTH = 64;
        const float* cells = work.input<float>();
        const u32 height = work.items<float>() / WIDTH;
        if (height * WIDTH > work.capacity / 4) { work.set_output_bytes(work.capacity + 1); return; }
        for (u32 at = work.thread(); at < height * WIDTH; at += work.threads()) {
            const u32 row = at / WIDTH, column = at % WIDTH;
            float value = cells[at];
            if (row != 0 && row + 1 < height && column != 0 && column + 1 != WIDTH) {
                const float around = (cells[at - WIDTH] + cells[at + WIDTH]) + (cells[at - 1] + cells[at + 1]);
                value = fmaf(around, 0.125f, value * 0.5f);
            }
            work.output<float>()[at] = value;
        }
        work.set_output_bytes(height * WIDTH * 4);
    }
};
",
        )
    }
}
