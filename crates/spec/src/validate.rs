//! Validation of many files at once, for `assay validate`.

use std::collections::BTreeSet;

use assay_manifest::CaseId;

use crate::acknowledgement::Acknowledgement;
use crate::definition::Definition;
use crate::expand::{expand, gate_metric_names};
use crate::pipeline::Pipeline;
use crate::problem::{Problem, did_you_mean};
use crate::workload::Workload;

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
            Ok(Definition::TrustPolicy(_) | Definition::Noise(_)) => {}
            Err(found) => problems.extend(found),
        }
    }
    for pipeline in &pipelines {
        let is_here = |name: &assay_manifest::Name| workloads.iter().any(|workload| workload.name == *name);
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
