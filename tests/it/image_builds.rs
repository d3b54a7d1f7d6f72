//! Images of Amun's specifications: built by programs that stand in for buildah, podman and docker, and by a real buildah, which pushes to a real registry.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::pipeline::text;
use crate::support::{CommandResult, Fixture, write_file};

/// A secret of the environment, which no output may contain.
const CANARY: &str = "canary-71d0c4ee9b";
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const REPOSITORY: &str = "127.0.0.1:9/team/echo";
const SCRIPT: &str = "#!/bin/sh\necho '{\"name\": \"a\", \"component\": \"b\", \"@parameters\": {}, \"@result\": {\"n\": 1}}'\n";

/// A program in the place of one that builds images: it notes its words, fails at the step that `FAILS` names, and states `DIGEST`.
const BUILDER: &str = r#"#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
if [ "$1" = "${FAILS:-}" ]; then
    echo "step 1 of 1"
    echo "error: denied with $REGISTRY_PASSWORD" >&2
    exit 3
fi
case "${0##*/} $1" in
*\ build) cp "$3" "$CALLS.recipe" ;;
docker\ push) echo "assay: digest: $DIGEST size: 12" ;;
*\ push) printf '%s' "$DIGEST" >"$3" ;;
esac
"#;

/// Returns a specification with one step, on this base.
fn specification(base: &str) -> String {
    json!({
        "base": base, "identifier": "echo", "script": SCRIPT,
        "files": [{"path": "/etc/assay-data", "content": "of the image\n"}],
    })
    .to_string()
}

/// Returns a repository with a specification, and these programs that stand in, with no others in `PATH`.
fn fixture(builders: &[&str]) -> Fixture {
    let mut fixture = Fixture::bare();
    let bin = fixture.root().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    for name in builders {
        fs::write(bin.join(name), BUILDER).expect("written");
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("executable");
    }
    std::os::unix::fs::symlink("/bin/cp", bin.join("cp")).expect("a link");
    fixture.set("PATH", bin);
    let calls = fixture.root().join("calls");
    for (name, value) in [("CALLS", calls.to_str().expect("text")), ("DIGEST", DIGEST), ("REGISTRY_PASSWORD", CANARY)] {
        fixture.set(name, value);
    }
    fixture.write("amun.json", &specification("127.0.0.1:9/base:1"));
    fixture
}

fn build(fixture: &Fixture, more: &[&str]) -> CommandResult {
    fixture.assay(&[&["import", "amun.json", "--build-image", REPOSITORY], more].concat())
}

