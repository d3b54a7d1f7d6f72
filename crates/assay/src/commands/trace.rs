//! `assay trace`: follows a number's address to everything that it rests on.

use std::collections::BTreeMap;

use assay_foreign::harness;
use assay_manifest::{
    ALL_LOADS, Address, Attempt, CaseId, CollectedAttempt, Collection, Count, CuratedFile, Executable, ExecutableRole,
    ExecutionPart, FrozenWorkload, InstalledStack, MetricSummary, Name, NumberPlace, PinnedFile, Plan, Publication, PythonStack,
    Source, Summary, TrialId, TrialValue, ordinal,
};
use assay_report::{counted, shell_word};
use assay_runs::VerifiedRun;
use assay_search::GOOD_FRACTION;
use assay_stage::{ErrorCode, Exit, Failure, first_names};
use assay_store::Store;
use assay_verify::{RecomputeOutcome, Removals, StoreBlobs, is_close};
use assay_warehouse::{AS_UNIT_SAYS, ROW_ID, Row, Value};
use serde_json::json;

use crate::commands::recompute::{compare, reduce_again};
use crate::commands::removed::absent_artifact;
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The largest curated file and the largest raw output that are read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The number of raw samples that are shown; the rest are only counted.
const SHOWN: usize = 8;

/// The number of lines of a query that are shown; the rest are only counted.
const SHOWN_LINES: usize = 40;

/// The number of installed packages that are shown; the rest are only counted.
const SHOWN_PACKAGES: usize = 12;

/// The column of the long table that holds a number, in the unit of its row.
const VALUE: &str = "value";

/// Trace a number to its origin, checking every signature and digest on the way.
#[derive(clap::Args)]
pub(crate) struct Trace {
    /// The number's address, `<run>/<table>/<row id>/<column>`, as tables and reports print it
    #[arg(value_name = "NUMBER")]
    number: String,
    /// The published folder to read instead of the store [default: the working folder if it is the run's]
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    #[command(flatten)]
    place: StoreOptions,
    /// Compute the number again from the raw evidence and compare
    #[arg(long)]
    recompute: bool,
    /// Print the trace as one JSON document
    #[arg(long)]
    json: bool,
}

/// Everything that a number rests on.
struct NumberTrace<'a> {
    value: Value,
    row: Row,
    column: &'a str,
    file: &'a CuratedFile,
    place: NumberPlace<'a>,
    /// The metric, if the Summary has one of that name: a few columns of wide tables count or describe.
    metric: Option<&'a MetricSummary>,
    /// The values that it was computed from.
    values: TrialValues<'a>,
    workload: &'a FrozenWorkload,
    /// The query that selected it, with its text.
    query: Option<(&'a PinnedFile, String)>,
    /// The version of the table that was pinned when it was published, and true if the file was found in it.
    snapshot: Option<(Count, bool)>,
}

/// The values of trials behind a number.
enum TrialValues<'a> {
    /// Of the trials of one point, by a metric of it; if it has no metric, only the trials matter.
    OfPoint(Option<&'a MetricSummary>),
    /// Of the trials of all loads of a case: the metric from which each trial's crossing follows, load by load.
    OfLoads(Vec<&'a MetricSummary>),
}

impl NumberTrace<'_> {
    /// Returns the metric and its statistic whose value this is; `None` for any other column, such as the number of samples.
    fn value_of(&self) -> Option<(&str, &str)> {
        let of = |name: &str| self.row.text(name).filter(|_| self.column == VALUE);
        of("metric").zip(of("statistic"))
    }

    fn statistic(&self) -> &str {
        self.value_of().map_or("column", |(_, statistic)| statistic)
    }

    /// Returns the unit: the column's, or the row's own if the column says so.
    fn unit(&self) -> &str {
        let column = self.row.table().columns().find(|column| column.name == self.column);
        match column.and_then(|column| column.unit) {
            Some(AS_UNIT_SAYS) => self.row.text("unit").unwrap_or_default(),
            unit => unit.unwrap_or_default(),
        }
    }

    /// Returns the noun for the value: columns beside the numbers name, date and describe them.
    fn noun(&self) -> &'static str {
        if matches!(self.value, Value::Float(_) | Value::Int(_)) { "number" } else { "value" }
    }

    fn describe(&self) -> String {
        match (self.value_of(), self.row.text("metric"), self.row.text("statistic")) {
            (Some((metric, statistic)), ..) => format!("the {statistic} of `{metric}`"),
            (None, Some(metric), Some(statistic)) => {
                format!("the column `{}` in the row with the {statistic} of `{metric}`", self.column)
            }
            (None, Some(metric), None) => format!("the column `{}` in the row of `{metric}`", self.column),
            (None, None, _) => format!("the column `{}`", self.column),
        }
    }
}

