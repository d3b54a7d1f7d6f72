//! Tokenizers of files over the real binaries: prompts have their exact lengths by the file, which the Plan pins.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::pipeline::text;
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving::MODEL;
use crate::support::{CommandResult, Fixture};

/// Vocabularies of tiktoken, beside the vectors that tiktoken made with them.
const VOCABULARIES: &str = include_str!("../../crates/tokens/src/tiktoken/golden.json");

fn vocabulary(name: &str) -> String {
    let golden: Value = serde_json::from_str(VOCABULARIES).expect("JSON");
    text(&golden["vocabularies"][name]).to_owned()
}

/// Runs `assay bench` with fixed lengths against a server that keeps the bodies of its requests, and returns them.
fn bench(fixture: &Fixture, run_id: &str, more: &[&str]) -> (CommandResult, Vec<Value>) {
    let lengths = ["--concurrency", "2", "--requests", "6", "--input-tokens", "40", "--output-tokens", "4"];
    send(fixture, run_id, &[&lengths[..], more].concat())
}

/// Runs `assay bench` against a server that keeps the bodies of its requests, and returns them.
fn send(fixture: &Fixture, run_id: &str, more: &[&str]) -> (CommandResult, Vec<Value>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let server = Server::start(MODEL, move |request| {
        kept.lock().expect("no panic").push(serde_json::from_slice(&request.body).expect("JSON"));
        (complete_stream(), AfterResponse::KeepAlive)
    });
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--trials", "1", "--warmup", "0s", "--run-id", run_id];
    let ran = fixture.assay(&[&load[..], more].concat());
    let bodies = bodies.lock().expect("no panic").clone();
    (ran, bodies)
}

fn planned_tokenizer(fixture: &Fixture, run_id: &str) -> Value {
    fixture.manifest(run_id, "plan")["body"]["workloads"][0]["serving"]["tokenizer"].clone()
}

#[test]
fn prompts_have_their_lengths_by_a_vocabulary_of_tiktoken() {
    let fixture = Fixture::new();
    let file = vocabulary("words");
    fixture.write("words.tiktoken", &file);
    let tokenizer = ["--tokenizer", "words.tiktoken", "--tokenizer-pattern", "o200k_base"];
    let (ran, bodies) = bench(&fixture, "tiktoken", &tokenizer);
    ran.success();
    let counted = assay_tokens::Tokenizer::from_tiktoken(file.as_bytes(), "o200k_base").expect("a tokenizer");
    assert!(bodies.len() >= 6);
    for body in &bodies {
        assert_eq!(counted.count(text(&body["messages"][0]["content"])), Ok(40), "{body}");
    }
    let planned = planned_tokenizer(&fixture, "tiktoken");
    assert_eq!((&planned["name"], &planned["pattern"]), (&json!("tokenizer.tiktoken"), &json!("o200k_base")));
    assert_eq!(text(&planned["digest"]), counted.digest().to_string());
    assert_eq!(text(&planned["file"]["origin"]), "workloads/bench/tokenizer.tiktoken");
    fixture.verify("tiktoken").success();
}

/// A chat template in the manner of ChatML. With the tokenizer below, it is five tokens around a message.
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Writes a folder as Hugging Face publishes it with a model: tokens are words, and two special texts.
fn write_folder(fixture: &Fixture, template: &str) {
    let words = ["[UNK]"].into_iter().chain(assay_tokens::COMMON_WORDS.lines().take(300));
    let vocabulary: serde_json::Map<String, Value> = words.enumerate().map(|(id, word)| (word.to_owned(), json!(id))).collect();
    let special = |id: u32, content: &str| json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [special(1_000, "<|im_start|>"), special(1_001, "<|im_end|>")],
        "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    fixture.write("model/tokenizer.json", &tokenizer.to_string());
    fixture.write("model/tokenizer_config.json", &json!({"bos_token": null, "chat_template": "unused"}).to_string());
    fixture.write("model/chat_template.jinja", template);
}

