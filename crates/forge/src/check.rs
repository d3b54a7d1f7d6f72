//! The check of a commit.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::author::App;
use crate::client::{Call, Forge, RequestContext};
use crate::comment::check_length;
use crate::dialect::Permission;
use crate::idempotent_write::Decision;
use crate::{CommitSha, ForgeError, PostOutcome, Repository, text};

/// The longest summary and the longest text of a check, in characters each: GitHub's limit.
pub const MAX_OUTPUT_CHARS: usize = 65_535;

/// The most annotations of a check: as many as GitHub takes in one request, so that a check is never half annotated.
pub const MAX_ANNOTATIONS: usize = 50;

/// The longest title of a check or an issue, in characters: GitHub cuts longer ones.
pub const MAX_TITLE_CHARS: usize = 255;

/// A check run of a commit. There is one for each name and kind, and it is complete at once: the checked work is over.
#[derive(Clone, Debug)]
pub struct Check {
    /// The repository of the commit.
    pub repository: Repository,
    /// The checked commit.
    pub commit: CommitSha,
    /// Its name, such as `assay / nightly`. Branch protection rules require it.
    pub name: String,
    /// Its subject, as `KIND:ID`. The kind distinguishes it from other checks under the same name. If a check of the kind has
    /// another subject, it stays as it is ([`ForgeError::CheckOfAnother`]): a commit's first result is not replaced by another's.
    pub external_id: String,
    /// Its result.
    pub conclusion: Conclusion,
    /// One line.
    pub title: String,
    /// The text that is shown first, in Markdown. It is posted as it is: the caller escapes it.
    pub summary: String,
    /// The text that is shown below it, in Markdown.
    pub text: Option<String>,
    /// The address of the whole report, in place of the forge's own page.
    pub details_url: Option<String>,
    /// Notes at lines of files.
    pub annotations: Vec<Annotation>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Nothing got worse.
    Success,
    /// Something got worse.
    Failure,
    /// No statement, such as an inconclusive gate: it does not stand in the way of a merge.
    Neutral,
    /// The check was cancelled.
    Cancelled,
    /// There was nothing to check.
    Skipped,
    /// It did not end in time.
    TimedOut,
    /// A person has to act first.
    ActionRequired,
}

/// A note at lines of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// The file, from the top of the repository.
    pub path: String,
    /// The first line, from 1.
    pub start_line: u32,
    /// The last line.
    pub end_line: u32,
    /// Its severity.
    #[serde(rename = "annotation_level")]
    pub level: Level,
    /// Its text.
    pub message: String,
    /// Its heading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Worth knowing.
    Notice,
    /// Worth a look.
    Warning,
    /// The reason why the check failed.
    Failure,
}

/// A page of check runs.
#[derive(Debug, Deserialize)]
struct CheckRunPage {
    check_runs: Vec<CheckRun>,
}

/// A check run as the forge lists it.
#[derive(Debug, Deserialize)]
struct CheckRun {
    id: u64,
    name: String,
    head_sha: String,
    external_id: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
    details_url: Option<String>,
    app: Option<App>,
    #[serde(default)]
    output: Output,
}

#[derive(Debug, Default, Deserialize)]
struct Output {
    title: Option<String>,
    summary: Option<String>,
    text: Option<String>,
    #[serde(default)]
    annotations_count: u64,
}

/// The change to make to an existing run.
#[derive(Debug, PartialEq, Eq)]
struct CheckRunChange {
    id: u64,
    /// The annotations that it does not have yet: the forge appends the ones that it receives.
    missing: Vec<Annotation>,
}

impl Forge {
    /// Creates the check, or changes the newest one by the token's account. A forge without checks gets a commit status, whose
    /// one line is the title.
    pub fn check(&self, check: &Check) -> Result<PostOutcome, ForgeError> {
        check.check_limits()?;
        match self.dialect().statuses() {
            Some(statuses) => self.status(check, statuses),
            None => self.check_run(check),
        }
    }

    /// Creates or changes the check run. Annotations cannot be removed: if one is there that is no longer wanted, a new check of
    /// the same name is created, and the forge shows the newest.
    fn check_run(&self, check: &Check) -> Result<PostOutcome, ForgeError> {
        let about = check.request_context(self);
        let path = format!("{}/check-runs", self.repository_path(&check.repository)?.path);
        let look = || match self.newest(check, &about)? {
            Some(run) => Ok(decide(&run, self.annotations(check, &run, &about)?, check)),
            None => Ok(Decision::Create),
        };
        let create = || {
            let mut wanted = check.request_body(&check.annotations);
            wanted["head_sha"] = json!(check.commit.to_string());
            self.write_run(Call::Post(wanted), &path, &about)
        };
        let update = |change: &CheckRunChange| {
            self.write_run(Call::Patch(check.request_body(&change.missing)), &format!("{path}/{}", change.id), &about)
        };
        self.write_idempotently(look, create, update)
    }

