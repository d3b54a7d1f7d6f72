//! An installation for tests.

use crate::Installation;
use crate::install::STORE_PORT;

/// Returns the installation of a cluster that has a served store and accepts no other image.
pub(crate) fn installation() -> Installation {
    Installation {
        namespace: "assay".to_owned(),
        targets_namespace: "assay-targets".to_owned(),
        store: format!("s3://assay?endpoint=http://assay-store.assay-store:{STORE_PORT}"),
        image: format!("assay.test/assay@sha256:{}", "0".repeat(64)),
        trust: "kind: TrustPolicy\n".to_owned(),
        images: Vec::new(),
        forward: None,
    }
}
