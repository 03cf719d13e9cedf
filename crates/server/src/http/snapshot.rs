//! The state of the server at one moment, and its document for a viewer.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use galatea::{DeviceActivity, EngineActivity, QueryInfo, RegionContent, RegionInfo};

use super::rates::Rates;
use super::viewer::Viewer;
use crate::activity::milliseconds;
use crate::feed::{
    Bandwidths, Device, Ended, Pages, PipelineState, Rate, Region, RegionKind, RegionState, Running,
    ServerState, Snapshot, Spilled, Store, VERSION,
};
use crate::state::{Account, Shared};

/// Maximum number of regions of a device in a document.
const REGIONS: usize = 300;

/// Maximum number of pipelines of a device, and of running statements, in a document.
const QUERIES: usize = 200;

/// The state of the server at one moment, for all viewers.
#[derive(Debug)]
pub(super) struct Moment {
    at: u64,
    uptime: Duration,
    engine: EngineActivity,
    rates: Vec<Vec<Rate>>,
    running: Vec<(Arc<Account>, Running)>,
}

impl Moment {
    /// The state now.
    pub(super) fn now(shared: &Shared, started: Instant, rates: &Rates) -> Self {
        let at = milliseconds(SystemTime::now());
        let engine = galatea::engine_activity(&shared.engine);
        let tickets = shared.tickets();
        let statements = tickets.iter().filter_map(|ticket| ticket.statement.as_ref());
        let running = statements
            .filter(|statement| !statement.has_ended())
            .map(|statement| (Arc::clone(&statement.account), statement.running()));
        Self {
            at,
            uptime: started.elapsed(),
            rates: rates.add(at, &engine.devices),
            running: running.collect(),
            engine,
        }
    }

    /// The document for a viewer.
    pub(super) fn document(&self, shared: &Shared, viewer: &Viewer, with_history: bool) -> Snapshot {
        let reads = |account: &Arc<Account>| viewer.reads(account);
        let visible: Vec<_> = self
            .running
            .iter()
            .filter(|(account, _)| reads(account))
            .collect();
        let history = with_history.then(|| -> Vec<Ended> {
            let past = shared.history.all().into_iter();
            let past = past.filter(|past| reads(&past.account));
            past.map(|past| past.detail.summary.clone()).collect()
        });
        let devices = self.engine.devices.iter().zip(&self.rates);
        Snapshot {
            version: VERSION,
            at: self.at,
            server: ServerState {
                version: env!("CARGO_PKG_VERSION").to_string(),
                uptime: self.uptime.as_secs_f64(),
                sessions: self.engine.sessions,
                stopping: shared.is_stopping(),
            },
            viewer: viewer.document(),
            devices: devices
                .map(|(activity, rates)| device(activity, rates, viewer.reads_names()))
                .collect(),
            store: self.engine.store.map(|store| Store {
                used_bytes: store.used,
                limit_bytes: store.limit,
                columns: store.columns,
                disk_limit_bytes: store.disk_limit,
                disk_written_bytes: store.disk_written,
                disk_read_bytes: store.disk_read,
            }),
            hidden: self.running.len() - visible.len(),
            running: (visible.into_iter().take(QUERIES))
                .map(|(_, running)| running.clone())
                .collect(),
            history,
        }
    }
}

fn device(activity: &DeviceActivity, rates: &[Rate], names: bool) -> Device {
    let left_out = activity.regions.iter().skip(REGIONS);
    Device {
        name: activity.name.clone(),
        emulated: activity.emulated,
        total_bytes: activity.total_memory,
        limit_bytes: activity.limit,
        used_bytes: activity.used,
        column_bytes: activity.columns,
        evicted: activity.evicted,
        spilled: Spilled {
            to_host: activity.spilled.to_memory,
            to_disk: activity.spilled.to_files,
            back: activity.spilled.back,
            held: activity.spilled.held,
        },
        moved: Bandwidths {
            to_device: activity.to_device,
            to_host: activity.to_host,
            memory: activity.read,
        },
        ceilings: activity.ceilings.map(|ceilings| Bandwidths {
            to_device: ceilings.to_device,
            to_host: ceilings.to_host,
            memory: ceilings.memory,
        }),
        rates: rates.to_vec(),
        regions_left_out: left_out.clone().count(),
        bytes_left_out: left_out.map(|region| region.device_bytes).sum(),
        regions: (activity.regions.iter().take(REGIONS))
            .map(|info| region(info, names))
            .collect(),
        pipelines: (activity.pipelines.iter().take(QUERIES))
            .map(|info| pipeline(info, names))
            .collect(),
    }
}

fn region(info: &RegionInfo, names: bool) -> Region {
    let kind = match RegionContent::of(info) {
        RegionContent::Column => RegionKind::Column,
        RegionContent::Table => RegionKind::Table,
        RegionContent::Result => RegionKind::Result,
        RegionContent::Working => RegionKind::Working,
    };
    let state = match (info.device_bytes, info.pages_disk) {
        (0, 1..) => RegionState::Disk,
        (0, 0) if info.bytes > 0 => RegionState::Host,
        (here, _) if here >= info.bytes => RegionState::Device,
        _ => RegionState::Part,
    };
    Region {
        // Names of working memory are purposes, and contain no names of columns.
        name: (names || kind != RegionKind::Column).then(|| info.name.clone()),
        kind,
        state,
        owner: info.owner,
        bytes: info.bytes,
        device_bytes: info.device_bytes,
        pages: Pages {
            all: info.pages,
            device: info.pages_device,
            host: info.pages_host,
            disk: info.pages_disk,
            loading: info.pages_loading,
        },
        uses: info.uses,
    }
}

fn pipeline(info: &QueryInfo, names: bool) -> PipelineState {
    PipelineState {
        number: info.number,
        name: names.then(|| format!("p{} {}", info.pipeline.number, info.pipeline.name)),
        state: info.state.to_string(),
        demand_bytes: info.demand,
        age: info.age.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_region_is_that_of_its_bytes() {
        let of = |bytes, device_bytes, pages_disk| {
            let info = RegionInfo {
                name: "lineitem.l_tax".to_string(),
                kind: galatea::RegionKind::Cached,
                owner: None,
                bytes,
                device_bytes,
                pages: 4,
                pages_device: 0,
                pages_host: 4,
                pages_disk,
                pages_both: 0,
                pages_loading: 0,
                uses: 1,
                idle: 0,
            };
            region(&info, false)
        };
        assert_eq!(of(10, 10, 0).state, RegionState::Device);
        assert_eq!(of(10, 4, 0).state, RegionState::Part);
        assert_eq!(of(10, 0, 0).state, RegionState::Host);
        assert_eq!(of(10, 0, 2).state, RegionState::Disk);
        assert_eq!(of(0, 0, 0).state, RegionState::Device);
        assert_eq!((of(1, 1, 0).name, of(1, 1, 0).kind), (None, RegionKind::Column));
    }
}
