//! `assay import`: files that are written, exit codes, and what no output contains.

use std::fs;
use std::path::Path;

use assay_foreign::{ExampleInput, FORMATS};

use crate::docs::{Reader, blocks};
use crate::replicas::Replica;
use crate::serving;
use crate::support::{CommandResult, Fixture, binary, files_under};

const JOB: &str = "apiVersion: ome.io/v1beta1
kind: BenchmarkJob
metadata: {name: job}
spec:
  endpoint: {endpoint: {url: 'http://127.0.0.1:9/v1', apiFormat: openai, modelName: m}}
  task: text-to-text
  trafficScenarios: ['D(1,2)']
  numConcurrency: [1]
  maxTimePerIteration: 1
  maxRequestsPerIteration: 1
  outputLocation: {storageUri: 's3://b/p'}
";
const VLLM: [&str; 6] = ["--", "vllm", "bench", "serve", "--model", "m"];

/// The definitions of every example of every format are valid, by the real program.
#[test]
fn every_example_of_every_format_is_imported_and_valid() {
    for format in FORMATS {
        for example in format.examples {
            let fixture = Fixture::bare();
            let words = example.input.words();
            let given: Vec<&str> = match example.input {
                ExampleInput::File(text) => {
                    fixture.write("given", text);
                    vec!["given"]
                }
                ExampleInput::Command(_) => ["--"].into_iter().chain(words.iter().map(String::as_str)).collect(),
            };
            let options: Vec<&str> = example.options.split_whitespace().collect();
            let ran = fixture.assay(&[&["import"][..], &options, &given].concat()).success();
            assert!(ran.stdout.contains("written      ") && ran.stdout.contains(" 0 refused"), "{}", ran.stdout);
            let checked = fixture.assay(&["validate"]).success();
            assert!(!checked.stdout.contains("0 files checked"), "{}", checked.stdout);
            // Only a commit can claim a grade.
            fixture.commit("the definitions");
            for pipeline in files_under(&fixture.repo().join("pipelines")) {
                fixture.assay(&["plan", &pipeline.display().to_string()]).success();
            }
        }
    }
}

#[test]
fn definitions_are_written_where_a_plan_finds_them() {
    let fixture = Fixture::bare();
    fixture.write("team/loads/job.yaml", JOB);
    let below = fixture.repo().join("team/loads");
    let ran = fixture.assay_in(&below, &["import", "job.yaml"]).success();
    assert!(ran.stdout.contains("written      ../../pipelines/job.yaml"), "{}", ran.stdout);
    assert!(ran.stderr.contains("next:\n  cd ../..\n  assay validate\n") && !ran.stderr.contains("note:"), "{}", ran.stderr);
    assert!(fixture.repo().join("workloads").is_dir() && !below.join("workloads").exists());
    let run = ran.stderr.lines().find_map(|line| line.strip_prefix("  assay run ")).expect("a command to run it");
    fixture.commit("the definitions");
    fixture.assay(&["plan", run.split_whitespace().next().expect("the pipeline")]).success();
    // Asked to write elsewhere, it says that no plan finds them, and so does the check.
    let note = "note: `assay plan` looks for workloads at the root of the repository (`./../../workloads`)";
    let elsewhere = fixture.assay_in(&below, &["import", "job.yaml", "--to", "."]).success();
    assert!(elsewhere.stderr.contains(note), "{}", elsewhere.stderr);
    let checked = fixture.assay_in(&below, &["validate"]).success();
    assert!(checked.stderr.contains(note), "{}", checked.stderr);
    assert!(!fixture.assay(&["validate"]).success().stderr.contains("note:"));
}

