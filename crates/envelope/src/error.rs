//! The refusals of a manifest: one named error for each way in which it can be broken.

use assay_failure::{ErrorCode, Failure};
use assay_manifest::{Digest, DocumentError, Instant, Kind, Role, RunId};

use crate::bundle::BundleError;
use crate::expectation::OriginError;
use crate::statement_error::StatementError;
use crate::subjects::SubjectError;
use crate::timestamp::TimestampError;

/// The reason why a manifest is refused. All end with exit code 20, except [`VerifyError::OldFormat`].
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The manifest exceeds the size limit.
    #[error("the manifest has {0} bytes, more than the limit of {limit}", limit = assay_manifest::MAX_MANIFEST_BYTES)]
    ManifestTooLarge(u64),
    /// This build cannot check the bundle.
    #[error("the bundle is not acceptable")]
    Bundle(#[source] BundleError),
    /// No trusted key has the fingerprint in the bundle's hint.
    #[error("the bundle is signed with the key {fingerprint}, which {} does not have", describe_key_source(policy.as_deref()))]
    UnknownKey {
        /// The fingerprint that the bundle claims.
        fingerprint: Digest,
        /// The trust policy; `None` if keys were searched beside the bundle.
        policy: Option<String>,
    },
    /// The signature does not match the payload and the key.
    #[error("the signature is not by the key {0} over this statement")]
    BadSignature(Digest),
    /// The key is trusted, for other roles.
    #[error("`{signer}` signs {signs}; it may not sign for {role}")]
    WrongSigner {
        /// The name in the trust policy.
        signer: String,
        /// The roles that it may sign.
        signs: String,
        /// The role that it signed.
        role: Role,
    },
    /// The time of the signature is outside the key's validity.
    #[error("the key of `{signer}` is not valid at {time}, the time that {}", if *asserted { "the statement asserts" } else { "a timestamp proves" })]
    KeyOutsideValidity {
        /// The name in the trust policy.
        signer: String,
        /// The time of the signature.
        time: Instant,
        /// True if that time is only asserted by the statement, and not proved by a timestamp.
        asserted: bool,
    },
    /// The trust policy does not allow the origin.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// A timestamp is refused or missing.
    #[error(transparent)]
    Timestamp(#[from] TimestampError),
    /// This build cannot read the statement.
    #[error("the statement is not acceptable")]
    Statement(#[source] StatementError),
    /// The statement's predicate is not one that this kind of manifest is signed with.
    #[error("a {kind} is signed with the predicate `{expected}`, but the statement has `{found}`")]
    WrongPredicateType {
        /// The kind of manifest, as far as it is known.
        kind: Kind,
        /// The predicate type of that kind.
        expected: &'static str,
        /// The predicate type of the statement.
        found: &'static str,
    },
    /// The statement is about the building of another kind of manifest.
    #[error("the statement is about a {stated}, but the manifest is a {found}")]
    WrongBuildType {
        /// The kind that the statement is about.
        stated: Kind,
        /// The kind of the manifest.
        found: Kind,
    },
    /// The statement lacks a subject that the manifest requires.
    #[error("the statement lacks the subject `{0}`")]
    SubjectMissing(String),
    /// The statement has a subject that is not in the manifest.
    #[error("the statement has a subject `{0}`, which the manifest does not give out")]
    SubjectExtra(String),
    /// A subject's digest is not that of the manifest.
    #[error("the subject `{name}` is {stated}, but the {side} is {found}", side = describe_subject(*is_manifest))]
    SubjectDigestMismatch {
        /// The subject.
        name: String,
        /// The digest in the statement.
        stated: Digest,
        /// The actual digest.
        found: Digest,
        /// True if the subject is the manifest itself.
        is_manifest: bool,
    },
    /// The statement is about another commit than the manifest.
    #[error("the statement is about another commit than the one that was judged, {}", describe_commit(expected.as_deref()))]
    OtherCommit {
        /// The commit that the manifest names.
        expected: Option<String>,
    },
    /// The statement's gate result differs from the verdict.
    #[error("the statement's result is not the one of the verdict")]
    OtherResult,
    /// The manifest's outputs cannot be subjects.
    #[error("the manifest's outputs cannot be subjects")]
    Subjects(#[source] SubjectError),
    /// This build cannot read the manifest.
    #[error("the manifest is not acceptable")]
    Manifest(#[source] DocumentError),
    /// The manifest is authentic, but not of the format that this build reads.
    #[error("the {kind} is of another format than this Assay reads; {writer} signed it")]
    OldFormat {
        /// The kind of manifest that was signed.
        kind: Kind,
        /// The version of Assay that wrote it.
        writer: String,
        /// The error of this build.
        #[source]
        source: DocumentError,
    },
    /// The manifest is not of the expected kind.
    #[error("expected a {expected}, found a {found}")]
    WrongKind {
        /// The expected kind.
        expected: Kind,
        /// The actual kind.
        found: Kind,
    },
    /// The manifest was not made by the expected role.
    #[error("expected a manifest by {expected}, found one by {found}")]
    WrongStage {
        /// The expected role.
        expected: Role,
        /// The actual role.
        found: Role,
    },
    /// The manifest, or its statement, belongs to another run.
    #[error("expected a manifest of the run `{expected}`, found one of `{found}`")]
    WrongRun {
        /// The expected run.
        expected: RunId,
        /// The actual run.
        found: RunId,
    },
    /// The manifest is not the pinned one.
    #[error("the {kind} should be {pinned}, but is {found}")]
    ManifestReplaced {
        /// The kind of manifest.
        kind: Kind,
        /// The digest that another manifest pins for its input.
        pinned: Digest,
        /// The actual digest.
        found: Digest,
    },
    /// The bundle is not the pinned one.
    #[error("the bundle of the {kind} should be {pinned}, but is {found}")]
    BundleReplaced {
        /// The kind of manifest.
        kind: Kind,
        /// The digest that another manifest pins for its input.
        pinned: Digest,
        /// The actual digest.
        found: Digest,
    },
    /// The statement does not name an input of the manifest.
    #[error("the statement does not name the input {kind} {digest} of the manifest")]
    DependencyMissing {
        /// The kind of the input.
        kind: Kind,
        /// The missing digest, of its manifest or bundle.
        digest: Digest,
    },
}

fn describe_key_source(policy: Option<&str>) -> String {
    policy.map_or_else(|| "the folder of the bundle".to_owned(), |policy| format!("the trust policy `{policy}`"))
}

fn describe_commit(id: Option<&str>) -> &str {
    id.unwrap_or("which is none")
}

fn describe_subject(is_manifest: bool) -> &'static str {
    if is_manifest { "manifest" } else { "manifest's output" }
}

impl VerifyError {
    /// Returns the stable identifier of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::ManifestTooLarge(_) => ErrorCode::ManifestTooLarge,
            Self::Bundle(error) => bundle_code(error),
            Self::UnknownKey { .. } => ErrorCode::UnknownKey,
            Self::BadSignature(_) => ErrorCode::BadSignature,
            Self::WrongSigner { .. } => ErrorCode::WrongSigner,
            Self::KeyOutsideValidity { .. } => ErrorCode::KeyOutsideValidity,
            Self::Origin(error) => error.fact.code(),
            Self::Timestamp(error) => error.code(),
            Self::Statement(error) => statement_code(error),
            Self::WrongPredicateType { .. } => ErrorCode::WrongPredicateType,
            Self::WrongBuildType { .. } => ErrorCode::WrongBuildType,
            Self::SubjectMissing(_) => ErrorCode::SubjectMissing,
            Self::SubjectExtra(_) => ErrorCode::SubjectExtra,
            Self::SubjectDigestMismatch { .. } => ErrorCode::SubjectDigestMismatch,
            Self::OtherCommit { .. } => ErrorCode::OtherCommit,
            Self::OtherResult => ErrorCode::OtherResult,
            Self::Subjects(_) => ErrorCode::SubjectNameTaken,
            Self::Manifest(error) => manifest_code(error),
            Self::OldFormat { .. } => ErrorCode::OldFormat,
            Self::WrongKind { .. } => ErrorCode::WrongKind,
            Self::WrongStage { .. } => ErrorCode::WrongStage,
            Self::WrongRun { .. } => ErrorCode::WrongRun,
            Self::ManifestReplaced { .. } => ErrorCode::ManifestReplaced,
            Self::BundleReplaced { .. } => ErrorCode::BundleReplaced,
            Self::DependencyMissing { .. } => ErrorCode::DependencyMissing,
        }
    }

    /// Returns the remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownKey { policy: Some(_), .. } => {
                Some("if you know whose key this is, add it to the trust policy by a reviewed change")
            }
            Self::UnknownKey { policy: None, .. } => Some("put the public key (PEM) beside the bundle, or give --trust"),
            Self::WrongSigner { .. } => Some("each role has its own key; see `signs` in the trust policy"),
            Self::KeyOutsideValidity { .. } => Some("see `not_before` and `not_after` of the signer in the trust policy"),
            Self::SubjectDigestMismatch { .. } | Self::ManifestReplaced { .. } | Self::BundleReplaced { .. } => {
                Some("the bytes changed or were swapped; fetch them again from the store they were published from")
            }
            Self::Bundle(BundleError::Keyless) => Some("sign with a key, or verify this bundle with cosign"),
            Self::Origin(_) => Some("see `expectations` in the trust policy: whoever reviews it decides what is allowed"),
            Self::Timestamp(TimestampError::Missing | TimestampError::UnknownAuthority { .. }) => {
                Some("see `timestamp_authorities` and `expectations` in the trust policy")
            }
            Self::Bundle(BundleError::UnknownVersion(_)) | Self::Statement(StatementError::UnknownType(_)) => {
                Some("another version of assay may read it")
            }
            Self::OldFormat { .. } => Some(
                "nothing was changed: read it with that Assay, or measure again with this one; if they are the same, the manifest was \
                 not written by Assay",
            ),
            _ => None,
        }
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        Self::from_error(error.code(), &error).hint_if(error.hint())
    }
}

