// Numbers against rows: whatever differs is named.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NumberRows, checkNumbers, checkSummary, checkWhole, readNumbers } from "../src/numbers.js";
import { toBytes } from "../src/bytes.js";
import { canonicalText } from "../src/canonical.js";

const column = (name, more = {}) => ({ name, key: false, unit: "", type: "float", nullable: true, ...more });
const tables = {
  outcome_fact: [column("value", { unit: "as `unit` says" }), column("n", { type: "integer" })],
  serving_outcome_fact: [
    column("run_id", { key: true }),
    column("ttft_ns_p99", { unit: "ns" }),
    column("cost_per_token", { unit: "as `currency` says" }),
    column("error_rate"),
  ],
};
const FILE = `sha256:${"f".repeat(64)}`;
const ID = "0123456789ab".padEnd(64, "0");
const row = {
  run_id: "nightly",
  row_id: ID,
  benchmark_case_id: "w.t.default",
  point_id: "one",
  trial_id: null,
  metric: "rate",
  statistic: "median",
  value: 1.5,
  unit: "GB/s",
  n: 5n,
};
const trial = { ...row, row_id: "1".repeat(64), trial_id: "w.t.default.one.t0", statistic: "value" };
const wide = {
  run_id: "nightly",
  row_id: "2".repeat(64),
  benchmark_case_id: "w.t.default",
  point_id: "one",
  trials_counted: 3n,
  ttft_ns_p99: 12_000_000n,
  cost_per_token: 0.25,
  currency: "EUR",
  error_rate: 0,
};
const number = {
  address: `nightly/outcome_fact/${ID.slice(0, 12)}/value`,
  benchmark_case_id: "w.t.default",
  point_id: "one",
  metric: "rate",
  statistic: "median",
  value: 1.5,
  unit: "GB/s",
  n: "5",
  source: "rows",
  file: FILE,
};

function rows() {
  const all = new NumberRows();
  all.add({ table: "outcome_fact", artifact: { digest: FILE } }, [row, trial]);
  all.add({ table: "serving_outcome_fact", artifact: { digest: FILE } }, [wide]);
  return all;
}

const said = (change) => {
  try {
    checkNumbers("nightly", [{ ...number, ...change }], rows(), tables);
    return "nothing";
  } catch (error) {
    assert.equal(error.code, "number_not_in_row");
    return /: ([^:]*) differs$/.exec(error.message)[1];
  }
};

test("a number is the one in its row, and whatever differs is named", () => {
  assert.equal(said({}), "nothing");
  assert.equal(said({ address: `nightly/outcome_fact/${ID}/value` }), "nothing", "all digits will do");
  const cases = {
    benchmark_case_id: "the case",
    point_id: "the point",
    metric: "the metric",
    statistic: "the statistic",
    unit: "the unit",
    n: "the count",
    file: "its file",
  };
  for (const [member, what] of Object.entries(cases)) assert.equal(said({ [member]: "other" }), what);
  assert.equal(said({ value: 1.5000000000000002 }), "the value");
  assert.equal(said({ address: `nightly/outcome_fact/${trial.row_id}/value` }), "the trial");
});

test("an address names one row", () => {
  const bad = [
    "",
    "nightly/outcome_fact//value",
    `nightly/outcome_fact/${ID.slice(0, 11)}/value`,
    `weekly/outcome_fact/${ID}/value`,
    `nightly/workload_dim/${ID}/value`,
    `nightly/outcome_fact/${ID}/n`,
    `nightly/outcome_fact/${ID}`,
    `nightly/outcome_fact/${ID}/value/more`,
    `nightly/outcome_fact/${"9".repeat(64)}/value`,
  ];
  for (const address of bad) assert.equal(said({ address }), "its address", address);
});

test("a column of a wide row has the column's unit", () => {
  const of = (column, unit, value) =>
    said({
      address: `nightly/serving_outcome_fact/${wide.row_id}/${column}`,
      metric: column,
      statistic: "column",
      unit,
      value,
      n: "3",
    });
  assert.equal(of("ttft_ns_p99", "ns", 12e6), "nothing");
  assert.equal(of("ttft_ns_p99", "ms", 12e6), "the unit");
  assert.equal(of("cost_per_token", "EUR", 0.25), "nothing");
  assert.equal(of("error_rate", "ratio", 0), "nothing");
  assert.equal(of("error_rate", "ratio", -0), "the value", "zero has a sign");
  assert.equal(of("currency", "", 0), "its address", "text is no number");
  assert.equal(of("run_id", "", 0), "its address", "a key is no number");
});

test("a row is there once", () => {
  assert.throws(() => rows().add({ table: "outcome_fact", artifact: { digest: FILE } }, [row, row]), { code: "row_twice" });
});

test("the summary's statistics are the rows', and are all published", () => {
  const metric = {
    metric: "rate",
    unit: "GB/s",
    n: "5",
    median: 1.5,
    mean: undefined,
    rows: { median: `sha256:${ID}` },
    trials: [{ trial_id: trial.trial_id, value: 1.5, n: "5", row_id: `sha256:${trial.row_id}` }],
  };
  const summary = (change) => ({ points: [{ case_id: "w.t.default", point_id: "one", metrics: [{ ...metric, ...change }] }] });
  const { checked, addresses } = checkSummary("nightly", summary({}), rows());
  assert.deepEqual([checked, addresses], [2, [number.address]]);
  assert.throws(() => checkSummary("nightly", summary({ median: 15 }), rows()), { code: "row_differs" });
  assert.throws(() => checkSummary("nightly", summary({ n: "50" }), rows()), { code: "row_differs" });
  assert.throws(() => checkSummary("nightly", summary({ mean: 1 }), rows()), { code: "number_without_row" });
  assert.throws(() => checkSummary("nightly", summary({ rows: { median: FILE } }), rows()), { code: "number_without_row" });
  checkWhole([number, { ...number, source: "query", address: "more" }], addresses);
  assert.throws(() => checkWhole([], addresses), { code: "numbers_differ" });
  assert.throws(() => checkWhole([number, number], addresses), { code: "numbers_differ" });
});

test("numbers are their publication's own", () => {
  const publication = { summary: FILE, grade: { requested: "realism", given: "exploratory", shortfalls: [] } };
  const whole = {
    run_id: "nightly",
    summary: FILE,
    grade: { given: "exploratory", requested: "realism", shortfalls: [] },
    numbers: [number],
  };
  const read = (change) => readNumbers(toBytes(canonicalText({ ...whole, ...change })), "nightly", publication);
  assert.equal(read({}).length, 1);
  assert.throws(() => read({ run_id: "weekly" }), { code: "other_numbers" });
  assert.throws(() => read({ summary: "other" }), { code: "other_numbers" });
  assert.throws(() => read({ grade: { ...whole.grade, given: "realism" } }), { code: "other_numbers" });
  assert.throws(() => read({ numbers: [{ ...number, more: 1 }] }), { code: "numbers" });
  assert.throws(() => read({ numbers: [{ ...number, value: "1.5" }] }), { code: "numbers" });
  assert.throws(() => readNumbers(toBytes(`${canonicalText(whole)} `), "nightly", publication), { code: "numbers_differ" });
  assert.throws(() => readNumbers(toBytes("no JSON"), "nightly", publication), { code: "numbers" });
});
