//! Joins on both processors (section 3.5).
//!
//! A dispatcher, one atomic cursor over the rows, hands out morsels: small ones to threads of the CPU, large
//! ones to the device, which has two in its queues.
//!
//! | strategy | table | build | probe |
//! | --- | --- | --- | --- |
//! | Het | one in host memory, which kernels access over the link | both | both |
//! | GPU+Het | one in each memory: the device's is copied to the host | device | both |
//!
//! Both use perfect hashing: each slot is written once, by plain stores. So neither processor needs an atomic
//! operation on the other's memory, which PCIe would not keep atomic.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, DeviceError, HostMemory, InOut, Result, SharedMemory, Stream};
use galatea_kernels::{JoinHashing, JoinRows, JoinTable};

use crate::threads::cpu_threads;

use super::cpu::{self, Entries};
use super::gpu::{GpuJoin, Phases, Run};
use super::workload::{Answer, Word, Workload};

/// Sizes of morsels, in bytes of tuples.
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

/// Hands out the rows of a relation once.
struct Dispatcher {
    next: AtomicU64,
    rows: u64,
}

impl Dispatcher {
    fn new(rows: u64) -> Self {
        Self {
            next: AtomicU64::new(0),
            rows,
        }
    }

    /// The next rows, at most `most`; `None` if there are none left.
    fn take(&self, most: u64) -> Option<Range<u64>> {
        let start = self.next.fetch_add(most, Ordering::Relaxed);
        (start < self.rows).then(|| start..(start + most).min(self.rows))
    }
}

/// Joins on both processors.
#[derive(Debug)]
pub struct Cooperation {
    device: Device,
    morsels: Morsels,
    /// Two queues of the device, each with its own sums.
    queues: [(Stream, DeviceBuffer<u64>); 2],
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
        })
    }

    /// Processes all rows once, on both processors. Returns the seconds, the CPU's answer and the fraction of
    /// rows that the device took.
    fn both<W: Word>(
        &mut self,
        rows: JoinRows,
        (keys, payloads): (&[W], &[W]),
        on_cpu: impl Fn(&[W], &[W]) -> Answer + Sync,
        on_device: OnDevice<'_>,
    ) -> Result<(f64, Answer, f64)> {
        let tuple = 2 * size_of::<W>() as u64;
        let most = |bytes: u64| (bytes / tuple).max(1);
        let (of_cpu, of_device) = (most(self.morsels.cpu), most(self.morsels.device));
        let dispatcher = &Dispatcher::new(rows.rows);
        let queues = &mut self.queues;
        let on_cpu = &on_cpu;
        let start = Instant::now();
        let (taken, answer) = std::thread::scope(|scope| {
            let worker = || {
                let mut answer = Answer::default();
                while let Some(rows) = dispatcher.take(of_cpu) {
                    let rows = rows.start as usize..rows.end as usize;
                    answer = answer.and(on_cpu(&keys[rows.clone()], &payloads[rows]));
                }
                answer
            };
            // This thread needs a core to drive the device: it waits for the last morsel of a queue before it
            // adds another.
            let count = (cpu_threads() - 1).max(1);
            let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
            let mut drive = || {
                let mut taken = 0;
                for turn in 0.. {
                    let (stream, sum) = &mut queues[turn % 2];
                    stream.synchronize()?;
                    let Some(range) = dispatcher.take(of_device) else {
                        break;
                    };
                    taken += range.end - range.start;
                    on_device(stream, sum, rows.part(range, size_of::<W>() as u32))?;
                }
                queues.iter().try_for_each(|(stream, _)| stream.synchronize())?;
                Ok::<_, DeviceError>(taken)
            };
            let taken = drive();
            let answers = workers.into_iter().map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            let answer = answers.fold(Answer::default(), Answer::and);
            taken.map(|taken| (taken, answer))
        })?;
        let share = taken as f64 / rows.rows.max(1) as f64;
        Ok((start.elapsed().as_secs_f64(), answer, share))
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

    fn probe<W: Word>(
        &mut self,
        join: &GpuJoin,
        workload: &Workload,
        table: &JoinTable,
        entries: impl Entries,
    ) -> Result<(f64, Answer, f64)> {
        self.reset()?;
        let (seconds, on_cpu, share) = self.both(
            workload.probe_in_place(),
            workload.probe_words::<W>(),
            |keys, payloads| cpu::probe(entries, keys, payloads),
            &mut |stream, sum, rows| join.probe.launch(stream, rows, table, InOut(sum)),
        )?;
        Ok((seconds, self.answer()?.and(on_cpu), share))
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
        let (build, _, _) = self.both(
            workload.build_in_place(),
            workload.build_words::<W>(),
            |keys, payloads| {
                cpu::build(words, keys, payloads);
                Answer::default()
            },
            &mut |stream, _, rows| join.build.launch(stream, rows, table),
        )?;
        let (probe, answer, device_share) = self.probe::<W>(join, workload, table, words)?;
        Ok(Run {
            phases: Phases {
                build,
                copy: 0.0,
                probe,
            },
            answer,
            device_share,
        })
    }

    /// GPU+Het: the device builds a table, which is copied to `host`; both processors probe their own.
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
        for (queue, _) in &self.queues {
            entries.used_by(queue)?;
        }
        let start = Instant::now();
        join.build.launch(stream, workload.build_in_place(), table)?;
        stream.synchronize()?;
        let built = Instant::now();
        let bytes = usize::try_from(table.bytes()).unwrap_or(usize::MAX);
        let part = entries.slice(..bytes)?;
        let taken = std::mem::replace(host, Arc::new(HostMemory::new(0)?));
        *host = stream.copy_to_host(part, taken, 0)?.wait()?;
        let copied = Instant::now();
        let words: &[u64] = bytemuck::cast_slice(&host.as_slice()[..bytes / 8 * 8]);
        let (probe, answer, device_share) = self.probe::<W>(join, workload, table, words)?;
        Ok(Run {
            phases: Phases {
                build: (built - start).as_secs_f64(),
                copy: (copied - built).as_secs_f64(),
                probe,
            },
            answer,
            device_share,
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
