//! The phases of the Triton join: figures 4.13 to 4.15.
//!
//! The join is a pipeline: phases of the second half overlap, and so do copies and kernels of a staged first
//! pass. A breakdown therefore needs other runs, with one stream for all work. There, events separate the
//! phases. Their sum is greater than the time of the join. Kernels have the same grids as in the join.

use galatea_device::Result;
use galatea_kernels::JoinHashing;

use super::clock::Phase;
use super::figure::{Figure, STAGED, THESIS, name};
use super::options::Options;
use super::rig::Bytes;
use super::row::Row;
use super::triton::Join;
use crate::joins::{GpuJoin, Placement, TableMemory};

/// Bytes of a tuple of a hash table.
const ENTRY: u64 = 16;

/// The parameter of rows with a state above its limit.
const SPILLED: &str = "million tuples with a quarter of the limit";

impl Figure<'_> {
    /// The two smaller workloads, and the larger of them with a quarter of the limit of the state: the same
    /// share of its state exceeds the limit as in the thesis' largest workload.
    fn cases(&self) -> Vec<((usize, usize), &'static str, u64)> {
        let workloads = self.workloads();
        let last = workloads.last().copied();
        let cases = workloads
            .into_iter()
            .map(|workload| (workload, "million tuples", self.scale.limit));
        let spilled = last.map(|workload| (workload, SPILLED, self.scale.limit / 4));
        cases.chain(spilled).collect()
    }

    /// Runs a join without overlap, and reports its phases and their sum.
    fn phases(
        &mut self,
        workload: (usize, usize),
        options: Options,
        (parameter, value): (&'static str, f64),
    ) -> Result<()> {
        let million = self.scale.million;
        let mut inputs = self.rig.inputs(workload.0 * million, workload.1 * million, 1)?;
        let mut join = Join::new(self.rig, &inputs, options)?;
        let serial = self.rig.serial();
        let mut whole = Vec::new();
        let mut phases: Vec<(Phase, Vec<f64>)> = Phase::ALL.map(|phase| (phase, Vec::new())).to_vec();
        for run in 0..self.scale.runs {
            inputs.refresh(3000 + run as u64)?;
            let joined = join.run(&serial, &inputs)?;
            joined.check(&inputs, &options);
            let found = serial.phases()?;
            whole.push(found.iter().map(|(_, seconds)| seconds).sum::<f64>());
            for (phase, seconds) in found {
                for (_, list) in phases.iter_mut().filter(|(of, _)| *of == phase) {
                    list.push(seconds);
                }
            }
        }
        let traffic = join.traffic(inputs.tuples());
        let template = Row {
            algorithm: name(&options),
            spilled: join.spilled(),
            bits: join.bits(),
            ..self.row(workload, (parameter, value))
        };
        let [first, second] = traffic.halves();
        let sum = Row {
            experiment: "all phases",
            seconds: whole,
            bytes: first + second,
            of_run: Some(1.0),
            ..template.clone()
        };
        for (phase, seconds) in phases {
            if seconds.is_empty() {
                continue;
            }
            let row = Row {
                experiment: phase.name(),
                seconds,
                bytes: traffic.of(phase),
                ..template.clone()
            };
            (self.out)(Row {
                of_run: Some(row.median() / sum.median()),
                ..row
            });
        }
        (self.out)(sum);
        self.rig.keep(inputs);
        Ok(())
    }

    /// Joins without partitions, with a hash table in device memory, or with half of it in host memory.
    fn no_partitioning(&mut self, workload: (usize, usize), hashing: JoinHashing, half: bool) -> Result<()> {
        let million = self.scale.million;
        let mut inputs = self.rig.inputs(workload.0 * million, workload.1 * million, 1)?;
        let mut join = GpuJoin::new(&self.rig.device)?;
        let slots = hashing.slots((workload.0 * million) as u64);
        let bytes = ENTRY * slots;
        let placement = match half {
            true => Placement::Hybrid(bytes / 2, galatea_device::PageOrder::DeviceFirst),
            false => Placement::Device,
        };
        let memory = TableMemory::new((&self.rig.device, None), join.stream(), bytes, placement)?;
        if let Some(memory) = memory {
            let table = memory.table(hashing, slots, 8)?;
            let [mut build, mut probe] = [Vec::new(), Vec::new()];
            let mut whole = Vec::new();
            while self.is_open(&whole) {
                inputs.refresh(4000 + whole.len() as u64)?;
                let run = join.run(inputs.build.rows(), inputs.probe.rows(), &table)?;
                let expected = (inputs.sum(), (workload.1 * million) as u64);
                let found = (run.answer.sum, run.answer.matches);
                assert_eq!(found, expected, "sum and number of matches without partitions");
                build.push(run.phases.build);
                probe.push(run.phases.probe);
                whole.push(run.phases.build + run.phases.probe);
            }
            let parameter = match half {
                true => "million tuples with half of the table in host memory",
                false => "million tuples",
            };
            let [of_build, of_probe] = [workload.0, workload.1].map(|tuples| (tuples * million) as u64);
            let spilled = 1.0 - memory.device_share(bytes);
            for (experiment, seconds, tuples) in [
                ("build", build, of_build),
                ("probe", probe, of_probe),
                ("join", whole, of_build + of_probe),
            ] {
                let row = self.row(workload, (parameter, workload.0 as f64));
                (self.out)(Row {
                    experiment,
                    algorithm: format!("No partitioning with {}", hashing.name()),
                    tuples,
                    seconds,
                    // Columns only: the bytes of accesses of the table depend on the link's packets.
                    bytes: Bytes {
                        to_device: 16 * tuples,
                        ..Bytes::default()
                    },
                    spilled,
                    ..row
                });
            }
        }
        self.rig.keep(inputs);
        Ok(())
    }

    /// Figure 4.13: utilisation of the link, by phase.
    pub(super) fn utilisation(&mut self) -> Result<()> {
        for (workload, parameter, limit) in self.cases() {
            for first in [THESIS, self.options().first] {
                let options = Options {
                    first,
                    limit,
                    ..self.options()
                };
                let at = (parameter, workload.0 as f64);
                self.join(workload, options, at)?;
                self.phases(workload, options, at)?;
            }
        }
        for hashing in [JoinHashing::Perfect, JoinHashing::Linear] {
            for workload in self.workloads() {
                let bytes = ENTRY * hashing.slots((workload.0 * self.scale.million) as u64);
                if bytes <= self.scale.limit {
                    self.no_partitioning(workload, hashing, false)?;
                }
            }
            // Larger ones take minutes, since each access of the host's half misses the TLB.
            let size = (self.scale.sizes[0] / 4).max(1);
            self.no_partitioning((size, size), hashing, true)?;
        }
        Ok(())
    }

    /// Figure 4.14: the share of each phase, by size of the workload.
    pub(super) fn breakdown(&mut self) -> Result<()> {
        for (workload, parameter, limit) in self.cases() {
            for first in [THESIS, STAGED, self.options().first] {
                let options = Options {
                    first,
                    limit,
                    ..self.options()
                };
                self.phases(workload, options, (parameter, workload.0 as f64))?;
            }
        }
        Ok(())
    }

    /// Figure 4.15: the bound of each phase, with all multiprocessors and with half of them. A phase that
    /// link or memory bounds keeps its time with half of the multiprocessors.
    pub(super) fn bounds(&mut self) -> Result<()> {
        let all = self.rig.multiprocessors();
        for (workload, parameter, limit) in self.cases() {
            let value = workload.0 as f64;
            for first in [THESIS, self.options().first] {
                for multiprocessors in [all, (all / 2).max(1)] {
                    let options = Options {
                        first,
                        limit,
                        multiprocessors,
                        ..self.options()
                    };
                    let halved = match parameter {
                        SPILLED => {
                            "million tuples with a quarter of the limit and half of the multiprocessors"
                        }
                        _ => "million tuples with half of the multiprocessors",
                    };
                    let parameter = if multiprocessors == all { parameter } else { halved };
                    self.phases(workload, options, (parameter, value))?;
                }
            }
        }
        Ok(())
    }
}
