//! Shapes with much computation per byte read.

use std::borrow::Cow;

use galatea_flow::GpuOperator;

use super::{random_floats, words_of};

/// The Coulomb potential of atoms at points of space, cut off smoothly at a distance. An item is a point of
/// four floats, the last one unused. An output is a float.
#[derive(Debug, Clone)]
pub struct CoulombPotential {
    /// Position and charge of each atom.
    atoms: Vec<f32>,
}

impl CoulombPotential {
    const CUTOFF: f32 = 0.5;
    const INVERSE_SQUARE: f32 = 1.0 / (Self::CUTOFF * Self::CUTOFF);

    /// Random atoms within a cube of side 2.
    #[must_use]
    pub fn new(atoms: usize, seed: u64) -> Self {
        Self {
            atoms: random_floats(seed, 4 * atoms),
        }
    }

    /// The same on the CPU.
    #[must_use]
    pub fn compute(&self, point: [f32; 4]) -> f32 {
        let mut potential = 0.0_f32;
        for atom in self.atoms.chunks_exact(4) {
            let (x, y, z) = (point[0] - atom[0], point[1] - atom[1], point[2] - atom[2]);
            let square = z.mul_add(z, y.mul_add(y, x * x));
            let inside = square.mul_add(-Self::INVERSE_SQUARE, 1.0);
            if inside > 0.0 && square > 0.0 {
                potential += atom[3] * inside * inside / square.sqrt();
            }
        }
        potential
    }
}

impl GpuOperator for CoulombPotential {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("Coulomb potential")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Owned(format!(
            "struct Point {{ float x, y, z, charge; }};
struct Operator {{
    GALATEA_INLINE static void begin() {{}}
    GALATEA_INLINE static void compute(Work& work) {{
        const Point* atoms = work.parameters<Point>();
        map<Point, float>(work, [atoms](Point point, u32) {{
            float potential = 0.0f;
            for (u32 i = 0; i < {}u; ++i) {{
                const Point atom = atoms[i];
                const float x = point.x - atom.x, y = point.y - atom.y, z = point.z - atom.z;
                const float square = fmaf(z, z, fmaf(y, y, x * x));
                const float inside = fmaf(square, -{:?}f, 1.0f);
                if (inside > 0.0f && square > 0.0f) potential += atom.charge * inside * inside / sqrtf(square);
            }}
            return potential;
        }});
    }}
}};
",
            self.atoms.len() / 4,
            Self::INVERSE_SQUARE
        ))
    }

    fn parameters(&self) -> Vec<u64> {
        words_of(&self.atoms)
    }
}

/// A sum of samples of the Fourier space at voxels, as in the reconstruction of magnetic resonance images. An
/// item is a voxel of four floats, the last one unused. An output is two floats, real and imaginary.
#[derive(Debug, Clone)]
pub struct FourierSamples {
    /// Frequency, in turns per unit, and magnitude of each sample.
    samples: Vec<f32>,
}

/// Coefficients of sine and cosine of a turn from -1/2 to 1/2, by powers of its square: Taylor's, accurate to
/// 2e-5.
const SINE: [f32; 7] = [
    std::f32::consts::TAU,
    -41.341_7,
    81.605_25,
    -76.705_86,
    42.058_693,
    -15.094_643,
    3.819_952_7,
];
const COSINE: [f32; 8] = [
    1.0,
    -19.739_21,
    64.939_39,
    -85.456_82,
    60.244_64,
    -26.426_256,
    7.903_536_4,
    -1.714_390_7,
];

fn polynomial(coefficients: &[f32], x: f32) -> f32 {
    let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
    rest.iter().rev().fold(*last, |sum, next| sum.mul_add(x, *next))
}

impl FourierSamples {
    /// Random samples.
    #[must_use]
    pub fn new(samples: usize, seed: u64) -> Self {
        Self {
            samples: random_floats(seed, 4 * samples),
        }
    }

