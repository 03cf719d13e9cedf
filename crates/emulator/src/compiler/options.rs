//! Options of NVRTC, and the additional ones of the emulator.

use std::path::PathBuf;

/// How device code is instrumented.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) stress: bool,
    pub(crate) count: bool,
    pub(crate) races: bool,
    pub(crate) address_sanitizer: bool,
}

/// Parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) compiler: Option<PathBuf>,
    pub(crate) cache: Option<PathBuf>,
    pub(crate) standard: String,
    /// `-D`, `-U` and `-I` with their arguments, in order.
    preprocessor: Vec<String>,
    architecture: u32,
}

/// An unsupported option.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown or malformed option: {0}")]
pub(crate) struct OptionError(pub(crate) String);

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::default(),
            compiler: None,
            cache: None,
            standard: "c++17".to_owned(),
            preprocessor: Vec::new(),
            architecture: 90,
        }
    }
}

impl Options {
    /// Parses NVRTC options. Options that affect only NVIDIA's compiler are accepted and ignored.
    pub(crate) fn parse<'a>(
        given: impl IntoIterator<Item = &'a str>,
        defaults: Options,
    ) -> Result<Options, OptionError> {
        let mut options = defaults;
        let mut given = given.into_iter();
        while let Some(option) = given.next() {
            let malformed = || OptionError(option.to_owned());
            let (name, value) = match option.split_once('=') {
                Some((name, value)) if !name.starts_with("-D") => (name, Some(value)),
                _ => (option, None),
            };
            let mut argument = || {
                value
                    .or_else(|| given.next())
                    .map(str::to_owned)
                    .ok_or_else(malformed)
            };
            match name {
                "--emulator-stress" => options.mode.stress = true,
                "--emulator-count" => options.mode.count = true,
                "--emulator-races" => options.mode.races = true,
                "--emulator-address-sanitizer" => options.mode.address_sanitizer = true,
                "--emulator-compiler" => options.compiler = Some(argument()?.into()),
                "--emulator-cache" => options.cache = Some(argument()?.into()),
                // Part of the key only.
                "--emulator-revision" => drop(argument()?),
                "-std" | "--std" => options.standard = argument()?,
                "-arch" | "--gpu-architecture" => {
                    let digits: String = argument()?.chars().filter(char::is_ascii_digit).collect();
                    options.architecture = digits.parse().map_err(|_| malformed())?;
                }
                "--define-macro" | "-D" => options.preprocessor.push(format!("-D{}", argument()?)),
                "--undefine-macro" | "-U" => options.preprocessor.push(format!("-U{}", argument()?)),
                "--include-path" | "-I" => options.preprocessor.push(format!("-I{}", argument()?)),
                // These take a separate argument if none is attached.
                "--maxrregcount"
                | "-maxrregcount"
                | "--ptxas-options"
                | "-Xptxas"
                | "--optimization-level" => {
                    argument()?;
                }
                _ if option.starts_with("-D") || option.starts_with("-U") || option.starts_with("-I") => {
                    options.preprocessor.push(option.to_owned());
                }
                _ if INERT.contains(&name) => {}
                _ => return Err(malformed()),
            }
        }
        Ok(options)
    }

    /// Flags for the preprocessor.
    pub(crate) fn definitions(&self) -> Vec<String> {
        let mut flags = self.own_definitions();
        flags.extend(self.preprocessor.iter().cloned());
        flags
    }

    /// The preprocessor flags that the program did not pass.
    pub(crate) fn own_definitions(&self) -> Vec<String> {
        let mut flags = vec![
            format!("-D__CUDA_ARCH__={}", self.architecture * 10),
            "-D__CUDACC__".to_owned(),
        ];
        flags.push("-D__CUDACC_RTC__".to_owned());
        flags.push("-D__NVCC__".to_owned());
        if self.mode.stress {
            flags.push("-DGALATEA_EMULATOR_STRESS".to_owned());
        }
        if self.mode.count || self.mode.races {
            flags.push("-DGALATEA_EMULATOR_COUNT".to_owned());
        }
        if self.mode.races {
            flags.push("-DGALATEA_EMULATOR_RACES".to_owned());
        }
        if self.mode.address_sanitizer {
            flags.push("-DGALATEA_EMULATOR_ASAN".to_owned());
        }
        flags
    }
}

/// Options without effect here.
const INERT: [&str; 39] = [
    "--minimal",
    "-minimal",
    "--device-int128",
    "-device-int128",
    "--no-cache",
    "--Ofast-compile",
    "-Ofc",
    "--use_fast_math",
    "-use_fast_math",
    "--fmad",
    "-fmad",
    "--ftz",
    "-ftz",
    "--prec-sqrt",
    "-prec-sqrt",
    "--prec-div",
    "-prec-div",
    "--extra-device-vectorization",
    "-extra-device-vectorization",
    "--device-debug",
    "-G",
    "--generate-line-info",
    "-lineinfo",
    "--dopt",
    "-dopt",
    "--relocatable-device-code",
    "-rdc",
    "--default-device",
    "-default-device",
    "--restrict",
    "-restrict",
    "--split-compile",
    "-split-compile",
    "--display-error-number",
    "-err-no",
    "--diag-suppress",
    "--no-source-include",
    "-w",
    "--disable-warnings",
];
