//! Two sessions over the same data, and the comparison of their answers. [`OverFiles`] repeats a share of the
//! queries over files.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use galatea::QueryDevice;
use galatea_device::environment::{self, TestFiles};
use std::cmp::Ordering;
use std::sync::Arc;

use crate::over_files::OverFiles;

/// A value in the form of the comparison.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(String),
    Float(f64),
    /// A 32-bit float, widened.
    Single(f64),
}

/// The first difference between an expected result and an actual one.
pub(crate) type Comparison = fn(&[RecordBatch], &[RecordBatch]) -> Result<(), String>;

/// A CPU session and an emulated one. Values include the extremes of their types, so sums wrap on both.
/// Errors of overflow are tested in `checks`.
pub(crate) struct Pair {
    pub(crate) cpu: SessionContext,
    pub(crate) gpu: SessionContext,
    /// `None`: queries run over tables in memory only.
    files: Option<OverFiles>,
}

impl Pair {
    /// Two sessions, with settings for the emulated one. It uses a GPU if the environment selects that.
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let pair = match environment::test_on_gpu() {
            true => Self::on(galatea::session().with_setting("galatea.device", "gpu"), settings),
            false => Self::emulated(galatea::EmulatorOptions::default(), settings),
        };
        let runs = environment::test_files() != TestFiles::None;
        Self {
            files: runs.then(|| OverFiles::new(settings)),
            ..pair
        }
    }

    /// Like [`Self::new`], with an emulated device with these options, and without files.
    pub(crate) fn emulated(emulator: galatea::EmulatorOptions, settings: &[(&str, &str)]) -> Self {
        let session = galatea::session()
            .with_emulated_device(emulator)
            .with_setting("galatea.device", "emulated");
        Self::on(session, settings)
    }

    fn on(session: galatea::SessionBuilder, settings: &[(&str, &str)]) -> Self {
        let cpu = galatea::session()
            .with_file_queries(true)
            .with_setting("galatea.device", "cpu")
            .with_setting("galatea.join.order", "written")
            .with_setting("galatea.overflow", "wrap")
            .build()
            .expect("a CPU session");
        let mut builder = session
            .with_file_queries(true)
            .with_setting("galatea.overflow", "wrap");
        for (name, value) in settings {
            builder = builder.with_setting(*name, *value);
        }
        Self {
            cpu,
            gpu: builder.build().expect("an emulated session"),
            files: None,
        }
    }

    /// These sessions, without files.
    pub(crate) fn of(cpu: SessionContext, gpu: SessionContext) -> Self {
        Self {
            cpu,
            gpu,
            files: None,
        }
    }

    /// Registers the same rows as table `name` in both. The emulated session encodes them.
    pub(crate) fn table(&self, name: &str, batches: &[RecordBatch]) {
        for ctx in [&self.cpu, &self.gpu] {
            let table = MemTable::try_new(batches[0].schema(), vec![batches.to_vec()])
                .expect("batches of one schema");
            ctx.register_table(name, Arc::new(table)).expect("a new table");
        }
        if let Some(files) = &self.files {
            files.table(name, batches);
        }
    }

    /// Runs the query on both and compares the results. If `placed`, it must have used the (emulated) device.
    /// `context` names the case in messages.
    pub(crate) async fn check(&self, sql: &str, placed: bool, context: &str) {
        if let Err(difference) = self.differs(sql, same, false).await {
            panic!("{context}\n{sql}\n{difference}");
        }
        let report = galatea::last_query_report(&self.gpu);
        assert!(
            !placed
                || report
                    .as_ref()
                    .is_some_and(|report| report.device != QueryDevice::Cpu),
            "{context}\n{sql}\nran elsewhere: {report:?}",
        );
    }

    /// Runs the query on both. Returns the difference, if any.
    pub(crate) async fn compare(&self, sql: &str, same: Comparison) -> Result<(), String> {
        self.differs(sql, same, true).await
    }

    /// Like [`Self::compare`]. `ordered`: the answer may depend on the order of rows in tables.
    async fn differs(&self, sql: &str, same: Comparison, ordered: bool) -> Result<(), String> {
        let expected = collect(&self.cpu, sql).await;
        let actual = collect(&self.gpu, sql).await;
        match (expected, actual) {
            (Ok(expected), Ok(actual)) => {
                same(&expected, &actual)?;
                // A query may fall back to the CPU for many reasons, but not because a kernel does not
                // compile.
                let report = galatea::last_query_report(&self.gpu);
                let reasons = report.map(|report| report.reasons).unwrap_or_default();
                match reasons.iter().find(|reason| reason.contains("does not compile")) {
                    Some(reason) => Err(reason.clone()),
                    None => match &self.files {
                        Some(files) => files.check((&self.cpu, sql), &expected, same, ordered).await,
                        None => Ok(()),
                    },
                }
            }
            (Err(_), Err(_)) => Ok(()),
            (Ok(_), Err(error)) => Err(format!("only the device fails: {error}")),
            (Err(error), Ok(_)) => Err(format!("only the CPU fails: {error}")),
        }
    }
}

/// The sum of a figure over all pipelines of an EXPLAIN ANALYZE.
pub(crate) fn sum_of_figures(analysis: &[RecordBatch], name: &str) -> usize {
    let text = pretty_format_batches(analysis).expect("printable").to_string();
    let name = format!("{name}=");
    let figures = text.split(&name).skip(1).map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().expect("a number")
    });
    figures.sum()
}

