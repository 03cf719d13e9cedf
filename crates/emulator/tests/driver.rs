//! The driver's functions around kernels: memory, streams, events, modules, the compile cache.

mod support;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{CUmemPool_attribute, CUresult};
use galatea_emulator::{DriverCall, EmulatorOptions, FaultCode, Faults, symbol};
use support::{Gpu, call, ok};

const SOURCE: &str = r#"
typedef unsigned long long u64;
__device__ unsigned counter = 5;
__constant__ unsigned table[4] = {10, 20, 30, 40};
struct Pair { unsigned char small; u64 large; };
extern "C" __global__ void many(u64 *out, unsigned char a, double b, Pair pair, short c) {
    out[0] = a; out[1] = (u64)(b * 2); out[2] = pair.small; out[3] = pair.large; out[4] = c;
}
extern "C" __global__ void none() { atomicAdd(&counter, 1u); }
extern "C" __global__ void read_counter(u64 *out) { out[0] = counter; out[1] = table[threadIdx.x + 2]; }
extern "C" __global__ void wait_for(unsigned *flag) { while (atomicAdd(flag, 0u) == 0) __nanosleep(1000); flag[1] = 7; }
extern "C" __global__ void begin_and_wait(unsigned *flag) {
    atomicExch(flag + 1, 1u);
    while (atomicAdd(flag, 0u) == 0) __nanosleep(1000);
    atomicExch(flag + 1, 7u);
}
extern "C" __global__ void add(unsigned *values) { values[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
extern "C" __global__ void shape(u64 *out) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    atomicAdd(out + block * blockDim.x * blockDim.y * blockDim.z + thread, 1ull + threadIdx.z);
}
"#;

fn launch(
    gpu: &Gpu,
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    parameters: &mut [*mut c_void],
) -> CUresult {
    call!(cuLaunchKernel: (usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *mut c_void, *mut *mut c_void) -> CUresult;
        function, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, gpu.stream, parameters.as_mut_ptr(), std::ptr::null_mut())
}

#[test]
fn parameters_are_copied_at_launch() {
    #[repr(C)]
    struct Pair {
        small: u8,
        large: u64,
    }
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    let output = gpu.zeroed::<u64>(5);
    {
        let (mut out, mut a, mut b, mut pair, mut c) = (
            output.address,
            200_u8,
            1.5_f64,
            Pair {
                small: 3,
                large: 1 << 40,
            },
            77_i16,
        );
        let mut parameters: [*mut c_void; 5] = [
            (&raw mut out).cast(),
            (&raw mut a).cast(),
            (&raw mut b).cast(),
            (&raw mut pair).cast(),
            (&raw mut c).cast(),
        ];
        ok(launch(
            &gpu,
            program.function("many"),
            [1; 3],
            [1; 3],
            &mut parameters,
        ));
        // The launch may not have begun yet.
        (out, a, b, pair, c) = (0, 0, 0.0, Pair { small: 0, large: 0 }, 0);
        std::hint::black_box((out, a, b, pair.small, pair.large, c));
    }
    assert_eq!(gpu.read(&output), [200, 3, 3, 1 << 40, 77]);
}

#[test]
fn grids_and_blocks_have_three_dimensions() {
    let gpu = Gpu::seeded(3);
    let program = gpu.compile(SOURCE);
    let output = gpu.zeroed::<u64>(2 * 3 * 4 * 5 * 2 * 3);
    let mut out = output.address;
    ok(launch(
        &gpu,
        program.function("shape"),
        [2, 3, 4],
        [5, 2, 3],
        &mut [(&raw mut out).cast()],
    ));
    for (index, value) in gpu.read(&output).into_iter().enumerate() {
        assert_eq!(value, 1 + index as u64 / 10 % 3, "thread {index}");
    }
}

#[test]
fn modules_have_separate_global_variables() {
    let gpu = Gpu::seeded(1);
    let image = gpu.try_compile(SOURCE, &[], &[]).expect("compiles");
    let (first, second) = (gpu.load(&image), gpu.load(&image));
    for _ in 0..3 {
        ok(launch(&gpu, first.function("none"), [1; 3], [32, 1, 1], &mut []));
    }
    for (program, expected) in [(&first, 5 + 96), (&second, 5)] {
        let output = gpu.zeroed::<u64>(2);
        gpu.go(program, "read_counter", 1, 1, 0, output.address);
        assert_eq!(gpu.read(&output), [expected, 30]);
    }
    let mut function = 0_usize;
    let name = c"missing";
    let status = call!(cuModuleGetFunction: (*mut usize, usize, *const c_char) -> CUresult; &mut function, first.handle(), name.as_ptr());
    assert_eq!(status, CUresult::CUDA_ERROR_NOT_FOUND);
    let mut module = 0_usize;
    let foreign = [0x7f_u8, b'E', b'L', b'F'];
    let status = call!(cuModuleLoadData: (*mut usize, *const c_void) -> CUresult; &mut module, foreign.as_ptr().cast());
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_IMAGE);
}

