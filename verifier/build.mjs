// Makes the page from its sources, as one file: build.mjs MODULES FILE
//
// MODULES is a folder with the packages of package-lock.json in `node_modules`. The same sources give the same bytes. Nothing is
// shortened: whoever doubts the page can read it.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { readContract } from "./contract.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const [modules, output] = process.argv.slice(2).map((path) => resolve(path));
if (!output) {
  console.error("usage: build.mjs MODULES FILE");
  process.exit(2);
}
const read = (path) => readFileSync(join(here, path), "utf8");
const packages = ["hyparquet", "fzstd"];

const { build } = createRequire(join(modules, "package.json"))("esbuild");
const contract = JSON.stringify(readContract(root));
const bundled = await build({
  stdin: {
    contents: `import { start } from "./src/page.js";\nstart(JSON.parse(${JSON.stringify(contract)}));\n`,
    resolveDir: here,
  },
  absWorkingDir: here,
  nodePaths: [join(modules, "node_modules")],
  bundle: true,
  charset: "ascii",
  format: "iife",
  legalComments: "none",
  target: "es2022",
  write: false,
});
// Where packages lie differs from machine to machine.
const script = bundled.outputFiles[0].text.replace(/^(\s*\/\/ )\S*\/node_modules\//gm, "$1node_modules/");
const style = read("style.css");
const source = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const [, version] = /^version = "(.*)"$/m.exec(readFileSync(join(root, "Cargo.toml"), "utf8"));
const parts = {
  policy: `default-src 'none'; script-src ${source(script)}; style-src ${source(style)}; base-uri 'none'; form-action 'none'`,
  style,
  version,
  script,
  // Two hyphens would end a comment of HTML early.
  licences: packages.map(licence).join("\n").replaceAll("--", "- -"),
};
const page = read("page.html").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
writeFileSync(output, page);
console.log(`${createHash("sha256").update(page).digest("hex")}  ${output}`);

function licence(name) {
  const folder = join(modules, "node_modules", name);
  const { version: own } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return `This page contains ${name} ${own}:\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
}
