//! CSV files as tables.
//!
//! An option of the table sets whether first rows are headers. Without it, the values decide, as in DuckDB: a
//! first row with a value that does not fit the type of its column (`id` above numbers) is a header.
//! Otherwise, a first row with a number, a date or a truth value is not. If all values are strings, the first
//! row is a header.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::CsvOptions;
use datafusion::common::{GetExt, Statistics, exec_err, plan_err};
use datafusion::datasource::file_format::csv::{CsvFormat, CsvFormatFactory};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::TableSchema;
use futures::stream::{self, StreamExt, TryStreamExt};
use galatea_store::{CsvFiles, CsvHeader, csv_reader, file_head, header_names, numbered_names};
use object_store::{ObjectMeta, ObjectStore};
use parking_lot::Mutex;

use super::folders;
use super::look::{AT_ONCE, Found, bytes_of_each, known, name_of, rows_of_each};
use super::merge::{Seen, merged, without_nulls};
use super::values::Kinds;

/// Creates [`CsvTables`] with the options of a statement.
#[derive(Debug)]
pub(crate) struct CsvTablesFactory;

impl FileFormatFactory for CsvTablesFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let format = CsvFormatFactory::new().create(state, options)?;
        match format.downcast_ref::<CsvFormat>() {
            Some(csv) => Ok(Arc::new(CsvTables::new(csv.options().clone()))),
            None => Ok(format),
        }
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CsvTables::new(CsvOptions::default()))
    }
}

impl GetExt for CsvTablesFactory {
    fn get_ext(&self) -> String {
        CsvFormatFactory::new().get_ext()
    }
}

/// The format of CSV files.
#[derive(Debug)]
pub(crate) struct CsvTables {
    options: CsvOptions,
    /// Whether first rows are headers, after a schema was inferred from files.
    found: Mutex<Option<bool>>,
    /// Whether the columns have other names than in the files.
    is_renamed: bool,
}

impl CsvTables {
    pub(crate) fn new(options: CsvOptions) -> Self {
        Self {
            options,
            found: Mutex::new(None),
            is_renamed: false,
        }
    }

    /// The format of the same files with other names of the columns, after their schema was inferred.
    pub(crate) fn renamed(&self) -> Self {
        Self {
            options: self.options.clone(),
            found: Mutex::new(*self.found.lock()),
            is_renamed: true,
        }
    }

    /// Whether both formats read the same files in the same way.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (&self.options, self.is_renamed) == (&other.options, other.is_renamed)
            && *self.found.lock() == *other.found.lock()
    }

    /// DataFusion's format with these options.
    fn plain(&self) -> CsvFormat {
        CsvFormat::default().with_options(self.options.clone())
    }

    /// Whether first rows are headers, if an option sets it.
    fn told(&self, state: &dyn Session) -> Option<bool> {
        let by_default = state.config_options().catalog.has_header;
        self.options.has_header.or((!by_default).then_some(false))
    }

    /// The header of the source, given the option.
    fn header(&self, told: Option<bool>) -> CsvHeader {
        match (*self.found.lock(), told) {
            (Some(found), _) if self.is_renamed => CsvHeader::Renamed(found),
            (Some(found), _) => CsvHeader::Found(found),
            (None, Some(told)) => CsvHeader::Declared(told),
            (None, None) => CsvHeader::Open,
        }
    }

    /// The columns of a file, with and without a header.
    async fn look(&self, store: &Arc<dyn ObjectStore>, object: &ObjectMeta, rows: usize) -> Result<Looked> {
        let bytes = bytes_of_each(self.options.schema_infer_max_rec);
        let compression = FileCompressionType::from(self.options.compression);
        let (head, whole) = file_head(store, object, compression, bytes).await?;
        Ok(look(&head, whole, rows, &self.options))
    }
}

/// The first row of a file, and the kinds of the values in its first rows.
#[derive(Debug, Default)]
struct Looked {
    first: Vec<String>,
    /// The kinds of the first row and of the rows below it, per column.
    kinds: Vec<(Kinds, Kinds)>,
}

