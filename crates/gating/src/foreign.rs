//! Verdicts over foreign evidence: finds and verifies the evidence of both sides, signs the decision, and makes it again from what it names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use assay_envelope::Trust;
use assay_foreign::{better_direction_of, is_level, part_holds_numbers};
use assay_gate::foreign::{
    FEWER_LABELS_HINT, FOREIGN_CONTRACT, ForeignInput, ForeignRefusal, ImportedPiece, MAX_PIECES, MetricDefinitions,
    judge_foreign,
};
use assay_import::{Reading, VerifiedForeignEvidence, public_key_beside, verify_foreign_evidence};
use assay_manifest::{
    Artifact, BetterDirection, Body as _, Count, Digest, ForeignGateRules, ForeignNumber, ForeignPiece, ForeignVerdict, InputRef,
    Instant, Kind, Manifest, Name, Role, RunId, Shard,
};
use assay_runner::{Config, KeyRing, gate_signers};
use assay_runs::{RunStore, establish, read_regular_file};
use assay_spec::ForeignGate;
use assay_stage::{AcceptedResult, Clock, ErrorCode, Failure, Layout, Seal, binary_digest, seal};
use assay_store::Store;
use assay_verify::{Blobs as _, StoreBlobs, load_alone};

use crate::caller::Caller;
use crate::sequence::trust_own_gate;

/// The largest file of rules, in bytes.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// The name of the gate without a file of rules.
const DEFAULT_GATE: &str = "foreign";

/// The default rules: those of a file that states nothing.
const DEFAULT_Q: f64 = 0.05;
const DEFAULT_BUDGET: f64 = 0.05;

/// The reviewed tables of the formats.
struct Tables;

impl MetricDefinitions for Tables {
    fn better(&self, number: &ForeignNumber) -> Option<BetterDirection> {
        better_direction_of(&number.metric, &number.unit, &number.labels)
    }

    fn is_level(&self, statistic: &str) -> bool {
        is_level(statistic)
    }

    fn holds_numbers(&self, format: &str, part: &str) -> bool {
        part_holds_numbers(format, part)
    }
}

/// Foreign evidence of two sides, and the rules to judge it by.
#[derive(Clone, Debug)]
pub struct ForeignGateRequest {
    /// The evidence of the baseline: names, beginnings of names that end with `*`, or digests.
    pub baseline: Vec<String>,
    /// The evidence of the candidate.
    pub candidate: Vec<String>,
    /// The store of the evidence and of the verdict.
    pub store: RunStore,
    /// The file of the rules, of the kind ForeignGate; without one, the verdict is advisory.
    pub policy: Option<PathBuf>,
    /// True if evidence of unknown signers is judged.
    pub unestablished: bool,
}

/// A verdict over foreign evidence that verifies.
#[derive(Clone, Debug)]
pub struct VerifiedForeignVerdict {
    /// The reference of its manifest and bundle.
    pub reference: InputRef,
    /// Its manifest.
    pub manifest: Manifest<ForeignVerdict>,
    /// The name of its signer.
    pub signer: String,
    /// True if a trust policy, or this machine's own gate, vouches for its signer.
    pub established: bool,
    /// The names of the pieces of which files are absent, so that their numbers were not read again.
    pub absent: Vec<RunId>,
}

impl VerifiedForeignVerdict {
    /// Returns the verdict.
    pub fn verdict(&self) -> &ForeignVerdict {
        &self.manifest.body
    }
}

/// The rules, with the gate's name and the file.
struct ReadRules {
    gate: Name,
    rules: ForeignGateRules,
    file: Option<(Artifact, Vec<u8>)>,
}

