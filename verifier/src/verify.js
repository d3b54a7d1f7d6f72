// The verification itself, from the Publication back to the Source, in the order and with the words of `assay verify`.

import { MAX_BUNDLE_BYTES, PAYLOAD_TYPE, readBundle } from "./bundle.js";
import { checkChain, keyOf } from "./chain.js";
import { digestOf } from "./bytes.js";
import { checkEvidenceList, checkListedRuns, checkTimes } from "./evidence.js";
import { checkSourceFiles } from "./git.js";
import { KINDS, MAX_MANIFEST_BYTES, chainName, inWords, publishedFiles, readManifest, subjectsOf } from "./manifest.js";
import { NumberRows, checkNumbers, checkSummary, checkWhole, readNumbers } from "./numbers.js";
import { Refusal, ensure, shown } from "./refusal.js";
import { readRows } from "./rows.js";
import { grouped, sized } from "./sentence.js";
import { pae, readKey } from "./signature.js";
import { checkRepeated, checkStatement, readStatement } from "./statement.js";
import { MAX_TRUST_BYTES, establish, readPasted, readPolicy } from "./trust.js";
import { Folder } from "./folder.js";

const MAX_KEYS = 100;
const CHECKS = {
  folder: [1, "Files hashed"],
  trust: [1, "Whom to believe"],
  chain: [1, "Signatures, digests and roles"],
  links: [1, "Links between the manifests"],
  source: [1, "The files that ran are the source’s"],
  files: [1, "Every published file is there and matches"],
  rows: [2, "Curated rows read"],
  summary: [2, "Rows against the summary"],
  said: [2, "Evidence, runs and times agree"],
  numbers: [2, "Numbers against their rows"],
  whole: [2, "No number left out or added"],
};

/**
 * Verifies a folder. `files` maps paths to Blobs, `pasted` is what the reader gave as trust, `contract` holds the schemas of manifests
 * and the descriptions of tables. Never throws for what is in the folder; gives what was found:
 * `{ failure, level, established, checks, manifests, numbers, strangers, unchecked, runId, trustedBy, grade }`.
 */
export async function verifyFolder(files, pasted, contract, progress = async () => {}) {
  const found = {
    failure: null,
    level: 0,
    established: false,
    manifests: [],
    numbers: [],
    strangers: [],
    runId: null,
    trustedBy: null,
    grade: null,
  };
  found.checks = Object.entries(CHECKS).map(([id, [level, name]]) => ({ id, level, name, state: "not reached", detail: "" }));
  Object.assign(found, { unchecked: [], trusted: false, trustUnchecked: [] });
  const check = async (id, run) => {
    const row = found.checks.find((one) => one.id === id);
    await progress(row.name);
    try {
      row.detail = await run();
      row.state = id === "trust" && !found.trusted ? "open" : "holds";
    } catch (error) {
      row.state = "fails";
      row.detail = error.message;
      throw error;
    }
  };
  try {
    await walk({ files, pasted, contract, progress, found, check });
  } catch (error) {
    const { code, message, hint } =
      error instanceof Refusal
        ? error
        : { code: "unexpected", message: `this page has a fault: ${error.message}`, hint: "report it; the folder may be whole" };
    Object.assign(found, { failure: { code, message, hint }, level: 0, established: false });
  }
  return found;
}

