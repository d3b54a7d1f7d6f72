//! The table of metrics.
//!
//! A row states the key, the name in the unit of the Summary, the column in the unit of the wide table, and all else that readers
//! of a metric need. A statistic may be `primary` (gates judge it by default) and `shown` with a rank (reports have a column
//! of it, `fallback_for` another metric only if that one has none). It has a `column_doc` if its column has another meaning than the metric. A row with an `slo` may be limited by an SLO, in the
//! field of workloads that is its key; `slo` is the meaning of that field. The order of the rows is that of reports.

use crate::name::{MetricName, SpreadColumns};
use crate::request;
use crate::statistic::{phrase, suffix};
use crate::trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Definition, Direction, Field, Formula, Requirement, Section, Statistic, Unit, Use};

use Direction::{Higher, Lower};
use Formula::{Gaps, Quotient, Span, TokenEvents, Trial};

/// Makes the columns of the variation of a statistic across trials.
macro_rules! spread_columns {
    ($column:literal, $statistic:ident) => {
        SpreadColumns {
            cv_pct: [
                concat!($column, suffix!($statistic), "_cv_pct"),
                concat!("Coefficient of variation of `", $column, suffix!($statistic), "` across trials, ddof 1."),
            ],
            ci_low: [
                concat!($column, suffix!($statistic), "_ci_low"),
                concat!("Lower end of the interval of `", $column, suffix!($statistic), "`."),
            ],
            ci_high: [
                concat!($column, suffix!($statistic), "_ci_high"),
                concat!("Upper end of the interval of `", $column, suffix!($statistic), "`."),
            ],
        }
    };
}

/// Defines [`Metric`] from rows.
macro_rules! metrics {
    ($($variant:ident {
        key: $key:literal, name: $name:literal, column: $column:literal, title: $title:literal $(($long_title:literal))?, unit: $unit:ident,
        better: $better:expr, section: $section:ident, requires: [$($requirement:ident),*], uses: [$($use:ident),*],
        $(slo: $slo_doc:literal,)?
        statistics: [$($statistic:ident $($mark:ident $($rank:literal)?)*),+],
        meaning: $meaning:literal,
        formula: $formula_text:literal => $formula:expr,
        source: $source:literal,
    })+) => {
        /// A metric of serving: what is observed of requests. The order is that of reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] $variant,)+
        }

        impl Metric {
            /// All metrics, in the order in which they are reported.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the row of the metric.
            pub const fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$variant => const { &Definition {
                        key: $key,
                        title: $title,
                        long_title: concat!($($long_title)?),
                        unit: Unit::$unit,
                        better: $better,
                        section: Section::$section,
                        requires: &[$(Requirement::$requirement),*],
                        uses: &[$(Use::$use),*],
                        slo: slo_metric!($variant $($slo_doc)?),
                        names: &[$(
                            MetricName::new(
                                Metric::$variant,
                                Statistic::$statistic,
                                concat!($name, suffix!($statistic)),
                                concat!($column, suffix!($statistic)),
                                concat!(phrase!($statistic), $meaning, "."),
                                spread_columns!($column, $statistic),
                            )$(.$mark($($rank)?))*
                        ),+],
                        meaning: $meaning,
                        formula_text: $formula_text,
                        source: $source,
                        formula: $formula,
                    } },)+
                }
            }
        }

        /// The latency that a service level objective limits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum SloMetric {
            $($(#[doc = concat!($slo_doc, ".")] #[serde(rename = $key)] $variant,)?)+
        }

        impl SloMetric {
            /// All metrics that an SLO may limit, in the order of the table.
            pub const ALL: &[Self] = &[$($(slo_variant!($variant $slo_doc),)?)+];

            /// Returns the metric that is limited.
            pub const fn metric(self) -> Metric {
                match self {
                    $($(slo_variant!($variant $slo_doc) => Metric::$variant,)?)+
                }
            }

            /// Returns the meaning of the field of workloads, a sentence.
            pub const fn doc(self) -> &'static str {
                match self {
                    $($(Self::$variant => concat!($slo_doc, "."),)?)+
                }
            }

            /// Returns the column of the limit in the wide table, in the unit of the metric's column.
            pub const fn column(self) -> &'static str {
                match self {
                    $($(slo_variant!($variant $slo_doc) => concat!("slo_", $column),)?)+
                }
            }

            /// Returns the meaning of the column, a sentence.
            pub const fn column_doc(self) -> &'static str {
                match self {
                    $($(slo_variant!($variant $slo_doc) => concat!("The SLO on ", $title, "."),)?)+
                }
            }
        }
    };
}

