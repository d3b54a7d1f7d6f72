//! The levels beyond the chain: rows and numbers, and the raw bytes.

use std::fmt;

use assay_manifest::{Artifact, Collection, Number, Numbers, Publication, Summary};
use assay_stage::{Exit, Failure};
use assay_warehouse::{ROW_ID, Row, Value};
use serde::Serialize;

use crate::blobs::Blobs;
use crate::walk::Chain;

/// The largest curated file that is read.
const MAX_CURATED_BYTES: u64 = 4 << 30;

/// The largest list of evidence, and the largest numbers document.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// How far a verification reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// 1: signatures, trust, digests, links.
    Chain,
    /// 2: rows and queries.
    Rows,
    /// 3: raw bytes present and matching.
    Raw,
    /// 4: computed again.
    Recomputed,
}

impl Level {
    /// The level's number.
    pub fn number(self) -> u8 {
        match self {
            Self::Chain => 1,
            Self::Rows => 2,
            Self::Raw => 3,
            Self::Recomputed => 4,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chain => "1 (chain)",
            Self::Rows => "2 (rows and queries)",
            Self::Raw => "3 (raw bytes)",
            Self::Recomputed => "4 (recomputed)",
        })
    }
}

/// What a level found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LevelReport {
    /// How many things were checked.
    pub checked: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// What is not there, by name; what is there and does not match is a failure instead.
    pub absent: Vec<String>,
}

/// Level 2: every curated file is there and reads, and every published number stands in its row.
pub fn verify_rows(blobs: &dyn Blobs, chain: &Chain) -> Result<LevelReport, Failure> {
    let (Some(summary), Some(publication)) = (chain.one::<Summary>(), chain.one::<Publication>()) else {
        return Ok(LevelReport { checked: 0, bytes: 0, absent: vec!["the run is not published".to_owned()] });
    };
    let mut report = LevelReport { checked: 0, bytes: 0, absent: Vec::new() };
    let mut outcomes = Vec::new();
    for file in &summary.body.files {
        let Some(bytes) = blobs.get(&file.artifact.digest, MAX_CURATED_BYTES)? else {
            report.absent.push(file.artifact.name.clone());
            continue;
        };
        report.checked += 1;
        report.bytes += bytes.len() as u64;
        let table = assay_warehouse::table(&file.table)
            .ok_or_else(|| Failure::verification("unknown_table", format!("the summary names a table `{}`", file.table)))?;
        let rows = assay_warehouse::read(table, bytes).map_err(|error| Failure::of(Exit::Verification, "rows", &error))?;
        if rows.len() as u64 != file.rows.0 {
            let message = format!("`{}` has {} rows, and the summary says {}", file.artifact.name, rows.len(), file.rows);
            return Err(Failure::verification("row_count", message));
        }
        if file.table == assay_warehouse::OUTCOME_FACT.name {
            outcomes = rows;
        }
    }
    for other in publication.body.artifacts_besides_numbers() {
        check_present(blobs, other, &mut report)?;
    }
    let numbers = read_numbers(blobs, &publication.body)?;
    match numbers.numbers.iter().find(|number| !stands_in_row(number, &outcomes)) {
        Some(number) if report.absent.is_empty() => {
            Err(Failure::verification("number_not_in_row", format!("the number `{}` is not the one in its row", number.address)))
        }
        _ => Ok(report),
    }
}

fn check_present(blobs: &dyn Blobs, artifact: &Artifact, report: &mut LevelReport) -> Result<(), Failure> {
    match blobs.check(&artifact.digest)? {
        Some(size) => {
            report.checked += 1;
            report.bytes += size;
        }
        None => report.absent.push(artifact.name.clone()),
    }
    Ok(())
}

/// The published numbers of a run.
pub fn read_numbers(blobs: &dyn Blobs, publication: &Publication) -> Result<Numbers, Failure> {
    let artifact = &publication.numbers;
    let bytes = blobs.get(&artifact.digest, MAX_LIST_BYTES)?.ok_or_else(|| {
        Failure::verification("artifact_absent", format!("the published `{}` ({}) is not there", artifact.name, artifact.digest))
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::verification("numbers", "the published numbers cannot be read").because(&error))
}

fn stands_in_row(number: &Number, rows: &[Row]) -> bool {
    let digits = number.address.split('/').nth(2).unwrap_or_default();
    let mut found = rows.iter().filter(|row| row.text(ROW_ID).is_some_and(|id| id.starts_with(digits)));
    match (found.next(), found.next()) {
        (Some(row), None) => row.get("value") == Some(&Value::Float(number.value)),
        _ => false,
    }
}

/// The raw artifacts of a run, as its Collection lists them.
pub fn evidence_of(blobs: &dyn Blobs, collection: &Collection) -> Result<Option<Vec<Artifact>>, Failure> {
    let Some(bytes) = blobs.get(&collection.evidence.digest, MAX_LIST_BYTES)? else { return Ok(None) };
    let list: Vec<Artifact> = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::verification("evidence", "the list of evidence cannot be read").because(&error))?;
    if list.len() as u64 != collection.evidence_count.0 {
        let message =
            format!("the list of evidence has {} entries, and the collection says {}", list.len(), collection.evidence_count);
        return Err(Failure::verification("evidence", message));
    }
    Ok(Some(list))
}

/// Level 3: every raw artifact is there, and its bytes match.
pub fn verify_evidence(blobs: &dyn Blobs, chain: &Chain) -> Result<LevelReport, Failure> {
    let mut report = LevelReport { checked: 0, bytes: 0, absent: Vec::new() };
    let Some(collection) = chain.one::<Collection>() else {
        report.absent.push("the run has no collection".to_owned());
        return Ok(report);
    };
    let Some(list) = evidence_of(blobs, &collection.body)? else {
        report.absent.push(collection.body.evidence.name.clone());
        return Ok(report);
    };
    for artifact in &list {
        check_present(blobs, artifact, &mut report)?;
    }
    Ok(report)
}
