//! Freezing: changes that affect a workload's digest, and changes that do not.

use assay_manifest::Digest;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::{INDICATOR, SERVING, replace_part, workload};
use crate::{FrozenSpec, Pins, Workload, derive_seed, render};

fn pins() -> Pins {
    let contents =
        ["run.sh", "stream.c", "https://example.org/run.sh"].map(|name| (name.to_owned(), Digest::compute(name.as_bytes())));
    let images = [("python:3.12".to_owned(), Digest::compute(b"image"))];
    Pins { contents: contents.into(), images: images.into() }
}

fn freeze(text: &str) -> FrozenSpec {
    workload(text).freeze(&pins()).expect("frozen")
}

fn digest(text: &str) -> String {
    freeze(text).digest.to_string()
}

/// These digests decide which results may be compared: a change here makes every older result incomparable.
#[test]
fn golden_digests() {
    assert_snapshot!(String::from_utf8(freeze(INDICATOR).bytes).expect("UTF-8"), @r#"{"files":[{"path":"stream.c","sha256":"df13d035f564df3735f9c66ea25f62879e5b3b4508239093825ef79aaa6fb910"}],"metrics":[{"better":"higher","path":"copy.rate","unit":"GB/s"},{"better":"lower","path":"copy.elapsed","primary":false,"unit":"ms"}],"parameters":{"ARRAY_MIB":["64","256"],"REPS":"20","THREADS":["1","2","4"]},"prepare":{"command":["cc","-O3","-o","stream","stream.c"],"outputs":["stream"]},"script":{"path":"run.sh","sha256":"d31ce0453051853c17ba2a5225b3d1bfab548e095bab0967d6acfd1b3ce1b35d"},"time_limit":"2m","type":"indicator"}"#);
    assert_snapshot!(digest(INDICATOR), @"sha256:79e74eee050774f58a89aa6a5652909345034dc283b924d6a3517baa088c6497");
    assert_snapshot!(String::from_utf8(freeze(SERVING).bytes).expect("UTF-8"), @r#"{"batching_policy":"continuous","deployment_model":"deployment_per_gpu","lengths":"N(480,240)/(300,150)","load":{"arrival":"gamma","duration":"1m","mode":"open","rate":[1,2.5,10],"smoothness":0.5,"warmup":"10s"},"model":"llama-3.1-8b","precision":"fp8","protocol":"openai_compatible_http","slos":{"tpot":"200ms","ttft":"2s"},"stack":"vllm","type":"serving"}"#);
    assert_snapshot!(digest(SERVING), @"sha256:ca1b388f89572261497d8383c0fe14e3bb93f7e7dfb0e2973bc79dab26ea6976");
    let smallest =
        "{apiVersion: assay.dev/v1alpha1, kind: Workload, metadata: {name: x}, spec: {type: indicator, script: {path: run.sh}}}";
    assert_snapshot!(digest(smallest), @"sha256:954299f29906952f5797392a67dd3baf4848ec3e1d7ebcd57465eaa00094ab7a");
    assert_snapshot!(freeze(smallest).seed, @"c3c92c4839ed562d4334eef4aeb16996169f8b22b9a19d3d340bfe3a7d33358f");
}

#[test]
fn form_changes_nothing() {
    let same = [
        replace_part(INDICATOR, "name: stream", "name: other"),
        replace_part(INDICATOR, "  owner: performance\n", "  description: Words.\n  labels: {a: b}\n"),
        replace_part(INDICATOR, "spec:\n", "# a comment\nspec:\n"),
        replace_part(INDICATOR, "  script: {path: run.sh}\n", "  script:\n    path: './run.sh'\n"),
        replace_part(INDICATOR, "time_limit: 2m", "time_limit: 120s"),
        replace_part(INDICATOR, "REPS: 20", "REPS: '20'"),
        replace_part(INDICATOR, "better: higher}", "better: higher, primary: true}"),
        replace_part(INDICATOR, "outputs: [stream]\n", "outputs: [stream]\n    time_limit: 10m\n"),
        replace_part(
            INDICATOR,
            "    ARRAY_MIB: [64, 256]\n    THREADS: [1, 2, 4]\n",
            "    THREADS: [1, 2, 4]\n    ARRAY_MIB: [64, 256]\n",
        ),
        INDICATOR.replace('\n', "\r\n"),
    ];
    for text in &same {
        assert_eq!(digest(text), digest(INDICATOR), "{text}");
    }
    let same = [
        replace_part(
            SERVING,
            "  slos:",
            "  cache: cold_salt\n  streaming: true\n  capture: digest\n  time_limit: 30m\n  files: []\n  metrics: []\n  slos:",
        ),
        replace_part(SERVING, "rate: [1, 2.5, 10]", "rate: [1.0, 2.50, 1e1]"),
        replace_part(SERVING, "ttft: 2s", "ttft: 2000ms"),
        replace_part(SERVING, "duration: 60s", "duration: 1m\n    timeout: 300s"),
    ];
    for text in &same {
        assert_eq!(digest(text), digest(SERVING), "{text}");
    }
}

#[test]
fn meaning_changes_the_digest() {
    let others = [
        replace_part(INDICATOR, "time_limit: 2m", "time_limit: 121s"),
        replace_part(INDICATOR, "REPS: 20", "REPS: 21"),
        replace_part(INDICATOR, "REPS: 20", "REPS: 20.0"),
        replace_part(INDICATOR, "REPS: 20", "REPS: [20]"),
        replace_part(INDICATOR, "[64, 256]", "[256, 64]"),
        replace_part(INDICATOR, "primary: false", "primary: true"),
        replace_part(INDICATOR, "better: higher", "better: lower"),
        replace_part(INDICATOR, "unit: GB/s", "unit: MB/s"),
        replace_part(INDICATOR, "-O3", "-O2"),
        replace_part(INDICATOR, "files: [stream.c]", "files: []"),
        replace_part(INDICATOR, "time_limit: 2m", "time_limit: 2m\n  image: python:3.12"),
        replace_part(INDICATOR, "time_limit: 2m", "time_limit: 2m\n  framework: c"),
        replace_part(INDICATOR, "{path: run.sh}", "{url: https://example.org/run.sh}"),
        replace_part(INDICATOR, "time_limit: 2m", &format!("time_limit: 2m\n  seed: {}", "0a".repeat(32))),
    ];
    let mut seen = std::collections::BTreeSet::from([digest(INDICATOR)]);
    for text in &others {
        assert!(seen.insert(digest(text)), "{text}");
    }
    let others = [
        replace_part(SERVING, "10]", "11]"),
        replace_part(SERVING, "gamma\n    smoothness: 0.5", "constant"),
        replace_part(SERVING, "model: llama-3.1-8b", "model: llama-3.1-70b"),
        replace_part(SERVING, "  slos:", "  cache: warm\n  slos:"),
        replace_part(SERVING, "tpot: 200ms", "tpot: 201ms"),
        replace_part(SERVING, "N(480,240)", "N(480,241)"),
        replace_part(SERVING, "warmup: 10s", "warmup: 0s"),
    ];
    for text in &others {
        assert!(seen.insert(digest(text)), "{text}");
    }
}

#[test]
fn contents_change_the_digest() {
    for name in ["run.sh", "stream.c"] {
        let mut other = pins();
        other.contents.insert(name.to_owned(), Digest::compute(b"changed"));
        assert_ne!(workload(INDICATOR).freeze(&other).expect("frozen").digest, freeze(INDICATOR).digest, "{name}");
    }
}

#[test]
fn the_order_of_files_means_nothing() {
    let files = |list: &str| digest(&replace_part(INDICATOR, "files: [stream.c]", &format!("files: {list}")));
    assert_eq!(files("[stream.c, a.h]"), files("[a.h, stream.c]"));
}

#[test]
fn what_is_not_pinned_is_said() {
    let text = replace_part(INDICATOR, "time_limit: 2m", "time_limit: 2m\n  image: python:3.12");
    assert_eq!(workload(&text).freeze(&Pins::default()).expect("frozen").unpinned, ["run.sh", "stream.c", "python:3.12"]);
    assert!(freeze(&text).unpinned.is_empty());
    let pinned = replace_part(&text, "python:3.12", &format!("python@{}", Digest::compute(b"image")));
    assert!(freeze(&pinned).unpinned.is_empty());
}

#[test]
fn a_declared_digest_is_held_to() {
    let declare = |bytes: &[u8]| {
        let text = replace_part(
            INDICATOR,
            "{path: run.sh}",
            &format!("{{url: https://example.org/run.sh, sha256: {}}}", Digest::compute(bytes)),
        );
        workload(&text).freeze(&pins())
    };
    assert!(declare(b"https://example.org/run.sh").is_ok());
    assert_snapshot!(declare(b"other").expect_err("other content"), @"`https://example.org/run.sh` has sha256 fe3e462637c4fff342a1828cf6dc129012d415b76bdc0ddc9b60a3977401d3b4, and the workload declares d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa");
}

#[test]
fn a_declared_digest_fixes_the_spec_before_the_fetch() {
    let url = "https://example.org/run.sh";
    let text = replace_part(INDICATOR, "{path: run.sh}", &format!("{{url: {url}, sha256: {}}}", Digest::compute(url.as_bytes())));
    let mut unfetched = pins();
    unfetched.contents.remove(url);
    let before = workload(&text).freeze(&unfetched).expect("frozen");
    assert_eq!((before.digest, before.unpinned), (freeze(&text).digest, vec![url.to_owned()]));
}

#[test]
fn seeds_are_declared_or_derived() {
    let frozen = freeze(INDICATOR);
    assert_eq!(frozen.seed, derive_seed(&frozen.digest));
    assert_ne!(frozen.seed, frozen.digest.hex());
    let seed = "0a".repeat(32);
    assert_eq!(freeze(&replace_part(INDICATOR, "time_limit: 2m", &format!("seed: {seed}"))).seed, seed);
}

/// Writes a workload from the values of its fields, in some order of keys and with or without its defaults.
fn write_workload(order: &[usize], defaults: bool, (reps, limit, primary): (u32, u32, bool)) -> String {
    let mut fields = vec![
        "type: indicator".to_owned(),
        "script: {path: run.sh}".to_owned(),
        format!("parameters: {{REPS: {reps}}}"),
        format!("time_limit: {limit}s"),
        format!("metrics: [{{path: a, unit: s, better: lower, primary: {primary}}}]"),
    ];
    if defaults {
        fields.push("files: []".to_owned());
    }
    let mut keyed: Vec<_> = fields.iter().zip(order).collect();
    keyed.sort_by_key(|(_, key)| **key);
    let lines: String = keyed.iter().map(|(field, _)| format!("  {field}\n")).collect::<Vec<_>>().concat();
    format!("apiVersion: assay.dev/v1alpha1\nkind: Workload\nmetadata: {{name: x}}\nspec:\n{lines}")
}

proptest! {
    #[test]
    fn the_digest_is_a_function_of_the_meaning(
        order in prop::collection::vec(0usize..100, 6), defaults: bool,
        a in (1u32..3, 1u32..3, any::<bool>()), b in (1u32..3, 1u32..3, any::<bool>()),
    ) {
        let parse = |text: String| Workload::parse("w.yaml", text.as_bytes()).map_err(|problems| TestCaseError::fail(render(&problems)));
        let left = parse(write_workload(&order, defaults, a))?.freeze(&pins()).expect("frozen").digest;
        let right = parse(write_workload(&[0; 6], false, b))?.freeze(&pins()).expect("frozen").digest;
        prop_assert_eq!(left == right, a == b);
    }
}
