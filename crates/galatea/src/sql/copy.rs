//! The format of COPY from the name of its file.
//!
//! DataFusion looks up the last extension only, and ignores an unknown name after STORED AS. Here `.tsv` is
//! CSV with tabs, `.ndjson` and `.jsonl` are JSON, and `.csv.gz` is compressed, as when files are read.
//! Parquet files have pages that a GPU decompresses and decodes in parallel.
//!
//! Standard output is CSV unless STORED AS or FORMAT names another format. It is an object store that the
//! program registers ([`STANDARD_OUTPUT`]).

use datafusion::common::plan_err;
use datafusion::config::ParquetOptions;
use datafusion::datasource::file_format::avro::AvroFormatFactory;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::Value;
use std::fs;
use std::path::Path;

/// Extensions of compressed files.
const COMPRESSIONS: [&str; 4] = ["gz", "bz2", "xz", "zst"];

/// Rows of a page of a Parquet file: 128 pages in a row group of DataFusion's default size.
const PAGE_ROWS: &str = "8192";

/// The name of standard output as a file.
pub(super) const OUTPUT_FILE: &str = "/dev/stdout";

/// Names of standard output.
const OUTPUTS: [&str; 4] = ["-", OUTPUT_FILE, "/dev/fd/1", "/proc/self/fd/1"];

/// The address of the object store that writes to standard output.
pub const STANDARD_OUTPUT: &str = "stdout://";

/// Levels of compression of Parquet pages, for names without a level: that of DuckDB and those of the crate
/// parquet.
const LEVELS: [(&str, &str); 3] = [("zstd", "zstd(3)"), ("gzip", "gzip(6)"), ("brotli", "brotli(1)")];

/// Adds the format and the options that the name of the file states.
///
/// # Errors
/// The format cannot be written.
pub(super) fn name_format(statement: &mut Statement, state: &SessionState) -> Result<()> {
    match statement {
        Statement::CopyTo(copy) => of_copy(copy, state),
        Statement::Explain(explain) => name_format(&mut explain.statement, state),
        _ => Ok(()),
    }
}

fn of_copy(copy: &mut CopyToStatement, state: &SessionState) -> Result<()> {
    let is_output = OUTPUTS.contains(&copy.target.as_str());
    if is_output {
        check_output(copy, state)?;
        copy.stored_as.get_or_insert_with(|| "csv".to_owned());
    }
    copy.partitioned_by
        .iter_mut()
        .for_each(|name| *name = unquoted(name));
    check_folder(copy)?;
    let path = Path::new(&copy.target);
    let compression = extension(path).filter(|ending| COMPRESSIONS.contains(&ending.as_str()));
    let data = match compression {
        Some(_) => path.file_stem().map(Path::new).and_then(extension),
        None => extension(path),
    };
    let Some(named) = copy.stored_as.clone().or(data) else {
        return plan_err!(
            "the format of '{}' is not known: the name has no extension\nhint: add STORED AS and a format: {}",
            copy.target,
            written(state)
        );
    };
    // The parser writes the name after STORED AS in capitals.
    let named = named.to_ascii_lowercase();
    let format = match named.as_str() {
        "tsv" => {
            add(copy, "delimiter", "\t");
            "csv".to_owned()
        }
        "ndjson" | "jsonl" => "json".to_owned(),
        name => name.to_owned(),
    };
    let factory = state.get_file_format_factory(&format);
    if factory.is_none_or(|factory| factory.is::<AvroFormatFactory>()) {
        return plan_err!(
            "COPY cannot write the format {named}\nhint: formats are {}",
            written(state)
        );
    }
    if let Some(compression) = compression {
        match format.as_str() {
            "csv" | "json" => add(copy, "compression", &compression),
            _ if copy.stored_as.is_none() => {
                return plan_err!(
                    "COPY cannot write compressed files of the format {named}\nhint: csv, tsv and json can be compressed"
                );
            }
            _ => {}
        }
    }
    if format == "parquet" {
        let (parquet, default) = (
            &state.config_options().execution.parquet,
            ParquetOptions::default(),
        );
        if parquet.compression == default.compression {
            add(copy, "compression", "snappy");
        }
        if parquet.data_page_row_count_limit == default.data_page_row_count_limit {
            add(copy, "data_page_row_count_limit", PAGE_ROWS);
        }
        add_levels(copy);
    }
    if is_output {
        copy.target = format!("{STANDARD_OUTPUT}/stdout.{format}");
    }
    copy.stored_as = Some(format.to_ascii_uppercase());
    Ok(())
}

