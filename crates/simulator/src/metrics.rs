//! The endpoint's metrics, under the names of vLLM's metrics, as Prometheus text: of the server in real time, and of a simulation.

use std::fmt::{self, Write as _};

use crate::model::Occupancy;

const TTFT_S: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
    2_560.0,
];
const ITL_S: &[f64] =
    &[0.001, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST_S: &[f64] = &[
    0.01, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1_920.0, 7_680.0,
];
const TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0];
const LATENESS_S: &[f64] = &[0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.1, 1.0];

/// The finish reason of requests whose response had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishedReason {
    Stop,
    Length,
    Abort,
}

impl FinishedReason {
    const ALL: [Self; 3] = [Self::Stop, Self::Length, Self::Abort];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
        }
    }
}

/// All counters since the start.
pub(crate) struct Metrics {
    prompt_tokens: u64,
    generation_tokens: u64,
    prefix_queries: u64,
    prefix_hits: u64,
    prefix_evicted: u64,
    finished: [u64; 3],
    pub(crate) images: u64,
    pub(crate) faults: u64,
    pub(crate) refused_requests: u64,
    pub(crate) refused_connections: u64,
    ttft: Histogram,
    itl: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    request_prompt: Histogram,
    request_generation: Histogram,
    pub(crate) lateness: Histogram,
}

/// The gauges, which are read when the metrics are requested.
pub(crate) struct Gauges {
    pub(crate) occupancy: Occupancy,
    /// The tokens of a block of the prefix cache, and its blocks; absent if it has none.
    pub(crate) cache: Option<(u32, u32)>,
    /// The start of the process, in seconds since the Unix epoch.
    pub(crate) process_start_s: u64,
    pub(crate) connections: usize,
    pub(crate) truth_dropped: u64,
    pub(crate) truth_file_dropped: u64,
}

/// The part of a request's course that its metrics are counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCourse {
    arrived_ns: i64,
    prompt_tokens: u32,
    admitted_ns: Option<i64>,
    first_ns: Option<i64>,
    last_ns: i64,
}

impl RequestCourse {
    /// Returns the course of a request that arrives now.
    pub(crate) fn new(arrived_ns: i64, prompt_tokens: u32) -> Self {
        Self { arrived_ns, prompt_tokens, admitted_ns: None, first_ns: None, last_ns: arrived_ns }
    }

    /// Returns true if the response has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.first_ns.is_some()
    }
}

/// The events of requests.
impl Metrics {
    /// Counts a request that leaves the queue, with the tokens of its prompt that were in the prefix cache, and those that had been.
    pub(crate) fn count_admission(&mut self, course: &mut RequestCourse, at_ns: i64, cached_tokens: u32, evicted_tokens: u32) {
        course.admitted_ns = Some(at_ns);
        self.prefix_queries += u64::from(course.prompt_tokens);
        self.prefix_hits += u64::from(cached_tokens);
        self.prefix_evicted += u64::from(evicted_tokens);
        self.queue.observe_ns(at_ns - course.arrived_ns);
    }

    /// Counts tokens that are sent together.
    pub(crate) fn count_tokens(&mut self, course: &mut RequestCourse, at_ns: i64, tokens: u32) {
        self.generation_tokens += u64::from(tokens);
        if course.has_begun() {
            self.itl.observe_ns(at_ns - course.last_ns);
        } else {
            self.count_first(course, at_ns);
            self.ttft.observe_ns(at_ns - course.arrived_ns);
        }
        course.last_ns = at_ns;
    }

    /// Counts a complete response of this many tokens.
    pub(crate) fn count_finish(&mut self, course: &mut RequestCourse, at_ns: i64, reason: FinishedReason, tokens: u32) {
        if !course.has_begun() {
            self.count_first(course, at_ns);
        }
        self.finish(reason);
        self.e2e.observe_ns(at_ns - course.arrived_ns);
        self.decode.observe_ns(at_ns - course.first_ns.unwrap_or(at_ns));
        self.request_prompt.observe(f64::from(course.prompt_tokens));
        self.request_generation.observe(f64::from(tokens));
    }

