//! Signed manifests verify, with the identity, digests and statements that went in.

use std::collections::BTreeSet;

use assay_envelope::{
    ExpectedManifest, MAX_OUTPUT_SUBJECTS, OUTPUTS_INDEX, Predicate, ResourceDescriptor, SignError, Statement, Trust,
    TrustPolicy, outputs_index, predicate_type, sign, verify,
};
use assay_manifest::{Body, Collection, Digest, Kind, Plan, Role};

use crate::support::*;

#[test]
fn a_signed_manifest_verifies_and_says_who_signed() {
    let key = Key::new();
    let signed = signed_collection(&key, "run-1");
    let verified = check(&signed, &policy_trusting("collector", &key, &[Role::Collect])).expect("verified");

    assert_eq!(verified.signer().name, "collector");
    assert_eq!(verified.signer().fingerprint, key.public.fingerprint());
    assert!(verified.signer().established);
    assert_eq!(verified.bytes(), signed.manifest);
    assert_eq!(verified.manifest_digest(), Digest::compute(&signed.manifest));
    assert_eq!(verified.bundle_digest(), Digest::compute(&signed.bundle));
    assert_eq!(verified.input_ref(), signed.input_ref());
    assert_eq!(verified.asserted_time(), Some(at(20)));
    assert_eq!(verified.downcast::<Collection>().expect("a collection").value(), &collection("run-1"));
}

#[test]
fn another_type_is_not_taken_out() {
    let key = Key::new();
    let verified = check(&signed_collection(&key, "run-1"), &policy_trusting("c", &key, &[Role::Collect])).expect("verified");
    assert_eq!(verified.downcast::<Plan>().expect_err("not a plan").to_string(), "expected a plan, found a collection");
}

#[test]
fn the_provenance_comes_back_with_the_inputs_added() {
    let key = Key::new();
    let verified = check(&signed_collection(&key, "run-1"), &policy_trusting("c", &key, &[Role::Collect])).expect("verified");
    let mut expected = provenance(Role::Collect, "run-1");
    for kind in [Kind::Plan, Kind::Environment] {
        let input = input(kind);
        expected.resolved_dependencies.push(ResourceDescriptor::from_name(format!("{kind}.json"), input.manifest));
        expected.resolved_dependencies.push(ResourceDescriptor::from_name(format!("{kind}.sigstore.json"), input.bundle));
    }
    assert_eq!(verified.predicate(), &Predicate::Provenance(expected));
}

#[test]
fn a_publication_is_signed_with_a_verification_summary() {
    let key = Key::new();
    let signed = signed(&publication(), &key, summary());
    let verified = check(&signed, &policy_trusting("publisher", &key, &[Role::Publish])).expect("verified");
    let mut expected = summary();
    expected.input_attestations = vec![input(Kind::Plan), input(Kind::Summary)];
    assert_eq!(verified.predicate(), &Predicate::VerificationSummary(expected));
}

#[test]
fn the_same_words_give_the_same_bytes() {
    let key = Key::new();
    assert_eq!(signed_collection(&key, "run-1"), signed_collection(&key, "run-1"));
    assert_ne!(signed_collection(&key, "run-1").bundle, signed_collection(&key, "run-2").bundle);
}