fn count_in_folder(fixture: &Fixture, text: &str) -> u64 {
    let file = std::fs::read(fixture.repo().join("model/tokenizer.json")).expect("a file");
    assay_tokens::Tokenizer::from_file(&file).and_then(|tokenizer| tokenizer.count(text)).expect("counted")
}

#[test]
fn a_template_that_the_client_applies_is_a_part_of_the_length() {
    let fixture = Fixture::new();
    write_folder(&fixture, TEMPLATE);
    let template = ["--tokenizer", "model", "--template", "apply", "--api", "completions"];
    let (ran, bodies) = bench(&fixture, "applied", &template);
    ran.success();
    assert!(bodies.len() >= 6);
    for body in &bodies {
        let prompt = text(&body["prompt"]);
        assert!(prompt.starts_with("<|im_start|>user\n") && prompt.ends_with("<|im_end|>\n<|im_start|>assistant\n"), "{prompt}");
        assert_eq!(count_in_folder(&fixture, prompt), 40, "{prompt}");
    }
    let planned = planned_tokenizer(&fixture, "applied");
    assert_eq!((&planned["template"]["tokens"], &planned["template"]["usage"]), (&json!(5), &json!("apply")));
    assert_eq!(text(&planned["template"]["file"]["origin"]), "workloads/bench/tokenizer/chat_template.jinja");
    fixture.verify("applied").success();
    let report = std::fs::read_to_string(fixture.published("applied").join("report.md")).expect("a report");
    assert!(report.contains("tokens 40 in (5 of the chat template, which the client applies), 4 out"), "{report}");
}

#[test]
fn a_template_that_names_no_special_token_needs_no_configuration() {
    let fixture = Fixture::new();
    write_folder(&fixture, TEMPLATE);
    std::fs::remove_file(fixture.repo().join("model/tokenizer_config.json")).expect("removed");
    let template = ["--tokenizer", "model", "--template", "apply", "--api", "completions"];
    let (ran, bodies) = bench(&fixture, "alone", &template);
    ran.success();
    assert!(bodies.len() >= 6 && bodies.iter().all(|body| count_in_folder(&fixture, text(&body["prompt"])) == 40));
    assert_eq!(planned_tokenizer(&fixture, "alone")["template"].get("config"), None);
    fixture.verify("alone").success();
    fixture.write("model/chat_template.jinja", &format!("{{{{ bos_token }}}}{TEMPLATE}"));
    let refused = bench(&fixture, "named", &template).0.refuses(10, "tokenizer");
    assert!(refused.stderr.contains("it names `bos_token`, whose text a `tokenizer_config.json` has"), "{}", refused.stderr);
    std::fs::remove_file(fixture.repo().join("model/chat_template.jinja")).expect("removed");
    let refused = bench(&fixture, "neither", &template).0.refuses(2, "option");
    assert!(refused.stderr.contains("`model` has no `chat_template.jinja` and no `tokenizer_config.json`"), "{}", refused.stderr);
}

#[test]
fn a_pattern_that_cannot_be_read_is_named_as_such() {
    let fixture = Fixture::new();
    fixture.write("words.tiktoken", &vocabulary("words"));
    let (ran, _) = bench(&fixture, "pattern", &["--tokenizer", "words.tiktoken", "--tokenizer-pattern", "("]);
    assert!(ran.stderr.contains("hint: correct `--tokenizer-pattern`"), "{}", ran.stderr);
}

#[test]
fn a_template_that_the_endpoint_applies_is_counted() {
    let fixture = Fixture::new();
    write_folder(&fixture, TEMPLATE);
    let (ran, bodies) = bench(&fixture, "counted", &["--tokenizer", "model", "--template", "count", "--prefix", "system=10"]);
    ran.success();
    // The 40 tokens follow the 10 that all prompts begin with; the template's five are a part of them.
    for body in &bodies {
        assert_eq!(count_in_folder(&fixture, text(&body["messages"][0]["content"])), 45, "{body}");
    }
    assert!(bodies.len() >= 6);
    fixture.verify("counted").success();
    let report = shown(&fixture, "counted");
    assert!(!report.contains("chat template may add tokens"), "they are counted: {report}");
    // A prompt has at least one word beside the template.
    let short = ["--concurrency", "1", "--requests", "2", "--input-tokens", "3", "--output-tokens", "4"];
    let (ran, bodies) = send(&fixture, "short", &[&short[..], &["--tokenizer", "model", "--template", "count"]].concat());
    ran.success();
    assert_eq!(count_in_folder(&fixture, text(&bodies[0]["messages"][0]["content"])), 1);
    let stated = "tokens 6 in (3 were requested; 5 of the chat template, which the endpoint applies), 4 out";
    let report = shown(&fixture, "short");
    assert!(report.contains(stated), "{report}");
}

