// Curated rows: Parquet files read into plain objects, each compared with the written description of its table (docs/tables.md, put
// into the page when it is built).

import { decompress } from "fzstd";
import { parquetMetadata, parquetReadObjects } from "hyparquet";

import { canonicalText } from "./canonical.js";
import { digestOf, toBytes } from "./bytes.js";
import { Refusal, ensure, shown } from "./refusal.js";

const MAX_ROWS = 1_000_000;
/** The most bytes that all pages of a file may unpack to: a small file can claim gigabytes. */
const MAX_UNPACKED_BYTES = 512 << 20;
const MAX_TEXT = 1 << 20;

const PHYSICAL = { boolean: "BOOLEAN", integer: "INT64", float: "DOUBLE", text: "BYTE_ARRAY", instant: "INT64" };

/** The rows of a curated file as the Summary names it: complete, each with its own id, and as many as stated. */
export async function readRows(file, bytes, tables) {
  const { table: name, artifact } = file;
  ensure(Object.hasOwn(tables, name), "unknown_table", () => `the summary names a table \`${shown(name)}\``);
  const columns = tables[name];
  const rows = await unpack(artifact.name, bytes, columns);
  ensure(
    String(rows.length) === file.rows,
    "row_count",
    `\`${artifact.name}\` has ${rows.length} rows, and the summary says ${file.rows}`,
  );
  for (const row of rows) await checkRow(name, columns, row);
  return rows;
}

async function unpack(name, bytes, columns) {
  const malformed = (error) =>
    new Refusal("rows", `\`${shown(name)}\` is no Parquet file that can be read: ${shown(error.message)}`);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  let metadata;
  try {
    metadata = parquetMetadata(buffer);
  } catch (error) {
    throw malformed(error);
  }
  checkSchema(name, metadata, columns);
  let room = MAX_UNPACKED_BYTES;
  const ZSTD = (input, length) => {
    room -= length;
    if (!(length >= 0) || room < 0)
      throw new Refusal("parquet_too_large", `the pages of \`${shown(name)}\` unpack to more than ${MAX_UNPACKED_BYTES} bytes`);
    return decompress(input, new Uint8Array(length));
  };
  try {
    const file = { byteLength: buffer.byteLength, slice: (start, end) => buffer.slice(start, end) };
    return await parquetReadObjects({ file, metadata, compressors: { ZSTD } });
  } catch (error) {
    throw error instanceof Refusal ? error : malformed(error);
  }
}

function checkSchema(name, metadata, columns) {
  const found = metadata.schema.slice(1);
  const rows = Number(metadata.num_rows);
  ensure(rows <= MAX_ROWS, "parquet_too_large", `\`${shown(name)}\` has ${rows} rows, more than ${MAX_ROWS}`);
  const next = columns.values();
  for (const own of found) {
    let column = next.next().value;
    // A column that came later is missing from older files: there it is null.
    while (column && column.name !== own.name && column.nullable && !column.key) column = next.next().value;
    ensure(
      column?.name === own.name,
      "rows",
      () => `\`${shown(name)}\`: the column \`${shown(own.name)}\` is not the table's, or not in its place`,
    );
    ensure(isOf(column, own), "rows", `\`${shown(name)}\`: the column \`${column.name}\` is not of its table's type`);
  }
  const missing = [...next].find(({ nullable, key }) => !nullable || key);
  ensure(!missing, "rows", () => `\`${shown(name)}\`: the column \`${missing.name}\` is missing`);
}

function isOf(column, { type, repetition_type: repetition, converted_type: meaning, logical_type: logical }) {
  // Another meaning, such as a decimal's, would change the values that are read.
  const isText = meaning === "UTF8" && logical?.type === "STRING";
  const isPlain = meaning === undefined && logical === undefined;
  const fits = type === PHYSICAL[column.type] && repetition === (column.nullable ? "OPTIONAL" : "REQUIRED");
  return fits && (column.type === "text" ? isText : isPlain);
}

async function checkRow(table, columns, row) {
  for (const { name, nullable, type } of columns) {
    const value = row[name] ?? null;
    ensure(nullable || value !== null, "rows", `a row of \`${table}\` has no \`${name}\``);
    ensure(type !== "float" || value === null || Number.isFinite(value), "rows", `a number of \`${table}\` is not finite`);
    ensure(
      type !== "text" || value === null || value.length <= MAX_TEXT,
      "parquet_too_large",
      `a text of \`${table}\` is too long`,
    );
  }
  const expected = await rowId(table, columns, row);
  ensure(
    row.row_id === expected,
    "rows",
    () => `a row of \`${table}\` has the id ${shown(row.row_id)}, but its key columns give ${expected}`,
  );
}

/** The digest of the table's name and the key columns as canonical JSON; of a workload, the digest of its frozen `spec`. */
async function rowId(table, columns, row) {
  if (table === "workload_dim" && /^sha256:[0-9a-f]{64}$/.test(row.workload_spec_digest ?? ""))
    return row.workload_spec_digest.slice(7);
  const keys = columns.filter(({ key }) => key).map(({ name, type }) => keyText(row[name] ?? null, type));
  return (await digestOf(toBytes(canonicalText([table, ...keys])))).slice(7);
}

function keyText(value, type) {
  if (typeof value !== "bigint") return value;
  return type === "instant" ? instantText(value) : String(value);
}

function instantText(nanoseconds) {
  const second = 1_000_000_000n;
  const rest = ((nanoseconds % second) + second) % second;
  const date = new Date(Number((nanoseconds - rest) / second) * 1000).toISOString().slice(0, 19);
  return `${date}.${String(rest).padStart(9, "0")}Z`;
}