/// Refuses standard output in a program without it, and for several files.
fn check_output(copy: &CopyToStatement, state: &SessionState) -> Result<()> {
    let url = ListingTableUrl::parse(STANDARD_OUTPUT)?;
    if state.runtime_env().object_store(&url).is_err() {
        return plan_err!(
            "COPY cannot write to standard output here\nhint: the command galatea can; a program writes the rows of the query"
        );
    }
    match copy.partitioned_by.is_empty() {
        true => Ok(()),
        false => plan_err!("COPY with PARTITIONED BY writes several files, and standard output is one"),
    }
}

/// Refuses to add files to a folder that has some, unless the statement has the option `append`: a repeated
/// export would double its rows.
fn check_folder(copy: &mut CopyToStatement) -> Result<()> {
    let before = copy.options.len();
    copy.options.retain(|(name, value)| {
        !name.eq_ignore_ascii_case("append")
            || !matches!(value.to_string().to_ascii_lowercase().as_str(), "true" | "'true'")
    });
    let appends = copy.options.len() < before;
    let path = copy.target.strip_prefix("file://").unwrap_or(&copy.target);
    let writes_files = !copy.partitioned_by.is_empty() || path.ends_with('/');
    if appends || !writes_files || path.contains("://") {
        return Ok(());
    }
    let has_files = fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    match has_files {
        true => plan_err!(
            "COPY would add files to the folder '{path}', which is not empty\nhint: name another folder, or add the \
             option APPEND true"
        ),
        false => Ok(()),
    }
}

/// Adds a level to the compression of a Parquet file, if the statement names none.
fn add_levels(copy: &mut CopyToStatement) {
    for (name, value) in &mut copy.options {
        let name = name.to_ascii_lowercase();
        let is_compression = name
            .strip_prefix("format.")
            .unwrap_or(&name)
            .starts_with("compression");
        let named = match value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.to_ascii_lowercase(),
            _ => continue,
        };
        let level = LEVELS.iter().find(|(codec, _)| *codec == named);
        if let Some((_, level)) = level.filter(|_| is_compression) {
            *value = Value::SingleQuotedString((*level).to_owned());
        }
    }
}

/// The column that a name after PARTITIONED BY means. The parser keeps the quotes of the name.
fn unquoted(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(name) => name.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// The extension of a file in lower case.
fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// The formats that COPY writes.
fn written(state: &SessionState) -> String {
    let names = ["csv", "tsv", "json", "ndjson", "jsonl", "parquet", "arrow"];
    let known = names.into_iter().filter(|name| match *name {
        "tsv" => state.get_file_format_factory("csv").is_some(),
        "ndjson" | "jsonl" => state.get_file_format_factory("json").is_some(),
        name => state.get_file_format_factory(name).is_some(),
    });
    let known: Vec<&str> = known.collect();
    format!(
        "{}; csv, tsv and json also compressed: .{}",
        known.join(", "),
        COMPRESSIONS.join(", .")
    )
}

/// Adds an option of the format, unless the statement has it.
fn add(copy: &mut CopyToStatement, name: &str, value: &str) {
    let is_named = |key: &str| {
        let key = key.to_ascii_lowercase();
        key.strip_prefix("format.").unwrap_or(&key) == name
    };
    if !copy.options.iter().any(|(key, _)| is_named(key)) {
        let value = Value::SingleQuotedString(value.to_owned());
        copy.options.push((format!("format.{name}"), value));
    }
}