/// glibc reports a wrong thread-local address for the index that its table of a thread's memory just holds,
/// and only while another thread loads or closes an object. Hence the test starts new threads and loads more
/// modules than the table has room for.
#[test]
fn static_shared_memory_works_during_concurrent_loads() {
    const SOURCE: &str = r#"
    extern "C" __global__ void reverses(unsigned *output) {
        __shared__ unsigned words[64];
        words[threadIdx.x] = threadIdx.x;
        __syncthreads();
        output[threadIdx.x] = words[63 - threadIdx.x];
    }
    "#;
    let gpu = Gpu::seeded(1);
    let image = gpu.try_compile(SOURCE, &[], &[]).expect("compiles");
    let mut context = 0_usize;
    ok(call!(cuCtxGetCurrent: (*mut usize) -> CUresult; &mut context));
    let load_and_launch = || {
        ok(call!(cuCtxSetCurrent: (usize) -> CUresult; context));
        let programs: Vec<_> = (0..25).map(|_| gpu.load(&image)).collect();
        for program in &programs {
            let output = gpu.zeroed::<u32>(64);
            gpu.go(program, "reverses", 1, 64, 0, output.address);
            assert_eq!(gpu.read(&output), (0..64).rev().collect::<Vec<_>>());
        }
    };
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(load_and_launch);
            }
        });
    }
}

#[test]
fn streams_are_concurrent_and_each_in_order() {
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    let flag = gpu.zeroed::<u32>(2);
    ok(gpu.synchronize());
    // The first stream waits for the second one to set the flag.
    ok(gpu.launch(&program, "wait_for", 1, 1, 0, flag.address));
    assert_eq!(
        call!(cuStreamQuery: (usize) -> CUresult; gpu.stream),
        CUresult::CUDA_ERROR_NOT_READY
    );
    let mut other = 0_usize;
    ok(call!(cuStreamCreateWithPriority: (*mut usize, c_uint, c_int) -> CUresult; &mut other, 1, 0));
    let mut event = 0_usize;
    ok(call!(cuEventCreate: (*mut usize, c_uint) -> CUresult; &mut event, 0));
    let begun = std::time::Instant::now();
    ok(call!(cuEventRecord: (usize, usize) -> CUresult; event, gpu.stream));
    assert_eq!(
        call!(cuEventQuery: (usize) -> CUresult; event),
        CUresult::CUDA_ERROR_NOT_READY
    );
    ok(call!(cuMemsetD32Async: (u64, c_uint, usize, usize) -> CUresult; flag.address, 1, 1, other));
    // The second stream also waits for the first, and has to copy after that wait.
    ok(call!(cuStreamWaitEvent: (usize, usize, c_uint) -> CUresult; other, event, 0));
    let mut seen = [0_u32; 2];
    ok(
        call!(cuMemcpyDtoHAsync_v2: (*mut c_void, u64, usize, usize) -> CUresult; seen.as_mut_ptr().cast(), flag.address, 8, other),
    );
    assert_eq!(seen, [1, 7]);
    ok(call!(cuEventSynchronize: (usize) -> CUresult; event));
    ok(call!(cuEventQuery: (usize) -> CUresult; event));
    ok(call!(cuStreamQuery: (usize) -> CUresult; gpu.stream));
    let mut later = 0_usize;
    ok(call!(cuEventCreate: (*mut usize, c_uint) -> CUresult; &mut later, 0));
    let mut milliseconds = 0_f32;
    let status =
        call!(cuEventElapsedTime_v2: (*mut f32, usize, usize) -> CUresult; &mut milliseconds, event, later);
    assert_eq!(status, CUresult::CUDA_ERROR_INVALID_HANDLE, "never recorded");
    std::thread::sleep(std::time::Duration::from_millis(5));
    ok(call!(cuEventRecord: (usize, usize) -> CUresult; later, other));
    ok(call!(cuStreamSynchronize: (usize) -> CUresult; other));
    ok(call!(cuEventElapsedTime_v2: (*mut f32, usize, usize) -> CUresult; &mut milliseconds, event, later));
    let most = begun.elapsed().as_secs_f32() * 1e3 + 1.0;
    assert!((5.0..most).contains(&milliseconds), "{milliseconds} of {most}");
    ok(call!(cuEventDestroy_v2: (usize) -> CUresult; event));
    ok(call!(cuEventDestroy_v2: (usize) -> CUresult; later));
    ok(call!(cuStreamDestroy_v2: (usize) -> CUresult; other));
    assert_eq!(
        call!(cuStreamSynchronize: (usize) -> CUresult; other),
        CUresult::CUDA_ERROR_INVALID_HANDLE
    );
}

