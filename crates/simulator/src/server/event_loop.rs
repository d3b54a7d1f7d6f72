//! All connections of one thread and the engine behind them: reads requests, sends what is due, and records the outcomes.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::time::{SystemTime, UNIX_EPOCH};

use assay_api::{ContentFault, OutputTokens, ResponseNames, ResponsePlan, ServingApi, SimulatedResponse, TokenRun};
use assay_reactor::{Interest, Poller, ReadySocket, now_ns};
use serde::Deserialize;
use serde_json::json;

use crate::config::Config;
use crate::draw::RequestKey;
use crate::engine::{Engine, Stall};
use crate::fault::Fault;
use crate::listen::Listener;
use crate::metrics::{FinishedReason, Gauges, Metrics, RequestCourse};
use crate::model::{Arrival, Channel, Event, EventKind, Model};
use crate::server::connection::{Connection, Input, Stamp};
use crate::server::http::Head;
use crate::server::inference_request::{InferenceRequest, Refusal, parse_request};
use crate::server::log::TruthLog;
use crate::server::response::{EVENT_STREAM, JSON, LAST_CHUNK, ResponseHead, error_body, push_events};
use crate::server::{LISTENER, ServeError};
use crate::truth::{ChunkTruth, Ending, RequestTruth, Truth, TruthEnd, TruthRing};

/// Connections accepted before others are served.
const ACCEPTS_AT_A_TIME: usize = 64;

/// The interval between checks for idle connections, in nanoseconds.
const SWEEP_NS: i64 = 1_000_000_000;

/// The pause of listening after it had no file left for a connection, in nanoseconds.
const LISTEN_AGAIN_NS: i64 = 100_000_000;

/// The time in which a refused client has to leave, in nanoseconds.
const DRAIN_NS: i64 = 10_000_000_000;

/// Prompts without `x-request-id` whose repetitions are counted; beyond that, equal prompts have equal draws.
const MAX_SEEN_PROMPTS: usize = 100_000;

/// The maximum stall that may be requested, in milliseconds: an hour.
const MAX_STALL_MS: f64 = 3_600_000.0;

/// The connections of one thread and the engine behind them.
pub(super) struct EventLoop {
    config: Config,
    engine: Engine<Box<dyn Model>>,
    /// The instant up to which the engine's events have been handled.
    handled_ns: i64,
    connections: Vec<Option<Box<Connection>>>,
    /// The number of uses of each place, so that events of an earlier connection are not taken for a later one.
    uses: Vec<u32>,
    free: Vec<usize>,
    open: usize,
    listening: bool,
    listen_after_ns: i64,
    requests: HashMap<u64, InFlightRequest>,
    next_request: u64,
    seen_prompts: HashMap<[u8; 32], u32>,
    /// Connections whose response is complete, and that may have received their next request already.
    finished: Vec<u64>,
    /// Connections whose response drips.
    drips: Vec<u64>,
    events: Vec<Event>,
    stamps: Vec<Stamp>,
    data: Vec<u8>,
    wire: Vec<u8>,
    buffer: Vec<u8>,
    metrics: Metrics,
    truth: TruthRing,
    log: Option<TruthLog>,
    started_ns: i64,
    created_s: u64,
    next_sweep_ns: i64,
}

/// A request whose response is in progress.
struct InFlightRequest {
    connection: u64,
    key: RequestKey,
    ask: InferenceRequest,
    response: SimulatedResponse,
    length: OutputTokens,
    fault: Option<Fault>,
    truth: RequestTruth,
    /// Tokens whose instant has come.
    sent: u32,
    course: RequestCourse,
}

/// A response without inference.
struct PlainResponse<'a> {
    status: u16,
    content_type: &'a str,
    allow: Option<&'a str>,
    body: Vec<u8>,
}

