//! The kernels of baselines: an operator's body, without a stream.

use galatea_flow::GpuOperator;

/// Generates a kernel that computes one batch with an operator's body. As a baseline of streams, it is
/// launched for each batch. Blocks process units of the batch, each of which is a frame.
pub(super) fn generate_batch(operator: &dyn GpuOperator, block_threads: u32) -> String {
    baseline("batch", "BatchArguments", BATCH, operator, block_threads)
}

/// Generates a persistent kernel, as a baseline of streams. It computes the tasks that the host writes into a
/// table with an entry for each block.
pub(super) fn generate_tasks(operator: &dyn GpuOperator, block_threads: u32) -> String {
    baseline("tasks", "TaskArguments", TASKS, operator, block_threads)
}

fn baseline(
    name: &str,
    arguments: &str,
    (fields, body): (&str, &str),
    operator: &dyn GpuOperator,
    block_threads: u32,
) -> String {
    let source = operator.source();
    let headers = operator.headers().iter();
    let headers: String = headers.map(|header| format!("#include \"{header}\"\n")).collect();
    format!(
        "#include \"galatea/flow/paging.cuh\"\n#include \"galatea/link.cuh\"\n{headers}\nusing namespace galatea;\n\n\
         namespace body {{\n{source}}}  // namespace body\n\nstruct {arguments} {{\n{fields}}};\n\n{COMPUTE}\n\
         extern \"C\" __global__ void __launch_bounds__({block_threads}, 1) {name}(const {arguments} args) {{\n\
         {body}}}\n"
    )
}

/// Computes one frame with all threads of a block.
const COMPUTE: &str = "GALATEA_INLINE void compute(const u8* input, u8* output, u64 bytes, u64 capacity, u64 first, u64 parameters) {
    __shared__ Work work;
    __shared__ u64 origin;
    __syncthreads();
    if (threadIdx.x == 0) {
        origin = first;
        work.frame_in = input;
        work.frame_out = output;
        work.origin = &origin;
        work.own_parameters = parameters;
        work.bytes_in = u32(bytes);
        work.capacity = u32(capacity);
        work.bytes_out = work.bytes_in;
        work.first_warp = 0;
        work.warps = blockDim.x / 32;
        work.failure = 0;
    }
    __syncthreads();
    body::Operator::compute(work);
}
";

/// Arguments and body of the kernel of a batch.
const BATCH: (&str, &str) = (
    "    const u8* input;
    u8* output;
    u64 parameters;
    u64 bytes;
    u64 first;  // place of the first unit at the source
    u64 unit;   // bytes of a unit, of input and of output
",
    "    body::Operator::begin();
    for (u64 unit = blockIdx.x; unit * args.unit < args.bytes; unit += gridDim.x) {
        const u64 at = unit * args.unit;
        const u64 rest = args.bytes - at;
        compute(args.input + at, args.output + at, rest < args.unit ? rest : args.unit, args.unit, args.first + unit,
                args.parameters);
    }
",
);

/// Arguments and body of the kernel of tasks.
const TASKS: (&str, &str) = (
    "    const u64* table;  // host memory: a line of 8 words for each block: task, input, output, bytes, source
    u64* done;         // host memory: a line for each block: the last task that it has done
    u64 parameters;
",
    "    __shared__ u64 entry[5];
    body::Operator::begin();
    const u64* line = args.table + u64(blockIdx.x) * 8;
    u64 last = 0;
    while (true) {
        if (threadIdx.x == 0) {
            do entry[0] = load_acquire_system(line);
            while (entry[0] == last);
            for (u32 word = 1; word < 5; ++word) entry[word] = load_relaxed_system(line + word);
        }
        __syncthreads();
        last = entry[0];
        if (last == ~0ull) return;
        compute(reinterpret_cast<const u8*>(entry[1]), reinterpret_cast<u8*>(entry[2]), entry[3], entry[3], entry[4],
                args.parameters);
        __syncthreads();
        if (threadIdx.x == 0) {
            fence(true);
            store_relaxed_system(args.done + u64(blockIdx.x) * 8, last);
        }
        __syncthreads();
    }
",
);
