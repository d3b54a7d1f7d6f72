//! The attack matrix: each field of each manifest, each column of each table and each statement falsified with the key of its own role,
//! followed by honest stages; and each file changed that a writer of a store or a folder can change. `docs/attack-matrix.md` states which
//! check refuses each attack; these tests compare it with the results. Its summary is in `docs/provenance.md`.
//!
//!     ASSAY_UPDATE_MATRIX=1 cargo test --workspace --all-features --test it -- attack_matrix

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock};

use assay_envelope::{Predicate, VerificationResult};
use assay_manifest::{Digest, InputRef, Kind};
use assay_warehouse::records::{RecordColumn, RecordFile, RecordWriter};
use assay_warehouse::{Column, Row, TABLES, Table, Type, Value as Cell};
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::as_is;
use crate::by_hand::Bench;
use crate::falsify::{Falsification, falsify_field, fields};
use crate::forgery::{Forgery, replace_artifact, replace_rows};
use crate::pipeline::{list, text};
use crate::records;
use crate::searches;
use crate::serving::{RETRY_BUDGET, SIMULATOR};
use crate::support::{CommandResult, Fixture, PIPELINE, blob, copy_folder, files_under, steady_script, write_file};
use crate::tamper::{canonical, flip_bit};

/// The first bytes of a file that is compressed with Zstandard.
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Attacks on this table are not on the page: whether these short runs are long enough for one of its rows depends on the load of the machine.
const EXCLUDED_TABLE: &str = "telemetry_slice_fact";

const PAGE: &str = "docs/attack-matrix.md";
const SUMMARY: &str = "docs/provenance.md";
const UPDATE: &str = "ASSAY_UPDATE_MATRIX=1 cargo test --workspace --all-features --test it -- attack_matrix --test-threads 2";

/// Returns two finished runs of one commit, `one` and `two`: an indicator, and a load on the simulator.
fn attacked_fixture() -> &'static Fixture {
    static ATTACKED: OnceLock<Fixture> = OnceLock::new();
    // A busy machine may delay the client, whose attempt is then excluded and repeated. The page is of runs without such attempts.
    ATTACKED.get_or_init(|| {
        (0..20).map(|_| attacked()).find(has_no_excluded_attempt).expect("two runs on a machine that is not so busy")
    })
}

fn has_no_excluded_attempt(fixture: &Fixture) -> bool {
    let has_none = |point: &Value| point["excluded"].as_array().is_none_or(Vec::is_empty);
    ["one", "two"].iter().all(|run_id| list(&fixture.manifest(run_id, "reduce")["body"]["points"]).iter().all(has_none))
}

fn attacked() -> Fixture {
    let fixture = Fixture::shared();
    fixture.indicator("first", &steady_script("first"), "");
    crate::serving::workload(&fixture, "chat", "mode: closed, concurrency: [2], requests: 20", "D(20,10)", "");
    let targets = [SIMULATOR, "{name: here, kind: host}"];
    fixture.write(PIPELINE, &crate::serving::pipeline(&["first", "chat"], &targets, 2, RETRY_BUDGET, ""));
    fixture.git(&["remote", "add", "origin", "https://git.example.org/team/benchmarks.git"]);
    fixture.commit("an indicator and a load");
    for run_id in ["one", "two"] {
        fixture.run(run_id).success();
    }
    fixture
}

/// The check that refuses a falsification.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Detection {
    /// An honest stage refuses it, so no Publication is made.
    Stage(&'static str, String),
    /// `assay verify` refuses it at this level.
    Level(u8, String),
    /// `assay verify` refuses it before it checks any level.
    BeforeLevels(String),
    /// It is not refused, but fewer levels are reached.
    FewerLevels(String),
    /// It is not refused.
    Undetected,
}

impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(stage, error) => write!(f, "{stage}: `{error}`"),
            Self::Level(level, error) => write!(f, "level {level}: `{error}`"),
            Self::BeforeLevels(error) => write!(f, "verify: `{error}`"),
            Self::FewerLevels(reached) => f.write_str(reached),
            Self::Undetected => f.write_str("not caught"),
        }
    }
}

