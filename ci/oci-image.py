#!/usr/bin/env python3
"""Packs files into an OCI image archive, with nothing but Python's standard library, and prints the image's name by digest.

The same files and options make the same bytes, on every machine: entries are sorted, times are zero, the layer is not compressed
(what a compressor writes differs from version to version), and of a file's mode only the right to execute it is kept.

The archive names the image by its digest alone (`REPOSITORY@sha256:...`), so that `ctr images import` and `kind load image-archive`
keep exactly that digest, and a pod that asks for it gets it without a registry.

    ci/oci-image.py --repository assay.test/assay --output assay.tar --entrypoint /assay --user 65532:65532 \\
        --label org.opencontainers.image.title=assay target/release/assay=assay
"""

import argparse
import hashlib
import io
import json
import pathlib
import platform
import re
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"


def main():
    options = parse()
    layer = tar(layer_entries(options.files), options.owner)
    config = canonical(image_config(options, layer))
    manifest = canonical(image_manifest(config, layer))
    name = f"{options.repository}@{digest(manifest)}"
    blobs = {f"blobs/sha256/{digest(blob).removeprefix('sha256:')}": blob for blob in (layer, config, manifest)}
    archive = {
        "oci-layout": canonical({"imageLayoutVersion": "1.0.0"}),
        "index.json": canonical(image_index(manifest, name)),
        **blobs,
    }
    entries = {path: (content, 0o644) for path, content in archive.items()}
    options.output.write_bytes(tar(entries, (0, 0)))
    print(name)


def parse():
    parser = argparse.ArgumentParser(description="Packs files into an OCI image archive and prints the image's name by digest.")
    parser.add_argument("--repository", required=True, type=repository, help="what the image is called, a registry's host first")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FILE")
    parser.add_argument("--entrypoint", action="append", default=[], metavar="WORD", help="may be given for each word")
    parser.add_argument("--user", default="65532:65532", type=two_numbers, metavar="UID:GID", help="who runs it")
    parser.add_argument("--owner", default="0:0", type=two_numbers, metavar="UID:GID", help="whose the files are (default: %(default)s)")
    parser.add_argument("--label", action="append", default=[], type=pair, metavar="K=V")
    parser.add_argument("--architecture", default=ARCHITECTURES.get(platform.machine()), help="as OCI names it (default: this machine's)")
    parser.add_argument("files", nargs="+", type=pair, metavar="FILE=PATH", help="a file, and its path in the image")
    options = parser.parse_args()
    if options.architecture is None:
        parser.error(f"OCI's name for the architecture `{platform.machine()}` is not known here: give --architecture")
    return options


def repository(text):
    # Without a host, containerd would put docker.io in front of the name, and never find it again under the name given here.
    if not re.fullmatch(r"(localhost|[a-z0-9-]+[.:][a-z0-9.:-]*)(/[a-z0-9]+([._-]+[a-z0-9]+)*)+", text):
        raise argparse.ArgumentTypeError(f"`{text}` is no repository: it is HOST/NAME without a tag, such as `assay.test/pause`")
    return text


def pair(text):
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form A=B")
    return left, right


def two_numbers(text):
    if not re.fullmatch(r"\d+:\d+", text):
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form UID:GID: a name means nothing in an image without /etc/passwd")
    uid, gid = text.split(":")
    return int(uid), int(gid)


def layer_entries(files):
    """The files by path in the image, and the folders above them (as None)."""
    entries = {}
    for source, path in files:
        inside = pathlib.PurePosixPath(path.lstrip("/"))
        if not inside.parts or ".." in inside.parts:
            sys.exit(f"error: `{path}` is no path in an image")
        if str(inside) in entries:
            sys.exit(f"error: two files, or a file and a folder, have the path `/{inside}`")
        file = pathlib.Path(source)
        if not file.is_file():
            sys.exit(f"error: `{source}` is no file")
        executable = file.stat().st_mode & 0o100
        entries[str(inside)] = (file.read_bytes(), 0o755 if executable else 0o644)
        for parent in inside.parents[:-1]:
            if entries.setdefault(str(parent), None) is not None:
                sys.exit(f"error: `/{parent}` is both a file and a folder")
    return entries


def tar(entries, owner):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(entries):
            content, mode = entries[path] or (b"", 0o755)
            info = tarfile.TarInfo(path)
            info.uid, info.gid = owner
            info.mode, info.size = mode, len(content)
            info.type = tarfile.REGTYPE if entries[path] else tarfile.DIRTYPE
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def image_config(options, layer):
    run = {"User": "{}:{}".format(*options.user), "Labels": dict(options.label)}
    if options.entrypoint:
        run["Entrypoint"] = options.entrypoint
    return {
        "architecture": options.architecture,
        "config": run,
        "created": EPOCH,
        "os": "linux",
        "rootfs": {"diff_ids": [digest(layer)], "type": "layers"},
    }


def image_manifest(config, layer):
    return {
        "config": descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "schemaVersion": 2,
    }


def image_index(manifest, name):
    # containerd imports what has this annotation, and silently nothing else.
    entry = descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    entry["annotations"] = {"io.containerd.image.name": name}
    return {"manifests": [entry], "mediaType": "application/vnd.oci.image.index.v1+json", "schemaVersion": 2}


def descriptor(media_type, blob):
    return {"digest": digest(blob), "mediaType": media_type, "size": len(blob)}


def digest(blob):
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
