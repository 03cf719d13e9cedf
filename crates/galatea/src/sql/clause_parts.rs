//! Parts of the clauses that [`clause_tokens`](super::clause_tokens) rewrites.

use super::SqlError;
use super::tokens::{
    Reader, Tokens, at, closing, find, find_keyword, is_blank, is_empty, keyword_of, significant, text, word,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The function of a column of PIVOT: the column, and a query with its values.
pub(super) const PIVOT: &str = "galatea pivot";

/// Words that follow the tables of a SELECT.
pub(super) const AFTER_TABLES: [Keyword; 8] = [
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::QUALIFY,
    Keyword::WINDOW,
    Keyword::PREWHERE,
    Keyword::SELECT,
    Keyword::ORDER,
];

pub(super) const ASOF_FORM: &str =
    "write t ASOF [LEFT] JOIN u ON t.key = u.key AND t.time >= u.time, or USING (key, time)";
pub(super) const PIVOT_FORM: &str = "write PIVOT t ON column [IN (1, 2)] USING sum(x) [AS name] [GROUP BY columns] [ORDER BY ...] [LIMIT ...]";
pub(super) const UNPIVOT_FORM: &str =
    "write UNPIVOT t ON columns [INTO NAME name VALUE value] [ORDER BY ...] [LIMIT ...]";
pub(super) const SAMPLE_FORM: &str =
    "write USING SAMPLE 10% or USING SAMPLE 100 ROWS, and after it (bernoulli, 42), (system) or (reservoir)";

/// The call for a column of PIVOT: `a IN (1, 2)`, or `a`.
pub(super) fn pivot_column(column: &[TokenWithSpan], span: Span) -> Result<Tokens, SqlError> {
    if is_empty(column) {
        return Err(SqlError::clause("PIVOT", "has an empty column", PIVOT_FORM));
    }
    let mut written = at(span, [word(PIVOT), Token::LParen]);
    let list = find_keyword(column, Keyword::IN).and_then(|list| {
        let before = &column[..list];
        let is_negated = before
            .iter()
            .rev()
            .find(|token| !is_blank(token))
            .is_some_and(|token| keyword_of(token) == Some(Keyword::NOT));
        let open = list + 1 + significant(&column[list + 1..])?;
        let is_list = column[open].token == Token::LParen && !is_negated;
        let close = open + is_list.then(|| closing(&column[open..]))??;
        is_empty(&column[close + 1..]).then_some((list, open, close))
    });
    match list {
        Some((list, open, close)) => {
            let values = &column[open + 1..close];
            written.extend_from_slice(&column[..list]);
            written.extend(at(span, [Token::Comma, Token::LParen]));
            let is_query = significant(values).is_some_and(|first| {
                let begins = [Keyword::SELECT, Keyword::WITH, Keyword::FROM, Keyword::VALUES];
                keyword_of(&values[first]).is_some_and(|word| begins.contains(&word))
            });
            if !is_query {
                written.extend(at(span, [Token::make_keyword("SELECT")]));
            }
            written.extend_from_slice(values);
            written.extend(at(span, [Token::RParen]));
        }
        None => written.extend_from_slice(column),
    }
    written.extend(at(span, [Token::RParen]));
    Ok(written)
}

/// The name and the values after INTO: `NAME n VALUE v`.
pub(super) fn unpivot_names(into: &[TokenWithSpan]) -> Result<(Tokens, Tokens), SqlError> {
    let is = |word: &'static str| {
        move |token: &TokenWithSpan| match &token.token {
            Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
            _ => false,
        }
    };
    let wrong = || SqlError::clause("UNPIVOT", "has an incomplete INTO", UNPIVOT_FORM);
    let name = significant(into)
        .filter(|name| is("name")(&into[*name]))
        .ok_or_else(wrong)?;
    let rest = &into[name + 1..];
    // The name may be VALUE itself.
    let first = significant(rest).ok_or_else(wrong)?;
    let value = find(&rest[first + 1..], |token| {
        is("value")(token) || is("values")(token)
    })
    .ok_or_else(wrong)?;
    let (name, value) = (&rest[..=first], &rest[first + 1 + value + 1..]);
    if is_empty(value) {
        return Err(wrong());
    }
    let span = rest[first].span;
    let several = find(value, |token| token.token == Token::Comma).is_some();
    let mut values = Tokens::new();
    if several {
        values.extend(at(span, [Token::LParen]));
    }
    values.extend_from_slice(value);
    if several {
        values.extend(at(span, [Token::RParen]));
    }
    Ok((name.to_vec(), values))
}

