// Bytes: digests, base64, hexadecimal digits and strict UTF-8.

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const encoder = new TextEncoder();

export const toHex = (bytes) => Array.from(bytes, (byte) => HEX[byte]).join("");

export const toBytes = (text) => encoder.encode(text);

/** The text of UTF-8 bytes; null if they are not UTF-8. A byte order mark stays, and no parser accepts it. */
export function toText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The SHA-256 as Assay writes it: `sha256:` and 64 lower-case hexadecimal digits. */
export async function digestOf(bytes) {
  return `sha256:${toHex(await hash("SHA-256", bytes))}`;
}

export async function hash(algorithm, bytes) {
  return new Uint8Array(await crypto.subtle.digest(algorithm, bytes));
}

/** Base64 in either alphabet, padded or not; null for any other text. Bits that no byte holds must be zero. */
export function fromBase64(text) {
  if (typeof text !== "string") return null;
  const urlSafe = /[-_]/.test(text);
  const [, body, padding] = /^([^=]*)(={0,2})$/.exec(text) ?? [null, null, ""];
  if (body === null || (padding !== "" && (body.length + padding.length) % 4 !== 0) || body.length % 4 === 1) return null;
  const alphabet = urlSafe ? `${ALPHABET.slice(0, 62)}-_` : ALPHABET;
  const bytes = new Uint8Array(Math.floor((body.length * 3) / 4));
  let [buffer, bits, length] = [0, 0, 0];
  for (const character of body) {
    const value = alphabet.indexOf(character);
    if (value < 0) return null;
    buffer = ((buffer << 6) | value) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[length++] = (buffer >> bits) & 0xff;
    }
  }
  return (buffer & ((1 << bits) - 1)) === 0 ? bytes : null;
}

export function concat(...parts) {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let place = 0;
  for (const part of parts) {
    all.set(part, place);
    place += part.length;
  }
  return all;
}

export const isEqual = (one, other) => one.length === other.length && one.every((byte, place) => byte === other[place]);
