//! Spill destinations for the working memory of queries on the device: memory of the store, then DataFusion's
//! temporary files.

use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::spill_file::{SpillFile as TemporaryFile, SpillWriter};
use galatea_memory::regions::{HostBudget, SpillFile, SpillFiles};
use galatea_store::SpillMemory;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Divisor of the store's limit: pinned pages without content may use the quotient.
const IDLE: u64 = 8;

/// Spill memory under the store's limit.
#[derive(Debug)]
pub(crate) struct StoreMemory(pub(crate) SpillMemory);

impl HostBudget for StoreMemory {
    fn take(&self, bytes: u64) -> bool {
        self.0.take(bytes)
    }

    fn give(&self, bytes: u64) {
        self.0.give(bytes);
    }

    fn idle(&self) -> u64 {
        self.0.limit() / IDLE
    }
}

/// Temporary files of the session's DiskManager, which limits their size.
#[derive(Debug)]
pub(crate) struct TemporaryFiles(pub(crate) Arc<DiskManager>);

impl SpillFiles for TemporaryFiles {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        let file = self.0.create_tmp_file("moving memory of a GPU query to a file");
        let file = file.map_err(|error| io::Error::other(error.to_string()))?;
        let writer = file
            .open_writer()
            .map_err(|error| io::Error::other(error.to_string()))?;
        let path = file
            .path()
            .ok_or_else(|| io::Error::other("the session's temporary files have no path"))?;
        Ok(Box::new(Opened {
            reader: File::open(path)?,
            writer,
            end: 0,
            _file: file,
        }))
    }
}

struct Opened {
    writer: Box<dyn SpillWriter>,
    reader: File,
    /// Number of bytes written.
    end: u64,
    /// Removes the file when it is dropped.
    _file: Arc<dyn TemporaryFile>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl SpillFile for Opened {
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.writer.write_all(bytes)?;
        self.writer.flush()?;
        let offset = self.end;
        self.end += bytes.len() as u64;
        Ok(offset)
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.seek(SeekFrom::Start(offset))?;
        self.reader.read_exact(bytes)
    }
}
