//! The text of statements: splits it at semicolons, and reads its first words.

use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

/// The dialect of this name; the generic one for unknown names.
pub(crate) fn dialect_of(name: &str) -> Box<dyn Dialect> {
    dialect_from_str(name).unwrap_or_else(|| Box::new(GenericDialect {}))
}

/// The statements of `text`, without their semicolons. A text that has no tokens is one statement, for its
/// syntax error.
pub(crate) fn split(text: &str, dialect: &str) -> Vec<String> {
    let dialect = dialect_of(dialect);
    let Ok(tokens) = Tokenizer::new(dialect.as_ref(), text).tokenize_with_location() else {
        return vec![text.to_string()];
    };
    let mut statements = Vec::new();
    let mut offsets = Offsets::new(text);
    let mut begin = 0;
    let mut is_empty = true;
    for token in &tokens {
        match token.token {
            Token::SemiColon => {
                let end = offsets.of(token.span.start);
                if !is_empty {
                    statements.push(text[begin..end].trim().to_string());
                }
                begin = end + 1;
                is_empty = true;
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => is_empty = false,
        }
    }
    if !is_empty {
        statements.push(text[begin..].trim().to_string());
    }
    statements
}

/// Byte offsets of ascending locations, which count lines and characters.
pub(crate) struct Offsets<'a> {
    text: &'a str,
    location: Location,
    offset: usize,
}

impl<'a> Offsets<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            location: Location { line: 1, column: 1 },
            offset: 0,
        }
    }

    pub(crate) fn of(&mut self, wanted: Location) -> usize {
        for letter in self.text[self.offset..].chars() {
            if (self.location.line, self.location.column) >= (wanted.line, wanted.column) {
                break;
            }
            self.offset += letter.len_utf8();
            if letter == '\n' {
                self.location.line += 1;
                self.location.column = 1;
            } else {
                self.location.column += 1;
            }
        }
        self.offset
    }
}

/// The first words of a statement, in capitals; a name in quotes or another token ends them.
pub(crate) fn words(text: &str, dialect: &str, count: usize) -> Vec<String> {
    let dialect = dialect_of(dialect);
    let mut tokens = Vec::new();
    let _ = Tokenizer::new(dialect.as_ref(), text).tokenize_with_location_into_buf(&mut tokens);
    let tokens = tokens.into_iter().map(|token| token.token);
    let significant = tokens.filter(|token| !matches!(token, Token::Whitespace(_)));
    significant
        .map_while(|token| match token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        })
        .take(count)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_split_at_semicolons() {
        let split = |text| split(text, "generic");
        assert_eq!(split("SELECT 1"), ["SELECT 1"]);
        assert_eq!(
            split(" SELECT ';' ; ;\nSELECT 'ä;' -- a;\n; "),
            ["SELECT ';'", "SELECT 'ä;' -- a;"]
        );
        assert_eq!(split("-- nothing"), Vec::<String>::new());
        assert_eq!(split("SELECT 'open"), ["SELECT 'open"]);
    }
}
