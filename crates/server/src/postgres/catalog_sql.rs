//! Statements over the catalog, rewritten to SQL of the engine.
//!
//! Clients query the catalog in ways that only PostgreSQL plans. The rewriting of this module keeps the
//! meaning of a statement: it replaces tokens, and keeps the rest as it is. The rules of
//! datafusion-pg-catalog do not keep the meaning of all statements: they replace correlated subqueries by
//! NULL. They are a last resort for queries that read nothing but the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use datafusion_pg_catalog::pg_catalog::PG_CATALOG_TABLES;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;

use super::array_text;
use super::catalog_columns;
use super::catalog_empty::has_no_rows;
use super::catalog_names::{INFORMATION_SCHEMA, PG_CATALOG};
use super::text_edits::Edits;
use super::tokens::{Tokens, word};
use crate::statement_text::{Offsets, dialect_of};

/// A statement that is rewritten contains one of these, in lower case.
const HINTS: [&str; 10] = [
    "pg_",
    "information_schema",
    "current_",
    "session_user",
    "version",
    "'{",
    "regclass",
    "regtype",
    "regnamespace",
    "regproc",
];

/// Prefixes of functions that name their columns, as in PostgreSQL.
const NAMED: [&str; 12] = [
    "pg_",
    "current_",
    "session_user",
    "user",
    "version",
    "has_",
    "format_type",
    "obj_description",
    "col_description",
    "set_config",
    "to_reg",
    "quote_",
];

static PARSER: LazyLock<PostgresCompatibilityParser> = LazyLock::new(PostgresCompatibilityParser::new);

/// A rewritten statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rewritten {
    /// The statement with its meaning.
    pub(super) sql: String,
    /// The statement by all rules of datafusion-pg-catalog, to be used if `sql` cannot be planned.
    pub(super) last_resort: Option<String>,
}

/// Whether a name is one of a table of `pg_catalog`.
fn is_catalog_table(name: &str) -> bool {
    PG_CATALOG_TABLES
        .iter()
        .any(|table| table.eq_ignore_ascii_case(name))
        || catalog_columns::pg_names().any(|table| table.eq_ignore_ascii_case(name))
}

/// The rewritten statement; `None` if it is planned as it is.
pub(super) fn rewritten(statement: &str, dialect: &str) -> Option<Rewritten> {
    let lower = statement.to_ascii_lowercase();
    if !HINTS.iter().any(|hint| lower.contains(hint)) {
        return None;
    }
    let rewrite = || {
        let dialect = dialect_of(dialect);
        let replaced = replace_tokens(statement, dialect.as_ref());
        let sql = replace_names(replaced.as_deref().unwrap_or(statement), dialect.as_ref()).or(replaced);
        let last_resort = last_resort(statement);
        // Names of the catalog have no escapes.
        let sql = match &last_resort {
            Some(_) => without_escapes(sql.as_deref().unwrap_or(statement)).or(sql),
            None => sql,
        };
        if sql.is_none() && last_resort.is_none() {
            return None;
        }
        Some(Rewritten {
            sql: sql.unwrap_or_else(|| statement.to_string()),
            last_resort,
        })
    };
    // The visits recurse over the statement, as the parser does.
    match statement.len() {
        0..4096 => rewrite(),
        _ => stacker::grow(64 << 20, rewrite),
    }
}

impl Tokens<'_> {
    /// The number of tokens of `pg_catalog.` at a place: two or none.
    fn qualifier(&self, index: usize) -> usize {
        match self.is_word(index, "PG_CATALOG") && self.is(index + 1, &Token::Period) {
            true => 2,
            false => 0,
        }
    }

    /// The name of a type of object identifiers, such as `regclass`, and the number of its tokens.
    fn object_type(&self, index: usize) -> Option<(String, usize)> {
        let qualifier = self.qualifier(index);
        let name = word(self.tokens.get(index + qualifier)?);
        match name.as_str() {
            "REGCLASS" | "REGTYPE" | "REGNAMESPACE" | "REGPROC" | "REGROLE" => {
                // An array of them is no name.
                (!self.is(index + qualifier + 1, &Token::LBracket)).then_some((name, qualifier + 1))
            }
            _ => None,
        }
    }

    /// Whether the tokens are a type of arrays, up to its brackets.
    fn is_array_type(&self, index: usize) -> bool {
        const LONGEST: usize = 8;
        for place in index..index + LONGEST {
            match self.tokens.get(place) {
                Some(Token::LBracket) => return place > index,
                Some(
                    Token::Word(_)
                    | Token::Period
                    | Token::LParen
                    | Token::RParen
                    | Token::Number(..)
                    | Token::Comma,
                ) => {}
                _ => return false,
            }
        }
        false
    }

    /// Whether the pattern of LIKE before a token consists of strings without escapes.
    fn is_pattern_without(&self, end: usize, escape: &str, with_parameters: bool) -> bool {
        for token in self.tokens[..end].iter().rev() {
            match token {
                Token::Placeholder(_) if with_parameters => {}
                Token::SingleQuotedString(part) if !part.contains(escape) && !part.contains('\\') => {}
                Token::StringConcat => {}
                other => return matches!(word(other).as_str(), "LIKE" | "ILIKE"),
            }
        }
        false
    }
}

