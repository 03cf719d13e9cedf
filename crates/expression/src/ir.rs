//! The intermediate representation: typed, immutable trees with DataFusion's semantics.
//!
//! [`lower`](super::lower) creates them from physical expressions during planning, without data. They are
//! cheap to clone (shared nodes) and comparable, which is how the emitter finds common subexpressions. A node
//! contains the operation, not its implementation: the emitter, which has the encodings, decides whether an
//! integer needs 32 or 128 bits, or whether a string predicate becomes a table.

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
use super::string::is_string;
use galatea_base::reason::Reason;
use galatea_base::stack::growing;

/// A typed expression over the columns of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr(Arc<Node>);

#[derive(Debug, Clone)]
struct Node {
    /// Hash of the whole tree, so that an expression is found among others without traversing it.
    hash: u64,
    /// Number of nodes on the longest path to a leaf.
    depth: u32,
    kind: ExprKind,
    data_type: DataType,
    nullable: bool,
    origin: Option<Origin>,
}

impl PartialEq for Node {
    /// Origins are ignored.
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

/// Maximum depth of an expression on the device. Some passes over expressions recurse, and the generated code
/// grows with the depth.
pub const MAX_DEPTH: u32 = 400;

/// The operation of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExprKind {
    /// Column of the input.
    Column(usize),
    /// A constant, possibly NULL.
    Literal(ScalarValue),
    /// A constant that is available only when the query runs.
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
    /// Bitwise arithmetic.
    Bitwise {
        /// The operator.
        operator: Bitwise,
        /// Left operand.
        left: Expr,
        /// Right operand.
        right: Expr,
    },
    /// A comparison of two values of the same type.
    Compare {
        /// The operator.
        operator: Comparison,
        /// Left operand.
        left: Expr,
        /// Right operand.
        right: Expr,
        /// Whether -0.0 equals 0.0; otherwise floats are compared by IEEE 754 totalOrder.
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
        /// Result if no condition is true; NULL if absent.
        otherwise: Option<Expr>,
    },
    /// Membership in a list of constants.
    InList {
        /// The value to search for.
        value: Expr,
        /// The constants, without NULL.
        list: Vec<ScalarValue>,
        /// Whether the list also contains NULL; the result is then NULL if the value is not found.
        list_has_null: bool,
        /// `NOT IN`.
        negated: bool,
    },
    /// Conversion to the type of this node.
    Cast {
        /// The value to convert.
        input: Expr,
        /// Whether a value that does not fit becomes NULL (TRY_CAST) rather than an error.
        safe: bool,
    },
    /// A function with device code.
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
        /// The same expression as device code, for strings that are not dictionary encoded.
        native: Option<Expr>,
    },
    /// A string computed from several values or from numbers; DataFusion may evaluate it when it is returned.
    Hosted {
        /// The function.
        function: Arc<HostFunction>,
        /// Its arguments.
        arguments: Vec<Expr>,
        /// The same expression as device code.
        native: Expr,
    },
    /// A string of a table that is only returned. If it has no dictionary, it is represented by its row
    /// number, and the host gathers it.
    LateMaterialised(Expr),
    /// The row number. Pipelines over groups read the groups by it.
    RowNumber,
    /// The number of the row in its table, counted from 0.
    TableRow,
    /// Several values that form a key.
    Tuple(Vec<Expr>),
    /// Whether a build side has a row with this key; false for NULL.
    Member {
        /// Number of the [`LookupSide`](super::LookupSide).
        build_side: usize,
        /// The key to look up.
        key: Expr,
    },
    /// `NOT IN`: whether it is certain that a build side has no row with this key. It is uncertain if the
    /// build side has a NULL key or if the key is NULL. Never NULL: an uncertain row is dropped.
    Absent {
        /// Number of the [`LookupSide`](super::LookupSide), which must have its rows on the host.
        build_side: usize,
        /// The key to look up.
        key: Expr,
    },
    /// A column of the build-side row with this key; undefined if [`ExprKind::Member`] is false.
    Lookup {
        /// Number of the [`LookupSide`](super::LookupSide).
        build_side: usize,
        /// Index of the column in the build side's plan.
        column: usize,
        /// Name of the column.
        name: String,
        /// Whether it is a computed string without a dictionary.
        made: bool,
        /// The key to look up.
        key: Expr,
    },
}

