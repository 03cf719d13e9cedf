//! The shim as a precompiled header, which halves the time of a small compilation.
//!
//! GCC only. The header is compiled once per compiler, set of flags and version of the shim, into a folder of
//! the cache that is renamed into place when it is complete. If that fails, programs include the shim as
//! text.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use parking_lot::Mutex;

use super::{Options, SHIM_NAME, Toolchain, run};

/// Path of a copy of the shim. Its precompiled form is stored next to it.
pub(super) fn shim(
    toolchain: &Toolchain,
    options: &Options,
    flags: &[String],
    text: &str,
    cache: &Path,
) -> Option<PathBuf> {
    static KNOWN: Mutex<Option<HashMap<PathBuf, bool>>> = Mutex::new(None);
    if !toolchain.gnu {
        return None;
    }
    let own = options.own_definitions();
    let mut hasher = blake3::Hasher::new();
    let compiler = toolchain.path.to_string_lossy();
    for field in [&*compiler, &toolchain.version, text]
        .into_iter()
        .chain(flags.iter().chain(&own).map(String::as_str))
    {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field.as_bytes());
    }
    let folder = cache.join(format!("shim-{}", &hasher.finalize().to_hex()[..24]));
    let shim = folder.join(SHIM_NAME);
    // One thread compiles the header and the others wait: all would be slower without it.
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    let usable = *known.entry(folder.clone()).or_insert_with(|| {
        fs::exists(precompiled(&shim)).unwrap_or(false)
            || make(toolchain, &own, flags, text, cache, &folder).unwrap_or_else(|error| {
                tracing::debug!("the emulator's shim is not precompiled: {error}");
                false
            })
    });
    // The header may have been deleted since.
    (usable && fs::exists(precompiled(&shim)).unwrap_or(false)).then_some(shim)
}

/// The name that GCC looks up next to the header.
fn precompiled(shim: &Path) -> PathBuf {
    let mut name = shim.as_os_str().to_owned();
    name.push(".gch");
    name.into()
}

fn make(
    toolchain: &Toolchain,
    own: &[String],
    flags: &[String],
    text: &str,
    cache: &Path,
    folder: &Path,
) -> Result<bool, super::CompileError> {
    DirBuilder::new().recursive(true).mode(0o700).create(cache)?;
    let temporary = tempfile::Builder::new().prefix("shim-").tempdir_in(cache)?;
    let shim = temporary.path().join(SHIM_NAME);
    fs::write(&shim, text)?;
    let mut command = Command::new(&toolchain.path);
    command
        .current_dir(temporary.path())
        .args(["-x", "c++-header", "-nostdinc"])
        .args(super::compile_flags(flags))
        .args(own);
    command.arg(SHIM_NAME).arg("-o").arg(precompiled(&shim));
    run(command)?;
    // If another process was faster, its folder is kept.
    if fs::rename(temporary.path(), folder).is_ok() {
        let _ = temporary.keep();
    }
    Ok(true)
}
