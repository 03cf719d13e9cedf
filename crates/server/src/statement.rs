//! Classifies statements, and checks them against the grants of a role.
//!
//! Only the statements that [`check`] lists are executed; all others are refused. Tables are not checked
//! here: a session resolves only the names of visible tables ([`crate::tables`]).

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{self, ObjectName, Select, Set, Visit, Visitor};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use galatea::EngineSettings;

use crate::access::Role;
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::planning::{self, Context};
use crate::session_statement;
use crate::statement_text::{dialect_of, words};

/// How a statement is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It returns rows. Planning it changes nothing.
    Query,
    /// It returns a number of rows. Planning it changes nothing.
    Update,
    /// It is executed when it is planned.
    Immediate,
    /// It has no effect: a statement of transactions.
    Nothing,
}

/// A checked statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) class: Class,
    /// The command of PostgreSQL's command tag, such as `CREATE TABLE`.
    pub(crate) tag: &'static str,
}

impl Checked {
    const fn new(class: Class, tag: &'static str) -> Self {
        Self { class, tag }
    }
}

/// Parses and checks one statement.
///
/// # Errors
/// A syntax error; a missing grant; a statement that the server does not execute.
pub(crate) async fn check(text: &str, ctx: &Context, role: &Role) -> Result<Checked, Failure> {
    let dialect = ctx
        .state_ref()
        .read()
        .config_options()
        .sql_parser
        .dialect
        .to_string();
    let words = words(text, &dialect, 5);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if matches!(words.first(), Some(&("SHOW" | "ALTER" | "DESCRIBE" | "DESC"))) {
        check_names(text, &dialect, ctx, role)?;
    }
    // Statements that DataFusion's parser does not have, or that galatea::sql executes itself.
    match words.as_slice() {
        ["ALTER", "SYSTEM", ..] if role.alter_system => {
            return Ok(Checked::new(Class::Immediate, "ALTER SYSTEM"));
        }
        ["ALTER", "SYSTEM", ..] => return Err(missing(role, "ALTER SYSTEM", "alter_system")),
        ["ALTER", "TABLE", ..] => return writes(role, Class::Immediate, "ALTER TABLE"),
        // All sessions share the tables of a server.
        ["CREATE", "TEMP" | "TEMPORARY", kind @ ("TABLE" | "VIEW"), ..]
        | [
            "CREATE",
            "OR",
            "REPLACE",
            "TEMP" | "TEMPORARY",
            kind @ ("TABLE" | "VIEW"),
            ..,
        ] => return Err(refused(&format!("CREATE TEMPORARY {kind}"))),
        ["BEGIN", ..] | ["START", "TRANSACTION", ..] => return Ok(Checked::new(Class::Nothing, "BEGIN")),
        ["COMMIT" | "END", ..] => return Ok(Checked::new(Class::Nothing, "COMMIT")),
        ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO"] => {
            return Ok(Checked::new(Class::Nothing, "ROLLBACK TO SAVEPOINT"));
        }
        ["ROLLBACK" | "ABORT", ..] => return Ok(Checked::new(Class::Nothing, "ROLLBACK")),
        ["SAVEPOINT", ..] => return Ok(Checked::new(Class::Nothing, "SAVEPOINT")),
        ["RELEASE", ..] => return Ok(Checked::new(Class::Nothing, "RELEASE")),
        _ => {}
    }
    if let Some(statement) = galatea::session_statement(text)? {
        let parts = session_statement::parts(&statement);
        let (tag, query) = parts.ok_or_else(|| refused("this statement"))?;
        let class = query.map_or(Ok(Class::Query), |query| class_of(query, ctx, role))?;
        return match class {
            Class::Query => Ok(Checked::new(Class::Immediate, tag)),
            _ => Err(refused(&format!("{tag} of a statement that is not a query"))),
        };
    }
    parsed(text, ctx, role)
}

