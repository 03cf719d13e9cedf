//! Standard input as a file of queries: `FROM '-'`, `read_csv('/dev/stdin')`.
//!
//! Readers need a file: its size, its beginning for the types of columns, and its end for Parquet. So a pipe
//! is read once into a temporary file, and a redirected file is linked there. The extension of the temporary
//! file is the format that the first bytes show.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Bytes of one read.
const STEP: usize = 1 << 20;
/// Bytes at the beginning that determine the format.
const HEAD: usize = 4 << 10;

/// The reason that standard input cannot be read as a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandardInputError {
    /// The session does not read standard input.
    #[error("'{name}' is standard input, and it cannot be read here: {reason}")]
    Unavailable {
        /// The name in the query.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// No byte was read.
    #[error("standard input is empty: '{name}' has no data")]
    Empty {
        /// The name in the query.
        name: String,
    },
    /// The temporary file would exceed its limit.
    #[error(
        "standard input has more than {limit} bytes, the limit of temporary files\nhint: SET datafusion.runtime.max_temp_directory_size, or write the data to a file"
    )]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The system failed.
    #[error("cannot read standard input into a temporary file: {0}")]
    Failed(String),
}

impl From<StandardInputError> for DataFusionError {
    fn from(error: StandardInputError) -> Self {
        Self::External(Box::new(error))
    }
}

/// The use of standard input in a session. An extension of its configuration.
#[derive(Debug)]
pub(crate) struct StandardInput {
    /// The reason that queries cannot read it.
    refused: Option<&'static str>,
    file: OnceCell<std::result::Result<Held, StandardInputError>>,
}

/// The temporary file.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    _folder: TempDir,
}

impl StandardInput {
    pub(crate) fn new(refused: Option<&'static str>) -> Self {
        Self {
            refused,
            file: OnceCell::new(),
        }
    }
}

