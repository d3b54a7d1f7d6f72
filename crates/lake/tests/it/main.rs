//! The warehouse over a real folder: killed commits, racing writers, swapped files, queries, other readers.

mod commit;
mod foreign;
mod processes;
mod query;
mod support;
mod trust;
