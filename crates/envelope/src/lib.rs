//! The signatures of Assay: signed statements about bytes, and their verification.
//!
//! A manifest is signed by wrapping an in-toto Statement, whose subjects are the manifest and its outputs, in a DSSE envelope
//! inside a Sigstore bundle ([`sign`]). It is trusted after [`verify`], which alone creates a [`Verified`]: code that takes a
//! `Verified<T>` cannot receive bytes whose signature, signer and digests were not checked.
//!
//! Only this crate sees a private key, and it does no I/O: keys, bundles and trust come in as bytes and values.
//!
//! # What key mode proves, and what it does not
//!
//! A signature by a listed key over digests. Time is *asserted*: the signer wrote it into the statement, so a validity window
//! keeps an honest signer's old key from being used by mistake, and does not stop a thief from backdating. An RFC 3161 timestamp
//! by an authority of the trust policy does: the key must have been valid at its time, too.

mod bundle;
mod descriptor;
mod dsse;
mod error;
mod expectation;
mod foreign;
mod key_error;
mod keybox;
mod keys;
mod predicate;
mod sign;
mod statement;
mod statement_error;
mod subjects;
mod text;
mod timestamp;
mod trust;
mod verify;
mod wire;

pub use bundle::{Bundle, BundleError, MAX_BUNDLE_BYTES, MEDIA_TYPE};
pub use descriptor::ResourceDescriptor;
pub use dsse::{Envelope, PAYLOAD_TYPE, pae};
pub use error::VerifyError;
pub use expectation::{Expectation, OriginError, OriginFact};
pub use foreign::{CheckedBundle, ForeignBundleError, check_bundle};
pub use key_error::{KeyError, MAX_KEY_BYTES};
pub use keybox::{Password, ScryptCost};
pub use keys::{PublicKey, SecretKey, Signer};
pub use p256::elliptic_curve::zeroize::Zeroizing;
pub use predicate::{
    GateResult, IMAGE, PROVENANCE, Predicate, Provenance, STATEMENT_TYPE, TEST_RESULT, TestResult, VERIFICATION_SUMMARY,
    VerificationResult, VerificationSummary, build_type, image_digest, predicate_type,
};
pub use sign::{SignError, Signable, SignedManifest, sign};
pub use statement::{MAX_DEPENDENCIES, MAX_SUBJECTS, Statement};
pub use statement_error::StatementError;
pub use subjects::{MAX_OUTPUT_SUBJECTS, OUTPUTS_INDEX, SubjectError, bundle_name, manifest_name, outputs_index};
pub use timestamp::{AuthorityError, Timestamp, TimestampAuthority, TimestampError, check_timestamp};
pub use trust::{SignerIdentity, Trust, TrustError, TrustPolicy, TrustedSigner};
pub use verify::{ExpectedManifest, Verified, verify};