impl Detection {
    fn from_forgery(forgery: &Forgery) -> Self {
        match forgery.refused_by() {
            Some((stage, error)) => Self::Stage(stage, error),
            None => Self::from_verify(&forgery.verify(&["--recompute", "--json"]), 4),
        }
    }

    /// Reads the output of `assay verify --json` for evidence that reaches level `highest` if it is unchanged.
    fn from_verify(ran: &CommandResult, highest: u8) -> Self {
        let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        let level = |value: &Value| value.as_u64().and_then(|level| u8::try_from(level).ok());
        match (ran.error(), level(&found["failed"]["level"]), level(&found["level"])) {
            (Some(error), Some(level), _) => Self::Level(level, error),
            (Some(error), None, _) => Self::BeforeLevels(error),
            (None, _, Some(level)) if level == highest => Self::Undetected,
            (None, _, Some(_)) if found["recomputed"]["outcome"] == "partial" => Self::FewerLevels("level 4 partial".to_owned()),
            (None, _, Some(level)) => Self::FewerLevels(format!("only level {level} reached")),
            (None, _, None) => panic!("neither an error nor a level:\n{}{}", ran.stdout, ran.stderr),
        }
    }
}

/// Describes which check refuses a falsification close to the true value and, if another one does, which check refuses a distant one.
fn describe_detections(near: &Detection, far: Option<Detection>) -> String {
    let other = far.filter(|far| far != near).map(|far| format!("; if far off, {far}"));
    format!("{near}{}", other.unwrap_or_default())
}

/// A row of the matrix.
struct Attack {
    what: String,
    caught: String,
}

impl Attack {
    fn new(what: impl Into<String>, caught: &impl ToString) -> Self {
        Self { what: what.into(), caught: caught.to_string() }
    }
}

/// Falsifies everything that a role's key can sign in the manifest of a stage, and in the statement about it.
fn manifest_attacks(stage: &'static str) -> Vec<Attack> {
    let manifest = Bench::with_runs_of(attacked_fixture()).accepted_pointer("one", stage).load(&attacked_fixture().store());
    let caught = |forged: Value| Detection::from_forgery(&forge(stage, |_, manifest| *manifest = forged, |_| {}));
    let mut attacks = Vec::new();
    for field in fields(&manifest) {
        if let Some(near) = falsify_field(&manifest, &field, Falsification::Changed) {
            let near = caught(near);
            let far = if near == Detection::Undetected {
                falsify_field(&manifest, &field, Falsification::Far).map(caught)
            } else {
                None
            };
            attacks.push(Attack::new(format!("`{}`", field.class), &describe_detections(&near, far)));
        }
        if let Some(without) = falsify_field(&manifest, &field, Falsification::Omitted) {
            attacks.push(Attack::new(format!("`{}` left out", field.class), &caught(without)));
        }
    }
    attacks.extend(statement_attacks(stage));
    attacks
}

fn forge(stage: &str, edit: impl FnOnce(&Bench, &mut Value), state: impl FnOnce(&mut Predicate)) -> Forgery {
    Forgery::forge_in(Bench::with_runs_of(attacked_fixture()), stage, edit, state)
}

