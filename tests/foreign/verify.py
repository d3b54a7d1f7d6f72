"""Verifies a manifest with python's securesystemslib: python verify.py MANIFEST BUNDLE PUBLIC_KEY_PEM

The library checks the DSSE envelope. It insists on a `keyid`, which DSSE does not authenticate and our bundles leave out, so
one is put into a copy. What stands around the envelope, and the subjects, are compared here.
"""

import base64
import hashlib
import json
import sys

from cryptography.hazmat.primitives import serialization
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class Refused(Exception):
    """A check that did not hold."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


def verify(manifest: bytes, bundle_text: bytes, key_pem: bytes) -> None:
    public = serialization.load_pem_public_key(key_pem)
    spki = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    hint = base64.b64encode(hashlib.sha256(spki).digest()).decode()

    bundle = json.loads(bundle_text)
    check(bundle["mediaType"] == MEDIA_TYPE, "the bundle is not of version 0.3")
    check(bundle["verificationMaterial"]["publicKey"]["hint"] == hint, "the bundle names another key")
    envelope = bundle["dsseEnvelope"]
    check(len(envelope["signatures"]) == 1, "the bundle has not exactly one signature")
    envelope["signatures"][0]["keyid"] = hint

    dsse = Envelope.from_dict(envelope)
    dsse.verify([SSlibKey.from_crypto(public, keyid=hint)], threshold=1)

    check(dsse.payload_type == PAYLOAD_TYPE, "not an in-toto statement")
    statement = json.loads(dsse.payload)
    check(statement["_type"] == STATEMENT_TYPE, "not a statement of version 1")
    digest = hashlib.sha256(manifest).hexdigest()
    subjects = [subject["digest"].get("sha256") for subject in statement["subject"]]
    check(digest in subjects, "the manifest is not a subject of the statement")


def main() -> int:
    if len(sys.argv) != 4:
        print("usage: python verify.py MANIFEST BUNDLE PUBLIC_KEY_PEM", file=sys.stderr)
        return 2
    try:
        verify(*(open(path, "rb").read() for path in sys.argv[1:]))
    except Exception as error:  # Whatever goes wrong with hostile bytes is a refusal.
        print(f"refused by securesystemslib: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("verified by securesystemslib")
    return 0


if __name__ == "__main__":
    sys.exit(main())
