// The page: takes a folder and what a reader trusts, and shows what was found, the answer first. Texts of the folder reach the page as
// text only, never as markup.

import { chosenFiles, droppedFiles } from "./folder.js";
import { Refusal, shown } from "./refusal.js";
import { conclusion, grouped, LEVEL_2, shortened } from "./sentence.js";
import { MAX_TRUST_BYTES } from "./trust.js";
import { verifyFolder } from "./verify.js";

const MAX_SHOWN = 2_000;
const STATES = {
  holds: ["✓ holds", ""],
  open: ["– open", "open"],
  fails: ["✗ fails", "fails"],
  "not reached": ["· not reached", "later"],
};

const at = (id) => document.getElementById(id);

/** Starts the page. `contract` is what the repository wrote down of manifests and tables. */
export function start(contract) {
  const page = { contract, chosen: null, turn: 0 };
  // A submitted form would leave the page.
  at("form").addEventListener("submit", (event) => event.preventDefault());
  at("folder").addEventListener("change", (event) => {
    const { files } = event.target;
    if (files.length > 0) take(page, () => chosenFiles(files));
    // So that the same folder can be chosen again.
    event.target.value = "";
  });
  at("trust").addEventListener("change", () => page.chosen && verify(page));
  at("policy").addEventListener("change", (event) => readPolicyFile(page, event.target.files[0]));
  acceptDrops(page);
  if (!globalThis.crypto?.subtle) say("This browser offers no WebCrypto here. Open the page from a file, or over https.");
}

function acceptDrops(page) {
  const over = (is) => at("drop").classList.toggle("over", is);
  // The whole page takes the drop, so that a browser never opens a dropped file instead.
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget === null && over(false));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    const [file, ...more] = event.dataTransfer.files;
    if (more.length === 0 && /\.ya?ml$/.test(file?.name ?? "")) readPolicyFile(page, file);
    else take(page, () => droppedFiles(event.dataTransfer));
  });
}

async function take(page, files) {
  try {
    page.chosen = await files();
  } catch (error) {
    page.chosen = null;
    const known = error instanceof Refusal ? error : new Refusal("unreadable", "the browser cannot read what was dropped");
    return show({ failure: known, checks: [], manifests: [], numbers: [], strangers: [], unchecked: [], level: 0 }, "");
  }
  await verify(page);
}

async function readPolicyFile(page, file) {
  if (!file) return;
  if (file.size > MAX_TRUST_BYTES) return say(`A trust policy has at most ${MAX_TRUST_BYTES} bytes.`);
  at("trust").value = await file.text();
  if (page.chosen) await verify(page);
}

async function verify(page) {
  page.turn += 1;
  const { turn, chosen } = page;
  at("result").hidden = true;
  const progress = async (text) => {
    if (turn !== page.turn) throw new Refusal("superseded", "another verification has begun");
    say(`${text} …`);
    await nextFrame();
  };
  const found = await verifyFolder(chosen.files, at("trust").value, page.contract, progress);
  if (turn === page.turn) show(found, chosen.name);
}

// Lets the browser draw.
const nextFrame = () => new Promise((resume) => setTimeout(resume, 0));

function say(text) {
  at("status").textContent = text;
}

function show(found, folder) {
  const { failure, level } = found;
  const result = at("result");
  result.replaceChildren(
    element("h2", { tabindex: "-1" }, ...prose(conclusion(found))),
    ...(failure?.hint ? [element("p", { class: "hint quiet" }, ...prose(`hint: ${failure.hint}`))] : []),
    strip(found, folder),
    ...checksTable(found),
    ...list(
      "Not of the run",
      found.strangers.slice(0, MAX_SHOWN).map((path) => [element("code", {}, shown(path))]),
    ),
    ...list(
      "What was not checked",
      found.unchecked.map((text) => prose(text)),
    ),
    ...manifestsTable(found),
    ...numbersTable(found),
  );
  result.className = failure ? "fails" : "holds";
  Object.assign(result.dataset, { level, code: failure?.code ?? "", established: found.established === true });
  result.hidden = false;
  say("");
  // The answer first: a reader comes to it without a search.
  result.scrollIntoView();
  result.firstElementChild.focus({ preventScroll: true });
}

