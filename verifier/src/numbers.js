// Published numbers against their rows, and rows against the Summary: the same value, to the last bit, in every place.

import { parseCanonical } from "./canonical.js";
import { toText } from "./bytes.js";
import { Refusal, ensure, shown } from "./refusal.js";

export const NUMBER_TABLES = ["outcome_fact", "serving_outcome_fact", "training_outcome_fact"];
const MIN_ROW_DIGITS = 12;
const MEMBERS = ["address", "benchmark_case_id", "point_id", "metric", "statistic", "value", "unit", "n", "source", "file"];

/** The rows that hold numbers, by table and id; each with the digest of its file. */
export class NumberRows {
  #rows = new Map(NUMBER_TABLES.map((table) => [table, new Map()]));
  #byDigits = new Map();

  add({ table, artifact }, rows) {
    const known = this.#rows.get(table);
    for (const row of known ? rows : []) {
      ensure(!known.has(row.row_id), "row_twice", `\`${table}\` holds the row \`${row.row_id}\` twice`);
      const found = { row, file: artifact.digest };
      known.set(row.row_id, found);
      const digits = `${table}/${row.row_id.slice(0, MIN_ROW_DIGITS)}`;
      this.#byDigits.set(digits, [...(this.#byDigits.get(digits) ?? []), found]);
    }
  }

  byId(table, id) {
    return this.#rows.get(table)?.get(id) ?? null;
  }

  /** The one row whose id begins with these digits. */
  only(table, digits) {
    const near = this.#byDigits.get(`${table}/${digits.slice(0, MIN_ROW_DIGITS)}`) ?? [];
    const found = near.filter(({ row }) => row.row_id.startsWith(digits));
    return found.length === 1 ? found[0] : null;
  }
}

/** Reads `numbers.json`, and compares what it says of itself with the Publication. */
export function readNumbers(bytes, runId, publication) {
  const { value: numbers, problem } = parseCanonical(toText(bytes));
  ensure(problem !== "not_canonical", "numbers_differ", "the published numbers are not in canonical form");
  const isKnown = Array.isArray(numbers?.numbers) && Object.keys(numbers).sort().join() === "grade,numbers,run_id,summary";
  ensure(isKnown, "numbers", "the published numbers cannot be read");
  const same = (one, other) => JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
  const comparisons = [
    ["run", numbers.run_id === runId],
    ["summary", numbers.summary === publication.summary],
    ["grade", same(numbers.grade, publication.grade)],
  ];
  const [other] = comparisons.find(([, isSame]) => !isSame) ?? [];
  ensure(!other, "other_numbers", `the published numbers are of another ${other} than their publication`);
  numbers.numbers.forEach(checkShape);
  return numbers.numbers;
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}

function checkShape(number) {
  const { query, ...rest } = typeof number === "object" && number !== null ? number : {};
  const holds =
    Object.keys(rest).sort().join() === [...MEMBERS].sort().join() &&
    typeof rest.value === "number" &&
    ["rows", "query"].includes(rest.source);
  const texts = MEMBERS.filter((name) => name !== "value").every((name) => typeof rest[name] === "string");
  ensure(holds && texts && (query === undefined || typeof query === "object"), "numbers", "the published numbers cannot be read");
}

/** Checks that every number says what its row says, and lies where its address says. */
export function checkNumbers(runId, numbers, rows, tables) {
  for (const number of numbers) {
    const what = difference(runId, number, rows, tables);
    ensure(
      what === null,
      "number_not_in_row",
      () => `the number \`${shown(number.address)}\` is not the one in its row: ${what} differs`,
    );
  }
}

function difference(runId, number, rows, tables) {
  const [run, table, digits, column, ...more] = number.address.split("/");
  const isAddress = run === runId && column !== undefined && more.length === 0 && digits.length >= MIN_ROW_DIGITS;
  const found = isAddress ? rows.only(table, digits) : null;
  if (!found) return "its address";
  const { row, file } = found;
  if (row.run_id !== runId) return "the run";
  if ((row.trial_id ?? null) !== null) return "the trial";
  const expected = numberIn(table, row, column, tables);
  if (expected === null) return "its address";
  const comparisons = [
    ["its file", number.file === file],
    ["the case", number.benchmark_case_id === (row.benchmark_case_id ?? "")],
    ["the point", number.point_id === (row.point_id ?? "")],
    ["the metric", number.metric === expected.metric],
    ["the statistic", number.statistic === expected.statistic],
    ["the unit", number.unit === expected.unit],
    ["the count", number.n === expected.n],
    ["the value", Object.is(number.value, expected.value)],
  ];
  return comparisons.find(([, isSame]) => !isSame)?.[0] ?? null;
}

