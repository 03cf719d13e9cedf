//! `WITH t AS MATERIALIZED (...)`: a hint, which most dialects of the parser do not read.
//!
//! The planner decides by itself whether rows of a query are computed once, so the words are left out.

use super::tokens::{Tokens, is_blank, keyword_of};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens without `[NOT] MATERIALIZED` between AS and a parenthesis.
pub(super) fn without(tokens: Tokens) -> Tokens {
    let is_word = |token: &TokenWithSpan| keyword_of(token) == Some(Keyword::MATERIALIZED);
    if !tokens.iter().any(is_word) {
        return tokens;
    }
    let mut written = Tokens::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        written.push(token.clone());
        rest = after;
        if keyword_of(token) == Some(Keyword::AS) {
            rest = hint(after).map_or(after, |length| &after[length..]);
        }
    }
    written
}

/// The number of tokens of a hint.
fn hint(tokens: &[TokenWithSpan]) -> Option<usize> {
    let significant = || tokens.iter().enumerate().filter(|(_, token)| !is_blank(token));
    let is_not = keyword_of(significant().next()?.1) == Some(Keyword::NOT);
    let mut words = significant().skip(usize::from(is_not));
    let (_, word) = words.next()?;
    let (end, open) = words.next()?;
    let is_hint = keyword_of(word) == Some(Keyword::MATERIALIZED) && open.token == Token::LParen;
    is_hint.then_some(end)
}