/// One change of a statement.
type StatementChange = (&'static str, fn(&mut Predicate));

fn statement_attacks(stage: &str) -> Vec<Attack> {
    fn provenance(predicate: &mut Predicate) -> &mut assay_envelope::Provenance {
        let Predicate::Provenance(provenance) = predicate else { panic!("a stage states how its manifest was made") };
        provenance
    }
    fn summary(predicate: &mut Predicate) -> &mut assay_envelope::VerificationSummary {
        let Predicate::VerificationSummary(summary) = predicate else { panic!("publish states a verification") };
        summary
    }
    let provenances: [StatementChange; 8] = [
        ("external parameters", |predicate| provenance(predicate).external_parameters["more"] = json!("another")),
        ("internal parameters", |predicate| provenance(predicate).internal_parameters["more"] = json!("another")),
        ("a dependency more", |predicate| {
            let dependencies = &mut provenance(predicate).resolved_dependencies;
            dependencies.extend(dependencies.first().cloned());
        }),
        ("no dependencies", |predicate| provenance(predicate).resolved_dependencies.clear()),
        ("the stage's binary", |predicate| provenance(predicate).builder_binary = Digest::compute(b"another")),
        ("the version", |predicate| provenance(predicate).builder_version.push('x')),
        ("the invocation", |predicate| provenance(predicate).invocation_id.push('x')),
        ("the time", |predicate| {
            let early = "2020-01-01T00:00:00.000000000Z".parse().expect("an instant");
            (provenance(predicate).started_on, provenance(predicate).finished_on) = (early, early);
        }),
    ];
    let summaries: [StatementChange; 7] = [
        ("the verifier's binary", |predicate| summary(predicate).verifier_binary = Digest::compute(b"another")),
        ("the time", |predicate| {
            summary(predicate).time_verified = "2020-01-01T00:00:00.000000000Z".parse().expect("an instant");
        }),
        ("the address of the resource", |predicate| summary(predicate).resource_uri.push('x')),
        ("an input more", |predicate| {
            let other =
                InputRef { kind: Kind::Summary, manifest: Digest::compute(b"another"), bundle: Digest::compute(b"another") };
            summary(predicate).input_attestations.push(other);
        }),
        ("the trust policy", |predicate| summary(predicate).policy.1 = Digest::compute(b"another")),
        ("the result", |predicate| summary(predicate).result = VerificationResult::Failed),
        ("the levels", |predicate| summary(predicate).levels = vec!["ASSAY_LEVEL_4".to_owned()]),
    ];
    let statements = if stage == "publish" { summaries.to_vec() } else { provenances.to_vec() };
    let attack = |(what, state): StatementChange| {
        Attack::new(format!("statement: {what}"), &Detection::from_forgery(&forge(stage, |_, _| {}, state)))
    };
    statements.into_iter().map(attack).collect()
}

/// Replaces the content of a stage's artifacts, with matching digests and sizes.
fn artifact_attacks(stage: &'static str) -> Vec<Attack> {
    let manifest = attacked_fixture().pointer("one", stage).load(&attacked_fixture().store());
    let mut attacks = Vec::new();
    let mut seen = BTreeSet::new();
    for name in artifact_names(&manifest["body"]) {
        let class = class_of(&name);
        // Columns are falsified one by one.
        if name.starts_with("rows/") || !seen.insert(class.clone()) {
            continue;
        }
        let forgery =
            forge(stage, |bench, manifest| replace_artifact(bench, manifest, &name, |bytes| other_content(&bytes)), |_| {});
        attacks.push(Attack::new(format!("content of `{class}`"), &Detection::from_forgery(&forgery)));
    }
    attacks
}

fn artifact_names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) if members.contains_key("media_type") && members.contains_key("digest") => {
            members.get("name").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
        }
        Value::Object(members) => members.values().flat_map(artifact_names).collect(),
        Value::Array(items) => items.iter().flat_map(artifact_names).collect(),
        _ => Vec::new(),
    }
}

/// Removes the parts of a path that differ between runs and between items of one kind.
fn class_of(path: &str) -> String {
    static VARYING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[0-9a-f]{8}[0-9a-f-]*|\d+|\b(one|two)\b").expect("a regular expression"));
    VARYING.replace_all(path, "*").into_owned()
}

/// Returns different content in the same format.
fn other_content(bytes: &[u8]) -> Vec<u8> {
    if let Ok(mut document) = serde_json::from_slice::<Value>(bytes) {
        change_a_number(&mut document);
        return canonical(&document);
    }
    if let Ok(records) = RecordFile::open(bytes.to_vec()) {
        return halve_first_token_times(&records);
    }
    if bytes.starts_with(&ZSTANDARD) {
        let unpacked = zstd::decode_all(bytes).expect("a whole file");
        return zstd::encode_all(&other_content(&unpacked)[..], 1).expect("a packed file");
    }
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) if text.contains(|c: char| c.is_ascii_digit()) => {
            let place = text.rfind(|c: char| c.is_ascii_digit()).expect("a digit");
            let digit = if &text[place..=place] == "9" { "8" } else { "9" };
            format!("{}{digit}{}", &text[..place], &text[place + 1..]).into_bytes()
        }
        Ok(text) => format!("{text}1\n").into_bytes(),
        Err(_) => flip_bit(bytes),
    }
}

