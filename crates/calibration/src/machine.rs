//! The machine that is calibrated.

use assay_manifest::HostFacts;

/// Returns the facts about this machine, as provision records them.
pub fn machine_facts() -> HostFacts {
    assay_host::facts(&assay_host::Root::host())
}
