//! The files of a publication other than rows: numbers, reports and keys. publish makes them with this code and verify makes them
//! again, so that a reader trusts only what follows from the verified manifests.

use std::collections::{BTreeMap, BTreeSet};

use assay_envelope::{PublicKey, Trust, TrustPolicy, Verified};
use assay_manifest::{
    Address, Artifact, Body as _, Collection, Count, CuratedFile, Digest, Document, Environment, Grade, ListedRun, MetricSummary,
    Name, Number, NumberPlace, NumberSource, Numbers, Plan, PublishedQuery, Role, RunId, Summary, Views, canonical_json,
};
use assay_report::{ChainSignature, Report};
use assay_stage::StageName;
use assay_warehouse::OUTCOME_FACT;

use crate::blobs::Blobs;
use crate::windows::why_worse;
use crate::{ArtifactHolder, Error, Result, Unwritable};

/// The largest frozen workload and the largest query, in bytes.
const MAX_SPEC_BYTES: u64 = 16 << 20;

/// A file of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// Its path in the published folder.
    pub name: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl PublishedFile {
    /// The artifact that names these bytes.
    pub fn artifact(&self) -> Artifact {
        Artifact {
            name: self.name.clone(),
            digest: Digest::compute(&self.bytes),
            size: Count(self.bytes.len() as u64),
            media_type: self.media_type.to_owned(),
        }
    }
}

/// A verified chain up to its Summary, and the trust policy under which it is published.
pub struct PublicationInputs<'a> {
    /// The run.
    pub run_id: &'a RunId,
    /// The manifests that publish takes, in any order.
    pub documents: Vec<&'a Verified<Document>>,
    /// The trust policy.
    pub policy: &'a TrustPolicy,
    /// The digest of its bytes.
    pub policy_digest: Digest,
    /// The source of bytes by digest.
    pub blobs: &'a dyn Blobs,
}

/// The decisions of publish, which a reader finds in the Publication.
#[derive(Clone, Copy)]
pub struct PublishDecisions<'a> {
    /// The grade.
    pub grade: &'a Grade,
    /// All runs of the published cases.
    pub runs: &'a [ListedRun],
    /// The queries with their results.
    pub queries: &'a [PublishedQuery],
    /// The versions of the warehouse's tables.
    pub snapshot: &'a BTreeMap<String, Count>,
}

impl PublicationInputs<'_> {
    fn one<B: assay_manifest::Body>(&self) -> Result<&B> {
        let found = self.documents.iter().find_map(|verified| B::from_document(verified.value()));
        found.map(|manifest| &manifest.body).ok_or(Error::NoDocument(B::KIND))
    }

    /// Makes `report.md` and `report.html`.
    pub fn reports(&self, decided: &PublishDecisions<'_>) -> Result<Vec<PublishedFile>> {
        let (plan, summary) = (self.one::<Plan>()?, self.one::<Summary>()?);
        let mut environments: Vec<&Environment> = self
            .documents
            .iter()
            .filter_map(|verified| Environment::from_document(verified.value()))
            .map(|manifest| &manifest.body)
            .collect();
        environments.sort_by_key(|environment| environment.block);
        let views = self.views(summary)?;
        let report = Report::build(&assay_report::Inputs {
            run_id: self.run_id,
            plan,
            environments: &environments,
            collection: self.one::<Collection>()?,
            summary,
            views: views.as_ref(),
            verified: None,
            grade: decided.grade,
            runs: decided.runs,
            signers: &self.signers()?,
            trust_policy: Some((self.policy.name.clone(), self.policy_digest)),
            workload_specs: self.workload_specs(plan)?,
            queries: decided.queries,
            query_texts: self.query_texts(plan)?,
            why_worse: why_worse(self.blobs, plan, summary)?,
            warehouse_snapshot: decided.snapshot,
        });
        let file =
            |name: &str, media_type, text: String| PublishedFile { name: name.to_owned(), media_type, bytes: text.into_bytes() };
        Ok(vec![file("report.md", "text/markdown", report.markdown()), file("report.html", "text/html", report.html())])
    }

    /// Returns the signers with what each signed, in the order of the chain, under their names of the trust policy.
    fn signers(&self) -> Result<Vec<ChainSignature>> {
        let trust = Trust::Policy(self.policy.clone());
        let signed = |verified: &&Verified<Document>| {
            let (stage, fingerprint) = (verified.value().kind().signer(), verified.signer().fingerprint);
            let signer = verified.identify_under(&trust, stage)?;
            Ok(ChainSignature {
                stage,
                name: assay_stage::chain_name(verified.value()),
                signer: signer.name,
                key_fingerprint: fingerprint.to_string(),
                manifest: verified.manifest_digest(),
                bundle: verified.bundle_digest(),
            })
        };
        let mut documents: Vec<_> = self.documents.iter().filter(|verified| is_published(verified.value())).copied().collect();
        documents.sort_by_key(|verified| (verified.value().kind(), assay_stage::chain_name(verified.value())));
        documents.iter().map(signed).collect()
    }

    /// Returns the data of the serving charts.
    fn views(&self, summary: &Summary) -> Result<Option<Views>> {
        let Some(artifact) = &summary.views else { return Ok(None) };
        let bytes = self.bytes(artifact, Views::MAX_BYTES)?;
        Views::parse(&bytes).map(Some).map_err(Error::Views)
    }

    /// Returns the frozen workloads as readable text.
    fn workload_specs(&self, plan: &Plan) -> Result<BTreeMap<Name, String>> {
        let readable = |workload: &assay_manifest::FrozenWorkload| {
            let bytes = self.bytes(&workload.spec, MAX_SPEC_BYTES)?;
            let json: serde_json::Value =
                serde_json::from_slice(&bytes).map_err(|source| Error::Workload { workload: workload.name.clone(), source })?;
            let text = serde_json::to_string_pretty(&json)
                .map_err(|error| Error::Unwritable { value: Unwritable::Workload, source: error.into() })?;
            Ok((workload.name.clone(), text))
        };
        plan.workloads.iter().map(readable).collect()
    }

    fn query_texts(&self, plan: &Plan) -> Result<BTreeMap<String, String>> {
        let text = |query: &assay_manifest::PinnedFile| {
            let bytes = self.bytes(&query.artifact, MAX_SPEC_BYTES)?;
            Ok((query.path.clone(), String::from_utf8_lossy(&bytes).into_owned()))
        };
        plan.queries.iter().map(text).collect()
    }

    fn bytes(&self, artifact: &Artifact, limit: u64) -> Result<Vec<u8>> {
        let absent =
            || Error::NoArtifact { holder: ArtifactHolder::Published, name: artifact.name.clone(), digest: artifact.digest };
        self.blobs.get(&artifact.digest, limit)?.ok_or_else(absent)
    }

    /// Returns the public keys of the roles that signed a manifest of the run.
    pub fn key_files(&self) -> Vec<PublishedFile> {
        let signed = self.documents.iter().filter(|verified| is_published(verified.value()));
        let used = signed.map(|verified| verified.value().kind().signer()).chain([StageName::Publish.role()]).collect();
        let file = |(name, key): (String, &PublicKey)| PublishedFile {
            name,
            media_type: "application/x-pem-file",
            bytes: key.to_pem().into_bytes(),
        };
        key_files(self.policy, &used).into_iter().map(file).collect()
    }
}