/// Whether a path is a name of standard input.
pub(crate) fn is_named(path: &str) -> bool {
    matches!(path, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// The file with the data of standard input. It is read at the first call.
///
/// # Errors
/// [`StandardInputError`].
pub(crate) async fn file(name: &str, state: &SessionState) -> Result<PathBuf> {
    let Some(input) = state.config().get_extension::<StandardInput>() else {
        return Err(unavailable(name, "only the command galatea reads it"));
    };
    if let Some(reason) = input.refused {
        return Err(unavailable(name, reason));
    }
    let limit = state.runtime_env().disk_manager.max_temp_directory_size();
    let held = input.file.get_or_init(|| held(limit)).await;
    match held {
        Ok(held) => Ok(held.path.clone()),
        Err(StandardInputError::Empty { .. }) => Err(StandardInputError::Empty {
            name: name.to_owned(),
        }
        .into()),
        Err(error) => Err(error.clone().into()),
    }
}

fn unavailable(name: &str, reason: &'static str) -> DataFusionError {
    StandardInputError::Unavailable {
        name: name.to_owned(),
        reason,
    }
    .into()
}

async fn held(limit: u64) -> std::result::Result<Held, StandardInputError> {
    // A pipe may block for ever.
    let read = tokio::task::spawn_blocking(move || held_file(io::stdin().lock(), regular_file(), limit));
    read.await
        .unwrap_or_else(|failed| Err(StandardInputError::Failed(failed.to_string())))
}

/// The file to which standard input is redirected; `None` for pipes and terminals.
fn regular_file() -> Option<PathBuf> {
    let path = fs::canonicalize("/dev/stdin").ok()?;
    path.is_file().then_some(path)
}

/// Creates the temporary file: a copy of `input`, or a link to the file `known`.
fn held_file(
    mut input: impl io::Read,
    known: Option<PathBuf>,
    limit: u64,
) -> std::result::Result<Held, StandardInputError> {
    let failed = |cause: io::Error| StandardInputError::Failed(cause.to_string());
    let folder = tempfile::Builder::new()
        .prefix("galatea-stdin-")
        .tempdir()
        .map_err(failed)?;
    let data = folder.path().join("data");
    match &known {
        Some(known) => link(known, &data).map_err(failed)?,
        None => copy(&mut input, &data, limit)?,
    }
    let mut head = Vec::new();
    let file = File::open(&data).map_err(failed)?;
    file.take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    if head.is_empty() {
        return Err(StandardInputError::Empty { name: String::new() });
    }
    let path = folder.path().join(format!("stdin.{}", extension(&head)));
    fs::rename(&data, &path).map_err(failed)?;
    Ok(Held {
        path,
        _folder: folder,
    })
}

#[cfg(unix)]
fn link(known: &Path, data: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(known, data)
}

#[cfg(not(unix))]
fn link(known: &Path, data: &Path) -> io::Result<()> {
    fs::copy(known, data).map(|_| ())
}

fn copy(input: &mut impl io::Read, data: &Path, limit: u64) -> std::result::Result<(), StandardInputError> {
    let failed = |cause: io::Error| StandardInputError::Failed(cause.to_string());
    let mut file = File::create_new(data).map_err(failed)?;
    let mut step = vec![0; STEP];
    let mut written: u64 = 0;
    loop {
        let count = match input.read(&mut step) {
            Ok(0) => return file.flush().map_err(failed),
            Ok(count) => count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(failed(cause)),
        };
        written += count as u64;
        if written > limit {
            return Err(StandardInputError::TooLarge { limit });
        }
        file.write_all(&step[..count]).map_err(failed)?;
    }
}

/// The extension of the format that the first bytes show. Compressed data is CSV.
fn extension(head: &[u8]) -> &'static str {
    const BEGINNINGS: [(&[u8], &str); 7] = [
        (b"PAR1", "parquet"),
        (b"ARROW1", "arrow"),
        (b"Obj\x01", "avro"),
        (&[0x1f, 0x8b], "csv.gz"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "csv.zst"),
        (b"BZh", "csv.bz2"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "csv.xz"),
    ];
    if let Some((_, extension)) = BEGINNINGS.iter().find(|(begin, _)| head.starts_with(begin)) {
        return extension;
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match text.trim_ascii_start() {
        // A JSON array of objects, or objects; `[` alone may begin a header of CSV.
        [b'{', ..] => "json",
        [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [b'{' | b']', ..]) => "json",
        _ => "csv",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_determine_the_format() {
        for (head, expected) in [
            (b"PAR1\x15\x04".as_slice(), "parquet"),
            (b"ARROW1\0\0", "arrow"),
            (b"\x1f\x8b\x08", "csv.gz"),
            (b"\x28\xb5\x2f\xfd\x04", "csv.zst"),
            (b"BZh9", "csv.bz2"),
            (b"{\"a\": 1}\n", "json"),
            (b"\xef\xbb\xbf \n [ {\"a\": 1}]", "json"),
            (b"[]", "json"),
            (b"[a],b\n1,2\n", "csv"),
            (b"a,b\n1,2\n", "csv"),
        ] {
            assert_eq!(extension(head), expected, "{head:?}");
        }
    }

    #[test]
    fn pipe_is_copied_up_to_the_limit() {
        let held = held_file(b"a,b\n1,2\n".as_slice(), None, 8).expect("within the limit");
        assert!(held.path.ends_with("stdin.csv"), "{}", held.path.display());
        assert_eq!(fs::read(&held.path).expect("a file"), b"a,b\n1,2\n");
        let error = held_file(b"a,b\n1,2\n\n".as_slice(), None, 8).expect_err("one byte more");
        assert_eq!(error, StandardInputError::TooLarge { limit: 8 });
        assert!(error.to_string().contains("max_temp_directory_size"), "{error}");
        let error = held_file(b"".as_slice(), None, 8).expect_err("no data");
        assert!(matches!(error, StandardInputError::Empty { .. }));
        let path = held.path.clone();
        drop(held);
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn redirected_file_is_not_copied() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        fs::write(&path, "[{\"a\": 1}]").expect("written");
        let held = held_file(b"".as_slice(), Some(path.clone()), 0).expect("linked");
        assert_eq!(fs::read_link(&held.path).expect("a link"), path);
        assert!(held.path.ends_with("stdin.json"));
    }
}
