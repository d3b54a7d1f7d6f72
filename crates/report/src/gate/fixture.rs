//! A made-up verdict for tests: two regressed metrics, of which one is acknowledged; one inconclusive, one improved and one unchanged
//! metric; and one that is only reported.

use std::collections::BTreeMap;

use assay_manifest::{
    Acknowledgement, BetterDirection, CaseId, Change, Check, Comparison, Count, Digest, FloorSource, GatePolicy, InputRef,
    Instant, Isolation, JudgedRun, Kind, MetricSummary, MetricVerdict, Name, NoiseFloor, Outcome, PairUnit, Placement,
    PointSummary, Reason, Role, RunId, RunStatus, Sequence, Side, Stability, Summary, TrialId, TrialPair, TrialValue, Verdict,
    WorkloadType,
};

use crate::ChainSignature;
use crate::gate::{EarlierVerdict, Inputs, Report, Why};

/// Owns everything that [`Inputs`] borrows.
pub(crate) struct Model {
    pub(crate) verdict: Verdict,
    pub(crate) signature: Option<ChainSignature>,
    pub(crate) trust_policy: Option<(String, Digest)>,
    pub(crate) unestablished: Vec<RunId>,
    pub(crate) earlier: Vec<EarlierVerdict>,
    pub(crate) summaries: BTreeMap<Digest, Summary>,
    pub(crate) why: Option<Why>,
}

impl Model {
    pub(crate) fn report(&self) -> Report {
        Report::build(&Inputs {
            verdict: &self.verdict,
            verdict_digest: Some(Digest::compute(b"verdict")),
            signed_by: self.signature.as_ref(),
            trust_policy: self.trust_policy.clone(),
            unestablished: &self.unestablished,
            earlier: &self.earlier,
            summaries: &self.summaries,
            why: self.why.clone(),
            store: Some("s3://results"),
        })
    }

    /// Returns the metric of that name.
    pub(crate) fn metric(&mut self, name: &str) -> &mut MetricVerdict {
        self.verdict.metrics.iter_mut().find(|metric| metric.metric == name).expect("the metric")
    }

    /// Keeps only the metrics with one of the `kept` outcomes, and sets the verdict's outcome.
    pub(crate) fn set_outcome(&mut self, outcome: Outcome, kept: &[Outcome]) {
        self.verdict.metrics.retain(|metric| kept.contains(&metric.outcome));
        self.verdict.outcome = outcome;
        self.verdict.blocks = outcome == Outcome::Regressed;
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn instant(text: &str) -> Instant {
    text.parse().expect("an instant")
}

/// Returns fourteen pairs whose candidate is `ratio` times the baseline, both with a ripple of `noise`.
fn pairs(baseline: f64, ratio: f64, noise: f64) -> Vec<TrialPair> {
    let ripple = |i: u32| 1.0 + noise * (f64::from(i * 7 % 5) - 2.0);
    let pair = |index: u32| TrialPair {
        run: 0,
        index,
        baseline: baseline * ripple(index),
        candidate: baseline * ratio * ripple(index * 3 + 1),
    };
    (0..14).map(pair).collect()
}

pub(crate) struct MetricFixture<'a> {
    pub(crate) point: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) better: BetterDirection,
    pub(crate) baseline: f64,
    pub(crate) ratio: f64,
    pub(crate) noise: f64,
    pub(crate) outcome: Outcome,
}

/// Returns a metric of the workload `chat`.
pub(crate) fn metric(kept: &MetricFixture<'_>) -> MetricVerdict {
    let is_far = matches!(kept.outcome, Outcome::Regressed | Outcome::Improved);
    let p = if is_far { 0.000_122_07 } else { 0.407_9 };
    let (worse, better) = if kept.outcome == Outcome::Improved { (1.0, p) } else { (p, 1.0 - p) };
    MetricVerdict {
        workload: name("chat"),
        point_id: kept.point.parse().expect("a point"),
        metric: kept.metric.to_owned(),
        unit: kept.unit.to_owned(),
        better: kept.better,
        primary: true,
        outcome: kept.outcome,
        reason: None,
        pairs: pairs(kept.baseline, kept.ratio, kept.noise),
        missing: 0,
        change: Some(Change {
            ratio: kept.ratio,
            low: Some(kept.ratio * (1.0 - 2.5 * kept.noise)),
            high: Some(kept.ratio * (1.0 + 2.75 * kept.noise)),
            level: 0.95,
            baseline_median: kept.baseline,
            candidate_median: kept.baseline * kept.ratio,
            p_worse: worse,
            p_better: better,
            p_unpaired: Some(0.01),
        }),
        p_worse_adjusted: (worse * 3.0).min(1.0),
        p_better_adjusted: (better * 3.0).min(1.0),
        floor: Some(NoiseFloor { share: 0.012, source: FloorSource::History }),
        noise: Some(kept.noise),
        detectable: Some(2.0 * kept.noise + 0.05),
        more_pairs: None,
        acknowledged: None,
    }
}