/// A string as SQL.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// The object identifier of the name in a string or of a parameter, as SQL.
fn object(kind: &str, name: &Token) -> Option<String> {
    let (name, is_parameter) = match name {
        Token::SingleQuotedString(name) => (name.as_str(), false),
        Token::Placeholder(name) => (name.as_str(), true),
        _ => return None,
    };
    if !is_parameter && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(name.to_string());
    }
    let value = match is_parameter {
        true => format!("{name}::TEXT"),
        false => quoted(name),
    };
    Some(match kind {
        "REGTYPE" => format!("to_regtype({value})"),
        "REGNAMESPACE" => format!("(SELECT min(oid) FROM pg_catalog.pg_namespace WHERE nspname = {value})"),
        // The columns of this type have the names of functions.
        "REGPROC" => value,
        "REGROLE" => format!("(SELECT min(oid) FROM pg_catalog.pg_roles WHERE rolname = {value})"),
        _ => {
            // A name of one part is looked up in both schemas.
            let schema = format!("parse_ident({value})[-2]");
            let table = format!("parse_ident({value})[-1]");
            format!(
                "(SELECT min(c.oid) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
                 ON c.relnamespace = n.oid WHERE c.relname = {table} AND \
                 coalesce(n.nspname = {schema}, n.nspname IN ('public', 'pg_catalog')))"
            )
        }
    })
}

/// The elements of an array literal, as a call of `make_array`; `None` for arrays of arrays and for other
/// strings.
fn array(token: &Token) -> Option<String> {
    let Token::SingleQuotedString(literal) = token else {
        return None;
    };
    let elements = array_text::elements(literal)?;
    let elements = elements
        .iter()
        .map(|element| element.as_deref().map_or("NULL".to_string(), quoted));
    Some(format!("make_array({})", elements.collect::<Vec<_>>().join(", ")))
}

/// Replaces what the engine does not parse or understands otherwise. `None` if nothing changes.
fn replace_tokens(text: &str, dialect: &dyn Dialect) -> Option<String> {
    let all = Tokens::of(text, dialect)?;
    let (tokens, places) = (&all.tokens, &all.places);
    let mut edits = Edits::new(text);
    for (index, token) in tokens.iter().enumerate() {
        let (begin, end) = places[index];
        let after_period = index > 0 && all.is(index - 1, &Token::Period);
        match token {
            // pg_catalog.f(...)
            Token::Word(_)
                if !after_period
                    && matches!(word(token).as_str(), "PG_CATALOG" | "INFORMATION_SCHEMA")
                    && all.is(index + 1, &Token::Period)
                    && all.is(index + 3, &Token::LParen)
                    && !all.is_word(index.wrapping_sub(1), "INTO") =>
            {
                edits.replace(begin, places[index + 2].0, "");
            }
            Token::Word(_) if word(token) == "OPERATOR" => {
                let operator = tokens.get(index + 4).map(ToString::to_string);
                if let Some(operator) = operator
                    && all.is(index + 1, &Token::LParen)
                    && all.qualifier(index + 2) == 2
                    && all.is(index + 5, &Token::RParen)
                    && matches!(operator.as_str(), "~" | "~*" | "!~" | "!~*")
                {
                    edits.replace(begin, places[index + 5].1, operator);
                }
            }
            // Strings are compared by their bytes.
            Token::Word(_) if word(token) == "COLLATE" && all.qualifier(index + 1) == 2 => {
                if let Some(Token::Word(name)) = tokens.get(index + 3)
                    && matches!(name.value.to_ascii_lowercase().as_str(), "default" | "c")
                {
                    edits.replace(begin, places[index + 3].1, "");
                }
            }
            Token::Word(_) if word(token) == "ESCAPE" => {
                if let Some(Token::SingleQuotedString(escape)) = tokens.get(index + 1)
                    && all.is_pattern_without(index, escape, false)
                {
                    edits.replace(begin, places[index + 1].1, "");
                }
            }
            Token::Word(_) if word(token) == "CAST" && all.is(index + 1, &Token::LParen) => {
                if let Some(name) = tokens.get(index + 2)
                    && all.is_word(index + 3, "AS")
                    && let Some((kind, length)) = all.object_type(index + 4)
                    && all.is(index + 4 + length, &Token::RParen)
                    && let Some(sql) = object(&kind, name)
                {
                    edits.replace(begin, places[index + 4 + length].1, sql);
                }
            }
            Token::SingleQuotedString(_) | Token::Placeholder(_)
                if all.is(index + 1, &Token::DoubleColon) =>
            {
                if let Some((kind, length)) = all.object_type(index + 2) {
                    if let Some(sql) = object(&kind, token) {
                        edits.replace(begin, places[index + 1 + length].1, sql);
                    }
                } else if all.is_array_type(index + 2)
                    && let Some(sql) = array(token)
                {
                    edits.replace(begin, end, sql);
                }
            }
            Token::SingleQuotedString(_)
                if index >= 2
                    && all.is(index - 1, &Token::LParen)
                    && all.is(index + 1, &Token::RParen)
                    && (all.is_word(index - 2, "ANY") || all.is_word(index - 2, "ALL")) =>
            {
                if let Some(sql) = array(token) {
                    edits.replace(begin, end, sql);
                }
            }
            _ => {}
        }
    }
    edits.applied()
}

