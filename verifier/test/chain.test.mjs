// The links between manifests: a small whole chain, and every way to break it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { canonicalText } from "../src/canonical.js";
import { checkChain } from "../src/chain.js";
import { digestOf, toBytes } from "../src/bytes.js";
import { checkEvidenceList, checkListedRuns, checkTimes } from "../src/evidence.js";
import { KINDS } from "../src/manifest.js";
import { checkRepeated } from "../src/statement.js";

const digest = (text) => digestOf(toBytes(text));
const block = { index: 0, incarnation: 0 };

const bytes = (name, digest) => ({ name, digest, media_type: "application/octet-stream" });

/** A member of each kind, each made from those before it as its kind allows. */
async function chain(change = () => {}) {
  const [files, script] = [await digest("files"), await digest("script")];
  const source = {
    kind: "git",
    repository: "https://example.org/r",
    commit: "ab".repeat(20),
    dirty: false,
    files_digest: files,
    objects: [],
    pipeline: "p.yaml",
    files: [
      { path: "p.yaml", executable: false, artifact: bytes("files/p.yaml", await digest("p")) },
      { path: "w/run.sh", executable: true, artifact: bytes("files/w/run.sh", script) },
    ],
  };
  const plan = {
    source: { kind: "git", repository: source.repository, commit: source.commit, dirty: false, files_digest: files },
    pipeline: { path: "p.yaml", digest: await digest("p") },
    trials: [{ trial_id: "a.b.c.d.t0" }],
    queries: [],
    targets: [],
    cases: [{ case_id: "a.b.c" }],
    workloads: [{ indicator: { script: { origin: "w/run.sh", artifact: { digest: script } }, files: [] } }],
  };
  const bodies = {
    source,
    plan,
    environment: { block },
    execution_part: { block, shard: { index: 0, count: 1 } },
    recording: { block, sequence: 0 },
    collection: {},
    summary: {},
    publication: {},
  };
  const draft = { bodies, inputs: {} };
  change(draft, "before");
  const members = [];
  const planDigest = await digest(canonicalText(plan));
  const manifestOf = (kind) => members.find(({ document }) => document.kind === kind)?.reference.manifest;
  for (const [kind, body] of Object.entries(bodies)) {
    if (body === null) continue;
    if (!["source", "plan"].includes(kind)) body.plan_digest ??= planDigest;
    const attempt = { trial_id: "a.b.c.d.t0", attempt: 0, validity: { valid: true }, window: { start: at(2), end: at(3) } };
    if (kind === "execution_part") body.attempts ??= [attempt];
    const collected = { attempt: 0, block, shard: { index: 0, count: 1 }, part: manifestOf("execution_part"), counted: true };
    if (kind === "collection") body.trials ??= [{ trial_id: "a.b.c.d.t0", counted: true, attempts: [collected] }];
    if (kind === "summary") body.artifact_manifest_digest ??= manifestOf("collection");
    if (kind === "publication") Object.assign(body, { summary: body.summary ?? manifestOf("summary"), published_at: at(8) });
    const inputs =
      draft.inputs[kind] ??
      members.filter(({ document }) => Object.hasOwn(KINDS[kind].takes, document.kind)).map(({ reference }) => reference);
    const reference = { kind, manifest: await digest(`${kind} manifest`), bundle: await digest(`${kind} bundle`) };
    members.push({
      document: { kind, header: { run_id: "nightly", inputs }, body, artifacts: [] },
      reference,
      time: at(kind === "publication" ? 9 : 4 + members.length / 10),
    });
  }
  change({ members }, "after");
  return members;
}

const at = (minute) =>
  `2026-01-01T00:${String(Math.floor(minute)).padStart(2, "0")}:${String(Math.round((minute % 1) * 60)).padStart(2, "0")}.000000000Z`;

async function codeOf(change, check = (members) => checkChain("nightly", members)) {
  const members = await chain(change);
  try {
    await check(members);
    return "none";
  } catch (error) {
    return error.code ?? String(error);
  }
}

const before = (run) => (draft, when) => when === "before" && run(draft.bodies);
const after = (run) => (draft, when) =>
  when === "after" && run(Object.fromEntries(draft.members.map((member) => [member.document.kind, member])), draft.members);

test("a whole chain holds", async () => assert.equal(await codeOf(() => {}), "none"));

