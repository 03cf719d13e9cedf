//! Simple and extended queries of one connection.

use std::pin::pin;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use arrow_pg::datatypes::{df, into_pg_type};
use async_trait::async_trait;
use datafusion::common::ParamValues;
use datafusion::scalar::ScalarValue;
use futures::Sink;
use futures::stream;
use futures::{SinkExt, StreamExt};
use pgwire::api::portal::{Format, Portal, PortalExecutionState};
use pgwire::api::query::{
    ExtendedQueryHandler, SimpleQueryHandler, send_describe_response, send_execution_response,
    send_partial_query_response, send_query_response, send_ready_for_query,
};
use pgwire::api::results::{
    DataRowEncoder, DescribePortalResponse, FieldFormat, FieldInfo, QueryResponse, Response, Tag,
};
use pgwire::api::stmt::QueryParser;
use pgwire::api::store::{Entry, PortalStore};
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, PgWireConnectionState, Type};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::extendedquery::{Describe, Execute, TARGET_TYPE_BYTE_PORTAL};
use pgwire::messages::response::EmptyQueryResponse;
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::ParameterStatus;
use pgwire::types::format::FormatOptions;

use super::catalog;
use super::commands::{Command, command, reported};
use super::connection::Connection;
use super::copy::{self, Lines};
use super::cursors::{self, CursorStatement};
use super::errors::{error, invalid, warning};
use super::rows;
use crate::failure::Failure;
use crate::session::{Prepared, Session};
use crate::statement::{Class, split};

/// A statement of a connection.
#[derive(Debug, Clone)]
pub(super) enum PgStatement {
    /// A statement that only PostgreSQL has.
    Command(Command),
    /// A statement of the engine, and the use of its rows.
    Planned {
        prepared: Arc<Prepared>,
        /// The columns of the result, for the types of parameters that the client named.
        schema: Option<SchemaRef>,
        rows: RowsTo,
    },
    /// `FETCH` or `MOVE`; `None` is all rows.
    Fetch {
        cursor: String,
        rows: Option<usize>,
        tag: &'static str,
        schema: SchemaRef,
    },
    /// `CLOSE name`; `None` is `ALL`.
    Close(Option<String>),
}

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

/// Types of the parameters: of the engine, and of the protocol.
fn parameter_types(prepared: &Prepared) -> PgWireResult<Vec<(Option<DataType>, Type)>> {
    let types = prepared.parameters().map_err(error)?;
    let types = types.into_iter().map(|data_type| {
        let wire = match &data_type {
            Some(data_type) => into_pg_type(data_type).unwrap_or(Type::TEXT),
            None => Type::TEXT,
        };
        (data_type, wire)
    });
    Ok(types.collect())
}

/// The type of a NULL of a type of the protocol; `None` for types that the engine does not have.
fn engine_type(wire: &Type) -> Option<DataType> {
    match *wire {
        Type::BOOL => Some(DataType::Boolean),
        Type::INT2 => Some(DataType::Int16),
        Type::INT4 => Some(DataType::Int32),
        Type::INT8 => Some(DataType::Int64),
        Type::FLOAT4 => Some(DataType::Float32),
        Type::FLOAT8 => Some(DataType::Float64),
        Type::DATE => Some(DataType::Date32),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => Some(DataType::Utf8),
        _ => None,
    }
}