impl Trace {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let address: Address = self.number.parse().map_err(|error| {
            Failure::from_error(ErrorCode::Address, &error)
                .hint("an address is `<run>/<table>/<row id>/<column>`; tables and reports print it")
        })?;
        let opened = match &self.from {
            Some(folder) => self.place.runs().open_folder(folder)?,
            None => self.place.runs().open_here_or_in_store(address.run_id())?,
        };
        if opened.chain.run_id != *address.run_id() {
            return Err(Failure::new(
                ErrorCode::Address,
                format!("the folder holds run `{}`, not `{}`", opened.chain.run_id, address.run_id()),
            ));
        }
        let walk = trace_number(&opened, &address)?;
        let again = if self.recompute { Some(rederive(&opened, &walk)?) } else { None };
        if self.json {
            print_json(&opened, &address, &walk, again)?;
        } else {
            print(&opened, &address, &walk, again)?;
        }
        Ok(output::established(opened.chain.is_established()))
    }
}

fn trace_number<'a>(opened: &'a VerifiedRun, address: &'a Address) -> Result<NumberTrace<'a>, Failure> {
    let unpublished = || Failure::new(ErrorCode::NotPublished, format!("the run `{}` has no numbers", address.run_id()));
    let summary = &opened.chain.one::<Summary>().ok_or_else(unpublished)?.body;
    let plan = &opened.chain.one::<Plan>().ok_or_else(unpublished)?.body;
    let file = summary.files.iter().find(|file| file.table == address.table()).ok_or_else(|| {
        Failure::new(ErrorCode::UnknownTable, format!("the run has no rows in a table `{}`", address.table()))
            .hint(format!("numbers lie in `{}`, and a serving point's also in `serving_outcome_fact`", Address::TABLE))
    })?;
    if !has_points(&file.table) {
        let traced: Vec<_> = summary.files.iter().map(|file| file.table.as_str()).filter(|table| has_points(table)).collect();
        return Err(Failure::new(
            ErrorCode::Address,
            format!("the rows of `{}` hold no number of a point, so there is nothing to trace", file.table),
        )
        .hint(format!("the tables of this run that can be traced: {}", traced.join(", "))));
    }
    let row = find_row(opened, address, file)?;
    let value = row.get(address.column()).cloned().ok_or_else(|| {
        Failure::new(ErrorCode::UnknownColumn, format!("the table `{}` has no column `{}`", address.table(), address.column()))
            .hint(format!("numbers of `{}` lie in the column `value`; docs/tables.md has every column", Address::TABLE))
    })?;
    let text = |column: &str| row.text(column).unwrap_or_default();
    let (case, point) = (text("benchmark_case_id"), text("point_id"));
    let mut places = summary.places();
    let found = places.find(|(place, _)| place.case_id.as_str() == case && place.point_id.as_str() == point);
    let unnamed = || Failure::new(ErrorCode::RowWithoutSummary, "the row's case, point or metric is not in the signed summary");
    let (place, metrics) = found.ok_or_else(unnamed)?;
    let metric = match row.text("metric") {
        Some(name) => Some(metrics.iter().find(|found| found.metric == name).ok_or_else(unnamed)?),
        None => metric_of_column(metrics, address.column()),
    };
    let values = if place.point_id.as_str() == ALL_LOADS {
        TrialValues::OfLoads(good_fractions(summary, place.case_id))
    } else {
        // A column that is no metric of its own rests on the trials of all metrics of its point.
        TrialValues::OfPoint(metric.or(metrics.first()))
    };
    let workload = plan.workloads.iter().find(|workload| workload.workload_spec_digest == place.workload_spec_digest);
    let workload = workload.ok_or_else(unnamed)?;
    let (query, snapshot) = (find_query(opened, address, plan)?, find_snapshot(opened, file)?);
    Ok(NumberTrace { value, column: address.column(), file, place, metric, values, workload, query, snapshot, row })
}

/// Returns true if each row of a table is about a point of a case, for which the Summary has numbers.
fn has_points(table: &str) -> bool {
    let has = |name: &str| assay_warehouse::table(table).is_some_and(|table| table.columns().any(|column| column.name == name));
    has("benchmark_case_id") && has("point_id")
}

