//! `galatea serve`: a server until SIGTERM or Ctrl-C.

use std::io::{self, Write};
use std::net::SocketAddr;

use galatea_server::{Config, Server, Verifier, new_token, token_hash};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{PartServe, ServeArguments, SessionArguments};
use crate::errors::CliError;
use crate::signals;

/// The address of Flight SQL if no other address is given.
const FLIGHT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 31_337);

pub(crate) async fn run(session: &SessionArguments, arguments: &ServeArguments) -> Result<(), CliError> {
    match &arguments.part {
        Some(PartServe::HashPassword) => return hash_password(),
        Some(PartServe::NewToken) => {
            let token = new_token()?;
            let text = format!("token  {token}\nsha256 {}\n", token_hash(&token));
            let _ = io::stdout().write_all(text.as_bytes());
            return Ok(());
        }
        None => {}
    }
    let config = config(session, arguments)?;
    let is_open = !config.authenticates();
    let server = Server::start(config).await?;
    if !session.quiet {
        let _ = io::stderr().write_all(started(&server, is_open).as_bytes());
    }
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|cause| CliError::Other(format!("cannot wait for SIGTERM: {cause}")))?;
    tokio::select! {
        _ = terminate.recv() => {}
        () = signals::pressed() => {}
    }
    tracing::info!(target: "galatea::server", running = server.running(), "stopping");
    server.stop().await;
    Ok(())
}

/// The configuration of the file and of the arguments.
fn config(session: &SessionArguments, arguments: &ServeArguments) -> Result<Config, CliError> {
    let mut config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    config.flight = arguments.flight.or(config.flight);
    config.postgres = arguments.postgres.or(config.postgres);
    config.http = arguments.http.or(config.http);
    if config.flight.is_none() && config.postgres.is_none() {
        config.flight = Some(FLIGHT);
    }
    config.folders.extend(arguments.data.iter().cloned());
    config.settings.extend(session.settings.iter().cloned());
    config.log_statements |= arguments.log_statements;
    config.insecure |= arguments.insecure;
    Ok(config)
}

/// The addresses and the tables, for the user who starts the server.
fn started(server: &Server, is_open: bool) -> String {
    let mut text = format!(
        "galatea {} serves {} tables on {}\n",
        env!("CARGO_PKG_VERSION"),
        server.tables(),
        super::doctor::device_line()
    );
    for (name, address) in [("Flight SQL", server.flight()), ("Postgres", server.postgres())] {
        if let Some(address) = address {
            text += &format!("{name:<10} {address}\n");
        }
    }
    if let Some(address) = server.http() {
        text += &format!("{:<10} http://{address}/\n", "Page");
    }
    if is_open {
        text += "No users are configured: every client that reaches these addresses has access.\n";
    }
    text
}

fn hash_password() -> Result<(), CliError> {
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    read.map_err(|cause| CliError::File {
        path: "standard input".into(),
        cause,
    })?;
    let verifier = Verifier::of(line.trim_end_matches(['\r', '\n']))?;
    let _ = writeln!(io::stdout(), "{verifier}");
    Ok(())
}
