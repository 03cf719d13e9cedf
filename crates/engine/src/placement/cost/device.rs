//! The time of a pipeline on the device, with what the host does before and after its kernel.

use super::Estimator;
use super::correction::{Correction, HostTime};
use super::host::{HostCosts, by_type};
use crate::config::GalateaConfig;
use crate::graph::key::Keys;
use crate::graph::{Pipeline, PipelineRef, PipelineSource, PlanKey};
use crate::history::{History, OneTime};
use crate::placement::decide::Candidate;
use crate::session::Session;
use arrow::datatypes::FieldRef;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::policy::policy;
use galatea_codegen::{RowOrder, SinkPlan, WindowInput};
use galatea_expression::{Expr, ExprKind, is_text};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
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
        /// Seconds of compiling a pipeline that no query has run before (first runs of ClickBench on 16
        /// cores: 0.1 to 0.6).
        compiling: f64 = 0.35,
        /// Of that, what each further pipeline of the same query adds at least: they are compiled at the same
        /// time, as far as there are cores.
        compiling_beside: f64 = 0.15,
        /// Evaluating functions for a value of a dictionary, on all cores (ClickBench Q27 over 100 million
        /// rows: 18 million values in 5 s).
        evaluated_value: f64 = 280.0,
        /// Seconds until a device that is not open yet is.
        opening: f64 = 0.25,
        /// Share of the time of what is made once that runs on the CPU must have lost for want of it before
        /// it is made: with all of it, at most twice the time is spent that would have been best; queries
        /// that have come tend to come again.
        investment: f64 = 0.5,
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
        /// A text of a row that is computed byte by byte: an estimate by the instructions of fifty bytes, not
        /// measured.
        made_text: f64 = 0.2,
        /// A key of a row that is a text without a dictionary, of few texts and of more than fit the cache:
        /// twice the accesses of a row that is grouped, not measured.
        interned_key: [f64; 2] = [0.3, 3.6],
        /// A text without a dictionary that is ranked among all of an order: with the rest of the sort a
        /// fifth of a second for 20 million texts of 57 bytes, all different.
        ranked_text: f64 = 8.0,
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
        /// Encoding a byte of a text in a file, as [`HostCosts::file_byte`] counts them, as text, and where
        /// the column must have a dictionary (ClickBench Q20 and Q21 over 100 million rows: 2.5 and 8.3 s
        /// with 16 cores).
        encoded_byte: [f64; 2] = [2.2, 12.4],
    }
}

const POLICY: DeviceCosts = DeviceCosts::DEFAULT;

/// What a pipeline is expected to take, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::placement) struct DeviceTime {
    /// With its columns in device memory, or as near as they can be kept.
    pub(in crate::placement) hot: f64,
    /// The seconds of `hot` that do not depend on the rows between operators: launches, and the transfer of
    /// columns that every run copies anew.
    pub(in crate::placement) fixed: f64,
    /// Spent once: bringing columns there that are not yet, and compiling.
    pub(in crate::placement) once: Vec<OneTime>,
}

impl DeviceTime {
    /// Seconds of one run, with what is left to pay of what is made once after `history`: runs on the CPU
    /// that lost time for want of it have paid the rest.
    pub(in crate::placement) fn unpaid(&self, history: &History) -> f64 {
        self.hot + self.once.iter().map(|one| left(one, history)).sum::<f64>()
    }

    /// The same as if nothing were missing.
    pub(in crate::placement) fn loaded(&self) -> Self {
        Self {
            once: Vec::new(),
            ..*self
        }
    }

    /// The subtree as a candidate for the device; `host`: its time on the CPU.
    pub(in crate::placement) fn candidate(
        &self,
        (host, correction): (HostTime, Correction),
        background: bool,
        history: &History,
    ) -> Candidate {
        let hot = self.fixed + (self.hot - self.fixed) * correction.factor;
        Candidate {
            hot,
            warm_up: self.once.iter().map(|one| one.seconds).sum(),
            unpaid: self.once.iter().map(|one| left(one, history)).sum(),
            cpu: host.corrected(correction),
            least_cpu: host.at_least(correction),
            background,
            defers: false,
        }
    }

    /// What a run on the CPU that loses `lost` seconds pays for each.
    pub(in crate::placement) fn shares(&self, lost: f64, history: &History) -> Vec<OneTime> {
        let left: Vec<f64> = self.once.iter().map(|one| left(one, history)).collect();
        let all: f64 = left.iter().sum();
        let share = |(one, left): (&OneTime, f64)| OneTime {
            what: one.what,
            seconds: lost * left / all.max(f64::MIN_POSITIVE),
        };
        self.once.iter().zip(left).map(share).collect()
    }
}

