//! Finds and opens NVIDIA's libraries at run time.
//!
//! The driver has one name, `libcuda.so.1`, which the dynamic linker finds wherever a driver is installed.
//! NVRTC may be in many places. They are searched in this order, and the first that opens is used:
//!
//! 1. `$GALATEA_NVRTC_PATH`, a file or a folder, absolute;
//! 2. `libnvrtc.so.13`, then `.so.12`, only by name: `LD_LIBRARY_PATH` and the linker's cache;
//! 3. `/usr/local/cuda*/lib64` (newest first), `/opt/cuda/lib64` and the systems' own library folders;
//! 4. NVIDIA's Python wheels, `nvidia/{cu13,cuda_nvrtc}/lib` in the `site-packages` that contain this library
//!    (the Python package `galatea`), then in those of the active Python environment, of each environment
//!    with a `python3` on `PATH` or beside this program (`galatea`, installed by pip or uv), and of the user.
//!
//! Opening a library runs its code, so only absolute places are searched: a folder that another user filled,
//! such as a cloned repository, is not searched merely because it is the current folder.
//!
//! When NVRTC first compiles, it opens a companion, `libnvrtc-builtins.so.<version>`, only by name. In a
//! folder that the linker does not search, that fails unless the companion is already loaded: so it is opened
//! first.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL};

use crate::environment;
use crate::errors::Missing;

/// Sonames of the supported versions, best first.
const SONAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];

/// The place where NVRTC was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundNvrtc {
    /// The file that was opened, or the bare name if the linker found it.
    pub(crate) path: PathBuf,
    /// The place in the search, in words.
    pub(crate) how: String,
}

/// Opens a library for the life of the process.
pub(crate) fn open(name: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: opening runs the library's initialisers. Only NVIDIA's driver and compiler are opened, and
    // their initialisers have no preconditions.
    unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_GLOBAL) }
}

/// Opens a library for the life of the process. Other libraries do not see its symbols.
pub(crate) fn open_alone(name: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: as in `open`.
    unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) }
}

/// The file of the loaded library that contains a function; `None` if the linker does not return it.
pub(crate) fn file_of(function: *const c_void) -> Option<PathBuf> {
    std::fs::canonicalize(linked_name(function)?).ok()
}

/// The name under which the linker opened the library that contains a function. For the program itself, it is
/// the first word of the command line, which may be relative.
fn linked_name(function: *const c_void) -> Option<PathBuf> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the linker only compares the address; the struct is written by the call.
    if unsafe { libc::dladdr(function, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: all zeros are a valid value, and the call succeeded.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, so a terminated string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    Some(OsStr::from_bytes(name.to_bytes()).into())
}

/// The dynamic linker's message, which the error keeps as its source.
pub(crate) fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Address of a symbol.
pub(crate) fn symbol(library: &Library, name: &str) -> Option<*const c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: the address is only read here, not used; the table defines its type.
    let symbol = unsafe { library.get::<*const c_void>(name.as_bytes_with_nul()) }.ok()?;
    let address = symbol.into_raw();
    (!address.is_null()).then_some(address.cast_const())
}

/// Searches NVRTC. The error lists the places that were searched.
pub(crate) fn find_nvrtc() -> Result<(Library, FoundNvrtc), Missing> {
    let mut tried = Vec::new();
    if let Some(path) = environment::nvrtc_path() {
        let how = format!("${}", environment::NVRTC_PATH);
        if let Some(found) = if path.is_relative() {
            tried.push(format!("{how}: {} is not an absolute path", path.display()));
            None
        } else if path.is_dir() {
            open_in(&path, &how, &mut tried)
        } else {
            open_file(&path, &how, &mut tried)
        } {
            return Ok(found);
        }
    }
    for soname in SONAMES {
        match open(soname.as_ref()) {
            Ok(library) => {
                return Ok((
                    library,
                    FoundNvrtc {
                        path: soname.into(),
                        how: "the system's libraries".to_owned(),
                    },
                ));
            }
            Err(error) => tried.push(reason(&error)),
        }
    }
    for (folder, how) in candidate_folders() {
        if let Some(found) = open_in(&folder, how, &mut tried) {
            return Ok(found);
        }
    }
    Err(missing_nvrtc(tried.join("; ")))
}

