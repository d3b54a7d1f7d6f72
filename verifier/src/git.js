// That the files which ran are the commit's: commit, folders and files hashed again as Git does, offline.
//
// Git's SHA-1 comes from WebCrypto, which does not detect a prepared collision; `assay verify` does.

import { concat, digestOf, hash, toBytes, toHex, toText } from "./bytes.js";
import { Refusal, ensure, shown } from "./refusal.js";

const EXECUTABLE = "100755";
const FILES = ["100644", "100664", EXECUTABLE];
const FOLDER = "40000";

/**
 * Checks the files of a Source against its commit and its `files_digest`. `bytesOf(artifact)` gives bytes whose digest has been
 * compared. Gives the first line of the commit's message, or null for a Source that is not of a commit.
 */
export async function checkSourceFiles(source, bytesOf) {
  const lines = source.files.map((file) => `${file.artifact.digest} ${file.executable ? "x" : "-"} ${file.path}\n`);
  const digest = await digestOf(toBytes(lines.join("")));
  ensure(digest === source.files_digest, "source_contradicts_itself", "the source's files are not those of its digest over them");
  if (source.kind !== "git") return null;
  ensure(/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(source.commit ?? ""), "commit", "the source is of a commit, but does not name it");
  const objects = new Map();
  for (const { oid, kind, artifact } of source.objects) {
    const bytes = await bytesOf(artifact);
    ensure((await oidOf(kind, bytes, source.commit)) === oid, "commit", () => `the ${kind} ${shown(oid)} has other bytes`);
    objects.set(`${kind} ${oid}`, bytes);
  }
  const { tree, subject } = readCommit(objectOf(objects, "commit", source.commit));
  // Imported definitions are in no commit, but their original is.
  const ofCommit = source.files.filter(({ path }) => !source.import || path === source.import.file);
  for (const file of ofCommit) await checkFile(file, tree, objects, await bytesOf(file.artifact));
  return subject;
}

async function oidOf(kind, bytes, alike) {
  const algorithm = alike.length === 40 ? "SHA-1" : "SHA-256";
  return toHex(await hash(algorithm, concat(toBytes(`${kind} ${bytes.length}\0`), bytes)));
}

function objectOf(objects, kind, oid) {
  const bytes = objects.get(`${kind} ${oid}`);
  ensure(bytes, "commit", `the source lacks the ${kind} ${oid}`);
  return bytes;
}

function readCommit(bytes) {
  const text = toText(bytes) ?? new TextDecoder("latin1").decode(bytes);
  const [, tree] = /^tree ([0-9a-f]+)\n/.exec(text) ?? [];
  ensure(tree, "commit", "the commit names no tree");
  const [subject] = text.slice(text.indexOf("\n\n") + 2).split("\n");
  return { tree, subject };
}

async function checkFile({ path, executable }, root, objects, bytes) {
  const parts = path.split("/");
  let oid = root;
  for (const [depth, name] of parts.entries()) {
    const isLast = depth === parts.length - 1;
    const entry = readTree(objectOf(objects, "tree", oid), oid.length / 2).get(name);
    const isKind = entry && (isLast ? FILES.includes(entry.mode) : entry.mode === FOLDER);
    ensure(isKind, "commit", () => `the commit has no file \`${shown(path)}\``);
    ensure(
      !isLast || (entry.mode === EXECUTABLE) === executable,
      "commit",
      () => `\`${shown(path)}\` is executable in one place and not in the other`,
    );
    oid = entry.oid;
  }
  ensure((await oidOf("blob", bytes, root)) === oid, "commit", () => `\`${shown(path)}\` is not the commit's file`);
}

// A tree is a row of `mode name NUL oid`.
function readTree(bytes, oidBytes) {
  const entries = new Map();
  let place = 0;
  while (place < bytes.length) {
    const [space, end] = [bytes.indexOf(0x20, place), bytes.indexOf(0, place)];
    if (space < 0 || end < space || end + 1 + oidBytes > bytes.length)
      throw new Refusal("commit", "a tree of the source is malformed");
    const name = toText(bytes.subarray(space + 1, end));
    entries.set(name, { mode: toText(bytes.subarray(place, space)), oid: toHex(bytes.subarray(end + 1, end + 1 + oidBytes)) });
    place = end + 1 + oidBytes;
  }
  return entries;
}