/// The page is followed word by word.
#[test]
fn importing_is_followed_to_its_end() {
    let fixture = Fixture::bare();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/import.md"));
    assert_eq!(blocks.len(), 11, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
    for path in [
        "pipelines/llama-chat.yaml",
        "workloads/llama-chat-d-100-1000/workload.yaml",
        "pipelines/guidellm.yaml",
        "workloads/count-lines/script",
        "pipelines/vllm-bench.yaml",
        "pipelines/llama2-70b.yaml",
        "workloads/gptoss-fp4-h200-vllm-8192-1024/workload.yaml",
    ] {
        assert!(reader.folder.join("my-benchmarks").join(path).is_file(), "{path}");
    }
}

#[test]
fn a_refused_field_writes_nothing_unless_the_rest_is_wanted() {
    let fixture = Fixture::bare();
    fixture.write("job.yaml", &JOB.replace("s3://b/p", "gs://b/p"));
    let ran = fixture.assay(&["import", "job.yaml"]).exits(10);
    assert!(ran.stderr.contains("nothing was written: 1 field refused; `--partial` writes the rest"), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("spec.outputLocation.storageUri") && ran.stdout.contains("Google Cloud Storage"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("written") && !fixture.repo().join("pipelines").exists());
    let ran = fixture.assay(&["import", "job.yaml", "--partial"]).success();
    assert!(ran.stdout.contains("written      ./pipelines/job.yaml"), "{}", ran.stdout);
    let pipeline = fs::read_to_string(fixture.repo().join("pipelines/job.yaml")).expect("written");
    assert!(
        pipeline.contains("# `spec.outputLocation.storageUri` is refused: Assay has no store on Google Cloud Storage"),
        "{pipeline}"
    );
    fixture.write("none.yaml", &JOB.replace(", modelName: m", ""));
    let ran = fixture.assay(&["import", "none.yaml", "--partial", "--to", "none"]).exits(10);
    assert!(ran.stderr.contains("without the refused fields there is no whole definition"), "{}", ran.stderr);
    let hopeless = fixture.assay(&["import", "none.yaml", "--to", "none"]).exits(10);
    let why = "nothing was written: 1 field refused, and without the refused fields there is no whole definition";
    assert!(hopeless.stderr.contains(why) && !hopeless.stderr.contains("--partial"), "{}", hopeless.stderr);
    fixture.assay(&["import", "none.yaml", "--model", "m", "--to", "none"]).success();
}

#[test]
fn a_dry_run_writes_nothing_and_json_has_all_of_it() {
    let fixture = Fixture::bare();
    let ran = fixture.assay(&[&["import", "--dry-run"][..], &VLLM].concat()).success();
    assert!(ran.stdout.contains("not written  ./pipelines/vllm-bench.yaml"), "{}", ran.stdout);
    assert!(!fixture.repo().join("pipelines").exists());
    let document = fixture.assay(&[&["import", "--json"][..], &VLLM].concat()).success().json();
    assert_eq!((&document["written"], &document["imports"][0]["format"]), (&true.into(), &"vllm-bench-serve".into()));
    let fields = document["imports"][0]["fields"].as_array().expect("a list");
    assert!(
        fields
            .iter()
            .any(|field| field["field"] == "--model" && field["outcome"] == "mapped" && field["to"] == "workload spec.model")
    );
    for file in document["files"].as_array().expect("a list") {
        let path = file["path"].as_str().expect("a path");
        assert_eq!(fs::read_to_string(fixture.repo().join(path)).expect(path), file["text"].as_str().expect("a text"));
    }
    let refused = [&["import", "--json"][..], &VLLM, &["--nope"]].concat();
    let document = fixture.assay(&refused).exits(10).json();
    assert_eq!(document["written"], false);
}

#[test]
fn files_that_differ_are_kept() {
    let fixture = Fixture::bare();
    let arguments = [&["import"][..], &VLLM].concat();
    fixture.assay(&arguments).success();
    fixture.assay(&arguments).success();
    let path = fixture.repo().join("workloads/vllm-bench/workload.yaml");
    fs::write(&path, "mine\n").expect("written");
    let kept = fixture.assay(&arguments).refuses(2, "file_differs");
    let hint = "hint: `--force` overwrites it; `--to FOLDER` writes elsewhere";
    assert!(kept.stderr.contains(&format!("{hint}; write either before the `--`\n")), "{}", kept.stderr);
    fixture.write("job.yaml", &JOB.replace("name: job", "name: vllm-bench"));
    let other = fixture.assay(&["import", "job.yaml"]).refuses(2, "file_differs");
    assert!(other.stderr.contains(&format!("{hint}\n")), "{}", other.stderr);
    assert_eq!(fs::read_to_string(&path).expect("there"), "mine\n");
    fixture.assay(&[&["import", "--force"][..], &VLLM].concat()).success();
    assert_ne!(fs::read_to_string(&path).expect("there"), "mine\n");
}

#[test]
fn a_folder_is_imported_whole_and_names_what_it_leaves_out() {
    let fixture = Fixture::bare();
    fixture.write("jobs/a.yaml", JOB);
    fixture.write("jobs/b.yml", &JOB.replace("name: job", "name: other"));
    fixture.write("jobs/c.json", "{\"kind\": \"Deployment\"}");
    fixture.write("jobs/d.yaml", "a: [1\n");
    fixture.write("jobs/run.sh", "vllm bench serve --model m\n");
    fixture.write("jobs/sub/job.yaml", JOB);
    fixture
        .write("jobs/user.conf", "*.Server.target_qps = 2.5\n*.Server.target_latency = 20000\n*.Server.min_duration = 120000\n");
    fixture.write("jobs/vast.txt", &"x\n".repeat(200_000));
    std::os::unix::fs::symlink("nowhere", fixture.repo().join("jobs/gone.yaml")).expect("a link");
    let options = ["--lengths", "D(1,2)", "--url", "http://h:1", "--model", "m", "--partial", "--dry-run"];
    let ran = fixture.assay(&[&["import", "jobs"][..], &options].concat()).success();
    let left_out: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("left out ")).collect();
    let unknown = "it is of no format that can be imported";
    assert_eq!(
        left_out,
        [
            &format!("left out     jobs/c.json: {unknown}"),
            "left out     jobs/d.yaml: it cannot be read as YAML or JSON",
            "left out     jobs/gone.yaml: a link that leads to no file",
            &format!("left out     jobs/run.sh: {unknown}"),
            "left out     jobs/sub: a folder in the folder",
            "left out     jobs/vast.txt: it is larger than a definition",
        ]
    );
    assert!(ran.stdout.contains("jobs/user.conf: a configuration of MLPerf's LoadGen"), "{}", ran.stdout);
    let document = fixture.assay(&[&["import", "jobs", "--json"][..], &options].concat()).success().json();
    assert_eq!(document["left_out"]["count"], 6);
    assert_eq!(document["left_out"]["first"][0], serde_json::json!({"path": "jobs/c.json", "reason": unknown}));
    for number in 0..20 {
        fixture.write(&format!("jobs/n{number}.txt"), "x\n");
    }
    let ran = fixture.assay(&[&["import", "jobs"][..], &options].concat()).success();
    assert!(ran.stdout.contains("left out     16 more, 26 in all\n"), "{}", ran.stdout);
    fs::remove_file(fixture.repo().join("jobs/user.conf")).expect("removed");
    fixture.assay(&["import", "jobs"]).success();
    assert!(fixture.repo().join("pipelines/job.yaml").is_file() && fixture.repo().join("pipelines/other.yaml").is_file());
    fixture.write("jobs/b.yml", &JOB.replace("D(1,2)", "D(2,2)"));
    let ran = fixture.assay(&["import", "jobs", "--to", "same"]).refuses(2, "file_differs");
    assert!(ran.stderr.contains("two definitions would be written to `pipelines/job.yaml`"), "{}", ran.stderr);
    fixture.write("others/a.yaml", "kind: Deployment\n");
    let none = fixture.assay(&["import", "others"]).refuses(10, "foreign_format");
    assert!(none.stderr.contains("because: others/a.yaml: it is of no format"), "{}", none.stderr);
}

/// The printed commands can be pasted where the import ran.
#[test]
fn the_next_commands_begin_in_the_folder_of_the_files() {
    let fixture = Fixture::bare();
    let here = fixture.assay(&[&["import"][..], &VLLM].concat()).success();
    assert!(here.stderr.contains("next:\n  assay validate\n") && !here.stderr.contains("  cd "), "{}", here.stderr);
    let dotted = fixture.assay(&[&["import", "--to", "./pipelines/.."][..], &VLLM].concat()).success();
    assert!(!dotted.stderr.contains("  cd "), "{}", dotted.stderr);
    let outside = Fixture::bare();
    fs::remove_dir_all(outside.repo().join(".git")).expect("no repository");
    let there = outside.assay(&[&["import", "--to", "my folder"][..], &VLLM].concat()).success();
    assert!(there.stderr.contains("next:\n  cd 'my folder'\n  assay validate\n  assay run pipelines/"), "{}", there.stderr);
    let nothing = fixture.assay(&[&["import", "--to", "other", "--dry-run"][..], &VLLM].concat()).success();
    assert!(!nothing.stderr.contains("  cd "), "{}", nothing.stderr);
}

/// In a repository, a plan finds definitions at its root alone: what is printed for another folder leads there.
#[test]
fn the_next_commands_for_another_folder_of_a_repository_work() {
    for (below, printed) in
        [("", "next:\n  cp -R 'my folder/pipelines' 'my folder/workloads' .\n  assay validate\n"), ("team", "  cd ")]
    {
        let mut fixture = Fixture::bare();
        fixture.write("README.md", "\n");
        fixture.commit("a repository");
        let folder = fixture.repo().join(below);
        fs::create_dir_all(&folder).expect("a folder");
        let ran = fixture.assay_in(&folder, &[&["import", "--to", "my folder"][..], &VLLM].concat()).success();
        assert!(ran.stderr.contains(printed), "{}", ran.stderr);
        let next = ran.stderr.split("next:\n").nth(1).expect("commands");
        let commands: Vec<&str> = next.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        assert!(commands.last().is_some_and(|line| line.starts_with("assay run pipelines/")), "{next}");
        let programs = binary("assay").parent().expect("a folder").display().to_string();
        fixture.set("PATH", format!("{programs}:{}", std::env::var("PATH").expect("PATH")));
        let script = format!("set -e\n{}", commands.join("\n").replace("assay run", "assay plan"));
        let mut shell = fixture.command(Path::new("/bin/sh"));
        let copied = CommandResult::from_output(shell.args(["-c", &script]).current_dir(&folder).output().expect("a shell"));
        copied.success();
    }
}

/// Both endings of YAML are read, and a message names the file as it is.
#[test]
fn definitions_may_end_in_yml() {
    let fixture = Fixture::bare();
    fixture.write("job.yml", JOB);
    let ran = fixture.assay(&["validate", "job.yml"]).exits(10);
    assert!(ran.stderr.contains("--> job.yml\n") && ran.stderr.contains("`assay import job.yml` writes"), "{}", ran.stderr);
    fixture.assay(&["import", "job.yml"]).success();
    let renamed = |path: &str| {
        let path = fixture.repo().join(path);
        fs::rename(&path, path.with_extension("yml")).expect("renamed");
    };
    renamed("pipelines/job.yaml");
    for workload in fs::read_dir(fixture.repo().join("workloads")).expect("workloads") {
        renamed(&format!("{}/workload.yaml", workload.expect("a folder").path().display()));
    }
    let checked = fixture.assay(&["validate"]).success();
    assert!(!checked.stdout.contains("0 files checked"), "{}", checked.stdout);
    fixture.commit("the definitions");
    fixture.assay(&["plan", "pipelines/job.yml"]).success();
    let workload = files_under(&fixture.repo().join("workloads")).into_iter().next().expect("a workload");
    let text = fs::read_to_string(&workload).expect("text");
    fs::write(&workload, text.replace("type: serving", "type: severing")).expect("written");
    let wrong = fixture.assay(&["plan", "pipelines/job.yml"]).exits(10);
    assert!(wrong.stderr.contains("/workload.yml:") && !wrong.stderr.contains("workload.yaml"), "{}", wrong.stderr);
}

#[test]
fn validate_names_the_command_that_imports() {
    let fixture = Fixture::bare();
    fixture.write("job.yaml", JOB);
    let ran = fixture.assay(&["validate", "job.yaml"]).exits(10);
    insta::assert_snapshot!(ran.stderr, @r"
    error: this is an OME BenchmarkJob, and no definition of Assay
     --> job.yaml
    hint: `assay import job.yaml` writes workloads and a pipeline from it

    1 problem in 1 file
    ");
    fixture.write("job.yaml", &JOB.replace("ome.io/v1beta1", "example.org/v1"));
    let other = fixture.assay(&["validate", "job.yaml"]).exits(10);
    assert!(
        !other.stderr.contains("assay import") && other.stderr.contains("is not a version that this Assay reads"),
        "{}",
        other.stderr
    );
}

#[test]
fn what_is_of_no_format_is_refused_with_the_formats() {
    let fixture = Fixture::bare();
    let unknown = fixture.assay(&["import", "--", "wrk", "-c", "1"]).refuses(10, "foreign_format");
    assert!(unknown.stderr.contains("`vllm bench serve`") && unknown.stderr.contains("kind: BenchmarkJob"), "{}", unknown.stderr);
    let quoted = fixture.assay(&["import", "--", "vllm bench serve --model m --header canary-7e1"]).refuses(10, "foreign_format");
    let remedy = "hint: a command line comes word by word, without quotes around it: `assay import -- vllm bench serve ...`";
    assert!(quoted.stderr.contains(remedy) && !quoted.stderr.contains("canary-7e1"), "{}", quoted.stderr);
    let other = fixture.assay(&["import", "--", "wrk -c 1"]).refuses(10, "foreign_format");
    assert!(!other.stderr.contains("word by word"), "{}", other.stderr);
    fixture.write("broken.yaml", "a: [1\nb: canary-7e1\n");
    let broken = fixture.assay(&["import", "broken.yaml"]).refuses(10, "foreign_format");
    assert!(!broken.stderr.contains("canary-7e1") && broken.stderr.contains("line "), "{}", broken.stderr);
    let levels = (1..40).map(|level| format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 9].join(", ")));
    fixture.write("bomb.yaml", &format!("l0: &l0 [x]\n{}", levels.collect::<String>()));
    let bomb = fixture.assay(&["import", "bomb.yaml"]).refuses(10, "foreign_format");
    insta::assert_snapshot!(bomb.stderr, @r"
    error[foreign_format]: `bomb.yaml` cannot be read as YAML or JSON
      because: line 1: anchors (`&name`) are not allowed, as in 39 more places up to line 40
      because: line 2: aliases (`*name`) are not allowed, as in 350 more places up to line 40

    hint: write the value out where it is used
    ");
    fixture.write("deep.json", &format!("{}1{}", "[".repeat(100), "]".repeat(100)));
    let deep = fixture.assay(&["import", "deep.json"]).refuses(10, "foreign_format");
    assert!(deep.stderr.contains("because: line 1: nested deeper than 32 levels\n\nhint: "), "{}", deep.stderr);
    let keys: Vec<String> = (0..500).map(|key| format!("{key}: x")).collect();
    fixture.write("keys.yaml", &keys.join("\n"));
    let many = fixture.assay(&["import", "keys.yaml"]).refuses(10, "foreign_format");
    assert_eq!(many.stderr.matches("because:").count(), 10, "{}", many.stderr);
    assert!(many.stderr.contains("\n  and 91 more\n"), "{}", many.stderr);
    fixture.assay(&["import", "absent.yaml"]).refuses(2, "unreadable");
    fixture.assay(&["import"]).exits(2);
    fixture.assay(&[&["import", "broken.yaml"][..], &VLLM].concat()).exits(2);
}

/// A credential in a field that is known, in one that is not, and in a header, is in no output and in no file.
#[test]
fn no_credential_is_written_or_printed() {
    const CANARY: &str = "canary-4f2b9c7d1e";
    let fixture = Fixture::bare();
    let spec = format!(
        "  unknown: {CANARY}\n  podOverride: {{env: [{{name: API_KEY, value: {CANARY}}}, {{name: PLAIN, value: {CANARY}}}]}}\n  additionalRequestParams: {{note: {CANARY}}}\n"
    );
    let parameters = format!("{{storageUri: 's3://b/p', parameters: {{aws_secret_access_key: {CANARY}, other: {CANARY}}}}}");
    let job = JOB.replace("{storageUri: 's3://b/p'}", &parameters).replace("http://", &format!("http://user:{CANARY}@")) + &spec;
    fixture.write("given/job.yaml", &job);
    let header = format!("x-team={CANARY}");
    let command = [&VLLM[..], &["--header", &header, "--unknown", CANARY]].concat();
    for given in [&["given/job.yaml"][..], &command] {
        for option in ["--partial", "--json", "--dry-run"] {
            let ran = fixture.assay(&[&["import", "--force", "--to", "made", option], given].concat());
            assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{option}\n{}\n{}", ran.stdout, ran.stderr);
        }
    }
    let made = files_under(&fixture.repo().join("made"));
    assert!(made.len() >= 4, "{made:?}");
    for path in made {
        assert!(!fs::read_to_string(&path).expect("text").contains(CANARY), "{}", path.display());
    }
    let validated = fixture.assay(&["validate", "given"]);
    assert!(!validated.stdout.contains(CANARY) && !validated.stderr.contains(CANARY), "{}", validated.stderr);
}

/// A configuration of LoadGen is imported, planned and measured; as it is, a run names what it lacks.
#[test]
fn a_configuration_of_loadgen_is_measured_with_the_endpoint_and_the_lengths_of_the_command() {
    let (fixture, endpoint) = (Fixture::bare(), Replica::with(&[]));
    let conf = "# ours\n*.Server.target_qps = 50\n*.Server.target_latency = 60000\n*.Server.min_duration = 0\n*.Server.min_query_count = 5\n";
    fixture.write("given/user.conf", conf);
    fixture.write("given/README", "nothing\n");
    let named = ["import", "given", "--url", endpoint.url.as_str(), "--model", serving::MODEL, "--lengths", "D(20,10)"];
    let imported = fixture.assay(&named).success();
    assert!(imported.stdout.contains("given/user.conf: a configuration of MLPerf's LoadGen"), "{}", imported.stdout);
    assert!(imported.stdout.contains("left out     given/README: it is of no format"), "{}", imported.stdout);
    fixture.assay(&["validate"]).success();
    fixture.assay(&["plan", "pipelines/mlperf.yaml"]).success();
    fixture.assay(&["run", "pipelines/mlperf.yaml", "--run-id", "one"]).success();
    let checked = fixture.assay(&["validate", "given/user.conf"]).exits(10);
    assert!(
        checked.stderr.contains("this is a configuration of MLPerf's LoadGen, and no definition of Assay"),
        "{}",
        checked.stderr
    );
    let as_is = fixture.assay(&["run", "given/user.conf"]).refuses(10, "import_refused");
    assert!(
        as_is.stderr.contains("`endpoint(absent)`: the file names no endpoint: name its address with `--url URL`"),
        "{}",
        as_is.stderr
    );
}

/// Options that stand for what a definition does not state are refused where they have no effect.
#[test]
fn options_of_the_import_have_an_effect_or_are_refused() {
    let fixture = Fixture::bare();
    fixture.write("job.yaml", JOB);
    fixture.assay(&["import", "job.yaml", "--url", "http://other.example.org:8000", "--to", "other"]).success();
    let pipeline = fs::read_to_string(fixture.repo().join("other/pipelines/job.yaml")).expect("written");
    assert!(pipeline.contains("http://other.example.org:8000") && !pipeline.contains("127.0.0.1"), "{pipeline}");
    for (option, remedy) in [
        (["--only", "x"], "the definition has no parts to choose from: leave it out"),
        (["--lengths", "D(1,2)"], "the definition states what its requests are made of"),
    ] {
        let refused = fixture.assay(&[&["import", "job.yaml", "--to", "none"][..], &option].concat()).exits(10);
        assert!(refused.stdout.contains(remedy), "{}", refused.stdout);
    }
    fixture.assay(&["import", "job.yaml", "--lengths", "D(1"]).exits(2);
}