fn parsed(text: &str, dialect: &dyn Dialect) -> Option<Statement> {
    let mut statements = Parser::parse_sql(dialect, text).ok()?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Some(statement),
        _ => None,
    }
}

/// The parts of a parsed statement that are rewritten or decide about it.
#[derive(Default)]
struct Parts {
    relations: Vec<ObjectName>,
    functions: BTreeSet<String>,
    /// Names of WITH, in lower case.
    queries: BTreeSet<String>,
    /// The words `current_schema` without parentheses.
    registers: Vec<Ident>,
    /// Functions that are columns without a name.
    columns: Vec<Ident>,
}

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.queries.insert(table.alias.name.value.to_ascii_lowercase());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let mut found: BTreeMap<String, Vec<Ident>> = BTreeMap::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(Expr::Function(function))
                    if function.over.is_none() && function.filter.is_none() =>
                {
                    if let [part] = function.name.0.as_slice()
                        && let Some(name) = part.as_ident()
                    {
                        let key = name.value.to_ascii_lowercase();
                        found.entry(key).or_default().push(name.clone());
                    }
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) if is_current_schema(name) => {
                    let key = name.value.to_ascii_lowercase();
                    found.entry(key).or_default().push(name.clone());
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    let key = alias.value.to_ascii_lowercase();
                    found.entry(key).or_default();
                }
                _ => {}
            }
        }
        // Two columns of a query cannot have one name.
        let single = found.into_iter().filter(|(name, places)| {
            places.len() == 1 && NAMED.iter().any(|prefix| name.starts_with(prefix))
        });
        self.columns.extend(single.flat_map(|(_, places)| places));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name, args: Some(_), ..
        } = factor
        {
            self.functions.insert(name.to_string());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.relations.push(relation.clone());
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expression
            && is_current_schema(name)
        {
            self.registers.push(name.clone());
        }
        ControlFlow::Continue(())
    }
}

fn is_current_schema(name: &Ident) -> bool {
    name.quote_style.is_none() && name.value.eq_ignore_ascii_case("current_schema")
}

impl Parts {
    fn of(statement: &Statement) -> Self {
        let mut parts = Self::default();
        let _ = statement.visit(&mut parts);
        parts
    }

    /// The name of a catalog's table without its schema.
    fn catalog_table<'a>(&self, relation: &'a ObjectName) -> Option<&'a Ident> {
        let [part] = relation.0.as_slice() else {
            return None;
        };
        let name = part.as_ident()?;
        let is_table = is_catalog_table(&name.value)
            && !self.queries.contains(&name.value.to_ascii_lowercase())
            && !self.functions.contains(&relation.to_string());
        is_table.then_some(name)
    }

    /// Whether all relations belong to the catalog.
    fn read_only_the_catalog(&self) -> bool {
        self.relations.iter().all(|relation| {
            let name = relation.to_string();
            let schema = relation.0.iter().rev().nth(1).and_then(|part| part.as_ident());
            let is_catalog = |schema: &Ident| {
                let schema = schema.value.to_ascii_lowercase();
                schema == PG_CATALOG || schema == INFORMATION_SCHEMA
            };
            self.functions.contains(&name)
                || schema.is_some_and(is_catalog)
                || self.queries.contains(&name.to_ascii_lowercase())
                || self.catalog_table(relation).is_some()
        })
    }
}

