//! The requests to telemetry sources, as the recorder and collect send them.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::Duration;

use assay_host::NoOutput;
use assay_manifest::{EnvVar, Instant, Name, PackQuery, PrometheusSource, QueryPack, TargetKind};
use assay_probe::{Client, Headers, Limits, endpoint_url, read_tls};
use assay_spec::Target;
use assay_stage::{Clock, with_causes};
use assay_telemetry::nvidia_smi::{Query, refused_field};
use assay_telemetry::prometheus::{
    ClockOffset, EvaluatedQuery, SampledSeries, clock_url, evaluate, parse_series, parse_time, presence_query, query_url,
    read_body, samples_query, source_name,
};
use assay_telemetry::{Source, traces, with_default_path};

use super::{AttemptLength, QueryState, SourceState};

/// The limits of a scrape: those of the recorder, with more time for a person's network.
const SCRAPE_LIMITS: Limits = Limits { time: Duration::from_secs(5), bytes: 16 << 20 };

/// The limits of a query.
const QUERY_LIMITS: Limits = Limits { time: Duration::from_mins(1), bytes: 32 << 20 };

/// The times in which samples of a query are looked for, the shortest first: in the first one that has enough of them the interval is seen.
const SPANS: [Duration; 2] = [Duration::from_mins(1), Duration::from_mins(15)];

/// The samples of a series by which its interval is seen.
const ENOUGH_SAMPLES: u64 = 3;

/// The fewest samples of a metric with a value.
const MIN_SAMPLES: u64 = 2;

/// Asks the endpoints of a target for their counters. Those of a target that a run starts do not exist yet.
pub(super) fn endpoints(target: &Target) -> Vec<SourceState> {
    let source = Source::endpoint(&target.name);
    let Some(url) = target.url.as_ref().filter(|_| target.kind == TargetKind::Endpoint) else {
        return vec![SourceState::new(source.to_string(), None).with_note("asked once the run has started the target")];
    };
    let headers: Vec<EnvVar> = target.headers.iter().map(|(name, value)| value.to_env_var(name)).collect();
    let tls = target.tls.as_ref().map(assay_planning::plan_tls);
    let client = client(&headers, tls.as_ref(), target.insecure_skip_tls_verify);
    let replicas = (1..).zip(&target.replicas).map(|(number, url)| (Source::replica(&target.name, number), url));
    let own = (source, url);
    let servers: Vec<(Source, &String)> = if target.replicas.is_empty() { vec![own] } else { replicas.collect() };
    let ask = |(source, url): (Source, &String)| {
        let state = SourceState::new(source.to_string(), Some(url.clone()));
        match &client {
            Ok(client) => scraped(&source, state, client, &endpoint_url(url, "/metrics")),
            Err(why) => state.failed(why.clone()),
        }
    };
    servers.into_iter().map(ask).collect()
}

/// Scrapes an exporter.
pub(super) fn exporter(name: &Name, scrape: &str) -> SourceState {
    let (source, url) = (Source::exporter(name), with_default_path(scrape));
    let state = SourceState::new(source.to_string(), Some(url.clone()));
    scraped(&source, state, &Client::new(Headers::default()), &url)
}

/// Runs `nvidia-smi` once.
pub(super) fn nvidia_smi(name: &Name) -> SourceState {
    let (source, state) = (Source::nvidia_smi(name), SourceState::new(Source::nvidia_smi(name).to_string(), None));
    let mut query = Query::default();
    loop {
        let printed = assay_host::nvidia_smi(&query.arguments(None));
        let (Ok(text) | Err(NoOutput { printed: text, .. })) = &printed;
        // An older driver refuses the whole query because of a field that it does not know.
        if let Some(fewer) = text.lines().find_map(refused_field).and_then(|field| query.without(field)) {
            query = fewer;
            continue;
        }
        return match &printed {
            Err(NoOutput { why, printed }) => state.failed(match printed.lines().next() {
                Some(line) => format!("{why} and printed `{}`", clip(line)),
                None => why.clone(),
            }),
            Ok(text) if !text.lines().any(|line| query.gpu_of(line).is_some()) => {
                state.failed(format!("it printed `{}`", clip(text.lines().next().unwrap_or_default())))
            }
            Ok(text) => {
                let text = format!("{}\n{text}", query.header());
                let (metrics, metrics_left_out) = source.count_metrics(&text);
                SourceState {
                    metrics: Some(metrics as u64),
                    metrics_left_out,
                    without_value: source.without_value(&text),
                    ..state
                }
            }
        };
    }
}

