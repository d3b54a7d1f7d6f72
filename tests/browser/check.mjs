// Opens a report in headless Chromium and asserts what a reader needs of it:
//
//     node check.mjs [--empty | --foreign] REPORT.html [SCREENSHOTS_FOLDER]
//
// At a telephone's width and a desk's, light and dark: nothing fails, nothing is requested, nothing is cut off, every link
// arrives, every picture has a name, all text can be read, and the keyboard reaches the numbers, and all else that can be used.
// `--empty` is for a run of which no trial counts: such a page has no number and no picture, and says so. `--foreign` is for numbers of
// another tool: they have no lineage in Assay, the page has a table of them, and its first words are that it is foreign. Exits with 1 and one
// line for each finding. With a folder it leaves screenshots there, for the eyes that no assertion replaces.

import { mkdtempSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

import { FLAGS } from "./flags.mjs";
import { inspect } from "./inspect.mjs";

const WIDTHS = [360, 1280];
const SCHEMES = ["light", "dark"];
const CONTRAST = 4.5; // WCAG 2 AA for text
const MAX_TABS = 12; // the theme, then the first number: a reader without a mouse is not made to wait

const given = process.argv.slice(2);
const [isEmpty, isForeign] = ["--empty", "--foreign"].map((option) => given[0] === option);
const [report, shots] = isEmpty || isForeign ? given.slice(1) : given;
if (!report) {
  console.error("usage: node check.mjs [--empty | --foreign] REPORT.html [SCREENSHOTS_FOLDER]");
  process.exit(2);
}
const address = pathToFileURL(resolve(report)).href;
if (shots) mkdirSync(shots, { recursive: true });

const findings = [];
const profile = mkdtempSync(join(tmpdir(), "assay-browser-"));
try {
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium",
    args: FLAGS,
    headless: true,
  });
  for (const width of WIDTHS) {
    for (const scheme of SCHEMES) await look(browser, width, scheme);
  }
  await keys(browser);
  await toggles(browser);
  await prints(browser);
  await browser.close();
} finally {
  rmSync(profile, { recursive: true, force: true });
}
for (const finding of findings) console.error(finding);
console.log(`${report}: ${findings.length === 0 ? "ok" : `${findings.length} findings`}`);
process.exit(findings.length === 0 ? 0 : 1);

async function open(browser, width, scheme) {
  const page = await browser.newPage();
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: scheme });
  const requests = [];
  const errors = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(address, { waitUntil: "load" });
  return { page, requests, errors };
}

async function look(browser, width, scheme) {
  const where = `${width} px, ${scheme}`;
  const { page, requests, errors } = await open(browser, width, scheme);
  const expect = (holds, text) => holds || findings.push(`${where}: ${text}`);

  // Everything that a reader may open is open, so that what is closed is checked too.
  if (shots) await page.screenshot({ path: join(shots, `${width}-${scheme}.png`), fullPage: true });
  const seen = await page.evaluate(inspect, CONTRAST);
  expect(seen.overflow <= 0, `the page is ${seen.overflow} px wider than the screen: ${seen.wide}`);
  for (const link of seen.dead) expect(false, `nothing is called ${link}`);
  for (const picture of seen.nameless) expect(false, `a picture has no name: ${picture}`);
  for (const heading of seen.headings) expect(false, `headings do not nest: ${heading}`);
  for (const text of seen.faint) expect(false, `contrast ${text}`);
  if (isEmpty) {
    expect(seen.pictures === 0, "a run without a number has a picture");
    expect(seen.links === 0, "a run without a number links to one");
    const says = seen.sentences.length > 0 && seen.sentences.every((sentence) => sentence.includes("no number"));
    expect(says, `it does not begin by saying that there is no number: "${seen.sentences.join(" ")}"`);
  } else if (isForeign) {
    expect(seen.rows > 0, "there is no table with a row that can be seen");
    expect(seen.links === 0, "a number of another tool links to a lineage");
    expect(seen.begin.includes("foreign"), `it does not begin by saying that it is foreign: "${seen.begin}"`);
  } else {
    expect(seen.pictures > 0, "there is no picture");
    expect(seen.links > 0, "no number links to its lineage");
    await follows(page, where, expect);
  }
  const beyond = requests.filter((request) => !request.startsWith(address));
  expect(beyond.length === 0, `the page requests ${beyond.join(", ")}`);
  for (const error of errors) expect(false, `console: ${error}`);
  await page.close();
}

