//! Predicts the time of a pipeline on the device, with the host's work before and after its kernel.

use super::Estimator;
use super::correction::{Correction, HostTime};
use super::host::{HostCosts, by_type, has_pattern};
use crate::config::GalateaConfig;
use crate::graph::key::Keys;
use crate::graph::{Pipeline, PipelineId, PipelineRef, PipelineSource, PlanKey};
use crate::history::{History, OneTime};
use crate::placement::decide::Candidate;
use crate::session::Session;
use arrow::datatypes::FieldRef;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::policy::policy;
use galatea_codegen::{RowOrder, SinkPlan, WindowInput};
use galatea_expression::{Expr, ExprKind, is_string};
use galatea_store::PageDecoder;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

policy! {
    /// Costs of pipelines, in nanoseconds unless stated otherwise; pairs are for values of fixed width and
    /// for strings.
    pub(super) struct DeviceCosts {
        /// Bytes per second of device memory, until they are measured: those of an H200.
        memory_rate: f64 = 4.4e12,
        /// Bytes per second of the link, until they are measured: those of PCIe 5.
        link_rate: f64 = 52e9,
        /// Fixed seconds of every pipeline: launches, waiting for them, a small result.
        pipeline: f64 = 0.5e-3,
        /// Seconds of compiling a pipeline that no query has run before, until some pipelines were compiled
        /// or loaded from disk. First runs of TPC-DS 10 on 16 cores: n pipelines of a query take
        /// 0.36 + 0.022 (n - 1) seconds (`bench/results/2026-11-29-nvidia-h200`).
        compiling: f64 = 0.36,
        /// Share of that which each further pipeline of the same query adds at least: they are compiled in
        /// parallel if enough cores are free.
        compiling_beside: f64 = 0.06,
        /// Evaluating a function for a value of a dictionary, on all cores: a comparison or another function,
        /// and one with a regular expression (ClickBench Q28 over 100 million rows: 24 million values in 6
        /// s).
        evaluated_value: [f64; 2] = [20.0, 280.0],
        /// Seconds to open a device.
        opening: f64 = 0.25,
        /// Share of the time of a warm-up that runs on the CPU must have lost before it starts: with all of
        /// it, at most twice the optimal time is spent; queries that have been repeated tend to be repeated
        /// again.
        investment: f64 = 0.5,
        /// Share of the memory's bandwidth that kernels with one load per value reach.
        reached: f64 = 0.6,
        /// Usual number of passes over the rows before one that returns the first rows of an order.
        top_passes: f64 = 3.0,
        /// A row that is looked up in a build side through the cache.
        lookup: f64 = 0.02,
        /// A row that is inserted into a build side.
        built_row: f64 = 0.05,
        /// A row that is grouped in a hash table, with few groups and with more than fit the cache.
        hashed_row: [f64; 2] = [0.1, 1.8],
        /// A string of a row that is computed byte by byte: an estimate from the instructions for fifty
        /// bytes, not measured.
        computed_string: f64 = 0.2,
        /// A key of a row that is a string without a dictionary, for few strings and for more than fit the
        /// cache: twice the accesses of a row that is grouped, not measured.
        interned_key: [f64; 2] = [0.3, 3.6],
        /// A string without a dictionary that is ranked among all of an order: including the rest of the
        /// sort, a fifth of a second for 20 million distinct strings of 57 bytes.
        ranked_string: f64 = 8.0,
        /// A row that is sorted by a word of 64 bits with all digits significant (a radix sort of 2^30 keys
        /// with row numbers moves 200 GB).
        sorted_word: f64 = 0.1,
        /// A value that is gathered in the order of a sort: a random access to device memory.
        gathered_value: f64 = 0.05,
        /// A row in the order of a window, to find its partition and peers.
        ordered_row: f64 = 0.1,
        /// An argument of a window function, which is gathered in order and summed or folded.
        window_value: f64 = 0.1,
        /// Approximate number of groups of a hash table that fits the cache.
        cached_groups: f64 = 1e6,
        /// A value of a group that is read back, on the threads that read results.
        group_value: [f64; 2] = [1.5, 13.0],
        /// A value of a returned row, including the loss of the operators above, which then read a single
        /// stream of batches (TPC-H Q7 at scale 30: 54 million rows of five columns took 1.5 s longer than
        /// the scan that they replaced).
        row_value: [f64; 2] = [6.0, 20.0],
        /// A row of a build side that is collected on the host, on one thread: its key.
        build_side_row: f64 = 60.0,
        /// A value of such a row.
        build_side_value: [f64; 2] = [30.0, 150.0],
        /// Bytes per second that are read from the column cache on disk, on all cores: an estimate for a
        /// disk, not measured. Columns in the page cache take less.
        disk_rate: f64 = 3e9,
        /// Encoding a value that was read from a file, on one core.
        encoded_value: [f64; 2] = [4.0, 20.0],
        /// Encoding a byte of a string in a file, counted as by [`HostCosts::file_byte`]: as a string, and if
        /// the column must have a dictionary (ClickBench Q20 and Q21 over 100 million rows: 2.5 and 8.3 s
        /// with 16 cores).
        encoded_byte: [f64; 2] = [2.2, 12.4],
    }
}