    fn write_run(&self, call: Call, path: &str, about: &RequestContext) -> Result<String, ForgeError> {
        let response = self.write(call, path, about)?;
        self.parse_json::<CheckRun>(&response, about).map(CheckRun::page)
    }

    fn newest(&self, check: &Check, about: &RequestContext) -> Result<Option<CheckRun>, ForgeError> {
        let author = self.author()?;
        let name = text::encode_query(&check.name);
        let path =
            format!("/repos/{}/commits/{}/check-runs?check_name={name}&filter=all&per_page=100", check.repository, check.commit);
        let mut newest: Option<CheckRun> = None;
        self.search(
            &path,
            about,
            |page| serde_json::from_slice(page),
            |page: CheckRunPage| {
                let ours = page.check_runs.into_iter().filter(|run| run.is_same_kind(check) && author.is_app(run.app.as_ref()));
                newest = ours.chain(newest.take()).max_by_key(|run| run.id);
                None::<()>
            },
        )?;
        let of = newest.as_ref().and_then(|run| run.external_id.as_deref()).filter(|of| *of != check.external_id);
        match of.map(text::sanitise) {
            Some(of) => Err(ForgeError::CheckOfAnother { name: check.name.clone(), commit: check.commit.to_string(), of }),
            None => Ok(newest),
        }
    }

    fn annotations(&self, check: &Check, run: &CheckRun, about: &RequestContext) -> Result<Vec<Annotation>, ForgeError> {
        let mut there = Vec::new();
        if run.output.annotations_count > 0 {
            let path = format!("/repos/{}/check-runs/{}/annotations?per_page=100", check.repository, run.id);
            self.search(
                &path,
                about,
                |page| serde_json::from_slice(page),
                |page: Vec<Annotation>| {
                    there.extend(page);
                    None::<()>
                },
            )?;
        }
        Ok(there)
    }
}

impl Check {
    pub(crate) fn request_context(&self, forge: &Forge) -> RequestContext {
        forge.request_context(format!("the list of checks of {} in `{}`", self.commit, self.repository), Permission::Checks)
    }

    /// Refuses fields that the forge would refuse or cut.
    fn check_limits(&self) -> Result<(), ForgeError> {
        check_length(&self.title, MAX_TITLE_CHARS, "title of the check")?;
        check_length(&self.summary, MAX_OUTPUT_CHARS, "summary of the check")?;
        check_length(self.text.as_deref().unwrap_or_default(), MAX_OUTPUT_CHARS, "text of the check")?;
        match self.annotations.len() {
            found if found > MAX_ANNOTATIONS => Err(ForgeError::TooManyAnnotations { found, most: MAX_ANNOTATIONS }),
            _ => Ok(()),
        }
    }

    /// Returns the request body, with these annotations.
    fn request_body(&self, annotations: &[Annotation]) -> Value {
        let mut output = json!({ "title": self.title, "summary": self.summary });
        // An empty text is sent as well: it replaces the previous one.
        output["text"] = json!(self.text.as_deref().unwrap_or_default());
        if !annotations.is_empty() {
            output["annotations"] = json!(annotations);
        }
        let mut wanted = json!({
            "name": self.name,
            "external_id": self.external_id,
            "status": "completed",
            "conclusion": self.conclusion,
            "output": output,
        });
        if let Some(url) = &self.details_url {
            wanted["details_url"] = json!(url);
        }
        wanted
    }
}

impl CheckRun {
    /// Returns true if the run is a check of the same kind: a job of the same name is none.
    fn is_same_kind(&self, check: &Check) -> bool {
        self.name == check.name
            && self.head_sha.eq_ignore_ascii_case(&check.commit.to_string())
            && self.external_id.as_deref().is_some_and(|id| kind(id) == kind(&check.external_id))
    }

    fn is_up_to_date(&self, check: &Check) -> bool {
        let same = |there: &Option<String>, wanted: &str| text::is_same_text(there.as_deref().unwrap_or_default(), wanted);
        self.status.as_deref() == Some("completed")
            && json!(self.conclusion) == json!(check.conclusion)
            && same(&self.output.title, &check.title)
            && same(&self.output.summary, &check.summary)
            && same(&self.output.text, check.text.as_deref().unwrap_or_default())
            // Without an address of the check's own, the forge sets one.
            && check.details_url.as_deref().is_none_or(|url| same(&self.details_url, url))
    }

    /// Returns the forge's page of it, or the check's own, or none: not every forge has one.
    fn page(self) -> String {
        self.html_url.or(self.details_url).unwrap_or_default()
    }
}

/// Returns the kind, which is the first part of an `external_id`.
pub(crate) fn kind(external_id: &str) -> &str {
    external_id.split_once(':').map_or(external_id, |(kind, _)| kind)
}

