//! WITH in a query that repeats the name of an enclosing WITH.
//!
//! `WITH x AS (SELECT 1 AS a) SELECT * FROM (WITH x AS (SELECT a + 1 AS b FROM x) SELECT * FROM x)`. The
//! planner knows one query of each name at a time. So the inner query gets another name, and its uses become
//! `FROM "x 2" AS x`.

use super::ast_parts::key;
use super::flow_mut;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor, VisitorMut};
use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Gives each query of a WITH clause that hides a query of an enclosing one a name of its own.
pub(super) fn distinguish(statement: &mut Statement) {
    let mut taken = Taken::default();
    let ControlFlow::Continue(()) = flow_mut(statement, &mut taken);
    if taken.repeats {
        let mut names = Names {
            frames: Vec::new(),
            taken: taken.names,
        };
        let ControlFlow::Continue(()) = flow_mut(statement, &mut names);
    }
}

/// The names of all tables, and of all queries of WITH clauses.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    /// The names of the queries alone.
    queries: HashSet<String>,
    /// Whether two of them have one name.
    repeats: bool,
}

impl VisitorMut for Taken {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = key(&table.alias.name);
            self.repeats |= !self.queries.insert(name.clone());
            self.names.insert(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Infallible> {
        self.names.extend(name(relation).map(key));
        ControlFlow::Continue(())
    }
}

/// A query of a WITH clause.
struct Table {
    /// The address of its query, to recognise the query when it is visited.
    query: usize,
    name: String,
    /// Its other name.
    renamed: Option<String>,
}

/// The WITH clause of an enclosing query.
struct Frame {
    tables: Vec<Table>,
    /// The number of its queries that the visited part can name.
    visible: usize,
    is_recursive: bool,
}

impl Frame {
    fn find(&self, name: &str) -> Option<&Table> {
        self.tables[..self.visible]
            .iter()
            .rev()
            .find(|table| table.name == name)
    }

    fn position(&self, query: usize) -> Option<usize> {
        self.tables.iter().position(|table| table.query == query)
    }
}

struct Names {
    frames: Vec<Frame>,
    taken: HashSet<String>,
}

impl Names {
    fn find(&self, name: &str) -> Option<&Table> {
        self.frames.iter().rev().find_map(|frame| frame.find(name))
    }

    /// A name that the statement does not have: `x 2`, `x 3` and so on.
    fn other(&mut self, name: &str) -> String {
        let mut others = (2_usize..).map(|number| format!("{name} {number}"));
        let other = others.find(|other| self.taken.insert(other.clone()));
        other.unwrap_or_else(|| name.to_owned())
    }
}

impl VisitorMut for Names {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let address = std::ptr::from_ref::<Query>(query).addr();
        if let Some(frame) = self.frames.last_mut()
            && let Some(at) = frame.position(address)
        {
            frame.visible = at + usize::from(frame.is_recursive);
        }
        let mut tables = Vec::new();
        let is_recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let name = key(&table.alias.name);
            let renamed = self.find(&name).is_some().then(|| self.other(&name));
            if let Some(renamed) = &renamed {
                table.alias.name = Ident::with_quote('"', renamed);
            }
            tables.push(Table {
                query: std::ptr::from_ref::<Query>(&table.query).addr(),
                name,
                renamed,
            });
        }
        self.frames.push(Frame {
            tables,
            visible: 0,
            is_recursive,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let address = std::ptr::from_ref::<Query>(query).addr();
        self.frames.pop();
        if let Some(frame) = self.frames.last_mut()
            && let Some(at) = frame.position(address)
        {
            frame.visible = at + 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        let TableFactor::Table {
            name: table,
            alias,
            args: None,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let Some(written) = name(table).cloned() else {
            return ControlFlow::Continue(());
        };
        let renamed = self.find(&key(&written)).and_then(|found| found.renamed.clone());
        if let Some(renamed) = renamed {
            *table = ObjectName::from(vec![Ident::with_quote('"', renamed)]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: written,
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}

/// The name of a table without a schema.
fn name(relation: &ObjectName) -> Option<&Ident> {
    match relation.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}