fn metrics() -> Vec<MetricVerdict> {
    let lower = |point, metric, baseline, ratio, noise, outcome| {
        self::metric(&MetricFixture {
            point,
            metric,
            unit: "ms",
            better: BetterDirection::Lower,
            baseline,
            ratio,
            noise,
            outcome,
        })
    };
    let throughput = MetricFixture {
        point: "c64",
        metric: "output_tokens_per_s",
        unit: "tok/s",
        better: BetterDirection::Higher,
        baseline: 2_410.0,
        ratio: 1.124,
        noise: 0.006,
        outcome: Outcome::Improved,
    };
    let mut accepted = lower("c8", "e2e_ms_p99", 1_840.0, 1.089, 0.005, Outcome::Regressed);
    accepted.acknowledged = Some("pipelines/acks/longer-responses.yaml".to_owned());
    let detail = "`pipelines/acks/longer-responses.yaml` accepts it: responses are longer by design";
    accepted.reason = Some(Reason::new("acknowledged", detail));
    let mut noisy = lower("c64", "itl_ms_p99", 31.7, 1.042, 0.06, Outcome::Inconclusive);
    noisy.reason =
        Some(Reason::new("underpowered", "the smallest change that would have been found is 17.0 %; a verdict needs 10.0 %"));
    noisy.more_pairs = Some(18);
    noisy.missing = 1;
    noisy.pairs.remove(6);
    let mut reported = lower("c64", "queue_ms_p50", 3.2, 1.4, 0.02, Outcome::Regressed);
    reported.primary = false;
    vec![
        lower("c8", "ttft_ms_p99", 84.5, 1.004, 0.008, Outcome::Unchanged),
        self::metric(&throughput),
        accepted,
        noisy,
        lower("c64", "ttft_ms_p99", 412.0, 1.121, 0.011, Outcome::Regressed),
        reported,
    ]
}

fn acknowledgement(metric: &str, point: Option<&str>, accepts: f64, file: &str, expires: &str) -> Acknowledgement {
    Acknowledgement {
        path: format!("pipelines/acks/{file}.yaml"),
        digest: Digest::compute(file.as_bytes()),
        case: CaseId::from_names(&name("chat"), &name("vllm"), &name("patched")),
        point: point.map(|point| point.parse().expect("a point")),
        metric: metric.to_owned(),
        accepts,
        of: "pull request 17".to_owned(),
        applies: true,
        reason: "responses are longer by design".to_owned(),
        approver: "perf-owners".to_owned(),
        expires: instant(expires),
    }
}

fn earlier(number: u32, outcome: Outcome) -> EarlierVerdict {
    EarlierVerdict {
        number,
        digest: Digest::compute(&number.to_le_bytes()),
        gate: name("pull-request"),
        outcome: outcome.as_str(),
        look: number,
        commit: Some(format!("{number:040x}")),
        judged_on: instant("2026-11-19T09:30:00.000000000Z"),
    }
}

/// Returns the Summary of the judged run: for each metric the medians of both sides, and the values of the trials.
fn summary(verdict: &Verdict) -> Summary {
    let Comparison { baseline, candidate, .. } = &verdict.comparison;
    let of_side = |side: &Side, of: fn(&TrialPair) -> f64| {
        ["c8", "c64"].map(|point| {
            let case_id = CaseId::from_names(&name("chat"), &side.target, &side.variant);
            let found = verdict.metrics.iter().filter(|metric| metric.point_id.as_str() == point);
            let metrics = found.map(|metric| metric_summary(&case_id, metric, of)).collect();
            point_summary(case_id, point, metrics)
        })
    };
    let points = [of_side(baseline, |pair| pair.baseline), of_side(candidate, |pair| pair.candidate)].concat();
    Summary {
        plan_digest: Digest::compute(b"plan"),
        artifact_manifest_digest: Digest::compute(b"collection"),
        reduce_binary: Digest::compute(b"reduce"),
        status: RunStatus::Partial,
        issues: Vec::new(),
        points,
        all_loads: Vec::new(),
        energy: Vec::new(),
        files: Vec::new(),
        views: None,
    }
}

fn point_summary(case_id: CaseId, point: &str, metrics: Vec<MetricSummary>) -> PointSummary {
    PointSummary {
        case_id,
        point_id: point.parse().expect("a point"),
        workload_type: WorkloadType::Serving,
        workload_spec_digest: Digest::compute(b"spec"),
        value: BTreeMap::new(),
        trials_planned: 14,
        trials_counted: 14,
        attempts: 14,
        excluded: Vec::new(),
        serving: None,
        metrics,
    }
}

