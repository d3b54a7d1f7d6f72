use proptest::prelude::*;

use super::*;
use crate::coverage::span;

fn at(ns: i64) -> Instant {
    Instant::from_unix_ns(ns)
}

fn window(start: i64, end: i64) -> Window {
    span(at(start), at(end))
}

fn found(text: &str) -> Vec<(&'static str, f64)> {
    counters(text).into_iter().flatten().map(|counter| (counter.name, counter.value)).collect()
}

#[test]
fn a_counter_is_the_sum_over_its_labels() {
    let text = concat!(
        "# TYPE vllm:request_success_total counter\n",
        "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 40.0\n",
        "vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"m\"} 2.0\n",
        "vllm:request_success_created{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 1.7e+09\n",
        "vllm:prompt_tokens_total{model_name=\"a,b={\\\"}\"} 1e3 1395066363000\n",
        "vllm:generation_tokens_total 512\n",
        "this line is none\n",
        "vllm:num_requests_running 3\n",
    );
    let expected =
        [("vllm:request_success_total", 42.0), ("vllm:prompt_tokens_total", 1000.0), ("vllm:generation_tokens_total", 512.0)];
    assert_eq!(found(text), expected);
}

#[test]
fn the_counters_of_other_servers_are_known() {
    let sglang =
        "sglang:num_requests_total{model_name=\"m\"} 7\nsglang:prompt_tokens_total 8\nsglang:generation_tokens_total 9\n";
    assert_eq!(found(sglang).iter().map(|(_, value)| *value).collect::<Vec<_>>(), [7.0, 8.0, 9.0]);
    let tgi = concat!(
        "tgi_request_success{method=\"generate\"} 4\n",
        "tgi_request_success{method=\"prefill\"} 1\n",
        "tgi_request_generated_tokens_bucket{le=\"+Inf\"} 5\n",
        "tgi_request_generated_tokens_sum 333\n",
        "tgi_request_input_length_sum 444\n",
    );
    let expected =
        [("tgi_request_success", 5.0), ("tgi_request_input_length_sum", 444.0), ("tgi_request_generated_tokens_sum", 333.0)];
    assert_eq!(found(tgi), expected);
    assert_eq!(found("llamacpp:tokens_predicted_total 12\n"), [("llamacpp:tokens_predicted_total", 12.0)]);
    // By the documentation of Dynamo (commit 0b71cf84), and no real server.
    let dynamo = concat!(
        "# TYPE dynamo_frontend_requests_total counter\n",
        "dynamo_frontend_requests_total{endpoint=\"chat_completions\",model=\"m\",request_type=\"stream\",status=\"success\"} 42\n",
        "dynamo_frontend_inflight_requests{model=\"m\"} 12\n",
        "# TYPE dynamo_frontend_input_sequence_tokens histogram\n",
        "dynamo_frontend_input_sequence_tokens_bucket{model=\"m\",le=\"+Inf\"} 42\n",
        "dynamo_frontend_input_sequence_tokens_sum{model=\"m\"} 20000\n",
        "dynamo_frontend_output_sequence_tokens_sum{model=\"m\"} 4500\n",
    );
    assert_eq!(found(dynamo).iter().map(|(_, value)| *value).collect::<Vec<_>>(), [42.0, 20_000.0, 4500.0]);
    // Triton counts each model of an ensemble: their sum is no number of requests.
    assert_eq!(found("nv_inference_request_success{model=\"m\",version=\"1\"} 161\n"), []);
    assert_eq!(found("http_requests_total 12\n"), []);
    assert_eq!(found("<html>502 Bad Gateway</html>"), []);
}

/// Responses that each take 10 ns, by the times of their requests, with the number of completed requests; `None` if the counter
/// was not there.
fn scrapes(of: &[(i64, Option<f64>)]) -> Vec<Scrape> {
    let counter = |value| Counter { name: "vllm:request_success_total", value };
    let one = |(requested, value): &(i64, Option<f64>)| Scrape {
        requested_at: at(*requested),
        received_at: at(requested + 10),
        counters: [value.map(counter), None, None],
    };
    of.iter().map(one).collect()
}

/// Returns outer growth, inner growth and resets around 1000..2000.
fn around(of: &[(i64, Option<f64>)]) -> Option<(u64, u64, u32)> {
    let growth = growth(&scrapes(of), CountedQuantity::Requests, &window(1000, 2000))?;
    Some((growth.outer, growth.inner, growth.resets))
}

#[test]
fn growth_is_taken_from_before_the_window_to_behind_it() {
    let all = [(0, Some(1.0)), (900, Some(5.0)), (1200, Some(7.0)), (1800, Some(12.0)), (2100, Some(14.0)), (3000, Some(99.0))];
    assert_eq!(around(&all), Some((9, 5, 0)), "14 - 5 around it, 12 - 7 within it");
    let edges = [(990, Some(5.0)), (1000, Some(6.0)), (1990, Some(9.0)), (2000, Some(10.0))];
    assert_eq!(around(&edges), Some((5, 3, 0)), "received at the start is before it, requested at the end is after it");
    let unready = [(0, Some(1.0)), (995, Some(5.0)), (1995, Some(9.0)), (2100, Some(14.0))];
    assert_eq!(around(&unready), Some((13, 0, 0)), "a response in flight at an edge is neither");
}

#[test]
fn without_a_response_on_both_sides_nothing_is_known() {
    assert_eq!(around(&[]), None);
    assert_eq!(around(&[(1500, Some(1.0)), (2000, Some(2.0))]), None);
    assert_eq!(around(&[(900, Some(1.0)), (1500, Some(2.0))]), None);
    assert_eq!(around(&[(900, None), (2000, None)]), None, "the counter is none of this server's");
}

#[test]
fn a_counter_that_is_not_there_yet_is_nothing() {
    assert_eq!(around(&[(900, None), (1500, Some(3.0)), (2000, Some(8.0))]), Some((8, 0, 0)));
}

#[test]
fn a_fall_is_a_start_from_nothing() {
    let restarted = [(900, Some(50.0)), (1200, Some(60.0)), (1500, Some(4.0)), (2000, Some(9.0))];
    assert_eq!(around(&restarted), Some((19, 4, 1)), "10 before, 4 and 5 since; within the window only 4 are seen");
}

#[test]
fn what_is_no_count_is_passed_over() {
    let odd = [(800, Some(5.0)), (900, Some(f64::NAN)), (1500, Some(-1.0)), (2000, Some(f64::INFINITY)), (2100, Some(8.0))];
    assert_eq!(around(&odd), Some((3, 0, 0)));
}

proptest! {
    #[test]
    fn whatever_is_scraped_is_counted_or_not(text in "(vllm:request_success_total|[a-z{}=\",0-9 \\n.]{0,9}){0,20}") {
        let _ = counters(&text);
    }

    #[test]
    fn growth_within_is_never_more_than_growth_around(
        steps in prop::collection::vec((1_i64..400, 0_u32..50), 0..40), start in 0_i64..3000, length in 0_i64..3000,
    ) {
        let (mut ns, mut value) = (0, 0.0);
        let all: Vec<_> = steps.iter().map(|(step, more)| { ns += step; value += f64::from(*more); (ns, Some(value)) }).collect();
        if let Some(found) = growth(&scrapes(&all), CountedQuantity::Requests, &window(start, start + length)) {
            prop_assert!(found.inner <= found.outer);
            prop_assert!(found.reach.0 <= at(start) && at(start + length) <= found.reach.1);
            prop_assert_eq!(found.resets, 0);
        }
    }
}
