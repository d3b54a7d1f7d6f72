//! Options that contradict each other, each with what to write instead.

use assay_manifest::DatasetFormat;
use assay_stage::{ErrorCode, Failure};

use super::Bench;

/// Refuses a second end or other times beside a load that has its own, and a format of one kind beside a file of the other.
pub(super) fn check(bench: &Bench) -> Result<(), Failure> {
    check_requests(bench)?;
    check_requests_of_loop(bench)?;
    check_series(bench)?;
    check_rates_of_trace(bench)?;
    check_speed(bench)?;
    check_dataset_format(bench)?;
    check_trace_format(bench)?;
    check_concurrency_of_trace(bench)
}

pub(super) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Result<(), Failure> {
    Err(Failure::new(ErrorCode::Option, message).hint(hint))
}

fn check_requests(bench: &Bench) -> Result<(), Failure> {
    let Some(requests) = bench.requests else { return Ok(()) };
    let (option, why, instead) = if !bench.users.is_empty() {
        ("--users", "all users play until the time of a trial is over", "write `--duration 60s`")
    } else if bench.ramp.is_some() {
        let why = "its rate changes over the whole time of a trial, and a number of requests would end the trial before";
        ("--ramp", why, "write `--duration 60s`, the time over which the rate changes")
    } else if !bench.series.is_empty() {
        let why = "a trial has all of its segments, and a number of requests would end the trial before";
        ("--series", why, "a trial lasts as long as its segments together")
    } else if !bench.sessions.is_empty() {
        let why = "the number of turns of a session is not known beforehand";
        ("--sessions", why, end_of_sessions(bench))
    } else {
        return Ok(());
    };
    refused(format!("`--requests {requests}` contradicts `{option}`: {why}"), format!("leave out `--requests`; {instead}"))
}

/// Refuses fewer requests than are to be in flight: a number for that load would be of another one.
fn check_requests_of_loop(bench: &Bench) -> Result<(), Failure> {
    let Some((requests, most)) = bench.requests.zip(bench.concurrency.iter().flat_map(|loads| &loads.0).max()) else {
        return Ok(());
    };
    if *most <= requests {
        return Ok(());
    }
    refused(
        format!("`--requests {requests}` contradicts `--concurrency {most}`: so few requests never put {most} in flight"),
        format!("write `--requests {most}` or more, or leave it out: a trial then ends by `--duration`"),
    )
}

/// Returns the options that end a trial of sessions, of those that its sessions allow.
fn end_of_sessions(bench: &Bench) -> &'static str {
    let has = |part: &str| bench.sessions.iter().any(|pair| pair.starts_with(part));
    match bench.trace {
        _ if has("count=") => "`--sessions count=` ends a trial",
        Some(_) if bench.concurrency.is_empty() => "a replay ends with its trace",
        Some(_) if has("recycle=true") => "write `--duration 60s`",
        Some(_) => "write `--sessions count=N`, a number of sessions",
        None => "write `--sessions count=N`, a number of sessions, or `--duration 60s`",
    }
}

fn check_series(bench: &Bench) -> Result<(), Failure> {
    if bench.series.is_empty() || bench.duration.is_none() {
        return Ok(());
    }
    refused(
        "`--duration` contradicts `--series`: a trial lasts as long as its segments together",
        "leave out `--duration`; each segment has its time, such as `--series 10s:5,20s:50`",
    )
}

fn check_rates_of_trace(bench: &Bench) -> Result<(), Failure> {
    let rates = [("--rate", !bench.rate.is_empty()), ("--ramp", bench.ramp.is_some()), ("--series", !bench.series.is_empty())];
    let Some((option, _)) = rates.into_iter().find(|(_, is_given)| *is_given && bench.trace.is_some()) else { return Ok(()) };
    let instead = match trace_format(bench) {
        Some(format) if format.needs_sessions() => "; `--concurrency 8 --sessions count=100` plays its sessions".to_owned(),
        _ => format!(", or write `--dataset FILE` instead of `--trace FILE`, whose requests are sent at `{option}`"),
    };
    refused(
        format!("`{option}` contradicts `--trace`: the requests of a trace have times of their own"),
        format!("leave out `{option}`{instead}"),
    )
}

