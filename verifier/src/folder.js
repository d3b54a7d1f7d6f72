// The dropped folder: its files by path and by digest. Each is read when it is needed, and its digest is compared each time, so what is
// used is what was verified.

import { digestOf, toText } from "./bytes.js";
import { Refusal, ensure, shown } from "./refusal.js";

/** A browser hashes a whole file in memory. */
export const LIMITS = { files: 20_000, fileBytes: 512 << 20, allBytes: 4 * 2 ** 30, depth: 32 };

const tooLarge = (message) => new Refusal("folder_too_large", message, "`assay verify FOLDER` has other limits");

/** Files that were given by an `<input webkitdirectory>`, by their path inside of the chosen folder: `{ name, files }`. */
export function chosenFiles(list) {
  const files = new Map();
  let name = "";
  for (const file of list) {
    const [folder, ...inside] = file.webkitRelativePath.split("/");
    name = folder;
    addFile(files, inside.join("/"), file);
  }
  return { name, files };
}

/** Files of the one folder that was dropped: `{ name, files }`. */
export async function droppedFiles(transfer) {
  // Only until the first await are the items there.
  const items = [...transfer.items].filter(({ kind }) => kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry());
  // Chromium gives a page that was opened from a file no content of entries, but of handles.
  const handles = items.map((item) => item.getAsFileSystemHandle?.());
  const isOne = entries.length === 1 && entries[0]?.isDirectory;
  ensure(
    isOne,
    "not_a_folder",
    "what was dropped is not one folder",
    "drop the folder itself: the one that has `chain` and `numbers.json` in it",
  );
  const files = new Map();
  const handle = await handles[0]?.catch(() => null);
  if (handle) await walkHandle(handle, "", files, 0);
  else await walkEntry(entries[0], "", files, 0);
  return { name: entries[0].name, files };
}

async function walkHandle(folder, prefix, files, depth) {
  checkDepth(depth);
  for await (const [name, handle] of folder.entries()) {
    const path = prefix + name;
    if (handle.kind === "directory") await walkHandle(handle, `${path}/`, files, depth + 1);
    else addFile(files, path, await handle.getFile());
  }
}

function checkDepth(depth) {
  if (depth > LIMITS.depth) throw tooLarge(`the folder is more than ${LIMITS.depth} folders deep`);
}

async function walkEntry(folder, prefix, files, depth) {
  checkDepth(depth);
  const reader = folder.createReader();
  // A reader gives a hundred entries at a time, and none at its end.
  for (let batch = await entriesOf(reader); batch.length > 0; batch = await entriesOf(reader)) {
    for (const entry of batch) {
      const path = prefix + entry.name;
      if (entry.isDirectory) await walkEntry(entry, `${path}/`, files, depth + 1);
      else addFile(files, path, await new Promise((give, fail) => entry.file(give, fail)));
    }
  }
}

const entriesOf = (reader) => new Promise((give, fail) => reader.readEntries(give, fail));

function addFile(files, path, file) {
  files.set(path, file);
  if (files.size > LIMITS.files) throw new Refusal("too_many_files", `the folder holds more than ${LIMITS.files} files`);
}

/** A folder whose every file has been hashed. */
export class Folder {
  #files;
  #byPath = new Map();
  #byDigest = new Map();

  /** Hashes all files. `files` maps paths to Blobs; `progress(done, all)` is told bytes. */
  static async open(files, progress) {
    const sizes = [...files].map(([path, file]) => [path, file.size]);
    const all = sizes.reduce((sum, [, size]) => sum + size, 0);
    const [large] = sizes.find(([, size]) => size > LIMITS.fileBytes) ?? [];
    if (large !== undefined) throw tooLarge(`\`${shown(large)}\` has more than ${LIMITS.fileBytes} bytes`);
    if (all > LIMITS.allBytes) throw tooLarge(`the folder has ${all} bytes, more than ${LIMITS.allBytes}`);
    const folder = new Folder();
    folder.#files = files;
    let done = 0;
    for (const [path, file] of files) {
      const digest = await digestOf(await contentOf(path, file));
      folder.#byPath.set(path, digest);
      folder.#byDigest.set(digest, path);
      done += file.size;
      await progress?.(done, all);
    }
    return folder;
  }

  get count() {
    return this.#byPath.size;
  }

  get bytes() {
    return [...this.#files.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** The digest of the file at a path; undefined if there is none. */
  at(path) {
    return this.#byPath.get(path);
  }

  pathOf(digest) {
    return this.#byDigest.get(digest);
  }

  sizeOf(path) {
    return this.#files.get(path).size;
  }

  paths() {
    return [...this.#byPath.keys()].sort();
  }

  /** The bytes of a digest, hashed again; null if no file has them. */
  async get(digest, limit = LIMITS.fileBytes) {
    const path = this.#byDigest.get(digest);
    if (path === undefined) return null;
    const file = this.#files.get(path);
    ensure(
      file.size <= limit,
      "artifact_too_large",
      () => `\`${shown(path)}\` has ${file.size} bytes, more than the limit of ${limit}`,
    );
    const bytes = await contentOf(path, file);
    ensure((await digestOf(bytes)) === digest, "artifact_corrupt", () => `\`${shown(path)}\` changed while it was read`);
    return bytes;
  }

  async textOf(digest, limit) {
    const bytes = await this.get(digest, limit);
    return bytes && toText(bytes);
  }
}

async function contentOf(path, file) {
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Refusal(
      "unreadable",
      `the browser cannot read \`${shown(path)}\``,
      "drop the folder again: it may have changed since",
    );
  }
}
