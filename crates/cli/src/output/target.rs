//! The target of results: standard output, or the file of `\o`.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The target of results. Clones share the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target(Option<(PathBuf, Arc<Mutex<File>>)>);

impl Target {
    /// Creates a file as the target.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        Ok(Self(Some((path.to_path_buf(), Arc::new(Mutex::new(file))))))
    }

    /// The file's path.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|(path, _)| path.as_path())
    }

    /// Whether results appear on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.0.is_none() && io::stdout().is_terminal()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Some((_, file)) => file.lock().unwrap_or_else(PoisonError::into_inner).write(bytes),
            None => io::stdout().write(bytes).inspect_err(note_closed),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.0 {
            Some((_, file)) => file.lock().unwrap_or_else(PoisonError::into_inner).flush(),
            None => io::stdout().flush().inspect_err(note_closed),
        }
    }
}

/// Whether the reader of standard output has closed it. Libraries convert that error into a string.
static CLOSED: AtomicBool = AtomicBool::new(false);

fn note_closed(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Whether standard output is closed.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}
