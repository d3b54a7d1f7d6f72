// The signature's parts against known vectors, and against OpenSSL where it is there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { fromBase64, toBytes, toHex, toText } from "../src/bytes.js";
import { derToRaw, pae, readKey } from "../src/signature.js";

const bytes = (hex) => Uint8Array.from(hex.replace(/\s/g, "").match(/../g) ?? [], (pair) => parseInt(pair, 16));

test("the encoding is the one of the DSSE specification", () => {
  const encoded = pae("http://example.com/HelloWorld", toBytes("hello world"));
  assert.equal(toText(encoded), "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  assert.equal(toText(pae("é", toBytes("é"))), "DSSEv1 2 é 2 é", "lengths are bytes");
});

test("a DER signature becomes r and s of 32 bytes each", () => {
  const raw = derToRaw(bytes("30 06 02 01 01 02 01 7f"));
  assert.equal(toHex(raw), `${"00".repeat(31)}01${"00".repeat(31)}7f`);
  const high = derToRaw(bytes(`30 46 02 21 00 ${"ff".repeat(32)} 02 21 00 ${"80".repeat(32)}`));
  assert.equal(toHex(high), "ff".repeat(32) + "80".repeat(32), "a leading zero keeps a number positive");
});

test("other spellings of a signature are refused", () => {
  const cases = {
    nothing: "",
    "another tag": "31 06 02 01 01 02 01 01",
    "a wrong length": "30 07 02 01 01 02 01 01",
    "a trailing byte": "30 06 02 01 01 02 01 01 00",
    "a negative number": "30 06 02 01 80 02 01 01",
    zero: "30 06 02 01 00 02 01 01",
    "a needless zero": "30 07 02 02 00 01 02 01 01",
    "an empty number": "30 05 02 00 02 01 01",
    "too many digits": `30 45 02 21 01 ${"00".repeat(32)} 02 20 ${"01".repeat(32)}`,
    "one number": "30 03 02 01 01",
    "a long form of the length": "30 81 06 02 01 01 02 01 01",
    "a number beyond the end": "30 06 02 01 01 02 05 01",
  };
  for (const [name, hex] of Object.entries(cases)) assert.equal(derToRaw(bytes(hex)), null, name);
});

test("base64 is read in both alphabets, and nothing else is", () => {
  for (const text of ["+//+AQ==", "+//+AQ", "-__-AQ==", "-__-AQ"])
    assert.deepEqual([...fromBase64(text)], [0xfb, 0xff, 0xfe, 0x01], text);
  for (const text of ["+__+AQ==", "+//+AR==", "a", "a b=", "ä", "AQ=\n", "AQ=", null])
    assert.equal(fromBase64(text), null, String(text));
});

// Made by other libraries: see the golden key of `crates/envelope/src/keys.rs`.
const GOLDEN = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHhhTL9R1TALzBB2cdc6zO4P/2BrH
zk/ogsyxyYvFiW6kbDEcTi/0DdlqNlPm5FRF0y3+SG7O11x6kMahiIHAow==
-----END PUBLIC KEY-----
`;

test("a fingerprint is the digest of the key's DER form", async () => {
  const key = await readKey(GOLDEN);
  assert.equal(key.fingerprint, "sha256:ce97ec20d43661a19b215cb2e376a698d0b4aa2aa5b4c7854e916bd05082fcee");
  assert.equal((await readKey(GOLDEN.replaceAll("\n", "\r\n"))).fingerprint, key.fingerprint);
});

test("other keys are refused", async () => {
  const ed25519 =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=\n-----END PUBLIC KEY-----\n";
  for (const text of [
    null,
    "",
    "not a key",
    ed25519,
    GOLDEN.replace("HhhT", "HhhU"),
    GOLDEN.replaceAll("PUBLIC", "PRIVATE"),
    `${GOLDEN}more`,
  ]) {
    assert.equal(await readKey(text), null, String(text));
  }
});

test("signatures of OpenSSL verify, and those of other bytes do not", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "assay-verifier-"));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const openssl = (...options) => execFileSync("openssl", options, { cwd: folder, stdio: ["ignore", "pipe", "ignore"] });
  try {
    openssl("version");
  } catch {
    return context.skip("there is no openssl here");
  }
  openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "key.pem");
  openssl("pkey", "-in", "key.pem", "-pubout", "-out", "key.pub");
  const key = await readKey(readFileSync(join(folder, "key.pub"), "utf8"));
  // Twenty, so that numbers with and without a leading zero occur.
  for (let round = 0; round < 20; round += 1) {
    const message = pae("application/vnd.in-toto+json", toBytes(`statement ${round}`));
    writeFileSync(join(folder, "message"), message);
    openssl("dgst", "-sha256", "-sign", "key.pem", "-out", "signature", "message");
    const signature = new Uint8Array(readFileSync(join(folder, "signature")));
    assert.equal(await key.verifies(message, signature), true);
    assert.equal(await key.verifies(toBytes(`statement ${round}`), signature), false);
    signature[signature.length - 1] ^= 1;
    assert.equal(await key.verifies(message, signature), false);
  }
});
