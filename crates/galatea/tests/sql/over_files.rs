//! Repeats the queries of a [`Pair`](crate::compare::Pair) over files with the rows of its tables.
//!
//! Tables in memory hide faults of file scans: a file scan returns its rows once, has row groups and
//! partitions, and its files change. So a share of the queries, selected by a hash of the SQL string, runs
//! three more times on a separate device session: the first run, a run with the cached plan and, for a share
//! of them, one after other rows have replaced those of the files. The first two must return the answer of
//! the tables in memory on the CPU, the third that of a CPU session with the other rows in memory.
//!
//! A pair uses three registrations of [`WAYS`]: two by a hash of the test's name and settings, and one file
//! with one partition, for answers that depend on the order of rows. `GALATEA_TEST_FILES=all` runs every
//! query over all registrations, `GALATEA_TEST_FILES=none` runs none. A table with values that a format does
//! not preserve bit by bit is stored as Parquet. So is a table with NULLs and empty strings in place of CSV.
//! If no file preserves it, it stays in memory. A query of tables that the test registers itself is skipped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use galatea_device::environment;
use tempfile::TempDir;

use crate::compare::{Comparison, collect, same};
use crate::files_of_tables::{Format, Location, PARTITIONS, TableFiles, WAYS, Way};

/// One in `SHARE` queries runs over files. An eighth adds about a quarter to the time of all tests.
const SHARE: u64 = 8;

/// Tables with more rows stay in memory, because their tests are slow already.
const MOST_ROWS: usize = 20_000;

/// Parts of queries that make answers depend on the order of rows.
const ORDERED: [&str; 12] = [
    "limit",
    "offset",
    "first_value",
    "last_value",
    "array_agg",
    "string_agg",
    "over (",
    "over(",
    "nth_value",
    "fetch ",
    "distinct on",
    "rank",
];

/// A table of the pair.
struct Source {
    rows: RecordBatch,
    /// Its registration in the CPU's session when a query first read it. Another one is another table.
    provider: Option<Arc<dyn TableProvider>>,
}

/// A registration, and the partitions of its sessions.
type Registration = (Way, usize);

/// The runs of a pair's queries over files.
pub(crate) struct OverFiles {
    settings: Vec<(String, String)>,
    /// The hash of the test's name and the settings.
    hash: u64,
    sources: Mutex<HashMap<String, Source>>,
    sessions: tokio::sync::Mutex<HashMap<Registration, FileSession>>,
}

impl OverFiles {
    /// Creates the runs for a pair with these settings.
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        // Parts of plans over files may run on the CPU, for example a scan of empty files.
        let settings: Vec<_> = (settings.iter())
            .filter(|(name, _)| *name != "galatea.fallback")
            .map(|(name, value)| ((*name).to_string(), (*value).to_string()))
            .collect();
        Self {
            hash: hash(&(std::thread::current().name(), &settings)),
            settings,
            sources: Mutex::default(),
            sessions: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a table of the pair.
    pub(crate) fn table(&self, name: &str, batches: &[RecordBatch]) {
        let rows = concat_batches(&batches[0].schema(), batches).expect("batches of one schema");
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.insert(name.to_string(), Source { rows, provider: None });
    }

    /// Runs the query over files. `expected` is the answer of the tables in memory, in the session `cpu`.
    pub(crate) async fn check(
        &self,
        (cpu, sql): (&SessionContext, &str),
        expected: &[RecordBatch],
        comparison: Comparison,
        ordered: bool,
    ) -> std::result::Result<(), String> {
        let lower = sql.trim_start().to_lowercase();
        let all = environment::test_files() == environment::TestFiles::All;
        let draw = hash(&sql);
        let runs = all || draw.is_multiple_of(SHARE);
        let is_query = lower.starts_with("select") || lower.starts_with("with");
        // Hashes of strings depend on their type, and files contain string views.
        if !runs || !is_query || lower.contains("approx_distinct") || lower.contains("'/") {
            return Ok(());
        }
        let ordered = ordered || ORDERED.iter().any(|word| lower.contains(word));
        for registration in self.registrations(draw / SHARE, ordered, all) {
            let mut sessions = self.sessions.lock().await;
            let session = match sessions.entry(registration) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let session = FileSession::new(&self.settings, registration);
                    place.insert(session.map_err(|e| e.to_string())?)
                }
            };
            let changes = all || (draw / SHARE / 2).is_multiple_of(3);
            let tables = self.present(cpu).await;
            session.register(&tables).await.map_err(|e| e.to_string())?;
            let outcome = session.runs(sql, expected, comparison, changes).await;
            let ((format, location), partitions) = registration;
            outcome.map_err(|difference| {
                format!("over files, {format:?}, {location:?}, {partitions} partitions, {difference}")
            })?;
        }
        Ok(())
    }

    fn registrations(&self, draw: u64, ordered: bool, all: bool) -> Vec<Registration> {
        if ordered {
            let files: Vec<Way> = (WAYS.into_iter())
                .filter(|(_, location)| matches!(location, Location::File | Location::Quoted))
                .collect();
            return match all {
                true => files.into_iter().map(|way| (way, 1)).collect(),
                false => vec![(*nth(&files, self.hash), 1)],
            };
        }
        let registration = |number: u64| (*nth(&WAYS, number), *nth(&PARTITIONS, number));
        match all {
            true => (0..WAYS.len() as u64)
                .map(|way| registration(self.hash % 1024 + way))
                .collect(),
            false => vec![registration(self.hash % 1024 + draw % 2)],
        }
    }

    /// The tables that are still registered in the session as the pair registered them.
    async fn present(&self, cpu: &SessionContext) -> HashMap<String, (RecordBatch, Arc<dyn TableProvider>)> {
        let names: Vec<String> = {
            let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
            sources.keys().cloned().collect()
        };
        let mut present = HashMap::new();
        for name in names {
            let Ok(now) = cpu.table_provider(name.as_str()).await else {
                continue;
            };
            let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
            let source = sources.get_mut(&name).expect("tables are never removed");
            let provider = source.provider.get_or_insert_with(|| Arc::clone(&now));
            if Arc::ptr_eq(&now, provider) {
                present.insert(name, (source.rows.clone(), now));
            }
        }
        present
    }
}