impl PlainResponse<'_> {
    fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type: JSON, allow: None, body: body.into() }
    }

    fn error(status: u16, message: &str) -> Self {
        Self::json(status, error_body(status, message))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StallRequest {
    for_ms: f64,
    #[serde(default)]
    at_ms: f64,
}

impl EventLoop {
    pub(super) fn new(config: Config, engine: Engine<Box<dyn Model>>) -> Result<Self, ServeError> {
        let log = match &config.truth {
            Some(path) => Some(TruthLog::create(path).map_err(|source| ServeError::Truth { path: path.clone(), source })?),
            None => None,
        };
        Ok(Self {
            engine,
            handled_ns: 0,
            connections: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            open: 0,
            listening: true,
            listen_after_ns: 0,
            requests: HashMap::new(),
            next_request: 0,
            seen_prompts: HashMap::new(),
            finished: Vec::new(),
            drips: Vec::new(),
            events: Vec::new(),
            stamps: Vec::new(),
            data: Vec::new(),
            wire: Vec::new(),
            buffer: vec![0; 64 << 10],
            metrics: Metrics::new(),
            truth: TruthRing::new(config.limits.truth_requests, config.limits.truth_chunks),
            log,
            started_ns: 0,
            created_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            next_sweep_ns: 0,
            config,
        })
    }

    /// Starts the engine: scripted stalls and the engine's episodes count from here.
    pub(super) fn start(&mut self, now: i64) -> Result<(), ServeError> {
        self.engine.start(now);
        self.started_ns = now;
        self.next_sweep_ns = now.saturating_add(SWEEP_NS);
        for stall in self.config.stalls.clone() {
            let stall = Stall { at_ns: now.saturating_add(stall.at_ns), for_ns: stall.for_ns };
            self.engine.stall(stall).map_err(io::Error::other)?;
        }
        Ok(())
    }

    pub(super) fn spin_ns(&self) -> i64 {
        self.config.spin_ns
    }

    pub(super) fn stalled_until_ns(&self, now: i64) -> Option<i64> {
        self.engine.stalled_until_ns(now)
    }

    /// Returns the next due time that does not depend on a socket.
    pub(super) fn next_ns(&self) -> Option<i64> {
        let drip_ns = self.drips.iter().filter_map(|token| self.connection(*token)?.next_drip_ns()).min();
        let sweep_ns = (self.open > 0).then_some(self.next_sweep_ns);
        let listen_ns = (!self.listening).then_some(self.listen_after_ns);
        [self.engine.next_ns(), self.engine.next_stall_ns(now_ns()), drip_ns, sweep_ns, listen_ns].into_iter().flatten().min()
    }

    pub(super) fn is_due(&self, now: i64) -> bool {
        self.engine.next_ns().is_some_and(|at_ns| at_ns <= now)
    }

    /// Does the due work: planned events, drips, and the check for idle connections.
    pub(super) fn do_due_work(&mut self, poller: &Poller) {
        self.follow_plan(poller);
        self.drip(poller);
        while let Some(token) = self.finished.pop() {
            self.read_requests(token, now_ns(), poller);
        }
        let now = now_ns();
        if now >= self.next_sweep_ns {
            self.next_sweep_ns = now.saturating_add(SWEEP_NS);
            self.close_idle(now);
        }
    }

    fn follow_plan(&mut self, poller: &Poller) {
        let now = now_ns();
        let mut events = std::mem::take(&mut self.events);
        self.engine.advance(now, &mut events);
        self.handled_ns = now;
        for event in events.drain(..) {
            self.handle_event(event, poller);
        }
        self.events = events;
    }

    /// Cuts off all requests in flight, and completes the log of the truth.
    pub(super) fn finish(mut self, now: i64) -> Result<(), ServeError> {
        let mut left: Vec<u64> = self.requests.keys().copied().collect();
        left.sort_unstable();
        for request in left {
            self.end_request(request, Ending::Stopped, now);
        }
        let ended = self.truth.since(u64::MAX).1.ended;
        match (self.log.take(), self.config.truth.clone()) {
            (Some(log), Some(path)) => log.finish(ended).map_err(|source| ServeError::Truth { path, source }),
            _ => Ok(()),
        }
    }
}

/// Connections.
impl EventLoop {
    pub(super) fn accept(&mut self, listener: &Listener, poller: &Poller) {
        for _ in 0..ACCEPTS_AT_A_TIME {
            match listener.accept() {
                Ok(socket) if self.open < self.config.limits.connections => {
                    // A connection that broke at once needs no further handling.
                    let _ = self.admit(socket, poller);
                }
                Ok(_) => self.metrics.refused_connections += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // No file is left: the listener would be ready again and again until one is.
                Err(_) => {
                    self.listening = poller.remove(listener).is_err();
                    self.listen_after_ns = now_ns().saturating_add(LISTEN_AGAIN_NS);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: std::net::TcpStream, poller: &Poller) -> io::Result<()> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.uses.push(0);
            self.connections.len() - 1
        });
        let token = u64::from(self.uses[place]) << 32 | place as u64;
        if let Err(error) = poller.add(&socket, token, Interest::Read) {
            self.free.push(place);
            return Err(error);
        }
        self.connections[place] = Some(Box::new(Connection::new(socket, now_ns())));
        self.open += 1;
        Ok(())
    }

    fn connection(&self, token: u64) -> Option<&Connection> {
        let place = (token & 0xffff_ffff) as usize;
        let current = u64::from(*self.uses.get(place)?) == token >> 32;
        self.connections.get(place)?.as_deref().filter(|_| current)
    }

    fn connection_mut(&mut self, token: u64) -> Option<&mut Connection> {
        self.connection(token)?;
        self.connections.get_mut((token & 0xffff_ffff) as usize)?.as_deref_mut()
    }

    /// Listens again after it had no file left, if the pause is over.
    pub(super) fn listen_again(&mut self, listener: &Listener, poller: &Poller) {
        if !self.listening && now_ns() >= self.listen_after_ns {
            self.listening = poller.add(listener, LISTENER, Interest::Read).is_ok();
        }
    }

    /// Serves a ready socket.
    pub(super) fn serve(&mut self, ready: ReadySocket, poller: &Poller) {
        if ready.writable {
            self.flush(ready.token, poller);
        }
        if ready.readable {
            let mut buffer = std::mem::take(&mut self.buffer);
            let input = self.connection_mut(ready.token).map(|connection| connection.read(&mut buffer));
            self.buffer = buffer;
            match input {
                Some(Input::Data) => {
                    let read_ns = self.connection(ready.token).map_or(0, |connection| connection.last_activity_ns);
                    self.read_requests(ready.token, read_ns, poller);
                }
                Some(Input::Closed) => self.close(ready.token, Ending::Aborted),
                None => {}
            }
        }
    }

    /// Closes a connection. A request in flight on it ends with it.
    fn close(&mut self, token: u64, ending: Ending) {
        let Some(request) = self.connection(token).map(|connection| connection.request) else { return };
        let place = (token & 0xffff_ffff) as usize;
        self.connections[place] = None;
        self.uses[place] = self.uses[place].wrapping_add(1) & 0x7fff_ffff;
        self.free.push(place);
        self.open -= 1;
        self.drips.retain(|dripping| *dripping != token);
        if let Some(request) = request {
            self.end_request(request, ending, now_ns());
        }
    }

    fn close_idle(&mut self, now: i64) {
        let idle_ns = i64::from(self.config.limits.idle_s).saturating_mul(1_000_000_000);
        let is_silent = |connection: &Connection| {
            let silent_ns = now.saturating_sub(connection.last_activity_ns);
            // A client that does not read its response for so long is treated as gone.
            let waits = connection.request.is_none() || !connection.is_flushed();
            waits && silent_ns > idle_ns || connection.is_draining() && silent_ns > DRAIN_NS
        };
        let silent: Vec<u64> = (0..self.connections.len())
            .filter(|place| self.connections[*place].as_deref().is_some_and(is_silent))
            .map(|place| u64::from(self.uses[place]) << 32 | place as u64)
            .collect();
        for token in silent {
            self.close(token, Ending::Aborted);
        }
    }

    /// Sends to a connection, and records the instant. A connection whose client does not read is closed.
    fn send(&mut self, token: u64, bytes: &[u8], chunk: Option<u32>, poller: &Poller) {
        let mut stamps = std::mem::take(&mut self.stamps);
        let max_backlog = self.config.limits.backlog_bytes;
        let sent = self
            .connection_mut(token)
            .map(|connection| connection.send(bytes, chunk, &mut stamps).is_ok() && connection.backlog_bytes() <= max_backlog);
        self.after_sending(token, stamps, sent, poller);
    }

    fn flush(&mut self, token: u64, poller: &Poller) {
        let mut stamps = std::mem::take(&mut self.stamps);
        let sent = self.connection_mut(token).map(|connection| connection.flush(&mut stamps).is_ok());
        self.after_sending(token, stamps, sent, poller);
        if self.connection(token).is_some_and(|connection| connection.is_complete && connection.is_flushed()) {
            self.end_response(token);
        }
    }

    fn after_sending(&mut self, token: u64, mut stamps: Vec<Stamp>, sent: Option<bool>, poller: &Poller) {
        let request = self.connection(token).and_then(|connection| connection.request);
        if let Some(under_way) = request.and_then(|request| self.requests.get_mut(&request)) {
            for (chunk, at_ns) in &stamps {
                if let Some(chunk) = under_way.truth.chunks.get_mut(*chunk as usize) {
                    chunk.actual_ns = Some(*at_ns);
                    self.metrics.lateness.observe_ns(at_ns.saturating_sub(chunk.planned_ns));
                }
            }
        }
        stamps.clear();
        self.stamps = stamps;
        match sent {
            Some(true) => self.watch(token, poller),
            Some(false) => self.close(token, Ending::Aborted),
            None => {}
        }
    }

    fn watch(&mut self, token: u64, poller: &Poller) {
        let Some(connection) = self.connection_mut(token) else { return };
        let wanted = connection.wanted_interest();
        if wanted != connection.interest && poller.modify(connection.socket(), token, wanted).is_ok() {
            connection.interest = wanted;
        }
    }

    fn drip(&mut self, poller: &Poller) {
        for token in self.drips.clone() {
            self.flush(token, poller);
        }
    }

    /// Marks the response as complete: the connection ends or waits for its next request once all of it has been sent.
    fn complete_response(&mut self, token: u64) {
        let Some(connection) = self.connection_mut(token) else { return };
        connection.is_complete = true;
        if connection.is_flushed() {
            self.end_response(token);
        }
    }

    fn end_response(&mut self, token: u64) {
        let Some(connection) = self.connection_mut(token) else { return };
        let (request, keep_alive) = (connection.request.take(), connection.keep_alive);
        connection.end_response();
        self.drips.retain(|dripping| *dripping != token);
        if let Some(request) = request {
            let ending = self.requests.get(&request).map_or(Ending::Finished, InFlightRequest::ending);
            self.end_request(request, ending, now_ns());
        }
        if keep_alive {
            self.finished.push(token);
        } else {
            self.end_connection(token);
        }
    }

    /// Ends a connection after its last response, so that the response arrives.
    fn end_connection(&mut self, token: u64) {
        if self.connection_mut(token).is_some_and(|connection| connection.drain().is_err()) {
            self.close(token, Ending::Aborted);
        }
    }
}

/// Requests.
impl EventLoop {
    /// Parses the buffered requests of a connection until a response is in progress or no request is complete.
    fn read_requests(&mut self, token: u64, read_ns: i64, poller: &Poller) {
        let max = (self.config.limits.head_bytes, self.config.limits.body_bytes);
        while let Some(connection) = self.connection_mut(token).filter(|connection| connection.is_idle()) {
            match connection.next_request(max) {
                Ok(Some((head, body))) => {
                    connection.keep_alive = head.keep_alive;
                    self.handle_request(token, &head, &body, read_ns, poller);
                }
                Ok(None) => {
                    if connection.expects_continue() {
                        self.send(token, b"HTTP/1.1 100 Continue\r\n\r\n", None, poller);
                    }
                    return;
                }
                Err(bad) => {
                    connection.keep_alive = false;
                    self.metrics.refused_requests += 1;
                    self.send_plain(token, &PlainResponse::error(bad.status, &bad.message), None, poller);
                    self.complete_response(token);
                    return;
                }
            }
        }
    }

    fn handle_request(&mut self, token: u64, head: &Head, body: &[u8], read_ns: i64, poller: &Poller) {
        let is_post = head.method == "POST";
        let api = ServingApi::at_path(&head.path);
        if let Some(api) = api.filter(|_| is_post) {
            return self.start_inference(token, api, head, body, read_ns, poller);
        }
        let plain = match head.path.as_str() {
            "/reset_prefix_cache" if is_post => {
                self.engine.reset_prefix_cache();
                PlainResponse::json(200, "")
            }
            "/stall" if is_post => self.stall(body),
            "/reset_prefix_cache" | "/stall" => not_allowed("POST"),
            _ if api.is_some() => not_allowed("POST"),
            path => match (self.get_resource(path, &head.query), head.method.as_str()) {
                (Some(plain), "GET") => plain,
                (Some(_), _) => not_allowed("GET"),
                (None, _) => PlainResponse::error(404, "there is nothing at this path"),
            },
        };
        if plain.status >= 400 {
            self.metrics.refused_requests += 1;
        }
        self.send_plain(token, &plain, head.request_id.as_deref(), poller);
        self.complete_response(token);
    }

    /// Serves the GET resources.
    fn get_resource(&self, path: &str, query: &str) -> Option<PlainResponse<'static>> {
        Some(match path {
            "/health" if self.is_ready() => PlainResponse::json(200, ""),
            "/health" => not_ready(),
            "/version" => PlainResponse::json(200, json!({ "version": env!("CARGO_PKG_VERSION") }).to_string()),
            "/v1/models" => PlainResponse::json(200, self.models()),
            "/metrics" => PlainResponse {
                status: 200,
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                allow: None,
                body: self.metrics.render(&self.config.model, &self.gauges()).into_bytes(),
            },
            "/truth" => self.tell_truth(query),
            _ => return None,
        })
    }

    fn is_ready(&self) -> bool {
        now_ns() >= self.started_ns.saturating_add(self.config.ready_after_ns)
    }

    fn models(&self) -> String {
        let Config { model, adapters, max_model_len, .. } = &self.config;
        let listed = |name: &str, parent: Option<&str>| {
            json!({
                "id": name, "object": "model", "created": self.created_s, "owned_by": "assay",
                "root": name, "parent": parent, "max_model_len": max_model_len,
            })
        };
        let adapters = adapters.iter().map(|adapter| listed(adapter, Some(model)));
        let data: Vec<_> = std::iter::once(listed(model, None)).chain(adapters).collect();
        json!({ "object": "list", "data": data }).to_string()
    }

    fn gauges(&self) -> Gauges {
        Gauges {
            occupancy: self.engine.occupancy(),
            cache: self
                .config
                .engine
                .has_prefix_cache()
                .then_some((self.config.engine.block_tokens(), self.config.engine.kv_blocks())),
            process_start_s: self.created_s,
            connections: self.open,
            truth_dropped: self.truth.dropped(),
            truth_file_dropped: self.log.as_ref().map_or(0, |log| log.dropped),
        }
    }

    fn tell_truth(&self, query: &str) -> PlainResponse<'static> {
        let since = match query.split('&').find_map(|pair| pair.strip_prefix("since=")).map(str::parse) {
            None => 0,
            Some(Ok(since)) => since,
            Some(Err(_)) => return PlainResponse::error(400, "`since` is the number of a line"),
        };
        let (rows, end): (_, TruthEnd) = self.truth.since(since);
        let mut body = Vec::new();
        for line in rows.map(|row| Truth::Request(row.clone())).chain([Truth::End(end)]) {
            // Writing numbers and texts to a vector cannot fail.
            let _ = serde_json::to_writer(&mut body, &line);
            body.push(b'\n');
        }
        PlainResponse { status: 200, content_type: "application/x-ndjson", allow: None, body }
    }

    fn stall(&mut self, body: &[u8]) -> PlainResponse<'static> {
        let asked: StallRequest = match serde_json::from_slice(body) {
            Ok(asked) => asked,
            Err(error) => return PlainResponse::error(400, &format!("not a stall, such as {{\"for_ms\": 500}}: {error}")),
        };
        if ![asked.for_ms, asked.at_ms].iter().all(|ms| (0.0..=MAX_STALL_MS).contains(ms)) {
            return PlainResponse::error(400, "`for_ms` and `at_ms` are milliseconds from 0 to 3600000");
        }
        let ns = |ms: f64| (ms * 1e6) as i64;
        let stall = Stall { at_ns: now_ns().saturating_add(ns(asked.at_ms)), for_ns: ns(asked.for_ms) };
        match self.engine.stall(stall) {
            Ok(()) => PlainResponse::json(200, json!({ "at_ns": stall.at_ns, "for_ns": stall.for_ns }).to_string()),
            Err(error) => PlainResponse::error(429, &error.to_string()),
        }
    }

    /// Sends a response that needs no plan.
    fn send_plain(&mut self, token: u64, plain: &PlainResponse<'_>, request_id: Option<&str>, poller: &Poller) {
        let keep_alive = self.connection(token).is_some_and(|connection| connection.keep_alive);
        let (status, content_type, allow) = (plain.status, plain.content_type, plain.allow);
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        ResponseHead { status, content_type, request_id, allow, keep_alive }.push(Some(plain.body.len()), &mut wire);
        wire.extend_from_slice(&plain.body);
        self.send(token, &wire, None, poller);
        self.wire = wire;
    }

    fn start_inference(&mut self, token: u64, api: ServingApi, head: &Head, body: &[u8], read_ns: i64, poller: &Poller) {
        let asked = self.admissible(api, head, body);
        let (ask, fault) = match asked {
            Ok(asked) => asked,
            Err(refusal) => {
                self.metrics.refused_requests += 1;
                self.send_plain(
                    token,
                    &PlainResponse::error(refusal.status, &refusal.message),
                    head.request_id.as_deref(),
                    poller,
                );
                return self.complete_response(token);
            }
        };
        let key = self.request_key(head.request_id.as_deref(), &ask);
        let fault = fault.or_else(|| self.config.draw_fault(key));
        let request = self.next_request;
        self.next_request += 1;
        let request_id = head.request_id.clone().unwrap_or_else(|| format!("simulated-{request}"));
        // The engine's time has already advanced to this instant; a request that was read earlier counts as arriving now.
        let arrived_ns = read_ns.max(self.handled_ns);
        let length = ask.response_length(key, &self.config);
        self.metrics.images += u64::from(ask.prompt.images);
        let truth = RequestTruth {
            number: 0,
            request_id,
            path: head.path.clone(),
            stream: ask.stream,
            fault: fault.map(|fault| fault.to_string()),
            ending: Ending::Finished,
            status: None,
            finish_reason: None,
            prompt_tokens: ask.prompt.tokens,
            cached_tokens: 0,
            evicted_tokens: 0,
            evictions: 0,
            preemptions: 0,
            output_tokens: length.tokens,
            reasoning_tokens: length.reasoning_tokens,
            arrived_ns,
            admitted_ns: None,
            chunks: Vec::new(),
            end_ns: arrived_ns,
        };
        let response = SimulatedResponse::new(
            self.plan_response(&ask, length),
            ResponseNames {
                request_id: &truth.request_id,
                model: self.config.name_of(ask.adapter),
                reasoning_field: &self.config.reasoning_field,
            },
        );
        let arrival = Arrival {
            request,
            key,
            prompt_tokens: ask.prompt.tokens,
            output_tokens: length.tokens,
            reasoning_tokens: length.reasoning_tokens,
            prefix_blocks: ask.prompt.blocks.clone(),
        };
        let course = RequestCourse::new(arrived_ns, ask.prompt.tokens);
        let under_way = InFlightRequest { connection: token, key, ask, response, length, fault, truth, sent: 0, course };
        self.requests.insert(request, under_way);
        if let Some(connection) = self.connection_mut(token) {
            connection.request = Some(request);
        }
        if self.apply_early_fault(token, request, fault, poller) {
            return;
        }
        self.engine.arrive(arrived_ns, arrival);
        self.begin_stream(token, request, poller);
    }

    fn plan_response(&self, ask: &InferenceRequest, output: OutputTokens) -> ResponsePlan {
        ResponsePlan {
            api: ask.api,
            is_streamed: ask.stream,
            continuous_usage: ask.continuous_usage,
            counts: ask.counts,
            prompt_tokens: ask.prompt.tokens,
            output,
            dimensions: self.config.embedding_dimensions,
            created_s: self.created_s,
        }
    }

    fn admissible(&self, api: ServingApi, head: &Head, body: &[u8]) -> Result<(InferenceRequest, Option<Fault>), Refusal> {
        if !self.is_ready() {
            return Err(Refusal::new(503, "the endpoint is not ready yet"));
        }
        let fault = head.fault.as_deref().map(str::parse::<Fault>).transpose();
        let fault = fault.map_err(|error| Refusal::new(400, error.to_string()))?;
        let ask = parse_request(api, body, &self.config)?;
        let occupancy = self.engine.occupancy();
        if occupancy.waiting >= self.config.limits.waiting {
            return Err(Refusal::new(429, format!("{} requests wait already", occupancy.waiting)));
        }
        Ok((ask, fault))
    }

    fn request_key(&mut self, request_id: Option<&str>, ask: &InferenceRequest) -> RequestKey {
        if let Some(request_id) = request_id {
            return RequestKey::from_id(&self.config.seed, request_id);
        }
        let digest = ask.prompt.digest;
        let has_room = self.seen_prompts.len() < MAX_SEEN_PROMPTS;
        let before = if has_room || self.seen_prompts.contains_key(&digest) {
            let seen = self.seen_prompts.entry(digest).or_insert(0);
            *seen = seen.wrapping_add(1);
            seen.wrapping_sub(1)
        } else {
            0
        };
        RequestKey::from_content(&self.config.seed, &digest, before)
    }

    /// Applies faults that prevent a response from being planned at all.
    fn apply_early_fault(&mut self, token: u64, request: u64, fault: Option<Fault>, poller: &Poller) -> bool {
        let Some(fault) = fault else { return false };
        self.metrics.faults += 1;
        match fault {
            Fault::Hang => true,
            Fault::Refuse => {
                self.close(token, Ending::Fault);
                true
            }
            Fault::Status(status) => {
                self.fail_with(token, request, status, poller);
                true
            }
            Fault::Drip(every_us) => {
                if let Some(connection) = self.connection_mut(token) {
                    connection.drip_every(i64::from(every_us) * 1_000);
                    self.drips.push(token);
                }
                false
            }
            _ => false,
        }
    }

    /// Responds with an error status instead of the result.
    fn fail_with(&mut self, token: u64, request: u64, status: u16, poller: &Poller) {
        let Some(under_way) = self.requests.get_mut(&request) else { return };
        under_way.truth.status = Some(status);
        let request_id = under_way.truth.request_id.clone();
        self.send_plain(token, &PlainResponse::error(status, "this error was asked for"), Some(&request_id), poller);
        self.complete_response(token);
    }

    fn begin_stream(&mut self, token: u64, request: u64, poller: &Poller) {
        let keep_alive = self.connection(token).is_some_and(|connection| connection.keep_alive);
        let Some(under_way) = self.requests.get_mut(&request).filter(|under_way| under_way.ask.stream) else { return };
        under_way.truth.status = Some(200);
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        under_way.head(EVENT_STREAM, keep_alive).push(None, &mut wire);
        self.send(token, &wire, None, poller);
        self.wire = wire;
    }
}

