//! The parser of `ALTER TABLE t SET (conflict_layout = 'auto', ...)`.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;
use datafusion::common::TableReference;
use datafusion::config::SqlParserOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use galatea_layout::Goal;
use galatea_store::ConflictLayout;
use galatea_store::layout::Room;

use super::error::ConflictLayoutError;

/// The prefix of all options.
const PREFIX: &str = "conflict_";
const LAYOUTS: &str = "auto, writes, reads, values or none";

/// A statement that lays out columns of a table; see [`sql`](crate::sql()).
#[derive(Debug, Clone, PartialEq)]
pub struct ConflictLayoutStatement {
    table: TableReference,
    /// The layout of all columns, if given; the inner `None` removes layouts.
    all: Option<Option<ConflictLayout>>,
    /// The layouts of named columns.
    columns: BTreeMap<String, Option<ConflictLayout>>,
}

/// An option: the parts of its name and its value.
type Written = (Vec<String>, String);

impl ConflictLayoutStatement {
    /// Parses `text` with the session's options; `None` for any other statement, which DataFusion then parses
    /// or refuses.
    ///
    /// # Errors
    /// [`ConflictLayoutError`] for unknown options and for values that an option does not accept; a parser's
    /// error if the options are malformed.
    pub fn parse(options: &SqlParserOptions, text: &str) -> Result<Option<Self>> {
        // Few statements name an option; the others are not parsed twice.
        if !text.to_ascii_lowercase().contains(PREFIX) {
            return Ok(None);
        }
        let Some(dialect) = dialect_from_str(options.dialect) else {
            return Ok(None);
        };
        let Ok(mut parser) = Parser::new(dialect.as_ref()).try_with_sql(text) else {
            return Ok(None);
        };
        if !parser.parse_keywords(&[Keyword::ALTER, Keyword::TABLE]) {
            return Ok(None);
        }
        let Ok(name) = parser.parse_object_name(false) else {
            return Ok(None);
        };
        let is_ours = |parser: &Parser<'_>| match parser.peek_token().token {
            Token::Word(word) => word.value.to_ascii_lowercase().starts_with(PREFIX),
            _ => false,
        };
        let opens = parser.parse_keyword(Keyword::SET) && parser.consume_token(&Token::LParen);
        if !opens || !is_ours(&parser) {
            return Ok(None);
        }
        let written = options_of(&mut parser, options.enable_ident_normalization)
            .map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
        let table = object_name_to_table_reference(name, options.enable_ident_normalization)?;
        Ok(Some(Self::new(table, &written)?))
    }

    fn new(table: TableReference, written: &[Written]) -> Result<Self, ConflictLayoutError> {
        let mut budget = None;
        let mut window = ConflictLayout::WINDOW;
        for (name, value) in written {
            let refused = |accepts| ConflictLayoutError::Value {
                option: name.join("."),
                value: value.clone(),
                accepts,
            };
            match name.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["conflict_layout"] | ["conflict_layout", _] => {}
                ["conflict_window"] => {
                    window = value
                        .parse()
                        .ok()
                        .filter(|window| *window <= 1024)
                        .ok_or_else(|| refused("a whole number from 0 to 1024"))?;
                }
                ["conflict_budget"] => {
                    let copies = value.parse().ok().filter(|copies| *copies >= 1.0);
                    let copies = copies.ok_or_else(|| refused("a number from 1 on: copies per value"))?;
                    budget = Some(Room::Copies(copies));
                }
                _ => {
                    return Err(ConflictLayoutError::Option {
                        option: name.join("."),
                    });
                }
            }
        }
        let mut statement = Self {
            table,
            all: None,
            columns: BTreeMap::new(),
        };
        for (name, value) in written.iter().filter(|(name, _)| name[0] == "conflict_layout") {
            let layout = match value.to_ascii_lowercase().as_str() {
                "auto" => Some((Goal::Writes { window }, Room::Auto)),
                "writes" => Some((Goal::Writes { window }, Room::Table)),
                "values" => Some((Goal::WritesByValue { window }, Room::Table)),
                "reads" => Some((Goal::Reads, Room::Table)),
                "none" => None,
                _ => {
                    return Err(ConflictLayoutError::Value {
                        option: name.join("."),
                        value: value.clone(),
                        accepts: LAYOUTS,
                    });
                }
            };
            let layout = layout.map(|(goal, room)| ConflictLayout {
                goal,
                room: budget.unwrap_or(room),
            });
            match name.get(1) {
                None => statement.all = Some(layout),
                Some(column) => {
                    statement.columns.insert(column.clone(), layout);
                }
            }
        }
        if statement.all.is_none() && statement.columns.is_empty() {
            return Err(ConflictLayoutError::Nothing);
        }
        Ok(statement)
    }

    /// The table.
    pub fn table(&self) -> &TableReference {
        &self.table
    }

    /// The layout given for a column, if any, and whether the statement names the column.
    pub(super) fn layout_of(&self, column: &str) -> Option<(Option<ConflictLayout>, bool)> {
        match self.columns.get(column) {
            Some(layout) => Some((*layout, true)),
            None => self.all.map(|layout| (layout, false)),
        }
    }

    /// Checks that the named columns exist.
    pub(super) fn check_columns(&self, schema: &Schema) -> Result<(), ConflictLayoutError> {
        let unknown = self
            .columns
            .keys()
            .find(|column| schema.column_with_name(column).is_none());
        match unknown {
            None => Ok(()),
            Some(column) => Err(ConflictLayoutError::Column {
                table: self.table.to_string(),
                column: column.clone(),
                columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
            }),
        }
    }
}