/// Returns the words of each call of a program that stood in.
fn calls(fixture: &Fixture) -> Vec<Vec<String>> {
    let calls = fs::read_to_string(fixture.root().join("calls")).unwrap_or_default();
    calls.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn workload(fixture: &Fixture) -> String {
    fs::read_to_string(fixture.repo().join("workloads/echo/workload.yaml")).expect("a workload")
}

fn has_written(fixture: &Fixture) -> bool {
    ["workloads", "pipelines"].iter().any(|folder| fixture.repo().join(folder).exists())
}

#[test]
fn an_image_is_built_pushed_and_named_by_its_digest() {
    for builder in ["buildah", "podman", "docker"] {
        let fixture = fixture(&["docker", "podman", "buildah"]);
        let ran = build(&fixture, &["--builder", builder]).success();
        let image = format!("{REPOSITORY}@{DIGEST}");
        assert!(ran.stdout.contains(&format!("pushed       {image}, built by {builder}\n")), "{}", ran.stdout);
        let program = fixture.root().join("bin").join(builder).display().to_string();
        assert!(ran.stderr.contains(&format!("` with `{program}`\n")), "{}", ran.stderr);
        assert!(workload(&fixture).contains(&image), "{}", workload(&fixture));
        assert!(!ran.stdout.contains("--build-image"), "the image is built: {}", ran.stdout);
        let steps: Vec<(String, String)> = calls(&fixture).iter().map(|words| (words[0].clone(), words[1].clone())).collect();
        assert_eq!(steps, ["build", "push", "pull"].map(|step| (builder.to_owned(), step.to_owned())));
        let recipe = fs::read_to_string(fixture.repo().join("workloads/echo/Containerfile")).expect("the recipe");
        assert!(recipe.contains("COPY [\"image-files/0\", \"/etc/assay-data\"]"), "{recipe}");
        assert_eq!(fs::read_to_string(fixture.root().join("calls.recipe")).expect("a recipe was built"), recipe);
        assert_eq!(calls(&fixture)[2].last().map(String::as_str), Some(image.as_str()), "the registry is asked by the digest");
        fixture.assay(&["validate"]).success();
    }
    let fixture = fixture(&["docker", "podman"]);
    let document = build(&fixture, &["--json"]).success().json();
    assert_eq!(document["image"], json!({"reference": format!("{REPOSITORY}@{DIGEST}"), "builder": "podman"}), "the first one");
}

#[test]
fn a_step_that_fails_is_named_with_its_last_lines_and_leaves_nothing() {
    for (step, error, message) in [
        ("build", "image_not_built", "` was not built"),
        ("push", "image_not_pushed", "` was not pushed"),
        ("pull", "image_not_pushed", "the registry does not give `127.0.0.1:9/team/echo@sha256:0123"),
    ] {
        for builder in ["buildah", "docker"] {
            let mut fixture = fixture(&[builder]);
            fixture.set("FAILS", step);
            let failed = build(&fixture, &["--builder", builder]).refuses(30, error);
            let lines = format!("`{builder}` ended with exit code 3; the end of its output:\n");
            for part in [message, lines.as_str(), "step 1 of 1", "error: denied with [secret]"] {
                assert!(failed.stderr.contains(part), "{step}: {part}: {}", failed.stderr);
            }
            assert!(!failed.stderr.contains(CANARY) && !has_written(&fixture), "{}", failed.stderr);
            fixture.unset("FAILS");
            build(&fixture, &["--builder", builder]).success();
        }
    }
    for builder in ["buildah", "docker"] {
        let mut fixture = fixture(&[builder]);
        fixture.set("DIGEST", "none");
        let failed = build(&fixture, &[]).refuses(30, "image_not_pushed");
        assert!(failed.stderr.contains("states no digest of what it pushed") && !has_written(&fixture), "{}", failed.stderr);
    }
}

#[test]
fn without_a_program_that_builds_images_the_hint_names_them_and_the_command_stays() {
    let fixture = fixture(&[]);
    let absent = build(&fixture, &[]).refuses(30, "builder_absent");
    for part in ["buildah, podman or docker", "buildah build -t NAME workloads/echo", "image: NAME@sha256:DIGEST"] {
        assert!(absent.stderr.contains(part), "{part}: {}", absent.stderr);
    }
    let other = build(&fixture, &["--builder", "podman"]).refuses(30, "builder_absent");
    assert!(other.stderr.contains("`podman` is not in `PATH`") && !has_written(&fixture), "{}", other.stderr);
    let prebuilt = fixture.assay(&["import", "amun.json"]).success();
    for part in ["--build-image REPOSITORY", "buildah build -t NAME workloads/echo", "docker build -t NAME"] {
        assert!(prebuilt.stdout.contains(part), "{part}: {}", prebuilt.stdout);
    }
}

#[test]
fn a_build_without_need_or_place_is_refused_before_it_begins() {
    let fixture = fixture(&["buildah"]);
    for repository in ["echo", "team/echo", "127.0.0.1:9/echo:1", "127.0.0.1:9/Echo"] {
        let refused = fixture.assay(&["import", "amun.json", "--build-image", repository]).exits(2);
        assert!(refused.stderr.contains("without a tag or a digest, such as"), "{}", refused.stderr);
    }
    fixture.assay(&["import", "amun.json", "--build-image", REPOSITORY, "--dry-run"]).exits(2);
    fixture.assay(&["import", "amun.json", "--builder", "docker"]).exits(2);
    fixture.write("amun.json", &json!({"base": "127.0.0.1:9/base:1", "identifier": "echo", "script": SCRIPT}).to_string());
    let nothing = build(&fixture, &[]).refuses(2, "nothing_built");
    assert!(nothing.stderr.contains("leave `--build-image` out"), "{}", nothing.stderr);
    fixture.write("amun.json", &specification("127.0.0.1:9/base:1"));
    fixture.write("workloads/echo/workload.yaml", "other\n");
    build(&fixture, &[]).refuses(2, "file_differs");
    assert!(calls(&fixture).is_empty(), "nothing was built");
    build(&fixture, &["--force"]).success();
    assert!(workload(&fixture).contains(DIGEST), "{}", workload(&fixture));
}

/// An import without an image is completed by one with it, and needs no `--force`: nothing of a person is lost.
#[test]
fn an_image_is_built_for_definitions_that_are_there() {
    let fixture = fixture(&["buildah"]);
    fixture.assay(&["import", "amun.json"]).success();
    assert!(!workload(&fixture).contains("\n  image: "), "{}", workload(&fixture));
    build(&fixture, &[]).success();
    assert!(workload(&fixture).contains(DIGEST), "{}", workload(&fixture));
    build(&fixture, &[]).refuses(2, "file_differs");
}

/// `docker-registry`, with its storage in a folder of the test.
struct Registry {
    process: Child,
    /// Its address: `127.0.0.1:PORT`.
    authority: String,
}

impl Registry {
    fn start(program: &Path, storage: &Path) -> Self {
        let config = storage.join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}/data}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n",
            storage.display()
        );
        write_file(&config, text.as_bytes());
        let mut command = Command::new(program);
        let mut process = command
            .arg("serve")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ASSAY_TEST_REGISTRY is a program");
        let log = BufReader::new(process.stderr.take().expect("piped"));
        let mut lines = log.lines().map_while(Result::ok);
        let listening = lines.find_map(|line| {
            let (_, rest) = line.split_once("listening on ")?;
            Some(rest.split(['"', ' ', ',']).next()?.to_owned())
        });
        // A writer to a pipe stops if its reader stops.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, authority: listening.expect("it says where it listens") }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the root of an image that has a shell.
