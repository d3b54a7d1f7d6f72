//! Pipelines: accepted and refused definitions.

use std::time::Duration;

use assay_manifest::{Control, Count, Intent, Placement, Role, TargetKind, ValidityLimits};
use insta::assert_snapshot;

use super::{COMPARING, PIPELINE, pipeline, problems, replace_part};
use crate::{ControlRequirement, HeaderSource, SIMULATOR_PROFILES, SecretRef, Shards, Trials};

fn minimal(part: &str, replacement: &str) -> String {
    problems(&replace_part(PIPELINE, part, replacement))
}

fn comparing(part: &str, replacement: &str) -> String {
    problems(&replace_part(COMPARING, part, replacement))
}

#[test]
fn a_gate_s_sides_have_launches_of_their_own_unless_somebody_says_otherwise() {
    let side = |name: &str, kind: &str| match kind {
        "simulator" => format!("{{name: {name}, kind: simulator}}"),
        kind => format!("{{name: {name}, kind: {kind}, url: 'http://127.0.0.1:1'}}"),
    };
    let placement = |kinds: [&str; 2], more: &str| {
        let targets = format!("[{}, {}]", side("before", kinds[0]), side("after", kinds[1]));
        let text = format!(
            "apiVersion: assay.dev/v1alpha1\nkind: Pipeline\nmetadata: {{name: p}}\nspec:\n  intent: exploratory\n  workloads: [chat]\n  \
             targets: {targets}\n  comparison: {{baseline: {{target: before}}, candidate: {{target: after}}, variable_under_test: \
             runtime_version}}\n{more}"
        );
        pipeline(&text).spec.placement
    };
    let gates = "  gates: [{name: g}]\n";
    assert_eq!(placement(["simulator"; 2], gates), Placement::Alternate);
    assert_eq!(placement(["simulator"; 2], ""), Placement::Coexist, "nothing is judged");
    assert_eq!(placement(["simulator"; 2], "  gates: [{name: g}]\n  placement: coexist\n"), Placement::Coexist);
    assert_eq!(placement(["endpoint", "simulator"], gates), Placement::Coexist, "somebody else keeps one up");
}

#[test]
fn a_minimal_pipeline_has_its_defaults() {
    let spec = pipeline(PIPELINE).spec;
    assert_eq!(spec.intent, Intent::Exploratory);
    assert_eq!(spec.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["default"]);
    assert_eq!(
        spec.trials,
        Trials { count: 5, sized: false, retry_budget: 2, validity: ValidityLimits::default(), rebuilds: 1, order_seed: None }
    );
    assert_eq!(spec.stages.iter().map(|stage| stage.role).collect::<Vec<_>>(), Role::STAGES);
    let minutes: Vec<_> = spec.stages.iter().map(|stage| stage.timeout.as_secs() / 60).collect();
    assert_eq!(minutes, [10, 30, 1440, 30, 30, 10]);
    assert!(spec.stages.iter().all(|stage| stage.retries == 1));
    assert!(spec.controls.iter().all(|(_, ask)| *ask == ControlRequirement::Absent) && spec.controls.len() == Control::ALL.len());
    assert_eq!((spec.shards, spec.time_limit), (Shards::Auto, Duration::from_hours(24)));
    assert!(spec.comparison.is_none() && spec.claim.is_none() && spec.schedule.is_none() && spec.gates.is_empty());
}

#[test]
fn a_comparing_pipeline_is_read() {
    let pipeline = pipeline(COMPARING);
    let spec = pipeline.spec;
    assert_eq!(spec.intent, Intent::Publication);
    let [old, new] = spec.targets.as_slice() else { panic!("two targets") };
    assert_eq!((old.kind, new.kind), (TargetKind::Process, TargetKind::Endpoint));
    let env: Vec<_> = old.env.iter().map(|var| (var.name.as_str(), var.value.as_deref(), var.from_env.as_deref())).collect();
    assert_eq!(env, [("HF_TOKEN", None, Some("HF_TOKEN")), ("WORKERS", Some("2"), None)]);
    assert_eq!(
        old.headers["authorization"],
        HeaderSource::Secret { place: SecretRef::File("/run/secrets/key".to_owned()), scheme: None }
    );
    assert_eq!(old.ready.timeout, Duration::from_mins(10));
    assert_eq!(old.hardware["gpu_count"], "8");
    assert_eq!(spec.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["default", "fast"]);
    let comparison = spec.comparison.expect("a comparison");
    assert_eq!((comparison.baseline.variant.as_str(), comparison.candidate.variant.as_str()), ("default", "fast"));
    assert_eq!(spec.controls[0], (Control::DedicatedNodes, ControlRequirement::Declared("The node is reserved.".to_owned())));
    assert_eq!(spec.controls[1], (Control::FixedTopology, ControlRequirement::Absent));
    assert_eq!(spec.controls[2], (Control::LockedClocks, ControlRequirement::Required));
    assert_eq!(spec.gates[0].budget_pct.to_string(), "2.5");
    assert_eq!((spec.stages[2].retries, spec.stages[2].cpu.as_deref()), (0, Some("500m")));
    assert_eq!(spec.stages[2].node_selector["kubernetes.io/arch"], "amd64");
    assert_eq!(spec.stages[1].timeout, Duration::from_hours(1));
    assert_eq!(spec.schedule.map(|schedule| schedule.timezone), Some("Europe/Berlin".to_owned()));
    assert_eq!(spec.publish.queries, ["queries/latency.sql"]);
    assert_eq!(spec.fetch_allow, ["example.org"]);
}

