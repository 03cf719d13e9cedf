//! The time of DataFusion's operators.
//!
//! Costs are nanoseconds of one core per row, fitted to the 22 TPC-H queries at scale 30 on 16 cores of the
//! reference machine (`bench/results`); a core of another machine is within a factor of two of it.

use super::Estimator;
use super::correction::HostTime;
use crate::placement::plan_node::{Join, PlanNode, Scan};
use arrow::datatypes::DataType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::sorts::sort::SortExec;
use galatea_base::policy::policy;
use galatea_expression::is_string;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

policy! {
    /// Costs of DataFusion's operators, in nanoseconds of one core; pairs are for values of fixed width and
    /// for strings.
    pub(super) struct HostCosts {
        /// Reading and decoding a value of a file: of fixed width, and a string.
        file_value: [f64; 2] = [8.0, 25.0],
        /// Reading and decoding a byte of a string in a file, in its uncompressed form: close to zero if the
        /// file has a dictionary (ClickBench Q20 over 100 million rows, 16 cores: 1.4 s).
        file_byte: f64 = 2.0,
        /// Parsing a value of a text file.
        parsed_value: f64 = 60.0,
        /// Decoding a value of the store.
        stored_value: [f64; 2] = [2.0, 15.0],
        /// One operation of an expression, on values of fixed width and on strings.
        operation: [f64; 2] = [2.5, 25.0],
        /// Testing a string by a regular expression, and finding or replacing its matches (ClickBench Q28
        /// over 100 million rows, 16 cores: 5 s for 80 million strings).
        pattern: [f64; 2] = [150.0, 1000.0],
        /// Copying a value to an operator's output.
        copied_value: [f64; 2] = [1.0, 5.0],
        /// Finding the group of a row, among few groups and among many.
        group_row: [f64; 2] = [25.0, 90.0],
        /// Adding a group.
        new_group: f64 = 150.0,
        /// One aggregate of a row.
        aggregate: f64 = 3.0,
        /// A row of the build side of a hash join.
        build_row: f64 = 90.0,
        /// A row of the probe side of a hash join.
        probe_row: f64 = 30.0,
        /// A pair of rows that a join without equality keys tests.
        tested_pair: f64 = 1.0,
        /// One comparison of a sort.
        sort_step: f64 = 6.0,
        /// One window function of a row.
        window_value: f64 = 40.0,
        /// A partition of a window, and each of its keys (row numbers by four keys, with nearly as many
        /// partitions as rows: 3 to 7 microseconds per row).
        window_partition: [f64; 2] = [1000.0, 1000.0],
        /// Share of rows that begin a partition by one key. It is multiplied by the square of the number of
        /// keys.
        partitions: f64 = 0.1,
        /// Maximum groups of a table that stays in a core's caches.
        few_groups: f64 = 50_000.0,
        /// Usual rows of a row group of a Parquet file, by the default of writers.
        row_group: f64 = (1 << 20) as f64,
        /// Planning and starting tasks, in seconds.
        start: f64 = 0.5e-3,
    }
}

const POLICY: HostCosts = HostCosts::DEFAULT;

/// The cost for the type, out of [fixed width, string].
pub(super) fn by_type(costs: [f64; 2], data_type: &DataType) -> f64 {
    costs[usize::from(is_string(data_type))]
}

impl Estimator {
    /// By name of a column that a scan of Parquet files reads: the uncompressed bytes of its strings in the
    /// files, if known.
    pub(super) fn string_bytes(&self, scan: &Arc<dyn ExecutionPlan>) -> Rc<HashMap<String, f64>> {
        let known = &self.known.string_bytes;
        known.get_or(scan, || Rc::new(self.string_bytes_of(scan)))
    }

    fn string_bytes_of(&self, scan: &Arc<dyn ExecutionPlan>) -> HashMap<String, f64> {
        let schema = scan.schema();
        let has_strings = schema.fields().iter().any(|field| is_string(field.data_type()));
        let Some(statistics) = has_strings.then(|| self.statistics(scan)).flatten() else {
            return HashMap::new();
        };
        let columns = schema.fields().iter().zip(&statistics.column_statistics);
        let texts = columns.filter(|(field, _)| is_string(field.data_type()));
        let bytes = texts.filter_map(|(field, column)| {
            let bytes = column.byte_size.get_value()?;
            Some((field.name().clone(), *bytes as f64))
        });
        bytes.collect()
    }