#[test]
fn host_functions_run_in_stream_order() {
    unsafe extern "C" fn note(argument: *mut c_void) {
        // SAFETY: the test's counter.
        let counter = unsafe { &*argument.cast::<AtomicU32>() };
        counter.fetch_add(1, Ordering::SeqCst);
    }
    let gpu = Gpu::seeded(1);
    let counter = AtomicU32::new(0);
    for expected in 1..4 {
        type Function = unsafe extern "C" fn(*mut c_void);
        ok(
            call!(cuLaunchHostFunc: (usize, Function, *mut c_void) -> CUresult; gpu.stream, note, (&raw const counter).cast_mut().cast()),
        );
        ok(gpu.synchronize());
        assert_eq!(counter.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn device_memory_is_limited_and_freed() {
    let gpu = Gpu::new(EmulatorOptions {
        memory: 1 << 20,
        ..EmulatorOptions::default()
    });
    let allocate = |bytes: usize| {
        let mut address = 0_u64;
        let status =
            call!(cuMemAllocAsync: (*mut u64, usize, usize) -> CUresult; &mut address, bytes, gpu.stream);
        (status, address)
    };
    let free = |address: u64| call!(cuMemFreeAsync: (u64, usize) -> CUresult; address, gpu.stream);
    let (status, first) = allocate(700 << 10);
    ok(status);
    assert_eq!(first % 256, 0);
    assert_eq!(allocate(400 << 10).0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let (mut available, mut total) = (0_usize, 0_usize);
    ok(call!(cuMemGetInfo_v2: (*mut usize, *mut usize) -> CUresult; &mut available, &mut total));
    assert_eq!((available, total), (324 << 10, 1 << 20));
    // Memory freed in stream order is available at once to the next allocation of the stream.
    let mut last = first;
    for _ in 0..50 {
        ok(free(last));
        let (status, address) = allocate(700 << 10);
        ok(status);
        last = address;
    }
    ok(free(last));
    let (status, second) = allocate(1 << 20);
    ok(status);
    ok(free(second));
    assert_eq!(free(second), CUresult::CUDA_ERROR_INVALID_VALUE, "freed twice");
    assert_eq!(allocate(0).0, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(allocate((1 << 20) + 1).0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    ok(gpu.synchronize());
    ok(call!(cuMemGetInfo_v2: (*mut usize, *mut usize) -> CUresult; &mut available, &mut total));
    assert_eq!(available, total);
}

#[test]
fn copies_outside_allocations_are_refused() {
    let gpu = Gpu::seeded(1);
    let mut host = vec![0_u32; 64];
    let buffer = gpu.upload(&[5_u32; 64]);
    let read = |address: u64, bytes: usize, host: &mut Vec<u32>| call!(cuMemcpyDtoHAsync_v2: (*mut c_void, u64, usize, usize) -> CUresult; host.as_mut_ptr().cast(), address, bytes, gpu.stream);
    ok(read(buffer.address, 256, &mut host));
    ok(read(buffer.address + 252, 4, &mut host));
    assert_eq!(
        read(buffer.address + 4, 256, &mut host),
        CUresult::CUDA_ERROR_INVALID_VALUE
    );
    assert_eq!(read(0, 4, &mut host), CUresult::CUDA_ERROR_INVALID_VALUE);
    let address = buffer.address;
    drop(buffer);
    assert_eq!(
        read(address, 4, &mut host),
        CUresult::CUDA_ERROR_INVALID_VALUE,
        "freed"
    );
    let set = call!(cuMemsetD8Async: (u64, u8, usize, usize) -> CUresult; address, 0, 4, gpu.stream);
    assert_eq!(set, CUresult::CUDA_ERROR_INVALID_VALUE, "freed");
    ok(gpu.synchronize());
}

#[test]
fn new_memory_is_filled_with_a_seeded_pattern() {
    let contents = |seed| {
        let gpu = Gpu::seeded(seed);
        let buffer = gpu.alloc::<u32>(1000);
        gpu.read(&buffer)
    };
    let (first, second) = (contents(1), contents(2));
    assert!(first.iter().all(|&value| value != 0));
    assert_ne!(first, second);
    assert_eq!(first, contents(1));
}

#[test]
fn pinned_memory_is_copied_asynchronously() {
    let gpu = Gpu::seeded(1);
    let program = gpu.compile(SOURCE);
    let flag = gpu.zeroed::<u32>(2);
    ok(gpu.synchronize());
    let mut host = vec![0_u32; 2];
    let start: *mut c_void = host.as_mut_ptr().cast();
    let register = || call!(cuMemHostRegister_v2: (*mut c_void, usize, c_uint) -> CUresult; start, 8, 0);
    ok(register());
    assert_eq!(register(), CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    // The copy would wait for ever if it waited for the stream.
    ok(gpu.launch(&program, "wait_for", 1, 1, 0, flag.address));
    ok(
        call!(cuMemcpyDtoHAsync_v2: (*mut c_void, u64, usize, usize) -> CUresult; start, flag.address, 8, gpu.stream),
    );
    let mut other = 0_usize;
    ok(call!(cuStreamCreateWithPriority: (*mut usize, c_uint, c_int) -> CUresult; &mut other, 1, 0));
    ok(call!(cuMemsetD32Async: (u64, c_uint, usize, usize) -> CUresult; flag.address, 1, 1, other));
    ok(gpu.synchronize());
    assert_eq!(host, [1, 7]);
    let mut device = 0_u64;
    ok(
        call!(cuMemHostGetDevicePointer_v2: (*mut u64, *mut c_void, c_uint) -> CUresult; &mut device, start, 0),
    );
    // A kernel accesses host memory.
    gpu.go(&program, "add", 1, 2, 0, device);
    assert_eq!(host, [2, 8]);
    let unregister = || call!(cuMemHostUnregister: (*mut c_void) -> CUresult; start);
    ok(unregister());
    assert_eq!(unregister(), CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

#[test]
fn lost_context_keeps_memory_of_running_kernels() {
    let faults = Faults::default();
    let gpu = Gpu::new(EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    });
    let program = gpu.compile(SOURCE);
    let flag = gpu.zeroed::<u32>(2);
    let mut other = 0_usize;
    ok(call!(cuStreamCreateWithPriority: (*mut usize, c_uint, c_int) -> CUresult; &mut other, 1, 0));
    let mut pool = 0_usize;
    ok(call!(cuDeviceGetDefaultMemPool: (*mut usize, c_int) -> CUresult; &mut pool, gpu.ordinal));
    let used = || {
        let used_now = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as u32;
        let mut bytes = 0_u64;
        ok(call!(cuMemPoolGetAttribute: (usize, u32, *mut u64) -> CUresult; pool, used_now, &mut bytes));
        bytes
    };
    ok(gpu.synchronize());
    let before = used();
    // SAFETY: device memory is the host's here, and the kernel accesses these words atomically.
    let word = |index: usize| unsafe { AtomicU32::from_ptr((flag.address as *mut u32).add(index)) };
    ok(gpu.launch(&program, "begin_and_wait", 1, 1, 0, flag.address));
    while word(1).load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    faults.fail(DriverCall::Fill, 0, 1, FaultCode::Lost);
    let lost = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(gpu.clear(&flag, 1), lost);
    for stream in [other, gpu.stream] {
        let status = call!(cuMemFreeAsync: (u64, usize) -> CUresult; flag.address, stream);
        assert_eq!(status, lost);
    }
    assert_eq!(call!(cuMemFree_v2: (u64) -> CUresult; flag.address), lost);
    assert_eq!(call!(cuStreamSynchronize: (usize) -> CUresult; other), lost);
    assert_eq!(used(), before, "freed while a kernel uses it");
    // The kernel is given up, although the flag is never set.
    assert_eq!(gpu.synchronize(), lost);
    assert_eq!(word(1).load(Ordering::SeqCst), 1);
}

#[test]
fn lost_context_drops_writes_after_dropped_copies() {
    unsafe extern "C" fn wait(argument: *mut c_void) {
        // SAFETY: the test's word.
        let open = unsafe { &*argument.cast::<AtomicU32>() };
        while open.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
    type Function = unsafe extern "C" fn(*mut c_void);
    let faults = Faults::default();
    let gpu = Gpu::new(EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    });
    let (chunk, other) = (gpu.zeroed::<u32>(1), gpu.zeroed::<u32>(1));
    let mut arrived = 0_u64;
    ok(call!(cuMemAlloc_v2: (*mut u64, usize) -> CUresult; &mut arrived, 4));
    ok(call!(cuMemsetD32Async: (u64, c_uint, usize, usize) -> CUresult; arrived, 0, 1, gpu.stream));
    ok(gpu.synchronize());
    let open = AtomicU32::new(0);
    ok(
        call!(cuLaunchHostFunc: (usize, Function, *mut c_void) -> CUresult; gpu.stream, wait, (&raw const open).cast_mut().cast()),
    );
    ok(
        call!(cuMemcpyDtoDAsync_v2: (u64, u64, usize, usize) -> CUresult; chunk.address, other.address, 4, gpu.stream),
    );
    ok(call!(cuStreamWriteValue32_v2: (usize, u64, c_uint, c_uint) -> CUresult; gpu.stream, arrived, 1, 0));
    faults.fail(DriverCall::Fill, 0, 1, FaultCode::Lost);
    assert_eq!(gpu.clear(&other, 1), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    open.store(1, Ordering::SeqCst);
    assert_eq!(gpu.synchronize(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    // SAFETY: device memory is the host's here, and nothing of the device runs any more.
    assert_eq!(unsafe { (arrived as *const u32).read() }, 0);
}

#[test]
fn concurrent_streams_and_threads() {
    let gpu = Gpu::new(EmulatorOptions {
        worker_threads: 2,
        ..EmulatorOptions::default()
    });
    let image = gpu.try_compile(SOURCE, &[], &[]).expect("compiles");
    let mut context = 0_usize;
    ok(call!(cuCtxGetCurrent: (*mut usize) -> CUresult; &mut context));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                ok(call!(cuCtxSetCurrent: (usize) -> CUresult; context));
                let mut stream = 0_usize;
                ok(call!(cuStreamCreateWithPriority: (*mut usize, c_uint, c_int) -> CUresult; &mut stream, 1, 0));
                let own = Gpu { ordinal: gpu.ordinal, stream };
                let program = own.load(&image);
                let buffer = own.zeroed::<u32>(1024);
                for _ in 0..20 {
                    ok(own.launch(&program, "add", 4, 256, 0, buffer.address));
                }
                assert_eq!(own.read(&buffer), [20; 1024]);
            });
        }
    });
    ok(call!(cuCtxSynchronize: () -> CUresult;));
}

#[test]
fn a_program_is_compiled_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let compiler = folder.path().join("counting-c++");
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\nexec c++ \"$@\"\n", log.display());
    fs::write(&compiler, script).expect("written");
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).expect("executable");
    let options = || EmulatorOptions {
        cxx: Some(compiler.clone()),
        cache_directory: Some(folder.path().join("cache")),
        ..EmulatorOptions::default()
    };
    let compiles = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("c++-cpp-output"))
            .count()
    };
    let header = [("lib/values.h", "#define VALUE 3\n")];
    let source =
        "#include \"lib/values.h\"\nextern \"C\" __global__ void k(int *p) { *p = VALUE + EXTRA; }\n";
    let gpu = Gpu::new(options());
    let first = gpu
        .try_compile(source, &header, &["-DEXTRA=1"])
        .expect("compiles");
    assert_eq!(compiles(), 1);
    // The same program again, also from another device of the same kind, is not compiled.
    assert_eq!(
        gpu.try_compile(source, &header, &["-DEXTRA=1"])
            .expect("compiles"),
        first
    );
    assert_eq!(
        Gpu::new(options())
            .try_compile(source, &header, &["-DEXTRA=1"])
            .expect("compiles"),
        first
    );
    assert_eq!(compiles(), 1);
    // Any change that can affect the result yields another program.
    gpu.try_compile(source, &header, &["-DEXTRA=2"])
        .expect("compiles");
    gpu.try_compile(source, &[("lib/values.h", "#define VALUE 4\n")], &["-DEXTRA=1"])
        .expect("compiles");
    gpu.try_compile(&format!("{source}\n"), &header, &["-DEXTRA=1"])
        .expect("compiles");
    Gpu::new(EmulatorOptions {
        stress: true,
        ..options()
    })
    .try_compile(source, &header, &["-DEXTRA=1"])
    .expect("compiles");
    assert_eq!(compiles(), 5);
    // A damaged image is compiled again, with or without a precompiled header.
    for entry in fs::read_dir(folder.path().join("cache")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            fs::remove_dir_all(path).expect("removed");
        } else {
            fs::write(path, "GALATEA").expect("written");
        }
    }
    assert_eq!(
        gpu.try_compile(source, &header, &["-DEXTRA=1"])
            .expect("compiles"),
        first
    );
    assert_eq!(compiles(), 6);
}

