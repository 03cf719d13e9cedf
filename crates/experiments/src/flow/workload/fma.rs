//! FMAx: fused multiply-adds on each item, to vary the amount of computation of an operator (XeFlow, section
//! 6.4).

use std::borrow::Cow;

use galatea_flow::GpuOperator;

/// `count` fused multiply-adds for each 32-bit float, each on the result of the previous one.
#[derive(Debug, Clone, Copy)]
pub struct Fma {
    /// The number of multiply-adds.
    pub count: u32,
}

impl Fma {
    const FACTOR: f32 = 0.999_9;
    const ADDEND: f32 = 0.125;

    /// The same on the CPU, bit by bit.
    #[must_use]
    pub fn compute(self, value: f32) -> f32 {
        (0..self.count).fold(value, |value, _| value.mul_add(Self::FACTOR, Self::ADDEND))
    }
}

impl GpuOperator for Fma {
    fn name(&self) -> Cow<'_, str> {
        Cow::Owned(format!("FMA{}", self.count))
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Owned(format!(
            "struct Operator {{\n    \
                 GALATEA_INLINE static void begin() {{}}\n    \
                 GALATEA_INLINE static void compute(Work& work) {{\n        \
                     map<float, float>(work, [](float value, u32) {{\n\
             #pragma unroll\n            \
                         for (u32 step = 0; step < {}u; ++step) value = fmaf(value, {:?}f, {:?}f);\n            \
                         return value;\n        \
                     }});\n    \
                 }}\n\
             }};\n",
            self.count,
            Self::FACTOR,
            Self::ADDEND
        ))
    }
}
