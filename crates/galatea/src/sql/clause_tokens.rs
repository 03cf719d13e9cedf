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
use super::clause_parts::{
    AFTER_TABLES, ASOF_FORM, PIVOT_FORM, SAMPLE_FORM, UNPIVOT_FORM, end_of_tables, pivot_column,
    sample_arguments, unpivot_names,
};
use super::places::Places;
use super::tokens::{
    Tokens, at, blank, closing, find, find_keyword, is_blank, is_empty, keyword_of, significant, split, word,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The function of the GROUP BY within PIVOT (...).
pub(super) const GROUP: &str = "galatea group";
/// The name that marks the condition of an ASOF join.
pub(crate) const ASOF: &str = "galatea asof";
/// The table function of USING SAMPLE.
pub(crate) const SAMPLE: &str = "galatea sample";

/// Words that end the parts of a PIVOT or UNPIVOT statement.
const TAIL: [Keyword; 4] = [Keyword::ORDER, Keyword::LIMIT, Keyword::OFFSET, Keyword::FETCH];

/// The parts of a PIVOT or UNPIVOT statement, and the clauses after them, such as ORDER BY.
fn without_tail(statement: &[TokenWithSpan]) -> (&[TokenWithSpan], &[TokenWithSpan]) {
    let tail = find(statement, |token| {
        keyword_of(token).is_some_and(|word| TAIL.contains(&word))
    });
    statement.split_at(tail.unwrap_or(statement.len()))
}

/// The table of a PIVOT or UNPIVOT statement, and the tokens after ON.
fn table_and_columns<'t>(
    parts: &'t [TokenWithSpan],
    clause: &'static str,
    form: &'static str,
) -> Result<(&'t [TokenWithSpan], &'t [TokenWithSpan]), SqlError> {
    let Some(on) = find_keyword(parts, Keyword::ON) else {
        return Err(SqlError::clause(clause, "has no ON", form));
    };
    let (table, columns) = (&parts[..on], &parts[on + 1..]);
    if is_empty(table) || find_keyword(table, Keyword::JOIN).is_some() {
        let problem = "needs one table; a join must be in parentheses";
        return Err(SqlError::clause(clause, problem, form));
    }
    Ok((table, columns))
}

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

/// The aggregates of a PIVOT without ON, which creates no columns for values; `None` for other statements.
fn without_columns(
    clauses: &[TokenWithSpan],
    group: &[TokenWithSpan],
    tail: &[TokenWithSpan],
    span: Span,
) -> Option<Tokens> {
    let using = find_keyword(clauses, Keyword::USING)?;
    let (table, aggregates) = (&clauses[..using], &clauses[using + 1..]);
    let has_more = |word: Keyword| find_keyword(table, word).is_some();
    if has_more(Keyword::ON) || has_more(Keyword::JOIN) || is_empty(table) || is_empty(aggregates) {
        return None;
    }
    let mut written = at(span, [Token::make_keyword("SELECT")]);
    let by = find_keyword(group, Keyword::BY);
    if let Some(keys) = by.map(|by| &group[by + 1..]).filter(|keys| !is_empty(keys)) {
        written.extend_from_slice(keys);
        written.extend(at(span, [Token::Comma]));
    }
    written.extend_from_slice(aggregates);
    written.extend(at(span, [Token::make_keyword("FROM")]));
    for part in [table, group, tail] {
        written.extend_from_slice(part);
        written.push(TokenWithSpan::new(blank(), span));
    }
    Some(written)
}

/// The beginning of the joined tables that end the tokens: behind FROM or a comma. `None` for one table.
fn joined_tables(tokens: &[TokenWithSpan]) -> Option<usize> {
    let (mut depth, mut is_joined) = (0_usize, false);
    for (here, token) in tokens.iter().enumerate().rev() {
        match token.token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LParen | Token::LBracket | Token::LBrace if depth == 0 => return None,
            Token::LParen | Token::LBracket | Token::LBrace => depth -= 1,
            _ if depth > 0 => {}
            Token::Comma => return is_joined.then_some(here + 1),
            _ => match keyword_of(token) {
                Some(Keyword::JOIN) => is_joined = true,
                Some(Keyword::FROM) => return is_joined.then_some(here + 1),
                Some(Keyword::SELECT | Keyword::WHERE) => return None,
                _ => {}
            },
        }
    }
    None
}

struct Clauses {
    tokens: Tokens,
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
                "PIVOT" => {
                    here = self.parenthesize(here);
                    self.pivot_table(here)?;
                }
                "UNPIVOT" => here = self.parenthesize(here),
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

    /// Replaces joined tables before a PIVOT or UNPIVOT by a query over them, because the clause applies to
    /// all of them. Returns the new index of the token at `here`.
    fn parenthesize(&mut self, here: usize) -> usize {
        let after = &self.tokens[here + 1..];
        let first = significant(after).map(|first| &after[first].token);
        let is_clause = match first {
            Some(Token::LParen) => true,
            Some(Token::Word(word)) => {
                let word = word.value.to_ascii_uppercase();
                word == "INCLUDE" || word == "EXCLUDE"
            }
            _ => false,
        };
        let Some(begin) = joined_tables(&self.tokens[..here]).filter(|_| is_clause) else {
            return here;
        };
        let span = self.tokens[here].span;
        let close = at(span, [Token::RParen]);
        let open = [
            blank(),
            Token::LParen,
            Token::make_keyword("SELECT"),
            Token::Mul,
            Token::make_keyword("FROM"),
        ];
        let open = at(span, open);
        let moved = here + close.len() + open.len();
        self.replace(here..here, close);
        self.replace(begin..begin, open);
        moved
    }

    fn pivot_statement(&mut self, here: usize) -> Result<(), SqlError> {
        let span = self.tokens[here].span;
        let rest = &self.tokens[here + 1..];
        let rest = &rest[..end_of_query(rest)];
        let (clauses, tail) = without_tail(rest);
        let group = find_keyword(clauses, Keyword::GROUP).unwrap_or(clauses.len());
        let (clauses, group) = clauses.split_at(group);
        if let Some(written) = without_columns(clauses, group, tail, span) {
            let end = here + 1 + rest.len();
            self.replace(here..end, written);
            return Ok(());
        }
        let (table, columns) = table_and_columns(clauses, "PIVOT", PIVOT_FORM)?;
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
                return Err(SqlError::clause("PIVOT", "has an empty USING", PIVOT_FORM));
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
        let (clauses, tail) = without_tail(rest);
        let (table, columns) = table_and_columns(clauses, "UNPIVOT", UNPIVOT_FORM)?;
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
                return Err(SqlError::clause("PIVOT", "has GROUP without BY", PIVOT_FORM));
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
                    return Err(SqlError::clause(
                        "ASOF JOIN",
                        "has an incomplete USING",
                        ASOF_FORM,
                    ));
                };
                self.replace(list + 1..list + 1, at(span, [word(ASOF), Token::Comma]));
            }
            _ => return Err(SqlError::clause("ASOF JOIN", "has no condition", ASOF_FORM)),
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
            return Err(SqlError::clause("USING SAMPLE", "needs a FROM", SAMPLE_FORM));
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
