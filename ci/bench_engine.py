"""A real engine under Assay's load: llama.cpp, behind the server of llama-cpp-python, with a model of random weights.

    python3 ci/bench_engine.py PROGRAMS ENGINE_VENV

The engine keeps the keys and values of its last request, says in its log how many tokens of a prompt it found there and how many it computed, and
has a line for each request. So its log is the other side of every figure here: requests sent, input tokens, and what a prefix saves. What Assay sent
is read from its records of all attempts, by another reader of Parquet.
"""

import json
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from pyarrow import parquet

MODEL = "random-bytes"
PROMPTS, TRIALS = 24, 3
START_S = 60


class Engine:
    """The server, with its log. One thread computes, so that the load generator has the other processor."""

    def __init__(self, venv, model, log, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        command = [venv / "bin/python", "-m", "llama_cpp.server", "--model", model, "--model_alias", MODEL, "--host", "127.0.0.1", "--port", port,
                   "--n_ctx", 8192, "--n_threads", 1, "--n_threads_batch", 1, "--interrupt_requests", "false", *options]
        with open(log, "w") as out:
            self.process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=subprocess.STDOUT)

    def __enter__(self):
        begun = time.monotonic()
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/v1/models"):
                    return self
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None or time.monotonic() - begun > START_S:
                    sys.exit(f"the engine does not respond:\n{self.log.read_text()[-3000:]}")
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def told(self):
        """Requests that it responded to, and tokens of prompts that it found and computed."""
        log = self.log.read_text()
        found = [(int(hit), int(rest)) for hit, rest in re.findall(r"(\d+) prefix-match hit, remaining (\d+) prompt", log)]
        return {
            "requests": len(re.findall(r'"POST /v1/\S+ HTTP/1.1" 200', log)),
            "refused": len(re.findall(r'"POST /v1/\S+ HTTP/1.1" [345]', log)),
            "found": sum(hit for hit, _ in found),
            "computed": sum(int(tokens) for tokens in re.findall(r"prompt eval time = *[0-9.]+ ms / *(\d+) tokens", log)),
        }


class Bench:
    def __init__(self, programs, venv, folder):
        self.programs, self.venv, self.folder, self.runs = programs, venv, folder, 0

    def run(self, options, *arguments):
        """The metrics of one point as Assay has them, what its records hold, and what a fresh engine told of the same requests."""
        self.runs += 1
        log, home = self.folder / f"engine-{self.runs}.log", self.folder / f"home-{self.runs}"
        home.mkdir()
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(self.folder)}
        with Engine(self.venv, self.folder / "model.gguf", log, *options) as engine:
            command = [self.programs / "assay", "bench", "--url", engine.url, "--model", MODEL, "--tokenizer", "tokenizer.json", "--concurrency", "1",
                       "--trials", str(TRIALS), "--warmup", "0s", "--no-exact-output", "--json", *arguments]
            ran = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            told = engine.told()
        if ran.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stderr[-3000:]}\n{log.read_text()[-3000:]}")
        result = json.loads(ran.stdout)["results"][0]
        return {metric["metric"]: metric.get("median") for metric in result["metrics"]}, recorded(home), told


def recorded(home):
    """Requests of all attempts, also of those that do not count, by Assay's records."""
    sent, failed, tokens = 0, 0, 0
    for path in home.glob(".local/share/assay/blobs/sha256/*/*"):
        with open(path, "rb") as file:
            if file.read(4) != b"PAR1":
                continue
        if "global_index" not in parquet.read_schema(path).names:
            continue
        rows = parquet.read_table(path, columns=["sent_ns", "outcome", "input_tokens"]).to_pylist()
        rows = [row for row in rows if row["sent_ns"] is not None]
        sent += len(rows)
        failed += sum(row["outcome"] not in ("ok", 0) for row in rows)
        tokens += sum(row["input_tokens"] or 0 for row in rows)
    return {"sent": sent, "failed": failed, "tokens": tokens}


def prompts(path):
    """English of common words, as no two prompts begin alike: between 200 and 1,200 letters, each of which is a token."""
    words = "the a model server token request answer time long short read write each every line of in on with from keeps gives takes finds".split()
    draw = random.Random(7)
    with open(path, "w") as file:
        for number in range(PROMPTS):
            text = f"{number} " + " ".join(draw.choice(words) for _ in range(draw.randrange(40, 240)))
            file.write(json.dumps({"prompt": text, "output_tokens": draw.randrange(8, 25)}) + "\n")


def account(name, sent, told):
    """Prints both sides' counts. One request more asks before the first trial whether the endpoint responds."""
    same = "agree" if told["requests"] == sent["sent"] + 1 and told["refused"] == 0 else "DIFFER"
    print(f"  {name}: sent {sent['sent']} + 1, failed {sent['failed']}, responses by the engine {told['requests']}, refused {told['refused']}: {same}")
    print(f"    input tokens: recorded {sent['tokens']}, by the engine {told['found'] + told['computed']} ({told['found']} found, {told['computed']} computed)")


def show(name, *pairs):
    print(f"  {name}: " + ", ".join(f"{title} {value:.1f}" if isinstance(value, float) else f"{title} {value}" for title, value in pairs))


def main():
    programs, venv = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="assay-engine-") as place:
        folder = pathlib.Path(place)
        subprocess.run([venv / "bin/python", pathlib.Path(__file__).with_name("engine_model.py"), folder], check=True)
        bench = Bench(programs, venv, folder)

        print("dataset: prompts of a file, by completions")
        prompts(folder / "prompts.jsonl")
        metrics, sent, told = bench.run([], "--api", "completions", "--dataset", "prompts.jsonl", "--requests", str(PROMPTS))
        account("accounts", sent, told)
        show("client", ("TTFT p50 ms", metrics["ttft_ms_p50"]), ("TPOT p50 ms", metrics["tpot_ms_p50"]), ("output tokens", metrics["osl_tokens_mean"]))

        for history in ("recorded", "live"):
            print(f"sessions of five turns, {history} history, by chat")
            metrics, sent, told = bench.run([], "--sessions", f"turns=5,think_time=500ms,history={history}", "--input-tokens", "400",
                                                "--output-tokens", "24", "--duration", "15s")
            account("accounts", sent, told)
            first, later = metrics["ttft_first_turn_ms_p50"], metrics["ttft_later_turns_ms_p50"]
            show("TTFT p50, ms", ("first turns", first), ("later turns", later), ("later over first", later / first))

        print("a prefix in common: 1,600 tokens a prompt, by completions")
        times = []
        for own, prefix in ((1600, []), (200, ["--prefix", "system=1400"])):
            arguments = ["--api", "completions", "--input-tokens", str(own), "--output-tokens", "8", "--requests", "10", *prefix]
            metrics, sent, told = bench.run([], *arguments)
            account("with 1,400 in common" if prefix else "with none in common", sent, told)
            times.append(metrics["ttft_ms_p50"])
        show("TTFT p50, ms", ("none", times[0]), ("prefix", times[1]), ("prefix over none", times[1] / times[0]))

        print("embeddings")
        metrics, sent, told = bench.run(["--embedding", "true"], "--api", "embeddings", "--scenario", "E(300)", "--requests", "20")
        account("accounts", sent, told)
        show("client", ("E2E p50 ms", metrics["e2e_ms_p50"]))


if __name__ == "__main__":
    main()
