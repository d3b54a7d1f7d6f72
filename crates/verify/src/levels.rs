//! The levels beyond the chain: rows and numbers, and the raw bytes.

use std::collections::BTreeSet;
use std::fmt;
use std::thread::{Scope, ScopedJoinHandle};

use assay_chain::published_outputs;
use assay_claim::Evidence;
use assay_envelope::{Predicate, TrustPolicy, Verified};
use assay_failure::{ErrorCode, Failure};
use assay_manifest::{
    Artifact, Collection, CuratedFile, Digest, Environment, ListedRun, Number, NumberSource, Numbers, PinnedFile, Plan,
    Publication, RunId, RunOutcome, Source, Summary,
};
use assay_planning::{DefinitionCheck, SourceFiles, check_definitions, check_plan, run_query};
use assay_query::ResultTable;
use assay_store::{Scratch, Store};
use assay_warehouse::Row;
use serde::Serialize;

use crate::attempts::check_attempts;
use crate::blobs::Blobs;
use crate::calibrations::check_calibrations;
use crate::evidence::{check_evidence_list, read_evidence_list};
use crate::numbers::{NumberRows, check_numbers};
use crate::outcomes::{Tables, check_outcomes};
use crate::parallel::map_in_parallel;
use crate::published::{PublicationInputs, PublishDecisions, PublishedFile, numbers_file, summary_numbers};
use crate::queries::{merge_query_numbers, query_numbers, query_result_file};
use crate::searches::check_searches;
use crate::times::check_times;
use crate::tombstones::Removals;
use crate::walk::Chain;
use crate::{ArtifactHolder, Error, KeysFault, ReportsFault, Result, TableNamer};

/// The largest curated file that is read, in bytes.
const MAX_CURATED_BYTES: u64 = 4 << 30;

/// The largest query, in bytes.
const MAX_QUERY_BYTES: u64 = 1 << 20;

/// The largest file of a Source, in bytes.
const MAX_SOURCE_BYTES: u64 = 256 << 20;

/// The media type of a published trust policy.
const POLICY_TYPE: &str = "application/yaml";

/// The largest trust policy, in bytes.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// The largest numbers document, in bytes.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// The level that a verification reached.
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

/// The result of checking one level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelReport {
    /// The number of things that were checked.
    pub checked: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The names of artifacts that are absent; one that is present and does not match is a failure instead.
    pub absent: Vec<String>,
    /// The artifacts that are absent because they were removed, as a tombstone states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<Artifact>,
    /// For level 3: the number of artifacts that only the Collection names, and no stage that measured.
    pub by_collection_alone: u64,
    /// For level 2: true if the definitions were imported again from their original, with the same result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub imported_again: bool,
    /// Files that could not be compared with what is made now, each with the reason; only their signer vouches for them.
    pub not_compared: Vec<String>,
}

/// Level 2: checks that every published output is present and matches, that curated rows agree with the Summary, and that
/// numbers, reports and keys are those that follow from it. `publish_binary` returns the digest of this version's publish
/// program, if it is available: a report that this program made and that differs is false; a report of another version is not
/// compared.
///
/// All of these travel with the run, so a missing one was lost or removed: a failure, unlike raw evidence, which is kept
/// elsewhere.
pub fn verify_rows(
    blobs: &dyn Blobs,
    chain: &Chain,
    publish_binary: &(dyn Fn() -> Option<Digest> + Sync),
) -> Result<LevelReport> {
    let mut report = LevelReport::default();
    let (Some(summary), Some(publication)) = (chain.one::<Summary>(), chain.one::<Publication>()) else {
        report.absent.push("the run is not published".to_owned());
        return Ok(report);
    };
    std::thread::scope(|scope| {
        // These two need no row in memory, and take as long as checking the rows: with a second processor, they are done by the
        // time their results are needed. Failures are reported in the order of the checks below.
        let reports = start_thread(scope, || check_reports(blobs, chain, &publication.body, publish_binary));
        let answers = start_thread(scope, || run_queries(blobs, chain));
        for artifact in chain.documents.iter().map(Verified::value).flat_map(published_outputs) {
            check_present(blobs, artifact, &Removals::default(), &mut report)?;
            if !report.absent.is_empty() {
                return Err(absent(artifact));
            }
        }
        check_times(chain)?;
        check_attempts(&chain.documents)?;
        let definitions = check_planned(blobs, chain)?;
        check_published_evidence(blobs, chain)?;
        let policy = published_policy(blobs, &publication.body)?;
        check_calibrations(blobs, chain, &policy)?;
        check_searches(blobs, chain, &policy)?;
        let tables = read_tables(blobs, &summary.body.files)?;
        check_outcomes(&chain.run_id, &chain.documents, &tables)?;
        let rows = number_rows(&summary.body.files, tables)?;
        let numbers = read_numbers(blobs, &publication.body)?;
        check_origin(&numbers, &chain.run_id, &publication.body)?;
        check_numbers(&chain.run_id, &numbers, &rows)?;
        let selected = check_queries(chain, &numbers, &rows, || join_thread(answers))?;
        check_grade(chain, &summary.body, &publication.body)?;
        check_whole_numbers(&chain.run_id, &summary.body, &publication.body, selected)?;
        check_listed_runs(chain, &publication.body)?;
        report.not_compared = join_thread(reports)?;
        match definitions {
            DefinitionCheck::NotImported => {}
            DefinitionCheck::Same => report.imported_again = true,
            DefinitionCheck::NotCompared(reason) => report.not_compared.push(reason),
        }
        Ok(report)
    })
}

