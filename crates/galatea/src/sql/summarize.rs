//! `SUMMARIZE table`, `SUMMARIZE 'file.parquet'` and `SUMMARIZE query`, as in DuckDB: a row for each column,
//! with its type, extremes, number of distinct values, distribution and share of NULLs.
//!
//! The statement runs one query with the aggregates of all columns. Quartiles are approximate.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use datafusion::common::exec_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;

/// A query whose columns are summarised.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summarize {
    query: String,
}

/// The aggregates of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Count,
    Least,
    Most,
    Distinct,
    Mean,
    Deviation,
    Quantile(&'static str),
}

impl Aggregate {
    const ALL: [Self; 9] = [
        Self::Count,
        Self::Least,
        Self::Most,
        Self::Distinct,
        Self::Mean,
        Self::Deviation,
        Self::Quantile("0.25"),
        Self::Quantile("0.5"),
        Self::Quantile("0.75"),
    ];

    /// The SQL expression over a column with this quoted name and type; NULL if the type has no such
    /// aggregate.
    fn of(self, column: &str, kind: &DataType) -> String {
        let is_number = kind.is_numeric();
        let has_order = is_number
            || kind.is_temporal()
            || matches!(
                kind,
                DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            );
        let number = format!("CAST({column} AS DOUBLE)");
        match self {
            Self::Count => format!("count({column})"),
            Self::Least if has_order => format!("CAST(min({column}) AS VARCHAR)"),
            Self::Most if has_order => format!("CAST(max({column}) AS VARCHAR)"),
            Self::Distinct if has_order => format!("approx_distinct({column})"),
            Self::Mean if is_number => format!("avg({number})"),
            Self::Deviation if is_number => format!("stddev({number})"),
            Self::Quantile(share) if is_number => format!("approx_percentile_cont({number}, {share})"),
            _ => "NULL".to_owned(),
        }
    }
}

impl Summarize {
    /// Parses `SUMMARIZE` and a table, a file or a query; `None` for any other statement.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        const WORD: &str = "SUMMARIZE";
        let text = text.trim().trim_end_matches(';').trim_end();
        let (first, rest) = text.split_once(|next: char| next.is_whitespace())?;
        if !first.eq_ignore_ascii_case(WORD) {
            return None;
        }
        let rest = rest.trim_start();
        let next = rest
            .split(|next: char| next.is_whitespace() || next == '(')
            .next()?;
        let is_query = rest.starts_with('(')
            || ["SELECT", "WITH", "FROM", "VALUES"]
                .iter()
                .any(|word| next.eq_ignore_ascii_case(word));
        let query = match is_query {
            true => rest.to_owned(),
            false => format!("SELECT * FROM {rest}"),
        };
        Some(Self { query })
    }

    /// The summarised query.
    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// Computes the summary.
    ///
    /// # Errors
    /// Those of the query.
    pub(crate) async fn execute(self, ctx: &SessionContext) -> Result<DataFrame> {
        let frame = Box::pin(super::sql(ctx, &self.query)).await?;
        let fields = frame.schema().fields().clone();
        let names = (0..fields.len()).map(|column| format!("c{column}"));
        let names: Vec<_> = names.collect();
        let aggregates = fields.iter().zip(&names).flat_map(|(field, name)| {
            let of = move |aggregate: Aggregate| aggregate.of(name, field.data_type());
            Aggregate::ALL.into_iter().map(of)
        });
        let aggregates: Vec<_> = std::iter::once("count(*)".to_owned()).chain(aggregates).collect();
        let aliases = aggregates.iter().enumerate();
        let aliases: Vec<_> = aliases
            .map(|(number, text)| format!("{text} AS a{number}"))
            .collect();
        let text = format!(
            "SELECT {} FROM ({}) AS summarized({})",
            aliases.join(", "),
            self.query,
            names.join(", ")
        );
        let rows = match fields.is_empty() {
            true => return exec_err!("SUMMARIZE needs a column, and the query has none"),
            false => Box::pin(super::sql(ctx, &text)).await?.collect().await?,
        };
        let Some(schema) = rows.first().map(RecordBatch::schema) else {
            return exec_err!("the aggregates of SUMMARIZE returned no row");
        };
        let row = concat_batches(&schema, &rows)?;
        ctx.read_batch(summary(&fields, &row)?)
    }
}

