// JSON Schema, as far as the schemas of manifests use it. The schemas are the contract as data (`manifests/schema`), put into the page
// when it is built.

const MAX_DEPTH = 64;
const FORMATS = {
  uint32: (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 32,
  int32: (value) => Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31,
  double: (value) => Number.isFinite(value),
};
const ANNOTATIONS = ["$schema", "$id", "$defs", "title", "description", "format"];

/**
 * Compares a value with a schema. Gives `{ problem, artifacts }`: the first problem with its place, or null; and every value that the
 * schema describes as an Artifact, as `{ place, artifact }`.
 */
export function checkSchema(value, schema) {
  const found = [];
  return { problem: problemIn(value, schema, { root: schema, found, place: "", depth: 0 }), artifacts: found };
}

function problemIn(value, schema, at) {
  if (schema === true) return null;
  if (schema === false || at.depth > MAX_DEPTH) return `\`${at.place}\` is not expected`;
  const found = [];
  const inner = { ...at, found, depth: at.depth + 1 };
  for (const [keyword, rule] of Object.entries(schema)) {
    if (ANNOTATIONS.includes(keyword)) continue;
    const problem = KEYWORDS[keyword]
      ? KEYWORDS[keyword](value, rule, inner, schema)
      : `\`${at.place}\` has a rule \`${keyword}\` that this page does not know`;
    if (problem) return problem;
  }
  at.found.push(...found);
  return null;
}

const wrong = (at, what) => `\`${at.place || "the document"}\` ${what}`;
const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const inside = (at, name) => ({ ...at, place: at.place ? `${at.place}.${name}` : String(name) });

const TYPES = {
  object: isMap,
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};

const KEYWORDS = {
  $ref(value, name, at) {
    const target = at.root.$defs?.[name.replace("#/$defs/", "")];
    if (target === undefined) return wrong(at, `has no schema \`${name}\``);
    const problem = problemIn(value, target, at);
    if (!problem && name === "#/$defs/Artifact") at.found.push({ place: at.place, artifact: value });
    return problem;
  },
  type(value, type, at, { format }) {
    const types = [type].flat();
    if (!types.some((name) => TYPES[name]?.(value))) return wrong(at, `is not of type ${types.join(" or ")}`);
    const isNumber = typeof value === "number";
    return isNumber && FORMATS[format] && !FORMATS[format](value) ? wrong(at, `is no ${format}`) : null;
  },
  const: (value, expected, at) => (value === expected ? null : wrong(at, `is not \`${expected}\``)),
  enum: (value, expected, at) => (expected.includes(value) ? null : wrong(at, "is none of the known words")),
  minimum: (value, least, at) => (typeof value === "number" && value < least ? wrong(at, `is below ${least}`) : null),
  maximum: (value, most, at) => (typeof value === "number" && value > most ? wrong(at, `is above ${most}`) : null),
  pattern: (value, pattern, at) =>
    typeof value === "string" && !new RegExp(pattern, "u").test(value) ? wrong(at, "is not spelled as it must be") : null,
  items(value, schema, at) {
    return Array.isArray(value) ? first(value, (item, place) => problemIn(item, schema, inside(at, place))) : null;
  },
  required(value, names, at) {
    const missing = isMap(value) ? names.find((name) => !Object.hasOwn(value, name)) : undefined;
    return missing === undefined ? null : wrong(inside(at, missing), "is missing");
  },
  properties(value, schemas, at) {
    if (!isMap(value)) return null;
    const known = Object.keys(value).filter((name) => Object.hasOwn(schemas, name));
    return first(known, (name) => problemIn(value[name], schemas[name], inside(at, name)));
  },
  additionalProperties(value, schema, at, { properties = {} }) {
    if (!isMap(value)) return null;
    const more = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
    return first(more, (name) => problemIn(value[name], schema, inside(at, name)));
  },
  anyOf: (value, schemas, at) => oneFits(value, schemas, at),
  oneOf: (value, schemas, at) => oneFits(value, schemas, at),
};

function oneFits(value, schemas, at) {
  return schemas.some((schema) => problemIn(value, schema, at) === null) ? null : wrong(at, "is none of what it may be");
}

function first(items, problemOf) {
  for (const [place, item] of items.entries()) {
    const problem = problemOf(item, place);
    if (problem) return problem;
  }
  return null;
}
