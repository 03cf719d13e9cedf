//! Recursive queries, whose steps read the rows of the step before.

use crate::compare::Pair;
use crate::data::{Shape, batch};

#[tokio::test]
async fn steps_see_the_rows_of_the_step_before() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(50, 3, Shape::Ordinary)]);
    pair.table("u", &[batch(9, 4, Shape::Ordinary)]);
    for sql in [
        "WITH RECURSIVE r AS (SELECT k, v FROM t WHERE v < 3 UNION ALL SELECT r.k, r.v + u.v + 10 FROM r JOIN u ON r.k = u.k
         WHERE r.v < 20) SELECT * FROM r",
        "WITH RECURSIVE r AS (SELECT k, v FROM t WHERE v < 3 UNION ALL SELECT k, v + 10 FROM r WHERE v < 40 AND k < 4)
         SELECT k, count(*), sum(v) FROM r GROUP BY k",
        "WITH RECURSIVE r AS (SELECT v FROM t WHERE v = 1 UNION SELECT t.v FROM t JOIN r ON t.v = r.v + 3)
         SELECT count(*), max(v) FROM r",
        "WITH RECURSIVE r AS (SELECT v FROM t WHERE v = 1 UNION ALL SELECT r.v + 1 FROM r WHERE r.v IN (SELECT u.v + 3 FROM u))
         SELECT v FROM r",
    ] {
        pair.check(sql, false, "recursive").await;
    }
}
