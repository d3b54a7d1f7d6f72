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
  ensure(
    found.length === columns.length,
    "rows",
    `\`${shown(name)}\` has ${found.length} columns, and its table ${columns.length}`,
  );
  for (const [place, column] of columns.entries()) {
    const { name: own, type, repetition_type: repetition, converted_type: meaning, logical_type: logical } = found[place];
    ensure(
      own === column.name,
      "rows",
      () => `\`${shown(name)}\`: the column \`${shown(own)}\` stands where \`${column.name}\` should`,
    );
    // Another meaning, such as a decimal's, would change the values that are read.
    const means =
      column.type === "text" ? meaning === "UTF8" && logical?.type === "STRING" : meaning === undefined && logical === undefined;
    const fits = means && type === PHYSICAL[column.type] && repetition === (column.nullable ? "OPTIONAL" : "REQUIRED");
    ensure(fits, "rows", `\`${shown(name)}\`: the column \`${own}\` is not of its table's type`);
  }
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
