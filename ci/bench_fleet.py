"""An hour of a fleet in a Prometheus: what it takes to ask for it, and to make rows of it.

    python3 ci/bench_fleet.py EXAMPLE [GPUS [SECONDS [INTERVAL]]]

The fleet is scripted: 1,000 GPUs whose metrics have the names and labels of dcgm-exporter and made-up values, scraped every 15 s for an hour. `promtool`
makes blocks of it, so no hour passes; a Prometheus of Debian's package serves them on the loopback.
"""

import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

GAUGES = {
    "DCGM_FI_DEV_GPU_UTIL": 97, "DCGM_FI_DEV_MEM_COPY_UTIL": 40, "DCGM_FI_DEV_SM_CLOCK": 1980, "DCGM_FI_DEV_MEM_CLOCK": 2619,
    "DCGM_FI_DEV_POWER_USAGE": 640, "DCGM_FI_DEV_GPU_TEMP": 61, "DCGM_FI_DEV_MEMORY_TEMP": 70, "DCGM_FI_DEV_FB_USED": 70000,
    "DCGM_FI_DEV_FB_FREE": 10000, "DCGM_FI_DEV_XID_ERRORS": 0, "DCGM_FI_PROF_PCIE_TX_BYTES": 1e9, "DCGM_FI_PROF_PCIE_RX_BYTES": 2e9,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.9, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.4, "DCGM_FI_PROF_DRAM_ACTIVE": 0.6,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
}
# OpenMetrics gives the samples of counters the end `_total`, which these metrics do not have: their type is unknown.
COUNTERS = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 640_000, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 900_000,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0,
}


def write_metrics(path, gpus, start, seconds, interval):
    """Writes the samples of the fleet as OpenMetrics, each metric's series together."""
    draw = random.Random(7)
    with open(path, "w") as out:
        for name, level in (GAUGES | COUNTERS).items():
            out.write(f"# TYPE {name} {'gauge' if name in GAUGES else 'unknown'}\n")
            for gpu in range(gpus):
                labels = f'gpu="{gpu % 8}",UUID="GPU-scripted-{gpu:06}",Hostname="node-{gpu // 8:04}",modelName="a scripted GPU",job="dcgm"'
                total = 0.0
                for at in range(start, start + seconds + 1, interval):
                    total += level * interval * draw.uniform(0.9, 1.1)
                    value = total if name in COUNTERS else level * draw.uniform(0.98, 1.02)
                    out.write(f"{name}{{{labels}}} {value:.3f} {at}\n")
        out.write("# EOF\n")


def serve(folder):
    """Starts a Prometheus over the blocks, and returns it with its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    arguments = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    server = subprocess.Popen([*arguments, "--storage.tsdb.retention.time=10y", "--log.level=error"])
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/-/ready", timeout=5).close()
            return server, f"http://{address}"
        except (urllib.error.URLError, OSError):
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                sys.exit("bench_fleet: Prometheus is not ready")
            time.sleep(0.1)


def main():
    example = sys.argv[1]
    gpus, seconds, interval = [int(word) for word in [*sys.argv[2:], *["1000", "3600", "15"][len(sys.argv) - 2:]]]
    missing = [program for program in ("prometheus", "promtool") if shutil.which(program) is None]
    if missing:
        sys.exit(f"bench_fleet: `{missing[0]}` is not installed: apt install prometheus")
    with tempfile.TemporaryDirectory(prefix="assay-fleet-") as text:
        folder = pathlib.Path(text)
        start = (int(time.time()) - 4 * 3600) // 7200 * 7200
        print(f"a scripted fleet: {gpus} GPUs, {len(GAUGES) + len(COUNTERS)} metrics, every {interval} s for {seconds} s", flush=True)
        write_metrics(folder / "metrics.txt", gpus, start, seconds, interval)
        blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "metrics.txt"), str(folder / "data")]
        subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL)
        (folder / "metrics.txt").unlink()
        server, url = serve(folder)
        try:
            subprocess.run([example, url, str(start), str(start + seconds), "dcgm", str(folder / "lines")], check=True)
        finally:
            server.kill()
            server.wait()


main()
