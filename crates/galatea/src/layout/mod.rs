//! Conflict layouts in SQL: `ALTER TABLE t SET (conflict_layout = 'auto')`, and the analysis of bank
//! conflicts of a column.
//!
//! DataFusion does not plan this statement, so [`sql`](crate::sql()) first checks every statement for it and
//! passes all others on.

mod analyse;
mod error;
mod statement;
mod table;

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use galatea_layout::Goal;
use galatea_store::layout::SLOT_BYTES;
use galatea_store::{Column, ConflictLayout, StoreError};

pub use self::analyse::{ConflictAnalysis, ConflictLine, analyse_conflicts};
pub use self::error::ConflictLayoutError;
pub use self::statement::ConflictLayoutStatement;
use self::table::LaidOutTable;

impl ConflictLayoutStatement {
    /// Computes the layouts of the columns. Returns one row per column, as documented in
    /// [`sql`](crate::sql()).
    ///
    /// # Errors
    /// Those of [`sql`](crate::sql()).
    pub async fn execute(&self, ctx: &SessionContext) -> Result<DataFrame> {
        let table = LaidOutTable::find(ctx, self.table()).await?;
        self.check_columns(&table.schema())?;
        let mut changes = Vec::new();
        for (index, field) in table.schema().fields().iter().enumerate() {
            let Some((layout, named)) = self.layout_of(field.name()) else {
                continue;
            };
            changes.push(Change::make(&table, index, layout, named).await?);
        }
        ctx.read_batch(batch(&changes)?)
    }
}

/// The outcome for one column.
struct Change {
    name: String,
    before: Option<Arc<Column>>,
    after: Option<Arc<Column>>,
    seconds: f64,
    reason: Option<String>,
}

impl Change {
    async fn make(
        table: &LaidOutTable,
        index: usize,
        layout: Option<ConflictLayout>,
        named: bool,
    ) -> Result<Self> {
        let name = table.schema().field(index).name().clone();
        let start = Instant::now();
        let done = async {
            let before = table.column(index).await?;
            table.set_layout(index, layout).await?;
            Ok::<_, StoreError>((before, table.column(index).await?))
        };
        let (columns, reason) = match done.await {
            Ok(columns) => (Some(columns), None),
            // A statement about all columns skips those that cannot have the layout.
            Err(StoreError::NoLayout { reason, .. }) if !named => {
                let before = table.column(index).await?;
                (Some((Arc::clone(&before), before)), Some(reason.to_string()))
            }
            Err(error) if !named && error.is_refusal() => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let (before, after) = columns.unzip();
        Ok(Self {
            name,
            before,
            after,
            seconds: start.elapsed().as_secs_f64(),
            reason: reason.map(|reason| reason.lines().next().unwrap_or_default().to_string()),
        })
    }

    fn layout(&self) -> &'static str {
        match self.after.as_ref().and_then(|column| column.layout()) {
            None => "none",
            Some(layout) => match layout.requested.goal {
                Goal::Reads => "reads",
                Goal::Writes { .. } => "writes",
                Goal::WritesByValue { .. } => "values",
            },
        }
    }
}

/// `number` rounded to `decimals` decimals.
fn rounded(number: f64, decimals: i32) -> f64 {
    let unit = 10_f64.powi(decimals);
    (number * unit).round() / unit
}

/// One row per column.
fn batch(changes: &[Change]) -> Result<RecordBatch> {
    type Layout = galatea_store::SlotLayout;
    let of_layout = |number: &dyn Fn(&Layout) -> u64| -> ArrayRef {
        let numbers = changes
            .iter()
            .map(|change| Some(number(change.after.as_ref()?.layout()?)));
        Arc::new(numbers.collect::<UInt64Array>())
    };
    let rounds = |rounds: &dyn Fn(&Layout) -> f64| -> ArrayRef {
        let means = changes
            .iter()
            .map(|change| Some(rounded(rounds(change.after.as_ref()?.layout()?), 2)));
        Arc::new(means.collect::<Float64Array>())
    };
    let bytes = |column: &dyn Fn(&Change) -> Option<&Arc<Column>>| -> ArrayRef {
        let bytes = changes.iter().map(|change| Some(column(change)?.scan_bytes()));
        Arc::new(bytes.collect::<UInt64Array>())
    };
    let texts = |text: &dyn Fn(&Change) -> Option<String>| -> ArrayRef {
        Arc::new(changes.iter().map(text).collect::<StringArray>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("column", texts(&|change| Some(change.name.clone()))),
        ("layout", texts(&|change| Some(change.layout().to_string()))),
        ("values", of_layout(&|layout| layout.map.values() as u64)),
        ("slots", of_layout(&|layout| layout.map.slots() as u64)),
        ("holes", of_layout(&|layout| layout.report.holes as u64)),
        (
            "most_copies",
            of_layout(&|layout| u64::from(layout.report.most_copies)),
        ),
        (
            "table_bytes_before",
            of_layout(&|layout| layout.report.table_bytes(SLOT_BYTES).0),
        ),
        (
            "table_bytes_after",
            of_layout(&|layout| layout.report.table_bytes(SLOT_BYTES).1),
        ),
        ("column_bytes_before", bytes(&|change| change.before.as_ref())),
        ("column_bytes_after", bytes(&|change| change.after.as_ref())),
        ("rounds_before", rounds(&|layout| layout.rounds.0)),
        ("rounds_after", rounds(&|layout| layout.rounds.1)),
        (
            "seconds",
            Arc::new(
                changes
                    .iter()
                    .map(|change| Some(rounded(change.seconds, 3)))
                    .collect::<Float64Array>(),
            ),
        ),
        ("reason", texts(&|change| change.reason.clone())),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}
