//! `ALTER SYSTEM SET galatea.memory.admission = value`: changes settings of an engine for all its sessions.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{exec_err, plan_datafusion_err};
use datafusion::config::SqlParserOptions;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use galatea_engine::config::EngineSettings;
use galatea_engine::session::Session;

/// The session's dialect.
///
/// # Errors
/// It is unknown.
pub(crate) fn dialect_of(options: &SqlParserOptions) -> Result<Box<dyn Dialect>> {
    dialect_from_str(options.dialect)
        .ok_or_else(|| plan_datafusion_err!("unknown SQL dialect: {}", options.dialect))
}

/// Parses the name of a setting, which is returned in lower case.
pub(crate) fn setting_name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let name = parser.parse_object_name(false)?;
    let parts = name.0.iter().map(ToString::to_string);
    Ok(parts.collect::<Vec<_>>().join(".").to_ascii_lowercase())
}

/// A change of an engine's setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AlterSystem {
    name: String,
    value: String,
}

impl AlterSystem {
    /// Parses `ALTER SYSTEM SET name { = | TO } value` and `ALTER SYSTEM RESET { name | ALL }`; `None` for
    /// any other statement.
    ///
    /// # Errors
    /// The parser's, if the rest of an `ALTER SYSTEM` is malformed.
    pub(crate) fn parse(options: &SqlParserOptions, text: &str) -> Result<Option<Self>> {
        let mut words = text.split_ascii_whitespace();
        let mut is_next = |word: &str| words.next().is_some_and(|next| next.eq_ignore_ascii_case(word));
        if !(is_next("ALTER") && is_next("SYSTEM")) {
            return Ok(None);
        }
        let dialect = dialect_of(options)?;
        let parsed = Parser::new(dialect.as_ref())
            .try_with_sql(text)
            .and_then(|mut parser| Self::change(&mut parser));
        parsed
            .map(Some)
            .map_err(|error| DataFusionError::SQL(Box::new(error), None))
    }

    fn change(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        parser.expect_keywords(&[Keyword::ALTER, Keyword::SYSTEM])?;
        let resets = parser.parse_keyword(Keyword::RESET);
        if !resets {
            parser.expect_keyword(Keyword::SET)?;
        }
        let name = setting_name(parser)?;
        let value = match resets {
            true => "default".to_owned(),
            false => {
                if !parser.parse_keyword(Keyword::TO) {
                    parser.expect_token(&Token::Eq)?;
                }
                match parser.next_token().token {
                    Token::SingleQuotedString(value) | Token::Number(value, _) => value,
                    Token::Word(word) => word.value,
                    _ => return parser.expected("a value", parser.peek_token()),
                }
            }
        };
        while parser.consume_token(&Token::SemiColon) {}
        match parser.peek_token().token {
            Token::EOF => Ok(Self { name, value }),
            _ => parser.expected("the end of the statement", parser.peek_token()),
        }
    }

    /// Changes the setting or all of them, and returns a row for each with its value and the number of
    /// affected sessions.
    ///
    /// # Errors
    /// The context is not a Galatea session; the setting is unknown, is a setting of a session, or does not
    /// accept the value.
    pub(crate) fn execute(&self, ctx: &SessionContext) -> Result<DataFrame> {
        let Some(session) = ctx.copied_config().get_extension::<Session>() else {
            return exec_err!(
                "ALTER SYSTEM changes an engine, and this context has none\n\
                 hint: galatea::install(&ctx) makes it a session of one"
            );
        };
        let engine = session.engine();
        let names = match self.is_all() {
            true => (EngineSettings::NAMES.iter())
                .map(|name| format!("galatea.{name}"))
                .collect(),
            false => vec![self.name.clone()],
        };
        let mut sessions = 0;
        for name in &names {
            sessions = engine.set(name, &self.value)?;
        }
        let settings = engine.settings().entries();
        let value = |name: &String| {
            let mut entries = settings.iter().filter(|entry| entry.key == *name);
            entries.find_map(|entry| entry.value.clone())
        };
        let values: Vec<Option<String>> = names.iter().map(value).collect();
        let counts = vec![sessions as u64; names.len()];
        let schema = Schema::new(vec![
            Field::new("setting", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, true),
            Field::new("sessions", DataType::UInt64, false),
        ]);
        ctx.read_batch(RecordBatch::try_new(
            Arc::new(schema),
            vec![
                Arc::new(StringArray::from(names)),
                Arc::new(StringArray::from(values)),
                Arc::new(UInt64Array::from(counts)),
            ],
        )?)
    }

    /// Whether all settings of the engine are reset.
    fn is_all(&self) -> bool {
        (self.name.as_str(), self.value.as_str()) == ("all", "default")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(String, String)>> {
        let parsed = AlterSystem::parse(&SqlParserOptions::default(), text)?;
        Ok(parsed.map(|change| (change.name, change.value)))
    }

    #[test]
    fn alter_system_is_parsed_in_every_notation() {
        let limit = |value: &str| Some(("galatea.memory.gpu_limit".to_owned(), value.to_owned()));
        for (text, expected) in [
            (
                "ALTER SYSTEM SET galatea.memory.gpu_limit = '8 GiB'",
                limit("8 GiB"),
            ),
            (
                "alter system set GALATEA.memory.gpu_limit to auto;",
                limit("auto"),
            ),
            (
                "ALTER SYSTEM\n SET galatea.memory.gpu_limit = 1000",
                limit("1000"),
            ),
            ("ALTER SYSTEM RESET galatea.memory.gpu_limit ;", limit("default")),
            ("ALTER TABLE t SET (conflict_layout = 'auto')", None),
            ("SELECT 'ALTER SYSTEM SET x = 1'", None),
        ] {
            assert_eq!(parse(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn malformed_alter_system_is_refused() {
        for text in [
            "ALTER SYSTEM",
            "ALTER SYSTEM SET",
            "ALTER SYSTEM SET galatea.memory.admission",
            "ALTER SYSTEM SET galatea.memory.admission =",
            "ALTER SYSTEM SET galatea.memory.admission = 'auto' 'auto'",
            "ALTER SYSTEM DROP galatea.memory.admission",
        ] {
            parse(text).expect_err(text);
        }
    }
}
