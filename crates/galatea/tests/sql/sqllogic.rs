//! sqllogictest files, run by DataFusion's own runner over an emulated session.

use datafusion_sqllogictest::DataFusion;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of sqllogictest files")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn sqllogictest_files_pass() {
    let folder = Path::new("tests/slt");
    let files = files(folder);
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
