//! Images of imported definitions: built by a program of this machine, pushed to a registry, and named by the digest that the registry has for them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_host::find_in_path;
use assay_manifest::Digest;
use assay_process::{Cancel, Command, Output, Spawner};
use assay_runner::masked_tail;
use assay_spec::looks_secret;
use assay_stage::{ErrorCode, Failure, Secrets};
use tempfile::TempDir;

use crate::commands::definitions;
use crate::output;

/// The longest that a build may take: a stack may be compiled in it.
const BUILD_LIMIT: Duration = Duration::from_hours(2);
/// The longest that a push, or the check of what was pushed, may take.
const PUSH_LIMIT: Duration = Duration::from_hours(1);
/// The lines of a program's output that a failure shows.
const SHOWN_LINES: usize = 15;
/// The recipe among the files of a workload.
const RECIPE: &str = "Containerfile";

/// A program that builds images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Builder {
    Buildah,
    Podman,
    Docker,
}

/// The image that a workload is to run in, as it is built: the folder of the workload, and its files by their paths in it.
pub(crate) struct Recipe<'a> {
    folder: &'a str,
    files: BTreeMap<&'a str, &'a str>,
}

/// An image that a registry has.
#[derive(Debug)]
pub(crate) struct BuiltImage {
    /// `REPOSITORY@sha256:...`.
    pub(crate) reference: String,
    /// The program that built it.
    pub(crate) builder: Builder,
}

impl Builder {
    const ALL: [Self; 3] = [Self::Buildah, Self::Podman, Self::Docker];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Buildah => "buildah",
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Returns the given one, or else the first one in `PATH`, with its path.
    fn find(given: Option<Self>) -> Option<(Self, PathBuf)> {
        let search = std::env::var_os("PATH")?;
        let search = search.to_string_lossy();
        let mut wanted = Self::ALL.into_iter().filter(|builder| given.is_none_or(|given| given == *builder));
        wanted.find_map(|builder| Some((builder, find_in_path(builder.name(), &search)?)))
    }

    /// Returns the words of a push. Docker prints the digest; the others write it to the file.
    fn push(self, tag: &str, digest: &Path) -> Vec<OsString> {
        match self {
            Self::Docker => vec!["push".into(), tag.into()],
            Self::Buildah | Self::Podman => {
                vec!["push".into(), "--digestfile".into(), digest.into(), tag.into(), format!("docker://{tag}").into()]
            }
        }
    }
}

impl<'a> Recipe<'a> {
    /// Returns the recipe among the files of an import.
    ///
    /// # Errors
    /// Fails if there is none, or several: an image has one name.
    pub(crate) fn find(files: &'a BTreeMap<String, String>) -> Result<Self, Failure> {
        let folders: Vec<&str> = files.keys().filter_map(|path| path.strip_suffix(RECIPE)?.strip_suffix('/')).collect();
        let nothing = |message: &str, hint: &str| Err(Failure::new(ErrorCode::NothingBuilt, message).hint(hint));
        match folders[..] {
            [folder] => {
                let within =
                    |(path, text): (&'a String, &'a String)| Some((path.strip_prefix(folder)?.strip_prefix('/')?, text.as_str()));
                Ok(Self { folder, files: files.iter().filter_map(within).collect() })
            }
            [] => nothing(
                "no image is built from this definition",
                "leave `--build-image` out: a definition without a `Containerfile` names the image that it runs in, or needs none",
            ),
            _ => nothing("the definitions have several images", "import each of them by itself, with a repository of its own"),
        }
    }

    /// Returns the tag of the image: it follows from the files, so it never replaces an image of other files.
    fn tag(&self) -> String {
        let lines: Vec<String> =
            self.files.iter().map(|(path, text)| format!("{path}\n{}\n", Digest::compute(text.as_bytes()))).collect();
        let text = lines.concat();
        format!("assay-{}", Digest::compute(text.as_bytes()).hex().chars().take(12).collect::<String>())
    }
}