#[test]
fn a_host_may_have_a_command_and_a_working_directory() {
    let of = |target: &str| replace_part(PIPELINE, "kind: host}", &format!("kind: host{target}}}"));
    let spec = pipeline(&of(", command: [./new, x], working_directory: /srv/data")).spec;
    let target = &spec.targets[0];
    assert_eq!((target.command.join(" ").as_str(), target.working_directory.as_deref()), ("./new x", Some("/srv/data")));
    let spec = pipeline(PIPELINE).spec;
    assert_eq!((spec.targets[0].command.len(), spec.targets[0].working_directory.as_deref()), (0, None));
    assert_snapshot!(problems(&of(", working_directory: srv")), @r"
    error: `spec.targets[0].working_directory` is not an absolute path: `srv`
     --> a.yaml:7:51
      |
    7 |     - {name: here, kind: host, working_directory: srv}
      |                                                   ^^^
    hint: a path that begins with `/`
    ");
}

#[test]
fn builds_have_folders_and_turns() {
    let of = |target: &str, trials: &str| {
        let text = replace_part(PIPELINE, "kind: host}", &format!("kind: host{target}}}"));
        format!("{text}  trials: {{{trials}}}\n")
    };
    let spec = pipeline(&of(", folder: sut/before", "count: 9, rebuilds: 3")).spec;
    assert_eq!((spec.targets[0].folder.as_deref(), spec.trials.rebuilds), (Some("sut/before"), 3));
    assert_snapshot!(problems(&of("", "count: 9, rebuilds: 3")), @r"
    error: `spec.trials.rebuilds` needs a target with a `folder`
     --> a.yaml:8:32
      |
    8 |   trials: {count: 9, rebuilds: 3}
      |                                ^
    hint: its builds lie in `1`, `2` and so on of that folder
    ");
    assert_snapshot!(problems(&of(", folder: sut", "count: 3, rebuilds: 4")), @r"
    error: of 4 builds only 3 would have a turn
     --> a.yaml:8:32
      |
    8 |   trials: {count: 3, rebuilds: 4}
      |                                ^
    hint: write at most as many as `spec.trials.count`
    ");
    assert_snapshot!(problems(&of(", folder: ../sut", "count: 3")), @r"
    error: `spec.targets[0].folder` is not a relative path: `../sut`
     --> a.yaml:7:40
      |
    7 |     - {name: here, kind: host, folder: ../sut}
      |                                        ^^^^^^
    hint: must not lead out of its folder with `..`
    ");
}

#[test]
fn fields_of_another_kind_of_target_are_refused() {
    assert_snapshot!(minimal("kind: host", "kind: host, url: http://localhost"), @r"
    error: `spec.targets[0].url` does not belong to a target of `kind: host`
     --> a.yaml:7:32
      |
    7 |     - {name: here, kind: host, url: http://localhost}
      |                                ^^^
    hint: it belongs to `kind: endpoint` or `kind: process` or `kind: simulator` or `kind: objects`; remove it
    ");
    assert_snapshot!(minimal("kind: host", "kind: endpoint"), @r"
    error: `spec.targets[0]` lacks `url` for `kind: endpoint`
     --> a.yaml:7:7
      |
    7 |     - {name: here, kind: endpoint}
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: its address: for example `url: http://127.0.0.1:8000`
    ");
    assert_snapshot!(minimal("kind: host", "kind: endpoint, url: 'http://user:pw@h/'"), @r"
    error: `spec.targets[0].url` carries a user or password
     --> a.yaml:7:41
      |
    7 |     - {name: here, kind: endpoint, url: …
      |                                         ^
    hint: remove it; credentials go into `headers`, as references
    ");
    assert_snapshot!(minimal("kind: host", "kind: process, url: http://localhost"), @r"
    error: `spec.targets[0]` lacks `command` for `kind: process`
     --> a.yaml:7:7
      |
    7 |     - {name: here, kind: process, url: http://localhost}
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: program and arguments of a process
    ");
    assert_snapshot!(minimal("kind: host", "kind: pod"), @r"
    error: `spec.targets[0].kind` must be one of `host`, `endpoint`, `process`, `simulator`, `objects`, `inference_service`, not `pod`
     --> a.yaml:7:26
      |
    7 |     - {name: here, kind: pod}
      |                          ^^^
    ");
}

#[test]
fn the_packages_of_a_variant_are_read_and_no_server_runs_with_them() {
    let variants =
        "  variants: [{name: new, python: {lock: stacks/new.txt, installer: uv}}, {name: old, python: {lock: stacks/old.txt}}]\n";
    let text = format!("{PIPELINE}{variants}");
    let stacks: Vec<_> = pipeline(&text).spec.variants.into_iter().filter_map(|variant| variant.python).collect();
    let words: Vec<_> =
        stacks.iter().map(|stack| (stack.lock.as_str(), stack.installer.as_str(), stack.interpreter.as_str())).collect();
    assert_eq!(words, [("stacks/new.txt", "uv", "python3"), ("stacks/old.txt", "pip", "python3")]);
    let target = "{name: srv, kind: endpoint, url: 'http://127.0.0.1:1'}";
    let served = replace_part(&text, "  targets:", &format!("  targets:\n    - {target}"));
    let found = problems(&served);
    assert!(
        found.contains("the variant `new` has `python` packages, which the target `srv` of kind `endpoint` does not run with"),
        "{found}"
    );
}

#[test]
fn a_variant_sets_no_environment_of_a_server() {
    let with = |target: &str| {
        minimal(
            "    - {name: here, kind: host}\n",
            &format!("    - {target}\n  variants: [{{name: default}}, {{name: big, env: {{SIZE: 2}}}}]\n"),
        )
    };
    assert_snapshot!(with("{name: srv, kind: endpoint, url: 'http://h:80'}"), @r"
    error: the variant `big` has an `env`, which the target `srv` of kind `endpoint` does not get: only `kind: host` does
     --> a.yaml:8:48
      |
    8 |   variants: [{name: default}, {name: big, env: {SIZE: 2}}]
      |                                                ^^^^^^^^
    hint: make a target of each variant, with its `env` and its address, and compare the targets
    ");
    assert_eq!(with("{name: here, kind: host}"), "no problem");
}

#[test]
fn an_address_that_is_none_shows_no_password() {
    let endpoint = |url: &str| minimal("kind: host", &format!("kind: endpoint, url: '{url}'"));
    let passwords = [
        "user:pw@h:80",
        "http://user:p/w@h",
        "ftp://u:pw@h",
        "u:pw@h",
        "http://u%3Apw%40h/v1",
        "http://u%3Ap%2Fw%40h",
        "u%3Apw%2540h",
    ];
    let keys = [
        "http://h:1/?api_key=pw",
        "http://h/ ?token=pw",
        "http://h/?key=AIzaSypw",
        "http://h/?sv=1&sig=pw",
        "http://h/f?code=pw",
    ];
    for url in passwords.into_iter().chain(keys) {
        let said = endpoint(url);
        assert!(
            said.contains("`spec.targets[0].url` carries a")
                && !said.contains("pw")
                && !said.contains("p/w")
                && !said.contains("p%2Fw"),
            "{url}:\n{said}"
        );
    }
    assert_snapshot!(endpoint("http://h/v1?api_key=x"), @r"
    error: `spec.targets[0].url` carries a key or token
     --> a.yaml:7:41
      |
    7 |     - {name: here, kind: endpoint, url: …
      |                                         ^
    hint: remove it; credentials go into `headers`, as references
    ");
    assert_snapshot!(endpoint("ftp://h"), @r"
    error: `spec.targets[0].url` is not an address: `ftp://h`
     --> a.yaml:7:41
      |
    7 |     - {name: here, kind: endpoint, url: 'ftp://h'}
      |                                         ^^^^^^^^^
    hint: its scheme has to be `http` or `https`, and is `ftp`
    ");
    assert_snapshot!(endpoint("h:8000"), @r"
    error: `spec.targets[0].url` is not an address: `h:8000`
     --> a.yaml:7:41
      |
    7 |     - {name: here, kind: endpoint, url: 'h:8000'}
      |                                         ^^^^^^^^
    hint: must begin with `http://` or `https://`
    ");
    assert_eq!(endpoint("http://h/@a?b=c&max_tokens=8"), "no problem");
}

#[test]
fn a_simulator_has_one_of_its_profiles() {
    let simulator = |profile: &str| minimal("kind: host", &format!("kind: simulator, config: {{profile: {profile}}}"));
    assert_snapshot!(minimal("kind: host}", "kind: simulator, config: {ttft_msec: 20, itl-ms: 3}}"), @r"
    error: `spec.targets[0].config` has `ttft_msec`, which is no setting of the simulator
     --> a.yaml:7:46
      |
    7 |     - {name: here, kind: simulator, config: {ttft_msec: 20, itl-ms: 3}}
      |                                              ^^^^^^^^^
    hint: did you mean `ttft_ms`?
    ");
    for known in SIMULATOR_PROFILES {
        assert_eq!(simulator(known), "no problem");
    }
    assert_snapshot!(simulator("h100-8"), @r"
    error: `spec.targets[0].config.profile` is no profile of the simulator: `h100-8`
     --> a.yaml:7:55
      |
    7 |     - {name: here, kind: simulator, config: {profile: h100-8}}
      |                                                       ^^^^^^
    hint: did you mean `h100-8b`? the profiles are `instant`, `fast`, `h100-8b`, `h100-8b-prefill`, `h100-70b-tp8`, `fast-batching`, `h100-8b-batching`, `h100-70b-tp8-batching`
    ");
    assert_snapshot!(simulator("nosuch"), @r"
    error: `spec.targets[0].config.profile` is no profile of the simulator: `nosuch`
     --> a.yaml:7:55
      |
    7 |     - {name: here, kind: simulator, config: {profile: nosuch}}
      |                                                       ^^^^^^
    hint: the profiles are `instant`, `fast`, `h100-8b`, `h100-8b-prefill`, `h100-70b-tp8`, `fast-batching`, `h100-8b-batching`, `h100-70b-tp8-batching`
    ");
    assert!(simulator("5").contains("no profile of the simulator: `5`"));
    assert_eq!(
        minimal("kind: host", "kind: simulator, config: {ttft_ms: 5}"),
        "no problem",
        "without one it is the simulator's default"
    );
    assert_eq!(minimal("kind: host", "kind: host, hardware: {profile: nosuch}"), "no problem", "no simulator is asked for one");
}

#[test]
fn names_are_unique() {
    assert_snapshot!(minimal("    - {name: here, kind: host}\n", "    - {name: here, kind: host}\n    - {name: here, kind: simulator}\n"), @r"
    error: `here` is listed twice in `spec.targets` by `name`
     --> a.yaml:8:14
      |
    8 |     - {name: here, kind: simulator}
      |              ^^^^
    ");
    assert_snapshot!(minimal("workloads: [stream]", "workloads: [stream, stream]"), @r"
    error: `stream` is listed twice in `spec.workloads`
     --> a.yaml:5:23
      |
    5 |   workloads: [stream, stream]
      |                       ^^^^^^
    ");
    assert_snapshot!(comparing("- {name: default}", "- {name: fast}"), @r"
    error: `fast` is listed twice in `spec.variants` by `name`
      --> a.yaml:28:14
       |
    28 |     - {name: fast, description: With the new kernels.}
       |              ^^^^

    error: the baseline names the variant `default`, which this pipeline does not have
      --> a.yaml:32:5
       |
    32 |     baseline: {target: old}
       |     ^^^^^^^^
    hint: it has `fast`, `fast`
    ");
}

#[test]
fn a_comparison_names_what_is_there() {
    assert_snapshot!(comparing("baseline: {target: old}", "baseline: {target: odl, variant: slow}"), @r"
    error: the baseline names the target `odl`, which this pipeline does not have
      --> a.yaml:32:24
       |
    32 |     baseline: {target: odl, variant: slow}
       |                        ^^^
    hint: did you mean `old`?

    error: the baseline names the variant `slow`, which this pipeline does not have
      --> a.yaml:32:38
       |
    32 |     baseline: {target: odl, variant: slow}
       |                                      ^^^^
    hint: it has `default`, `fast`
    ");
    assert_snapshot!(comparing("candidate: {target: new, variant: fast}", "candidate: {target: old}"), @r"
    error: baseline and candidate are the same
      --> a.yaml:33:5
       |
    33 |     candidate: {target: old}
       |     ^^^^^^^^^
    hint: a comparison needs two sides that differ
    ");
    assert_snapshot!(comparing("baseline: {target: old}", "baseline: {}"), @r"
    error: `spec.comparison.baseline` lacks `target`
      --> a.yaml:32:5
       |
    32 |     baseline: {}
       |     ^^^^^^^^
    hint: a target of this pipeline: for example `target: llama-8b`
    ");
}

#[test]
fn a_comparison_has_one_variable() {
    assert_snapshot!(comparing("variable_under_test: runtime_version", "variable_under_test: runtime"), @r"
    error: `spec.comparison.variable_under_test` must be one of `hardware_generation`, `runtime_version`, `scheduler_path`, `control_plane_path`, `driver_stack`, `network_topology`, `storage_stack`, `batching_policy`, `concurrency_model`, `kernel_implementation`, `model`, `other`, not `runtime`
      --> a.yaml:34:26
       |
    34 |     variable_under_test: runtime
       |                          ^^^^^^^
    ");
    assert_snapshot!(comparing("variable_under_test: runtime_version", "variable_under_test: other"), @r"
    error: `spec.comparison` lacks `other` for `variable_under_test: other`
      --> a.yaml:31:3
       |
    31 |   comparison:
       |   ^^^^^^^^^^
    hint: what differs, where no other word fits
    ");
    assert_snapshot!(comparing("variable_under_test: runtime_version", "variable_under_test: model\n    other: weather"), @r"
    error: `spec.comparison.other` does not belong to a comparison of `variable_under_test: model`
      --> a.yaml:35:5
       |
    35 |     other: weather
       |     ^^^^^
    hint: it belongs to `variable_under_test: other`; remove it
    ");
}

#[test]
fn placement_fits_the_comparison() {
    assert_snapshot!(minimal("  targets:", "  placement: alternate\n  targets:"), @r"
    error: `placement: alternate` needs a comparison whose sides alternate
     --> a.yaml:6:14
      |
    6 |   placement: alternate
      |              ^^^^^^^^^
    hint: write `comparison`, or remove `placement`
    ");
    let two_variants =
        replace_part(COMPARING, "candidate: {target: new, variant: fast}", "candidate: {target: old, variant: fast}");
    assert_eq!(problems(&two_variants), "no problem");
    assert_snapshot!(problems(&replace_part(&two_variants, "placement: alternate", "placement: coexist")), @r"
    error: two variants of one target cannot be up together
      --> a.yaml:31:3
       |
    31 |   comparison:
       |   ^^^^^^^^^^
    hint: write `placement: alternate`, or make them two targets
    ");
}

#[test]
fn only_what_assay_starts_can_be_restarted() {
    assert_snapshot!(minimal("  targets:", "  isolation: restart_target\n  targets:"), @r"
    error: `isolation: restart_target` cannot restart the target `here` of `kind: host`
     --> a.yaml:6:14
      |
    6 |   isolation: restart_target
      |              ^^^^^^^^^^^^^^
    hint: only a `process`, `simulator` or `objects` are started by Assay
    ");
}

#[test]
fn targets_of_a_cluster_are_read() {
    let target = |fields: &str| {
        let text = replace_part(PIPELINE, "    - {name: here, kind: host}", &format!("    - {{name: t, {fields}}}"));
        crate::Pipeline::parse("a.yaml", text.as_bytes()).map(|pipeline| pipeline.spec.targets[0].clone())
    };
    let objects = target("kind: objects, objects: [a/../b.yaml], url: 'http://t:80'").map(|_| ()).expect_err("a detour");
    assert!(objects[0].message.contains("must not lead out") || objects[0].hint.as_ref().is_some_and(|hint| hint.contains("..")));
    let objects = target("kind: objects, objects: [./a.yaml, b.yaml], url: 'http://t:80'").expect("a target");
    assert_eq!((objects.kind, objects.objects.join(" ")), (TargetKind::Objects, "a.yaml b.yaml".to_owned()));
    let service = target("kind: inference_service, inference_service: {api: ome, name: llama, namespace: serving}").expect("one");
    let reference = service.inference_service.expect("a reference");
    assert_eq!((reference.name.as_str(), reference.namespace.as_str(), reference.path), ("llama", "serving", None));
    for bad in [
        "kind: objects, url: 'http://t:80'",
        "kind: objects, objects: [], url: 'http://t:80'",
        "kind: objects, objects: [a.yaml]",
        "kind: inference_service",
        "kind: inference_service, url: 'http://t:80', inference_service: {api: ome, name: llama, namespace: serving}",
        "kind: inference_service, inference_service: {api: seldon, name: llama, namespace: serving}",
        "kind: inference_service, inference_service: {api: ome, name: a.b, namespace: serving}",
        "kind: process, command: [a], url: 'http://t:80', objects: [a.yaml]",
    ] {
        assert!(target(bad).is_err(), "{bad}");
    }
}

#[test]
fn only_what_serves_has_a_cache_to_flush() {
    assert_snapshot!(minimal("  targets:", "  isolation: flush\n  targets:"), @r"
    error: `isolation: flush` cannot flush a cache of the target `here` of `kind: host`
     --> a.yaml:6:14
      |
    6 |   isolation: flush
      |              ^^^^^
    hint: only a target that serves has one: `none` leaves it as it is
    ");
    let serving = "  isolation: flush\n  targets:\n    - {name: there, kind: endpoint, url: 'http://vllm:8000'}\n  x-targets:";
    assert!(!minimal("  targets:", serving).contains("flush a cache"), "an endpoint has one");
}

#[test]
fn publication_needs_a_claim() {
    assert_snapshot!(minimal("  targets:", "  intent: publication\n  targets:"), @r"
    error: `intent: publication` needs `spec.claim`
     --> a.yaml:6:11
      |
    6 |   intent: publication
      |           ^^^^^^^^^^^
    hint: write `claim` with `methodology`, `representative` and `statement`, or another intent
    ");
    assert_snapshot!(comparing("    representative: false\n", ""), @r"
    error: `spec.claim` lacks `representative`
      --> a.yaml:37:3
       |
    37 |   claim:
       |   ^^^^^
    hint: whether it stands for more than itself
    ");
}

#[test]
fn telemetry_comes_from_exporters_and_prometheus_servers() {
    let sources = |list: &str| replace_part(PIPELINE, "  targets:", &format!("  telemetry: [{list}]\n  targets:"));
    let read = pipeline(&sources("{name: node, scrape: 'http://node-7:9100/metrics'}, {name: gpu, scrape: 'https://gpu'}")).spec;
    let read: Vec<_> =
        read.telemetry.iter().map(|source| (source.name.as_str(), source.scrape.as_deref().unwrap_or_default())).collect();
    assert_eq!(read, [("node", "http://node-7:9100/metrics"), ("gpu", "https://gpu")]);
    let refused = |list: &str| {
        let told = problems(&sources(list));
        let lines = told.lines().filter(|line| line.starts_with("error: ") || line.trim_start().starts_with("hint: "));
        lines.map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let asked = "{name: q, prometheus: 'https://q:9090/', pack: [dcgm, node], queries: [p/own.yaml], match: {cluster: a, node: [n1, n2]}, \
                 headers: {authorization: {from_env: TOKEN, scheme: Bearer}}, insecure_skip_tls_verify: true}";
    let read = pipeline(&sources(asked)).spec.telemetry.remove(0).prometheus.expect("a Prometheus");
    assert_eq!((read.url.as_str(), read.queries.as_slice()), ("https://q:9090", &["p/own.yaml".to_owned()][..]));
    assert_eq!(read.packs.iter().map(assay_manifest::Name::as_str).collect::<Vec<_>>(), ["dcgm", "node"]);
    assert_eq!(read.matchers["node"], ["n1", "n2"]);
    assert_eq!(read.matchers["cluster"], ["a"]);
    assert!(read.insecure_skip_tls_verify && read.headers.contains_key("authorization"));
    assert_snapshot!(refused("{name: q, prometheus: 'http://q:9090', pack: dgcm}"), @r"
    error: Assay has no query pack `dgcm`
    hint: did you mean `dcgm`? the packs are `cadvisor`, `dcgm`, `dynamo`, `kube-state-metrics`, `kueue`, `node`, `node-problem-detector`, `ping`, `sglang`, `tgi`, `triton`, `vllm`; a file of your own belongs in `queries`
    ");
    assert_snapshot!(refused("{name: q, prometheus: 'http://q:9090/?a=b', match: {a: b}}"), @r"
    error: `spec.telemetry[0]` asks its Prometheus for nothing
    hint: name a `pack` (`cadvisor`, `dcgm`, `dynamo`, `kube-state-metrics`, `kueue`, `node`, `node-problem-detector`, `ping`, `sglang`, `tgi`, `triton`, `vllm`), or `queries` with files of your own
    error: `spec.telemetry[0].prometheus` has a query, and paths are added to it
    hint: remove the `?` and what follows it
    ");
    assert_snapshot!(refused("{name: q, prometheus: 'http://q', pack: ping, tls: {ca: {from_file: ca.pem}}, headers: {x-key: {value: 'sk-0123456789abcdefghij'}}}"), @r"
    error: `spec.telemetry[0].tls` is for a server at `https`, and `spec.telemetry[0].prometheus` begins with `http://`
    hint: write `https://` if the server speaks TLS, or remove `tls`
    error: the header `x-key` looks like a secret; a definition holds references to secrets only
    hint: give its place, `{from_env: NAME}` or `{from_file: PATH}`
    ");
    assert_snapshot!(refused("{name: q, scrape: 'http://q', pack: dcgm}"), @r"
    error: `spec.telemetry[0].pack` belongs to `prometheus`, and not to `scrape`
    hint: remove it: an exporter is recorded as a whole, without credentials
    ");
    let gpus = pipeline(&sources("{name: gpus, nvidia_smi: true}")).spec.telemetry;
    assert!(gpus[0].nvidia_smi && gpus[0].scrape.is_none());
    assert_snapshot!(refused("{name: q, nvidia_smi: true, pack: dcgm}"), @r"
    error: `spec.telemetry[0].pack` belongs to `prometheus`, and not to `nvidia_smi`
    hint: remove it: the program is asked for the same fields in every run
    ");
    assert_snapshot!(refused("{name: q, nvidia_smi: true}, {name: r, nvidia_smi: true}"), @r"
    error: `spec.telemetry[1]` reads the GPUs that `spec.telemetry[0]` reads
    hint: remove one of them: each GPU would be recorded twice
    ");
    let traces = pipeline(&sources("{name: traces, otlp: '127.0.0.1:4318'}, {name: six, otlp: '[::1]:4319'}")).spec.telemetry;
    assert_eq!(traces[0].otlp.as_deref(), Some("127.0.0.1:4318"));
    assert_snapshot!(refused("{name: a, otlp: '0.0.0.0:4318'}, {name: b, otlp: '127.0.0.1:0'}, {name: c, otlp: '127.0.0.1:4318', pack: dcgm}"), @r"
    error: `spec.telemetry[0].otlp` is not a loopback address: `0.0.0.0:4318`
    hint: `127.0.0.1:PORT` or `[::1]:PORT`: spans are received without credentials
    error: `spec.telemetry[1].otlp` is not a loopback address: `127.0.0.1:0`
    hint: its port is a number from 1 to 65535
    error: `spec.telemetry[2].pack` belongs to `prometheus`, and not to `otlp`
    hint: remove it: all spans that are sent to the address are recorded
    ");
    let slurm = pipeline(&sources("{name: slurm, sacct: command}, {name: file, sacct: /tmp/sacct.json}")).spec.telemetry;
    assert_eq!(slurm[1].sacct.as_deref(), Some("/tmp/sacct.json"));
    assert_snapshot!(refused("{name: q, sacct: sacct.json}"), @r"
    error: `spec.telemetry[0].sacct` is not the word `command` or an absolute path: `sacct.json`
    hint: `command`, or a path that begins with `/`
    ");
    assert_snapshot!(refused("{name: q, nvidia_smi: false}"), @r"
    error: `spec.telemetry[0].nvidia_smi` is `true` or left out
    hint: remove the source to read no GPUs
    ");
    assert_snapshot!(refused("{name: r}"), @"error: `spec.telemetry[0]` needs one of `scrape`, `prometheus`, `nvidia_smi`, `otlp`, `sacct`");
    assert_snapshot!(refused("{name: q, scrape: 'http://q'}, {name: q, scrape: 'http://r'}"), @"error: `q` is listed twice in `spec.telemetry` by `name`");
    assert_snapshot!(refused("{name: Q/, scrape: 'http://r'}"), @r"
    error: `spec.telemetry[0].name` is not a name: `Q/`
    hint: lower-case letters, digits and inner hyphens, at most 40 characters
    ");
    assert_snapshot!(refused("{name: a, scrape: 'ftp://q'}, {name: b, scrape: 'http://u:pw@q'}, {name: c, scrape: 'http://q?token=x'}"), @r"
    error: `spec.telemetry[0].scrape` is not an address: `ftp://q`
    hint: its scheme has to be `http` or `https`, and is `ftp`
    error: `spec.telemetry[1].scrape` carries a user or password
    hint: remove it; `headers` refers to the credentials of a `prometheus`, and an exporter is asked without any
    error: `spec.telemetry[2].scrape` carries a key or token
    hint: remove it; `headers` refers to the credentials of a `prometheus`, and an exporter is asked without any
    ");
    let many: Vec<_> = (0..17).map(|index| format!("{{name: n{index}, scrape: 'http://q'}}")).collect();
    assert_snapshot!(refused(&many.join(", ")), @"error: `spec.telemetry` has 17 items; at most 16 are allowed");
}

#[test]
fn limits_of_validity_are_stated_with_a_reason() {
    let with = |limits: &str| minimal("  targets:", &format!("  trials: {{validity: {limits}}}\n  targets:"));
    let own = "{reason: 'tails below 10 ms', lateness_p99: 5ms, stall: 100ms, delay_share: 0.01, steal_share: 0, retransmit_share: 0.001}";
    assert_eq!(with(own), "no problem");
    assert!(with("{lateness_p99: 10ms}").contains("`spec.trials.validity` lacks `reason`"), "{}", with("{lateness_p99: 10ms}"));
    let beyond = with("{reason: r, lateness_p99: 2s}");
    assert!(beyond.contains("must be from 5ms to 1s"), "{beyond}");
    assert!(
        with("{reason: r, sent_share: 1.5}").contains("`spec.trials.validity.sent_share` must be"),
        "{}",
        with("{reason: r, sent_share: 1.5}")
    );
    let text = replace_part(PIPELINE, "  targets:", &format!("  trials: {{validity: {own}}}\n  targets:"));
    let expected = ValidityLimits {
        lateness_p99_ns: Count(5_000_000),
        stall_ns: Count(100_000_000),
        delay_share: 0.01,
        steal_share: Some(0.0),
        retransmit_share: Some(0.001),
        reason: Some("tails below 10 ms".to_owned()),
        ..ValidityLimits::default()
    };
    assert_eq!(pipeline(&text).spec.trials.validity, expected);
    assert_eq!(pipeline(PIPELINE).spec.trials.validity, ValidityLimits::default(), "the defaults of the two are the same");
}

#[test]
fn numbers_with_an_interval_need_three_trials() {
    assert_snapshot!(comparing("trials: {count: 7, retry_budget: 0}", "trials: {count: 2}"), @r"
    error: `intent: publication` needs at least 3 trials of each point
      --> a.yaml:29:19
       |
    29 |   trials: {count: 2}
       |                   ^
    hint: write 3 or more; fewer are for `intent: exploratory`
    ");
    assert_snapshot!(comparing("trials: {count: 7, retry_budget: 0}", "trials: {count: 1}"), @r"
    error: `intent: publication` needs at least 3 trials of each point
      --> a.yaml:29:19
       |
    29 |   trials: {count: 1}
       |                   ^
    hint: write 3 or more; fewer are for `intent: exploratory`
    ");
    assert_eq!(minimal("  targets:", "  trials: {count: 1}\n  targets:"), "no problem");
    assert_snapshot!(minimal("  targets:", "  trials: {count: 0}\n  targets:"), @r"
    error: `spec.trials.count` must be from 1 to 1000, not 0
     --> a.yaml:6:19
      |
    6 |   trials: {count: 0}
      |                   ^
    ");
}

#[test]
fn a_gate_needs_something_to_compare_with() {
    assert_snapshot!(minimal("  targets:", "  gates: [{name: g}]\n  targets:"), @r"
    error: a gate needs something to compare with
     --> a.yaml:6:11
      |
    6 |   gates: [{name: g}]
      |           ^^^^^^^^
    hint: write `comparison`; `assay gate --baseline history` compares with earlier runs and needs no gate
    ");
    assert_snapshot!(comparing("budget_pct: 2.5", "budget_pct: 0"), @r"
    error: `spec.gates[0].budget_pct` must be above 0 and at most 100, not 0
      --> a.yaml:47:59
       |
    47 |     - {name: latency, metrics: [ttft_ms_p99], budget_pct: 0}
       |                                                           ^
    ");
}

#[test]
fn the_stages_have_one_order() {
    let stages = |names: &str| minimal("  targets:", &format!("  stages: [{names}]\n  targets:"));
    assert_eq!(
        stages("{name: plan}, {name: provision}, {name: execute}, {name: collect}, {name: reduce}, {name: publish}"),
        "no problem"
    );
    assert_snapshot!(stages("{name: plan}, {name: execute}, {name: provision}, {name: collect}, {name: reduce}, {name: publish}"), @r"
    error: the stage `execute` stands where `provision` belongs
     --> a.yaml:6:26
      |
    6 |   stages: [{name: plan}, {name: execute}, {name: provision}, {name: collect}, {name: reduce}, {name: publish}]
      |                          ^^^^^^^^^^^^^^
    hint: the chain has one order, each stage taking what the one before gives: plan, provision, execute, collect, reduce, publish
    ");
    assert_snapshot!(stages("{name: plan}, {name: provision}, {name: execute}"), @r"
    error: `spec.stages` lacks `collect`, `reduce`, `publish`
     --> a.yaml:6:3
      |
    6 |   stages: [{name: plan}, {name: provision}, {name: execute}]
      |   ^^^^^^
    hint: the chain has one order, each stage taking what the one before gives: plan, provision, execute, collect, reduce, publish
    ");
    assert_snapshot!(stages("{name: plan}, {name: plan}"), @r"
    error: the stage `plan` stands where `provision` belongs
     --> a.yaml:6:26
      |
    6 |   stages: [{name: plan}, {name: plan}]
      |                          ^^^^^^^^^^^
    hint: the chain has one order, each stage taking what the one before gives: plan, provision, execute, collect, reduce, publish

    error: `plan` is listed twice in `spec.stages` by `name`
     --> a.yaml:6:33
      |
    6 |   stages: [{name: plan}, {name: plan}]
      |                                 ^^^^
    ");
    assert_snapshot!(stages("{name: build}"), @r"
    error: `spec.stages[0].name` must be one of `plan`, `provision`, `execute`, `collect`, `reduce`, `publish`, not `build`
     --> a.yaml:6:19
      |
    6 |   stages: [{name: build}]
      |                   ^^^^^
    ");
    assert_snapshot!(stages("{name: plan, timout: 1m}"), @r"
    error: `spec.stages` lacks `provision`, `execute`, `collect`, `reduce`, `publish`
     --> a.yaml:6:3
      |
    6 |   stages: [{name: plan, timout: 1m}]
      |   ^^^^^^
    hint: the chain has one order, each stage taking what the one before gives: plan, provision, execute, collect, reduce, publish

    error: `spec.stages[0]` has no field `timout`
     --> a.yaml:6:25
      |
    6 |   stages: [{name: plan, timout: 1m}]
      |                         ^^^^^^
    hint: did you mean `timeout`?
    ");
}

#[test]
fn secrets_are_references() {
    assert_snapshot!(comparing("HF_TOKEN: {from_env: HF_TOKEN}", "HF_TOKEN: hf_very_secret"), @r"
    error: `HF_TOKEN` looks like a secret; a definition holds references to secrets only
      --> a.yaml:16:19
       |
    16 |         HF_TOKEN: …
       |                   ^
    hint: give its place, `{from_env: NAME}` or `{from_file: PATH}`, in a target's `env`
    ");
    assert_snapshot!(comparing("Authorization: {from_file: /run/secrets/key}", "Authorization: Bearer very-secret"), @r"
    error: `spec.targets[0].headers.authorization` must say where its value is found, never what it is
      --> a.yaml:19:24
       |
    19 |         Authorization: …
       |                        ^
    hint: write `{from_env: NAME}` or `{from_file: PATH}`
    ");
    assert_snapshot!(comparing("HF_TOKEN: {from_env: HF_TOKEN}", "HF_TOKEN: {from_env: A, from_file: b}"), @r"
    error: `spec.targets[0].env.HF_TOKEN` takes only one of `from_env`, `from_file`
      --> a.yaml:16:19
       |
    16 |         HF_TOKEN: …
       |                   ^
    hint: `from_env` is given too; keep one of them
    ");
    assert_snapshot!(comparing("HF_TOKEN: {from_env: HF_TOKEN}", "HF_TOKEN: {value: hidden}"), @r"
    error: `spec.targets[0].env.HF_TOKEN` has no field `…`
      --> a.yaml:16:19
       |
    16 |         HF_TOKEN: …
       |                   ^
    hint: it takes `from_env`, `from_file`

    error: `spec.targets[0].env.HF_TOKEN` needs one of `from_env`, `from_file`
      --> a.yaml:16:19
       |
    16 |         HF_TOKEN: …
       |                   ^
    ");
    assert_snapshot!(minimal("kind: host}", "kind: host}\n  variants: [{name: fast, env: {API_PASSWORD: very-secret}}]"), @r"
    error: `API_PASSWORD` looks like a secret; a definition holds references to secrets only
     --> a.yaml:8:47
      |
    8 |   variants: [{name: fast, env: {API_PASSWORD: …
      |                                               ^
    hint: give its place, `{from_env: NAME}` or `{from_file: PATH}`, in a target's `env`
    ");
    assert!(!comparing("HF_TOKEN: {from_env: HF_TOKEN}", "HF_TOKEN: [hf_very_secret]").contains("very_secret"));
}

#[test]
fn certificates_are_places_of_a_target_over_tls() {
    let with = |url: &str, more: &str| {
        let target = format!("targets: [{{name: a, kind: endpoint, url: '{url}', {more}}}]");
        format!("apiVersion: assay.dev/v1alpha1\nkind: Pipeline\nmetadata: {{name: p}}\nspec: {{workloads: [w], {target}}}\n")
    };
    let client = "client: {cert: {from_file: /c.pem}, key: {from_env: KEY}}";
    let read = pipeline(&with("https://h", &format!("tls: {{ca: {{from_env: CA}}, {client}}}"))).spec.targets.remove(0);
    let tls = read.tls.expect("certificates");
    assert_eq!(tls.ca, Some(SecretRef::Env("CA".to_owned())));
    let client_read = tls.client.expect("a client certificate");
    assert_eq!((client_read.cert, client_read.key), (SecretRef::File("/c.pem".to_owned()), SecretRef::Env("KEY".to_owned())));
    let refused = |url: &str, more: &str| {
        let text = problems(&with(url, more));
        text.lines().filter_map(|line| line.strip_prefix("error: ")).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        refused("http://h", &format!("tls: {{{client}}}")),
        "`spec.targets[0].tls` is for a target at `https`, and `spec.targets[0].url` begins with `http://`"
    );
    assert_eq!(
        refused("https://h", "tls: {ca: {from_env: CA}}, insecure_skip_tls_verify: true"),
        "`spec.targets[0].tls.ca` has no effect if `spec.targets[0].insecure_skip_tls_verify` accepts any certificate"
    );
    assert_eq!(refused("https://h", "tls: {}"), "`spec.targets[0].tls` needs at least one of `ca`, `client`");
    let half = "tls: {client: {cert: {from_env: CERT}}}";
    assert_eq!(refused("https://h", half), "`spec.targets[0].tls.client` lacks `key`");
    let pem = "tls: {client: {cert: {from_env: CERT}, key: '-----BEGIN PRIVATE KEY-----'}}";
    let message = "`spec.targets[0].tls.client.key` must say where its value is found, never what it is";
    assert_eq!(refused("https://h", pem), message);
    assert!(!problems(&with("https://h", pem)).contains("BEGIN"));
}

#[test]
fn headers_are_one_whatever_their_case() {
    let twice = "authorization: {from_env: A}\n        Authorization: {from_env: B}";
    assert_snapshot!(comparing("Authorization: {from_file: /run/secrets/key}", twice), @r"
    error: `spec.targets[0].headers.authorization` is given twice
      --> a.yaml:20:9
       |
    20 |         Authorization: {from_env: B}
       |         ^^^^^^^^^^^^^
    ");
}

#[test]
fn a_header_is_a_reference_with_a_scheme_or_a_value_that_is_no_secret() {
    let header = |written: &str| comparing("Authorization: {from_file: /run/secrets/key}", written);
    let accepted = pipeline(&replace_part(
        COMPARING,
        "Authorization: {from_file: /run/secrets/key}",
        "Authorization: {from_env: KEY, scheme: Bearer}\n        X-Org: {value: acme}",
    ));
    let variables: Vec<_> = accepted.spec.targets[0].headers.iter().map(|(name, header)| header.to_env_var(name)).collect();
    assert_eq!((variables[0].from_env.as_deref(), variables[0].scheme.as_deref()), (Some("KEY"), Some("Bearer")));
    assert_eq!((variables[1].name.as_str(), variables[1].value.as_deref()), ("x-org", Some("acme")));
    for secret in ["Authorization: {value: hunter22}", "X-Org: {value: Bearer hunter22}"] {
        let said = header(secret);
        assert!(said.contains("looks like a secret") && !said.contains("hunter22"), "{said}");
    }
    assert!(header("Authorization: {from_env: A, value: b}").contains("takes only one of"));
    assert!(header("Authorization: {from_env: A, scheme: Digest}").contains("must be one of `Bearer`, `Basic`, `Token`"));
}

#[test]
fn controls_are_required_or_declared() {
    assert_snapshot!(comparing("{require: true}", "{require: true, declare: yes it is}"), @r"
    error: `spec.controls.locked_clocks` takes only one of `require`, `declare`
      --> a.yaml:43:36
       |
    43 |     locked_clocks: {require: true, declare: yes it is}
       |                                    ^^^^^^^
    hint: `require` is given too; keep one of them
    ");
    assert_snapshot!(comparing("locked_clocks: {require: true}", "lock_clocks: {require: true}"), @r"
    error: `spec.controls` has no field `lock_clocks`
      --> a.yaml:43:5
       |
    43 |     lock_clocks: {require: true}
       |     ^^^^^^^^^^^
    hint: did you mean `locked_clocks`?
    ");
}

#[test]
fn an_earlier_run_is_nothing_to_plan_with() {
    assert_snapshot!(minimal("  targets:", "  baseline: {run: nightly}\n  targets:"), @r"
    error: `spec` has no field `baseline`
     --> a.yaml:6:3
      |
    6 |   baseline: {run: nightly}
      |   ^^^^^^^^
    hint: it takes `intent`, `workloads`, `targets`, `variants`, `telemetry`, `trials`, `isolation`, `placement`, `comparison`, `shards`, `load`, `pricing`, `claim`, `controls`, `gates`, `stages`, `schedule`, `publish`, `fetch`, `time_limit`
    ");
}

#[test]
fn the_rest_is_well_formed() {
    assert_snapshot!(comparing("cron: 0 2 * * *", "cron: '@daily'"), @r"
    error: `spec.schedule.cron` is not a schedule: `@daily`
      --> a.yaml:59:20
       |
    59 |   schedule: {cron: '@daily', timezone: Europe/Berlin}
       |                    ^^^^^^^^
    hint: five fields: minute, hour, day of month, month, day of week, in numbers
    ");
    assert_snapshot!(comparing("timezone: Europe/Berlin", "timezone: Berlin time"), @r"
    error: `spec.schedule.timezone` is not a time zone: `Berlin time`
      --> a.yaml:59:41
       |
    59 |   schedule: {cron: 0 2 * * *, timezone: Berlin time}
       |                                         ^^^^^^^^^^^
    hint: `UTC` or a name of the IANA database
    ");
    assert_snapshot!(comparing("queries/latency.sql", "queries/latency.txt"), @r"
    error: `spec.publish.queries[0]` is not the path of a query: `queries/latency.txt`
      --> a.yaml:60:23
       |
    60 |   publish: {queries: [queries/latency.txt], branch: numbers, folder: release}
       |                       ^^^^^^^^^^^^^^^^^^^
    hint: must end with `.sql`
    ");
    assert_snapshot!(comparing("allow: [example.org]", "allow: ['*.org']"), @r"
    error: `spec.fetch.allow[0]` is not a host: `*.org`
      --> a.yaml:61:19
       |
    61 |   fetch: {allow: ['*.org']}
       |                   ^^^^^^^
    hint: a host name, with a port after `:` if it needs one
    ");
    assert_snapshot!(comparing("as_of: 2026-11-01", "as_of: last week"), @r"
    error: `spec.pricing.as_of` is not a date: `last week`
      --> a.yaml:36:70
       |
    36 |   pricing: {gpu_hour: 2.5, currency: USD, source: price list, as_of: last week}
       |                                                                      ^^^^^^^^^
    hint: a day that exists, as `YYYY-MM-DD`
    ");
    assert_snapshot!(comparing("currency: USD", "currency: $"), @r"
    error: `spec.pricing.currency` is not a currency: `$`
      --> a.yaml:36:38
       |
    36 |   pricing: {gpu_hour: 2.5, currency: $, source: price list, as_of: 2026-11-01}
       |                                      ^
    hint: the three letters of ISO 4217
    ");
    assert_snapshot!(comparing("memory: 2Gi", "memory: 2GiB"), @r"
    error: `spec.stages[2].resources.memory` is not a quantity: `2GiB`
      --> a.yaml:53:38
       |
    53 |       resources: {cpu: 500m, memory: 2GiB}
       |                                      ^^^^
    hint: a number with `m`, `k`, `M`, `G`, `T`, `Ki`, `Mi`, `Gi` or `Ti`
    ");
    assert_snapshot!(comparing("shards: 2", "shards: 0"), @r"
    error: `spec.shards` must be from 1 to 1024, not 0
      --> a.yaml:35:11
       |
    35 |   shards: 0
       |           ^
    ");
    assert_snapshot!(comparing("shards: 2", "shards: autos"), @r"
    error: `spec.shards` must be `auto` or a whole number, not `autos`
      --> a.yaml:35:11
       |
    35 |   shards: autos
       |           ^^^^^
    hint: did you mean `auto`?
    ");
    assert_snapshot!(comparing("shards: 2", "shards: [2]"), @r"
    error: `spec.shards` must be `auto` or a whole number, not a list
      --> a.yaml:35:11
       |
    35 |   shards: [2]
       |           ^^
    ");
    assert_snapshot!(comparing("image: registry.example.org/assay:1", "image: Assay"), @r"
    error: `spec.stages[2].image` is not a container image: `Assay`
      --> a.yaml:52:14
       |
    52 |       image: Assay
       |              ^^^^^
    hint: a repository in lower case, then `:tag` or `@sha256:` and 64 digits
    ");
    assert_snapshot!(comparing("{team: serving}", "{Team: serving}"), @r"
    error: `metadata.labels` is not a label's name: `Team`
     --> a.yaml:6:12
      |
    6 |   labels: {Team: serving}
      |            ^^^^
    hint: lower-case letters, digits and inner `.`, `_`, `/`, `-`
    ");
}

#[test]
fn shards_are_counted_unless_their_number_is_named() {
    let shards = |text: &str| pipeline(&replace_part(COMPARING, "shards: 2", text)).spec.shards;
    assert_eq!(shards("shards: 2"), Shards::Count(2));
    assert_eq!(shards("shards: auto"), Shards::Auto);
    assert_eq!(shards("isolation: none"), Shards::Auto, "it is the default");
}

#[test]
fn a_branch_may_be_of_another_remote() {
    let spec =
        pipeline(&replace_part(COMPARING, "branch: numbers,", "branch: numbers, remote: 'git@example.org:team/numbers.git',"))
            .spec;
    assert_eq!(spec.publish.remote.as_deref(), Some("git@example.org:team/numbers.git"));
    assert_eq!((spec.publish.branch.as_deref(), spec.publish.folder.as_deref()), (Some("numbers"), Some("release")));
    assert_eq!(pipeline(COMPARING).spec.publish.remote, None);
    let by_ssh = "branch: numbers, remote: 'ssh://git@example.org/team/numbers.git',";
    assert!(pipeline(&replace_part(COMPARING, "branch: numbers,", by_ssh)).spec.publish.remote.is_some());
    assert_snapshot!(comparing("branch: numbers,", "branch: numbers, remote: 'https://token@example.org/a',"), @r"
    error: `spec.publish.remote` carries a user or password
      --> a.yaml:60:70
       |
    60 |   publish: {queries: [queries/latency.sql], branch: numbers, remote: …
       |                                                                      ^
    hint: remove it; git has credential helpers and ssh keys of its own
    ");
    assert_snapshot!(comparing("branch: numbers,", "branch: numbers, remote: /srv/a.git,"), @r"
    error: `spec.publish.remote` is not a remote: `/srv/a.git`
      --> a.yaml:60:70
       |
    60 |   publish: {queries: [queries/latency.sql], branch: numbers, remote: /srv/a.git, folder: release}
       |                                                                      ^^^^^^^^^^
    hint: a remote's name such as `origin`, or an https, ssh, git or file address without password or token
    ");
    assert_snapshot!(comparing("branch: numbers, folder: release", "remote: origin, folder: release"), @r"
    error: `spec.publish.remote` says where on a branch, and no branch is named
      --> a.yaml:60:53
       |
    60 |   publish: {queries: [queries/latency.sql], remote: origin, folder: release}
       |                                                     ^^^^^^
    hint: write `branch`, or remove `remote`

    error: `spec.publish.folder` says where on a branch, and no branch is named
      --> a.yaml:60:69
       |
    60 |   publish: {queries: [queries/latency.sql], remote: origin, folder: release}
       |                                                                     ^^^^^^^
    hint: write `branch`, or remove `folder`
    ");
    assert_snapshot!(comparing("branch: numbers,", "branch: -x, remote: origin,"), @r"
    error: `spec.publish.branch` is not a branch: `-x`
      --> a.yaml:60:53
       |
    60 |   publish: {queries: [queries/latency.sql], branch: -x, remote: origin, folder: release}
       |                                                     ^^
    hint: letters, digits and inner `.`, `_`, `/`, `-`, as Git allows
    ");
}

#[test]
fn only_an_endpoint_is_at_a_unix_socket() {
    for url in ["unix:/run/server.sock", "unix:/run/server.sock:/openai/v1"] {
        assert_eq!(minimal("kind: host", &format!("kind: endpoint, url: '{url}'")), "no problem");
    }
    let refused = |kind: &str, url: &str| minimal("kind: host", &format!("kind: {kind}, url: '{url}'"));
    let long = format!("unix:/{}", "a".repeat(107));
    for (kind, url, said) in [
        ("endpoint", "unix:server.sock", "hint: must name the absolute path of a socket of at most 107 bytes after `unix:`"),
        ("endpoint", long.as_str(), "hint: must name the absolute path of a socket of at most 107 bytes after `unix:`"),
        ("endpoint", "unix:/run/server.sock:v1", "after a second `:` comes a path, as in `unix:/run/server.sock:/v1`"),
        (
            "simulator",
            "unix:/run/server.sock",
            "`spec.targets[0].url` is a Unix socket, at which only an `endpoint` may be, not `kind: simulator`",
        ),
    ] {
        let text = refused(kind, url);
        assert!(text.starts_with("error: `spec.targets[0].url` is ") && text.contains(said), "{text}");
    }
    let longest = &long[..long.len() - 1];
    assert_eq!(refused("endpoint", longest), "no problem");
}
