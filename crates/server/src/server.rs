//! A running server: its listeners and its shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::config::Config;
use crate::error::ServerError;
use crate::flight::{self, FlightSessions};
use crate::opaque::Opaque;
use crate::planning::Context;
use crate::state::Shared;
use crate::tables;
use crate::tls::{self, Pem};
use crate::{http, postgres, recorder};

/// Threads of the connections.
const CONNECTION_THREADS: usize = 2;

/// The stack size of the threads of queries: planning and evaluation recurse with the depth of expressions.
/// An unused stack is address space only.
const STACK: usize = 64 << 20;

/// The time that connections have to close after the last query.
const CLOSING: Duration = Duration::from_secs(5);

/// The longest pause between two searches for idle sessions.
const SWEEP: Duration = Duration::from_secs(30);

/// A running server. Queries and connections have Tokio runtimes of their own.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), galatea_server::ServerError> {
/// use galatea_server::{Config, Server};
///
/// let mut config = Config::default();
/// config.flight = Some(([127, 0, 0, 1], 0).into());
/// let server = Server::start(config).await?;
/// println!("Flight SQL on {:?}", server.flight());
/// server.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    flight: Option<SocketAddr>,
    postgres: Option<SocketAddr>,
    http: Option<SocketAddr>,
    tables: usize,
    listeners: Vec<JoinHandle<()>>,
    helpers: Vec<JoinHandle<()>>,
    /// Unused after the start, and dropped last.
    _runtimes: Runtimes,
}

/// The runtimes of queries and of connections.
#[derive(Debug)]
struct Runtimes(Vec<Runtime>);

impl Drop for Runtimes {
    fn drop(&mut self) {
        for runtime in self.0.drain(..) {
            // A task of another runtime may not wait for its threads.
            runtime.shutdown_background();
        }
    }
}

/// A listener and its address.
async fn listen(address: Option<SocketAddr>) -> Result<Option<(TcpListener, SocketAddr)>, ServerError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let failed = |cause| ServerError::Listen { address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok(Some((listener, bound)))
}

impl Server {
    /// Checks the configuration, registers the tables and starts to listen. A port of 0 is replaced by a free
    /// one.
    ///
    /// # Errors
    /// Addresses that need users or TLS; files that cannot be read; addresses that are in use; settings that
    /// the engine refuses.
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        config.check_addresses()?;
        if config.tls.is_some() {
            tls::select_provider();
        }
        let pem = config.tls.as_ref().map(Pem::read).transpose()?;
        let acceptor = pem.as_ref().map(Pem::acceptor).transpose()?;
        let recorder = recorder::install();
        let started = |runtime: std::io::Result<Runtime>| {
            runtime.map_err(|cause| ServerError::Failed(format!("cannot start threads: {cause}")))
        };
        let queries = Builder::new_multi_thread()
            .thread_name("queries")
            .thread_stack_size(STACK)
            .enable_all()
            .build();
        let connections = Builder::new_multi_thread()
            .worker_threads(CONNECTION_THREADS)
            .thread_name("connections")
            .enable_all()
            .build();
        let runtimes = Runtimes(vec![started(queries)?, started(connections)?]);
        let (queries, runtime) = (runtimes.0[0].handle().clone(), runtimes.0[1].handle().clone());
        let shared = Shared::new(config, queries)?;
        let tables = tables::register_folders(&registering(&shared)?, &shared.config.folders).await?;
        let mut server = Self {
            shared: Arc::clone(&shared),
            flight: None,
            postgres: None,
            http: None,
            tables,
            listeners: Vec::new(),
            helpers: Vec::new(),
            _runtimes: runtimes,
        };
        // Sockets belong to the runtime on which they are created.
        let config = &shared.config;
        let addresses = (config.flight, config.postgres, config.http);
        let bound = runtime.spawn(async move {
            Ok::<_, ServerError>((
                listen(addresses.0).await?,
                listen(addresses.1).await?,
                listen(addresses.2).await?,
            ))
        });
        let bound = bound
            .await
            .map_err(|error| ServerError::Failed(error.to_string()))?;
        let (flight, postgres, http) = bound?;
        let sessions = Arc::new(FlightSessions::new(Arc::clone(&shared)));
        if let Some((listener, address)) = flight {
            server.flight = Some(address);
            let (state, sessions) = (Arc::clone(&shared), Arc::clone(&sessions));
            server.listeners.push(runtime.spawn(async move {
                if let Err(error) = flight::serve(listener, pem, sessions, state.stopping()).await {
                    tracing::error!(target: "galatea::server", %error, "Flight SQL ended");
                }
            }));
        }
        if let Some((listener, address)) = postgres {
            server.postgres = Some(address);
            let state = Arc::clone(&shared);
            server.listeners.push(runtime.spawn(async move {
                let stop = Arc::clone(&state);
                postgres::serve(listener, acceptor, state, stop.stopping()).await;
            }));
        }
        if let Some((listener, address)) = http {
            server.http = Some(address);
            server
                .helpers
                .push(runtime.spawn(http::serve(listener, Arc::clone(&shared))));
        }
        let pause = (shared.config.idle / 4).clamp(Duration::from_millis(10), SWEEP);
        server.helpers.push(runtime.spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                sessions.end_idle();
                if let Some(recorder) = &recorder {
                    recorder.run_upkeep();
                }
            }
        }));
        Ok(server)
    }

    /// The address of Flight SQL.
    pub fn flight(&self) -> Option<SocketAddr> {
        self.flight
    }

    /// The address of the Postgres protocol.
    pub fn postgres(&self) -> Option<SocketAddr> {
        self.postgres
    }

    /// The address of the page, its feed, `/healthz` and `/metrics`.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The number of tables of the configured folders.
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// The number of running queries.
    pub fn running(&self) -> usize {
        self.shared.running()
    }

    /// Refuses new queries, waits at most for the configured time until the running ones end, stops the
    /// others, and closes all connections.
    pub async fn stop(mut self) {
        self.shared.stop_new();
        let end = Instant::now() + self.shared.config.grace;
        while self.shared.running() > 0 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.shared.stop_running();
        for listener in std::mem::take(&mut self.listeners) {
            let _ = timeout(CLOSING, listener).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop_new();
        self.shared.stop_running();
        for task in self.listeners.iter().chain(&self.helpers) {
            task.abort();
        }
    }
}

/// A session that registers the tables of folders.
fn registering(shared: &Arc<Shared>) -> Result<Context, ServerError> {
    let config = datafusion::prelude::SessionConfig::new()
        .with_default_catalog_and_schema(tables::CATALOG, tables::SCHEMA);
    let ctx = galatea::session()
        .with_config(config)
        .with_engine(&shared.engine)
        .build()?;
    if let Some(catalog) = ctx.catalog(tables::CATALOG) {
        catalog.register_schema(tables::SCHEMA, Arc::clone(&shared.tables))?;
    }
    Ok(Opaque::new(ctx))
}
