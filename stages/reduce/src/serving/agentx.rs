//! The judgement of a point by the rules of AgentX, one reason for each rule that is not met.
//!
//! Sources, of ai-dynamo/aiperf: the rules in `common/scenario/inferencex_agentx_mvp.py` at 71ddbecd960c9afb2e6a8afeea6072d6c967798a, and the limit
//! of context overflows in `common/scenario/submission_outcome.py` and `context_overflow.py` at 58028d5ba1cb33b0e135e18f1cc8833556a3639e. Of
//! SemiAnalysisAI/InferenceX at 843c6254ff69b567f772f6a5fd97675af3d04431: the data sets behind the names of corpora, the seed and the share of
//! failed requests in `benchmarks/benchmark_lib.sh`, and its comparison in `utils/agentic/validation/validate_agentic_result.py`.

use assay_manifest::{
    AgentxVerdict, ArrivalLaw, Count, Dataset, DatasetFormat, Digest, Reason, ServingWork, SessionPlay, SessionStart,
};
use assay_record::Outcome;
use assay_warehouse::records::{RecordColumn as Column, RecordError};

use super::trial::{RowGroupSpan, ScannedTrial, in_parallel};

/// The shortest measured phase, in seconds.
const LEAST_SECONDS: u64 = 900;

/// The largest share of failed requests; more than it breaks the rule.
const MOST_FAILED: f64 = 0.10;

/// The largest share of requests that were too long for the endpoint; more than it breaks the rule.
const MOST_OVERFLOWS: f64 = 0.01;

/// The seed of the recipe: 42.
const SEED: &str = "000000000000000000000000000000000000000000000000000000000000002a";

/// The place at which the corpora of the allow-list are published.
const PUBLISHER: &str = "https://huggingface.co/datasets/semianalysisai/";

/// The data sets of the allow-list, each also with `-256k`.
const CORPORA: [&str; 6] = [
    "cc-traces-weka-with-subagents-060226",
    "cc-traces-weka-with-subagents-060526",
    "cc-traces-weka-with-subagents-060826",
    "cc-traces-weka-061326",
    "cc-traces-weka-061526",
    "cc-traces-weka-062126",
];

/// The ending of the variant of a corpus without its longest requests.
const SHORT: &str = "-256k";

/// The digests of files of these data sets. None is stated by their publisher; a file that another place serves is listed by its digest alone.
pub(super) const CORPUS_DIGESTS: &[Digest] = &[];

/// The longest time in which nothing is in flight, in nanoseconds.
const IDLE_CAP_NS: u64 = 10_000_000_000;

/// The parts of a session at which lanes begin: those of AIPerf if nothing else is requested, and those of InferenceX.
const STARTS: [SessionStart; 2] = [SessionStart { from: 0.0, to: 1.0 }, SessionStart { from: 0.25, to: 0.75 }];

/// Parts of an error, in lower case, by which an endpoint says that a prompt is too long for it.
const OVERFLOWS: [&str; 4] = ["context length", "maximum context", "context_length_exceeded", "prompt is too long"];

/// The facts that the rules judge beside the work.
pub(super) struct Facts<'a> {
    /// The digests of the corpora of the allow-list.
    pub(super) corpora: &'a [Digest],
    /// The seed of all draws, in hexadecimal digits.
    pub(super) seed: &'a str,
    /// The loads of the case.
    pub(super) loads: usize,
    /// The measured phase of each counted trial, in nanoseconds.
    pub(super) measured_ns: Vec<u64>,
    /// Requests of the measured phases.
    pub(super) requests: u64,
    /// Those that failed.
    pub(super) failed: u64,
    /// The failed ones whose error says that the prompt is too long.
    pub(super) overflows: u64,
}

/// Judges a point.
pub(super) fn judge(work: &ServingWork, facts: &Facts<'_>) -> AgentxVerdict {
    let trace = work.prompts.dataset();
    let rules = [
        corpus(trace, facts.corpora),
        mode(work),
        concurrency(facts.loads),
        output(work),
        (!work.is_streamed()).then(|| Reason::new("stream", "responses were not streamed")),
        input(trace),
        pauses(trace),
        duration(&facts.measured_ns),
        start(work.session_play()),
        recycle(work),
        idle_cap(work.session_play()),
        warm_history(work.session_play()),
        marker(work.session_play()),
        (facts.seed != SEED).then(|| Reason::new("seed", "the seed is not 42, which the recipe of InferenceX draws by")),
        share("failed_share", "failed", facts.failed, facts.requests, MOST_FAILED),
        share(
            "context_overflow_share",
            "were refused as too long for the endpoint",
            facts.overflows,
            facts.requests,
            MOST_OVERFLOWS,
        ),
    ];
    AgentxVerdict::new(rules.into_iter().flatten().collect())
}

