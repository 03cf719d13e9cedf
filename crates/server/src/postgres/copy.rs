//! `COPY ... TO STDOUT` and `FROM STDIN`: rows as lines of text or CSV.

use bytes::{BufMut, Bytes, BytesMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::{Sink, SinkExt, StreamExt};
use pgwire::api::results::QueryResponse;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::DataRow;

use super::errors::error_state;
use super::tokens::{self, Tokens, word};

/// A copy of rows to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyOut {
    /// The query of the rows.
    pub(super) query: String,
    pub(super) lines: Lines,
}

/// A copy of rows from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyIn {
    /// The name of the table, as SQL.
    pub(super) table: String,
    /// The names of the columns; `None` is all of them.
    pub(super) columns: Option<Vec<String>>,
    pub(super) lines: Lines,
}

/// A copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Copy {
    Out(CopyOut),
    In(CopyIn),
}

/// The form of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lines {
    is_csv: bool,
    has_header: bool,
    delimiter: u8,
    null: String,
    quote: u8,
    escape: u8,
}

/// The copy to or from the client; `None` for other statements, and for `COPY` to files.
pub(super) fn parse(text: &str) -> Option<PgWireResult<Copy>> {
    let first = text.split_whitespace().next()?;
    if !first.get(..4)?.eq_ignore_ascii_case("COPY") || !matches!(first.as_bytes().get(4), None | Some(b'('))
    {
        return None;
    }
    let statement = Tokens::of(text, &PostgreSqlDialect {})?;
    let tokens = &statement.tokens;
    let mut depth = 0;
    let direction = tokens.iter().position(|token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(word(token).as_str(), "TO" | "FROM")
    })?;
    match (
        word(&tokens[direction]).as_str(),
        word(tokens.get(direction + 1)?).as_str(),
    ) {
        ("TO", "STDOUT") => Some(copy_out(&statement, direction).map(Copy::Out)),
        ("FROM", "STDIN") => Some(copy_in(&statement, direction).map(Copy::In)),
        _ => None,
    }
}

fn copy_out(statement: &Tokens<'_>, direction: usize) -> PgWireResult<CopyOut> {
    let tokens = &statement.tokens;
    let lines = Lines::parse(&tokens[direction + 2..])?;
    let source = statement.between(0, direction);
    let query = if tokens[1] == Token::LParen {
        statement.between(1, direction - 1).to_string()
    } else if tokens[direction - 1] == Token::RParen {
        let columns = tokens
            .iter()
            .position(|token| *token == Token::LParen)
            .unwrap_or(direction);
        format!(
            "SELECT {} FROM {}",
            statement.between(columns, direction - 1),
            statement.between(0, columns)
        )
    } else {
        format!("SELECT * FROM {source}")
    };
    Ok(CopyOut { query, lines })
}

fn copy_in(statement: &Tokens<'_>, direction: usize) -> PgWireResult<CopyIn> {
    let tokens = &statement.tokens;
    let syntax = |problem: &str| {
        let form = "COPY table [(column, ...)] FROM STDIN [WITH (option, ...)]";
        error_state("42601", format!("{problem}\nhint: write {form}"))
    };
    let lines = Lines::parse(&tokens[direction + 2..])?;
    let open = tokens[..direction]
        .iter()
        .position(|token| *token == Token::LParen);
    let end = open.unwrap_or(direction);
    if end < 2 {
        return Err(syntax("COPY FROM STDIN needs the name of a table"));
    }
    let columns = match open {
        None => None,
        Some(open) => {
            let names = tokens[open + 1..direction].split(|token| *token == Token::Comma);
            let names = names.map(|name| match name {
                [one] | [one, Token::RParen] => tokens::name(one),
                _ => Err(syntax("the columns of COPY are names")),
            });
            Some(names.collect::<PgWireResult<Vec<_>>>()?)
        }
    };
    Ok(CopyIn {
        table: statement.between(0, end).to_string(),
        columns,
        lines,
    })
}

impl Lines {
    pub(super) fn is_csv(&self) -> bool {
        self.is_csv
    }

    pub(super) fn has_header(&self) -> bool {
        self.has_header
    }

    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    pub(super) fn null(&self) -> &str {
        &self.null
    }

    /// The quote and the escape within quotes.
    pub(super) fn quotes(&self) -> (u8, u8) {
        (self.quote, self.escape)
    }

