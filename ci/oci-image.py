#!/usr/bin/env python3
"""Packs files into an OCI image archive, with nothing but Python's standard library, and prints the image's name by digest.

The same files and options make the same bytes, on every machine: entries are sorted, times are zero, the layer is not compressed
(what a compressor writes differs from version to version), and of a file's mode only the right to execute it is kept.

The archive names the image by its digest alone (`REPOSITORY@sha256:...`), so that `ctr images import` and `kind load image-archive`
keep exactly that digest, and a pod that asks for it gets it without a registry.

    ci/oci-image.py --repository assay.test/assay --output assay.tar --entrypoint /assay --user 65532:65532 \\
        --label org.opencontainers.image.title=assay --folder 1777=tmp --link assay=bin/assay-too target/release/assay=assay
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import sys
import tarfile
import tempfile
import typing

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"


class Entry(typing.NamedTuple):
    """What a tar archive holds under one path. Its content is opened only to be written: all together may not fit into memory."""

    type: bytes
    mode: int
    open: typing.Callable[[], typing.BinaryIO] = io.BytesIO
    target: str = ""


class Blob(typing.NamedTuple):
    """What an image is made of, by its digest."""

    digest: str
    size: int
    open: typing.Callable[[], typing.BinaryIO]


FOLDER = Entry(tarfile.DIRTYPE, 0o755)


def main():
    options = parse()
    # Beside the output, where there is room for it.
    with tempfile.TemporaryFile(dir=options.output.parent) as file:
        write_tar(file, layer_entries(options), options.owner)
        layer = Blob(digest(file), file.tell(), lambda: file)
        config = blob(canonical(image_config(options, layer)))
        manifest = blob(canonical(image_manifest(config, layer)))
        name = f"{options.repository}@{manifest.digest}"
        parts = [layer, config, manifest]
        entries = {
            "oci-layout": plain(canonical({"imageLayoutVersion": "1.0.0"})),
            "index.json": plain(canonical(image_index(manifest, name))),
            **{f"blobs/{part.digest.replace(':', '/')}": Entry(tarfile.REGTYPE, 0o644, part.open) for part in parts},
        }
        write_archive(options.output, entries)
    print(name)


def parse():
    parser = argparse.ArgumentParser(description="Packs files into an OCI image archive and prints the image's name by digest.")
    parser.add_argument("--repository", required=True, type=repository, help="what the image is called, a registry's host first")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FILE")
    parser.add_argument("--entrypoint", action="append", default=[], metavar="WORD", help="may be given for each word")
    parser.add_argument("--env", action="append", default=[], type=pair, metavar="K=V", help="a variable that its programs see")
    parser.add_argument("--workdir", type=absolute, metavar="PATH", help="where its programs start (default: /)")
    parser.add_argument("--user", default="65532:65532", type=two_numbers, metavar="UID:GID", help="who runs it")
    parser.add_argument("--owner", default="0:0", type=two_numbers, metavar="UID:GID", help="whose the files are (default: %(default)s)")
    parser.add_argument("--label", action="append", default=[], type=pair, metavar="K=V")
    parser.add_argument("--architecture", default=ARCHITECTURES.get(platform.machine()), help="as OCI names it (default: this machine's)")
    parser.add_argument("--link", action="append", default=[], type=pair, metavar="TARGET=PATH", help="a symbolic link")
    parser.add_argument("--folder", action="append", default=[], type=folder, metavar="MODE=PATH", help="without it: 755")
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


def folder(text):
    mode, path = pair(text)
    if not re.fullmatch(r"[0-7]{3,4}", mode):
        raise argparse.ArgumentTypeError(f"`{mode}` is no mode of a folder: it is three or four octal digits, such as 1777")
    return int(mode, 8), path


def absolute(text):
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"`{text}` does not start with `/`")
    return text


def two_numbers(text):
    if not re.fullmatch(r"\d+:\d+", text):
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form UID:GID: a name means nothing in an image without /etc/passwd")
    uid, gid = text.split(":")
    return int(uid), int(gid)


def layer_entries(options):
    """The files, links and folders by path in the image, and the folders above them."""
    given = [(path, file_entry(source)) for source, path in options.files]
    given += [(path, Entry(tarfile.SYMTYPE, 0o777, target=target)) for target, path in options.link]
    given += [(path, Entry(tarfile.DIRTYPE, mode)) for mode, path in options.folder]
    entries = {}
    for path, entry in given:
        inside = pathlib.PurePosixPath(path.lstrip("/"))
        if not inside.parts or ".." in inside.parts:
            sys.exit(f"error: `{path}` is no path in an image")
        if str(inside) in entries:
            sys.exit(f"error: two files, links or folders have the path `/{inside}`")
        entries[str(inside)] = entry
    for path in list(entries):
        for parent in pathlib.PurePosixPath(path).parents[:-1]:
            if entries.setdefault(str(parent), FOLDER).type != tarfile.DIRTYPE:
                sys.exit(f"error: `/{parent}` is no folder, so `/{path}` cannot be in it")
    return entries


def file_entry(source):
    file = pathlib.Path(source)
    if not file.is_file():
        sys.exit(f"error: `{source}` is no file")
    executable = file.stat().st_mode & 0o100
    return Entry(tarfile.REGTYPE, 0o755 if executable else 0o644, lambda: file.open("rb"))


def plain(content):
    return Entry(tarfile.REGTYPE, 0o644, lambda: io.BytesIO(content))


def write_archive(path, entries):
    """Writes the archive under its name only when it is whole."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as out:
            write_tar(out, entries, (0, 0))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_tar(out, entries, owner):
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(entries):
            entry = entries[path]
            info = tarfile.TarInfo(path)
            info.uid, info.gid = owner
            info.mode, info.type, info.linkname = entry.mode, entry.type, entry.target
            with entry.open() as content:
                info.size = content.seek(0, io.SEEK_END)
                content.seek(0)
                archive.addfile(info, content)


def image_config(options, layer):
    run = {"User": "{}:{}".format(*options.user), "Labels": dict(options.label)}
    if options.entrypoint:
        run["Entrypoint"] = options.entrypoint
    if options.env:
        run["Env"] = [f"{name}={value}" for name, value in options.env]
    if options.workdir:
        run["WorkingDir"] = options.workdir
    return {
        "architecture": options.architecture,
        "config": run,
        "created": EPOCH,
        "os": "linux",
        "rootfs": {"diff_ids": [layer.digest], "type": "layers"},
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


def descriptor(media_type, part):
    return {"digest": part.digest, "mediaType": media_type, "size": part.size}


def blob(content):
    return Blob(digest(io.BytesIO(content)), len(content), lambda: io.BytesIO(content))


def digest(file):
    """The digest of a whole file, which is then at its end."""
    file.seek(0)
    hash = hashlib.sha256()
    while part := file.read(1 << 20):
        hash.update(part)
    return "sha256:" + hash.hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
