use assay_manifest::{ForeignPairing, InputRef, Kind, RunId};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};
use serde_json::json;

use super::*;

/// Tables in which `time` is better if lower and `rate` if higher, and a part `configuration` has no numbers.
struct Tables;

impl MetricDefinitions for Tables {
    fn is_level(&self, statistic: &str) -> bool {
        !["std", "count", "sum"].contains(&statistic)
    }

    fn better(&self, number: &ForeignNumber) -> Option<BetterDirection> {
        let metric = number.metric.as_str();
        match metric {
            "tool.time" | "tool.other" => Some(BetterDirection::Lower),
            "tool.rate" => Some(BetterDirection::Higher),
            _ => None,
        }
    }

    fn holds_numbers(&self, _: &str, part: &str) -> bool {
        part != "configuration"
    }
}

/// A row: metric, statistic, unit and value.
type Row<'a> = (&'a str, &'a str, &'a str, f64);

/// Returns evidence with these rows and a file of this content.
fn evidence(rows: &[Row<'_>], content: &str) -> ForeignEvidence {
    let rows: Vec<_> = rows
        .iter()
        .map(|(metric, statistic, unit, value)| json!({"metric": metric, "statistic": statistic, "unit": unit, "value": value, "labels": {}}))
        .collect();
    let artifact = |text: &str| json!({"name": "files/0000", "digest": Digest::compute(text.as_bytes()), "size": "1", "media_type": "text/plain"});
    serde_json::from_value(json!({
        "imported_at": "2026-01-01T00:00:00.000000000Z", "format": "tool", "tool_version": "1.0",
        "importer": {"version": "1", "program": Digest::compute(b"")},
        "files": [{"path": "r.json", "part": "results", "artifact": artifact(content)}, {"path": "c.json", "part": "configuration", "artifact": artifact("c")}],
        "rows": rows, "not_read": [], "left_out": [], "key": artifact("key"),
    }))
    .expect("foreign evidence")
}

/// The pieces of both sides, with the names and times by which they are paired.
struct Given {
    pieces: [Vec<(String, i64, ForeignEvidence)>; 2],
    rules: ForeignGateRules,
}

impl Given {
    /// Returns pieces `before-N` and `after-N` with one time each.
    fn times(baseline: &[f64], candidate: &[f64]) -> Self {
        Self::of("before", "after", baseline, candidate, "tool.time")
    }

    fn of(first: &str, second: &str, baseline: &[f64], candidate: &[f64], metric: &str) -> Self {
        let side = |name: &str, values: &[f64]| {
            let piece = |(place, value): (usize, &f64)| {
                let name = format!("{name}-{}", place + 1);
                let evidence = evidence(&[(metric, "mean", "s", *value)], &name);
                (name, 0, evidence)
            };
            values.iter().enumerate().map(piece).collect()
        };
        let rules = ForeignGateRules {
            path: None,
            digest: Digest::compute(b""),
            q: 0.05,
            budget: 0.05,
            metrics: Vec::new(),
            block_on_inconclusive: false,
            allow_foreign: false,
        };
        Self { pieces: [side(first, baseline), side(second, candidate)], rules }
    }

    fn judge(&self) -> Result<ForeignVerdict, ForeignRefusal> {
        let side = |pieces: &'_ [(String, i64, ForeignEvidence)]| -> Vec<ForeignPiece> {
            pieces.iter().map(|(name, at, evidence)| describe_piece(name, *at, evidence)).collect()
        };
        let imported = |place: usize| {
            let pieces = side(&self.pieces[place]);
            pieces
                .into_iter()
                .zip(&self.pieces[place])
                .map(|(piece, (_, _, evidence))| ImportedPiece { piece, evidence })
                .collect()
        };
        let gate: Name = "peers".parse().expect("a name");
        judge_foreign(&ForeignInput {
            gate: &gate,
            rules: self.rules.clone(),
            baseline: imported(0),
            candidate: imported(1),
            definitions: &Tables,
            judged_on: Instant::from_unix_ns(0),
            files: Vec::new(),
        })
    }

    fn verdict(&self) -> ForeignVerdict {
        self.judge().expect("judged")
    }
}

