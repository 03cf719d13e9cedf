//! Joins on both processors (section 3.5).
//!
//! A dispatcher, one atomic cursor over the rows, hands out morsels to threads of the CPU and to the device,
//! which has two in its queues. Sizes of morsels follow the rates of both (`morsels`).
//!
//! | strategy | table | build | probe |
//! | --- | --- | --- | --- |
//! | Het | one in host memory, which kernels access over the link | both | both |
//! | GPU+Het | one in each memory: the device's is copied to the host | device | both |
//!
//! Both use perfect hashing: each slot is written once, by plain stores. So neither processor needs an atomic
//! operation on the other's memory, which PCIe would not keep atomic.
//!
//! With GPU+Het the device probes while its table is copied, in the other direction of the link, and the CPU
//! begins after the copy. A table of more than a quarter of S is not copied ([`Cooperation::copies`]): the
//! CPU would begin late and, with a table beyond its caches, add at most a fifth to the rate, and the copy
//! slows the device.
//!
//! Limits: the CPU does not take part in the build of GPU+Het. Both processors read S from host memory at the
//! same time, and each random access of the CPU to a table beyond its caches reads a line of 64 bytes. If
//! this sum reaches the rate of host memory, the rate is less than the sum of the rates of both processors
//! alone. With Het each access of the device to the table crosses the link.

use std::sync::Arc;
use std::time::Instant;

use galatea_device::{
    Device, DeviceBuffer, DeviceError, Download, HostMemory, InOut, Result, SharedMemory, Stream,
};
use galatea_kernels::{JoinHashing, JoinRows, JoinTable};

use crate::threads::{cpu_threads, on_threads};

use super::cpu;
use super::gpu::{GpuJoin, Phases, Run};
use super::morsels::Dispatcher;
use super::workload::{Answer, Shape, Word, Workload};

/// Maximum sizes of morsels, in bytes of tuples.
#[derive(Debug, Clone, Copy)]
pub struct Morsels {
    /// Of a thread of the CPU; 32 MiB in the thesis.
    pub cpu: u64,
    /// Of the device; 128 MiB in the thesis.
    pub device: u64,
}

impl Default for Morsels {
    fn default() -> Self {
        Self {
            cpu: 32 << 20,
            device: 128 << 20,
        }
    }
}

/// Joins on both processors.
#[derive(Debug)]
pub struct Cooperation {
    device: Device,
    morsels: Morsels,
    /// Two queues of the device, each with its own sums.
    queues: [(Stream, DeviceBuffer<u64>); 2],
    /// The queue of copies of tables.
    copies: Stream,
}

/// First and last morsels of the device, and of a thread of the CPU, are this number of times smaller than
/// the maximum. On the device they take 40 µs, a few times as long as a launch.
const LEAST: (u64, u64) = (64, 512);
/// A table is copied if S has at least this number of times its bytes.
const COPIED: u64 = 4;

/// Outcome of a phase that both processors share.
struct Shared<T> {
    seconds: f64,
    /// The CPU's answer.
    answer: Answer,
    /// Fraction of the rows that the device processed.
    device_share: f64,
    /// The CPU's table, if it had one.
    state: Option<T>,
}

/// The work of the device on a morsel.
type OnDevice<'a> = &'a mut (dyn FnMut(&Stream, &mut DeviceBuffer<u64>, JoinRows) -> Result<()> + Send);

