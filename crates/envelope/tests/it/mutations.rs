//! Changes of every class of field of bundle, statement and manifest: each is refused by its own name.
//!
//! Three attackers are tried. One has no key and edits what was signed. One has a listed key and signs a false statement. One
//! swaps whole files between runs, kinds and signers.

use assay_manifest::{Digest, Kind, Role, canonical_value};
use serde_json::{Value, json};

use assay_envelope::{ExpectedManifest, Trust, TrustPolicy, TrustedSigner, verify};

use crate::support::*;

/// A collection under a key that may sign for collect, and all its parts that can be changed.
struct Case {
    key: Key,
    manifest: Value,
    statement: Value,
}

impl Case {
    fn new() -> Self {
        let key = Key::new();
        let signed = signed_collection(&key, "run-1");
        let statement = serde_json::from_slice(&payload(&signed.bundle)).expect("JSON");
        let manifest = serde_json::from_slice(&signed.manifest).expect("JSON");
        Self { key, manifest, statement }
    }

    fn code(&self, manifest: &[u8], bundle: &[u8]) -> &'static str {
        let trust = policy_trusting("collector", &self.key, &[Role::Collect]);
        match verify(manifest, bundle, &trust, &ExpectedManifest::default()) {
            Ok(_) => "verified",
            Err(refusal) => refusal.code().as_str(),
        }
    }

    fn manifest_bytes(&self) -> Vec<u8> {
        canonical_value(&self.manifest).expect("canonical")
    }

    fn statement_bytes(&self) -> Vec<u8> {
        canonical_value(&self.statement).expect("canonical")
    }

    fn bundle(&self) -> Value {
        self.key.forge(&self.statement_bytes())
    }
}

/// Sets the member at a JSON pointer; `null` removes it.
fn set(value: &mut Value, pointer: &str, new: Value) {
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    let parent = value.pointer_mut(parent).expect("the parent exists");
    match (parent, new) {
        (Value::Object(members), Value::Null) => drop(members.remove(last).expect("the member exists")),
        (Value::Object(members), new) => drop(members.insert(last.into(), new)),
        (Value::Array(items), Value::Null) => drop(items.remove(last.parse().expect("an index"))),
        (Value::Array(items), new) if last == "-" => items.push(new),
        (Value::Array(items), new) => items[last.parse::<usize>().expect("an index")] = new,
        _ => panic!("{pointer} has no parent"),
    }
}

