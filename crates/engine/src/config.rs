//! Galatea's settings: DataFusion settings under the prefix `galatea.`.
//!
//! A setting is one field of [`GalateaConfig`], the settings of a session, or of [`EngineSettings`], the
//! settings of an engine, which its sessions share. The doc comment of the field is the help of the setting,
//! which `SHOW ALL VERBOSE`, `information_schema.df_settings`, [`GalateaConfig::reference`] and the settings
//! page of the documentation print. The type of the field defines the accepted values, so a wrong value is
//! refused when it is set (`SET galatea.device = 'gpuu'` fails; the next query still runs with the old
//! value). An unknown name is refused with a list of the existing names.
//!
//! ```sql
//! SET galatea.device = 'cpu';
//! SET galatea.device = 'default';                         -- back to the default, for every setting
//! ALTER SYSTEM SET galatea.memory.gpu_limit = '8 GiB';    -- of the engine: for all of its sessions
//! ```
//!
//! To add a setting, add a field to `settings!` below; a new type of setting implements [`SettingValue`].
//! Settings are read when a query is planned: a later `SET` does not affect a running query.

mod choices;
mod policies;
mod values;

use std::any::Any;

use datafusion::common::config_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::Result;
use galatea_device::MachineMemory;

pub use self::choices::{
    CompileEffort, DeviceChoice, Fallback, JoinAlgorithm, JoinOrder, OverflowMode, PackCodes,
    ParquetDecoding, PersistentScan, TransferChoice,
};
pub use self::policies::{AdmissionPolicy, MemoryAblations, QueryPriority, ReplacementPolicy};
pub use self::values::{BlockThreads, Count, DiskLimit, GroupCopies, JoinPartitions, MemoryLimit, Switch};
pub use galatea_base::setting::SettingValue;
pub use galatea_codegen::choices::{
    GroupBy, GroupCombine, LookupMemory, PageSearchChoice, RowOutput, Selection,
};

/// The prefix of every setting of Galatea.
pub const PREFIX: &str = "galatea";

/// One row of the reference: a setting as the documentation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingReference {
    /// Full name, with the prefix.
    pub name: String,
    /// The default value.
    pub default: String,
    /// The accepted values.
    pub accepts: String,
    /// The setting's doc comment.
    pub help: &'static str,
}