// A reader without a mouse comes to the first number, and from there to where it comes from.
async function follows(page, where, expect) {
  const reached = await tabsToNumber(page);
  expect(reached !== null && reached.outlined, `the keyboard reaches no number within ${MAX_TABS} tabs, or its focus cannot be seen`);
  if (reached) {
    await page.keyboard.press("Enter");
    const shown = await page.evaluate(() => {
      const target = document.querySelector(":target");
      return target !== null && target.getBoundingClientRect().width > 0;
    });
    expect(shown, "the first number does not open its lineage");
    if (shots) await page.screenshot({ path: join(shots, `${where.replace(/[^0-9a-z]+/g, "-")}-lineage.png`) });
  }
}

// Tab comes to everything that can be used, and each shows that it has the focus.
async function keys(browser) {
  const { page } = await open(browser, 1280, "light");
  const wanted = await page.evaluate(() => {
    // Of a group of radio buttons Tab reaches one; the arrows do the rest.
    const usable = "a[href], button, summary, input:not([type=radio]), input[type=radio]:checked";
    const shown = [...document.querySelectorAll(usable)].filter((element) => element.checkVisibility());
    shown.forEach((element, place) => (element.dataset.place = place));
    return shown.map((element) => element.outerHTML.slice(0, 90).replace(/\s+/g, " "));
  });
  const missing = new Map(wanted.entries());
  const unseen = [];
  // Parts that can be scrolled take the focus too.
  for (let tab = 0; tab < 2 * wanted.length + MAX_TABS && missing.size > 0; tab += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const { place } = document.activeElement.dataset;
      if (place === undefined) return null;
      // A style of none keeps its width.
      const style = getComputedStyle(document.activeElement);
      return { place: Number(place), outlined: style.outlineStyle !== "none" && style.outlineWidth !== "0px" };
    });
    if (focused && missing.delete(focused.place) && !focused.outlined) unseen.push(wanted[focused.place]);
  }
  const some = (list) => `${list.length} of ${wanted.length}: ${list.slice(0, 3).join(", ")}`;
  if (missing.size > 0) findings.push(`the keyboard does not reach ${some([...missing.values()])}`);
  if (unseen.length > 0) findings.push(`the focus cannot be seen on ${some(unseen)}`);
  await page.close();
}

// The reader's choice goes before the system's.
async function toggles(browser) {
  const { page } = await open(browser, 1280, "light");
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await paper();
  await page.check("#theme-dark");
  if ((await paper()) === before) findings.push("the theme does not change to dark");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.check("#theme-light");
  if ((await paper()) !== before) findings.push("the theme does not change back to light");
  await page.close();
}

// A4 without what only a screen can do.
async function prints(browser) {
  const { page } = await open(browser, 794, "light");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const seen = await page.evaluate(() => ({
    paper: getComputedStyle(document.body).backgroundColor,
    theme: getComputedStyle(document.querySelector(".theme")).display,
  }));
  if (seen.paper !== "rgb(255, 255, 255)") findings.push(`paper is not white: ${seen.paper}`);
  if (seen.theme !== "none") findings.push("the theme's buttons are printed");
  if (shots) await page.pdf({ path: join(shots, "print.pdf"), preferCSSPageSize: true });
  await page.close();
}

async function tabsToNumber(page) {
  for (let tab = 0; tab < MAX_TABS; tab += 1) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const focused = document.activeElement;
      if (!focused?.matches("a.number")) return null;
      const style = getComputedStyle(focused);
      return { outlined: style.outlineStyle !== "none" && style.outlineWidth !== "0px" };
    });
    if (found) return found;
  }
  return null;
}
