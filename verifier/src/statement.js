// The in-toto Statement v1 that a bundle signs: which digests the signer speaks about, and what is said of them.

import { canonicalText, parseCanonical } from "./canonical.js";
import { toText } from "./bytes.js";
import { KINDS, inWords } from "./manifest.js";
import { Refusal, ensure, shown } from "./refusal.js";

const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const PROVENANCE = "https://slsa.dev/provenance/v1";
const VERIFICATION_SUMMARY = "https://slsa.dev/verification_summary/v1";
const MAX_SUBJECTS = 1024;
const MAX_DEPENDENCIES = 20_000;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;

export const predicateTypeOf = (kind) => (kind === "publication" ? VERIFICATION_SUMMARY : PROVENANCE);

/**
 * Reads a statement, in canonical form only: `{ kind, predicateType, subjects, runId, time, inputs }`. `time` is what the signer
 * asserts; `names(input)` tells whether an input of a manifest is among what the statement was made from.
 */
export function readStatement(bytes) {
  const { value: statement, problem } = parseCanonical(toText(bytes));
  ensure(problem !== "malformed", "statement_malformed", "the statement is not JSON");
  ensure(!problem, "statement_not_canonical", "the statement is not in canonical form");
  only(statement, ["_type", "subject", "predicateType", "predicate"], "the statement");
  const { _type: type, subject, predicateType, predicate } = statement;
  ensure(type === STATEMENT_TYPE, "unknown_statement_version", () => `the statement has type \`${shown(type)}\``);
  const subjects = readSubjects(subject);
  if (predicateType === PROVENANCE) return { predicateType, subjects, ...readProvenance(predicate) };
  if (predicateType === VERIFICATION_SUMMARY) return { predicateType, subjects, ...readSummary(predicate) };
  throw new Refusal("unknown_predicate_type", `the statement has predicate type \`${shown(predicateType)}\``);
}

function readSubjects(list) {
  ensure(Array.isArray(list), "statement_malformed", "the statement has no subjects");
  ensure(
    list.length <= MAX_SUBJECTS,
    "statement_too_long",
    `the statement has ${list.length} subjects, more than ${MAX_SUBJECTS}`,
  );
  const subjects = new Map();
  for (const subject of list) {
    only(subject, ["name", "digest"], "a subject");
    only(subject.digest, ["sha256"], "a subject's digest");
    ensure(
      !subjects.has(subject.name),
      "subject_duplicate",
      () => `the statement names the subject \`${shown(subject.name)}\` twice`,
    );
    subjects.set(subject.name, digest(`sha256:${subject.digest.sha256}`, "a subject's digest"));
  }
  return subjects;
}

// SLSA provenance v1.
function readProvenance(predicate) {
  only(predicate, ["buildDefinition", "runDetails"], "the predicate");
  const { buildDefinition: definition, runDetails: details } = predicate;
  only(definition, ["buildType", "externalParameters", "internalParameters", "resolvedDependencies"], "buildDefinition");
  only(details, ["builder", "metadata"], "runDetails");
  only(details.metadata, ["invocationId", "startedOn", "finishedOn"], "metadata");
  const kind = Object.keys(KINDS).find(
    (name) => KINDS[name].build && definition.buildType === `https://assay.dev/build/${KINDS[name].build}/v1alpha1`,
  );
  ensure(kind, "unknown_build_type", () => `the statement has build type \`${shown(definition.buildType)}\``);
  const isOwn = details.builder?.id === `https://assay.dev/builder/${KINDS[kind].role}`;
  ensure(isOwn, "statement_malformed", "the statement names another builder than its build type");
  const { invocationId, startedOn, finishedOn } = details.metadata;
  const [, runId] = /^([a-z0-9-]{1,40})\/./.exec(invocationId) ?? [];
  ensure(runId, "statement_malformed", "the statement names no run");
  instant(startedOn);
  const listed = new Set(atMost(definition.resolvedDependencies).map((one) => `${one?.name} sha256:${one?.digest?.sha256}`));
  const names = (input) =>
    listed.has(`${input.kind}.json ${input.manifest}`) && listed.has(`${input.kind}.sigstore.json ${input.bundle}`);
  const { externalParameters: parameters, resolvedDependencies: dependencies } = definition;
  return { kind, runId, time: instant(finishedOn), names, parameters, dependencies };
}

