//! Copies of NVRTC, which compile in parallel.
//!
//! A compilation holds a lock of the library for about a third of its time, so the threads of a process use
//! at most three to four cores. The linker loads a copy of the file as another library, with another lock:
//! there is a library for every [`CORES`] cores. Threads of low priority have a copy to themselves, because
//! they may lose their core while they hold the lock. On 16 cores, 16 threads compile 30 kernels per second
//! with one library, 55 with two, 80 with four and 79 with eight
//! (`bench/results/2026-11-28-nvidia-h100/first/compilers.csv`).
//!
//! Before a thread of low priority begins a compilation, it waits until no thread of usual priority compiles,
//! at most for [`PATIENCE`]. Compilations share caches, hyper-threads and locks of the driver, whatever the
//! priority of their threads.
//!
//! As soon as [`BUSY`] compilations run at once, a thread copies the library into the cache folder,
//! `nvrtc/<digest>.<n>`, unless an earlier process has done so, and loads the copies. Until then, and if the
//! folder cannot be used or has no space, all threads use the library that was found.
//!
//! A library adds exit handlers when it is loaded and when it compiles for the first time. They run before
//! those that were added earlier, so the process would not wait for compilations first ([`crate::ending`]).
//! Therefore the thread compiles a program with each copy and adds another handler that waits, before others
//! use the copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::cache_folder::{CacheFolder, free_disk_space};
use crate::compilation::compile_with;
use crate::ending::{before_the_end, wait_at_the_end};
use crate::info::Architecture;
use crate::program::Program;
use crate::sys::{Bound, NvrtcTable};
use crate::threads::has_low_priority;

/// Cores for each library that threads of usual priority use.
const CORES: usize = 4;

/// The most copies on disk. A copy takes 110 MB.
const MAX_COPIES: usize = 4;

/// Free space of the cache folder's file system, as a multiple of the copies, below which nothing is copied.
const FREE: u64 = 4;

/// Copies are loaded when this number of compilations run at once. A process with one short query has fewer.
const BUSY: usize = 4;

/// The longest time that a compilation of low priority waits for those of usual priority. With many
/// clients there may always be one of those.
const PATIENCE: Duration = Duration::from_millis(500);

/// The compilations of usual priority that run.
#[derive(Default)]
struct Usual {
    running: Mutex<usize>,
    none: Condvar,
}

static USUAL: Usual = Usual {
    running: Mutex::new(0),
    none: Condvar::new(),
};

impl Usual {
    fn begin(&self) {
        *self.running.lock() += 1;
    }

    fn end(&self) {
        let mut running = self.running.lock();
        *running -= 1;
        if *running == 0 {
            self.none.notify_all();
        }
    }

    /// Waits until none runs, at most for `patience`.
    fn wait(&self, patience: Duration) {
        let mut running = self.running.lock();
        self.none
            .wait_while_for(&mut running, |running| *running > 0, patience);
    }
}

/// A loaded compiler.
struct Library {
    table: NvrtcTable,
    running: AtomicUsize,
}

/// The loaded copies.
#[derive(Default)]
struct Copies {
    /// Those that threads of usual priority use besides the original.
    usual: Vec<Library>,
    /// That of threads with low priority.
    low: Option<Library>,
}

static COPIES: OnceLock<Copies> = OnceLock::new();

/// Compilations of the original.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A compiler that a thread uses until this is dropped.
pub(crate) struct Lease {
    pub(crate) table: &'static NvrtcTable,
    running: &'static AtomicUsize,
    has_low_priority: bool,
}

