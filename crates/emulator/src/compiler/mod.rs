//! The emulated NVRTC: compiles CUDA C++ to a shared object with the host's C++ compiler.
//!
//! 1. The program is preprocessed, with the shim (`cuda/*.h`) force-included and its headers in a temporary
//!    folder.
//! 2. [`program::scan`] finds the kernels and their launch bounds by the markers that the shim's macros left.
//!    A thunk per kernel and a table of the thunks are appended.
//! 3. The result is compiled at `-O1` (higher levels cost more time than they save: collectives dominate)
//!    into a shared object that depends on the C library only.
//! 4. The object, wrapped as an image, is stored on disk (if a folder is given) under the hash of all inputs;
//!    see [`cache`].
//!
//! No step includes a standard header.

pub(crate) mod cache;
mod options;
mod precompiled;
mod program;
#[cfg(test)]
mod tests;
mod toolchain;

use std::fs;
use std::path::{Component, Path};
use std::process::Command;

pub(crate) use options::{Mode, Options};
pub(crate) use toolchain::Toolchain;

use crate::{abi, image, sanitizer};

/// The shim, file by file, in the order of inclusion.
const SHIM: [(&str, &str); 6] = [
    ("runtime.h", include_str!("../../cuda/runtime.h")),
    ("types.h", include_str!("../../cuda/types.h")),
    ("collectives.h", include_str!("../../cuda/collectives.h")),
    ("atomics.h", include_str!("../../cuda/atomics.h")),
    ("math.h", include_str!("../../cuda/math.h")),
    ("instrument.h", include_str!("../../cuda/instrument.h")),
];
const EXPORT: &str = include_str!("../../cuda/export.h");
const SHIM_NAME: &str = "galatea_emulator_shim.h";

/// A program as passed to NVRTC.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Include name and text.
    pub(crate) headers: Vec<(String, String)>,
}

/// The reason why no image was compiled. It is displayed as the program's log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("{0}")]
    Toolchain(#[from] toolchain::ToolchainError),
    #[error(
        "device code with AddressSanitizer needs its run time in the process before anything else\n\
         hint: run with LD_PRELOAD=\"$({compiler} -print-file-name=libasan.so)\" ASAN_OPTIONS=detect_leaks=0"
    )]
    NoSanitizer { compiler: String },
    #[error("header name leads out of the program's folder: {0}")]
    HeaderName(String),
    #[error("could not write or read compiler files: {0}")]
    Io(#[from] std::io::Error),
    /// The compiler's messages.
    #[error("{0}")]
    Diagnostics(String),
}

/// Compiles a program, or loads it from the cache. Returns the image and the log.
pub(crate) fn compile(source: &Source, options: &Options) -> Result<Vec<u8>, CompileError> {
    let toolchain = Toolchain::find(options.compiler.as_deref())?;
    if options.mode.address_sanitizer && !sanitizer::present() {
        return Err(CompileError::NoSanitizer {
            compiler: toolchain.path.display().to_string(),
        });
    }
    let (flags, shim) = (flags(&toolchain, options), shim());
    let key = cache::key(source, options, &toolchain, &flags, &shim);
    let directory = options.cache.as_deref();
    if let Some(image) = directory.and_then(|directory| cache::read(directory, &key)) {
        return Ok(image);
    }
    let precompiled =
        directory.and_then(|directory| precompiled::shim(&toolchain, options, &flags, &shim, directory));
    let build = Build {
        source,
        options,
        toolchain: &toolchain,
        flags: &flags,
        shim: &shim,
    };
    let object = match build.run(precompiled.as_deref()) {
        // The compiler refused the precompiled header: compile without it.
        Err(CompileError::Diagnostics(log)) if precompiled.is_some() && log.contains(SHIM_NAME) => {
            build.run(None)?
        }
        other => other?,
    };
    let image = image::wrap(&object);
    if let Some(directory) = directory {
        cache::write(directory, &key, &image);
    }
    Ok(image)
}

/// A short name of the shim and of everything else in this crate on which an image depends.
pub(crate) fn revision() -> String {
    let digest = blake3::hash(format!("{}\n{EXPORT}\n{}", shim(), abi::REVISION).as_bytes());
    digest.to_hex()[..16].to_owned()
}

/// The shim as one file, with line markers, so that messages name the original file.
fn shim() -> String {
    SHIM.iter()
        .map(|(name, text)| format!("# 1 \"emulator/{name}\"\n{text}"))
        .collect()
}

