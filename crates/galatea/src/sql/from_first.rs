//! `FROM t` without SELECT, which means `SELECT * FROM t`.
//!
//! DataFusion's planner reads it as a query without columns, and its parser stops before a WHERE. So `SELECT
//! *` is inserted into the tokens before such a FROM.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The context of the tokens at one level of parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A query may begin.
    Begin,
    /// After EXPLAIN or DESCRIBE: options, then a query.
    Explain,
    /// After WITH: its queries are in parentheses, then the query that uses them follows.
    With,
    /// After INSERT: the table and its columns, then a query.
    Insert,
    /// After CREATE or PREPARE: a query follows AS.
    Create,
    /// Inside a query, or not in any query.
    Inside,
}

/// Words that begin a query in another way than FROM.
const BEGINS: [Keyword; 9] = [
    Keyword::SELECT,
    Keyword::VALUES,
    Keyword::TABLE,
    Keyword::DELETE,
    Keyword::UPDATE,
    Keyword::SHOW,
    Keyword::MERGE,
    Keyword::SET,
    Keyword::DEFAULT,
];

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

impl Place {
    /// The context after a word.
    #[expect(clippy::match_same_arms, reason = "the first pattern that matches counts")]
    fn after(self, word: Keyword) -> Self {
        match (self, word) {
            (Self::Create, Keyword::AS) => Self::Begin,
            (Self::Create, _) => Self::Create,
            (_, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => Self::Begin,
            (Self::Begin, Keyword::ALL | Keyword::DISTINCT | Keyword::BY | Keyword::NAME) => Self::Begin,
            (Self::Begin, Keyword::EXPLAIN | Keyword::DESCRIBE | Keyword::DESC) => Self::Explain,
            (Self::Begin | Self::Explain, Keyword::WITH) => Self::With,
            (Self::Begin | Self::Explain | Self::With, Keyword::INSERT) => Self::Insert,
            (Self::Begin | Self::Explain, Keyword::CREATE | Keyword::PREPARE) => Self::Create,
            (Self::Explain | Self::With | Self::Insert, word) if !BEGINS.contains(&word) => self,
            _ => Self::Inside,
        }
    }

    /// The context after a token that is not a word.
    fn after_other(self) -> Self {
        match self {
            Self::Begin => Self::Inside,
            other => other,
        }
    }
}

/// The keyword of a token; `None` for other tokens and quoted names.
fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// The tokens, with `SELECT *` before each FROM that begins a query without SELECT.
pub(super) fn with_select(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // The context at this level of parentheses, and those of the enclosing levels.
    let (mut place, mut outer) = (Place::Begin, Vec::new());
    let mut written = Vec::with_capacity(tokens.len());
    let mut previous = None;
    for (at, token) in tokens.iter().enumerate() {
        match (&token.token, keyword(&token.token)) {
            (Token::Whitespace(_), _) => {
                written.push(token.clone());
                continue;
            }
            (Token::LParen, _) => {
                outer.push(place.after_other());
                let is_trim = previous == Some(Keyword::TRIM);
                place = if is_trim { Place::Inside } else { Place::Begin };
            }
            (Token::RParen, _) => place = outer.pop().unwrap_or(Place::Inside),
            (Token::SemiColon, _) => {
                outer.clear();
                place = Place::Begin;
            }
            (_, Some(Keyword::FROM)) => {
                if !matches!(place, Place::Inside | Place::Create) && !selects(&tokens[at + 1..]) {
                    let select = [Token::make_keyword("SELECT"), Token::Mul];
                    written.extend(select.map(|new| TokenWithSpan::new(new, token.span)));
                }
                place = Place::Inside;
            }
            (_, Some(word)) => place = place.after(word),
            (_, None) => place = place.after_other(),
        }
        previous = keyword(&token.token);
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
