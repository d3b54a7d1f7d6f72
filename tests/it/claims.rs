//! Claims over the real binaries: declarations that the telemetry contradicts, load that shares its machine with the target, and the
//! digests of the executed programs.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assay_manifest::{CpuList, Digest};
use serde_json::Value;

use crate::pipeline::{CLAIM, DECLARED_CONTROLS, list, text};
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving::{MODEL, RETRY_BUDGET, chat, endpoint, workload};
use crate::support::{Fixture, PIPELINE, binary, indicator_output, pipeline, script, steady_script, write_file};

/// Threads that use every CPU of the machine until they are dropped.
struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Neighbours {
    fn on_every_cpu() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().expect("CPUs").get();
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        Self { threads: (0..cpus).map(spin).collect(), stop }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Returns the details of a run's issues with this code.
fn issues(fixture: &Fixture, run: &str, code: &str) -> Vec<String> {
    let summary = fixture.manifest(run, "reduce");
    let issues = list(&summary["body"]["issues"]).iter().filter(|issue| issue["code"] == code);
    issues.map(|issue| text(&issue["detail"]).to_owned()).collect()
}

fn report(fixture: &Fixture, run: &str) -> String {
    fs::read_to_string(fixture.published(run).join("report.md")).expect("a report")
}

#[test]
fn a_declaration_that_the_telemetry_contradicts_is_refused() {
    let neighbours = Neighbours::on_every_cpu();
    let claimed = pipeline("publication", &["only"], 5, &format!("{CLAIM}{DECLARED_CONTROLS}"));
    let slow = script(&format!("sleep 1\necho '{}'", indicator_output("only", "[100.25, 101.5, 99.75]")));
    let fixture = Fixture::with_pipeline(&slow, &claimed);
    let ran = fixture.run("one").success();
    drop(neighbours);
    let contradicted = issues(&fixture, "one", "control_contradicted");
    let dedicated =
        contradicted.iter().find(|detail| detail.starts_with("`dedicated_nodes` is declared, but ")).expect("it is refused");
    assert!(dedicated.contains("% of the machine's CPU time") && dedicated.ends_with("(limit 5.0 %)"), "{dedicated}");
    assert!(contradicted.iter().any(|detail| detail.starts_with("`stable_background` is declared, but ")), "{contradicted:?}");
    let grade = fixture.manifest("one", "publish")["body"]["grade"].clone();
    assert_eq!((text(&grade["requested"]), text(&grade["given"])), ("publication", "realism"));
    let rules: Vec<_> = list(&grade["shortfalls"]).iter().map(|shortfall| text(&shortfall["rule"])).collect();
    assert!(rules.contains(&"control_contradicted"), "{rules:?}");
    assert!(ran.stdout.contains("control_contradicted"), "the terminal names it:\n{}", ran.stdout);
    assert!(report(&fixture, "one").contains("control\\_contradicted"), "the report names it");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn load_on_the_target_s_machine_is_named_unless_the_recorded_cpus_are_apart() {
    let cpus = std::thread::available_parallelism().expect("CPUs").get();
    if cpus < 2 {
        // With one CPU, target and client cannot be separated.
        return;
    }
    let allowed: CpuList = fs::read_to_string("/proc/self/status")
        .expect("a status")
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:")?.parse().ok())
        .expect("a list");
    let [of_target, of_load] = [allowed.numbers().next(), allowed.numbers().last()].map(|cpu| cpu.expect("a CPU"));
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 10", "D(20,10)", "");
    let of = |target: &str, load: &str| {
        format!(
            "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: realism
  workloads: [chat]
  targets:
    - {{name: simulator, kind: simulator, config: {{profile: fast}}{target}}}
  trials: {{count: 3, retry_budget: {RETRY_BUDGET}}}
{load}"
        )
    };
    fixture.write(PIPELINE, &of("", ""));
    fixture.commit("together");
    fixture.run("together").success();
    let shared = issues(&fixture, "together", "colocated");
    assert!(shared.len() == 1 && shared[0].contains("both might use the cores of the CPUs"), "{shared:?}");
    assert_eq!(text(&fixture.manifest("together", "publish")["body"]["grade"]["given"]), "exploratory");

    fixture.write(PIPELINE, &of(&format!(", cpus: '{of_target}'"), &format!("  load: {{cpus: '{of_target}'}}\n")));
    let refused = fixture.assay(&["validate", PIPELINE]).exits(10);
    assert!(refused.stderr.contains("both have the CPUs") || refused.stdout.contains("both have the CPUs"), "{}", refused.stderr);

    fixture.write(PIPELINE, &of(&format!(", cpus: '{of_target}'"), &format!("  load: {{cpus: '{of_load}'}}\n")));
    fixture.commit("apart");
    fixture.run("apart").success();
    let target = fixture.manifest("apart", "provision")["body"]["targets"][0].clone();
    assert_eq!(text(&target["allowed_cpus"]), of_target.to_string(), "the target is pinned");
    let attempts = fixture.manifest("apart", "execute")["body"]["attempts"].clone();
    for attempt in list(&attempts) {
        assert_eq!(text(&attempt["allowed_cpus"]), of_load.to_string(), "the load is pinned");
    }
    // Two CPUs of one core are not separate, and only the machine knows whether these two are.
    let cores: CpuList = text(&target["core_cpus"]).parse().expect("a list");
    let share_a_core = cores.numbers().any(|cpu| cpu == of_load);
    assert_eq!(issues(&fixture, "apart", "colocated").is_empty(), !share_a_core);
}

fn make_program(path: &Path, bytes: &[u8]) {
    write_file(path, bytes);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn what_a_process_executes_is_recorded_by_its_digest() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let fixture = chat(5, &["{name: none, kind: host}"], RETRY_BUDGET);
    // A build for one side only: the same program with one more byte.
    let mut bytes = fs::read(binary("assay-simulator")).expect("a program");
    bytes.push(b'\n');
    let build = fixture.root().join("sut/after/server");
    make_program(&build, &bytes);
    let target = format!(
        "{{name: own, kind: process, url: 'http://127.0.0.1:{port}', ready: {{http: /health, timeout: 60s}}, \
         command: ['{}', --listen, '127.0.0.1:{port}', --model, {MODEL}, --profile, fast]}}",
        build.display()
    );
    let yaml = fs::read_to_string(fixture.repo().join(PIPELINE)).expect("a pipeline");
    fixture.write(PIPELINE, &yaml.replace("{name: none, kind: host}", &target));
    fixture.commit("a build");
    fixture.run("one").success();
    let environment = fixture.manifest("one", "provision");
    let executables = list(&environment["body"]["targets"][0]["executables"]);
    let program = executables.iter().find(|executable| executable["role"] == "program").expect("its program");
    assert_eq!(text(&program["path"]), build.display().to_string());
    assert_eq!(text(&program["digest"]), Digest::compute(&bytes).to_string());
    assert!(report(&fixture, "one").contains("Every reference is pinned"), "it is true here");
}

#[test]
fn nothing_mutable_is_said_to_be_left_only_where_that_is_true() {
    const SENTENCE: &str = "Every reference is pinned";
    let fixture = Fixture::with_script(&steady_script("only"));
    fixture.run("one").success();
    assert!(report(&fixture, "one").contains(SENTENCE));

    let server = Server::start(MODEL, |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = chat(5, &[&endpoint("unknown", &server, "")], 0);
    fixture.run("one").success();
    let report = report(&fixture, "one");
    assert!(!report.contains(SENTENCE), "the server is unknown:\n{report}");
    assert!(report.contains("the program behind the target `unknown` (it gives no version)"), "{report}");
}

/// Creates a comparison of two variants, whose program a variable names; `more` is further lines of the target.
fn comparison(fixture: &Fixture, more: &str) -> String {
    let program = |side: &str| fixture.root().join(format!("sut/{side}/tool")).display().to_string();
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: exploratory
  workloads: [only]
  targets: [{{name: local, kind: host{more}}}]
  variants:
    - {{name: before, env: {{TOOL: '{}'}}}}
    - {{name: after, env: {{TOOL: '{}'}}}}
  placement: alternate
  comparison:
    baseline: {{target: local, variant: before}}
    candidate: {{target: local, variant: after}}
    variable_under_test: runtime_version
  trials: {{count: 3, retry_budget: 0}}
  gates:
    - {{name: speed}}
",
        program("before"),
        program("after")
    )
}

/// Returns the checks of the verdict about a run, by name.
fn checks(fixture: &Fixture, run: &str) -> Vec<Value> {
    let ran = fixture.assay(&["gate", run, "--baseline", "main", "--json"]);
    let verdict = ran.json()[0]["verdict"].clone();
    list(&verdict["checks"]).clone()
}

#[test]
fn a_gate_lists_what_the_sides_executed_and_decides_nothing_without_digests() {
    let fixture = Fixture::bare();
    fixture.indicator("only", &script("exec \"$TOOL\""), "");
    for (side, speed) in [("before", "[100, 101]"), ("after", "[100, 102]")] {
        let tool = fixture.root().join(format!("sut/{side}/tool"));
        make_program(&tool, script(&format!("echo '{}'", indicator_output("only", speed))).as_bytes());
    }
    fixture.write(PIPELINE, &comparison(&fixture, ""));
    fixture.commit("two builds");
    fixture.run("one").success();
    let of = |checks: &[Value], name: &str| checks.iter().find(|check| check["name"] == name).cloned();
    let known = checks(&fixture, "one");
    assert_eq!(of(&known, "unpinned_executable"), None);
    let listed = of(&known, "executables").expect("what differs is listed");
    assert!(text(&listed["detail"]).starts_with("the sides differ in argument `tool` ("), "{listed}");
    assert_eq!(listed["passed"], true, "and is no fault");

    fixture.write(PIPELINE, &comparison(&fixture, ", artifacts: [sut/none]"));
    fixture.commit("an artifact that is not there");
    fixture.run("two").success();
    let unknown = of(&checks(&fixture, "two"), "unpinned_executable").expect("it is not known");
    assert_eq!((unknown["passed"].clone(), unknown["blocks"].clone()), (false.into(), false.into()));
    assert!(text(&unknown["detail"]).contains("`sut/none`"), "{unknown}");
}

#[test]
fn an_attempt_during_which_its_program_was_replaced_does_not_count() {
    let fixture = Fixture::bare();
    let shell = fixture.root().join("shell");
    make_program(&shell, &fs::read("/bin/sh").expect("a shell"));
    // The script replaces its own interpreter, as an update of the system would.
    let body = format!(
        "#!{0}\nset -eu\ncp '{0}' '{0}.new'\necho >> '{0}.new'\nmv '{0}.new' '{0}'\necho '{1}'\n",
        shell.display(),
        indicator_output("only", "[1, 2]")
    );
    fixture.indicator("only", &body, "");
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, ""));
    fixture.commit("an interpreter that changes");
    fixture.run("one").exits(30);
    let attempt = fixture.manifest("one", "execute")["body"]["attempts"][0].clone();
    let codes: Vec<_> = list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"])).collect();
    assert_eq!(codes, ["executable_changed"]);
}
