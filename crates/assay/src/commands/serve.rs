//! `assay serve`: starts the program that serves a store, which is a separate one because no other program links a server.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use assay_stage::{ErrorCode, Exit, Failure};

/// The program, beside this one.
const PROGRAM: &str = "assay-serve";

/// Serve a store over the S3 protocol.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Serve {
    /// The server's arguments; `assay serve --help` lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let this = std::env::current_exe()
            .map_err(|error| Failure::new(ErrorCode::Binaries, "cannot find the running program").because(&error))?;
        let program = this.with_file_name(PROGRAM);
        // It replaces this process, so that signals and exit codes are its own.
        let error = std::process::Command::new(&program).args(self.arguments).exec();
        Err(Failure::new(ErrorCode::Binaries, format!("cannot start `{}`", program.display()))
            .because(&error)
            .hint("it lies beside `assay`: build or install all of Assay's programs together"))
    }
}
