// Files against a commit, with objects made by hand as Git makes them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { concat, digestOf, hash, toBytes, toHex } from "../src/bytes.js";
import { checkSourceFiles } from "../src/git.js";

const fromHex = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
const oidOf = async (kind, bytes) => toHex(await hash("SHA-1", concat(toBytes(`${kind} ${bytes.length}\0`), bytes)));
const tree = (...entries) => concat(...entries.flatMap(([mode, name, oid]) => [toBytes(`${mode} ${name}\0`), fromHex(oid)]));

/** A Source of two files, one of them executable in a folder, and the bytes of everything by digest. */
async function source(change = () => {}) {
  const [readme, script] = [toBytes("read me\n"), toBytes("#!/bin/sh\n")];
  const inner = tree(["100755", "run.sh", await oidOf("blob", script)]);
  const root = tree(["100644", "README", await oidOf("blob", readme)], ["40000", "w", await oidOf("tree", inner)]);
  const commit = toBytes(`tree ${await oidOf("tree", root)}\nauthor A <a> 0 +0000\n\nThe subject\n\nmore\n`);
  const draft = {
    objects: [
      ["commit", commit],
      ["tree", root],
      ["tree", inner],
    ],
    files: [
      ["README", false, readme],
      ["w/run.sh", true, script],
    ],
  };
  draft.commit = await oidOf("commit", commit);
  await change(draft);
  const blobs = new Map();
  const artifact = async (bytes) => {
    const digest = await digestOf(bytes);
    blobs.set(digest, bytes);
    return { digest };
  };
  const objects = [];
  for (const [kind, bytes, oid] of draft.objects)
    objects.push({ kind, oid: oid ?? (await oidOf(kind, bytes)), artifact: await artifact(bytes) });
  const files = [];
  for (const [path, executable, bytes] of draft.files) files.push({ path, executable, artifact: await artifact(bytes) });
  const lines = files.map((file) => `${file.artifact.digest} ${file.executable ? "x" : "-"} ${file.path}\n`);
  const body = {
    kind: draft.kind ?? "git",
    commit: draft.commit,
    objects,
    files,
    ...(draft.import && { import: draft.import }),
    files_digest: draft.filesDigest ?? (await digestOf(toBytes(lines.join("")))),
  };
  return checkSourceFiles(body, async ({ digest }) => blobs.get(digest));
}

test("files are the commit's", async () => {
  assert.equal(await source(), "The subject");
  assert.equal(await source((draft) => (draft.kind = "worktree")), null, "no commit vouches for a work tree");
});

test("of imported definitions, the original is the commit's", async () => {
  const imported = (draft) => {
    draft.import = { file: "w/run.sh" };
    draft.files[0] = ["p.yaml", false, toBytes("imported\n")];
  };
  assert.equal(await source(imported), "The subject");
  await assert.rejects(source((draft) => (imported(draft), (draft.files[1][2] = toBytes("other\n")))), { code: "commit" });
  await assert.rejects(source((draft) => (imported(draft), delete draft.import)), { code: "commit" });
});

test("whatever is not the commit's is refused", async () => {
  const changes = {
    "another file": (draft) => (draft.files[0][2] = toBytes("other")),
    "another mode": (draft) => (draft.files[1][1] = false),
    "another path": (draft) => (draft.files[0][0] = "w/README"),
    "a folder as a file": (draft) => (draft.files[0][0] = "w"),
    "a file as a folder": (draft) => (draft.files[0][0] = "README/more"),
    "a missing tree": (draft) => draft.objects.pop(),
    "a missing commit": (draft) => draft.objects.shift(),
    "an object of other bytes": (draft) => (draft.objects[1] = ["tree", toBytes("x"), "ab".repeat(20)]),
    "another commit": (draft) => (draft.commit = "ab".repeat(20)),
    "no commit": (draft) => (draft.commit = undefined),
  };
  for (const [name, change] of Object.entries(changes)) await assert.rejects(source(change), { code: "commit" }, name);
  const digest = `sha256:${"ab".repeat(32)}`;
  await assert.rejects(
    source((draft) => (draft.filesDigest = digest)),
    { code: "source_contradicts_itself" },
  );
});
