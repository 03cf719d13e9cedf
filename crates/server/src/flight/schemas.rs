//! `GetSchema`: the columns of a result without running its statement. The server of the crate arrow-flight
//! has no such request, so this service answers it and passes all others on.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::service::FlightSql;

/// Flight SQL with `GetSchema`.
pub(super) struct WithSchemas(pub(super) FlightSql);

impl WithSchemas {
    async fn schema(&self, request: Request<FlightDescriptor>) -> Result<SchemaResult, Status> {
        let wrong = |problem: String| Status::invalid_argument(format!("GetSchema of Flight SQL: {problem}"));
        let any = Any::decode(request.get_ref().cmd.as_ref()).map_err(|cause| wrong(cause.to_string()))?;
        match Command::try_from(any).map_err(|cause| wrong(cause.to_string()))? {
            Command::CommandStatementQuery(query) => self.0.statement_schema(&request, &query).await,
            Command::CommandPreparedStatementQuery(query) => self.0.prepared_schema(&request, &query).await,
            // The other commands read metadata, so their description has no effect.
            _ => {
                let info = self.0.get_flight_info(request).await?.into_inner();
                Ok(SchemaResult { schema: info.schema })
            }
        }
    }
}

#[tonic::async_trait]
impl FlightService for WithSchemas {
    type HandshakeStream = <FlightSql as FlightService>::HandshakeStream;
    type ListFlightsStream = <FlightSql as FlightService>::ListFlightsStream;
    type DoGetStream = <FlightSql as FlightService>::DoGetStream;
    type DoPutStream = <FlightSql as FlightService>::DoPutStream;
    type DoActionStream = <FlightSql as FlightService>::DoActionStream;
    type ListActionsStream = <FlightSql as FlightService>::ListActionsStream;
    type DoExchangeStream = <FlightSql as FlightService>::DoExchangeStream;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        self.0.handshake(request).await
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.0.list_flights(request).await
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.0.get_flight_info(request).await
    }

    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        self.0.poll_flight_info(request).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        self.schema(request).await.map(Response::new)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        self.0.do_get(request).await
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.0.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.0.do_exchange(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        self.0.do_action(request).await
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        self.0.list_actions(request).await
    }
}