/// Seconds of `one` that no run has paid for.
fn left(one: &OneTime, history: &History) -> f64 {
    (one.seconds - history.forgone(one.what) / POLICY.investment).max(0.0)
}

/// How a part of a plan is known, by what it is and what identifies it.
fn key(what: &str, of: impl Hash) -> PlanKey {
    let mut state = DefaultHasher::new();
    (what, of).hash(&mut state);
    PlanKey(state.finish())
}

/// What it takes to bring the columns of a pipeline to the device.
struct Bringing {
    /// Bytes that the kernel reads.
    bytes: f64,
    /// Seconds of every run.
    each_run: f64,
    /// What later runs do not spend again.
    once: Vec<OneTime>,
    /// Bytes of host memory of columns that are not encoded yet.
    missing: f64,
    /// Values of dictionaries for which functions are evaluated when its kernel is bound.
    evaluated: f64,
}

/// Adds the columns for whose dictionaries functions are evaluated.
fn evaluated_columns(expression: &Expr, columns: &mut BTreeSet<usize>) {
    if let ExprKind::Dictionary { argument, .. } = expression.kind() {
        columns.extend(argument.columns());
    }
    for child in expression.children() {
        evaluated_columns(child, columns);
    }
}

/// Nanoseconds that texts without a dictionary in the words of an order take for each of its rows, all of
/// which may have another text.
fn ranked_row<'e>(words: impl Iterator<Item = &'e Expr>) -> f64 {
    let keys = words.flat_map(Expr::children);
    let texts: HashSet<&Expr> = keys.filter(|key| key.is_made()).collect();
    texts.len() as f64 * (POLICY.interned_key[1] + POLICY.ranked_text)
}

/// Nanoseconds that a row takes until it is in the order of a window, with what functions need of it.
fn windows_row(input: &WindowInput) -> f64 {
    let words = input.words().count() as f64 * POLICY.sorted_word + ranked_row(input.words());
    POLICY.built_row + words + POLICY.ordered_row + POLICY.window_value * input.calls.len() as f64
}

impl Estimator {
    /// What `found`, which computes what `plan` does, is expected to take on the device.
    pub(in crate::placement) fn device_time(
        &self,
        found: PipelineRef<'_>,
        plan: &Arc<dyn ExecutionPlan>,
        session: &Session,
        keys: &Keys<'_>,
    ) -> DeviceTime {
        DeviceTime {
            once: self.once(found, session, keys),
            ..self.run_time(found, plan, session, keys.config())
        }
    }

