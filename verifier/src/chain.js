// The links between the manifests of one run: which must name which, and what must be accounted for. docs/provenance.md, "What the
// chain stops", says it in prose.
//
// A member of a chain is `{ document, reference }`: a manifest, and the `{ kind, manifest, bundle }` by which others name it.

import { canonicalText } from "./canonical.js";
import { digestOf, toBytes } from "./bytes.js";
import { KINDS, ONE, chainName, inWords } from "./manifest.js";
import { ensure, shown } from "./refusal.js";

export const keyOf = ({ kind, manifest, bundle }) => `${kind} ${manifest} ${bundle}`;

const ofKind = (members, kind) => members.filter(({ document }) => document.kind === kind);

/** Checks that the members are one whole run. */
export async function checkChain(runId, members) {
  checkRun(runId, members);
  checkInputs(members);
  await checkPlan(members);
  checkEvidence(members);
  checkComplete(members);
  checkContract(members);
  checkSource(members);
  checkBlocks(members);
  checkTrials(members);
  checkStacks(members);
}

function checkRun(runId, members) {
  for (const { document } of members) {
    const { run_id: found } = document.header;
    ensure(found === runId, "other_run", `the ${inWords(document.kind)} belongs to the run \`${found}\`, not to \`${runId}\``);
  }
}

function checkInputs(members) {
  const known = new Set(members.map(({ reference }) => keyOf(reference)));
  for (const { document } of members) {
    const missing = document.header.inputs.find((input) => !known.has(keyOf(input)));
    ensure(
      !missing,
      "missing_input",
      () => `the ${inWords(document.kind)} was made from a ${inWords(missing.kind)} that is missing: ${missing.manifest}`,
    );
  }
}

async function checkPlan(members) {
  const [plan] = ofKind(members, "plan");
  if (!plan) return;
  const expected = await digestOf(toBytes(canonicalText(plan.document.body)));
  for (const { document } of members) {
    const found = document.body.plan_digest ?? expected;
    ensure(found === expected, "other_plan", `the ${inWords(document.kind)} follows the plan ${found}, not ${expected}`);
  }
}

function checkEvidence(members) {
  const check = (kind, of, named) => {
    const [here] = ofKind(members, of);
    for (const { document } of ofKind(members, kind)) {
      const found = document.body[named];
      ensure(
        !here || found === here.reference.manifest,
        "other_evidence",
        `the ${kind} names the ${of} ${found}, which is not the one of the chain`,
      );
    }
  };
  check("summary", "collection", "artifact_manifest_digest");
  check("publication", "summary", "summary");
}

function checkComplete(members) {
  for (const kind of ["publication", "source", "plan", "collection", "summary"]) {
    const { length } = ofKind(members, kind);
    ensure(length !== 0, "missing_stage", `the chain has no ${kind}`);
    ensure(length === 1, "too_many", `the chain has ${length} manifests of kind ${kind}, where one is expected`);
  }
  for (const kind of ["environment", "execution_part"]) {
    ensure(ofKind(members, kind).length > 0, "missing_stage", `the chain has no ${inWords(kind)}`);
  }
  const names = members.map(({ document }) => chainName(document));
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  ensure(twice === undefined, "accepted_twice", `the chain has two manifests that are \`${twice}\``);
}

// Each manifest was made from as many manifests of each kind as its stage takes, and from all of a kind of which it takes several.
function checkContract(members) {
  for (const { document } of members) {
    for (const [kind, takes] of Object.entries(KINDS[document.kind].takes)) {
      const { words, admits } = takes;
      const { length } = document.header.inputs.filter((input) => input.kind === kind);
      ensure(
        admits(length),
        "input_count",
        `the ${inWords(document.kind)} was made from ${length} manifests of kind ${inWords(kind)}, where its stage takes ${words}`,
      );
      const named = new Set(document.header.inputs.map(keyOf));
      const left = takes === ONE ? undefined : ofKind(members, kind).find(({ reference }) => !named.has(keyOf(reference)));
      ensure(
        !left,
        "input_left_out",
        () => `the ${inWords(document.kind)} was not made from the ${inWords(kind)} ${left.reference.manifest}, which the run has`,
      );
    }
  }
}

