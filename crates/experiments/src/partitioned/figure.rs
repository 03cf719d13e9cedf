//! Experiments of one figure, and the measurement of a join.

use galatea_device::Result;
use galatea_kernels::RadixAlgorithm;

use super::data::Inputs;
use super::options::{First, Options};
use super::rig::{Bytes, Rig};
use super::row::Row;
use super::scale::Scale;
use super::triton::{Join, Joined};

/// The thesis' first pass.
pub(super) const THESIS: First = First::Direct(RadixAlgorithm::Hierarchical);
/// Staging with the thesis' second half.
pub(super) const STAGED: First = First::Staged(RadixAlgorithm::Linear);

/// Name of a join in rows.
pub(super) fn name(options: &Options) -> String {
    let hashing = if options.perfect { " perfect" } else { "" };
    let prefix = if options.cpu_prefix_sum {
        " with the CPU's prefix sum"
    } else {
        ""
    };
    format!("{}{hashing}{prefix}", options.first)
}

impl Joined {
    /// Panics if a join returned another sum or number of matches than the generator of its relations.
    pub(super) fn check(&self, inputs: &Inputs, options: &Options) {
        let expected = [inputs.sum(), inputs.probe.count as u64];
        assert_eq!(
            self.sums,
            expected,
            "sum and number of matches of {}",
            name(options)
        );
    }
}

/// Experiments of one figure.
pub(super) struct Figure<'a> {
    pub(super) rig: &'a mut Rig,
    pub(super) scale: &'a Scale,
    pub(super) figure: &'static str,
    pub(super) out: &'a mut dyn FnMut(Row),
}

impl Figure<'_> {
    pub(super) fn options(&self) -> Options {
        Options {
            limit: self.scale.limit,
            chunk_bits: self.scale.chunk_bits,
            page_bits: self.scale.page_bits,
            task_bits: self.scale.task_bits,
            entries: self.scale.entries,
            ..Options::new(self.rig)
        }
    }

    /// The two smaller workloads.
    pub(super) fn workloads(&self) -> Vec<(usize, usize)> {
        let sizes = self.scale.sizes.iter().take(2);
        sizes.map(|size| (*size, *size)).collect()
    }

    /// A row of the figure without times and bytes.
    pub(super) fn row(&self, workload: (usize, usize), (parameter, value): (&'static str, f64)) -> Row {
        Row {
            experiment: "",
            figure: self.figure,
            algorithm: String::new(),
            workload,
            parameter,
            value,
            tuples: ((workload.0 + workload.1) * self.scale.million) as u64,
            seconds: Vec::new(),
            bytes: Bytes::default(),
            spilled: 0.0,
            bits: (0, 0),
            limits: self.rig.limits,
            of_run: None,
        }
    }

    /// Whether a point has further runs: as many as the scale has, unless it is slow.
    pub(super) fn is_open(&self, seconds: &[f64]) -> bool {
        let slow = seconds.iter().sum::<f64>() > self.scale.patience;
        seconds.is_empty() || (seconds.len() < self.scale.runs && !slow)
    }

    /// Joins relations of these millions of tuples, and reports the join, and its two halves.
    pub(super) fn join(
        &mut self,
        workload: (usize, usize),
        options: Options,
        (parameter, value): (&'static str, f64),
    ) -> Result<()> {
        let million = self.scale.million;
        let mut inputs = self.rig.inputs(workload.0 * million, workload.1 * million, 1)?;
        let mut join = Join::new(self.rig, &inputs, options)?;
        let mut runs = Vec::new();
        for run in 0..self.scale.runs {
            inputs.refresh(1000 + run as u64)?;
            let joined = join.run(self.rig, &inputs)?;
            joined.check(&inputs, &options);
            runs.push(joined);
        }
        let [first, second] = join.bytes(inputs.tuples());
        let algorithm = name(&options);
        let seconds = |of: fn(&Joined) -> f64| -> Vec<f64> { runs.iter().map(of).collect() };
        for (experiment, seconds, bytes) in [
            ("join", seconds(|run| run.first + run.second), first + second),
            ("first pass", seconds(|run| run.first), first),
            ("second half", seconds(|run| run.second), second),
        ] {
            let row = self.row(workload, (parameter, value));
            (self.out)(Row {
                experiment,
                algorithm: algorithm.clone(),
                tuples: inputs.tuples(),
                seconds,
                bytes,
                spilled: join.spilled(),
                bits: join.bits(),
                ..row
            });
        }
        self.rig.keep(inputs);
        Ok(())
    }
}
