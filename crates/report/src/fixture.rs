//! A small run as tests see it: two workloads, an unstable metric, an invalid attempt, a metric without interval, a point without
//! any counted trial.

use std::collections::BTreeMap;

use assay_manifest::{
    Artifact, Better, Block, Case, CaseId, Collection, Control, ControlFact, ControlState, Count, CuratedFile, Digest,
    Environment, Exclusion, Fact, FrozenWorkload, Grade, Host, HostFacts, HostRole, IndicatorWork, Instant, Intent, Interval,
    Isolation, ListedRun, Metric, MetricSummary, Name, OriginKind, PinnedFile, PipelineRef, Placement, Plan, PlannedTrial, Point,
    PointId, PointKind, PointSummary, Reason, Role, RunId, RunOutcome, RunStatus, Shortfall, Software, SourceRef, Stability,
    Summary, Target, TargetKind, TrialId, TrialOrder, TrialPolicy, TrialValue, Variant, WorkloadType,
};

use crate::{Inputs, Report, SignedBy};

/// Everything that [`Inputs`] borrows.
pub(crate) struct Model {
    pub(crate) run_id: RunId,
    pub(crate) plan: Plan,
    pub(crate) environment: Environment,
    pub(crate) collection: Collection,
    pub(crate) summary: Summary,
    pub(crate) grade: Grade,
    pub(crate) runs: Vec<ListedRun>,
    pub(crate) signers: Vec<SignedBy>,
    pub(crate) trust_policy: Option<(String, Digest)>,
    pub(crate) specs: BTreeMap<Name, String>,
    pub(crate) verify_hint: String,
}

impl Model {
    pub(crate) fn report(&self) -> Report {
        Report::build(&Inputs {
            run_id: &self.run_id,
            plan: &self.plan,
            environments: &[&self.environment],
            collection: &self.collection,
            summary: &self.summary,
            grade: &self.grade,
            runs: &self.runs,
            signers: &self.signers,
            trust_policy: self.trust_policy.clone(),
            workload_specs: self.specs.clone(),
            verify_hint: self.verify_hint.clone(),
        })
    }
}

/// The report of [`model`].
pub(crate) fn report() -> Report {
    model().report()
}

/// A run of `count` points with a primary metric of five trials each.
pub(crate) fn many_points(count: usize) -> Report {
    let mut model = model();
    for workload in &mut model.plan.workloads {
        workload.metrics.retain(|metric| metric.path == "triad.rate");
    }
    model.summary.status = RunStatus::Succeeded;
    let case = case("membw", &(0..count).map(|index| format!("p{index}")).collect::<Vec<_>>());
    let points = case.points.iter().enumerate().map(|(index, point)| {
        let base = 10.0 + index as f64 * 0.01;
        let values = [0.0, 0.1, -0.05, 0.02, 0.07].map(|delta| base + delta);
        point_summary(&case.case_id, point.point_id.as_str(), 5, vec![metric("triad.rate", "GB/s", &values, Kind::Stable)])
    });
    model.summary.points = points.collect();
    model.plan.trials = planned(&[&case]);
    model.plan.cases = vec![case];
    model.report()
}

