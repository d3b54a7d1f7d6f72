//! Real repositories, made by the `git` program.

mod offline;
mod reading;
mod remote;
mod support;