test("each broken link has a name", async () => {
  const other = await digest("other");
  const cases = [
    ["other_run", after(({ plan }) => (plan.document.header.run_id = "weekly"))],
    [
      "missing_input",
      after(({ summary }) => (summary.document.header.inputs = [{ kind: "plan", manifest: other, bundle: other }])),
    ],
    [
      "missing_input",
      after(({ plan, environment }) => (environment.document.header.inputs = [{ ...plan.reference, bundle: other }])),
    ],
    ["other_plan", before((bodies) => (bodies.recording.plan_digest = other))],
    ["other_evidence", before((bodies) => (bodies.summary.artifact_manifest_digest = other))],
    ["other_evidence", before((bodies) => (bodies.publication.summary = other))],
    ["missing_stage", before((bodies) => (bodies.collection = null))],
    ["missing_stage", before((bodies) => (bodies.environment = null))],
    ["too_many", after((by, members) => members.push({ ...by.plan, reference: { ...by.plan.reference, bundle: other } }))],
    [
      "accepted_twice",
      after((by, members) => members.push({ ...by.recording, reference: { ...by.recording.reference, bundle: other } })),
    ],
    ["input_count", after(({ plan }) => (plan.document.header.inputs = []))],
    ["input_count", after(({ collection }) => collection.document.header.inputs.splice(1, 1))],
    ["input_left_out", after(({ collection }) => collection.document.header.inputs.pop())],
    ["source_contradicts_itself", before((bodies) => (bodies.source.dirty = true))],
    ["source_contradicts_itself", before((bodies) => (bodies.source.files[0].artifact.name = "files/q.yaml"))],
    ["source_contradicts_itself", before((bodies) => (bodies.source.import = { file: "job.yaml" }))],
    ["source_contradicts_itself", before((bodies) => (bodies.source.import = { file: "p.yaml" }))],
    ["plan_source_differs", before((bodies) => (bodies.source.import = { file: "w/run.sh" }))],
    ["plan_source_differs", before((bodies) => (bodies.plan.source.commit = "cd".repeat(20)))],
    ["plan_source_differs", before((bodies) => (bodies.plan.pipeline.digest = other))],
    ["plan_source_differs", before((bodies) => (bodies.plan.workloads[0].indicator.script.artifact.digest = other))],
    ["block_without_environment", before((bodies) => (bodies.execution_part.block = { index: 1, incarnation: 0 }))],
    ["block_missing", before((bodies) => (bodies.environment.block = bodies.execution_part.block = { index: 1, incarnation: 0 }))],
    ["trials_unaccounted", before((bodies) => bodies.plan.trials.push({ trial_id: "a.b.c.d.t1" }))],
    ["attempts_unaccounted", after(({ collection }) => (collection.document.body.trials[0].attempts[0].attempt = 1))],
    [
      "attempts_unaccounted",
      after(({ execution_part: part }) => part.document.body.attempts.push({ ...part.document.body.attempts[0], attempt: 1 })),
    ],
    [
      "attempts_unaccounted",
      after(({ execution_part: part }) => part.document.body.attempts.push(part.document.body.attempts[0])),
    ],
    ["other_attempt_counted", after(({ collection }) => (collection.document.body.trials[0].counted = false))],
    ["other_attempt_counted", after(({ execution_part: part }) => (part.document.body.attempts[0].validity.valid = false))],
    ["other_attempt_counted", after(({ collection }) => (collection.document.body.trials[0].attempts[0].shard.count = 2))],
  ];
  for (const [place, [code, change]] of cases.entries()) assert.equal(await codeOf(change), code, `case ${place}`);
});

test("the packages of a variant are those of its lock file", async () => {
  const lock = await digest("script");
  const python = { lock: { origin: "w/run.sh", artifact: { digest: lock } }, packages: [{ name: "six", version: "1.16" }] };
  const withStack = (change) =>
    before((bodies) => {
      bodies.plan.variants = [{ name: "v", env: [], python }];
      bodies.plan.cases = [{ case_id: "a.b.c", variant: "v" }];
      const attempt = { trial_id: "a.b.c.d.t0", attempt: 0, case_id: "a.b.c", status: "completed" };
      bodies.execution_part.attempts = [{ ...attempt, validity: { valid: true }, window: { start: at(2), end: at(3) } }];
      bodies.execution_part.stacks = [{ variant: "v", lock, packages: [{ name: "six", version: "1.16.0" }] }];
      change(bodies.execution_part);
    });
  assert.equal(await codeOf(withStack(() => {})), "none");
  const changes = [
    (part) => (part.stacks = []),
    (part) => (part.stacks[0].lock = "sha256:00"),
    (part) => (part.stacks[0].variant = "other"),
    (part) => (part.stacks[0].packages[0].version = "1.17"),
    (part) => (part.stacks[0].packages = []),
    (part) => part.stacks[0].packages.push({ name: "pip", version: "23.2" }),
    (part) => (part.stacks[0].failure = { code: "stack_not_installed", detail: "" }),
  ];
  for (const [place, change] of changes.entries()) assert.equal(await codeOf(withStack(change)), "stack_differs", `case ${place}`);
});

