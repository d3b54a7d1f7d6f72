//! Real repositories, made by the `git` program.

mod branch;
mod offline;
mod reading;
mod remote;
mod support;