fn describe_piece(name: &str, at: i64, evidence: &ForeignEvidence) -> ForeignPiece {
    let digest = Digest::compute(name.as_bytes());
    let name: RunId = name.parse().expect("a name");
    ForeignPiece {
        name,
        evidence: InputRef { kind: Kind::ForeignEvidence, manifest: digest, bundle: digest },
        format: evidence.format.clone(),
        format_version: evidence.format_version.clone(),
        tool: evidence.tool.clone(),
        tool_version: evidence.tool_version.clone(),
        imported_at: Instant::from_unix_ns(at),
        signer: "local-import".to_owned(),
        established: true,
    }
}

/// Returns `n` values with a ripple of half a percent, `ratio` times 100.
fn values(n: u32, ratio: f64, step: u32) -> Vec<f64> {
    (0..n).map(|i| ratio * (100.0 + f64::from(i * step % 7) * 0.1)).collect()
}

fn outcome_of(given: &Given) -> (Outcome, ForeignPairing) {
    let verdict = given.verdict();
    (verdict.outcome, verdict.pairing)
}

#[test]
fn a_slower_candidate_is_found_and_equal_sides_are_not_paired_or_not() {
    for (second, pairing) in [("after", ForeignPairing::Names), ("x-after", ForeignPairing::Names)] {
        let given = |ratio: f64| Given::of("before", second, &values(12, 1.0, 5), &values(12, ratio, 3), "tool.time");
        let found = [0.8, 1.0, 1.2].map(|ratio| outcome_of(&given(ratio)));
        assert_eq!(found, [Outcome::Improved, Outcome::Unchanged, Outcome::Regressed].map(|outcome| (outcome, pairing)));
    }
    let unpaired = |ratio: f64| Given::times(&values(12, 1.0, 5), &values(14, ratio, 3));
    let found = [0.8, 1.0, 1.2].map(|ratio| outcome_of(&unpaired(ratio)));
    assert_eq!(
        found,
        [Outcome::Improved, Outcome::Unchanged, Outcome::Regressed].map(|outcome| (outcome, ForeignPairing::Unpaired))
    );
    let higher = |ratio: f64| Given::of("before", "after", &values(12, 1.0, 5), &values(14, ratio, 3), "tool.rate");
    assert_eq!([0.8, 1.2].map(|ratio| higher(ratio).verdict().outcome), [Outcome::Regressed, Outcome::Improved]);
    let change = higher(0.8).verdict().metrics[0].change.clone().expect("a change");
    assert!((change.ratio - 0.8).abs() < 0.01 && change.low < Some(0.8) && change.high > Some(0.8), "{change:?}");
}

#[test]
fn a_verdict_states_what_it_is_over_and_blocks_only_if_its_rules_allow_it() {
    let mut given = Given::times(&values(12, 1.0, 5), &values(12, 1.2, 3));
    let verdict = given.verdict();
    assert_eq!((verdict.about.as_str(), verdict.advisory, verdict.blocks), (ForeignVerdict::ABOUT, true, false));
    let reason = verdict.reasons[0].detail.as_str();
    assert!(
        reason.starts_with("`tool.time` (mean) changed by +") && reason.ends_with(" %, beyond the budget of 5.0 %"),
        "{reason}"
    );
    given.rules.block_on_inconclusive = true;
    assert!(!given.verdict().blocks);
    given.rules.allow_foreign = true;
    assert!(given.verdict().blocks && !given.verdict().advisory);
    let few = |block| {
        let mut given = Given::times(&[1.0], &[1.1]);
        (given.rules.allow_foreign, given.rules.block_on_inconclusive) = (true, block);
        (given.verdict().outcome, given.verdict().blocks)
    };
    assert_eq!([false, true].map(few), [(Outcome::Inconclusive, false), (Outcome::Inconclusive, true)]);
}

