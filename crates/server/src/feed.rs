//! The feed of the page and of `galatea top`: the documents of `/api`, as JSON.
//!
//! | document | path |
//! | --- | --- |
//! | [`Snapshot`] | `/api/snapshot`, and each event of `/api/events` |
//! | [`StatementDetail`] | `/api/statements/ID` |
//! | [`Cancelled`] | `POST /api/statements/ID/cancel` |
//! | [`Problem`] | every error |
//!
//! Within one [`VERSION`], fields are added but neither removed nor changed. Readers ignore unknown fields.
//! Bytes are bytes, times are seconds, and points in time are milliseconds since 1970.

use serde::{Deserialize, Serialize};

/// The version of these documents.
pub const VERSION: u32 = 1;

/// The state of the server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`].
    pub version: u32,
    /// The time of the snapshot.
    pub at: u64,
    /// The server.
    pub server: ServerState,
    /// The reader. Its role filters the rest.
    pub viewer: Viewer,
    /// The open devices.
    pub devices: Vec<Device>,
    /// Encoded columns in host memory and on disk; absent before their first use.
    pub store: Option<Store>,
    /// Running and waiting statements, by their start.
    pub running: Vec<Running>,
    /// Number of running statements that the viewer may not read.
    pub hidden: usize,
    /// Ended statements, the last first. Absent in an event if they have not changed.
    pub history: Option<Vec<Ended>>,
}

/// The server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerState {
    /// The version of Galatea.
    pub version: String,
    /// Seconds since the start.
    pub uptime: f64,
    /// Open sessions of the engine.
    pub sessions: usize,
    /// Whether it shuts down.
    pub stopping: bool,
}

/// The reader of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewer {
    /// The user or the token; `local` on a server without users.
    pub user: String,
    /// Whether the viewer reads and cancels the statements of all users.
    pub admin: bool,
    /// Whether the viewer logged in, and may log out.
    pub logged_in: bool,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Whether it is the emulated device.
    pub emulated: bool,
    /// Bytes of its memory.
    pub total_bytes: u64,
    /// Bytes that the engine may use (`galatea.memory.gpu_limit`).
    pub limit_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes of copies of columns among these.
    pub column_bytes: u64,
    /// Pages and working regions evicted since the device was opened.
    pub evicted: u64,
    /// Working memory that was moved to the host.
    pub spilled: Spilled,
    /// Bytes moved since the device was opened.
    pub moved: Bandwidths<u64>,
    /// The measured maximum in bytes per second; absent without `galatea calibrate`.
    pub ceilings: Option<Bandwidths<f64>>,
    /// Bandwidths of the last minute, the last at the end. They are measured while somebody listens.
    pub rates: Vec<Rate>,
    /// Regions of memory, largest first.
    pub regions: Vec<Region>,
    /// Number of smaller regions that are left out.
    pub regions_left_out: usize,
    /// Bytes of these regions in device memory.
    pub bytes_left_out: u64,
    /// Pipelines that run on the device or wait for it, by arrival.
    pub pipelines: Vec<PipelineState>,
}

/// Bytes of working memory that was moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spilled {
    /// Copied to host memory.
    pub to_host: u64,
    /// Written to files.
    pub to_disk: u64,
    /// Copied back to the device.
    pub back: u64,
    /// In host memory now.
    pub held: u64,
}

/// A number for each of three ways of data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidths<T> {
    /// From the host to the device.
    pub to_device: T,
    /// From the device to the host.
    pub to_host: T,
    /// From device memory to kernels. A pipeline counts when it ends.
    pub memory: T,
}

/// Bandwidths between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The end of the interval.
    pub at: u64,
    /// Bytes per second.
    #[serde(flatten)]
    pub bytes: Bandwidths<f64>,
}

/// The content of a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionKind {
    /// A copy of a column.
    Column,
    /// A table that rows look up: groups, build sides.
    Table,
    /// Rows of a result.
    Result,
    /// Other memory of a query.
    #[default]
    Working,
}

