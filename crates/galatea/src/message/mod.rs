//! Error messages: a lower-case line that states the problem, then a hint that states the remedy.
//!
//! DataFusion's errors carry the layers that they passed through. A message here is the innermost cause. It
//! names the column or the file, and the hint lists the names that exist. [`error_message`] writes such
//! messages for common causes. Every other error is shown unchanged.

mod caret;
mod kind;
mod raised;

pub use caret::Origin;
pub use kind::ErrorKind;
pub use raised::raised_at;

use datafusion::common::{SchemaError, Span};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use galatea_engine::checks::RowError;
use strsim::damerau_levenshtein;

/// A statement that failed, for the position in its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedStatement {
    /// The SQL text.
    pub text: String,
    /// Where the statement begins.
    pub origin: Origin,
    /// The position of the expression that raised an error ([`raised_at`]).
    pub raised: Option<Span>,
    /// Whether the statement is from a file or a stream, so that the user does not see it. Its message shows
    /// its first line if the position of the error is not known.
    pub in_script: bool,
}

/// The message of a failed query; below it the position in the statement, if known, and a hint on lines of
/// its own.
pub fn error_message(error: &DataFusionError, statement: Option<&FailedStatement>) -> String {
    let (message, hint) = cause(error);
    // Messages of Galatea contain their hints.
    let (message, hint) = match (hint, message.split_once("\nhint: ")) {
        (None, Some((message, hint))) => (message.to_string(), Some(hint.to_string())),
        (hint, _) => (message, hint),
    };
    let mut text = lower_first(message.trim());
    let raised = statement.and_then(|statement| statement.raised);
    let shown = statement.and_then(|statement| {
        let FailedStatement {
            text,
            origin,
            in_script,
            ..
        } = statement;
        let place = caret::location(error).map(|start| (start, None));
        let place = place.or_else(|| raised.map(|span| (span.start, Some(span.end))));
        place
            .and_then(|(start, end)| caret::shown(text, start, end, origin))
            .or_else(|| caret::beginning(text, origin).filter(|_| *in_script))
    });
    if let Some(shown) = shown {
        text += &format!("\n{shown}");
    }
    if let Some(hint) = hint {
        text += &format!("\nhint: {hint}");
    }
    text
}

fn cause(error: &DataFusionError) -> (String, Option<String>) {
    if let Some(row) = RowError::of(error) {
        return (row.to_string(), None);
    }
    match error {
        // The context names the file or the setting, so it is shown before the cause.
        DataFusionError::Context(context, inner) if context.starts_with("cannot read") => {
            let (message, hint) = cause(inner);
            (format!("{context}: {}", lower_first(&message)), hint)
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => cause(inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => cause(&errors[0]),
        DataFusionError::Shared(inner) => cause(inner),
        DataFusionError::SchemaError(schema, _) => schema_cause(schema),
        DataFusionError::SQL(parser, limit) if **parser == ParserError::RecursionLimitExceeded => (
            format!(
                "the statement is nested too deeply{}",
                limit.as_deref().unwrap_or_default()
            ),
            Some("SET datafusion.sql_parser.recursion_limit to more levels".to_string()),
        ),
        DataFusionError::SQL(parser, _) => {
            let text = parser.to_string();
            let (text, _) = caret::place_of(text.trim_start_matches("sql parser error: "));
            (format!("invalid SQL: {}", lower_first(text)), None)
        }
        DataFusionError::ParquetError(parquet) => (
            parquet.to_string().trim_start_matches("Parquet error: ").to_string(),
            Some("the file is cut off, damaged, or not Parquet".to_string()),
        ),
        DataFusionError::ArrowError(arrow, _) => (arrow.to_string(), None),
        DataFusionError::ObjectStore(store) => (store.to_string(), None),
        DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => cause(inner),
            None => (inner.to_string(), None),
        },
        DataFusionError::ResourcesExhausted(message) => (
            format!("out of memory: {message}"),
            Some("SET datafusion.runtime.memory_limit to more, or datafusion.execution.target_partitions to fewer".to_string()),
        ),
        DataFusionError::Plan(message)
        | DataFusionError::Configuration(message)
        | DataFusionError::Execution(message)
        | DataFusionError::NotImplemented(message) => plain_cause(message),
        other => (other.strip_backtrace(), None),
    }
}

/// The message and the hint of an error that is a plain string. Messages of Galatea contain their hints. For
/// some messages of DataFusion, this function adds a hint.
fn plain_cause(message: &str) -> (String, Option<String>) {
    // A backtrace, if enabled, follows the message.
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    if let Some(name) = message
        .strip_prefix("table '")
        .and_then(|rest| rest.strip_suffix("' not found"))
    {
        let name = name.trim_start_matches("datafusion.public.");
        let hint = "SHOW TABLES lists the tables; a file is a table in quotes: FROM 'file.parquet'";
        return (format!("no such table: {name}"), Some(hint.to_string()));
    }
    if let Some(found) = wrong_arguments(message) {
        return found;
    }
    if message.contains("Cannot coerce") || message.contains("Cannot infer common argument type") {
        let hint = "the operands have types that do not fit; convert one with CAST(... AS ...)";
        return (message.to_string(), Some(hint.to_string()));
    }
    (message.to_string(), None)
}

/// The message and the hint for a function call with arguments of wrong types; `None` for other messages.
/// DataFusion's message ends in the call with its types, and the list of the function's signatures.
fn wrong_arguments(message: &str) -> Option<(String, Option<String>)> {
    let (_, rest) = message.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once("'. ")?;
    let (name, _) = call.split_once('(')?;
    let (_, candidates) = rest.split_once("Candidate functions:")?;
    let candidates: Vec<&str> = candidates
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let hint = format!(
        "there is {}; convert arguments with CAST(... AS ...)",
        candidates.join(", ")
    );
    let hint = Some(hint).filter(|_| !candidates.is_empty());
    let problem = match call.ends_with("()") {
        true => format!("{name} needs arguments"),
        false => format!("{name} does not take these arguments: {call}"),
    };
    Some((problem, hint))
}

fn schema_cause(schema: &SchemaError) -> (String, Option<String>) {
    match schema {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<String> = valid_fields.iter().map(|column| column.name.clone()).collect();
            let mut hint = match closest_name(&field.name, &names) {
                Some(close) => format!("did you mean {close}? "),
                None => String::new(),
            };
            match names.as_slice() {
                [] => hint += "there is no table in FROM",
                names => {
                    hint += &format!("columns are {}", names[..names.len().min(20)].join(", "));
                    if names.len() > 20 {
                        hint += &format!(" and {} more", names.len() - 20);
                    }
                }
            }
            let field = field.quoted_flat_name();
            (format!("no such column: {field}"), Some(hint))
        }
        SchemaError::AmbiguousReference { field } => (
            format!("ambiguous column: {}", field.quoted_flat_name()),
            Some("put the table's name before it".to_string()),
        ),
        other => (other.to_string(), None),
    }
}

