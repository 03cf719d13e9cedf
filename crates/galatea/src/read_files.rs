//! The table of the files that a function reads ([`read_functions`](crate::read_functions)).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::{CsvOptions, JsonOptions};
use datafusion::common::{DFSchema, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use futures::stream::{self, StreamExt, TryStreamExt};
use galatea_store::file_head;
use object_store::ObjectStoreExt;

use crate::file_names::{self, NamedFiles};
use crate::file_paths::{
    expand_home, has_pattern, location, matching, missing, refuse_empty, schema_of_all, unreadable,
};
use crate::formats::{CsvTables, JsonTables, ParquetTables};
use crate::sql::{Read, ReadKind as Kind};
use crate::standard_input;

/// Bytes at the beginning of a file that are searched for its delimiter.
const HEAD: usize = 64 << 10;
/// Lines that are searched.
const LINES: usize = 100;
/// Number of files with concurrent reads of their first bytes.
const FILES_AT_ONCE: usize = 16;

/// The table.
///
/// # Errors
/// No file matches, a file cannot be read, the files are not of one kind, or an option has no such value.
pub(crate) async fn table(read: &Read, state: &SessionState) -> Result<FilesRead> {
    let files = files(read, state).await?;
    let urls = files
        .iter()
        .map(|file| location(file))
        .collect::<Result<Vec<_>>>()?;
    refuse_repeated(&files, &urls)?;
    let paths = file_names::column(read).map(|column| (column, file_names::paths(read, &files, &urls)));
    let options = ListingOptions::new(format(read, &files, &urls, state).await?).with_file_extension("");
    let mut config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
    let named = read.paths.join("', '");
    let cannot = |cause| unreadable(&named, &files, cause);
    let names = read.items("names");
    if read.flag("union_by_name")? == Some(false) || names.is_some() {
        refuse_other_columns(&config, &files, state)
            .await
            .map_err(cannot)?;
    }
    let schema = match declared_columns(read, state)? {
        Some(declared) => declared,
        None => schema_of_all(&config, state).await.map_err(cannot)?,
    };
    let mut schema = with_types(read, schema, state)?;
    if let (Some(names), Some(options)) = (names, &mut config.options) {
        schema = renamed(&schema, &names)?;
        if let Some(csv) = options.format.downcast_ref::<CsvTables>() {
            options.format = Arc::new(csv.renamed());
        }
    }
    let table = ListingTable::try_new(config.with_schema(schema))?;
    Ok(match paths {
        Some((column, paths)) => FilesRead::Named(NamedFiles::new(table, &column, paths)?),
        None => FilesRead::Plain(table),
    })
}

/// The columns of the option `columns`, `{'a': 'INTEGER'}`.
fn declared_columns(read: &Read, state: &SessionState) -> Result<Option<SchemaRef>> {
    let Some(columns) = read.items("columns") else {
        return Ok(None);
    };
    for other in ["types", "names", "all_varchar"] {
        if read.option(other).is_some() {
            return plan_err!("read_csv has the option columns, which excludes the option {other}");
        }
    }
    let mut fields = Vec::new();
    for (name, data_type) in columns {
        let Some(name) = name else {
            return plan_err!(
                "the option columns of read_csv names all columns with their types: columns = {{'a': 'INTEGER', 'b': 'VARCHAR'}}"
            );
        };
        fields.push(Field::new(name, data_type_of(data_type, state)?, true));
    }
    Ok(Some(Arc::new(Schema::new(fields))))
}

/// The columns with the types of the option `types`, `{'a': 'INTEGER'}` or a list in the order of the
/// columns.
fn with_types(read: &Read, schema: SchemaRef, state: &SessionState) -> Result<SchemaRef> {
    let Some(types) = read.items("types") else {
        return Ok(schema);
    };
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| Field::clone(field)).collect();
    for (place, (name, data_type)) in types.into_iter().enumerate() {
        let found = match name {
            Some(name) => fields
                .iter()
                .position(|field| field.name().eq_ignore_ascii_case(name)),
            None => (place < fields.len()).then_some(place),
        };
        let Some(found) = found else {
            let column = name.map_or_else(|| format!("{}", place + 1), |name| format!("'{name}'"));
            return plan_err!(
                "the option types of read_csv has a type of the column {column}, and the columns of the files are {}",
                names_of(&fields)
            );
        };
        fields[found] = fields[found]
            .clone()
            .with_data_type(data_type_of(data_type, state)?);
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The columns with other names; the remaining ones keep theirs.
fn renamed(schema: &SchemaRef, names: &[(Option<&str>, &str)]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| Field::clone(field)).collect();
    if names.len() > fields.len() {
        return plan_err!(
            "the option names of read_csv has {} names for {} columns: {}",
            names.len(),
            fields.len(),
            names_of(&fields)
        );
    }
    for (field, (_, name)) in fields.iter_mut().zip(names) {
        *field = field.clone().with_name(*name);
    }
    let mut known = HashSet::new();
    match fields.iter().find(|field| !known.insert(field.name())) {
        Some(twice) => plan_err!(
            "the option names of read_csv leads to two columns {}",
            twice.name()
        ),
        None => Ok(Arc::new(Schema::new(fields))),
    }
}

fn names_of(fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names.join(", ")
}

/// The type with a name of SQL.
fn data_type_of(name: &str, state: &SessionState) -> Result<DataType> {
    let cast = state.create_logical_expr(&format!("CAST(NULL AS {name})"), &DFSchema::empty());
    match cast.map_err(|cause| cause.context(format!("an option of read_csv has the type {name}")))? {
        Expr::Cast(cast) => Ok(match cast.field.data_type() {
            DataType::Utf8View => DataType::Utf8,
            data_type => data_type.clone(),
        }),
        _ => plan_err!("an option of read_csv has the type {name}, which is no type"),
    }
}

/// The table of a function.
#[derive(Debug)]
pub(crate) enum FilesRead {
    Plain(ListingTable),
    /// With a column of paths.
    Named(NamedFiles),
}

/// Refuses a file that is named twice: the table would have its rows once.
fn refuse_repeated(files: &[PathBuf], urls: &[ListingTableUrl]) -> Result<()> {
    let mut known = HashSet::new();
    let repeated = files.iter().zip(urls).find(|(_, url)| !known.insert(*url));
    match repeated {
        Some((file, _)) => plan_err!(
            "the list has the file '{}' twice\nhint: name it once, or unite two queries: FROM '{0}' UNION ALL FROM '{0}'",
            file.display()
        ),
        None => Ok(()),
    }
}

/// Refuses files with other columns than the first, as `union_by_name = false` demands.
async fn refuse_other_columns(
    config: &ListingTableConfig,
    files: &[PathBuf],
    state: &SessionState,
) -> Result<()> {
    let mut first: Option<Vec<String>> = None;
    for (file, url) in files.iter().zip(&config.table_paths) {
        let mut one = ListingTableConfig::new(url.clone());
        one.options.clone_from(&config.options);
        let schema = schema_of_all(&one, state).await?;
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        match &first {
            None => first = Some(names),
            Some(known) if *known != names => {
                return plan_err!(
                    "the columns of '{}' are {}, and those of '{}' are {}, which needs union_by_name = true\nhint: columns \
                     are united by name if the option is left out",
                    files[0].display(),
                    known.join(", "),
                    file.display(),
                    names.join(", ")
                );
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The files of all paths, in the order of the paths.
async fn files(read: &Read, state: &SessionState) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in read.patterns()? {
        if standard_input::is_named(&pattern) {
            files.push(standard_input::file(&pattern, state).await?);
            continue;
        }
        if pattern.contains("://") {
            return plan_err!(
                "cannot read '{pattern}' with options or in a list\nhint: remote files are read by their names: FROM '{pattern}'"
            );
        }
        let path = expand_home(&pattern);
        if has_pattern(&pattern) {
            let found = matching(&path)?;
            if found.is_empty() {
                return plan_err!("no file matches the pattern: '{pattern}'");
            }
            files.extend(found);
        } else if path.is_file() {
            files.push(path);
        } else if path.is_dir() {
            return plan_err!(
                "'{pattern}' is a folder\nhint: name its files: '{pattern}/*.{}'",
                extension(read.kind)
            );
        } else {
            return Err(missing(&pattern));
        }
    }
    let ending = format!(".{}", extension(read.kind));
    refuse_empty(&files, &ending)?;
    Ok(files)
}

const fn extension(kind: Kind) -> &'static str {
    match kind {
        Kind::Csv => "csv",
        Kind::Parquet => "parquet",
        Kind::Json => "json",
    }
}

async fn format(
    read: &Read,
    files: &[PathBuf],
    urls: &[ListingTableUrl],
    state: &SessionState,
) -> Result<Arc<dyn FileFormat>> {
    let options = state.default_table_options();
    Ok(match read.kind {
        Kind::Parquet => Arc::new(ParquetTables::new(options.parquet)),
        Kind::Json => Arc::new(JsonTables::new(JsonOptions {
            compression: compression(read, files)?.into(),
            ..options.json
        })),
        Kind::Csv => {
            let compression = compression(read, files)?;
            let heads = Heads {
                files,
                urls,
                compression,
                state,
            };
            Arc::new(CsvTables::new(csv(read, &heads, options.csv).await?))
        }
    })
}

async fn csv(read: &Read, heads: &Heads<'_>, defaults: CsvOptions) -> Result<CsvOptions> {
    let quote = read.byte("quote")?.unwrap_or(defaults.quote);
    let delimiter = match read.byte("delim")? {
        Some(delimiter) => delimiter,
        None => heads.delimiter(quote).await?.unwrap_or(defaults.delimiter),
    };
    let null = read.items("nullstr").map(|texts| {
        let texts: Vec<String> = texts.iter().map(|(_, text)| regex::escape(text)).collect();
        format!("^(?:{})$", texts.join("|"))
    });
    let rows = match read.flag("all_varchar")? {
        Some(true) => Some(0),
        _ => sample_rows(read)?,
    };
    Ok(CsvOptions {
        has_header: read.flag("header")?.or(defaults.has_header),
        delimiter,
        quote,
        escape: read
            .byte("escape")?
            .filter(|escape| *escape != quote)
            .or(defaults.escape),
        comment: read.byte("comment")?.or(defaults.comment),
        null_regex: null.or(defaults.null_regex),
        schema_infer_max_rec: rows.or(defaults.schema_infer_max_rec),
        truncated_rows: read.flag("null_padding")?.or(defaults.truncated_rows),
        compression: heads.compression.into(),
        ..defaults
    })
}

/// The number of rows for the inference of types; -1 is all of them.
fn sample_rows(read: &Read) -> Result<Option<usize>> {
    match read.option("sample_size") {
        None => Ok(None),
        Some("-1") => Ok(Some(usize::MAX)),
        Some(text) => match text.parse() {
            Ok(0) | Err(_) => plan_err!(
                "the option sample_size of read_csv is a number of rows from 1, or -1 for all rows: '{text}'"
            ),
            Ok(rows) => Ok(Some(rows)),
        },
    }
}

/// The compression of all files: that of the option, or of their names.
fn compression(read: &Read, files: &[PathBuf]) -> Result<FileCompressionType> {
    let named = match read.option("compression").map(str::to_ascii_lowercase) {
        None => {
            let first = compression_of(&files[0])?;
            for file in &files[1..] {
                if compression_of(file)? != first {
                    return plan_err!(
                        "the compression of '{}' differs from that of '{}'\nhint: read them by a call each, and unite \
                         them: FROM read_csv(...) UNION ALL BY NAME FROM read_csv(...)",
                        file.display(),
                        files[0].display()
                    );
                }
            }
            first
        }
        Some(named) => match named.as_str() {
            "auto" => compression_of(&files[0])?,
            "none" | "uncompressed" => None,
            "gzip" => Some("gz".to_owned()),
            "zstd" => Some("zst".to_owned()),
            _ => Some(named),
        },
    };
    match named {
        None => Ok(FileCompressionType::UNCOMPRESSED),
        Some(named) => named.parse().map_err(|_| {
            plan_datafusion_err!(
                "unknown compression: {named}\nhint: compressions are gzip, bz2, xz, zstd and none"
            )
        }),
    }
}

/// The compression that the name of a file states.
fn compression_of(file: &Path) -> Result<Option<String>> {
    let name = file.to_string_lossy();
    Ok(ListingTableConfig::infer_file_extension_and_compression_type(&name)?.1)
}

/// The first lines of files.
struct Heads<'a> {
    files: &'a [PathBuf],
    urls: &'a [ListingTableUrl],
    compression: FileCompressionType,
    state: &'a SessionState,
}

impl Heads<'_> {
    /// The delimiter of the first lines of all files; `None` if no file has one.
    async fn delimiter(&self, quote: u8) -> Result<Option<u8>> {
        let looks = self.urls.iter().map(|url| self.delimiter_in(url, quote));
        let looks: Vec<_> = looks.collect();
        let found: Vec<Option<u8>> = stream::iter(looks).buffered(FILES_AT_ONCE).try_collect().await?;
        let mut known: Option<(&Path, u8)> = None;
        for (file, delimiter) in self.files.iter().zip(found) {
            match (known, delimiter) {
                (None, Some(delimiter)) => known = Some((file, delimiter)),
                (Some((first, one)), Some(other)) if one != other => {
                    return plan_err!(
                        "the delimiter of '{}' is {:?}, that of '{}' is {:?}\nhint: read them by a call each, and unite \
                         them, or set delim for all of them",
                        first.display(),
                        char::from(one),
                        file.display(),
                        char::from(other)
                    );
                }
                _ => {}
            }
        }
        Ok(known.map(|(_, delimiter)| delimiter))
    }

    /// The delimiter of the first lines of a file.
    async fn delimiter_in(&self, url: &ListingTableUrl, quote: u8) -> Result<Option<u8>> {
        let store = self.state.runtime_env().object_store(url)?;
        let object = store.head(url.prefix()).await?;
        let (mut head, whole) = file_head(&store, &object, self.compression, HEAD).await?;
        head.truncate(HEAD);
        Ok(delimiter_of(&head, quote, whole && head.len() < HEAD))
    }
}

/// The delimiter of lines: of those that each line has equally often, the most frequent.
fn delimiter_of(head: &[u8], quote: u8, whole: bool) -> Option<u8> {
    let mut lines = vec![Vec::new()];
    let mut quoted = false;
    for byte in head {
        match byte {
            byte if *byte == quote => quoted = !quoted,
            b'\n' if !quoted => lines.push(Vec::new()),
            byte if !quoted => {
                if let Some(line) = lines.last_mut() {
                    line.push(*byte);
                }
            }
            _ => {}
        }
    }
    if !whole && lines.len() > 1 {
        lines.pop();
    }
    lines.retain(|line: &Vec<u8>| !line.iter().all(u8::is_ascii_whitespace));
    lines.truncate(LINES);
    let count = |line: &Vec<u8>, delimiter: u8| line.iter().filter(|byte| **byte == delimiter).count();
    let first = lines.first()?;
    let candidates = *b",|;\t";
    let equal = candidates.into_iter().filter(|delimiter| {
        let wanted = count(first, *delimiter);
        wanted > 0 && lines.iter().all(|line| count(line, *delimiter) == wanted)
    });
    // The first of several with one count.
    equal.rev().max_by_key(|delimiter| count(first, *delimiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiter_is_that_of_all_lines() {
        for (text, expected) in [
            ("a,b\n1,2\n", Some(b',')),
            ("a;b\n1,5;2\n3,5;4\n", Some(b';')),
            ("a|b|c\n1|2|3", Some(b'|')),
            ("a\tb\n1\t2\n", Some(b'\t')),
            ("a,b;c\n1,2;3\n", Some(b',')),
            ("a,\"b;x\"\n1,\"2\n;\"\n", Some(b',')),
            ("a\n1\n", None),
            ("a,b\n1\n", None),
            ("", None),
        ] {
            assert_eq!(delimiter_of(text.as_bytes(), b'"', true), expected, "{text}");
        }
    }
}
