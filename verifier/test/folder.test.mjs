// The folder: limits, and that what is used is what was hashed. And the sentence over a result, which says no more than was found.

import assert from "node:assert/strict";
import { test } from "node:test";

import { digestOf, toBytes } from "../src/bytes.js";
import { Folder, LIMITS, chosenFiles } from "../src/folder.js";
import { shown } from "../src/refusal.js";
import { conclusion } from "../src/sentence.js";

const file = (text) => new Blob([text]);

test("files are found by path and by content", async () => {
  const folder = await Folder.open(
    new Map([
      ["chain/plan.json", file("plan")],
      ["b", file("b")],
    ]),
  );
  const digest = await digestOf(toBytes("plan"));
  assert.equal(folder.at("chain/plan.json"), digest);
  assert.equal(await folder.textOf(digest), "plan");
  assert.equal(await folder.get(await digestOf(toBytes("other"))), null);
  assert.deepEqual(folder.paths(), ["b", "chain/plan.json"]);
  await assert.rejects(folder.get(digest, 3), { code: "artifact_too_large" });
});

test("a file that changes while it is read is refused", async () => {
  const changing = { size: 4, reads: 0, arrayBuffer: async () => toBytes(["plan", "nalp"][changing.reads++]).buffer };
  const folder = await Folder.open(new Map([["plan", changing]]));
  await assert.rejects(folder.get(folder.at("plan")), { code: "artifact_corrupt" });
  const gone = { size: 4, arrayBuffer: () => Promise.reject(new Error("gone")) };
  await assert.rejects(Folder.open(new Map([["plan", gone]])), { code: "unreadable" });
});

test("what is too large or too much is not read", async () => {
  const large = { size: LIMITS.fileBytes + 1 };
  await assert.rejects(Folder.open(new Map([["large", large]])), { code: "folder_too_large" });
  const many = Array.from({ length: 9 }, (_, place) => [String(place), { size: LIMITS.fileBytes }]);
  await assert.rejects(Folder.open(new Map(many)), { code: "folder_too_large" });
  const files = Array.from({ length: LIMITS.files + 1 }, (_, place) => ({ webkitRelativePath: `run/${place}` }));
  assert.throws(() => chosenFiles(files), { code: "too_many_files" });
  assert.deepEqual([...chosenFiles([{ webkitRelativePath: "run/chain/plan.json" }]).files.keys()], ["chain/plan.json"]);
});

test("a name cannot disguise itself", () => {
  assert.equal(shown("report\u202elmth.exe\u0007"), "report\\u{202e}lmth.exe\\u{7}");
  assert.equal(shown("x".repeat(500)).length, 161);
});

test("a sentence says no more than was found", () => {
  const whole = { failure: null, level: 2, established: true, runId: "nightly", strangers: [] };
  assert.equal(
    conclusion(whole),
    "The run `nightly` verifies to level 2 of 4, without plan, queries, grade and reports: signed by those whom you trust.",
  );
  const unknown = conclusion({ ...whole, established: false });
  assert.ok(unknown.includes("signer not established") && !unknown.includes("trust"), unknown);
  assert.ok(
    conclusion({ ...whole, strangers: ["a", "b"] }).endsWith("2 files in it are not of the run: nothing vouches for them."),
  );
  assert.ok(conclusion({ ...whole, trustUnchecked: ["expectations"] }).includes("asks for more than this page checks"));
  const failure = { code: "bad_signature", message: `the signature is not by the key sha256:${"ab".repeat(32)}` };
  assert.equal(
    conclusion({ ...whole, failure }),
    "This folder does not verify: the signature is not by the key sha256:abababababab… (`bad_signature`).",
  );
  assert.ok(
    conclusion({ failure: { code: "trust", message: "x" }, strangers: [] }).startsWith("What you pasted cannot be used: "),
  );
  assert.ok(conclusion({ failure: { code: "unreadable", message: "x" }, strangers: [] }).startsWith("Nothing was verified: "));
});