impl Cooperation {
    /// Creates the queues.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &Device, morsels: Morsels) -> Result<Self> {
        let queue = || {
            let stream = device.stream()?;
            let sum = device.zeroed::<u64>(&stream, 2)?;
            Ok::<_, DeviceError>((stream, sum))
        };
        Ok(Self {
            device: device.clone(),
            morsels,
            queues: [queue()?, queue()?],
            copies: device.stream()?,
        })
    }

    /// Whether GPU+Het copies the table of a shape, so that the CPU takes part.
    #[must_use]
    pub fn copies(shape: &Shape) -> bool {
        COPIED.saturating_mul(shape.domain) <= shape.probe_rows
    }

    /// Processes all rows once, on both processors. The device begins at once. The CPU begins when `ready`
    /// has returned its table; it takes no part without one.
    fn both<W: Word, T: Send + Sync>(
        &mut self,
        rows: JoinRows,
        (keys, payloads): (&[W], &[W]),
        ready: impl FnOnce() -> Result<Option<T>> + Send,
        on_cpu: impl Fn(&T, &[W], &[W]) -> Answer + Sync,
        on_device: OnDevice<'_>,
    ) -> Result<Shared<T>> {
        let tuple = 2 * size_of::<W>() as u64;
        let sizes = |most: u64, least| (most / least / tuple, most / tuple);
        let of_device = sizes(self.morsels.device, LEAST.0);
        let of_cpu = sizes(self.morsels.cpu, LEAST.1);
        // One thread needs a core to drive the device: it waits for the last morsel of a queue before it adds
        // another.
        let threads = (cpu_threads() - 1).max(1);
        let dispatcher = &Dispatcher::new(rows.rows, 1 + threads);
        let queues = &mut self.queues;
        let on_cpu = &on_cpu;
        let start = Instant::now();
        let (taken, of_threads) = std::thread::scope(|scope| {
            let leader = scope.spawn(move || {
                let Some(state) = ready()? else {
                    return Ok::<_, DeviceError>((Answer::default(), None));
                };
                let work = |number| {
                    let mut worker = dispatcher.worker(1 + number, of_cpu);
                    let mut answer = Answer::default();
                    let mut begun = Instant::now();
                    while let Some(rows) = worker.take() {
                        let count = rows.end - rows.start;
                        let rows = rows.start as usize..rows.end as usize;
                        answer = answer.and(on_cpu(&state, &keys[rows.clone()], &payloads[rows]));
                        let now = Instant::now();
                        worker.finished(count, (now - begun).as_secs_f64());
                        begun = now;
                    }
                    answer
                };
                let (_, answers) = on_threads(threads, work);
                let answer = answers.into_iter().fold(Answer::default(), Answer::and);
                Ok((answer, Some(state)))
            });
            let mut drive = || {
                let mut worker = dispatcher.worker(0, of_device);
                let (mut taken, mut pending, mut last) = (0, [0; 2], start);
                for turn in 0.. {
                    let (stream, sum) = &mut queues[turn % 2];
                    stream.synchronize()?;
                    let done = std::mem::take(&mut pending[turn % 2]);
                    if done > 0 {
                        let now = Instant::now();
                        worker.finished(done, (now - last).as_secs_f64());
                        last = now;
                    }
                    let Some(range) = worker.take() else {
                        break;
                    };
                    pending[turn % 2] = range.end - range.start;
                    taken += range.end - range.start;
                    on_device(stream, sum, rows.part(range, size_of::<W>() as u32))?;
                }
                queues.iter().try_for_each(|(stream, _)| stream.synchronize())?;
                Ok::<_, DeviceError>(taken)
            };
            let taken = drive();
            let of_threads = leader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (taken, of_threads)
        });
        let seconds = start.elapsed().as_secs_f64();
        let (taken, (answer, state)) = (taken?, of_threads?);
        Ok(Shared {
            seconds,
            answer,
            device_share: taken as f64 / rows.rows.max(1) as f64,
            state,
        })
    }

    /// Sets the sums of both queues to 0.
    fn reset(&mut self) -> Result<()> {
        for (stream, sum) in &mut self.queues {
            stream.fill(sum, 0)?;
            stream.synchronize()?;
        }
        Ok(())
    }

    /// The sums of both queues.
    fn answer(&self) -> Result<Answer> {
        let mut answer = Answer::default();
        for (stream, sum) in &self.queues {
            let found = stream.read(sum, ..)?;
            answer = answer.and(Answer {
                sum: found[0],
                matches: found[1],
            });
        }
        Ok(answer)
    }

    /// Het: both processors build and probe one table in host memory.
    ///
    /// # Errors
    /// The device's.
    pub fn het(&mut self, join: &GpuJoin, workload: &Workload, memory: &SharedMemory) -> Result<Run> {
        match workload.shape().word_bytes {
            8 => self.het_of::<u64>(join, workload, memory),
            _ => self.het_of::<u32>(join, workload, memory),
        }
    }

    fn het_of<W: Word>(&mut self, join: &GpuJoin, workload: &Workload, memory: &SharedMemory) -> Result<Run> {
        let table = &JoinTable {
            address: memory.address(),
            slots: workload.shape().domain,
            hashing: JoinHashing::Perfect,
            word_bytes: size_of::<W>() as u32,
        };
        let words = memory.words();
        cpu::clear(words);
        self.reset()?;
        let built = self.both(
            workload.build_in_place(),
            workload.build_words::<W>(),
            || Ok(Some(words)),
            |words, keys, payloads| {
                cpu::build(words, keys, payloads);
                Answer::default()
            },
            &mut |stream, _, rows| join.build.launch(stream, rows, table),
        )?;
        let probed = self.both(
            workload.probe_in_place(),
            workload.probe_words::<W>(),
            || Ok(Some(words)),
            |words, keys, payloads| cpu::probe(*words, keys, payloads),
            &mut |stream, sum, rows| join.probe.launch(stream, rows, table, InOut(sum)),
        )?;
        Ok(Run {
            phases: Phases {
                build: built.seconds,
                copy: 0.0,
                probe: probed.seconds,
            },
            answer: self.answer()?.and(probed.answer),
            device_share: probed.device_share,
        })
    }

    /// GPU+Het: the device builds a table, which is copied to `host` while the device probes; then both
    /// processors probe their own. The copy is a part of the probe's time.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if one of the memories is smaller than the table; the device's.
    pub fn gpu_het(
        &mut self,
        join: &GpuJoin,
        workload: &Workload,
        (table, entries): (&JoinTable, &DeviceBuffer<u8>),
        host: &mut Arc<HostMemory>,
    ) -> Result<Run> {
        match workload.shape().word_bytes {
            8 => self.gpu_het_of::<u64>(join, workload, (table, entries), host),
            _ => self.gpu_het_of::<u32>(join, workload, (table, entries), host),
        }
    }

    fn gpu_het_of<W: Word>(
        &mut self,
        join: &GpuJoin,
        workload: &Workload,
        (table, entries): (&JoinTable, &DeviceBuffer<u8>),
        host: &mut Arc<HostMemory>,
    ) -> Result<Run> {
        let stream = join.stream();
        join.clear(table)?;
        self.reset()?;
        for (queue, _) in &self.queues {
            entries.used_by(queue)?;
        }
        let start = Instant::now();
        join.build.launch(stream, workload.build_in_place(), table)?;
        stream.synchronize()?;
        let built = start.elapsed().as_secs_f64();
        let bytes = usize::try_from(table.bytes()).unwrap_or(usize::MAX);
        let download = if Self::copies(&workload.shape()) {
            let part = entries.slice(..bytes)?;
            let taken = std::mem::replace(host, Arc::new(HostMemory::new(0)?));
            Some(self.copies.copy_to_host(part, taken, 0)?)
        } else {
            None
        };
        let probed = self.both(
            workload.probe_in_place(),
            workload.probe_words::<W>(),
            || download.map(Download::wait).transpose(),
            |host: &Arc<HostMemory>, keys, payloads| {
                let words: &[u64] = bytemuck::cast_slice(&host.as_slice()[..bytes / 8 * 8]);
                cpu::probe(words, keys, payloads)
            },
            &mut |stream, sum, rows| join.probe.launch(stream, rows, table, InOut(sum)),
        )?;
        if let Some(memory) = probed.state {
            *host = memory;
        }
        Ok(Run {
            phases: Phases {
                build: built,
                copy: 0.0,
                probe: probed.seconds,
            },
            answer: self.answer()?.and(probed.answer),
            device_share: probed.device_share,
        })
    }

    /// Host memory for the copy of a table, pinned.
    ///
    /// # Errors
    /// The device's.
    pub fn host_table(&self, bytes: u64) -> Result<Arc<HostMemory>> {
        let bytes = usize::try_from(bytes.next_multiple_of(16)).unwrap_or(usize::MAX);
        let memory = Arc::new(HostMemory::new(bytes)?);
        self.device.pin(&memory)?;
        Ok(memory)
    }
}
