//! The rules by which a gate judges: a pipeline's gates, the acknowledgements and the trust policy, from the target branch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assay_gate::History;
use assay_git::{Commit, Oid, Repository};
use assay_manifest::{Acknowledgement, Artifact, Count, Difference, Digest, GatePolicy, Name};
use assay_runs::read_regular_file;
use assay_spec as spec;
use assay_stage::{ErrorCode, Failure};

/// The path of a repository's trust policy, from its root.
pub(crate) const TRUST: &str = "pipelines/trust.yaml";

/// The largest pipeline or acknowledgement, in bytes.
pub(crate) const MAX_RULES_BYTES: u64 = 1 << 20;

/// The most acknowledgements of a repository.
const MAX_ACKNOWLEDGEMENTS: usize = 1_000;

/// A file that rules are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFile {
    /// From the repository's root.
    pub(crate) path: String,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
}

impl RuleFile {
    /// Returns the file as a verdict names it.
    pub(crate) fn artifact(&self) -> Artifact {
        Artifact {
            name: format!("rules/{}", self.path),
            digest: Digest::compute(&self.bytes),
            size: Count(self.bytes.len() as u64),
            media_type: "application/yaml".to_owned(),
        }
    }
}

/// The rules as they were read.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The pipeline with the gates.
    pub(crate) pipeline: RuleFile,
    /// The acknowledgements, in the order of their paths.
    pub(crate) acknowledgements: Vec<RuleFile>,
    /// The trust policy, if the repository has one.
    pub(crate) trust: Option<RuleFile>,
    /// The learned noise of the comparison, if there is such a file.
    pub(crate) noise: Option<RuleFile>,
    /// The other files of the branch that decide what is measured: workloads with their scripts and files, objects of targets;
    /// empty if only the pipeline is known.
    pub(crate) definitions: Vec<RuleFile>,
    /// The commit that they were read at.
    pub(crate) commit: Option<String>,
}

/// A commit of the repository around the working folder: the target branch.
pub(crate) struct Branch {
    rev: String,
    repository: Repository,
    commit: Commit,
}

impl Branch {
    /// Opens the commit that `rev` names.
    pub(crate) fn open(rev: &str) -> Result<Self, Failure> {
        let repository = Repository::discover(Path::new(".")).map_err(git)?;
        let commit = repository.resolve(rev).map_err(git)?;
        Ok(Self { rev: rev.to_owned(), repository, commit })
    }

    /// Describes the branch by its name and its commit.
    pub(crate) fn describe(&self) -> String {
        format!("`{}` ({})", self.rev, assay_report::short_commit(&self.commit.id.to_string()))
    }

    /// Refuses a merge of `head` with a commit with which merging it into this branch would not have merged it.
    ///
    /// That commit has to be one of the branch's own, and to contain all that `head` has of the branch: otherwise the author of a
    /// merge request could choose an older, slower commit as the baseline.
    pub(crate) fn check_merged(&self, head: &str, with: Oid) -> Result<(), Failure> {
        let tip = self.commit.id;
        if with == tip {
            return Ok(());
        }
        let refused = |why: &str| {
            Failure::new(
                ErrorCode::OtherBase,
                format!("what was measured is a merge of {head} with {with}, {why} {}", self.describe()),
            )
        };
        if !self.repository.is_ancestor_or_same(with, tip) {
            return Err(
                refused("which is no commit of").hint("a checkout without history knows none but the newest: fetch it whole")
            );
        }
        let head = head.parse().map_err(|error| refused("and it is not clear what that has of").because(&error))?;
        match self.repository.merge_base(head, tip) {
            None => {
                Err(refused("and this repository lacks one that it could be compared by with")
                    .hint("fetch the head that is judged"))
            }
            Some(common) if self.repository.is_ancestor_or_same(common, with) => Ok(()),
            Some(_) => Err(refused("which lacks commits that the head already has of")),
        }
    }

    /// Returns the repository's trust policy, if it has one.
    pub(crate) fn trust(&self) -> Result<Option<RuleFile>, Failure> {
        self.file(TRUST)
    }

