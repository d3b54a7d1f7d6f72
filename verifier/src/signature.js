// ECDSA P-256 with SHA-256 over a DSSE envelope, with keys in PEM form. The arithmetic is WebCrypto's.

import { concat, digestOf, fromBase64, isEqual, toBytes } from "./bytes.js";

const CURVE = { name: "ECDSA", namedCurve: "P-256" };
const SCALAR_BYTES = 32;
// SubjectPublicKeyInfo of an uncompressed P-256 point, up to the point: `30 59`, the two identifiers, `03 42 00 04`.
const SPKI_PREFIX = Uint8Array.from([
  0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
  0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
]);
const SPKI_BYTES = SPKI_PREFIX.length + 2 * SCALAR_BYTES;

/** The pre-authentication encoding of DSSE 1.0: what is signed. Lengths count bytes. */
export function pae(payloadType, payload) {
  const type = toBytes(payloadType);
  return concat(toBytes(`DSSEv1 ${type.length} `), type, toBytes(` ${payload.length} `), payload);
}

/**
 * An ASN.1 DER signature as WebCrypto takes it: r and s, 32 bytes each. Null unless it is exactly
 * `SEQUENCE { INTEGER r, INTEGER s }` in the shortest form, both positive.
 */
export function derToRaw(der) {
  // Two integers of at most 33 bytes fit into the short form of a length.
  if (der.length < 8 || der[0] !== 0x30 || der[1] !== der.length - 2) return null;
  const r = readInteger(der, 2);
  const s = r && readInteger(der, r.end);
  if (!s || s.end !== der.length) return null;
  return concat(r.scalar, s.scalar);
}

function readInteger(der, start) {
  if (der[start] !== 0x02) return null;
  const [length, begin] = [der[start + 1], start + 2];
  const end = begin + length;
  if (!(length >= 1 && length <= SCALAR_BYTES + 1) || end > der.length) return null;
  const bytes = der.subarray(begin, end);
  const isPadded = length > 1 && bytes[0] === 0;
  // Negative; zero; or a leading zero that no sign bit calls for.
  if (bytes[0] >= 0x80 || (length === 1 && bytes[0] === 0) || (isPadded && bytes[1] < 0x80)) return null;
  const digits = isPadded ? bytes.subarray(1) : bytes;
  if (digits.length > SCALAR_BYTES) return null;
  const scalar = new Uint8Array(SCALAR_BYTES);
  scalar.set(digits, SCALAR_BYTES - digits.length);
  return { scalar, end };
}

/** A public key from PEM text: `{ fingerprint, verifies(message, der) }`. Null unless it is a P-256 key. */
export async function readKey(pem) {
  const match = /^\s*-----BEGIN PUBLIC KEY-----\r?\n([A-Za-z0-9+/=\r\n]+?)\r?\n?-----END PUBLIC KEY-----\s*$/.exec(pem ?? "");
  const der = match && fromBase64(match[1].replace(/[\r\n]/g, ""));
  if (!der || der.length !== SPKI_BYTES || !isEqual(der.subarray(0, SPKI_PREFIX.length), SPKI_PREFIX)) return null;
  try {
    const key = await crypto.subtle.importKey("spki", der, CURVE, false, ["verify"]);
    return { fingerprint: await digestOf(der), verifies: (message, signature) => verifies(key, message, signature) };
  } catch {
    // A point that is not on the curve.
    return null;
  }
}

async function verifies(key, message, der) {
  const raw = derToRaw(der);
  return raw !== null && crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, raw, message);
}
