//! `assay forge`: posts results to a code review: a comment, a check, an issue.

use std::path::{Path, PathBuf};

use assay_forge::{
    AbsentAction, Api, Check, Comment, CommitSha, Conclusion, Forge as Client, ForgeError, HeadBranch, Issue, Kind, PostOutcome,
    PullCriteria, Repository, Tag, Token,
};
use assay_runs::read_regular_file;
use assay_stage::{ErrorCode, Exit, Failure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Deserialize;

use crate::output;

/// The variable that holds the token. Arguments are visible to all users of the machine.
const TOKEN: &str = "ASSAY_FORGE_TOKEN";

/// The largest text that is posted, in bytes: four for each character that a forge accepts.
const MAX_TEXT_BYTES: u64 = 4 * 65_536;

/// The longest URL of a page, in characters, that a browser accepts.
const MAX_PAGE_CHARS: usize = 2_000;

/// Post results to a forge: GitHub, GitLab, or Gitea and Forgejo. The token is read from ASSAY_FORGE_TOKEN.
#[derive(clap::Args)]
pub(crate) struct Forge {
    #[command(subcommand)]
    command: ForgeCommand,
}

#[derive(clap::Subcommand)]
enum ForgeCommand {
    /// Post a comment, a check or an issue, or edit an existing one in place. GitLab and Gitea get a commit status instead of a
    /// check: one line, the check's title
    Post(Box<Post>),
    /// Print the number of the open pull request whose head is a commit
    Pull(Pull),
}

/// The forge and the repository.
#[derive(clap::Args)]
struct ForgeOptions {
    /// The kind of forge, which selects its API; Forgejo has Gitea's
    #[arg(long, value_name = "KIND", default_value_t, value_parser = kinds())]
    kind: Kind,
    /// The repository; on GitLab, the full path of the project
    #[arg(long, value_name = "OWNER/NAME")]
    repository: Repository,
    /// The address of the forge's API; Gitea's ends with `/api/v1` [default: that of github.com or gitlab.com]
    #[arg(long, value_name = "URL")]
    api: Option<Api>,
}

#[derive(clap::Args)]
struct Post {
    #[command(flatten)]
    at: ForgeOptions,
    /// The pull request of the comment and the check; a check of the commit for another one is not edited
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pull: Option<u64>,
    /// The Markdown file of the pull request's comment
    #[arg(long, value_name = "FILE", requires = "pull")]
    comment: Option<PathBuf>,
    /// The tag that tells this comment or issue from others of Assay
    #[arg(long, value_name = "TAG", default_value = "gate")]
    tag: Tag,
    /// The commit of the check
    #[arg(long, value_name = "SHA", requires = "check")]
    commit: Option<CommitSha>,
    /// The JSON file of the commit's check, as `assay gate --to` writes it
    #[arg(long, value_name = "FILE", requires = "commit")]
    check: Option<PathBuf>,
    /// The page that the check links to, such as that of the CI job
    #[arg(long, value_name = "URL", requires = "check", value_parser = parse_page_url)]
    details_url: Option<String>,
    /// The Markdown file of an issue
    #[arg(long, value_name = "FILE", requires = "title")]
    issue: Option<PathBuf>,
    /// The title of the issue
    #[arg(long, value_name = "TEXT", requires = "issue")]
    title: Option<String>,
}

#[derive(clap::Args)]
struct Pull {
    #[command(flatten)]
    at: ForgeOptions,
    /// The commit
    #[arg(long, value_name = "SHA")]
    commit: CommitSha,
    /// The source branch of the pull request: several may have the same head
    #[arg(long, value_name = "NAME", requires = "head_repository")]
    head_branch: Option<String>,
    /// The repository of that branch, which may be a fork
    #[arg(long, value_name = "OWNER/NAME", requires = "head_branch")]
    head_repository: Option<Repository>,
    /// The target branch of the pull request
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
}

/// The file that `assay gate` writes for a check.
#[derive(Deserialize)]
struct CheckFile {
    name: String,
    conclusion: String,
    output: CheckOutput,
}

#[derive(Deserialize)]
struct CheckOutput {
    title: String,
    summary: String,
    #[serde(default)]
    text: Option<String>,
}

/// Parses the kinds of forges, as an option names them.
pub(crate) fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::NAMES).try_map(|name| name.parse::<Kind>())
}

impl Forge {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.command {
            ForgeCommand::Post(post) => post.run(),
            ForgeCommand::Pull(pull) => pull.run(),
        }
    }
}

impl Pull {
    fn run(self) -> Result<Exit, Failure> {
        let head = self.head_repository.zip(self.head_branch).map(|(repository, branch)| HeadBranch { repository, branch });
        let sought = PullCriteria { commit: self.commit, head, base: self.base };
        let number = self.at.client()?.find_pull(&self.at.repository, &sought).map_err(failure)?;
        output::line(number.to_string());
        Ok(Exit::Done)
    }
}