/// Responses.
impl EventLoop {
    fn handle_event(&mut self, event: Event, poller: &Poller) {
        // The event may belong to a request that was cut off a moment ago.
        let Some(under_way) = self.requests.get_mut(&event.request) else { return };
        match event.kind {
            EventKind::Admitted { cached_tokens, evicted_tokens, evictions } => {
                under_way.response.cached_tokens = cached_tokens;
                under_way.truth.cached_tokens = cached_tokens;
                under_way.truth.evicted_tokens = evicted_tokens;
                under_way.truth.evictions = evictions;
                under_way.truth.admitted_ns = Some(event.at_ns);
                self.metrics.count_admission(&mut under_way.course, event.at_ns, cached_tokens, evicted_tokens);
            }
            EventKind::Preempted => under_way.truth.preemptions += 1,
            EventKind::Chunk { tokens, channel } => {
                self.metrics.count_tokens(&mut under_way.course, event.at_ns, tokens);
                self.send_tokens(event, tokens, channel, poller);
            }
            EventKind::Finished => {
                let reason =
                    if under_way.length.finish_reason == "length" { FinishedReason::Length } else { FinishedReason::Stop };
                self.metrics.count_finish(&mut under_way.course, event.at_ns, reason, under_way.length.tokens);
                self.send_end(event, poller);
            }
        }
    }

