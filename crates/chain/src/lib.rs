//! How the manifests of a run hang together: what each stage takes, which links must agree, what a whole chain needs.
//!
//! Pure rules over documents whose bytes and signatures were checked elsewhere. The harness applies them to a stage's inputs, and
//! `assay verify` to a whole run, so that a stage can never accept a set of inputs that a reader would refuse.

mod contract;
mod links;
mod names;
mod source;

pub use contract::{Arity, StageName, Takes};
pub use links::{BrokenLink, Member, Try, check_complete, check_links, check_publishable, counted_attempt};
pub use names::{chain_name, published_files, published_prefix};
