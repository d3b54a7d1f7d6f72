//! The process tree, read from `/proc`.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// The most processes that one walk visits: above any user's default process limit, and a bound on a fork bomb.
const MAX_TREE: usize = 1 << 16;

/// Returns the children of this process, including those that have ended but were not waited for.
pub(crate) fn children() -> Vec<Pid> {
    let listed = children_of(getpid());
    // A thread that ends while the lists are read can hide children from them, so an empty list is checked again.
    if listed.is_empty() { children_by_parent(getpid()) } else { listed }
}

/// Returns the children of a process, including those that have ended but were not waited for. Empty for a process that is gone.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    match children_by_thread(pid) {
        Ok(Some(children)) => children,
        Ok(None) => children_by_parent(pid),
        Err(_) => Vec::new(),
    }
}

/// Reads the lists that the kernel keeps for each thread. `None` if the kernel was built without them.
fn children_by_thread(pid: Pid) -> io::Result<Option<Vec<Pid>>> {
    let mut children = Vec::new();
    let mut listed = false;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has ended meanwhile has handed its children to another; callers look again until none is left.
        let Ok(list) = fs::read_to_string(thread?.path().join("children")) else { continue };
        listed = true;
        children.extend(list.split_ascii_whitespace().filter_map(pid_of));
    }
    Ok(listed.then_some(children))
}

/// Returns all processes in `/proc` whose parent is `pid`: slower, but available in every kernel.
fn children_by_parent(pid: Pid) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| pid_of(entry.file_name().to_str()?));
    pids.filter(|candidate| parent_of(*candidate) == Some(pid)).collect()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the parent in a line of `/proc/<pid>/stat`, whose second field is a name in parentheses that may contain any
/// characters.
fn parent_in(stat: &str) -> Option<Pid> {
    let (_, after_name) = stat.rsplit_once(')')?;
    pid_of(after_name.split_ascii_whitespace().nth(1)?)
}

fn pid_of(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|raw| *raw > 0).and_then(Pid::from_raw)
}

/// Returns the process of a supervisor and of what it supervises that a signal has stopped (SIGSTOP, SIGTSTP), if there is one.
pub(crate) fn stopped_of(supervisor: Pid) -> Option<Pid> {
    let mut family = std::iter::once(supervisor).chain(children_of(supervisor));
    family.find(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_stopped_in(&stat)))
}

/// Returns true if a line of `/proc/<pid>/stat` is of a process that a signal has stopped; not of one that a debugger stops.
fn is_stopped_in(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, after_name)| after_name.split_ascii_whitespace().next());
    state == Some("T")
}

/// Kills `root` and all of its descendants.
///
/// Each process is stopped before its children are read, so that it can neither fork nor wait for a child (which would free that
/// child's id) between the read and the kill.
pub(crate) fn kill_tree(root: Pid) {
    let mut tree = vec![root];
    let mut visited = 0;
    while let Some(&pid) = tree.get(visited)
        && tree.len() < MAX_TREE
    {
        let _ = kill_process(pid, Signal::STOP);
        tree.extend(children_of(pid));
        visited += 1;
    }
    for pid in tree {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(stat: &str) -> Option<i32> {
        parent_in(stat).map(|pid| pid.as_raw_nonzero().get())
    }

    #[test]
    fn only_a_signal_stops_a_process() {
        assert!(is_stopped_in("7 (S) T 5 7 7"));
        for other in ["7 (T) S 5 7 7", "7 (sh) t 5 7", "7 (sh) R 5 7", "7 (sh) Z 5", "", "7 (T"] {
            assert!(!is_stopped_in(other), "{other}");
        }
    }

    #[test]
    fn the_parent_follows_a_name_that_may_hold_anything() {
        assert_eq!(parent("7 (sh) S 5 7 7"), Some(5));
        assert_eq!(parent("7 (a) R 9 (b) S 5 7"), Some(5));
        for broken in ["", "7 (sh", "7 (sh)", "7 (sh) S", "7 (sh) S x", "7 (sh) S 0", "7 (sh) S -3"] {
            assert_eq!(parent(broken), None, "{broken}");
        }
    }
}
