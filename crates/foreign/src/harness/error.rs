//! The reasons why the output of a harness cannot be read.

use assay_manifest::HarnessFormat;

/// The most characters of a name that a message quotes.
const QUOTED: usize = 80;

/// The reason why the output of a harness is no list of measurements. Text of the output is shortened, and its control characters are escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarnessError {
    /// The output is larger than the limit.
    #[error("the output is larger than the limit of {0} bytes")]
    TooLarge(usize),
    /// The output is not UTF-8.
    #[error("the output is not a text in UTF-8")]
    NotText,
    /// The output has no text.
    #[error("the output is empty: let the script print what the harness prints, or the file that it writes, to stdout")]
    Nothing,
    /// The output is one of another harness.
    #[error("it is one of {0}: write `output: {0}` into the workload")]
    OtherFormat(HarnessFormat),
    /// The output is not JSON.
    #[error("the output is not JSON: {problem}; it begins with `{beginning}`")]
    NotJson {
        /// The problem, with its place.
        problem: String,
        /// The first line.
        beginning: String,
    },
    /// The JSON of the output has no end.
    #[error("the output is cut: its JSON has no end, {0}")]
    CutJson(String),
    /// An object has a key twice, so it is not known which value is meant.
    #[error("the key `{0}` is there twice in one object")]
    DuplicateKey(String),
    /// A member is missing, or is of another kind.
    #[error("the output has no `{member}` that is {expected}, in {place}")]
    Member {
        /// The name of the member.
        member: String,
        /// The expected kind, with its article.
        expected: &'static str,
        /// The place, such as `benchmarks[3]`.
        place: String,
    },
    /// There is no benchmark.
    #[error("the output has no benchmark with a number")]
    Empty,
    /// A benchmark failed.
    #[error("the benchmark `{benchmark}` failed: {reason}")]
    Failed {
        /// The name.
        benchmark: String,
        /// The reason that the harness gives.
        reason: String,
    },
    /// A benchmark has aggregates only.
    #[error("the benchmark `{0}` has aggregates only, and no samples: let the harness report its repetitions too")]
    OnlyAggregates(String),
    /// A sample is not finite.
    #[error("the benchmark `{benchmark}` has a sample that is no finite number")]
    NotFinite {
        /// The name.
        benchmark: String,
    },
    /// A time, a size or a count is below zero.
    #[error("the benchmark `{benchmark}` has `{quantity}` below zero")]
    Negative {
        /// The name.
        benchmark: String,
        /// The quantity with its unit, such as `time_nanoseconds`.
        quantity: String,
    },
    /// A line has two values of one unit.
    #[error("the benchmark `{benchmark}` has two values in `{unit}` on one line")]
    TwiceOnALine {
        /// The name.
        benchmark: String,
        /// The unit.
        unit: String,
    },
    /// The output ends before the harness says that it was all.
    #[error("the output is cut: no line `ok` or `PASS` follows {0}")]
    Cut(String),
    /// Two benchmarks become the same metric.
    #[error("two benchmarks, or two units of one, would be the metric `{0}`: rename one of them")]
    Ambiguous(String),
    /// There are more measurements than the limit.
    #[error("the output has more measurements than the limit of {0}")]
    TooMany(usize),
    /// There are more samples than the limit.
    #[error("the output has more samples than the limit of {0}")]
    TooManySamples(usize),
}

/// Returns a text of the output as a message may show it.
pub(super) fn shortened(text: &str) -> String {
    text.escape_debug().take(QUOTED).collect()
}