/// Returns the metric whose median a column of a wide table is: tables hold whole nanoseconds, the Summary milliseconds.
fn metric_of_column<'a>(metrics: &'a [MetricSummary], column: &str) -> Option<&'a MetricSummary> {
    let in_ms = column.replace("_ns_", "_ms_");
    let in_ms = in_ms.strip_suffix("_ns").map(|name| format!("{name}_ms")).unwrap_or(in_ms);
    metrics.iter().find(|metric| metric.metric == column || metric.metric == in_ms)
}

/// Returns the metric of each load of a case from which the most load within the SLOs follows.
fn good_fractions<'a>(summary: &'a Summary, case: &CaseId) -> Vec<&'a MetricSummary> {
    let of_case = summary.points.iter().filter(|point| point.case_id == *case);
    of_case.flat_map(|point| &point.metrics).filter(|metric| metric.metric == GOOD_FRACTION).collect()
}

/// Returns the query that selected a published number, with its text.
fn find_query<'a>(
    opened: &'a VerifiedRun,
    address: &Address,
    plan: &'a Plan,
) -> Result<Option<(&'a PinnedFile, String)>, Failure> {
    let Some(publication) = opened.chain.one::<Publication>() else { return Ok(None) };
    let numbers = assay_verify::read_numbers(opened.blobs.as_ref(), &publication.body)?;
    let is_same = |found: &Address| {
        let rows = (found.row().starts_with(address.row()), address.row().starts_with(found.row()));
        found.table() == address.table() && found.column() == address.column() && (rows.0 || rows.1)
    };
    let number = numbers.numbers.iter().find(|number| number.address.parse().is_ok_and(|found| is_same(&found)));
    let Some((number, named)) = number.and_then(|number| Some((number, number.query.as_ref()?))) else { return Ok(None) };
    let digest = named.digest;
    let unnamed = || Failure::new(ErrorCode::OtherQueries, "the number's query is not one that the plan pins");
    let query = plan.queries.iter().find(|query| query.artifact.digest == digest).ok_or_else(unnamed)?;
    let text = assay_verify::check_selected_by(opened.blobs.as_ref(), &opened.chain, query, number)?;
    Ok(Some((query, text)))
}

/// Returns the version of the warehouse's table that the Publication pins. If the store is available, the file is looked up in
/// it.
fn find_snapshot(opened: &VerifiedRun, file: &CuratedFile) -> Result<Option<(Count, bool)>, Failure> {
    let pinned = opened.chain.one::<Publication>().and_then(|publication| publication.body.warehouse_snapshot.get(&file.table));
    let Some(version) = pinned else { return Ok(None) };
    let Some(store) = &opened.store else { return Ok(Some((*version, false))) };
    let found = assay_verify::verify_snapshot(&Store::open_existing(store)?, &opened.chain, &opened.trust)?;
    Ok(Some((*version, found.is_some())))
}

fn find_row(opened: &VerifiedRun, address: &Address, file: &CuratedFile) -> Result<Row, Failure> {
    let bytes = opened.blobs.get(&file.artifact.digest, MAX_BYTES)?.ok_or_else(|| absent_curated(opened, file))?;
    let mut rows = read_rows(file, bytes, address.row())?;
    match (rows.pop(), rows.len()) {
        (Some(row), 0) => Ok(row),
        (None, _) => Err(Failure::new(
            ErrorCode::NoSuchRow,
            format!("no row of `{}` has an id that begins with `{}`", address.table(), address.row()),
        )),
        (Some(_), more) => Err(Failure::new(
            ErrorCode::AmbiguousRow,
            format!("{} rows of `{}` have ids that begin with `{}`", more + 1, address.table(), address.row()),
        )
        .hint("give more digits of the row id")),
    }
}

/// Returns the failure of a curated file that is absent.
fn absent_curated(opened: &VerifiedRun, CuratedFile { artifact, .. }: &CuratedFile) -> Failure {
    absent_artifact(&opened.removals, &format!("the curated file `{}`", artifact.name), artifact)
}

/// Returns the failure of a recomputation that lacks raw evidence: the tombstone that explains it, if there is one.
fn removed_evidence(removals: &Removals, failure: Failure) -> Failure {
    match removals.tombstones.first() {
        Some(tombstone) if failure.code == ErrorCode::ArtifactAbsent => {
            let what = Failure::new(ErrorCode::EvidenceRemoved, format!("raw evidence was {}", tombstone.describe()));
            what.hint("a copy of the store that has it can be computed again")
        }
        _ => failure,
    }
}

