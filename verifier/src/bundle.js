// The Sigstore bundle v0.3 that stands beside each manifest: one DSSE envelope, signed by one key.

import { fromBase64, toHex, toText } from "./bytes.js";
import { parseJson } from "./canonical.js";
import { Refusal, ensure, shown } from "./refusal.js";

export const MAX_BUNDLE_BYTES = 16 << 20;
export const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";

/**
 * Reads a bundle; nothing in it is believed yet. Gives `{ fingerprint, payload, signature, unchecked }`, where `unchecked` names what
 * the bundle holds and this page cannot check: log entries and timestamps.
 */
export function readBundle(bytes) {
  ensure(
    bytes.length <= MAX_BUNDLE_BYTES,
    "bundle_too_large",
    `the bundle has ${bytes.length} bytes, more than ${MAX_BUNDLE_BYTES}`,
  );
  let bundle;
  try {
    bundle = parseJson(toText(bytes));
  } catch {
    throw new Refusal("bundle_malformed", "the bundle is not JSON");
  }
  ensure(isMap(bundle) && typeof bundle.mediaType === "string", "bundle_malformed", "the bundle names no media type");
  const { mediaType } = bundle;
  ensure(
    mediaType === MEDIA_TYPE,
    "unknown_bundle_version",
    () => `the bundle has media type \`${shown(mediaType)}\`, not ${MEDIA_TYPE}`,
  );
  only(bundle, ["mediaType", "verificationMaterial", "dsseEnvelope", "messageSignature"]);
  ensure(bundle.messageSignature == null, "message_signature_bundle", "the bundle signs a message, not a statement");
  return { ...readMaterial(bundle.verificationMaterial), ...readEnvelope(bundle.dsseEnvelope) };
}

function readMaterial(material) {
  only(material, ["publicKey", "certificate", "x509CertificateChain", "tlogEntries", "timestampVerificationData"]);
  const isKeyless = material.certificate != null || material.x509CertificateChain != null;
  ensure(
    !isKeyless,
    "keyless_bundle",
    "the bundle is signed with a certificate, which this page cannot check",
    "verify it with cosign",
  );
  only(material.publicKey, ["hint"]);
  const hint = fromBase64(material.publicKey.hint);
  ensure(hint?.length === 32, "bundle_malformed", "the bundle's key hint is not a fingerprint");
  const unchecked = [];
  ensure(Array.isArray(material.tlogEntries ?? []), "bundle_malformed", "the bundle's log entries are no list");
  if ((material.tlogEntries ?? []).length > 0) unchecked.push("entries of a transparency log");
  if (material.timestampVerificationData != null) unchecked.push("timestamps of an authority");
  return { fingerprint: `sha256:${toHex(hint)}`, unchecked };
}

function readEnvelope(envelope) {
  only(envelope, ["payload", "payloadType", "signatures"]);
  const { payloadType, signatures } = envelope;
  ensure(typeof payloadType === "string" && Array.isArray(signatures), "bundle_malformed", "the bundle's envelope is malformed");
  ensure(
    payloadType === PAYLOAD_TYPE,
    "wrong_payload_type",
    () => `the bundle holds a payload of type \`${shown(payloadType)}\``,
  );
  ensure(signatures.length === 1, "signature_count", `the bundle has ${signatures.length} signatures, not one`);
  only(signatures[0], ["sig"]);
  const [payload, signature] = [fromBase64(envelope.payload), fromBase64(signatures[0].sig)];
  ensure(payload && signature, "bundle_malformed", "the bundle's payload or signature is not base64");
  return { payload, signature };
}

const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function only(value, members) {
  const unknown = isMap(value) ? Object.keys(value).find((name) => !members.includes(name)) : "";
  ensure(unknown === undefined, "bundle_malformed", () =>
    unknown ? `the bundle has a member \`${shown(unknown)}\`` : "a member of the bundle is missing",
  );
}
