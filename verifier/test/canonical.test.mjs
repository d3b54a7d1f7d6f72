// Canonical JSON against the examples of RFC 8785, and the refusals that Assay adds.

import assert from "node:assert/strict";
import { test } from "node:test";

import { canonicalText, parseCanonical } from "../src/canonical.js";

test("the examples of RFC 8785 hold", () => {
  // Sections 3.2.2 and 3.2.3.
  const numbers = JSON.parse(String.raw`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`);
  const expected = String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`;
  assert.equal(canonicalText(numbers), expected);
  const sorted = JSON.parse(String.raw`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`);
  assert.equal(canonicalText(sorted), '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}');
});

test("the numbers of RFC 8785, appendix B", () => {
  const bits = (hex) => new DataView(Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16)).buffer).getFloat64(0);
  const cases = {
    "0000000000000000": "0",
    8000000000000000: "0",
    "0000000000000001": "5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    becbf647612f3696: "-0.0000033333333333333333",
  };
  for (const [hex, text] of Object.entries(cases)) assert.equal(canonicalText(bits(hex)), text, hex);
});

test("only the canonical form is accepted", () => {
  assert.deepEqual(parseCanonical('{"a":1,"b":[true,null]}'), { value: { a: 1, b: [true, null] } });
  const other = [
    '{"b":1,"a":2}',
    '{"a": 1}',
    '{"a":1,"a":1}',
    "1.0",
    "-0",
    "1e2",
    '"\\u0041"',
    '"\\/"',
    "9007199254740992",
    '"\\ud800"',
    "1e400",
    '{"a":1}\n',
  ];
  for (const text of other) assert.equal(parseCanonical(text).problem, "not_canonical", text);
  for (const text of ["", "{", "\ufeff{}", "NaN", null]) assert.equal(parseCanonical(text).problem, "malformed", String(text));
  assert.equal(parseCanonical("[".repeat(200) + "]".repeat(200)).problem, "not_canonical", "too deep");
  assert.equal(canonicalText(JSON.parse('{"__proto__":1}')), '{"__proto__":1}');
});