    /// Predicted seconds of a plan on the CPU.
    pub(in crate::placement) fn host_seconds(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        POLICY.start + self.nanoseconds(plan) * 1e-9
    }

    /// The same, with the time if no operator multiplies rows.
    pub(in crate::placement) fn host_time(&self, plan: &Arc<dyn ExecutionPlan>) -> HostTime {
        HostTime {
            predicted: self.host_seconds(plan),
            cautious: self.cautious().host_seconds(plan),
        }
    }

    /// Nanoseconds of a plan on the CPU for each row of its largest input.
    pub(in crate::placement) fn host_nanoseconds_a_row(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        self.nanoseconds(plan) / self.input_rows(plan).max(1.0)
    }

    fn input_rows(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let inputs = plan.children().into_iter().map(|child| self.input_rows(child));
        inputs.reduce(f64::max).unwrap_or_else(|| self.rows(plan))
    }

    /// Seconds of a sort without its input.
    pub(in crate::placement) fn host_sort(&self, sort: &SortExec) -> f64 {
        let rows = self.rows(sort.input());
        let schema = sort.schema();
        let copied = schema
            .fields()
            .iter()
            .map(|field| by_type(POLICY.copied_value, field.data_type()));
        rows * (rows.max(2.0).log2() * POLICY.sort_step + copied.sum::<f64>()) * 1e-9 / self.cores
    }

    /// Sequential nanoseconds of all operators of a plan.
    fn nanoseconds(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let known = &self.predictions().nanoseconds;
        known.get_or(plan, || self.nanoseconds_of(plan))
    }

    fn nanoseconds_of(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let inputs: f64 = plan
            .children()
            .into_iter()
            .map(|child| self.nanoseconds(child))
            .sum();
        inputs + self.own_nanoseconds(plan) / self.parallelism(plan)
    }

    /// Cores that work on an operator: a file scan has one core for each row group, and the operators above
    /// it use the same cores until rows are repartitioned.
    fn parallelism(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let goes_on = match PlanNode::of(plan) {
            PlanNode::Scan(Scan::Files(_, config)) => {
                let files: usize = config.file_groups.iter().map(FileGroup::len).sum();
                let groups = (self.rows(plan) / POLICY.row_group).ceil().max(files as f64);
                return groups.clamp(1.0, self.cores);
            }
            PlanNode::Filter(_) | PlanNode::Projection(_) => true,
            PlanNode::Aggregate(aggregate) => reads_rows(aggregate),
            _ => false,
        };
        match plan.children().as_slice() {
            [child] if goes_on => self.parallelism(child),
            _ => self.cores,
        }
    }

    /// Nanoseconds of one core that the operator itself takes.
    fn own_nanoseconds(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let rows = self.rows(plan);
        let schema = plan.schema();
        let values = |costs: [f64; 2]| -> f64 {
            schema
                .fields()
                .iter()
                .map(|field| by_type(costs, field.data_type()))
                .sum()
        };
        let input = |at: usize| plan.children().get(at).map_or(0.0, |child| self.rows(child));
        let sorting =
            |rows: f64| rows * (rows.max(2.0).log2() * POLICY.sort_step + values(POLICY.copied_value));
        match PlanNode::of(plan) {
            PlanNode::Scan(Scan::Stored(_)) => rows * values(POLICY.stored_value),
            PlanNode::Scan(Scan::Files(_, files)) if files.file_source().file_type() == "parquet" => {
                let bytes: f64 = self.string_bytes(plan).values().sum();
                rows * values(POLICY.file_value) + bytes * POLICY.file_byte
            }
            PlanNode::Scan(Scan::Files(..)) => rows * values([POLICY.parsed_value; 2]),
            PlanNode::Scan(Scan::Other(scan)) if scan.data_source().is::<MemorySourceConfig>() => 0.0,
            PlanNode::Scan(Scan::Other(_)) => rows * values(POLICY.file_value),
            PlanNode::Filter(filter) => {
                input(0) * operations(filter.predicate(), plan) + rows * values(POLICY.copied_value)
            }
            PlanNode::Projection(projection) => {
                let each: f64 = projection.expr().iter().map(|e| operations(&e.expr, plan)).sum();
                rows * each
            }
            PlanNode::Aggregate(aggregate) => self.aggregate_nanoseconds(aggregate, plan, input(0)),
            PlanNode::Join(Join::Hash(join)) => {
                let keys = 0.7 + 0.3 * join.on().len() as f64;
                (input(0) * POLICY.build_row + input(1) * POLICY.probe_row) * keys
                    + rows * values(POLICY.copied_value)
            }
            PlanNode::Join(Join::NestedLoop(_) | Join::Cross(_)) => {
                let pairs = match self.is_cautious {
                    true => input(0) + input(1),
                    false => input(0) * input(1),
                };
                pairs * POLICY.tested_pair + rows * values(POLICY.copied_value)
            }
            PlanNode::Sort(_) | PlanNode::Merge(_) => sorting(input(0)),
            // The plan has no sort below the window yet.
            PlanNode::Window(window) => {
                let functions = window.functions.len() as f64 * POLICY.window_value;
                let keys = window
                    .functions
                    .first()
                    .map_or(0, |first| first.partition_by().len()) as f64;
                let share = (POLICY.partitions * keys * keys).min(1.0);
                let [partition, key] = POLICY.window_partition;
                sorting(input(0)) + input(0) * (functions + share * (partition + keys * key))
            }
            _ => match plan.children().len() {
                0 => rows * values(POLICY.copied_value),
                1 => rows * values(POLICY.copied_value) * 0.2,
                // Other joins, and unions.
                _ => (input(0) + input(1)) * POLICY.build_row + rows * values(POLICY.copied_value),
            },
        }
    }

