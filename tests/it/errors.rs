//! The messages that users get for errors: whole results of commands, word for word.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{CommandResult, Fixture, PIPELINE, binary, measured_fixture, pipeline, steady_script};

macro_rules! says {
    ($fixture:expr, $arguments:expr, @$expected:literal) => {
        insta::assert_snapshot!($fixture.format_result(&$fixture.assay($arguments)), @$expected)
    };
}

#[test]
fn a_limit_of_open_files_that_is_too_low_is_named() {
    let of_limit = |files: u32| {
        let script = format!("ulimit -n {files}; exec \"$0\" runs");
        let assay = binary("assay");
        std::process::Command::new("sh").args(["-c", &script]).arg(assay).output().expect("it runs")
    };
    let refused = of_limit(20);
    assert_eq!(refused.status.code(), Some(30));
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "error[descriptors]: this process may open 20 files, and Assay needs at least 64\n\n\
         hint: raise the limit, such as with `ulimit -n 1024`\n"
    );
    assert_ne!(of_limit(64).status.code(), Some(30));
}

#[test]
fn a_folder_in_the_place_of_a_pipeline_is_as_wrong_as_a_missing_file() {
    let fixture = Fixture::new();
    let missing = fixture.assay(&["plan", "pipelines/none.yaml"]).exits(2);
    assert!(missing.stderr.contains("cannot read `pipelines/none.yaml`"), "{}", missing.stderr);
    let folder = fixture.assay(&["plan", "pipelines"]).exits(2);
    assert!(folder.stderr.contains("cannot read `pipelines`") && folder.stderr.contains("is a directory"), "{}", folder.stderr);
}

#[test]
fn a_rate_that_is_no_number_is_named_by_its_option() {
    let arguments = ["bench", "--url", "http://127.0.0.1:9", "--model", "m", "--print", "--rate"];
    for rate in ["nan", "inf"] {
        let refused = Fixture::bare().assay(&[&arguments[..], &[rate]].concat()).exits(2);
        assert!(refused.stderr.contains("--rate") && refused.stderr.contains("requests per second"), "{}", refused.stderr);
    }
    Fixture::bare().assay(&[&arguments[..], &["0.5"]].concat()).success();
}

#[test]
fn an_option_of_pairs_gives_each_name_once() {
    let fixture = Fixture::bare();
    let bench = |more: &[&str]| {
        let arguments = ["bench", "--url", "http://127.0.0.1:9", "--model", "m", "--concurrency", "1", "--print"];
        fixture.assay(&[&arguments, more].concat())
    };
    for (option, one, other, name) in [
        ("--slo", "ttft=1ms", "ttft=5ms", "ttft"),
        ("--body", "temperature=0", "temperature=1", "temperature"),
        ("--prefix", "system=100", "system=200", "system"),
    ] {
        bench(&[option, one]).success();
        let refused = bench(&[option, one, option, other]).exits(2);
        assert!(refused.stderr.contains(&format!("error[option]: `{option}` gives `{name}` twice")), "{}", refused.stderr);
    }
    let refused = bench(&["--sessions", "turns=2..x,think_time=y..1s"]).exits(2);
    assert!(refused.stderr.contains("not the text `x`") && !refused.stderr.contains("below its `min`"), "{}", refused.stderr);
}

