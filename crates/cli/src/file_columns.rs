//! The columns of files that a statement names, for completion.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use tokio::runtime::Builder;

/// The time that completion waits for the columns of a file.
const PATIENCE: Duration = Duration::from_millis(500);

/// The maximum number of files with remembered columns.
const FILES: usize = 64;

/// The columns of files, each read once for a statement.
pub(crate) struct FileColumns {
    ctx: SessionContext,
    known: RefCell<HashMap<String, Vec<String>>>,
}

impl FileColumns {
    pub(crate) fn new(ctx: &SessionContext) -> Self {
        Self {
            ctx: ctx.clone(),
            known: RefCell::default(),
        }
    }

    /// Forgets all columns, because files may have changed.
    pub(crate) fn clear(&self) {
        self.known.borrow_mut().clear();
    }

    /// The columns of the local files that `statement` names. A file that cannot be read in time has none.
    pub(crate) fn of(&self, statement: &str) -> Vec<String> {
        let mut known = self.known.borrow_mut();
        let mut all = Vec::new();
        for name in quoted(statement) {
            if known.len() < FILES && !known.contains_key(&name) {
                let columns = columns(&self.ctx, &name);
                known.insert(name.clone(), columns);
            }
            all.extend(known.get(&name).into_iter().flatten().cloned());
        }
        all
    }
}

/// The strings that follow FROM, JOIN, a comma or a parenthesis, and that are paths of local files.
fn quoted(statement: &str) -> Vec<String> {
    let parts: Vec<&str> = statement.split('\'').collect();
    let mut found = Vec::new();
    // Strings are at odd positions. The last is open if nothing follows it.
    for pair in parts.chunks(2) {
        let [before, name] = pair else { continue };
        let word = before.trim_end();
        let names_table = word.ends_with(['(', ',', '['])
            || word
                .rsplit(char::is_whitespace)
                .next()
                .is_some_and(|word| word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("join"));
        let is_path = name.contains(['.', '/']) && !name.contains("://") && !name.starts_with("/dev/");
        if names_table && is_path && !name.is_empty() {
            found.push((*name).to_owned());
        }
    }
    if parts.len().is_multiple_of(2) {
        found.retain(|name| Some(name.as_str()) != parts.last().copied());
    }
    found
}

/// The columns of a file, read on a thread of its own: the caller cannot wait for a future.
fn columns(ctx: &SessionContext, name: &str) -> Vec<String> {
    let (send, receive) = mpsc::channel();
    let (ctx, name) = (ctx.clone(), name.to_owned());
    let started = thread::Builder::new().name("columns".to_string()).spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return;
        };
        let table = runtime.block_on(ctx.table_provider(TableReference::bare(name)));
        if let Ok(table) = table {
            let schema = table.schema();
            let names = schema.fields().iter().map(|field| field.name().clone());
            // The prompt may no longer wait.
            let _ = send.send(names.collect());
        }
    });
    match started {
        Ok(_) => receive.recv_timeout(PATIENCE).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_statement_are_found() {
        assert_eq!(quoted("SELECT x FROM 'a.csv' WHERE "), ["a.csv"]);
        assert_eq!(
            quoted("select * from 'd/*.parquet' a join read_csv(['b.csv', 'c.csv']) where n = 'x.y' and "),
            ["d/*.parquet", "b.csv", "c.csv"]
        );
        assert!(quoted("SELECT * FROM 'a.cs").is_empty());
        assert!(quoted("SELECT 'a.csv' FROM t").is_empty());
        assert!(quoted("SELECT * FROM 'http://h/a.csv' WHERE ").is_empty());
        assert!(quoted("SELECT * FROM 'it''s.csv").is_empty());
    }
}