/// Defines a struct of settings from its fields, so that the name, type, default and help of a setting are in
/// one place.
macro_rules! settings {
    (
        $(#[doc = $struct_help:literal])*
        pub struct $config:ident {
            $( $(#[doc = $help:literal])+ $name:literal => pub $field:ident : $type:ty = $default:expr, )+
        }
        $( with $(#[doc = $other_help:literal])+ pub $other:ident : $other_type:ty )?
    ) => {
        $(#[doc = $struct_help])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $config {
            $( $(#[doc = $help])+ pub $field: $type, )+
            $( $(#[doc = $other_help])+ pub $other: $other_type, )?
        }

        impl Default for $config {
            fn default() -> Self {
                Self {
                    $( $field: $default, )+
                    $( $other: <$other_type>::default(), )?
                }
            }
        }

        impl $config {
            /// The settings' names without the prefix, in the order of the reference.
            pub const NAMES: &'static [&'static str] = &[$( $name ),+];

            /// Every setting with its default and its accepted values, in the order of declaration.
            pub fn reference() -> Vec<$crate::config::SettingReference> {
                let defaults = Self::default();
                vec![$( $crate::config::SettingReference {
                    name: format!("{}.{}", $crate::config::PREFIX, $name),
                    default: defaults.$field.to_string(),
                    accepts: <$type as $crate::config::SettingValue>::accepts(),
                    help: concat!($($help),+).trim_ascii(),
                } ),+]
            }

            /// Changes the setting with this name, given without the prefix; `None` if the name is none of
            /// these.
            pub(super) fn change(&mut self, key: &str, value: &str) -> Option<datafusion::error::Result<()>> {
                match key {
                    $( $name => Some(
                        $crate::config::change(&mut self.$field, || Self::default().$field, key, value)
                    ), )+
                    _ => None,
                }
            }

            /// Every setting with its value.
            pub(super) fn values(&self) -> Vec<datafusion::config::ConfigEntry> {
                vec![$( datafusion::config::ConfigEntry {
                    key: format!("{}.{}", $crate::config::PREFIX, $name),
                    value: Some(self.$field.to_string()),
                    description: concat!($($help),+).trim_ascii(),
                } ),+]
            }
        }
    };
}

/// Sets a field to the parsed value, or to its default.
fn change<T: SettingValue>(field: &mut T, default: impl FnOnce() -> T, key: &str, value: &str) -> Result<()> {
    let value = value.trim();
    *field = if value.eq_ignore_ascii_case("default") {
        default()
    } else {
        match T::parse(value) {
            Some(value) => value,
            None => {
                return config_err!(
                    "invalid value for {PREFIX}.{key}: '{value}'\nhint: {PREFIX}.{key} accepts {}",
                    T::accepts()
                );
            }
        }
    };
    Ok(())
}

mod engine;

pub use self::engine::{EngineSettings, SharedSettings};

settings! {
    /// The settings of a session.
    pub struct GalateaConfig {
        /// Where queries run: auto places each subtree where the cost model expects it to be faster, and uses
        /// the CPU if no GPU exists; cpu never uses the GPU; gpu fails at planning without a GPU; emulated
        /// runs the GPU's kernels on the CPU, slowly, for tests.
        "device" => pub device: DeviceChoice = DeviceChoice::Auto,
        /// How a part of a query that the GPU cannot run is handled: allow runs it on the CPU and reports
        /// that in EXPLAIN and in the footer; error refuses the query, with the reasons. Even then the CPU
        /// may sort rows, and it decides about errors of rows that it might not evaluate.
        "fallback" => pub fallback: Fallback = Fallback::Allow,
        /// Behaviour if the result of +, -, * or sum does not fit its type, integer or decimal, on the CPU
        /// and on the device: error fails and names the expression; wrap keeps the low bits of integers, and
        /// those of sums of decimals, which may then be wrong. Other decimals may have more digits than their
        /// type with wrap, and still fail if they exceed its 128 or 256 bits.
        "overflow" => pub overflow: OverflowMode = OverflowMode::Error,
        /// Whether encoded columns of files are cached in memory after their first use. They are read again
        /// when the file changes.
        "cache.files" => pub cache_files: Switch = Switch(true),
        /// Whether encoded columns stay in device memory after the query that transferred them, if memory
        /// suffices. If off, every query transfers the columns that it reads over the link.
        "cache.device" => pub cache_device: Switch = Switch(true),
        /// Whether columns and kernels that a query lacks on the device are prepared in the background if
        /// preparing them first would take longer than the query takes on the CPU. The query then runs on the
        /// CPU, and after it has ended, low-priority threads read, encode and compile for later queries. If
        /// off, a query waits for the preparation once runs on the CPU have lost half of its time.
        "warmup" => pub warmup: Switch = Switch(true),
        /// Whether one kernel reads several chunks during their transfer and waits for each, instead of one
        /// launch after the copies of each: on, off, or auto, which does so for chunk sizes that
        /// `galatea calibrate` has measured to be faster this way. Small chunks may be.
        "tuning.persistent_scan" => pub persistent_scan: PersistentScan = PersistentScan::Auto,
        /// Whether aggregates follow the scan of another query that transfers their columns, if the columns
        /// exceed device memory: each chunk is transferred once, and all queries read it. A query then begins
        /// at the chunk that the other one transfers next.
        "tuning.shared_scans" => pub shared_scans: Switch = Switch(true),
        /// How chunks of columns are transferred to the device. pinned: copies from memory that stays pinned.
        /// pieces: the same in pieces of 1 MiB. staged: the host copies to pinned buffers first. pageable:
        /// the driver does. dynamic-pinning: memory is pinned for each copy, which waits for all work of the
        /// device. zero-copy: nothing is copied, and kernels read pinned memory over the link; packed codes
        /// (galatea.tuning.transfer_compression) are copied from pinned memory. auto: the fastest of pinned,
        /// staged and pageable by calibration. Memory that an earlier query pinned stays pinned.
        "tuning.transfer" => pub transfer: TransferChoice = TransferChoice::Auto,
        /// Priority of the session's queries on the device beside those of other sessions: low, normal or
        /// high. Queries of higher priority are admitted first, but no query waits for more than 16 that
        /// arrived later. Kernels of higher priority start first.
        "priority" => pub priority: QueryPriority = QueryPriority::Normal,
        /// How GROUP BY accumulates groups. auto estimates the cost of each strategy from a sample of the
        /// rows. registers, threads (a copy of the groups per thread in shared memory), copies (a copy per
        /// group of lanes) and slots (the slots of a column with a conflict layout) are for few groups; dense
        /// allocates accumulators in device memory for every possible group; hash always uses the hash table.
        /// If a strategy cannot hold the groups, copies is used, else dense.
        "aggregate.strategy" => pub aggregate_strategy: GroupBy = GroupBy::Auto,
        /// Copies of each group, per group of lanes in shared memory or per group of blocks in device memory:
        /// a power of two up to 32, or 0 to let the model choose.
        "aggregate.replicas" => pub aggregate_replicas: GroupCopies = GroupCopies(0),
        /// Which rows of one group are aggregated before the group is updated: runs, consecutive rows of a
        /// thread; warps, the rows of a warp's lanes; off, none; auto, warps in device memory, and elsewhere
        /// the choice that a sample shows to be profitable.
        "aggregate.preaggregation" => pub preaggregation: GroupCombine = GroupCombine::Auto,
        /// Effort of the compiler before a new kernel runs: quick takes half of the time for a kernel that
        /// may be slower, and compiles the optimised kernel in the background, for later runs; optimised
        /// waits for the optimised kernel; auto is quick on a GPU and optimised on the emulated device.
        "tuning.compile" => pub compile: CompileEffort = CompileEffort::Auto,
        /// Where the rows that pass a filter are stored before they are returned: direct uses columns as long
        /// as the table, up to a limit at which they are drained; counted runs the filter twice, first to
        /// count the rows; heap allocates pages of a device heap on demand; auto is direct if few rows are
        /// expected to pass, and heap otherwise.
        "tuning.row_output" => pub row_output: RowOutput = RowOutput::Auto,
        /// How a warp finds free pages of the device heap for its rows: window reserves pages by counters and
        /// claims them in a bitmap; random-walk tries single pages at random; random-walk-bitmap-32 and -64
        /// try words of 32 or 64 pages at random; with collaborative-32 and -64, all lanes of the warp do so
        /// and share the pages that they find; runs can also find consecutive pages; queue takes pages from a
        /// ring; bump takes the next page and never reuses one; auto is window.
        "tuning.page_search" => pub page_search: PageSearchChoice = PageSearchChoice::Auto,
        /// Whether kernels count the steps and the atomics of their page allocations. EXPLAIN ANALYZE shows
        /// the counts, and for random walks the number of steps that theory predicts for the pool.
        "tuning.page_statistics" => pub page_statistics: Switch = Switch(false),
        /// When a kernel loads the columns of later conditions and of the output: branch, only for rows that
        /// pass the conditions before; predicate, for all rows; auto, for all rows unless the conditions
        /// before are expected to leave enough memory unread.
        "tuning.selection" => pub selection: Selection = Selection::Auto,
        /// Host memory for result rows that wait to be read: a size, a share of the machine's memory as a
        /// percentage, or auto (256 MiB). A result that fits is returned when its query has completed on the
        /// GPU; until then the query can fall back to the CPU. Rows of a larger result are returned while the
        /// query runs, and the query waits for its reader unless other queries wait for the GPU.
        "memory.result_buffer" => pub result_buffer: MemoryLimit = MemoryLimit::Auto,
        /// Where rows look up the build sides that they are joined with: cache reads tables in device memory;
        /// shared copies them into the shared memory of each block, indexed by key; slots does so too, but
        /// indexed by the slots of a key column with a conflict layout; auto uses shared memory for the build
        /// sides that fit, if there are many rows. A build side that does not fit the chosen memory is read
        /// through the cache.
        "join.lookup_memory" => pub lookup_memory: LookupMemory = LookupMemory::Auto,
        /// Number of finished plans, and of SQL texts, that are cached for repeated queries; 0 disables the
        /// cache. A plan is reused for the same query with the same settings over unchanged tables and files,
        /// unless later measurements favour another plan.
        "cache.plans" => pub plan_cache: Count<0, { 1 << 20 }> = Count(256),
        /// Whether equal queries that run at the same time, over the same data and with the same settings,
        /// are computed once. Only queries with a cached plan share a result, and only one of up to 16 MiB
        /// that fits galatea.memory.result_buffer.
        "cache.shared_results" => pub shared_results: Switch = Switch(true),
        /// Minimum number of rows of the largest table of operators before auto places them on the GPU.
        "tuning.min_rows" => pub min_rows: Count<0, { 1 << 40 }> = Count(100_000),
        /// Minimum number of rows of a table before a join's build side over it stays on the device. Build
        /// sides of smaller tables are collected, and packed into shared memory if they fit.
        "tuning.build_rows" => pub build_rows: Count<0, { 1 << 40 }> = Count(1 << 16),
        /// Order of inner joins: auto is the order with the fewest intermediate rows, if statistics of the
        /// tables show it to be considerably cheaper; written is the order of the tables in the query.
        "join.order" => pub join_order: JoinOrder = JoinOrder::Auto,
        /// Whether groups that a join looks up by key are computed only for the keys that a filtered table of
        /// the same join contains. Most groups of a correlated subquery match no row.
        "join.semijoin_reduction" => pub semijoin_reduction: Switch = Switch(true),
        /// Algorithm of joins with a build side on the device: hash builds one table and probes it in the
        /// order of the scan; radix does so after the rows were partitioned in device memory, into
        /// galatea.join.partitions partitions; multipass builds a table for each partition of the build side
        /// and reads both sides once per partition; triton partitions both sides once and spills the
        /// partitions that exceed device memory; auto chooses hash or radix for build sides that fit device
        /// memory, and multipass or triton for others, by predicted times. A join that cannot use the forced
        /// algorithm uses another one, which EXPLAIN ANALYZE shows. A build side that exceeds device memory
        /// always uses partitions. So do groups that exceed it: multipass and triton apply to them, too.
        "join.algorithm" => pub join_algorithm: JoinAlgorithm = JoinAlgorithm::Auto,
        /// Number of partitions into which rows are split before they are stored in a build side on the
        /// device or probe one: a power of two, 1 for none. A partition of the build side then fits the
        /// cache. auto partitions if the build sides are larger than the cache, the rows are many and not in
        /// the order of the key, and memory suffices.
        "join.partitions" => pub join_partitions: JoinPartitions = JoinPartitions(0),
        /// Number of batches of rows that a join or groups larger than device memory partition at the same
        /// time, each on its own streams: copies of one batch overlap with kernels of another one. They share
        /// the memory of one batch.
        "join.batches" => pub join_batches: Count<1, 8> = Count(2),
        /// Threads per block of a pipeline: a power of two, or auto: 256, and more if the groups of a block
        /// fill shared memory.
        "tuning.block_threads" => pub block_threads: BlockThreads = BlockThreads(0),
        /// Maximum number of consecutive rows per thread, rounded down to a power of two.
        "tuning.rows_per_thread" => pub rows_per_thread: Count<1, 16> = Count(16),
        /// Minimum initial number of slots of a group hash table, unless the table can be fully sized from
        /// the start (a value below the default disables that). When the table is full, rows of new groups
        /// wait in pages of the device heap until it has been resized.
        "tuning.hash_slots" => pub hash_slots: Count<2, { 1 << 32 }> = Count(1 << 18),
        /// Whether unbounded input is filtered, computed and grouped by time windows on the device, by an
        /// operator that runs as long as the stream. With galatea.device = 'auto' this applies only if it
        /// takes the host less time than DataFusion's operators do.
        "stream.enabled" => pub stream_enabled: Switch = Switch(true),
        /// Number of blocks of a stream's kernel. The kernel occupies them from the start of the stream to
        /// its end; the rest of the device remains available to other queries.
        "stream.blocks" => pub stream_blocks: Count<1, 1024> = Count(8),
        /// Bytes of a frame, the unit in which rows of a stream are transferred to the device and results are
        /// returned, rounded up to whole pages of 4096 bytes. Small frames return results sooner, large
        /// frames transfer more rows per second.
        "stream.frame_size" => pub stream_frame_size: Count<4096, { 16 << 20 }> = Count(64 << 10),
        /// Maximum number of groups in a window of a stream. Each window that is open has a table of this
        /// size on the device. A window with more groups ends the query with an error.
        "stream.groups" => pub stream_groups: Count<1, { 1 << 26 }> = Count(1 << 14),
        /// Allowed lateness of a stream's rows in milliseconds, relative to the greatest time before them. A
        /// window is returned when no row within this lateness can arrive for it any more. Rows that are
        /// later are dropped and counted.
        "stream.lateness" => pub stream_lateness: Count<0, { 1 << 40 }> = Count(0),
        /// Makes all hashes of group keys equal: for tests of the hash table, slow by design.
        "debug.collide_hashes" => pub collide_hashes: Switch = Switch(false),
    }
    with
    /// The settings of the session's engine, which `SHOW` lists among the session's.
    pub engine: SharedSettings
}

impl ExtensionOptions for GalateaConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match self.change(key, value) {
            Some(outcome) => outcome,
            None if EngineSettings::NAMES.contains(&key) => config_err!(
                "{PREFIX}.{key} is a setting of the engine, which all of its sessions share\n\
                 hint: ALTER SYSTEM SET {PREFIX}.{key} = '{value}' changes it for all of them"
            ),
            None => config_err!("unknown setting: {PREFIX}.{key}\nhint: {}", unknown_hint(key)),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = self.values();
        entries.extend(self.engine.entries());
        entries
    }
}

impl ConfigExtension for GalateaConfig {
    const PREFIX: &'static str = PREFIX;
}

/// `galatea.memory.result_buffer = 'auto'`.
const RESULT_BUFFER: u64 = 256 << 20;

impl GalateaConfig {
    /// The settings in force in `options`, or the defaults if the session is not a Galatea session.
    pub fn of(options: &datafusion::config::ConfigOptions) -> Self {
        options.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Maximum bytes of a result that is returned when its run has ended.
    pub(crate) fn result_bytes(&self) -> usize {
        let bytes = self.result_buffer.resolve(MachineMemory::total(), RESULT_BUFFER);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// The most similar name, if one has the same last word as `key` or differs from it in a few letters, and all
/// names otherwise.
fn unknown_hint(key: &str) -> String {
    let names = || GalateaConfig::NAMES.iter().chain(EngineSettings::NAMES);
    let distance = |name: &str| {
        let of_last_words = strsim::levenshtein(last_word(key), last_word(name));
        of_last_words.min(strsim::levenshtein(key, name))
    };
    let close = names()
        .map(|name| (distance(name), strsim::levenshtein(key, name), name))
        .min()
        .filter(|(distance, _, name)| *distance <= 1 + last_word(name).len() / 4);
    match close {
        Some((.., name)) => format!("did you mean {PREFIX}.{name}? SHOW ALL lists the settings"),
        None => {
            let all: Vec<String> = names().map(|name| format!("{PREFIX}.{name}")).collect();
            format!("settings are {}", all.join(", "))
        }
    }
}

/// A name without its namespace.
fn last_word(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::config::ConfigOptions;

    fn options() -> ConfigOptions {
        let mut options = ConfigOptions::new();
        options.extensions.insert(GalateaConfig::default());
        options
    }

    #[test]
    fn values_are_set_and_shown_under_their_full_names() {
        let mut options = options();
        options.set("galatea.device", "CPU").unwrap();
        options.set("galatea.tuning.build_rows", "65_536").unwrap();
        let config = GalateaConfig::of(&options);
        assert_eq!(config.device, DeviceChoice::Cpu);
        assert_eq!(config.build_rows, Count(65_536));
        config.engine.set("galatea.memory.gpu_limit", "1.5 GiB").unwrap();
        config.engine.set("tuning.chunk_rows", "7").unwrap();
        let engine = GalateaConfig::of(&options).engine.get();
        assert_eq!(engine.gpu_memory_limit, MemoryLimit::Bytes(3 << 29));
        assert_eq!(engine.chunk_rows, Count(7));
        let shown: Vec<_> = options
            .entries()
            .into_iter()
            .filter(|entry| entry.key.starts_with("galatea."))
            .collect();
        assert_eq!(
            shown.len(),
            GalateaConfig::NAMES.len() + EngineSettings::NAMES.len()
        );
        let limit = shown.iter().find(|entry| entry.key == "galatea.memory.gpu_limit");
        assert_eq!(limit.and_then(|entry| entry.value.as_deref()), Some("1536 MiB"));
        assert_eq!(shown[0].key, "galatea.device");
        assert_eq!(shown[0].value.as_deref(), Some("cpu"));
        assert!(
            shown
                .iter()
                .all(|entry| !entry.description.is_empty() && !entry.description.contains("  "))
        );
    }

    #[test]
    fn default_restores_every_setting() {
        let mut options = options();
        options.set("galatea.device", "emulated").unwrap();
        options.set("galatea.cache.files", "off").unwrap();
        assert_ne!(GalateaConfig::of(&options), GalateaConfig::default());
        for name in GalateaConfig::NAMES {
            options.set(&format!("galatea.{name}"), "default").unwrap();
        }
        assert_eq!(GalateaConfig::of(&options), GalateaConfig::default());
    }

    /// One line per invalid configuration: name, value, and a part of the expected error.
    const INVALID: &[(&str, &str, &str)] = &[
        ("galatea.device", "gpuu", "accepts auto, cpu, gpu or emulated"),
        ("galatea.device", "", "accepts auto"),
        ("galatea.fallback", "maybe", "accepts allow or error"),
        ("galatea.cache.files", "2", "accepts true or false"),
        ("galatea.join.partitions", "3", "accepts auto, 1, 2, 4"),
        ("galatea.join.partitions", "512", "accepts auto, 1, 2, 4"),
        (
            "galatea.aggregate.replicas",
            "3",
            "accepts 0, 1, 2, 4, 8, 16 or 32",
        ),
        (
            "galatea.aggregate.replicas",
            "64",
            "accepts 0, 1, 2, 4, 8, 16 or 32",
        ),
        (
            "galatea.aggregate.replicas",
            "-1",
            "accepts 0, 1, 2, 4, 8, 16 or 32",
        ),
        (
            "galatea.aggregate.replicas",
            "auto",
            "accepts 0, 1, 2, 4, 8, 16 or 32",
        ),
        (
            "galatea.aggregate.strategy",
            "sort",
            "accepts auto, registers, threads, copies, slots, dense or hash",
        ),
        ("galatea.devise", "cpu", "did you mean galatea.device?"),
        ("galatea.min_rows", "5", "did you mean galatea.tuning.min_rows?"),
        (
            "galatea.colour",
            "blue",
            "settings are galatea.device, galatea.fallback",
        ),
    ];

    #[test]
    fn invalid_settings_are_refused_and_change_nothing() {
        for (name, value, expected) in INVALID {
            let mut options = options();
            let refusal = options.set(name, value).expect_err(name).to_string();
            assert!(refusal.contains(expected), "{name} = '{value}': {refusal}");
            assert_eq!(
                GalateaConfig::of(&options),
                GalateaConfig::default(),
                "{name} = '{value}'"
            );
        }
    }

    /// The same for settings of an engine, and for settings of a session that are set there.
    const INVALID_OF_ENGINE: &[(&str, &str, &str)] = &[
        ("galatea.memory.gpu_limit", "0", "accepts auto, a size"),
        ("galatea.memory.gpu_limit", "-1 GiB", "accepts auto, a size"),
        ("galatea.memory.gpu_limit", "8 XiB", "accepts auto, a size"),
        ("galatea.memory.gpu_limit", "101%", "accepts auto, a size"),
        ("galatea.memory.gpu_limit", "99999999 TiB", "accepts auto, a size"),
        ("galatea.memory.store_limit", "much", "accepts auto, a size"),
        ("galatea.tuning.chunk_rows", "0", "a whole number from 1 to"),
        ("galatea.tuning.chunk_rows", "2.5", "a whole number from 1 to"),
        ("galatea.memory.admission", "fix-0", "accepts auto, working"),
        ("galatea.device", "cpu", "hint: SET galatea.device = 'cpu'"),
        ("galatea.devise", "cpu", "did you mean galatea.device?"),
    ];

    #[test]
    fn invalid_engine_settings_are_refused_and_change_nothing() {
        for (name, value, expected) in INVALID_OF_ENGINE {
            let shared = SharedSettings::default();
            let refusal = shared.set(name, value).expect_err(name).to_string();
            assert!(refusal.contains(expected), "{name} = '{value}': {refusal}");
            assert_eq!(shared.get(), EngineSettings::default(), "{name} = '{value}'");
        }
    }

    #[test]
    fn session_cannot_change_engine_settings() {
        for name in EngineSettings::NAMES {
            let refusal = options().set(&format!("galatea.{name}"), "default");
            let refusal = refusal.expect_err(name).to_string();
            let hint = format!("hint: ALTER SYSTEM SET galatea.{name} = 'default'");
            assert!(refusal.contains(&hint), "{refusal}");
        }
    }

    #[test]
    fn displayed_values_parse_back() {
        for limit in [
            MemoryLimit::Auto,
            MemoryLimit::Percent(7),
            MemoryLimit::Bytes(1),
            MemoryLimit::Bytes(3 << 29),
            MemoryLimit::Bytes(u64::MAX),
        ] {
            assert_eq!(MemoryLimit::parse(&limit.to_string()), Some(limit), "{limit}");
        }
        for setting in GalateaConfig::reference() {
            options()
                .set(&setting.name, &setting.default)
                .expect(&setting.name);
        }
        for setting in EngineSettings::reference() {
            let shared = SharedSettings::default();
            shared.set(&setting.name, &setting.default).expect(&setting.name);
        }
    }

    #[test]
    fn size_units_are_binary_in_every_spelling() {
        let spelled = [
            "8589934592",
            "8589934592 B",
            "8 GiB",
            "8gib",
            "8 GB",
            "8g",
            "8192MiB",
            "0.0078125 TiB",
        ];
        for size in spelled {
            assert_eq!(
                MemoryLimit::parse(size),
                Some(MemoryLimit::Bytes(8 << 30)),
                "{size}"
            );
        }
    }

    #[test]
    fn memory_limits_resolve_against_total_memory() {
        assert_eq!(MemoryLimit::Auto.resolve(1000, 77), 77);
        assert_eq!(MemoryLimit::Percent(50).resolve(1000, 77), 500);
        assert_eq!(MemoryLimit::Bytes(5).resolve(1000, 77), 5);
    }
}