pub(crate) fn missing_nvrtc(reason: String) -> Missing {
    Missing {
        what: "NVRTC",
        reason,
        remedy: "install the CUDA toolkit (12 or 13), or `pip install nvidia-cuda-nvrtc` into the Python environment whose \
                 python3 is on PATH (for the Python package: `pip install 'galatea[cuda]'`); all are found without further \
                 settings",
    }
}

/// Opens the best version in a folder, if it contains one.
fn open_in(folder: &Path, how: &str, tried: &mut Vec<String>) -> Option<(Library, FoundNvrtc)> {
    SONAMES
        .iter()
        .map(|soname| folder.join(soname))
        .filter(|path| path.exists())
        .find_map(|path| open_file(&path, how, tried))
}

fn open_file(path: &Path, how: &str, tried: &mut Vec<String>) -> Option<(Library, FoundNvrtc)> {
    if let Some(folder) = path.parent() {
        open_builtins(folder);
    }
    match open(path) {
        Ok(library) => Some((
            library,
            FoundNvrtc {
                path: path.to_owned(),
                how: how.to_owned(),
            },
        )),
        Err(error) => {
            tried.push(reason(&error));
            None
        }
    }
}

/// Opens the companions in a folder and leaves them open. NVRTC reports a companion that it lacks.
fn open_builtins(folder: &Path) {
    for path in entries(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libnvrtc-builtins.so")
            && let Ok(library) = open(&path)
        {
            std::mem::forget(library);
        }
    }
}

/// Folders that may contain NVRTC, in order, with their descriptions.
fn candidate_folders() -> Vec<(PathBuf, &'static str)> {
    let mut folders = Vec::new();
    let mut toolkits: Vec<PathBuf> = entries("/usr/local".as_ref())
        .into_iter()
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("cuda"))
        })
        .collect();
    // `cuda` (the chosen one) first, then the newest.
    toolkits.sort_by_key(|path| {
        let version = path.to_string_lossy().rsplit('-').next().and_then(version_number);
        (
            path.file_name() != Some("cuda".as_ref()),
            std::cmp::Reverse(version),
        )
    });
    toolkits.push("/opt/cuda".into());
    for toolkit in toolkits {
        folders.push((toolkit.join("lib64"), "the CUDA toolkit"));
        for target in ["x86_64-linux", "sbsa-linux", "aarch64-linux"] {
            folders.push((
                toolkit.join("targets").join(target).join("lib"),
                "the CUDA toolkit",
            ));
        }
    }
    let system = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for folder in [system.as_str(), "/usr/lib64", "/usr/lib"] {
        folders.push((folder.into(), "the system's libraries"));
    }
    let own = linked_name(candidate_folders as *const c_void).and_then(|library| packages_of(&library));
    let others = site_packages(&python_prefixes(environment::executable_folders()));
    for site_packages in own.into_iter().chain(others) {
        for wheel in ["cu13", "cuda_nvrtc"] {
            folders.push((
                site_packages.join("nvidia").join(wheel).join("lib"),
                "NVIDIA's Python wheel",
            ));
        }
    }
    folders
}

/// The `site-packages` that contain the extension module of a package; `None` for other files.
fn packages_of(module: &Path) -> Option<PathBuf> {
    let packages = module.parent()?.parent()?;
    let is_packages = packages.ends_with("site-packages") || packages.ends_with("dist-packages");
    (packages.is_absolute() && is_packages).then(|| packages.to_owned())
}

/// Parses `13.0` as a comparable number.
fn version_number(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next().flatten().unwrap_or(0)))
}

/// Prefixes of the Python environments that a user is likely to install the wheel into.
fn python_prefixes(executable_folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    for folder in executable_folders
        .into_iter()
        .filter(|folder| folder.is_absolute())
    {
        let python = folder.join("python3");
        if !python.exists() {
            continue;
        }
        // A virtual environment's python3 is a link to a file outside of it: its own prefix first, then that
        // of the link's target.
        prefixes.extend(folder.parent().map(Path::to_owned));
        if let Some(prefix) = python
            .canonicalize()
            .ok()
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::parent)
        {
            prefixes.push(prefix.to_owned());
        }
    }
    if let Some(home) = dirs::home_dir() {
        prefixes.extend([home.join(".local"), home.join(".venv"), home.join("venv")]);
    }
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    // A relative entry of PATH leads into the current folder.
    prefixes.retain(|prefix| prefix.is_absolute());
    prefixes
}