/// Raises the last number of a document, or changes its last text if it has no number.
fn change_a_number(document: &mut Value) {
    fn leaves<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
        match value {
            Value::Object(members) => members.values_mut().for_each(|value| leaves(value, found)),
            Value::Array(items) => items.iter_mut().for_each(|value| leaves(value, found)),
            leaf => found.push(leaf),
        }
    }
    let mut found = Vec::new();
    leaves(document, &mut found);
    let is_number = |value: &Value| value.is_f64() || value.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
    let place = found.iter().rposition(|value| is_number(value)).or_else(|| found.len().checked_sub(1));
    let Some(leaf) = place.map(|place| &mut *found[place]) else { return };
    *leaf = match &*leaf {
        Value::Number(number) => json!(number.as_f64().expect("a number") * 1.5 + 1.0),
        Value::String(text) => match text.parse::<u64>() {
            Ok(count) => json!((count + 1).to_string()),
            Err(_) => json!(format!("{text}x")),
        },
        other => other.clone(),
    };
}

/// Returns the same requests with every time to the first token halved.
fn halve_first_token_times(records: &RecordFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, 0, 0).expect("a writer");
    for record in records.records().expect("records") {
        let mut record = record.expect("a record");
        if let (Some(sent), Some(first)) = (record.sent_ns, record.first_token_ns) {
            let earlier = sent + (first - sent) / 2;
            for time in [&mut record.first_byte_ns, &mut record.first_token_ns, &mut record.first_content_ns] {
                *time = time.map(|_| earlier);
            }
        }
        writer.write(&record).expect("a record is written");
    }
    writer.finish().expect("a whole file");
    bytes
}

/// Falsifies a table's curated file: each column with another value in one row, and rows left out and added.
fn table_attacks(table: &'static Table, honest: &[Row]) -> Vec<Attack> {
    let caught = |edit: &dyn Fn(&mut Vec<Row>)| {
        let forgery = forge("reduce", |bench, manifest| replace_rows(bench, manifest, table, |rows| edit(rows)), |_| {});
        Detection::from_forgery(&forgery)
    };
    let mut attacks = Vec::new();
    for column in table.columns().filter(|column| column.name != "row_id") {
        let is_known = |row: &Row| row.get(column.name).is_some_and(|cell| *cell != Cell::Null);
        let place = honest.iter().position(is_known).unwrap_or_default();
        let other = other_cell(column, honest[place].get(column.name).expect("the table's column"));
        let found = caught(&|rows| rows[place].set(column.name, other.clone()).expect("a value of its type"));
        attacks.push(Attack::new(format!("`{}.{}`", table.name, column.name), &found));
    }
    attacks.push(Attack::new(format!("`{}`: a row left out", table.name), &caught(&|rows| drop(rows.pop()))));
    let more = |rows: &mut Vec<Row>| {
        let mut row = rows[0].clone();
        let (column, other) = row
            .iter()
            .filter(|(column, cell)| column.name != "row_id" && **cell != Cell::Null)
            .map(|(column, cell)| (column.name, other_cell(column, cell)))
            .last()
            .expect("a column");
        row.set(column, other).expect("a value of its type");
        rows.push(row);
    };
    attacks.push(Attack::new(format!("`{}`: a row more", table.name), &caught(&more)));
    attacks
}

fn other_cell(column: &Column, honest: &Cell) -> Cell {
    match (honest, column.kind) {
        (Cell::Bool(value), _) => Cell::Bool(!value),
        (Cell::Int(value), _) => Cell::Int(value + 1),
        (Cell::Float(value), _) => Cell::Float(value * 1.01 + 1e-3),
        (Cell::Text(text), _) => Cell::Text(format!("{text}x")),
        (Cell::Instant(_), _) | (Cell::Null, Type::Instant) => {
            Cell::Instant("2020-01-01T00:00:00.000000000Z".parse().expect("an instant"))
        }
        (Cell::Null, Type::Bool) => Cell::Bool(true),
        (Cell::Null, Type::Int) => Cell::Int(1),
        (Cell::Null, Type::Float) => Cell::Float(1.0),
        (Cell::Null, Type::Text) => Cell::Text("another".to_owned()),
    }
}

