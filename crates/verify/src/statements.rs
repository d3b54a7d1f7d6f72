//! Checks the facts that the signed statements repeat from the manifests: a reader that opens a bundle with another program sees
//! only the statement.

use std::collections::BTreeMap;

use assay_chain::StageName;
use assay_envelope::{Predicate, Provenance, ResourceDescriptor, VerificationResult, VerificationSummary, Verified};
use assay_manifest::{Body as _, Document, InputRef, Kind, Publication, Source};
use assay_stage::{chain_name, dependencies, policy_uri, published_uri, source_dependencies, verified_levels};

use crate::{Error, Result};

/// Checks that each statement names the run, the stage, the commit, the definitions and the images that the manifests name, and
/// that a Publication states a verification of this run that passed.
pub(crate) fn check_statements(documents: &[Verified<Document>]) -> Result<()> {
    let known: BTreeMap<InputRef, &Document> =
        documents.iter().map(|verified| (verified.input_ref(), verified.value())).collect();
    for verified in documents {
        let document = verified.value();
        let other = match verified.predicate() {
            Predicate::Provenance(provenance) => other_provenance(provenance, document, &known),
            Predicate::VerificationSummary(summary) => other_verification(summary, document),
            Predicate::TestResult(_) => None,
        };
        if let Some(difference) = other {
            return Err(Error::Statement { manifest: chain_name(document), difference });
        }
    }
    Ok(())
}

fn other_provenance(provenance: &Provenance, document: &Document, known: &BTreeMap<InputRef, &Document>) -> Option<&'static str> {
    let (header, kind) = (document.header(), document.kind());
    // A run's end is signed by the stage that ended it.
    if kind == Kind::RunEnd {
        return None;
    }
    let stage = StageName::ALL.into_iter().find(|stage| stage.output_kind() == kind);
    let stage = stage.map_or_else(|| kind.signer().to_string(), |stage| stage.to_string());
    let expected: Vec<ResourceDescriptor> = match Source::from_document(document) {
        Some(source) => source_dependencies(&source.body),
        None => dependencies(header.inputs.iter().filter_map(|input| known.get(input).copied())),
    };
    let parameters = &provenance.external_parameters;
    let comparisons = [
        ("another run", parameters["run_id"] == header.run_id.as_str()),
        ("another stage", parameters["stage"] == stage.as_str()),
        ("other dependencies", provenance.extra_dependencies(header) == expected.iter().collect::<Vec<_>>()),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
}

fn other_verification(summary: &VerificationSummary, document: &Document) -> Option<&'static str> {
    let policy = Publication::from_document(document).map(|publication| publication.body.trust_policy);
    let comparisons = [
        ("another trust policy", policy.is_none_or(|policy| summary.policy == (policy_uri(&policy), policy))),
        ("other inputs", summary.input_attestations == document.header().inputs),
        ("another run", summary.resource_uri == published_uri(&document.header().run_id)),
        ("another result", summary.result == VerificationResult::Passed),
        ("other levels", summary.levels == verified_levels()),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
}