/// Parses a statement of DataFusion, and checks it.
fn parsed(text: &str, ctx: &Context, role: &Role) -> Result<Checked, Failure> {
    let parsed = planning::statement(ctx, text)?;
    // The visits below recurse over the statement, as the parser did.
    let checked = || check_parsed(&parsed, ctx, role);
    match text.len() {
        0..4096 => checked(),
        _ => stacker::grow(64 << 20, checked),
    }
}

/// The class of the query of another statement.
fn class_of(query: &str, ctx: &Context, role: &Role) -> Result<Class, Failure> {
    parsed(query, ctx, role).map(|checked| checked.class)
}

/// Checks the files that a statement names, by its tokens: galatea reads the columns of the file of SHOW
/// COLUMNS when it parses the statement.
fn check_names(text: &str, dialect: &str, ctx: &SessionContext, role: &Role) -> Result<(), Failure> {
    if role.folders.is_empty() {
        return Ok(());
    }
    let dialect = dialect_of(dialect);
    let mut tokens = Vec::new();
    // The parser reports what the tokenizer cannot read.
    let _ = Tokenizer::new(dialect.as_ref(), text).tokenize_with_location_into_buf(&mut tokens);
    let mut names_table = false;
    for token in tokens {
        match token.token {
            Token::Whitespace(_) => {}
            Token::Word(word) if word.quote_style.is_none() => {
                let keyword = word.value.to_ascii_uppercase();
                names_table = matches!(keyword.as_str(), "FROM" | "IN" | "TABLE" | "DESCRIBE" | "DESC");
            }
            Token::Word(word) => check_name(&word.value, false, ctx, role)?,
            Token::SingleQuotedString(name) => {
                check_name(&name, names_table, ctx, role)?;
                names_table = false;
            }
            _ => names_table = false,
        }
    }
    Ok(())
}

/// Checks a name that a session with file queries may resolve to a file.
fn check_name(name: &str, is_quoted: bool, ctx: &SessionContext, role: &Role) -> Result<(), Failure> {
    let is_path = is_quoted || name.contains(['/', '\\', '.', '*', '?', '[', '{', '~', ':']);
    let is_table = || {
        let state = ctx.state_ref();
        let schema = state.read().schema_for_ref(TableReference::bare(name));
        schema.is_ok_and(|schema| schema.table_exist(name))
    };
    match is_path && !is_table() {
        true => role.check_readable(name),
        false => Ok(()),
    }
}

fn missing(role: &Role, statement: &str, grant: &str) -> Failure {
    Failure::denied(format!(
        "{statement} is not granted to the role {}\nhint: the administrator grants it by roles.{}.{grant}",
        role.name, role.name
    ))
}

fn writes(role: &Role, class: Class, tag: &'static str) -> Result<Checked, Failure> {
    match role.write {
        true => Ok(Checked::new(class, tag)),
        false => Err(missing(role, tag, "write")),
    }
}

fn check_parsed(statement: &Statement, ctx: &SessionContext, role: &Role) -> Result<Checked, Failure> {
    match statement {
        Statement::Statement(statement) => check_sql(statement, ctx, role),
        Statement::Explain(explain) => {
            check_parsed(&explain.statement, ctx, role)?;
            Ok(Checked::new(Class::Query, "EXPLAIN"))
        }
        Statement::CopyTo(copy) => {
            if role.copy_to.is_empty() {
                return Err(missing(role, "COPY", "copy_to"));
            }
            role.check_writable(&copy.target)?;
            let mut parts = Parts {
                ctx,
                role,
                writes: false,
            };
            let flow = match &copy.source {
                CopyToSource::Query(query) => query.visit(&mut parts),
                CopyToSource::Relation(name) => parts.pre_visit_relation(name),
            };
            finished(flow)?;
            refuse_writes(&parts, role)?;
            Ok(Checked::new(Class::Update, "COPY"))
        }
        Statement::CreateExternalTable(table) => {
            if !role.external_tables {
                return Err(missing(role, "CREATE EXTERNAL TABLE", "external_tables"));
            }
            for location in &table.locations {
                role.check_readable(location)?;
            }
            Ok(Checked::new(Class::Immediate, "CREATE TABLE"))
        }
        Statement::Reset(reset) => {
            let datafusion::sql::parser::ResetStatement::Variable(name) = reset;
            check_setting(name, "", role)?;
            Ok(Checked::new(Class::Immediate, "RESET"))
        }
    }
}

