//! Ctrl-C: the first cancels what runs, a second one leaves at once.

use std::process;

use tokio::signal;

use crate::errors::CliError;

/// Runs `work` until it ends or Ctrl-C is pressed; then it is dropped, which cancels a query.
///
/// Cancelling takes effect where a query yields. Should that take long, the next Ctrl-C leaves the process.
pub(crate) async fn interruptible<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    tokio::select! {
        done = work => Ok(done),
        () = pressed() => {
            leave_on_next();
            Err(CliError::Cancelled)
        }
    }
}

/// Resolves at the next Ctrl-C; never where the system has no such signal.
pub(crate) async fn pressed() {
    if signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// From now on Ctrl-C ends the process, whatever it does.
pub(crate) fn leave_on_next() {
    tokio::spawn(async {
        pressed().await;
        #[expect(
            clippy::disallowed_methods,
            reason = "asked for twice; what still runs cannot be stopped otherwise"
        )]
        process::exit(130);
    });
}
