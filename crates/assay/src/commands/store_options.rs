//! The options of commands that open runs.

use assay_runs::RunStore;

/// The store and the trust root of a run.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StoreOptions {
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    pub(crate) store: Option<String>,
    /// The trust root: a TrustPolicy file, or a fingerprint [default: the configured root]
    #[arg(long, value_name = "POLICY|FINGERPRINT")]
    pub(crate) trust: Vec<String>,
}

impl StoreOptions {
    /// Returns the store of runs that they name.
    pub(crate) fn runs(&self) -> RunStore {
        RunStore { store: self.store.clone(), trust: self.trust.clone() }
    }
}
