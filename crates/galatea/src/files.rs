//! Queries that name files: `SELECT count(*) FROM 'data/*.parquet'`.
//!
//! A table name that is in no schema and looks like a path is resolved against the file system each time a
//! query is planned. So the next query sees a rewritten file, or another file that matches a pattern. This
//! module extends DataFusion's own file catalog, which caches listings, matches patterns only in the last
//! directory, and reports a missing file as an unknown table.
//!
//! | name | meaning |
//! | --- | --- |
//! | `'file.parquet'`, `'file.csv.gz'` | one file; the format by its extension |
//! | `'dir/*.parquet'`, `'dir/year=*/part-?.csv'`, `'dir/**/*.json'` | all files that match, in the order of their names |
//! | `'dir/'`, and `'dir'` in [`sql`](crate::sql()) | all files below, of one format; `key=value` directories become columns |
//! | `'-'`, `'/dev/stdin'` | standard input, if the session permits that ([`crate::standard_input`]) |
//! | `'s3://bucket/file.parquet'` | as DataFusion reads it |
//!
//! Formats: parquet, csv, tsv, json / ndjson / jsonl (objects, or one array of them), arrow, avro; csv, tsv
//! and json also compressed (gz, bz2, xz, zst). A table has the columns of all its files
//! ([`crate::formats`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::config::{CsvOptions, JsonOptions};
use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::avro::AvroFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Ident, TableAlias, TableFactor};
use parking_lot::RwLock;

use crate::directories::a_data_file;
use crate::file_paths::{
    EXTENSIONS, expand_home, has_pattern, location, matching, missing, reads_like_a_file, refuse_empty,
    schema_of_all, table_name, unreadable,
};
use crate::file_tables::FileTables;
use crate::formats::{ArrowTables, CsvTables, JsonTables, ParquetTables};
use crate::read_files::{self, FilesRead};
use crate::remote_files;
use crate::sql::Read;
use crate::standard_input;

/// Resolves table names that are paths.
#[derive(Debug)]
pub struct FileQueries {
    session: Weak<RwLock<SessionState>>,
    remote: DynamicListTableFactory,
    tables: FileTables,
}

impl FileQueries {
    /// Permits queries of `ctx` to name files.
    pub fn enable(ctx: &SessionContext) {
        let remote = DynamicListTableFactory::default();
        remote.session_store().with_state(ctx.state_weak_ref());
        let files = Arc::new(Self {
            session: ctx.state_weak_ref(),
            remote,
            tables: FileTables::default(),
        });
        let catalogs = Arc::clone(ctx.state().catalog_list());
        ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, files)));
        // Without the rule, the path would qualify the columns.
        let _ = ctx.register_relation_planner(Arc::new(FileNames));
    }

    fn state(&self) -> Result<SessionState> {
        let session = self
            .session
            .upgrade()
            .ok_or_else(|| plan_datafusion_err!("the session is gone"))?;
        Ok(session.read().clone())
    }

    /// The table of files of one format.
    async fn files(
        &self,
        name: &str,
        files: &[PathBuf],
        state: &SessionState,
    ) -> Result<Arc<dyn TableProvider>> {
        let (format, extension) = format_of(files, state)?;
        refuse_empty(files, &extension)?;
        let urls = files
            .iter()
            .map(|file| location(file))
            .collect::<Result<Vec<_>>>()?;
        let options = ListingOptions::new(format).with_file_extension(extension);
        let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
        let schema = schema_of_all(&config, state).await;
        let config = config.with_schema(schema.map_err(|cause| unreadable(name, files, cause))?);
        self.tables.known(name, ListingTable::try_new(config)?, state)
    }
}

/// Gives files in a query a table name, if the query gives none: `'data/lineitem.parquet'` is `lineitem`,
/// `'data/*.parquet'` is `data`. So paths do not qualify column names.
#[derive(Debug)]
struct FileNames;

