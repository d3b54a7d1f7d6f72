//! Whole imports: examples, each row of each table, credentials and the commonest mistakes.

mod contracts;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::Value;

use crate::command::{Flag, Takes, Treatment};
use crate::format::{Example, ExampleInput};
use crate::formats::{aiperf, benchmark_job, genai_bench, guidellm, guidellm_run, sglang, vllm};
use crate::{FORMATS, Import, ImportOptions, Outcome, Source, import, recognise, reference_page};

/// A value that no output may contain.
const CANARY: &str = "canary-4f2b9c7d1e";

const JOB: &str = "apiVersion: ome.io/v1beta1
kind: BenchmarkJob
metadata: {name: job}
spec:
  endpoint: {endpoint: {url: 'http://h:1', apiFormat: openai, modelName: m}}
  task: text-to-text
  trafficScenarios: ['D(1,2)']
  numConcurrency: [1]
  maxTimePerIteration: 1
  maxRequestsPerIteration: 1
  outputLocation: {storageUri: 's3://b/p'}
";

fn file(text: &str) -> Import {
    import(&Source::File { name: "job.yaml", bytes: text.as_bytes() }, &ImportOptions::default()).expect("a format")
}

fn command(words: &[&str]) -> Import {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    import(&Source::Command(&words), &ImportOptions::default()).expect("a format")
}

fn example(example: &Example) -> Import {
    let options = example.import_options();
    let words = example.input.words();
    let source = match example.input {
        ExampleInput::File(text) => Source::File { name: "job.yaml", bytes: text.as_bytes() },
        ExampleInput::Command(_) => Source::Command(&words),
    };
    import(&source, &options).expect("a format")
}

/// Returns the rows of an outcome, a line each.
fn rows(import: &Import, outcome: Outcome) -> String {
    let line = |row: &crate::Row| {
        let parts = [Some(&row.field), row.to.as_ref(), row.note.as_ref()];
        parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" | ")
    };
    import.rows.iter().filter(|row| row.outcome == outcome).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_example_is_recognised_and_makes_definitions() {
    for format in FORMATS {
        assert!(!format.examples.is_empty(), "{}", format.name);
        for each in format.examples {
            let imported = example(each);
            assert_eq!((imported.format, rows(&imported, Outcome::Refused)), (format.name, String::new()), "{}", each.name);
            assert!(imported.files.len() >= 2 && imported.commands.len() == 1, "{}: {:?}", each.name, imported.files);
        }
    }
}

#[test]
fn an_endpoint_becomes_a_workload_for_each_scenario_and_a_pipeline() {
    let imported = file(JOB);
    let text: String = imported.files.iter().map(|file| format!("== {}\n{}", file.path, file.text)).collect::<Vec<_>>().concat();
    assert_snapshot!(text);
    assert_eq!(imported.commands, ["assay run pipelines/job.yaml --store 's3://b/p'"]);
}

#[test]
fn a_service_keeps_its_overrides() {
    let imported = example(&benchmark_job::FORMAT.examples[0]);
    assert_snapshot!(imported.files.last().expect("the pipeline").text);
}

