//! CPU time of the run's own processes: the processes of Assay that this one belongs to, and all of their descendants.

use std::collections::{BTreeMap, BTreeSet};

use crate::counters::ticks_to_us;
use crate::{MAX_ENTRIES, Root};

/// The prefix of the names of Assay's programs.
const PROGRAM: &str = "assay";

/// A process, from `/proc/<pid>/stat`.
struct Process {
    name: String,
    parent: u32,
    /// CPU time in user and system mode, including that of the children that it has waited for, in ticks.
    ticks: u64,
}

/// Returns the CPU time that the run's own processes have used, in microseconds, including processes that have ended and were
/// waited for. Absent if the processes cannot all be read.
pub(crate) fn cpu_us(root: &Root) -> Option<u64> {
    let (here, processes) = here_among_all(root)?;
    let all = process_subtree(&processes, topmost_own_process(&processes, here)?);
    let ticks = all.iter().filter_map(|pid| processes.get(pid)).fold(0_u64, |sum, process| sum.saturating_add(process.ticks));
    Some(ticks_to_us(ticks))
}

/// Returns the descendants of a process of this machine, without the process itself.
pub(crate) fn descendants(of: u32) -> Vec<u32> {
    let processes = processes(&Root::host()).unwrap_or_default();
    process_subtree(&processes, of).into_iter().filter(|pid| *pid != of).collect()
}

/// The processes of this machine.
pub(crate) struct Processes {
    /// Those of the run.
    pub(crate) own: BTreeSet<u32>,
    /// The others, with their names.
    pub(crate) others: Vec<(u32, String)>,
}

/// Returns the run's own processes, and the others with their names. `None` if the processes cannot all be read, and if no program of Assay has
/// started this one.
pub(crate) fn own_and_others(root: &Root) -> Option<Processes> {
    let (here, processes) = here_among_all(root)?;
    let top = topmost_own_process(&processes, here).filter(|top| *top != here)?;
    let own = process_subtree(&processes, top);
    let others = processes.into_iter().filter(|(pid, _)| !own.contains(pid)).map(|(pid, process)| (pid, process.name)).collect();
    Some(Processes { own, others })
}

/// Returns the id of this process, and all processes.
fn here_among_all(root: &Root) -> Option<(u32, BTreeMap<u32, Process>)> {
    let here = root.text("/proc/self/stat").ok()?.split_whitespace().next()?.parse().ok()?;
    Some((here, processes(root)?))
}

/// Reads all processes; `None` if there are more than the limit.
fn processes(root: &Root) -> Option<BTreeMap<u32, Process>> {
    let pids = root.names("/proc", "");
    if pids.len() >= MAX_ENTRIES {
        return None;
    }
    let read = |pid: String| Some((pid.parse::<u32>().ok()?, parse_stat(&root.text(&format!("/proc/{pid}/stat")).ok()?)?));
    Some(pids.into_iter().filter_map(read).collect())
}

/// Parses one line. The name is in parentheses and may contain any characters.
fn parse_stat(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // proc(5): field 4 is the parent, 14 to 17 are utime, stime, cutime and cstime. `fields` begins with field 3.
    let ticks = (11..15).try_fold(0_u64, |sum, index| Some(sum.saturating_add(number(index)?)))?;
    Some(Process { name: name.to_owned(), parent: u32::try_from(number(1)?).ok()?, ticks })
}

/// Returns the topmost of Assay's programs above this process, or this process.
fn topmost_own_process(processes: &BTreeMap<u32, Process>, here: u32) -> Option<u32> {
    let mut top = here;
    let mut seen = BTreeSet::from([here]);
    let parent_of = |pid: u32| processes.get(&pid).map(|process| process.parent);
    while let Some(parent) = parent_of(top).filter(|parent| seen.insert(*parent)) {
        match processes.get(&parent) {
            Some(process) if process.name.starts_with(PROGRAM) => top = parent,
            _ => break,
        }
    }
    processes.contains_key(&top).then_some(top)
}

/// Returns a process and all of its descendants.
fn process_subtree(processes: &BTreeMap<u32, Process>, top: u32) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, process) in processes {
        children.entry(process.parent).or_default().push(*pid);
    }
    let (mut waiting, mut seen) = (vec![top], BTreeSet::from([top]));
    while let Some(pid) = waiting.pop() {
        waiting.extend(children.get(&pid).into_iter().flatten().filter(|child| seen.insert(**child)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tree::Tree;

    fn stat(pid: u32, name: &str, parent: u32, ticks: [u32; 4]) -> String {
        let [user, system, children_user, children_system] = ticks;
        format!("{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {user} {system} {children_user} {children_system} 20 0 1 0 5 6 7\n")
    }

    #[test]
    fn the_run_s_own_processes_are_those_of_assay_and_below() {
        let files = [
            ("proc/1/stat", stat(1, "init", 0, [1000, 0, 0, 0])),
            ("proc/5/stat", stat(5, "bash", 1, [500, 0, 0, 0])),
            ("proc/10/stat", stat(10, "assay", 5, [1, 2, 3, 4])),
            ("proc/11/stat", stat(11, "assay", 10, [10, 0, 0, 0])),
            ("proc/12/stat", stat(12, "assay-execute", 11, [100, 0, 0, 0])),
            ("proc/13/stat", stat(13, "a) b (c", 12, [0, 1000, 0, 0])),
            ("proc/20/stat", stat(20, "neighbour", 5, [77_777, 0, 0, 0])),
            ("proc/self/stat", stat(12, "assay-execute", 11, [100, 0, 0, 0])),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(cpu_us(&Tree::new(&files).root()), Some(1_120 * 10_000));
        assert_eq!(cpu_us(&Tree::new(&[]).root()), None, "where nothing can be read it is absent");
    }

    #[test]
    fn this_process_has_used_some_cpu_time() {
        assert!(cpu_us(&Root::host()).is_some());
    }

    proptest! {
        #[test]
        fn odd_lines_never_make_it_panic(text in "([0-9]{1,3} |\\(|\\)|S |-){0,40}") {
            let _ = parse_stat(&text);
        }
    }
}
