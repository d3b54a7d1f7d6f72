// What a reader may paste, and whom it lets believe.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { establish, readPasted, readPolicy } from "../src/trust.js";
import { parseYaml } from "../src/yaml.js";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const policy = readFileSync(join(root, "manifests/examples/trust.yaml"), "utf8");
const HEX = "ab".repeat(32);

const codeOf = async (run) => {
  try {
    await run();
    return "none";
  } catch (error) {
    return error.code ?? String(error);
  }
};

test("fingerprints and policies are told apart", async () => {
  assert.equal(readPasted("  \n"), null);
  assert.deepEqual(readPasted(`sha256:${HEX}\n ${HEX}`), { pins: [`sha256:${HEX}`, `sha256:${HEX}`] });
  assert.deepEqual(readPasted(policy), { policy });
  for (const text of ["sha256:12", HEX.toUpperCase(), "trust me"])
    assert.equal(await codeOf(() => readPasted(text)), "trust", text);
  assert.equal(await codeOf(() => establish(readPasted("all of this is no policy"), new Map(), () => null)), "trust_policy");
});

test("a policy says which key signs what, and when", async () => {
  const read = await readPolicy(policy);
  const names = [...policy.matchAll(/name: "(example-\w+)"/g)].map(([, name]) => name);
  assert.ok(names.length >= 7);
  const windowed = policy.replace(
    / {6}signs: \[plan\]\n/,
    (line) => `${line}      not_after: "2026-01-01T00:00:00Z"\n      not_before: '2025-01-01T00:00:00.5Z' # a remark\n`,
  );
  const later = await readPolicy(windowed);
  const { fingerprint } = await keyNamed("example-plan");
  const time = (year) => `${year}-06-01T00:00:00.000000000Z`;
  assert.deepEqual(read.identify(fingerprint, "plan", time(2030)), { name: "example-plan", established: true });
  assert.equal(await codeOf(() => read.identify(fingerprint, "publish", time(2030))), "wrong_signer");
  assert.equal(await codeOf(() => read.key(`sha256:${HEX}`)), "unknown_key");
  assert.equal(await codeOf(() => later.identify(fingerprint, "plan", time(2025))), "none");
  assert.equal(await codeOf(() => later.identify(fingerprint, "plan", time(2026))), "key_outside_validity");
  assert.equal(await codeOf(() => later.identify(fingerprint, "plan", time(2024))), "key_outside_validity");
});

async function keyNamed(name) {
  const { readKey } = await import("../src/signature.js");
  const signer = parseYaml(policy).spec.signers.find((one) => one.name === name);
  return readKey(signer.key);
}

test("what a policy asks for beyond keys is named", async () => {
  const more = `${policy}  expectations:\n    - {"roles":["plan"],"repositories":["https://example.org/r #1"]}\n`;
  assert.deepEqual((await readPolicy(more)).unchecked, ["expectations"]);
  assert.deepEqual((await readPolicy(policy)).unchecked, []);
});

test("damaged policies are refused", async () => {
  const changes = [
    (text) => text.replace("kind: TrustPolicy", "kind: Pipeline"),
    (text) => text.replace("v1alpha1", "v9"),
    (text) => text.replace("signs: [plan]", "signs: [everything]"),
    (text) => text.replace("signs: [plan]", "signs: &all [plan]"),
    (text) => text.replace("  signers:", "\tsigners:"),
    (text) => text.replace("kind: TrustPolicy", "kind: TrustPolicy\nkind: TrustPolicy"),
    (text) => text.replace(/ {2}signers:[^]*/, "  signers: []\n"),
    (text) => `${text}\n  - stray\n`,
  ];
  for (const [place, change] of changes.entries())
    assert.equal(await codeOf(() => readPolicy(change(policy))), "trust_policy", `change ${place}`);
  assert.equal(
    await codeOf(() =>
      readPolicy(policy.replace("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAF")),
    ),
    "trust_key",
  );
});

test("YAML is read as far as a policy needs it", () => {
  const text = 'a: 1 # one\n"b c": "x # y"\nlist:\n- one\n-  k: v\n   more: |-\n     two\n     lines\nempty:\nlast: it\'s\n';
  assert.deepEqual(parseYaml(text), {
    a: "1",
    "b c": "x # y",
    list: ["one", { k: "v", more: "two\nlines" }],
    empty: null,
    last: "it's",
  });
  for (const bad of ["a: !!str 1", "a: *x", "a: >\n  folded", "a: b: c", "a:\n   b: 1\n  c: 2", "? a", "a: {b: c}"])
    assert.throws(() => parseYaml(bad), bad);
});