    /// Nanoseconds of one core for an aggregate over `input` rows.
    fn aggregate_nanoseconds(
        &self,
        aggregate: &AggregateExec,
        plan: &Arc<dyn ExecutionPlan>,
        input: f64,
    ) -> f64 {
        let aggregates = aggregate.aggr_expr().len() as f64 * POLICY.aggregate;
        let arguments: f64 = (aggregate.aggr_expr().iter())
            .flat_map(|call| call.expressions())
            .map(|e| operations(&e, plan))
            .sum();
        let group_by = aggregate.group_expr();
        let computed: f64 = group_by.expr().iter().map(|(key, _)| operations(key, plan)).sum();
        let keys = group_by.expr().len();
        // Each grouping set groups all rows.
        let sets = group_by.groups().len().max(1) as f64;
        let groups = if keys == 0 { 0.0 } else { self.groups(plan) };
        let group = match keys {
            0 => 0.0,
            _ => (1.0 + 0.3 * (keys - 1) as f64) * POLICY.group_row[usize::from(groups > POLICY.few_groups)],
        };
        input * (arguments + computed + sets * (aggregates + group)) + groups * POLICY.new_group
    }

    /// Rows that the topmost aggregate of `plan` groups, after the filters and joins below it.
    pub(in crate::placement) fn grouped_rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        let child = *plan.children().first()?;
        match PlanNode::of(plan) {
            PlanNode::Aggregate(aggregate) if reads_rows(aggregate) => Some(self.rows(child)),
            _ => self.grouped_rows(child),
        }
    }

    /// Groups of an aggregate: DataFusion's estimate, at most the rows of its input and the number of values
    /// that its keys can have.
    pub(in crate::placement) fn groups(&self, aggregate: &Arc<dyn ExecutionPlan>) -> f64 {
        let rows = aggregate.children().first().map_or(0.0, |child| self.rows(child));
        let own = self.statistics(aggregate);
        let guess = own.and_then(|s| s.num_rows.get_value().copied());
        // An estimate that is not below the number of rows is ignored.
        let groups = match guess {
            Some(groups) if (groups as f64) < rows => groups as f64,
            _ => rows * 0.1,
        };
        groups.min(self.most_rows(aggregate))
    }
}

/// Whether an aggregate reads rows, and not partial states.
fn reads_rows(aggregate: &AggregateExec) -> bool {
    aggregate.mode().input_mode() == AggregateInputMode::Raw
}

