//! The metrics of serving: one table with the name, unit, direction, definition and formula of each. The names that specs accept,
//! the statistics of reduce, the columns of the warehouse, the titles of reports and the reference page derive from it.
//!
//! A new metric is one row of `table.rs` with its formula; a new quantile is one row of `statistic.rs`. A value that cannot be
//! computed is absent with its reason: never 0, and never infinite.

mod events;
mod name;
mod ratio;
mod reference;
mod request;
mod slo;
mod statistic;
mod table;
mod trial;
mod unit;
mod window;

pub use events::{Gap, Jitter, gaps};
pub use name::{ColumnValue, MetricName, SpreadColumns};
pub use ratio::{CountedRequest, Ratio};
pub use reference::reference_page;
pub use request::{Field, Quotient, RequestFields, TpotDivisor, is_length_mismatch, since_ns, tpot_ns};
pub use statistic::{Estimator, Statistic};
pub use table::{Metric, SloMetric};
pub use trial::{
    GpuCounts, MeasuredValue, NO_CAP, RepeatedInput, RoleGpus, Sum, Totals, TrialTotals, WorkTotals, no_request_succeeded,
    no_response_has, quantity,
};
pub use unit::Unit;
pub use window::{BusySpan, MeasuredPhase, PhaseEnd, SHARE_BITS, TIME_SLICES, share_within, time_slice_of};

/// The definition of a metric: one row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The name without unit and statistic, such as `ttft`.
    pub key: &'static str,
    /// The title for people, such as `TTFT`.
    pub title: &'static str,
    /// The title in words, such as `Time to first token`; empty if the title is not an abbreviation.
    pub long_title: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// The better direction; `None` if neither is. Gates may judge a metric that has one.
    pub better: Option<Direction>,
    /// The part of the tables and of the reference page that it belongs to.
    pub section: Section,
    /// The conditions under which it can be measured.
    pub requires: &'static [Requirement],
    /// Its uses besides the Summary and the tables.
    pub uses: &'static [Use],
    /// The metric as one that an SLO of a workload may limit; `None` if none may.
    pub slo: Option<SloMetric>,
    /// The reported names: one for each statistic.
    pub names: &'static [MetricName],
    /// The meaning: a noun phrase.
    pub meaning: &'static str,
    /// The formula in words.
    pub formula_text: &'static str,
    /// The source of the formula, or the terms of other tools for it.
    pub source: &'static str,
    /// The formula in code.
    pub formula: Formula,
}