/// The rows of a query that must succeed.
pub(crate) async fn answer(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let rows = collect(ctx, sql).await;
    rows.unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// The rows of a query.
pub(crate) async fn collect(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let frame = ctx.sql(sql).await.map_err(|e| e.to_string())?;
    frame.collect().await.map_err(|e| e.to_string())
}

fn cells(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let formatters: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c, &options).expect("printable"))
            .collect();
        for row in 0..batch.num_rows() {
            let cell = |(column, formatter): (&Arc<dyn Array>, &ArrayFormatter<'_>)| match column.data_type()
            {
                DataType::Float64 if column.is_valid(row) => {
                    Cell::Float(column.as_primitive::<Float64Type>().value(row))
                }
                DataType::Float32 if column.is_valid(row) => {
                    Cell::Single(f64::from(column.as_primitive::<Float32Type>().value(row)))
                }
                _ => Cell::Text(formatter.value(row).to_string()),
            };
            rows.push(batch.columns().iter().zip(&formatters).map(cell).collect());
        }
    }
    rows
}

/// Exact cells come first, so that rows that differ only by rounding are adjacent.
fn order(a: &Vec<Cell>, b: &Vec<Cell>) -> Ordering {
    let texts = |row: &Vec<Cell>| {
        row.iter()
            .filter_map(|c| {
                if let Cell::Text(t) = c {
                    Some(t.clone())
                } else {
                    None
                }
            })
            .collect::<Vec<_>>()
    };
    let floats = |row: &Vec<Cell>| {
        row.iter()
            .filter_map(|c| match c {
                Cell::Float(f) | Cell::Single(f) => Some(*f),
                Cell::Text(_) => None,
            })
            .collect::<Vec<_>>()
    };
    texts(a).cmp(&texts(b)).then_with(|| {
        floats(a)
            .iter()
            .zip(floats(b))
            .map(|(x, y)| x.total_cmp(&y))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

fn close(a: &Cell, b: &Cell) -> bool {
    let within = |x: &f64, y: &f64, tolerance: f64| {
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1e-3)
    };
    match (a, b) {
        (Cell::Float(x), Cell::Float(y)) => within(x, y, 1e-9),
        (Cell::Single(x), Cell::Single(y)) => within(x, y, 1e-5),
        _ => a == b,
    }
}

/// The first difference between two results as multisets of rows, if any.
pub(crate) fn same(expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<(), String> {
    same_columns(expected, actual)?;
    let (mut expected, mut actual) = (cells(expected), cells(actual));
    expected.sort_by(order);
    actual.sort_by(order);
    same_rows(&expected, &actual)
}

/// The first difference between two ordered results, if any.
pub(crate) fn same_in_order(expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<(), String> {
    same_columns(expected, actual)?;
    same_rows(&cells(expected), &cells(actual)).map_err(|difference| match same(expected, actual) {
        Ok(()) => format!("the order of rows differs\n{difference}"),
        Err(_) => difference,
    })
}

fn same_columns(expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<(), String> {
    if let (Some(e), Some(a)) = (expected.first(), actual.first()) {
        for (e, a) in e.schema().fields().iter().zip(a.schema().fields()) {
            if e.data_type() != a.data_type() || e.name() != a.name() {
                return Err(format!("expected column {e:?}, got {a:?}"));
            }
        }
    }
    Ok(())
}

fn same_rows(expected: &[Vec<Cell>], actual: &[Vec<Cell>]) -> Result<(), String> {
    if expected.len() != actual.len() {
        return Err(format!(
            "expected {} rows, got {}\nexpected: {:?}\nactual: {:?}",
            expected.len(),
            actual.len(),
            expected.iter().take(5).collect::<Vec<_>>(),
            actual.iter().take(5).collect::<Vec<_>>()
        ));
    }
    for (e, a) in expected.iter().zip(actual) {
        if e.len() != a.len() || !e.iter().zip(a).all(|(x, y)| close(x, y)) {
            return Err(format!("expected row {e:?}\n     got row {a:?}"));
        }
    }
    Ok(())
}

#[test]
fn comparison_detects_differences() {
    use datafusion::arrow::array::{Float64Array, Int64Array};
    use datafusion::arrow::record_batch::RecordBatch;
    let batch = |i: Vec<i64>, f: Vec<f64>| {
        let columns: Vec<(&str, Arc<dyn Array>)> = vec![
            ("i", Arc::new(Int64Array::from(i))),
            ("f", Arc::new(Float64Array::from(f))),
        ];
        vec![RecordBatch::try_from_iter(columns).expect("equal lengths")]
    };
    let left = batch(vec![1, 2], vec![0.5, 1.5]);
    assert!(
        same(&left, &batch(vec![2, 1], vec![1.5, 0.5 + 1e-14])).is_ok(),
        "order and rounding do not matter"
    );
    assert!(
        same(&left, &batch(vec![1, 3], vec![0.5, 1.5])).is_err(),
        "a value"
    );
    assert!(
        same(&left, &batch(vec![1, 2], vec![0.5, 1.6])).is_err(),
        "a float"
    );
    assert!(same(&left, &batch(vec![1], vec![0.5])).is_err(), "a missing row");
    let turned = batch(vec![2, 1], vec![1.5, 0.5]);
    assert!(same_in_order(&left, &left).is_ok(), "the same order");
    assert!(same_in_order(&left, &turned).is_err(), "another order");
}
