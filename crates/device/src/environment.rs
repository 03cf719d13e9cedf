//! Every environment variable that Galatea reads, in one place.
//!
//! `std::env::var` is disallowed elsewhere (see `clippy.toml`), so this module is the complete list. An empty
//! variable counts as unset. None of them is needed for normal use: libraries and directories are found
//! without them.
//!
//! | variable | read by | meaning | default |
//! | --- | --- | --- | --- |
//! | [`CACHE_DIR`] | device, emulator | folder of compiled kernels, calibrations, columns and the demo's data, absolute | the user's cache folder + `/galatea` |
//! | [`NVRTC_PATH`] | device | file or folder of `libnvrtc.so`, absolute, searched first | searched |
//! | [`REQUIRE_GPU`] | tests | `1`: a test that would be skipped for lack of a GPU or NVRTC fails | skips are
//! counted and printed |
//! | [`TEST_DEVICE`] | tests | `gpu`: queries that are compared with the CPU's results run on a GPU | on the
//! emulated device |
//! | [`TEST_FILES`] | tests | `all`: queries that are compared with the CPU's results also run over files,
//! each in every way; `none`: none of them does | a share does |
//! | [`CAMPAIGN`] | tests | number of additional seeds of long random tests | 0 |
//! | [`SEED`] | tests | the first seed of random tests | 1 |
//! | [`SQLLOGICTEST`] | tests | the files of DataFusion's sqllogictest that run: `all`, or words of their
//! paths, separated by commas | an everyday few |
//! | [`PAGER`], then `PAGER` | command line | the command that shows long results, in shell syntax | `less
//! -FSRX` |
//! | [`CXX`] | emulator | the C++ compiler that compiles device code for the emulated device | `c++`, then `g++` |

use std::path::{Path, PathBuf};

/// Folder of compiled kernels and calibrations. Default: the user's cache folder followed by `galatea`.
pub const CACHE_DIR: &str = "GALATEA_CACHE_DIR";
/// File or folder of `libnvrtc.so`, searched before every other place.
pub const NVRTC_PATH: &str = "GALATEA_NVRTC_PATH";
/// `1` turns a test skipped for lack of a GPU or of NVRTC into a failure. Set it on machines that have both.
pub const REQUIRE_GPU: &str = "GALATEA_REQUIRE_GPU";
/// Number of seeds of campaigns of random tests. If unset, the campaigns do not run.
pub const CAMPAIGN: &str = "GALATEA_CAMPAIGN";
/// See the table above.
pub const TEST_DEVICE: &str = "GALATEA_TEST_DEVICE";
/// `all` or `none`: the queries that also run over files.
pub const TEST_FILES: &str = "GALATEA_TEST_FILES";
/// The first seed of random tests.
pub const SEED: &str = "GALATEA_SEED";
/// The files of DataFusion's sqllogictest that run: `all`, or words that their paths contain, separated by
/// commas.
pub const SQLLOGICTEST: &str = "GALATEA_SQLLOGICTEST";
/// The command that shows long results of the prompt.
pub const PAGER: &str = "GALATEA_PAGER";
/// The host C++ compiler of the emulated device.
pub const CXX: &str = "GALATEA_CXX";

/// The value of [`CACHE_DIR`], or the user's cache folder followed by `galatea`; `None` if the user has no
/// home directory. [`crate::CacheFolder::open`] creates the folder and checks whether it can be trusted.
#[must_use]
pub fn cache_directory() -> Option<PathBuf> {
    path(CACHE_DIR).or_else(|| Some(dirs::cache_dir()?.join("galatea")))
}

/// The value of [`NVRTC_PATH`].
#[must_use]
pub fn nvrtc_path() -> Option<PathBuf> {
    path(NVRTC_PATH)
}

/// Whether [`REQUIRE_GPU`] is `1`.
#[must_use]
pub fn require_gpu() -> bool {
    path(REQUIRE_GPU).is_some_and(|value| value.as_os_str() == "1")
}

/// Whether [`TEST_DEVICE`] is `gpu`.
#[must_use]
pub fn test_on_gpu() -> bool {
    path(TEST_DEVICE).is_some_and(|value| value.as_os_str() == "gpu")
}

/// The queries of tests that also run over files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestFiles {
    /// None of them.
    None,
    /// A share of them, each in one way.
    Share,
    /// All of them, in every way.
    All,
}

/// The value of [`TEST_FILES`].
#[must_use]
pub fn test_files() -> TestFiles {
    let value = path(TEST_FILES);
    match value.as_ref().and_then(|value| value.to_str()) {
        Some("all") => TestFiles::All,
        Some("none") => TestFiles::None,
        _ => TestFiles::Share,
    }
}

/// The value of [`CAMPAIGN`], or 0 if it is not a number.
#[must_use]
pub fn campaign() -> u64 {
    number(CAMPAIGN).unwrap_or(0)
}

/// The value of [`SEED`], or 1 if it is not a number.
#[must_use]
pub fn seed() -> u64 {
    number(SEED).unwrap_or(1)
}

fn number(variable: &str) -> Option<u64> {
    path(variable)?.to_str()?.parse().ok()
}

/// The value of [`SQLLOGICTEST`].
#[must_use]
pub fn sqllogictest() -> Option<String> {
    path(SQLLOGICTEST)?.into_os_string().into_string().ok()
}

/// The value of [`PAGER`], or of the common variable `PAGER`.
#[must_use]
pub fn pager() -> Option<String> {
    let pager = path(PAGER).or_else(|| path("PAGER"))?;
    pager.into_os_string().into_string().ok()
}

/// The value of [`CXX`].
#[must_use]
pub fn cxx() -> Option<PathBuf> {
    path(CXX)
}

/// The user's active Python environment (`VIRTUAL_ENV`, `CONDA_PREFIX`), if any, the folders of `PATH`, in
/// order, and the folder of this program: a `python3` with NVIDIA's wheels is searched there.
pub(crate) fn executable_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(path)
        .map(|folder| folder.join("bin"))
        .collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "this module is where the environment is read"
    )]
    if let Some(value) = std::env::var_os("PATH") {
        folders.extend(std::env::split_paths(&value));
    }
    // `uv tool install` and pipx link the command from a folder of PATH; its environment is not on PATH.
    if let Ok(program) = std::env::current_exe() {
        folders.extend(program.parent().map(Path::to_owned));
    }
    folders
}

#[expect(
    clippy::disallowed_methods,
    reason = "this module is where the environment is read"
)]
fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