/// Adds the schema to tables of the catalog, parentheses to `current_schema`, and names to columns.
/// `None` if nothing changes.
fn replace_names(text: &str, dialect: &dyn Dialect) -> Option<String> {
    let parts = Parts::of(&parsed(text, dialect)?);
    let tables: BTreeSet<_> = parts
        .relations
        .iter()
        .filter_map(|relation| parts.catalog_table(relation))
        .map(|name| name.span.start)
        .collect();
    let registers: BTreeSet<_> = parts.registers.iter().map(|name| name.span.start).collect();
    let columns: BTreeSet<_> = parts.columns.iter().map(|name| name.span.start).collect();
    let places: BTreeSet<_> = tables.union(&registers).chain(&columns).copied().collect();
    let mut offsets = Offsets::new(text);
    let tokens = Tokens::of(text, dialect)?;
    let mut edits = Edits::new(text);
    for place in places {
        let begin = offsets.of(place);
        let Some(index) = tokens.places.iter().position(|(start, _)| *start == begin) else {
            continue;
        };
        let end = tokens.places[index].1;
        if tables.contains(&place) {
            edits.replace(begin, begin, format!("{PG_CATALOG}."));
            continue;
        }
        if registers.contains(&place) {
            let name = if columns.contains(&place) {
                " AS current_schema"
            } else {
                ""
            };
            edits.replace(begin, end, format!("current_schema(){name}"));
            continue;
        }
        let end = match tokens.is(index + 1, &Token::LParen) {
            true => tokens.closing(index + 1).map(|close| tokens.places[close].1),
            false => Some(end),
        };
        if let Some(end) = end {
            let name = text[begin..tokens.places[index].1].to_ascii_lowercase();
            edits.replace(end, end, format!(" AS \"{}\"", name.trim_matches('"')));
        }
    }
    edits.applied()
}

/// A query that reads nothing but the catalog, by all rules of datafusion-pg-catalog.
fn last_resort(text: &str) -> Option<String> {
    let statement = parsed(text, &PostgreSqlDialect {})?;
    let Statement::Query(query) = &statement else {
        return None;
    };
    if !Parts::of(&statement).read_only_the_catalog() {
        return None;
    }
    if let Some(empty) = empty(text, query) {
        return Some(empty);
    }
    let replaced = replace_for_catalog(text);
    let mut statements = PARSER.parse(replaced.as_deref().unwrap_or(text)).ok()?;
    statements.pop().map(|statement| statement.to_string())
}

/// A query of the catalog without the escapes of patterns that are parameters. `None` if nothing changes.
fn without_escapes(text: &str) -> Option<String> {
    let tokens = Tokens::of(text, &PostgreSqlDialect {})?;
    let mut edits = Edits::new(text);
    for index in 0..tokens.tokens.len() {
        if tokens.is_word(index, "ESCAPE")
            && let Some(Token::SingleQuotedString(escape)) = tokens.tokens.get(index + 1)
            && tokens.is_pattern_without(index, escape, true)
        {
            edits.replace(tokens.places[index].0, tokens.places[index + 1].1, "");
        }
    }
    edits.applied()
}

/// A query of the catalog with `ARRAY(SELECT ...)` as a query of `array_agg`. `None` if nothing changes.
fn replace_for_catalog(text: &str) -> Option<String> {
    let tokens = Tokens::of(text, &PostgreSqlDialect {})?;
    let mut edits = Edits::new(text);
    for index in 0..tokens.tokens.len() {
        let begin = tokens.places[index].0;
        if !tokens.is_word(index, "ARRAY")
            || !tokens.is(index + 1, &Token::LParen)
            || !tokens.is_word(index + 2, "SELECT")
        {
            continue;
        }
        let Some(close) = tokens.closing(index + 1) else {
            continue;
        };
        let has_no_rows = tokens.tokens[index..close].iter().any(|token| match token {
            Token::Word(name) => {
                catalog_columns::is_empty(&name.value)
                    || name.value.eq_ignore_ascii_case("reloptions")
                    || name.value.eq_ignore_ascii_case("attacl")
            }
            _ => false,
        });
        if has_no_rows {
            edits.replace(begin, tokens.places[close].1, "NULL::TEXT[]");
            continue;
        }
        edits.replace(
            begin,
            tokens.places[index + 1].1,
            "(SELECT array_agg(\"__v\") FROM (",
        );
        let (begin, end) = tokens.places[close];
        edits.replace(begin, end, ") AS \"__t\"(\"__v\"))");
    }
    edits.applied()
}

