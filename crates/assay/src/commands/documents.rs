//! The documents of a store that belong to no run. A digest finds one, whatever its kind.

use assay_gating::find_foreign_verdict;
use assay_manifest::InputRef;
use assay_runs::{RunStore, find_search_result};
use assay_stage::{ErrorCode, Failure};
use assay_store::Store;

use crate::commands::{foreign_evidence, search_result};

/// A document that was found, and is not verified yet.
pub(crate) enum Located {
    SearchResult(search_result::Located),
    ForeignEvidence(foreign_evidence::Located),
    ForeignVerdict(InputRef),
}

/// Finds the document of a digest; `None` if it is that of a calibration, or of nothing. A damaged pointer may be that of the document, unless the digest
/// is found elsewhere.
pub(crate) fn locate(place: &RunStore, name: &str) -> Result<Option<Located>, Failure> {
    let (Ok(store), Ok(uri)) = (place.open_store(), place.store_uri()) else { return Ok(None) };
    let mut damaged = None;
    for find in [find_result, find_evidence, find_verdict] {
        match find(&store, &uri, name) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(failure) if failure.code == ErrorCode::Pointer => damaged = damaged.or(Some(failure)),
            Err(failure) => return Err(failure),
        }
    }
    match damaged {
        Some(failure) if assay_calibration::find(&store, name).is_err() => Err(failure),
        _ => Ok(None),
    }
}

fn find_result(store: &Store, _: &str, name: &str) -> Result<Option<Located>, Failure> {
    let found = find_search_result(store, name)?;
    Ok(found.map(|reference| Located::SearchResult(search_result::Located { store: store.clone(), reference })))
}

fn find_evidence(store: &Store, uri: &str, name: &str) -> Result<Option<Located>, Failure> {
    let located =
        |reference| foreign_evidence::Located { store: store.clone(), store_uri: uri.to_owned(), reference, name: None };
    match assay_import::find(store, name) {
        Ok(reference) => Ok(Some(Located::ForeignEvidence(located(reference)))),
        Err(failure) if failure.code == ErrorCode::NoSuchForeignEvidence => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn find_verdict(store: &Store, _: &str, name: &str) -> Result<Option<Located>, Failure> {
    Ok(find_foreign_verdict(store, name)?.map(Located::ForeignVerdict))
}
