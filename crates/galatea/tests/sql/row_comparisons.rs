//! Comparisons of rows with NULLs, and lengths of lists.

use crate::create_table::sessions;
use crate::database::{rows, run};

#[tokio::test]
async fn null_in_a_compared_row_is_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()) {
        run(
            &ctx,
            &["CREATE TABLE t(id INT, k INT, v BIGINT) AS VALUES (1, 1, 10), (2, 2, 20), (3, 2, NULL), (4, NULL, 5), (5, 3, 30), (6, 2, 40), (7, NULL, NULL)"],
        )
        .await;
        for (condition, expected) in [
            ("(k, v) = (2, 20)", "2"),
            ("(k, v) <> (2, 20)", "1; 4; 5; 6"),
            ("NOT ((k, v) = (2, 20))", "1; 4; 5; 6"),
            ("(k, v) < (2, 30)", "1; 2"),
            ("(k, v) <= (2, 40)", "1; 2; 6"),
            ("(k, v) > (2, 20)", "5; 6"),
            ("(k, v) >= (2, 20)", "2; 5; 6"),
            ("NOT ((k, v) < (2, 30))", "5; 6"),
            ("((k, v) < (2, 30)) IS NULL", "3; 4; 7"),
            ("((k, v) = (2, 20)) IS NULL", "3; 7"),
            ("(k, v, id) < (2, 20, 3)", "1; 2"),
            ("(k + 1, v) = (3, v)", "2; 6"),
            ("(k, v) IN ((1, 10), (3, 30), (9, 9))", "1; 5"),
            ("(k, v) NOT IN ((1, 10), (2, 20))", "4; 5; 6"),
            ("(k, v) NOT IN ((1, 10), (2, NULL))", "5"),
            ("(v, (k, id)) = (10, (1, 1))", "1"),
            ("k = 1 AND (k, v) < (2, 30) OR id = 7", "1; 7"),
        ] {
            let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
            assert_eq!(rows(&ctx, &sql).await.as_deref(), Ok(expected), "{condition}");
        }
        for (sql, expected) in [
            (
                "SELECT (1, NULL) = (1, 2), (1, NULL) = (2, 2), (NULL, 1) < (2, 1), (1, 2) < (1, 3)",
                "NULL false NULL true",
            ),
            (
                "SELECT count(*) FROM t AS a JOIN t AS b ON (a.k, a.v) = (b.k, b.v)",
                "4",
            ),
            (
                "SELECT CASE WHEN (k, v) >= (2, 20) THEN 'y' ELSE 'n' END AS c, count(*) FROM t GROUP BY 1 ORDER BY 1",
                "n 4; y 3",
            ),
        ] {
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(expected), "{sql}");
        }
        let frame = galatea::sql(&ctx, "SELECT (k, v) < (2, 30) FROM t")
            .await
            .expect("a frame");
        assert_eq!(frame.schema().field(0).name(), "(k, v) < (2, 30)");
        let error = rows(&ctx, "SELECT id FROM t WHERE (k, v) = (1, 2, 3)").await;
        assert!(error.is_err(), "rows of two lengths: {error:?}");
    }
}

#[tokio::test]
async fn length_of_a_list_counts_elements() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()) {
        run(
            &ctx,
            &["CREATE TABLE l AS SELECT * FROM (VALUES (1, [10, 20, 30], 'äb'), (2, [NULL], ''), (3, NULL, NULL)) AS v(id, l, s)"],
        )
        .await;
        for (sql, expected) in [
            (
                "SELECT len(l), length(l), char_length(l), length(s) FROM l ORDER BY id",
                "3 3 3 2; 1 1 1 0; NULL NULL NULL NULL",
            ),
            (
                "SELECT len([]), len([1, NULL]), length([[1, 2], [3]]), length('[1, 2]')",
                "0 2 2 6",
            ),
            (
                "SELECT id FROM l WHERE len(l) > 1 OR len(l) IS NULL ORDER BY len(l) NULLS FIRST",
                "3; 1",
            ),
            (
                "SELECT sum(len(l)) FROM l WHERE id IN (SELECT len([1, 2]) UNION ALL SELECT 1)",
                "4",
            ),
            ("SELECT len(array_agg(id)), len(string_agg(s, '-')) FROM l", "3 3"),
        ] {
            assert_eq!(rows(&ctx, sql).await.as_deref(), Ok(expected), "{sql}");
        }
    }
}
