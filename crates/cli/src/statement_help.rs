//! The help of `\h`: statements, their syntax, and examples.
//!
//! DataFusion's help shows PostgreSQL's syntax, but DataFusion refuses parts of it. A test runs all examples
//! here, and checks that they contain every keyword of the syntax.

/// The help on one statement.
struct Help {
    name: &'static str,
    meaning: &'static str,
    syntax: &'static str,
    /// One statement per line. They refer to a table `t` of two numbers, `k` and `v`.
    examples: &'static str,
}

const STATEMENTS: [Help; 21] = [
    Help {
        name: "ALTER SYSTEM",
        meaning: "change a setting of the engine, for all of its sessions",
        syntax: "\
ALTER SYSTEM SET name { = | TO } value
ALTER SYSTEM RESET { name | ALL }",
        examples: "\
ALTER SYSTEM SET galatea.memory.gpu_limit = '8 GiB'
ALTER SYSTEM SET galatea.memory.gpu_limit TO '8 GiB'
ALTER SYSTEM RESET ALL",
    },
    Help {
        name: "ALTER TABLE",
        meaning: "lay out columns for shared memory of a GPU",
        syntax: "ALTER TABLE table SET ( option = value [, ...] )",
        examples: "ALTER TABLE t SET (conflict_layout = 'auto', conflict_window = 16)",
    },
    Help {
        name: "COPY",
        meaning: "write rows to files",
        syntax: "\
COPY { table | ( query ) } TO 'file'
    [ STORED AS { CSV | TSV | JSON | PARQUET | ARROW } ]
    [ PARTITIONED BY ( column [, ...] ) ]
    [ OPTIONS ( 'name' 'value' [, ...] ) ]",
        examples: "\
COPY t TO 'help/t.csv.gz'
COPY t TO 'help/t' STORED AS CSV
COPY t TO 'help/t' STORED AS TSV
COPY t TO 'help/t' STORED AS JSON
COPY t TO 'help/t' STORED AS ARROW
COPY (SELECT * FROM t) TO 'help/k/' STORED AS PARQUET PARTITIONED BY (k) OPTIONS ('format.compression' 'zstd(3)')",
    },
    Help {
        name: "CREATE EXTERNAL TABLE",
        meaning: "name files, or a stream of rows",
        syntax: "\
CREATE [ UNBOUNDED ] EXTERNAL TABLE [ IF NOT EXISTS ] table
    [ ( column type [, ...] ) ]
    STORED AS { CSV | JSON | PARQUET | ARROW | AVRO }
    [ PARTITIONED BY ( column [, ...] ) ]
    [ WITH ORDER ( column [ ASC | DESC ] [, ...] ) ]
    LOCATION 'path'
    [ OPTIONS ( 'name' 'value' [, ...] ) ]",
        examples: "\
CREATE EXTERNAL TABLE IF NOT EXISTS files (n INT, m INT) STORED AS CSV WITH ORDER (n ASC, m DESC) LOCATION 'files/' OPTIONS ('format.has_header' 'true')
CREATE EXTERNAL TABLE tabs (n INT) STORED AS CSV LOCATION 'tabs/' OPTIONS ('format.delimiter' ';')
CREATE EXTERNAL TABLE years (n INT, year INT) STORED AS PARQUET PARTITIONED BY (year) LOCATION 'years/'
CREATE EXTERNAL TABLE objects (n INT) STORED AS JSON LOCATION 'objects/'
CREATE EXTERNAL TABLE arrows (n INT) STORED AS ARROW LOCATION 'arrows/'
CREATE EXTERNAL TABLE records (n INT) STORED AS AVRO LOCATION 'records/'
CREATE UNBOUNDED EXTERNAL TABLE clicks (ts TIMESTAMP, page VARCHAR) STORED AS CSV WITH ORDER (ts) LOCATION 'spool/'",
    },
    Help {
        name: "CREATE TABLE",
        meaning: "keep a table in memory",
        syntax: "\
CREATE [ OR REPLACE ] TABLE [ IF NOT EXISTS ] table
    ( column type [ NOT NULL ] [ DEFAULT value ] [, ...] )
CREATE [ OR REPLACE ] TABLE [ IF NOT EXISTS ] table AS query",
        examples: "\
CREATE TABLE a (n INT NOT NULL, s VARCHAR DEFAULT 'none')
CREATE TABLE IF NOT EXISTS b AS SELECT k, sum(v) AS total FROM t GROUP BY k
CREATE OR REPLACE TABLE b AS VALUES (1, 'one'), (2, 'two')",
    },
    Help {
        name: "CREATE VIEW",
        meaning: "name a query",
        syntax: "CREATE [ OR REPLACE ] VIEW view [ ( column [, ...] ) ] AS query",
        examples: "CREATE OR REPLACE VIEW w (a, b) AS SELECT k, v FROM t",
    },
    Help {
        name: "DELETE",
        meaning: "remove rows of a table in memory",
        syntax: "DELETE FROM table [ WHERE condition ]",
        examples: "DELETE FROM t WHERE v > 100",
    },
    Help {
        name: "DESCRIBE",
        meaning: "list the columns of a table or of a query",
        syntax: "DESCRIBE { table | query }",
        examples: "\
DESCRIBE t
DESCRIBE SELECT k FROM t",
    },
    Help {
        name: "DROP TABLE",
        meaning: "remove a table",
        syntax: "DROP TABLE [ IF EXISTS ] table",
        examples: "DROP TABLE IF EXISTS none",
    },
    Help {
        name: "DROP VIEW",
        meaning: "remove a view",
        syntax: "DROP VIEW [ IF EXISTS ] view",
        examples: "DROP VIEW IF EXISTS none",
    },
    Help {
        name: "EXECUTE",
        meaning: "run a prepared query",
        syntax: "EXECUTE name [ ( value [, ...] ) ]",
        examples: "\
PREPARE above AS SELECT * FROM t WHERE v > $1
EXECUTE above(1)",
    },
    Help {
        name: "EXPLAIN",
        meaning: "show where the parts of a query run, and why",
        syntax: "\
EXPLAIN [ ANALYZE ] [ VERBOSE ] statement
EXPLAIN [ ANALYZE ] FORMAT { TREE | INDENT | PGJSON | GRAPHVIZ } statement",
        examples: "\
EXPLAIN SELECT k, sum(v) FROM t GROUP BY k
EXPLAIN ANALYZE VERBOSE SELECT k, sum(v) FROM t GROUP BY k
EXPLAIN ANALYZE FORMAT INDENT SELECT k, sum(v) FROM t GROUP BY k
EXPLAIN FORMAT TREE SELECT * FROM t
EXPLAIN FORMAT PGJSON SELECT * FROM t
EXPLAIN FORMAT GRAPHVIZ SELECT * FROM t",
    },
    Help {
        name: "INSERT",
        meaning: "add rows to a table",
        syntax: "\
INSERT INTO table [ ( column [, ...] ) ] { VALUES ( value [, ...] ) [, ...] | query }",
        examples: "\
INSERT INTO t VALUES (7, 8), (9, 10)
INSERT INTO t (v, k) SELECT 1, 2",
    },
    Help {
        name: "PREPARE",
        meaning: "plan a query with parameters, for EXECUTE",
        syntax: "\
PREPARE name [ ( type [, ...] ) ] AS query
DEALLOCATE name",
        examples: "\
PREPARE below (INT) AS SELECT * FROM t WHERE v < $1
DEALLOCATE below",
    },
    Help {
        name: "RESET",
        meaning: "restore the default of a setting of the session",
        syntax: "RESET name",
        examples: "RESET galatea.overflow",
    },
    Help {
        name: "SELECT",
        meaning: "compute rows",
        syntax: "\
[ WITH [ RECURSIVE ] name [ ( column [, ...] ) ] AS ( query ) [, ...] ]
SELECT [ ALL | DISTINCT [ ON ( expression [, ...] ) ] ] { * | expression [ [ AS ] name ] } [, ...]
    [ FROM from_item [, ...] ]
    [ WHERE condition ]
    [ GROUP BY { ALL | grouping [, ...] } ]
    [ HAVING condition ]
    [ WINDOW name AS ( [ PARTITION BY expression [, ...] ] [ ORDER BY order [, ...] ] [ frame ] ) [, ...] ]
    [ QUALIFY condition ]
    [ { UNION | INTERSECT | EXCEPT } [ ALL | DISTINCT ] query ]
    [ ORDER BY expression [ ASC | DESC ] [ NULLS { FIRST | LAST } ] [, ...] ]
    [ LIMIT { count | ALL } ]
    [ OFFSET start ]

from_item:
    { table | 'file' } [ [ AS ] alias [ ( column [, ...] ) ] ]
        [ TABLESAMPLE { BERNOULLI | SYSTEM } ( percent ) [ REPEATABLE ( seed ) ] ]
    [ LATERAL ] ( query ) [ AS ] alias
    function ( [ argument [, ...] ] ) [ [ AS ] alias [ ( column [, ...] ) ] ]
    from_item [ INNER | LEFT | RIGHT | FULL | LEFT SEMI | LEFT ANTI ] JOIN from_item
        { ON condition | USING ( column [, ...] ) }
    from_item NATURAL JOIN from_item
    from_item CROSS JOIN from_item

grouping:
    expression | ROLLUP ( expression [, ...] ) | CUBE ( expression [, ...] )
    GROUPING SETS ( ( [ expression [, ...] ] ) [, ...] )",
        examples: "\
SELECT DISTINCT ON (k) k, v AS value FROM t ORDER BY k ASC NULLS LAST, v DESC NULLS FIRST
SELECT ALL k, sum(v) FILTER (WHERE v > 1) FROM t WHERE v > 0 GROUP BY k HAVING sum(v) > 0 LIMIT 2 OFFSET 1
SELECT k, count(*) FROM t GROUP BY ALL LIMIT ALL
SELECT k, v, sum(v) OVER w AS s FROM t WINDOW w AS (PARTITION BY k ORDER BY v) QUALIFY s > 2
SELECT k FROM t UNION ALL SELECT v FROM t
SELECT k FROM t INTERSECT DISTINCT SELECT v FROM t
SELECT k FROM t EXCEPT SELECT v FROM t
SELECT k, v, count(*) FROM t GROUP BY GROUPING SETS ((k, v), (k), ())
SELECT k, v, count(*) FROM t GROUP BY ROLLUP (k, v)
SELECT k, v, count(*) FROM t GROUP BY CUBE (k, v)
SELECT * FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1)
SELECT * FROM t AS s (a, b) TABLESAMPLE SYSTEM (50)
SELECT * FROM t, LATERAL (SELECT t.v + 1 AS next) AS n
SELECT * FROM generate_series(1, 3) AS s (n)
SELECT * FROM t INNER JOIN t AS u USING (k)
SELECT * FROM t LEFT JOIN t AS u ON t.k = u.v
SELECT * FROM t RIGHT JOIN t AS u ON t.k = u.v
SELECT * FROM t FULL JOIN t AS u ON t.k = u.v
SELECT * FROM t LEFT SEMI JOIN t AS u ON t.k = u.v
SELECT * FROM t LEFT ANTI JOIN t AS u ON t.k = u.v
SELECT * FROM t NATURAL JOIN t AS u
SELECT * FROM t CROSS JOIN t AS u
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r
FROM t",
    },
    Help {
        name: "SET",
        meaning: "change a setting of the session",
        syntax: "SET name { = | TO } { value | DEFAULT }",
        examples: "\
SET galatea.overflow = 'wrap'
SET galatea.overflow TO DEFAULT",
    },
    Help {
        name: "SHOW",
        meaning: "list settings, tables, columns and functions",
        syntax: "\
SHOW { name | ALL | TABLES | FUNCTIONS [ LIKE 'pattern' ] }
SHOW COLUMNS FROM { table | 'file' }
SHOW CREATE TABLE table",
        examples: "\
SHOW galatea.device
SHOW ALL
SHOW TABLES
SHOW FUNCTIONS LIKE 'date%'
SHOW COLUMNS FROM t
SHOW CREATE TABLE t",
    },
    Help {
        name: "TRUNCATE",
        meaning: "remove all rows of a table in memory",
        syntax: "TRUNCATE TABLE table",
        examples: "TRUNCATE TABLE t",
    },
    Help {
        name: "UPDATE",
        meaning: "change rows of a table in memory",
        syntax: "UPDATE table SET column = expression [, ...] [ WHERE condition ]",
        examples: "UPDATE t SET v = v + 1 WHERE k = 1",
    },
    Help {
        name: "VALUES",
        meaning: "rows of constants",
        syntax: "VALUES ( value [, ...] ) [, ...]",
        examples: "VALUES (1, 'one'), (2, 'two')",
    },
];

