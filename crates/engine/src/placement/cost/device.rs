//! The time of a pipeline on the device, with what the host does before and after its kernel.

use super::Estimator;
use super::host::{HostCosts, by_type};
use super::residence::Residence;
use crate::config::GalateaConfig;
use crate::expression::is_text;
use crate::pipeline::{RowOrder, SinkPlan, WindowInput};
use crate::placement::{PipelineSource, Subtree};
use crate::policy::policy;
use crate::runtime::Runtime;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

policy! {
    /// What pipelines cost, in nanoseconds where nothing else is said; pairs are for values of fixed width
    /// and for text.
    pub(super) struct DeviceCosts {
        /// Bytes per second of device memory, until they are measured: those of an H200.
        memory_rate: f64 = 4.4e12,
        /// Bytes per second of the link, until they are measured: those of PCIe 5.
        link_rate: f64 = 52e9,
        /// Seconds of every pipeline: launches, waiting for them, a small result.
        pipeline: f64 = 0.5e-3,
        /// Seconds of compiling a pipeline that no query has run before.
        compiling: f64 = 0.25,
        /// Seconds until a device that is not open yet is.
        opening: f64 = 0.25,
        /// Share of the memory's rate that kernels with one load per value reach.
        reached: f64 = 0.6,
        /// Passes over the rows before one that returns the first of an order, usually.
        top_passes: f64 = 3.0,
        /// A row that is looked up in a dimension through the cache.
        lookup: f64 = 0.02,
        /// A row that is stored by its key.
        built_row: f64 = 0.05,
        /// A row that is grouped in a hash table, of few groups and of more than fit the cache.
        hashed_row: [f64; 2] = [0.1, 1.8],
        /// A row that is sorted by a word of 64 bits, of whose digits all are needed (a radix sort of 2^30
        /// keys with row numbers moves 200 GB).
        sorted_word: f64 = 0.1,
        /// A value that is put in the order of a sort: a random access to device memory.
        gathered_value: f64 = 0.05,
        /// A row whose partition and peers are found in the order of a window.
        ordered_row: f64 = 0.1,
        /// A value that a window function is computed from, put in order and summed or folded.
        window_value: f64 = 0.1,
        /// Groups of a hash table that fits the cache, about.
        cached_groups: f64 = 1e6,
        /// A value of a group that is read back, on the threads that read results.
        group_value: [f64; 2] = [1.5, 13.0],
        /// A value of a row that is returned, with what the operators above lose, whose cores are fed by one
        /// stream of batches then (TPC-H Q7 at scale 30: 54 million rows of five columns took 1.5 s longer
        /// than the scan they replaced).
        row_value: [f64; 2] = [6.0, 20.0],
        /// A row of a dimension that is collected on the host, on one thread: its key.
        dimension_row: f64 = 60.0,
        /// A value of such a row.
        dimension_value: [f64; 2] = [30.0, 150.0],
        /// Encoding a value that was read from a file, on one core.
        encoded_value: [f64; 2] = [4.0, 20.0],
    }
}

const POLICY: DeviceCosts = DeviceCosts::DEFAULT;

/// What a pipeline is expected to take, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::placement) struct DeviceTime {
    /// With its columns in device memory, or as near as they can be kept.
    pub(in crate::placement) hot: f64,
    /// Bringing columns there that are not yet, and compiling: spent once.
    pub(in crate::placement) once: f64,
}

impl DeviceTime {
    /// Seconds of one run when the query has come `runs` times before.
    pub(in crate::placement) fn shared_among(self, runs: u32) -> f64 {
        self.hot + self.once / f64::from(runs + 1)
    }
}

/// Nanoseconds that a row takes until it is in the order of a window, with what functions need of it.
fn windows_row(input: &WindowInput) -> f64 {
    let words = input.words().count() as f64 * POLICY.sorted_word;
    POLICY.built_row + words + POLICY.ordered_row + POLICY.window_value * input.calls.len() as f64
}

