//! The chain of a run's manifests: the inputs and parameters of each stage, the links that must agree, and the completeness of a chain.
//!
//! Pure rules over documents whose bytes and signatures were checked elsewhere. The harness applies them to a stage's inputs, and
//! `assay verify` to a whole run, so that a stage can never accept a set of inputs that a reader would refuse.

mod contract;
mod links;
mod names;
pub mod parameters;
mod source;
mod stacks;

pub use contract::{Arity, InputKinds, StageName};
pub use links::{BrokenLink, Member, ShardOutcome, check_complete, check_links, check_publishable, counted_attempt};
pub use names::{SOURCE_FOLDER, chain_name, dataset_outputs, published_files, published_outputs, published_prefix};