/// The columns of a query with parameters of these types.
fn described(prepared: &Prepared, client: &[Option<Type>]) -> Option<SchemaRef> {
    let schema = prepared.schema()?;
    let known = prepared.parameters().ok()?;
    if known.is_empty() || known.iter().all(Option::is_some) {
        return Some(schema);
    }
    let nulls = known.into_iter().enumerate().map(|(index, data_type)| {
        let named = client.get(index).and_then(Option::as_ref).and_then(engine_type);
        ScalarValue::try_from(data_type.or(named).unwrap_or(DataType::Utf8))
    });
    let nulls = nulls.collect::<Result<Vec<_>, _>>().ok()?;
    let bound = prepared.bind(nulls).ok();
    bound.and_then(|bound| bound.schema()).or(Some(schema))
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
    fn session(&self) -> PgWireResult<&Arc<Session>> {
        let session = self.session.get().map(|(session, _)| session);
        session.ok_or(PgWireError::NotReadyForQuery)
    }

    /// Plans a statement.
    async fn plan(&self, text: &str, types: &[Option<Type>]) -> PgWireResult<PgStatement> {
        if let Some(command) = command(text) {
            return Ok(PgStatement::Command(command));
        }
        if let Some(copy) = copy::parse(text) {
            let copy = copy?;
            return self.plan_rows(&copy.query, types, RowsTo::Copy(copy.lines)).await;
        }
        match cursors::parse(text).transpose()? {
            None => self.plan_rows(text, types, RowsTo::Client).await,
            Some(CursorStatement::Declare { name, holds, query }) => {
                self.plan_rows(query, types, RowsTo::Cursor { name, holds }).await
            }
            Some(CursorStatement::Fetch { name, rows, tag }) => Ok(PgStatement::Fetch {
                schema: self.cursors.schema(&name)?,
                cursor: name,
                rows,
                tag,
            }),
            Some(CursorStatement::Close(name)) => Ok(PgStatement::Close(name)),
        }
    }

    /// Plans a statement of the engine.
    async fn plan_rows(&self, text: &str, types: &[Option<Type>], rows: RowsTo) -> PgWireResult<PgStatement> {
        let session = self.session()?;
        let prepared = match catalog::rewritten(text) {
            Some(sql) => session.prepare_as(text, &sql).await,
            None => session.prepare(text).await,
        };
        let prepared = Arc::new(prepared.map_err(error)?);
        self.keep(&prepared).map_err(error)?;
        if !matches!(rows, RowsTo::Client) && prepared.checked.class != Class::Query {
            let tag = prepared.checked.tag;
            return Err(invalid(format!("{tag} has no rows for a cursor or for COPY")));
        }
        let schema = described(&prepared, types);
        Ok(PgStatement::Planned {
            prepared,
            schema,
            rows,
        })
    }

    /// Runs a statement of the engine.
    async fn run_for<C>(
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
    async fn fetch(
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

    fn close(&self, cursor: Option<&str>) -> PgWireResult<Response> {
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
        let rows = session.run(prepared).await.map_err(error)?;
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
            (Class::Update, _) => command.with_rows(changed),
            _ => command,
        }))
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
                "ROLLBACK" if std::mem::take(&mut transaction.changed) => {
                    Some("ROLLBACK has no effect: the statements since BEGIN have changed data")
                }
                _ => None,
            }
        };
        if matches!(tag, "COMMIT" | "ROLLBACK") {
            self.cursors.end_transaction();
        }
        if let Some(notice) = notice {
            let notice = PgWireBackendMessage::NoticeResponse(warning(notice).into());
            client.feed(notice).await?;
        }
        Ok(match tag {
            "BEGIN" => Response::TransactionStart(Tag::new(tag)),
            "COMMIT" | "ROLLBACK" => Response::TransactionEnd(Tag::new(tag)),
            _ => Response::Execution(Tag::new(tag)),
        })
    }

    /// Runs a statement that only PostgreSQL has.
    async fn command<C>(&self, client: &mut C, command: &Command) -> PgWireResult<Response>
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
                self.set_time_zone(session, "+00:00").await?;
                if *tag == "DISCARD ALL" {
                    self.cursors.close_all();
                }
                Ok(Response::Execution(Tag::new(tag)))
            }
            Command::Set(name, value) => {
                if name == "timezone" {
                    // The engine checks the name of the zone.
                    self.set_time_zone(session, value.as_deref().unwrap_or("+00:00"))
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

/// Reports the end of a statement without rows.
async fn complete<C>(client: &mut C, response: Response) -> PgWireResult<()>
where
    C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
    C::Error: std::fmt::Debug,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    let status = client.transaction_status();
    match response {
        Response::TransactionStart(tag) => {
            send_execution_response(client, tag).await?;
            client.set_transaction_status(status.to_in_transaction_state());
        }
        Response::TransactionEnd(tag) => {
            send_execution_response(client, tag).await?;
            client.set_transaction_status(status.to_idle_state());
        }
        Response::Execution(tag) => send_execution_response(client, tag).await?,
        _ => return Err(invalid("the statement has no rows")),
    }
    Ok(())
}

fn value_is_default(command: &Command) -> bool {
    matches!(command, Command::Set(_, None))
}

#[async_trait]
impl SimpleQueryHandler for Connection {
    /// Runs the statements of a string one after the other, up to the first that fails.
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Err(PgWireError::NotReadyForQuery);
        }
        client.set_state(PgWireConnectionState::QueryInProgress);
        let dialect = self.session()?.dialect();
        let statements = split(&query.query, &dialect);
        if statements.is_empty() {
            client
                .feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()))
                .await?;
        }
        for statement in statements {
            for response in SimpleQueryHandler::do_query(self, client, &statement).await? {
                match response {
                    Response::Query(rows) => send_query_response(client, rows, true).await?,
                    other => complete(client, other).await?,
                }
            }
        }
        client.set_state(PgWireConnectionState::ReadyForQuery);
        let status = client.transaction_status();
        send_ready_for_query(client, status).await
    }

    /// Runs one statement.
    async fn do_query<C>(&self, client: &mut C, query: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let response = match self.plan(query, &[]).await? {
            PgStatement::Command(command) => self.command(client, &command).await?,
            PgStatement::Planned { prepared, rows, .. } => {
                self.run_for(client, &prepared, &rows, &Format::UnifiedText)
                    .await?
            }
            PgStatement::Fetch {
                cursor, rows, tag, ..
            } => self.fetch(&cursor, rows, tag, &Format::UnifiedText).await?,
            PgStatement::Close(cursor) => self.close(cursor.as_deref())?,
        };
        Ok(vec![response])
    }
}