/// Each row of the table of a BenchmarkJob has a case: the field, its value, and its outcome.
#[test]
fn each_field_of_a_benchmark_job_has_its_outcome() {
    use Outcome::{Approximated, Ignored, Mapped, Refused, SecretReference};
    let service = "endpoint: {inferenceService: {name: a, namespace: b}}";
    let cases: &[(&str, &str, &str, Outcome)] = &[
        ("metadata.name", "metadata: {name: Job.X}", "metadata.name", Approximated),
        ("metadata.namespace", "metadata: {name: j, namespace: a}", "metadata.namespace", Ignored),
        ("metadata.labels.*", "metadata: {name: j, labels: {team: a}}", "metadata.labels.team", Ignored),
        ("metadata.*", "metadata: {name: j, uid: a}", "metadata.uid", Ignored),
        ("status", "status: {state: Completed}", "status", Ignored),
        ("spec.endpoint.inferenceService.name", service, "spec.endpoint.inferenceService.name", Mapped),
        ("spec.endpoint.inferenceService.namespace", service, "spec.endpoint.inferenceService.namespace", Mapped),
        (
            "spec.endpoint.endpoint.url",
            "endpoint: {endpoint: {url: 'https://u:p@h/v1/completions', apiFormat: openai, modelName: m}}",
            "spec.endpoint.endpoint.url",
            Approximated,
        ),
        (
            "spec.endpoint.endpoint.apiFormat",
            "endpoint: {endpoint: {url: 'http://h', apiFormat: cohere, modelName: m}}",
            "spec.endpoint.endpoint.apiFormat",
            Refused,
        ),
        (
            "spec.endpoint.endpoint.modelName",
            "endpoint: {endpoint: {url: 'http://h', apiFormat: openai, modelName: a b}}",
            "spec.endpoint.endpoint.modelName",
            Refused,
        ),
        ("spec.serviceMetadata.engine", "serviceMetadata: {engine: vLLM}", "spec.serviceMetadata.engine", Mapped),
        ("spec.serviceMetadata.version", "serviceMetadata: {version: 0.9}", "spec.serviceMetadata.version", Mapped),
        ("spec.serviceMetadata.gpuType", "serviceMetadata: {gpuType: A100}", "spec.serviceMetadata.gpuType", Approximated),
        ("spec.serviceMetadata.gpuCount", "serviceMetadata: {gpuCount: 0}", "spec.serviceMetadata.gpuCount", Refused),
        ("spec.task", "task: image-to-embeddings", "spec.task", Refused),
        ("spec.trafficScenarios", "trafficScenarios: []", "spec.trafficScenarios(absent)", Mapped),
        ("spec.numConcurrency", "numConcurrency: [1, 1]", "spec.numConcurrency[1]", Ignored),
        ("spec.maxTimePerIteration", "maxTimePerIteration: 0", "spec.maxTimePerIteration", Refused),
        ("spec.maxRequestsPerIteration", "maxRequestsPerIteration: '7'", "spec.maxRequestsPerIteration", Mapped),
        (
            "spec.additionalRequestParams.*",
            "additionalRequestParams: {temperature: '0.0'}",
            "spec.additionalRequestParams.temperature",
            Mapped,
        ),
        ("spec.dataset", "dataset: {storageUri: 'hf://a'}", "spec.dataset", Ignored),
        (
            "spec.huggingFaceSecretReference.name",
            "huggingFaceSecretReference: {name: hf}",
            "spec.huggingFaceSecretReference.name",
            SecretReference,
        ),
        ("spec.outputLocation.storageUri", "outputLocation: {storageUri: 'az://a/c'}", "spec.outputLocation.storageUri", Refused),
        (
            "spec.outputLocation.parameters.*",
            "outputLocation: {storageUri: 's3://b', parameters: {aws_secret_access_key: x}}",
            "spec.outputLocation.parameters.aws_secret_access_key",
            SecretReference,
        ),
        (
            "spec.outputLocation.*",
            "outputLocation: {storageUri: 's3://b', downloadPolicy: AlwaysDownload}",
            "spec.outputLocation.downloadPolicy",
            Ignored,
        ),
        ("spec.resultFolderName", "resultFolderName: a", "spec.resultFolderName", Ignored),
        ("spec.podOverride.image", "podOverride: {image: a}", "spec.podOverride.image", Ignored),
        (
            "spec.podOverride.resources",
            "podOverride: {resources: {limits: {cpu: 1}}}",
            "spec.podOverride.resources",
            Approximated,
        ),
        ("spec.podOverride.nodeSelector", "podOverride: {nodeSelector: {pool: load}}", "spec.podOverride.nodeSelector", Mapped),
        (
            "spec.podOverride.tolerations",
            "podOverride: {tolerations: [{key: a, operator: Exists}]}",
            "spec.podOverride.tolerations",
            Mapped,
        ),
        ("spec.podOverride.affinity", "podOverride: {affinity: {nope: 1}}", "spec.podOverride.affinity", Refused),
        (
            "spec.podOverride.volumes",
            "podOverride: {volumes: [{name: a, hostPath: {path: /}}]}",
            "spec.podOverride.volumes",
            Refused,
        ),
        (
            "spec.podOverride.volumeMounts",
            "podOverride: {volumeMounts: [{name: a, mountPath: relative}]}",
            "spec.podOverride.volumeMounts",
            Refused,
        ),
        ("spec.podOverride.envFrom", "podOverride: {envFrom: [{configMapRef: {name: a}}]}", "spec.podOverride.envFrom", Mapped),
        (
            "spec.podOverride.env",
            "podOverride: {env: [{name: API_TOKEN, value: x-y-z}]}",
            "spec.podOverride.env[0](API_TOKEN)",
            SecretReference,
        ),
        ("spec.endpoints", "endpoints: []", "spec.endpoints", Refused),
        ("spec.endpoint.external", "endpoint: {external: {url: a}}", "spec.endpoint.external", Refused),
        ("spec.comparisonMetrics", "comparisonMetrics: [a]", "spec.comparisonMetrics", Ignored),
        ("spec.customMetrics", "customMetrics: [a]", "spec.customMetrics", Ignored),
        ("spec.serviceMetadata.modelSize", "serviceMetadata: {modelSize: 8B}", "spec.serviceMetadata.modelSize", Ignored),
        ("spec.serviceMetadata.deployment", "serviceMetadata: {deployment: a}", "spec.serviceMetadata.deployment", Ignored),
        ("spec.serviceMetadata.model", "serviceMetadata: {model: a}", "spec.serviceMetadata.model", Ignored),
        ("spec.serviceMetadata.provider", "serviceMetadata: {provider: a}", "spec.serviceMetadata.provider", Ignored),
    ];
    let covered: Vec<&str> = cases.iter().map(|case| case.0).chain(["apiVersion", "kind"]).collect();
    for rule in benchmark_job::RULES {
        assert!(covered.contains(&rule.path), "`{}` has no case", rule.path);
    }
    for (rule, yaml, field, outcome) in cases {
        let imported = file(&with_field(yaml));
        let found = imported.rows.iter().find(|row| row.field == *field);
        assert_eq!(found.map(|row| row.outcome), Some(*outcome), "{rule}: {yaml}\n{:#?}", imported.rows);
    }
}