#[test]
fn too_few_pieces_are_inconclusive_with_the_number_that_is_missing() {
    let reason = |given: Given| {
        let verdict = given.verdict();
        let metric = verdict.metrics[0].clone();
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        (metric.reason.expect("a reason").detail, metric.more_pieces)
    };
    let (paired, more) = reason(Given::times(&values(3, 1.0, 5), &values(3, 2.0, 3)));
    assert!(paired.starts_with("there are 3 pairs of pieces, and the rules need at least 6; import "), "{paired}");
    assert!(more >= Some(3) && paired.contains(&format!("import {} more of each side", more.unwrap_or_default())), "{more:?}");
    let (single, _) = reason(Given::times(&values(1, 1.0, 5), &values(1, 2.0, 3)));
    assert!(single.starts_with("there is 1 pair of pieces, and the rules need at least 6; import "), "{single}");
    let (unpaired, more) = reason(Given::times(&values(3, 1.0, 5), &values(2, 2.0, 3)));
    assert_eq!(unpaired, "3 and 2 pieces cannot show a change of any size, and 4 of each side can");
    assert_eq!(more, Some(2));
    assert_eq!(Given::times(&values(3, 1.0, 5), &values(5, 2.0, 3)).verdict().outcome, Outcome::Regressed, "3 of 8 are 56 ways");
    // Enough pieces, and too much noise.
    let noisy = |step: u32| (0..8).map(|i| 100.0 + f64::from(i * step % 7) * 20.0).collect::<Vec<f64>>();
    let (text, _) = reason(Given::times(&noisy(5), &noisy(3)));
    assert!(text.contains("a verdict needs 10.0 %") && !text.contains("the rules need at least"), "{text}");
    let (text, _) = reason(Given::times(&noisy(5), &noisy(3)[..7]));
    assert!(text.contains("a verdict has to exclude 10.0 %") && !text.contains("of any size"), "{text}");
}

#[test]
fn only_numbers_of_one_definition_unit_and_labels_with_a_direction_are_judged() {
    let mut given = Given::times(&values(12, 1.0, 5), &values(12, 1.0, 3));
    let row = |metric: &str, statistic: &str, unit: &str, labels: serde_json::Value| -> assay_manifest::ForeignRow {
        serde_json::from_value(json!({"metric": metric, "statistic": statistic, "unit": unit, "value": 1.0, "labels": labels}))
            .expect("a row")
    };
    for (side, unit, load) in [(0, "s", "1"), (1, "ms", "2")] {
        for (_, _, evidence) in &mut given.pieces[side] {
            evidence.rows.extend([
                row("tool.other", "mean", unit, json!({})),
                row("tool.other", "p50", "s", json!({"load": load})),
                row("tool.size", "value", "bytes", json!({})),
                row("tool.time", "std", "s", json!({})),
                row("tool.time", "p99", "s", json!({})),
            ]);
        }
    }
    let verdict = given.verdict();
    let judged: Vec<_> = verdict.metrics.iter().map(|metric| (metric.number.statistic.as_str(), metric.primary)).collect();
    assert_eq!(judged, [("mean", true), ("p99", false)], "one statistic of a metric decides");
    let why = |metric: &str| -> BTreeSet<&str> {
        let of_metric = verdict.not_judged.iter().filter(|found| found.number.metric == metric);
        of_metric.map(|found| found.why.as_str()).collect()
    };
    assert_eq!(
        why("tool.other").into_iter().collect::<Vec<_>>(),
        ["only the baseline has it with this unit and these labels", "only the candidate has it with this unit and these labels"]
    );
    assert_eq!(why("tool.size").into_iter().collect::<Vec<_>>(), ["no reviewed table states which direction is better"]);
    assert_eq!(why("tool.time").into_iter().collect::<Vec<_>>(), ["its statistic is no level of the metric"]);
    assert_eq!(verdict.not_judged_count, Count(6));
    given.rules.metrics = vec!["tool.time_p99".to_owned()];
    let judged: Vec<_> = given.verdict().metrics.iter().map(|metric| metric.primary).collect();
    assert_eq!(judged, [false, true]);
    for unknown in ["tool.size", "tool.time_std", "tool.other", "time"] {
        given.rules.metrics = vec![unknown.to_owned()];
        assert_eq!(given.judge(), Err(ForeignRefusal::UnknownMetric(unknown.to_owned())));
    }
}