/// Starts a check in a thread. A thread that cannot be started is a failure of the check.
pub fn start_thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    check: impl FnOnce() -> Result<T> + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<T>>> {
    let unstarted =
        |error| Error::Stated(Failure::new(ErrorCode::Threads, "cannot start a thread that checks the run").because(&error));
    std::thread::Builder::new().name("check".to_owned()).spawn_scoped(scope, check).map_err(unstarted)
}

/// Returns the result of a check; a panic of its thread is raised again in the caller.
pub fn join_thread<T>(thread: Result<ScopedJoinHandle<'_, Result<T>>>) -> Result<T> {
    thread?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the rows that hold numbers.
fn number_rows(files: &[CuratedFile], mut tables: Tables) -> Result<NumberRows> {
    let mut rows = NumberRows::default();
    for file in files {
        rows.add(file, tables.remove(file.table.as_str()).unwrap_or_default())?;
    }
    Ok(rows)
}

/// Checks that the Plan is the one that the Source's files give, in the order that is drawn for the run: it is made again with
/// the pins that it records. Definitions that were imported are compared with what an import of their original gives.
fn check_planned(blobs: &dyn Blobs, chain: &Chain) -> Result<DefinitionCheck> {
    let (Some(source), Some(plan)) = (chain.one::<Source>(), chain.one::<Plan>()) else {
        return Ok(DefinitionCheck::NotImported);
    };
    let read = |artifact: &Artifact| -> Result<Vec<u8>> {
        blobs.get(&artifact.digest, MAX_SOURCE_BYTES)?.ok_or_else(|| absent(artifact))
    };
    let files = SourceFiles::load(&source.body, |artifact| Ok(read(artifact)?))?;
    let definitions = check_definitions(&files)?;
    check_plan(&files, &chain.run_id, &plan.body)?;
    Ok(definitions)
}

/// Checks that the Collection's list, which is published, leaves nothing out.
fn check_published_evidence(blobs: &dyn Blobs, chain: &Chain) -> Result<()> {
    let Some(collection) = chain.one::<Collection>() else { return Ok(()) };
    let list = read_evidence_list(blobs, &collection.body)?.ok_or_else(|| absent(&collection.body.evidence))?;
    check_evidence_list(&chain.documents, &list).map(|_| ())
}

/// Refuses a value in a reserved column: no source fills it yet, so the value was made up.
fn check_reserved(row: &Row) -> Result<()> {
    let filled = row.iter().find(|(column, value)| column.reserved.is_some() && **value != assay_warehouse::Value::Null);
    match filled {
        Some((column, _)) => Err(Error::ReservedColumn { table: row.table().name, column: column.name }),
        None => Ok(()),
    }
}

/// Returns the rows of curated files, by table. No two files may hold the same table.
pub fn read_tables<'a>(blobs: &dyn Blobs, files: impl IntoIterator<Item = &'a CuratedFile>) -> Result<Tables> {
    // No file after a second one of the same table is read: a hostile Summary may name any number of them.
    let mut names = BTreeSet::new();
    let mut files: Vec<_> = files.into_iter().collect();
    let second = files.iter().position(|file| !names.insert(&file.table));
    files.truncate(second.map_or(files.len(), |place| place + 1));
    let read = |file: &&CuratedFile| -> Result<_> {
        let (name, rows) = read_rows(blobs, file)?;
        rows.iter().try_for_each(check_reserved)?;
        Ok((name, rows))
    };
    let mut tables = Tables::new();
    for read in map_in_parallel(&files, read) {
        let (name, rows) = read?;
        if tables.insert(name, rows).is_some() {
            return Err(Error::TableTwice(name));
        }
    }
    Ok(tables)
}

