//! Parts of token sequences: searches outside of parentheses, and a reader of short clauses.

use super::places::keyword;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

pub(super) type Tokens = Vec<TokenWithSpan>;

pub(super) fn keyword_of(token: &TokenWithSpan) -> Option<Keyword> {
    keyword(&token.token)
}

pub(super) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

pub(super) fn is_empty(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().all(is_blank)
}

pub(super) fn word(name: &str) -> Token {
    Token::make_word(name, Some('"'))
}

pub(super) fn text(value: &str) -> Token {
    Token::SingleQuotedString(value.to_owned())
}

/// Tokens at the place of another one.
pub(super) fn at(span: Span, tokens: impl IntoIterator<Item = Token>) -> Tokens {
    let spaced = tokens.into_iter().flat_map(|token| [token, blank()]);
    spaced.map(|token| TokenWithSpan::new(token, span)).collect()
}

/// The parts between tokens outside of parentheses.
pub(super) fn split(
    tokens: &[TokenWithSpan],
    is_end: impl Fn(&TokenWithSpan) -> bool,
) -> Vec<&[TokenWithSpan]> {
    let mut parts = Vec::new();
    let mut rest = tokens;
    while let Some(end) = find(rest, &is_end) {
        parts.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    parts.push(rest);
    parts
}

/// The first of such tokens outside of parentheses.
pub(super) fn find(tokens: &[TokenWithSpan], is_wanted: impl Fn(&TokenWithSpan) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            _ if depth == 0 && is_wanted(token) => return Some(at),
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace if depth == 0 => return None,
            Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
            _ => {}
        }
    }
    None
}

pub(super) fn find_keyword(tokens: &[TokenWithSpan], wanted: Keyword) -> Option<usize> {
    find(tokens, |token| keyword_of(token) == Some(wanted))
}

/// The end of the parentheses that begin at the first token.
pub(super) fn closing(tokens: &[TokenWithSpan]) -> Option<usize> {
    find(&tokens[1..], |token| token.token == Token::RParen).map(|end| end + 1)
}

/// The index of the first token that is not blank.
pub(super) fn significant(tokens: &[TokenWithSpan]) -> Option<usize> {
    tokens.iter().position(|token| !is_blank(token))
}

pub(super) fn blank() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// Reads tokens, without blanks.
pub(super) struct Reader<'t> {
    pub(super) tokens: &'t [TokenWithSpan],
    pub(super) at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<(usize, &'t Token)> {
        let next = significant(&self.tokens[self.at..])? + self.at;
        Some((next, &self.tokens[next].token))
    }

    pub(super) fn next(&mut self) -> Option<&'t Token> {
        let (at, token) = self.peek()?;
        self.at = at + 1;
        Some(token)
    }

    pub(super) fn take(&mut self, wanted: &Token) -> bool {
        let found = self.peek().is_some_and(|(_, token)| token == wanted);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn word(&mut self, known: &[&'static str]) -> Option<&'static str> {
        let (_, Token::Word(word)) = self.peek()? else {
            return None;
        };
        let found = known
            .iter()
            .find(|known| word.value.eq_ignore_ascii_case(known))?;
        self.next();
        Some(found)
    }

    pub(super) fn name(&mut self) -> Option<String> {
        let (_, Token::Word(word)) = self.peek()? else {
            return None;
        };
        self.next();
        Some(word.value.clone())
    }

    pub(super) fn number(&mut self) -> Option<String> {
        let (_, Token::Number(number, _)) = self.peek()? else {
            return None;
        };
        self.next();
        Some(number.clone())
    }
}
