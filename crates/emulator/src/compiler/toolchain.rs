//! The host's C++ compiler.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;

/// A working compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolchain {
    pub(crate) path: PathBuf,
    /// First line of `--version`.
    pub(crate) version: String,
    /// GCC, as opposed to Clang.
    pub(crate) gnu: bool,
    /// Whether the gold linker is installed. It starts faster than the default linker.
    pub(crate) gold: bool,
}

/// No compiler was found.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "no C++ compiler: {tried}\n\
     hint: the emulated device compiles kernels with the host's C++ compiler: install g++, or name one by GALATEA_CXX"
)]
pub(crate) struct ToolchainError {
    tried: String,
}

type Found = Result<Arc<Toolchain>, ToolchainError>;

impl Toolchain {
    /// Returns the compiler at a path, or the first of `c++` and `g++` that runs. The search runs once per
    /// process and path.
    pub(crate) fn find(path: Option<&Path>) -> Found {
        static FOUND: Mutex<Option<HashMap<Option<PathBuf>, Found>>> = Mutex::new(None);
        let mut found = FOUND.lock();
        let known = found.get_or_insert_default();
        if let Some(answer) = known.get(&path.map(Path::to_owned)) {
            return answer.clone();
        }
        let candidates = match path {
            Some(path) => vec![path.to_owned()],
            None => vec![PathBuf::from("c++"), PathBuf::from("g++")],
        };
        let mut tried = Vec::new();
        let mut answer = None;
        for candidate in candidates {
            match Toolchain::probe(&candidate) {
                Ok(toolchain) => {
                    answer = Some(Arc::new(toolchain));
                    break;
                }
                Err(why) => tried.push(format!("`{}`: {why}", candidate.display())),
            }
        }
        let answer = answer.ok_or_else(|| ToolchainError {
            tried: tried.join(", "),
        });
        known.insert(path.map(Path::to_owned), answer.clone());
        answer
    }

    fn probe(path: &Path) -> Result<Toolchain, String> {
        let output = Command::new(path)
            .arg("--version")
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("`--version` ended with {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next().unwrap_or_default().to_owned();
        let gnu = !text.contains("clang");
        // Prints the program's path if it exists, and its bare name otherwise.
        let gold = Command::new(path)
            .arg("-print-prog-name=ld.gold")
            .output()
            .is_ok_and(|output| output.stdout.starts_with(b"/"));
        Ok(Toolchain {
            path: path.to_owned(),
            version,
            gnu,
            gold,
        })
    }
}
