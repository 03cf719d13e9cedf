//! Functions over windows, and what of the rows in order they are computed from.
//!
//! ```text
//! row_number, rank, ntile, ...      places of the partition and of the peers
//! lag, first_value, ...             the value at another place
//! count, sum, avg                   sums before the ends of the frame, of integers exact
//! min, max, sums of floats          folded over the frame, by a tree
//! ```
//!
//! Nothing but sums and trees is written down: pipelines over the rows compute the functions where they are
//! used (`emit/windows.rs`).

use super::built::{BuiltColumn, PayloadKind};
use super::function::SortOrder;
use super::interval::Interval;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use galatea_base::reason::Reason;
use galatea_kernels::{Fold, WindowValue};
use std::collections::BTreeMap;
use std::fmt;

/// A function over a window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowCall {
    /// What is computed.
    pub function: WindowFunction,
    /// Of which column, by number; `None` of functions without an argument.
    pub argument: Option<usize>,
    /// `IGNORE NULLS`: whether rows in which the argument is NULL are no rows for it.
    pub ignores_nulls: bool,
    /// Over which rows; of no meaning for functions of the whole partition.
    pub frame: Frame,
    /// Name and type of the result, as DataFusion plans it.
    pub field: FieldRef,
}

/// See [`WindowCall`].
#[derive(Debug, Clone, PartialEq)]
pub enum WindowFunction {
    /// `row_number()`.
    RowNumber,
    /// `rank()`.
    Rank,
    /// `dense_rank()`.
    DenseRank,
    /// `percent_rank()`.
    PercentRank,
    /// `cume_dist()`.
    CumeDist,
    /// `ntile(n)`.
    Tile(u64),
    /// `lag` and `lead`: the value so many rows before, or behind where negative, and what it is where there
    /// is no such row.
    Shift {
        /// Rows before.
        offset: i64,
        /// A value of the argument's type.
        default: ScalarValue,
    },
    /// `first_value`.
    First,
    /// `last_value`.
    Last,
    /// `nth_value`: from 1 on, or from the end where negative.
    Nth(i64),
    /// `count`.
    Count,
    /// `sum`.
    Sum {
        /// Whether integers wrap; else a result that leaves its type is an error.
        wraps: bool,
    },
    /// `avg`, of decimals with so many more digits behind the point than the argument has.
    Avg {
        /// Digits.
        digits: u32,
    },
    /// `min`.
    Min,
    /// `max`.
    Max,
}

impl WindowFunction {
    /// Whether the result depends on the order of rows that are equal in the window's order.
    pub fn orders_peers(&self, frame: &Frame) -> bool {
        match self {
            Self::RowNumber
            | Self::Tile(_)
            | Self::Shift { .. }
            | Self::First
            | Self::Last
            | Self::Nth(_) => true,
            Self::Rank | Self::DenseRank | Self::PercentRank | Self::CumeDist | Self::Count => false,
            Self::Sum { .. } | Self::Avg { .. } | Self::Min | Self::Max => {
                frame.units == Units::Rows && frame.bounds() != [FrameBound::Unbounded; 2]
            }
        }
    }

    /// Whether it can pass over rows in which its argument is NULL. Of `lead`s that look further than the
    /// next row those `in_runs` cannot: DataFusion passes over other rows, too, where it computes them while
    /// rows come.
    pub fn may_ignore_nulls(&self, in_runs: bool) -> bool {
        match self {
            Self::First | Self::Last | Self::Nth(_) => true,
            Self::Shift { offset, .. } => *offset != 0 && (*offset >= -1 || !in_runs),
            _ => false,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumeDist => "cume_dist",
            Self::Tile(_) => "ntile",
            Self::Shift { offset: 0.., .. } => "lag",
            Self::Shift { .. } => "lead",
            Self::First => "first_value",
            Self::Last => "last_value",
            Self::Nth(_) => "nth_value",
            Self::Count => "count",
            Self::Sum { .. } => "sum",
            Self::Avg { .. } => "avg",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// Whether it is computed over the frame.
    pub fn has_frame(&self) -> bool {
        matches!(
            self,
            Self::First
                | Self::Last
                | Self::Nth(_)
                | Self::Count
                | Self::Sum { .. }
                | Self::Avg { .. }
                | Self::Min
                | Self::Max
        )
    }
}

/// The rows around a row that a function is computed over.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// What bounds count.
    pub units: Units,
    /// Where it starts.
    pub start: FrameBound,
    /// Where it ends.
    pub end: FrameBound,
}

impl Frame {
    fn bounds(&self) -> [FrameBound; 2] {
        [self.start, self.end]
    }

