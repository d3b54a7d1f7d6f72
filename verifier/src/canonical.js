// Canonical JSON (RFC 8785): one document has one spelling. ECMAScript's own number and string forms are those of the RFC.

const MAX_DEPTH = 128;
const MAX_EXACT = Number.MAX_SAFE_INTEGER;

/** Thrown for a value that has no canonical form. */
export class NotCanonical extends Error {}

/** The canonical text of a JSON value. */
export function canonicalText(value, depth = 0) {
  if (depth > MAX_DEPTH) throw new NotCanonical("it is nested too deeply");
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return numberText(value);
  if (typeof value === "string") return stringText(value);
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item, depth + 1)).join(",")}]`;
  // Sorted by UTF-16 code units (RFC 8785, section 3.2.3), which is how ECMAScript compares strings.
  const members = Object.keys(value).sort((one, other) => (one < other ? -1 : 1));
  return `{${members.map((name) => `${stringText(name)}:${canonicalText(value[name], depth + 1)}`).join(",")}}`;
}

// Half of a surrogate pair is no Unicode text.
function stringText(text) {
  if (/\p{Cs}/u.test(text)) throw new NotCanonical("a text is not Unicode");
  return JSON.stringify(text);
}

// An integer beyond 2^53 - 1 loses digits as a double, so Assay writes such counts as text and refuses them here. Beyond 64 bits only
// a double can have been meant.
function numberText(number) {
  if (!Number.isFinite(number)) throw new NotCanonical("a number is not finite");
  const isInt64 = Number.isInteger(number) && number < 2 ** 64 && number >= -(2 ** 63);
  if (isInt64 && Math.abs(number) > MAX_EXACT) throw new NotCanonical("an integer is beyond 2^53-1");
  return String(number);
}

/**
 * The value of canonical bytes: `{ value }`, or `{ problem }`: "malformed" if they are no JSON, "not_canonical" if they are spelled
 * in another way. Duplicate members, white space, other numbers and bytes that are no UTF-8 are all refused by writing the value again.
 */
export function parseCanonical(text) {
  let value;
  try {
    value = parseJson(text);
  } catch {
    return { problem: "malformed" };
  }
  try {
    return canonicalText(value) === text ? { value } : { problem: "not_canonical" };
  } catch {
    return { problem: "not_canonical" };
  }
}

/** Parses JSON. A member called `__proto__` becomes an ordinary member. */
export function parseJson(text) {
  if (text === null) throw new SyntaxError("it is not UTF-8 text");
  return JSON.parse(text);
}
