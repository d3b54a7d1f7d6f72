//! Search results as `assay show` and `assay verify` print them. They find one by its digest.

use assay_manifest::{Case, Count, LoadKind, SearchGoal, SearchLoad, SearchObservation, SearchOutcome, SearchResult, Slo};
use assay_report::{counted, shell_word, significant};
use assay_runner::Config;
use assay_runs::{
    RunStore, VerifiedSearchResult, establish, find_search_result, key_beside_search_result, store_option, verify_search_result,
};
use assay_search::check_workload;
use assay_spec::{Closure, Work};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::Store;
use assay_verify::StoreBlobs;
use serde_json::{Value, json};

use crate::output;

/// A search result with the source of the trust that it was verified under.
struct Opened {
    result: VerifiedSearchResult,
    trusted_by: String,
    store_uri: String,
}

/// A search result of a store that is not verified yet.
pub(crate) struct Located {
    pub(super) store: Store,
    pub(super) reference: assay_manifest::InputRef,
}

/// Verifies a search result of a store, with the runs of its rounds.
fn open(place: &RunStore, Located { store, reference }: Located) -> Result<Opened, Failure> {
    let blobs = StoreBlobs::new(store.clone());
    let trust = establish(&place.trust, &Config::find()?, &blobs, &key_beside_search_result(&blobs, &reference)?)?;
    let result = verify_search_result(place, &store, &blobs, reference, &trust.trust)?;
    Ok(Opened { result, trusted_by: trust.source, store_uri: place.store_uri()? })
}

/// Verifies the search results that the workloads of a pipeline name, and refuses workloads that are not what the searches were for.
pub(crate) fn check_named_searches(place: &RunStore, closure: &Closure, cases: &[Case]) -> Result<(), Failure> {
    for workload in &closure.workloads {
        let Work::Serving(serving) = &workload.spec.work else { continue };
        let Some(digest) = serving.load.search else { continue };
        let missing = || {
            let message = format!("the store has no search result {digest}, which workload `{}` names", workload.name);
            Failure::new(ErrorCode::SearchMissing, message)
                .hint("name the store of the search with `--store`, or search again with `assay bench` and name the new result")
        };
        let store = place.open_store().map_err(|_| missing())?;
        let reference = find_search_result(&store, &digest.to_string())?.ok_or_else(missing)?;
        let opened = open(place, Located { store, reference })?;
        let slos: Vec<Slo> =
            serving.slos.iter().map(|slo| Slo { metric: slo.metric, at_most_ns: Count(slo.at_most_ns) }).collect();
        let model = workload.spec.dimensions.model.as_deref().unwrap_or_default();
        check_workload(opened.result.body(), &workload.name, cases, Some((&slos, model))).map_err(|mismatch| {
            let message = format!("workload `{}` is not what the search {} was for: {mismatch}", workload.name, digest.short());
            Failure::new(ErrorCode::SearchDiffers, message)
                .hint(format!("`assay show {digest}` prints the loads for a workload file"))
        })?;
    }
    Ok(())
}

/// Shows a search result of a store, verified before it is shown.
pub(crate) fn show(place: &RunStore, located: Located, as_json: bool) -> Result<Exit, Failure> {
    let opened = open(place, located)?;
    if as_json {
        print_json(&opened)?;
    } else {
        lines(&opened).into_iter().for_each(output::line);
    }
    Ok(output::established(opened.result.established))
}

/// Verifies a search result of a store, and reports what was checked.
pub(crate) fn verify(place: &RunStore, located: Located, as_json: bool) -> Result<Exit, Failure> {
    let opened = open(place, located)?;
    let VerifiedSearchResult { reference, signer, .. } = &opened.result;
    let body = opened.result.body();
    if as_json {
        print_json(&opened)?;
    } else {
        let rounds = counted(body.rounds.len() as u64, "round");
        let observed: usize = body.rounds.iter().map(|round| round.observations.len()).sum();
        output::line(format!("search {}", reference.manifest));
        output::line(format!("trust: {}", opened.trusted_by));
        output::line(format!("  ok  signed by {signer} for the role `source`"));
        output::line(format!("  ok  {rounds}, each a run whose chain is verified"));
        output::line(format!(
            "  ok  {} read again from the summaries of the runs, and equal",
            counted(observed as u64, "observation")
        ));
        output::line("  ok  the search, replayed from them, takes the same loads and the same end");
    }
    Ok(output::established(opened.result.established))
}

fn print_json(opened: &Opened) -> Result<(), Failure> {
    let VerifiedSearchResult { reference, manifest, signer, established } = &opened.result;
    output::json(&json!({
        "search_result": reference,
        "signer": signer,
        "established": established,
        "load": load_fields(&manifest.body, &reference.manifest.to_string()),
        "body": manifest.body,
    }))
}

