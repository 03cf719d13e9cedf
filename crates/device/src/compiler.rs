//! Compiles programs to cubins with NVRTC, or for the emulated device. No GPU is needed.

use cudarc::nvrtc::sys::nvrtcResult;

use crate::compilation::{Failure, compile_with};
use crate::compilers::Lease;
use crate::ending::before_the_end;
use crate::errors::{DeviceError, Missing, Result};
use crate::info::Architecture;
use crate::program::{OPTIONAL, Program};
use crate::sys::{Backend, Bound, Code, NvrtcTable};

/// A run-time compiler.
#[derive(Clone, Copy)]
pub struct Nvrtc {
    bound: &'static Bound,
    backend: Backend,
}

impl Nvrtc {
    /// NVIDIA's compiler, if it is installed.
    ///
    /// # Errors
    /// The places that were searched, and how to install it.
    pub fn find() -> Result<Self, Missing> {
        Self::of(Backend::Gpu)
    }

    /// The emulated device's compiler, a C++ compiler of the host.
    ///
    /// # Errors
    /// The emulator's reason.
    pub fn emulated() -> Result<Self, Missing> {
        Self::of(Backend::Emulated)
    }

    pub(crate) fn of(backend: Backend) -> Result<Self, Missing> {
        let bound = NvrtcTable::get(backend)?;
        Ok(Self { bound, backend })
    }

    #[cfg(test)]
    pub(crate) fn bound(&self) -> &'static Bound {
        self.bound
    }

    /// Version, (major, minor).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.bound.version
    }

    /// Compiles a program to a cubin, without any cache.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] with log and numbered source.
    pub fn compile(&self, architecture: Architecture, program: &Program) -> Result<Vec<u8>> {
        before_the_end(|| self.compile_with_options(program, program.all_options(architecture)))
    }

    /// Like [`Nvrtc::compile`], with exactly these options.
    pub(crate) fn compile_with_options(
        &self,
        program: &Program,
        mut options: Vec<String>,
    ) -> Result<Vec<u8>> {
        match self.compile_with(program, &options) {
            Err(Failure { code, .. }) if code.is_some_and(is_invalid_option) => {
                options.retain(|option| !OPTIONAL.contains(&option.as_str()));
                self.compile_with(program, &options)
            }
            outcome => outcome,
        }
        .map_err(|Failure { log, .. }| DeviceError::Compile {
            program: program.name.clone(),
            log,
            listing: listing(&program.source),
            options: options.join(" "),
        })
    }

    fn compile_with(&self, program: &Program, options: &[String]) -> Result<Vec<u8>, Failure> {
        let lease = (self.backend == Backend::Gpu).then(|| Lease::of(self.bound));
        let table = lease.as_ref().map_or(&self.bound.table, |lease| lease.table);
        compile_with(table, program, options)
    }
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nvrtc")
            .field("version", &self.bound.version)
            .field("path", &self.bound.found.path)
            .finish()
    }
}

/// Compiles a program to a cubin for an architecture that need not be present. So every kernel can be checked
/// without a GPU.
///
/// # Errors
/// [`DeviceError::Compile`] with log and numbered source.
pub fn compile_for(architecture: Architecture, program: &Program, nvrtc: &Nvrtc) -> Result<Vec<u8>> {
    nvrtc.compile(architecture, program)
}

fn is_invalid_option(code: Code) -> bool {
    code.0 == nvrtcResult::NVRTC_ERROR_INVALID_OPTION as u32
}

/// Formats source with line numbers as in compiler messages.
fn listing(source: &str) -> String {
    use std::fmt::Write as _;
    let width = source.lines().count().max(1).to_string().len();
    source
        .lines()
        .enumerate()
        .fold(String::new(), |mut text, (index, line)| {
            let _ = writeln!(text, "{:>width$} | {line}", index + 1);
            text
        })
}