fn corpus(trace: Option<&Dataset>, digests: &[Digest]) -> Option<Reason> {
    let is_known = |trace: &Dataset| is_listed(&trace.file.origin) || digests.contains(&trace.file.artifact.digest);
    let is_listed = trace.is_some_and(|trace| trace.format == DatasetFormat::Weka && is_known(trace));
    (!is_listed).then(|| {
        let detail = format!(
            "the corpus is not on the allow-list: it is no file of a data set {PUBLISHER}cc-traces-weka-... that the rules name"
        );
        Reason::new("dataset", detail)
    })
}

/// Returns true if an address is that of a file of a corpus of the allow-list: of a branch or commit of the publisher, because any user may open a
/// pull request (`refs/pr/7`), and without parts that lead elsewhere.
fn is_listed(origin: &str) -> bool {
    let Some((name, place)) = origin.strip_prefix(PUBLISHER).and_then(|rest| rest.split_once("/resolve/")) else { return false };
    let Some((revision, path)) = place.split_once('/') else { return false };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let is_revision = revision.chars().all(is_plain) && revision != "refs" && is_name(revision);
    let path = path.strip_suffix("?download=true").unwrap_or(path);
    let is_path = !path.contains(['%', '\\', '?', '#']) && path.split('/').all(is_name);
    is_revision && is_path && CORPORA.contains(&name.strip_suffix(SHORT).unwrap_or(name))
}

/// Returns true if a part of a path is the name of something in its folder.
fn is_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..")
}

fn mode(work: &ServingWork) -> Option<Reason> {
    let is_lanes = work.arrival == ArrivalLaw::Closed && work.plays_trace();
    (!is_lanes).then(|| Reason::new("mode", "the load was not a number of sessions of a trace at a time"))
}

fn concurrency(loads: usize) -> Option<Reason> {
    (loads != 1).then(|| Reason::new("concurrency", format!("the case has {loads} loads, and the rules ask for one concurrency")))
}

fn start(play: SessionPlay) -> Option<Reason> {
    let detail = match play.start {
        Some(start) if STARTS.contains(&start) => return None,
        Some(SessionStart { from, to }) => {
            format!(
                "users began from {from} to {to} of a session, and the rules ask for 0 to 1 (AIPerf) or 0.25 to 0.75 (InferenceX)"
            )
        }
        None => {
            "each session began with its first turn; the rules begin a lane at a time that is drawn over its trace".to_owned()
        }
    };
    Some(Reason::new("start", detail))
}

fn recycle(work: &ServingWork) -> Option<Reason> {
    let is_recycled = work.session_play().recycle && work.duration_ns.is_some();
    let detail = "each session was played once; by the rules a lane plays further sessions until the time has passed";
    (!is_recycled).then(|| Reason::new("recycle", detail))
}

fn idle_cap(play: SessionPlay) -> Option<Reason> {
    let detail = match play.idle_cap_ns {
        Some(Count(IDLE_CAP_NS)) => return None,
        Some(Count(cap_ns)) => format!("the idle cap was {:.3} s, and the rules ask for 10 s", cap_ns as f64 / 1e9),
        None => {
            "pauses were kept as recorded; the rules move all that waits nearer if nothing has been in flight for 10 s".to_owned()
        }
    };
    Some(Reason::new("idle_cap", detail))
}

fn warm_history(play: SessionPlay) -> Option<Reason> {
    let detail = "nothing was sent before measuring began; by the rules the turn before the start of each lane is sent then";
    (!play.warm_history).then(|| Reason::new("warmup", detail))
}

fn marker(play: SessionPlay) -> Option<Reason> {
    let detail = "sessions have no marker of their own; the rules put one in front of the first message of the user";
    (!play.marker).then(|| Reason::new("marker", detail))
}

