//! The intermediate representation: typed, immutable trees with DataFusion's semantics.
//!
//! [`lower`](super::lower) makes them from physical expressions while planning, without data. They are cheap
//! to clone (shared nodes) and comparable, which is how the emitter finds common subexpressions. A node says
//! what is computed, never how: whether an integer needs 32 or 128 bits, or a string predicate becomes a
//! table, is decided by the emitter, which knows the encodings.

mod make;
mod replace;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use super::function::Function;
use super::host_function::HostFunction;
use super::operator::{Arithmetic, Bitwise, Comparison};
use super::origin::Origin;
use super::pending::PendingScalar;
use super::text::is_text;
use galatea_base::reason::Reason;
use galatea_base::stack::growing;

/// A typed expression over the columns of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr(Arc<Node>);

#[derive(Debug, Clone)]
struct Node {
    /// Of the whole tree: finding an expression among others takes no walk through it.
    hash: u64,
    /// Nodes on the longest way from here to a leaf.
    depth: u32,
    kind: ExprKind,
    data_type: DataType,
    nullable: bool,
    origin: Option<Origin>,
}

impl PartialEq for Node {
    /// Whatever the origins.
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.depth == other.depth
            && self.kind == other.kind
            && self.data_type == other.data_type
            && self.nullable == other.nullable
    }
}

impl Eq for Node {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

/// Levels that an expression on the device has at most. Some passes over expressions recurse, and the
/// generated code grows with the depth.
pub const MAX_DEPTH: u32 = 400;

/// What a node computes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExprKind {
    /// Column of the input.
    Column(usize),
    /// A constant, possibly NULL.
    Literal(ScalarValue),
    /// A constant that is known when the query runs.
    Pending(PendingScalar),
    /// Arithmetic on numbers of one type, or of two decimal types.
    Arithmetic {
        /// The operator.
        operator: Arithmetic,
        /// Left operand.
        left: Expr,
        /// Right operand.
        right: Expr,
        /// Whether integer overflow is an error; otherwise it wraps. Decimal overflow is always one.
        checked: bool,
    },
    /// Arithmetic on bits.
    Bitwise {
        /// The operator.
        operator: Bitwise,
        /// Left operand.
        left: Expr,
        /// Right operand.
        right: Expr,
    },
    /// A comparison of two values of one type.
    Compare {
        /// The operator.
        operator: Comparison,
        /// Left operand.
        left: Expr,
        /// Right operand.
        right: Expr,
        /// Whether -0.0 equals 0.0; otherwise floats compare by IEEE 754 totalOrder.
        equal_zeros: bool,
    },
    /// Three-valued conjunction.
    And(Expr, Expr),
    /// Three-valued disjunction.
    Or(Expr, Expr),
    /// Three-valued negation.
    Not(Expr),
    /// `IS NULL`.
    IsNull(Expr),
    /// Arithmetic negation; integers wrap, decimals overflow with an error.
    Negate(Expr),
    /// `CASE WHEN condition THEN result ... ELSE otherwise END`.
    Case {
        /// Conditions and their results, in order.
        branches: Vec<(Expr, Expr)>,
        /// Result where no condition is true; NULL if absent.
        otherwise: Option<Expr>,
    },
    /// Membership in constants.
    InList {
        /// The value looked for.
        value: Expr,
        /// The constants, without NULL.
        list: Vec<ScalarValue>,
        /// Whether the list also has NULL, which makes "not found" NULL.
        list_has_null: bool,
        /// `NOT IN`.
        negated: bool,
    },
    /// Conversion to this node's type.
    Cast {
        /// The value converted.
        input: Expr,
        /// Whether a value that does not fit becomes NULL (TRY_CAST) rather than an error.
        safe: bool,
    },
    /// A function with a device version.
    Call {
        /// The function.
        function: Function,
        /// Its arguments; constants that select a variant are in `function`.
        arguments: Vec<Expr>,
    },
    /// A function of one string, evaluated by DataFusion for each value of the string's dictionary.
    Dictionary {
        /// The function.
        function: Arc<HostFunction>,
        /// The string.
        argument: Expr,
        /// The same expression by device code, for strings that are not dictionary encoded.
        native: Option<Expr>,
    },
    /// A text that is made of several values, or of numbers: where it is returned, DataFusion may evaluate
    /// it.
    Hosted {
        /// The function.
        function: Arc<HostFunction>,
        /// Its arguments.
        arguments: Vec<Expr>,
        /// The same expression by device code.
        native: Expr,
    },
    /// A text of a table that is only returned: where it has no dictionary, the number of its row, by which
    /// the host finds it.
    ByRow(Expr),
    /// The number of the row, by which groups are read that are a pipeline's rows.
    RowNumber,
    /// The number of the row in its table, from 0 on.
    TableRow,
    /// Several values that are a key together.
    Tuple(Vec<Expr>),
    /// Whether a dimension has a row of that key; false for NULL.
    Member {
        /// Number of the [`Dimension`](super::Dimension).
        dimension: usize,
        /// The key looked for.
        key: Expr,
    },
    /// `NOT IN`: whether it is certain that a dimension has no row of that key, which NULL among its keys, or
    /// looking for NULL, leaves open. Never NULL: where it is open, the row is not wanted.
    Absent {
        /// Number of the [`Dimension`](super::Dimension), whose rows are on the host.
        dimension: usize,
        /// The key looked for.
        key: Expr,
    },
    /// A column of the row of a dimension that has the key; of no meaning where [`ExprKind::Member`] is
    /// false.
    Lookup {
        /// Number of the [`Dimension`](super::Dimension).
        dimension: usize,
        /// Index of the column in the dimension's plan.
        column: usize,
        /// Name of the column.
        name: String,
        /// Whether it is a text that has no dictionary.
        made: bool,
        /// The key looked for.
        key: Expr,
    },
}

