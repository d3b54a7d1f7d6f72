// Verifies a manifest with npm's Sigstore libraries: node verify.mjs MANIFEST BUNDLE PUBLIC_KEY_PEM
//
// The library checks bundle, key and signature. It ignores the artifact of a DSSE bundle, so the subjects are compared here.
import { createHash, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { argv, exit } from 'node:process';
import { bundleFromJSON } from '@sigstore/bundle';
import { toSignedEntity, toTrustMaterial, Verifier } from '@sigstore/verify';

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();

function verify(manifest, bundleText, keyPem) {
  const rawBytes = createPublicKey(keyPem).export({ type: 'spki', format: 'der' });
  const noAuthorities = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
  const trust = toTrustMaterial(noAuthorities, { [sha256(rawBytes).toString('base64')]: { rawBytes } });
  // A key and no log: every threshold is 1 unless it is said otherwise.
  const verifier = new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });

  const bundle = bundleFromJSON(JSON.parse(bundleText));
  verifier.verify(toSignedEntity(bundle, manifest));

  const envelope = bundle.content.dsseEnvelope;
  if (envelope?.payloadType !== 'application/vnd.in-toto+json') throw new Error('not an in-toto statement');
  const statement = JSON.parse(Buffer.from(envelope.payload).toString('utf8'));
  if (statement._type !== 'https://in-toto.io/Statement/v1') throw new Error('not a statement of version 1');
  const digest = sha256(manifest).toString('hex');
  if (!statement.subject.some((subject) => subject.digest.sha256 === digest)) {
    throw new Error('the manifest is not a subject of the statement');
  }
}

if (argv.length !== 5) {
  console.error('usage: node verify.mjs MANIFEST BUNDLE PUBLIC_KEY_PEM');
  exit(2);
}
try {
  const [manifest, bundle, key] = argv.slice(2).map((path) => readFileSync(path));
  verify(manifest, bundle.toString('utf8'), key);
  console.log('verified by @sigstore/verify');
} catch (error) {
  console.error(`refused by @sigstore/verify: ${error.code ?? error.name}: ${error.message}`);
  exit(1);
}
