//! What a running process may have at most: by its control group, and by its own limits.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::{Limit as ResourceLimit, LimitValue, MountInfo, Process};
use procfs::{FromRead, ProcessCGroup, ProcessCGroups};
use serde::Serialize;

use crate::proc_texts;

/// From here on the kernel means none: version 1 writes the greatest multiple of the page size.
const UNLIMITED: u64 = 1 << 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// At which the kernel kills,
    Cgroup,
    /// and at which it slows the group down.
    CgroupHigh,
    AddressSpace,
    Data,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    pub kind: LimitKind,
    pub limit_bytes: u64,
    /// Of what the limit is of, if that can be read: of all processes of a group.
    pub used_bytes: Option<u64>,
    /// Of the group that has the limit, which may be one above the process's own.
    pub directory: Option<String>,
}

pub fn limits(process: &Process) -> Vec<Limit> {
    let mut limits = group_limits(Path::new("/"), process.pid());
    limits.extend(own_limits(process));
    limits
}

fn own_limits(process: &Process) -> Vec<Limit> {
    let (Ok(limits), Ok(status)) = (process.limits(), proc_texts::status(process)) else {
        return Vec::new();
    };
    let limit = |kind, limit: ResourceLimit, used_kib: Option<u64>| match limit.soft_limit {
        LimitValue::Value(limit_bytes) => Some(Limit {
            kind,
            limit_bytes,
            used_bytes: used_kib.map(|kib| kib << 10),
            directory: None,
        }),
        LimitValue::Unlimited => None,
    };
    let address_space = limit(LimitKind::AddressSpace, limits.max_address_space, status.vmsize);
    let data = limit(LimitKind::Data, limits.max_data_size, status.vmdata);
    address_space.into_iter().chain(data).collect()
}

/// Least on the way from the process's group up; the files are those below `root`. Mounts are those
/// that the tool itself sees: what the process mounts in a namespace of its own is its affair.
fn group_limits(root: &Path, pid: i32) -> Vec<Limit> {
    let Some(group) = Group::find(root, pid) else { return Vec::new() };
    let limit = |kind, found: Option<Found>| {
        found.map(|Found { limit_bytes, used_bytes, directory }| Limit {
            kind,
            limit_bytes,
            used_bytes,
            directory,
        })
    };
    let hard =
        if group.is_unified { group.least("memory.max") } else { group.least_of_version_1() };
    let most = hard.as_ref().map_or(UNLIMITED, |hard| hard.limit_bytes);
    let high = if group.is_unified { group.least("memory.high") } else { None };
    let high = high.filter(|high| high.limit_bytes < most);
    let hard = limit(LimitKind::Cgroup, hard);
    hard.into_iter().chain(limit(LimitKind::CgroupHigh, high)).collect()
}

/// Where the files of a process's group are, and of those above it, the lowest first.
struct Group {
    is_unified: bool,
    directories: Vec<PathBuf>,
}

struct Found {
    limit_bytes: u64,
    used_bytes: Option<u64>,
    directory: Option<String>,
}

impl Group {
    /// In the hierarchy of version 1 that limits memory, or else in the one of version 2.
    fn find(root: &Path, pid: i32) -> Option<Group> {
        let groups = read(&root.join(format!("proc/{pid}/cgroup")))?;
        let groups = ProcessCGroups::from_read(groups.as_bytes()).ok()?.0;
        let version_1 = groups.iter().find(|group| group.controllers.iter().any(|c| c == "memory"));
        let is_unified = version_1.is_none();
        let is_version_2 =
            |group: &&ProcessCGroup| group.hierarchy == 0 && group.controllers.is_empty();
        let group = &version_1.or_else(|| groups.iter().find(is_version_2))?.pathname;
        let mounts = read(&root.join("proc/self/mountinfo"))?;
        let directories = |line| directories(root, line, group, is_unified);
        Some(Group { is_unified, directories: mounts.lines().find_map(directories)? })
    }

    fn least(&self, name: &str) -> Option<Found> {
        let limits =
            self.directories.iter().map(|directory| (number(&directory.join(name)), directory));
        let (limit_bytes, directory) = limits
            .filter_map(|(limit, directory)| Some((limit?, directory)))
            .min_by_key(|(limit, _)| *limit)?;
        let used = if self.is_unified { "memory.current" } else { "memory.usage_in_bytes" };
        Some(Found {
            limit_bytes,
            used_bytes: number(&directory.join(used)),
            directory: Some(directory.display().to_string()),
        })
    }

    /// The kernel itself tells the least limit, of groups too that are not visible in a container.
    fn least_of_version_1(&self) -> Option<Found> {
        let visible = self.least("memory.limit_in_bytes");
        let statistics = self.directories.iter().find_map(|path| read(&path.join("memory.stat")));
        let told = statistics.as_deref().and_then(|statistics| {
            let line = |line: &str| line.strip_prefix("hierarchical_memory_limit ")?.parse().ok();
            statistics.lines().find_map(line)
        });
        match told {
            None => visible,
            Some(UNLIMITED..) => None,
            Some(limit) => visible.filter(|found| found.limit_bytes == limit).or(Some(Found {
                limit_bytes: limit,
                used_bytes: None,
                directory: None,
            })),
        }
    }
}

