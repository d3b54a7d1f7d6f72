//! The failure of a target whose server demands another client certificate than it gets.

use assay_manifest::Target;
use assay_stage::{ErrorCode, Failure};

/// Returns the failure of a target that ends TLS connections for this reason, as of
/// [`RequestError::ClientCertificate`](assay_probe::RequestError::ClientCertificate).
pub(crate) fn client_certificate_failure(target: &Target, problem: &str) -> Failure {
    let has_certificate = target.tls.as_ref().is_some_and(|tls| tls.client.is_some());
    let hint = if has_certificate {
        "`tls.client` of the target names the certificate and its key (`assay bench`: `--cert` and `--key`): has an authority that the server \
         trusts signed it for clients, and does its text hold the certificates between the two?"
    } else {
        "with `assay bench`: `--cert` and `--key`; in a pipeline: the target's `tls`, such as `client: {cert: {from_file: PATH}, key: {from_file: \
         PATH}}`"
    };
    let message = format!("target `{}` ends the TLS connection: {problem}", target.name);
    Failure::new(ErrorCode::EndpointUnauthorized, message).hint(hint)
}