/// The formula of a metric, by the data that it needs.
#[derive(Clone, Copy, Debug)]
pub enum Formula {
    /// A sample for each request that has both instants: `to` - `from`, in whole nanoseconds.
    Span {
        /// The earlier instant.
        from: Field,
        /// The later instant.
        to: Field,
    },
    /// A sample for each request that has all fields of the quotient.
    Quotient(&'static Quotient),
    /// Samples for each gap between the token events of a request: see [`gaps`].
    Gaps,
    /// At most one sample for each request, from the list of its token events: the first gap, and [`Jitter`].
    TokenEvents,
    /// One value for a whole trial.
    Trial(fn(&TrialTotals<'_>) -> MeasuredValue),
}

/// The direction of values that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Larger is better.
    Higher,
    /// Smaller is better.
    Lower,
}

/// A condition on the API, the load or the workload under which a metric can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Responses are streamed, so that token events have instants of their own.
    Streaming,
    /// Responses have output tokens.
    OutputTokens,
    /// Requests have documents, such as those of embeddings and rerank.
    Documents,
    /// Requests have intended times: in an open loop, and in sessions.
    IntendedTimes,
    /// Requests or sessions arrive at a rate: open loop.
    OpenLoop,
    /// Due requests wait while as many are in flight as the workload allows.
    ConcurrencyCap,
    /// Each request opens a connection of its own.
    NewConnections,
    /// The client cancels a share of requests.
    Cancellation,
    /// A request is sent when an earlier one ends: closed loop.
    ClosedLoop,
    /// Requests are turns of sessions.
    Sessions,
    /// Each turn of a session has a time at which it is planned: by a trace, or by the grid of its user.
    PlannedTurns,
    /// Requests are turns of the sessions of a trace.
    TraceSessions,
    /// The trace records when the responses to all turns ended, and its turns follow one another.
    RecordedEnds,
    /// The plan tells which beginnings of prompts are repeated.
    RepeatedPrompts,
    /// The workload has SLOs.
    Slos,
    /// The GPUs of the target are known: observed on its hosts, else declared.
    Gpus,
    /// The GPUs for prompts and those for the tokens after the first one are others, and their numbers are known: by the labels of the
    /// target's pods, else declared.
    GpuRoles,
    /// The pipeline states a price, and the GPUs of the target are known.
    Price,
}

impl Requirement {
    /// Returns the condition in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Streaming => "streamed responses",
            Self::OutputTokens => "output tokens",
            Self::Documents => "documents",
            Self::IntendedTimes => "open loop, sessions or `connections: never`",
            Self::OpenLoop => "open loop",
            Self::NewConnections => "`connections: never`",
            Self::ConcurrencyCap => "`max_concurrency`",
            Self::Cancellation => "`cancel`",
            Self::ClosedLoop => "closed loop",
            Self::Sessions => "sessions",
            Self::PlannedTurns => "sessions of a trace, or `mode: users`",
            Self::TraceSessions => "sessions of a trace",
            Self::RecordedEnds => "recorded ends of its responses, no subagents",
            Self::RepeatedPrompts => "prompts whose common beginnings are known: synthetic ones, or the blocks of a trace",
            Self::Slos => "SLOs",
            Self::Gpus => "a known number of GPUs",
            Self::GpuRoles => "GPUs of known roles",
            Self::Price => "a price",
        }
    }
}

/// A use of a metric besides the Summary and the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The distribution is kept for plots.
    Curve,
    /// `assay-simulator predict` prints it.
    Prediction,
}

/// The part of the tables and of the reference page that a metric belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The rate of sending.
    OfferedLoad,
    /// Lengths of prompts and responses.
    Lengths,
    /// Failed requests.
    Failures,
    /// Latencies of requests, and gaps between token events.
    Latency,
    /// The regularity of sending and of token events.
    Regularity,
    /// Work per second.
    Throughput,
    /// The prefix cache.
    Cache,
    /// Work that met the SLOs.
    Goodput,
    /// Prices.
    Cost,
}

impl Section {
    /// All sections, in the order of the reference page.
    pub const ALL: [Self; 9] = [
        Self::Latency,
        Self::Regularity,
        Self::Throughput,
        Self::Goodput,
        Self::Failures,
        Self::OfferedLoad,
        Self::Lengths,
        Self::Cache,
        Self::Cost,
    ];

    /// Returns the heading of the section.
    pub const fn title(self) -> &'static str {
        match self {
            Self::OfferedLoad => "Offered load",
            Self::Lengths => "Lengths",
            Self::Failures => "Failures",
            Self::Latency => "Latency",
            Self::Regularity => "Regularity",
            Self::Throughput => "Throughput",
            Self::Cache => "Prefix cache",
            Self::Goodput => "Goodput",
            Self::Cost => "Cost",
        }
    }
}

impl Metric {
    /// Returns true if the metric can be measured only under the condition.
    pub fn requires(self, requirement: Requirement) -> bool {
        self.definition().requires.contains(&requirement)
    }

    /// Returns true if the metric has this use.
    pub fn has_use(self, place: Use) -> bool {
        self.definition().uses.contains(&place)
    }

    /// Returns true if a request has at most one sample of the metric.
    pub fn is_per_request(self) -> bool {
        matches!(self.definition().formula, Formula::Span { .. } | Formula::Quotient(_))
    }

    /// Returns the name with this statistic; `None` if the metric is not reported with it.
    pub fn name(self, statistic: Statistic) -> Option<&'static MetricName> {
        self.definition().names.iter().find(|name| name.statistic == statistic)
    }

    /// Returns the metric of this key, such as `ttft`.
    pub fn find(key: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.definition().key == key)
    }
}

#[cfg(test)]
mod tests;
