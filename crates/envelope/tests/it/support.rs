//! A small chain of signed manifests, and the forging tools of a dishonest signer.

use assay_envelope::{
    ExpectedManifest, PAYLOAD_TYPE, Predicate, Provenance, PublicKey, ResourceDescriptor, SecretKey, Signable, SignedManifest,
    Signer, Trust, TrustPolicy, TrustedSigner, VerificationResult, VerificationSummary, Verified, VerifyError, pae, sign, verify,
};
use assay_manifest::{
    Artifact, Block, Collection, Count, Digest, Document, Grade, InputRef, Instant, Intent, Kind, Manifest, Publication,
    Recording, Role, RunId, Series, Window,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::DecodePrivateKey as _;
use serde_json::{Value, json};

pub(crate) struct Key {
    pub(crate) signer: Signer,
    pub(crate) public: PublicKey,
    der: Vec<u8>,
}

impl Key {
    pub(crate) fn new() -> Self {
        let secret = SecretKey::generate().expect("a key");
        let der = secret.to_pkcs8_der().expect("encoded").to_vec();
        Self { public: secret.public_key(), signer: Signer::new(secret), der }
    }

    /// Signs any payload, as an attacker with this key could.
    pub(crate) fn forge(&self, payload: &[u8]) -> Value {
        let key = p256::ecdsa::SigningKey::from_pkcs8_der(&self.der).expect("a key");
        let signature: p256::ecdsa::Signature = key.sign(&pae(PAYLOAD_TYPE, payload));
        json!({
            "mediaType": assay_envelope::MEDIA_TYPE,
            "verificationMaterial": {"publicKey": {"hint": self.public.hint()}},
            "dsseEnvelope": {
                "payload": STANDARD.encode(payload),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"sig": STANDARD.encode(signature.to_der())}],
            },
        })
    }
}

pub(crate) fn digest(text: &str) -> Digest {
    Digest::compute(text.as_bytes())
}

pub(crate) fn artifact(name: &str) -> Artifact {
    Artifact { name: name.into(), digest: digest(name), size: Count(7), media_type: "application/octet-stream".into() }
}

pub(crate) fn at(second: i64) -> Instant {
    Instant::from_unix_ns(second * 1_000_000_000)
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).expect("a run id")
}

pub(crate) fn input(kind: Kind) -> InputRef {
    InputRef { kind, manifest: digest(&format!("{kind} manifest")), bundle: digest(&format!("{kind} bundle")) }
}

/// A collection with one output and two inputs.
pub(crate) fn collection(run_id: &str) -> Manifest<Collection> {
    let body = Collection {
        plan_digest: digest("plan body"),
        trials: vec![],
        cross_checks: vec![],
        drift: vec![],
        evidence: artifact("evidence.json"),
        evidence_count: Count(0),
        evidence_bytes: Count(0),
    };
    Manifest::new(run(run_id), vec![input(Kind::Plan), input(Kind::Environment)], body)
}

/// A recording with outputs of these names.
pub(crate) fn recording(names: impl Iterator<Item = String>) -> Manifest<Recording> {
    let series = |name: String| Series { source: "host".into(), samples: Count(1), artifact: artifact(&name) };
    let body = Recording {
        plan_digest: digest("plan body"),
        block: serde_json::from_value::<Block>(json!({"index": 0, "incarnation": 0})).expect("a block"),
        sequence: 0,
        place: None,
        window: serde_json::from_value::<Window>(json!({"start": at(1), "end": at(2), "duration_ns": "1000000000"}))
            .expect("a window"),
        interval_ns: Count(1_000_000_000),
        series: names.map(series).collect(),
        gaps: vec![],
    };
    Manifest::new(run("run-1"), vec![input(Kind::Plan)], body)
}

pub(crate) fn publication() -> Manifest<Publication> {
    let body = Publication {
        plan_digest: digest("plan body"),
        summary: input(Kind::Summary).manifest,
        trust_policy: digest("policy"),
        published_at: at(30),
        grade: Grade { requested: Intent::Realism, given: Intent::Realism, shortfalls: vec![], declared: Vec::new() },
        runs: vec![],
        warehouse_snapshot: std::collections::BTreeMap::new(),
        queries: Vec::new(),
        numbers: artifact("numbers.json"),
        reports: vec![artifact("report.md")],
        keys: vec![],
    };
    Manifest::new(run("run-1"), vec![input(Kind::Summary)], body)
}

pub(crate) fn provenance(role: Role, run_id: &str) -> Provenance {
    Provenance {
        role,
        run_id: run(run_id),
        external_parameters: json!({"pipeline": "pipelines/quickstart.yaml", "stage": role}),
        internal_parameters: json!({}),
        resolved_dependencies: vec![ResourceDescriptor::git_commit("git+https://example.com/r", "0".repeat(40))],
        builder_binary: digest("the stage's binary"),
        builder_version: "0.1.0".into(),
        invocation_id: "attempt-0".into(),
        started_on: at(10),
        finished_on: at(20),
    }
}

pub(crate) fn summary() -> VerificationSummary {
    VerificationSummary {
        verifier_binary: digest("publish"),
        verifier_image: None,
        time_verified: at(20),
        resource_uri: "https://example.com/runs/run-1".into(),
        policy: ("https://example.com/trust.yaml".into(), digest("policy")),
        input_attestations: vec![input(Kind::Plan)],
        result: VerificationResult::Passed,
        levels: vec!["ASSAY_LEVEL_2".into()],
    }
}

pub(crate) fn signed(document: &impl Signable, key: &Key, predicate: impl Into<Predicate>) -> SignedManifest {
    sign(document, &key.signer, predicate).expect("signed")
}

pub(crate) fn signed_collection(key: &Key, run_id: &str) -> SignedManifest {
    signed(&collection(run_id), key, provenance(Role::Collect, run_id))
}

pub(crate) fn policy_trusting(name: &str, key: &Key, roles: &[Role]) -> Trust {
    let signers = vec![TrustedSigner::new(name, key.public.clone(), roles.iter().copied())];
    Trust::Policy(TrustPolicy::from_signers("team", signers))
}

pub(crate) fn check(signed: &SignedManifest, trust: &Trust) -> Result<Verified<Document>, VerifyError> {
    verify(&signed.manifest, &signed.bundle, trust, &ExpectedManifest::default())
}

pub(crate) fn payload(bundle: &[u8]) -> Vec<u8> {
    let bundle: Value = serde_json::from_slice(bundle).expect("JSON");
    STANDARD.decode(bundle["dsseEnvelope"]["payload"].as_str().expect("a payload")).expect("base64")
}
