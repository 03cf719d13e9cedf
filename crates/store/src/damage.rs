//! Damaged files: panics of decoders, and errors that name the file.
//!
//! The parquet crate checks many statements of a file about itself and panics for some of the others. Work on
//! files is therefore run in [`contained`]: a panic becomes an error. It is not printed, because the file is
//! damaged, not the program.

use galatea_base::panic::message;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use datafusion::error::DataFusionError;
use futures::FutureExt;
use futures::future::poll_fn;
use parquet::errors::ParquetError;

use crate::error::StoreError;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on a file.
///
/// # Errors
/// The message of the panic, if the work panics.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                before(panic);
            }
        }));
    });
    let outer = CONTAINED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(outer);
    outcome.map_err(|panic| message(&*panic).unwrap_or_default().to_owned())
}

/// As [`contained`], each time the future is polled.
pub async fn contained_async<T>(work: impl Future<Output = T> + Send) -> Result<T, String> {
    let mut work = work.boxed();
    poll_fn(move |context| match contained(|| work.poll_unpin(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

/// The error for a panic of a file's decoder.
pub fn panicked(file: &str, panic: &str) -> StoreError {
    damaged(file, format!("its contents contradict each other ({panic})"))
}

/// The error of a damaged file.
pub fn damaged(file: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::CorruptFile {
        file: file.to_owned(),
        column: None,
        row_group: None,
        source: source.into(),
    }
}

/// The error of a Parquet file that could not be read, with the file's name.
pub fn parquet_error(file: &str, error: DataFusionError) -> DataFusionError {
    let root = error.find_root();
    let text = match root {
        DataFusionError::ParquetError(parquet) => parquet_text(parquet),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            arrow::error::ArrowError::ParquetError(text) => text.clone(),
            arrow::error::ArrowError::ExternalError(inner) => match inner.downcast_ref::<ParquetError>() {
                Some(parquet) => parquet_text(parquet),
                None => return error,
            },
            _ => return error,
        },
        _ => return error,
    };
    if text.contains("encrypted") || text.contains("decrypt") {
        return StoreError::Encrypted {
            file: file.to_owned(),
        }
        .into();
    }
    damaged(file, text).into()
}

fn parquet_text(error: &ParquetError) -> String {
    let text = match error {
        ParquetError::External(inner) => inner.to_string(),
        other => other.to_string().trim_start_matches("Parquet error: ").to_owned(),
    };
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors() {
        assert_eq!(contained(|| 7), Ok(7));
        assert_eq!(
            contained(|| -> u8 { panic!("of {}", "course") }),
            Err("of course".to_owned())
        );
        let nested = contained(|| contained(|| -> u8 { panic!("inside") }));
        assert_eq!(nested, Ok(Err("inside".to_owned())));
        assert!(!CONTAINED.get());
    }

    #[tokio::test]
    async fn panics_of_futures_become_errors() {
        let waits = contained_async(async {
            tokio::task::yield_now().await;
            panic!("later")
        });
        let outcome: Result<(), String> = waits.await;
        assert_eq!(outcome, Err("later".to_owned()));
    }
}