/// Returns the fields of `spec.load` of a workload file that measures what a search found; `None` if it found no loads.
fn load_fields(result: &SearchResult, digest: &str) -> Option<Value> {
    let first = result.grid.first()?;
    let amounts: Vec<f64> = result.grid.iter().map(|load| load.amount).collect();
    let (mode, member, amounts) = match first.kind {
        LoadKind::Rate => ("open", "rate", json!(amounts)),
        LoadKind::Concurrency => {
            ("closed", "concurrency", json!(amounts.into_iter().map(|clients| clients as u64).collect::<Vec<_>>()))
        }
    };
    Some(json!({"mode": mode, member: amounts, "search": digest}))
}

/// Returns the lines that show a search result.
fn lines(opened: &Opened) -> Vec<String> {
    let (result, digest) = (opened.result.body(), opened.result.reference.manifest.to_string());
    let mut lines = vec![
        format!("search {digest}"),
        format!(
            "{} of `{}` at {}, ended {}, signed by {}",
            describe_goal(result.question.goal),
            result.work.model.escape_debug(),
            result.work.endpoint.escape_debug(),
            result.ended_at.to_seconds(),
            opened.result.signer
        ),
    ];
    lines.extend(slo_line(result));
    lines.push(String::new());
    for round in &result.rounds {
        lines.push(format!("run {}", round.run_id));
        lines.extend(round.observations.iter().map(describe_observation));
    }
    lines.push(String::new());
    lines.push(describe_end(result));
    if let Some(found) = &result.landmarks {
        lines.push(format!("idle at {}, knee at {}, limit at {}", found.idle.amount, found.knee.amount, found.limit.amount));
    }
    lines.extend(load_lines(result, &digest));
    lines.push(format!("verify    assay verify {}{}", shell_word(&digest), store_option(&opened.store_uri)));
    lines
}

fn slo_line(result: &SearchResult) -> Option<String> {
    let question = &result.question;
    let slos: Vec<String> = question
        .slos
        .iter()
        .map(|slo| format!("{} of at most {} ms", slo.metric.as_str(), slo.at_most_ns.0 as f64 / 1e6))
        .collect();
    let share = significant(question.share * 100.0, None);
    (!slos.is_empty()).then(|| format!("{share} % of the requests within {}", slos.join(" and ")))
}

/// Returns the lines to copy into a workload file; none if the search found no loads.
fn load_lines(result: &SearchResult, digest: &str) -> Vec<String> {
    let Some(first) = result.grid.first() else { return Vec::new() };
    let (mode, member) = match first.kind {
        LoadKind::Rate => ("open", "rate"),
        LoadKind::Concurrency => ("closed", "concurrency"),
    };
    let amounts: Vec<String> = result.grid.iter().map(|load| load.amount.to_string()).collect();
    vec![
        "in a workload file, under `spec`:".to_owned(),
        "  load:".to_owned(),
        format!("    mode: {mode}"),
        format!("    {member}: [{}]", amounts.join(", ")),
        format!("    search: {digest}"),
    ]
}

fn describe_goal(goal: SearchGoal) -> &'static str {
    match goal {
        SearchGoal::Sweep => "a sweep",
        SearchGoal::MaxRate => "a search for the highest rate within the SLOs",
        SearchGoal::MaxConcurrency => "a search for the highest concurrency within the SLOs",
    }
}

fn describe_load(load: SearchLoad) -> String {
    format!("{} {}", load.kind, load.amount)
}

fn describe_observation(seen: &SearchObservation) -> String {
    let load = describe_load(seen.load);
    if seen.over_saturated {
        return format!("  {load:<18} over-saturated, ended early");
    }
    if seen.error_rate >= 1.0 {
        return format!("  {load:<18} every request failed");
    }
    let good = seen.good_fraction.map(|share| format!(", {:.1} % within the SLOs", share * 100.0)).unwrap_or_default();
    let failed = if seen.error_rate > 0.0 { format!(", {:.1} % failed", seen.error_rate * 100.0) } else { String::new() };
    let (rate, latency) = (significant(seen.requests_per_s, None), significant(seen.mean_latency_s * 1e3, None));
    format!("  {load:<18} {rate} requests/s, mean E2E {latency} ms{good}{failed}")
}