/// Refuses a trace at a concurrency without sessions: what is missing else, such as an end of the trial, is another for each remedy.
fn check_concurrency_of_trace(bench: &Bench) -> Result<(), Failure> {
    if bench.trace.is_none() || bench.concurrency.is_empty() || !bench.sessions.is_empty() {
        return Ok(());
    }
    let end = if bench.requests.is_some() || bench.duration.is_some() { "" } else { " and `--requests N`" };
    let as_dataset =
        format!("write `--dataset FILE`{end} instead of `--trace FILE`, which sends its requests at the concurrency");
    let as_sessions = "add `--sessions count=N`, the number of sessions that are played";
    let hint = match trace_format(bench) {
        Some(format) if format.needs_sessions() => as_sessions.to_owned(),
        Some(format) if !format.has_trace_sessions() => format!("leave out `--concurrency`, or {as_dataset}"),
        Some(_) | None => {
            format!("leave out `--concurrency`, or {as_dataset}; if its requests belong to sessions, {as_sessions}")
        }
    };
    refused("`--concurrency` contradicts `--trace`: the requests of a trace have times of their own", hint)
}

fn check_speed(bench: &Bench) -> Result<(), Failure> {
    if bench.speed.is_empty() || bench.concurrency.is_empty() {
        return Ok(());
    }
    let is_replayable = trace_format(bench).is_none_or(|format| !format.needs_sessions() || format.has_session_starts());
    let instead = if is_replayable { ", or `--concurrency`, so that the trace is replayed at its times" } else { "" };
    refused(
        "`--speed` contradicts `--concurrency`: it divides the times of a replay, and sessions at a concurrency have none",
        format!("leave out `--speed`{instead}"),
    )
}

/// Returns the format of the trace, if an option states it.
fn trace_format(bench: &Bench) -> Option<DatasetFormat> {
    bench.trace_format.as_deref()?.parse().ok()
}

fn check_dataset_format(bench: &Bench) -> Result<(), Failure> {
    let Some(written) = &bench.dataset_format else { return Ok(()) };
    let format = written.parse::<DatasetFormat>().ok();
    let of_sessions = format.filter(|format| format.needs_sessions());
    match (&bench.dataset, &bench.trace, of_sessions) {
        (_, None, Some(format)) => refused(
            format!("`{format}` is a format of traces: a file of it consists of sessions, and a dataset of single requests"),
            format!("write {}", as_trace(format)),
        ),
        (None, Some(_), _) if format.is_some_and(|format| !format.has_times()) => without_times(written),
        (None, Some(_), _) => refused(
            "`--dataset-format` is the format of a `--dataset`, and the file is a `--trace`",
            format!("write `--trace-format {written}`"),
        ),
        (None, None, None) => refused("`--dataset-format` lacks its file", "add `--dataset FILE`"),
        (Some(_), ..) => Ok(()),
    }
}

fn check_trace_format(bench: &Bench) -> Result<(), Failure> {
    let Some(written) = &bench.trace_format else { return Ok(()) };
    let format = written.parse::<DatasetFormat>().ok();
    match (&bench.dataset, &bench.trace) {
        (_, Some(_)) if format.is_some_and(|format| !format.has_times()) => without_times(written),
        (_, Some(_)) => Ok(()),
        (Some(_), None) => {
            let hint = match format {
                Some(format) if format.needs_sessions() => format!("write {}", as_trace(format)),
                Some(format) if format.has_times() => format!(
                    "write {}, which replays its requests at their times, or `--dataset-format {format}`, which sends them at a load of your own",
                    as_trace(format)
                ),
                Some(_) | None => format!("write `--dataset-format {written}`"),
            };
            refused("`--trace-format` is the format of a `--trace`, and the file is a `--dataset`", hint)
        }
        (None, None) => refused("`--trace-format` lacks its file", "add `--trace FILE`"),
    }
}

/// Returns the failure of a trace in a format that has no times.
fn without_times(format: &str) -> Result<(), Failure> {
    refused(
        format!("`{format}` is a format of datasets: its rows have no times at which they could be replayed"),
        format!("write `--dataset FILE --dataset-format {format}`, and a load such as `--concurrency 8`"),
    )
}

/// Returns the options that play or replay a file of a format.
fn as_trace(format: DatasetFormat) -> String {
    let sessions = match format {
        _ if !format.needs_sessions() => "",
        _ if format.has_session_starts() => " --sessions history=recorded",
        _ => " --sessions count=100 --concurrency 8",
    };
    format!("`--trace FILE --trace-format {format}{sessions}`")
}