impl ForeignGateRequest {
    /// Judges the evidence, and signs and stores the verdict.
    ///
    /// # Errors
    /// Fails if a piece is not found, does not verify or has lost a file; with `evidence_twice` if one observation is given twice; and if the gate's
    /// key cannot be unlocked.
    pub fn judge(&self, caller: &dyn Caller) -> Result<VerifiedForeignVerdict, Failure> {
        let store = self.store.open_store()?;
        let blobs = StoreBlobs::new(store.clone());
        let ReadRules { gate, rules, file } = self.read_rules()?;
        let [baseline, candidate] =
            [find_side("baseline", &self.baseline, &store)?, find_side("candidate", &self.candidate, &store)?];
        let config = Config::find()?;
        let open =
            |found: &[FoundPiece]| found.iter().map(|found| self.open(&config, &blobs, found)).collect::<Result<Vec<_>, _>>();
        let [baseline, candidate] = [open(&baseline)?, open(&candidate)?];
        let files = file.iter().map(|(artifact, _)| artifact.clone()).collect();
        let pieces = |opened: &'_ [VerifiedForeignEvidence]| opened.iter().map(describe).collect::<Vec<_>>();
        let manifest =
            decide(&gate, rules, [(&baseline, pieces(&baseline)), (&candidate, pieces(&candidate))], Clock.now(), files)?;
        if let Some((_, bytes)) = &file {
            store.put(bytes)?;
        }
        let reference = sign(&store, &caller.gate_key()?, manifest.clone())?;
        Ok(VerifiedForeignVerdict { reference, manifest, signer: "this gate".to_owned(), established: true, absent: Vec::new() })
    }

