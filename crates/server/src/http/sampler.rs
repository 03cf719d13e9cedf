//! Events: the state of the server a few times per second, while somebody listens.
//!
//! One task takes the state for all listeners, and ends with the last of them. A listener that reads slowly
//! misses states, and delays neither the task nor a query.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, stream};
use galatea::DeviceActivity;
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::respond::Refusal;
use super::snapshot::Moment;
use super::viewer::Viewer;
use crate::feed::{Bandwidths, Rate};
use crate::state::Shared;

/// The pause between two events.
const PAUSE: Duration = Duration::from_millis(300);

/// Streams of events at once.
const LISTENERS: usize = 16;

/// Bandwidths that are kept: those of a minute.
const RATES: usize = 200;

/// The shortest time over which a bandwidth is measured, and the longest.
const INTERVAL: [Duration; 2] = [Duration::from_millis(150), Duration::from_secs(5)];

/// Bandwidths of the devices.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<Vec<DeviceRates>>);

#[derive(Debug, Default)]
struct DeviceRates {
    device: String,
    before: Option<(Instant, Bandwidths<u64>)>,
    rates: VecDeque<Rate>,
}

impl DeviceRates {
    fn add(&mut self, at: u64, now: Instant, moved: Bandwidths<u64>) {
        let Some((then, before)) = self.before else {
            self.before = Some((now, moved));
            return;
        };
        let took = now.saturating_duration_since(then);
        if took < INTERVAL[0] {
            return;
        }
        self.before = Some((now, moved));
        if took > INTERVAL[1] {
            return;
        }
        // A device that was opened again begins with 0.
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / took.as_secs_f64();
        if self.rates.len() == RATES {
            self.rates.pop_front();
        }
        self.rates.push_back(Rate {
            at,
            bytes: Bandwidths {
                to_device: rate(moved.to_device, before.to_device),
                to_host: rate(moved.to_host, before.to_host),
                memory: rate(moved.memory, before.memory),
            },
        });
    }
}

impl Rates {
    /// Adds the state of the devices. Returns the bandwidths of each.
    pub(super) fn add(&self, at: u64, devices: &[DeviceActivity]) -> Vec<Vec<Rate>> {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.resize_with(devices.len(), DeviceRates::default);
        let each = all.iter_mut().zip(devices).map(|(rates, device)| {
            if rates.device != device.name {
                *rates = DeviceRates {
                    device: device.name.clone(),
                    ..DeviceRates::default()
                };
            }
            let moved = Bandwidths {
                to_device: device.to_device,
                to_host: device.to_host,
                memory: device.read,
            };
            rates.add(at, now, moved);
            rates.rates.iter().copied().collect()
        });
        each.collect()
    }
}

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

    #[test]
    fn bandwidths_are_differences_over_time() {
        let moved = |to_device| Bandwidths {
            to_device,
            to_host: 7,
            memory: 0,
        };
        let (start, mut rates) = (Instant::now(), DeviceRates::default());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        rates.add(1, at(0), moved(1000));
        rates.add(2, at(10), moved(1500));
        assert!(rates.rates.is_empty());
        rates.add(3, at(500), moved(2000));
        rates.add(4, at(1000), moved(2000));
        // A gap without listeners, and a device that was opened again.
        rates.add(5, at(60_000), moved(9000));
        rates.add(6, at(60_500), moved(0));
        let found: Vec<_> = rates
            .rates
            .iter()
            .map(|rate| (rate.at, rate.bytes.to_device))
            .collect();
        assert_eq!(found, [(3, 2000.0), (4, 0.0), (6, 0.0)]);
        for step in 0..1000 {
            rates.add(7, at(61_000 + 200 * step), moved(0));
        }
        assert_eq!(rates.rates.len(), RATES);
    }

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