async function walk({ files, pasted, contract, progress, found, check }) {
  let folder, trust, members, rows, addresses;
  await check("folder", async () => {
    folder = await Folder.open(files, (done, all) => progress(`Hashing: ${Math.round((100 * done) / Math.max(all, 1))} %`));
    return `${grouped(folder.count)} files, ${sized(folder.bytes)}`;
  });
  await check("trust", async () => {
    trust = await establish(readPasted(pasted), await keysOf(folder), (digest) => folder.textOf(digest, MAX_TRUST_BYTES));
    found.trustedBy = trust.from;
    found.trusted = trust.established;
    return trust.established ? trust.from : `${trust.from}. Keys of the folder are used, and believed for nothing`;
  });
  await check("chain", async () => {
    members = await loadChain(folder, trust, contract.schemas);
    found.runId = members[0].document.header.run_id;
    found.manifests = members.map(describe);
    return `${members.length} manifests in canonical form, each signed with ${trust.signedBy}; every output is among the signed digests`;
  });
  const body = (kind) => members.find(({ document }) => document.kind === kind)?.document.body;
  await check("links", async () => {
    checkRepeated(members);
    await checkChain(found.runId, members);
    return "one run, one plan; every input named by manifest and bundle; every planned trial and attempt accounted for";
  });
  await check("source", async () => {
    const source = body("source");
    const subject = await checkSourceFiles(source, (artifact) => needed(folder, artifact));
    const imported = source.import ? `; imported from \`${shown(source.import.file)}\`, which only \`assay verify\` does again` : "";
    if (subject === null)
      return `${source.files.length} files of a ${source.kind === "worktree" ? "work tree" : "run without a repository"}: no commit vouches for them${imported}`;
    const held = source.import ? `\`${shown(source.import.file)}\`` : `the ${grouped(source.files.length)} files`;
    return `commit ${source.commit.slice(0, 12)} holds ${held}: ${shown(subject)}${imported}`;
  });
  await check("files", async () => {
    const expected = new Map(members.flatMap(publishedFiles).map(([path, digest, size]) => [path, { digest, size }]));
    checkFiles(folder, expected);
    found.strangers = folder.paths().filter((path) => !expected.has(path));
    const strangers = found.strangers.length === 0 ? "no other file" : `not of the run: ${grouped(found.strangers.length)}`;
    return `${grouped(expected.size)} files at their paths; ${strangers}`;
  });
  Object.assign(found, { level: 1, established: trust.established, trustUnchecked: trust.unchecked });
  const [summary, publication] = [body("summary"), body("publication")];
  found.grade = publication.grade;
  await check("rows", async () => {
    rows = new NumberRows();
    let count = 0;
    const tables = new Set();
    for (const file of summary.files) {
      const read = await readRows(file, await needed(folder, file.artifact), contract.tables);
      ensure(!tables.has(file.table), "table_twice", `the summary names two files of the table \`${file.table}\``);
      tables.add(file.table);
      rows.add(file, read);
      count += read.length;
    }
    return `${grouped(count)} rows in ${summary.files.length} Parquet files, each with its own id`;
  });
  await check("summary", async () => {
    const checked = checkSummary(found.runId, summary, rows);
    addresses = checked.addresses;
    return `${grouped(checked.checked)} statistics and trial values are the rows’, bit for bit`;
  });
  await check("said", async () => {
    const count = checkEvidenceList(await needed(folder, body("collection").evidence), body("collection"), members);
    const policy = publication.keys.find(({ name }) => name === "trust.yaml");
    ensure(
      policy?.digest === publication.trust_policy,
      "keys_differ",
      "the published `trust.yaml` is not the trust policy of the publication",
    );
    found.ownPolicy = await checkOwnPolicy(folder, policy, members);
    checkListedRuns(found.runId, body("plan"), publication);
    checkTimes(members);
    return `the list of raw evidence has all ${grouped(count)} artifacts that manifests name; the run lists itself; no time is before what it rests on`;
  });
  await check("numbers", async () => {
    const numbers = readNumbers(await needed(folder, publication.numbers), found.runId, publication);
    checkNumbers(found.runId, numbers, rows, contract.tables);
    found.numbers = numbers;
    return `${grouped(numbers.length)} numbers: address, row, case, point, metric, value, unit and count agree`;
  });
  await check("whole", async () => {
    checkWhole(found.numbers, addresses);
    return `the ${grouped(addresses.length)} statistics of the summary are all published, in order`;
  });
  found.level = 2;
  found.unchecked = notChecked(members, trust, body);
  if (!found.ownPolicy)
    found.unchecked.push("The published `trust.yaml`: this page cannot read it, so the keys were not compared with it.");
}