/// What the line of mountinfo shows of the group and those above it, if it shows any.
fn directories(root: &Path, line: &str, group: &str, is_unified: bool) -> Option<Vec<PathBuf>> {
    let mount = MountInfo::from_line(line).ok()?;
    let is_wanted = match mount.fs_type.as_str() {
        "cgroup2" => is_unified,
        "cgroup" => !is_unified && mount.super_options.contains_key("memory"),
        _ => false,
    };
    let (top, point) = (plain(&mount.root), plain(mount.mount_point.to_str()?));
    let below = group.strip_prefix(top.trim_end_matches('/'))?;
    let is_below =
        (below.is_empty() || below.starts_with('/')) && !below.split('/').any(|name| name == "..");
    if !is_wanted || !is_below {
        return None;
    }
    let point = root.join(point.trim_start_matches('/'));
    let lowest = point.join(below.trim_matches('/'));
    let count = lowest.components().count() - point.components().count() + 1;
    Some(lowest.ancestors().take(count).map(Path::to_owned).collect())
}

/// Blanks and the like stand in mountinfo as backslash and three octal digits.
fn plain(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => plain.extend([&char::from(code).to_string(), &part[3..]]),
            None => plain.extend(["\\", part]),
        }
    }
    plain
}

fn read(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// "max" is none, and neither is what nobody has.
fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok().filter(|number| *number < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::temporary::TemporaryDirectory;

    const PID: i32 = 7;
    const UNIFIED: &str = "30 1 0:1 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
    const MEMORY: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    /// A root directory with such files, as text or figures.
    fn root(group: &str, mounts: &str, files: &[(&str, &str)]) -> TemporaryDirectory {
        let root = TemporaryDirectory::new().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/7/cgroup", group);
        write("proc/self/mountinfo", mounts);
        files.iter().for_each(|(path, text)| write(&format!("sys/fs/cgroup/{path}"), text));
        root
    }

    fn found(root: &TemporaryDirectory) -> Vec<(LimitKind, u64, Option<u64>, Option<String>)> {
        let start = root.path().join("sys/fs/cgroup").display().to_string();
        let below = |path: String| path.strip_prefix(&start).unwrap().to_owned();
        let limits = group_limits(root.path(), PID).into_iter();
        limits.map(|l| (l.kind, l.limit_bytes, l.used_bytes, l.directory.map(below))).collect()
    }

    #[test]
    fn the_lowest_of_all_groups_above_limits() {
        let files = [
            ("a/memory.max", "1000\n"),
            ("a/memory.current", "900\n"),
            ("a/memory.high", "max\n"),
            ("a/b/memory.max", "5000\n"),
            ("a/b/memory.current", "10\n"),
            ("a/b/memory.high", "800\n"),
            ("a/b/c d/memory.max", "max\n"),
        ];
        let a = Some("/a".to_owned());
        let high = (LimitKind::CgroupHigh, 800, Some(10), Some("/a/b".to_owned()));
        let both = vec![(LimitKind::Cgroup, 1000, Some(900), a), high];
        let mounts = format!("29 1 0:9 / / rw - ext4 /dev/vda rw\n{UNIFIED}");
        assert_eq!(found(&root("1:name=systemd:/x\n0::/a/b/c d\n", &mounts, &files)), both);
        assert_eq!(serde_json::json!(LimitKind::CgroupHigh), "cgroup_high");
        // Where that group has gone, those above it are left.
        assert_eq!(found(&root("0::/a/b/gone (deleted)\n", &mounts, &files)), both);
        let inside = r"30 1 0:1 /a/b /sys/fs/cgroup/a/b rw - cgroup2 cgroup2 rw";
        assert_eq!(found(&root("0::/a/b/c d\n", inside, &files)).len(), 2);
    }

    #[test]
    fn where_nothing_limits_nothing_is_said() {
        let files = [("a/memory.max", "max\n"), ("memory/a/memory.limit_in_bytes", "12\n")];
        for (group, mounts) in [
            ("0::/a\n", UNIFIED),
            ("0::/../a\n", UNIFIED),
            ("0::/elsewhere\n", UNIFIED),
            ("0::/a\n", MEMORY),
            ("4:memory:/a\n", UNIFIED),
            ("4:memory:/../memory/a\n", MEMORY),
            ("4:memory:/a\n", "35 31 0:32 /ab /sys/fs/cgroup/memory rw - cgroup c rw,memory\n"),
            ("4:cpu,memory\n", MEMORY),
            ("\u{0}::::\n\n", " - - \n"),
            ("", ""),
        ] {
            assert_eq!(found(&root(group, mounts, &files)), vec![], "{group} {mounts}");
        }
        assert!(group_limits(Path::new("/no/such/root"), PID).is_empty());
    }

    #[test]
    fn version_1_tells_of_hidden_groups() {
        let limits = ("memory/a/memory.limit_in_bytes", "4096\n");
        let used = ("memory/a/memory.usage_in_bytes", "40\n");
        let own = ("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        let group = "4:cpu,memory:/a/b\n0::/\n";
        let told = |limit: &str| {
            let text = format!("cache 1\nhierarchical_memory_limit {limit}\n");
            found(&root(group, MEMORY, &[limits, used, own, ("memory/a/b/memory.stat", &text)]))
        };
        let a = || Some("/memory/a".to_owned());
        assert_eq!(told("4096"), vec![(LimitKind::Cgroup, 4096, Some(40), a())]);
        assert_eq!(told("1024"), vec![(LimitKind::Cgroup, 1024, None, None)]);
        assert_eq!(told("9223372036854771712"), vec![]);
        let without = found(&root(group, MEMORY, &[limits, own]));
        assert_eq!(without, vec![(LimitKind::Cgroup, 4096, None, a())]);
    }

    #[test]
    fn blanks_in_mount_points_are_decoded() {
        assert_eq!(plain(r"/a\040b\134\9"), r"/a b\\9");
        assert_eq!(plain("\\é\\"), "\\é\\");
    }
}
