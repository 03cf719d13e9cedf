//! The configuration of a server, from a TOML file and from the program.

mod file;
mod units;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::access::{Limits, Role};
use crate::error::ServerError;
use crate::password::Verifier;

/// A certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// A user with a password.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) verifier: Verifier,
    pub(crate) role: Arc<Role>,
}

/// A bearer token of Flight SQL, by the name under which it is logged.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// SHA-256 in hexadecimal notation.
    pub(crate) hash: String,
    pub(crate) role: Arc<Role>,
}

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of Flight SQL.
    pub flight: Option<SocketAddr>,
    /// The address of the Postgres protocol.
    pub postgres: Option<SocketAddr>,
    /// The address of the page, its feed, `/healthz` and `/metrics`.
    pub http: Option<SocketAddr>,
    /// The certificate of all listeners except HTTP.
    pub tls: Option<TlsFiles>,
    /// The folders of tables: each file and each folder in them is one.
    pub folders: Vec<PathBuf>,
    /// Settings of Galatea and DataFusion, for the engine and for each session.
    pub settings: Vec<(String, String)>,
    /// Whether the log contains the statements.
    pub log_statements: bool,
    /// Whether to listen on other addresses than loopback without authentication or encryption.
    pub insecure: bool,
    /// The maximum size of a message from a client, in bytes.
    pub message: usize,
    /// The maximum number of sessions of one user.
    pub sessions: usize,
    /// The maximum number of macros, and of variables, of one session.
    pub definitions: usize,
    /// The time after which a session without requests ends.
    pub idle: Duration,
    /// The time that running queries have to end when the server shuts down.
    pub grace: Duration,
    pub(crate) limits: Limits,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) tokens: BTreeMap<String, Token>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            flight: None,
            postgres: None,
            http: None,
            tls: None,
            folders: Vec::new(),
            settings: Vec::new(),
            log_statements: false,
            insecure: false,
            message: 16 << 20,
            sessions: 64,
            definitions: 1000,
            idle: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(30),
            limits: Limits::default(),
            users: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Parses a configuration. Relative paths start from `directory`.
    ///
    /// # Errors
    /// A syntax error, an unknown key, or a value that is not accepted.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, ServerError> {
        let file: file::File = toml::from_str(text)
            .map_err(|error| ServerError::Syntax(error.to_string().trim_end().to_string()))?;
        file.resolve(directory)
    }

    /// Reads a configuration file. Relative paths start from its folder.
    ///
    /// # Errors
    /// Those of [`Config::parse`]; the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, ServerError> {
        let text = std::fs::read_to_string(path).map_err(|cause| ServerError::File {
            path: path.to_path_buf(),
            cause,
        })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Whether clients need credentials.
    pub fn authenticates(&self) -> bool {
        !self.users.is_empty() || !self.tokens.is_empty()
    }

    /// Checks that no client of another machine gets access without credentials, or sends them without
    /// encryption.
    ///
    /// # Errors
    /// [`ServerError::Insecure`]; no address.
    pub fn check_addresses(&self) -> Result<(), ServerError> {
        let protocols = [self.flight, self.postgres];
        if protocols.iter().all(Option::is_none) {
            return Err(ServerError::Nothing);
        }
        let public = protocols
            .into_iter()
            .flatten()
            .find(|address| !address.ip().is_loopback());
        let problem = match (self.authenticates(), &self.tls) {
            (true, Some(_)) => return Ok(()),
            (false, _) => "no users are configured, so every client would have access",
            (true, None) => {
                "no certificate is configured, so data and tokens would be sent without encryption"
            }
        };
        match public {
            Some(address) if !self.insecure => Err(ServerError::Insecure { address, problem }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ServerError> {
        Config::parse(text, Path::new("/tmp"))
    }

    fn problem(text: &str) -> String {
        parse(text).expect_err("a wrong configuration").to_string()
    }

    #[test]
    fn all_keys_are_read() {
        let verifier = Verifier::of("secret").unwrap();
        let config = parse(&format!(
            r#"
            [listen]
            flight = "127.0.0.1:1"
            postgres = "[::1]:2"
            http = "127.0.0.1:3"
            insecure = false
            [tls]
            certificate = "server.crt"
            key = "/etc/server.key"
            [data]
            folders = ["tables"]
            [settings]
            "galatea.device" = "cpu"
            [log]
            statements = true
            [limits]
            memory = "1 GiB"
            time = "1 min"
            rows = 10
            queries = 2
            message = "1 MiB"
            sessions = 3
            definitions = 4
            idle = "5 min"
            grace = "2 s"
            [roles.analyst]
            tables = ["sales_*"]
            folders = ["/tmp"]
            write = true
            copy_to = ["/tmp"]
            external_tables = true
            alter_system = true
            emulated_device = true
            admin = true
            limits = {{ rows = 5 }}
            [users.ann]
            password = "{verifier}"
            role = "analyst"
            [tokens.dashboard]
            sha256 = "{}"
            role = "analyst"
            "#,
            crate::password::token_hash("t")
        ))
        .unwrap();
        assert_eq!(config.flight, Some("127.0.0.1:1".parse().unwrap()));
        assert_eq!(config.postgres, Some("[::1]:2".parse().unwrap()));
        assert_eq!(config.http, Some("127.0.0.1:3".parse().unwrap()));
        let tls = config.tls.clone().unwrap();
        assert_eq!(tls.certificate, Path::new("/tmp/server.crt"));
        assert_eq!(tls.key, Path::new("/etc/server.key"));
        assert_eq!(config.folders, [PathBuf::from("/tmp/tables")]);
        assert_eq!(
            config.settings,
            [("galatea.device".to_string(), "cpu".to_string())]
        );
        assert!(config.log_statements && config.authenticates());
        assert_eq!(
            (config.message, config.sessions, config.definitions),
            (1 << 20, 3, 4)
        );
        assert_eq!(
            (config.idle, config.grace),
            (Duration::from_secs(300), Duration::from_secs(2))
        );
        let role = &config.users["ann"].role;
        assert_eq!(role.limits.rows, Some(5));
        assert_eq!(role.limits.memory, Some(1 << 30));
        assert!(role.sees("sales_2026") && !role.sees("salaries"));
        assert!(
            role.write && role.external_tables && role.alter_system && role.emulated_device && role.admin
        );
        assert_eq!(config.tokens["dashboard"].role.name, "analyst");
    }

    #[test]
    fn a_file_name_without_a_folder_starts_from_the_working_directory() {
        let config = Config::parse("[data]\nfolders = ['tables']", Path::new("")).unwrap();
        assert_eq!(config.folders, [std::path::absolute("tables").unwrap()]);
    }

    #[test]
    fn wrong_configurations_are_refused() {
        for (text, expected) in [
            ("colour = 1", "unknown field `colour`"),
            ("[listen]\nflihgt = 'x'", "unknown field `flihgt`"),
            ("[listen]\nflight = 'x'", "listen.flight: expected an address"),
            ("[limits]\ntime = '1 week'", "limits.time: expected a duration"),
            (
                "[limits]\nqueries = 0",
                "limits.queries: expected a number above 0",
            ),
            (
                "[roles.a]\nlimits = { rows = 0 }",
                "roles.a.limits.rows: expected a number above 0",
            ),
            (
                "[roles.a]\nfolders = ['/no/such/folder']",
                "roles.a.folders: '/no/such/folder'",
            ),
            (
                "[roles.a]\nexternal_tables = true",
                "roles.a.external_tables: needs folders",
            ),
            (
                "[users.ann]\npassword = 'x'\nrole = 'a'",
                "users.ann.role: no such role: a",
            ),
            (
                "[roles.a]\n[users.ann]\npassword = 'secret'\nrole = 'a'",
                "users.ann.password: expected SCRAM",
            ),
            ("[users.ann]\nrole = 'a'", "missing field `password`"),
            (
                "[roles.a]\n[tokens.t]\nsha256 = 'abc'\nrole = 'a'",
                "tokens.t.sha256: expected 64",
            ),
            ("[tls]\nkey = 'a'", "missing field `certificate`"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(expected), "{text}: {problem}");
        }
        assert!(!problem("[roles.a]\n[users.ann]\npassword = 'secret'\nrole = 'a'").contains("secret"));
    }

    #[test]
    fn public_addresses_need_users_and_encryption() {
        let mut config = Config::default();
        assert!(matches!(config.check_addresses(), Err(ServerError::Nothing)));
        config.flight = Some("127.0.0.1:0".parse().unwrap());
        assert!(config.check_addresses().is_ok());
        config.postgres = Some("0.0.0.0:0".parse().unwrap());
        assert!(matches!(
            config.check_addresses(),
            Err(ServerError::Insecure { .. })
        ));
        config.insecure = true;
        assert!(config.check_addresses().is_ok());
        config.insecure = false;
        config.tokens.insert(
            "t".to_string(),
            Token {
                hash: String::new(),
                role: Arc::new(Role::local(Limits::default(), false)),
            },
        );
        assert!(matches!(
            config.check_addresses(),
            Err(ServerError::Insecure { .. })
        ));
        config.tls = Some(TlsFiles {
            certificate: "a".into(),
            key: "b".into(),
        });
        assert!(config.check_addresses().is_ok());
    }
}
