//! A sample of group numbers, read from encoded columns on the host.

use super::group_key::{GroupKey, KeyForm, KeyPart};
use galatea_base::policy::policy;
use galatea_expression::Expr;
use galatea_store::{Chunk, Column, Encoding, TableView};
use std::collections::HashMap;

policy! {
    /// Policy of the sample for the choice of a group-by strategy, and of hot groups.
    pub(super) struct SamplePolicy {
        /// Number of runs in a sample. A run contains the rows that one warp processes in one step.
        sampled_runs: usize = 48,
        /// Minimum share of the sample for a hot group.
        hot_share: f64 = 0.1,
        /// Maximum number of hot groups.
        hot_groups: usize = 2,
    }
}

const POLICY: SamplePolicy = SamplePolicy::DEFAULT;

const LANES: usize = 32;

/// The groups of sampled runs. A run contains the rows that one warp processes in one step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// Groups by access of a warp, 32 rows each.
    pub groups: Vec<u32>,
    /// Share of the rows with a different group than the previous row of the same thread.
    pub changes: f64,
}

impl Sample {
    /// Estimated updates of groups of `group_bytes` in device memory. `warps`: whether the lanes of a warp
    /// combine their rows.
    pub(super) fn updates(&self, group_bytes: u64, warps: bool) -> Updates {
        let mut reach: HashMap<u64, u32> = HashMap::new();
        let mut all = 0_u32;
        for access in self.groups.chunks(32) {
            for (lane, group) in access.iter().enumerate() {
                if !warps || !access[..lane].contains(group) {
                    *reach.entry(u64::from(*group) * group_bytes / 1024).or_default() += 1;
                    all += 1;
                }
            }
        }
        let most = reach.into_values().max().unwrap_or(0);
        let rows = self.groups.len().max(1) as f64;
        Updates {
            all: f64::from(all) / rows,
            in_a_kib: f64::from(most) / rows,
        }
    }

    /// The most frequent groups, if they are frequent enough to be accumulated in registers.
    pub(super) fn hot(&self) -> Vec<u32> {
        let rows = self.frequencies();
        let frequent =
            |(rows, _): &&(usize, u32)| *rows as f64 >= POLICY.hot_share * self.groups.len() as f64;
        rows.iter()
            .take(POLICY.hot_groups)
            .take_while(frequent)
            .map(|(_, group)| *group)
            .collect()
    }

    /// The number of rows of each group, in descending order.
    fn frequencies(&self) -> Vec<(usize, u32)> {
        let mut rows: HashMap<u32, usize> = HashMap::new();
        self.groups
            .iter()
            .for_each(|group| *rows.entry(*group).or_default() += 1);
        let mut rows: Vec<(usize, u32)> = rows.into_iter().map(|(group, rows)| (rows, group)).collect();
        rows.sort_unstable_by(|one, other| other.cmp(one));
        rows
    }

    /// The sample without hot groups: each of their rows is assigned to a group in its own lane's bank, so
    /// they do not conflict in shared memory.
    pub(super) fn without(&self, hot: &[u32], groups: u64) -> Vec<u32> {
        let beyond = groups.next_multiple_of(32) as u32;
        let own = |(row, group): (usize, &u32)| {
            if hot.contains(group) {
                beyond + (row % 32) as u32
            } else {
                *group
            }
        };
        self.groups.iter().enumerate().map(own).collect()
    }
}

/// Updates of groups in device memory, per row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Updates {
    pub(super) all: f64,
    /// Updates of the most frequently updated KiB of groups.
    pub(super) in_a_kib: f64,
}

impl Updates {
    /// Assumed values if no sample is available.
    pub(super) const GUESSED: Self = Self {
        all: 0.5,
        in_a_kib: 0.1,
    };
}