/// Replaces every file of a folder by other bytes, by nothing, and by the file of its class in another folder. `class_of` names the class of a
/// file; a file without a class is left alone.
fn file_attacks(
    [folder, others]: [&Path; 2],
    class_of: &dyn Fn(&str) -> Option<String>,
    highest: u8,
    verify: &dyn Fn() -> CommandResult,
) -> Vec<Attack> {
    let name_of = |folder: &Path, path: &Path| path.strip_prefix(folder).expect("below it").display().to_string();
    let others: BTreeMap<String, PathBuf> =
        files_under(others).into_iter().filter_map(|path| Some((class_of(&name_of(others, &path))?, path))).collect();
    let mut attacks = Vec::new();
    let mut seen = BTreeSet::new();
    for path in files_under(folder) {
        let Some(class) = class_of(&name_of(folder, &path)).filter(|class| seen.insert(class.clone())) else { continue };
        let mut attack =
            |how: &str| attacks.push(Attack::new(format!("`{class}`, {how}"), &Detection::from_verify(&verify(), highest)));
        let whole = fs::read(&path).expect("a file");
        if class.contains("_delta_log") {
            // Much of an entry does not describe rows, so a flipped bit there may have no effect.
            write_file(&path, &whole[..whole.len() / 2]);
            attack("cut short");
        } else {
            write_file(&path, &flip_bit(&whole));
            attack("a flipped bit");
        }
        fs::remove_file(&path).expect("it can be removed");
        attack("removed");
        if let Some(other) = others.get(&class).map(|path| fs::read(path).expect("a file")).filter(|other| *other != whole) {
            write_file(&path, &other);
            attack("of the other run");
        }
        write_file(&path, &whole);
    }
    assert_eq!(Detection::from_verify(&verify(), highest), Detection::Undetected, "put right again, nothing is wrong");
    attacks
}

/// A section of the page.
struct Section {
    name: &'static str,
    title: &'static str,
}

/// The sections in the order of the page. The keys of collect sign two kinds of manifest.
const SECTIONS: [Section; 15] = [
    Section { name: "source", title: "The key of source: the Source" },
    Section { name: "import", title: "The key of source: the Source of an imported definition" },
    Section { name: "plan", title: "The key of plan: the Plan" },
    Section { name: "search", title: "The key of plan: the search of a workload" },
    Section { name: "provision", title: "The key of provision: the Environment" },
    Section { name: "execute", title: "The key of execute: an ExecutionPart" },
    Section { name: "records", title: "The key of execute: the records of requests" },
    Section { name: "record", title: "The key of collect: a Recording" },
    Section { name: "collect", title: "The key of collect: the Collection" },
    Section { name: "reduce", title: "The key of reduce: the Summary" },
    Section { name: "rows", title: "The key of reduce: the curated rows" },
    Section { name: "publish", title: "The key of publish: the Publication" },
    Section { name: "store", title: "No key, but a store that can be written" },
    Section { name: "warehouse", title: "No key, but a warehouse that can be written" },
    Section { name: "folder", title: "No key, but a published folder" },
];

fn page_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Splits a page into the text before a section's marks, between them, and after them.
fn split<'a>(page: &'a str, name: &str) -> (&'a str, &'a str, &'a str) {
    let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {side} {name}: made by tests/it/attack_matrix.rs -->\n"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no `{}`", begin.trim()));
    let (inner, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no `{}`", end.trim()));
    (&page[..before.len() + begin.len()], inner, &page[page.len() - after.len() - end.len()..])
}

fn replace(path: &str, name: &str, text: &str) {
    let page = fs::read_to_string(page_path(path)).expect("the page");
    let (before, _, after) = split(&page, name);
    fs::write(page_path(path), format!("{before}{text}{after}")).expect("the page can be written");
}

fn is_update() -> bool {
    std::env::var_os("ASSAY_UPDATE_MATRIX").is_some_and(|value| value == "1")
}

