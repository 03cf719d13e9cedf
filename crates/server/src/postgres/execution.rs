//! Runs the statements of one connection.

use std::pin::pin;
use std::sync::Arc;

use futures::{Sink, SinkExt, StreamExt, stream};
use pgwire::api::portal::Format;
use pgwire::api::results::{DataRowEncoder, FieldFormat, FieldInfo, QueryResponse, Response, Tag};
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, Type};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::TransactionStatus;
use pgwire::messages::startup::ParameterStatus;
use pgwire::types::format::FormatOptions;

use super::commands::{Command, reported};
use super::connection::Connection;
use super::copy::Lines;
use super::errors::{error, invalid, warning};
use super::rows;
use crate::session::{Prepared, Session};
use crate::statement::Class;

/// The default time zone of the engine.
const UTC: &str = "+00:00";

/// The use of the rows of a statement.
#[derive(Debug, Clone)]
pub(super) enum RowsTo {
    /// They are the result.
    Client,
    /// The client fetches them from a cursor.
    Cursor { name: String, holds: bool },
    /// They are lines of `COPY TO STDOUT`.
    Copy(Lines),
}

/// A result of one string.
fn one_string(name: &str, value: &str) -> PgWireResult<QueryResponse> {
    let field = FieldInfo::new(name.to_string(), None, None, Type::TEXT, FieldFormat::Text);
    let fields = Arc::new(vec![field]);
    let mut encoder = DataRowEncoder::new(Arc::clone(&fields));
    encoder.encode_field(&Some(value))?;
    let row = encoder.take_row();
    let mut response = QueryResponse::new(fields, stream::iter([Ok(row)]));
    response.set_command_tag("SHOW");
    Ok(response)
}

impl Connection {
    pub(super) fn session(&self) -> PgWireResult<&Arc<Session>> {
        let session = self.session.get().map(|(session, _)| session);
        session.ok_or(PgWireError::NotReadyForQuery)
    }

    /// Runs a statement of the engine.
    pub(super) async fn run_for<C>(
        &self,
        client: &mut C,
        prepared: &Prepared,
        rows: &RowsTo,
        format: &Format,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        match rows {
            RowsTo::Client => self.run(client, prepared, format).await,
            RowsTo::Cursor { name, holds } => {
                self.cursors.check_free(name)?;
                let rows = self.session()?.run(prepared).await.map_err(error)?;
                self.cursors.open(name.clone(), *holds, rows);
                Ok(Response::Execution(Tag::new("DECLARE CURSOR")))
            }
            RowsTo::Copy(lines) => {
                let rows = self.session()?.run(prepared).await.map_err(error)?;
                let rows = rows::response(rows, &Format::UnifiedText, self.format_options(), "COPY")?;
                let sent = lines.send(client, rows).await?;
                Ok(Response::Execution(Tag::new("COPY").with_rows(sent)))
            }
        }
    }

    /// The next rows of a cursor; `MOVE` skips them.
    pub(super) async fn fetch(
        &self,
        cursor: &str,
        rows: Option<usize>,
        tag: &'static str,
        format: &Format,
    ) -> PgWireResult<Response> {
        let schema = self.cursors.schema(cursor)?;
        let batches = self.cursors.fetch(cursor, rows).await?;
        if tag == "FETCH" {
            let options = self.format_options();
            let response = rows::response_of(&schema, batches, format, options, tag)?;
            return Ok(Response::Query(response));
        }
        let mut skipped = 0;
        let mut batches = pin!(batches);
        while let Some(batch) = batches.next().await {
            skipped += batch.map_err(error)?.num_rows();
        }
        Ok(Response::Execution(Tag::new(tag).with_rows(skipped)))
    }

    pub(super) fn close(&self, cursor: Option<&str>) -> PgWireResult<Response> {
        match cursor {
            Some(name) => self.cursors.close(name)?,
            None => self.cursors.close_all(),
        }
        let tag = if cursor.is_some() {
            "CLOSE CURSOR"
        } else {
            "CLOSE CURSOR ALL"
        };
        Ok(Response::Execution(Tag::new(tag)))
    }

