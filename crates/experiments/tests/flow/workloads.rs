//! Compares workloads with known vectors, with the CPU's computation, and by reconstruction.

use std::sync::{Arc, Mutex};

use galatea_device::Device;
use galatea_experiments::flow::workload::shapes::{
    CoulombPotential, FourierSamples, Histogram, MatrixProduct, SparseProduct, Stencil,
};
use galatea_experiments::flow::workload::{Aes128, Fma, Mode, Raid6, expand_key};
use galatea_flow::{Cpu, CpuWork, GpuOperator, Step, Topic, Topology};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::{emulated, small};

/// Runs an operator over frames of bytes. Returns the outputs by position.
fn through(
    device: &Device,
    operator: impl GpuOperator + 'static,
    frame_bytes: usize,
    input: &[u8],
) -> Vec<Vec<u8>> {
    let mut topology = Topology::new();
    let there = topology.topic(Topic::new("there").frame_bytes(frame_bytes).depth(4));
    let back = topology.topic(Topic::new("back").frame_bytes(frame_bytes).depth(4));
    let frames: Arc<Vec<Vec<u8>>> = Arc::new(input.chunks(frame_bytes).map(<[u8]>::to_vec).collect());
    let count = frames.len();
    let source = Cpu::new("source", 1, move |_| {
        let frames = Arc::clone(&frames);
        let mut next = 0;
        move |work: &mut CpuWork<'_>| {
            let Some(frame) = frames.get(next) else {
                return Ok(Step::End);
            };
            next += 1;
            work.output::<u8>()[..frame.len()].copy_from_slice(frame);
            work.set_output_bytes(frame.len());
            Ok(Step::Next)
        }
    });
    let outputs = Arc::new(Mutex::new(vec![Vec::new(); count]));
    let collected = Arc::clone(&outputs);
    let sink = Cpu::new("sink", 1, move |_| {
        let collected = Arc::clone(&collected);
        move |work: &mut CpuWork<'_>| {
            collected.lock().unwrap()[work.source().unwrap() as usize] = work.input::<u8>().to_vec();
            Ok(Step::Next)
        }
    });
    topology
        .link(None, source, Some(there))
        .link(Some(there), operator, Some(back))
        .link(Some(back), sink, None);
    topology.run(device, &small(2, 64)).unwrap();
    let outputs = outputs.lock().unwrap();
    outputs.clone()
}

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..bytes).map(|_| random.random()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";
/// The plaintext of SP 800-38A, appendix F.
const TEXT: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                    30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

fn key(text: &str) -> [u8; 16] {
    hex(text).try_into().unwrap()
}

#[test]
fn aes_key_expansion_matches_fips_197() {
    // FIPS 197, appendix A.1: words 4 and 43.
    let keys = expand_key(key(KEY));
    assert_eq!(keys[4].to_le_bytes().to_vec(), hex("a0fafe17"));
    assert_eq!(keys[43].to_le_bytes().to_vec(), hex("b6630ca6"));
}

#[test]
fn aes_matches_standard_test_vectors() {
    let device = emulated(101);
    // FIPS 197, appendix C.1.
    let operator = Aes128::new(key("000102030405060708090a0b0c0d0e0f"), Mode::Ecb, 4096);
    let text = hex("00112233445566778899aabbccddeeff");
    assert_eq!(
        through(&device, operator, 4096, &text),
        [hex("69c4e0d86a7b0430d8cdb78070b4c55a")]
    );
    // SP 800-38A, F.1.1.
    let operator = Aes128::new(key(KEY), Mode::Ecb, 4096);
    let cipher = "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf\
                  43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4";
    assert_eq!(through(&device, operator, 4096, &hex(TEXT)), [hex(cipher)]);
    // SP 800-38A, F.5.1: the counter starts at f0f1f2f3f4f5f6f7 f8f9fafbfcfdfeff. Counters here start at 0,
    // so the nonce is checked by the CPU's cipher, and this vector's first block with ECB.
    let counter = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let stream = through(&device, Aes128::new(key(KEY), Mode::Ecb, 4096), 4096, &counter);
    let first: Vec<u8> = stream[0]
        .iter()
        .zip(hex(TEXT))
        .map(|(stream, text)| stream ^ text)
        .collect();
    assert_eq!(first, hex("874d6191b620e3261bef6864990db6ce"));
}

#[test]
fn aes_agrees_with_the_cpu_in_both_modes() {
    let device = emulated(102);
    for (seed, bytes) in [(1_u64, 16), (2, 4096), (3, 4096 + 16), (4, 5 * 4096 + 33 * 16)] {
        let input = random(seed, bytes);
        let key: [u8; 16] = random(seed + 100, 16).try_into().unwrap();
        for mode in [
            Mode::Ecb,
            Mode::Ctr {
                nonce: 0x0123_4567_89ab_cdef ^ seed,
            },
        ] {
            let operator = Aes128::new(key, mode, 4096);
            let outputs = through(&device, operator.clone(), 4096, &input);
            for (frame, (output, input)) in outputs.iter().zip(input.chunks(4096)).enumerate() {
                let mut expected = vec![0; input.len()];
                operator.encrypt(frame as u64, input, &mut expected);
                assert_eq!(
                    *output, expected,
                    "frame {frame} of {bytes} bytes, {mode:?}, seed {seed}"
                );
            }
            if let Mode::Ctr { .. } = mode {
                // Encrypting twice returns the input.
                let again = through(&device, operator, 4096, &outputs.concat());
                assert_eq!(again.concat(), input, "decrypted, seed {seed}");
            }
        }
    }
}

#[test]
fn two_lost_disks_are_reconstructed() {
    let device = emulated(103);
    for disks in [2_u32, 3, 4, 8] {
        let raid = Raid6 { disks };
        let frame_bytes = 8192;
        let input = random(u64::from(disks), 3 * frame_bytes);
        let outputs = through(&device, raid, frame_bytes, &input);
        let chunk = raid.chunk(frame_bytes);
        for (frame, parities) in input.chunks(frame_bytes).zip(&outputs) {
            let mut expected = vec![0; 2 * chunk];
            raid.encode(frame, &mut expected);
            assert_eq!(*parities, expected, "{disks} disks");
            for x in 0..disks as usize {
                for y in x + 1..disks as usize {
                    let mut damaged = frame.to_vec();
                    damaged[x * chunk..(x + 1) * chunk].fill(0xa5);
                    damaged[y * chunk..(y + 1) * chunk].fill(0x5a);
                    raid.reconstruct(&mut damaged, parities, (x, y));
                    assert_eq!(
                        damaged[..disks as usize * chunk],
                        frame[..disks as usize * chunk],
                        "disks {x} and {y} of {disks}"
                    );
                }
            }
        }
    }
}

#[test]
fn fused_multiply_adds_match_the_cpu_bitwise() {
    let device = emulated(104);
    for count in [1, 4, 8, 64] {
        let fma = Fma { count };
        let values: Vec<f32> = (0..3000_u16)
            .map(|value| f32::from(value) * 0.37 - 400.0)
            .collect();
        let outputs = through(&device, fma, 4096, bytemuck::cast_slice(&values));
        let outputs: Vec<u8> = outputs.concat();
        let outputs: Vec<f32> = outputs
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        let expected: Vec<f32> = values.iter().map(|value| fma.compute(*value)).collect();
        assert_eq!(outputs, expected, "FMA{count}");
    }
}

/// Random floats from -1 to 1 as bytes.
fn floats(seed: u64, count: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    let values = (0..count).map(|_| random.random_range(-1.0_f32..1.0));
    values.flat_map(f32::to_le_bytes).collect()
}

fn cast<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    let items = bytes.chunks_exact(size_of::<T>());
    items.map(bytemuck::pod_read_unaligned).collect()
}