    /// The same on the CPU.
    #[must_use]
    pub fn compute(&self, voxel: [f32; 4]) -> [f32; 2] {
        let (mut real, mut imaginary) = (0.0_f32, 0.0_f32);
        for sample in self.samples.chunks_exact(4) {
            let turns = sample[2].mul_add(voxel[2], sample[1].mul_add(voxel[1], sample[0] * voxel[0]));
            let turn = turns - (turns + 0.5).floor();
            let square = turn * turn;
            real = polynomial(&COSINE, square).mul_add(sample[3], real);
            imaginary = (polynomial(&SINE, square) * turn).mul_add(sample[3], imaginary);
        }
        [real, imaginary]
    }
}

impl GpuOperator for FourierSamples {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("Fourier samples")
    }

    fn source(&self) -> Cow<'_, str> {
        let horner = |coefficients: &[f32]| {
            let (last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
            rest.iter().rev().fold(format!("{last:?}f"), |sum, next| {
                format!("fmaf({sum}, square, {next:?}f)")
            })
        };
        Cow::Owned(format!(
            "struct Sample {{ float x, y, z, magnitude; }};
struct alignas(8) Value {{ float real, imaginary; }};
struct Operator {{
    GALATEA_INLINE static void begin() {{}}
    GALATEA_INLINE static void compute(Work& work) {{
        const Sample* samples = work.parameters<Sample>();
        map<Sample, Value>(work, [samples](Sample voxel, u32) {{
            Value value = {{0.0f, 0.0f}};
            for (u32 i = 0; i < {}u; ++i) {{
                const Sample sample = samples[i];
                const float turns = fmaf(sample.z, voxel.z, fmaf(sample.y, voxel.y, sample.x * voxel.x));
                const float turn = turns - floorf(turns + 0.5f);
                const float square = turn * turn;
                value.real = fmaf({}, sample.magnitude, value.real);
                value.imaginary = fmaf({} * turn, sample.magnitude, value.imaginary);
            }}
            return value;
        }});
    }}
}};
",
            self.samples.len() / 4,
            horner(&COSINE),
            horner(&SINE)
        ))
    }

    fn parameters(&self) -> Vec<u64> {
        words_of(&self.samples)
    }
}

/// The product of rows of 16 floats with a matrix of 16 by 16.
#[derive(Debug, Clone)]
pub struct MatrixProduct {
    matrix: Vec<f32>,
}

impl MatrixProduct {
    const SIDE: usize = 16;

    /// A random matrix.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            matrix: random_floats(seed, Self::SIDE * Self::SIDE),
        }
    }

    /// The same on the CPU, for one output of a row.
    #[must_use]
    pub fn compute(&self, row: &[f32], column: usize) -> f32 {
        let pairs = row.iter().zip(self.matrix[column..].iter().step_by(Self::SIDE));
        pairs.fold(0.0_f32, |sum, (left, right)| left.mul_add(*right, sum))
    }
}

impl GpuOperator for MatrixProduct {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("matrix product")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Borrowed(
            "struct Operator {
    GALATEA_INLINE static void begin() {}
    GALATEA_INLINE static void compute(Work& work) {
        constexpr u32 SIDE = 16;
        const float* matrix = work.parameters<float>();
        const u32 items = work.items<float>() / SIDE * SIDE;
        if (items > work.capacity / 4) { work.set_output_bytes(work.capacity + 1); return; }
        for (u32 item = work.thread(); item < items; item += work.threads()) {
            const float* row = work.input<float>() + item / SIDE * SIDE;
            float sum = 0.0f;
            for (u32 k = 0; k < SIDE; ++k) sum = fmaf(row[k], matrix[k * SIDE + item % SIDE], sum);
            work.output<float>()[item] = sum;
        }
        work.set_output_bytes(items * 4);
    }
};
",
        )
    }

    fn parameters(&self) -> Vec<u64> {
        words_of(&self.matrix)
    }
}