/// Tries if spans could be received.
pub(super) fn traces(name: &Name, address: &str) -> SourceState {
    let state = SourceState::new(Source::traces(name).to_string(), Some(address.to_owned()));
    let note = format!("receives spans while trials run: point the servers' exporters at http://{address}{}", traces::PATH);
    match TcpListener::bind(address) {
        Ok(_) => state.with_note(&note),
        Err(error) => state.failed(format!("cannot listen there: {error}")),
    }
}

/// Shows if the accounting of a Slurm job could be read: of the job that this process is in, because a run may be started in another one.
pub(super) fn accounting(name: &Name, from: &str) -> SourceState {
    let state = SourceState::new(format!("slurm/{name}"), Some(from.to_owned()));
    if from != "command" {
        return match std::fs::metadata(from) {
            Ok(_) => state.with_note("read once after the trials: the jobs of this file"),
            Err(error) => state.failed(format!("cannot read the file: {error}")),
        };
    }
    match std::env::var("SLURM_JOB_ID") {
        Ok(job) => state.with_note(&format!("read once after the trials: the job {}, by `sacct --json`", clip(&job))),
        Err(_) => state
            .with_note("off: this is no Slurm job (`SLURM_JOB_ID` is not set); in one, its times are read once after the trials"),
    }
}

/// Returns the start of a line, for messages.
fn clip(line: &str) -> String {
    line.chars().take(200).collect()
}

fn client(headers: &[EnvVar], tls: Option<&assay_manifest::TargetTls>, is_insecure: bool) -> Result<Client, String> {
    let headers = Headers::read(headers).map_err(|error| with_causes(&error))?;
    Ok(Client::with_tls(headers, read_tls(tls, is_insecure).map_err(|error| with_causes(&error))?))
}

fn scraped(source: &Source, state: SourceState, client: &Client, url: &str) -> SourceState {
    match client.get(url, SCRAPE_LIMITS) {
        Err(error) => state.failed(error.to_string()),
        // It responds, and has no counters: a run is measured without them.
        Ok(response) if !response.is_success() => SourceState { error: Some(response.status_text()), ..state },
        Ok(response) => match String::from_utf8(response.body) {
            Err(_) => state.failed("the response is not UTF-8".to_owned()),
            Ok(text) => {
                if let Err(why) = source.check_response(&text) {
                    state.failed(why.to_owned())
                } else {
                    let (metrics, metrics_left_out) = source.count_metrics(&text);
                    SourceState { metrics: Some(metrics as u64), metrics_left_out, ..state }
                }
            }
        },
    }
}

/// Asks a Prometheus for the present samples of each of its queries.
pub(super) fn prometheus(name: &Name, source: &PrometheusSource, attempts: &[AttemptLength]) -> SourceState {
    let state = SourceState::new(source_name(name), Some(source.url.clone()));
    let client = match client(&source.headers, source.tls.as_ref(), source.insecure_skip_tls_verify) {
        Ok(client) => client,
        Err(why) => return state.failed(why),
    };
    let server = Server { client, source };
    let (server_ns, clock) = match server.clock() {
        Ok(found) => found,
        Err(why) => return state.failed(why),
    };
    let queries: Vec<QueryState> = source.queries().map(|(pack, query)| server.query(pack, query, server_ns, attempts)).collect();
    let unreachable = queries.iter().any(|query| query.error.is_some());
    SourceState {
        unreachable,
        clock_offset_ns: Some(clock.offset_ns),
        clock_uncertainty_ns: Some(clock.uncertainty_ns),
        queries,
        ..state
    }
}

struct Server<'a> {
    client: Client,
    source: &'a PrometheusSource,
}