function strip({ failure, established, level, runId, trustedBy, grade, strangers }, folder) {
  const items = [
    ["Level", failure ? "none" : level === 2 ? LEVEL_2 : `${level} of 4`, failure],
    ["Signer", established ? "established" : failure ? "not judged" : "not established", !established],
    ["Trusted", shortened(trustedBy ?? "not judged"), !established],
    ["Run", runId ? shown(runId) : "unknown", false],
    ["Grade, as published", grade ? grade.given : "unknown", false],
    ["Folder", shown(folder) || "none", false],
    ["Strangers in the folder", failure ? "not judged" : grouped(strangers.length), strangers.length > 0],
  ];
  const item = ([name, value, caution]) =>
    element("div", caution ? { class: "caution" } : {}, element("dt", {}, name), element("dd", {}, ...prose(value)));
  return element("dl", { class: "strip" }, ...items.map(item));
}

function checksTable({ checks, failure }) {
  if (checks.length === 0) return [];
  const row = ({ name, level, state, detail }) => {
    const [word, className] = STATES[state];
    const code = state === "fails" && failure ? [" ", element("code", {}, failure.code)] : [];
    return element(
      "tr",
      className ? { class: className } : {},
      element("td", { class: "what" }, name),
      element("td", { class: "level" }, String(level)),
      element("td", { class: "word" }, word),
      element("td", { class: "detail" }, ...prose(detail), ...code),
    );
  };
  return [element("h3", {}, "Checks"), table("checks", ["Check", "Level", "Result", "What was found"], checks.map(row))];
}

function manifestsTable({ manifests }) {
  if (manifests.length === 0) return [];
  const cells = ({ name, role, signer, time, fingerprint }) => [
    element("td", {}, name),
    element("td", {}, role),
    element("td", {}, signer),
    element("td", {}, time.slice(0, 19).replace("T", " ")),
    element("td", { class: "digest" }, fingerprint),
  ];
  const rows = manifests.map((manifest) => element("tr", {}, ...cells(manifest)));
  const heads = ["Manifest", "Role", "Signer", "Asserted time, UTC", "Fingerprint of the key"];
  return details(`${manifests.length} manifests and their signers`, () => table("manifests", heads, rows));
}

function numbersTable({ numbers, failure }) {
  if (numbers.length === 0 || failure) return [];
  const cells = (number) => [
    ...["benchmark_case_id", "point_id", "metric", "statistic"].map((name) => element("td", {}, shown(number[name]))),
    element("td", { class: "number" }, String(number.value)),
    element("td", {}, shown(number.unit)),
    element("td", { class: "number" }, number.n),
    element("td", { class: "digest" }, shown(number.address)),
  ];
  const heads = ["Case", "Point", "Metric", "Statistic", ["Value"], "Unit", ["Trials"], "Address"];
  const rows = () => numbers.slice(0, MAX_SHOWN).map((number) => element("tr", {}, ...cells(number)));
  const title = `${grouped(numbers.length)} numbers${numbers.length > MAX_SHOWN ? `, the first ${grouped(MAX_SHOWN)} shown` : ""}`;
  return details(title, () => table("numbers", heads, rows()));
}

// What is inside is made when it is first opened: a thousand numbers take longer to lay out than to verify.
function details(title, make) {
  const made = element("details", {}, element("summary", {}, title));
  made.addEventListener("toggle", () => made.append(make()), { once: true });
  return [made];
}

function list(title, items) {
  if (items.length === 0) return [];
  return [element("h3", {}, title), element("ul", { class: "list" }, ...items.map((item) => element("li", {}, ...item)))];
}

function table(name, heads, rows) {
  // The head of a column of numbers stands in a list of its own, and over their end.
  const headOf = (text) =>
    element("th", Array.isArray(text) ? { scope: "col", class: "number" } : { scope: "col" }, ...[text].flat());
  const head = element("thead", {}, element("tr", {}, ...heads.map(headOf)));
  const whole = element("table", { class: name }, head, element("tbody", {}, ...rows));
  // What scrolls can be reached by keyboard.
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, whole);
}

/** A text in which backticks hold what is code. */
function prose(text) {
  return text.split("`").map((part, place) => (place % 2 === 1 ? element("code", {}, part) : part));
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}
