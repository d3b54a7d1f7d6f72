//! Prompts of token ids over the real binaries: their lengths are exact, and a cache finds the blocks of a trace to the token.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving::{self, MODEL};
use crate::support::{Fixture, PIPELINE};
use crate::traces::{found_in_blocks_of, metric, mooncake, records};

/// Writes a workload that replays a trace of Mooncake by token ids.
fn write_trace(fixture: &Fixture) {
    fixture.write("workloads/replayed/trace.jsonl", &mooncake());
    let fields = "  batching_policy: none
  api: completions
  load: {mode: replay, speed: [2]}
  trace: {path: trace.jsonl, format: mooncake}
  token_ids: {least: 1000, most: 31999}
";
    serving::workload_of(fixture, "replayed", fields);
}

#[test]
fn a_trace_by_token_ids_has_its_lengths_and_its_hits_to_the_block() {
    let mut digests = BTreeSet::new();
    // Blocks of the trace's own size, of a smaller one, and of one that is none of its parts.
    for (size, shards) in [(512, 1), (16, 3), (100, 1)] {
        let fixture = Fixture::bare();
        write_trace(&fixture);
        let target = format!("{{name: simulator, kind: simulator, config: {{profile: fast, block_tokens: {size}}}}}");
        let shards = format!("  shards: {shards}\n");
        fixture.write(PIPELINE, &serving::pipeline(&["replayed"], &[&target], 1, serving::RETRY_BUDGET, &shards));
        fixture.commit("token ids");
        fixture.run("ids").success();
        fixture.verify_recomputed("ids");
        for record in records(&fixture, "ids").into_iter().flatten() {
            let lengths = [record.input_tokens_requested, record.input_tokens_endpoint];
            assert_eq!(lengths, [Some(record.input_tokens); 2], "the plan, the client and `usage` agree");
        }
        let mut lengths: Vec<u32> = records(&fixture, "ids").remove(0).iter().map(|record| record.input_tokens).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, [300, 1_100, 1_100, 1_200, 1_500, 1_500, 1_600, 2_000]);
        let found = found_in_blocks_of(size);
        assert!((metric(&fixture, "ids", "speed-2", "cached_tokens") - found as f64).abs() < 0.5, "{size}: {found}");
        assert!((metric(&fixture, "ids", "speed-2", "reuse_efficiency") - 1.0).abs() < 1e-9);
        let parts: Vec<Value> = fixture.pointers("ids", "execute").iter().map(|part| part.load(&fixture.store())).collect();
        let attempts = parts.iter().flat_map(|part| list(&part["body"]["attempts"]).clone());
        digests.extend(attempts.map(|attempt| attempt["serving"]["schedule_digest"].to_string()));
        let shown = fixture.assay(&["show", "ids", "--all"]).success().stdout;
        assert!(shown.replace('\n', " ").contains("as token ids from 1000 to 31999"), "{shown}");
    }
    assert_eq!(digests.len(), 1, "one schedule for any number of shards");
}

/// Writes a tokenizer whose tokens are words with the ids of 0 to 300.
fn write_tokenizer(fixture: &Fixture) {
    let words = ["[UNK]"].into_iter().chain(assay_tokens::COMMON_WORDS.lines().take(300));
    let vocabulary: serde_json::Map<String, Value> = words.enumerate().map(|(id, word)| (word.to_owned(), id.into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    fixture.write("tokenizer.json", &tokenizer.to_string());
}

#[test]
fn synthetic_prompts_are_ids_of_the_words_of_a_tokenizer() {
    let fixture = Fixture::new();
    write_tokenizer(&fixture);
    let bodies = Arc::new(Mutex::new(Vec::<Value>::new()));
    let kept = Arc::clone(&bodies);
    let server = Server::start(MODEL, move |request| {
        kept.lock().expect("no panic").push(serde_json::from_slice(&request.body).expect("JSON"));
        (complete_stream(), AfterResponse::KeepAlive)
    });
    let url = server.url();
    let load =
        ["bench", "--url", &url, "--model", MODEL, "--concurrency", "2", "--trials", "1", "--warmup", "0s", "--requests", "6"];
    let ids = ["--api", "completions", "--tokenizer", "tokenizer.json", "--prompt-token-ids", "--input-tokens", "40"];
    let more = ["--prefix", "system=20", "--output-tokens", "4", "--run-id", "ids"];
    fixture.assay(&[&load[..], &ids, &more].concat()).success();
    fixture.verify("ids").success();
    let bodies = bodies.lock().expect("no panic").clone();
    let prompts: Vec<Vec<u64>> =
        bodies.iter().map(|body| list(&body["prompt"]).iter().map(|id| id.as_u64().expect("an id")).collect()).collect();
    assert_eq!(prompts.iter().map(Vec::len).collect::<Vec<_>>(), [60; 6]);
    assert!(prompts.iter().flatten().all(|id| (1..=300).contains(id)), "no prompt has the unknown token");
    let beginnings: BTreeSet<&[u64]> = prompts.iter().map(|prompt| &prompt[..20]).collect();
    let ends: BTreeSet<&[u64]> = prompts.iter().map(|prompt| &prompt[20..]).collect();
    assert_eq!((beginnings.len(), ends.len()), (1, 6));
    let plan = fixture.manifest("ids", "plan");
    assert_eq!(text(&plan["body"]["workloads"][0]["serving"]["token_ids"]["from"]), "tokenizer");
}

#[test]
fn what_has_no_token_ids_says_so() {
    let fixture = Fixture::new();
    fixture.write("prompts.jsonl", "{\"prompt\": \"a b\"}\n");
    let refused = |more: &[&str]| {
        let load = ["bench", "--simulator", "fast", "--concurrency", "1", "--requests", "1", "--warmup", "0s", "--run-id", "no"];
        fixture.assay(&[&load[..], more].concat()).refuses(2, "option").stderr
    };
    let cases: [(&[&str], &str); 5] = [
        (&["--prompt-token-ids", "0..99"], "requests of `--api chat` have no token ids"),
        (&["--api", "completions", "--prompt-token-ids"], "has neither a range of ids nor the file of a `tokenizer`"),
        (&["--api", "completions", "--prompt-token-ids", "0..9"], "has no range of ids: 10 ids are fewer than 64"),
        (
            &["--api", "completions", "--prompt-token-ids", "0..99", "--dataset", "prompts.jsonl"],
            "the rows of a dataset of the format `jsonl` have texts",
        ),
        (
            &["--api", "completions", "--prompt-token-ids", "0..99", "--text", "natural"],
            "which are no text of the kind `natural`",
        ),
    ];
    for (options, reason) in cases {
        let stderr = refused(options);
        assert!(stderr.contains(reason), "{stderr}");
    }
}