/// Edits of the bundle by an attacker without a key.
#[test]
fn an_edited_bundle_is_refused() {
    let other = Key::new();
    let case = Case::new();
    let envelope = case.bundle()["dsseEnvelope"].clone();
    let signature = envelope["signatures"][0].clone();
    let rows: &[(&str, Value, &str)] = &[
        ("/mediaType", json!("application/vnd.dev.sigstore.bundle.v0.2+json"), "unknown_bundle_version"),
        ("/mediaType", json!("application/vnd.dev.sigstore.bundle+json;version=0.3"), "unknown_bundle_version"),
        ("/mediaType", json!(3), "bundle_malformed"),
        ("/mediaType", Value::Null, "bundle_malformed"),
        ("/more", json!(1), "bundle_malformed"),
        ("/verificationMaterial", Value::Null, "bundle_malformed"),
        ("/verificationMaterial/more", json!(1), "bundle_malformed"),
        ("/verificationMaterial/publicKey", Value::Null, "bundle_malformed"),
        ("/verificationMaterial/publicKey", json!({}), "bundle_malformed"),
        ("/verificationMaterial/publicKey/hint", json!("AAAA"), "bundle_malformed"),
        ("/verificationMaterial/publicKey/hint", json!("not base64"), "bundle_malformed"),
        ("/verificationMaterial/publicKey/hint", json!(other.public.hint()), "unknown_key"),
        ("/verificationMaterial/publicKey/rawBytes", json!("AAAA"), "bundle_malformed"),
        ("/verificationMaterial/certificate", json!({"rawBytes": "AAAA"}), "keyless_bundle"),
        ("/verificationMaterial/x509CertificateChain", json!({"certificates": []}), "keyless_bundle"),
        ("/verificationMaterial/tlogEntries", json!([]), "verified"),
        ("/verificationMaterial/tlogEntries", json!([{}]), "verified"),
        ("/verificationMaterial/tlogEntries", json!(vec![json!({}); 33]), "bundle_too_long"),
        ("/verificationMaterial/timestampVerificationData", json!({}), "verified"),
        ("/verificationMaterial/timestampVerificationData", json!({"rfc3161Timestamps": [{}]}), "bundle_malformed"),
        ("/messageSignature", json!({"signature": "AAAA"}), "message_signature_bundle"),
        ("/dsseEnvelope", Value::Null, "bundle_malformed"),
        ("/dsseEnvelope/more", json!(1), "bundle_malformed"),
        ("/dsseEnvelope/payloadType", json!("application/json"), "wrong_payload_type"),
        ("/dsseEnvelope/payloadType", Value::Null, "bundle_malformed"),
        ("/dsseEnvelope/payload", json!("e30="), "bad_signature"),
        ("/dsseEnvelope/payload", json!("!"), "bundle_malformed"),
        ("/dsseEnvelope/payload", json!(""), "bad_signature"),
        ("/dsseEnvelope/signatures", json!([]), "signature_count"),
        ("/dsseEnvelope/signatures/-", signature.clone(), "signature_count"),
        ("/dsseEnvelope/signatures/0/sig", json!("AAAA"), "bad_signature"),
        ("/dsseEnvelope/signatures/0/sig", json!(""), "bad_signature"),
        ("/dsseEnvelope/signatures/0/sig", json!("!"), "bundle_malformed"),
        ("/dsseEnvelope/signatures/0/keyid", json!(""), "bundle_malformed"),
        ("/dsseEnvelope/signatures/0/cert", json!("AAAA"), "bundle_malformed"),
    ];
    for (pointer, new, expected) in rows {
        let mut bundle = case.bundle();
        set(&mut bundle, pointer, new.clone());
        let found = case.code(&case.manifest_bytes(), bundle.to_string().as_bytes());
        assert_eq!(found, *expected, "{pointer} = {new}");
    }
}

#[test]
fn a_message_signature_alone_is_refused_by_name() {
    let case = Case::new();
    let mut bundle = case.bundle();
    set(&mut bundle, "/dsseEnvelope", Value::Null);
    set(
        &mut bundle,
        "/messageSignature",
        json!({"messageDigest": {"algorithm": "SHA2_256", "digest": "AAAA"}, "signature": "AA=="}),
    );
    assert_eq!(case.code(&case.manifest_bytes(), bundle.to_string().as_bytes()), "message_signature_bundle");
}

/// Every byte of the payload and of the signature counts.
#[test]
fn any_flipped_bit_of_payload_or_signature_is_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let case = Case::new();
    for pointer in ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig"] {
        let bundle = case.bundle();
        let bytes = STANDARD.decode(bundle.pointer(pointer).and_then(Value::as_str).expect("text")).expect("base64");
        // Every byte of a signature, every sixteenth of a payload: the code path is the same.
        let step = if bytes.len() > 200 { 16 } else { 1 };
        for index in (0..bytes.len()).step_by(step) {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            let mut bundle = bundle.clone();
            set(&mut bundle, pointer, json!(STANDARD.encode(changed)));
            let found = case.code(&case.manifest_bytes(), bundle.to_string().as_bytes());
            assert_eq!(found, "bad_signature", "byte {index} of {pointer}");
        }
    }
}

