//! End-to-end tests: the real binaries, real Git repositories and real signatures.
//!
//! They form one binary, so that it is linked once. Every test has its own repository, home and store.

mod adapters;
mod apis;
mod attack_matrix;
mod bench;
mod branch;
mod browser;
mod by_hand;
mod calibrations;
mod claims;
mod cluster;
mod command;
mod datasets;
mod docs;
mod errors;
mod exporters;
mod false_claims;
mod falsify;
mod foreign;
mod forgery;
mod forks;
mod gate;
mod git_https;
mod gitlab;
mod hostile;
mod images;
mod imports;
mod keeping;
mod kills;
mod lengths;
mod life;
mod max_load;
mod modes;
mod pipeline;
mod received;
mod records;
mod repositories;
mod server;
mod server_probe;
mod serving;
mod serving_claims;
mod sessions;
mod stalls;
mod stores;
mod unix_sockets;
mod usage;
// The fake forge that the tests post to.
mod replicas;
#[path = "../../crates/forge/tests/it/stand_in.rs"]
mod stand_in;
mod support;
mod tamper;
mod token_ids;
mod tokenizers;
mod trace_sessions;
mod traces;
mod trust;
mod users;
mod verifier_page;
mod warehouse;
mod warehouse_files;
mod windows;
mod within_run;
mod workflows;
mod workloads;