test("what a statement repeats is what the manifests say", async () => {
  const named = async (text) => ({ sha256: (await digest(text)).slice("sha256:".length) });
  const commit = { digest: { gitCommit: "ab".repeat(20) }, uri: "git+https://example.org/r" };
  const definition = { digest: await named("p"), name: "p.yaml" };
  const of = ({ document }) => {
    const { kind, header, body } = document;
    const from = kind === "plan" || kind === "source" ? [commit, definition] : [];
    const inputs = header.inputs.map(({ manifest }) => ({ digest: { sha256: manifest.slice("sha256:".length) }, name: "x.json" }));
    if (kind !== "publication")
      return { parameters: { run_id: "nightly", stage: KINDS[kind].stage }, dependencies: [...from, ...inputs] };
    const hex = body.trust_policy.slice("sha256:".length);
    const policy = { digest: { sha256: hex }, uri: `assay:blobs/sha256/${hex}` };
    return {
      ...{ resource: "assay:runs/nightly", result: "PASSED", levels: ["ASSAY_LEVEL_1"] },
      ...{ policy, attestations: header.inputs.length },
    };
  };
  const code = async (change) => {
    const [draft, trust] = [await chain(before((bodies) => (bodies.plan.workloads = []))), await digest("trust")];
    draft.find(({ document }) => document.kind === "publication").document.body.trust_policy = trust;
    const members = draft.map((member) => ({ ...member, statement: of(member) }));
    change(Object.fromEntries(members.map(({ document, statement }) => [document.kind, statement])));
    try {
      checkRepeated(members);
      return "none";
    } catch (error) {
      return error.code ?? String(error);
    }
  };
  assert.equal(await code(() => {}), "none");
  const others = [
    ({ plan }) => (plan.parameters.run_id = "weekly"),
    ({ recording }) => (recording.parameters.stage = "collect"),
    ({ source }) => source.dependencies.pop(),
    ({ plan }) => plan.dependencies.push({ digest: { gitCommit: "cd".repeat(20) }, uri: "git+https://example.org/r" }),
    ({ publication }) => (publication.resource = "assay:runs/weekly"),
    ({ publication }) => (publication.result = "FAILED"),
    ({ publication }) => publication.levels.push("ASSAY_LEVEL_4"),
    ({ publication }) => (publication.policy.uri = "assay:blobs/sha256/00"),
    ({ publication }) => (publication.attestations += 1),
  ];
  for (const [place, change] of others.entries()) assert.equal(await code(change), "statement_differs", `case ${place}`);
});

test("times follow each other", async () => {
  const code = (change) => codeOf(change, checkTimes);
  assert.equal(await code(() => {}), "none");
  assert.equal(await code(after(({ plan }) => (plan.time = at(30)))), "time_order");
  assert.equal(await code(after(({ publication }) => (publication.document.body.published_at = at(1)))), "time_order");
  assert.equal(await code(after(({ publication }) => (publication.document.body.published_at = at(20)))), "time_order");
  assert.equal(
    await code(after(({ execution_part: part }) => (part.document.body.attempts[0].window.end = at(40)))),
    "time_order",
  );
  assert.equal(await code(after(({ plan }) => (plan.time = at(5)))), "none", "clocks may differ by a minute");
});

test("the list of evidence leaves nothing out", async () => {
  const artifact = { name: "trials/t0/stdout", digest: await digest("out"), size: "3", media_type: "text/plain" };
  const code = (list, count) =>
    codeOf(
      after(({ execution_part: part }) => (part.document.artifacts = [artifact])),
      (members) => checkEvidenceList(toBytes(JSON.stringify(list)), { evidence_count: count }, members),
    );
  assert.equal(await code([artifact], "1"), "none");
  assert.equal(await code([], "0"), "evidence_incomplete");
  assert.equal(await code([{ ...artifact, size: "4" }], "1"), "evidence_incomplete");
  assert.equal(await code([artifact], "2"), "evidence");
  assert.equal(await code({}, "1"), "evidence");
});

test("a publication lists its own run", () => {
  const plan = { cases: [{ case_id: "a.b.c" }] };
  const own = { run_id: "nightly", outcome: "this", cases: ["a.b.c"] };
  const check = (runs) => () => checkListedRuns("nightly", plan, { runs });
  check([own, { run_id: "weekly", outcome: "finished", cases: ["a.b.c"] }])();
  for (const runs of [
    [],
    [own, own],
    [{ ...own, cases: [] }],
    [{ ...own, outcome: "finished" }],
    [{ ...own, run_id: "weekly" }],
  ]) {
    assert.throws(check(runs), { code: "own_run_listed_otherwise" });
  }
});
