//! `RESET name` and `SET name = DEFAULT`, for settings of Galatea and of DataFusion.
//!
//! DataFusion resets only its own settings, and reads DEFAULT as a value.

use datafusion::common::plan_err;
use datafusion::config::SqlParserOptions;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, ResetVariable, Statement};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use galatea_engine::config::EngineSettings;

use crate::database;
use crate::system_settings::{dialect_of, setting_name};

/// A setting of a session that gets its default value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reset {
    name: String,
}

impl Reset {
    /// Parses `RESET name` and `SET name { = | TO } DEFAULT`; `None` for any other statement.
    ///
    /// # Errors
    /// The session's dialect is unknown.
    pub(crate) fn parse(options: &SqlParserOptions, text: &str) -> Result<Option<Self>> {
        let first = text.split_ascii_whitespace().next().unwrap_or_default();
        if !["RESET", "SET"]
            .iter()
            .any(|word| first.eq_ignore_ascii_case(word))
        {
            return Ok(None);
        }
        let dialect = dialect_of(options)?;
        // Errors of all other statements are DataFusion's.
        let parser = Parser::new(dialect.as_ref()).try_with_sql(text);
        Ok(parser.ok().and_then(|mut parser| Self::read(&mut parser)))
    }

    fn read(parser: &mut Parser<'_>) -> Option<Self> {
        let resets = parser.parse_keyword(Keyword::RESET);
        if !resets && !parser.parse_keyword(Keyword::SET) {
            return None;
        }
        let name = setting_name(parser).ok()?;
        let is_given = |parser: &mut Parser<'_>| {
            let assigns = parser.parse_keyword(Keyword::TO) || parser.consume_token(&Token::Eq);
            assigns && parser.parse_keyword(Keyword::DEFAULT)
        };
        if !resets && !is_given(parser) {
            return None;
        }
        while parser.consume_token(&Token::SemiColon) {}
        (parser.peek_token().token == Token::EOF).then_some(Self { name })
    }

    /// Resets the setting.
    ///
    /// # Errors
    /// The setting is unknown, or a setting of the engine.
    pub(crate) async fn execute(self, ctx: &SessionContext) -> Result<DataFrame> {
        if self.name == "all" {
            return plan_err!(
                "RESET needs the name of a setting\nhint: ALTER SYSTEM RESET ALL resets the settings of the engine"
            );
        }
        let own = self.name.strip_prefix("galatea.");
        if own.is_some_and(|name| EngineSettings::NAMES.contains(&name)) {
            return plan_err!(
                "{0} is a setting of the engine\nhint: ALTER SYSTEM RESET {0}",
                self.name
            );
        }
        if own.is_none() {
            let reset = Statement::ResetVariable(ResetVariable { variable: self.name });
            return database::execute(ctx, LogicalPlan::Statement(reset)).await;
        }
        let state = ctx.state_ref();
        let set = (state.write().config_mut().options_mut()).set(&self.name, "default");
        set?;
        database::kept_setting(ctx, &self.name, None)?;
        ctx.read_empty()?.limit(0, Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<String> {
        let parsed = Reset::parse(&SqlParserOptions::default(), text).expect("a dialect");
        parsed.map(|reset| reset.name)
    }

    #[test]
    fn resets_are_read_in_each_notation() {
        for (text, expected) in [
            ("RESET galatea.device", Some("galatea.device")),
            ("reset GALATEA.device ;", Some("galatea.device")),
            ("SET galatea.device = DEFAULT", Some("galatea.device")),
            (
                "set datafusion.execution.batch_size to default;",
                Some("datafusion.execution.batch_size"),
            ),
            ("SET datafusion.catalog.default_schema = 'default'", None),
            ("SET galatea.device = 'cpu'", None),
            ("SET galatea.device", None),
            ("RESET", None),
            ("RESET galatea.device galatea.fallback", None),
            ("SELECT 'RESET galatea.device'", None),
        ] {
            assert_eq!(parse(text).as_deref(), expected, "{text}");
        }
    }
}
