//! Bandwidths of the devices over the last minute.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use galatea::DeviceActivity;
use parking_lot::Mutex;

use crate::feed::{Bandwidths, Rate};

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
}