/// Builds an image, pushes it to a repository, and asks the registry for it by its digest.
///
/// # Errors
/// Fails if there is no program that builds images, and if a step fails, with the last lines of the program.
pub(crate) fn build(recipe: &Recipe<'_>, repository: &str, given: Option<Builder>) -> Result<BuiltImage, Failure> {
    let (builder, program) = Builder::find(given).ok_or_else(|| absent(given, recipe.folder))?;
    let tag = format!("{repository}:{}", recipe.tag());
    output::diagnostic(format!("building `{tag}` with `{}`", program.display()));
    let work = Workshop::new(builder, program)?;
    let context = work.folder.path().join("context");
    for (path, text) in &recipe.files {
        definitions::write(&context.join(path), text.as_bytes())?;
    }
    let path = context.join(RECIPE);
    let words: [OsString; 6] = ["build".into(), "--file".into(), path.into(), "--tag".into(), tag.clone().into(), context.into()];
    work.run(words, BUILD_LIMIT).map_err(|why| why.failure(ErrorCode::ImageNotBuilt, format!("`{tag}` was not built")))?;
    output::diagnostic(format!("pushing `{tag}`"));
    let digest = work.push(&tag)?;
    let reference = format!("{repository}@{digest}");
    work.run(["pull".into(), reference.clone().into()], PUSH_LIMIT)
        .map_err(|why| why.failure(ErrorCode::ImageNotPushed, format!("the registry does not give `{reference}`")))?;
    Ok(BuiltImage { reference, builder })
}

fn absent(given: Option<Builder>, folder: &str) -> Failure {
    let message = match given {
        Some(builder) => format!("`{}` is not in `PATH`", builder.name()),
        None => "no program that builds images is in `PATH`".to_owned(),
    };
    Failure::new(ErrorCode::BuilderAbsent, message).hint(format!(
        "install buildah, podman or docker; or leave `--build-image` out, build the image elsewhere (`buildah build -t NAME {folder}`), push it, and write \
         `image: NAME@sha256:DIGEST` into the workload"
    ))
}

/// A program that builds images, and the folder of its files.
struct Workshop {
    builder: Builder,
    program: PathBuf,
    spawner: Spawner,
    /// Never cancelled: a signal ends this process, and its children with it.
    cancel: Cancel,
    folder: TempDir,
    /// The values of variables that look like secrets: the program may repeat them.
    secrets: Secrets,
}

/// The end of a program that did not succeed.
struct Failed {
    program: &'static str,
    /// The end, such as its exit code.
    end: String,
    /// The last lines of its output.
    lines: String,
}

impl Failed {
    fn failure(self, code: ErrorCode, message: String) -> Failure {
        let Self { program, end, lines } = self;
        let cause = match lines.trim_end() {
            "" => format!("`{program}` {end}; it printed nothing"),
            lines => format!("`{program}` {end}; the end of its output:\n{lines}"),
        };
        Failure { causes: vec![cause], ..Failure::new(code, message) }
    }
}

impl Workshop {
    fn new(builder: Builder, program: PathBuf) -> Result<Self, Failure> {
        let secret = |(name, value): (OsString, OsString)| {
            looks_secret(&name.to_string_lossy(), &value.to_string_lossy()).then(|| value.into_encoded_bytes())
        };
        Ok(Self {
            builder,
            program,
            spawner: Spawner::start().map_err(|error| Failure::from_error(ErrorCode::Spawner, &error))?,
            cancel: Cancel::new()
                .map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?,
            folder: tempfile::tempdir()
                .map_err(|error| Failure::new(ErrorCode::Scratch, "cannot make a temporary folder").because(&error))?,
            secrets: Secrets::new(std::env::vars_os().filter_map(secret)),
        })
    }

    /// Returns the file that gets the output of the program.
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn run(&self, words: impl IntoIterator<Item = OsString>, limit: Duration) -> Result<(), Failed> {
        let log = self.log();
        let command = Command {
            stdout: Output::File(log.clone()),
            stderr: Output::File(log.clone()),
            ..Command::new(&self.program).args(words).inherit_env()
        };
        let failed =
            |end: String| Err(Failed { program: self.builder.name(), end, lines: masked_tail(&log, SHOWN_LINES, &self.secrets) });
        match self.spawner.spawn(command).and_then(|child| child.wait(Some(limit), &self.cancel)) {
            Err(error) => failed(format!("cannot be run: {error}")),
            Ok(ended) if ended.timed_out => failed(format!("ran into its time limit of {} min", limit.as_secs() / 60)),
            Ok(ended) if !ended.status.is_success() => failed(format!("ended with {}", ended.status)),
            Ok(_) => Ok(()),
        }
    }