    /// Returns its rules for a pipeline.
    pub(crate) fn rules(&self, pipeline: &str) -> Result<Rules, Failure> {
        let found = self.file(pipeline)?.ok_or_else(|| {
            Failure::new(ErrorCode::NoPolicy, format!("`{}` has no `{pipeline}`, so nothing there says how to judge", self.rev))
                .hint("rules come from the target branch: merge the pipeline first, or name a file with `--policy`")
        })?;
        let mut acknowledgements = Vec::new();
        let paths = self.repository.files_at(&self.commit, spec::ACKNOWLEDGEMENTS).map_err(git)?;
        for path in paths.iter().filter(|path| is_yaml(Path::new(path))) {
            acknowledgements.extend(self.file(path)?);
        }
        check_count(acknowledgements.len())?;
        let definitions = self.definitions(pipeline)?;
        let noise = self.file(&spec::Noise::path_of(&parsed(&found)?.name))?;
        Ok(Rules {
            pipeline: found,
            acknowledgements,
            trust: self.trust()?,
            noise,
            definitions,
            commit: Some(self.commit.id.to_string()),
        })
    }

    /// Returns all files that the pipeline names and that decide what is measured.
    fn definitions(&self, pipeline: &str) -> Result<Vec<RuleFile>, Failure> {
        let mut read = BTreeMap::new();
        let closure = spec::read_closure::<assay_git::Error>(pipeline, &mut |path| {
            let Some(file) = self.repository.read_at(&self.commit, path)? else { return Ok(None) };
            read.insert(path.to_owned(), file.bytes.clone());
            Ok(Some(file.bytes))
        });
        let closure = closure.map_err(|error| match error {
            spec::ClosureError::Problems(problems) => Failure::invalid(&problems),
            spec::ClosureError::Read { cause, .. } => git(cause),
        })?;
        let measured = closure.files.into_iter().filter(|file| file.path != pipeline && is_measured(&file.path));
        let files =
            measured.map(|file| RuleFile { bytes: read.remove(&file.path).unwrap_or_default(), path: file.path }).collect();
        Ok(files)
    }

    fn file(&self, path: &str) -> Result<Option<RuleFile>, Failure> {
        let Some(file) = self.repository.read_at(&self.commit, path).map_err(git)? else { return Ok(None) };
        check_size(path, file.bytes.len() as u64)?;
        Ok(Some(RuleFile { path: path.to_owned(), bytes: file.bytes }))
    }
}

/// The pull request or tree that is judged, and the commit, for matching acknowledgements.
#[derive(Clone, Debug)]
pub(crate) struct JudgedSubject<'a> {
    /// The name of the sequence of verdicts: the pull request or the tree.
    pub(crate) subject: &'a Name,
    /// The commit that was measured.
    pub(crate) commit: Option<&'a str>,
}

impl Rules {
    /// Reads the rules of a plain file: acknowledgements lie in `acks` beside it, and the learned noise in `noise`.
    pub(crate) fn from_file(path: &Path) -> Result<Self, Failure> {
        let pipeline = RuleFile { path: plain_name(path), bytes: read_file(path)? };
        let folder = path.parent().unwrap_or(Path::new("")).join("acks");
        let mut acknowledgements = Vec::new();
        for file in yaml_files(&folder)? {
            acknowledgements.push(RuleFile { path: format!("acks/{}", plain_name(&file)), bytes: read_file(&file)? });
        }
        let noise = format!("noise/{}.yaml", parsed(&pipeline)?.name);
        let file = path.parent().unwrap_or(Path::new("")).join(&noise);
        let noise = if file.exists() { Some(RuleFile { path: noise, bytes: read_file(&file)? }) } else { None };
        Ok(Self { pipeline, acknowledgements, trust: None, noise, definitions: Vec::new(), commit: None })
    }

    /// Returns the rules of the run's own Source: a change to what is measured could change them too.
    pub(crate) fn from_run(pipeline: RuleFile) -> Self {
        Self { pipeline, acknowledgements: Vec::new(), trust: None, noise: None, definitions: Vec::new(), commit: None }
    }

    /// Returns the path of the learned noise, beside the pipeline.
    pub(crate) fn noise_path(&self) -> Result<String, Failure> {
        Ok(spec::Noise::path_of(&parsed(&self.pipeline)?.name))
    }