/// Compares a section with the results, or writes the section if an update is requested.
fn check_section(name: &str, attacks: &[Attack]) {
    static WRITING: Mutex<()> = Mutex::new(());
    let section = SECTIONS.iter().find(|section| section.name == name).expect("a section");
    let mut made = format!("\n## {}\n\n| falsified | caught by |\n| --- | --- |\n", section.title);
    for Attack { what, caught } in attacks.iter().filter(|attack| !attack.what.contains(EXCLUDED_TABLE)) {
        writeln!(made, "| {what} | {caught} |").expect("text");
    }
    made.push('\n');
    if is_update() {
        let _writing = WRITING.lock().expect("no other writer failed");
        replace(PAGE, name, &made);
        replace(SUMMARY, "attack matrix", &summary());
        return;
    }
    let page = fs::read_to_string(page_path(PAGE)).expect("the page");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let [written, made] = [lines(split(&page, name).1), lines(&made)];
    // A machine that reports less about itself has fewer fields that no check can verify.
    let lost = written.difference(&made).filter(|line| !line.contains(&Detection::Undetected.to_string()));
    let difference: Vec<_> =
        lost.map(|line| format!("- {line}")).chain(made.difference(&written).map(|line| format!("+ {line}"))).collect();
    assert!(difference.is_empty(), "`{PAGE}` says otherwise (-) than was found (+):\n{}\n\n{UPDATE}", difference.join("\n"));
}

/// Returns a section's rows of the page: the falsified item, and the check that refused it.
fn rows_of(page: &str, name: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        <[String; 2]>::try_from(cells).ok().map(|[what, caught]| (what, caught))
    };
    split(page, name)
        .1
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .skip(1)
        .filter_map(row)
        .collect()
}

/// Returns the table of `docs/provenance.md`, computed from the page.
fn summary() -> String {
    let page = fs::read_to_string(page_path(PAGE)).expect("the page");
    let mut table = "\n| whose | tried | before publication | level 1 | level 2 | level 3 | level 4 | not caught |\n".to_owned();
    table.push_str("| --- | --: | --: | --: | --: | --: | --: | --: |\n");
    let mut left = String::new();
    for section in SECTIONS {
        let rows = rows_of(&page, section.name);
        let count = |is: &dyn Fn(&str) -> bool| rows.iter().filter(|(_, caught)| is(caught)).count();
        let at = |level: u8| count(&|caught| caught.starts_with(&format!("level {level}")));
        let is_missed = |caught: &str| caught.starts_with("not caught") || caught.starts_with("only level");
        let missed = count(&is_missed);
        let levels = [1, 2, 3, 4].map(at);
        let early = rows.len() - missed - levels.iter().sum::<usize>();
        let [first, second, third, fourth] = levels;
        let title = section.title;
        writeln!(table, "| {title} | {} | {early} | {first} | {second} | {third} | {fourth} | {missed} |", rows.len())
            .expect("text");
        if missed > 0 {
            let missed = rows.iter().filter(|(_, caught)| is_missed(caught)).map(|(what, _)| what.as_str());
            writeln!(left, "- **{title}**: {}.", shorten_names(&rows, missed).join(", ")).expect("text");
        }
    }
    format!("{table}\nNot caught:\n\n{left}\n")
}

/// Shortens a list of fields: if all fields below a name are in it, they become `name.*`; each name is listed once, with all its
/// falsifications.
fn shorten_names<'a>(rows: &[(String, String)], missed: impl Iterator<Item = &'a str>) -> Vec<String> {
    let missed: Vec<&str> = missed.collect();
    let is_below = |what: &str, prefix: &str| {
        let rest = what.strip_prefix('`').and_then(|name| name.strip_prefix(prefix));
        rest.is_some_and(|rest| rest.starts_with(['.', '[', '`']))
    };
    let all_below =
        |prefix: &str| rows.iter().filter(|(what, _)| is_below(what, prefix)).all(|(what, _)| missed.contains(&what.as_str()));
    let mut names: Vec<String> = Vec::new();
    for what in &missed {
        let name = what.trim_start_matches('`').split('`').next().unwrap_or_default();
        let is_field = what.starts_with("`body.") || what.starts_with("`header.");
        let ends = name.char_indices().filter(|(_, c)| *c == '.' || *c == '[').map(|(place, _)| &name[..place]);
        let whole = ends.skip(1).find(|prefix| is_field && all_below(prefix));
        let shown = whole.map_or_else(|| (*what).to_owned(), |prefix| format!("`{prefix}.*`"));
        match shown.split_once("`, ") {
            Some((name, how)) => match names.last_mut().filter(|last| last.starts_with(&format!("{name}` ("))) {
                Some(last) => last.insert_str(last.len() - 1, &format!(", {how}")),
                None => names.push(format!("{name}` ({how})")),
            },
            None if names.contains(&shown) => {}
            None => names.push(shown),
        }
    }
    names
}