/** The number in a column of a row; null if the column holds none that is published. */
function numberIn(table, row, column, tables) {
  const isLong = table === "outcome_fact";
  const described = tables[table].find(({ name, key }) => name === column && !key);
  const value = row[column] ?? null;
  const count = row[isLong ? "n" : "trials_counted"] ?? null;
  const isNumber = typeof value === "number" || typeof value === "bigint";
  if (!isNumber || count === null || (isLong ? column !== "value" : !described)) return null;
  const n = String(count);
  if (isLong) return { metric: row.metric, statistic: row.statistic, unit: row.unit, n, value };
  const unit = described.unit === "as `currency` says" ? (row.currency ?? "") : described.unit || "ratio";
  return { metric: column, statistic: "column", unit, n, value: Number(value) };
}

/** The statistics of a metric in the order in which they are published. */
function statistics(metric) {
  const { interval } = metric;
  const all = [
    ["median", metric.median],
    ["mean", metric.mean],
    ["min", metric.min],
    ["max", metric.max],
    ["sd", metric.sd],
    ["cv", metric.cv],
    ["ci_low", interval?.low],
    ["ci_high", interval?.high],
  ];
  return all.filter(([, value]) => value !== undefined && value !== null);
}

/**
 * Checks every statistic and every trial's value of the Summary against its row, and gives how many there are and the addresses that
 * must be published, in their order.
 */
export function checkSummary(runId, summary, rows) {
  const addresses = [];
  let checked = 0;
  for (const point of summary.points) {
    for (const metric of point.metrics) {
      const where = `\`${shown(metric.metric)}\` of ${point.case_id} at \`${point.point_id}\``;
      const check = (id, expected) => {
        const row = rows.byId("outcome_fact", id.slice(7))?.row;
        ensure(row, "number_without_row", `the summary names a row for ${where} that is missing`);
        const own = { benchmark_case_id: point.case_id, point_id: point.point_id, metric: metric.metric, ...expected };
        const other = Object.keys(own).find((name) => !Object.is(own[name], text(row[name])));
        ensure(other === undefined, "row_differs", `the row of ${where} has another \`${other}\` than the summary`);
        checked += 1;
      };
      for (const [statistic, value] of statistics(metric)) {
        const id = metric.rows[statistic];
        const interval_kind = statistic.startsWith("ci_") ? metric.interval.kind : null;
        ensure(id, "number_without_row", `the summary names no row for the ${statistic} of ${where}`);
        const unit = statistic === "cv" ? "ratio" : metric.unit;
        check(id, { statistic, value, n: metric.n, trial_id: null, unit, interval_kind });
        addresses.push(`${runId}/outcome_fact/${id.slice(7, 7 + MIN_ROW_DIGITS)}/value`);
      }
      for (const trial of metric.trials)
        check(trial.row_id, { value: trial.value, n: trial.n, trial_id: trial.trial_id, unit: metric.unit });
    }
  }
  return { checked, addresses };
}

const text = (value) => (typeof value === "bigint" ? String(value) : (value ?? null));

/** Checks that `numbers.json` has every number of the Summary, in order, and beyond those only what queries select. */
export function checkWhole(numbers, addresses) {
  const missing = addresses.find((address, place) => numbers[place]?.address !== address);
  if (missing !== undefined)
    throw new Refusal("numbers_differ", `the published numbers lack \`${missing}\`, or have it in another place`);
  const more = numbers.slice(addresses.length).find(({ source }) => source !== "query");
  ensure(
    !more,
    "numbers_differ",
    () => `the number \`${shown(more.address)}\` is neither of the summary nor selected by a query`,
  );
}
