//! The size of the experiments.

use galatea_layout::Tiles;

use crate::Result;

/// Sizes and varied parameters.
#[derive(Debug, Clone)]
pub struct Extent {
    /// Rows of the largest table.
    pub rows: usize,
    /// Numbers of rows of smaller tables, in the experiments that vary them.
    pub tables: Vec<usize>,
    /// Number of distinct values of a column if they are not varied.
    pub values: usize,
    /// Skews of Zipf's law, ascending.
    pub thetas: Vec<f64>,
    /// Windows of the layout in accesses, ascending (§3.3).
    pub windows: Vec<usize>,
    /// The window if windows are not varied.
    pub window: usize,
    /// Cardinalities of figure 4.
    pub cardinalities: Vec<usize>,
    /// Rows of the tables of figure 8.
    pub budget_rows: usize,
    /// Budgets of figure 8: mean copies of a value.
    pub budgets: Vec<f64>,
    /// Number of rows of the tables of table 1 and figure 4, and of those of figure 9 with fewer threads.
    pub few_rows: usize,
    /// Number of rows of the tables of figure 10.
    pub degree_rows: usize,
    /// Groups of the alternatives, ascending.
    pub groups: Vec<usize>,
    /// Skews of the alternatives.
    pub group_thetas: Vec<f64>,
    /// Number of threads of a block.
    pub threads: u64,
    /// Number of rows of a block.
    pub morsel_rows: usize,
    /// Number of measured runs, after two warm-up runs.
    pub runs: usize,
    /// Seed of the columns.
    pub seed: u64,
}

impl Extent {
    /// The paper's extent (§4): 1024 values, up to 200 million rows, 1024 threads a block.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            rows: 200_000_000,
            tables: vec![10_000_000, 50_000_000],
            values: 1024,
            thetas: vec![0.0, 0.5, 1.0, 1.5, 2.0],
            windows: vec![0, 4, 16, 32],
            window: 16,
            cardinalities: (5..=13).map(|bits| 1 << bits).collect(),
            budget_rows: 50_000_000,
            budgets: vec![1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.99, 24.0, 56.0],
            few_rows: 10_000_000,
            degree_rows: 30_000_000,
            groups: (0..=12).map(|bits| 1 << bits).collect(),
            group_thetas: vec![0.0, 0.5, 1.0, 1.5, 2.0],
            threads: 1024,
            morsel_rows: 350 * 1024,
            runs: 9,
            seed: 0,
        }
    }

    /// Small enough for the emulated device: it shows that everything works; its times mean nothing.
    #[must_use]
    pub fn emulated() -> Self {
        Self {
            rows: 1500,
            tables: vec![700],
            values: 256,
            thetas: vec![0.0, 1.5],
            windows: vec![0, 4],
            window: 4,
            cardinalities: vec![32, 100],
            budget_rows: 900,
            budgets: vec![1.0, 4.0],
            few_rows: 2000,
            degree_rows: 500,
            groups: vec![1, 4, 64],
            group_thetas: vec![0.0, 1.0],
            threads: 64,
            morsel_rows: 512,
            runs: 1,
            seed: 0,
        }
    }

    /// Limits the number of rows of a table.
    #[must_use]
    pub fn at_most(mut self, rows: usize) -> Self {
        self.tables.retain(|table| *table < rows);
        for size in [
            &mut self.rows,
            &mut self.budget_rows,
            &mut self.few_rows,
            &mut self.degree_rows,
        ] {
            *size = rows.min(*size);
        }
        self
    }

    /// The order in which the kernels process rows.
    pub(super) fn pattern(&self) -> Result<Tiles> {
        let threads = usize::try_from(self.threads).unwrap_or(usize::MAX);
        Ok(Tiles::new(threads, 1, self.morsel_rows)?)
    }
}
