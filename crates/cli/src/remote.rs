//! One statement of `galatea connect`: a server runs it, and its rows are printed here.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::prelude::SessionContext;
use galatea_server::{Client, ClientError};
use tokio::sync::Mutex;

use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::output::{Output, write_rows};
use crate::progress::Watch;
use crate::remote_copy::RemoteCopy;
use crate::session::register_output;
use crate::statements::{copied_to, summary};

/// The name of the memory reservation for results that are being printed.
const CONSUMER: &str = "galatea";

/// A connection to a server.
pub(crate) struct Remote {
    client: Arc<Mutex<Client>>,
    server: String,
}

impl Remote {
    pub(crate) fn new(client: Client, server: &str) -> Self {
        Self {
            client: Arc::new(Mutex::new(client)),
            server: server.to_string(),
        }
    }

    /// Runs a statement on the server, and prints its rows and its footer. Ctrl-C cancels it there.
    pub(crate) async fn run(
        &self,
        ctx: &SessionContext,
        output: &Output,
        statement: &str,
    ) -> Result<(), CliError> {
        let start = Instant::now();
        let (client, printing, sql) = (Arc::clone(&self.client), output.clone(), statement.to_string());
        let memory = MemoryConsumer::new(CONSUMER).register(ctx.task_ctx().memory_pool());
        let options = ctx.copied_config().options().format.clone();
        let watch = Watch::start(output.quiet, None);
        register_output(ctx, output.target.clone())?;
        let copy = RemoteCopy::read(ctx, statement)?;
        let session = ctx.clone();
        let work = move || async move {
            let mut client = client.lock().await;
            let Some(copy) = copy else {
                let rows = client.run(&sql).await.map_err(external)?;
                return write_rows(&printing, rows, printing.limit, &options, &memory, &watch).await;
            };
            let rows = client.run(&copy.query).await.map_err(external)?;
            let frame = copy.frame(&session, rows).await?;
            copied_to(&session, &printing, frame, &watch).await
        };
        let printed = interruptible(work).await?.map_err(refused)?;
        if output.quiet || output.starting {
            return Ok(());
        }
        let elapsed = printed.complete.unwrap_or_else(Instant::now) - start;
        let text = format!("{} Ran on {}.", summary(&printed, elapsed), self.server);
        // Programs read the result only, so the footer is written to standard error.
        let is_shown = output.form().is_for_readers() && output.target.path().is_none();
        if is_shown && !printed.for_programs {
            let _ = writeln!(io::stdout(), "{text}\n");
        } else {
            let _ = writeln!(io::stderr(), "{text}");
        }
        Ok(())
    }
}

fn external(error: ClientError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The message of the server, without the layers that carried it.
fn refused(error: DataFusionError) -> CliError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<ClientError>() {
            Ok(client) => CliError::Remote(*client),
            Err(inner) => DataFusionError::External(inner).into(),
        },
        other => other.into(),
    }
}
