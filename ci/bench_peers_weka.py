"""A trace of coding agents in Weka's format, with subagents, as other load generators and Assay play it.

Each request of the trace has lengths that no other has, so that the truth of a simulator says which turn each request was.
"""

import json
import statistics

BLOCK, SESSIONS, API_S = 64, 6, 0.01


class Writer:
    """Writes turns, and remembers what each waits for and how much of it an earlier prompt has."""

    def __init__(self):
        self.turns, self.number = [], 0

    def turn(self, at, ids, waits, stop="tool_use"):
        """A request, and its number among all turns. `waits` are the numbers of the turns whose ends it comes after."""
        self.number += 1
        request = {"t": round(at, 6), "type": "n", "model": "agent", "in": BLOCK * len(ids), "out": 3 + self.number, "hash_ids": list(ids),
                   "input_types": ["text"], "output_types": ["text"], "stop": stop, "api_time": API_S}
        pause = at - max((self.turns[before]["at"] + API_S for before in waits), default=at)
        self.turns.append({"in": request["in"], "out": request["out"], "ids": list(ids), "waits": list(waits), "at": at, "pause_ms": 1e3 * pause})
        return request, len(self.turns) - 1


def subagent(at, agent, status, requests):
    done = status == "completed"
    duration = round((requests[-1]["t"] + API_S - at) * 1000) if done else None
    return {"t": round(at, 6), "type": "subagent", "agent_id": agent, "subagent_type": "find", "duration_ms": duration, "status": status,
            "total_tokens": None, "tool_use_count": None, "requests": requests, "models": ["agent"], "tool_tokens": 0, "system_tokens": 0}


def session(writer, number):
    """A session of five turns. The second spawns two subagents that the third joins, and the third one in the background."""
    first = len(writer.turns)
    ids = list(range(4 + number))
    fresh = 100
    requests, last, at = [], None, 0.0
    for place in range(5):
        waits = [last] if last is not None else []
        if place == 2:
            waits += joined
        request, last = writer.turn(at, ids, waits, "end_turn" if place == 4 else "tool_use")
        requests.append(request)
        ends = at + API_S
        if place == 1:
            joined = []
            for agent, lines in (("a", 3), ("b", 2)):
                begins, own, before, inner = ends + 0.02, [1000 * lines, 1000 * lines + 1], last, []
                for line in range(lines):
                    inner_request, before = writer.turn(begins + 0.03 * line, own, [before])
                    inner.append(inner_request)
                    own = own + [1000 * lines + 10 + line]
                joined.append(before)
                requests.append(subagent(begins, agent, "completed", inner))
            # After the end of the longer one.
            ends += 0.02 + 0.03 * 2 + API_S
        if place == 2:
            inner_request, _ = writer.turn(ends + 0.01, [5000, 5001, 5002], [last])
            requests.append(subagent(ends + 0.01, "c", "async_launched", [inner_request]))
        ids, fresh = ids + [fresh, fresh + 1], fresh + 2
        at = ends + 0.04
    for turn in writer.turns[first:]:
        turn["session"] = number
    return {"id": f"s{number}", "models": ["agent"], "block_size": BLOCK, "hash_id_scope": "local", "tool_tokens": 0, "system_tokens": 0,
            "requests": requests}


def write(folder):
    """Writes the trace as a folder of sessions and as a file of lines, and returns its turns."""
    writer = Writer()
    sessions = [session(writer, number) for number in range(SESSIONS)]
    (folder / "weka").mkdir()
    for trace in sessions:
        (folder / "weka" / f"{trace['id']}.json").write_text(json.dumps(trace))
    (folder / "weka.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in sessions))
    return writer.turns


def reused(turns):
    """The tokens of whole blocks that each turn begins with and an earlier turn of its session has, but never its last token."""
    seen, found = set(), []
    for turn in turns:
        prefix, tokens = (turn["session"],), 0
        for number, block in enumerate(turn["ids"]):
            prefix += (block,)
            if prefix not in seen or (number + 1) * BLOCK >= turn["in"]:
                break
            tokens += BLOCK
        found.append(tokens)
        seen.update((turn["session"], *turn["ids"][:end]) for end in range(1, len(turn["ids"]) + 1))
    return found


def describe(turns, sent):
    """What of the trace came as it was recorded, by what the endpoint was sent."""
    places = {(turn["in"], turn["out"]): number for number, turn in enumerate(turns)}
    found = [places.get((request["prompt_tokens"], request["output_tokens"])) for request in sent]
    by_turn = {number: request for number, request in zip(found, sent) if number is not None}
    edges = [(before, number) for number, turn in enumerate(turns) for before in turn["waits"]]
    kept = sum(
        before in by_turn and number in by_turn and by_turn[before]["end_ns"] <= by_turn[number]["arrived_ns"] for before, number in edges
    )
    expected = reused(turns)

    def pauses(wanted):
        """The time by which pauses differ from the recorded ones, of the turns that wait for so many others."""
        return statistics.median(
            (by_turn[number]["arrived_ns"] - max(by_turn[before]["end_ns"] for before in turn["waits"])) / 1e6 - turn["pause_ms"]
            for number, turn in enumerate(turns) if number in by_turn and wanted(len(turn["waits"])) and set(turn["waits"]) <= by_turn.keys()
        )

    of_session = lambda session, instant, chosen: chosen(
        (by_turn[number][instant] for number, turn in enumerate(turns) if turn["session"] == session and number in by_turn), default=0
    )
    follow = sum(of_session(session, "arrived_ns", min) >= of_session(session - 1, "end_ns", max) for session in range(1, SESSIONS))
    return {
        "requests": len(sent),
        "turns with their input and output lengths": len(by_turn),
        "turns after all that they wait for": f"{kept} of {len(edges)}",
        "turns with the tokens found in the cache": sum(by_turn[number]["cached_tokens"] == expected[number] for number in by_turn),
        "tokens found in the cache": sum(request["cached_tokens"] for request in sent),
        "sessions after all of the one before": f"{follow} of {SESSIONS - 1}",
        "most requests at a time": at_once(sent),
        "pause of turns that wait for one, p50 from the trace, ms": round(pauses(lambda waits: waits == 1), 1),
        "pause of turns that join, p50 from the trace, ms": round(pauses(lambda waits: waits > 1), 1),
    }


def at_once(sent):
    events = sorted((at, step) for request in sent for at, step in ((request["arrived_ns"], 1), (request["end_ns"], -1)))
    now = most = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def told(turns):
    """The same of the trace itself."""
    return {
        "requests": len(turns), "turns with their input and output lengths": len(turns),
        "turns after all that they wait for": "{0} of {0}".format(sum(len(turn["waits"]) for turn in turns)),
        "turns with the tokens found in the cache": len(turns), "tokens found in the cache": sum(reused(turns)),
        "sessions after all of the one before": f"{SESSIONS - 1} of {SESSIONS - 1}",
    }
