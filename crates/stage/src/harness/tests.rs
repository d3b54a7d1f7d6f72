use assay_envelope::{Provenance, TrustedSigner, VerificationResult, VerificationSummary};
use assay_manifest::{Instant, VERSION};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;

fn run_id(text: &str) -> RunId {
    text.parse().expect("a run id")
}

fn reference(kind: Kind, text: &str) -> InputRef {
    InputRef { kind, manifest: Digest::compute(text.as_bytes()), bundle: Digest::compute(b"bundle") }
}

fn header(run: &str, kind: Kind, inputs: Vec<InputRef>) -> Header {
    Header { kind, version: VERSION.to_owned(), run_id: run_id(run), stage: kind.signer(), inputs }
}

fn provenance(parameters: Value) -> Predicate {
    let now = Instant::from_unix_ns(0);
    Predicate::Provenance(Provenance {
        role: Role::Execute,
        run_id: run_id("nightly"),
        external_parameters: json!({"run_id": "nightly", "stage": "execute", "parameters": parameters}),
        internal_parameters: json!({}),
        resolved_dependencies: Vec::new(),
        builder_binary: Digest::compute(b""),
        builder_version: "0".to_owned(),
        invocation_id: "1".to_owned(),
        started_on: now,
        finished_on: now,
    })
}

#[test]
fn a_result_is_of_this_very_call() {
    let (plan, environment) = (reference(Kind::Plan, "plan"), reference(Kind::Environment, "environment"));
    let parameters = json!({"block": 0, "close": false});
    let run = run_id("nightly");
    // The order of the inputs does not matter.
    let call = ExpectedResult::new(&run, Kind::ExecutionPart, vec![environment, plan, plan], &parameters);
    let gave = |header: &Header, parameters: Value| call.matches_call(header, &provenance(parameters));
    let own = header("nightly", Kind::ExecutionPart, vec![plan, environment]);
    assert!(gave(&own, parameters.clone()));
    assert!(!gave(&own, json!({"block": 0, "close": true})), "the same inputs with other parameters");
    assert!(!gave(&header("weekly", Kind::ExecutionPart, vec![plan, environment]), parameters.clone()), "another run");
    assert!(!gave(&header("nightly", Kind::Recording, vec![plan, environment]), parameters.clone()), "another kind");
    assert!(!gave(&header("nightly", Kind::ExecutionPart, vec![plan]), parameters.clone()), "other inputs");
    let replaced = reference(Kind::Environment, "another");
    assert!(!gave(&header("nightly", Kind::ExecutionPart, vec![plan, replaced]), parameters.clone()), "another input");
}

#[test]
fn a_publication_is_known_by_its_inputs() {
    let run = run_id("nightly");
    let parameters = json!({});
    let call = ExpectedResult::new(&run, Kind::Publication, vec![], &parameters);
    let verified = Predicate::VerificationSummary(VerificationSummary {
        verifier_binary: Digest::compute(b""),
        verifier_image: None,
        time_verified: Instant::from_unix_ns(0),
        resource_uri: "assay:runs/nightly".to_owned(),
        policy: ("p".to_owned(), Digest::compute(b"")),
        input_attestations: Vec::new(),
        result: VerificationResult::Passed,
        levels: Vec::new(),
    });
    assert!(call.matches_call(&header("nightly", Kind::Publication, vec![]), &verified));
    assert!(!call.matches_call(&header("nightly", Kind::Publication, vec![reference(Kind::Plan, "plan")]), &verified));
}

#[test]
fn a_key_signs_only_what_the_policy_lets_it() {
    let key = SecretKey::generate().expect("a key").public_key();
    let other = SecretKey::generate().expect("a key").public_key();
    let signers = vec![TrustedSigner::new("runner", key.clone(), [Role::Plan])];
    let policy = TrustPolicy::from_signers("team", signers);
    let now = Instant::from_unix_ns(5);
    assert_eq!(check_may_sign(&policy, &key, Role::Plan, now), Ok(()));
    let refused = |key, role| check_may_sign(&policy, key, role, now).expect_err("refused");
    insta::assert_snapshot!(refused(&key, Role::Publish), @"error[wrong_signer]: the trust policy `team` does not let the key of `runner` sign for publish");
    insta::assert_snapshot!(refused(&other, Role::Plan), @"error[wrong_signer]: the trust policy `team` does not let an unlisted key sign for plan");
    assert_eq!(refused(&other, Role::Plan).exit, Exit::Verification);

    let ended =
        TrustedSigner { not_after: Some(Instant::from_unix_ns(4)), ..TrustedSigner::new("old", key.clone(), [Role::Plan]) };
    let failure =
        check_may_sign(&TrustPolicy::from_signers("team", vec![ended]), &key, Role::Plan, now).expect_err("a closed window");
    assert_eq!(failure.code.as_str(), "key_outside_validity");
}

#[test]
fn the_recorder_s_first_word_is_not_its_argument() {
    let words = |stage, line: &str| {
        let words = stage_arguments(stage, line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words(StageName::Record, "assay-collect record --run r"), "assay-collect --run r");
    assert_eq!(words(StageName::Record, "assay-collect"), "assay-collect");
    assert_eq!(words(StageName::Collect, "assay-collect record --run r"), "assay-collect record --run r");
}

/// A stage that is never run: only its parameters matter.
struct IdleStage;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    block: u32,
    close: bool,
}

impl Stage for IdleStage {
    type Parameters = Parameters;
    type Output = assay_manifest::Plan;
    const NAME: StageName = StageName::Plan;

    fn run(&self, _: &Inputs, _: &Parameters, _: &Context) -> Result<assay_manifest::Plan, Failure> {
        Err(Failure::new(ErrorCode::Internal, "it is never run"))
    }
}

#[test]
fn parameters_say_the_same_however_they_are_spelled() {
    let json = |text: &str| read_parameters::<IdleStage>(text).map(|(_, json)| json.to_string());
    let whole = r#"{"block":0,"close":false}"#.to_owned();
    for text in ["{}", r#"{"block":0}"#, r#" { "close" : false } "#, r#"{"close":false,"block":0}"#] {
        assert_eq!(json(text), Ok(whole.clone()), "{text}");
    }
    for bad in ["", "[]", "null", "{", r#"{"blok":0}"#, r#"{"block":-1}"#, "[1]", "{} {}"] {
        let failure = json(bad).expect_err(bad);
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Usage, "the parameters of plan cannot be read"), "{bad}");
    }
}

proptest! {
    #[test]
    fn whatever_is_given_as_parameters_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = read_parameters::<IdleStage>(&text);
    }

    #[test]
    fn parameters_read_what_they_write(block in any::<u32>(), close in any::<bool>()) {
        let (_, json) = read_parameters::<IdleStage>(&json!({"close": close, "block": block}).to_string()).expect("parameters");
        let (again, same) = read_parameters::<IdleStage>(&json.to_string()).expect("parameters");
        prop_assert_eq!((again, same), (Parameters { block, close }, json));
    }
}