const POLICY: DeviceCosts = DeviceCosts::DEFAULT;

/// Predicted time of a pipeline, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::placement) struct DeviceTime {
    /// With its columns in device memory, or as close to it as they can be cached.
    pub(in crate::placement) hot: f64,
    /// The seconds of `hot` that do not depend on the rows between operators: launches, and the transfer of
    /// columns that every run copies again.
    pub(in crate::placement) fixed: f64,
    /// Work that is done once: transferring missing columns, and compiling.
    pub(in crate::placement) once: Vec<OneTime>,
}

impl DeviceTime {
    /// Seconds of one run, including the share of the warm-up that is still unpaid according to `history`:
    /// runs on the CPU that lost time because of it have paid the rest.
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
            lost: self.once.iter().map(|one| history.forgone(one.what)).sum(),
            cpu: host.corrected(correction),
            least_cpu: host.at_least(correction),
            background,
            defers: false,
        }
    }

    /// The share of each warm-up step that a run on the CPU pays if it loses `lost` seconds: in proportion to
    /// the time that is unpaid, or else to the whole time.
    pub(in crate::placement) fn shares(&self, lost: f64, history: &History) -> Vec<OneTime> {
        let left: Vec<f64> = self.once.iter().map(|one| left(one, history)).collect();
        let parts = match left.iter().any(|left| *left > 0.0) {
            true => left,
            false => self.once.iter().map(|one| one.seconds).collect(),
        };
        let all: f64 = parts.iter().sum();
        let share = |(one, part): (&OneTime, f64)| OneTime {
            what: one.what,
            seconds: lost * part / all.max(f64::MIN_POSITIVE),
        };
        self.once.iter().zip(parts).map(share).collect()
    }
}

/// Seconds of `one` that no run has paid for.
fn left(one: &OneTime, history: &History) -> f64 {
    (one.seconds - history.forgone(one.what) / POLICY.investment).max(0.0)
}

/// Key of a part of a plan, from its kind and its identity.
fn key(what: &str, of: impl Hash) -> PlanKey {
    let mut state = DefaultHasher::new();
    (what, of).hash(&mut state);
    PlanKey(state.finish())
}

/// Costs of transferring the columns of a pipeline to the device.
struct Bringing {
    /// Bytes that the kernel reads.
    bytes: f64,
    /// Seconds in every run.
    each_run: f64,
    /// Work that later runs do not repeat.
    once: Vec<OneTime>,
    /// Bytes of host memory of columns that are not encoded yet.
    missing: f64,
    /// Seconds of evaluating functions for the values of dictionaries when the kernel is bound.
    evaluated: f64,
}

/// The decoder of the files that a pipeline reads, if they are Parquet and an open device decodes them.
fn page_decoder(found: &Pipeline, session: &Session) -> Option<Arc<PageDecoder>> {
    let PipelineSource::Files { scan, .. } = &found.source else {
        return None;
    };
    let scan = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let is_parquet = scan.file_source().file_type() == "parquet";
    is_parquet
        .then(|| session.engine().store().page_decoder())
        .flatten()
}

/// Adds the nanoseconds per value of the functions that are evaluated for columns with dictionaries.
fn add_evaluated(expression: &Expr, columns: &mut BTreeMap<usize, f64>) {
    if let ExprKind::Dictionary {
        function, argument, ..
    } = expression.kind()
    {
        let value = POLICY.evaluated_value[usize::from(has_pattern(function.expression()))];
        for column in argument.columns() {
            *columns.entry(column).or_default() += value;
        }
    }
    for child in expression.children() {
        add_evaluated(child, columns);
    }
}

/// Nanoseconds for each row to rank strings without a dictionary in the words of an order, if all rows have
/// distinct strings.
fn ranked_row<'e>(words: impl Iterator<Item = &'e Expr>) -> f64 {
    let keys = words.flat_map(Expr::children);
    let texts: HashSet<&Expr> = keys.filter(|key| key.is_made()).collect();
    texts.len() as f64 * (POLICY.interned_key[1] + POLICY.ranked_string)
}

/// Nanoseconds to put a row in the order of a window, with the columns that its functions need.
fn windows_row(input: &WindowInput) -> f64 {
    let words = input.words().count() as f64 * POLICY.sorted_word + ranked_row(input.words());
    POLICY.built_row + words + POLICY.ordered_row + POLICY.window_value * input.calls.len() as f64
}