/// Returns the rows of a curated file whose ids begin with these digits.
fn read_rows(file: &CuratedFile, bytes: Vec<u8>, digits: &str) -> Result<Vec<Row>, Failure> {
    let table = assay_warehouse::table(&file.table)
        .ok_or_else(|| Failure::new(ErrorCode::UnknownTable, format!("there is no table `{}`", file.table)))?;
    assay_warehouse::find(table, bytes, digits).map_err(|error| match error {
        assay_warehouse::Error::BadPrefix(_) => Failure::from_error(ErrorCode::Address, &error),
        error => Failure::from_error(error.code(), &error),
    })
}

/// A number that was derived again from the raw evidence.
struct RederivedNumber {
    value: Value,
    /// True if it is bitwise equal; another version of reduce may differ in the last digits.
    is_exact: bool,
    recomputed: RecomputeOutcome,
}

/// Derives the number again from the raw evidence: reduce runs again, its whole result is compared as for level 4, and its row
/// has to hold the same value.
fn rederive(opened: &VerifiedRun, walk: &NumberTrace<'_>) -> Result<RederivedNumber, Failure> {
    let store = opened.store.as_ref().ok_or_else(|| {
        Failure::new(ErrorCode::NoEvidence, "raw evidence stays in the store: a published folder cannot be computed again")
            .hint("name the store with `--store` instead of a folder")
    })?;
    let lost = || Failure::new(ErrorCode::RecomputeDiffers, "the number is not among those that reduce gives now");
    let (_, signed) = opened.chain.all::<Summary>().next().ok_or_else(lost)?;
    let again =
        reduce_again(opened, store, &signed.header.inputs).map_err(|failure| removed_evidence(&opened.removals, failure))?;
    let blobs = StoreBlobs::new(again.store.clone());
    let recomputed = compare(opened, &signed.body, &again.body, &blobs)?;
    let file = again.body.files.iter().find(|file| file.table == walk.file.table).ok_or_else(lost)?;
    let bytes = again.store.get(&file.artifact.digest, MAX_BYTES)?;
    let row = read_rows(file, bytes, walk.row.text(ROW_ID).unwrap_or_default())?.pop().ok_or_else(lost)?;
    let value = row.get(walk.column).cloned().ok_or_else(lost)?;
    let is_exact = match (&value, &walk.value) {
        (Value::Float(now), Value::Float(before)) => now.to_bits() == before.to_bits(),
        (now, before) => now == before,
    };
    let same_binary = signed.body.reduce_binary == again.body.reduce_binary;
    match (&value, &walk.value) {
        _ if is_exact => {}
        (Value::Float(now), Value::Float(before)) if !same_binary && is_close(*before, *now) => {}
        _ => {
            let (before, now) = (number(&walk.value), number(&value));
            let message = format!("the {} was {before} and is {now} when computed again", walk.noun());
            return Err(Failure::new(ErrorCode::RecomputeDiffers, message));
        }
    }
    Ok(RederivedNumber { value, is_exact, recomputed })
}

fn number(value: &Value) -> String {
    match value {
        Value::Float(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(value) => value.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Instant(value) => value.to_string(),
        Value::Null => "absent".to_owned(),
    }
}

/// Returns the trials that the number was computed from, with the metric of each: all counted ones, or the one whose own statistic it is. Of all
/// loads, a trial is one at each load.
fn trials<'a>(walk: &'a NumberTrace<'_>) -> Vec<(&'a MetricSummary, &'a TrialValue)> {
    let of = walk.row.text("trial_id");
    let all = |metrics: &[&'a MetricSummary]| -> Vec<(&'a MetricSummary, &'a TrialValue)> {
        metrics.iter().flat_map(|metric| metric.trials.iter().map(|trial| (*metric, trial))).collect()
    };
    match &walk.values {
        TrialValues::OfPoint(metric) => {
            let trials = all(metric.as_slice()).into_iter();
            trials.filter(|(_, trial)| of.is_none_or(|of| trial.trial_id.as_str() == of)).collect()
        }
        TrialValues::OfLoads(metrics) => {
            let counted = walk.metric.into_iter().flat_map(|metric| &metric.trials);
            let counted = counted.filter(|trial| of.is_none_or(|of| trial.trial_id.as_str() == of));
            let numbers: Vec<&str> = counted.filter_map(|trial| trial_number(&trial.trial_id)).collect();
            let is_counted = |id: &TrialId| trial_number(id).is_some_and(|number| numbers.contains(&number));
            all(metrics).into_iter().filter(|(_, trial)| is_counted(&trial.trial_id)).collect()
        }
    }
}

