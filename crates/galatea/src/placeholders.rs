//! Placeholders of statements, `?` and `$1` by position and `$name` by name, and the values for them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::Dialect;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{self, Expr, LogicalPlan};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::sql::statement;
use crate::sql_names::sql_name;

/// Placeholders that do not fit their values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceholderError {
    /// Values in a list for placeholders with names.
    #[error("a statement with named placeholders needs a dictionary of values")]
    Named,
    /// Values with names for placeholders without.
    #[error("a statement with placeholders ? needs a list of values, not a dictionary")]
    Unnamed,
    /// Both forms of positions.
    #[error("a statement has either placeholders ? or placeholders $1, $2, ..., not both")]
    Mixed,
    /// Another number of values.
    #[error("the statement has {}, the list {}", plural(*.placeholders, "placeholder"), plural(*.values, "value"))]
    Count {
        /// The number of placeholders.
        placeholders: usize,
        /// The number of values.
        values: usize,
    },
    /// A placeholder without a value.
    #[error("no value for the placeholder ${name}")]
    Missing {
        /// The name of the placeholder.
        name: String,
    },
    /// A value without a placeholder.
    #[error("the statement has no placeholder ${name}")]
    Unused {
        /// The name of the value.
        name: String,
    },
}

impl From<PlaceholderError> for DataFusionError {
    fn from(error: PlaceholderError) -> Self {
        Self::Plan(error.to_string())
    }
}

fn plural(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// A statement with numbered placeholders, and their values.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundStatement<'s> {
    /// The SQL. Its placeholders are `$1`, `$2`, and so on.
    pub text: Cow<'s, str>,
    /// The values in the order of the numbers.
    pub values: Vec<ScalarValue>,
}

impl BoundStatement<'_> {
    /// The logical plan, with the values in place of the placeholders. [`execute`](crate::execute()) executes
    /// it.
    ///
    /// # Errors
    /// Those of [`statement`] and of DataFusion's planning.
    pub async fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let parsed = statement(&self.text, state).await?;
        match self.values.as_slice() {
            [] => state.statement_to_plan(parsed).await,
            values => {
                let plan = with_types(parsed, values, state).await?;
                let values = converted(&plan, values)?;
                plan.with_param_values(values)
            }
        }
    }
}

/// Plans a statement with the types of the values of its placeholders, as PREPARE does: the planner infers
/// types of placeholders for a few operators only.
async fn with_types(parsed: Parsed, values: &[ScalarValue], state: &SessionState) -> Result<LogicalPlan> {
    let Parsed::Statement(parsed) = parsed else {
        return state.statement_to_plan(parsed).await;
    };
    let types: Vec<String> = values.iter().map(|value| sql_name(&value.data_type())).collect();
    let prepare = format!("PREPARE parameters ({}) AS SELECT 1", types.join(", "));
    let Ok(mut prepare) = state.sql_to_statement(&prepare, &Dialect::Generic) else {
        // A type without a name in SQL, such as a duration.
        return state.statement_to_plan(Parsed::Statement(parsed)).await;
    };
    if let Parsed::Statement(prepare) = &mut prepare
        && let ast::Statement::Prepare { statement, .. } = prepare.as_mut()
    {
        *statement = parsed;
    }
    Ok(match state.statement_to_plan(prepare).await? {
        LogicalPlan::Statement(logical_expr::Statement::Prepare(prepare)) => {
            std::sync::Arc::unwrap_or_clone(prepare.input)
        }
        plan => plan,
    })
}

/// The values of an INSERT in the types of its columns, which are those of the placeholders in its VALUES.
/// Other statements take values of any type.
fn converted(plan: &LogicalPlan, values: &[ScalarValue]) -> Result<Vec<ScalarValue>> {
    if !matches!(plan, LogicalPlan::Dml(_)) {
        return Ok(values.to_vec());
    }
    let types = plan.get_parameter_types()?;
    let values = values.iter().zip(1..).map(|(value, number)| {
        match types.get(&format!("${number}")).and_then(Option::as_ref) {
            Some(wanted) if *wanted != value.data_type() => value.cast_to(wanted),
            _ => Ok(value.clone()),
        }
    });
    values.collect()
}