/// A device session over files, and a CPU session over other rows of the same tables.
struct FileSession {
    way: Way,
    device: SessionContext,
    other: SessionContext,
    folder: TempDir,
    tables: HashMap<String, Registered>,
}

struct Registered {
    provider: Arc<dyn TableProvider>,
    /// `None`: the table is in memory.
    file: Option<TableFiles>,
    rows: RecordBatch,
    other: RecordBatch,
}

impl FileSession {
    fn new(settings: &[(String, String)], (way, partitions): Registration) -> Result<Self> {
        let mut device = galatea::session()
            .with_file_queries(true)
            .with_setting("galatea.overflow", "wrap")
            .with_setting("datafusion.execution.target_partitions", partitions.to_string());
        device = match environment::test_on_gpu() {
            true => device.with_setting("galatea.device", "gpu"),
            false => device
                .with_emulated_device(galatea::EmulatorOptions::default())
                .with_setting("galatea.device", "emulated"),
        };
        for (name, value) in settings {
            device = device.with_setting(name, value);
        }
        let other = galatea::session()
            .with_setting("galatea.device", "cpu")
            .with_setting("galatea.join.order", "written")
            .with_setting("galatea.overflow", "wrap");
        Ok(Self {
            way,
            device: device.build()?,
            other: other.build()?,
            folder: tempfile::tempdir()?,
            tables: HashMap::new(),
        })
    }

    /// Registers these tables in the session: as files, if they are new or changed.
    async fn register(
        &mut self,
        tables: &HashMap<String, (RecordBatch, Arc<dyn TableProvider>)>,
    ) -> Result<()> {
        let gone = |(name, registered): (&String, &Registered)| {
            let still = tables
                .get(name)
                .is_some_and(|(_, now)| Arc::ptr_eq(now, &registered.provider));
            (!still).then(|| name.clone())
        };
        let gone: Vec<String> = self.tables.iter().filter_map(gone).collect();
        for name in gone {
            self.tables.remove(&name);
            self.device.deregister_table(name.as_str())?;
            self.other.deregister_table(name.as_str())?;
        }
        for (name, (rows, provider)) in tables {
            if self.tables.contains_key(name) {
                continue;
            }
            let file = self.written(name, rows).await?;
            let in_memory = |rows: &RecordBatch| MemTable::try_new(rows.schema(), vec![vec![rows.clone()]]);
            match &file {
                Some(file) => file.register(&self.device).await?,
                None => drop(
                    self.device
                        .register_table(name.as_str(), Arc::new(in_memory(rows)?))?,
                ),
            }
            // One more row of a key that may have been unique, and only half of the others.
            let half = rows.slice(0, rows.num_rows().div_ceil(2));
            let first = rows.slice(0, rows.num_rows().min(1));
            let other = match file {
                Some(_) => concat_batches(&rows.schema(), [&half, &first])?,
                None => rows.clone(),
            };
            self.other
                .register_table(name.as_str(), Arc::new(in_memory(&other)?))?;
            let registered = Registered {
                provider: Arc::clone(provider),
                file,
                rows: rows.clone(),
                other,
            };
            self.tables.insert(name.clone(), registered);
        }
        Ok(())
    }

