//! Facts, states and counters of the machine that this process runs on: facts are constant, a state is taken around each trial,
//! counters are read over time.
//!
//! A fact is observed with its source, or unknown with the reason; nothing is guessed. Files of `/proc` and `/sys` are read by
//! one type, [`Root`], and parsed by pure functions over their text, so in tests a tree of files stands for any machine. Nothing
//! here fails or panics: a malformed file is a reason.

mod cgroup;
mod controls;
mod counters;
mod cpu;
mod energy;
mod executables;
mod facts;
mod gpu;
mod list;
mod listeners;
mod network;
mod own_processes;
mod program;
mod root;
mod software;
mod state;
mod system;
#[cfg(test)]
mod tree;

pub use controls::controls;
pub use counters::{Counters, Reading};
pub use executables::{
    FileDigests, ProcessTreeFacts, allowed_cpus_of, core_cpus, find_changed, find_in_path, hash_artifact, is_program,
    observe_processes, own_allowed_cpus, script_executables,
};
pub use facts::facts;
pub use gpu::{GPU_QUERY, gpu_report, nvidia_smi};
pub use listeners::{OtherListener, other_listener};
pub use program::{NoOutput, sacct};
pub use root::{MAX_ENTRIES, MAX_FILE_BYTES, Root};
pub use software::software;
pub use state::state;
