//! Names of output columns, which DataFusion requires to be different unless tables distinguish them.
//!
//! As in DuckDB, a further column of the name `a` is `a_1`, then `a_2`: `SELECT a, b AS a, * FROM t`. Tables
//! distinguish columns of the outermost query only: `(SELECT * FROM t, u) AS q`, views and tables have `a`
//! and `a_1`.
//! Expressions that the planner would give one name, such as `sum(a)` and `sum(CAST(a AS DOUBLE))`, are named
//! as the query spells them.

use super::ast_parts::{key, spelled};
use super::expression_keys::{Ignored, expression_key};
use super::question::{Answer, Question, query_over};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind, Value,
};
use std::collections::HashSet;
use std::mem;

/// The columns of the wildcards of a SELECT, if one of them may have the name of another column. `outer`:
/// whether tables distinguish its columns.
pub(super) fn question(select: &Select, outer: bool) -> Option<Question> {
    let wildcards = select.projection.iter().filter(|item| is_wildcard(item));
    let count = wildcards.clone().count();
    let has_names = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) => path(expr).is_some(),
        SelectItem::ExprWithAlias { .. } => true,
        _ => false,
    });
    let joins = select.from.len() > 1 || select.from.iter().any(|table| !table.joins.is_empty());
    (count > 1 || count == 1 && (has_names || joins && !outer)).then(|| {
        let tables = wildcards.map(|item| query_over(vec![item.clone()], select.from.clone()));
        Question::Tables(tables.collect())
    })
}

/// Gives the columns of a SELECT different names, those of its wildcards included.
pub(super) fn rewrite(select: &mut Select, outer: bool, answer: Answer, state: &SessionState) {
    if let Answer::Tables(Some(wildcards)) = answer {
        let wildcards = wildcards.into_iter().map(|columns| {
            let columns = columns.into_iter().map(|(_, column)| column);
            columns.collect()
        });
        separate(select, outer, wildcards.collect(), state);
    }
}

/// Gives the columns of a SELECT different names. `wildcards`: the columns of each wildcard, or nothing.
pub(super) fn separate(select: &mut Select, outer: bool, wildcards: Vec<Vec<Expr>>, state: &SessionState) {
    if select.projection.len() + wildcards.len() < 2 {
        return;
    }
    let mut wildcards = wildcards.into_iter();
    let mut outputs = Outputs {
        known: Vec::new(),
        taken: HashSet::new(),
        names: HashSet::new(),
        outer,
        state,
    };
    for item in mem::take(&mut select.projection) {
        match is_wildcard(&item).then(|| wildcards.next()).flatten() {
            Some(columns) => outputs.wildcard(item, columns),
            None => outputs.push(item),
        }
    }
    select.projection = outputs.named();
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Whether a wildcard is the same as a list of columns of tables.
fn lists_columns(item: &SelectItem) -> bool {
    let options = match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), options)
        | SelectItem::Wildcard(options) => options,
        _ => return false,
    };
    options.opt_replace.is_none() && options.opt_rename.is_none() && options.opt_alias.is_none()
}

/// The table and the name of a column.
fn path(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Identifier(name) => Some(vec![key(name)]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(key).collect()),
        Expr::Nested(inner) => path(inner),
        Expr::Cast { expr, .. } => path(expr),
        _ => None,
    }
}

/// The name that the planner gives to a column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// A column of a table, also if it is cast.
    Column(Vec<String>),
    Given(String),
    Computed(String),
    /// An unknown name, or a wildcard.
    Other,
}

impl Name {
    fn of(item: &SelectItem, state: &SessionState) -> Self {
        match item {
            SelectItem::UnnamedExpr(expr) => match path(expr) {
                Some(path) => Self::Column(path),
                None => Self::Computed(expression_key(expr, Ignored::Unnamed, state)),
            },
            SelectItem::ExprWithAlias { expr, alias } => match path(expr) {
                // The name of a column renames nothing.
                Some(path) if is_column(expr) && path.last() == Some(&key(alias)) => Self::Column(path),
                _ => Self::Given(key(alias)),
            },
            _ => Self::Other,
        }
    }

    fn last(&self) -> Option<&String> {
        match self {
            Self::Column(path) => path.last(),
            Self::Given(name) => Some(name),
            Self::Computed(_) | Self::Other => None,
        }
    }

    /// A string that clashing names share.
    fn string(&self) -> Option<&String> {
        match self {
            Self::Computed(key) => Some(key),
            name => name.last(),
        }
    }

