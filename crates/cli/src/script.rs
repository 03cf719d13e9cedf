//! Splits input of arguments, files, standard input and the prompt into statements and commands.
//!
//! Statements end at semicolons, as DataFusion's own tokenizer finds them, not at those in quotes or
//! comments. If a backslash is where a statement could begin, it begins a command, which extends to the end
//! of the line. A dot there begins a command of DuckDB ([`dot`](crate::dot)).

use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// A statement or a command, and the line of the input on which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) line: u64,
    pub(crate) input: Input,
}

/// A statement or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A statement with its comments, but without its semicolon and the space around it.
    Statement(String),
    /// A command without its backslash.
    Command(String),
    /// A command with its dot.
    Dot(String),
}

/// The tokens of `text` up to the first that cannot be read, and whether all could be read.
fn tokens(text: &str, dialect: &str) -> (Vec<TokenWithSpan>, bool) {
    let dialect: Box<dyn Dialect> = dialect_from_str(dialect).unwrap_or_else(|| Box::new(GenericDialect {}));
    let mut tokens = Vec::new();
    let read = Tokenizer::new(dialect.as_ref(), text).tokenize_with_location_into_buf(&mut tokens);
    (tokens, read.is_ok())
}

/// Byte offsets of ascending positions in the input.
struct Offsets<'a> {
    text: &'a str,
    at: Location,
    offset: usize,
}

impl<'a> Offsets<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: Location { line: 1, column: 1 },
            offset: 0,
        }
    }

    fn of(&mut self, wanted: Location) -> usize {
        for letter in self.text[self.offset..].chars() {
            if (self.at.line, self.at.column) >= (wanted.line, wanted.column) {
                break;
            }
            self.offset += letter.len_utf8();
            if letter == '\n' {
                self.at = Location {
                    line: self.at.line + 1,
                    column: 1,
                };
            } else {
                self.at.column += 1;
            }
        }
        self.offset
    }
}

/// The statements and commands of `text`, in order.
pub(crate) fn pieces(text: &str, dialect: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(next) = next_pieces(rest, line, dialect, &mut found) {
        line += lines(&rest[..rest.len() - next.len()]);
        rest = next;
    }
    found
}

/// The number of line ends in `text`.
fn lines(text: &str) -> u64 {
    text.bytes().map(|byte| u64::from(byte == b'\n')).sum()
}

/// Collects statements up to the first command or the end. Returns the input after the command. `line` is the
/// number of the first line of `text`.
fn next_pieces<'a>(text: &'a str, line: u64, dialect: &str, found: &mut Vec<Piece>) -> Option<&'a str> {
    let (tokens, readable) = tokens(text, dialect);
    let mut offsets = Offsets::new(text);
    let statement = |start: usize, end: usize| {
        let raw = &text[start..end];
        let begin = start + (raw.len() - raw.trim_start().len());
        Piece {
            line: line + lines(&text[..begin]),
            input: Input::Statement(raw.trim().to_string()),
        }
    };
    // The start of the statement, and whether it has begun.
    let (mut start, mut begun) = (0, false);
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = offsets.of(token.span.start);
                if begun {
                    found.push(statement(start, end));
                }
                (start, begun) = (end + 1, false);
            }
            Token::Whitespace(_) => {}
            Token::Backslash | Token::Period if !begun => {
                let at = offsets.of(token.span.start);
                let (first, after) = text[at..].split_once('\n').unwrap_or((&text[at..], ""));
                let command = first.trim().trim_end_matches(';');
                let input = match command.strip_prefix('\\') {
                    Some(command) => Input::Command(command.trim_start().to_string()),
                    None => Input::Dot(command.to_string()),
                };
                found.push(Piece {
                    line: line + lines(&text[..at]),
                    input,
                });
                return Some(after);
            }
            _ => begun = true,
        }
    }
    // Input without tokens, such as an open string, is kept for the parser to refuse.
    if begun || !readable {
        found.push(statement(start, text.len()));
    }
    None
}