/// Returns the last part of a trial's id, such as `t3`: the same at every load for trials that belong together.
fn trial_number(id: &TrialId) -> Option<&str> {
    id.as_str().rsplit('.').next()
}

/// One shard's part of the attempt behind a trial's value.
struct CountedShard<'a> {
    collected: &'a CollectedAttempt,
    attempt: &'a Attempt,
}

/// Returns the shards of the attempt behind a trial's value. Attempts have numbers within their block, so the Collection says which part holds
/// the one that counts: an earlier incarnation of the block may have one of the same number.
fn counted_shards<'a>(opened: &'a VerifiedRun, trial: &TrialValue) -> Vec<CountedShard<'a>> {
    let trials = opened.chain.one::<Collection>().map_or(&[][..], |collection| &collection.body.trials);
    let collected = trials.iter().filter(|found| found.trial_id == trial.trial_id).flat_map(|found| &found.attempts);
    let counted = collected.filter(|found| found.counted && found.attempt == trial.attempt);
    let with_attempt = counted.filter_map(|collected| {
        let (_, part) = opened.chain.all::<ExecutionPart>().find(|(reference, _)| reference.manifest == collected.part)?;
        Some(CountedShard { collected, attempt: part.body.find_attempt(&trial.trial_id, collected.attempt)? })
    });
    with_attempt.collect()
}

/// Returns the raw samples of a trial, from its script's stdout.
fn raw_samples(opened: &VerifiedRun, attempt: &Attempt, metric: &str) -> Result<Option<Vec<f64>>, Failure> {
    let Some(printed) = attempt.result() else { return Ok(None) };
    let Some(bytes) = opened.blobs.get(&printed.digest, MAX_BYTES)? else { return Ok(None) };
    let Some(plan) = opened.chain.one::<Plan>() else { return Ok(None) };
    let parsed =
        harness::parse_attempt(&plan.body, attempt, &bytes).map_err(|error| Failure::from_error(ErrorCode::Malformed, &error))?;
    let value = parsed.result.into_iter().find(|(path, _)| path == metric).map(|(_, value)| value);
    Ok(match value {
        Some(assay_indicator::Value::Number(number)) => Some(vec![number]),
        Some(assay_indicator::Value::Samples(samples)) => Some(samples),
        _ => None,
    })
}

/// Returns the raw samples behind a trial's value, if its metric has any.
fn read_samples(opened: &VerifiedRun, attempt: &Attempt, walk: &NumberTrace<'_>) -> Result<Option<Vec<f64>>, Failure> {
    walk.metric.map_or(Ok(None), |metric| raw_samples(opened, attempt, &metric.metric))
}

/// Prints the way from a number to its evidence. Fails at its end if raw samples are there and cannot be read: all else is printed before.
fn print(opened: &VerifiedRun, address: &Address, walk: &NumberTrace<'_>, again: Option<RederivedNumber>) -> Result<(), Failure> {
    let unit = walk.unit();
    output::line(format!("{:<9} {} {unit}", walk.noun(), number(&walk.value)).trim_end());
    output::line(format!("is        {}, {} at `{}`", walk.describe(), walk.place.case_id, walk.place.point_id));
    print_query(walk);
    output::line(format!("row       {} of {}", walk.row.text(ROW_ID).unwrap_or_default(), address.table()));
    output::line(format!(
        "file      {} ({}, {}): a subject of the signed summary",
        walk.file.artifact.digest,
        walk.file.artifact.name,
        counted(walk.file.rows.0, "row")
    ));
    if let Some((version, is_checked)) = walk.snapshot {
        let checked = if is_checked { ", which holds the file" } else { " of the run's store" };
        output::line(format!("snapshot  `{}` at version {version}{checked}", address.table()));
    }
    output::line(format!("run       {}", opened.chain.run_id));
    print_source(opened, walk);
    let unreadable = print_trials(opened, walk);
    output::line("signed by");
    for verified in &opened.chain.documents {
        output::line(format!(
            "  ok  {:<22} {}  {}  key {}",
            assay_stage::chain_name(verified.value()),
            verified.manifest_digest(),
            verified.signer().name,
            verified.signer().fingerprint.short(),
        ));
    }
    output::line(format!("trust     {}", opened.trusted_by));
    if let Some(RederivedNumber { value, is_exact, recomputed }) = again {
        let value = format!("{} {unit}", number(&value));
        let equal = if is_exact { "equal" } else { "equal but for the last digits" };
        output::line(format!("again     {}: computed again from the raw evidence, and {equal}", value.trim_end()));
        if recomputed != RecomputeOutcome::Reached {
            output::line(
                "          another version of reduce made the run, which knows other things: `assay verify --recompute` lists them",
            );
        }
    }
    unreadable.map_or(Ok(()), Err)
}