/// Returns the whole report of a run in one line.
fn shown(fixture: &Fixture, run_id: &str) -> String {
    let shown = fixture.assay(&["show", run_id, "--all"]).success().stdout;
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A dataset of one conversation of two turns, with a message of the system.
const CHAT: &str = r#"{"messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "time and time"}, {"role": "assistant", "content": "a day"}, {"role": "user", "content": "the year"}, {"role": "assistant", "content": "the end of it"}]}"#;

/// Runs `assay bench` with the dataset `chats.jsonl`, and returns the bodies of its requests.
fn bench_chats(fixture: &Fixture, run_id: &str, more: &[&str]) -> (CommandResult, Vec<Value>) {
    let chats =
        ["--dataset", "chats.jsonl", "--tokenizer", "model", "--concurrency", "1", "--cache", "shared", "--no-exact-output"];
    send(fixture, run_id, &[&chats[..], more].concat())
}

/// Returns the smallest and the largest number of tokens of the prompts of the dataset.
fn planned_range(fixture: &Fixture, run_id: &str) -> [u64; 2] {
    let work = &fixture.manifest(run_id, "plan")["body"]["workloads"][0]["serving"];
    let range = &work["prompts"]["summary"]["input_tokens"];
    ["least", "most"].map(|end| range[end].as_u64().unwrap_or_else(|| panic!("no `{end}` in {work}")))
}

#[test]
fn conversations_of_a_dataset_are_sent_through_completions_with_their_template() {
    let fixture = Fixture::new();
    write_folder(&fixture, TEMPLATE);
    fixture.write("chats.jsonl", &format!("{CHAT}\n"));
    let apply = ["--api", "completions", "--template", "apply"];
    let (ran, bodies) = bench_chats(&fixture, "turns", &[&apply[..], &["--sessions", "count=2"]].concat());
    ran.success();
    let system = "<|im_start|>system\nbe good<|im_end|>\n";
    let first = format!("{system}<|im_start|>user\ntime and time<|im_end|>\n<|im_start|>assistant\n");
    let second = format!("{first}a day<|im_end|>\n<|im_start|>user\nthe year<|im_end|>\n<|im_start|>assistant\n");
    let sent: Vec<&str> = bodies.iter().map(|body| text(&body["prompt"])).collect();
    // An attempt that does not count is made again.
    assert!(sent.len() >= 4 && sent.chunks(2).all(|turns| turns == [&*first, &*second]), "{sent:?}");
    assert_eq!(planned_range(&fixture, "turns"), [&first, &second].map(|prompt| count_in_folder(&fixture, prompt)));
    fixture.verify("turns").success();
    // Live history has what the endpoint said, at the same place.
    let live = [&apply[..], &["--sessions", "count=1,history=live"]].concat();
    let (ran, bodies) = bench_chats(&fixture, "live", &live);
    ran.success();
    let (said, rest) = text(&bodies[1]["prompt"]).split_at(first.len());
    assert_eq!(
        (said, rest.ends_with("<|im_end|>\n<|im_start|>user\nthe year<|im_end|>\n<|im_start|>assistant\n")),
        (&*first, true)
    );
    assert!(!rest.starts_with("a day"), "{rest}");
    let live = shown(&fixture, "live");
    assert!(live.contains("with the recorded responses (live ones were sent)"), "{live}");
    assert!(!shown(&fixture, "turns").contains("with the recorded responses"), "history is sent as recorded");
}

#[test]
fn rows_of_a_dataset_are_counted_with_their_template_and_only_plain_messages_have_one() {
    let fixture = Fixture::new();
    write_folder(&fixture, TEMPLATE);
    let row = r#"{"messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "time and time"}]}"#;
    fixture.write("chats.jsonl", &format!("{row}\n"));
    let whole = "<|im_start|>system\nbe good<|im_end|>\n<|im_start|>user\ntime and time<|im_end|>\n<|im_start|>assistant\n";
    let tokens = count_in_folder(&fixture, whole);
    let (ran, bodies) = bench_chats(&fixture, "counted", &["--template", "count", "--requests", "2"]);
    ran.success();
    assert_eq!(bodies[0]["messages"][1]["content"], "time and time");
    assert_eq!(planned_range(&fixture, "counted"), [tokens; 2]);
    let apply = ["--api", "completions", "--template", "apply", "--requests", "2"];
    let (ran, bodies) = bench_chats(&fixture, "applied", &apply);
    ran.success();
    assert_eq!(text(&bodies[0]["prompt"]), whole);
    assert_eq!(planned_range(&fixture, "applied"), [tokens; 2]);
    fixture.verify("applied").success();
    let tool = row.replace("system", "tool");
    fixture.write("chats.jsonl", &format!("{row}\n{tool}\n"));
    let refused = bench_chats(&fixture, "tool", &apply).0.refuses(10, "dataset");
    let says = "row 2 has a message that no chat template is put around, number 1, of `tool`";
    assert!(refused.stderr.contains(says), "{}", refused.stderr);
    // A template that looks at what messages say is found out by the row that has it.
    let looks = TEMPLATE.replace("{{ message.content }}", "{{ 'secret' if 'time' in message.content else message.content }}");
    fixture.write("model/chat_template.jinja", &looks);
    fixture.write("chats.jsonl", &format!("{}\n{row}\n", row.replace("time and time", "a day")));
    let refused = bench_chats(&fixture, "looks", &apply).0.refuses(10, "dataset");
    assert!(refused.stderr.contains("row 2 has a prompt of which the chat template makes another text"), "{}", refused.stderr);
    fixture.write("model/chat_template.jinja", TEMPLATE);
    let twice = row.replace("system", "user");
    fixture.write("chats.jsonl", &format!("{twice}\n"));
    let refused = bench_chats(&fixture, "twice", &apply).0.refuses(10, "dataset");
    assert!(
        refused.stderr.contains("the chat template takes no such messages: a message of `user` would follow one of `user`"),
        "{}",
        refused.stderr
    );
}

/// Returns what the template makes of the messages of a body.
fn templated(body: &Value) -> String {
    let messages = body["messages"].as_array().expect("messages").iter();
    let around =
        messages.map(|message| format!("<|im_start|>{}\n{}<|im_end|>\n", text(&message["role"]), text(&message["content"])));
    around.collect::<String>() + "<|im_start|>assistant\n"
}

#[test]
fn turns_of_drawn_lengths_have_them_with_the_template() {
    let fixture = Fixture::new();
    write_folder(&fixture, TEMPLATE);
    let sessions = ["--concurrency", "1", "--sessions", "turns=3,count=2", "--input-tokens", "40", "--output-tokens", "4"];
    for (run_id, api, usage) in [("text", "completions", "apply"), ("messages", "chat", "count")] {
        let template = ["--tokenizer", "model", "--api", api, "--template", usage];
        let (ran, bodies) = send(&fixture, run_id, &[&sessions[..], &template].concat());
        ran.success();
        let prompts = bodies.iter().map(|body| body["prompt"].as_str().map_or_else(|| templated(body), str::to_owned));
        let tokens: Vec<u64> = prompts.map(|prompt| count_in_folder(&fixture, &prompt)).collect();
        // Each turn adds 40 tokens, and the response of 4 before it.
        assert!(tokens.len() >= 6 && tokens.chunks(3).all(|turns| turns == [40, 84, 128]), "{usage}: {tokens:?}");
        fixture.verify(run_id).success();
    }
}

#[test]
fn a_template_that_cuts_drawn_prompts_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new();
    let template = ["--tokenizer", "model", "--template", "apply", "--api", "completions"];
    let refused = |run_id: &str, template: &str, (ran, bodies): (CommandResult, Vec<Value>)| {
        let refused = ran.refuses(10, "tokenizer");
        assert!(bodies.is_empty(), "{run_id}: {template}");
        refused.stderr
    };
    let cuts = "{{ message.content if message.content|length < 60 else message.content[:60] }}";
    let cuts = TEMPLATE.replace("{{ message.content }}", cuts);
    write_folder(&fixture, &cuts);
    let found = refused("cut", &cuts, bench(&fixture, "cut", &template));
    let says = "of a drawn prompt of 40 tokens it makes another text than of a short message";
    assert!(found.contains("the chat template cannot be used: ") && found.contains(says), "{found}");
    // A short message passes.
    let short = ["--concurrency", "1", "--requests", "2", "--input-tokens", "10", "--output-tokens", "4"];
    send(&fixture, "short", &[&short[..], &template].concat()).0.success();
    let spread = ["--concurrency", "1", "--requests", "2", "--scenario", "U(10,60)/(4,4)"];
    let found = refused("spread", &cuts, send(&fixture, "spread", &[&spread[..], &template].concat()));
    assert!(found.contains("of a drawn prompt of 60 tokens it makes another text"), "{found}");
    // The placeholders are conversations of three turns at most.
    let forgets = TEMPLATE.replace("in messages %}", "in (messages if messages|length < 7 else messages[2:]) %}");
    write_folder(&fixture, &forgets);
    let sessions = |turns: &str| {
        let turns = format!("turns={turns},count=1");
        let load = ["--concurrency", "1", "--sessions", &turns, "--input-tokens", "10", "--output-tokens", "4"];
        send(&fixture, &turns.replace(['=', ','], "-"), &[&load[..], &template].concat())
    };
    sessions("3").0.success();
    let found = refused("turns", &forgets, sessions("4"));
    assert!(found.contains("of a conversation of 4 turns it makes another text"), "{found}");
}