    /// Reads options, as a list in parentheses or as the words of older versions.
    fn parse(tokens: &[Token]) -> PgWireResult<Self> {
        let invalid = |problem: String| error_state("22023", problem);
        let (mut is_csv, mut has_header, mut delimiter, mut null) = (false, false, None, None);
        let (mut quote, mut escape) = (b'"', None);
        let ignored = |token: &&Token| !matches!(token, Token::LParen | Token::RParen | Token::Comma);
        let mut tokens = tokens.iter().filter(ignored).peekable();
        while let Some(token) = tokens.next() {
            let option = word(token);
            let mut string = || {
                tokens.next_if(|token| word(token) == "AS");
                match tokens.next() {
                    Some(Token::SingleQuotedString(value) | Token::EscapedStringLiteral(value)) => {
                        Ok(value.clone())
                    }
                    _ => Err(invalid(format!("COPY {option} needs a string in quotes"))),
                }
            };
            let letter = |value: String| match value.as_bytes() {
                [letter] if !matches!(letter, b'\n' | b'\r' | b'\\') => Ok(*letter),
                _ => Err(invalid(format!("COPY {option} '{value}' must be one byte"))),
            };
            match option.as_str() {
                "WITH" => {}
                "CSV" => is_csv = true,
                "FORMAT" => match tokens.next().map(word).as_deref() {
                    Some("CSV") => is_csv = true,
                    Some("TEXT") => is_csv = false,
                    _ => {
                        let problem = "COPY supports the formats text and csv";
                        return Err(error_state("0A000", problem));
                    }
                },
                "HEADER" => {
                    let value = tokens.next_if(|token| {
                        matches!(word(token).as_str(), "TRUE" | "ON" | "FALSE" | "OFF")
                            || matches!(token, Token::Number(..))
                    });
                    let value = value.map(ToString::to_string).unwrap_or_default();
                    has_header = !matches!(value.to_ascii_uppercase().as_str(), "FALSE" | "OFF" | "0");
                }
                "DELIMITER" => delimiter = Some(letter(string()?)?),
                "NULL" => null = Some(string()?),
                "QUOTE" => quote = letter(string()?)?,
                "ESCAPE" => escape = Some(letter(string()?)?),
                "ENCODING" if matches!(string()?.to_ascii_uppercase().as_str(), "UTF8" | "UTF-8") => {}
                _ => {
                    return Err(error_state(
                        "0A000",
                        format!(
                            "COPY does not support the option {token}\n\
                             hint: options are FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE and ENCODING 'UTF8'"
                        ),
                    ));
                }
            }
        }
        let default = if is_csv { "" } else { "\\N" };
        Ok(Self {
            is_csv,
            has_header,
            delimiter: delimiter.unwrap_or(if is_csv { b',' } else { b'\t' }),
            null: null.unwrap_or_else(|| default.to_string()),
            quote,
            escape: escape.unwrap_or(quote),
        })
    }

    /// Sends the rows of a query, whose values are strings, as lines. Returns their number.
    pub(super) async fn send<C>(&self, client: &mut C, rows: QueryResponse) -> PgWireResult<usize>
    where
        C: Sink<PgWireBackendMessage> + Unpin + Send,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let columns = i16::try_from(rows.row_schema.len()).unwrap_or(i16::MAX);
        let begin = CopyOutResponse::new(0, columns, vec![0; rows.row_schema.len()]);
        client.feed(PgWireBackendMessage::CopyOutResponse(begin)).await?;
        let data = |line: Bytes| PgWireBackendMessage::CopyData(CopyData::new(line));
        if self.has_header {
            let names = rows.row_schema.iter().map(|field| Some(field.name().as_bytes()));
            client.feed(data(self.line(names))).await?;
        }
        let (mut sent, mut rows) = (0, rows.data_rows);
        while let Some(row) = rows.next().await {
            client.feed(data(self.line(Fields::of(&row?)))).await?;
            sent += 1;
        }
        client
            .feed(PgWireBackendMessage::CopyDone(CopyDone::new()))
            .await?;
        Ok(sent)
    }

    /// A line of values; `None` is NULL.
    fn line<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>) -> Bytes {
        let mut line = BytesMut::new();
        for (index, value) in values.enumerate() {
            if index > 0 {
                line.put_u8(self.delimiter);
            }
            match value {
                None => line.put_slice(self.null.as_bytes()),
                Some(value) if self.is_csv => self.put_csv(&mut line, value),
                Some(value) => self.put_text(&mut line, value),
            }
        }
        line.put_u8(b'\n');
        line.freeze()
    }

    fn put_csv(&self, line: &mut BytesMut, value: &[u8]) {
        let is_special =
            |byte: &u8| *byte == self.delimiter || *byte == self.quote || matches!(byte, b'\n' | b'\r');
        // The last would end the data of an older client.
        if !value.iter().any(is_special) && value != self.null.as_bytes() && value != b"\\." {
            return line.put_slice(value);
        }
        line.put_u8(self.quote);
        for byte in value {
            if *byte == self.quote || *byte == self.escape {
                line.put_u8(self.escape);
            }
            line.put_u8(*byte);
        }
        line.put_u8(self.quote);
    }

    fn put_text(&self, line: &mut BytesMut, value: &[u8]) {
        for byte in value {
            let escaped = match byte {
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x08 => b'b',
                0x0b => b'v',
                0x0c => b'f',
                byte if *byte == self.delimiter || *byte == b'\\' => *byte,
                byte => {
                    line.put_u8(*byte);
                    continue;
                }
            };
            line.put_slice(&[b'\\', escaped]);
        }
    }
}