/// Checks that `numbers.json` holds every number of the Summary and of the queries, and no other: it is made again and compared
/// byte for byte.
fn check_whole_numbers(run_id: &RunId, summary: &Summary, publication: &Publication, selected: Vec<Number>) -> Result<()> {
    let numbers = Numbers {
        run_id: run_id.clone(),
        grade: publication.grade.clone(),
        summary: publication.summary,
        numbers: merge_query_numbers(summary_numbers(run_id, summary)?, selected),
    };
    if numbers_file(&numbers)?.artifact() == publication.numbers {
        return Ok(());
    }
    let count = numbers.numbers.len();
    Err(Error::OtherNumbers { name: publication.numbers.name.clone(), count })
}

/// Checks how a Publication lists its own run among all runs of its cases. For the list of other runs, only its signer vouches.
fn check_listed_runs(chain: &Chain, publication: &Publication) -> Result<()> {
    let Some(plan) = chain.one::<Plan>() else { return Ok(()) };
    let cases: BTreeSet<String> = plan.body.cases.iter().map(|case| case.case_id.to_string()).collect();
    let is_own = |run: &&ListedRun| run.outcome == RunOutcome::This || run.run_id == chain.run_id;
    let is_right = |run: &ListedRun| {
        let named = run.run_id == chain.run_id && run.outcome == RunOutcome::This && run.evidence.is_none();
        named && run.cases.iter().eq(&cases)
    };
    let own: Vec<_> = publication.runs.iter().filter(is_own).collect();
    if matches!(own.as_slice(), [run] if is_right(run)) {
        return Ok(());
    }
    Err(Error::OwnRun)
}

/// Returns the file of the trust policy among the published keys.
fn policy_file(publication: &Publication) -> Result<&Artifact> {
    let named = publication.keys.iter().find(|file| file.name == "trust.yaml");
    named.filter(|file| file.digest == publication.trust_policy).ok_or(Error::Keys(KeysFault::Policy))
}

/// Returns the trust policy that the run was published with.
fn published_policy(blobs: &dyn Blobs, publication: &Publication) -> Result<TrustPolicy> {
    let file = policy_file(publication)?;
    let bytes = blobs.get(&file.digest, MAX_POLICY_BYTES)?.ok_or_else(|| absent(file))?;
    assay_stage::read_trust("trust.yaml", &bytes).map_err(Error::PublishedPolicy)
}

/// Makes reports and keys again and compares them byte for byte. Returns the reports that could not be compared, with the reason.
fn check_reports(
    blobs: &dyn Blobs,
    chain: &Chain,
    publication: &Publication,
    publish_binary: &(dyn Fn() -> Option<Digest> + Sync),
) -> Result<Vec<String>> {
    let policy_file = policy_file(publication)?;
    let policy = published_policy(blobs, publication)?;
    let publishable = PublicationInputs {
        run_id: &chain.run_id,
        documents: chain.documents.iter().collect(),
        policy: &policy,
        policy_digest: publication.trust_policy,
        blobs,
    };
    let keys: BTreeSet<Artifact> = publishable.key_files().iter().map(PublishedFile::artifact).collect();
    let said: BTreeSet<Artifact> = publication.keys.iter().filter(|file| *file != policy_file).cloned().collect();
    if policy_file.media_type != POLICY_TYPE || keys != said || publication.keys.len() != said.len() + 1 {
        return Err(Error::Keys(KeysFault::Keys));
    }
    let Publication { grade, runs, queries, warehouse_snapshot: snapshot, .. } = publication;
    let made = publishable.reports(&PublishDecisions { grade, runs, queries, snapshot })?;
    let made: Vec<Artifact> = made.iter().map(PublishedFile::artifact).collect();
    if made == publication.reports {
        return Ok(Vec::new());
    }
    let by = chain.documents.iter().find_map(|verified| match verified.predicate() {
        Predicate::VerificationSummary(summary) => Some(summary.verifier_binary),
        _ => None,
    });
    let here = publish_binary();
    if by.is_some() && by == here {
        return Err(Error::Reports(ReportsFault::Content));
    }
    let names: Vec<&str> = publication.reports.iter().map(|file| file.name.as_str()).collect();
    if !names.iter().eq(&["report.md", "report.html"]) {
        return Err(Error::Reports(ReportsFault::Names));
    }
    let differing = publication.reports.iter().filter(|file| !made.contains(file));
    let by = by.map(|digest| digest.short().clone()).unwrap_or_default();
    let why = if here.is_some() {
        format!("made by another version ({by})")
    } else {
        format!("it differs, and the program that made it ({by}) is not here")
    };
    Ok(differing.map(|file| format!("{}: report not compared: {why}", file.name)).collect())
}