    /// Returns every file, as a verdict names them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &RuleFile> {
        [&self.pipeline].into_iter().chain(&self.acknowledgements).chain(&self.trust).chain(&self.noise).chain(&self.definitions)
    }

    /// Returns the digest of the learned noise, as a verdict names it.
    pub(crate) fn learned(&self) -> Option<Digest> {
        self.noise.as_ref().map(|file| Digest::compute(&file.bytes))
    }

    /// Returns the learned noise as the judgement uses it.
    pub(crate) fn history(&self) -> Result<Option<History>, Failure> {
        let Some(file) = &self.noise else { return Ok(None) };
        let name = parsed(&self.pipeline)?.name;
        let noise =
            spec::Noise::parse_for_pipeline(&name, &file.path, &file.bytes).map_err(|problems| Failure::invalid(&problems))?;
        Ok(Some(noise.history(Digest::compute(&file.bytes))))
    }

    /// Returns the gates of the pipeline.
    pub(crate) fn gates(&self) -> Result<Vec<spec::Gate>, Failure> {
        gates(&self.pipeline)
    }

    /// Returns a gate's rules in the form of a verdict.
    pub(crate) fn policy(&self, gate: &spec::Gate) -> GatePolicy {
        GatePolicy {
            path: self.pipeline.path.clone(),
            digest: Digest::compute(&self.pipeline.bytes),
            commit: self.commit.clone(),
            q: gate.q,
            looks: gate.looks.clone(),
            budget: gate.budget_pct / 100.0,
            metrics: gate.metrics.clone(),
            block_on_inconclusive: gate.block_on_inconclusive,
            slo: gate.slo,
            provenance: gate.provenance,
            max_error_rate: gate.max_error_rate_pct.map(|percent| percent / 100.0),
            max_output_drift: gate.max_output_drift_pct.map(|percent| percent / 100.0),
        }
    }

    /// Returns the acknowledgements in the form of a verdict; `applies` of each is true if it is about the judged run.
    pub(crate) fn acknowledgements(
        &self,
        applies: &dyn Fn(&str, &spec::AcceptedChange) -> bool,
    ) -> Result<Vec<Acknowledgement>, Failure> {
        let read = |file: &RuleFile| {
            let accepted =
                spec::Acknowledgement::parse(&file.path, &file.bytes).map_err(|problems| Failure::invalid(&problems))?;
            Ok(Acknowledgement {
                path: file.path.clone(),
                digest: Digest::compute(&file.bytes),
                applies: applies(&file.path, &accepted.accepted_change),
                case: accepted.case,
                point: accepted.point,
                metric: accepted.metric,
                accepts: accepted.accepts_pct / 100.0,
                of: describe_accepted(&accepted.accepted_change),
                reason: accepted.reason,
                approver: accepted.approver,
                expires: accepted.expires,
            })
        };
        self.acknowledgements.iter().map(read).collect()
    }
}

/// Returns the gates of a pipeline file.
pub(crate) fn gates(pipeline: &RuleFile) -> Result<Vec<spec::Gate>, Failure> {
    Ok(parsed(pipeline)?.spec.gates)
}

/// Returns true if a pipeline file has a comparison, which gates judge.
pub(crate) fn has_comparison(pipeline: &RuleFile) -> Result<bool, Failure> {
    Ok(parsed(pipeline)?.spec.comparison.is_some())
}

/// Returns true if a file decides what is measured: readers' pages and published queries do not, and the learned noise only if it
/// decides how many pairs there are.
fn is_measured(path: &str) -> bool {
    let path = Path::new(path);
    !path.starts_with(spec::NOISE)
        && path.extension().is_none_or(|extension| extension != "sql")
        && path.file_name().is_none_or(|name| name != "README.md")
}

fn parsed(pipeline: &RuleFile) -> Result<spec::Pipeline, Failure> {
    spec::Pipeline::parse(&pipeline.path, &pipeline.bytes).map_err(|problems| Failure::invalid(&problems))
}