/// The statements that have help.
pub(crate) fn list() -> String {
    let lines = STATEMENTS
        .iter()
        .map(|help| format!("  {:<22} {}\n", help.name, help.meaning));
    lines.collect()
}

/// The help on the statement that `text` begins with.
pub(crate) fn of(text: &str) -> Option<String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_uppercase).collect();
    let text = words.join(" ");
    let begins = |help: &&Help| {
        let rest = text.trim_end_matches(';').strip_prefix(help.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let help = STATEMENTS.iter().find(begins)?;
    let indented = |text: &str| text.lines().map(|line| format!("  {line}\n")).collect::<String>();
    let examples: String = help.examples.lines().map(|line| format!("  {line};\n")).collect();
    Some(format!(
        "{}: {}\n\nSyntax:\n{}\nExamples:\n{examples}",
        help.name,
        help.meaning,
        indented(help.syntax)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use crate::plan::{Planned, plan};
    use clap::Parser;
    use std::collections::HashSet;

    /// Words in capitals, which are keywords.
    fn keywords(text: &str) -> HashSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_alphabetic());
        let is_keyword = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
        words.filter(is_keyword).collect()
    }

    #[test]
    fn examples_have_all_keywords_of_the_syntax() {
        for help in &STATEMENTS {
            let examples = keywords(help.examples);
            let missing: Vec<_> = keywords(help.syntax).difference(&examples).copied().collect();
            assert!(missing.is_empty(), "{}: {missing:?}", help.name);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn examples_are_accepted() {
        let arguments = Arguments::parse_from(["galatea", "--set", "galatea.device=emulated"]);
        for help in &STATEMENTS {
            let session = crate::session::build(&arguments.session, None, None)
                .await
                .expect("a session");
            let table = "CREATE TABLE t AS SELECT value % 2 AS k, value AS v FROM generate_series(1, 5)";
            for statement in [table].into_iter().chain(help.examples.lines()) {
                // COPY and CREATE EXTERNAL TABLE would need files; their plans do not.
                let own = galatea::own_statement(&session.ctx, statement).await;
                let outcome = match own {
                    Ok(Some(frame)) => frame.collect().await.map(|_| ()),
                    Ok(None) => match plan(&session.ctx, &session.stores, statement).await {
                        Ok(Planned::Rows { frame, .. }) if statement.starts_with("COPY") => {
                            frame.create_physical_plan().await.map(|_| ())
                        }
                        Ok(
                            Planned::Rows { frame, .. }
                            | Planned::Output(frame)
                            | Planned::Text(frame)
                            | Planned::Outline(frame)
                            | Planned::Analysis(frame),
                        ) => frame.collect().await.map(|_| ()),
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                };
                if let Err(error) = outcome {
                    panic!("{}: {statement}\n{error}", help.name);
                }
            }
        }
    }

    #[test]
    fn help_is_found_by_the_first_words() {
        for (text, name) in [
            ("select", Some("SELECT: ")),
            ("create  table as", Some("CREATE TABLE: ")),
            ("CREATE EXTERNAL TABLE;", Some("CREATE EXTERNAL TABLE: ")),
            ("set", Some("SET: ")),
            ("selection", None),
            ("", None),
        ] {
            let found = of(text);
            let starts = |name: &str| found.as_deref().is_some_and(|found| found.starts_with(name));
            assert!(name.map_or(found.is_none(), starts), "{text}: {found:?}");
        }
    }
}