/// Returns the job with a field in place of its own one: of `metadata` or `status` at the top, or else of `spec`.
fn with_field(yaml: &str) -> String {
    let name = yaml.split(':').next().unwrap_or_default();
    let is_top = ["metadata", "status"].contains(&name);
    let own = if is_top { format!("{name}:") } else { format!("  {name}:") };
    let kept: String =
        JOB.lines().filter(|line| !line.starts_with(&own)).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    if is_top { format!("{yaml}\n{kept}") } else { format!("{kept}  {yaml}\n") }
}

/// Returns the words of a command that has a load, without an option that is given again.
fn with_option(base: &[&str], flag: &Flag) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = base.iter().peekable();
    while let Some(word) = rest.next() {
        if flag.names.contains(word) {
            rest.next();
        } else {
            words.push((*word).to_owned());
        }
    }
    words.push(flag.names[0].to_owned());
    words.extend(flag.example.split(' ').filter(|_| flag.takes != Takes::Nothing).map(str::to_owned));
    words
}

#[test]
fn each_option_of_a_command_has_its_outcome() {
    let genai = "genai-bench benchmark --api-backend vllm --api-base http://h:1 --api-model-name m --task text-to-text --traffic-scenario D(1,2) \
                 --num-concurrency 1 --max-time-per-run 1 --max-requests-per-run 1";
    let sglang_base = "python -m sglang.bench_serving --backend sglang-oai --model m --dataset-name random --request-rate 2";
    let guidellm_base = "guidellm benchmark --target http://h:1 --model m --profile constant --rate 1 --max-seconds 9 --data prompt_tokens=2,output_tokens=3";
    let guidellm_run_base = "guidellm run --backend kind=openai_http,target=http://h:1,model=m --profile kind=constant,rate=1 \
                             --constraint kind=max_duration,seconds=9 --data kind=synthetic_text,prompt_tokens=2,output_tokens=3";
    let aiperf_base = "aiperf profile -m m --concurrency 2 --isl 9 --osl 9";
    let vllm_base = "vllm bench serve --model m --request-rate 2";
    for (base, flags) in [
        (genai, genai_bench::FLAGS),
        (vllm_base, vllm::FLAGS),
        (sglang_base, sglang::FLAGS),
        (guidellm_base, guidellm::FLAGS),
        (guidellm_run_base, guidellm_run::FLAGS),
        (aiperf_base, aiperf::FLAGS),
    ] {
        let base: Vec<&str> = base.split_whitespace().collect();
        for flag in flags {
            let words = with_option(&base, flag);
            let imported = command(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let begins = |row: &&crate::Row| {
                row.field.strip_prefix(flag.names[0]).is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '[', '.']))
            };
            let found: Vec<Outcome> = imported.rows.iter().filter(begins).map(|row| row.outcome).collect();
            let expected = |outcome: &Outcome| match flag.treatment {
                Treatment::Carried(_) => {
                    [Outcome::Mapped, Outcome::Approximated, Outcome::SecretReference, Outcome::Ignored].contains(outcome)
                }
                Treatment::Ignored(_) => *outcome == Outcome::Ignored,
                Treatment::Refused(_) | Treatment::Unless { .. } => *outcome == Outcome::Refused,
            };
            assert!(!found.is_empty() && found.iter().all(expected), "{words:?}: {:#?}", imported.rows);
        }
    }
}

/// A mount names a volume, so the settings of a pod are judged together.
#[test]
fn the_mount_of_a_volume_is_kept() {
    let volumes = "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]";
    let mounts = "volumeMounts: [{name: v, mountPath: /mnt/v, readOnly: true}]";
    let imported = file(&with_field(&format!("podOverride: {{{volumes}, {mounts}}}")));
    assert_eq!(rows(&imported, Outcome::Refused), "");
    let pipeline = &imported.files.last().expect("the pipeline").text;
    assert!(pipeline.contains("/mnt/v") && pipeline.contains("claimName"), "{pipeline}");
    let alone = file(&with_field(&format!("podOverride: {{{mounts}}}")));
    assert!(rows(&alone, Outcome::Refused).starts_with("spec.podOverride.volumeMounts |"), "{:#?}", alone.rows);
}