// SLSA verification summary v1, which only a Publication has.
function readSummary(predicate) {
  const members = [
    "verifier",
    "timeVerified",
    "resourceUri",
    "policy",
    "inputAttestations",
    "verificationResult",
    "verifiedLevels",
  ];
  only(predicate, members, "the predicate");
  const isOwn = predicate.verifier?.id === "https://assay.dev/builder/publish";
  ensure(isOwn, "statement_malformed", "the statement names another verifier than the publish stage");
  ensure(["PASSED", "FAILED"].includes(predicate.verificationResult), "statement_malformed", "the statement has no known result");
  const key = (name, bundle, manifest) => `${name} ${bundle} ${manifest}`;
  const attestations = atMost(predicate.inputAttestations);
  const listed = new Set(attestations.map((one) => key(one?.name, `sha256:${one?.digest?.sha256}`, one?.annotations?.manifest)));
  const names = (input) => listed.has(key(`${input.kind}.sigstore.json`, input.bundle, input.manifest));
  const { resourceUri: resource, verificationResult: result, verifiedLevels: levels, policy } = predicate;
  const summary = { resource, result, levels, policy, attestations: attestations.length };
  return { kind: "publication", runId: null, time: instant(predicate.timeVerified), names, ...summary };
}

/** Compares a statement with the manifest that it is about, both ways. `subjects` are those that the manifest calls for. */
export function checkStatement(statement, { kind, header }, subjects) {
  const expected = predicateTypeOf(kind);
  ensure(
    statement.predicateType === expected,
    "wrong_predicate_type",
    () => `a ${inWords(kind)} is signed with the predicate ${expected}`,
  );
  ensure(
    statement.kind === kind,
    "wrong_build_type",
    () => `the statement is about a ${inWords(statement.kind)}, but the manifest is a ${inWords(kind)}`,
  );
  for (const [name, found] of subjects) {
    const stated = statement.subjects.get(name);
    ensure(stated, "subject_missing", () => `the statement lacks the subject \`${shown(name)}\``);
    ensure(
      stated === found,
      "subject_digest_mismatch",
      () => `the subject \`${shown(name)}\` is ${stated}, but the manifest's output is ${found}`,
    );
  }
  const extra = [...statement.subjects.keys()].find((name) => !subjects.has(name));
  ensure(
    extra === undefined,
    "subject_extra",
    () => `the statement has a subject \`${shown(extra)}\`, which the manifest does not give out`,
  );
  const isOwn = statement.runId === null || statement.runId === header.run_id;
  ensure(isOwn, "wrong_run", () => `the manifest is of the run \`${header.run_id}\`, its statement of \`${statement.runId}\``);
  const missing = header.inputs.find((input) => !statement.names(input));
  ensure(
    !missing,
    "dependency_missing",
    () => `the statement does not name the input ${inWords(missing.kind)} ${missing.manifest} of the manifest`,
  );
}

/**
 * Checks what each statement repeats of the manifests: run, stage, and what it was made from besides its inputs; of a Publication the
 * run, the trust policy, and that the verification passed. `members` are `{ document, statement }` with their `reference`s.
 */
