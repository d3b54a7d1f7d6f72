SELECT
    fact.*,
    run.pipeline, run.pipeline_digest, run.plan_digest, run.benchmark_class, run.workload_type, run.status, run.cadence, run.git_commit, run.git_dirty,
    run.started_unix_ns, run.finished_unix_ns, run.publication_safe
FROM serving_outcome_fact AS fact
JOIN benchmark_run_fact AS run
    ON run.run_id = fact.run_id AND run.benchmark_case_id = fact.benchmark_case_id