/// Checks the fields and artifacts of a stage's manifest.
fn check_stage(stage: &'static str) {
    let attacks: Vec<_> = manifest_attacks(stage).into_iter().chain(artifact_attacks(stage)).collect();
    check_section(stage, &attacks);
}

#[test]
fn attack_matrix_of_source() {
    check_stage("source");
}

/// The import of a Source, and its files with a digest over all of them that fits.
#[test]
fn attack_matrix_of_an_import() {
    let fixture = as_is::imported_fixture();
    let manifest = fixture.manifest("one", "source");
    let caught = |forged: Value| {
        let edit = |_: &Bench, manifest: &mut Value| *manifest = forged;
        Detection::from_forgery(&Forgery::forge_in(Bench::with_runs_of(fixture), "source", edit, |_| {}))
    };
    let mut attacks = Vec::new();
    for field in fields(&manifest).iter().filter(|field| field.class.starts_with("body.import")) {
        let changed = falsify_field(&manifest, field, Falsification::Changed).map(caught);
        attacks.extend(changed.map(|caught| Attack::new(format!("`{}`", field.class), &caught)));
    }
    let mut without = manifest.clone();
    without["body"].as_object_mut().expect("a body").remove("import");
    attacks.push(Attack::new("`body.import` left out", &caught(without)));
    for name in artifact_names(&manifest["body"]["files"]) {
        let caught = Detection::from_forgery(&as_is::forge_file(&name, |bytes| other_content(&bytes)));
        attacks.push(Attack::new(format!("content of `{name}`, and `body.files_digest`"), &caught));
    }
    check_section("import", &attacks);
}

#[test]
fn attack_matrix_of_plan() {
    check_stage("plan");
}

/// The search result that a Plan names for a workload.
#[test]
fn attack_matrix_of_a_search() {
    let fixture = searches::measured();
    let manifest = fixture.manifest("one", "plan");
    let caught = |forged: Value| {
        let edit = |_: &Bench, manifest: &mut Value| *manifest = forged;
        Detection::from_forgery(&Forgery::forge_in(Bench::with_runs_of(fixture), "plan", edit, |_| {}))
    };
    let mut attacks = Vec::new();
    for field in fields(&manifest).iter().filter(|field| field.class.starts_with("body.workloads[].search")) {
        let changed = falsify_field(&manifest, field, Falsification::Changed).map(caught);
        attacks.extend(changed.map(|caught| Attack::new(format!("`{}`", field.class), &caught)));
    }
    let mut without = manifest.clone();
    without["body"]["workloads"][0].as_object_mut().expect("a workload").remove("search");
    attacks.push(Attack::new("`body.workloads[].search` left out", &caught(without)));
    check_section("search", &attacks);
}

#[test]
fn attack_matrix_of_provision() {
    check_stage("provision");
}

#[test]
fn attack_matrix_of_execute() {
    check_stage("execute");
}

#[test]
fn attack_matrix_of_request_records() {
    let caught = |lie: &records::RecordsFalsification| {
        Detection::from_forgery(&forge("execute", |bench, manifest| records::falsify_records(manifest, bench, lie), |_| {}))
    };
    let mut attacks = Vec::new();
    for column in RecordColumn::ALL {
        let [near, far] = [false, true].map(|far| caught(&records::column_falsification(*column, far)));
        attacks.push(Attack::new(format!("`{}`", column.name()), &describe_detections(&near, Some(far))));
    }
    attacks.extend(records::attempt_falsifications().iter().map(|(what, lie)| Attack::new(*what, &caught(lie))));
    check_section("records", &attacks);
}