fn decide(run: &CheckRun, there: Vec<Annotation>, check: &Check) -> Decision<CheckRunChange> {
    match missing_annotations(&check.annotations, there) {
        None => Decision::Create,
        Some(missing) if missing.is_empty() && run.is_up_to_date(check) => {
            Decision::Keep { url: run.html_url.clone().or(run.details_url.clone()).unwrap_or_default() }
        }
        Some(missing) => Decision::Update(CheckRunChange { id: run.id, missing }),
    }
}

/// Returns the wanted annotations that are not there, or `None` if one is there that is not wanted.
fn missing_annotations(wanted: &[Annotation], there: Vec<Annotation>) -> Option<Vec<Annotation>> {
    let mut missing = wanted.to_vec();
    for annotation in there {
        let at = missing.iter().position(|wanted| wanted.is_same(&annotation))?;
        missing.remove(at);
    }
    Some(missing)
}

impl Annotation {
    fn is_same(&self, other: &Self) -> bool {
        let place = |annotation: &Self| (annotation.path.clone(), annotation.start_line, annotation.end_line);
        let title = |annotation: &Self| annotation.title.clone().unwrap_or_default();
        place(self) == place(other)
            && self.level == other.level
            && text::is_same_text(&self.message, &other.message)
            && text::is_same_text(&title(self), &title(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(annotations: &[Annotation]) -> Check {
        Check {
            repository: "example/project".parse().expect("a repository"),
            commit: "a".repeat(40).parse().expect("a commit"),
            name: "assay".to_owned(),
            external_id: "assay:nightly".to_owned(),
            conclusion: Conclusion::TimedOut,
            title: "title".to_owned(),
            summary: "summary".to_owned(),
            text: None,
            details_url: None,
            annotations: annotations.to_vec(),
        }
    }

    fn note(line: u32) -> Annotation {
        let message = "slower".to_owned();
        Annotation { path: "a.yaml".to_owned(), start_line: line, end_line: line, level: Level::Warning, message, title: None }
    }

    fn run(conclusion: &str) -> CheckRun {
        let run = json!({
            "id": 5, "name": "assay", "head_sha": "a".repeat(40), "external_id": "assay:nightly", "status": "completed",
            "conclusion": conclusion, "html_url": "https://x/5", "details_url": "https://x", "app": null,
            "output": { "title": "title", "summary": "summary\r\n", "text": null, "annotations_count": 0 },
        });
        serde_json::from_value(run).expect("a run")
    }

    #[test]
    fn a_run_that_says_the_same_is_kept() {
        assert_eq!(decide(&run("timed_out"), Vec::new(), &check(&[])), Decision::Keep { url: "https://x/5".to_owned() });
        let update = |missing| Decision::Update(CheckRunChange { id: 5, missing });
        assert_eq!(decide(&run("success"), Vec::new(), &check(&[])), update(Vec::new()));
        let moved = Check { details_url: Some("https://elsewhere".to_owned()), ..check(&[]) };
        assert_eq!(decide(&run("timed_out"), Vec::new(), &moved), update(Vec::new()));
    }

    #[test]
    fn annotations_are_added_and_never_doubled() {
        let decided = |there: &[Annotation]| decide(&run("timed_out"), there.to_vec(), &check(&[note(1), note(2), note(2)]));
        assert_eq!(decided(&[note(2)]), Decision::Update(CheckRunChange { id: 5, missing: vec![note(1), note(2)] }));
        assert!(matches!(decided(&[note(2), note(1), note(2)]), Decision::Keep { .. }));
    }

    #[test]
    fn an_annotation_that_is_no_longer_wanted_takes_a_new_run() {
        assert_eq!(decide(&run("timed_out"), vec![note(3)], &check(&[note(1)])), Decision::Create);
        assert_eq!(decide(&run("timed_out"), vec![note(1), note(1)], &check(&[note(1)])), Decision::Create);
    }

    #[test]
    fn what_a_forge_would_cut_is_refused() {
        let refused = |check: Check| check.check_limits().expect_err("too much").to_string();
        let long = "x".repeat(MAX_OUTPUT_CHARS + 1);
        insta::assert_snapshot!(refused(Check { summary: long.clone(), ..check(&[]) }), @"the summary of the check has 65536 characters, and the forge takes 65535");
        insta::assert_snapshot!(refused(Check { text: Some(long), ..check(&[]) }), @"the text of the check has 65536 characters, and the forge takes 65535");
        insta::assert_snapshot!(refused(Check { title: "x".repeat(256), ..check(&[]) }), @"the title of the check has 256 characters, and the forge takes 255");
        insta::assert_snapshot!(refused(check(&vec![note(1); 51])), @"the check has 51 annotations, and the forge takes 50");
        assert!(check(&vec![note(1); 50]).check_limits().is_ok());
    }

    #[test]
    fn a_conclusion_is_spelt_as_the_forge_spells_it() {
        let spelt = [Conclusion::Success, Conclusion::TimedOut, Conclusion::ActionRequired].map(|conclusion| json!(conclusion));
        assert_eq!(spelt, ["success", "timed_out", "action_required"]);
    }
}