/// Each member of each map of an example gets a neighbour that no tool knows, which has to be named.
#[test]
fn a_member_that_is_not_known_is_named_wherever_it_is() {
    for format in FORMATS.iter().filter(|format| format.name != "mlperf-conf") {
        for each in format.examples {
            let ExampleInput::File(text) = each.input else { continue };
            let Ok(document) = parse_one(text) else { continue };
            // Of a report, the scenario alone is read.
            let is_read = |pointer: &String| each.name != "report" || pointer.starts_with("/config/");
            // Of a file with several parts, the requested one.
            let only = each.options.split_whitespace().skip_while(|word| *word != "--only").nth(1).map(|part| format!("/{part}"));
            let is_asked = |pointer: &String| only.as_ref().is_none_or(|part| pointer.starts_with(part.as_str()));
            for pointer in maps_of(&document, String::new()).into_iter().filter(is_read).filter(is_asked) {
                let mut changed = document.clone();
                let map = changed.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("a map");
                map.insert("zzUnknown".to_owned(), CANARY.into());
                let text = changed.to_string();
                let source = Source::File { name: "job.yaml", bytes: text.as_bytes() };
                let Ok(imported) = import(&source, &each.import_options()) else { continue };
                assert!(!format!("{imported:?}").contains(CANARY) || is_copied(&pointer), "{}: {pointer}", each.name);
                let is_named = imported.rows.iter().any(|row| row.field.contains("zzUnknown"));
                let is_left_out =
                    imported.rows.iter().any(|row| row.document == 1 && covers(&row.field, &pointer) && row.to.is_none());
                // A neighbour among parts that have names is a part, and which one is meant is asked.
                let is_part = imported.rows.iter().any(|row| row.field == "--only(absent)");
                assert!(
                    is_named || is_left_out || is_part || is_copied(&pointer),
                    "{} {}: {pointer} is not named\n{:#?}",
                    format.name,
                    each.name,
                    imported.rows
                );
            }
        }
    }
}

/// Returns the document of a text that has one.
fn parse_one(text: &str) -> Result<Value, ()> {
    let mut documents = assay_spec::parse_documents("a.yaml", text.as_bytes()).map_err(|_| ())?;
    let document = documents.pop().ok_or(())?;
    if documents.is_empty() { Ok(document) } else { Err(()) }
}

/// Returns the pointers of the maps of a document; of a list, those of its first element.
fn maps_of(value: &Value, pointer: String) -> Vec<String> {
    match value {
        Value::Object(members) => {
            let below = members
                .iter()
                .flat_map(|(name, value)| maps_of(value, format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))));
            below.chain([pointer.clone()]).collect()
        }
        Value::Array(items) => items.first().map(|item| maps_of(item, format!("{pointer}/0"))).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// True if a row is of the value at a pointer, or of what it is in.
fn covers(field: &str, pointer: &str) -> bool {
    let pointer = pointer.strip_prefix("/config").unwrap_or(pointer).replace("~1", "/");
    let field = field.split('(').next().unwrap_or_default();
    // A flat scenario's members are named as the options that they are.
    let field = field.strip_prefix("--").map_or_else(|| field.to_owned(), |option| option.replace('-', "_"));
    let (field, pointer) = (steps_of(&field), steps_of(&pointer));
    !field.is_empty() && pointer.starts_with(&field)
}

/// Returns the names on the way to a value; any item of a list is `*`, which a row names by its number or its kind.
fn steps_of(place: &str) -> Vec<&str> {
    let item = |step| if step_is_item(step) { "*" } else { step };
    place.split(['.', '/', '[']).filter(|step| !step.is_empty()).map(item).collect()
}

