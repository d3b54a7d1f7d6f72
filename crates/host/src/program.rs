//! Running of a program, with limits on its time and output.

use std::io::Read as _;
use std::time::Duration;

use assay_process::{Cancel, Command, Output, Spawner};

use crate::Root;

/// The time limit of a program. A GPU driver that has to wake its devices takes seconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of a program's output.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Runs a program and returns its stdout, or why there is none.
pub(crate) fn program_output(root: &Root, program: &str, args: &[&str]) -> Result<String, String> {
    if !root.is_live() {
        return Err(format!("`{program}` is not asked about another machine's files"));
    }
    run(program, args).map_err(|NoOutput { why, .. }| format!("cannot ask `{program}`: {why}"))
}

/// Returns the accounting of a Slurm job as `sacct` prints it in JSON.
///
/// # Errors
/// If there is no such program in PATH, if it fails, and if it takes longer than ten seconds.
pub fn sacct(job: &str) -> Result<String, NoOutput> {
    let sacct = command("sacct", &["--json", "--jobs", job]);
    // The configuration of Slurm may lie elsewhere than in its default place.
    run_command(match std::env::var_os("SLURM_CONF") {
        Some(configuration) => sacct.env("SLURM_CONF", configuration),
        None => sacct,
    })
}

/// The reason why a program has no usable output.
#[derive(Debug)]
pub struct NoOutput {
    /// Its stdout before it failed.
    pub printed: String,
    /// The reason.
    pub why: String,
}

/// Runs a program and returns its stdout.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, NoOutput> {
    run_command(command(program, args))
}

fn run_command(command: Command) -> Result<String, NoOutput> {
    let text = |error: &dyn std::error::Error| {
        let why = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        NoOutput { printed: String::new(), why }
    };
    let spawner = Spawner::start().map_err(|error| text(&error))?;
    let cancel = Cancel::new().map_err(|error| text(&error))?;
    let mut child = spawner.spawn(command).map_err(|error| text(&error))?;
    let output = child.take_stdout();
    // A full pipe would keep the program from ending, so a thread reads while this one waits.
    let read = move || {
        let mut bytes = Vec::new();
        // Output that cannot be read is missing from the text, and its parser then reports that.
        let _ = output.map(|output| output.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let reader = std::thread::Builder::new().name("output".to_owned()).spawn(read).map_err(|error| text(&error))?;
    let ended = child.wait(Some(TIME_LIMIT), &cancel).map_err(|error| text(&error))?;
    let said = reader.join().unwrap_or_default();
    if ended.timed_out {
        Err(NoOutput { printed: said, why: format!("it took longer than {} s", TIME_LIMIT.as_secs()) })
    } else if ended.status.is_success() {
        Ok(said)
    } else {
        Err(NoOutput { printed: said, why: format!("it ended with {}", ended.status) })
    }
}

fn command(program: &str, args: &[&str]) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
    let mut command = Command::new(program).args(args).env("PATH", path).env("LC_ALL", "C");
    command.stdout = Output::Pipe;
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_return_output_or_a_reason() {
        let root = Root::host();
        assert_eq!(program_output(&root, "echo", &["a", "b"]), Ok("a b\n".to_owned()));
        insta::assert_snapshot!(program_output(&root, "false", &[]).expect_err("fails"), @"cannot ask `false`: it ended with exit code 1");
        assert!(program_output(&root, "no-such-program-anywhere", &[]).expect_err("absent").starts_with("cannot ask `no-such"));
    }

    #[test]
    fn what_a_program_says_has_a_limit() {
        let said = program_output(&Root::host(), "head", &["-c", "1048576", "/dev/zero"]).expect("it fits exactly");
        assert_eq!(said.len(), 1 << 20);
        assert!(
            program_output(&Root::host(), "cat", &["/dev/zero"]).is_err(),
            "a program without end is ended by its closed pipe"
        );
    }

    #[test]
    fn another_machine_is_not_asked() {
        let error = program_output(&Root::at("/nowhere"), "echo", &[]).expect_err("not live");
        insta::assert_snapshot!(error, @"`echo` is not asked about another machine's files");
    }
}