    /// The same with the number of the column that its bounds are found by, if there is one.
    pub fn by_column(self, column: impl FnOnce() -> usize) -> Self {
        match self.units {
            Units::Range(Some(key)) => Self {
                units: Units::Range(Some(RangeKey {
                    column: column(),
                    ..key
                })),
                ..self
            },
            _ => self,
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = match self.units {
            Units::Rows => "rows",
            Units::Groups => "groups",
            Units::Range(_) => "range",
        };
        let bound = |bound: FrameBound, unbounded: &str| match bound {
            FrameBound::Unbounded => format!("unbounded {unbounded}"),
            FrameBound::CurrentRow => "current row".to_owned(),
            FrameBound::Preceding(distance) => format!("{distance} preceding"),
            FrameBound::Following(distance) => format!("{distance} following"),
        };
        let (start, end) = (bound(self.start, "preceding"), bound(self.end, "following"));
        write!(f, "{units} {start} to {end}")
    }
}

/// What the bounds of a frame count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Rows.
    Rows,
    /// Peers: rows that are equal in the order.
    Groups,
    /// Distances of the key of the order, if a bound is one.
    Range(Option<RangeKey>),
}

/// The key that the bounds of a RANGE frame are distances of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeKey {
    /// Its column, by number.
    pub column: usize,
    /// How it is ordered.
    pub order: SortOrder,
    /// The least and the greatest value of its type: a bound beyond is that of the partition, but 0 of what
    /// has no sign. Of no meaning for floats.
    pub domain: (i128, i128),
}

/// One bound of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrameBound {
    /// The first row of the partition, or the last one.
    Unbounded,
    /// The row, or its peers.
    CurrentRow,
    /// So far before.
    Preceding(Distance),
    /// So far behind.
    Following(Distance),
}

/// How far a bound is from the row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distance {
    /// So many rows, peers, or units of a key that is an integer.
    Number(i128),
    /// Of a key that is a float.
    Float(f64),
    /// Of a key that is a date.
    Interval {
        /// Months, counted first; the day is cut to the length of the month.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (months, days, nanoseconds) = match self {
            Self::Number(number) => return number.fmt(f),
            Self::Float(float) => return float.fmt(f),
            Self::Interval {
                months,
                days,
                nanoseconds,
            } => (months, days, nanoseconds),
        };
        write!(f, "{months} months")?;
        if (*days, *nanoseconds) != (0, 0) {
            write!(f, " {days} days {nanoseconds} ns")?;
        }
        Ok(())
    }
}

/// The words of the directory of windows. Device twins: `WINDOW_ROWS` and so on in `galatea/windows.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum WindowWord {
    /// Number of rows.
    Rows,
    /// By place the stored row; 0: rows are stored in order.
    Ids,
    /// By place the partitions before it.
    Partitions,
    /// The first place of each partition.
    PartitionStarts,
    /// By place the runs of peers before it.
    Peers,
    /// The first place of each run.
    PeerStarts,
    /// From here on of each column its entries, and its NULLs; then sums and trees.
    Columns,
}

impl WindowWord {
    /// The word of the entries of the column at a position; that of its NULLs follows.
    pub fn column(position: usize) -> usize {
        Self::Columns as usize + 2 * position
    }
}

/// What is made of a column in order, for aggregates of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derived {
    /// Position of the column.
    pub column: usize,
    /// The values derived from it.
    pub form: DerivedForm,
}

/// See [`Derived`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DerivedForm {
    /// The values that are not NULL before each place, and all: 32 bits.
    Counts,
    /// Their sums before each place, and the sum of all: 64 bits, which wrap.
    Sums,
    /// The same of 128 bits.
    WideSums,
    /// A tree.
    Tree(Fold, WindowValue),
}

impl DerivedForm {
    /// Bytes of a value.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Counts => 4,
            Self::Sums => 8,
            Self::WideSums => 16,
            // With the levels above the lowest.
            Self::Tree(fold, _) => fold.bytes() as u64 * 17 / 16,
        }
    }
}

/// What is looked up of rows in the order of a window, beside their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowShape {
    /// Functions, by number of their column.
    pub calls: BTreeMap<usize, BoundCall>,
    /// Sums and trees.
    pub derived: Vec<Derived>,
    /// Columns.
    columns: usize,
}

/// A function over columns that are known.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundCall {
    pub call: WindowCall,
    /// The word of the counts of its values that are not NULL, if some may be.
    pub counts: Option<usize>,
    /// The word of what it is computed from, and how values are there.
    pub values: Option<(usize, DerivedForm)>,
    /// The interval of integer results.
    pub interval: Interval,
}

