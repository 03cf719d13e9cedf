//! Whether two answers are equal.

use super::pass::Answer;
use datafusion::arrow::array::{Array, AsArray, BooleanArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;

/// The difference between two answers, if any.
pub(super) fn difference(expected: &Answer, actual: &Answer) -> Option<String> {
    match (expected, actual) {
        (Answer::Error(_), Answer::Error(_)) | (Answer::Broken(_), Answer::Broken(_)) => None,
        (
            Answer::Rows {
                schema,
                batches,
                order,
            },
            Answer::Rows {
                schema: other,
                batches: others,
                ..
            },
        ) => {
            let types = |schema: &SchemaRef| -> Vec<_> {
                let fields = schema.fields().iter();
                fields
                    .map(|field| (field.name().clone(), field.data_type().clone()))
                    .collect()
            };
            if types(schema) != types(other) {
                return Some(format!(
                    "expected columns {:?}\n     got columns {:?}",
                    types(schema),
                    types(other)
                ));
            }
            if let Some(batch) = others.iter().find(|batch| types(&batch.schema()) != types(other)) {
                return Some(format!(
                    "a batch has other columns than its plan: {:?}",
                    batch.schema()
                ));
            }
            let others: Vec<_> = others.iter().map(without_ours).collect();
            order.difference(batches, &others)
        }
        (_, Answer::Broken(what)) => Some(what.clone()),
        // DataFusion reports an internal error of its own.
        (Answer::Error(error), Answer::Rows { .. }) if error.contains("bug in DataFusion's code") => None,
        // Subqueries that Galatea's rules rewrite (`tests/answers`).
        (Answer::Error(error), Answer::Rows { .. })
            if error.contains("does not support logical expression") =>
        {
            None
        }
        (Answer::Rows { .. }, Answer::Error(error)) => Some(format!("only Galatea fails: {error}")),
        (Answer::Error(error) | Answer::Broken(error), Answer::Rows { .. }) => {
            Some(format!("only DataFusion fails: {error}"))
        }
        (Answer::Broken(what), Answer::Error(error)) => {
            Some(format!("DataFusion breaks ({what}), Galatea fails: {error}"))
        }
    }
}

/// Whether the query is of a kind that DataFusion answers wrongly and Galatea rightly (`tests/answers`).
pub(super) fn is_corrected(sql: &str) -> bool {
    let sql = sql.to_ascii_uppercase();
    let words: Vec<&str> = sql.split_whitespace().collect();
    // DataFusion's file calls the NULL row that it returns for these a known limitation.
    let memberships = words
        .windows(3)
        .filter(|three| *three == ["NOT", "IN", "(SELECT"]);
    let is_either = memberships.count() > 1 && words.contains(&"OR");
    is_either || sql.contains("EXCEPT ALL") || sql.contains("INTERSECT ALL")
}

/// A batch without Galatea's rows in lists of settings and functions.
fn without_ours(batch: &RecordBatch) -> RecordBatch {
    let keep = |column: &dyn Array| -> Option<BooleanArray> {
        (column.data_type() == &DataType::Utf8).then(|| {
            let texts = column.as_string::<i32>().iter();
            texts
                .map(|text| Some(!text.is_some_and(|text| text.starts_with("galatea"))))
                .collect()
        })
    };
    let lists = ["name", "function_name", "routine_name"];
    let is_list = batch
        .schema()
        .fields()
        .first()
        .is_some_and(|field| lists.contains(&field.name().as_str()));
    match batch.columns().first().and_then(|column| keep(column)) {
        Some(keep) if is_list => filter_record_batch(batch, &keep).expect("as many as rows"),
        _ => batch.clone(),
    }
}