/// Responses have to be asked for at their recorded lengths.
fn output(work: &ServingWork) -> Option<Reason> {
    let trace = work.prompts.dataset();
    let is_recorded =
        trace.is_some_and(|trace| trace.summary.recorded_outputs == trace.summary.rows && trace.max_output_tokens.is_none());
    let is_exact = work.exact_output && work.output.is_none() && is_recorded;
    (!is_exact)
        .then(|| Reason::new("output", "responses were not all requested with exactly their recorded lengths (`ignore_eos`)"))
}

fn input(trace: Option<&Dataset>) -> Option<Reason> {
    let (too_long, truncated) = trace.map_or((0, 0), |trace| (trace.summary.too_long.0, trace.summary.truncated.0));
    (too_long + truncated > 0).then(|| {
        Reason::new(
            "input",
            format!("prompts were too long: {too_long} sessions were left out for it, and {truncated} were ended early"),
        )
    })
}

fn pauses(trace: Option<&Dataset>) -> Option<Reason> {
    let turns = trace.and_then(|trace| trace.summary.times.as_ref()).and_then(|times| times.turns.as_ref());
    let cut = turns.map_or(0, |turns| turns.think_time.cut.0 + turns.tool_time.cut.0);
    (cut > 0).then(|| Reason::new("pauses", format!("{cut} pauses between turns were cut, each for itself")))
}

fn duration(measured_ns: &[u64]) -> Option<Reason> {
    let too_short = |ns: &u64| *ns < LEAST_SECONDS * 1_000_000_000;
    let detail = match measured_ns.iter().min() {
        None => "no trial counts".to_owned(),
        Some(least) if too_short(least) => {
            format!(
                "the shortest counted trial was measured for {:.3} s, and the rules ask for {LEAST_SECONDS} s",
                *least as f64 / 1e9
            )
        }
        Some(_) => return None,
    };
    Some(Reason::new("duration", detail))
}

/// Returns a reason if more than a share of the requests are of a kind. Without requests there is no share, and no reason.
fn share(code: &str, what: &str, of_kind: u64, requests: u64, most: f64) -> Option<Reason> {
    let is_more = requests > 0 && of_kind as f64 / requests as f64 > most;
    is_more.then(|| Reason::new(code, format!("{of_kind} of {requests} requests {what}, more than {:.0} %", most * 100.0)))
}