impl Lease {
    /// The compiler with the fewest compilations; that of low priority for threads of low priority, which
    /// wait for others.
    pub(crate) fn of(original: &'static Bound) -> Self {
        static START: Once = Once::new();
        let has_low_priority = has_low_priority();
        match has_low_priority {
            true => USUAL.wait(PATIENCE),
            false => USUAL.begin(),
        }
        if RUNNING.load(Ordering::Relaxed) + 1 >= BUSY {
            START.call_once(|| start_loading(original));
        }
        let original = (&original.table, &RUNNING);
        let copies = COPIES.get();
        let entry = |library: &'static Library| (&library.table, &library.running);
        let usual = copies.iter().flat_map(|copies| &copies.usual).map(entry);
        let low = copies.and_then(|copies| copies.low.as_ref()).map(entry);
        let least = usual.fold(original, |least, next| {
            match next.1.load(Ordering::Relaxed) < least.1.load(Ordering::Relaxed) {
                true => next,
                false => least,
            }
        });
        let (table, running) = low.filter(|_| has_low_priority).unwrap_or(least);
        running.fetch_add(1, Ordering::Relaxed);
        Self {
            table,
            running,
            has_low_priority,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        if !self.has_low_priority {
            USUAL.end();
        }
    }
}

/// Loads the copies on a thread of their own.
fn start_loading(original: &'static Bound) {
    let load = || {
        let copies = before_the_end(|| load(original));
        wait_at_the_end();
        let _ = COPIES.set(copies);
    };
    let thread = std::thread::Builder::new().name("galatea-compilers".to_owned());
    if let Err(error) = thread.spawn(load) {
        tracing::debug!("NVRTC is not copied: {error}");
    }
}

fn load(original: &Bound) -> Copies {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // The original is one of the libraries of usual priority, and one copy is that of low priority.
    let count = cores.div_ceil(CORES).min(MAX_COPIES);
    let Some(file) = original.table.file() else {
        tracing::debug!(
            "NVRTC is not copied: the file of {} is unknown",
            original.found.path.display()
        );
        return Copies::default();
    };
    let paths = CacheFolder::open(None)
        .and_then(|cache| cache.subfolder("nvrtc"))
        .map_err(io::Error::other)
        .and_then(|folder| copies_in(&folder, &file, original.version, count));
    let paths = paths.unwrap_or_else(|error| {
        tracing::debug!("NVRTC is not copied: {error}");
        Vec::new()
    });
    let program = Program::new(
        "first",
        "extern \"C\" __global__ void first(int* value) { *value = 1; }",
    );
    let options = program.all_options(Architecture::SM_90);
    let mut libraries = paths.iter().filter_map(|path| {
        let table = NvrtcTable::open_copy(path)
            .inspect_err(|reason| tracing::debug!("a copy of NVRTC is not used: {reason}"))
            .ok()?;
        // Its outcome does not matter.
        let _ = compile_with(&table, &program, &options);
        Some(Library {
            table,
            running: AtomicUsize::new(0),
        })
    });
    Copies {
        low: libraries.next(),
        usual: libraries.collect(),
    }
}

/// Paths of `count` copies of a file in a folder, which are written if they are missing. Copies of other
/// files are removed.
fn copies_in(folder: &Path, file: &Path, version: (u32, u32), count: usize) -> io::Result<Vec<PathBuf>> {
    let found = fs::metadata(file)?;
    let modified = found.modified()?;
    let name = format!("{} {version:?} {} {modified:?}", file.display(), found.len());
    let digest = &blake3::hash(name.as_bytes()).to_hex()[..16];
    let paths: Vec<_> = (0..count)
        .map(|number| folder.join(format!("{digest}.{number}")))
        .collect();
    let is_whole = |path: &PathBuf| fs::metadata(path).is_ok_and(|copy| copy.len() == found.len());
    let missing: Vec<_> = paths.iter().filter(|path| !is_whole(path)).collect();
    if missing.is_empty() {
        return Ok(paths);
    }
    for entry in fs::read_dir(folder)?.flatten() {
        if !paths.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    let bytes = found.len() * missing.len() as u64;
    let free = free_disk_space(folder).unwrap_or(0);
    if free < bytes * FREE {
        let folder = folder.display();
        return Err(io::Error::other(format!(
            "{folder} has {free} bytes of free space; copies need {bytes}"
        )));
    }
    for path in missing {
        let whole = tempfile::NamedTempFile::new_in(folder)?;
        fs::copy(file, whole.path())?;
        // A copy that lost its content with the power would be loaded.
        whole.as_file().sync_all()?;
        whole.persist(path)?;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn low_priority_waits_until_no_other_compilation_runs() {
        let usual = Usual::default();
        usual.wait(Duration::from_secs(60));
        usual.begin();
        usual.begin();
        let start = Instant::now();
        usual.wait(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
        let (begun, waits) = channel();
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (usual, ended) = (&usual, &ended);
            let low = scope.spawn(move || {
                begun.send(()).unwrap();
                usual.wait(Duration::from_secs(60));
                ended.load(Ordering::SeqCst)
            });
            waits.recv().unwrap();
            for _ in 0..2 {
                ended.fetch_add(1, Ordering::SeqCst);
                usual.end();
            }
            assert_eq!(low.join().unwrap(), 2);
        });
    }

    #[test]
    fn copies_are_written_once_and_replaced_with_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("library");
        let copies = folder.path().join("copies");
        fs::create_dir(&copies).unwrap();
        fs::write(&file, "one").unwrap();
        let first = copies_in(&copies, &file, (13, 0), 2).unwrap();
        assert_eq!(first.len(), 2);
        let written = |path: &PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        let times: Vec<_> = first.iter().map(written).collect();
        assert_eq!(copies_in(&copies, &file, (13, 0), 2).unwrap(), first);
        assert_eq!(first.iter().map(written).collect::<Vec<_>>(), times);
        fs::write(&first[1], "torn").unwrap();
        assert_eq!(copies_in(&copies, &file, (13, 0), 2).unwrap(), first);
        assert_eq!(fs::read(&first[1]).unwrap(), b"one");
        fs::write(&file, "another").unwrap();
        let second = copies_in(&copies, &file, (13, 0), 2).unwrap();
        assert!(first.iter().all(|path| !path.exists()));
        assert!(second.iter().all(|path| fs::read(path).unwrap() == b"another"));
    }

    #[test]
    fn a_copy_of_nvrtc_compiles() {
        let Some(nvrtc) = crate::testing::nvrtc() else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let file = nvrtc.bound().table.file().expect("the file of a loaded library");
        let [path] = &copies_in(folder.path(), &file, nvrtc.version(), 1).unwrap()[..] else {
            panic!("one copy");
        };
        let table = NvrtcTable::open_copy(path).unwrap();
        assert_eq!(table.file(), Some(fs::canonicalize(path).unwrap()));
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for writes.
        let code = unsafe { (table.nvrtcVersion)(&raw mut major, &raw mut minor) };
        assert_eq!(code, crate::sys::Code::SUCCESS);
        assert_eq!((major.unsigned_abs(), minor.unsigned_abs()), nvrtc.version());
        assert!(!std::ptr::eq(
            table.nvrtcVersion as *const (),
            nvrtc.bound().table.nvrtcVersion as *const ()
        ));
    }
}