/// Plans the statements of extended queries.
pub(super) struct Planner(pub(super) Arc<Connection>);

#[async_trait]
impl QueryParser for Planner {
    type Statement = PgStatement;

    async fn parse_sql<C>(
        &self,
        _client: &C,
        sql: &str,
        types: &[Option<Type>],
    ) -> PgWireResult<Option<PgStatement>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        let dialect = self.0.session()?.dialect();
        let mut statements = split(sql, &dialect);
        match (statements.pop(), statements.is_empty()) {
            (None, _) => Ok(None),
            (Some(statement), true) => self.0.plan(&statement, types).await.map(Some),
            (Some(_), false) => Err(error(Failure::new(
                crate::failure::FailureKind::Syntax,
                "cannot insert multiple commands into a prepared statement",
            ))),
        }
    }

    fn get_parameter_types(&self, statement: &PgStatement) -> PgWireResult<Vec<Type>> {
        match statement {
            PgStatement::Command(_) | PgStatement::Fetch { .. } | PgStatement::Close(_) => Ok(Vec::new()),
            PgStatement::Planned { prepared, .. } => {
                let types = parameter_types(prepared)?;
                Ok(types.into_iter().map(|(_, wire)| wire).collect())
            }
        }
    }

    fn get_result_schema(
        &self,
        statement: &PgStatement,
        format: Option<&Format>,
    ) -> PgWireResult<Vec<FieldInfo>> {
        let format = format.unwrap_or(&Format::UnifiedText);
        match statement {
            PgStatement::Command(Command::Show(name)) => Ok(vec![FieldInfo::new(
                name.clone(),
                None,
                None,
                Type::TEXT,
                FieldFormat::Text,
            )]),
            PgStatement::Fetch {
                schema, tag: "FETCH", ..
            }
            | PgStatement::Planned {
                schema: Some(schema),
                rows: RowsTo::Client,
                ..
            } => rows::fields(schema, format),
            _ => Ok(Vec::new()),
        }
    }
}

/// Runs extended queries.
pub(super) struct Extended {
    pub(super) connection: Arc<Connection>,
    pub(super) planner: Arc<Planner>,
}