/// False statements, signed by a key that may sign for collect.
#[test]
fn a_lying_statement_is_refused() {
    let hex = digest("something else").hex();
    let definition = "/predicate/buildDefinition";
    let details = "/predicate/runDetails";
    let rows: &[(String, Value, &str)] = &[
        ("/_type".into(), json!("https://in-toto.io/Statement/v0.1"), "unknown_statement_version"),
        ("/_type".into(), Value::Null, "statement_malformed"),
        ("/more".into(), json!(1), "statement_malformed"),
        ("/predicateType".into(), json!("https://slsa.dev/provenance/v0.2"), "unknown_predicate_type"),
        ("/predicateType".into(), json!("https://slsa.dev/verification_summary/v1"), "statement_malformed"),
        ("/predicateType".into(), json!("https://in-toto.io/attestation/test-result/v0.1"), "statement_malformed"),
        ("/subject".into(), json!([]), "subject_missing"),
        ("/subject/0".into(), Value::Null, "subject_missing"),
        ("/subject/1".into(), Value::Null, "subject_missing"),
        ("/subject/0/digest/sha256".into(), json!(hex), "subject_digest_mismatch"),
        ("/subject/1/digest/sha256".into(), json!(hex), "subject_digest_mismatch"),
        ("/subject/0/digest/sha256".into(), json!("00"), "statement_malformed"),
        ("/subject/0/digest/sha512".into(), json!("00"), "statement_malformed"),
        ("/subject/0/digest".into(), json!({}), "statement_malformed"),
        ("/subject/0/name".into(), json!("plan.json"), "subject_missing"),
        ("/subject/0/uri".into(), json!("x"), "statement_malformed"),
        ("/subject/-".into(), json!({"name": "extra", "digest": {"sha256": hex}}), "subject_extra"),
        ("/subject/-".into(), json!({"name": "collection.json", "digest": {"sha256": hex}}), "subject_duplicate"),
        ("/predicate".into(), json!([]), "statement_malformed"),
        ("/predicate/more".into(), json!(1), "statement_malformed"),
        (format!("{definition}/buildType"), json!("https://assay.dev/build/publish/v1alpha1"), "unknown_build_type"),
        (format!("{definition}/buildType"), json!("https://assay.dev/build/collect/v1"), "unknown_build_type"),
        (format!("{definition}/buildType"), json!("https://assay.dev/build/plan/v1alpha1"), "statement_malformed"),
        (format!("{definition}/buildType"), json!("https://assay.dev/build/recording/v1alpha1"), "subject_missing"),
        (format!("{definition}/externalParameters"), json!([]), "statement_malformed"),
        (format!("{definition}/internalParameters"), json!("x"), "statement_malformed"),
        (format!("{definition}/resolvedDependencies"), json!([]), "dependency_missing"),
        (format!("{definition}/resolvedDependencies/1"), Value::Null, "dependency_missing"),
        (format!("{definition}/resolvedDependencies/2"), Value::Null, "dependency_missing"),
        (format!("{definition}/resolvedDependencies/4/digest/sha256"), json!(hex), "dependency_missing"),
        (format!("{definition}/resolvedDependencies/4/name"), json!("summary.json"), "dependency_missing"),
        (format!("{definition}/resolvedDependencies/0"), json!({}), "dependency_malformed"),
        (format!("{definition}/resolvedDependencies/0/digest/sha256"), json!("00"), "dependency_malformed"),
        (format!("{definition}/more"), json!(1), "statement_malformed"),
        (format!("{details}/builder/id"), json!("https://assay.dev/builder/plan"), "statement_malformed"),
        (format!("{details}/builder/version"), json!({}), "statement_malformed"),
        (format!("{details}/builder/builderDependencies"), json!([]), "statement_malformed"),
        (format!("{details}/metadata/invocationId"), json!("run-2/attempt-0"), "wrong_run"),
        (format!("{details}/metadata/invocationId"), json!("attempt-0"), "statement_malformed"),
        (format!("{details}/metadata/finishedOn"), json!("yesterday"), "statement_malformed"),
        (format!("{details}/metadata/startedOn"), Value::Null, "statement_malformed"),
    ];
    for (pointer, new, expected) in rows {
        let mut case = Case::new();
        assert_eq!(case.statement["subject"][0]["name"], "collection.json", "the rows count on this order");
        set(&mut case.statement, pointer, new.clone());
        let found = case.code(&case.manifest_bytes(), case.bundle().to_string().as_bytes());
        assert_eq!(found, *expected, "{pointer} = {new}");
    }
}

