//! Device programs: CUDA C++ source with its headers and options.

use std::sync::Arc;

use crate::info::Architecture;

/// Header files that compiled programs may include, by name. Cheap to clone; digested once.
#[derive(Clone)]
pub struct Headers {
    files: Arc<[(String, String)]>,
    digest: blake3::Hash,
}

impl Headers {
    /// Creates headers from their names (as in `#include "name"`) and texts.
    #[must_use]
    pub fn new<N: AsRef<str>, T: AsRef<str>>(files: impl IntoIterator<Item = (N, T)>) -> Self {
        let files: Arc<[(String, String)]> = files
            .into_iter()
            .map(|(name, text)| (name.as_ref().to_owned(), text.as_ref().to_owned()))
            .collect();
        let mut hasher = blake3::Hasher::new();
        for (name, text) in files.iter() {
            for part in [name, text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        Self {
            files,
            digest: hasher.finalize(),
        }
    }

    /// Names and texts.
    #[must_use]
    pub fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// Digest of all names and texts, in order.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        *self.digest.as_bytes()
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::new(std::iter::empty::<(&str, &str)>())
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.files.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Effort of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tier {
    /// Full optimisation, for kernels that run long or often.
    #[default]
    Optimised,
    /// `--Ofast-compile=mid`: two thirds of the time on a plain kernel, a fifth on an unrolled one, for
    /// slightly slower code. Used first, while the optimised kernel is compiled in the background. (`=max`
    /// spills registers.)
    Quick,
}

/// A program to compile: one unit, one cubin.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name in messages; not part of the compilation, so equal programs of different names share one cubin.
    pub name: String,
    /// CUDA C++ source.
    pub source: String,
    /// Headers that it may include.
    pub headers: Headers,
    /// Its kernels, `extern "C" __global__`, by name.
    pub entries: Vec<String>,
    /// Options in addition to the default ones.
    pub options: Vec<String>,
    /// Effort of the compiler.
    pub tier: Tier,
}

impl Program {
    /// Creates a program without headers, kernels and options.
    #[must_use]
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            headers: Headers::default(),
            entries: Vec::new(),
            options: Vec::new(),
            tier: Tier::default(),
        }
    }

    /// Sets the headers that it may include.
    #[must_use]
    pub fn headers(mut self, headers: &Headers) -> Self {
        self.headers = headers.clone();
        self
    }

    /// Adds a kernel.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entries.push(name.into());
        self
    }

    /// Adds a compiler option.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Sets the tier.
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// All options, in order: the defaults, the tier's, the program's own.
    ///
    /// The defaults compile fastest without any loss: `--minimal` omits parts that only the runtime API
    /// needs, `-default-device` avoids `__device__` on every helper.
    #[must_use]
    pub fn all_options(&self, architecture: Architecture) -> Vec<String> {
        let mut options = vec![
            format!("-arch={architecture}"),
            MINIMAL.to_owned(),
            "-std=c++17".to_owned(),
            "--device-int128".to_owned(),
            "-default-device".to_owned(),
        ];
        match self.tier {
            Tier::Optimised => {}
            Tier::Quick => options.push(QUICK.to_owned()),
        }
        options.extend(self.options.iter().cloned());
        options
    }
}

/// Omits parts that only the runtime API needs.
const MINIMAL: &str = "--minimal";
/// The quick tier's option.
const QUICK: &str = "--Ofast-compile=mid";

/// Options that only save time. Compilers too old to support them are called without.
pub(crate) const OPTIONAL: [&str; 2] = [MINIMAL, QUICK];
