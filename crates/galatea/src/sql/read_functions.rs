//! Table functions of DuckDB that read files: `read_csv('f.csv', delim => ';')`, `read_parquet(['a', 'b'])`
//! and `read_json('*.json')`.
//!
//! A call becomes the name of a file table, in single quotes, which
//! [`FileQueries`](crate::files::FileQueries) resolves. Without options and lists, the name is the path.
//! Otherwise it contains the function, the options and the paths. No server grants such a name ([`PREFIX`] is
//! not a path), so a role with folders reads files by their paths only.

use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    DictionaryField, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableFactor,
    UnaryOperator, Value,
};
use std::path::Path;

use super::SqlError;
use super::ast_parts::key;
use crate::file_paths::table_name;

/// The beginning of a name that contains options, in hexadecimal digits: such a name is a URL of the local
/// file system for other catalogs, which therefore leave it to [`FileQueries`](crate::files::FileQueries).
const PREFIX: &str = "file:///galatea-read/";
/// Between the parts of such a name, between the items of a list, and between a name and its value.
const SEPARATOR: char = '\u{1f}';
const ITEM: char = '\u{1e}';
const PAIR: char = '\u{1d}';

/// Options whose value may be a list, or `{'name': 'value'}`.
const LISTS: [&str; 4] = ["columns", "types", "names", "nullstr"];

/// A kind of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Csv,
    Parquet,
    Json,
}

/// The functions.
const FUNCTIONS: [(&str, Kind); 7] = [
    ("read_csv", Kind::Csv),
    ("read_csv_auto", Kind::Csv),
    ("read_parquet", Kind::Parquet),
    ("parquet_scan", Kind::Parquet),
    ("read_json", Kind::Json),
    ("read_json_auto", Kind::Json),
    ("read_ndjson", Kind::Json),
];

impl Kind {
    /// The names of the options, and the name that replaces each.
    const fn options(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Csv => &[
                ("delim", "delim"),
                ("delimiter", "delim"),
                ("sep", "delim"),
                ("header", "header"),
                ("quote", "quote"),
                ("escape", "escape"),
                ("comment", "comment"),
                ("nullstr", "nullstr"),
                ("compression", "compression"),
                ("sample_size", "sample_size"),
                ("columns", "columns"),
                ("types", "types"),
                ("dtypes", "types"),
                ("column_types", "types"),
                ("names", "names"),
                ("column_names", "names"),
                ("all_varchar", "all_varchar"),
                ("null_padding", "null_padding"),
                ("filename", "filename"),
                ("union_by_name", "union_by_name"),
            ],
            Self::Parquet => &[("union_by_name", "union_by_name"), ("filename", "filename")],
            Self::Json => &[
                ("compression", "compression"),
                ("union_by_name", "union_by_name"),
                ("filename", "filename"),
            ],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Json => "json",
        }
    }
}

/// The files that a function reads, and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) kind: Kind,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) paths: Vec<String>,
}

impl Read {
    /// The name of the file table.
    fn encoded(&self) -> String {
        let mut name = self.kind.name().to_owned();
        for (option, value) in &self.options {
            name += &format!("{SEPARATOR}{option}={value}");
        }
        for path in &self.paths {
            name += &format!("{SEPARATOR}={path}");
        }
        let digits = name.bytes().map(|byte| format!("{byte:02x}"));
        format!("{PREFIX}{}", digits.collect::<String>())
    }

    /// The files and options of a name; `None` for other names.
    pub(crate) fn decoded(name: &str) -> Option<Self> {
        let digits = name.strip_prefix(PREFIX)?.as_bytes().chunks(2);
        let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        let text = String::from_utf8(digits.map(byte).collect::<Option<_>>()?).ok()?;
        let mut parts = text.split(SEPARATOR);
        let kind = parts.next()?;
        let kind = [Kind::Csv, Kind::Parquet, Kind::Json]
            .into_iter()
            .find(|known| known.name() == kind)?;
        let (mut options, mut paths) = (Vec::new(), Vec::new());
        for part in parts {
            match part.split_once('=')? {
                ("", path) => paths.push(path.to_owned()),
                (option, value) => options.push((option.to_owned(), value.to_owned())),
            }
        }
        Some(Self { kind, options, paths })
    }

