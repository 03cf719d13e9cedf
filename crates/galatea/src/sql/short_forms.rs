//! Short forms of clauses, written out for the parser.
//!
//! | form | tokens |
//! | --- | --- |
//! | `sum(x) FILTER (x > 1)` | `sum(x) FILTER (WHERE x > 1)` |
//! | `x IN [1, 2]` | `x IN (1, 2)` |
//! | `TABLE t` | `SELECT * FROM t` |

use super::places::Places;
use super::tokens::{Tokens, at, find, is_blank, is_empty, keyword_of, significant};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

const WORDS: [Keyword; 3] = [Keyword::FILTER, Keyword::IN, Keyword::TABLE];

/// The tokens with the forms written out.
pub(super) fn written_out(tokens: Tokens) -> Tokens {
    let is_word = |token: &TokenWithSpan| keyword_of(token).is_some_and(|word| WORDS.contains(&word));
    match tokens.iter().any(is_word) {
        true => rewritten(tokens),
        false => tokens,
    }
}

fn rewritten(mut tokens: Tokens) -> Tokens {
    let mut places = Places::new();
    let mut previous = None;
    let mut here = 0;
    while here < tokens.len() {
        let word = keyword_of(&tokens[here]);
        let next = significant(&tokens[here + 1..]).map(|next| here + 1 + next);
        if let (Some(word), Some(next)) = (word, next) {
            match (word, &tokens[next].token) {
                (Keyword::FILTER, Token::LParen) if previous == Some(Token::RParen) => {
                    let is_where =
                        |first: usize| keyword_of(&tokens[next + 1 + first]) == Some(Keyword::WHERE);
                    if !significant(&tokens[next + 1..]).is_some_and(is_where) {
                        let condition = at(tokens[next].span, [Token::make_keyword("WHERE")]);
                        tokens.splice(next + 1..next + 1, condition);
                    }
                }
                (Keyword::IN, Token::LBracket) => {
                    let end = find(&tokens[next + 1..], |token| token.token == Token::RBracket);
                    if let Some(end) = end.map(|end| next + 1 + end)
                        && !is_empty(&tokens[next + 1..end])
                    {
                        tokens[next].token = Token::LParen;
                        tokens[end].token = Token::RParen;
                    }
                }
                (Keyword::TABLE, Token::Word(_)) if places.begins_query() && !begins_query(&tokens[next]) => {
                    let span = tokens[here].span;
                    let select = [
                        Token::make_keyword("SELECT"),
                        Token::Mul,
                        Token::make_keyword("FROM"),
                    ];
                    tokens.splice(here..=here, at(span, select));
                }
                _ => {}
            }
        }
        places.pass(&tokens[here].token);
        if !is_blank(&tokens[here]) {
            previous = Some(tokens[here].token.clone());
        }
        here += 1;
    }
    tokens
}

/// Whether a word begins a query, as in `CREATE MACRO m() AS TABLE SELECT 1`.
fn begins_query(token: &TokenWithSpan) -> bool {
    let words = [Keyword::SELECT, Keyword::FROM, Keyword::WITH, Keyword::VALUES];
    keyword_of(token).is_some_and(|word| words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn forms_are_written_out() {
        for (sql, expected) in [
            (
                "SELECT sum(x) FILTER (x > 1)",
                "SELECT sum(x) FILTER (WHERE x > 1)",
            ),
            (
                "SELECT sum(x) FILTER (WHERE x > 1)",
                "SELECT sum(x) FILTER (WHERE x > 1)",
            ),
            ("SELECT filter (x)", "SELECT filter (x)"),
            (
                "SELECT x IN [1, 2], y NOT IN [[1]]",
                "SELECT x IN (1, 2), y NOT IN ([1])",
            ),
            ("SELECT x IN []", "SELECT x IN []"),
            ("TABLE t", "SELECT * FROM  t"),
            (
                "SELECT * FROM (TABLE t) UNION ALL TABLE u",
                "SELECT * FROM (SELECT * FROM  t) UNION ALL SELECT * FROM  u",
            ),
            ("CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"),
            ("DROP TABLE t", "DROP TABLE t"),
        ] {
            let tokens = Tokenizer::new(&GenericDialect, sql)
                .tokenize_with_location()
                .unwrap();
            let written: String = written_out(tokens)
                .iter()
                .map(|token| token.token.to_string())
                .collect();
            assert_eq!(written, expected, "{sql}");
        }
    }
}