fn describe_end(result: &SearchResult) -> String {
    let load = result.end.load.map(describe_load).unwrap_or_default();
    match (result.end.outcome, result.end.bracket) {
        (SearchOutcome::Found, Some(bracket)) => format!(
            "found: the SLOs are met at {} and not at {}",
            describe_load(bracket.meets),
            describe_load(bracket.falls_short)
        ),
        (SearchOutcome::Found | SearchOutcome::Swept, _) => {
            format!("swept: {} from an idle endpoint on", counted(result.grid.len() as u64, "load"))
        }
        (SearchOutcome::NoneMet, _) => format!("found nothing: {load} already falls short of the SLOs"),
        // A search for a rate puts closed loops on the endpoint, too, of which one may have fallen short.
        (SearchOutcome::AllMet, _) => {
            let kind = result.end.load.map_or("load", |load| load.kind.as_str());
            format!("found nothing: every {kind} that was tried meets the SLOs, up to {load}")
        }
        (SearchOutcome::Unsettled, _) => "found nothing: the observations contradict each other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a search result with an end and a grid.
    fn result(end: Value, grid: Value) -> SearchResult {
        let digest = assay_manifest::Digest::compute(b"");
        let seen = |amount: f64, error_rate: f64, over_saturated: bool| {
            json!({
                "load": {"kind": "rate", "amount": amount}, "requests": "9", "error_rate": error_rate, "requests_per_s": 20.0,
                "mean_latency_s": 0.25, "good_fraction": 0.5, "over_saturated": over_saturated,
            })
        };
        serde_json::from_value(json!({
            "ended_at": "2026-01-01T00:00:00.000000000Z",
            "question": {
                "goal": "max_rate", "slos": [{"metric": "ttft", "at_most_ns": "15000000"}], "share": 0.99, "precision": 0.05,
                "max_concurrency": 64,
            },
            "work": {"model": "m", "spec": digest, "target": digest, "endpoint": "simulator"},
            "rounds": [{
                "run_id": "search-1", "publication": digest,
                "observations": [seen(1.5, 0.0, false), seen(2.5, 0.25, false), seen(3.0, 1.0, false), seen(4.0, 0.0, true)],
            }],
            "end": end, "grid": grid,
            "key": {"name": SearchResult::KEY, "digest": digest, "size": "0", "media_type": "application/x-pem-file"},
        }))
        .expect("a search result")
    }

    fn rates(amounts: &[f64]) -> Value {
        amounts.iter().map(|amount| json!({"kind": "rate", "amount": amount})).collect()
    }

    #[test]
    fn the_loads_are_printed_as_a_workload_file_has_them() {
        let found = result(json!({"outcome": "swept"}), rates(&[1.5, 2.0]));
        let lines =
            ["in a workload file, under `spec`:", "  load:", "    mode: open", "    rate: [1.5, 2]", "    search: sha256:0"];
        assert_eq!(load_lines(&found, "sha256:0"), lines);
        assert_eq!(load_fields(&found, "d"), Some(json!({"mode": "open", "rate": [1.5, 2.0], "search": "d"})));
        let closed = json!([{"kind": "concurrency", "amount": 4}]);
        let closed = result(json!({"outcome": "swept"}), closed);
        assert_eq!(load_fields(&closed, "d"), Some(json!({"mode": "closed", "concurrency": [4], "search": "d"})));
        let nothing = result(json!({"outcome": "unsettled"}), json!([]));
        assert_eq!((load_lines(&nothing, "d").len(), load_fields(&nothing, "d")), (0, None));
    }

    #[test]
    fn each_end_is_said_in_a_sentence_of_its_own() {
        let [low, high] = [1.5, 2.5].map(|amount| json!({"kind": "rate", "amount": amount}));
        let said = |end: Value| describe_end(&result(end, rates(&[1.5])));
        let found = json!({"outcome": "found", "bracket": {"meets": low, "falls_short": high, "crossing": 2.0}});
        assert_eq!(said(found), "found: the SLOs are met at rate 1.5 and not at rate 2.5");
        assert_eq!(said(json!({"outcome": "swept"})), "swept: 1 load from an idle endpoint on");
        let none = json!({"outcome": "none_met", "load": low});
        assert_eq!(said(none), "found nothing: rate 1.5 already falls short of the SLOs");
        let all = json!({"outcome": "all_met", "load": high});
        assert_eq!(said(all), "found nothing: every rate that was tried meets the SLOs, up to rate 2.5");
        assert_eq!(said(json!({"outcome": "unsettled"})), "found nothing: the observations contradict each other");
    }

    #[test]
    fn an_observation_says_what_it_is() {
        let found = result(json!({"outcome": "unsettled"}), json!([]));
        let lines: Vec<String> = found.rounds[0].observations.iter().map(describe_observation).collect();
        assert_eq!(lines[0], "  rate 1.5           20.0 requests/s, mean E2E 250 ms, 50.0 % within the SLOs");
        assert!(lines[1].ends_with(", 50.0 % within the SLOs, 25.0 % failed"), "{}", lines[1]);
        assert_eq!(lines[2], "  rate 3             every request failed");
        assert_eq!(lines[3], "  rate 4             over-saturated, ended early");
        assert_eq!(slo_line(&found).as_deref(), Some("99.0 % of the requests within ttft of at most 15 ms"));
    }
}
