//! Zone maps over sources with columns of equal names.

use crate::compare::Pair;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use std::sync::Arc;

fn table(ids: impl Iterator<Item = i64> + Clone) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.map(|id| id * 10)));
    RecordBatch::try_from_iter([("id", id), ("x", x)]).expect("columns of one length")
}

#[tokio::test]
async fn pruning_distinguishes_columns_with_equal_names() {
    let pair = Pair::new(&[("galatea.tuning.chunk_rows", "64")]);
    pair.table("a", &[table(0..1000)]);
    pair.table("b", &[table((0..1000).filter(|id| id % 3 == 0))]);
    for sql in [
        "SELECT a.id, a.x FROM a LEFT JOIN b ON a.id = b.id WHERE b.id IS NULL",
        "SELECT count(*), sum(a.id) FROM a LEFT JOIN b ON a.id = b.id WHERE b.id IS NULL",
        "SELECT a.id FROM a FULL JOIN b ON a.id = b.id + 500 WHERE b.x IS NULL",
        "SELECT a.id FROM a FULL JOIN b ON a.id = b.id + 500 WHERE a.x IS NULL AND b.x < 1500",
        "SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id + 990 WHERE b.id < 10 AND a.id > 900",
        "SELECT count(*), min(b.x) FROM a JOIN b ON a.id + 1 = b.id AND a.x < b.x WHERE b.x > 9000 OR a.x < 100",
    ] {
        pair.check(sql, false, "columns of one name").await;
    }
}