#[test]
fn an_observation_that_is_given_twice_is_refused() {
    let fresh = || Given::times(&values(6, 1.0, 5), &values(6, 1.0, 3));
    fresh().verdict();
    for (from, to) in [((0, 0), (0, 1)), ((0, 0), (1, 3))] {
        // The same digest: a name that is given twice, on one side or on both.
        let mut given = fresh();
        given.pieces[to.0][to.1] = given.pieces[from.0][from.1].clone();
        assert_eq!(given.judge(), Err(ForeignRefusal::SameEvidence { name: "before-1".to_owned() }));
        // Another import of the same file.
        let mut given = fresh();
        given.pieces[to.0][to.1].2 = given.pieces[from.0][from.1].2.clone();
        let refused = given.judge().expect_err("the same file");
        assert!(
            matches!(&refused, ForeignRefusal::SameFile { first, path, .. } if first == "before-1" && path == "r.json"),
            "{refused}"
        );
        assert!(refused.is_twice());
    }
    let nothing = Given::of("before", "after", &[1.0], &[1.0], "tool.time");
    let mut none = Given::times(&[1.0], &[1.0]);
    none.pieces[1][0].2 = evidence(&[("tool.rate", "mean", "s", 1.0)], "other");
    assert_eq!(none.judge(), Err(ForeignRefusal::NothingInCommon(None)));
    // An earlier import has fewer labels.
    let mut older = Given::times(&[1.0], &[1.0]);
    older.pieces[1][0].2.rows[0].labels.insert("datasets.main.path".to_owned(), "p.jsonl".to_owned());
    let refused = older.judge().expect_err("other labels").to_string();
    assert!(refused.ends_with("in common: their labels differ: the candidate alone has `datasets.main.path`"), "{refused}");
    assert!(nothing.judge().is_ok(), "a configuration may be the same file in all imports");
    let mut empty = Given::times(&[1.0], &[]);
    assert_eq!(empty.judge(), Err(ForeignRefusal::PieceCount { side: "candidate", count: 0 }));
    empty = Given::times(&vec![1.0; MAX_PIECES + 1], &[1.0]);
    assert_eq!(empty.judge(), Err(ForeignRefusal::PieceCount { side: "baseline", count: MAX_PIECES + 1 }));
}

#[test]
fn another_tool_or_version_decides_nothing() {
    let with = |format: &str, version: Option<&str>| {
        let mut given = Given::times(&values(12, 1.0, 5), &values(12, 2.0, 3));
        let piece = &mut given.pieces[1][3].2;
        (piece.format, piece.tool_version) = (format.to_owned(), version.map(str::to_owned));
        given.verdict()
    };
    assert_eq!(with("tool", Some("1.0")).outcome, Outcome::Regressed);
    assert!(with("tool", Some("1.0")).remarks.is_empty());
    for verdict in [with("tool", Some("1.1")), with("other", Some("1.0"))] {
        assert_eq!((verdict.outcome, verdict.differences.len()), (Outcome::Inconclusive, 1));
        assert!(verdict.reasons[0].detail.contains("which may be all of a change"), "{:?}", verdict.reasons);
    }
    // An unknown version is stated, and hides no regression.
    let unknown = with("tool", None);
    assert_eq!((unknown.outcome, unknown.remarks.len()), (Outcome::Regressed, 1));
    let mut made = Given::times(&values(12, 1.0, 5), &values(12, 2.0, 3));
    for (_, _, evidence) in made.pieces.iter_mut().flatten() {
        (evidence.format_version, evidence.tool) = (Some("0.2".to_owned()), Some("vllm".to_owned()));
    }
    assert_eq!(made.verdict().differences, []);
    made.pieces[1][3].2.tool = Some("guidellm".to_owned());
    assert_eq!(made.verdict().differences[0].candidate, "guidellm, vllm", "the tool that measured, and not the format");
    assert!(unknown.remarks[0].starts_with("the files of 1 of 24 pieces do not state the version"), "{:?}", unknown.remarks);
}

#[test]
fn the_remarks_of_a_piece_are_quoted_and_it_is_judged() {
    let mut given = Given::times(&values(12, 1.0, 5), &values(12, 2.0, 3));
    given.pieces[1][3].2.remarks = (0..12).map(|number| format!("remark {number}")).collect();
    let verdict = given.verdict();
    assert_eq!((verdict.outcome, verdict.remarks.len()), (Outcome::Regressed, MAX_QUOTED + 1));
    assert_eq!(verdict.remarks[0], "`after-4`: remark 0");
    assert_eq!(verdict.remarks[MAX_QUOTED], "2 more remarks about the pieces: `assay show` lists them");
}