/// The arguments of a sample: amount, unit, method and seed. Returns the number of tokens that it read.
pub(super) fn sample_arguments(tokens: &[TokenWithSpan]) -> Result<(Vec<Token>, usize), SqlError> {
    let wrong = |problem: &str| SqlError::clause("USING SAMPLE", problem, SAMPLE_FORM);
    let mut read = Reader { tokens, at: 0 };
    let mut method = read.name().unwrap_or_default();
    let in_parentheses = !method.is_empty();
    if in_parentheses && !read.take(&Token::LParen) {
        return Err(wrong("has a method without an amount"));
    }
    let mut amount = Vec::new();
    if read.take(&Token::Minus) {
        amount.push(Token::Minus);
    }
    match read.next() {
        Some(number @ Token::Number(..)) => amount.push(number.clone()),
        _ => return Err(wrong("needs a number")),
    }
    let unit = match read.take(&Token::Mod) {
        true => "PERCENT",
        false => read.word(&["PERCENT", "ROWS"]).unwrap_or("ROWS"),
    };
    let mut seed = String::new();
    if in_parentheses {
        if !read.take(&Token::RParen) {
            return Err(wrong("has no end of its amount"));
        }
    } else if read.take(&Token::LParen) {
        method = read
            .name()
            .ok_or_else(|| wrong("has parentheses without a method"))?;
        if read.take(&Token::Comma) {
            seed = read.number().ok_or_else(|| wrong("needs a number as its seed"))?;
        }
        if !read.take(&Token::RParen) {
            return Err(wrong("has more than a method and a seed"));
        }
    }
    if read.word(&["REPEATABLE"]).is_some() {
        let opens = read.take(&Token::LParen);
        seed = read
            .number()
            .filter(|_| opens)
            .ok_or_else(|| wrong("needs a number as its seed"))?;
        if !read.take(&Token::RParen) {
            return Err(wrong("has no end of REPEATABLE"));
        }
    }
    let rest = [
        Token::Comma,
        text(unit),
        Token::Comma,
        text(&method.to_ascii_uppercase()),
        Token::Comma,
        text(&seed),
    ];
    amount.extend(rest);
    Ok((amount, read.at))
}

/// The index behind the tables of the SELECT that ends these tokens.
pub(super) fn end_of_tables(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0_usize;
    let before = |at: usize| {
        tokens[..at]
            .iter()
            .rev()
            .find(|token| !is_blank(token))
            .and_then(keyword_of)
    };
    let mut from = None;
    for (at, token) in tokens.iter().enumerate().rev() {
        match &token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return None,
            Token::LParen => depth -= 1,
            Token::SemiColon => return None,
            // IS DISTINCT FROM.
            _ if depth == 0
                && keyword_of(token) == Some(Keyword::FROM)
                && before(at) != Some(Keyword::DISTINCT) =>
            {
                from = Some(at);
                break;
            }
            _ => {}
        }
    }
    let tables = &tokens[from? + 1..];
    let is_after = |token: &TokenWithSpan| keyword_of(token).is_some_and(|word| AFTER_TABLES.contains(&word));
    Some(from? + 1 + find(tables, is_after).unwrap_or(tables.len()))
}
