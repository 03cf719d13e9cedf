//! SIMILAR TO matches whole strings, with `%` and `_`.

use crate::create_table::sessions;
use crate::database::{rows, run};

#[tokio::test]
async fn similar_to_matches_whole_strings() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()) {
        run(
            &ctx,
            &["CREATE TABLE t(id INT, s VARCHAR) AS VALUES (1, 'abc'), (2, 'ab'), (3, NULL), (4, 'a.c'), (5, ''), (6, 'a%c'), (7, 'été'), (8, 'abbbc'), (9, 'xabc')"],
        )
        .await;
        run(&ctx, &["INSERT INTO t SELECT 10, 'a' || chr(10) || 'c'"]).await;
        for (condition, expected) in [
            ("s SIMILAR TO 'abc'", "1"),
            ("s SIMILAR TO 'ab'", "2"),
            ("s SIMILAR TO 'a_c'", "1; 4; 6; 10"),
            ("s SIMILAR TO 'a%'", "1; 2; 4; 6; 8; 10"),
            ("s SIMILAR TO '%c'", "1; 4; 6; 8; 9; 10"),
            ("s SIMILAR TO 'a.c'", "4"),
            ("s SIMILAR TO 'a(b|c)*'", "1; 2; 8"),
            ("s SIMILAR TO 'ab|xabc'", "2; 9"),
            ("s SIMILAR TO 'ab{3}c'", "8"),
            ("s SIMILAR TO 'a[.%]c'", "4; 6"),
            ("s SIMILAR TO 'a\\%c'", "6"),
            ("s SIMILAR TO 'a!%c' ESCAPE '!'", "6"),
            ("s SIMILAR TO ''", "5"),
            ("s SIMILAR TO '_t_'", "7"),
            ("s NOT SIMILAR TO 'a%'", "5; 7; 9"),
            ("s SIMILAR TO '^a' OR s IS NULL", "3"),
        ] {
            let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
            assert_eq!(rows(&ctx, &sql).await.as_deref(), Ok(expected), "{condition}");
        }
        let frame = galatea::sql(&ctx, "SELECT s SIMILAR TO 'a' FROM t")
            .await
            .expect("a frame");
        assert_eq!(frame.schema().field(0).name(), "s SIMILAR TO 'a'");
        for (sql, problem) in [
            (
                "SELECT id FROM t WHERE s SIMILAR TO s",
                "a pattern that is not a string literal",
            ),
            (
                "SELECT id FROM t WHERE s SIMILAR TO 'a' ESCAPE 'bc'",
                "which is not one character",
            ),
        ] {
            let error = rows(&ctx, sql).await.expect_err(sql);
            assert!(error.contains(problem), "{sql}\n{error}");
        }
    }
}
