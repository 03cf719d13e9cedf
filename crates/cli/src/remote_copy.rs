//! `COPY ... TO STDOUT` of `galatea connect`: the server runs the query, and its rows are written here.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The name of the table of received rows in the local plan.
const ROWS: &str = "__galatea_remote_rows";

/// A COPY to standard output.
pub(crate) struct RemoteCopy {
    /// The query for the server.
    pub(crate) query: String,
    copy: CopyToStatement,
}

impl RemoteCopy {
    /// Parses a COPY to standard output; `None` for other statements: the server reports their errors.
    pub(crate) fn read(ctx: &SessionContext, text: &str) -> Result<Option<Self>> {
        let first = text.split_whitespace().next().unwrap_or_default();
        let is_copy = first
            .get(..4)
            .is_some_and(|word| word.eq_ignore_ascii_case("COPY"));
        let Some(query) = is_copy.then(|| source(text)).flatten() else {
            return Ok(None);
        };
        match galatea::unresolved_statement(text, &ctx.state())? {
            Statement::CopyTo(copy) if copy.target.starts_with(galatea::STANDARD_OUTPUT) => {
                Ok(Some(Self { query, copy }))
            }
            _ => Ok(None),
        }
    }

    /// The plan that writes the rows of the server.
    pub(crate) async fn frame(
        self,
        ctx: &SessionContext,
        rows: SendableRecordBatchStream,
    ) -> Result<DataFrame> {
        let schema = rows.schema();
        let rows = Arc::new(Received {
            schema: SchemaRef::clone(&schema),
            rows: Mutex::new(Some(rows)),
        });
        let table = StreamingTable::try_new(schema, vec![rows])?;
        ctx.register_table(ROWS, Arc::new(table))?;
        let copy = CopyToStatement {
            source: CopyToSource::Relation(ObjectName::from(vec![Ident::new(ROWS)])),
            ..self.copy
        };
        let plan = ctx.state().statement_to_plan(Statement::CopyTo(copy)).await;
        ctx.deregister_table(ROWS)?;
        ctx.execute_logical_plan(plan?).await
    }
}

/// The query of a COPY: the one in parentheses, or all rows of the table.
fn source(text: &str) -> Option<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().ok()?;
    let word = |token: &Token, name: &str| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name));
    let begin = tokens.iter().position(|token| word(token, "COPY"))? + 1;
    let mut depth = 0_usize;
    let mut end = None;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            token if depth == 0 && word(token, "TO") => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let text: String = tokens[begin..end?].iter().map(ToString::to_string).collect();
    let text = text.trim();
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(query) => Some(query.trim().to_owned()),
        None => Some(format!("SELECT * FROM {text}")),
    }
}

/// Rows of the server, which are read once.
struct Received {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Received")
    }
}

impl PartitionStream for Received {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.unwrap_or_else(|| Box::pin(EmptyRecordBatchStream::new(SchemaRef::clone(&self.schema))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_the_query_of_the_copy() {
        for (text, expected) in [
            ("COPY t TO STDOUT", Some("SELECT * FROM t")),
            (
                "copy \"a TO b\".t to '-' (format json)",
                Some("SELECT * FROM \"a TO b\".t"),
            ),
            (
                "COPY (SELECT ')' AS \"TO\", (1) AS b -- TO\nFROM t) TO STDOUT",
                Some("SELECT ')' AS \"TO\", (1) AS b -- TO\nFROM t"),
            ),
            ("COPY(FROM t)TO STDOUT", Some("FROM t")),
            ("COPY t FROM STDIN", None),
            ("COPY", None),
        ] {
            assert_eq!(source(text).as_deref(), expected, "{text}");
        }
    }
}