/// Reads `name = value, ...)` up to the end of the string.
fn options_of(parser: &mut Parser<'_>, normalise: bool) -> Result<Vec<Written>, ParserError> {
    let options = parser.parse_comma_separated(|parser| {
        let name = parser.parse_object_name(false)?;
        parser.expect_token(&Token::Eq)?;
        let value = parser.next_token();
        match value.token {
            Token::SingleQuotedString(text) | Token::Number(text, _) => Ok((parts(&name, normalise), text)),
            Token::Word(word) => Ok((parts(&name, normalise), word.value)),
            _ => parser.expected("a value", value),
        }
    })?;
    parser.expect_token(&Token::RParen)?;
    while parser.consume_token(&Token::SemiColon) {}
    match parser.next_token() {
        end if end.token == Token::EOF => Ok(options),
        more => parser.expected("the end of the statement", more),
    }
}

/// The parts of an option's name. `conflict_layout.Flag` becomes `conflict_layout` and `flag`; if the whole
/// name or the column is quoted, the second part is `Flag`.
fn parts(name: &ObjectName, normalise: bool) -> Vec<String> {
    let text = |ident: &Ident| match ident.quote_style {
        None if normalise => ident.value.to_lowercase(),
        _ => ident.value.clone(),
    };
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(text)
        .collect();
    match parts.as_slice() {
        [whole] => whole.splitn(2, '.').map(str::to_string).collect(),
        // A name that contains dots is quoted; without quotes, every part counts.
        [first, rest @ ..] => vec![first.clone(), rest.join(".")],
        [] => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<ConflictLayoutStatement>> {
        ConflictLayoutStatement::parse(&SqlParserOptions::default(), text)
    }

    fn wish(goal: Goal) -> ConflictLayout {
        ConflictLayout {
            goal,
            room: Room::Table,
        }
    }

    #[test]
    fn layout_statements_are_parsed() {
        let statement = parse("alter table T set (conflict_layout = 'auto');");
        let statement = statement.expect("valid").expect("ours");
        assert_eq!(statement.table().to_string(), "t");
        assert_eq!(
            statement.layout_of("any"),
            Some((Some(ConflictLayout::AUTO), false))
        );
        let statement = parse(
            "ALTER TABLE s.\"T\" SET (conflict_layout.Flag = writes, \"conflict_layout.Flag\" = 'reads', \
             conflict_layout.\"a.b\" = 'none', conflict_window = 2, conflict_budget = 1.5)",
        );
        let statement = statement.expect("valid").expect("ours");
        assert_eq!(statement.table().to_string(), "s.T");
        let bounded = |goal| ConflictLayout {
            room: Room::Copies(1.5),
            ..wish(goal)
        };
        let window = 2;
        assert_eq!(
            statement.layout_of("flag"),
            Some((Some(bounded(Goal::Writes { window })), true))
        );
        assert_eq!(
            statement.layout_of("Flag"),
            Some((Some(bounded(Goal::Reads)), true))
        );
        assert_eq!(statement.layout_of("a.b"), Some((None, true)));
        assert_eq!(statement.layout_of("other"), None);
        let statement =
            parse("ALTER TABLE 'd/f.parquet' SET (conflict_layout = 'none', conflict_layout.k = 'values')");
        let statement = statement.expect("valid").expect("ours");
        assert_eq!(statement.table(), &TableReference::bare("d/f.parquet"));
        assert_eq!(statement.layout_of("x"), Some((None, false)));
        let window = ConflictLayout::WINDOW;
        assert_eq!(
            statement.layout_of("k"),
            Some((Some(wish(Goal::WritesByValue { window })), true))
        );
    }

    #[test]
    fn other_statements_are_not_layout_statements() {
        for text in [
            "SELECT 1",
            "SELECT conflict_layout FROM t",
            "ALTER TABLE t RENAME TO conflict_t",
            "ALTER TABLE t SET (fillfactor = 70, conflict_layout = 'auto')",
            "SELECT 'conflict_ open",
        ] {
            assert_eq!(parse(text).expect(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_layout_options_list_the_accepted_values() {
        for (text, message) in [
            (
                "ALTER TABLE t SET (conflict_layout = 'best')",
                "hint: conflict_layout accepts auto, writes, reads, values or none",
            ),
            (
                "ALTER TABLE t SET (conflict_layuot = 'auto')",
                "unknown option: conflict_layuot\nhint: options are",
            ),
            ("ALTER TABLE t SET (conflict_window = 3)", "no layout is given"),
            (
                "ALTER TABLE t SET (conflict_layout = 'auto', conflict_window = -1)",
                "Expected: a value",
            ),
            (
                "ALTER TABLE t SET (conflict_layout = 'auto', conflict_window = 'x')",
                "hint: conflict_window accepts a whole number",
            ),
            (
                "ALTER TABLE t SET (conflict_layout = 'auto', conflict_budget = 0.5)",
                "hint: conflict_budget accepts a number from 1 on",
            ),
            ("ALTER TABLE t SET (conflict_layout = 'auto'", "Expected: )"),
            (
                "ALTER TABLE t SET (conflict_layout = 'auto'); SELECT 1",
                "Expected: the end of the statement",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
