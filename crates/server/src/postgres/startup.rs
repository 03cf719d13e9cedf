//! The start of a connection: authentication by SCRAM-SHA-256, and the session.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{Sink, SinkExt};
use pgwire::api::auth::{
    ServerParameterProvider, StartupHandler, finish_authentication, protocol_negotiation,
    save_startup_parameters_to_metadata,
};
use pgwire::api::{ClientInfo, METADATA_USER, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::startup::Authentication;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};

use super::catalog;
use super::catalog_names::SERVER_VERSION;
use super::connection::Connection;
use super::errors::{fatal, fatal_state};
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::password::{Exchange, MECHANISM};
use crate::session::Session;
use crate::state::Account;

/// The name of the protocol in logs and metrics.
const PROTOCOL: &str = "postgres";

/// The parameters that a client receives after authentication.
struct Reported<'a>(&'a Connection);

impl ServerParameterProvider for Reported<'_> {
    fn server_parameters<C>(&self, client: &C) -> Option<HashMap<String, String>>
    where
        C: ClientInfo,
    {
        let parameters = self.0.parameters.lock();
        let value = |name: &str| parameters.get(name).unwrap_or_default().to_string();
        let user = client.metadata().get(METADATA_USER).cloned().unwrap_or_default();
        let reported = [
            ("server_version", SERVER_VERSION.to_string()),
            ("server_encoding", value("server_encoding")),
            ("client_encoding", value("client_encoding")),
            ("application_name", value("application_name")),
            ("is_superuser", value("is_superuser")),
            ("session_authorization", user),
            ("DateStyle", value("datestyle")),
            ("IntervalStyle", value("intervalstyle")),
            ("TimeZone", value("timezone")),
            ("integer_datetimes", value("integer_datetimes")),
            (
                "standard_conforming_strings",
                value("standard_conforming_strings"),
            ),
            ("in_hot_standby", value("in_hot_standby")),
            ("search_path", value("search_path")),
            (
                "default_transaction_read_only",
                value("default_transaction_read_only"),
            ),
        ];
        let reported = reported
            .into_iter()
            .map(|(name, value)| (name.to_string(), value));
        Some(reported.collect())
    }
}

fn user<C: ClientInfo>(client: &C) -> String {
    client.metadata().get(METADATA_USER).cloned().unwrap_or_default()
}

impl Connection {
    /// Opens the session of an authenticated client.
    async fn begin<C>(&self, client: &mut C, account: Arc<Account>) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let (shared, user) = (Arc::clone(&self.shared), user(client));
        let (parameters, cursors) = (Arc::clone(&self.parameters), Arc::clone(&self.cursors));
        let opened = tokio::task::spawn_blocking(move || {
            let session = Session::open(&shared, &account, PROTOCOL)?;
            catalog::install(&session.ctx, &user, &parameters, &cursors)?;
            Ok::<_, Failure>(Arc::new(session))
        });
        let opened = opened.await.unwrap_or_else(|_| {
            Err(Failure::new(
                FailureKind::Query(ErrorKind::Internal),
                "internal error: the session could not be opened",
            ))
        });
        let session = opened.map_err(fatal)?;
        {
            let mut parameters = self.parameters.lock();
            for (name, value) in client.metadata() {
                let name = name.to_ascii_lowercase();
                if parameters.get(&name).is_some() {
                    parameters
                        .set(&name, Some(value.clone()))
                        .map_err(|problem| fatal(Failure::invalid(problem)))?;
                }
            }
        }
        let (number, key) = self.registry.register(client, &session);
        client.set_pid_and_secret_key(number, key);
        // A connection authenticates once.
        let _ = self.session.set((session, number));
        finish_authentication(client, &Reported(self)).await
    }
}

#[async_trait]
impl StartupHandler for Connection {
    async fn on_startup<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        match message {
            PgWireFrontendMessage::Startup(startup)
                if matches!(client.state(), PgWireConnectionState::AwaitingStartup) =>
            {
                protocol_negotiation(client, &startup).await?;
                save_startup_parameters_to_metadata(client, &startup);
                if self.shared.config.tls.is_some() && !client.is_secure() {
                    return Err(fatal_state(
                        "28000",
                        "the server requires TLS: connect with sslmode=require",
                    ));
                }
                if let Some(account) = self.shared.local() {
                    return self.begin(client, account).await;
                }
                client.set_state(PgWireConnectionState::AuthenticationInProgress);
                let mechanisms = Authentication::SASL(vec![MECHANISM.to_string()]);
                client
                    .send(PgWireBackendMessage::Authentication(mechanisms))
                    .await?;
                Ok(())
            }
            PgWireFrontendMessage::PasswordMessageFamily(message) => {
                let user = user(client);
                let begun = self.exchange.lock().take();
                let Some(exchange) = begun else {
                    let first = message.into_sasl_initial_response()?;
                    if first.auth_method != MECHANISM {
                        return Err(PgWireError::UnsupportedSASLAuthMethod(first.auth_method));
                    }
                    let begun = Exchange::begin(&first.data.unwrap_or_default(), self.shared.verifier(&user));
                    let (exchange, answer) = begun.map_err(|refused| fatal_state("08P01", refused.0))?;
                    *self.exchange.lock() = Some(exchange);
                    let answer = Authentication::SASLContinue(answer.into());
                    client.send(PgWireBackendMessage::Authentication(answer)).await?;
                    return Ok(());
                };
                let last = message.into_sasl_response()?;
                let Ok(answer) = exchange.finish(&last.data) else {
                    return Err(fatal(self.shared.refuse_credentials(&user).await));
                };
                let account = self.shared.verified(&user).map_err(fatal)?;
                let answer = Authentication::SASLFinal(answer.into());
                client.feed(PgWireBackendMessage::Authentication(answer)).await?;
                self.begin(client, account).await
            }
            _ => Err(fatal_state("08P01", "expected a message of authentication")),
        }
    }
}