    fn send_tokens(&mut self, event: Event, tokens: u32, channel: Channel, poller: &Poller) {
        let Some(under_way) = self.requests.get_mut(&event.request) else { return };
        let from = under_way.sent;
        under_way.sent += tokens;
        if !under_way.ask.stream {
            return;
        }
        let (token, chunk) = (under_way.connection, under_way.truth.chunks.len() as u32);
        match under_way.fault {
            Some(Fault::Close(at)) if at == chunk => return self.close(token, Ending::Fault),
            Some(Fault::NoDone(Some(at))) if at == chunk => return self.cut_stream(token, event, false, poller),
            Some(Fault::StreamError(at)) if at == chunk => return self.cut_stream(token, event, true, poller),
            _ => {}
        }
        self.send_before_chunk(event.request, chunk, poller);
        let Some(under_way) = self.requests.get_mut(&event.request) else { return };
        let garble: &[u8] = if under_way.fault == Some(Fault::BadUtf8(chunk)) { b"\xff" } else { b"" };
        self.data.clear();
        let run = TokenRun { from, tokens, is_reasoning: channel == Channel::Reasoning };
        under_way.response.write_tokens(&under_way.key, run, garble, &mut self.data);
        under_way.truth.chunks.push(ChunkTruth { planned_ns: event.at_ns, actual_ns: None, tokens, channel });
        self.send_events(token, Some(chunk), poller);
    }