/// Returns the present results of the queries that the Plan pins, in its order.
fn run_queries(blobs: &dyn Blobs, chain: &Chain) -> Result<Vec<ResultTable>> {
    let (Some(plan), Some(summary)) = (chain.one::<Plan>(), chain.one::<Summary>()) else { return Ok(Vec::new()) };
    if plan.body.queries.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = Scratch::new(MAX_CURATED_BYTES)?;
    let store = curated_store(blobs, &summary.body.files)?;
    let answer = |query| Ok(run_pinned(blobs, query, &summary.body.files, &store, &scratch)?.1);
    plan.body.queries.iter().map(answer).collect()
}

/// Returns the text of a pinned query and its present result over curated files, which lie in `store`.
fn run_pinned(
    blobs: &dyn Blobs,
    query: &PinnedFile,
    files: &[CuratedFile],
    store: &Store,
    scratch: &Scratch,
) -> Result<(Vec<u8>, ResultTable)> {
    let text = blobs.get(&query.artifact.digest, MAX_QUERY_BYTES)?.ok_or_else(|| absent(&query.artifact))?;
    let result = run_query(&query.path, &text, files, store, scratch).map_err(|failure| requery(failure.into()))?;
    Ok((text, result))
}

/// Checks every query that the Plan pins, executed again: it gives the published bytes, and the numbers attributed to queries are
/// those that it selects.
fn check_queries(
    chain: &Chain,
    numbers: &Numbers,
    rows: &NumberRows,
    answers: impl FnOnce() -> Result<Vec<ResultTable>>,
) -> Result<Vec<Number>> {
    let (Some(plan), Some(publication)) = (chain.one::<Plan>(), chain.one::<Publication>()) else {
        return Ok(Vec::new());
    };
    let (planned, published) = (&plan.body.queries, &publication.body.queries);
    let named = planned.iter().map(|query| (&query.path, query.artifact.digest));
    if !named.eq(published.iter().map(|query| (&query.path, query.digest))) {
        return Err(Error::Queries);
    }
    let mut selected = Vec::new();
    for ((query, published), result) in planned.iter().zip(published).zip(answers()?) {
        let made = query_result_file(query, &result).artifact();
        if made != published.result || result.rows.len() as u64 != published.rows.0 {
            return Err(Error::QueryResult(query.path.clone()));
        }
        selected.extend(query_numbers(&chain.run_id, query, &result, rows).map_err(requery)?);
    }
    let selected = merge_query_numbers(Vec::new(), selected);
    check_selected(numbers, &selected)?;
    Ok(selected)
}

/// Checks that the numbers whose source is a query are exactly those that the queries select.
fn check_selected(numbers: &Numbers, selected: &[Number]) -> Result<()> {
    let by_address = |number: &&Number| number.address.clone();
    let mut said: Vec<_> =
        numbers.numbers.iter().filter(|number| number.source == NumberSource::Query || number.query.is_some()).collect();
    let mut expected: Vec<_> = selected.iter().collect();
    said.sort_by_key(by_address);
    expected.sort_by_key(by_address);
    let differing = said.iter().zip(&expected).find(|(said, expected)| said != expected).map(|(said, _)| *said);
    let unpaired = said.get(expected.len()).or(expected.get(said.len())).copied();
    match differing.or(unpaired) {
        None => Ok(()),
        Some(number) => Err(not_selected(number)),
    }
}