/// The groups of sampled rows of `view`; `keys` refer to its columns. `None` if keys are computed, or no
/// chunk of the table has enough rows for a warp. Filters are not applied.
pub(super) fn sample(view: &TableView, keys: &[Expr], key: &GroupKey, items: u32) -> Option<Sample> {
    let items = items as usize;
    let run = LANES * items;
    let parts = (keys.iter().zip(&key.parts))
        .map(|(expr, part)| Some((part, &*view.columns[expr.as_column()?])))
        .collect::<Option<Vec<_>>>()?;
    if parts.iter().any(|(_, column)| !readable(column)) || parts.is_empty() {
        return None;
    }
    let mut groups = Vec::with_capacity(POLICY.sampled_runs * run);
    let (mut changes, mut followers) = (0_usize, 0_usize);
    for (chunk, first) in runs(view, run) {
        let numbers: Vec<u32> = (first..first + run)
            .map(|row| number(&parts, chunk, row))
            .collect::<Option<_>>()?;
        for rows in numbers.chunks(items) {
            followers += rows.len() - 1;
            changes += rows.windows(2).filter(|pair| pair[0] != pair[1]).count();
        }
        // Row `i` of every lane belongs to the same access.
        groups.extend(
            (0..items)
                .flat_map(|i| (0..LANES).map(move |lane| lane * items + i))
                .map(|row| numbers[row]),
        );
    }
    (!groups.is_empty()).then(|| Sample {
        groups,
        changes: if followers == 0 {
            1.0
        } else {
            changes as f64 / followers as f64
        },
    })
}

/// Chunks and first rows of runs of `run` rows, spread evenly over all complete runs.
fn runs(view: &TableView, run: usize) -> impl Iterator<Item = (usize, usize)> {
    let of_chunks: Vec<usize> = view.chunk_rows.iter().map(|rows| *rows as usize / run).collect();
    let all: usize = of_chunks.iter().sum();
    let taken = POLICY.sampled_runs.min(all);
    let (mut chunk, mut before) = (0, 0);
    (0..taken).map(move |nth| {
        let at = nth * all / taken;
        while at - before >= of_chunks[chunk] {
            before += of_chunks[chunk];
            chunk += 1;
        }
        (chunk, (at - before) * run)
    })
}

/// Whether values can be read without decoding the column.
fn readable(column: &Column) -> bool {
    matches!(
        column.encoding,
        Encoding::Integer { .. } | Encoding::Boolean | Encoding::Dictionary { .. } | Encoding::Slots { .. }
    )
}

/// The group of a row: the digits of its key parts, as in `GroupKey::emit`.
fn number(parts: &[(&KeyPart, &Column)], chunk: usize, row: usize) -> Option<u32> {
    let mut number = 0_u64;
    for (part, column) in parts {
        let radix = part.radix()?;
        let found = &column.chunks[chunk];
        let digit = if is_null(found, row) {
            radix - 1
        } else {
            digit(part, column, found, row)?
        };
        number = number.checked_mul(radix)?.checked_add(digit.min(radix - 1))?;
    }
    u32::try_from(number).ok()
}

fn is_null(chunk: &Chunk, row: usize) -> bool {
    let valid = |bits: &[u8]| bits[row / 8] >> (row % 8) & 1 != 0;
    chunk
        .validity
        .as_ref()
        .is_some_and(|bits| !valid(bits.as_slice()))
}

fn digit(part: &KeyPart, column: &Column, chunk: &Chunk, row: usize) -> Option<u64> {
    let code = |width: usize| chunk.data.bits(width, row);
    let (code, factor) = match &column.encoding {
        Encoding::Integer { width, factor } => (code(width.bytes())?, *factor),
        Encoding::Boolean => (code(1)?, 1),
        Encoding::Dictionary { width, .. } => (code(width.bytes())?, 1),
        Encoding::Slots { width, layout } => {
            let slot = usize::try_from(code(width.bytes())?).ok()?;
            (u64::from(*layout.slot_codes().get(slot)?), layout.factor())
        }
        _ => return None,
    };
    match &part.form {
        KeyForm::Integer { low, .. } => {
            let value = i128::from(chunk.base) + i128::from(code) * i128::from(factor);
            u64::try_from(value - low).ok()
        }
        KeyForm::Code { .. } => Some(code),
        KeyForm::Float64 | KeyForm::Text => None,
    }
}
