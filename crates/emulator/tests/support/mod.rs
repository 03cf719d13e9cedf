//! A small host layer over the emulated driver, for the tests of this crate.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]
#![allow(
    clippy::allow_attributes,
    reason = "expect would be unfulfilled in the binaries that use all of it"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::CUresult;
use cudarc::nvrtc::sys::nvrtcResult;
use galatea_emulator::{EmulatorOptions, add_device, compile_options, symbol};

/// Calls a driver or NVRTC function by name.
macro_rules! call {
    ($name:ident: ($($type:ty),*) -> $result:ty; $($argument:expr),* $(,)?) => {{
        let function = symbol(stringify!($name)).expect(stringify!($name));
        // SAFETY: the signature is the driver's.
        let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(function) };
        // SAFETY: the arguments satisfy the function's contract.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use call;

pub(crate) type Status = CUresult;

/// Panics on a driver error, with the device's report.
#[track_caller]
pub(crate) fn ok(status: CUresult) {
    assert_eq!(status, CUresult::CUDA_SUCCESS);
}

/// One emulated device with a stream.
pub(crate) struct Gpu {
    pub(crate) ordinal: i32,
    pub(crate) stream: usize,
}

/// A loaded program.
pub(crate) struct Program {
    module: usize,
}

/// Device memory holding values of one type.
pub(crate) struct Buffer<T> {
    pub(crate) address: u64,
    pub(crate) length: usize,
    stream: usize,
    marker: std::marker::PhantomData<T>,
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        call!(cuMemFreeAsync: (u64, usize) -> CUresult; self.address, self.stream);
    }
}

impl Gpu {
    /// A device that keeps compiled kernels in the user's cache folder, unless the options name another.
    pub(crate) fn new(mut options: EmulatorOptions) -> Gpu {
        let cache = options.cache_directory.take();
        options.cache_directory = cache.or_else(|| Some(dirs::cache_dir()?.join("galatea").join("emulator")));
        let ordinal = add_device(options);
        ok(call!(cuInit: (c_uint) -> CUresult; 0));
        let mut context = 0_usize;
        ok(call!(cuDevicePrimaryCtxRetain: (*mut usize, c_int) -> CUresult; &mut context, ordinal));
        ok(call!(cuCtxSetCurrent: (usize) -> CUresult; context));
        let mut stream = 0_usize;
        ok(call!(cuStreamCreateWithPriority: (*mut usize, c_uint, c_int) -> CUresult; &mut stream, 1, 0));
        Gpu { ordinal, stream }
    }

    pub(crate) fn seeded(seed: u64) -> Gpu {
        Gpu::new(EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        })
    }

    pub(crate) fn report(&self) -> String {
        galatea_emulator::last_report(self.ordinal).unwrap_or_default()
    }

    pub(crate) fn try_compile(
        &self,
        source: &str,
        headers: &[(&str, &str)],
        more: &[&str],
    ) -> Result<Vec<u8>, String> {
        let c = |text: &str| CString::new(text).expect("no zero byte");
        let (source, name) = (c(source), c("test.cu"));
        let texts: Vec<_> = headers.iter().map(|(_, text)| c(text)).collect();
        let names: Vec<_> = headers.iter().map(|(name, _)| c(name)).collect();
        let texts: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let mut program = 0_usize;
        type Strings = *const *const c_char;
        let created = call!(nvrtcCreateProgram: (*mut usize, *const c_char, *const c_char, c_int, Strings, Strings) -> nvrtcResult;
            &mut program, source.as_ptr(), name.as_ptr(), headers.len() as c_int, texts.as_ptr(), names.as_ptr());
        assert_eq!(created, nvrtcResult::NVRTC_SUCCESS);
        let options: Vec<_> = compile_options(self.ordinal)
            .iter()
            .map(|option| c(option))
            .chain(more.iter().map(|option| c(option)))
            .collect();
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let result = call!(nvrtcCompileProgram: (usize, c_int, Strings) -> nvrtcResult; program, options.len() as c_int, options.as_ptr());
        let mut size = 0_usize;
        let answer = if result == nvrtcResult::NVRTC_SUCCESS {
            call!(nvrtcGetCUBINSize: (usize, *mut usize) -> nvrtcResult; program, &mut size);
            let mut image = vec![0_u8; size];
            call!(nvrtcGetCUBIN: (usize, *mut c_char) -> nvrtcResult; program, image.as_mut_ptr().cast());
            Ok(image)
        } else {
            call!(nvrtcGetProgramLogSize: (usize, *mut usize) -> nvrtcResult; program, &mut size);
            let mut log = vec![0_u8; size];
            call!(nvrtcGetProgramLog: (usize, *mut c_char) -> nvrtcResult; program, log.as_mut_ptr().cast());
            Err(CStr::from_bytes_until_nul(&log)
                .expect("a C string")
                .to_string_lossy()
                .into_owned())
        };
        call!(nvrtcDestroyProgram: (*mut usize) -> nvrtcResult; &mut program);
        answer
    }

    #[track_caller]
    pub(crate) fn compile(&self, source: &str) -> Program {
        match self.try_compile(source, &[], &[]) {
            Ok(image) => self.load(&image),
            Err(log) => panic!("{log}"),
        }
    }

    #[track_caller]
    pub(crate) fn load(&self, image: &[u8]) -> Program {
        let mut module = 0_usize;
        ok(
            call!(cuModuleLoadData: (*mut usize, *const c_void) -> CUresult; &mut module, image.as_ptr().cast()),
        );
        Program { module }
    }

    #[track_caller]
    pub(crate) fn alloc<T>(&self, length: usize) -> Buffer<T> {
        let mut address = 0_u64;
        let bytes = length * size_of::<T>();
        ok(call!(cuMemAllocAsync: (*mut u64, usize, usize) -> CUresult; &mut address, bytes, self.stream));
        Buffer {
            address,
            length,
            stream: self.stream,
            marker: std::marker::PhantomData,
        }
    }

    #[track_caller]
    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> Buffer<T> {
        let buffer = self.alloc::<T>(values.len());
        ok(
            call!(cuMemcpyHtoDAsync_v2: (u64, *const c_void, usize, usize) -> CUresult;
            buffer.address, values.as_ptr().cast(), size_of_val(values), self.stream),
        );
        buffer
    }

    #[track_caller]
    pub(crate) fn zeroed<T>(&self, length: usize) -> Buffer<T> {
        let buffer = self.alloc::<T>(length);
        ok(
            call!(cuMemsetD8Async: (u64, u8, usize, usize) -> CUresult; buffer.address, 0, length * size_of::<T>(), self.stream),
        );
        buffer
    }

    /// Reads back; fails if the launches before did.
    #[track_caller]
    pub(crate) fn read<T: Copy + Default>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut values = vec![T::default(); buffer.length];
        let status = call!(cuMemcpyDtoHAsync_v2: (*mut c_void, u64, usize, usize) -> CUresult;
            values.as_mut_ptr().cast(), buffer.address, size_of_val(&values[..]), self.stream);
        assert_eq!(status, CUresult::CUDA_SUCCESS, "{}", self.report());
        values
    }

    /// Sets the first `length` values to zero bytes.
    pub(crate) fn clear<T>(&self, buffer: &Buffer<T>, length: usize) -> CUresult {
        let bytes = length * size_of::<T>();
        call!(cuMemsetD8Async: (u64, u8, usize, usize) -> CUresult; buffer.address, 0, bytes, self.stream)
    }

    pub(crate) fn synchronize(&self) -> CUresult {
        call!(cuStreamSynchronize: (usize) -> CUresult; self.stream)
    }

    /// Launches with a single by-value argument and waits.
    pub(crate) fn run<A>(
        &self,
        program: &Program,
        kernel: &str,
        grid: u32,
        block: u32,
        dynamic: u32,
        argument: A,
    ) -> CUresult {
        match self.launch(program, kernel, grid, block, dynamic, argument) {
            CUresult::CUDA_SUCCESS => self.synchronize(),
            error => error,
        }
    }

    pub(crate) fn launch<A>(
        &self,
        program: &Program,
        kernel: &str,
        grid: u32,
        block: u32,
        dynamic: u32,
        mut argument: A,
    ) -> CUresult {
        let function = program.function(kernel);
        if dynamic > 48 << 10 {
            ok(call!(cuFuncSetAttribute: (usize, c_uint, c_int) -> CUresult; function, 8, dynamic as c_int));
        }
        let mut parameters = [(&raw mut argument).cast::<c_void>()];
        call!(cuLaunchKernel: (usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *mut c_void, *mut *mut c_void) -> CUresult;
            function, grid, 1, 1, block, 1, 1, dynamic, self.stream, parameters.as_mut_ptr(), ptr::null_mut())
    }

    /// Launches, waits, and panics with the report if that failed.
    #[track_caller]
    pub(crate) fn go<A>(
        &self,
        program: &Program,
        kernel: &str,
        grid: u32,
        block: u32,
        dynamic: u32,
        argument: A,
    ) {
        let status = self.run(program, kernel, grid, block, dynamic, argument);
        assert_eq!(status, CUresult::CUDA_SUCCESS, "{}", self.report());
    }
}

impl Program {
    pub(crate) fn handle(&self) -> usize {
        self.module
    }

    #[track_caller]
    pub(crate) fn function(&self, kernel: &str) -> usize {
        let name = CString::new(kernel).expect("no zero byte");
        let mut function = 0_usize;
        ok(
            call!(cuModuleGetFunction: (*mut usize, usize, *const c_char) -> CUresult; &mut function, self.module, name.as_ptr()),
        );
        function
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        call!(cuModuleUnload: (usize) -> CUresult; self.module);
    }
}
