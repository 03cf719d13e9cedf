//! Compiles every kernel for every target, and checks both sides of every argument struct.

use galatea_device::{
    Architecture, DeviceError, DevicePointer, Layout, Nvrtc, Program, Tier, compile_for, kernel_arguments,
    testing,
};
use galatea_kernels::kmeans::{PassShape, Scores, Sums};
use galatea_kernels::{HEADERS, KERNELS, KeyWidth, SortPass, flow, headers};

pub(crate) const ARCHITECTURES: [Architecture; 2] = [Architecture::SM_80, Architecture::SM_90];

/// A program that compiles only if every argument struct has the same layout as in Rust.
fn layout_probe() -> Program {
    let mut source: String = KERNELS.iter().map(|kernel| kernel.layout.probe()).collect();
    source.extend(flow::LAYOUTS.iter().map(Layout::probe));
    source.push_str("extern \"C\" __global__ void probe(unsigned long long) {}\n");
    Program::new("layout_probe", source)
        .headers(headers())
        .entry("probe")
}

/// A program for each header alone: each must include its dependencies.
fn header_probes() -> Vec<Program> {
    let probe = |name: &str| {
        let source =
            format!("#include \"{name}\"\nextern \"C\" __global__ void probe(unsigned long long) {{}}\n");
        Program::new(name.replace('/', "_"), source)
            .headers(headers())
            .entry("probe")
    };
    HEADERS.iter().map(|(name, _)| probe(name)).collect()
}

pub(crate) fn assert_compiles(nvrtc: &Nvrtc, architecture: Architecture, program: &Program) {
    let image = compile_for(architecture, program, nvrtc)
        .unwrap_or_else(|error| panic!("{} for {architecture}: {error}", program.name));
    assert!(!image.is_empty(), "{} for {architecture}", program.name);
}

#[test]
fn nvrtc_compiles_every_kernel() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    for architecture in ARCHITECTURES {
        for kernel in KERNELS {
            for tier in [Tier::Optimised, Tier::Quick] {
                assert_compiles(&nvrtc, architecture, &kernel.program().tier(tier));
            }
        }
    }
}

/// Passes and fits of k-means: by lanes, with more features than registers hold, by matrix units with
/// centroids in registers and in shared memory, with each summing method.
#[test]
fn nvrtc_compiles_passes_and_fits() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    use Scores::{Lanes, Matrix};
    for (scores, features, clusters, sums, copies) in [
        (Lanes, 4, 4, Sums::Registers, 1),
        (Lanes, 4, 64, Sums::Shared, 8),
        (Lanes, 40, 9, Sums::Features, 2),
        (Lanes, 40, 9, Sums::Global, 1),
        (Matrix, 4, 64, Sums::Features, 8),
        (Matrix, 3, 65, Sums::Shared, 4),
        (Matrix, 16, 16, Sums::Features, 8),
        (Matrix, 16, 64, Sums::Features, 2),
        (Matrix, 31, 100, Sums::Global, 1),
        (Matrix, 64, 64, Sums::Features, 2),
        (Matrix, 37, 9, Sums::Global, 1),
    ] {
        let shape = PassShape {
            features,
            clusters,
            scores,
            sums,
            points: 4,
            threads: 128,
            copies,
            ahead: true,
            paired: scores == Lanes && clusters > 16,
            given: false,
            labels: None,
            inertia: false,
        };
        for name in ["kmeans_pass", "kmeans_fit"] {
            for architecture in ARCHITECTURES {
                let kernel = KERNELS.iter().find(|kernel| kernel.name == name);
                let mut program = kernel.expect("it is listed").program();
                program.options.extend(shape.options());
                assert_compiles(&nvrtc, architecture, &program);
            }
        }
    }
}

/// The kernels of a sort for both key widths, and passes over more rows than 32-bit prefixes can count.
#[test]
fn nvrtc_compiles_every_sort() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    for kernel in KERNELS.iter().filter(|kernel| kernel.name.starts_with("sort_")) {
        for (width, wide) in KeyWidth::ALL
            .into_iter()
            .flat_map(|width| [(width, false), (width, true)])
        {
            let mut program = kernel.program();
            program.options.extend(SortPass::options(width, wide));
            for architecture in ARCHITECTURES {
                assert_compiles(&nvrtc, architecture, &program);
            }
        }
    }
}

#[test]
fn nvrtc_compiles_every_header_alone() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    for program in header_probes() {
        assert_compiles(&nvrtc, Architecture::SM_90, &program);
    }
}

#[test]
fn nvrtc_agrees_on_every_layout() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    assert_compiles(&nvrtc, Architecture::SM_90, &layout_probe());
}

#[test]
fn emulated_device_compiles_every_header_alone() {
    let nvrtc = Nvrtc::emulated().unwrap();
    for program in header_probes() {
        assert_compiles(&nvrtc, Architecture::SM_90, &program);
    }
}

#[test]
fn emulated_device_agrees_on_every_layout() {
    assert_compiles(&Nvrtc::emulated().unwrap(), Architecture::SM_90, &layout_probe());
}

kernel_arguments! {
    /// Declared with a field order that differs from the header's.
    struct CopyBandwidthArguments in "galatea/args/copy_bandwidth.h" {
        target: DevicePointer<u64>,
        source: DevicePointer<u64>,
        count: u64,
    }
}

/// The probe itself can fail: it detects a swapped pair of fields of equal size.
#[test]
fn layout_probe_detects_swapped_fields() {
    use galatea_device::ArgumentStruct as _;
    let source = CopyBandwidthArguments::LAYOUT.probe()
        + "extern \"C\" __global__ void probe(unsigned long long) {}\n";
    let program = Program::new("swapped", source).headers(headers()).entry("probe");
    let error = compile_for(Architecture::SM_90, &program, &Nvrtc::emulated().unwrap()).unwrap_err();
    let DeviceError::Compile { log, .. } = error else {
        panic!("{error}")
    };
    assert!(log.contains("offset of CopyBandwidthArguments.target"), "{log}");
}