/// The types of the placeholders of a plan, by name with the `$`; `None` for a type that the plan does not
/// determine.
///
/// # Errors
/// DataFusion's, if one placeholder has two types.
pub fn parameter_types(plan: &LogicalPlan) -> Result<BTreeMap<String, Option<DataType>>> {
    let mut types: BTreeMap<_, _> = plan.get_parameter_types()?.into_iter().collect();
    // A cast determines the type of its parameter.
    let _ = plan.apply_with_subqueries(|node| {
        for expression in node.expressions() {
            let _ = expression.apply(|part| {
                if let Expr::Cast(cast) = part
                    && let Expr::Placeholder(placeholder) = cast.expr.as_ref()
                {
                    let known = types.entry(placeholder.id.clone()).or_insert(None);
                    known.get_or_insert_with(|| cast.field.data_type().clone());
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    Ok(types)
}

/// A placeholder of a statement.
#[derive(Debug)]
struct Placeholder {
    start: Location,
    /// Its number of characters.
    length: usize,
    /// The name after `$`, which may be a number; the number of a `?` among all of them.
    name: String,
}

/// The placeholders of a statement, in order.
///
/// ```
/// use std::collections::HashMap;
/// use datafusion::{config::Dialect, scalar::ScalarValue};
/// use galatea::Placeholders;
///
/// let text = "SELECT ? + 1, '?'";
/// let placeholders = Placeholders::of(text, Dialect::Generic);
/// placeholders.check_count(1)?;
/// let values = HashMap::from([("1".to_string(), ScalarValue::from(41))]);
/// assert_eq!(placeholders.numbered(text, &values).text, "SELECT $1 + 1, '?'");
/// # Ok::<(), galatea::PlaceholderError>(())
/// ```
#[derive(Debug, Default)]
pub struct Placeholders {
    found: Vec<Placeholder>,
    /// The number of those that are `?`.
    questions: usize,
}

impl Placeholders {
    /// Those of a statement; none if it has no tokens, which is reported when it is parsed.
    pub fn of(statement: &str, dialect: Dialect) -> Self {
        let mut placeholders = Self::default();
        let Some(dialect) = dialect_from_str(dialect) else {
            return placeholders;
        };
        let tokens = Tokenizer::new(dialect.as_ref(), statement).tokenize_with_location();
        for token in tokens.unwrap_or_default() {
            let text = match &token.token {
                Token::Placeholder(text) => text.as_str(),
                Token::Question => "?",
                _ => continue,
            };
            let name = match text {
                "?" => {
                    placeholders.questions += 1;
                    placeholders.questions.to_string()
                }
                text => text.trim_start_matches('$').to_string(),
            };
            placeholders.found.push(Placeholder {
                start: token.span.start,
                length: text.chars().count(),
                name,
            });
        }
        placeholders
    }

    /// Whether the statement has none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether the placeholders have names, not positions.
    pub fn is_named(&self) -> bool {
        self.found
            .iter()
            .any(|found| found.name.parse::<usize>().is_err())
    }

    /// The names in the order of their first use: numbers for placeholders by position.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for found in &self.found {
            if !names.contains(&found.name.as_str()) {
                names.push(&found.name);
            }
        }
        names
    }

    /// The number of values that placeholders by position need.
    ///
    /// # Errors
    /// [`PlaceholderError::Named`], [`PlaceholderError::Mixed`].
    pub fn count(&self) -> Result<usize, PlaceholderError> {
        let numbers = self.found.iter().map(|found| found.name.parse::<usize>());
        let Ok(numbers) = numbers.collect::<Result<Vec<_>, _>>() else {
            return Err(PlaceholderError::Named);
        };
        if !(self.questions == 0 || self.questions == numbers.len()) {
            return Err(PlaceholderError::Mixed);
        }
        Ok(numbers.into_iter().max().unwrap_or(0))
    }

    /// Checks the number of values in a list.
    ///
    /// # Errors
    /// [`PlaceholderError`].
    pub fn check_count(&self, values: usize) -> Result<(), PlaceholderError> {
        let placeholders = self.count()?;
        let has_zero = self.found.iter().any(|found| found.name.parse() == Ok(0_usize));
        match placeholders == values && !has_zero {
            true => Ok(()),
            false => Err(PlaceholderError::Count { placeholders, values }),
        }
    }

    /// Checks the names of values.
    ///
    /// # Errors
    /// [`PlaceholderError`].
    pub fn check_names<V>(&self, values: &HashMap<String, V>) -> Result<(), PlaceholderError> {
        if self.questions > 0 {
            return Err(PlaceholderError::Unnamed);
        }
        let wanted: BTreeSet<&String> = self.found.iter().map(|found| &found.name).collect();
        if let Some(name) = wanted.iter().find(|name| !values.contains_key(**name)) {
            let name = (*name).clone();
            return Err(PlaceholderError::Missing { name });
        }
        if let Some(name) = values.keys().find(|name| !wanted.contains(name)) {
            let name = name.clone();
            return Err(PlaceholderError::Unused { name });
        }
        Ok(())
    }

    /// The statement with numbers as placeholders, and the values in the order of the numbers. `named` has a
    /// value for each placeholder. A NULL without a type becomes `NULL` in the SQL.
    pub fn numbered<'s>(
        &self,
        statement: &'s str,
        named: &HashMap<String, ScalarValue>,
    ) -> BoundStatement<'s> {
        if self.found.is_empty() {
            return BoundStatement {
                text: Cow::Borrowed(statement),
                values: Vec::new(),
            };
        }
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut values = Vec::new();
        let text = self.replaced(statement, |name| match named.get(name) {
            Some(value) if value.data_type() != DataType::Null => {
                let number = numbers.entry(name).or_insert_with(|| {
                    values.push(value.clone());
                    values.len()
                });
                format!("${number}")
            }
            _ => "NULL".to_owned(),
        });
        BoundStatement {
            text: Cow::Owned(text),
            values,
        }
    }

    /// The statement with `$1`, `$2` and so on as placeholders: it can be planned without values.
    /// Placeholders with names get numbers in the order of [`names`](Self::names).
    pub fn positional<'s>(&self, statement: &'s str) -> Cow<'s, str> {
        if !self.is_named() && self.questions == 0 {
            return Cow::Borrowed(statement);
        }
        let names = self.names();
        let is_named = self.is_named();
        Cow::Owned(self.replaced(statement, |name| match is_named {
            true => {
                let place = names.iter().position(|known| *known == name);
                format!("${}", place.map_or(0, |place| place + 1))
            }
            false => format!("${name}"),
        }))
    }

    /// The statement with a replacement of each placeholder.
    fn replaced<'p>(&'p self, statement: &str, mut replacement: impl FnMut(&'p str) -> String) -> String {
        let mut found = self.found.iter().peekable();
        let mut text = String::with_capacity(statement.len() + 8);
        let (mut line, mut column, mut skipped) = (1, 1, 0);
        for letter in statement.chars() {
            let here = Location { line, column };
            if let Some(placeholder) = found.next_if(|next| next.start == here) {
                skipped = placeholder.length;
                text += &replacement(&placeholder.name);
            }
            match skipped {
                0 => text.push(letter),
                _ => skipped -= 1,
            }
            (line, column) = match letter {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            };
        }
        text
    }
}
