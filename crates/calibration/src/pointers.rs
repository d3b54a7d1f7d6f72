//! The calibrations of a store: signed, created under their machine, load generator and time, and found by digest.

use assay_manifest::{Calibration, Digest, Document, InputRef, Kind, MAX_MANIFEST_BYTES, Role, RunId, Shard};
use assay_runner::KeyRing;
use assay_stage::{AcceptedResult, Clock, ErrorCode, Failure, Layout, Seal, binary_digest, seal};
use assay_store::Store;
use serde_json::json;

/// Signs a calibration with the key of the role `calibrate` and stores it. `parts` are the execution parts that it was made from, and
/// `run_id` is the first of its runs.
///
/// # Errors
/// Fails if the key is not unlocked, if the store refuses a write, and if another calibration began at the same instant.
pub fn sign(
    store: &Store,
    keys: &KeyRing,
    run_id: &RunId,
    parts: Vec<InputRef>,
    calibration: Calibration,
) -> Result<InputRef, Failure> {
    let at = calibration.calibrated_at;
    let path = Layout::calibration(&calibration.machine, &calibration.load_generator, calibration.pace(), at);
    let seal_with = Seal {
        signer: keys.signer(Role::Calibrate)?,
        binary: binary_digest()?,
        invocation_id: format!("{run_id}-calibration-{}", std::process::id()),
        started: at,
        parameters: json!({"limits": calibration.limits}),
        stage: None,
        shard: Shard::ONLY,
        trust_policy: None,
        dependencies: Vec::new(),
    };
    let reference = seal(&seal_with, store, run_id, parts, calibration)?.reference;
    let bytes = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle }.to_bytes()?;
    match store.create(&path, &bytes)? {
        assay_store::CreateOutcome::New => Ok(reference),
        assay_store::CreateOutcome::Existing { existing } if existing == bytes => Ok(reference),
        assay_store::CreateOutcome::Existing { .. } => {
            Err(Failure::new(ErrorCode::Busy, format!("another calibration has `{path}`, at {}", Clock.now().to_seconds())))
        }
    }
}

/// Returns the calibration of a store whose manifest has this digest, or a digest that begins so.
///
/// # Errors
/// Fails with `no_such_document` if there is none, or if several begin so.
pub fn find(store: &Store, name: &str) -> Result<InputRef, Failure> {
    let unknown = |what: String| Failure::new(ErrorCode::NoSuchDocument, what);
    let digits = AcceptedResult::digits(name)
        .ok_or_else(|| unknown(format!("`{name}` is no digest, or fewer than eight of its digits")))?;
    let found = AcceptedResult::find(store, Layout::CALIBRATIONS, digits)?;
    if let Some(damaged) = found.damaged {
        return Err(damaged);
    }
    match found.accepted.as_slice() {
        [one] => Ok(one.as_input(Kind::Calibration)),
        [] => {
            let hint =
                is_verdict(store, name).then(|| format!("this is the verdict of a gate: `assay gate --replay {name}` checks it"));
            Err(unknown(format!(
                "the store `{}` has no calibration, search result, foreign evidence or verdict over foreign evidence {name}",
                store.uri()
            ))
            .hint_if(hint))
        }
        _ => Err(unknown(format!("several calibrations have a digest that begins with {name}"))),
    }
}

/// Returns true if a digest is that of a verdict of the store.
fn is_verdict(store: &Store, name: &str) -> bool {
    let bytes = name.parse::<Digest>().ok().and_then(|digest| store.get(&digest, MAX_MANIFEST_BYTES).ok());
    let document = bytes.and_then(|bytes| Document::parse(&bytes).ok());
    document.is_some_and(|document| document.header().kind == Kind::Verdict)
}

#[cfg(test)]
mod tests {
    use assay_manifest::{CalibrationPace, Digest, Instant};

    use super::*;

    #[test]
    fn a_calibration_is_found_by_the_first_digits_of_its_digest() {
        let store = Store::open("memory:").expect("a store");
        let [machine, program, manifest] = ["machine", "program", "manifest"].map(|text| Digest::compute(text.as_bytes()));
        let accepted = AcceptedResult { manifest, bundle: program };
        let path = Layout::calibration(&machine, &program, CalibrationPace::Full, Instant::from_unix_ns(1));
        store.create(&path, &accepted.to_bytes().expect("bytes")).expect("created");
        let hex = manifest.hex();
        for name in [manifest.to_string(), format!("sha256:{}", &hex[..12]), hex[..8].to_owned()] {
            assert_eq!(find(&store, &name).expect("found"), accepted.as_input(Kind::Calibration), "{name}");
        }
        for name in ["sha256:0123", "nightly", "0000000000000000", ""] {
            assert_eq!(find(&store, name).expect_err(name).code.as_str(), "no_such_document");
        }
        let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples/v1alpha1");
        let hint_about = |example: &str| {
            let bytes = std::fs::read(examples.join(example)).expect("an example");
            let name = store.put(&bytes).expect("put").to_string();
            (find(&store, &name).expect_err(example).hint, name)
        };
        let (hint, verdict) = hint_about("verdict.json");
        assert_eq!(hint, Some(format!("this is the verdict of a gate: `assay gate --replay {verdict}` checks it")));
        assert_eq!(hint_about("plan.json").0, None);
        let later = Layout::calibration(&machine, &program, CalibrationPace::Quick, Instant::from_unix_ns(2));
        store.create(&later, &accepted.to_bytes().expect("bytes")).expect("created");
        assert!(find(&store, &hex).expect_err("two").message.starts_with("several"));
    }
}
