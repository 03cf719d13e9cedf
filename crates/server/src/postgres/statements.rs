//! Simple and extended queries of one connection.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{Sink, SinkExt};
use pgwire::api::portal::{Format, Portal, PortalExecutionState};
use pgwire::api::query::{
    ExtendedQueryHandler, SimpleQueryHandler, send_describe_response, send_execution_response,
    send_partial_query_response, send_query_response, send_ready_for_query,
};
use pgwire::api::results::{DescribePortalResponse, DescribeResponse, FieldFormat, FieldInfo, Response, Tag};
use pgwire::api::stmt::QueryParser;
use pgwire::api::store::{Entry, PortalStore};
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, PgWireConnectionState, Type};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::extendedquery::{Describe, Execute, TARGET_TYPE_BYTE_PORTAL};
use pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};
use pgwire::messages::simplequery::Query;

use super::catalog_sql::rewritten;
use super::commands::{Command, command};
use super::connection::Connection;
use super::copy::{self, Copy};
use super::copy_rows::CopyTarget;
use super::cursors::{self, CursorStatement};
use super::errors::{error, error_state, invalid};
use super::execution::RowsTo;
use super::limits::FUNCTION_CALL;
use super::parameters::{self, Parameter};
use super::rows;
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::session::{Forms, Prepared};
use crate::statement::Class;
use crate::statement_text::{split, words};

