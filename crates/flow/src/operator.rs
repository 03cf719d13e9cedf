//! Operators of the CPU and of the device.

use std::borrow::Cow;

use bytemuck::AnyBitPattern;

/// Errors of an operator on the CPU.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;

/// The decision of an operator after a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Publish the output, if the operator has one, and continue.
    Next,
    /// Continue without publishing. The output frame is reused.
    Skip,
    /// Publish the output, and end. A source ends this thread, and its last frame may be a partial one.
    /// Another operator ends all its threads, and the frames that they have not read are discarded.
    Last,
    /// End like [`Self::Last`], without publishing.
    End,
}

/// An operator on the CPU: one instance per thread, which lives as long as the stream.
///
/// Each call has one frame of the previous topic to read and one of the next topic to write, if the operator
/// has these topics. A source is called until it returns [`Step::Last`] or [`Step::End`]. Others are called
/// until they return one of these or the previous topic ends.
pub trait CpuOperator: Send {
    /// Computes a frame.
    ///
    /// # Errors
    /// Errors of the operator. They end the topology.
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
    /// Items of the input; none for a source. Trailing bytes that are less than an item are left out.
    #[must_use]
    pub fn input<T: AnyBitPattern>(&self) -> &[T] {
        let bytes = self.input.unwrap_or_default();
        // Frames are aligned to pages.
        bytemuck::cast_slice(&bytes[..bytes.len() - bytes.len() % size_of::<T>()])
    }

    /// Memory for items of the output; none for a sink. It contains the items of an earlier frame.
    pub fn output<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        let bytes = self.output.as_deref_mut().unwrap_or_default();
        let whole = bytes.len() - bytes.len() % size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytes[..whole])
    }

    /// The input and the memory for the output.
    pub fn both<T: AnyBitPattern, U: bytemuck::Pod>(&mut self) -> (&[T], &mut [U]) {
        let input = self.input.unwrap_or_default();
        let output = self.output.as_deref_mut().unwrap_or_default();
        let whole = output.len() - output.len() % size_of::<U>();
        (
            bytemuck::cast_slice(&input[..input.len() - input.len() % size_of::<T>()]),
            bytemuck::cast_slice_mut(&mut output[..whole]),
        )
    }

    /// Sets the number of bytes of the output; more than a frame is an error. By default it is the number of
    /// bytes of the input, at most a frame; for a source, a whole frame.
    pub fn set_output_bytes(&mut self, bytes: usize) {
        self.written = bytes;
    }

    /// Position of the frame in the order of the source. A sink can sort frames by it. For a source, it is
    /// the position that it has set; if `None`, the frame gets the offset under which it is published.
    #[must_use]
    pub fn source(&self) -> Option<u64> {
        self.source
    }

    /// Sets the position of the frame in the order of the source: for sources with several threads, in which
    /// the order differs from that of the offsets.
    pub fn set_source(&mut self, source: u64) {
        self.source = Some(source);
    }

    /// The time at which the source published the frame, in nanoseconds since the topology started.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The current time on the same clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }
}

/// An operator on the device: a Rust type that provides a CUDA C++ body with typed frames.
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

    /// Headers of Galatea's device code that the source needs, such as `galatea/arithmetic.cuh`.
    fn headers(&self) -> &[&'static str] {
        &[]
    }

    /// The 64-bit words to which `work.parameters()` points.
    fn parameters(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// An operator that computes each item independently: `out[i] = f(in[i])`.
#[derive(Debug, Clone)]
pub struct Map {
    name: String,
    input: String,
    output: String,
    expression: String,
}

impl Map {
    /// An operator between items of two CUDA C++ types of at most 16 bytes, by an expression of `value` (the
    /// item) and `index` (its position in the frame).
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
