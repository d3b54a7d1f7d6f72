//! `assay`: the command-line program.

mod commands;
mod load_panel;
mod output;
mod progress;
mod run_event;

use std::process::ExitCode;

use assay_stage::{ErrorCode, Failure};
use clap::builder::Resettable;
use clap::{CommandFactory as _, FromArgMatches as _};
use rustix::process::{Resource, getrlimit};

use crate::commands::Command;

/// Benchmark numbers you can prove.
///
/// A pipeline in Git names workloads and targets. Six stages plan, provision, execute, collect, reduce and publish it; each reads
/// signed manifests and writes one, so that every number can be traced to its raw bytes.
#[derive(clap::Parser)]
#[command(name = "assay", version, max_term_width = 100, disable_help_subcommand = true)]
struct Assay {
    #[command(subcommand)]
    command: Command,
}

/// The allocator of this program. Verifying a run reads some thousands of rows and documents on several threads, and a quarter of
/// that was spent in the allocator of the C library and in the pages that it returned to the kernel and asked for again: with
/// this one `assay verify` of the quickstart's run takes 90 ms instead of 110 (`ci/bench --only verify`). The stages keep the C
/// library's: they work in few large buffers, and `assay-sql` bounds its address space, of which this one reserves much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut command = without_empty_store(Assay::command());
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| Assay::from_arg_matches(&matches));
    match parsed.map_err(|error| error.format(&mut command)) {
        Ok(assay) => output::finish(prepare().and_then(|()| assay.command.run())),
        Err(error) => output::usage(&error),
    }
}

/// Prepares this process for limits of its user.
fn prepare() -> Result<(), Failure> {
    assay_process::survive_file_size_limit()
        .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))?;
    check_open_files(getrlimit(Resource::Nofile).current)
}

/// The open files that a command may need beside those of its load: a store's, and the pipes of the stages.
const MIN_OPEN_FILES: u64 = 64;

/// Refuses a limit of open files with which no run can succeed: the failures that it causes name a pipe or a store instead of the limit.
fn check_open_files(limit: Option<u64>) -> Result<(), Failure> {
    match limit.filter(|limit| *limit < MIN_OPEN_FILES) {
        Some(limit) => {
            let message = format!("this process may open {limit} files, and Assay needs at least {MIN_OPEN_FILES}");
            Err(Failure::new(ErrorCode::Descriptors, message).hint("raise the limit, such as with `ulimit -n 1024`"))
        }
        None => Ok(()),
    }
}

/// Treats an empty `ASSAY_STORE` as unset, like the other variables: scripts empty a variable to be rid of it.
fn without_empty_store(command: clap::Command) -> clap::Command {
    const STORE: &str = "ASSAY_STORE";
    if std::env::var_os(STORE).is_none_or(|value| !value.is_empty()) {
        return command;
    }
    let ignore = |arg: clap::Arg| if arg.get_env() == Some(STORE.as_ref()) { arg.env(Resettable::Reset) } else { arg };
    command.mut_args(ignore).mut_subcommands(without_empty_store)
}