fn check_sql(statement: &ast::Statement, ctx: &SessionContext, role: &Role) -> Result<Checked, Failure> {
    use ast::Statement as S;
    let mut parts = Parts {
        ctx,
        role,
        writes: false,
    };
    finished(statement.visit(&mut parts))?;
    let query = |tag| {
        refuse_writes(&parts, role)?;
        Ok(Checked::new(Class::Query, tag))
    };
    match statement {
        // SELECT INTO creates its table when it is planned.
        S::Query(_) if parts.writes => writes(role, Class::Immediate, "SELECT INTO"),
        S::Query(_) => query("SELECT"),
        S::Insert(_) => writes(role, Class::Update, "INSERT"),
        S::Update(_) => writes(role, Class::Update, "UPDATE"),
        S::Delete(_) => writes(role, Class::Update, "DELETE"),
        S::Truncate(_) => writes(role, Class::Update, "TRUNCATE TABLE"),
        S::CreateTable(_) => writes(role, Class::Immediate, "CREATE TABLE"),
        S::CreateView(_) => writes(role, Class::Immediate, "CREATE VIEW"),
        S::Drop { object_type, .. } => match object_type {
            ast::ObjectType::Table => writes(role, Class::Immediate, "DROP TABLE"),
            ast::ObjectType::View => writes(role, Class::Immediate, "DROP VIEW"),
            other => Err(refused(&format!("DROP {other}"))),
        },
        S::Explain { statement, .. } => {
            check_sql(statement, ctx, role)?;
            query("EXPLAIN")
        }
        S::ExplainTable { .. } => query("EXPLAIN"),
        S::ShowVariable { .. }
        | S::ShowTables { .. }
        | S::ShowColumns { .. }
        | S::ShowFunctions { .. }
        | S::ShowCreate { .. } => query("SHOW"),
        S::Set(set) => {
            match set {
                Set::SingleAssignment { variable, values, .. } => {
                    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                    check_setting(variable, &values.join(","), role)?;
                }
                _ => return Err(refused("this form of SET")),
            }
            Ok(Checked::new(Class::Immediate, "SET"))
        }
        S::Prepare { statement, .. } => {
            check_sql(statement, ctx, role)?;
            Ok(Checked::new(Class::Immediate, "PREPARE"))
        }
        // The statement was checked when it was prepared.
        S::Execute { .. } => Ok(Checked::new(Class::Immediate, "EXECUTE")),
        S::Deallocate { .. } => Ok(Checked::new(Class::Immediate, "DEALLOCATE")),
        other => {
            let name = other.to_string();
            let words: Vec<&str> = name.split_whitespace().take(2).collect();
            Err(refused(&words.join(" ")))
        }
    }
}

fn refused(statement: &str) -> Failure {
    Failure::unsupported(format!("{statement} is not available on a server"))
}

fn refuse_writes(parts: &Parts<'_>, role: &Role) -> Result<(), Failure> {
    match parts.writes {
        true => writes(role, Class::Query, "SELECT INTO").and(Err(refused("SELECT INTO in this statement"))),
        false => Ok(()),
    }
}

