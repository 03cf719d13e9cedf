//! Window functions, and the data that they are computed from.
//!
//! ```text
//! row_number, rank, ntile, ...      positions within the partition and the peers
//! lag, first_value, ...             the value at another position
//! count, sum, avg                   prefix sums at the ends of the frame, exact for integers
//! min, max, sums of floats          folded over the frame, by a tree
//! ```
//!
//! Only prefix sums and trees are materialised. Pipelines that read the rows compute the functions where they
//! are used (`emit/windows.rs`).

use super::built::{BuiltColumn, PayloadKind};
use super::function::SortOrder;
use super::interval::Interval;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use galatea_base::reason::Reason;
use galatea_kernels::{Fold, WindowValue};
use std::collections::BTreeMap;
use std::fmt;

/// A call of a window function.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowCall {
    /// The window function.
    pub function: WindowFunction,
    /// Number of the argument's column; `None` for functions without an argument.
    pub argument: Option<usize>,
    /// `IGNORE NULLS`: whether rows with a NULL argument are skipped.
    pub ignores_nulls: bool,
    /// The frame; ignored by functions of the whole partition.
    pub frame: Frame,
    /// Name and type of the result, as planned by DataFusion.
    pub field: FieldRef,
}

/// The function of a [`WindowCall`].
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
    /// `lag` and `lead`: the value `offset` rows before the row (after it if negative), or the default if
    /// that row does not exist.
    Shift {
        /// Offset in rows before the current row.
        offset: i64,
        /// The default value, of the argument's type.
        default: ScalarValue,
    },
    /// `first_value`.
    First,
    /// `last_value`.
    Last,
    /// `nth_value`: counted from 1, or from the end if negative.
    Nth(i64),
    /// `count`.
    Count,
    /// `sum`.
    Sum {
        /// Whether integers wrap; otherwise a result that exceeds its type is an error.
        wraps: bool,
    },
    /// `avg`. For decimals, `digits` is the number of additional decimal places of the result.
    Avg {
        /// Number of additional decimal places.
        digits: u32,
    },
    /// `min`.
    Min,
    /// `max`.
    Max,
}

impl WindowFunction {
    /// Whether the result depends on the order of peers.
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

    /// Whether it can skip rows with a NULL argument. `in_runs` excludes `lead`s that look further than the
    /// next row: DataFusion also skips other rows when it computes them while rows arrive.
    pub fn may_ignore_nulls(&self, in_runs: bool) -> bool {
        match self {
            Self::First | Self::Last | Self::Nth(_) => true,
            Self::Shift { offset, .. } => *offset != 0 && (*offset >= -1 || !in_runs),
            _ => false,
        }
    }

    /// The SQL name of the function.
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
    /// The unit of the bounds.
    pub units: Units,
    /// The start of the frame.
    pub start: FrameBound,
    /// The end of the frame.
    pub end: FrameBound,
}

impl Frame {
    fn bounds(&self) -> [FrameBound; 2] {
        [self.start, self.end]
    }

    /// Sets the number of the key column that the bounds are searched by, if the frame has one.
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

/// The unit of a frame's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Rows.
    Rows,
    /// Peer groups: rows that are equal in the order.
    Groups,
    /// Distances of the sort key, if a bound is a distance.
    Range(Option<RangeKey>),
}

/// The key of a RANGE frame with distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeKey {
    /// Number of the key's column.
    pub column: usize,
    /// Sort order of the key.
    pub order: SortOrder,
    /// The range of the key's type. A bound beyond it is the bound of the partition, except that it is 0 for
    /// unsigned types. Undefined for floats.
    pub domain: (i128, i128),
}

/// One bound of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrameBound {
    /// The first or the last row of the partition.
    Unbounded,
    /// The current row, or its peers.
    CurrentRow,
    /// A distance before the current row.
    Preceding(Distance),
    /// A distance after the current row.
    Following(Distance),
}

/// Distance of a bound from the current row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distance {
    /// A number of rows, of peer groups, or of units of an integer key.
    Number(i128),
    /// A distance of a float key.
    Float(f64),
    /// A distance of a date key.
    Interval {
        /// Months, applied first; the day is limited to the length of the month.
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
    /// By position the stored row; 0: rows are stored in order.
    Ids,
    /// By position the number of partitions before it.
    Partitions,
    /// The first position of each partition.
    PartitionStarts,
    /// By position the number of peer groups before it.
    Peers,
    /// The first position of each peer group.
    PeerStarts,
    /// First of the column words: for each column its entries and its NULL bits; followed by sums and trees.
    Columns,
}

impl WindowWord {
    /// The word of the entries of the column at this position; the word of its NULL bits follows.
    pub fn column(position: usize) -> usize {
        Self::Columns as usize + 2 * position
    }
}

/// Data derived from a sorted column for aggregates over frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derived {
    /// Position of the column.
    pub column: usize,
    /// The derived data.
    pub form: DerivedForm,
}

/// The form of [`Derived`] data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DerivedForm {
    /// Number of non-NULL values before each position, and in total: 32 bits.
    Counts,
    /// Sums of the values before each position, and in total: 64 bits, wrapping.
    Sums,
    /// The same sums in 128 bits.
    WideSums,
    /// A tree for folds over frames.
    Tree(Fold, WindowValue),
}

impl DerivedForm {
    /// Bytes per value.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Counts => 4,
            Self::Sums => 8,
            Self::WideSums => 16,
            // Including the levels above the lowest.
            Self::Tree(fold, _) => fold.bytes() as u64 * 17 / 16,
        }
    }
}

/// The window functions and derived data that are looked up for rows in the order of a window, besides their
/// columns.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowShape {
    /// Functions, by the number of their column.
    pub calls: BTreeMap<usize, BoundCall>,
    /// Prefix sums and trees.
    pub derived: Vec<Derived>,
    /// Number of columns.
    columns: usize,
}

/// A function bound to its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundCall {
    pub call: WindowCall,
    /// The word of the counts of non-NULL values, if values can be NULL.
    pub counts: Option<usize>,
    /// The word and the form of the data that it is computed from.
    pub values: Option<(usize, DerivedForm)>,
    /// The interval of integer results.
    pub interval: Interval,
}

impl WindowShape {
    /// The shape of these calls over these columns, for at most `rows` rows.
    ///
    /// # Errors
    /// [`Reason::Type`] of sums that may exceed 128 bits, [`Reason::Encoding`] of a missing column.
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

    /// The word of the data derived from a column, which is added only once.
    fn derive(&mut self, column: usize, form: DerivedForm) -> usize {
        let derived = Derived { column, form };
        let known = self.derived.iter().position(|known| *known == derived);
        let number = known.unwrap_or_else(|| {
            self.derived.push(derived);
            self.derived.len() - 1
        });
        self.word(number)
    }

    /// The word of a prefix sum or tree, by number.
    pub fn word(&self, number: usize) -> usize {
        WindowWord::column(self.columns) + number
    }
}
