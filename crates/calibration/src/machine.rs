//! The machine that is calibrated.

use assay_manifest::HostFacts;

/// Open files that a client, or the simulator that it measures, needs besides its connections.
pub const SPARE_FILES: u64 = 64;

/// Returns the facts about this machine, as provision records them.
pub fn machine_facts() -> HostFacts {
    assay_host::facts(&assay_host::Root::host())
}

/// Returns the number of streams that the limit of open files allows one client: it raises the soft limit to the hard one.
pub fn open_streams() -> u64 {
    most_files().saturating_sub(SPARE_FILES)
}

/// Returns the limit of open files of a process, to which it may raise its own.
pub fn most_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX)
}