/// Refuses an expression of so many levels if they are more than [`MAX_DEPTH`].
///
/// # Errors
/// [`Reason::TooDeep`].
pub(crate) fn check_depth(levels: u32) -> Result<(), Reason> {
    match levels <= MAX_DEPTH {
        true => Ok(()),
        false => Err(Reason::TooDeep {
            levels: levels.into(),
            limit: MAX_DEPTH.into(),
        }),
    }
}

impl ExprKind {
    /// Nodes on the longest way from an operand to a leaf, in either form of those that have two.
    fn depth_below(&self) -> u32 {
        let native = match self {
            Self::Dictionary { native, .. } => native.as_ref().map_or(0, Expr::depth),
            _ => 0,
        };
        let operands = self.children().into_iter().map(Expr::depth);
        operands.fold(native, u32::max)
    }

    /// Operands. The `native` form of [`ExprKind::Dictionary`] is not one: it computes the same.
    fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Column(_) | Self::Literal(_) | Self::Pending(_) | Self::RowNumber | Self::TableRow => {
                vec![]
            }
            Self::Arithmetic { left, right, .. }
            | Self::Bitwise { left, right, .. }
            | Self::Compare { left, right, .. }
            | Self::And(left, right)
            | Self::Or(left, right) => vec![left, right],
            Self::Not(input)
            | Self::IsNull(input)
            | Self::Negate(input)
            | Self::ByRow(input)
            | Self::InList { value: input, .. }
            | Self::Cast { input, .. }
            | Self::Dictionary { argument: input, .. }
            | Self::Member { key: input, .. }
            | Self::Absent { key: input, .. }
            | Self::Lookup { key: input, .. } => vec![input],
            Self::Case { branches, otherwise } => branches
                .iter()
                .flat_map(|(when, then)| [when, then])
                .chain(otherwise.iter())
                .collect(),
            Self::Call { arguments, .. } | Self::Tuple(arguments) => arguments.iter().collect(),
            Self::Hosted {
                arguments, native, ..
            } => std::iter::once(native).chain(arguments).collect(),
        }
    }
}

impl Expr {
    /// An expression of that type.
    pub fn new(kind: ExprKind, data_type: DataType, nullable: bool) -> Self {
        let mut state = DefaultHasher::new();
        (&kind, &data_type, nullable).hash(&mut state);
        Self(Arc::new(Node {
            hash: state.finish(),
            depth: kind.depth_below().saturating_add(1),
            kind,
            data_type,
            nullable,
            origin: None,
        }))
    }

