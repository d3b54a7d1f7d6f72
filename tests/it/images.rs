//! Images beside the rows of datasets and the turns of sessions, and image files, over the real binaries.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving::{self, MODEL};
use crate::support::{Fixture, PIPELINE};
use crate::traces::records;

/// Small synthetic images.
const SYNTHETIC: &str = "width=8,height=8,format=png";

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
    fixture.assay(&[&load[..], &["--run-id", run_id], more].concat()).success();
    fixture.verify_recomputed(run_id);
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
    let sent =
        bench(&fixture, "rows", &["--dataset", "prompts.jsonl", "--requests", "2", "--trials", "2", "--images", SYNTHETIC]);
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
    let more = ["--dataset", "chats.jsonl", "--sessions", "think_time=1ms,count=1", "--trials", "1", "--images", SYNTHETIC];
    let sent = bench(&fixture, "turns", &more);
    let [first, second] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((list(first).len(), list(second).len()), (1, 3));
    assert_eq!(first[0], second[0], "the image of the first turn is sent again");
    assert_eq!(second[1], chat[1]);
    let (one, other) = (parts(&second[0]), parts(&second[2]));
    assert_eq!((one.0, other.0), (vec!["a".to_owned()], vec!["c".to_owned()]));
    assert!(one.1.len() == 1 && other.1.len() == 1 && one.1 != other.1);
}

/// Bytes that begin as those of a PNG file, and go on with a number of their own.
fn png(number: u8) -> Vec<u8> {
    [b"\x89PNG\r\n\x1a\n".as_slice(), &[number; 5]].concat()
}

/// Bytes that begin as those of a JPEG file.
fn jpeg(number: u8) -> Vec<u8> {
    vec![0xff, 0xd8, 0xff, 0xe0, number]
}

fn data_url(kind: &str, file: &[u8]) -> String {
    use base64::Engine as _;
    format!("data:image/{kind};base64,{}", base64::engine::general_purpose::STANDARD.encode(file))
}

#[test]
fn image_files_are_drawn_byte_for_byte_among_those_of_a_folder() {
    let fixture = Fixture::new();
    fixture.write_bytes("pictures/b.png", &png(1));
    fixture.write_bytes("pictures/a.JPG", &jpeg(2));
    fixture.write_bytes("pictures/notes.txt", b"none of them");
    let more = ["--image-files", "pictures", "--image-count", "3", "--requests", "20", "--trials", "1", "--output-tokens", "2"];
    let sent = bench(&fixture, "files", &more);
    assert_eq!(sent.len(), 20);
    let images: Vec<Vec<String>> = sent.iter().map(|messages| parts(&messages[0]).1).collect();
    assert!(images.iter().all(|images| images.len() == 3), "{images:?}");
    let urls: BTreeSet<String> = images.iter().flatten().cloned().collect();
    assert_eq!(urls, [data_url("jpeg", &jpeg(2)), data_url("png", &png(1))].into());
    assert!(images.iter().collect::<BTreeSet<_>>().len() > 2, "each request draws its own");
    // The plan pins what was sent, and the published folder has it as a file of the Source.
    let work = fixture.manifest("files", "plan")["body"]["workloads"][0]["serving"]["image_files"].clone();
    let files = list(&work["files"]);
    let pinned: Vec<_> = files.iter().map(|file| (text(&file["path"]), text(&file["artifact"]["digest"]).to_owned())).collect();
    let digest = |bytes: &[u8]| assay_manifest::Digest::compute(bytes).to_string();
    assert_eq!(pinned, [("images/001.jpg", digest(&jpeg(2))), ("images/002.png", digest(&png(1)))]);
    let report = std::fs::read_to_string(fixture.published("files").join("report.md")).expect("a report");
    assert!(report.contains("tokens 128 in, 2 out, with 3 images drawn from 2 files"), "{report}");
    let copy = fixture.published("files").join("source/files/workloads/bench/images/002.png");
    assert_eq!(std::fs::read(&copy).expect("a file"), png(1));
    std::fs::write(&copy, png(9)).expect("written");
    let folder = fixture.published("files");
    fixture.assay(&["verify", folder.to_str().expect("a path")]).exits(20);
}

#[test]
fn any_number_of_shards_sends_the_same_image_files() {
    let fixture = Fixture::bare();
    fixture.write_bytes("workloads/mix/one.png", &png(1));
    fixture.write_bytes("workloads/mix/two.jpg", &jpeg(2));
    let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [3], requests: 12}
  lengths: D(8,2)
  cache: shared
  image_files: {paths: [two.jpg, one.png]}
";
    serving::workload_of(&fixture, "mix", fields);
    let mut of_runs = Vec::new();
    for (run_id, shards) in [("one", 1), ("three", 3)] {
        let target = "{name: sim, kind: simulator, config: {profile: fast}}";
        let shards = format!("  shards: {shards}\n");
        fixture.write(PIPELINE, &serving::pipeline(&["mix"], &[target], 1, serving::RETRY_BUDGET, &shards));
        fixture.commit("mix");
        fixture.run(run_id).success();
        let parts: Vec<Value> = fixture.pointers(run_id, "execute").iter().map(|part| part.load(&fixture.store())).collect();
        let attempts = parts.iter().flat_map(|part| list(&part["body"]["attempts"]).clone());
        let digests: BTreeSet<String> = attempts.map(|attempt| attempt["serving"]["schedule_digest"].to_string()).collect();
        let mut sent: Vec<_> =
            records(&fixture, run_id).remove(0).into_iter().map(|record| (record.global_index, record.prompt_sha256)).collect();
        sent.sort_unstable();
        assert_eq!((digests.len(), sent.len()), (1, 12));
        of_runs.push((digests, sent));
    }
    assert_eq!(of_runs[0], of_runs[1], "the digests of prompts are over their images, too");
}

#[test]
fn what_is_no_image_file_is_refused_by_name() {
    let fixture = Fixture::new();
    fixture.write_bytes("a.gif", b"GIF89a");
    fixture.write_bytes("large.png", &[png(0), vec![0; 8 << 20]].concat());
    fixture.write_bytes("empty/notes.txt", b"none");
    let load = ["bench", "--simulator", "fast", "--concurrency", "1", "--requests", "1", "--image-files"];
    let bench = |more: &[&str]| fixture.assay(&[&load[..], more].concat());
    let gif = bench(&["a.gif"]).refuses(10, "image_file");
    assert!(gif.stderr.contains("is neither a PNG nor a JPEG file by its first bytes"), "{}", gif.stderr);
    let large = bench(&["large.png"]).refuses(10, "image_file");
    assert!(large.stderr.contains("has 8388621 bytes, and an image file has at most 8388608"), "{}", large.stderr);
    let empty = bench(&["empty"]).refuses(2, "option");
    assert!(empty.stderr.contains("`empty` has no file whose name ends in .png, .jpg or .jpeg"), "{}", empty.stderr);
    let both = bench(&["a.gif", "--images", "width=8,height=8"]).exits(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    let completions = bench(&["a.gif", "--api", "completions"]).refuses(2, "option");
    assert!(completions.stderr.contains("requests of `--api completions` have no images"), "{}", completions.stderr);
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
