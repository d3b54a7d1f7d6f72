"""Asks a served store as the AWS SDK (through pyarrow) and deltalake do: s3.py ENDPOINT CREDENTIALS RUN

Lists by folders, reads ranges, reads a table, and tries what a store refuses: to replace, to write another stage's results, to put
other bytes under a blob's name, to remove.
"""
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

source, blob = f"assay/runs/{run}/source", largest.path
new = "assay/blobs/sha256/" + hashlib.sha256(b"new").hexdigest()[:2] + "/" + hashlib.sha256(b"new").hexdigest()
refused("a wrong secret", "ACCESS_DENIED", lambda: client("read", "x" * 32).open_input_file(blob).read())
refused("an unknown identity", "ACCESS_DENIED", lambda: client("nobody", "x" * 32).open_input_file(blob).read())
refused("a reader's write", "only read", lambda: write(reader, new, b"new"))
refused("a pointer replaced", "created once", lambda: write(client("run"), source, b"{}"))
refused("another stage's result", "only `publish`", lambda: write(client("execute"), f"assay/runs/{run}/publish/x", b"{}"))
refused("other bytes for a blob", "has the name of its bytes", lambda: write(client("execute"), blob, b"other"))
refused("a path of no run's", "no run writes there", lambda: write(client("run"), "assay/elsewhere", b"x"))
refused("a removal", "nothing in a store is removed", lambda: client("run").delete_file(blob))
write(client("execute"), new, b"new")
with reader.open_input_file(new) as file:
    assert file.read() == b"new"
# In parts, each as large as the SDK makes them.
large = bytes(range(256)) * (12 << 12)
digest = hashlib.sha256(large).hexdigest()
write(client("execute"), f"assay/blobs/sha256/{digest[:2]}/{digest}", large)
with reader.open_input_file(f"assay/blobs/sha256/{digest[:2]}/{digest}") as file:
    assert file.read() == large
print("ok")