impl Looked {
    /// Whether the first row is a header, if its values decide that.
    fn header(&self) -> Option<bool> {
        let typed = |(first, below): &(Kinds, Kinds)| {
            let fits = below.and(*first).is_typed();
            below.is_typed() && !fits
        };
        if self.kinds.iter().any(typed) {
            return Some(true);
        }
        self.kinds
            .iter()
            .any(|(first, _)| first.is_typed())
            .then_some(false)
    }

    fn schema(&self, has_header: bool, typed: bool) -> Schema {
        let names = match has_header {
            true => header_names(&self.first),
            false => numbered_names(self.first.len()),
        };
        let fields = names.into_iter().zip(&self.kinds).map(|(name, (first, below))| {
            let kinds = if has_header { *below } else { below.and(*first) };
            let data_type = if typed { kinds.data_type() } else { DataType::Utf8 };
            Field::new(name, data_type, true)
        });
        Schema::new(fields.collect::<Vec<_>>())
    }
}

fn look(head: &[u8], whole: bool, rows: usize, options: &CsvOptions) -> Looked {
    let null = options
        .null_regex
        .as_deref()
        .and_then(|regex| regex::Regex::new(regex).ok());
    let is_null = |value: &str| {
        null.as_ref()
            .map_or(value.is_empty(), |null| null.is_match(value))
    };
    let kind = |value: &[u8]| match std::str::from_utf8(value) {
        Ok(value) if is_null(value) => Kinds::default(),
        Ok(value) => Kinds::of(value),
        Err(_) => Kinds::of("?"),
    };
    let mut looked = Looked::default();
    let mut reader = csv_reader(head, options);
    let mut row = 0;
    let mut record = Default::default();
    while row <= rows && reader.read_byte_record(&mut record).unwrap_or(false) {
        let ended = usize::try_from(reader.position().byte()).is_ok_and(|at| at < head.len());
        if !ended && !whole {
            break;
        }
        if row == 0 {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            looked.first = record.iter().map(text).collect();
            looked.kinds = record
                .iter()
                .map(|value| (kind(value), Kinds::default()))
                .collect();
        } else {
            for ((_, below), value) in looked.kinds.iter_mut().zip(record.iter()) {
                *below = below.and(kind(value));
            }
        }
        row += 1;
    }
    looked
}

/// Whether first rows are headers: the result of the first file that decides it. No other file may
/// contradict.
fn agreed(files: &[(String, Option<bool>)]) -> Result<bool> {
    let certain = |wanted: bool| files.iter().find(|(_, header)| *header == Some(wanted));
    match (certain(true), certain(false)) {
        (Some((with, _)), Some((without, _))) => plan_err!(
            "the first line of '{with}' is a header, that of '{without}' is not\nhint: query the files \
             separately, or say for all of them which it is: CREATE EXTERNAL TABLE t STORED AS CSV LOCATION \
             '...' OPTIONS ('format.has_header' 'false')"
        ),
        (None, Some(_)) => Ok(false),
        _ => Ok(true),
    }
}