fn finished(flow: ControlFlow<Failure>) -> Result<(), Failure> {
    match flow {
        ControlFlow::Break(failure) => Err(failure),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The prefixes of DataFusion's settings that a client may change. The others affect other clients or files.
const SETTINGS: [&str; 5] = [
    "datafusion.execution.time_zone",
    "datafusion.sql_parser.dialect",
    "datafusion.explain.",
    "datafusion.optimizer.",
    "datafusion.format.",
];

/// Checks that a client may change a setting of its session.
fn check_setting(name: &ObjectName, value: &str, role: &Role) -> Result<(), Failure> {
    let parts = name
        .0
        .iter()
        .map(|part| part.as_ident().map(|part| part.value.as_str()));
    let name = parts
        .collect::<Option<Vec<_>>>()
        .unwrap_or_default()
        .join(".")
        .to_ascii_lowercase();
    if name == "galatea.device" && value.to_ascii_lowercase().contains("emulated") && !role.emulated_device {
        return Err(missing(role, "galatea.device = 'emulated'", "emulated_device"));
    }
    let is_galatea = name.starts_with("galatea.") && !name.starts_with("galatea.debug.");
    // The engine refuses these and names ALTER SYSTEM.
    let is_engine = EngineSettings::contains(&name);
    let is_allowed = SETTINGS.iter().any(|prefix| name.starts_with(prefix));
    let is_alias = matches!(name.as_str(), "timezone" | "time.zone");
    if is_galatea || is_engine || is_allowed || is_alias {
        return Ok(());
    }
    match name.starts_with("datafusion.") || name.starts_with("galatea.") {
        true => Err(Failure::denied(format!(
            "clients may not change the setting {name}\nhint: the administrator sets it by [settings] or --set"
        ))),
        false => Err(Failure::new(
            FailureKind::Query(ErrorKind::Invalid),
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

/// Visits the tables of a statement, and finds SELECT INTO.
struct Parts<'a> {
    ctx: &'a SessionContext,
    role: &'a Role,
    /// Whether a query of the statement creates a table or changes one.
    writes: bool,
}

impl Visitor for Parts<'_> {
    type Break = Failure;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Failure> {
        self.writes |= select.into.is_some();
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Failure> {
        self.writes |= matches!(
            query.body.as_ref(),
            ast::SetExpr::Insert(_)
                | ast::SetExpr::Update(_)
                | ast::SetExpr::Delete(_)
                | ast::SetExpr::Merge(_)
        );
        ControlFlow::Continue(())
    }

    /// Checks names that a session with file queries may resolve to a file. Other sessions do not look names
    /// up in the file system.
    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Failure> {
        if self.role.folders.is_empty() {
            return ControlFlow::Continue(());
        }
        let Some(last) = name.0.last().and_then(|part| part.as_ident()) else {
            return ControlFlow::Continue(());
        };
        let is_quoted = last.quote_style == Some('\'');
        // A name with a schema is looked up in files, too, so only its last part matters.
        if let Err(failure) = check_name(&last.value, is_quoted, self.ctx, self.role) {
            return ControlFlow::Break(failure);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Limits;
    use crate::opaque::Opaque;

    fn reader() -> Role {
        Role {
            name: "reader".to_string(),
            write: false,
            ..Role::local(Limits::default(), false)
        }
    }

    async fn check_as(role: &Role, text: &str) -> Result<Checked, Failure> {
        let ctx = galatea::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .unwrap();
        check(text, &Opaque::new(ctx), role).await
    }

    #[tokio::test]
    async fn reader_may_only_query() {
        let role = reader();
        for text in [
            "SELECT 1",
            "VALUES (1)",
            "SHOW TABLES",
            "EXPLAIN SELECT 1",
            "WITH a AS (SELECT 1) SELECT * FROM a",
        ] {
            assert_eq!(check_as(&role, text).await.unwrap().class, Class::Query, "{text}");
        }
        for text in [
            "CREATE TABLE a AS SELECT 1",
            "SELECT 1 INTO a",
            "EXPLAIN ANALYZE INSERT INTO a SELECT 1",
            "INSERT INTO a VALUES (1)",
            "DELETE FROM a",
            "UPDATE a SET b = 1",
            "DROP TABLE a",
            "CREATE VIEW a AS SELECT 1",
            "ALTER TABLE a SET (conflict_layout = 'auto')",
            "alter /* */ system set galatea.memory.admission = 'x'",
            "PREPARE p AS DELETE FROM a",
            "COPY (SELECT 1) TO '/tmp/a.csv'",
            "CREATE EXTERNAL TABLE a STORED AS CSV LOCATION '/etc/passwd'",
            "SET galatea.device = 'emulated'",
            "SET datafusion.runtime.memory_limit = '1G'",
            "SET datafusion.sql_parser.recursion_limit = 1000000",
            "RESET datafusion.runtime.memory_limit",
        ] {
            let failure = check_as(&role, text).await.expect_err(text);
            assert_eq!(failure.kind, FailureKind::Denied, "{text}: {failure}");
        }
    }

    /// A statement is checked before galatea reads its files for columns or values.
    #[tokio::test]
    async fn files_of_clauses_and_functions_are_checked() {
        let open = tempfile::tempdir().unwrap();
        let closed = tempfile::tempdir().unwrap();
        for folder in [&open, &closed] {
            std::fs::write(folder.path().join("a.csv"), "x,y\n1,2\n").unwrap();
        }
        let role = Role {
            folders: vec![open.path().canonicalize().unwrap()],
            ..reader()
        };
        let check_file = async |text: &str, folder: &tempfile::TempDir| {
            let ctx = galatea::session()
                .with_setting("galatea.device", "cpu")
                .with_file_queries(true)
                .build()
                .unwrap();
            let file = folder.path().canonicalize().unwrap().join("a.csv");
            let text = text.replace("{}", &file.to_string_lossy());
            check(&text, &Opaque::new(ctx), &role).await
        };
        for text in [
            "SELECT * FROM '{}' ORDER BY ALL",
            "SELECT x + 1 AS z FROM '{}' WHERE z > 1",
            "PIVOT '{}' ON x USING sum(y)",
            "UNPIVOT '{}' ON x, y",
            "SELECT * FROM '{}' AS a ASOF JOIN '{}' AS b ON a.x >= b.x",
            "SELECT * FROM '{}' USING SAMPLE 1 ROWS",
        ] {
            let failure = check_file(text, &closed).await.expect_err(text);
            assert_eq!(failure.kind, FailureKind::Denied, "{text}: {failure}");
            let checked = check_file(text, &open).await.expect(text);
            assert_eq!(checked.class, Class::Query, "{text}");
        }
        // Names with options are no paths, so no role has them.
        for text in [
            "SELECT * FROM read_csv('{}')",
            "SELECT * FROM read_csv(['{}'], delim = ',')",
            "SELECT * FROM read_json('{}')",
            "SELECT * FROM read_parquet('{}')",
        ] {
            let failure = check_file(text, &closed).await.expect_err(text);
            assert_eq!(failure.kind, FailureKind::Denied, "{text}: {failure}");
        }
    }

    #[tokio::test]
    async fn unlisted_statements_are_refused() {
        let role = Role::local(Limits::default(), false);
        for text in [
            "CREATE TEMP TABLE t AS SELECT 1",
            "create or replace temporary view v as select 1",
            "CREATE FUNCTION f(x INT) RETURNS INT RETURN x",
            "CREATE SCHEMA s",
            "CREATE DATABASE d",
            "DROP SCHEMA s",
            "GRANT SELECT ON a TO b",
            "USE a",
        ] {
            let failure = check_as(&role, text).await.expect_err(text);
            assert_eq!(
                failure.kind,
                FailureKind::Query(ErrorKind::Unsupported),
                "{text}: {failure}"
            );
        }
        for (text, class) in [
            ("BEGIN", Class::Nothing),
            ("rollback to savepoint a", Class::Nothing),
            ("SET galatea.device = 'cpu'", Class::Immediate),
            ("SELECT 1 AS a INTO b", Class::Immediate),
            ("DROP TABLE IF EXISTS a", Class::Immediate),
            ("INSERT INTO a VALUES (1)", Class::Update),
        ] {
            let checked = check_as(&role, text).await;
            assert_eq!(checked.expect(text).class, class, "{text}");
        }
    }

    #[tokio::test]
    async fn deep_statements_are_refused() {
        let text = format!("SELECT {}1{}", "(".repeat(1000), ")".repeat(1000));
        let failure = check_as(&reader(), &text).await.expect_err("too deep");
        assert_ne!(failure.kind, FailureKind::Query(ErrorKind::Internal), "{failure}");
    }
}
