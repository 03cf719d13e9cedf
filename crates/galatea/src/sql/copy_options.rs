//! Options of COPY in parentheses, as in DuckDB and PostgreSQL: `COPY t TO 'f.csv' (HEADER, DELIMITER '|')`.
//!
//! They become STORED AS, PARTITIONED BY and OPTIONS, which the parser reads.

use super::SqlError;
use super::copy::OUTPUT_FILE;
use super::tokens::{at, closing, find, is_blank, significant, split, text};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Options with the name of the format's option.
const OPTIONS: &[(&str, &str)] = &[
    ("header", "format.has_header"),
    ("delimiter", "format.delimiter"),
    ("delim", "format.delimiter"),
    ("sep", "format.delimiter"),
    ("quote", "format.quote"),
    ("escape", "format.escape"),
    ("null", "format.null_value"),
    ("nullstr", "format.null_value"),
    ("compression", "format.compression"),
    ("codec", "format.compression"),
    ("dateformat", "format.date_format"),
    ("timestampformat", "format.timestamp_format"),
    ("row_group_size", "format.max_row_group_size"),
    ("append", "append"),
];

fn wrong(problem: impl Into<String>) -> SqlError {
    SqlError::clause(
        "COPY",
        problem,
        "options are FORMAT, HEADER, DELIMITER, DELIM, SEP, QUOTE, ESCAPE, NULL, NULLSTR, COMPRESSION, CODEC, \
               DATEFORMAT, TIMESTAMPFORMAT, ROW_GROUP_SIZE, APPEND and PARTITION_BY; others are in OPTIONS ('name' 'value')",
    )
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    super::places::keyword(&token.token)
}

/// The tokens of a COPY with its options rewritten.
///
/// # Errors
/// An option is unknown, or has no value.
pub(super) fn rewritten(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    let Some(first) = significant(&tokens).filter(|first| keyword(&tokens[*first]) == Some(Keyword::COPY))
    else {
        return Ok(tokens);
    };
    let Some(to) = find(&tokens[first..], |token| keyword(token) == Some(Keyword::TO)) else {
        return Ok(tokens);
    };
    let target = first + to + 1;
    let Some(name) = significant(&tokens[target..]).map(|name| target + name) else {
        return Ok(tokens);
    };
    if let Token::Word(word) = &tokens[name].token
        && word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("stdout")
    {
        tokens[name].token = Token::SingleQuotedString(OUTPUT_FILE.to_owned());
    }
    let mut next = name + 1;
    let skip = |next: usize| significant(&tokens[next..]).map(|skipped| next + skipped);
    let Some(mut open) = skip(next) else {
        return Ok(tokens);
    };
    if keyword(&tokens[open]) == Some(Keyword::WITH) {
        next = open;
        match skip(open + 1).filter(|after| tokens[*after].token == Token::LParen) {
            Some(after) => open = after,
            None => return Ok(tokens),
        }
    }
    if tokens[open].token != Token::LParen {
        return Ok(tokens);
    }
    let Some(close) = closing(&tokens[open..]).map(|close| open + close) else {
        return Ok(tokens);
    };
    let span = tokens[open].span;
    let mut clauses = Vec::new();
    let mut options = Vec::new();
    for option in split(&tokens[open + 1..close], |token| token.token == Token::Comma) {
        let option: Vec<&TokenWithSpan> = option.iter().filter(|token| !is_blank(token)).collect();
        let Some((Token::Word(word), values)) =
            option.split_first().map(|(word, values)| (&word.token, values))
        else {
            return Err(wrong("has an option without a name"));
        };
        let name = word.value.to_ascii_lowercase();
        match name.as_str() {
            "format" => {
                let format = value(&name, values)?;
                clauses.extend([
                    Token::make_keyword("STORED"),
                    Token::make_keyword("AS"),
                    Token::make_word(&format, None),
                ]);
            }
            "partition_by" => {
                let columns = values.iter().map(|value| value.token.clone());
                let columns: Vec<Token> = columns.collect();
                if columns.is_empty() {
                    return Err(wrong("needs columns after PARTITION_BY"));
                }
                clauses.extend([Token::make_keyword("PARTITIONED"), Token::make_keyword("BY")]);
                match columns.first() {
                    Some(Token::LParen) => clauses.extend(columns),
                    _ => {
                        clauses.push(Token::LParen);
                        clauses.extend(columns);
                        clauses.push(Token::RParen);
                    }
                }
            }
            name => {
                let known = OPTIONS.iter().find(|(known, _)| *known == name);
                let Some((_, option)) = known else {
                    return Err(wrong(format!("has an unknown option: {name}")));
                };
                let value = match values {
                    [] if name == "header" => "true".to_owned(),
                    values => value(name, values)?,
                };
                if !options.is_empty() {
                    options.push(Token::Comma);
                }
                options.extend([text(option), text(&value)]);
            }
        }
    }
    if !options.is_empty() {
        clauses.extend([Token::make_keyword("OPTIONS"), Token::LParen]);
        clauses.extend(options);
        clauses.push(Token::RParen);
    }
    let blank = Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space);
    let written = at(span, [blank].into_iter().chain(clauses));
    tokens.splice(next..=close, written);
    Ok(tokens)
}

/// The value of an option: a string, a number or a word.
fn value(name: &str, values: &[&TokenWithSpan]) -> Result<String, SqlError> {
    let [value] = values else {
        return Err(wrong(format!("needs one value of its option {name}")));
    };
    match &value.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::Number(text, _) => {
            Ok(text.clone())
        }
        Token::Word(word) => Ok(word.value.to_ascii_lowercase()),
        other => Err(wrong(format!("has {other} as the value of its option {name}"))),
    }
}