/// Flags of the second step that do not depend on the program.
fn flags(toolchain: &Toolchain, options: &Options) -> Vec<String> {
    let mut flags: Vec<String> = [
        "-O1",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-asynchronous-unwind-tables",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-fno-threadsafe-statics",
        // Device code puns types, and integer overflow wraps on the device.
        "-fno-strict-aliasing",
        "-fwrapv",
        // Floating point as on the device: no errno, no traps, no implicit contraction.
        "-fno-math-errno",
        "-fno-trapping-math",
        "-ffp-contract=off",
        "-mpopcnt",
        "-w",
        "-nostdlib",
    ]
    .map(str::to_owned)
    .to_vec();
    flags.push(format!("-std={}", options.standard));
    if toolchain.gnu {
        // Unused functions of the shim and of headers are removed before optimisation.
        flags.push("-fwhole-program".to_owned());
    }
    if toolchain.gold {
        flags.push("-fuse-ld=gold".to_owned());
    }
    if options.mode.stress {
        flags.push("-fsanitize-coverage=trace-pc".to_owned());
    }
    let mode = options.mode;
    if (mode.count || mode.races || mode.stress) && !mode.address_sanitizer {
        flags.push("-fsanitize=thread".to_owned());
    }
    if mode.races {
        // Line numbers for reports.
        flags.push("-g1".to_owned());
        if toolchain.gnu {
            flags.push("--param=tsan-distinguish-volatile=1".to_owned());
        }
    }
    if options.mode.address_sanitizer {
        flags.extend(["-fsanitize=address", "-g1", "-fno-omit-frame-pointer"].map(str::to_owned));
    }
    flags
}

/// One compilation.
#[derive(Clone, Copy)]
struct Build<'a> {
    source: &'a Source,
    options: &'a Options,
    toolchain: &'a Toolchain,
    flags: &'a [String],
    shim: &'a str,
}

impl Build<'_> {
    /// Compiles the shared object, with a precompiled shim if one is given.
    fn run(&self, precompiled: Option<&Path>) -> Result<Vec<u8>, CompileError> {
        let Build {
            source,
            options,
            toolchain,
            flags,
            shim,
        } = *self;
        let folder = tempfile::Builder::new().prefix("galatea-compile-").tempdir()?;
        let main = main_name(&source.name);
        for (name, text) in &source.headers {
            let path = Path::new(name);
            if !path
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            {
                return Err(CompileError::HeaderName(name.clone()));
            }
            let path = folder.path().join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        fs::write(folder.path().join(&main), &source.text)?;

        let mut preprocess = Command::new(&toolchain.path);
        preprocess
            .current_dir(folder.path())
            .args(["-E", "-x", "c++", "-w", "-I.", "-nostdinc"]);
        preprocess
            .arg(format!("-std={}", options.standard))
            .args(options.definitions());
        match precompiled {
            Some(path) => {
                // The flags must equal those of the precompiled header.
                preprocess
                    .arg("-fpch-preprocess")
                    .args(compile_flags(flags))
                    .arg("-include")
                    .arg(path);
            }
            None => {
                fs::write(folder.path().join(SHIM_NAME), shim)?;
                preprocess.args(["-include", SHIM_NAME]);
            }
        }
        preprocess.arg(&main);
        let text = run(preprocess)?;

        let mut program = program::scan(&text);
        program.append_exports(EXPORT);
        let preprocessed = "program.ii";
        let object = folder.path().join("program.so");
        fs::write(folder.path().join(preprocessed), &program.text)?;
        let mut compile = Command::new(&toolchain.path);
        compile
            .current_dir(folder.path())
            .args(["-x", "c++-cpp-output"])
            .args(flags);
        // The sanitizers' flags must not reach the linker, which would add their libraries.
        let sanitized = flags.iter().any(|flag| flag.starts_with("-fsanitize"));
        if sanitized {
            compile.args(["-c", preprocessed, "-o", "program.o"]);
            run(compile)?;
            let mut link = Command::new(&toolchain.path);
            link.current_dir(folder.path()).args(["-shared", "-nostdlib"]);
            link.args(flags.iter().filter(|flag| flag.starts_with("-fuse-ld")));
            link.arg("program.o").arg("-o").arg(&object).args(LIBRARIES);
            run(link)?;
        } else {
            compile
                .arg(preprocessed)
                .arg("-o")
                .arg(&object)
                .args(["-x", "none"])
                .args(LIBRARIES);
            run(compile)?;
        }
        Ok(fs::read(object)?)
    }
}

/// The flags without those of the linker.
fn compile_flags(flags: &[String]) -> impl Iterator<Item = &String> {
    flags
        .iter()
        .filter(|flag| !flag.starts_with("-fuse-ld") && !matches!(flag.as_str(), "-shared" | "-nostdlib"))
}

/// The C library for `memcpy` and `printf`, its mathematical part, and 128-bit division.
const LIBRARIES: [&str; 4] = ["-Wl,--as-needed", "-lm", "-lc", "-lgcc"];

/// Runs a step. Returns its standard output, or its messages as the error.
fn run(mut command: Command) -> Result<String, CompileError> {
    // English messages with ASCII quotes, independently of the user's locale.
    let output = command.env("LC_ALL", "C").output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut log = String::from_utf8_lossy(&output.stderr).into_owned();
    if log.is_empty() {
        log = format!("the compiler ended with {}", output.status);
    }
    Err(CompileError::Diagnostics(log))
}

/// A file name for the program: its own name if that is a file name.
fn main_name(name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && !name.starts_with(['.', '-']);
    if plain {
        name.to_owned()
    } else {
        "program.cu".to_owned()
    }
}
