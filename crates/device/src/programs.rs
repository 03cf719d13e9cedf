//! Loads programs as modules: from memory, then from disk, then by the compiler.
//!
//! If two threads request the same program, it is compiled once: the second waits for the first. A thread of
//! usual priority does not wait for one of low priority, which may have no core for a long time: it compiles
//! the program too, and the first module is kept. Different programs compile in parallel, on a pool of their
//! own ([`crate::Device::compile_all`]) with stacks that are large enough for a compiler.
//!
//! Callers that cannot wait use the quick tier of a program ([`crate::Device::compile_soon`]), which takes
//! half of the time. The optimised tier is compiled in the background once the program is used again, on one
//! thread so that queries keep the others. A process that ends waits for the programs that are being compiled
//! or loaded for a GPU then ([`crate::ending`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rayon::prelude::*;

use crate::cache::{DiskCache, Key, KeyRecord};
use crate::compiler::Nvrtc;
use crate::context::Context;
use crate::ending::before_the_end;
use crate::errors::{DeviceError, Result};
use crate::module::{Function, Module};
use crate::program::{Program, Tier};
use crate::sys::Backend;
use crate::threads::{has_low_priority, lower_thread_priority};

/// The most modules kept in memory. Beyond that the least recently used one is dropped.
const MAX_MODULES: usize = 2048;
/// Stack of a thread that compiles: NVRTC's front end recurses with the nesting of the code.
const STACK: usize = 16 << 20;

/// The source of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was loaded in this process before.
    Memory,
    /// An earlier process compiled it.
    Disk,
    /// It was compiled now.
    Compiler,
}

/// The outcome of [`crate::Device::compile`].
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The loaded program.
    pub module: Arc<Module>,
    /// The source of the module.
    pub origin: Origin,
    /// Effort of the compiler.
    pub tier: Tier,
    /// Time of look-up, compilation and loading.
    pub time: Duration,
}

/// The optimised module of a program with a module of the quick tier ([`crate::Device::compile_soon`]).
#[derive(Clone)]
pub struct PendingModule(Arc<Pending>);

struct Pending {
    module: OnceLock<Compiled>,
    /// Compiles the module; taken when its compilation is queued.
    compile: Mutex<Option<Compilation>>,
}

type Compilation = Box<dyn FnOnce() -> Option<Compiled> + Send>;

impl PendingModule {
    /// Creates the module that `compile` returns, or that will never exist if it returns `None`.
    pub(crate) fn new(compile: impl FnOnce() -> Option<Compiled> + Send + 'static) -> Self {
        Self(Arc::new(Pending {
            module: OnceLock::new(),
            compile: Mutex::new(Some(Box::new(compile))),
        }))
    }

    /// The module, once it is compiled. It never is if its compilation fails. The first call queues the
    /// compilation: a program that is used once needs no optimised module.
    #[must_use]
    pub fn get(&self) -> Option<&Compiled> {
        let module = self.0.module.get();
        if module.is_none()
            && let Some(compile) = self.0.compile.lock().take()
        {
            let pending = Arc::clone(&self.0);
            compile_behind(move || {
                if let Some(compiled) = compile() {
                    // Each is compiled by one task.
                    let _ = pending.module.set(compiled);
                }
            });
        }
        module
    }
}

impl std::fmt::Debug for PendingModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PendingModule").field(&self.0.module).finish()
    }
}

#[derive(Default)]
struct Slot {
    module: OnceLock<Arc<Module>>,
    /// Held by a thread of usual priority that loads or compiles the program.
    usual: Mutex<()>,
    /// Held by a thread of low priority that does.
    low: Mutex<()>,
    last_use: AtomicU64,
}

impl Slot {
    /// Waits until no thread of the caller's priority loads or compiles the program. A caller of low priority
    /// also waits for those of usual priority.
    fn turn(&self) -> MutexGuard<'_, ()> {
        if !has_low_priority() {
            return self.usual.lock();
        }
        let turn = self.low.lock();
        drop(self.usual.lock());
        turn
    }

    /// Keeps a loaded module, unless another thread was faster. Returns the one that is kept.
    fn keep(&self, module: Module) -> Arc<Module> {
        Arc::clone(self.module.get_or_init(|| Arc::new(module)))
    }
}

/// The modules of one device.
pub(crate) struct Programs {
    context: Arc<Context>,
    pub(crate) disk: DiskCache,
    /// Options for the device besides its architecture: the instrumentation of an emulated device.
    device_options: Vec<String>,
    modules: Mutex<HashMap<Key, Arc<Slot>>>,
    /// Kernels of programs that never change, by name. They avoid hashing the whole program to find its
    /// module.
    kernels: Mutex<HashMap<&'static str, Function>>,
    clock: AtomicU64,
}

