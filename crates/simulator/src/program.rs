//! The command line of `assay-simulator`.

use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use assay_api::ServingApi;
use clap::Parser as _;

use crate::config::Config;
use crate::predict::{LoadArgs, PredictError, predict};
use crate::server::{ServeError, Server, Stopper};
use crate::settings::{Settings, SettingsError};

/// The reference inference endpoint, with known true times.
///
/// An OpenAI-compatible HTTP/1.1 endpoint that computes nothing: it plans the instant of every chunk with a seeded model and
/// sends it then. `GET /truth` returns what was planned and what was sent. When ready, it prints one line, `listening on
/// http://ADDRESS`; it exits on SIGTERM or SIGINT.
#[derive(clap::Parser)]
#[command(name = "assay-simulator", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
#[command(after_help = endpoints())]
struct Program {
    #[command(subcommand)]
    instead: Option<SimulatorCommand>,
    #[command(flatten)]
    told: ConfigArgs,
    /// File to write the port to once it is open
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Exit when stdin closes, so that it does not outlive its parent process
    #[arg(long)]
    until_stdin_closes: bool,
}

/// Returns the part of the help that lists the paths.
fn endpoints() -> String {
    let apis: Vec<_> = ServingApi::ALL.iter().map(|api| api.path()).collect();
    format!(
        "Endpoints: POST {}, /reset_prefix_cache, /stall {{\"for_ms\": N, \"at_ms\": N}};\n\
         GET /v1/models, /health, /version, /metrics, /truth?since=N.\n\
         A request's header `x-assay-fault` names the fault that it meets: status:CODE, hang, refuse, close:N,\n\
         no-done[:N], bad-json:N, bad-utf8:N, stream-error:N, content-type, giant-line:BYTES, drip:MICROSECONDS.",
        apis.join(", ")
    )
}

/// The commands other than serving.
#[derive(clap::Subcommand)]
enum SimulatorCommand {
    /// Simulate a load in virtual time and print what a perfect client would measure
    ///
    /// It takes the settings of the endpoint, and only the time to compute: no clock is read and nothing is sent, so equal flags
    /// give equal bytes on every machine. The output is one JSON line in the form of an indicator's output. Settings of the
    /// endpoint alone (its address, its limits except `--max-waiting`, its truth) are ignored.
    Predict {
        #[command(flatten)]
        load: LoadArgs,
        #[command(flatten)]
        told: Box<ConfigArgs>,
    },
}

/// The settings, from flags and from a file.
#[derive(clap::Args)]
struct ConfigArgs {
    #[command(flatten)]
    settings: Settings,
    /// JSON file with settings, keyed as the flags with `_` for `-`; flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    fn config(self) -> Result<Config, SettingsError> {
        let file = self.config.as_deref().map(Settings::read).transpose()?.unwrap_or_default();
        self.settings.or(file).config()
    }
}

/// The reason why the program cannot serve or predict.
#[derive(Debug, thiserror::Error)]
enum ProgramError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Predict(#[from] PredictError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("cannot write the port to `{}`", path.display())]
    PortFile { path: PathBuf, source: std::io::Error },
    #[error("cannot watch for signals")]
    Signals(#[source] std::io::Error),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    #[error("cannot write to standard output")]
    Output(#[source] std::io::Error),
}

/// Parses the command line, and serves until stopped or predicts. Exit codes: 0 stopped or predicted, 2 usage, 30 the environment
/// does not allow it.
pub fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            // If the reader of the output has gone, the error cannot be reported.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", with_causes(&error));
            ExitCode::from(error.code())
        }
    }
}

impl ProgramError {
    fn code(&self) -> u8 {
        match self {
            Self::Settings(_) | Self::Predict(_) => 2,
            Self::Serve(_) | Self::PortFile { .. } | Self::Signals(_) | Self::Thread(_) | Self::Output(_) => 30,
        }
    }
}

fn run(program: Program) -> Result<(), ProgramError> {
    match program.instead {
        Some(SimulatorCommand::Predict { load, told }) => print_prediction(&told.config()?, &load),
        None => serve(program),
    }
}

fn print_prediction(config: &Config, load: &LoadArgs) -> Result<(), ProgramError> {
    let prediction = predict(config, load)?;
    for remark in prediction.remarks() {
        let _ = writeln!(std::io::stderr(), "note: {remark}");
    }
    let line = serde_json::to_string(&prediction).map_err(|error| ProgramError::Output(error.into()))?;
    writeln!(std::io::stdout(), "{line}").map_err(ProgramError::Output)
}

fn serve(program: Program) -> Result<(), ProgramError> {
    let config = program.told.config()?;
    raise_file_limit();
    let server = Server::bind(config)?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, stopper(&server)?.into_stream()).map_err(ProgramError::Signals)?;
    }
    if program.until_stdin_closes {
        stop_when_input_closes(stopper(&server)?).map_err(ProgramError::Thread)?;
    }
    if let Some(path) = &program.port_file {
        write_port(path, server.address().port())?;
    }
    writeln!(std::io::stdout(), "listening on {}", server.listen_address().url()).map_err(ProgramError::Output)?;
    server.run()?;
    Ok(())
}

fn stopper(server: &Server) -> Result<Stopper, ProgramError> {
    server.stopper().map_err(ProgramError::Signals)
}

/// Readers wait for the file to appear, so it appears complete (atomically).
fn write_port(path: &Path, port: u16) -> Result<(), ProgramError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let written = std::fs::write(&part, format!("{port}\n")).and_then(|()| std::fs::rename(&part, path));
    written.map_err(|source| ProgramError::PortFile { path: path.to_owned(), source })
}

fn stop_when_input_closes(stopper: Stopper) -> std::io::Result<()> {
    let wait = move || {
        let mut input = std::io::stdin().lock();
        while input.read(&mut [0; 256]).is_ok_and(|bytes| bytes > 0) {}
        stopper.stop();
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(wait).map(|_| ())
}

/// Every connection is a file, and the soft limit is often 1,024.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If it is not allowed, accepting connections reports the error in time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn with_causes(error: &ProgramError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_flag_that_sets_something_is_a_key_of_the_file() {
        Program::command().debug_assert();
        let others = ["config", "port-file", "until-stdin-closes", "help", "version"];
        let command = Program::command();
        let flags: Vec<&str> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
        assert!(flags.len() > 30);
        for flag in flags.iter().filter(|flag| !others.contains(flag)) {
            let error = serde_json::from_str::<Settings>(&format!(r#"{{"{}": {{}}}}"#, flag.replace('-', "_")));
            let error = error.expect_err("no setting is an object").to_string();
            assert!(error.starts_with("invalid type"), "--{flag}: {error}");
        }
    }
}
