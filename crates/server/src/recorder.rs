//! The recorder of metrics of the process, for `/metrics`.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Upper bounds of the histograms, in seconds.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0,
];

/// The recorder of the process, which all its servers share.
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Installs the recorder, unless the process has another one.
pub(crate) fn install() -> Option<PrometheusHandle> {
    let handle = RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)
            .ok()?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).ok()?;
        crate::metrics::describe();
        Some(handle)
    });
    handle.clone()
}

/// All metrics in the format of Prometheus; `None` if the process has another recorder.
pub(crate) fn render() -> Option<String> {
    RECORDER.get()?.as_ref().map(PrometheusHandle::render)
}
