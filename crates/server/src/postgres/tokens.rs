//! The tokens of statements, for statements and rewrites that only PostgreSQL has.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use pgwire::error::PgWireResult;

use super::errors::error_state;
use crate::statement_text::Offsets;

/// The tokens of a statement, without spaces, comments and semicolons, and their byte offsets.
pub(super) struct Tokens<'a> {
    statement: &'a str,
    pub(super) tokens: Vec<Token>,
    /// Of the begin and the end of each token.
    pub(super) places: Vec<(usize, usize)>,
}

impl<'a> Tokens<'a> {
    /// `None` if the statement has no tokens.
    pub(super) fn of(statement: &'a str, dialect: &dyn Dialect) -> Option<Self> {
        let all = Tokenizer::new(dialect, statement).tokenize_with_location().ok()?;
        let mut offsets = Offsets::new(statement);
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        for TokenWithSpan { token, span } in all {
            if !matches!(token, Token::Whitespace(_) | Token::SemiColon | Token::EOF) {
                let begin = offsets.of(span.start);
                places.push((begin, offsets.of(span.end)));
                tokens.push(token);
            }
        }
        Some(Self {
            statement,
            tokens,
            places,
        })
    }

    pub(super) fn is_word(&self, index: usize, expected: &str) -> bool {
        self.tokens
            .get(index)
            .is_some_and(|token| word(token) == expected)
    }

    pub(super) fn is(&self, index: usize, expected: &Token) -> bool {
        self.tokens.get(index) == Some(expected)
    }

    /// The index of the parenthesis that closes the one at `open`.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The rest of the statement after a token.
    pub(super) fn after(&self, token: usize) -> &'a str {
        self.statement[self.places[token].1..].trim()
    }

    /// The part of the statement between two tokens.
    pub(super) fn between(&self, begin: usize, end: usize) -> &'a str {
        self.statement[self.places[begin].1..self.places[end].0].trim()
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