impl Estimator {
    /// What `found`, which computes what `plan` does, is expected to take on the device.
    pub(in crate::placement) fn device_time(
        &self,
        found: &Subtree,
        plan: &Arc<dyn ExecutionPlan>,
        runtime: &Runtime,
        config: &GalateaConfig,
    ) -> DeviceTime {
        let rows = found.rows.map_or(super::UNKNOWN_ROWS, |rows| rows as f64);
        let (bytes, each_run, _) = self.bringing(found, rows, runtime, config);
        let scan = bytes / (POLICY.memory_rate * POLICY.reached);
        let lookups = found.dimensions.len() as f64 * rows * POLICY.lookup * 1e-9;
        let sides = found.dimensions.iter().enumerate();
        let sides = sides.map(|(number, side)| match &side.build {
            None => self.dimension(found, number),
            Some(build) => self.device_time(&build.subtree, &side.plan, runtime, config).hot,
        });
        let dimensions: f64 = sides.sum();
        let returned = self.rows(plan);
        let (hashed, returned, costs) = match &found.plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.is_empty() => (0.0, 1.0, POLICY.group_value),
            SinkPlan::Aggregate { .. } => {
                let groups = self.groups(plan);
                let row = POLICY.hashed_row[usize::from(groups > POLICY.cached_groups)];
                (rows * row * 1e-9, groups, POLICY.group_value)
            }
            SinkPlan::Materialise {
                order: Some(RowOrder::First(top)),
                ..
            } => (0.0, returned.min(top.fetch as f64), POLICY.row_value),
            SinkPlan::Materialise { .. } => (0.0, returned, POLICY.row_value),
            SinkPlan::Build { .. }
            | SinkPlan::BuildGroups { .. }
            | SinkPlan::Lists { .. }
            | SinkPlan::Probe { .. }
            | SinkPlan::Mark { .. } => (rows * POLICY.built_row * 1e-9, 0.0, POLICY.row_value),
            SinkPlan::Windows(input) => (rows * windows_row(input) * 1e-9, 0.0, POLICY.row_value),
        };
        // Passes that look for the last of the first rows read their keys.
        let passes = if found.top().is_some() {
            POLICY.top_passes
        } else {
            0.0
        };
        let value = |field: &FieldRef| by_type(costs, field.data_type());
        let result = returned * found.plan.output.fields().iter().map(value).sum::<f64>() * 1e-9;
        DeviceTime {
            hot: (1.0 + passes) * (POLICY.pipeline + scan.max(lookups + hashed))
                + each_run
                + dimensions
                + self.device_sort(found, returned)
                + result,
            once: self.once(found, runtime, config),
        }
    }

    /// Seconds that the device takes longer, if at all, for `rows` rows of `found` when they are sorted:
    /// passes over keys and row numbers, columns gathered, and launches, where the filters may run once more
    /// to count.
    pub(in crate::placement) fn device_sort(&self, found: &Subtree, rows: f64) -> f64 {
        let SinkPlan::Materialise {
            outputs,
            order: Some(RowOrder::All(words)),
        } = &found.plan.sink
        else {
            return 0.0;
        };
        let row = POLICY.sorted_word * words.len() as f64 + POLICY.gathered_value * outputs.len() as f64;
        2.0 * POLICY.pipeline + rows * row * 1e-9
    }

    /// Seconds that the next run of `found` takes beyond what every run takes: columns are brought to the
    /// device, pipelines compiled.
    pub(in crate::placement) fn once(
        &self,
        found: &Subtree,
        runtime: &Runtime,
        config: &GalateaConfig,
    ) -> f64 {
        let ran = (found.shape).is_some_and(|shape| runtime.history().is_compiled(shape));
        self.once_unless(ran, found, runtime, config)
    }

    /// The same, with kernels that are `compiled` for all that is known.
    fn once_unless(&self, compiled: bool, found: &Subtree, runtime: &Runtime, config: &GalateaConfig) -> f64 {
        let rows = found.rows.map_or(super::UNKNOWN_ROWS, |rows| rows as f64);
        let (_, _, bringing) = self.bringing(found, rows, runtime, config);
        let compiled =
            compiled || (runtime.opened(config)).is_some_and(|device| device.prepared().knows(&found.plan));
        let builds = (found.builds()).map(|build| self.once_unless(compiled, build, runtime, config));
        builds.sum::<f64>() + bringing + if compiled { 0.0 } else { POLICY.compiling }
    }

    /// Seconds until a dimension's rows are collected and arranged.
    fn dimension(&self, found: &Subtree, number: usize) -> f64 {
        let source = &found.dimensions[number];
        let rows = self.rows(&source.plan);
        let wanted = found
            .plan
            .lookups()
            .into_iter()
            .filter(|((dimension, _), _)| *dimension == number);
        let values: f64 = wanted
            .map(|(_, data_type)| by_type(POLICY.dimension_value, &data_type))
            .sum();
        let key = source.key.data_type(&source.plan.schema());
        let key = key.map_or(0.0, |data_type| {
            f64::from(u8::from(is_text(&data_type))) * POLICY.dimension_value[1]
        });
        self.host_seconds(&source.plan) + rows * (POLICY.dimension_row + key + values) * 1e-9
    }

    /// Bytes that the kernel reads, seconds of every run until they are in device memory, and seconds of the
    /// next run beyond that.
    fn bringing(
        &self,
        found: &Subtree,
        rows: f64,
        runtime: &Runtime,
        config: &GalateaConfig,
    ) -> (f64, f64, f64) {
        let columns: Vec<usize> = found.plan.columns().into_iter().collect();
        let types = || {
            columns
                .iter()
                .map(|column| found.schema.field(*column).data_type())
        };
        let known = Residence::of(found, &columns, runtime, config);
        // Encoded values take about half of their width.
        let width = |t: &DataType| t.primitive_width().map_or(4.0, |width| width.min(8) as f64 / 2.0);
        let bytes = known
            .encoded
            .map_or_else(|| rows * types().map(width).sum::<f64>(), |bytes| bytes as f64);
        let load = match (&found.source, known.encoded) {
            (PipelineSource::Files { .. }, None) => {
                let value = |t| by_type(HostCosts::DEFAULT.file_value, t) + by_type(POLICY.encoded_value, t);
                rows * types().map(value).sum::<f64>() * 1e-9 / self.cores
            }
            _ => 0.0,
        };
        let transfer = known.away.map_or(bytes, |bytes| bytes as f64) / POLICY.link_rate;
        let opening = if known.open { 0.0 } else { POLICY.opening };
        match config.cache_device.0 {
            true => (bytes, 0.0, load + transfer + opening),
            false => (bytes, transfer, load + opening),
        }
    }
}