/// The location of a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionState {
    /// All of it is on the device.
    #[default]
    Device,
    /// A part of it is on the device.
    Part,
    /// In host memory.
    Host,
    /// A part of it is in a file, and none on the device.
    Disk,
}

/// A region of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its name; absent if the viewer may not read the names of all columns.
    pub name: Option<String>,
    /// Its content.
    pub kind: RegionKind,
    /// Its location.
    pub state: RegionState,
    /// The pipeline that writes it, by [`PipelineState::number`].
    pub owner: Option<u64>,
    /// All bytes.
    pub bytes: u64,
    /// Bytes in device memory.
    pub device_bytes: u64,
    /// Pages, and their number on the device, on the host, in a file, and without their content yet. A page
    /// may be on both sides.
    pub pages: Pages,
    /// Number of scans or launches that have used it.
    pub uses: u64,
}

/// Numbers of pages of a region.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// All pages.
    pub all: usize,
    /// With their content on the device.
    pub device: usize,
    /// With their content on the host.
    pub host: usize,
    /// With their content in a file.
    pub disk: usize,
    /// With device memory, but without their content yet.
    pub loading: usize,
}

/// A pipeline that runs on a device or waits for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineState {
    /// Its number by arrival.
    pub number: u64,
    /// Its number in its subtree, and its work; absent if the viewer may not read the names of all columns.
    pub name: Option<String>,
    /// `running`, `waiting for its turn`, or `waiting for memory`.
    pub state: String,
    /// Bytes that it is expected to use.
    pub demand_bytes: u64,
    /// Seconds since its arrival.
    pub age: f64,
}

/// Encoded columns in host memory and on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Bytes of host memory in use.
    pub used_bytes: u64,
    /// The limit of these bytes.
    pub limit_bytes: u64,
    /// Cached columns of files.
    pub columns: usize,
    /// The limit of the column cache on disk; 0 if it is off.
    pub disk_limit_bytes: u64,
    /// Bytes written to the column cache on disk since the start.
    pub disk_written_bytes: u64,
    /// Bytes read from the column cache on disk since the start.
    pub disk_read_bytes: u64,
}

/// The state of a running statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It is planned.
    #[default]
    Planning,
    /// All of its pipelines wait for a device, or for memory of it.
    Waiting,
    /// It runs.
    Running,
}

/// A running statement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// Its number.
    pub id: u64,
    /// The user or the token.
    pub user: String,
    /// `flight` or `postgres`.
    pub protocol: String,
    /// The statement, shortened.
    pub statement: String,
    /// Whether the statement is shortened.
    pub shortened: bool,
    /// The start.
    pub began: u64,
    /// Seconds since the start.
    pub elapsed: f64,
    /// The state.
    pub state: RunState,
    /// The progress of its current step.
    pub progress: Option<Progress>,
    /// Where it runs.
    pub device: Option<String>,
    /// Bytes of device memory that its pipelines are expected to use.
    pub demand_bytes: u64,
    /// Rows that the client has received.
    pub rows: u64,
    /// Bytes that kernels have read from device memory.
    pub device_bytes: u64,
    /// Bytes copied between host and device.
    pub link_bytes: u64,
}

/// The progress of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// `reading`, `computing`, `loading`, `compiling`, `running` or `clustering`.
    pub step: String,
    /// Rows, chunks or iterations done.
    pub done: u64,
    /// Their number, if it is available.
    pub total: Option<u64>,
}

/// A statement that has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Its number.
    pub id: u64,
    /// The user or the token.
    pub user: String,
    /// `flight` or `postgres`.
    pub protocol: String,
    /// The statement, shortened.
    pub statement: String,
    /// Whether the statement is shortened.
    pub shortened: bool,
    /// The start.
    pub began: u64,
    /// Seconds from the start to the last row.
    pub elapsed: f64,
    /// `done`, `failed`, `cancelled`, `limit`, `time`, `denied` or `stopping`.
    pub outcome: String,
    /// The error.
    pub error: Option<String>,
    /// Where it ran.
    pub device: Option<String>,
    /// Rows that the client received.
    pub rows: u64,
    /// Bytes that kernels read from device memory.
    pub device_bytes: u64,
    /// Bytes copied between host and device.
    pub link_bytes: u64,
}

