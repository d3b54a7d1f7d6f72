//! The script of a specification: its text, or the address from which it is fetched.

use assay_manifest::Digest;
use serde_json::{Value, json};

use super::accepts;
use crate::draft::{IndicatorDraft, member};
use crate::mapping::Mapping;
use crate::results::find_credential_in_text;

const FIELD: &str = "script";
/// The file that Amun wrote the script to.
const SCRIPT: &str = "script";
/// The script, if another file has to start it.
const PYTHON_SCRIPT: &str = "script.py";
/// Starts a script that does not name its interpreter.
const STARTER: &str = "#!/bin/sh\nexec python3 script.py\n";

/// Returns true if a path is that of a file of this import.
pub(super) fn is_own_file(path: &str) -> bool {
    [SCRIPT, PYTHON_SCRIPT, "Containerfile", "Pipfile", "Pipfile.lock", "workload.yaml"].contains(&path)
        || path.split('/').any(|part| part == "workload.yaml" || part == "venv")
}

/// Maps the script. Returns false if there is none that can run.
pub(super) fn map(document: &Value, work: &mut IndicatorDraft, mapping: &mut Mapping<'_>) -> bool {
    let Some(script) = document.get(FIELD).filter(|script| !script.is_null()) else {
        mapping.refused("script(absent)", "the inspection only builds an image: add the `script` that measures something");
        return false;
    };
    match script.as_str().map(str::trim).filter(|text| !text.is_empty()) {
        None => {
            mapping.refused(FIELD, "write the text of the script, or the address of one");
            false
        }
        Some(address) if is_address(address) => map_address(address, work, mapping),
        Some(_) => map_text(script.as_str().unwrap_or_default(), work, mapping),
    }
}

fn is_address(text: &str) -> bool {
    (text.starts_with("http://") || text.starts_with("https://")) && !text.contains(char::is_whitespace)
}

fn map_address(address: &str, work: &mut IndicatorDraft, mapping: &mut Mapping<'_>) -> bool {
    let script = member("script", json!({"url": address}));
    if is_page(address) {
        mapping.refused(
            FIELD,
            "this is the address of a page, not of a file: write that of the file, on `raw.githubusercontent.com`",
        );
    } else if find_credential_in_text(address) {
        mapping.has_credential(FIELD, address);
        mapping.refused(FIELD, "the address may hold a credential: download the script, and write its text");
    } else if !accepts(&script) {
        mapping.refused(FIELD, "a plan fetches scripts over https alone: download it, and write its text");
    } else {
        let how = "Amun fetched it when the specification was submitted; `assay plan` fetches it when a run is planned, at most 64 MiB, and pins its \
                   sha256, which `spec.script.sha256` can demand. It has to begin with `#!` and its interpreter";
        work.members.push(script);
        mapping.approximated(FIELD, "workload spec.script", how);
        return true;
    }
    false
}

/// Returns true for the address of a page of GitHub that shows a file.
fn is_page(address: &str) -> bool {
    let host = address.split("://").nth(1).and_then(|rest| rest.split('/').next());
    host == Some("github.com") && address.contains("/blob/")
}

fn map_text(text: &str, work: &mut IndicatorDraft, mapping: &mut Mapping<'_>) -> bool {
    if find_credential_in_text(text) {
        mapping.has_credential(FIELD, text);
        mapping.refused(FIELD, "it may hold a credential: let the script take it from a variable of `environment`");
        return false;
    }
    let digest = Digest::compute(text.as_bytes()).hex();
    if text.starts_with("#!") {
        work.members.push(member("script", json!({"path": SCRIPT, "sha256": digest})));
        work.files.push((SCRIPT.to_owned(), text.to_owned()));
        mapping.mapped(FIELD, &format!("workload spec.script, sha256 {digest}"));
    } else {
        let starter = Digest::compute(STARTER.as_bytes()).hex();
        work.members.push(member("script", json!({"path": SCRIPT, "sha256": starter})));
        work.files.extend([(SCRIPT.to_owned(), STARTER.to_owned()), (PYTHON_SCRIPT.to_owned(), text.to_owned())]);
        let how = format!(
            "it does not begin with `#!`, and Amun ran it by Python: `{SCRIPT}` starts `{PYTHON_SCRIPT}`, its text, sha256 {digest}"
        );
        mapping.approximated(FIELD, "workload spec.script", &how);
    }
    true
}

/// Returns the files of the script that another file starts.
pub(super) fn further_files(work: &IndicatorDraft) -> Vec<String> {
    work.files.iter().map(|(path, _)| path.clone()).filter(|path| path != SCRIPT).collect()
}
