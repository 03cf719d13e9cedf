//! `FROM t` without SELECT, which means `SELECT * FROM t`.
//!
//! DataFusion's planner reads it as a query without columns, and its parser stops before a WHERE. So `SELECT
//! *` is inserted into the tokens before such a FROM.

use super::places::{Places, keyword};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words that end the tables of a FROM, so that no SELECT of it follows.
const ENDS: [Keyword; 17] = [
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::QUALIFY,
    Keyword::WINDOW,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::UNION,
    Keyword::EXCEPT,
    Keyword::INTERSECT,
    Keyword::MINUS,
    Keyword::RETURNING,
    Keyword::SETTINGS,
    Keyword::FORMAT,
    Keyword::PREWHERE,
];

/// The tokens, with `SELECT *` before each FROM that begins a query without SELECT.
pub(super) fn with_select(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut places = Places::new();
    let mut written = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let is_from = keyword(&token.token) == Some(Keyword::FROM);
        if is_from && places.begins_query() && !selects(&tokens[at + 1..]) {
            let select = [Token::make_keyword("SELECT"), Token::Mul];
            written.extend(select.map(|new| TokenWithSpan::new(new, token.span)));
        }
        places.pass(&token.token);
        written.push(token.clone());
    }
    written
}

/// Whether a SELECT follows the tables of a FROM.
fn selects(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match (&token.token, keyword(&token.token)) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen, _) if depth == 0 => return false,
            (Token::RParen, _) => depth -= 1,
            (Token::SemiColon, _) => return false,
            (_, Some(Keyword::SELECT)) if depth == 0 => return true,
            (_, Some(word)) if depth == 0 && ENDS.contains(&word) => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn rewritten(text: &str) -> String {
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
        let tokens = with_select(tokens.expect("tokens"));
        let mut words: Vec<String> = Vec::new();
        for token in tokens {
            if !matches!(token.token, Token::Whitespace(_)) {
                words.push(token.token.to_string());
            }
        }
        words.join(" ")
    }

    #[test]
    fn from_first_queries_get_a_select() {
        for (text, expected) in [
            ("FROM t", "SELECT * FROM t"),
            (
                "from t where x > 1 order by x",
                "SELECT * from t where x > 1 order by x",
            ),
            ("EXPLAIN FROM t", "EXPLAIN SELECT * FROM t"),
            (
                "EXPLAIN ANALYZE VERBOSE FROM t",
                "EXPLAIN ANALYZE VERBOSE SELECT * FROM t",
            ),
            ("COPY (FROM t) TO 'x'", "COPY ( SELECT * FROM t ) TO 'x'"),
            ("CREATE TABLE u AS FROM t", "CREATE TABLE u AS SELECT * FROM t"),
            (
                "CREATE TABLE u (a INT) AS FROM t",
                "CREATE TABLE u ( a INT ) AS SELECT * FROM t",
            ),
            ("INSERT INTO u FROM t", "INSERT INTO u SELECT * FROM t"),
            ("INSERT INTO u (a) FROM t", "INSERT INTO u ( a ) SELECT * FROM t"),
            (
                "WITH c AS (FROM t) FROM c",
                "WITH c AS ( SELECT * FROM t ) SELECT * FROM c",
            ),
            (
                "FROM t UNION ALL FROM u",
                "SELECT * FROM t UNION ALL SELECT * FROM u",
            ),
            ("SELECT 1 EXCEPT FROM t", "SELECT 1 EXCEPT SELECT * FROM t"),
            (
                "SELECT (FROM t) FROM (FROM u)",
                "SELECT ( SELECT * FROM t ) FROM ( SELECT * FROM u )",
            ),
            ("FROM (SELECT 1) q", "SELECT * FROM ( SELECT 1 ) q"),
        ] {
            assert_eq!(rewritten(text), expected);
        }
    }

    #[test]
    fn other_from_clauses_are_unchanged() {
        for text in [
            "SELECT a FROM t",
            "FROM t SELECT a WHERE a > 1",
            "FROM t , u SELECT a",
            "DELETE FROM t WHERE a IS DISTINCT FROM 1",
            "SELECT trim ( FROM x ) , extract ( YEAR FROM d ) FROM t",
            "SELECT substring ( a FROM 1 FOR 2 ) FROM t",
            "SHOW COLUMNS FROM t",
            "SELECT * EXCEPT ( a ) FROM t",
            "SELECT count ( * ) FROM t",
            "WITH c AS ( SELECT 1 ) SELECT a FROM c",
            "INSERT INTO t SELECT a FROM u",
            "CREATE TABLE u AS SELECT a FROM t",
            "SELECT a IS NOT DISTINCT FROM b FROM t",
            "UPDATE t SET a = 1 FROM u",
            "SELECT \"from\" FROM t",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }
}
