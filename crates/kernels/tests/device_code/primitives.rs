//! Warp and block primitives, compared with the host, for block sizes around the boundaries of a warp, every
//! type, and several seeds.

use std::fmt::{Debug, Write as _};

use galatea_device::{ArgumentBytes, Device, DeviceOptions, EmulatorOptions, Geometry, Program};
use galatea_kernels::headers;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::emulated;

const BLOCKS: [u32; 9] = [1, 31, 32, 33, 64, 255, 256, 257, 1024];
const SEEDS: [u64; 4] = [0, 1, 2, 99];

/// A type of the primitives, with values that wrap.
trait Value: bytemuck::Pod + PartialEq + PartialOrd + Debug {
    const C: &'static str;
    const LEAST: Self;
    const GREATEST: Self;
    const ZERO: Self;
    fn random(random: &mut SmallRng) -> Self;
    fn sum(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Value for $type {
            const C: &'static str = stringify!($type);
            const LEAST: Self = <$type>::MIN;
            const GREATEST: Self = <$type>::MAX;
            const ZERO: Self = 0;
            fn random(random: &mut SmallRng) -> Self {
                match random.random_range(0..8) {
                    0 => <$type>::MIN,
                    1 => <$type>::MAX,
                    2 => 0,
                    _ => random.random(),
                }
            }
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
integers!(i32 u32 i64 u64);

impl Value for f64 {
    const C: &'static str = "double";
    const LEAST: Self = f64::NEG_INFINITY;
    const GREATEST: Self = f64::INFINITY;
    const ZERO: Self = 0.0;
    /// Whole numbers, with sums that are exact in any order.
    fn random(random: &mut SmallRng) -> Self {
        f64::from(random.random_range(-1_000_000i32..1_000_000))
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
}

const TYPES: [&str; 5] = ["i32", "u32", "i64", "u64", "double"];
const OPERATORS: [&str; 3] = ["Sum", "Min", "Max"];

/// One kernel per type and operator: from in[thread] to the block's reduction, its total by scan, and the
/// scan itself; the warp's reduction on lane 0.
fn program() -> Program {
    let mut source = String::from("#include \"galatea/block.cuh\"\nusing namespace galatea;\n");
    let mut entries = Vec::new();
    for c in TYPES {
        for operator in OPERATORS {
            let name = format!("collect_{c}_{operator}");
            let _ = write!(
                source,
                r#"
struct Arguments_{name} {{ const {c}* in; {c}* reduced; {c}* total; {c}* scanned; {c}* warp_reduced; }};
extern "C" __global__ void {name}(Arguments_{name} args) {{
    __shared__ Scratch<{c}> scratch;
    const u32 t = threadIdx.x;
    const {c} value = args.in[t];
    args.reduced[t] = block_reduce(value, {operator}{{}}, scratch);
    {c} total;
    args.scanned[t] = block_exclusive_scan(value, {operator}{{}}, total, scratch);
    args.total[t] = total;
    const {c} of_warp = warp_reduce(value, {operator}{{}});
    if (lane() == 0) args.warp_reduced[warp()] = of_warp;
}}
"#
            );
            entries.push(name);
        }
    }
    let mut program = Program::new("primitives", source).headers(headers());
    program.entries = entries;
    program
}

fn check<T: Value>(device: &Device, seed: u64) {
    let module = device.compile(&program()).unwrap().module;
    let stream = device.stream().unwrap();
    let mut random = SmallRng::seed_from_u64(seed);
    for block in BLOCKS {
        let len = block as usize;
        let values: Vec<T> = (0..len).map(|_| T::random(&mut random)).collect();
        let input = device.upload(&stream, &values).unwrap();
        for operator in OPERATORS {
            let (identity, combine): (T, fn(T, T) -> T) = match operator {
                "Sum" => (T::ZERO, T::sum),
                "Min" => (T::GREATEST, |a, b| if b < a { b } else { a }),
                _ => (T::LEAST, |a, b| if a < b { b } else { a }),
            };
            let reduced = device.zeroed::<T>(&stream, len).unwrap();
            let total = device.zeroed::<T>(&stream, len).unwrap();
            let scanned = device.zeroed::<T>(&stream, len).unwrap();
            let warps = device.zeroed::<T>(&stream, len.div_ceil(32)).unwrap();
            let mut arguments = ArgumentBytes::new();
            for buffer in [&input, &reduced, &total, &scanned, &warps] {
                arguments.push(buffer.address());
            }
            let function = module.function(&format!("collect_{}_{operator}", T::C)).unwrap();
            function
                .launch(&stream, Geometry::new(1u32, block), &arguments)
                .unwrap();

            let all = values.iter().copied().fold(identity, combine);
            let before: Vec<T> = values
                .iter()
                .scan(identity, |running, value| {
                    let before = *running;
                    *running = combine(before, *value);
                    Some(before)
                })
                .collect();
            let of_warps: Vec<T> = values
                .chunks(32)
                .map(|warp| warp.iter().copied().fold(identity, combine))
                .collect();
            let case = format!("{operator} of {block} {} with seed {seed}", T::C);
            assert_eq!(
                stream.read(&reduced, ..).unwrap(),
                vec![all; len],
                "block_reduce: {case}"
            );
            assert_eq!(
                stream.read(&total, ..).unwrap(),
                vec![all; len],
                "total of the scan: {case}"
            );
            assert_eq!(
                stream.read(&scanned, ..).unwrap(),
                before,
                "block_exclusive_scan: {case}"
            );
            assert_eq!(stream.read(&warps, ..).unwrap(), of_warps, "warp_reduce: {case}");
        }
    }
}

fn check_all(device: &Device, seed: u64) {
    check::<i32>(device, seed);
    check::<u32>(device, seed);
    check::<i64>(device, seed);
    check::<u64>(device, seed);
    check::<f64>(device, seed);
}

#[test]
fn collectives_agree_with_the_host() {
    for seed in SEEDS {
        check_all(&emulated(seed), seed);
    }
}

/// Threads may be switched at every basic block, which exposes a missing barrier.
#[test]
fn collectives_agree_with_the_host_under_stress() {
    for seed in SEEDS {
        let options = EmulatorOptions {
            seed,
            stress: true,
            ..EmulatorOptions::default()
        };
        let device = Device::emulated(options, DeviceOptions::default()).unwrap();
        check::<u64>(&device, seed);
        check_append(&device, seed);
    }
}

#[test]
fn collectives_agree_with_the_host_on_a_gpu() {
    let Some(device) = galatea_device::testing::gpu() else {
        return;
    };
    for seed in SEEDS {
        check_all(&device, seed);
    }
}

/// Every thread keeps its index if `keep` is true: by warps, and `counts[thread]` times by blocks.
const APPEND: &str = r#"
#include "galatea/block.cuh"
using namespace galatea;
struct Arguments { const u32* counts; u64 count; u64* counters; u32* by_warp; u32* by_block; };
extern "C" __global__ void append(Arguments args) {
    __shared__ Scratch<u32> scratch;
    __shared__ u64 first;
    const u64 i = grid_thread();
    const u32 count = i < args.count ? args.counts[i] : 0;
    const u64 place = warp_append(first_lanes(live_lanes()), &args.counters[0], count > 0);
    if (count > 0) args.by_warp[place] = u32(i);
    const u64 places = block_append(&args.counters[1], count, scratch, first);
    for (u32 k = 0; k < count; ++k) args.by_block[places + k] = u32(i);
}
"#;

fn check_append(device: &Device, seed: u64) {
    let program = Program::new("append", APPEND).headers(headers()).entry("append");
    let function = device
        .compile(&program)
        .unwrap()
        .module
        .function("append")
        .unwrap();
    let stream = device.stream().unwrap();
    let mut random = SmallRng::seed_from_u64(seed);
    for block in BLOCKS {
        for blocks in [1u32, 3] {
            let len = (block * blocks) as usize - random.random_range(0..block as usize);
            let counts: Vec<u32> = (0..len)
                .map(|_| random.random_range(0..4u32).saturating_sub(1))
                .collect();
            let kept: Vec<u32> = (0..)
                .zip(&counts)
                .filter(|(_, count)| **count > 0)
                .map(|(index, _)| index)
                .collect();
            let repeated: Vec<u32> = (0..)
                .zip(&counts)
                .flat_map(|(index, count)| vec![index; *count as usize])
                .collect();
            let input = device.upload(&stream, &counts).unwrap();
            let counters = device.zeroed::<u64>(&stream, 2).unwrap();
            let by_warp = device.zeroed::<u32>(&stream, kept.len()).unwrap();
            let by_block = device.zeroed::<u32>(&stream, repeated.len()).unwrap();
            let mut arguments = ArgumentBytes::new();
            arguments.push(input.address());
            arguments.push(len as u64);
            for address in [counters.address(), by_warp.address(), by_block.address()] {
                arguments.push(address);
            }
            function
                .launch(&stream, Geometry::new(blocks, block), &arguments)
                .unwrap();
            let case = format!("{blocks} blocks of {block}, {len} values, seed {seed}");
            let counters = stream.read(&counters, ..).unwrap();
            assert_eq!(counters, [kept.len() as u64, repeated.len() as u64], "{case}");
            // Warps and blocks arrive in any order; within one, positions are in lane order.
            let mut by_warp = stream.read(&by_warp, ..).unwrap();
            by_warp.sort_unstable();
            assert_eq!(by_warp, kept, "{case}");
            let mut by_block = stream.read(&by_block, ..).unwrap();
            for window in by_block.windows(2) {
                let same_block = window[0] / block == window[1] / block;
                assert!(
                    !same_block || window[0] <= window[1],
                    "not in thread order: {case}"
                );
            }
            by_block.sort_unstable();
            assert_eq!(by_block, repeated, "{case}");
        }
    }
}

#[test]
fn append_reserves_each_position_once() {
    for seed in SEEDS {
        check_append(&emulated(seed), seed);
    }
}

#[test]
fn append_reserves_each_position_once_on_a_gpu() {
    let Some(device) = galatea_device::testing::gpu() else {
        return;
    };
    for seed in SEEDS {
        check_append(&device, seed);
    }
}
