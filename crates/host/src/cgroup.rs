//! Limits of this process's control group, and how often it was throttled; version 1, version 2, and both at once.

use crate::Root;

/// The most levels between a group and its mount point.
const MAX_DEPTH: usize = 64;
/// The threshold above which a limit means "no limit", an exbibyte: version 1 writes the largest multiple of a page in an `i64`.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// A controller's folder, with the ancestor groups up to the mount point of the hierarchy, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    pub(crate) version: u8,
    folders: Vec<String>,
}

impl ControlGroup {
    /// Returns the folder of the group itself.
    pub(crate) fn folder(&self) -> &str {
        self.folders.first().map_or("", String::as_str)
    }
}

/// Finds the group of this process for `controller`, such as `cpu`.
pub(crate) fn group(root: &Root, controller: &str) -> Result<ControlGroup, String> {
    let groups = root.text("/proc/self/cgroup")?;
    let mounts = root.text("/proc/self/mountinfo")?;
    find_group(&groups, &mounts, controller)
        .ok_or_else(|| format!("no mounted control group hierarchy has the `{controller}` controller"))
}

/// Finds the group in the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`: the pure part of [`group`].
fn find_group(groups: &str, mounts: &str, controller: &str) -> Option<ControlGroup> {
    let one = groups.lines().find_map(|line| version_one_path(line, controller));
    let mounted_one = one.and_then(|path| Some((1, path, mount_of(mounts, "cgroup", Some(controller))?)));
    let two = || Some((2, groups.lines().find_map(|line| line.strip_prefix("0::"))?, mount_of(mounts, "cgroup2", None)?));
    let (version, path, (mount_root, mount_point)) = mounted_one.or_else(two)?;
    Some(ControlGroup { version, folders: folders(path, mount_root, mount_point) })
}

/// Returns the path of a version 1 line for a controller: `4:cpu,cpuacct:/path` holds `cpu`.
fn version_one_path<'a>(line: &'a str, controller: &str) -> Option<&'a str> {
    let mut parts = line.splitn(3, ':').skip(1);
    let held = parts.next()?.split(',').any(|name| name == controller);
    parts.next().filter(|_| held)
}

/// Returns root and mount point of the first hierarchy of that type. See proc_pid_mountinfo(5): fields 4 and 5, and after ` - `
/// the type, the source and the super options, which name a version 1 hierarchy's controllers.
fn mount_of<'a>(mounts: &'a str, kind: &str, controller: Option<&str>) -> Option<(&'a str, &'a str)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let is_kind = after.next()? == kind;
        let has = |name: &str| after.nth(1).is_some_and(|options| options.split(',').any(|option| option == name));
        if !is_kind || !controller.is_none_or(has) {
            return None;
        }
        let mut before = before.split(' ').skip(3);
        Some((before.next()?, before.next()?))
    })
}

/// Returns the folders of a group and of its ancestors. In a container the mount's root is the container's own group, and the
/// path in `/proc/self/cgroup` may be one that is not visible: then the mount point itself is the group.
fn folders(path: &str, mount_root: &str, mount_point: &str) -> Vec<String> {
    let below = if mount_root == "/" { Some(path) } else { path.strip_prefix(mount_root) };
    let below = below.filter(|below| !below.split('/').any(|part| part == "..")).unwrap_or("");
    let parts: Vec<_> = below.split('/').filter(|part| !part.is_empty()).take(MAX_DEPTH).collect();
    let folder = |depth: usize| {
        let above = parts.iter().take(depth).fold(String::new(), |path, part| path + "/" + part);
        format!("{}{above}", mount_point.trim_end_matches('/'))
    };
    (0..=parts.len()).rev().map(folder).collect()
}

/// Returns the CPUs that the group allows, in thousandths: the tightest limit of the group and its ancestors.
pub(crate) fn cpu_millis(root: &Root) -> Result<(u64, String), String> {
    let group = group(root, "cpu")?;
    let limit = |folder: &String| match group.version {
        1 => {
            let read = |name: &str| root.text(&format!("{folder}/{name}")).ok();
            quota_millis(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
        }
        _ => cpu_max_millis(&root.text(&format!("{folder}/cpu.max")).ok()?),
    };
    tightest(&group, limit).ok_or_else(|| no_limit(&group, "CPU"))
}

/// Returns the memory that the group allows, in bytes: the tightest limit of the group and its ancestors.
pub(crate) fn memory_bytes(root: &Root) -> Result<(u64, String), String> {
    let group = group(root, "memory")?;
    let file = if group.version == 1 { "memory.limit_in_bytes" } else { "memory.max" };
    let limit = |folder: &String| root.number::<u64>(&format!("{folder}/{file}")).ok().filter(|bytes| *bytes < NO_LIMIT_BYTES);
    tightest(&group, limit).ok_or_else(|| no_limit(&group, "memory"))
}

fn tightest(group: &ControlGroup, limit: impl Fn(&String) -> Option<u64>) -> Option<(u64, String)> {
    group.folders.iter().filter_map(|folder| Some((limit(folder)?, folder.clone()))).min_by_key(|(limit, _)| *limit)
}

fn no_limit(group: &ControlGroup, what: &str) -> String {
    format!("no {what} limit is set in `{}` or above it", group.folder())
}

/// Parses `cpu.max` of version 2: `max 100000` or `150000 100000`.
fn cpu_max_millis(text: &str) -> Option<u64> {
    let (quota, period) = text.trim().split_once(' ')?;
    quota_millis(quota, period)
}

/// Returns quota over period; "no limit" is -1 in version 1, and `max` in version 2.
fn quota_millis(quota: &str, period: &str) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    quota.checked_mul(1000)?.checked_div(period)
}

