//! The options of commands that open runs.

use assay_manifest::RunId;
use assay_runs::{RunStore, VerifiedRun, run_ids};
use assay_spec::did_you_mean;
use assay_stage::{ErrorCode, Failure};

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

    /// Finds a run by its name or by its published folder, and verifies its chain. If there is none of that name, the failure suggests
    /// one whose name is near.
    pub(crate) fn open(&self, name: &str) -> Result<VerifiedRun, Failure> {
        let runs = self.runs();
        runs.open(name).map_err(|failure| {
            let is_absent = failure.code == ErrorCode::NoSuchRun;
            let known = Some(()).filter(|()| is_absent).and_then(|()| run_ids(&runs.open_store().ok()?).ok());
            suggest(failure, name, &known.unwrap_or_default())
        })
    }
}

/// Adds the known run whose name is near the wrong one to a failure, if there is one.
fn suggest(failure: Failure, name: &str, known: &[RunId]) -> Failure {
    match did_you_mean(name, known.iter().map(RunId::as_str)) {
        Some(suggestion) => failure.hint(format!("{suggestion} `assay runs` lists the runs of a store")),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_name_is_near_is_suggested() {
        let known: Vec<RunId> = ["first", "nightly"].map(|name| name.parse().expect("a run id")).into();
        let hint = |name: &str| suggest(Failure::new(ErrorCode::NoSuchRun, "none"), name, &known).hint;
        assert_eq!(hint("frist").as_deref(), Some("did you mean `first`? `assay runs` lists the runs of a store"));
        assert_eq!(hint("weekly-2026"), None);
    }
}
