//! The image in which the load of a block runs: one, because a block is one Job.

use std::collections::{BTreeMap, HashMap};

use assay_cluster::{by_digest, named_by_digest};
use assay_manifest::{CaseId, FrozenWorkload, Name, Plan};

use crate::{Error, Result};

/// Returns the image of each block that does not run in the installed one. `of_stage` is the pipeline's image for execute as a
/// whole.
pub(super) fn block_images(plan: &Plan, of_stage: Option<&str>) -> Result<BTreeMap<u32, String>> {
    let of_stage = of_stage.map(named_by_digest);
    let workloads: HashMap<&CaseId, &FrozenWorkload> =
        plan.cases.iter().filter_map(|case| Some((&case.case_id, plan.workload(&case.workload)?))).collect();
    let mut blocks: BTreeMap<u32, BTreeMap<&Name, &FrozenWorkload>> = BTreeMap::new();
    for trial in &plan.trials {
        if let Some(workload) = workloads.get(&trial.case_id) {
            blocks.entry(trial.block).or_default().insert(&workload.name, workload);
        }
    }
    let mut images = BTreeMap::new();
    for (block, workloads) in &blocks {
        if let Some(image) = workload_image(workloads.values(), of_stage.as_deref())? {
            images.insert(*block, image);
        }
    }
    Ok(images)
}

/// Returns the image of a block's workloads. A workload's results are filed under the image that it names, so no other may have
/// run.
fn workload_image<'a>(
    workloads: impl IntoIterator<Item = &'a &'a FrozenWorkload>,
    of_stage: Option<&str>,
) -> Result<Option<String>> {
    let mut first: Option<(&Name, Option<String>)> = None;
    for workload in workloads {
        let own = workload.image.as_ref().map(by_digest);
        if let (Some(own), Some(of_stage)) = (own.as_deref(), of_stage.filter(|image| own.as_deref() != Some(*image))) {
            return Err(Error::WorkloadAndStageImage {
                workload: workload.name.to_string(),
                image: own.to_owned(),
                stage_image: of_stage.to_owned(),
            });
        }
        let image = own.or_else(|| of_stage.map(str::to_owned));
        match &first {
            None => first = Some((&workload.name, image)),
            Some((name, known)) if *known != image => {
                let (first, second) = ((name.to_string(), known.clone()), (workload.name.to_string(), image));
                return Err(Error::BlockImages { first, second });
            }
            Some(_) => {}
        }
    }
    Ok(first.and_then(|(_, image)| image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::Digest;
    use serde_json::{Value, json};

    const OWN: &str = "example.org/own:1";
    const OTHER: &str = "example.org/other";

    /// A plan of workloads `a`, `b` and so on, each with its image and in its block.
    fn plan(workloads: &[(Option<&str>, u32)]) -> Plan {
        let zero = Digest::compute(b"");
        let names: Vec<char> = ('a'..='z').take(workloads.len()).collect();
        let frozen = |(name, (image, _)): (&char, &(Option<&str>, u32))| -> Value {
            let mut workload = json!({
                "name": name, "workload_type": "indicator", "workload_spec_digest": zero, "seed": "00", "metrics": [],
                "spec": {"name": "spec", "digest": zero, "size": "0", "media_type": "application/json"},
            });
            if let Some(image) = image {
                workload["image"] = json!({"reference": image, "digest": zero});
            }
            workload
        };
        let case = |name: &char| json!({"case_id": format!("{name}.t.default"), "workload": name, "target": "t", "variant": "default", "points": []});
        let trial = |(name, (_, block)): (&char, &(Option<&str>, u32))| json!({"trial_id": format!("{name}.t.default.one.t0"), "case_id": format!("{name}.t.default"), "point_id": "one", "index": 0, "block": block});
        let each = || names.iter().zip(workloads);
        let body = json!({
            "pipeline": {"name": "p", "path": "p.yaml", "digest": zero},
            "source": {"kind": "adhoc", "dirty": false, "files_digest": zero},
            "intent": "exploratory", "controls": [], "workloads": each().map(frozen).collect::<Vec<_>>(), "targets": [], "variants": [],
            "cases": names.iter().map(case).collect::<Vec<_>>(), "trial_policy": {"count": 1, "retry_budget": 1}, "isolation": "none",
            "placement": "coexist", "order": {"seed": "00", "digest": zero}, "trials": each().map(trial).collect::<Vec<_>>(),
            "unpinned": [], "queries": [],
        });
        serde_json::from_value(body).expect("a plan")
    }

    fn images(workloads: &[(Option<&str>, u32)], of_stage: Option<&str>) -> BTreeMap<u32, String> {
        block_images(&plan(workloads), of_stage).expect("one image a block")
    }

    fn refused(workloads: &[(Option<&str>, u32)], of_stage: Option<&str>) -> String {
        assay_failure::Failure::from(block_images(&plan(workloads), of_stage).expect_err("two images")).to_string()
    }

    #[test]
    fn a_block_runs_in_the_image_of_its_workloads_or_else_of_its_stage() {
        let by_digest = |name: &str| format!("example.org/{name}@{}", Digest::compute(b""));
        assert_eq!(images(&[(None, 0), (None, 0)], None), BTreeMap::new());
        assert_eq!(images(&[(None, 0), (None, 1)], Some("s")), BTreeMap::from([(0, "s".to_owned()), (1, "s".to_owned())]));
        assert_eq!(images(&[(Some(OWN), 0), (Some(OWN), 0)], None), BTreeMap::from([(0, by_digest("own"))]));
        let apart = BTreeMap::from([(0, by_digest("own")), (1, by_digest("other"))]);
        assert_eq!(images(&[(Some(OWN), 0), (Some(OTHER), 1), (None, 2)], None), apart);
        let same = by_digest("own");
        assert_eq!(images(&[(Some(OWN), 0), (None, 0)], Some(&same)), BTreeMap::from([(0, same.clone())]));
        let tagged = same.replace('@', ":1@");
        assert_eq!(images(&[(Some(OWN), 0), (None, 0)], Some(&tagged)), BTreeMap::from([(0, same)]), "a tag says nothing");
    }

    #[test]
    fn two_images_in_one_block_are_refused() {
        insta::assert_snapshot!(refused(&[(Some(OWN), 0), (Some(OTHER), 0)], None), @r"
        error[workload_image]: the workloads `a` and `b` of one block run in two images: `example.org/own@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855` and `example.org/other@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`

        hint: the trials of a block run in one Job: give the workloads one image, or a pipeline each
        ");
        insta::assert_snapshot!(refused(&[(None, 0), (Some(OWN), 0)], None), @r"
        error[workload_image]: the workloads `a` and `b` of one block run in two images: Assay's and `example.org/own@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`

        hint: the trials of a block run in one Job: give the workloads one image, or a pipeline each
        ");
        insta::assert_snapshot!(refused(&[(Some(OWN), 0)], Some("example.org/stage")), @r"
        error[workload_image]: the workload `a` runs in the image `example.org/own@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`, and the stage execute in `example.org/stage`

        hint: keep one of them: execute is what runs the workload
        ");
    }
}
