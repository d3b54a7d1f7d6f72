//! Counts the instructions of a command with an external counter, in an invocation that is not timed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use assay_manifest::InstructionCounter;
use assay_process::{Command, Output};
use assay_stage::{Context, ErrorCode, Failure, Secrets};

use crate::capture::{self, Capture, Excerpt, MAX_STDERR_BYTES, describe_excess, last_lines, system};
use crate::workspace::spawner;

/// The maximum bytes that are read of a counter's file. Cachegrind's data on each line of a program may be large; the sum comes
/// last.
const MAX_COUNT_BYTES: u64 = 64 << 20;

/// The maximum processes whose counts are summed.
const MAX_PROCESSES: usize = 10_000;

/// Runs a command once more under a counter. The error is the reason why there is no count.
pub(crate) fn count(
    ctx: &Context,
    counter: InstructionCounter,
    command: Command,
    name: &str,
    limit: Duration,
    secrets: &Secrets,
) -> Result<Result<u64, String>, Failure> {
    let counts = ctx.scratch().join(name);
    fs::create_dir_all(&counts)
        .map_err(|error| Failure::new(ErrorCode::Scratch, "cannot count in the scratch folder").because(&error))?;
    let (tool, package) = match counter {
        InstructionCounter::Perf => ("perf", "linux-perf"),
        InstructionCounter::Cachegrind => ("valgrind", "valgrind"),
    };
    let search = std::env::var("PATH").unwrap_or_default();
    let Some(tool) = assay_host::find_in_path(tool, &search) else {
        let message = format!("`{tool}`, which is to count instructions, is not in PATH");
        return Err(
            Failure::new(ErrorCode::CounterAbsent, message).hint(format!("on Debian and Ubuntu: apt-get install {package}"))
        );
    };
    // Its output was kept when it was timed; what the counter says of a failure is on stderr, too.
    let said = Capture::new(ctx)?;
    let counted = Command { stdout: Output::Null, stderr: said.output(), ..wrap_command(counter, &tool, &counts, command) };
    let child = spawner()?.spawn(counted).map_err(|error| system(&error))?;
    let ended = capture::wait(child, limit, ctx, [&said, &said])?;
    ctx.check_cancelled()?;
    if said.is_exceeded() {
        return Ok(Err(describe_excess(&format!("command under `{counter}`"))));
    }
    if ended.timed_out {
        return Ok(Err(format!("it ran into the time limit under `{counter}`, which slows it down")));
    }
    if !ended.status.is_success() {
        let last = last_lines(&said.excerpt(secrets, Excerpt::Last(MAX_STDERR_BYTES))?);
        let last = last.map(|lines| format!(": {lines}")).unwrap_or_default();
        let remedy = match counter {
            InstructionCounter::Perf => "; if this machine's counter cannot be read, `instructions: cachegrind` needs none",
            InstructionCounter::Cachegrind => "",
        };
        return Ok(Err(format!("under `{counter}` it ended with {}{last}{remedy}", ended.status)));
    }
    let count = sum_counts(counter, &counts);
    if let Err(error) = fs::remove_dir_all(&counts) {
        tracing::warn!(folder = %counts.display(), %error, "what a counter wrote was not removed");
    }
    Ok(count)
}

/// Returns the command that runs this command under a counter.
fn wrap_command(counter: InstructionCounter, tool: &Path, counts: &Path, command: Command) -> Command {
    let in_file = |option: &str, name: &str| {
        let mut argument = OsString::from(option);
        argument.push(counts.join(name));
        argument
    };
    let mut arguments: Vec<OsString> = match counter {
        InstructionCounter::Perf => {
            let output = in_file("--output=", "perf");
            vec!["stat".into(), "--field-separator=,".into(), "--event=instructions:u".into(), output]
        }
        InstructionCounter::Cachegrind => {
            let (output, log) = (in_file("--cachegrind-out-file=", "%p"), in_file("--log-file=", "log"));
            vec!["--tool=cachegrind".into(), "--trace-children=yes".into(), "--quiet".into(), output, log]
        }
    };
    arguments.push("--".into());
    arguments.push(command.program.clone());
    arguments.extend(command.args.iter().cloned());
    Command { program: tool.into(), args: arguments, ..command }
}

/// Sums the files of a counter: one for each process that Cachegrind has watched.
fn sum_counts(counter: InstructionCounter, counts: &Path) -> Result<u64, String> {
    let unreadable = |error: std::io::Error| format!("`{counter}` left nothing that can be read: {error}");
    let entries = fs::read_dir(counts).map_err(unreadable)?.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let files: Vec<_> =
        entries.into_iter().map(|entry| entry.path()).filter(|path| path.file_name().is_some_and(|name| name != "log")).collect();
    if files.is_empty() || files.len() > MAX_PROCESSES {
        return Err(format!("`{counter}` has counted {} processes", files.len()));
    }
    files.iter().try_fold(0_u64, |sum, path| {
        let size = fs::metadata(path).map_err(unreadable)?.len();
        if size > MAX_COUNT_BYTES {
            return Err(format!("a file of `{counter}` has more than {} MiB", MAX_COUNT_BYTES >> 20));
        }
        let text = String::from_utf8_lossy(&fs::read(path).map_err(unreadable)?).into_owned();
        sum.checked_add(parse(counter, &text)?).ok_or_else(|| format!("`{counter}` has counted more than can be"))
    })
}

/// Parses the instruction count of a counter's file.
fn parse(counter: InstructionCounter, text: &str) -> Result<u64, String> {
    let number = match counter {
        InstructionCounter::Perf => {
            text.lines().find(|line| line.contains(",instructions")).and_then(|line| line.split(',').next())
        }
        InstructionCounter::Cachegrind => {
            text.lines().rev().find_map(|line| line.strip_prefix("summary:")).and_then(|rest| rest.split_whitespace().next())
        }
    };
    match number.map(|number| (number, number.replace(',', "").parse())) {
        Some((_, Ok(count))) if count > 0 => Ok(count),
        Some((said, _)) if counter == InstructionCounter::Perf => {
            Err(format!("`perf` says {said:?}: this machine's counter cannot be read; `instructions: cachegrind` needs none"))
        }
        _ => Err(format!("`{counter}` has not said how many")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_the_counters_write() {
        let perf = "# started on Wed Nov 25 21:00:00 2026\n\n1234567,,instructions:u,1001,100.00,,\n";
        assert_eq!(parse(InstructionCounter::Perf, perf), Ok(1_234_567));
        let none = "<not supported>,,instructions:u,0,100.00,,\n";
        let why = parse(InstructionCounter::Perf, none).expect_err("no counter");
        assert!(why.contains("<not supported>") && why.contains("cachegrind"), "{why}");
        let cachegrind = "desc: I1 cache: 32768 B\nevents: Ir\nfl=???\nfn=main\n0 10\nsummary: 2345678\n";
        assert_eq!(parse(InstructionCounter::Cachegrind, cachegrind), Ok(2_345_678));
        let with_caches = "events: Ir I1mr ILmr\nsummary: 77 3 2\n";
        assert_eq!(parse(InstructionCounter::Cachegrind, with_caches), Ok(77));
        for damaged in ["", "summary: many", "summary: 0"] {
            assert!(parse(InstructionCounter::Cachegrind, damaged).is_err(), "{damaged:?}");
        }
    }
}
