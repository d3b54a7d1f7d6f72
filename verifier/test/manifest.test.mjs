// The signed examples of `manifests/examples`: each verifies, and no change of one does. A form that this page does not know would
// show here first.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { readContract, readTables } from "../contract.mjs";
import { PAYLOAD_TYPE, readBundle } from "../src/bundle.js";
import { digestOf, toBytes } from "../src/bytes.js";
import { KINDS, readManifest, subjectsOf } from "../src/manifest.js";
import { checkSchema } from "../src/schema.js";
import { pae } from "../src/signature.js";
import { checkStatement, readStatement } from "../src/statement.js";
import { establish, readPasted } from "../src/trust.js";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const examples = join(root, "manifests/examples/v1alpha1");
const { schemas } = readContract(root);
const read = (path) => new Uint8Array(readFileSync(path));
const published = readdirSync(examples)
  .filter((name) => name.endsWith(".json") && !name.endsWith(".sigstore.json"))
  .filter((name) => Object.hasOwn(KINDS, name.replace(/(-.*)?\.json$/, "")));
const trust = await establish(
  readPasted(readFileSync(join(root, "manifests/examples/trust.yaml"), "utf8")),
  new Map(),
  () => null,
);

async function verifyExample(manifest, bundle) {
  const { fingerprint, payload, signature } = readBundle(bundle);
  assert.equal(await trust.key(fingerprint).verifies(pae(PAYLOAD_TYPE, payload), signature), true);
  const statement = readStatement(payload);
  trust.identify(fingerprint, KINDS[statement.kind].role, statement.time);
  const document = readManifest(manifest, schemas);
  checkStatement(statement, document, await subjectsOf(document, await digestOf(manifest)));
  return document;
}

test("every signed example of a published kind verifies", async () => {
  assert.ok(published.length >= Object.keys(KINDS).length, published.join());
  for (const name of published) {
    const { kind } = await verifyExample(
      read(join(examples, name)),
      read(join(examples, name.replace(".json", ".sigstore.json"))),
    );
    assert.equal(name.replace(/(-.*)?\.json$/, ""), kind);
  }
});

const codeOf = (run) => {
  try {
    run();
    return "none";
  } catch (error) {
    return error.code;
  }
};

test("a changed manifest is refused by name", () => {
  const text = readFileSync(join(examples, "plan.json"), "utf8");
  const code = (changed) => codeOf(() => readManifest(toBytes(changed), schemas));
  assert.equal(code(text), "none");
  assert.equal(code(`${text}\n`), "manifest_not_canonical");
  assert.equal(code(text.replace('"version":"v1alpha1"', '"version":"v9"')), "unknown_version");
  assert.equal(code(text.replace('"stage":"plan"', '"stage":"publish"')), "wrong_stage");
  assert.equal(code(text.replace('{"body":{', '{"body":{"a":1,')), "manifest_malformed");
  assert.equal(code(text.replace('"kind":"plan"', '"kind":"recipe"')), "manifest_malformed");
  assert.equal(code("{}"), "manifest_malformed");
  assert.equal(
    codeOf(() => readManifest(Uint8Array.of(0xff), schemas)),
    "manifest_malformed",
  );
});

test("a changed bundle is refused by name", () => {
  const whole = JSON.parse(readFileSync(join(examples, "plan.sigstore.json"), "utf8"));
  const code = (change) => {
    const bundle = structuredClone(whole);
    change(bundle);
    return codeOf(() => readBundle(toBytes(JSON.stringify(bundle))));
  };
  assert.equal(
    code(() => {}),
    "none",
  );
  assert.equal(
    code((bundle) => (bundle.more = 1)),
    "bundle_malformed",
  );
  assert.equal(
    code((bundle) => delete bundle.dsseEnvelope),
    "bundle_malformed",
  );
  assert.equal(
    code((bundle) => (bundle.mediaType = "other")),
    "unknown_bundle_version",
  );
  assert.equal(
    code((bundle) => (bundle.dsseEnvelope.signatures = [])),
    "signature_count",
  );
  assert.equal(
    code((bundle) => (bundle.dsseEnvelope.payloadType = "text/plain")),
    "wrong_payload_type",
  );
  assert.equal(
    code((bundle) => (bundle.messageSignature = {})),
    "message_signature_bundle",
  );
  assert.equal(
    code((bundle) => (bundle.verificationMaterial = { certificate: {} })),
    "keyless_bundle",
  );
  assert.equal(
    code((bundle) => (bundle.verificationMaterial.publicKey.hint = "AAAA")),
    "bundle_malformed",
  );
  const logged = structuredClone(whole);
  logged.verificationMaterial.tlogEntries = [{}];
  assert.deepEqual(readBundle(toBytes(JSON.stringify(logged))).unchecked, ["entries of a transparency log"]);
});

test("a schema describes what it describes", () => {
  const schema = {
    $defs: {
      Artifact: { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false },
    },
    type: "object",
    properties: {
      files: { type: "array", items: { $ref: "#/$defs/Artifact" } },
      one: { anyOf: [{ $ref: "#/$defs/Artifact" }, { type: "null" }] },
    },
    additionalProperties: false,
  };
  const check = (value) => checkSchema(value, schema);
  assert.deepEqual(check({ files: [{ name: "a" }], one: { name: "b" } }), {
    problem: null,
    artifacts: [
      { place: "files.0", artifact: { name: "a" } },
      { place: "one", artifact: { name: "b" } },
    ],
  });
  assert.equal(check({ one: null }).problem, null);
  assert.match(check({ files: [{}] }).problem, /files\.0\.name/);
  assert.match(check({ other: 1 }).problem, /other/);
  assert.match(check({ one: 1 }).problem, /one/);
});

test("the tables' page has keys, units and types", () => {
  const tables = readTables(readFileSync(join(root, "docs/tables.md"), "utf8"));
  const column = (table, name) => tables[table].find((one) => one.name === name);
  assert.deepEqual(column("outcome_fact", "value"), {
    name: "value",
    key: false,
    type: "float",
    unit: "as `unit` says",
    nullable: true,
  });
  assert.equal(column("serving_outcome_fact", "ttft_ns_p99").unit, "ns");
  assert.equal(column("serving_outcome_fact", "run_id").key, true);
  for (const [table, columns] of Object.entries(tables)) assert.equal(columns.at(-1).name, "row_id", table);
});
