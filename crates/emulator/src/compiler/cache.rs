//! Compiled images on disk.
//!
//! Key, version 1: the BLAKE3 hash over these fields, each preceded by its length as 8 bytes: the version,
//! the compiler's path and version, the flags in order, the preprocessor flags in order, the shim and export
//! text, program name and text, and each header's name and text in order. Files are written under another
//! name and renamed into place, so readers see whole files only. A file that is not a whole image is ignored.

use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::{EXPORT, Options, Source, Toolchain};
use crate::image;

const VERSION: &str = "1";

/// The key of a compilation.
pub(crate) fn key(
    source: &Source,
    options: &Options,
    toolchain: &Toolchain,
    flags: &[String],
    shim: &str,
) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut field = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    field(VERSION);
    field(&toolchain.path.to_string_lossy());
    field(&toolchain.version);
    let definitions = options.definitions();
    for list in [flags, &definitions] {
        field(&list.len().to_string());
        list.iter().for_each(|flag| field(flag));
    }
    field(shim);
    field(EXPORT);
    field(&source.name);
    field(&source.text);
    for (name, text) in &source.headers {
        field(name);
        field(text);
    }
    hasher.finalize().to_hex().to_string()
}

/// Reads the image of a key, if it is cached.
pub(crate) fn read(directory: &Path, key: &str) -> Option<Vec<u8>> {
    let image = fs::read(path(directory, key)).ok()?;
    image::object(&image).is_some().then_some(image)
}

/// Stores an image. If the cache cannot be written, later runs compile again.
pub(crate) fn write(directory: &Path, key: &str, image: &[u8]) {
    let attempt = || -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(image)?;
        file.persist(path(directory, key))?;
        Ok(())
    };
    if let Err(error) = attempt() {
        tracing::debug!("compiled kernel not kept in {}: {error}", directory.display());
    }
}

fn path(directory: &Path, key: &str) -> PathBuf {
    directory.join(format!("{key}.image"))
}