    fn read_rules(&self) -> Result<ReadRules, Failure> {
        let Some(path) = &self.policy else {
            let gate = DEFAULT_GATE.parse().map_err(|error| Failure::new(ErrorCode::Internal, "no name").because(&error))?;
            return Ok(ReadRules { gate, rules: default_rules(), file: None });
        };
        let unreadable = |error: &std::io::Error| {
            Failure::new(ErrorCode::Policy, format!("cannot read the rules `{}`", path.display())).because(error)
        };
        let bytes = read_regular_file(path, MAX_RULES_BYTES).map_err(|error| unreadable(&error))?;
        if bytes.len() as u64 > MAX_RULES_BYTES {
            return Err(Failure::new(ErrorCode::Policy, format!("`{}` is too large for rules", path.display())));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (gate, rules) = rules_of(&name, &bytes)?;
        let artifact = Artifact {
            name: format!("rules/{name}"),
            digest: rules.digest,
            size: Count(bytes.len() as u64),
            media_type: "application/yaml".to_owned(),
        };
        Ok(ReadRules { gate, rules, file: Some((artifact, bytes)) })
    }

    /// Verifies a piece: signer, files and numbers.
    fn open(&self, config: &Config, blobs: &StoreBlobs, found: &FoundPiece) -> Result<VerifiedForeignEvidence, Failure> {
        let opened = open_evidence(&self.store, config, blobs, found.reference, self.unestablished)?;
        let name = &opened.manifest.header.run_id;
        if let Some(place) = found.name.as_ref().filter(|place| *place != name) {
            let message = format!("the pointer of the foreign evidence `{place}` leads to that of `{name}`");
            return Err(Failure::new(ErrorCode::PointerElsewhere, message)
                .hint("remove the pointer, or put back the one that it replaced"));
        }
        if !opened.established && !self.unestablished {
            let message = format!("`{name}` is consistent, and nobody knows who imported it: that is no evidence to judge by");
            return Err(Failure::new(ErrorCode::NoTrust, message).hint(
                "name whom you trust with `--trust`, or judge it all the same with `--unestablished`, which the verdict states",
            ));
        }
        if let Reading::Absent(absent) = &opened.reading {
            let file = absent.first().map(|path| path.escape_debug().to_string()).unwrap_or_default();
            let message = format!("`{file}` of the foreign evidence `{name}` is absent, so its numbers cannot be read again");
            return Err(Failure::new(ErrorCode::ArtifactAbsent, message).hint(format!(
                "put its bytes back: `assay import results PATH --name {name}`, with the same files, stores them again"
            )));
        }
        Ok(opened)
    }
}

/// Verifies a piece of evidence: with `may_be_unknown`, one whose importer no policy names is opened by the key beside it, and is not established.
fn open_evidence(
    place: &RunStore,
    config: &Config,
    blobs: &StoreBlobs,
    reference: InputRef,
    may_be_unknown: bool,
) -> Result<VerifiedForeignEvidence, Failure> {
    let beside = public_key_beside(blobs, &reference)?;
    let trust = establish(&place.trust, config, blobs, &beside)?.trust;
    let verify = |trust: &Trust| verify_foreign_evidence(blobs, reference, trust);
    let opened = match verify(&trust) {
        Err(failure) if failure.code == ErrorCode::UnknownKey && may_be_unknown => verify(&assay_runs::trust_no_signer(&beside)),
        opened => opened,
    };
    opened.map_err(|failure| of_piece(&reference, failure))
}

/// Verifies a verdict over foreign evidence: the signer, each piece of evidence as `assay verify` does, and the decision, which is made again.
///
/// # Errors
/// Fails with the code of a signature's or a file's fault, with `other_contract` for another version of the method, and with `replay_differs` if the
/// decision is another.
pub fn verify_foreign_verdict(place: &RunStore, reference: InputRef) -> Result<VerifiedForeignVerdict, Failure> {
    let (store, config) = (place.open_store()?, Config::find()?);
    let blobs = StoreBlobs::new(store);
    let trust = establish(&place.trust, &config, &blobs, &[])?.trust;
    let trust = gate_signers(&config).map_or_else(|_| trust.clone(), |own| trust_own_gate(&trust, &own));
    let verified = load_alone(&blobs, reference, &trust, "verdict over foreign evidence")?;
    let manifest = ForeignVerdict::from_document(verified.value())
        .ok_or_else(|| differs("the document is no verdict over foreign evidence"))?
        .clone();
    let verdict = &manifest.body;
    if verdict.contract != FOREIGN_CONTRACT {
        let message = format!("the verdict was made by {:?}, and this is {FOREIGN_CONTRACT}", verdict.contract);
        return Err(Failure::new(ErrorCode::OtherContract, message)
            .hint("the method may have changed: verify it with the version of assay that made it"));
    }
    let open = |pieces: &[ForeignPiece]| {
        // If the verdict states that no policy names an importer, it is no more established than that.
        let open = |piece: &ForeignPiece| open_evidence(place, &config, &blobs, piece.evidence, !piece.established);
        pieces.iter().map(open).collect::<Result<Vec<_>, Failure>>()
    };
    check_piece_count(verdict)?;
    let [baseline, candidate] = [open(&verdict.baseline)?, open(&verdict.candidate)?];
    let again = decide_again(verdict, [&baseline, &candidate], &blobs)?;
    let bytes = |manifest: &Manifest<ForeignVerdict>| {
        manifest.to_bytes().map_err(|error| Failure::new(ErrorCode::Internal, "a verdict has no canonical form").because(&error))
    };
    let (stated, now) = (bytes(&manifest)?, bytes(&again)?);
    if stated != now {
        let message = format!("deciding again gives {} instead of {}", Digest::compute(&now), Digest::compute(&stated));
        return Err(differs(&message));
    }
    let is_absent = |evidence: &&VerifiedForeignEvidence| evidence.reading != Reading::Equal;
    let absent =
        baseline.iter().chain(&candidate).filter(is_absent).map(|evidence| evidence.manifest.header.run_id.clone()).collect();
    let established = verified.signer().established && baseline.iter().chain(&candidate).all(|evidence| evidence.established);
    Ok(VerifiedForeignVerdict { reference, signer: verified.signer().name.clone(), established, absent, manifest })
}

/// Checks the number of pieces before any of them is read.
fn check_piece_count(verdict: &ForeignVerdict) -> Result<(), Failure> {
    for (side, pieces) in [("baseline", &verdict.baseline), ("candidate", &verdict.candidate)] {
        if pieces.len() > MAX_PIECES {
            return Err(not_judged(&ForeignRefusal::PieceCount { side, count: pieces.len() }));
        }
    }
    Ok(())
}

/// Makes the decision of a verdict again, from its evidence and the file of its rules.
fn decide_again(
    verdict: &ForeignVerdict,
    [baseline, candidate]: [&[VerifiedForeignEvidence]; 2],
    blobs: &StoreBlobs,
) -> Result<Manifest<ForeignVerdict>, Failure> {
    let (gate, rules) = match &verdict.rules.path {
        None => (verdict.gate.clone(), default_rules()),
        Some(path) => {
            let name = format!("rules/{path}");
            let artifact = verdict.files.iter().find(|file| file.name == name);
            let artifact = artifact.ok_or_else(|| differs(&format!("the verdict does not name `{path}`")))?;
            let absent =
                || Failure::new(ErrorCode::ArtifactAbsent, format!("`{path}`, by which was judged, is not in the store"));
            rules_of(path, &blobs.get(&artifact.digest, MAX_RULES_BYTES)?.ok_or_else(absent)?)?
        }
    };
    // The names of signers are in the trust policy of the machine that judged.
    let pieces = |opened: &[VerifiedForeignEvidence], stated: &[ForeignPiece]| {
        let with_signer = |(opened, stated): (&VerifiedForeignEvidence, &ForeignPiece)| ForeignPiece {
            signer: stated.signer.clone(),
            established: stated.established,
            ..describe(opened)
        };
        opened.iter().zip(stated).map(with_signer).collect::<Vec<_>>()
    };
    let sides = [(baseline, pieces(baseline, &verdict.baseline)), (candidate, pieces(candidate, &verdict.candidate))];
    decide(&gate, rules, sides, verdict.judged_on, verdict.files.clone())
}

type OpenedSide<'a> = (&'a [VerifiedForeignEvidence], Vec<ForeignPiece>);

