//! Macros: `CREATE MACRO f(a, b := 2) AS a + b` and `CREATE MACRO f(a) AS TABLE SELECT ...`.
//!
//! A macro belongs to its session. A call is replaced by the macro's expression or query before the statement
//! is checked and planned, with the arguments in place of the parameters. A function of the session wins over
//! a macro, so a macro cannot have the name of one.

use super::ast_parts::key;
use super::lambdas;
use super::{SqlError, definitions, duckdb, flow_mut, macro_captures, parse};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MacroDefinition,
    ObjectName, Query, Select, SelectItem, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use galatea_base::stack::for_levels;
use galatea_engine::syntax::{visit_expressions, visit_expressions_mut, visit_mut};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The maximum length of all expansions of a statement, as SQL, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Levels of stack for an expansion beside the visit of the statement.
const SPARE: usize = 4;

/// The macros of a session.
#[derive(Debug, Default)]
pub(crate) struct Macros(Mutex<HashMap<String, Arc<Macro>>>);

#[derive(Debug)]
pub(super) struct Macro {
    /// The parameters, each with its default.
    parameters: Vec<(String, Option<Expr>)>,
    body: MacroDefinition,
}

impl Macros {
    fn get(&self, name: &str) -> Option<Arc<Macro>> {
        self.0.lock().get(name).cloned()
    }

    /// Whether a statement may call a macro.
    pub(super) fn may_be_called(&self, text: &str) -> bool {
        let macros = self.0.lock();
        if macros.is_empty() {
            return false;
        }
        let text = text.to_lowercase();
        macros.keys().any(|name| text.contains(&name.to_lowercase()))
    }
}

fn wrong(name: &str, problem: impl Into<String>) -> DataFusionError {
    let (name, problem) = (name.to_owned(), problem.into());
    SqlError::Macro { name, problem }.into()
}

/// A statement that changes the macros of a session.
#[derive(Debug)]
pub(super) enum MacroStatement {
    Create {
        name: String,
        or_replace: bool,
        definition: Box<Macro>,
    },
    Drop {
        name: String,
        if_exists: bool,
    },
}

/// The first words of a statement in capitals.
pub(super) fn words(text: &str, count: usize) -> Vec<String> {
    let words = text.split(|next: char| next.is_whitespace() || next == ';');
    let words = words.filter(|word| !word.is_empty()).take(count);
    words.map(str::to_ascii_uppercase).collect()
}

/// The change of a macro by a statement.
pub(super) enum Change {
    Create,
    Drop,
}

/// The change of a macro that a statement begins with; `None` for any other statement.
pub(super) fn change(text: &str) -> Option<Change> {
    let words = words(text, 5);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["DROP", "MACRO", ..] => Some(Change::Drop),
        ["CREATE", "MACRO", ..]
        | ["CREATE", "OR", "REPLACE", "MACRO", ..]
        | ["CREATE", "TEMP" | "TEMPORARY", "MACRO", ..]
        | ["CREATE", "OR", "REPLACE", "TEMP" | "TEMPORARY", "MACRO", ..] => Some(Change::Create),
        _ => None,
    }
}

impl MacroStatement {
    /// Parses CREATE MACRO and DROP MACRO; `None` for any other statement.
    ///
    /// # Errors
    /// The statement is one of these, and cannot be parsed.
    pub(super) fn read(text: &str, state: &SessionState) -> Result<Option<Self>> {
        match change(text) {
            Some(Change::Create) => Self::created(text, state).map(Some),
            Some(Change::Drop) => Self::dropped(text).map(Some),
            None => Ok(None),
        }
    }

    fn dropped(text: &str) -> Result<Self> {
        let words = words(text, 6);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (["DROP", "MACRO", "TABLE", rest @ ..] | ["DROP", "MACRO", rest @ ..]) = words.as_slice() else {
            return Err(wrong("", "cannot be parsed"));
        };
        let if_exists = rest.starts_with(&["IF", "EXISTS"]);
        let last = text.trim().trim_end_matches(';').trim_end();
        let last = last.rsplit(char::is_whitespace).next().unwrap_or_default();
        let (count, name) = (rest.len(), last.trim_matches('"'));
        if count != if if_exists { 3 } else { 1 } {
            return Err(wrong(
                name,
                "cannot be dropped so: write DROP MACRO [IF EXISTS] name",
            ));
        }
        let name = if last.starts_with('"') {
            name.to_owned()
        } else {
            name.to_lowercase()
        };
        Ok(Self::Drop { name, if_exists })
    }