impl Programs {
    pub(crate) fn new(context: &Arc<Context>, disk: DiskCache, device_options: Vec<String>) -> Self {
        Self {
            context: Arc::clone(context),
            disk,
            device_options,
            modules: Mutex::default(),
            kernels: Mutex::default(),
            clock: AtomicU64::new(0),
        }
    }

    fn backend(&self) -> Backend {
        self.context.backend
    }

    /// See [`crate::Device::kernel`].
    pub(crate) fn kernel(&self, name: &'static str, program: impl FnOnce() -> Program) -> Result<Function> {
        if let Some(known) = self.kernels.lock().get(name) {
            return Ok(known.clone());
        }
        let function = self.compile(&program())?.module.function(name)?;
        self.kernels.lock().insert(name, function.clone());
        Ok(function)
    }

    pub(crate) fn compile(&self, program: &Program) -> Result<Compiled> {
        let start = Instant::now();
        let nvrtc = Nvrtc::of(self.backend()).map_err(DeviceError::NoCompiler)?;
        let key = self.key(program, nvrtc);
        let slot = self.slot(key);
        let from_memory = || {
            Some(Compiled {
                module: Arc::clone(slot.module.get()?),
                origin: Origin::Memory,
                tier: program.tier,
                time: start.elapsed(),
            })
        };
        if let Some(known) = from_memory() {
            return Ok(known);
        }
        let turn = slot.turn();
        if let Some(known) = from_memory() {
            return Ok(known);
        }
        let load = || self.load(key, program, nvrtc);
        let (module, origin) = match self.backend() {
            Backend::Gpu => before_the_end(load),
            Backend::Emulated => load(),
        }?;
        let module = slot.keep(module);
        drop(turn);
        let time = start.elapsed();
        let (source, low_priority) = (program.source.len(), has_low_priority());
        tracing::debug!(program = program.name, source, ?origin, tier = ?program.tier, low_priority, ?time, "kernel module");
        Ok(Compiled {
            module,
            origin,
            tier: program.tier,
            time,
        })
    }

    /// Returns the program, if it needs neither a compiler nor waiting for one.
    pub(crate) fn compiled(&self, program: &Program) -> Option<Compiled> {
        let start = Instant::now();
        let nvrtc = Nvrtc::of(self.backend()).ok()?;
        let key = self.key(program, nvrtc);
        let slot = self.slot(key);
        let (module, origin) = if let Some(module) = slot.module.get() {
            (Arc::clone(module), Origin::Memory)
        } else {
            let _turn = slot.usual.try_lock()?;
            let module = self.load_from_disk(key, program).ok()??;
            (slot.keep(module), Origin::Disk)
        };
        Some(Compiled {
            module,
            origin,
            tier: program.tier,
            time: start.elapsed(),
        })
    }

    /// See [`crate::Device::is_on_disk`].
    pub(crate) fn is_on_disk(&self, program: &Program) -> bool {
        let path = Nvrtc::of(self.backend()).map(|nvrtc| self.disk.path(self.key(program, nvrtc)));
        path.is_ok_and(|path| path.is_some_and(|path| path.exists()))
    }

    fn load(&self, key: Key, program: &Program, nvrtc: Nvrtc) -> Result<(Module, Origin)> {
        if let Some(module) = self.load_from_disk(key, program)? {
            return Ok((module, Origin::Disk));
        }
        let image = nvrtc.compile_with_options(program, self.options(program))?;
        let module = self.module(program, &image)?;
        self.disk.store(key, &image);
        Ok((module, Origin::Compiler))
    }

    /// Loads the module that an earlier process compiled, if this driver accepts it.
    fn load_from_disk(&self, key: Key, program: &Program) -> Result<Option<Module>> {
        let Some(image) = self.disk.load(key) else {
            return Ok(None);
        };
        match self.module(program, &image) {
            Ok(module) => Ok(Some(module)),
            Err(error) if error.is_device_lost() || error.is_out_of_memory() => Err(error),
            // The file is whole, but this driver refuses it: compile again and overwrite it.
            Err(error) => {
                tracing::warn!(program = program.name, "ignoring a cached kernel: {error}");
                Ok(None)
            }
        }
    }

    fn module(&self, program: &Program, image: &[u8]) -> Result<Module> {
        Module::load(&self.context, &program.name, &program.entries, image)
    }