    /// Whether the planner refuses both beside each other. If `qualified`, tables distinguish columns.
    fn clashes(&self, other: &Self, qualified: bool) -> bool {
        match (self, other) {
            (Self::Column(left), Self::Column(right)) if qualified => {
                left.ends_with(right) || right.ends_with(left)
            }
            (Self::Computed(left), Self::Computed(right)) => left == right,
            _ => self.last().is_some() && self.last() == other.last(),
        }
    }
}

pub(super) fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// The columns so far.
struct Outputs<'s> {
    known: Vec<(SelectItem, Name, Vec<Name>)>,
    /// Names that no further column may get.
    taken: HashSet<String>,
    /// The strings of all names so far: a name with another string clashes with none.
    names: HashSet<String>,
    outer: bool,
    state: &'s SessionState,
}

impl Outputs<'_> {
    /// Whether one of the columns so far has the name.
    fn has(&self, name: &Name) -> bool {
        if !name.string().is_some_and(|name| self.names.contains(name)) {
            return false;
        }
        let mut known = self.known.iter();
        let clashes = |own: &Name| own.clashes(name, self.outer);
        known.any(|(_, own, all)| clashes(own) || all.iter().any(clashes))
    }

    fn push(&mut self, item: SelectItem) {
        // The planner gives a scalar subquery the name of its column, which another column may have.
        let item = match item {
            SelectItem::UnnamedExpr(Expr::Subquery(_)) => self.renamed(item),
            item => item,
        };
        let name = Name::of(&item, self.state);
        self.taken.extend(name.last().cloned());
        let item = match self.has(&name) {
            true => {
                self.name_computed(&name);
                self.renamed(item)
            }
            false => item,
        };
        let name = match &item {
            SelectItem::ExprWithAlias { alias, .. } => Name::Given(key(alias)),
            _ => name,
        };
        self.names.extend(name.string().cloned());
        self.known.push((item, name, Vec::new()));
    }

    /// Adds a wildcard, or its columns if one of them has the name of an earlier column.
    fn wildcard(&mut self, item: SelectItem, columns: Vec<Expr>) {
        let is_list = lists_columns(&item);
        let columns = columns.into_iter().map(SelectItem::UnnamedExpr);
        let columns: Vec<(SelectItem, Name)> = columns
            .map(|column| {
                let name = Name::of(&column, self.state);
                (column, name)
            })
            .collect();
        let mut own = HashSet::new();
        let repeats = |(_, name): &(SelectItem, Name)| !self.outer && !own.insert(name.last().cloned());
        if is_list && (columns.iter().any(|(_, name)| self.has(name)) || columns.iter().any(repeats)) {
            columns.into_iter().for_each(|(column, _)| self.push(column));
            return;
        }
        let names: Vec<Name> = columns.into_iter().map(|(_, name)| name).collect();
        self.taken.extend(names.iter().filter_map(Name::last).cloned());
        self.names.extend(names.iter().filter_map(Name::string).cloned());
        self.known.push((item, Name::Other, names));
    }

    /// Names an earlier expression of this planner's name as the query spells it.
    fn name_computed(&mut self, name: &Name) {
        let Name::Computed(_) = name else { return };
        let Some(at) = self.known.iter().position(|(_, known, _)| known == name) else {
            return;
        };
        let null = SelectItem::UnnamedExpr(Expr::Value(Value::Null.into()));
        let item = mem::replace(&mut self.known[at].0, null);
        self.known[at].0 = match item {
            SelectItem::UnnamedExpr(_) => self.renamed(item),
            item => item,
        };
    }

    /// The column under a name that no other column has.
    fn renamed(&mut self, item: SelectItem) -> SelectItem {
        let (expr, base) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let column = path(&expr).filter(|_| is_column(&expr));
                let base = column.and_then(|path| path.last().cloned());
                let base = base.unwrap_or_else(|| spelled(&expr));
                (expr, base)
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let base = key(&alias);
                (expr, base)
            }
            item => return item,
        };
        let further = (1_usize..).map(|number| format!("{base}_{number}"));
        let mut names = std::iter::once(base.clone()).chain(further);
        let name = names.find(|name| self.taken.insert(name.clone()));
        SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', name.unwrap_or(base)),
        }
    }

    fn named(self) -> Vec<SelectItem> {
        self.known.into_iter().map(|(item, _, _)| item).collect()
    }
}