// The plan says in short what it was made from, and pins files of it; the Source has it in full.
function checkSource(members) {
  const [source, plan] = ["source", "plan"].map((kind) => ofKind(members, kind)[0].document.body);
  const fitsKind = {
    git: source.commit && !source.dirty,
    worktree: source.dirty && source.objects.length === 0,
    adhoc: !source.commit && !source.repository && !source.dirty,
  }[source.kind];
  ensure(
    fitsKind,
    "source_contradicts_itself",
    `the source is of kind \`${source.kind}\`, and its commit and cleanliness are not of that kind`,
  );
  const named = [
    ...source.files.map(({ path, artifact }) => [`files/${path}`, artifact]),
    ...source.objects.map(({ oid, artifact }) => [`objects/${oid}`, artifact]),
  ];
  const misnamed = named.find(
    ([name, artifact]) => artifact.name !== name || artifact.media_type !== "application/octet-stream",
  );
  ensure(
    !misnamed,
    "source_contradicts_itself",
    () => `the source’s \`${shown(misnamed[0])}\` has another name or media type`,
  );
  const { import: imported } = source;
  ensure(
    !imported || (imported.file !== source.pipeline && source.files.some(({ path }) => path === imported.file)),
    "source_contradicts_itself",
    "the source names no file of its own that its definitions were imported from",
  );
  ensure(
    !imported || plan.intent === "exploratory",
    "plan_source_differs",
    () => `imported definitions are \`exploratory\`, and the plan is \`${shown(plan.intent)}\``,
  );
  const other = ["kind", "repository", "commit", "dirty", "files_digest"].find((name) => plan.source[name] !== source[name]);
  ensure(other === undefined, "plan_source_differs", `the plan names another \`${other}\` than the source of the chain`);
  const files = new Map(source.files.map(({ path, artifact }) => [path, artifact.digest]));
  const isPipeline = plan.pipeline.path === source.pipeline && plan.pipeline.digest === files.get(source.pipeline);
  ensure(isPipeline, "plan_source_differs", "the plan names another pipeline than the source of the chain");
  // What was fetched from an address is not in the repository.
  const pinned = pinnedFiles(plan).filter(({ origin }) => !origin.includes("://"));
  const differing = pinned.find(({ origin, artifact }) => files.get(origin) !== artifact.digest);
  ensure(
    !differing,
    "plan_source_differs",
    () => `the plan pins other bytes as \`${shown(differing.origin)}\` than the source holds there`,
  );
}

function pinnedFiles(plan) {
  const ofServing = (serving) => [serving?.tokenizer?.file, serving?.prompts?.file];
  const ofWorkload = ({ indicator, serving }) => [indicator?.script, ...(indicator?.files ?? []), ...ofServing(serving)];
  const locks = (plan.variants ?? []).map(({ python }) => python?.lock);
  const objects = plan.targets.flatMap((target) => target.objects ?? []);
  const all = [...plan.workloads.flatMap(ofWorkload), ...objects, ...locks, ...plan.queries];
  return all.filter((file) => file);
}

function checkBlocks(members) {
  const key = ({ index, incarnation }) => `${index}-${incarnation}`;
  const environments = new Set(ofKind(members, "environment").map(({ document }) => key(document.body.block)));
  const part = ofKind(members, "execution_part").find(({ document }) => !environments.has(key(document.body.block)));
  ensure(!part, "block_without_environment", () => `block ${part.document.body.block.index} has no environment of its own`);
  // Blocks and their incarnations are numbered from 0 without gaps.
  for (const { document } of ofKind(members, "environment")) {
    const { index, incarnation } = document.body.block;
    const before = incarnation > 0 ? { index, incarnation: incarnation - 1 } : { index: index - 1, incarnation };
    const isFirst = index === 0 && incarnation === 0;
    ensure(
      isFirst || environments.has(key(before)),
      "block_missing",
      () => `the chain has block ${index}.${incarnation}, and no block ${before.index}.${before.incarnation} before it`,
    );
  }
}

