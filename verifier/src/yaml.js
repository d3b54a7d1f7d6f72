// YAML, as far as a TrustPolicy uses it: maps and lists by indentation, literal blocks, quoted and plain texts, lists in brackets.
// Whatever else YAML has (tags, anchors, merge keys, folded texts, several documents) is refused, so that no file means two things.

const MAX_LINES = 10_000;
const MAX_DEPTH = 16;

export class YamlError extends Error {
  constructor(line, message) {
    super(`line ${line}: ${message}`);
  }
}

/** Parses a document; every scalar is a text. */
export function parseYaml(text) {
  const raw = text.split(/\r?\n/);
  if (raw.length > MAX_LINES) throw new YamlError(MAX_LINES, "the file is too long");
  const lines = { raw, place: 0 };
  if (peek(lines)?.text === "---") lines.place += 1;
  const value = readNode(lines, 0, 0);
  const rest = peek(lines);
  if (rest) throw new YamlError(rest.number, "this is indented in a way that fits nothing above");
  return value;
}

// The next line that says something: its indentation and its text without a comment.
function peek(lines) {
  for (; lines.place < lines.raw.length; lines.place += 1) {
    const line = lines.raw[lines.place];
    if (/\t/.test(/^\s*/.exec(line)[0])) throw new YamlError(lines.place + 1, "a tab indents this line");
    const text = withoutComment(line).trim();
    if (text !== "") return { indent: line.length - line.trimStart().length, text, number: lines.place + 1 };
  }
  return null;
}

function withoutComment(line) {
  let quote = null;
  for (let place = 0; place < line.length; place += 1) {
    const character = line[place];
    if (quote) {
      if (quote === '"' && character === "\\") place += 1;
      else if (character === quote) quote = null;
    } else if ((character === '"' || character === "'") && /[\s:[{,-]/.test(line[place - 1] ?? " ")) quote = character;
    else if (character === "#" && /\s/.test(line[place - 1] ?? " ")) return line.slice(0, place);
  }
  return line;
}

function readNode(lines, least, depth) {
  const next = peek(lines);
  if (!next || next.indent < least) return null;
  if (depth > MAX_DEPTH) throw new YamlError(next.number, "this is nested too deeply");
  return isItem(next.text) ? readList(lines, next.indent, depth) : readMap(lines, next.indent, depth);
}

const isItem = (text) => text === "-" || text.startsWith("- ");

function readList(lines, indent, depth) {
  const items = [];
  for (let next = peek(lines); next && next.indent === indent && isItem(next.text); next = peek(lines)) {
    const rest = next.text.slice(1).trimStart();
    if (rest !== "" && !/^("(?:[^"\\]|\\.)*"|[A-Za-z_][\w.-]*):(\s|$)/.test(rest)) {
      lines.place += 1;
      items.push(scalar(rest, next.number));
      continue;
    }
    // The item's own indentation begins after the dash, so the dash becomes a space.
    lines.raw[lines.place] = lines.raw[lines.place].replace("-", " ");
    items.push(readNode(lines, indent + 1, depth + 1));
  }
  return items;
}

function readMap(lines, indent, depth) {
  const map = {};
  for (let next = peek(lines); next && next.indent === indent && !isItem(next.text); next = peek(lines)) {
    const [, name, rest] = /^("(?:[^"\\]|\\.)*"|[A-Za-z_][\w./-]*):(?:\s+(.*))?$/.exec(next.text) ?? [];
    if (name === undefined) throw new YamlError(next.number, "expected `name: value`");
    const key = name.startsWith('"') ? scalar(name, next.number) : name;
    if (Object.hasOwn(map, key)) throw new YamlError(next.number, `\`${key}\` is there twice`);
    lines.place += 1;
    Object.defineProperty(map, key, { value: readValue(lines, rest ?? "", indent, depth, next.number), enumerable: true });
  }
  return map;
}

function readValue(lines, rest, indent, depth, number) {
  if (/^\|[-+]?$/.test(rest)) return readBlock(lines, indent, rest);
  if (rest !== "") return scalar(rest, number);
  // A list may stand as far left as the name that it belongs to.
  const next = peek(lines);
  const least = next && isItem(next.text) && next.indent === indent ? indent : indent + 1;
  return readNode(lines, least, depth + 1);
}

function readBlock(lines, indent, style) {
  const found = [];
  let own = null;
  for (; lines.place < lines.raw.length; lines.place += 1) {
    const line = lines.raw[lines.place];
    const deep = line.length - line.trimStart().length;
    if (line.trim() === "") {
      found.push("");
      continue;
    }
    if (deep <= indent || (own !== null && deep < own)) break;
    own ??= deep;
    found.push(line.slice(own));
  }
  const body = found.join("\n").replace(/\n+$/, "");
  return style === "|-" ? body : `${body}\n`;
}

function scalar(text, number) {
  if (/^(\{|\[\s*["{])/.test(text)) return json(text, number);
  if (text.startsWith("[")) return flow(text, number);
  if (text.startsWith('"')) {
    try {
      const value = JSON.parse(text);
      if (typeof value === "string") return value;
    } catch {
      // Told below.
    }
    throw new YamlError(number, "this text in quotes does not end, or has an escape that JSON has not");
  }
  if (text.startsWith("'")) {
    if (!/^'(?:[^']|'')*'$/.test(text)) throw new YamlError(number, "this text in quotes does not end");
    return text.slice(1, -1).replaceAll("''", "'");
  }
  if (/^[&*!|>%@`{}\]?,]/.test(text) || / #|: /.test(text))
    throw new YamlError(number, "this is YAML that a trust policy does not need");
  return text;
}

// JSON is YAML's flow style.
function json(text, number) {
  try {
    return JSON.parse(text);
  } catch {
    throw new YamlError(number, "a map or list in brackets is neither JSON nor a list of plain words");
  }
}

function flow(text, number) {
  if (!/^\[[^[\]{}"']*\]$/.test(text)) throw new YamlError(number, "a list in brackets holds plain words");
  const inner = text.slice(1, -1).trim();
  return inner === "" ? [] : inner.split(",").map((word) => scalar(word.trim(), number));
}
