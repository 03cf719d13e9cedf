//! Cursors of a connection: `DECLARE`, `FETCH`, `MOVE` and `CLOSE`.
//!
//! A cursor is a running query. It waits until its client fetches rows, so its result is never collected. It
//! ends with the connection, with `CLOSE`, and, unless it was declared `WITH HOLD`, with `COMMIT` and
//! `ROLLBACK`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::{Stream, stream};
use parking_lot::Mutex;
use pgwire::error::{PgWireError, PgWireResult};

use super::errors::error_state;
use super::tokens::{Tokens, name, word};
use crate::failure::Failure;
use crate::query::Rows;

/// The most open cursors of a connection.
const CURSORS: usize = 100;

/// A statement about a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CursorStatement<'a> {
    Declare {
        name: String,
        holds: bool,
        query: &'a str,
    },
    /// `FETCH` or `MOVE`, by the command tag; `None` is all rows.
    Fetch {
        name: String,
        rows: Option<usize>,
        tag: &'static str,
    },
    /// `CLOSE name`; `None` is `ALL`.
    Close(Option<String>),
}

/// The statement about a cursor; `None` for other statements.
pub(super) fn parse(text: &str) -> Option<PgWireResult<CursorStatement<'_>>> {
    let first = text.split_whitespace().next()?;
    let tag = ["DECLARE", "FETCH", "MOVE", "CLOSE"]
        .into_iter()
        .find(|tag| first.eq_ignore_ascii_case(tag))?;
    let statement = Tokens::of(text, &PostgreSqlDialect {})?;
    Some(match tag {
        "DECLARE" => declare(&statement),
        "CLOSE" => match statement.tokens.as_slice() {
            [_, all] if word(all) == "ALL" => Ok(CursorStatement::Close(None)),
            [_, cursor] => name(cursor).map(|name| CursorStatement::Close(Some(name))),
            _ => Err(malformed("CLOSE { name | ALL }")),
        },
        _ => fetch(&statement.tokens, tag),
    })
}

fn malformed(form: &str) -> PgWireError {
    error_state(
        "42601",
        format!("syntax error\nhint: the statement has the form {form}"),
    )
}

fn declare<'a>(statement: &Tokens<'a>) -> PgWireResult<CursorStatement<'a>> {
    const FORM: &str = "DECLARE name [ NO SCROLL ] CURSOR [ { WITH | WITHOUT } HOLD ] FOR query";
    let tokens = &statement.tokens;
    let end = tokens.iter().position(|token| word(token) == "FOR");
    let (end, cursor) = end.zip(tokens.get(1)).ok_or_else(|| malformed(FORM))?;
    let words: Vec<_> = tokens[2..end.max(2)].iter().map(word).collect();
    let mut words: Vec<_> = words.iter().map(String::as_str).collect();
    for refused in ["BINARY", "SCROLL"] {
        let is_refused = words.contains(&refused) && !words.contains(&"NO");
        if is_refused {
            return Err(error_state(
                "0A000",
                format!("{refused} cursors are not supported"),
            ));
        }
    }
    words.retain(|word| !matches!(*word, "NO" | "SCROLL" | "INSENSITIVE" | "ASENSITIVE" | "BINARY"));
    let holds = match words.as_slice() {
        ["CURSOR"] | ["CURSOR", "WITHOUT", "HOLD"] => false,
        ["CURSOR", "WITH", "HOLD"] => true,
        _ => return Err(malformed(FORM)),
    };
    Ok(CursorStatement::Declare {
        name: name(cursor)?,
        holds,
        query: statement.after(end),
    })
}

fn fetch<'a>(tokens: &[Token], tag: &'static str) -> PgWireResult<CursorStatement<'a>> {
    let form = || malformed("{ FETCH | MOVE } [ NEXT | FORWARD ] [ number | ALL ] [ FROM | IN ] name");
    let [_, direction @ .., cursor] = tokens else {
        return Err(form());
    };
    let mut rows = Some(1);
    for (place, token) in direction.iter().enumerate() {
        let is_last = place + 1 == direction.len();
        match (word(token).as_str(), token) {
            ("NEXT" | "FORWARD", _) if place == 0 => {}
            ("ALL", _) => rows = None,
            ("FROM" | "IN", _) if is_last => {}
            ("", Token::Number(number, _)) => rows = Some(number.parse().map_err(|_| form())?),
            ("PRIOR" | "FIRST" | "LAST" | "ABSOLUTE" | "RELATIVE" | "BACKWARD", _) | (_, Token::Minus) => {
                let problem = "a cursor can only scan forward\nhint: FETCH FORWARD n FROM name";
                return Err(error_state("55000", problem.to_string()));
            }
            _ => return Err(form()),
        }
    }
    Ok(CursorStatement::Fetch {
        name: name(cursor)?,
        rows,
        tag,
    })
}

/// The open cursors of a connection.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<HashMap<String, Cursor>>);

#[derive(Debug)]
struct Cursor {
    schema: SchemaRef,
    holds: bool,
    source: Arc<tokio::sync::Mutex<Source>>,
}

/// The rows that were not fetched.
#[derive(Debug)]
struct Source {
    rows: Rows,
    /// The rest of the batch that was fetched last.
    rest: Option<RecordBatch>,
}

impl Source {
    /// The next rows, at most `most`.
    async fn next(&mut self, most: usize) -> Option<Result<RecordBatch, Failure>> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.rows.next().await? {
                Ok(batch) => batch,
                Err(failure) => return Some(Err(failure)),
            },
        };
        let taken = batch.num_rows().min(most);
        if taken < batch.num_rows() {
            self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
        }
        Some(Ok(batch.slice(0, taken)))
    }
}