    fn options(&self, program: &Program) -> Vec<String> {
        let mut options = program.all_options(self.context.info.architecture());
        options.extend(self.device_options.iter().cloned());
        options
    }

    pub(crate) fn key(&self, program: &Program, nvrtc: Nvrtc) -> Key {
        let architecture = self.context.info.architecture();
        KeyRecord {
            source: &program.source,
            entries: &program.entries,
            options: &self.options(program),
            headers: program.headers.digest(),
            nvrtc_version: nvrtc.version(),
            driver_version: self.context.info.driver_version,
            architecture: &architecture.to_string(),
            target: match self.backend() {
                Backend::Gpu => "gpu",
                Backend::Emulated => "emulated",
            },
        }
        .key()
    }

    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut modules = self.modules.lock();
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::clone(modules.entry(key).or_default());
        slot.last_use.store(now, Ordering::Relaxed);
        let evicted = if modules.len() > MAX_MODULES {
            let oldest = modules
                .iter()
                .min_by_key(|(_, slot)| slot.last_use.load(Ordering::Relaxed))
                .map(|(key, _)| *key);
            oldest.and_then(|oldest| modules.remove(&oldest))
        } else {
            None
        };
        // Unloading waits for the device, which must not delay other look-ups.
        drop(modules);
        drop(evicted);
        slot
    }
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("disk", &self.disk)
            .field("device_options", &self.device_options)
            .finish_non_exhaustive()
    }
}

/// Runs compilations in parallel. Returns results in order.
pub(crate) fn compile_all(programs: &Programs, list: &[Program]) -> Result<Vec<Compiled>> {
    match list {
        [] => Ok(Vec::new()),
        [one] => Ok(vec![programs.compile(one)?]),
        several => match pool() {
            Some(pool) => pool.install(|| {
                several
                    .par_iter()
                    .map(|program| programs.compile(program))
                    .collect()
            }),
            None => several.iter().map(|program| programs.compile(program)).collect(),
        },
    }
}

/// The thread of background compilation; `None` if the system cannot start it.
static BEHIND: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();

/// Runs a compilation in the background. If the system cannot start a thread, it never runs.
fn compile_behind(task: impl FnOnce() + Send + 'static) {
    let behind = BEHIND.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "galatea-optimise".to_owned())
            .start_handler(|_| lower_thread_priority())
            .stack_size(STACK)
            .build()
            .ok()
    });
    if let Some(behind) = behind {
        behind.spawn_fifo(task);
    }
}

/// Waits until all background compilations are done.
pub(crate) fn wait_for_behind() {
    if let Some(Some(behind)) = BEHIND.get() {
        // The one thread runs tasks in order.
        let (done, end) = std::sync::mpsc::channel::<()>();
        // Dropping the sender is the message.
        behind.spawn_fifo(move || drop(done));
        assert!(end.recv().is_err());
    }
}

/// Threads that compile, with the calling thread's priority; `None` if the system cannot start them, and
/// callers compile themselves.
pub(crate) fn pool() -> Option<&'static rayon::ThreadPool> {
    static POOLS: [OnceLock<Option<rayon::ThreadPool>>; 2] = [OnceLock::new(), OnceLock::new()];
    let is_low = has_low_priority();
    let start = || {
        rayon::ThreadPoolBuilder::new()
            .thread_name(|index| format!("galatea-compile-{index}"))
            .start_handler(move |_| {
                if is_low {
                    lower_thread_priority();
                }
            })
            .stack_size(STACK)
            .build()
            .ok()
    };
    POOLS[usize::from(is_low)].get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    #[test]
    fn usual_priority_does_not_wait_for_low_priority() {
        let slot = &Slot::default();
        let (has_turn, its_turn) = channel();
        let (ends, end) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                lower_thread_priority();
                let _turn = slot.turn();
                has_turn.send(()).expect("a receiver");
                end.recv().expect("a sender");
            });
            its_turn.recv().expect("a sender");
            drop(slot.turn());
            ends.send(()).expect("a receiver");
        });
    }

    #[test]
    fn low_priority_waits_for_usual_priority() {
        let slot = &Slot::default();
        let ended = &AtomicBool::new(false);
        let turn = slot.turn();
        std::thread::scope(|scope| {
            let low = scope.spawn(move || {
                lower_thread_priority();
                let _turn = slot.turn();
                ended.load(Ordering::SeqCst)
            });
            while slot.low.try_lock().is_some() {
                std::thread::yield_now();
            }
            ended.store(true, Ordering::SeqCst);
            drop(turn);
            assert!(low.join().expect("a thread"));
        });
    }
}
