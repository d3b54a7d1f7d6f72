//! All foreign evidence of a store whose signatures verify.

use assay_import::{SignedForeignEvidence, public_key_beside, signed_foreign_evidence};
use assay_manifest::{InputRef, Kind};
use assay_runner::Config;
use assay_runs::establish;
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout};
use assay_store::Store;
use assay_verify::StoreBlobs;

use crate::output;

/// The codes of failures that say that the reader does not trust the signer: nothing else is wrong.
const UNKNOWN_SIGNER: [ErrorCode; 2] = [ErrorCode::UnknownKey, ErrorCode::PinnedKeyMissing];

/// The foreign evidence of a store.
pub(crate) struct SignedEvidence {
    /// The evidence whose signatures verify.
    pub(crate) all: Vec<(InputRef, SignedForeignEvidence)>,
    /// Evidence of unknown signers, with the reason.
    pub(crate) left_out: Vec<(InputRef, Failure)>,
}

impl SignedEvidence {
    /// Verifies the signatures of all foreign evidence of a store. Its files are not read again. Evidence of an unknown signer is left out, unless
    /// `strict` refuses it.
    ///
    /// # Errors
    /// Fails if a signature does not verify or a pointer is damaged.
    pub(crate) fn read(store: &Store, trust: &[String], strict: bool) -> Result<Self, Failure> {
        let (mut all, mut left_out) = (Vec::new(), Vec::new());
        let blobs = StoreBlobs::new(store.clone());
        let config = Config::find()?;
        for path in store.list(Layout::FOREIGN)? {
            let Some(accepted) = AcceptedResult::read(store, &path)? else { continue };
            let reference = accepted.as_input(Kind::ForeignEvidence);
            let beside = public_key_beside(&blobs, &reference)?;
            let opened = establish(trust, &config, &blobs, &beside)
                .and_then(|trusted| signed_foreign_evidence(&blobs, reference, &trusted.trust));
            match opened {
                Ok(signed) => {
                    check_place(&path, &signed)?;
                    all.push((reference, signed));
                }
                Err(failure) if UNKNOWN_SIGNER.contains(&failure.code) && !strict => left_out.push((reference, failure)),
                Err(failure) => return Err(of_evidence(&reference, failure)),
            }
        }
        Ok(Self { all, left_out })
    }
}

/// Fails if a pointer does not have the name that the evidence was signed with: a copied pointer would count it twice, or hide another.
fn check_place(path: &str, signed: &SignedForeignEvidence) -> Result<(), Failure> {
    let name = &signed.manifest.header.run_id;
    let place = Layout::foreign_evidence(name);
    if path == place {
        return Ok(());
    }
    let message = format!("the pointer `{path}` is of the foreign evidence `{name}`, whose place is `{place}`");
    Err(Failure::new(ErrorCode::PointerElsewhere, message).hint("remove the pointer, or put back the one that it replaced"))
}

/// Returns a failure that names the evidence that it is about.
pub(crate) fn of_evidence(reference: &InputRef, failure: Failure) -> Failure {
    Failure { message: format!("foreign evidence {}: {}", reference.manifest.short(), failure.message), ..failure }
}

/// Names evidence that is left out because its signer is unknown, on stderr.
pub(crate) fn report_unknown_signers(left_out: &[(InputRef, Failure)]) {
    for (reference, failure) in left_out {
        let message = &failure.message;
        output::diagnostic(format!(
            "left out: foreign evidence {}: {message}; `--trust` names a policy that knows its signer",
            reference.manifest.short()
        ));
    }
}