fn decide(
    gate: &Name,
    rules: ForeignGateRules,
    [baseline, candidate]: [OpenedSide<'_>; 2],
    judged_on: Instant,
    files: Vec<Artifact>,
) -> Result<Manifest<ForeignVerdict>, Failure> {
    let input = ForeignInput {
        gate,
        rules,
        baseline: imported(baseline),
        candidate: imported(candidate),
        definitions: &Tables,
        judged_on,
        files,
    };
    let verdict = judge_foreign(&input).map_err(|refusal| not_judged(&refusal))?;
    let name = verdict.candidate.last().map(|piece| piece.name.clone());
    let name = name.ok_or_else(|| Failure::new(ErrorCode::Internal, "a verdict has no candidate"))?;
    let inputs = verdict.pieces().map(|piece| piece.evidence).collect();
    Ok(Manifest::new(name, inputs, verdict))
}

fn imported((opened, pieces): OpenedSide<'_>) -> Vec<ImportedPiece<'_>> {
    opened.iter().zip(pieces).map(|(opened, piece)| ImportedPiece { piece, evidence: opened.body() }).collect()
}

fn describe(opened: &VerifiedForeignEvidence) -> ForeignPiece {
    let body = opened.body();
    ForeignPiece {
        name: opened.manifest.header.run_id.clone(),
        evidence: opened.reference,
        format: body.format.clone(),
        format_version: body.format_version.clone(),
        tool: body.tool.clone(),
        tool_version: body.tool_version.clone(),
        imported_at: body.imported_at,
        signer: opened.signer.clone(),
        established: opened.established,
    }
}

fn default_rules() -> ForeignGateRules {
    ForeignGateRules {
        path: None,
        digest: Digest::compute(b""),
        q: DEFAULT_Q,
        budget: DEFAULT_BUDGET,
        metrics: Vec::new(),
        block_on_inconclusive: false,
        allow_foreign: false,
    }
}

/// Returns the gate's name and the rules of a file.
fn rules_of(name: &str, bytes: &[u8]) -> Result<(Name, ForeignGateRules), Failure> {
    let gate = ForeignGate::parse(name, bytes).map_err(|problems| Failure::invalid(&problems))?;
    let rules = ForeignGateRules {
        path: Some(name.to_owned()),
        digest: Digest::compute(bytes),
        q: gate.q,
        budget: gate.budget_pct / 100.0,
        metrics: gate.metrics,
        block_on_inconclusive: gate.block_on_inconclusive,
        allow_foreign: gate.allow_foreign,
    };
    Ok((gate.name, rules))
}

/// Evidence that was found. One that was found by its name has to be the evidence of that name: pointers are not signed.
struct FoundPiece {
    name: Option<RunId>,
    reference: InputRef,
}

/// Finds the evidence of a side, before any of it is read.
fn find_side(side: &'static str, names: &[String], store: &Store) -> Result<Vec<FoundPiece>, Failure> {
    let mut found = Vec::new();
    for name in names {
        found.extend(find_pieces(store, name)?);
        if found.len() > MAX_PIECES {
            return Err(not_judged(&ForeignRefusal::PieceCount { side, count: found.len() }));
        }
    }
    Ok(found)
}

/// Returns the evidence of a name, of all names that begin with what precedes a `*`, or of a digest.
fn find_pieces(store: &Store, name: &str) -> Result<Vec<FoundPiece>, Failure> {
    if let Some(beginning) = name.strip_suffix('*') {
        return find_by_beginning(store, beginning);
    }
    if let Ok(run_id) = name.parse::<RunId>()
        && let Some(found) = read_piece(store, run_id)?
    {
        return Ok(vec![found]);
    }
    Ok(vec![FoundPiece { name: None, reference: assay_import::find(store, name)? }])
}

fn read_piece(store: &Store, name: RunId) -> Result<Option<FoundPiece>, Failure> {
    let accepted = AcceptedResult::read(store, &Layout::foreign_evidence(&name))?;
    Ok(accepted.map(|accepted| FoundPiece { reference: accepted.as_input(Kind::ForeignEvidence), name: Some(name) }))
}

fn find_by_beginning(store: &Store, beginning: &str) -> Result<Vec<FoundPiece>, Failure> {
    let mut names = BTreeSet::new();
    for path in store.list(Layout::FOREIGN)? {
        let name = Path::new(&path).file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        if name.starts_with(beginning) {
            names.extend(name.parse::<RunId>().ok());
        }
    }
    let mut found = Vec::new();
    for name in names {
        found.extend(read_piece(store, name)?);
    }
    if found.is_empty() {
        let message = format!("the store `{}` has no foreign evidence whose name begins with `{beginning}`", store.uri());
        return Err(Failure::new(ErrorCode::NoSuchForeignEvidence, message));
    }
    Ok(found)
}

/// Finds the verdict over foreign evidence of a digest, or of its first digits; `None` if there is none.
///
/// # Errors
/// Fails with `no_such_verdict` if several begin so, and with `pointer` if none is found and a pointer is damaged.
pub fn find_foreign_verdict(store: &Store, name: &str) -> Result<Option<InputRef>, Failure> {
    let Some(digits) = AcceptedResult::digits(name) else { return Ok(None) };
    let found = AcceptedResult::find(store, Layout::FOREIGN_VERDICTS, digits)?;
    match (found.accepted.as_slice(), found.damaged) {
        ([one], _) => Ok(Some(one.as_input(Kind::ForeignVerdict))),
        ([], None) => Ok(None),
        ([], Some(damaged)) => Err(damaged),
        _ => Err(Failure::new(ErrorCode::NoSuchVerdict, format!("several verdicts have a digest that begins with {name}"))),
    }
}

fn sign(store: &Store, keys: &KeyRing, manifest: Manifest<ForeignVerdict>) -> Result<InputRef, Failure> {
    let Manifest { header, body } = manifest;
    let seal_with = Seal {
        signer: keys.signer(Role::Gate)?,
        binary: binary_digest()?,
        invocation_id: format!("{}-gate-{}", body.gate, std::process::id()),
        started: body.judged_on,
        parameters: serde_json::json!({"gate": body.gate}),
        stage: None,
        shard: Shard::ONLY,
        trust_policy: None,
        dependencies: Vec::new(),
    };
    let reference = seal(&seal_with, store, &header.run_id, header.inputs, body)?.reference;
    let pointer = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle }.to_bytes()?;
    // Its place is its digest, so what is there is the same verdict.
    store.create(&Layout::foreign_verdict(&reference.manifest), &pointer)?;
    Ok(reference)
}

fn of_piece(reference: &InputRef, failure: Failure) -> Failure {
    Failure { message: format!("foreign evidence {}: {}", reference.manifest.short(), failure.message), ..failure }
}

fn not_judged(refusal: &ForeignRefusal) -> Failure {
    let (code, hint) = match refusal {
        _ if refusal.is_twice() => (
            ErrorCode::EvidenceTwice,
            "name each piece once; a repetition is another invocation of the tool, with files of its own",
        ),
        ForeignRefusal::UnknownMetric(_) => {
            (ErrorCode::NotJudged, "`docs/reference/foreign.md` lists the metrics of each format and their better direction")
        }
        ForeignRefusal::TooManyNumbers(_) => (ErrorCode::NotJudged, "import the files of fewer benchmarks at a time"),
        ForeignRefusal::NothingInCommon(Some(labels)) if labels.may_be_of_importers => (ErrorCode::NotJudged, FEWER_LABELS_HINT),
        _ => (ErrorCode::NotJudged, "`assay compare` of one piece of each side shows what they have in common"),
    };
    Failure::new(code, refusal.to_string()).hint(hint)
}

fn differs(what: &str) -> Failure {
    Failure::new(ErrorCode::ReplayDiffers, what).hint("whoever signed this verdict did not decide by what it names")
}
