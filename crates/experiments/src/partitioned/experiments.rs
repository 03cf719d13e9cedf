//! The experiments of chapter 4, by figure.

use galatea_device::Result;
use galatea_kernels::{RadixAlgorithm, RadixTable};

use super::figure::{Figure, STAGED};
use super::options::{First, Options};
use super::rig::Rig;
use super::row::Row;
use super::scale::Scale;

/// Figures of the thesis, in the order in which they run.
pub const FIGURES: [&str; 15] = [
    "4.12", "4.17", "4.18", "4.19", "4.21", "4.25", "4.23", "4.16", "4.20", "4.3", "4.13", "4.14", "4.15",
    "4.22", "4.24",
];

/// Experiments without a figure in the thesis, which run by name only.
pub const EXTRA: [&str; 1] = ["chunks"];

/// Runs the experiments of a figure of [`FIGURES`], or an experiment of [`EXTRA`]. `out` is called with each
/// row once it is measured.
///
/// # Errors
/// An error of the device.
///
/// # Panics
/// If a join or a partitioning has a wrong result.
pub fn run(rig: &mut Rig, figure: &str, scale: &Scale, out: &mut dyn FnMut(Row)) -> Result<()> {
    let Some(figure) = FIGURES.into_iter().chain(EXTRA).find(|known| *known == figure) else {
        return Ok(());
    };
    let mut experiments = Figure {
        rig,
        scale,
        figure,
        out,
    };
    match figure {
        "chunks" => experiments.chunks(),
        "4.3" => experiments.destinations(),
        "4.12" => experiments.scaling(),
        "4.13" => experiments.utilisation(),
        "4.14" => experiments.breakdown(),
        "4.15" => experiments.bounds(),
        "4.16" => experiments.processors(),
        "4.17" => experiments.first_passes(),
        "4.18" => experiments.across_the_link(),
        "4.19" => experiments.in_memory(),
        "4.20" => experiments.fanouts(),
        "4.21" => experiments.cache(),
        "4.22" => experiments.prefix_sums(),
        "4.23" => experiments.ratios(),
        "4.24" => experiments.columns(),
        _ => experiments.multiprocessors(),
    }
}

/// Bytes of the state of a workload.
fn state_bytes((build, probe): (usize, usize), million: usize) -> u64 {
    (16 * million * (build + probe)) as u64
}

