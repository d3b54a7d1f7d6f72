//! The check that a Plan pins what the files of its datasets, traces and tokenizers give.

use assay_failure::{ErrorCode, Failure};
use assay_manifest::{Artifact, Dataset, FrozenWorkload, Name, Plan};

/// Compares the imports of a signed Plan with those of the Plan that was computed again from the same files: rows, index and numbers of each
/// dataset or trace, and the tokens of each chat template. A workload that the second Plan could not import is not compared.
pub fn check_imports(signed: &Plan, again: &Plan) -> Result<(), Failure> {
    again.workloads.iter().try_for_each(|again| match signed.workloads.iter().find(|signed| signed.name == again.name) {
        Some(signed) => check_workload(signed, again),
        None => Err(differs(&again.name, "workload")),
    })
}

fn check_workload(signed: &FrozenWorkload, again: &FrozenWorkload) -> Result<(), Failure> {
    let Some(again_work) = &again.serving else { return Ok(()) };
    let Some(work) = &signed.serving else { return Err(differs(&again.name, "load")) };
    let difference = differing_import(work.prompts.dataset(), again_work.prompts.dataset());
    let difference = difference.or((work.tokenizer != again_work.tokenizer).then_some("tokenizer"));
    difference.map_or(Ok(()), |what| Err(differs(&again.name, what)))
}

/// Returns the first part in which two imports differ.
fn differing_import(signed: Option<&Dataset>, again: Option<&Dataset>) -> Option<&'static str> {
    let (signed, again) = match (signed, again) {
        (None, None) => return None,
        (Some(signed), Some(again)) => (signed, again),
        _ => return Some("dataset"),
    };
    let is_same = |signed: &Artifact, again: &Artifact| (signed.digest, signed.size) == (again.digest, again.size);
    let parts = [
        ("file", is_same(&signed.file.artifact, &again.file.artifact)),
        ("rows", is_same(&signed.rows, &again.rows)),
        ("index", is_same(&signed.index, &again.index)),
        ("summary", signed.summary == again.summary),
    ];
    parts.into_iter().find(|(_, same)| !same).map(|(part, _)| part)
}

fn differs(workload: &Name, what: &str) -> Failure {
    let message = format!("the plan does not follow from its files: the `{what}` of workload `{workload}` is not what they give");
    Failure::new(ErrorCode::ImportDiffers, message).hint("an `assay` of another version may import otherwise")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dataset(edit: impl FnOnce(&mut Value)) -> Dataset {
        let artifact = |name: &str| json!({"name": name, "digest": assay_manifest::Digest::compute(name.as_bytes()), "size": "3", "media_type": "a/b"});
        let summary = serde_json::to_value(assay_manifest::DatasetSummary::default()).expect("JSON");
        let mut value = json!({
            "file": {"path": "f", "origin": "workloads/w/f", "executable": false, "artifact": artifact("file")},
            "format": "jsonl", "rows": artifact("rows"), "index": artifact("index"), "summary": summary,
        });
        edit(&mut value);
        serde_json::from_value(value).expect("a dataset")
    }

    #[test]
    fn the_part_of_an_import_that_differs_is_named() {
        let other = json!(assay_manifest::Digest::compute(b"other"));
        let compare = |edit: &dyn Fn(&mut Value)| differing_import(Some(&dataset(|_| {})), Some(&dataset(edit)));
        assert_eq!(compare(&|_| {}), None);
        assert_eq!(compare(&|value| value["rows"]["digest"] = other.clone()), Some("rows"));
        assert_eq!(compare(&|value| value["index"]["digest"] = other.clone()), Some("index"));
        assert_eq!(compare(&|value| value["index"]["size"] = json!("4")), Some("index"));
        assert_eq!(compare(&|value| value["file"]["artifact"]["digest"] = other.clone()), Some("file"));
        assert_eq!(compare(&|value| value["summary"]["rows"] = json!("777")), Some("summary"));
        assert_eq!(differing_import(None, Some(&dataset(|_| {}))), Some("dataset"));
        assert_eq!(differing_import(None, None), None);
    }
}
