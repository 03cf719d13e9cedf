//! Events: the state of the server a few times per second, while somebody listens.
//!
//! One task takes the state for all listeners, and ends with the last of them. A listener that reads slowly
//! misses states, and delays neither the task nor a query.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, stream};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::rates::Rates;
use super::respond::Refusal;
use super::snapshot::Moment;
use super::viewer::Viewer;
use crate::state::Shared;

/// The pause between two events.
const PAUSE: Duration = Duration::from_millis(300);

/// Streams of events at once.
const LISTENERS: usize = 16;

/// The source of events.
#[derive(Debug)]
pub(super) struct Sampler {
    shared: Arc<Shared>,
    started: Instant,
    rates: Rates,
    moments: watch::Sender<Option<Arc<Moment>>>,
    /// Whether the task runs.
    is_running: Mutex<bool>,
    slots: Arc<Semaphore>,
}

impl Sampler {
    pub(super) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            started: Instant::now(),
            rates: Rates::default(),
            moments: watch::Sender::new(None),
            is_running: Mutex::new(false),
            slots: Arc::new(Semaphore::new(LISTENERS)),
        })
    }

    /// The state now.
    pub(super) fn now(&self) -> Moment {
        Moment::now(&self.shared, self.started, &self.rates)
    }

    /// The events for a viewer.
    ///
    /// # Errors
    /// Too many listeners.
    pub(super) fn events(
        self: &Arc<Self>,
        viewer: Viewer,
    ) -> Result<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync + 'static, Refusal> {
        let slot = Arc::clone(&self.slots)
            .try_acquire_owned()
            .map_err(|_| Refusal::busy(format!("{LISTENERS} clients read the events, the maximum")))?;
        let mut moments = self.moments.subscribe();
        // The state of the last listener is old.
        moments.mark_unchanged();
        self.run();
        let shared = Arc::clone(&self.shared);
        let state = (moments, shared, viewer, None, slot);
        Ok(stream::unfold(
            state,
            |(mut moments, shared, viewer, history, slot)| async move {
                moments.changed().await.ok()?;
                let moment = moments.borrow_and_update().clone()?;
                let version = shared.history.version();
                let document = moment.document(&shared, &viewer, history != Some(version));
                let json = serde_json::to_string(&document).ok()?;
                let event = Bytes::from(format!("event: snapshot\ndata: {json}\n\n"));
                let state = (moments, shared, viewer, Some(version), slot);
                Some((Ok(Frame::data(event)), state))
            },
        ))
    }

    /// Starts the task, unless it runs.
    fn run(self: &Arc<Self>) {
        let mut is_running = self.is_running.lock();
        if std::mem::replace(&mut is_running, true) {
            return;
        }
        let sampler = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                {
                    let mut is_running = sampler.is_running.lock();
                    if sampler.moments.receiver_count() == 0 {
                        *is_running = false;
                        sampler.moments.send_replace(None);
                        return;
                    }
                }
                sampler.moments.send_replace(Some(Arc::new(sampler.now())));
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    /// Whether the task runs.
    #[cfg(test)]
    fn is_running(&self) -> bool {
        *self.is_running.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_task_ends_with_its_last_listener() {
        use futures::StreamExt;
        let shared =
            Shared::new(crate::Config::default(), tokio::runtime::Handle::current()).expect("a state");
        let sampler = Sampler::new(&shared);
        let viewer = Viewer::of(shared.local().expect("no users"));
        let mut all = Vec::new();
        for _ in 0..LISTENERS {
            all.push(Box::pin(sampler.events(viewer.clone()).expect("a slot")));
        }
        assert!(sampler.events(viewer.clone()).is_err());
        assert!(all[0].next().await.is_some() && all[1].next().await.is_some());
        assert!(sampler.is_running());
        drop(all);
        let begun = Instant::now();
        while sampler.is_running() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut again = Box::pin(sampler.events(viewer).expect("a slot"));
        assert!(again.next().await.is_some());
    }
}
