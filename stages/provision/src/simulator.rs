//! Start of a simulator: the command that the runner has to hold, and the simulator's address.
//!
//! The simulator binds a free port and writes its number to a file, so no other process can take the port meanwhile. The file is
//! also the proof that this simulator listens, and not the process that had the port of a given address before. The file lies in
//! the stage's scratch folder: the simulator writes it once, and it is not needed after the stage.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_manifest::{Plan, Target};
use assay_process::Cancel;
use assay_stage::{Clock, Context, ErrorCode, Event, Failure};

use crate::models::{base_models, requested_adapters};
use crate::path_text;
use crate::ready::parse_address;
use crate::target_end::TargetEnd;

/// The path that responds once a simulator is ready.
pub(crate) const READY_PATH: &str = "/health";

/// The longest wait for it to listen: it does so within milliseconds, so one that does not by then never will.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The polling interval of the port's file.
const PAUSE: Duration = Duration::from_millis(10);

/// Options that this stage sets, and that no definition may set.
const OWN_OPTIONS: [&str; 4] = ["listen", "port-file", "until-stdin-closes", "config"];

/// Has the runner hold a simulator, and returns its address once it listens.
pub(crate) fn start(
    ctx: &Context,
    plan: &Plan,
    target: &Target,
    end: &TargetEnd,
    hold: impl FnOnce(Vec<String>) -> Result<Event, Failure>,
) -> Result<String, Failure> {
    let port_file = ctx.scratch().join(format!("port-of-{}", target.name));
    let listen = listen_at(target)?;
    ctx.emit(hold(command(&program()?, target, &requested(plan, target), listen, &port_file)?)?);
    let limit = START_LIMIT.min(Duration::from_nanos(target.ready_timeout_ns.0));
    let port = wait_for_port(ctx.clock(), ctx.cancel(), target, &port_file, limit, end)?;
    Ok(target.url.clone().unwrap_or_else(|| format!("http://{}", SocketAddr::new(listen.ip(), port))))
}

/// Returns the path of the simulator's binary, beside the stages' binaries.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| Failure::new(ErrorCode::Binaries, "cannot find the running program").because(&error))?;
    let path = this.with_file_name("assay-simulator");
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::new(ErrorCode::BinaryMissing, format!("the simulator's binary `{}` is missing", path.display()))
        .hint("it lies beside the six stage binaries; build it with `cargo build`"))
}

/// Returns the address to listen at: that of the target, or a free port on the loopback interface.
fn listen_at(target: &Target) -> Result<SocketAddr, Failure> {
    let Some(url) = &target.url else { return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)) };
    let bad = |what: &str| {
        Failure::new(ErrorCode::TargetUrl, format!("the simulator `{}` cannot listen at `{url}`: {what}", target.name))
            .hint("leave `url` out and it takes a free port, or write it as `http://127.0.0.1:8000`")
    };
    let place = parse_address(url).ok_or_else(|| bad("that is not an address"))?;
    if place.is_tls {
        return Err(bad("it speaks no TLS"));
    }
    let ip = match place.host.as_str() {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => host.parse::<IpAddr>().map_err(|_| bad("its host is neither `localhost` nor an IP address"))?,
    };
    Ok(SocketAddr::new(ip, place.port))
}

/// Builds the command line of a simulator on this machine.
fn command(
    program: &Path,
    target: &Target,
    asked: &RequestedNames<'_>,
    listen: SocketAddr,
    port_file: &Path,
) -> Result<Vec<String>, Failure> {
    let mut command = vec![path_text(program)?, "--listen".to_owned(), listen.to_string()];
    command.extend(["--port-file".to_owned(), path_text(port_file)?]);
    command.extend(settings(target, asked)?);
    Ok(command)
}

/// The names that the workloads on a simulator request.
pub(crate) struct RequestedNames<'a> {
    models: BTreeSet<&'a str>,
    adapters: BTreeSet<&'a str>,
}

/// Returns the names that the plan's workloads request from a simulator.
pub(crate) fn requested<'a>(plan: &'a Plan, target: &Target) -> RequestedNames<'a> {
    RequestedNames { models: base_models(plan, target), adapters: requested_adapters(plan, target) }
}

/// Returns a simulator's options: the settings of its definition, and the model and the adapters that the workloads request.
pub(crate) fn settings(target: &Target, asked: &RequestedNames<'_>) -> Result<Vec<String>, Failure> {
    let mut command = Vec::new();
    if !target.config.contains_key("model") {
        command.extend(only_model(target, &asked.models)?.map(|model| format!("--model={model}")));
    }
    if !target.config.contains_key("adapters") && !asked.adapters.is_empty() {
        command.push(format!("--adapters={}", asked.adapters.iter().copied().collect::<Vec<_>>().join(",")));
    }
    for (key, value) in &target.config {
        let option = key.replace('_', "-");
        if OWN_OPTIONS.contains(&option.as_str()) {
            return Err(Failure::new(
                ErrorCode::TargetConfig,
                format!("`config` of target `{}` may not set `{key}`", target.name),
            )
            .hint("where a simulator listens is its `url`; its other settings stand in `config` one by one"));
        }
        command.push(format!("--{option}={value}"));
    }
    Ok(command)
}

fn only_model<'a>(target: &Target, asked: &BTreeSet<&'a str>) -> Result<Option<&'a str>, Failure> {
    let mut models = asked.iter().copied();
    match (models.next(), models.next()) {
        (model, None) => Ok(model),
        (Some(one), Some(other)) => Err(Failure::new(
            ErrorCode::TargetModels,
            format!("the simulator `{}` is asked for the models `{one}` and `{other}`, and serves one", target.name),
        )
        .hint("give each model a target of its own")),
        (None, Some(_)) => Ok(None),
    }
}

fn wait_for_port(
    clock: Clock,
    cancel: &Cancel,
    target: &Target,
    file: &Path,
    limit: Duration,
    end: &TargetEnd,
) -> Result<u16, Failure> {
    let watch = clock.start();
    loop {
        // The file appears whole, so its content is the complete port number.
        match std::fs::read_to_string(file) {
            Ok(text) => return parse_port(&text, target),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::new(ErrorCode::Scratch, format!("cannot read `{}`", file.display())).because(&error));
            }
        }
        end.check()?;
        if u128::from(watch.elapsed_ns()) >= limit.as_nanos() {
            return Err(Failure::new(
                ErrorCode::SimulatorNotStarted,
                format!("the simulator `{}` did not listen within {limit:?}", target.name),
            )
            .hint(format!("its log beside the stage's, `target-{}.log`, says why", target.name)));
        }
        if cancel.wait_timeout(PAUSE) {
            return Err(Failure::cancelled(cancel.reason().unwrap_or("stopped")));
        }
    }
}

fn parse_port(text: &str, target: &Target) -> Result<u16, Failure> {
    let port = text.trim().parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| Failure::new(ErrorCode::Internal, format!("the simulator `{}` gave no port", target.name)))
}

#[cfg(test)]
mod tests;
