//! Device code under AddressSanitizer. Its run time has to be loaded at process start, so each test runs this
//! binary again with the library preloaded, for one of the ignored tests below that misuse memory.
//!
//! By hand: `LD_PRELOAD=$(c++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 cargo test ...` on a
//! device with `EmulatorOptions::address_sanitizer`.

mod support;

use std::process::Command;

use galatea_emulator::EmulatorOptions;
use support::{Buffer, Gpu};

const SOURCE: &str = r#"
struct Arguments { unsigned *data; unsigned index; };
extern "C" __global__ void global(Arguments a) { a.data[threadIdx.x + a.index] = 1; }
extern "C" __global__ void fixed(Arguments a) {
    __shared__ unsigned before[64];
    __shared__ unsigned words[64];
    before[threadIdx.x] = 1;
    words[threadIdx.x + a.index] = threadIdx.x;
    __syncthreads();
    a.data[threadIdx.x] = words[63 - threadIdx.x] + before[threadIdx.x];
}
extern "C" __global__ void dynamic(Arguments a) {
    GALATEA_DYNAMIC_SHARED(bytes);
    bytes[threadIdx.x + a.index] = 1;
}
extern "C" __global__ void local(Arguments a) {
    unsigned words[8];
    for (unsigned i = 0; i < 8; i++) words[i] = i;
    a.data[threadIdx.x] = words[(threadIdx.x + a.index) % 64];
}
"#;

#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    data: u64,
    index: u32,
}

/// Runs an ignored test of this binary under AddressSanitizer. Returns whether it passed, and its output, or
/// `None`, with a note, if the library is not installed.
fn run_under_sanitizer(test: &str) -> Option<(bool, String)> {
    let library = Command::new("c++").arg("-print-file-name=libasan.so").output();
    let library = library
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let Some(library) = library.filter(|path| path.starts_with('/')) else {
        println!("skipped: the C++ compiler has no libasan.so");
        return None;
    };
    let output = Command::new(std::env::current_exe().expect("the path of this binary"))
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .expect("this binary runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text))
}

fn check(test: &str, says: &[&str]) {
    if let Some((passed, text)) = run_under_sanitizer(test) {
        assert!(!passed, "{text}");
        for expected in says {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
    }
}

#[test]
fn accesses_in_bounds_pass() {
    if let Some((passed, text)) = run_under_sanitizer("in_bounds") {
        assert!(passed, "{text}");
    }
}

#[test]
fn global_memory_is_checked_to_the_byte() {
    check(
        "global_overrun",
        &["heap-buffer-overflow", "WRITE of size 4", "test.cu:3"],
    );
}

#[test]
fn use_after_free_is_detected() {
    check("use_after_free", &["heap-use-after-free", "test.cu:3"]);
}

#[test]
fn static_shared_memory_is_checked() {
    check("fixed_overrun", &["global-buffer-overflow", "words", "test.cu:8"]);
}

#[test]
fn dynamic_shared_memory_is_checked_to_the_byte() {
    check("dynamic_overrun", &["use-after-poison", "test.cu:14"]);
}

#[test]
fn local_arrays_are_checked() {
    check("local_overrun", &["stack-buffer-overflow", "test.cu:19"]);
}

#[test]
fn missing_sanitizer_library_is_explained_in_the_log() {
    let gpu = Gpu::new(EmulatorOptions {
        address_sanitizer: true,
        ..EmulatorOptions::default()
    });
    let log = gpu
        .try_compile(SOURCE, &[], &[])
        .expect_err("no sanitizer in this process");
    assert!(log.contains("LD_PRELOAD"), "{log}");
}

fn device() -> (Gpu, support::Program, Buffer<u32>) {
    let gpu = Gpu::new(EmulatorOptions {
        address_sanitizer: true,
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(SOURCE);
    let data = gpu.zeroed::<u32>(64);
    support::ok(gpu.synchronize());
    (gpu, program, data)
}

fn run(kernel: &str, index: u32, dynamic: u32) {
    let (gpu, program, data) = device();
    gpu.go(
        &program,
        kernel,
        3,
        64,
        dynamic,
        Arguments {
            data: data.address,
            index,
        },
    );
}

#[test]
#[ignore = "run by the tests above with AddressSanitizer preloaded"]
fn in_bounds() {
    for (kernel, dynamic) in [("global", 0), ("fixed", 0), ("dynamic", 64)] {
        run(kernel, 0, dynamic);
    }
}

#[test]
#[ignore = "run by the tests above with AddressSanitizer preloaded"]
fn global_overrun() {
    run("global", 1, 0);
}

#[test]
#[ignore = "run by the tests above with AddressSanitizer preloaded"]
fn use_after_free() {
    let (gpu, program, data) = device();
    let address = data.address;
    drop(data);
    gpu.go(
        &program,
        "global",
        1,
        64,
        0,
        Arguments {
            data: address,
            index: 0,
        },
    );
}

#[test]
#[ignore = "run by the tests above with AddressSanitizer preloaded"]
fn fixed_overrun() {
    run("fixed", 1, 0);
}

#[test]
#[ignore = "run by the tests above with AddressSanitizer preloaded"]
fn dynamic_overrun() {
    run("dynamic", 1, 64);
}

#[test]
#[ignore = "run by the tests above with AddressSanitizer preloaded"]
fn local_overrun() {
    run("local", 1, 0);
}
