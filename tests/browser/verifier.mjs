// Opens the second verifier in headless Chromium and gives it folders:
//
//     node verifier.mjs VERIFY.html CASES.json [SCREENSHOTS_FOLDER]
//
// CASES.json is a list of `{name, folder, trust}`, `trust` being what is pasted. Prints one JSON document: for each case what the page
// concludes, and what is wrong with the page itself (`findings`): a request, an error, a text that cannot be read, something that the
// keyboard does not reach. With a folder it leaves screenshots of the cases there whose names begin with `shot`.

import { mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

import { FLAGS } from "./flags.mjs";
import { inspect } from "./inspect.mjs";

const CONTRAST = 4.5; // WCAG 2 AA for text
const PATIENCE = 60_000; // milliseconds for one folder: far longer than any takes
const [verifier, list, shots] = process.argv.slice(2);
if (!list) {
  console.error("usage: node verifier.mjs VERIFY.html CASES.json [SCREENSHOTS_FOLDER]");
  process.exit(2);
}
const address = pathToFileURL(resolve(verifier)).href;
const cases = JSON.parse(readFileSync(list, "utf8"));
if (shots) mkdirSync(shots, { recursive: true });

const findings = [];
const results = {};
const profile = mkdtempSync(join(tmpdir(), "assay-browser-"));
try {
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium",
    args: FLAGS,
    headless: true,
  });
  for (const one of cases) {
    const page = await open(browser);
    results[one.name] = await verify(page, one);
    if (shots && one.name.startsWith("shot")) await shoot(page, one.name);
    if (one === cases[0] || one === cases.at(-1)) await look(page, one.name);
    await page.close();
  }
  if (cases.length > 0) {
    await empty(browser);
    await drop(browser, cases[0]);
    await prints(browser, cases[0]);
  }
  await browser.close();
} finally {
  rmSync(profile, { recursive: true, force: true });
}
console.log(JSON.stringify({ results, findings }));

async function open(browser) {
  const page = await browser.newPage();
  const note = (what) => findings.push(what);
  page.on(
    "request",
    (request) => request.url() !== address && !request.url().startsWith("blob:") && note(`request: ${request.url()}`),
  );
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && note(`console: ${message.text()}`));
  page.on("pageerror", (error) => note(`error: ${error}`));
  await page.goto(address, { waitUntil: "load" });
  return page;
}

// A folder as a keyboard's user gives it: by the file input.
async function verify(page, { folder, trust }) {
  await page.fill("#trust", trust ?? "");
  await page.setInputFiles("#folder", resolve(folder));
  return concluded(page);
}

async function concluded(page) {
  await page.waitForSelector("#result:not([hidden])", { timeout: PATIENCE });
  return page.evaluate(() => {
    const result = document.getElementById("result");
    const texts = (selector) => [...result.querySelectorAll(selector)].map((element) => element.textContent.trim());
    const { level, code, established } = result.dataset;
    return {
      level: Number(level),
      code,
      established: established === "true",
      sentence: texts("h2")[0],
      checks: texts(".checks tbody tr"),
      lists: texts(".list li"),
      text: result.innerText,
    };
  });
}

async function look(page, where) {
  for (const width of [360, 1280]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      const seen = await page.evaluate(inspect, CONTRAST);
      const note = (what) => findings.push(`${where}, ${width} px, ${colorScheme}: ${what}`);
      if (seen.overflow > 0) note(`the page is ${seen.overflow} px wider than the screen: ${seen.wide}`);
      for (const text of seen.faint) note(`contrast ${text}`);
      for (const heading of seen.headings) note(`headings do not nest: ${heading}`);
    }
  }
}

// Before anything was dropped: what can be read, and that Tab reaches everything that can be used, and shows it.
async function empty(browser) {
  const page = await open(browser);
  await look(page, "at first");
  if (shots) await shoot(page, "shot-empty");
  await page.reload();
  const wanted = new Set(["theme-system", "trust", "policy", "folder"]);
  for (let tab = 0; tab < 12; tab += 1) {
    await page.keyboard.press("Tab");
    const { id, outlined } = await page.evaluate(() => {
      const focused = document.activeElement;
      // A hidden input shows its focus on its label.
      const shown = focused.matches(".hidden-input") ? focused.nextElementSibling : focused;
      const style = getComputedStyle(shown);
      return { id: focused.id, outlined: style.outlineStyle !== "none" && style.outlineWidth !== "0px" };
    });
    if (wanted.delete(id) && !outlined) findings.push(`the focus cannot be seen on #${id}`);
  }
  if (wanted.size > 0) findings.push(`the keyboard does not reach ${[...wanted].join(", ")}`);
  await page.close();
}

// A folder as a mouse's user gives it: dropped from outside. The browser reads the real folder.
async function drop(browser, { folder, trust }) {
  const page = await open(browser);
  await page.fill("#trust", trust ?? "");
  const box = await page.locator("#drop").boundingBox();
  const session = await browser.newCDPSession(page);
  const place = { x: Math.round(box.x + box.width / 2), y: Math.round(box.y + 10) };
  const data = { items: [], files: [resolve(folder)], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, ...place, data });
  results.dropped = await concluded(page);
  await page.close();
}

async function prints(browser, one) {
  const page = await open(browser);
  await verify(page, one);
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const [paper, form] = await page.evaluate(() => [
    getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.getElementById("form")).display,
  ]);
  if (paper !== "rgb(255, 255, 255)") findings.push(`paper is not white: ${paper}`);
  if (form !== "none") findings.push("the form is printed");
  if (shots) await page.pdf({ path: join(shots, "print.pdf"), preferCSSPageSize: true });
  await page.close();
}

async function shoot(page, name) {
  for (const [width, colorScheme] of [
    [360, "light"],
    [360, "dark"],
    [1280, "light"],
    [1280, "dark"],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
  }
}
