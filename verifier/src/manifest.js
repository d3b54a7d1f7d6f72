// Manifests: which kinds there are, who signs each, what each may be made from, and where it lies in a published folder.

import { canonicalText, parseCanonical, parseJson } from "./canonical.js";
import { digestOf, toBytes, toText } from "./bytes.js";
import { ensure, shown } from "./refusal.js";
import { checkSchema } from "./schema.js";

export const MAX_MANIFEST_BYTES = 256 << 20;
export const VERSION = "v1alpha1";
const MAX_OUTPUT_SUBJECTS = 1000;
// The outputs of a plan that are a dataset's.
const DATASET = /^workloads\/[^/]+\/dataset\//;
// Where a body mentions an artifact that is an output elsewhere: the records of a serving attempt are among its evidence.
const MENTIONED = /\.serving\.records$/;

export const ONE = { words: "exactly one", admits: (count) => count === 1 };
const MANY = { words: "at least one", admits: (count) => count >= 1 };
const ANY = { words: "any number of", admits: () => true };

/**
 * The kinds of manifest in the order of the chain: the role that signs it, the stage that makes it, the last word of its build type,
 * and how many of which kinds it is made from.
 */
export const KINDS = {
  source: { role: "source", stage: "source", build: "source", takes: {} },
  plan: { role: "plan", stage: "plan", build: "plan", takes: { source: ONE } },
  environment: { role: "provision", stage: "provision", build: "provision", takes: { plan: ONE } },
  execution_part: { role: "execute", stage: "execute", build: "execute", takes: { plan: ONE, environment: ONE } },
  recording: { role: "collect", stage: "record", build: "recording", takes: { plan: ONE, environment: ONE } },
  collection: {
    role: "collect",
    stage: "collect",
    build: "collect",
    takes: { plan: ONE, environment: MANY, execution_part: MANY, recording: ANY },
  },
  summary: {
    role: "reduce",
    stage: "reduce",
    build: "reduce",
    takes: { plan: ONE, environment: MANY, collection: ONE },
  },
  publication: {
    role: "publish",
    stage: "publish",
    build: null,
    takes: { source: ONE, plan: ONE, environment: MANY, execution_part: MANY, recording: ANY, collection: ONE, summary: ONE },
  },
};

/** The kinds in words. */
export const inWords = (kind) => kind.replace("_", " ");

/** Reads a manifest: `{ kind, header, body, artifacts }`. Only the canonical form is accepted, and only what its schema describes. */
export function readManifest(bytes, schemas) {
  ensure(
    bytes.length <= MAX_MANIFEST_BYTES,
    "manifest_too_large",
    `the manifest has ${bytes.length} bytes, more than ${MAX_MANIFEST_BYTES}`,
  );
  const text = toText(bytes);
  const { kind, version, stage } = peekHeader(text);
  ensure(
    version === VERSION,
    "unknown_version",
    () => `the manifest has version \`${shown(version)}\`; this page reads ${VERSION}`,
    "the page of another release may read it",
  );
  ensure(
    Object.hasOwn(KINDS, kind),
    "manifest_malformed",
    () => `\`${shown(kind)}\` is not a kind of manifest that a published run has`,
  );
  const { role, takes } = KINDS[kind];
  ensure(stage === role, "wrong_stage", () => `a ${inWords(kind)} is made by ${role}, not by \`${shown(stage)}\``);
  const { value, problem } = parseCanonical(text);
  ensure(!problem, "manifest_not_canonical", `the ${inWords(kind)} is not in canonical form`);
  const checked = checkSchema(value, schemas[kind]);
  ensure(!checked.problem, "manifest_malformed", () => `the ${inWords(kind)} is malformed: ${shown(checked.problem)}`);
  const { header, body } = value;
  const other = header.inputs.find((input) => !Object.hasOwn(takes, input.kind));
  ensure(!other, "wrong_input", () => `a ${inWords(kind)} is not made from a ${inWords(other.kind)}`);
  const artifacts = checked.artifacts.filter(({ place }) => !MENTIONED.test(place)).map(({ artifact }) => artifact);
  checkNames(kind, artifacts);
  return { kind, header, body, artifacts };
}

function peekHeader(text) {
  let header;
  try {
    ({ header } = parseJson(text));
  } catch {
    header = null;
  }
  const isHeader = typeof header?.kind === "string" && typeof header?.version === "string";
  ensure(isHeader, "manifest_malformed", "the manifest is not JSON with a header");
  return header;
}

// Outputs become files of the published folder, so their names are distinct and stay inside of it.
function checkNames(kind, artifacts) {
  const isPlain = (name) =>
    name.length <= 512 && /^[A-Za-z0-9._\-/=@+]+$/.test(name) && name.split("/").every((part) => !["", ".", ".."].includes(part));
  const names = artifacts.map(({ name }) => name);
  const bad = names.find((name) => !isPlain(name));
  ensure(
    bad === undefined,
    "manifest_malformed",
    () => `the ${inWords(kind)} has an output \`${shown(bad)}\`, which is no plain path`,
  );
  ensure(new Set(names).size === names.length, "manifest_malformed", () => `the ${inWords(kind)} has two outputs of one name`);
}

/** The digests that a statement about this manifest must name, by name: the manifest's own and those of all outputs. */
export async function subjectsOf({ kind, artifacts }, digest) {
  const subjects = new Map([[`${kind}.json`, digest]]);
  if (artifacts.length > MAX_OUTPUT_SUBJECTS) {
    const sorted = [...artifacts].sort((one, other) => (one.name < other.name ? -1 : 1));
    subjects.set("outputs.json", await digestOf(toBytes(canonicalText({ outputs: sorted }))));
    return subjects;
  }
  for (const artifact of artifacts) {
    ensure(
      !subjects.has(artifact.name),
      "subject_name_taken",
      () => `an output of the ${inWords(kind)} is called \`${shown(artifact.name)}\``,
    );
    subjects.set(artifact.name, artifact.digest);
  }
  return subjects;
}

/** The name of a manifest in a published folder: its kind and, where a run has several, what tells them apart. */
export function chainName({ kind, body }) {
  const block = body.block && `${body.block.index}-${body.block.incarnation}`;
  if (kind === "environment") return `${kind}-${block}`;
  if (kind === "execution_part") return `${kind}-${block}-${body.shard.index}`;
  if (kind === "recording") return `${kind}-${block}-${body.sequence}`;
  return kind;
}

/** The files of a published folder that come from one manifest: `[path, digest, size]`; the size is null where nobody states it. */
export function publishedFiles({ document, reference }) {
  const name = chainName(document);
  const prefix = {
    source: "source/",
    plan: "plan/",
    environment: `${name}/`,
    collection: "evidence/",
    summary: "",
    publication: "",
  }[document.kind];
  // A dataset's file, rows and index are raw data, which stay in the store.
  const isPublished = ({ name: output }) => document.kind !== "plan" || !DATASET.test(output);
  const outputs =
    prefix === undefined
      ? []
      : document.artifacts.filter(isPublished).map(({ name: output, digest, size }) => [prefix + output, digest, size]);
  return [[`chain/${name}.json`, reference.manifest, null], [`chain/${name}.sigstore.json`, reference.bundle, null], ...outputs];
}
