//! Reads the lines of `COPY ... FROM STDIN`: text and CSV, in pieces of any size.

use pgwire::error::{PgWireError, PgWireResult};

use super::copy::Lines;
use super::errors::error_state;

/// A row: the number of its first line, and its values; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) values: Vec<Option<Vec<u8>>>,
}

/// Data that is no valid copy.
pub(super) fn malformed(problem: impl Into<String>) -> PgWireError {
    error_state("22P04", problem)
}

/// The reader. Rows may begin and end in any piece.
#[derive(Debug)]
pub(super) struct LineReader {
    lines: Lines,
    /// The number of the current line, from 1 on.
    line: u64,
    record: Record,
    /// The bytes of the current value; text with its escapes.
    value: Vec<u8>,
    in_quotes: bool,
    was_quoted: bool,
    /// Whether the previous byte was an escape. The next byte determines its meaning.
    escaped: bool,
    /// Whether a line end of two bytes may continue.
    after_return: bool,
    /// Whether the current row has a byte.
    begun: bool,
    skips_header: bool,
    ended: bool,
}

impl LineReader {
    pub(super) fn new(lines: Lines) -> Self {
        Self {
            skips_header: lines.has_header(),
            lines,
            line: 1,
            record: Record {
                line: 1,
                values: Vec::new(),
            },
            value: Vec::new(),
            in_quotes: false,
            was_quoted: false,
            escaped: false,
            after_return: false,
            begun: false,
            ended: false,
        }
    }

    /// Bytes of the row that has not ended.
    pub(super) fn pending(&self) -> usize {
        let values = self.record.values.iter().flatten();
        self.value.len() + values.map(Vec::len).sum::<usize>()
    }

    /// Reads a piece, and passes each row that ends in it to `row`.
    ///
    /// # Errors
    /// Those of `row`; a value that is not valid.
    pub(super) fn read(
        &mut self,
        piece: &[u8],
        row: &mut impl FnMut(Record) -> PgWireResult<()>,
    ) -> PgWireResult<()> {
        for byte in piece {
            if self.ended {
                return Ok(());
            }
            match self.lines.is_csv() {
                true => self.csv(*byte, row)?,
                false => self.text(*byte, row)?,
            }
        }
        Ok(())
    }

    /// Ends the data: its last line may have no end.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); a quote that is open.
    pub(super) fn finish(&mut self, row: &mut impl FnMut(Record) -> PgWireResult<()>) -> PgWireResult<()> {
        if self.ended || !self.begun {
            return Ok(());
        }
        if self.in_quotes && !self.escaped {
            return Err(malformed(format!(
                "unterminated CSV quoted field (line {})",
                self.record.line
            )));
        }
        self.end_row(row)
    }

    fn csv(&mut self, byte: u8, row: &mut impl FnMut(Record) -> PgWireResult<()>) -> PgWireResult<()> {
        let (quote, escape) = self.lines.quotes();
        if self.in_quotes {
            self.line += u64::from(byte == b'\n');
            if !std::mem::take(&mut self.escaped) {
                match byte {
                    byte if byte == escape => self.escaped = true,
                    byte if byte == quote => self.in_quotes = false,
                    byte => self.value.push(byte),
                }
                return Ok(());
            }
            if byte == quote || byte == escape {
                self.value.push(byte);
                return Ok(());
            }
            if escape != quote {
                // An escape before another byte is that byte's neighbour.
                self.value.extend([escape, byte]);
                return Ok(());
            }
            // The previous byte ended the quotes. A line end behind them is counted below.
            self.in_quotes = false;
            self.line -= u64::from(byte == b'\n');
        }
        if byte == quote {
            self.begun = true;
            (self.in_quotes, self.was_quoted) = (true, true);
            return Ok(());
        }
        self.plain(byte, row)
    }

    fn text(&mut self, byte: u8, row: &mut impl FnMut(Record) -> PgWireResult<()>) -> PgWireResult<()> {
        if std::mem::take(&mut self.escaped) {
            self.line += u64::from(byte == b'\n');
            self.value.push(byte);
            return Ok(());
        }
        if byte == b'\\' {
            (self.escaped, self.begun) = (true, true);
            self.value.push(byte);
            return Ok(());
        }
        self.plain(byte, row)
    }

    /// A byte outside of quotes and escapes.
    fn plain(&mut self, byte: u8, row: &mut impl FnMut(Record) -> PgWireResult<()>) -> PgWireResult<()> {
        let after_return = std::mem::take(&mut self.after_return);
        match byte {
            b'\n' if after_return => Ok(()),
            b'\n' | b'\r' => {
                self.after_return = byte == b'\r';
                self.line += 1;
                self.begun = true;
                self.end_row(row)
            }
            byte if byte == self.lines.delimiter() => {
                self.begun = true;
                self.end_value();
                Ok(())
            }
            byte => {
                self.begun = true;
                self.value.push(byte);
                Ok(())
            }
        }
    }

    fn end_value(&mut self) {
        let value = std::mem::take(&mut self.value);
        let was_quoted = std::mem::take(&mut self.was_quoted);
        self.in_quotes = false;
        self.escaped = false;
        let is_null = !was_quoted && value == self.lines.null().as_bytes();
        self.record.values.push(match is_null {
            true => None,
            false if self.lines.is_csv() => Some(value),
            false => Some(unescaped(&value)),
        });
    }