    /// Sends the events before a chunk that are no chunks: those that begin a stream, and faults that are events of their own.
    fn send_before_chunk(&mut self, request: u64, chunk: u32, poller: &Poller) {
        let Some(under_way) = self.requests.get(&request) else { return };
        let (token, fault) = (under_way.connection, under_way.fault);
        self.data.clear();
        if chunk == 0 {
            under_way.response.write_first_events(&mut self.data);
            self.send_events(token, None, poller);
        }
        self.data.clear();
        match fault {
            Some(Fault::BadJson(at)) if at == chunk => self.data.extend_from_slice(b"data: {\"choices\": [{\"delta\": \n\n"),
            Some(Fault::GiantLine(bytes)) if chunk == 0 => giant_line(bytes as usize, &mut self.data),
            _ => return,
        }
        self.send_events(token, None, poller);
    }

    /// Sends the events in `self.data`, if there are any.
    fn send_events(&mut self, token: u64, chunk: Option<u32>, poller: &Poller) {
        if self.data.is_empty() {
            return;
        }
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        push_events(&self.data, &mut wire);
        self.send(token, &wire, chunk, poller);
        self.wire = wire;
    }

    /// Ends a stream before its end, as its fault requires.
    fn cut_stream(&mut self, token: u64, event: Event, with_error: bool, poller: &Poller) {
        let mut wire = Vec::new();
        if let Some(under_way) = self.requests.get(&event.request).filter(|_| with_error) {
            self.data.clear();
            under_way.ask.api.write_error_events("this error was asked for", &mut self.data);
            push_events(&self.data, &mut wire);
        }
        wire.extend_from_slice(LAST_CHUNK);
        self.engine.cancel(self.handled_ns, event.request);
        self.send(token, &wire, None, poller);
        self.complete_response(token);
    }