/// Another build type with all its fields: only the key does not match.
#[test]
fn a_key_of_one_role_does_not_sign_for_another() {
    let mut case = Case::new();
    set(&mut case.statement, "/predicate/buildDefinition/buildType", json!("https://assay.dev/build/plan/v1alpha1"));
    set(&mut case.statement, "/predicate/runDetails/builder/id", json!("https://assay.dev/builder/plan"));
    set(&mut case.statement, "/predicate/runDetails/builder/builderDependencies/0/name", json!("plan"));
    assert_eq!(case.code(&case.manifest_bytes(), case.bundle().to_string().as_bytes()), "wrong_signer");
}

/// A trusted signer for both roles still cannot pass one kind off as another.
#[test]
fn a_statement_about_another_kind_is_refused() {
    let mut case = Case::new();
    set(&mut case.statement, "/predicate/buildDefinition/buildType", json!("https://assay.dev/build/recording/v1alpha1"));
    set(&mut case.statement, "/subject/0/name", json!("recording.json"));
    assert_eq!(case.code(&case.manifest_bytes(), case.bundle().to_string().as_bytes()), "wrong_build_type");
}

#[test]
fn predicates_of_other_kinds_are_refused() {
    let key = Key::new();
    let everything = policy_trusting("all", &key, Role::ALL);
    let published = signed(&publication(), &key, summary());
    let collected = signed_collection(&key, "run-1");
    let statement = |bundle: &[u8]| serde_json::from_slice::<Value>(&payload(bundle)).expect("JSON");

    // A publication's statement that names the collection as its subject.
    let mut lie = statement(&published.bundle);
    lie["subject"] = json!([{"name": "publication.json", "digest": {"sha256": collected.manifest_digest.hex()}}]);
    let forged = key.forge(&canonical_value(&lie).expect("canonical")).to_string();
    let refusal =
        verify(&collected.manifest, forged.as_bytes(), &everything, &ExpectedManifest::default()).expect_err("a refusal");
    assert_eq!(refusal.code().as_str(), "wrong_predicate_type");

    // A gate's result is about a verdict, and states the time at which it was judged.
    let mut lie = statement(&collected.bundle);
    lie["predicateType"] = json!("https://in-toto.io/attestation/test-result/v0.1");
    let mut refused = |configuration: Value| {
        lie["predicate"] = json!({"result": "PASSED", "configuration": configuration});
        let forged = key.forge(&canonical_value(&lie).expect("canonical")).to_string();
        let refusal =
            verify(&collected.manifest, forged.as_bytes(), &everything, &ExpectedManifest::default()).expect_err("a refusal");
        refusal.code().as_str()
    };
    assert_eq!(refused(json!([])), "statement_malformed");
    let judged = json!({"judged_on": "2026-11-20T02:00:00.000000000Z"});
    assert_eq!(
        refused(json!([{"name": "gate", "digest": {"sha256": "0".repeat(64)}, "annotations": judged}])),
        "subject_missing"
    );
}

/// The example's verdict, signed again with a change of its statement.
#[test]
fn a_result_that_is_not_its_verdicts_is_refused() {
    let key = Key::new();
    let trust = policy_trusting("gate", &key, &[Role::Gate]);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples/v1alpha1/verdict.json");
    let bytes = std::fs::read(path).expect("an example");
    let document = assay_manifest::Document::parse(&bytes).expect("a manifest");
    let assay_manifest::Document::Verdict(verdict) = &document else { panic!("a verdict") };
    let honest =
        assay_envelope::sign(&document, &key.signer, assay_envelope::TestResult::from_verdict(&verdict.body)).expect("signed");
    verify(&honest.manifest, &honest.bundle, &trust, &ExpectedManifest::default()).expect("it verifies");
    let statement: Value = serde_json::from_slice(&payload(&honest.bundle)).expect("JSON");
    let refused = |pointer: &str, value: Value| {
        let mut lie = statement.clone();
        set(&mut lie, pointer, value);
        let forged = key.forge(&canonical_value(&lie).expect("canonical")).to_string();
        verify(&honest.manifest, forged.as_bytes(), &trust, &ExpectedManifest::default()).expect_err("a refusal").code().as_str()
    };
    assert_eq!(refused("/predicate/result", json!("PASSED")), "other_result");
    assert_eq!(refused("/predicate/warnedTests", json!([])), "other_result");
    let commit = statement["subject"].as_array().expect("subjects").iter().position(|subject| subject["name"] == "commit");
    let commit = format!("/subject/{}/digest/gitCommit", commit.expect("the commit is one"));
    assert_eq!(refused(&commit, json!("0".repeat(40))), "other_commit");
    assert_eq!(refused(&commit, json!("0")), "statement_malformed");
    assert_eq!(refused("/predicate/configuration", json!([statement["predicate"]["configuration"][0]])), "dependency_missing");
}

