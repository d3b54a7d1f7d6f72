//! Validation of many files at once, for `assay validate`.

use crate::definition::Definition;
use crate::expand::expand;
use crate::pipeline::Pipeline;
use crate::problem::Problem;
use crate::workload::Workload;

/// All problems of all files: of each for itself, of names that two files share, and of each pipeline together with its workloads
/// where all of them are among the files. A workload that is not among them is no problem here; [`closure`](crate::closure()) looks for it.
pub fn validate<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut pipelines, mut workloads) = (Vec::<Pipeline>::new(), Vec::<Workload>::new());
    for (file, bytes) in files {
        match Definition::parse(file, bytes) {
            Ok(Definition::Pipeline(pipeline)) => pipelines.push(*pipeline),
            Ok(Definition::Workload(workload)) => {
                problems.extend(workload.name_is_folder());
                problems.extend(twice(&workloads, &workload));
                workloads.push(*workload);
            }
            Ok(Definition::TrustPolicy(_) | Definition::Acknowledgement(_) | Definition::Noise(_)) => {}
            Err(found) => problems.extend(found),
        }
    }
    for pipeline in &pipelines {
        let is_here = |name: &assay_manifest::Name| workloads.iter().any(|workload| workload.name == *name);
        if pipeline.spec.workloads.iter().all(is_here) {
            problems.extend(expand(pipeline, &workloads).err().unwrap_or_default());
        }
    }
    // Two pipelines may find the same fault in a workload that they share.
    let mut seen = Vec::new();
    problems.retain(|problem| {
        !seen.contains(problem) && {
            seen.push(problem.clone());
            true
        }
    });
    problems
}

fn twice(known: &[Workload], workload: &Workload) -> Option<Problem> {
    let first = known.iter().find(|other| other.name == workload.name)?;
    let message = format!("the workload `{}` is also defined in {}", workload.name, first.places.file());
    Some(workload.places.problem("metadata.name", message).with_hint("give one of them another name"))
}
