//! DELETE and UPDATE with conditions that read the changed table.

use crate::changes::sessions;
use crate::database::{rows, run};

/// Conditions with subqueries over the changed table, also with columns of one name inside and outside.
#[tokio::test]
async fn conditions_may_read_the_changed_table() {
    let folder = tempfile::tempdir().expect("a folder");
    for ctx in sessions(folder.path()).await {
        for (change, expected) in [
            (
                "DELETE FROM c WHERE a IN (SELECT a FROM c WHERE g = 3)",
                "1 1; 2 2",
            ),
            (
                "DELETE FROM c WHERE a > ALL (SELECT a FROM c WHERE g < 3)",
                "1 1; 2 2",
            ),
            (
                "UPDATE c SET g = 100 WHERE a IN (SELECT a FROM c WHERE g = 1) OR a NOT IN (SELECT a FROM c WHERE g < 3)",
                "1 100; 2 2; 3 100; 4 100",
            ),
            (
                "DELETE FROM c WHERE a IN (SELECT x.a FROM c x JOIN c y ON x.g = y.g WHERE y.g = c.g AND y.a > x.a)",
                "1 1; 2 2; 4 3",
            ),
        ] {
            run(
                &ctx,
                &[
                    "CREATE OR REPLACE TABLE c AS SELECT * FROM (VALUES (1, 1), (2, 2), (3, 3), (4, 3)) AS v(a, g)",
                    change,
                ],
            )
            .await;
            let found = rows(&ctx, "SELECT a, g FROM c ORDER BY a").await;
            assert_eq!(found.as_deref(), Ok(expected), "{change}");
        }
    }
}