#[test]
fn a_pipeline_that_is_not_there() {
    let fixture = Fixture::bare();
    says!(fixture, &["run", "pipelines/nightly.yaml"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[unreadable]: cannot read `pipelines/nightly.yaml`
      because: No such file or directory (os error 2)

    hint: give the path of the pipeline's file as seen from the folder in which the command runs, such as `pipelines/nightly.yaml`
    ");
    says!(fixture, &["plan", "pipelines/nightly.yaml"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[unreadable]: cannot read `pipelines/nightly.yaml`
      because: No such file or directory (os error 2)

    hint: give the path of the pipeline's file as seen from the folder in which the command runs, such as `pipelines/nightly.yaml`
    ");
    fixture.write("notes.yaml", "to do\n");
    says!(fixture, &["run", "notes.yaml"], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error[definition_invalid]: the definitions have a problem

    error: a definition must be a map of fields
     --> notes.yaml:1:1
      |
    1 | to do
      | ^^^^^
    hint: a definition begins with `apiVersion: assay.dev/v1alpha1` and `kind:`
    ");
    says!(fixture, &["run"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: the following required arguments were not provided:
      <PIPELINE>

    Usage: assay run <PIPELINE>

    For more information, try '--help'.
    ");
}

#[test]
fn a_benchmark_without_a_load() {
    let fixture = Fixture::bare();
    says!(fixture, &["bench", "--model", "m"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: the following required arguments were not provided:
      --url <URL>

    Usage: assay bench --url <URL> --model <NAME> <LOAD> [OPTIONS]
           assay bench --simulator <PROFILE> <LOAD> [OPTIONS]

    LOAD is one of --concurrency <N,..>, --rate <PER_S,..>, --ramp, --series, --users <N,..> with --rate, and
    --trace <FILE|URL>, or --concurrency beside any of them; or a search for it, --sweep or --find-max <LOAD>.

    For more information, try '--help'.
    ");
    says!(fixture, &["bench", "--url", "http://127.0.0.1:9", "--model", "m"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[option]: no load is given

    hint: such as `--concurrency 1..64`, which measures 1, 2, 4, ..., 64 requests in flight, `--rate 5`, `--trace FILE`, or `--sweep`
    ");
}

#[test]
fn a_file_where_a_folder_is_needed() {
    let fixture = measured_fixture();
    let file = fixture.root().join("a-file");
    fs::write(&file, "").expect("a file");
    let result = fixture.assay(&["run", PIPELINE, "--store", file.to_str().expect("UTF-8")]);
    assert_eq!(result.code, 2, "{}", result.stderr);
    for part in ["error[store_uri]: `", "a-file` is no folder, and the store", "hint: name a folder"] {
        assert!(result.stderr.contains(part), "{part}\n{}", result.stderr);
    }
    let mut command = fixture.command(&binary("assay"));
    command.args(["keys", "init"]).env("ASSAY_CONFIG", file.join("assay")).current_dir(fixture.repo());
    let result = CommandResult::from_output(command.output().expect("assay runs"));
    assert_eq!(result.code, 30, "{}", result.stderr);
    for part in ["error[config]: cannot write `", "because: Not a directory", "hint: keys and trust root need a folder"] {
        assert!(result.stderr.contains(part), "{part}\n{}", result.stderr);
    }
}

#[test]
fn definitions_with_several_problems() {
    let fixture = Fixture::bare();
    fixture.write(
        PIPELINE,
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {name: Fixture}
spec:
  intent: exploratry
  workloads: [first, first]
  targets: []
  trials: {count: many}
  retries: 3
",
    );
    fixture.indicator("first", &steady_script("first"), "  timelimit: 5m\n");
    says!(fixture, &["run", PIPELINE], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error[definition_invalid]: the definitions have 7 problems

    error: `metadata.name` is not a name: `Fixture`
     --> pipelines/fixture.yaml:3:18
      |
    3 | metadata: {name: Fixture}
      |                  ^^^^^^^
    hint: lower-case letters, digits and inner hyphens, at most 40 characters

    error: `spec.intent` must be one of `exploratory`, `realism`, `publication`, not `exploratry`
     --> pipelines/fixture.yaml:5:11
      |
    5 |   intent: exploratry
      |           ^^^^^^^^^^
    hint: did you mean `exploratory`?

    error: `first` is listed twice in `spec.workloads`
     --> pipelines/fixture.yaml:6:22
      |
    6 |   workloads: [first, first]
      |                      ^^^^^

    error: `spec.targets` must not be empty
     --> pipelines/fixture.yaml:7:3
      |
    7 |   targets: []
      |   ^^^^^^^

    error: `spec.trials.count` must be `sized` or a whole number, not `many`
     --> pipelines/fixture.yaml:8:19
      |
    8 |   trials: {count: many}
      |                   ^^^^

    error: `spec` has no field `retries`
     --> pipelines/fixture.yaml:9:3
      |
    9 |   retries: 3
      |   ^^^^^^^
    hint: it takes `intent`, `workloads`, `targets`, `variants`, `telemetry`, `trials`, `isolation`, `placement`, `comparison`, `shards`, `load`, `pricing`, `claim`, `controls`, `gates`, `stages`, `schedule`, `publish`, `fetch`, `time_limit`

    error: `spec` has no field `timelimit`
     --> workloads/first/workload.yaml:9:3
      |
    9 |   timelimit: 5m
      |   ^^^^^^^^^
    hint: did you mean `time_limit`?
    ");
    says!(fixture, &["validate"], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error: `metadata.name` is not a name: `Fixture`
     --> pipelines/fixture.yaml:3:18
      |
    3 | metadata: {name: Fixture}
      |                  ^^^^^^^
    hint: lower-case letters, digits and inner hyphens, at most 40 characters

    error: `spec.intent` must be one of `exploratory`, `realism`, `publication`, not `exploratry`
     --> pipelines/fixture.yaml:5:11
      |
    5 |   intent: exploratry
      |           ^^^^^^^^^^
    hint: did you mean `exploratory`?

    error: `first` is listed twice in `spec.workloads`
     --> pipelines/fixture.yaml:6:22
      |
    6 |   workloads: [first, first]
      |                      ^^^^^

    error: `spec.targets` must not be empty
     --> pipelines/fixture.yaml:7:3
      |
    7 |   targets: []
      |   ^^^^^^^

    error: `spec.trials.count` must be `sized` or a whole number, not `many`
     --> pipelines/fixture.yaml:8:19
      |
    8 |   trials: {count: many}
      |                   ^^^^

    error: `spec` has no field `retries`
     --> pipelines/fixture.yaml:9:3
      |
    9 |   retries: 3
      |   ^^^^^^^
    hint: it takes `intent`, `workloads`, `targets`, `variants`, `telemetry`, `trials`, `isolation`, `placement`, `comparison`, `shards`, `load`, `pricing`, `claim`, `controls`, `gates`, `stages`, `schedule`, `publish`, `fetch`, `time_limit`

    error: `spec` has no field `timelimit`
     --> workloads/first/workload.yaml:9:3
      |
    9 |   timelimit: 5m
      |   ^^^^^^^^^
    hint: did you mean `time_limit`?

    7 problems in 2 files
    ");
}

#[test]
fn a_pipeline_over_what_is_not_there() {
    let fixture = Fixture::bare();
    fixture.write(PIPELINE, &pipeline("exploratory", &["first", "second"], 3, ""));
    fixture.indicator("first", &steady_script("first"), "  files: [data.txt]\n");
    says!(fixture, &["run", PIPELINE], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error[definition_invalid]: the definitions have 2 problems

    error: there is no file `workloads/first/data.txt`
     --> workloads/first/workload.yaml:9:11
      |
    9 |   files: [data.txt]
      |           ^^^^^^^^
    hint: paths are relative to the workload's folder

    error: there is no workload `second`
     --> pipelines/fixture.yaml:6:22
      |
    6 |   workloads: [first, second]
      |                      ^^^^^^
    hint: it would be defined in workloads/second/workload.yaml
    ");
    says!(fixture, &["validate", PIPELINE], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error: there is no workload `second`
     --> pipelines/fixture.yaml:6:22
      |
    6 |   workloads: [first, second]
      |                      ^^^^^^
    hint: it would be defined in workloads/second/workload.yaml

    error: there is no file `workloads/first/data.txt`
     --> workloads/first/workload.yaml:9:11
      |
    9 |   files: [data.txt]
      |           ^^^^^^^^
    hint: paths are relative to the workload's folder

    2 problems in 2 files
    ");
    fixture.assay(&["validate"]).exits(10);
}

#[test]
fn yaml_that_is_none() {
    let fixture = Fixture::bare();
    fixture.write(PIPELINE, "spec: [\n");
    says!(fixture, &["run", PIPELINE], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error[definition_invalid]: the definitions have a problem

    error: this is not YAML: while parsing a node, did not find expected node content
     --> pipelines/fixture.yaml:2:1
      |
    2 |
      | ^

    hint: correct the definitions; `assay validate` checks them again
    ");
}

#[test]
fn a_target_that_no_workload_runs_on() {
    let fixture = Fixture::bare();
    let target = "{name: server, kind: process, url: \"http://127.0.0.1:1\", command: [sh, -c, \"sleep 1000\"]}";
    fixture.write(PIPELINE, &pipeline("exploratory", &["first"], 3, "").replace("{name: local, kind: host}", target));
    fixture.indicator("first", &steady_script("first"), "");
    says!(fixture, &["validate"], @r#"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error: no target can run the indicator workload `first`
     --> pipelines/fixture.yaml:6:15
      |
    6 |   workloads: [first]
      |               ^^^^^
    hint: add a target that is a `host`

    error: no workload of this pipeline runs on the target `server` of `kind: process`
     --> pipelines/fixture.yaml:8:7
      |
    8 |     - {name: server, kind: process, url: "http://127.0.0.1:1", command: [sh, -c, "sleep 1000"]}
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: remove the target, or name a workload for it

    2 problems in 1 file
    "#);
    fixture.run("one").refuses(10, "definition_invalid");
}

#[test]
fn a_script_that_is_a_link() {
    let fixture = Fixture::bare();
    fixture.write(PIPELINE, &pipeline("exploratory", &["first"], 3, ""));
    fixture.indicator("first", &steady_script("first"), "");
    let script = fixture.repo().join("workloads/first/run.sh");
    std::fs::rename(&script, fixture.repo().join("shared.sh")).expect("moved");
    std::os::unix::fs::symlink("../../shared.sh", &script).expect("linked");
    says!(fixture, &["validate"], @"
    exit code 10
    ----- stdout: nothing -----
    ----- stderr -----
    error: `workloads/first/run.sh` is a symbolic link
     --> workloads/first/run.sh
    hint: name the file that the link points to

    1 problem in 1 file
    ");
    let run = fixture.run("one").refuses(10, "definition_invalid");
    assert!(run.stderr.contains("name the file that the link points to"), "{}", run.stderr);
}

#[test]
fn valid_definitions_and_their_plan() {
    let fixture = measured_fixture();
    says!(fixture, &["validate"], @"
    exit code 0
    ----- stdout -----
    3 files checked, no problems
    ----- stderr: nothing -----
    ");
    says!(fixture, &["plan", PIPELINE], @"
    exit code 0
    ----- stdout -----
    fixture: 2 cases, 2 points, 6 trials (3 each), intent exploratory
    about [DURATION] of trials, by what these cases took before
    at most 3 h [DURATION] of trials, if every one runs into its time limit; attempts that are repeated come on top
    workload  first                            sha256:[DIGEST]
    workload  second                           sha256:[DIGEST]
    case      first.local.default                      default
    case      second.local.default                     default
    order     drawn for each run; `--run-id` shows that of one
    ----- stderr: nothing -----
    ");
}

#[test]
fn a_run_that_is_not_there() {
    let fixture = measured_fixture();
    for arguments in [&["verify", "three"][..], &["show", "three"], &["trace", "three/outcome_fact/1234/value"]] {
        fixture.assay(arguments).refuses(2, "no_such_run");
    }
    says!(fixture, &["verify", "three"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_such_run]: the store `file://[ROOT]/repo/.assay` has no run `three`

    hint: `assay runs` lists the runs of a store
    ");
    says!(fixture, &["verify", "No Such Run"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_such_run]: `No Such Run` is neither a folder nor the name of a run
      because: `No Such Run` is not a run id: lower-case letters, digits and inner hyphens, at most 40 characters

    hint: a published folder is named with a `/`, such as `./folder`
    ");
    says!(fixture, &["verify", "one", "--store", "/nowhere/at/all"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[store_uri]: there is no store at `/nowhere/at/all`

    hint: a run creates its store when it starts; `--store` names another one
    ");
    says!(fixture, &["verify", "one", "--store", "ftp://example.org/store"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[store_uri]: `ftp://example.org/store` does not name a store: its scheme is unknown; expected `file`, `memory`, `s3`, `gs`, `az` or a plain path

    hint: use a folder or a bucket (`s3://bucket/prefix`), and check that the store exists
    ");
    says!(fixture, &["verify", "workloads"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_such_run]: the store `file://[ROOT]/repo/.assay` has no run `workloads`

    hint: `assay runs` lists the runs of a store
    ");
    let empty = Fixture::bare();
    says!(empty, &["runs"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[store_uri]: there is no store at `[ROOT]/repo/.assay`

    hint: a run creates its store when it starts; `--store` names another one
    ");
}

#[test]
fn a_run_id_that_is_none() {
    says!(measured_fixture(), &["run", PIPELINE, "--run-id", "Not A Name"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: invalid value 'Not A Name' for '--run-id <ID>': `Not A Name` is not a run id: lower-case letters, digits and inner hyphens, at most 40 characters

    For more information, try '--help'.
    ");
}

#[test]
fn a_script_that_is_absent_is_found_before_a_pipeline_names_its_workload() {
    let fixture = Fixture::bare();
    let text = crate::support::workload("first", "");
    fixture.write("workloads/first/workload.yaml", &text);
    let script = text.lines().find_map(|line| line.split_once("path: ")).expect("a script").1.trim_end_matches('}').to_owned();
    for arguments in [&["validate"][..], &["validate", "workloads/first/workload.yaml"]] {
        let checked = fixture.assay(arguments).exits(10);
        assert!(checked.stderr.contains(&format!("there is no file `workloads/first/{script}`")), "{script}: {}", checked.stderr);
    }
    fixture.write(&format!("workloads/first/{script}"), "#!/bin/sh\n");
    fixture.assay(&["validate"]).success();
}

#[test]
fn an_address_that_is_none() {
    let fixture = measured_fixture();
    says!(fixture, &["trace", "one"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[address]: `one` is not the address of a number

    hint: an address is `<run>/<table>/<row id>/<column>`; tables and reports print it
    ");
    says!(fixture, &["trace", "one/latency/1234/value"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[unknown_table]: the run has no rows in a table `latency`

    hint: numbers lie in `outcome_fact`, and a serving point's also in `serving_outcome_fact`
    ");
    says!(fixture, &["trace", "one/outcome_fact/ffffffffffff/value"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_such_row]: no row of `outcome_fact` has an id that begins with `[SHORT]`

    hint: check the digits of the row id
    ");
    let row = row_of_a_median();
    says!(fixture, &["trace", &format!("one/outcome_fact/{row}/speed")], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[unknown_column]: the table `outcome_fact` has no column `speed`

    hint: numbers of `outcome_fact` lie in the column `value`; docs/tables.md has every column
    ");
}

#[test]
fn another_column_of_a_row_is_not_its_number() {
    let row = row_of_a_median();
    let column = |name: &str| {
        let traced =
            measured_fixture().assay(&["trace", &format!("one/outcome_fact/{row}/{name}"), "--recompute"]).success().stdout;
        let line = |start: &str| traced.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
        (line("is  "), [line("number"), line("value"), line("again")].concat())
    };
    for name in ["n", "valid", "unit", "attempt"] {
        let (is, values) = column(name);
        assert!(is.contains(&format!("the column `{name}` in the row with the median of ")), "{is}");
        let words: Vec<&str> = values.split_whitespace().collect();
        assert!(!words.iter().any(|word| ["ms", "ms:", "requests"].contains(word)) || name == "unit", "{values}");
    }
    assert!(column("value").0.contains("the median of `"));
}

#[test]
fn a_row_id_that_is_none() {
    measured_fixture().assay(&["trace", "one/outcome_fact/median/value"]).exits(2);
}

#[test]
fn a_row_that_could_be_several() {
    let fixture = measured_fixture();
    // Among some forty rows, each of the sixteen digits begins several ids.
    let digit = "0123456789abcdef"
        .chars()
        .map(|digit| format!("one/outcome_fact/{digit}/value"))
        .find(|address| fixture.assay(&["trace", address]).error().as_deref() == Some("ambiguous_row"));
    let refused = fixture.assay(&["trace", &digit.expect("an ambiguous digit")]).refuses(2, "ambiguous_row");
    assert!(refused.stderr.contains("hint: give more digits of the row id"), "{}", refused.stderr);
}

fn row_of_a_median() -> String {
    let numbers = fs::read(measured_fixture().published("one").join("numbers.json")).expect("numbers.json");
    let numbers: serde_json::Value = serde_json::from_slice(&numbers).expect("JSON");
    let address = numbers["numbers"][0]["address"].as_str().expect("an address").to_owned();
    address.split('/').nth(2).expect("a row").to_owned()
}

#[test]
fn a_key_that_stays_locked() {
    let mut fixture = Fixture::new();
    fixture.set("COSIGN_PASSWORD", "wrong");
    says!(fixture, &["run", PIPELINE, "--run-id", "one"], @"
    exit code 30
    ----- stdout: nothing -----
    ----- stderr -----
    error[key_locked]: cannot unlock the key `[ROOT]/config/keys/source.key`
      because: the key does not unlock with this password

    hint: set COSIGN_PASSWORD to the key's password
    ");
    fixture.unset("COSIGN_PASSWORD");
    fs::write(fixture.key("plan"), "no key").expect("the key can be replaced");
    says!(fixture, &["run", PIPELINE, "--run-id", "one"], @"
    exit code 30
    ----- stdout: nothing -----
    ----- stderr -----
    error[key_locked]: cannot unlock the key `[ROOT]/config/keys/plan.key`
      because: the key is not PEM text: PEM preamble contains invalid data (NUL byte)

    hint: set `COSIGN_PASSWORD` to the password of the key, or replace the key if it is damaged
    ");
}

#[test]
fn keys_that_nobody_has_made() {
    let fixture = Fixture::without_keys();
    says!(fixture, &["keys", "list"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_keys]: there is no key for source, plan, provision, execute, collect, reduce, publish, gate, calibrate, import

    hint: `assay keys init` makes them
    ");
}

#[test]
fn a_home_that_is_nowhere() {
    let mut fixture = Fixture::new();
    fixture.unset("HOME");
    fixture.unset("ASSAY_CONFIG");
    says!(fixture, &["run", PIPELINE, "--run-id", "one"], @"
    exit code 30
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_config_folder]: there is no place for keys: neither ASSAY_CONFIG nor HOME is set

    hint: set ASSAY_CONFIG to a folder that only you can read
    ");
}

#[test]
fn a_home_that_is_a_relative_path() {
    let mut fixture = Fixture::new();
    fixture.set("HOME", "home");
    fixture.unset("ASSAY_CONFIG");
    fixture.unset("XDG_CONFIG_HOME");
    says!(fixture, &["keys", "list"], @"
    exit code 30
    ----- stdout: nothing -----
    ----- stderr -----
    error[no_config_folder]: `HOME` is `home`, which is no absolute path

    hint: set HOME to an absolute path, or ASSAY_CONFIG to a folder that only you can read
    ");
}

#[test]
fn a_stdout_that_is_closed() {
    let fixture = Fixture::new();
    let with = |redirection: &str, arguments: &[&str]| {
        let mut shell = fixture.command(std::path::Path::new("/bin/sh"));
        shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]).arg(binary("assay")).args(arguments);
        fixture.format_result(&crate::support::CommandResult::from_output(shell.output().expect("a shell")))
    };
    insta::assert_snapshot!(with(">&-", &["schema", "workload"]), @"
    exit code 30
    ----- stdout: nothing -----
    ----- stderr -----
    error[output]: not everything could be written to stdout
      because: stdout is closed

    hint: is the disk full that it went to, or stdout closed? Without a reader, send it to `/dev/null`
    ");
    assert_eq!(with(">&-", &["--version"]), with(">&-", &["schema", "workload"]));
    let done = with(">/dev/null", &["schema", "workload"]);
    assert!(done.starts_with("exit code 0\n"), "stdout leads nowhere on purpose: {done}");
    assert!(with(">/dev/full", &["--version"]).contains("error[output]"));
}

#[test]
fn stages_that_are_not_beside_assay() {
    let fixture = Fixture::new();
    let alone = fixture.root().join("alone/assay");
    fs::create_dir_all(alone.parent().expect("a folder")).expect("a folder of its own");
    fs::copy(binary("assay"), &alone).expect("a copy of assay alone");
    let ran = fixture.command(&alone).args(["run", PIPELINE, "--run-id", "one"]).output().expect("the copy runs");
    insta::assert_snapshot!(fixture.format_result(&crate::support::CommandResult::from_output(ran)), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    run one of fixture from commit [SHORT]
      plan [DURATION]  failed: binary_missing
    error[binary_missing]: plan: the stage's binary `[ROOT]/alone/assay-plan` is missing

    hint: the six stage binaries lie beside `assay`; build them all with `cargo build`
    ");
}

#[test]
fn a_store_that_cannot_be_written() {
    let fixture = Fixture::new();
    // A file in place of the folder blocks even the superuser.
    let file = fixture.root().join("file");
    fs::write(&file, b"").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("a mode");
    let store = file.join("store").display().to_string();
    says!(fixture, &["run", PIPELINE, "--run-id", "one", "--store", &store], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[store_uri]: `[ROOT]/file` is no folder, and the store `[ROOT]/file/store` needs one there

    hint: name a folder, which a run makes if it does not exist, or a bucket (`s3://bucket/prefix`)
    ");
}

#[test]
fn commands_and_options_that_are_none() {
    let fixture = Fixture::bare();
    says!(fixture, &["rnu"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: unrecognized subcommand 'rnu'

      tip: some similar subcommands exist: 'rank', 'runs'

    Usage: assay <COMMAND>

    For more information, try '--help'.
    ");
    says!(fixture, &["schema", "Pipelin"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[unknown_kind]: there is no kind `Pipelin`

    hint: the kinds are Pipeline, Workload, TrustPolicy, Acknowledgement, Noise, ForeignGate, source, plan, environment, execution_part, recording, collection, summary, publication, run_end, checkpoint, verdict, tombstone, calibration, foreign_evidence, search_result, foreign_verdict
    ");
    says!(fixture, &["keys", "init", "--scrypt-n", "16"], @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: invalid value '16' for '--scrypt-n <N>'
      [possible values: 32768, 65536, 131072]

    For more information, try '--help'.
    ");
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    let fixture = measured_fixture();
    let mut command = fixture.command(&binary("assay"));
    let mut child = command
        .args(["show", "one"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let ran = crate::support::CommandResult::from_output(child.wait_with_output().expect("it ends"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn an_exit_code_does_not_depend_on_a_reader() {
    let without_reader = |fixture: &Fixture, arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = fixture.command(&binary("assay"));
        let ran = command.args(arguments).stdout(writer).output().expect("the binary runs");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let fixture = Fixture::with_script(&steady_script("only"));
    assert_eq!(without_reader(&fixture, &["run", PIPELINE, "--run-id", "one"]).0, Some(0), "it is measured all the same");
    fixture.verify("one").success();
    let published = fixture.published("one");
    let folder = published.display().to_string();
    assert_eq!(without_reader(&fixture, &["verify", &folder]), (Some(0), String::new()));
    fs::write(published.join("report.md"), "faster").expect("written");
    let refused = fixture.assay(&["verify", &folder]);
    assert_eq!(refused.code, 20);
    assert_eq!(without_reader(&fixture, &["verify", &folder]), (Some(20), refused.stderr));
    let scratch: Vec<_> = fs::read_dir(fixture.scratch()).expect("a folder").collect();
    assert!(scratch.is_empty(), "what a command has begun is not left behind: {scratch:?}");
}

#[test]
fn every_command_has_its_help() {
    let fixture = Fixture::bare();
    let commands: [&[&str]; 42] = [
        &[],
        &["calibrate"],
        &["gate"],
        &["compare"],
        &["history"],
        &["noise"],
        &["forge"],
        &["forge", "post"],
        &["forge", "pull"],
        &["init"],
        &["run"],
        &["verify"],
        &["trace"],
        &["query"],
        &["export"],
        &["fetch"],
        &["serve"],
        &["status"],
        &["logs"],
        &["attach"],
        &["cancel"],
        &["render"],
        &["bootstrap"],
        &["push"],
        &["import"],
        &["import", "results"],
        &["contracts"],
        &["contracts", "validate"],
        &["contracts", "render"],
        &["validate"],
        &["plan"],
        &["bench"],
        &["exec"],
        &["runs"],
        &["runs", "rm"],
        &["du"],
        &["gc"],
        &["show"],
        &["schema"],
        &["keys"],
        &["keys", "init"],
        &["keys", "list"],
    ];
    for command in commands {
        let ran = fixture.assay(&[command, &["--help"]].concat()).success();
        assert_eq!(ran.stderr, "");
        let name = ["help", "assay"].into_iter().chain(command.iter().copied()).collect::<Vec<_>>().join("-");
        insta::assert_snapshot!(name, ran.stdout);
    }
    for stage in ["plan", "provision", "execute", "collect", "reduce", "publish"] {
        let ran = fixture.program(&format!("assay-{stage}"), &["--help"]).success();
        assert!(ran.stdout.contains(&format!("Usage: assay-{stage} [OPTIONS] --store <URI> --run <RUN>")), "{}", ran.stdout);
    }
}