#[test]
fn pieces_are_paired_by_their_names_or_by_turns_in_time() {
    let order = |given: &Given| -> Vec<(String, String)> {
        let verdict = given.verdict();
        let name = |piece: &ForeignPiece| piece.name.to_string();
        verdict.baseline.iter().map(name).zip(verdict.candidate.iter().map(name)).collect()
    };
    let mut given = Given::times(&values(11, 1.0, 5), &values(11, 1.0, 3));
    given.pieces[0].reverse();
    assert_eq!(
        order(&given)[9..],
        [("before-10", "after-10"), ("before-11", "after-11")].map(|(one, other)| (one.to_owned(), other.to_owned()))
    );
    assert!((given.verdict().metrics[0].baseline[0] - 100.0).abs() < 1e-9, "the value of before-1");
    // Other names, imported in turns.
    let timed = |times: [[i64; 2]; 3]| {
        let mut given = Given::times(&values(3, 1.0, 5), &values(3, 1.0, 3));
        for (place, [one, other]) in times.into_iter().enumerate() {
            given.pieces[0][place].1 = one;
            given.pieces[1][place].1 = other;
            given.pieces[1][place].0 = ["red", "green", "blue"][place].to_owned();
        }
        given
    };
    assert_eq!(timed([[1, 2], [4, 3], [5, 6]]).verdict().pairing, ForeignPairing::Times);
    assert_eq!(timed([[1, 4], [2, 5], [3, 6]]).verdict().pairing, ForeignPairing::Unpaired, "one side after the other");
    assert_eq!(timed([[1, 1], [1, 1], [1, 1]]).verdict().pairing, ForeignPairing::Unpaired);
    let more = Given::times(&values(3, 1.0, 5), &values(4, 1.0, 3)).verdict();
    assert_eq!(more.pairing, ForeignPairing::Unpaired);
}

#[test]
fn a_value_that_a_piece_lacks_is_counted_and_one_without_a_ratio_decides_nothing() {
    let mut given = Given::times(&values(12, 1.0, 5), &values(12, 1.2, 3));
    given.pieces[1][4].2.rows.clear();
    let metric = given.verdict().metrics[0].clone();
    assert_eq!((metric.missing, metric.baseline.len(), metric.outcome), (1, 11, Outcome::Regressed));
    given.pieces[1].truncate(11);
    let metric = given.verdict().metrics[0].clone();
    assert_eq!((metric.missing, metric.baseline.len(), metric.candidate.len()), (1, 12, 10), "unpaired");
    given.pieces[1][3].2.rows[0].value = 0.0;
    let metric = given.verdict().metrics[0].clone();
    assert_eq!(metric.outcome, Outcome::Inconclusive);
    assert!(metric.reason.is_some_and(|reason| reason.code == "not_comparable"));
}

/// The number of families of sides without a change.
const FAMILIES: u32 = 400;

/// Sides without a change: the share of verdicts that find one has to stay below the limit of false alarms, for the rule of unpaired pieces.
#[test]
fn unpaired_sides_without_a_change_raise_no_more_alarms_than_allowed() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut normal = || {
        let share = (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
        libm::exp(0.02 * assay_stats::normal::quantile(share))
    };
    let rules = Rules { q: 0.05, budget: 0.001, unit: PairUnit::Launch, both_ways: false };
    let mut alarms = 0;
    for _ in 0..FAMILIES {
        let side = |n: usize, normal: &mut dyn FnMut() -> f64| (0..n).map(|_| normal()).collect::<Vec<f64>>();
        let family: Vec<unpaired::Sides> = (0..3)
            .map(|_| unpaired::Sides {
                better: BetterDirection::Lower,
                baseline: side(30, &mut normal),
                candidate: side(31, &mut normal),
            })
            .collect();
        let is_alarm = |judged: &unpaired::JudgedSides| matches!(judged.outcome, Outcome::Regressed | Outcome::Improved);
        alarms += u32::from(unpaired::judge(&family, &rules).iter().any(is_alarm));
    }
    assert!(alarms <= FAMILIES / 20, "{alarms} of {FAMILIES}");
}

#[test]
fn the_fewest_pieces_are_those_of_which_all_orders_are_counted() {
    let rules = Rules { q: 0.05, budget: 0.05, unit: PairUnit::Launch, both_ways: false };
    // Of 8 pieces 4 can be chosen in 70 ways, and of 6 pieces 3 in 20: 1 / 20 is above 2.5 %.
    assert_eq!([1, 2, 100].map(|family| unpaired::fewest_pieces(&rules, family)), [4, 5, 8]);
}
