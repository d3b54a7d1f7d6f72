//! Synthetic images beside the rows of datasets and the turns of sessions, over the real binaries.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving::MODEL;
use crate::support::Fixture;

/// Runs `assay bench` against a server that keeps the bodies of its requests, and returns the messages of each.
fn bench(fixture: &Fixture, run_id: &str, more: &[&str]) -> Vec<Value> {
    let bodies = Arc::new(Mutex::new(Vec::<Value>::new()));
    let kept = Arc::clone(&bodies);
    let server = Server::start(MODEL, move |request| {
        kept.lock().expect("no panic").push(serde_json::from_slice(&request.body).expect("JSON"));
        (complete_stream(), AfterResponse::KeepAlive)
    });
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--concurrency", "1", "--warmup", "0s", "--cache", "shared"];
    fixture.assay(&[&load[..], &["--images", "width=8,height=8,format=png", "--run-id", run_id], more].concat()).success();
    let verified = fixture.assay(&["verify", run_id, "--recompute"]).success();
    assert!(verified.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", verified.stdout);
    let bodies = bodies.lock().expect("no panic");
    bodies.iter().map(|body| body["messages"].clone()).collect()
}

/// Returns the texts and the URLs of the images of a message.
fn parts(message: &Value) -> (Vec<String>, Vec<String>) {
    let parts = list(&message["content"]);
    let of = |kind: &str| parts.iter().filter(|part| text(&part["type"]) == kind).cloned().collect::<Vec<_>>();
    let texts = of("text").iter().map(|part| text(&part["text"]).to_owned()).collect();
    (texts, of("image_url").iter().map(|part| text(&part["image_url"]["url"]).to_owned()).collect())
}

#[test]
fn each_row_of_a_dataset_has_its_own_images_in_every_trial() {
    let fixture = Fixture::new();
    let chat =
        json!({"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a b"}], "output_tokens": 2});
    let prompts = format!("{}\n{chat}\n", json!({"prompt": "c d", "output_tokens": 2}));
    fixture.write("prompts.jsonl", &prompts);
    let sent = bench(&fixture, "rows", &["--dataset", "prompts.jsonl", "--requests", "2", "--trials", "2"]);
    assert_eq!(sent.len(), 4);
    let mut of_rows: BTreeSet<(String, String)> = BTreeSet::new();
    for messages in &sent {
        let (texts, urls) = parts(list(messages).last().expect("a message"));
        assert!(messages[0]["role"] == "user" || messages[0]["content"] == "be brief", "{messages}");
        assert_eq!((texts.len(), urls.len()), (1, 1), "{messages}");
        assert!(urls[0].starts_with("data:image/png;base64,"), "{urls:?}");
        of_rows.insert((texts[0].clone(), urls[0].clone()));
    }
    assert_eq!(of_rows.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), ["a b", "c d"]);
    assert_eq!(of_rows.iter().map(|(_, url)| url).collect::<BTreeSet<_>>().len(), 2);
    let shown = fixture.assay(&["show", "rows", "--all"]).success().stdout;
    let stated = "tokens 2 to 4 in, 2 out as recorded, with 1 image of 8 x 8 pixels (png)";
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(stated), "{shown}");
}

#[test]
fn the_turns_of_a_conversation_have_images_and_repeat_them() {
    let fixture = Fixture::new();
    let said = |role: &str, content: &str| json!({"role": role, "content": content});
    let chat = [said("user", "a"), said("assistant", "b"), said("user", "c"), said("assistant", "d")];
    fixture.write("chats.jsonl", &format!("{}\n", json!({"messages": chat})));
    let more = ["--dataset", "chats.jsonl", "--sessions", "think_time=1ms,count=1", "--trials", "1"];
    let sent = bench(&fixture, "turns", &more);
    let [first, second] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((list(first).len(), list(second).len()), (1, 3));
    assert_eq!(first[0], second[0], "the image of the first turn is sent again");
    assert_eq!(second[1], chat[1]);
    let (one, other) = (parts(&second[0]), parts(&second[2]));
    assert_eq!((one.0, other.0), (vec!["a".to_owned()], vec!["c".to_owned()]));
    assert!(one.1.len() == 1 && other.1.len() == 1 && one.1 != other.1);
}

#[test]
fn a_batch_of_whole_bodies_has_no_place_for_images() {
    let fixture = Fixture::new();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}]});
    let line = json!({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body});
    fixture.write("batch.jsonl", &format!("{line}\n"));
    let load = ["bench", "--simulator", "fast", "--concurrency", "1", "--requests", "1", "--images", "width=8,height=8"];
    let batch = ["--dataset", "batch.jsonl", "--dataset-format", "openai_batch", "--run-id", "no"];
    let refused = fixture.assay(&[&load[..], &batch].concat()).refuses(2, "option");
    let reason = "`--images` cannot be added to the rows of this dataset, which are whole bodies of requests";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    let timed = json!({"at_ms": 0, "body": body}).to_string();
    fixture.write("timed.jsonl", &format!("{timed}\n"));
    let load = ["bench", "--simulator", "fast", "--trace", "timed.jsonl", "--trace-format", "timed_jsonl", "--run-id", "timed"];
    let refused = fixture.assay(&[&load[..], &["--images", "width=8,height=8"]].concat()).refuses(10, "schedule");
    assert!(refused.stderr.contains("rows that are whole bodies are sent as they are"), "{}", refused.stderr);
}
