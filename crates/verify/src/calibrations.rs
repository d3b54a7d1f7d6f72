//! The calibrations that a run names: each is signed by a key that the run's trust policy names for it, is of the machine and of the
//! load generator of its block, and has the ceilings that the Environment states.

use assay_envelope::{ExpectedManifest, MAX_BUNDLE_BYTES, Trust, TrustPolicy, Verified, verify};
use assay_manifest::{
    Artifact, Block, Body as _, Calibration, CalibrationReference, Document, Environment, ExecutionPart, Fact, HostRole,
    InputRef, Kind, MAX_MANIFEST_BYTES,
};

use crate::blobs::Blobs;
use crate::walk::Chain;
use crate::{CalibrationFault, Error, Result};

/// Checks the calibration of each block under the trust policy of the run.
pub(crate) fn check_calibrations(blobs: &dyn Blobs, chain: &Chain, policy: &TrustPolicy) -> Result<()> {
    for (_, environment) in chain.all::<Environment>() {
        let environment = &environment.body;
        let Some(Fact { value: Some(stated), .. }) = &environment.calibration else { continue };
        check_calibration(blobs, environment, stated, policy, &chain.documents)?;
    }
    Ok(())
}

fn check_calibration(
    blobs: &dyn Blobs,
    environment: &Environment,
    stated: &CalibrationReference,
    policy: &TrustPolicy,
    documents: &[Verified<Document>],
) -> Result<()> {
    let refuse = |fault| Error::Calibration { block: environment.block, fault };
    let named = |name: &str| environment.readings.iter().find(|reading| reading.name == name);
    let files = named(CalibrationReference::MANIFEST).zip(named(CalibrationReference::BUNDLE));
    let is_named =
        |(manifest, bundle): &(&Artifact, &Artifact)| manifest.digest == stated.manifest && bundle.digest == stated.bundle;
    let (manifest, bundle) = files.filter(is_named).ok_or_else(|| refuse(CalibrationFault::NoReading))?;
    let read =
        |artifact: &Artifact, limit| blobs.get(&artifact.digest, limit)?.ok_or_else(|| refuse(CalibrationFault::NoReading));
    let (manifest, bundle) = (read(manifest, MAX_MANIFEST_BYTES)?, read(bundle, MAX_BUNDLE_BYTES as u64)?);
    let kind = Kind::Calibration;
    let input = InputRef { kind, manifest: stated.manifest, bundle: stated.bundle };
    let expect =
        ExpectedManifest { kind: Some(kind), stage: Some(kind.signer()), input: Some(&input), ..ExpectedManifest::default() };
    let verified = verify(&manifest, &bundle, &Trust::Policy(policy.clone()), &expect)
        .map_err(|error| Error::Unverified { kind, source: Box::new(error.into()) })?;
    let calibration = Calibration::from_document(verified.value()).ok_or_else(|| refuse(CalibrationFault::NoReading))?;
    if CalibrationReference::new(stated.manifest, stated.bundle, &calibration.body) != *stated {
        return Err(refuse(CalibrationFault::OtherCeilings));
    }
    let is_here = environment.hosts_with(HostRole::Client).any(|host| {
        let machine = host.facts.machine_digest().ok();
        machine == Some(calibration.body.machine) && calibration.body.facts.machine_digest().ok() == machine
    });
    if !is_here {
        return Err(refuse(CalibrationFault::OtherMachine));
    }
    if generators(documents, environment.block).any(|program| program != Some(calibration.body.load_generator)) {
        return Err(refuse(CalibrationFault::OtherProgram));
    }
    Ok(())
}

/// Returns the digests of the programs that made the load of a block.
fn generators(documents: &[Verified<Document>], block: Block) -> impl Iterator<Item = Option<assay_manifest::Digest>> {
    let is_of_block = move |verified: &&Verified<Document>| {
        ExecutionPart::from_document(verified.value()).is_some_and(|part| part.body.block == block)
    };
    documents.iter().filter(is_of_block).map(|verified| verified.predicate().binary())
}