/** Checks that the folder's own policy, which proves nothing of who signed, allows each signer; whether this page can read it. */
async function checkOwnPolicy(folder, { digest }, members) {
  let policy;
  try {
    policy = await readPolicy((await folder.textOf(digest, MAX_TRUST_BYTES)) ?? "");
  } catch (error) {
    if (error.code === "trust_policy") return false;
    throw error;
  }
  for (const { document, fingerprint, time } of members) {
    policy.key(fingerprint);
    policy.identify(fingerprint, KINDS[document.kind].role, time);
  }
  return true;
}

// Public keys that lie in the folder, by fingerprint.
async function keysOf(folder) {
  const keys = new Map();
  const paths = folder
    .paths()
    .filter((path) => path.endsWith(".pub"))
    .slice(0, MAX_KEYS);
  for (const path of paths) {
    const key = await readKey(await folder.textOf(folder.at(path), MAX_TRUST_BYTES).catch(() => null));
    if (key) keys.set(key.fingerprint, { ...key, name: `the folder’s ${shown(path)}` });
  }
  return keys;
}

/** Loads every manifest, from the Publication at its place back to the Source, each by the digests that the one after it pins. */
async function loadChain(folder, trust, schemas) {
  const head = await headOf(folder, schemas);
  const found = new Map();
  const pending = [{ input: head.input, by: null }];
  while (pending.length > 0) {
    const { input, by } = pending.pop();
    if (found.has(keyOf(input))) continue;
    const member = await load(folder, input, by, trust, schemas, head.runId);
    found.set(keyOf(input), member);
    const { kind, header } = member.document;
    pending.push(...header.inputs.map((one) => ({ input: one, by: kind })));
  }
  const order = Object.keys(KINDS);
  const place = ({ document }) => `${order.indexOf(document.kind)} ${chainName(document)}`;
  return [...found.values()].sort((one, other) => (place(one) < place(other) ? -1 : 1));
}

async function headOf(folder, schemas) {
  const [manifest, bundle] = ["chain/publication.json", "chain/publication.sigstore.json"].map((path) => {
    ensure(
      folder.at(path),
      "missing_stage",
      `the folder holds no \`${path}\``,
      "choose the folder of one published run: the one that has `chain` and `numbers.json` in it",
    );
    return folder.at(path);
  });
  const bytes = await folder.get(manifest, MAX_MANIFEST_BYTES);
  try {
    const { header } = readManifest(bytes, schemas);
    return { input: { kind: "publication", manifest, bundle }, runId: header.run_id };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal("manifest", `\`chain/publication.json\` is not a manifest: ${error.message}`);
  }
}

async function load(folder, input, by, trust, schemas, runId) {
  const { kind } = input;
  const take = async (what, digest, limit) => {
    const bytes = await folder.get(digest, limit);
    const from = by ? `, which the ${inWords(by)} was made from,` : "";
    ensure(
      bytes,
      `${what}_missing`,
      `the ${what} ${digest} of the ${inWords(kind)}${from} is missing`,
      "it was removed, or other bytes were put in its place",
    );
    return bytes;
  };
  const manifest = await take("manifest", input.manifest, MAX_MANIFEST_BYTES);
  const bundle = readBundle(await take("bundle", input.bundle, MAX_BUNDLE_BYTES));
  try {
    return await verifyOne(manifest, bundle, input, trust, schemas, runId);
  } catch (error) {
    if (error instanceof Refusal) error.message = `the ${inWords(kind)} does not verify: ${error.message}`;
    throw error;
  }
}