/// Executes one pinned query again, and refuses a number that is attributed to it but that it does not select. Returns the
/// query's text.
///
/// # Errors
/// Fails if the query, a curated file or a row is missing or does not verify; `number_not_in_query` if the query gives no such
/// number.
pub fn check_selected_by(blobs: &dyn Blobs, chain: &Chain, query: &PinnedFile, number: &Number) -> Result<String> {
    let summary = chain.one::<Summary>().ok_or_else(|| not_selected(number))?;
    let files = &summary.body.files;
    let (store, scratch) = (curated_store(blobs, files)?, Scratch::new(MAX_CURATED_BYTES)?);
    let (text, result) = run_pinned(blobs, query, files, &store, &scratch)?;
    let rows = number_rows(files, read_tables(blobs, files)?)?;
    let selected = query_numbers(&chain.run_id, query, &result, &rows).map_err(requery)?;
    if selected.iter().any(|found| found.address == number.address) {
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    Err(not_selected(number))
}

fn not_selected(number: &Number) -> Error {
    Error::NumberNotInQuery(number.address.clone())
}

/// Returns a store in memory with the curated files of a run, for queries.
fn curated_store(blobs: &dyn Blobs, files: &[CuratedFile]) -> Result<Store> {
    let store = Store::open("memory:")?;
    for file in files {
        let bytes = blobs.get(&file.artifact.digest, MAX_CURATED_BYTES)?.ok_or_else(|| absent(&file.artifact))?;
        store.put(&bytes)?;
    }
    Ok(store)
}

/// Marks the error of a query that worked when the run was published: it is not an error of the definition.
fn requery(error: Error) -> Error {
    Error::Requery(Box::new(error))
}

/// Checks that the grade is the one that the claim rules give now: publish is not taken at its word.
fn check_grade(chain: &Chain, summary: &Summary, publication: &Publication) -> Result<()> {
    let (Some(plan), Some(collection)) = (chain.one::<Plan>(), chain.one::<Collection>()) else { return Ok(()) };
    let mut environments: Vec<_> = chain.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
    environments.sort_by_key(|environment| environment.block);
    let earned = assay_claim::grade(&Evidence::from_summary(&plan.body, &environments, &collection.body, summary));
    if earned == publication.grade {
        return Ok(());
    }
    Err(Error::Grade { published: publication.grade.given, earned: earned.given })
}

/// Checks that the numbers belong to this run, this Summary and this grade.
fn check_origin(numbers: &Numbers, run_id: &RunId, publication: &Publication) -> Result<()> {
    let comparisons = [
        ("run", numbers.run_id == *run_id),
        ("summary", numbers.summary == publication.summary),
        ("grade", numbers.grade == publication.grade),
    ];
    match comparisons.into_iter().find(|(_, is_same)| !is_same) {
        None => Ok(()),
        Some((what, _)) => Err(Error::NumbersOfOther(what)),
    }
}

/// The bytes beyond the stated size of an artifact that are read, so that a manifest that states a slightly smaller size is named.
const SIZE_SLACK: u64 = 1 << 20;

/// Counts an artifact that is present, and notes one that is absent. Its bytes have its digest, and must have the size that its
/// manifest states.
pub(crate) fn check_present(blobs: &dyn Blobs, artifact: &Artifact, removals: &Removals, report: &mut LevelReport) -> Result<()> {
    match blobs.check(&artifact.digest, artifact.size.0.saturating_add(SIZE_SLACK))? {
        Some(size) if size != artifact.size.0 => {
            return Err(Error::SizeDiffers { name: artifact.name.clone(), found: size, stated: artifact.size });
        }
        Some(size) => {
            report.checked += 1;
            report.bytes += size;
        }
        None if removals.explains(artifact) => report.removed.push(artifact.clone()),
        None => report.absent.push(artifact.name.clone()),
    }
    Ok(())
}

/// Returns the published numbers of a run.
pub fn read_numbers(blobs: &dyn Blobs, publication: &Publication) -> Result<Numbers> {
    let artifact = &publication.numbers;
    let bytes = blobs.get(&artifact.digest, MAX_LIST_BYTES)?.ok_or_else(|| absent(artifact))?;
    serde_json::from_slice(&bytes).map_err(Error::Numbers)
}

pub(crate) fn absent(artifact: &Artifact) -> Error {
    Error::NoArtifact { holder: ArtifactHolder::Published, name: artifact.name.clone(), digest: artifact.digest }
}

/// Returns the rows of a curated file, and checks that there are as many as the Summary states.
fn read_rows(blobs: &dyn Blobs, file: &CuratedFile) -> Result<(&'static str, Vec<Row>)> {
    let table = assay_warehouse::table(&file.table)
        .ok_or_else(|| Error::NoTable { namer: TableNamer::Summary, table: file.table.clone() })?;
    let bytes = blobs.get(&file.artifact.digest, MAX_CURATED_BYTES)?.ok_or_else(|| absent(&file.artifact))?;
    let rows = assay_warehouse::read(table, bytes)?;
    if rows.len() as u64 != file.rows.0 {
        return Err(Error::RowCount { file: file.artifact.name.clone(), found: rows.len(), stated: file.rows });
    }
    Ok((table.name, rows))
}

#[cfg(test)]
mod tests {
    use assay_manifest::Digest;
    use serde_json::json;

    use super::*;

    fn publication() -> Publication {
        let digest = Digest::compute(b"");
        let artifact = json!({"name": "numbers.json", "digest": digest, "size": "0", "media_type": "application/json"});
        let grade = json!({"requested": "exploratory", "given": "exploratory", "shortfalls": []});
        let publication = json!({
            "plan_digest": digest, "summary": digest, "trust_policy": digest, "published_at": "2026-01-01T00:00:00.000000000Z",
            "grade": grade, "runs": [], "warehouse_snapshot": {}, "numbers": artifact, "reports": [], "keys": [],
        });
        serde_json::from_value(publication).expect("a publication")
    }

    fn check_changed(change: impl FnOnce(&mut Numbers)) -> String {
        let publication = publication();
        let run_id: RunId = "nightly".parse().expect("a run id");
        let (grade, summary) = (publication.grade.clone(), publication.summary);
        let mut numbers = Numbers { run_id: run_id.clone(), grade, summary, numbers: Vec::new() };
        change(&mut numbers);
        check_origin(&numbers, &run_id, &publication).map_or_else(|error| error.to_string(), |()| "the same".to_owned())
    }

    #[test]
    fn numbers_are_their_publication_s_own() {
        assert_eq!(check_changed(|_| {}), "the same");
        insta::assert_snapshot!(check_changed(|numbers| numbers.run_id = "weekly".parse().expect("a run id")), @"the published numbers are of another run than their publication");
        insta::assert_snapshot!(check_changed(|numbers| numbers.summary = Digest::compute(b"other")), @"the published numbers are of another summary than their publication");
        insta::assert_snapshot!(check_changed(|numbers| numbers.grade.given = assay_manifest::Intent::Publication), @"the published numbers are of another grade than their publication");
    }

    #[test]
    fn levels_are_numbered_in_order() {
        let levels = [Level::Chain, Level::Rows, Level::Raw, Level::Recomputed];
        assert!(levels.is_sorted());
        assert_eq!(levels.map(Level::number), [1, 2, 3, 4]);
        assert!(levels.iter().all(|level| level.to_string().starts_with(&level.number().to_string())));
    }

    #[derive(Default)]
    struct TestBlobs(Vec<Vec<u8>>);

    impl Blobs for TestBlobs {
        fn get(&self, digest: &Digest, _: u64) -> Result<Option<Vec<u8>>> {
            Ok(self.0.iter().find(|bytes| Digest::compute(bytes) == *digest).cloned())
        }

        fn check(&self, digest: &Digest, _: u64) -> Result<Option<u64>> {
            Ok(self.get(digest, 0)?.map(|bytes| bytes.len() as u64))
        }
    }

    fn collection(list: &[u8], count: u64) -> Collection {
        let digest = Digest::compute(list);
        let artifact = json!({"name": "evidence.json", "digest": digest, "size": "0", "media_type": "application/json"});
        let collection = json!({
            "plan_digest": digest, "trials": [], "drift": [], "evidence": artifact, "evidence_count": count.to_string(),
            "evidence_bytes": "0",
        });
        serde_json::from_value(collection).expect("a collection")
    }

    #[test]
    fn the_list_of_evidence_is_the_collection_s() {
        let held = |list: &[u8]| TestBlobs(vec![list.to_vec()]);
        assert_eq!(read_evidence_list(&held(b"[]"), &collection(b"[]", 0)).expect("a list"), Some(Vec::new()));
        assert_eq!(
            read_evidence_list(&TestBlobs::default(), &collection(b"[]", 0)).expect("no list"),
            None,
            "evidence stays in the store"
        );
        let code =
            |list: &[u8], count| read_evidence_list(&held(list), &collection(list, count)).expect_err("refused").to_string();
        insta::assert_snapshot!(code(b"[]", 1), @"the list of evidence has 0 entries, and the collection says 1");
        insta::assert_snapshot!(code(b"{}", 0), @"the list of evidence cannot be read");
    }
}
