// Cross-checks of what the manifests say of evidence, of runs and of times: no signer is taken at its word where another one's stands
// beside it.

import { parseJson } from "./canonical.js";
import { toText } from "./bytes.js";
import { chainName, inWords } from "./manifest.js";
import { Refusal, ensure, shown } from "./refusal.js";

/** Clocks of the machines of one run may differ by a minute. */
const ALLOWANCE_MS = 60_000;

/** Checks that the Collection's list of raw evidence leaves out nothing that parts, recordings and environments name. */
export function checkEvidenceList(bytes, collection, members) {
  let list;
  try {
    list = parseJson(toText(bytes));
  } catch {
    list = null;
  }
  ensure(Array.isArray(list), "evidence", "the list of evidence cannot be read");
  const isSame = String(list.length) === collection.evidence_count;
  ensure(
    isSame,
    "evidence",
    `the list of evidence has ${list.length} entries, and the collection says ${collection.evidence_count}`,
  );
  const key = (artifact) => ["name", "digest", "size", "media_type"].map((member) => artifact?.[member]).join("\n");
  const listed = new Set(list.map(key));
  const raw = members.filter(({ document }) => ["execution_part", "recording", "environment"].includes(document.kind));
  const named = raw.flatMap(({ document }) => document.artifacts);
  const missing = named.find((artifact) => !listed.has(key(artifact)));
  ensure(
    !missing,
    "evidence_incomplete",
    () => `the list of evidence leaves out \`${shown(missing.name)}\`, which a signed manifest of the run names`,
  );
  return new Set(named.map(key)).size;
}

/** Checks that the Publication lists its own run, once, with all cases of the plan. */
export function checkListedRuns(runId, plan, publication) {
  const cases = plan.cases
    .map((one) => one.case_id)
    .sort()
    .join();
  const own = publication.runs.filter((run) => run.outcome === "this" || run.run_id === runId);
  const isOwn =
    own.length === 1 && own[0].run_id === runId && own[0].outcome === "this" && [...own[0].cases].sort().join() === cases;
  ensure(isOwn, "own_run_listed_otherwise", "the publication does not list its own run once, with the plan's cases");
}

/** Checks that nothing was signed before what it was made from, or published before it was measured. All times are asserted. */
export function checkTimes(members) {
  const signed = new Map(members.map((member) => [member.reference.manifest, member]));
  const follows = (before, after, what) => {
    const holds = milliseconds(after) + ALLOWANCE_MS >= milliseconds(before);
    if (!holds) throw new Refusal("time_order", `${what}: ${after}, which is before ${before}`);
  };
  for (const { document, time } of members) {
    const inputs = document.header.inputs.map(({ manifest }) => signed.get(manifest)).filter((input) => input);
    for (const input of inputs)
      follows(input.time, time, `the ${inWords(document.kind)} was signed before the ${chainName(input.document)}`);
    if (document.kind === "execution_part") {
      for (const { window } of document.body.attempts) {
        follows(window.start, window.end, "a trial ended before it began");
        follows(window.end, time, "an execution part was signed before its trial ended");
      }
    }
    if (document.kind === "publication") {
      const { published_at: published } = document.body;
      for (const input of inputs)
        follows(input.time, published, `the run was published before the ${chainName(input.document)} was signed`);
      follows(published, time, "the publication was signed before the run was published");
    }
  }
}

const milliseconds = (instant) => Date.parse(`${instant.slice(0, 23)}Z`);