#[test]
fn a_bundle_has_the_shape_that_cosign_writes() {
    let key = Key::new();
    let signed = signed_collection(&key, "run-1");
    let text = String::from_utf8(signed.bundle).expect("UTF-8");
    let bundle: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let sig = bundle["dsseEnvelope"]["signatures"][0]["sig"].as_str().expect("a signature");
    let payload = bundle["dsseEnvelope"]["payload"].as_str().expect("a payload");
    let text = text.replace(&key.public.hint(), "[hint]").replace(sig, "[sig]").replace(payload, "[payload]");
    insta::assert_snapshot!(text, @r#"{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"[hint]"}},"dsseEnvelope":{"payload":"[payload]","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"[sig]"}]}}"#);
}

/// The text with every SHA-256 masked.
fn without_digests(text: &str) -> String {
    let is_digest = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let mask = |word: &str| match word.char_indices().next_back() {
        Some((at, _)) if is_digest(&word[..at]) => format!("[sha256]{}", &word[at..]),
        _ => word.to_owned(),
    };
    words.map(mask).collect()
}

#[test]
fn a_statement_has_the_members_of_its_specifications() {
    let key = Key::new();
    let payload = |bundle: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(&crate::support::payload(bundle)).expect("JSON");
        without_digests(&serde_json::to_string_pretty(&value).expect("JSON"))
    };
    insta::assert_snapshot!(payload(&signed_collection(&key, "run-1").bundle), @r#"
        {
          "_type": "https://in-toto.io/Statement/v1",
          "predicate": {
            "buildDefinition": {
              "buildType": "https://assay.dev/build/collect/v1alpha1",
              "externalParameters": {
                "pipeline": "pipelines/quickstart.yaml",
                "stage": "collect"
              },
              "internalParameters": {},
              "resolvedDependencies": [
                {
                  "digest": {
                    "gitCommit": "0000000000000000000000000000000000000000"
                  },
                  "uri": "git+https://example.com/r"
                },
                {
                  "digest": {
                    "sha256": "[sha256]"
                  },
                  "name": "plan.json"
                },
                {
                  "digest": {
                    "sha256": "[sha256]"
                  },
                  "name": "plan.sigstore.json"
                },
                {
                  "digest": {
                    "sha256": "[sha256]"
                  },
                  "name": "environment.json"
                },
                {
                  "digest": {
                    "sha256": "[sha256]"
                  },
                  "name": "environment.sigstore.json"
                }
              ]
            },
            "runDetails": {
              "builder": {
                "builderDependencies": [
                  {
                    "digest": {
                      "sha256": "[sha256]"
                    },
                    "name": "collect"
                  }
                ],
                "id": "https://assay.dev/builder/collect",
                "version": {
                  "assay": "0.1.0"
                }
              },
              "metadata": {
                "finishedOn": "1970-01-01T00:00:20.000000000Z",
                "invocationId": "run-1/attempt-0",
                "startedOn": "1970-01-01T00:00:10.000000000Z"
              }
            }
          },
          "predicateType": "https://slsa.dev/provenance/v1",
          "subject": [
            {
              "digest": {
                "sha256": "[sha256]"
              },
              "name": "collection.json"
            },
            {
              "digest": {
                "sha256": "[sha256]"
              },
              "name": "evidence.json"
            }
          ]
        }
    "#);
    insta::assert_snapshot!(payload(&signed(&publication(), &key, summary()).bundle), @r#"
        {
          "_type": "https://in-toto.io/Statement/v1",
          "predicate": {
            "inputAttestations": [
              {
                "annotations": {
                  "manifest": "sha256:[sha256]"
                },
                "digest": {
                  "sha256": "[sha256]"
                },
                "name": "plan.sigstore.json"
              },
              {
                "annotations": {
                  "manifest": "sha256:[sha256]"
                },
                "digest": {
                  "sha256": "[sha256]"
                },
                "name": "summary.sigstore.json"
              }
            ],
            "policy": {
              "digest": {
                "sha256": "[sha256]"
              },
              "uri": "https://example.com/trust.yaml"
            },
            "resourceUri": "https://example.com/runs/run-1",
            "timeVerified": "1970-01-01T00:00:20.000000000Z",
            "verificationResult": "PASSED",
            "verifiedLevels": [
              "ASSAY_LEVEL_2"
            ],
            "verifier": {
              "id": "https://assay.dev/builder/publish",
              "version": {
                "binary": "sha256:[sha256]"
              }
            }
          },
          "predicateType": "https://slsa.dev/verification_summary/v1",
          "subject": [
            {
              "digest": {
                "sha256": "[sha256]"
              },
              "name": "numbers.json"
            },
            {
              "digest": {
                "sha256": "[sha256]"
              },
              "name": "publication.json"
            },
            {
              "digest": {
                "sha256": "[sha256]"
              },
              "name": "report.md"
            }
          ]
        }
    "#);
}

#[test]
fn every_kind_has_its_predicate_type_and_build_type() {
    let mut seen = BTreeSet::new();
    for kind in Kind::ALL {
        let build = assay_envelope::build_type(*kind);
        let has_provenance = !matches!(kind, Kind::Publication | Kind::Verdict);
        assert_eq!(build.is_some(), has_provenance);
        assert!(seen.insert(build.unwrap_or_else(|| predicate_type(*kind).to_owned())), "{kind} shares its build type");
        assert_eq!(predicate_type(*kind).contains("provenance"), has_provenance);
    }
}

#[test]
fn a_thousand_outputs_are_subjects_and_one_more_becomes_an_index() {
    let key = Key::new();
    let trust = policy_trusting("recorder", &key, &[Role::Collect]);
    for (count, subjects) in [(0, 1), (MAX_OUTPUT_SUBJECTS, MAX_OUTPUT_SUBJECTS + 1), (MAX_OUTPUT_SUBJECTS + 1, 2)] {
        let manifest = recording((0..count).map(|i| format!("series/{i}")));
        let signed = signed(&manifest, &key, provenance(Role::Collect, "run-1"));
        check(&signed, &trust).expect("verified");
        let statement = Statement::parse(&payload(&signed.bundle)).expect("a statement");
        assert_eq!(statement.subjects.len(), subjects, "{count} outputs");
        let index = outputs_index(&manifest.body.artifacts()).expect("an index");
        let expected = (count > MAX_OUTPUT_SUBJECTS).then(|| Digest::compute(&index));
        assert_eq!(statement.subjects.get(OUTPUTS_INDEX).copied(), expected);
    }
}

#[test]
fn the_index_does_not_depend_on_the_order_of_outputs() {
    let (a, b) = (artifact("a"), artifact("b"));
    let index = outputs_index(&[&b, &a]).expect("an index");
    assert_eq!(index, outputs_index(&[&a, &b]).expect("an index"));
    assert!(String::from_utf8_lossy(&index).starts_with(r#"{"outputs":[{"digest":"sha256:"#));
}

#[test]
fn what_would_not_verify_is_not_signed() {
    let key = Key::new();
    let refusal =
        |result: Result<_, SignError>| result.map(|_: assay_envelope::SignedManifest| ()).expect_err("a refusal").to_string();
    let collect = provenance(Role::Collect, "run-1");
    let document = collection("run-1");
    assert_eq!(
        refusal(sign(&document, &key.signer, provenance(Role::Plan, "run-1"))),
        "the manifest was made by collect, but the provenance says plan"
    );
    assert_eq!(
        refusal(sign(&document, &key.signer, provenance(Role::Collect, "run-2"))),
        "the manifest belongs to the run `run-1`, but the provenance says `run-2`"
    );
    assert_eq!(
        refusal(sign(&document, &key.signer, summary())),
        "a collection is signed with the predicate `https://slsa.dev/provenance/v1`, not `https://slsa.dev/verification_summary/v1`"
    );
    let list = serde_json::json!([]);
    let bad = assay_envelope::Provenance { external_parameters: list, ..collect.clone() };
    assert_eq!(refusal(sign(&document, &key.signer, bad)), "the statement would not be accepted by a reader");
    let bad = assay_envelope::Provenance { resolved_dependencies: vec![ResourceDescriptor::default()], ..collect.clone() };
    assert_eq!(refusal(sign(&document, &key.signer, bad)), "the statement would not be accepted by a reader");
    let taken = recording(["recording.json".to_owned()].into_iter());
    assert_eq!(refusal(sign(&taken, &key.signer, collect.clone())), "the manifest's outputs cannot be subjects");
    let twice = recording(["a".to_owned(), "a".to_owned()].into_iter());
    assert_eq!(refusal(sign(&twice, &key.signer, collect)), "the manifest would not be accepted by a reader");
    let levels = assay_envelope::VerificationSummary { levels: vec!["SLSA_BUILD_LEVEL_3".into()], ..summary() };
    assert_eq!(refusal(sign(&publication(), &key.signer, levels)), "the statement would not be accepted by a reader");
}

#[test]
fn without_trust_a_manifest_is_consistent_and_its_signer_is_not_established() {
    let key = Key::new();
    let trust = Trust::None { candidates: vec![Key::new().public, key.public.clone()] };
    let verified = check(&signed_collection(&key, "run-1"), &trust).expect("consistent");
    assert!(!verified.signer().established);
    assert_eq!(verified.signer().fingerprint, key.public.fingerprint());
}

#[test]
fn a_pinned_fingerprint_establishes_its_own_key_only() {
    let (key, other) = (Key::new(), Key::new());
    let pin = |key: &Key| {
        let candidates = [other.public.clone(), key.public.clone()];
        Trust::Policy(TrustPolicy::from_fingerprint(key.public.fingerprint(), &candidates).expect("the key is there"))
    };
    let signed = signed_collection(&key, "run-1");
    assert!(check(&signed, &pin(&key)).expect("verified").signer().established);
    assert_eq!(check(&signed, &pin(&other)).expect_err("another key").code().as_str(), "unknown_key");
}

#[test]
fn what_was_expected_is_compared() {
    let key = Key::new();
    let trust = policy_trusting("collector", &key, &[Role::Collect]);
    let signed = signed_collection(&key, "run-1");
    let code = |expect: &ExpectedManifest<'_>| {
        verify(&signed.manifest, &signed.bundle, &trust, expect).map_or_else(|refusal| refusal.code().as_str(), |_| "ok")
    };
    let (run_1, run_2) = (run("run-1"), run("run-2"));
    let exact = signed.input_ref();
    let good =
        ExpectedManifest { run_id: Some(&run_1), kind: Some(Kind::Collection), stage: Some(Role::Collect), input: Some(&exact) };
    assert_eq!(code(&good), "ok");
    assert_eq!(code(&ExpectedManifest { run_id: Some(&run_2), ..good }), "wrong_run");
    assert_eq!(code(&ExpectedManifest { kind: Some(Kind::Plan), ..good }), "wrong_kind");
    assert_eq!(code(&ExpectedManifest { stage: Some(Role::Plan), ..good }), "wrong_stage");
    let pinned = assay_manifest::InputRef { manifest: digest("older"), ..exact };
    assert_eq!(code(&ExpectedManifest { input: Some(&pinned), ..good }), "manifest_replaced");
    let pinned = assay_manifest::InputRef { bundle: digest("older"), ..exact };
    assert_eq!(code(&ExpectedManifest { input: Some(&pinned), ..good }), "bundle_replaced");
    let pinned = assay_manifest::InputRef { kind: Kind::Summary, ..exact };
    assert_eq!(code(&ExpectedManifest { input: Some(&pinned), kind: None, ..good }), "wrong_kind");
}