    /// The value of an option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(option, _)| option == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The items of an option with a list, each with its name if it has one.
    pub(crate) fn items(&self, name: &str) -> Option<Vec<(Option<&str>, &str)>> {
        let items = self
            .option(name)?
            .split(ITEM)
            .map(|item| match item.split_once(PAIR) {
                Some((name, value)) => (Some(name), value),
                None => (None, item),
            });
        Some(items.collect())
    }

    /// The value of an option of one ASCII character.
    ///
    /// # Errors
    /// The value has several characters.
    pub(crate) fn byte(&self, name: &str) -> Result<Option<u8>> {
        match self
            .option(name)
            .map(|value| if value == "\\t" { "\t" } else { value })
            .map(str::as_bytes)
        {
            None => Ok(None),
            Some([byte]) => Ok(Some(*byte)),
            Some(_) => plan_err!(
                "the option {name} of read_{} needs one ASCII character: '{}'",
                self.kind.name(),
                self.option(name).unwrap_or_default()
            ),
        }
    }

    /// The value of a Boolean option.
    ///
    /// # Errors
    /// The value is not Boolean.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.option(name).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(None),
            Some("true" | "1" | "t") => Ok(Some(true)),
            Some("false" | "0" | "f") => Ok(Some(false)),
            Some(other) => plan_err!(
                "the option {name} of read_{} is true or false: '{other}'",
                self.kind.name()
            ),
        }
    }

    /// The patterns of the paths, with each `{a,b}` written out.
    ///
    /// # Errors
    /// A brace has no end.
    pub(crate) fn patterns(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for path in &self.paths {
            found.extend(without_braces(path)?);
        }
        Ok(found)
    }
}

/// The paths of a pattern with braces: `{a,b}.csv` is `a.csv` and `b.csv`.
fn without_braces(path: &str) -> Result<Vec<String>> {
    let Some((before, rest)) = path.split_once('{') else {
        return Ok(vec![path.to_owned()]);
    };
    let Some((choices, after)) = rest.split_once('}') else {
        return plan_err!("invalid pattern: '{path}': a brace has no end");
    };
    let ends = without_braces(after)?;
    let found = choices
        .split(',')
        .flat_map(|choice| ends.iter().map(move |end| format!("{before}{choice}{end}")));
    Ok(found.collect())
}

/// Replaces a call of these functions by the file table. A function of the session with the name is called
/// instead: `is_function`.
///
/// # Errors
/// An argument is not a path, or an option is unknown.
pub(crate) fn replace(factor: &mut TableFactor, is_function: impl Fn(&str) -> bool) -> Result<()> {
    let TableFactor::Table {
        name,
        args: args @ Some(_),
        alias,
        ..
    } = factor
    else {
        return Ok(());
    };
    let [part] = name.0.as_slice() else {
        return Ok(());
    };
    let Some(function) = part.as_ident().map(key) else {
        return Ok(());
    };
    let Some((_, kind)) = FUNCTIONS
        .iter()
        .find(|(known, _)| *known == function && !is_function(known))
    else {
        return Ok(());
    };
    let arguments = args.take().map(|found| found.args).unwrap_or_default();
    let read = read(&function, *kind, &arguments)?;
    let path = match (read.paths.as_slice(), read.options.is_empty()) {
        ([path], true) if is_plain(path, *kind) => path.clone(),
        _ => read.encoded(),
    };
    if alias.is_none() {
        let stem = read.paths.first().and_then(|path| table_name(path));
        *alias = Some(TableAlias {
            explicit: false,
            name: Ident::with_quote('"', stem.unwrap_or(function)),
            columns: Vec::new(),
            at: None,
        });
    }
    *name = ObjectName::from(vec![Ident::with_quote('\'', path)]);
    Ok(())
}

