//! The warehouse over a real folder: commits that are killed, writers that race, files that were swapped, queries, other readers.

mod commit;
mod foreign;
mod processes;
mod query;
mod support;
mod trust;
