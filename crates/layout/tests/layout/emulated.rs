//! The analyser compared with the emulated device's shared-memory counters: kernels read a column in the
//! order of the patterns.

use galatea_device::{ArgumentBytes, Counters, Device, DeviceOptions, EmulatorOptions, Geometry, Program};
use galatea_kernels::headers;
use galatea_layout::{
    AccessPattern, Analyser, Budget, Frequencies, Goal, LayoutOptions, Strided, Tiles, lay_out,
};

/// One read and one atomic of the word in each row.
const SOURCE: &str = r#"
#include "galatea/morsel.cuh"
using namespace galatea;

struct Arguments { const unsigned char* words; u32* sums; u64 rows; u64 morsel_rows; };

GALATEA_INLINE u32 touch(u32* table, u32 word) {
    const u32 before = *(volatile u32*)(table + word);
    atomicAdd(table + word, 1u);
    return before;
}

// A block takes a morsel; a thread takes V consecutive rows a step.
template <int V> GALATEA_INLINE void walk(const Arguments& args, u32* table) {
    const u64 begin = blockIdx.x * args.morsel_rows;
    const u64 end = begin + args.morsel_rows < args.rows ? begin + args.morsel_rows : args.rows;
    u32 sum = 0;
    for (u64 step = begin; step < end; step += blockDim.x * V) {
        const u64 row = step + threadIdx.x * V;
        if (row >= end) continue;
        const Rows<u32, V> words = load_rows<u32, V>(args.words, u32(row));
        for (int i = 0; i < V; ++i)
            if (row + i < end) sum += touch(table, words[i]);
    }
    args.sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void walk_1(Arguments args) { GALATEA_DYNAMIC_SHARED(bytes); walk<1>(args, (u32*)bytes); }
extern "C" __global__ void walk_4(Arguments args) { GALATEA_DYNAMIC_SHARED(bytes); walk<4>(args, (u32*)bytes); }
extern "C" __global__ void walk_8(Arguments args) { GALATEA_DYNAMIC_SHARED(bytes); walk<8>(args, (u32*)bytes); }
extern "C" __global__ void walk_strided(Arguments args) {
    GALATEA_DYNAMIC_SHARED(bytes);
    u32 sum = 0;
    for (u64 row = blockIdx.x * blockDim.x + threadIdx.x; row < args.rows; row += gridDim.x * blockDim.x)
        sum += touch((u32*)bytes, ((const u32*)args.words)[row]);
    args.sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"#;

/// Number of threads of a block.
const THREADS: u32 = 64;

fn counters(device: &Device, kernel: &str, words: &[u32], blocks: usize, morsel_rows: usize) -> Counters {
    let mut program = Program::new("walk", SOURCE).headers(headers());
    program.entries = ["walk_1", "walk_4", "walk_8", "walk_strided"]
        .map(String::from)
        .into();
    let module = device.compile(&program).unwrap().module;
    let stream = device.stream().unwrap();
    // Vector loads may read past the last row.
    let padded: Vec<u32> = words.iter().copied().chain([0; 64]).collect();
    let column = device.upload(&stream, &padded).unwrap();
    let sums = device.zeroed::<u32>(&stream, blocks * THREADS as usize).unwrap();
    let mut arguments = ArgumentBytes::new();
    for value in [
        column.address(),
        sums.address(),
        words.len() as u64,
        morsel_rows as u64,
    ] {
        arguments.push(value);
    }
    let geometry = Geometry::new(blocks as u32, THREADS).with_shared(64 << 10);
    stream.synchronize().unwrap();
    device.reset_counters();
    module
        .function(kernel)
        .unwrap()
        .launch(&stream, geometry, &arguments)
        .unwrap();
    stream.synchronize().unwrap();
    device.counters().unwrap()
}

fn check(
    device: &Device,
    kernel: &str,
    words: &[u32],
    pattern: &dyn AccessPattern,
    morsel_rows: usize,
    what: &str,
) {
    let blocks = pattern.blocks(words.len());
    let counted = counters(device, kernel, words, blocks, morsel_rows);
    let expected = Analyser::default().words(words, pattern);
    let reads = counted.shared_reads;
    let atomics = counted.shared_atomics;
    assert_eq!(reads.rounds, expected.read_rounds, "reads of {kernel}, {what}");
    assert_eq!(
        atomics.rounds, expected.write_rounds,
        "atomics of {kernel}, {what}"
    );
    assert_eq!(atomics.instructions, expected.accesses, "{kernel}, {what}");
    assert_eq!(
        atomics.lanes.iter().sum::<u64>(),
        expected.lanes,
        "{kernel}, {what}"
    );
}

#[test]
fn device_counters_match_the_analyser() {
    let threads = THREADS as usize;
    for seed in [0, 5] {
        let emulator = EmulatorOptions {
            seed,
            count: true,
            ..EmulatorOptions::default()
        };
        let device = Device::emulated(emulator, DeviceOptions::default()).unwrap();
        for (theta, rows) in [(0.0, 2048), (1.0, 3001), (2.0, 33)] {
            let column = Frequencies::zipf(1024, theta).unwrap().column(rows, seed);
            for (kernel, rows_per_thread) in [("walk_1", 1), ("walk_4", 4), ("walk_8", 8)] {
                let morsel = threads * rows_per_thread * 2;
                let pattern = Tiles::new(threads, rows_per_thread, morsel).unwrap();
                let what = format!("θ {theta}, {rows} rows, seed {seed}");
                check(&device, kernel, &column, &pattern, morsel, &what);

                let how = LayoutOptions::new(Goal::Writes { window: 2 }, Budget::copies(12.0));
                let layout = lay_out(column.clone(), 1024, &pattern, &how).unwrap();
                assert_eq!(layout.report.mean_rounds(), 1.0, "{what}");
                check(
                    &device,
                    kernel,
                    &layout.slots,
                    &pattern,
                    morsel,
                    &format!("laid out, {what}"),
                );
            }
            let strided = Strided::new(3, threads).unwrap();
            check(
                &device,
                "walk_strided",
                &column,
                &strided,
                0,
                &format!("θ {theta}, {rows} rows, seed {seed}"),
            );
        }
    }
}
