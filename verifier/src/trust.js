// Whom to believe: what a reader pasted, and never what the folder says of itself.
//
// Keys of the folder are candidates only: a pasted fingerprint decides about them, and without one they show that nothing changed
// since somebody signed, and leave open who that was.

import { digestOf, toBytes } from "./bytes.js";
import { Refusal, ensure, shown } from "./refusal.js";
import { readKey } from "./signature.js";
import { YamlError, parseYaml } from "./yaml.js";

export const MAX_TRUST_BYTES = 1 << 20;
const MAX_SIGNERS = 200;
const FINGERPRINT = /^(?:sha256:)?[0-9a-f]{64}$/;
const ROLES = ["source", "plan", "provision", "execute", "collect", "reduce", "publish", "gate", "calibrate", "probe", "import"];

const refuse = (message) => new Refusal("trust_policy", message, "paste the whole TrustPolicy file, or the fingerprints alone");

/** What a reader pasted: null for nothing, `{ pins }` for fingerprints, `{ policy }` for the text of a TrustPolicy. */
export function readPasted(text) {
  const words = text
    .trim()
    .split(/[\s,]+/)
    .filter((word) => word !== "");
  if (words.length === 0) return null;
  if (words.every((word) => FINGERPRINT.test(word)))
    return { pins: words.map((word) => `sha256:${word.replace("sha256:", "")}`) };
  if (words.length <= 2)
    throw new Refusal(
      "trust",
      `\`${shown(words[0])}\` is neither a fingerprint nor a TrustPolicy`,
      "a fingerprint is sha256: and 64 lower-case hexadecimal digits",
    );
  return { policy: text };
}

/**
 * The trust that a reader gives: `{ from, established, identify(fingerprint, role, time), key(fingerprint), unchecked }`.
 * `keys` are the public keys of the folder, `textOf(digest)` gives the text of the folder's file of that digest.
 */
export async function establish(pasted, keys, textOf) {
  if (pasted === null) return nobody(keys);
  if (pasted.policy !== undefined) {
    const policy = await readPolicy(pasted.policy);
    return { ...policy, from: `the pasted policy \`${policy.name}\`, ${await digestOf(toBytes(pasted.policy))}` };
  }
  const { pins } = pasted;
  const text = pins.length === 1 ? await textOf(pins[0]) : null;
  if (text !== null && !keys.has(pins[0])) {
    const policy = await readPolicy(text);
    return { ...policy, from: `the policy \`${policy.name}\` of the pasted fingerprint ${pins[0]}` };
  }
  return pinned(pins, keys);
}

function nobody(keys) {
  const identify = (fingerprint) => ({ name: keys.get(fingerprint).name, established: false });
  return {
    from: "nobody: nothing was pasted",
    signedBy: "a key that lies in the folder",
    established: false,
    key: keyIn(keys, "the folder"),
    identify,
    unchecked: [],
  };
}

function pinned(pins, keys) {
  const believed = new Map();
  for (const pin of pins) {
    const hint = "paste the fingerprint of the trust policy or of a key, as `assay keys list` shows it";
    ensure(keys.has(pin), "pinned_key_missing", `nothing with the pinned fingerprint ${pin} lies in the folder`, hint);
    believed.set(pin, keys.get(pin));
  }
  const identify = (fingerprint) => ({ name: `pinned key ${fingerprint.slice(7, 19)}`, established: true });
  const from = `${pins.length === 1 ? "the pasted fingerprint" : `${pins.length} pasted fingerprints`} of keys, each believed for every role`;
  return {
    from,
    signedBy: "a key whose fingerprint was pasted",
    established: true,
    key: keyIn(believed, "the list of pasted fingerprints"),
    identify,
    unchecked: [],
  };
}

const keyIn = (keys, whom) => (fingerprint) => {
  const hint = "the signer is not among those whom you trust";
  ensure(
    keys.has(fingerprint),
    "unknown_key",
    `a manifest is signed with the key ${fingerprint}, which ${whom} does not have`,
    hint,
  );
  return keys.get(fingerprint);
};

/** Reads a TrustPolicy. What it asks for beyond keys, roles and times is listed in `unchecked`. */
export async function readPolicy(text) {
  let document;
  try {
    document = parseYaml(text);
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    throw refuse(`the trust policy cannot be read: ${error.message}`);
  }
  const isPolicy = document?.kind === "TrustPolicy" && document.apiVersion === "assay.dev/v1alpha1";
  if (!isPolicy) throw refuse("this is no TrustPolicy of the version assay.dev/v1alpha1");
  const { signers, ...more } = document.spec ?? {};
  if (!Array.isArray(signers) || signers.length === 0 || signers.length > MAX_SIGNERS)
    throw refuse(`a trust policy has 1 to ${MAX_SIGNERS} signers`);
  const unchecked = new Set(Object.keys(more));
  const read = [];
  for (const signer of signers) read.push(await readSigner(signer, unchecked));
  const name = shown(document.metadata?.name ?? "unnamed");
  return {
    name,
    signedBy: "a key that the policy allows for its role",
    established: true,
    unchecked: [...unchecked],
    key: keyOf(read, name),
    identify: identifyBy(read),
  };
}

async function readSigner(signer, unchecked) {
  const { name, key, signs, not_before: first, not_after: last, ...more } = signer ?? {};
  if (typeof name !== "string" || !Array.isArray(signs) || !signs.every((role) => ROLES.includes(role)))
    throw refuse("a signer has no name, or signs for something that is no role");
  Object.keys(more).forEach((member) => unchecked.add(member));
  const publicKey = await readKey(key);
  if (!publicKey) throw new Refusal("trust_key", `the key of the signer \`${shown(name)}\` is no ECDSA P-256 key in PEM form`);
  return { name: shown(name), key: publicKey, signs, first: instant(first), last: instant(last) };
}

// Nine digits, so that instants compare as texts.
function instant(text) {
  if (text === undefined) return null;
  const [, seconds, fraction] = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/.exec(text) ?? [];
  if (!seconds) throw refuse(`\`${shown(text)}\` is no instant such as 2026-11-20T12:00:00Z`);
  return `${seconds}.${(fraction ?? "").padEnd(9, "0")}Z`;
}

function keyOf(signers, name) {
  const keys = new Map(signers.map(({ key }) => [key.fingerprint, key]));
  return keyIn(keys, `the trust policy \`${name}\``);
}

const identifyBy = (signers) => (fingerprint, role, time) => {
  const own = signers.filter(({ key }) => key.fingerprint === fingerprint);
  const allowed = own.filter(({ signs }) => signs.includes(role));
  const signs = own.flatMap((signer) => signer.signs).join(", ");
  ensure(allowed.length > 0, "wrong_signer", () => `\`${own[0].name}\` signs ${signs || "nothing"}; it may not sign for ${role}`);
  const valid = allowed.find(({ first, last }) => (first === null || first <= time) && (last === null || time <= last));
  ensure(
    valid,
    "key_outside_validity",
    () => `the key of \`${allowed[0].name}\` is not valid at ${time}, the time that the statement asserts`,
  );
  return { name: valid.name, established: true };
};
