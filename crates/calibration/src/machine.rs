//! The machine that is calibrated.

use assay_manifest::HostFacts;

/// Open files that a client needs besides its connections.
const SPARE_FILES: u64 = 512;

/// Returns the facts about this machine, as provision records them.
pub fn machine_facts() -> HostFacts {
    assay_host::facts(&assay_host::Root::host())
}

/// Returns the number of streams that the limit of open files allows one client: it raises the soft limit to the hard one.
pub fn open_streams() -> u64 {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    most.saturating_sub(SPARE_FILES)
}
