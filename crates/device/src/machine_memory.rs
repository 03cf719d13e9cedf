//! The memory of this machine, or of the process's container, whichever is less.
//!
//! Linux limits a process by its control groups: each group from the process's own up to the root may have a
//! limit, and the least applies. Both versions are read: version 2 (`0::/path` in `/proc/self/cgroup`,
//! `memory.max`) and version 1 (`N:memory:/path`, `memory.limit_in_bytes`). In a container the path may be
//! that of the host, while the container's own group is mounted as the root: folders that do not exist are
//! skipped on the way up, and the root is always read. `sysinfo` does not replace this: its `cgroup_limits`
//! reads the root of the mount only, and counts files in the page cache as used.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// The most memory that this process can have.
    pub total: u64,
    /// Memory that is still available, if the system reports it.
    pub available: Option<u64>,
}

/// Assumed if the system does not report its memory.
const UNKNOWN: u64 = 8 << 30;

impl MachineMemory {
    /// Returns the present memory. Reads some files, which takes about as long as planning a small query.
    #[must_use]
    pub fn look() -> Self {
        Self::read(Path::new("/"))
    }

    /// The most memory that this process can have, as of the first call.
    #[must_use]
    pub fn total() -> u64 {
        static TOTAL: OnceLock<u64> = OnceLock::new();
        *TOTAL.get_or_init(|| Self::look().total)
    }

    /// Reads the files of a system under `root`.
    fn read(root: &Path) -> Self {
        let meminfo = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let figure = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kibibytes * 1024)
        };
        let mut total = figure("MemTotal:").or_else(physical).unwrap_or(UNKNOWN);
        let mut available = figure("MemAvailable:");
        for group in groups(root) {
            if let Some(limit) = group.number(group.version.limit) {
                total = total.min(limit);
                let left = limit.saturating_sub(group.in_use());
                available = available.map(|available| available.min(left));
            }
        }
        Self { total, available }
    }
}

/// File names of a version of control groups.
struct Version {
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat` for files that the group has read. They are dropped when memory is needed.
    files: [&'static str; 2],
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file ", "total_active_file "],
};
const V2: Version = Version {
    limit: "memory.max",
    used: "memory.current",
    files: ["inactive_file ", "active_file "],
};

/// One group's folder.
struct Group {
    folder: PathBuf,
    version: &'static Version,
}

impl Group {
    /// The number in a file; `None` for `max`.
    fn number(&self, file: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        text.trim().parse().ok()
    }

    fn in_use(&self) -> u64 {
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let line = |name: &str| {
            stat.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        let files: u64 = self.version.files.into_iter().filter_map(line).sum();
        self.number(self.version.used).unwrap_or(0).saturating_sub(files)
    }
}

/// The groups that limit this process's memory, beginning with its own.
fn groups(root: &Path) -> Vec<Group> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (mounts, version) = match controllers {
            "" => (["sys/fs/cgroup", "sys/fs/cgroup/unified"], &V2),
            listed if listed.split(',').any(|name| name == "memory") => {
                (["sys/fs/cgroup/memory", "sys/fs/cgroup/memory"], &V1)
            }
            _ => continue,
        };
        for mount in mounts {
            // `..` leads out of the namespace: outer groups are not visible.
            let own = Path::new(path.trim_start_matches('/'));
            groups.extend(own.ancestors().map(|path| Group {
                folder: root.join(mount).join(path),
                version,
            }));
        }
    }
    groups
}

/// The memory of the machine, from POSIX.
fn physical() -> Option<u64> {
    // SAFETY: sysconf has no preconditions.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let (pages, size) = (u64::try_from(pages).ok()?, u64::try_from(size).ok()?);
    (pages > 0).then_some(pages * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   8388608 kB\n";
    const GIB: u64 = 1 << 30;

    fn look(files: &[(&str, &str)]) -> (u64, Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [("proc/meminfo", MEMINFO)].iter().chain(files) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let MachineMemory { total, available } = MachineMemory::read(root.path());
        (total, available)
    }

    #[test]
    fn unlimited_cgroup_uses_machine_memory() {
        assert_eq!(look(&[]), (16 * GIB, Some(8 * GIB)));
        let unlimited = [
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ];
        assert_eq!(look(&unlimited), (16 * GIB, Some(8 * GIB)));
        let unlimited = [
            ("proc/self/cgroup", "3:memory:/a\n"),
            (
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        assert_eq!(look(&unlimited), (16 * GIB, Some(8 * GIB)));
    }

    #[test]
    fn smallest_limit_of_cgroup_ancestors_applies() {
        let nested = [
            ("proc/self/cgroup", "0::/slice/pod/container\n"),
            ("sys/fs/cgroup/slice/memory.max", "6442450944\n"),
            ("sys/fs/cgroup/slice/pod/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/slice/pod/memory.current", "3221225472\n"),
            (
                "sys/fs/cgroup/slice/pod/memory.stat",
                "anon 5\ninactive_file 536870912\nactive_file 536870912\n",
            ),
            ("sys/fs/cgroup/slice/pod/container/memory.max", "max\n"),
        ];
        // 3 GiB are in use, 1 GiB of them by files.
        assert_eq!(look(&nested), (4 * GIB, Some(2 * GIB)));
    }

    #[test]
    fn container_reads_its_cgroup_at_the_root() {
        let v2 = [
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "2147483648\n"),
        ];
        assert_eq!(look(&v2), (2 * GIB, Some(2 * GIB)));
        let v1 = [
            (
                "proc/self/cgroup",
                "12:cpu,cpuacct:/docker/f00\n5:memory:/docker/f00\n1:name=systemd:/x\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "total_inactive_file 268435456\n",
            ),
            ("sys/fs/cgroup/cpu/docker/f00/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(look(&v1), (GIB, Some(3 * GIB / 4)));
        let hybrid = [
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/unified/a/memory.max", "3221225472\n"),
        ];
        assert_eq!(look(&hybrid).0, 3 * GIB);
    }

    #[test]
    fn machine_memory_is_detected() {
        let memory = MachineMemory::look();
        assert!(memory.total >= 64 << 20, "{memory:?}");
        assert!(
            memory.available.is_none_or(|available| available <= memory.total),
            "{memory:?}"
        );
        assert!(
            physical().is_some_and(|bytes| bytes >= memory.total),
            "{memory:?}"
        );
    }
}