/// The variant of [`SloMetric`] of a row that has an `slo`.
macro_rules! slo_variant {
    ($variant:ident $doc:literal) => {
        SloMetric::$variant
    };
}

/// The metric as one of an SLO; `None` for a row without `slo`.
macro_rules! slo_metric {
    ($variant:ident) => {
        None
    };
    ($variant:ident $doc:literal) => {
        Some(SloMetric::$variant)
    };
}

metrics! {
    Ttft {
        key: "ttft", name: "ttft_ms", column: "ttft_ns", title: "TTFT" ("Time to first token"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [Curve, Prediction],
        slo: "Time to the first token event",
        statistics: [Mean, P50 primary spread shown 3, P90, P95, P99 primary spread shown 9, P50WithFailures, P95WithFailures, P99WithFailures],
        meaning: "the time from the start of a request (its intended send time, if it has one, else its send time) to the first token event",
        formula: "first token event - start" => Span { from: Field::Start, to: Field::FirstToken },
        source: "AIPerf `time_to_first_token`, counted from the intended time as in MLPerf LoadGen",
    }
    TtftSent {
        key: "ttft_sent", name: "ttft_sent_ms", column: "ttft_sent_ns", title: "TTFT from send time", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming, IntendedTimes], uses: [],
        statistics: [P50, P99],
        meaning: "the time from the actual send time to the first token event, of requests that have an intended one",
        formula: "first token event - send time" => Span { from: Field::Sent, to: Field::FirstToken },
        source: "AIPerf `time_to_first_token`",
    }
    Ttst {
        key: "ttst", name: "ttst_ms", column: "ttst_ns", title: "TTST" ("Time to second token"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [Prediction],
        statistics: [Mean, P50 shown 0, P99],
        meaning: "the time from the first to the second token event of a request",
        formula: "second token event - first token event" => TokenEvents,
        source: "AIPerf `time_to_second_token`",
    }
    Ttfo {
        key: "ttfo", name: "ttfo_ms", column: "ttfo_ns", title: "TTFO" ("Time to first content"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [],
        slo: "Time to the first content event",
        statistics: [P50, P99],
        meaning: "the time from the start of a request (its intended send time, if it has one, else its send time) to the first content event",
        formula: "first content event (content, not reasoning or tool text) - start"
            => Span { from: Field::Start, to: Field::FirstContent },
        source: "AIPerf `time_to_first_output_token`",
    }
    Tpot {
        key: "tpot", name: "tpot_ms", column: "tpot_ns", title: "TPOT" ("Time per output token"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming, OutputTokens], uses: [Curve, Prediction],
        slo: "Time per output token",
        statistics: [Mean, P50 primary spread shown 7, P90, P95, P99 shown 0],
        meaning: "the time per output token of a request, after its first token event",
        formula: "(last token event - first token event) / (output tokens - tokens of the first event); 1 is subtracted if the endpoint does not report the tokens of the first event"
            => Quotient(&request::TPOT),
        source: "vLLM and MLPerf TPOT; AIPerf calls it `inter_token_latency`",
    }
    Itl {
        key: "itl", name: "itl_ms", column: "itl_ns", title: "ITL" ("Inter-token latency"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming, OutputTokens], uses: [Prediction],
        statistics: [Mean, P50, P99 shown 2],
        meaning: "the inter-token latency: the time between consecutive token events, divided by the tokens of the later event",
        formula: "(t[i] - t[i-1]) / k[i], as k[i] samples, where token event i has k[i] tokens and the time t[i]" => Gaps,
        source: "Assay",
    }
    Icl {
        key: "icl", name: "icl_ms", column: "icl_ns", title: "ICL" ("Inter-chunk latency"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [Curve, Prediction],
        statistics: [Mean, P50, P99 shown 2 fallback_for "itl"],
        meaning: "the inter-chunk latency: the time between consecutive token events",
        formula: "t[i] - t[i-1], where t[i] is the time of token event i" => Gaps,
        source: "AIPerf `inter_chunk_latency`; vLLM and SGLang call it ITL",
    }
    E2e {
        key: "e2e", name: "e2e_ms", column: "e2e_ns", title: "E2E" ("End-to-end latency"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [], uses: [Curve, Prediction],
        slo: "Time to the last token event",
        statistics: [Mean, P50 shown 3 fallback_for "ttft", P90, P95, P99 primary spread shown 4, P50WithFailures, P95WithFailures, P99WithFailures],
        meaning: "the time from the start of a request (its intended send time, if it has one, else its send time) to the last token event",
        formula: "last token event - start" => Span { from: Field::Start, to: Field::LastToken },
        source: "AIPerf `request_latency`, counted from the intended time as in MLPerf LoadGen",
    }
    E2eSent {
        key: "e2e_sent", name: "e2e_sent_ms", column: "e2e_sent_ns", title: "E2E from send time", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [IntendedTimes], uses: [],
        statistics: [P50, P99],
        meaning: "the time from the actual send time to the last token event, of requests that have an intended one",
        formula: "last token event - send time" => Span { from: Field::Sent, to: Field::LastToken },
        source: "AIPerf `request_latency`",
    }
    E2ePerToken {
        key: "e2e_per_output_token", name: "e2e_per_output_token_ms", column: "e2e_per_output_token_ns", title: "E2E per output token", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [OutputTokens], uses: [],
        statistics: [P50, P90, P99],
        meaning: "the time per output token of a whole request, the wait for the first one included",
        formula: "(last token event - start) / output tokens" => Quotient(&request::E2E_PER_TOKEN),
        source: "vLLM's normalized latency; InferenceX's E2E normalised interactivity is 1 / its 90th percentile",
    }
    Connect {
        key: "connect", name: "connect_ms", column: "connect_ns", title: "connect" ("Time to connect"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [NewConnections], uses: [],
        statistics: [P50, P99],
        meaning: "the time to establish the connection of a request, TLS handshake included, if each request opens one; a part of its latencies",
        formula: "connection established - connection requested, for every request that connected" => Span { from: Field::ConnectStart, to: Field::ConnectEnd },
        source: "AIPerf `http_req_connection_overhead`, without the name resolution, which is done once",
    }
    TtftInput1k {
        key: "ttft_input_1k", name: "ttft_input_1k_ms", column: "ttft_input_1k_ns", title: "TTFT, input to 1k", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [],
        statistics: [P50, P99],
        meaning: "the TTFT of inputs of up to 1,024 tokens by the workload's tokenizer, history included",
        formula: "first token event - start, for each request with at most 1,024 input tokens" => Quotient(&request::TTFT_INPUT_1K),
        source: "TTFT by context bucket; the edges are Assay's",
    }
    TtftInput4k {
        key: "ttft_input_4k", name: "ttft_input_4k_ms", column: "ttft_input_4k_ns", title: "TTFT, input 1k to 4k", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [],
        statistics: [P50, P99],
        meaning: "the TTFT of inputs of 1,025 to 4,096 tokens by the workload's tokenizer, history included",
        formula: "first token event - start, for each request with 1,025 to 4,096 input tokens" => Quotient(&request::TTFT_INPUT_4K),
        source: "TTFT by context bucket; the edges are Assay's",
    }
    TtftInput16k {
        key: "ttft_input_16k", name: "ttft_input_16k_ms", column: "ttft_input_16k_ns", title: "TTFT, input 4k to 16k", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [],
        statistics: [P50, P99],
        meaning: "the TTFT of inputs of 4,097 to 16,384 tokens by the workload's tokenizer, history included",
        formula: "first token event - start, for each request with 4,097 to 16,384 input tokens" => Quotient(&request::TTFT_INPUT_16K),
        source: "TTFT by context bucket; the edges are Assay's",
    }
    TtftInput64k {
        key: "ttft_input_64k", name: "ttft_input_64k_ms", column: "ttft_input_64k_ns", title: "TTFT, input 16k to 64k", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [],
        statistics: [P50, P99],
        meaning: "the TTFT of inputs of 16,385 to 65,536 tokens by the workload's tokenizer, history included",
        formula: "first token event - start, for each request with 16,385 to 65,536 input tokens" => Quotient(&request::TTFT_INPUT_64K),
        source: "TTFT by context bucket; the edges are Assay's",
    }
    TtftInputLonger {
        key: "ttft_input_longer", name: "ttft_input_longer_ms", column: "ttft_input_longer_ns", title: "TTFT, input above 64k", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming], uses: [],
        statistics: [P50, P99],
        meaning: "the TTFT of inputs of more than 65,536 tokens by the workload's tokenizer, history included",
        formula: "first token event - start, for each request with more than 65,536 input tokens" => Quotient(&request::TTFT_INPUT_LONGER),
        source: "TTFT by context bucket; the edges are Assay's",
    }
    TtftFirstTurn {
        key: "ttft_first_turn", name: "ttft_first_turn_ms", column: "ttft_first_turn_ns", title: "TTFT of first turns", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming, Sessions], uses: [Prediction],
        statistics: [P50, P99],
        meaning: "the TTFT of the first turns of sessions, which have no history",
        formula: "first token event - start, for each first turn" => Quotient(&request::FIRST_TURN_TTFT),
        source: "TTFT by turn index, as AIPerf can cut its records",
    }
    TtftLaterTurns {
        key: "ttft_later_turns", name: "ttft_later_turns_ms", column: "ttft_later_turns_ns", title: "TTFT of later turns", unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Streaming, Sessions], uses: [Prediction],
        statistics: [P50, P99],
        meaning: "the TTFT of the turns after the first, which repeat what was said before",
        formula: "first token event - start, for each turn but the first; its start is the end of the response before, plus the pause"
            => Quotient(&request::LATER_TURNS_TTFT),
        source: "TTFT by turn index, as AIPerf can cut its records",
    }
    SessionLatency {
        key: "session", name: "session_ms", column: "session_ns", title: "session" ("Session latency, pauses included"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Sessions], uses: [],
        statistics: [P50, P99],
        meaning: "the time from the start of the first turn of a session to the last token event of the turn that ended last, pauses included",
        formula: "last token event of the turn that ended last - start of the first turn, for each session of which all turns succeeded"
            => Quotient(&request::SESSION_LATENCY),
        source: "inference-perf session duration",
    }
    SessionActive {
        key: "session_active", name: "session_active_ms", column: "session_active_ns", title: "active" ("Session latency without its pauses"), unit: Milliseconds,
        better: Some(Lower), section: Latency, requires: [Sessions], uses: [],
        statistics: [P50 shown 5, P99],
        meaning: "the latency of a session without its pauses: the time in which one of its turns at least was due or in flight",
        formula: "session latency - sum of the pauses of the session" => Quotient(&request::SESSION_ACTIVE),
        source: "Assay",
    }
    BackPressure {
        key: "back_pressure", name: "back_pressure_ms", column: "back_pressure_ns", title: "back-pressure", unit: Milliseconds,
        better: Some(Lower), section: Regularity, requires: [PlannedTurns], uses: [Prediction],
        statistics: [P50, P99],
        meaning: "the delay of turns behind their planned times, by the responses before them: what the endpoint causes, while send lateness is what the client causes; for users 0 if the response before was there in time, and for a trace's sessions below 0 if responses were faster than the recorded ones",
        formula: "intended send time - planned time, for each turn but the first of a trace's session; the planned time is that of the user's grid, or the start of the session plus the turn's time since then in the trace"
            => Quotient(&request::BACK_PRESSURE),
        source: "Assay",
    }
    SessionStretch {
        key: "session_stretch", name: "session_stretch", column: "session_stretch", title: "stretch" ("Active time of a session over the recorded one"), unit: Ratio,
        better: Some(Lower), section: Regularity, requires: [TraceSessions, RecordedEnds], uses: [],
        statistics: [P50, P99],
        meaning: "the time that the responses of a session took, over the time that they took in the trace, without the last response: 1 is as fast as the recorded endpoint",
        formula: "(intended send time of the last turn - start of the session - pauses) / (planned time of the last turn - start of the session - pauses), for each session whose last turn succeeded"
            => Quotient(&request::SESSION_STRETCH),
        source: "Assay",
    }
    SendLateness {
        key: "send_lateness", name: "send_lateness_ms", column: "send_lateness_ns", title: "send lateness", unit: Milliseconds,
        better: Some(Lower), section: Regularity, requires: [IntendedTimes], uses: [],
        statistics: [P50, P99],
        meaning: "the delay from the intended to the actual send time, queue wait and the time to connect included",
        formula: "send time - intended send time, for every request that was sent" => Span { from: Field::Intended, to: Field::Sent },
        source: "inference-perf `schedule_delay`",
    }
    QueueWait {
        key: "queue_wait", name: "queue_wait_ms", column: "queue_wait_ns", title: "queue wait", unit: Milliseconds,
        better: Some(Lower), section: Regularity, requires: [ConcurrencyCap], uses: [],
        statistics: [P50, P99],
        meaning: "the time for which a due request waited because as many were in flight as `max_concurrency` allows; 0 for one that did not wait, and a part of every latency",
        formula: "time at which a place became free - intended send time, for every request that was sent" => Span { from: Field::Intended, to: Field::Ready },
        source: "Assay; AIPerf and vLLM wait as well, and do not report it",
    }
    QueuedShare {
        key: "queued", name: "queued_share", column: "queued_share", title: "queued", unit: Ratio,
        better: Some(Lower), section: Regularity, requires: [ConcurrencyCap], uses: [],
        statistics: [Value],
        meaning: "The share of requests that waited because as many were in flight as `max_concurrency` allows, of those that were sent, 0 to 1",
        formula: "requests whose queue wait is above 0 / requests that were sent" => Trial(trial::queued_share),
        source: "Assay",
    }
    CancelledShare {
        key: "cancelled", name: "cancelled_share", column: "cancelled_share", title: "cancelled", unit: Ratio,
        better: None, section: Regularity, requires: [Cancellation], uses: [],
        statistics: [Value],
        meaning: "The share of requests that the client cancelled as `cancel` plans it, of those that were sent, 0 to 1; a request whose response was complete before is not cancelled",
        formula: "requests with the outcome `cancelled` / requests that were sent" => Trial(trial::cancelled_share),
        source: "AIPerf `--request-cancellation-rate`, which is the planned share",
    }
    Jitter {
        key: "jitter", name: "jitter_ms", column: "jitter_ns", title: "jitter", unit: Milliseconds,
        better: Some(Lower), section: Regularity, requires: [Streaming], uses: [],
        statistics: [Value],
        meaning: "Mean absolute difference of consecutive inter-chunk latencies, averaged over requests",
        formula: "mean over requests of the mean of |ICL[i] - ICL[i-1]|" => TokenEvents,
        source: "the idea of RFC 3550, unsmoothed",
    }
    UserThroughput {
        key: "output_tokens_per_user", name: "output_tokens_per_user_per_s", column: "output_tokens_per_user_per_s", title: "tokens/s/user" ("Output tokens/s of one request"), unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [Streaming, OutputTokens], uses: [Prediction],
        statistics: [Mean, P10, P50 shown 0],
        meaning: "the output tokens per second that one request receives, after its first token event",
        formula: "1 / TPOT, for each request whose TPOT is above 0" => Quotient(&request::USER_THROUGHPUT),
        source: "AIPerf `output_token_throughput_per_user`, which is 1 / `inter_token_latency`; genai-bench `output_inference_speed`",
    }
    PrefillRate {
        key: "prefill_tokens", name: "prefill_tokens_per_s", column: "prefill_tokens_per_s", title: "prefill tokens/s", unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [Streaming], uses: [],
        statistics: [P50],
        meaning: "the tokens of a prompt that were not in the prefix cache, per second from its send time to the first token event: a lower bound of the endpoint's prefill rate, because it includes the wait",
        formula: "(input tokens by the endpoint - cached tokens) / (first token event - send time), for each request whose endpoint reports both and that has uncached tokens"
            => Quotient(&request::PREFILL_RATE),
        source: "Assay",
    }
    RequestThroughput {
        key: "request_throughput", name: "request_throughput_per_s", column: "request_throughput_per_s", title: "requests/s", unit: RequestsPerSecond,
        better: Some(Higher), section: Throughput, requires: [], uses: [Prediction],
        statistics: [Value primary spread shown 6],
        meaning: "Successful requests per second of the window",
        formula: "successful requests / window" => Trial(trial::request_throughput),
        source: "AIPerf `request_throughput`, over the window",
    }
    RequestThroughputSteady {
        key: "request_throughput_steady", name: "request_throughput_steady_per_s", column: "request_throughput_steady_per_s", title: "steady requests/s", unit: RequestsPerSecond,
        better: Some(Higher), section: Throughput, requires: [ClosedLoop], uses: [],
        statistics: [Value],
        meaning: "Requests per second in the steady state of a closed loop",
        formula: "sum of the shares of requests in the steady state / length of the steady state" => Trial(trial::request_throughput_steady),
        source: "AIPerf's time-weighted series",
    }
    OutputThroughput {
        key: "output_tokens", name: "output_tokens_per_s", column: "output_tokens_per_s", title: "tokens/s" ("Output tokens/s"), unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [OutputTokens], uses: [Prediction],
        statistics: [Value primary spread shown 8],
        meaning: "Output tokens of successful requests per second of the window",
        formula: "output tokens of successful requests / window" => Trial(trial::output_throughput),
        source: "AIPerf `output_token_throughput`, over the window",
    }
    OutputThroughputPerGpu {
        key: "output_tokens_per_gpu", name: "output_tokens_per_gpu_per_s", column: "output_tokens_per_gpu_per_s", title: "tokens/s/GPU" ("Output tokens/s per GPU"), unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [OutputTokens, Gpus], uses: [],
        statistics: [Value shown 0],
        meaning: "Output tokens of successful requests per second of the window, for each GPU of the target, whatever its role",
        formula: "output tokens of successful requests / window / GPUs" => Trial(trial::output_throughput_per_gpu),
        source: "InferenceX output throughput per GPU",
    }
    TotalThroughputPerGpu {
        key: "total_tokens_per_gpu", name: "total_tokens_per_gpu_per_s", column: "total_tokens_per_gpu_per_s", title: "total tokens/s/GPU" ("Total tokens/s per GPU"), unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [OutputTokens, Gpus], uses: [],
        statistics: [Value],
        meaning: "Input and output tokens of successful requests per second of the window, for each GPU of the target, whatever its role",
        formula: "(input + output tokens) / window / GPUs" => Trial(trial::total_throughput_per_gpu),
        source: "InferenceX token throughput per GPU",
    }
    InputThroughputPerPrefillGpu {
        key: "input_tokens_per_prefill_gpu", name: "input_tokens_per_prefill_gpu_per_s", column: "input_tokens_per_prefill_gpu_per_s", title: "input tokens/s/prefill GPU" ("Input tokens/s per prefill GPU"), unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [GpuRoles], uses: [],
        statistics: [Value],
        meaning: "Input tokens of successful requests per second of the window, for each GPU of the target that computes prompts alone",
        formula: "input tokens / window / GPUs of the role `prefill`" => Trial(trial::input_throughput_per_prefill_gpu),
        source: "InferenceX input throughput per GPU, over the prefill GPUs of a disaggregated target",
    }
    OutputThroughputPerDecodeGpu {
        key: "output_tokens_per_decode_gpu", name: "output_tokens_per_decode_gpu_per_s", column: "output_tokens_per_decode_gpu_per_s", title: "tokens/s/decode GPU" ("Output tokens/s per decode GPU"), unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [OutputTokens, GpuRoles], uses: [],
        statistics: [Value],
        meaning: "Output tokens of successful requests per second of the window, for each GPU of the target that computes the tokens after the first one alone",
        formula: "output tokens of successful requests / window / GPUs of the role `decode`" => Trial(trial::output_throughput_per_decode_gpu),
        source: "InferenceX output throughput per GPU, over the decode GPUs of a disaggregated target",
    }
    OutputThroughputSteady {
        key: "output_tokens_steady", name: "output_tokens_steady_per_s", column: "output_tokens_steady_per_s", title: "steady tokens/s", unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [OutputTokens, ClosedLoop], uses: [],
        statistics: [Value],
        meaning: "Output tokens per second in the steady state of a closed loop",
        formula: "sum of (share of a request in the steady state x its output tokens) / length of the steady state" => Trial(trial::output_throughput_steady),
        source: "AIPerf's time-weighted series",
    }
    SteadyFraction {
        key: "steady_fraction", name: "steady_fraction", column: "steady_fraction", title: "steady fraction", unit: Ratio,
        better: None, section: Throughput, requires: [ClosedLoop], uses: [],
        statistics: [Value],
        meaning: "The share of the window that is steady state of a closed loop, 0 to 1",
        formula: "length of the steady state / window" => Trial(trial::steady_fraction),
        source: "Assay",
    }
    InputThroughput {
        key: "input_tokens", name: "input_tokens_per_s", column: "input_tokens_per_s", title: "input tokens/s", unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [], uses: [],
        statistics: [Value],
        meaning: "Input tokens of successful requests per second of the window, as the endpoint counts them, if it reports them",
        formula: "input tokens / window" => Trial(trial::input_throughput),
        source: "AIPerf and genai-bench input token throughput, over the window",
    }
    TotalThroughput {
        key: "total_tokens", name: "total_tokens_per_s", column: "total_tokens_per_s", title: "total tokens/s", unit: TokensPerSecond,
        better: Some(Higher), section: Throughput, requires: [], uses: [],
        statistics: [Value],
        meaning: "Input and output tokens of successful requests per second of the window; input tokens as the endpoint counts them, if it reports them",
        formula: "(input + output tokens) / window" => Trial(trial::total_throughput),
        source: "AIPerf `total_token_throughput`, over the window",
    }
    DocumentThroughput {
        key: "documents", name: "documents_per_s", column: "documents_per_s", title: "documents/s", unit: DocumentsPerSecond,
        better: Some(Higher), section: Throughput, requires: [Documents], uses: [],
        statistics: [Value shown 5],
        meaning: "Documents of successful requests per second of the window",
        formula: "documents of successful requests / window" => Trial(trial::document_throughput),
        source: "Assay: the request throughput times the documents of a request",
    }
    GoodputRequests {
        key: "goodput_requests", name: "goodput_requests_per_s", column: "goodput_requests_per_s", title: "goodput/s", unit: RequestsPerSecond,
        better: Some(Higher), section: Goodput, requires: [Slos], uses: [],
        statistics: [Value primary shown 5],
        meaning: "Successful requests that met every SLO, per second of the window",
        formula: "good requests / window" => Trial(trial::goodput_requests),
        source: "AIPerf and vLLM `goodput`, over the window",
    }
    GoodputTokens {
        key: "goodput_tokens", name: "goodput_tokens_per_s", column: "goodput_tokens_per_s", title: "goodput tokens/s", unit: TokensPerSecond,
        better: Some(Higher), section: Goodput, requires: [OutputTokens, Slos], uses: [],
        statistics: [Value],
        meaning: "Output tokens per second of the requests that met every SLO",
        formula: "output tokens of good requests / window" => Trial(trial::goodput_tokens),
        source: "Assay",
    }
    GoodFraction {
        key: "good_fraction", name: "good_fraction", column: "good_fraction", title: "good fraction", unit: Ratio,
        better: Some(Higher), section: Goodput, requires: [Slos], uses: [],
        statistics: [Value],
        meaning: "Requests that met every SLO over those due, without those that the client cancelled as planned, 0 to 1",
        formula: "good requests / (requests due - requests cancelled as planned)" => Trial(trial::good_fraction),
        source: "AIPerf `good_request_fraction`",
    }
    ErrorRate {
        key: "error_rate", name: "error_rate", column: "error_rate_median", title: "error rate", unit: Ratio,
        better: Some(Lower), section: Failures, requires: [], uses: [Prediction],
        statistics: [Value],
        meaning: "The share of requests that failed or were dropped, of those that the client did not cancel as planned, 0 to 1; for a point, the median over its trials",
        formula: "failed and dropped requests / (requests due - requests cancelled as planned)" => Trial(trial::error_rate),
        source: "AIPerf `request_error_rate`, dropped requests included",
    }
    IslRequested {
        key: "isl_tokens_requested", name: "isl_tokens_requested_mean", column: "isl_tokens_requested_mean", title: "requested input length", unit: Tokens,
        better: None, section: Lengths, requires: [], uses: [],
        statistics: [Value],
        meaning: "Mean requested input length of successful requests",
        formula: "sum of requested input tokens / successful requests" => Trial(trial::isl_requested),
        source: "Assay",
    }
    Isl {
        key: "isl_tokens", name: "isl_tokens_mean", column: "isl_tokens_mean", title: "input length", unit: Tokens,
        better: None, section: Lengths, requires: [], uses: [],
        statistics: [Value],
        meaning: "Mean input length of successful requests by the workload's tokenizer",
        formula: "sum of input tokens / successful requests" => Trial(trial::isl),
        source: "AIPerf `input_sequence_length`",
    }
    IslEndpoint {
        key: "isl_tokens_endpoint", name: "isl_tokens_endpoint_mean", column: "isl_tokens_endpoint_mean", title: "input length by the endpoint", unit: Tokens,
        better: None, section: Lengths, requires: [], uses: [],
        statistics: [Value],
        meaning: "Mean input length of successful requests as the endpoint counts it, if it reports it",
        formula: "sum of the endpoint's input tokens / responses that report them" => Trial(trial::isl_endpoint),
        source: "OpenAI `usage.prompt_tokens`",
    }
    IslDifference {
        key: "isl_endpoint_difference", name: "isl_endpoint_difference", column: "isl_endpoint_difference", title: "difference of input lengths", unit: Ratio,
        better: None, section: Lengths, requires: [], uses: [],
        statistics: [Value],
        meaning: "The endpoint's count of input tokens over that of the workload's tokenizer, less 1, for requests that both counted",
        formula: "sum of the endpoint's input tokens / sum of the tokenizer's - 1" => Trial(trial::isl_difference),
        source: "AIPerf usage difference",
    }
    Osl {
        key: "osl_tokens", name: "osl_tokens_mean", column: "osl_tokens_mean", title: "output length", unit: Tokens,
        better: None, section: Lengths, requires: [OutputTokens], uses: [],
        statistics: [Value],
        meaning: "Mean output length of successful requests",
        formula: "sum of output tokens / responses with a token count" => Trial(trial::osl),
        source: "AIPerf `output_sequence_length`",
    }
    OslMismatch {
        key: "osl_mismatch", name: "osl_mismatch_rate", column: "osl_mismatch_rate", title: "output length mismatch", unit: Ratio,
        better: Some(Lower), section: Lengths, requires: [OutputTokens], uses: [],
        statistics: [Value],
        meaning: "The share of responses whose output length differs from the requested one, of those with both lengths, 0 to 1",
        formula: "responses that differ by more than 5 % of the requested length or by more than 50 tokens / responses with both lengths" => Trial(trial::osl_mismatch),
        source: "AIPerf's rule of a length mismatch",
    }
    OfferedRate {
        key: "offered_rate", name: "offered_rate_per_s", column: "offered_rate_per_s", title: "offered requests/s", unit: RequestsPerSecond,
        better: None, section: OfferedLoad, requires: [OpenLoop], uses: [],
        statistics: [Value],
        meaning: "Actual request rate under open loop, from the first to the last request that was sent",
        formula: "(sent requests - 1) / (last send time - first send time)" => Trial(trial::offered_rate),
        source: "Assay",
    }
    CachedTokens {
        key: "cached_tokens", name: "cached_tokens", column: "cached_tokens", title: "cached tokens", unit: TokenCount,
        better: None, section: Cache, requires: [], uses: [],
        statistics: [Value],
        meaning: "Input tokens that came from the server's prefix cache, if it reports them",
        formula: "sum of cached input tokens" => Trial(trial::cached_tokens),
        source: "OpenAI `usage.prompt_tokens_details.cached_tokens`",
    }
    CachedShare {
        key: "cached_share", name: "cached_share", column: "cached_share", title: "cached share", unit: Ratio,
        better: None, section: Cache, requires: [], uses: [],
        statistics: [Value],
        meaning: "The share of input tokens that came from the server's prefix cache, of responses that report it, 0 to 1",
        formula: "cached input tokens / input tokens of the responses that report them, as the endpoint counts them or else the workload's tokenizer" => Trial(trial::cached_share),
        source: "inference-perf `kv_cache_hit_percent`, as a share",
    }
    TheoreticalCachedShare {
        key: "theoretical_cached", name: "theoretical_cached_share", column: "theoretical_cached_share", title: "theoretical cached share", unit: Ratio,
        better: None, section: Cache, requires: [RepeatedPrompts], uses: [],
        statistics: [Value],
        meaning: "The share of input tokens that a prefix cache without limits would hold, in whole blocks of the server's cache, or in single tokens if the size of its blocks is not known",
        formula: "leading tokens that an earlier request has as well, by the plan, without the last token of the prompt, in whole blocks / input tokens, of successful requests" => Trial(trial::theoretical_cached_share),
        source: "AIPerf's theoretical prefix hit rate, by the server's blocks",
    }
    ReuseEfficiency {
        key: "reuse_efficiency", name: "reuse_efficiency", column: "reuse_efficiency", title: "reuse efficiency", unit: Ratio,
        better: Some(Higher), section: Cache, requires: [RepeatedPrompts], uses: [],
        statistics: [Value],
        meaning: "The cached input tokens over those that a prefix cache without limits would hold, if every response reports its cached tokens",
        formula: "sum of cached input tokens / the tokens of `theoretical_cached_share`" => Trial(trial::reuse_efficiency),
        source: "Assay",
    }
    CostPerRequest {
        key: "cost_per_request", name: "cost_per_request", column: "cost_per_request", title: "cost of a request", unit: Currency,
        better: Some(Lower), section: Cost, requires: [Price], uses: [],
        statistics: [Value],
        meaning: "Cost of a request that completed successfully, in `currency`",
        formula: "price of a GPU-second x GPUs / requests per second" => Trial(trial::cost_per_request),
        source: "Assay",
    }
    CostPerSession {
        key: "cost_per_session", name: "cost_per_session", column: "cost_per_session", title: "cost of a session", unit: Currency,
        better: Some(Lower), section: Cost, requires: [Sessions, Price], uses: [],
        statistics: [Value],
        meaning: "Cost of a session, of which each turn that completed successfully counts as its part, in `currency`",
        formula: "price of a GPU-second x GPUs / sessions per second; a session of n turns counts by 1 / n for each turn of it in the window" => Trial(trial::cost_per_session),
        source: "Assay",
    }
    CostPerMillionTokens {
        key: "cost_per_million_output_tokens", name: "cost_per_million_output_tokens", column: "cost_per_token", title: "cost of a million output tokens", unit: CurrencyPerMillion,
        better: Some(Lower), section: Cost, requires: [OutputTokens, Price], uses: [],
        statistics: [Value column_doc "Cost of one output token, in `currency`."],
        meaning: "Cost of a million output tokens, in `currency`",
        formula: "price of a GPU-second x GPUs / output tokens per second x 1,000,000" => Trial(trial::cost_per_million_tokens),
        source: "Assay",
    }
}