/// The `site-packages` folders under some prefixes that contain anything of NVIDIA's, in order.
fn site_packages(prefixes: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let libraries = prefixes
        .iter()
        .flat_map(|prefix| ["lib", "lib64", "local/lib"].map(|name| prefix.join(name)));
    for python in libraries.flat_map(|library| entries(&library)) {
        if !python
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("python3"))
        {
            continue;
        }
        for packages in ["site-packages", "dist-packages"] {
            let folder = python.join(packages);
            if folder.join("nvidia").is_dir() && !found.contains(&folder) {
                found.push(folder);
            }
        }
    }
    found
}

/// Entries of a folder, sorted; empty if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_found_in_every_layout() {
        let root = tempfile::tempdir().unwrap();
        let folders = [
            "a/lib/python3.12/site-packages",
            "b/lib64/python3.9/site-packages",
            "b/local/lib/python3/dist-packages",
        ]
        .map(|folder| root.path().join(folder));
        for folder in &folders {
            std::fs::create_dir_all(folder.join("nvidia/cu13/lib")).unwrap();
        }
        std::fs::create_dir_all(root.path().join("a/lib/python3.11/site-packages/numpy")).unwrap();
        std::fs::create_dir_all(root.path().join("a/lib/perl/site-packages/nvidia")).unwrap();
        let prefixes = ["a", "nowhere", "b", "a"].map(|prefix| root.path().join(prefix));
        assert_eq!(site_packages(&prefixes), folders);
    }

    #[test]
    fn packages_of_an_extension_module_are_found() {
        let packages = "/venv/lib/python3.12/site-packages";
        let module = format!("{packages}/galatea/_galatea.abi3.so");
        assert_eq!(packages_of(module.as_ref()), Some(packages.into()));
        // The program, a module outside of an environment, and a name relative to the current folder.
        for other in [
            "/venv/bin/galatea",
            "/src/galatea/_galatea.abi3.so",
            "site-packages/galatea/x.so",
            "galatea",
        ] {
            assert_eq!(packages_of(other.as_ref()), None, "{other}");
        }
        // The environment of an installed command has a python3 beside it.
        let folders = environment::executable_folders();
        let program = std::env::current_exe().unwrap();
        assert!(
            folders.contains(&program.parent().unwrap().to_owned()),
            "{folders:?}"
        );
    }

    #[test]
    fn the_current_folder_is_not_searched() {
        let here = std::env::current_dir().unwrap();
        // An entry of PATH that leads to a python3, relative to the working folder of tests.
        let folder = tempfile::tempdir_in(&here).unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::fs::write(folder.path().join("bin/python3"), "").unwrap();
        let relative = folder.path().strip_prefix(&here).unwrap().join("bin");
        assert!(relative.is_relative() && relative.join("python3").exists());
        let prefixes = python_prefixes(vec![relative, folder.path().join("bin")]);
        assert!(prefixes.contains(&folder.path().to_owned()), "{prefixes:?}");
        for prefix in prefixes {
            assert!(prefix.is_absolute(), "{}", prefix.display());
        }
    }

    #[test]
    fn invalid_library_file_is_reported_and_skipped() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libnvrtc.so.12"), "not a library").unwrap();
        let mut tried = Vec::new();
        assert!(open_in(folder.path(), "a test", &mut tried).is_none());
        assert_eq!(tried.len(), 1);
        assert!(tried[0].contains("libnvrtc.so.12"), "{tried:?}");
        assert!(open_in(&folder.path().join("missing"), "a test", &mut tried).is_none());
        assert_eq!(tried.len(), 1, "what does not exist is not worth a word");
    }

    #[test]
    fn versions_are_compared_numerically() {
        assert!(version_number("13.0") > version_number("12.9"));
        assert!(version_number("12.10") > version_number("12.9"));
        assert_eq!(version_number("cuda"), None);
    }
}
