//! Servers on free ports of the loopback address, and their clients.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use galatea_server::{Config, Server, Verifier, token_hash};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;
use tonic::transport::{Channel, Endpoint};

pub(crate) type Flight = FlightSqlServiceClient<Channel>;

/// A query that runs for hours.
pub(crate) const LONG: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(v) WHERE v % 7 = 3";

/// Both protocols and HTTP on free ports, without users.
pub(crate) fn config() -> Config {
    on_free_ports(Config::default())
}

/// A configuration from a file, on free ports.
pub(crate) fn configured(text: &str) -> Config {
    on_free_ports(Config::parse(text, std::path::Path::new("/")).expect("a configuration"))
}

fn on_free_ports(mut config: Config) -> Config {
    let free = Some(([127, 0, 0, 1], 0).into());
    (config.flight, config.postgres, config.http) = (free, free, free);
    config.settings = vec![("galatea.device".to_string(), "cpu".to_string())];
    config
}

/// Users `ann` of role `analyst`, `bob` of role `writer` and a token `t` of role `analyst`. Their passwords
/// are `secret-` and the name.
pub(crate) fn users(analyst: &str, writer: &str) -> String {
    let verifier = |name: &str| Verifier::of(&format!("secret-{name}")).expect("a password");
    format!(
        "[roles.analyst]\n{analyst}\n[roles.writer]\n{writer}\n\
         [users.ann]\npassword = '{}'\nrole = 'analyst'\n\
         [users.bob]\npassword = '{}'\nrole = 'writer'\n\
         [tokens.t]\nsha256 = '{}'\nrole = 'analyst'\n",
        verifier("ann"),
        verifier("bob"),
        token_hash("t0ken")
    )
}

pub(crate) async fn start(config: Config) -> Server {
    Server::start(config).await.expect("the server starts")
}

pub(crate) async fn flight(server: &Server) -> Flight {
    let address = server.flight().expect("an address");
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    FlightSqlServiceClient::new(endpoint.connect().await.expect("a connection"))
}

/// A client of Flight SQL that has logged in.
pub(crate) async fn flight_as(server: &Server, user: &str) -> Flight {
    let mut client = flight(server).await;
    let password = format!("secret-{user}");
    client
        .handshake(user, &password)
        .await
        .expect("the password is right");
    client
}

/// A client of the Postgres protocol.
pub(crate) async fn postgres_with(
    server: &Server,
    user: &str,
    password: &str,
) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let address = server.postgres().expect("an address");
    let mut options = tokio_postgres::Config::new();
    options
        .host("127.0.0.1")
        .port(address.port())
        .user(user)
        .password(password);
    let (client, connection) = options.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A client of the Postgres protocol, and the task of its socket: aborting the task closes the socket.
pub(crate) async fn postgres_socket(server: &Server) -> (tokio_postgres::Client, JoinHandle<()>) {
    let address = server.postgres().expect("an address");
    let mut options = tokio_postgres::Config::new();
    options.host("127.0.0.1").port(address.port()).user("ann");
    let (client, connection) = options.connect(NoTls).await.expect("a connection");
    let socket = tokio::spawn(async move {
        // The error of a socket that the test closes is expected.
        let _ = connection.await;
    });
    (client, socket)
}

pub(crate) async fn postgres(server: &Server) -> tokio_postgres::Client {
    postgres_with(server, "ann", "secret-ann")
        .await
        .expect("a connection")
}

/// The batches of a result.
pub(crate) async fn fetch(client: &mut Flight, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let mut batches = Vec::new();
    for endpoint in info.endpoint {
        let rows = client.do_get(endpoint.ticket.expect("a ticket")).await?;
        batches.extend(rows.try_collect::<Vec<_>>().await?);
    }
    Ok(batches)
}

/// The rows of a query as a table.
pub(crate) async fn query(client: &mut Flight, sql: &str) -> Result<String, FlightError> {
    let info = client.execute(sql.to_string(), None).await?;
    let batches = fetch(client, info).await?;
    Ok(pretty_format_batches(&batches).expect("a table").to_string())
}

/// The code and the message of an error of Flight SQL.
pub(crate) fn status<T: std::fmt::Debug>(result: Result<T, FlightError>) -> (tonic::Code, String) {
    match result.expect_err("an error") {
        FlightError::Tonic(status) => (status.code(), status.message().to_string()),
        other => panic!("not a status: {other}"),
    }
}

/// The SQLSTATE and the message of an error of the Postgres protocol.
pub(crate) fn state<T>(result: Result<T, tokio_postgres::Error>) -> (String, String) {
    let Err(error) = result else {
        panic!("an error was expected")
    };
    let error = error
        .as_db_error()
        .unwrap_or_else(|| panic!("not from the server: {error}"));
    (error.code().code().to_string(), error.message().to_string())
}

/// Waits until the condition holds, for at most ten seconds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(10), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The response of an HTTP request.
pub(crate) async fn http(server: &Server, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = server.http().expect("an address");
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a response");
    response
}