impl Estimator {
    /// Predicted time on the device of `found`, which computes the same as `plan`.
    pub(in crate::placement) fn device_time(
        &self,
        found: PipelineRef<'_>,
        plan: &Arc<dyn ExecutionPlan>,
        session: &Session,
        keys: &Keys<'_>,
    ) -> DeviceTime {
        DeviceTime {
            once: self.once(found, session, keys),
            ..self.run_time(found, plan, session, keys.config(), &mut BTreeSet::new())
        }
    }

    /// The same without a warm-up. Pipelines that are `counted` take no time: several others read them.
    fn run_time(
        &self,
        found: PipelineRef<'_>,
        plan: &Arc<dyn ExecutionPlan>,
        session: &Session,
        config: &GalateaConfig,
        counted: &mut BTreeSet<PipelineId>,
    ) -> DeviceTime {
        let rows = found.rows.map_or(super::UNKNOWN_ROWS, |rows| rows as f64);
        let Bringing { bytes, each_run, .. } = self.bringing(&found, rows, session, config);
        let scan = bytes / (POLICY.memory_rate * POLICY.reached);
        let lookups = found.build_sides.len() as f64 * rows * POLICY.lookup * 1e-9;
        let made: usize = found
            .plan
            .expressions()
            .iter()
            .map(|e| e.computed_strings())
            .sum();
        let texts = made as f64 * rows * POLICY.computed_string * 1e-9;
        let interned = |keys: &[Expr], texts: f64| {
            let keys = keys.iter().filter(|key| key.is_made()).count();
            keys as f64 * POLICY.interned_key[usize::from(texts > POLICY.cached_groups)]
        };
        let sides = found.build_sides.iter().enumerate();
        let sides = sides.map(|(number, side)| match found.build(number) {
            None => (self.build_side(&found, number), 0.0),
            Some(build) if !counted.insert(build.id()) => (0.0, 0.0),
            Some(build) => {
                let time = self.run_time(build, side.plan.plan(), session, config, counted);
                (time.hot, time.fixed)
            }
        });
        let (build_sides, fixed) = sides.fold((0.0, 0.0), |all, side| (all.0 + side.0, all.1 + side.1));
        let seen = found
            .shape
            .and_then(|shape| session.engine().history().returned(shape));
        let seen = seen.map(|rows| rows as f64);
        // A row of a pipeline has one match at most in each build side.
        let most = found.rows.map_or(f64::INFINITY, |rows| rows as f64);
        let returned = seen.unwrap_or_else(|| self.rows(plan).min(most));
        let (hashed, returned, costs) = match &found.plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.is_empty() => (0.0, 1.0, POLICY.group_value),
            SinkPlan::Aggregate { keys, .. } => {
                let groups = seen.unwrap_or_else(|| self.groups(plan).min(most));
                let row = POLICY.hashed_row[usize::from(groups > POLICY.cached_groups)];
                let row = row + interned(keys, groups);
                let grouped = self.grouped_rows(plan).map_or(rows, |grouped| grouped.min(rows));
                (grouped * row * 1e-9, groups, POLICY.group_value)
            }
            SinkPlan::Rows {
                order: Some(RowOrder::First(top)),
                ..
            } => (0.0, returned.min(top.fetch as f64), POLICY.row_value),
            SinkPlan::Rows { .. } => (0.0, returned, POLICY.row_value),
            SinkPlan::Windows(input) => (rows * windows_row(input) * 1e-9, 0.0, POLICY.row_value),
            SinkPlan::Build { key, .. } | SinkPlan::Multimap { key, .. } => {
                let row = POLICY.built_row + interned(key.parts(), rows);
                (rows * row * 1e-9, 0.0, POLICY.row_value)
            }
            // Build sides of joins.
            _ => (rows * POLICY.built_row * 1e-9, 0.0, POLICY.row_value),
        };
        // Passes that search for the last of the first rows read the sort keys.
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
                + build_sides
                + self.device_sort(&found, returned)
                + result,
            once: Vec::new(),
        }
    }

    /// Additional seconds on the device to sort `rows` rows of `found`, if it sorts: passes over keys and row
    /// numbers, columns gathered, and launches, including a second run of the filters to count.
    pub(in crate::placement) fn device_sort(&self, found: &Pipeline, rows: f64) -> f64 {
        let SinkPlan::Rows {
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

    /// Work of the next run of `found` that later runs do not repeat: columns are transferred to the device,
    /// pipelines compiled. Steps that take no time are omitted.
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
        // Two pipelines may read the same column.
        all.sort_by_key(|one| one.what.0);
        all.dedup_by_key(|one| one.what);
        all.retain(|one| one.seconds > 0.0);
        all
    }

    /// Seconds until a pipeline that no query has run before has its kernel: those of the last pipelines,
    /// which were compiled or loaded from disk.
    fn compiling(session: &Session, config: &GalateaConfig) -> f64 {
        let expected = Duration::from_secs_f64(POLICY.compiling);
        let device = session.engine().opened(config);
        device.map_or(POLICY.compiling, |device| {
            device.prepared().kernel_times.mean(expected).as_secs_f64()
        })
    }

    /// Adds the same work to `all`. Kernels take no time if the subtree `ran` or the device has them;
    /// otherwise this pipeline's take `compiling` seconds. `alone`: the seconds of a pipeline that is
    /// compiled alone, from which those of its builds follow.
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
        // Another query may use the same kernel over other build sides, so each pipeline is looked up by
        // itself.
        let is_known =
            || (session.engine().opened(config)).is_some_and(|device| device.prepared().knows(&found.plan));
        if !ran && !is_known() {
            let shape = || keys.shape(found);
            all.push(OneTime {
                what: key("kernels", found.shape.unwrap_or_else(shape)),
                seconds: compiling + bringing.evaluated,
            });
        }
        let beside = alone * POLICY.compiling_beside.max(1.0 / self.cores);
        for build in found.builds() {
            self.add_once(ran, (beside, alone), build, session, keys, all);
        }
    }

    /// Seconds to open a GPU that has not been used yet.
    pub(in crate::placement) fn opening() -> f64 {
        POLICY.opening
    }

    /// Bytes of host memory for the columns of `found` that are not encoded yet.
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

    /// Seconds to collect the rows of a build side and to build its table.
    fn build_side(&self, found: &Pipeline, number: usize) -> f64 {
        let source = &found.build_sides[number];
        let rows = self.rows(source.plan.plan());
        let wanted = found
            .plan
            .lookups()
            .into_iter()
            .filter(|((build_side, _), _)| *build_side == number);
        let values: f64 = wanted
            .map(|(_, data_type)| by_type(POLICY.build_side_value, &data_type))
            .sum();
        let key = source.key.data_type(&source.plan.plan().schema());
        let key = key.map_or(0.0, |data_type| {
            f64::from(u8::from(is_string(&data_type))) * POLICY.build_side_value[1]
        });
        self.host_seconds(source.plan.plan()) + rows * (POLICY.build_side_row + key + values) * 1e-9
    }

    /// Costs of preparing the columns that the kernel reads.
    fn bringing(&self, found: &Pipeline, rows: f64, session: &Session, config: &GalateaConfig) -> Bringing {
        let columns: Vec<usize> = found.plan.columns().into_iter().collect();
        let known = self.residence(found, &columns, session, config);
        let is_file = matches!(found.source, PipelineSource::Files { .. });
        let decoder = page_decoder(found, session);
        let texts = match &found.source {
            PipelineSource::Files { scan, .. }
                if known.columns.iter().any(|column| column.encoded.is_none()) =>
            {
                self.string_bytes(&(Arc::clone(scan) as Arc<dyn ExecutionPlan>))
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
        let mut evaluated = BTreeMap::new();
        for expression in found.plan.expressions() {
            add_evaluated(expression, &mut evaluated);
        }
        for (column, residence) in columns.iter().zip(&known.columns) {
            let field = found.schema.field(*column);
            // Encoded values take about half of their width.
            let width = field.data_type().primitive_width();
            let width = width.map_or(4.0, |width| width.min(8) as f64 / 2.0);
            let known_bytes = residence.encoded.or(residence.on_disk);
            let bytes = known_bytes.map_or(rows * width, |bytes| bytes as f64);
            let away = residence.encoded.map_or(bytes, |_| residence.away as f64);
            let value = by_type(HostCosts::DEFAULT.file_value, field.data_type())
                + by_type(POLICY.encoded_value, field.data_type());
            let load = match residence.encoded {
                None if residence.on_disk.is_some() => {
                    bringing.missing += bytes;
                    bytes / POLICY.disk_rate
                }
                None if is_file => {
                    let byte =
                        HostCosts::DEFAULT.file_byte + POLICY.encoded_byte[usize::from(residence.dictionary)];
                    let texts = texts.get(field.name()).copied().unwrap_or(0.0);
                    bringing.missing += bytes + texts;
                    let strings = is_string(field.data_type());
                    let on_device = decoder.as_ref().map(|decoder| decoder.relative_time(strings));
                    (rows * value + texts * byte) * 1e-9 / self.cores * on_device.unwrap_or(1.0)
                }
                _ => 0.0,
            };
            let value = evaluated.get(column).copied().unwrap_or(0.0);
            bringing.evaluated += residence.values as f64 * value * 1e-9;
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