/// The command that a single word means at the prompt, as in other shells.
pub(crate) fn command_of_word(text: &str) -> Option<&'static str> {
    let word = text.trim().trim_end_matches(';').trim_end();
    match word.to_ascii_lowercase().as_str() {
        "help" => Some("\\?"),
        "exit" | "quit" => Some("\\q"),
        _ => None,
    }
}

/// Whether the input so far can be run: a command, or statements up to a semicolon.
pub(crate) fn is_complete(text: &str, dialect: &str) -> bool {
    let begun = text.trim_start();
    if begun.is_empty() || begun.starts_with(['\\', '.']) || command_of_word(begun).is_some() {
        return true;
    }
    let (tokens, readable) = tokens(text, dialect);
    let last = tokens
        .iter()
        .rfind(|token| !matches!(token.token, Token::Whitespace(_)));
    readable && last.is_none_or(|token| token.token == Token::SemiColon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let shown = |piece: Piece| match piece.input {
            Input::Statement(text) | Input::Dot(text) => text,
            Input::Command(text) => format!("\\{text}"),
        };
        pieces(text, "generic").into_iter().map(shown).collect()
    }

    #[test]
    fn scripts_split_at_semicolons_outside_quotes_and_comments() {
        assert_eq!(split("SELECT 1; SELECT 2;\n"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(
            split("SELECT ';', \"a;b\", 'it''s; so' ; "),
            ["SELECT ';', \"a;b\", 'it''s; so'"]
        );
        assert_eq!(
            split("-- a; comment\nSELECT 1 -- another;\n+ 1; -- the end"),
            ["-- a; comment\nSELECT 1 -- another;\n+ 1"]
        );
        assert_eq!(
            split("/* a; b */ SELECT /* c * / ; */ 1"),
            ["/* a; b */ SELECT /* c * / ; */ 1"]
        );
        assert!(split(" ;; -- nothing\n;").is_empty());
        assert_eq!(split("SELECT 'open; string"), ["SELECT 'open; string"]);
        assert_eq!(
            split("SELECT 'größe'; SELECT 'ß;'"),
            ["SELECT 'größe'", "SELECT 'ß;'"]
        );
    }

    #[test]
    fn backslash_commands_end_at_end_of_line() {
        assert_eq!(
            split("\\x\nSELECT 1;\n-- a comment\n\\o it's.csv\nSELECT\n2; \\q"),
            ["\\x", "SELECT 1", "\\o it's.csv", "SELECT\n2", "\\q"]
        );
        assert_eq!(split("SELECT 1 \\ 2"), ["SELECT 1 \\ 2"]);
        assert_eq!(
            split(".tables\nSELECT a.b;.mode csv;\nSELECT .5"),
            [".tables", "SELECT a.b", ".mode csv", "SELECT .5"]
        );
    }

    #[test]
    fn statements_have_line_numbers() {
        let text = "SELECT 1; SELECT\n2;\n\n\\x\n-- a comment\nSELECT 3;\n  \\q\n";
        let lines: Vec<u64> = pieces(text, "generic").iter().map(|piece| piece.line).collect();
        assert_eq!(lines, [1, 1, 4, 5, 7]);
    }

    #[test]
    fn input_is_complete_at_a_semicolon() {
        let complete = |text: &str| is_complete(text, "generic");
        assert!(complete("") && complete("\\x") && complete("SELECT 1;") && complete("SELEC 1; -- done"));
        assert!(!complete("SELECT 1") && !complete("SELECT ';") && !complete("SELECT 1; SELECT 2"));
        assert!(complete("-- only a comment"));
        assert!(complete("help") && complete(" QUIT ") && complete("exit;") && !complete("helpless"));
        assert_eq!(command_of_word("SELECT 1\nexit"), None);
    }
}