/// A statement with its plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatementDetail {
    /// [`VERSION`].
    pub version: u32,
    /// The figures of the statement; for a running one those so far, with the outcome `running`.
    pub summary: Ended,
    /// The statement, with at most 64 KiB.
    pub statement: String,
    /// The time of each phase.
    pub phases: Phases,
    /// The plan; absent for a statement without one.
    pub plan: Option<Plan>,
}

/// Seconds of each phase of a statement. Phases of different pipelines may overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// From the statement to the physical plan.
    pub planning: f64,
    /// Generating and compiling kernels.
    pub compile: f64,
    /// Reading and encoding sources.
    pub load: f64,
    /// Transfers.
    pub transfer: f64,
    /// Kernels.
    pub kernel: f64,
}

/// A plan as a graph.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Reasons why all or parts of it ran on the CPU.
    pub reasons: Vec<String>,
    /// The nodes; the first is the root.
    pub nodes: Vec<PlanNode>,
    /// The edges.
    pub edges: Vec<PlanEdge>,
    /// Whether nodes or facts are left out because the plan is too large.
    pub cut: bool,
}

/// A node of a plan: an operator on the CPU, or a pipeline on the device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanNode {
    /// The name of the operator, or of the pipeline (`p0`).
    pub name: String,
    /// Whether it is a pipeline.
    pub pipeline: bool,
    /// Its facts, as EXPLAIN shows them.
    pub facts: Vec<Fact>,
    /// Rows that it returned.
    pub rows: Option<u64>,
    /// Seconds: for an operator the time that its partitions computed, for a pipeline its run time.
    pub seconds: Option<f64>,
    /// The figures of the pipeline's run.
    pub run: Option<PipelineRun>,
}

/// A fact of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// An edge from the node that returns rows to the node that reads them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEdge {
    /// Index of the node that returns the rows.
    pub from: usize,
    /// Index of the node that reads them.
    pub to: usize,
    /// Whether the rows are a build side of a join.
    pub build: bool,
}

/// The run of a pipeline on a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineRun {
    /// How rows were collected.
    pub strategy: String,
    /// Rows of the scanned chunks.
    pub rows_scanned: u64,
    /// Rows that passed the filters.
    pub rows_passed: u64,
    /// Scanned chunks.
    pub chunks: usize,
    /// Chunks that zone maps skipped.
    pub chunks_skipped: usize,
    /// Bytes read from device memory.
    pub device_bytes: u64,
    /// Bytes copied between host and device.
    pub link_bytes: u64,
    /// Launches.
    pub launches: usize,
    /// Whether all columns were in device memory.
    pub resident: bool,
    /// Fraction of the measured bandwidth that the kernels reached.
    pub ceiling: Option<f64>,
    /// Seconds from the start of the statement to the start of the run.
    pub begin: Option<f64>,
    /// Seconds from the start of the statement to the end of the run.
    pub end: Option<f64>,
    /// The phases of the run.
    pub spans: Vec<Span>,
}

/// A phase of a pipeline run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// `load`, `compile`, `transfer` or `kernel`.
    pub phase: String,
    /// Seconds from the start of the statement to the start of the phase. Negative if another statement had
    /// the kernel compiled.
    pub begin: f64,
    /// Its seconds.
    pub seconds: f64,
}

/// The response to a cancellation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancelled {
    /// The statement, which ends soon.
    pub id: u64,
}

/// An error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `unauthenticated`, `denied`, `not_found`, `ended`, `invalid`, `method` or `busy`.
    pub error: String,
    /// The description.
    pub message: String,
}