pub(crate) fn model() -> Model {
    let membw = case("membw", &["1", "64"]);
    let matmul = case("matmul", &["256", "1024"]);
    let mut spoiled = point_summary(&matmul.case_id, "1024", 0, Vec::new());
    spoiled.attempts = 6;
    spoiled.excluded =
        (0..5).map(|index| excluded(&matmul.case_id, "1024", index, "time_limit", "stopped after 20.0 s")).collect();
    spoiled.excluded.push(excluded(&matmul.case_id, "1024", 0, "malformed", "stdout is not JSON: expected `{` at line 1"));
    let mut bumpy = point_summary(
        &membw.case_id,
        "64",
        5,
        vec![
            metric("triad.rate", "GB/s", &[11.9, 12.4, 9.1, 12.2, 14.8], Kind::Unstable),
            metric("elapsed", "ns", &[21_400_000.0, 20_900_000.0, 28_100_000.0, 21_000_000.0, 17_300_000.0], Kind::Unstable),
        ],
    );
    bumpy.attempts = 6;
    bumpy.excluded.push(excluded(&membw.case_id, "64", 2, "interrupted", "the machine went away in the middle of it"));
    let points = vec![
        point_summary(
            &membw.case_id,
            "1",
            5,
            vec![
                metric("triad.rate", "GB/s", &[31.42, 31.55, 31.38, 31.61, 31.47], Kind::Stable),
                metric("elapsed", "ns", &[412_345.0, 410_210.0, 415_900.0, 409_876.0, 411_000.0], Kind::Stable),
            ],
        ),
        bumpy,
        point_summary(&matmul.case_id, "256", 5, vec![metric("rate", "GFLOPS", &[148.2, 148.9], Kind::NoInterval)]),
        spoiled,
    ];
    Model {
        run_id: RunId::new("quickstart-2026-11-20").expect("a run id"),
        plan: plan(vec![membw, matmul]),
        environment: environment(),
        collection: collection(),
        summary: summary(points),
        grade: Grade {
            asked: Intent::Publication,
            given: Intent::Realism,
            shortfalls: vec![
                Shortfall { rule: "locked_clocks".to_owned(), found: "absent: the governor is `powersave`".to_owned() },
                Shortfall { rule: "counted_trials".to_owned(), found: "matmul.host.default, size 1024: 0 of 5".to_owned() },
            ],
        },
        runs: vec![
            listed("quickstart-2026-11-20", RunOutcome::This),
            listed("quickstart-2026-11-19", RunOutcome::Finished),
            listed("quickstart-2026-11-18", RunOutcome::Cancelled),
        ],
        signers: Role::RUN.iter().map(|role| signed(*role)).collect(),
        trust_policy: Some(("local".to_owned(), digest("trust"))),
        specs: ["membw", "matmul"].into_iter().map(|workload| (name(workload), spec(workload))).collect(),
        verify_hint: "assay verify quickstart-2026-11-20".to_owned(),
    }
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn artifact(text: &str, size: u64) -> Artifact {
    Artifact { name: text.to_owned(), digest: digest(text), size: Count(size), media_type: "application/octet-stream".to_owned() }
}

fn spec(workload: &str) -> String {
    format!("{{\n  \"type\": \"indicator\",\n  \"script\": \"workloads/{workload}/run\",\n  \"timeLimit\": \"20s\"\n}}")
}

fn case(workload: &str, sizes: &[impl AsRef<str>]) -> Case {
    let point = |size: &str| Point {
        point_id: PointId::new(size).expect("a point id"),
        kind: PointKind::Parameters,
        value: BTreeMap::from([("size".to_owned(), size.to_owned())]),
        load_recipe_digest: None,
    };
    Case {
        case_id: CaseId::of(&name(workload), &name("host"), &name("default")),
        workload: name(workload),
        target: name("host"),
        variant: name("default"),
        points: sizes.iter().map(|size| point(size.as_ref())).collect(),
    }
}

fn planned(cases: &[&Case]) -> Vec<PlannedTrial> {
    let points = cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
    // Interleaved, and not in the order of the trials' numbers.
    let order = [3, 0, 4, 1, 2];
    let trial = |index: u32, case: &Case, point: &Point| PlannedTrial {
        trial_id: TrialId::of(&case.case_id, &point.point_id, index),
        case_id: case.case_id.clone(),
        point_id: point.point_id.clone(),
        index,
        block: 0,
    };
    let points: Vec<_> = points.collect();
    order.into_iter().flat_map(|index| points.iter().map(move |(case, point)| trial(index, case, point))).collect()
}

fn plan(cases: Vec<Case>) -> Plan {
    let seed = "5eed".repeat(16);
    let workload = |workload: &str, metrics: Vec<Metric>| FrozenWorkload {
        name: name(workload),
        workload_type: WorkloadType::Indicator,
        workload_spec_digest: digest(&spec(workload)),
        spec: artifact(&format!("workloads/{workload}"), 96),
        seed: seed.clone(),
        metrics,
        image: None,
        indicator: Some(IndicatorWork {
            script: PinnedFile {
                path: "run".to_owned(),
                origin: format!("workloads/{workload}/run"),
                executable: true,
                artifact: artifact(&format!("{workload}/run"), 412),
            },
            files: vec![PinnedFile {
                path: format!("{workload}.c"),
                origin: format!("workloads/{workload}/{workload}.c"),
                executable: false,
                artifact: artifact(&format!("{workload}/{workload}.c"), 3_120),
            }],
            parameters: BTreeMap::new(),
            prepare: None,
            time_limit_ns: Count(20_000_000_000),
        }),
    };
    let declared =
        |path: &str, unit: &str, better, primary| Metric { path: path.to_owned(), unit: unit.to_owned(), better, primary };
    Plan {
        pipeline: PipelineRef {
            name: name("quickstart"),
            path: "pipelines/quickstart.yaml".to_owned(),
            digest: digest("pipeline"),
        },
        source: SourceRef {
            kind: OriginKind::Git,
            repository: Some("https://git.example/bench.git".to_owned()),
            commit: Some("9f3c2a7be01d4c55a8e6f7180b2d93c4e5f60718".to_owned()),
            dirty: false,
            files_digest: digest("files"),
        },
        intent: Intent::Publication,
        claim: Some(assay_manifest::Claim {
            methodology: "five interleaved trials of each size, one process at a time".to_owned(),
            representative: false,
            statement: "memory bandwidth and matrix products of one machine; says nothing about any application".to_owned(),
        }),
        controls: Vec::new(),
        pricing: None,
        workloads: vec![
            workload(
                "membw",
                vec![declared("triad.rate", "GB/s", Better::Higher, true), declared("elapsed", "ns", Better::Lower, false)],
            ),
            workload("matmul", vec![declared("rate", "GFLOPS", Better::Higher, true)]),
        ],
        targets: vec![Target {
            name: name("host"),
            kind: TargetKind::Host,
            url: None,
            command: Vec::new(),
            env: Vec::new(),
            ready_http: None,
            ready_timeout_ns: Count(0),
            image: None,
            hardware: BTreeMap::new(),
        }],
        variants: vec![Variant { name: name("default"), env: Vec::new() }],
        trials: planned(&cases.iter().collect::<Vec<_>>()),
        cases,
        trial_policy: TrialPolicy { count: 5, retry_budget: 2 },
        isolation: Isolation::None,
        placement: Placement::Coexist,
        comparison: None,
        order: TrialOrder { seed, digest: digest("order") },
        unpinned: Vec::new(),
        queries: Vec::new(),
    }
}

fn environment() -> Environment {
    let control = |control, state, evidence: &str| ControlFact { control, state, evidence: evidence.to_owned() };
    Environment {
        plan_digest: digest("plan"),
        block: Block { index: 0, incarnation: 0 },
        observed_at: Instant::from_unix_ns(1_795_176_000_000_000_000),
        hosts: vec![Host { name: "bench-1".to_owned(), roles: vec![HostRole::Target, HostRole::Client], facts: facts() }],
        software: vec![Software { name: "cc".to_owned(), version: Fact::observed("13.2.0".to_owned(), "cc --version") }],
        targets: Vec::new(),
        controls: vec![
            control(Control::DedicatedNodes, ControlState::Declared, "the pipeline says so"),
            control(Control::FixedTopology, ControlState::Proved, "one boot id in all blocks"),
            control(Control::LockedClocks, ControlState::Absent, "the governor is `powersave`"),
        ],
        placement: BTreeMap::new(),
        pricing: None,
        readings: Vec::new(),
    }
}

fn facts() -> HostFacts {
    let seen = |text: &str| Fact::observed(text.to_owned(), "/proc/cpuinfo");
    HostFacts {
        boot_id: Fact::observed("6a0d8c0e-5f6f-4e0e-9c1f-1f0c3f1d2b4a".to_owned(), "/proc/sys/kernel/random/boot_id"),
        operating_system: Fact::observed("Debian GNU/Linux 12".to_owned(), "/etc/os-release"),
        kernel: Fact::observed("6.8.0-45-generic".to_owned(), "uname"),
        architecture: Fact::observed("x86_64".to_owned(), "uname"),
        virtualization: Fact::unknown("no hypervisor flag, no container mark"),
        cpu_vendor: seen("AuthenticAMD"),
        cpu_model: seen("AMD EPYC 9354 32-Core Processor"),
        cpu_signature: seen("25/17/1"),
        microcode: Fact::unknown("/proc/cpuinfo does not say"),
        cpu_flags: Fact::observed(vec!["avx2".to_owned()], "/proc/cpuinfo"),
        sockets: Fact::observed(1, "/sys"),
        cores: Fact::observed(32, "/sys"),
        logical_cpus: Fact::observed(64, "/sys"),
        usable_cpus: Fact::observed(16, "sched_getaffinity"),
        smt: Fact::observed(true, "/sys"),
        governor: Fact::observed(vec!["powersave".to_owned()], "/sys"),
        max_frequency_khz: Fact::observed(Count(3_800_000), "/sys"),
        boost: Fact::declared(true, "pipeline"),
        caches: Fact::observed(vec!["L3 32 MiB x 8".to_owned()], "/sys"),
        numa: Fact::observed(vec!["0: 0-63".to_owned()], "/sys"),
        memory_bytes: Fact::observed(Count(270_582_939_648), "/proc/meminfo"),
        swap_bytes: Fact::observed(Count(0), "/proc/meminfo"),
        huge_pages: Fact::observed("madvise".to_owned(), "/sys"),
        cgroup_cpu_millis: Fact::observed(Count(16_000), "cpu.max"),
        cgroup_memory_bytes: Fact::unknown("memory.max says max"),
        clock_source: Fact::observed("tsc".to_owned(), "/sys"),
        clock_synchronised: Fact::observed(true, "adjtimex"),
        gpus: Fact::observed(Vec::new(), "nvidia-smi is absent"),
        network_cards: Fact::observed(Vec::new(), "/sys/class/net"),
    }
}

fn collection() -> Collection {
    Collection {
        plan_digest: digest("plan"),
        trials: Vec::new(),
        drift: Vec::new(),
        evidence: artifact("evidence.json", 8_192),
        evidence_count: Count(88),
        evidence_bytes: Count(4_404_019),
    }
}

fn summary(points: Vec<PointSummary>) -> Summary {
    let file = |table: &str| CuratedFile {
        table: table.to_owned(),
        rows: Count(120),
        artifact: artifact(&format!("{table}/part-0.parquet"), 18_432),
    };
    Summary {
        plan_digest: digest("plan"),
        artifact_manifest_digest: digest("collection"),
        reduce_binary: digest("reduce"),
        status: RunStatus::Partial,
        issues: Vec::new(),
        points,
        files: vec![file("benchmark_run_fact"), file("outcome_fact")],
    }
}

fn point_summary(case_id: &CaseId, point: &str, counted: u32, metrics: Vec<MetricSummary>) -> PointSummary {
    let point_id = PointId::new(point).expect("a point id");
    let place = format!("{case_id}.{point}");
    let locate = |mut metric: MetricSummary| {
        for (statistic, row) in &mut metric.rows {
            *row = digest(&format!("{place} {} {statistic}", metric.metric));
        }
        for (index, trial) in (0..).zip(&mut metric.trials) {
            trial.trial_id = TrialId::of(case_id, &point_id, index);
            trial.row_id = digest(&format!("{} {}", trial.trial_id, metric.metric));
        }
        metric
    };
    PointSummary {
        case_id: case_id.clone(),
        point_id: point_id.clone(),
        workload_type: WorkloadType::Indicator,
        workload_spec_digest: digest(&spec(case_id.names()[0])),
        value: BTreeMap::from([("size".to_owned(), point.to_owned())]),
        trials_planned: 5,
        trials_counted: metrics.first().map_or(counted, |metric| u32::try_from(metric.trials.len()).expect("few")),
        attempts: 5,
        excluded: Vec::new(),
        metrics: metrics.into_iter().map(locate).collect(),
    }
}

enum Kind {
    Stable,
    Unstable,
    NoInterval,
}

fn metric(path: &str, unit: &str, values: &[f64], kind: Kind) -> MetricSummary {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max, middle) = (sorted[0], sorted[sorted.len() - 1], sorted.len() / 2);
    let median = if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let sd = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt();
    let (stability, reason) = match kind {
        Kind::Stable => (Stability::Stable, "no noise above 5.00 %, no drift, no second mode"),
        Kind::Unstable => {
            (Stability::Unstable, "noise: the coefficient of variation is 16.93 %, above the limit of 5.00 % (robust: 3.68 %)")
        }
        Kind::NoInterval => (Stability::Unknown, "too few trials: 2, and a verdict needs 5"),
    };
    let absent = matches!(kind, Kind::NoInterval);
    let trial = TrialId::of(&CaseId::of(&name("w"), &name("t"), &name("v")), &PointId::new("p").expect("a point id"), 0);
    let value = |value: &f64| TrialValue {
        trial_id: trial.clone(),
        attempt: 0,
        value: *value,
        n: Count(3),
        flagged: (*value - 9.1).abs() < 1e-9,
        row_id: digest(""),
    };
    MetricSummary {
        metric: path.to_owned(),
        unit: unit.to_owned(),
        better: Some(if unit == "ns" { Better::Lower } else { Better::Higher }),
        primary: unit != "ns",
        n: Count(values.len() as u64),
        median,
        mean,
        sd: Some(sd),
        cv: Some(sd / mean),
        min,
        max,
        interval: (!absent).then(|| Interval { low: min, high: max, level: 0.9375, method: "order_statistic".to_owned() }),
        interval_absent: absent.then(|| "2 samples bound the median with 50.0 % confidence at most; 5 are needed".to_owned()),
        stability,
        stability_reason: reason.to_owned(),
        rows: ["median", "ci_low", "ci_high"].into_iter().map(|statistic| (statistic.to_owned(), digest(""))).collect(),
        trials: values.iter().map(value).collect(),
    }
}

fn excluded(case_id: &CaseId, point: &str, index: u32, code: &str, detail: &str) -> Exclusion {
    let trial_id = TrialId::of(case_id, &PointId::new(point).expect("a point id"), index);
    Exclusion { trial_id, attempt: 0, reasons: vec![Reason::new(code, detail)] }
}

fn listed(run: &str, outcome: RunOutcome) -> ListedRun {
    let cases = vec!["membw.host.default".to_owned()];
    ListedRun { run_id: RunId::new(run).expect("a run id"), cases, outcome, evidence: None }
}

fn signed(stage: Role) -> SignedBy {
    SignedBy {
        stage,
        name: stage.to_string(),
        signer: "bench-1, local keys".to_owned(),
        key_fingerprint: format!("SHA256:{}", &digest(&format!("key {stage}")).hex()[..43]),
        manifest: digest(&format!("manifest {stage}")),
        bundle: digest(&format!("bundle {stage}")),
    }
}