// In this order, so that nothing is read before what vouches for it was checked: signature, statement, signer, manifest.
async function verifyOne(manifest, bundle, input, trust, schemas, runId) {
  const key = trust.key(bundle.fingerprint);
  const holds = await key.verifies(pae(PAYLOAD_TYPE, bundle.payload), bundle.signature);
  ensure(holds, "bad_signature", `the signature is not by the key ${bundle.fingerprint} over this statement`);
  const statement = readStatement(bundle.payload);
  const signer = trust.identify(bundle.fingerprint, KINDS[statement.kind].role, statement.time);
  const stated = statement.subjects.get(`${statement.kind}.json`);
  ensure(stated, "subject_missing", `the statement lacks the subject \`${statement.kind}.json\``);
  ensure(
    stated === input.manifest,
    "subject_digest_mismatch",
    `the subject \`${statement.kind}.json\` is ${stated}, but the manifest is ${input.manifest}`,
  );
  const document = readManifest(manifest, schemas);
  checkStatement(statement, document, await subjectsOf(document, await digestOf(manifest)));
  ensure(document.kind === input.kind, "wrong_kind", `expected a ${inWords(input.kind)}, found a ${inWords(document.kind)}`);
  const { run_id: found } = document.header;
  ensure(found === runId, "wrong_run", `expected a manifest of the run \`${runId}\`, found one of \`${found}\``);
  return {
    document,
    statement,
    reference: input,
    signer,
    fingerprint: bundle.fingerprint,
    time: statement.time,
    unchecked: bundle.unchecked,
  };
}

const describe = ({ document, reference, signer, fingerprint, time }) => ({
  name: chainName(document),
  role: KINDS[document.kind].role,
  signer: signer.name,
  fingerprint,
  time,
  manifest: reference.manifest,
});

async function needed(folder, { name, digest }) {
  const bytes = await folder.get(digest);
  const path = `source/${name}`;
  const changed = bytes ? undefined : folder.at(path);
  ensure(
    changed === undefined,
    "artifact_corrupt",
    () => `\`${shown(path)}\` is not the published file: its bytes are ${changed}, not ${digest}`,
  );
  ensure(bytes, "artifact_absent", () => `the published \`${shown(name)}\` (${digest}) is missing`);
  return bytes;
}

function checkFiles(folder, expected) {
  for (const [path, { digest, size }] of expected) {
    const found = folder.at(path);
    ensure(found, "artifact_absent", () => `the published file \`${shown(path)}\` (${digest}) is missing`);
    ensure(
      found === digest,
      "artifact_corrupt",
      () => `\`${shown(path)}\` is not the published file: its bytes are ${found}, not ${digest}`,
    );
    const stated = size === null || size === String(folder.sizeOf(path));
    ensure(stated, "size_differs", () => `\`${shown(path)}\` has ${folder.sizeOf(path)} bytes, and its manifest says ${size}`);
  }
}

/** What `assay verify` does beyond this page, for this run. */
function notChecked(members, trust, body) {
  const all = [
    "Level 1: the plan was not made again from the source’s files; that it names this source and pins its files was.",
    "Level 2: the pinned queries were not asked again; the grade was not judged again by the claim rules; the report was not made again from the summary. Their bytes are the published ones. Rows that hold no statistic were not compared with the manifests, nor attempts with the plan.",
    "Level 3: raw evidence stays in the store of whoever measured, so no raw byte was read.",
    "Level 4: nothing was computed again from raw evidence.",
    "The warehouse: whether its tables hold these rows.",
    "Time: the times are what each signer asserts.",
  ];
  const searched = body("plan").workloads.filter((workload) => workload.search).map(({ name }) => `\`${shown(name)}\``);
  if (searched.length > 0)
    all.push(`Searches: the search result that ${searched.join(", ")} names was not read; only its bytes are those of the plan.`);
  const inBundles = [...new Set(members.flatMap(({ unchecked }) => unchecked))];
  if (inBundles.length > 0) all.push(`Bundles: ${inBundles.join(" and ")} are there, and were not checked.`);
  const inPolicy = trust.unchecked.map((name) => `\`${shown(name)}\``);
  if (inPolicy.length > 0) all.push(`The trust policy: it asks for ${inPolicy.join(", ")}, which this page does not check.`);
  if (body("source").kind === "git")
    all.push("The commit: that it is in a repository, and that no prepared SHA-1 collision hides in it.");
  return all;
}
