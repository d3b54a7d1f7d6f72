//! The foreign evidence of a store: created once under its name, and found by digest.

use assay_manifest::{InputRef, Kind, RunId};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout};
use assay_store::Store;

/// Returns the foreign evidence of a store whose manifest has this digest, or a digest that begins so.
///
/// # Errors
/// Fails with `no_such_foreign_evidence` if there is none, or if several begin so; with `pointer` if none is found and a pointer is damaged.
pub fn find(store: &Store, name: &str) -> Result<InputRef, Failure> {
    let unknown = |what: String| Failure::new(ErrorCode::NoSuchForeignEvidence, what);
    let digits =
        AcceptedResult::digits(name).ok_or_else(|| unknown(format!("`{name}` is not the digest of foreign evidence")))?;
    let found = AcceptedResult::find(store, Layout::FOREIGN, digits)?;
    match found.accepted.as_slice() {
        [one] => Ok(one.as_input(Kind::ForeignEvidence)),
        [] => {
            let none = || unknown(format!("the store `{}` has no foreign evidence {name}", store.uri()));
            // A damaged pointer is that of other evidence, unless none is found.
            Err(found.damaged.unwrap_or_else(none))
        }
        _ => Err(unknown(format!("several foreign evidences have a digest that begins with {name}"))),
    }
}

pub(crate) fn taken(store: &Store, name: &RunId) -> Failure {
    let message = format!("the store `{}` has foreign evidence of the name `{name}`", store.uri());
    Failure::new(ErrorCode::FileDiffers, message).hint("give it another name with `--name NAME`")
}

#[cfg(test)]
mod tests {
    use assay_manifest::Digest;

    use super::*;

    #[test]
    fn foreign_evidence_is_found_by_the_first_digits_of_its_digest() {
        let store = Store::open("memory:").expect("a store");
        let [manifest, bundle] = ["manifest", "bundle"].map(|text| Digest::compute(text.as_bytes()));
        let accepted = AcceptedResult { manifest, bundle };
        let name: RunId = "peers".parse().expect("a name");
        store.create(&Layout::foreign_evidence(&name), &accepted.to_bytes().expect("bytes")).expect("created");
        let hex = manifest.hex();
        for name in [manifest.to_string(), format!("sha256:{}", &hex[..12]), hex[..8].to_owned()] {
            assert_eq!(find(&store, &name).expect("found"), accepted.as_input(Kind::ForeignEvidence), "{name}");
        }
        for name in ["sha256:0123", "peers", "0000000000000000", ""] {
            assert_eq!(find(&store, name).expect_err(name).code.as_str(), "no_such_foreign_evidence");
        }
        let other: RunId = "other".parse().expect("a name");
        store.create(&Layout::foreign_evidence(&other), b"{").expect("created");
        find(&store, &hex).expect("another's pointer is damaged");
        assert_eq!(find(&store, "0000000000000000").expect_err("damaged").code.as_str(), "pointer");
    }
}
