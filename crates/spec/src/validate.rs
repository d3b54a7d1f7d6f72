//! Validation of many files at once, for `assay validate`.

use std::collections::BTreeSet;

use assay_manifest::{CaseId, Name};

use crate::acknowledgement::Acknowledgement;
use crate::define::{DefinitionKind, decode_text, member, parse_tree_and_kind};
use crate::definition::Definition;
use crate::expand::{expand, gate_metric_names, no_workload, place_of_workload};
use crate::pipeline::Pipeline;
use crate::problem::{Problem, Problems, Source, did_you_mean, quote};
use crate::workload::Workload;
use crate::yaml::{Node, Value};

/// The most workloads that are looked for if a pipeline has other problems.
const MAX_NAMED_WORKLOADS: usize = 1_000;

/// Returns all problems of all files: of each file by itself, of names that two files share, and of each pipeline together with
/// its workloads if all of them are among the files. A workload that is not among them is no problem here;
/// [`closure`](crate::read_closure()) looks for it. An acknowledgement has to match a comparison of a pipeline among the files.
pub fn validate<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut pipelines, mut workloads) = (Vec::<Pipeline>::new(), Vec::<Workload>::new());
    let mut acknowledgements = Vec::<Acknowledgement>::new();
    for (file, bytes) in files {
        match Definition::parse(file, bytes) {
            Ok(Definition::Pipeline(pipeline)) => pipelines.push(*pipeline),
            Ok(Definition::Workload(workload)) => {
                problems.extend(workload.check_folder_name());
                problems.extend(check_unique_name(&workloads, &workload));
                workloads.push(*workload);
            }
            Ok(Definition::Acknowledgement(accepted)) => acknowledgements.push(*accepted),
            Ok(Definition::TrustPolicy(_) | Definition::Noise(_) | Definition::ForeignGate(_)) => {}
            Err(found) => problems.extend(found),
        }
    }
    for pipeline in &pipelines {
        let is_here = |name: &Name| workloads.iter().any(|workload| workload.name == *name);
        if pipeline.spec.workloads.iter().all(is_here) {
            problems.extend(expand(pipeline, &workloads).err().unwrap_or_default());
        }
    }
    if !pipelines.is_empty() {
        problems.extend(acknowledgements.iter().filter_map(|accepted| check_acknowledgement(accepted, &pipelines, &workloads)));
    }
    // Two pipelines may report the same problem of a workload that they share.
    let mut seen = Vec::new();
    problems.retain(|problem| {
        !seen.contains(problem) && {
            seen.push(problem.clone());
            true
        }
    });
    problems
}

/// Returns the problems of files that a workload names and that are not there: nothing else looks for them if it has other problems, or if no pipeline
/// names it. `is_there` takes a path that is relative to the workload's folder.
pub fn absent_files(file: &str, bytes: &[u8], is_there: impl Fn(&str) -> bool) -> Vec<Problem> {
    let Ok(text) = decode_text(file, bytes) else { return Vec::new() };
    let source = Source::new(file, text);
    let mut problems = Problems::new(&source);
    let Some((node, DefinitionKind::Workload)) = parse_tree_and_kind(&mut problems) else { return Vec::new() };
    for part in ["dataset", "trace", "script", "tokenizer"] {
        let named = member(&node, "spec").and_then(|spec| member(member(spec, part)?, "path"));
        let Some(Node { value: Value::Scalar(path), span }) = named else { continue };
        if is_relative(&path.text) && !is_there(&path.text) {
            let named = file.rsplit_once('/').map_or_else(|| path.text.clone(), |(folder, _)| format!("{folder}/{}", path.text));
            let message = format!("there is no file {}", quote(&named));
            problems.add_hinted(*span, message, "paths are relative to the workload's folder");
        }
    }
    problems.finish()
}

/// Returns the workloads that a pipeline names, each with the problem that there is none of that name: of a pipeline that has other problems, so
/// that nothing else looks for them.
pub(crate) fn named_workloads(file: &str, bytes: &[u8]) -> Vec<(Name, Problem)> {
    let Ok(text) = decode_text(file, bytes) else { return Vec::new() };
    let source = Source::new(file, text);
    let mut problems = Problems::new(&source);
    let Some((node, DefinitionKind::Pipeline)) = parse_tree_and_kind(&mut problems) else { return Vec::new() };
    let Some(Node { value: Value::List(items), .. }) = member(&node, "spec").and_then(|spec| member(spec, "workloads")) else {
        return Vec::new();
    };
    let named = |item: &Node| {
        let Value::Scalar(scalar) = &item.value else { return None };
        let name: Name = scalar.text.parse().ok()?;
        let problem = source.problem(item.span, no_workload(&name)).with_hint(place_of_workload(&name));
        Some((name, problem))
    };
    items.iter().take(MAX_NAMED_WORKLOADS).filter_map(named).collect()
}

/// Returns true if a path leads nowhere but into the folder that it is relative to.
fn is_relative(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Returns the problem of an acknowledgement that matches no candidate or metric: it would accept nothing, without notice.
fn check_acknowledgement(accepted: &Acknowledgement, pipelines: &[Pipeline], workloads: &[Workload]) -> Option<Problem> {
    let candidates = |pipeline: &Pipeline| -> Vec<CaseId> {
        let Some(comparison) = &pipeline.spec.comparison else { return Vec::new() };
        let side = &comparison.candidate;
        pipeline.spec.workloads.iter().map(|workload| CaseId::from_names(workload, &side.target, &side.variant)).collect()
    };
    let cases: BTreeSet<String> = pipelines.iter().flat_map(candidates).map(|case| case.to_string()).collect();
    if !cases.contains(accepted.case.as_str()) {
        let problem = accepted.places.problem("spec.case", format!("no pipeline here has the candidate `{}`", accepted.case));
        let names = || cases.iter().map(String::as_str);
        let hint = did_you_mean(accepted.case.as_str(), names()).unwrap_or_else(|| match cases.len() {
            0 => "no pipeline has a `comparison`".to_owned(),
            _ => format!("a candidate is workload.target.variant: {}", names().take(MAX_NAMED).collect::<Vec<_>>().join(", ")),
        });
        return Some(problem.with_hint(hint));
    }
    let workload = workloads.iter().find(|workload| workload.name.as_str() == accepted.case.names()[0])?;
    // Another pipeline may run the same workload at a price.
    let metrics = gate_metric_names(&[workload], true);
    if metrics.contains(&accepted.metric.as_str()) {
        return None;
    }
    let message = format!("the workload `{}` reports no metric `{}` that gates judge", workload.name, accepted.metric);
    let mut problem = accepted.places.problem("spec.metric", message);
    problem.hint = did_you_mean(&accepted.metric, metrics);
    Some(problem)
}

/// The most cases that a hint names.
const MAX_NAMED: usize = 8;

fn check_unique_name(known: &[Workload], workload: &Workload) -> Option<Problem> {
    let first = known.iter().find(|other| other.name == workload.name)?;
    let message = format!("the workload `{}` is also defined in {}", workload.name, first.places.file());
    Some(workload.places.problem("metadata.name", message).with_hint("give one of them another name"))
}