#[async_trait]
impl ExtendedQueryHandler for Extended {
    type Statement = PgStatement;
    type QueryParser = Planner;

    fn query_parser(&self) -> Arc<Planner> {
        Arc::clone(&self.planner)
    }

    /// Runs a portal, or continues it, up to the number of rows of the message. The default of pgwire
    /// collects all rows before it sends the first.
    async fn on_execute<C>(&self, client: &mut C, message: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = PgStatement>,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Err(PgWireError::NotReadyForQuery);
        }
        client.set_state(PgWireConnectionState::QueryInProgress);
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        let most = usize::try_from(message.max_rows).unwrap_or(0);
        let portal = match client.portal_store().get_portal(name) {
            Some(Entry::Value(portal)) => portal,
            Some(Entry::Empty) => {
                let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
                client.feed(empty).await?;
                client.set_state(PgWireConnectionState::ReadyForQuery);
                return Ok(());
            }
            None => return Err(PgWireError::PortalNotFound(name.to_string())),
        };
        let state = portal.state();
        let mut state = state.lock().await;
        if matches!(*state, PortalExecutionState::Initial) {
            match ExtendedQueryHandler::do_query(self, client, &portal, most).await? {
                Response::Query(rows) => *state = PortalExecutionState::Suspended(rows),
                other => {
                    *state = PortalExecutionState::Finished;
                    complete(client, other).await?;
                    client.set_state(PgWireConnectionState::ReadyForQuery);
                    return Ok(());
                }
            }
        }
        let suspended = match &mut *state {
            PortalExecutionState::Suspended(rows) => send_partial_query_response(client, rows, most).await?,
            _ => {
                let tag = Tag::new("SELECT").with_rows(0);
                client
                    .feed(PgWireBackendMessage::CommandComplete(tag.into()))
                    .await?;
                false
            }
        };
        if !suspended {
            *state = PortalExecutionState::Finished;
        }
        client.set_state(PgWireConnectionState::ReadyForQuery);
        Ok(())
    }

    /// Describes a statement, a portal, or a cursor, which is a portal of its name.
    async fn on_describe<C>(&self, client: &mut C, message: Describe) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = PgStatement>,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        let is_portal = message.target_type == TARGET_TYPE_BYTE_PORTAL;
        match is_portal.then(|| self.connection.cursors.schema(name)) {
            Some(Ok(schema)) => {
                let fields = rows::fields(&schema, &Format::UnifiedText)?;
                send_describe_response(client, &DescribePortalResponse::new(fields)).await
            }
            _ => self._on_describe(client, message).await,
        }
    }

    async fn do_query<C>(
        &self,
        client: &mut C,
        portal: &Portal<PgStatement>,
        _max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let connection = &self.connection;
        let format = &portal.result_column_format;
        let (prepared, rows) = match &portal.statement.statement {
            PgStatement::Command(command) => return connection.command(client, command).await,
            PgStatement::Planned { prepared, rows, .. } => (prepared, rows),
            PgStatement::Fetch {
                cursor, rows, tag, ..
            } => {
                return connection.fetch(cursor, *rows, tag, format).await;
            }
            PgStatement::Close(cursor) => return connection.close(cursor.as_deref()),
        };
        let types = parameter_types(prepared)?;
        if types.is_empty() && portal.parameter_len() == 0 {
            return connection.run_for(client, prepared, rows, format).await;
        }
        let known: Vec<_> = types.iter().map(|(data_type, _)| data_type.as_ref()).collect();
        let wire: Vec<_> = types.iter().map(|(_, wire)| Some(wire)).collect();
        let values = match df::deserialize_parameters_with_server_types(portal, &known, &wire)? {
            ParamValues::List(values) => values.into_iter().map(|value| value.value).collect(),
            ParamValues::Map(_) => return Err(invalid("parameters have numbers, not names")),
        };
        let bound = prepared.bind(values).map_err(error)?;
        connection.run_for(client, &bound, rows, format).await
    }
}