/// Whether the name of a file states its format by itself. CSV files are read for their delimiter.
fn is_plain(path: &str, kind: Kind) -> bool {
    let ending = Path::new(path)
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    let endings: &[&str] = match kind {
        Kind::Csv => &[],
        Kind::Parquet => &["parquet"],
        Kind::Json => &["json", "ndjson", "jsonl"],
    };
    endings.contains(&ending.to_ascii_lowercase().as_str()) && !path.contains('{')
}

fn wrong(problem: String) -> DataFusionError {
    SqlError::clause(
        "the table function",
        problem,
        "write read_csv('f.csv', delim => ';'), read_parquet(['a.parquet', 'b.parquet']) or read_json('*.json')",
    )
    .into()
}

fn read(function: &str, kind: Kind, arguments: &[FunctionArg]) -> Result<Read> {
    let mut read = Read {
        kind,
        options: Vec::new(),
        paths: Vec::new(),
    };
    for (number, argument) in arguments.iter().enumerate() {
        let (name, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op, right }))
                if *op == datafusion::sql::sqlparser::ast::BinaryOperator::Eq =>
            {
                (left.to_string().to_lowercase(), right.as_ref())
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if number == 0 => {
                read.paths = paths(function, value)?;
                continue;
            }
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (key(name), value),
            FunctionArg::ExprNamed {
                name,
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (name.to_string().to_lowercase(), value),
            other => return Err(wrong(format!("{function} cannot read its argument {other}"))),
        };
        let known = kind.options().iter().find(|(known, _)| *known == name);
        let Some((_, option)) = known else {
            let known: Vec<&str> = kind.options().iter().map(|(known, _)| *known).collect();
            return Err(wrong(format!(
                "{function} has no option {name}; its options are {}",
                known.join(", ")
            )));
        };
        let found = match LISTS.contains(option) {
            true => items(value),
            false => plain(value),
        };
        let Some(value) = found else {
            return Err(wrong(format!(
                "{function} needs a constant as its option {name}, and not {value}"
            )));
        };
        read.options.push(((*option).to_owned(), value));
    }
    match read.paths.is_empty() {
        true => Err(wrong(format!("{function} needs a path"))),
        false => Ok(read),
    }
}

fn paths(function: &str, value: &Expr) -> Result<Vec<String>> {
    let path = |value: &Expr| match value {
        Expr::Value(text) => match &text.value {
            Value::SingleQuotedString(path) if !path.contains(SEPARATOR) => Ok(path.clone()),
            other => Err(wrong(format!(
                "{function} needs paths as strings, and not {other}"
            ))),
        },
        other => Err(wrong(format!(
            "{function} needs paths as strings, and not {other}"
        ))),
    };
    match value {
        Expr::Array(list) => list.elem.iter().map(path).collect(),
        one => Ok(vec![path(one)?]),
    }
}

/// The value of a constant that can be a part of a name.
fn plain(value: &Expr) -> Option<String> {
    constant(value).filter(|value| !value.contains([SEPARATOR, ITEM, PAIR]))
}

/// The items of a list or of `{'name': 'value'}`, or a constant.
fn items(value: &Expr) -> Option<String> {
    let items: Vec<String> = match value {
        Expr::Array(list) => list.elem.iter().map(plain).collect::<Option<_>>()?,
        Expr::Dictionary(fields) => {
            let pair =
                |field: &DictionaryField| Some(format!("{}{PAIR}{}", field.key.value, plain(&field.value)?));
            fields.iter().map(pair).collect::<Option<_>>()?
        }
        constant => vec![plain(constant)?],
    };
    (!items.is_empty()).then(|| items.join(&ITEM.to_string()))
}

/// The value of a constant.
fn constant(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) | Value::Number(text, _) => {
                Some(text.clone())
            }
            Value::Boolean(flag) => Some(flag.to_string()),
            _ => None,
        },
        Expr::Identifier(word) => Some(word.value.clone()),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => Some(format!("-{}", constant(expr)?)),
        _ => None,
    }
}
