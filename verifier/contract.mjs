// The written contract, as the page needs it: the schemas of manifests and the descriptions of tables, read from the repository.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { KINDS } from "./src/manifest.js";

const TYPES = { text: "text", int64: "integer", float64: "float", bool: "boolean" };
const NOTES = ["description", "title", "$schema", "$id"];

/** `{ schemas, tables }` of the repository at `root`. */
export function readContract(root) {
  const schema = (kind) => withoutNotes(JSON.parse(readFileSync(join(root, "manifests/schema", `${kind}.json`), "utf8")));
  const schemas = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, schema(kind)]));
  return { schemas, tables: readTables(readFileSync(join(root, "docs/tables.md"), "utf8")) };
}

// Notes for people are left out. A property may be called like one of them.
function withoutNotes(schema) {
  if (Array.isArray(schema)) return schema.map(withoutNotes);
  if (typeof schema !== "object" || schema === null) return schema;
  const named = (members) => Object.fromEntries(Object.entries(members).map(([name, inner]) => [name, withoutNotes(inner)]));
  const members = Object.entries(schema).filter(([name]) => !NOTES.includes(name));
  return Object.fromEntries(
    members.map(([name, inner]) => [name, ["properties", "$defs"].includes(name) ? named(inner) : withoutNotes(inner)]),
  );
}

function typeOf(words) {
  const type = words.startsWith("int64 (instant") ? "instant" : TYPES[words];
  if (!type) throw new Error(`docs/tables.md has a type \`${words}\` that this page does not know`);
  return type;
}

/** The columns of each table, from the generated page of the documentation: a heading per table, a line per column. */
export function readTables(markdown) {
  const tables = {};
  let columns = null;
  for (const line of markdown.split("\n")) {
    const [, table] = /^## ([a-z_]+)$/.exec(line) ?? [];
    if (table) columns = tables[table] = [];
    const [, name, key, type, unit, nullable] =
      /^\| `([a-z0-9_]+)`( \*key\*)? \| ([^|]*) \| ([^|]*) \| (yes|no) \|/.exec(line) ?? [];
    if (name && columns)
      columns.push({ name, key: key !== undefined, type: typeOf(type.trim()), unit: unit.trim(), nullable: nullable === "yes" });
  }
  return tables;
}
