SELECT
    run.*,
    workload.workload, workload.model, workload.precision, workload.protocol,
    hardware.gpu_model, hardware.gpu_count, hardware.cpu_model, hardware.cores, hardware.memory_bytes, hardware.facts_source,
    software.image_digest, software.operating_system, software.kernel_version, software.driver_version, software.server_version,
    place.cluster, place.region, place.node_pool
FROM benchmark_run_fact AS run
LEFT JOIN (SELECT DISTINCT ON (row_id) * FROM workload_dim ORDER BY row_id, workload) AS workload
    ON workload.row_id = run.workload_key
LEFT JOIN (SELECT DISTINCT ON (row_id) * FROM hardware_topology_dim ORDER BY row_id) AS hardware
    ON hardware.row_id = run.hardware_topology_key
LEFT JOIN (SELECT DISTINCT ON (row_id) * FROM software_version_dim ORDER BY row_id) AS software
    ON software.row_id = run.software_version_key
LEFT JOIN (SELECT DISTINCT ON (row_id) * FROM cluster_region_dim ORDER BY row_id) AS place
    ON place.row_id = run.cluster_region_key