/// Returns true if publish takes manifests of this kind.
fn is_published(document: &Document) -> bool {
    StageName::Publish.input_kinds().iter().any(|(kind, _)| *kind == document.kind())
}

/// Returns the public keys of these roles, by file name. A policy may list one key several times, for windows of time, and
/// several keys for one role: then the names of all but the first also contain their fingerprints.
fn key_files<'a>(policy: &'a TrustPolicy, used: &BTreeSet<Role>) -> BTreeMap<String, &'a PublicKey> {
    let mut files: BTreeMap<String, &PublicKey> = BTreeMap::new();
    for signer in &policy.signers {
        for role in signer.signs.iter().filter(|role| used.contains(role)) {
            let plain = format!("keys/{role}.pub");
            let name = match files.get(&plain) {
                Some(first) if **first != signer.key => format!("keys/{role}-{}.pub", signer.key.fingerprint().short()),
                _ => plain,
            };
            files.insert(name, &signer.key);
        }
    }
    files
}

/// Makes `numbers.json`.
pub fn numbers_file(numbers: &Numbers) -> Result<PublishedFile> {
    let bytes =
        canonical_json(numbers).map_err(|error| Error::Unwritable { value: Unwritable::Numbers, source: error.into() })?;
    Ok(PublishedFile { name: "numbers.json".to_owned(), media_type: "application/json", bytes })
}

/// Returns every statistic across counted trials of every metric, in the Summary's order.
pub fn summary_numbers(run_id: &RunId, summary: &Summary) -> Result<Vec<Number>> {
    let metrics = summary.places().flat_map(|(place, metrics)| metrics.iter().map(move |metric| (place, metric)));
    let mut numbers = Vec::new();
    for (place, metric) in metrics {
        let file = outcome_files(summary).next().ok_or_else(|| missing_row(place, metric, "file"))?;
        for (statistic, value) in metric.statistics() {
            let row = metric.rows.get(statistic).ok_or_else(|| missing_row(place, metric, "row"))?;
            numbers.push(number(run_id, (place, metric), (statistic, value), row, file));
        }
    }
    Ok(numbers)
}

fn number(
    run_id: &RunId,
    (place, metric): (NumberPlace<'_>, &MetricSummary),
    (statistic, value): (&str, f64),
    row: &Digest,
    file: &CuratedFile,
) -> Number {
    Number {
        address: Address::for_value(run_id, row).to_string(),
        benchmark_case_id: place.case_id.to_string(),
        point_id: place.point_id.to_string(),
        metric: metric.metric.clone(),
        statistic: statistic.to_owned(),
        value,
        unit: if statistic == "cv" { "ratio".to_owned() } else { metric.unit.clone() },
        n: metric.n,
        source: NumberSource::Rows,
        query: None,
        file: file.artifact.digest,
    }
}

fn missing_row(place: NumberPlace<'_>, metric: &MetricSummary, part: &'static str) -> Error {
    Error::NumberWithoutRow {
        part,
        metric: metric.metric.clone(),
        case: place.case_id.clone(),
        point: place.point_id.to_string(),
    }
}

fn outcome_files(summary: &Summary) -> impl Iterator<Item = &CuratedFile> {
    summary.files.iter().filter(|file| file.table == OUTCOME_FACT.name)
}

#[cfg(test)]
mod tests;
