SELECT fact.*
FROM cluster_event_fact AS fact
WHERE fact.run_id IN (SELECT run.run_id FROM benchmark_run_fact AS run)