fn bundle_code(error: &BundleError) -> ErrorCode {
    match error {
        BundleError::TooLarge(_) => ErrorCode::BundleTooLarge,
        BundleError::Malformed(_) | BundleError::Member(_) => ErrorCode::BundleMalformed,
        BundleError::UnknownVersion(_) => ErrorCode::UnknownBundleVersion,
        BundleError::Keyless => ErrorCode::KeylessBundle,
        BundleError::MessageSignature => ErrorCode::MessageSignatureBundle,
        BundleError::SignatureCount(_) => ErrorCode::SignatureCount,
        BundleError::WrongPayloadType(_) => ErrorCode::WrongPayloadType,
        BundleError::TooMany { .. } => ErrorCode::BundleTooLong,
    }
}

fn statement_code(error: &StatementError) -> ErrorCode {
    match error {
        StatementError::Malformed(_) | StatementError::Field(_) => ErrorCode::StatementMalformed,
        StatementError::NotCanonical => ErrorCode::StatementNotCanonical,
        StatementError::UnknownType(_) => ErrorCode::UnknownStatementVersion,
        StatementError::UnknownPredicateType(_) => ErrorCode::UnknownPredicateType,
        StatementError::UnknownBuildType(_) => ErrorCode::UnknownBuildType,
        StatementError::TooMany { .. } => ErrorCode::StatementTooLong,
        StatementError::DuplicateSubject(_) => ErrorCode::SubjectDuplicate,
        StatementError::Descriptor { .. } => ErrorCode::DependencyMalformed,
    }
}

fn manifest_code(error: &DocumentError) -> ErrorCode {
    match error {
        DocumentError::UnknownVersion(_) => ErrorCode::UnknownVersion,
        DocumentError::WrongStage { .. } => ErrorCode::WrongStage,
        DocumentError::WrongInput { .. } => ErrorCode::WrongInput,
        DocumentError::NotCanonical(_) => ErrorCode::ManifestNotCanonical,
        DocumentError::TooLarge(_) => ErrorCode::ManifestTooLarge,
        _ => ErrorCode::ManifestMalformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_another_format_is_no_tampering() {
        let source = DocumentError::UnknownVersion("v0".to_owned());
        let (kind, writer) = (Kind::Summary, "Assay 0.0.1 (program sha256:00)".to_owned());
        let failure = Failure::from(VerifyError::OldFormat { kind, writer, source });
        assert_eq!((failure.exit, failure.code.as_str()), (assay_failure::Exit::Environment, "old_format"));
        insta::assert_snapshot!(failure.message, @"the summary is of another format than this Assay reads; Assay 0.0.1 (program sha256:00) signed it");
    }
}
