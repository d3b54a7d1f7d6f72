use assay_manifest::Instant;
use serde_json::json;

use super::*;
use crate::slice::AttemptWindow;

#[test]
fn the_time_in_the_server_s_queue_is_of_the_requests_that_left_it() {
    let at = |seconds: i64| Instant::from_unix_ns(seconds * 1_000_000_000);
    let trial = json!({"trial_id": "w.t.default.one.t0", "case_id": "w.t.default", "point_id": "one", "index": 0, "block": 0});
    let trial = serde_json::from_value(trial).expect("a trial");
    let of_source = |source: &Source, counts: bool, bodies: [&str; 2]| {
        let window = AttemptWindow { trial: &trial, attempt: 0, counts, start: at(0), end: at(10), gaps: Vec::new() };
        let mut slice = Slice::new(window);
        for (seconds, body) in (1..).zip(bodies) {
            slice.add(at(seconds), &parse_text(body, |_| true));
        }
        let mut delays = QueueDelays::default();
        delays.add(source, &slice);
        delays.mean_ns("w.t.default", "one")
    };
    let name: assay_manifest::Name = "t".parse().expect("a name");
    let of = |counts: bool, bodies: [&str; 2]| of_source(&Source::endpoint(&name), counts, bodies);
    let vllm = |seconds: f64, requests: u32| {
        let name = "vllm:request_queue_time_seconds";
        format!(
            "# TYPE {name} histogram\n{name}_sum{{engine=\"0\"}} {seconds}\n{name}_count{{engine=\"0\"}} {requests}\n{name}_sum{{engine=\"1\"}} 5\n{name}_count{{engine=\"1\"}} 9\n"
        )
    };
    assert_eq!(
        of(true, [&vllm(1.0, 10), &vllm(1.5, 20)]),
        Some(50_000_000),
        "half a second over ten requests, both engines together"
    );
    assert_eq!(of(false, [&vllm(1.0, 10), &vllm(1.5, 20)]), None, "an attempt that does not count");
    assert_eq!(of(true, [&vllm(1.0, 10), &vllm(1.0, 10)]), None, "no request left the queue");
    assert_eq!(
        of(
            true,
            [
                "sglang:queue_time_seconds_sum 1\nsglang:queue_time_seconds_count 1\n",
                "sglang:queue_time_seconds_sum 3\nsglang:queue_time_seconds_count 2\n"
            ]
        ),
        Some(2_000_000_000)
    );
    assert_eq!(of(true, ["up 1\n", "up 1\n"]), None, "a server that does not say");
    let exporter = of_source(&Source::exporter(&name), true, [&vllm(1.0, 10), &vllm(1.5, 20)]);
    assert_eq!(exporter, None, "an exporter is no target");
}
