//! Expectations of a trust policy: a manifest of another origin is refused by the name of the fact, and so is a manifest that
//! records none.

use assay_envelope::{Expectation, Trust, TrustPolicy, TrustedSigner};
use assay_manifest::{Digest, Document, Role};
use serde_json::json;

use crate::support::*;

fn trust(key: &Key, expectation: Expectation) -> Trust {
    let signer = TrustedSigner::new("runner", key.public.clone(), Role::ALL.iter().copied());
    Trust::Policy(TrustPolicy { expectations: vec![expectation], ..TrustPolicy::from_signers("team", vec![signer]) })
}

fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> std::collections::BTreeSet<T> {
    items.into_iter().collect()
}

#[test]
fn a_binary_must_be_one_of_those_that_are_expected() {
    let key = Key::new();
    let signed = signed_collection(&key, "run-1");
    let expecting = |binaries: &[Digest], roles: &[Role]| {
        let expectation =
            Expectation { binaries: set(binaries.iter().copied()), roles: set(roles.iter().copied()), ..Expectation::default() };
        check(&signed, &trust(&key, expectation)).map_or_else(|refusal| refusal.code().as_str(), |_| "ok")
    };
    let (right, wrong) = (digest("the stage's binary"), digest("another"));
    assert_eq!(expecting(&[right], &[]), "ok");
    assert_eq!(expecting(&[wrong, right], &[Role::Collect]), "ok");
    assert_eq!(expecting(&[wrong], &[]), "other_binary");
    assert_eq!(expecting(&[wrong], &[Role::Collect]), "other_binary");
    assert_eq!(expecting(&[wrong], &[Role::Plan]), "ok", "another role's");
}

#[test]
fn an_image_must_be_recorded_and_expected() {
    let key = Key::new();
    let pinned = digest("the image");
    let images = |image: Option<String>| {
        let mut provenance = provenance(Role::Collect, "run-1");
        if let Some(image) = image {
            provenance.internal_parameters = json!({"image": image});
        }
        let signed = signed(&collection("run-1"), &key, provenance);
        let expectation = Expectation { images: set([pinned]), ..Expectation::default() };
        check(&signed, &trust(&key, expectation)).map_or_else(|refusal| refusal.to_string(), |_| "ok".to_owned())
    };
    assert_eq!(images(Some(format!("registry.example.org/assay@{pinned}"))), "ok");
    assert!(images(None).ends_with("but the evidence records none"), "{}", images(None));
    assert!(images(Some("registry.example.org/assay:latest".into())).ends_with("records none"), "a tag pins nothing");
    assert!(images(Some(format!("registry.example.org/assay@{}", digest("other")))).contains("expects the image"));
}

#[test]
fn a_publication_records_its_binary_and_image() {
    let key = Key::new();
    let image = digest("the image");
    let recorded = |verifier_image| {
        let signed = signed(&publication(), &key, assay_envelope::VerificationSummary { verifier_image, ..summary() });
        let expectation = Expectation { images: set([image]), binaries: set([digest("publish")]), ..Expectation::default() };
        check(&signed, &trust(&key, expectation)).map_or_else(|refusal| refusal.code().as_str(), |_| "ok")
    };
    assert_eq!(recorded(Some(image)), "ok");
    assert_eq!(recorded(None), "other_image");
    assert_eq!(recorded(Some(digest("other"))), "other_image");
}

#[test]
fn a_source_must_be_of_an_expected_origin() {
    let source = |repository: Option<&str>, reference: Option<&str>| {
        let mut body = json!({
            "kind": "git", "commit": "0".repeat(40), "dirty": false, "objects": [],
            "pipeline": "pipelines/nightly.yaml", "files": [], "files_digest": digest("files"),
        });
        if let Some(repository) = repository {
            body["repository"] = repository.into();
        }
        if let Some(reference) = reference {
            body["ref"] = reference.into();
        }
        let body: assay_manifest::Source = serde_json::from_value(body).expect("a source");
        Document::from(assay_manifest::Manifest::new(run("run-1"), vec![], body))
    };
    let key = Key::new();
    let judged = |expectation: &Expectation, document: &Document| {
        let trust = trust(&key, expectation.clone());
        trust.check_origin(Role::Reduce, document).map_or_else(|refusal| refusal.code().as_str(), |()| "ok")
    };
    let good = source(Some("https://example.org/r"), Some("refs/heads/main"));
    let bare = source(None, None);
    let of = |text: &str| set([text.to_owned()]);
    let none = Expectation::default();
    let repository = Expectation { repositories: of("https://example.org/r"), ..none.clone() };
    let other_repository = Expectation { repositories: of("https://example.org/other"), ..none.clone() };
    let main = Expectation { refs: of("refs/heads/main"), ..none.clone() };
    let release = Expectation { refs: of("refs/tags/v1"), ..none.clone() };
    let nightly = Expectation { pipelines: of("pipelines/nightly.yaml"), ..none.clone() };
    let weekly = Expectation { pipelines: of("pipelines/weekly.yaml"), ..none.clone() };
    let of_gate = Expectation { roles: set([Role::Gate]), ..other_repository.clone() };
    for (expectation, document, expected) in [
        (&none, &bare, "ok"),
        (&repository, &good, "ok"),
        (&repository, &bare, "other_repository"),
        (&other_repository, &good, "other_repository"),
        (&main, &good, "ok"),
        (&main, &bare, "other_ref"),
        (&release, &good, "other_ref"),
        (&nightly, &good, "ok"),
        (&weekly, &good, "other_pipeline"),
        (&of_gate, &good, "ok"),
    ] {
        assert_eq!(judged(expectation, document), expected, "{expectation:?}");
    }
}