    /// Writes the table's files, in the session's format or another one that preserves its values.
    async fn written(&self, name: &str, rows: &RecordBatch) -> Result<Option<TableFiles>> {
        if rows.num_rows() > MOST_ROWS
            || name.contains(|c: char| !(c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()))
        {
            return Ok(None);
        }
        let (format, location) = self.way;
        for format in [format, Format::Parquet] {
            let folder = self.folder.path().join(format!("{format:?}"));
            let Some(file) = TableFiles::new(&folder, name, (format, location), rows.schema()) else {
                continue;
            };
            if keeps(&file, rows).await.is_ok() {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    async fn runs(
        &self,
        sql: &str,
        expected: &[RecordBatch],
        comparison: Comparison,
        changes: bool,
    ) -> std::result::Result<(), String> {
        for run in ["first run", "kept plan"] {
            let actual = match collect(&self.device, sql).await {
                Ok(actual) => actual,
                // Views, functions and tables that the test created for its own sessions.
                Err(error) if error.contains("not found") || error.contains("Invalid function") => {
                    return Ok(());
                }
                Err(error) => return Err(format!("{run}: {error}")),
            };
            let compared = comparison(expected, &with_strings_as(expected, actual));
            compared.map_err(|difference| format!("{run}: {difference}"))?;
        }
        if !changes || self.tables.values().all(|table| table.file.is_none()) {
            return Ok(());
        }
        self.replace(|table| &table.other).map_err(|e| e.to_string())?;
        let (expected, actual) = (collect(&self.other, sql).await, collect(&self.device, sql).await);
        self.replace(|table| &table.rows).map_err(|e| e.to_string())?;
        match (expected, actual) {
            (Ok(expected), Ok(actual)) => comparison(&expected, &with_strings_as(&expected, actual))
                .map_err(|difference| format!("changed files: {difference}")),
            (Err(_), Err(_)) => Ok(()),
            (Ok(_), Err(error)) => Err(format!("changed files: only the device fails: {error}")),
            (Err(error), Ok(_)) => Err(format!("changed files: only the CPU fails: {error}")),
        }
    }

    fn replace(&self, rows: impl Fn(&Registered) -> &RecordBatch) -> Result<()> {
        for table in self.tables.values() {
            if let Some(file) = &table.file {
                file.write(rows(table))?;
            }
        }
        Ok(())
    }
}

/// Writes the rows. Returns the first value that the files do not preserve, if any.
async fn keeps(file: &TableFiles, rows: &RecordBatch) -> std::result::Result<(), String> {
    file.write(rows).map_err(|error| error.to_string())?;
    let expected = std::slice::from_ref(rows);
    let read = file.read().await.map_err(|error| error.to_string())?;
    let read = with_strings_as(expected, read);
    same(expected, &read)?;
    match float_bits(expected) == float_bits(&read) {
        true => Ok(()),
        false => Err("floats of other bits".to_string()),
    }
}

/// The bits of all floats in a canonical order: NaNs with different bits are different join keys.
fn float_bits(batches: &[RecordBatch]) -> Vec<u64> {
    let mut bits = Vec::new();
    for column in batches.iter().flat_map(RecordBatch::columns) {
        if let Some(floats) = column.as_primitive_opt::<Float64Type>() {
            bits.extend(floats.iter().flatten().map(f64::to_bits));
        }
        if let Some(floats) = column.as_primitive_opt::<Float32Type>() {
            bits.extend(floats.iter().flatten().map(|float| u64::from(float.to_bits())));
        }
    }
    bits.sort_unstable();
    bits
}

/// The batches, with string columns in the types of the expected ones: strings of files are views.
fn with_strings_as(expected: &[RecordBatch], batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let Some(first) = expected.first() else {
        return batches;
    };
    let kind = |of: &DataType| {
        of.to_string()
            .replace("Utf8View", "Utf8")
            .replace("LargeUtf8", "Utf8")
    };
    let convert = |batch: RecordBatch| {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns()).enumerate();
        let columns = columns.map(|(i, (field, column))| {
            let wanted = first
                .schema()
                .fields()
                .get(i)
                .map(|field| field.data_type().clone());
            let column = match wanted {
                Some(wanted)
                    if wanted != *column.data_type() && kind(&wanted) == kind(column.data_type()) =>
                {
                    cast(column, &wanted).expect("strings of another type")
                }
                _ => Arc::clone(column),
            };
            (field.name().clone(), column, true)
        });
        match batch.num_columns() {
            0 => batch.clone(),
            _ => RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length"),
        }
    };
    batches.into_iter().map(convert).collect()
}

fn nth<T>(items: &[T], number: u64) -> &T {
    &items[usize::try_from(number % items.len() as u64).expect("below the length")]
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Shape, batch};
    use std::collections::HashSet;

    const TABLE: &str = "t";

    fn registrations() -> impl Iterator<Item = Registration> {
        WAYS.into_iter()
            .flat_map(|way| PARTITIONS.into_iter().map(move |partitions| (way, partitions)))
    }

    fn rows() -> RecordBatch {
        batch(40, 1, Shape::Ordinary)
    }

    async fn session(registration: Registration) -> FileSession {
        let settings = [("galatea.tuning.min_rows".to_string(), "0".to_string())];
        let mut session = FileSession::new(&settings, registration).expect("a session");
        let memory = MemTable::try_new(rows().schema(), vec![vec![rows()]]).expect("a table");
        let tables = HashMap::from([(
            TABLE.to_string(),
            (rows(), Arc::new(memory) as Arc<dyn TableProvider>),
        )]);
        session.register(&tables).await.expect("registers");
        session
    }

    #[test]
    fn all_registrations_are_used() {
        let pair = |hash| OverFiles {
            hash,
            ..OverFiles::new(&[])
        };
        for all in [false, true] {
            let taken = (0..24).flat_map(|hash| pair(hash).registrations(0, false, all));
            assert_eq!(taken.collect::<HashSet<_>>(), registrations().collect());
        }
        let ordered = (0..4).flat_map(|hash| pair(hash).registrations(hash, true, false));
        assert!(
            ordered.collect::<HashSet<_>>().len() == 4,
            "three formats and a quoted path"
        );
    }

    /// CSV cannot represent empty strings, so its table has none.
    #[tokio::test]
    async fn every_file_format_round_trips_all_types() {
        let without_strings: Vec<usize> = (0..15).chain([18, 19]).collect();
        for way in WAYS {
            let rows = match way.0 {
                Format::Csv => rows().project(&without_strings).expect("columns"),
                Format::Parquet | Format::Json => rows(),
            };
            let folder = tempfile::tempdir().expect("a folder");
            let file = TableFiles::new(folder.path(), TABLE, way, rows.schema()).expect("known types");
            assert_eq!(keeps(&file, &rows).await, Ok(()), "{way:?}");
        }
    }

    #[tokio::test]
    async fn wrong_results_over_files_are_detected() {
        let sql = "SELECT low, count(*), sum(i32) FROM t GROUP BY low";
        for registration in WAYS.into_iter().zip(PARTITIONS.into_iter().cycle()) {
            let session = session(registration).await;
            let memory = SessionContext::new();
            memory.register_batch(TABLE, rows()).expect("a new table");
            let right = collect(&memory, sql).await.expect("rows");
            let outcome = session.runs(sql, &right, same, true).await;
            assert_eq!(outcome, Ok(()), "{registration:?}");
            let wrong: Vec<_> = right
                .iter()
                .map(|batch| batch.slice(0, batch.num_rows() - 1))
                .collect();
            let outcome = session.runs(sql, &wrong, same, true).await;
            assert!(
                outcome.is_err_and(|it| it.starts_with("first run")),
                "{registration:?}"
            );
            // Files with the previous rows in place of the new ones.
            session.other.deregister_table(TABLE).expect("a table");
            session.other.register_batch(TABLE, rows()).expect("a new table");
            let outcome = session.runs(sql, &right, same, true).await;
            assert!(
                outcome.is_err_and(|it| it.starts_with("changed files")),
                "{registration:?}"
            );
        }
    }
}