impl Cursors {
    /// Checks that a cursor can be declared.
    ///
    /// # Errors
    /// The name is in use; the connection has its maximum number of cursors.
    pub(super) fn check_free(&self, name: &str) -> PgWireResult<()> {
        let cursors = self.0.lock();
        if cursors.contains_key(name) {
            return Err(error_state("42P03", format!("cursor \"{name}\" already exists")));
        }
        if cursors.len() >= CURSORS {
            let problem = format!("the connection has {CURSORS} cursors, the maximum\nhint: CLOSE some");
            return Err(error_state("53400", problem));
        }
        Ok(())
    }

    pub(super) fn open(&self, name: String, holds: bool, rows: Rows) {
        let cursor = Cursor {
            schema: Arc::clone(&rows.schema),
            holds,
            source: Arc::new(tokio::sync::Mutex::new(Source { rows, rest: None })),
        };
        self.0.lock().insert(name, cursor);
    }

    /// The columns of a cursor.
    pub(super) fn schema(&self, name: &str) -> PgWireResult<SchemaRef> {
        let cursors = self.0.lock();
        let cursor = cursors.get(name);
        cursor
            .map(|cursor| Arc::clone(&cursor.schema))
            .ok_or_else(|| unknown(name))
    }

    /// The next rows of a cursor; `None` is all. They are read as the stream is.
    pub(super) async fn fetch(
        &self,
        name: &str,
        rows: Option<usize>,
    ) -> PgWireResult<impl Stream<Item = Result<RecordBatch, Failure>> + Send + 'static + use<>> {
        let source = {
            let cursors = self.0.lock();
            let cursor = cursors.get(name).ok_or_else(|| unknown(name))?;
            Arc::clone(&cursor.source)
        };
        let source = source.lock_owned().await;
        let start = (source, rows.unwrap_or(usize::MAX));
        Ok(stream::unfold(start, |(mut source, left)| async move {
            if left == 0 {
                return None;
            }
            let batch = source.next(left).await?;
            let taken = batch.as_ref().map_or(left, RecordBatch::num_rows);
            Some((batch, (source, left - taken)))
        }))
    }

    /// The names of the open cursors, and whether they outlive a transaction.
    pub(super) fn names(&self) -> Vec<(String, bool)> {
        let cursors = self.0.lock();
        let names = cursors.iter().map(|(name, cursor)| (name.clone(), cursor.holds));
        names.collect()
    }

    /// Closes a cursor.
    pub(super) fn close(&self, name: &str) -> PgWireResult<()> {
        let closed = self.0.lock().remove(name);
        closed.map(drop).ok_or_else(|| unknown(name))
    }

    pub(super) fn close_all(&self) {
        self.0.lock().clear();
    }

    /// Closes the cursors that end with a transaction.
    pub(super) fn end_transaction(&self) {
        self.0.lock().retain(|_, cursor| cursor.holds);
    }
}

fn unknown(name: &str) -> PgWireError {
    error_state("34000", format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> CursorStatement<'_> {
        parse(text).expect("a cursor's statement").expect("a valid one")
    }

    fn refused(text: &str) -> String {
        match parse(text).expect("a cursor's statement") {
            Err(PgWireError::UserError(info)) => info.code,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn declarations_have_a_query() {
        let declared = |holds, query| CursorStatement::Declare {
            name: "c".to_string(),
            holds,
            query,
        };
        let query = "SELECT 'é', \"for\" FROM t\n FOR UPDATE";
        for (text, holds) in [
            (format!("DECLARE c CURSOR FOR {query}"), false),
            (
                format!("declare C no scroll cursor without hold for\n{query}"),
                false,
            ),
            (
                format!("/* é */ \n DECLARE \"c\" INSENSITIVE CURSOR WITH HOLD FOR {query}"),
                true,
            ),
        ] {
            match text.starts_with("/*") {
                // A comment before the statement is not searched for cursors.
                true => assert!(parse(&text).is_none()),
                false => assert_eq!(parsed(&text), declared(holds, query), "{text}"),
            }
        }
        assert_eq!(refused("DECLARE c SCROLL CURSOR FOR SELECT 1"), "0A000");
        assert_eq!(refused("DECLARE c BINARY CURSOR FOR SELECT 1"), "0A000");
        assert_eq!(refused("DECLARE c CURSOR SELECT 1"), "42601");
        assert_eq!(refused("DECLARE FOR SELECT 1"), "42601");
    }

    #[test]
    fn fetches_have_a_number_of_rows() {
        let fetched = |name: &str, rows, tag| CursorStatement::Fetch {
            name: name.to_string(),
            rows,
            tag,
        };
        assert_eq!(parsed("FETCH c"), fetched("c", Some(1), "FETCH"));
        assert_eq!(parsed("FETCH NEXT FROM c"), fetched("c", Some(1), "FETCH"));
        assert_eq!(parsed("fetch 10 in C"), fetched("c", Some(10), "FETCH"));
        assert_eq!(
            parsed("FETCH FORWARD 10 FROM \"C\""),
            fetched("C", Some(10), "FETCH")
        );
        assert_eq!(parsed("FETCH FORWARD ALL FROM c"), fetched("c", None, "FETCH"));
        assert_eq!(parsed("MOVE 5 c"), fetched("c", Some(5), "MOVE"));
        assert_eq!(refused("FETCH PRIOR FROM c"), "55000");
        assert_eq!(refused("FETCH -1 FROM c"), "55000");
        assert_eq!(refused("FETCH FROM c d"), "42601");
        assert_eq!(refused("FETCH"), "42601");
        assert_eq!(parsed("CLOSE c"), CursorStatement::Close(Some("c".to_string())));
        assert_eq!(parsed("close ALL"), CursorStatement::Close(None));
        assert!(parse("SELECT 1").is_none());
    }
}