    fn end_row(&mut self, row: &mut impl FnMut(Record) -> PgWireResult<()>) -> PgWireResult<()> {
        // The mark of the end of data of older clients.
        if self.record.values.is_empty() && !self.was_quoted && self.value == b"\\." {
            self.ended = true;
            return Ok(());
        }
        self.end_value();
        self.begun = false;
        let next = Record {
            line: self.line,
            values: Vec::with_capacity(self.record.values.len()),
        };
        let record = std::mem::replace(&mut self.record, next);
        match std::mem::take(&mut self.skips_header) {
            true => Ok(()),
            false => row(record),
        }
    }
}

/// A value of the text format without its escapes.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let [letter, after @ ..] = rest else {
            plain.push(b'\\');
            break;
        };
        rest = after;
        match letter {
            b'b' => plain.push(0x08),
            b'f' => plain.push(0x0c),
            b'n' => plain.push(b'\n'),
            b'r' => plain.push(b'\r'),
            b't' => plain.push(b'\t'),
            b'v' => plain.push(0x0b),
            b'0'..=b'7' => plain.push(number(letter - b'0', 8, 2, &mut rest)),
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                plain.push(number(0, 16, 2, &mut rest));
            }
            other => plain.push(*other),
        }
    }
    plain
}

/// A byte of up to `digits` further digits; its lowest eight bits.
fn number(first: u8, radix: u8, digits: usize, rest: &mut &[u8]) -> u8 {
    let mut value = first;
    for _ in 0..digits {
        let digit = rest
            .first()
            .and_then(|byte| char::from(*byte).to_digit(u32::from(radix)));
        let Some(digit) = digit else { break };
        value = value
            .wrapping_mul(radix)
            .wrapping_add(u8::try_from(digit).unwrap_or(0));
        *rest = &rest[1..];
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::copy;

    /// The rows of `data`, with NULL as `~`, read in pieces of each size.
    fn rows(options: &str, data: &str) -> Result<Vec<String>, String> {
        let lines = || match copy::parse(&format!("COPY t FROM STDIN {options}")) {
            Some(Ok(copy::Copy::In(copy))) => copy.lines,
            other => panic!("{options}: {other:?}"),
        };
        let mut results = Vec::new();
        for size in [1, 2, 3, data.len().max(1)] {
            let mut reader = LineReader::new(lines());
            let mut found = Vec::new();
            let mut row = |record: Record| {
                let values = record.values.into_iter().map(|value| match value {
                    Some(value) => String::from_utf8(value).expect("UTF-8"),
                    None => "~".to_string(),
                });
                found.push(format!(
                    "{}:{}",
                    record.line,
                    values.collect::<Vec<_>>().join("|")
                ));
                Ok(())
            };
            let read = data
                .as_bytes()
                .chunks(size)
                .try_for_each(|piece| reader.read(piece, &mut row));
            let done = read.and_then(|()| reader.finish(&mut row));
            results.push(done.map(|()| found).map_err(|error| error.to_string()));
        }
        assert!(
            results.iter().all(|result| *result == results[0]),
            "{data:?}: {results:?}"
        );
        results.swap_remove(0)
    }

    #[test]
    fn text_has_escapes_and_nulls() {
        for (data, expected) in [
            ("1\ta\n2\t\\N\n", vec!["1:1|a", "2:2|~"]),
            ("1\ta", vec!["1:1|a"]),
            ("", vec![]),
            ("\n", vec!["1:"]),
            ("1\t\r\n2\tb\r\n", vec!["1:1|", "2:2|b"]),
            ("a\\tb\\nc\\\\\t\\x41\\101\\q\n", vec!["1:a\tb\nc\\|AAq"]),
            ("a\\\tb\tc\\\nd\ne\tf\n", vec!["1:a\tb|c\nd", "3:e|f"]),
            ("1\t2\n\\.\n3\t4\n", vec!["1:1|2"]),
            ("\\\\N\t\\N\n", vec!["1:\\N|~"]),
        ] {
            assert_eq!(rows("", data).expect(data), expected, "{data:?}");
        }
        assert_eq!(
            rows("(DELIMITER ';', NULL '')", "a;;b\n").expect("a row"),
            ["1:a|~|b"]
        );
    }

    #[test]
    fn csv_has_quotes_and_headers() {
        for (options, data, expected) in [
            ("CSV", "1,a\n2,\n", vec!["1:1|a", "2:2|~"]),
            ("CSV", "\"\",\"a\"\"b\"\n", vec!["1:|a\"b"]),
            ("CSV", "\"a\nb\",c\nd,e", vec!["1:a\nb|c", "3:d|e"]),
            ("CSV HEADER", "x,y\n1,2\n", vec!["2:1|2"]),
            ("CSV HEADER", "x,y", vec![]),
            ("CSV", "a\"b,c\"d\n", vec!["1:ab,cd"]),
            ("CSV", "\"a\"\n\"b\"", vec!["1:a", "2:b"]),
            (
                "(FORMAT csv, DELIMITER '|', NULL '-')",
                "-|\"-\"|\n",
                vec!["1:~|-|"],
            ),
            (
                "(FORMAT csv, QUOTE '''', ESCAPE '~')",
                "'it~'s~~ ~a',b\n",
                vec!["1:it's~ ~a|b"],
            ),
            ("CSV", "1,2\n\\.\n3,4\n", vec!["1:1|2"]),
            ("CSV", "\"\\.\"\n", vec!["1:\\."]),
            ("CSV", "a\r\n\"b\r\n\"\r\n", vec!["1:a", "2:b\r\n"]),
        ] {
            assert_eq!(rows(options, data).expect(data), expected, "{options} {data:?}");
        }
        let error = rows("CSV", "a\n\"b\nc").expect_err("an open quote");
        assert!(
            error.contains("unterminated CSV quoted field (line 2)"),
            "{error}"
        );
    }
}