    fn created(text: &str, state: &SessionState) -> Result<Self> {
        let dialect = state.config_options().sql_parser.dialect;
        let Statement::Statement(mut statement) = parse(text, dialect, state)? else {
            return Err(wrong("", "cannot be parsed"));
        };
        lambdas::distinguish(&mut statement);
        let ast::Statement::CreateMacro {
            or_replace,
            name,
            args,
            definition,
            ..
        } = *statement
        else {
            return Err(wrong("", "cannot be parsed"));
        };
        let Some(name) = simple(&name) else {
            return Err(wrong(
                &name.to_string(),
                "belongs to the session, so its name has no schema",
            ));
        };
        let mut parameters = Vec::new();
        for parameter in args.unwrap_or_default() {
            let parameter = (key(&parameter.name), parameter.default_expr);
            if parameters.iter().any(|(known, _)| *known == parameter.0) {
                return Err(wrong(
                    &name,
                    format!("has two parameters of the name {}", parameter.0),
                ));
            }
            parameters.push(parameter);
        }
        let is_function = state.udf(&name).is_ok()
            || state.udaf(&name).is_ok()
            || state.udwf(&name).is_ok()
            || state.higher_order_function(&name).is_ok()
            || state.table_functions().contains_key(&name)
            || duckdb::is_known(&name);
        if is_function {
            return Err(wrong(&name, "cannot have the name of a function"));
        }
        Ok(Self::Create {
            name,
            or_replace,
            definition: Box::new(Macro {
                parameters,
                body: definition,
            }),
        })
    }

    /// The name of the macro.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Create { name, .. } | Self::Drop { name, .. } => name,
        }
    }

    /// Whether the statement defines the macro.
    pub(super) fn creates(&self) -> bool {
        matches!(self, Self::Create { .. })
    }

    /// Executes the statement.
    ///
    /// # Errors
    /// The macro exists, does not exist, or calls itself.
    pub(super) fn execute(self, ctx: &SessionContext) -> Result<DataFrame> {
        let Some(macros) = ctx.copied_config().get_extension::<Macros>() else {
            return Err(wrong("", "needs a Galatea session"));
        };
        match self {
            Self::Create {
                name,
                or_replace,
                definition,
            } => {
                let mut known = macros.0.lock();
                if known.contains_key(&name) && !or_replace {
                    return Err(wrong(&name, "exists: write CREATE OR REPLACE MACRO"));
                }
                definitions::check(ctx, &known, "macros", &name)?;
                known.insert(name, Arc::from(definition));
            }
            Self::Drop { name, if_exists } => {
                if macros.0.lock().remove(&name).is_none() && !if_exists {
                    return Err(wrong(&name, "does not exist"));
                }
            }
        }
        ctx.read_empty()?.limit(0, Some(0))
    }
}

/// The key of a name without a schema.
fn simple(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(key),
        _ => None,
    }
}

/// Replaces the calls of macros in a statement.
///
/// # Errors
/// A call does not fit its macro, or a macro calls itself.
pub(super) fn expand(statement: &mut Statement, state: &SessionState) -> Result<()> {
    let Some(macros) = state.config().get_extension::<Macros>() else {
        return Ok(());
    };
    if macros.0.lock().is_empty() {
        return Ok(());
    }
    let mut visit = Expand {
        macros,
        state,
        open: Vec::new(),
        bytes: 0,
    };
    super::result(flow_mut(statement, &mut visit))
}

struct Expand<'s> {
    macros: Arc<Macros>,
    state: &'s SessionState,
    /// The macros that are being expanded.
    open: Vec<String>,
    bytes: usize,
}

