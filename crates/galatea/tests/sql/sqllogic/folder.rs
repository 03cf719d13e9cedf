//! The location of DataFusion's files, and the place that they read and write: a temporary folder with the
//! structure of its repository.

use super::sample_data;
use cargo_metadata::MetadataCommand;
use datafusion_sqllogictest::{DFColumnType, read_dir_recursive};
use sqllogictest::Record;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folder of the crate `datafusion-sqllogictest`.
pub(super) struct TestFolder(PathBuf);

impl TestFolder {
    /// Asks cargo for the folder of the crate that this test was built with.
    pub(super) fn find() -> Option<Self> {
        // Crates of other platforms were not downloaded.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let metadata = MetadataCommand::new()
            .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
            .other_options(vec![
                "--offline".to_string(),
                "--filter-platform".to_string(),
                platform,
            ])
            .exec()
            .ok()?;
        let found = metadata
            .packages
            .iter()
            .find(|package| package.name.as_str() == "datafusion-sqllogictest")?;
        Some(Self(found.manifest_path.parent()?.into()))
    }

    /// Relative paths of the files that `wanted` accepts.
    pub(super) fn files(&self, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let folder = self.0.join("test_files");
        let mut files: Vec<PathBuf> = read_dir_recursive(&folder)
            .expect("a readable folder")
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
            .map(|path| {
                path.strip_prefix(&folder)
                    .expect("a file of the folder")
                    .to_path_buf()
            })
            .filter(|path| wanted(path))
            .collect();
        files.sort();
        files
    }

    /// The records of a file, including its includes.
    pub(super) fn records(&self, file: &Path) -> Result<Vec<Record<DFColumnType>>, String> {
        sqllogictest::parse_file(self.0.join("test_files").join(file)).map_err(|error| error.to_string())
    }
}

/// Simulates a checkout of DataFusion's repository, because the files contain its paths.
pub(super) struct Workplace(TempDir);

impl Workplace {
    pub(super) async fn new(folder: &TestFolder) -> std::io::Result<Self> {
        let place = Self(tempfile::tempdir()?);
        let own = place.crate_folder().join("data");
        std::fs::create_dir_all(&own)?;
        for entry in std::fs::read_dir(folder.0.join("data"))? {
            let entry = entry?;
            std::fs::copy(entry.path(), own.join(entry.file_name()))?;
        }
        sample_data::write(place.0.path()).await?;
        Ok(place)
    }

    /// Simulates `datafusion/sqllogictest`, where the files expect to run.
    fn crate_folder(&self) -> PathBuf {
        self.0.path().join("datafusion").join("sqllogictest")
    }

    /// An empty scratch folder for the file.
    pub(super) fn clear_scratch(&self, file: &Path) -> std::io::Result<()> {
        let stem = file.file_stem().unwrap_or_default();
        let scratch = self.crate_folder().join("test_files").join("scratch").join(stem);
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch)?;
        }
        std::fs::create_dir_all(scratch)
    }

    /// The statement with its relative paths made absolute, because the test process stays in its own folder.
    pub(super) fn absolute(&self, sql: &str) -> String {
        let root = self.0.path().display();
        let own = self.crate_folder();
        let own = own.display();
        let mut sql = sql.to_string();
        for quote in ['\'', '"'] {
            for (relative, absolute) in [
                ("../../", format!("{root}/")),
                ("../", format!("{root}/datafusion/")),
                ("test_files/", format!("{own}/test_files/")),
                ("data/", format!("{own}/data/")),
            ] {
                sql = sql.replace(&format!("{quote}{relative}"), &format!("{quote}{absolute}"));
            }
        }
        sql
    }
}
