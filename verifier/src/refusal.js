// Why a folder is not believed: the same words for the same faults as `assay verify` prints.

/** A check that failed. `code` is a stable word in snake_case; `hint` says what a reader can do. */
export class Refusal extends Error {
  constructor(code, message, hint = null) {
    super(message);
    this.name = "Refusal";
    this.code = code;
    this.hint = hint;
  }
}

/** Throws the Refusal `code` unless `holds`. */
export function ensure(holds, code, message, hint) {
  if (!holds) throw new Refusal(code, typeof message === "function" ? message() : message, hint);
}

const KEPT = 160;
// Control characters, and those that change the direction of text or have no width: a name must not disguise itself.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** A text from the folder made fit for people: cut short, with every character escaped that cannot be seen. */
export function shown(text) {
  const all = Array.from(String(text));
  const short = all.slice(0, KEPT).join("") + (all.length > KEPT ? "…" : "");
  return short.replace(UNSAFE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}
