//! Reports targets whose certificate was not verified.

use assay_manifest::{Plan, Reason};

/// The name of the rule that TLS certificates are verified, and of the Summary's issue if one is not.
pub const TLS_NOT_VERIFIED: &str = "tls_not_verified";

/// Reports targets whose certificate is accepted unverified: nothing shows which server responded.
pub fn find_unverified_tls(plan: &Plan) -> Option<Reason> {
    let skipped = plan.targets.iter().filter(|target| target.insecure_skip_tls_verify);
    let names: Vec<String> = skipped.map(|target| format!("`{}`", target.name)).collect();
    let detail = format!("the TLS certificate of {} was not verified, so another server may have responded", names.join(", "));
    (!names.is_empty()).then(|| Reason::new(TLS_NOT_VERIFIED, detail))
}
