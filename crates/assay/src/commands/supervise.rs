//! `assay supervise`: the small process between a runner and one stage or target.

use std::ffi::OsString;
use std::time::Duration;

use assay_stage::{ErrorCode, Exit, Failure};

use assay_manifest::CpuList;
use assay_process::{Command, pin_to_cpus};

/// Run a program and end with it; no process that it started is left.
#[derive(clap::Args)]
pub(crate) struct Supervise {
    /// The required parent process: if it is gone, the program is ended
    #[arg(long, value_name = "PID")]
    parent: i32,
    /// The grace period between SIGTERM and SIGKILL
    #[arg(long, value_name = "N", default_value_t = 15)]
    grace_seconds: u64,
    /// The CPUs to pin the program to, such as `0-1`
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// The program and its arguments
    #[arg(last = true, required = true, num_args = 1..)]
    program: Vec<OsString>,
}

impl Supervise {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if let Some(cpus) = &self.cpus {
            pin_to_cpus(cpus.numbers()).map_err(|error| {
                Failure::from_error(ErrorCode::Cpus, &error).hint(format!("does this machine have the CPUs {cpus}?"))
            })?;
        }
        let mut program = self.program.into_iter();
        let command = Command::new(program.next().unwrap_or_default()).args(program).inherit_env();
        let status = assay_process::supervise(self.parent, command, Duration::from_secs(self.grace_seconds))
            .map_err(|error| Failure::from_error(ErrorCode::Process, &error))?;
        std::process::exit(i32::from(status.exit_code()))
    }
}