impl RelationPlanner for FileNames {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table {
            name,
            alias: alias @ None,
            args: None,
            ..
        } = &mut relation
            && let [part] = name.0.as_slice()
            && let Some(path) = part.as_ident().filter(|part| part.quote_style == Some('\''))
        {
            *alias = table_name(&path.value).map(|name| TableAlias {
                explicit: false,
                name: Ident::with_quote('"', name),
                columns: Vec::new(),
                at: None,
            });
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

#[async_trait]
impl UrlTableFactory for FileQueries {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(read) = Read::decoded(name) {
            let state = self.state()?;
            return match read_files::table(&read, &state).await? {
                FilesRead::Plain(table) => self.tables.known(name, table, &state).map(Some),
                FilesRead::Named(table) => Ok(Some(Arc::new(table))),
            };
        }
        if name.contains("://") {
            return match self.remote.try_new(name).await? {
                None => remote_files::check(name, &self.state()?).await.map(|()| None),
                found => Ok(found),
            };
        }
        if standard_input::is_named(name) {
            let state = self.state()?;
            let file = standard_input::file(name, &state).await?;
            return self.files(name, &[file], &state).await.map(Some);
        }
        // A bare name is the name of a table, even if a file or a directory has the same name: `CREATE TABLE
        // docs`.
        if !(has_pattern(name) || reads_like_a_file(name)) {
            return Ok(None);
        }
        let path = expand_home(name);
        let files = if has_pattern(name) {
            let files = matching(&path)?;
            if files.is_empty() {
                return plan_err!("no file matches the pattern: '{name}'");
            }
            files
        } else if path.is_dir() {
            let state = self.state()?;
            let table = directory(&path, &state).await?;
            return self.tables.known(name, table, &state).map(Some);
        } else if path.is_file() {
            vec![path]
        } else {
            return Err(missing(name));
        };
        self.files(name, &files, &self.state()?).await.map(Some)
    }
}

/// The table of all files below a directory, with its `key=value` directories as columns.
async fn directory(path: &Path, state: &SessionState) -> Result<ListingTable> {
    let (format, extension) = format_of(&[a_data_file(path, &EXTENSIONS)?], state)?;
    let mut text = path.to_string_lossy().into_owned();
    if !text.ends_with('/') {
        text.push('/');
    }
    let options = ListingOptions::new(format).with_file_extension(extension);
    let config = ListingTableConfig::new(ListingTableUrl::parse(&text)?).with_listing_options(options);
    let config = config.infer_partitions_from_path(state).await?;
    let config = config.infer_schema(state).await;
    ListingTable::try_new(config.map_err(|cause| unreadable(&text, &[], cause))?)
}

/// The common format of `files`, and their common extension.
fn format_of(files: &[PathBuf], state: &SessionState) -> Result<(Arc<dyn FileFormat>, String)> {
    let endings =
        |file: &Path| ListingTableConfig::infer_file_extension_and_compression_type(&file.to_string_lossy());
    let (extension, compression) = endings(&files[0])?;
    for file in &files[1..] {
        if endings(file)? != (extension.clone(), compression.clone()) {
            return plan_err!(
                "files of different formats: '{}' and '{}'\nhint: narrow the pattern, for example '*.{extension}'",
                files[0].display(),
                file.display()
            );
        }
    }
    let compressed = compression
        .as_deref()
        .map_or(Ok(FileCompressionType::UNCOMPRESSED), str::parse)?;
    let options = state.default_table_options();
    let format: Arc<dyn FileFormat> = match extension.to_ascii_lowercase().as_str() {
        "parquet" => Arc::new(ParquetTables::new(options.parquet)),
        "csv" => Arc::new(CsvTables::new(CsvOptions {
            compression: compressed.into(),
            ..options.csv
        })),
        "tsv" => Arc::new(CsvTables::new(CsvOptions {
            delimiter: b'\t',
            compression: compressed.into(),
            ..options.csv
        })),
        "json" | "ndjson" | "jsonl" => Arc::new(JsonTables::new(JsonOptions {
            compression: compressed.into(),
            ..options.json
        })),
        "arrow" => Arc::new(ArrowTables::default()),
        "avro" => Arc::new(AvroFormat),
        _ => {
            return plan_err!(
                "unknown file format: '{}'\nhint: formats are {}; for another ending use CREATE EXTERNAL TABLE ... STORED AS",
                files[0].display(),
                EXTENSIONS.join(", ")
            );
        }
    };
    let ending = compression.map_or_else(
        || format!(".{extension}"),
        |compression| format!(".{extension}.{compression}"),
    );
    Ok((format, ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary directory");
        for name in names {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a file has a directory")).expect("directories");
            fs::write(path, "a,b\n1,2\n").expect("a file");
        }
        root
    }

    fn names(root: &tempfile::TempDir, pattern: &str) -> Vec<String> {
        let found = matching(&root.path().join(pattern)).expect("a valid pattern");
        found
            .iter()
            .map(|path| {
                path.strip_prefix(root.path())
                    .expect("below the root")
                    .display()
                    .to_string()
            })
            .collect()
    }

    #[test]
    fn patterns_match_whole_segments() {
        let root = tree(&[
            "a.csv",
            "b.csv",
            ".hidden.csv",
            "x/c.csv",
            "y/d.csv",
            "y/z/e.csv",
            "y/f.json",
        ]);
        assert_eq!(names(&root, "*.csv"), ["a.csv", "b.csv"]);
        assert_eq!(names(&root, "?.csv"), ["a.csv", "b.csv"]);
        assert_eq!(names(&root, "[b-z].csv"), ["b.csv"]);
        assert_eq!(names(&root, "*/*.csv"), ["x/c.csv", "y/d.csv"]);
        assert_eq!(names(&root, "y/*"), ["y/d.csv", "y/f.json"]);
        assert_eq!(
            names(&root, "**/*.csv"),
            ["a.csv", "b.csv", "x/c.csv", "y/d.csv", "y/z/e.csv"]
        );
        assert_eq!(names(&root, ".*.csv"), [".hidden.csv"]);
        assert!(names(&root, "nowhere/*.csv").is_empty());
    }

    #[test]
    fn file_names_are_distinguished_from_table_names() {
        assert!(
            reads_like_a_file("x.parquet") && reads_like_a_file("dir/x") && reads_like_a_file("x.csv.gz")
        );
        assert!(!reads_like_a_file("orders") && !reads_like_a_file("csv") && !reads_like_a_file("a.b"));
    }

    #[test]
    fn table_names_are_derived_from_file_names() {
        let name = |path: &str| table_name(path).unwrap_or_default();
        assert_eq!(
            [
                name("data/lineitem.parquet"),
                name("a.csv.gz"),
                name("s3://b/x.csv")
            ],
            ["lineitem", "a", "x"]
        );
        assert_eq!(
            [name("parts/*.parquet"), name("t/year=*/[ab].csv"), name("*.csv")],
            ["parts", "t", ""]
        );
        assert_eq!(name("orders"), "");
    }

    #[tokio::test]
    async fn file_columns_are_qualified_by_table_name() -> Result<()> {
        let root = tree(&["t/a.csv"]);
        let ctx = crate::session().with_file_queries(true).build()?;
        let path = root.path().join("t/a.csv");
        let sql = format!("SELECT sum(b), max(a.b) FROM '{}' WHERE a.a = 1", path.display());
        let frame = ctx.sql(&sql).await?;
        let names: Vec<_> = frame
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        assert_eq!(names, ["sum(a.b)", "max(a.b)"]);
        let sql = format!("SELECT x.b FROM '{}' AS x, '{0}' WHERE a.b = x.b", path.display());
        assert_eq!(ctx.sql(&sql).await?.collect().await?[0].num_rows(), 1);
        Ok(())
    }

    #[tokio::test]
    async fn a_rewritten_file_is_read_again() -> Result<()> {
        let root = tree(&["t/a.csv"]);
        let ctx = crate::session().with_file_queries(true).build()?;
        let pattern = root.path().join("t").join("*.csv");
        let sql = format!("SELECT sum(b) FROM '{}'", pattern.display());
        let sum = async || {
            let rows = ctx.sql(&sql).await?.collect().await?;
            arrow::util::display::array_value_to_string(rows[0].column(0), 0).map_err(Into::into)
        };
        let first: Result<String> = sum().await;
        assert_eq!(first?, "2");
        fs::write(root.path().join("t/a.csv"), "a,b\n1,2\n3,40\n").expect("rewritten");
        fs::write(root.path().join("t/b.csv"), "a,b\n1,100\n").expect("one more");
        assert_eq!(sum().await?, "142");
        Ok(())
    }
}
