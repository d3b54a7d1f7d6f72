// Measures how long headless Chromium takes to open a page:
//
//     node opening.mjs PAGE.html [TIMES]
//
// Prints a line for each time, in milliseconds: until the document is read, until `load`, and until the frame after it is drawn, in which all of the page
// has been laid out. Each time in a window of its own, at a desk's width.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

import { FLAGS } from "./flags.mjs";

const [file, times = "5"] = process.argv.slice(2);
if (!file) {
  console.error("usage: node opening.mjs PAGE.html [TIMES]");
  process.exit(2);
}
const profile = mkdtempSync(join(tmpdir(), "assay-browser-"));
try {
  const browser = await chromium.launchPersistentContext(profile, { executablePath: "/usr/bin/chromium", args: FLAGS, headless: true });
  for (let time = 0; time < Number(times); time += 1) {
    const page = await browser.newPage();
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.goto(pathToFileURL(resolve(file)).href, { waitUntil: "load" });
    const drawn = await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))),
    );
    const [read, loaded] = await page.evaluate(() => {
      const [navigation] = performance.getEntriesByType("navigation");
      return [navigation.domInteractive, navigation.loadEventEnd];
    });
    console.log(`read ${read.toFixed(0)} ms, loaded ${loaded.toFixed(0)} ms, drawn ${drawn.toFixed(0)} ms`);
    await page.close();
  }
  await browser.close();
} finally {
  rmSync(profile, { recursive: true, force: true });
}
