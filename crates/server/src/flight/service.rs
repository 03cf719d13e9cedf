//! The requests of Flight SQL.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData,
    FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage,
    SchemaAsIpc, SchemaResult, Ticket,
};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::catalog;
use super::columns::{plain_batch, plain_schema};
use super::sessions::{FlightSession, FlightSessions};
use crate::failure::Failure;
use crate::query::Rows;
use crate::session::Prepared;
use crate::statement::Class;

type DataStream = <FlightSql as FlightService>::DoGetStream;

/// An action that cancels the query of a [`FlightInfo`].
const CANCEL: &str = "CancelFlightInfo";

/// An action that ends the session of the request.
const CLOSE_SESSION: &str = "CloseSession";

/// The message `CloseSessionResult` of Flight.
#[derive(Clone, PartialEq, Message)]
struct CloseSessionResult {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `ActionCancelQueryResult.CancelResult.CANCEL_RESULT_CANCELLED` and `.._NOT_CANCELLABLE`.
const CANCELLED: i32 = 1;
const NOT_CANCELLABLE: i32 = 3;

/// `CloseSessionResult.Status.CLOSED`.
const CLOSED: i32 = 1;

/// The service.
pub(super) struct FlightSql {
    sessions: Arc<FlightSessions>,
}

/// The columns that a client receives for a query. Those of EXECUTE are known when it runs.
fn result_schema(prepared: &Prepared) -> SchemaRef {
    match prepared.schema() {
        Some(schema) => plain_schema(&schema),
        None => Arc::new(Schema::empty()),
    }
}

/// Names of the parameters are their numbers. A parameter of an unknown type is a string.
fn parameter_schema(prepared: &Prepared) -> Result<Schema, Failure> {
    let types = prepared.parameters()?.into_iter().enumerate();
    let fields = types.map(|(index, data_type)| {
        let data_type = data_type.unwrap_or(DataType::Utf8);
        Field::new(format!("${}", index + 1), data_type, true)
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

fn encoded(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, ArrowError> = SchemaAsIpc::new(schema, &options).try_into();
    let IpcMessage(bytes) = message.map_err(Failure::from)?;
    Ok(bytes)
}

/// A description of a result with one ticket.
fn info(schema: &Schema, ticket: Vec<u8>, descriptor: FlightDescriptor) -> Result<FlightInfo, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().try_with_schema(schema).map_err(Failure::from)?;
    Ok(info
        .with_endpoint(endpoint)
        .with_descriptor(descriptor)
        .with_total_records(-1)
        .with_total_bytes(-1)
        .with_ordered(true))
}

/// The response to a request for metadata: the ticket is the command itself.
fn command_info(
    command: &impl ProstMessageExt,
    schema: &Schema,
    request: Request<FlightDescriptor>,
) -> Result<Response<FlightInfo>, Status> {
    let ticket = command.as_any().encode_to_vec();
    info(schema, ticket, request.into_inner()).map(Response::new)
}

fn encode(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> Response<DataStream> {
    let data = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    Response::new(Box::pin(data.map_err(|error| match error {
        FlightError::Tonic(status) => *status,
        other => Status::internal(other.to_string()),
    })))
}

fn batch_response(batch: RecordBatch) -> Response<DataStream> {
    encode(batch.schema(), stream::once(async move { Ok(batch) }))
}

fn rows_response(rows: Rows) -> Response<DataStream> {
    let schema = plain_schema(&rows.schema);
    let plain = Arc::clone(&schema);
    let batches = rows.into_stream().map(move |batch| {
        let batch = batch.and_then(|batch| plain_batch(&batch, &plain));
        batch.map_err(|failure| FlightError::Tonic(Box::new(failure.into())))
    });
    encode(schema, batches)
}

/// The handle of a statement in a ticket.
fn handle_of(ticket: &[u8]) -> Option<Bytes> {
    match Command::try_from(Any::decode(ticket).ok()?).ok()? {
        Command::TicketStatementQuery(ticket) => Some(ticket.statement_handle),
        Command::CommandPreparedStatementQuery(command) => Some(command.prepared_statement_handle),
        _ => None,
    }
}

/// Values of parameters, row by row.
async fn parameter_rows(request: PeekableFlightDataStream) -> Result<Vec<Vec<ScalarValue>>, Status> {
    // A client without parameters sends a message with only the command.
    let data = request.try_filter(|data: &FlightData| {
        let has_data = !data.data_header.is_empty();
        async move { has_data }
    });
    let data = data.map_err(|status| FlightError::Tonic(Box::new(status)));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(data);
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|error| match error {
            FlightError::Tonic(status) => *status,
            other => Status::invalid_argument(format!("the parameters cannot be read: {other}")),
        })?;
        for row in 0..batch.num_rows() {
            let values = batch
                .columns()
                .iter()
                .map(|column| ScalarValue::try_from_array(column, row));
            rows.push(values.collect::<Result<Vec<_>, _>>().map_err(Failure::from)?);
        }
    }
    Ok(rows)
}

impl FlightSql {
    pub(super) fn new(sessions: Arc<FlightSessions>) -> Self {
        Self { sessions }
    }

    /// Runs a statement that changes something, and keeps its result for its ticket: clients take it for done
    /// when they have its description. Returns the columns of the result.
    async fn describe(
        &self,
        session: &FlightSession,
        handle: &[u8],
        prepared: &Prepared,
    ) -> Result<SchemaRef, Status> {
        let checked = prepared.checked;
        // The rows of a prepared query may be many.
        let is_query = checked.class == Class::Query || checked.tag == "EXECUTE";
        if is_query {
            return Ok(result_schema(prepared));
        }
        let mut rows = session.session.run(prepared).await?;
        let schema = plain_schema(&rows.schema);
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            batches.push(plain_batch(&batch?, &schema)?);
        }
        session.finish(handle, Arc::clone(&schema), batches);
        Ok(schema)
    }

    /// The columns of a statement, which does not run.
    pub(super) async fn statement_schema<T>(
        &self,
        request: &Request<T>,
        query: &CommandStatementQuery,
    ) -> Result<SchemaResult, Status> {
        let session = self.sessions.of(request).await?;
        let prepared = session.session.prepare(&query.query).await?;
        let schema = encoded(&result_schema(&prepared))?;
        Ok(SchemaResult { schema })
    }

    /// The columns of a prepared statement, which does not run.
    pub(super) async fn prepared_schema<T>(
        &self,
        request: &Request<T>,
        query: &CommandPreparedStatementQuery,
    ) -> Result<SchemaResult, Status> {
        let session = self.sessions.of(request).await?;
        let statement = session.statement(&query.prepared_statement_handle)?;
        let prepared = statement.bound.as_ref().unwrap_or(&statement.prepared);
        let schema = encoded(&result_schema(prepared))?;
        Ok(SchemaResult { schema })
    }

    /// Runs the statement of a handle, unless it has run.
    async fn fetch(&self, session: &FlightSession, handle: &[u8]) -> Result<Response<DataStream>, Status> {
        let statement = session.statement(handle)?;
        if let Some((schema, batches)) = statement.result {
            return Ok(encode(schema, stream::iter(batches.into_iter().map(Ok))));
        }
        let prepared = statement.bound.as_ref().unwrap_or(&statement.prepared);
        let rows = session.session.run(prepared).await?;
        session.runs(handle, rows.ticket.as_ref());
        Ok(rows_response(rows))
    }

    /// Cancels the query of a description. Returns whether one was running.
    async fn cancel<T>(&self, request: &Request<T>, info: &FlightInfo) -> Result<bool, Status> {
        let session = self.sessions.of(request).await?;
        let tickets = info
            .endpoint
            .iter()
            .filter_map(|endpoint| endpoint.ticket.as_ref());
        let handles = tickets.filter_map(|ticket| handle_of(&ticket.ticket));
        // Each query is cancelled, so no early exit.
        Ok(handles.fold(false, |any, handle| session.cancel(&handle) | any))
    }
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = Self;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>>, Status> {
        let token = self.sessions.handshake(&request).await?;
        let header = MetadataValue::try_from(format!("Bearer {token}"));
        let header = header.map_err(|error| Status::internal(error.to_string()))?;
        let answer = HandshakeResponse {
            protocol_version: 0,
            payload: token.into(),
        };
        let mut response: Response<Pin<Box<dyn Stream<Item = _> + Send>>> =
            Response::new(Box::pin(stream::once(async move { Ok(answer) })));
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let session = self.sessions.of(&request).await?;
        let prepared = session.session.prepare(&query.query).await?;
        let handle = session.keep(prepared.clone());
        let schema = self.describe(&session, &handle, &prepared).await?;
        let ticket = TicketStatementQuery {
            statement_handle: handle.into(),
        };
        command_info(&ticket, &schema, request)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let session = self.sessions.of(&request).await?;
        let statement = session.statement(&query.prepared_statement_handle)?;
        let prepared = statement.bound.as_ref().unwrap_or(&statement.prepared);
        let handle = &query.prepared_statement_handle;
        let schema = self.describe(&session, handle, prepared).await?;
        command_info(&query, &schema, request)
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &query.into_builder().schema(), request)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &query.clone().into_builder().schema(), request)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &query.clone().into_builder().schema(), request)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &query.into_builder().schema(), request)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        let schema = catalog::sql_info(query.clone())?.schema();
        command_info(&query, &schema, request)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &catalog::primary_keys(), request)
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &catalog::foreign_keys(), request)
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &catalog::foreign_keys(), request)
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        command_info(&query, &catalog::foreign_keys(), request)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.sessions.of(&request).await?;
        let schema = catalog::xdbc_types(query)?.schema();
        command_info(&query, &schema, request)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        let session = self.sessions.of(&request).await?;
        self.fetch(&session, &ticket.statement_handle).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        let session = self.sessions.of(&request).await?;
        self.fetch(&session, &query.prepared_statement_handle).await
    }

    async fn do_get_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        let session = self.sessions.of(&request).await?;
        Ok(batch_response(catalog::catalogs(query, &session.session.ctx)?))
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        let session = self.sessions.of(&request).await?;
        Ok(batch_response(catalog::schemas(query, &session.session.ctx)?))
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        let session = self.sessions.of(&request).await?;
        Ok(batch_response(
            catalog::tables(query, &session.session.ctx).await?,
        ))
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(catalog::table_types(query)?))
    }

    async fn do_get_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(catalog::sql_info(query)?))
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(RecordBatch::new_empty(catalog::primary_keys())))
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(RecordBatch::new_empty(catalog::foreign_keys())))
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(RecordBatch::new_empty(catalog::foreign_keys())))
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(RecordBatch::new_empty(catalog::foreign_keys())))
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Result<Response<DataStream>, Status> {
        self.sessions.of(&request).await?;
        Ok(batch_response(catalog::xdbc_types(query)?))
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.sessions.of(&request).await?;
        let prepared = session.session.prepare(&command.query).await?;
        let rows = session.session.run(&prepared).await?;
        Ok(i64::try_from(rows.count().await?).unwrap_or(i64::MAX))
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let session = self.sessions.of(&request).await?;
        let handle = query.prepared_statement_handle;
        let statement = session.statement(&handle)?;
        let mut rows = parameter_rows(request.into_inner()).await?;
        match (rows.pop(), rows.is_empty()) {
            (Some(values), true) => session.bind(&handle, statement.prepared.bind(values)?),
            (None, _) => {}
            (Some(_), false) => {
                return Err(Failure::unsupported("a query runs with one row of parameters at a time").into());
            }
        }
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        })
    }

    async fn do_put_prepared_statement_update(
        &self,
        command: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let session = self.sessions.of(&request).await?;
        let statement = session.statement(&command.prepared_statement_handle)?;
        let rows = parameter_rows(request.into_inner()).await?;
        let statements = match rows.is_empty() {
            // The parameters may have been bound before.
            true => vec![statement.bound.unwrap_or(statement.prepared)],
            false => rows
                .into_iter()
                .map(|values| statement.prepared.bind(values))
                .collect::<Result<Vec<_>, _>>()?,
        };
        let mut changed = 0u64;
        for prepared in &statements {
            changed += session.session.run(prepared).await?.count().await?;
        }
        Ok(i64::try_from(changed).unwrap_or(i64::MAX))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let session = self.sessions.of(&request).await?;
        let prepared = session.session.prepare(&query.query).await?;
        let dataset_schema = match prepared.schema() {
            Some(schema) => encoded(&plain_schema(&schema))?,
            None => Bytes::new(),
        };
        let parameter_schema = encoded(&parameter_schema(&prepared)?)?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: session.keep(prepared).into(),
            dataset_schema,
            parameter_schema,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let session = self.sessions.of(&request).await?;
        session.close(&query.prepared_statement_handle);
        Ok(())
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let info =
            FlightInfo::decode(query.info).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let result = match self.cancel(&request, &info).await? {
            true => CANCELLED,
            false => NOT_CANCELLABLE,
        };
        Ok(ActionCancelQueryResult { result })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let body = match request.get_ref().r#type.as_str() {
            CANCEL => {
                let wrong = |error: prost::DecodeError| Status::invalid_argument(error.to_string());
                let cancel =
                    CancelFlightInfoRequest::decode(request.get_ref().body.as_ref()).map_err(wrong)?;
                let info = cancel
                    .info
                    .ok_or_else(|| Status::invalid_argument("no FlightInfo to cancel"))?;
                let status = match self.cancel(&request, &info).await? {
                    true => CancelStatus::Cancelled,
                    false => CancelStatus::NotCancellable,
                };
                CancelFlightInfoResult::new(status).encode_to_vec()
            }
            CLOSE_SESSION => {
                self.sessions.of(&request).await?;
                self.sessions.close(&request);
                CloseSessionResult { status: CLOSED }.encode_to_vec()
            }
            other => return Err(Status::unimplemented(format!("unknown action: {other}"))),
        };
        let result = arrow_flight::Result::new(body);
        Ok(Response::new(Box::pin(stream::once(async move { Ok(result) }))))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let action = |name: &str, description: &str| {
            Ok(ActionType {
                r#type: name.to_string(),
                description: description.to_string(),
            })
        };
        Some(vec![
            action(CANCEL, "Cancels the query of a FlightInfo."),
            action(CLOSE_SESSION, "Ends the session of the request."),
        ])
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
