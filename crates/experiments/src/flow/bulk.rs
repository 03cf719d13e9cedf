//! The rate of bulk asynchronous copies over the link, through shared memory, on devices that support them.

use galatea_device::{ArgumentBytes, Device, Geometry, Program, SharedMemory};
use galatea_flow::Result;

use super::load::Load;

/// Whether the device supports bulk copies: compute capability 9.0 and later.
pub(super) fn bulk_copies_exist(device: &Device) -> bool {
    !device.info().emulated && device.info().compute_capability.0 >= 9
}

/// Bytes per second each way of one launch. Its blocks copy pieces from one place in host memory to another,
/// two pieces per block at a time.
pub(super) fn by_bulk_copies(
    device: &Device,
    load: &Load,
    blocks: u64,
    piece: usize,
    runs: usize,
) -> Result<Vec<f64>> {
    let stream = device.stream()?;
    let source = SOURCE.replace("PIECE_BYTES", &piece.to_string());
    let program = Program::new("bulk", source)
        .headers(galatea_kernels::headers())
        .entry("bulk");
    let function = device.compile(&program)?.module.function("bulk")?;
    let bytes = load.frame_bytes / piece * piece;
    let input = SharedMemory::new(device, bytes)?;
    let output = SharedMemory::new(device, bytes)?;
    let mut rates = Vec::new();
    for run in 0..=runs {
        let mut arguments = ArgumentBytes::new();
        for word in [input.address(), output.address(), bytes as u64] {
            arguments.push(word);
        }
        let start = stream.record()?;
        function.launch(&stream, Geometry::new(blocks, 32_u64), &arguments)?;
        let end = stream.record()?;
        stream.synchronize()?;
        if run > 0 {
            rates.push(bytes as f64 / end.elapsed_since(&start)?.as_secs_f64());
        }
    }
    Ok(rates)
}

const SOURCE: &str = r#"#include "galatea/prelude.cuh"

using namespace galatea;

constexpr u32 PIECE = PIECE_BYTES;
constexpr u32 STAGES = 2;

struct BulkArguments {
    const u8* input;
    u8* output;
    u64 bytes;
};

extern "C" __global__ void __launch_bounds__(32, 1) bulk(const BulkArguments args) {
    __shared__ alignas(128) u8 stage[STAGES][PIECE];
    __shared__ alignas(8) u64 arrived[STAGES];
    if (threadIdx.x != 0) return;
    const auto shared = [](const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); };
    for (u32 s = 0; s < STAGES; ++s) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(shared(arrived + s)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    const u64 pieces = args.bytes / PIECE;
    const auto load = [&](u64 piece, u32 s) {
        if (piece >= pieces) return;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(shared(arrived + s)), "r"(PIECE) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     : : "r"(shared(stage[s])), "l"(args.input + piece * PIECE), "r"(PIECE), "r"(shared(arrived + s)) : "memory");
    };
    for (u32 s = 0; s < STAGES; ++s) load(blockIdx.x + u64(s) * gridDim.x, s);
    u32 turn = 0;
    for (u64 piece = blockIdx.x; piece < pieces; piece += gridDim.x, ++turn) {
        const u32 s = turn % STAGES;
        u32 done = 0;
        while (done == 0) {
            asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                         : "=r"(done) : "r"(shared(arrived + s)), "r"(turn / STAGES % 2) : "memory");
        }
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     : : "l"(args.output + piece * PIECE), "r"(shared(stage[s])), "r"(PIECE) : "memory");
        asm volatile("cp.async.bulk.commit_group;" : : : "memory");
        // The stage is read, if not yet written, before its next piece comes.
        asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
        load(piece + STAGES * u64(gridDim.x), s);
    }
    asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
}
"#;