/// A query that joins a table without rows, as a query of its columns alone.
fn empty(text: &str, query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    if !has_no_rows(select) {
        return None;
    }
    let columns = select.projection.iter().map(|item| {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => name.value.clone(),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last()?.value.clone(),
            SelectItem::UnnamedExpr(Expr::Function(function)) => {
                function.name.0.last()?.as_ident()?.value.to_ascii_lowercase()
            }
            SelectItem::UnnamedExpr(_) => "?column?".to_string(),
            _ => return None,
        };
        Some(format!("NULL::TEXT AS \"{}\"", name.replace('"', "\"\"")))
    });
    let columns = columns.collect::<Option<Vec<_>>>()?;
    // The query keeps its parameters.
    let tokens = Tokens::of(text, &PostgreSqlDialect {})?.tokens.into_iter();
    let parameters = tokens.filter_map(|token| match token {
        Token::Placeholder(name) => Some(format!(" AND {name} IS NULL")),
        _ => None,
    });
    let parameters: BTreeSet<String> = parameters.collect();
    let parameters = parameters.into_iter().collect::<String>();
    Some(format!("SELECT {} WHERE false{parameters}", columns.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(statement: &str) -> Option<String> {
        let rewritten = rewritten(statement, "generic")?;
        (rewritten.sql != statement).then_some(rewritten.sql)
    }

    #[test]
    fn names_are_qualified_and_text_is_kept() {
        for (statement, expected) in [
            (
                "SELECT relname  FROM pg_class /* pg_type */ WHERE x = 'pg_type'",
                "SELECT relname  FROM pg_catalog.pg_class /* pg_type */ WHERE x = 'pg_type'",
            ),
            (
                "SELECT a FROM t WHERE pg_catalog.pg_table_is_visible(a) AND b OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default",
                "SELECT a FROM t WHERE pg_table_is_visible(a) AND b ~ 'x' ",
            ),
            (
                "SELECT current_schema",
                "SELECT current_schema() AS current_schema",
            ),
            (
                "SELECT 1 FROM t WHERE a = current_schema",
                "SELECT 1 FROM t WHERE a = current_schema()",
            ),
            ("SELECT version()", "SELECT version() AS \"version\""),
            (
                "SELECT '{a,\"b,c\",NULL}'::text[] FROM t",
                "SELECT make_array('a', 'b,c', NULL)::text[] FROM t",
            ),
            ("SELECT '17'::regclass", "SELECT 17"),
        ] {
            assert_eq!(sql(statement).as_deref(), Some(expected), "{statement}");
        }
    }

    #[test]
    fn other_statements_are_planned_as_they_are() {
        for statement in [
            "SELECT a FROM b",
            "SELECT mpg_city, 'pg_class' FROM cars -- current_user",
            "SELECT o.id, o.*, (SELECT max(x) FROM p WHERE p.i = o.id) AS mpg_x FROM orders o",
            "WITH pg_class AS (SELECT 1 AS oid) SELECT oid FROM pg_class",
            "SELECT a COLLATE \"C\", '{1}' FROM t WHERE version = 'pg_'",
            "SELECT pg_ FROM (",
        ] {
            assert_eq!(sql(statement), None, "{statement}");
        }
    }

    #[test]
    fn other_rules_are_for_queries_of_the_catalog() {
        let has_last_resort = |statement| {
            rewritten(statement, "generic")
                .and_then(|sql| sql.last_resort)
                .is_some()
        };
        assert!(has_last_resort("SELECT t.oid, t.* FROM pg_type t"));
        assert!(has_last_resort(
            "SELECT * FROM information_schema.columns WHERE table_name = current_schema()"
        ));
        assert!(!has_last_resort(
            "SELECT * FROM pg_class c JOIN t ON t.a = c.relname"
        ));
        assert!(!has_last_resort("DELETE FROM pg_class"));
    }
}
