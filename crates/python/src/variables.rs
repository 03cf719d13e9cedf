//! Python variables as tables: a name that is in no catalog is a variable of the caller.
//!
//! A query is planned in the scope of a function that returns the variable of a name. The session's catalog
//! calls the function only for names that its schemas do not have. So tables take precedence over variables.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{DynamicFileCatalog, TableProvider, UrlTableFactory};
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::input;

tokio::task_local! {
    static VARIABLES: Arc<Variables>;
}

/// The variables of the code that plans a query.
#[derive(Debug)]
pub(crate) struct Variables {
    /// Returns the object of a name, or `None`.
    find: Py<PyAny>,
    /// The tables found so far: planning looks names up several times.
    found: Mutex<HashMap<String, Option<Arc<dyn TableProvider>>>>,
}

impl Variables {
    pub(crate) fn new(find: Py<PyAny>) -> Self {
        Self {
            find,
            found: Mutex::default(),
        }
    }

    /// Plans in the scope of the variables, if there are any.
    pub(crate) async fn scope<T>(variables: Option<&Arc<Self>>, planning: impl Future<Output = T>) -> T {
        match variables {
            Some(variables) => VARIABLES.scope(Arc::clone(variables), planning).await,
            None => planning.await,
        }
    }

    /// Whether planning has found a variable of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        matches!(self.found.lock().get(name), Some(Some(_)))
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = self.found.lock().get(name).cloned();
        if let Some(table) = found {
            return Ok(table);
        }
        let found = Python::attach(|py| {
            let object = self.find.bind(py).call1((name,))?;
            match object.is_none() {
                true => Ok(None),
                false => input::table(&object).map(Some),
            }
        });
        let found = found.map_err(|raised: PyErr| DataFusionError::External(Box::new(raised)))?;
        self.found.lock().insert(name.to_string(), found.clone());
        Ok(found)
    }
}

/// Makes the variables of the code that plans a query visible as tables of `ctx`.
pub(crate) fn enable(ctx: &SessionContext) {
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, Arc::new(InScope))));
}

/// The variables in whose scope the current task plans.
#[derive(Debug)]
struct InScope;

#[async_trait]
impl UrlTableFactory for InScope {
    async fn try_new(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Ok(variables) = VARIABLES.try_with(Arc::clone) else {
            return Ok(None);
        };
        // Python code runs here, which may wait for another query or for the GIL.
        let name = name.to_string();
        let table = tokio::task::spawn_blocking(move || variables.table(&name)).await;
        table.map_err(|cause| exec_datafusion_err!("a variable cannot be read: {cause}"))?
    }
}