/// Refuses an expression with more levels than [`MAX_DEPTH`].
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
    /// Number of nodes on the longest path from an operand to a leaf, including the `native` form.
    fn depth_below(&self) -> u32 {
        let native = match self {
            Self::Dictionary { native, .. } => native.as_ref().map_or(0, Expr::depth),
            _ => 0,
        };
        let operands = self.children().into_iter().map(Expr::depth);
        operands.fold(native, u32::max)
    }

    /// The operands. The `native` form of [`ExprKind::Dictionary`] is not an operand, since it computes the
    /// same.
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
            | Self::LateMaterialised(input)
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
    /// An expression of this type.
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

    /// This expression with its origin, a DataFusion expression.
    #[must_use]
    pub fn with_origin(mut self, origin: Option<Origin>) -> Self {
        if origin.is_some() {
            Arc::make_mut(&mut self.0).origin = origin;
        }
        self
    }

    /// The DataFusion expression that it was lowered from, if it may raise an error.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
    }

    /// The expression or subexpression that equals `other` and has an origin.
    pub(crate) fn part_equal_to(&self, other: &Self) -> Option<&Self> {
        growing(|| {
            if self == other && self.origin().is_some() {
                return Some(self);
            }
            let native = match self.kind() {
                ExprKind::Dictionary { native, .. } => native.as_ref(),
                _ => None,
            };
            // Subtrees are shared, so searching all of them would take exponential time.
            if self.depth() <= other.depth() && native.is_none() {
                return None;
            }
            let mut parts = self.children().into_iter().chain(native);
            parts.find_map(|part| part.part_equal_to(other))
        })
    }

    /// Number of nodes on the longest path from the root to a leaf.
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

    /// The operands of the conjunction, left to right; a single condition is its own conjunction.
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

    /// The operation of the root.
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

    /// The constant, if this is a literal.
    #[must_use]
    pub fn as_literal(&self) -> Option<&ScalarValue> {
        match self.kind() {
            ExprKind::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// The column number, if this is a column.
    #[must_use]
    pub fn as_column(&self) -> Option<usize> {
        match self.kind() {
            ExprKind::Column(index) => Some(*index),
            _ => None,
        }
    }

    /// The operands. The `native` form of [`ExprKind::Dictionary`] is not an operand, since it computes the
    /// same.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        self.kind().children()
    }

    /// The columns that the result depends on.
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

    /// The constants that are kernel parameters. Values of lists are excluded, since they may be in tables.
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

    /// The columns of build sides that are looked up, with their types, by build side and by index in its
    /// plan.
    #[must_use]
    pub fn lookups(&self) -> BTreeMap<(usize, usize), DataType> {
        let mut all: BTreeMap<_, _> = self.children().into_iter().flat_map(Self::lookups).collect();
        if let ExprKind::Lookup {
            build_side, column, ..
        } = self.kind()
        {
            all.insert((*build_side, *column), self.data_type().clone());
        }
        all
    }

    /// The string columns that must be dictionary encoded for the expression to be emitted. A bare column is
    /// not one of them.
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
            } => argument.collect_string_columns(columns),
            ExprKind::Dictionary {
                native: Some(native), ..
            } => native.collect_dictionary_columns(columns),
            // Keys are translated by their dictionary; each payload has its own.
            ExprKind::Member { key, .. } | ExprKind::Absent { key, .. } | ExprKind::Lookup { key, .. }
                if is_string(key.data_type()) && !key.parts().iter().any(Self::is_made) =>
            {
                key.collect_string_columns(columns);
                key.collect_dictionary_columns(columns);
            }
            // Branches with different dictionaries are merged into one dictionary, which is not possible for
            // bytes in memory.
            ExprKind::Case { branches, otherwise } if is_string(self.data_type()) => {
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

    fn collect_string_columns(&self, columns: &mut BTreeSet<usize>) {
        columns.extend(self.as_column().filter(|_| is_string(self.data_type())));
        for child in self.children() {
            child.collect_string_columns(columns);
        }
    }

    /// Hashes the expression without the values of its constants, so queries that differ only in constants
    /// share a hash.
    pub fn hash_shape(&self, state: &mut impl Hasher) {
        std::mem::discriminant(self.kind()).hash(state);
        self.data_type().hash(state);
        match self.kind() {
            ExprKind::Column(index) => index.hash(state),
            ExprKind::Arithmetic { operator, .. } => operator.hash(state),
            ExprKind::Bitwise { operator, .. } => operator.hash(state),
            ExprKind::Compare { operator, .. } => operator.hash(state),
            ExprKind::Call { function, .. } => function.hash(state),
            ExprKind::Member { build_side, .. } | ExprKind::Absent { build_side, .. } => {
                build_side.hash(state);
            }
            ExprKind::Lookup {
                build_side, column, ..
            } => (build_side, column).hash(state),
            _ => {}
        }
        for child in self.children() {
            child.hash_shape(state);
        }
    }

    /// Approximate number of instructions per row.
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