    fn send_end(&mut self, event: Event, poller: &Poller) {
        let Some(under_way) = self.requests.get_mut(&event.request) else { return };
        let token = under_way.connection;
        under_way.truth.finish_reason = Some(under_way.length.finish_reason.to_owned());
        if !under_way.ask.stream {
            return self.send_whole(token, event, poller);
        }
        let mut wire = Vec::new();
        if !matches!(under_way.fault, Some(Fault::NoDone(None))) {
            self.data.clear();
            under_way.response.write_last_events(&under_way.key, under_way.ask.include_usage, &mut self.data);
            push_events(&self.data, &mut wire);
        }
        wire.extend_from_slice(LAST_CHUNK);
        under_way.truth.end_ns = now_ns();
        self.send(token, &wire, None, poller);
        self.complete_response(token);
    }

    /// Sends the response of a request that is not streamed.
    fn send_whole(&mut self, token: u64, event: Event, poller: &Poller) {
        let keep_alive = self.connection(token).is_some_and(|connection| connection.keep_alive);
        let Some(under_way) = self.requests.get_mut(&event.request) else { return };
        if let Some(Fault::StreamError(_)) = under_way.fault {
            return self.fail_with(token, event.request, 500, poller);
        }
        let body = under_way.whole();
        under_way.truth.status = Some(200);
        let tokens = under_way.length.tokens;
        under_way.truth.chunks.push(ChunkTruth { planned_ns: event.at_ns, actual_ns: None, tokens, channel: Channel::Content });
        let mut wire = Vec::with_capacity(body.len() + 512);
        under_way.head(JSON, keep_alive).push(Some(body.len()), &mut wire);
        let is_cut = matches!(under_way.fault, Some(Fault::Close(_)));
        wire.extend_from_slice(if is_cut { &body[..body.len() / 2] } else { &body });
        self.send(token, &wire, Some(0), poller);
        if is_cut {
            self.close(token, Ending::Fault);
        } else {
            self.complete_response(token);
        }
    }

