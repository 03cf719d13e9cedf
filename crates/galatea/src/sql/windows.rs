//! Replaces named windows by their definitions.
//!
//! DataFusion's planner looks up names of windows in the select list only. In ORDER BY and QUALIFY, a
//! function over a named window would become a plain aggregate, and a window that extends a named one would
//! lose it.

use super::SqlError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowExpr, Query, Select, SetExpr, VisitorMut, WindowSpec, WindowType,
};
use galatea_engine::syntax::visit_mut;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The key of a window's name, by which names are compared.
fn key(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// Inlines the named windows of a query, after its parts have been visited.
pub(super) fn write_out(query: &mut Query) -> ControlFlow<DataFusionError> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return ControlFlow::Continue(());
    };
    if select.named_window.is_empty() {
        return ControlFlow::Continue(());
    }
    let mut named = match definitions(select) {
        Ok(windows) => Names(windows),
        Err(error) => return ControlFlow::Break(error.into()),
    };
    visit_mut(&mut select.projection, &mut named)?;
    visit_mut(&mut select.qualify, &mut named)?;
    visit_mut(&mut select.distinct, &mut named)?;
    visit_mut(&mut query.order_by, &mut named)?;
    select.named_window.clear();
    ControlFlow::Continue(())
}

/// The windows of a WINDOW clause, each including the parts of the windows that it extends.
fn definitions(select: &Select) -> Result<HashMap<String, WindowSpec>, SqlError> {
    let mut windows = HashMap::new();
    for definition in &select.named_window {
        let spec = match &definition.1 {
            NamedWindowExpr::NamedWindow(name) => found(&windows, name)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => extended(&windows, spec)?,
        };
        if windows.insert(key(&definition.0), spec).is_some() {
            return Err(SqlError::unsupported(format!(
                "a second window of the name {}",
                definition.0
            )));
        }
    }
    Ok(windows)
}

fn found<'a>(windows: &'a HashMap<String, WindowSpec>, name: &Ident) -> Result<&'a WindowSpec, SqlError> {
    windows.get(&key(name)).ok_or_else(|| SqlError::Window {
        name: name.value.clone(),
    })
}

/// A window with the partitions of the window that it names, and with its order unless it has its own.
fn extended(windows: &HashMap<String, WindowSpec>, spec: &WindowSpec) -> Result<WindowSpec, SqlError> {
    let Some(name) = &spec.window_name else {
        return Ok(spec.clone());
    };
    let base = found(windows, name)?;
    let repeats = [
        ("PARTITION BY", !spec.partition_by.is_empty()),
        ("ORDER BY", !spec.order_by.is_empty() && !base.order_by.is_empty()),
        ("a frame", base.window_frame.is_some()),
    ];
    if let Some((clause, _)) = repeats.into_iter().find(|(_, repeats)| *repeats) {
        return Err(SqlError::WindowClause {
            name: name.value.clone(),
            clause,
        });
    }
    let order = match spec.order_by.is_empty() {
        true => &base.order_by,
        false => &spec.order_by,
    };
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: order.clone(),
        window_frame: spec.window_frame.clone(),
    })
}

/// Replaces names by definitions.
struct Names(HashMap<String, WindowSpec>);

impl VisitorMut for Names {
    type Break = DataFusionError;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        let Expr::Function(function) = expression else {
            return ControlFlow::Continue(());
        };
        let spec = match &function.over {
            Some(WindowType::NamedWindow(name)) => found(&self.0, name).cloned(),
            Some(WindowType::WindowSpec(spec)) => extended(&self.0, spec),
            None => return ControlFlow::Continue(()),
        };
        match spec {
            Ok(spec) => function.over = Some(WindowType::WindowSpec(spec)),
            Err(error) => return ControlFlow::Break(error.into()),
        }
        ControlFlow::Continue(())
    }
}
