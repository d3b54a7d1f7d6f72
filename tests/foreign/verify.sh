#!/bin/sh
# Verifies a manifest with openssl: sh verify.sh MANIFEST BUNDLE PUBLIC_KEY_PEM
#
# Openssl checks the signature over the pre-authentication encoding of DSSE; python3, without any package, takes the bundle
# apart and compares the subjects.
set -u
[ $# -eq 3 ] || { echo "usage: verify.sh MANIFEST BUNDLE PUBLIC_KEY_PEM" >&2; exit 2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

refuse() {
    echo "refused with openssl: $1" >&2
    exit 1
}

openssl pkey -pubin -in "$3" -outform DER -out "$work/spki.der" 2>/dev/null || refuse "not a public key"

python3 - "$1" "$2" "$work" <<'PYTHON' || refuse "the bundle does not fit the key or the manifest"
import base64, hashlib, json, pathlib, sys

manifest, bundle, work = map(pathlib.Path, sys.argv[1:])
try:
    document = json.loads(bundle.read_bytes())
    envelope = document["dsseEnvelope"]
    [signature] = envelope["signatures"]
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    hint = base64.b64encode(hashlib.sha256((work / "spki.der").read_bytes()).digest()).decode()
    statement = json.loads(payload)
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
    good = (
        document["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
        and document["verificationMaterial"]["publicKey"]["hint"] == hint
        and kind == b"application/vnd.in-toto+json"
        and statement["_type"] == "https://in-toto.io/Statement/v1"
        and digest in [subject["digest"].get("sha256") for subject in statement["subject"]]
    )
    (work / "pae.bin").write_bytes(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload))
    (work / "sig.der").write_bytes(base64.b64decode(signature["sig"], validate=True))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
sys.exit(not good)
PYTHON

openssl dgst -sha256 -verify "$3" -signature "$work/sig.der" "$work/pae.bin" >/dev/null 2>&1 || refuse "bad signature"
echo "verified with openssl"