fn step_is_item(step: &str) -> bool {
    step.ends_with(']') || step.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for the maps that are copied as they are: packages of a stack, and what a pod takes from a job.
fn is_copied(pointer: &str) -> bool {
    ["/python/requirements", "/spec/podOverride/nodeSelector"].iter().any(|copied| pointer.starts_with(copied))
}

#[test]
fn the_commonest_mistakes_have_a_remedy() {
    let refused = |yaml: &str| rows(&file(&with_field(yaml)), Outcome::Refused);
    assert_snapshot!(refused("trafficScenarios: ['burst(100,5,10)', 'D(1,2) ', 'E(5)', reasoning_short]"));
    assert_snapshot!(refused("endpoint: {endpoint: {url: 'h:1/v1', apiFormat: openai}}"));
    assert_snapshot!(refused("outputLocation: {storageUri: 'pvc://claim/results'}"));
    assert_snapshot!(rows(&file(&with_field("numConcurency: [1]")), Outcome::Ignored));
    let unknown =
        command(&["vllm", "bench", "serve", "--model", "m", "--request-rat", "3", "--dataset-name", "sharegpt", "stray"]);
    assert_snapshot!(rows(&unknown, Outcome::Refused));
}

/// A credential in any field, known or not, is in no file, row or error.
#[test]
fn no_credential_survives() {
    let secret = format!("sk-{CANARY}");
    for value in [CANARY, secret.as_str()] {
        let yamls = [
            format!("unknown: {value}"),
            format!("additionalRequestParams: {{note: {value}, api_key: {value}, deep: {{list: [{value}]}}}}"),
            format!(
                "outputLocation: {{storageUri: 's3://b/p', parameters: {{aws_secret_access_key: {value}, other: {value}}}, key: {value}}}"
            ),
            format!("outputLocation: {{storageUri: 'github://o/r', parameters: {{token: {value}}}}}"),
            format!("outputLocation: {{storageUri: 'az://a:{value}@x?sig={value}'}}"),
            format!(
                "podOverride: {{env: [{{name: PLAIN, value: {value}}}, {{name: API_KEY, value: {value}}}], affinity: {{x: {value}}}, y: {value}}}"
            ),
            format!("endpoint: {{endpoint: {{url: 'http://user:{value}@h:1/v1', apiFormat: openai, modelName: m}}}}"),
            format!("endpoint: {{endpoint: {{url: 'http://h:1/v1?key={value}', apiFormat: openai, modelName: m}}}}"),
            format!("metadata: {{name: j, annotations: {{a: {value}}}, labels: {{b: {value}}}}}"),
            format!("status: {{failureMessage: {value}}}"),
            format!("dataset: {{storageUri: 'hf://a', parameters: {{token: {value}}}}}"),
            format!("trafficScenarios: ['{value}', 'D(1,2)']"),
            format!("task: {value}"),
            format!("resultFolderName: {value}"),
            format!("broken: {value}\n bad: [{value}"),
            format!("twice: {value}\n  twice: {value}"),
        ];
        for yaml in &yamls {
            let text = with_field(yaml);
            let imported = import(&Source::File { name: "job.yaml", bytes: text.as_bytes() }, &ImportOptions::default());
            assert!(!format!("{imported:?}").contains(CANARY), "{yaml}\n{imported:#?}");
        }
        let secret_document =
            format!("{JOB}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{key: {value}}}\n");
        let imported = file(&secret_document);
        assert!(!format!("{imported:?}").contains(CANARY) && rows(&imported, Outcome::Ignored).contains("(Secret)"));
        let header = format!("Authorization=Bearer_{value}");
        let body = format!("{{\"user\":\"{value}\",\"deep\":{{\"x\":[\"{value}\"]}}}}");
        let leading = format!("HF_TOKEN={value}");
        let unknown = format!("--unknown={value}");
        let imported = command(&[
            &leading,
            "vllm",
            "bench",
            "serve",
            "--model",
            "m",
            "--header",
            &header,
            "--extra-body",
            &body,
            &unknown,
            "--other",
            value,
            value,
        ]);
        assert!(!format!("{imported:?}").contains(CANARY), "{imported:#?}");
        let genai =
            format!("genai-bench benchmark --api-key {value} --security-token {value} --api-base http://h?k={value} {value}");
        let words: Vec<&str> = genai.split_whitespace().collect();
        assert!(!format!("{:?}", command(&words)).contains(CANARY));
    }
}

#[test]
fn formats_are_recognised_by_what_they_hold() {
    let name =
        |text: &str| recognise(&Source::File { name: "benchmarkjob.yaml", bytes: text.as_bytes() }).map(|format| format.name);
    assert_eq!(name(JOB), Some("ome-benchmarkjob"));
    assert_eq!(name(&JOB.replace("ome.io/v1beta1", "example.org/v1")), None, "another group has a kind of the same name");
    assert_eq!(name("apiVersion: assay.dev/v1alpha1\nkind: Workload\n"), None);
    assert!(
        rows(&file(&JOB.replace("v1beta1", "v2")), Outcome::Refused).contains("ome.io/v1beta1"),
        "a version that is not known"
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let of = |line: &str| recognise(&Source::Command(&words(line))).map(|format| format.name);
    assert_eq!(of("env A=b /opt/bin/vllm bench serve --model m"), Some("vllm-bench-serve"));
    assert_eq!((of("vllm serve m"), of("genai-bench excel"), of("")), (None, None, None));
}

#[test]
fn a_model_is_named_by_the_user_or_not_at_all() {
    let without = JOB.replace(", modelName: m", "");
    assert!(rows(&file(&without), Outcome::Refused).contains("--model NAME") && file(&without).files.is_empty());
    let options = ImportOptions { model: Some("named".to_owned()), ..ImportOptions::default() };
    let imported = import(&Source::File { name: "a", bytes: without.as_bytes() }, &options).expect("a job");
    assert!(imported.files[0].text.contains("\n  model: named\n") && imported.count(Outcome::Refused) == 0, "{imported:?}");
}

#[test]
fn refused_fields_leave_the_rest_for_those_who_want_it() {
    let imported = file(&with_field("outputLocation: {storageUri: 'gs://b/p'}"));
    assert_eq!((imported.count(Outcome::Refused), imported.files.len()), (1, 2));
    assert_eq!(imported.commands, ["assay run pipelines/job.yaml"]);
}

#[test]
fn a_key_in_the_path_of_an_address_is_refused() {
    let address = |path: &str| {
        with_field(&format!("endpoint: {{endpoint: {{url: 'http://h:1/{path}/v1', apiFormat: openai, modelName: m}}}}"))
    };
    let imported = file(&address("sk-abcdefghijklmnopqrstuvwxyz012345"));
    assert!(rows(&imported, Outcome::Refused).contains("its path holds a key") && !format!("{imported:?}").contains("sk-abc"));
    assert_eq!(rows(&file(&address("serving")), Outcome::Refused), "");
}

#[test]
fn a_default_of_the_other_tool_is_stated() {
    let note = "the default of the other tool is written out";
    let imported = command(&["vllm", "bench", "serve", "--model", "m", "--max-concurrency", "4"]);
    assert!(rows(&imported, Outcome::Mapped).contains(&format!("--num-prompts(absent) | workload spec.load.requests | {note}")));
    assert!(imported.files[0].text.contains("requests: 1000\n"), "{}", imported.files[0].text);
    let given = command(&["vllm", "bench", "serve", "--model", "m", "--max-concurrency", "4", "--num-prompts", "9"]);
    assert!(rows(&given, Outcome::Mapped).contains("--num-prompts | workload spec.load.requests\n"));
}

/// Returns the row of a refused field, without the field.
fn refused_row(imported: &Import, field: &str) -> String {
    let found: Vec<String> = rows(imported, Outcome::Refused)
        .lines()
        .filter_map(|line| line.strip_prefix(field)?.strip_prefix(" | "))
        .map(str::to_owned)
        .collect();
    assert_eq!(found.len(), 1, "{field}: {:#?}", imported.rows);
    let others = imported.rows.iter().filter(|row| row.field == field || row.field == format!("{field}(absent)"));
    assert_eq!(others.count(), 1, "a refused field has no other row: {:#?}", imported.rows);
    found.concat()
}

#[test]
fn a_refused_field_states_the_value_that_stands_in_its_place() {
    let vllm = "vllm bench serve --model m --max-concurrency 4";
    let sglang = "python -m sglang.bench_serving --model m --dataset-name random --request-rate 2";
    let aiperf = "aiperf profile -m m --isl 9 --osl 9";
    let (requests, input) = ("workload spec.load.requests", "workload spec.lengths.input");
    let default = |remedy: &str, to: &str, value: &str| {
        format!("{to} | {remedy}; the default of the other tool, {value}, stands in its place")
    };
    let whole = |to: &str, value: &str| default("write a whole number", to, value);
    let number = |to: &str, value: &str| default("write a number of 0 or more", to, value);
    let several = "write a whole number, or several with commas between them";
    let twice = "this is given twice: keep one of them; the first of its values stands in its place";
    for (base, given, written, expected) in [
        (vllm, "--num-prompts abc", "requests: 1000\n", whole(requests, "1000")),
        (vllm, "--random-input-len 1k", "fixed: 1024", whole(input, "1024")),
        (vllm, "--random-range-ratio x", "fixed: 1024", number("workload spec.lengths", "0")),
        (vllm, "--port x", ":8000\"", whole("pipeline spec.targets[0].url", "8000")),
        (vllm, "--request-rate 2 --burstiness x", "arrival: poisson", number("workload spec.load.arrival", "1")),
        (vllm, "--num-prompts 5 --num-prompts 6", "requests: 5\n", format!("{requests} | {twice}")),
        (
            vllm,
            "--backend",
            "api: completions",
            "workload spec.api | this option takes a value; the default of the other tool stands in its place".to_owned(),
        ),
        (sglang, "--random-output-len x", "tokens: 1024", whole("workload spec.lengths.output", "1024")),
        (aiperf, "--concurrency abc", "concurrency: [1]", default(several, "workload spec.load.concurrency", "1")),
        (aiperf, "--request-count", "requests: 10\n", default("this option takes a value", requests, "10")),
        (aiperf, "--isl-stddev x", "fixed: 9", number(input, "0")),
        (
            aiperf,
            "--request-rate 2 --concurrency abc",
            "rate: [2]",
            format!("workload spec.load | {several}; no limit of concurrency stands in its place"),
        ),
    ] {
        let imported = command(&format!("{base} {given}").split_whitespace().collect::<Vec<_>>());
        let field = given.split_whitespace().rfind(|word| word.starts_with("--")).expect("an option");
        assert_eq!(refused_row(&imported, field), expected, "{given}");
        let texts: String = imported.files.iter().map(|file| file.text.as_str()).collect();
        assert!(texts.contains(written), "{given}\n{texts}");
        let note = expected.split(" | ").nth(1).expect("a note");
        let comments = texts.replace("\n# ", " ");
        assert!(comments.contains(&format!("`{field}` is refused: {note}")), "{given}\n{texts}");
    }
    let unlimited = command(&["vllm", "bench", "serve", "--model", "m", "--max-concurrency", "4x"]);
    let how = "all requests are sent at once, as by as many users as there are requests";
    let note = format!("write a whole number; the default of the other tool stands in its place: {how}");
    assert_eq!(refused_row(&unlimited, "--max-concurrency"), format!("workload spec.load.concurrency | {note}"));
}

/// Without a value of the other tool that could stand in its place, a refused load leaves nothing to write.
#[test]
fn a_rate_that_is_none_is_not_replaced_by_users() {
    let imported = command(&["aiperf", "profile", "-m", "m", "--request-rate", "fast", "--isl", "9", "--osl", "9"]);
    assert_eq!(refused_row(&imported, "--request-rate"), "write a number of 0 or more");
    assert!(imported.files.is_empty() && !rows(&imported, Outcome::Mapped).contains("--concurrency"), "{imported:#?}");
}

#[test]
fn an_option_of_the_import_behind_the_command_has_its_place() {
    for option in ["--to", "--partial", "--dry-run", "--force", "--json"] {
        let imported = command(&["vllm", "bench", "serve", "--model", "m", option]);
        assert_eq!(refused_row(&imported, option), "this is an option of `assay import`: write it before the `--`");
    }
    let other = command(&["vllm", "bench", "serve", "--model", "m", "--tow"]);
    assert!(!refused_row(&other, "--tow").contains("assay import"));
}

#[test]
fn an_encoded_password_of_an_address_is_refused_unseen() {
    let job =
        with_field(&format!("endpoint: {{endpoint: {{url: 'http://u%3A{CANARY}%40h/v1', apiFormat: openai, modelName: m}}}}"));
    for imported in
        [file(&job), command(&["vllm", "bench", "serve", "--model", "m", "--base-url", &format!("http://u%3A{CANARY}%40h/v1")])]
    {
        assert!(rows(&imported, Outcome::Refused).contains("write the host without `%`"), "{imported:#?}");
        assert!(!format!("{imported:?}").contains(CANARY));
    }
}

/// Requests of a warm-up are not measured by the other tool, so an import that left them out silently would measure a cold endpoint.
#[test]
fn a_warm_up_of_requests_is_refused() {
    let rows_of = |line: &str, outcome| rows(&command(&line.split_whitespace().collect::<Vec<_>>()), outcome);
    for (base, option, nothing) in [
        ("aiperf profile -m m --isl 9 --osl 9", "--warmup-request-count", "0"),
        ("vllm bench serve --model m --max-concurrency 4", "--num-warmups", "0"),
        ("python -m sglang.bench_serving --model m --dataset-name random --request-rate 2", "--warmup-requests", "1"),
    ] {
        let refused = rows_of(&format!("{base} {option} 50"), Outcome::Refused);
        assert!(refused.starts_with(option) && refused.contains("write `load.warmup: TIME`"), "{refused}");
        assert_eq!(rows_of(&format!("{base} {option} {nothing}"), Outcome::Refused), "");
        assert!(rows_of(&format!("{base} {option} {nothing}"), Outcome::Ignored).contains(option));
    }
}

#[test]
fn limits_of_latencies_that_differ_are_approximated() {
    let of = |limits: &str| {
        let line = format!("vllm bench serve --model m --request-rate 2 --goodput {limits}");
        let imported = command(&line.split_whitespace().collect::<Vec<_>>());
        assert!(!rows(&imported, Outcome::Mapped).contains("--goodput"));
        let approximated = rows(&imported, Outcome::Approximated);
        let row = approximated.lines().find_map(|line| line.strip_prefix("--goodput | workload spec.slos | "));
        row.expect("a row").to_owned()
    };
    let send = "the other tool counts from the send time, and Assay from the intended time if a request has one";
    let per_token = "the other tool divides by the output tokens after the first, and Assay by those after the first event";
    assert_eq!(of("tpot:50"), format!("`tpot`: {per_token}"));
    assert_eq!(of("e2el:900"), format!("`e2e`: {send}"));
    assert_eq!(of("ttft:200 tpot:50 e2el:900"), format!("`e2e` and `ttft`: {send}; `tpot`: {per_token}"));
}

#[test]
fn a_table_has_each_name_once() {
    for format in FORMATS {
        let fields = (format.fields)();
        // `OPTION` stands for the options of one tool, and again for those of another.
        let is_name = |name: &&str| *name != "OPTION";
        let mut names: Vec<&str> = fields.iter().flat_map(|field| field.field.split("`, `")).filter(is_name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}: {names:?}", format.name);
    }
}

/// Notes are parts of sentences: none ends in a full stop.
#[test]
fn no_note_ends_in_a_full_stop() {
    let stores = ["s3://b/p", "oci://n/ns/b/bucket/o/a", "github://o/r", "gs://b/p"];
    let jobs = stores.map(|store| {
        file(&with_field(&format!("outputLocation: {{storageUri: '{store}', parameters: {{region: eu-frankfurt-1}}}}")))
    });
    let examples = FORMATS.iter().flat_map(|format| format.examples).map(example);
    for row in jobs.into_iter().chain(examples).flat_map(|imported| imported.rows) {
        assert!(!row.note.as_ref().is_some_and(|note| note.ends_with('.')), "{row:?}");
    }
}

#[test]
fn long_runs_have_limits_that_fit() {
    let scenarios: Vec<String> = (1..=9).map(|tokens| format!("'D({tokens},2)'")).collect();
    let long = with_field(&format!("trafficScenarios: [{}]", scenarios.join(", ")))
        .replace("numConcurrency: [1]", "numConcurrency: [1, 2, 4, 8, 16, 32, 64, 128, 256]");
    let imported = file(&long.replace("maxTimePerIteration: 1\n", "maxTimePerIteration: 30\n"));
    assert_eq!((imported.count(Outcome::Refused), imported.files.len()), (0, 10), "{:?}", imported.rows);
    let pipeline = &imported.files[9].text;
    assert!(pipeline.contains("timeout: 61h") && pipeline.contains("time_limit: 61h"), "{pipeline}");
    assert!(imported.files[0].text.contains("time_limit: 45m"), "{}", imported.files[0].text);
}

#[test]
fn several_jobs_of_one_file_are_imported_together() {
    let imported = file(&format!("---\n---\n{JOB}---\n{}", JOB.replace("name: job", "name: other")));
    let paths: Vec<&str> = imported.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "workloads/job-d-1-2/workload.yaml",
            "pipelines/job.yaml",
            "workloads/other-d-1-2/workload.yaml",
            "pipelines/other.yaml"
        ]
    );
    assert_eq!(imported.commands.len(), 2);
}