/// The summary of columns with these fields, from the row of their aggregates.
fn summary(fields: &[Arc<Field>], row: &RecordBatch) -> Result<RecordBatch> {
    let aggregate = |column: usize, aggregate: Aggregate| -> Result<&ArrayRef> {
        let place = Aggregate::ALL.iter().position(|known| *known == aggregate);
        let place = place.ok_or_else(|| DataFusionError::Internal("an unknown aggregate".to_owned()))?;
        Ok(row.column(1 + column * Aggregate::ALL.len() + place))
    };
    let columns = 0..fields.len();
    let texts = |of: Aggregate| -> Result<ArrayRef> {
        let text = |column| {
            let text = cast(aggregate(column, of)?, &DataType::Utf8)?;
            Ok(text.as_string::<i32>().iter().next().flatten().map(str::to_owned))
        };
        let texts: Result<Vec<Option<String>>> = columns.clone().map(text).collect();
        Ok(Arc::new(StringArray::from(texts?)))
    };
    let numbers = |of: Aggregate| -> Result<Vec<Option<f64>>> {
        let number = |column| {
            let number = cast(aggregate(column, of)?, &DataType::Float64)?;
            Ok(number.as_primitive::<Float64Type>().iter().next().flatten())
        };
        columns.clone().map(number).collect()
    };
    let wholes = |of: Aggregate| -> Result<Vec<Option<i64>>> {
        let whole = |column| {
            let whole = cast(aggregate(column, of)?, &DataType::Int64)?;
            Ok(whole.as_primitive::<Int64Type>().iter().next().flatten())
        };
        columns.clone().map(whole).collect()
    };
    let counted = cast(row.column(0), &DataType::Int64)?;
    let count = counted.as_primitive::<Int64Type>().value(0);
    let present = wholes(Aggregate::Count)?;
    let nulls = present.iter().map(|present| {
        let missing = count - present.unwrap_or(0);
        (count > 0).then(|| (missing as f64 * 10_000.0 / count as f64).round() / 100.0)
    });
    let names = fields.iter().map(|field| field.name().as_str());
    let kinds = fields.iter().map(|field| field.data_type().to_string());
    let floats = |of: Aggregate| -> Result<ArrayRef> { Ok(Arc::new(Float64Array::from(numbers(of)?))) };
    // In the order of the schema.
    let values: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(StringArray::from_iter_values(kinds)),
        texts(Aggregate::Least)?,
        texts(Aggregate::Most)?,
        Arc::new(Int64Array::from(wholes(Aggregate::Distinct)?)),
        floats(Aggregate::Mean)?,
        floats(Aggregate::Deviation)?,
        floats(Aggregate::Quantile("0.25"))?,
        floats(Aggregate::Quantile("0.5"))?,
        floats(Aggregate::Quantile("0.75"))?,
        Arc::new(Int64Array::from(vec![count; fields.len()])),
        Arc::new(Float64Array::from_iter(nulls)),
    ];
    Ok(RecordBatch::try_new(summary_schema(), values)?)
}