#[test]
fn a_lying_verification_summary_is_refused() {
    let key = Key::new();
    let trust = policy_trusting("publisher", &key, &[Role::Publish]);
    let published = signed(&publication(), &key, summary());
    let rows: &[(&str, Value, &str)] = &[
        ("/predicate/verifier/id", json!("https://example.com"), "statement_malformed"),
        ("/predicate/verifier/version/binary", json!("1.0"), "statement_malformed"),
        ("/predicate/timeVerified", json!("now"), "statement_malformed"),
        ("/predicate/resourceUri", json!(""), "statement_malformed"),
        ("/predicate/policy", json!({"uri": "x"}), "statement_malformed"),
        ("/predicate/inputAttestations", json!([]), "dependency_missing"),
        ("/predicate/inputAttestations/1", Value::Null, "dependency_missing"),
        ("/predicate/inputAttestations/1/digest/sha256", json!(digest("other").hex()), "dependency_missing"),
        ("/predicate/inputAttestations/1/annotations/manifest", json!(digest("other")), "dependency_missing"),
        ("/predicate/inputAttestations/1/annotations", Value::Null, "statement_malformed"),
        ("/predicate/verificationResult", json!("MAYBE"), "statement_malformed"),
        ("/predicate/verifiedLevels", json!(["SLSA_BUILD_LEVEL_3"]), "statement_malformed"),
        ("/predicate/more", json!(1), "statement_malformed"),
    ];
    for (pointer, new, expected) in rows {
        let mut statement: Value = serde_json::from_slice(&payload(&published.bundle)).expect("JSON");
        set(&mut statement, pointer, new.clone());
        let forged = key.forge(&canonical_value(&statement).expect("canonical")).to_string();
        let refusal =
            verify(&published.manifest, forged.as_bytes(), &trust, &ExpectedManifest::default()).expect_err("a refusal");
        assert_eq!(refusal.code().as_str(), *expected, "{pointer} = {new}");
    }
}

#[test]
fn a_statement_in_another_spelling_is_refused() {
    let case = Case::new();
    let text = String::from_utf8(case.statement_bytes()).expect("UTF-8");
    let first = case.statement["subject"][0]["digest"]["sha256"].as_str().expect("hex");
    let twice = format!("\"sha256\":\"{}\",\"sha256\":\"{first}\"", digest("hidden").hex());
    for (what, payload) in [
        ("spaces", text.replacen(':', ": ", 1)),
        ("a newline", format!("{text}\n")),
        ("an escape", text.replacen("_type", "\\u005ftype", 1)),
        ("a member twice", text.replacen(&format!("\"sha256\":\"{first}\""), &twice, 1)),
    ] {
        let bundle = case.key.forge(payload.as_bytes()).to_string();
        assert_eq!(case.code(&case.manifest_bytes(), bundle.as_bytes()), "statement_not_canonical", "{what}");
    }
    for payload in [&b"{"[..], b"", b"null x", b"\xff"] {
        let bundle = case.key.forge(payload).to_string();
        assert_eq!(case.code(&case.manifest_bytes(), bundle.as_bytes()), "statement_malformed");
    }
}

