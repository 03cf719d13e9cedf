//! Operators of the CPU and of the device.

use std::borrow::Cow;

use bytemuck::AnyBitPattern;

/// Errors of an operator on the CPU.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;

/// An operator's decision after a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Publish the output, if there is one, and go on.
    Next,
    /// Go on without publishing: the output frame is used again.
    Skip,
    /// Publish the output, and end: of a source this thread, whose last frame may be a partial one; of
    /// another operator all its threads, and what they have not read passes unread.
    Last,
    /// End likewise, without publishing.
    End,
}

/// An operator on the CPU: one instance per thread, which lives as long as the stream.
///
/// Each call has one frame of the previous topic to read, if there is one, and one of the next topic to
/// write. A source is called until it says [`Step::Last`] or [`Step::End`]; the others until they say so or
/// the previous topic ends.
pub trait CpuOperator: Send {
    /// Computes a frame.
    ///
    /// # Errors
    /// The operator's own: they end the topology.
    fn compute(&mut self, work: &mut CpuWork<'_>) -> Result<Step, OperatorError>;
}

impl<F: FnMut(&mut CpuWork<'_>) -> Result<Step, OperatorError> + Send> CpuOperator for F {
    fn compute(&mut self, work: &mut CpuWork<'_>) -> Result<Step, OperatorError> {
        self(work)
    }
}

/// Input and output of one call of an operator on the CPU.
#[derive(Debug)]
pub struct CpuWork<'a> {
    pub(crate) input: Option<&'a [u8]>,
    pub(crate) output: Option<&'a mut [u8]>,
    pub(crate) written: usize,
    pub(crate) source: Option<u64>,
    pub(crate) stamp: u64,
    pub(crate) now: u64,
}

impl CpuWork<'_> {
    /// Items of the input; none for a source. Bytes at the end that make no whole item are left out.
    #[must_use]
    pub fn input<T: AnyBitPattern>(&self) -> &[T] {
        let bytes = self.input.unwrap_or_default();
        // Frames are aligned to pages.
        bytemuck::cast_slice(&bytes[..bytes.len() - bytes.len() % size_of::<T>()])
    }

    /// Room for items of the output; none for a sink. Its content is that of an earlier frame.
    pub fn output<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        let bytes = self.output.as_deref_mut().unwrap_or_default();
        let whole = bytes.len() - bytes.len() % size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytes[..whole])
    }

    /// Input and room for the output, at once.
    pub fn both<T: AnyBitPattern, U: bytemuck::Pod>(&mut self) -> (&[T], &mut [U]) {
        let input = self.input.unwrap_or_default();
        let output = self.output.as_deref_mut().unwrap_or_default();
        let whole = output.len() - output.len() % size_of::<U>();
        (
            bytemuck::cast_slice(&input[..input.len() - input.len() % size_of::<T>()]),
            bytemuck::cast_slice_mut(&mut output[..whole]),
        )
    }

    /// Says how much of the output was written; more than a frame is an error. Without it: as many bytes as
    /// the input has, at most a frame; for a source, a whole frame.
    pub fn set_output_bytes(&mut self, bytes: usize) {
        self.written = bytes;
    }

    /// Place of the frame among those of the source, by which a sink can put frames in order; for a source,
    /// the place that it has set, or `None`: then it becomes the offset under which the frame is published.
    #[must_use]
    pub fn source(&self) -> Option<u64> {
        self.source
    }

    /// Sets the place of the frame among those of the source: for sources of several threads, whose order is
    /// not that of their offsets.
    pub fn set_source(&mut self, source: u64) {
        self.source = Some(source);
    }

    /// When the source published the frame, in nanoseconds since the topology started.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Now, on the same clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }
}

/// An operator on the device: a Rust type that carries a CUDA C++ body with typed frames.
pub trait GpuOperator: Send + Sync {
    /// Its name, in messages.
    fn name(&self) -> Cow<'_, str>;

    /// CUDA C++ that defines
    ///
    /// ```cuda
    /// struct Operator {
    ///     GALATEA_INLINE static void begin();             // all threads of a block, once
    ///     GALATEA_INLINE static void compute(Work& work); // the threads of some warps, for each frame
    /// };
    /// ```
    ///
    /// in a namespace of its own, with `cuda/galatea/flow/work.cuh` and [`GpuOperator::headers`] included.
    /// `compute` uses `work.thread()` and `work.threads()` and no barrier; `begin` may use barriers.
    fn source(&self) -> Cow<'_, str>;

    /// Headers of galatea's device code that the source needs, such as `galatea/arithmetic.cuh`.
    fn headers(&self) -> &[&'static str] {
        &[]
    }

    /// The words that `work.parameters()` leads to; 64 bits each.
    fn parameters(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// An operator that computes each item on its own: `out[i] = f(in[i])`.
#[derive(Debug, Clone)]
pub struct Map {
    name: String,
    input: String,
    output: String,
    expression: String,
}

impl Map {
    /// An operator between items of two CUDA C++ types of at most 16 bytes, by an expression of `value` (the
    /// item) and `index` (its place in the frame).
    ///
    /// ```
    /// let double = galatea_flow::Map::new("double", "u32", "u32", "value * 2u");
    /// ```
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        input: impl Into<String>,
        output: impl Into<String>,
        expression: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            input: input.into(),
            output: output.into(),
            expression: expression.into(),
        }
    }
}

impl GpuOperator for Map {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn source(&self) -> Cow<'_, str> {
        let Self {
            input,
            output,
            expression,
            ..
        } = self;
        Cow::Owned(format!(
            "struct Operator {{\n    \
                 GALATEA_INLINE static void begin() {{}}\n    \
                 GALATEA_INLINE static void compute(Work& work) {{\n        \
                     map<{input}, {output}>(work, [](const {input} value, const u32 index) -> {output} {{\n            \
                         (void)index;\n            \
                         return {expression};\n        \
                     }});\n    \
                 }}\n\
             }};\n"
        ))
    }
}
