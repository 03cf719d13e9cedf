//! Statements that only PostgreSQL has, read token by token.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use pgwire::error::PgWireResult;

use super::errors::error_state;
use crate::statement_text::Offsets;

/// The tokens of a statement, without spaces and comments, and their places.
pub(super) struct Reader<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    spans: Vec<(usize, usize)>,
}

impl<'a> Reader<'a> {
    /// `None` if the text has no tokens.
    pub(super) fn new(text: &'a str) -> Option<Self> {
        let all = Tokenizer::new(&PostgreSqlDialect {}, text)
            .tokenize_with_location()
            .ok()?;
        let mut offsets = Offsets::new(text);
        let (mut tokens, mut spans) = (Vec::new(), Vec::new());
        for TokenWithSpan { token, span } in all {
            if !matches!(token, Token::Whitespace(_) | Token::SemiColon | Token::EOF) {
                let begin = offsets.of(span.start);
                spans.push((begin, offsets.of(span.end)));
                tokens.push(token);
            }
        }
        Some(Self { text, tokens, spans })
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The text after a token.
    pub(super) fn after(&self, token: usize) -> &'a str {
        self.text[self.spans[token].1..].trim()
    }

    /// The text between two tokens.
    pub(super) fn between(&self, begin: usize, end: usize) -> &'a str {
        self.text[self.spans[begin].1..self.spans[end].0].trim()
    }
}

/// A word in upper case; an empty string for another token.
pub(super) fn word(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

/// A name: in lower case unless it is quoted.
pub(super) fn name(token: &Token) -> PgWireResult<String> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_lowercase()),
        Token::Word(word) => Ok(word.value.clone()),
        other => Err(error_state(
            "42601",
            format!("syntax error at or near \"{other}\""),
        )),
    }
}