/// Nanoseconds of an expression's operations for a row; columns and constants are free.
fn operations(expression: &Arc<dyn PhysicalExpr>, plan: &Arc<dyn ExecutionPlan>) -> f64 {
    let children = expression.children();
    if children.is_empty() {
        return 0.0;
    }
    let input = plan.children().first().map(|child| child.schema());
    let text = input.is_some_and(|schema| {
        let types = children.iter().filter_map(|child| child.data_type(&schema).ok());
        types.into_iter().any(|data_type| is_string(&data_type))
    });
    let below: f64 = children.into_iter().map(|child| operations(child, plan)).sum();
    let own = match pattern(expression) {
        Some(pattern) => POLICY.pattern[usize::from(pattern == Pattern::Finds)],
        None => POLICY.operation[usize::from(text)],
    };
    below + own
}

/// The use of a regular expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// Tests whether a string matches.
    Tests,
    /// Finds or replaces matches.
    Finds,
}

/// The use of a regular expression in the root of an expression.
fn pattern(expression: &Arc<dyn PhysicalExpr>) -> Option<Pattern> {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        let tests = matches!(
            binary.op(),
            RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch
        );
        return tests.then_some(Pattern::Tests);
    }
    match expression.downcast_ref::<ScalarFunctionExpr>()?.name() {
        "regexp_like" => Some(Pattern::Tests),
        name if name.starts_with("regexp_") => Some(Pattern::Finds),
        _ => None,
    }
}

/// Whether an expression contains a regular expression.
pub(super) fn has_pattern(expression: &Arc<dyn PhysicalExpr>) -> bool {
    pattern(expression).is_some() || expression.children().into_iter().any(has_pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::error::Result;
    use datafusion::prelude::{ParquetReadOptions, SessionContext};

    #[tokio::test]
    async fn regular_expressions_cost_more_than_comparisons() -> Result<()> {
        let ctx = SessionContext::new();
        let rows = "(SELECT CAST(value AS VARCHAR) AS s FROM generate_series(1, 100000))";
        let mut seconds = Vec::new();
        for key in ["s || 'x'", "regexp_replace(s, '([0-9]+)5', 'x')"] {
            let sql = format!("SELECT {key} AS k, count(*) FROM {rows} GROUP BY {key}");
            let plan = ctx.sql(&sql).await?.create_physical_plan().await?;
            seconds.push(Estimator::new(1).host_seconds(&plan));
        }
        assert!(seconds[1] > seconds[0] + 100_000.0 * 900e-9, "{seconds:?}");
        Ok(())
    }

    #[tokio::test]
    async fn string_scan_cost_uses_uncompressed_bytes() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("t.parquet").display().to_string();
        let ctx = SessionContext::new();
        let rows = "SELECT value, 'kind ' || CAST(value % 3 AS VARCHAR) AS few, repeat(CAST(value AS VARCHAR), 20) AS long
                    FROM generate_series(10000, 59999)";
        ctx.sql(&format!("COPY ({rows}) TO '{path}'"))
            .await?
            .collect()
            .await?;
        let table = ctx.read_parquet(&path, ParquetReadOptions::default()).await?;
        let plan = table
            .select_columns(&["long", "value", "few"])?
            .create_physical_plan()
            .await?;
        let bytes = Estimator::new(1).string_bytes(&plan);
        // A hundred bytes with their length; nothing; a few bits.
        assert!(
            bytes["long"] > 50_000.0 * 100.0 && bytes["long"] < 50_000.0 * 110.0,
            "{bytes:?}"
        );
        assert!(bytes.len() == 2 && bytes["few"] < 50_000.0, "{bytes:?}");
        Ok(())
    }

    #[tokio::test]
    async fn cautious_prediction_assumes_joins_keep_row_count() -> Result<()> {
        let ctx = SessionContext::new();
        let table = "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 50000)";
        ctx.sql(table).await?.collect().await?;
        for (sql, multiplies) in [
            ("SELECT count(*) FROM t a JOIN t b ON a.v < b.v", true),
            ("SELECT a.v, b.v FROM t a CROSS JOIN t b", true),
            ("SELECT count(*) FROM t WHERE v > 7", false),
            ("SELECT v FROM t UNION ALL SELECT v FROM t", false),
        ] {
            let plan = ctx.sql(sql).await?.create_physical_plan().await?;
            let HostTime { predicted, cautious } = Estimator::new(1).host_time(&plan);
            match multiplies {
                true => assert!(
                    predicted > 2.0 && cautious < 0.1,
                    "{sql}: {predicted}, {cautious}"
                ),
                false => assert_eq!(predicted, cautious, "{sql}"),
            }
        }
        Ok(())
    }
}