#[test]
fn a_statement_beyond_its_limits_is_refused() {
    let mut case = Case::new();
    let subjects = (0..1025).map(|i| json!({"name": format!("s{i}"), "digest": {"sha256": digest("x").hex()}}));
    case.statement["subject"] = subjects.collect();
    assert_eq!(case.code(&case.manifest_bytes(), case.bundle().to_string().as_bytes()), "statement_too_long");
    let padded = format!("{}{}", case.bundle(), " ".repeat(assay_envelope::MAX_BUNDLE_BYTES));
    assert_eq!(case.code(&case.manifest_bytes(), padded.as_bytes()), "bundle_too_large");
}

/// Edits of the manifest: without a key they are refused before parsing.
#[test]
fn an_edited_manifest_is_refused_before_it_is_read() {
    let case = Case::new();
    let bundle = case.bundle().to_string();
    for manifest in [&b""[..], b"{", b"not JSON at all", &[case.manifest_bytes(), b"\n".to_vec()].concat()] {
        assert_eq!(case.code(manifest, bundle.as_bytes()), "subject_digest_mismatch");
    }
    for (pointer, new) in [
        ("/header/run_id", json!("run-2")),
        ("/header/stage", json!("reduce")),
        ("/header/inputs", json!([])),
        ("/body/evidence/digest", json!(digest("other"))),
        ("/body/evidence_count", json!("1")),
    ] {
        let mut manifest = case.manifest.clone();
        set(&mut manifest, pointer, new);
        let manifest = canonical_value(&manifest).expect("canonical");
        assert_eq!(case.code(&manifest, bundle.as_bytes()), "subject_digest_mismatch", "{pointer}");
    }
}

/// Edits of the manifest by a listed signer, who signs the new digest too: the parts must still agree.
#[test]
fn an_edited_and_signed_manifest_is_refused() {
    let rows: &[(&str, Value, &str)] = &[
        ("/header/version", json!("v9"), "old_format"),
        ("/header/version", Value::Null, "manifest_malformed"),
        ("/header/kind", json!("verdict"), "manifest_malformed"),
        ("/header/kind", json!("plan"), "manifest_malformed"),
        ("/header/run_id", json!("run-2"), "wrong_run"),
        ("/header/run_id", json!("Not A Run"), "old_format"),
        ("/header/stage", json!("reduce"), "wrong_stage"),
        ("/header/inputs/0/kind", json!("summary"), "wrong_input"),
        ("/header/inputs/0/manifest", json!(digest("other")), "dependency_missing"),
        ("/header/inputs/0/bundle", json!(digest("other")), "dependency_missing"),
        ("/header/inputs/-", json!(input(Kind::Recording)), "dependency_missing"),
        ("/header/more", json!(1), "old_format"),
        ("/body/more", json!(1), "old_format"),
        ("/body/evidence/digest", json!(digest("other")), "subject_digest_mismatch"),
        ("/body/evidence/name", json!("other.json"), "subject_missing"),
        ("/body/evidence/name", json!("../other.json"), "manifest_malformed"),
        ("/body/evidence/name", json!("collection.json"), "subject_name_taken"),
    ];
    for (pointer, new, expected) in rows {
        let mut case = Case::new();
        set(&mut case.manifest, pointer, new.clone());
        let hex = Digest::compute(&case.manifest_bytes()).hex();
        set(&mut case.statement, "/subject/0/digest/sha256", json!(hex));
        let found = case.code(&case.manifest_bytes(), case.bundle().to_string().as_bytes());
        assert_eq!(found, *expected, "{pointer} = {new}");
    }
}

#[test]
fn a_signed_manifest_in_another_spelling_is_refused() {
    let mut case = Case::new();
    let pretty = serde_json::to_vec_pretty(&case.manifest).expect("JSON");
    set(&mut case.statement, "/subject/0/digest/sha256", json!(Digest::compute(&pretty).hex()));
    assert_eq!(case.code(&pretty, case.bundle().to_string().as_bytes()), "manifest_not_canonical");
}

