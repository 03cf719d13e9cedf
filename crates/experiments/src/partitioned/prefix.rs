//! The prefix sum of the first pass by the CPU and by the GPU: figure 4.22.

use std::time::Instant;

use galatea_device::{DeviceBuffer, Result};
use galatea_kernels::{RadixAlgorithm, RadixBits};

use super::data::Inputs;
use super::figure::{Figure, THESIS};
use super::options::Options;
use super::rig::{Bytes, Pass, Rig};
use super::row::Row;

/// Histograms and positions of both relations.
struct PrefixSums {
    passes: [Pass; 2],
    /// Positions of partitions, of the CPU's and of the GPU's histograms.
    starts: [DeviceBuffer<u32>; 2],
}

impl PrefixSums {
    fn new(rig: &Rig, bits: RadixBits) -> Result<Self> {
        let pass = || Pass::new(rig, RadixAlgorithm::Standard, bits, rig.multiprocessors());
        let starts = || rig.device.zeroed(&rig.kernels, bits.parts() + 1);
        Ok(Self {
            passes: [pass()?, pass()?],
            starts: [starts()?, starts()?],
        })
    }

    /// Runs both for both relations. Returns the seconds of the CPU's histograms, with the copy of the counts
    /// and the kernel that adds them up, and of the GPU's over the link.
    fn run(&mut self, rig: &Rig, inputs: &Inputs) -> Result<[f64; 2]> {
        let [mut of_cpu, mut of_gpu] = [0.0; 2];
        for relation in [&inputs.build, &inputs.probe] {
            let stream = &rig.kernels;
            for (starts, byte) in self.starts.iter_mut().zip([0x11, 0x22]) {
                stream.fill(starts, byte)?;
            }
            let [cpu, gpu] = &mut self.passes;
            cpu.clear(rig)?;
            gpu.clear(rig)?;
            stream.synchronize()?;
            let begun = Instant::now();
            cpu.count_on_cpu(rig, relation.columns().0, self.starts[0].address())?;
            stream.synchronize()?;
            of_cpu += begun.elapsed().as_secs_f64();
            let begun = stream.record()?;
            gpu.count(rig, relation.tuples(), self.starts[1].address())?;
            let done = stream.record()?;
            of_gpu += done.elapsed_since(&begun)?.as_secs_f64();
            let [found, expected] = [0, 1].map(|which: usize| stream.read(&self.starts[which], ..));
            assert_eq!(found?, expected?, "positions of partitions");
            assert!(cpu.counts(rig)? == gpu.counts(rig)?, "positions of blocks");
        }
        Ok([of_cpu, of_gpu])
    }
}

impl Figure<'_> {
    /// Figure 4.22: the prefix sum of the first pass alone, and the join with each.
    pub(super) fn prefix_sums(&mut self) -> Result<()> {
        let options = Options {
            first: THESIS,
            ..self.options()
        };
        // The largest relations first: the others use their memory.
        let mut sizes = self.scale.sizes.clone();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let million = self.scale.million;
        for size in sizes {
            let mut inputs = self.rig.inputs(size * million, size * million, 1)?;
            let (bits, _) = options.bits_for(self.rig, (size * million) as u64);
            let of_pass = RadixBits {
                shift: 0,
                bits,
                raw: false,
            };
            let mut sums = PrefixSums::new(self.rig, of_pass)?;
            let [mut of_cpu, mut of_gpu] = [Vec::new(), Vec::new()];
            for run in 0..self.scale.runs {
                inputs.refresh(5000 + run as u64)?;
                let [cpu, gpu] = sums.run(self.rig, &inputs)?;
                of_cpu.push(cpu);
                of_gpu.push(gpu);
            }
            for (algorithm, seconds, to_device) in [("CPU", of_cpu, 0), ("GPU", of_gpu, 8 * inputs.tuples())]
            {
                let row = self.row((size, size), ("million tuples", size as f64));
                (self.out)(Row {
                    experiment: "prefix sum",
                    algorithm: algorithm.to_owned(),
                    seconds,
                    bytes: Bytes {
                        to_device,
                        ..Bytes::default()
                    },
                    bits: (bits, 0),
                    ..row
                });
            }
            self.rig.keep(inputs);
        }
        let mut workloads = self.workloads();
        workloads.reverse();
        for workload in workloads {
            let at = ("million tuples", workload.0 as f64);
            for cpu_prefix_sum in [false, true] {
                let options = Options {
                    cpu_prefix_sum,
                    ..options
                };
                self.join(workload, options, at)?;
            }
            self.join(workload, self.options(), at)?;
        }
        Ok(())
    }
}