/// Returns the differences between a run's definitions and those of its target branch: everything of its pipeline except the
/// gates and the handling of the result, and every file that the pipeline names. `own_files` are those of the run, by path.
pub(crate) fn definition_changes(
    rules: &Rules,
    own: &RuleFile,
    own_files: &BTreeMap<String, Digest>,
) -> Result<Vec<Difference>, Failure> {
    let mut changes = Vec::new();
    let (there, here) = (parsed(&rules.pipeline)?, parsed(own)?);
    let text = |digest: Option<&Digest>| digest.map_or_else(|| "none".to_owned(), ToString::to_string);
    // The learned noise decides how many pairs are measured.
    if there.spec.trials.sized || here.spec.trials.sized {
        let path = spec::Noise::path_of(&here.name);
        let (judged_by, measured) = (rules.learned(), own_files.get(&path));
        if judged_by.as_ref() != measured {
            changes.push(Difference { what: path, baseline: text(judged_by.as_ref()), candidate: text(measured) });
        }
    }
    if own.bytes != rules.pipeline.bytes {
        changes.extend(pipeline_changes(there.spec, here.spec));
    }
    if rules.commit.is_none() {
        return Ok(changes);
    }
    let there: BTreeMap<&str, Digest> =
        rules.definitions.iter().map(|file| (file.path.as_str(), Digest::compute(&file.bytes))).collect();
    let own_paths = own_files.keys().map(String::as_str).filter(|path| *path != own.path && is_measured(path));
    let paths: BTreeSet<&str> = there.keys().copied().chain(own_paths).collect();
    for path in paths {
        let (judged_by, measured) = (there.get(path), own_files.get(path));
        if judged_by != measured {
            changes.push(Difference { what: path.to_owned(), baseline: text(judged_by), candidate: text(measured) });
        }
    }
    Ok(changes)
}

/// Returns the differences of two pipelines except their gates, their schedules and their publication.
fn pipeline_changes(judged_by: spec::PipelineSpec, own: spec::PipelineSpec) -> Vec<Difference> {
    let bare = |mut spec: spec::PipelineSpec| {
        (spec.gates, spec.schedule, spec.publish) = (Vec::new(), None, spec::PublishSettings::default());
        spec
    };
    let (judged_by, own) = (bare(judged_by), bare(own));
    if judged_by == own {
        return Vec::new();
    }
    let mut changes = differing(measured_fields(&judged_by), measured_fields(&own));
    // A target or a variant may be long, or contain a reference to a secret: only the fact that it differs is shown.
    let parts = [("targets", judged_by.targets != own.targets), ("variants", judged_by.variants != own.variants)];
    let named = parts.into_iter().filter_map(|(what, differs)| differs.then_some(what));
    changes.extend(named.map(differs));
    if changes.is_empty() {
        changes.push(differs("the pipeline's other fields"));
    }
    changes
}

fn differs(what: &str) -> Difference {
    Difference { what: what.to_owned(), baseline: "as there".to_owned(), candidate: "differs".to_owned() }
}