#[async_trait]
impl FileFormat for CsvTables {
    fn get_ext(&self) -> String {
        self.plain().get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.plain().get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.plain().compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let told = self.told(state);
        let rows = rows_of_each(objects.len(), self.options.schema_infer_max_rec);
        let typed = self.options.schema_infer_max_rec != Some(0);
        let store_name = store.to_string();
        let look = |object: &ObjectMeta, has_header: Option<bool>| {
            let object = object.clone();
            let name = name_of(&object, &store_name);
            async move {
                let how = format!("csv {rows} {has_header:?} {:?}", self.options);
                let look = async {
                    let looked = self.look(store, &object, rows).await?;
                    let header = if looked.first.is_empty() {
                        None
                    } else {
                        looked.header()
                    };
                    let schema = Arc::new(looked.schema(has_header.or(header).unwrap_or(true), typed));
                    Ok(Found { schema, header })
                };
                let found = known(&object, how, look).await;
                found
                    .map(|found| (name.clone(), found))
                    .map_err(|cause| cause.context(format!("cannot read '{name}'")))
            }
        };
        let all = async |has_header: Option<bool>| {
            let looks: Vec<_> = objects.iter().map(|object| look(object, has_header)).collect();
            stream::iter(looks)
                .buffered(AT_ONCE)
                .try_collect::<Vec<_>>()
                .await
        };
        let mut files = all(told).await?;
        let has_header = match told {
            Some(told) => told,
            None => {
                let headers: Vec<_> = files
                    .iter()
                    .map(|(name, found)| (name.clone(), found.header))
                    .collect();
                let agreed = agreed(&headers)?;
                if headers.iter().any(|(_, header)| header.unwrap_or(true) != agreed) {
                    files = all(Some(agreed)).await?;
                }
                agreed
            }
        };
        let known = self.found.lock().replace(has_header);
        if known.is_some_and(|known| known != has_header) {
            return exec_err!(
                "the first lines of the files of one location are headers, those of another are not"
            );
        }
        let seen = files.into_iter().map(|(file, found)| Seen {
            file,
            schema: found.schema.as_ref().clone(),
        });
        // Files without rows have no columns.
        let seen: Vec<Seen> = seen.filter(|seen| !seen.schema.fields().is_empty()).collect();
        Ok(Arc::new(without_nulls(&merged(seen)?)))
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(files) = conf.file_source().downcast_ref::<CsvFiles>() else {
            return self.plain().create_physical_plan(state, conf).await;
        };
        let mut options = self.options.clone();
        if state.config_options().catalog.newlines_in_values {
            options.newlines_in_values.get_or_insert(true);
        }
        let source = files.with_options(options, self.header(self.told(state)));
        let config = FileScanConfigBuilder::from(conf)
            .with_file_compression_type(self.options.compression.into())
            .with_source(Arc::new(source));
        Ok(DataSourceExec::from_data_source(config.build()))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut options = self.options.clone();
        // Rows appended to a table without headers are written without one.
        options.has_header = options.has_header.or(*self.found.lock());
        let plain = CsvFormat::default().with_options(options);
        let input = folders::named(input, &conf)?;
        plain.create_writer_physical_plan(input, state, conf, order).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        let header = self.header(self.options.has_header);
        Arc::new(CsvFiles::new(table_schema, self.options.clone(), header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Option<bool> {
        look(text.as_bytes(), true, 100, &CsvOptions::default()).header()
    }

    #[test]
    fn csv_headers_are_detected() {
        assert_eq!(header("id,name\n1,x\n"), Some(true));
        assert_eq!(header("1,x\n2,y\n"), Some(false));
        assert_eq!(header("1,x\n"), Some(false));
        assert_eq!(header("a,b\nx,y\n"), None);
        assert_eq!(header("a,b\n"), None);
        assert_eq!(header(""), None);
        assert_eq!(header(",a,b\n0,1,2\n"), Some(true));
        assert_eq!(header("2020,2021\n1,2\n"), Some(false));
        assert_eq!(header("id,1\n5,6\n"), Some(true));
        assert_eq!(header("2021-01-01,x\n2021-01-02,y\n"), Some(false));
        assert_eq!(header("day,x\n2021-01-02,y\n"), Some(true));
    }

    #[test]
    fn truncated_last_row_is_ignored_in_type_inference() {
        let looked = look(b"a,b\n1,2\n3,x", false, 100, &CsvOptions::default());
        assert_eq!(looked.schema(true, true).field(1).data_type(), &DataType::Int64);
        let looked = look(b"a,b\n1,2\n3,x", true, 100, &CsvOptions::default());
        assert_eq!(looked.schema(true, true).field(1).data_type(), &DataType::Utf8);
    }
}
