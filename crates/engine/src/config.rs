//! Galatea's settings: DataFusion settings under the prefix `galatea.`.
//!
//! A setting is one field of [`GalateaConfig`], the settings of a session, or of [`EngineSettings`], the
//! settings of an engine, which its sessions share. Its doc comment is its help: what `SHOW ALL VERBOSE`,
//! `information_schema.df_settings`, [`GalateaConfig::reference`] and the table of README.md print. Its type
//! holds what it accepts, so a wrong value is refused where it is set (`SET galatea.device = 'gpuu'` fails;
//! the query after it still runs with the old value), and an unknown name is refused with the names there
//! are.
//!
//! ```sql
//! SET galatea.device = 'cpu';
//! SET galatea.device = 'default';                         -- back to the default, for every setting
//! ALTER SYSTEM SET galatea.gpu_memory_limit = '8 GiB';    -- of the engine: for all of its sessions
//! ```
//!
//! Adding a setting is adding a field to `settings!` below; a type that is new there implements
//! [`SettingValue`]. Settings are read when a query is planned: a running query is not touched by a later
//! `SET`.

mod choices;
mod policies;
mod values;

use std::any::Any;

use datafusion::common::config_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::Result;

pub use self::choices::{
    CompileEffort, DeviceChoice, Fallback, JoinOrder, OverflowMode, PackCodes, PersistentScan,
};
pub use self::policies::{AdmissionPolicy, MemoryAblations, QueryPriority, ReplacementPolicy};
pub use self::values::{BlockThreads, Count, GroupCopies, JoinPartitions, MemoryLimit, Switch};
pub use galatea_base::setting::SettingValue;
pub use galatea_codegen::choices::{DimensionMemory, GroupBy, GroupCombine, RowOutput};

/// The prefix of every setting of Galatea.
pub const PREFIX: &str = "galatea";

/// One row of the reference: a setting as documentation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingReference {
    /// Full name, with the prefix.
    pub name: String,
    /// The default value.
    pub default: String,
    /// What it accepts.
    pub accepts: String,
    /// The setting's doc comment.
    pub help: &'static str,
}