    fn count_first(&mut self, course: &mut RequestCourse, at_ns: i64) {
        course.first_ns = Some(at_ns);
        self.prompt_tokens += u64::from(course.prompt_tokens);
        self.prefill.observe_ns(at_ns - course.admitted_ns.unwrap_or(at_ns));
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            prompt_tokens: 0,
            generation_tokens: 0,
            prefix_queries: 0,
            prefix_hits: 0,
            prefix_evicted: 0,
            finished: [0; 3],
            images: 0,
            faults: 0,
            refused_requests: 0,
            refused_connections: 0,
            ttft: Histogram::new(TTFT_S),
            itl: Histogram::new(ITL_S),
            e2e: Histogram::new(REQUEST_S),
            queue: Histogram::new(REQUEST_S),
            prefill: Histogram::new(REQUEST_S),
            decode: Histogram::new(REQUEST_S),
            request_prompt: Histogram::new(TOKENS),
            request_generation: Histogram::new(TOKENS),
            lateness: Histogram::new(LATENESS_S),
        }
    }

    pub(crate) fn finish(&mut self, reason: FinishedReason) {
        self.finished[reason as usize] += 1;
    }

    /// Renders all metrics in the text format of Prometheus.
    pub(crate) fn render(&self, model: &str, standing: &Gauges) -> String {
        let labels = format!("engine=\"0\",model_name=\"{}\"", label_value(model));
        let mut page = Page { text: String::with_capacity(16 << 10), labels };
        // Writing to a string cannot fail.
        let _ = self.write(&mut page, standing);
        page.text
    }

    fn write(&self, page: &mut Page, standing: &Gauges) -> fmt::Result {
        let occupancy = standing.occupancy;
        // Without labels, as Prometheus client libraries write it.
        page.head("process_start_time_seconds", "Start of the process since the Unix epoch in seconds", "gauge")?;
        writeln!(page.text, "process_start_time_seconds {}", standing.process_start_s)?;
        page.gauge("vllm:num_requests_running", "Requests that run", f64::from(occupancy.running))?;
        page.gauge("vllm:num_requests_waiting", "Requests that wait for their turn", f64::from(occupancy.waiting))?;
        page.gauge("vllm:kv_cache_usage_perc", "Share of the cache that running requests hold, 1 is all", occupancy.kv_usage)?;
        page.counter("vllm:prompt_tokens_total", "Tokens of prompts that were worked through", self.prompt_tokens)?;
        page.counter("vllm:generation_tokens_total", "Tokens that were sent", self.generation_tokens)?;
        page.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache", self.prefix_queries)?;
        page.counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache", self.prefix_hits)?;
        if let Some((block_tokens, blocks)) = standing.cache {
            page.head("vllm:cache_config_info", "The prefix cache", "gauge")?;
            let labels = &page.labels;
            writeln!(
                page.text,
                "vllm:cache_config_info{{{labels},block_size=\"{block_tokens}\",num_gpu_blocks=\"{blocks}\"}} 1.0"
            )?;
        }
        page.counter("vllm:num_preemptions_total", "Preemptions of running requests", occupancy.preemptions)?;
        page.head("vllm:request_success_total", "Requests that came to their end", "counter")?;
        for reason in FinishedReason::ALL {
            let (labels, count) = (&page.labels, self.finished[reason as usize]);
            writeln!(page.text, "vllm:request_success_total{{{labels},finished_reason=\"{}\"}} {count}", reason.as_str())?;
        }
        page.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token", &self.ttft)?;
        page.histogram("vllm:inter_token_latency_seconds", "Between consecutive chunks of a response", &self.itl)?;
        page.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token", &self.e2e)?;
        page.histogram("vllm:request_queue_time_seconds", "From arrival to the request's turn", &self.queue)?;
        page.histogram("vllm:request_prefill_time_seconds", "From the request's turn to its first token", &self.prefill)?;
        page.histogram("vllm:request_decode_time_seconds", "From the first token to the last", &self.decode)?;
        page.histogram("vllm:request_prompt_tokens", "Tokens of a request's prompt", &self.request_prompt)?;
        page.histogram("vllm:request_generation_tokens", "Tokens of a request's response", &self.request_generation)?;
        page.histogram("assay_simulator_chunk_lateness_seconds", "From planned to sent, of each chunk", &self.lateness)?;
        page.gauge("assay_simulator_prefix_cache_blocks", "Blocks in the prefix cache", occupancy.cached_blocks as f64)?;
        page.counter(
            "assay_simulator_prefix_cache_evictions_total",
            "Blocks evicted from the prefix cache",
            occupancy.evictions,
        )?;
        page.counter(
            "assay_simulator_prefix_cache_evicted_tokens_total",
            "Prompt tokens that were not found because they had been evicted",
            self.prefix_evicted,
        )?;
        page.counter(
            "assay_simulator_prefix_cache_forgotten_evictions_total",
            "Evicted blocks that there was no room to remember",
            occupancy.forgotten_evictions,
        )?;
        page.gauge("assay_simulator_connections", "Open connections", standing.connections as f64)?;
        page.counter("assay_simulator_images_total", "Images of requests, none of which is a token", self.images)?;
        page.counter("assay_simulator_faults_total", "Requests that met a fault", self.faults)?;
        page.counter("assay_simulator_refused_requests_total", "Requests refused with an error", self.refused_requests)?;
        page.counter("assay_simulator_refused_connections_total", "Connections beyond the limit", self.refused_connections)?;
        page.counter("assay_simulator_truth_dropped_total", "Truths let go for want of room", standing.truth_dropped)?;
        page.counter("assay_simulator_truth_file_dropped_total", "Truths that the file lacks", standing.truth_file_dropped)
    }
}