fn metric_summary(case: &CaseId, found: &MetricVerdict, of: fn(&TrialPair) -> f64) -> MetricSummary {
    let row = |what: &str| Digest::compute(format!("{case} {} {} {what}", found.point_id, found.metric).as_bytes());
    let trial = |pair: &TrialPair| TrialValue {
        trial_id: TrialId::from_parts(case, &found.point_id, pair.index),
        attempt: 0,
        value: of(pair),
        n: Count(160),
        flagged: false,
        row_id: row(&format!("t{}", pair.index)),
    };
    let trials: Vec<TrialValue> = found.pairs.iter().map(trial).collect();
    let mut values: Vec<f64> = trials.iter().map(|trial| trial.value).collect();
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    MetricSummary {
        metric: found.metric.clone(),
        unit: found.unit.clone(),
        better: Some(found.better),
        primary: found.primary,
        n: Count(trials.len() as u64),
        median,
        mean: median,
        sd: None,
        cv: None,
        min: values[0],
        max: values[values.len() - 1],
        interval: None,
        interval_absent: None,
        stability: Stability::Stable,
        stability_reason: String::new(),
        rows: BTreeMap::from([("median".to_owned(), row("median"))]),
        trials,
    }
}

/// Returns the complete verdict, with all other inputs of its report.
pub(crate) fn model() -> Model {
    let digest = Digest::compute(b"summary");
    let later = "2027-01-01T00:00:00.000000000Z";
    let run = JudgedRun {
        run_id: "pull-17-b".parse().expect("a run"),
        summary: InputRef { kind: Kind::Summary, manifest: digest, bundle: digest },
        plan_digest: Digest::compute(b"plan"),
        commit: Some("4f1c2d9e8b7a6f5e4d3c2b1a09f8e7d6c5b4a392".to_owned()),
        tree: "8d2b6c1f0e9a7b5c3d4e2f1a0b9c8d7e6f5a4b3c".to_owned(),
        signers: vec!["ci".to_owned()],
        established: true,
        earlier_ends: Vec::new(),
    };
    let side = |variant| Side { target: name("vllm"), variant: name(variant) };
    let regressed = "`ttft_ms_p99` of chat at c64 changed by +12.1 %, beyond the budget of 5.0 %";
    let verdict = Verdict {
        contract: "assay-gate/11".to_owned(),
        gate: name("pull-request"),
        outcome: Outcome::Regressed,
        blocks: true,
        reasons: vec![Reason::new("regressed", regressed)],
        policy: GatePolicy {
            path: "pipelines/pull-request.yaml".to_owned(),
            digest: Digest::compute(b"policy"),
            commit: Some("0a1b2c3d4e5f60718293a4b5c6d7e8f901234567".to_owned()),
            q: 0.05,
            looks: vec![0.3, 0.3, 0.4],
            budget: 0.05,
            metrics: Vec::new(),
            block_on_inconclusive: false,
            slo: true,
            provenance: false,
            max_error_rate: Some(0.01),
            max_output_drift: None,
        },
        comparison: Comparison {
            baseline: side("main"),
            candidate: side("patched"),
            variable_under_test: "runtime_version".to_owned(),
            other: None,
        },
        placement: Placement::Coexist,
        isolation: Isolation::Flush,
        unit: PairUnit::Pair,
        runs: vec![run],
        learned: Some(Digest::compute(b"learned")),
        sequence: Sequence { name: name("pr-17"), look: 2, earlier: vec![Digest::compute(b"the first")] },
        judged_on: instant("2026-11-20T12:00:00.000000000Z"),
        acknowledgements: vec![
            acknowledgement("e2e_ms_p99", Some("c8"), 0.10, "longer-responses", later),
            acknowledgement("tpot_ms_p50", None, 0.08, "slower-decoding", later),
            acknowledgement("itl_ms_p99", None, 0.02, "old", "2026-11-01T00:00:00.000000000Z"),
        ],
        policy_changes: Vec::new(),
        definition_changes: Vec::new(),
        differences: Vec::new(),
        checks: vec![Check {
            name: "validity".to_owned(),
            scope: "run pull-17-b".to_owned(),
            passed: true,
            blocks: false,
            detail: "every planned trial counts".to_owned(),
            acknowledged: None,
        }],
        metrics: metrics(),
        files: Vec::new(),
    };
    let signature = ChainSignature {
        stage: Role::Gate,
        name: "verdict".to_owned(),
        signer: "ci".to_owned(),
        key_fingerprint: "SHA256:7Qm2".to_owned(),
        manifest: Digest::compute(b"verdict"),
        bundle: Digest::compute(b"bundle"),
    };
    let summaries = BTreeMap::from([(digest, summary(&verdict))]);
    Model {
        verdict,
        signature: Some(signature),
        trust_policy: Some(("trust/main.yaml".to_owned(), Digest::compute(b"trust"))),
        unestablished: Vec::new(),
        earlier: vec![earlier(1, Outcome::Inconclusive)],
        summaries,
        why: None,
    }
}

/// Returns a verdict of `count` metrics: one in a hundred regressed, the others did not change.
pub(crate) fn many(count: usize) -> Model {
    let mut model = model();
    let unchanged = model.verdict.metrics.remove(0);
    let regressed = model.verdict.metrics.remove(3);
    let numbered = |number: usize| {
        let like = if number.is_multiple_of(100) { &regressed } else { &unchanged };
        MetricVerdict { metric: format!("{}_{number}", like.metric), ..like.clone() }
    };
    model.verdict.metrics = (0..count).map(numbered).collect();
    model
}
