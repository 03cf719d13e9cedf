//! The intermediate representation: typed, immutable trees with DataFusion's semantics.
//!
//! [`lower`](super::lower) makes them from physical expressions while planning, without data. They are cheap
//! to clone (shared nodes) and comparable, which is how the emitter finds common subexpressions. A node says
//! what is computed, never how: whether an integer needs 32 or 128 bits, or a string predicate becomes a
//! table, is decided by the emitter, which knows the encodings.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, ScalarValue};

use super::dictionary::HostFunction;
use super::function::Function;
use super::operator::{Arithmetic, Bitwise, Comparison};
use super::pending::PendingScalar;

/// A typed expression over the columns of one input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expr(Arc<Node>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Node {
    kind: ExprKind,
    data_type: DataType,
    nullable: bool,
}

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
    /// The number of the row, by which groups are read that are a pipeline's rows.
    RowNumber,
    /// Several values that are a key together.
    Tuple(Vec<Expr>),
    /// Whether a dimension has a row of that key; false for NULL.
    Member {
        /// Number of the [`Dimension`](super::Dimension).
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
        /// The key looked for.
        key: Expr,
    },
}

/// Whether values of this type are strings of bytes on the device.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Whether values of this type are UTF-8 strings.
pub(crate) fn is_utf8(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_utf8(values),
        _ => false,
    }
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, data_type: DataType, nullable: bool) -> Self {
        Self(Arc::new(Node {
            kind,
            data_type,
            nullable,
        }))
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

    /// Three-valued negation.
    pub(crate) fn negated(&self) -> Self {
        Self::new(ExprKind::Not(self.clone()), DataType::Boolean, self.nullable())
    }

    /// The key of these parts; of one part itself. Its type is the first part's.
    pub(crate) fn tuple(mut parts: Vec<Self>) -> Option<Self> {
        if parts.len() < 2 {
            return parts.pop();
        }
        let nullable = parts.iter().any(Self::nullable);
        let data_type = parts[0].data_type().clone();
        Some(Self::new(ExprKind::Tuple(parts), data_type, nullable))
    }

    /// The parts of a key.
    pub(crate) fn parts(&self) -> &[Self] {
        match self.kind() {
            ExprKind::Tuple(parts) => parts,
            _ => std::slice::from_ref(self),
        }
    }

    /// Whether one of the conditions is true; `None` if there are none.
    pub(crate) fn any(conditions: impl IntoIterator<Item = Self>) -> Option<Self> {
        conditions.into_iter().reduce(|left, right| {
            let nullable = left.nullable() || right.nullable();
            Self::new(ExprKind::Or(left, right), DataType::Boolean, nullable)
        })
    }

    /// Whether the condition is false or NULL.
    pub(crate) fn not_true(condition: Self) -> Self {
        let constant = |value| Self::literal(ScalarValue::Boolean(Some(value)));
        let kind = ExprKind::Case {
            branches: vec![(condition, constant(false))],
            otherwise: Some(constant(true)),
        };
        Self::new(kind, DataType::Boolean, false)
    }

    /// The value where the condition is true, else the other one of its type.
    pub(crate) fn either(condition: Self, value: Self, otherwise: Self) -> Self {
        let (data_type, nullable) = (
            value.data_type().clone(),
            value.nullable() || otherwise.nullable(),
        );
        let kind = ExprKind::Case {
            branches: vec![(condition, value)],
            otherwise: Some(otherwise),
        };
        Self::new(kind, data_type, nullable)
    }

    /// The value where the condition is true, else NULL.
    pub(crate) fn only_where(condition: Self, value: Self) -> Self {
        let data_type = value.data_type().clone();
        let kind = ExprKind::Case {
            branches: vec![(condition, value)],
            otherwise: None,
        };
        Self::new(kind, data_type, true)
    }

    /// Whether two values of one type are equal.
    pub(crate) fn equal(left: Self, right: Self) -> Self {
        let nullable = left.nullable() || right.nullable();
        let kind = ExprKind::Compare {
            operator: Comparison::Equal,
            left,
            right,
            equal_zeros: true,
        };
        Self::new(kind, DataType::Boolean, nullable)
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> Self {
        Self::new(ExprKind::IsNull(self.clone()), DataType::Boolean, false)
    }

    /// The number of the row.
    pub(crate) fn row_number() -> Self {
        Self::new(ExprKind::RowNumber, DataType::UInt32, false)
    }

    /// Whether dimension `dimension` has a row of that key.
    pub(crate) fn member(dimension: usize, key: Self) -> Self {
        Self::new(ExprKind::Member { dimension, key }, DataType::Boolean, false)
    }

    /// Column `column`, which `field` describes, of the row of dimension `dimension` that has the key.
    pub(crate) fn lookup(dimension: usize, column: usize, field: &Field, key: Self) -> Self {
        let kind = ExprKind::Lookup {
            dimension,
            column,
            name: field.name().clone(),
            key,
        };
        Self::new(kind, field.data_type().clone(), field.is_nullable())
    }

    /// The conjunction of conditions; `None` if there are none.
    pub fn all(conditions: impl IntoIterator<Item = Self>) -> Option<Self> {
        conditions.into_iter().reduce(|left, right| {
            let nullable = left.nullable() || right.nullable();
            Self::new(ExprKind::And(left, right), DataType::Boolean, nullable)
        })
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
        match self.kind() {
            ExprKind::Column(_) | ExprKind::Literal(_) | ExprKind::Pending(_) | ExprKind::RowNumber => {
                vec![]
            }
            ExprKind::Arithmetic { left, right, .. }
            | ExprKind::Bitwise { left, right, .. }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::And(left, right)
            | ExprKind::Or(left, right) => vec![left, right],
            ExprKind::Not(input)
            | ExprKind::IsNull(input)
            | ExprKind::Negate(input)
            | ExprKind::InList { value: input, .. }
            | ExprKind::Cast { input, .. }
            | ExprKind::Dictionary { argument: input, .. }
            | ExprKind::Member { key: input, .. }
            | ExprKind::Lookup { key: input, .. } => vec![input],
            ExprKind::Case { branches, otherwise } => branches
                .iter()
                .flat_map(|(when, then)| [when, then])
                .chain(otherwise.iter())
                .collect(),
            ExprKind::Call { arguments, .. } | ExprKind::Tuple(arguments) => arguments.iter().collect(),
        }
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
            ExprKind::Member { key, .. } | ExprKind::Lookup { key, .. } if is_text(key.data_type()) => {
                key.collect_text_columns(columns);
                key.collect_dictionary_columns(columns);
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

    /// The same expression with column `i` called `map(i)`.
    #[must_use]
    pub fn remap_columns(&self, map: &dyn Fn(usize) -> usize) -> Self {
        self.replace_leaves(&|column| match column.kind() {
            ExprKind::Column(index) => {
                Self::column(map(*index), column.data_type().clone(), column.nullable())
            }
            _ => column.clone(),
        })
    }

    /// Inlines a projection under the expression: column `i` becomes `exprs[i]`.
    ///
    /// # Panics
    /// If a column has no expression: the expression was not made over that projection's schema.
    #[must_use]
    pub fn substitute(&self, exprs: &[Self]) -> Self {
        self.replace_leaves(&|column| {
            column
                .as_column()
                .map_or_else(|| column.clone(), |index| exprs[index].clone())
        })
    }

    /// The same with constants in place of what subqueries have returned by now.
    ///
    /// # Errors
    /// DataFusion's, if a subquery has not run.
    pub(crate) fn resolved(&self) -> Result<Self, DataFusionError> {
        let failed = RefCell::new(None);
        let resolved = self.replace_leaves(&|leaf| match leaf.kind() {
            ExprKind::Pending(pending) => match pending.value() {
                Ok(value) => Self::new(ExprKind::Literal(value), leaf.data_type().clone(), true),
                Err(error) => {
                    *failed.borrow_mut() = Some(error);
                    leaf.clone()
                }
            },
            _ => leaf.clone(),
        });
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(resolved),
        }
    }

    /// Rebuilds the tree with each column and each pending constant replaced.
    fn replace_leaves(&self, replace: &dyn Fn(&Self) -> Self) -> Self {
        let go = |child: &Self| child.replace_leaves(replace);
        let kind = match self.kind() {
            ExprKind::Column(_) | ExprKind::Pending(_) => return replace(self),
            ExprKind::Literal(_) | ExprKind::RowNumber => return self.clone(),
            ExprKind::Arithmetic {
                operator,
                left,
                right,
                checked,
            } => ExprKind::Arithmetic {
                operator: *operator,
                left: go(left),
                right: go(right),
                checked: *checked,
            },
            ExprKind::Bitwise {
                operator,
                left,
                right,
            } => ExprKind::Bitwise {
                operator: *operator,
                left: go(left),
                right: go(right),
            },
            ExprKind::Compare {
                operator,
                left,
                right,
                equal_zeros,
            } => ExprKind::Compare {
                operator: *operator,
                left: go(left),
                right: go(right),
                equal_zeros: *equal_zeros,
            },
            ExprKind::And(left, right) => ExprKind::And(go(left), go(right)),
            ExprKind::Or(left, right) => ExprKind::Or(go(left), go(right)),
            ExprKind::Not(input) => ExprKind::Not(go(input)),
            ExprKind::IsNull(input) => ExprKind::IsNull(go(input)),
            ExprKind::Negate(input) => ExprKind::Negate(go(input)),
            ExprKind::Case { branches, otherwise } => ExprKind::Case {
                branches: branches.iter().map(|(when, then)| (go(when), go(then))).collect(),
                otherwise: otherwise.as_ref().map(go),
            },
            ExprKind::InList {
                value,
                list,
                list_has_null,
                negated,
            } => ExprKind::InList {
                value: go(value),
                list: list.clone(),
                list_has_null: *list_has_null,
                negated: *negated,
            },
            ExprKind::Cast { input, safe } => ExprKind::Cast {
                input: go(input),
                safe: *safe,
            },
            ExprKind::Call { function, arguments } => ExprKind::Call {
                function: function.clone(),
                arguments: arguments.iter().map(go).collect(),
            },
            ExprKind::Dictionary {
                function,
                argument,
                native,
            } => ExprKind::Dictionary {
                function: Arc::clone(function),
                argument: go(argument),
                native: native.as_ref().map(go),
            },
            ExprKind::Tuple(parts) => ExprKind::Tuple(parts.iter().map(go).collect()),
            ExprKind::Member { dimension, key } => ExprKind::Member {
                dimension: *dimension,
                key: go(key),
            },
            ExprKind::Lookup {
                dimension,
                column,
                name,
                key,
            } => ExprKind::Lookup {
                dimension: *dimension,
                column: *column,
                name: name.clone(),
                key: go(key),
            },
        };
        Self::new(kind, self.data_type().clone(), self.nullable())
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
            ExprKind::Member { dimension, .. } => dimension.hash(state),
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
            | ExprKind::Lookup { .. } => 4,
            ExprKind::InList { list, .. } => 1 + list.len().min(16) as u32,
            _ => 1,
        };
        self.children()
            .into_iter()
            .fold(own, |sum, child| sum.saturating_add(child.cost()))
    }
}