fn print_query(walk: &NumberTrace<'_>) {
    let Some((query, text)) = &walk.query else { return };
    output::line(format!("query     {} ({})", query.path, query.artifact.digest));
    for line in text.lines().take(SHOWN_LINES) {
        // A query is text from a pull request: it must not send control characters to the terminal.
        let plain: String = line.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        output::line(format!("    | {plain}"));
    }
    match text.lines().count().saturating_sub(SHOWN_LINES) {
        0 => {}
        more => output::line(format!("    | and {more} lines more")),
    }
}

fn print_source(opened: &VerifiedRun, walk: &NumberTrace<'_>) {
    output::line(format!("workload  {} ({})", walk.workload.name, walk.workload.workload_spec_digest));
    if let Some(work) = &walk.workload.indicator {
        if let Some(script) = &work.script {
            output::line(format!("script    {} from {}", script.artifact.digest, script.origin));
        }
        if let Some(command) = &work.command {
            let plan = opened.chain.one::<Plan>().map(|plan| &plan.body);
            let target = plan.and_then(|plan| plan.target(&plan.case(walk.place.case_id)?.target));
            let run = target.map_or_else(|| command.run.clone(), |target| command.on(target).run);
            output::line(format!("command   {}", command_line(&run)));
            if let Some(folder) = target.and_then(|target| target.working_directory.as_ref()) {
                output::line(format!("in        {folder}"));
            }
        }
    }
    print_stack(opened, walk);
    let Some(source) = opened.chain.one::<Source>() else { return };
    let commit = source.body.commit.as_deref().unwrap_or("none");
    let original = source.body.original();
    if let Some((import, file)) = original {
        output::line(format!("defined by {}, imported from", source.body.pipeline));
        output::line(format!(
            "          {} {} ({}) by Assay {}",
            import.file, file.artifact.digest, import.format, import.version
        ));
    }
    let what = match (&opened.chain.commit, source.body.dirty) {
        (Some(info), _) => {
            let held =
                original.map_or_else(|| "every file that defines the run".to_owned(), |(import, _)| format!("`{}`", import.file));
            format!("{commit}, whose trees hold {held}: {}", info.message.lines().next().unwrap_or_default())
        }
        (None, true) => format!("none: a work tree above {commit}, whose files are {}", source.body.files_digest),
        (None, false) => commit.to_owned(),
    };
    output::line(format!("commit    {what}"));
    if let Some(repository) = &source.body.repository {
        output::line(format!("from      {repository}"));
    }
}

/// Returns the packages of the number's variant, as planned and as execute installed them first.
fn find_stack<'a>(
    opened: &'a VerifiedRun,
    walk: &NumberTrace<'_>,
) -> Option<(&'a Name, &'a PythonStack, Option<&'a InstalledStack>)> {
    let (variant, stack) = opened.chain.one::<Plan>()?.body.python_stack(walk.place.case_id)?;
    let mut installed = opened.chain.all::<ExecutionPart>().flat_map(|(_, part)| &part.body.stacks);
    Some((variant, stack, installed.find(|found| found.variant == *variant && found.failure.is_none())))
}

fn print_stack(opened: &VerifiedRun, walk: &NumberTrace<'_>) {
    let Some((variant, stack, installed)) = find_stack(opened, walk) else { return };
    output::line(format!("packages  {} from {}, of the variant {variant}", stack.lock.artifact.digest, stack.lock.origin));
    let Some(installed) = installed else { return };
    let packages: Vec<String> = installed.packages.iter().map(|found| format!("{} {}", found.name, found.version)).collect();
    output::line(format!(
        "          {}; installed by {} for {}",
        first_names(&packages, SHOWN_PACKAGES),
        installed.installer.as_deref().unwrap_or("an unknown installer"),
        installed.python.as_deref().unwrap_or("an unknown Python"),
    ));
}