    /// Records the end of a request and its outcome.
    fn end_request(&mut self, request: u64, ending: Ending, now: i64) {
        let Some(mut under_way) = self.requests.remove(&request) else { return };
        if under_way.truth.finish_reason.is_none() {
            self.engine.cancel(now.max(self.handled_ns), request);
            if under_way.course.has_begun() || under_way.fault.is_none() {
                self.metrics.finish(FinishedReason::Abort);
            }
            under_way.truth.end_ns = now;
        }
        if let ([whole], false) = (under_way.truth.chunks.as_slice(), under_way.truth.stream) {
            under_way.truth.end_ns = whole.actual_ns.unwrap_or(now);
        }
        under_way.truth.ending = match ending {
            Ending::Aborted if under_way.fault == Some(Fault::Hang) => Ending::Fault,
            ending => ending,
        };
        let row = self.truth.push(under_way.truth);
        if let Some(log) = &mut self.log {
            log.push(row);
        }
    }
}

impl InFlightRequest {
    fn head(&self, content_type: &'static str, keep_alive: bool) -> ResponseHead<'_> {
        let content_type = if self.fault == Some(Fault::ContentType) { "text/html" } else { content_type };
        ResponseHead { status: 200, content_type, request_id: Some(&self.truth.request_id), allow: None, keep_alive }
    }

    /// Builds the complete response, with its fault.
    fn whole(&self) -> Vec<u8> {
        let fault = match self.fault {
            Some(Fault::BadJson(_)) => return b"{\"choices\": [{\"message\": ".to_vec(),
            Some(Fault::BadUtf8(_)) => ContentFault { garble: b"\xff", padding: 0 },
            Some(Fault::GiantLine(bytes)) => ContentFault { garble: b"", padding: bytes },
            _ => ContentFault::default(),
        };
        self.response.whole(&self.key, fault)
    }

    /// Returns the ending of a request whose complete response was sent: a fault that ends a response leaves no finish reason.
    fn ending(&self) -> Ending {
        if self.truth.finish_reason.is_some() { Ending::Finished } else { Ending::Fault }
    }
}

fn not_allowed(allow: &'static str) -> PlainResponse<'static> {
    PlainResponse { allow: Some(allow), ..PlainResponse::error(405, &format!("only {allow} is served at this path")) }
}

fn not_ready() -> PlainResponse<'static> {
    PlainResponse::error(503, "the endpoint is not ready yet")
}

/// Builds an event without choices of this many bytes, or of the few more that an event needs.
fn giant_line(bytes: usize, data: &mut Vec<u8>) {
    /// The bytes before the data of an event.
    const FIELD: usize = b"data: ".len();
    let (before, after) = (&b"data: {\"choices\":[],\"padding\":\""[..], &b"\"}"[..]);
    data.extend_from_slice(before);
    data.resize(before.len().max((FIELD + bytes).saturating_sub(after.len())), b'a');
    data.extend_from_slice(after);
    data.extend_from_slice(b"\n\n");
}