#[test]
fn a_template_without_an_end_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new();
    write_folder(
        &fixture,
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ messages[0].content }}{% endfor %}{% endfor %}",
    );
    let (ran, bodies) = bench(&fixture, "endless", &["--tokenizer", "model", "--template", "count"]);
    let refused = ran.exits(10);
    assert!(refused.stderr.contains("the chat template cannot be used") && refused.stderr.contains("fuel"), "{}", refused.stderr);
    assert!(bodies.is_empty());
    // One step of it makes ten billion bytes.
    write_folder(&fixture, "{{ range(100000)|list|tojson(indent=100000) }}{{ messages[0].content }}");
    let (ran, bodies) = bench(&fixture, "huge", &["--tokenizer", "model", "--template", "count"]);
    let refused = ran.exits(10);
    assert!(refused.stderr.contains("the chat template cannot be used: it takes more than "), "{}", refused.stderr);
    assert!(bodies.is_empty());
}

#[test]
fn a_vocabulary_that_cannot_be_used_is_named_before_anything_is_sent() {
    let fixture = Fixture::new();
    fixture.write("own.tiktoken", "QQ== 0\n");
    let (ran, bodies) = bench(&fixture, "unnamed", &["--tokenizer", "own.tiktoken"]);
    let refused = ran.exits(2);
    assert!(refused.stderr.contains("`--tokenizer` lacks `--tokenizer-pattern`"), "{}", refused.stderr);
    assert!(bodies.is_empty());
    let (ran, bodies) = bench(&fixture, "broken", &["--tokenizer", "own.tiktoken", "--tokenizer-pattern", "cl100k_base"]);
    let refused = ran.exits(10);
    assert!(refused.stderr.contains("has no token for the byte 0x00"), "{}", refused.stderr);
    assert!(bodies.is_empty());
}