/// Returns a command as one line, in which a word with blanks is still one word.
fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word of a command. An option needs no quotes for its hyphens: it is meant to be one.
fn quoted(word: &str) -> String {
    let name = word.trim_start_matches('-');
    let is_plain_option = name.len() < word.len() && (name.is_empty() || shell_word(name) == name);
    if is_plain_option { word.to_owned() } else { shell_word(word) }
}

/// The records of an attempt in the store or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawState {
    /// Their bytes have the digest that the attempt states.
    Here,
    /// Those of a shard are absent.
    Absent,
}

/// Hashes the raw records of the shards of an attempt.
///
/// # Errors
/// Fails if bytes are not those of their digest.
fn raw_state(opened: &VerifiedRun, shards: &[CountedShard<'_>]) -> Result<RawState, Failure> {
    let records = shards.iter().filter_map(|shard| shard.attempt.records());
    let mut state = RawState::Here;
    for artifact in records {
        if opened.blobs.check(&artifact.digest, artifact.size.0)?.is_none() {
            state = RawState::Absent;
        }
    }
    Ok(state)
}

/// Describes the records of an attempt, of all of its shards.
fn requests(shards: &[CountedShard<'_>]) -> String {
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    for (outcome, count) in shards.iter().filter_map(|shard| shard.attempt.serving.as_ref()).flat_map(|serving| &serving.outcomes)
    {
        let sum = outcomes.entry(outcome).or_default();
        *sum = sum.saturating_add(count.0);
    }
    let measured = outcomes.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let outcomes: Vec<_> = outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    format!("{measured} requests, one row each: {}", outcomes.join(", "))
}

/// Returns the programs that a command executed, which are in no commit unless a person has added them.
fn programs(attempt: &Attempt) -> Vec<String> {
    let is_program = |executable: &&Executable| executable.role == ExecutableRole::Program;
    let executables =
        attempt.indicator.iter().filter(|_| attempt.command_times().is_some()).flat_map(|outcome| &outcome.executables);
    let line = |executable: &Executable| {
        let digest = executable.digest.map_or_else(|| "without a digest".to_owned(), |digest| digest.to_string());
        format!("{} {digest}", executable.path.escape_debug())
    };
    executables.filter(is_program).map(line).collect()
}

/// Prints the trials behind a number. Returns the first failure to read raw samples that are there.
fn print_trials(opened: &VerifiedRun, walk: &NumberTrace<'_>) -> Option<Failure> {
    let mut unreadable = None;
    if let (TrialValues::OfLoads(_), Some(metric)) = (&walk.values, walk.metric) {
        let of = walk.row.text("trial_id");
        for trial in metric.trials.iter().filter(|trial| of.is_none_or(|of| trial.trial_id.as_str() == of)) {
            output::line(format!("crossing  {}: {} {}", trial.trial_id, trial.value, metric.unit));
        }
    }
    output::line(format!("trials    {} counted", trials(walk).len()));
    for (metric, trial) in trials(walk) {
        let shards = counted_shards(opened, trial);
        let Some(CountedShard { collected, attempt }) = shards.first() else { continue };
        let samples = match read_samples(opened, attempt, walk) {
            Ok(Some(samples)) => {
                let shown: Vec<_> = samples.iter().take(SHOWN).map(f64::to_string).collect();
                let more = if samples.len() > SHOWN { format!(" and {} more", samples.len() - SHOWN) } else { String::new() };
                format!("samples {}{more}", shown.join(" "))
            }
            Ok(None) if attempt.serving.is_some() => match raw_state(opened, &shards) {
                Ok(RawState::Here) => requests(&shards),
                Ok(RawState::Absent) => format!("{}; the raw records are not here", requests(&shards)),
                Err(failure) => unreadable.get_or_insert(failure).message.clone(),
            },
            Ok(None) => "raw samples are not here".to_owned(),
            Err(failure) => unreadable.get_or_insert(failure).message.clone(),
        };
        let flagged = if trial.flagged { ", far from the others" } else { "" };
        let value = match walk.values {
            TrialValues::OfLoads(_) => format!(": `{}` {}", metric.metric, trial.value),
            TrialValues::OfPoint(_) if walk.metric.is_none() => String::new(),
            TrialValues::OfPoint(_) => format!(": {} {}", trial.value, metric.unit),
        };
        let block = if collected.block.incarnation > 0 {
            format!(" in block {}-{}", collected.block.index, collected.block.incarnation)
        } else {
            String::new()
        };
        output::line(format!("  {} attempt {}{block}{value}{flagged}", trial.trial_id, ordinal(trial.attempt)));
        output::line(format!("    {samples}"));
        for program in programs(attempt) {
            output::line(format!("    program {program}"));
        }
        for CountedShard { collected, attempt } in &shards {
            let raw = attempt.result().or_else(|| attempt.records()).map(|artifact| artifact.digest);
            let raw = raw.map(|digest| digest.to_string()).unwrap_or_default();
            let shard = if shards.len() > 1 { format!(" (shard {})", collected.shard.index) } else { String::new() };
            output::line(format!("    raw {raw} in execution part {}{shard}", collected.part.short()));
        }
    }
    unreadable
}

fn print_json(
    opened: &VerifiedRun,
    address: &Address,
    walk: &NumberTrace<'_>,
    again: Option<RederivedNumber>,
) -> Result<(), Failure> {
    let mut found = Vec::new();
    for (metric, trial) in trials(walk) {
        let shards = counted_shards(opened, trial);
        let Some(CountedShard { collected, attempt }) = shards.first() else { continue };
        let parts = shards.iter().map(|shard| {
            json!({
                "execution_part": shard.collected.part,
                "shard": shard.collected.shard.index,
                "evidence": shard.attempt.evidence,
            })
        });
        found.push(json!({
            "block": collected.block,
            "trial_id": trial.trial_id,
            "attempt": trial.attempt,
            "metric": walk.metric.map(|_| &metric.metric),
            "value": walk.metric.map(|_| trial.value),
            "flagged": trial.flagged,
            "samples": read_samples(opened, attempt, walk)?,
            "records": attempt.serving.as_ref().map(|_| raw_state(opened, &shards)).transpose()?.map(|state| state == RawState::Here),
            "parts": parts.collect::<Vec<_>>(),
        }));
    }
    let signatures: Vec<_> = opened
        .chain
        .documents
        .iter()
        .map(|verified| {
            json!({
                "name": assay_stage::chain_name(verified.value()),
                "input": verified.input_ref(),
                "signer": verified.signer().name,
                "fingerprint": verified.signer().fingerprint,
                "established": verified.signer().established,
            })
        })
        .collect();
    output::json(&json!({
        "address": format!(
            "{}/{}/{}/{}", address.run_id(), address.table(), walk.row.text(ROW_ID).unwrap_or_default(), address.column()
        ),
        "value": value_as_json(&walk.value),
        "unit": walk.unit(),
        "statistic": walk.statistic(),
        "metric": walk.row.text("metric").unwrap_or(walk.column),
        "benchmark_case_id": walk.place.case_id,
        "point_id": walk.place.point_id,
        "query": walk.query.as_ref().map(|(query, text)| json!({"path": query.path, "digest": query.artifact.digest, "text": text})),
        "snapshot": walk.snapshot.map(|(version, is_checked)| {
            json!({"table": address.table(), "version": version, "holds_file": is_checked.then_some(true)})
        }),
        "file": walk.file.artifact,
        "workload": {
            "name": walk.workload.name,
            "workload_spec_digest": walk.workload.workload_spec_digest,
            "spec": walk.workload.spec.digest,
        },
        "source": opened.chain.one::<Source>().map(|source| {
            let original = source.body.original().map(|(import, file)| {
                json!({"file": import.file, "digest": file.artifact.digest, "format": import.format, "version": import.version})
            });
            json!({
                "kind": source.body.kind, "commit": source.body.commit, "repository": source.body.repository, "import": original,
            })
        }),
        "packages": find_stack(opened, walk).map(|(variant, stack, installed)| {
            json!({
                "variant": variant,
                "lock": stack.lock.artifact.digest,
                "path": stack.lock.origin,
                "installer": installed.and_then(|installed| installed.installer.as_ref()),
                "python": installed.and_then(|installed| installed.python.as_ref()),
                "installed": installed.map(|installed| &installed.packages),
            })
        }),
        "trials": found,
        "signatures": signatures,
        "recomputed": again.map(|RederivedNumber { value, is_exact, recomputed }| {
            json!({"value": value_as_json(&value), "same": is_exact, "run": recomputed})
        }),
    }))
}

fn value_as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Float(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Null => serde_json::Value::Null,
        other => json!(number(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_as_for_a_shell() {
        let words = ["sh", "-c", "--", "--reverse=1", "-a b", "sort a | tail", "it's", "", "-"].map(str::to_owned);
        assert_eq!(command_line(&words), r"sh -c -- --reverse=1 '-a b' 'sort a | tail' 'it'\''s' '' -");
    }
}
