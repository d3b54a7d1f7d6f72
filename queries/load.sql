-- Throughput against latency, point by point: what a serving run is asked first.
SELECT
    row_id, benchmark_case_id, point_id, offered_rate_per_s, request_throughput_per_s, output_tokens_per_s,
    ttft_ns_p50, ttft_ns_p99, tpot_ns_p50, e2e_ns_p99, goodput_requests_per_s, requests, failed, dropped
FROM serving_outcome_fact
ORDER BY benchmark_case_id, coalesce(concurrency, 0), coalesce(request_rate_per_s, 0.0)
