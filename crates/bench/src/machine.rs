//! The environment of a measurement: machine, commit, date.

use std::process::Command;

use galatea_device::MachineMemory;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// The environment of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor, cores, memory, and the GPU if one exists.
    pub description: String,
    /// The commit of the working tree, with `-dirty` if it had changes, `unknown` outside of one.
    pub commit: String,
    /// Today in UTC, `yyyy-mm-dd`.
    pub date: String,
    /// Galatea's version.
    pub version: String,
}

impl Machine {
    /// The last columns of every row of an experiment.
    pub(crate) fn cells(&self) -> [(&'static str, String); 4] {
        [
            ("machine", self.description.clone()),
            ("commit", self.commit.clone()),
            ("date", self.date.clone()),
            ("version", self.version.clone()),
        ]
    }

    /// Describes this machine, with the GPU `gpu`. `commit` replaces git's answer, for binaries outside of
    /// their working tree.
    pub fn look(gpu: Option<&str>, commit: Option<String>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut description = format!("{}, {cores} cores, {} GiB", processor(), memory_gib());
        if let Some(gpu) = gpu {
            description = format!("{gpu}; {description}");
        }
        Self {
            description,
            commit: commit
                .or_else(git_commit)
                .unwrap_or_else(|| "unknown".to_string()),
            date: chrono::Utc::now().format("%Y-%m-%d").to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }

    /// A short name for a directory: the GPU or else the processor, in lower case with dashes.
    pub fn slug(&self) -> String {
        let name = self.description.split([';', ',']).next().unwrap_or_default();
        let name = name.replace("(R)", " ").replace("(TM)", " ");
        let words = name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let slug = words.take(4).collect::<Vec<_>>().join("-").to_ascii_lowercase();
        if slug.is_empty() {
            "unknown".to_string()
        } else {
            slug
        }
    }
}

fn processor() -> String {
    let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
    let brand = system.cpus().first().map_or("", |processor| processor.brand());
    match brand.trim() {
        "" => std::env::consts::ARCH.to_string(),
        brand => brand.to_string(),
    }
}

fn memory_gib() -> u64 {
    MachineMemory::total().div_ceil(1 << 30)
}

fn git_commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    Some(if changed {
        format!("{commit}-dirty")
    } else {
        commit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_slug_prefers_the_gpu() {
        let machine = |description: &str| Machine {
            description: description.to_string(),
            commit: String::new(),
            date: String::new(),
            version: String::new(),
        };
        assert_eq!(
            machine("NVIDIA H200; Xeon(R) CPU, 16 cores").slug(),
            "nvidia-h200"
        );
        assert_eq!(machine("AMD EPYC 7B13, 2 cores, 4 GiB").slug(), "amd-epyc-7b13");
        assert_eq!(
            machine("Intel(R) Xeon(R) Processor, 2 cores").slug(),
            "intel-xeon-processor"
        );
        assert_eq!(machine("").slug(), "unknown");
    }

    #[test]
    fn machine_description_has_date_and_cpu() {
        let machine = Machine::look(None, Some("abc".to_string()));
        assert_eq!((machine.date.len(), machine.commit.as_str()), (10, "abc"));
        assert!(machine.description.contains("cores"), "{}", machine.description);
    }
}