/// The values of a row.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn of(row: &'a DataRow) -> Self {
        Self(&row.data)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        // A negative length is NULL.
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> CopyOut {
        match parse(text).expect("a copy to the client").expect("a valid one") {
            Copy::Out(copy) => copy,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn refused(text: &str) -> String {
        match parse(text).expect("a copy to the client") {
            Err(PgWireError::UserError(info)) => info.code,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn queries_and_tables_are_copied() {
        assert_eq!(parsed("COPY t TO STDOUT").query, "SELECT * FROM t");
        assert_eq!(
            parsed("copy \"s\".\"T\" (a, \"B\") to stdout").query,
            "SELECT a, \"B\" FROM \"s\".\"T\""
        );
        let query = "SELECT f(a), 'to stdout' FROM t WHERE (b) IN (1)";
        assert_eq!(parsed(&format!("COPY ({query}) TO STDOUT WITH CSV")).query, query);
        assert_eq!(parsed(&format!("COPY({query})TO STDOUT")).query, query);
        for other in [
            "COPY t TO 'file.csv'",
            "SELECT 1",
            "COPYING",
            "COPY t FROM 'f.csv'",
            "COPY (SELECT 1",
        ] {
            assert!(parse(other).is_none(), "{other}");
        }
        assert_eq!(refused("COPY FROM STDIN"), "42601");
        assert_eq!(refused("COPY t (a, b c) FROM STDIN"), "42601");
    }

    #[test]
    fn tables_are_filled_from_the_client() {
        let parsed = |text: &str| match parse(text).expect(text).expect(text) {
            Copy::In(copy) => copy,
            other => panic!("{text}: {other:?}"),
        };
        let copy = parsed("COPY t FROM STDIN");
        assert_eq!((copy.table.as_str(), copy.columns), ("t", None));
        let copy = parsed("copy \"s\".\"T\" (a, \"B\") from stdin with (format csv, header)");
        assert_eq!(copy.table, "\"s\".\"T\"");
        assert_eq!(copy.columns, Some(vec!["a".to_string(), "B".to_string()]));
        assert!(copy.lines.is_csv() && copy.lines.has_header());
    }

    #[test]
    fn options_are_read_in_both_forms() {
        let csv = Lines {
            is_csv: true,
            has_header: true,
            delimiter: b'|',
            null: "-".to_string(),
            quote: b'"',
            escape: b'"',
        };
        for options in [
            "(FORMAT csv, HEADER, DELIMITER '|', NULL '-')",
            "WITH (HEADER true, FORMAT CSV, NULL '-', DELIMITER '|', ENCODING 'utf8')",
            "CSV HEADER DELIMITER AS '|' NULL AS '-'",
            "WITH CSV DELIMITER '|' NULL '-' HEADER",
        ] {
            assert_eq!(
                parsed(&format!("COPY t TO STDOUT {options}")).lines,
                csv,
                "{options}"
            );
        }
        for (options, state) in [
            ("(FORMAT binary)", "0A000"),
            ("BINARY", "0A000"),
            ("(FORCE_QUOTE *)", "0A000"),
            ("(DELIMITER '||')", "22023"),
            ("(DELIMITER)", "22023"),
            ("(ENCODING 'LATIN1')", "0A000"),
        ] {
            assert_eq!(
                refused(&format!("COPY t TO STDOUT {options}")),
                state,
                "{options}"
            );
        }
    }

    #[test]
    fn values_are_quoted_and_escaped() {
        let line = |options: &str, values: &[Option<&str>]| {
            let lines = parsed(&format!("COPY t TO STDOUT {options}")).lines;
            let values = values.iter().map(|value| value.map(str::as_bytes));
            String::from_utf8(lines.line(values).to_vec()).expect("UTF-8")
        };
        let values = [Some("a\tb"), None, Some(""), Some("\\N"), Some("x\ny\"z\"")];
        assert_eq!(line("", &values), "a\\tb\t\\N\t\t\\\\N\tx\\ny\"z\"\n");
        assert_eq!(line("CSV", &values), "a\tb,,\"\",\\N,\"x\ny\"\"z\"\"\"\n");
        assert_eq!(
            line("(FORMAT csv, QUOTE '''', ESCAPE '~')", &[Some("it's~")]),
            "'it~'s~~'\n"
        );
        assert_eq!(line("(DELIMITER ';')", &[Some("a;b")]), "a\\;b\n");
        assert_eq!(line("CSV", &[Some("\\.")]), "\"\\.\"\n");
    }
}