    /// The same with nothing missing.
    fn run_time(
        &self,
        found: PipelineRef<'_>,
        plan: &Arc<dyn ExecutionPlan>,
        session: &Session,
        config: &GalateaConfig,
    ) -> DeviceTime {
        let rows = found.rows.map_or(super::UNKNOWN_ROWS, |rows| rows as f64);
        let Bringing { bytes, each_run, .. } = self.bringing(&found, rows, session, config);
        let scan = bytes / (POLICY.memory_rate * POLICY.reached);
        let lookups = found.dimensions.len() as f64 * rows * POLICY.lookup * 1e-9;
        let made: usize = found.plan.expressions().iter().map(|e| e.made_texts()).sum();
        let texts = made as f64 * rows * POLICY.made_text * 1e-9;
        let interned = |keys: &[Expr], texts: f64| {
            let keys = keys.iter().filter(|key| key.is_made()).count();
            keys as f64 * POLICY.interned_key[usize::from(texts > POLICY.cached_groups)]
        };
        let sides = found.dimensions.iter().enumerate();
        let sides = sides.map(|(number, side)| match found.build(number) {
            None => (self.dimension(&found, number), 0.0),
            Some(build) => {
                let time = self.run_time(build, side.plan.plan(), session, config);
                (time.hot, time.fixed)
            }
        });
        let (dimensions, fixed) = sides.fold((0.0, 0.0), |all, side| (all.0 + side.0, all.1 + side.1));
        let seen = found
            .shape
            .and_then(|shape| session.engine().history().returned(shape));
        let seen = seen.map(|rows| rows as f64);
        let returned = seen.unwrap_or_else(|| self.rows(plan));
        let (hashed, returned, costs) = match &found.plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.is_empty() => (0.0, 1.0, POLICY.group_value),
            SinkPlan::Aggregate { keys, .. } => {
                let groups = seen.unwrap_or_else(|| self.groups(plan));
                let row = POLICY.hashed_row[usize::from(groups > POLICY.cached_groups)];
                let row = row + interned(keys, groups);
                let grouped = self.grouped_rows(plan).map_or(rows, |grouped| grouped.min(rows));
                (grouped * row * 1e-9, groups, POLICY.group_value)
            }
            SinkPlan::Materialise {
                order: Some(RowOrder::First(top)),
                ..
            } => (0.0, returned.min(top.fetch as f64), POLICY.row_value),
            SinkPlan::Materialise { .. } => (0.0, returned, POLICY.row_value),
            SinkPlan::Windows(input) => (rows * windows_row(input) * 1e-9, 0.0, POLICY.row_value),
            SinkPlan::Build { key, .. } | SinkPlan::Lists { key, .. } => {
                let row = POLICY.built_row + interned(key.parts(), rows);
                (rows * row * 1e-9, 0.0, POLICY.row_value)
            }
            // Sides of joins.
            _ => (rows * POLICY.built_row * 1e-9, 0.0, POLICY.row_value),
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
            fixed: (1.0 + passes) * POLICY.pipeline + each_run + fixed,
            hot: (1.0 + passes) * (POLICY.pipeline + scan.max(lookups + hashed + texts))
                + each_run
                + dimensions
                + self.device_sort(&found, returned)
                + result,
            once: Vec::new(),
        }
    }

    /// Seconds that the device takes longer, if at all, for `rows` rows of `found` when they are sorted:
    /// passes over keys and row numbers, columns gathered, and launches, where the filters may run once more
    /// to count.
    pub(in crate::placement) fn device_sort(&self, found: &Pipeline, rows: f64) -> f64 {
        let SinkPlan::Materialise {
            outputs,
            order: Some(RowOrder::All(words)),
        } = &found.plan.sink
        else {
            return 0.0;
        };
        let row = POLICY.sorted_word * words.len() as f64
            + ranked_row(words.iter())
            + POLICY.gathered_value * outputs.len() as f64;
        2.0 * POLICY.pipeline + rows * row * 1e-9
    }

    /// What the next run of `found` does beyond what every run does: columns are brought to the device,
    /// pipelines compiled. Nothing of it takes no time.
    pub(in crate::placement) fn once(
        &self,
        found: PipelineRef<'_>,
        session: &Session,
        keys: &Keys<'_>,
    ) -> Vec<OneTime> {
        let ran = (found.shape).is_some_and(|shape| session.engine().history().is_compiled(shape));
        let mut all = Vec::new();
        let compiling = Self::compiling(session, keys.config());
        self.add_once(ran, (compiling, compiling), found, session, keys, &mut all);
        // Two pipelines may read one column.
        all.sort_by_key(|one| one.what.0);
        all.dedup_by_key(|one| one.what);
        all.retain(|one| one.seconds > 0.0);
        all
    }

    /// Seconds of compiling a pipeline: those that compilations have taken lately, where these are more than
    /// expected.
    fn compiling(session: &Session, config: &GalateaConfig) -> f64 {
        let device = session.engine().opened(config);
        let lately = device.and_then(|device| device.device().compile_time());
        lately
            .map_or(0.0, |lately| lately.as_secs_f64())
            .max(POLICY.compiling)
    }

    /// The same added to `all`: nothing for kernels if the subtree `ran`, or else `compiling` seconds for
    /// each that is not known: this pipeline's, and those of a pipeline that is compiled alone.
    fn add_once(
        &self,
        ran: bool,
        (compiling, alone): (f64, f64),
        found: PipelineRef<'_>,
        session: &Session,
        keys: &Keys<'_>,
        all: &mut Vec<OneTime>,
    ) {
        let config = keys.config();
        let rows = found.rows.map_or(super::UNKNOWN_ROWS, |rows| rows as f64);
        let bringing = self.bringing(&found, rows, session, config);
        all.extend(bringing.once);
        // Another query may use the same kernel over other build sides: each pipeline is looked up by itself.
        let is_known =
            || (session.engine().opened(config)).is_some_and(|device| device.prepared().knows(&found.plan));
        if !ran && !is_known() {
            let shape = || keys.shape(found);
            all.push(OneTime {
                what: key("kernels", found.shape.unwrap_or_else(shape)),
                seconds: compiling + bringing.evaluated * POLICY.evaluated_value * 1e-9,
            });
        }
        let beside = alone * POLICY.compiling_beside.max(1.0 / self.cores);
        for build in found.builds() {
            self.add_once(ran, (beside, alone), build, session, keys, all);
        }
    }

    /// Seconds until a GPU that was not used yet is ready.
    pub(in crate::placement) fn opening() -> f64 {
        POLICY.opening
    }

    /// Bytes of host memory that columns of `found` will take that are not encoded yet.
    pub(in crate::placement) fn missing_bytes(
        &self,
        found: PipelineRef<'_>,
        session: &Session,
        config: &GalateaConfig,
    ) -> f64 {
        let rows = found.rows.map_or(super::UNKNOWN_ROWS, |rows| rows as f64);
        let builds = found.builds();
        let below = builds.map(|build| self.missing_bytes(build, session, config));
        self.bringing(&found, rows, session, config).missing + below.sum::<f64>()
    }

    /// Seconds until a dimension's rows are collected and arranged.
    fn dimension(&self, found: &Pipeline, number: usize) -> f64 {
        let source = &found.dimensions[number];
        let rows = self.rows(source.plan.plan());
        let wanted = found
            .plan
            .lookups()
            .into_iter()
            .filter(|((dimension, _), _)| *dimension == number);
        let values: f64 = wanted
            .map(|(_, data_type)| by_type(POLICY.dimension_value, &data_type))
            .sum();
        let key = source.key.data_type(&source.plan.plan().schema());
        let key = key.map_or(0.0, |data_type| {
            f64::from(u8::from(is_text(&data_type))) * POLICY.dimension_value[1]
        });
        self.host_seconds(source.plan.plan()) + rows * (POLICY.dimension_row + key + values) * 1e-9
    }

    /// What it takes until the kernel can read its columns.
    fn bringing(&self, found: &Pipeline, rows: f64, session: &Session, config: &GalateaConfig) -> Bringing {
        let columns: Vec<usize> = found.plan.columns().into_iter().collect();
        let known = self.residence(found, &columns, session, config);
        let is_file = matches!(found.source, PipelineSource::Files { .. });
        let texts = match &found.source {
            PipelineSource::Files { scan, .. }
                if known.columns.iter().any(|column| column.encoded.is_none()) =>
            {
                self.text_bytes(&(Arc::clone(scan) as Arc<dyn ExecutionPlan>))
            }
            _ => Rc::default(),
        };
        let mut bringing = Bringing {
            bytes: 0.0,
            each_run: 0.0,
            once: Vec::new(),
            missing: 0.0,
            evaluated: 0.0,
        };
        let mut evaluated = BTreeSet::new();
        for expression in found.plan.expressions() {
            evaluated_columns(expression, &mut evaluated);
        }
        for (column, residence) in columns.iter().zip(&known.columns) {
            let field = found.schema.field(*column);
            // Encoded values take about half of their width.
            let width = field.data_type().primitive_width();
            let width = width.map_or(4.0, |width| width.min(8) as f64 / 2.0);
            let bytes = residence.encoded.map_or(rows * width, |bytes| bytes as f64);
            let away = residence.encoded.map_or(bytes, |_| residence.away as f64);
            let value = by_type(HostCosts::DEFAULT.file_value, field.data_type())
                + by_type(POLICY.encoded_value, field.data_type());
            let load = match residence.encoded {
                None if is_file => {
                    let byte =
                        HostCosts::DEFAULT.file_byte + POLICY.encoded_byte[usize::from(residence.dictionary)];
                    let texts = texts.get(field.name()).copied().unwrap_or(0.0);
                    bringing.missing += bytes + texts;
                    (rows * value + texts * byte) * 1e-9 / self.cores
                }
                _ => 0.0,
            };
            if evaluated.contains(column) {
                bringing.evaluated += residence.values as f64;
            }
            let transfer = away / POLICY.link_rate;
            let cached = config.cache_device.0;
            bringing.bytes += bytes;
            bringing.each_run += if cached { 0.0 } else { transfer };
            bringing.once.push(OneTime {
                what: key("column", (known.table, field.name(), residence.dictionary)),
                seconds: load + if cached { transfer } else { 0.0 },
            });
        }
        bringing.once.push(OneTime {
            what: key("device", ()),
            seconds: if known.open { 0.0 } else { POLICY.opening },
        });
        bringing
    }
}