/// A statement of a connection.
#[derive(Debug, Clone)]
pub(super) enum PgStatement {
    /// A statement that only PostgreSQL has.
    Command(Command),
    /// A statement of the engine, and the use of its rows.
    Planned {
        prepared: Arc<Prepared>,
        /// The columns of the result, for the types of the parameters.
        schema: Option<SchemaRef>,
        parameters: Vec<Parameter>,
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
    /// `COPY table FROM STDIN`.
    CopyIn(Arc<CopyTarget>),
}

/// The columns of a query with parameters of these types.
fn described(prepared: &Prepared, parameters: &[Parameter], zone: &str) -> Option<SchemaRef> {
    let schema = prepared.schema()?;
    if parameters.is_empty() {
        return Some(schema);
    }
    let nulls = parameters.iter().map(|parameter| parameter.null(zone));
    let nulls = nulls.collect::<Result<Vec<_>, _>>().ok()?;
    let bound = prepared.bind(nulls).ok();
    bound.and_then(|bound| bound.schema()).or(Some(schema))
}

impl Connection {
    /// Plans a statement.
    async fn plan(&self, text: &str, types: &[Option<Type>]) -> PgWireResult<PgStatement> {
        if let Some(command) = command(text) {
            return Ok(PgStatement::Command(command));
        }
        if let Some(copy) = copy::parse(text) {
            return match copy? {
                Copy::Out(copy) => self.plan_rows(&copy.query, types, RowsTo::Copy(copy.lines)).await,
                Copy::In(copy) => Ok(PgStatement::CopyIn(Arc::new(self.plan_copy(copy).await?))),
            };
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
        let dialect = session.dialect();
        let rewritten = rewritten(text, &dialect);
        let (sql, last_resort) = match rewritten {
            Some(rewritten) => (rewritten.sql, rewritten.last_resort),
            None => (text.to_string(), None),
        };
        let typed = parameters::with_types(&sql, &dialect, types);
        let forms = Forms {
            sql,
            typed,
            last_resort,
        };
        let prepared = session.prepare_as(text, forms).await;
        let prepared = Arc::new(prepared.map_err(error)?);
        self.keep(&prepared).map_err(error)?;
        if !matches!(rows, RowsTo::Client) && prepared.checked.class != Class::Query {
            let tag = prepared.checked.tag;
            return Err(invalid(format!("{tag} has no rows for a cursor or for COPY")));
        }
        let parameters = parameters::parameters(&prepared, types)?;
        let schema = described(&prepared, &parameters, &self.time_zone());
        Ok(PgStatement::Planned {
            prepared,
            schema,
            parameters,
            rows,
        })
    }
}

/// Refuses statements of a failed transaction, except those that end it.
fn check_transaction<C: ClientInfo>(client: &C, text: &str, dialect: &str) -> PgWireResult<()> {
    if client.transaction_status() != TransactionStatus::Error {
        return Ok(());
    }
    let words = words(text, dialect, 1);
    match words.first().map(String::as_str) {
        Some("ROLLBACK" | "ABORT" | "COMMIT" | "END") => Ok(()),
        _ => Err(error_state(
            "25P02",
            "current transaction is aborted, commands ignored until end of transaction block\n\
             hint: send ROLLBACK. The statements before the error have taken effect",
        )),
    }
}

/// A copy that a caller does not begin itself.
fn unexpected_copy() -> PgWireError {
    error(Failure::new(
        FailureKind::Query(ErrorKind::Internal),
        "internal error: COPY FROM STDIN has no response of rows; this is a bug, please report it",
    ))
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
        if query.query.starts_with(FUNCTION_CALL) {
            return Err(error(Failure::unsupported(
                "the message FunctionCall is not supported\nhint: send SELECT f(...)",
            )));
        }
        let dialect = self.session()?.dialect();
        let statements = split(&query.query, &dialect);
        if statements.is_empty() {
            client
                .feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()))
                .await?;
        }
        let last = statements.len().saturating_sub(1);
        for (number, statement) in statements.into_iter().enumerate() {
            check_transaction(client, &statement, &dialect)?;
            // The client sends rows next, so this function returns before they arrive.
            if let Some(Ok(Copy::In(copy))) = copy::parse(&statement) {
                if number < last {
                    return Err(error(Failure::unsupported(
                        "COPY FROM STDIN must be the last statement of a string",
                    )));
                }
                let target = self.plan_copy(copy).await?;
                self.begin_copy(client, &target).await?;
                client.set_state(PgWireConnectionState::CopyInProgress(false));
                return Ok(());
            }
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
            PgStatement::CopyIn(_) => return Err(unexpected_copy()),
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
        client: &C,
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
            (Some(statement), true) => {
                check_transaction(client, &statement, &dialect)?;
                self.0.plan(&statement, types).await.map(Some)
            }
            (Some(_), false) => Err(error(Failure::new(
                FailureKind::Query(ErrorKind::Syntax),
                "cannot insert multiple commands into a prepared statement",
            ))),
        }
    }

    fn get_parameter_types(&self, statement: &PgStatement) -> PgWireResult<Vec<Type>> {
        match statement {
            PgStatement::Command(_)
            | PgStatement::Fetch { .. }
            | PgStatement::Close(_)
            | PgStatement::CopyIn(_) => Ok(Vec::new()),
            PgStatement::Planned { parameters, .. } => Ok(parameters
                .iter()
                .map(|parameter| parameter.wire.clone())
                .collect()),
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
        if client.transaction_status() == TransactionStatus::Error {
            let text = match &portal.statement.statement {
                PgStatement::Planned { prepared, .. } => Arc::clone(&prepared.text),
                _ => Arc::default(),
            };
            check_transaction(client, &text, &self.connection.session()?.dialect())?;
        }
        let state = portal.state();
        let mut state = state.lock().await;
        if let PgStatement::CopyIn(target) = &portal.statement.statement {
            if !matches!(*state, PortalExecutionState::Initial) {
                return Err(invalid("the portal of COPY FROM STDIN has run"));
            }
            *state = PortalExecutionState::Finished;
            self.connection.begin_copy(client, target).await?;
            client.set_state(PgWireConnectionState::CopyInProgress(true));
            return Ok(());
        }
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
            None => {
                let stored = client.portal_store().get_statement(name);
                let Some(Entry::Value(statement)) = stored else {
                    return self._on_describe(client, message).await;
                };
                let described = self.do_describe_statement(client, &statement).await?;
                if !described.fields.is_empty() {
                    return send_describe_response(client, &described).await;
                }
                // The function of pgwire describes no columns if the statement has parameters.
                let parameters = described.parameters.iter().map(Type::oid).collect();
                let parameters = ParameterDescription::new(parameters);
                client
                    .feed(PgWireBackendMessage::ParameterDescription(parameters))
                    .await?;
                send_describe_response(client, &DescribePortalResponse::no_data()).await
            }
            Some(Err(_)) => self._on_describe(client, message).await,
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
        let (prepared, parameters, rows) = match &portal.statement.statement {
            PgStatement::Command(command) => return connection.command(client, command).await,
            PgStatement::Planned {
                prepared,
                parameters,
                rows,
                ..
            } => (prepared, parameters, rows),
            PgStatement::Fetch {
                cursor, rows, tag, ..
            } => {
                return connection.fetch(cursor, *rows, tag, format).await;
            }
            PgStatement::Close(cursor) => return connection.close(cursor.as_deref()),
            PgStatement::CopyIn(_) => return Err(unexpected_copy()),
        };
        if parameters.is_empty() && portal.parameters.is_empty() {
            return connection.run_for(client, prepared, rows, format).await;
        }
        let zone = connection.time_zone();
        let values = portal.parameters.iter().zip(parameters).enumerate();
        let values = values.map(|(index, (bytes, parameter))| {
            let is_binary = match &portal.parameter_format {
                Format::UnifiedText => false,
                Format::UnifiedBinary => true,
                Format::Individual(formats) => formats.get(index).is_some_and(|format| *format == 1),
            };
            parameter.value(bytes.as_deref(), is_binary, &zone)
        });
        let values = values.collect::<PgWireResult<Vec<_>>>()?;
        if portal.parameters.len() != parameters.len() {
            let problem = format!(
                "bind message supplies {} parameters, but the statement requires {}",
                portal.parameters.len(),
                parameters.len()
            );
            return Err(error_state("08P01", problem));
        }
        let bound = prepared.bind(values).map_err(error)?;
        connection.run_for(client, &bound, rows, format).await
    }
}