/// The columns of the result of SUMMARIZE.
pub fn summary_schema() -> SchemaRef {
    use DataType::{Float64, Int64, Utf8};
    let columns = [
        ("column_name", Utf8),
        ("column_type", Utf8),
        ("min", Utf8),
        ("max", Utf8),
        ("approx_unique", Int64),
        ("avg", Float64),
        ("std", Float64),
        ("q25", Float64),
        ("q50", Float64),
        ("q75", Float64),
        ("count", Int64),
        ("null_percentage", Float64),
    ];
    let fields = columns.map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summarize_takes_tables_files_and_queries() {
        for (text, expected) in [
            ("SUMMARIZE t", Some("SELECT * FROM t")),
            ("summarize 'a b.parquet';", Some("SELECT * FROM 'a b.parquet'")),
            ("SUMMARIZE\nselect 1 ; ", Some("select 1")),
            ("SUMMARIZE (SELECT 1)", Some("(SELECT 1)")),
            ("SUMMARIZE FROM t", Some("FROM t")),
            ("SUMMARIZE selection", Some("SELECT * FROM selection")),
            ("SUMMARIZE", None),
            ("SELECT 'SUMMARIZE t'", None),
        ] {
            let parsed = Summarize::parse(text).map(|summarize| summarize.query);
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn each_column_has_a_row() {
        let ctx = crate::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .expect("a session");
        let values = "SELECT * FROM (VALUES (1, 'x', DATE '2024-01-01', [1]), (2, NULL, DATE '2024-03-01', [2]), (4, 'y', NULL, NULL), (5, 'x', NULL, NULL)) AS t(n, s, d, l)";
        let frame = crate::sql(&ctx, &format!("SUMMARIZE {values}"))
            .await
            .expect("a frame");
        let rows = frame.collect().await.expect("rows");
        let table = arrow::util::pretty::pretty_format_batches(&rows)
            .expect("text")
            .to_string();
        let expected = "\
+-------------+-------------+------------+------------+---------------+-----+--------------------+------+------+-----+-------+-----------------+
| column_name | column_type | min        | max        | approx_unique | avg | std                | q25  | q50  | q75 | count | null_percentage |
+-------------+-------------+------------+------------+---------------+-----+--------------------+------+------+-----+-------+-----------------+
| n           | Int64       | 1          | 5          | 4             | 3.0 | 1.8257418583505538 | 1.25 | 3.25 | 4.5 | 4     | 0.0             |
| s           | Utf8        | x          | y          | 2             |     |                    |      |      |     | 4     | 25.0            |
| d           | Date32      | 2024-01-01 | 2024-03-01 | 2             |     |                    |      |      |     | 4     | 50.0            |
| l           | List(Int64) |            |            |               |     |                    |      |      |     | 4     | 50.0            |
+-------------+-------------+------------+------------+---------------+-----+--------------------+------+------+-----+-------+-----------------+";
        assert_eq!(table, expected);
        let empty = crate::sql(&ctx, &format!("SUMMARIZE {values} WHERE n > 9"))
            .await
            .expect("a frame");
        let rows = empty.collect().await.expect("rows");
        assert_eq!(rows[0].num_rows(), 4);
        assert_eq!(
            rows[0]
                .column_by_name("null_percentage")
                .expect("a column")
                .null_count(),
            4
        );
    }

    /// NaN is one value and the largest one; zeros of both signs are one value.
    #[tokio::test]
    async fn floats_have_distinct_values() {
        let ctx = crate::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .expect("a session");
        let values = "SELECT CAST(x AS DOUBLE) AS d, CAST(x AS REAL) AS r FROM (VALUES ('1.5'), ('-0.0'), ('0.0'), ('NaN'), ('-NaN'), (NULL)) AS t(x)";
        let frame = crate::sql(&ctx, &format!("SUMMARIZE {values}")).await;
        let frame = frame.expect("a frame").select_columns(&[
            "column_name",
            "column_type",
            "min",
            "max",
            "approx_unique",
            "count",
        ]);
        let rows = frame.expect("columns").collect().await.expect("rows");
        let table = arrow::util::pretty::pretty_format_batches(&rows)
            .expect("text")
            .to_string();
        let expected = "\
+-------------+-------------+-----+-----+---------------+-------+
| column_name | column_type | min | max | approx_unique | count |
+-------------+-------------+-----+-----+---------------+-------+
| d           | Float64     | 0.0 | NaN | 3             | 6     |
| r           | Float32     | 0.0 | NaN | 3             | 6     |
+-------------+-------------+-----+-----+---------------+-------+";
        assert_eq!(table, expected);
    }

    #[tokio::test]
    async fn errors_are_those_of_the_query() {
        let ctx = crate::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .expect("a session");
        let error = crate::sql(&ctx, "SUMMARIZE missing").await.expect_err("an error");
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
