//! Lengths by weight, images and natural text over the real binaries: the same requests from any number of shards, and runs that can be recomputed.

use std::collections::BTreeSet;

use assay_record::{Outcome, Phase, Record};
use serde_json::Value;

use crate::pipeline::list;
use crate::serving;
use crate::support::{Fixture, PIPELINE};
use crate::traces::records;

/// Writes the workload `mix` with these fields.
fn workload(fixture: &Fixture, fields: &str) {
    let load = "mode: closed, concurrency: [3], requests: 40";
    serving::workload_of(fixture, "mix", &format!("  batching_policy: none\n  load: {{{load}}}\n{fields}"));
}

/// Runs the workload with so many shards, and recomputes the run. Returns the digests of its schedules, and the records.
fn run(fixture: &Fixture, run_id: &str, shards: u32) -> (BTreeSet<String>, Vec<Record>) {
    let target = "{name: sim, kind: simulator, config: {profile: fast}}";
    let shards = format!("  shards: {shards}\n");
    fixture.write(PIPELINE, &serving::pipeline(&["mix"], &[target], 1, serving::RETRY_BUDGET, &shards));
    fixture.commit("mix");
    fixture.run(run_id).success();
    fixture.verify_recomputed(run_id);
    let parts: Vec<Value> = fixture.pointers(run_id, "execute").iter().map(|pointer| pointer.load(&fixture.store())).collect();
    let attempts = parts.iter().flat_map(|part| list(&part["body"]["attempts"]).clone());
    let digests = attempts.map(|attempt| attempt["serving"]["schedule_digest"].to_string()).collect();
    let mut counted = records(fixture, run_id).pop().expect("an attempt");
    counted.retain(|record| record.phase == Phase::Measured);
    counted.sort_by_key(|record| record.global_index);
    assert!(counted.iter().all(|record| record.outcome == Outcome::Ok), "{counted:?}");
    (digests, counted)
}

#[test]
fn pairs_stay_together_in_any_number_of_shards() {
    let fixture = Fixture::bare();
    workload(&fixture, "  lengths: {pairs: [{input: 10, output: 20, weight: 60}, {input: 30, output: 4, weight: 40}]}\n");
    let lengths = |records: &[Record]| -> Vec<_> {
        records.iter().map(|record| (record.input_tokens, record.input_tokens_endpoint, record.output_tokens_requested)).collect()
    };
    let (one, of_one) = run(&fixture, "one", 1);
    assert_eq!(of_one.len(), 40);
    let kinds: BTreeSet<_> = lengths(&of_one).into_iter().collect();
    assert_eq!(kinds, [(10, Some(10), Some(20)), (30, Some(30), Some(4))].into());
    let (three, of_three) = run(&fixture, "three", 3);
    assert_eq!((one.len(), one == three, lengths(&of_one) == lengths(&of_three)), (1, true, true));
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    assert!(shown.contains("10 in and 20 out (60 %), 30 in and 4 out (40 %)"), "{shown}");
}

#[test]
fn images_go_with_their_prompt_and_prose_has_its_length() {
    let fixture = Fixture::bare();
    workload(
        &fixture,
        "  lengths: {input: {histogram: {edges: [40, 60, 80], weights: [1, 1]}}, output: {fixed: 4}}\n  text: natural\n  images: {width: 24, height: 16, count: 2, format: png}\n",
    );
    let (one, of_one) = run(&fixture, "one", 1);
    // 8 bytes, a header of 25, a chunk of 12 with 16 lines of 73 bytes in one stored block, and an end of 12; in base64, twice.
    let files = 2 * (8 + 25 + 12 + 2 + 5 + 16 * 73 + 4 + 12_u64).div_ceil(3) * 4;
    for record in &of_one {
        assert!((40..=80).contains(&record.input_tokens), "{record:?}");
        assert_eq!(record.input_tokens_endpoint, Some(record.input_tokens), "images are no tokens of the simulator");
        assert!(record.request_bytes > files, "{} of {files}", record.request_bytes);
    }
    let (four, of_four) = run(&fixture, "four", 4);
    assert_eq!(one, four);
    let sizes = |records: &[Record]| {
        records.iter().map(|record| (record.input_tokens, record.output_tokens_requested)).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&of_one), sizes(&of_four));
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    let stated = "of natural text, 4 out, with 2 images of 24 x 16 pixels (png)";
    // Long lines are wrapped.
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(stated), "{shown}");
}

#[test]
fn a_scenario_of_images_leaves_the_response_to_the_endpoint() {
    let fixture = Fixture::bare();
    workload(&fixture, "  lengths: I(24,16)\n");
    let (_, records) = run(&fixture, "images", 1);
    assert!(records.iter().all(|record| (record.input_tokens, record.output_tokens_requested) == (32, None)), "{records:?}");
}

#[test]
fn one_line_is_enough() {
    let fixture = Fixture::bare();
    let short = ["--simulator", "fast", "--concurrency", "1", "--trials", "1", "--requests", "5", "--warmup", "0s"];
    let bench = |more: &[&str]| fixture.assay(&[&["bench"], &short[..], more].concat());
    bench(&["--pairs", "8,4:3;16,2:1", "--images", "width=8,height=8", "--text", "natural"]).success();
    bench(&["--input-histogram", "8,16,32:70,30", "--output-histogram", "2,4:1"]).success();
    bench(&["--scenario", "I(8,8,2)"]).success();
    let refused: [(&[&str], &str); 9] = [
        (&["--pairs", "1,2:0"], "error[option]: all weights of `--pairs` are 0"),
        (&["--pairs", "64|10,32|8:70"], "has standard deviations, which pairs do not have"),
        (&["--input-histogram", "9,8:1"], "an edge of `--input-histogram` is not above the edge before it"),
        (&["--images", "width=0,height=8"], "`--images width=` must be from 1 to 8192"),
        (&["--images", "width=10"], "hint: the height of an image, in pixels"),
        (&["--pairs", "1,2:1;0,2:1"], "`IN` in part 2 of `--pairs` must be from 1"),
        (&["--images", "width=0,height=0"], "2 problems with the options"),
        (&["--scenario", "dataset"], "`--dataset FILE`"),
        (&["--scenario", "A(100)"], "`A` scenarios (speech) are not supported"),
    ];
    for (options, says) in refused {
        let ran = bench(options).refuses(2, "option");
        assert!(ran.stderr.contains(says), "{options:?}:\n{}", ran.stderr);
    }
}