    /// The same, made of an expression of DataFusion's.
    #[must_use]
    pub fn with_origin(mut self, origin: Option<Origin>) -> Self {
        if origin.is_some() {
            Arc::make_mut(&mut self.0).origin = origin;
        }
        self
    }

    /// DataFusion's expression that it was made of, where it may raise an error.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
    }

    /// The expression, or a part of it, that is equal to another one and has an origin.
    pub(crate) fn part_equal_to(&self, other: &Self) -> Option<&Self> {
        growing(|| {
            if self == other && self.origin().is_some() {
                return Some(self);
            }
            let native = match self.kind() {
                ExprKind::Dictionary { native, .. } => native.as_ref(),
                _ => None,
            };
            // Expressions share parts, so a search in each of them takes exponential time.
            if self.depth() <= other.depth() && native.is_none() {
                return None;
            }
            let mut parts = self.children().into_iter().chain(native);
            parts.find_map(|part| part.part_equal_to(other))
        })
    }

    /// Nodes on the longest way from the root to a leaf.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// Refuses an expression that is deeper than [`MAX_DEPTH`].
    ///
    /// # Errors
    /// [`Reason::TooDeep`].
    pub fn check_depth(&self) -> Result<(), Reason> {
        check_depth(self.depth())
    }

    /// The column `index` of the input.
    #[must_use]
    pub fn column(index: usize, data_type: DataType, nullable: bool) -> Self {
        Self::new(ExprKind::Column(index), data_type, nullable)
    }

    /// A constant.
    #[must_use]
    pub fn literal(value: ScalarValue) -> Self {
        let (data_type, nullable) = (value.data_type(), value.is_null());
        Self::new(ExprKind::Literal(value), data_type, nullable)
    }

    /// The parts of a key.
    pub fn parts(&self) -> &[Self] {
        match self.kind() {
            ExprKind::Tuple(parts) => parts,
            _ => std::slice::from_ref(self),
        }
    }

    /// The conditions whose conjunction this is, left to right.
    #[must_use]
    pub fn conjuncts(&self) -> Vec<Self> {
        match self.kind() {
            ExprKind::And(left, right) => {
                let mut conditions = left.conjuncts();
                conditions.extend(right.conjuncts());
                conditions
            }
            _ => vec![self.clone()],
        }
    }

    /// What the root computes.
    #[must_use]
    pub fn kind(&self) -> &ExprKind {
        &self.0.kind
    }

    /// Type of the result.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.0.data_type
    }

    /// Whether the result may be NULL.
    #[must_use]
    pub fn nullable(&self) -> bool {
        self.0.nullable
    }

    /// The constant, if this is one.
    #[must_use]
    pub fn as_literal(&self) -> Option<&ScalarValue> {
        match self.kind() {
            ExprKind::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// The column, if this is one.
    #[must_use]
    pub fn as_column(&self) -> Option<usize> {
        match self.kind() {
            ExprKind::Column(index) => Some(*index),
            _ => None,
        }
    }

    /// Operands. The `native` form of [`ExprKind::Dictionary`] is not one: it computes the same.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        self.kind().children()
    }

    /// The columns whose values the result depends on.
    #[must_use]
    pub fn columns(&self) -> BTreeSet<usize> {
        let mut columns = BTreeSet::new();
        self.collect_columns(&mut columns);
        columns
    }

    fn collect_columns(&self, columns: &mut BTreeSet<usize>) {
        columns.extend(self.as_column());
        for child in self.children() {
            child.collect_columns(columns);
        }
    }

    /// The constants that a pipeline has as parameters: not the values of lists, which may be in tables.
    #[must_use]
    pub fn constants(&self) -> Vec<&Self> {
        match self.kind() {
            ExprKind::Literal(value) if !value.is_null() => vec![self],
            ExprKind::Pending(_) => vec![self],
            // Evaluated for each value of a dictionary, on the host.
            ExprKind::Dictionary { .. } => vec![],
            _ => self.children().into_iter().flat_map(Self::constants).collect(),
        }
    }

    /// The columns of dimensions that are looked up, by number of the dimension and index in its plan, with
    /// their types.
    #[must_use]
    pub fn lookups(&self) -> BTreeMap<(usize, usize), DataType> {
        let mut all: BTreeMap<_, _> = self.children().into_iter().flat_map(Self::lookups).collect();
        if let ExprKind::Lookup {
            dimension, column, ..
        } = self.kind()
        {
            all.insert((*dimension, *column), self.data_type().clone());
        }
        all
    }

    /// The string columns that must be dictionary encoded for the expression to be emitted. A bare column is
    /// none of them.
    #[must_use]
    pub fn dictionary_columns(&self) -> BTreeSet<usize> {
        let mut columns = BTreeSet::new();
        self.collect_dictionary_columns(&mut columns);
        columns
    }

    fn collect_dictionary_columns(&self, columns: &mut BTreeSet<usize>) {
        match self.kind() {
            ExprKind::Dictionary {
                argument,
                native: None,
                ..
            } => argument.collect_text_columns(columns),
            ExprKind::Dictionary {
                native: Some(native), ..
            } => native.collect_dictionary_columns(columns),
            // Keys are translated by dictionary; payload has one of its own.
            ExprKind::Member { key, .. } | ExprKind::Absent { key, .. } | ExprKind::Lookup { key, .. }
                if is_text(key.data_type()) && !key.parts().iter().any(Self::is_made) =>
            {
                key.collect_text_columns(columns);
                key.collect_dictionary_columns(columns);
            }
            ExprKind::Call {
                function: Function::KeyHash { .. },
                arguments,
            } => {
                let texts = arguments.iter().filter(|part| is_text(part.data_type()));
                texts.for_each(|part| part.collect_text_columns(columns));
                for part in arguments {
                    part.collect_dictionary_columns(columns);
                }
            }
            // Branches of different dictionaries are brought to one; bytes in memory cannot be.
            ExprKind::Case { branches, otherwise } if is_text(self.data_type()) => {
                for result in branches.iter().map(|(_, then)| then).chain(otherwise) {
                    columns.extend(result.as_column());
                }
                for child in self.children() {
                    child.collect_dictionary_columns(columns);
                }
            }
            _ => {
                for child in self.children() {
                    child.collect_dictionary_columns(columns);
                }
            }
        }
    }

    fn collect_text_columns(&self, columns: &mut BTreeSet<usize>) {
        columns.extend(self.as_column().filter(|_| is_text(self.data_type())));
        for child in self.children() {
            child.collect_text_columns(columns);
        }
    }

    /// Hashes what the expression is without the values of its constants, which queries of one shape differ
    /// in.
    pub fn hash_shape(&self, state: &mut impl Hasher) {
        std::mem::discriminant(self.kind()).hash(state);
        self.data_type().hash(state);
        match self.kind() {
            ExprKind::Column(index) => index.hash(state),
            ExprKind::Arithmetic { operator, .. } => operator.hash(state),
            ExprKind::Bitwise { operator, .. } => operator.hash(state),
            ExprKind::Compare { operator, .. } => operator.hash(state),
            ExprKind::Call { function, .. } => function.hash(state),
            ExprKind::Member { dimension, .. } | ExprKind::Absent { dimension, .. } => dimension.hash(state),
            ExprKind::Lookup {
                dimension, column, ..
            } => (dimension, column).hash(state),
            _ => {}
        }
        for child in self.children() {
            child.hash_shape(state);
        }
    }

    /// Rough number of instructions for one row.
    #[must_use]
    pub fn cost(&self) -> u32 {
        let own = match self.kind() {
            ExprKind::Column(_) | ExprKind::Literal(_) | ExprKind::Pending(_) => 0,
            ExprKind::Arithmetic {
                operator: Arithmetic::Divide | Arithmetic::Remainder,
                ..
            } => 20,
            ExprKind::Call { function, .. } => function.cost(),
            ExprKind::Dictionary { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Member { .. }
            | ExprKind::Absent { .. }
            | ExprKind::Lookup { .. } => 4,
            ExprKind::InList { list, .. } => 1 + list.len().min(16) as u32,
            _ => 1,
        };
        self.children()
            .into_iter()
            .fold(own, |sum, child| sum.saturating_add(child.cost()))
    }
}