/// Returns the fields of a pipeline that are shown as they are.
fn measured_fields(spec: &spec::PipelineSpec) -> [(&'static str, String); 7] {
    let side = |side: &assay_manifest::Side| format!("{}.{}", side.target, side.variant);
    let comparison = spec.comparison.as_ref().map_or_else(
        || "none".to_owned(),
        |comparison| {
            let (baseline, candidate) = (side(&comparison.baseline), side(&comparison.candidate));
            format!("{candidate} against {baseline}, {}", comparison.variable_under_test)
        },
    );
    [
        ("comparison", comparison),
        ("workloads", spec.workloads.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")),
        ("trials", format!("{} of each, {} may be repeated", trials(&spec.trials), spec.trials.retry_budget)),
        ("validity", spec.trials.validity.to_string()),
        ("placement", spec.placement.to_string()),
        ("isolation", spec.isolation.to_string()),
        ("shards", spec.shards.to_string()),
    ]
}

fn trials(trials: &spec::Trials) -> String {
    if trials.sized { "as many as it takes".to_owned() } else { trials.count.to_string() }
}

/// Returns the differences between the candidate's own rules and those by which it is judged.
pub(crate) fn changes(judged_by: &spec::Gate, own: Option<&spec::Gate>) -> Vec<Difference> {
    let Some(own) = own else {
        let there = format!("gate `{}`", judged_by.name);
        return vec![Difference { what: "gate".to_owned(), baseline: there, candidate: "none".to_owned() }];
    };
    let percent = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
    let members = |gate: &spec::Gate| {
        [
            ("metrics", if gate.metrics.is_empty() { "every primary one".to_owned() } else { gate.metrics.join(", ") }),
            ("budget_pct", gate.budget_pct.to_string()),
            ("block_on_inconclusive", gate.block_on_inconclusive.to_string()),
            ("q", gate.q.to_string()),
            ("looks", gate.looks.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")),
            ("slo", gate.slo.to_string()),
            ("provenance", gate.provenance.to_string()),
            ("max_error_rate_pct", percent(gate.max_error_rate_pct)),
            ("max_output_drift_pct", percent(gate.max_output_drift_pct)),
        ]
    };
    differing(members(judged_by), members(own))
}

/// Returns those of the named texts that differ between both sides.
fn differing<const N: usize>(one: [(&'static str, String); N], other: [(&'static str, String); N]) -> Vec<Difference> {
    let both = one.into_iter().zip(other).filter(|((_, one), (_, other))| one != other);
    both.map(|((what, baseline), (_, candidate))| Difference { what: what.to_owned(), baseline, candidate }).collect()
}

impl JudgedSubject<'_> {
    /// Returns true if an acknowledgement of this is about the judged run. The commits of a range are looked up in the repository
    /// around the working folder.
    pub(crate) fn is_accepted_by(&self, accepted: &spec::AcceptedChange) -> bool {
        match accepted {
            spec::AcceptedChange::PullRequest(number) => self.subject.as_str() == format!("pr-{number}"),
            spec::AcceptedChange::Range { base, merge } => self.is_in_range(base, merge).unwrap_or(false),
        }
    }

    fn is_in_range(&self, base: &str, merge: &str) -> Option<bool> {
        let [commit, base, merge] = [self.commit?, base, merge].map(|text| text.parse::<Oid>().ok());
        let (commit, base, merge) = (commit?, base?, merge?);
        let repository = Repository::discover(Path::new(".")).ok()?;
        Some(commit != base && repository.is_ancestor_or_same(base, commit) && repository.is_ancestor_or_same(commit, merge))
    }
}

fn describe_accepted(accepted: &spec::AcceptedChange) -> String {
    match accepted {
        spec::AcceptedChange::PullRequest(number) => format!("pull request {number}"),
        spec::AcceptedChange::Range { base, merge } => format!("commits {base}..{merge}"),
    }
}

fn git(error: assay_git::Error) -> Failure {
    if matches!(error, assay_git::Error::NoRepository { .. }) {
        return Failure::from_error(ErrorCode::Git, &error)
            .hint("rules are read from a branch: call it in a checkout, or name a file with `--policy`");
    }
    Failure::from_error(ErrorCode::Git, &error).hint_if(error.hint())
}

fn check_size(path: &str, size: u64) -> Result<(), Failure> {
    if size <= MAX_RULES_BYTES {
        return Ok(());
    }
    Err(Failure::new(ErrorCode::RulesTooLarge, format!("`{path}` has {size} bytes, more than {MAX_RULES_BYTES}")))
}

fn check_count(count: usize) -> Result<(), Failure> {
    if count <= MAX_ACKNOWLEDGEMENTS {
        return Ok(());
    }
    Err(Failure::new(
        ErrorCode::TooManyAcknowledgements,
        format!("{count} acknowledgements are more than {MAX_ACKNOWLEDGEMENTS}"),
    )
    .hint("remove those that have expired"))
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Returns the file name alone: a verdict contains no path of a user's machine.
fn plain_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn yaml_files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if is_yaml(&path) {
            files.push(path);
            check_count(files.len())?;
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read_regular_file(path, MAX_RULES_BYTES).map_err(|error| unreadable(path, &error))?;
    check_size(&path.display().to_string(), bytes.len() as u64)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Policy, format!("cannot read the rules `{}`", path.display())).because(error)
}