/// Writes a struct of settings from its fields, so that a setting's name, type, default and help stand in one
/// place.
macro_rules! settings {
    (
        $(#[doc = $struct_help:literal])*
        pub struct $config:ident {
            $( $(#[doc = $help:literal])+ pub $field:ident : $type:ty = $default:expr, )+
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
            pub const NAMES: &'static [&'static str] = &[$( stringify!($field) ),+];

            /// Every setting with its default and what it accepts, in the order of declaration.
            pub fn reference() -> Vec<$crate::config::SettingReference> {
                let defaults = Self::default();
                vec![$( $crate::config::SettingReference {
                    name: format!("{}.{}", $crate::config::PREFIX, stringify!($field)),
                    default: defaults.$field.to_string(),
                    accepts: <$type as $crate::config::SettingValue>::accepts(),
                    help: concat!($($help),+).trim_ascii(),
                } ),+]
            }

            /// Changes the setting of that name without the prefix; `None`: it is none of these.
            pub(super) fn change(&mut self, key: &str, value: &str) -> Option<datafusion::error::Result<()>> {
                match key {
                    $( stringify!($field) => Some(
                        $crate::config::change(&mut self.$field, || Self::default().$field, key, value)
                    ), )+
                    _ => None,
                }
            }

            /// Every setting with its value.
            pub(super) fn values(&self) -> Vec<datafusion::config::ConfigEntry> {
                vec![$( datafusion::config::ConfigEntry {
                    key: format!("{}.{}", $crate::config::PREFIX, stringify!($field)),
                    value: Some(self.$field.to_string()),
                    description: concat!($($help),+).trim_ascii(),
                } ),+]
            }
        }
    };
}

/// Sets a field to the value of that string, or to its default.
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
        /// Where queries run: auto places every subtree where the cost model expects it to be faster and uses
        /// the CPU where there is no GPU; cpu never uses the GPU; gpu fails at planning when there is none;
        /// emulated runs the GPU's kernels on the CPU, slowly, for tests.
        pub device: DeviceChoice = DeviceChoice::Auto,
        /// What happens to a part of a query that the GPU cannot run: allow runs it on the CPU and says so in
        /// EXPLAIN and in the footer; error refuses the query, with the reasons.
        pub fallback: Fallback = Fallback::Allow,
        /// What happens where the result of +, -, * or sum does not fit its type, integer or decimal, on the
        /// CPU and on the device: error fails and names the expression; wrap takes the low bits of integers,
        /// and decimals may have more digits than their type.
        pub overflow: OverflowMode = OverflowMode::Error,
        /// Whether encoded columns of files are kept after their first use. They are read again when the file
        /// changes.
        pub cache_files: Switch = Switch(true),
        /// Whether encoded columns stay in device memory after the query that brought them there, as far as
        /// there is room. Off, every query brings what it reads over the link.
        pub cache_device: Switch = Switch(true),
        /// Whether columns and kernels that a query lacks on the device are made behind it, where making them
        /// first would take longer than the CPU's answer: the query runs on the CPU, and when it has ended,
        /// threads of low priority read, encode and compile for those that come after it. Off, a query waits
        /// for them once runs on the CPU have lost half of that time.
        pub background: Switch = Switch(true),
        /// Whether one kernel reads several chunks while they come over the link, and waits for each, instead
        /// of launches behind their copies: on, off, or auto, where `galatea calibrate` has measured
        /// that chunks of the size are faster so, which small ones may be.
        pub persistent_scan: PersistentScan = PersistentScan::Auto,
        /// How urgent the session's queries are beside those of other sessions on the device: low, normal or
        /// high. The urgent are first among those that wait, though none waits for more than 16 that came
        /// later, and their kernels begin first.
        pub priority: QueryPriority = QueryPriority::Normal,
        /// How GROUP BY collects groups: auto asks a model, for a sample of the rows, what each way would
        /// cost; registers, threads (a copy per thread in shared memory), copies (for groups of lanes) and
        /// slots (those of a laid-out column) are for few groups; dense has accumulators in device memory for
        /// every possible group; hash always takes the hash table. Where a way cannot hold the groups,
        /// copies do, then dense.
        pub group_by: GroupBy = GroupBy::Auto,
        /// Copies of each group, for groups of lanes in shared memory or for groups of blocks in device
        /// memory: a power of two up to 32, or 0 to let the model choose.
        pub group_copies: GroupCopies = GroupCopies(0),
        /// Which rows of one group are added up before it is updated: runs, consecutive rows of a thread;
        /// warps, the rows of a warp's lanes; off, none; auto those of warps in device memory, and elsewhere
        /// what a sample shows to pay.
        pub group_combine: GroupCombine = GroupCombine::Auto,
        /// How much effort the compiler makes before a new kernel runs: quick takes half of the time for a
        /// kernel that may be slower, and has the optimised one compiled behind it, for later runs; optimised
        /// waits for that one; auto is quick on a GPU, and optimised on the emulated device.
        pub compile: CompileEffort = CompileEffort::Auto,
        /// Where the rows of a filter go before they are returned: direct takes columns as long as the table,
        /// up to a limit at which they are drained; counted runs the filter twice, first to count; heap takes
        /// pages of a device heap as rows come; auto is direct where few rows are expected to pass, and heap
        /// otherwise.
        pub row_output: RowOutput = RowOutput::Auto,
        /// Host memory for rows that wait to be read: a size, a share of the machine's memory as a
        /// percentage, or auto (256 MiB). A result that fits leaves when its query has run on the GPU, and
        /// until then the CPU can take over; of a larger one rows are returned while the query goes on, and
        /// it waits for its reader unless other queries wait for the GPU.
        pub result_buffer: MemoryLimit = MemoryLimit::Auto,
        /// Where rows look up the dimensions they are joined with: cache reads tables in device memory;
        /// shared copies them into the shared memory of each block, by key; slots has them there by the slots
        /// of a laid-out key column; auto takes shared memory for the dimensions that fit, where rows are
        /// many. A dimension that cannot be where it was forced to be is in the cache.
        pub dimensions: DimensionMemory = DimensionMemory::Auto,
        /// Finished plans, and texts of queries, that are kept for queries that come again, 0 for none. A
        /// plan is used again for the same query with the same settings over tables and files that have not
        /// changed, if nothing that was measured since speaks for another one.
        pub plan_cache: Count<0, { 1 << 20 }> = Count(256),
        /// Rows a table needs before auto places a query over it on the GPU.
        pub min_rows: Count<0, { 1 << 40 }> = Count(100_000),
        /// Rows of a table from which on a join's build side made of it stays on the device. Those of smaller
        /// tables are collected, and packed into shared memory where they fit.
        pub build_rows: Count<0, { 1 << 40 }> = Count(1 << 16),
        /// In which order inner joins run: auto, the one with the fewest rows between them where statistics
        /// of the tables tell that it is a good deal cheaper; written, as the query names the tables.
        pub join_order: JoinOrder = JoinOrder::Auto,
        /// Whether groups that a join looks up by key are made of those rows alone whose key a filtered table
        /// of the same join has: most of a correlated subquery's groups belong to no row.
        pub reduce_groups: Switch = Switch(true),
        /// Partitions that rows are brought into before they are stored in a build side on the device, or
        /// look one up: a power of two, 1 for none. Then a partition's part of the build side fits the cache.
        /// auto does so where build sides are larger than the cache, rows are many and not in the order of
        /// the key, and there is memory for them.
        pub join_partitions: JoinPartitions = JoinPartitions(0),
        /// Threads of a pipeline's blocks: a power of two, or auto: 256, and more where the groups of a block
        /// fill shared memory.
        pub block_threads: BlockThreads = BlockThreads(0),
        /// Most consecutive rows a thread holds; rounded down to a power of two.
        pub rows_per_thread: Count<1, 16> = Count(16),
        /// Slots a group hash table starts with at least, unless it can be fully sized from the start (which
        /// fewer slots than the default forbid). Rows of groups that find no slot wait in pages of the device
        /// heap until it has grown.
        pub hash_slots: Count<2, { 1 << 32 }> = Count(1 << 18),
        /// Whether rows without an end are filtered, computed and grouped by windows of time on the device,
        /// by an operator that lives as long as the stream. With galatea.device = 'auto' that is done where
        /// it takes the host less time than DataFusion's operators do.
        pub streams: Switch = Switch(true),
        /// Blocks of the kernel of a stream. It occupies them from its start to its end; the rest of the
        /// device is left to other queries.
        pub stream_blocks: Count<1, 1024> = Count(8),
        /// Bytes of a frame, in which rows of a stream go to the device and results come back: whole pages of
        /// 4096, else rounded up. Small frames return results sooner, large ones carry more rows a second.
        pub stream_frame: Count<4096, { 16 << 20 }> = Count(64 << 10),
        /// Groups that a window of a stream may have: each of the windows that are open at once has a table
        /// for as many on the device. A window with more ends the query with an error.
        pub stream_groups: Count<1, { 1 << 26 }> = Count(1 << 14),
        /// Milliseconds that a row of a stream may be late, beside the greatest time before it: a window is
        /// returned when no such row can come any more. Rows that are later are left out and counted.
        pub stream_lateness: Count<0, { 1 << 40 }> = Count(0),
        /// Makes all hashes of group keys equal: for tests of the hash table, slow by design.
        pub collide_hashes: Switch = Switch(false),
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

impl GalateaConfig {
    /// The settings in force in `options`; the defaults where the session is not a Galatea one.
    pub fn of(options: &datafusion::config::ConfigOptions) -> Self {
        options.extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

/// The names there are, the likeliest first when one is close to `key`.
fn unknown_hint(key: &str) -> String {
    let names = || GalateaConfig::NAMES.iter().chain(EngineSettings::NAMES);
    let all = names()
        .map(|name| format!("{PREFIX}.{name}"))
        .collect::<Vec<_>>()
        .join(", ");
    let close = names()
        .map(|name| (strsim::levenshtein(key, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4);
    match close {
        Some((_, name)) => format!("did you mean {PREFIX}.{name}? settings are {all}"),
        None => format!("settings are {all}"),
    }
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
        options.set("galatea.build_rows", "65_536").unwrap();
        let config = GalateaConfig::of(&options);
        assert_eq!(config.device, DeviceChoice::Cpu);
        assert_eq!(config.build_rows, Count(65_536));
        config.engine.set("galatea.gpu_memory_limit", "1.5 GiB").unwrap();
        config.engine.set("chunk_rows", "7").unwrap();
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
        let limit = shown.iter().find(|entry| entry.key == "galatea.gpu_memory_limit");
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
        options.set("galatea.cache_files", "off").unwrap();
        assert_ne!(GalateaConfig::of(&options), GalateaConfig::default());
        for name in GalateaConfig::NAMES {
            options.set(&format!("galatea.{name}"), "default").unwrap();
        }
        assert_eq!(GalateaConfig::of(&options), GalateaConfig::default());
    }

    /// One line per invalid configuration: name, value, and what the refusal must say.
    const INVALID: &[(&str, &str, &str)] = &[
        ("galatea.device", "gpuu", "accepts auto, cpu, gpu or emulated"),
        ("galatea.device", "", "accepts auto"),
        ("galatea.fallback", "maybe", "accepts allow or error"),
        ("galatea.cache_files", "2", "accepts true or false"),
        ("galatea.join_partitions", "3", "accepts auto, 1, 2, 4"),
        ("galatea.join_partitions", "512", "accepts auto, 1, 2, 4"),
        ("galatea.group_copies", "3", "accepts 0, 1, 2, 4, 8, 16 or 32"),
        ("galatea.group_copies", "64", "accepts 0, 1, 2, 4, 8, 16 or 32"),
        ("galatea.group_copies", "-1", "accepts 0, 1, 2, 4, 8, 16 or 32"),
        ("galatea.group_copies", "auto", "accepts 0, 1, 2, 4, 8, 16 or 32"),
        (
            "galatea.group_by",
            "sort",
            "accepts auto, registers, threads, copies, slots, dense or hash",
        ),
        ("galatea.devise", "cpu", "did you mean galatea.device?"),
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

    /// The same of settings of an engine, and of those of a session there.
    const INVALID_OF_ENGINE: &[(&str, &str, &str)] = &[
        ("galatea.gpu_memory_limit", "0", "accepts auto, a size"),
        ("galatea.gpu_memory_limit", "-1 GiB", "accepts auto, a size"),
        ("galatea.gpu_memory_limit", "8 XiB", "accepts auto, a size"),
        ("galatea.gpu_memory_limit", "101%", "accepts auto, a size"),
        ("galatea.gpu_memory_limit", "99999999 TiB", "accepts auto, a size"),
        ("galatea.store_memory_limit", "much", "accepts auto, a size"),
        ("galatea.chunk_rows", "0", "a whole number from 1 to"),
        ("galatea.chunk_rows", "2.5", "a whole number from 1 to"),
        ("galatea.admission", "fix-0", "accepts auto, working"),
        ("galatea.device", "cpu", "hint: SET galatea.device = 'cpu'"),
        ("galatea.devise", "cpu", "did you mean galatea.device?"),
    ];

    #[test]
    fn invalid_settings_of_an_engine_are_refused_and_change_nothing() {
        for (name, value, expected) in INVALID_OF_ENGINE {
            let shared = SharedSettings::default();
            let refusal = shared.set(name, value).expect_err(name).to_string();
            assert!(refusal.contains(expected), "{name} = '{value}': {refusal}");
            assert_eq!(shared.get(), EngineSettings::default(), "{name} = '{value}'");
        }
    }

    #[test]
    fn a_session_cannot_set_what_it_shares() {
        for name in EngineSettings::NAMES {
            let refusal = options().set(&format!("galatea.{name}"), "default");
            let refusal = refusal.expect_err(name).to_string();
            let hint = format!("hint: ALTER SYSTEM SET galatea.{name} = 'default'");
            assert!(refusal.contains(&hint), "{refusal}");
        }
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
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
    fn units_of_sizes_are_binary_however_they_are_spelled() {
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
    fn limits_resolve_against_what_there_is() {
        assert_eq!(MemoryLimit::Auto.resolve(1000, 77), 77);
        assert_eq!(MemoryLimit::Percent(50).resolve(1000, 77), 500);
        assert_eq!(MemoryLimit::Bytes(5).resolve(1000, 77), 5);
    }
}