/// Compares the outputs of an operator over all frames with a function of each frame's bytes.
fn compared(
    device: &Device,
    operator: impl GpuOperator + 'static,
    input: &[u8],
    expected: impl Fn(&[u8]) -> Vec<f32>,
) {
    let name = operator.name().into_owned();
    let outputs = through(device, operator, 4096, input);
    for (frame, (output, input)) in outputs.iter().zip(input.chunks(4096)).enumerate() {
        let (found, expected): (Vec<f32>, Vec<f32>) = (cast(output), expected(input));
        assert_eq!(found.len(), expected.len(), "{name}, frame {frame}");
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "{name}, frame {frame}, item {at}: {found} for {expected}"
            );
        }
    }
}

#[test]
fn compute_shapes_match_the_cpu_bitwise() {
    let device = emulated(105);
    // A whole frame, followed by a partial one.
    let points = floats(1, 1024 + 4 * 77);
    let potential = CoulombPotential::new(37, 5);
    compared(&device, potential.clone(), &points, |frame| {
        cast::<[f32; 4]>(frame)
            .into_iter()
            .map(|point| potential.compute(point))
            .collect()
    });
    let samples = FourierSamples::new(29, 6);
    compared(&device, samples.clone(), &points, |frame| {
        cast::<[f32; 4]>(frame)
            .into_iter()
            .flat_map(|voxel| samples.compute(voxel))
            .collect()
    });
    let product = MatrixProduct::new(7);
    let rows = floats(2, 1024 + 16 * 3);
    compared(&device, product.clone(), &rows, |frame| {
        let rows: Vec<f32> = cast(frame);
        let rows = rows.chunks_exact(16);
        rows.flat_map(|row| {
            (0..16)
                .map(|column| product.compute(row, column))
                .collect::<Vec<_>>()
        })
        .collect()
    });
}

#[test]
fn fourier_sum_approximates_sine_and_cosine() {
    // The polynomials, compared with the library's functions for one sample at a time, so that errors do not
    // cancel.
    for seed in 0..50 {
        let samples = FourierSamples::new(1, seed);
        let parameters = samples.parameters();
        let sample: Vec<f64> = parameters
            .iter()
            .flat_map(|word| [*word as u32, (*word >> 32) as u32])
            .map(|bits| f64::from(f32::from_bits(bits)))
            .collect();
        let [real, imaginary] = samples.compute([0.7, -0.9, 0.3, 0.0]);
        let turns = sample[0] * 0.7 - sample[1] * 0.9 + sample[2] * 0.3;
        let (sine, cosine) = (turns * std::f64::consts::TAU).sin_cos();
        assert!((f64::from(real) - cosine * sample[3]).abs() < 1e-4, "{seed}");
        assert!((f64::from(imaginary) - sine * sample[3]).abs() < 1e-4, "{seed}");
    }
}

#[test]
fn memory_shapes_match_the_cpu_bitwise() {
    let device = emulated(106);
    let product = SparseProduct::new(64, 8);
    compared(&device, product.clone(), &random(3, 2 * 4096 + 5 * 64), |frame| {
        cast::<u32>(frame)
            .chunks_exact(16)
            .map(|row| product.compute(row))
            .collect()
    });
    compared(&device, Stencil, &floats(4, 2048 + 3 * 64), |frame| {
        Stencil::compute(&cast::<f32>(frame))
    });
    let values = random(5, 4096 + 4 * 33);
    let outputs = through(&device, Histogram, 4096, &values);
    for (frame, output) in values.chunks(4096).zip(&outputs) {
        assert_eq!(Histogram::merge(&cast(output)), Histogram::compute(&cast(frame)));
    }
}
