//! Clauses of DuckDB that the parser does not read, as tokens that it reads.
//!
//! | clause | tokens |
//! | --- | --- |
//! | `PIVOT t ON a IN (1, 2), b USING sum(x) GROUP BY k` | `SELECT "galatea pivot"(a, (SELECT 1, 2)), "galatea pivot"(b), sum(x) FROM t GROUP BY k` |
//! | `t PIVOT (sum(x) FOR a IN (1) b IN (2) GROUP BY k)` | `t PIVOT (sum(x), "galatea pivot"(b, (SELECT 2)), "galatea group"(k) FOR a IN (1))` |
//! | `UNPIVOT t ON a, b INTO NAME n VALUE v` | `SELECT * FROM t UNPIVOT (v FOR n IN (a, b))` |
//! | `t ASOF LEFT JOIN u ON c` | `t LEFT JOIN u ON "galatea asof" AND c` |
//! | `t ASOF JOIN u USING (k, at)` | `t JOIN u USING ("galatea asof", k, at)` |
//! | `SELECT a FROM t WHERE b USING SAMPLE 10%` | `SELECT a FROM t CROSS JOIN "galatea sample"(10, 'PERCENT', '', '') WHERE b` |
//!
//! The words in quotes are names that no other statement has. [`Rewrite`](super::rewrite::Rewrite) replaces
//! them.

use super::SqlError;
use super::places::{Places, keyword};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

/// The function of a column of PIVOT: the column, and a query with its values.
pub(super) const PIVOT: &str = "galatea pivot";
/// The function of the GROUP BY within PIVOT (...).
pub(super) const GROUP: &str = "galatea group";
/// The name that marks the condition of an ASOF join.
pub(crate) const ASOF: &str = "galatea asof";
/// The table function of USING SAMPLE.
pub(crate) const SAMPLE: &str = "galatea sample";

/// Words that end the parts of a PIVOT or UNPIVOT statement.
const TAIL: [Keyword; 4] = [Keyword::ORDER, Keyword::LIMIT, Keyword::OFFSET, Keyword::FETCH];

/// Words that follow the tables of a SELECT.
const AFTER_TABLES: [Keyword; 8] = [
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::QUALIFY,
    Keyword::WINDOW,
    Keyword::PREWHERE,
    Keyword::SELECT,
    Keyword::ORDER,
];

type Tokens = Vec<TokenWithSpan>;

/// The tokens with all such clauses rewritten.
///
/// # Errors
/// A clause is incomplete, or has a part that is not supported.
pub(super) fn rewritten(tokens: Tokens) -> Result<Tokens, SqlError> {
    const WORDS: [&str; 4] = ["pivot", "unpivot", "asof", "sample"];
    let begins = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => WORDS.iter().any(|known| word.value.eq_ignore_ascii_case(known)),
        _ => false,
    };
    match tokens.iter().any(begins) {
        true => Clauses { tokens }.rewritten(),
        false => Ok(tokens),
    }
}

struct Clauses {
    tokens: Tokens,
}

fn keyword_of(token: &TokenWithSpan) -> Option<Keyword> {
    keyword(&token.token)
}

pub(super) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn is_empty(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().all(is_blank)
}