    /// Runs a statement without parameters.
    async fn run<C>(&self, client: &mut C, prepared: &Prepared, format: &Format) -> PgWireResult<Response>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let session = self.session()?;
        let tag = prepared.checked.tag;
        if prepared.checked.class == Class::Nothing {
            return self.transaction(client, tag).await;
        }
        let mut rows = session.run(prepared).await.map_err(error)?;
        rows.schema = prepared.shown(rows.schema);
        if prepared.checked.class != Class::Update && !rows.schema.fields().is_empty() {
            let options = self.format_options();
            return Ok(Response::Query(rows::response(rows, format, options, tag)?));
        }
        let changed = rows.count().await.map_err(error)?;
        let changed = usize::try_from(changed).unwrap_or(usize::MAX);
        if matches!(prepared.checked.class, Class::Update | Class::Immediate) && tag != "SET" {
            self.transaction.lock().changed = true;
        }
        let command = Tag::new(tag);
        Ok(Response::Execution(match (prepared.checked.class, tag) {
            (Class::Update, "INSERT") => command.with_oid(0).with_rows(changed),
            // PostgreSQL counts no rows of TRUNCATE.
            (Class::Update, "TRUNCATE TABLE") => command,
            (Class::Update, _) => command.with_rows(changed),
            _ => command,
        }))
    }

    /// The time zone of the connection, as the engine names it.
    pub(super) fn time_zone(&self) -> String {
        match self.parameters.lock().get("timezone") {
            None | Some("UTC") => UTC.to_string(),
            Some(zone) => zone.to_string(),
        }
    }

    fn format_options(&self) -> FormatOptions {
        let mut options = FormatOptions::default();
        let parameters = self.parameters.lock();
        if let Some(output) = parameters.get("bytea_output") {
            options.bytea_output = output.to_string();
        }
        if let Some(style) = parameters.get("intervalstyle") {
            options.interval_style = style.to_string();
        }
        options
    }

    /// Accepts a statement of transactions, with a warning if its meaning is lost.
    async fn transaction<C>(&self, client: &mut C, tag: &'static str) -> PgWireResult<Response>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let notice = {
            let mut transaction = self.transaction.lock();
            match tag {
                "BEGIN" => {
                    transaction.changed = false;
                    let first = !std::mem::replace(&mut transaction.warned, true);
                    first.then_some("transactions are not supported: each statement takes effect at once")
                }
                "COMMIT" if client.transaction_status() != TransactionStatus::Error => None,
                "ROLLBACK" | "COMMIT" | "ROLLBACK TO SAVEPOINT"
                    if std::mem::take(&mut transaction.changed) =>
                {
                    Some("ROLLBACK has no effect: the statements since BEGIN have changed data")
                }
                _ => None,
            }
        };
        let ends = matches!(tag, "COMMIT" | "ROLLBACK");
        if ends {
            self.cursors.end_transaction();
        }
        let mut tag = tag;
        match (tag, client.transaction_status()) {
            ("ROLLBACK TO SAVEPOINT", status) => {
                tag = "ROLLBACK";
                if status == TransactionStatus::Error {
                    client.set_transaction_status(TransactionStatus::Transaction);
                }
            }
            // A failed transaction is rolled back.
            ("COMMIT", TransactionStatus::Error) => tag = "ROLLBACK",
            _ => {}
        }
        if let Some(notice) = notice {
            let notice = PgWireBackendMessage::NoticeResponse(warning(notice).into());
            client.feed(notice).await?;
        }
        Ok(match tag {
            "BEGIN" => Response::TransactionStart(Tag::new(tag)),
            "COMMIT" | "ROLLBACK" if ends => Response::TransactionEnd(Tag::new(tag)),
            _ => Response::Execution(Tag::new(tag)),
        })
    }

    /// Runs a statement that only PostgreSQL has.
    pub(super) async fn command<C>(&self, client: &mut C, command: &Command) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let session = self.session()?;
        match command {
            Command::Nothing(tag) => Ok(Response::Execution(Tag::new(tag))),
            Command::Deallocate(name) => {
                if let Some(name) = name {
                    client.portal_store().rm_statement(name);
                }
                Ok(Response::Execution(Tag::new("DEALLOCATE")))
            }
            Command::Show(name) => {
                let value = self.parameters.lock().get(name).unwrap_or_default().to_string();
                Ok(Response::Query(one_string(name, &value)?))
            }
            Command::ResetAll(tag) => {
                self.parameters.lock().reset();
                session.set_timeout(None);
                self.set_time_zone(session, UTC).await?;
                if *tag == "DISCARD ALL" {
                    self.cursors.close_all();
                }
                Ok(Response::Execution(Tag::new(tag)))
            }
            Command::Set(name, value) => {
                if name == "timezone" {
                    // The engine checks the name of the zone.
                    self.set_time_zone(session, value.as_deref().unwrap_or(UTC))
                        .await?;
                }
                let set = self.parameters.lock().set(name, value.clone());
                let value = set.map_err(invalid)?;
                if name == "statement_timeout" {
                    session.set_timeout(self.parameters.lock().statement_timeout());
                }
                if let Some(shown) = reported(name) {
                    let status = ParameterStatus::new(shown.to_string(), value);
                    client.feed(PgWireBackendMessage::ParameterStatus(status)).await?;
                }
                let tag = if value_is_default(command) { "RESET" } else { "SET" };
                Ok(Response::Execution(Tag::new(tag)))
            }
        }
    }

    async fn set_time_zone(&self, session: &Arc<Session>, zone: &str) -> PgWireResult<()> {
        let sql = format!(
            "SET datafusion.execution.time_zone = '{}'",
            zone.replace('\'', "''")
        );
        let prepared = session.prepare(&sql).await.map_err(error)?;
        let rows = session.run(&prepared).await.map_err(error)?;
        rows.count().await.map_err(error).map(drop)
    }
}

fn value_is_default(command: &Command) -> bool {
    matches!(command, Command::Set(_, None))
}