#[test]
fn attack_matrix_of_record() {
    check_stage("record");
}

#[test]
fn attack_matrix_of_collect() {
    check_stage("collect");
}

#[test]
fn attack_matrix_of_reduce() {
    check_stage("reduce");
}

#[test]
fn attack_matrix_of_publish() {
    check_stage("publish");
}

#[test]
fn attack_matrix_of_rows() {
    let store = attacked_fixture().store();
    let summary = attacked_fixture().manifest("one", "reduce");
    let mut attacks = Vec::new();
    for table in TABLES {
        let files = list(&summary["body"]["files"]);
        let Some(file) = files.iter().find(|file| file["table"] == table.name) else { continue };
        let bytes = fs::read(blob(&store, text(&file["artifact"]["digest"]))).expect("a curated file");
        let rows = assay_warehouse::read(table, bytes).expect("curated rows");
        if !rows.is_empty() {
            attacks.extend(table_attacks(table, &rows));
        }
    }
    check_section("rows", &attacks);
}

#[test]
fn attack_matrix_of_a_store() {
    let bench = Bench::with_runs_of(attacked_fixture());
    let runs = bench.store().join("runs");
    let verify = || bench.verify(&["--json"]);
    let below = |folder: &'static str| move |name: &str| Some(format!("{folder}/{}", class_of(name)));
    let mut attacks = file_attacks([&runs.join("one"), &runs.join("two")], &below("runs"), 3, &verify);
    let cases = bench.store().join("cases");
    attacks.extend(file_attacks([&cases, &bench.store().join("none")], &below("cases"), 3, &verify));
    check_section("store", &attacks);
}

#[test]
fn attack_matrix_of_a_warehouse() {
    let bench = Bench::with_runs_of(attacked_fixture());
    let warehouse = bench.store().join("warehouse");
    let own = own_files(&bench);
    // The run's own files. The entries of a table's log: 0 creates it, 1 adds the run's file; later ones are of the other run.
    let class_of = |name: &str| {
        if let Some((table, entry)) = name.split_once("/_delta_log/") {
            let number = entry.trim_start_matches('0').trim_end_matches(".json");
            return matches!(number, "" | "1")
                .then(|| format!("{table}/_delta_log/{}.json", if number.is_empty() { "0" } else { "1" }));
        }
        let (table, file) = name.split_once('/')?;
        let is_own = own.contains(&format!("sha256:{}", file.trim_end_matches(".parquet")));
        is_own.then(|| format!("{table}/*.parquet"))
    };
    let attacks = file_attacks([&warehouse, &bench.store().join("none")], &class_of, 3, &|| bench.verify(&["--json"]));
    check_section("warehouse", &attacks);
}

/// Returns the digests of the run's curated files.
fn own_files(bench: &Bench) -> BTreeSet<String> {
    let summary = bench.accepted_pointer("one", "reduce").load(&bench.store());
    list(&summary["body"]["files"]).iter().map(|file| text(&file["artifact"]["digest"]).to_owned()).collect()
}

#[test]
fn attack_matrix_of_a_folder() {
    let fixture = attacked_fixture();
    let folder = TempDir::new_in(fixture.scratch()).expect("a folder for the copy");
    copy_folder(&fixture.published("one"), folder.path());
    let name = folder.path().display().to_string();
    let class_of = |name: &str| Some(class_of(name));
    let two = fixture.published("two");
    let verify = || fixture.assay(&["verify", &name, "--json"]);
    let attacks = file_attacks([folder.path(), &two], &class_of, 2, &verify);
    check_section("folder", &attacks);
}

#[test]
fn attack_matrix_is_summarised_as_it_is() {
    let page = fs::read_to_string(page_path(SUMMARY)).expect("the page");
    let is_fresh = split(&page, "attack matrix").1 == summary();
    assert!(is_fresh || is_update(), "`{SUMMARY}` does not sum `{PAGE}` up: {UPDATE}");
}
