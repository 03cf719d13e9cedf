//! The source of a topology's kernel: the bodies of its operators around the loop that runs them.

use std::fmt::Write as _;

use crate::operator::GpuOperator;
use crate::topology::{Link, Operator, Topology};

/// A topology's kernel.
#[derive(Debug)]
pub(crate) struct Generated {
    pub(crate) source: String,
    /// Body of each operator on the device; operators of one source share it.
    pub(crate) bodies: Vec<u32>,
}

impl Topology {
    /// The CUDA C++ of the kernel that runs its operators on the device, for blocks of so many threads;
    /// `None` without any.
    #[must_use]
    pub fn kernel_source(&self, block_threads: u32) -> Option<String> {
        self.device_links().next()?;
        Some(generate(self.device_links(), block_threads).source)
    }
}

/// Writes the kernel of these operators, which are all on the device.
pub(crate) fn generate<'a>(links: impl Iterator<Item = &'a Link>, block_threads: u32) -> Generated {
    let mut distinct: Vec<String> = Vec::new();
    let mut bodies = Vec::new();
    for link in links {
        let Operator::Gpu(operator) = &link.operator else {
            continue;
        };
        let source = operator.source();
        let body = distinct
            .iter()
            .position(|known| *known == *source)
            .unwrap_or_else(|| {
                distinct.push(source.into_owned());
                distinct.len() - 1
            });
        bodies.push(body as u32);
    }
    let mut source = String::from("#include \"galatea/flow/run.cuh\"\n\nusing namespace galatea;\n");
    let (mut begin, mut compute) = (String::new(), String::new());
    for (body, text) in distinct.iter().enumerate() {
        let _ = write!(
            source,
            "\nnamespace body_{body} {{\n{text}}}  // namespace body_{body}\n"
        );
        let _ = writeln!(begin, "        body_{body}::Operator::begin();");
        let _ = writeln!(
            compute,
            "        case {body}: body_{body}::Operator::compute(work); break;"
        );
    }
    let _ = write!(
        source,
        "\nstruct Bodies {{\n    \
             GALATEA_INLINE static void begin() {{\n{begin}    }}\n    \
             GALATEA_INLINE static void compute(u32 body, Work& work) {{\n        \
                 switch (body) {{\n{compute}        }}\n    \
             }}\n\
         }};\n\n\
         extern \"C\" __global__ void __launch_bounds__({block_threads}, 1) flow(const FlowArguments args) \
         {{ run<Bodies>(args); }}\n"
    );
    Generated { source, bodies }
}

/// Writes a kernel that computes one batch by an operator's body, to be launched for each batch, as a
/// baseline of streams. Blocks take units of the batch, each a frame of its own.
pub(crate) fn generate_batch(operator: &dyn GpuOperator, block_threads: u32) -> String {
    let body = operator.source();
    format!(
        "#include \"galatea/flow/work.cuh\"\n#include \"galatea/link.cuh\"\n\nusing namespace galatea;\n\n\
         namespace body {{\n{body}}}  // namespace body\n\n{BATCH_ARGUMENTS}\n\
         extern \"C\" __global__ void __launch_bounds__({block_threads}, 1) batch(const BatchArguments args) {{\n\
         {BATCH_LOOP}}}\n"
    )
}

const BATCH_ARGUMENTS: &str = "struct BatchArguments {
    const u8* input;
    u8* output;
    u64 parameters;
    u64 bytes;
    u64 first;  // place of the first unit at the source
    u64 unit;   // bytes of a unit, of input and of output
};
";

const BATCH_LOOP: &str = "    __shared__ Work work;
    __shared__ u64 slot[SLOT_WORDS];
    body::Operator::begin();
    for (u64 unit = blockIdx.x; unit * args.unit < args.bytes; unit += gridDim.x) {
        __syncthreads();
        if (threadIdx.x == 0) {
            const u64 rest = args.bytes - unit * args.unit;
            slot[SLOT_SOURCE] = args.first + unit;
            work.frame_in = args.input + unit * args.unit;
            work.frame_out = args.output + unit * args.unit;
            work.slot = slot;
            work.own_parameters = args.parameters;
            work.bytes_in = u32(rest < args.unit ? rest : args.unit);
            work.capacity = u32(args.unit);
            work.bytes_out = work.bytes_in;
            work.first_warp = 0;
            work.warps = blockDim.x / 32;
            work.failure = 0;
        }
        __syncthreads();
        body::Operator::compute(work);
    }
";