impl Figure<'_> {
    /// Figure 4.12: the Triton join by size, with chains and with perfect hashing, and the middle size by the
    /// limit of the state.
    fn scaling(&mut self) -> Result<()> {
        let options = self.options();
        for size in self.scale.sizes.clone() {
            for (first, perfect) in [(options.first, false), (options.first, true), (STAGED, false)] {
                let options = Options {
                    first,
                    perfect,
                    ..options
                };
                self.join((size, size), options, ("million tuples", size as f64))?;
            }
        }
        let size = self.scale.sizes[1.min(self.scale.sizes.len() - 1)];
        for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
            let limit = (self.scale.limit as f64 * factor) as u64;
            self.join(
                (size, size),
                Options { limit, ..options },
                ("limit of the state", factor),
            )?;
        }
        Ok(())
    }

    /// The join with its whole state in host memory, by the size of chunks and their number in flight.
    fn chunks(&mut self) -> Result<()> {
        let size = self.scale.sizes[1.min(self.scale.sizes.len() - 1)];
        for (slots, name) in [
            (2, "MiB of 2 chunks"),
            (3, "MiB of 3 chunks"),
            (5, "MiB of 5 chunks"),
        ] {
            for chunk_bits in self.scale.chunks.clone() {
                let options = Options {
                    limit: 0,
                    chunk_bits,
                    exact_chunks: true,
                    slots,
                    ..self.options()
                };
                let mib = (16 << chunk_bits) as f64 / (1 << 20) as f64;
                self.join((size, size), options, (name, mib))?;
            }
        }
        Ok(())
    }

    /// Figure 4.16: partitioned by the CPU or by the GPU.
    fn processors(&mut self) -> Result<()> {
        for workload in self.workloads() {
            for first in [
                self.options().first,
                STAGED,
                First::Direct(RadixAlgorithm::Hierarchical),
                First::Cpu,
            ] {
                let options = Options {
                    first,
                    ..self.options()
                };
                self.join(workload, options, ("million tuples", workload.0 as f64))?;
            }
        }
        Ok(())
    }

    /// Figure 4.17: the algorithm of the first pass, without a cache of the state.
    fn first_passes(&mut self) -> Result<()> {
        for workload in self.workloads() {
            let published = RadixAlgorithm::PUBLISHED.map(First::Direct);
            for first in published.into_iter().chain([STAGED, self.options().first]) {
                if first == First::Direct(RadixAlgorithm::Standard) && workload.0 > self.scale.sizes[0] {
                    // It takes several seconds per run.
                    continue;
                }
                let options = Options {
                    first,
                    limit: 0,
                    ..self.options()
                };
                self.join(workload, options, ("million tuples", workload.0 as f64))?;
            }
        }
        Ok(())
    }

    /// Figure 4.20: fanouts of both passes, of which the tables fit shared memory.
    fn fanouts(&mut self) -> Result<()> {
        for workload in self.workloads() {
            let options = self.options();
            let tuples = (workload.0 * self.scale.million) as f64;
            let table = RadixTable::Chains(options.heads);
            let entries = self.rig.join.capacity(table).min(options.entries);
            let (firsts, seconds) = self.scale.join_fanouts.clone();
            for second in seconds {
                for first in firsts.iter().copied() {
                    let of_table = tuples / f64::from(1u32 << (first + second)) / f64::from(entries);
                    if !(1.0 / 64.0..0.95).contains(&of_table) {
                        continue;
                    }
                    let options = Options {
                        bits: Some((first, second)),
                        ..options
                    };
                    self.join(workload, options, ("fanout", f64::from(1 << first)))?;
                }
            }
        }
        Ok(())
    }

    /// Figure 4.21: the fraction of the state that fits device memory.
    fn cache(&mut self) -> Result<()> {
        for workload in self.workloads() {
            let state = state_bytes(workload, self.scale.million);
            for fraction in [0.0, 0.25, 0.5, 0.79, 1.0] {
                let options = Options {
                    limit: match fraction {
                        1.0 => u64::MAX,
                        _ => (state as f64 * fraction) as u64,
                    },
                    ..self.options()
                };
                self.join(workload, options, ("cached", fraction))?;
            }
        }
        Ok(())
    }

    /// Figure 4.23: the ratio of the sides, with the bytes of the middle workload.
    fn ratios(&mut self) -> Result<()> {
        let size = self.scale.sizes[1.min(self.scale.sizes.len() - 1)];
        for ratio in [1, 4, 16, 32] {
            let build = (2 * size / (1 + ratio)).max(1);
            let workload = (build, 2 * size - build);
            self.join(workload, self.options(), ("ratio", ratio as f64))?;
        }
        Ok(())
    }

    /// Figure 4.25: fewer multiprocessors.
    fn multiprocessors(&mut self) -> Result<()> {
        let all = self.rig.multiprocessors();
        for workload in self.workloads() {
            for first in [self.options().first, First::Direct(RadixAlgorithm::Hierarchical)] {
                if workload.0 != self.scale.sizes[0] && matches!(first, First::Direct(_)) {
                    continue;
                }
                for multiprocessors in [8, 16, 28, 55, 80, all] {
                    let multiprocessors = multiprocessors.min(all);
                    let options = Options {
                        first,
                        multiprocessors,
                        ..self.options()
                    };
                    self.join(workload, options, ("multiprocessors", multiprocessors.into()))?;
                }
            }
        }
        Ok(())
    }
}
