//! The tables of all clients, and the part of them that a role sees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::exec_err;
use datafusion::datasource::{TableType, ViewTable};
use datafusion::error::Result;

use crate::access::Role;
use crate::error::ServerError;
use crate::failure::Failure;
use crate::planning::{self, Context};

/// The catalog of every session.
pub(crate) const CATALOG: &str = "galatea";

/// The schema of the tables of all clients.
pub(crate) const SCHEMA: &str = "public";

/// Formats of files that become tables, with the name after STORED AS.
const FORMATS: [(&str, &str); 7] = [
    ("parquet", "PARQUET"),
    ("csv", "CSV"),
    ("json", "JSON"),
    ("ndjson", "JSON"),
    ("jsonl", "JSON"),
    ("arrow", "ARROW"),
    ("avro", "AVRO"),
];

/// The schema of the tables of all clients.
pub(crate) fn shared() -> Arc<dyn SchemaProvider> {
    Arc::new(MemorySchemaProvider::new())
}

/// The tables that a role sees. Changes need the grant `write`.
#[derive(Debug)]
pub(crate) struct GrantedSchema {
    pub(crate) tables: Arc<dyn SchemaProvider>,
    pub(crate) role: Arc<Role>,
}

impl GrantedSchema {
    fn check_write(&self, name: &str) -> Result<()> {
        let role = &self.role.name;
        if !self.role.write {
            return Err(Failure::denied(format!("the role {role} may not change tables")).into());
        }
        if !self.role.sees(name) {
            return Err(Failure::denied(format!(
                "the role {role} may not create a table named {name}\nhint: roles.{role}.tables lists the names"
            ))
            .into());
        }
        Ok(())
    }
}

/// A view with its plan alone: a role that sees the view may not see its tables, so the session of the role
/// does not plan the definition again, and the role does not read it.
fn planned(table: Arc<dyn TableProvider>, role: &Role) -> Arc<dyn TableProvider> {
    match table.downcast_ref::<ViewTable>() {
        Some(_) if role.sees_all() => table,
        Some(view) => Arc::new(ViewTable::new(view.logical_plan().clone(), None)),
        None => table,
    }
}

#[async_trait]
impl SchemaProvider for GrantedSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.tables.table_names();
        names.retain(|name| self.role.sees(name));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.role.sees(name) {
            true => Ok(self
                .tables
                .table(name)
                .await?
                .map(|table| planned(table, &self.role))),
            false => Ok(None),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.role.sees(name) {
            true => self.tables.table_type(name).await,
            false => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.check_write(&name)?;
        if self.tables.table_exist(&name) {
            return exec_err!("the table {name} already exists");
        }
        self.tables.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.role.sees(name) {
            return Ok(None);
        }
        self.check_write(name)?;
        self.tables.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.role.sees(name) && self.tables.table_exist(name)
    }
}

/// The extension of a file, in lower case.
fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

fn format_of(path: &Path) -> Option<&'static str> {
    let extension = extension(path)?;
    let format = FORMATS.iter().find(|(name, _)| *name == extension);
    format.map(|(_, stored_as)| *stored_as)
}

/// The format of the files below a folder: that of the first one in the order of their names.
fn format_below(folder: &Path, depth: usize) -> Option<&'static str> {
    /// Folders of partitions, such as `year=2026/month=11`.
    const DEPTH: usize = 8;
    let mut entries: Vec<PathBuf> = folder
        .read_dir()
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    entries.iter().find_map(|entry| match entry.is_dir() {
        true if depth < DEPTH => format_below(entry, depth + 1),
        true => None,
        false => format_of(entry),
    })
}

/// The tables of a folder: a file `name.parquet` is the table `name`, and so is a folder `name` with files of
/// one format.
fn found(folder: &Path) -> std::result::Result<BTreeMap<String, (PathBuf, &'static str)>, ServerError> {
    let wrong = |problem: String| ServerError::Folder {
        path: folder.to_path_buf(),
        problem,
    };
    let entries = folder.read_dir().map_err(|cause| wrong(cause.to_string()))?;
    let mut tables = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|cause| wrong(cause.to_string()))?.path();
        if galatea::is_database(&path) {
            return Err(ServerError::Database { path });
        }
        let format = match path.is_dir() {
            true => format_below(&path, 0),
            false => format_of(&path),
        };
        let name = match path.is_dir() {
            true => path.file_name(),
            false => path.file_stem(),
        };
        let (Some(format), Some(name)) = (format, name.and_then(|name| name.to_str())) else {
            continue;
        };
        if name.starts_with(['.', '_']) {
            continue;
        }
        if let Some((other, _)) = tables.insert(name.to_string(), (path.clone(), format)) {
            return Err(wrong(format!(
                "both '{}' and '{}' would be the table {name}",
                other.display(),
                path.display()
            )));
        }
    }
    Ok(tables)
}