/// Returns the number of failed requests of measured phases whose error says that the prompt is too long. A record keeps the beginning of
/// an error, so that a longer one may not be recognised.
pub(super) fn context_overflows(trials: &[ScannedTrial<'_>], threads: usize) -> Result<u64, RecordError> {
    let has_failed = |span: &&RowGroupSpan<'_>| span.measured.count() > span.ok.count();
    let spans: Vec<&RowGroupSpan<'_>> = trials.iter().flat_map(|trial| &trial.row_groups).filter(has_failed).collect();
    Ok(in_parallel(threads, &spans, |span| overflows_of_span(span))?.into_iter().sum())
}

fn overflows_of_span(span: &RowGroupSpan<'_>) -> Result<u64, RecordError> {
    let mut count = 0;
    span.each(&[Column::Outcome, Column::Error], |batch, before| {
        let outcomes: Vec<Outcome> = batch.words(Column::Outcome)?;
        for (row, outcome) in outcomes.into_iter().enumerate() {
            if span.measured.get(before + row) && outcome.is_failure() {
                count += u64::from(batch.error(row)?.is_some_and(is_overflow));
            }
        }
        Ok(())
    })?;
    Ok(count)
}

fn is_overflow(error: &str) -> bool {
    let error = error.to_lowercase();
    OVERFLOWS.iter().any(|part| error.contains(part))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The address of a corpus of the allow-list.
    const LISTED: &str = "https://huggingface.co/datasets/semianalysisai/cc-traces-weka-062126-256k/resolve/main/traces.jsonl";

    const NS_PER_S: u64 = 1_000_000_000;

    /// Work that breaks no rule, with a change at a place.
    fn work(place: &str, change: Value) -> ServingWork {
        let artifact =
            || json!({"name": "a", "digest": format!("sha256:{}", "0".repeat(64)), "size": "1", "media_type": "text/plain"});
        let range = json!({"least": 1, "most": 9, "sum": "9"});
        let pauses = json!({"turns": "1", "sum_ns": "1", "cut": "0", "cut_ns": "0"});
        let turns = json!({"think_time": pauses, "tool_time": pauses, "without_end": "0", "overlapping": "0", "branches": "0", "subagents": "0",
            "subagent_requests": "0", "beyond_blocks": "0", "whole_blocks": "2", "partial_blocks": "0"});
        let times = json!({"span_ns": "1", "busiest_second": "1", "outside_window": "0", "not_sampled": "0", "gaps_cut": "0", "cut_ns": "0", "turns": turns});
        let summary = json!({"read": "1", "rows": "2", "sessions": "1", "without_prompt": "0", "too_long": "0", "truncated": "0", "input_tokens": range,
            "recorded_outputs": "2", "output_tokens": range, "times": times});
        let file = json!({"path": "t", "origin": LISTED, "executable": false, "artifact": artifact()});
        let mut work = json!({
            "api": "chat", "model": "m", "arrival": {"law": "closed"}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {},
            "prompts": {"from": "dataset", "file": file, "format": "weka", "rows": artifact(), "index": artifact(), "summary": summary},
            "sessions": {"think_time": {"law": "recorded"}, "history": "recorded", "reasoning": "drop", "play": {
                "recycle": true, "start": {"from": 0.25, "to": 0.75}, "warm_history": true, "idle_cap_ns": "10000000000", "marker": true}},
            "duration_ns": "900000000000", "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true, "capture": "none", "slos": [],
            "tokenizer": {"name": "common-words", "digest": format!("sha256:{}", "0".repeat(64))},
        });
        if !place.is_empty() {
            *work.pointer_mut(place).expect("a place") = change;
        }
        serde_json::from_value(work).expect("work")
    }

    fn facts() -> Facts<'static> {
        Facts {
            corpora: CORPUS_DIGESTS,
            loads: 1,
            seed: SEED,
            measured_ns: vec![1_800 * NS_PER_S, 900 * NS_PER_S],
            requests: 1_000,
            failed: 100,
            overflows: 10,
        }
    }

    /// Returns the rules that are not met.
    fn broken(work: &ServingWork, facts: &Facts<'_>) -> Vec<String> {
        let verdict = judge(work, facts);
        assert!(verdict.is_consistent() && verdict.agentx_rules_met == verdict.reasons.is_empty());
        verdict.reasons.into_iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn a_corpus_is_listed_by_its_address_or_its_digest() {
        assert!(judge(&work("", Value::Null), &facts()).agentx_rules_met);
        let moved = work("/prompts/file/origin", json!("workloads/agents/trace.jsonl"));
        let verdict = judge(&moved, &facts());
        let [reason] = verdict.reasons.as_slice() else { panic!("{verdict:?}") };
        assert!(!verdict.agentx_rules_met && reason.detail.contains("not on the allow-list"), "{reason:?}");
        let digest = moved.prompts.dataset().expect("a trace").file.artifact.digest;
        assert!(judge(&moved, &Facts { corpora: &[digest], ..facts() }).agentx_rules_met);
        let other = Digest::compute(b"another corpus");
        assert!(!judge(&moved, &Facts { corpora: &[other], ..facts() }).agentx_rules_met);
    }

    #[test]
    fn a_corpus_is_a_file_of_a_branch_or_commit_of_its_publisher() {
        let corpus = format!("{PUBLISHER}{}", CORPORA[0]);
        for place in ["main/x.jsonl", "v1.0_a-b/data/x.jsonl", "0123456789abcdef0123456789abcdef01234567/x.jsonl?download=true"] {
            assert!(is_listed(&format!("{corpus}/resolve/{place}")), "{place}");
        }
        for place in [
            "",
            "main",
            "main/",
            "/x.jsonl",
            "../x.jsonl",
            "main/../../../evil/real.jsonl",
            "main/%2e%2e/%2e%2e/%2e%2e/evil/real.jsonl",
            "main/./x.jsonl",
            "main//x.jsonl",
            "main/..\\..\\evil/x.jsonl",
            "refs%2Fpr%2F7/x.jsonl",
            "refs/pr/7/x.jsonl",
            "main/x.jsonl?revision=refs/pr/7",
            "main/x.jsonl#a",
            "m%61in/x.jsonl",
        ] {
            assert!(!is_listed(&format!("{corpus}/resolve/{place}")), "{place}");
        }
    }

    #[test]
    fn each_rule_of_how_sessions_are_played_has_its_reason() {
        let broken = |place: &str, change: Value| broken(&work(&format!("/sessions/play/{place}"), change), &facts());
        for (from, to, is_met) in [(0.0, 1.0, true), (0.25, 0.75, true), (0.25, 1.0, false), (0.0, 0.0, false)] {
            let found = broken("start", json!({"from": from, "to": to}));
            assert_eq!(found.is_empty(), is_met, "{from} to {to}: {found:?}");
        }
        assert_eq!(broken("start", Value::Null), ["start"]);
        assert_eq!(broken("recycle", json!(false)), ["recycle"]);
        assert_eq!(broken("idle_cap_ns", Value::Null), ["idle_cap"]);
        assert_eq!(broken("idle_cap_ns", json!("9999999999")), ["idle_cap"]);
        assert_eq!(broken("idle_cap_ns", json!("10000000001")), ["idle_cap"]);
        assert_eq!(broken("warm_history", json!(false)), ["warmup"]);
        assert_eq!(broken("marker", json!(false)), ["marker"]);
    }

    #[test]
    fn each_rule_of_the_work_has_its_reason() {
        let broken = |place: &str, change: Value| broken(&work(place, change), &facts());
        for origin in [
            "workloads/agents/trace.jsonl",
            "https://example.com/semianalysisai/cc-traces-weka-062126/resolve/x",
            "https://huggingface.co/datasets/semianalysisai/cc-traces-weka-other/resolve/main/t",
            "https://huggingface.co/datasets/other/cc-traces-weka-062126/resolve/main/t",
        ] {
            assert_eq!(broken("/prompts/file/origin", json!(origin)), ["dataset"], "{origin}");
        }
        assert_eq!(broken("/prompts/format", json!("bailian")), ["dataset"]);
        assert_eq!(broken("/arrival", json!({"law": "recorded"})), ["mode"]);
        assert_eq!(broken("/duration_ns", Value::Null), ["recycle"]);
        assert_eq!(broken("/exact_output", json!(false)), ["output"]);
        assert_eq!(broken("/prompts/summary/recorded_outputs", json!("1")), ["output"]);
        assert_eq!(broken("/streaming", json!(false)), ["stream"]);
        assert_eq!(broken("/prompts/summary/too_long", json!("1")), ["input"]);
        assert_eq!(broken("/prompts/summary/truncated", json!("1")), ["input"]);
        assert_eq!(broken("/prompts/summary/times/turns/think_time/cut", json!("1")), ["pauses"]);
        assert_eq!(broken("/prompts/summary/times/turns/tool_time/cut", json!("1")), ["pauses"]);
    }

    #[test]
    fn each_rule_of_the_result_has_its_boundary() {
        let work = work("", Value::Null);
        let broken = |facts: Facts<'_>| broken(&work, &facts);
        // A tenth may fail, a hundredth may be too long, and 900 s are long enough.
        assert!(broken(facts()).is_empty());
        assert_eq!(broken(Facts { failed: 101, ..facts() }), ["failed_share"]);
        assert_eq!(broken(Facts { overflows: 11, ..facts() }), ["context_overflow_share"]);
        assert_eq!(broken(Facts { measured_ns: vec![1_800 * NS_PER_S, 900 * NS_PER_S - 1], ..facts() }), ["duration"]);
        assert_eq!(broken(Facts { measured_ns: Vec::new(), requests: 0, failed: 0, overflows: 0, ..facts() }), ["duration"]);
        assert_eq!(broken(Facts { seed: "2a", ..facts() }), ["seed"]);
        assert_eq!(broken(Facts { loads: 2, ..facts() }), ["concurrency"]);
    }

    #[test]
    fn an_overflow_is_recognised_by_what_endpoints_say() {
        let said = "400: This model's Maximum Context Length is 100 tokens";
        assert!(
            is_overflow(said) && is_overflow(r#"{"code":"context_length_exceeded"}"#) && is_overflow("Prompt is too long: 9")
        );
        assert!(!is_overflow("the model is overloaded") && !is_overflow("prompt too long"));
    }
}