const BASE: &str = include_str!("../kubernetes/shell.sh");

/// A real buildah, with storage and settings of the test, which asks no registry but that of this machine.
struct Buildah {
    fixture: Fixture,
    program: PathBuf,
}

impl Buildah {
    fn new(program: PathBuf, registry: &str) -> Self {
        let mut fixture = Fixture::bare();
        let root = fixture.root();
        let at = |name: &str| root.join(name).display().to_string();
        for (name, file, text) in [
            (
                "CONTAINERS_STORAGE_CONF",
                "storage.conf",
                format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n", at("images"), at("run")),
            ),
            (
                "CONTAINERS_REGISTRIES_CONF",
                "registries.conf",
                format!("[[registry]]\nlocation = \"{registry}\"\ninsecure = true\n"),
            ),
        ] {
            write_file(&root.join(file), text.as_bytes());
            fixture.set(name, at(file));
        }
        let accept = br#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
        write_file(&fixture.home().join(".config/containers/policy.json"), accept);
        fixture.set("BUILDAH_ISOLATION", "chroot");
        fixture.set("STORAGE_DRIVER", "vfs");
        let folder = program.parent().expect("a folder").display().to_string();
        fixture.set("PATH", format!("{folder}:{}", std::env::var("PATH").expect("PATH")));
        Self { fixture, program }
    }

    fn run(&self, words: &[&str]) -> CommandResult {
        CommandResult::from_output(self.fixture.command(&self.program).args(words).output().expect("buildah runs"))
    }

    /// Pushes an image with a shell, and nothing else.
    fn push_base(&self, name: &str) {
        let root = self.fixture.root().join("base").display().to_string();
        let mut shell = self.fixture.command(Path::new("/bin/sh"));
        CommandResult::from_output(shell.args(["-c", BASE, "sh", &root]).output().expect("a shell")).success();
        let recipe = format!("{root}.recipe");
        write_file(Path::new(&recipe), b"FROM scratch\nCOPY . /\n");
        self.run(&["build", "--file", &recipe, "--tag", name, &root]).success();
        self.run(&["push", name, &format!("docker://{name}")]).success();
    }
}

#[test]
fn a_real_buildah_builds_an_image_that_a_real_registry_gives_by_its_digest() {
    let [buildah, registry] = ["ASSAY_TEST_BUILDAH", "ASSAY_TEST_REGISTRY"].map(std::env::var_os);
    let (Some(buildah), Some(registry)) = (buildah, registry) else {
        println!("ASSAY_TEST_BUILDAH or ASSAY_TEST_REGISTRY is not set: no real image was built");
        return;
    };
    let storage = tempfile::tempdir().expect("a folder");
    let registry = Registry::start(Path::new(&registry), storage.path());
    let buildah = Buildah::new(buildah.into(), &registry.authority);
    let fixture = &buildah.fixture;
    let at = |name: &str| format!("{}/{name}", registry.authority);
    fixture.write("amun.json", &specification(&at("base:1")));
    let repository = at("team/echo");
    let words = ["import", "amun.json", "--build-image", &repository, "--builder", "buildah"];
    let failed = fixture.assay(&words).refuses(30, "image_not_built");
    assert!(failed.stderr.contains("`buildah` ended with exit code") && failed.stderr.contains("base:1"), "{}", failed.stderr);
    buildah.push_base(&at("base:1"));
    let ran = fixture.assay(&words).success();
    let image = ran.stdout.lines().find_map(|line| line.strip_prefix("pushed ")).expect("an image");
    let image = image.trim_start().strip_suffix(", built by buildah").expect("its builder");
    assert!(image.starts_with(&format!("{repository}@sha256:")) && workload(fixture).contains(image), "{image}");
    // Another storage has the image from the registry alone.
    let empty = fixture.root().join("empty").display().to_string();
    let [images, run] = ["images", "run"].map(|name| format!("{empty}/{name}"));
    let other = ["--root", &images, "--runroot", &run, "--storage-driver", "vfs"];
    buildah.run(&[&other[..], &["from", "--name", "check", image]].concat()).success();
    let printed = buildah.run(&[&other[..], &["run", "check", "--", "cat", "/etc/assay-data"]].concat()).success().stdout;
    assert_eq!(printed, "of the image\n");
    fixture.commit("an image");
    fixture.assay(&["run", "pipelines/echo.yaml", "--run-id", "one"]).success();
    let pinned: Value = fixture.manifest("one", "plan")["body"]["workloads"][0]["image"].clone();
    assert!(image.ends_with(text(&pinned["digest"])), "{pinned}");
}