/// Registers the tables of folders by a session that may write. Returns their number.
///
/// # Errors
/// A folder or a file that cannot be read; two files of the same name.
pub(crate) async fn register_folders(
    ctx: &Context,
    folders: &[PathBuf],
) -> std::result::Result<usize, ServerError> {
    let mut registered = 0;
    for folder in folders {
        if galatea::is_database(folder) {
            return Err(ServerError::Database { path: folder.clone() });
        }
        for (name, (path, format)) in found(folder)? {
            let wrong = |problem: String| ServerError::Folder {
                path: folder.clone(),
                problem,
            };
            let path = std::path::absolute(&path).map_err(|cause| wrong(cause.to_string()))?;
            let path = path
                .to_str()
                .ok_or_else(|| wrong(format!("the name of '{}' is not UTF-8", path.display())))?;
            let quoted = name.replace('"', "\"\"");
            let slash = if Path::new(path).is_dir() { "/" } else { "" };
            let statement = format!(
                "CREATE EXTERNAL TABLE \"{quoted}\" STORED AS {format} LOCATION '{}{slash}'",
                path.replace('\'', "''")
            );
            let done = planning::sql(ctx, &statement).await;
            done.map_err(|error| wrong(format!("'{path}' cannot be a table: {}", error.strip_backtrace())))?;
            registered += 1;
        }
    }
    Ok(registered)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::access::Limits;
    use crate::opaque::Opaque;

    #[tokio::test]
    async fn folders_contain_tables() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::write(at("one.csv"), "a,b\n1,2\n").unwrap();
        fs::create_dir_all(at("two/year=2026")).unwrap();
        fs::write(at("two/year=2026/part.csv"), "a\n5\n").unwrap();
        fs::write(at("notes.txt"), "no table").unwrap();
        let ctx = galatea::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .unwrap();
        let ctx = Opaque::new(ctx);
        let folders = [folder.path().to_path_buf()];
        assert_eq!(register_folders(&ctx, &folders).await.unwrap(), 2);
        let rows = galatea::sql(&ctx, "SELECT one.b + two.a FROM one, two")
            .await
            .unwrap();
        assert_eq!(rows.collect().await.unwrap()[0].num_rows(), 1);
        fs::write(at("one.json"), "{}").unwrap();
        let error = register_folders(&ctx, &folders)
            .await
            .expect_err("two tables of a name");
        assert!(error.to_string().contains("would be the table one"), "{error}");
        assert!(register_folders(&ctx, &[at("absent")]).await.is_err());
    }

    #[tokio::test]
    async fn role_sees_granted_tables_only() {
        let tables = shared();
        let ctx = galatea::session()
            .with_setting("galatea.device", "cpu")
            .build()
            .unwrap();
        let table = || async {
            let frame = ctx.sql("SELECT 1 AS a").await.unwrap();
            frame.into_view()
        };
        tables
            .register_table("open_a".to_string(), table().await)
            .unwrap();
        tables
            .register_table("closed".to_string(), table().await)
            .unwrap();
        let granted = |write| GrantedSchema {
            tables: Arc::clone(&tables),
            role: Arc::new(Role {
                tables: vec!["open_*".to_string()],
                write,
                ..Role::local(Limits::default(), false)
            }),
        };
        let (reader, writer) = (granted(false), granted(true));
        assert_eq!(reader.table_names(), ["open_a"]);
        assert!(reader.table("closed").await.unwrap().is_none() && !reader.table_exist("closed"));
        assert!(
            reader
                .register_table("open_b".to_string(), table().await)
                .is_err()
        );
        assert!(reader.deregister_table("open_a").is_err());
        assert!(
            writer
                .register_table("closed".to_string(), table().await)
                .is_err()
        );
        assert!(writer.deregister_table("closed").unwrap().is_none());
        assert!(tables.table_exist("closed"));
        writer
            .register_table("open_b".to_string(), table().await)
            .unwrap();
        assert!(writer.deregister_table("open_b").unwrap().is_some());
    }
}