/// The name that the user probably meant by `wanted`: one that differs in case only, contains `wanted` or is
/// contained in it, or differs by a typing error.
pub fn closest_name<'a>(wanted: &str, names: &'a [String]) -> Option<&'a String> {
    let wanted = wanted.to_ascii_lowercase();
    let distance = |name: &String| {
        let name = name.to_ascii_lowercase();
        if name.contains(&wanted) || wanted.contains(&name) {
            0
        } else {
            damerau_levenshtein(&wanted, &name)
        }
    };
    let nearest = names.iter().map(|name| (distance(name), name)).min();
    nearest
        .filter(|(distance, _)| *distance <= wanted.len().div_ceil(4))
        .map(|(_, name)| name)
}

/// Lower-cases the first letter, unless the first word is a name in capitals (`SQL`, `CSV`).
fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::{Column, plan_datafusion_err};

    fn explain(error: &DataFusionError) -> String {
        error_message(error, None)
    }

    #[test]
    fn missing_tables_and_columns_are_named() {
        let table = plan_datafusion_err!("table 'datafusion.public.ordrs' not found");
        assert!(
            explain(&table).starts_with("no such table: ordrs\nhint: SHOW TABLES"),
            "{}",
            explain(&table)
        );
        let column = DataFusionError::SchemaError(
            Box::new(SchemaError::FieldNotFound {
                field: Box::new(Column::from_name("quantitty")),
                valid_fields: vec![Column::from_name("price"), Column::from_name("quantity")],
            }),
            Box::new(None),
        );
        assert_eq!(
            explain(&column.context("somewhere")),
            "no such column: quantitty\nhint: did you mean quantity? columns are price, quantity"
        );
    }

    #[test]
    fn existing_hints_are_preserved() {
        let ours =
            DataFusionError::Configuration("unknown setting: galatea.x\nhint: settings are a, b".to_string());
        assert_eq!(
            explain(&ours),
            "unknown setting: galatea.x\nhint: settings are a, b"
        );
        assert_eq!(lower_first("Expected a name"), "expected a name");
        assert_eq!(lower_first("SQL is"), "SQL is");
    }

    #[test]
    fn wrapped_errors_show_the_root_cause() {
        let inner = plan_datafusion_err!("Inner thing");
        let wrapped = DataFusionError::External(Box::new(inner.context("while planning")));
        assert_eq!(explain(&wrapped), "inner thing");
        let file =
            DataFusionError::ParquetError(Box::new(parquet_error())).context("cannot read 'x.parquet'");
        assert_eq!(
            explain(&file),
            "cannot read 'x.parquet': corrupt footer\nhint: the file is cut off, damaged, or not Parquet"
        );
    }

    fn parquet_error() -> datafusion::parquet::errors::ParquetError {
        datafusion::parquet::errors::ParquetError::General("Corrupt footer".to_string())
    }
}
