//! `COPY table FROM STDIN`: rows of the client as one INSERT.
//!
//! The rows are converted to the types of the columns as they arrive, and kept until the client has sent all.
//! Then one INSERT adds them, so a copy that fails adds none.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryConsumer;
use futures::{Sink, SinkExt};
use pgwire::api::ClientInfo;
use pgwire::api::copy::CopyHandler;
use pgwire::api::results::Tag;
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyFail, CopyInResponse};

use super::connection::Connection;
use super::copy::CopyIn;
use super::copy_rows::{CopyTarget, Copying};
use super::errors::{error, error_state};
use crate::failure::Failure;
use crate::statement::Class;

/// The name of the memory reservation.
const CONSUMER: &str = "COPY FROM STDIN";

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether values of the type are read from strings.
fn is_readable(data_type: &DataType) -> bool {
    !data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..) | DataType::Union(..))
        || matches!(data_type, DataType::Dictionary(_, values) if values.is_string())
}

impl Connection {
    /// Checks the table, its columns and the grants of a copy.
    pub(super) async fn plan_copy(&self, copy: CopyIn) -> PgWireResult<CopyTarget> {
        let session = self.session()?;
        let names = match &copy.columns {
            Some(columns) => columns.clone(),
            None => {
                let all = session.prepare(&format!("SELECT * FROM {}", copy.table)).await;
                let schema = all.map_err(error)?.schema();
                let fields = schema.iter().flat_map(|schema| schema.fields().iter());
                fields.map(|field| field.name().clone()).collect()
            }
        };
        let columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let places: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            copy.table,
            columns.join(", "),
            places.join(", ")
        );
        let insert = session.prepare(&sql).await.map_err(error)?;
        debug_assert_eq!(insert.checked.class, Class::Update);
        let types = insert.parameters().map_err(error)?;
        let fields = names
            .iter()
            .zip(types)
            .map(|(name, data_type)| Field::new(name, data_type.unwrap_or(DataType::Utf8), true));
        let columns = Schema::new(fields.collect::<Vec<_>>());
        if let Some(field) = columns
            .fields()
            .iter()
            .find(|field| !is_readable(field.data_type()))
        {
            return Err(error(Failure::unsupported(format!(
                "COPY FROM STDIN cannot read the column \"{}\" of the type {}\nhint: list the other columns: COPY t (a, b) FROM STDIN",
                field.name(),
                field.data_type()
            ))));
        }
        Ok(CopyTarget {
            copy,
            insert: Arc::new(insert),
            columns: Arc::new(columns),
        })
    }

    /// Begins a copy: the client may send its rows.
    pub(super) async fn begin_copy<C>(&self, client: &mut C, target: &CopyTarget) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let session = self.session()?;
        let memory = MemoryConsumer::new(CONSUMER).register(&session.account.runtime.memory_pool);
        let width = target.columns.fields().len();
        let columns = i16::try_from(width).unwrap_or(i16::MAX);
        *self.copying.lock() = Some(Copying::new(target, memory));
        let begin = CopyInResponse::new(0, columns, vec![0; width]);
        client.send(PgWireBackendMessage::CopyInResponse(begin)).await?;
        Ok(())
    }

    /// The running copy, which the caller puts back unless it has failed.
    fn take_copying(&self) -> PgWireResult<Copying> {
        let copying = self.copying.lock().take();
        copying.ok_or_else(|| error_state("08P01", "no COPY FROM STDIN is running"))
    }
}

#[async_trait]
impl CopyHandler for Connection {
    async fn on_copy_data<C>(&self, _client: &mut C, data: CopyData) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.session()?.touch();
        let mut copying = self.take_copying()?;
        copying.read(&data.data)?;
        *self.copying.lock() = Some(copying);
        Ok(())
    }

    async fn on_copy_done<C>(&self, client: &mut C, _done: CopyDone) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let mut copying = self.take_copying()?;
        copying.finish()?;
        let rows = copying.insert(self.session()?).await?;
        self.transaction.lock().changed = true;
        let tag = Tag::new("COPY").with_rows(rows);
        client
            .send(PgWireBackendMessage::CommandComplete(tag.into()))
            .await?;
        Ok(())
    }

    async fn on_copy_fail<C>(&self, _client: &mut C, fail: CopyFail) -> PgWireError
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.copying.lock().take();
        error_state("57014", format!("COPY FROM STDIN failed: {}", fail.message))
    }
}
