//! Values of the facts about loads of columns from files.

use galatea_base::reason::{milliseconds, size};
use galatea_store::{LoadReport, LoadStep};

/// The column chunks that a load has decoded on each side, with the reasons of the host.
pub(super) fn column_chunks(load: &LoadReport) -> Option<String> {
    let on_host = load.on_host();
    let reasons = load.host_reasons.iter();
    let reasons: Vec<String> = reasons
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let reasons = match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({})", reasons.join(", ")),
    };
    let sides = format!(
        "{} decoded on the GPU, {on_host} on the CPU{reasons}",
        load.on_device
    );
    (load.on_device + on_host > 0).then_some(sides)
}

/// The bytes that a load has read, with time and rate.
pub(super) fn from_files(load: &LoadReport) -> Option<String> {
    let rate = load.bytes_read as f64 / load.time.as_secs_f64().max(f64::MIN_POSITIVE);
    let (read, time) = (size(load.bytes_read), milliseconds(load.time));
    let read = format!("{read} in {time} at {}", gigabytes(rate));
    (load.bytes_read > 0).then_some(read)
}

/// The time of the steps of a load that took any.
pub(super) fn steps(load: &LoadReport) -> Option<String> {
    let times = LoadStep::ALL.map(|step| (step, load.steps.time(step)));
    let times = times.iter().filter(|(_, time)| !time.is_zero());
    let times: Vec<String> = times
        .map(|(step, time)| {
            let threads = if step.is_sequential() { "" } else { " of threads" };
            format!("{step} {}{threads}", milliseconds(*time))
        })
        .collect();
    (!times.is_empty()).then(|| times.join(", "))
}

/// The numbers of row groups and pages that a load has read and skipped.
pub(super) fn row_groups(load: &LoadReport) -> Option<String> {
    let pruning = load.pruning?;
    let all = pruning.row_groups;
    let excluded = pruning.by_statistics + pruning.by_bloom_filters + pruning.by_pages;
    if pruning.bytes == 0 {
        let mut text = format!("{all} of {all}");
        if excluded > 0 {
            text += &format!(" (whole columns; {} have rows for the query)", all - excluded);
        }
        return Some(text);
    }
    let mut text = format!("{} of {all}", all - excluded);
    for (number, by) in [
        (pruning.by_statistics, "statistics"),
        (pruning.by_bloom_filters, "Bloom filters"),
        (pruning.by_pages, "the page index"),
    ] {
        if number > 0 {
            text += &format!(", {number} skipped by {by}");
        }
    }
    if pruning.pages_read < pruning.pages {
        text += &format!("; {} of {} pages", pruning.pages_read, pruning.pages);
    }
    Some(text)
}

/// The columns that a load has read from the column cache on disk, with time and rate.
pub(super) fn from_disk(load: &LoadReport) -> Option<String> {
    let rate = load.disk_bytes as f64 / load.disk_time.as_secs_f64().max(f64::MIN_POSITIVE);
    let (read, time) = (size(load.disk_bytes), milliseconds(load.disk_time));
    let columns = load.disk_columns;
    let read = format!("{columns} columns, {read} in {time} at {}", gigabytes(rate));
    (columns > 0).then_some(read)
}

/// A number of bytes per second.
pub(super) fn gigabytes(rate: f64) -> String {
    format!("{:.2} GB/s", rate / 1e9)
}
