//! The table of the files that a function reads ([`read_functions`](crate::read_functions)).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::config::{CsvOptions, JsonOptions};
use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;

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

/// The table.
///
/// # Errors
/// No file matches, a file cannot be read, or an option has no such value.
pub(crate) async fn table(read: &Read, state: &SessionState) -> Result<FilesRead> {
    let files = files(read, state).await?;
    let options = ListingOptions::new(format(read, &files, state)?).with_file_extension("");
    let urls = files
        .iter()
        .map(|file| location(file))
        .collect::<Result<Vec<_>>>()?;
    let paths = file_names::column(read).map(|column| (column, file_names::paths(read, &files, &urls)));
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
    let schema = schema_of_all(&config, state).await;
    let named = read.paths.join("', '");
    let config = config.with_schema(schema.map_err(|cause| unreadable(&named, &files, cause))?);
    let table = ListingTable::try_new(config)?;
    Ok(match paths {
        Some((column, paths)) => FilesRead::Named(NamedFiles::new(table, &column, paths)?),
        None => FilesRead::Plain(table),
    })
}

/// The table of a function.
#[derive(Debug)]
pub(crate) enum FilesRead {
    Plain(ListingTable),
    /// With a column of paths.
    Named(NamedFiles),
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

fn format(read: &Read, files: &[PathBuf], state: &SessionState) -> Result<Arc<dyn FileFormat>> {
    if read.flag("union_by_name")? == Some(false) {
        return plan_err!(
            "union_by_name = false is not supported: columns of several files are united by name"
        );
    }
    let options = state.default_table_options();
    Ok(match read.kind {
        Kind::Parquet => Arc::new(ParquetTables::new(options.parquet)),
        Kind::Json => Arc::new(JsonTables::new(JsonOptions {
            compression: compression(read, files)?.into(),
            ..options.json
        })),
        Kind::Csv => Arc::new(CsvTables::new(csv(read, files, options.csv)?)),
    })
}

fn csv(read: &Read, files: &[PathBuf], defaults: CsvOptions) -> Result<CsvOptions> {
    let compression = compression(read, files)?;
    let quote = read.byte("quote")?.unwrap_or(defaults.quote);
    let delimiter = match read.byte("delim")? {
        Some(delimiter) => delimiter,
        None if compression == FileCompressionType::UNCOMPRESSED => {
            found_delimiter(&files[0], quote)?.unwrap_or(defaults.delimiter)
        }
        None => defaults.delimiter,
    };
    let sample = read.option("sample_size").map(str::parse).transpose();
    let sample = sample
        .map_err(|_| plan_datafusion_err!("the option sample_size of read_csv needs a number of rows"))?;
    let null = read
        .option("nullstr")
        .map(|text| format!("^{}$", regex::escape(text)));
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
        schema_infer_max_rec: sample.or(defaults.schema_infer_max_rec),
        compression: compression.into(),
        ..defaults
    })
}

/// The compression that the option or the name of the first file states.
fn compression(read: &Read, files: &[PathBuf]) -> Result<FileCompressionType> {
    let named = match read.option("compression").map(str::to_ascii_lowercase) {
        None => {
            let name = files[0].to_string_lossy();
            ListingTableConfig::infer_file_extension_and_compression_type(&name)?.1
        }
        Some(named) => match named.as_str() {
            "auto" | "none" | "uncompressed" => None,
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

/// The delimiter of the first lines of a file: of those that each line has equally often, the most frequent.
fn found_delimiter(file: &Path, quote: u8) -> Result<Option<u8>> {
    let cannot = |cause| plan_datafusion_err!("cannot read '{}': {cause}", file.display());
    let mut head = Vec::new();
    let opened = File::open(file).map_err(cannot)?;
    opened.take(HEAD as u64).read_to_end(&mut head).map_err(cannot)?;
    Ok(delimiter_of(&head, quote, head.len() < HEAD))
}

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