impl ForgeOptions {
    fn client(&self) -> Result<Client, Failure> {
        let text = std::env::var(TOKEN).map_err(|_| {
            Failure::new(ErrorCode::NoToken, format!("{TOKEN} is not set")).hint("put a token of the forge into that variable")
        })?;
        Ok(Client::new(self.kind, self.address()?, Token::new(&text).map_err(failure)?))
    }

    fn address(&self) -> Result<Api, Failure> {
        self.api.clone().or_else(|| self.kind.api()).ok_or_else(|| {
            Failure::new(ErrorCode::NoApi, format!("nothing says where the API of this `{}` is", self.kind))
                .hint("name it: `--api https://HOST/api/v1`")
        })
    }
}

impl Post {
    fn run(self) -> Result<Exit, Failure> {
        if self.comment.is_none() && self.check.is_none() && self.issue.is_none() {
            return Err(Failure::new(ErrorCode::NothingToPost, "nothing is named that could be posted")
                .hint("name `--comment` with `--pull`, `--check` with `--commit`, or `--issue` with `--title`"));
        }
        let forge = self.at.client()?;
        let repository = &self.at.repository;
        if let (Some(pull), Some(file)) = (self.pull, &self.comment) {
            let (repository, tag, text) = (repository.clone(), self.tag.clone(), read_text(file)?);
            let comment = Comment { repository, pull, tag, text, if_absent: AbsentAction::Create };
            say("comment", &forge.comment(&comment).map_err(failure)?);
        }
        if let (Some(commit), Some(file)) = (&self.commit, &self.check) {
            let check = Check { details_url: self.details_url.clone(), ..check(file, repository, commit, self.pull)? };
            say("check", &forge.check(&check).map_err(failure)?);
        }
        if let (Some(title), Some(file)) = (&self.title, &self.issue) {
            let (repository, tag, text) = (repository.clone(), self.tag.clone(), read_text(file)?);
            say("issue", &forge.issue(&Issue { repository, tag, title: title.clone(), text }).map_err(failure)?);
        }
        Ok(Exit::Done)
    }
}

fn check(file: &Path, repository: &Repository, commit: &CommitSha, pull: Option<u64>) -> Result<Check, Failure> {
    let malformed = || Failure::new(ErrorCode::Check, format!("`{}` is no check as `assay gate --to` writes it", file.display()));
    let read: CheckFile = serde_json::from_str(&read_text(file)?).map_err(|error| malformed().because(&error))?;
    let conclusion = match read.conclusion.as_str() {
        "success" => Conclusion::Success,
        "failure" => Conclusion::Failure,
        "neutral" => Conclusion::Neutral,
        "action_required" => Conclusion::ActionRequired,
        _ => return Err(malformed()),
    };
    Ok(Check {
        repository: repository.clone(),
        commit: commit.clone(),
        external_id: pull.map_or_else(|| read.name.clone(), |pull| format!("pull:{pull}")),
        name: read.name,
        conclusion,
        title: read.output.title,
        summary: read.output.summary,
        text: read.output.text,
        details_url: None,
        annotations: Vec::new(),
    })
}

/// Parses a URL that a forge shows as a link.
fn parse_page_url(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(|character| character.is_ascii_graphic());
    let accepted = (text.starts_with("https://") || text.starts_with("http://")) && is_plain && text.len() <= MAX_PAGE_CHARS;
    if accepted { Ok(text.to_owned()) } else { Err("the address of a page: it begins with https:// or http://".to_owned()) }
}

fn say(what: &str, posted: &PostOutcome) {
    let (how, url) = match posted {
        PostOutcome::Created { url } => ("created", url.as_str()),
        PostOutcome::Updated { url } => ("updated", url.as_str()),
        PostOutcome::Unchanged { url } => ("unchanged", url.as_str()),
        PostOutcome::Skipped => ("skipped", ""),
    };
    output::line(format!("{what:<8} {how:<9} {url}").trim_end());
}

fn read_text(file: &Path) -> Result<String, Failure> {
    let unreadable =
        |error: &std::io::Error| Failure::new(ErrorCode::File, format!("cannot read `{}`", file.display())).because(error);
    let bytes = read_regular_file(file, MAX_TEXT_BYTES).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(Failure::new(ErrorCode::File, format!("`{}` is larger than what a forge takes", file.display())));
    }
    String::from_utf8(bytes).map_err(|error| unreadable(&std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

fn failure(error: ForgeError) -> Failure {
    let code = if error.is_usage() { ErrorCode::ForgeRequest } else { ErrorCode::Forge };
    Failure::from_error(code, &error).hint(error.hint())
}
