"""Asks a served store as other projects' clients do: s3.py ENDPOINT CREDENTIALS RUN

The AWS SDK (through pyarrow) lists, reads ranges and is refused what it writes unsigned; deltalake reads a table. What a store refuses
to those who sign everything is tried with requests signed here, as Amazon's documents say (Signature Version 4).
"""
import datetime
import hmac
import http.client
import hashlib
import pathlib
import sys

import deltalake
from pyarrow import fs

endpoint, credentials, run = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]


def client(identity, secret=None):
    secret = secret or (credentials / identity).read_text().strip()
    scheme, address = endpoint.split("://")
    return fs.S3FileSystem(
        access_key=identity, secret_key=secret, endpoint_override=address, scheme=scheme, region="us-east-1", background_writes=False
    )


def write(filesystem, path, data):
    with filesystem.open_output_stream(path) as stream:
        stream.write(data)


def send(who, method, path, query="", body=b"", unsigned=None, **headers):
    """A signed request: status and text. Headers are named as in Python, `if_none_match` for If-None-Match."""
    host = endpoint.split("://")[1]
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
    signed.update({name.replace("_", "-"): value for name, value in headers.items()})
    names = ";".join(sorted(signed))
    canonical = "\n".join([method, path, query, *(f"{name}:{signed[name]}" for name in sorted(signed)), "", names, digest])
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    key = ("AWS4" + (credentials / who).read_text().strip()).encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    signed["authorization"] = f"AWS4-HMAC-SHA256 Credential={who}/{scope}, SignedHeaders={names}, Signature={signature}"
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request(method, path + (f"?{query}" if query else ""), body, {**signed, **(unsigned or {})})
    response = connection.getresponse()
    return response.status, response.read().decode(errors="replace")


def denied(what, why, *request, **headers):
    status, text = send(*request, **headers)
    assert status in (400, 403) and why in text, f"{what}: {status} {text}"


def done(*request, **headers):
    status, text = send(*request, **headers)
    assert status in (200, 204), f"{request}: {status} {text}"
    return text


def refused(what, why, attempt):
    try:
        attempt()
    except OSError as error:
        assert why in str(error), f"{what}: {error}"
    else:
        raise AssertionError(f"{what} was not refused")


reader = client("read")
names = {info.base_name for info in reader.get_file_info(fs.FileSelector("assay"))}
assert {"blobs", "runs", "cases", "warehouse"} <= names, names
pointers = reader.get_file_info(fs.FileSelector(f"assay/runs/{run}", recursive=True))
assert any(info.path.endswith("/accepted/0") for info in pointers)

blobs = [info for info in reader.get_file_info(fs.FileSelector("assay/blobs", recursive=True)) if info.is_file]
assert len(blobs) > 50, len(blobs)
largest = max(blobs, key=lambda info: info.size)
for info in blobs[:20] + [largest]:
    with reader.open_input_file(info.path) as file:
        data = file.read()
        assert len(data) == info.size and hashlib.sha256(data).hexdigest() == info.base_name, info
        middle = info.size // 2
        assert file.read_at(7, middle) == data[middle : middle + 7], info

options = {
    "AWS_ENDPOINT_URL": endpoint,
    "AWS_ALLOW_HTTP": "true",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "read",
    "AWS_SECRET_ACCESS_KEY": (credentials / "read").read_text().strip(),
}
table = deltalake.DeltaTable("s3://assay/warehouse/benchmark_run_fact", storage_options=options)
assert run in table.to_pyarrow_table().column("run_id").to_pylist()

source, blob = f"/assay/runs/{run}/source", "/" + largest.path
refused("a wrong secret", "ACCESS_DENIED", lambda: client("read", "x" * 32).open_input_file(largest.path).read())
refused("an unknown identity", "ACCESS_DENIED", lambda: client("nobody", "x" * 32).open_input_file(largest.path).read())
refused("a write that is not signed", "has to be signed", lambda: write(client("run"), largest.path, b"x"))
refused("a removal", "nothing in a store is removed", lambda: client("run").delete_file(largest.path))


def blob_of(data):
    digest = hashlib.sha256(data).hexdigest()
    return f"/assay/blobs/sha256/{digest[:2]}/{digest}"


create = {"if_none_match": "*"}
denied("a reader's write", "only read", "read", "PUT", blob_of(b"new"), body=b"new")
denied("a pointer replaced", "created once", "run", "PUT", source, body=b"{}")
denied("another stage's result", "only `publish`", "execute", "PUT", f"/assay/runs/{run}/publish/x", body=b"{}", **create)
denied("other bytes for a blob", "has the name of its bytes", "execute", "PUT", blob, body=b"other")
denied("a path of no run's", "no run writes there", "run", "PUT", "/assay/elsewhere", body=b"x", **create)
denied("a removal", "nothing in a store is removed", "run", "DELETE", source)
denied("a header added on the way", "have to be signed", "execute", "PUT", blob_of(b"new"), body=b"new", unsigned={"x-amz-acl": "private"})
assert send("run", "PUT", source, body=b"{}", **create)[0] == 412
done("execute", "PUT", blob_of(b"new"), body=b"new")
assert done("read", "GET", blob_of(b"new")) == "new"

# What somebody is still writing is theirs: nobody else reads, replaces, removes or completes it, and no listing has it.
staged = "/assay/staging/0123456789abcdef"
done("publish", "PUT", staged, body=b"publish", **create)
done("reduce", "DELETE", staged)
done("reduce", "PUT", staged, body=b"reduce", **create)
assert done("publish", "GET", staged) == "publish" and send("read", "GET", staged)[0] == 404
large = bytes(range(256)) * (24 << 10)
upload = done("execute", "POST", blob_of(large), "uploads=").split("<UploadId>")[1].split("<")[0]
assert send("reduce", "PUT", blob_of(large), f"partNumber=1&uploadId={upload}", body=b"another's")[0] == 404
done("execute", "PUT", blob_of(large), f"partNumber=1&uploadId={upload}", body=large)
tag = hashlib.sha256(large).hexdigest()
parts = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>"
assert send("execute", "POST", blob_of(large), f"uploadId={upload}", body=(parts % ("0" * 64)).encode())[0] == 400
assert send("reduce", "POST", blob_of(large), f"uploadId={upload}", body=(parts % tag).encode())[0] == 404
done("execute", "POST", blob_of(large), f"uploadId={upload}", body=(parts % tag).encode())
with reader.open_input_file(blob_of(large)[1:]) as file:
    assert file.read() == large
assert "staging" not in {info.base_name for info in client("run").get_file_info(fs.FileSelector("assay"))}
print("ok")