/// The number and the duration of the group's throttling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttling {
    pub(crate) periods: Option<u64>,
    pub(crate) throttled_periods: Option<u64>,
    pub(crate) throttled_us: Option<u64>,
}

impl ControlGroup {
    /// Reads the group's `cpu.stat`, of either version.
    pub(crate) fn throttling(&self, root: &Root) -> Throttling {
        let stat = root.text(&format!("{}/cpu.stat", self.folder()));
        stat.map(|stat| parse_cpu_stat(&stat)).unwrap_or_default()
    }

    /// Returns the text of the group's `cpu.pressure`; none of a group of version 1, which has none.
    pub(crate) fn cpu_pressure(&self, root: &Root) -> Option<String> {
        (self.version == 2).then(|| root.text(&format!("{}/cpu.pressure", self.folder())).ok()).flatten()
    }
}

/// Reads the throttling of this process's group.
pub(crate) fn throttling(root: &Root) -> Throttling {
    group(root, "cpu").map(|group| group.throttling(root)).unwrap_or_default()
}

fn parse_cpu_stat(text: &str) -> Throttling {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
    Throttling {
        periods: field("nr_periods"),
        throttled_periods: field("nr_throttled"),
        // Version 2 counts microseconds, version 1 nanoseconds.
        throttled_us: field("throttled_usec").or_else(|| field("throttled_time").map(|ns| ns / 1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    const V2_MOUNT: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_MOUNTS: &str = "25 21 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
        31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n\
        32 25 0:28 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory\n\
        33 25 0:29 / /sys/fs/cgroup/unified rw shared:17 - cgroup2 cgroup2 rw\n";

    fn machine(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Tree {
        let tree = Tree::new(&[("proc/self/cgroup", groups), ("proc/self/mountinfo", mounts)]);
        for (path, text) in files {
            tree.add(path, text);
        }
        tree
    }

    #[test]
    fn version_two_takes_the_tightest_limit_on_the_way_up() {
        let tree = machine(
            "0::/kubepods.slice/pod1/c1\n",
            V2_MOUNT,
            &[
                ("sys/fs/cgroup/kubepods.slice/pod1/c1/cpu.max", "max 100000\n"),
                ("sys/fs/cgroup/kubepods.slice/pod1/cpu.max", "250000 100000\n"),
                ("sys/fs/cgroup/kubepods.slice/cpu.max", "800000 100000\n"),
                ("sys/fs/cgroup/kubepods.slice/pod1/c1/memory.max", "1073741824\n"),
                ("sys/fs/cgroup/kubepods.slice/pod1/memory.max", "max\n"),
                (
                    "sys/fs/cgroup/kubepods.slice/pod1/c1/cpu.stat",
                    "usage_usec 5\nnr_periods 7\nnr_throttled 3\nthrottled_usec 4200\n",
                ),
            ],
        );
        assert_eq!(cpu_millis(&tree.root()), Ok((2500, "/sys/fs/cgroup/kubepods.slice/pod1".to_owned())));
        assert_eq!(memory_bytes(&tree.root()), Ok((1 << 30, "/sys/fs/cgroup/kubepods.slice/pod1/c1".to_owned())));
        let expected = Throttling { periods: Some(7), throttled_periods: Some(3), throttled_us: Some(4200) };
        assert_eq!(throttling(&tree.root()), expected);
    }

    #[test]
    fn a_group_that_is_not_visible_is_the_mount_itself() {
        for (groups, mounts) in [
            ("0::/../../outside\n", V2_MOUNT),
            ("0::/docker/abc\n", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
        ] {
            let tree = machine(groups, mounts, &[("sys/fs/cgroup/cpu.max", "50000 100000")]);
            assert_eq!(cpu_millis(&tree.root()), Ok((500, "/sys/fs/cgroup".to_owned())), "{groups}");
        }
    }

    #[test]
    fn version_one_is_read_beside_an_empty_version_two() {
        let tree = machine(
            "5:memory:/job\n4:cpu,cpuacct:/job\n0::/\n",
            V1_MOUNTS,
            &[
                ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/job/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 5000000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        assert_eq!(cpu_millis(&tree.root()), Ok((1500, "/sys/fs/cgroup/cpu,cpuacct/job".to_owned())));
        insta::assert_snapshot!(
            memory_bytes(&tree.root()).expect_err("no limit"),
            @"no memory limit is set in `/sys/fs/cgroup/memory/job` or above it"
        );
        assert_eq!(throttling(&tree.root()).throttled_us, Some(5000));
    }

    #[test]
    fn odd_files_are_no_limit_and_no_count() {
        for text in ["", "max", "max 100000", "x y", "1 0", "18446744073709551615 1"] {
            let tree = machine("0::/\n", V2_MOUNT, &[("sys/fs/cgroup/cpu.max", text), ("sys/fs/cgroup/cpu.stat", text)]);
            assert!(cpu_millis(&tree.root()).is_err(), "{text}");
            assert_eq!(throttling(&tree.root()), Throttling::default());
        }
        let error = cpu_millis(&machine("nonsense", "nonsense - ", &[]).root()).expect_err("no hierarchy");
        insta::assert_snapshot!(error, @"no mounted control group hierarchy has the `cpu` controller");
        assert!(cpu_millis(&Tree::new(&[]).root()).is_err());
    }
}