/// Counts of observations by upper bound.
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds: the last counts observations beyond all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Observes a time span, given in nanoseconds; counted in seconds.
    pub(crate) fn observe_ns(&mut self, ns: i64) {
        self.observe(ns as f64 / 1e9);
    }
}

struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) -> fmt::Result {
        writeln!(self.text, "# HELP {name} {help}.\n# TYPE {name} {kind}")
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.head(name, help, "counter")?;
        writeln!(self.text, "{name}{{{}}} {value}", self.labels)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.head(name, help, "gauge")?;
        writeln!(self.text, "{name}{{{}}} {value:?}", self.labels)
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        self.head(name, help, "histogram")?;
        let mut count = 0;
        for (place, in_bucket) in histogram.counts.iter().enumerate() {
            count += in_bucket;
            let bound = histogram.bounds.get(place).map_or_else(|| "+Inf".to_owned(), |bound| format!("{bound:?}"));
            writeln!(self.text, "{name}_bucket{{{},le=\"{bound}\"}} {count}", self.labels)?;
        }
        writeln!(self.text, "{name}_count{{{}}} {count}", self.labels)?;
        writeln!(self.text, "{name}_sum{{{}}} {:?}", self.labels, histogram.sum)
    }
}

fn label_value(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_upwards_and_its_bounds_belong_to_their_buckets() {
        let mut histogram = Histogram::new(&[1.0, 2.5]);
        for value in [0.5, 1.0, 2.0, 9.0] {
            histogram.observe(value);
        }
        let mut page = Page { text: String::new(), labels: "a=\"b\"".to_owned() };
        page.histogram("x", "What", &histogram).expect("written");
        let expected = "# HELP x What.\n# TYPE x histogram\n\
            x_bucket{a=\"b\",le=\"1.0\"} 2\nx_bucket{a=\"b\",le=\"2.5\"} 3\nx_bucket{a=\"b\",le=\"+Inf\"} 4\n\
            x_count{a=\"b\"} 4\nx_sum{a=\"b\"} 12.5\n";
        assert_eq!(page.text, expected);
    }

    #[test]
    fn a_model_name_is_escaped() {
        assert_eq!(label_value("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