#[test]
fn device_properties() {
    let gpu = Gpu::new(EmulatorOptions {
        multiprocessors: 3,
        shared_memory_per_block: 64 << 10,
        ..EmulatorOptions::default()
    });
    let attribute = |number: c_uint| {
        let mut value = 0;
        ok(
            call!(cuDeviceGetAttribute: (*mut c_int, c_uint, c_int) -> CUresult; &mut value, number, gpu.ordinal),
        );
        value
    };
    // Multiprocessors, warp, threads per block, shared memory with and without opting in, compute capability.
    assert_eq!(
        [16, 10, 1, 97, 8, 75, 76].map(attribute),
        [3, 32, 1024, 64 << 10, 48 << 10, 9, 0]
    );
    let mut bytes = 0_usize;
    ok(call!(cuDeviceTotalMem_v2: (*mut usize, c_int) -> CUresult; &mut bytes, gpu.ordinal));
    assert_eq!(bytes, 1 << 30);
    let program = gpu.compile(SOURCE);
    let occupancy = |block: c_int, dynamic: usize| {
        let mut blocks = 0;
        ok(
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor: (*mut c_int, usize, c_int, usize) -> CUresult;
            &mut blocks, program.function("add"), block, dynamic),
        );
        blocks
    };
    assert_eq!(
        [
            occupancy(32, 0),
            occupancy(1024, 0),
            occupancy(32, 60 << 10),
            occupancy(2048, 0)
        ],
        [16, 2, 2, 0]
    );
    let mut text = std::ptr::null();
    ok(
        call!(cuGetErrorName: (CUresult, *mut *const c_char) -> CUresult; CUresult::CUDA_ERROR_OUT_OF_MEMORY, &mut text),
    );
    // SAFETY: a static string.
    let name = unsafe { std::ffi::CStr::from_ptr(text) };
    assert_eq!(name, c"CUDA_ERROR_OUT_OF_MEMORY");
    let mut device = 0;
    let missing = call!(cuDeviceGet: (*mut c_int, c_int) -> CUresult; &mut device, 1 << 20);
    assert_eq!(missing, CUresult::CUDA_ERROR_INVALID_DEVICE);
}