    /// Pushes an image. Returns the digest of its manifest in the registry.
    fn push(&self, tag: &str) -> Result<Digest, Failure> {
        let refused = |why: Failed| why.failure(ErrorCode::ImageNotPushed, format!("`{tag}` was not pushed"));
        let file = self.folder.path().join("digest");
        self.run(self.builder.push(tag, &file), PUSH_LIMIT).map_err(refused)?;
        let stated = match self.builder {
            Builder::Docker => std::fs::read_to_string(self.log()).ok().and_then(|text| printed_digest(&text)),
            Builder::Buildah | Builder::Podman => std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()),
        };
        stated.ok_or_else(|| {
            let lines = masked_tail(&self.log(), SHOWN_LINES, &self.secrets);
            refused(Failed { program: self.builder.name(), end: "states no digest of what it pushed".to_owned(), lines })
        })
    }
}

/// Returns the digest of `assay-1: digest: sha256:... size: 528`, the last line of `docker push`.
fn printed_digest(printed: &str) -> Option<Digest> {
    let after = |line: &str| line.split_once("digest: ")?.1.split_whitespace().next()?.parse().ok();
    printed.lines().rev().find_map(after)
}

/// Parses the name of a repository with its registry, without a tag and a digest.
pub(crate) fn repository(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let ends = [part.bytes().next(), part.bytes().next_back()];
        ends.iter().all(|end| end.is_some_and(is_plain)) && part.bytes().all(|byte| is_plain(byte) || b"._-".contains(&byte))
    };
    let is_registry = |host: &str| {
        let (name, port) = host.split_once(':').unwrap_or((host, "0"));
        is_part(name) && port.parse::<u16>().is_ok() && (host.contains(['.', ':']) || host == "localhost")
    };
    let fits =
        text.len() <= 200 && text.split_once('/').is_some_and(|(host, path)| is_registry(host) && path.split('/').all(is_part));
    fits.then(|| text.to_owned()).ok_or_else(|| {
        "a registry and a repository in lower case, without a tag or a digest, such as `registry.example.org/team/image`"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[(&str, &str)]) -> BTreeMap<String, String> {
        paths.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_recipe_has_the_files_of_its_workload_alone() {
        let all = files(&[("pipelines/a.yaml", ""), ("workloads/a/Containerfile", "FROM b\n"), ("workloads/a/sub/file", "x")]);
        let recipe = Recipe::find(&all).expect("one");
        assert_eq!(
            (recipe.folder, recipe.files.keys().copied().collect::<Vec<_>>()),
            ("workloads/a", vec!["Containerfile", "sub/file"])
        );
        let changed = files(&[("workloads/a/Containerfile", "FROM b\n"), ("workloads/a/sub/file", "y")]);
        let other = Recipe::find(&changed).expect("one").tag();
        assert!(recipe.tag() != other && recipe.tag().len() == 18 && recipe.tag().starts_with("assay-"), "{other}");
        let refused = |paths: &[(&str, &str)]| Recipe::find(&files(paths)).err().map(|failure| failure.message);
        assert_eq!(refused(&[("workloads/a/workload.yaml", "")]).as_deref(), Some("no image is built from this definition"));
        let two = [("workloads/a/Containerfile", ""), ("workloads/b/Containerfile", "")];
        assert_eq!(refused(&two).as_deref(), Some("the definitions have several images"));
    }

    #[test]
    fn the_digest_is_that_of_the_last_line_of_a_push() {
        let digest = Digest::compute(b"x");
        let printed = format!("The push refers to repository [r/a]\nabc: Pushed\nassay-1: digest: {digest} size: 528\n");
        assert_eq!(printed_digest(&printed), Some(digest));
        assert_eq!(printed_digest("assay-1: digest: sha256:12 size: 528\n"), None);
    }

    #[test]
    fn a_repository_has_a_registry_and_no_tag() {
        for taken in ["registry.example.org/team/image", "127.0.0.1:5000/a", "localhost/a/b-c"] {
            assert_eq!(repository(taken).as_deref(), Ok(taken));
        }
        for refused in [
            "image",
            "team/image",
            "r.example.org/a:1",
            "r.example.org/A",
            "r.example.org/",
            "r.example.org:x/a",
            "--tag=a.b/c",
            "",
        ] {
            assert!(repository(refused).is_err(), "{refused}");
        }
    }
}