export function checkRepeated(members) {
  const known = new Map(members.map(({ document, reference }) => [reference.manifest, document]));
  for (const { document, statement } of members) {
    const { header, kind, body } = document;
    const dependencies = () => {
      const documents = kind === "source" ? [document] : header.inputs.map((input) => known.get(input.manifest)).filter((one) => one);
      return sorted(documents.flatMap(dependenciesOf));
    };
    const checks =
      kind === "publication"
        ? {
            "other inputs": statement.attestations === header.inputs.length,
            "another run": statement.resource === `assay:runs/${header.run_id}`,
            "another result": statement.result === "PASSED",
            "other levels": canonicalText(statement.levels) === canonicalText(["ASSAY_LEVEL_1"]),
            "another trust policy": canonicalText(statement.policy) === canonicalText(policyOf(body.trust_policy)),
          }
        : {
            "another run": statement.parameters?.run_id === header.run_id,
            "another stage": statement.parameters?.stage === KINDS[kind].stage,
            "other dependencies": besidesInputs(statement, header).join("\n") === dependencies().join("\n"),
          };
    const other = Object.keys(checks).find((what) => !checks[what]);
    ensure(
      !other,
      "statement_differs",
      `the statement about the ${inWords(kind)} names ${other} than the manifests do`,
      "the signer stated other facts in the statement than in the manifest",
    );
  }
}

const sorted = (descriptors) => [...new Set(descriptors.map(canonicalText))].sort();

const policyOf = (digest) => ({
  digest: { sha256: digest.slice("sha256:".length) },
  uri: `assay:blobs/sha256/${digest.slice("sha256:".length)}`,
});

function besidesInputs(statement, header) {
  const inputs = new Set(header.inputs.flatMap(({ manifest, bundle }) => [manifest, bundle]));
  const isInput = ({ name, digest }) => /\.(sigstore\.)?json$/.test(name ?? "") && inputs.has(`sha256:${digest?.sha256}`);
  return sorted(statement.dependencies.filter((one) => !isInput(one)));
}

// The commit and the definitions of a Source; the pinned images and the frozen workloads of a Plan.
function dependenciesOf({ kind, body }) {
  const sha256 = (digest) => ({ sha256: digest.slice("sha256:".length) });
  if (kind === "source") {
    const uri = `git+${body.repository ?? "local"}`;
    const commit = body.commit ? [{ digest: { gitCommit: body.commit }, uri }] : [];
    const definitions = body.files.filter(({ path }) => path === body.import?.file || /[^/]\.yaml$/.test(path));
    return [...commit, ...definitions.map(({ path, artifact }) => ({ digest: sha256(artifact.digest), name: path }))];
  }
  if (kind !== "plan") return [];
  const images = [...body.workloads, ...body.targets].map(({ image }) => image).filter((image) => image?.digest);
  return [
    ...images.map(({ reference, digest }) => ({ digest: sha256(digest), uri: `docker://${reference}` })),
    ...body.workloads.map((workload) => ({
      digest: sha256(workload.workload_spec_digest),
      name: `workload_spec/${workload.name}`,
    })),
  ];
}

function only(value, members, what) {
  const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
  ensure(isMap, "statement_malformed", `${what} is missing or malformed`);
  const unknown = Object.keys(value).find((name) => !members.includes(name));
  ensure(unknown === undefined, "statement_malformed", () => `${what} has a member \`${shown(unknown)}\``);
  const missing = members.find((name) => !Object.hasOwn(value, name));
  ensure(missing === undefined, "statement_malformed", `${what} lacks \`${missing}\``);
}

function atMost(list) {
  ensure(Array.isArray(list), "statement_malformed", "the statement has no list of what it was made from");
  ensure(
    list.length <= MAX_DEPENDENCIES,
    "statement_too_long",
    `the statement lists ${list.length} inputs, more than ${MAX_DEPENDENCIES}`,
  );
  return list;
}

function digest(text, what) {
  ensure(DIGEST.test(text), "statement_malformed", `${what} is malformed`);
  return text;
}

function instant(text) {
  ensure(typeof text === "string" && INSTANT.test(text), "statement_malformed", "an instant of the statement is malformed");
  return text;
}
