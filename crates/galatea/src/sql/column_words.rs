//! Columns named `index` and `key` in CREATE TABLE, which the parser reads as definitions of an index.

use super::tokens::{Tokens, closing, find, find_keyword, is_blank, keyword_of};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens with quotes around such columns.
pub(super) fn quoted(mut tokens: Tokens) -> Tokens {
    for at in unquoted(&tokens).unwrap_or_default() {
        if let Token::Word(word) = &mut tokens[at].token {
            // Names without quotes are in lower case.
            word.value = word.value.to_ascii_lowercase();
            word.quote_style = Some('"');
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

/// The places of such columns in a CREATE TABLE statement.
fn unquoted(tokens: &[TokenWithSpan]) -> Option<Vec<usize>> {
    let mut words = tokens.iter().filter(|token| !is_blank(token));
    if words.next().and_then(keyword_of) != Some(Keyword::CREATE) {
        return None;
    }
    let open = find(tokens, |token| token.token == Token::LParen)?;
    find_keyword(&tokens[..open], Keyword::TABLE)?;
    let close = open + closing(&tokens[open..])?;
    let mut found = Vec::new();
    let mut begin = open + 1;
    while begin < close {
        let end = find(&tokens[begin..close], |token| token.token == Token::Comma);
        let end = end.map_or(close, |end| begin + end);
        let mut definition = (begin..end).filter(|at| !is_blank(&tokens[*at]));
        if let (Some(name), Some(data_type)) = (definition.next(), definition.next())
            && matches!(keyword_of(&tokens[name]), Some(Keyword::INDEX | Keyword::KEY))
            && matches!(tokens[data_type].token, Token::Word(_))
        {
            found.push(name);
        }
        begin = end + 1;
    }
    Some(found)
}