impl Server<'_> {
    fn get(&self, url: &str) -> Result<String, String> {
        let response = self.client.get(url, QUERY_LIMITS).map_err(|error| error.to_string())?;
        read_body(response.is_success(), &response.status_text(), response.body)
    }

    /// Returns the server's time, and its difference from the time here.
    fn clock(&self) -> Result<(i64, ClockOffset), String> {
        let requested = Clock.now();
        let body = self.get(&clock_url(&self.source.url))?;
        let received = Clock.now();
        let server_ns = parse_time(&body)?;
        Ok((server_ns, ClockOffset::new(requested, received, server_ns)))
    }

    fn query(&self, pack: &QueryPack, query: &PackQuery, server_ns: i64, attempts: &[AttemptLength]) -> QueryState {
        let state = QueryState {
            pack: pack.name.to_string(),
            exporter: pack.exporter.clone(),
            metric: query.name.clone(),
            promql: self.source.selector(query),
            scope_kind: query.scope_kind.to_string(),
            resolution_ns: pack.resolution_ns.0,
            ..QueryState::default()
        };
        match self.evaluated(query, server_ns) {
            Err(why) => QueryState { error: Some(why), ..state },
            Ok((evaluated, lately)) => state.with(query, &evaluated, lately, attempts),
        }
    }

    /// Returns the rows of a query over the shortest span that shows its interval, and the number of series that it had lately.
    fn evaluated(&self, query: &PackQuery, server_ns: i64) -> Result<(EvaluatedQuery, u64), String> {
        let selector = self.source.selector(query);
        let end = Instant::from_unix_ns(server_ns);
        let mut found = EvaluatedQuery::default();
        for span in SPANS {
            let start = Instant::from_unix_ns(server_ns.saturating_sub(span.as_nanos() as i64));
            let series = self.series(&samples_query(&selector, start, end))?;
            found = evaluate(query, (start, end), series);
            let most = found.rows.iter().map(|row| row.statistics.n).max().unwrap_or(0);
            if most >= ENOUGH_SAMPLES {
                break;
            }
        }
        let lately = if found.series == 0 { self.lately(&selector, end)? } else { found.series };
        Ok((found, lately))
    }

    fn series(&self, (promql, time): &(String, Instant)) -> Result<Vec<SampledSeries>, String> {
        let body = self.get(&query_url(&self.source.url, promql, Some(*time)))?;
        parse_series(&body).map(|response| response.series)
    }

    /// Returns the number of series that a selector had in the last hour.
    fn lately(&self, selector: &str, time: Instant) -> Result<u64, String> {
        let series = self.series(&(presence_query(selector), time))?;
        let count = series.first().and_then(|series| series.samples.first()).map(|(_, value)| *value);
        Ok(count.filter(|count| *count >= 0.0).unwrap_or(0.0) as u64)
    }
}

impl QueryState {
    fn with(self, query: &PackQuery, evaluated: &EvaluatedQuery, lately: u64, attempts: &[AttemptLength]) -> Self {
        let scopes: BTreeSet<&str> = evaluated.rows.iter().map(|row| row.scope_id.as_str()).collect();
        let mut intervals: Vec<u64> = evaluated.rows.iter().filter_map(|row| row.interval_ns).collect();
        intervals.sort_unstable();
        let interval_ns = intervals.get(intervals.len() / 2).copied();
        let is_too_short = |attempt: &&AttemptLength| match interval_ns {
            Some(interval) => attempt.duration_ns < interval.saturating_mul(MIN_SAMPLES),
            // There are series, and no two samples of one in all that time.
            None => lately > 0 && evaluated.ambiguous == 0 && evaluated.without_scope == 0,
        };
        Self {
            series: if evaluated.series == 0 { lately } else { evaluated.series },
            scopes: scopes.len() as u64,
            rows: evaluated.rows.len() as u64,
            interval_ns,
            too_short: attempts.iter().filter(is_too_short).map(|attempt| attempt.workload.clone()).collect(),
            ambiguous: evaluated.ambiguous,
            without_scope: evaluated.without_scope,
            absent: (lately == 0).then(|| query.missing.clone()),
            ..self
        }
    }
}