#[test]
fn swapped_files_are_refused() {
    let (key, other) = (Key::new(), Key::new());
    let trust = policy_trusting("collector", &key, &[Role::Collect]);
    let (first, second) = (signed_collection(&key, "run-1"), signed_collection(&key, "run-2"));
    let recorded = signed(&recording(std::iter::empty()), &key, provenance(Role::Collect, "run-1"));
    let code = |manifest: &[u8], bundle: &[u8]| {
        verify(manifest, bundle, &trust, &ExpectedManifest::default())
            .map_or_else(|refusal| refusal.code().as_str(), |_| "verified")
    };
    assert_eq!(code(&first.manifest, &second.bundle), "subject_digest_mismatch", "the bundle of another run");
    assert_eq!(code(&first.manifest, &recorded.bundle), "subject_digest_mismatch", "the bundle of another kind");
    assert_eq!(code(&first.manifest, &signed_collection(&other, "run-1").bundle), "unknown_key", "an unlisted signer");
    assert_eq!(code(&first.bundle, &first.manifest), "bundle_malformed", "the two files swapped");
    let run = run("run-1");
    let expect = ExpectedManifest { run_id: Some(&run), ..ExpectedManifest::default() };
    let older = verify(&second.manifest, &second.bundle, &trust, &expect).expect_err("another run");
    assert_eq!(older.code().as_str(), "wrong_run", "another run's manifest with its own bundle");
}

/// A bundle that names a listed key in its hint, signed by another.
#[test]
fn a_borrowed_hint_does_not_help() {
    let (case, thief) = (Case::new(), Key::new());
    let mut bundle = thief.forge(&case.statement_bytes());
    set(&mut bundle, "/verificationMaterial/publicKey/hint", json!(case.key.public.hint()));
    assert_eq!(case.code(&case.manifest_bytes(), bundle.to_string().as_bytes()), "bad_signature");
}

#[test]
fn a_key_outside_its_validity_is_refused() {
    let key = Key::new();
    let signed = signed_collection(&key, "run-1");
    let signer = TrustedSigner::new("old", key.public.clone(), [Role::Collect]);
    let ended = TrustedSigner { not_after: Some(at(19)), ..signer.clone() };
    let trust = Trust::Policy(TrustPolicy::from_signers("team", vec![ended]));
    let refusal = check(&signed, &trust).expect_err("too late");
    assert_eq!(refusal.code().as_str(), "key_outside_validity");
    insta::assert_snapshot!(refusal, @"the key of `old` is not valid at 1970-01-01T00:00:20.000000000Z, the time that the statement asserts");
}

#[test]
fn refusals_say_what_is_wrong_and_what_to_do() {
    let key = Key::new();
    let signed = signed_collection(&key, "run-1");
    let refusal = check(&signed, &policy_trusting("planner", &key, &[Role::Plan, Role::Source])).expect_err("a refusal");
    insta::assert_snapshot!(format!("{refusal}\nhint: {}", refusal.hint().expect("a hint")), @r#"
        `planner` signs source, plan; it may not sign for collect
        hint: each role has its own key; see `signs` in the trust policy
    "#);
    let refusal = check(&signed, &Trust::None { candidates: vec![] }).expect_err("no key");
    assert_eq!(refusal.hint(), Some("put the public key (PEM) beside the bundle, or give --trust"));
}

/// Both alphabets and all paddings are legal spellings of a bundle's bytes.
#[test]
fn a_bundle_in_the_other_alphabet_verifies() {
    let case = Case::new();
    let url = |text: &str| text.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned();
    let mut bundle = case.bundle();
    for pointer in ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig", "/verificationMaterial/publicKey/hint"] {
        let text = bundle.pointer(pointer).and_then(Value::as_str).map(url).expect("text");
        set(&mut bundle, pointer, json!(text));
    }
    let pretty = serde_json::to_vec_pretty(&bundle).expect("JSON");
    assert_eq!(case.code(&case.manifest_bytes(), &pretty), "verified");
}