fn word(name: &str) -> Token {
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

fn find_keyword(tokens: &[TokenWithSpan], wanted: Keyword) -> Option<usize> {
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

/// The end of the query that these tokens begin.
fn end_of_query(tokens: &[TokenWithSpan]) -> usize {
    let ends = |token: &TokenWithSpan| {
        let set = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT];
        let ends = matches!(token.token, Token::RParen | Token::SemiColon | Token::EOF);
        ends || keyword_of(token).is_some_and(|word| set.contains(&word))
    };
    find(tokens, ends).unwrap_or(tokens.len())
}

fn incomplete(clause: &'static str, problem: impl Into<String>, form: &'static str) -> SqlError {
    SqlError::Clause {
        clause,
        problem: problem.into(),
        form,
    }
}

const PIVOT_FORM: &str = "write PIVOT t ON column [IN (1, 2)] USING sum(x) [AS name] [GROUP BY columns] [ORDER BY ...] [LIMIT ...]";
const UNPIVOT_FORM: &str =
    "write UNPIVOT t ON columns [INTO NAME name VALUE value] [ORDER BY ...] [LIMIT ...]";
const SAMPLE_FORM: &str =
    "write USING SAMPLE 10% or USING SAMPLE 100 ROWS, and after it (bernoulli, 42), (system) or (reservoir)";
const ASOF_FORM: &str =
    "write t ASOF [LEFT] JOIN u ON t.key = u.key AND t.time >= u.time, or USING (key, time)";

impl Clauses {
    fn rewritten(mut self) -> Result<Tokens, SqlError> {
        let mut places = Places::new();
        let mut here = 0;
        while here < self.tokens.len() {
            let word = match &self.tokens[here].token {
                Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
                _ => String::new(),
            };
            match word.as_str() {
                "PIVOT" if places.begins_query() => self.pivot_statement(here)?,
                "UNPIVOT" if places.begins_query() => self.unpivot_statement(here)?,
                "PIVOT" => self.pivot_table(here)?,
                "ASOF" => self.asof(here)?,
                "USING" => here = self.sample(here)?,
                _ => {}
            }
            places.pass(&self.tokens[here].token);
            here += 1;
        }
        Ok(self.tokens)
    }

    /// Replaces a range of tokens.
    fn replace(&mut self, range: std::ops::Range<usize>, tokens: Tokens) {
        self.tokens.splice(range, tokens);
    }

    fn pivot_statement(&mut self, here: usize) -> Result<(), SqlError> {
        let span = self.tokens[here].span;
        let rest = &self.tokens[here + 1..];
        let rest = &rest[..end_of_query(rest)];
        let tail = find(rest, |token| {
            keyword_of(token).is_some_and(|word| TAIL.contains(&word))
        });
        let (clauses, tail) = rest.split_at(tail.unwrap_or(rest.len()));
        let group = find_keyword(clauses, Keyword::GROUP).unwrap_or(clauses.len());
        let (clauses, group) = clauses.split_at(group);
        let Some(on) = find_keyword(clauses, Keyword::ON) else {
            return Err(incomplete("PIVOT", "has no ON", PIVOT_FORM));
        };
        let (table, columns) = (&clauses[..on], &clauses[on + 1..]);
        if is_empty(table) || find_keyword(table, Keyword::JOIN).is_some() {
            let problem = "needs one table; a join must be in parentheses";
            return Err(incomplete("PIVOT", problem, PIVOT_FORM));
        }
        let using = find_keyword(columns, Keyword::USING);
        let (columns, aggregates) = match using {
            Some(using) => (&columns[..using], Some(&columns[using + 1..])),
            None => (columns, None),
        };
        let mut written = at(span, [Token::make_keyword("SELECT")]);
        for column in split(columns, |token| token.token == Token::Comma) {
            written.extend(pivot_column(column, span)?);
            written.extend(at(span, [Token::Comma]));
        }
        match aggregates {
            Some(aggregates) if is_empty(aggregates) => {
                return Err(incomplete("PIVOT", "has an empty USING", PIVOT_FORM));
            }
            Some(aggregates) => written.extend_from_slice(aggregates),
            None => written.extend(at(
                span,
                [
                    Token::make_word("count", None),
                    Token::LParen,
                    Token::Mul,
                    Token::RParen,
                ],
            )),
        }
        written.extend(at(span, [Token::make_keyword("FROM")]));
        written.extend_from_slice(table);
        written.extend_from_slice(group);
        written.extend_from_slice(tail);
        let end = here + 1 + rest.len();
        self.replace(here..end, written);
        Ok(())
    }

    fn unpivot_statement(&mut self, here: usize) -> Result<(), SqlError> {
        let span = self.tokens[here].span;
        let rest = &self.tokens[here + 1..];
        let rest = &rest[..end_of_query(rest)];
        let tail = find(rest, |token| {
            keyword_of(token).is_some_and(|word| TAIL.contains(&word))
        });
        let (clauses, tail) = rest.split_at(tail.unwrap_or(rest.len()));
        let Some(on) = find_keyword(clauses, Keyword::ON) else {
            return Err(incomplete("UNPIVOT", "has no ON", UNPIVOT_FORM));
        };
        let (table, columns) = (&clauses[..on], &clauses[on + 1..]);
        if is_empty(table) || find_keyword(table, Keyword::JOIN).is_some() {
            let problem = "needs one table; a join must be in parentheses";
            return Err(incomplete("UNPIVOT", problem, UNPIVOT_FORM));
        }
        let into = find_keyword(columns, Keyword::INTO);
        let (columns, into) = columns.split_at(into.unwrap_or(columns.len()));
        let (name, value) = match into {
            [] => (at(span, [word("name")]), at(span, [word("value")])),
            into => unpivot_names(&into[1..])?,
        };
        let mut written = at(
            span,
            [
                Token::make_keyword("SELECT"),
                Token::Mul,
                Token::make_keyword("FROM"),
            ],
        );
        written.extend_from_slice(table);
        written.extend(at(span, [Token::make_keyword("UNPIVOT"), Token::LParen]));
        written.extend(value);
        written.extend(at(span, [Token::make_keyword("FOR")]));
        written.extend(name);
        written.extend(at(span, [Token::make_keyword("IN"), Token::LParen]));
        for (number, column) in split(columns, |token| token.token == Token::Comma)
            .iter()
            .enumerate()
        {
            if number > 0 {
                written.extend(at(span, [Token::Comma]));
            }
            let star = significant(column).filter(|first| column[*first].token == Token::Mul);
            match star {
                Some(_) => {
                    written.extend(at(span, [Token::make_word("columns", None), Token::LParen]));
                    written.extend_from_slice(column);
                    written.extend(at(span, [Token::RParen]));
                }
                None => written.extend_from_slice(column),
            }
        }
        written.extend(at(span, [Token::RParen, Token::RParen]));
        written.extend_from_slice(tail);
        let end = here + 1 + rest.len();
        self.replace(here..end, written);
        Ok(())
    }

    /// Rewrites the second column, and GROUP BY, in `PIVOT (... FOR a IN (...) b IN (...) GROUP BY c)`.
    fn pivot_table(&mut self, here: usize) -> Result<(), SqlError> {
        let after = &self.tokens[here + 1..];
        let Some(open) = significant(after).filter(|open| after[*open].token == Token::LParen) else {
            return Ok(());
        };
        let Some(close) = closing(&after[open..]) else {
            return Ok(());
        };
        let inner = &after[open + 1..open + close];
        let Some(before) = find_keyword(inner, Keyword::FOR) else {
            return Ok(());
        };
        let span = self.tokens[here].span;
        let (aggregates, mut rest) = (&inner[..before], &inner[before + 1..]);
        let mut columns = Vec::new();
        let group = find_keyword(rest, Keyword::GROUP);
        let group_by = group.map(|group| &rest[group + 1..]);
        rest = &rest[..group.unwrap_or(rest.len())];
        while let Some(list) = find_keyword(rest, Keyword::IN) {
            let open = list + 1 + significant(&rest[list + 1..]).unwrap_or(0);
            let end = match rest.get(open).map(|token| &token.token) {
                Some(Token::LParen) => closing(&rest[open..]).map(|close| open + close),
                _ => None,
            };
            let Some(end) = end else { return Ok(()) };
            columns.push(&rest[..=end]);
            rest = &rest[end + 1..];
        }
        let ([first, others @ ..], true) = (columns.as_slice(), is_empty(rest)) else {
            return Ok(());
        };
        let mut written = aggregates.to_vec();
        for column in others {
            written.extend(at(span, [Token::Comma]));
            written.extend(pivot_column(column, span)?);
        }
        if let Some(group_by) = group_by {
            let by = significant(group_by).filter(|by| keyword_of(&group_by[*by]) == Some(Keyword::BY));
            let Some(by) = by else {
                return Err(incomplete("PIVOT", "has GROUP without BY", PIVOT_FORM));
            };
            written.extend(at(span, [Token::Comma, word(GROUP), Token::LParen]));
            written.extend_from_slice(&group_by[by + 1..]);
            written.extend(at(span, [Token::RParen]));
        }
        written.extend(at(span, [Token::make_keyword("FOR")]));
        written.extend_from_slice(first);
        let begin = here + 1 + open + 1;
        self.replace(begin..begin + inner.len(), written);
        Ok(())
    }

    fn asof(&mut self, here: usize) -> Result<(), SqlError> {
        let span = self.tokens[here].span;
        let after = &self.tokens[here + 1..];
        let kinds = [
            Keyword::LEFT,
            Keyword::RIGHT,
            Keyword::FULL,
            Keyword::INNER,
            Keyword::OUTER,
            Keyword::SEMI,
            Keyword::ANTI,
        ];
        let mut next = after
            .iter()
            .enumerate()
            .filter(|(_, token)| !is_blank(token))
            .peekable();
        let mut kind = Vec::new();
        while let Some(word) =
            next.next_if(|(_, token)| keyword_of(token).is_some_and(|word| kinds.contains(&word)))
        {
            kind.extend(keyword_of(word.1));
        }
        let Some((join, _)) = next.next_if(|(_, token)| keyword_of(token) == Some(Keyword::JOIN)) else {
            return Ok(());
        };
        let rest = &after[join + 1..];
        let is_end = |token: &TokenWithSpan| {
            let word = keyword_of(token);
            let ends = [
                Keyword::ON,
                Keyword::USING,
                Keyword::MATCH_CONDITION,
                Keyword::JOIN,
            ];
            let ends = word.is_some_and(|word| ends.contains(&word) || AFTER_TABLES.contains(&word));
            ends || matches!(token.token, Token::SemiColon | Token::Comma)
        };
        let condition = find(rest, is_end);
        let found = condition.and_then(|condition| keyword_of(&rest[condition]));
        if found == Some(Keyword::MATCH_CONDITION) {
            return Ok(());
        }
        if let Some(kind) = kind
            .iter()
            .find(|kind| ![Keyword::LEFT, Keyword::INNER, Keyword::OUTER].contains(kind))
        {
            return Err(SqlError::Unsupported {
                clause: format!("ASOF {kind:?} JOIN"),
                hint: Some(
                    "ASOF JOIN and ASOF LEFT JOIN are supported; for the other sides, exchange the tables",
                ),
            });
        }
        let condition = here + 1 + join + 1 + condition.unwrap_or(0);
        match found {
            Some(Keyword::ON) => {
                let mark = at(span, [word(ASOF), Token::make_keyword("AND")]);
                let mark = [TokenWithSpan::new(blank(), span)]
                    .into_iter()
                    .chain(mark)
                    .collect();
                self.replace(condition + 1..condition + 1, mark);
            }
            Some(Keyword::USING) => {
                let list = significant(&self.tokens[condition + 1..]);
                let list = list.map(|list| condition + 1 + list);
                let Some(list) = list.filter(|list| self.tokens[*list].token == Token::LParen) else {
                    return Err(incomplete("ASOF JOIN", "has an incomplete USING", ASOF_FORM));
                };
                self.replace(list + 1..list + 1, at(span, [word(ASOF), Token::Comma]));
            }
            _ => return Err(incomplete("ASOF JOIN", "has no condition", ASOF_FORM)),
        }
        self.tokens[here].token = blank();
        Ok(())
    }

    /// Moves USING SAMPLE behind the tables of its SELECT. Returns the new index of the token at `here`.
    fn sample(&mut self, here: usize) -> Result<usize, SqlError> {
        let span = self.tokens[here].span;
        let after = &self.tokens[here + 1..];
        let is_sample = |token: &TokenWithSpan| keyword_of(token) == Some(Keyword::SAMPLE);
        let Some(sample) = significant(after).filter(|sample| is_sample(&after[*sample])) else {
            return Ok(here);
        };
        let (arguments, length) = sample_arguments(&after[sample + 1..])?;
        let Some(tables) = end_of_tables(&self.tokens[..here]) else {
            return Err(incomplete("USING SAMPLE", "needs a FROM", SAMPLE_FORM));
        };
        let end = here + 1 + sample + 1 + length;
        self.replace(here..end, vec![TokenWithSpan::new(blank(), span)]);
        let join = [
            blank(),
            Token::make_keyword("CROSS"),
            Token::make_keyword("JOIN"),
            word(SAMPLE),
            Token::LParen,
        ];
        let written = at(span, join.into_iter().chain(arguments).chain([Token::RParen]));
        let moved = here + written.len();
        self.replace(tables..tables, written);
        Ok(moved)
    }
}

fn blank() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// The call for a column of PIVOT: `a IN (1, 2)`, or `a`.
fn pivot_column(column: &[TokenWithSpan], span: Span) -> Result<Tokens, SqlError> {
    if is_empty(column) {
        return Err(incomplete("PIVOT", "has an empty column", PIVOT_FORM));
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
fn unpivot_names(into: &[TokenWithSpan]) -> Result<(Tokens, Tokens), SqlError> {
    let is = |word: &'static str| {
        move |token: &TokenWithSpan| match &token.token {
            Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
            _ => false,
        }
    };
    let wrong = || incomplete("UNPIVOT", "has an incomplete INTO", UNPIVOT_FORM);
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
fn sample_arguments(tokens: &[TokenWithSpan]) -> Result<(Vec<Token>, usize), SqlError> {
    let wrong = |problem: &str| incomplete("USING SAMPLE", problem, SAMPLE_FORM);
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
        false => match read.word(&["PERCENT", "ROWS"]) {
            Some(unit) => unit,
            None => "ROWS",
        },
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

/// Reads tokens, without blanks.
struct Reader<'t> {
    tokens: &'t [TokenWithSpan],
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<(usize, &'t Token)> {
        let next = significant(&self.tokens[self.at..])? + self.at;
        Some((next, &self.tokens[next].token))
    }

    fn next(&mut self) -> Option<&'t Token> {
        let (at, token) = self.peek()?;
        self.at = at + 1;
        Some(token)
    }

    fn take(&mut self, wanted: &Token) -> bool {
        let found = self.peek().is_some_and(|(_, token)| token == wanted);
        if found {
            self.next();
        }
        found
    }

    fn word(&mut self, known: &[&'static str]) -> Option<&'static str> {
        let (_, Token::Word(word)) = self.peek()? else {
            return None;
        };
        let found = known
            .iter()
            .find(|known| word.value.eq_ignore_ascii_case(known))?;
        self.next();
        Some(found)
    }

    fn name(&mut self) -> Option<String> {
        let (_, Token::Word(word)) = self.peek()? else {
            return None;
        };
        self.next();
        Some(word.value.clone())
    }

    fn number(&mut self) -> Option<String> {
        let (_, Token::Number(number, _)) = self.peek()? else {
            return None;
        };
        self.next();
        Some(number.clone())
    }
}

/// The index behind the tables of the SELECT that ends these tokens.
fn end_of_tables(tokens: &[TokenWithSpan]) -> Option<usize> {
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