#[test]
fn the_page_has_each_field_of_each_format() {
    let page = reference_page();
    for format in FORMATS {
        assert!(page.contains(&format!("## {}\n", format.name)));
        for field in (format.fields)() {
            assert!(page.contains(&format!("| `{}` | {} |", field.field, field.treatment)), "{}", field.field);
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_given_is_imported_or_refused(text in "[-a-z0-9:\\[\\]{}'\",.() \n]{0,80}") {
        let _ = import(&Source::File { name: "a", bytes: with_field(&format!("numConcurrency: {text}")).as_bytes() }, &ImportOptions::default());
        let words: Vec<String> = ["vllm", "bench", "serve"].into_iter().chain(text.split(' ')).map(str::to_owned).collect();
        let _ = import(&Source::Command(&words), &ImportOptions::default());
    }
}

proptest! {
    /// An example of any format with one byte changed, or cut: it is imported or refused, and what is imported is valid.
    #[test]
    fn a_damaged_definition_is_imported_or_refused(
        format in 0..FORMATS.len(), place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        for each in FORMATS[format].examples {
            let ExampleInput::File(text) = each.input else { continue };
            let mut bytes = text.as_bytes().to_vec();
            bytes[place.index(text.len())] = byte;
            for bytes in [&bytes[..], &bytes[..cut.index(text.len())]] {
                let Ok(imported) = import(&Source::File { name: "a", bytes }, &each.import_options()) else { continue };
                let definitions = imported.files.iter().filter(|file| file.is_definition());
                let problems = assay_spec::validate(definitions.map(|file| (file.path.as_str(), file.text.as_bytes())));
                prop_assert_eq!(problems, vec![]);
            }
        }
    }
}

/// A run publishes a file as it is, so the file is searched for credentials that no output has.
#[test]
fn credentials_of_a_file_are_found_in_fields_and_comments() {
    for format in FORMATS {
        for each in format.examples.iter().filter(|each| matches!(each.input, ExampleInput::File(_))) {
            assert_eq!(example(each).credentials, [""; 0], "{}", each.name);
        }
    }
    let parameters = |parameters: &str| JOB.replace("'s3://b/p'", &format!("'s3://b/p', parameters: {parameters}"));
    let cases = [
        (parameters("{aws_secret_access_key: canary}"), "spec.outputLocation.parameters.aws_secret_access_key"),
        (JOB.replace("http://h:1", "http://robot:canary@h:1"), "spec.endpoint.endpoint.url"),
        (JOB.replace("http://h:1", "http://robot@h:1"), "spec.endpoint.endpoint.url"),
        (format!("{JOB}  podOverride: {{env: [{{name: API_KEY, value: canary}}]}}\n"), "spec.podOverride.env[0](API_KEY)"),
        (format!("{JOB}  customHeaders: {{Authorization: Bearer canary}}\n"), "spec.customHeaders.Authorization"),
        (format!("{JOB}# API_KEY=canary\n"), "line 12"),
        (format!("{JOB}  # - name: API_KEY\n  #   value: canary\n"), "line 12"),
        (format!("{JOB}# api_key:\n#   canary\n"), "line 12"),
        (format!("{JOB}# - {{name: API_KEY, value: canary}}\n"), "line 12"),
        (format!("{JOB}---\nkind: Secret\nstringData: {{llama: canary}}\n"), "(Secret)"),
    ];
    for (text, place) in cases {
        assert_eq!(file(&text).credentials.first().map(String::as_str), Some(place), "{text}");
    }
    let plain = [
        parameters("{aws_access_key_id: REDACTED, auth: instance_principal}"),
        format!("{JOB}  huggingFaceSecretReference: {{name: huggingface}}\n"),
        format!("{JOB}  podOverride: {{env: [{{name: T, valueFrom: {{secretKeyRef: {{name: team, key: token}}}}}}]}}\n"),
        format!("{JOB}# the key is in the Secret `assay-endpoints`\n"),
    ];
    for text in plain {
        assert_eq!(file(&text).credentials, [""; 0], "{text}");
    }
}

#[test]
fn each_pipeline_names_its_document() {
    let import = file(&format!("---\n{JOB}---\n{{}}\n---\n{}", JOB.replace("name: job", "name: other")));
    let pipelines: Vec<(usize, &str)> =
        import.pipelines.iter().map(|pipeline| (pipeline.document, pipeline.path.as_str())).collect();
    assert_eq!(pipelines, [(1, "pipelines/job.yaml"), (3, "pipelines/other.yaml")]);
}
