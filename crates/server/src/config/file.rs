//! The tables and keys of a configuration file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::units::{bytes, duration};
use super::{Config, TlsFiles, Token, User};
use crate::access::{Limits, Role};
use crate::error::ServerError;
use crate::password::Verifier;

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    listen: Listen,
    tls: Option<Tls>,
    data: Data,
    settings: BTreeMap<String, String>,
    log: Log,
    limits: ServerLimits,
    roles: BTreeMap<String, RoleTable>,
    users: BTreeMap<String, UserTable>,
    tokens: BTreeMap<String, TokenTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Listen {
    flight: Option<String>,
    postgres: Option<String>,
    http: Option<String>,
    insecure: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Data {
    folders: Vec<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Log {
    statements: bool,
}

/// Limits of the server, and the defaults of roles.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerLimits {
    memory: Option<String>,
    time: Option<String>,
    rows: Option<u64>,
    queries: Option<usize>,
    message: Option<String>,
    sessions: Option<usize>,
    definitions: Option<usize>,
    idle: Option<String>,
    grace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RoleLimits {
    memory: Option<String>,
    time: Option<String>,
    rows: Option<u64>,
    queries: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RoleTable {
    tables: Vec<String>,
    folders: Vec<PathBuf>,
    write: bool,
    copy_to: Vec<PathBuf>,
    external_tables: bool,
    alter_system: bool,
    emulated_device: bool,
    admin: bool,
    limits: RoleLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    password: String,
    role: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    sha256: String,
    role: String,
}

fn wrong(key: impl Into<String>, problem: impl Into<String>) -> ServerError {
    ServerError::Value {
        key: key.into(),
        problem: problem.into(),
    }
}

/// Parses the value of a key, if it is present.
fn parsed<T, U>(
    key: &str,
    value: Option<&T>,
    parse: impl Fn(&T) -> Result<U, String>,
) -> Result<Option<U>, ServerError> {
    let parsed = value.map(parse).transpose();
    parsed.map_err(|problem| wrong(key, problem))
}

fn address(text: &String) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("expected an address and a port such as '127.0.0.1:31337', not '{text}'"))
}

fn positive<N: Copy + PartialOrd + From<u8>>(number: &N) -> Result<N, String> {
    match *number > N::from(0) {
        true => Ok(*number),
        false => Err("expected a number above 0".to_string()),
    }
}

/// The role limits of a table, with `default` for absent keys.
fn limits(
    table: &str,
    memory: Option<&String>,
    time: Option<&String>,
    rows: Option<&u64>,
    queries: Option<&usize>,
    default: &Limits,
) -> Result<Limits, ServerError> {
    let key = |name: &str| format!("{table}.{name}");
    Ok(Limits {
        memory: parsed(&key("memory"), memory, |text| bytes(text))?.or(default.memory),
        time: parsed(&key("time"), time, |text| duration(text))?.or(default.time),
        rows: parsed(&key("rows"), rows, positive)?.or(default.rows),
        queries: parsed(&key("queries"), queries, |queries| {
            (*queries > 0)
                .then_some(*queries)
                .ok_or_else(|| "expected a number above 0".to_string())
        })?
        .or(default.queries),
    })
}

/// The folders, as absolute paths without symbolic links.
fn existing(key: &str, folders: Vec<PathBuf>, directory: &Path) -> Result<Vec<PathBuf>, ServerError> {
    let folders = folders.into_iter().map(|folder| {
        let path = directory.join(&folder);
        match path.canonicalize() {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(wrong(key, format!("'{}' is not a folder", folder.display()))),
            Err(cause) => Err(wrong(key, format!("'{}': {cause}", folder.display()))),
        }
    });
    folders.collect()
}

impl RoleTable {
    fn resolve(self, name: &str, defaults: &Limits, directory: &Path) -> Result<Role, ServerError> {
        let key = |part: &str| format!("roles.{name}.{part}");
        let of = &self.limits;
        let limits = limits(
            &key("limits"),
            of.memory.as_ref(),
            of.time.as_ref(),
            of.rows.as_ref(),
            of.queries.as_ref(),
            defaults,
        )?;
        let folders = existing(&key("folders"), self.folders, directory)?;
        if self.external_tables && folders.is_empty() {
            return Err(wrong(
                key("external_tables"),
                "needs folders, which contain the files of such tables",
            ));
        }
        Ok(Role {
            name: name.to_string(),
            tables: self.tables,
            copy_to: existing(&key("copy_to"), self.copy_to, directory)?,
            folders,
            write: self.write,
            external_tables: self.external_tables,
            alter_system: self.alter_system,
            emulated_device: self.emulated_device,
            admin: self.admin,
            limits,
        })
    }
}

impl File {
    /// Checks all values. Relative paths start from `directory`.
    pub(super) fn resolve(self, directory: &Path) -> Result<Config, ServerError> {
        // The folder of a file name without a folder.
        let directory = match directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => directory,
        };
        let directory = std::path::absolute(directory).map_err(|cause| ServerError::File {
            path: directory.to_path_buf(),
            cause,
        })?;
        let of = &self.limits;
        let defaults = limits(
            "limits",
            of.memory.as_ref(),
            of.time.as_ref(),
            of.rows.as_ref(),
            of.queries.as_ref(),
            &Limits::default(),
        )?;
        let mut config = Config {
            flight: parsed("listen.flight", self.listen.flight.as_ref(), address)?,
            postgres: parsed("listen.postgres", self.listen.postgres.as_ref(), address)?,
            http: parsed("listen.http", self.listen.http.as_ref(), address)?,
            insecure: self.listen.insecure,
            tls: self.tls.map(|tls| TlsFiles {
                certificate: directory.join(tls.certificate),
                key: directory.join(tls.key),
            }),
            folders: (self.data.folders.iter())
                .map(|folder| directory.join(folder))
                .collect(),
            settings: self.settings.into_iter().collect(),
            log_statements: self.log.statements,
            ..Config::default()
        };
        if let Some(message) = parsed("limits.message", of.message.as_ref(), |text| bytes(text))? {
            config.message = message;
        }
        if let Some(sessions) = of.sessions {
            if sessions == 0 {
                return Err(wrong("limits.sessions", "expected a number above 0"));
            }
            config.sessions = sessions;
        }
        config.definitions = of.definitions.unwrap_or(config.definitions);
        if let Some(idle) = parsed("limits.idle", of.idle.as_ref(), |text| duration(text))? {
            config.idle = idle;
        }
        if let Some(grace) = parsed("limits.grace", of.grace.as_ref(), |text| duration(text))? {
            config.grace = grace;
        }
        let mut roles = BTreeMap::new();
        for (name, table) in self.roles {
            let role = table.resolve(&name, &defaults, &directory)?;
            roles.insert(name, Arc::new(role));
        }
        let role = |key: String, name: &str| {
            let role = roles.get(name).cloned();
            role.ok_or_else(|| wrong(key, format!("no such role: {name}")))
        };
        for (name, table) in self.users {
            let role = role(format!("users.{name}.role"), &table.role)?;
            let verifier = Verifier::parse(&table.password);
            let verifier = verifier.map_err(|problem| wrong(format!("users.{name}.password"), problem))?;
            config.users.insert(name, User { verifier, role });
        }
        for (name, table) in self.tokens {
            let role = role(format!("tokens.{name}.role"), &table.role)?;
            let hash = table.sha256.trim().to_ascii_lowercase();
            if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(wrong(
                    format!("tokens.{name}.sha256"),
                    "expected 64 hexadecimal digits, as galatea serve new-token prints them",
                ));
            }
            config.tokens.insert(name, Token { hash, role });
        }
        config.limits = defaults;
        Ok(config)
    }
}
