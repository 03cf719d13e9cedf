//! sqllogictest files: ours with their expected answers, and DataFusion's as queries only.
//!
//! DataFusion publishes its sqllogictest files with the crate `datafusion-sqllogictest`: 20 000 records that
//! cover all its statements and functions. Each file runs three times over the context that DataFusion's own
//! runner sets up for it: twice on plain DataFusion, and once on a Galatea session on the emulated device.
//! The answers of the device are compared with DataFusion's, record by record. Records that plain DataFusion
//! answers differently in its two runs (random numbers, clocks) and EXPLAIN are excluded and counted. The
//! expectations of the files are ignored. A third of the files, all with `GALATEA_TEST_FILES=all`, runs once
//! more with queries over Parquet files in place of tables in memory, each query twice.
//!
//! Some of the files run always. `GALATEA_SQLLOGICTEST=all` runs all of them,
//! `GALATEA_SQLLOGICTEST=joins,cte` those with one of these words in their path.
//!
//! The data of the files is in DataFusion's repository, not in its crate: [`sample_data`] writes tables of
//! the same columns. Files with data in neither place are listed with the first missing item.

mod compare;
mod folder;
mod order;
mod pass;
mod sample_data;
mod stored;
mod summary;

use datafusion_sqllogictest::DataFusion;
use futures::StreamExt;
use galatea_device::environment;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folder::{TestFolder, Workplace};
use summary::{FileOutcome, Summary};

/// Files of the everyday run: statements of every kind, small tables, few kernels to compile.
const EVERYDAY: &[&str] = &[
    "aggregates_simplify.slt",
    "case.slt",
    "count_star_rule.slt",
    "create_function.slt",
    "delete.slt",
    "group.slt",
    "insert.slt",
    "join_is_not_distinct_from.slt",
    "join_only.slt",
    "null_aware_anti_join.slt",
    "prepare.slt",
    "set_variable.slt",
    "update.slt",
];

/// The time limit for the records of one file on the device. The remaining records are counted.
const FILE_LIMIT: Duration = Duration::from_secs(600);

fn slt_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of sqllogictest files")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn our_sqllogictest_files_pass() {
    let folder = Path::new("tests/slt");
    let files = slt_files(folder);
    assert!(!files.is_empty(), "no files in {}", folder.display());
    for file in files {
        let name = PathBuf::from(file.file_name().expect("a file"));
        let mut runner = sqllogictest::Runner::new(|| {
            let name = name.clone();
            async move {
                let ctx = galatea::session()
                    .with_emulated_device(galatea::EmulatorOptions::default())
                    .with_setting("galatea.device", "emulated")
                    .build()?;
                Ok(DataFusion::new(ctx, name, indicatif::ProgressBar::hidden()))
            }
        });
        runner.with_column_validator(sqllogictest::strict_column_validator);
        runner
            .run_file_async(&file)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn datafusion_sqllogictest_files_match_datafusion() {
    let Some(folder) = TestFolder::find() else {
        println!("skipped: cargo does not say where datafusion-sqllogictest is");
        assert!(
            !environment::require_gpu(),
            "datafusion-sqllogictest is not there"
        );
        return;
    };
    let wanted = environment::sqllogictest();
    let files = match wanted.as_deref() {
        None => folder.files(|path| EVERYDAY.iter().any(|name| path == Path::new(name))),
        Some("all") => folder.files(|_| true),
        Some(words) => {
            folder.files(|path| words.split(',').any(|word| path.to_string_lossy().contains(word)))
        }
    };
    let least = if wanted.is_none() { EVERYDAY.len() } else { 1 };
    assert!(files.len() >= least, "{} files match {wanted:?}", files.len());
    let place = Workplace::new(&folder).await.expect("a temporary folder");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut running = futures::stream::iter(&files)
        .map(|file| FileOutcome::of(&folder, &place, file, FILE_LIMIT))
        .buffer_unordered(threads);
    let mut summary = Summary::default();
    while let Some(outcome) = running.next().await {
        println!("{outcome}");
        summary.files.push(outcome);
    }
    println!("{summary}");
    assert!(summary.on_device() > 0, "no record used the device");
    let differences = summary.differences();
    assert!(differences == 0, "{differences} records differ, see above");
}