impl Expand<'_> {
    /// The macro of a call of this name.
    fn called(&self, name: &ObjectName) -> Option<(String, Arc<Macro>)> {
        let name = simple(name)?;
        // The name may have been given to a function since.
        let is_function = self.state.udf(&name).is_ok()
            || self.state.udaf(&name).is_ok()
            || self.state.table_functions().contains_key(&name);
        let found = self.macros.get(&name).filter(|_| !is_function)?;
        Some((name, found))
    }

    fn calls_macro(&self, expression: &Expr) -> bool {
        let found = visit_expressions(expression, |part| match part {
            Expr::Function(call) if self.called(&call.name).is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// The parameters of a macro with their values for a call.
    fn values(name: &str, called: &Macro, arguments: &[FunctionArg]) -> Result<BTreeMap<String, Expr>> {
        let mut values = BTreeMap::new();
        let mut positions = called.parameters.iter();
        for argument in arguments {
            let (parameter, value) = match argument {
                FunctionArg::Unnamed(value) => match positions.next() {
                    Some((parameter, _)) => (parameter.clone(), value),
                    None => {
                        let problem = format!(
                            "has {} parameters, and the call has more arguments",
                            called.parameters.len()
                        );
                        return Err(wrong(name, problem));
                    }
                },
                FunctionArg::Named {
                    name: parameter, arg, ..
                } => (key(parameter), arg),
                FunctionArg::ExprNamed {
                    name: parameter, arg, ..
                } => (parameter.to_string().to_lowercase(), arg),
            };
            if !called.parameters.iter().any(|(known, _)| *known == parameter) {
                return Err(wrong(name, format!("has no parameter {parameter}")));
            }
            let FunctionArgExpr::Expr(value) = value else {
                return Err(wrong(name, "needs expressions as its arguments"));
            };
            if values.insert(parameter.clone(), value.clone()).is_some() {
                return Err(wrong(
                    name,
                    format!("has two values of its parameter {parameter}"),
                ));
            }
        }
        for (parameter, default) in &called.parameters {
            if let (None, Some(default)) = (values.get(parameter), default) {
                values.insert(parameter.clone(), default.clone());
            } else if !values.contains_key(parameter) {
                return Err(wrong(name, format!("needs a value of its parameter {parameter}")));
            }
        }
        Ok(values)
    }

    /// Checks that a macro does not call itself, and counts the length of its expansion.
    fn enter(&mut self, name: &str, expansion: &impl std::fmt::Display) -> Result<()> {
        if self.open.iter().any(|open| open == name) {
            let path = self
                .open
                .iter()
                .map(String::as_str)
                .chain([name])
                .collect::<Vec<_>>()
                .join(" -> ");
            return Err(wrong(name, format!("calls itself: {path}")));
        }
        self.bytes += expansion.to_string().len();
        if self.bytes > MAX_BYTES {
            return Err(wrong(
                name,
                format!("makes the statement longer than the limit of {MAX_BYTES} bytes"),
            ));
        }
        self.open.push(name.to_owned());
        Ok(())
    }

    fn scalar(&mut self, call: &Function) -> Result<Option<Expr>> {
        let Some((name, called)) = self.called(&call.name) else {
            return Ok(None);
        };
        let MacroDefinition::Expr(body) = &called.body else {
            return Err(wrong(&name, "is a table: write FROM before it"));
        };
        let arguments = match &call.args {
            FunctionArguments::List(list)
                if list.clauses.is_empty() && list.duplicate_treatment.is_none() =>
            {
                list.args.as_slice()
            }
            FunctionArguments::None => &[],
            _ => return Err(wrong(&name, "accepts no clauses in its arguments")),
        };
        if call.over.is_some()
            || call.filter.is_some()
            || call.null_treatment.is_some()
            || !call.within_group.is_empty()
        {
            return Err(wrong(
                &name,
                "accepts no OVER, FILTER, IGNORE NULLS or WITHIN GROUP",
            ));
        }
        let values = Self::values(&name, &called, arguments)?;
        let mut body = body.clone();
        check_captures(&name, &mut body, &values)?;
        replace(&mut body, &values);
        self.enter(&name, &body)?;
        super::result(visit_mut(&mut body, self))?;
        self.open.pop();
        Ok(Some(Expr::Nested(Box::new(body))))
    }

    fn table(&mut self, factor: &TableFactor) -> Result<Option<TableFactor>> {
        let TableFactor::Table {
            name,
            alias,
            args: Some(arguments),
            sample,
            ..
        } = factor
        else {
            return Ok(None);
        };
        let Some((name, called)) = self.called(name) else {
            return Ok(None);
        };
        let MacroDefinition::Table(body) = &called.body else {
            return Err(wrong(&name, "is an expression, and not a table"));
        };
        let values = Self::values(&name, &called, &arguments.args)?;
        let mut body: Query = (**body).clone();
        check_captures(&name, &mut body, &values)?;
        replace(&mut body, &values);
        self.enter(&name, &body)?;
        super::result(visit_mut(&mut body, self))?;
        self.open.pop();
        let own = || TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name.clone()),
            columns: Vec::new(),
            at: None,
        };
        Ok(Some(TableFactor::Derived {
            lateral: false,
            subquery: Box::new(body),
            alias: alias.clone().or_else(|| Some(own())),
            sample: sample.clone(),
        }))
    }
}

/// Refuses arguments with columns that the tables of a macro could capture.
fn check_captures(name: &str, body: &mut impl VisitMut, values: &BTreeMap<String, Expr>) -> Result<()> {
    match macro_captures::captured(body, values) {
        Some((parameter, column)) => {
            let problem = format!(
                "uses its parameter {parameter} in a query, whose tables may have the column {column}\n\
                 hint: qualify the column in the call by a table name that the macro does not use"
            );
            Err(wrong(name, problem))
        }
        None => Ok(()),
    }
}

/// Replaces the parameters in the body of a macro.
fn replace(body: &mut impl VisitMut, values: &BTreeMap<String, Expr>) {
    let _ = visit_expressions_mut(body, |part| {
        if let Expr::Identifier(name) = part
            && let Some(value) = values.get(&key(name))
        {
            *part = match value {
                Expr::Identifier(_) | Expr::Value(_) | Expr::Nested(_) => value.clone(),
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::<()>::Continue(())
    });
}

impl VisitorMut for Expand<'_> {
    type Break = DataFusionError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expression) = item
                && self.open.is_empty()
                && self.calls_macro(expression)
            {
                let alias = Ident::with_quote('"', expression.to_string());
                let expr = mem::replace(expression, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        let Expr::Function(call) = expression else {
            return ControlFlow::Continue(());
        };
        match for_levels(SPARE, || self.scalar(call)) {
            Ok(Some(expanded)) => *expression = expanded,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<DataFusionError> {
        match for_levels(SPARE, || self.table(factor)) {
            Ok(Some(expanded)) => *factor = expanded,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