impl WindowShape {
    /// The shape of calls over those columns, of at most `rows` rows.
    ///
    /// # Errors
    /// [`Reason::Type`] of sums that may leave 128 bits, [`Reason::Encoding`] of a column that is not there.
    pub fn new(columns: &[BuiltColumn], calls: &[(usize, WindowCall)], rows: u64) -> Result<Self, Reason> {
        let mut shape = Self {
            calls: BTreeMap::new(),
            derived: Vec::new(),
            columns: columns.len(),
        };
        for (number, call) in calls {
            let bound = shape.bound(columns, call, rows)?;
            shape.calls.insert(*number, bound);
        }
        Ok(shape)
    }

    fn bound(&mut self, columns: &[BuiltColumn], call: &WindowCall, rows: u64) -> Result<BoundCall, Reason> {
        let mut bound = BoundCall {
            call: call.clone(),
            counts: None,
            values: None,
            interval: Interval {
                low: 0,
                high: u32::MAX.into(),
            },
        };
        use WindowFunction::{Avg, Count, Max, Min, Sum};
        let aggregates = matches!(call.function, Count | Sum { .. } | Avg { .. } | Min | Max);
        let Some(argument) = call.argument.filter(|_| aggregates || call.ignores_nulls) else {
            return Ok(bound);
        };
        let position = columns.iter().position(|column| column.column == argument);
        let position = position.ok_or(Reason::Encoding {
            column: argument,
            needed: "a column that the window kept",
        })?;
        let column = &columns[position];
        if column.nullable {
            bound.counts = Some(self.derive(position, DerivedForm::Counts));
        }
        if !aggregates {
            return Ok(bound);
        }
        let refuse = || Reason::Type {
            data_type: call.field.data_type().clone(),
            place: format!("{} over a window", call.function.name()),
        };
        let long = Interval::of::<i64>();
        let interval = match &column.values {
            PayloadKind::Integer(interval) => Some(*interval),
            PayloadKind::Code(values) => Some(Interval {
                low: 0,
                high: values.0.len().saturating_sub(1) as i128,
            }),
            PayloadKind::Boolean | PayloadKind::Float32 | PayloadKind::Float64 => None,
        };
        let form = match (&call.function, interval) {
            (Count, _) => return Ok(bound),
            (Sum { .. } | Avg { .. }, None) => DerivedForm::Tree(Fold::SumF64, WindowValue::Float),
            (function @ (Sum { .. } | Avg { .. }), Some(values)) => {
                let product = |factor: i128| {
                    let product = values.multiply(Interval { low: 0, high: factor });
                    product.ok_or_else(refuse)
                };
                let sums = product(i128::from(rows.max(1)))?;
                let is_integer = call.field.data_type().is_integer();
                let wraps = is_integer && *function == Sum { wraps: true };
                match function {
                    Avg { digits } => {
                        let factor = 10i128.checked_pow(*digits).ok_or_else(refuse)?;
                        Interval::point(factor).multiply(sums).ok_or_else(refuse)?;
                        bound.interval = product(factor)?;
                    }
                    _ if wraps && !sums.within(long) => {
                        bound.interval = match call.field.data_type() {
                            DataType::UInt64 => Interval::of::<u64>(),
                            _ => long,
                        };
                    }
                    _ => bound.interval = sums,
                }
                match wraps || sums.within(long) {
                    true => DerivedForm::Sums,
                    false => DerivedForm::WideSums,
                }
            }
            (function, Some(values)) => {
                bound.interval = values;
                let least = *function == Min;
                match (values.within(long), least) {
                    (true, false) => DerivedForm::Tree(Fold::Max64, WindowValue::Rank),
                    (true, true) => DerivedForm::Tree(Fold::Max64, WindowValue::ComplementedRank),
                    (false, false) => DerivedForm::Tree(Fold::Max128, WindowValue::WideRank),
                    (false, true) => DerivedForm::Tree(Fold::Max128, WindowValue::ComplementedWideRank),
                }
            }
            (_, None) if matches!(column.values, PayloadKind::Boolean) => return Err(refuse()),
            (Min, None) => DerivedForm::Tree(Fold::Max64, WindowValue::ComplementedRank),
            (_, None) => DerivedForm::Tree(Fold::Max64, WindowValue::Rank),
        };
        bound.values = Some((self.derive(position, form), form));
        Ok(bound)
    }

    /// The word of what is made of a column, once.
    fn derive(&mut self, column: usize, form: DerivedForm) -> usize {
        let derived = Derived { column, form };
        let known = self.derived.iter().position(|known| *known == derived);
        let number = known.unwrap_or_else(|| {
            self.derived.push(derived);
            self.derived.len() - 1
        });
        self.word(number)
    }

    /// The word of a sum or tree, by its number.
    pub fn word(&self, number: usize) -> usize {
        WindowWord::column(self.columns) + number
    }
}