// The planned trials are the collected ones, in one order; every attempt is accounted for, once; and what counts follows the rule.
function checkTrials(members) {
  const [plan, collection] = ["plan", "collection"].map((kind) => ofKind(members, kind)[0].document.body);
  const [planned, collected] = [plan, collection].map(({ trials }) => trials.map((trial) => trial.trial_id));
  ensure(
    planned.join() === collected.join(),
    "trials_unaccounted",
    `${planned.length} trials were planned and ${collected.length} collected, or in another order`,
  );
  const executed = new Map();
  for (const { document, reference } of ofKind(members, "execution_part")) {
    for (const attempt of document.body.attempts) {
      const key = `${reference.manifest} ${attempt.trial_id} ${attempt.attempt}`;
      ensure(
        !executed.has(key),
        "attempts_unaccounted",
        `an execution part has attempt ${attempt.attempt} of \`${attempt.trial_id}\` twice`,
      );
      executed.set(key, attempt);
    }
  }
  const accounted = new Set();
  for (const trial of collection.trials) {
    for (const { part, attempt } of trial.attempts) {
      const key = `${part} ${trial.trial_id} ${attempt}`;
      const isNew = executed.has(key) && !accounted.has(key);
      ensure(
        isNew,
        "attempts_unaccounted",
        `the collection lists attempt ${attempt} of \`${shown(trial.trial_id)}\`, which no part has, or lists it twice`,
      );
      accounted.add(key);
    }
    checkCounted(trial, executed);
  }
  ensure(
    accounted.size === executed.size,
    "attempts_unaccounted",
    `${executed.size - accounted.size} attempts are not in the collection`,
  );
}

// The packages that were installed for a variant are those of its lock file, and each attempt of such a variant ran with them.
function checkStacks(members) {
  const plan = ofKind(members, "plan")[0].document.body;
  const planned = new Map((plan.variants ?? []).filter(({ python }) => python).map(({ name, python }) => [name, python]));
  const variants = new Map(plan.cases.map(({ case_id, variant }) => [case_id, variant]));
  const neverRan = ["not_prepared", "interrupted", "cancelled"];
  for (const { document } of ofKind(members, "execution_part")) {
    const stacks = document.body.stacks ?? [];
    const differing = stacks.find((stack) => !isPlanned(planned.get(stack.variant), stack));
    ensure(!differing, "stack_differs", () => `the packages of the variant \`${shown(differing.variant)}\` are not those of the plan`);
    const installed = new Set(stacks.filter(({ failure }) => !failure).map(({ variant }) => variant));
    const isWithout = (variant) => planned.has(variant) && !installed.has(variant);
    const without = document.body.attempts.find(
      ({ status, case_id }) => !neverRan.includes(status) && isWithout(variants.get(case_id)),
    );
    ensure(!without, "stack_differs", () => `an attempt of \`${shown(without.trial_id)}\` ran without the packages of its variant`);
  }
}

function isPlanned(python, { lock, failure, packages }) {
  if (python?.lock.artifact.digest !== lock) return false;
  const pinned = new Map(python.packages.map((one) => [one.name, one]));
  const found = new Map(packages.map(({ name, version }) => [name, version]));
  const isSame = ({ name, version }) => pinned.has(name) && release(version) === release(pinned.get(name).version);
  const isPresent = ({ name, marker }) => found.has(name) || marker !== undefined;
  return failure !== undefined || (packages.every(isSame) && python.packages.every(isPresent));
}

/** A version without what PEP 440 ignores: case, a `v` before it, and zeros at the end of a release. */
function release(version) {
  const text = version.toLowerCase().replace(/^v/, "");
  return /^[0-9.]*$/.test(text) ? text.replace(/(\.0)+$/, "") : text;
}

function checkCounted(trial, executed) {
  const counted = countedAttempt(trial, executed);
  const follows = trial.attempts.every((one) => one.counted === (tryOf(one) === counted));
  const holds = follows && trial.counted === (counted !== null);
  ensure(
    holds,
    "other_attempt_counted",
    `the collection counts another attempt of \`${trial.trial_id}\` than the first valid one`,
  );
}

const tryOf = ({ block, attempt }) => `${block.index} ${block.incarnation} ${attempt}`;

/** The attempt that counts for a trial: the first that is valid in every shard, and no other, so that nobody chooses the best. */
function countedAttempt(trial, executed) {
  const isValid = ({ part, attempt }) => executed.get(`${part} ${trial.trial_id} ${attempt}`).validity.valid;
  const inOrder = [...trial.attempts].sort(
    (one, other) =>
      one.block.index - other.block.index || one.block.incarnation - other.block.incarnation || one.attempt - other.attempt,
  );
  for (const first of inOrder) {
    const shards = inOrder.filter((one) => tryOf(one) === tryOf(first));
    const present = new Set(shards.map(({ shard }) => shard.index));
    const isWhole = shards.every(({ shard }) =>
      Array.from({ length: Math.min(shard.count, 1 << 16) }, (_, index) => index).every((index) => present.has(index)),
    );
    if (isWhole && shards.every(isValid)) return tryOf(first);
  }
  return null;
}
